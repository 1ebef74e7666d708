"""Runs two gates on one Redis before an upstream that lies, while gates are killed and stopped and operators act.

Usage: `python tests/tools/lies.py SLUICE [--long] [--seed N]`.

Upstream acts late, answers late, acts without an answer, answers with somebody else's record or a page of HTML, says
429 or 401 after it acted, says that a request already exists or answers it with its first record, repeats the token
of its caller, sends interim answers, and drips. Each lie is told at least once. Callers repeat their
swaps at either gate until they know the outcome. Two operators look at upstream's journal and act on what they see:
they resolve a call as executed with its record, or, once upstream can no longer act, as absent. Nothing may happen
twice; no executed swap is ever reported as not executed; a repeat of an acknowledged swap gets the same reply;
everything that took effect is in the audit log. Short: 400 swaps; long: 10,000.
"""

import itertools
import json
import random
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import Any

from gate import free_port, make_token, start_simulator
from nodes import start_redis
from people import PEOPLE, people_config, quick_config, redis_config
from report import Report, parse_arguments
from swaps import KillableGate, Reply, Swaps, check_audit, check_swaps, post_swap, read_journal, run_job, run_together

# How long a caller repeats one swap.
PATIENCE_SECONDS = 300
UPSTREAM_MAX_MS = 2_500
# `commit_ms`, twice `connect_ms` and `tls_handshake_ms`, three times `write_ms`, `answer_ms`, and `upstream_max_ms`.
QUIET_SECONDS = 0.5 + 2 * (0.5 + 0.5) + 3 * 0.5 + 1 + UPSTREAM_MAX_MS / 1_000
# The lies, with their share of the calls in percent. What upstream does late, it does before `UPSTREAM_MAX_MS`.
LIES: list[dict[str, object]] = [
    {"kind": "lateEffect", "ms": 1_500, "percent": 4},
    {"kind": "delay", "ms": 1_900, "percent": 5},
    {"kind": "hang", "percent": 2},
    {"kind": "hangBeforeEffect", "percent": 2},
    {"kind": "resetAfterReceiving", "percent": 3},
    {"kind": "closeAfterReceiving", "percent": 3},
    {"kind": "foreignRecord", "percent": 4},
    {"kind": "answer", "status": 200, "contentType": "text/html", "body": "<p>maintenance</p>", "percent": 4},
    {"kind": "answer", "status": 429, "body": {"error": "slow down"}, "effect": True, "percent": 4},
    {"kind": "answer", "status": 401, "body": {"error": "who are you"}, "effect": True, "percent": 2},
    {"kind": "interim", "count": 5, "percent": 4},
    {"kind": "interim", "count": 500, "percent": 2},
    {"kind": "drip", "ms": 2, "percent": 4},
    {"kind": "cutBody", "percent": 3},
    {"kind": "echoCredential", "percent": 3},
    {"kind": "alreadyExists", "status": 400, "percent": 40},
    {"kind": "alreadyExists", "status": 200, "percent": 50},
    {"kind": "alreadyExists", "status": 409, "percent": 100},
]
# In a run of so many swaps, each lie is told.
LONG_ENOUGH = 400


def config_of(node: str, redis_port: int, console_port: int) -> str:
    """Returns the part of a gate's configuration that this tool adds."""
    return quick_config(UPSTREAM_MAX_MS) + redis_config(node, redis_port) + people_config(console_port)


class Operators:
    """Two honest people who settle what they can find out."""

    def __init__(self, consoles: Sequence[int], upstream: str, swaps: Swaps) -> None:
        self.consoles = itertools.cycle(consoles)
        self.upstream = upstream
        self.swaps = swaps
        self.is_over = False
        # How often each act succeeded, and the codes with which others were refused.
        self.acts: dict[str, int] = {}
        self.tokens = [f"Bearer {make_token(name, PEOPLE, roles=['operator'])}" for name in ("ops-1", "ops-2")]

    def ask(self, method: str, path: str, person: int, body: object = None) -> tuple[int, Any]:
        """Asks a console; returns the status and the answer, or 0 where none came."""
        connection = HTTPConnection("127.0.0.1", next(self.consoles), timeout=10)
        try:
            headers = {"Authorization": self.tokens[person], "Content-Type": "application/json"}
            connection.request(method, f"/sluice/v1/{path}", json.dumps(body) if body else None, headers)
            response = connection.getresponse()
            return response.status, json.loads(response.read())
        except (OSError, HTTPException, ValueError):
            return 0, None
        finally:
            connection.close()

    def note(self, what: str) -> None:
        self.acts[what] = self.acts.get(what, 0) + 1

    def work(self) -> None:
        """Looks at the calls of unknown outcome until the run is over."""
        while not self.is_over:
            status, answer = self.ask("GET", "requests?state=unknown&limit=100", 0)
            for request in answer["requests"] if status == 200 else []:
                self.settle(request)
            time.sleep(0.3)

    def settle(self, request: dict[str, Any]) -> None:
        since = datetime.fromisoformat(request["since"].replace("Z", "+00:00"))
        age = (datetime.now(UTC) - since).total_seconds()
        request_id = request["requestId"]
        path = f"requests/production/{request['name']}/resolve"
        # A look before upstream can act no more would say nothing.
        record = self.find_record(request_id)
        if record is not None:
            body = {"outcome": "executed", "record": record, "reason": "it is in the journal"}
            for person in (0, 1):
                self.say("executed", self.ask("POST", path, person, body))
        elif age > QUIET_SECONDS + 1:
            for person in (0, 1):
                if read_journal(self.upstream).get(request_id):
                    return
                body = {"outcome": "absent", "reason": "it is not in the journal"}
                self.say("absent", self.ask("POST", path, person, body))

    def say(self, what: str, told: tuple[int, Any]) -> None:
        status, answer = told
        if status in (200, 202):
            self.note(what)
        elif status:
            error = answer.get("error", {})
            self.note(error["code"] if isinstance(error, dict) else str(error))

    def find_record(self, request_id: str) -> object:
        """Returns upstream's record of a swap, where it has one."""
        if not read_journal(self.upstream).get(request_id):
            return None
        # The record of a call in doubt is a late one, as a rule.
        for last in (500, 100_000):
            connection = HTTPConnection(self.upstream, timeout=30)
            connection.request("GET", f"/simulator/journal?last={last}")
            swaps = json.loads(connection.getresponse().read())["swaps"]
            for swap in swaps:
                if swap["transferDetails"]["requestId"] == request_id:
                    return swap
        return None


class Callers:
    """Callers that repeat their swaps until they know the outcome."""

    def __init__(self, gates: Sequence[KillableGate], swaps: Swaps, count: int) -> None:
        self.gates = gates
        self.swaps = swaps
        self.count = count
        self.final_refusals: list[str] = []
        self.ended: list[bool] = []

    def are_over(self) -> bool:
        return len(self.ended) == self.count

    def call(self) -> None:
        try:
            call_until_settled(self.gates, self.swaps, self.final_refusals)
        finally:
            self.ended.append(True)


def call_until_settled(gates: Sequence[KillableGate], swaps: Swaps, final_refusals: list[str]) -> None:
    """Takes swap after swap, and repeats each at the next gate until its outcome is known."""
    turns = itertools.cycle(gates)
    while request_id := swaps.take():
        end = time.monotonic() + PATIENCE_SECONDS
        swaps.acknowledged[request_id] = None
        while time.monotonic() < end:
            reply = post_swap(next(turns).port, request_id)
            if reply is not None and reply.outcome == "executed":
                swaps.acknowledged[request_id] = reply
                break
            if reply is not None and is_final_refusal(reply):
                final_refusals.append(request_id)
                break
            time.sleep(0.2)


def is_final_refusal(reply: Reply) -> bool:
    """Whether a caller would now believe that its swap was not executed."""
    return reply.outcome == "not-executed" and 400 <= reply.status < 500 and reply.status not in (401, 429)


def trouble(callers: Callers, chance: random.Random) -> None:
    """Kills, stops and continues gates until every caller knows its outcomes."""
    gates = callers.gates
    while not callers.are_over():
        time.sleep(chance.uniform(0.5, 2))
        gate = chance.choice(gates)
        if chance.random() < 0.5:
            gate.kill()
            gate.start()
        else:
            gate.child.send_signal(signal.SIGSTOP)
            time.sleep(chance.uniform(0.2, 2))
            gate.child.send_signal(signal.SIGCONT)


def add_faults(upstream: str) -> None:
    for lie in LIES:
        connection = HTTPConnection(upstream, timeout=30)
        connection.request("POST", "/simulator/faults", json.dumps({"operation": "createSwap", **lie}))
        if connection.getresponse().status != 201:
            raise RuntimeError(f"the simulator refused {lie}")


def find_untold_lies(upstream: str) -> list[str]:
    """Returns the lies that struck no call."""
    connection = HTTPConnection(upstream, timeout=30)
    connection.request("GET", "/simulator/faults")
    waiting = json.loads(connection.getresponse().read())["waiting"]
    return [json.dumps(lie) for lie, fault in zip(LIES, waiting, strict=True) if fault["struck"] == 0]


def clear_faults(upstream: str) -> None:
    connection = HTTPConnection(upstream, timeout=30)
    connection.request("DELETE", "/simulator/faults")
    connection.getresponse().read()


def run(binary: str, report: Report, count: int, at_once: int, seed: int) -> None:
    name, chance = "lies", random.Random(seed)
    with (
        start_simulator(binary, "--latency-ms", "2", "--seed", str(seed)) as upstream,
        tempfile.TemporaryDirectory(prefix="sluice-") as folder,
        start_redis(folder) as redis,
    ):
        add_faults(upstream)
        swaps, consoles, gates = Swaps(count, name), [free_port(), free_port()], []
        for node, console in zip(("left", "right"), consoles, strict=True):
            home = Path(folder) / node
            home.mkdir()
            gates.append(KillableGate(binary, upstream, home, config_of(node, redis.port, console), behind_proxy=True))
        for gate in gates:
            gate.start()
        operators = Operators(consoles, upstream, swaps)
        people = threading.Thread(target=run_job, args=(operators.work, swaps))
        people.start()
        callers = Callers(gates, swaps, at_once)
        jobs: list[Callable[[], object]] = [callers.call] * at_once
        try:
            spent = run_together([*jobs, lambda: trouble(callers, chance)], swaps)
        finally:
            operators.is_over = True
            people.join()
        untold = find_untold_lies(upstream)
        report.check(f"{name}: every lie was told", ", ".join(untold) if count >= LONG_ENOUGH else "")
        clear_faults(upstream)
        final_refusals = callers.final_refusals
        effects = read_journal(upstream)
        lied = [request_id for request_id in final_refusals if effects.get(request_id)]
        report.check(f"{name}: no executed swap is told `not-executed`", ", ".join(lied[:3]))
        unknown = [request_id for request_id, reply in swaps.acknowledged.items() if not reply]
        unsettled = [request_id for request_id in unknown if request_id not in final_refusals]
        report.check(f"{name}: every outcome is known in the end", ", ".join(unsettled[:3]))
        check_swaps(report, name, gates, swaps, upstream)
        codes = [gate.stop() for gate in gates]
        report.check_that(f"{name}: the gates stop in order", codes == [0, 0], codes)
        check_audit(binary, report, name, [gate.audit_folder for gate in gates], read_journal(upstream))
        kills = sum(gate.kills for gate in gates)
        print(f"{name}: {count} swaps in {spent:.0f} s, {kills} kills, {swaps.summary()}")
        print(f"  {len(final_refusals)} refused, operators: {operators.acts}")


def main() -> int:
    arguments = parse_arguments(__doc__)
    print(f"seed {arguments.seed}")
    report = Report()
    count, at_once = (10_000, 96) if arguments.long else (400, 48)
    run(arguments.binary, report, count, at_once, arguments.seed)
    return report.close()


if __name__ == "__main__":
    sys.exit(main())
