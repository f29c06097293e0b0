"""The OpenAPI document: what FastAPI finds out of the routes, and beside it refusals, access and examples."""

from __future__ import annotations

import re
from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from fastapi.routing import APIRoute

from discreet.service.documents import ProblemDocument
from discreet.service.examples import EXAMPLES
from discreet.service.problems import MEDIA_TYPE, PROBLEM_TYPES, HttpProblem, ProblemType

OPEN_PATHS = ("/health",)
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
    """The name of an operation: its method and the words of its path."""
    return "_".join([method.lower(), *re.findall(r"[a-z]+", path.removeprefix("/v1"))])


def get_operation_id(route: APIRoute) -> str:
    """The same of a route."""
    return build_operation_id(min(route.methods or {"GET"}), route.path_format)


def build_link(method: str, path: str, **parameters: str) -> dict[str, Any]:
    """What can be done with a reply: an operation, and where in the request or the reply its parameters stand."""
    return {"operationId": build_operation_id(method, path), "parameters": parameters}


def build_openapi(api: FastAPI) -> dict[str, Any]:
    """The whole document."""
    document = get_openapi(
        title=api.title, version=api.version, description=api.description, routes=api.routes, tags=api.openapi_tags
    )
    schemas = document["components"]["schemas"]
    for unused in ("HTTPValidationError", "ValidationError"):
        schemas.pop(unused, None)
    schemas["ProblemDocument"] = ProblemDocument.model_json_schema()
    for name, example in EXAMPLES.items():
        schemas[name]["examples"] = [example]
    document["components"]["responses"] = {str(status): _describe_refusal(status) for status in _list_statuses()}
    document["components"]["securitySchemes"] = {"token": TOKEN_SCHEME}
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            responses = {
                status: response
                for status, response in operation["responses"].items()
                if status not in {"422", "default"}
            }
            operation["responses"] = _list_refusals(path, method) | responses
            operation["summary"] = operation["description"].split(". ")[0].split("\n")[0].rstrip(".")
            operation["security"] = [] if path in OPEN_PATHS else [{"token": []}]
    return document


def _list_statuses() -> list[int]:
    return sorted({problem_type.status for problem_type in PROBLEM_TYPES})


def _list_refusals(path: str, method: str) -> dict[str, Any]:
    """What an operation may be refused with."""
    statuses = {*COMMON_STATUSES, *EXTRA_STATUSES.get(path, ()), *(() if path in OPEN_PATHS else TOKEN_STATUSES)}
    statuses |= set(() if method == "get" else WRITE_STATUSES)
    return {str(status): {"$ref": f"#/components/responses/{status}"} for status in sorted(statuses)}


def _describe_refusal(status: int) -> dict[str, Any]:
    """One status: one line of the catalogue, or two."""
    problem_types = [problem_type for problem_type in PROBLEM_TYPES if problem_type.status == status]
    content = {
        "schema": {"$ref": "#/components/schemas/ProblemDocument"},
        "examples": dict(map(_build_example, problem_types)),
    }
    response = {
        "description": "; ".join(problem_type.title for problem_type in problem_types),
        "content": {MEDIA_TYPE: content},
    }
    return response | ({"headers": REFUSAL_HEADERS[status]} if status in REFUSAL_HEADERS else {})


def _build_example(problem_type: ProblemType) -> tuple[str, dict[str, Any]]:
    return problem_type.name, {"value": HttpProblem(problem_type.name).to_json()}
