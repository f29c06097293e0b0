"""A column as one side of the curve's cube: where each of its cells lies, and how far apart names are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from discreet.errors import InvalidInput
from discreet.microdata.distances import compute_semantic_distances
from discreet.microdata.private.grid import ColumnGrid
from discreet.microdata.private.ordered import order_depth_first
from discreet.schema import Column

MAX_NAMES = 256
"""A nominal column with more categories is refused: every pair of them is compared with every third."""
DISTANCE_UNITS = 100
"""Distances between names are whole numbers of such parts, so that scores are whole."""

Matrix = tuple[tuple[int, ...], ...]


@dataclass(frozen=True, slots=True)
class CurveAxis:
    """The cells of a column, spread evenly over the places 0 to 2^bits - 1; names in `line`, so far `apart`.

    Ordered columns lie in their own order and have neither. Names lie in the depth-first order of their taxonomy.
    """

    grid: ColumnGrid
    name_ranks: tuple[int, ...] = ()
    distances: Matrix = ()

    @staticmethod
    def of(column: Column, bits: int) -> CurveAxis:
        """A column told in at most 2^bits cells; names are all told apart."""
        if column.private_keys:
            raise InvalidInput(f"the values of {column.name} are not public, so they have no place on a curve")
        grid = ColumnGrid.of(column, 2**bits)
        if grid.is_ordered:
            return CurveAxis(grid)
        if column.size > MAX_NAMES:
            raise InvalidInput(
                f"{column.name} has {column.size} categories, private records take at most {MAX_NAMES}; "
                "generalise it first"
            )
        order = order_depth_first(column)
        name_ranks = tuple(sorted(range(column.size), key=order.__getitem__))
        return CurveAxis(ColumnGrid.of(column, MAX_NAMES), name_ranks, _compute_integer_distances(column))

    @property
    def is_nominal(self) -> bool:
        """Whether the values are names, which have no sum."""
        return bool(self.distances)

    @property
    def middle(self) -> int:
        """The cell that a missing value counts as: the middle one, or the name that is least far from all others."""
        return (
            int(np.array(self.distances).sum(axis=0).argmin()) if self.is_nominal else (self.grid.cell_count - 1) // 2
        )

    def compute_places(self, bits: int) -> NDArray[np.int64]:
        """Where each cell lies on the side of the cube: in order, the first at 0 and the last at the far end."""
        ranks = np.array(self.name_ranks or range(self.grid.cell_count), dtype=np.int64)
        places: NDArray[np.int64] = ranks * (2**bits - 1) // max(self.grid.cell_count - 1, 1)
        return places

    def compute_max_change(self) -> int:
        """The most by which the scores of two names can move apart where one record gives way to another."""
        return max(max(row) for row in _compute_score_ranges(self.distances))

    def compute_slope(self, bits: int) -> Fraction | None:
        """The same for each place between the two records, at most; None where two names have one place."""
        places, moves = self.compute_places(bits), np.array(_compute_score_ranges(self.distances))
        first, second = np.nonzero(moves)
        gaps = np.abs(places[first] - places[second])
        if (gaps == 0).any():
            return None
        pairs = zip(moves[first, second].tolist(), gaps.tolist(), strict=True)
        return max((Fraction(move, gap) for move, gap in set(pairs)), default=Fraction(0))


def _compute_integer_distances(column: Column) -> Matrix:
    """Formula 6.6 in whole parts of its unit; nothing rests on their being a metric (records.md)."""
    distances = compute_semantic_distances(column.taxonomy, column.categories, column.categories)
    return tuple(tuple(row) for row in np.rint(DISTANCE_UNITS * distances).astype(np.int64).tolist())


@lru_cache(maxsize=64)
def _compute_score_ranges(distances: Matrix) -> Sequence[Sequence[int]]:
    """For every two names, by how much the scores of any two candidates move apart where the one replaces the other."""
    matrix = np.array(distances, dtype=np.int64)
    moves = [matrix - matrix[:, [name]] for name in range(len(matrix))]  # candidates in rows, the new name in columns
    return tuple(tuple((move.max(axis=0) - move.min(axis=0)).tolist()) for move in moves)
