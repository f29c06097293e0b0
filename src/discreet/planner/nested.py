"""Counts of nested blocks of cells, measured at several levels: histograms for ranges, and ROLLUP. Proof: nested.md."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from discreet.formatting import format_likely, format_upper
from discreet.inference.nested import Nest
from discreet.inference.refined import WHOLE, quantile
from discreet.kernel.noise import Noise
from discreet.planner.noisy import NAMES, Form
from discreet.query.totals import Cell

Starts = NDArray[np.intp]
LEAST = 1e-12
Draws = NDArray[np.int64] | NDArray[np.object_]


@dataclass(frozen=True, eq=False, slots=True)
class Level:
    """A partition of the cells into blocks of neighbours, by the first cell of each; not measured without noise."""

    starts: Starts
    share: Fraction
    noise: Noise | None
    keys: int = 0
    """By how many of the group keys the blocks of a ROLLUP are told apart."""

    @property
    def variance(self) -> float:
        """Of one count; infinite where it is not measured, never so small that it cannot be divided by."""
        return math.inf if self.noise is None else max(self.noise.variance(), LEAST)


@dataclass(frozen=True, eq=False, slots=True)
class Nested:
    """Levels of blocks, coarse to fine, the last of single cells; `known` is the public number of rows in all cells."""

    form: Form
    levels: tuple[Level, ...]
    strategy: str
    known: int | None = None
    cells: tuple[Cell, ...] | None = None
    """Those that can have a row, where that is not all of them."""

    @property
    def name(self) -> str:
        """What people call it."""
        noise = next(level.noise for level in self.levels if level.noise is not None)
        return f"{NAMES[type(noise)]}, {self.strategy}"

    def inputs(self, counts: Sequence[int]) -> list[tuple[int, ...]]:
        """The exact counts of the measured blocks, each with the cell it starts at. Secret."""
        cells = np.array(counts, dtype=np.int64)
        sums = [np.add.reduceat(cells, level.starts) for level in self.measured_levels]
        return self.by_cell(sums, len(counts))

    @property
    def measured_levels(self) -> list[Level]:
        """Those with noise, coarse to fine."""
        return [level for level in self.levels if level.noise is not None]

    def by_cell(self, numbers: Sequence[Draws], cells: int) -> list[tuple[int, ...]]:
        """A number for every measured block, level by level, put with the cells the blocks start at."""
        found: list[list[int]] = [[] for _ in range(cells)]
        for level, own in zip(self.measured_levels, numbers, strict=True):
            for start, number in zip(level.starts.tolist(), own.tolist(), strict=True):
                found[start].append(number)
        return [tuple(own) for own in found]

    def measured(self, released: Sequence[Sequence[int]]) -> list[NDArray[np.float64] | None]:
        """What was released, level by level; None for a level that was not measured."""
        used = np.zeros(len(released), dtype=np.intp)
        found: list[NDArray[np.float64] | None] = []
        for level in self.levels:
            if level.noise is None:
                found.append(None)
                continue
            found.append(np.array([released[at][used[at]] for at in level.starts], dtype=np.float64))
            used[level.starts] += 1
        return found

    @property
    def bounding(self) -> list[float]:
        """The variance of each level of `nest`, and a little more: intervals of whole-number noise need it.

        Where noise is hardly one step wide, its tail is heavier than its variance says. Proof: inference/linear.md.
        """
        own = [0.0 if level.noise is None else level.noise.variance() + WHOLE for level in self.levels]
        if self.known is None:
            return own
        return [0.0, *own[1:]] if len(self.levels[0].starts) == 1 else [0.0, *own]

    def nest(self) -> Nest:
        """The blocks with the variance of their noise; the public total as one block more, exactly known."""
        starts = [level.starts for level in self.levels]
        variances = [level.variance for level in self.levels]
        if self.known is None:
            return Nest(tuple(starts), tuple(variances))
        if len(starts[0]) == 1:
            return Nest(tuple(starts), (0.0, *variances[1:]))
        return Nest((np.zeros(1, dtype=np.intp), *starts), (0.0, *variances))

    def estimate(self, released: Sequence[Sequence[int]]) -> tuple[NDArray[np.float64], ...]:
        """The best linear unbiased count of every block, consistent, level by level."""
        told = self.measured(released)
        own = [
            np.zeros(len(level.starts)) if one is None else one for level, one in zip(self.levels, told, strict=True)
        ]
        if self.known is not None:
            top = np.array([float(self.known)])
            own = [top, *own[1:]] if len(self.levels[0].starts) == 1 else [top, *own]
        return self.nest().estimate(own)[-len(self.levels) :]

    def words(self, confidence: float, likely: str = "") -> str:
        """What may be said of its error before it is drawn, and with which probability."""
        finest = self.nest().node_variances_of(self.bounding)[-1]
        off = reach(float(np.max(finest)), confidence)
        likely = likely or format_likely(confidence)
        return f"single cells within {format_upper(off)} {likely}; ranges and totals have intervals of their own"


def reach(variance: float, confidence: float) -> float:
    """Half of an interval from a variance by `bounding`; half a unit is added since the noise is of whole numbers."""
    return quantile(confidence) * math.sqrt(variance) + 0.5 if variance > LEAST else 0.0
