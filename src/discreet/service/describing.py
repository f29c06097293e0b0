"""The OpenAPI document: what FastAPI finds out of the routes, and beside it refusals, access and examples."""

from __future__ import annotations

import re
from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from fastapi.routing import APIRoute

from discreet.service.documents import ProblemDocument
from discreet.service.examples import EXAMPLES
from discreet.service.problems import CATALOGUE, MEDIA_TYPE, Problem, Sort

OPEN = ("/health",)
ANYWHERE = (400, 405, 413, 429, 500, 503)
WITH_TOKEN = (401, 403, 404)
CHANGING = (409, 415, 422)
ALSO = {"/v1/datasets/{dataset}/ledger": (409,)}
TEXT = {"schema": {"type": "string"}}
HEADERS = {
    401: {"WWW-Authenticate": TEXT | {"description": "Bearer."}},
    405: {"Allow": TEXT | {"description": "The methods that can be used here."}},
    429: {"Retry-After": TEXT | {"description": "After how many seconds to send it again."}},
    503: {"Retry-After": TEXT | {"description": "After how many seconds to send it again."}},
}
TOKEN = {
    "type": "http",
    "scheme": "bearer",
    "description": "A token from the custodian, dsc_ and 43 characters; or, in a browser, the console's own cookie.",
}


def operation_id(method: str, path: str) -> str:
    """The name of an operation: its method and the words of its path."""
    return "_".join([method.lower(), *re.findall(r"[a-z]+", path.removeprefix("/v1"))])


def operation_of(route: APIRoute) -> str:
    """The same of a route."""
    return operation_id(min(route.methods or {"GET"}), route.path_format)


def link(method: str, path: str, **given: str) -> dict[str, Any]:
    """What can be done with a reply: an operation, and where in the request or the reply its parameters stand."""
    return {"operationId": operation_id(method, path), "parameters": given}


def described(api: FastAPI) -> dict[str, Any]:
    """The whole document."""
    found = get_openapi(
        title=api.title, version=api.version, description=api.description, routes=api.routes, tags=api.openapi_tags
    )
    schemas = found["components"]["schemas"]
    for unused in ("HTTPValidationError", "ValidationError"):
        schemas.pop(unused, None)
    schemas["ProblemDocument"] = ProblemDocument.model_json_schema()
    for name, example in EXAMPLES.items():
        schemas[name]["examples"] = [example]
    found["components"]["responses"] = {str(status): _refusal(status) for status in _statuses()}
    found["components"]["securitySchemes"] = {"token": TOKEN}
    for path, operations in found["paths"].items():
        for method, operation in operations.items():
            own = {status: told for status, told in operation["responses"].items() if status not in {"422", "default"}}
            operation["responses"] = _refusals(path, method) | own
            operation["summary"] = operation["description"].split(". ")[0].split("\n")[0].rstrip(".")
            operation["security"] = [] if path in OPEN else [{"token": []}]
    return found


def _statuses() -> list[int]:
    return sorted({one.status for one in CATALOGUE})


def _refusals(path: str, method: str) -> dict[str, Any]:
    """What an operation may be refused with."""
    possible = {*ANYWHERE, *ALSO.get(path, ()), *(() if path in OPEN else WITH_TOKEN)}
    possible |= set(() if method == "get" else CHANGING)
    return {str(status): {"$ref": f"#/components/responses/{status}"} for status in sorted(possible)}


def _refusal(status: int) -> dict[str, Any]:
    """One status: one line of the catalogue, or two."""
    sorts = [one for one in CATALOGUE if one.status == status]
    content = {"schema": {"$ref": "#/components/schemas/ProblemDocument"}, "examples": dict(map(_example, sorts))}
    told = {"description": "; ".join(one.title for one in sorts), "content": {MEDIA_TYPE: content}}
    return told | ({"headers": HEADERS[status]} if status in HEADERS else {})


def _example(sort: Sort) -> tuple[str, dict[str, Any]]:
    return sort.name, {"value": Problem(sort.name).document()}
