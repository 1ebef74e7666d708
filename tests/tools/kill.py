"""Kills a gate again and again while callers repeat their swaps until they know the outcome.

Usage: `python tests/tools/kill.py SLUICE [--long] [--seed N]`.

The simulator behind the gate is not idempotent: a call that reaches it twice takes effect twice. In the first run it
always responds; in the second a part of its responses is lost. Nothing may happen twice; a repeat of an acknowledged
swap gets the same reply, byte for byte; no executed swap is ever reported as not executed; everything that took effect
is in the audit log. Short: 600 swaps and 5 kills; long: 10,000 swaps and at least 30.
"""

import json
import random
import sys
import tempfile
from collections.abc import Callable
from http.client import HTTPConnection
from pathlib import Path

from gate import start_simulator
from report import Report, parse_arguments
from swaps import (
    CALLERS,
    KillableGate,
    Swaps,
    call_until_known,
    check_audit,
    check_swaps,
    kill_repeatedly,
    read_journal,
    run_together,
)

# Faults of the simulator that lose a response, in percent of the calls.
LOSSES = {"resetAfterReceiving": 10, "closeAfterReceiving": 10, "hang": 5, "hangBeforeEffect": 5}


def lose_responses(upstream: str) -> None:
    for kind, percent in LOSSES.items():
        connection = HTTPConnection(upstream, timeout=30)
        connection.request("POST", "/simulator/faults", json.dumps({"kind": kind, "percent": percent}))
        if connection.getresponse().status != 201:
            raise RuntimeError("the simulator refused a fault")


def run(
    binary: str,
    report: Report,
    name: str,
    *,
    count: int,
    kills: int,
    is_lossy: bool,
    seed: int,
) -> None:
    chance = random.Random(seed)
    with (
        start_simulator(binary, "--latency-ms", "2") as upstream,
        tempfile.TemporaryDirectory(prefix="sluice-") as folder,
    ):
        if is_lossy:
            lose_responses(upstream)
        gate, swaps = KillableGate(binary, upstream, Path(folder)), Swaps(count, name)
        gate.start()
        jobs: list[Callable[[], object]] = [lambda: call_until_known([gate], swaps, upstream)] * CALLERS
        spent = run_together([*jobs, lambda: kill_repeatedly(gate, swaps, kills, chance)], swaps)
        check_swaps(report, name, [gate], swaps, upstream)
        report.check_that(f"{name}: killed {gate.kills} times", gate.kills >= kills, f"{kills} were wanted")
        code = gate.stop()
        report.check_that(f"{name}: the gate stops in order", code == 0, f"exit code {code}")
        check_audit(binary, report, name, [gate.audit_folder], read_journal(upstream))
        print(f"{name}: {count} swaps in {spent:.0f} s, {gate.kills} kills, {swaps.summary()}")


def main() -> int:
    arguments = parse_arguments(__doc__)
    binary, seed = arguments.binary, arguments.seed
    count, kills = (10_000, 30) if arguments.long else (600, 5)
    print(f"seed {seed}")
    report = Report()
    run(binary, report, "killed", count=count, kills=kills, is_lossy=False, seed=seed)
    run(binary, report, "killed and lossy", count=count // 5, kills=max(kills // 3, 3), is_lossy=True, seed=seed)
    return report.close()


if __name__ == "__main__":
    sys.exit(main())
