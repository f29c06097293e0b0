"""The common parts of all columns of a DP synthetic file: the public grid, the budget, the plan.

Proof: columns.md.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from discreet.errors import InvalidInput
from discreet.mechanisms.discrete_gaussian import DiscreteGaussian
from discreet.mechanisms.discrete_laplace import DiscreteLaplace
from discreet.mechanisms.entropy import Entropy
from discreet.mechanisms.noise import Noise
from discreet.query.scan import MISSING_CODE, RankRuns
from discreet.schema import Column
from discreet.untrusted import CheckedValue, copy_exact_number, set_fields

MAX_CELLS = 2**20
"""No grid has more cells; a wider domain is snapped to cells of several codes, which costs a millionth of its width."""

Counts = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class ColumnGrid:
    """The public cells of a column: runs of `width` codes each, the last perhaps shorter; then one for missing values.

    `ColumnGrid.of` makes it from a column of a schema.

    Args:
        column: The name of the column.
        lower: The lowest code.
        upper: The highest code.
        width: The codes of one cell.
        cell_count: The number of cells, without that of missing values.
        has_missing: Whether values may be missing.
        is_ordered: Whether the codes have an order.
        marks: Cells that begin a run wherever cells are counted in runs: the ends, which clipped values are moved to,
            and 0.

    Example:
        >>> from discreet.synthetic import ColumnGrid
        >>> grid = ColumnGrid("stay", lower=0, upper=30, width=10, cell_count=4, has_missing=True, is_ordered=True)
        >>> grid.all_cell_count, grid.compute_codes().tolist()
        (5, [4, 14, 24, 30])
    """

    column: str
    lower: int
    upper: int
    width: int
    cell_count: int
    has_missing: bool
    is_ordered: bool
    marks: tuple[int, ...] = ()
    """Cells that begin a run wherever cells are counted in runs: the ends, which clipped values are moved to, and 0."""

    @staticmethod
    def of(column: Column, finest: int = MAX_CELLS) -> ColumnGrid:
        """The cells of a column, at most `finest` of them besides that of missing values."""
        width = -(-column.size // finest)
        cell_count = -(-column.size // width)
        is_ordered = column.is_ordered and column.kind != "boolean"
        grid = ColumnGrid(column.name, column.lower, column.upper, width, cell_count, column.is_nullable, is_ordered)
        return grid.mark_codes([column.lower, column.upper, 0]) if is_ordered else grid

    def mark_codes(self, codes: Sequence[int]) -> ColumnGrid:
        """The grid with runs of their own for the cells of these codes, where they are in the domain."""
        cells = {(code - self.lower) // self.width for code in codes if self.lower <= code <= self.upper}
        return self.mark_cells([start for cell in cells for start in (cell, cell + 1)])

    def mark_cells(self, cells: Sequence[int]) -> ColumnGrid:
        """The grid with more runs, which begin at these cells."""
        inside = {cell for cell in cells if 0 < cell < self.cell_count}
        return replace(self, marks=tuple(sorted({*self.marks, *inside})))

    @property
    def all_cell_count(self) -> int:
        """The number of cells with that of missing values, which is the last."""
        return self.cell_count + self.has_missing

    def compute_codes(self) -> NDArray[np.int64]:
        """The code that stands for each cell with a value: the middle one."""
        first = self.lower + self.width * np.arange(self.cell_count, dtype=np.int64)
        last = np.minimum(first + self.width - 1, self.upper)
        return (first + last) // 2

    def compute_all_codes(self) -> NDArray[np.int64]:
        """The code that stands for each cell, MISSING_CODE for that of missing values."""
        return np.append(self.compute_codes(), [MISSING_CODE] * self.has_missing).astype(np.int64)


ZERO = Fraction(0)
RHO_ROOT_UNITS = 2**40
"""The root of a rho is rounded down to a multiple of one over this."""


@dataclass(frozen=True, slots=True)
class PrivacyBudget(CheckedValue):
    """A privacy budget of a synthetic file or a part of it: an `epsilon`, or a `rho` of zCDP.

    Args:
        epsilon: The budget under pure DP.
        rho: The budget under zCDP.

    Raises:
        InvalidInput: Both are given, neither is, or one is below 0.

    Example:
        >>> from fractions import Fraction
        >>> from discreet.synthetic import PrivacyBudget
        >>> PrivacyBudget(epsilon=1).take_share(Fraction(1, 4)).epsilon
        Fraction(1, 4)
    """

    epsilon: Fraction = ZERO
    rho: Fraction = ZERO

    def __post_init__(self) -> None:
        set_fields(self, epsilon=copy_exact_number(self.epsilon, "epsilon"), rho=copy_exact_number(self.rho, "rho"))
        if (self.epsilon > 0) == (self.rho > 0) or min(self.epsilon, self.rho) < 0:
            raise InvalidInput("a loss is an epsilon or a rho above 0, and not both")

    @property
    def is_pure(self) -> bool:
        """Whether it is an epsilon."""
        return self.epsilon > 0

    def take_share(self, share: Fraction) -> PrivacyBudget:
        """A share of it; shares of a budget add up, under pure DP and zCDP alike."""
        return PrivacyBudget(self.epsilon * share, self.rho * share)

    def build_noise(self, l1: int, squared_l2: int) -> Noise:
        """For whole numbers that one person moves by at most so much: `l1` in all, `squared_l2` in squares."""
        if self.is_pure:
            return DiscreteLaplace(self.epsilon, l1)
        return DiscreteGaussian(Fraction(squared_l2) / (2 * self.rho), 1, Fraction(1))

    def compute_choice_epsilon(self) -> Fraction:
        """The epsilon of one choice by the exponential mechanism: epsilon^2 / 8 of zCDP (exponential_mechanism.md)."""
        if self.is_pure:
            return self.epsilon
        return Fraction(math.isqrt(math.floor(8 * self.rho * RHO_ROOT_UNITS**2)), RHO_ROOT_UNITS)


INT64_LIMIT = 2**63
SERIES_THRESHOLD = 10**4
"""A float holds the clipped size of wider noise only as a series."""


class ColumnPlan(Protocol):
    """Protocol of a plan for one synthetic column; nothing in it depends on a row.

    Attributes:
        grid: The public cells.
        rows: The number of rows that are published.
        budget: The most that the whole column costs.
        name: The method in words.
        k: The minimum number of rows in a block; None where there are no blocks.
        error: The expected error: of the distribution in widths of the domain, or in total variation.

    Example:
        >>> from discreet.synthetic import CategoryCounts, ColumnGrid, ColumnPlan, PrivacyBudget
        >>> grid = ColumnGrid("town", lower=0, upper=4, width=1, cell_count=5, has_missing=False, is_ordered=False)
        >>> plan: ColumnPlan = CategoryCounts(grid, rows=1000, budget=PrivacyBudget(epsilon=1))
        >>> plan.error < 0.02
        True
    """

    @property
    def grid(self) -> ColumnGrid:
        """Its public cells."""

    @property
    def rows(self) -> int:
        """How many rows are published."""

    @property
    def budget(self) -> PrivacyBudget:
        """The most that the whole column costs."""

    @property
    def name(self) -> str:
        """The method in plain words."""

    @property
    def k(self) -> int | None:
        """How many rows a block has at least; None where there are no blocks of rows."""

    @property
    def error(self) -> float:
        """The error to expect: of the distribution in widths of the domain, or in total variation."""

    def measure(self, counts: Counts, entropy: Entropy) -> NDArray[np.int64]:
        """Noisy whole numbers from the exact counts of all cells."""

    def estimate_counts(self, outputs: NDArray[np.int64]) -> Counts:
        """Counts of all cells from the noisy numbers alone: at least 0, adding up to the rows."""


def add_noise_to_totals(totals: NDArray[np.int64], noise: Noise, entropy: Entropy) -> NDArray[np.int64]:
    """Add independent noise to each total, in 64 bits: what does not fit is clipped, a function of the noisy sum."""
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
