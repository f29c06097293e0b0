"""Which private file to make, and how good it will be: from the number of rows, domains and epsilon alone."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

from discreet.formatting import format_number
from discreet.guarantee import Guarantee
from discreet.microdata.private.columns import ColumnPlan
from discreet.microdata.private.cumulative import CumulativeCounts
from discreet.microdata.private.loss import PrivacyBudget
from discreet.planner.impossible import StructuralZeros
from discreet.planner.private_columns import split_budget
from discreet.planner.private_linked import plan_marginals
from discreet.planner.private_records import plan_records
from discreet.planner.sharing import find_rho
from discreet.schema import Column
from discreet.spend import PrivacyCost

NEIGHBOR_RELATION = "replace-one"
PAIRS_LABEL = "pairs"
"""What is told of tables of two columns, beside the columns."""
MAX_USEFUL_PAIR_ERROR = 0.35
"""The expected L1 distance of tables of two columns, of at most 2, from which on independent columns may be as near."""
UNINFORMATIVE_ERROR = 0.2
"""An expected error, in widths of the domain or shares of the rows, that knowing the domain alone nearly reaches."""


@dataclass(frozen=True, slots=True, eq=False)
class SyntheticPlan:
    """How a file is made, what it costs, and for every column how far off it will be and in which way it is told.

    `errors` are expected distances between the released and the exact distribution of a column: of numbers in widths of
    the domain, of names the share of rows that would have to change. `made` is the plan of its kind.
    """

    method: str
    method_plan: Any
    budget: PrivacyBudget
    guarantee: Guarantee
    errors: Mapping[str, float]
    column_methods: Mapping[str, str]
    warnings: tuple[str, ...] = ()

    @property
    def privacy_cost(self) -> PrivacyCost:
        """What the ledger is charged."""
        epsilon = self.budget.epsilon
        return (
            PrivacyCost(epsilon, epsilon**2 / 2) if self.budget.is_pure else PrivacyCost(gaussian_rho=self.budget.rho)
        )

    @property
    def error(self) -> float:
        """The mean over the columns."""
        return sum(self.errors.values()) / len(self.errors)

    def to_json(self) -> dict[str, object]:
        """Machine-readable."""
        payload: dict[str, object] = {
            "method": self.method,
            "guarantee": self.guarantee.to_json(),
            "made": dict(self.column_methods),
        }
        return payload | {"expected_error": dict(self.errors), "warnings": list(self.warnings)}


def plan_synthetic_file(
    columns: Sequence[Column],
    rows: int,
    method: str,
    epsilon: Fraction,
    delta: Fraction | None = None,
    k: int | None = None,
    structural_zeros: StructuralZeros | None = None,
    pairs: Sequence[tuple[str, str]] = (),
) -> SyntheticPlan:
    """The plan of the least expected error: purely, or where a delta is allowed perhaps with Gaussian noise.

    Columns are counted in runs that begin where what is possible changes. Given `pairs` are measured in any case.
    """
    options = SyntheticPlanOptions(k, structural_zeros or StructuralZeros(), tuple(pairs))
    budgets = [PrivacyBudget(epsilon=epsilon)]
    rho = Fraction(0) if delta is None else find_rho(epsilon, delta)
    if rho and delta is not None:
        budgets.append(PrivacyBudget(rho=rho))
    plans = [_build_synthetic_plan(columns, rows, method, budget, options) for budget in budgets]
    best = min(plans, key=lambda plan: plan.error)
    if not best.budget.is_pure and delta is not None:
        best = replace(best, guarantee=best.guarantee.approximate(delta))
    return replace(best, warnings=_list_warnings(best, columns, rows, options))


@dataclass(frozen=True, slots=True)
class SyntheticPlanOptions:
    """What was said besides: a k, what is impossible, and pairs to be measured."""

    k: int | None
    structural_zeros: StructuralZeros
    pairs: tuple[tuple[str, str], ...]


def _build_synthetic_plan(
    columns: Sequence[Column], rows: int, method: str, budget: PrivacyBudget, options: SyntheticPlanOptions
) -> SyntheticPlan:
    method_plan, errors, column_methods = METHOD_PLANNERS[method](columns, rows, budget, options)
    guarantee = (
        Guarantee.dp(budget.epsilon, NEIGHBOR_RELATION)
        if budget.is_pure
        else Guarantee.zcdp(budget.rho, NEIGHBOR_RELATION)
    )
    return SyntheticPlan(method, method_plan, budget, guarantee, errors, column_methods)


MethodPlan = tuple[Any, Mapping[str, float], Mapping[str, str]]


def _split_columns(
    columns: Sequence[Column], rows: int, budget: PrivacyBudget, options: SyntheticPlanOptions, k: int | None
) -> tuple[ColumnPlan, ...]:
    """The best plan of each column, with runs that begin where what is possible changes."""
    return tuple(
        _mark_change_points(plan, options.structural_zeros) for plan, _ in split_budget(columns, rows, budget, k)
    )


def _mark_change_points(plan: ColumnPlan, structural_zeros: StructuralZeros) -> ColumnPlan:
    change_points = structural_zeros.find_change_points(plan.grid.column)
    if not change_points or not isinstance(plan, CumulativeCounts):
        return plan
    return replace(
        plan,
        grid=plan.grid.mark_cells(
            [(change_point - plan.grid.lower) // plan.grid.width for change_point in change_points]
        ),
    )


def _plan_columns(
    columns: Sequence[Column], rows: int, budget: PrivacyBudget, options: SyntheticPlanOptions
) -> MethodPlan:
    plans = _split_columns(columns, rows, budget, options, options.k)
    return plans, {plan.grid.column: plan.error for plan in plans}, {plan.grid.column: plan.name for plan in plans}


def _plan_record_blocks(
    columns: Sequence[Column], rows: int, budget: PrivacyBudget, options: SyntheticPlanOptions
) -> MethodPlan:
    layout = plan_records(columns, rows, budget, options.k)
    layout.check_noise()
    names = [axis.grid.column for axis in layout.axes]
    return layout, dict(zip(names, layout.errors, strict=True)), {"records": layout.name}


def _plan_linked_columns(
    columns: Sequence[Column], rows: int, budget: PrivacyBudget, options: SyntheticPlanOptions
) -> MethodPlan:
    marginals = plan_marginals(columns, rows, budget, options.pairs)
    plans = _split_columns(columns, rows, marginals.columns_budget, options, None)
    errors = {plan.grid.column: plan.error for plan in plans} | {PAIRS_LABEL: marginals.error}
    return (marginals, plans), errors, {plan.grid.column: plan.name for plan in plans} | {PAIRS_LABEL: marginals.name}


def recommend_method(plans: Sequence[SyntheticPlan]) -> str:
    """Which of several methods to choose, in a sentence: linked records where their pairs will tell something."""
    marginals_plan = next((plan for plan in plans if plan.method == "private-linked"), None)
    if marginals_plan is None:
        return "Choose private-columns: there are no pairs of columns to tell of."
    if marginals_plan.errors[PAIRS_LABEL] < MAX_USEFUL_PAIR_ERROR:
        return "Choose private-linked: tables of two columns will tell something, and single columns nearly as much."
    return "Choose private-columns: so little may be lost that nothing is left to tell how columns belong together."


METHOD_PLANNERS: Mapping[str, Callable[[Sequence[Column], int, PrivacyBudget, SyntheticPlanOptions], MethodPlan]] = {
    "private-columns": _plan_columns,
    "private-records": _plan_record_blocks,
    "private-linked": _plan_linked_columns,
}


def _list_warnings(
    plan: SyntheticPlan, columns: Sequence[Column], rows: int, options: SyntheticPlanOptions
) -> tuple[str, ...]:
    """What was said and does not count, and where hardly more will be told than the domain."""
    return (
        *_warn_missing_values(plan, columns),
        *_warn_unused_k(plan, options),
        *_warn_noisy_columns(plan, columns, rows, options),
        *_warn_noisy_pairs(plan),
    )


def _warn_unused_k(plan: SyntheticPlan, options: SyntheticPlanOptions) -> tuple[str, ...]:
    if plan.method != "private-columns" or options.k is None:
        return ()
    others = [column_plan.grid.column for column_plan in plan.method_plan if column_plan.k is None]
    if not others:
        return ()
    return (f"k is not used for {', '.join(others)}: counts are nearer, or values may be missing.",)


def _warn_noisy_pairs(plan: SyntheticPlan) -> tuple[str, ...]:
    error = plan.errors.get(PAIRS_LABEL, 0.0)
    if error < MAX_USEFUL_PAIR_ERROR:
        return ()
    return (
        f"Tables of two columns will be off by about {format_number(error, 2)} of the rows, perhaps more than if "
        "columns were taken for independent: release fewer columns, or private-columns, or allow a delta.",
    )


def _warn_noisy_columns(
    plan: SyntheticPlan, columns: Sequence[Column], rows: int, options: SyntheticPlanOptions
) -> tuple[str, ...]:
    """How many columns so little could carry."""
    noisy_columns = [column.name for column in columns if plan.errors.get(column.name, 0.0) > UNINFORMATIVE_ERROR]
    if not noisy_columns:
        return ()
    worst = max(noisy_columns, key=lambda name: plan.errors[name])
    useful_count = _count_useful_columns(plan, columns, rows, options) if len(noisy_columns) > 1 else 0
    advice = (
        f"about {useful_count} of the {len(columns)} columns could be carried"
        if useful_count
        else "a larger epsilon helps"
    )
    return (
        f"{len(noisy_columns)} of {len(columns)} columns will tell hardly more than their domains: the expected "
        "error of "
        f"{worst} is about {format_number(plan.errors[worst], 2)} of it; {advice}.",
    )


def _warn_missing_values(plan: SyntheticPlan, columns: Sequence[Column]) -> tuple[str, ...]:
    names = [column.name for column in columns if column.is_nullable]
    if plan.method != "private-records" or not names:
        return ()
    listed = ", ".join(names)
    return (f"A row without a value counts as the middle of the domain, and the file has no missing ones: {listed}.",)


def _count_useful_columns(
    plan: SyntheticPlan, columns: Sequence[Column], rows: int, options: SyntheticPlanOptions
) -> int:
    """How many columns, the first ones, the same loss tells something of."""
    low, high = 0, len(columns)
    min_columns = 2 if plan.method == "private-linked" else 1
    while high - low > 1:
        middle = (low + high) // 2
        fits = (
            middle >= min_columns
            and max(_estimate_errors(plan, columns[:middle], rows, options)) <= UNINFORMATIVE_ERROR
        )
        low, high = (middle, high) if fits else (low, middle)
    return low


def _estimate_errors(
    plan: SyntheticPlan, columns: Sequence[Column], rows: int, options: SyntheticPlanOptions
) -> list[float]:
    errors = _build_synthetic_plan(columns, rows, plan.method, plan.budget, replace(options, pairs=())).errors
    return [errors[column.name] for column in columns]
