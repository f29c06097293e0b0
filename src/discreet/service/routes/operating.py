"""Whether the service works, and what it counted; nothing of the data."""

from __future__ import annotations

from anyio import to_thread
from fastapi import APIRouter, Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response

from discreet.service import documents as d
from discreet.service import watching
from discreet.service.access import InService, Keeper, principal_of, service_of
from discreet.service.gate import looking
from discreet.service.problems import explained, not_found
from discreet.service.routes.shared import plain, reply, told


def router() -> APIRouter:
    """The routes."""
    made = APIRouter(tags=["operation"])

    @made.get("/health", responses={200: reply(d.HealthDocument), 503: reply(d.HealthDocument)})
    async def health(request: Request) -> Response:
        """Whether the store is reached; 503 where it is not."""
        well = await to_thread.run_sync(watching.healthy, service_of(request), limiter=looking())
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
