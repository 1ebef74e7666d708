"""What Schemathesis asks of every answer besides its own checks."""

import json
import re
from itertools import count

import schemathesis

IDENTIFIER = re.compile("[A-Za-z0-9._-]{1,128}")
NUMBERS = count()

# Refusals that a call which satisfies the contract must not meet.
OF_CONTENT = (400, 413, 415, 422)
# Refusals of calls that no operation was found for.
OF_NO_OPERATION = ("MALFORMED_REQUEST", "OPERATION_NOT_FOUND", "METHOD_NOT_ALLOWED")


@schemathesis.hook
def before_call(context, case, kwargs):
    """A good requestId becomes one that was not used: a call is judged by itself, not by an earlier one's claim."""
    body = case.body
    if isinstance(body, dict) and isinstance(body.get("requestId"), str) and IDENTIFIER.fullmatch(body["requestId"]):
        case.body = body | {"requestId": f"made-{next(NUMBERS)}"}


@schemathesis.check
def every_answer_says_who_made_it(ctx, response, case):
    assert origin(response) in ("gateway", "upstream"), "no Sluice-Origin"
    assert header(response, "x-request-id"), "no X-Request-Id"
    notes = case.operation.definition.raw["x-sluice"]
    if notes["class"] == "read" or (origin(response) == "gateway" and code(response) in OF_NO_OPERATION):
        return
    outcome = header(response, "sluice-outcome")
    assert outcome in ("executed", "not-executed", "unknown"), f"Sluice-Outcome is `{outcome}`"
    assert (outcome == "executed") == (response.status_code < 300), f"{response.status_code} says {outcome}"


@schemathesis.check
def gate_takes_what_the_contract_allows(ctx, response, case):
    """Upstream may refuse what the interface does not show; the gate knows nothing but the contract."""
    valid = case.meta is not None and case.meta.generation.mode.is_positive
    if valid and origin(response) == "gateway" and response.status_code in OF_CONTENT:
        assert is_beyond_schema(response), f"a valid call is refused: {response.text}"


def is_beyond_schema(response):
    """What no JSON Schema can say: numbers that parsers read differently, addresses, controls in a query."""
    error = json.loads(response.text)["error"]
    if error["code"] == "INVALID_JSON":
        return ": a number " in error["message"]
    return all(
        violation["keyword"] == "encoding"
        or (violation["keyword"] == "format" and " address" in violation["expected"])
        for violation in error["details"]["violations"]
    )


def code(response):
    error = json.loads(response.text).get("error")
    return error.get("code") if isinstance(error, dict) else error


def origin(response):
    return header(response, "sluice-origin")


def header(response, name):
    return ", ".join(response.headers.get(name, []))
