"""Refusals as pages: the API's, in words for people."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

from fastapi import Request
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from starlette.responses import RedirectResponse, Response

from discreet.errors import DiscreetError
from discreet.service.console.rendering import page
from discreet.service.gate import COOKIE
from discreet.service.problems import BY_NAME, Problem, problem_of

SIGN_IN = "/console/"
ENDED = f"{SIGN_IN}?why=ended"
WORDS = {
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

        async def handled(request: Request) -> Response:
            try:
                return await handle(request)
            except (Problem, DiscreetError) as refusal:
                problem = problem_of(refusal)
                if problem.name == "internal":
                    raise  # to where it is written down
                return refused(request, problem)
            except RequestValidationError:
                return refused(request, Problem("invalid-input", "the address of this page cannot be read"))

        return handled


def refused(request: Request, problem: Problem) -> Response:
    """A refusal as a page; whoever is not signed in is shown where to."""
    if problem.name == "unauthenticated":
        return RedirectResponse(ENDED if COOKIE in request.cookies else SIGN_IN, 303)
    told = Problem(problem.name, problem.detail or WORDS.get(problem.name, ""))
    reply = page(request, "problem.html", BY_NAME[problem.name].status, problem=told.document())
    reply.headers.update(problem.headers)
    return reply
