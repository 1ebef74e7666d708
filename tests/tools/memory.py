"""Brings a gate with its default limits to the most memory that callers can make it take, and watches its memory.

Usage: `python tests/tools/memory.py SLUICE [--long]`.

Callers of several addresses open as many connections as they get and leave them idle; send half heads; take no
answers of 4 MiB; send bodies that do not end, and bodies of as many small values as fit. The gate stays within the
memory that deploy/kubernetes/base/kubernetes.yaml allows it, and gives the memory back. Then swaps are made (short:
3,000, long: 300,000), the gate is killed, and its next start takes little memory. The bound is the container's: it
counts the program, its heap and its stacks. Where the machine has memory cgroups that this user may make, the gate runs
in one with that limit, and the kernel must not end it.
"""

import argparse
import contextlib
import functools
import os
import re
import resource
import socket
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPConnection
from pathlib import Path

from gate import TOKEN, start_simulator, wait_until
from hostile import ProcessUsage, Upstream, parse_address, read_metric
from memory_group import MemoryGroup, make_memory_group
from report import Report
from swaps import KillableGate, Swaps, check_swaps, post_swap

DEPLOY = Path(__file__).resolve().parents[2] / "deploy"
# Addresses of this machine that stand for callers; one alone may not take all places.
CALLERS = [f"127.0.0.{at}" for at in range(2, 12)]
IDLE = 4_096
BODIES = 16
# A body of the most values takes 10 MB, and the room for bodies lets few of them in.
BODIES_KIB = 128 * 1024
STALLED = 300
# Memory that was given back may stay mapped for a while.
BACK_SECONDS = 90
MORE_AFTERWARDS = 1.10
SPARE_KIB = 64 * 1024
# After a kill, for any number of claims.
START_KIB = 150 * 1024


def allowed_kib() -> int:
    """Returns how much memory the example for Kubernetes allows a gate."""
    text = (DEPLOY / "kubernetes" / "base" / "kubernetes.yaml").read_text(encoding="utf-8")
    [mebibytes] = re.findall(r"limits: \{memory: (\d+)Mi\}", text)
    return int(mebibytes) * 1024


def connect_all(address: tuple[str, int], count: int, first: bytes) -> list[socket.socket]:
    """Opens connections of several callers, and sends each these bytes; some may be refused or reset."""
    opened = []
    for at in range(count):
        with contextlib.suppress(OSError):
            stream = socket.socket()
            stream.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            stream.bind((CALLERS[at % len(CALLERS)], 0))
            stream.settimeout(5)
            stream.connect(address)
            stream.sendall(first)
            opened.append(stream)
    return opened


def attacks(port: int) -> Iterator[tuple[str, int, bytes]]:
    """Names each attack, how many connections it has, and what they send."""
    yield "idle connections", IDLE, b""
    yield "half heads", IDLE, b"GET /v2/users HTTP/1.1\r\nHost: g\r\nX-Long: " + b"a" * 15_000
    head = f"Host: 127.0.0.1:{port}\r\nAuthorization: {TOKEN}\r\n"
    yield "answers to reads that nobody takes", STALLED, f"GET /v2/users?limit=100 HTTP/1.1\r\n{head}\r\n".encode()
    body = b'{"metadata": "' + b"x" * 900_000
    more = f"Content-Type: application/json\r\nContent-Length: {len(body) + 100}\r\n"
    user = "9f1c0e8e-2f53-4a5e-9a52-6a1c0f7d4e11"
    yield "bodies that do not end", STALLED, f"POST /v2/users/{user} HTTP/1.1\r\n{head}{more}\r\n".encode() + body


def is_below(usage: ProcessUsage, rest: int) -> bool:
    return usage.memory_kib("VmRSS") <= rest * MORE_AFTERWARDS + SPARE_KIB


def try_attacks(report: Report, gate: KillableGate) -> None:
    usage = ProcessUsage(gate.child.pid)
    address = ("127.0.0.1", int(gate.port))
    probes = probe_address(gate)

    def are_closed() -> bool:
        return read_metric(probes, 'sluice_connections_open{listener="production"}') == 0

    most = allowed_kib()
    # What a first attack leaves in the pools of the allocator belongs to the gate at rest.
    rest = 0
    for name, count, first in [next(attacks(gate.port)), *attacks(gate.port)]:
        usage.reset_peak()
        opened = connect_all(address, count, first)
        time.sleep(2)
        peak = usage.memory_kib("VmHWM")
        for stream in opened:
            stream.close()
        report.check_that(f"{name}: connections close", wait_until(are_closed, BACK_SECONDS), "some stay open")
        if rest:
            report.check_that(f"{name}: memory stays within the container's", peak <= most, (peak, most))
            report.check_that(f"{name}: many came", len(opened) >= count // 4, len(opened))
        else:
            wait_until(lambda: False, 5)
            rest = usage.memory_kib("VmRSS")
        after = usage.memory_kib("VmRSS")
        # What an allocator gives back, it gives back late: only the end of all attacks is compared.
        print(f"{len(opened)} {name}: at most {peak >> 10} MiB of {most >> 10}; afterwards {after >> 10}", flush=True)
    is_back = wait_until(functools.partial(is_below, usage, rest), BACK_SECONDS)
    report.check_that("memory is given back in the end", is_back, (usage.memory_kib("VmRSS"), rest))


def many_values() -> Iterator[tuple[str, bytes, set[int]]]:
    """Names bodies that are many times their size once they are read, and the statuses of their answers."""
    rules = b'{"requestId":"x1","chain":"BASE","includeServiceFee":false,"rules":['
    yield "settlement-rules", rules + b"{}," * 340_000 + b"{}]}", {400, 503}
    yield "settlement-rules", rules + b"{}," * 16_000 + b"{}]}", {400, 503}
    user = "9f1c0e8e-2f53-4a5e-9a52-6a1c0f7d4e11"
    yield user, b'{"metadata":[' + b'{"a":0},' * 125_000 + b"{}]}", {400, 503}
    yield user, b'{"metadata":[' + b'{"a":0},' * 8_000 + b"{}]}", {200, 400, 502, 503}


def send_body(port: int, name: str, body: bytes) -> int:
    path = f"/v2/virtual-accounts/{name}" if name == "settlement-rules" else f"/v2/users/{name}"
    headers = {"Authorization": TOKEN, "Content-Type": "application/json"}
    with contextlib.closing(HTTPConnection("127.0.0.1", port, timeout=60)) as connection:
        connection.request("POST", path, body, headers)
        return connection.getresponse().status


def try_many_values(report: Report, gate: KillableGate) -> None:
    usage = ProcessUsage(gate.child.pid)
    usage.reset_peak()
    most = usage.memory_kib("VmRSS") + BODIES_KIB
    for name, body, expected in many_values():
        with ThreadPoolExecutor(BODIES) as callers:
            statuses = set(callers.map(send_body, [int(gate.port)] * BODIES, [name] * BODIES, [body] * BODIES))
        report.check_that(f"{name}: bodies of many values are answered", statuses <= expected, statuses)
    peak = usage.memory_kib("VmHWM")
    print(f"{BODIES} bodies of many values at once: at most {peak >> 10} MiB of {most >> 10}", flush=True)
    report.check_that("bodies of many values take little memory", peak <= most, (peak, most))


def probe_address(gate: KillableGate) -> tuple[str, int]:
    for line in gate.logs[-1]:
        if line.get("message") == "listening for probes":
            return parse_address(str(line["address"]))
    raise RuntimeError("the gate has no probes")


def make_swaps(port: int, swaps: Swaps) -> None:
    while request_id := swaps.take():
        reply = post_swap(port, request_id)
        swaps.acknowledged[request_id] = reply if reply and reply.outcome == "executed" else None


def try_many_claims(report: Report, binary: str, count: int) -> None:
    with start_simulator(binary) as upstream, tempfile.TemporaryDirectory(prefix="sluice-") as folder:
        gate = KillableGate(binary, upstream, Path(folder))
        gate.start()
        swaps = Swaps(count, "claims")
        with ThreadPoolExecutor(16) as callers:
            list(callers.map(lambda _: make_swaps(gate.port, swaps), range(16)))
        before = ProcessUsage(gate.child.pid).memory_kib("VmRSS")
        gate.kill()
        begin = time.monotonic()
        gate.start()
        seconds = time.monotonic() - begin
        usage = ProcessUsage(gate.child.pid)
        peak = usage.memory_kib("VmHWM")
        print(
            f"{count} claims: {before >> 10} MiB before the kill; the next start took {seconds:.1f} s and at most "
            f"{peak >> 10} MiB",
            flush=True,
        )
        report.check_that("a start after a kill takes little memory", peak <= START_KIB, peak)
        for request_id in list(swaps.acknowledged)[: -min(count, 500)]:
            del swaps.acknowledged[request_id]
        check_swaps(report, "claims", [gate], swaps, upstream)
        report.check_that("the gate ends in order", gate.stop() == 0, "it does not")


def check_group(report: Report, gate: KillableGate, group: MemoryGroup | None) -> None:
    if group is None:
        print("no memory cgroup can be made here: the bound was compared with the resident memory alone", flush=True)
        return
    kills, peak = group.kills(), group.peak()
    told = "" if peak is None else f" and took at most {peak >> 20} MiB, files that the kernel keeps among them"
    print(f"in a cgroup of {allowed_kib() >> 10} MiB the gate went on{told}", flush=True)
    is_there = gate.child.poll() is None
    report.check_that("the kernel does not end the gate in its cgroup", kills == 0 and is_there, (kills, is_there))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("binary", type=os.path.abspath)
    parser.add_argument("--long", action="store_true")
    arguments = parser.parse_args()
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    report = Report()
    upstream = Upstream()
    with tempfile.TemporaryDirectory(prefix="sluice-") as folder:
        gate = KillableGate(arguments.binary, upstream.address, Path(folder))
        group = make_memory_group(allowed_kib() << 10)
        try:
            with group.joined() if group else contextlib.nullcontext():
                gate.start()
            try_many_values(report, gate)
            try_attacks(report, gate)
            check_group(report, gate, group)
            report.check_that("the gate ends in order", gate.stop() == 0, "it does not")
        finally:
            if group:
                with contextlib.suppress(OSError):
                    group.remove()
    try_many_claims(report, arguments.binary, 300_000 if arguments.long else 3_000)
    return report.close()


if __name__ == "__main__":
    sys.exit(main())
