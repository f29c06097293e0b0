"""Which private file to make, and how good it will be: from the number of rows, domains and epsilon alone."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

from discreet.guarantee import Guarantee
from discreet.microdata.private.loss import Loss
from discreet.planner.private_columns import split
from discreet.planner.private_linked import linked_plan
from discreet.planner.private_records import records_plan
from discreet.planner.sharing import rho_within
from discreet.schema import Column
from discreet.spend import Spend

RELATION = "replace-one"
PAIRS = "pairs"
"""What is told of tables of two columns, beside the columns."""
USELESS_PAIRS = 0.5
"""The expected L1 distance of tables of two columns, of at most 2, from which on independent columns may be as near."""
IGNORANT = 0.2
"""An expected error, in widths of the domain or shares of the rows, that knowing the domain alone nearly reaches."""


@dataclass(frozen=True, slots=True, eq=False)
class PrivatePlan:
    """How a file is made, what it costs, and for every column how far off it will be and in which way it is told.

    `errors` are expected distances between the released and the exact distribution of a column: of numbers in widths of
    the domain, of names the share of rows that would have to change. `made` is the plan of its kind.
    """

    method: str
    made: Any
    loss: Loss
    guarantee: Guarantee
    errors: Mapping[str, float]
    ways: Mapping[str, str]
    warnings: tuple[str, ...] = ()

    @property
    def spend(self) -> Spend:
        """What the ledger is charged."""
        epsilon = self.loss.epsilon
        return Spend(epsilon, epsilon**2 / 2) if self.loss.pure else Spend(other=self.loss.rho)

    @property
    def error(self) -> float:
        """The mean over the columns."""
        return sum(self.errors.values()) / len(self.errors)

    def to_json(self) -> dict[str, object]:
        """Machine-readable."""
        told: dict[str, object] = {
            "method": self.method,
            "guarantee": self.guarantee.to_json(),
            "made": dict(self.ways),
        }
        return told | {"expected_error": dict(self.errors), "warnings": list(self.warnings)}


def private_plan(
    columns: Sequence[Column],
    rows: int,
    method: str,
    epsilon: Fraction,
    delta: Fraction | None = None,
    k: int | None = None,
) -> PrivatePlan:
    """The plan of the least expected error: purely, or where a delta is allowed perhaps with Gaussian noise."""
    losses = [Loss(epsilon=epsilon)]
    rho = Fraction(0) if delta is None else rho_within(epsilon, delta)
    if rho and delta is not None:
        losses.append(Loss(rho=rho))
    plans = [_plan(columns, rows, method, loss, k) for loss in losses]
    best = min(plans, key=lambda plan: plan.error)
    if not best.loss.pure and delta is not None:
        best = replace(best, guarantee=best.guarantee.approximate(delta))
    return replace(best, warnings=_warnings(best, columns, rows, k))


def _plan(columns: Sequence[Column], rows: int, method: str, loss: Loss, k: int | None) -> PrivatePlan:
    made, errors, ways = PLANS[method](columns, rows, loss, k)
    guarantee = Guarantee.dp(loss.epsilon, RELATION) if loss.pure else Guarantee.zcdp(loss.rho, RELATION)
    return PrivatePlan(method, made, loss, guarantee, errors, ways)


Planned = tuple[Any, Mapping[str, float], Mapping[str, str]]


def _columns(columns: Sequence[Column], rows: int, loss: Loss, k: int | None) -> Planned:
    made = tuple(plan for plan, _ in split(columns, rows, loss, k))
    return made, {one.grid.column: one.error for one in made}, {one.grid.column: one.name for one in made}


def _records(columns: Sequence[Column], rows: int, loss: Loss, k: int | None) -> Planned:
    made = records_plan(columns, rows, loss, k)
    names = [axis.grid.column for axis in made.axes]
    return made, dict(zip(names, made.errors, strict=True)), {"records": made.name}


def _linked(columns: Sequence[Column], rows: int, loss: Loss, _: int | None) -> Planned:
    made = linked_plan(columns, rows, loss)
    own = tuple(plan for plan, _ in split(columns, rows, made.for_columns))
    errors = {one.grid.column: one.error for one in own} | {PAIRS: made.error}
    return (made, own), errors, {one.grid.column: one.name for one in own} | {PAIRS: made.name}


def recommended(plans: Sequence[PrivatePlan]) -> str:
    """Which of several methods to choose, in a sentence: linked records where their pairs will tell something."""
    linked = next((plan for plan in plans if plan.method == "private-linked"), None)
    if linked is not None and linked.errors[PAIRS] < USELESS_PAIRS:
        return "Choose private-linked: tables of two columns will tell something, and single columns nearly as much."
    return "Choose private-columns: so little may be lost that nothing is left to tell how columns belong together."


PLANS: Mapping[str, Callable[[Sequence[Column], int, Loss, int | None], Planned]] = {
    "private-columns": _columns,
    "private-records": _records,
    "private-linked": _linked,
}


def _warnings(plan: PrivatePlan, columns: Sequence[Column], rows: int, k: int | None) -> tuple[str, ...]:
    """Where hardly more will be told than the domain, and how many columns so much could carry."""
    said = _missing(plan, columns)
    lost = [column.name for column in columns if plan.errors.get(column.name, 0.0) > IGNORANT]
    if not lost:
        return said
    worst = max(lost, key=lambda name: plan.errors[name])
    carried = _carried(plan, columns, rows, k) if len(lost) > 1 else 0
    fewer = f" about {carried} of the {len(columns)} columns could be carried" if carried else " a larger epsilon helps"
    return (
        *said,
        f"{len(lost)} of {len(columns)} columns will tell hardly more than their domains: the expected error of "
        f"{worst} is {plan.errors[worst]:.2g} of it;{fewer}.",
    )


def _missing(plan: PrivatePlan, columns: Sequence[Column]) -> tuple[str, ...]:
    names = [column.name for column in columns if column.nullable]
    if plan.method != "private-records" or not names:
        return ()
    listed = ", ".join(names)
    return (f"A row without a value counts as the middle of the domain, and the file has no missing ones: {listed}.",)


def _carried(plan: PrivatePlan, columns: Sequence[Column], rows: int, k: int | None) -> int:
    """How many columns, the first ones, the same loss tells something of."""
    low, high = 0, len(columns)
    least = 2 if plan.method == "private-linked" else 1
    while high - low > 1:
        middle = (low + high) // 2
        fits = middle >= least and max(_errors(plan, columns[:middle], rows, k)) <= IGNORANT
        low, high = (middle, high) if fits else (low, middle)
    return low


def _errors(plan: PrivatePlan, columns: Sequence[Column], rows: int, k: int | None) -> list[float]:
    errors = _plan(columns, rows, plan.method, plan.loss, k).errors
    return [errors[column.name] for column in columns]
