"""Whether the service works, and what it counted; nothing of the data."""

from __future__ import annotations

import math
import time

from anyio import to_thread
from fastapi import APIRouter, Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response

from discreet.service import documents as d
from discreet.service import logs, watching
from discreet.service.access import InService, Keeper, principal_of, service_of
from discreet.service.gate import looking
from discreet.service.problems import explained, not_found
from discreet.service.routes.shared import plain, reply, told
from discreet.service.state import Service

REMEMBERED = 1.0
"""Seconds for which it is remembered what was seen."""


class Health:
    """Which checks fail, as of the last second: anyone may ask, and as often as they like."""

    def __init__(self) -> None:
        self._failing: tuple[str, ...] | None = None
        self._until = 0.0

    async def failing(self, service: Service) -> tuple[str, ...]:
        """What was seen within a second, or a new look; who asks while one looks is told what was seen before."""
        if self._failing is None or time.monotonic() >= self._until:
            self._until = math.inf
            try:
                found = await to_thread.run_sync(watching.failing, service, limiter=looking())
            finally:
                self._until = time.monotonic() + REMEMBERED
            if found and found != self._failing:
                logs.write("unhealthy", where=", ".join(found))
            self._failing = found
        return self._failing


def router() -> APIRouter:
    """The routes."""
    made, seen = APIRouter(tags=["operation"]), Health()

    @made.get("/health", responses={200: reply(d.HealthDocument), 503: reply(d.HealthDocument)})
    async def health(request: Request) -> Response:
        """Whether store and ledgers are reached and are those that were opened, and there is room on the disks.

        503 where a check fails; `failing` says which: store, ledger or disk.
        """
        failing = await seen.failing(service_of(request))
        if failing:
            return told({"status": "unavailable", "failing": list(failing)}, 503)
        return told({"status": "ok"}, 200)

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
