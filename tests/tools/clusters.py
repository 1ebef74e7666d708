"""Runs two gates on a Redis Cluster of six nodes, while its slots move and its primaries are killed.

Usage: `python tests/tools/clusters.py SLUICE [--long] [--seed N]`.

The simulator behind the gates is not idempotent. Callers repeat their swaps at either gate until they know the outcome.
Meanwhile the slot of production moves to another shard, its primary is killed and comes back as a replica, or a gate is
killed. Nothing may happen twice, nothing that is executed is told to be not executed, and the audit log agrees. A limit
has room for exactly these swaps: none is denied, and one more is. Short: 1,500 swaps, each trouble once; long: 10,000
swaps, 12 troubles.
"""

import random
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from gate import free_port, start_simulator, wait_until
from nodes import Redis
from report import Report, parse_arguments
from swaps import (
    CALLERS,
    KillableGate,
    Swaps,
    call_until_known,
    check_audit,
    check_swaps,
    post_swap,
    read_journal,
    run_together,
)

RANGES = [(0, 5460), (5461, 10922), (10923, 16383)]
# The slot of `{production}`.
SLOT = 15882
KEYS_AT_ONCE = 20
PAUSE_SECONDS = 0.4
LIMIT = """
[[limit]]
id = "all"
ops = ["createSwap"]
window = "rolling 24h"
per = ["environment"]
max = "{count} calls"
over = "deny"
"""
TROUBLES = ["slot moved", "primary killed", "gate killed"]


class Node:
    """A line of `CLUSTER NODES`."""

    def __init__(self, line: str) -> None:
        words = line.split(" ")
        self.id, self.flags = words[0], words[2].split(",")
        self.port = int(words[1].split("@")[0].rsplit(":", 1)[1])
        self.ranges = [[int(end) for end in word.split("-")] for word in words[8:] if not word.startswith("[")]

    def is_primary(self) -> bool:
        return "master" in self.flags and "fail" not in self.flags and bool(self.ranges)

    def has(self, slot: int) -> bool:
        return any(some[0] <= slot <= some[-1] for some in self.ranges)


class Cluster:
    """Three primaries, each with a replica."""

    def __init__(self, folder: Path) -> None:
        self.all = [self.start_node(folder / f"redis-{at}") for at in range(6)]
        for at, redis in enumerate(self.all):
            redis.ask("CLUSTER", "SET-CONFIG-EPOCH", at + 1)
        for redis in self.all[1:]:
            bus = redis.ask("CONFIG", "GET", "cluster-port")[1].decode()
            self.all[0].ask("CLUSTER", "MEET", "127.0.0.1", redis.port, bus)
        self.wait("the nodes to meet", lambda: all(len(self.nodes(redis)) == 6 for redis in self.all))
        for redis, (first, last) in zip(self.all, RANGES, strict=False):
            redis.ask("CLUSTER", "ADDSLOTSRANGE", first, last)
        for replica, primary in zip(self.all[3:], self.all, strict=False):
            self.wait("a replica", lambda r=replica, p=primary: self.is_replica(r, p))  # type: ignore[misc]
        self.wait_until_whole()

    @staticmethod
    def start_node(home: Path) -> Redis:
        home.mkdir()
        more = ["--cluster-enabled", "yes", "--cluster-node-timeout", "1000", "--cluster-port", str(free_port())]
        return Redis(home, more=[*more, "--repl-diskless-sync-delay", "0"])

    @staticmethod
    def is_replica(replica: Redis, primary: Redis) -> bool:
        try:
            return bool(replica.ask("CLUSTER", "REPLICATE", primary.ask("CLUSTER", "MYID").decode()) == "OK")
        except RuntimeError:
            return False

    @staticmethod
    def nodes(redis: Redis) -> list[Node]:
        return [Node(line) for line in redis.ask("CLUSTER", "NODES").decode().splitlines()]

    @staticmethod
    def wait(what: str, is_so: Callable[[], bool]) -> None:
        if not wait_until(is_so, 60):
            raise RuntimeError(f"waited in vain for {what}")

    def wait_until_whole(self) -> None:
        def is_whole(redis: Redis) -> bool:
            linked = b"master_link_status:down" not in redis.ask("INFO", "replication")
            return linked and b"cluster_state:ok" in redis.ask("CLUSTER", "INFO")

        self.wait("the cluster to be whole", lambda: all(map(is_whole, self.all)))
        self.wait("one owner in all views", lambda: len({self.owner(redis).port for redis in self.all}) == 1)

    def owner(self, redis: Redis) -> Redis:
        port = next(node.port for node in self.nodes(redis) if node.has(SLOT))
        return next(one for one in self.all if one.port == port)

    def settings(self, node: str) -> str:
        addresses = ", ".join(f'"127.0.0.1:{redis.port}"' for redis in self.all)
        return f"""
[store]
kind = "redis"
node = "{node}"

[redis]
cluster = [{addresses}]
tls = false
durability = "replicated"
fence_ms = 4000
timeout_ms = 500
"""

    def reshard(self, chance: random.Random) -> None:
        """Moves the slot of production to another primary."""
        source = self.owner(self.all[0])
        primaries = {node.port for node in self.nodes(source) if node.is_primary()}
        target = chance.choice([redis for redis in self.all if redis.port in primaries and redis is not source])
        source_id, target_id = (redis.ask("CLUSTER", "MYID").decode() for redis in (source, target))
        target.ask("CLUSTER", "SETSLOT", SLOT, "IMPORTING", source_id)
        source.ask("CLUSTER", "SETSLOT", SLOT, "MIGRATING", target_id)
        while keys := source.ask("CLUSTER", "GETKEYSINSLOT", SLOT, KEYS_AT_ONCE):
            words = [key.decode() for key in keys]
            source.ask("MIGRATE", "127.0.0.1", target.port, "", 0, 5000, "KEYS", *words)
        for redis in (target, source):
            redis.ask("CLUSTER", "SETSLOT", SLOT, "NODE", target_id)
        self.wait_until_whole()

    def fail_over(self) -> None:
        """Kills the primary of production; it comes back as a replica."""
        former = self.owner(self.all[0])
        other = next(redis for redis in self.all if redis is not former)
        former.kill()
        self.wait("the failover", lambda: self.owner(other) is not former)
        former.restart()
        self.wait_until_whole()

    def kill(self) -> None:
        for redis in self.all:
            redis.kill()


@contextmanager
def start_cluster(folder: str) -> Iterator[Cluster]:
    cluster = Cluster(Path(folder))
    try:
        yield cluster
    finally:
        cluster.kill()


def make_troubles(cluster: Cluster, gates: list[KillableGate], swaps: Swaps, count: int, chance: random.Random) -> None:
    kinds = (TROUBLES * (count // len(TROUBLES) + 1))[:count]
    chance.shuffle(kinds)
    for kind in kinds:
        time.sleep(chance.uniform(0.5, 2))
        begin, left = time.monotonic(), swaps.left()
        if kind == "slot moved":
            cluster.reshard(chance)
        elif kind == "primary killed":
            cluster.fail_over()
        else:
            gate = chance.choice(gates)
            gate.kill()
            gate.start()
        over = time.monotonic()
        # The next one begins when money has moved again.
        wanted = min(50, swaps.left())
        left = swaps.left()
        cluster.wait("money to move", lambda: swaps.left() == 0 or left - swaps.left() >= wanted)  # noqa: B023
        print(f"  {kind}: over after {over - begin:.1f} s, money moves after {time.monotonic() - over:.1f} s more")


def run(binary: str, report: Report, count: int, troubles: int, seed: int) -> None:
    name, chance = "cluster", random.Random(seed)
    with (
        start_simulator(binary, "--latency-ms", "2") as upstream,
        tempfile.TemporaryDirectory(prefix="sluice-") as folder,
        start_cluster(folder) as cluster,
    ):
        gates = []
        for node in ("left", "right"):
            home = Path(folder) / node
            home.mkdir()
            gates.append(KillableGate(binary, upstream, home, cluster.settings(node)))
            (home / "policies" / "limit.toml").write_text(LIMIT.format(count=count), encoding="utf-8")
        for gate in gates:
            gate.start()
        swaps = Swaps(count, name)

        def pause() -> None:
            # The swaps must last for as long as the troubles.
            time.sleep(random.uniform(0, 2 * PAUSE_SECONDS))

        jobs: list[Callable[[], object]] = [lambda: call_until_known(gates, swaps, upstream, pause)] * CALLERS
        spent = run_together([*jobs, lambda: make_troubles(cluster, gates, swaps, troubles, chance)], swaps)
        check_swaps(report, name, gates, swaps, upstream)
        beyond = [post_swap(gate.port, f"beyond-{gate.port}") for gate in gates]
        is_full = all(reply is not None and b"LIMIT_EXCEEDED" in reply.body for reply in beyond)
        report.check_that(f"{name}: the limit is exact", is_full, beyond)
        codes = [gate.stop() for gate in gates]
        report.check_that(f"{name}: both gates stop in order", codes == [0, 0], f"exit codes {codes}")
        check_audit(binary, report, name, [gate.audit_folder for gate in gates], read_journal(upstream))
        print(f"{name}: {count} swaps in {spent:.0f} s, {troubles} troubles, {swaps.summary()}")


def main() -> int:
    arguments = parse_arguments(__doc__)
    swaps, troubles = (10_000, 12) if arguments.long else (1_500, 3)
    print(f"seed {arguments.seed}")
    report = Report()
    run(arguments.binary, report, swaps, troubles, arguments.seed)
    return report.close()


if __name__ == "__main__":
    sys.exit(main())
