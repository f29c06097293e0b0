"""An ordered column as noisy counts of nested blocks of its cells. Proof: columns.md."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from discreet.errors import InvalidInput
from discreet.inference.columns import NORMAL_MEAN_ERROR, CountTree, find_best_tree, fit_cumulative_counts
from discreet.kernel.entropy import Entropy
from discreet.kernel.noise import Noise
from discreet.microdata.private.columns import add_noise_to_totals, combine_errors, compute_clipped_error
from discreet.microdata.private.grid import ColumnGrid, Counts
from discreet.microdata.private.loss import PrivacyBudget

SHARE_UNITS = 10**6
"""Shares of a loss are told in millionths, so that they add up exactly."""


@lru_cache(64)
def _compute_edges(cells: int, run_count: int, marks: tuple[int, ...]) -> NDArray[np.int64]:
    """Kept: a plan is weighed at many losses, and its edges are the same at each."""
    even = np.arange(run_count + 1, dtype=np.int64) * cells // run_count
    edges = np.union1d(even, np.array(marks, dtype=np.int64))
    edges.flags.writeable = False
    return edges


@dataclass(frozen=True, slots=True)
class CumulativeCounts:
    """The cells, or `measured` even runs of them, counted alone and in nested blocks, missing values by themselves.

    The grid's marks cut runs further.
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
        return find_best_tree(
            len(self.edges) - 1, self.grid.has_missing, "laplace" if self.budget.is_pure else "gaussian"
        )

    @property
    def name(self) -> str:
        return f"cumulative counts of {len(self.edges) - 1:,} cells: {self.tree.strategy.name}"

    @property
    def k(self) -> None:
        """Counts have no blocks of rows."""
        return None

    @property
    def error_bound(self) -> float:
        """The mean of W1 at most, but for rounding: noise, and half a run; a missing value is a width away."""
        return min(
            1.0, self._within_run_error + self._noise_error * (self.tree.deviation + self.tree.missing_deviation)
        )

    @property
    def error(self) -> float:
        """The mean of W1 to expect: clipped noise, and half of what rows may be off inside a run."""
        present = combine_errors(
            self._within_run_error / 2, compute_clipped_error(self._noise_error * self.tree.deviation)
        )
        absent = (
            compute_clipped_error(self._noise_error * self.tree.missing_deviation) if self.grid.has_missing else 0.0
        )
        return min(1.0, present + absent)

    @property
    def _within_run_error(self) -> float:
        widest = -(-self.grid.cell_count // self.run_count) * self.grid.width
        return (widest - 1) / (2 * max(self.grid.upper - self.grid.lower, 1))

    @property
    def _noise_error(self) -> float:
        """The mean size of noise for a deviation of 1, as a share of the rows."""
        # One who moves changes two blocks of a level by 1, under either law.
        noise = (
            math.sqrt(8) / float(self.budget.epsilon) if self.budget.is_pure else 1 / math.sqrt(float(self.budget.rho))
        )
        return NORMAL_MEAN_ERROR * noise / self.rows

    @property
    def edges(self) -> NDArray[np.int64]:
        """The first cell of every run, and the end of the last: even ones, and those of the grid's marks."""
        return _compute_edges(self.grid.cell_count, self.run_count, self.grid.marks)

    @property
    def shares(self) -> tuple[Fraction, ...]:
        """The share of the loss that each level takes, coarse to fine."""
        power = 1 if self.budget.is_pure else 2
        leading_shares = [
            Fraction(max(1, round(weight**power * SHARE_UNITS)), SHARE_UNITS)
            for weight in self.tree.strategy.weights[:-1]
        ]
        return (*leading_shares, 1 - sum(leading_shares, Fraction(0)))

    @property
    def noises(self) -> tuple[Noise, ...]:
        """That of each level: one who moves changes two of its blocks by 1."""
        return tuple(self.budget.take_share(share).build_noise(2, 2) for share in self.shares)

    def compute_totals(self, counts: Counts) -> tuple[NDArray[np.int64], ...]:
        """The exact counts of the blocks of each level. Secret."""
        exact = np.asarray(counts, dtype=np.int64)
        leaves = np.append(
            np.add.reduceat(exact[: self.grid.cell_count], self.edges[:-1]), exact[self.grid.cell_count :]
        )
        return tuple(np.add.reduceat(leaves, starts) for starts in self.tree.list_block_starts())

    def measure(self, counts: Counts, entropy: Entropy) -> NDArray[np.int64]:
        levels = zip(self.compute_totals(counts), self.noises, strict=True)
        return np.concatenate([add_noise_to_totals(totals, noise, entropy) for totals, noise in levels])

    def estimate_counts(self, outputs: NDArray[np.int64]) -> Counts:
        ends = np.cumsum([0, *(len(starts) for starts in self.tree.list_block_starts())])
        levels = [outputs[first:last].astype(np.float64) for first, last in pairwise(ends.tolist())]
        nest = self.tree.build_hierarchy([noise.variance() for noise in self.noises])
        leaves = nest.estimate([np.array([float(self.rows)]), *levels])[-1]
        return fit_cumulative_counts(leaves, self.edges, self.rows)
