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

ERROR_CLASSES: dict[str, type[DiscreetError]] = {
    kind.stored_name: kind for kind in (InvalidInput, BudgetExceeded, Unsupported, Unavailable, ClaimFailed, Internal)
}
MAX_MESSAGE_LENGTH = 2000
UNREADABLE = "did not answer as a discreet service does; check the address"
REDIRECT_REFUSED = (
    "answered with a redirect, which is not followed since the token would go along; give the address it leads to"
)
INVALID_TOKEN = "the token is not valid: ask the custodian for a new one"
DATASET_NOT_FOUND = (
    "there is no data set {!r} that this token may ask, or what was looked for in it is gone; client.datasets lists "
    "those that it may ask, and the custodian grants more"
)


def parse_reply_json(body: bytes) -> Any:
    """JSON as the service writes it; None where it is not."""
    try:
        return json.loads(body, parse_constant=_refuse_constant)
    except (ValueError, RecursionError):
        return None


def build_reply_error(status: int, body: bytes, address: str, token: str = "", dataset: str = "") -> DiscreetError:
    """The error of a reply that is none of those asked for, in the sentence of the service without the token.

    Who speaks HTTP is advised otherwise by the service than who speaks Python is here.
    """
    document = parse_reply_json(body)
    problem = document if isinstance(document, dict) else {}
    error_class = ERROR_CLASSES.get(str(problem.get("kind")), _get_error_class(status))
    detail = problem.get("detail") or problem.get("title")
    if not isinstance(detail, str):
        return _get_foreign_error_class(status)(f"{address} {_describe_status(status)}")
    if problem.get("type") == "/problems/unauthenticated":
        return error_class(INVALID_TOKEN)
    if problem.get("type") == "/problems/not-found" and dataset:
        return error_class(DATASET_NOT_FOUND.format(dataset[:40]))
    message = "".join(character if character.isprintable() else " " for character in detail[:MAX_MESSAGE_LENGTH])
    return error_class(message.replace(token, "...") if token else message)


def build_problem_error(problem: object) -> DiscreetError:
    """The error that a document tells of, as that of a job that failed."""
    details = problem if isinstance(problem, dict) else {}
    status = details.get("status")
    return build_reply_error(status if isinstance(status, int) else 500, json.dumps(details).encode(), "the service")


def _get_error_class(status: int) -> type[DiscreetError]:
    """Where the service names no kind: what the caller may mend, what may pass, and what is wrong with the service."""
    if status == 429 or status > 500:
        return Unavailable
    return Internal if status == 500 else InvalidInput if 300 <= status < 500 else Unavailable


def _get_foreign_error_class(status: int) -> type[DiscreetError]:
    """Of a reply that is none of ours: what the status means to somebody else says nothing about the request."""
    return Unavailable if 400 <= status < 500 else _get_error_class(status)


def _describe_status(status: int) -> str:
    if 300 <= status < 400:
        return REDIRECT_REFUSED
    if status == 429:
        return "was asked too often; wait, then ask again"
    if status > 500:
        return "is not available now; try later"
    return "had an internal error; nothing about the data is shown" if status == 500 else UNREADABLE


def _refuse_constant(text: str) -> NoReturn:
    raise ValueError(text)
