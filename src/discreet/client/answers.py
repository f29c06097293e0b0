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

from discreet.answer import (
    ALL_KEYS,
    MAX_JSON_POSTERIORS,
    Answer,
    AnswerValue,
    Interval,
    PopulationEstimate,
    RangeCount,
    ReconciledRows,
)
from discreet.client.posterior import SummaryPosterior, require_95_confidence
from discreet.client.reading import JsonObject, decode_guarantee
from discreet.errors import InvalidInput
from discreet.posterior import Posterior

IntervalRows = tuple[Mapping[str, Interval], ...]
TOO_MANY_POSTERIORS = (
    f"a reply tells the posteriors of at most {MAX_JSON_POSTERIORS} rows, and this answer has more; ask for fewer"
)


@dataclass(frozen=True, slots=True)
class AnswerCallbacks:
    """What is asked of the service again for one answer: ranges, the population, the picture."""

    count_range: Callable[[object, object, float], RangeCount]
    estimate_population: Callable[[float, object], tuple[Mapping[str, PopulationEstimate], ...]]
    picture: Callable[[str | Path], Path] | None = None
    spec: Callable[[], dict[str, Any]] | None = None


def decode_answer(document: JsonObject, callbacks: AnswerCallbacks, has_prior: bool) -> Answer:
    """The answer; `prior` where one was given with the question."""
    dates = frozenset(document["dates"])
    intervals = decode_intervals(document["intervals_95"], dates)
    return Answer(
        question=document["question"],
        columns=tuple(document["columns"]),
        numbers=tuple(document["numbers"]),
        rows=_decode_rows(document["rows"], dates),
        mechanism=document["mechanism"],
        accuracy=document["accuracy"],
        guarantee=decode_guarantee(document["guarantee"]),
        cost=decode_guarantee(document["cost"]),
        spent={
            model: None if amount is None else Fraction(amount) for model, amount in document["spent_so_far"].items()
        },
        stored=document["stored"],
        entry=document["entry"],
        intervals=partial(_get_95_intervals, intervals),
        posteriors=_make_posteriors_call(document["posteriors"]),
        warning=document["warning"],
        missed_accuracy=document.get("missed_accuracy", ""),
        shaped=document["shaped_by_prior"],
        prior=has_prior,
        prior_tail=document.get("prior_tail"),
        prior_use=document.get("prior_use", ""),
        describe_meaning=partial(str, document["meaning"]),
        picture=callbacks.picture,
        spec=callbacks.spec,
        reconcile=partial(_return_value, _decode_reconciled(document["reconciled"], dates)),
        count_range=callbacks.count_range,
        estimate_population=callbacks.estimate_population,
    )


def decode_range_count(document: JsonObject) -> RangeCount:
    """One range; its ends are numbers, or dates, which alone are told as text."""
    low, high = (
        date.fromisoformat(end) if isinstance(end, str) else end for end in (document["low"], document["high"])
    )
    (first, last), (interval_low, interval_high) = document["asked"], document["interval"]
    return RangeCount(
        (first, last), low, high, document["value"], (interval_low, interval_high), document["confidence"]
    )


def decode_population(documents: Sequence[JsonObject]) -> tuple[Mapping[str, PopulationEstimate], ...]:
    """Every row for the population."""

    def decode_estimate(name: str, estimate: JsonObject) -> PopulationEstimate:
        low, high = estimate["interval"]
        return PopulationEstimate(
            name,
            estimate["value"],
            (low, high),
            estimate["confidence"],
            estimate["noise"],
            estimate["sampling"],
            estimate["words"],
        )

    return tuple({name: decode_estimate(name, estimate) for name, estimate in row.items()} for row in documents)


def decode_intervals(documents: Sequence[JsonObject], dates: frozenset[str]) -> IntervalRows:
    """The interval of every number of every row."""
    return tuple({name: _decode_interval(ends, name in dates) for name, ends in row.items()} for row in documents)


def _decode_interval(ends: Sequence[Any] | None, are_dates: bool) -> Interval:
    if ends is None:
        return None
    low, high = map(date.fromisoformat, ends) if are_dates else ends
    return cast(Interval, (low, high))


def _decode_rows(documents: Sequence[JsonObject], dates: frozenset[str]) -> tuple[Mapping[str, AnswerValue], ...]:
    return tuple({name: _decode_value(value, name in dates) for name, value in row.items()} for row in documents)


def _decode_value(value: AnswerValue, is_date: bool) -> AnswerValue:
    return date.fromisoformat(value) if is_date and isinstance(value, str) and value != ALL_KEYS else value


def _get_95_intervals(intervals: IntervalRows, confidence: float) -> IntervalRows:
    require_95_confidence(confidence)
    return intervals


def _return_value(value: Any) -> Any:
    return value


def _decode_reconciled(document: JsonObject | None, dates: frozenset[str]) -> ReconciledRows | None:
    if document is None:
        return None
    intervals = decode_intervals(document["intervals_95"], dates)
    return ReconciledRows(
        _decode_rows(document["rows"], dates),
        partial(_get_95_intervals, intervals),
        tuple(document["because"]),
        document.get("advice", ""),
    )


def _make_posteriors_call(
    documents: Sequence[JsonObject] | None,
) -> Callable[[], tuple[Mapping[str, Posterior | None], ...]]:
    if documents is None:
        return _refuse_posteriors
    return partial(
        _return_value,
        tuple({name: _decode_posterior(posterior) for name, posterior in row.items()} for row in documents),
    )


def _refuse_posteriors() -> tuple[Mapping[str, Posterior | None], ...]:
    raise InvalidInput(TOO_MANY_POSTERIORS)


def _decode_posterior(document: JsonObject | None) -> Posterior | None:
    """Of names the whole law is told, of numbers its summary."""
    if document is None:
        return None
    if "probabilities" in document:
        names, probabilities = zip(*document["probabilities"].items(), strict=True)
        return Posterior(np.array(probabilities, dtype=np.float64), names=names)
    low, high = document["interval_95"]
    return SummaryPosterior(document["mean"], document["median"], (low, high))
