"""A column as one side of the curve's cube: where each of its cells lies, and how far apart names are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from discreet.errors import InvalidInput
from discreet.microdata.distances import differences
from discreet.microdata.private.grid import Grid
from discreet.microdata.private.ordered import depth_first
from discreet.schema import Column

MOST_NAMES = 256
"""A nominal column with more categories is refused: every pair of them is compared with every third."""
FINENESS = 100
"""Distances between names are whole numbers of such parts, so that scores are whole."""

Matrix = tuple[tuple[int, ...], ...]


@dataclass(frozen=True, slots=True)
class Axis:
    """The cells of a column, spread evenly over the places 0 to 2^bits - 1; names in `line`, so far `apart`.

    Ordered columns lie in their own order and have neither. Names lie in the depth-first order of their taxonomy.
    """

    grid: Grid
    line: tuple[int, ...] = ()
    apart: Matrix = ()

    @staticmethod
    def of(column: Column, bits: int) -> Axis:
        """A column told in at most 2^bits cells; names are all told apart."""
        if column.private_keys:
            raise InvalidInput(f"the values of {column.name} are not public, so they have no place on a curve")
        grid = Grid.of(column, 2**bits)
        if grid.ordered:
            return Axis(grid)
        if column.size > MOST_NAMES:
            raise InvalidInput(
                f"{column.name} has {column.size} categories, private records take at most {MOST_NAMES}; "
                "generalise it first"
            )
        order = depth_first(column)
        line = tuple(sorted(range(column.size), key=order.__getitem__))
        return Axis(Grid.of(column, MOST_NAMES), line, _whole_distances(column))

    @property
    def named(self) -> bool:
        """Whether the values are names, which have no sum."""
        return bool(self.apart)

    @property
    def middle(self) -> int:
        """The cell that a missing value counts as: the middle one, or the name that is least far from all others."""
        return int(np.array(self.apart).sum(axis=0).argmin()) if self.named else (self.grid.cells - 1) // 2

    def places(self, bits: int) -> NDArray[np.int64]:
        """Where each cell lies on the side of the cube: in order, the first at 0 and the last at the far end."""
        ranks = np.array(self.line or range(self.grid.cells), dtype=np.int64)
        places: NDArray[np.int64] = ranks * (2**bits - 1) // max(self.grid.cells - 1, 1)
        return places

    def most(self) -> int:
        """The most by which the scores of two names can move apart where one record gives way to another."""
        return max(max(row) for row in _ranges(self.apart))

    def slope(self, bits: int) -> Fraction | None:
        """The same for each place between the two records, at most; None where two names have one place."""
        places, moves = self.places(bits), np.array(_ranges(self.apart))
        one, two = np.nonzero(moves)
        gaps = np.abs(places[one] - places[two])
        if (gaps == 0).any():
            return None
        pairs = zip(moves[one, two].tolist(), gaps.tolist(), strict=True)
        return max((Fraction(move, gap) for move, gap in set(pairs)), default=Fraction(0))


def _whole_distances(column: Column) -> Matrix:
    """Formula 6.6 in whole parts of its unit; nothing rests on their being a metric (records.md)."""
    apart = differences(column.taxonomy, column.categories, column.categories)
    return tuple(tuple(row) for row in np.rint(FINENESS * apart).astype(np.int64).tolist())


@lru_cache(maxsize=64)
def _ranges(apart: Matrix) -> Sequence[Sequence[int]]:
    """For every two names, by how much the scores of any two candidates move apart where the one replaces the other."""
    matrix = np.array(apart, dtype=np.int64)
    moves = [matrix - matrix[:, [name]] for name in range(len(matrix))]  # candidates in rows, the new name in columns
    return tuple(tuple((move.max(axis=0) - move.min(axis=0)).tolist()) for move in moves)
