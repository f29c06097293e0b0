"""From the documents of a service to the values that the library has: what `to_json` and its like have written."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, TypeVar

from discreet.client.problem import UNREADABLE
from discreet.errors import Unavailable
from discreet.guarantee import Guarantee

if TYPE_CHECKING:
    from discreet.assess.sweep import Sweep
    from discreet.custodian.previewing import Preview
    from discreet.ledger.charge import Balance, Entry, Verified

Told = Mapping[str, Any]
Made = TypeVar("Made")


@dataclass(frozen=True, slots=True)
class Expected:
    """What a private file would promise and how far off it would be, as it is told of a plan."""

    method: str
    guarantee: Guarantee
    errors: Mapping[str, float]
    ways: Mapping[str, str]
    warnings: tuple[str, ...] = ()

    @property
    def error(self) -> float:
        """The mean over the columns."""
        return sum(self.errors.values()) / len(self.errors)


def read(make: Callable[[Any], Made], document: object) -> Made:
    """A value from a document; whatever is not as it should be is told as one thing."""
    try:
        return make(document)
    except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError):
        raise Unavailable(f"the service {UNREADABLE}") from None


def guarantee_from(told: Told) -> Guarantee:
    """One promise."""
    return Guarantee(
        model=told["model"],
        neighbours=told.get("neighbours"),
        epsilon=_exact(told.get("epsilon")),
        delta=_exact(told.get("delta")),
        rho=_exact(told.get("rho")),
        also=_exact(told.get("also_epsilon")),
        k=told.get("k"),
        t=_exact(told.get("t")),
        distance=told.get("distance"),
        unit=str(told["unit"]),
        assumptions=tuple(map(str, told["assumptions"])),
    )


def preview_from(told: Told) -> Preview:
    """What a question would cost and be good for."""
    from discreet.custodian.accuracy import AccuracyForRows
    from discreet.custodian.previewing import Preview
    from discreet.planner.compared import ComparedWithDp
    from discreet.planner.plan import Candidate

    compared = told.get("compared_with_dp")
    candidates = [
        Candidate(one["aggregate"], one["mechanism"], guarantee_from(one["cost"]), one["expected_error"], one["chosen"])
        for one in told["candidates"]
    ]
    return Preview(
        question=told["question"],
        mechanism=told["mechanism"],
        cost=guarantee_from(told["cost"]),
        expected_error=told["expected_error"],
        candidates=tuple(candidates),
        accuracy=told["accuracy"],
        guarantee=guarantee_from(told["guarantee"]),
        reason=told["reason"],
        stored=_exact(told["stored_epsilon"]),
        reuse=told.get("reuse", ""),
        warnings=tuple(told["warnings"]),
        prior_error=told["prior_error"],
        pictured=told["pictured"],
        error_of=told["error_of"],
        prior_use=told.get("prior_use", ""),
        balances=balances_from(told["budget"]),
        times=told["times"],
        accuracy_by_rows=tuple(AccuracyForRows(**one) for one in told.get("accuracy_by_rows", ())),
        compared_with_dp=None if compared is None else ComparedWithDp(**compared),
    )


def balances_from(told: Sequence[Told]) -> tuple[Balance, ...]:
    """What is spent and left, of the data set and of analysts."""
    from discreet.ledger.charge import Balance
    from discreet.schema import Budget

    def balance(one: Told) -> Balance:
        spent, cap = one["spent"], Budget(**{name: Fraction(value) for name, value in one["cap"].items()})
        flags = tuple(map(str, one["flags"]))
        exact = _exact(spent["epsilon"]), Fraction(spent["delta"])
        return Balance(one["model"], one["analyst"], *exact, cap, Fraction(one["left"]), flags, one["promise"])

    return tuple(balance(one) for one in told)


def entries_from(told: Sequence[Told]) -> list[Entry]:
    """What was asked."""
    from discreet.ledger.charge import Entry
    from discreet.spend import Part, Spend

    def entry(one: Told) -> Entry:
        spend, part = one["spend"], one["part"]
        return Entry(
            **{name: one[name] for name in ("entry", "kind", "at", "snapshot", "analyst", "query", "model")},
            spend=None if spend is None else Spend(**{name: Fraction(amount) for name, amount in spend.items()}),
            epsilon=_exact(one["epsilon"]),
            part=None if part is None else Part(**part),
        )

    return [entry(one) for one in told]


def verified_from(told: Told) -> Verified:
    """A ledger that holds."""
    from discreet.ledger.charge import Verified

    return Verified(told["entries"], told["head"])


def expected_from(told: Sequence[Told]) -> tuple[Expected, ...]:
    """What private files would be."""
    return tuple(
        Expected(
            one["method"],
            guarantee_from(one["guarantee"]),
            dict(one["expected_error"]),
            dict(one["made"]),
            tuple(one["warnings"]),
        )
        for one in told
    )


def sweep_from(told: Told) -> Sweep:
    """Methods compared over k."""
    from discreet.assess.sweep import Point, Sweep

    points = tuple(Point(**one) for one in told["points"])
    return Sweep(points, Point(**told["recommended"]), told["limit"], tuple(told["left_out"]))


def _exact(text: str | None) -> Fraction | None:
    return None if text is None else Fraction(text)
