"""Which private file to make, and how good it will be: from the number of rows, domains and epsilon alone."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

from discreet.formatting import format_number
from discreet.guarantee import Guarantee
from discreet.microdata.private.columns import ColumnPlan
from discreet.microdata.private.cumulative import Cumulative
from discreet.microdata.private.loss import Loss
from discreet.planner.impossible import Impossible
from discreet.planner.private_columns import split
from discreet.planner.private_linked import linked_plan
from discreet.planner.private_records import records_plan
from discreet.planner.sharing import rho_within
from discreet.schema import Column
from discreet.spend import Spend

RELATION = "replace-one"
PAIRS = "pairs"
"""What is told of tables of two columns, beside the columns."""
USELESS_PAIRS = 0.35
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
    never: Impossible | None = None,
    pairs: Sequence[tuple[str, str]] = (),
) -> PrivatePlan:
    """The plan of the least expected error: purely, or where a delta is allowed perhaps with Gaussian noise.

    Columns are counted in runs that begin where what is possible changes. Given `pairs` are measured in any case.
    """
    more = More(k, never or Impossible(), tuple(pairs))
    losses = [Loss(epsilon=epsilon)]
    rho = Fraction(0) if delta is None else rho_within(epsilon, delta)
    if rho and delta is not None:
        losses.append(Loss(rho=rho))
    plans = [_plan(columns, rows, method, loss, more) for loss in losses]
    best = min(plans, key=lambda plan: plan.error)
    if not best.loss.pure and delta is not None:
        best = replace(best, guarantee=best.guarantee.approximate(delta))
    return replace(best, warnings=_warnings(best, columns, rows, more))


@dataclass(frozen=True, slots=True)
class More:
    """What was said besides: a k, what is impossible, and pairs to be measured."""

    k: int | None
    never: Impossible
    pairs: tuple[tuple[str, str], ...]


def _plan(columns: Sequence[Column], rows: int, method: str, loss: Loss, more: More) -> PrivatePlan:
    made, errors, ways = PLANS[method](columns, rows, loss, more)
    guarantee = Guarantee.dp(loss.epsilon, RELATION) if loss.pure else Guarantee.zcdp(loss.rho, RELATION)
    return PrivatePlan(method, made, loss, guarantee, errors, ways)


Planned = tuple[Any, Mapping[str, float], Mapping[str, str]]


def _split(columns: Sequence[Column], rows: int, loss: Loss, more: More, k: int | None) -> tuple[ColumnPlan, ...]:
    """The best plan of each column, with runs that begin where what is possible changes."""
    return tuple(_marked(plan, more.never) for plan, _ in split(columns, rows, loss, k))


def _marked(plan: ColumnPlan, never: Impossible) -> ColumnPlan:
    turns = never.turns(plan.grid.column)
    if not turns or not isinstance(plan, Cumulative):
        return plan
    return replace(plan, grid=plan.grid.begun([(turn - plan.grid.lower) // plan.grid.width for turn in turns]))


def _columns(columns: Sequence[Column], rows: int, loss: Loss, more: More) -> Planned:
    made = _split(columns, rows, loss, more, more.k)
    return made, {one.grid.column: one.error for one in made}, {one.grid.column: one.name for one in made}


def _records(columns: Sequence[Column], rows: int, loss: Loss, more: More) -> Planned:
    made = records_plan(columns, rows, loss, more.k)
    made.check_drawn()
    names = [axis.grid.column for axis in made.axes]
    return made, dict(zip(names, made.errors, strict=True)), {"records": made.name}


def _linked(columns: Sequence[Column], rows: int, loss: Loss, more: More) -> Planned:
    made = linked_plan(columns, rows, loss, more.pairs)
    own = _split(columns, rows, made.for_columns, more, None)
    errors = {one.grid.column: one.error for one in own} | {PAIRS: made.error}
    return (made, own), errors, {one.grid.column: one.name for one in own} | {PAIRS: made.name}


def recommended(plans: Sequence[PrivatePlan]) -> str:
    """Which of several methods to choose, in a sentence: linked records where their pairs will tell something."""
    linked = next((plan for plan in plans if plan.method == "private-linked"), None)
    if linked is None:
        return "Choose private-columns: there are no pairs of columns to tell of."
    if linked.errors[PAIRS] < USELESS_PAIRS:
        return "Choose private-linked: tables of two columns will tell something, and single columns nearly as much."
    return "Choose private-columns: so little may be lost that nothing is left to tell how columns belong together."


PLANS: Mapping[str, Callable[[Sequence[Column], int, Loss, More], Planned]] = {
    "private-columns": _columns,
    "private-records": _records,
    "private-linked": _linked,
}


def _warnings(plan: PrivatePlan, columns: Sequence[Column], rows: int, more: More) -> tuple[str, ...]:
    """What was said and does not count, and where hardly more will be told than the domain."""
    return (*_missing(plan, columns), *_unused(plan, more), *_little(plan, columns, rows, more), *_little_linked(plan))


def _unused(plan: PrivatePlan, more: More) -> tuple[str, ...]:
    if plan.method != "private-columns" or more.k is None:
        return ()
    others = [one.grid.column for one in plan.made if one.k is None]
    if not others:
        return ()
    return (f"k is not used for {', '.join(others)}: counts are nearer, or values may be missing.",)


def _little_linked(plan: PrivatePlan) -> tuple[str, ...]:
    error = plan.errors.get(PAIRS, 0.0)
    if error < USELESS_PAIRS:
        return ()
    return (
        f"Tables of two columns will be off by about {format_number(error, 2)} of the rows, perhaps more than if "
        "columns were taken for independent: release fewer columns, or private-columns, or allow a delta.",
    )


def _little(plan: PrivatePlan, columns: Sequence[Column], rows: int, more: More) -> tuple[str, ...]:
    """How many columns so little could carry."""
    lost = [column.name for column in columns if plan.errors.get(column.name, 0.0) > IGNORANT]
    if not lost:
        return ()
    worst = max(lost, key=lambda name: plan.errors[name])
    carried = _carried(plan, columns, rows, more) if len(lost) > 1 else 0
    fewer = f"about {carried} of the {len(columns)} columns could be carried" if carried else "a larger epsilon helps"
    return (
        f"{len(lost)} of {len(columns)} columns will tell hardly more than their domains: the expected error of "
        f"{worst} is about {format_number(plan.errors[worst], 2)} of it; {fewer}.",
    )


def _missing(plan: PrivatePlan, columns: Sequence[Column]) -> tuple[str, ...]:
    names = [column.name for column in columns if column.nullable]
    if plan.method != "private-records" or not names:
        return ()
    listed = ", ".join(names)
    return (f"A row without a value counts as the middle of the domain, and the file has no missing ones: {listed}.",)


def _carried(plan: PrivatePlan, columns: Sequence[Column], rows: int, more: More) -> int:
    """How many columns, the first ones, the same loss tells something of."""
    low, high = 0, len(columns)
    least = 2 if plan.method == "private-linked" else 1
    while high - low > 1:
        middle = (low + high) // 2
        fits = middle >= least and max(_errors(plan, columns[:middle], rows, more)) <= IGNORANT
        low, high = (middle, high) if fits else (low, middle)
    return low


def _errors(plan: PrivatePlan, columns: Sequence[Column], rows: int, more: More) -> list[float]:
    errors = _plan(columns, rows, plan.method, plan.loss, replace(more, pairs=())).errors
    return [errors[column.name] for column in columns]
