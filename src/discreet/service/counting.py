"""Sessions of counting questions over HTTP: protocol 1, answered in by any worker."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from discreet.custodian import Custodian
from discreet.custodian.session import CountingSession, parse_noise_scale
from discreet.errors import BudgetExceeded, InvalidInput, Unsupported
from discreet.exact import as_positive
from discreet.planner.asked import build_query_options
from discreet.service import asking
from discreet.service.access import DatasetContext
from discreet.service.problems import HttpProblem, build_not_found
from discreet.service.store.answers import StoredAnswer, canonicalize_request, keep_answer
from discreet.service.store.counting import (
    StoredLog,
    StoredSession,
    close_session,
    create_session_id,
    drop_session,
    find_session_by_id,
    keep_session,
)

SESSION_ENDED = "this session ended when the service was started again; what is left of it is lost; open another"


def open_stored_session(context: DatasetContext, key: str, body: dict[str, Any]) -> dict[str, object]:
    """Pay for a session, once under its key."""
    if context.dataset.runs_as_jobs:
        raise Unsupported("there are no sessions where questions run as jobs; ask the questions one by one")
    new_session = _build_session(context, key, body)
    with context.service.registry.lease_custodian(context.name, context.rehearsal) as custodian:
        stored_session = keep_session(context.service.store, new_session)
        if (stored_session.noise_scale, stored_session.epsilon) != (new_session.noise_scale, new_session.epsilon):
            raise HttpProblem(
                "conflict", f"the key {key[:40]!r} was used for another request; use a new key for a new one"
            )
        try:
            return _session_to_json(stored_session, resume_stored_session(context, custodian, stored_session))
        except (BudgetExceeded, InvalidInput):
            if stored_session.id == new_session.id:
                drop_session(context.service.store, new_session.id)
            raise


def _build_session(context: DatasetContext, key: str, body: dict[str, Any]) -> StoredSession:
    """A session of numbers that one can have."""
    scale = parse_noise_scale(asking.parse_request_number(body["noise_scale"], "noise_scale"))
    epsilon = as_positive(asking.parse_request_number(body["epsilon"], "epsilon"), "epsilon")
    build_query_options(epsilon)
    asking.check_min_epsilon(context.service.config.limits, epsilon)
    names = context.name, context.rehearsal, context.principal.name, key
    return StoredSession(create_session_id(context.service.run_id), *names, str(scale), str(epsilon))


def answer_in_session(context: DatasetContext, session_id: str, key: str, body: dict[str, Any]) -> StoredAnswer:
    """One count in a session; the same at the same noise scale is the same answer."""
    stored_session = find_own_session(context, session_id)
    if stored_session.closed:
        raise InvalidInput("the session is closed; open another")
    asking.check_limits(context.service.config.limits, context.schema, body)
    scale = None if body.get("noise_scale") is None else asking.parse_request_number(body["noise_scale"], "noise_scale")
    session_body = body | {
        "session": stored_session.id
    }  # under the same key, in another session, it is another request
    stored_answer = asking.find_stored_answer(
        context.service, context.name, context.rehearsal, stored_session.analyst, key, session_body
    )
    if stored_answer is not None:
        return stored_answer
    with context.service.registry.lease_custodian(context.name, context.rehearsal) as custodian:
        session = resume_stored_session(context, custodian, stored_session)
        answer = session.answer(body["question"], scale)
        additions = {"session": stored_session.id, "left": str(session.left), "picture": False}
        new_answer = asking.build_stored_answer(
            custodian, context.rehearsal, stored_session.analyst, key, body, answer, additions, context.received_at
        )
    return asking.require_same_request(
        keep_answer(context.service.store, replace(new_answer, asked=canonicalize_request(session_body))), session_body
    )


def describe_session(context: DatasetContext, session_id: str) -> dict[str, object]:
    """How a session stands."""
    stored_session = find_own_session(context, session_id)
    with context.service.registry.lease_custodian(context.name, context.rehearsal) as custodian:
        return _session_to_json(stored_session, resume_stored_session(context, custodian, stored_session))


def end_counting_session(context: DatasetContext, session_id: str) -> None:
    """No more answers in a session; what is left is lost."""
    close_session(context.service.store, find_own_session(context, session_id).id)


def find_own_session(context: DatasetContext, session_id: str) -> StoredSession:
    """A session by its id, if it is the sender's."""
    stored_session = find_session_by_id(context.service.store, session_id)
    is_same_dataset = stored_session is not None and (stored_session.dataset, stored_session.rehearsal) == (
        context.name,
        context.rehearsal,
    )
    if stored_session is None or not is_same_dataset or stored_session.analyst != context.principal.name:
        raise build_not_found()
    return stored_session


def resume_stored_session(
    context: DatasetContext, custodian: Custodian, stored_session: StoredSession
) -> CountingSession:
    """The session as it stands, in this worker: under its key it was paid for once."""
    run_id = context.service.run_id
    if not stored_session.is_of_run(run_id):
        raise InvalidInput(SESSION_ENDED)
    log = StoredLog(context.service.store, stored_session.id, run_id)
    numbers = (
        asking.parse_request_number(stored_session.noise_scale, "noise_scale"),
        asking.parse_request_number(stored_session.epsilon, "epsilon"),
    )
    session = custodian._with_release_barrier(context.release_barrier)._open_shared_session(
        *numbers, stored_session.analyst, f"session {stored_session.id}", log
    )
    session.catch_up()
    return session


def _session_to_json(stored_session: StoredSession, session: CountingSession) -> dict[str, object]:
    numbers = {"noise_scale": str(session.noise_scale), "epsilon": str(session.epsilon), "left": str(session.left)}
    return {
        "id": stored_session.id,
        "dataset": stored_session.dataset,
        "rehearsal": stored_session.rehearsal,
        "closed": stored_session.closed,
    } | numbers
