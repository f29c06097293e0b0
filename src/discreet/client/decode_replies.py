"""Decode replies of a service into the library's values."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

import numpy as np

from discreet.answers.answer import (
    ALL_KEYS,
    MAX_JSON_POSTERIORS,
    Answer,
    AnswerValue,
    Interval,
    PopulationEstimate,
    RangeCount,
    ReconciledRows,
)
from discreet.client.transport import UNREADABLE
from discreet.errors import InvalidInput, Unavailable
from discreet.numeric import as_number_between
from discreet.priors.posterior import Array, Posterior
from discreet.privacy.guarantee import Guarantee

if TYPE_CHECKING:
    from discreet.custodian.preview import Preview
    from discreet.ledger.charge import Balance, Entry, LedgerVerification
    from discreet.planner.dp_comparison import DpComparison
    from discreet.privacy.cost import PrivacyCost, SubAccount
    from discreet.sdc.compare import SweepPoint, SweepResult


NOT_IN_REPLY = "a reply tells the mean, the median and the 95 % interval of a posterior, and no more of its law"
ONLY_95 = "a reply tells intervals at 95 % and at no other confidence; leave it at 0.95"


class SummaryPosterior(Posterior):
    """What is known after an answer, summed up; what would need the law itself is refused."""

    def __init__(self, mean: float, median: float, interval: tuple[float, float]) -> None:
        self._mean, self._median, self._interval = mean, median, interval

    @property
    def mass(self) -> Array:
        """Not told."""
        raise InvalidInput(NOT_IN_REPLY)

    @property
    def numeric(self) -> bool:
        """It is: of names a reply tells every probability."""
        return True

    def mean(self) -> float:
        """The mean."""
        return self._mean

    def median(self) -> float:
        """As likely below as above."""
        return self._median

    def variance(self) -> float:
        """Not told."""
        raise InvalidInput(NOT_IN_REPLY)

    def quantile(self, order: float) -> float:
        """The median and both ends of the interval are told; no others."""
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
    """Refuse every other confidence than the one that is told."""
    if confidence != 0.95:
        raise InvalidInput(ONLY_95)


JsonObject = Mapping[str, Any]
Made = TypeVar("Made")


@dataclass(frozen=True, slots=True)
class SyntheticEstimate:
    """What a private file would promise and how far off it would be, as it is told of a plan."""

    method: str
    guarantee: Guarantee
    errors: Mapping[str, float]
    column_methods: Mapping[str, str]
    warnings: tuple[str, ...] = ()

    @property
    def error(self) -> float:
        """The mean over the columns."""
        return sum(self.errors.values()) / len(self.errors)


def decode_reply(decoder: Callable[[Any], Made], document: object) -> Made:
    """A value from a document; whatever is not as it should be is told as one thing."""
    try:
        return decoder(document)
    except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError):
        raise Unavailable(f"the service {UNREADABLE}") from None


def decode_guarantee(document: JsonObject) -> Guarantee:
    """One promise."""
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
    """What a question would cost and be good for."""
    from discreet.answers.explain import AccuracyForRows
    from discreet.custodian.preview import Preview
    from discreet.planner.plan import Candidate

    compared = document.get("compared_with_dp")
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
            AccuracyForRows(name=item["name"], rows=item["rows"], within=item["within"])
            for item in document.get("accuracy_by_rows", ())
        ),
        compared_with_dp=None if compared is None else _decode_dp_comparison(compared),
    )


def _decode_dp_comparison(document: JsonObject) -> DpComparison:
    from discreet.planner.dp_comparison import DpComparison

    return DpComparison(
        mechanism=document["mechanism"],
        accuracy=document["accuracy"],
        expected_error=document["expected_error"],
        own_error=document["own_error"],
        prefer=document["prefer"],
        words=document["words"],
    )


def decode_balances(documents: Sequence[JsonObject]) -> tuple[Balance, ...]:
    """What is spent and left, of the data set and of analysts."""
    from discreet.ledger.charge import Balance
    from discreet.schema import Budget

    def decode_balance(document: JsonObject) -> Balance:
        spent, cap_document = document["spent"], document["cap"]
        max_epsilon = _parse_fraction(cap_document.get("max_epsilon"))
        cap = Budget(
            epsilon=Fraction(cap_document["epsilon"]), delta=Fraction(cap_document["delta"]), max_epsilon=max_epsilon
        )
        flags = tuple(map(str, document["flags"]))
        exact = _parse_fraction(spent["epsilon"]), Fraction(spent["delta"])
        return Balance(
            document["model"], document["analyst"], *exact, cap, Fraction(document["left"]), flags, document["promise"]
        )

    return tuple(decode_balance(document) for document in documents)


def decode_entries(documents: Sequence[JsonObject]) -> list[Entry]:
    """What was asked."""
    from discreet.ledger.charge import Entry

    def decode_entry(document: JsonObject) -> Entry:
        return Entry(
            entry=document["entry"],
            kind=document["kind"],
            at=document["at"],
            snapshot=document["snapshot"],
            analyst=document["analyst"],
            query=document["query"],
            model=document["model"],
            spend=None if document["spend"] is None else _decode_cost(document["spend"]),
            epsilon=_parse_fraction(document["epsilon"]),
            part=None if document["part"] is None else _decode_account(document["part"]),
        )

    return [decode_entry(document) for document in documents]


def _decode_cost(document: JsonObject) -> PrivacyCost:
    from discreet.privacy.cost import PrivacyCost

    epsilon, rho, other, delta = (Fraction(document[name]) for name in ("epsilon", "rho", "other", "delta"))
    return PrivacyCost(epsilon=epsilon, rho=rho, gaussian_rho=other, delta=delta)


def _decode_account(document: JsonObject) -> SubAccount:
    from discreet.privacy.cost import SubAccount

    return SubAccount(kind=document["kind"], name=document["name"], max_accounts=document["reach"])


def decode_verification(document: JsonObject) -> LedgerVerification:
    """A ledger that holds."""
    from discreet.ledger.charge import LedgerVerification

    return LedgerVerification(document["entries"], document["head"])


def decode_estimates(documents: Sequence[JsonObject]) -> tuple[SyntheticEstimate, ...]:
    """What private files would be."""
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
    """Methods compared over k."""
    from discreet.sdc.compare import SweepResult

    points = tuple(map(_decode_sweep_point, document["points"]))
    return SweepResult(
        points, _decode_sweep_point(document["recommended"]), document["limit"], tuple(document["left_out"])
    )


def _decode_sweep_point(document: JsonObject) -> SweepPoint:
    from discreet.sdc.compare import SweepPoint

    return SweepPoint(
        method=document["method"],
        k=document["k"],
        loss=document["loss"],
        risk=document["risk"],
        il1s=document["il1s"],
        linkage=document["linkage"],
        score=document["score"],
        lost=document["lost"],
    )


def _parse_fraction(text: str | None) -> Fraction | None:
    return None if text is None else Fraction(text)


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
