"""What a service refuses, as the errors that the library raises."""

from __future__ import annotations

import json
from typing import Any, NoReturn

from discreet.errors import (
    BudgetExceeded,
    ClaimFailed,
    DiscreetError,
    Internal,
    InvalidInput,
    Unavailable,
    Unsupported,
)

KINDS: dict[str, type[DiscreetError]] = {
    kind.stored_name: kind for kind in (InvalidInput, BudgetExceeded, Unsupported, Unavailable, ClaimFailed, Internal)
}
LONGEST = 2000
UNREADABLE = "did not answer as a discreet service does; check the address"
REDIRECTED = (
    "answered with a redirect, which is not followed since the token would go along; give the address it leads to"
)
NO_TOKEN = "the token is not valid: ask the custodian for a new one"
NOT_THERE = (
    "there is no data set {!r} that this token may ask, or what was looked for in it is gone; client.datasets lists "
    "those that it may ask, and the custodian grants more"
)


def document_of(body: bytes) -> Any:
    """JSON as the service writes it; None where it is not."""
    try:
        return json.loads(body, parse_constant=_no_number)
    except (ValueError, RecursionError):
        return None


def error_of(status: int, body: bytes, address: str, token: str = "", dataset: str = "") -> DiscreetError:
    """The error of a reply that is none of those asked for, in the sentence of the service without the token.

    Who speaks HTTP is advised otherwise by the service than who speaks Python is here.
    """
    told = document_of(body)
    problem = told if isinstance(told, dict) else {}
    kind = KINDS.get(str(problem.get("kind")), _kind(status))
    said = problem.get("detail") or problem.get("title")
    if not isinstance(said, str):
        return _foreign(status)(f"{address} {_words(status)}")
    if problem.get("type") == "/problems/unauthenticated":
        return kind(NO_TOKEN)
    if problem.get("type") == "/problems/not-found" and dataset:
        return kind(NOT_THERE.format(dataset[:40]))
    plain = "".join(sign if sign.isprintable() else " " for sign in said[:LONGEST])
    return kind(plain.replace(token, "...") if token else plain)


def error_told(problem: object) -> DiscreetError:
    """The error that a document tells of, as that of a job that failed."""
    told = problem if isinstance(problem, dict) else {}
    status = told.get("status")
    return error_of(status if isinstance(status, int) else 500, json.dumps(told).encode(), "the service")


def _kind(status: int) -> type[DiscreetError]:
    """Where the service names no kind: what the caller may mend, what may pass, and what is wrong with the service."""
    if status == 429 or status > 500:
        return Unavailable
    return Internal if status == 500 else InvalidInput if 300 <= status < 500 else Unavailable


def _foreign(status: int) -> type[DiscreetError]:
    """Of a reply that is none of ours: what the status means to somebody else says nothing about the request."""
    return Unavailable if 400 <= status < 500 else _kind(status)


def _words(status: int) -> str:
    if 300 <= status < 400:
        return REDIRECTED
    if status == 429:
        return "was asked too often; wait, then ask again"
    if status > 500:
        return "is not available now; try later"
    return "had an internal error; nothing about the data is shown" if status == 500 else UNREADABLE


def _no_number(text: str) -> NoReturn:
    raise ValueError(text)
