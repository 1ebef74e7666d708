"""Calls a gate in every way that the contract describes, and in many that it does not.

Usage: `python tests/tools/fuzz_contract.py SLUICE [--long]`.

Simulators run behind the gate, and every operation is enabled. In each environment, this posts the examples of the
contract, then the calls that Schemathesis makes from it. Afterwards the gate's log must show, for each operation, a
success, a refusal wherever something can be refused, and no failure.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Mapping
from http.client import HTTPConnection
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

from gate import TOKEN, LogLine, start_gate, start_simulator
from report import Report

ROOT = Path(__file__).resolve().parents[2]
SCHEMAS = ROOT / "schemas"
METHODS = ("get", "put", "post", "delete", "patch")


class Effort(NamedTuple):
    """How many calls Schemathesis makes of each operation, for each seed."""

    examples: int
    seeds: list[int]


# The seeds are fixed, so that a failure can be repeated.
USUAL = {"production": Effort(20, [1]), "sandbox": Effort(30, [2])}
LONG = {"production": Effort(300, [1, 5]), "sandbox": Effort(300, [2, 4])}
# The log's field of the status of an answer.
STATUS = "http.response.status_code"
# A swap keeps its status for the whole run, so that it can be cancelled.
SLOW_MS = "3600000"
EXCLUDED_CHECKS = [
    # The gate accepts any token until issuers are configured.
    "ignored_auth",
    # Upstream refuses more than the contract describes; schemathesis_checks.py checks this for the gate alone.
    "positive_data_acceptance",
]
PATH_STEP = re.compile(r"/([a-z-]+)/\{(\w+)\}")
# A valid requestId in a body's text.
REQUEST_ID = re.compile(rb'("requestId"\s*:\s*)"[A-Za-z0-9._-]{1,128}"')
NUMBERS = count()
# Longer than any identifier may be.
TOO_LONG = "a" * 129


class Operation:
    """An operation of the contract."""

    def __init__(self, path: str, method: str, entry: dict[str, Any]) -> None:
        self.id: str = entry["operationId"]
        self.path = path
        self.method = method.upper()
        self.query = [p["name"] for p in entry["parameters"] if p["in"] == "query"]
        self.has_body = "requestBody" in entry
        # The parameters of the path, each with the collection whose entries it identifies.
        self.identifiers: list[tuple[str, str]] = [(name, collection) for collection, name in PATH_STEP.findall(path)]

    def target(self, known: Mapping[str, str], *, is_broken: bool = False) -> str:
        """Returns the path with known identifiers, or with identifiers that are too long."""
        path = self.path
        for name, collection in self.identifiers:
            path = path.replace(f"{{{name}}}", TOO_LONG if is_broken else known[collection])
        return path

    def examples(self, kind: str) -> list[Path]:
        return sorted((SCHEMAS / "examples" / self.id).glob(f"{kind}-*.json"))


def read_operations() -> list[Operation]:
    paths = json.loads((SCHEMAS / "openapi.json").read_text(encoding="utf-8"))["paths"]
    entries = [(path, method, entry) for path, item in paths.items() for method, entry in item.items()]
    return [Operation(path, method, entry) for path, method, entry in entries if method in METHODS]


class Response(NamedTuple):
    status: int
    # Who responded, the gateway or upstream.
    origin: str | None
    content: Any


def call(address: str, method: str, target: str, body: bytes | None = None) -> Response:
    headers = {"Authorization": TOKEN} | ({"Content-Type": "application/json"} if body is not None else {})
    connection = HTTPConnection(address, timeout=20)
    try:
        connection.request(method, target, body=body, headers=headers)
        response = connection.getresponse()
        text = response.read()
        return Response(response.status, response.getheader("Sluice-Origin"), json.loads(text) if text else None)
    finally:
        connection.close()


def renew_request_id(body: bytes) -> bytes:
    """Returns a body with an unused requestId, so that no earlier call affects this one."""
    return REQUEST_ID.sub(rb'\1"example-%d"' % next(NUMBERS), body, count=1)


def find_identifiers(upstream: str) -> dict[str, str]:
    """Returns one identifier of each collection, all of one user, for paths that should find something."""
    data = call(upstream, "GET", "/simulator/data").content
    known = {kebab_case(name): entries[0]["id"] for name, entries in data.items() if isinstance(entries, list)}
    known["wallets"] = data["offers"][0]["walletId"]
    return known


def kebab_case(name: str) -> str:
    return re.sub("[A-Z]", lambda upper: "-" + upper[0].lower(), name)


def try_examples(
    environment: str, address: str, operations: list[Operation], known: dict[str, str], report: Report
) -> None:
    # Swaps come first: one must exist before it can be cancelled.
    for operation in sorted(operations, key=lambda o: o.id != "createSwap"):
        target = operation.target(known)
        good = []
        for path in operation.examples("good"):
            response = call(address, operation.method, target, renew_request_id(path.read_bytes()))
            place = f"{environment} {path.relative_to(SCHEMAS)}"
            # The contract does not say what a payment is worth; policies ask for it.
            has_no_value = response.status == 403 and "amount" in response.content["error"]["message"]
            is_accepted = response.origin != "gateway" or has_no_value
            report.check_that(place, is_accepted, f"{response.status} from the gate: {response.content}")
            good.append(response)
        for path in operation.examples("bad"):
            response = call(address, operation.method, target, renew_request_id(path.read_bytes()))
            is_refused = response.status == 400 and response.origin == "gateway"
            report.check_that(f"{environment} {path.relative_to(SCHEMAS)}", is_refused, response)
        if not operation.has_body:
            response = call(address, operation.method, target)
            report.check_that(f"{environment} {operation.id}", response.status < 300, response)
        if operation.identifiers:
            target = operation.target(known, is_broken=True)
            response = call(address, operation.method, target, b"{}" if operation.has_body else None)
            report.check_that(f"{environment} {operation.id}, long id", response.status == 400, response)
        if operation.id == "createSwap":
            known["swaps"] = next(r.content["transferDetails"]["id"] for r in good if r.status < 300)


def run_schemathesis(
    address: str, operations: list[Operation], known: dict[str, str], examples: int, seed: int, report: Report
) -> None:
    with tempfile.TemporaryDirectory(prefix="sluice-") as folder:
        config = Path(folder) / "schemathesis.toml"
        config.write_text(schemathesis_config(operations, known), encoding="utf-8")
        done = subprocess.run(
            [
                Path(sys.executable).with_name("schemathesis"),
                *("--config-file", config),
                *("run", SCHEMAS / "openapi.json"),
                *("--url", f"http://{address}"),
                *("--header", f"Authorization: {TOKEN}"),
                *("--phases", "coverage,fuzzing"),
                *("--seed", str(seed)),
                *("--max-examples", str(examples)),
                *("--exclude-checks", ",".join(EXCLUDED_CHECKS)),
                *("--suppress-health-check", "all"),
                *("--generation-database", "none"),
                *("--request-timeout", "20"),
                *("--warnings", "off"),
                "--continue-on-failure",
                "--no-color",
            ],
            cwd=folder,
            env=os.environ | {"PYTHONPATH": str(Path(__file__).parent)},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
    cases = re.search(r"([0-9,]+) generated", done.stdout)
    made = f"seed {seed}: {cases[1] if cases else 'no'} calls"
    print(f"  schemathesis, {made}")
    has_passed = done.returncode == 0 and cases is not None
    if not has_passed:
        print(done.stdout)
    report.check_that(f"schemathesis, {made}", has_passed, f"exit code {done.returncode}")


def schemathesis_config(operations: list[Operation], known: dict[str, str]) -> str:
    """Most identifiers are known to upstream, so that most calls get further than a 404."""
    lines = ['hooks = "schemathesis_checks"']
    for collection, identifier in known.items():
        lines += [f"[dictionaries.{collection}]", f"values = {json.dumps([identifier])}"]
    for operation in operations:
        if operation.identifiers:
            lines += ["[[operations]]", f'include-operation-id = "{operation.id}"', "[operations.parameters]"]
        for name, collection in operation.identifiers:
            lines.append(f'"path.{name}" = {{ dictionary = "{collection}", probability = 0.8 }}')
    return "\n".join(lines)


def check_log(log: list[LogLine], operations: list[Operation], report: Report) -> None:
    """Checks the responses that the gate logged."""
    requests = [line for line in log if line.get("message") == "request"]
    # A caller that goes away before its answer leaves a line without a status.
    answered = [line for line in requests if STATUS in line]
    seen = Counter((r["environment"], r["operation"], r[STATUS] // 100) for r in answered)
    refused = {(r["environment"], r["operation"]) for r in answered if r[STATUS] == 400}
    for environment in ("production", "sandbox"):
        for operation in operations:
            place = f"{environment} {operation.id}"
            report.check_that(f"{place}, 2xx", seen[environment, operation.id, 2] > 0, "never")
            report.check_that(f"{place}, 5xx", seen[environment, operation.id, 5] == 0, "seen")
            if operation.has_body or operation.query or operation.identifiers:
                report.check_that(f"{place}, 400", (environment, operation.id) in refused, "never")
        report.check_that(f"{environment}, 5xx of no operation", seen[environment, "none", 5] == 0, "seen")
    faults = [line for line in log if line.get("level") == "ERROR" or "panicked" in line.get("message", "")]
    report.check_that("the gate's log has no error", not faults, faults[:3])
    print(f"  {len(requests)} requests in the gate's log")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("sluice")
    parser.add_argument("--long", action="store_true")
    arguments = parser.parse_args()
    report = Report()
    operations = read_operations()
    slow = ("--pace-ms", SLOW_MS)
    with (
        start_simulator(arguments.sluice, *slow) as production,
        start_simulator(arguments.sluice, *slow) as sandbox,
        start_gate(arguments.sluice, production, sandbox) as gate,
    ):
        upstreams = {"production": production, "sandbox": sandbox}
        for environment, effort in (LONG if arguments.long else USUAL).items():
            print(environment)
            address = gate.addresses[environment]
            known = find_identifiers(upstreams[environment])
            try_examples(environment, address, operations, known, report)
            for seed in effort.seeds:
                run_schemathesis(address, operations, known, effort.examples, seed, report)
    check_log(gate.log, operations, report)
    return report.close()


if __name__ == "__main__":
    sys.exit(main())
