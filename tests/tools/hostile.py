"""Sends slow, large and malformed requests to a gate from many connections, and measures good callers and memory.

Usage: `python tests/tools/hostile.py SLUICE [--long]`.

A third of the slow clients sends a head, a third a body, a third reads a response, one byte a second. A client that is
cut off connects again, until the time is over. The gate has its timeouts as shipped. Bodies that are far too large, and
malformed bodies, follow. Short: 200 slow clients for 35 seconds and 5,000 bodies; long: 2,000 for 60 seconds and
100,000.
"""

import argparse
import asyncio
import contextlib
import resource
import socket
import sys
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from email.utils import formatdate
from http.client import HTTPConnection
from itertools import cycle, islice
from pathlib import Path
from types import TracebackType
from typing import Self

from gate import TOKEN, RunningGate, start_gate, wait_until
from report import Report

Address = tuple[str, int]

# How long a slow connection may last.
MAX_SLOW_SECONDS = 30
# How long the gate may take to close the slow connections after their clients left.
CLOSE_SECONDS = 40
# How long the gate may take to close its idle connections.
IDLE_SECONDS = 70
MIB = 1024 * 1024
LARGE = b'{"users": []}' + b" " * (4 * MIB)
USER_ID = "9f1c0e8e-2f53-4a5e-9a52-6a1c0f7d4e11"
# The least record of a user.
SMALL = f'{{"id": "{USER_ID}"}}'.encode()
USER = f"/v2/users/{USER_ID}"
HEAD = f"Host: gate.example\r\nAuthorization: {TOKEN}\r\n"
JSON = "Content-Type: application/json\r\n"
SLOW = {
    "head": f"GET /v2/users HTTP/1.1\r\n{HEAD}X-A: ",
    "body": f"POST {USER} HTTP/1.1\r\n{HEAD}{JSON}Content-Length: 100000\r\n\r\n",
    "read": f"GET /v2/users?limit=100 HTTP/1.1\r\n{HEAD}\r\n",
}
MALFORMED = [
    b"{",
    b"",
    b'{"a": 1, "a": 2}',
    b'{"a": "\xff"}',
    b'{"a": "\\ud800"}',
    b"[" * 5000,
    b"1" * 5000,
    b"{} {}",
    b"\xef\xbb\xbf{}",
    b'{"a": ' + b'"' + b"x" * 60_000,
    b"nonsense",
]
# Malformed chunks: the connection ends with the response.
CHUNKS = [
    b"zz\r\n{}\r\n0\r\n\r\n",
    b"2\n{}\n0\n\n",
    b"2\r\n{}0\r\n\r\n",
    b"2\r\n{}\r\n0\r\nX: y\r\n\r\n",
    b"100000000\r\n{}",
]


class Upstream:
    """Responds to everything at once: to a search with 4 MiB, to the rest with a few bytes."""

    def __init__(self) -> None:
        self.requests = 0
        self.address = ""
        self.ready = threading.Event()
        threading.Thread(target=lambda: asyncio.run(self.listen()), daemon=True).start()
        self.ready.wait()

    async def listen(self) -> None:
        server = await asyncio.start_server(self.serve, "127.0.0.1", 0)
        host, port = server.sockets[0].getsockname()
        self.address = f"{host}:{port}"
        self.ready.set()
        await server.serve_forever()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                fields = dict(line.split(b": ", 1) for line in head.lower().split(b"\r\n")[1:] if line)
                await reader.readexactly(int(fields.get(b"content-length", b"0")))
                self.requests += 1
                body = LARGE if b"limit=" in head.split(b"\r\n")[0] else SMALL
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n")
                writer.write(b"Date: %s\r\n" % formatdate(usegmt=True).encode())
                writer.write(b"Content-Length: %d\r\n\r\n" % len(body))
                writer.write(body)
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()


class SlowClients:
    """Slow clients, each of which connects again when it is cut off."""

    def __init__(self, address: Address, count: int, seconds: float) -> None:
        self.address = address
        self.count = count
        self.seconds = seconds
        self.end = 0.0
        # By kind, how many seconds each connection lasted until the gate closed it.
        self.cuts: dict[str, list[float]] = {kind: [] for kind in SLOW}

    def run(self) -> None:
        asyncio.run(self.run_all())

    async def run_all(self) -> None:
        self.end = time.monotonic() + self.seconds
        kinds = islice(cycle(SLOW), self.count)
        await asyncio.gather(*(self.connect_repeatedly(kind, at) for at, kind in enumerate(kinds)))

    async def connect_repeatedly(self, kind: str, at: int) -> None:
        # Not all in the same moment: the queue of a listener is short.
        await asyncio.sleep(at / 1000)
        while time.monotonic() < self.end:
            began = time.monotonic()
            try:
                was_cut = await self.connect(kind)
            except (ConnectionError, TimeoutError):
                was_cut = True
            if was_cut:
                self.cuts[kind].append(time.monotonic() - began)

    async def connect(self, kind: str) -> bool:
        """Returns true if the gate closed the connection, and false if the time was over."""
        loop = asyncio.get_running_loop()
        with socket.socket() as stream:
            stream.setblocking(False)
            stream.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            await loop.sock_connect(stream, self.address)
            await loop.sock_sendall(stream, SLOW[kind].encode())
            while time.monotonic() < self.end:
                await asyncio.sleep(1)
                if kind == "read":
                    # Unread data hides the end of the stream; the gate's log shows when it closed the connection.
                    if receive(stream, 1) == b"":
                        return True
                    continue
                if receive(stream, 4096) is not None:
                    return True
                await loop.sock_sendall(stream, b"a")
        return False


def receive(stream: socket.socket, count: int) -> bytes | None:
    """Returns the bytes that have arrived, or None if there are none yet."""
    try:
        return stream.recv(count)
    except BlockingIOError:
        return None


class GoodCallers:
    """Callers that send one valid request after the other, until the `with` block ends."""

    def __init__(self, address: Address, callers: int) -> None:
        self.errors: list[str] = []
        self.times: list[float] = []
        self.is_over = threading.Event()
        self.threads = [threading.Thread(target=self.call, args=(address, at)) for at in range(callers)]

    def __enter__(self) -> Self:
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.is_over.set()
        for thread in self.threads:
            thread.join()

    def call(self, address: Address, at: int) -> None:
        connection = HTTPConnection(*address, timeout=20)
        headers = {"Authorization": TOKEN, "Content-Type": "application/json"}
        while not self.is_over.wait(0.01):
            began = time.monotonic()
            try:
                if at % 2:
                    connection.request("POST", USER, b"{}", headers)
                else:
                    connection.request("GET", "/v2/users", headers={"Authorization": TOKEN})
                response = connection.getresponse()
                response.read()
                if response.status != 200:
                    self.errors.append(str(response.status))
            except OSError as error:
                self.errors.append(repr(error))
                connection.close()
            self.times.append(time.monotonic() - began)
        connection.close()


class ProcessUsage:
    """The memory and the file descriptors of a process."""

    def __init__(self, pid: int) -> None:
        self.folder = Path("/proc") / str(pid)

    def memory_kib(self, name: str) -> int:
        lines = (self.folder / "status").read_text(encoding="utf-8").splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith(f"{name}:"))

    def reset_peak(self) -> None:
        (self.folder / "clear_refs").write_text("5", encoding="utf-8")

    def descriptors(self) -> int:
        return sum(1 for _ in (self.folder / "fd").iterdir())


def read_metric(address: Address, name: str) -> int:
    connection = HTTPConnection(*address, timeout=20)
    connection.request("GET", "/metrics", headers={"Connection": "close"})
    text = connection.getresponse().read().decode()
    connection.close()
    found = [int(row.rsplit(" ", 1)[1]) for row in text.splitlines() if row.startswith(name)]
    return found[0] if found else 0


def parse_address(text: str) -> Address:
    host, port = text.rsplit(":", 1)
    return host, int(port)


def try_slow_clients(report: Report, gate: RunningGate, usage: ProcessUsage, count: int, seconds: float) -> None:
    address, probes = parse_address(gate.addresses["production"]), parse_address(gate.addresses["probes"])

    def open_connections() -> int:
        return read_metric(probes, 'sluice_connections_open{listener="production"}')

    with GoodCallers(address, 2):
        time.sleep(0.5)
    is_idle = wait_until(lambda: open_connections() == 0, IDLE_SECONDS)
    report.check_that("no connection is left of the first callers", is_idle, open_connections())
    base = usage.descriptors()
    seen = len(gate.log)
    clients = SlowClients(address, count, seconds)
    with GoodCallers(address, 8) as good:
        clients.run()
        # Clients that never read do not see that the gate closed their connection; the gate's own count is right.
        are_closed = wait_until(lambda: open_connections() <= len(good.threads), CLOSE_SECONDS)
    report.check_that("slow connections are closed", are_closed, f"{open_connections()} connections are open")
    lines = [line for line in gate.log[seen:] if line.get("message") == "request"]
    reads = [int(line["whole_us"]) / 1e6 for line in lines if int(line["http.response.body.size"]) > 2000]
    for kind, times in (*clients.cuts.items(), ("read, by the gate's log", reads)):
        longest = max(times, default=0)
        print(f"slow {kind}: {len(times)} ended, the longest after {longest:.1f} s")
        report.check_that(f"slow {kind} is cut off", longest <= MAX_SLOW_SECONDS, f"after {longest:.1f} s")
    is_each = bool(clients.cuts["head"] and clients.cuts["body"] and reads)
    report.check_that("each kind is cut off at least once", is_each, clients.cuts)
    report.check("good callers see no error", ", ".join(good.errors[:5]))
    times = sorted(good.times)
    p50, p99 = (times[int(len(times) * share)] * 1000 for share in (0.5, 0.99))
    print(f"good callers: {len(times)} calls, {len(good.errors)} errors, p50 {p50:.1f} ms, p99 {p99:.1f} ms")
    are_freed = wait_until(lambda: usage.descriptors() <= base, IDLE_SECONDS)
    print(f"descriptors: {base} at rest, {usage.descriptors()} afterwards")
    report.check_that("descriptors are freed", are_freed, f"{usage.descriptors()}, {base} before")


def exchange(stream: socket.socket, request: bytes) -> tuple[int, bool]:
    """Returns the status, and whether the connection stays open; 0 if it was cut before a response could be read."""
    with contextlib.suppress(OSError):
        stream.sendall(request)
    try:
        response = b""
        while b"\r\n\r\n" not in response:
            piece = stream.recv(65536)
            if not piece:
                return 0, False
            response += piece
        head, body = response.split(b"\r\n\r\n", 1)
        fields = dict(row.split(b": ", 1) for row in head.lower().split(b"\r\n")[1:])
        while len(body) < int(fields[b"content-length"]):
            body += stream.recv(65536)
        return int(head.split()[1]), fields[b"connection"] == b"keep-alive"
    except OSError:
        return 0, False


def make_post(framing: str, body: bytes) -> bytes:
    return f"POST {USER} HTTP/1.1\r\n{HEAD}{JSON}{framing}\r\n\r\n".encode() + body


def try_large_bodies(report: Report, gate: RunningGate, usage: ProcessUsage) -> None:
    address = parse_address(gate.addresses["production"])
    body = b" " * (16 * MIB)
    chunk = b"10000\r\n" + b" " * 65536 + b"\r\n"
    shapes = {
        "with a length": make_post(f"Content-Length: {len(body)}", body),
        "in chunks": make_post("Transfer-Encoding: chunked", chunk * 256 + b"0\r\n\r\n"),
    }

    def send(request: bytes) -> int:
        with socket.create_connection(address, 30) as stream:
            return exchange(stream, request)[0]

    for shape, request in shapes.items():
        usage.reset_peak()
        base = usage.memory_kib("VmRSS")
        with ThreadPoolExecutor(64) as callers:
            statuses = sorted(set(callers.map(send, [request] * 64)))
        grown, most = usage.memory_kib("VmHWM") - base, 64 * (1024 + 256)
        print(f"64 bodies of 16 MiB {shape}: {grown} KiB more than {base}, at most {most}; statuses {statuses}")
        report.check_that(f"64 bodies of 16 MiB {shape} take little memory", grown <= most, f"{grown} KiB")
        wrong = [status for status in statuses if status not in (0, 413, 503)]
        report.check_that(f"the gate refuses them {shape}", not wrong, wrong)


def try_malformed_bodies(
    report: Report, gate: RunningGate, usage: ProcessUsage, upstream: Upstream, count: int
) -> None:
    address = parse_address(gate.addresses["production"])
    requests = [make_post(f"Content-Length: {len(body)}", body) for body in MALFORMED]
    requests += [make_post("Transfer-Encoding: chunked", body) for body in CHUNKS]
    statuses: Counter[int] = Counter()

    def send_many(own: int) -> None:
        stream = None
        for at in range(own):
            stream = stream or socket.create_connection(address, 30)
            status, stays_open = exchange(stream, requests[at % len(requests)])
            statuses[status] += 1
            if not stays_open:
                stream.close()
                stream = None
        if stream:
            stream.close()

    send_many(len(requests) * 20)
    statuses.clear()
    usage.reset_peak()
    base, before = usage.memory_kib("VmRSS"), upstream.requests
    with ThreadPoolExecutor(8) as callers:
        list(callers.map(send_many, [count // 8] * 8))
    grown = usage.memory_kib("VmHWM") - base
    print(f"{count} malformed bodies: {grown} KiB more than {base}; statuses {dict(sorted(statuses.items()))}")
    report.check_that("malformed bodies take no memory", grown <= 32 * 1024, f"{grown} KiB")
    report.check_that("the gate refuses them all", set(statuses) == {400}, statuses)
    reached = upstream.requests - before
    report.check_that("none reaches upstream", reached == 0, reached)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("sluice")
    parser.add_argument("--long", action="store_true")
    options = parser.parse_args()
    count, seconds, bodies = (2000, 60, 100_000) if options.long else (200, 35, 5000)
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    report = Report()
    upstream = Upstream()
    with start_gate(options.sluice, upstream.address, Upstream().address) as gate:
        usage = ProcessUsage(gate.pid)
        try_malformed_bodies(report, gate, usage, upstream, bodies)
        try_large_bodies(report, gate, usage)
        try_slow_clients(report, gate, usage, count, seconds)
    return report.close()


if __name__ == "__main__":
    sys.exit(main())
