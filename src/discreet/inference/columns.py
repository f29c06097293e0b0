"""Noisy numbers of one column made the best whole counts of its cells that add up. Proof: microdata/private/columns.md.

Nothing here sees an exact count, or draws. Whatever the noise was, the counts are at least 0 and add up to the rows.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from discreet.inference.nested import BlockHierarchy, HistogramStrategy, NoiseKind, list_histogram_strategies

Array = NDArray[np.float64]
ColumnCounts = NDArray[np.int64]
NORMAL_MEAN_ERROR = math.sqrt(2 / math.pi)
"""The mean size of an error, in its standard deviations: at most this for sums of Laplace noises, this for Gaussian."""
MAX_PREFIXES = 97
"""The mean error of a cumulative count is taken over so many of them; a prime, so as not to fall on blocks' ends."""
MAX_NOISY_COUNT = 2**61
MIN_VARIANCE = 1e-12
"""A smaller variance cannot be divided by."""


def fit_ranked_counts(sums: ColumnCounts, sizes: ColumnCounts, cells: int) -> ColumnCounts:
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


def project_counts(noisy: ColumnCounts, rows: int) -> ColumnCounts:
    """The nearest whole counts of at least 0 that add up to `rows`: least squares, then largest remainders.

    All is exact. Of whole numbers less one threshold all remainders are alike, so the largest numbers are rounded up.
    """
    clipped_counts = np.clip(noisy, -MAX_NOISY_COUNT, MAX_NOISY_COUNT)
    clipped_counts = np.maximum(
        clipped_counts - clipped_counts.max(), -rows
    )  # what is farther below the greatest is 0 in any case
    order = np.argsort(-clipped_counts, kind="stable")
    sums, places = np.cumsum(clipped_counts[order]) - rows, np.arange(1, len(clipped_counts) + 1)
    positive_cells = int(np.flatnonzero(clipped_counts[order] * places >= sums)[-1]) + 1
    threshold, over = divmod(int(sums[positive_cells - 1]), positive_cells)
    counts = np.zeros(len(clipped_counts), dtype=np.int64)
    counts[order[:positive_cells]] = clipped_counts[order[:positive_cells]] - threshold
    counts[order[positive_cells - over : positive_cells]] -= 1
    return counts


def fit_cumulative_counts(leaves: Array, edges: ColumnCounts, rows: int) -> ColumnCounts:
    """The counts of every cell, from estimates of those of runs between `edges`, then of missing values, if any.

    The cumulative count is made to rise from 0 to the rows that are not missing; inside a run it rises evenly.
    """
    from scipy.optimize import isotonic_regression

    absent = np.clip(np.rint(leaves[len(edges) - 1 :]), 0, rows).astype(np.int64)
    present = rows - int(absent.sum())
    cumulative = isotonic_regression(np.cumsum(leaves[: len(edges) - 1])).x
    known = np.concatenate(([0.0], np.clip(np.rint(cumulative), 0, present)))
    known[-1] = present
    upto = np.rint(np.interp(np.arange(edges[-1] + 1), edges, known)).astype(np.int64)
    return np.concatenate((np.diff(upto), absent))


@dataclass(frozen=True, eq=False, slots=True)
class CountTree:
    """What to measure of cells of a known total, so that cumulative counts are known best.

    The deviations are of a cumulative count, on average, and of the count of missing values, in those of noise at
    weight 1.
    """

    strategy: HistogramStrategy
    has_missing: bool
    deviation: float = 0.0
    missing_deviation: float = 0.0

    def list_block_starts(self) -> tuple[ColumnCounts, ...]:
        """Where the blocks of each level start, coarse to fine; missing values are one block at every level."""
        cells = self.strategy.count
        last = np.arange(cells, cells + self.has_missing)
        return tuple(np.append(np.arange(0, cells, size), last) for size in self.strategy.sizes)

    def build_hierarchy(self, variances: Sequence[float]) -> BlockHierarchy:
        """The levels with the variance of their noise, under the known total."""
        top = np.zeros(1, dtype=np.int64)
        return BlockHierarchy(
            (top, *self.list_block_starts()), (0.0, *(max(variance, MIN_VARIANCE) for variance in variances))
        )


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
    """With its deviations."""
    hierarchy = tree.build_hierarchy([1 / weight**2 for weight in tree.strategy.weights])
    prefixes = tree.strategy.count - 1 + tree.has_missing
    prefix_count = min(prefixes, MAX_PREFIXES)
    ends = [(2 * place + 1) * prefixes // (2 * prefix_count) for place in range(prefix_count)]
    deviation = sum(math.sqrt(hierarchy.compute_range_variance(0, end)) for end in ends) / prefix_count
    absent = math.sqrt(hierarchy.compute_node_variances()[-1][-1]) if tree.has_missing else 0.0
    return replace(tree, deviation=deviation, missing_deviation=absent)
