"""Runs three gates on one Redis that forgets, is set back, altered or paused, or whose clock leaps; gates come and go.

Usage: `python tests/tools/forgets.py SLUICE [--long] [--seed N]`.

Callers make swaps at any gate, and repeat each until its outcome is known. Meanwhile the Redis is emptied, set back to
an older copy, loses or swaps records, stands still, or has its clock leap and return; gates are killed, stand still,
end in order, lose their audit folder, come alone with a new one, or have their finished audit files moved away. After
each event money must move again: by itself where nothing can be missing, and otherwise only after two people opened it.
Nothing may happen twice, no limit may be exceeded, earlier swaps keep their outcome, and the audit chain over all kept
folders is whole.
Short: 15 events; long: 200.
"""

import itertools
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from gate import free_port, start_simulator, wait_until
from nodes import Redis, number_of_head, start_redis, words_to_read_head
from people import open_money, people_config, quick_config, read_readiness, redis_config, scope_to_open
from report import Report, parse_arguments
from swaps import KillableGate, Swaps, check_audit, check_swaps, post_swap, read_journal, run_together

NODES = ("left", "right", "third")
# How long money may take to move again, or to be closed.
PATIENCE_SECONDS = 120
CALLERS = 8
DAY = 24 * 3_600
# The amount of each swap, and what all swaps together may spend.
AMOUNT, BUDGET = 10, 1_000
RULES = f"""
[value]
slippage = "1%"

[[rule]]
id = "everything"
effect = "allow"
when = {{ op = "*" }}

[[limit]]
id = "budget"
ops = ["createSwap"]
window = "rolling 30d"
max = "{BUDGET} USD"
over = "deny"
"""
CLAIM = "sluice:{production}:r:claim:request/"
# How many numbers a rebuild leaves free.
FREE_NUMBERS = 1_000_000


def config_of(node: str, redis_port: int, console_port: int) -> str:
    """Returns the part of a gate's configuration that this tool adds."""
    parts = (quick_config(), redis_config(node, redis_port, NODES), people_config(console_port))
    return "".join(parts) + "\n[audit]\nfile_bytes = 65_536\n"


class Fleet:
    """Three gates, the Redis between them, and what this run knows of both."""

    def __init__(self, binary: str, upstream: str, folder: Path, redis: Redis) -> None:
        self.binary = binary
        self.redis = redis
        self.upstream = upstream
        self.folder = folder
        self.consoles = [free_port() for _ in NODES]
        self.gates: list[KillableGate] = []
        for node, console in zip(NODES, self.consoles, strict=True):
            home = folder / node
            home.mkdir()
            self.gates.append(KillableGate(binary, upstream, home, config_of(node, redis.port, console)))
            (home / "policies" / "everything.toml").write_text(RULES, encoding="utf-8")
        for gate in self.gates:
            gate.start()
        # Folders that were taken away: their journals are checked by nobody.
        self.lost: list[Path] = []
        self.opened = 0

    def moves(self, gate: KillableGate) -> bool:
        """Returns whether money could move at a gate."""
        return read_readiness(gate).startswith("200")

    def open_money(self, scope: str) -> str:
        """Opens money as two people do; returns what the commands said."""
        self.opened += 1
        return open_money(self.binary, self.consoles[0], scope, ("production", "sandbox"))

    def last_number(self) -> int:
        """Returns the number that the next commit exceeds, by the Redis."""
        fields = ("last", "above")
        return max(number_of_head(self.redis.ask(*words_to_read_head("sluice:{production}", one))) for one in fields)

    def warnings(self) -> list[str]:
        """Returns what the gates warned of, in order."""
        said = []
        for gate in self.gates:
            for line in itertools.chain(*gate.logs):
                if line.get("level") in {"WARN", "ERROR"}:
                    facts = {key: line[key] for key in line if key not in {"timestamp", "level", "message", "target"}}
                    said.append(f"{line.get('timestamp')} {gate.folder.name}: {line.get('message')} {facts}")
        return sorted(said)

    def claims(self) -> list[str]:
        """Returns the keys of the claims in the Redis."""
        keys: list[str] = []
        cursor = "0"
        while True:
            next_cursor, found = self.redis.ask("SCAN", cursor, "MATCH", CLAIM + "*", "COUNT", 1000)
            keys += [key.decode() for key in found]
            cursor = next_cursor.decode()
            if cursor == "0":
                return sorted(keys)


class Events:
    """The events of one run, in an order that the seed decides."""

    def __init__(self, fleet: Fleet, swaps: Swaps, chance: random.Random, count: int) -> None:
        self.fleet = fleet
        self.swaps = swaps
        self.chance = chance
        self.count = count
        self.is_over = False
        self.kinds: dict[str, Callable[[], bool]] = {
            "emptied": self.empty,
            "emptied while a gate dies": self.empty_while_a_gate_dies,
            "emptied behind a gate that ended": self.empty_behind_an_end,
            "emptied while no gate runs": self.empty_while_no_gate_runs,
            "set back": self.set_back,
            "claims removed": self.remove_claims,
            "a gate is killed": self.kill,
            "a folder is lost, then emptied": self.lose_a_folder,
            "emptied before a gate with a new folder, which comes alone": self.rebuild_from_the_middle,
            "files are archived, then emptied": self.archive,
            "the clock leaps and returns": self.leap,
            "the clock leaps while a gate dies": self.leap_while_a_gate_dies,
            "a gate stands still": self.pause_a_gate,
            "the Redis stands still": self.pause,
            "claims swapped": self.swap_claims,
        }

    def run(self) -> None:
        try:
            names = itertools.cycle(self.chance.sample(sorted(self.kinds), len(self.kinds)))
            for nth in range(self.count):
                if not self.make(nth, next(names)):
                    break
        finally:
            self.is_over = True
            self.swaps.stop()

    def make(self, nth: int, name: str) -> bool:
        """Makes an event, and returns whether money moves after it."""
        time.sleep(self.chance.uniform(0.3, 1.0))
        begin = time.monotonic()
        may_stay_closed = self.kinds[name]()
        fleet = self.fleet
        if may_stay_closed:
            wait_until(lambda: any(scope_to_open(read_readiness(gate)) for gate in fleet.gates), 10)
        said = ""
        for gate in fleet.gates:

            def is_open(gate: KillableGate = gate) -> bool:
                nonlocal said
                if may_stay_closed and (scope := scope_to_open(read_readiness(gate))):
                    said = fleet.open_money(scope)
                return fleet.moves(gate)

            if not wait_until(is_open, PATIENCE_SECONDS):
                self.swaps.faults.append(f"event {nth}, {name}: money stays closed: {read_readiness(gate)}; {said}")
                print(self.doctor(), flush=True)
                return False
        print(f"  {nth}: {name}, money moves after {time.monotonic() - begin:.1f} s", flush=True)
        return True

    def doctor(self) -> str:
        config = self.fleet.gates[0].folder / "sluice.toml"
        done = subprocess.run(
            [self.fleet.binary, "doctor", "--config", config], capture_output=True, text=True, check=False
        )
        return done.stdout + done.stderr

    def wait_for_rebuild(self, before: int) -> None:
        """Waits until the gates have noticed a loss; until then, money seems to move."""
        rebuilt = before + FREE_NUMBERS
        if not wait_until(lambda: self.fleet.last_number() >= rebuilt, PATIENCE_SECONDS):
            self.swaps.faults.append(
                f"the store was not rebuilt: it stands at {self.fleet.last_number()}, not {rebuilt}"
            )

    def any_gate(self) -> KillableGate:
        return self.chance.choice(self.fleet.gates)

    def any_later_gate(self) -> KillableGate:
        """Returns a gate whose folder may be lost: the first one keeps what the end is checked by."""
        return self.chance.choice(self.fleet.gates[1:])

    def empty(self) -> bool:
        before = self.fleet.last_number()
        self.fleet.redis.ask("FLUSHALL")
        self.wait_for_rebuild(before)
        return False

    def empty_while_a_gate_dies(self) -> bool:
        gate, before = self.any_gate(), self.fleet.last_number()
        acts: list[Callable[[], object]] = [gate.kill, lambda: self.fleet.redis.ask("FLUSHALL")]
        for act in self.chance.sample(acts, 2):
            act()
        time.sleep(self.chance.uniform(0, 8))
        gate.start()
        self.wait_for_rebuild(before)
        return False

    def empty_behind_an_end(self) -> bool:
        gate, before = self.any_gate(), self.fleet.last_number()
        gate.stop()
        self.fleet.redis.ask("FLUSHALL")
        time.sleep(self.chance.uniform(0, 3))
        gate.start()
        self.wait_for_rebuild(before)
        return False

    def empty_while_no_gate_runs(self) -> bool:
        before = self.fleet.last_number()
        for gate in self.chance.sample(self.fleet.gates, 3):
            gate.kill()
            time.sleep(self.chance.uniform(0, 0.5))
        self.fleet.redis.ask("FLUSHALL")
        for gate in self.chance.sample(self.fleet.gates, 3):
            gate.start()
            time.sleep(self.chance.uniform(0, 2))
        self.wait_for_rebuild(before)
        return False

    def set_back(self) -> bool:
        redis = self.fleet.redis
        redis.kill()
        data, copy = redis.folder / "appendonlydir", redis.folder / "copy"
        shutil.copytree(data, copy)
        redis.restart()
        before = self.fleet.last_number()
        time.sleep(self.chance.uniform(1, 4))
        # Once the limit is spent, nothing may be committed meanwhile: then nothing is lost.
        is_lost = wait_until(lambda: self.fleet.last_number() > before, 5)
        redis.kill()
        shutil.rmtree(data)
        shutil.move(copy, data)
        redis.restart()
        if is_lost:
            self.wait_for_rebuild(before)
        return False

    def remove_claims(self) -> bool:
        """Callers repeat what was removed: the second contradiction has the Redis rebuilt, and a person opens money."""
        claims = self.chance.sample(claims := self.fleet.claims(), min(8, len(claims)))
        for claim in claims:
            self.fleet.redis.ask("DEL", claim)
        for claim in claims:
            # What is told of them is not looked at; what takes effect is.
            post_swap(self.any_gate().port, claim.removeprefix(CLAIM), str(AMOUNT))
        return True

    def leap(self) -> bool:
        self.fleet.redis.leap(self.chance.choice([2 * DAY, 450 * DAY, -2 * DAY, DAY // 24, -DAY // 24]))
        time.sleep(self.chance.uniform(2.5, 6))
        self.fleet.redis.leap(0)
        # The return is a leap as well.
        time.sleep(3)
        return True

    def leap_while_a_gate_dies(self) -> bool:
        gate = self.any_gate()
        acts: list[Callable[[], object]] = [gate.kill, lambda: self.fleet.redis.leap(2 * DAY)]
        for act in self.chance.sample(acts, 2):
            act()
        time.sleep(self.chance.uniform(3, 8))
        gate.start()
        time.sleep(self.chance.uniform(0, 3))
        self.fleet.redis.leap(0)
        time.sleep(3)
        return True

    def pause_a_gate(self) -> bool:
        gate = self.any_gate()
        gate.child.send_signal(signal.SIGSTOP)
        time.sleep(self.chance.uniform(0.5, 8))
        gate.child.send_signal(signal.SIGCONT)
        # Another gate may have gone on without it.
        time.sleep(1)
        return False

    def pause(self) -> bool:
        self.fleet.redis.freeze()
        time.sleep(self.chance.uniform(0.5, 6))
        self.fleet.redis.thaw()
        return False

    def swap_claims(self) -> bool:
        """Puts the records of two claims in each other's place: whoever asks is refused, and nothing is sent."""
        # An outcome that is on its way could not be stored meanwhile.
        done = {CLAIM + request_id for request_id, reply in list(self.swaps.acknowledged.items()) if reply}
        claims = [claim for claim in self.fleet.claims() if claim in done]
        if len(claims) < 2:
            return False
        one, other = self.chance.sample(claims, 2)
        redis = self.fleet.redis
        for first, second in ((one, other), (other, one)):
            redis.ask("RENAME", first, "aside")
            redis.ask("RENAME", second, first)
            redis.ask("RENAME", "aside", second)
            if first == one:
                for claim in (one, other):
                    reply = post_swap(self.any_gate().port, claim.removeprefix(CLAIM), str(AMOUNT))
                    if reply is not None and reply.outcome in {"executed", "not-executed"} and reply.status < 500:
                        self.swaps.faults.append(f"a claim in another's place was believed: {reply}")
        return False

    def kill(self) -> bool:
        gate = self.any_gate()
        gate.kill()
        time.sleep(self.chance.uniform(0, 8))
        gate.start()
        return False

    def lose_a_folder(self) -> bool:
        """The other gates have everything."""
        self.give_a_new_folder(self.any_later_gate())
        return self.empty()

    def give_a_new_folder(self, gate: KillableGate) -> None:
        """Takes a gate's folder away; its new journal begins in the middle."""
        gate.stop()
        away = self.fleet.folder / f"lost-{len(self.fleet.lost)}"
        gate.audit_folder.rename(away)
        archive = gate.folder / "archive"
        if archive.exists():
            archive.rename(away / "archive")
        self.fleet.lost.append(away)
        gate.start()
        wait_until(lambda: self.fleet.moves(gate), PATIENCE_SECONDS)

    def rebuild_from_the_middle(self) -> bool:
        """Once the other gates come, the Redis is rebuilt again from what they have."""
        gate = self.any_later_gate()
        self.give_a_new_folder(gate)
        others = [other for other in self.fleet.gates if other is not gate]
        for other in others:
            other.kill()
        # Its journal reaches further than those of the others.
        time.sleep(self.chance.uniform(0.5, 3))
        gate.kill()
        # A gate that joined in time has learnt what was before: the others have nothing to add.
        told = [line for line in gate.logs[-1] if line.get("environment") == "production"]
        knows_all = any(str(line.get("message")).startswith("this gate has the snapshot") for line in told)
        before = self.fleet.last_number()
        self.fleet.redis.ask("FLUSHALL")
        gate.start()
        self.wait_for_rebuild(before)
        before = self.fleet.last_number()
        for other in others:
            other.start()
            time.sleep(self.chance.uniform(0, 2))
        if not knows_all:
            self.wait_for_rebuild(before)
        return True

    def archive(self) -> bool:
        for gate in self.fleet.gates:
            gate.stop()
            archive = gate.folder / "archive"
            archive.mkdir(exist_ok=True)
            files = sorted(gate.audit_folder.glob(f"audit-{gate.folder.name}-[0-9]*.jsonl"))
            for file in files[:-1]:
                file.rename(archive / file.name)
            gate.start()
        return self.empty()


def call(fleet: Fleet, swaps: Swaps, chance: random.Random) -> None:
    """Makes swap after swap, and repeats each at any gate until its outcome is known."""
    while request_id := swaps.take():
        swaps.acknowledged[request_id] = None
        end = time.monotonic() + 2 * PATIENCE_SECONDS
        while time.monotonic() < end:
            reply = post_swap(chance.choice(fleet.gates).port, request_id, str(AMOUNT))
            if reply is not None and reply.outcome == "executed":
                swaps.acknowledged[request_id] = reply
                break
            if reply is not None and b"LIMIT_EXCEEDED" in reply.body:
                del swaps.acknowledged[request_id]
                break
            if reply is not None and b"OUTCOME_UNKNOWN" in reply.body:
                break
            time.sleep(0.1)
        # Few swaps fit into the budget, and they are spread over all events.
        time.sleep(chance.uniform(0.2, 1.5))


def folders_of(fleet: Fleet) -> list[Path]:
    archives = [gate.folder / "archive" for gate in fleet.gates]
    return [*(gate.audit_folder for gate in fleet.gates), *(archive for archive in archives if archive.exists())]


def run(binary: str, report: Report, events: int, seed: int) -> None:
    name, chance = "forgets", random.Random(seed)
    with (
        start_simulator(binary, "--latency-ms", "2", "--seed", str(seed)) as upstream,
        tempfile.TemporaryDirectory(prefix="sluice-") as folder,
        start_redis(folder, has_own_clock=True) as redis,
    ):
        fleet, swaps = Fleet(binary, upstream, Path(folder), redis), Swaps(1_000_000, name)
        maker = Events(fleet, swaps, chance, events)
        jobs: list[Callable[[], object]] = [lambda: call(fleet, swaps, random.Random(seed))] * CALLERS
        try:
            spent = run_together([*jobs, maker.run], swaps)
        finally:
            maker.is_over = True
        check_swaps(report, name, fleet.gates, swaps, upstream)
        effects = read_journal(upstream)
        made = sum(1 for count in effects.values() if count)
        report.check_that(f"{name}: the limit holds", made * AMOUNT <= BUDGET, f"{made} swaps of {AMOUNT} were made")
        codes = [gate.stop() for gate in fleet.gates]
        report.check_that(f"{name}: the gates stop in order", codes == [0, 0, 0], codes)
        check_audit(binary, report, name, folders_of(fleet), effects)
        if report.failures:
            print(*fleet.warnings(), sep="\n")
        print(f"{name}: {events} events in {spent:.0f} s, {made} swaps, {swaps.summary()}, opened {fleet.opened} times")


def main() -> int:
    arguments = parse_arguments(__doc__)
    print(f"seed {arguments.seed}")
    report = Report()
    run(arguments.binary, report, 200 if arguments.long else 15, arguments.seed)
    return report.close()


if __name__ == "__main__":
    sys.exit(main())
