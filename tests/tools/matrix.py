"""Brings two faults at once upon two gates that share a Redis, or upon one with an embedded store, pair after pair.

Usage: `python tests/tools/matrix.py SLUICE [--long] [--rounds N] [--seed N] [--kind redis|sentinels|embedded]
[--part N/OF] [--having FAULT...] [--pair FAULT FAULT]... [--results FILE]`.

Callers make swaps all the time, and repeat each until its outcome is known. A pair of faults begins at random moments
and ends in a random order: the store is slow, gone, mute, half open, frozen, killed, full or forgets everything; the
disk of a gate is full or slow, or its fsync fails; upstream is slow, lies or resets; a gate is killed, stopped or
ended, or all of them are; policies are replaced, or a gate cannot run those in force; the issuer is gone, or its keys
turn; a certificate is broken, then replaced; the store's clock leaps and returns; records are removed and put in each
other's place, older ones are put back, another time is written into the store, or the embedded store is set back;
Sentinels fail over, and a split leaves a gate with the former primary; a gate stands still for longer than the fence;
gates are updated one by one to a stricter set. Meanwhile people vote for swaps that wait for two of them, and callers
try what the stricter set forbids: neither too few approvals nor a set that was replaced sends anything. After each pair
money must move again, by itself or after people opened it where the store forgot or its clock leapt. Nothing may happen
twice; no executed swap is told to be not executed; a repeat gets the same reply; the limit counts what was executed,
and at most what is in doubt besides; the audit chain is whole. Short: as many pairs as it takes for each fault to
happen; long: every pair of each store, three times. With `--part 2/3` the second of three runs that share the pairs of
a round, and with `--having` only pairs that have one of these faults. Each pair is a line of the file of results, from
which `fault_table.py` writes a page.
"""

import argparse
import contextlib
import itertools
import json
import os
import random
import resource
import shutil
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

from gate import free_port, make_token, start_simulator, wait_until, write_seal_key
from issuer import TurningIssuer, make_certificate, start_issuer
from nodes import FalseClock, Proxy, Redis, SlowDisk, words_to_write_head
from people import PEOPLE, open_money, people_config, quick_config, read_readiness, redis_config, scope_to_open
from report import Report
from sentinels import Sentinels
from swaps import (
    KillableGate,
    Swaps,
    call_until_known,
    check_audit,
    check_swaps,
    connect,
    post_swap,
    read_journal,
    run_job,
)
from watched import HELD_RULES, STRICTER_RULES, Approvals, ForbiddenSwaps

KINDS = ("redis", "sentinels", "embedded")
CALLERS = 6
# The amount of each swap of `swaps.py`.
AMOUNT = 10
# How long money may take to move again once both faults are over. A time that somebody wrote into the store may count
# by up to a minute: for so long the time of the store stands still.
PATIENCE_SECONDS = 150
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
when = { amount = "(0, 20] USD" }
window = "rolling 30d"
max = "100000000 USD"
over = "deny"
"""
# The left gate knows an issuer that the other one does not.
OTHER_ISSUER = """
[issuer.other]
issuer = "https://other.test"
audience = ["sluice"]
environments = ["production"]
algorithms = ["HS256"]
shared_secret = "a-secret-of-the-other-issuer-of-32-bytes"
"""
OTHER_RULE = """
[[rule]]
id = "other"
effect = "deny"
when = { op = "createSwap", issuer = "other" }
"""
TLS = """
tls_certificate = "certificate.pem"
tls_key = { file = "key.pem" }
# Without it nothing can wait for people.
credential = "the-gate-s-own"
"""
DAY = 24 * 3_600
# What an fsync takes longer, where the disk is slow.
SLOW_FSYNC_MS = 400
ROOT = "sluice:{production}"
CLAIM = f"{ROOT}:r:claim:request/"
# How long a gate takes at most to notice that a clock leapt, or returned.
NOTICED_SECONDS = 3
# A gate behind Sentinels pays no more when it heard no majority of them for half of this.
FENCE_SECONDS = 5
LIBRARIES = ("/usr/lib/fiu/fiu_run_preload.so", "/usr/lib/fiu/fiu_posix_preload.so")


class Fault(NamedTuple):
    """Something that goes wrong, and how it ends."""

    begin: Callable[[], object]
    end: Callable[[], object]


class PairResult(NamedTuple):
    """What came of a pair of faults."""

    store: str
    seed: int
    faults: tuple[str, str]
    held: bool
    seconds: float


class Place:
    """The gates, their store, upstream, their issuer, and everything that can happen to them."""

    def __init__(
        self,
        binary: str,
        upstream: str,
        folder: Path,
        redis: Redis | Sentinels | None,
        issuer: TurningIssuer,
        chance: random.Random,
        settings: str,
    ) -> None:
        self.upstream = upstream
        self.chance = chance
        self.redis = redis if isinstance(redis, Redis) else None
        self.sentinels = redis if isinstance(redis, Sentinels) else None
        self.issuer = issuer
        self.proxy = Proxy(self.redis.port) if self.redis else None
        # With an embedded store, the clock of the store is that of the gate.
        self.clock = FalseClock(folder) if redis is None else None
        self.disk = SlowDisk(folder)
        self.older: dict[str, bytes] = {}
        # The swaps that a stricter set forbids, while a rolling update goes on.
        self.forbidden: ForbiddenSwaps | None = None
        self.updates = 0
        self.stopped_at = 0.0
        self.binary = binary
        self.consoles: list[int] = []
        self.gates: list[KillableGate] = []
        self.reloads = 0
        # The swaps of the pair that runs, and the claims of them that were removed.
        self.swaps = Swaps(0, "none")
        self.removed: list[str] = []
        key = f"{chance.getrandbits(256):064x}"
        for node in ("left", "right") if redis else ("alone",):
            home, console = folder / node, free_port()
            home.mkdir()
            make_certificate(home / "certificate.pem", home / "key.pem")
            # A gate whose disk fails cannot store its last outcomes: it ends when its grace is over.
            config = "grace_ms = 15_000\n" + quick_config() + people_config(console) + issuer.config()
            if self.proxy:
                config += redis_config(node, self.proxy.port, ("left", "right"))
            if self.sentinels:
                config += self.sentinels.config(node)
            if node == "left":
                config += OTHER_ISSUER
            # What the store holds is sealed, so that only a gate can have made it.
            sealed = '[store]\nseal_key = { file = "seal.key" }\n'
            config = config.replace("[store]\n", sealed, 1) if "[store]\n" in config else config + "\n" + sealed
            config += settings
            clock = self.clock.variables() if self.clock else {}
            # The last gate has the slow disk, as it has the full one.
            last = node in {"right", "alone"}
            slow = [str(self.disk.library)] if last else []
            libraries = " ".join([*slow, *LIBRARIES, *([clock["LD_PRELOAD"]] if clock else [])])
            environment = clock | {"LD_PRELOAD": libraries, "FIU_CTRL_FIFO": str(home / "fiu")}
            environment["SLOW_DISK"] = str(self.disk.file)
            environment["SLUICE_SANDBOX_CREDENTIAL"] = "another-of-the-gate-s"
            write_seal_key(home / "seal.key", key)
            gate = KillableGate(binary, upstream, home, config, environment=environment, production=TLS)
            (home / "policies" / "everything.toml").write_text(RULES + HELD_RULES, encoding="utf-8")
            self.consoles.append(console)
            self.gates.append(gate)
        if self.clock:
            shutil.copy(self.store_file, self.older_store_file)
        for gate in self.gates:
            gate.start()

    @property
    def store_file(self) -> Path:
        return self.gates[0].folder / "sluice-data" / "store.redb"

    @property
    def older_store_file(self) -> Path:
        return self.gates[0].folder / "older.redb"

    def faults(self) -> dict[str, Fault]:
        """Returns every fault of this place, by name."""
        gate = self.gates[-1]
        found = {
            "disk full": Fault(lambda: self.limit_files(gate, 0), lambda: self.limit_files(gate, None)),
            "disk slow": Fault(lambda: self.disk.set(SLOW_FSYNC_MS), lambda: self.disk.set(0)),
            "fsync fails": Fault(lambda: self.fail_fsync(gate, True), lambda: self.fail_fsync(gate, False)),
            "upstream slow": self.lie({"kind": "delay", "ms": 800, "percent": 50}),
            "upstream lies": self.lie({"kind": "foreignRecord", "percent": 40}),
            "upstream resets": self.lie({"kind": "resetAfterReceiving", "percent": 40}),
            "gate killed": Fault(gate.kill, lambda: self.start_again(gate)),
            "gate stopped": Fault(lambda: self.send(gate, signal.SIGSTOP), lambda: self.send(gate, signal.SIGCONT)),
            "gate ended": Fault(gate.stop, lambda: self.start_again(gate)),
            "policies replaced": Fault(self.replace_policies, self.replace_policies),
            "issuer gone": Fault(lambda: self.lose_issuer(True), lambda: self.lose_issuer(False)),
            "keys turned": Fault(self.issuer.turn, self.issuer.turn),
            "certificate broken": Fault(self.break_certificates, self.replace_certificates),
        }
        found["clock leaps"] = Fault(self.leap, lambda: self.set_clock(0))
        if self.sentinels:
            sentinels = self.sentinels
            found["store split"] = Fault(sentinels.split, lambda: self.heal_split(sentinels))
            found["primary killed"] = Fault(sentinels.kill_primary, sentinels.restart)
            found["stopped past the fence"] = Fault(lambda: self.stop_gate(gate), lambda: self.go_on_past_fence(gate))
        if len(self.gates) > 1:
            found["all gates ended"] = Fault(self.end_all, self.start_all)
            found["rolling update"] = Fault(self.begin_update, self.end_update)
            found["set not run"] = Fault(lambda: self.name_other_issuer(True), lambda: self.name_other_issuer(False))
        if self.clock:
            found["store set back"] = Fault(self.set_store_back, lambda: self.start_again(gate))
        if self.redis and self.proxy:
            redis, proxy = self.redis, self.proxy
            for mode in ("slow", "refused", "mute", "half open"):
                found[f"store {mode}"] = Fault(lambda mode=mode: proxy.set_mode(mode), lambda: proxy.set_mode("well"))  # type: ignore[misc]
            found["store frozen"] = Fault(redis.freeze, redis.thaw)
            found["store killed"] = Fault(redis.kill, redis.restart)
            found["store full"] = Fault(lambda: self.tell_redis("1"), lambda: self.tell_redis("0"))
            found["store forgets"] = Fault(lambda: self.with_redis("FLUSHALL"), lambda: None)
            found["records changed"] = Fault(self.change_records, lambda: None)
            found["older records put back"] = Fault(self.keep_records, self.put_records_back)
            found["another time written"] = Fault(self.write_time, self.write_time)
        return found

    def with_redis(self, *words: object) -> None:
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

    def begin_pair(self, swaps: Swaps) -> None:
        self.swaps, self.forbidden = swaps, None

    def heal_split(self, sentinels: Sentinels) -> None:
        """The split lasts until another Redis is the primary, and gates had time to be on both sides."""
        sentinels.wait_for_failover()
        time.sleep(self.chance.uniform(0, FENCE_SECONDS))
        sentinels.heal()

    def stop_gate(self, gate: KillableGate) -> None:
        self.stopped_at = time.monotonic()
        self.send(gate, signal.SIGSTOP)

    def go_on_past_fence(self, gate: KillableGate) -> None:
        time.sleep(max(0.0, self.stopped_at + FENCE_SECONDS + 1 - time.monotonic()))
        self.send(gate, signal.SIGCONT)

    def begin_update(self) -> None:
        """Updates the first gate to a stricter set, while the other one still has the former."""
        self.updates += 1
        self.forbidden = ForbiddenSwaps(self.gates, str(self.updates), self.swaps.token)
        self.update(self.gates[0])
        self.forbidden.start()

    def end_update(self) -> None:
        """Updates the other gate as well, and then has both return to the former set."""
        self.update(self.gates[1])
        time.sleep(1)
        if self.forbidden:
            self.forbidden.stop()
        for gate in self.gates:
            self.write_policies(gate, RULES)

    def update(self, gate: KillableGate) -> None:
        if gate.child.poll() is None:
            gate.stop()
        self.write_policies(gate, RULES + STRICTER_RULES)
        self.start_again(gate)

    def start_again(self, gate: KillableGate) -> None:
        """Starts a gate that ended. One whose certificate is broken meanwhile does not start; it is started later."""
        if gate.child.poll() is not None:
            with contextlib.suppress(RuntimeError):
                gate.start()

    def lose_issuer(self, is_gone: bool) -> None:
        self.issuer.is_gone = is_gone

    def break_certificates(self) -> None:
        """Gates keep the last good certificate."""
        for gate in self.gates:
            (gate.folder / "certificate.pem").write_text("-----BEGIN CERTIFICATE-----\nbroken\n", encoding="utf-8")
            self.send(gate, signal.SIGHUP)

    def replace_certificates(self) -> None:
        for gate in self.gates:
            make_certificate(gate.folder / "certificate.pem", gate.folder / "key.pem")
            self.send(gate, signal.SIGHUP)

    def leap(self) -> None:
        # Tokens outlive half an hour; a gate goes by the clock of its Redis for limits alone.
        far = [2 * DAY, 450 * DAY, -2 * DAY, DAY // 24, -DAY // 24]
        self.set_clock(DAY // 48 if self.clock else self.chance.choice(far))
        time.sleep(NOTICED_SECONDS)

    def set_clock(self, seconds: int) -> None:
        all_redis = [self.redis] if self.redis else self.sentinels.all if self.sentinels else []
        for clock in (self.clock, *(redis.clock for redis in all_redis)):
            if clock:
                clock.leap(seconds)

    def set_store_back(self) -> None:
        """Puts the store back as it was before its first gate."""
        gate = self.gates[0]
        if gate.child.poll() is None:
            gate.kill()
        shutil.copy(self.older_store_file, self.store_file)

    def change_records(self) -> None:
        """Removes claims of executed swaps, and puts others in each other's place."""

        def done() -> list[str]:
            return [request_id for request_id, reply in list(self.swaps.acknowledged.items()) if reply]

        # Where the other fault lets nothing pass, nothing is changed.
        if not wait_until(lambda: len(done()) >= 4, 5):
            return
        chosen = self.chance.sample(done(), 4)
        for request_id in chosen[:2]:
            self.with_redis("DEL", CLAIM + request_id)
        one, other = chosen[2:]
        for first, second in ((CLAIM + one, "aside"), (CLAIM + other, CLAIM + one), ("aside", CLAIM + other)):
            self.with_redis("RENAME", first, second)
        self.removed += chosen

    def keep_records(self) -> None:
        """Keeps the records of claims as they are while the calls are being sent."""
        self.older = {}

        def has_some() -> bool:
            names = self.redis.ask("KEYS", CLAIM + "*") if self.redis else []
            fresh = [name for name in names if name.decode().removeprefix(CLAIM) not in self.swaps.acknowledged]
            for name in fresh[:4]:
                value = self.redis.ask("GET", name) if self.redis else None
                if value:
                    self.older[name.decode()] = value if isinstance(value, bytes) else str(value).encode()
            return len(self.older) >= 2

        with contextlib.suppress(OSError, RuntimeError):
            wait_until(has_some, 3)

    def put_records_back(self) -> None:
        for name, value in self.older.items():
            self.with_redis("SET", name, value)
            request_id = name.removeprefix(CLAIM)
            if self.swaps.acknowledged.get(request_id):
                self.removed.append(request_id)

    def write_time(self) -> None:
        """Writes a time into the store at which every claim and every window is over."""
        far = int((time.time() + self.chance.choice((2, 40, 500)) * DAY) * 1_000_000)
        self.with_redis(*words_to_write_head(ROOT, "time", far))

    def end_all(self) -> None:
        for gate in self.gates:
            if gate.child.poll() is None:
                gate.stop()

    def start_all(self) -> None:
        for gate in self.gates:
            self.start_again(gate)

    def settle_changes(self) -> str:
        """Repeats what was changed until it is answered as before: gates noticed it, and rebuilt the store."""

        def is_told(request_id: str) -> bool:
            reply = post_swap(self.gates[0].port, request_id, token=self.swaps.token())
            return reply is not None and reply.outcome == "executed"

        removed, self.removed = self.removed, []

        def are_told() -> bool:
            told = [is_told(request_id) for request_id in removed]
            return all(told)

        return "" if wait_until(are_told, PATIENCE_SECONDS) else f"changed records are not told: {removed}"

    def replace_policies(self) -> None:
        """Gives each gate another set of the same meaning, except for a limit that no swap reaches."""
        self.reloads += 1
        for gate in self.gates:
            self.write_policies(gate, RULES.replace("100000000", str(100_000_000 - self.reloads)))

    def name_other_issuer(self, is_named: bool) -> None:
        """Puts a set in force that the right gate cannot run, or ends that."""
        self.write_policies(self.gates[0], RULES + OTHER_RULE if is_named else RULES)

    def write_policies(self, gate: KillableGate, rules: str) -> None:
        # Renamed into place: a gate must not read half of it.
        written = gate.folder / "everything.toml"
        written.write_text(rules + HELD_RULES, encoding="utf-8")
        written.replace(gate.folder / "policies" / "everything.toml")
        self.send(gate, signal.SIGHUP)

    def await_money(self) -> str:
        """Waits until money moves at each gate, for those who come with today's token; returns why it does not."""
        said = ""
        for gate, console in zip(self.gates, self.consoles, strict=True):

            def moves(gate: KillableGate = gate, console: int = console) -> bool:
                nonlocal said
                self.start_again(gate)
                ready = read_readiness(gate)
                if scope := scope_to_open(ready):
                    said = open_money(self.binary, console, scope, ("production", "sandbox"))
                return ready.startswith("200") and self.is_read(gate)

            if not wait_until(moves, PATIENCE_SECONDS):
                return f"{gate.folder.name}: {read_readiness(gate)}; {said}; {self.last_warnings(gate)}"
        return ""

    def is_read(self, gate: KillableGate) -> bool:
        connection = connect(gate.port)
        try:
            connection.request("GET", "/v2/users", headers={"Authorization": self.swaps.token()})
            return connection.getresponse().status == 200
        except (OSError, HTTPException):
            return False
        finally:
            connection.close()

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
    chance, faults = place.chance, place.faults()
    swaps = Swaps(1_000_000, f"{totals['pairs']}", lambda: place.issuer.token)
    place.begin_pair(swaps)
    totals["pairs"] += 1
    callers = [
        threading.Thread(target=run_job, args=(lambda: call_until_known(place.gates, swaps, place.upstream), swaps))
        for _ in range(CALLERS)
    ]
    approvals = Approvals(place.gates, place.consoles, str(totals["pairs"]), swaps.token, chance)
    for thread in [*callers, approvals.thread]:
        thread.start()
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
    if "clock leaps" in names:
        # The return is a leap as well.
        time.sleep(NOTICED_SECONDS)
        # Nobody meets what was changed while money is closed.
        place.await_money()
    report.check(f"{title}: what was changed is told as before", place.settle_changes())
    closed = place.await_money()
    report.check(f"{title}: money moves again", closed)
    time.sleep(0.3)
    swaps.stop()
    approvals.stop()
    for caller in callers:
        caller.join()
    report.check(
        f"{title}: nothing is sent that too few people approved", ", ".join(approvals.wrong(place.upstream)[:3])
    )
    totals["released"] += approvals.released(place.upstream)
    # Both faults may replace the stricter set by another one.
    if place.forbidden and not {"policies replaced", "set not run"} & set(names):
        report.check(f"{title}: nothing is sent that the set in force forbids", ", ".join(place.forbidden.wrong[:3]))
        totals["forbidden"] += place.forbidden.is_in_force.is_set()
    if {"disk full", "fsync fails"} & set(names) and {"gate ended", "gate killed"} & set(names):
        forget_what_no_disk_took(place, swaps)
    check_swaps(report, title, place.gates, swaps, place.upstream)
    totals["swaps"] += len(swaps.acknowledged)
    totals["unknown"] += sum(1 for reply in swaps.acknowledged.values() if not reply)


def forget_what_no_disk_took(place: Place, swaps: Swaps) -> None:
    """A gate that ends before its disk has room again gives its callers outcomes that it keeps nowhere: the next start
    calls them unknown."""
    for request_id, reply in list(swaps.acknowledged.items()):
        again = post_swap(place.gates[0].port, request_id, token=swaps.token()) if reply else None
        if again is not None and again.outcome == "unknown":
            swaps.acknowledged[request_id] = None


def is_stop(name: str) -> bool:
    return name in {"gate stopped", "stopped past the fence"}


def check_limit(place: Place, report: Report, totals: dict[str, int]) -> None:
    """The limit counts what was executed, and at most what is in doubt besides."""
    executed = sum(
        1 for request_id in read_journal(place.upstream) if not request_id.startswith(("held-", "forbidden-"))
    )
    spent = place.spent()
    least, most = executed * AMOUNT, (executed + totals["unknown"]) * AMOUNT * 1.01
    report.check_that("the limit counts what was executed or is in doubt", least <= spent <= most, (least, spent, most))


@contextlib.contextmanager
def start_place(binary: str, kind: str, chance: random.Random, settings: str = "") -> Iterator[Place]:
    with (
        start_simulator(binary, "--latency-ms", "2", "--seed", str(chance.randrange(10**9))) as upstream,
        tempfile.TemporaryDirectory(prefix="sluice-") as text,
        start_issuer(Path(text)) as issuer,
    ):
        folder = Path(text)
        redis: Redis | Sentinels | None = None
        if kind == "redis":
            redis = Redis(folder, has_own_clock=True)
        elif kind == "sentinels":
            redis = Sentinels(folder, chance.choice((1, 2)))
        gates: list[KillableGate] = []
        try:
            place = Place(binary, upstream, folder, redis, issuer, chance, settings)
            gates = place.gates
            yield place
        finally:
            for gate in gates:
                if gate.program and gate.child.poll() is None:
                    gate.child.kill()
            if isinstance(redis, Sentinels):
                redis.close()
            elif redis:
                redis.kill()


def pairs_of_all(names: Sequence[str], chance: random.Random) -> list[tuple[str, str]]:
    """Returns few pairs, at random, in which each fault happens."""
    shuffled = chance.sample(names, len(names))
    if len(shuffled) % 2:
        shuffled.append(shuffled[0])
    return list(zip(shuffled[::2], shuffled[1::2], strict=True))


def run(
    binary: str,
    report: Report,
    kind: str,
    pairs: Sequence[tuple[str, str]],
    is_long: bool,
    seed: int,
    results: Path | None,
    part: tuple[int, int],
    having: Sequence[str],
) -> None:
    chance = random.Random(seed)
    totals = {"pairs": 0, "swaps": 0, "unknown": 0, "released": 0, "forbidden": 0}
    with start_place(binary, kind, chance) as place:
        faults = sorted(place.faults())
        every = list(itertools.combinations(faults, 2)) if is_long else pairs_of_all(faults, chance)
        nth, of = part
        chosen = [names for names in pairs or every if not having or set(having) & set(names)]
        for names in chosen[nth - 1 :: of]:
            before, begin = len(report.failures), time.monotonic()
            run_pair(place, names, report, totals)
            is_good, seconds = len(report.failures) == before, time.monotonic() - begin
            said = "ok" if is_good else "FAILED"
            print(f"  {kind}: {names[0]} + {names[1]}: {said}, {seconds:.1f} s", flush=True)
            for failure in report.failures[before:]:
                print(f"    {failure}", flush=True)
            if results:
                write_result(results, PairResult(kind, seed, names, is_good, round(seconds, 1)))
        check_limit(place, report, totals)
        codes = [gate.stop() for gate in place.gates]
        report.check_that(f"{kind}: the gates stop in order", codes == [0] * len(codes), codes)
        folders = [gate.audit_folder for gate in place.gates]
        check_audit(binary, report, kind, folders, read_journal(place.upstream))
    if not (pairs or having):
        # What never happens proves nothing.
        report.check_that(f"{kind}: swaps that two people approved are sent", totals["released"] > 0, totals)
    print(f"{kind}: {totals['pairs']} pairs, {totals['swaps']} swaps, {totals['unknown']} of unknown outcome")
    print(f"  {totals['released']} swaps that people approved, {totals['forbidden']} stricter sets in force")


def read_part(text: str) -> tuple[int, int]:
    """Reads "2/3": the second of three."""
    nth, of = (int(number) for number in text.split("/"))
    if not 1 <= nth <= of:
        raise ValueError(text)
    return nth, of


def write_result(file: Path, result: PairResult) -> None:
    with file.open("a", encoding="utf-8") as lines:
        lines.write(json.dumps(result._asdict()) + "\n")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("binary", type=os.path.abspath)
    parser.add_argument("--long", action="store_true")
    parser.add_argument("--rounds", type=int)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--kind", choices=KINDS)
    parser.add_argument("--pair", nargs=2, action="append", default=[])
    parser.add_argument("--part", type=read_part, default=(1, 1))
    parser.add_argument("--having", nargs="+", default=[])
    parser.add_argument("--results", type=Path)
    arguments = parser.parse_args()
    print(f"seed {arguments.seed}", flush=True)
    report = Report()
    pairs = [(first, second) for first, second in arguments.pair]
    for kind in KINDS:
        if arguments.kind in (None, kind):
            for nth in range(arguments.rounds or (3 if arguments.long else 1)):
                seed = arguments.seed + nth
                asked = (arguments.results, arguments.part, arguments.having)
                run(arguments.binary, report, kind, pairs, arguments.long, seed, *asked)
    return report.close()


if __name__ == "__main__":
    sys.exit(main())
