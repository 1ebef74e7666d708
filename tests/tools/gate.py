"""Starts Sluice for a tool: a gate, or a simulator, on free ports; both end with the `with` block."""

import base64
import hashlib
import hmac
import json
import re
import subprocess
import tempfile
import threading
import time
from contextlib import contextmanager
from pathlib import Path

START_SECONDS = 20
SECRET = "known to the tools and to the gates that they start, nobody else"
# Operations that are off as shipped.
OFF = ("getOrchestrationAddress", "createTosLink")
ADDRESS = re.compile(r"127\.0\.0\.1:[0-9]+")


def token(subject="tools", issuer="https://tools.test", **more):
    """A token of the issuer that the gates of these tools trust, signed with a secret that both know."""

    def encoded(data):
        return base64.urlsafe_b64encode(data).rstrip(b"=")

    now = int(time.time())
    claims = {"iss": issuer, "aud": "sluice", "sub": subject, "iat": now, "exp": now + 4 * 3600, **more}
    message = encoded(b'{"alg":"HS256"}') + b"." + encoded(json.dumps(claims).encode())
    signature = hmac.new(SECRET.encode(), message, hashlib.sha256).digest()
    return (message + b"." + encoded(signature)).decode()


TOKEN = f"Bearer {token()}"


class Gate:
    def __init__(self, addresses, lines, process):
        # By environment, and `probes`.
        self.addresses = addresses
        # Its log, which grows while it runs.
        self.lines = lines
        # Its number.
        self.process = process


@contextmanager
def gate(binary, production, sandbox):
    """A gate before two upstreams, every operation enabled."""
    with tempfile.TemporaryDirectory(prefix="sluice-") as folder:
        config = write(Path(folder), configuration(production, sandbox))
        with running([binary, "serve", "--config", config]) as process:
            addresses = {}
            lines = process.until(lambda line: listens(line, addresses))
            yield Gate(addresses, lines, process.child.pid)


@contextmanager
def simulator(binary, *arguments):
    """The address of a simulator."""
    with running([binary, "simulate", "--listen", "127.0.0.1:0", *arguments]) as process:
        found = []

        def told(line):
            found.extend(ADDRESS.findall(json.dumps(line)))
            return bool(found)

        process.until(told)
        yield found[0]


# Everything passes that has a value.
RULES = """
[value]
slippage = "1%"

[[rule]]
id = "everything"
effect = "allow"
when = { op = "*" }
"""


def write(folder, text):
    """The configuration of a gate and its policies, in a folder of its own; the file of the configuration."""
    (folder / "policies").mkdir()
    (folder / "policies" / "everything.toml").write_text(RULES, encoding="utf-8")
    config = folder / "sluice.toml"
    config.write_text(text, encoding="utf-8")
    return config


def configuration(production, sandbox):
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


def listens(line, addresses):
    """Notes an address that the log tells; true once all are known."""
    message = line.get("message", "")
    if message == "listening for callers":
        addresses[line["environment"]] = line["address"]
    elif message == "listening for probes":
        addresses["probes"] = line["address"]
    return len(addresses) == 3


class Process:
    def __init__(self, child):
        self.child = child
        self.lines = []
        self.wanted = lambda line: False
        self.ready = threading.Event()
        self.reader = threading.Thread(target=self.read, daemon=True)

    def until(self, wanted):
        """Reads the output on; waits for the line that satisfies `wanted`."""
        self.wanted = wanted
        self.reader.start()
        if not self.ready.wait(START_SECONDS) or self.child.poll() is not None:
            raise RuntimeError(f"`{self.child.args[1]}` did not start: {self.lines}")
        return self.lines

    def read(self):
        for text in self.child.stdout:
            line = read_line(text)
            self.lines.append(line)
            if not self.ready.is_set() and self.wanted(line):
                self.ready.set()
        self.ready.set()


def read_line(text):
    """A line of the log; one that is not JSON is taken as a message."""
    try:
        line = json.loads(text)
    except ValueError:
        line = None
    return line if isinstance(line, dict) else {"message": text.rstrip()}


@contextmanager
def running(command):
    child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, encoding="utf-8")
    process = Process(child)
    try:
        yield process
        if child.poll() is not None:
            raise RuntimeError(f"`{child.args[1]}` ended by itself: {process.lines[-5:]}")
    finally:
        child.terminate()
        try:
            child.wait(10)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()
        if process.reader.is_alive():
            process.reader.join(10)
