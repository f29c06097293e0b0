"""Decode replies of a service into the library's values."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from fractions import Fraction
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar, cast

import numpy as np

from discreet.answers.answer import (
    ALL_KEYS,
    MAX_JSON_POSTERIORS,
    Answer,
    AnswerValue,
    PopulationEstimate,
    RangeCount,
    ReconciledRows,
)
from discreet.client.transport import UNREADABLE
from discreet.errors import InvalidInput, Unavailable
from discreet.numeric import as_number_between
from discreet.priors.posterior import Array, Posterior
from discreet.privacy.guarantee import Guarantee
from discreet.schema.column import Interval

if TYPE_CHECKING:
    from discreet.custodian.preview import Preview
    from discreet.ledger.charge import Balance, Entry, LedgerVerification
    from discreet.sdc.sweep import SweepResult


JsonObject = Mapping[str, Any]
IntervalRows = tuple[Mapping[str, Interval], ...]
PosteriorRows = tuple[Mapping[str, Posterior | None], ...]
Value = TypeVar("Value")
NOT_IN_REPLY = "a reply tells the mean, the median and the 95 % interval of a posterior, and no more of its law"
ONLY_95 = "a reply tells intervals at 95 % and at no other confidence; leave it at 0.95"
TOO_MANY_POSTERIORS = (
    f"a reply tells the posteriors of at most {MAX_JSON_POSTERIORS} rows, and this answer has more; ask for fewer"
)


class SummaryPosterior(Posterior):
    """The mean, the median and the 95 % interval of a posterior; whatever needs more of its distribution is refused."""

    def __init__(self, mean: float, median: float, interval: tuple[float, float]) -> None:
        self._mean, self._median, self._interval = mean, median, interval

    @property
    def mass(self) -> Array:
        """Refused: a reply does not have it."""
        raise InvalidInput(NOT_IN_REPLY)

    @property
    def numeric(self) -> bool:
        """True: of a posterior over names a reply has every probability."""
        return True

    def mean(self) -> float:
        """The mean."""
        return self._mean

    def median(self) -> float:
        """The median."""
        return self._median

    def variance(self) -> float:
        """Refused: a reply does not have it."""
        raise InvalidInput(NOT_IN_REPLY)

    def quantile(self, order: float) -> float:
        """The median or an end of the interval; other quantiles are refused."""
        quantiles = {0.025: self._interval[0], 0.5: self._median, 0.975: self._interval[1]}
        if order not in quantiles:
            raise InvalidInput(NOT_IN_REPLY)
        return quantiles[order]

    def interval(self, confidence: float = 0.95) -> tuple[float, float]:
        """The central interval that holds it with a probability of at least 95 %."""
        require_95_confidence(float(as_number_between(confidence, 0, 1, "confidence")))
        return self._interval

    def _line(self) -> Array:
        raise InvalidInput(NOT_IN_REPLY)


def require_95_confidence(confidence: float) -> None:
    """Refuse every confidence but 0.95, the only one that replies have."""
    if confidence != 0.95:
        raise InvalidInput(ONLY_95)


@dataclass(frozen=True, slots=True)
class SyntheticEstimate:
    """What a private file would promise, and the expected error of each column."""

    method: str
    guarantee: Guarantee
    errors: Mapping[str, float]
    column_methods: Mapping[str, str]
    warnings: tuple[str, ...] = ()

    @property
    def error(self) -> float:
        """The mean of the expected errors over the columns."""
        return sum(self.errors.values()) / len(self.errors)


def decode_reply(decoder: Callable[[Any], Value], document: object) -> Value:
    """Decode a document; one that is not of the expected form is refused as an unreadable reply."""
    try:
        return decoder(document)
    except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError):
        raise Unavailable(f"the service {UNREADABLE}") from None


def decode_guarantee(document: JsonObject) -> Guarantee:
    """Decode a guarantee."""
    return Guarantee(
        model=document["model"],
        neighbors=document.get("neighbours"),
        epsilon=_parse_fraction(document.get("epsilon")),
        delta=_parse_fraction(document.get("delta")),
        rho=_parse_fraction(document.get("rho")),
        pure_epsilon=_parse_fraction(document.get("also_epsilon")),
        k=document.get("k"),
        t=_parse_fraction(document.get("t")),
        distance=document.get("distance"),
        unit=str(document["unit"]),
        assumptions=tuple(map(str, document["assumptions"])),
    )


def decode_preview(document: JsonObject) -> Preview:
    """Decode a preview."""
    from discreet.answers.explain import AccuracyForRows
    from discreet.custodian.preview import Preview
    from discreet.planner.dp_comparison import DpComparison
    from discreet.planner.plan import Candidate

    comparison = document.get("compared_with_dp")
    dp_fields = ("mechanism", "accuracy", "expected_error", "own_error", "prefer", "words")
    candidates = [
        Candidate(
            item["aggregate"], item["mechanism"], decode_guarantee(item["cost"]), item["expected_error"], item["chosen"]
        )
        for item in document["candidates"]
    ]
    return Preview(
        question=document["question"],
        mechanism=document["mechanism"],
        cost=decode_guarantee(document["cost"]),
        expected_error=document["expected_error"],
        candidates=tuple(candidates),
        accuracy=document["accuracy"],
        guarantee=decode_guarantee(document["guarantee"]),
        reason=document["reason"],
        stored=_parse_fraction(document["stored_epsilon"]),
        reuse=document.get("reuse", ""),
        warnings=tuple(document["warnings"]),
        prior_error=document["prior_error"],
        pictured=document["pictured"],
        error_of=document["error_of"],
        prior_use=document.get("prior_use", ""),
        balances=decode_balances(document["budget"]),
        times=document["times"],
        accuracy_by_rows=tuple(
            AccuracyForRows(item["name"], item["rows"], item["within"]) for item in document.get("accuracy_by_rows", ())
        ),
        compared_with_dp=None if comparison is None else DpComparison(*(comparison[name] for name in dp_fields)),
    )


def decode_balances(documents: Sequence[JsonObject]) -> tuple[Balance, ...]:
    """Decode what is spent and left, of the data set and of analysts."""
    from discreet.ledger.charge import Balance
    from discreet.schema import Budget

    def decode_balance(document: JsonObject) -> Balance:
        spent, cap = document["spent"], document["cap"]
        return Balance(
            model=document["model"],
            analyst=document["analyst"],
            epsilon=_parse_fraction(spent["epsilon"]),
            delta=Fraction(spent["delta"]),
            cap=Budget(Fraction(cap["epsilon"]), Fraction(cap["delta"]), _parse_fraction(cap.get("max_epsilon"))),
            left=Fraction(document["left"]),
            flags=tuple(map(str, document["flags"])),
            promise=document["promise"],
        )

    return tuple(decode_balance(document) for document in documents)


def decode_entries(documents: Sequence[JsonObject]) -> list[Entry]:
    """Decode entries of the ledger."""
    from discreet.ledger.charge import Entry
    from discreet.privacy.cost import PrivacyCost, SubAccount

    def decode_entry(document: JsonObject) -> Entry:
        spend, part = document["spend"], document["part"]
        return Entry(
            entry=document["entry"],
            kind=document["kind"],
            at=document["at"],
            snapshot=document["snapshot"],
            analyst=document["analyst"],
            query=document["query"],
            model=document["model"],
            spend=None
            if spend is None
            else PrivacyCost(*(Fraction(spend[name]) for name in ("epsilon", "rho", "other", "delta"))),
            epsilon=_parse_fraction(document["epsilon"]),
            part=None if part is None else SubAccount(part["kind"], part["name"], max_accounts=part["reach"]),
        )

    return [decode_entry(document) for document in documents]


def decode_verification(document: JsonObject) -> LedgerVerification:
    """Decode the result of recomputing a ledger's chain."""
    from discreet.ledger.charge import LedgerVerification

    return LedgerVerification(document["entries"], document["head"])


def decode_estimates(documents: Sequence[JsonObject]) -> tuple[SyntheticEstimate, ...]:
    """Decode plans of private files."""
    return tuple(
        SyntheticEstimate(
            document["method"],
            decode_guarantee(document["guarantee"]),
            dict(document["expected_error"]),
            dict(document["made"]),
            tuple(document["warnings"]),
        )
        for document in documents
    )


def decode_sweep(document: JsonObject) -> SweepResult:
    """Decode a comparison of methods over k."""
    from discreet.sdc.sweep import SweepPoint, SweepResult

    fields = ("method", "k", "loss", "risk", "il1s", "linkage", "score", "lost")
    *points, recommended = (
        SweepPoint(*(point[name] for name in fields)) for point in (*document["points"], document["recommended"])
    )
    return SweepResult(tuple(points), recommended, document["limit"], tuple(document["left_out"]))


def _parse_fraction(text: str | None) -> Fraction | None:
    return None if text is None else Fraction(text)


def decode_answer(document: JsonObject, has_prior: bool) -> Answer:
    """Decode an answer; `has_prior` where a prior was sent with the question."""
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
        spent={model: _parse_fraction(amount) for model, amount in document["spent_so_far"].items()},
        stored=document["stored"],
        entry=document["entry"],
        intervals=partial(_get_95_intervals, intervals),
        posteriors=partial(_get_posteriors, _decode_posteriors(document["posteriors"])),
        warning=document["warning"],
        missed_accuracy=document.get("missed_accuracy", ""),
        shaped=document["shaped_by_prior"],
        prior=has_prior,
        prior_tail=document.get("prior_tail"),
        prior_use=document.get("prior_use", ""),
        describe_meaning=partial(str, document["meaning"]),
        reconcile=partial(_get_reconciled, _decode_reconciled(document["reconciled"], dates)),
    )


def decode_range_count(document: JsonObject) -> RangeCount:
    """Decode the count of a range; its ends are numbers, or dates, which alone are sent as text."""
    low, high = (
        date.fromisoformat(end) if isinstance(end, str) else end for end in (document["low"], document["high"])
    )
    (first, last), (interval_low, interval_high) = document["asked"], document["interval"]
    return RangeCount(
        (first, last), low, high, document["value"], (interval_low, interval_high), document["confidence"]
    )


def decode_population(documents: Sequence[JsonObject]) -> tuple[Mapping[str, PopulationEstimate], ...]:
    """Decode the estimates of every row for the population."""

    def decode_estimate(name: str, estimate: JsonObject) -> PopulationEstimate:
        low, high = estimate["interval"]
        details = (estimate[field] for field in ("confidence", "noise", "sampling", "words"))
        return PopulationEstimate(name, estimate["value"], (low, high), *details)

    return tuple({name: decode_estimate(name, estimate) for name, estimate in row.items()} for row in documents)


def decode_intervals(documents: Sequence[JsonObject], dates: frozenset[str]) -> IntervalRows:
    """Decode the interval of every number of every row."""

    def decode_interval(ends: Sequence[Any] | None, are_dates: bool) -> Interval:
        if ends is None:
            return None
        low, high = map(date.fromisoformat, ends) if are_dates else ends
        return cast(Interval, (low, high))

    return tuple({name: decode_interval(ends, name in dates) for name, ends in row.items()} for row in documents)


def _decode_rows(documents: Sequence[JsonObject], dates: frozenset[str]) -> tuple[Mapping[str, AnswerValue], ...]:
    return tuple({name: _decode_value(value, name in dates) for name, value in row.items()} for row in documents)


def _decode_value(value: AnswerValue, is_date: bool) -> AnswerValue:
    return date.fromisoformat(value) if is_date and isinstance(value, str) and value != ALL_KEYS else value


def _get_95_intervals(intervals: IntervalRows, confidence: float) -> IntervalRows:
    require_95_confidence(confidence)
    return intervals


def _get_reconciled(reconciled: ReconciledRows | None) -> ReconciledRows | None:
    return reconciled


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


def _get_posteriors(posteriors: PosteriorRows | None) -> PosteriorRows:
    if posteriors is None:
        raise InvalidInput(TOO_MANY_POSTERIORS)
    return posteriors


def _decode_posteriors(documents: Sequence[JsonObject] | None) -> PosteriorRows | None:
    if documents is None:
        return None
    return tuple({name: _decode_posterior(posterior) for name, posterior in row.items()} for row in documents)


def _decode_posterior(document: JsonObject | None) -> Posterior | None:
    """Of names all probabilities are sent, of numbers a summary."""
    if document is None:
        return None
    if "probabilities" in document:
        names, probabilities = zip(*document["probabilities"].items(), strict=True)
        return Posterior(np.array(probabilities, dtype=np.float64), names=names)
    low, high = document["interval_95"]
    return SummaryPosterior(document["mean"], document["median"], (low, high))
