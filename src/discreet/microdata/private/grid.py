"""The public cells of a column: what its values are told apart by, whatever the rows."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

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

    @staticmethod
    def of(column: Column, finest: int = FINEST) -> Grid:
        """The cells of a column, at most `finest` of them besides that of missing values."""
        width = -(-column.size // finest)
        cells = -(-column.size // width)
        ordered = column.ordered and column.kind != "boolean"
        return Grid(column.name, column.lower, column.upper, width, cells, column.nullable, ordered)

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
