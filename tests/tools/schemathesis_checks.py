"""Checks of every response that Schemathesis makes besides its own."""

from __future__ import annotations

import json
import re
from itertools import count
from typing import Any

import schemathesis
from schemathesis import Case, HookContext
from schemathesis.checks import CheckContext
from schemathesis.core.transport import Response

IDENTIFIER = re.compile("[A-Za-z0-9._-]{1,128}")
NUMBERS = count()

# Refusals that a call which satisfies the contract must not get.
CONTENT_REFUSALS = (400, 413, 415, 422)
# Errors of calls that match no operation.
NO_OPERATION_ERRORS = ("MALFORMED_REQUEST", "OPERATION_NOT_FOUND", "METHOD_NOT_ALLOWED")


@schemathesis.hook
def before_call(context: HookContext, case: Case[Any], kwargs: dict[str, Any]) -> None:
    """Replaces a valid requestId by an unused one, so that no earlier call's claim affects this call."""
    body = case.body
    request_id = body.get("requestId") if isinstance(body, dict) else None
    if isinstance(body, dict) and isinstance(request_id, str) and IDENTIFIER.fullmatch(request_id):
        case.body = body | {"requestId": f"made-{next(NUMBERS)}"}


@schemathesis.check
def every_response_names_its_origin(ctx: CheckContext, response: Response, case: Case[Any]) -> None:
    assert origin(response) in ("gateway", "upstream"), "no Sluice-Origin"
    assert header(response, "x-request-id"), "no X-Request-Id"
    notes = case.operation.definition.raw["x-sluice"]
    if notes["class"] == "read" or (origin(response) == "gateway" and error_code(response) in NO_OPERATION_ERRORS):
        return
    outcome = header(response, "sluice-outcome")
    assert outcome in ("executed", "not-executed", "unknown"), f"Sluice-Outcome is `{outcome}`"
    assert (outcome == "executed") == (response.status_code < 300), f"{response.status_code} has outcome {outcome}"


@schemathesis.check
def gate_accepts_valid_calls(ctx: CheckContext, response: Response, case: Case[Any]) -> None:
    """Upstream may refuse a call that the contract allows; the gate may not, because it knows the contract only."""
    is_valid = case.meta is not None and case.meta.generation.mode.is_positive
    if is_valid and origin(response) == "gateway" and response.status_code in CONTENT_REFUSALS:
        assert is_beyond_schema(response), f"a valid call is refused: {response.text}"


def is_beyond_schema(response: Response) -> bool:
    """Returns true if no JSON Schema could express the refusal: ambiguous numbers, addresses, controls in a query."""
    error = json.loads(response.text)["error"]
    if error["code"] == "INVALID_JSON":
        return ": a number " in error["message"]
    return all(
        violation["keyword"] == "encoding" or (violation["keyword"] == "format" and " address" in violation["expected"])
        for violation in error["details"]["violations"]
    )


def error_code(response: Response) -> Any:
    error = json.loads(response.text).get("error")
    return error.get("code") if isinstance(error, dict) else error


def origin(response: Response) -> str:
    return header(response, "sluice-origin")


def header(response: Response, name: str) -> str:
    return ", ".join(response.headers.get(name, []))
