"""A column of few values as noisy counts of all of them. Proof: columns.md."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from discreet.errors import InvalidInput
from discreet.inference.columns import project_counts
from discreet.kernel.entropy import Entropy
from discreet.kernel.noise import Noise
from discreet.microdata.private.columns import add_noise_to_totals
from discreet.microdata.private.grid import ColumnGrid, Counts
from discreet.microdata.private.loss import PrivacyBudget


@dataclass(frozen=True, slots=True)
class CategoryCounts:
    """The count of every cell; of two cells one, as the number of rows is public, and of one cell none."""

    grid: ColumnGrid
    rows: int
    budget: PrivacyBudget

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

    def compute_totals(self, counts: Counts) -> NDArray[np.int64]:
        """The exact counts that are measured. Secret."""
        return np.asarray(counts, dtype=np.int64)[: self.measured_count]

    def measure(self, counts: Counts, entropy: Entropy) -> NDArray[np.int64]:
        return add_noise_to_totals(self.compute_totals(counts), self.noise, entropy)

    def estimate_counts(self, outputs: NDArray[np.int64]) -> Counts:
        if self.grid.all_cell_count > 2:
            return project_counts(outputs, self.rows)
        clipped_count = np.clip(outputs, 0, self.rows)
        return np.append(clipped_count, self.rows - clipped_count.sum())
