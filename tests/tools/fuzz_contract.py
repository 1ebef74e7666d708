"""Calls a gate in every way that the contract describes, and in many that it does not:
`python tests/tools/fuzz_contract.py SLUICE [--long]`.

Simulators behind, a gate before them, every operation enabled. In each
environment: first the examples of the contract, then what Schemathesis makes
of it. Then the gate's own log must tell, for each operation, a success, a
refusal wherever there is something to refuse, and no failure.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from collections import Counter
from http.client import HTTPConnection
from itertools import count
from pathlib import Path

from gate import TOKEN, gate, simulator
from report import Report

ROOT = Path(__file__).resolve().parents[2]
SCHEMAS = ROOT / "schemas"
METHODS = ("get", "put", "post", "delete", "patch")
# Seeds and calls per operation. Fixed, so that a failure comes again.
USUAL = {"production": (20, [1]), "sandbox": (30, [2])}
LONG = {"production": (300, [1, 5]), "sandbox": (300, [2, 4])}
# Statuses of a swap stay as they are for the whole run, so that it can be cancelled.
SLOW_MS = "3600000"
CHECKS_LEFT_OUT = [
    # The gate takes any token until issuers are configured.
    "ignored_auth",
    # Upstream refuses more than the contract shows; a check of our own asks this of the gate alone.
    "positive_data_acceptance",
]
PATH_STEP = re.compile(r"/([a-z-]+)/\{(\w+)\}")
# A requestId that may be used, in a body as it is written.
REQUEST_ID = re.compile(rb'("requestId"\s*:\s*)"[A-Za-z0-9._-]{1,128}"')
NUMBERS = count()
# An identifier that is too long wherever it stands.
TOO_LONG = "a" * 129


class Operation:
    def __init__(self, path, method, entry):
        self.id = entry["operationId"]
        self.path = path
        self.method = method.upper()
        self.query = [p["name"] for p in entry["parameters"] if p["in"] == "query"]
        self.has_body = "requestBody" in entry
        # Parameters of the path, with the collection that each is an identifier in.
        self.identifiers = [(name, collection) for collection, name in PATH_STEP.findall(path)]

    def target(self, known, broken=False):
        path = self.path
        for name, collection in self.identifiers:
            path = path.replace(f"{{{name}}}", TOO_LONG if broken else known[collection])
        return path

    def examples(self, kind):
        return sorted((SCHEMAS / "examples" / self.id).glob(f"{kind}-*.json"))


def operations():
    paths = json.loads((SCHEMAS / "openapi.json").read_text(encoding="utf-8"))["paths"]
    entries = [(path, method, entry) for path, item in paths.items() for method, entry in item.items()]
    return [Operation(path, method, entry) for path, method, entry in entries if method in METHODS]


def call(address, method, target, body=None):
    headers = {"Authorization": TOKEN} | ({"Content-Type": "application/json"} if body is not None else {})
    connection = HTTPConnection(address, timeout=20)
    try:
        connection.request(method, target, body=body, headers=headers)
        answer = connection.getresponse()
        text = answer.read()
        return answer.status, answer.getheader("Sluice-Origin"), json.loads(text) if text else None
    finally:
        connection.close()


def fresh(body):
    """A body with a requestId that was not used: what it meets has to do with nothing but itself."""
    return REQUEST_ID.sub(rb'\1"example-%d"' % next(NUMBERS), body, count=1)


def known_identifiers(upstream):
    """One identifier of each collection, all of one user, for paths that should find something."""
    _, _, data = call(upstream, "GET", "/simulator/data")
    known = {kebab(name): entries[0]["id"] for name, entries in data.items() if isinstance(entries, list)}
    known["wallets"] = data["offers"][0]["walletId"]
    return known


def kebab(name):
    return re.sub("[A-Z]", lambda upper: "-" + upper[0].lower(), name)


def try_examples(environment, address, every, known, report):
    # Swaps come first: one has to be there before it can be cancelled.
    for operation in sorted(every, key=lambda o: o.id != "createSwap"):
        target = operation.target(known)
        answered = []
        for path in operation.examples("good"):
            status, origin, answer = call(address, operation.method, target, fresh(path.read_bytes()))
            place = f"{environment} {path.relative_to(SCHEMAS)}"
            # The contract leaves open what a payment is worth; rules do not.
            has_no_value = status == 403 and "amount" in answer["error"]["message"]
            report.check(place, f"{status} of the gate: {answer}" if origin == "gateway" and not has_no_value else "")
            answered.append((status, answer))
        for path in operation.examples("bad"):
            status, origin, answer = call(address, operation.method, target, fresh(path.read_bytes()))
            refused = status == 400 and origin == "gateway"
            report.check(f"{environment} {path.relative_to(SCHEMAS)}", "" if refused else f"{status}: {answer}")
        if not operation.has_body:
            status, _, answer = call(address, operation.method, target)
            report.check(f"{environment} {operation.id}", "" if status < 300 else f"{status}: {answer}")
        if operation.identifiers:
            broken = operation.target(known, broken=True)
            status, _, answer = call(address, operation.method, broken, b"{}" if operation.has_body else None)
            report.check(f"{environment} {operation.id}, long id", "" if status == 400 else f"{status}: {answer}")
        if operation.id == "createSwap":
            known["swaps"] = next(a["transferDetails"]["id"] for status, a in answered if status < 300)


def schemathesis(address, every, known, examples, seed, report):
    with tempfile.TemporaryDirectory(prefix="sluice-") as folder:
        config = Path(folder) / "schemathesis.toml"
        config.write_text(configuration(every, known), encoding="utf-8")
        ran = subprocess.run(
            [
                Path(sys.executable).with_name("schemathesis"),
                *("--config-file", config),
                *("run", SCHEMAS / "openapi.json"),
                *("--url", f"http://{address}"),
                *("--header", f"Authorization: {TOKEN}"),
                *("--phases", "coverage,fuzzing"),
                *("--seed", str(seed)),
                *("--max-examples", str(examples)),
                *("--exclude-checks", ",".join(CHECKS_LEFT_OUT)),
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
    cases = re.search(r"([0-9,]+) generated", ran.stdout)
    made = f"seed {seed}: {cases[1] if cases else 'no'} calls"
    print(f"  schemathesis, {made}")
    if ran.returncode or not cases:
        print(ran.stdout)
    report.check(f"schemathesis, {made}", f"exit code {ran.returncode}" if ran.returncode or not cases else "")


def configuration(every, known):
    """Mostly identifiers that upstream knows, so that calls come further than a 404."""
    lines = ['hooks = "schemathesis_checks"']
    for collection, identifier in known.items():
        lines += [f"[dictionaries.{collection}]", f"values = {json.dumps([identifier])}"]
    for operation in every:
        if operation.identifiers:
            lines += ["[[operations]]", f'include-operation-id = "{operation.id}"', "[operations.parameters]"]
        for name, collection in operation.identifiers:
            lines.append(f'"path.{name}" = {{ dictionary = "{collection}", probability = 0.8 }}')
    return "\n".join(lines)


def check_log(lines, every, report):
    """What the gate itself says that it answered."""
    requests = [line for line in lines if line.get("message") == "request"]
    seen = Counter((r["environment"], r["operation"], r["status"][0]) for r in requests)
    refused = {(r["environment"], r["operation"]) for r in requests if r["status"] == "400"}
    for environment in ("production", "sandbox"):
        for operation in every:
            place = f"{environment} {operation.id}"
            report.check(f"{place}, 2xx", "" if seen[environment, operation.id, "2"] else "never")
            report.check(f"{place}, 5xx", "" if not seen[environment, operation.id, "5"] else "seen")
            if operation.has_body or operation.query or operation.identifiers:
                report.check(f"{place}, 400", "" if (environment, operation.id) in refused else "never")
        report.check(f"{environment}, 5xx of no operation", "" if not seen[environment, "none", "5"] else "seen")
    faults = [line for line in lines if line.get("level") == "ERROR" or "panicked" in line.get("message", "")]
    report.check("the gate's log", f"{faults[:3]}" if faults else "")
    print(f"  {len(requests)} requests in the gate's log")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("sluice")
    parser.add_argument("--long", action="store_true")
    arguments = parser.parse_args()
    report = Report()
    every = operations()
    slow = ("--pace-ms", SLOW_MS)
    with (
        simulator(arguments.sluice, *slow) as production,
        simulator(arguments.sluice, *slow) as sandbox,
        gate(arguments.sluice, production, sandbox) as running,
    ):
        upstreams = {"production": production, "sandbox": sandbox}
        for environment, (examples, seeds) in (LONG if arguments.long else USUAL).items():
            print(environment)
            address = running.addresses[environment]
            known = known_identifiers(upstreams[environment])
            try_examples(environment, address, every, known, report)
            for seed in seeds:
                schemathesis(address, every, known, examples, seed, report)
    check_log(running.lines, every, report)
    return report.close()


if __name__ == "__main__":
    sys.exit(main())
