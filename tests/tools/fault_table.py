"""Writes a page about pairs of faults from the results of `matrix.py`.

Usage: `python tests/tools/fault_table.py RESULTS --date DATE --machine TEXT [--note TEXT] >PAGE`.
"""

import argparse
import json
import sys
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

from matrix import KINDS, PairResult

STORES = {"redis": "two gates, one Redis", "sentinels": "two gates, Sentinels", "embedded": "one gate, embedded store"}
PAGE = """# Two faults at once

`tests/tools/matrix.py` brings every pair of faults upon gates that are under load: callers make swaps and repeat each
until its outcome is known, people vote for swaps that wait for two of them, and callers try what a stricter set
forbids. Both faults begin at random moments and end in a random order. After each pair money must move again: by
itself, or after people opened it where the store forgot or its clock leapt. A pair **held** if afterwards

- nothing happened twice at upstream, and no executed swap was told to be not executed;
- each repeat got the reply of before;
- no swap left with too few approvals, or by a set of policies that was replaced;
- money moved again within a minute.

At the end of each column the limit counts what was executed, and at most what is in doubt besides; the audit log of all
gates is whole and has every swap that upstream executed; the gates stop in order.

Each cell says how many of a fault's pairs held.

| fault | {stores} |
|---|{lines}|
{rows}
| **pairs** | {pairs} |

Run on {date}: {machine}; {seconds} in all; seeds {seeds}. {failed}{note}

Repeat it with `python tests/tools/matrix.py SLUICE --long --results FILE`, and write this page with
`python tests/tools/fault_table.py FILE`. `tests/run` brings each fault once, in pairs that its seed chooses;
`tests/run long` brings every pair three times. `matrix.py` says what each fault does.
"""


def read_results(file: Path) -> list[PairResult]:
    read = (json.loads(line) for line in file.read_text(encoding="utf-8").splitlines())
    return [PairResult(**{**one, "faults": tuple(one["faults"])}) for one in read]


def cell(of: Iterable[PairResult]) -> str:
    held = [one.held for one in of]
    return f"{sum(held)} of {len(held)}" if held else "none"


def page(results: list[PairResult], date: str, machine: str, note: str) -> str:
    by_fault: dict[tuple[str, str], list[PairResult]] = defaultdict(list)
    for one in results:
        for fault in set(one.faults):
            by_fault[fault, one.store].append(one)
    faults = sorted({fault for fault, _ in by_fault})
    rows = [f"| {fault} | " + " | ".join(cell(by_fault[fault, store]) for store in KINDS) + " |" for fault in faults]
    failed = [f"{one.store}: {one.faults[0]} and {one.faults[1]}, seed {one.seed}" for one in results if not one.held]
    minutes = sum(one.seconds for one in results) / 60
    return PAGE.format(
        stores=" | ".join(STORES[store] for store in KINDS),
        lines="|".join("---" for _ in KINDS),
        rows="\n".join(rows),
        pairs=" | ".join(f"**{cell(one for one in results if one.store == store)}**" for store in KINDS),
        date=date,
        machine=machine,
        seconds=f"{minutes:.0f} minutes",
        seeds=", ".join(str(seed) for seed in sorted({one.seed for one in results})),
        failed=f"Not held: {'; '.join(failed)}." if failed else "All pairs held.",
        note=f"\n\n{note}" if note else "",
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("results", type=Path)
    parser.add_argument("--date", required=True)
    parser.add_argument("--machine", required=True)
    parser.add_argument("--note", default="")
    arguments = parser.parse_args()
    print(page(read_results(arguments.results), arguments.date, arguments.machine, arguments.note), end="")
    return 0


if __name__ == "__main__":
    sys.exit(main())
