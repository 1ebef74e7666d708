"""Checks that one JSON text has one meaning for every parser.

Usage: `python tests/tools/differential.py SLUICE [--long]`.

Posts hundreds of texts to a gate. The gate refuses a text, and then nothing of it reaches upstream; or Python, Node and
the gate read alike what reaches upstream, and it means the same as the text. The gate never sends on a text that a
strict parser refuses.
"""

import argparse
import base64
import json
import re
import struct
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from decimal import Decimal
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from random import Random
from typing import Any, Never

from gate import TOKEN, start_gate
from json_texts import SENT, TextMaker, handwritten_bodies
from report import Report

TOOLS = Path(__file__).resolve().parent
EXAMPLES = TOOLS.parents[1] / "schemas" / "examples"
UPDATE_USER = "/v2/users/u-1"
CREATE_SWAP = "/v2/wallets/swaps"
RESPONSES = {
    UPDATE_USER: EXAMPLES / "updateUser" / "answer-good-least.json",
    CREATE_SWAP: EXAMPLES / "cancelSwap" / "answer-good-least.json",
}
SEED = 1
# Random texts for each of the two operations.
USUAL_TEXTS = 400
LONG_TEXTS = 20_000
# At least this share of an operation's random texts must be sent, and this share refused; else the run shows nothing.
MIN_SHARE = 0.2
# The gate refuses these texts, which a strict parser takes.
STRICTER = re.compile(
    "a number (has an exponent|is a negative zero|has more than 15 digits|is too long)|nested too deep"
)

JSON_TYPE = {"Content-Type": "application/json"}
# Headers of a valid body, each with the status of the response.
HEADERS = [
    (JSON_TYPE, 200),
    ({"Content-Type": "Application/JSON; charset=UTF-8"}, 200),
    (JSON_TYPE | {"Content-Encoding": "identity"}, 200),
    ({}, 415),
    ({"Content-Type": "text/json"}, 415),
    ({"Content-Type": "text/plain"}, 415),
    ({"Content-Type": "application/json; charset=utf-16"}, 415),
    ({"Content-Type": "application/json, application/json"}, 415),
    ({"Content-Type": "application/x-www-form-urlencoded"}, 415),
    ({"Content-Type": "application/merge-patch+json"}, 415),
    (JSON_TYPE | {"Content-Encoding": "gzip"}, 415),
    (JSON_TYPE | {"Content-Encoding": "identity, gzip"}, 415),
    (JSON_TYPE | {"Content-Encoding": "br"}, 415),
]


class RefusedError(Exception):
    """A strict parser refuses the text."""


class Number(str):
    """A number as the text writes it."""

    __slots__ = ()


def parse_strictly(text: bytes) -> Any:
    """Returns the value of a text, its numbers as written; raises RefusedError unless there is exactly one."""
    try:
        value = json.loads(
            text.decode("utf-8"),
            object_pairs_hook=refuse_duplicates,
            parse_int=Number,
            parse_float=Number,
            parse_constant=refuse_constant,
        )
    except (ValueError, RecursionError) as error:
        raise RefusedError(str(error)) from None
    if any("\ud800" <= char <= "\udfff" for string in walk_strings(value) for char in string):
        raise RefusedError("a lone surrogate")
    return value


def refuse_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        raise RefusedError("a duplicate name")
    return members


def refuse_constant(word: str) -> Never:
    raise RefusedError(word)


def walk_strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for name, member in value.items():
            yield name
            yield from walk_strings(member)
    elif isinstance(value, list):
        for item in value:
            yield from walk_strings(item)


def walk_numbers(value: Any) -> Iterator[Number]:
    if isinstance(value, Number):
        yield value
    elif isinstance(value, dict | list):
        for member in value.values() if isinstance(value, dict) else value:
            yield from walk_numbers(member)


def canonical_form(value: Any) -> str:
    """Writes a value as read_json.mjs does, so that two readings can be compared."""
    if value is None or isinstance(value, bool):
        return json.dumps(value)
    if isinstance(value, int | float):
        return "n" + struct.pack(">d", value).hex()
    if isinstance(value, str):
        return "s" + utf16_hex(value)
    if isinstance(value, list):
        return "[" + ",".join(map(canonical_form, value)) + "]"
    members = sorted((utf16_hex(name), member) for name, member in value.items())
    return "{" + ",".join(f"{name}:{canonical_form(member)}" for name, member in members) + "}"


def utf16_hex(text: str) -> str:
    return text.encode("utf-16-be", "surrogatepass").hex()


class NodeReader:
    """Node, which runs read_json.mjs."""

    def __init__(self) -> None:
        self.child = subprocess.Popen(
            ["node", TOOLS / "read_json.mjs"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def read(self, text: bytes) -> str:
        """Returns the canonical form of a text, as Node reads it."""
        if self.child.stdin is None or self.child.stdout is None:
            raise RuntimeError("Node has no pipes")
        self.child.stdin.write(base64.b64encode(text).decode() + "\n")
        self.child.stdin.flush()
        return self.child.stdout.readline().rstrip()

    def stop(self) -> None:
        if self.child.stdin is not None:
            self.child.stdin.close()
        self.child.wait(10)


class Upstream(ThreadingHTTPServer):
    """Records the bodies that it receives, and responds with success."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), UpstreamHandler)
        self.received: list[bytes] = []


class UpstreamHandler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    # Head and body of a response leave together, at once.
    wbufsize = -1
    disable_nagle_algorithm = True

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if isinstance(self.server, Upstream):
            self.server.received.append(body)
        response = RESPONSES[self.path].read_bytes()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(response)))
        self.end_headers()
        self.wfile.write(response)

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def start_upstream() -> Iterator[Upstream]:
    server = Upstream()
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()


class Trial:
    """Posts texts to a gate before a recording upstream."""

    def __init__(self, address: str, received: list[bytes], node: NodeReader, report: Report) -> None:
        self.connection = HTTPConnection(address, timeout=20)
        self.received = received
        self.node = node
        self.report = report
        # How many texts for each target met each fate.
        self.fates: Counter[tuple[str, str]] = Counter()

    def post(self, target: str, body: bytes, headers: Mapping[str, str] = JSON_TYPE) -> tuple[int, Any, list[bytes]]:
        """Returns the gate's status and response, and the bodies that upstream received."""
        self.received.clear()
        self.connection.request("POST", target, body=body, headers={"Authorization": TOKEN} | dict(headers))
        response = self.connection.getresponse()
        text = response.read()
        return response.status, json.loads(text), list(self.received)

    def try_text(self, target: str, body: bytes, expected: str | None = None) -> None:
        status, response, received = self.post(target, body)
        fate = SENT if status < 300 else response["error"]["code"]
        self.fates[target, fate] += 1
        if fate == SENT:
            fault = self.sending_fault(target, body, received)
        else:
            fault = refusal_fault(body, status, response, received)
        # Valid examples need not have a value, which the policy asks for.
        if not fault and expected and fate not in (expected, "POLICY_DENIED"):
            fault = f"{fate}, not {expected}"
        self.report.check(f"{target} {body[:100]!r}", fault)

    def sending_fault(self, target: str, body: bytes, received: list[bytes]) -> str:
        """Returns why it was wrong to send `received`, or nothing."""
        if len(received) != 1:
            return f"upstream got {len(received)} requests"
        sent = received[0]
        try:
            meant, read = parse_strictly(body), parse_strictly(sent)
        except RefusedError as error:
            return f"sent on as {sent!r}, but a strict parser refuses it: {error}"
        if meant != read:
            return f"sent on with another meaning: {sent!r}"
        readings = {
            canonical_form(json.loads(body)),
            canonical_form(json.loads(sent)),
            self.node.read(body),
            self.node.read(sent),
        }
        if len(readings) != 1:
            return f"read in several ways: {sent!r}"
        for number in walk_numbers(read):
            if Decimal(repr(float(number))) != Decimal(number):
                return f"{number} is another number for parsers with floating point"
        status, _, again = self.post(target, sent)
        # The gate recognizes a repeated swap by its meaning and does not send it; it sends other calls again.
        expected = [] if target == CREATE_SWAP else [sent]
        is_alike = status < 300 and again == expected
        return "" if is_alike else f"{sent!r} gets {status} and is sent as {again} the second time"


def refusal_fault(body: bytes, status: int, response: Any, received: list[bytes]) -> str:
    """Returns why it was wrong to refuse a text, or nothing."""
    if received:
        return f"refused with {status}, yet upstream got {received}"
    error = response["error"]
    if error["code"] == "POLICY_DENIED" and "amount" in error["message"]:
        # The gate read it, and its amount has no value.
        return ""
    if status not in (400, 413):
        return f"refused with {status}"
    if error["code"] == "INVALID_JSON" and not STRICTER.search(error["message"]) and is_strict_json(body):
        return f"a strict parser takes it: {error['message']}"
    return ""


def is_strict_json(text: bytes) -> bool:
    try:
        parse_strictly(text)
    except RefusedError:
        return False
    return True


def try_swap_examples(trial: Trial) -> list[bytes]:
    """Posts the valid examples of swaps; returns them for random swaps to start from."""
    texts = [path.read_bytes() for path in sorted((EXAMPLES / "createSwap").glob("good-*.json"))]
    for text in texts:
        trial.try_text(CREATE_SWAP, text, SENT)
    return texts


def try_headers(trial: Trial) -> None:
    for headers, wanted in HEADERS:
        status, response, received = trial.post(UPDATE_USER, b"{}", headers)
        is_right = status == wanted and bool(received) == (wanted == 200)
        trial.report.check_that(f"{headers}", is_right, f"{status}: {response}, {received}")
    large = b'{"a":"' + b"x" * (1 << 20) + b'"}'
    status, response, received = trial.post(UPDATE_USER, large)
    trial.report.check_that("a large body", status == 413 and not received, f"{status}: {response}")


def try_random_texts(trial: Trial, count: int, swaps: list[bytes]) -> None:
    maker = TextMaker(Random(SEED), swaps)
    trial.fates.clear()
    for _ in range(count):
        trial.try_text(UPDATE_USER, maker.open_body())
        trial.try_text(CREATE_SWAP, maker.swap())
    for target in (UPDATE_USER, CREATE_SWAP):
        sent = trial.fates[target, SENT]
        least = MIN_SHARE * count
        trial.report.check_that(f"random texts for {target}", least <= sent <= count - least, f"{sent} of {count} sent")
        print(f"  {target}, seed {SEED}: {fates_of(trial, target)}")


def fates_of(trial: Trial, target: str) -> str:
    return ", ".join(f"{count} {fate}" for (place, fate), count in sorted(trial.fates.items()) if place == target)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("sluice")
    parser.add_argument("--long", action="store_true")
    arguments = parser.parse_args()
    report = Report()
    with start_upstream() as production, start_upstream() as sandbox:
        addresses = [f"127.0.0.1:{server.server_port}" for server in (production, sandbox)]
        with start_gate(arguments.sluice, *addresses) as gate:
            node = NodeReader()
            trial = Trial(gate.addresses["production"], production.received, node, report)
            try_headers(trial)
            for text, expected in handwritten_bodies():
                trial.try_text(UPDATE_USER, text, expected)
            print(f"  written by hand: {fates_of(trial, UPDATE_USER)}")
            try_random_texts(trial, LONG_TEXTS if arguments.long else USUAL_TEXTS, try_swap_examples(trial))
            report.check_that("the other environment", not sandbox.received, "got a call")
            trial.connection.close()
            node.stop()
    return report.close()


if __name__ == "__main__":
    sys.exit(main())
