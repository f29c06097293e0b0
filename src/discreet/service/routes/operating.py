"""Whether the service works, and what it counted; nothing of the data."""

from __future__ import annotations

import math
import time

from anyio import to_thread
from fastapi import APIRouter, Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response

from discreet.service import documents as d
from discreet.service import watching
from discreet.service.access import InService, Keeper, principal_of, service_of
from discreet.service.gate import looking
from discreet.service.problems import explained, not_found
from discreet.service.routes.shared import plain, reply, told
from discreet.service.state import Service

REMEMBERED = 1.0
"""Seconds for which it is remembered that all was well."""


class Health:
    """Whether the store is reached, as of the last second: anyone may ask, and as often as they like."""

    def __init__(self) -> None:
        self._well: bool | None = None
        self._until = 0.0

    async def told(self, service: Service) -> bool:
        """What was seen within a second, or a new look; who asks while one looks is told what was seen before."""
        if self._well is None or time.monotonic() >= self._until:
            self._until = math.inf
            try:
                self._well = await to_thread.run_sync(watching.healthy, service, limiter=looking())
            finally:
                self._until = time.monotonic() + REMEMBERED * bool(self._well)
        return self._well


def router() -> APIRouter:
    """The routes."""
    made, seen = APIRouter(tags=["operation"]), Health()

    @made.get("/health", responses={200: reply(d.HealthDocument), 503: reply(d.HealthDocument)})
    async def health(request: Request) -> Response:
        """Whether the store is reached; 503 where it is not."""
        well = await seen.told(service_of(request))
        return told({"status": "ok" if well else "unavailable"}, 200 if well else 503)

    @made.get(
        "/metrics",
        response_class=PlainTextResponse,
        responses={200: plain("text/plain", "Prometheus text.")},
    )
    def metrics(service: InService, _: Keeper) -> Response:
        """Requests by route and status, padded seconds, overruns, jobs: for Prometheus."""
        return PlainTextResponse(watching.metrics(service), media_type="text/plain; version=0.0.4")

    @made.get("/", include_in_schema=False)
    def start(request: Request) -> Response:
        """A browser is led to the console; for programs there is nothing here."""
        if "text/html" in request.headers.get("accept", ""):
            return RedirectResponse("/console/", 303)
        principal_of(request)
        raise not_found()

    @made.get("/problems/{name}", include_in_schema=False)
    def problem(name: str) -> Response:
        """What a type of problem means, for anyone."""
        return told(explained(name))

    return made
