"""Refusals as pages: the API's, in words for people."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

from fastapi import Request
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from starlette.responses import RedirectResponse, Response

from discreet.errors import DiscreetError
from discreet.service.console.rendering import render_page
from discreet.service.gate import COOKIE_NAME
from discreet.service.problems import PROBLEM_TYPES_BY_NAME, HttpProblem, problem_from_error

SIGN_IN_PAGE = "/console/"
SESSION_ENDED_PAGE = f"{SIGN_IN_PAGE}?why=ended"
PAGE_DETAILS = {
    "not-found": "there is nothing here that you may see; go to your data sets",
    "method-not-allowed": "this cannot be done here; go back and load the page again",
    "invalid-input": "the form cannot be read; go back and load the page again",
}
"""What the API tells programs, for people."""


class PageRoute(APIRoute):
    """A route whose refusals are pages."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """The handler, with refusals turned into pages."""
        handle = super().get_route_handler()

        async def handle_as_page(request: Request) -> Response:
            try:
                return await handle(request)
            except (HttpProblem, DiscreetError) as refusal:
                problem = problem_from_error(refusal)
                if problem.name == "internal":
                    raise  # to where it is written down
                return render_refusal(request, problem)
            except RequestValidationError:
                return render_refusal(request, HttpProblem("invalid-input", "the address of this page cannot be read"))

        return handle_as_page


def render_refusal(request: Request, problem: HttpProblem) -> Response:
    """A refusal as a page; whoever is not signed in is shown where to."""
    if problem.name == "unauthenticated":
        return RedirectResponse(SESSION_ENDED_PAGE if COOKIE_NAME in request.cookies else SIGN_IN_PAGE, 303)
    page_problem = HttpProblem(problem.name, problem.detail or PAGE_DETAILS.get(problem.name, ""))
    reply = render_page(
        request, "problem.html", PROBLEM_TYPES_BY_NAME[problem.name].status, problem=page_problem.to_json()
    )
    reply.headers.update(problem.headers)
    return reply
