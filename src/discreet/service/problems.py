"""The fixed catalogue of what a service may say when it refuses: RFC 9457, one plain sentence, nothing of the data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from starlette.responses import JSONResponse

from discreet.errors import (
    BudgetExceeded,
    ClaimFailed,
    DiscreetError,
    Internal,
    InvalidInput,
    Unavailable,
    Unsupported,
)

MEDIA_TYPE = "application/problem+json"
INTERNAL = "an internal error; nothing about the data is shown"
LONGEST = 2_000


@dataclass(frozen=True, slots=True)
class Sort:
    """One line of the catalogue; `error` is the library's own class where the command line knows it too."""

    name: str
    status: int
    title: str
    error: type[DiscreetError] | None = None

    @property
    def uri(self) -> str:
        """What a program tells it by."""
        return f"/problems/{self.name}"


CATALOGUE = (
    Sort("invalid-input", 400, "The request cannot be understood or is not allowed", InvalidInput),
    Sort("unauthenticated", 401, "A valid token is needed"),
    Sort("budget-exceeded", 403, "Answering would break the promise", BudgetExceeded),
    Sort("forbidden", 403, "This is for others"),
    Sort("not-found", 404, "There is no such thing here, or it is not yours"),
    Sort("method-not-allowed", 405, "This cannot be done here"),
    Sort("conflict", 409, "The key was used for another request"),
    Sort("claim-failed", 409, "Something is not what was written", ClaimFailed),
    Sort("too-large", 413, "The request is too large"),
    Sort("unsupported-media-type", 415, "The body must be application/json"),
    Sort("unsupported", 422, "We cannot prove it, so we do not do it", Unsupported),
    Sort("rate-limited", 429, "Too many requests"),
    Sort("internal", 500, "Our fault", Internal),
    Sort("unavailable", 503, "Source, ledger or store do not answer now", Unavailable),
)
BY_NAME: Mapping[str, Sort] = {one.name: one for one in CATALOGUE}
SENTENCES = {
    "unauthenticated": "send a valid token as Authorization: Bearer dsc_...; ask the custodian for one",
    "forbidden": "this is for the custodian; ask one",
    "not-found": "there is nothing here that you may see; look at GET /v1/datasets",
    "method-not-allowed": "this cannot be done here; look at GET /openapi.json",
    "unsupported-media-type": "send the body as application/json",
    "internal": INTERNAL,
    "invalid-input": "the request cannot be read; send what GET /openapi.json says",
}

EXPLANATIONS = {
    "invalid-input": "The request, or the question in it, is mistaken. The detail names what to mend.",
    "unauthenticated": "No token came with the request, or one that is unknown, expired or revoked.",
    "budget-exceeded": "What is left of epsilon does not pay for it. Ask for less, or for what is stored already.",
    "forbidden": "The token is valid, and this is not for its role; or a form came from another site.",
    "not-found": "It is not there, or not granted to you: the two are told alike, so that names stay secret.",
    "method-not-allowed": "The address is right, the method is not; the header Allow lists those that are.",
    "conflict": "An Idempotency-Key stands for one request. Use a new one for another request.",
    "claim-failed": "The ledger or a file is not what was written. The custodian should look at it.",
    "too-large": "The request has more bytes than the custodian allows.",
    "unsupported-media-type": "Bodies are JSON, and are sent as application/json.",
    "unsupported": "It is well formed, and no proof covers it, so it is not answered.",
    "rate-limited": "Too many requests came in a row. Wait as long as the header Retry-After says.",
    "internal": "Something went wrong on our side. Sent again with the same Idempotency-Key it is not paid for twice.",
    "unavailable": "Something that is needed does not answer now. Send it again with the same Idempotency-Key.",
}


class Problem(Exception):
    """A refusal on its way out."""

    def __init__(self, name: str, detail: str = "", headers: Mapping[str, str] | None = None) -> None:
        super().__init__(name)
        self.name, self.detail, self.headers = name, detail, dict(headers or {})

    def document(self) -> dict[str, object]:
        """The JSON of it."""
        sort = BY_NAME[self.name]
        error = sort.error
        told: dict[str, object] = {"type": sort.uri, "title": sort.title, "status": sort.status}
        told["detail"] = (self.detail or SENTENCES.get(self.name, sort.title))[:LONGEST]
        return told | {
            "kind": None if error is None else error.stored_name,
            "exit": None if error is None else error.exit_code,
        }

    def response(self) -> JSONResponse:
        """The reply."""
        headers = dict(self.headers)
        if self.name == "unauthenticated":
            headers["WWW-Authenticate"] = "Bearer"
        if self.name in {"unavailable", "rate-limited"}:
            headers.setdefault("Retry-After", "1")
        status = BY_NAME[self.name].status
        return JSONResponse(self.document(), status, headers, MEDIA_TYPE)


def problem_of(error: Exception) -> Problem:
    """Any failure as one of the catalogue; what is not ours leaves without its text."""
    if isinstance(error, Problem):
        return error
    if not isinstance(error, DiscreetError) or isinstance(error, Internal):
        return Problem("internal")
    sort = next((one for one in CATALOGUE if one.error is not None and isinstance(error, one.error)), None)
    return Problem("internal") if sort is None else Problem(sort.name, " ".join(str(error).split()))


def explained(name: str) -> dict[str, object]:
    """What a type of problem is; refused where there is no such type."""
    if name not in BY_NAME:
        raise not_found()
    sort = BY_NAME[name]
    return {"type": sort.uri, "title": sort.title, "status": sort.status, "explanation": EXPLANATIONS[name]}


def not_found() -> Problem:
    """The one reply for what is not there and for what is not yours."""
    return Problem("not-found")


def problem_of_status(status: int) -> Problem:
    """A framework's refusal as one of the catalogue."""
    sort = next((one for one in CATALOGUE if one.status == status), BY_NAME["invalid-input"])
    return Problem(sort.name)
