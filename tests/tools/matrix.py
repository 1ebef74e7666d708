"""Brings two faults at once upon two gates that share a Redis, or upon one with an embedded store, pair after pair.

Usage: `python tests/tools/matrix.py SLUICE [--long] [--seed N] [--kind redis|embedded] [--pair FAULT FAULT]`.

Callers make swaps all the time, and repeat each until its outcome is known. A pair of faults begins at random moments
and ends in a random order: the store is slow, gone, mute, half open, frozen, killed, full or forgets everything; the
disk of a gate is full, or its fsync fails; upstream is slow, lies or resets; a gate is killed, stopped or ended;
policies are replaced. After each pair money must move again, by itself or after people opened it where the store
forgot. Nothing may happen twice; no executed swap is told to be not executed; a repeat gets the same reply; the limit
counts what was executed, and at most what is in doubt besides; the audit chain is whole. Short: 12 pairs with a Redis
and 6 without; long: every pair of each, three times.
"""

import argparse
import contextlib
import itertools
import json
import os
import random
import resource
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import Any, NamedTuple

from gate import SECRET, free_port, make_token, start_simulator, wait_until
from nodes import Proxy, Redis
from report import Report
from swaps import KillableGate, Swaps, call_until_known, check_audit, check_swaps, read_journal, run_job

PEOPLE = "https://people.test"
CALLERS = 6
# The amount of each swap of `swaps.py`.
AMOUNT = 10
# How long money may take to move again once both faults are over.
PATIENCE_SECONDS = 60
RULES = """
[value]
slippage = "1%"

[[rule]]
id = "everything"
effect = "allow"
when = { op = "*" }

[[limit]]
id = "budget"
ops = ["createSwap"]
window = "rolling 30d"
max = "100000000 USD"
over = "deny"
"""
# A gate whose disk fails cannot store its last outcomes: it ends when its grace is over.
CONFIG = """
commit_ms = 500
upstream_max_ms = 1_000
grace_ms = 15_000

[reconcile]
first_look_ms = 200

[issuer.people]
issuer = "{people}"
audience = ["sluice"]
environments = []
algorithms = ["HS256"]
shared_secret = "{secret}"
roles = "roles"

[console]
listen = "127.0.0.1:{console}"
issuer = "people"
"""
ON_A_REDIS = """
[store]
kind = "redis"
node = "{node}"
all_nodes = ["left", "right"]

[redis]
url = "redis://127.0.0.1:{redis}"
timeout_ms = 500
"""
LIBRARIES = ("/usr/lib/fiu/fiu_run_preload.so", "/usr/lib/fiu/fiu_posix_preload.so")


class Fault(NamedTuple):
    """Something that goes wrong, and how it ends."""

    begin: Callable[[], object]
    end: Callable[[], object]


class Place:
    """The gates, their store, upstream, and everything that can happen to them."""

    def __init__(self, binary: str, upstream: str, folder: Path, redis: Redis | None, chance: random.Random) -> None:
        self.upstream = upstream
        self.chance = chance
        self.redis = redis
        self.proxy = Proxy(redis.port) if redis else None
        self.binary = binary
        self.consoles: list[int] = []
        self.gates: list[KillableGate] = []
        self.reloads = 0
        for node in ("left", "right") if redis else ("alone",):
            home, console = folder / node, free_port()
            home.mkdir()
            config = CONFIG.format(people=PEOPLE, secret=SECRET, console=console)
            if self.proxy:
                config += ON_A_REDIS.format(node=node, redis=self.proxy.port)
            environment = {"LD_PRELOAD": " ".join(LIBRARIES), "FIU_CTRL_FIFO": str(home / "fiu")}
            gate = KillableGate(binary, upstream, home, config, environment=environment)
            (home / "policies" / "everything.toml").write_text(RULES, encoding="utf-8")
            self.consoles.append(console)
            self.gates.append(gate)
        for gate in self.gates:
            gate.start()

    def faults(self) -> dict[str, Fault]:
        """Returns every fault of this place, by name."""
        gate = self.gates[-1]
        found = {
            "disk full": Fault(lambda: self.limit_files(gate, 0), lambda: self.limit_files(gate, None)),
            "fsync fails": Fault(lambda: self.fail_fsync(gate, True), lambda: self.fail_fsync(gate, False)),
            "upstream slow": self.lie({"kind": "delay", "ms": 800, "percent": 50}),
            "upstream lies": self.lie({"kind": "foreignRecord", "percent": 40}),
            "upstream resets": self.lie({"kind": "resetAfterReceiving", "percent": 40}),
            "gate killed": Fault(gate.kill, lambda: self.start_again(gate)),
            "gate stopped": Fault(lambda: self.send(gate, signal.SIGSTOP), lambda: self.send(gate, signal.SIGCONT)),
            "gate ended": Fault(gate.stop, lambda: self.start_again(gate)),
            "policies replaced": Fault(self.replace_policies, self.replace_policies),
        }
        if self.redis and self.proxy:
            redis, proxy = self.redis, self.proxy
            for mode in ("slow", "refused", "mute", "half open"):
                found[f"store {mode}"] = Fault(lambda mode=mode: proxy.set_mode(mode), lambda: proxy.set_mode("well"))  # type: ignore[misc]
            found["store frozen"] = Fault(redis.freeze, redis.thaw)
            found["store killed"] = Fault(redis.kill, redis.restart)
            found["store full"] = Fault(lambda: self.tell_redis("1"), lambda: self.tell_redis("0"))
            found["store forgets"] = Fault(lambda: self.with_redis("FLUSHALL"), lambda: None)
        return found

    def with_redis(self, *words: str) -> None:
        # A Redis that is frozen or dead takes no command: then this fault does not happen.
        if self.redis:
            with contextlib.suppress(OSError, RuntimeError):
                self.redis.ask(*words)

    def tell_redis(self, bytes_: str) -> None:
        self.with_redis("CONFIG", "SET", "maxmemory", bytes_)

    def limit_files(self, gate: KillableGate, most: int | None) -> None:
        """Lets no file of the gate grow any more, or ends that."""
        wanted = resource.RLIM_INFINITY if most is None else most
        with contextlib.suppress(ProcessLookupError):
            resource.prlimit(gate.child.pid, resource.RLIMIT_FSIZE, (wanted, resource.RLIM_INFINITY))

    def fail_fsync(self, gate: KillableGate, fails: bool) -> None:
        # EIO, as a disk answers that cannot write.
        for point in ("posix/io/sync/fsync", "posix/io/sync/fdatasync"):
            command = f"enable name={point},failinfo=5" if fails else f"disable name={point}"
            done = ["fiu-ctrl", "-f", str(gate.folder / "fiu"), "-c", command, str(gate.child.pid)]
            with contextlib.suppress(subprocess.TimeoutExpired):
                subprocess.run(done, capture_output=True, check=False, timeout=5)

    def lie(self, fault: dict[str, object]) -> Fault:
        return Fault(
            lambda: self.ask_upstream("POST", {"operation": "createSwap", **fault}),
            lambda: self.ask_upstream("DELETE", None),
        )

    def ask_upstream(self, method: str, body: object) -> None:
        connection = HTTPConnection(self.upstream, timeout=30)
        connection.request(method, "/simulator/faults", json.dumps(body) if body else None)
        connection.getresponse().read()
        connection.close()

    def send(self, gate: KillableGate, what: signal.Signals) -> None:
        with contextlib.suppress(ProcessLookupError):
            gate.child.send_signal(what)

    def start_again(self, gate: KillableGate) -> None:
        if gate.child.poll() is not None:
            gate.start()

    def replace_policies(self) -> None:
        """Gives each gate another set of the same meaning, except for a limit that no swap reaches."""
        self.reloads += 1
        for gate in self.gates:
            rules = RULES.replace("100000000", str(100_000_000 - self.reloads))
            # Renamed into place: a gate must not read half of it.
            written = gate.folder / "everything.toml"
            written.write_text(rules, encoding="utf-8")
            written.replace(gate.folder / "policies" / "everything.toml")
            self.send(gate, signal.SIGHUP)

    def readiness(self, gate: KillableGate) -> str:
        log = gate.program.log if gate.program else []
        found = [line["address"] for line in log if line.get("message") == "listening for probes"]
        connection = HTTPConnection(found[-1] if found else "127.0.0.1:9", timeout=10)
        try:
            connection.request("GET", "/readyz/money")
            response = connection.getresponse()
            return f"{response.status} {response.read().decode()}"
        except (OSError, HTTPException) as error:
            return f"no answer: {error!r}"
        finally:
            connection.close()

    def open_money(self) -> str:
        """Opens money as people do who found out what is missing."""
        said = ""
        for person in ("ops-1", "ops-2"):
            environment = {**os.environ, "SLUICE_TOKEN": make_token(person, PEOPLE, roles=["operator"])}
            console = f"http://127.0.0.1:{self.consoles[0]}"
            command = [self.binary, "unfreeze", "--restored", "--environment", "production", "--console", console]
            done = subprocess.run(
                [*command, "--reason", "all was found out"],
                capture_output=True,
                text=True,
                check=False,
                env=environment,
            )
            said += done.stdout + done.stderr
        return said

    def await_money(self) -> str:
        """Waits until money moves at each gate; returns why it does not."""
        said = ""
        for gate in self.gates:

            def moves(gate: KillableGate = gate) -> bool:
                nonlocal said
                self.start_again(gate)
                ready = self.readiness(gate)
                if "restored" in ready:
                    said = self.open_money()
                return ready.startswith("200")

            if not wait_until(moves, PATIENCE_SECONDS):
                return f"{gate.folder.name}: {self.readiness(gate)}; {said}; {self.last_warnings(gate)}"
        return ""

    def last_warnings(self, gate: KillableGate) -> list[Any]:
        lines = itertools.chain(*gate.logs)
        return [line.get("message") for line in lines if line.get("level") in {"WARN", "ERROR"}][-5:]

    def spent(self) -> float:
        """Returns what the limit has counted, by the console."""
        connection = HTTPConnection("127.0.0.1", self.consoles[0], timeout=30)
        token = make_token("ops-1", PEOPLE, roles=["operator"])
        connection.request("GET", "/sluice/v1/usage", headers={"Authorization": f"Bearer {token}"})
        answer = json.loads(connection.getresponse().read())
        connection.close()
        used = [usage["used"] for usage in answer["usage"] if usage["limit"] == "budget"]
        # The console tells micro-USD.
        return float(sum(used)) / 1_000_000


def run_pair(place: Place, names: tuple[str, str], report: Report, totals: dict[str, int]) -> None:
    """Makes swaps while two faults come and go, waits until money moves, and checks everything."""
    title = f"{names[0]} + {names[1]}"
    swaps, chance, faults = Swaps(1_000_000, f"{totals['pairs']}"), place.chance, place.faults()
    totals["pairs"] += 1
    callers = [
        threading.Thread(target=run_job, args=(lambda: call_until_known(place.gates, swaps, place.upstream), swaps))
        for _ in range(CALLERS)
    ]
    for caller in callers:
        caller.start()
    begun: list[str] = []
    # A gate that stands still hears nothing of the other fault: it is stopped last, and goes on first.
    for name in sorted(chance.sample(names, 2), key=is_stop):
        time.sleep(chance.uniform(0.1, 0.6))
        faults[name].begin()
        begun.append(name)
    time.sleep(chance.uniform(0.5, 2))
    for name in sorted(chance.sample(begun, 2), key=is_stop, reverse=True):
        faults[name].end()
        time.sleep(chance.uniform(0, 0.3))
    closed = place.await_money()
    report.check(f"{title}: money moves again", closed)
    time.sleep(0.3)
    swaps.stop()
    for caller in callers:
        caller.join()
    check_swaps(report, title, place.gates, swaps, place.upstream)
    totals["swaps"] += len(swaps.acknowledged)
    totals["unknown"] += sum(1 for reply in swaps.acknowledged.values() if not reply)


def is_stop(name: str) -> bool:
    return name == "gate stopped"


def check_limit(place: Place, report: Report, totals: dict[str, int]) -> None:
    """The limit counts what was executed, and at most what is in doubt besides."""
    executed = len(read_journal(place.upstream))
    spent = place.spent()
    least, most = executed * AMOUNT, (executed + totals["unknown"]) * AMOUNT * 1.01
    report.check_that("the limit counts what was executed or is in doubt", least <= spent <= most, (least, spent, most))


@contextlib.contextmanager
def start_place(binary: str, kind: str, chance: random.Random) -> Iterator[Place]:
    with (
        start_simulator(binary, "--latency-ms", "2", "--seed", str(chance.randrange(10**9))) as upstream,
        tempfile.TemporaryDirectory(prefix="sluice-") as text,
    ):
        folder = Path(text)
        redis = Redis(folder) if kind == "redis" else None
        place = Place(binary, upstream, folder, redis, chance)
        try:
            yield place
        finally:
            for gate in place.gates:
                if gate.program and gate.child.poll() is None:
                    gate.child.kill()
            if redis:
                redis.kill()


def run(binary: str, report: Report, kind: str, pairs: Sequence[tuple[str, str]] | int, seed: int) -> dict[str, Any]:
    chance = random.Random(seed)
    totals = {"pairs": 0, "swaps": 0, "unknown": 0}
    failures = len(report.failures)
    results: dict[tuple[str, str], str] = {}
    with start_place(binary, kind, chance) as place:
        every = list(itertools.combinations(sorted(place.faults()), 2))
        chosen = chance.sample(every, pairs) if isinstance(pairs, int) else list(pairs) or every
        for names in chosen:
            before, begin = len(report.failures), time.monotonic()
            run_pair(place, names, report, totals)
            results[names] = "ok" if len(report.failures) == before else "FAILED"
            print(f"  {kind}: {names[0]} + {names[1]}: {results[names]}, {time.monotonic() - begin:.1f} s", flush=True)
        check_limit(place, report, totals)
        codes = [gate.stop() for gate in place.gates]
        report.check_that(f"{kind}: the gates stop in order", codes == [0] * len(codes), codes)
        folders = [gate.audit_folder for gate in place.gates]
        check_audit(binary, report, kind, folders, read_journal(place.upstream))
    print(f"{kind}: {totals['pairs']} pairs, {totals['swaps']} swaps, {totals['unknown']} of unknown outcome")
    return {"kind": kind, "totals": totals, "results": results, "failures": len(report.failures) - failures}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("binary", type=os.path.abspath)
    parser.add_argument("--long", action="store_true")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--kind", choices=("redis", "embedded"))
    parser.add_argument("--pair", nargs=2)
    arguments = parser.parse_args()
    print(f"seed {arguments.seed}", flush=True)
    report = Report()
    for kind, short in (("redis", 12), ("embedded", 6)):
        if arguments.kind in (None, kind):
            for nth in range(3 if arguments.long else 1):
                pairs: Any = [tuple(arguments.pair)] if arguments.pair else [] if arguments.long else short
                run(arguments.binary, report, kind, pairs, arguments.seed + nth)
    return report.close()


if __name__ == "__main__":
    sys.exit(main())
