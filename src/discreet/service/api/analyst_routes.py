"""Routes for analysts: data sets, real or in rehearsal; and the sender's account, saved priors and jobs."""

from __future__ import annotations

import csv
import io
import json
from contextlib import AbstractContextManager
from typing import Annotated

from fastapi import APIRouter, Path, Query
from starlette.responses import FileResponse, Response

from discreet.client.remote_dataset import JsonObject
from discreet.custodian.preview import build_stated_prior
from discreet.json_fields import to_json_value
from discreet.ledger.charge import Balance
from discreet.schema.schema import schema_to_public_json
from discreet.service import openapi, requests
from discreet.service.api import models as d
from discreet.service.api.dependencies import (
    JOB_LINKS,
    KEY_HEADERS,
    CurrentCustodian,
    CurrentDataset,
    CurrentPrincipal,
    CurrentService,
    DatasetContext,
    DatasetRouter,
    Id,
    IdempotencyKey,
    describe_reply,
    describe_text_reply,
    list_visible_datasets,
    reply_with_json,
    reply_with_text,
)
from discreet.service.jobs import find_job_file, find_own_job, is_visible_job, job_to_json, queue_question
from discreet.service.problems import build_not_found
from discreet.service.store.job_queue import list_jobs
from discreet.service.store.stored_answers import (
    SavedPrior,
    StoredAnswer,
    canonicalize_request,
    delete_prior,
    find_answer_by_id,
    find_ids_by_entry,
    list_saved_priors,
    save_prior,
)

Limit = Annotated[int, Query(ge=1, le=1000, description="How many entries at most.")]
Before = Annotated[
    int | None, Query(ge=1, le=2**53, description="Only entries older than this: `next` of the page before.")
]
PRIOR_NAME_PATTERN = r"^[A-Za-z0-9_.-]+$"
PriorName = Annotated[
    str,
    Path(min_length=1, max_length=64, pattern=PRIOR_NAME_PATTERN, description="A prior's name.", examples=["survey"]),
]
FileName = Annotated[str, Path(min_length=1, max_length=200, description="The name of a file, as the job tells it.")]
PRIOR_LINKS = {
    "look": openapi.build_link("GET", "/v1/priors/{name}", name="$request.path.name"),
    "end": openapi.build_link("DELETE", "/v1/priors/{name}", name="$request.path.name"),
}
NEW_ID = "$response.body#/id"
ANSWER_PATH, SESSION_PATH = "/v1/datasets/{dataset}/answers/{answer}", "/v1/datasets/{dataset}/sessions/{session}"
ANSWER_LINKS = {
    name: openapi.build_link("GET", f"{ANSWER_PATH}{suffix}", dataset="$request.path.dataset", answer=NEW_ID)
    for name, suffix in {"again": "", "picture": "/picture", "table": "/csv"}.items()
}
SESSION_LINKS = {
    name: openapi.build_link(method, f"{SESSION_PATH}{suffix}", dataset="$request.path.dataset", session=NEW_ID)
    for name, method, suffix in (("look", "GET", ""), ("ask", "POST", "/answers"), ("end", "DELETE", ""))
}
dataset_list_router = APIRouter()
dataset_router = DatasetRouter("/v1", "data sets")
personal_router = APIRouter(prefix="/v1")


@dataset_list_router.get("/v1/datasets", tags=["data sets"], responses={200: describe_reply(openapi.DataSetsDocument)})
def send_datasets(service: CurrentService, principal: CurrentPrincipal) -> Response:
    """The data sets that you may ask."""
    lines = []
    for name in list_visible_datasets(service, principal):
        dataset = service.registry.find_dataset(name)
        assert dataset is not None
        engine = dataset.engine if principal.is_custodian else None
        clock = {"deadline": dataset.config.deadline, "padding": service.config.padding}
        lines.append({"name": name, "engine": engine} | clock | {"jobs": dataset.runs_as_jobs})
    return reply_with_json({"datasets": lines})


@dataset_router.get("", responses={200: describe_reply(openapi.DataSetDocument)})
def send_dataset(context: CurrentDataset) -> Response:
    """All that is public about a data set."""
    clock = {"deadline": context.dataset.config.deadline, "padding": context.service.config.padding}
    head = {"name": context.name, "rehearsal": context.rehearsal, "jobs": context.dataset.runs_as_jobs}
    return reply_with_json(head | clock | {"schema": schema_to_public_json(context.schema)})


@dataset_router.post("/previews", responses={200: describe_reply(openapi.PreviewDocument)})
def send_preview(context: CurrentDataset, body: d.PreviewAsk) -> Response:
    """What a question would cost and how good its answer would be. It reads no row and charges nothing."""
    return reply_with_json(preview_dataset_question(context, body))


@dataset_router.post(
    "/answers",
    status_code=201,
    responses={
        201: describe_reply(openapi.AnswerDocument, links=ANSWER_LINKS, headers=KEY_HEADERS),
        202: describe_reply(openapi.JobDocument, links=JOB_LINKS, headers=KEY_HEADERS),
    },
)
def send_new_answer(context: CurrentDataset, body: d.Ask, key: IdempotencyKey = None) -> Response:
    """Answer a question; the same again is answered from what is stored, and free. By jobs: 202, then poll."""
    request_key = requests.read_idempotency_key(key)
    if context.dataset.runs_as_jobs:
        return reply_with_json(queue_question(context, request_key, body), 202, request_key)
    stored_answer = answer_dataset_question(context, request_key, body)
    return reply_with_text(stored_answer.document, 201, request_key)


@dataset_router.get("/answers/{answer}", responses={200: describe_reply(openapi.AnswerDocument)})
def send_answer(context: CurrentDataset, answer: Id) -> Response:
    """An answer that was given before."""
    return reply_with_text(find_visible_answer(context, answer).document)


@dataset_router.get("/answers/{answer}/picture", responses={200: describe_reply(openapi.PictureDocument)})
def send_picture(context: CurrentDataset, answer: Id) -> Response:
    """Prior, noise and posterior of an answer, to be drawn by Vega-Lite."""
    stored_answer = find_visible_answer(context, answer)
    with context.lease_custodian() as custodian:
        spec = requests.render_answer_picture(context.service, custodian, stored_answer)
    if spec is None:
        raise build_not_found()
    return reply_with_text(f'{{"spec": {spec}}}')


@dataset_router.get(
    "/answers/{answer}/csv",
    responses={200: describe_text_reply("text/csv", "The rows with their intervals.")},
    response_class=Response,
)
def send_csv(context: CurrentDataset, answer: Id) -> Response:
    """The rows of an answer, each number beside its 95 % interval."""
    text = format_answer_csv(json.loads(find_visible_answer(context, answer).document))
    headers = {"Content-Disposition": 'attachment; filename="answer.csv"'}
    return Response(text, headers=headers, media_type="text/csv")


@dataset_router.post("/priors", responses={200: describe_reply(openapi.PriorDocument)})
def send_prior_preview(context: CurrentDataset, body: d.PriorAsk) -> Response:
    """A prior as the planner reads it for a question."""
    with _meter_previews(context):
        prior = requests.expand_saved_prior(context.service, context.principal.name, body.prior)
        query = requests.check_limits(context.service.config.limits, context.schema, body.question, prior)
        return reply_with_json(build_stated_prior(context.schema, query, prior).to_json())


@dataset_router.get("/budget", responses={200: describe_reply(openapi.BudgetDocument)})
def send_budget(context: CurrentDataset) -> Response:
    """What is spent and left, of the data set and of you; a custodian sees the data set's."""
    budget = [balance.to_json() for balance in list_own_balances(context)]
    return reply_with_json({"dataset": context.name, "analyst": context.history_owner, "budget": budget})


@dataset_router.get("/history", responses={200: describe_reply(openapi.HistoryDocument)})
def send_history(context: CurrentDataset, limit: Limit = 100, before: Before = None) -> Response:
    """A page of what you asked, the latest first; a custodian sees what all asked. `next` is for the page after."""
    return reply_with_json(get_history_document(context, limit, before))


@dataset_router.post(
    "/sessions",
    status_code=201,
    responses={201: describe_reply(openapi.SessionDocument, links=SESSION_LINKS, headers=KEY_HEADERS)},
)
def open_session(context: CurrentDataset, body: d.OpenSession, key: IdempotencyKey = None) -> Response:
    """Pay epsilon at once, then count with noise of this scale as long as all answers together fit."""
    request_key = requests.read_idempotency_key(key)
    return reply_with_json(requests.open_stored_session(context, request_key, body), 201, request_key)


@dataset_router.get("/sessions/{session}", responses={200: describe_reply(openapi.SessionDocument)})
def send_session(context: CurrentDataset, session: Id) -> Response:
    """How a session stands."""
    return reply_with_json(requests.describe_session(context, session))


@dataset_router.post(
    "/sessions/{session}/answers",
    status_code=201,
    responses={201: describe_reply(openapi.SessionAnswerDocument, links=ANSWER_LINKS, headers=KEY_HEADERS)},
)
def send_session_answer(
    context: CurrentDataset, session: Id, body: d.SessionAsk, key: IdempotencyKey = None
) -> Response:
    """Answer a counting question in a session; the same again is the same answer."""
    request_key = requests.read_idempotency_key(key)
    stored_answer = requests.answer_in_session(context, session, request_key, body)
    return reply_with_text(stored_answer.document, 201, request_key)


@dataset_router.delete("/sessions/{session}", status_code=204)
def end_session(context: CurrentDataset, session: Id) -> Response:
    """No more answers in a session; what is left of it is lost."""
    requests.end_counting_session(context, session)
    return Response(status_code=204)


@personal_router.get("/me", tags=["you"], responses={200: describe_reply(openapi.MeDocument)})
def send_account(service: CurrentService, principal: CurrentPrincipal) -> Response:
    """Who you are here, and what you may ask."""
    token = principal.token
    account = {"name": principal.name, "role": token.role, "expires": token.expires}
    return reply_with_json(account | {"datasets": list(list_visible_datasets(service, principal))})


@personal_router.get("/priors", tags=["priors"], responses={200: describe_reply(openapi.SavedPriorsDocument)})
def send_priors(service: CurrentService, principal: CurrentPrincipal) -> Response:
    """The priors that you keep."""
    saved_priors = list_saved_priors(service.store, principal.name)
    return reply_with_json({"priors": to_json_value(saved_priors)})


@personal_router.get("/priors/{name}", tags=["priors"], responses={200: describe_reply(openapi.SavedPriorDocument)})
def send_prior(service: CurrentService, principal: CurrentPrincipal, name: PriorName) -> Response:
    """A prior that you keep."""
    for prior in list_saved_priors(service.store, principal.name):
        if prior.name == name:
            return reply_with_json(prior.to_json())
    raise build_not_found()


@personal_router.put(
    "/priors/{name}", tags=["priors"], responses={200: describe_reply(openapi.SavedPriorDocument, links=PRIOR_LINKS)}
)
def keep_prior(service: CurrentService, principal: CurrentPrincipal, name: PriorName, body: d.SavePrior) -> Response:
    """Keep a prior under a name; a question uses it as @name."""
    prior = SavedPrior(name, body.text, body.note)
    save_prior(service.store, principal.name, prior)
    return reply_with_json(prior.to_json())


@personal_router.delete("/priors/{name}", tags=["priors"], status_code=204)
def forget_prior(service: CurrentService, principal: CurrentPrincipal, name: PriorName) -> Response:
    """Keep a prior no more."""
    if not delete_prior(service.store, principal.name, name):
        raise build_not_found()
    return Response(status_code=204)


@personal_router.get("/jobs", tags=["jobs"], responses={200: describe_reply(openapi.JobsDocument)})
def send_jobs(service: CurrentService, principal: CurrentPrincipal) -> Response:
    """Your latest jobs; a custodian sees all."""
    candidates = list_jobs(service.store, None if principal.is_custodian else principal.name)
    visible_jobs = [job for job in candidates if is_visible_job(service, principal, job)]
    return reply_with_json({"jobs": [job_to_json(service, principal, job) for job in visible_jobs]})


@personal_router.get("/jobs/{job}", tags=["jobs"], responses={200: describe_reply(openapi.JobDocument)})
def send_job(service: CurrentService, principal: CurrentPrincipal, job: Id) -> Response:
    """How a job stands, on its data set's clock."""
    return reply_with_json(job_to_json(service, principal, find_own_job(service, principal, job)))


@personal_router.get(
    "/jobs/{job}/files/{name:path}",
    tags=["jobs"],
    response_class=FileResponse,
    responses={200: {"description": "A file of a release.", "content": {"application/octet-stream": {}}}},
)
def send_file(service: CurrentService, principal: CurrentCustodian, job: Id, name: FileName) -> Response:
    """A file that a job made: the release, its manifest, or the custodian's report."""
    path = find_job_file(service, find_own_job(service, principal, job), name)
    return FileResponse(path, filename=path.name, media_type="application/octet-stream")


def preview_dataset_question(context: DatasetContext, body: d.PreviewAsk) -> dict[str, object]:
    """Preview a question; how long the previews of one token may compute in a minute is bounded."""
    with _meter_previews(context), context.lease_custodian() as custodian:
        expanded_body = requests.expand_question(context.service, context.principal.name, body)
        document = requests.preview_request(context.service, custodian, context.principal.name, expanded_body)
    return document | {"rehearsal": context.rehearsal}


def answer_dataset_question(context: DatasetContext, key: str, body: d.Ask) -> StoredAnswer:
    """Answer a question anew, or find the answer that the key has already."""
    service, analyst = context.service, context.principal.name
    body = requests.expand_question(service, analyst, body)
    asked = canonicalize_request(body.list_sent())
    stored_answer = requests.find_stored_answer(context, key, asked)
    if stored_answer is not None:
        return stored_answer
    with context.lease_custodian() as custodian:
        delayed_custodian = custodian._with_release_barrier(context.release_barrier)
        new_answer = requests.answer_request(
            service, delayed_custodian, context.rehearsal, analyst, key, body, context.received_at
        )
        return requests.require_same_request(new_answer, asked)


def find_visible_answer(context: DatasetContext, answer_id: str) -> StoredAnswer:
    """Find an answer by its id, if it is the sender's; a custodian sees all."""
    stored_answer = find_answer_by_id(context.service.store, context.name, context.rehearsal, answer_id)
    if stored_answer is None or not (context.principal.is_custodian or stored_answer.analyst == context.principal.name):
        raise build_not_found()
    return stored_answer


def _meter_previews(context: DatasetContext) -> AbstractContextManager[None]:
    return context.service.compute_quota.meter(context.principal.token.id)


def list_own_balances(context: DatasetContext) -> tuple[Balance, ...]:
    """List what is spent and left of the data set, and of the analyst who asks."""
    with context.lease_custodian() as custodian:
        return custodian.budget(context.history_owner)


def get_history_document(context: DatasetContext, limit: int = 100, before: int | None = None) -> dict[str, object]:
    """Tell a page of what was asked, with the ids of the answers, and where the next page begins."""
    analyst = context.history_owner
    with context.lease_custodian() as custodian:
        all_entries = custodian.history(analyst, limit + 1, before)
    entries, older = all_entries[:limit], all_entries[limit:]
    numbers = [entry.entry for entry in entries]
    ids = find_ids_by_entry(context.service.store, context.name, context.rehearsal, analyst, numbers)
    lines = [entry.to_json() | {"answers": ids.get(entry.entry, [])} for entry in entries]
    return {"history": lines, "next": entries[-1].entry if older else None}


def format_answer_csv(document: JsonObject) -> str:
    """Write rows as a spreadsheet reads them; no text can be taken for a formula."""
    lines = io.StringIO()
    writer = csv.writer(lines)
    interval_columns = [name for name in document["columns"] if any(name in row for row in document["intervals_95"])]
    heads: list[str] = []
    for name in document["columns"]:
        heads += [name, f"{name} 95% low", f"{name} 95% high"] if name in interval_columns else [name]
    writer.writerow(map(_escape_cell, heads))
    for row, intervals in zip(document["rows"], document["intervals_95"], strict=True):
        cells: list[object] = []
        for name in document["columns"]:
            ends = (intervals.get(name) or [None, None]) if name in interval_columns else []
            cells += [row[name], *ends]
        writer.writerow(map(_escape_cell, cells))
    return lines.getvalue()


def _escape_cell(value: object) -> object:
    return f"'{value}" if isinstance(value, str) and value[:1] in {"=", "+", "-", "@", "\t", "\r"} else value
