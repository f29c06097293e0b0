"""The custodian's page about releases: what a file would be worth, making one, comparing methods."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request
from starlette.responses import RedirectResponse, Response

from discreet.custodian.private_recipe import SYNTHETIC_METHODS as PRIVATE
from discreet.custodian.recipe import METHOD_OPTIONS as WEAKER
from discreet.custodian.secrets import generate_identifier
from discreet.errors import DiscreetError, InvalidInput
from discreet.service import documents as d
from discreet.service import publishing
from discreet.service.access import DatasetContext, ManagedDataset
from discreet.service.console import forms, views
from discreet.service.console.forms import ConsoleForm, OwnForm
from discreet.service.console.keeping import list_account_balances
from discreet.service.console.places import get_dataset_urls
from discreet.service.console.refusing import PageRoute
from discreet.service.console.rendering import render_page
from discreet.service.problems import PROBLEM_TYPES_BY_NAME, HttpProblem, problem_from_error
from discreet.service.queueing import job_to_json, queue_job, queue_release
from discreet.service.store.jobs import list_jobs

RELEASE_FIELDS = ("method", "epsilon", "delta", "k", "t", "format", "ks")
DEFAULT_FIELDS = {"method": "private-linked"}
"""What a page begins with: the method that previews advise, unless very little may be lost."""


def build_release_pages() -> APIRouter:
    """The routes."""
    router = APIRouter(prefix="/console/custodian/datasets/{dataset}/publish", route_class=PageRoute)

    @router.get("")
    def start(request: Request, entered: ManagedDataset) -> Response:
        """Where a release begins."""
        return _render_release_page(request, entered, ConsoleForm({}))

    @router.post("/preview")
    def show_preview(request: Request, entered: ManagedDataset, form: OwnForm) -> Response:
        """Whether the recipe can be made, and how far off private files would be, for nothing."""
        try:
            recipe = _read_release(form)
            with entered.service.registry.lease_custodian(entered.name) as custodian:
                publishing.check_release_request(custodian, recipe)
                if recipe["method"] in WEAKER:
                    return _render_release_page(request, entered, form, fits=recipe["method"])
                body = forms.validate_body(d.Expect, _read_private_fields(form))
                return _render_release_page(
                    request, entered, form, expected=publishing.estimate_requested_release(custodian, body)
                )
        except DiscreetError as refusal:
            return _render_release_refusal(request, entered, form, problem_from_error(refusal))

    @router.post("/release")
    def release(request: Request, entered: ManagedDataset, form: OwnForm) -> Response:
        """Queue a release, after whatever can be refused at once."""
        try:
            body = _read_release(form)
            if not form.is_ticked("sure"):
                raise InvalidInput("tick the box that says what it costs, then publish")
            return _redirect_to_job(queue_release(entered, forms.compute_form_key(form, body), body))
        except (HttpProblem, DiscreetError) as refusal:
            return _render_release_refusal(request, entered, form, problem_from_error(refusal))

    @router.post("/sweep")
    def sweep(request: Request, entered: ManagedDataset, form: OwnForm) -> Response:
        """Queue a comparison of methods; nothing is released."""
        try:
            ks = {"ks": form.get_text("ks")} if form.get_text("ks") else {}
            body = forms.validate_body(d.Sweep, ks | {"methods": form.get_values("methods")})
            return _redirect_to_job(queue_job(entered, "sweep", forms.compute_form_key(form, body), body))
        except (HttpProblem, DiscreetError) as refusal:
            return _render_release_refusal(request, entered, form, problem_from_error(refusal))

    return router


def _redirect_to_job(job: dict[str, object]) -> Response:
    return RedirectResponse(f"/console/jobs/{job['id']}", 303)


def _read_release(form: ConsoleForm) -> dict[str, Any]:
    """The form as a body of the API; what is missing is told by the page's own names."""
    if form.get_text("method") in PRIVATE and not form.get_text("epsilon"):
        raise InvalidInput("give an epsilon, how much may be lost, such as 1")
    return forms.validate_body(d.Publish, _read_recipe_fields(form))


def _read_private_fields(form: ConsoleForm) -> dict[str, Any]:
    """What a preview of all private methods takes."""
    fields = {
        "epsilon": form.get_text("epsilon"),
        "delta": form.get_text("delta"),
        "k": _read_k(form),
        "columns": form.get_values("columns"),
    }
    return {name: value for name, value in fields.items() if value not in ("", None, [])}


def _read_recipe_fields(form: ConsoleForm) -> dict[str, Any]:
    """What a release takes."""
    fields: dict[str, Any] = {name: form.get_text(name) for name in ("method", "epsilon", "delta", "t", "format")}
    fields |= {"k": _read_k(form), "columns": form.get_values("columns"), "report": True}
    if fields["method"] in WEAKER:
        fields |= {"keep": fields.pop("columns")}
    return {name: value for name, value in fields.items() if value not in ("", None, [])}


def _read_k(form: ConsoleForm) -> int | str | None:
    text = form.get_text("k")
    return "auto" if text == "auto" else forms.parse_optional_integer(text, "k")


def _render_release_page(
    request: Request, context: DatasetContext, form: ConsoleForm, status: int = 200, **variables: Any
) -> Response:
    service, principal = context.service, context.principal
    dataset_jobs = [job for job in list_jobs(service.store, None) if job.dataset == context.name]
    jobs = [job for job in dataset_jobs if job.kind != "ask" and job.rehearsal == context.rehearsal]
    values: dict[str, Any] = {
        "expected": None,
        "fits": None,
        "alert": None,
        "key": form.get_text("key") or generate_identifier(),
    }
    values["fields"] = {name: form.get_text(name) or DEFAULT_FIELDS.get(name, "") for name in RELEASE_FIELDS}
    values |= {"ticked": set(form.get_values("columns")), "compared": form.get_values("methods")}
    values |= {"columns": context.schema.columns, "private": PRIVATE, "weaker": tuple(WEAKER)}
    values |= {"jobs": [job_to_json(service, principal, job) for job in jobs], "where": get_dataset_urls(context)}
    values |= {"meters": views.build_meters(list_account_balances(service, context.name))}
    return render_page(request, "publish.html", status, **(values | variables))


def _render_release_refusal(
    request: Request, context: DatasetContext, form: ConsoleForm, problem: HttpProblem
) -> Response:
    if problem.name == "internal":
        raise problem
    return _render_release_page(
        request, context, form, PROBLEM_TYPES_BY_NAME[problem.name].status, alert=problem.to_json()["detail"]
    )
