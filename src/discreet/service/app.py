"""The application: routes, and around them the gate, the clock and the headers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import cache, partial
from typing import Any

from anyio import to_thread
from fastapi import APIRouter, FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.routing import iter_route_contexts
from starlette.exceptions import HTTPException
from starlette.responses import Response

import discreet
from discreet.errors import DiscreetError, Unavailable
from discreet.service import logs
from discreet.service.config import Config
from discreet.service.console.pages import console
from discreet.service.console.refusing import refused
from discreet.service.describing import described, operation_of
from discreet.service.gate import Gate, record
from discreet.service.headers import Headers
from discreet.service.padding import App, Clock, Receive, Scope, Send
from discreet.service.problems import Problem, problem_of, problem_of_status
from discreet.service.routes import datasets, keeping, operating, personal
from discreet.service.routes.personal import NAMED
from discreet.service.state import Service

WRITE_EVERY = 2.0
THREADS = 200
"""Most of them sleep until what they have drawn may be seen."""
CONSOLE = "/console/"
UNTIMED = ("/health", "/metrics", "/openapi.json", "/console/assets/", "/console/explain/")
PLAINLY = {
    "json_invalid": "the body is not valid JSON; send what GET /openapi.json says",
    NAMED: "a name has letters, digits, _ . and -",
}
"""Sentences for what people run into, by the pattern that did not fit or the kind of fault."""
FAULTS = {
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
"""What we say of a fault, by its kind or by the first word of that."""
OTHERWISE = "it is of another kind"
ABOUT = (
    "Answers about records of people that tell little of any one person. Every reply about a data set, refusals "
    "included, leaves at that data set's deadline."
)


def make_app(config: Config, life: str | None = None, ledgers: Mapping[str, str] | None = None) -> Entrance:
    """The whole application for one worker; all workers of one run are given the same `life` and `ledgers`."""
    service = Service.open(config, life=life, ledgers=ledgers)
    api = FastAPI(
        title="discreet",
        version=discreet.__version__,
        description=ABOUT,
        docs_url=None,
        redoc_url=None,
        lifespan=_lifespan(service),
        separate_input_output_schemas=False,
        redirect_slashes=False,  # a redirect is made of the Host header, which anyone can choose
        generate_unique_id_function=operation_of,
    )
    api.openapi = cache(partial(described, api))  # type: ignore[method-assign]
    api.state.service = service
    for router in (operating.router(), *_routers()):
        api.include_router(router)
    api.include_router(console(), include_in_schema=False)
    _add_refusals(api)
    return Entrance(api, service)


@cache
def _routers() -> tuple[APIRouter, ...]:
    """Those that hold nothing of any service, which each request brings; to make them takes longer than all else."""
    return (
        datasets.listed(),
        datasets.asked("/v1/datasets", "data sets"),
        datasets.asked("/v1/rehearsal/datasets", "rehearsal"),
        personal.router(),
        keeping.access(),
        keeping.releases("/v1/datasets", "custodian"),
        keeping.releases("/v1/rehearsal/datasets", "rehearsal"),
        keeping.kept(),
    )


class Entrance:
    """What the server calls: headers outside, then the clock, then the gate; and a line of the log once it is over."""

    def __init__(self, api: FastAPI, service: Service) -> None:
        self.api, self.service = api, service
        gated: App = Gate(api, service)
        timed: App = Clock(gated, service.config.deadline, _untimed) if service.config.padding else gated
        self._app = Headers(timed, service.config.tls is not None)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request, or the lifespan."""
        await self._app(scope, receive, send)
        if scope["type"] == "http":
            record(self.service, scope)


def _untimed(path: str) -> bool:
    return path.startswith(UNTIMED)


def _lifespan(service: Service) -> Any:
    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        to_thread.current_default_thread_limiter().total_tokens = THREADS
        writing = asyncio.create_task(_keep_writing(service))
        try:
            yield
        finally:
            writing.cancel()
            await to_thread.run_sync(service.close)

    return lifespan


async def _keep_writing(service: Service) -> None:
    """Write counts down now and then; a store that is away is tried again."""
    while True:
        await asyncio.sleep(WRITE_EVERY)
        try:
            await to_thread.run_sync(service.counts.write)
        except Unavailable:
            continue


def _add_refusals(api: FastAPI) -> None:
    """Every way a framework says no becomes one of the catalogue."""

    async def ours(request: Request, error: Exception) -> Response:
        problem = problem_of(error)
        if problem.name == "internal":
            request.state.failed = logs.where(error)
        return problem.response()

    async def framework(request: Request, error: Exception) -> Response:
        problem = problem_of_status(getattr(error, "status_code", 500))
        if problem.name == "method-not-allowed":
            problem.headers["Allow"] = _allowed(request)
        return refused(request, problem) if request.url.path.startswith(CONSOLE) else problem.response()

    async def invalid(_: Request, error: Exception) -> Response:
        return Problem("invalid-input", _sentence(error)).response()

    for kind in (Problem, DiscreetError, Exception):
        api.add_exception_handler(kind, ours)
    api.add_exception_handler(HTTPException, framework)
    api.add_exception_handler(RequestValidationError, invalid)


def _allowed(request: Request) -> str:
    """The methods that the request's path can be used with; the framework tells those of one route alone."""
    path = getattr(request.scope.get("route"), "path", None)
    found = (one.methods or () for one in iter_route_contexts(request.app.routes) if one.path == path)
    return ", ".join(sorted({method for methods in found for method in methods}))


def _sentence(error: Exception) -> str:
    """What does not fit, by its place; never what was sent."""
    found = list(error.errors()) if isinstance(error, RequestValidationError) else []
    plain = PLAINLY.get(found[0].get("ctx", {}).get("pattern", found[0]["type"])) if found else None
    if plain is not None:
        return plain
    places = [_place(one.get("loc", ())) for one in found] or ["the body"]
    said = _fault(found[0]["type"], found[0].get("ctx", {})) if found else "it is not JSON"
    if places.count(places[0]) > 1:  # a union tells of each of its kinds
        said = "it is none of the kinds that are allowed there"
    return f"{places[0]} does not fit what GET /openapi.json says: {said}"


def _fault(kind: str, context: Mapping[str, object]) -> str:
    """What is wrong, in our words whatever it is; the context is of what was declared, not of what was sent."""
    return FAULTS.get(kind, FAULTS.get(kind.partition("_")[0], OTHERWISE)).format(**context)[:200]


def _place(loc: Sequence[object]) -> str:
    """Where in a request, by name and number; below them the framework names its own kinds."""
    names = [f"{part[:40]!r}" for part in loc[1:2] if isinstance(part, str)]
    return " ".join([*names, *(f"at {part}" for part in loc[2:3] if isinstance(part, int))]) or "the body"
