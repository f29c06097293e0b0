"""The page of routes: the service's own OpenAPI document, in words."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from documentation.markdown import format_block, format_code, format_table, join_parts
from fastapi.routing import APIRoute, iter_route_contexts

from discreet.sample import write_registry
from discreet.service.api.dependencies import get_dataset_context, get_managed_context, get_principal, require_custodian
from discreet.service.app import make_app
from discreet.service.config import Config, DatasetConfig
from discreet.service.openapi import OPEN_PATHS

Document = Mapping[str, Any]
CUSTODIAN, GRANTED, ANYBODY = (
    "custodians",
    "whoever may ask the data set",
    "everybody with a token",
)
WHO = {
    require_custodian: CUSTODIAN,
    get_managed_context: CUSTODIAN,
    get_dataset_context: GRANTED,
    get_principal: ANYBODY,
}
"""Who passes a dependency of a route."""
REHEARSAL = "/v1/rehearsal"


ABOUT = (
    "`GET /openapi.json` tells all of this to programs, and [the client](../client.md) calls it for you. Send the "
    "token as `Authorization: Bearer dsc_...`, bodies as `application/json`. A request that may be paid for can have "
    "an `Idempotency-Key`: sent again with the same key it is never paid for twice. Refusals are "
    "[problems](errors.md#problems-of-the-service)."
)


@cache
def build_service_document() -> tuple[Document, dict[tuple[str, str], str]]:
    """The OpenAPI document, and who may use which route, of a service that is made up and closed again."""
    with TemporaryDirectory() as name:
        folder = Path(name)
        sample = DatasetConfig(write_registry(folder, patients=1), 1.0)
        app = make_app(Config((sample,), folder=folder / "service", store=str(folder / "service.db")))
        try:
            routes = [one.route for one in iter_route_contexts(app.api.routes)]
            allowed = {
                (method, one.path_format): _describe_access(one)
                for one in routes
                if isinstance(one, APIRoute)
                for method in one.methods
            }
            return app.api.openapi(), allowed
        finally:
            app.service.close()


def _describe_access(route: APIRoute) -> str:
    """The strictest of what a route depends on."""
    audiences = {WHO[one.call] for one in route.dependant.dependencies if one.call in WHO}
    if route.path in OPEN_PATHS:
        return "everybody, without a token"
    return next((who for who in (CUSTODIAN, GRANTED, ANYBODY) if who in audiences), ANYBODY)


def list_operations(document: Document) -> Iterator[tuple[str, str, Document]]:
    """Every route: method, path, what is said of it."""
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            yield method.upper(), path, operation


def list_undocumented(document: Document) -> list[str]:
    """Routes, parameters and fields of bodies without a description."""
    silent: list[str] = []
    for method, path, operation in list_operations(document):
        name = f"{method} {path}"
        silent += [] if operation.get("description") else [name]
        silent += [f"{name} {one['name']}" for one in operation.get("parameters", ()) if not one.get("description")]
        for body in _list_bodies(document, operation):
            fields = body.get("properties", {})
            silent += [f"{name} {field}" for field, told in fields.items() if not told.get("description")]
    return list(dict.fromkeys(silent))


def format_page() -> str:
    """The whole page."""
    document, allowed = build_service_document()
    shown_operations = [
        (method, path, one) for method, path, one in list_operations(document) if not path.startswith(REHEARSAL)
    ]
    rehearsal_paths = [path for _, path, _ in list_operations(document) if path.startswith(REHEARSAL)]
    lines = [
        (f"[{format_code(f'{method} {path}')}](#{one['operationId']})", one["summary"])
        for method, path, one in shown_operations
    ]
    return join_parts(
        "# HTTP",
        document["info"]["description"],
        ABOUT,
        format_table(("route", "what it does"), lines),
        "## Rehearsal",
        "These are the same as those without `/rehearsal`, on a fictitious table, at no cost:",
        "\n".join(f"- {format_code(path)}" for path in dict.fromkeys(rehearsal_paths)),
        *(
            _format_section(document, method, path, one, allowed[method, path])
            for method, path, one in shown_operations
        ),
    )


def _format_section(document: Document, method: str, path: str, operation: Document, who: str) -> str:
    body, bodies = _find_body(document, operation), _list_bodies(document, operation)
    return join_parts(
        f"## {format_code(f'{method} {path}')} {{ #{operation['operationId']} }}",
        operation["description"],
        f"**Who may:** {who}.",
        format_table(("parameter", "in", "what"), [_format_parameter(one) for one in operation.get("parameters", ())]),
        *(part for one in bodies for part in _format_body(one, one.get("description", "") if len(bodies) > 1 else "")),
        *(_format_example("The body, for example:", one) for one in body.get("examples", ())[:1]),
        *(_format_reply(document, status, one) for status, one in operation["responses"].items() if status < "4"),
        _format_refusals(document, operation),
    )


def _resolve_reference(document: Document, node: Document) -> Document:
    place = node.get("$ref", "")
    target: Any = document
    for part in place.split("/")[1:]:
        target = target[part]
    return target if place else node


def _find_body(document: Document, operation: Document) -> Document:
    content = operation.get("requestBody", {}).get("content", {})
    return _resolve_reference(document, next(iter(content.values()), {}).get("schema", {}))


def _list_bodies(document: Document, operation: Document) -> list[Document]:
    """The body of an operation; where it is one of several, all of them."""
    body = _find_body(document, operation)
    return [_resolve_reference(document, one) for one in body.get("oneOf", ())] or [body]


def _format_body(body: Document, about: str) -> tuple[str, str]:
    return about, format_table(("field of the body", "kind", "unless said", "what"), _format_fields(body))


def _format_parameter(one: Document) -> tuple[str, str, str]:
    return format_code(one["name"]), one["in"] + (", needed" if one.get("required") else ""), one.get("description", "")


def _format_fields(body: Document) -> Iterator[tuple[str, str, str, str]]:
    needed = body.get("required", ())
    for name, field_schema in body.get("properties", {}).items():
        default = field_schema.get("default")
        unless = "needed" if name in needed else "" if default is None else format_code(json.dumps(default))
        yield format_code(name), _format_kind(field_schema), unless, field_schema.get("description", "")


def _format_kind(field_schema: Document) -> str:
    """The kinds of a field, null aside; what is fixed is shown as it is."""
    kinds = [_format_kind(one) for one in field_schema.get("anyOf", ())]
    if "enum" in field_schema or "const" in field_schema:
        kinds = [format_code(one) for one in field_schema.get("enum", [field_schema.get("const")])]
    if field_schema.get("type") == "array":
        kinds = [f"list of {_format_kind(field_schema['items'])}" if field_schema.get("items") else "list"]
    return " or ".join(dict.fromkeys(kind for kind in kinds or [field_schema.get("type", "any")] if kind != "null"))


def _format_reply(document: Document, status: str, reply: Document) -> str:
    schema = _resolve_reference(document, next(iter(reply.get("content", {}).values()), {}).get("schema", {}))
    status_line = f"**{status}.** {reply['description']}"
    return join_parts(status_line, *(_format_example("", one) for one in schema.get("examples", ())[:1]))


def _format_example(words: str, value: object) -> str:
    return join_parts(words, format_block(json.dumps(value, indent=2, ensure_ascii=False), "json"))


def _format_refusals(document: Document, operation: Document) -> str:
    statuses = [status for status in operation["responses"] if status >= "4"]
    names = [
        name
        for status in statuses
        for name in _list_problem_names(_resolve_reference(document, operation["responses"][status]))
    ]
    return f"**Problems:** {', '.join(format_code(name) for name in names)}."


def _list_problem_names(reply: Document) -> Iterator[str]:
    for content in reply.get("content", {}).values():
        yield from content.get("examples", {})
