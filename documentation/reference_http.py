"""The page of routes: the service's own OpenAPI document, in words."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from documentation.markdown import block, code, page, table
from documentation.reference_cli import commands
from fastapi.routing import APIRoute, iter_route_contexts

from discreet.sample import write_registry
from discreet.service.api.dependencies import get_dataset_context, get_managed_context, get_principal, require_custodian
from discreet.service.app import make_app
from discreet.service.config import build_sample_config
from discreet.service.openapi import OPEN_PATHS

Document = Mapping[str, Any]
CUSTODIAN, GRANTED, ANYBODY = "custodians", "whoever may ask the data set", "everybody with a token"
WHO = {
    require_custodian: CUSTODIAN,
    get_managed_context: CUSTODIAN,
    get_dataset_context: GRANTED,
    get_principal: ANYBODY,
}
"""Who passes a dependency of a route."""
REHEARSAL = "/v1/rehearsal"
OPTIONS = {"columns": "column", "pairs": "pair", "ks": "k_of"}
"""What a field of a release is called on the command line, where that is another name."""


ABOUT = (
    "`GET /openapi.json` tells all of this to programs, and [the client](../client.md) calls it for you. Send the "
    "token as `Authorization: Bearer dsc_...`, bodies as `application/json`. A request that may be paid for can have "
    "an `Idempotency-Key`: sent again with the same key it is never paid for twice. Refusals are "
    "[problems](errors.md#problems-of-the-service)."
)


@cache
def service() -> tuple[Document, dict[tuple[str, str], str]]:
    """The OpenAPI document, and who may use which route, of a service that is made up and closed again."""
    with TemporaryDirectory() as name:
        folder = Path(name)
        app = make_app(build_sample_config(folder, write_registry(folder, patients=1)))
        try:
            routes = [one.route for one in iter_route_contexts(app.api.routes)]
            allowed = {
                (method, one.path_format): _who(one)
                for one in routes
                if isinstance(one, APIRoute)
                for method in one.methods
            }
            return app.api.openapi(), allowed
        finally:
            app.service.close()


def _who(route: APIRoute) -> str:
    """The strictest of what a route depends on."""
    found = {WHO[one.call] for one in route.dependant.dependencies if one.call in WHO}
    if route.path in OPEN_PATHS:
        return "everybody, without a token"
    return next((who for who in (CUSTODIAN, GRANTED, ANYBODY) if who in found), ANYBODY)


def operations(document: Document) -> Iterator[tuple[str, str, Document]]:
    """Every route: method, path, what is said of it."""
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            yield method.upper(), path, operation


def undocumented(document: Document) -> list[str]:
    """Routes, parameters and fields of bodies without a description."""
    silent: list[str] = []
    for method, path, operation in operations(document):
        name = f"{method} {path}"
        silent += [] if operation.get("description") else [name]
        silent += [f"{name} {one['name']}" for one in operation.get("parameters", ()) if not one.get("description")]
        fields = _body(document, operation).get("properties", {})
        silent += [f"{name} {field}" for field, told in fields.items() if not described(field, told)]
    return list(dict.fromkeys(silent))


def text() -> str:
    """The whole page."""
    document, allowed = service()
    told = [(method, path, one) for method, path, one in operations(document) if not path.startswith(REHEARSAL)]
    rehearsed = [path for _, path, _ in operations(document) if path.startswith(REHEARSAL)]
    lines = [(f"[{code(f'{method} {path}')}](#{one['operationId']})", one["summary"]) for method, path, one in told]
    return page(
        "# HTTP",
        document["info"]["description"],
        ABOUT,
        table(("route", "what it does"), lines),
        "## Rehearsal",
        "These are the same as those without `/rehearsal`, on a made-up table, and for nothing:",
        "\n".join(f"- {code(path)}" for path in dict.fromkeys(rehearsed)),
        *(_section(document, method, path, one, allowed[method, path]) for method, path, one in told),
    )


def _section(document: Document, method: str, path: str, operation: Document, who: str) -> str:
    body = _body(document, operation)
    return page(
        f"## {code(f'{method} {path}')} {{ #{operation['operationId']} }}",
        operation["description"],
        f"**Who may:** {who}.",
        table(("parameter", "in", "what"), [_parameter(one) for one in operation.get("parameters", ())]),
        table(("field of the body", "kind", "unless said", "what"), _fields(body)),
        *(_example("The body, for example:", one) for one in body.get("examples", ())[:1]),
        *(_reply(document, status, one) for status, one in operation["responses"].items() if status < "4"),
        _refusals(document, operation),
    )


def _resolved(document: Document, node: Document) -> Document:
    place = node.get("$ref", "")
    found: Any = document
    for part in place.split("/")[1:]:
        found = found[part]
    return found if place else node


def _body(document: Document, operation: Document) -> Document:
    content = operation.get("requestBody", {}).get("content", {})
    return _resolved(document, next(iter(content.values()), {}).get("schema", {}))


def _parameter(one: Document) -> tuple[str, str, str]:
    return code(one["name"]), one["in"] + (", needed" if one.get("required") else ""), one.get("description", "")


def _fields(body: Document) -> Iterator[tuple[str, str, str, str]]:
    needed = body.get("required", ())
    for name, told in body.get("properties", {}).items():
        default = told.get("default")
        unless = "needed" if name in needed else "" if default is None else code(json.dumps(default))
        yield code(name), _kind(told), unless, described(name, told)


def described(field: str, told: Document) -> str:
    """What a field is; those of releases are the options of `discreet publish`, and said there."""
    return told.get("description") or _publish().get(OPTIONS.get(field, field), "")


@cache
def _publish() -> dict[str, str]:
    publish = dict(commands())["discreet publish"]
    return {(one.name or ""): one.help or "" for one in publish.params}


def _kind(told: Document) -> str:
    """The kinds of a field, null aside; what is fixed is shown as it is."""
    kinds = [_kind(one) for one in told.get("anyOf", ())]
    if "enum" in told or "const" in told:
        kinds = [code(one) for one in told.get("enum", [told.get("const")])]
    if told.get("type") == "array":
        kinds = [f"list of {_kind(told['items'])}" if told.get("items") else "list"]
    return " or ".join(dict.fromkeys(kind for kind in kinds or [told.get("type", "any")] if kind != "null"))


def _reply(document: Document, status: str, reply: Document) -> str:
    schema = _resolved(document, next(iter(reply.get("content", {}).values()), {}).get("schema", {}))
    said = f"**{status}.** {reply['description']}"
    return page(said, *(_example("", one) for one in schema.get("examples", ())[:1]))


def _example(said: str, value: object) -> str:
    return page(said, block(json.dumps(value, indent=2, ensure_ascii=False), "json"))


def _refusals(document: Document, operation: Document) -> str:
    statuses = [status for status in operation["responses"] if status >= "4"]
    names = [name for status in statuses for name in _names(_resolved(document, operation["responses"][status]))]
    return f"**Problems:** {', '.join(code(name) for name in names)}."


def _names(reply: Document) -> Iterator[str]:
    for content in reply.get("content", {}).values():
        yield from content.get("examples", {})
