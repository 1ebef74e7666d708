"""Measures what payments cost with 1, 2 and 4 gates on one Redis, and what claims that are kept cost.

Usage: `python tests/tools/scaling.py SLUICE FIGURES.json [--seconds N] [--claims N]`.

A report, no test: nothing passes or fails by a figure. Gates are held on one core; the Redis, the simulator and the
load on another. So with more gates the rate stays that of one core, and the figure that counts is the CPU that all
gates take for a payment: each gate also writes the audit entries of the others. `plots.py` draws the figures, and the
model of larger installations that follows from them.

With `--claims`, a Redis is filled with so many settled claims, copies of a real one. A gate on it and a gate on an
empty Redis take turns, so that what else the machine does meets both alike. What a commit takes is told by the Redis
itself (`INFO latencystats`), what a payment takes by its caller.
"""

import argparse
import json
import os
import selectors
import socket
import subprocess
import tempfile
import time
import uuid
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from statistics import median
from typing import Any

from gate import TOKEN, start_simulator, wait_until
from nodes import Redis
from swaps import KillableGate

GATES = [1, 2, 4]
CONNECTIONS = 8
ROUNDS = 7
WARM_UP_SECONDS = 1
GATE_CORE, OTHER_CORE = "0", "1"
# How many payments tell what one takes in memory.
MEASURED_PAYMENTS = 4_000
CLAIMS_AT_ONCE = 2_000
LIMITS = (Path(__file__).parents[1] / "support" / "two_limits.toml").read_text(encoding="utf-8")
ROOT = "sluice:{production}"
# Copies a settled claim under other names, as a commit writes it.
COPY = """
local value, due = ARGV[1], ARGV[2]
for i = 3, #ARGV do
  redis.call('SET', KEYS[1] .. ':r:claim:' .. ARGV[i], value)
  redis.call('ZADD', KEYS[1] .. ':x', due, 'rclaim:' .. ARGV[i])
end
"""
# Takes the content from claims, as a sweep does.
SPEND = """
for _, name in ipairs(ARGV) do
  local key = KEYS[1] .. ':r:claim:' .. name
  redis.call('SET', key, string.sub(redis.call('GET', key), 1, 32) .. 's')
end
"""


class Wire:
    """A connection that pays, one payment after the other."""

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=30)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.received = b""
        self.begin = 0.0

    def pay(self) -> None:
        body = (
            f'{{"requestId":"{uuid.uuid4()}","source":{{"chain":"POLYGON","currency":"usdt","amount":"10"}},'
            '"destination":{"chain":"POLYGON","currency":"usdc",'
            '"walletAddress":"0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed"}}'
        )
        head = (
            f"POST /v2/wallets/swaps HTTP/1.1\r\nHost: gate\r\nAuthorization: {TOKEN}\r\n"
            f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        )
        self.begin = time.perf_counter()
        self.socket.sendall((head + body).encode())

    def is_paid(self) -> bool:
        """Reads what has come; returns whether the answer is whole."""
        self.received += self.socket.recv(65_536)
        head, end, body = self.received.partition(b"\r\n\r\n")
        if not end:
            return False
        lines = head.lower().split(b"\r\n")
        length = next(int(line.split(b":")[1]) for line in lines if line.startswith(b"content-length:"))
        if len(body) < length:
            return False
        if not head.startswith(b"HTTP/1.1 20"):
            raise RuntimeError(f"a payment failed: {self.received.decode()}")
        self.received = b""
        return True


def pay_for(ports: list[int], seconds: float = 0.0, count: int = 0) -> list[float]:
    """Pays for so long, or so often, at all ports in turn; returns what each payment took, in seconds."""
    taken: list[float] = []
    selector = selectors.DefaultSelector()
    for at in range(CONNECTIONS):
        wire = Wire(ports[at % len(ports)])
        selector.register(wire.socket, selectors.EVENT_READ, wire)
        wire.pay()
    begin, begun, open_calls = time.perf_counter(), CONNECTIONS, CONNECTIONS
    while open_calls > 0:
        for key, _ in selector.select(30):
            wire = key.data
            if not wire.is_paid():
                continue
            now = time.perf_counter()
            taken.append(now - wire.begin)
            if (count and begun < count) or (not count and now - begin < seconds):
                begun += 1
                wire.pay()
            else:
                open_calls -= 1
                selector.unregister(wire.socket)
                wire.socket.close()
    return taken


def cpu_seconds(pid: int) -> float:
    """Returns the CPU time of a process so far, in user and in system."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def info(redis: Redis, section: str) -> dict[str, str]:
    lines = redis.ask("INFO", section).decode().splitlines()
    return dict(line.split(":", 1) for line in lines if ":" in line)


def percentile(taken: list[float], hundredths: float) -> float:
    """Returns a percentile in milliseconds."""
    return round(sorted(taken)[min(len(taken) - 1, int(len(taken) * hundredths / 100))] * 1_000, 3)


def pin(pid: int, core: str) -> None:
    subprocess.run(["taskset", "-acp", core, str(pid)], stdout=subprocess.DEVNULL, check=True)


@contextmanager
def start(binary: str, gates: int, fsync: str = "everysec") -> Iterator[tuple[Redis, list[KillableGate]]]:
    """Runs gates on one Redis, each process on its core."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="sluice-")))
        upstream = stack.enter_context(start_simulator(binary, "--latency-ms", "0"))
        home = folder / "redis"
        home.mkdir()
        more = ["--appendfsync", fsync, "--auto-aof-rewrite-percentage", "0", "--maxmemory", "0"]
        redis = Redis(home, more=more)
        stack.callback(redis.kill)
        pin(redis.child.pid, OTHER_CORE)
        # It goes before the load on its core, where this process may say so.
        with suppress(PermissionError):
            os.setpriority(os.PRIO_PROCESS, redis.child.pid, -19)
        all_gates = []
        for at in range(gates):
            place = folder / f"gate-{at}"
            place.mkdir()
            settings = f"""
[store]
kind = "redis"
node = "gate-{at}"
[redis]
url = "redis://127.0.0.1:{redis.port}"
timeout_ms = 5000
[server]
threads = 1
"""
            gate = KillableGate(binary, upstream, place, settings)
            (place / "policies" / "limits.toml").write_text(LIMITS, encoding="utf-8")
            gate.start()
            stack.callback(gate.kill)
            pin(gate.child.pid, GATE_CORE)
            all_gates.append(gate)
        ports = [int(gate.port) for gate in all_gates]
        wait_until(lambda: all(can_pay(port) for port in ports), 30)
        yield redis, all_gates


def can_pay(port: int) -> bool:
    try:
        pay_for([port], count=1)
    except (RuntimeError, OSError):
        return False
    return True


def measure(redis: Redis, gates: list[KillableGate], seconds: float) -> dict[str, Any]:
    """Returns what payments took and cost within this time."""
    ports = [int(gate.port) for gate in gates]
    pay_for(ports, WARM_UP_SECONDS)
    redis.ask("CONFIG", "RESETSTAT")

    def costs() -> list[float]:
        stats = info(redis, "stats")
        bytes_of = [float(stats[f"total_net_{way}_bytes"]) for way in ("input", "output")]
        return [sum(cpu_seconds(gate.child.pid) for gate in gates), cpu_seconds(redis.child.pid), *bytes_of]

    before, begin = costs(), time.perf_counter()
    taken = pay_for(ports, seconds)
    length = time.perf_counter() - begin
    gate_cpu, redis_cpu, bytes_in, bytes_out = (now - then for now, then in zip(costs(), before, strict=True))
    script = info(redis, "commandstats")["cmdstat_evalsha"]
    percentiles = info(redis, "latencystats")["latency_percentiles_usec_evalsha"]
    return {
        "gates": len(gates),
        "payments_per_second": round(len(taken) / length),
        "p50_ms": percentile(taken, 50),
        "p99_ms": percentile(taken, 99),
        "gate_cpu_us": round(gate_cpu / len(taken) * 1e6),
        "redis_cpu_us": round(redis_cpu / len(taken) * 1e6),
        "redis_bytes_in": round(bytes_in / len(taken)),
        "redis_bytes_out": round(bytes_out / len(taken)),
        "script_mean_us": float(field(script, "usec_per_call")),
        "script_p50_us": float(field(percentiles, "p50")),
        "script_p99_us": float(field(percentiles, "p99")),
    }


def field(line: str, name: str) -> str:
    return next(part.split("=")[1] for part in line.split(",") if part.startswith(f"{name}="))


def claims_in(redis: Redis) -> list[str]:
    """Returns the names of all claims."""
    prefix, names, cursor = f"{ROOT}:r:claim:", [], "0"
    while True:
        told, keys = redis.ask("SCAN", cursor, "MATCH", f"{prefix}*", "COUNT", 1000)
        names += [key.decode().removeprefix(prefix) for key in keys]
        cursor = told.decode()
        if cursor == "0":
            return names


def used_memory(redis: Redis) -> int:
    return int(info(redis, "memory")["used_memory"])


def is_drained(redis: Redis) -> bool:
    return int(redis.ask("ZCARD", f"{ROOT}:q")) <= 2


def measure_memory(binary: str) -> dict[str, int]:
    """Returns the bytes that a settled claim takes, whole and as a tombstone."""
    with start(binary, 1) as (redis, gates):
        port = int(gates[0].port)
        pay_for([port], count=500)
        wait_until(lambda: is_drained(redis), 30)
        before, count = used_memory(redis), len(claims_in(redis))
        pay_for([port], count=MEASURED_PAYMENTS)
        wait_until(lambda: is_drained(redis), 30)
        names = claims_in(redis)
        whole = (used_memory(redis) - before) / (len(names) - count)
        value = len(redis.ask("GET", f"{ROOT}:r:claim:{names[0]}"))
        gates[0].kill()
        before = used_memory(redis)
        for first in range(0, len(names), CLAIMS_AT_ONCE):
            redis.ask("EVAL", SPEND, 1, ROOT, *names[first : first + CLAIMS_AT_ONCE])
        spent = whole - (before - used_memory(redis)) / len(names)
        return {"claim_bytes": round(whole), "claim_value_bytes": value, "tombstone_bytes": round(spent)}


def fill(redis: Redis, claims: int) -> None:
    """Copies a real claim so often."""
    name = claims_in(redis)[0]
    value = redis.ask("GET", f"{ROOT}:r:claim:{name}")
    due = redis.ask("ZSCORE", f"{ROOT}:x", f"rclaim:{name}").decode()
    redis.ask("CONFIG", "SET", "appendonly", "no")
    for first in range(0, claims, CLAIMS_AT_ONCE):
        names = [str(uuid.uuid4()) for _ in range(min(CLAIMS_AT_ONCE, claims - first))]
        redis.ask("EVAL", COPY, 1, ROOT, value, due, *names)
    redis.ask("CONFIG", "SET", "appendonly", "yes")

    def is_written() -> bool:
        told = info(redis, "persistence")
        return told["aof_rewrite_in_progress"] == "0" and told["aof_rewrite_scheduled"] == "0"

    if not wait_until(is_written, 600):
        raise RuntimeError("the Redis does not write its file")


def measure_kept(binary: str, claims: int, seconds: float) -> dict[str, Any]:
    """Returns what payments take on an empty Redis and on a full one, in turns."""
    with start(binary, 1) as empty, start(binary, 1) as full:
        pay_for([int(full[1][0].port)], count=100)
        before = used_memory(full[0])
        fill(full[0], claims)
        grown = used_memory(full[0]) - before
        rounds = [(measure(*empty, seconds), measure(*full, seconds)) for _ in range(ROUNDS)]
    medians = {}
    for name in ("p50_ms", "p99_ms", "redis_cpu_us", "script_mean_us", "script_p50_us", "script_p99_us"):
        pairs = [(beside[name], filled[name]) for beside, filled in rounds]
        medians[name] = {
            "empty": median(one for one, _ in pairs),
            "full": median(other for _, other in pairs),
            "ratio": round(median(other / one for one, other in pairs), 3),
        }
    return {"claims": claims, "bytes_per_claim": round(grown / claims), "rounds": ROUNDS, "medians": medians}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("binary", type=os.path.abspath)
    parser.add_argument("figures", type=Path)
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--claims", type=int, default=0)
    arguments = parser.parse_args()
    pin(os.getpid(), OTHER_CORE)
    figures = json.loads(arguments.figures.read_text(encoding="utf-8")) if arguments.figures.exists() else {}
    if arguments.claims:
        figures["kept"] = measure_kept(arguments.binary, arguments.claims, arguments.seconds)
    else:
        figures["memory"] = measure_memory(arguments.binary)
        figures["gates"] = []
        for count in GATES:
            with start(arguments.binary, count) as (redis, gates):
                rounds = [measure(redis, gates, arguments.seconds) for _ in range(ROUNDS)]
                # The round that the machine disturbed least.
                figures["gates"].append(min(rounds, key=lambda one: one["gate_cpu_us"] + one["redis_cpu_us"]))
    arguments.figures.write_text(json.dumps(figures, indent=2) + "\n", encoding="utf-8")
    print(json.dumps(figures, indent=2))


if __name__ == "__main__":
    main()
