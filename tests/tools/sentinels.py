"""A Redis with replicas and three Sentinels, which a test can split as a network would."""

import subprocess
from pathlib import Path

from gate import free_port, wait_until
from nodes import Proxy, Redis, ask_redis

MASTER = "sluice"
WATCHER = ("watcher", "of-the-sentinels")
GATES = ("gate", "of-the-gates")
QUORUM = 2


class Sentinels:
    """Sentinels log in as one user, and gates as another: so a Redis can be cut off from the Sentinels alone."""

    def __init__(self, folder: Path, replicas: int) -> None:
        self.children: list[subprocess.Popen[bytes]] = []
        self.all: list[Redis] = []
        for at in range(1 + replicas):
            home = folder / f"redis-{at}"
            home.mkdir()
            of = ["--replicaof", f"127.0.0.1 {self.all[0].port}"] if self.all else []
            self.all.append(Redis(home, has_own_clock=True, more=["--repl-diskless-sync-delay", "0", *of]))
        for redis in self.all:
            self.add_users(redis)
        self.ports = [self.start_sentinel(folder / f"sentinel-{at}") for at in range(3)]
        # The gate on the side of the former primary reaches the Sentinels through these.
        self.proxies = [Proxy(port) for port in self.ports]
        if not wait_until(lambda: all(self.knows_all(port, replicas) for port in self.ports), 30):
            raise RuntimeError("the Sentinels do not know of each other")
        self.cut_off: Redis | None = None

    def add_users(self, redis: Redis) -> None:
        for user, password in (WATCHER, GATES):
            redis.ask("ACL", "SETUSER", user, "on", f">{password}", "~*", "&*", "+@all")

    def start_sentinel(self, home: Path) -> int:
        home.mkdir()
        port, (user, password) = free_port(), WATCHER
        lines = [
            f"port {port}",
            "bind 127.0.0.1",
            f"sentinel monitor {MASTER} 127.0.0.1 {self.all[0].port} {QUORUM}",
            f"sentinel down-after-milliseconds {MASTER} 500",
            f"sentinel failover-timeout {MASTER} 3000",
            f"sentinel auth-user {MASTER} {user}",
            f"sentinel auth-pass {MASTER} {password}",
        ]
        file = home / "sentinel.conf"
        file.write_text("\n".join(lines) + "\n", encoding="utf-8")
        self.children.append(subprocess.Popen(["redis-sentinel", file], cwd=home, stdout=subprocess.DEVNULL))
        if not wait_until(lambda: is_up(port), 20):
            raise RuntimeError("a Sentinel did not start")
        return port

    def knows_all(self, port: int, replicas: int) -> bool:
        if not is_up(port):
            return False
        said = [word.decode() for word in ask_redis(port, "SENTINEL", "MASTER", MASTER) or []]
        known = dict(zip(said[::2], said[1::2], strict=False))
        return known.get("num-slaves") == str(replicas) and known.get("num-other-sentinels") == "2"

    def primary(self) -> Redis:
        """Returns the Redis that the first Sentinel names."""
        named = int(ask_redis(self.ports[0], "SENTINEL", "GET-MASTER-ADDR-BY-NAME", MASTER)[1])
        return next(redis for redis in self.all if redis.port == named)

    def config(self, node: str) -> str:
        """Returns the settings of a gate; the left one can be cut off from the Sentinels.

        Every replica has what is paid, so that whatever is promoted lacks nothing.
        """
        ports = [proxy.port for proxy in self.proxies] if node == "left" else self.ports
        addresses = ", ".join(f'"127.0.0.1:{port}"' for port in ports)
        return f"""
[store]
kind = "redis"
node = "{node}"
all_nodes = ["left", "right"]

[redis]
sentinels = [{addresses}]
master = "{MASTER}"
user = "{GATES[0]}"
password = "{GATES[1]}"
durability = "replicated"
replicas = {len(self.all) - 1}
tls = false
timeout_ms = 500
"""

    def split(self) -> None:
        """Cuts the primary and the left gate off from the Sentinels, and not from each other."""
        # Another fault may have killed the former one.
        wait_until(lambda: self.primary().child.poll() is None, 15)
        old = self.primary()
        self.cut_off = old
        for proxy in self.proxies:
            proxy.set_mode("refused")
        old.ask("ACL", "SETUSER", WATCHER[0], "off")
        old.ask("CLIENT", "KILL", "USER", WATCHER[0])
        # Without a login they would be served, too.
        old.ask("ACL", "SETUSER", "default", "off")

    def wait_for_failover(self) -> None:
        """Waits until another Redis is the primary, if one was cut off."""
        wait_until(lambda: self.primary() is not self.cut_off, 15)

    def heal(self) -> None:
        if self.cut_off is not None:
            # Another fault may have killed it.
            self.restart()
            self.cut_off.ask("ACL", "SETUSER", "default", "on", login=GATES)
            self.cut_off.ask("ACL", "SETUSER", WATCHER[0], "on")
        self.cut_off = None
        for proxy in self.proxies:
            proxy.set_mode("well")

    def kill_primary(self) -> None:
        self.primary().kill()

    def restart(self) -> None:
        """Starts what was killed; it keeps its data, and becomes a replica of who took its place."""
        for redis in self.all:
            if redis.child.poll() is not None:
                redis.restart()
                self.add_users(redis)

    def close(self) -> None:
        for child in self.children:
            child.kill()
        for redis in self.all:
            redis.kill()


def is_up(port: int) -> bool:
    try:
        return bool(ask_redis(port, "PING") == "PONG")
    except (OSError, RuntimeError):
        return False
