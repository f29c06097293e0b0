"""The OpenAPI document: what FastAPI derives, with refusals, security and the examples of replies."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from fastapi.routing import APIRoute

from discreet.service.api.models import ProblemDocument
from discreet.service.problems import MEDIA_TYPE, PROBLEM_TYPES, HttpProblem

EXAMPLES: Mapping[str, dict[str, object]] = json.loads(
    (Path(__file__).parent / "api" / "examples.json").read_text(encoding="utf-8")
)
"""An example of every document that is a reply, by the name of its model."""
OPEN_PATHS = ("/health",)
REHEARSAL_PATH = "/v1/rehearsal/"
COMMON_STATUSES = (400, 405, 413, 429, 500, 503)
TOKEN_STATUSES = (401, 403, 404)
WRITE_STATUSES = (409, 415, 422)
EXTRA_STATUSES = {"/v1/datasets/{dataset}/ledger": (409,)}
TEXT_SCHEMA = {"schema": {"type": "string"}}
REFUSAL_HEADERS = {
    401: {"WWW-Authenticate": TEXT_SCHEMA | {"description": "Bearer."}},
    405: {"Allow": TEXT_SCHEMA | {"description": "The methods that can be used here."}},
    429: {"Retry-After": TEXT_SCHEMA | {"description": "After how many seconds to send it again."}},
    503: {"Retry-After": TEXT_SCHEMA | {"description": "After how many seconds to send it again."}},
}
TOKEN_SCHEME = {
    "type": "http",
    "scheme": "bearer",
    "description": "A token from the custodian, dsc_ and 43 characters; or, in a browser, the console's own cookie.",
}


def build_operation_id(method: str, path: str) -> str:
    """Name an operation by its method and the words of its path."""
    return "_".join([method.lower(), *re.findall(r"[a-z]+", path.removeprefix("/v1"))])


def get_operation_id(route: APIRoute) -> str:
    """Name the operation of a route."""
    return build_operation_id(min(route.methods or {"GET"}), route.path_format)


def build_link(method: str, path: str, **parameters: str) -> dict[str, Any]:
    """Link a reply to an operation, with where in the request or the reply its parameters stand."""
    return {"operationId": build_operation_id(method, path), "parameters": parameters}


def build_openapi(api: FastAPI) -> dict[str, Any]:
    """Build the whole document."""
    document = get_openapi(
        title=api.title, version=api.version, description=api.description, routes=api.routes, tags=api.openapi_tags
    )
    schemas = document["components"]["schemas"]
    for unused in ("HTTPValidationError", "ValidationError"):
        schemas.pop(unused, None)
    schemas["ProblemDocument"] = ProblemDocument.model_json_schema()
    for name, example in EXAMPLES.items():
        schemas[name]["examples"] = [example]
    statuses = sorted({problem_type.status for problem_type in PROBLEM_TYPES})
    document["components"]["responses"] = {str(status): _describe_refusal(status) for status in statuses}
    document["components"]["securitySchemes"] = {"token": TOKEN_SCHEME}
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            for status in ("422", "default"):
                operation["responses"].pop(status, None)
            operation["responses"] = _list_refusals(path, method) | operation["responses"]
            operation["summary"] = operation["description"].split(". ")[0].split("\n")[0].rstrip(".")
            operation["security"] = [] if path in OPEN_PATHS else [{"token": []}]
            if path.startswith(REHEARSAL_PATH):
                _link_to_rehearsals(operation)
    return document


def _link_to_rehearsals(operation: dict[str, Any]) -> None:
    """A route and its rehearsal declare the same links: those of a rehearsal lead to rehearsals."""
    for response in operation["responses"].values():
        for link in response.get("links", {}).values():
            link["operationId"] = re.sub("^([a-z]+)_datasets_", r"\1_rehearsal_datasets_", link["operationId"])


def _list_refusals(path: str, method: str) -> dict[str, Any]:
    statuses = {*COMMON_STATUSES, *EXTRA_STATUSES.get(path, ()), *(() if path in OPEN_PATHS else TOKEN_STATUSES)}
    statuses |= set(() if method == "get" else WRITE_STATUSES)
    return {str(status): {"$ref": f"#/components/responses/{status}"} for status in sorted(statuses)}


def _describe_refusal(status: int) -> dict[str, Any]:
    """A status stands for one or two types of the catalogue."""
    titles = {problem_type.name: problem_type.title for problem_type in PROBLEM_TYPES if problem_type.status == status}
    examples = {name: {"value": HttpProblem(name).to_json()} for name in titles}
    content = {"schema": {"$ref": "#/components/schemas/ProblemDocument"}, "examples": examples}
    response = {"description": "; ".join(titles.values()), "content": {MEDIA_TYPE: content}}
    return response | ({"headers": REFUSAL_HEADERS[status]} if status in REFUSAL_HEADERS else {})
