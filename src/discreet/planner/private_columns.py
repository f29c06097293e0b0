"""How each column of a private file is published, and its share of the loss: from public facts alone."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from functools import lru_cache

from discreet.errors import InvalidInput, Unsupported
from discreet.kernel.discrete_gaussian import MAX_SIGMA
from discreet.microdata.private.blocks import RankBlocks, choose_block_size
from discreet.microdata.private.categories import CategoryCounts
from discreet.microdata.private.columns import ColumnPlan
from discreet.microdata.private.cumulative import CumulativeCounts
from discreet.microdata.private.grid import ColumnGrid
from discreet.microdata.private.loss import PrivacyBudget
from discreet.microdata.private.ordered import MAX_NAMES, NameBlocks, order_names
from discreet.schema import Column

SHARE_STEPS = 10**6
"""Shares are told in millionths, so that they add up exactly."""
MAX_RUNS = 2**16
"""Finer counts of a column are not weighed: half a run is then less than a hundred-thousandth of the domain."""
MAX_CHOICES = 2**17
"""Blocks of names times names: every name of every block is weighed, in exact numbers."""
RUN_COUNTS = tuple(sorted({round(2 ** (half / 2)) for half in range(2, 33)}))
"""How many runs of cells are tried."""
STEP_FACTOR = 1.25
"""Sizes of blocks, and shares, are tried in steps of this factor."""
BALANCE_ROUNDS = 12
MIN_SHARE_EPSILON, MIN_SHARE_RHO = Fraction(1, 10**100), Fraction(1, 2**56)
"""With less, floats do not hold the error, and Gaussian noise of a level is too wide to be drawn exactly."""
MIN_COLUMN_SHARE = 1e-3
"""No column aims at less than this of an even share, so that none is lost altogether."""


def list_column_plans(column: Column, rows: int, budget: PrivacyBudget, k: int | None = None) -> list[ColumnPlan]:
    """All ways to publish a column that are weighed.

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
    return (
        _list_ordered_plans(grid, rows, budget, k)
        if grid.is_ordered
        else _list_nominal_plans(column, grid, rows, budget, k)
    )


@lru_cache(maxsize=4096)
def select_column_plan(column: Column, rows: int, budget: PrivacyBudget, k: int | None = None) -> ColumnPlan:
    """The plan of the least expected error; of equal ones the first."""
    return min(list_column_plans(column, rows, budget, k), key=lambda plan: plan.error)


def split_budget(
    columns: Sequence[Column], rows: int, budget: PrivacyBudget, k: int | None = None
) -> tuple[tuple[ColumnPlan, Fraction], ...]:
    """The best plan of each column at its share of the loss; shares add up to 1, for the least sum of errors found."""
    if not columns:
        raise InvalidInput("a private file has at least one column")
    if len(columns) > SHARE_STEPS:
        raise InvalidInput(f"a loss is shared by at most {SHARE_STEPS:,} columns")
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
    """Sums of blocks need wider noise than counts: they are left out where it cannot be drawn exactly."""
    is_samplable = budget.is_pure or (grid.cell_count - 1) ** 2 / (2 * budget.rho) <= Fraction(MAX_SIGMA) ** 2
    if grid.has_missing or not is_samplable:
        return [_select_cumulative_plan(grid, rows, budget)]
    if k is not None:
        return [RankBlocks(grid, rows, k, budget)]
    return [
        _select_cumulative_plan(grid, rows, budget),
        RankBlocks(grid, rows, choose_block_size(rows, budget), budget),
    ]


def _select_cumulative_plan(grid: ColumnGrid, rows: int, budget: PrivacyBudget) -> CumulativeCounts:
    """Ever more runs, as long as that helps; and every cell, or as many runs as are weighed."""
    plans = [CumulativeCounts(grid, rows, min(grid.cell_count, MAX_RUNS), budget)]
    for measured in RUN_COUNTS:
        if measured >= min(grid.cell_count, MAX_RUNS):
            break
        plans.append(CumulativeCounts(grid, rows, measured, budget))
        if len(plans) > 3 and _rate_plan(plans[-1]) > _rate_plan(plans[-2]) > _rate_plan(plans[-3]):
            break
    return min(plans, key=_rate_plan)


def _rate_plan(plan: CumulativeCounts) -> tuple[float, int]:
    """What is expected; where nothing is promised the fewest counts, as none tells anything."""
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
    """Shares in proportion to what each column gains if its share grows by a factor: there moving loss helps none."""
    shares = even
    for _ in range(BALANCE_ROUNDS):
        gains = [_estimate_gain(column, rows, budget, k, share) for column, share in zip(columns, shares, strict=True)]
        aims = [max(gain / (sum(gains) or 1), MIN_COLUMN_SHARE / len(columns)) for gain in gains]
        roots = [math.sqrt(aim * share) for aim, share in zip(aims, shares, strict=True)]
        shares = [root / sum(roots) for root in roots]
    return shares


def _estimate_gain(column: Column, rows: int, budget: PrivacyBudget, k: int | None, share: float) -> float:
    """By how much the error falls where the share grows, from a fifth less to a quarter more."""
    parts = [
        Fraction(max(1, round(share * factor * SHARE_STEPS)), SHARE_STEPS) for factor in (1 / STEP_FACTOR, STEP_FACTOR)
    ]
    low_share_error, high_share_error = (
        select_column_plan(column, rows, budget.take_share(part), k).error for part in parts
    )
    return max(low_share_error - high_share_error, 0.0)


def _round_shares(shares: Sequence[float]) -> list[Fraction]:
    """In millionths, at least one for each; the largest takes the rest, so that they add up to 1."""
    units = [max(1, math.floor(share * SHARE_STEPS)) for share in shares]
    units[units.index(max(units))] += SHARE_STEPS - sum(units)
    return [Fraction(unit, SHARE_STEPS) for unit in units]
