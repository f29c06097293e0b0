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
from discreet.inference.columns import NORMAL, Tree, best_tree, cumulative_counts
from discreet.kernel.entropy import Entropy
from discreet.kernel.noise import Noise
from discreet.microdata.private.columns import clipped, noisy, together
from discreet.microdata.private.grid import Counts, Grid
from discreet.microdata.private.loss import Loss

FINEST = 10**6
"""Shares of a loss are told in millionths, so that they add up exactly."""


@lru_cache(64)
def _edges(cells: int, measured: int, marks: tuple[int, ...]) -> NDArray[np.int64]:
    """Kept: a plan is weighed at many losses, and its edges are the same at each."""
    even = np.arange(measured + 1, dtype=np.int64) * cells // measured
    found = np.union1d(even, np.array(marks, dtype=np.int64))
    found.flags.writeable = False
    return found


@dataclass(frozen=True, slots=True)
class Cumulative:
    """The cells, or `measured` even runs of them, counted alone and in nested blocks, missing values by themselves.

    The grid's marks cut runs further.
    """

    grid: Grid
    rows: int
    measured: int
    loss: Loss

    def __post_init__(self) -> None:
        if not self.grid.ordered or not 1 <= self.measured <= self.grid.cells:
            raise InvalidInput(
                "a cumulative count is of a column with an order, of at most as many runs as it has cells"
            )
        if self.measured + self.grid.missing < 2 or self.rows < 1:
            raise InvalidInput("a cumulative count is of at least one row and two cells; one cell holds all rows")

    @property
    def tree(self) -> Tree:
        """The levels that are measured."""
        return best_tree(len(self.edges) - 1, self.grid.missing, "laplace" if self.loss.pure else "gaussian")

    @property
    def name(self) -> str:
        return f"cumulative counts of {len(self.edges) - 1:,} cells: {self.tree.strategy.name}"

    @property
    def k(self) -> None:
        """Counts have no blocks of rows."""
        return None

    @property
    def bound(self) -> float:
        """The mean of W1 at most, but for rounding: noise, and half a run; a missing value is a width away."""
        return min(1.0, self._inside + self._noise * (self.tree.deviation + self.tree.missing_deviation))

    @property
    def error(self) -> float:
        """The mean of W1 to expect: clipped noise, and half of what rows may be off inside a run."""
        present = together(self._inside / 2, clipped(self._noise * self.tree.deviation))
        absent = clipped(self._noise * self.tree.missing_deviation) if self.grid.missing else 0.0
        return min(1.0, present + absent)

    @property
    def _inside(self) -> float:
        widest = -(-self.grid.cells // self.measured) * self.grid.width
        return (widest - 1) / (2 * max(self.grid.upper - self.grid.lower, 1))

    @property
    def _noise(self) -> float:
        """The mean size of noise for a deviation of 1, as a share of the rows."""
        # One who moves changes two blocks of a level by 1, under either law.
        noise = math.sqrt(8) / float(self.loss.epsilon) if self.loss.pure else 1 / math.sqrt(float(self.loss.rho))
        return NORMAL * noise / self.rows

    @property
    def edges(self) -> NDArray[np.int64]:
        """The first cell of every run, and the end of the last: even ones, and those of the grid's marks."""
        return _edges(self.grid.cells, self.measured, self.grid.marks)

    @property
    def shares(self) -> tuple[Fraction, ...]:
        """The share of the loss that each level takes, coarse to fine."""
        power = 1 if self.loss.pure else 2
        told = [Fraction(max(1, round(weight**power * FINEST)), FINEST) for weight in self.tree.strategy.weights[:-1]]
        return (*told, 1 - sum(told, Fraction(0)))

    @property
    def noises(self) -> tuple[Noise, ...]:
        """That of each level: one who moves changes two of its blocks by 1."""
        return tuple(self.loss.part(share).noise(2, 2) for share in self.shares)

    def totals(self, counts: Counts) -> tuple[NDArray[np.int64], ...]:
        """The exact counts of the blocks of each level. Secret."""
        exact = np.asarray(counts, dtype=np.int64)
        leaves = np.append(np.add.reduceat(exact[: self.grid.cells], self.edges[:-1]), exact[self.grid.cells :])
        return tuple(np.add.reduceat(leaves, starts) for starts in self.tree.starts())

    def draw(self, counts: Counts, entropy: Entropy) -> NDArray[np.int64]:
        levels = zip(self.totals(counts), self.noises, strict=True)
        return np.concatenate([noisy(totals, noise, entropy) for totals, noise in levels])

    def estimate(self, drawn: NDArray[np.int64]) -> Counts:
        ends = np.cumsum([0, *(len(starts) for starts in self.tree.starts())])
        levels = [drawn[first:last].astype(np.float64) for first, last in pairwise(ends.tolist())]
        nest = self.tree.nest([noise.variance() for noise in self.noises])
        leaves = nest.estimate([np.array([float(self.rows)]), *levels])[-1]
        return cumulative_counts(leaves, self.edges, self.rows)
