"""Checks that an HTTP/1.1 request that the guard lets pass has one meaning for every parser.

Usage: `python tests/tools/differential_http.py FUZZ [--long]`; FUZZ is the program of tests/fuzz.

Makes streams from the seeds of the fuzz target `head`. What the guard passes, `httparse` (in FUZZ) and the parser of
Node must read alike: one request, with the same method, target, headers and body.
"""

import argparse
import json
import subprocess
import sys
from pathlib import Path
from random import Random
from typing import Any

from report import Report

TOOLS = Path(__file__).resolve().parent
SEEDS = TOOLS.parent / "fuzz" / "seeds"
SEED = 1
USUAL_STREAMS = 3_000
LONG_STREAMS = 60_000
# At least this share of the streams must pass the guard; else the run shows little.
MIN_SHARE = 0.05
# Bytes at which parsers differ.
BYTES = b'\0\t\n\x0b\x0c\r "#%,-./:;=@[\\]_a\x7f\x80\xff0'
WORDS = [
    b"Host: h\r\n",
    b"Content-Length: 2\r\n",
    b"Content-Length: 02\r\n",
    b"Content-Length: +2\r\n",
    b"Transfer-Encoding: chunked\r\n",
    b"Transfer-Encoding: identity\r\n",
    b"Transfer-Encoding:\tchunked\r\n",
    b"transfer-encoding : chunked\r\n",
    b"Connection: close\r\n",
    b" folded\r\n",
    b"\r\n",
    b"0\r\n\r\n",
    b"2\r\n{}\r\n",
]


def changed(stream: bytes, random: Random) -> bytes:
    for _ in range(random.randrange(3)):
        at = random.randrange(len(stream) + 1)
        match random.randrange(4):
            case 0:
                stream = stream[:at] + random.choice(WORDS) + stream[at:]
            case 1:
                stream = stream[:at] + bytes([random.choice(BYTES)]) + stream[at:]
            case 2:
                stream = stream[:at] + bytes([random.choice(BYTES)]) + stream[at + 1 :]
            case _:
                line = stream.find(b"\r\n", at)
                stream = stream[:line] + b"\r\n" + random.choice(WORDS) + stream[line + 2 :] if line > 0 else stream
    return stream


def lines_of(command: list[str], streams: list[bytes]) -> list[Any]:
    """Runs a reader on the streams, one line of hex digits each; returns what it reads in each."""
    text = "".join(f"{stream.hex()}\n" for stream in streams)
    answer = subprocess.run(command, input=text, capture_output=True, text=True, check=True)
    return [json.loads(line) for line in answer.stdout.splitlines()]


def fault_of(guard: dict[str, Any], node: Any) -> str:
    """Returns how Node reads otherwise what the guard passes, or nothing."""
    if not isinstance(node, list) or len(node) != 1:
        return f"Node reads {node}"
    read = node[0]
    for name in ("method", "target", "headers", "content"):
        if guard[name] != read[name]:
            return f"Node reads another {name}: {read[name]!r}, not {guard[name]!r}"
    return ""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("fuzz")
    parser.add_argument("--long", action="store_true")
    arguments = parser.parse_args()
    report, random = Report(), Random(SEED)
    # The first byte of a seed says how the fuzz target cuts it.
    seeds = [path.read_bytes()[1:] for path in sorted((SEEDS / "head").iterdir())]
    count = LONG_STREAMS if arguments.long else USUAL_STREAMS
    streams = [changed(random.choice(seeds), random) for _ in range(count)]
    guard = lines_of([arguments.fuzz, "show-heads"], streams)
    passed = [(stream, read) for stream, read in zip(streams, guard, strict=True) if read]
    report.check_that("random streams", len(passed) >= MIN_SHARE * count, f"{len(passed)} of {count} pass the guard")
    requests = [stream[: read["length"]] for stream, read in passed]
    node = lines_of(["node", str(TOOLS / "read_requests.mjs")], requests)
    for request, (_, read), other in zip(requests, passed, node, strict=True):
        report.check(f"{request!r}", fault_of(read, other))
    print(f"  {len(passed)} of {count} streams pass the guard, seed {SEED}")
    return report.close()


if __name__ == "__main__":
    sys.exit(main())
