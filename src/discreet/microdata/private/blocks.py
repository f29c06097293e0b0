"""An ordered column as noisy sums of fixed blocks of its ranks. Proof: columns.md."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from discreet.errors import InvalidInput
from discreet.inference.columns import NORMAL, ranked_counts
from discreet.kernel.entropy import Entropy
from discreet.kernel.noise import Noise
from discreet.microdata.private.columns import block_edges, clipped, noisy, together
from discreet.microdata.private.grid import Counts, Grid
from discreet.microdata.private.loss import Loss

RISEN = 0.7
"""Of many noisy means that are made to rise the error is about so many times the third root of noise^2 / blocks."""


@dataclass(frozen=True, slots=True)
class RankBlocks:
    """Blocks of k ranks from the low end, the last of k to 2k - 1: the sums of their values, with noise."""

    grid: Grid
    rows: int
    k: int
    loss: Loss

    def __post_init__(self) -> None:
        if not self.grid.ordered or self.grid.missing or self.grid.cells < 2:
            raise InvalidInput("rank blocks are of a column with an order, without missing values, of several values")
        if not 1 <= self.k <= self.rows:
            raise InvalidInput(f"a rank block has 1 to {self.rows} rows, as many as there are; choose such a k")

    @property
    def name(self) -> str:
        return f"rank blocks of {self.k:,}"

    @property
    def noise(self) -> Noise:
        """One person moves all sums together by at most the width of the domain."""
        width = self.grid.cells - 1
        return self.loss.noise(width, width**2)

    @property
    def edges(self) -> NDArray[np.int64]:
        """The first rank of every block, and the end of the last."""
        return block_edges(self.rows, self.k)

    @property
    def bound(self) -> float:
        """The mean of W1 at most: half the largest block, the noise of the blocks' means, rounding, half a cell."""
        return min(1.0, self._inside + self._noise)

    @property
    def error(self) -> float:
        """The mean of W1 to expect: noise, clipped and made to rise, and a third of what rows may be off in blocks."""
        risen = RISEN * (self._noise**2 / (self.rows // self.k)) ** (1 / 3)
        return together(self._inside / 3, min(clipped(self._noise), risen))

    @property
    def _inside(self) -> float:
        largest = self.rows - self.k * (self.rows // self.k - 1)
        cell = (self.grid.width - 1) / (2 * (self.grid.upper - self.grid.lower))
        return largest / (2 * self.rows) + cell

    @property
    def _noise(self) -> float:
        """The mean over rows of the noise of their block's mean, and of its rounding."""
        return self.rows // self.k / self.rows * (reach(self.loss) + 1 / (2 * (self.grid.cells - 1)))

    def totals(self, counts: Counts) -> NDArray[np.int64]:
        """The exact sum of cell numbers of each block. Secret."""
        cells = np.arange(self.grid.cells, dtype=np.int64)
        return np.diff(_sums_of_first(cells, np.asarray(counts, dtype=np.int64), self.edges))

    def draw(self, counts: Counts, entropy: Entropy) -> NDArray[np.int64]:
        return noisy(self.totals(counts), self.noise, entropy)

    def estimate(self, drawn: NDArray[np.int64]) -> Counts:
        return ranked_counts(drawn, np.diff(self.edges), self.grid.cells)


def reach(loss: Loss) -> float:
    """The mean size of noise for a sum that one person moves by 1."""
    return 1 / float(loss.epsilon) if loss.pure else NORMAL / math.sqrt(2 * float(loss.rho))


def best_k(rows: int, loss: Loss) -> int:
    """The k of the least bound k / 2n + noise / k: round(sqrt(2n / epsilon))."""
    return max(1, min(rows, round(math.sqrt(2 * rows * reach(loss)))))


def _sums_of_first(cells: NDArray[np.int64], counts: Counts, ranks: NDArray[np.int64]) -> NDArray[np.int64]:
    """The sum of the first so many values in order; the greatest cell stands for values that are not there."""
    many, sums = np.append(0, np.cumsum(counts)), np.append(0, np.cumsum(cells * counts))
    at = np.minimum(np.searchsorted(many[1:], ranks, side="right"), len(cells) - 1)
    found: NDArray[np.int64] = sums[at] + cells[at] * (ranks - many[at])
    return found
