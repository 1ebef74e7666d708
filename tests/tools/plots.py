"""Draws the figures of `scaling.py`, and works out what larger installations need.

Usage: `python tests/tools/plots.py FIGURES.json FOLDER [--check]`.

Writes `size-cpu.svg`, `size-rate.svg` and `size-memory.svg` into FOLDER, and prints the table of `size.md`. With
`--check` it writes nothing, and fails where a drawing in FOLDER is another.

The model has a line for each cost. A gate takes CPU for its own payments, and for the entries of every other gate. The
Redis takes CPU for each payment, and for each gate that reads its entry. Nothing is planned above `BUSY` of a core.
"""

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

# How busy a core is planned to be.
BUSY = 0.7
CORES = [1, 2, 4]
MOST_GATES = 8
RATES = [10, 100, 1_000, 10_000]
DAY_SECONDS = 86_400
# How long answers and tombstones are kept: as by default, and short.
KEPT_DAYS = [(35, 400), (2, 30)]
WIDTH, HEIGHT, LEFT, TOP, RIGHT, BOTTOM = 640, 320, 64, 40, 168, 44
COLOURS = ["#1b6ca8", "#c8553d", "#588157", "#6d597a"]


class Costs(NamedTuple):
    """What a payment takes, in seconds of CPU."""

    own: float
    other: float
    redis: float
    reader: float

    def gates_rate(self, gates: int, cores: int) -> float:
        """Returns how many payments a second so many gates make, with so many cores each."""
        return gates * cores * BUSY / (self.own + (gates - 1) * self.other)

    def redis_rate(self, gates: int) -> float:
        """Returns how many payments a second one Redis takes from so many gates."""
        return BUSY / (self.redis + (gates - 1) * self.reader)


class Line(NamedTuple):
    """A line of a drawing."""

    name: str
    points: Sequence[tuple[float, float]]
    is_dashed: bool = False


def costs_of(figures: dict[str, Any]) -> Costs:
    """Returns the costs that one gate and the largest number of gates show."""
    one, most = figures["gates"][0], figures["gates"][-1]
    more = most["gates"] - one["gates"]
    return Costs(
        own=one["gate_cpu_us"] / 1e6,
        other=(most["gate_cpu_us"] - one["gate_cpu_us"]) / more / 1e6,
        redis=one["redis_cpu_us"] / 1e6,
        reader=(most["redis_cpu_us"] - one["redis_cpu_us"]) / more / 1e6,
    )


def kept_bytes(figures: dict[str, Any], rate: float, answers_days: int, spent_days: int) -> float:
    """Returns what the Redis holds in the end at this rate."""
    memory = figures["memory"]
    each = answers_days * memory["claim_bytes"] + spent_days * memory["tombstone_bytes"]
    return rate * DAY_SECONDS * float(each)


def draw(title: str, x_name: str, lines: Sequence[Line], shown: Callable[[float], str], most: float) -> str:
    """Returns a drawing of lines over whole numbers, or over the positions of `RATES`."""
    last = max(x for line in lines for x, _ in line.points)
    first = min(x for line in lines for x, _ in line.points)

    def place(x: float, y: float) -> str:
        across = LEFT + (x - first) / (last - first) * (WIDTH - LEFT - RIGHT)
        down = HEIGHT - BOTTOM - y / most * (HEIGHT - TOP - BOTTOM)
        return f"{across:.1f},{down:.1f}"

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif"'
        ' font-size="12">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
        f'<text x="{LEFT}" y="22" font-size="14">{title}</text>',
        f'<text x="{(LEFT + WIDTH - RIGHT) / 2}" y="{HEIGHT - 8}" text-anchor="middle">{x_name}</text>',
    ]
    for step in range(5):
        _, down = place(first, most * step / 4).split(",")
        parts.append(f'<path d="M{LEFT},{down}H{WIDTH - RIGHT}" stroke="#dddddd"/>')
        parts.append(f'<text x="{LEFT - 6}" y="{down}" dy="4" text-anchor="end">{most * step / 4:,.0f}</text>')
    for x, _ in lines[0].points:
        across, _ = place(x, 0).split(",")
        parts.append(f'<text x="{across}" y="{HEIGHT - BOTTOM + 16}" text-anchor="middle">{shown(x)}</text>')
    for at, line in enumerate(lines):
        colour = COLOURS[at % len(COLOURS)]
        dashes = ' stroke-dasharray="6 4"' if line.is_dashed else ""
        path = " ".join(place(x, y) for x, y in line.points)
        parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"{dashes}/>')
        parts += [
            f'<circle cx="{across}" cy="{down}" r="3" fill="{colour}"/>'
            for across, down in (place(x, y).split(",") for x, y in line.points)
        ]
        level = TOP + 16 * at + 8
        parts.append(f'<rect x="{WIDTH - RIGHT + 12}" y="{level - 8}" width="10" height="10" fill="{colour}"/>')
        parts.append(f'<text x="{WIDTH - RIGHT + 28}" y="{level + 1}">{line.name}</text>')
    return "\n".join([*parts, "</svg>", ""])


def rounded_up(value: float) -> float:
    """Returns a round number that is not below this one."""
    size = 10.0 ** (len(str(int(value))) - 1)
    return next(size * step for step in (1, 2, 4, 8, 10, 20) if size * step >= value)


def drawings(figures: dict[str, Any]) -> dict[str, str]:
    """Returns each drawing, by the name of its file."""
    measured, costs = figures["gates"], costs_of(figures)
    cpu = [
        Line("all gates", [(one["gates"], one["gate_cpu_us"]) for one in measured]),
        Line("the Redis", [(one["gates"], one["redis_cpu_us"]) for one in measured]),
    ]
    gates = range(1, MOST_GATES + 1)
    rate = [
        *(
            Line(
                f"gates, {cores} core{'s' if cores > 1 else ''} each", [(n, costs.gates_rate(n, cores)) for n in gates]
            )
            for cores in CORES
        ),
        Line("one Redis", [(n, costs.redis_rate(n)) for n in gates], is_dashed=True),
    ]
    top = max(costs.redis_rate(1), costs.gates_rate(MOST_GATES, CORES[-1]))
    per_day = [1, 2, 5, 10, 20]
    memory = [
        Line(f"{answers} + {spent} days", [(n, kept_bytes(figures, n, answers, spent) / 1e9) for n in per_day])
        for answers, spent in KEPT_DAYS
    ]
    most_memory = max(y for line in memory for _, y in line.points)
    most_cpu = max(y for line in cpu for _, y in line.points)
    return {
        "size-cpu.svg": draw("CPU for a payment, µs (measured)", "gates", cpu, str, rounded_up(most_cpu)),
        "size-rate.svg": draw("Payments a second (model)", "gates", rate, str, rounded_up(top)),
        "size-memory.svg": draw(
            "Memory of the Redis in the end, GB",
            "payments a second, day and night",
            memory,
            str,
            rounded_up(most_memory),
        ),
    }


def table(figures: dict[str, Any]) -> str:
    """Returns the table of sizes, as Markdown."""
    costs, used = costs_of(figures), next(one for one in figures["gates"] if one["gates"] == 2)
    lines = [
        "| payments a second | installations | gates, and cores of each | a Redis is busy, takes, sends | memory |",
        "|---|---|---|---|---|",
    ]
    for rate in RATES:
        parts = next(n for n in range(1, 1_000) if rate / n <= costs.redis_rate(2))
        each = rate / parts
        cores = next(n for n in range(1, 65) if costs.gates_rate(2, n) >= each)
        busy = each * (costs.redis + costs.reader)
        ways = [f"{each * used[f'redis_bytes_{way}'] * 8 / 1e6:.1f} Mbit/s" for way in ("in", "out")]
        sizes = [f"{kept_bytes(figures, rate, *days) / 1e9:,.0f} GB" for days in KEPT_DAYS]
        words = [f"{rate:,}", f"{parts}", f"2, {cores}", f"{busy:.0%}, {', '.join(ways)}", ", ".join(sizes)]
        lines.append(f"| {' | '.join(words)} |")
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("figures", type=Path)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--check", action="store_true")
    arguments = parser.parse_args()
    figures = json.loads(arguments.figures.read_text(encoding="utf-8"))
    stale = []
    for name, drawing in drawings(figures).items():
        file = arguments.folder / name
        if not arguments.check:
            file.write_text(drawing, encoding="utf-8")
        elif not file.exists() or file.read_text(encoding="utf-8") != drawing:
            stale.append(name)
    if stale:
        print(f"not drawn from {arguments.figures}: {', '.join(stale)}")
        return 1
    print(table(figures))
    return 0


if __name__ == "__main__":
    sys.exit(main())
