"""Asks the console for payments where the journal has many of them, and reports how long a first page takes.

Usage: `python tests/tools/payments.py SLUICE [--count N] [--indexed N] [--document FILE] [--screenshots]`. The journal
has 20,000 payments by default. `--indexed` is the setting `console.payments_indexed`, twice the count by default: where
it is less, the console must say since when it has all payments. `--document` writes the table into `size.md`.
`--screenshots` takes those of the payments and of the overview, as `tests/browser/screenshots.mjs` does, while the gate
has all of them.

A gate makes some swaps and is stopped. Many more, made from its own entries with seeded amounts, times, callers and
destinations, are put before them in its journal, and the gate starts again. The list reads the journal in bounded
parts, so that answers come while it is still being read: they say so, and count no more than is read. Then the sums are
exact and complete. Times and memory are reported, not checked: the machine may be busy.
"""

import argparse
import hashlib
import itertools
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta
from decimal import Decimal
from http.client import HTTPConnection
from pathlib import Path
from typing import Any, NamedTuple

import gate as gates
from gate import free_port, make_token, start_simulator
from people import PEOPLE, people_config
from report import Report
from swaps import KillableGate, post_swap

SCREENSHOTS = Path(__file__).parents[1] / "browser" / "screenshots.mjs"
SEED = 26
REAL = 3
CALLERS = ("payroll", "treasury", "marketplace", "erp")
# So many destinations take turns; of so many payments, the rules refuse one.
DESTINATIONS = 5_000
REFUSED_EACH = 40
EXPORTED = 5_000
READ_SECONDS = 900
PAGES = 21
# A page of 50 payments.
MAX_PAGE_BYTES = 128 * 1024
# The table of the document, and the line behind it.
TABLE_HEAD = "| what is asked, of {count} | median | longest | CPU of the gate |\n|---|---|---|---|\n"
TABLE_BEGIN = "| what is asked, of "


class Measured(NamedTuple):
    """A question, and how long its answers took, in seconds."""

    words: str
    times: list[float]
    # Of the gate, for each answer.
    cpu: float

    def row(self) -> str:
        """Returns the line of the table."""
        median, longest = statistics.median(self.times) * 1000, max(self.times) * 1000
        return f"| {self.words} | {median:.0f} ms | {longest:.0f} ms | {self.cpu * 1000:.0f} ms |\n"


class MadePayments(NamedTuple):
    """The number of payments in the journal, how many the console may keep, and the sum of those that were paid."""

    number: int
    indexed: int
    paid: Decimal


def amounts(count: int) -> Iterator[int]:
    """Yields the amounts of many payments, in millionths."""
    seeded = random.Random(SEED)
    return (seeded.randrange(1, 900_000_000) for _ in range(count))


def make_lines(sending: dict[str, Any], executed: dict[str, Any], count: int) -> Iterator[dict[str, Any]]:
    """Yields the lines of many payments, like these two lines of one."""
    begin = datetime.fromisoformat(sending["at"]) - timedelta(days=20)
    for nth, units in enumerate(amounts(count)):
        words = f"{units // 1_000_000}.{units % 1_000_000:06}"
        is_refused = nth % REFUSED_EACH == 0
        at = f"{(begin + timedelta(seconds=nth)).isoformat(timespec='microseconds').replace('+00:00', 'Z')}"
        for line in (sending,) if is_refused else (sending, executed):
            entry = {name: value for name, value in line["entry"].items() if name not in ("steps", "values")}
            entry["claim"] = f"request/made-{nth}"
            entry["owner"] = {"issuer": "tools", "subject": CALLERS[nth % len(CALLERS)]}
            if "operands" in entry:
                entry["what"] = "refused" if is_refused else entry["what"]
                source = {"amount": words, "chain": "POLYGON", "currency": "usdt"}
                destination = {**entry["operands"]["destination"], "wallet": f"#{nth % DESTINATIONS:032x}"}
                money = {"source": source, "destination": destination, "value": units}
                entry["operands"] = {**entry["operands"], **money}
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


def ask(port: int, target: str, body: dict[str, Any] | None = None) -> tuple[int, bytes]:
    """Asks the console as a person who may see everything."""
    connection = HTTPConnection("127.0.0.1", port, timeout=60)
    token = make_token("auditor", PEOPLE, roles=["viewer"])
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    method, text = ("GET", None) if body is None else ("POST", json.dumps(body))
    connection.request(method, f"/sluice/v1/{target}", text, headers)
    answer = connection.getresponse()
    return answer.status, answer.read()


def resident_mib(pid: int) -> int:
    """Returns the resident memory of a process, in MiB."""
    text = Path(f"/proc/{pid}/status").read_text(encoding="utf-8")
    [line] = [line for line in text.splitlines() if line.startswith("VmRSS:")]
    return int(line.split()[1]) // 1024


def cpu_seconds(pid: int) -> float:
    """Returns the seconds of CPU that a process has taken."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def memory_kib(pid: int) -> int:
    """Returns the memory of a process that is its own, in KiB."""
    text = Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="utf-8")
    kinds = ("Private_Dirty:", "Private_Clean:")
    return sum(int(line.split()[1]) for line in text.splitlines() if line.startswith(kinds))


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("binary")
    parser.add_argument("--count", type=int, default=20_000)
    parser.add_argument("--indexed", type=int)
    parser.add_argument("--document", type=Path)
    parser.add_argument("--screenshots", action="store_true")
    arguments = parser.parse_args()
    report = Report()
    # The made part is one file; a gate of its own would begin a new one long before, and start sooner.
    gates.START_SECONDS = READ_SECONDS
    with start_simulator(arguments.binary) as upstream, tempfile.TemporaryDirectory(prefix="sluice-") as folder:
        port = free_port()
        indexed = arguments.indexed or 2 * arguments.count
        console = people_config(port) + f"payments_indexed = {indexed}\n"
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
        paid = (units for nth, units in enumerate(amounts(arguments.count)) if nth % REFUSED_EACH != 0)
        made_payments = MadePayments(arguments.count + REAL, indexed, Decimal(sum(paid)) / 1_000_000 + REAL * 10)
        with journal.open("w", encoding="utf-8") as written:
            written.writelines(chained(itertools.chain([head], made, real)))
        journal_mib = journal.stat().st_size / 1024 / 1024
        begin = time.monotonic()
        gate.start()
        start = time.monotonic() - begin
        print(f"the journal has {journal_mib:.0f} MiB; the gate starts within {start:.1f} s", flush=True)
        before = memory_kib(gate.child.pid)
        first, whole = read_journal(report, port, made_payments)
        after = memory_kib(gate.child.pid)
        each = (after - before) * 1024 / min(made_payments.number, made_payments.indexed)
        rows = check_pages(report, port, gate.child.pid)
        check_sums(report, port, made_payments)
        resident = resident_mib(gate.child.pid)
        facts = (
            f"The journal of {made_payments.number:,} payments had {journal_mib:,.0f} MiB, and the gate started within "
            f"{start:.0f} s. The first answer came after {first * 1000:.0f} ms, and all was read after {whole:.0f} s.\n"
            f"Then the process had {resident:,} MiB, and {each:.0f} bytes more than before for each payment.\n"
        )
        table = TABLE_HEAD.format(count=f"{made_payments.number:,} payments") + "".join(row.row() for row in rows)
        print(facts + "\n" + table, flush=True)
        if arguments.document:
            write_table(arguments.document, facts, table)
        if arguments.screenshots:
            take_screenshots(port)
        gate.stop()
    return report.close()


def read_journal(report: Report, port: int, made: MadePayments) -> tuple[float, float]:
    """Asks until the whole journal is read. Returns the seconds until the first answer, and until the last of these."""
    begin = time.monotonic()
    status, body = ask(port, "payments?limit=50")
    first = time.monotonic() - begin
    answer = json.loads(body)
    report.check_that(
        "an answer comes before all is read", status == 200 and 0 < len(answer["payments"]) <= 50, body[:300]
    )
    status, body = ask(port, "payments/production/made-7")
    report.check_that("a payment that is not read yet is not called unknown", status in (200, 503), body)
    while answer["reading"] and time.monotonic() - begin < READ_SECONDS:
        is_partial = not answer["complete"] and answer["since"] and answer["count"] <= made.number
        is_held_to_be = answer["payments"][0]["name"] == f"real-{REAL - 1}"
        report.check_that("an answer says how far it is", is_partial and is_held_to_be, body[:300])
        time.sleep(0.5)
        _, body = ask(port, "payments?limit=1")
        answer = json.loads(body)
    report.check_that("the journal is read", not answer["reading"], "it is still being read")
    return first, time.monotonic() - begin


def check_pages(report: Report, port: int, pid: int) -> list[Measured]:
    """Asks for pages and exports, many times each."""
    today = json.loads(ask(port, "payments/days?days=1")[1])["days"][0]["day"]
    rows = []
    export = {"format": "jsonl", "filters": {"caller": "erp"}}
    for words, target, content in (
        ("the latest 50", "payments?limit=50", None),
        ("the latest 50 of today", f"payments?limit=50&from={today}", None),
        ("the latest 50 of one status", "payments?limit=50&status=refused", None),
        ("the latest 50 of one caller", "payments?limit=50&caller=erp", None),
        ("the 50 of the largest value", "payments?limit=50&sort=value", None),
        ("from an amount on, with their sum", "payments?limit=50&amountFrom=800", None),
        ("from a time on, with their sum", "payments?limit=50&from=2020-01-01T00:00:01Z", None),
        ("new destinations, with their sum", "payments?limit=50&first=true", None),
        ("to a destination", "payments?limit=50&destination=nobody", None),
        ("a text that many have", "payments?limit=50&text=made-77", None),
        ("a text that none has", "payments?limit=50&text=no-such-thing", None),
        ("one old payment", "payments/production/made-7", None),
        ("all about one old payment", "history/production/made-7", None),
        ("all about one new payment", "history/production/real-1", None),
        ("the statement of today", f"payments/statement?day={today}", None),
        ("the sums of 30 days", "payments/days", None),
        ("the sums of 90 days", "payments/days?days=90", None),
        (f"an export of {EXPORTED:,} of one caller", "payments/export", export),
    ):
        times, cpu = [], cpu_seconds(pid)
        # People and the address of one browser may not ask more often.
        for _ in range(PAGES if content is None else 3):
            begin = time.monotonic()
            status, body = ask(port, target, content)
            times.append(time.monotonic() - begin)
        report.check_that(f"{target} is answered", status == 200, body[:300])
        if content is None:
            report.check_that(f"{target} is small", len(body) <= MAX_PAGE_BYTES, len(body))
        else:
            file = json.loads(body)
            is_whole = hashlib.sha256(file["content"].encode()).hexdigest() == file["sha256"]
            report.check_that("the export has the hash that is stated", is_whole, file["sha256"])
        rows.append(Measured(words, times, (cpu_seconds(pid) - cpu) / len(times)))
        print(rows[-1].row().strip(), flush=True)
    return rows


def check_sums(report: Report, port: int, made: MadePayments) -> None:
    """Checks the count and the exact sum; where the console has not all, that it says so."""
    answer = json.loads(ask(port, "payments?limit=50")[1])
    [paid] = [one for one in answer["sums"] if one["status"] == "paid"]
    if made.indexed >= made.number:
        report.check_that(
            "all payments are counted", answer["count"] == made.number and answer["complete"], answer["count"]
        )
        report.check_that(
            "the sum is exact", Decimal(paid["amount"]) == made.paid, f"{paid['amount']} is not {made.paid}"
        )
    else:
        is_said = answer["since"] and not answer["complete"] and answer["count"] < made.number
        report.check_that("what is missing is said", is_said, answer["since"])
        is_within = made.indexed * 0.85 <= answer["count"] <= made.indexed * 1.15
        report.check_that("as many are kept as are set", is_within, answer["count"])
    names = [one["name"] for one in answer["payments"]]
    report.check_that("the newest come first", names[:REAL] == [f"real-{nth}" for nth in reversed(range(REAL))], names)


def write_table(document: Path, facts: str, table: str) -> None:
    """Puts the facts and the table in the place of those that the document has."""
    lines = document.read_text(encoding="utf-8").splitlines(keepends=True)
    begin = next(at for at, line in enumerate(lines) if line.startswith(TABLE_BEGIN))
    end = next(at for at, line in enumerate(lines) if at > begin and not line.startswith("|"))
    facts_at = next(at for at, line in enumerate(lines) if line.startswith("The journal of ") and at < begin)
    document.write_text("".join([*lines[:facts_at], facts, "\n", table, *lines[end:]]), encoding="utf-8")


def take_screenshots(port: int) -> None:
    """Takes screenshots of the console's views of payments."""
    token = make_token("auditor", PEOPLE, roles=["viewer"])
    console = {"CONSOLE": f"http://127.0.0.1:{port}", "TOKEN": token}
    subprocess.run(["node", str(SCREENSHOTS)], env={**os.environ, **console}, check=True)


if __name__ == "__main__":
    sys.exit(main())
