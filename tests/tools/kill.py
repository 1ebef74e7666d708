"""Swaps by callers that repeat until they know, while the gate is killed again and again:
`python tests/tools/kill.py SLUICE [--long] [--seed N]`.

The simulator behind the gate is not idempotent: what reaches it twice happens
twice. Once it answers always; once a part of its answers is lost. Nothing may
happen twice; what was acknowledged is given again, byte for byte; nothing that
happened is ever called not executed; everything that happened stands in the
audit chain. Short: 600 swaps and 5 kills; long: 10,000 swaps and at least 30.
"""

import argparse
import itertools
import json
import os
import random
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from http.client import HTTPConnection, HTTPException
from pathlib import Path

from gate import Process, TOKEN, configuration, listens, simulator, write
from report import Report

CALLERS = 32
# How long a caller goes on asking after one swap.
PATIENCE_SECONDS = 90
# Lost answers, as the simulator names them, in percent of the calls.
LOSSES = {"resetAfterReceiving": 10, "closeAfterReceiving": 10, "hang": 5, "hangBeforeEffect": 5}
TIMES = """
[timeouts]
answer_ms = 1_000
connect_ms = 500
tls_handshake_ms = 500
write_ms = 500
"""


class Gate:
    """A gate that is killed and begins anew, at the same address and with the same books."""

    def __init__(self, binary, upstream, folder, more=""):
        self.binary, self.folder, self.kills = binary, Path(folder), 0
        self.port = free_port()
        text = configuration(upstream, "127.0.0.1:9").replace('listen = "127.0.0.1:0"', f'listen = "127.0.0.1:{self.port}"', 1)
        write(self.folder, text + TIMES + more)
        self.process = None

    def start(self):
        command = [self.binary, "serve", "--config", self.folder / "sluice.toml"]
        child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, encoding="utf-8")
        self.process, addresses = Process(child), {}
        self.process.until(lambda line: listens(line, addresses))

    @property
    def audit(self):
        return self.folder / "sluice-audit"

    def kill(self):
        self.process.child.send_signal(signal.SIGKILL)
        self.process.child.wait()
        self.kills += 1

    def end(self):
        self.process.child.terminate()
        return self.process.child.wait(60)


class Swaps:
    """What the callers were told of each swap."""

    def __init__(self, count, name):
        self.ids = [f"{name.replace(' ', '-')}-{n}" for n in range(count)]
        self.next, self.lock = 0, threading.Lock()
        # By requestId: the acknowledged answer, or None where nobody knows.
        self.acknowledged, self.lies = {}, []
        # The longest that a call took, in seconds.
        self.longest = 0

    def take(self):
        with self.lock:
            self.next += 1
            return self.ids[self.next - 1] if self.next <= len(self.ids) else None

    def left(self):
        return len(self.ids) - self.next

    def told(self):
        known = sum(1 for told in self.acknowledged.values() if told)
        return f"{known} acknowledged, {len(self.acknowledged) - known} in doubt"


def post(port, request_id, amount="10", token=TOKEN):
    """One try: status, outcome and body; None if there was no answer."""
    body = json.dumps({
        "requestId": request_id,
        "source": {"chain": "POLYGON", "currency": "usdt", "amount": amount},
        "destination": {"chain": "POLYGON", "currency": "usdc", "walletAddress": "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed"},
    })
    connection = HTTPConnection("127.0.0.1", port, timeout=30)
    try:
        headers = {"Authorization": token, "Content-Type": "application/json", "Prefer": "wait=2"}
        connection.request("POST", "/v2/wallets/swaps", body, headers)
        answer = connection.getresponse()
        return answer.status, answer.headers["Sluice-Outcome"], answer.read()
    except (OSError, HTTPException):
        return None
    finally:
        connection.close()


def careful(work, swaps):
    """A thread that ends badly is told, and stops the others."""
    try:
        work()
    except Exception as why:  # noqa: BLE001: whatever it is, the run has failed
        swaps.lies.append(f"a thread ended: {why!r}")
        swaps.next = len(swaps.ids)


def caller(gates, swaps, effects_of):
    """A repeat goes to the next gate."""
    turns = itertools.cycle(gates)
    while request_id := swaps.take():
        until = time.monotonic() + PATIENCE_SECONDS
        swaps.acknowledged[request_id] = None
        while (begin := time.monotonic()) < until:
            told = post(next(turns).port, request_id)
            swaps.longest = max(swaps.longest, time.monotonic() - begin)
            if told is None:
                time.sleep(0.05)
                continue
            status, outcome, body = told
            if outcome == "executed":
                swaps.acknowledged[request_id] = (status, body)
                break
            if outcome == "not-executed" and effects_of(request_id) > 0:
                swaps.lies.append(f"{request_id}: {status} says not executed, and it was")
            if status == 409 and b"OUTCOME_UNKNOWN" in body:
                break
            time.sleep(0.05)


def killer(gate, swaps, kills, chance):
    """Kills at random moments: so often at least, and as long as there are swaps to make."""
    while gate.kills < kills or swaps.left() > 0:
        time.sleep(chance.uniform(0.2, 1.5))
        gate.kill()
        gate.start()
        if gate.kills >= kills and swaps.left() == 0:
            return


def journal(upstream):
    connection = HTTPConnection(upstream, timeout=30)
    connection.request("GET", "/simulator/journal?last=0")
    return json.loads(connection.getresponse().read())["effectsByRequest"]


def lose(upstream):
    for kind, percent in LOSSES.items():
        connection = HTTPConnection(upstream, timeout=30)
        connection.request("POST", "/simulator/faults", json.dumps({"kind": kind, "percent": percent}))
        if connection.getresponse().status != 201:
            raise RuntimeError("the simulator refused a fault")


def run(binary, report, name, count, kills, losing, seed):
    chance = random.Random(seed)
    with simulator(binary, "--latency-ms", "2") as upstream, tempfile.TemporaryDirectory(prefix="sluice-") as folder:
        if losing:
            lose(upstream)
        gate, swaps = Gate(binary, upstream, folder), Swaps(count, name)
        gate.start()
        effects_of = lambda request_id: journal(upstream).get(request_id, 0)
        work = [lambda: caller([gate], swaps, effects_of)] * CALLERS + [lambda: killer(gate, swaps, kills, chance)]
        spent = together(work, swaps)
        check_swaps(report, name, [gate], swaps, upstream)
        report.check(f"{name}: killed {gate.kills} times", "" if gate.kills >= kills else f"{kills} were wanted")
        code = gate.end()
        report.check(f"{name}: it ends in order", "" if code == 0 else f"exit code {code}")
        check_audit(binary, report, name, [gate.audit], journal(upstream))
        print(f"{name}: {count} swaps in {spent:.0f} s, {gate.kills} kills, {swaps.told()}")


def together(jobs, swaps):
    """All at once; how many seconds they took."""
    begin = time.monotonic()
    threads = [threading.Thread(target=careful, args=(job, swaps)) for job in jobs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return time.monotonic() - begin


def check_swaps(report, name, gates, swaps, upstream):
    """What happened, beside what was told; and what is told when it is asked again."""
    turns = itertools.cycle(gates)
    again_of = lambda k: post(next(turns).port, k)
    effects = journal(upstream)
    twice = {k: n for k, n in effects.items() if n > 1}
    report.check(f"{name}: nothing happens twice", f"{len(twice)} did, such as {next(iter(twice))}" if twice else "")
    report.check(f"{name}: nothing that happened is called not executed, and all threads end well", "; ".join(swaps.lies[:3]))
    acknowledged = {k: told for k, told in swaps.acknowledged.items() if told}
    unmade = [k for k in acknowledged if effects.get(k) != 1]
    report.check(f"{name}: what is acknowledged happened", ", ".join(unmade[:3]))
    other = [k for k, told in acknowledged.items() if (again := again_of(k)) is None or (again[0], again[2]) != told]
    report.check(f"{name}: what is acknowledged is given again", ", ".join(other[:3]))
    report.check(f"{name}: repeats reach nobody", "" if journal(upstream) == effects else "they had effects")
    doubt = [k for k, told in swaps.acknowledged.items() if not told]
    open_ = [(k, again) for k in doubt if (again := again_of(k)) is None or again[1] not in ("unknown", "executed")]
    report.check(f"{name}: the rest is in doubt, or executed after all", f"{open_[:2]}" if open_ else "")


def check_audit(binary, report, name, folders, effects):
    """Everything that happened was announced; the chain is whole, over the files of all gates."""
    announced = set()
    for file in sorted(file for folder in folders for file in folder.glob("*.jsonl")):
        for line in file.read_text(encoding="utf-8").splitlines():
            entry = json.loads(line).get("entry", {})
            if entry.get("what") == "sending":
                announced.add(entry["requestId"])
    silent = [k for k in effects if k not in announced]
    report.check(f"{name}: everything that happened stands in the audit chain", ", ".join(silent[:3]))
    verified = subprocess.run([binary, "audit", "verify", *folders], capture_output=True, text=True, check=False)
    report.check(f"{name}: the audit chain is whole", "" if verified.returncode == 0 else verified.stdout + verified.stderr)


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("binary", type=os.path.abspath)
    parser.add_argument("--long", action="store_true")
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    count, kills = (10_000, 30) if arguments.long else (600, 5)
    print(f"seed {arguments.seed}")
    report = Report()
    run(arguments.binary, report, "killed", count, kills, False, arguments.seed)
    run(arguments.binary, report, "killed and lossy", count // 5, max(kills // 3, 3), True, arguments.seed)
    return report.close()


if __name__ == "__main__":
    sys.exit(main())
