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
    from discreet.assess.sweep import Point, Sweep
    from discreet.custodian.previewing import Preview
    from discreet.ledger.charge import Balance, Entry, Verified
    from discreet.planner.compared import ComparedWithDp
    from discreet.spend import Part, Spend

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
        accuracy_by_rows=tuple(
            AccuracyForRows(name=one["name"], rows=one["rows"], within=one["within"])
            for one in told.get("accuracy_by_rows", ())
        ),
        compared_with_dp=None if compared is None else _compared(compared),
    )


def _compared(told: Told) -> ComparedWithDp:
    from discreet.planner.compared import ComparedWithDp

    return ComparedWithDp(
        mechanism=told["mechanism"],
        accuracy=told["accuracy"],
        expected_error=told["expected_error"],
        own_error=told["own_error"],
        prefer=told["prefer"],
        words=told["words"],
    )


def balances_from(told: Sequence[Told]) -> tuple[Balance, ...]:
    """What is spent and left, of the data set and of analysts."""
    from discreet.ledger.charge import Balance
    from discreet.schema import Budget

    def balance(one: Told) -> Balance:
        spent, told_cap = one["spent"], one["cap"]
        highest = _exact(told_cap.get("max_epsilon"))
        cap = Budget(epsilon=Fraction(told_cap["epsilon"]), delta=Fraction(told_cap["delta"]), max_epsilon=highest)
        flags = tuple(map(str, one["flags"]))
        exact = _exact(spent["epsilon"]), Fraction(spent["delta"])
        return Balance(one["model"], one["analyst"], *exact, cap, Fraction(one["left"]), flags, one["promise"])

    return tuple(balance(one) for one in told)


def entries_from(told: Sequence[Told]) -> list[Entry]:
    """What was asked."""
    from discreet.ledger.charge import Entry

    def entry(one: Told) -> Entry:
        return Entry(
            entry=one["entry"],
            kind=one["kind"],
            at=one["at"],
            snapshot=one["snapshot"],
            analyst=one["analyst"],
            query=one["query"],
            model=one["model"],
            spend=None if one["spend"] is None else _spend(one["spend"]),
            epsilon=_exact(one["epsilon"]),
            part=None if one["part"] is None else _part(one["part"]),
        )

    return [entry(one) for one in told]


def _spend(told: Told) -> Spend:
    from discreet.spend import Spend

    epsilon, rho, other, delta = (Fraction(told[name]) for name in ("epsilon", "rho", "other", "delta"))
    return Spend(epsilon=epsilon, rho=rho, other=other, delta=delta)


def _part(told: Told) -> Part:
    from discreet.spend import Part

    return Part(kind=told["kind"], name=told["name"], reach=told["reach"])


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
    from discreet.assess.sweep import Sweep

    points = tuple(map(_point, told["points"]))
    return Sweep(points, _point(told["recommended"]), told["limit"], tuple(told["left_out"]))


def _point(told: Told) -> Point:
    from discreet.assess.sweep import Point

    return Point(
        method=told["method"],
        k=told["k"],
        loss=told["loss"],
        risk=told["risk"],
        il1s=told["il1s"],
        linkage=told["linkage"],
        score=told["score"],
        lost=told["lost"],
    )


def _exact(text: str | None) -> Fraction | None:
    return None if text is None else Fraction(text)
