"""Loses, delays and reorders packets between a gate and its upstream, and checks what comes of the swaps.

Usage: `python tests/tools/packets.py SLUICE [--seed N]`. Needs root, for network namespaces.

Gate and upstream are hosts of their own: two network namespaces, with a wire between them that this program carries,
packet by packet. So a request that the gate gave up can be kept from arriving, and let go when everybody believes that
it is lost. It must never arrive then. An answer that is lost in time and comes later settles its swap.
"""

import argparse
import contextlib
import heapq
import json
import os
import random
import secrets
import select
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from gate import (
    TOKEN,
    LogLine,
    Program,
    create_store,
    gate_config,
    note_address,
    spawn,
    wait_until,
    write_config,
    write_seal_key,
)
from report import Report

GATE_SIDE, UPSTREAM_SIDE = "gate", "upstream"
GATE_ADDRESS, UPSTREAM_ADDRESS = "10.213.7.1", "10.213.7.2"
UPSTREAM_PORT = 8_099
ANSWER_SECONDS = 1.0
UPSTREAM_MAX_SECONDS = 2.0
# Until upstream can act no more: all timeouts below, added up.
QUIET_SECONDS = 0.5 + 2 * (0.5 + 0.5) + 3 * 0.5 + ANSWER_SECONDS + UPSTREAM_MAX_SECONDS
TIMEOUTS = f"""
[timeouts]
commit_ms = 500
connect_ms = 500
tls_handshake_ms = 500
write_ms = 500
answer_ms = {ANSWER_SECONDS * 1_000:.0f}
upstream_max_ms = {UPSTREAM_MAX_SECONDS * 1_000:.0f}
"""
# A production whose upstream is another host keeps its records sealed.
SEALED = """
[store]
seal_key = { file = "seal.key" }
"""
IP_PROTOCOL = 0x0800
TCP = 6


class Wire:
    """Carries packets between two interfaces, and spoils TCP packets as it is told."""

    def __init__(self, interfaces: dict[str, str], seed: int) -> None:
        self.sockets = {side: open_interface(name) for side, name in interfaces.items()}
        self.chance = random.Random(seed)
        # Packets from these sides are lost.
        self.lost_from: set[str] = set()
        # From the first packet on that carries data from these sides, all of their packets are lost.
        self.lost_from_data_of: set[str] = set()
        self.loss_percent = 0
        # Each TCP packet waits for a random time up to this.
        self.most_delay_seconds = 0.0
        # Packets from this side wait for this time.
        self.delay_from: dict[str, float] = {}
        self.lost = 0
        self.is_over = False
        self.waiting: list[tuple[float, int, str, bytes]] = []
        self.thread = threading.Thread(target=self.carry, daemon=True)
        self.thread.start()

    def carry(self) -> None:
        count = 0
        while not self.is_over:
            wait = max(0.0, self.waiting[0][0] - time.monotonic()) if self.waiting else 0.05
            ready, _, _ = select.select(list(self.sockets.values()), [], [], min(wait, 0.05))
            for side, interface in self.sockets.items():
                if interface in ready:
                    frame = interface.recv(65_535)
                    if not self.is_lost(side, frame):
                        count += 1
                        heapq.heappush(self.waiting, (time.monotonic() + self.delay(side, frame), count, side, frame))
            while self.waiting and self.waiting[0][0] <= time.monotonic():
                _, _, side, frame = heapq.heappop(self.waiting)
                other = UPSTREAM_SIDE if side == GATE_SIDE else GATE_SIDE
                with contextlib.suppress(OSError):
                    self.sockets[other].send(frame)

    def is_lost(self, side: str, frame: bytes) -> bool:
        if side in self.lost_from_data_of and carries_data(frame):
            self.lost_from.add(side)
        is_lost = is_tcp(frame) and (side in self.lost_from or self.chance.random() * 100 < self.loss_percent)
        self.lost += is_lost
        return is_lost

    def delay(self, side: str, frame: bytes) -> float:
        if not is_tcp(frame):
            return 0
        return self.delay_from.get(side, 0) + self.chance.random() * self.most_delay_seconds

    def heal(self) -> None:
        self.lost_from, self.lost_from_data_of = set(), set()
        self.loss_percent, self.most_delay_seconds, self.delay_from = 0, 0.0, {}

    def close(self) -> None:
        self.is_over = True
        self.thread.join()
        for interface in self.sockets.values():
            interface.close()


def open_interface(name: str) -> socket.socket:
    """Opens an interface for whole frames."""
    interface = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(0x0003))
    interface.bind((name, 0))
    # Frames that this program sends are not read again.
    packet_ignore_outgoing = 23
    interface.setsockopt(263, packet_ignore_outgoing, 1)
    return interface


def is_tcp(frame: bytes) -> bool:
    return int.from_bytes(frame[12:14]) == IP_PROTOCOL and frame[23] == TCP


def carries_data(frame: bytes) -> bool:
    if not is_tcp(frame):
        return False
    ip_header = (frame[14] & 0x0F) * 4
    tcp_header = (frame[14 + ip_header + 12] >> 4) * 4
    return int.from_bytes(frame[16:18]) > ip_header + tcp_header


def run_command(*words: str) -> None:
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"`{' '.join(words)}` failed: {done.stderr.strip()}; this test needs root and `iproute2`")


@contextmanager
def make_hosts(seed: int) -> Iterator[Wire]:
    """Makes two hosts with one interface each, and the wire between them."""
    tag = f"{os.getpid() % 100_000}"
    namespaces = {side: f"sluice-{side}-{tag}" for side in (GATE_SIDE, UPSTREAM_SIDE)}
    addresses = {GATE_SIDE: GATE_ADDRESS, UPSTREAM_SIDE: UPSTREAM_ADDRESS}
    ends = {GATE_SIDE: f"sg{tag}", UPSTREAM_SIDE: f"su{tag}"}
    try:
        for side, namespace in namespaces.items():
            run_command("ip", "netns", "add", namespace)
            run_command("ip", "link", "add", ends[side], "type", "veth", "peer", "name", "eth0", "netns", namespace)
            run_command("ip", "link", "set", ends[side], "up")
            inside = ("ip", "netns", "exec", namespace)
            run_command(*inside, "ip", "address", "add", f"{addresses[side]}/24", "dev", "eth0")
            run_command(*inside, "ip", "link", "set", "eth0", "up")
            run_command(*inside, "ip", "link", "set", "lo", "up")
            # The kernel leaves checksums and the splitting of packets to hardware, and here there is none.
            run_command(*inside, "ethtool", "-K", "eth0", "tx", "off", "tso", "off", "gso", "off", "gro", "off")
        wire = Wire(ends, seed)
        try:
            yield wire
        finally:
            wire.close()
    finally:
        for side, namespace in namespaces.items():
            subprocess.run(["ip", "link", "delete", ends[side]], capture_output=True, check=False)
            subprocess.run(["ip", "netns", "delete", namespace], capture_output=True, check=False)


class Host:
    """Runs commands in a namespace."""

    def __init__(self, side: str) -> None:
        self.words = ["ip", "netns", "exec", f"sluice-{side}-{os.getpid() % 100_000}"]

    @contextmanager
    def run(self, *command: str) -> Iterator[Program]:
        program = Program(spawn([*self.words, *command]))
        try:
            yield program
        finally:
            program.child.terminate()
            program.child.wait(20)

    def ask(self, *words: str) -> str:
        command = [*self.words, "curl", "-sS", "-m", "20", *words]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        return done.stdout


class Scene:
    """A gate and an upstream with the wire between them."""

    def __init__(self, wire: Wire, address: str, log: list[LogLine]) -> None:
        self.wire = wire
        self.log = log
        self.address = address
        self.gate, self.upstream = Host(GATE_SIDE), Host(UPSTREAM_SIDE)

    def swap(self, request_id: str) -> str:
        """Tries a swap; returns its status and outcome."""
        chain = {"chain": "POLYGON", "currency": "usdt", "amount": "10"}
        wallet = "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed"
        to = {"chain": "POLYGON", "currency": "usdc", "walletAddress": wallet}
        body = json.dumps({"requestId": request_id, "source": chain, "destination": to})
        headers = ["-H", f"Authorization: {TOKEN}", "-H", "Content-Type: application/json"]
        written = "%{http_code} %header{sluice-outcome}"
        url = f"http://{self.address}/v2/wallets/swaps"
        return self.gate.ask(*headers, "-o", "/dev/null", "-w", written, "-d", body, url)

    def effects(self) -> dict[str, int]:
        answer = self.upstream.ask(f"http://{UPSTREAM_ADDRESS}:{UPSTREAM_PORT}/simulator/journal?last=0")
        effects: dict[str, int] = json.loads(answer)["effectsByRequest"]
        return effects

    def received(self) -> int:
        answer = self.upstream.ask(f"http://{UPSTREAM_ADDRESS}:{UPSTREAM_PORT}/simulator/journal?last=1000")
        received: list[Any] = json.loads(answer)["received"]
        return len(received)


@contextmanager
def start_scene(binary: str, seed: int) -> Iterator[Scene]:
    with make_hosts(seed) as wire, tempfile.TemporaryDirectory(prefix="sluice-") as folder:
        gate, upstream = Host(GATE_SIDE), Host(UPSTREAM_SIDE)
        there = f"{UPSTREAM_ADDRESS}:{UPSTREAM_PORT}"
        with upstream.run(binary, "simulate", "--listen", there) as simulator:
            simulator.wait_for(lambda line: there in json.dumps(line))
            first = f'upstream = "http://{there}"'
            text = gate_config(there, "127.0.0.1:9").replace(first, f"{first}\nallow_plain_upstream = true", 1)
            config = write_config(Path(folder), text + TIMEOUTS + SEALED)
            write_seal_key(config.parent / "seal.key", secrets.token_hex(32))
            create_store(binary, config)
            with gate.run(binary, "serve", "--config", str(config)) as program:
                addresses: dict[str, str] = {}
                program.wait_for(lambda line: note_address(line, addresses))
                yield Scene(wire, addresses["production"], program.log)


def give_up(scene: Scene, report: Report) -> None:
    """The request is lost until nobody waits for it any more; then everything passes."""
    name = "a request that was given up"
    report.check_that(f"{name}: the wire works", scene.swap("before") == "201 executed", "it does not")
    # The connection is made; the request and all that follows is lost.
    scene.wire.lost_from_data_of = {GATE_SIDE}
    begin = time.monotonic()
    told = scene.swap("given-up")
    report.check_that(f"{name}: its caller hears that the outcome is unknown", told == "504 unknown", told)
    report.check_that(f"{name}: packets were lost", scene.wire.lost > 0, "none was")
    wait_until(lambda: time.monotonic() - begin > QUIET_SECONDS + 1, 60)
    scene.wire.heal()
    # The kernel would have sent again by now.
    time.sleep(5)
    report.check_that(f"{name}: it never arrives", "given-up" not in scene.effects(), scene.effects())
    told = scene.swap("given-up")
    report.check_that(f"{name}: it is not sent again", told == "409 unknown", told)


def lose_answer(scene: Scene, report: Report) -> None:
    """The answer is lost at first, and comes before the quiet time is over."""
    name = "an answer that was lost"
    scene.wire.lost_from_data_of = {UPSTREAM_SIDE}
    told = scene.swap("answer-lost")
    report.check_that(f"{name}: its caller hears that the outcome is unknown", told.endswith(" unknown"), told)
    scene.wire.heal()
    settled = wait_until(lambda: scene.swap("answer-lost") in ("201 executed", "409 unknown"), 10)
    report.check_that(f"{name}: it is executed or unknown, never refused", settled, scene.swap("answer-lost"))
    effects = scene.effects().get("answer-lost", 0)
    report.check_that(f"{name}: at most one effect", effects <= 1, effects)


def delay(scene: Scene, report: Report) -> None:
    """Packets are reordered and late, within the deadline and beyond it."""
    scene.wire.most_delay_seconds = 0.05
    told = scene.swap("reordered")
    report.check_that("packets out of order: the swap is executed", told == "201 executed", told)
    scene.wire.heal()
    scene.wire.delay_from = {UPSTREAM_SIDE: 0.3}
    told = scene.swap("slow")
    report.check_that("packets that are late: the swap is executed", told == "201 executed", told)
    # Upstream acknowledges in time, and answers after the deadline.
    scene.wire.heal()
    fault = json.dumps({"operation": "createSwap", "kind": "delay", "ms": int(ANSWER_SECONDS * 1_900), "times": 1})
    scene.upstream.ask("-d", fault, f"http://{UPSTREAM_ADDRESS}:{UPSTREAM_PORT}/simulator/faults")
    scene.wire.delay_from = {UPSTREAM_SIDE: 0.2}
    told = scene.swap("late")
    report.check_that("an answer after the deadline: unknown at first", told == "504 unknown", told)
    is_heard = wait_until(lambda: scene.swap("late") == "201 executed", 15)
    if not is_heard:
        print("\n".join(json.dumps(line) for line in scene.log if line.get("message") != "request"))
    report.check_that("an answer after the deadline: it is heard", is_heard, scene.swap("late"))
    scene.wire.heal()
    effects = scene.effects()
    twice = {request_id: count for request_id, count in effects.items() if count != 1}
    report.check_that("late packets: one effect each", not twice, twice)


def lose_many(scene: Scene, report: Report) -> None:
    """A third of all packets is lost."""
    scene.wire.loss_percent = 30
    ids = [f"lossy-{number}" for number in range(12)]
    told = {request_id: scene.swap(request_id) for request_id in ids}
    scene.wire.heal()
    effects = scene.effects()
    twice = [request_id for request_id in ids if effects.get(request_id, 0) > 1]
    report.check("a lossy wire: nothing happens twice", ", ".join(twice))
    lied = [request_id for request_id in ids if "not-executed" in told[request_id] and request_id in effects]
    report.check("a lossy wire: no executed swap is told `not-executed`", ", ".join(lied))
    unmade = [request_id for request_id in ids if told[request_id].endswith(" executed") and request_id not in effects]
    report.check("a lossy wire: every acknowledged swap took effect", ", ".join(unmade))
    print(f"lossy: {scene.wire.lost} packets lost in all, {sorted(set(told.values()))}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("binary", type=os.path.abspath)
    parser.add_argument("--long", action="store_true", help="the same")
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    print(f"seed {arguments.seed}")
    report = Report()
    with start_scene(arguments.binary, arguments.seed) as scene:
        for scenario in (give_up, lose_answer, delay, lose_many):
            scenario(scene, report)
    return report.close()


if __name__ == "__main__":
    sys.exit(main())
