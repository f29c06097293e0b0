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
from discreet.custodian.question import numbers_told, read
from discreet.custodian.secrets import identifier
from discreet.errors import BudgetExceeded, InvalidInput
from discreet.exact import rational, rational_text
from discreet.formatting import format_cost, round_up
from discreet.guarantee import Guarantee
from discreet.planner.memory import LARGE_REPLY, one_at_a_time
from discreet.query.query import Query
from discreet.schema import Schema
from discreet.service.config import Limits
from discreet.service.problems import Problem
from discreet.service.state import Service
from discreet.service.store.answers import Kept, answer_by_key, canonical, keep_answer, keep_picture, saved_priors
from discreet.shapes import are_weights

LONGEST_KEY = 200
ROUGHLY = 100
"""At a delta of 1e-9 and thereabouts, the square of epsilon is so many times rho."""
NO_PICTURE = "this answer is stored no longer, or a nearer one is: its numbers stay, its picture is gone"
Asked = Mapping[str, Any]


def key_of(sent: str | None) -> str:
    """The idempotency key of a request: as it was sent, or a new one."""
    if sent is None:
        return identifier()
    if not 0 < len(sent) <= LONGEST_KEY or not sent.isprintable() or not sent.isascii():
        raise InvalidInput(f"an Idempotency-Key has 1 to {LONGEST_KEY} printable ASCII characters; use another")
    return sent


def written_out(service: Service, analyst: str, asked: Asked) -> dict[str, Any]:
    """A request with its saved prior written out: a prior is fixed when the question comes."""
    prior = asked.get("prior")
    saved = {"prior": _saved(service, analyst, prior[1:])} if prior is not None and prior.startswith("@") else {}
    return {**asked, **saved}


def checked(service: Service, schema: Schema, asked: Asked) -> dict[str, Any]:
    """A request within the limits, its question read."""
    told = dict(asked)
    told["question"] = check_limits(service.config.limits, schema, told)
    return told


def _saved(service: Service, analyst: str, name: str) -> str:
    found = next((one.text for one in saved_priors(service.store, analyst) if one.name == name), None)
    if found is None:
        raise InvalidInput(f"you keep no prior called {name[:40]!r}; save it first, or write it out")
    return found


def check_limits(limits: Limits, schema: Schema, asked: Asked) -> Query:
    """Refuse a prior or a reply that is too large, from the request alone; the question, read once."""
    prior = asked.get("prior")
    if prior is not None and are_weights(prior) and prior.count(":") > limits.prior:
        raise InvalidInput(
            f"a prior has at most {limits.prior} weights here; use fewer, or a shape such as normal(38, 6)"
        )
    query = read(asked["question"], schema)
    if numbers_told(query, schema) > limits.bins:
        raise InvalidInput(
            f"an answer has at most {limits.bins} numbers here, its groups or bins times the numbers in each; "
            "use fewer keys, wider bins, or fewer numbers at once"
        )
    return query


def check_least(limits: Limits, size: Fraction, delta: bool = False) -> None:
    """Refuse an epsilon so small that answers without end could be paid for: each is stored for good.

    With a delta losses add up by their squares, so that there `size` is the square of epsilon.
    """
    if 0 < size < limits.least:
        what, least = ("a question with a delta", _root(limits.least)) if delta else ("a question", limits.least)
        raise InvalidInput(
            f"{what} has an epsilon of at least {format_cost(least)} here; ask for more, or ask the custodian"
        )


def _root(square: Fraction) -> Fraction:
    """The square root, rounded up: an epsilon of so much is enough."""
    return round_up(Fraction(math.isqrt(math.ceil(square * 10**40) - 1) + 1, 10**20), 4)


def _check_planned(limits: Limits, given: Asked, told: Guarantee | None) -> None:
    """The same of a question; what one by its noise or its accuracy costs is known once it is planned."""
    delta = given["delta"] is not None
    planned = None if told is None else told.epsilon
    epsilon = planned if given["epsilon"] is None else given["epsilon"]
    if epsilon is not None:
        check_least(limits, epsilon**2 if delta else epsilon, delta)
    elif told is not None and told.rho is not None:
        check_least(limits, ROUGHLY * told.rho, delta=True)


def numbers(asked: Asked) -> dict[str, Any]:
    """What `Custodian.answer` and `.preview` take besides the question, exact numbers by their decimal text."""
    noise = {name: _number(asked.get(name), name) for name in ("epsilon", "delta", "noise_scale")}
    more = {name: asked.get(name) for name in ("prior", "model", "accuracy", "distance", "rows", "tail", "reuse")}
    if all(one is None for one in (noise["epsilon"], noise["noise_scale"], more["accuracy"])):
        raise InvalidInput('say how much noise there may be: "epsilon": "0.1" or "accuracy": "±50 at 95%"')
    return noise | more | {"interval": bool(asked.get("interval"))}


def exact(given: object, name: str) -> Fraction:
    """A number by its decimal text, or as it is."""
    return rational_text(given, name) if isinstance(given, str) else rational(given, name)


def _number(given: object, name: str) -> Fraction | None:
    return None if given is None else exact(given, name)


def preview(service: Service, custodian: Custodian, analyst: str, asked: Asked) -> dict[str, object]:
    """What a question would cost and be good for; nothing is charged."""
    told = checked(service, custodian.schema, asked)
    given = numbers(told)
    made = custodian.preview(told["question"], analyst=analyst, **given)
    _check_planned(service.config.limits, given, made.guarantee)
    return preview_to_json(made)


def stored(service: Service, dataset: str, rehearsal: bool, analyst: str, key: str, asked: Asked) -> Kept | None:
    """The answer that this very request already has; the key of another request is refused."""
    kept = answer_by_key(service.store, dataset, rehearsal, analyst, key)
    return None if kept is None else same(kept, asked)


def same(kept: Kept, asked: Asked) -> Kept:
    """A kept answer, if it is to this very request."""
    if kept.asked != canonical(dict(asked)):
        raise Problem(
            "conflict", f"the key {kept.key[:40]!r} was used for another request; use a new key for a new one"
        )
    return kept


def ask(
    service: Service, custodian: Custodian, rehearsal: bool, analyst: str, key: str, asked: Asked, at: float
) -> Kept:
    """Answer what came at a time, and keep the answer under its key; or refuse before anything is charged."""
    told = checked(service, custodian.schema, asked)
    given = numbers(told)
    ranges = [_ends(one) for one in told.get("ranges", ())]
    size = _number(told.get("population_size"), "population_size")
    people = bool(told.get("population")) or size is not None
    _refuse(custodian.schema, told, given, ranges, size, people)
    _check_planned(service.config.limits, given, _planned(custodian, analyst, told, given))
    constraints = tuple(told.get("constraints", ()))
    more: dict[str, Any] = {"constraints": constraints, "fresh": bool(told.get("fresh"))}
    payer = custodian.unpaid() if told.get("stored_only") else custodian
    build_answer = payer._release(told["question"], analyst, key, **given, **more)
    with one_at_a_time(numbers_told(told["question"], custodian.schema) > LARGE_REPLY):
        answer = build_answer()
        beside = _beside(answer, ranges, people, size)
        kept = kept_of(custodian, rehearsal, analyst, key, asked, answer, beside, at)
        del answer, beside  # before another thread builds its own
    return keep_answer(service.store, kept)


def _beside(answer: Answer, ranges: list[tuple[str, str]], people: bool, size: Fraction | None) -> dict[str, Any]:
    """The ranges and the estimates of the population that were asked for with the answer."""
    beside: dict[str, Any] = {}
    if ranges:
        beside["ranges"] = [answer.range(low, high).to_json() for low, high in ranges]
    if people:
        population = answer.population(size=size)
        beside["population"] = [{name: one.to_json() for name, one in row.items()} for row in population]
    return beside


def _planned(custodian: Custodian, analyst: str, told: Asked, given: Asked) -> Guarantee | None:
    """What a question without an epsilon would promise; None where it cannot be paid for, or has one."""
    if given["epsilon"] is not None:
        return None
    try:
        return custodian.preview(told["question"], analyst=analyst, **given).guarantee
    except BudgetExceeded:  # under its key it may be paid for already
        return None


def _refuse(
    schema: Schema, told: Asked, given: Mapping[str, Any], ranges: list[tuple[str, str]], size: object, people: bool
) -> None:
    """Whatever is wrong with what is asked beside the question is told before the charge."""
    noise = given["epsilon"], given["delta"], given["prior"], given["model"]
    more = {name: given[name] for name in ("accuracy", "noise_scale", "rows", "distance", "interval", "tail")}
    if ranges:
        check_ranges(schema, told["question"], ranges)
    if told.get("constraints"):
        check_constraints(schema, told["question"], told["constraints"], *noise, **more)
    if people:
        check_population(schema, told["question"], size, *noise, **more)


def _ends(text: str) -> tuple[str, str]:
    low, dots, high = (part.strip() for part in text.partition(".."))
    if not (low and dots and high):
        raise InvalidInput(f"a range is written with two ends, such as 20000..30000, got {text[:40]!r}")
    return low, high


def kept_of(
    custodian: Custodian,
    rehearsal: bool,
    analyst: str,
    key: str,
    asked: Asked,
    answer: Answer,
    beside: Mapping[str, Any],
    at: float,
) -> Kept:
    """An answer as it is kept: its document with a new id; its picture is drawn when it is looked at."""
    name, dataset = identifier(), custodian.schema.name
    head = {"id": name, "at": at, "dataset": dataset, "analyst": analyst, "rehearsal": rehearsal}
    with one_at_a_time(len(answer.rows) * len(answer.numbers) > LARGE_REPLY):
        shown = {"picture": answer.picture is not None, "request": dict(asked)}
        text = json.dumps(head | shown | answer.to_json() | dict(beside))
    return Kept(name, dataset, rehearsal, analyst, key, canonical(dict(asked)), answer.entry, at, text, None)


def picture(service: Service, custodian: Custodian, kept: Kept) -> str | None:
    """The picture of a kept answer, drawn when it is first looked at from what was paid for: to look costs nothing."""
    if kept.picture is not None or not json.loads(kept.document)["picture"]:
        return kept.picture
    told = checked(service, custodian.schema, json.loads(kept.asked))
    more: dict[str, Any] = {"constraints": tuple(told.get("constraints", ())), "fresh": bool(told.get("fresh"))}
    try:
        again = custodian.unpaid()
        answer = again.answer(told["question"], analyst=kept.analyst, key=kept.key, **numbers(told), **more)
    except (InvalidInput, BudgetExceeded):
        raise InvalidInput(NO_PICTURE) from None
    if answer.entry != kept.entry or not _same_rows(answer, kept):  # a nearer one, or the ledger was put back
        raise InvalidInput(NO_PICTURE)
    spec = json.dumps(answer.picture_spec())
    keep_picture(service.store, kept.id, spec)
    return spec


def _same_rows(answer: Answer, kept: Kept) -> bool:
    told: object = json.loads(json.dumps(answer.to_json()["rows"]))
    return bool(told == json.loads(kept.document)["rows"])
