"""Generates clients from the gate's own contract with public generators, and runs them against a gate.

Usage: `python tests/tools/clients.py SLUICE NODE_TOOLS [--go GENERATOR]`.

The document that a gate serves must be valid, must equal what `sluice openapi` prints, and must describe the answers
that the gate gives: paid, replayed, held, then approved, refused, rate limited, and of unknown outcome. A client in
Python and one in TypeScript are generated from it, every operation included, and make these calls. The console's
contract is treated the same way. The clients in `deploy/clients`, which the guides show, make payments as well. With
`--go`, all this is done in Go too, with the client that OpenAPI Generator makes.
"""

import argparse
import importlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

from jsonschema import Draft202012Validator
from openapi_spec_validator import validate as validate_openapi

from gate import (
    RunningGate,
    create_store,
    gate_config,
    make_token,
    note_address,
    run_program,
    start_simulator,
    wait_until,
    write_config,
)
from people import PEOPLE, people_config
from report import Report

METHODS = ("get", "put", "post", "delete", "patch")
RULES = """
[value]
slippage = "1%"

[group.ops]
members = ["people:ops-1", "people:ops-2"]

[approval.one]
all = [{ of = "ops", n = 1 }]
expires = "1h"

[[rule]]
id = "everything"
effect = "allow"
when = { op = "*" }

[[rule]]
id = "large"
effect = "hold"
approval = "one"
when = { op = ["createSwap"], environment = ["production"], amount = "[1000, 5000] USD" }

[[rule]]
id = "too-large"
effect = "deny"
when = { op = ["createSwap"], amount = "(5000, inf) USD" }

[[rate]]
id = "each-caller"
ops = ["*"]
per = ["caller"]
quota = "1/h burst 40"
"""
CONFIG = f"""
[timeouts]
answer_ms = 500
{people_config(0)}"""
WALLET = "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed"
ROOT = Path(__file__).resolve().parents[2]
TYPESCRIPT = ROOT / "tests" / "clients" / "payments.mts"
GO = TYPESCRIPT.with_suffix(".go")
# No module and no toolchain is downloaded.
GO_ENVIRONMENT = {**os.environ, "GOPROXY": "off", "GOTOOLCHAIN": "local", "GOFLAGS": "-mod=mod"}
# The clients of the guides.
SAMPLES = ROOT / "deploy" / "clients"


class Answer(NamedTuple):
    status: int
    body: Any


class Place(NamedTuple):
    """A gate with a console, and the simulator behind it."""

    caller: str
    console: str
    simulator: str
    config: Path

    def ask(self, method: str, path: str, token: str | None, body: object = None, where: str | None = None) -> Answer:
        connection = HTTPConnection(where or self.caller, timeout=20)
        headers = {"Content-Type": "application/json"} if body is not None else {}
        if token is not None:
            headers["Authorization"] = f"Bearer {token}"
        connection.request(method, path, None if body is None else json.dumps(body), headers)
        response = connection.getresponse()
        answer = Answer(response.status, json.loads(response.read()))
        connection.close()
        return answer

    def fail_next(self, kind: str) -> None:
        """Has the simulator fail the next swap in this way."""
        fault = {"operation": "createSwap", "kind": kind, "times": 1}
        self.ask("POST", "/simulator/faults", None, fault, self.simulator)


@contextmanager
def start_place(binary: str) -> Iterator[Place]:
    with start_simulator(binary) as simulator, tempfile.TemporaryDirectory(prefix="sluice-") as folder:
        # A released hold is sent with the gate's own credential.
        config_text = gate_config(simulator, "127.0.0.1:9").replace(
            "[production]", '[production]\ncredential = "clients"'
        )
        config = write_config(Path(folder), config_text + CONFIG)
        (config.parent / "policies" / "everything.toml").write_text(RULES, encoding="utf-8")
        create_store(binary, config)
        addresses: dict[str, str] = {}
        consoles: list[str] = []

        def note(line: dict[str, Any]) -> bool:
            if line.get("message") == "listening for people":
                consoles.append(line["address"])
            return note_address(line, addresses) and bool(consoles)

        with run_program([binary, "serve", "--config", config]) as program:
            gate = RunningGate(addresses, program.wait_for(note), program.child.pid)
            yield Place(gate.addresses["production"], consoles[0], simulator, config)


def swap(request_id: str, amount: str = "25.50") -> dict[str, Any]:
    """Returns the body of a swap."""
    return {
        "requestId": request_id,
        "source": {"chain": "POLYGON", "currency": "usdt", "amount": amount},
        "destination": {"chain": "POLYGON", "currency": "usdc", "walletAddress": WALLET},
    }


def operations_of(document: Any) -> dict[str, Any]:
    """Returns the operations of a document, by id."""
    items = [item for path in document["paths"].values() for item in path.items()]
    return {node["operationId"]: node for method, node in items if method in METHODS}


def check_document(name: str, document: Any, report: Report) -> None:
    try:
        validate_openapi(document)
        fault = ""
    except Exception as error:  # The validator has no common class of errors.
        fault = str(error).partition("\n")[0]
    report.check(f"{name}: a valid document", fault)


def check_answer(document: Any, operation: str, answer: Answer, report: Report) -> None:
    """Checks that the document describes an answer of the gate."""
    responses = operations_of(document)[operation]["responses"]
    response = responses.get(str(answer.status))
    what = f"{operation}: answer {answer.status} {json.dumps(answer.body)[:60]}"
    if response is None:
        report.check(what, "the document has no such status")
        return
    if "$ref" in response:
        response = document["components"]["responses"][response["$ref"].rpartition("/")[2]]
    schema = {**response["content"]["application/json"]["schema"], "components": document["components"]}
    errors = [error.message for error in Draft202012Validator(schema).iter_errors(answer.body)]
    report.check(what, "; ".join(errors)[:300])


def check_answers(place: Place, document: Any, report: Report) -> None:
    token = make_token("answers")
    swaps = "/v2/wallets/swaps"

    def send(wanted: int, body: object, path: str = swaps, by: str | None = token) -> Answer:
        answer = place.ask("POST", path, by, body)
        report.check_that(f"{wanted} is answered", answer.status == wanted, answer)
        check_answer(document, "createSwap", answer, report)
        return answer

    send(201, swap("answers-1"))
    send(201, swap("answers-1"))
    held = send(202, swap("answers-2", "2000"))
    send(403, swap("answers-3", "6000"))
    send(400, {})
    send(401, swap("answers-4"), by=None)
    send(422, swap("answers-1", "26"))
    place.fail_next("hang")
    send(504, swap("answers-5"))
    send(409, swap("answers-5"))
    hold = f"/sluice/v1/holds/{held.body['hold']['id']}"
    check_answer(document, "showHold", place.ask("GET", hold, token), report)
    check_answer(document, "cancelHold", place.ask("POST", f"{hold}/cancel", token), report)
    send(403, swap("answers-2", "2000"))
    check_answer(document, "listUsers", place.ask("GET", "/v2/users", token), report)
    for _ in range(100):
        answer = place.ask("GET", "/v2/users", token)
        if answer.status != 200:
            break
    check_answer(document, "listUsers", answer, report)
    report.check_that("the rate is exceeded", answer.status == 429, answer)


def generate_python(document: Path, into: Path, report: Report) -> None:
    """Generates a client; a part that the generator leaves out is a failure."""
    tool = Path(sys.executable).parent
    command: list[str | Path] = [
        tool / "openapi-python-client",
        "generate",
        "--path",
        document,
        "--output-path",
        into,
        "--meta",
        "none",
    ]
    environment = {**os.environ, "PATH": f"{tool}:{os.environ['PATH']}"}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    fault = done.stdout + done.stderr if done.returncode or "WARNING" in done.stdout + done.stderr else ""
    report.check(f"a Python client of {document.name}", fault[:2_000])
    modules = [file for file in into.glob("api/*/*.py") if file.name != "__init__.py"]
    count = len(operations_of(json.loads(document.read_text(encoding="utf-8"))))
    report.check_that(f"{document.name}: all operations in Python", len(modules) == count, f"{len(modules)} of {count}")


class PythonClient:
    """A generated client."""

    def __init__(self, package: str, address: str, token: str) -> None:
        self.package = package
        client = importlib.import_module(f"{package}.client").AuthenticatedClient
        self.client = client(base_url=f"http://{address}", token=token, timeout=20)

    def module(self, name: str) -> ModuleType:
        return importlib.import_module(f"{self.package}.{name}")

    def call(self, operation: str, *arguments: object, **named: object) -> Any:
        """Makes a call; returns the response with its typed content."""
        return self.module(f"api.{operation}").sync_detailed(*arguments, client=self.client, **named)

    def swap(self, request_id: str, amount: str = "25.50") -> Any:
        body = self.module("models.swap_create").SwapCreate.from_dict(swap(request_id, amount))
        return self.call("swaps.create_swap", body=body)


def check_python(place: Place, payments: PythonClient, people: PythonClient, report: Report) -> None:
    def expect(what: str, response: Any, kind: str, outcome: str | None) -> Any:
        found = (type(response.parsed).__name__, response.headers.get("sluice-outcome"))
        report.check_that(f"Python: {what}", found == (kind, outcome), f"{found}: {response.content!r}")
        return response.parsed

    paid = expect("a swap is paid", payments.swap("python-1"), "SwapRecord", "executed")
    report.check_that("Python: the record is typed", paid.transfer_details.request_id == "python-1", paid)
    replayed = payments.swap("python-1")
    expect("a repeat gets the first answer", replayed, "SwapRecord", "executed")
    report.check_that("Python: the repeat says so", replayed.headers.get("sluice-replayed") == "true", replayed.headers)
    held = expect("a large swap is held, not paid", payments.swap("python-2", "2000"), "HeldAnswer", "held").hold
    shown = expect("the hold is shown", payments.call("holds.show_hold", held.id), "HoldAnswer", None).hold
    report.check_that("Python: the hold is pending", str(shown.state) == "pending", shown)
    people.call("holds.show_hold", held.id)
    approve(place, held.id, report)
    is_paid = wait_until(lambda: payments.swap("python-2", "2000").status_code == 201, 20)
    report.check_that("Python: the approved swap is paid", is_paid, payments.swap("python-2", "2000").content)
    refused = expect("a rule refuses", payments.swap("python-3", "6000"), "ErrorDocument", "not-executed")
    report.check_that("Python: the rule is named", refused.error.details.rules[0].rule == "too-large", refused)
    place.fail_next("hang")
    expect("an answer that never comes", payments.swap("python-4"), "ErrorA", "unknown")
    doubt = expect("the outcome stays unknown", payments.swap("python-4"), "ErrorDocument", "unknown")
    report.check_that("Python: the code", doubt.error.code == "OUTCOME_UNKNOWN", doubt)
    responses = (payments.call("users.list_users") for _ in range(100))
    limited = next(response for response in responses if response.status_code != 200)
    report.check_that("Python: rate limited", limited.parsed.error.code == "RATE_LIMITED", limited.content)


def check_typescript(place: Place, documents: dict[str, Path], node_tools: Path, folder: Path, report: Report) -> None:
    """Generates types, checks a program against them, and runs it against the gate."""
    tools = node_tools / "node_modules"

    def run(what: str, *command: str | Path, **environment: str) -> None:
        done = subprocess.run(
            command, capture_output=True, text=True, check=False, cwd=folder, env={**os.environ, **environment}
        )
        report.check(f"TypeScript: {what}", (done.stdout + done.stderr)[-2_000:] if done.returncode else "")

    for name, document in documents.items():
        run(f"types of {name}", tools / ".bin" / "openapi-typescript", document, "--output", folder / f"{name}.d.ts")
        text = (folder / f"{name}.d.ts").read_text(encoding="utf-8")
        names = operations_of(json.loads(document.read_text(encoding="utf-8")))
        missing = [operation for operation in names if f'operations["{operation}"]' not in text]
        report.check_that(f"TypeScript: all operations of {name}", not missing, missing)
    (folder / "node_modules").symlink_to(tools)
    (folder / TYPESCRIPT.name).write_text(TYPESCRIPT.read_text(encoding="utf-8"), encoding="utf-8")
    (folder / "package.json").write_text('{"type": "module"}', encoding="utf-8")
    options = ["--strict", "--module", "nodenext", "--target", "es2024", "--types", "node", "--skipLibCheck"]
    run("the program fits the types", tools / ".bin" / "tsc", *options, TYPESCRIPT.name)
    run(
        "paid, held, refused, in doubt",
        "node",
        TYPESCRIPT.with_suffix(".mjs").name,
        GATE=f"http://{place.caller}",
        TOKEN=make_token("typescript"),
        SIMULATOR=f"http://{place.simulator}",
    )


def check_go(place: Place, document: Path, generator: Path, folder: Path, report: Report) -> None:
    """Generates a client, builds a program with it, and runs it against the gate."""
    work, client = folder / "go", folder / "go" / "payments"
    client.mkdir(parents=True)

    def run(what: str, *command: str | Path, **environment: str) -> None:
        whole = {**GO_ENVIRONMENT, **environment}
        done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=work, env=whole)
        report.check(f"Go: {what}", (done.stdout + done.stderr)[-2_000:] if done.returncode else "")

    run(
        "a client",
        generator,
        "generate",
        *("-g", "go", "-i", document, "-o", client, "--package-name", "payments"),
        "--additional-properties=enumClassPrefix=true,withGoMod=false",
        "--global-property=apis,models,supportingFiles,apiTests=false,modelTests=false,apiDocs=false,modelDocs=false",
    )
    text = "".join(file.read_text(encoding="utf-8") for file in client.glob("api_*.go"))
    names = operations_of(json.loads(document.read_text(encoding="utf-8")))
    missing = [name for name in names if f" {name[0].upper()}{name[1:]}(ctx context.Context" not in text]
    report.check_that("Go: all operations", not missing, missing)
    (work / "go.mod").write_text("module example.org/sluice\n\ngo 1.19\n", encoding="utf-8")
    (work / "main.go").write_text(GO.read_text(encoding="utf-8"), encoding="utf-8")
    run("the program fits the client", "go", "vet", ".")
    run("a build", "go", "build", "-o", "payments-program", ".")
    run(
        "paid, held, refused, in doubt",
        work / "payments-program",
        GATE=f"http://{place.caller}",
        TOKEN=make_token("go"),
        SIMULATOR=f"http://{place.simulator}",
    )


def build_go_sample(folder: Path, report: Report) -> Path:
    program = folder / "pay-in-go"
    steps: dict[str, list[str | Path]] = {
        "is formatted": ["gofmt", "-l", SAMPLES / "pay.go", GO],
        "has no mistakes": ["go", "vet", SAMPLES / "pay.go"],
        "is built": ["go", "build", "-o", program, SAMPLES / "pay.go"],
    }
    for name, command in steps.items():
        done = subprocess.run(
            command, capture_output=True, text=True, check=False, cwd=folder, env={**GO_ENVIRONMENT, "GOFLAGS": ""}
        )
        report.check(f"pay.go {name}", done.stdout + done.stderr)
    return program


def approve(place: Place, hold: str, report: Report) -> None:
    approver = make_token("ops-1", PEOPLE, roles=["approver"])
    seen = place.ask("GET", f"/sluice/v1/holds/{hold}", approver, where=place.console).body
    vote = {name: seen[name] for name in ("fingerprint", "causes") if name in seen}
    answer = place.ask("POST", f"/sluice/v1/holds/{hold}/approve", approver, vote, place.console)
    report.check_that("a person agrees", answer.status == 200, answer)


def check_samples(place: Place, node_tools: Path, folder: Path, report: Report, has_go: bool) -> None:
    """Runs the clients of the guides: paid, refused, held and approved, in doubt."""
    options = ["--strict", "--module", "nodenext", "--target", "es2024", "--types", "node", "--skipLibCheck"]
    (folder / "pay.mts").write_text((SAMPLES / "pay.mts").read_text(encoding="utf-8"), encoding="utf-8")
    compiler = node_tools / "node_modules" / ".bin" / "tsc"
    done = subprocess.run([compiler, *options, "pay.mts"], capture_output=True, text=True, check=False, cwd=folder)
    report.check("pay.mts fits its types", done.stdout if done.returncode else "")
    samples: dict[str, list[str | Path]] = {
        "pay.py": [sys.executable, SAMPLES / "pay.py"],
        "pay.mts": ["node", folder / "pay.mjs"],
    }
    if has_go:
        samples["pay.go"] = [build_go_sample(folder, report)]
    for name, command in samples.items():
        token = folder / f"{name}.token"
        token.write_text(make_token(f"sample-{name[-2:]}"), encoding="utf-8")

        def start(body: dict[str, Any], command: list[str | Path] = command, token: Path = token) -> Any:
            file = folder / f"{body['requestId']}.json"
            file.write_text(json.dumps(body), encoding="utf-8")
            whole = [*command, f"http://{place.caller}", token, file]
            return subprocess.Popen(whole, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)

        def expect(what: str, running: Any, code: int, word: str, name: str = name) -> None:
            said, _ = running.communicate(timeout=60)
            is_right = running.returncode == code and word in said
            report.check_that(f"{name}: {what}", is_right, (running.returncode, said))

        expect("a payment", start(swap(f"{name}-1")), 0, "executed")
        expect("a repeat", start(swap(f"{name}-1")), 0, "executed")
        expect("a refusal by the rules", start(swap(f"{name}-2", "6000")), 3, "POLICY_DENIED")
        expect("a refusal by upstream", start(swap(f"{name}-3", "17.17")), 3, "not executed")
        expect("a lost answer", start(swap(f"test-lost-{name}")), 4, "never pay under another requestId")
        large = swap(f"{name}-4", "2000")
        waiting = start(large)
        held = place.ask("POST", "/v2/wallets/swaps", token.read_text(encoding="utf-8"), large)
        report.check_that(f"{name}: a large payment is held", held.status == 202, held)
        approve(place, held.body["hold"]["id"], report)
        expect("an approved payment", waiting, 0, "executed")


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("sluice")
    parser.add_argument("node_tools", type=Path)
    parser.add_argument("--go", type=Path, metavar="GENERATOR", help="openapi-generator-cli")
    arguments = parser.parse_args()
    report = Report()
    with start_place(arguments.sluice) as place, tempfile.TemporaryDirectory(prefix="sluice-clients-") as text:
        folder = Path(text)
        stranger = place.ask("GET", "/sluice/v1/openapi.json", None)
        report.check_that("strangers get no document", stranger.status == 401, stranger)
        payments = place.ask("GET", "/sluice/v1/openapi.json", make_token("documents")).body
        printed = subprocess.run(
            [arguments.sluice, "openapi", "--config", place.config], capture_output=True, text=True, check=True
        )
        report.check_that("the command prints what the gate serves", json.loads(printed.stdout) == payments, "differs")
        people = place.ask("GET", "/sluice/v1/openapi.json", None, where=place.console).body
        documents = {}
        for name, document in (("payments", payments), ("people", people)):
            check_document(name, document, report)
            documents[name] = folder / f"{name}.json"
            documents[name].write_text(json.dumps(document), encoding="utf-8")
            generate_python(documents[name], folder / f"{name}_client", report)
        check_answers(place, payments, report)
        sys.path.insert(0, text)
        approver = make_token("ops-1", PEOPLE, roles=["approver"])
        check_python(
            place,
            PythonClient("payments_client", place.caller, make_token("python")),
            PythonClient("people_client", place.console, approver),
            report,
        )
        node_tools = arguments.node_tools.resolve()
        check_typescript(place, documents, node_tools, folder, report)
        if arguments.go is not None:
            check_go(place, documents["payments"], arguments.go.resolve(), folder, report)
        check_samples(place, node_tools, folder, report, arguments.go is not None)
    return report.close()


if __name__ == "__main__":
    sys.exit(main())
