"""Starts Sluice for a tool: a gate or a simulator on free ports. Both stop when their `with` block ends."""

import base64
import hashlib
import hmac
import json
import os
import re
import secrets
import socket
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

LogLine = dict[str, Any]

START_SECONDS = 20
SECRET = "known to the tools and to the gates that they start, nobody else"
# Operations that are off as shipped.
OFF = ("getOrchestrationAddress", "createTosLink")
ADDRESS = re.compile(r"127\.0\.0\.1:[0-9]+")


def make_token(subject: str = "tools", issuer: str = "https://tools.test", **more: object) -> str:
    """Returns a token of the issuer that the gates of these tools trust, signed with the shared secret."""

    def encode(data: bytes) -> bytes:
        return base64.urlsafe_b64encode(data).rstrip(b"=")

    now = int(time.time())
    claims = {"iss": issuer, "aud": "sluice", "sub": subject, "iat": now, "exp": now + 4 * 3600, **more}
    message = encode(b'{"alg":"HS256"}') + b"." + encode(json.dumps(claims).encode())
    signature = hmac.new(SECRET.encode(), message, hashlib.sha256).digest()
    return (message + b"." + encode(signature)).decode()


TOKEN = f"Bearer {make_token()}"


class RunningGate(NamedTuple):
    """A gate that serves."""

    # By environment, and `probes`.
    addresses: dict[str, str]
    # The gate's log, which grows while the gate runs.
    log: list[LogLine]
    pid: int


@contextmanager
def start_gate(binary: str, production: str, sandbox: str) -> Iterator[RunningGate]:
    """Runs a gate before two upstreams, every operation enabled."""
    with tempfile.TemporaryDirectory(prefix="sluice-") as folder:
        config = write_config(Path(folder), gate_config(production, sandbox))
        create_store(binary, config)
        with run_program([binary, "serve", "--config", config]) as program:
            addresses: dict[str, str] = {}
            log = program.wait_for(lambda line: note_address(line, addresses))
            yield RunningGate(addresses, log, program.child.pid)


@contextmanager
def start_simulator(binary: str, *arguments: str) -> Iterator[str]:
    """Runs a simulator; yields its address."""
    with run_program([binary, "simulate", "--listen", "127.0.0.1:0", *arguments]) as program:
        found: list[str] = []

        def find_address(line: LogLine) -> bool:
            found.extend(ADDRESS.findall(json.dumps(line)))
            return bool(found)

        program.wait_for(find_address)
        yield found[0]


# Allows everything that has a value.
RULES = """
[value]
slippage = "1%"

[[rule]]
id = "everything"
effect = "allow"
when = { op = "*" }

# No value covers the fees of a settlement rule: a rule must name them.
[[rule]]
id = "settlement-rules"
effect = "allow"
when = { op = "createSettlementRule", body = { "/rules" = "present" } }
"""


def write_config(folder: Path, config: str) -> Path:
    """Writes a gate's configuration and policies into a folder; returns the configuration's file."""
    (folder / "policies").mkdir()
    (folder / "policies" / "everything.toml").write_text(RULES, encoding="utf-8")
    file = folder / "sluice.toml"
    file.write_text(config, encoding="utf-8")
    return file


def write_seal_key(file: Path, key: str) -> None:
    """Writes a key that only this user may read."""
    file.touch(mode=0o600)
    file.write_text(key, encoding="utf-8")


def create_store(binary: str, config: Path) -> None:
    """Creates the store of production, which a gate never does; if there is one, this changes nothing."""
    done = subprocess.run([binary, "store", "create", "--config", config], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"the store cannot be created: {done.stderr}")


def gate_config(production: str, sandbox: str) -> str:
    """Returns the configuration of a gate before these upstreams."""
    return f"""
policies = "policies"

[issuer.tools]
issuer = "https://tools.test"
audience = ["sluice"]
environments = ["production", "sandbox"]
algorithms = ["HS256"]
shared_secret = "{SECRET}"

[production]
listen = "127.0.0.1:0"
upstream = "http://{production}"

[sandbox]
listen = "127.0.0.1:0"
upstream = "http://{sandbox}"

[probes]
listen = "127.0.0.1:0"

[catalog]
enable = {json.dumps(OFF)}

[log]
format = "json"
"""


def note_address(line: LogLine, addresses: dict[str, str]) -> bool:
    """Adds the address that a log line names; returns true once all three are known."""
    message = line.get("message", "")
    if message == "listening for callers":
        addresses[line["environment"]] = line["address"]
    elif message == "listening for probes":
        addresses["probes"] = line["address"]
    return len(addresses) == 3


class Program:
    """A child process whose output a thread reads line by line."""

    def __init__(self, child: "subprocess.Popen[str]") -> None:
        self.child = child
        self.log: list[LogLine] = []
        self.is_wanted: Callable[[LogLine], bool] = lambda _: False
        self.ready = threading.Event()
        self.reader = threading.Thread(target=self.read_output, daemon=True)

    def wait_for(self, is_wanted: Callable[[LogLine], bool]) -> list[LogLine]:
        """Starts to read the output, and waits for the first line that is wanted."""
        self.is_wanted = is_wanted
        self.reader.start()
        if not self.ready.wait(START_SECONDS) or self.child.poll() is not None:
            raise RuntimeError(f"`{command_name(self.child)}` did not start: {self.log}")
        return self.log

    def read_output(self) -> None:
        for text in self.child.stdout or ():
            line = parse_log_line(text)
            self.log.append(line)
            if not self.ready.is_set() and self.is_wanted(line):
                self.ready.set()
        self.ready.set()


def parse_log_line(text: str) -> LogLine:
    """Returns a line of the log; a line that is not a JSON object becomes a message."""
    try:
        line = json.loads(text)
    except ValueError:
        line = None
    return line if isinstance(line, dict) else {"message": text.rstrip()}


@contextmanager
def run_program(command: Sequence[str | Path]) -> Iterator[Program]:
    """Runs a program until the block ends; a program that ends before has failed."""
    child = spawn(command)
    program = Program(child)
    try:
        yield program
        if child.poll() is not None:
            raise RuntimeError(f"`{command_name(child)}` ended by itself: {program.log[-5:]}")
    finally:
        child.terminate()
        try:
            child.wait(10)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()
        if program.reader.is_alive():
            program.reader.join(10)


def spawn(command: Sequence[str | Path], more: Mapping[str, str] | None = None) -> "subprocess.Popen[str]":
    """Starts a program whose output and errors come through one pipe, with more variables in its environment."""
    return subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        encoding="utf-8",
        env={**os.environ, **(more or {})},
        # Python ignores the signal of a file that may not grow; so the program gets an error, as from a full disk.
        restore_signals=False,
    )


def command_name(child: "subprocess.Popen[str]") -> str:
    """Returns the subcommand that a child runs, such as `serve`."""
    words = child.args if isinstance(child.args, list) else [child.args]
    return str(words[1] if len(words) > 1 else words[0])


# Ports that were given out: whoever got one may not listen on it yet.
GIVEN_PORTS: set[int] = set()


def free_port() -> int:
    """Returns a port of the loopback address on which nothing listens, and that was not given out before.

    Connections take theirs from above, so that none takes it meanwhile.
    """
    while True:
        port = 10_000 + secrets.randbelow(22_000)
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port))
            if port not in GIVEN_PORTS:
                GIVEN_PORTS.add(port)
                return port


def wait_until(holds: Callable[[], object], seconds: float) -> bool:
    """Returns true once `holds` is true, and false if that takes longer than `seconds`."""
    end = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > end:
            return False
        time.sleep(0.1)
    return True
