"""The custodian's pages: people, data sets, releases."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Mapping
from functools import partial
from typing import Annotated, Any

from fastapi import APIRouter, Path, Query, Request
from starlette.responses import RedirectResponse, Response

from discreet.datasets.dataset_dir import generate_identifier
from discreet.errors import ClaimFailed, DiscreetError, InvalidInput
from discreet.ledger.charge import Balance
from discreet.release.method_options import Option
from discreet.release.methods import METHODS, PROTECTION_METHODS, SYNTHETIC_METHODS, build_method, describe_method
from discreet.service import monitoring, requests
from discreet.service.api import models as d
from discreet.service.api.analyst_routes import get_history_document
from discreet.service.api.dependencies import CurrentCustodian, CurrentService, DatasetContext, ManagedDataset
from discreet.service.console import forms, views
from discreet.service.console.forms import ConsoleForm, DatasetUrls, OwnForm, get_dataset_urls
from discreet.service.console.rendering import SESSION_ENDED_PAGE, PageRoute, render_page
from discreet.service.dataset_registry import Service
from discreet.service.jobs import job_to_json, queue_job, queue_release
from discreet.service.problems import PROBLEM_TYPES_BY_NAME, HttpProblem, build_not_found, problem_from_error
from discreet.service.store.job_queue import list_jobs
from discreet.service.store.tokens import (
    MAX_TOKEN_DAYS,
    RELEASE_ACCOUNT,
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
access_pages = APIRouter(prefix=ACCESS_PAGE, route_class=PageRoute)
overview_pages = APIRouter(prefix="/console/custodian", route_class=PageRoute)
release_pages = APIRouter(prefix="/console/custodian/datasets/{dataset}/publish", route_class=PageRoute)
EMPTY_FORM = ConsoleForm({"days": ["30"]})
ID_PATTERN = re.compile("[0-9a-f]{32}")
TokenId = Annotated[str, Path(min_length=1, max_length=64)]
LINE_CHOICES = (50, 200, 1000)
Lines = Annotated[int, Query(ge=1, le=1000)]
DEFAULT_METHOD = "private-linked"
"""The method that previews recommend, unless epsilon is very small."""


@access_pages.get("")
def show_access(request: Request, service: CurrentService, _: CurrentCustodian) -> Response:
    """Tokens, and a table of analysts by data sets."""
    return _render_access_page(request, service)


@access_pages.post("/tokens")
def show_new_token(request: Request, service: CurrentService, _: CurrentCustodian, form: OwnForm) -> Response:
    """Make a token; the page that says so is the only one that ever shows it."""
    try:
        token, secret = _create_token(service, form)
    except InvalidInput as refusal:
        return _render_access_page(request, service, 400, form, alert=str(refusal))
    return _render_access_page(request, service, 201, made={"secret": secret, "token": token})


@access_pages.post("/tokens/{token}/revoke")
def revoke(
    request: Request, service: CurrentService, principal: CurrentCustodian, form: OwnForm, token: TokenId
) -> Response:
    """End a token, and sign out every browser that used it; one's own after a second look."""
    is_own = token == principal.token.id
    if is_own and not form.is_ticked("sure"):
        return render_page(request, "revoke.html", token=principal.token)
    try:
        is_known = revoke_token(service.store, token, spare_last=True)
    except InvalidInput as refusal:
        return _render_access_page(request, service, 400, alert=str(refusal))
    if not is_known:
        raise build_not_found()
    return RedirectResponse(SESSION_ENDED_PAGE if is_own else f"{ACCESS_PAGE}#tokens", 303)


@access_pages.post("/grants")
def change_grant(service: CurrentService, _: CurrentCustodian, form: OwnForm) -> Response:
    """Let an analyst ask a data set, or no more."""
    dataset, analyst = form.get_text("dataset"), form.get_text("analyst")
    _require_known_datasets(service, [dataset])
    if form.get_text("give") == "yes":
        grant_dataset(service.store, dataset, analyst)
    else:
        revoke_grant(service.store, dataset, analyst)
    return RedirectResponse(f"{ACCESS_PAGE}#grants", 303)


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
    request: Request, service: Service, status: int = 200, form: ConsoleForm = EMPTY_FORM, **variables: object
) -> Response:
    tokens, grants, now = list_tokens(service.store), list_grants(service.store), time.time()
    token_analysts = {token.analyst for token in tokens if token.role == "analyst"}
    token_states = [(token, _describe_token_state(token, now)) for token in tokens]
    values: dict[str, object] = {"tokens": token_states, "made": None}
    values |= {"analysts": sorted(token_analysts | {analyst for _, analyst in grants}), "grants": set(grants)}
    values |= {"datasets": service.registry.names, "roles": ROLES, "key": generate_identifier()}
    values |= {"fields": {name: form.get_text(name) for name in ("analyst", "role", "days")}}
    return render_page(request, "access.html", status, ticked=form.get_values("datasets"), **(values | variables))


def _describe_token_state(token: Token, now: float) -> str:
    return "revoked" if token.revoked is not None else "valid" if token.is_valid(now) else "expired"


def _require_known_datasets(service: Service, names: list[str]) -> None:
    if not set(names) <= set(service.registry.names):
        raise build_not_found()


@overview_pages.get("")
def show_overview(request: Request, service: CurrentService, _: CurrentCustodian) -> Response:
    """Every data set with what was ever spent of it, and what to look at."""
    cards = [_build_card(service, name) for name in service.registry.names]
    warnings = monitoring.list_warnings(service)
    return render_page(request, "overview.html", cards=cards, warnings=warnings, alerts=monitoring.ALERT_KINDS)


@overview_pages.get("/datasets/{dataset}")
def show_dataset_overview(
    request: Request, context: ManagedDataset, lines: Lines = LINE_CHOICES[0], verify: str = ""
) -> Response:
    """One data set: spend by model and analyst, snapshots, log and chain."""
    entries: Any = get_history_document(context, lines)["history"]
    variables: dict[str, Any] = {
        "meters": views.build_meters(list_account_balances(context.service, context.name)),
        "accounts": _list_accounts(context, {entry["analyst"] for entry in entries}),
        "snapshots": monitoring.snapshots_to_json(context.schema),
        "deadline": context.dataset.config.deadline,
        "chain": _verify_chain(context) if verify else None,
        "jobs": _find_jobs_by_entry(context),
        "payer": RELEASE_ACCOUNT,
        "where": get_dataset_urls(context),
    }
    variables |= {"entries": entries, "lines": lines, "choices": LINE_CHOICES}
    return render_page(request, "dataset.html", **variables)


def _build_card(service: Service, name: str) -> dict[str, object]:
    analysts = sum(dataset == name for dataset, _ in list_grants(service.store))
    return views.build_card(DatasetUrls(name, False), partial(list_account_balances, service, name), analysts=analysts)


def list_account_balances(service: Service, name: str, analyst: str | None = None) -> list[Balance]:
    """List the accounts of the data set, or those of one analyst."""
    with service.registry.lease_custodian(name) as custodian:
        return [balance for balance in custodian.budget(analyst) if balance.analyst == analyst]


def _list_accounts(context: DatasetContext, active_names: set[str | None]) -> list[dict[str, object]]:
    granted_names = {analyst for dataset, analyst in list_grants(context.service.store) if dataset == context.name}
    accounts: list[dict[str, object]] = []
    for name in sorted(granted_names | {active_name for active_name in active_names if active_name is not None}):
        meters = views.build_meters(list_account_balances(context.service, context.name, name))
        accounts.append({"analyst": name, "granted": name in granted_names, "meters": meters})
    return accounts


def _find_jobs_by_entry(context: DatasetContext) -> dict[int, str]:
    return {
        json.loads(job.result)["release"]["entry"]: job.id
        for job in list_jobs(context.service.store, None)
        if (job.dataset, job.kind, job.state) == (context.name, "publish", "done") and job.result is not None
    }


def _verify_chain(context: DatasetContext) -> dict[str, object]:
    """The result of recomputing the chain; one that does not hold is shown, not refused."""
    try:
        with context.lease_custodian() as custodian:
            return {"problem": None} | monitoring.verify_dataset_chain(custodian)
    except ClaimFailed as refusal:
        return {"problem": str(refusal)}


@release_pages.get("")
def show_release_form(request: Request, context: ManagedDataset, method: str = DEFAULT_METHOD) -> Response:
    """Where a release begins: the form of one method."""
    return _render_release_page(request, context, ConsoleForm({"method": [method]}))


@release_pages.post("/preview")
def show_release_preview(request: Request, context: ManagedDataset, form: OwnForm) -> Response:
    """Whether the recipe can be made, and how far off private files would be, for nothing."""
    try:
        body = _read_release(form)
        with context.lease_custodian() as custodian:
            requests.check_release(custodian, body.build())
            if body.method in PROTECTION_METHODS:
                return _render_release_page(request, context, form, fits=body.method)
            expected = requests.estimate_releases(custodian, None, body.list_options())  # all that can be made
            return _render_release_page(request, context, form, expected=expected)
    except DiscreetError as refusal:
        return _render_release_refusal(request, context, form, problem_from_error(refusal))


@release_pages.post("/release")
def request_release_job(request: Request, context: ManagedDataset, form: OwnForm) -> Response:
    """Queue a release, after whatever can be refused at once."""
    try:
        body = _read_release(form)
        if not form.is_ticked("sure"):
            raise InvalidInput("tick the box that says what it costs, then publish")
        return _redirect_to_job(queue_release(context, forms.compute_form_key(form, body), body))
    except (HttpProblem, DiscreetError) as refusal:
        return _render_release_refusal(request, context, form, problem_from_error(refusal))


@release_pages.post("/sweep")
def request_sweep_job(request: Request, context: ManagedDataset, form: OwnForm) -> Response:
    """Queue a comparison of methods; nothing is released."""
    try:
        ks = {"ks": form.get_text("ks")} if form.get_text("ks") else {}
        body = d.parse_fields(d.Sweep, ks | {"methods": form.get_values("methods")})
        return _redirect_to_job(queue_job(context, "sweep", forms.compute_form_key(form, body), body))
    except (HttpProblem, DiscreetError) as refusal:
        return _render_release_refusal(request, context, form, problem_from_error(refusal))


def _redirect_to_job(job: dict[str, object]) -> Response:
    return RedirectResponse(f"/console/jobs/{job['id']}", 303)


def _read_release(form: ConsoleForm) -> d.ReleaseRequest:
    """The form of a method as a body of the API."""
    method, file_format = form.get_text("method"), form.get_text("format")
    own_options = METHODS[method].list_options() if method in METHODS else {}
    foreign = {name for item in METHODS.values() for name in item.list_options()} - own_options.keys()
    values: dict[str, object] = {name: form.get_text(name) for name in foreign}
    values |= {name: _read_option(form, option) for name, (option, _) in own_options.items()}
    options = {name: value for name, value in values.items() if value not in ("", None, []) and value is not False}
    build_method(method, options)  # refused in its own words
    output = {"report": True} | ({"format": file_format} if file_format else {})
    return d.parse_fields(d.RELEASE_MODELS[method], {"method": method} | options | output)


def _read_option(form: ConsoleForm, option: Option) -> object:
    text, lines = form.get_text(option.name), form.get_lines(option.name)
    match option.kind:
        case "boolean":
            return form.is_ticked(option.name)
        case "columns":
            return form.get_values(option.name)
        case "integer" | "auto":
            return "auto" if text == "auto" else forms.parse_optional_integer(text, option.name)
        case "pairs":
            return [[name.strip() for name in line.split(",")] for line in lines]
        case "sizes" | "levels":
            parsed = option.parse(lines if option.kind == "sizes" else text) if text else None
            return dict(parsed) if isinstance(parsed, Mapping) else None
        case _:
            return text


def _render_release_page(
    request: Request, context: DatasetContext, form: ConsoleForm, status: int = 200, **variables: object
) -> Response:
    service, principal = context.service, context.principal
    dataset_jobs = [job for job in list_jobs(service.store, None) if job.dataset == context.name]
    jobs = [job for job in dataset_jobs if job.kind != "ask" and job.rehearsal == context.rehearsal]
    values: dict[str, object] = {"expected": None, "fits": None, "alert": None}
    values["key"] = form.get_text("key") or generate_identifier()
    method = form.get_text("method") if form.get_text("method") in METHODS else DEFAULT_METHOD
    values |= {
        "method": method,
        "about": describe_method(METHODS[method]),
        "options": METHODS[method].list_options().values(),
    }
    values |= {"form": form, "columns": context.schema.columns}
    values |= {"private": tuple(SYNTHETIC_METHODS), "weaker": tuple(PROTECTION_METHODS)}
    values |= {"jobs": [job_to_json(service, principal, job) for job in jobs], "where": get_dataset_urls(context)}
    values |= {"meters": views.build_meters(list_account_balances(service, context.name))}
    return render_page(request, "publish.html", status, **(values | variables))


def _render_release_refusal(
    request: Request, context: DatasetContext, form: ConsoleForm, problem: HttpProblem
) -> Response:
    if problem.name == "internal":
        raise problem
    status = PROBLEM_TYPES_BY_NAME[problem.name].status
    return _render_release_page(request, context, form, status, alert=problem.to_json()["detail"])
