"""The application: routes, and around them the gate, the clock and the headers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from anyio import to_thread
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import Response

import discreet
from discreet.errors import DiscreetError, Unavailable
from discreet.service.config import Config
from discreet.service.console.pages import console
from discreet.service.gate import Gate, record
from discreet.service.headers import Headers
from discreet.service.padding import App, Clock, Receive, Scope, Send
from discreet.service.problems import Problem, problem_of, problem_of_status
from discreet.service.routes import datasets, keeping, operating, personal
from discreet.service.state import Service

WRITE_EVERY = 2.0
UNTIMED = ("/health", "/metrics", "/openapi.json", "/console/assets/", "/console/explain/")
ABOUT = (
    "Answers about records of people that tell of no one person. Every reply about a data set, refusals included, leaves "
    "at that data set's deadline."
)


def make_app(config: Config) -> App:
    """The whole application for one worker."""
    service = Service.open(config)
    api = FastAPI(
        title="discreet",
        version=discreet.__version__,
        description=ABOUT,
        docs_url=None,
        redoc_url=None,
        lifespan=_lifespan(service),
        separate_input_output_schemas=False,
    )
    api.state.service = service
    for router in (
        operating.router(),
        datasets.listed(),
        datasets.asked("/v1/datasets", "data sets"),
        datasets.asked("/v1/rehearsal/datasets", "rehearsal"),
        personal.router(),
        keeping.access(),
        keeping.releases(),
    ):
        api.include_router(router)
    api.include_router(console(service), include_in_schema=False)
    _add_refusals(api)
    return Entrance(api, service)


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

    async def ours(_: Request, error: Exception) -> Response:
        return problem_of(error).response()

    async def framework(_: Request, error: Exception) -> Response:
        return problem_of_status(getattr(error, "status_code", 500)).response()

    async def invalid(_: Request, error: Exception) -> Response:
        return Problem("invalid-input", _sentence(error)).response()

    for kind in (Problem, DiscreetError, Exception):
        api.add_exception_handler(kind, ours)
    api.add_exception_handler(HTTPException, framework)
    api.add_exception_handler(RequestValidationError, invalid)


def _sentence(error: Exception) -> str:
    """What does not fit, by its place; never what was sent."""
    first = error.errors()[0] if isinstance(error, RequestValidationError) and error.errors() else {}
    place = ".".join(str(part)[:40] for part in first.get("loc", ()) if part != "body") or "the body"
    said = str(first.get("msg", "it is not JSON"))[:200]
    return f"{place} does not fit what GET /openapi.json says: {said[:1].lower()}{said[1:]}"
