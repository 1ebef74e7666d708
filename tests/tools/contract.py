"""Checks the contract with public tools: `python tests/tools/contract.py schemas`.

Validates openapi.json and console.json, every resource file, every pattern and reference, the
pointers of `x-sluice`, and every example: a good one must satisfy its schema,
a bad one must not.
"""

import json
import re
import sys
from functools import cache
from pathlib import Path

from jsonschema import Draft202012Validator
from jsonschema.exceptions import SchemaError
from openapi_spec_validator import validate as validate_openapi
from referencing import Registry, Resource
from referencing.exceptions import Unresolvable
from referencing.jsonschema import DRAFT202012

from report import Report

METHODS = ("get", "put", "post", "delete", "patch", "head", "options", "trace")
FORMATS = ("uuid", "date", "date-time", "email")
BEYOND_ECMA_SUBSET = re.compile(r"\(\?(?!:)|\\[1-9]|\\k<")
# How many examples of each kind an operation needs.
LEAST = {"good": 3, "bad": 8, "answer-good": 2, "answer-bad": 5}
DRAFT202012_URI = Draft202012Validator.META_SCHEMA["$id"]
CLASSES = ("read", "change", "money")


class Contract:
    def __init__(self, folder):
        self.folder = folder.resolve()
        self.registry = Registry(retrieve=self.retrieve)
        self.openapi = load(self.folder / "openapi.json")
        self.operations = {
            operation.get("operationId"): operation
            for item in self.openapi["paths"].values()
            for method, operation in item.items()
            if method in METHODS
        }

    def retrieve(self, uri):
        path = Path(uri.removeprefix("file://"))
        if path.parent != self.folder:
            raise ValueError(f"`{uri}` is outside the folder")
        return Resource.from_contents(load(path), default_specification=DRAFT202012)

    def uri(self, name):
        return f"file://{self.folder / name}"

    def lookup(self, reference, file="openapi.json"):
        return self.registry.resolver(self.uri(file)).lookup(reference)

    @cache
    def validator(self, reference):
        """A validator of the schema that openapi.json refers to."""
        return Draft202012Validator(
            {"$ref": self.uri(reference)},
            registry=self.registry,
            format_checker=Draft202012Validator.FORMAT_CHECKER,
        )

    def body(self, operation):
        return schema_reference(operation.get("requestBody"))

    def answer(self, operation):
        responses = operation["responses"]
        return schema_reference(responses.get("200") or responses.get("2XX"))


def load(path):
    return json.loads(path.read_text(encoding="utf-8"), object_pairs_hook=no_duplicates)


def no_duplicates(pairs):
    members = dict(pairs)
    if len(members) != len(pairs):
        raise ValueError("duplicate key")
    return members


def schema_reference(container):
    if not container:
        return None
    return container["content"]["application/json"]["schema"]["$ref"]


def nodes(value, pointer=""):
    """Every object in a document, with its JSON pointer."""
    if isinstance(value, dict):
        yield pointer, value
        for key, member in value.items():
            yield from nodes(member, f"{pointer}/{key}")
    elif isinstance(value, list):
        for index, member in enumerate(value):
            yield from nodes(member, f"{pointer}/{index}")


def why_not(action, *errors):
    try:
        action()
    except errors as error:
        return str(error).partition("\n")[0][:160] or type(error).__name__
    return ""


def pattern_fault(pattern):
    if BEYOND_ECMA_SUBSET.search(pattern):
        return f"`{pattern}` looks around or back"
    return why_not(lambda: re.compile(pattern), re.error)


def check_documents(contract, report):
    base_uri = contract.uri("openapi.json")
    report.check("openapi.json", why_not(lambda: validate_openapi(contract.openapi, base_uri=base_uri), Exception))
    for path in sorted(contract.folder.glob("*.json")):
        document = load(path)
        if path.name == "console.json":
            report.check(path.name, why_not(lambda: validate_openapi(document), Exception))
        elif path.name != "openapi.json":
            meta = "" if document.get("$schema") == DRAFT202012_URI else "`$schema` is not 2020-12"
            report.check(path.name, meta or why_not(lambda: Draft202012Validator.check_schema(document), SchemaError))
        for pointer, node in nodes(document):
            place = f"{path.name}#{pointer}"
            if isinstance(pattern := node.get("pattern"), str):
                report.check(place, pattern_fault(pattern))
            if isinstance(reference := node.get("$ref"), str):
                resolve = lambda: contract.lookup(reference, path.name)
                report.check(place, why_not(resolve, Unresolvable, ValueError, OSError))
            if "$id" in node and not pointer.endswith("/properties"):
                report.check(place, "`$id` changes what references mean")
            if pointer.count("/") == 2 and pointer.startswith("/$defs/") and "description" not in node:
                report.check(place, "no description")


def pointers(value):
    """The JSON pointers of an `x-sluice` money entry."""
    if isinstance(value, str):
        yield value
    else:
        for member in value.values() if isinstance(value, dict) else value:
            yield from pointers(member)


def descend(contract, reference, pointer):
    """Follows a pointer through the properties and items of a schema."""
    found = contract.lookup(reference)
    for step in [None, *pointer.split("/")[1:]]:
        schema = found.contents
        if step is not None:
            schema = schema["items"] if step == "*" else schema["properties"][step]
        if "$ref" in schema:
            found = found.resolver.lookup(schema["$ref"])
        else:
            found = type(found)(contents=schema, resolver=found.resolver)


def check_notes(contract, report):
    for name, operation in contract.operations.items():
        notes = operation.get("x-sluice", {})
        place = f"{name} x-sluice"
        report.check(place, "" if notes.get("class") in CLASSES else "no class")
        claim = notes.get("claim", {})
        parameters = {p["name"] for p in operation["parameters"] if p["in"] == "path"}
        report.check(place, "" if set(claim.get("path", [])) <= parameters else "claim by a path parameter that is not there")
        body = contract.body(operation)
        for pointer in [*pointers(notes.get("money", {})), *([claim["body"]] if "body" in claim else [])]:
            report.check(f"{place} {pointer}", why_not(lambda: descend(contract, body, pointer), LookupError, Unresolvable, TypeError))
        if reconcile := notes.get("reconcile"):
            read = contract.operations.get(reconcile["operation"])
            whole = reconcile["records"] + "/*" + reconcile["requestId"]
            report.check(f"{place} reconcile", why_not(lambda: descend(contract, contract.answer(read), whole), Exception))


def check_examples(contract, report):
    examples = contract.folder / "examples"
    for folder in sorted(examples.iterdir()):
        report.check(folder.name, "" if folder.name in contract.operations else "examples of no operation")
    for name, operation in contract.operations.items():
        references = {"": contract.body(operation), "answer-": contract.answer(operation)}
        seen = set()
        for kind, least in LEAST.items():
            prefix = "answer-" if kind.startswith("answer-") else ""
            paths = sorted((examples / name).glob(f"{kind}-*.json"))
            seen.update(paths)
            reference = references[prefix]
            if reference is None:
                report.check(f"{name} {kind}", "examples of a body that there is not" if paths else "")
                continue
            enough = len(paths) >= least
            report.check(f"{name} {kind}", "" if enough else f"{len(paths)} examples, at least {least} wanted")
            for path in paths:
                check_example(contract, report, path, reference, good=kind.endswith("good"))
        for stray in sorted(set((examples / name).glob("*")) - seen):
            report.check(str(stray.relative_to(contract.folder)), "neither good nor bad")


def check_example(contract, report, path, reference, good):
    place = str(path.relative_to(contract.folder))
    try:
        violations = list(contract.validator(reference).iter_errors(load(path)))
    except (ValueError, Unresolvable) as error:
        report.check(place, str(error)[:160])
        return
    if good:
        report.check(place, "; ".join(f"{v.json_path} {v.message[:160]}" for v in violations))
    else:
        report.check(place, "" if violations else "satisfies the schema")


def main(arguments):
    if len(arguments) != 1:
        print("usage: contract.py SCHEMAS", file=sys.stderr)
        return 2
    report = Report()
    for name in FORMATS:
        known = name in Draft202012Validator.FORMAT_CHECKER.checkers
        report.check(f"format {name}", "" if known else "not asserted: install tests/requirements.txt")
    contract = Contract(Path(arguments[0]))
    check_documents(contract, report)
    check_notes(contract, report)
    check_examples(contract, report)
    return report.close()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
