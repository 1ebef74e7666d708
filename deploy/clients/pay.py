"""Makes one payment through Sluice, and repeats it until its outcome is known.

Usage: `python3 pay.py URL TOKEN-FILE BODY-FILE`. It needs nothing but Python.

The requestId is in the body. It is stored before the first attempt, and no attempt uses another one: then the payment
happens at most once, whatever fails. The exit code is 0 if it was executed, 3 if it was not, 4 if people must look.
"""

import json
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import NamedTuple

PATIENCE_SECONDS = 600
PAUSE_SECONDS = 2.0


class Answer(NamedTuple):
    status: int
    outcome: str
    retry_after: float
    body: dict[str, object]


def attempt(url: str, token: str, body: bytes) -> Answer | None:
    """Sends the call once; returns `None` where no answer came."""
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json", "Prefer": "wait=20"}
    request = urllib.request.Request(f"{url}/v2/wallets/swaps", body, headers)
    try:
        response = urllib.request.urlopen(request, timeout=180)
    except urllib.error.HTTPError as error:
        response = error
    except OSError:
        return None
    with response:
        try:
            answer = json.load(response)
        except ValueError:
            return None
        outcome = response.headers.get("Sluice-Outcome", "unknown")
        return Answer(response.status, outcome, float(response.headers.get("Retry-After", PAUSE_SECONDS)), answer)


def code_of(answer: Answer) -> str:
    """Returns the gate's own code, or the payments API's."""
    error = answer.body.get("error")
    return str(error.get("code")) if isinstance(error, dict) else str(error)


def is_final(answer: Answer) -> bool:
    """Whether a repeat would get the same answer: the call, the rules or what is known must change first."""
    if answer.status == 409:
        return code_of(answer) in ("OUTCOME_UNKNOWN", "OUTCOME_ABANDONED", "REQUEST_ID_SPENT")
    return 400 <= answer.status < 500 and answer.outcome != "held" and answer.status not in (401, 408, 429)


def pay(url: str, token: str, body: bytes) -> int:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < deadline:
        answer = attempt(url, token, body)
        if answer is None:
            # Nobody knows what became of it. The same requestId is always safe, a new one never is.
            time.sleep(PAUSE_SECONDS)
            continue
        if answer.outcome == "executed":
            print("executed", json.dumps(answer.body))
            return 0
        if is_final(answer) and answer.outcome == "not-executed":
            print("not executed:", code_of(answer))
            return 3
        if is_final(answer):
            print(f"unknown ({code_of(answer)}): ask the operators of the gate; never pay under another requestId")
            return 4
        if answer.outcome == "held":
            print("waits for approval")
        time.sleep(answer.retry_after)
    print("still open: repeat this command later, with the same body")
    return 4


if __name__ == "__main__":
    address, token_file, body_file = sys.argv[1:]
    sys.exit(pay(address, Path(token_file).read_text(encoding="utf-8").strip(), Path(body_file).read_bytes()))
