"""Routes for analysts: data sets, real or in rehearsal; and the sender's account, saved priors and jobs."""

from __future__ import annotations

import csv
import io
import json
from contextlib import AbstractContextManager
from typing import Annotated, Any

from fastapi import APIRouter, Path, Query
from starlette.responses import FileResponse, Response

from discreet.custodian.preview import build_stated_prior
from discreet.schema.schema import schema_to_public_json
from discreet.service import requests
from discreet.service.api import models as d
from discreet.service.api.dependencies import (
    KEY_HEADERS,
    CurrentCustodian,
    CurrentDataset,
    CurrentPrincipal,
    CurrentService,
    DatasetContext,
    Id,
    IdempotencyKey,
    describe_reply,
    describe_text_reply,
    list_visible_datasets,
    reply_with_json,
    reply_with_text,
)
from discreet.service.jobs import find_job_file, find_own_job, is_visible_job, job_to_json, queue_question
from discreet.service.openapi import build_link
from discreet.service.problems import build_not_found
from discreet.service.store.job_queue import list_jobs
from discreet.service.store.stored_answers import (
    SavedPrior,
    StoredAnswer,
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
    "look": build_link("GET", "/v1/priors/{name}", name="$request.path.name"),
    "end": build_link("DELETE", "/v1/priors/{name}", name="$request.path.name"),
}
ANSWER_LINKS = {"again": "", "picture": "/picture", "table": "/csv"}


def build_dataset_list_routes() -> APIRouter:
    """Build the route that lists data sets."""
    router = APIRouter(tags=["data sets"])

    @router.get("/v1/datasets", responses={200: describe_reply(d.DataSetsDocument)})
    def datasets(service: CurrentService, principal: CurrentPrincipal) -> Response:
        """The data sets that you may ask."""
        lines = []
        for name in list_visible_datasets(service, principal):
            dataset = service.registry.find_dataset(name)
            assert dataset is not None
            engine = dataset.engine if principal.is_custodian else None
            clock = {"deadline": dataset.config.deadline, "padding": service.config.padding}
            lines.append({"name": name, "engine": engine} | clock | {"jobs": dataset.runs_as_jobs})
        return reply_with_json({"datasets": lines})

    return router


def build_dataset_routes(prefix: str, tag: str) -> APIRouter:
    """Build the routes about one data set, under a prefix: the real one, or its rehearsal."""
    router = APIRouter(prefix=prefix, tags=[tag])
    links = _build_links(prefix)

    @router.get("/{dataset}", responses={200: describe_reply(d.DataSetDocument)})
    def dataset(context: CurrentDataset) -> Response:
        """All that is public about a data set."""
        clock = {"deadline": context.dataset.config.deadline, "padding": context.service.config.padding}
        head = {"name": context.name, "rehearsal": context.rehearsal, "jobs": context.dataset.runs_as_jobs}
        return reply_with_json(head | clock | {"schema": schema_to_public_json(context.schema)})

    @router.post("/{dataset}/previews", responses={200: describe_reply(d.PreviewDocument)})
    def previews(context: CurrentDataset, body: d.PreviewAsk) -> Response:
        """What a question would cost and how good its answer would be. It reads no row and charges nothing."""
        return reply_with_json(preview_dataset_question(context, body.model_dump(exclude_unset=True)))

    @router.post(
        "/{dataset}/answers",
        status_code=201,
        responses={
            201: describe_reply(d.AnswerDocument, links=links["answer"], headers=KEY_HEADERS),
            202: describe_reply(d.JobDocument, links=links["job"], headers=KEY_HEADERS),
        },
    )
    def answers(context: CurrentDataset, body: d.Ask, key: IdempotencyKey = None) -> Response:
        """Answer a question; the same again is answered from what is stored, and free. By jobs: 202, then poll."""
        request_key, request_body = requests.read_idempotency_key(key), body.model_dump(exclude_unset=True)
        if context.dataset.runs_as_jobs:
            return reply_with_json(queue_question(context, request_key, request_body), 202, request_key)
        stored_answer = answer_dataset_question(context, request_key, request_body)
        return reply_with_text(stored_answer.document, 201, request_key)

    @router.get("/{dataset}/answers/{answer}", responses={200: describe_reply(d.AnswerDocument)})
    def one_answer(context: CurrentDataset, answer: Id) -> Response:
        """An answer that was given before."""
        return reply_with_text(find_visible_answer(context, answer).document)

    @router.get("/{dataset}/answers/{answer}/picture", responses={200: describe_reply(d.PictureDocument)})
    def picture(context: CurrentDataset, answer: Id) -> Response:
        """Prior, noise and posterior of an answer, to be drawn by Vega-Lite."""
        stored_answer = find_visible_answer(context, answer)
        with context.lease_custodian() as custodian:
            spec = requests.render_answer_picture(context.service, custodian, stored_answer)
        if spec is None:
            raise build_not_found()
        return reply_with_text(f'{{"spec": {spec}}}')

    @router.get(
        "/{dataset}/answers/{answer}/csv",
        responses={200: describe_text_reply("text/csv", "The rows with their intervals.")},
        response_class=Response,
    )
    def as_csv(context: CurrentDataset, answer: Id) -> Response:
        """The rows of an answer, each number beside its 95 % interval."""
        text = format_answer_csv(json.loads(find_visible_answer(context, answer).document))
        headers = {"Content-Disposition": 'attachment; filename="answer.csv"'}
        return Response(text, headers=headers, media_type="text/csv")

    @router.post("/{dataset}/priors", responses={200: describe_reply(d.PriorDocument)})
    def priors(context: CurrentDataset, body: d.PriorAsk) -> Response:
        """A prior as the planner reads it for a question."""
        with _meter_previews(context):
            expanded_body = requests.expand_saved_prior(context.service, context.principal.name, body.model_dump())
            query = requests.check_limits(context.service.config.limits, context.schema, expanded_body)
            prior = build_stated_prior(context.schema, query, expanded_body["prior"])
            return reply_with_json(prior.to_json())

    @router.get("/{dataset}/budget", responses={200: describe_reply(d.BudgetDocument)})
    def budgets(context: CurrentDataset) -> Response:
        """What is spent and left, of the data set and of you; a custodian sees the data set's."""
        return reply_with_json(get_budget_document(context))

    @router.get("/{dataset}/history", responses={200: describe_reply(d.HistoryDocument)})
    def histories(context: CurrentDataset, limit: Limit = 100, before: Before = None) -> Response:
        """A page of what you asked, the latest first; a custodian sees what all asked. `next` is for the page after."""
        return reply_with_json(get_history_document(context, limit, before))

    @router.post(
        "/{dataset}/sessions",
        status_code=201,
        responses={201: describe_reply(d.SessionDocument, links=links["session"], headers=KEY_HEADERS)},
    )
    def sessions(context: CurrentDataset, body: d.OpenSession, key: IdempotencyKey = None) -> Response:
        """Pay epsilon at once, then count with noise of this scale as long as all answers together fit."""
        request_key = requests.read_idempotency_key(key)
        return reply_with_json(requests.open_stored_session(context, request_key, body.model_dump()), 201, request_key)

    @router.get("/{dataset}/sessions/{session}", responses={200: describe_reply(d.SessionDocument)})
    def one_session(context: CurrentDataset, session: Id) -> Response:
        """How a session stands."""
        return reply_with_json(requests.describe_session(context, session))

    @router.post(
        "/{dataset}/sessions/{session}/answers",
        status_code=201,
        responses={201: describe_reply(d.SessionAnswerDocument, links=links["answer"], headers=KEY_HEADERS)},
    )
    def session_answers(
        context: CurrentDataset, session: Id, body: d.SessionAsk, key: IdempotencyKey = None
    ) -> Response:
        """Answer a counting question in a session; the same again is the same answer."""
        request_key, request_body = requests.read_idempotency_key(key), body.model_dump(exclude_unset=True)
        stored_answer = requests.answer_in_session(context, session, request_key, request_body)
        return reply_with_text(stored_answer.document, 201, request_key)

    @router.delete("/{dataset}/sessions/{session}", status_code=204)
    def end_session(context: CurrentDataset, session: Id) -> Response:
        """No more answers in a session; what is left of it is lost."""
        requests.end_counting_session(context, session)
        return Response(status_code=204)

    return router


def build_personal_routes() -> APIRouter:
    """Build the routes about the sender: account, saved priors, jobs."""
    router = APIRouter(prefix="/v1")

    @router.get("/me", tags=["you"], responses={200: describe_reply(d.MeDocument)})
    def me(service: CurrentService, principal: CurrentPrincipal) -> Response:
        """Who you are here, and what you may ask."""
        token = principal.token
        account = {"name": principal.name, "role": token.role, "expires": token.expires}
        return reply_with_json(account | {"datasets": list(list_visible_datasets(service, principal))})

    @router.get("/priors", tags=["priors"], responses={200: describe_reply(d.SavedPriorsDocument)})
    def priors(service: CurrentService, principal: CurrentPrincipal) -> Response:
        """The priors that you keep."""
        saved_priors = list_saved_priors(service.store, principal.name)
        return reply_with_json({"priors": [_prior_to_json(prior) for prior in saved_priors]})

    @router.get("/priors/{name}", tags=["priors"], responses={200: describe_reply(d.SavedPriorDocument)})
    def one_prior(service: CurrentService, principal: CurrentPrincipal, name: PriorName) -> Response:
        """A prior that you keep."""
        for prior in list_saved_priors(service.store, principal.name):
            if prior.name == name:
                return reply_with_json(_prior_to_json(prior))
        raise build_not_found()

    @router.put(
        "/priors/{name}", tags=["priors"], responses={200: describe_reply(d.SavedPriorDocument, links=PRIOR_LINKS)}
    )
    def put_prior(service: CurrentService, principal: CurrentPrincipal, name: PriorName, body: d.SavePrior) -> Response:
        """Keep a prior under a name; a question uses it as @name."""
        prior = SavedPrior(name, body.text, body.note)
        save_prior(service.store, principal.name, prior)
        return reply_with_json(_prior_to_json(prior))

    @router.delete("/priors/{name}", tags=["priors"], status_code=204)
    def forget_prior(service: CurrentService, principal: CurrentPrincipal, name: PriorName) -> Response:
        """Keep a prior no more."""
        if not delete_prior(service.store, principal.name, name):
            raise build_not_found()
        return Response(status_code=204)

    @router.get("/jobs", tags=["jobs"], responses={200: describe_reply(d.JobsDocument)})
    def jobs(service: CurrentService, principal: CurrentPrincipal) -> Response:
        """Your latest jobs; a custodian sees all."""
        candidates = list_jobs(service.store, None if principal.is_custodian else principal.name)
        visible_jobs = [job for job in candidates if is_visible_job(service, principal, job)]
        return reply_with_json({"jobs": [job_to_json(service, principal, job) for job in visible_jobs]})

    @router.get("/jobs/{job}", tags=["jobs"], responses={200: describe_reply(d.JobDocument)})
    def one_job(service: CurrentService, principal: CurrentPrincipal, job: Id) -> Response:
        """How a job stands, on its data set's clock."""
        return reply_with_json(job_to_json(service, principal, find_own_job(service, principal, job)))

    @router.get(
        "/jobs/{job}/files/{name:path}",
        tags=["jobs"],
        response_class=FileResponse,
        responses={200: {"description": "A file of a release.", "content": {"application/octet-stream": {}}}},
    )
    def files(service: CurrentService, principal: CurrentCustodian, job: Id, name: FileName) -> Response:
        """A file that a job made: the release, its manifest, or the custodian's report."""
        path = find_job_file(service, find_own_job(service, principal, job), name)
        return FileResponse(path, filename=path.name, media_type="application/octet-stream")

    return router


def _prior_to_json(prior: SavedPrior) -> dict[str, str]:
    return {"name": prior.name, "text": prior.text, "note": prior.note}


def _build_links(prefix: str) -> dict[str, dict[str, Any]]:
    base_path, new_id = f"{prefix}/{{dataset}}", "$response.body#/id"
    answer = {"dataset": "$request.path.dataset", "answer": new_id}
    session = {"dataset": "$request.path.dataset", "session": new_id}
    return {
        "answer": {
            name: build_link("GET", f"{base_path}/answers/{{answer}}{suffix}", **answer)
            for name, suffix in ANSWER_LINKS.items()
        },
        "session": {
            "look": build_link("GET", f"{base_path}/sessions/{{session}}", **session),
            "ask": build_link("POST", f"{base_path}/sessions/{{session}}/answers", **session),
            "end": build_link("DELETE", f"{base_path}/sessions/{{session}}", **session),
        },
        "job": {"look": build_link("GET", "/v1/jobs/{job}", job=new_id)},
    }


def preview_dataset_question(context: DatasetContext, body: dict[str, Any]) -> dict[str, object]:
    """Preview a question; how long the previews of one token may compute in a minute is bounded."""
    with _meter_previews(context), context.lease_custodian() as custodian:
        expanded_body = requests.expand_saved_prior(context.service, context.principal.name, body)
        document = requests.preview_request(context.service, custodian, context.principal.name, expanded_body)
    return document | {"rehearsal": context.rehearsal}


def answer_dataset_question(context: DatasetContext, key: str, body: dict[str, Any]) -> StoredAnswer:
    """Answer a question anew, or find the answer that the key has already."""
    service, analyst = context.service, context.principal.name
    body = requests.expand_saved_prior(service, analyst, body)
    stored_answer = requests.find_stored_answer(service, context.name, context.rehearsal, analyst, key, body)
    if stored_answer is not None:
        return stored_answer
    with context.lease_custodian() as custodian:
        delayed_custodian = custodian._with_release_barrier(context.release_barrier)
        new_answer = requests.answer_request(
            service, delayed_custodian, context.rehearsal, analyst, key, body, context.received_at
        )
        return requests.require_same_request(new_answer, body)


def find_visible_answer(context: DatasetContext, answer_id: str) -> StoredAnswer:
    """Find an answer by its id, if it is the sender's; a custodian sees all."""
    stored_answer = find_answer_by_id(context.service.store, context.name, context.rehearsal, answer_id)
    if stored_answer is None or not (context.principal.is_custodian or stored_answer.analyst == context.principal.name):
        raise build_not_found()
    return stored_answer


def _meter_previews(context: DatasetContext) -> AbstractContextManager[None]:
    return context.service.compute_quota.meter(context.principal.token.id)


def get_budget_document(context: DatasetContext) -> dict[str, object]:
    """Tell what is spent and left of the data set, and of the analyst who asks."""
    analyst = None if context.principal.is_custodian else context.principal.name
    with context.lease_custodian() as custodian:
        balances = custodian.budget(analyst)
    return {"dataset": context.name, "analyst": analyst, "budget": [balance.to_json() for balance in balances]}


def get_history_document(context: DatasetContext, limit: int = 100, before: int | None = None) -> dict[str, object]:
    """Tell a page of what was asked, with the ids of the answers, and where the next page begins."""
    analyst = None if context.principal.is_custodian else context.principal.name
    with context.lease_custodian() as custodian:
        all_entries = custodian.history(analyst, limit + 1, before)
    entries, older = all_entries[:limit], all_entries[limit:]
    numbers = [entry.entry for entry in entries]
    ids = find_ids_by_entry(context.service.store, context.name, context.rehearsal, analyst, numbers)
    lines = [entry.to_json() | {"answers": ids.get(entry.entry, [])} for entry in entries]
    return {"history": lines, "next": entries[-1].entry if older else None}


def format_answer_csv(document: dict[str, Any]) -> str:
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
