"""Makes swaps whose callers repeat them until the outcome is known, kills gates meanwhile, and checks the results.

`kill.py` and `nodes.py` share this module. The simulator behind the gates is not idempotent: a call that reaches it
twice takes effect twice.
"""

import functools
import itertools
import json
import random
import signal
import ssl
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from pathlib import Path
from typing import NamedTuple

from gate import (
    TOKEN,
    LogLine,
    Program,
    create_store,
    free_port,
    gate_config,
    note_address,
    spawn,
    wait_until,
    write_config,
)
from report import Report

CALLERS = 32
# How long an outcome may take to be stored once money moves.
SETTLED_SECONDS = 10
# How long a caller repeats one swap.
PATIENCE_SECONDS = 90
TIMEOUTS = """
[timeouts]
answer_ms = 1_000
connect_ms = 500
tls_handshake_ms = 500
write_ms = 500
"""


class TlsPort(int):
    """A port behind which TLS is spoken; its certificate signs itself."""


class KillableGate:
    """A gate that can be killed and started again at the same address, with the same data."""

    def __init__(
        self,
        binary: str,
        upstream: str,
        folder: Path,
        more_config: str = "",
        *,
        behind_proxy: bool = False,
        environment: Mapping[str, str] | None = None,
        production: str = "",
    ) -> None:
        self.binary = binary
        self.environment = environment
        self.folder = folder
        self.kills = 0
        self.port = TlsPort(free_port()) if "tls_certificate" in production else free_port()
        any_port, this_port = 'listen = "127.0.0.1:0"', f'listen = "127.0.0.1:{self.port:d}"\n{production}'
        config = gate_config(upstream, "127.0.0.1:9").replace(any_port, this_port, 1)
        if behind_proxy:
            first = f'upstream = "http://{upstream}"'
            config = config.replace(first, f"{first}\nupstream_behind_proxy = true", 1)
        create_store(binary, write_config(folder, config + TIMEOUTS + more_config))
        self.program: Program | None = None
        # The logs of all its processes.
        self.logs: list[list[LogLine]] = []
        # By environment, and `probes`: of the running process.
        self.addresses: dict[str, str] = {}

    def start(self) -> None:
        command: list[str | Path] = [self.binary, "serve", "--config", self.folder / "sluice.toml"]
        self.program = Program(spawn(command, self.environment))
        self.logs.append(self.program.log)
        addresses: dict[str, str] = {}
        self.addresses = addresses
        self.program.wait_for(lambda line: note_address(line, addresses))

    @property
    def audit_folder(self) -> Path:
        return self.folder / "sluice-audit"

    @property
    def child(self) -> "subprocess.Popen[str]":
        if self.program is None:
            raise RuntimeError("the gate was not started")
        return self.program.child

    def kill(self) -> None:
        self.child.send_signal(signal.SIGKILL)
        self.child.wait()
        self.kills += 1

    def stop(self) -> int:
        """Stops the gate in order; returns its exit code."""
        self.child.terminate()
        return self.child.wait(60)


class Reply(NamedTuple):
    """A gate's response to a swap."""

    status: int
    outcome: str | None
    body: bytes


class Swaps:
    """The swaps of one run, and the replies that their callers got."""

    def __init__(self, count: int, name: str, token: Callable[[], str] = lambda: TOKEN) -> None:
        self.token = token
        self.ids = [f"{name.replace(' ', '-')}-{n}" for n in range(count)]
        self.next = 0
        self.lock = threading.Lock()
        # By requestId: the reply that acknowledged the swap, or None while its outcome is unknown.
        self.acknowledged: dict[str, Reply | None] = {}
        # Replies that were wrong, and threads that failed.
        self.faults: list[str] = []
        self.longest_call_seconds = 0.0

    def take(self) -> str | None:
        """Returns the next requestId, or None after the last."""
        with self.lock:
            self.next += 1
            return self.ids[self.next - 1] if self.next <= len(self.ids) else None

    def is_compared(self, _request_id: str) -> bool:
        """Whether a reply that says "not executed" is compared at once with what upstream did."""
        return True

    def left(self) -> int:
        return len(self.ids) - self.next

    def stop(self) -> None:
        """Callers begin no more swaps."""
        self.next = len(self.ids)

    def summary(self) -> str:
        known = sum(1 for reply in self.acknowledged.values() if reply)
        return f"{known} acknowledged, {len(self.acknowledged) - known} of unknown outcome"


def post_swap(
    port: int, request_id: str, amount: str = "10", token: str = TOKEN, *, wait_seconds: int = 2
) -> Reply | None:
    """Tries a swap once; returns None if no response came."""
    body = json.dumps(
        {
            "requestId": request_id,
            "source": {"chain": "POLYGON", "currency": "usdt", "amount": amount},
            "destination": {
                "chain": "POLYGON",
                "currency": "usdc",
                "walletAddress": "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed",
            },
        }
    )
    connection = connect(port)
    try:
        headers = {"Authorization": token, "Content-Type": "application/json", "Prefer": f"wait={wait_seconds}"}
        connection.request("POST", "/v2/wallets/swaps", body, headers)
        response = connection.getresponse()
        return Reply(response.status, response.headers["Sluice-Outcome"], response.read())
    except (OSError, HTTPException):
        return None
    finally:
        connection.close()


def connect(port: int) -> HTTPConnection:
    """Returns a connection to a gate, not yet open."""
    if isinstance(port, TlsPort):
        return HTTPSConnection("127.0.0.1", int(port), timeout=30, context=tls_context())
    return HTTPConnection("127.0.0.1", port, timeout=30)


@functools.cache
def tls_context() -> ssl.SSLContext:
    """Returns what accepts every certificate; making it reads all certificates of the machine, so it is made once."""
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


def run_together(jobs: Sequence[Callable[[], object]], swaps: Swaps) -> float:
    """Runs all jobs at once, each in a thread; returns how many seconds they took."""
    begin = time.monotonic()
    threads = [threading.Thread(target=run_job, args=(job, swaps)) for job in jobs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return time.monotonic() - begin


def run_job(job: Callable[[], object], swaps: Swaps) -> None:
    """Reports a job that fails, and stops the others."""
    try:
        job()
    except Exception as error:
        swaps.faults.append(f"a thread failed: {error!r}")
        swaps.stop()


def call_until_known(
    gates: Sequence[KillableGate], swaps: Swaps, upstream: str, pause: Callable[[], object] = lambda: None
) -> None:
    """Takes swap after swap, and repeats each at the next gate until its outcome is known; pauses before each."""
    turns = itertools.cycle(gates)
    while request_id := swaps.take():
        pause()
        end = time.monotonic() + PATIENCE_SECONDS
        swaps.acknowledged[request_id] = None
        while (begin := time.monotonic()) < end:
            reply = post_swap(next(turns).port, request_id, token=swaps.token())
            swaps.longest_call_seconds = max(swaps.longest_call_seconds, time.monotonic() - begin)
            if reply is None:
                time.sleep(0.05)
                continue
            if reply.outcome == "executed":
                swaps.acknowledged[request_id] = reply
                break
            is_denied = reply.outcome == "not-executed" and swaps.is_compared(request_id)
            if is_denied and read_journal(upstream).get(request_id, 0) > 0:
                swaps.faults.append(f"{request_id}: {reply.status} says not executed, but it was")
            if reply.status == 409 and b"OUTCOME_UNKNOWN" in reply.body:
                break
            time.sleep(0.05)


def kill_repeatedly(gate: KillableGate, swaps: Swaps, kills: int, chance: random.Random) -> None:
    """Kills and restarts a gate at random moments, at least `kills` times and until no swap is left."""
    while gate.kills < kills or swaps.left() > 0:
        time.sleep(chance.uniform(0.2, 1.5))
        gate.kill()
        gate.start()
        if gate.kills >= kills and swaps.left() == 0:
            return


def read_journal(upstream: str) -> dict[str, int]:
    """Returns how often each requestId took effect at the simulator."""
    connection = HTTPConnection(upstream, timeout=300)
    connection.request("GET", "/simulator/journal?last=0")
    effects: dict[str, int] = json.loads(connection.getresponse().read())["effectsByRequest"]
    return effects


def check_swaps(report: Report, name: str, gates: Sequence[KillableGate], swaps: Swaps, upstream: str) -> None:
    """Compares what took effect with what the gates replied, then and when they are asked again."""
    turns = itertools.cycle(gates)

    def ask_again(request_id: str) -> Reply | None:
        return post_swap(next(turns).port, request_id, token=swaps.token())

    def is_repeated(request_id: str, reply: Reply) -> bool:
        again = ask_again(request_id)
        return again is not None and (again.status, again.body) == (reply.status, reply.body)

    def effects_of_these() -> dict[str, int]:
        # Other calls of a run may still be sent.
        return {request_id: n for request_id, n in read_journal(upstream).items() if request_id in swaps.acknowledged}

    effects = read_journal(upstream)
    before = effects_of_these()
    twice = [request_id for request_id, count in effects.items() if count > 1]
    report.check(f"{name}: nothing happens twice", f"{len(twice)} did, such as {twice[0]}" if twice else "")
    report.check(f"{name}: no executed swap is reported as not executed; no thread fails", "; ".join(swaps.faults[:3]))
    acknowledged = {request_id: reply for request_id, reply in swaps.acknowledged.items() if reply}
    unmade = [request_id for request_id in acknowledged if effects.get(request_id) != 1]
    report.check(f"{name}: every acknowledged swap took effect", ", ".join(unmade[:3]))
    # An outcome that the store did not take at once waits on the disk of its gate, and is stored soon.
    changed = [
        request_id
        for request_id, reply in acknowledged.items()
        if not is_repeated(request_id, reply)
        and not wait_until(functools.partial(is_repeated, request_id, reply), SETTLED_SECONDS)
    ]
    report.check(f"{name}: a repeat of an acknowledged swap gets the same reply", ", ".join(changed[:3]))
    report.check_that(f"{name}: repeats take no effect", effects_of_these() == before, "they did")
    unknown = [request_id for request_id, reply in swaps.acknowledged.items() if not reply]
    later = [(request_id, ask_again(request_id)) for request_id in unknown]
    wrong = [pair for pair in later if pair[1] is None or pair[1].outcome not in ("unknown", "executed")]
    report.check(f"{name}: the rest is of unknown outcome, or executed", f"{wrong[:2]}" if wrong else "")


def check_audit(binary: str, report: Report, name: str, folders: Sequence[Path], effects: Mapping[str, int]) -> None:
    """Checks that everything that took effect was announced, and that the audit chain over all gates is whole."""
    announced = set()
    for file in sorted(file for folder in folders for file in folder.glob("*.jsonl")):
        for line in file.read_text(encoding="utf-8").splitlines():
            entry = json.loads(line).get("entry", {})
            if entry.get("what") == "sending":
                announced.add(entry["requestId"])
    missing = [request_id for request_id in effects if request_id not in announced]
    report.check(f"{name}: everything that took effect is in the audit log", ", ".join(missing[:3]))
    command: list[str | Path] = [binary, "audit", "verify", *folders]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    report.check_that(f"{name}: the audit chain is whole", done.returncode == 0, done.stdout + done.stderr)
