"""The application: routes, and around them the middleware that authenticates, pads replies and adds headers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from functools import cache, partial

from anyio import to_thread
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.routing import iter_route_contexts
from starlette.exceptions import HTTPException
from starlette.responses import Response

from discreet._version import __version__
from discreet.errors import DiscreetError, Unavailable
from discreet.release.methods import METHODS
from discreet.service import monitoring
from discreet.service.api import admin_routes, analyst_routes
from discreet.service.api.admin_routes import HealthCache
from discreet.service.api.analyst_routes import PRIOR_NAME_PATTERN
from discreet.service.config import Config
from discreet.service.console.pages import CONSOLE_ROUTERS
from discreet.service.console.rendering import render_refusal
from discreet.service.dataset_registry import Service
from discreet.service.middleware.auth import AuthMiddleware, is_encrypted, record_reply
from discreet.service.middleware.deadline import (
    App,
    DeadlineMiddleware,
    Message,
    Receive,
    Scope,
    Send,
    get_request_state,
)
from discreet.service.openapi import build_openapi, get_operation_id
from discreet.service.problems import HttpProblem, problem_from_error, problem_from_status

API_ROUTERS = (
    admin_routes.operation_router,
    analyst_routes.dataset_list_router,
    analyst_routes.dataset_router,
    analyst_routes.dataset_router.rehearsal,
    analyst_routes.personal_router,
    admin_routes.access_router,
    admin_routes.release_router,
    admin_routes.release_router.rehearsal,
    admin_routes.ledger_router,
)
WRITE_INTERVAL = 2.0
MAX_THREADS = 200
"""Threads of one worker; most of them sleep until what they have drawn may be seen."""
CONSOLE_PREFIX = "/console/"
UNTIMED_PATHS = ("/health", "/metrics", "/openapi.json", "/console/assets/", "/console/explain/")
PLAIN_MESSAGES = {
    "json_invalid": "the body is not valid JSON; send what GET /openapi.json says",
    PRIOR_NAME_PATTERN: "a name has letters, digits, _ . and -",
    "union_tag_not_found": f"'method' is missing; it is one of {', '.join(METHODS)}",
    "union_tag_invalid": f"a file is protected by {', '.join(METHODS)}; 'method' is none of them",
}
"""Whole sentences for common mistakes, by the pattern that did not fit or the kind of fault."""
FAULT_MESSAGES = {
    "missing": "it is missing",
    "extra_forbidden": "there is nothing of that name",
    "value_error": "{error}",
    "literal_error": "it must be {expected}",
    "greater_than": "it must be above {gt}",
    "greater_than_equal": "it must be at least {ge}",
    "less_than": "it must be below {lt}",
    "less_than_equal": "it must be at most {le}",
    "string_too_short": "it must have {min_length} or more signs",
    "string_too_long": "it may have at most {max_length} signs",
    "string_pattern_mismatch": "it is not in the form that is asked for",
    "too_short": "it must hold {min_length} or more of them",
    "too_long": "it may hold at most {max_length} of them",
    "int": "it must be a whole number",
    "float": "it must be a number",
    "finite": "it must be a finite number",
    "bool": "it must be true or false",
    "string": "it must be text",
    "list": "it must be a list",
    "tuple": "it must be a list",
    "dict": "it must be an object",
    "model": "it must be an object",
}
"""What is wrong, by the kind of the fault or by the first word of that."""
DEFAULT_FAULT = "it is of another kind"
CONSOLE_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
API_POLICY = "default-src 'none'; base-uri 'none'; frame-ancestors 'none'"
COMMON_HEADERS = {
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
}
HSTS_VALUE = "max-age=31536000"
API_DESCRIPTION = (
    "Answers about records of people that tell little of any one person. Every reply about a data set, refusals "
    "included, leaves at that data set's deadline."
)


def make_app(config: Config, run_id: str | None = None, ledgers: Mapping[str, str] | None = None) -> MiddlewareStack:
    """Make the application of one worker; all workers of one run are given the same `run_id` and `ledgers`."""
    service = Service.open(config, run_id=run_id, ledgers=ledgers)
    api = FastAPI(
        title="discreet",
        version=__version__,
        description=API_DESCRIPTION,
        docs_url=None,
        redoc_url=None,
        lifespan=_build_lifespan(service),
        separate_input_output_schemas=False,
        redirect_slashes=False,  # a redirect is made of the Host header, which anyone can choose
        generate_unique_id_function=get_operation_id,
    )
    api.openapi = cache(partial(build_openapi, api))  # type: ignore[method-assign]
    api.state.service, api.state.health_cache = service, HealthCache()
    for router in API_ROUTERS:
        api.include_router(router)
    for router in CONSOLE_ROUTERS:
        api.include_router(router, include_in_schema=False)
    _add_exception_handlers(api)
    return MiddlewareStack(api, service)


class MiddlewareStack:
    """What the server calls: headers outside, then the deadline, then authentication; at the end a line of the log."""

    def __init__(self, api: FastAPI, service: Service) -> None:
        self.api, self.service = api, service
        stack: App = AuthMiddleware(api, service)
        if service.config.padding:
            stack = DeadlineMiddleware(stack, service.config.deadline, lambda path: path.startswith(UNTIMED_PATHS))
        self._app = SecurityHeadersMiddleware(stack, service.config.tls is not None)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request, or the lifespan."""
        await self._app(scope, receive, send)
        if scope["type"] == "http":
            record_reply(self.service, scope)


class SecurityHeadersMiddleware:
    """Adds the security headers to every reply, unless it has its own: nothing is loaded from elsewhere or framed."""

    def __init__(self, app: App, tls: bool) -> None:
        self._app, self._tls = app, tls

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Add the headers as the reply begins."""
        policy = CONSOLE_POLICY if scope.get("path", "").startswith("/console") else API_POLICY
        security_headers = COMMON_HEADERS | {"content-security-policy": policy, "cache-control": "no-store"}
        if is_encrypted(scope, self._tls):
            security_headers["strict-transport-security"] = HSTS_VALUE

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                present_names = {name.lower() for name, _ in message.get("headers", ())}
                additions = [
                    (n.encode(), v.encode()) for n, v in security_headers.items() if n.encode() not in present_names
                ]
                message = {**message, "headers": [*message.get("headers", ()), *additions]}
            await send(message)

        await self._app(scope, receive, send_with_headers)


def _build_lifespan(service: Service) -> Callable[[FastAPI], AbstractAsyncContextManager[None]]:
    async def write_counts_forever() -> None:
        while True:
            await asyncio.sleep(WRITE_INTERVAL)
            with suppress(Unavailable):  # the store may be back the next time
                await to_thread.run_sync(service.counters.write)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        to_thread.current_default_thread_limiter().total_tokens = MAX_THREADS
        writer_task = asyncio.create_task(write_counts_forever())
        try:
            yield
        finally:
            writer_task.cancel()
            await to_thread.run_sync(service.close)

    return lifespan


def _add_exception_handlers(api: FastAPI) -> None:
    async def handle_error(request: Request, error: Exception) -> Response:
        problem = problem_from_error(error)
        if problem.name == "internal":
            get_request_state(request.scope).failed = monitoring.format_error_location(error)
        return problem.to_response()

    async def handle_http_error(request: Request, error: Exception) -> Response:
        problem = problem_from_status(getattr(error, "status_code", 500))
        if problem.name == "method-not-allowed":
            problem.headers["Allow"] = _list_allowed_methods(request)
        if request.url.path.startswith(CONSOLE_PREFIX):
            return render_refusal(request, problem)
        return problem.to_response()

    async def handle_validation_error(_: Request, error: Exception) -> Response:
        return HttpProblem("invalid-input", _describe_invalid_request(error)).to_response()

    for kind in (HttpProblem, DiscreetError, Exception):
        api.add_exception_handler(kind, handle_error)
    api.add_exception_handler(HTTPException, handle_http_error)
    api.add_exception_handler(RequestValidationError, handle_validation_error)


def _list_allowed_methods(request: Request) -> str:
    """The methods of all routes with the request's path; the framework knows those of one route alone."""
    path = getattr(request.scope.get("route"), "path", None)
    method_lists = (route.methods or () for route in iter_route_contexts(request.app.routes) if route.path == path)
    return ", ".join(sorted({method for methods in method_lists for method in methods}))


def _describe_invalid_request(error: Exception) -> str:
    """Name the place that does not fit; never what was sent."""
    errors = list(error.errors()) if isinstance(error, RequestValidationError) else []
    plain_message = PLAIN_MESSAGES.get(errors[0].get("ctx", {}).get("pattern", errors[0]["type"])) if errors else None
    if plain_message is not None:
        return plain_message
    places = [_format_location(fault.get("loc", ())) for fault in errors] or ["the body"]
    message = _describe_fault(errors[0]["type"], errors[0].get("ctx", {})) if errors else "it is not JSON"
    if places.count(places[0]) > 1:  # a union tells of each of its kinds
        message = "it is none of the kinds that are allowed there"
    return f"{places[0]} does not fit what GET /openapi.json says: {message}"


def _describe_fault(kind: str, context: Mapping[str, object]) -> str:
    """The context has what was declared, not what was sent."""
    return FAULT_MESSAGES.get(kind, FAULT_MESSAGES.get(kind.partition("_")[0], DEFAULT_FAULT)).format(**context)[:200]


def _format_location(loc: Sequence[object]) -> str:
    """Name the field, and the place in a list; a release's method before it and the kinds below it are left out."""
    loc = [part for place, part in enumerate(loc) if place != 1 or part not in METHODS]
    names = [f"{part[:40]!r}" for part in loc[1:2] if isinstance(part, str)]
    return " ".join([*names, *(f"at {part}" for part in loc[2:3] if isinstance(part, int))]) or "the body"
