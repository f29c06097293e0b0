"""The public cells of a column: what its values are told apart by, whatever the rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from discreet.query.released import MISSING_CODE
from discreet.schema import Column

MAX_CELLS = 2**20
"""No column is told in more cells; a finer one is snapped to cells of several codes, which costs a millionth."""

Counts = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class ColumnGrid:
    """`cells` runs of `width` codes each from `lower` on, the last perhaps shorter; then one for missing values."""

    column: str
    lower: int
    upper: int
    width: int
    cell_count: int
    has_missing: bool
    is_ordered: bool
    marks: tuple[int, ...] = ()
    """Cells that begin a run wherever cells are told in runs: the ends, which clipped values are moved to, and 0."""

    @staticmethod
    def of(column: Column, finest: int = MAX_CELLS) -> ColumnGrid:
        """The cells of a column, at most `finest` of them besides that of missing values."""
        width = -(-column.size // finest)
        cell_count = -(-column.size // width)
        is_ordered = column.is_ordered and column.kind != "boolean"
        grid = ColumnGrid(column.name, column.lower, column.upper, width, cell_count, column.is_nullable, is_ordered)
        return grid.mark_codes([column.lower, column.upper, 0]) if is_ordered else grid

    def mark_codes(self, codes: Sequence[int]) -> ColumnGrid:
        """With runs of their own for the cells of these codes, where they are in the domain."""
        cells = {(code - self.lower) // self.width for code in codes if self.lower <= code <= self.upper}
        return self.mark_cells([start for cell in cells for start in (cell, cell + 1)])

    def mark_cells(self, cells: Sequence[int]) -> ColumnGrid:
        """With runs that begin at these cells besides."""
        inside = {cell for cell in cells if 0 < cell < self.cell_count}
        return replace(self, marks=tuple(sorted({*self.marks, *inside})))

    @property
    def all_cell_count(self) -> int:
        """With that of missing values, which is the last."""
        return self.cell_count + self.has_missing

    def compute_codes(self) -> NDArray[np.int64]:
        """The code that stands for each cell with a value: the middle one."""
        first = self.lower + self.width * np.arange(self.cell_count, dtype=np.int64)
        last = np.minimum(first + self.width - 1, self.upper)
        middle: NDArray[np.int64] = (first + last) // 2
        return middle

    def compute_all_codes(self) -> NDArray[np.int64]:
        """With MISSING for the cell of missing values."""
        return np.append(self.compute_codes(), [MISSING_CODE] * self.has_missing).astype(np.int64)
