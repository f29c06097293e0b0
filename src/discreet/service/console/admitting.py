"""The custodian's page about people: tokens, and who may ask what."""

from __future__ import annotations

import re
import time
from typing import Annotated, Any

from fastapi import APIRouter, Path, Request
from starlette.responses import RedirectResponse, Response

from discreet.custodian.secrets import identifier
from discreet.errors import InvalidInput
from discreet.service.access import InService, Keeper
from discreet.service.console.forms import Form, Sent
from discreet.service.console.refusing import ENDED, PageRoute
from discreet.service.console.rendering import page
from discreet.service.problems import not_found
from discreet.service.state import Service
from discreet.service.store.tokens import (
    MOST_DAYS,
    ROLES,
    Token,
    all_grants,
    all_tokens,
    create_token,
    grant,
    revoke_token,
    ungrant,
)

PAGE = "/console/custodian/access"
EMPTY = Form({"days": ["30"]})
ID = re.compile("[0-9a-f]{32}")
TokenId = Annotated[str, Path(min_length=1, max_length=64)]


def router() -> APIRouter:
    """The routes."""
    made = APIRouter(prefix=PAGE, route_class=PageRoute)

    @made.get("")
    def access(request: Request, service: InService, _: Keeper) -> Response:
        """Tokens, and a table of analysts by data sets."""
        return _page(request, service)

    @made.post("/tokens")
    def new_token(request: Request, service: InService, _: Keeper, form: Sent) -> Response:
        """Make a token; the page that says so is the only one that ever shows it."""
        try:
            token, secret = _made(service, form)
        except InvalidInput as refusal:
            return _page(request, service, 400, form, alert=str(refusal))
        return _page(request, service, 201, made={"secret": secret, "token": token})

    @made.post("/tokens/{token}/revoke")
    def revoke(request: Request, service: InService, keeper: Keeper, form: Sent, token: TokenId) -> Response:
        """End a token, and sign out every browser that used it; one's own after a second look."""
        own = token == keeper.token.id
        if own and not form.ticked("sure"):
            return page(request, "revoke.html", token=keeper.token)
        try:
            known = revoke_token(service.store, token, spare_last=True)
        except InvalidInput as refusal:
            return _page(request, service, 400, alert=str(refusal))
        if not known:
            raise not_found()
        return RedirectResponse(ENDED if own else f"{PAGE}#tokens", 303)

    @made.post("/grants")
    def change(service: InService, _: Keeper, form: Sent) -> Response:
        """Let an analyst ask a data set, or no more."""
        dataset, analyst = form.text("dataset"), form.text("analyst")
        _check_known(service, [dataset])
        if form.text("give") == "yes":
            grant(service.store, dataset, analyst)
        else:
            ungrant(service.store, dataset, analyst)
        return RedirectResponse(f"{PAGE}#grants", 303)

    return made


def _made(service: Service, form: Form) -> tuple[Token, str]:
    """The token that a form asks for; its id is the form's, so that a form that is sent again makes no other."""
    analyst, days, datasets = form.text("analyst"), form.text("days"), form.all("datasets")
    if not analyst:
        raise InvalidInput("say whom the token is for: the name of an analyst, or of a custodian")
    if not (days.isascii() and days.isdecimal() and len(days) < 4 and 0 < int(days) <= MOST_DAYS):
        raise InvalidInput(f"say for how many days it is good: a whole number of days from 1 to {MOST_DAYS}")
    if not ID.fullmatch(form.text("key")):
        raise InvalidInput("this form is not one of ours; load the page again")
    _check_known(service, datasets)
    return create_token(service.store, analyst, form.text("role"), int(days), tuple(datasets), form.text("key"))


def _page(request: Request, service: Service, status: int = 200, form: Form = EMPTY, **more: Any) -> Response:
    tokens, grants, now = all_tokens(service.store), all_grants(service.store), time.time()
    analysts = sorted({one.analyst for one in tokens if one.role == "analyst"} | {who for _, who in grants})
    given: dict[str, Any] = {"tokens": [(one, _state(one.revoked, one.expires, now)) for one in tokens], "made": None}
    given |= {"datasets": service.holdings.names, "analysts": analysts, "grants": set(grants), "roles": ROLES}
    given |= {"fields": {name: form.text(name) for name in ("analyst", "role", "days")}, "key": identifier()}
    return page(request, "access.html", status, ticked=form.all("datasets"), **(given | more))


def _state(revoked: float | None, expires: float, now: float) -> str:
    return "revoked" if revoked is not None else "expired" if expires <= now else "valid"


def _check_known(service: Service, names: list[str]) -> None:
    if not set(names) <= set(service.holdings.names):
        raise not_found()
