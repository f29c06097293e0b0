"""All pages of the console, and signing in and out."""

from __future__ import annotations

from fastapi import APIRouter, Request
from starlette.responses import RedirectResponse, Response

from discreet.service.api.dependencies import CurrentPrincipal, CurrentService
from discreet.service.console import analyst_pages, custodian_pages, rendering
from discreet.service.console.forms import AnyForm, OwnForm
from discreet.service.console.rendering import SIGN_IN_PAGE, TOPICS, PageRoute, list_epsilon_gains, render_page
from discreet.service.middleware.auth import COOKIE_NAME, MAX_TOKEN_LENGTH, is_encrypted
from discreet.service.middleware.deadline import get_request_state
from discreet.service.problems import HttpProblem, build_not_found
from discreet.service.store.tokens import Principal, find_token, sign_in, sign_out

UNKNOWN_TOKEN = "this token opens nothing: it is mistyped, expired or revoked; ask the custodian for one"
SESSION_OVER = "you are signed out: your token was revoked or has expired, or your session has ended; sign in again"
OWN_SITES = {"same-origin", "none"}
public_pages = APIRouter(prefix="/console", route_class=PageRoute)
fallback_pages = APIRouter(prefix="/console", route_class=PageRoute)


@public_pages.get("")
@public_pages.get("/")
def show_entrance(request: Request, why: str = "") -> Response:
    """Where to sign in, or on to the pages of whoever is."""
    principal = get_request_state(request.scope).principal
    if principal is not None:
        return RedirectResponse(get_home_page(principal), 303)
    return render_page(request, "sign-in.html", alert=SESSION_OVER if why == "ended" else None)


@public_pages.post("/sign-in")
def enter(request: Request, service: CurrentService, form: AnyForm) -> Response:
    """Exchange a token for a cookie that lives as long as the browser, or half a day."""
    # Another site could sign a browser in with a token of its own, and look on.
    if request.headers.get("sec-fetch-site", "none") not in OWN_SITES:
        raise HttpProblem("forbidden", "this form is not one of ours; open the console and sign in there")
    token_secret = form.get_text("token")
    token = find_token(service.store, token_secret) if 0 < len(token_secret) <= MAX_TOKEN_LENGTH else None
    if token is None:
        return render_page(request, "sign-in.html", 401, alert=UNKNOWN_TOKEN)
    reply = RedirectResponse(get_home_page(Principal(token)), 303)
    is_secure = is_encrypted(request.scope, service.config.tls is not None)
    reply.set_cookie(COOKIE_NAME, sign_in(service.store, token), secure=is_secure, httponly=True, samesite="strict")
    return reply


@public_pages.post("/sign-out")
def leave(service: CurrentService, principal: CurrentPrincipal, _: OwnForm) -> Response:
    """End the session at once."""
    if principal.cookie is not None:
        sign_out(service.store, principal.cookie)
    reply = RedirectResponse(SIGN_IN_PAGE, 303)
    reply.delete_cookie(COOKIE_NAME)
    return reply


@public_pages.get("/explain/{topic}")
def show_explanation(request: Request, topic: str) -> Response:
    """One explanation."""
    if topic not in TOPICS:
        raise build_not_found()
    return render_page(request, "explain.html", name=topic, gains=list_epsilon_gains())


def get_home_page(principal: Principal) -> str:
    """Get the first page after signing in."""
    return "/console/custodian" if principal.is_custodian else "/console/datasets"


@fallback_pages.get("/{rest:path}")
def refuse_address(_: CurrentPrincipal) -> Response:
    """Nothing is there."""
    raise build_not_found()


CONSOLE_ROUTERS = (
    rendering.asset_router,
    public_pages,
    analyst_pages.start_pages,
    analyst_pages.dataset_pages,
    analyst_pages.dataset_pages.rehearsal,
    custodian_pages.access_pages,
    custodian_pages.overview_pages,
    custodian_pages.release_pages,
    fallback_pages,
)
"""Every route under /console; that for addresses at which there is nothing comes last."""
