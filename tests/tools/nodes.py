"""Runs two gates on one Redis, while gates are killed and the Redis is in trouble.

Usage: `python tests/tools/nodes.py SLUICE [--long] [--seed N]`.

The simulator behind the gates is not idempotent: a call that reaches it twice takes effect twice. Callers repeat their
swaps at either gate until they know the outcome. Three runs: gates are killed at random moments; the Redis is killed,
frozen, refused, half open or slow, or its answers are lost; and two gates race for each requestId, some of them with
another body or for another caller. Nothing may happen twice; journal, claims and audit log agree; every call ends in
time; money moves again with the Redis. Short: 400 swaps, 3 kills of each gate, each trouble once, 200 races; long:
10,000, 15, each trouble 20 times, and 5,000.
"""

import contextlib
import json
import os
import random
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import IO, Any, NamedTuple

import zstandard

from gate import TOKEN, free_port, make_token, start_simulator
from report import Report, parse_arguments
from swaps import (
    CALLERS,
    KillableGate,
    Reply,
    Swaps,
    call_until_known,
    check_audit,
    check_swaps,
    kill_repeatedly,
    post_swap,
    read_journal,
    run_together,
)

DEADLINE_SECONDS = 0.5
# A call ends within this time: it begins and settles, each with a second try, has upstream between them, and waits the
# two seconds that callers ask for.
CALL_LIMIT_SECONDS = 9
RECOVERY_LIMIT_SECONDS = 2
OTHER_TOKEN = f"Bearer {make_token('another')}"
# The troubles of a Redis; the last four are troubles of its network.
TROUBLES = ["killed", "frozen", "slow", "mute", "half open", "refused"]


# The first bytes of a packed value, and the text that it has words in common with.
PACKED = b"\0z1"
COMMON_TEXT = Path(__file__).parent.parent.parent / "src/adapters/store/common_text.jsonl"
# The library that sets the clock of a process.
FALSE_CLOCK = Path(__file__).parent.parent / "support" / "false_clock.c"
SLOW_DISK = Path(__file__).parent.parent / "support" / "slow_disk.c"
# The numbers of the head of a store, in their order; see `script.lua`.
HEAD = ("format", "time", "last", "put", "skew", "above", "lost")


class FalseClock:
    """The time of day of processes that load its library first; their monotonic clocks stay right."""

    def __init__(self, folder: Path) -> None:
        self.file = folder / "clock"
        self.library = folder / "false_clock.so"
        subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-o", str(self.library), str(FALSE_CLOCK)], check=True)
        self.leap(0)

    def leap(self, seconds: int) -> None:
        """Sets the clock ahead of the real time, or back."""
        new = self.file.with_suffix(".new")
        new.write_text(str(seconds), encoding="utf-8")
        new.rename(self.file)

    def variables(self) -> dict[str, str]:
        """Returns what a process needs in its environment to go by this clock."""
        return {"LD_PRELOAD": str(self.library), "FALSE_CLOCK": str(self.file)}


class SlowDisk:
    """The disk of processes that load its library first: each fsync takes longer."""

    def __init__(self, folder: Path) -> None:
        self.file = folder / "slow-disk"
        self.library = folder / "slow_disk.so"
        subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-o", str(self.library), str(SLOW_DISK)], check=True)
        self.set(0)

    def set(self, millis: int) -> None:
        new = self.file.with_suffix(".new")
        new.write_text(str(millis), encoding="utf-8")
        new.rename(self.file)


class Redis:
    """A Redis that writes everything to disk before it answers. Its clock can be set, if it is to be."""

    def __init__(self, folder: Path, *, has_own_clock: bool = False, more: Sequence[str] = ()) -> None:
        self.folder = folder
        self.more = more
        self.port = free_port()
        self.clock = FalseClock(folder) if has_own_clock else None
        self.child = self.spawn()

    def spawn(self) -> "subprocess.Popen[bytes]":
        command: list[str | Path] = ["redis-server", "--port", str(self.port), "--bind", "127.0.0.1", "--save", ""]
        command += ["--appendonly", "yes", "--appendfsync", "always", "--dir", self.folder, *self.more]
        child = subprocess.Popen(
            command, stdout=subprocess.DEVNULL, env=os.environ | (self.clock.variables() if self.clock else {})
        )
        end = time.monotonic() + 20
        while not self.is_up():
            if time.monotonic() > end or child.poll() is not None:
                raise RuntimeError("the Redis did not start")
            time.sleep(0.01)
        return child

    def leap(self, seconds: int) -> None:
        """Sets the clock ahead of the real time, or back."""
        if self.clock is not None:
            self.clock.leap(seconds)

    def restart(self) -> None:
        self.child = self.spawn()

    def is_up(self) -> bool:
        try:
            return bool(self.ask("PING") == "PONG")
        except (OSError, RuntimeError):
            return False

    def kill(self) -> None:
        self.child.kill()
        self.child.wait()

    def freeze(self) -> None:
        self.child.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        self.child.send_signal(signal.SIGCONT)

    def ask(self, *words: object, login: Sequence[str] = ()) -> Any:
        """Sends one command; returns the reply."""
        return ask_redis(self.port, *words, login=login)


def ask_redis(port: int, *words: object, login: Sequence[str] = ()) -> Any:
    """Sends one command to a Redis or a Sentinel, after a login with a name and a password; returns the reply."""
    with socket.create_connection(("127.0.0.1", port), timeout=20) as stream:
        replies = stream.makefile("rb")
        reply = None
        for command in [["AUTH", *login], words] if login else [words]:
            texts = [word if isinstance(word, bytes) else str(word).encode() for word in command]
            arguments = b"".join(b"$%d\r\n%s\r\n" % (len(text), text) for text in texts)
            stream.sendall(b"*%d\r\n" % len(texts) + arguments)
            reply = read_reply(replies)
        return reply


def words_to_read_head(root: str, field: str) -> tuple[object, ...]:
    """Returns the command that reads a number of the head of a store; see `number_of_head`."""
    place = 8 * HEAD.index(field)
    return ("GETRANGE", f"{root}:a", place, place + 7)


def number_of_head(reply: bytes) -> int:
    """Returns a number of the head; 0 where there is none."""
    return int(struct.unpack("<d", reply.ljust(8, b"\0"))[0])


def words_to_write_head(root: str, field: str, number: int) -> tuple[object, ...]:
    """Returns the command that writes a number of the head, as somebody does who can write the store."""
    return ("SETRANGE", f"{root}:a", 8 * HEAD.index(field), struct.pack("<d", number))


def read_reply(stream: IO[bytes]) -> Any:
    """Reads one reply of a Redis."""
    line = stream.readline().decode().rstrip()
    kind, rest = line[:1], line[1:]
    if kind == "*":
        return [read_reply(stream) for _ in range(int(rest))]
    if kind == "$":
        return None if rest == "-1" else stream.read(int(rest) + 2)[:-2]
    if kind in ("-", ""):
        raise RuntimeError(rest or "no reply")
    return rest


@contextmanager
def start_redis(folder: str, *, has_own_clock: bool = False) -> Iterator[Redis]:
    redis = Redis(Path(folder), has_own_clock=has_own_clock)
    try:
        yield redis
    finally:
        redis.kill()


class Proxy:
    """A TCP proxy before the Redis, which can delay, lose or refuse what it carries."""

    def __init__(self, to: int) -> None:
        self.to = to
        self.mode = "well"
        self.open: set[socket.socket] = set()
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=256)
        self.port: int = self.listener.getsockname()[1]
        threading.Thread(target=self.listen, daemon=True).start()

    def listen(self) -> None:
        while True:
            client, _ = self.listener.accept()
            try:
                server = socket.create_connection(("127.0.0.1", self.to))
            except OSError:
                client.close()
                continue
            if self.mode == "refused":
                client.close()
                server.close()
                continue
            self.open |= {client, server}
            threading.Thread(target=self.carry, args=(client, server, False), daemon=True).start()
            threading.Thread(target=self.carry, args=(server, client, True), daemon=True).start()

    def carry(self, source: socket.socket, sink: socket.socket, is_reply: bool) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(65_536):
                if self.mode == "half open" or (self.mode == "mute" and is_reply):
                    continue
                if self.mode == "slow" and is_reply:
                    time.sleep(DEADLINE_SECONDS * 1.5)
                sink.sendall(data)
        for stream in (source, sink):
            self.open.discard(stream)
            cut(stream)

    def set_mode(self, mode: str) -> None:
        self.mode = mode
        if mode == "refused":
            for stream in list(self.open):
                cut(stream)


def cut(stream: socket.socket) -> None:
    """Ends a connection in both directions, also under a thread that reads from it."""
    with contextlib.suppress(OSError):
        stream.shutdown(socket.SHUT_RDWR)
    stream.close()


class Pair:
    """Two gates that share a Redis, each with a folder of its own."""

    def __init__(self, binary: str, upstream: str, folder: str, port: int) -> None:
        def make_gate(node: str) -> KillableGate:
            (Path(folder) / node).mkdir()
            store = f"""
[store]
kind = "redis"
node = "{node}"

[redis]
url = "redis://127.0.0.1:{port}"
timeout_ms = {int(DEADLINE_SECONDS * 1000)}
"""
            return KillableGate(binary, upstream, Path(folder) / node, store)

        self.gates = [make_gate("left"), make_gate("right")]
        for gate in self.gates:
            gate.start()

    def stop(self, report: Report, name: str) -> None:
        codes = [gate.stop() for gate in self.gates]
        report.check_that(f"{name}: both gates stop in order", codes == [0, 0], f"exit codes {codes}")


def check_all(binary: str, report: Report, name: str, redis: Redis, pair: Pair, upstream: str) -> None:
    """Checks the claims, stops the gates, and checks their audit log."""
    check_claims(report, name, redis, read_journal(upstream))
    pair.stop(report, name)
    check_audit(binary, report, name, [gate.audit_folder for gate in pair.gates], read_journal(upstream))


def check_claims(report: Report, name: str, redis: Redis, effects: Mapping[str, int]) -> None:
    """Compares the store with the journal, once no claim is in `sending` (its lease ends that state)."""
    end = time.monotonic() + 30
    claims: dict[str, str] = {}
    while time.monotonic() < end:
        claims = read_claims(redis)
        if "sending" not in claims.values():
            break
        time.sleep(0.5)
    executed = {request_id for request_id, state in claims.items() if state == "executed"}
    wrong = [request_id for request_id in executed if effects.get(request_id) != 1]
    wrong += [
        request_id
        for request_id, count in effects.items()
        if count and claims.get(request_id) not in ("executed", "unknown")
    ]
    shown = ", ".join(f"{request_id}: {claims.get(request_id)}" for request_id in wrong[:3])
    report.check(f"{name}: journal and claims agree", shown)
    report.check_that(f"{name}: no claim remains in `sending`", "sending" not in claims.values(), "some do")


def read_claims(redis: Redis) -> dict[str, str]:
    """Returns the state of every claim in the store, by requestId."""
    prefix, cursor = "sluice:{production}:r:claim:request/", "0"
    states: dict[str, str] = {}
    while True:
        next_cursor, keys = redis.ask("SCAN", cursor, "MATCH", prefix.replace("[", "\\[") + "*", "COUNT", 1000)
        for key in keys:
            # Behind version, time and two expiries, four doubles, come the state and the content.
            stored = redis.ask("GET", key.decode())[32:]
            if stored.startswith(b"w"):
                claim = json.loads(unpacked(stored[1:]))
                states[claim["requestId"]] = state_of(claim["state"])
        cursor = next_cursor.decode()
        if cursor == "0":
            return states


def unpacked(stored: bytes) -> bytes:
    """Returns the text of a value that is not sealed, as `src/adapters/store/packed.rs` reads it."""
    if not stored.startswith(PACKED):
        return stored
    common = zstandard.ZstdCompressionDict(COMMON_TEXT.read_bytes(), dict_type=zstandard.DICT_TYPE_RAWCONTENT)
    return zstandard.ZstdDecompressor(dict_data=common).decompress(stored.removeprefix(PACKED))


def state_of(state: Any) -> str:
    """Returns the word of a state, which is a word, or an object with one member."""
    [word] = [state] if isinstance(state, str) else list(state)
    if word == "done":
        return "executed" if state["done"]["executed"] else "not-executed"
    return str(word)


def run_with_kills(binary: str, report: Report, count: int, kills: int, seed: int) -> None:
    name, chance = "gates killed", random.Random(seed)
    with (
        start_simulator(binary, "--latency-ms", "2") as upstream,
        tempfile.TemporaryDirectory(prefix="sluice-") as folder,
        start_redis(folder) as redis,
    ):
        pair, swaps = Pair(binary, upstream, folder, redis.port), Swaps(count, name)

        def make_killer(gate: KillableGate) -> Callable[[], object]:
            return lambda: kill_repeatedly(gate, swaps, kills, chance)

        jobs: list[Callable[[], object]] = [lambda: call_until_known(pair.gates, swaps, upstream)] * CALLERS
        spent = run_together([*jobs, *map(make_killer, pair.gates)], swaps)
        check_swaps(report, name, pair.gates, swaps, upstream)
        counts = [gate.kills for gate in pair.gates]
        report.check_that(f"{name}: killed {counts} times", min(counts) >= kills, f"{kills} were wanted")
        check_all(binary, report, name, redis, pair, upstream)
        print(f"{name}: {count} swaps in {spent:.0f} s, {counts} kills, {swaps.summary()}")


class Troublemaker:
    """Brings the Redis into one trouble after the other, and watches the gates meanwhile."""

    def __init__(self, redis: Redis, proxy: Proxy, pair: Pair, swaps: Swaps, chance: random.Random) -> None:
        self.redis = redis
        self.proxy = proxy
        self.pair = pair
        self.swaps = swaps
        self.chance = chance
        # Each trouble, and how many seconds the gates took to recover from it.
        self.recoveries: list[tuple[str, float]] = []
        self.is_over = False
        self.reads = 0

    def make_all(self, count: int) -> None:
        try:
            for at in range(count):
                self.make_one(TROUBLES[at % len(TROUBLES)], at)
        finally:
            self.is_over = True
            self.swaps.stop()

    def make_one(self, kind: str, at: int) -> None:
        time.sleep(self.chance.uniform(0.1, 0.6))
        begin, end = {
            "killed": (self.redis.kill, self.redis.restart),
            "frozen": (self.redis.freeze, self.redis.thaw),
        }.get(kind, (lambda: self.proxy.set_mode(kind), lambda: self.proxy.set_mode("well")))
        begin()
        try:
            self.check_refusals(kind, at, time.monotonic() + self.chance.uniform(0.3, 1.5))
        finally:
            end()
        self.await_recovery(kind, at)

    def check_refusals(self, kind: str, at: int, end: float) -> None:
        """Both gates refuse swaps until `end`, at least two each."""
        tries = 0
        while tries < 2 or time.monotonic() < end:
            for gate in self.pair.gates:
                reply = post_swap(gate.port, f"{kind.replace(' ', '-')}-{at}-{tries}-{gate.port}")
                if reply is None or reply.status != 503 or b"STORE_UNAVAILABLE" not in reply.body:
                    self.swaps.faults.append(f"{kind}: a swap got {reply}")
            tries += 1

    def await_recovery(self, kind: str, at: int) -> None:
        begin = time.monotonic()
        for gate in self.pair.gates:
            tries = 0
            while (reply := post_swap(gate.port, f"back-{at}-{gate.port}-{tries}")) is None or (
                reply.outcome != "executed"
            ):
                tries += 1
                if time.monotonic() > begin + 30:
                    self.swaps.faults.append(f"{kind}: swaps do not work again: {reply}")
                    return
                time.sleep(0.02)
        self.recoveries.append((kind, time.monotonic() - begin))

    def read_users(self) -> None:
        """Reads at both gates until all troubles are over; every read must succeed."""
        while not self.is_over:
            for gate in self.pair.gates:
                connection = HTTPConnection("127.0.0.1", gate.port, timeout=30)
                try:
                    connection.request("GET", "/v2/users", headers={"Authorization": TOKEN})
                    if (status := connection.getresponse().status) != 200:
                        self.swaps.faults.append(f"a read got {status}")
                    self.reads += 1
                except (OSError, HTTPException) as error:
                    self.swaps.faults.append(f"a read got no response: {error!r}")
                finally:
                    connection.close()
            time.sleep(0.02)


def run_with_troubles(binary: str, report: Report, troubles: int, seed: int) -> None:
    """Callers make swaps until all troubles are over."""
    name, chance = "Redis in trouble", random.Random(seed)
    with (
        start_simulator(binary, "--latency-ms", "2") as upstream,
        tempfile.TemporaryDirectory(prefix="sluice-") as folder,
        start_redis(folder) as redis,
    ):
        proxy = Proxy(redis.port)
        pair, swaps = Pair(binary, upstream, folder, proxy.port), Swaps(1_000_000, name)
        maker = Troublemaker(redis, proxy, pair, swaps, chance)
        jobs: list[Callable[[], object]] = [lambda: call_until_known(pair.gates, swaps, upstream)] * 8
        spent = run_together([*jobs, lambda: maker.make_all(troubles), maker.read_users], swaps)
        check_swaps(report, name, pair.gates, swaps, upstream)
        longest = swaps.longest_call_seconds
        report.check_that(f"{name}: every call ends in time", longest < CALL_LIMIT_SECONDS, f"one took {longest:.1f} s")
        slow = [f"{kind}: {seconds:.1f} s" for kind, seconds in maker.recoveries if seconds > RECOVERY_LIMIT_SECONDS]
        report.check(f"{name}: swaps work again within {RECOVERY_LIMIT_SECONDS} s", ", ".join(slow))
        check_all(binary, report, name, redis, pair, upstream)
        kinds = {kind: sum(1 for seen, _ in maker.recoveries if seen == kind) for kind in TROUBLES}
        recovery = max((seconds for _, seconds in maker.recoveries), default=0)
        print(f"{name}: {kinds} in {spent:.0f} s, {len(swaps.acknowledged)} swaps, {swaps.summary()}")
        print(f"  {maker.reads} reads, the longest call {longest:.1f} s, the longest recovery {recovery:.1f} s")


class Variant(NamedTuple):
    """The amount of a swap and the token of its caller."""

    amount: str
    token: str


USUAL = Variant("10", TOKEN)


class RaceResult(NamedTuple):
    variant: Variant
    reply: Reply | None


def start_race(pool: ThreadPoolExecutor, pair: Pair, chance: random.Random, at: int) -> list[Future[RaceResult]]:
    """Posts one requestId to both gates; one time in twenty with another body, one time in twenty by another caller."""
    kind = chance.random()
    other = Variant("11", TOKEN) if kind < 0.05 else Variant("10", OTHER_TOKEN) if kind < 0.1 else USUAL
    starts, order = threading.Barrier(2), chance.sample(pair.gates, 2)

    def post_until_settled(gate: KillableGate, variant: Variant) -> RaceResult:
        starts.wait()
        while (reply := post_swap(gate.port, f"race-{at}", *variant)) and reply.status == 409:
            time.sleep(0.02)
        return RaceResult(variant, reply)

    return [pool.submit(post_until_settled, gate, variant) for gate, variant in zip(order, (USUAL, other), strict=True)]


def run_races(binary: str, report: Report, count: int, seed: int) -> None:
    name, chance = "two gates race", random.Random(seed)
    with (
        start_simulator(binary, "--latency-ms", "2") as upstream,
        tempfile.TemporaryDirectory(prefix="sluice-") as folder,
        start_redis(folder) as redis,
    ):
        pair = Pair(binary, upstream, folder, redis.port)
        wrong: list[str] = []
        different = refusals = 0
        begin = time.monotonic()
        with ThreadPoolExecutor(max_workers=CALLERS) as pool:
            races = [start_race(pool, pair, chance, at) for at in range(count)]
            for at, race in enumerate(races):
                results = [result.result() for result in race]
                executed = [result for result in results if result.reply and result.reply.outcome == "executed"]
                won = {result.variant for result in executed}
                bodies = {result.reply.body for result in executed if result.reply}
                refused = [result.variant for result in results if result.reply and result.reply.status == 422]
                variants = {result.variant for result in results}
                different += len(variants) > 1
                refusals += len(refused)
                if len(won) != 1 or len(bodies) != 1 or set(refused) != variants - won:
                    wrong.append(f"{at}: {results}")
        spent = time.monotonic() - begin
        effects = read_journal(upstream)
        not_once = [request_id for request_id, times in effects.items() if times != 1]
        missing = "" if len(effects) == count else f"{len(effects)} did"
        report.check(f"{name}: each happens once", ", ".join(not_once[:3]) or missing)
        report.check(f"{name}: one reply each, and 422 for all others", "; ".join(wrong[:2]))
        check_all(binary, report, name, redis, pair, upstream)
        print(f"{name}: {count} races in {spent:.0f} s, {different} of two variants, {refusals} times 422")


def main() -> int:
    arguments = parse_arguments(__doc__)
    swaps, kills, troubles, races = (10_000, 15, 120, 5_000) if arguments.long else (400, 3, 6, 200)
    print(f"seed {arguments.seed}")
    report = Report()
    run_with_kills(arguments.binary, report, swaps, kills, arguments.seed)
    run_with_troubles(arguments.binary, report, troubles, arguments.seed)
    run_races(arguments.binary, report, races, arguments.seed)
    return report.close()


if __name__ == "__main__":
    sys.exit(main())
