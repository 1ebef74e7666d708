"""What tools share whose gates have a console: settings, the state of money, and people who open it."""

import itertools
import os
import subprocess
from collections.abc import Sequence
from http.client import HTTPConnection, HTTPException

from gate import SECRET, make_token
from swaps import KillableGate

PEOPLE = "https://people.test"
# Why people may have to open money, as `/readyz/money` names it, and the option that opens it. A gate without others is
# called `gate`.
SCOPES = {"restored": "restored", "clock": "clock", "gate-clock": "gate-clock=gate"}


def people_config(console_port: int) -> str:
    """Returns the settings of a console, and of the issuer of those who use it."""
    return f"""
[issuer.people]
issuer = "{PEOPLE}"
audience = ["sluice"]
environments = []
algorithms = ["HS256"]
shared_secret = "{SECRET}"
roles = "roles"

[console]
listen = "127.0.0.1:{console_port}"
issuer = "people"
"""


def quick_config(upstream_max_ms: int = 1_000) -> str:
    """Returns the times of a gate whose doubts are settled soon; it follows the section of timeouts."""
    return f"""
commit_ms = 500
upstream_max_ms = {upstream_max_ms}

[reconcile]
first_look_ms = 200
"""


def redis_config(node: str, redis_port: int, all_nodes: Sequence[str] = ()) -> str:
    """Returns the settings of a gate whose store is a Redis."""
    names = ", ".join(f'"{name}"' for name in all_nodes)
    listed = f"all_nodes = [{names}]" if all_nodes else ""
    return f"""
[store]
kind = "redis"
node = "{node}"
{listed}

[redis]
url = "redis://127.0.0.1:{redis_port}"
timeout_ms = 500
"""


def read_readiness(gate: KillableGate) -> str:
    """Returns whether money could move at a gate, with the reasons why not."""
    connection = HTTPConnection(gate.addresses.get("probes", "127.0.0.1:9"), timeout=10)
    try:
        connection.request("GET", "/readyz/money")
        response = connection.getresponse()
        return f"{response.status} {response.read().decode()}"
    except (OSError, HTTPException) as error:
        return f"no answer: {error!r}"
    finally:
        connection.close()


def scope_to_open(readiness: str) -> str | None:
    """Returns what people have to open, if anything."""
    return next((option for scope, option in SCOPES.items() if f'"{scope}"' in readiness), None)


def open_money(binary: str, console_port: int, scope: str, environments: Sequence[str] = ("production",)) -> str:
    """Opens money as two people do who found out what is missing; returns what the commands said."""
    command = [binary, "unfreeze", f"--{scope}", "--console", f"http://127.0.0.1:{console_port}"]
    said = ""
    for environment, person in itertools.product(environments, ("ops-1", "ops-2")):
        done = subprocess.run(
            [*command, "--environment", environment, "--reason", "all was found out"],
            capture_output=True,
            text=True,
            check=False,
            env={**os.environ, "SLUICE_TOKEN": make_token(person, PEOPLE, roles=["operator"])},
        )
        said += done.stdout + done.stderr
    return said
