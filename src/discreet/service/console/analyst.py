"""The analyst's pages: data sets, asking, answers, history, comparing; each for real and in rehearsal."""

from __future__ import annotations

import json
from typing import Annotated, Any

from fastapi import APIRouter, Path, Query, Request
from starlette.responses import RedirectResponse, Response

from discreet.custodian.secrets import identifier
from discreet.errors import DiscreetError
from discreet.schema.public import schema_to_public_json
from discreet.service import documents as d
from discreet.service.access import Entered, InService, Someone, visible
from discreet.service.console import copies, forms, views
from discreet.service.console.copies import address_of
from discreet.service.console.forms import Form, Sent
from discreet.service.console.places import InPlace, Where, where
from discreet.service.console.refusing import PageRoute
from discreet.service.console.rendering import page
from discreet.service.problems import BY_NAME, Problem, problem_of
from discreet.service.queueing import job_to_json, own_job, queue_ask
from discreet.service.routes.datasets import Before, answer, budget, history, kept_answer, preview

MOST_COMPARED = 8
FIELDS = (
    *("question", "size", "prior", "delta", "distance", "model", "rows", "tail"),
    *("constraints", "ranges", "population_size"),
)
BOXES = ("interval", "fresh", "reuse", "population")
AnswerId = Annotated[str, Path(min_length=1, max_length=64)]
Ids = Annotated[list[str], Query(max_length=MOST_COMPARED, default_factory=list)]


def start() -> APIRouter:
    """The list of data sets, and the page of a job."""
    made = APIRouter(prefix="/console", route_class=PageRoute)

    @made.get("/datasets")
    def datasets(request: Request, service: InService, principal: Someone) -> Response:
        """The data sets that are granted, and what is left of each."""
        held = [service.holdings.held(name) for name in visible(service, principal)]
        cards = [_card(Entered(service, principal, one, False)) for one in held if one is not None]
        return page(request, "datasets.html", cards=cards)

    @made.get("/jobs/{job}")
    def one_job(request: Request, service: InService, principal: Someone, job: AnswerId) -> Response:
        """How a job stands; a question that is answered leads to its answer."""
        told = job_to_json(service, principal, own_job(service, principal, job))
        place = Where(str(told["dataset"]), bool(told["rehearsal"]))
        if told["answer"]:
            return RedirectResponse(f"{place.pages}/answers/{told['answer']}", 303)
        held = service.holdings.held(place.dataset)
        deadline = 1.0 if held is None else held.told.deadline
        return page(request, "job.html", job=told, where=place, deadline=deadline, rehearsal=place.rehearsal)

    return made


def pages(prefix: str) -> APIRouter:
    """The pages of one data set, under a prefix: the real one, or its rehearsal."""
    made = APIRouter(prefix=prefix, route_class=PageRoute)

    @made.get("/{dataset}")
    def asking(request: Request, entered: InPlace, again: str | None = None) -> Response:
        """Where a question is made; `again` is an answer whose question it begins with."""
        if again is None:
            return _asking(request, entered, _fields(Form({})), given=False)
        return _asking(request, entered, _said(json.loads(kept_answer(entered, again).document)["request"]))

    @made.post("/{dataset}/preview")
    def previewed(request: Request, entered: InPlace, form: Sent) -> Response:
        """The same page with a preview, for browsers without scripts."""
        try:
            made = preview(entered, forms.as_request(d.PreviewAsk, forms.asked(form)))
        except (Problem, DiscreetError) as refusal:
            return _refused(request, entered, form, problem_of(refusal))
        return _asking(request, entered, _fields(form), preview=made, key=form.text("key"))

    @made.post("/{dataset}/ask")
    def asked(request: Request, entered: InPlace, form: Sent) -> Response:
        """Ask, and go to the answer; a form that is sent twice is answered, and paid for, once."""
        try:
            said = forms.as_request(d.Ask, forms.asked(form) | forms.asked_beside(form))
            key = forms.key_of(form, said)
            if entered.held.jobs:
                return RedirectResponse(f"/console/jobs/{queue_ask(entered, key, said)['id']}", 303)
            return RedirectResponse(f"{where(entered).pages}/answers/{answer(entered, key, said).id}", 303)
        except (Problem, DiscreetError) as refusal:
            return _refused(request, entered, form, problem_of(refusal))

    @made.get("/{dataset}/answers/{wanted}")
    def one_answer(request: Request, entered: InPlace, wanted: AnswerId) -> Response:
        """An answer with all that belongs to it."""
        document, place = json.loads(kept_answer(entered, wanted).document), where(entered)
        address = address_of(entered.service.config, request)
        more: dict[str, Any] = {
            "shown": views.answer(document),
            "meters": views.meters(_balances(entered)),
            "python": copies.python_code(address, entered.name, entered.rehearsal, document["request"]),
            "curl": copies.curl_code(address, place.api, document["request"]),
        }
        return page(request, "answer.html", where=place, document=document, rehearsal=entered.rehearsal, **more)

    @made.get("/{dataset}/history")
    def told_history(request: Request, entered: InPlace, before: Before = None) -> Response:
        """A page of what was asked, to look at again or to compare."""
        told = history(entered, before=before)
        more: dict[str, Any] = {"entries": told["history"], "older": told["next"], "before": before}
        return page(request, "history.html", where=where(entered), rehearsal=entered.rehearsal, **more)

    @made.get("/{dataset}/compare")
    def compared(request: Request, entered: InPlace, ids: Ids) -> Response:
        """Answers side by side."""
        wanted = [one for part in ids for one in part.split(",") if one][:MOST_COMPARED]
        found = [json.loads(kept_answer(entered, one).document) for one in wanted]
        shown = [{"document": one} | views.answer(one) for one in found]
        chart = views.compared(found)
        axis = views.axis(found) if chart else []
        more: dict[str, Any] = {"where": where(entered), "rehearsal": entered.rehearsal}
        return page(request, "compare.html", answers=shown, chart=chart, axis=axis, **more)

    return made


def _card(entered: Entered) -> dict[str, Any]:
    """A data set in the list; one that cannot be opened says so."""
    told: dict[str, Any] = {"where": where(entered), "deadline": entered.held.told.deadline, "problem": None}
    told |= {"units": entered.schema.units, "columns": len(entered.schema.columns)}
    try:
        return told | {"meters": views.meters(_balances(entered))}
    except DiscreetError as refusal:
        return told | {"meters": [], "problem": problem_of(refusal).document()["detail"]}


def _balances(entered: Entered) -> list[dict[str, Any]]:
    found: Any = budget(entered)["budget"]
    return list(found)


def _asking(request: Request, entered: Entered, fields: dict[str, Any], status: int = 200, **more: Any) -> Response:
    schema = schema_to_public_json(entered.schema)
    given = {"preview": None, "key": identifier(), "alert": None, "given": True} | more
    given |= {"where": where(entered), "schema": schema, "schema_text": json.dumps(schema), "fields": fields}
    made = given["preview"]
    given["told"] = None if made is None else views.preview(made, bool(fields["fresh"]), entered.rehearsal)
    given |= {"trees": _trees(schema), "rehearsal": entered.rehearsal, "meters": views.meters(_balances(entered))}
    return page(request, "ask.html", status, **given)


def _trees(schema: dict[str, Any]) -> dict[str, Any]:
    return {name: views.branches(one["taxonomy"]) for name, one in schema["columns"].items() if "taxonomy" in one}


def _refused(request: Request, entered: Entered, form: Form, problem: Problem) -> Response:
    """The page once more, as it was filled in, with what is wrong."""
    if problem.name in {"not-found", "internal"}:
        raise problem
    told = problem.document()
    status = BY_NAME[problem.name].status
    return _asking(request, entered, _fields(form), status, alert=told["detail"], key=form.text("key"))


def _fields(form: Form) -> dict[str, Any]:
    """The form as it was filled in."""
    told: dict[str, Any] = {name: form.text(name) for name in FIELDS} | {name: form.ticked(name) for name in BOXES}
    return told | {"how": form.text("how") or "epsilon", "size": form.text("size") or ("" if form.fields else "0.1")}


def _said(asked: dict[str, Any]) -> dict[str, Any]:
    """An earlier request as a form."""
    how = next((name for name in forms.NOISE if name in asked), "epsilon")
    told: dict[str, Any] = {name: _text(asked.get(name)) for name in FIELDS}
    told |= {name: bool(asked.get(name)) for name in BOXES}
    return told | {"how": how, "size": _text(asked.get(how)), "fresh": False, "reuse": False}


def _text(told: object) -> str:
    if isinstance(told, list):
        return "\n".join(map(str, told))
    return "" if told is None else told if isinstance(told, str) else json.dumps(told)
