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

from discreet.inference.nested import Law, Nest, Strategy, strategies

Array = NDArray[np.float64]
Counts = NDArray[np.int64]
NORMAL = math.sqrt(2 / math.pi)
"""The mean size of an error, in its standard deviations: at most this for sums of Laplace noises, this for Gaussian."""
PREFIXES = 97
"""The mean error of a cumulative count is taken over so many of them; a prime, so as not to fall on blocks' ends."""
FAR = 2**61
LEAST = 1e-12
"""A smaller variance cannot be divided by."""


def ranked_counts(sums: Counts, sizes: Counts, cells: int) -> Counts:
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


def projected_counts(noisy: Counts, rows: int) -> Counts:
    """The nearest whole counts of at least 0 that add up to `rows`: least squares, then largest remainders.

    All is exact. Of whole numbers less one threshold all remainders are alike, so the largest numbers are rounded up.
    """
    near = np.clip(noisy, -FAR, FAR)
    near = np.maximum(near - near.max(), -rows)  # what is farther below the greatest is 0 in any case
    order = np.argsort(-near, kind="stable")
    sums, places = np.cumsum(near[order]) - rows, np.arange(1, len(near) + 1)
    kept = int(np.flatnonzero(near[order] * places >= sums)[-1]) + 1
    threshold, over = divmod(int(sums[kept - 1]), kept)
    counts = np.zeros(len(near), dtype=np.int64)
    counts[order[:kept]] = near[order[:kept]] - threshold
    counts[order[kept - over : kept]] -= 1
    return counts


def cumulative_counts(leaves: Array, edges: Counts, rows: int) -> Counts:
    """The counts of every cell, from estimates of those of runs between `edges`, then of missing values, if any.

    The cumulative count is made to rise from 0 to the rows that are not missing; inside a run it rises evenly.
    """
    from scipy.optimize import isotonic_regression

    absent = np.clip(np.rint(leaves[len(edges) - 1 :]), 0, rows).astype(np.int64)
    present = rows - int(absent.sum())
    reached = isotonic_regression(np.cumsum(leaves[: len(edges) - 1])).x
    known = np.concatenate(([0.0], np.clip(np.rint(reached), 0, present)))
    known[-1] = present
    upto = np.rint(np.interp(np.arange(edges[-1] + 1), edges, known)).astype(np.int64)
    return np.concatenate((np.diff(upto), absent))


@dataclass(frozen=True, eq=False, slots=True)
class Tree:
    """What to measure of cells of a known total, so that cumulative counts are known best.

    The deviations are of a cumulative count, on average, and of the count of missing values, in those of noise at
    weight 1.
    """

    strategy: Strategy
    missing: bool
    deviation: float = 0.0
    missing_deviation: float = 0.0

    def starts(self) -> tuple[Counts, ...]:
        """Where the blocks of each level start, coarse to fine; missing values are one block at every level."""
        cells = self.strategy.count
        last = np.arange(cells, cells + self.missing)
        return tuple(np.append(np.arange(0, cells, size), last) for size in self.strategy.sizes)

    def nest(self, variances: Sequence[float]) -> Nest:
        """The levels with the variance of their noise, under the known total."""
        top = np.zeros(1, dtype=np.int64)
        return Nest((top, *self.starts()), (0.0, *(max(variance, LEAST) for variance in variances)))


@lru_cache(maxsize=1024)
def best_tree(cells: int, missing: bool, law: Law) -> Tree:
    """Every cell alone or also blocks, whichever knows cumulative counts better; of at least two cells, or missing."""
    found = [_measured(Tree(one, missing)) for one in strategies(cells, law, True) if one.kind != "wavelet"]
    return min(found, key=lambda tree: tree.deviation)


def _measured(tree: Tree) -> Tree:
    """With its deviations."""
    nest = tree.nest([1 / weight**2 for weight in tree.strategy.weights])
    prefixes = tree.strategy.count - 1 + tree.missing
    many = min(prefixes, PREFIXES)
    ends = [(2 * place + 1) * prefixes // (2 * many) for place in range(many)]
    deviation = sum(math.sqrt(nest.range_variance(0, end)) for end in ends) / many
    absent = math.sqrt(nest.node_variances()[-1][-1]) if tree.missing else 0.0
    return replace(tree, deviation=deviation, missing_deviation=absent)
