"""All pages of the console."""

from __future__ import annotations

from functools import cache

from fastapi import APIRouter, Request
from starlette.responses import Response

from discreet.service.access import Someone
from discreet.service.console import admitting, analyst, entering, keeping, releasing, static
from discreet.service.console.refusing import PageRoute
from discreet.service.console.rendering import page
from discreet.service.console.topics import TOPICS, gains
from discreet.service.problems import not_found


@cache
def console() -> APIRouter:
    """Every route under /console. They hold nothing of any service, and are made once."""
    made = APIRouter()
    for one in (
        static.router(),
        explaining(),
        entering.router(),
        analyst.start(),
        analyst.pages("/console/datasets"),
        analyst.pages("/console/rehearsal/datasets"),
        admitting.router(),
        keeping.router(),
        releasing.router(),
        elsewhere(),
    ):
        made.include_router(one)
    return made


def explaining() -> APIRouter:
    """The explanations, which are about no data set."""
    made = APIRouter(prefix="/console/explain", route_class=PageRoute)

    @made.get("/{topic}")
    def explained(request: Request, topic: str) -> Response:
        """One explanation."""
        if topic not in TOPICS:
            raise not_found()
        return page(request, "explain.html", name=topic, gains=gains())

    return made


def elsewhere() -> APIRouter:
    """What is nowhere, told by a page."""
    made = APIRouter(prefix="/console", route_class=PageRoute)

    @made.get("/{rest:path}")
    def nowhere(_: Someone) -> Response:
        """Nothing is there."""
        raise not_found()

    return made
