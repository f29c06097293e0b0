"""The custodian's page about people: tokens, and who may ask what."""

from __future__ import annotations

import re
import time
from typing import Annotated, Any

from fastapi import APIRouter, Path, Request
from starlette.responses import RedirectResponse, Response

from discreet.custodian.secrets import generate_identifier
from discreet.errors import InvalidInput
from discreet.service.access import CurrentCustodian, CurrentService
from discreet.service.console.forms import ConsoleForm, OwnForm
from discreet.service.console.refusing import SESSION_ENDED_PAGE, PageRoute
from discreet.service.console.rendering import render_page
from discreet.service.problems import build_not_found
from discreet.service.state import Service
from discreet.service.store.tokens import (
    MAX_TOKEN_DAYS,
    ROLES,
    Token,
    create_token,
    grant_dataset,
    list_grants,
    list_tokens,
    revoke_grant,
    revoke_token,
)

ACCESS_PAGE = "/console/custodian/access"
EMPTY_FORM = ConsoleForm({"days": ["30"]})
ID_PATTERN = re.compile("[0-9a-f]{32}")
TokenId = Annotated[str, Path(min_length=1, max_length=64)]


def build_access_pages() -> APIRouter:
    """The routes."""
    router = APIRouter(prefix=ACCESS_PAGE, route_class=PageRoute)

    @router.get("")
    def access(request: Request, service: CurrentService, _: CurrentCustodian) -> Response:
        """Tokens, and a table of analysts by data sets."""
        return _render_access_page(request, service)

    @router.post("/tokens")
    def new_token(request: Request, service: CurrentService, _: CurrentCustodian, form: OwnForm) -> Response:
        """Make a token; the page that says so is the only one that ever shows it."""
        try:
            token, secret = _create_token(service, form)
        except InvalidInput as refusal:
            return _render_access_page(request, service, 400, form, alert=str(refusal))
        return _render_access_page(request, service, 201, made={"secret": secret, "token": token})

    @router.post("/tokens/{token}/revoke")
    def revoke(
        request: Request, service: CurrentService, keeper: CurrentCustodian, form: OwnForm, token: TokenId
    ) -> Response:
        """End a token, and sign out every browser that used it; one's own after a second look."""
        is_own = token == keeper.token.id
        if is_own and not form.is_ticked("sure"):
            return render_page(request, "revoke.html", token=keeper.token)
        try:
            is_known = revoke_token(service.store, token, spare_last=True)
        except InvalidInput as refusal:
            return _render_access_page(request, service, 400, alert=str(refusal))
        if not is_known:
            raise build_not_found()
        return RedirectResponse(SESSION_ENDED_PAGE if is_own else f"{ACCESS_PAGE}#tokens", 303)

    @router.post("/grants")
    def change(service: CurrentService, _: CurrentCustodian, form: OwnForm) -> Response:
        """Let an analyst ask a data set, or no more."""
        dataset, analyst = form.get_text("dataset"), form.get_text("analyst")
        _require_known_datasets(service, [dataset])
        if form.get_text("give") == "yes":
            grant_dataset(service.store, dataset, analyst)
        else:
            revoke_grant(service.store, dataset, analyst)
        return RedirectResponse(f"{ACCESS_PAGE}#grants", 303)

    return router


def _create_token(service: Service, form: ConsoleForm) -> tuple[Token, str]:
    """The token that a form asks for; its id is the form's, so that a form that is sent again makes no other."""
    analyst, days, datasets = form.get_text("analyst"), form.get_text("days"), form.get_values("datasets")
    if not analyst:
        raise InvalidInput("say whom the token is for: the name of an analyst, or of a custodian")
    if not (days.isascii() and days.isdecimal() and len(days) < 4 and 0 < int(days) <= MAX_TOKEN_DAYS):
        raise InvalidInput(f"say for how many days it is good: a whole number of days from 1 to {MAX_TOKEN_DAYS}")
    if not ID_PATTERN.fullmatch(form.get_text("key")):
        raise InvalidInput("this form is not one of ours; load the page again")
    _require_known_datasets(service, datasets)
    return create_token(service.store, analyst, form.get_text("role"), int(days), tuple(datasets), form.get_text("key"))


def _render_access_page(
    request: Request, service: Service, status: int = 200, form: ConsoleForm = EMPTY_FORM, **variables: Any
) -> Response:
    tokens, grants, now = list_tokens(service.store), list_grants(service.store), time.time()
    analysts = sorted(
        {token.analyst for token in tokens if token.role == "analyst"} | {analyst for _, analyst in grants}
    )
    values: dict[str, Any] = {
        "tokens": [(token, _describe_token_state(token.revoked, token.expires, now)) for token in tokens],
        "made": None,
    }
    values |= {"datasets": service.registry.names, "analysts": analysts, "grants": set(grants), "roles": ROLES}
    values |= {
        "fields": {name: form.get_text(name) for name in ("analyst", "role", "days")},
        "key": generate_identifier(),
    }
    return render_page(request, "access.html", status, ticked=form.get_values("datasets"), **(values | variables))


def _describe_token_state(revoked: float | None, expires: float, now: float) -> str:
    return "revoked" if revoked is not None else "expired" if expires <= now else "valid"


def _require_known_datasets(service: Service, names: list[str]) -> None:
    if not set(names) <= set(service.registry.names):
        raise build_not_found()
