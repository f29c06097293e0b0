"""What routes have in common: replies as OpenAPI tells of them, and replies as JSON that is ready."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Header, Path
from starlette.responses import JSONResponse, Response

Id = Annotated[str, Path(pattern="^[0-9a-f]{32}$", description="An id, as a reply told it.")]
IdempotencyKey = Annotated[
    str | None,
    Header(
        alias="Idempotency-Key",
        description="A name for this request: a retry with it never pays twice.",
        pattern="^[ -~]{1,200}$",
    ),
]
KEY_HEADERS = {
    "Idempotency-Key": {
        "description": "The name of this request: as it was sent, or a new one; a retry with it never pays twice.",
        "schema": {"type": "string"},
    }
}


def describe_reply(model: type, **extras: Any) -> dict[str, Any]:
    """How OpenAPI tells of a reply that is written without the model's help; `more` are its links and headers."""
    return {"model": model, "description": " ".join((model.__doc__ or "").split())} | extras


def describe_text_reply(kind: str, description: str) -> dict[str, Any]:
    """The same of a reply that is not JSON."""
    return {"description": description, "content": {kind: {"schema": {"type": "string"}}}}


def reply_with_text(text: str, status: int = 200, **headers: str) -> Response:
    """A reply of JSON that is text already."""
    return Response(text, status, headers, "application/json")


def reply_with_json(document: object, status: int = 200, **headers: str) -> JSONResponse:
    """A reply of JSON."""
    return JSONResponse(document, status, headers)
