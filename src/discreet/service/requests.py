"""Questions, counting sessions and releases, from the body of a request to a stored answer or a file."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import TypeVar

from discreet.answers.answer import Answer
from discreet.client.encode_requests import MAX_KEY_LENGTH
from discreet.custodian import Custodian
from discreet.custodian.session import CountingSession, parse_noise_scale
from discreet.custodian.status import additions_to_json
from discreet.datasets.dataset_dir import DatasetDir, generate_identifier
from discreet.errors import BudgetExceeded, InvalidInput, Unsupported
from discreet.formatting import format_budget_left, format_cost, round_up
from discreet.numeric import as_positive, as_rational, parse_rational
from discreet.planner.domain_partition import LARGE_REPLY_NUMBERS, serialize_large_steps
from discreet.planner.options import NOISE_OPTIONS, OPTION_READERS, QueryOptions, check_epsilon, read_query_options
from discreet.priors.syntax import is_weights_text
from discreet.privacy.guarantee import Guarantee
from discreet.query import parse_question
from discreet.query.query import Query, count_answer_numbers
from discreet.release.manifest import find_next_release_number
from discreet.release.methods import ReleaseMethod, SyntheticRecipe
from discreet.schema import Schema
from discreet.service.api.dependencies import DatasetContext
from discreet.service.api.models import (
    Ask,
    OpenSession,
    QuestionModel,
    ReleaseRequest,
    RequestModel,
    SessionAsk,
    Sweep,
    parse_fields,
)
from discreet.service.config import Limits
from discreet.service.dataset_registry import Service
from discreet.service.problems import HttpProblem, build_not_found
from discreet.service.store.stored_answers import (
    StoredAnswer,
    StoredLog,
    StoredSession,
    canonicalize_request,
    close_session,
    create_session_id,
    drop_session,
    find_answer_by_key,
    find_session_by_id,
    keep_answer,
    keep_picture,
    keep_session,
    list_saved_priors,
)
from discreet.suggestions import build_unknown_name_error

EPSILON_SQUARED_PER_RHO = 100
"""At a delta of about 1e-9, the square of epsilon is this many times rho."""
NO_PICTURE = "this answer is stored no longer, or a nearer one is: its numbers stay, its picture is gone"
SESSION_ENDED = "this session ended when the service was started again; what is left of it is lost; open another"
Question = TypeVar("Question", bound=QuestionModel)


def read_idempotency_key(header: str | None) -> str:
    """Read the idempotency key of a request, or make one."""
    if header is None:
        return generate_identifier()
    if not 0 < len(header) <= MAX_KEY_LENGTH or not header.isprintable() or not header.isascii():
        raise InvalidInput(f"an Idempotency-Key has 1 to {MAX_KEY_LENGTH} printable ASCII characters; use another")
    return header


def expand_question(service: Service, analyst: str, body: Question) -> Question:
    """Write out the saved prior of a question: a prior is fixed when the question comes."""
    if body.prior is None:
        return body
    return body.model_copy(update={"prior": expand_saved_prior(service, analyst, body.prior)})


def expand_saved_prior(service: Service, analyst: str, prior: str) -> str:
    """Return the text of a prior; of one that is kept under a name, as @name, what is kept."""
    if not prior.startswith("@"):
        return prior
    name = prior[1:]
    texts_by_name = {saved_prior.name: saved_prior.text for saved_prior in list_saved_priors(service.store, analyst)}
    if name not in texts_by_name:
        raise build_unknown_name_error("saved prior", name, texts_by_name, advice="or write the prior out")
    return texts_by_name[name]


def parse_question_request(
    service: Service, schema: Schema, body: QuestionModel, key: str | None = None
) -> tuple[Query, QueryOptions]:
    """Check a request for an answer or a preview against the limits, and read its question and options."""
    query = check_limits(service.config.limits, schema, body.question, body.prior)
    values = {name: value for name, value in body if name in OPTION_READERS and value is not None}
    if values.keys().isdisjoint(NOISE_OPTIONS):
        raise InvalidInput('say how much noise there may be: "epsilon": "0.1" or "accuracy": "±50 at 95%"')
    numbers = {name: parse_request_number(value, name) for name, value in values.items() if OPTION_READERS[name].number}
    return query, read_query_options(values | numbers | {"key": key})


def check_limits(limits: Limits, schema: Schema, question: str, prior: str | None = None) -> Query:
    """Refuse a prior or a reply that is too large, from the request alone; return the parsed question."""
    if prior is not None and is_weights_text(prior) and prior.count(":") > limits.prior:
        raise InvalidInput(
            f"a prior has at most {limits.prior} weights here; use fewer, or a shape such as normal(38, 6)"
        )
    query = parse_question(question, schema)
    if count_answer_numbers(query, schema) > limits.bins:
        raise InvalidInput(
            f"an answer has at most {limits.bins} numbers here, its groups or bins times the numbers in each; "
            "use fewer keys, wider bins, or fewer numbers at once"
        )
    return query


def check_min_epsilon(limits: Limits, size: Fraction, has_delta: bool = False) -> None:
    """Refuse an epsilon so small that answers without end could be paid for, since each is stored for good.

    With a delta epsilons add up by their squares, so that there `size` is the square of epsilon.
    """
    if 0 < size < limits.least:
        subject, min_epsilon = "a question", limits.least
        if has_delta:  # the square root, rounded up
            root = Fraction(math.isqrt(math.ceil(limits.least * 10**40) - 1) + 1, 10**20)
            subject, min_epsilon = "a question with a delta", round_up(root, 4)
        raise InvalidInput(
            f"{subject} has an epsilon of at least {format_cost(min_epsilon)} here; ask for more, or ask the custodian"
        )


def _check_planned_epsilon(limits: Limits, options: QueryOptions, guarantee: Guarantee | None) -> None:
    """Check the epsilon of a question; by its noise or its accuracy, it is known once the question is planned."""
    has_delta = options.delta is not None
    planned_epsilon = None if guarantee is None else guarantee.epsilon
    epsilon = planned_epsilon if options.epsilon is None else options.epsilon
    if epsilon is not None:
        check_min_epsilon(limits, epsilon**2 if has_delta else epsilon, has_delta)
    elif guarantee is not None and guarantee.rho is not None:
        check_min_epsilon(limits, EPSILON_SQUARED_PER_RHO * guarantee.rho, has_delta=True)


def parse_request_number(value: object, name: str) -> Fraction:
    """Parse a number that is sent as decimal text, or as JSON has it."""
    return parse_rational(value, name) if isinstance(value, str) else as_rational(value, name)


def preview_request(service: Service, custodian: Custodian, analyst: str, body: QuestionModel) -> dict[str, object]:
    """Preview a question; nothing is charged."""
    query, options = parse_question_request(service, custodian.schema, body)
    preview = custodian._preview(query, options, analyst)
    _check_planned_epsilon(service.config.limits, options, preview.guarantee)
    return preview.to_json()


def find_stored_answer(context: DatasetContext, key: str, asked: str) -> StoredAnswer | None:
    """Find the answer that a request has already, by its canonical text; the key of another request is refused."""
    names = context.name, context.rehearsal, context.principal.name, key
    stored_answer = find_answer_by_key(context.service.store, *names)
    return None if stored_answer is None else require_same_request(stored_answer, asked)


def require_same_request(stored_answer: StoredAnswer, asked: str) -> StoredAnswer:
    """Refuse a stored answer to another request under the same key."""
    if stored_answer.asked != asked:
        raise build_key_conflict(stored_answer.key)
    return stored_answer


def build_key_conflict(key: str) -> HttpProblem:
    """Build the refusal of a key that was used for another request."""
    return HttpProblem("conflict", f"the key {key[:40]!r} was used for another request; use a new key for a new one")


def answer_request(
    service: Service,
    custodian: Custodian,
    rehearsal: bool,
    analyst: str,
    key: str,
    body: Ask,
    received_at: float,
) -> StoredAnswer:
    """Answer a request, and store the answer under its key; or refuse before anything is charged."""
    query, options = parse_question_request(service, custodian.schema, body, key)
    guarantee = None
    if options.epsilon is None:
        with suppress(BudgetExceeded):  # under its key it may be paid for already
            guarantee = custodian.validate(query, options, analyst).guarantee
    _check_planned_epsilon(service.config.limits, options, guarantee)
    payer = custodian.cached_only() if body.stored_only else custodian
    build_answer = payer._charge_and_measure(query, options, analyst)
    with serialize_large_steps(count_answer_numbers(query, custodian.schema) > LARGE_REPLY_NUMBERS):
        answer = build_answer()
        additions = additions_to_json(answer, options)
        stored_answer = build_stored_answer(custodian, rehearsal, analyst, key, body, answer, additions, received_at)
        del answer, additions  # before another thread builds its own
    return keep_answer(service.store, stored_answer)


def build_stored_answer(
    custodian: Custodian,
    rehearsal: bool,
    analyst: str,
    key: str,
    body: RequestModel,
    answer: Answer,
    additions: Mapping[str, object],
    received_at: float,
) -> StoredAnswer:
    """Write an answer as it is stored: its document with a new id; its picture is drawn when it is looked at."""
    answer_id, dataset = generate_identifier(), custodian.schema.name
    head = {"id": answer_id, "at": received_at, "dataset": dataset, "analyst": analyst, "rehearsal": rehearsal}
    with serialize_large_steps(len(answer.rows) * len(answer.numbers) > LARGE_REPLY_NUMBERS):
        details = {"picture": answer.has_picture, "request": body.list_sent()}
        text = json.dumps(head | details | answer.to_json() | dict(additions))
    return StoredAnswer(
        id=answer_id,
        dataset=dataset,
        rehearsal=rehearsal,
        analyst=analyst,
        key=key,
        asked=canonicalize_request(body.list_sent()),
        entry=answer.entry,
        at=received_at,
        document=text,
        picture=None,
    )


def render_answer_picture(service: Service, custodian: Custodian, stored_answer: StoredAnswer) -> str | None:
    """Return the picture of a stored answer; it is drawn at the first look, from stored draws, without charge."""
    if stored_answer.picture is not None or not json.loads(stored_answer.document)["picture"]:
        return stored_answer.picture
    body = parse_fields(Ask, json.loads(stored_answer.asked))
    query, options = parse_question_request(service, custodian.schema, body, stored_answer.key)
    try:
        answer = custodian.cached_only()._charge_and_measure(query, options, stored_answer.analyst)()
    except (InvalidInput, BudgetExceeded):
        raise InvalidInput(NO_PICTURE) from None
    rows = json.loads(json.dumps(answer.to_json()["rows"]))
    # Another answer is stored by now where a more accurate one was drawn, or the ledger was put back from a copy.
    if answer.entry != stored_answer.entry or rows != json.loads(stored_answer.document)["rows"]:
        raise InvalidInput(NO_PICTURE)
    spec = json.dumps(answer.picture_spec())
    keep_picture(service.store, stored_answer.id, spec)
    return spec


def open_stored_session(context: DatasetContext, key: str, body: OpenSession) -> dict[str, object]:
    """Open a session and pay for it, once under its key."""
    if context.dataset.runs_as_jobs:
        raise Unsupported("there are no sessions where questions run as jobs; ask the questions one by one")
    new_session = _build_session(context, key, body)
    with context.lease_custodian() as custodian:
        stored_session = keep_session(context.service.store, new_session)
        if (stored_session.noise_scale, stored_session.epsilon) != (new_session.noise_scale, new_session.epsilon):
            raise build_key_conflict(key)
        try:
            return _session_to_json(stored_session, resume_stored_session(context, custodian, stored_session))
        except (BudgetExceeded, InvalidInput):
            if stored_session.id == new_session.id:
                drop_session(context.service.store, new_session.id)
            raise


def _build_session(context: DatasetContext, key: str, body: OpenSession) -> StoredSession:
    scale = parse_noise_scale(parse_request_number(body.noise_scale, "noise_scale"))
    epsilon = as_positive(parse_request_number(body.epsilon, "epsilon"), "epsilon")
    check_epsilon(epsilon)
    check_min_epsilon(context.service.config.limits, epsilon)
    names = context.name, context.rehearsal, context.principal.name, key
    return StoredSession(create_session_id(context.service.run_id), *names, str(scale), str(epsilon))


def answer_in_session(context: DatasetContext, session_id: str, key: str, body: SessionAsk) -> StoredAnswer:
    """Answer a counting question in a session; the same one at the same noise scale has the same answer."""
    stored_session = find_own_session(context, session_id)
    if stored_session.closed:
        raise InvalidInput("the session is closed; open another")
    check_limits(context.service.config.limits, context.schema, body.question)
    scale = None if body.noise_scale is None else parse_request_number(body.noise_scale, "noise_scale")
    # In another session it is another request.
    asked = canonicalize_request(body.list_sent() | {"session": stored_session.id})
    stored_answer = find_stored_answer(context, key, asked)
    if stored_answer is not None:
        return stored_answer
    with context.lease_custodian() as custodian:
        session = resume_stored_session(context, custodian, stored_session)
        answer = session.answer(body.question, scale)
        additions = {"session": stored_session.id, "left": str(session.left), "picture": False}
        new_answer = build_stored_answer(
            custodian, context.rehearsal, stored_session.analyst, key, body, answer, additions, context.received_at
        )
    return require_same_request(keep_answer(context.service.store, replace(new_answer, asked=asked)), asked)


def describe_session(context: DatasetContext, session_id: str) -> dict[str, object]:
    """Describe the state of a session."""
    stored_session = find_own_session(context, session_id)
    with context.lease_custodian() as custodian:
        return _session_to_json(stored_session, resume_stored_session(context, custodian, stored_session))


def end_counting_session(context: DatasetContext, session_id: str) -> None:
    """Close a session; what is left of it is lost."""
    close_session(context.service.store, find_own_session(context, session_id).id)


def find_own_session(context: DatasetContext, session_id: str) -> StoredSession:
    """Find a session by its id, if it is the sender's."""
    session = find_session_by_id(context.service.store, session_id)
    owner = (context.name, context.rehearsal, context.principal.name)
    if session is None or (session.dataset, session.rehearsal, session.analyst) != owner:
        raise build_not_found()
    return session


def resume_stored_session(
    context: DatasetContext, custodian: Custodian, stored_session: StoredSession
) -> CountingSession:
    """Resume a session in this worker; under its key it is paid for once."""
    run_id = context.service.run_id
    if not stored_session.is_of_run(run_id):
        raise InvalidInput(SESSION_ENDED)
    log = StoredLog(context.service.store, stored_session.id, run_id)
    noise_scale = parse_request_number(stored_session.noise_scale, "noise_scale")
    epsilon = parse_request_number(stored_session.epsilon, "epsilon")
    session = custodian._with_release_barrier(context.release_barrier)._open_shared_session(
        noise_scale, epsilon, stored_session.analyst, f"session {stored_session.id}", log
    )
    session.catch_up()
    return session


def _session_to_json(stored_session: StoredSession, session: CountingSession) -> dict[str, object]:
    document: dict[str, object] = {"id": stored_session.id, "dataset": stored_session.dataset}
    document |= {"rehearsal": stored_session.rehearsal, "closed": stored_session.closed}
    numbers = {"noise_scale": str(session.noise_scale), "epsilon": str(session.epsilon), "left": str(session.left)}
    return document | numbers


def check_release(custodian: Custodian, method: ReleaseMethod) -> None:
    """Refuse a release that the schema and the budget alone show to be impossible."""
    recipe = method.resolve(custodian.schema)
    if isinstance(recipe, SyntheticRecipe) and recipe.delta is None:  # with a delta, the plan tells what it costs
        _check_budget(custodian, recipe.epsilon)


def _check_budget(custodian: Custodian, epsilon: Fraction) -> None:
    """Pure epsilons add up, so what is left of that account shows whether it fits; the ledger checks the others."""
    left = next((balance.left for balance in custodian.budget() if balance.model == "dp"), epsilon)
    if epsilon > left:
        advice = f"ask for at most {format_budget_left(left)}" if left else "no other file can be paid for"
        raise BudgetExceeded(
            f"epsilon {format_cost(epsilon)} was asked, and the data set's budget has {format_budget_left(left)} left; "
            f"{advice}"
        )


def publish_in_folder(
    custodian: Custodian, body: ReleaseRequest, folder: Path, progress: Callable[[str], None], key: str
) -> dict[str, object]:
    """Make a release in a folder; return its JSON, with file names instead of paths."""
    name = f"{custodian.schema.name}-{find_next_release_number(DatasetDir(custodian.schema))}"
    method = body.build()
    output = folder / ("columns" if method.is_apart else f"{name}.{body.format}")
    report = folder / f"{name}-report.html" if body.report else None
    release = custodian.publish(method, output, report=report, progress=progress, key=key)
    document = release.to_json()
    document["files"] = [str(file.relative_to(folder)) for file in release.files]
    document["manifest_file"] = str(release.manifest_file.relative_to(folder))
    return document | {"report": None if release.report is None else str(release.report.relative_to(folder))}


def sweep_in_folder(
    custodian: Custodian, body: Sweep, folder: Path, progress: Callable[[str], None]
) -> dict[str, object]:
    """Compare methods over k, with a report in a folder; return its JSON."""
    t = None if body.t is None else parse_request_number(body.t, "t")
    return custodian.sweep(body.ks, body.methods, folder / "sweep.html", t=t, progress=progress).to_json()


def estimate_releases(custodian: Custodian, method: str | None, options: Mapping[str, object]) -> dict[str, object]:
    """Tell what private files would promise, and their expected errors; without a method, of all that can be made."""
    from discreet.synthetic.file_plan import recommend_method

    plans = custodian.estimate_error(method, **options)
    return {
        "plans": [plan.to_json() for plan in plans],
        "recommended": recommend_method(plans) if method is None else None,
    }
