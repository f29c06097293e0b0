"""All pages of the console."""

from __future__ import annotations

from functools import cache

from fastapi import APIRouter, Request
from starlette.responses import Response

from discreet.service.access import CurrentPrincipal
from discreet.service.console import admitting, analyst, entering, keeping, releasing, static
from discreet.service.console.refusing import PageRoute
from discreet.service.console.rendering import render_page
from discreet.service.console.topics import TOPICS, list_epsilon_gains
from discreet.service.problems import build_not_found


@cache
def build_console() -> APIRouter:
    """Every route under /console. They hold nothing of any service, and are made once."""
    router = APIRouter()
    for page_routes in (
        static.build_asset_routes(),
        build_explanation_pages(),
        entering.build_sign_in_pages(),
        analyst.build_start_pages(),
        analyst.build_dataset_pages("/console/datasets"),
        analyst.build_dataset_pages("/console/rehearsal/datasets"),
        admitting.build_access_pages(),
        keeping.build_overview_pages(),
        releasing.build_release_pages(),
        build_fallback_pages(),
    ):
        router.include_router(page_routes)
    return router


def build_explanation_pages() -> APIRouter:
    """The explanations, which are about no data set."""
    router = APIRouter(prefix="/console/explain", route_class=PageRoute)

    @router.get("/{topic}")
    def show_explanation(request: Request, topic: str) -> Response:
        """One explanation."""
        if topic not in TOPICS:
            raise build_not_found()
        return render_page(request, "explain.html", name=topic, gains=list_epsilon_gains())

    return router


def build_fallback_pages() -> APIRouter:
    """What is nowhere, told by a page."""
    router = APIRouter(prefix="/console", route_class=PageRoute)

    @router.get("/{rest:path}")
    def nowhere(_: CurrentPrincipal) -> Response:
        """Nothing is there."""
        raise build_not_found()

    return router
