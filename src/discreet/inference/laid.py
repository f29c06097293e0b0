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
from discreet.shapes import SMALLEST, Shapes, Term

NOTHING = 1e-12
"""A shape of which less than this lies in the range says nothing about it, and is left out."""
HALF = Fraction(1, 2)
Integers = NDArray[np.int64]
Range = tuple[int, int]
"""The first and the last of consecutive places on a grid; none where the last is before the first."""


@dataclass(frozen=True, eq=False, slots=True)
class Cells:
    """Cells of consecutive places on a grid: from each of `cuts` to before the next, and the place in its middle.

    `within` are the first and the last place that a value may have, where the outermost cells reach beyond them.
    """

    grid: Grid
    cuts: Integers
    middles: Integers
    within: Range

    def edges(self, some: slice = slice(None)) -> Array:
        """The numbers half way between the last place of a cell and the first of the next, for some of the cuts."""
        return float(self.grid.origin) + float(self.grid.step) * (self.cuts[some].astype(np.float64) - 0.5)

    def around(self, low: Fraction, high: Fraction) -> Range:
        """The places of the grid from low to high."""
        first, last = ((end - self.grid.origin) / self.grid.step for end in (low, high))
        return math.ceil(first), math.floor(last)

    def holding(self, first: int, last: int) -> slice:
        """The cells that hold the places from first to last."""
        start, stop = (int(np.searchsorted(self.cuts, place, side="right")) for place in (first, last))
        return slice(start - 1, stop)


@dataclass(frozen=True, eq=False, slots=True)
class Laid:
    """How much of the shapes lies in the cells, the probability of each there, and a possible place for each.

    `stands` is the possible place nearest to the middle of a cell; `lows` the first possible one, and `count` how many
    places there are from it to the last: 0 where the shapes hold none of them possible.
    """

    held: float
    shares: Array
    stands: Integers
    lows: Integers
    count: Integers


def lay(shapes: Shapes, cells: Cells, exclude: bool) -> Laid:
    """Every shape cut to the cells, then by their weights.

    With `exclude` a place beyond the ends of all shapes is impossible, and a shape with no place between its ends says
    nothing. Without, every place within is possible, and such a shape is on the place nearest to it.
    """
    held, law, found, total = 0.0, np.zeros(len(cells.middles)), _Found.nothing(cells), shapes.total
    for term in shapes.possible:
        weight = float(term.share / total)
        where, part, own = _part(term, cells, exclude)
        inside = float(part.sum())
        if inside > NOTHING:
            held += weight * inside
            law[where] += weight * part / inside
            if exclude:
                found.add(where, own)
    if not exclude:
        found.add(slice(0, len(law)), cells.within)
    return Laid(held, law, found.stands, found.low, np.maximum(found.high - found.low + 1, 0))


def _part(term: Term, cells: Cells, exclude: bool) -> tuple[slice, Array, Range]:
    """Some consecutive cells, the probability of each before the shape is cut, and the places it holds possible."""
    if term.spread:
        return slice(0, len(cells.middles)), term.between(cells.edges()), cells.within
    low, high = term.ends
    first, last = cells.around(low, high)
    if last < first and not exclude:
        first = last = math.floor(((low + high) / 2 - cells.grid.origin) / cells.grid.step + HALF)
    # Where nothing is excluded the outermost cells count whole, also beyond `within`.
    ends = cells.within if exclude else (int(cells.cuts[0]), int(cells.cuts[-1]) - 1)
    start, stop = max(first, ends[0]), min(last, ends[1])
    if stop < start:
        return slice(0, 0), np.zeros(0), (0, -1)
    where = cells.holding(start, stop)
    cuts = slice(where.start, where.stop + 1)
    if term.name == "triangular" and low < high:
        return where, np.maximum(term.between(cells.edges(cuts)), SMALLEST), (start, stop)
    inside = np.diff(np.clip(cells.cuts[cuts], start, stop + 1)).astype(np.float64)
    return where, inside * float(Fraction(1, last + 1 - first)), (start, stop)


@dataclass(frozen=True, eq=False, slots=True)
class _Found:
    """The possible places of every cell while they are gathered: what stands for it, the first, and the last."""

    cells: Cells
    stands: Integers
    low: Integers
    high: Integers

    @staticmethod
    def nothing(cells: Cells) -> _Found:
        size = len(cells.middles)
        return _Found(cells, np.full(size, -1), np.zeros(size, dtype=np.int64), np.full(size, -1))

    def add(self, where: slice, own: Range) -> None:
        """A range of possible places, in the cells that hold it."""
        middles, stands, low, high = (one[where] for one in (self.cells.middles, self.stands, self.low, self.high))
        cuts = self.cells.cuts[where.start : where.stop + 1]
        first, last = np.maximum(cuts[:-1], own[0]), np.minimum(cuts[1:] - 1, own[1])
        new, none = first <= last, high < low
        near = np.clip(middles, first, np.maximum(first, last))
        better = new & (none | (np.abs(near - middles) < np.abs(stands - middles)))
        self.stands[where] = np.where(better, near, stands)
        self.low[where] = np.where(new, np.where(none, first, np.minimum(low, first)), low)
        self.high[where] = np.where(new, np.where(none, last, np.maximum(high, last)), high)
