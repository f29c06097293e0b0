"""An ordered column as noisy sums of fixed blocks of its ranks. Proof: columns.md."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from discreet.errors import InvalidInput
from discreet.inference.columns import NORMAL_MEAN_ERROR, fit_ranked_counts
from discreet.kernel.entropy import Entropy
from discreet.kernel.noise import Noise
from discreet.microdata.private.columns import (
    add_noise_to_totals,
    combine_errors,
    compute_block_edges,
    compute_clipped_error,
)
from discreet.microdata.private.grid import ColumnGrid, Counts
from discreet.microdata.private.loss import PrivacyBudget

MONOTONE_ERROR_FACTOR = 0.7
"""Of many noisy means that are made to rise the error is about so many times the third root of noise^2 / blocks."""


@dataclass(frozen=True, slots=True)
class RankBlocks:
    """Blocks of k ranks from the low end, the last of k to 2k - 1: the sums of their values, with noise."""

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
        return combine_errors(
            self._within_block_error / 3, min(compute_clipped_error(self._noise_error), monotone_error)
        )

    @property
    def _within_block_error(self) -> float:
        largest = self.rows - self.k * (self.rows // self.k - 1)
        cell = (self.grid.width - 1) / (2 * (self.grid.upper - self.grid.lower))
        return largest / (2 * self.rows) + cell

    @property
    def _noise_error(self) -> float:
        """The mean over rows of the noise of their block's mean, and of its rounding."""
        return (
            self.rows // self.k / self.rows * (compute_mean_noise(self.budget) + 1 / (2 * (self.grid.cell_count - 1)))
        )

    def compute_totals(self, counts: Counts) -> NDArray[np.int64]:
        """The exact sum of cell numbers of each block. Secret."""
        cells = np.arange(self.grid.cell_count, dtype=np.int64)
        return np.diff(_sum_first_ranks(cells, np.asarray(counts, dtype=np.int64), self.edges))

    def measure(self, counts: Counts, entropy: Entropy) -> NDArray[np.int64]:
        return add_noise_to_totals(self.compute_totals(counts), self.noise, entropy)

    def estimate_counts(self, outputs: NDArray[np.int64]) -> Counts:
        return fit_ranked_counts(outputs, np.diff(self.edges), self.grid.cell_count)


def compute_mean_noise(budget: PrivacyBudget) -> float:
    """The mean size of noise for a sum that one person moves by 1."""
    return 1 / float(budget.epsilon) if budget.is_pure else NORMAL_MEAN_ERROR / math.sqrt(2 * float(budget.rho))


def choose_block_size(rows: int, budget: PrivacyBudget) -> int:
    """The k of the least bound k / 2n + noise / k: round(sqrt(2n / epsilon))."""
    return max(1, min(rows, round(math.sqrt(2 * rows * compute_mean_noise(budget)))))


def _sum_first_ranks(cells: NDArray[np.int64], counts: Counts, ranks: NDArray[np.int64]) -> NDArray[np.int64]:
    """The sum of the first so many values in order; the greatest cell stands for values that are not there."""
    cumulative_counts, sums = np.append(0, np.cumsum(counts)), np.append(0, np.cumsum(cells * counts))
    indices = np.minimum(np.searchsorted(cumulative_counts[1:], ranks, side="right"), len(cells) - 1)
    rank_sums: NDArray[np.int64] = sums[indices] + cells[indices] * (ranks - cumulative_counts[indices])
    return rank_sums
