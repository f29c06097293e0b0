"""The analyst's pages, and the code that they show for asking a question again.

The code asks for no fresh draw: as long as the snapshot is the same, running it finds the stored answer and pays
nothing.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Mapping
from functools import partial
from typing import Annotated, Any

from fastapi import APIRouter, Path, Query, Request
from starlette.responses import RedirectResponse, Response

from discreet.client.transport import format_url
from discreet.datasets.dataset_dir import generate_identifier
from discreet.errors import DiscreetError
from discreet.planner.options import NOISE_OPTIONS, OPTION_READERS
from discreet.schema.schema import schema_to_public_json
from discreet.service.api import models as d
from discreet.service.api.analyst_routes import (
    Before,
    answer_dataset_question,
    find_visible_answer,
    get_history_document,
    list_own_balances,
    preview_dataset_question,
)
from discreet.service.api.dependencies import (
    CurrentDataset,
    CurrentPrincipal,
    CurrentService,
    DatasetContext,
    DatasetRouter,
    list_visible_datasets,
)
from discreet.service.config import Config
from discreet.service.console import forms, views
from discreet.service.console.forms import ConsoleForm, DatasetUrls, OwnForm, get_dataset_urls
from discreet.service.console.rendering import PageRoute, render_page
from discreet.service.jobs import find_own_job, job_to_json, queue_question
from discreet.service.problems import PROBLEM_TYPES_BY_NAME, HttpProblem, problem_from_error

EXACT_OPTIONS = [name for name, reader in OPTION_READERS.items() if reader.number == "exact"]
DECIMAL_PATTERN = re.compile(r"[0-9]+(\.[0-9]+)?(e-?[0-9]+)?")
FORM_FIELDS = forms.list_form_fields(d.Ask)
MAX_COMPARED = 8
AnswerId = Annotated[str, Path(min_length=1, max_length=64)]
start_pages = APIRouter(prefix="/console", route_class=PageRoute)
dataset_pages = DatasetRouter("/console", "", PageRoute)
AnswerIds = Annotated[list[str], Query(max_length=MAX_COMPARED, default_factory=list)]


def get_public_url(config: Config, request: Request) -> str:
    """Get the address of the service for code that sends a token: as configured, else where the request was received.

    Never the Host header: whoever can set it would be sent the token of the person who runs the code.
    """
    if config.url is not None:
        return config.url
    host, port = request.scope.get("server") or (config.address, config.port)
    default_port = 80 if config.tls is None else 443
    return format_url(config.tls is not None, host, None if port == default_port else port)


def format_python_code(address: str, dataset: str, rehearsal: bool, body: Mapping[str, object]) -> str:
    """Write a question as a few lines for the Python client."""
    rehearsal_argument = ", rehearsal=True" if rehearsal else ""
    # What the client asks for when it has the answer is left out.
    later = {name for name, reader in OPTION_READERS.items() if reader.is_afterwards}
    fields = {name: value for name, value in _drop_fresh(body).items() if name not in later}
    literals = {name: _format_literal(name, value) for name, value in fields.items()}
    question = literals.pop("question")
    arguments = "".join(
        f"        {argument},\n" for argument in [question, *(f"{name}={value}" for name, value in literals.items())]
    )
    has_fractions = any(literals.get(name, "").startswith("Fraction(") for name in EXACT_OPTIONS)
    fractions = "from fractions import Fraction\n" if has_fractions else ""
    return (
        f"import os\n{fractions}\nfrom discreet import Client\n\n"
        f'with Client({address!r}, os.environ["DISCREET_TOKEN"], {dataset!r}{rehearsal_argument}) as client:\n'
        f"    answer = client.answer(\n{arguments}    )\n"
        "    print(answer.value if answer.single else answer.rows)\n"
        "    print(answer.interval(), answer.guarantee.words())\n"
    )


def format_curl_command(address: str, api: str, request_body: Mapping[str, object]) -> str:
    """Write a question as a shell command."""
    body = json.dumps(_drop_fresh(request_body), ensure_ascii=False)
    return (
        f"curl --silent --show-error {shlex.quote(f'{address}{api}/answers')} \\\n"
        '  --header "Authorization: Bearer $DISCREET_TOKEN" \\\n'
        "  --header 'Content-Type: application/json' \\\n"
        f"  --data {shlex.quote(body)}\n"
    )


def _drop_fresh(body: Mapping[str, object]) -> dict[str, object]:
    return {name: value for name, value in body.items() if name != "fresh"}


def _format_literal(name: str, value: object) -> str:
    """A value in Python; an exact number as the number it is."""
    if name in EXACT_OPTIONS and isinstance(value, str):
        return value if DECIMAL_PATTERN.fullmatch(value) else f"Fraction({value!r})"
    return repr(value)


@start_pages.get("/datasets")
def show_datasets(request: Request, service: CurrentService, principal: CurrentPrincipal) -> Response:
    """The data sets that are granted, and what is left of each."""
    served_datasets = [service.registry.find_dataset(name) for name in list_visible_datasets(service, principal)]
    cards = [
        _build_card(DatasetContext(service, principal, dataset, False))
        for dataset in served_datasets
        if dataset is not None
    ]
    return render_page(request, "datasets.html", cards=cards)


@start_pages.get("/jobs/{job}")
def show_job(request: Request, service: CurrentService, principal: CurrentPrincipal, job: AnswerId) -> Response:
    """How a job stands; a question that is answered leads to its answer."""
    document = job_to_json(service, principal, find_own_job(service, principal, job))
    urls = DatasetUrls(str(document["dataset"]), bool(document["rehearsal"]))
    if document["answer"]:
        return RedirectResponse(f"{urls.pages}/answers/{document['answer']}", 303)
    dataset = service.registry.find_dataset(urls.dataset)
    deadline = 1.0 if dataset is None else dataset.config.deadline
    return render_page(request, "job.html", job=document, where=urls, deadline=deadline, rehearsal=urls.rehearsal)


@dataset_pages.get("")
def show_question_form(request: Request, context: CurrentDataset, again: str | None = None) -> Response:
    """Where a question is made; `again` is an answer whose question it begins with."""
    if again is None:
        return _render_question_page(request, context, _read_fields(ConsoleForm({})), given=False)
    document = json.loads(find_visible_answer(context, again).document)
    return _render_question_page(request, context, _fields_from_request(document["request"]))


@dataset_pages.post("/preview")
def show_question_preview(request: Request, context: CurrentDataset, form: OwnForm) -> Response:
    """The same page with a preview, for browsers without scripts."""
    try:
        document = preview_dataset_question(context, forms.read_question(form, d.PreviewAsk))
    except (HttpProblem, DiscreetError) as refusal:
        return _render_question_refusal(request, context, form, problem_from_error(refusal))
    return _render_question_page(request, context, _read_fields(form), preview=document, key=form.get_text("key"))


@dataset_pages.post("/ask")
def submit_question(request: Request, context: CurrentDataset, form: OwnForm) -> Response:
    """Ask, and go to the answer; a form that is sent twice is answered, and paid for, once."""
    try:
        body = forms.read_question(form, d.Ask)
        key = forms.compute_form_key(form, body)
        if context.dataset.runs_as_jobs:
            return RedirectResponse(f"/console/jobs/{queue_question(context, key, body)['id']}", 303)
        answer_id = answer_dataset_question(context, key, body).id
        return RedirectResponse(f"{get_dataset_urls(context).pages}/answers/{answer_id}", 303)
    except (HttpProblem, DiscreetError) as refusal:
        return _render_question_refusal(request, context, form, problem_from_error(refusal))


@dataset_pages.get("/answers/{wanted}")
def show_answer(request: Request, context: CurrentDataset, wanted: AnswerId) -> Response:
    """An answer with all that belongs to it."""
    document, urls = json.loads(find_visible_answer(context, wanted).document), get_dataset_urls(context)
    address = get_public_url(context.service.config, request)
    variables: dict[str, Any] = {
        "shown": views.build_answer_view(document),
        "meters": views.build_meters(list_own_balances(context)),
        "python": format_python_code(address, context.name, context.rehearsal, document["request"]),
        "curl": format_curl_command(address, urls.api, document["request"]),
    }
    variables |= {"where": urls, "document": document, "rehearsal": context.rehearsal}
    return render_page(request, "answer.html", **variables)


@dataset_pages.get("/history")
def show_history(request: Request, context: CurrentDataset, before: Before = None) -> Response:
    """A page of what was asked, to look at again or to compare."""
    history_page = get_history_document(context, before=before)
    variables: dict[str, Any] = {"where": get_dataset_urls(context), "rehearsal": context.rehearsal}
    variables |= {"entries": history_page["history"], "older": history_page["next"], "before": before}
    return render_page(request, "history.html", **variables)


@dataset_pages.get("/compare")
def compare_answers(request: Request, context: CurrentDataset, ids: AnswerIds) -> Response:
    """Answers side by side."""
    answer_ids = [item for part in ids for item in part.split(",") if item][:MAX_COMPARED]
    documents = [json.loads(find_visible_answer(context, item).document) for item in answer_ids]
    cards = [{"document": item} | views.build_answer_view(item) for item in documents]
    chart = views.build_comparison(documents)
    axis = views.build_chart_axis(documents) if chart else []
    variables: dict[str, Any] = {"where": get_dataset_urls(context), "rehearsal": context.rehearsal}
    return render_page(request, "compare.html", answers=cards, chart=chart, axis=axis, **variables)


def _build_card(context: DatasetContext) -> dict[str, object]:
    return views.build_card(
        get_dataset_urls(context),
        partial(list_own_balances, context),
        units=context.schema.units,
        columns=len(context.schema.columns),
        deadline=context.dataset.config.deadline,
    )


def _render_question_page(
    request: Request,
    context: DatasetContext,
    fields: Mapping[str, object],
    status: int = 200,
    preview: dict[str, object] | None = None,
    **variables: object,
) -> Response:
    schema: dict[str, Any] = schema_to_public_json(context.schema)
    taxonomies = {name: column["taxonomy"] for name, column in schema["columns"].items() if "taxonomy" in column}
    values: dict[str, object] = {
        "preview": preview,
        "key": generate_identifier(),
        "alert": None,
        "mistake": None,
        "given": True,
    } | variables
    values |= {"where": get_dataset_urls(context), "schema": schema, "schema_text": json.dumps(schema)}
    values |= {"fields": fields, "options": FORM_FIELDS, "summary": None, "rehearsal": context.rehearsal}
    shown_options = forms.list_form_fields(d.PreviewAsk).items()
    previewed = {name: [shown.kind, shown.ticked] for name, shown in shown_options if shown.kind != "noise"}
    values["previewed"] = json.dumps(previewed)
    if preview is not None:
        values["summary"] = views.build_preview_view(preview, bool(fields["fresh"]), context.rehearsal)
    values["trees"] = {name: views.build_taxonomy_tree(taxonomy) for name, taxonomy in taxonomies.items()}
    values["meters"] = views.build_meters(list_own_balances(context))
    return render_page(request, "ask.html", status, **values)


def _render_question_refusal(
    request: Request, context: DatasetContext, form: ConsoleForm, problem: HttpProblem
) -> Response:
    if problem.name in {"not-found", "internal"}:
        raise problem
    status = PROBLEM_TYPES_BY_NAME[problem.name].status
    variables: dict[str, Any] = {"alert": problem.to_json()["detail"], "key": form.get_text("key")}
    mistake = None if problem.position is None else problem.position.mark()
    return _render_question_page(request, context, _read_fields(form), status, mistake=mistake, **variables)


def _read_fields(form: ConsoleForm) -> dict[str, object]:
    size = form.get_text("size") or ("" if form.fields else "0.1")
    fields: dict[str, object] = {
        "question": form.get_text("question"),
        "how": form.get_text("how") or "epsilon",
        "size": size,
    }
    options = {
        name: form.is_ticked(name) if shown.kind == "box" else form.get_text(name)
        for name, shown in FORM_FIELDS.items()
    }
    return options | fields


def _fields_from_request(body: Mapping[str, object]) -> dict[str, object]:
    how = next((name for name in NOISE_OPTIONS if name in body), "epsilon")
    fields: dict[str, object] = {
        "question": _format_field(body.get("question")),
        "how": how,
        "size": _format_field(body.get(how)),
    }
    stated = {name: body.get(name) if shown.is_kept else None for name, shown in FORM_FIELDS.items()}
    options = {
        name: bool(stated[name]) if shown.kind == "box" else _format_field(stated[name])
        for name, shown in FORM_FIELDS.items()
    }
    return options | fields


def _format_field(value: object) -> str:
    if isinstance(value, list):
        return "\n".join(map(str, value))
    return "" if value is None else value if isinstance(value, str) else json.dumps(value)
