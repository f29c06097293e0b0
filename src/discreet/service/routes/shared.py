"""What routes have in common: refusals as OpenAPI tells them, and replies as JSON that is ready."""

from __future__ import annotations

from typing import Any

from starlette.responses import JSONResponse, Response

from discreet.service.documents import ProblemDocument
from discreet.service.problems import CATALOGUE, MEDIA_TYPE

EVERYWHERE = (400, 401, 403, 404, 405, 409, 413, 415, 422, 429, 500, 503)
TITLES = {one.status: one.title for one in CATALOGUE}


def refusals(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """How OpenAPI tells of refusals."""
    content = {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/ProblemDocument"}}}
    return {
        status: {"description": TITLES[status], "content": content, "model": ProblemDocument}
        for status in statuses or EVERYWHERE
    }


def reply(model: type, example: object = None) -> dict[str, Any]:
    """How OpenAPI tells of a reply that is written without the model's help."""
    told: dict[str, Any] = {"model": model}
    return told if example is None else told | {"content": {"application/json": {"example": example}}}


def ready(text: str, status: int = 200, **headers: str) -> Response:
    """A reply of JSON that is text already."""
    return Response(text, status, headers, "application/json")


def told(document: object, status: int = 200, **headers: str) -> JSONResponse:
    """A reply of JSON."""
    return JSONResponse(document, status, headers)
