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
from discreet.microdata.private.grid import Counts, Grid
from discreet.microdata.private.loss import Loss
from discreet.query.released import Runs

WORD = 2**63
FLAT = 10**4
"""Of wider noise a float holds the clipped size only as a series."""


class ColumnPlan(Protocol):
    """How one column of `rows` rows is published; nothing it says depends on a row."""

    @property
    def grid(self) -> Grid:
        """Its public cells."""
        ...

    @property
    def rows(self) -> int:
        """How many rows are published."""
        ...

    @property
    def loss(self) -> Loss:
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

    def draw(self, counts: Counts, entropy: Entropy) -> NDArray[np.int64]:
        """Noisy whole numbers from the exact counts of all cells."""
        ...

    def estimate(self, drawn: NDArray[np.int64]) -> Counts:
        """Counts of all cells, from what was drawn alone: at least 0, adding up to the rows."""
        ...


def noisy(totals: NDArray[np.int64], noise: Noise, entropy: Entropy) -> NDArray[np.int64]:
    """Each total with noise of its own, in 64 bits: the word of a sum that does not fit is a function of the sum."""
    drawn = noise.draw_units(len(totals), entropy)
    if drawn.dtype != np.object_:
        return totals + drawn.astype(np.int64)
    sums = totals.astype(np.object_) + drawn
    return np.array([min(max(int(one), -WORD), WORD - 1) for one in sums], dtype=np.int64)


def clipped(noise: float) -> float:
    """The mean size of what Laplace noise of mean size `noise` does to a number that is then clipped to 0..1.

    Of numbers anywhere between 0 and 1, E|clip(u + L) - u| = b (1 - b (1 - e^(-1/b))): at most 1/2.
    """
    if noise > FLAT:
        return 0.5 - 1 / (6 * noise)
    return noise * (1 + noise * math.expm1(-1 / noise))


def together(inside: float, noise: float) -> float:
    """The mean size of the sum of an error of this size and of Laplace noise of this mean size: |u| + b e^(-|u|/b)."""
    return inside + noise * math.exp(-inside / noise)


def block_edges(rows: int, k: int) -> NDArray[np.int64]:
    """The ranks at which fixed blocks of k from the low end start, and the end of the last, which has k to 2k - 1."""
    edges = k * np.arange(Runs.low_end(rows, k).low + 2, dtype=np.int64)
    edges[-1] = rows
    return edges
