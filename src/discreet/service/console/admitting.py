"""The custodian's page about people: tokens, and who may ask what."""

from __future__ import annotations

import time
from typing import Annotated, Any

from fastapi import APIRouter, Path, Request
from starlette.responses import RedirectResponse, Response

from discreet.errors import InvalidInput
from discreet.service import documents as d
from discreet.service.access import InService, Keeper
from discreet.service.console import forms
from discreet.service.console.forms import Sent
from discreet.service.console.refusing import PageRoute
from discreet.service.console.rendering import page
from discreet.service.problems import not_found
from discreet.service.state import Service
from discreet.service.store.tokens import (
    ROLES,
    all_grants,
    all_tokens,
    create_token,
    grant,
    revoke_token,
    ungrant,
)

PAGE = "/console/custodian/access"
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
        said = {"analyst": form.text("analyst"), "role": form.text("role"), "datasets": form.all("datasets")}
        try:
            told = forms.as_request(d.NewToken, said | {"days": forms.whole(form.text("days"), "days")})
            _check_known(service, told["datasets"])
            token, secret = create_token(
                service.store, told["analyst"], told["role"], told["days"], tuple(told["datasets"])
            )
        except InvalidInput as refusal:
            return _page(request, service, 400, alert=str(refusal))
        return _page(request, service, 201, made={"secret": secret, "token": token})

    @made.post("/tokens/{token}/revoke")
    def revoke(service: InService, _: Keeper, __: Sent, token: TokenId) -> Response:
        """End a token, and sign out every browser that used it."""
        if not revoke_token(service.store, token):
            raise not_found()
        return RedirectResponse(f"{PAGE}#tokens", 303)

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


def _page(request: Request, service: Service, status: int = 200, **more: Any) -> Response:
    tokens, grants, now = all_tokens(service.store), all_grants(service.store), time.time()
    analysts = sorted({one.analyst for one in tokens if one.role == "analyst"} | {who for _, who in grants})
    given: dict[str, Any] = {"tokens": [(one, _state(one.revoked, one.expires, now)) for one in tokens], "made": None}
    given |= {"datasets": service.holdings.names, "analysts": analysts, "grants": set(grants), "roles": ROLES}
    return page(request, "access.html", status, **(given | more))


def _state(revoked: float | None, expires: float, now: float) -> str:
    return "revoked" if revoked is not None else "expired" if expires <= now else "valid"


def _check_known(service: Service, names: list[str]) -> None:
    if not set(names) <= set(service.holdings.names):
        raise not_found()
