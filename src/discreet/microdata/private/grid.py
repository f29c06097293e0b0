"""The public cells of a column: what its values are told apart by, whatever the rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from discreet.query.released import MISSING
from discreet.schema import Column

FINEST = 2**20
"""No column is told in more cells; a finer one is snapped to cells of several codes, which costs a millionth."""

Counts = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Grid:
    """`cells` runs of `width` codes each from `lower` on, the last perhaps shorter; then one for missing values."""

    column: str
    lower: int
    upper: int
    width: int
    cells: int
    missing: bool
    ordered: bool
    marks: tuple[int, ...] = ()
    """Cells that begin a run wherever cells are told in runs: the ends, which clipped values are moved to, and 0."""

    @staticmethod
    def of(column: Column, finest: int = FINEST) -> Grid:
        """The cells of a column, at most `finest` of them besides that of missing values."""
        width = -(-column.size // finest)
        cells = -(-column.size // width)
        ordered = column.ordered and column.kind != "boolean"
        grid = Grid(column.name, column.lower, column.upper, width, cells, column.nullable, ordered)
        return grid.marked([column.lower, column.upper, 0]) if ordered else grid

    def marked(self, codes: Sequence[int]) -> Grid:
        """With runs of their own for the cells of these codes, where they are in the domain."""
        cells = {(code - self.lower) // self.width for code in codes if self.lower <= code <= self.upper}
        return self.begun([start for cell in cells for start in (cell, cell + 1)])

    def begun(self, cells: Sequence[int]) -> Grid:
        """With runs that begin at these cells besides."""
        inside = {cell for cell in cells if 0 < cell < self.cells}
        return replace(self, marks=tuple(sorted({*self.marks, *inside})))

    @property
    def all_cells(self) -> int:
        """With that of missing values, which is the last."""
        return self.cells + self.missing

    def codes(self) -> NDArray[np.int64]:
        """The code that stands for each cell with a value: the middle one."""
        first = self.lower + self.width * np.arange(self.cells, dtype=np.int64)
        last = np.minimum(first + self.width - 1, self.upper)
        middle: NDArray[np.int64] = (first + last) // 2
        return middle

    def all_codes(self) -> NDArray[np.int64]:
        """With MISSING for the cell of missing values."""
        return np.append(self.codes(), [MISSING] * self.missing).astype(np.int64)
