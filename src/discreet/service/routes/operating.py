"""Whether the service works, and what it counted; nothing of the data."""

from __future__ import annotations

import math
import time

from anyio import to_thread
from fastapi import APIRouter, Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response

from discreet.service import documents as d
from discreet.service import logs, watching
from discreet.service.access import CurrentCustodian, CurrentService, get_principal, get_service
from discreet.service.gate import get_lookup_limiter
from discreet.service.problems import build_not_found, explain_problem
from discreet.service.routes.shared import describe_reply, describe_text_reply, reply_with_json
from discreet.service.state import Service

HEALTH_CACHE_SECONDS = 1.0
"""Seconds for which it is remembered what was seen."""


class HealthCache:
    """Which checks fail, as of the last second: anyone may ask, and as often as they like."""

    def __init__(self) -> None:
        self._failing: tuple[str, ...] | None = None
        self._valid_until = 0.0

    async def get_failing_checks(self, service: Service) -> tuple[str, ...]:
        """What was seen within a second, or a new look; who asks while one looks is told what was seen before."""
        if self._failing is None or time.monotonic() >= self._valid_until:
            self._valid_until = math.inf
            try:
                failing = await to_thread.run_sync(watching.list_failing_checks, service, limiter=get_lookup_limiter())
            finally:
                self._valid_until = time.monotonic() + HEALTH_CACHE_SECONDS
            if failing and failing != self._failing:
                logs.write_event("unhealthy", where=", ".join(failing))
            self._failing = failing
        return self._failing


def build_operation_routes() -> APIRouter:
    """The routes."""
    router, health_cache = APIRouter(tags=["operation"]), HealthCache()

    @router.get("/health", responses={200: describe_reply(d.HealthDocument), 503: describe_reply(d.HealthDocument)})
    async def health(request: Request) -> Response:
        """Whether store and ledgers are reached and are those that were opened, and there is room on the disks.

        503 where a check fails; `failing` says which: store, ledger or disk.
        """
        failing = await health_cache.get_failing_checks(get_service(request))
        if failing:
            return reply_with_json({"status": "unavailable", "failing": list(failing)}, 503)
        return reply_with_json({"status": "ok"}, 200)

    @router.get(
        "/metrics",
        response_class=PlainTextResponse,
        responses={200: describe_text_reply("text/plain", "Prometheus text.")},
    )
    def metrics(service: CurrentService, _: CurrentCustodian) -> Response:
        """Requests by route and status, padded seconds, overruns, jobs: for Prometheus."""
        return PlainTextResponse(watching.format_metrics(service), media_type="text/plain; version=0.0.4")

    @router.get("/", include_in_schema=False)
    def start(request: Request) -> Response:
        """A browser is led to the console; for programs there is nothing here."""
        if "text/html" in request.headers.get("accept", ""):
            return RedirectResponse("/console/", 303)
        get_principal(request)
        raise build_not_found()

    @router.get("/problems/{name}", include_in_schema=False)
    def problem(name: str) -> Response:
        """What a type of problem means, for anyone."""
        return reply_with_json(explain_problem(name))

    return router
