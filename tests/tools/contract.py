"""Checks the API contract with public validators.

Usage: `python tests/tools/contract.py SCHEMAS`.

Validates openapi.json, console.json and gate.json, every schema file, every pattern and reference, and the pointers of
`x-sluice`. Every good example must satisfy its schema; no bad example may.
"""

import json
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

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
MIN_EXAMPLES = {"good": 3, "bad": 8, "answer-good": 2, "answer-bad": 5}
DRAFT202012_URI = "https://json-schema.org/draft/2020-12/schema"
CLASSES = ("read", "change", "money")

# A JSON document, or a part of one.
Json = Any


class Contract:
    """The schemas of a folder, and the operations of its openapi.json."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder.resolve()
        self.documents = {path.name: read_json(path) for path in sorted(self.folder.glob("*.json"))}
        empty: Registry[Json] = Registry()
        self.registry = empty.with_resources(
            (self.uri(name), Resource.from_contents(document, default_specification=DRAFT202012))
            for name, document in self.documents.items()
        )
        self.openapi = self.documents["openapi.json"]
        self.operations: dict[str, Json] = {
            operation.get("operationId"): operation
            for item in self.openapi["paths"].values()
            for method, operation in item.items()
            if method in METHODS
        }
        self.validators: dict[str, Draft202012Validator] = {}

    def uri(self, name: str) -> str:
        return f"file://{self.folder / name}"

    def lookup(self, reference: str, file: str = "openapi.json") -> Any:
        """Resolves a reference that a file contains."""
        return self.registry.resolver(self.uri(file)).lookup(reference)

    def validator(self, reference: str) -> Draft202012Validator:
        """Returns a validator of the schema that openapi.json refers to."""
        if reference not in self.validators:
            self.validators[reference] = Draft202012Validator(
                {"$ref": self.uri(reference)},
                registry=self.registry,
                format_checker=Draft202012Validator.FORMAT_CHECKER,
            )
        return self.validators[reference]


def read_json(path: Path) -> Json:
    return json.loads(path.read_text(encoding="utf-8"), object_pairs_hook=refuse_duplicates)


def refuse_duplicates(pairs: list[tuple[str, Json]]) -> dict[str, Json]:
    members = dict(pairs)
    if len(members) != len(pairs):
        raise ValueError("duplicate key")
    return members


def request_schema(operation: Json) -> str | None:
    """Returns the reference to the schema of an operation's request body, if it has one."""
    return schema_reference(operation.get("requestBody"))


def response_schema(operation: Json) -> str | None:
    """Returns the reference to the schema of an operation's successful response, if it has a body."""
    responses = operation["responses"]
    return schema_reference(responses.get("200") or responses.get("2XX"))


def schema_reference(container: Json) -> str | None:
    if not container:
        return None
    reference: str = container["content"]["application/json"]["schema"]["$ref"]
    return reference


def walk_objects(value: Json, pointer: str = "") -> Iterator[tuple[str, dict[str, Json]]]:
    """Yields every object in a document, with its JSON pointer."""
    if isinstance(value, dict):
        yield pointer, value
        for key, member in value.items():
            yield from walk_objects(member, f"{pointer}/{key}")
    elif isinstance(value, list):
        for index, member in enumerate(value):
            yield from walk_objects(member, f"{pointer}/{index}")


def error_of(action: Callable[..., object], *arguments: object, errors: tuple[type[Exception], ...]) -> str:
    """Calls `action`; returns the first line of the error that it raised, or nothing."""
    try:
        action(*arguments)
    except errors as error:
        return str(error).partition("\n")[0][:160] or type(error).__name__
    return ""


def pattern_fault(pattern: str) -> str:
    if BEYOND_ECMA_SUBSET.search(pattern):
        return f"`{pattern}` looks around or back"
    return error_of(re.compile, pattern, errors=(re.error,))


def check_documents(contract: Contract, report: Report) -> None:
    for file, document in contract.documents.items():
        if file in ("openapi.json", "console.json", "gate.json"):
            report.check(file, error_of(validate_openapi, document, contract.uri(file), errors=(Exception,)))
        else:
            report.check_that(file, document.get("$schema") == DRAFT202012_URI, "`$schema` is not 2020-12")
            report.check(file, error_of(Draft202012Validator.check_schema, document, errors=(SchemaError,)))
        for pointer, node in walk_objects(document):
            check_node(contract, report, file, pointer, node)


def check_node(contract: Contract, report: Report, file: str, pointer: str, node: dict[str, Json]) -> None:
    place = f"{file}#{pointer}"
    if isinstance(pattern := node.get("pattern"), str):
        report.check(place, pattern_fault(pattern))
    if isinstance(reference := node.get("$ref"), str):
        report.check(place, error_of(contract.lookup, reference, file, errors=(Unresolvable,)))
    if "$id" in node and not pointer.endswith("/properties"):
        report.check(place, "`$id` changes how references resolve")
    if pointer.count("/") == 2 and pointer.startswith("/$defs/") and "description" not in node:
        report.check(place, "no description")


def money_pointers(value: Json) -> Iterator[str]:
    """Yields the JSON pointers of an `x-sluice` money entry."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict) and "each" in value:
        yield from (value["each"] + value.get(name, "") for name in ("", "value", "kind"))
    else:
        for member in value.values() if isinstance(value, dict) else value:
            yield from money_pointers(member)


def descend(contract: Contract, reference: str, pointer: str) -> None:
    """Follows a pointer through the properties and items of a schema; raises an error where it leads nowhere."""
    found = contract.lookup(reference)
    for step in [None, *pointer.split("/")[1:]]:
        schema = found.contents
        if step is not None:
            schema = schema["items"] if step == "*" else schema["properties"][step]
        if "$ref" in schema:
            found = found.resolver.lookup(schema["$ref"])
        else:
            found = type(found)(contents=schema, resolver=found.resolver)


def check_notes(contract: Contract, report: Report) -> None:
    """Checks the `x-sluice` notes of every operation."""
    for name, operation in contract.operations.items():
        notes = operation.get("x-sluice", {})
        place = f"{name} x-sluice"
        report.check_that(place, notes.get("class") in CLASSES, "no class")
        claim = notes.get("claim", {})
        parameters = {p["name"] for p in operation["parameters"] if p["in"] == "path"}
        is_known = set(claim.get("path", [])) <= parameters
        report.check_that(place, is_known, "the claim names a path parameter that does not exist")
        body = request_schema(operation)
        errors = (LookupError, Unresolvable, TypeError)
        for pointer in [*money_pointers(notes.get("money", {})), *([claim["body"]] if "body" in claim else [])]:
            report.check(f"{place} {pointer}", error_of(descend, contract, body, pointer, errors=errors))
        if own := notes.get("record"):
            report.check_that(place, own["path"] in parameters, "`record` names a path parameter that does not exist")
            errors = (LookupError, Unresolvable, TypeError)
            found = error_of(descend, contract, response_schema(operation), own["answer"], errors=errors)
            report.check(f"{place} record", found)
        if reconcile := notes.get("reconcile"):
            record = reconcile["records"] + "/*" + reconcile["requestId"]
            lookup = contract.operations.get(reconcile["operation"])
            schema = response_schema(lookup) if lookup else None
            report.check(f"{place} reconcile", error_of(descend, contract, schema, record, errors=(Exception,)))


class ExampleKind(NamedTuple):
    """Examples of one operation: `good-*.json`, `bad-*.json`, `answer-good-*.json` or `answer-bad-*.json`."""

    name: str
    schema: str | None
    paths: list[Path]


def check_examples(contract: Contract, report: Report) -> None:
    examples = contract.folder / "examples"
    for folder in sorted(examples.iterdir()):
        report.check_that(folder.name, folder.name in contract.operations, "no operation has this name")
    for name, operation in contract.operations.items():
        schemas = {False: request_schema(operation), True: response_schema(operation)}
        kinds = [
            ExampleKind(kind, schemas[kind.startswith("answer-")], sorted((examples / name).glob(f"{kind}-*.json")))
            for kind in MIN_EXAMPLES
        ]
        for kind in kinds:
            check_kind(contract, report, name, kind)
        seen = {path for kind in kinds for path in kind.paths}
        for stray in sorted(set((examples / name).glob("*")) - seen):
            report.check(str(stray.relative_to(contract.folder)), "neither good nor bad")


def check_kind(contract: Contract, report: Report, operation: str, kind: ExampleKind) -> None:
    place = f"{operation} {kind.name}"
    if kind.schema is None:
        report.check_that(place, not kind.paths, "the operation has no such body")
        return
    least = MIN_EXAMPLES[kind.name]
    report.check_that(place, len(kind.paths) >= least, f"{len(kind.paths)} examples, at least {least} wanted")
    for path in kind.paths:
        check_example(contract, report, path, kind.schema, is_good=kind.name.endswith("good"))


def check_example(contract: Contract, report: Report, path: Path, schema: str, *, is_good: bool) -> None:
    place = str(path.relative_to(contract.folder))
    try:
        violations = list(contract.validator(schema).iter_errors(read_json(path)))
    except (ValueError, Unresolvable) as error:
        report.check(place, str(error)[:160])
        return
    if is_good:
        report.check(place, "; ".join(f"{v.json_path} {v.message[:160]}" for v in violations))
    else:
        report.check_that(place, bool(violations), "satisfies the schema")


def main(arguments: list[str]) -> int:
    if len(arguments) != 1:
        print("usage: contract.py SCHEMAS", file=sys.stderr)
        return 2
    report = Report()
    for name in FORMATS:
        is_checked = name in Draft202012Validator.FORMAT_CHECKER.checkers
        report.check_that(f"format {name}", is_checked, "not checked: install tests/requirements.txt")
    contract = Contract(Path(arguments[0]))
    check_documents(contract, report)
    check_notes(contract, report)
    check_examples(contract, report)
    return report.close()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
