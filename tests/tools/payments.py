"""Asks the console for payments where the journal has many of them, and reports how long a first page takes.

Usage: `python tests/tools/payments.py SLUICE [--count N] [--screenshots]` (20,000 by default). `--screenshots` takes
those of the payments and of the overview, as `tests/browser/screenshots.mjs` does, while the gate has all of them.

A gate makes some swaps and is stopped. Many more, made from its own entries with seeded amounts and times, are put
before them in its journal, and the gate starts again. The list reads the journal in bounded parts, so that answers come
while it is still being read; then the sums are exact and complete. Times and memory are reported, not checked: the
machine may be busy.
"""

import argparse
import hashlib
import itertools
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta
from decimal import Decimal
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import gate as gates
from gate import free_port, make_token, start_simulator, wait_until
from people import PEOPLE, people_config
from report import Report
from swaps import KillableGate, post_swap

SCREENSHOTS = Path(__file__).parents[1] / "browser" / "screenshots.mjs"
SEED = 26
REAL = 3
CALLERS = ("payroll", "treasury", "marketplace", "erp")
READ_SECONDS = 900
PAGES = 21
# A page of 50 payments.
MAX_PAGE_BYTES = 128 * 1024


def amounts(count: int) -> Iterator[int]:
    """Yields the amounts of many payments, in millionths."""
    seeded = random.Random(SEED)
    return (seeded.randrange(1, 900_000_000) for _ in range(count))


def make_lines(sending: dict[str, Any], executed: dict[str, Any], count: int) -> Iterator[dict[str, Any]]:
    """Yields the lines of many payments, like these two lines of one."""
    begin = datetime.fromisoformat(sending["at"]) - timedelta(days=20)
    for nth, units in enumerate(amounts(count)):
        words = f"{units // 1_000_000}.{units % 1_000_000:06}"
        at = f"{(begin + timedelta(seconds=nth)).isoformat(timespec='microseconds').replace('+00:00', 'Z')}"
        for line in (sending, executed):
            entry = {name: value for name, value in line["entry"].items() if name not in ("steps", "values")}
            entry["claim"] = f"request/made-{nth}"
            entry["owner"] = {"issuer": "tools", "subject": CALLERS[nth % len(CALLERS)]}
            if "operands" in entry:
                source = {"amount": words, "chain": "POLYGON", "currency": "usdt"}
                entry["operands"] = {**entry["operands"], "source": source, "value": units}
            yield {**line, "at": at, "entry": entry}


def chained(lines: Iterable[dict[str, Any]]) -> Iterator[str]:
    """Yields the text of lines of a journal, each with the hash of the one before."""
    previous = bytes(32)
    for line in lines:
        bare = {name: value for name, value in line.items() if name not in ("hash", "previous")}
        text = json.dumps(bare, separators=(",", ":"), sort_keys=True, ensure_ascii=False)
        digest = hashlib.sha256(previous + text.encode()).digest()
        whole = {**bare, "hash": digest.hex(), "previous": previous.hex()}
        yield json.dumps(whole, separators=(",", ":"), sort_keys=True, ensure_ascii=False) + "\n"
        previous = digest


def ask(port: int, target: str) -> tuple[int, bytes]:
    """Asks the console as a person who may see everything."""
    connection = HTTPConnection("127.0.0.1", port, timeout=60)
    token = make_token("auditor", PEOPLE, roles=["viewer"])
    connection.request("GET", f"/sluice/v1/{target}", headers={"Authorization": f"Bearer {token}"})
    answer = connection.getresponse()
    return answer.status, answer.read()


def memory_kib(pid: int) -> int:
    """Returns the memory of a process that is its own, in KiB."""
    text = Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="utf-8")
    kinds = ("Private_Dirty:", "Private_Clean:")
    return sum(int(line.split()[1]) for line in text.splitlines() if line.startswith(kinds))


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("binary")
    parser.add_argument("--count", type=int, default=20_000)
    parser.add_argument("--screenshots", action="store_true")
    arguments = parser.parse_args()
    report = Report()
    # The made part is one file; a gate of its own would begin a new one long before, and start sooner.
    gates.START_SECONDS = READ_SECONDS
    with start_simulator(arguments.binary) as upstream, tempfile.TemporaryDirectory(prefix="sluice-") as folder:
        port = free_port()
        console = people_config(port) + "payments_indexed = 2_000_000\n"
        gate = KillableGate(arguments.binary, upstream, Path(folder), console)
        gate.start()
        for nth in range(REAL):
            reply = post_swap(gate.port, f"real-{nth}")
            report.check_that(f"swap {nth} is executed", reply is not None and reply.status == 201, reply)
        gate.stop()
        [journal] = sorted(gate.audit_folder.glob("audit-*-00000001.jsonl"))
        head, *real = [json.loads(line) for line in journal.read_text(encoding="utf-8").splitlines()]
        [sending, executed] = [line for line in real if line.get("entry", {}).get("claim") == "request/real-0"][:2]
        made = make_lines(sending, executed, arguments.count)
        total = Decimal(sum(amounts(arguments.count))) / 1_000_000
        with journal.open("w", encoding="utf-8") as written:
            written.writelines(chained(itertools.chain([head], made, real)))
        print(f"the journal has {journal.stat().st_size / 1024 / 1024:.0f} MiB", flush=True)
        begin = time.monotonic()
        gate.start()
        print(f"the gate starts within {time.monotonic() - begin:.1f} s", flush=True)
        before = memory_kib(gate.child.pid)
        check_pages(report, port, arguments.count + REAL, total + REAL * 10)
        after = memory_kib(gate.child.pid)
        each = (after - before) * 1024 / (arguments.count + REAL)
        print(f"memory: {before // 1024} MiB before, {after // 1024} MiB after: {each:.0f} bytes for each payment")
        if arguments.screenshots:
            take_screenshots(port)
        gate.stop()
    return report.close()


def check_pages(report: Report, port: int, count: int, total: Decimal) -> None:
    """Asks until the whole journal is read, then for pages in both orders."""
    begin = time.monotonic()
    status, body = ask(port, "payments?limit=50")
    first = time.monotonic() - begin
    answer = json.loads(body)
    report.check_that(
        "an answer comes before all is read", status == 200 and 0 < len(answer["payments"]) <= 50, body[:300]
    )
    is_read = wait_until(lambda: not json.loads(ask(port, "payments?limit=1")[1])["reading"], READ_SECONDS)
    report.check_that("the journal is read", is_read, "it is still being read")
    whole = time.monotonic() - begin
    print(f"{count} payments: the first answer after {first * 1000:.0f} ms, all read after {whole:.1f} s")
    today = json.loads(ask(port, "payments/days?days=1")[1])["days"][0]["day"]
    for target in (
        "payments?limit=50",
        f"payments?limit=50&from={today}",
        "payments?limit=50&status=unknown",
        "payments?limit=50&sort=value",
        "payments?limit=50&caller=erp",
        "payments?limit=50&amountFrom=800",
        "payments?limit=50&from=2020-01-01T00:00:01Z",
        "payments?limit=50&destination=nobody",
        "payments?limit=50&text=made-77",
        "payments?limit=50&text=no-such-thing",
        "payments/production/made-7",
        "history/production/made-7",
        "history/production/real-1",
        f"payments/statement?day={today}",
        "payments/days",
        "payments/days?days=90",
    ):
        times = []
        for _ in range(PAGES):
            begin = time.monotonic()
            status, body = ask(port, target)
            times.append(time.monotonic() - begin)
        report.check_that(f"{target} is answered", status == 200, body[:300])
        report.check_that(f"{target} is small", len(body) <= MAX_PAGE_BYTES, len(body))
        print(
            f"{target}: median {sorted(times)[PAGES // 2] * 1000:.0f} ms, longest {max(times) * 1000:.0f} ms",
            flush=True,
        )
    answer = json.loads(ask(port, "payments?limit=50")[1])
    report.check_that("all payments are counted", answer["count"] == count and answer["complete"], answer["count"])
    [paid] = [one for one in answer["sums"] if one["status"] == "paid"]
    report.check_that("the sum is exact", Decimal(paid["amount"]) == total, f"{paid['amount']} is not {total}")
    names = [one["name"] for one in answer["payments"]]
    report.check_that("the newest come first", names[:REAL] == [f"real-{nth}" for nth in reversed(range(REAL))], names)


def take_screenshots(port: int) -> None:
    """Takes screenshots of the console's views of payments."""
    token = make_token("auditor", PEOPLE, roles=["viewer"])
    console = {"CONSOLE": f"http://127.0.0.1:{port}", "TOKEN": token}
    subprocess.run(["node", str(SCREENSHOTS)], env={**os.environ, **console}, check=True)


if __name__ == "__main__":
    sys.exit(main())
