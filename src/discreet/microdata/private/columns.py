"""What every private column has in common: a plan from public facts, whole numbers drawn once, and counts from those.

Proof: columns.md.
"""

from __future__ import annotations

import math
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from discreet.kernel.entropy import Entropy
from discreet.kernel.noise import Noise
from discreet.microdata.private.grid import ColumnGrid, Counts
from discreet.microdata.private.loss import PrivacyBudget
from discreet.query.released import RankRuns

INT64_LIMIT = 2**63
SERIES_THRESHOLD = 10**4
"""Of wider noise a float holds the clipped size only as a series."""


class ColumnPlan(Protocol):
    """How one column of `rows` rows is published; nothing it says depends on a row."""

    @property
    def grid(self) -> ColumnGrid:
        """Its public cells."""
        ...

    @property
    def rows(self) -> int:
        """How many rows are published."""
        ...

    @property
    def budget(self) -> PrivacyBudget:
        """What the whole column loses at most."""
        ...

    @property
    def name(self) -> str:
        """It in plain words."""
        ...

    @property
    def k(self) -> int | None:
        """How many rows a block has at least; None where there are no blocks of rows."""
        ...

    @property
    def error(self) -> float:
        """The error to expect: of the distribution in widths of the domain, or in total variation."""
        ...

    def measure(self, counts: Counts, entropy: Entropy) -> NDArray[np.int64]:
        """Noisy whole numbers from the exact counts of all cells."""
        ...

    def estimate_counts(self, outputs: NDArray[np.int64]) -> Counts:
        """Counts of all cells, from what was drawn alone: at least 0, adding up to the rows."""
        ...


def add_noise_to_totals(totals: NDArray[np.int64], noise: Noise, entropy: Entropy) -> NDArray[np.int64]:
    """Each total with noise of its own, in 64 bits: the word of a sum that does not fit is a function of the sum."""
    noise_units = noise.sample_units(len(totals), entropy)
    if noise_units.dtype != np.object_:
        return totals + noise_units.astype(np.int64)
    sums = totals.astype(np.object_) + noise_units
    return np.array([min(max(int(noisy_total), -INT64_LIMIT), INT64_LIMIT - 1) for noisy_total in sums], dtype=np.int64)


def compute_clipped_error(noise: float) -> float:
    """The mean size of what Laplace noise of mean size `noise` does to a number that is then clipped to 0..1.

    Of numbers anywhere between 0 and 1, E|clip(u + L) - u| = b (1 - b (1 - e^(-1/b))): at most 1/2.
    """
    if noise > SERIES_THRESHOLD:
        return 0.5 - 1 / (6 * noise)
    return noise * (1 + noise * math.expm1(-1 / noise))


def combine_errors(error: float, noise: float) -> float:
    """The mean size of the sum of an error of this size and of Laplace noise of this mean size: |u| + b e^(-|u|/b)."""
    return error + noise * math.exp(-error / noise)


def compute_block_edges(rows: int, k: int) -> NDArray[np.int64]:
    """The ranks at which fixed blocks of k from the low end start, and the end of the last, which has k to 2k - 1."""
    edges = k * np.arange(RankRuns.low_end(rows, k).low + 2, dtype=np.int64)
    edges[-1] = rows
    return edges
