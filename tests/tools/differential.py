"""One text, one meaning: `python tests/tools/differential.py SLUICE [--long]`.

Posts hundreds of texts to a gate. Each is refused and never reaches upstream,
or what reaches upstream is read alike by Python, by Node and by the gate, and
means what the text meant. Never is a text sent on that a strict reader refuses.
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
from contextlib import contextmanager
from decimal import Decimal
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from random import Random

from gate import TOKEN, gate
from json_texts import SENT, Maker, by_hand
from report import Report

TOOLS = Path(__file__).resolve().parent
EXAMPLES = TOOLS.parents[1] / "schemas" / "examples"
UPDATE_USER = "/v2/users/u-1"
CREATE_SWAP = "/v2/wallets/swaps"
ANSWERS = {
    UPDATE_USER: EXAMPLES / "updateUser" / "answer-good-least.json",
    CREATE_SWAP: EXAMPLES / "cancelSwap" / "answer-good-least.json",
}
SEED = 1
# Random texts for each of the two operations.
USUAL = 400
LONG = 20_000
# So many of the random texts of an operation must be sent, and so many refused, or they would show nothing.
LEAST_SHARE = 0.2
# Why the gate refuses JSON that a strict reader takes.
STRICTER = re.compile(
    "a number (has an exponent|is a negative zero|has more than 15 digits|is too long)|nested too deep"
)

JSON_TYPE = {"Content-Type": "application/json"}
# Heads around a good body, with the status that they meet.
HEADS = [
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


class Refused(Exception):
    pass


class Number(str):
    """A number as it was written."""


def strict(text):
    """The value of a text, numbers as written; Refused if it has none or not one only."""
    try:
        value = json.loads(
            text.decode("utf-8"),
            object_pairs_hook=unique,
            parse_int=Number,
            parse_float=Number,
            parse_constant=refuse,
        )
    except (ValueError, RecursionError) as error:
        raise Refused(str(error)) from None
    if any("\ud800" <= char <= "\udfff" for string in strings(value) for char in string):
        raise Refused("a lone surrogate")
    return value


def unique(pairs):
    members = dict(pairs)
    if len(members) != len(pairs):
        raise Refused("a name stands twice")
    return members


def refuse(word):
    raise Refused(word)


def strings(value):
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for name, member in value.items():
            yield name
            yield from strings(member)
    elif isinstance(value, list):
        for item in value:
            yield from strings(item)


def numbers(value):
    if isinstance(value, Number):
        yield value
    elif isinstance(value, (dict, list)):
        for member in value.values() if isinstance(value, dict) else value:
            yield from numbers(member)


def told(value):
    """What was read, as read_json.mjs writes it."""
    if value is None or isinstance(value, bool):
        return json.dumps(value)
    if isinstance(value, (int, float)):
        return "n" + struct.pack(">d", value).hex()
    if isinstance(value, str):
        return "s" + units(value)
    if isinstance(value, list):
        return "[" + ",".join(map(told, value)) + "]"
    members = sorted((units(name), member) for name, member in value.items())
    return "{" + ",".join(f"{name}:{told(member)}" for name, member in members) + "}"


def units(text):
    return text.encode("utf-16-be", "surrogatepass").hex()


class Node:
    def __init__(self):
        self.child = subprocess.Popen(
            ["node", TOOLS / "read_json.mjs"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def read(self, text):
        self.child.stdin.write(base64.b64encode(text).decode() + "\n")
        self.child.stdin.flush()
        return self.child.stdout.readline().rstrip()

    def end(self):
        self.child.stdin.close()
        self.child.wait(10)


class Upstream(BaseHTTPRequestHandler):
    """Records what it is sent, and says that it was done."""

    protocol_version = "HTTP/1.1"
    # Head and body of an answer leave together, at once.
    wbufsize = -1
    disable_nagle_algorithm = True

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.received.append(body)
        answer = ANSWERS[self.path].read_bytes()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *_):
        pass


@contextmanager
def upstream():
    server = ThreadingHTTPServer(("127.0.0.1", 0), Upstream)
    server.daemon_threads = True
    server.received = []
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()


class Trial:
    """A gate before a recording upstream."""

    def __init__(self, address, received, node, report):
        self.connection = HTTPConnection(address, timeout=20)
        self.received = received
        self.node = node
        self.report = report
        self.fates = Counter()

    def post(self, target, body, headers=JSON_TYPE):
        """What the gate answered, and what upstream got."""
        self.received.clear()
        self.connection.request("POST", target, body=body, headers={"Authorization": TOKEN} | headers)
        answer = self.connection.getresponse()
        text = answer.read()
        return answer.status, json.loads(text), list(self.received)

    def try_text(self, target, body, expected=None):
        what = f"{target} {body[:100]!r}"
        status, answer, received = self.post(target, body)
        fate = SENT if status < 300 else answer["error"]["code"]
        self.fates[target, fate] += 1
        if fate == SENT:
            why = self.why_not_alike(target, body, received)
        else:
            why = self.why_not_refused(body, status, answer, received)
        # Good examples need not have a value.
        if not why and expected and fate not in (expected, "POLICY_DENIED"):
            why = f"{fate}, not {expected}"
        self.report.check(what, why)

    def why_not_refused(self, body, status, answer, received):
        if received:
            return f"refused with {status}, yet upstream got {received}"
        message = answer["error"]["message"]
        if answer["error"]["code"] == "POLICY_DENIED" and "amount" in message:
            # It was read, and states no amount that has a value.
            return ""
        if status not in (400, 413):
            return f"refused with {status}"
        if answer["error"]["code"] == "INVALID_JSON" and not STRICTER.search(message) and readable(body):
            return f"a strict reader takes it: {message}"
        return ""

    def why_not_alike(self, target, body, received):
        if len(received) != 1:
            return f"upstream got {len(received)} requests"
        sent = received[0]
        try:
            meant, read = strict(body), strict(sent)
        except Refused as error:
            return f"sent on as {sent!r}, but a strict reader refuses it: {error}"
        if meant != read:
            return f"sent on with another meaning: {sent!r}"
        readings = {
            told(json.loads(body)),
            told(json.loads(sent)),
            self.node.read(body),
            self.node.read(sent),
        }
        if len(readings) != 1:
            return f"read in several ways: {sent!r}"
        for number in numbers(read):
            if Decimal(repr(float(number))) != Decimal(number):
                return f"{number} is another number for readers with floating point"
        status, _, again = self.post(target, sent)
        # A swap is known again by what it means, and not sent; anything else is sent as it was.
        expected = [] if target == CREATE_SWAP else [sent]
        alike = status < 300 and again == expected
        return "" if alike else f"{sent!r} meets {status} and comes out as {again} the second time"


def readable(text):
    try:
        strict(text)
    except Refused:
        return False
    return True


def good_swaps(trial):
    """Examples that the gate takes: what random swaps start from."""
    paths = sorted((EXAMPLES / "createSwap").glob("good-*.json"))
    texts = [path.read_bytes() for path in paths]
    for path, text in zip(paths, texts, strict=True):
        trial.try_text(CREATE_SWAP, text, SENT)
    return texts


def try_heads(trial):
    for headers, wanted in HEADS:
        status, answer, received = trial.post(UPDATE_USER, b"{}", headers)
        reached = bool(received) == (wanted == 200)
        trial.report.check(f"{headers}", "" if status == wanted and reached else f"{status}: {answer}, {received}")
    large = b'{"a":"' + b"x" * (1 << 20) + b'"}'
    status, answer, received = trial.post(UPDATE_USER, large)
    trial.report.check("a large body", "" if status == 413 and not received else f"{status}: {answer}")


def try_random(trial, count, swaps):
    maker = Maker(Random(SEED), swaps)
    trial.fates.clear()
    for _ in range(count):
        trial.try_text(UPDATE_USER, maker.open_body())
        trial.try_text(CREATE_SWAP, maker.swap())
    for target in (UPDATE_USER, CREATE_SWAP):
        sent = trial.fates[target, SENT]
        least = LEAST_SHARE * count
        fair = least <= sent <= count - least
        trial.report.check(f"random texts for {target}", "" if fair else f"{sent} of {count} sent")
        print(f"  {target}, seed {SEED}: {fates(trial.fates, target)}")


def fates(counted, target):
    return ", ".join(f"{count} {fate}" for (place, fate), count in sorted(counted.items()) if place == target)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("sluice")
    parser.add_argument("--long", action="store_true")
    arguments = parser.parse_args()
    report = Report()
    with upstream() as production, upstream() as sandbox:
        addresses = [f"127.0.0.1:{server.server_port}" for server in (production, sandbox)]
        with gate(arguments.sluice, *addresses) as running:
            node = Node()
            trial = Trial(running.addresses["production"], production.received, node, report)
            try_heads(trial)
            for text, expected in by_hand():
                trial.try_text(UPDATE_USER, text, expected)
            print(f"  by hand: {fates(trial.fates, UPDATE_USER)}")
            try_random(trial, LONG if arguments.long else USUAL, good_swaps(trial))
            report.check("the other environment", "got a call" if sandbox.received else "")
            trial.connection.close()
            node.end()
    return report.close()


if __name__ == "__main__":
    sys.exit(main())
