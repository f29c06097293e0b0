"""An answer from its document: the class that a custodian has too, with intervals at 95 % and what is told of laws."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any, cast

import numpy as np

from discreet.answer import ALL, MOST_POSTERIORS, Answer, InRange, Interval, Population, Reconciled, Reply
from discreet.client.posterior import ToldPosterior, require_95
from discreet.client.reading import Told, guarantee_from
from discreet.errors import InvalidInput
from discreet.posterior import Posterior

Spans = tuple[Mapping[str, Interval], ...]
TOO_MANY = f"a reply tells the posteriors of at most {MOST_POSTERIORS} rows, and this answer has more; ask for fewer"


@dataclass(frozen=True, slots=True)
class More:
    """What is asked of the service again for one answer: ranges, the population, the picture."""

    in_range: Callable[[object, object, float], InRange]
    population: Callable[[float, object], tuple[Mapping[str, Population], ...]]
    picture: Callable[[str | Path], Path] | None = None
    spec: Callable[[], dict[str, Any]] | None = None


def answer_from(told: Told, more: More, prior: bool) -> Answer:
    """The answer; `prior` where one was given with the question."""
    dates = frozenset(told["dates"])
    spans = spans_from(told["intervals_95"], dates)
    return Answer(
        question=told["question"],
        columns=tuple(told["columns"]),
        numbers=tuple(told["numbers"]),
        rows=_rows(told["rows"], dates),
        mechanism=told["mechanism"],
        accuracy=told["accuracy"],
        guarantee=guarantee_from(told["guarantee"]),
        cost=guarantee_from(told["cost"]),
        spent={model: None if sum_ is None else Fraction(sum_) for model, sum_ in told["spent_so_far"].items()},
        stored=told["stored"],
        entry=told["entry"],
        intervals=partial(_at_95, spans),
        posteriors=_posteriors(told["posteriors"]),
        warning=told["warning"],
        missed_accuracy=told.get("missed_accuracy", ""),
        shaped=told["shaped_by_prior"],
        prior=prior,
        prior_tail=told.get("prior_tail"),
        prior_use=told.get("prior_use", ""),
        say=partial(str, told["meaning"]),
        picture=more.picture,
        spec=more.spec,
        reconcile=partial(_same, _reconciled(told["reconciled"], dates)),
        in_range=more.in_range,
        generalise=more.population,
    )


def in_range_from(told: Told) -> InRange:
    """One range; its ends are numbers, or dates, which alone are told as text."""
    low, high = (date.fromisoformat(end) if isinstance(end, str) else end for end in (told["low"], told["high"]))
    (first, last), (least, most) = told["asked"], told["interval"]
    return InRange((first, last), low, high, told["value"], (least, most), told["confidence"])


def population_from(told: Sequence[Told]) -> tuple[Mapping[str, Population], ...]:
    """Every row for the population."""

    def one(name: str, of: Told) -> Population:
        low, high = of["interval"]
        return Population(name, of["value"], (low, high), of["confidence"], of["noise"], of["sampling"], of["words"])

    return tuple({name: one(name, of) for name, of in row.items()} for row in told)


def spans_from(told: Sequence[Told], dates: frozenset[str]) -> Spans:
    """The interval of every number of every row."""
    return tuple({name: _span(ends, name in dates) for name, ends in row.items()} for row in told)


def _span(ends: Sequence[Any] | None, are_dates: bool) -> Interval:
    if ends is None:
        return None
    low, high = map(date.fromisoformat, ends) if are_dates else ends
    return cast(Interval, (low, high))


def _rows(told: Sequence[Told], dates: frozenset[str]) -> tuple[Mapping[str, Reply], ...]:
    return tuple({name: _value(value, name in dates) for name, value in row.items()} for row in told)


def _value(value: Reply, is_date: bool) -> Reply:
    return date.fromisoformat(value) if is_date and isinstance(value, str) and value != ALL else value


def _at_95(spans: Spans, confidence: float) -> Spans:
    require_95(confidence)
    return spans


def _same(made: Any) -> Any:
    return made


def _reconciled(told: Told | None, dates: frozenset[str]) -> Reconciled | None:
    if told is None:
        return None
    spans = spans_from(told["intervals_95"], dates)
    return Reconciled(
        _rows(told["rows"], dates), partial(_at_95, spans), tuple(told["because"]), told.get("advice", "")
    )


def _posteriors(told: Sequence[Told] | None) -> Callable[[], tuple[Mapping[str, Posterior | None], ...]]:
    if told is None:
        return _too_many
    return partial(_same, tuple({name: _posterior(law) for name, law in row.items()} for row in told))


def _too_many() -> tuple[Mapping[str, Posterior | None], ...]:
    raise InvalidInput(TOO_MANY)


def _posterior(told: Told | None) -> Posterior | None:
    """Of names the whole law is told, of numbers its summary."""
    if told is None:
        return None
    if "probabilities" in told:
        names, shares = zip(*told["probabilities"].items(), strict=True)
        return Posterior(np.array(shares, dtype=np.float64), names=names)
    low, high = told["interval_95"]
    return ToldPosterior(told["mean"], told["median"], (low, high))
