"""How linked records are made, from public facts alone: pairs, bins, and what each part may lose."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import combinations

from discreet.errors import InvalidInput
from discreet.inference.linked import Pair
from discreet.microdata.private.grid import ColumnGrid
from discreet.microdata.private.linked import MarginalsPlan, build_table_noises
from discreet.microdata.private.loss import PrivacyBudget
from discreet.schema import Column

BIN_COUNTS = (2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64)
COLUMN_BUDGET_SHARE = Fraction(3, 10)
SELECTION_BUDGET_SHARE = Fraction(1, 10)
FITTED_NOISE_SHARE = 0.4
"""Of little noise in a table, in L1 over the rows, fitting leaves about so much."""
MAX_PAIR_ERROR, MAX_COLUMN_ERROR = 1.0, 1.6
"""And of much: columns that are taken for independent, or that have nothing to do with the exact ones."""
OMITTED_TABLE_ERROR = 0.08
"""How far a table is that the tree does not hold, about: the same is assumed of every file."""
COARSE_BIN_ERROR = 0.5
"""How far a table is whose columns are in few bins, about, over the number of bins."""


def plan_marginals(
    columns: Sequence[Column], rows: int, budget: PrivacyBudget, required_pairs: Sequence[tuple[str, str]] = ()
) -> MarginalsPlan:
    """The plan with the least expected error over all two-way tables: all pairs or a tree, in few bins or many.

    Given pairs are measured whatever is chosen besides.
    """
    if len(columns) < 2:
        raise InvalidInput("linked records have at least two columns; publish one with private-columns")
    grids = tuple(ColumnGrid.of(column) for column in columns)
    pairs = _locate_pairs([column.name for column in columns], required_pairs)
    measuring_budget = budget.take_share(1 - COLUMN_BUDGET_SHARE)
    all_pair_plans = [
        MarginalsPlan(rows, grids, max_bins, budget.take_share(COLUMN_BUDGET_SHARE), measuring_budget, None, pairs)
        for max_bins in BIN_COUNTS
    ]
    tree_plans = [
        replace(
            plan,
            measuring_budget=budget.take_share(1 - COLUMN_BUDGET_SHARE - SELECTION_BUDGET_SHARE),
            choosing_budget=budget.take_share(SELECTION_BUDGET_SHARE),
        )
        for plan in all_pair_plans
    ]
    rated_plans = [
        replace(plan, error=estimate_table_error(plan))
        for plan in [*all_pair_plans, *(tree_plans if len(columns) > 2 else ())]
    ]
    best: MarginalsPlan = min(rated_plans, key=lambda plan: plan.error)
    return best


def estimate_table_error(plan: MarginalsPlan) -> float:
    """The mean L1 distance of two-way tables, in shares of the rows, that is to be expected of a plan."""
    sides = [min(grid.all_cell_count, plan.max_bins) for grid in plan.grids]
    sizes = [side * other_side for side, other_side in combinations(sides, 2)]
    if plan.choosing_budget is not None:
        sizes = [round(sum(sizes) / len(sizes))] * max(len(sides) - 1, len(plan.required_pairs))
    noise = sum(_compute_table_noise(sizes, plan.measuring_budget)) / len(sizes) / plan.rows
    # A table has the noise of its two columns besides.
    column_noise = sum(_compute_table_noise(sides, plan.columns_budget)) * 2 / len(sides) / plan.rows
    coarse = (
        sum(COARSE_BIN_ERROR / plan.max_bins for grid in plan.grids if grid.all_cell_count > plan.max_bins)
        * 2
        / len(sides)
    )
    left_out = OMITTED_TABLE_ERROR if plan.choosing_budget is not None else 0.0
    return min(
        _estimate_fitted_error(noise, MAX_PAIR_ERROR)
        + _estimate_fitted_error(column_noise, MAX_COLUMN_ERROR)
        + coarse
        + left_out,
        2.0,
    )  # no L1 is more


def _compute_table_noise(sizes: Sequence[int], budget: PrivacyBudget) -> list[float]:
    """The expected L1 norm of the noise of each of several tables of these sizes that share a loss."""
    return [size * noise.expected_error() for size, noise in zip(sizes, build_table_noises(sizes, budget), strict=True)]


def _estimate_fitted_error(noise: float, max_error: float) -> float:
    return FITTED_NOISE_SHARE * noise / (1 + FITTED_NOISE_SHARE * noise / max_error)


def _locate_pairs(names: Sequence[str], pairs: Sequence[tuple[str, str]]) -> tuple[Pair, ...]:
    if any(name not in names for pair in pairs for name in pair) or any(first == second for first, second in pairs):
        raise InvalidInput("given pairs are of two different columns of the file; name those")
    index_pairs = [sorted((names.index(first), names.index(second))) for first, second in pairs]
    return tuple(dict.fromkeys((first, second) for first, second in index_pairs))
