"""Ways to publish one column: sums of rank blocks, counts of categories, cumulative counts, names of rank blocks.

Each measures noisy whole numbers and turns them into whole counts of the column's cells that are at least 0 and add up
to the rows. Only `compute_totals` and `compute_scores` see exact counts. Proof: columns.md.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from discreet.errors import InvalidInput, Unsupported
from discreet.estimation.hierarchical_counts import (
    BlockHierarchy,
    HistogramStrategy,
    NoiseKind,
    list_histogram_strategies,
)
from discreet.mechanisms.distribution import Distribution, PowerFactors
from discreet.mechanisms.entropy import Entropy
from discreet.mechanisms.exponential_mechanism import Selection
from discreet.mechanisms.noise import Noise
from discreet.priors.prior import Prior
from discreet.schema import Column
from discreet.sdc.methods.record_distance import compute_semantic_distances, order_depth_first
from discreet.synthetic.columns import (
    ColumnGrid,
    Counts,
    PrivacyBudget,
    add_noise_to_totals,
    combine_errors,
    compute_block_edges,
    compute_clipped_error,
)
from discreet.untrusted import CheckedValue

Array = NDArray[np.float64]
NORMAL_MEAN_ERROR = math.sqrt(2 / math.pi)
"""The mean size of an error, in its standard deviations: at most this for sums of Laplace noises, this for Gaussian."""
MAX_PREFIXES = 97
"""The mean error of a cumulative count is taken over at most this many; a prime, so as not to fall on blocks' ends."""
MAX_NOISY_COUNT = 2**61
MIN_VARIANCE = 1e-12
"""A smaller variance cannot be divided by."""


def fit_ranked_counts(sums: Counts, sizes: Counts, cells: int) -> Counts:
    """The counts of every cell where rank blocks of these sizes have these noisy sums of cell numbers.

    The blocks' means are made to rise, weighted by size, and clipped; each is repeated as the whole numbers beside it,
    as many of either as keep the sum to within a half.
    """
    from scipy.optimize import isotonic_regression

    means = isotonic_regression(sums / sizes, weights=sizes.astype(np.float64)).x
    clipped = np.clip(means, 0, cells - 1)
    below = np.floor(clipped).astype(np.int64)
    above = np.rint((clipped - below) * sizes).astype(np.int64)
    counts = np.zeros(cells, dtype=np.int64)
    np.add.at(counts, below, sizes - above)
    np.add.at(counts, np.minimum(below + 1, cells - 1), above)
    return counts


def project_counts(noisy: Counts, rows: int) -> Counts:
    """The nearest whole counts of at least 0 that add up to `rows`: least squares, then largest remainders.

    All is exact. Of whole numbers less one threshold all remainders are alike, so the largest numbers are rounded up.
    """
    clipped_counts = np.clip(noisy, -MAX_NOISY_COUNT, MAX_NOISY_COUNT)
    # What is farther than `rows` below the greatest is 0 in any case.
    clipped_counts = np.maximum(clipped_counts - clipped_counts.max(), -rows)
    order = np.argsort(-clipped_counts, kind="stable")
    sums, places = np.cumsum(clipped_counts[order]) - rows, np.arange(1, len(clipped_counts) + 1)
    positive_cells = int(np.flatnonzero(clipped_counts[order] * places >= sums)[-1]) + 1
    threshold, over = divmod(int(sums[positive_cells - 1]), positive_cells)
    counts = np.zeros(len(clipped_counts), dtype=np.int64)
    counts[order[:positive_cells]] = clipped_counts[order[:positive_cells]] - threshold
    counts[order[positive_cells - over : positive_cells]] -= 1
    return counts


def fit_cumulative_counts(leaves: Array, edges: Counts, rows: int) -> Counts:
    """The counts of every cell, from estimates of those of runs between `edges`, then of missing values, if any.

    The cumulative count is made to rise from 0 to the rows that are not missing; inside a run it rises evenly.
    """
    from scipy.optimize import isotonic_regression

    absent = np.clip(np.rint(leaves[len(edges) - 1 :]), 0, rows).astype(np.int64)
    present = rows - int(absent.sum())
    cumulative = isotonic_regression(np.cumsum(leaves[: len(edges) - 1])).x
    edge_counts = np.concatenate(([0.0], np.clip(np.rint(cumulative), 0, present)))
    edge_counts[-1] = present
    cumulative_counts = np.rint(np.interp(np.arange(edges[-1] + 1), edges, edge_counts)).astype(np.int64)
    return np.concatenate((np.diff(cumulative_counts), absent))


@dataclass(frozen=True, eq=False, slots=True)
class CountTree:
    """The counts to measure of cells of a known total, so that cumulative counts are known best.

    `deviation` is the mean one of a cumulative count, `missing_deviation` that of the count of missing values, both in
    standard deviations of noise at weight 1.
    """

    strategy: HistogramStrategy
    has_missing: bool
    deviation: float = 0.0
    missing_deviation: float = 0.0

    def list_block_starts(self) -> tuple[Counts, ...]:
        """Where the blocks of each level start, coarse to fine; missing values are one block at every level."""
        cells = self.strategy.count
        last = np.arange(cells, cells + self.has_missing)
        return tuple(np.append(np.arange(0, cells, size), last) for size in self.strategy.sizes)

    def build_hierarchy(self, variances: Sequence[float]) -> BlockHierarchy:
        """The levels with the variance of their noise, under the known total."""
        starts = np.zeros(1, dtype=np.int64), *self.list_block_starts()
        return BlockHierarchy(starts, (0.0, *(max(variance, MIN_VARIANCE) for variance in variances)))


@lru_cache(maxsize=1024)
def find_best_tree(cells: int, has_missing: bool, noise_kind: NoiseKind) -> CountTree:
    """Every cell alone or also blocks, whichever knows cumulative counts better; of at least two cells, or missing."""
    trees = [
        _add_deviations(CountTree(strategy, has_missing))
        for strategy in list_histogram_strategies(cells, noise_kind, True)
        if strategy.kind != "wavelet"
    ]
    return min(trees, key=lambda tree: tree.deviation)


def _add_deviations(tree: CountTree) -> CountTree:
    hierarchy = tree.build_hierarchy([1 / weight**2 for weight in tree.strategy.weights])
    prefixes = tree.strategy.count - 1 + tree.has_missing
    prefix_count = min(prefixes, MAX_PREFIXES)
    ends = [(2 * place + 1) * prefixes // (2 * prefix_count) for place in range(prefix_count)]
    deviation = sum(math.sqrt(hierarchy.compute_range_variance(0, end)) for end in ends) / prefix_count
    absent = math.sqrt(hierarchy.compute_node_variances()[-1][-1]) if tree.has_missing else 0.0
    return replace(tree, deviation=deviation, missing_deviation=absent)


MONOTONE_ERROR_FACTOR = 0.7
"""The error of many noisy means that are made to rise is about this times the third root of noise^2 / blocks."""


@dataclass(frozen=True, slots=True)
class RankBlocks(CheckedValue):
    """Column plan that measures sums of blocks of k ranks; it costs its budget under replace-one, one row per unit.

    Args:
        grid: The public cells of the column.
        rows: The public number of rows.
        k: The number of rows in a block, counted from the low end; the last block has k to 2k - 1.
        budget: The privacy budget of the column.

    Raises:
        InvalidInput: The column has no order, missing values or one value only, or k is not between 1 and the rows.

    Example:
        >>> from discreet.synthetic import ColumnGrid, PrivacyBudget, RankBlocks
        >>> grid = ColumnGrid("stay", lower=0, upper=30, width=1, cell_count=31, has_missing=False, is_ordered=True)
        >>> RankBlocks(grid, rows=1000, k=300, budget=PrivacyBudget(epsilon=1)).edges.tolist()
        [0, 300, 600, 1000]
    """

    grid: ColumnGrid
    rows: int
    k: int
    budget: PrivacyBudget

    def __post_init__(self) -> None:
        if not self.grid.is_ordered or self.grid.has_missing or self.grid.cell_count < 2:
            raise InvalidInput("rank blocks are of a column with an order, without missing values, of several values")
        if not 1 <= self.k <= self.rows:
            raise InvalidInput(f"a rank block has 1 to {self.rows} rows, as many as there are; choose such a k")

    @property
    def name(self) -> str:
        """The method in plain words."""
        return f"rank blocks of {self.k:,}"

    @property
    def noise(self) -> Noise:
        """One person moves all sums together by at most the width of the domain."""
        width = self.grid.cell_count - 1
        return self.budget.build_noise(width, width**2)

    @property
    def edges(self) -> NDArray[np.int64]:
        """The first rank of every block, and the end of the last."""
        return compute_block_edges(self.rows, self.k)

    @property
    def error_bound(self) -> float:
        """The mean of W1 at most: half the largest block, the noise of the blocks' means, rounding, half a cell."""
        return min(1.0, self._within_block_error + self._noise_error)

    @property
    def error(self) -> float:
        """The mean of W1 to expect: noise, clipped and made to rise, and a third of what rows may be off in blocks."""
        monotone_error = MONOTONE_ERROR_FACTOR * (self._noise_error**2 / (self.rows // self.k)) ** (1 / 3)
        noise_error = min(compute_clipped_error(self._noise_error), monotone_error)
        return combine_errors(self._within_block_error / 3, noise_error)

    @property
    def _within_block_error(self) -> float:
        largest = self.rows - self.k * (self.rows // self.k - 1)
        cell = (self.grid.width - 1) / (2 * (self.grid.upper - self.grid.lower))
        return largest / (2 * self.rows) + cell

    @property
    def _noise_error(self) -> float:
        """The mean over rows of the noise of their block's mean, and of its rounding."""
        mean_rounding = 1 / (2 * (self.grid.cell_count - 1))
        return self.rows // self.k / self.rows * (compute_mean_noise(self.budget) + mean_rounding)

    def compute_totals(self, counts: Counts) -> Counts:
        """The exact sum of cell numbers of each block. Secret."""
        cells = np.arange(self.grid.cell_count, dtype=np.int64)
        return np.diff(_sum_first_ranks(cells, np.asarray(counts, dtype=np.int64), self.edges))

    def measure(self, counts: Counts, entropy: Entropy) -> Counts:
        """Noisy whole numbers from the exact counts of all cells."""
        return add_noise_to_totals(self.compute_totals(counts), self.noise, entropy)

    def estimate_counts(self, outputs: Counts) -> Counts:
        """Counts of all cells from the noisy numbers alone: at least 0, adding up to the rows."""
        return fit_ranked_counts(outputs, np.diff(self.edges), self.grid.cell_count)


def compute_mean_noise(budget: PrivacyBudget) -> float:
    """The mean size of noise for a sum that one person moves by 1."""
    return 1 / float(budget.epsilon) if budget.is_pure else NORMAL_MEAN_ERROR / math.sqrt(2 * float(budget.rho))


def choose_block_size(rows: int, budget: PrivacyBudget) -> int:
    """The k of the least bound k / 2n + noise / k: round(sqrt(2n / epsilon))."""
    return max(1, min(rows, round(math.sqrt(2 * rows * compute_mean_noise(budget)))))


def _sum_first_ranks(cells: Counts, counts: Counts, ranks: Counts) -> Counts:
    """The sum of the first so many values in order; the greatest cell stands for values that are not there."""
    cumulative_counts, sums = np.append(0, np.cumsum(counts)), np.append(0, np.cumsum(cells * counts))
    indices = np.minimum(np.searchsorted(cumulative_counts[1:], ranks, side="right"), len(cells) - 1)
    rank_sums: NDArray[np.int64] = sums[indices] + cells[indices] * (ranks - cumulative_counts[indices])
    return rank_sums


@dataclass(frozen=True, slots=True)
class CategoryCounts(CheckedValue):
    """Column plan that measures the count of every cell; it costs its budget under replace-one, one row per unit.

    Args:
        grid: The public cells of the column.
        rows: The public number of rows.
        budget: The privacy budget of the column.

    Raises:
        InvalidInput: There is no row.

    Example:
        >>> from discreet.synthetic import CategoryCounts, ColumnGrid, PrivacyBudget
        >>> grid = ColumnGrid("town", lower=0, upper=4, width=1, cell_count=5, has_missing=False, is_ordered=False)
        >>> CategoryCounts(grid, rows=1000, budget=PrivacyBudget(epsilon=1)).measured_count
        5
    """

    grid: ColumnGrid
    rows: int
    budget: PrivacyBudget

    def __post_init__(self) -> None:
        if self.rows < 1:
            raise InvalidInput("a column is published of at least one row")

    @property
    def name(self) -> str:
        """The method in plain words."""
        return "a count of every category"

    @property
    def k(self) -> None:
        """Counts have no blocks of rows."""
        return None

    @property
    def measured_count(self) -> int:
        """How many counts are measured."""
        cells = self.grid.all_cell_count
        return cells if cells > 2 else cells - 1

    @property
    def noise(self) -> Noise:
        """One who moves changes two counts by 1, or the only one that is measured."""
        changed_counts = min(self.measured_count, 2) or 1
        return self.budget.build_noise(changed_counts, changed_counts)

    @property
    def error(self) -> float:
        """The total variation to expect, before negative counts are mended; also W1 of two cells."""
        cells = self.measured_count if self.measured_count != 1 else 2
        return min(1.0, cells * self.noise.expected_error() / (2 * self.rows)) if self.measured_count else 0.0

    def compute_totals(self, counts: Counts) -> Counts:
        """The exact counts that are measured. Secret."""
        return np.asarray(counts, dtype=np.int64)[: self.measured_count]

    def measure(self, counts: Counts, entropy: Entropy) -> Counts:
        """Noisy whole numbers from the exact counts of all cells."""
        return add_noise_to_totals(self.compute_totals(counts), self.noise, entropy)

    def estimate_counts(self, outputs: Counts) -> Counts:
        """Counts of all cells from the noisy numbers alone: at least 0, adding up to the rows."""
        if self.grid.all_cell_count > 2:
            return project_counts(outputs, self.rows)
        clipped_count = np.clip(outputs, 0, self.rows)
        return np.append(clipped_count, self.rows - clipped_count.sum())


SHARE_UNITS = 10**6
"""Shares of a budget are whole millionths, so that they add up exactly."""


@lru_cache(64)
def _compute_edges(cells: int, run_count: int, marks: tuple[int, ...]) -> Counts:
    """Cached: a plan is rated at many budgets, and its edges are the same at each."""
    even = np.arange(run_count + 1, dtype=np.int64) * cells // run_count
    edges = np.union1d(even, np.array(marks, dtype=np.int64))
    edges.flags.writeable = False
    return edges


@dataclass(frozen=True, slots=True)
class CumulativeCounts(CheckedValue):
    """Column plan that counts runs of cells in nested blocks; it costs its budget under replace-one, one row per unit.

    Args:
        grid: The public cells of the column.
        rows: The public number of rows.
        run_count: The number of even runs of cells; marks of the grid cut them further. Missing values are apart.
        budget: The privacy budget of the column.

    Raises:
        InvalidInput: The column has no order, or too few cells or rows.

    Example:
        >>> from discreet.synthetic import ColumnGrid, CumulativeCounts, PrivacyBudget
        >>> grid = ColumnGrid("stay", lower=0, upper=30, width=1, cell_count=31, has_missing=False, is_ordered=True)
        >>> plan = CumulativeCounts(grid, rows=1000, run_count=31, budget=PrivacyBudget(epsilon=1))
        >>> sum(plan.shares)  # of the budget, over the levels
        Fraction(1, 1)
    """

    grid: ColumnGrid
    rows: int
    run_count: int
    budget: PrivacyBudget

    def __post_init__(self) -> None:
        if not self.grid.is_ordered or not 1 <= self.run_count <= self.grid.cell_count:
            raise InvalidInput(
                "a cumulative count is of a column with an order, of at most as many runs as it has cells"
            )
        if self.run_count + self.grid.has_missing < 2 or self.rows < 1:
            raise InvalidInput("a cumulative count is of at least one row and two cells; one cell holds all rows")

    @property
    def tree(self) -> CountTree:
        """The levels that are measured."""
        noise_kind: NoiseKind = "laplace" if self.budget.is_pure else "gaussian"
        return find_best_tree(len(self.edges) - 1, self.grid.has_missing, noise_kind)

    @property
    def name(self) -> str:
        """The method in plain words."""
        return f"cumulative counts of {len(self.edges) - 1:,} cells: {self.tree.strategy.name}"

    @property
    def k(self) -> None:
        """Counts have no blocks of rows."""
        return None

    @property
    def error_bound(self) -> float:
        """The mean of W1 at most, but for rounding: noise, and half a run; a missing value is a width away."""
        noise_error = self._noise_error * (self.tree.deviation + self.tree.missing_deviation)
        return min(1.0, self._within_run_error + noise_error)

    @property
    def error(self) -> float:
        """The mean of W1 to expect: clipped noise, and half of what rows may be off inside a run."""
        present = compute_clipped_error(self._noise_error * self.tree.deviation)
        absent = (
            compute_clipped_error(self._noise_error * self.tree.missing_deviation) if self.grid.has_missing else 0.0
        )
        return min(1.0, combine_errors(self._within_run_error / 2, present) + absent)

    @property
    def _within_run_error(self) -> float:
        widest = -(-self.grid.cell_count // self.run_count) * self.grid.width
        return (widest - 1) / (2 * max(self.grid.upper - self.grid.lower, 1))

    @property
    def _noise_error(self) -> float:
        """The mean size of noise for a deviation of 1, as a share of the rows."""
        # One who moves changes two blocks of a level by 1, under either law.
        epsilon, rho = float(self.budget.epsilon), float(self.budget.rho)
        noise = math.sqrt(8) / epsilon if self.budget.is_pure else 1 / math.sqrt(rho)
        return NORMAL_MEAN_ERROR * noise / self.rows

    @property
    def edges(self) -> Counts:
        """The first cell of every run, and the end of the last: even ones, and those of the grid's marks."""
        return _compute_edges(self.grid.cell_count, self.run_count, self.grid.marks)

    @property
    def shares(self) -> tuple[Fraction, ...]:
        """The share of the budget that each level takes, coarse to fine."""
        power = 1 if self.budget.is_pure else 2
        weights = self.tree.strategy.weights[:-1]
        shares = [Fraction(max(1, round(weight**power * SHARE_UNITS)), SHARE_UNITS) for weight in weights]
        return (*shares, 1 - sum(shares, Fraction(0)))

    @property
    def noises(self) -> tuple[Noise, ...]:
        """The noise of each level: one who moves changes two of its blocks by 1."""
        return tuple(self.budget.take_share(share).build_noise(2, 2) for share in self.shares)

    def compute_totals(self, counts: Counts) -> tuple[Counts, ...]:
        """The exact counts of the blocks of each level. Secret."""
        exact, cells = np.asarray(counts, dtype=np.int64), self.grid.cell_count
        leaves = np.append(np.add.reduceat(exact[:cells], self.edges[:-1]), exact[cells:])
        return tuple(np.add.reduceat(leaves, starts) for starts in self.tree.list_block_starts())

    def measure(self, counts: Counts, entropy: Entropy) -> Counts:
        """Noisy whole numbers from the exact counts of all cells."""
        levels = zip(self.compute_totals(counts), self.noises, strict=True)
        return np.concatenate([add_noise_to_totals(totals, noise, entropy) for totals, noise in levels])

    def estimate_counts(self, outputs: Counts) -> Counts:
        """Counts of all cells from the noisy numbers alone: at least 0, adding up to the rows."""
        ends = np.cumsum([0, *(len(starts) for starts in self.tree.list_block_starts())])
        levels = [outputs[first:last].astype(np.float64) for first, last in pairwise(ends.tolist())]
        hierarchy = self.tree.build_hierarchy([noise.variance() for noise in self.noises])
        leaves = hierarchy.estimate([np.array([float(self.rows)]), *levels])[-1]
        return fit_cumulative_counts(leaves, self.edges, self.rows)


DISTANCE_UNITS = 1024
"""Distances are whole numbers of one over this, so that scores are whole and no floor is to be accounted for."""
MAX_NAMES = 1024
"""Distances between all pairs are held, and every name of every block is scored."""


@dataclass(frozen=True, slots=True, eq=False)
class NameOrder:
    """The cells of a column in a public order, and the whole distance of each from each, by place in that order.

    Where the name at one place gives way to that at the next, no score moves by more than a step; `length` is the sum
    of all steps. Where any name gives way to any other, no score moves by more than the `diameter`.
    """

    order: Counts
    distances: Counts
    length: int
    diameter: int

    @staticmethod
    def of(order: Counts, distances: Counts) -> NameOrder:
        """From symmetric distances of at least 0, with 0 from each name to itself; they need not be a metric."""
        steps = np.abs(np.diff(distances, axis=0)).max(axis=1)
        return NameOrder(order, distances, int(steps.sum()), int(distances.max()))


@lru_cache(maxsize=64)
def order_names(column: Column) -> NameOrder:
    """Depth first in the taxonomy, siblings by name, missing values last; without a taxonomy as they are listed."""
    if not column.categories or len(column.categories) > MAX_NAMES:
        raise Unsupported(f"blocks of names are formed of columns of at most {MAX_NAMES:,} categories")
    order = np.array(order_depth_first(column.taxonomy, column.categories), dtype=np.int64)
    names = [column.categories[place] for place in order]
    distances = np.rint(DISTANCE_UNITS * compute_semantic_distances(column.taxonomy, names, names)).astype(np.int64)
    if not column.is_nullable:
        return NameOrder.of(order, distances)
    wider_distances = np.pad(distances, (0, 1), constant_values=DISTANCE_UNITS)
    wider_distances[-1, -1] = 0
    return NameOrder.of(np.append(order, len(order)), wider_distances)


def build_name_distribution(selection: Selection, scores: Counts) -> Distribution:
    """The exponential mechanism's distribution over names. Secret: only what is sampled from it leaves.

    It is made by the levels that occur, since scores of large blocks are far apart.
    """
    count = len(scores)
    levels, blocks = np.unique(selection.compute_levels(scores, 1 / count), return_inverse=True)
    return Distribution(Prior.uniform(0, count - 1), blocks, PowerFactors(selection.ratio, levels.tolist()))


@dataclass(frozen=True, slots=True, eq=False)
class NameBlocks(CheckedValue):
    """Column plan that chooses a name for each block of k ranks; it costs its budget under replace-one, one row per
    unit.

    Args:
        grid: The public cells of the column.
        rows: The public number of rows.
        k: The number of rows in a block, counted from the low end; the last block has k to 2k - 1.
        budget: The privacy budget of the column.
        name_order: The public order of the names, with their distances.

    Raises:
        InvalidInput: The cells are not several names, or k is not between 1 and the rows.

    Example:
        >>> import numpy as np
        >>> from discreet.synthetic import ColumnGrid, NameBlocks, PrivacyBudget
        >>> from discreet.synthetic.column_methods import NameOrder
        >>> grid = ColumnGrid("town", lower=0, upper=1, width=1, cell_count=2, has_missing=False, is_ordered=False)
        >>> order = NameOrder.of(np.array([0, 1]), np.array([[0, 1], [1, 0]]))
        >>> NameBlocks(grid, 1000, k=500, budget=PrivacyBudget(epsilon=1), name_order=order).edges.tolist()
        [0, 500, 1000]
    """

    grid: ColumnGrid
    rows: int
    k: int
    budget: PrivacyBudget
    name_order: NameOrder

    def __post_init__(self) -> None:
        cells = self.grid.all_cell_count
        if self.grid.width != 1 or len(self.name_order.order) != cells or cells < 2:
            raise InvalidInput("blocks of names are of a column whose cells are its names, of which there are several")
        if not 1 <= self.k <= self.rows:
            raise InvalidInput(f"a block of names has 1 to {self.rows} rows, as many as there are; choose such a k")

    @property
    def name(self) -> str:
        """The method in plain words."""
        return f"a name for rank blocks of {self.k:,}"

    @property
    def edges(self) -> Counts:
        """The first rank of every block, and the end of the last."""
        return compute_block_edges(self.rows, self.k)

    @property
    def score_change(self) -> int:
        """How far all blocks' scores move together, each by that of its scores that moves most."""
        return min(self.name_order.length, (len(self.edges) - 1) * self.name_order.diameter)

    @property
    def selection(self) -> Selection:
        """Whole scores; over all blocks they move apart by at most twice what they move."""
        return Selection(self.budget.compute_choice_epsilon(), Fraction(1), 2 * self.score_change, whole_scores=True)

    @property
    def error(self) -> float:
        """A bound on the mean distance to expect, in diameters: within blocks, and that of the choice."""
        blocks, widest = len(self.edges) - 1, self.rows - self.k * (self.rows // self.k - 1)
        within_block_error = min(widest * self.name_order.length / (2 * self.rows), self.name_order.diameter)
        epsilon = float(self.budget.compute_choice_epsilon())
        choice_error = blocks * 2 * self.score_change * math.log(self.grid.all_cell_count) / epsilon / self.rows
        return min(1.0, (within_block_error + choice_error) / self.name_order.diameter)

    def compute_scores(self, counts: Counts) -> Counts:
        """For every block, and every place in the order, less the sum of its distances to the block's. Secret."""
        ends = np.append(0, np.cumsum(np.asarray(counts, dtype=np.int64)[self.name_order.order]))
        ends[-1] = max(int(ends[-1]), self.rows)  # the last name stands for rows that are not there
        clipped_ends = np.minimum(np.maximum(ends[None, :], self.edges[:-1, None]), self.edges[1:, None])
        negative_distances: Counts = -np.diff(clipped_ends, axis=1) @ self.name_order.distances
        return negative_distances

    def build_distribution(self, scores: Counts) -> Distribution:
        """The exact distribution of one block's name, by its place in the order. Secret."""
        return build_name_distribution(self.selection, scores)

    def measure(self, counts: Counts, entropy: Entropy) -> Counts:
        """Noisy whole numbers from the exact counts of all cells."""
        positions = [self.build_distribution(scores).sample_position(entropy) for scores in self.compute_scores(counts)]
        return np.array(positions, dtype=np.int64)

    def estimate_counts(self, outputs: Counts) -> Counts:
        """Counts of all cells from the noisy numbers alone: at least 0, adding up to the rows."""
        counts = np.zeros(self.grid.all_cell_count, dtype=np.int64)
        np.add.at(counts, self.name_order.order[outputs], np.diff(self.edges))
        return counts
