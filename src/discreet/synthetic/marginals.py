"""Noisy two-way marginals of DP columns: their bins, the pairs that are measured, the tables. Proof: marginals.md.

The pairs are all of them, or a spanning tree that the exponential mechanism chooses edge by edge.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import combinations
from types import MappingProxyType
from typing import cast

import numpy as np

from discreet.errors import Internal, InvalidInput
from discreet.estimation.least_squares import Array
from discreet.estimation.raking import Pair, compute_independent_table, select_joining_pairs
from discreet.mechanisms.entropy import Entropy, get_entropy
from discreet.mechanisms.exponential_mechanism import Exponential
from discreet.mechanisms.noise import Noise
from discreet.query.scan import Amounts, BinKey, Cell, CutKey, ScanMeasure, TotalsScan
from discreet.schema import Column
from discreet.synthetic.columns import ColumnGrid, Counts, PrivacyBudget, add_noise_to_totals
from discreet.untrusted import CheckedValue

CUT_ROUNDS = 16
"""How often heavy cells are cut down to an equal part of what is left of all."""


@dataclass(frozen=True, slots=True, eq=False)
class BinnedColumn:
    """A column's private counts, and the bin of each of its cells; bins of an ordered column are runs of cells."""

    grid: ColumnGrid
    counts: Counts
    bin_of_cell: Counts

    @staticmethod
    def of(grid: ColumnGrid, counts: Counts, max_bins: int, runs: Counts | None = None) -> BinnedColumn:
        """At most `max_bins` bins, cut where the private counts are in equal parts; of names, the rarest share one.

        `runs` are the first cells of runs that were counted together: inside one nothing is known, so none is cut.
        """
        if not grid.is_ordered:
            return BinnedColumn(grid, counts, _bin_commonest(counts, max_bins))
        starts = np.arange(grid.cell_count) if runs is None else runs
        sums = np.append(np.add.reduceat(counts[: grid.cell_count], starts), counts[grid.cell_count :])
        place = _bin_runs(grid, sums, max_bins)
        lengths = np.diff(np.append(starts, grid.cell_count))
        spread = np.append(np.repeat(place[: len(starts)], lengths), place[len(starts) :])
        return BinnedColumn(grid, counts, spread)

    @property
    def name(self) -> str:
        """The name of the column."""
        return self.grid.column

    @property
    def bin_count(self) -> int:
        """The number of bins."""
        return int(self.bin_of_cell.max()) + 1

    @property
    def sizes(self) -> Counts:
        """The private count of each bin."""
        sizes = np.zeros(self.bin_count, dtype=np.int64)
        np.add.at(sizes, self.bin_of_cell, self.counts)
        return sizes

    @property
    def codes(self) -> Counts:
        """The code that stands for each cell, MISSING_CODE for the one of missing values."""
        return self.grid.compute_all_codes()

    @property
    def key(self) -> BinKey | CutKey:
        """The key that an engine groups the bins by: cuts, or the cells of names."""
        if not self.grid.is_ordered:
            return BinKey(self.name, self.grid.lower, self.grid.width)
        starts = np.flatnonzero(np.diff(self.bin_of_cell[: self.grid.cell_count])) + 1
        return CutKey(self.name, tuple((self.grid.lower + self.grid.width * starts).tolist()))

    def find_bin(self, key: int | str | None) -> int:
        """The bin of a key that an engine returns; every key has one."""
        if not isinstance(key, int):
            return int(self.bin_of_cell[-1])
        return key if self.grid.is_ordered else int(self.bin_of_cell[min(max(key, 0), self.grid.cell_count - 1)])

    def list_bin_codes(self) -> list[Counts]:
        """The codes of the cells of each bin."""
        codes = self.codes
        return [codes[self.bin_of_cell == bin_index] for bin_index in range(self.bin_count)]


def plan_joint_table(first: BinnedColumn, second: BinnedColumn) -> TotalsScan:
    """The query to an engine for a table of two columns."""
    return TotalsScan((ScanMeasure("rows"),), (first.key, second.key))


def build_joint_table(first: BinnedColumn, second: BinnedColumn, cells: Mapping[Cell, Amounts]) -> Counts:
    """The exact table, from the engine's cells. Secret."""
    table = np.zeros((first.bin_count, second.bin_count), dtype=np.int64)
    for (first_key, second_key), (rows,) in cells.items():
        table[first.find_bin(first_key), second.find_bin(second_key)] += rows
    return table


def _bin_runs(grid: ColumnGrid, counts: Counts, max_bins: int) -> Counts:
    """Bins of about equal counts; a cell, or a run, with more than its part leaves the other bins to the others.

    Missing values have a bin of their own, unless the private count says that there are none.
    """
    value_counts = counts[: len(counts) - grid.has_missing].astype(np.float64)
    has_missing_bin = grid.has_missing and bool(counts[-1])
    bins = max(max_bins - has_missing_bin, 1)
    weights = value_counts
    for _ in range(CUT_ROUNDS):
        weights = np.minimum(weights, weights.sum() / bins)
    middle = (np.cumsum(weights) - weights / 2) / (float(weights.sum()) or 1.0)
    place = np.unique(np.minimum(np.floor(middle * bins), bins - 1), return_inverse=True)[1].astype(np.int64)
    return np.append(place, [place[-1] + has_missing_bin] * grid.has_missing).astype(np.int64)


def _bin_commonest(counts: Counts, max_bins: int) -> Counts:
    """A bin for each name, the commonest first; the rarest, and all that no row has, share the last."""
    order = np.argsort(-counts, kind="stable")
    place = np.empty(len(counts), dtype=np.int64)
    place[order] = np.minimum(np.arange(len(counts)), max(min(max_bins, int((counts > 0).sum())), 1) - 1)
    return place


PAIR_SENSITIVITY = 2
"""One replaced row moves two cells of a table by 1 each, hence its distance from any fixed table by at most 2."""


def compute_pair_score(table: Counts, independent: Array) -> int:
    """The distance of an exact table from a public one, rounded to whole numbers: it moves by at most 2. Secret."""
    return int(np.abs(table - np.rint(independent).astype(np.int64)).sum())


def build_pair_selection(budget: PrivacyBudget, choices: int) -> Exponential:
    """The mechanism of one of so many choices that cost this budget together."""
    return Exponential.of(budget.take_share(Fraction(1, choices)).compute_choice_epsilon(), PAIR_SENSITIVITY)


def choose_spanning_tree(
    scores: Sequence[int],
    pairs: Sequence[Pair],
    required_pairs: Sequence[Pair],
    count: int,
    budget: PrivacyBudget,
    entropy: Entropy,
) -> list[Pair]:
    """The required pairs, and as many more as join all columns, each sampled among those that join two parts."""
    chosen_pairs, score = list(required_pairs), dict(zip(pairs, scores, strict=True))
    choices = count_choices_left(required_pairs, count)
    for _ in range(choices):
        joining_pairs = select_joining_pairs(chosen_pairs, pairs, count)
        pair_scores = np.array([score[pair] for pair in joining_pairs], dtype=np.int64)
        place = build_pair_selection(budget, choices).answer(pair_scores, entropy)
        chosen_pairs.append(joining_pairs[cast("int", place)])
    return chosen_pairs


def count_choices_left(required_pairs: Sequence[Pair], count: int) -> int:
    """How many pairs join all columns, besides the required ones."""
    joined_count = sum(
        pair in select_joining_pairs(required_pairs[:place], [pair], count) for place, pair in enumerate(required_pairs)
    )
    return count - 1 - joined_count


CountJointTables = Callable[[Sequence[tuple[BinnedColumn, BinnedColumn]]], Sequence[Counts]]
L1_SENSITIVITY, SQUARED_L2_SENSITIVITY = 2, 2
"""The change of a table where one row is replaced: two cells, by 1 each."""
MILLION = 10**6
NO_RUNS: Mapping[str, Counts] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class MarginalsPlan(CheckedValue):
    """Plan of synthetic records with linked columns: budgets for columns, choice of pairs and their tables.

    It costs the sum of its budgets under replace-one, with one row per unit. Without a budget for the choice all pairs
    are measured; with one, a spanning tree. Required pairs always are.

    Args:
        rows: The public number of rows.
        grids: The public cells of each column.
        max_bins: The most bins of a column in a table of a pair.
        columns_budget: The budget of the columns by themselves.
        measuring_budget: The budget of the tables.
        choosing_budget: The budget for choosing pairs.
        required_pairs: Pairs that are always measured, by the positions of their columns.
        error: The expected mean L1 distance of two-way tables, in shares of the rows.

    Raises:
        InvalidInput: There are too few rows, columns or bins, or a pair is not valid.

    Example:
        >>> from fractions import Fraction
        >>> from discreet.synthetic import ColumnGrid, MarginalsPlan, PrivacyBudget
        >>> grid = ColumnGrid("stay", lower=0, upper=30, width=1, cell_count=31, has_missing=False, is_ordered=True)
        >>> half = PrivacyBudget(epsilon=Fraction(1, 2))
        >>> plan = MarginalsPlan(1000, (grid, grid), max_bins=8, columns_budget=half, measuring_budget=half)
        >>> plan.name
        'all 1 pairs of columns in at most 8 bins'
    """

    rows: int
    grids: tuple[ColumnGrid, ...]
    max_bins: int
    columns_budget: PrivacyBudget
    measuring_budget: PrivacyBudget
    choosing_budget: PrivacyBudget | None = None
    required_pairs: tuple[Pair, ...] = ()
    error: float = math.nan
    """The expected mean L1 distance of two-way tables, in shares of the rows, as the planner states it."""

    def __post_init__(self) -> None:
        if len(self.grids) < 2 or self.max_bins < 2 or self.rows < 1:
            raise InvalidInput("linked records have at least one row, two columns and two bins of each")
        if any(not 0 <= first < second < len(self.grids) for first, second in self.required_pairs):
            raise InvalidInput("given pairs are two columns each, by their places, the first one before the other")

    @property
    def name(self) -> str:
        """The method in plain words."""
        count = len(self.grids)
        if self.choosing_budget is None:
            return f"all {count * (count - 1) // 2} pairs of columns in at most {self.max_bins} bins"
        pairs = len(self.required_pairs) + count_choices_left(self.required_pairs, count)
        return f"a tree of {pairs} pairs of columns in at most {self.max_bins} bins"

    def bin_columns(
        self, columns: Mapping[str, Counts], runs: Mapping[str, Counts] = NO_RUNS
    ) -> tuple[BinnedColumn, ...]:
        """The bins of each column, by its private counts, which add up to the rows; no run of `runs` is cut."""
        if any(int(columns[grid.column].sum()) != self.rows for grid in self.grids):
            raise Internal("the private counts of a column do not add up to the rows")
        return tuple(
            BinnedColumn.of(grid, columns[grid.column], self.max_bins, runs.get(grid.column)) for grid in self.grids
        )


@dataclass(frozen=True, slots=True, eq=False)
class NoisyMarginals:
    """DP columns in bins, and noisy tables of pairs of them; everything made from it is post-processing.

    Args:
        columns: The columns with their private counts and bins.
        pairs: The pairs, by the positions of their columns.
        tables: The noisy table of each pair.
        deviations: The standard deviation of the noise of each table.

    Example:
        >>> from discreet.synthetic import NoisyMarginals
        >>> NoisyMarginals(columns=(), pairs=(), tables=(), deviations=()).pairs
        ()
    """

    columns: tuple[BinnedColumn, ...]
    pairs: tuple[Pair, ...]
    tables: tuple[Counts, ...]
    deviations: tuple[float, ...]
    """The standard deviation of the noise of each table."""


def measure_marginals(
    plan: MarginalsPlan,
    columns: Mapping[str, Counts],
    count_joint_tables: CountJointTables,
    entropy: Entropy | None = None,
    runs: Mapping[str, Counts] = NO_RUNS,
) -> NoisyMarginals:
    """Choose the pairs and measure them; `columns` are DP counts of cells, `count_joint_tables` returns exact tables.

    `runs` are the first cells of the runs that a column was counted in, where it was.
    """
    generator, binned = get_entropy(entropy), plan.bin_columns(columns, runs)
    pairs = list(combinations(range(len(binned)), 2))
    exact_tables = count_joint_tables([(binned[first], binned[second]) for first, second in pairs])
    exact = dict(zip(pairs, exact_tables, strict=True))
    chosen_pairs = pairs
    if plan.choosing_budget is not None:
        independent = (compute_independent_table(binned[first].sizes, binned[second].sizes) for first, second in pairs)
        scores = [compute_pair_score(exact[pair], table) for pair, table in zip(pairs, independent, strict=True)]
        chosen_pairs = choose_spanning_tree(
            scores, pairs, plan.required_pairs, len(binned), plan.choosing_budget, generator
        )
    noises = build_table_noises([exact[pair].size for pair in chosen_pairs], plan.measuring_budget)
    tables = tuple(
        add_noise_to_totals(exact[pair].ravel(), noise, generator).reshape(exact[pair].shape)
        for pair, noise in zip(chosen_pairs, noises, strict=True)
    )
    return NoisyMarginals(binned, tuple(chosen_pairs), tables, tuple(math.sqrt(noise.variance()) for noise in noises))


def build_table_noises(sizes: Sequence[int], budget: PrivacyBudget) -> list[Noise]:
    """The noise of each of several tables of so many cells that cost this budget together."""
    return [
        budget.take_share(share).build_noise(L1_SENSITIVITY, SQUARED_L2_SENSITIVITY)
        for share in compute_table_shares(sizes, budget)
    ]


def compute_table_shares(sizes: Sequence[int], budget: PrivacyBudget) -> list[Fraction]:
    """Shares of a budget, in millionths that add up to 1, of least expected noise over all tables of these sizes.

    The noise of a table grows with its cells m and with 1/epsilon or 1/sqrt(rho): the sum of m/epsilon is least where
    epsilon goes as sqrt(m), that of m/sqrt(rho) where rho goes as m^(2/3).
    """
    weights = [size ** (0.5 if budget.is_pure else 2 / 3) for size in sizes]
    parts = [max(1, math.floor(MILLION * weight / sum(weights))) for weight in weights]
    parts[int(np.argmax(weights))] += MILLION - sum(parts)
    return [Fraction(part, MILLION) for part in parts]


BIN_COUNTS = (2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64)
COLUMN_BUDGET_SHARE = Fraction(3, 10)
SELECTION_BUDGET_SHARE = Fraction(1, 10)


FITTED_NOISE_SHARE = 0.4
"""Fitting leaves about this share of little noise in a table, in L1 over the rows."""
MAX_PAIR_ERROR, MAX_COLUMN_ERROR = 1.0, 1.6
"""The error under much noise: columns that are taken for independent, or have nothing to do with the exact ones."""
OMITTED_TABLE_ERROR = 0.08
"""The error of a table that the tree does not hold, about: the same is assumed of every file."""
COARSE_BIN_ERROR = 0.5
"""The error of a table whose columns are in few bins, about, over the number of bins."""


def plan_marginals(
    columns: Sequence[Column], rows: int, budget: PrivacyBudget, required_pairs: Sequence[tuple[str, str]] = ()
) -> MarginalsPlan:
    """The plan with the least expected error over all two-way tables: all pairs or a tree, in few bins or many.

    Required pairs are measured whatever is chosen besides.
    """
    if len(columns) < 2:
        raise InvalidInput("linked records have at least two columns; publish one with private-columns")
    grids = tuple(ColumnGrid.of(column) for column in columns)
    names = [column.name for column in columns]
    if any(name not in names for pair in required_pairs for name in pair) or any(a == b for a, b in required_pairs):
        raise InvalidInput("given pairs are of two different columns of the file; name those")
    index_pairs = [sorted((names.index(first), names.index(second))) for first, second in required_pairs]
    pairs = tuple(dict.fromkeys((first, second) for first, second in index_pairs))
    column_share, selection_share = COLUMN_BUDGET_SHARE, SELECTION_BUDGET_SHARE
    columns_budget, measuring_budget = budget.take_share(column_share), budget.take_share(1 - column_share)
    plans = [
        MarginalsPlan(rows, grids, max_bins, columns_budget, measuring_budget, None, pairs) for max_bins in BIN_COUNTS
    ]
    if len(columns) > 2:
        tree_budget, choosing_budget = (
            budget.take_share(1 - column_share - selection_share),
            budget.take_share(selection_share),
        )
        plans += [replace(plan, measuring_budget=tree_budget, choosing_budget=choosing_budget) for plan in plans]
    rated_plans = [replace(plan, error=estimate_table_error(plan)) for plan in plans]
    return min(rated_plans, key=lambda plan: plan.error)


def estimate_table_error(plan: MarginalsPlan) -> float:
    """The mean L1 distance of two-way tables, in shares of the rows, that is to be expected of a plan."""
    sides = [min(grid.all_cell_count, plan.max_bins) for grid in plan.grids]
    sizes = [side * other_side for side, other_side in combinations(sides, 2)]
    if plan.choosing_budget is not None:
        sizes = [round(sum(sizes) / len(sizes))] * max(len(sides) - 1, len(plan.required_pairs))
    noise = sum(_compute_table_noise(sizes, plan.measuring_budget)) / len(sizes) / plan.rows
    # A table has the noise of its two columns besides.
    column_noise = sum(_compute_table_noise(sides, plan.columns_budget)) * 2 / len(sides) / plan.rows
    coarse_sides = [COARSE_BIN_ERROR / plan.max_bins for grid in plan.grids if grid.all_cell_count > plan.max_bins]
    coarse = sum(coarse_sides) * 2 / len(sides)
    left_out = OMITTED_TABLE_ERROR if plan.choosing_budget is not None else 0.0
    fitted_error = _estimate_fitted_error(noise, MAX_PAIR_ERROR) + _estimate_fitted_error(
        column_noise, MAX_COLUMN_ERROR
    )
    return min(fitted_error + coarse + left_out, 2.0)  # no L1 is more


def _compute_table_noise(sizes: Sequence[int], budget: PrivacyBudget) -> list[float]:
    """The expected L1 norm of the noise of each of several tables of these sizes that share a budget."""
    return [size * noise.expected_error() for size, noise in zip(sizes, build_table_noises(sizes, budget), strict=True)]


def _estimate_fitted_error(noise: float, max_error: float) -> float:
    return FITTED_NOISE_SHARE * noise / (1 + FITTED_NOISE_SHARE * noise / max_error)
