"""A question from a request to a kept answer: refused from public facts, charged, drawn, kept, then told."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from fractions import Fraction
from typing import Any

from discreet.answer import Answer
from discreet.custodian import Custodian, check_constraints, check_population, check_ranges
from discreet.custodian.document import preview_to_json
from discreet.custodian.question import count_answer_numbers, parse_question
from discreet.custodian.secrets import generate_identifier
from discreet.errors import BudgetExceeded, InvalidInput
from discreet.exact import as_rational, parse_rational
from discreet.formatting import format_cost, round_up
from discreet.guarantee import Guarantee
from discreet.planner.memory import LARGE_REPLY_NUMBERS, serialize_large_steps
from discreet.query.query import Query
from discreet.schema import Schema
from discreet.service.config import Limits
from discreet.service.problems import HttpProblem
from discreet.service.state import Service
from discreet.service.store.answers import (
    StoredAnswer,
    canonicalize_request,
    find_answer_by_key,
    keep_answer,
    keep_picture,
    list_saved_priors,
)
from discreet.shapes import is_weights_text

MAX_KEY_LENGTH = 200
EPSILON_SQUARED_PER_RHO = 100
"""At a delta of 1e-9 and thereabouts, the square of epsilon is so many times rho."""
NO_PICTURE = "this answer is stored no longer, or a nearer one is: its numbers stay, its picture is gone"
RequestBody = Mapping[str, Any]


def read_idempotency_key(header: str | None) -> str:
    """The idempotency key of a request: as it was sent, or a new one."""
    if header is None:
        return generate_identifier()
    if not 0 < len(header) <= MAX_KEY_LENGTH or not header.isprintable() or not header.isascii():
        raise InvalidInput(f"an Idempotency-Key has 1 to {MAX_KEY_LENGTH} printable ASCII characters; use another")
    return header


def expand_saved_prior(service: Service, analyst: str, body: RequestBody) -> dict[str, Any]:
    """A request with its saved prior written out: a prior is fixed when the question comes."""
    prior = body.get("prior")
    replacement = (
        {"prior": _find_saved_prior(service, analyst, prior[1:])} if prior is not None and prior.startswith("@") else {}
    )
    return {**body, **replacement}


def parse_question_request(service: Service, schema: Schema, body: RequestBody) -> dict[str, Any]:
    """A request within the limits, its question read."""
    request = dict(body)
    request["question"] = check_limits(service.config.limits, schema, request)
    return request


def _find_saved_prior(service: Service, analyst: str, name: str) -> str:
    text = next((prior.text for prior in list_saved_priors(service.store, analyst) if prior.name == name), None)
    if text is None:
        raise InvalidInput(f"you keep no prior called {name[:40]!r}; save it first, or write it out")
    return text


def check_limits(limits: Limits, schema: Schema, body: RequestBody) -> Query:
    """Refuse a prior or a reply that is too large, from the request alone; the question, read once."""
    prior = body.get("prior")
    if prior is not None and is_weights_text(prior) and prior.count(":") > limits.prior:
        raise InvalidInput(
            f"a prior has at most {limits.prior} weights here; use fewer, or a shape such as normal(38, 6)"
        )
    query = parse_question(body["question"], schema)
    if count_answer_numbers(query, schema) > limits.bins:
        raise InvalidInput(
            f"an answer has at most {limits.bins} numbers here, its groups or bins times the numbers in each; "
            "use fewer keys, wider bins, or fewer numbers at once"
        )
    return query


def check_min_epsilon(limits: Limits, size: Fraction, has_delta: bool = False) -> None:
    """Refuse an epsilon so small that answers without end could be paid for: each is stored for good.

    With a delta losses add up by their squares, so that there `size` is the square of epsilon.
    """
    if 0 < size < limits.least:
        subject, min_epsilon = (
            ("a question with a delta", _round_up_root(limits.least)) if has_delta else ("a question", limits.least)
        )
        raise InvalidInput(
            f"{subject} has an epsilon of at least {format_cost(min_epsilon)} here; ask for more, or ask the custodian"
        )


def _round_up_root(square: Fraction) -> Fraction:
    """The square root, rounded up: an epsilon of so much is enough."""
    return round_up(Fraction(math.isqrt(math.ceil(square * 10**40) - 1) + 1, 10**20), 4)


def _check_planned_epsilon(limits: Limits, options: RequestBody, guarantee: Guarantee | None) -> None:
    """The same of a question; what one by its noise or its accuracy costs is known once it is planned."""
    has_delta = options["delta"] is not None
    planned_epsilon = None if guarantee is None else guarantee.epsilon
    epsilon = planned_epsilon if options["epsilon"] is None else options["epsilon"]
    if epsilon is not None:
        check_min_epsilon(limits, epsilon**2 if has_delta else epsilon, has_delta)
    elif guarantee is not None and guarantee.rho is not None:
        check_min_epsilon(limits, EPSILON_SQUARED_PER_RHO * guarantee.rho, has_delta=True)


def parse_query_options(body: RequestBody) -> dict[str, Any]:
    """What `Custodian.answer` and `.preview` take besides the question, exact numbers by their decimal text."""
    noise = {name: _parse_optional_number(body.get(name), name) for name in ("epsilon", "delta", "noise_scale")}
    settings = {name: body.get(name) for name in ("prior", "model", "accuracy", "distance", "rows", "tail", "reuse")}
    if all(amount is None for amount in (noise["epsilon"], noise["noise_scale"], settings["accuracy"])):
        raise InvalidInput('say how much noise there may be: "epsilon": "0.1" or "accuracy": "±50 at 95%"')
    return noise | settings | {"interval": bool(body.get("interval"))}


def parse_request_number(value: object, name: str) -> Fraction:
    """A number by its decimal text, or as it is."""
    return parse_rational(value, name) if isinstance(value, str) else as_rational(value, name)


def _parse_optional_number(value: object, name: str) -> Fraction | None:
    return None if value is None else parse_request_number(value, name)


def preview_request(service: Service, custodian: Custodian, analyst: str, body: RequestBody) -> dict[str, object]:
    """What a question would cost and be good for; nothing is charged."""
    request = parse_question_request(service, custodian.schema, body)
    options = parse_query_options(request)
    preview = custodian.preview(request["question"], analyst=analyst, **options)
    _check_planned_epsilon(service.config.limits, options, preview.guarantee)
    return preview_to_json(preview)


def find_stored_answer(
    service: Service, dataset: str, rehearsal: bool, analyst: str, key: str, body: RequestBody
) -> StoredAnswer | None:
    """The answer that this very request already has; the key of another request is refused."""
    stored_answer = find_answer_by_key(service.store, dataset, rehearsal, analyst, key)
    return None if stored_answer is None else require_same_request(stored_answer, body)


def require_same_request(stored_answer: StoredAnswer, body: RequestBody) -> StoredAnswer:
    """A kept answer, if it is to this very request."""
    if stored_answer.asked != canonicalize_request(dict(body)):
        raise HttpProblem(
            "conflict", f"the key {stored_answer.key[:40]!r} was used for another request; use a new key for a new one"
        )
    return stored_answer


def answer_request(
    service: Service,
    custodian: Custodian,
    rehearsal: bool,
    analyst: str,
    key: str,
    body: RequestBody,
    received_at: float,
) -> StoredAnswer:
    """Answer what came at a time, and keep the answer under its key; or refuse before anything is charged."""
    request = parse_question_request(service, custodian.schema, body)
    options = parse_query_options(request)
    ranges = [_parse_range(text) for text in request.get("ranges", ())]
    population_size = _parse_optional_number(request.get("population_size"), "population_size")
    has_population = bool(request.get("population")) or population_size is not None
    _check_additions(custodian.schema, request, options, ranges, population_size, has_population)
    _check_planned_epsilon(service.config.limits, options, _preview_guarantee(custodian, analyst, request, options))
    constraints = tuple(request.get("constraints", ()))
    settings: dict[str, Any] = {"constraints": constraints, "fresh": bool(request.get("fresh"))}
    payer = custodian.cached_only() if request.get("stored_only") else custodian
    build_answer = payer._charge_and_measure(request["question"], analyst, key, **options, **settings)
    with serialize_large_steps(count_answer_numbers(request["question"], custodian.schema) > LARGE_REPLY_NUMBERS):
        answer = build_answer()
        additions = _compute_additions(answer, ranges, has_population, population_size)
        stored_answer = build_stored_answer(custodian, rehearsal, analyst, key, body, answer, additions, received_at)
        del answer, additions  # before another thread builds its own
    return keep_answer(service.store, stored_answer)


def _compute_additions(
    answer: Answer, ranges: list[tuple[str, str]], has_population: bool, population_size: Fraction | None
) -> dict[str, Any]:
    """The ranges and the estimates of the population that were asked for with the answer."""
    additions: dict[str, Any] = {}
    if ranges:
        additions["ranges"] = [answer.range(low, high).to_json() for low, high in ranges]
    if has_population:
        population = answer.population(size=population_size)
        additions["population"] = [{name: estimate.to_json() for name, estimate in row.items()} for row in population]
    return additions


def _preview_guarantee(
    custodian: Custodian, analyst: str, request: RequestBody, options: RequestBody
) -> Guarantee | None:
    """What a question without an epsilon would promise; None where it cannot be paid for, or has one."""
    if options["epsilon"] is not None:
        return None
    try:
        return custodian.preview(request["question"], analyst=analyst, **options).guarantee
    except BudgetExceeded:  # under its key it may be paid for already
        return None


def _check_additions(
    schema: Schema,
    request: RequestBody,
    options: Mapping[str, Any],
    ranges: list[tuple[str, str]],
    population_size: object,
    has_population: bool,
) -> None:
    """Whatever is wrong with what is asked beside the question is told before the charge."""
    noise = options["epsilon"], options["delta"], options["prior"], options["model"]
    settings = {name: options[name] for name in ("accuracy", "noise_scale", "rows", "distance", "interval", "tail")}
    if ranges:
        check_ranges(schema, request["question"], ranges)
    if request.get("constraints"):
        check_constraints(schema, request["question"], request["constraints"], *noise, **settings)
    if has_population:
        check_population(schema, request["question"], population_size, *noise, **settings)


def _parse_range(text: str) -> tuple[str, str]:
    low, dots, high = (part.strip() for part in text.partition(".."))
    if not (low and dots and high):
        raise InvalidInput(f"a range is written with two ends, such as 20000..30000, got {text[:40]!r}")
    return low, high


def build_stored_answer(
    custodian: Custodian,
    rehearsal: bool,
    analyst: str,
    key: str,
    body: RequestBody,
    answer: Answer,
    additions: Mapping[str, Any],
    received_at: float,
) -> StoredAnswer:
    """An answer as it is kept: its document with a new id; its picture is drawn when it is looked at."""
    answer_id, dataset = generate_identifier(), custodian.schema.name
    head = {"id": answer_id, "at": received_at, "dataset": dataset, "analyst": analyst, "rehearsal": rehearsal}
    with serialize_large_steps(len(answer.rows) * len(answer.numbers) > LARGE_REPLY_NUMBERS):
        details = {"picture": answer.picture is not None, "request": dict(body)}
        text = json.dumps(head | details | answer.to_json() | dict(additions))
    return StoredAnswer(
        answer_id,
        dataset,
        rehearsal,
        analyst,
        key,
        canonicalize_request(dict(body)),
        answer.entry,
        received_at,
        text,
        None,
    )


def render_answer_picture(service: Service, custodian: Custodian, stored_answer: StoredAnswer) -> str | None:
    """The picture of a kept answer, drawn when it is first looked at from what was paid for: to look costs nothing."""
    if stored_answer.picture is not None or not json.loads(stored_answer.document)["picture"]:
        return stored_answer.picture
    request = parse_question_request(service, custodian.schema, json.loads(stored_answer.asked))
    settings: dict[str, Any] = {
        "constraints": tuple(request.get("constraints", ())),
        "fresh": bool(request.get("fresh")),
    }
    try:
        cached_custodian = custodian.cached_only()
        answer = cached_custodian.answer(
            request["question"],
            analyst=stored_answer.analyst,
            key=stored_answer.key,
            **parse_query_options(request),
            **settings,
        )
    except (InvalidInput, BudgetExceeded):
        raise InvalidInput(NO_PICTURE) from None
    if answer.entry != stored_answer.entry or not _has_same_rows(
        answer, stored_answer
    ):  # a nearer one, or the ledger was put back
        raise InvalidInput(NO_PICTURE)
    spec = json.dumps(answer.picture_spec())
    keep_picture(service.store, stored_answer.id, spec)
    return spec


def _has_same_rows(answer: Answer, stored_answer: StoredAnswer) -> bool:
    rows: object = json.loads(json.dumps(answer.to_json()["rows"]))
    return bool(rows == json.loads(stored_answer.document)["rows"])
