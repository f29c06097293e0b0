"""Data sets: what is public of them, previews, answers, priors, budget, history; each for real and in rehearsal."""

from __future__ import annotations

import csv
import io
import json
from contextlib import AbstractContextManager
from typing import Annotated, Any

from fastapi import APIRouter, Query
from starlette.responses import Response

from discreet.custodian.document import balance_to_json, entry_to_json
from discreet.custodian.stating_prior import prior_law
from discreet.schema.public import schema_to_public_json
from discreet.service import asking, counting
from discreet.service import documents as d
from discreet.service.access import Entered, InDataSet, InService, Someone, visible
from discreet.service.describing import link
from discreet.service.holdings import engine_of
from discreet.service.problems import not_found
from discreet.service.queueing import queue_ask
from discreet.service.routes.shared import KEYED, Id, Key, plain, ready, reply, told
from discreet.service.store.answers import Kept, answer_by_id, ids_by_entry

Limit = Annotated[int, Query(ge=1, le=1000, description="How many entries at most.")]
Before = Annotated[
    int | None, Query(ge=1, le=2**53, description="Only entries older than this: `next` of the page before.")
]
PARTS = {"again": "", "picture": "/picture", "table": "/csv"}


def listed() -> APIRouter:
    """The list of data sets."""
    router = APIRouter(tags=["data sets"])

    @router.get("/v1/datasets", responses={200: reply(d.DataSetsDocument)})
    def datasets(service: InService, principal: Someone) -> Response:
        """The data sets that you may ask."""
        lines = []
        for name in visible(service, principal):
            held = service.holdings.held(name)
            assert held is not None
            engine = engine_of(held) if principal.is_custodian else None
            clock = {"deadline": held.told.deadline, "padding": service.config.padding, "jobs": held.jobs}
            lines.append({"name": name, "engine": engine} | clock)
        return told({"datasets": lines})

    return router


def asked(prefix: str, tag: str) -> APIRouter:
    """Everything about one data set, under a prefix: the real one, or its rehearsal."""
    router = APIRouter(prefix=prefix, tags=[tag])
    links = _links(prefix)

    @router.get("/{dataset}", responses={200: reply(d.DataSetDocument)})
    def dataset(entered: InDataSet) -> Response:
        """All that is public about a data set."""
        clock = {"deadline": entered.held.told.deadline, "padding": entered.service.config.padding}
        head = {"name": entered.name, "rehearsal": entered.rehearsal, "jobs": entered.held.jobs}
        return told(head | clock | {"schema": schema_to_public_json(entered.schema)})

    @router.post("/{dataset}/previews", responses={200: reply(d.PreviewDocument)})
    def previews(entered: InDataSet, body: d.PreviewAsk) -> Response:
        """What a question would cost and how good its answer would be. It reads no row and charges nothing."""
        return told(preview(entered, body.model_dump(exclude_unset=True)))

    @router.post(
        "/{dataset}/answers",
        status_code=201,
        responses={
            201: reply(d.AnswerDocument, links=links["answer"], headers=KEYED),
            202: reply(d.JobDocument, links=links["job"], headers=KEYED),
        },
    )
    def answers(entered: InDataSet, body: d.Ask, key: Key = None) -> Response:
        """Answer a question; the same again is answered from what is stored, and free. By jobs: 202, then poll."""
        own, said = asking.key_of(key), body.model_dump(exclude_unset=True)
        if entered.held.jobs:
            return told(queue_ask(entered, own, said), 202, **{"Idempotency-Key": own})
        return ready(answer(entered, own, said).document, 201, **{"Idempotency-Key": own})

    @router.get("/{dataset}/answers/{answer}", responses={200: reply(d.AnswerDocument)})
    def one_answer(entered: InDataSet, answer: Id) -> Response:
        """An answer that was given before."""
        return ready(kept_answer(entered, answer).document)

    @router.get("/{dataset}/answers/{answer}/picture", responses={200: reply(d.PictureDocument)})
    def picture(entered: InDataSet, answer: Id) -> Response:
        """Prior, noise and posterior of an answer, to be drawn by Vega-Lite."""
        spec = picture_of(entered, answer)
        return ready(f'{{"spec": {spec}}}')

    @router.get(
        "/{dataset}/answers/{answer}/csv",
        responses={200: plain("text/csv", "The rows with their intervals.")},
        response_class=Response,
    )
    def as_csv(entered: InDataSet, answer: Id) -> Response:
        """The rows of an answer, each number beside its 95 % interval."""
        text = csv_of(json.loads(kept_answer(entered, answer).document))
        return Response(
            text, headers={"Content-Disposition": 'attachment; filename="answer.csv"'}, media_type="text/csv"
        )

    @router.post("/{dataset}/priors", responses={200: reply(d.PriorDocument)})
    def priors(entered: InDataSet, body: d.PriorAsk) -> Response:
        """A prior as the planner reads it for a question."""
        return told(prior(entered, body.model_dump()))

    @router.get("/{dataset}/budget", responses={200: reply(d.BudgetDocument)})
    def budgets(entered: InDataSet) -> Response:
        """What is spent and left, of the data set and of you; a custodian sees the data set's."""
        return told(budget(entered))

    @router.get("/{dataset}/history", responses={200: reply(d.HistoryDocument)})
    def histories(entered: InDataSet, limit: Limit = 100, before: Before = None) -> Response:
        """A page of what you asked, the latest first; a custodian sees what all asked. `next` is for the page after."""
        return told(history(entered, limit, before))

    @router.post(
        "/{dataset}/sessions",
        status_code=201,
        responses={201: reply(d.SessionDocument, links=links["session"], headers=KEYED)},
    )
    def sessions(entered: InDataSet, body: d.OpenSession, key: Key = None) -> Response:
        """Pay epsilon at once, then count with noise of this scale as long as all answers together fit."""
        own = asking.key_of(key)
        return told(counting.open_session(entered, own, body.model_dump()), 201, **{"Idempotency-Key": own})

    @router.get("/{dataset}/sessions/{session}", responses={200: reply(d.SessionDocument)})
    def one_session(entered: InDataSet, session: Id) -> Response:
        """How a session stands."""
        return told(counting.one_session(entered, session))

    @router.post(
        "/{dataset}/sessions/{session}/answers",
        status_code=201,
        responses={201: reply(d.SessionAnswerDocument, links=links["answer"], headers=KEYED)},
    )
    def session_answers(entered: InDataSet, session: Id, body: d.SessionAsk, key: Key = None) -> Response:
        """Answer a counting question in a session; the same again is the same answer."""
        own, said = asking.key_of(key), body.model_dump(exclude_unset=True)
        return ready(counting.answer(entered, session, own, said).document, 201, **{"Idempotency-Key": own})

    @router.delete("/{dataset}/sessions/{session}", status_code=204)
    def end_session(entered: InDataSet, session: Id) -> Response:
        """No more answers in a session; what is left of it is lost."""
        counting.close(entered, session)
        return Response(status_code=204)

    return router


def _links(prefix: str) -> dict[str, dict[str, Any]]:
    """What can be done next with an answer, a session, or a job."""
    here, made = f"{prefix}/{{dataset}}", "$response.body#/id"
    answer = {"dataset": "$request.path.dataset", "answer": made}
    session = {"dataset": "$request.path.dataset", "session": made}
    return {
        "answer": {name: link("GET", f"{here}/answers/{{answer}}{rest}", **answer) for name, rest in PARTS.items()},
        "session": {
            "look": link("GET", f"{here}/sessions/{{session}}", **session),
            "ask": link("POST", f"{here}/sessions/{{session}}/answers", **session),
            "end": link("DELETE", f"{here}/sessions/{{session}}", **session),
        },
        "job": {"look": link("GET", "/v1/jobs/{job}", job=made)},
    }


def preview(entered: Entered, said: dict[str, Any]) -> dict[str, object]:
    """A preview, for nothing; what one token's previews compute in a minute is bounded."""
    with _metered(entered), entered.service.holdings.custodian(entered.name, entered.rehearsal) as custodian:
        told = asking.written_out(entered.service, entered.principal.name, said)
        made = asking.preview(entered.service, custodian, entered.principal.name, told)
    return made | {"rehearsal": entered.rehearsal}


def answer(entered: Entered, key: str, said: dict[str, Any]) -> Kept:
    """An answer, new or kept."""
    service, who = entered.service, entered.principal.name
    said = asking.written_out(service, who, said)
    kept = asking.stored(service, entered.name, entered.rehearsal, who, key, said)
    if kept is not None:
        return kept
    with service.holdings.custodian(entered.name, entered.rehearsal) as custodian:
        settling = custodian._settling(entered.settle)
        return asking.same(asking.ask(service, settling, entered.rehearsal, who, key, said, entered.at), said)


def kept_answer(entered: Entered, wanted: str) -> Kept:
    """An answer by its id, if it is the sender's; a custodian sees all."""
    kept = answer_by_id(entered.service.store, entered.name, entered.rehearsal, wanted)
    if kept is None or not (entered.principal.is_custodian or kept.analyst == entered.principal.name):
        raise not_found()
    return kept


def picture_of(entered: Entered, wanted: str) -> str:
    """The picture of an answer, as JSON text."""
    kept = kept_answer(entered, wanted)
    with entered.service.holdings.custodian(entered.name, entered.rehearsal) as custodian:
        spec = asking.picture(entered.service, custodian, kept)
    if spec is None:
        raise not_found()
    return spec


def prior(entered: Entered, said: dict[str, Any]) -> dict[str, object]:
    """A prior as the planner reads it."""
    with _metered(entered):
        told = asking.written_out(entered.service, entered.principal.name, said)
        checked = asking.checked(entered.service, entered.schema, told)
        return prior_law(entered.schema, checked["question"], checked["prior"]).to_json()


def _metered(entered: Entered) -> AbstractContextManager[None]:
    return entered.service.computing.metered(entered.principal.token.id)


def budget(entered: Entered) -> dict[str, object]:
    """What is spent and left: the data set's, and an analyst's own."""
    who = None if entered.principal.is_custodian else entered.principal.name
    with entered.service.holdings.custodian(entered.name, entered.rehearsal) as custodian:
        balances = custodian.budget(who)
    return {"dataset": entered.name, "analyst": who, "budget": [balance_to_json(one) for one in balances]}


def history(entered: Entered, limit: int = 100, before: int | None = None) -> dict[str, object]:
    """A page of what was asked, with the ids of the answers, and where the page after it begins."""
    who = None if entered.principal.is_custodian else entered.principal.name
    with entered.service.holdings.custodian(entered.name, entered.rehearsal) as custodian:
        found = custodian.history(who, limit + 1, before)
    entries, older = found[:limit], found[limit:]
    ids = ids_by_entry(entered.service.store, entered.name, entered.rehearsal, who, [one.entry for one in entries])
    told = [entry_to_json(one) | {"answers": ids.get(one.entry, [])} for one in entries]
    return {"history": told, "next": entries[-1].entry if older else None}


def csv_of(document: dict[str, Any]) -> str:
    """Rows as a spreadsheet reads them; no text in it can be taken for a formula."""
    lines = io.StringIO()
    spans = [name for name in document["columns"] if any(name in row for row in document["intervals_95"])]
    writer = csv.writer(lines)
    writer.writerow([_cell(one) for name in document["columns"] for one in _heads(name, spans)])
    for row, intervals in zip(document["rows"], document["intervals_95"], strict=True):
        cells: list[object] = []
        for name in document["columns"]:
            ends = (intervals.get(name) or [None, None]) if name in spans else []
            cells += [row[name], *ends]
        writer.writerow(map(_cell, cells))
    return lines.getvalue()


def _heads(name: str, spans: list[str]) -> list[str]:
    return [name, f"{name} 95% low", f"{name} 95% high"] if name in spans else [name]


def _cell(value: object) -> object:
    return f"'{value}" if isinstance(value, str) and value[:1] in {"=", "+", "-", "@", "\t", "\r"} else value
