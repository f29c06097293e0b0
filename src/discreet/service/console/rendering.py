"""Render the pages of the console: templates and their filters, explanations, refusals, and static assets.

Assets are read once, and served under an address that changes with them, so that a browser may cache them for good.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from fractions import Fraction
from functools import cache, partial
from importlib.metadata import version
from pathlib import Path
from threading import Lock
from typing import Any

from fastapi import APIRouter, Request
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from starlette.responses import HTMLResponse, RedirectResponse, Response

from discreet.charts import load_vega_script
from discreet.errors import DiscreetError
from discreet.formatting import (
    IntervalEnd,
    format_cost,
    format_factor,
    format_interval,
    format_number,
    format_percent_at_most,
    format_value,
)
from discreet.numeric import exp_below
from discreet.service.api.dependencies import get_service
from discreet.service.middleware.auth import COOKIE_NAME
from discreet.service.middleware.deadline import get_request_state
from discreet.service.problems import PROBLEM_TYPES_BY_NAME, HttpProblem, build_not_found, problem_from_error
from discreet.service.store.tokens import derive_form_token

Document = Mapping[str, Any]
"""A document of the API, as its JSON is read."""


def format_page_interval(ends: Sequence[IntervalEnd] | None) -> str:
    """Format an interval; nothing where there is none."""
    return "" if ends is None else format_interval(ends[0], ends[1])


def format_exact_cost(text: str | None) -> str:
    """Format an exact amount, such as 1/10, as a decimal that is never below it."""
    return "unknown" if text is None else format_cost(Fraction(text))


def format_guarantee_cost(cost: Document) -> str:
    """Format the cost of a guarantee."""
    if cost.get("rho"):
        return f"rho {format_exact_cost(cost['rho'])} of zero-concentrated DP"
    delta = f" and delta {format_exact_cost(cost['delta'])}" if Fraction(cost.get("delta") or 0) else ""
    return f"epsilon {format_exact_cost(cost.get('epsilon') or '0')}{delta}"


def format_time(timestamp: float | str | None, pattern: str) -> str:
    """Format a time, which is seconds since 1970 or text, in UTC."""
    if timestamp is None:
        return ""
    if isinstance(timestamp, str):
        return f"{datetime.fromisoformat(timestamp).astimezone(UTC):{pattern}} UTC"
    return f"{datetime.fromtimestamp(timestamp, UTC):{pattern}} UTC"


def describe_charge(job: Document) -> str:
    """Tell what is known of the cost of a job that failed; "" where its problem tells it already."""
    problem = job["problem"]
    if "charged" in problem["detail"]:
        return ""
    free_problems = {"/problems/budget-exceeded"}
    free_problems |= {"/problems/invalid-input", "/problems/unsupported"} if job["kind"] == "publish" else set()
    is_free = job["kind"] == "sweep" or job["rehearsal"] or problem["type"] in free_problems
    return "Nothing was charged." if is_free else "It is not known here whether it was charged: look at the log."


EPSILONS = tuple(map(Fraction, ("0.01", "0.1", "0.5", "1", "2", "5", "10")))


def list_epsilon_gains() -> list[tuple[str, str, str]]:
    """List for some epsilons how often a fifty-fifty guess can be right at most, and the factor on odds, rounded up."""
    gains = []
    for epsilon in EPSILONS:
        share = 1 / (1 + exp_below(-epsilon))
        percent = format_percent_at_most(share, 3 if share < Fraction(999, 1000) else 5)
        gains.append((format_cost(epsilon), percent, format_factor(epsilon)))
    return gains


TEMPLATE_DIR = Path(__file__).parent / "templates"
TOPICS: Mapping[str, Mapping[str, str]] = json.loads((TEMPLATE_DIR / "topics.json").read_text(encoding="utf-8"))
"""The title and the words of every explanation; the page itself is a template of the same name."""
ASSET_DIR = Path(__file__).parent / "assets"
ASSET_MEDIA_TYPES = {
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
ASSETS_PATH = "/console/assets"
asset_router = APIRouter(prefix=ASSETS_PATH)
VEGA_NAME = "vega.js"
CACHE_FOREVER = "public, max-age=31536000, immutable"
CACHE_CHECKED = "no-cache"
BUILD_LOCK = Lock()


@dataclass(frozen=True, slots=True)
class Asset:
    """One file as it is served; the tag changes with its content."""

    content: bytes
    kind: str
    tag: str


def build_asset(content: bytes, suffix: str) -> Asset:
    """Make an asset with a tag that follows from its content."""
    return Asset(content, ASSET_MEDIA_TYPES[suffix], f'"{hashlib.sha256(content).hexdigest()[:32]}"')


@cache
def read_own_assets() -> Mapping[str, Asset]:
    """Read the assets of this package, by name."""
    paths = [path for path in ASSET_DIR.iterdir() if path.suffix in ASSET_MEDIA_TYPES]
    return {path.name: build_asset(path.read_bytes(), path.suffix) for path in paths}


@cache
def compute_asset_version() -> str:
    """Compute the part of the address that changes with any asset."""
    tags = [asset.tag for _, asset in sorted(read_own_assets().items())]
    return hashlib.sha256("".join([*tags, version("vl-convert-python")]).encode()).hexdigest()[:16]


def get_assets_path() -> str:
    """Get the address under which pages find the assets."""
    return f"{ASSETS_PATH}/{compute_asset_version()}"


@cache
def _build_vega() -> Asset:
    return build_asset(load_vega_script().encode(), ".js")


def get_vega() -> Asset:
    """Get Vega, Vega-Lite and Vega-Embed as one module, built once in a process."""
    with BUILD_LOCK:
        return _build_vega()


@asset_router.get("/{name}")
@asset_router.get("/{named}/{name}")
def serve_asset(request: Request, name: str, named: str = "") -> Response:
    """A style or a script; nothing in it is about a data set."""
    asset = get_vega() if name == VEGA_NAME else read_own_assets().get(name)
    if asset is None:
        raise build_not_found()
    cache_control = CACHE_FOREVER if named == compute_asset_version() else CACHE_CHECKED
    headers = {"ETag": asset.tag, "Cache-Control": cache_control}
    if request.headers.get("if-none-match") == asset.tag:
        return Response(status_code=304, headers=headers)
    return Response(asset.content, headers=headers, media_type=asset.kind)


@cache
def build_environment() -> Environment:
    """Set up Jinja for the templates of this package."""
    environment = Environment(
        loader=FileSystemLoader(TEMPLATE_DIR),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    environment.filters |= {
        "value": format_value,
        "rough": format_number,
        "span": format_page_interval,
        "exact": format_exact_cost,
        "amount": format_guarantee_cost,
        "moment": partial(format_time, pattern="%Y-%m-%d %H:%M"),
        "instant": partial(format_time, pattern="%Y-%m-%d %H:%M:%S"),
        "charged": describe_charge,
    }
    environment.globals |= {"topics": TOPICS, "assets": get_assets_path()}
    return environment


def render_page(request: Request, template: str, status: int = 200, **variables: object) -> HTMLResponse:
    """Render a template for the sender of a request."""
    principal = get_request_state(request.scope).principal
    cookie = None if principal is None else principal.cookie
    frame: dict[str, object] = {
        "principal": principal,
        "form_token": "" if cookie is None else derive_form_token(cookie),
        "padding": get_service(request).config.padding,
        "path": request.url.path,
        "rehearsal": False,
        "alert": None,
    }
    return HTMLResponse(build_environment().get_template(template).render(frame | variables), status)


SIGN_IN_PAGE = "/console/"
SESSION_ENDED_PAGE = f"{SIGN_IN_PAGE}?why=ended"
PAGE_DETAILS = {
    "not-found": "there is nothing here that you may see; go to your data sets",
    "method-not-allowed": "this cannot be done here; go back and load the page again",
    "invalid-input": "the form cannot be read; go back and load the page again",
}
"""Advice for people where the API's advice is for programs."""


class PageRoute(APIRoute):
    """A route whose refusals are pages."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[object, object, Response]]:
        """Wrap the handler so that refusals become pages."""
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
    """Render a refusal as a page; who is not signed in is redirected to the page to sign in."""
    if problem.name == "unauthenticated":
        return RedirectResponse(SESSION_ENDED_PAGE if COOKIE_NAME in request.cookies else SIGN_IN_PAGE, 303)
    document = HttpProblem(problem.name, problem.detail or PAGE_DETAILS.get(problem.name, "")).to_json()
    reply = render_page(request, "problem.html", PROBLEM_TYPES_BY_NAME[problem.name].status, problem=document)
    reply.headers.update(problem.headers)
    return reply
