"""Plan a DP synthetic file: columns, marginals, and which method to recommend."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from typing import Any

from discreet.errors import InvalidInput, Unsupported
from discreet.formatting import format_number
from discreet.json_fields import JsonSerializable
from discreet.mechanisms.discrete_gaussian import MAX_SIGMA
from discreet.planner.candidates import find_rho
from discreet.planner.public_facts import StructuralZeros
from discreet.privacy.cost import PrivacyCost
from discreet.privacy.guarantee import Guarantee
from discreet.schema import Column
from discreet.synthetic.column_methods import (
    MAX_NAMES,
    CategoryCounts,
    CumulativeCounts,
    NameBlocks,
    RankBlocks,
    choose_block_size,
    order_names,
)
from discreet.synthetic.columns import ColumnGrid, ColumnPlan, PrivacyBudget
from discreet.synthetic.marginals import plan_marginals
from discreet.synthetic.records_plan import plan_records

SHARE_UNITS = 10**6
"""Shares of a budget are whole millionths, so that they add up exactly."""
MAX_RUNS = 2**16
"""More runs of cells are not tried: half a run is then less than a hundred-thousandth of the domain."""
MAX_CHOICES = 2**17
"""Blocks of names times names: every name of every block is scored, in exact numbers."""
RUN_COUNTS = tuple(sorted({round(2 ** (half / 2)) for half in range(2, 33)}))
"""How many runs of cells are tried."""
STEP_FACTOR = 1.25
"""Sizes of blocks, and shares, are tried in steps of this factor."""
BALANCE_ROUNDS = 12
MIN_SHARE_EPSILON, MIN_SHARE_RHO = Fraction(1, 10**100), Fraction(1, 2**56)
"""With less, floats do not hold the error, and Gaussian noise of a level is too wide to be sampled exactly."""
MIN_COLUMN_SHARE = 1e-3
"""No column aims at less than this of an even share, so that none is lost altogether."""


def list_column_plans(column: Column, rows: int, budget: PrivacyBudget, k: int | None = None) -> list[ColumnPlan]:
    """All ways to publish a column that are compared.

    A given k is that of rank blocks, where they are possible; a plan whose own k is None does without it.
    """
    if column.private_keys:
        raise InvalidInput(
            f"{column.name[:40]!r} has no public list of values; a private file needs one, so declare it"
        )
    if rows < 1 or (k is not None and not 1 <= k <= rows):
        raise InvalidInput(f"a private file has at least one row, and blocks of 1 to {max(rows, 1)} rows; change k")
    if budget.epsilon < MIN_SHARE_EPSILON if budget.is_pure else budget.rho < MIN_SHARE_RHO:
        raise Unsupported("so small a share of the loss needs noise too wide to be drawn; ask for a larger epsilon")
    grid = ColumnGrid.of(column)
    if grid.all_cell_count <= 2:
        return [CategoryCounts(grid, rows, budget)]
    if grid.is_ordered:
        return _list_ordered_plans(grid, rows, budget, k)
    return _list_nominal_plans(column, grid, rows, budget, k)


@lru_cache(maxsize=4096)
def select_column_plan(column: Column, rows: int, budget: PrivacyBudget, k: int | None = None) -> ColumnPlan:
    """The plan of the least expected error; of equal ones the first."""
    return min(list_column_plans(column, rows, budget, k), key=lambda plan: plan.error)


def split_budget(
    columns: Sequence[Column], rows: int, budget: PrivacyBudget, k: int | None = None
) -> tuple[tuple[ColumnPlan, Fraction], ...]:
    """The best plan of each column at its share of the budget; shares add up to 1, for the least error sum found."""
    if not columns:
        raise InvalidInput("a private file has at least one column")
    if len(columns) > SHARE_UNITS:
        raise InvalidInput(f"a loss is shared by at most {SHARE_UNITS:,} columns")
    even = [1 / len(columns)] * len(columns)
    allocations = [
        tuple(
            (select_column_plan(column, rows, budget.take_share(share), k), share)
            for column, share in zip(columns, shares, strict=True)
        )
        for shares in (_round_shares(even), _round_shares(_balance_shares(columns, rows, budget, k, even)))
    ]
    return min(allocations, key=lambda allocation: sum(plan.error for plan, _ in allocation))


def _list_ordered_plans(grid: ColumnGrid, rows: int, budget: PrivacyBudget, k: int | None) -> list[ColumnPlan]:
    """Sums of blocks need wider noise than counts: they are left out where it cannot be sampled exactly."""
    is_samplable = budget.is_pure or (grid.cell_count - 1) ** 2 / (2 * budget.rho) <= Fraction(MAX_SIGMA) ** 2
    if grid.has_missing or not is_samplable:
        return [_select_cumulative_plan(grid, rows, budget)]
    if k is not None:
        return [RankBlocks(grid, rows, k, budget)]
    block_plan = RankBlocks(grid, rows, choose_block_size(rows, budget), budget)
    return [_select_cumulative_plan(grid, rows, budget), block_plan]


def _select_cumulative_plan(grid: ColumnGrid, rows: int, budget: PrivacyBudget) -> CumulativeCounts:
    """Ever more runs, as long as that helps; and every cell, or as many runs as are tried at most."""
    max_runs = min(grid.cell_count, MAX_RUNS)
    plans = [CumulativeCounts(grid, rows, max_runs, budget)]
    for run_count in (count for count in RUN_COUNTS if count < max_runs):
        plans.append(CumulativeCounts(grid, rows, run_count, budget))
        if len(plans) > 3 and _rate_plan(plans[-1]) > _rate_plan(plans[-2]) > _rate_plan(plans[-3]):
            break
    return min(plans, key=_rate_plan)


def _rate_plan(plan: CumulativeCounts) -> tuple[float, int]:
    """The expected error; where nothing is promised the fewest counts, as none tells anything."""
    return plan.error if plan.error_bound < 1 else 1.0, plan.run_count


def _list_nominal_plans(
    column: Column, grid: ColumnGrid, rows: int, budget: PrivacyBudget, k: int | None
) -> list[ColumnPlan]:
    plans: list[ColumnPlan] = [CategoryCounts(grid, rows, budget)]
    if len(column.categories) > MAX_NAMES or grid.width > 1:
        return plans
    sizes = {min(rows, round(STEP_FACTOR**power)) for power in range(math.ceil(math.log(rows, STEP_FACTOR)) + 1)}
    few = [size for size in (sorted(sizes) if k is None else [k]) if rows // size * grid.all_cell_count <= MAX_CHOICES]
    blocks = [NameBlocks(grid, rows, size, budget, order_names(column)) for size in few]
    return [*plans, *sorted(blocks, key=lambda plan: (plan.error, -plan.k))[:1]]


def _balance_shares(
    columns: Sequence[Column], rows: int, budget: PrivacyBudget, k: int | None, even: list[float]
) -> list[float]:
    """Shares in proportion to each column's gain where its share grows by a factor: there moving budget helps none."""
    shares = even
    for _ in range(BALANCE_ROUNDS):
        gains = [_estimate_gain(column, rows, budget, k, share) for column, share in zip(columns, shares, strict=True)]
        aims = [max(gain / (sum(gains) or 1), MIN_COLUMN_SHARE / len(columns)) for gain in gains]
        roots = [math.sqrt(aim * share) for aim, share in zip(aims, shares, strict=True)]
        shares = [root / sum(roots) for root in roots]
    return shares


def _estimate_gain(column: Column, rows: int, budget: PrivacyBudget, k: int | None, share: float) -> float:
    """By how much the error falls where the share grows, from a fifth less to a quarter more."""
    factors = 1 / STEP_FACTOR, STEP_FACTOR
    shares = [Fraction(max(1, round(share * factor * SHARE_UNITS)), SHARE_UNITS) for factor in factors]
    low, high = (select_column_plan(column, rows, budget.take_share(part), k).error for part in shares)
    return max(low - high, 0.0)


def _round_shares(shares: Sequence[float]) -> list[Fraction]:
    """In millionths, at least one for each; the largest takes the rest, so that they add up to 1."""
    units = [max(1, math.floor(share * SHARE_UNITS)) for share in shares]
    units[units.index(max(units))] += SHARE_UNITS - sum(units)
    return [Fraction(unit, SHARE_UNITS) for unit in units]


NEIGHBOR_RELATION = "replace-one"
PAIRS_LABEL = "pairs"
"""The key of tables of two columns among the columns."""
MAX_USEFUL_PAIR_ERROR = 0.35
"""From this expected L1 distance of tables of two columns on (2 at most), independent columns may be as near."""
UNINFORMATIVE_ERROR = 0.2
"""An expected error, in widths of the domain or shares of the rows, that knowing the domain alone nearly reaches."""


@dataclass(frozen=True, slots=True)
class SyntheticEstimate(JsonSerializable):
    """What a private file would promise, and for every column its method and expected error.

    `errors` are expected distances between the released and the exact distribution of a column: of numbers in widths of
    the domain, of names the share of rows that would have to change.
    """

    method: str
    guarantee: Guarantee
    errors: Mapping[str, float]
    column_methods: Mapping[str, str]
    warnings: tuple[str, ...] = ()

    _json_fields = "method guarantee made=column_methods expected_error=errors warnings"

    @property
    def error(self) -> float:
        """The mean error over the columns."""
        return sum(self.errors.values()) / len(self.errors)


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class SyntheticPlan(SyntheticEstimate):
    """How a file is made, and what it costs; `method_plan` is the plan of the method's kind."""

    method_plan: Any
    budget: PrivacyBudget

    @property
    def privacy_cost(self) -> PrivacyCost:
        """The cost that the ledger is charged."""
        if self.budget.is_pure:
            return PrivacyCost(self.budget.epsilon, self.budget.epsilon**2 / 2)
        return PrivacyCost(gaussian_rho=self.budget.rho)


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

    Columns are counted in runs that begin where what is possible changes. `pairs` are measured in any case.
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
    """The options of a plan: k, the impossible cells, and pairs to be measured."""

    k: int | None
    structural_zeros: StructuralZeros
    pairs: tuple[tuple[str, str], ...]


def _build_synthetic_plan(
    columns: Sequence[Column], rows: int, method: str, budget: PrivacyBudget, options: SyntheticPlanOptions
) -> SyntheticPlan:
    method_plan, errors, column_methods = METHOD_PLANNERS[method](columns, rows, budget, options)
    if budget.is_pure:
        guarantee = Guarantee.dp(budget.epsilon, NEIGHBOR_RELATION)
    else:
        guarantee = Guarantee.zcdp(budget.rho, NEIGHBOR_RELATION)
    return SyntheticPlan(method, guarantee, errors, column_methods, method_plan=method_plan, budget=budget)


MethodPlan = tuple[Any, Mapping[str, float], Mapping[str, str]]


def _split_columns(
    columns: Sequence[Column], rows: int, budget: PrivacyBudget, options: SyntheticPlanOptions, k: int | None
) -> tuple[ColumnPlan, ...]:
    """The best plan of each column, with runs that begin where what is possible changes."""
    plans: list[ColumnPlan] = []
    for plan, _ in split_budget(columns, rows, budget, k):
        grid, change_points = plan.grid, options.structural_zeros.find_change_points(plan.grid.column)
        if isinstance(plan, CumulativeCounts) and change_points:
            cells = [(change_point - grid.lower) // grid.width for change_point in change_points]
            plans.append(replace(plan, grid=grid.mark_cells(cells)))
        else:
            plans.append(plan)
    return tuple(plans)


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
    """The method to choose, in a sentence: linked records where their pairs will tell something."""
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
    """Options without effect, missing values that get lost, and columns and pairs that are hardly better than none."""
    warnings = []
    nullable = ", ".join(column.name for column in columns if column.is_nullable)
    if plan.method == "private-records" and nullable:
        warnings.append(
            f"A row without a value counts as the middle of the domain, and the file has no missing ones: {nullable}."
        )
    if plan.method == "private-columns" and options.k is not None:
        others = ", ".join(column_plan.grid.column for column_plan in plan.method_plan if column_plan.k is None)
        if others:
            warnings.append(f"k is not used for {others}: counts are nearer, or values may be missing.")
    noisy_columns = [column.name for column in columns if plan.errors.get(column.name, 0.0) > UNINFORMATIVE_ERROR]
    if noisy_columns:
        worst = max(noisy_columns, key=lambda name: plan.errors[name])
        useful_count = _count_useful_columns(plan, columns, rows, options) if len(noisy_columns) > 1 else 0
        advice = "a larger epsilon helps"
        if useful_count:
            advice = f"about {useful_count} of the {len(columns)} columns could be carried"
        warnings.append(
            f"{len(noisy_columns)} of {len(columns)} columns will tell hardly more than their domains: the expected "
            f"error of {worst} is about {format_number(plan.errors[worst], 2)} of it; {advice}."
        )
    pair_error = plan.errors.get(PAIRS_LABEL, 0.0)
    if pair_error >= MAX_USEFUL_PAIR_ERROR:
        warnings.append(
            f"Tables of two columns will be off by about {format_number(pair_error, 2)} of the rows, perhaps more than "
            "if columns were taken for independent: release fewer columns, or private-columns, or allow a delta."
        )
    return tuple(warnings)


def _count_useful_columns(
    plan: SyntheticPlan, columns: Sequence[Column], rows: int, options: SyntheticPlanOptions
) -> int:
    """How many columns, the first ones, have a useful error at the same budget."""
    low, high = 0, len(columns)
    min_columns = 2 if plan.method == "private-linked" else 1
    options = replace(options, pairs=())
    while high - low > 1:
        middle = (low + high) // 2
        fits = middle >= min_columns
        if fits:
            errors = _build_synthetic_plan(columns[:middle], rows, plan.method, plan.budget, options).errors
            fits = max(errors[column.name] for column in columns[:middle]) <= UNINFORMATIVE_ERROR
        low, high = (middle, high) if fits else (low, middle)
    return low
