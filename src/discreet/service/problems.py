"""The fixed catalogue of refusals: RFC 9457, one plain sentence each, nothing of the data."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from pydantic import BaseModel, ConfigDict
from starlette.responses import JSONResponse

from discreet.errors import (
    BudgetExceeded,
    ClaimFailed,
    DiscreetError,
    Internal,
    InvalidInput,
    SqlPosition,
    Unavailable,
    Unsupported,
)
from discreet.json_fields import JsonWritable
from discreet.suggestions import find_similar_names

MEDIA_TYPE = "application/problem+json"
INTERNAL_DETAIL = "an internal error; nothing about the data is shown"
MAX_DETAIL_LENGTH = 2_000


@dataclass(frozen=True, slots=True)
class ProblemType(JsonWritable):
    """One line of the catalogue; `error` is the library's own class where the command line knows it too."""

    name: str
    status: int
    title: str
    error: type[DiscreetError] | None = None

    _json_fields = "type=uri title status"

    @property
    def uri(self) -> str:
        """The identifier of the type, for programs."""
        return f"/problems/{self.name}"


PROBLEM_TYPES = (
    ProblemType("invalid-input", 400, "The request cannot be understood or is not allowed", InvalidInput),
    ProblemType("unauthenticated", 401, "A valid token is needed"),
    ProblemType("budget-exceeded", 403, "Answering would break the promise", BudgetExceeded),
    ProblemType("forbidden", 403, "This is for others"),
    ProblemType("not-found", 404, "There is no such thing here, or it is not yours"),
    ProblemType("method-not-allowed", 405, "This cannot be done here"),
    ProblemType("conflict", 409, "The key was used for another request"),
    ProblemType("claim-failed", 409, "Something is not what was written", ClaimFailed),
    ProblemType("too-large", 413, "The request is too large"),
    ProblemType("unsupported-media-type", 415, "The body must be application/json"),
    ProblemType("unsupported", 422, "We cannot prove it, so we do not do it", Unsupported),
    ProblemType("rate-limited", 429, "Too many requests"),
    ProblemType("internal", 500, "Our fault", Internal),
    ProblemType("unavailable", 503, "Source, ledger or store do not answer now", Unavailable),
)
PROBLEM_TYPES_BY_NAME: Mapping[str, ProblemType] = {problem_type.name: problem_type for problem_type in PROBLEM_TYPES}
DEFAULT_DETAILS = {
    "unauthenticated": "send a valid token as Authorization: Bearer dsc_...; ask the custodian for one",
    "forbidden": "this is for the custodian; ask one",
    "not-found": "there is nothing here that you may see; look at GET /v1/datasets",
    "method-not-allowed": "this cannot be done here; look at GET /openapi.json",
    "unsupported-media-type": "send the body as application/json",
    "internal": INTERNAL_DETAIL,
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


PROBLEM_EXAMPLE: Mapping[str, str | int | None] = {
    "type": "/problems/budget-exceeded",
    "title": "Answering would break the promise",
    "status": 403,
    "detail": "this answer costs epsilon 1, and 0.4 is left to ann",
    "kind": "BudgetExceeded",
    "exit": 3,
    "code": "budget-exceeded",
    "position": None,
}


class PositionDocument(BaseModel):
    """The place in the SQL that a problem is about; lines and columns count from 1.

    `text` is the line, or of a long line the part around the place, which begins at `text_column` of it; `marked` has
    it with carets in a second line.
    """

    line: int
    column: int
    length: int
    text: str
    text_column: int
    marked: str


class ProblemDocument(BaseModel):
    """RFC 9457: what went wrong, from a fixed catalogue."""

    model_config = ConfigDict(json_schema_extra={"examples": [dict(PROBLEM_EXAMPLE)]})
    type: str
    title: str
    status: int
    detail: str
    kind: str | None
    exit: int | None
    code: str
    position: PositionDocument | None


class HttpProblem(Exception):
    """A refusal: a type of the catalogue, with its detail and headers, and with the code and position of an error."""

    def __init__(
        self,
        name: str,
        detail: str = "",
        headers: Mapping[str, str] | None = None,
        code: str = "",
        position: SqlPosition | None = None,
    ) -> None:
        super().__init__(name)
        self.name, self.detail, self.headers = name, detail, dict(headers or {})
        self.code, self.position = code or name, position

    def to_json(self) -> dict[str, object]:
        """Write the problem as JSON."""
        problem_type = PROBLEM_TYPES_BY_NAME[self.name]
        error = problem_type.error
        detail = (self.detail or DEFAULT_DETAILS.get(self.name, problem_type.title))[:MAX_DETAIL_LENGTH]
        kind, exit_code = (None, None) if error is None else (error.stored_name, error.exit_code)
        position = self.position and self.position.to_json()
        details = {"detail": detail, "kind": kind, "exit": exit_code, "code": self.code, "position": position}
        return problem_type.to_json() | details

    def to_response(self) -> JSONResponse:
        """Build the reply, with the headers of its type."""
        headers = dict(self.headers)
        if self.name == "unauthenticated":
            headers["WWW-Authenticate"] = "Bearer"
        if self.name in {"unavailable", "rate-limited"}:
            headers.setdefault("Retry-After", "1")
        status = PROBLEM_TYPES_BY_NAME[self.name].status
        return JSONResponse(self.to_json(), status, headers, MEDIA_TYPE)


def problem_from_error(error: Exception) -> HttpProblem:
    """Turn any error into one of the catalogue; one that is not ours leaves without its text."""
    if isinstance(error, HttpProblem):
        return error
    if not isinstance(error, DiscreetError) or isinstance(error, Internal):
        return HttpProblem("internal")
    problem_type = next((kind for kind in PROBLEM_TYPES if kind.error and isinstance(error, kind.error)), None)
    if problem_type is None:
        return HttpProblem("internal")
    return HttpProblem(problem_type.name, " ".join(str(error).split()), None, error.code, error.position)


def explain_problem(name: str) -> dict[str, object]:
    """Explain a type of problem; refused where there is no such type."""
    if name not in PROBLEM_TYPES_BY_NAME:
        raise build_not_found()
    return PROBLEM_TYPES_BY_NAME[name].to_json() | {"explanation": EXPLANATIONS[name]}


def build_not_found(name: str = "", visible_names: Collection[str] = ()) -> HttpProblem:
    """Build the one refusal for what is not there and for what is not the sender's.

    It may suggest a similar name of those that the sender sees, and so depends on nothing that the sender does not.
    """
    similar_names = find_similar_names(name, visible_names)
    hint = f"; did you mean {' or '.join(map(repr, similar_names))}?" if similar_names else ""
    return HttpProblem("not-found", f"{DEFAULT_DETAILS['not-found']}{hint}" if hint else "")


def problem_from_status(status: int) -> HttpProblem:
    """Turn a framework's refusal into one of the catalogue."""
    names = (problem_type.name for problem_type in PROBLEM_TYPES if problem_type.status == status)
    return HttpProblem(next(names, "invalid-input"))
