"""Counts of nested blocks of cells, measured at several levels: histograms for ranges, and ROLLUP. Proof: nested.md."""

from __future__ import annotations

import math
import operator
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from discreet.formatting import format_likely, format_upper
from discreet.inference.nested import Nest
from discreet.inference.refined import WHOLE, quantile
from discreet.inference.sums import Parts, reach_of_parts
from discreet.kernel.discrete_laplace import DiscreteLaplace
from discreet.kernel.noise import Noise
from discreet.planner.noisy import NAMES, Form
from discreet.query.totals import Cell

Starts = NDArray[np.intp]
LEAST = 1e-12
LEAST_MISS = 1e-8
"""A smaller chance to miss is not left to a law whose transform was inverted in floats."""
LEAST_WEIGHT = 0.25
"""The least that the largest weight of a sum must be, for its law to be computed from rounded weights."""
MOST_PARTS = 32
"""Rates and weights of a sum whose law is computed."""
ROUNDED, TINY = 4096.0, 1e-12
"""Weights of noises are rounded up to one in so many, and left out below that: they are 0 but for rounding."""
Draws = NDArray[np.int64] | NDArray[np.object_]
Value = TypeVar("Value")


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
        """The variance of each level of `nest` that intervals are made from, a little more than its own.

        Where noise is hardly one step wide, its tail is heavier than its variance says. Proof: inference/linear.md.
        """
        return self._with_total([0.0 if level.noise is None else _bounding(level.noise) for level in self.levels], 0.0)

    def _with_total(self, levels: Sequence[Value], total: Value) -> list[Value]:
        """Values of the levels as `nest` has them: first that of the public total, where there is one.

        It stands for the coarsest level where that has one block, and before it elsewhere.
        """
        if self.known is None:
            return [*levels]
        return [total, *levels[len(self.levels[0].starts) == 1 :]]

    def range_reach(self, first: int, last: int, confidence: float, nest: Nest | None = None) -> float:
        """Half of an interval of the count of the cells first to last.

        Where few rates and weights are in it, the law of the sum is known, and is taken where it is narrower.
        """
        weights = (nest or self.nest()).range_weights(first, last)
        squares = [float((own**2).sum()) for own in weights]
        off = reach(sum(map(operator.mul, squares, self.bounding)), confidence)
        parts = self._parts(weights) if off and 1 - confidence > LEAST_MISS else None
        return off if parts is None else min(off, reach_of_parts(parts, confidence))

    def _parts(self, weights: Sequence[NDArray[np.float64]]) -> Parts | None:
        """The rates and weights of the noises in a sum, weights rounded up; None where there are many, or other noises.

        Larger weights make sums lie farther from 0, up to steps far below the law's own resolution: that is checked by
        tests/test_nested.py, and not proved. Where all weights are small it need not hold, and there is none.
        """
        noises = self._with_total([level.noise for level in self.levels], None)
        found: Counter[tuple[float, float]] = Counter()
        for noise, own in zip(noises, weights, strict=True):
            if noise is None:
                continue
            if not isinstance(noise, DiscreteLaplace):
                return None
            sizes, counts = np.unique(np.ceil(np.abs(own[np.abs(own) > TINY]) * ROUNDED), return_counts=True)
            for size, count in zip(sizes.tolist(), counts.tolist(), strict=True):
                found[float(noise.rate), size / ROUNDED] += count
        few = 0 < len(found) <= MOST_PARTS and max(weight for _, weight in found) >= LEAST_WEIGHT
        return tuple((rate, weight, count) for (rate, weight), count in sorted(found.items())) if few else None

    def nest(self) -> Nest:
        """The blocks with the variance of their noise; the public total as one block more, exactly known."""
        starts = self._with_total([level.starts for level in self.levels], np.zeros(1, dtype=np.intp))
        variances = self._with_total([level.variance for level in self.levels], 0.0)
        return Nest(tuple(starts), tuple(variances))

    def estimate(self, released: Sequence[Sequence[int]]) -> tuple[NDArray[np.float64], ...]:
        """The best linear unbiased count of every block, consistent, level by level."""
        told = self.measured(released)
        own = [
            np.zeros(len(level.starts)) if one is None else one for level, one in zip(self.levels, told, strict=True)
        ]
        total = np.array([float(self.known or 0)])
        return self.nest().estimate(self._with_total(own, total))[-len(self.levels) :]

    def words(self, confidence: float, likely: str = "") -> str:
        """What may be said of its error before it is drawn, and with which probability."""
        if len(self.measured_levels) == 1:
            off = self.range_reach(0, 0, confidence)
        else:
            off = reach(float(np.max(self.nest().node_variances_of(self.bounding)[-1])), confidence)
        likely = likely or format_likely(confidence)
        return f"single cells within {format_upper(off)} {likely}; ranges and totals have intervals of their own"


def _bounding(noise: Noise) -> float:
    """The variance of Laplace noise of the same rate, above that of the discrete one; of others a little more."""
    return 2 / float(noise.rate) ** 2 if isinstance(noise, DiscreteLaplace) else noise.variance() + WHOLE


def reach(variance: float, confidence: float) -> float:
    """Half of an interval from a variance by `bounding`; half a unit is added since the noise is of whole numbers."""
    return quantile(confidence) * math.sqrt(variance) + 0.5 if variance > LEAST else 0.0
