"""Calls that must not be sent, made while faults come and go: too few people approved them, or the set forbids them."""

import json
import random
import threading
from collections.abc import Callable, Sequence
from http.client import HTTPConnection, HTTPException
from typing import Any

from gate import make_token
from people import PEOPLE
from swaps import KillableGate, post_swap, read_journal

# By amount: what waits for two people, and what the stricter set of a rolling update forbids.
HELD_AMOUNT, FORBIDDEN_AMOUNT = "31", "60"
# `OPS-1` is no second person beside `ops-1`.
VOTES = (["ops-1"], ["ops-1", "OPS-1", "ops-1"], ["ops-1", "ops-2"], ["ops-2", "OPS-1"])
HELD_RULES = """
[[rule]]
id = "held"
effect = "hold"
approval = "two"
when = { op = "createSwap", amount = "(30, 50] USD" }

[approval.two]
of = "ops"
n = 2
expires = "8h"

[group.ops]
members = ["people:ops-1", "people:ops-2", "people:ops-3", "people:OPS-1"]
"""
STRICTER_RULES = """
[[rule]]
id = "forbidden"
effect = "deny"
when = { op = "createSwap", amount = "(50, inf) USD" }
"""


class Approvals:
    """Swaps that wait for two people. Some get one vote, or two votes of one person; those must never be sent."""

    def __init__(
        self,
        gates: Sequence[KillableGate],
        consoles: Sequence[int],
        name: str,
        token: Callable[[], str],
        chance: random.Random,
    ) -> None:
        self.gates, self.consoles, self.name, self.token = gates, consoles, name, token
        self.chance = random.Random(chance.random())
        self.is_over = threading.Event()
        # By requestId: who may have voted for it.
        self.voters: dict[str, set[str]] = {}
        self.thread = threading.Thread(target=self.run, daemon=True)

    def run(self) -> None:
        while not self.is_over.wait(0.1):
            request_id = f"held-{self.name}-{len(self.voters)}"
            self.voters[request_id] = set()
            reply = post_swap(
                self.chance.choice(self.gates).port, request_id, HELD_AMOUNT, self.token(), wait_seconds=0
            )
            hold = json.loads(reply.body).get("hold", {}).get("id") if reply and reply.status == 202 else None
            if hold is None:
                continue
            for person in self.chance.choice(VOTES):
                self.voters[request_id].add(person.lower())
                self.vote(hold, person)

    def vote(self, hold: str, person: str) -> None:
        console = self.chance.choice(self.consoles)
        shown = ask_console(console, person, "GET", f"holds/{hold}")
        if shown and "fingerprint" in shown:
            body = {"fingerprint": shown["fingerprint"], "causes": shown["causes"]}
            ask_console(console, person, "POST", f"holds/{hold}/approve", body)

    def stop(self) -> None:
        self.is_over.set()
        self.thread.join()

    def wrong(self, upstream: str) -> list[str]:
        """Returns what was sent although too few people agreed."""
        sent = read_journal(upstream)
        return [request_id for request_id, people in self.voters.items() if sent.get(request_id) and len(people) < 2]

    def released(self, upstream: str) -> int:
        sent = read_journal(upstream)
        return sum(1 for request_id in self.voters if sent.get(request_id))


class ForbiddenSwaps:
    """Swaps that a stricter set forbids. Once a gate refused one by that set, no gate may send another one."""

    def __init__(self, gates: Sequence[KillableGate], name: str, token: Callable[[], str]) -> None:
        self.gates, self.name, self.token = gates, name, token
        self.is_over = threading.Event()
        self.is_in_force = threading.Event()
        self.count = 0
        self.wrong: list[str] = []
        self.thread = threading.Thread(target=self.run, daemon=True)

    def run(self) -> None:
        while not self.is_over.wait(0.05):
            gate = self.gates[self.count % len(self.gates)]
            request_id = f"forbidden-{self.name}-{self.count}"
            self.count += 1
            was_in_force = self.is_in_force.is_set()
            reply = post_swap(gate.port, request_id, FORBIDDEN_AMOUNT, self.token())
            if reply is None:
                continue
            if reply.outcome == "executed" and was_in_force:
                self.wrong.append(f"{request_id} at {gate.folder.name}")
            if reply.status == 403 and b"POLICY_DENIED" in reply.body:
                self.is_in_force.set()

    def start(self) -> None:
        self.thread.start()

    def stop(self) -> None:
        if self.thread.is_alive():
            self.is_over.set()
            self.thread.join()


def ask_console(port: int, person: str, method: str, path: str, body: object = None) -> dict[str, Any] | None:
    """Asks the console of a gate as an approver; returns the answer, or None where there is none."""
    connection = HTTPConnection("127.0.0.1", port, timeout=10)
    token = make_token(person, PEOPLE, roles=["approver"])
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    try:
        connection.request(method, f"/sluice/v1/{path}", json.dumps(body) if body else None, headers)
        answer = json.loads(connection.getresponse().read())
        return answer if isinstance(answer, dict) else None
    except (OSError, HTTPException, ValueError):
        return None
    finally:
        connection.close()
