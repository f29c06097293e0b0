"""Shapes laid on the cells of a grid: how likely each cell is, and which of its grid points stands for it.

A cell holds one or more consecutive points of the grid. A shape with ends holds possible exactly the points from end to
end; which these are is decided in exact arithmetic, so that rounding never makes a value possible that lies beyond an
end. How likely a cell is may be approximate.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from discreet.prior import Array, Grid
from discreet.shapes import MIN_POSITIVE, ShapeMixture, ShapeTerm

NEGLIGIBLE_MASS = 1e-12
"""A shape of which less than this lies in the range says nothing about it, and is left out."""
HALF_STEP = Fraction(1, 2)
PlaceArray = NDArray[np.int64]
PlaceRange = tuple[int, int]
"""The first and the last of consecutive places on a grid; none where the last is before the first."""


@dataclass(frozen=True, eq=False, slots=True)
class GridCells:
    """Cells of consecutive places on a grid: from each of `cuts` to before the next, and the place in its middle.

    `within` are the first and the last place that a value may have, where the outermost cells reach beyond them.
    """

    grid: Grid
    cuts: PlaceArray
    middles: PlaceArray
    value_range: PlaceRange

    def compute_edges(self, selection: slice = slice(None)) -> Array:
        """The numbers half way between the last place of a cell and the first of the next, for some of the cuts."""
        return float(self.grid.origin) + float(self.grid.step) * (self.cuts[selection].astype(np.float64) - 0.5)

    def find_places(self, low: Fraction, high: Fraction) -> PlaceRange:
        """The places of the grid from low to high."""
        first, last = ((end - self.grid.origin) / self.grid.step for end in (low, high))
        return math.ceil(first), math.floor(last)

    def find_cells(self, first: int, last: int) -> slice:
        """The cells that hold the places from first to last."""
        start, stop = (int(np.searchsorted(self.cuts, place, side="right")) for place in (first, last))
        return slice(start - 1, stop)


@dataclass(frozen=True, eq=False, slots=True)
class PlacedShapes:
    """How much of the shapes lies in the cells, the probability of each there, and a possible place for each.

    `stands` is the possible place nearest to the middle of a cell; `lows` the first possible one, and `count` how many
    places there are from it to the last: 0 where the shapes hold none of them possible.
    """

    mass_inside: float
    shares: Array
    representatives: PlaceArray
    first_places: PlaceArray
    place_counts: PlaceArray


def place_shapes(shapes: ShapeMixture, cells: GridCells, exclude: bool) -> PlacedShapes:
    """Every shape cut to the cells, then by their weights.

    With `exclude` a place beyond the ends of all shapes is impossible, and a shape with no place between its ends says
    nothing. Without, every place within is possible, and such a shape is on the place nearest to it.
    """
    mass_inside, distribution, possible_places, total = (
        0.0,
        np.zeros(len(cells.middles)),
        _PossiblePlaces.empty(cells),
        shapes.total_weight,
    )
    for term in shapes.possible_terms:
        weight = float(term.share / total)
        where, part, places = _place_term(term, cells, exclude)
        inside = float(part.sum())
        if inside > NEGLIGIBLE_MASS:
            mass_inside += weight * inside
            distribution[where] += weight * part / inside
            if exclude:
                possible_places.add(where, places)
    if not exclude:
        possible_places.add(slice(0, len(distribution)), cells.value_range)
    return PlacedShapes(
        mass_inside,
        distribution,
        possible_places.representatives,
        possible_places.low,
        np.maximum(possible_places.high - possible_places.low + 1, 0),
    )


def _place_term(term: ShapeTerm, cells: GridCells, exclude: bool) -> tuple[slice, Array, PlaceRange]:
    """Some consecutive cells, the probability of each before the shape is cut, and the places it holds possible."""
    if term.is_spread:
        return slice(0, len(cells.middles)), term.compute_cell_masses(cells.compute_edges()), cells.value_range
    low, high = term.ends
    first, last = cells.find_places(low, high)
    if last < first and not exclude:
        first = last = math.floor(((low + high) / 2 - cells.grid.origin) / cells.grid.step + HALF_STEP)
    # Where nothing is excluded the outermost cells count whole, also beyond `within`.
    ends = cells.value_range if exclude else (int(cells.cuts[0]), int(cells.cuts[-1]) - 1)
    start, stop = max(first, ends[0]), min(last, ends[1])
    if stop < start:
        return slice(0, 0), np.zeros(0), (0, -1)
    where = cells.find_cells(start, stop)
    cuts = slice(where.start, where.stop + 1)
    if term.name == "triangular" and low < high:
        return where, np.maximum(term.compute_cell_masses(cells.compute_edges(cuts)), MIN_POSITIVE), (start, stop)
    inside = np.diff(np.clip(cells.cuts[cuts], start, stop + 1)).astype(np.float64)
    return where, inside * float(Fraction(1, last + 1 - first)), (start, stop)


@dataclass(frozen=True, eq=False, slots=True)
class _PossiblePlaces:
    """The possible places of every cell while they are gathered: what stands for it, the first, and the last."""

    cells: GridCells
    representatives: PlaceArray
    low: PlaceArray
    high: PlaceArray

    @staticmethod
    def empty(cells: GridCells) -> _PossiblePlaces:
        size = len(cells.middles)
        return _PossiblePlaces(cells, np.full(size, -1), np.zeros(size, dtype=np.int64), np.full(size, -1))

    def add(self, where: slice, places: PlaceRange) -> None:
        """A range of possible places, in the cells that hold it."""
        middles, representatives, low, high = (
            values[where] for values in (self.cells.middles, self.representatives, self.low, self.high)
        )
        cuts = self.cells.cuts[where.start : where.stop + 1]
        first, last = np.maximum(cuts[:-1], places[0]), np.minimum(cuts[1:] - 1, places[1])
        has_places, is_empty = first <= last, high < low
        nearest = np.clip(middles, first, np.maximum(first, last))
        better = has_places & (is_empty | (np.abs(nearest - middles) < np.abs(representatives - middles)))
        self.representatives[where] = np.where(better, nearest, representatives)
        self.low[where] = np.where(has_places, np.where(is_empty, first, np.minimum(low, first)), low)
        self.high[where] = np.where(has_places, np.where(is_empty, last, np.maximum(high, last)), high)
