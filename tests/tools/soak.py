"""Keeps two gates on a Redis busy for a long time, with few faults, and watches how much they use.

Usage: `python tests/tools/soak.py SLUICE [--minutes N] [--seed N] [--most N]`.

First callers make swaps as fast as they can, which shows the capacity of callers, gates and Redis together; then they
make half as many, or `--most` a second where the disk has no room for more (a payment takes some 35 kB of two gates and
their Redis). Of the calls to upstream 1 % are slow, 1 % are answered with a foreign record and 1 % are cut off;
for 1 % of the time the Redis is slow, refuses or says nothing; now and then policies and certificates are replaced.
Memory and descriptors must not grow: their means over the last third of the time are compared with those over the
third before. A payment has a bound on the disk of a gate. Nothing may happen twice, and the audit chain is whole.
"""

import argparse
import os
import random
import statistics
import sys
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from matrix import Place, start_place
from report import Report
from swaps import Swaps, call_until_known, check_audit, check_swaps, read_journal, run_job

CALLERS = 8
# How long callers make swaps as fast as they can, at most.
CAPACITY_SECONDS = 20.0
# How often the gates are measured, and how often something goes wrong with the store, or is replaced.
MEASURE_SECONDS = 5.0
TROUBLE_SECONDS = 100.0
TROUBLE_LASTS_SECONDS = 1.0
TROUBLES = ("store slow", "store refused", "store mute", "policies replaced", "certificate broken")
UPSTREAM_FAULTS: tuple[dict[str, object], ...] = (
    {"kind": "delay", "ms": 800, "percent": 1},
    {"kind": "foreignRecord", "percent": 1},
    {"kind": "resetAfterReceiving", "percent": 1},
)
MOST_PAYMENTS = 3_000_000
# The reply to one of so many payments stays.
KEPT_OF_PAYMENTS = 20
# Lines of each gate's log that stay, so that this program does not grow with the payments.
KEPT_LOG_LINES = 1_000
# A third may use so much more than the third before it.
MORE_MEMORY = 1.10
# In the first minutes caches still fill: a short run finds only what grows fast.
WARM_SECONDS = 1_200
MORE_MEMORY_AT_FIRST = 1.30
MORE_FILES = 16
# A file of the audit log is full after minutes, so that snapshots, which fill the cache of the copy, begin before
# memory is compared.
SETTINGS = "\n[audit]\nfile_bytes = 8_388_608\n"
# Audit log and copy of the store, for each payment, besides what a gate without payments has.
DISK_BYTES_A_PAYMENT = 30_000
DISK_BYTES_AT_FIRST = 64 << 20


class Use(NamedTuple):
    """The resources that a gate used at one moment."""

    second: float
    memory: int
    files: int
    disk: int


class ManySwaps(Swaps):
    """Swaps of which most replies are forgotten again, for there are too many to ask each a second time."""

    def __init__(self, token: Callable[[], str]) -> None:
        super().__init__(MOST_PAYMENTS, "soak", token)
        self.forgotten = 0

    def forget_most(self) -> None:
        for request_id, reply in list(self.acknowledged.items()):
            if reply and not self.is_compared(request_id):
                del self.acknowledged[request_id]
                self.forgotten += 1

    def is_compared(self, request_id: str) -> bool:
        # What upstream did becomes long: to read it for each reply would take more than the payments.
        return int(request_id.rpartition("-")[2]) % KEPT_OF_PAYMENTS == 0

    def made(self) -> int:
        return self.forgotten + len(self.acknowledged)


class Pace:
    """Lets callers begin so many calls a second together; without a number, as many as they can."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.seconds_a_call = 0.0
        self.next = time.monotonic()

    def set_rate(self, calls_a_second: float) -> None:
        with self.lock:
            self.seconds_a_call = 1 / calls_a_second
            self.next = time.monotonic()

    def wait(self) -> None:
        with self.lock:
            turn = self.next = max(self.next + self.seconds_a_call, time.monotonic() - 1)
        time.sleep(max(0.0, turn - time.monotonic()))


def measure(pid: int, folder: Path, second: float) -> Use:
    status = Path(f"/proc/{pid}/status").read_text(encoding="utf-8")
    [memory] = [int(line.split()[1]) * 1024 for line in status.splitlines() if line.startswith("VmRSS:")]
    files = len(list(Path(f"/proc/{pid}/fd").iterdir()))
    return Use(second, memory, files, size_of(folder))


def size_of(folder: Path) -> int:
    total = 0
    for root, _, names in os.walk(folder):
        for name in names:
            # A file may have gone meanwhile.
            try:
                total += (Path(root) / name).stat().st_blocks * 512
            except FileNotFoundError:
                continue
    return total


def check_use(report: Report, node: str, uses: Sequence[Use], payments: int) -> None:
    """Compares the last third of the time with the third before."""
    third = len(uses) // 3
    before, last = uses[third : 2 * third], uses[2 * third :]

    def means(of: Callable[[Use], int]) -> tuple[float, float]:
        return statistics.mean(map(of, before)), statistics.mean(map(of, last))

    memory, more_memory = means(lambda use: use.memory)
    more = MORE_MEMORY if uses[-1].second > WARM_SECONDS else MORE_MEMORY_AT_FIRST
    report.check_that(f"{node}: memory stays", more_memory <= memory * more, (memory, more_memory))
    files, more_files = means(lambda use: use.files)
    report.check_that(f"{node}: descriptors stay", more_files <= files + MORE_FILES, (files, more_files))
    disk, most = uses[-1].disk, DISK_BYTES_AT_FIRST + payments * DISK_BYTES_A_PAYMENT
    report.check_that(f"{node}: the disk has a bound", disk <= most, (disk, most))
    peak = max(use.memory for use in uses)
    print(
        f"{node}: memory {memory / 1e6:.1f} MB, then {more_memory / 1e6:.1f} MB, at most {peak / 1e6:.1f} MB; "
        f"descriptors {files:.0f}, then {more_files:.0f}; disk {disk / max(payments, 1) / 1e3:.1f} kB a payment"
    )


def watch(place: Place, swaps: ManySwaps, seconds: float, chance: random.Random) -> list[list[Use]]:
    """Measures each gate, and lets few things go wrong, until the time is over."""
    uses: list[list[Use]] = [[] for _ in place.gates]
    begin = time.monotonic()
    next_trouble = begin + min(TROUBLE_SECONDS, seconds / 4)
    # A caller that failed stops all: what is measured without payments says nothing.
    while (now := time.monotonic()) < begin + seconds and not swaps.faults:
        for gate, of_gate in zip(place.gates, uses, strict=True):
            of_gate.append(measure(gate.child.pid, gate.folder, now - begin))
        swaps.forget_most()
        for gate in place.gates:
            del gate.logs[-1][:-KEPT_LOG_LINES]
        if now >= next_trouble:
            next_trouble = now + TROUBLE_SECONDS
            name = chance.choice(TROUBLES)
            fault = place.faults()[name]
            fault.begin()
            time.sleep(TROUBLE_LASTS_SECONDS)
            fault.end()
            used = ", ".join(f"{of_gate[-1].memory / 1e6:.0f} MB" for of_gate in uses)
            print(f"  {now - begin:5.0f} s: {used}; {name}", flush=True)
        time.sleep(MEASURE_SECONDS)
    return uses


def run(binary: str, report: Report, seconds: float, seed: int, most: float) -> None:
    chance = random.Random(seed)
    with start_place(binary, "redis", chance, SETTINGS) as place:
        swaps, pace = ManySwaps(lambda: place.issuer.token), Pace()
        place.swaps = swaps
        job = (lambda: call_until_known(place.gates, swaps, place.upstream, pace.wait), swaps)
        callers = [threading.Thread(target=run_job, args=job) for _ in range(CALLERS)]
        for caller in callers:
            caller.start()
        trial = min(CAPACITY_SECONDS, seconds / 6)
        time.sleep(trial)
        capacity = swaps.made() / trial
        rate = min(capacity / 2, most)
        pace.set_rate(rate)
        print(f"capacity {capacity:.0f} payments a second; {rate:.0f} for {seconds:.0f} s", flush=True)
        for fault in UPSTREAM_FAULTS:
            place.ask_upstream("POST", {"operation": "createSwap", **fault})
        uses = watch(place, swaps, seconds, chance)
        place.ask_upstream("DELETE", None)
        report.check("money moves", place.await_money())
        swaps.stop()
        for caller in callers:
            caller.join()
        payments = swaps.made()
        print(f"{payments} payments; of those that are asked again {swaps.summary()}", flush=True)
        for gate, of_gate in zip(place.gates, uses, strict=True):
            check_use(report, gate.folder.name, of_gate, payments)
        check_swaps(report, "soak", place.gates, swaps, place.upstream)
        codes = [gate.stop() for gate in place.gates]
        report.check_that("the gates stop in order", codes == [0] * len(codes), codes)
        folders = [gate.audit_folder for gate in place.gates]
        check_audit(binary, report, "soak", folders, read_journal(place.upstream))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("binary", type=os.path.abspath)
    parser.add_argument("--minutes", type=float, default=0.5)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--most", type=float, default=float("inf"))
    arguments = parser.parse_args()
    print(f"seed {arguments.seed}", flush=True)
    report = Report()
    run(arguments.binary, report, arguments.minutes * 60, arguments.seed, arguments.most)
    return report.close()


if __name__ == "__main__":
    sys.exit(main())
