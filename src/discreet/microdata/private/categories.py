"""A column of few values as noisy counts of all of them. Proof: columns.md."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from discreet.errors import InvalidInput
from discreet.inference.columns import projected_counts
from discreet.kernel.entropy import Entropy
from discreet.kernel.noise import Noise
from discreet.microdata.private.columns import noisy
from discreet.microdata.private.grid import Counts, Grid
from discreet.microdata.private.loss import Loss


@dataclass(frozen=True, slots=True)
class Categories:
    """The count of every cell; of two cells one, as the number of rows is public, and of one cell none."""

    grid: Grid
    rows: int
    loss: Loss

    def __post_init__(self) -> None:
        if self.rows < 1:
            raise InvalidInput("a column is published of at least one row")

    @property
    def name(self) -> str:
        return "a count of every category"

    @property
    def k(self) -> None:
        """Counts have no blocks of rows."""
        return None

    @property
    def measured(self) -> int:
        """How many counts are measured."""
        cells = self.grid.all_cells
        return cells if cells > 2 else cells - 1

    @property
    def noise(self) -> Noise:
        """One who moves changes two counts by 1, or the only one that is measured."""
        moved = min(self.measured, 2) or 1
        return self.loss.noise(moved, moved)

    @property
    def error(self) -> float:
        """The total variation to expect, before negative counts are mended; also W1 of two cells."""
        cells = self.measured if self.measured != 1 else 2
        return min(1.0, cells * self.noise.expected_error() / (2 * self.rows)) if self.measured else 0.0

    def totals(self, counts: Counts) -> NDArray[np.int64]:
        """The exact counts that are measured. Secret."""
        return np.asarray(counts, dtype=np.int64)[: self.measured]

    def draw(self, counts: Counts, entropy: Entropy) -> NDArray[np.int64]:
        return noisy(self.totals(counts), self.noise, entropy)

    def estimate(self, drawn: NDArray[np.int64]) -> Counts:
        if self.grid.all_cells > 2:
            return projected_counts(drawn, self.rows)
        own = np.clip(drawn, 0, self.rows)
        return np.append(own, self.rows - own.sum())
