"""Crowds of hostile senders before a gate, while good callers go on, and what memory they take:
`python tests/tools/hostile.py SLUICE [--long]`.

A third of the slow ones sends heads, a third bodies, a third reads answers, a
byte a second; whoever is cut comes again, until the time is over. The gate has
its timeouts as shipped. Then bodies that are far too large, and bodies that are
malformed. Short: 200 slow ones for 35 seconds and 5,000 bodies; long: 2,000
for 60 seconds and 100,000.
"""

import argparse
import asyncio
import os
import resource
import socket
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPConnection
from itertools import islice, cycle

from gate import TOKEN, gate
from report import Report

# How long a slow one may last, and how long a count may take to come back.
CUT_SECONDS = 30
REST_SECONDS = 40
MIB = 1024 * 1024
LARGE = b'{"users": []}' + b" " * (4 * MIB)
USER = "/v2/users/9f1c0e8e-2f53-4a5e-9a52-6a1c0f7d4e11"
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
# Framed wrongly: the connection ends with the answer.
CHUNKS = [b"zz\r\n{}\r\n0\r\n\r\n", b"2\n{}\n0\n\n", b"2\r\n{}0\r\n\r\n", b"2\r\n{}\r\n0\r\nX: y\r\n\r\n", b"100000000\r\n{}"]


class Upstream:
    """Answers everything at once: a search with 4 MiB, the rest with next to nothing."""

    def __init__(self):
        self.requests = 0
        self.address = None
        self.ready = threading.Event()
        threading.Thread(target=lambda: asyncio.run(self.listen()), daemon=True).start()
        self.ready.wait()

    async def listen(self):
        server = await asyncio.start_server(self.serve, "127.0.0.1", 0)
        self.address = "{}:{}".format(*server.sockets[0].getsockname())
        self.ready.set()
        await server.serve_forever()

    async def serve(self, reader, writer):
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                fields = dict(line.split(b": ", 1) for line in head.lower().split(b"\r\n")[1:] if line)
                await reader.readexactly(int(fields.get(b"content-length", 0)))
                self.requests += 1
                body = LARGE if b"limit=" in head.split(b"\r\n")[0] else b'{"users": []}'
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n")
                writer.write(b"Content-Length: %d\r\n\r\n" % len(body))
                writer.write(body)
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()


class Crowd:
    """Slow ones, each coming again when it is cut."""

    def __init__(self, address, count, seconds):
        self.address = address
        self.count = count
        self.seconds = seconds
        self.cuts = {kind: [] for kind in SLOW}

    def run(self):
        asyncio.run(self.all())

    async def all(self):
        self.end = time.monotonic() + self.seconds
        kinds = islice(cycle(SLOW), self.count)
        await asyncio.gather(*(self.again(kind, at) for at, kind in enumerate(kinds)))

    async def again(self, kind, at):
        # Not all in the same moment: the queue of a listener is short.
        await asyncio.sleep(at / 1000)
        while time.monotonic() < self.end:
            began = time.monotonic()
            try:
                was_cut = await self.one(kind)
            except (ConnectionError, TimeoutError):
                was_cut = True
            if was_cut:
                self.cuts[kind].append(time.monotonic() - began)

    async def one(self, kind):
        """True if the gate cut it, false if the time was over."""
        loop = asyncio.get_running_loop()
        with socket.socket() as line:
            line.setblocking(False)
            line.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            await loop.sock_connect(line, self.address)
            await loop.sock_sendall(line, SLOW[kind].encode())
            while time.monotonic() < self.end:
                await asyncio.sleep(1)
                if kind == "read":
                    # Its end hides behind what it has not read; the gate's log tells when it was cut.
                    if received(line, 1) == b"":
                        return True
                    continue
                if received(line, 4096) is not None:
                    return True
                await loop.sock_sendall(line, b"a")
        return False


def received(line, count):
    """What is there; `None` if nothing is yet."""
    try:
        return line.recv(count)
    except BlockingIOError:
        return None


class Good:
    """Callers who mean well, one request after the other."""

    def __init__(self, address, callers):
        self.errors = []
        self.times = []
        self.over = threading.Event()
        self.threads = [threading.Thread(target=self.call, args=(address, at)) for at in range(callers)]

    def __enter__(self):
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self.over.set()
        for thread in self.threads:
            thread.join()

    def call(self, address, at):
        line = HTTPConnection(*address, timeout=20)
        headers = {"Authorization": TOKEN, "Content-Type": "application/json"}
        while not self.over.wait(0.01):
            began = time.monotonic()
            try:
                if at % 2:
                    line.request("POST", USER, b"{}", headers)
                else:
                    line.request("GET", "/v2/users", headers={"Authorization": TOKEN})
                answer = line.getresponse()
                answer.read()
                if answer.status != 200:
                    self.errors.append(answer.status)
            except OSError as error:
                self.errors.append(repr(error))
                line.close()
            self.times.append(time.monotonic() - began)
        line.close()


class Process:
    def __init__(self, number):
        self.folder = f"/proc/{number}"

    def figure(self, name):
        """In KiB."""
        with open(f"{self.folder}/status", encoding="utf-8") as status:
            return next(int(line.split()[1]) for line in status if line.startswith(f"{name}:"))

    def forget_the_peak(self):
        with open(f"{self.folder}/clear_refs", "w", encoding="utf-8") as refs:
            refs.write("5")

    def descriptors(self):
        return len(os.listdir(f"{self.folder}/fd"))


def metric(address, name):
    line = HTTPConnection(*address, timeout=20)
    line.request("GET", "/metrics", headers={"Connection": "close"})
    text = line.getresponse().read().decode()
    line.close()
    found = [int(row.rsplit(" ", 1)[1]) for row in text.splitlines() if row.startswith(name)]
    return found[0] if found else 0


def until(holds, seconds):
    """Whether it holds in time."""
    end = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > end:
            return False
        time.sleep(0.1)
    return True


def pair(address):
    host, port = address.rsplit(":", 1)
    return host, int(port)


def slow(report, one, process, count, seconds):
    address, probes = pair(one.addresses["production"]), pair(one.addresses["probes"])
    open_now = lambda: metric(probes, 'sluice_connections_open{listener="production"}')
    with Good(address, 2):
        time.sleep(0.5)
    report.check("no connection is left of the first callers", "" if until(lambda: open_now() == 0, 70) else open_now())
    base = process.descriptors()
    told = len(one.lines)
    crowd = Crowd(address, count, seconds)
    with Good(address, 8) as good:
        crowd.run()
        # Those who never read hide their end from their senders, not from the gate.
        gone = until(lambda: open_now() <= len(good.threads), REST_SECONDS)
    report.check("slow ones are gone", "" if gone else f"{open_now()} connections are open")
    lines = [line for line in one.lines[told:] if line.get("message") == "request"]
    reads = [int(line["whole_us"]) / 1e6 for line in lines if int(line["bytes_out"]) > 2000]
    for kind, times in (*crowd.cuts.items(), ("read, as the gate tells it", reads)):
        longest = max(times, default=0)
        print(f"slow {kind}: {len(times)} ended, the longest after {longest:.1f} s")
        report.check(f"slow {kind} is cut", f"after {longest:.1f} s" if longest > CUT_SECONDS else "")
    report.check("some were cut in each way", "" if all(crowd.cuts[k] for k in ("head", "body")) and reads else crowd.cuts)
    report.check("good callers hear no error", ", ".join(map(str, good.errors[:5])))
    times = sorted(good.times)
    at = lambda share: times[int(len(times) * share)] * 1000
    print(f"good callers: {len(times)} calls, {len(good.errors)} errors, p50 {at(0.5):.1f} ms, p99 {at(0.99):.1f} ms")
    back = until(lambda: process.descriptors() <= base, 70)
    print(f"descriptors: {base} at rest, {process.descriptors()} after it")
    report.check("descriptors come back", "" if back else f"{process.descriptors()}, {base} before")


def exchange(line, request):
    """Status and whether the connection goes on; 0 where it was cut before an answer could be read."""
    try:
        line.sendall(request)
    except OSError:
        pass
    try:
        answer = b""
        while b"\r\n\r\n" not in answer:
            piece = line.recv(65536)
            if not piece:
                return 0, False
            answer += piece
        head, body = answer.split(b"\r\n\r\n", 1)
        fields = dict(row.split(b": ", 1) for row in head.lower().split(b"\r\n")[1:])
        while len(body) < int(fields[b"content-length"]):
            body += line.recv(65536)
        return int(head.split()[1]), fields[b"connection"] == b"keep-alive"
    except OSError:
        return 0, False


def post(framing, body):
    return f"POST {USER} HTTP/1.1\r\n{HEAD}{JSON}{framing}\r\n\r\n".encode() + body


def large(report, one, process):
    address = pair(one.addresses["production"])
    body = b" " * (16 * MIB)
    chunk = b"10000\r\n" + b" " * 65536 + b"\r\n"
    shapes = {
        "with a length": post(f"Content-Length: {len(body)}", body),
        "in chunks": post("Transfer-Encoding: chunked", chunk * 256 + b"0\r\n\r\n"),
    }

    def send(request):
        with socket.create_connection(address, 30) as line:
            return exchange(line, request)[0]

    for shape, request in shapes.items():
        process.forget_the_peak()
        base = process.figure("VmRSS")
        with ThreadPoolExecutor(64) as callers:
            statuses = sorted(set(callers.map(send, [request] * 64)))
        grown, most = process.figure("VmHWM") - base, 64 * (1024 + 256)
        print(f"64 bodies of 16 MiB {shape}: {grown} KiB more than {base}, at most {most}; answered {statuses}")
        report.check(f"64 bodies of 16 MiB {shape}", f"{grown} KiB" if grown > most else "")
        wrong = [status for status in statuses if status not in (0, 413, 503)]
        report.check(f"they are refused {shape}", wrong and str(wrong))


def malformed(report, one, process, upstream, count):
    address = pair(one.addresses["production"])
    requests = [post(f"Content-Length: {len(body)}", body) for body in MALFORMED]
    requests += [post("Transfer-Encoding: chunked", body) for body in CHUNKS]
    found = {}

    def send(own):
        line = None
        for at in range(own):
            line = line or socket.create_connection(address, 30)
            status, goes_on = exchange(line, requests[at % len(requests)])
            found[status] = found.get(status, 0) + 1
            if not goes_on:
                line.close()
                line = None
        if line:
            line.close()

    send(len(requests) * 20)
    found.clear()
    process.forget_the_peak()
    base, before = process.figure("VmRSS"), upstream.requests
    with ThreadPoolExecutor(8) as callers:
        list(callers.map(send, [count // 8] * 8))
    grown = process.figure("VmHWM") - base
    print(f"{count} malformed bodies: {grown} KiB more than {base}; answered {dict(sorted(found.items()))}")
    report.check("malformed bodies take no memory", f"{grown} KiB" if grown > 32 * 1024 else "")
    report.check("they are all refused", "" if set(found) == {400} else found)
    report.check("none reaches upstream", upstream.requests - before)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("sluice")
    parser.add_argument("--long", action="store_true")
    options = parser.parse_args()
    count, seconds, bodies = (2000, 60, 100_000) if options.long else (200, 35, 5000)
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    report = Report()
    upstream = Upstream()
    with gate(options.sluice, upstream.address, Upstream().address) as one:
        process = Process(one.process)
        malformed(report, one, process, upstream, bodies)
        large(report, one, process)
        slow(report, one, process, count, seconds)
    return report.close()


if __name__ == "__main__":
    sys.exit(main())
