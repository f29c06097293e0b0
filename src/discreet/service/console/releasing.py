"""The custodian's page about releases: what a file would be worth, making one, comparing methods."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request
from starlette.responses import RedirectResponse, Response

from discreet.custodian.private_recipe import METHODS as PRIVATE
from discreet.custodian.recipe import METHODS as WEAKER
from discreet.custodian.secrets import identifier
from discreet.errors import DiscreetError, InvalidInput
from discreet.service import documents as d
from discreet.service import publishing
from discreet.service.access import Entered, InManaged
from discreet.service.console import forms, views
from discreet.service.console.forms import Form, Sent
from discreet.service.console.keeping import balances
from discreet.service.console.places import where
from discreet.service.console.refusing import PageRoute
from discreet.service.console.rendering import page
from discreet.service.problems import BY_NAME, Problem, problem_of
from discreet.service.queueing import job_to_json, queue, queue_release
from discreet.service.store.jobs import all_jobs

TEXTS = ("method", "epsilon", "delta", "k", "t", "format", "ks")
USUAL = {"method": "private-linked"}
"""What a page begins with: the method that previews advise, unless very little may be lost."""


def router() -> APIRouter:
    """The routes."""
    made = APIRouter(prefix="/console/custodian/datasets/{dataset}/publish", route_class=PageRoute)

    @made.get("")
    def start(request: Request, entered: InManaged) -> Response:
        """Where a release begins."""
        return _page(request, entered, Form({}))

    @made.post("/preview")
    def expected(request: Request, entered: InManaged, form: Sent) -> Response:
        """Whether the recipe can be made, and how far off private files would be, for nothing."""
        try:
            recipe = _read(form)
            with entered.service.holdings.custodian(entered.name) as custodian:
                publishing.check(custodian, recipe)
                if recipe["method"] in WEAKER:
                    return _page(request, entered, form, fits=recipe["method"])
                said = forms.as_request(d.Expect, _private(form))
                return _page(request, entered, form, expected=publishing.expected(custodian, said))
        except DiscreetError as refusal:
            return _refused(request, entered, form, problem_of(refusal))

    @made.post("/release")
    def release(request: Request, entered: InManaged, form: Sent) -> Response:
        """Queue a release, after whatever can be refused at once."""
        try:
            said = _read(form)
            if not form.ticked("sure"):
                raise InvalidInput("tick the box that says what it costs, then publish")
            return _seen(queue_release(entered, forms.key_of(form, said), said))
        except (Problem, DiscreetError) as refusal:
            return _refused(request, entered, form, problem_of(refusal))

    @made.post("/sweep")
    def sweep(request: Request, entered: InManaged, form: Sent) -> Response:
        """Queue a comparison of methods; nothing is released."""
        try:
            ks = {"ks": form.text("ks")} if form.text("ks") else {}
            said = forms.as_request(d.Sweep, ks | {"methods": form.all("methods")})
            return _seen(queue(entered, "sweep", forms.key_of(form, said), said))
        except (Problem, DiscreetError) as refusal:
            return _refused(request, entered, form, problem_of(refusal))

    return made


def _seen(job: dict[str, object]) -> Response:
    return RedirectResponse(f"/console/jobs/{job['id']}", 303)


def _read(form: Form) -> dict[str, Any]:
    """The form as a body of the API; what is missing is told by the page's own names."""
    if form.text("method") in PRIVATE and not form.text("epsilon"):
        raise InvalidInput("give an epsilon, how much may be lost, such as 1")
    return forms.as_request(d.Publish, _recipe(form))


def _private(form: Form) -> dict[str, Any]:
    """What a preview of all private methods takes."""
    said = {"epsilon": form.text("epsilon"), "delta": form.text("delta"), "k": _k(form), "columns": form.all("columns")}
    return {name: value for name, value in said.items() if value not in ("", None, [])}


def _recipe(form: Form) -> dict[str, Any]:
    """What a release takes."""
    said: dict[str, Any] = {name: form.text(name) for name in ("method", "epsilon", "delta", "t", "format")}
    said |= {"k": _k(form), "columns": form.all("columns"), "report": True}
    if said["method"] in WEAKER:
        said |= {"keep": said.pop("columns")}
    return {name: value for name, value in said.items() if value not in ("", None, [])}


def _k(form: Form) -> int | str | None:
    told = form.text("k")
    return "auto" if told == "auto" else forms.whole(told, "k")


def _page(request: Request, entered: Entered, form: Form, status: int = 200, **more: Any) -> Response:
    service, principal = entered.service, entered.principal
    found = [one for one in all_jobs(service.store, None) if one.dataset == entered.name]
    jobs = [one for one in found if one.kind != "ask" and one.rehearsal == entered.rehearsal]
    given: dict[str, Any] = {"expected": None, "fits": None, "alert": None, "key": form.text("key") or identifier()}
    given["fields"] = {name: form.text(name) or USUAL.get(name, "") for name in TEXTS}
    given |= {"ticked": set(form.all("columns")), "compared": form.all("methods")}
    given |= {"columns": entered.schema.columns, "private": PRIVATE, "weaker": tuple(WEAKER)}
    given |= {"jobs": [job_to_json(service, principal, one) for one in jobs], "where": where(entered)}
    given |= {"meters": views.meters(balances(service, entered.name))}
    return page(request, "publish.html", status, **(given | more))


def _refused(request: Request, entered: Entered, form: Form, problem: Problem) -> Response:
    if problem.name == "internal":
        raise problem
    return _page(request, entered, form, BY_NAME[problem.name].status, alert=problem.document()["detail"])
