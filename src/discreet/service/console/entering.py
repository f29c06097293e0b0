"""Signing in with a token, and signing out."""

from __future__ import annotations

from fastapi import APIRouter, Request
from starlette.responses import RedirectResponse, Response

from discreet.service.access import InService, Someone
from discreet.service.console.forms import Filled, Sent
from discreet.service.console.refusing import SIGN_IN, PageRoute
from discreet.service.console.rendering import page
from discreet.service.gate import COOKIE, LONGEST_TOKEN, Principal
from discreet.service.headers import is_encrypted
from discreet.service.problems import Problem
from discreet.service.store.tokens import sign_in, sign_out, token_of

UNKNOWN = "this token opens nothing: it is mistyped, expired or revoked; ask the custodian for one"
OVER = "you are signed out: your token was revoked or has expired, or your session has ended; sign in again"
OURS = {"same-origin", "none"}


def router() -> APIRouter:
    """The routes."""
    made = APIRouter(prefix="/console", route_class=PageRoute)

    @made.get("")
    @made.get("/")
    def entrance(request: Request, why: str = "") -> Response:
        """Where to sign in, or on to the pages of whoever is."""
        principal: Principal | None = getattr(request.state, "principal", None)
        if principal is not None:
            return RedirectResponse(home(principal), 303)
        return page(request, "sign-in.html", alert=OVER if why == "ended" else None)

    @made.post("/sign-in")
    def enter(request: Request, service: InService, form: Filled) -> Response:
        """Exchange a token for a cookie that lives as long as the browser, or half a day."""
        # Another site could sign a browser in with a token of its own, and look on.
        if request.headers.get("sec-fetch-site", "none") not in OURS:
            raise Problem("forbidden", "this form is not one of ours; open the console and sign in there")
        told = form.text("token")
        token = token_of(service.store, told) if 0 < len(told) <= LONGEST_TOKEN else None
        if token is None:
            return page(request, "sign-in.html", 401, alert=UNKNOWN)
        reply = RedirectResponse(home(Principal(token)), 303)
        secure = is_encrypted(request.scope, service.config.tls is not None)
        reply.set_cookie(COOKIE, sign_in(service.store, token), secure=secure, httponly=True, samesite="strict")
        return reply

    @made.post("/sign-out")
    def leave(service: InService, principal: Someone, _: Sent) -> Response:
        """End the session at once."""
        if principal.cookie is not None:
            sign_out(service.store, principal.cookie)
        reply = RedirectResponse(SIGN_IN, 303)
        reply.delete_cookie(COOKIE)
        return reply

    return made


def home(principal: Principal) -> str:
    """The first page."""
    return "/console/custodian" if principal.is_custodian else "/console/datasets"
