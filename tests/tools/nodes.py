"""Two gates on one Redis, while gates are killed and the Redis is in trouble:
`python tests/tools/nodes.py SLUICE [--long] [--seed N]`.

The simulator behind the gates is not idempotent: what reaches it twice happens
twice. Callers repeat at either gate until they know. Three runs: gates killed
at random moments; a Redis that is killed, frozen, refused, half open, slow, or
whose answers are lost; and two gates that race for each requestId, some with
another body or by another caller. Nothing may happen twice; journal, claims and
audit chains agree; every call ends in time; money comes back with the Redis.
Short: 400 swaps, 3 kills a gate, each trouble once, 200 races; long: 10,000, 15,
each 20 times, and 5,000.
"""

import argparse
import json
import os
import random
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPConnection, HTTPException
from pathlib import Path

from gate import TOKEN, simulator, token
from kill import CALLERS, Gate, Swaps, caller, check_audit, check_swaps, free_port, journal, killer, post, together
from report import Report

DEADLINE_SECONDS = 0.5
# A call ends within this: to begin and to settle, each with a second look, upstream between them, and two seconds that
# callers wish to wait.
BOUND_SECONDS = 9
RECOVERY_SECONDS = 2
OTHER = f"Bearer {token('another')}"
# In what trouble the Redis can be; the last four are troubles of the way to it.
TROUBLES = ["killed", "frozen", "slow", "mute", "half open", "refused"]


class Redis:
    """A Redis that keeps all on disk before it answers."""

    def __init__(self, folder):
        self.folder, self.port, self.child = Path(folder), free_port(), None
        self.start()

    def start(self):
        command = ["redis-server", "--port", str(self.port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "yes"]
        command += ["--appendfsync", "always", "--dir", self.folder]
        self.child = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        until = time.monotonic() + 20
        while not self.is_there():
            if time.monotonic() > until or self.child.poll() is not None:
                raise RuntimeError("the Redis did not start")
            time.sleep(0.01)

    def is_there(self):
        try:
            return self.ask("PING") == "PONG"
        except (OSError, RuntimeError):
            return False

    def kill(self):
        self.child.kill()
        self.child.wait()

    def freeze(self):
        self.child.send_signal(signal.SIGSTOP)

    def thaw(self):
        self.child.send_signal(signal.SIGCONT)

    def ask(self, *words):
        with socket.create_connection(("127.0.0.1", self.port), timeout=20) as stream:
            words = [str(word).encode() for word in words]
            stream.sendall(b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(word), word) for word in words))
            return read(stream.makefile("rb"))


def read(stream):
    """One answer of a Redis."""
    line = stream.readline().decode().rstrip()
    kind, rest = line[:1], line[1:]
    if kind == "*":
        return [read(stream) for _ in range(int(rest))]
    if kind == "$":
        return None if rest == "-1" else stream.read(int(rest) + 2)[:-2]
    if kind in ("-", ""):
        raise RuntimeError(rest or "no answer")
    return rest


class Road:
    """The way to the Redis, on which anything can happen to what is said."""

    def __init__(self, to):
        self.to, self.how, self.open = to, "well", set()
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=256)
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self.listen, daemon=True).start()

    def listen(self):
        while True:
            client, _ = self.listener.accept()
            try:
                server = socket.create_connection(("127.0.0.1", self.to))
            except OSError:
                client.close()
                continue
            if self.how == "refused":
                client.close()
                server.close()
                continue
            self.open |= {client, server}
            threading.Thread(target=self.carry, args=(client, server, False), daemon=True).start()
            threading.Thread(target=self.carry, args=(server, client, True), daemon=True).start()

    def carry(self, source, sink, is_answer):
        try:
            while data := source.recv(65_536):
                if self.how == "half open" or (self.how == "mute" and is_answer):
                    continue
                if self.how == "slow" and is_answer:
                    time.sleep(DEADLINE_SECONDS * 1.5)
                sink.sendall(data)
        except OSError:
            pass
        for one in (source, sink):
            self.open.discard(one)
            cut(one)

    def become(self, how):
        self.how = how
        if how == "refused":
            for one in list(self.open):
                cut(one)


def cut(stream):
    try:
        stream.shutdown(socket.SHUT_RDWR)
    except OSError:
        pass
    stream.close()


class Pair:
    """Two gates that share a Redis, each in a folder of its own."""

    def __init__(self, binary, upstream, folder, port):
        def one(node):
            (Path(folder) / node).mkdir()
            more = f"""
[store]
kind = "redis"
node = "{node}"

[redis]
url = "redis://127.0.0.1:{port}"
timeout_ms = {int(DEADLINE_SECONDS * 1000)}
"""
            return Gate(binary, upstream, Path(folder) / node, more)

        self.gates = [one("left"), one("right")]
        for gate in self.gates:
            gate.start()

    def end(self, report, name):
        codes = [gate.end() for gate in self.gates]
        report.check(f"{name}: both end in order", "" if codes == [0, 0] else f"exit codes {codes}")


def check_claims(report, name, redis, effects):
    """The store beside the journal; what was being sent is so no longer than its lease."""
    until, claims = time.monotonic() + 30, {}
    while time.monotonic() < until:
        claims = claims_in(redis)
        if "sending" not in claims.values():
            break
        time.sleep(0.5)
    executed = {k for k, state in claims.items() if state == "executed"}
    wrong = [k for k in executed if effects.get(k) != 1]
    wrong += [k for k, n in effects.items() if n and claims.get(k) not in ("executed", "unknown")]
    report.check(f"{name}: journal and claims agree", ", ".join(f"{k}: {claims.get(k)}" for k in wrong[:3]))
    report.check(f"{name}: nothing is left in sending", "" if "sending" not in claims.values() else "some is")


def claims_in(redis):
    prefix, found, cursor = "sluice:{production}:r:claim:request/", {}, "0"
    while True:
        cursor, keys = redis.ask("SCAN", cursor, "MATCH", prefix.replace("[", "\\[") + "*", "COUNT", 1000)
        for key in keys:
            content = redis.ask("HGET", key.decode(), "c")
            if content:
                claim = json.loads(content)
                found[claim["requestId"]] = claim["state"]
        if (cursor := cursor.decode()) == "0":
            return found


def killed(binary, report, count, kills, seed):
    name, chance = "gates killed", random.Random(seed)
    with simulator(binary, "--latency-ms", "2") as upstream, tempfile.TemporaryDirectory(prefix="sluice-") as folder:
        redis = Redis(folder)
        try:
            pair, swaps = Pair(binary, upstream, folder, redis.port), Swaps(count, name)
            effects_of = lambda request_id: journal(upstream).get(request_id, 0)
            killers = [lambda gate=gate: killer(gate, swaps, kills, chance) for gate in pair.gates]
            spent = together([lambda: caller(pair.gates, swaps, effects_of)] * CALLERS + killers, swaps)
            check_swaps(report, name, pair.gates, swaps, upstream)
            counts = [gate.kills for gate in pair.gates]
            report.check(f"{name}: killed {counts} times", "" if min(counts) >= kills else f"{kills} were wanted")
            check_claims(report, name, redis, journal(upstream))
            pair.end(report, name)
            check_audit(binary, report, name, [gate.audit for gate in pair.gates], journal(upstream))
            print(f"{name}: {count} swaps in {spent:.0f} s, {counts} kills, {swaps.told()}")
        finally:
            redis.kill()


class Trouble:
    """What the Redis goes through, and what is seen of it."""

    def __init__(self, redis, road, pair, swaps, chance):
        self.redis, self.road, self.pair, self.swaps, self.chance = redis, road, pair, swaps, chance
        self.seen, self.longest_recovery, self.is_over, self.reads = [], 0, False, 0

    def all(self, count):
        """One kind after the other, so many in all."""
        try:
            for at in range(count):
                self.one(TROUBLES[at % len(TROUBLES)], at)
        finally:
            self.is_over = True

    def one(self, kind, at):
        time.sleep(self.chance.uniform(0.1, 0.6))
        begin = {"killed": self.redis.kill, "frozen": self.redis.freeze}.get(kind, lambda: self.road.become(kind))
        end = {"killed": self.redis.start, "frozen": self.redis.thaw}.get(kind, lambda: self.road.become("well"))
        begin()
        until = time.monotonic() + self.chance.uniform(0.3, 1.5)
        try:
            tries = 0
            while tries < 2 or time.monotonic() < until:
                for gate in self.pair.gates:
                    told = post(gate.port, f"{kind.replace(' ', '-')}-{at}-{tries}-{gate.port}")
                    if told is None or told[0] != 503 or b"STORE_UNAVAILABLE" not in told[2]:
                        self.swaps.lies.append(f"{kind}: money was told {told}")
                tries += 1
        finally:
            end()
        back = time.monotonic()
        for gate in self.pair.gates:
            tries = 0
            while (told := post(gate.port, f"back-{at}-{gate.port}-{tries}")) is None or told[1] != "executed":
                tries += 1
                if time.monotonic() > back + 30:
                    self.swaps.lies.append(f"{kind}: money does not come back: {told}")
                    return
                time.sleep(0.02)
        recovery = time.monotonic() - back
        self.longest_recovery = max(self.longest_recovery, recovery)
        self.seen.append((kind, recovery))

    def read(self):
        """Reads go on at both gates, whatever the Redis does."""
        while not self.is_over:
            for gate in self.pair.gates:
                connection = HTTPConnection("127.0.0.1", gate.port, timeout=30)
                try:
                    connection.request("GET", "/v2/users", headers={"Authorization": TOKEN})
                    if (status := connection.getresponse().status) != 200:
                        self.swaps.lies.append(f"a read was answered with {status}")
                    self.reads += 1
                except (OSError, HTTPException) as why:
                    self.swaps.lies.append(f"a read was not answered: {why!r}")
                finally:
                    connection.close()
            time.sleep(0.02)


def troubled(binary, report, troubles, seed):
    """Callers go on for as long as there is trouble."""
    name, chance = "Redis in trouble", random.Random(seed)
    with simulator(binary, "--latency-ms", "2") as upstream, tempfile.TemporaryDirectory(prefix="sluice-") as folder:
        redis = Redis(folder)
        try:
            road = Road(redis.port)
            pair, swaps = Pair(binary, upstream, folder, road.port), Swaps(1_000_000, name)
            trouble = Trouble(redis, road, pair, swaps, chance)

            def all_troubles():
                trouble.all(troubles)
                swaps.next = len(swaps.ids)

            effects_of = lambda request_id: journal(upstream).get(request_id, 0)
            work = [lambda: caller(pair.gates, swaps, effects_of)] * 8 + [all_troubles, trouble.read]
            spent = together(work, swaps)
            check_swaps(report, name, pair.gates, swaps, upstream)
            late = "" if swaps.longest < BOUND_SECONDS else f"one took {swaps.longest:.1f} s"
            report.check(f"{name}: every call ends in time", late)
            slow = [f"{kind}: {seconds:.1f} s" for kind, seconds in trouble.seen if seconds > RECOVERY_SECONDS]
            report.check(f"{name}: money comes back within {RECOVERY_SECONDS} s", ", ".join(slow))
            check_claims(report, name, redis, journal(upstream))
            pair.end(report, name)
            check_audit(binary, report, name, [gate.audit for gate in pair.gates], journal(upstream))
            kinds = {kind: sum(1 for seen, _ in trouble.seen if seen == kind) for kind in TROUBLES}
            print(f"{name}: {kinds} in {spent:.0f} s, {len(swaps.acknowledged)} swaps, {swaps.told()}, {trouble.reads} reads,")
            print(f"  the longest call {swaps.longest:.1f} s, the longest way back {trouble.longest_recovery:.1f} s")
        finally:
            redis.kill()


def raced(binary, report, count, seed):
    name, chance = "two gates race", random.Random(seed)
    with simulator(binary, "--latency-ms", "2") as upstream, tempfile.TemporaryDirectory(prefix="sluice-") as folder:
        redis = Redis(folder)
        try:
            pair, wrong, lost = Pair(binary, upstream, folder, redis.port), [], [0, 0]
            begin = time.monotonic()
            with ThreadPoolExecutor(max_workers=CALLERS) as pool:
                def race(at):
                    """The same at both gates; in the twentieth part each another body, or another caller, at one."""
                    kind = chance.random()
                    other = ("11", TOKEN) if kind < 0.05 else ("10", OTHER) if kind < 0.1 else ("10", TOKEN)
                    starts, order = threading.Barrier(2), chance.sample(pair.gates, 2)

                    def one(gate, variant):
                        starts.wait()
                        while (told := post(gate.port, f"race-{at}", *variant)) and told[0] == 409:
                            time.sleep(0.02)
                        return variant, told

                    return at, [pool.submit(one, gate, variant) for gate, variant in zip(order, (("10", TOKEN), other))]

                races = [race(at) for at in range(count)]
                for at, both in races:
                    told = [one.result() for one in both]
                    won = {variant for variant, answer in told if answer and answer[1] == "executed"}
                    answers = {answer[2] for _, answer in told if answer and answer[1] == "executed"}
                    refused = [variant for variant, answer in told if answer and answer[0] == 422]
                    variants = {variant for variant, _ in told}
                    lost[0] += len(variants) > 1
                    lost[1] += len(refused)
                    if len(won) != 1 or len(answers) != 1 or set(refused) != variants - won:
                        wrong.append(f"{at}: {told}")
            spent = time.monotonic() - begin
            effects = journal(upstream)
            not_once = [k for k, n in effects.items() if n != 1]
            report.check(f"{name}: each happens once", ", ".join(not_once[:3]) or ("" if len(effects) == count else f"{len(effects)} did"))
            report.check(f"{name}: one answer each, and 422 for all others", "; ".join(wrong[:2]))
            check_claims(report, name, redis, effects)
            pair.end(report, name)
            check_audit(binary, report, name, [gate.audit for gate in pair.gates], effects)
            print(f"{name}: {count} races in {spent:.0f} s, {lost[0]} of them with another body or caller, {lost[1]} times 422")
        finally:
            redis.kill()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("binary", type=os.path.abspath)
    parser.add_argument("--long", action="store_true")
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    swaps, kills, troubles, races = (10_000, 15, 120, 5_000) if arguments.long else (400, 3, 6, 200)
    print(f"seed {arguments.seed}")
    report = Report()
    killed(arguments.binary, report, swaps, kills, arguments.seed)
    troubled(arguments.binary, report, troubles, arguments.seed)
    raced(arguments.binary, report, races, arguments.seed)
    return report.close()


if __name__ == "__main__":
    sys.exit(main())
