"""A mean, or a variance, from several noisy totals: intervals and posteriors in which the private count has no say.

A mean is told by its share p of the way from the column's lower to its upper bound. Two totals are proportional to the
number of rows: total_i = rows * slope_i(p). So for the weights w(p) with w . slope(p) = 0 the weighted sum of what was
released is pure noise at the true p, however many rows there are (Fieller 1954); and a posterior sums over the rows.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import cast

import numpy as np
from numpy.typing import NDArray

from discreet.inference.belief import Belief
from discreet.inference.laws import FARTHEST, Vector, deviation, deviations, log_joint, quantile
from discreet.inference.line import Combined
from discreet.posterior import Posterior

Array = NDArray[np.float64]
SHARES = np.linspace(0.0, 1.0, 17)
GRID = np.linspace(0.0, 1.0, 65)
ROWS, MIDDLES = 120, 40
STAND_IN = (0.01, 0.5)
"""The part of the chance to miss that is left to stand-ins for a mean; the second where the first is too little."""
ONCE = 1e-6
"""The chance at most that an interval is wider than its bound."""


@dataclass(frozen=True, eq=False)
class Ratio:
    """Two totals that tell a mean: slopes(p) are what one row adds to each at the mean p, on average."""

    noise: Vector
    lower: float
    upper: float
    slopes: Callable[[Array], tuple[Array, Array]]

    @property
    def width(self) -> float:
        """From the lower to the upper bound, in units of the answer."""
        return self.upper - self.lower

    def share(self, value: float) -> float:
        """How far along a value is."""
        return min(max((value - self.lower) / self.width, 0.0), 1.0) if self.width else 0.5

    def weights(self, share: float) -> tuple[float, float]:
        """What takes the rows out."""
        one, two = (float(part[0]) for part in self.slopes(np.array([share])))
        return two, -one

    def rows(self, released: Sequence[int]) -> float:
        """The noisy number of rows."""
        one, two = self._counting
        return one * released[0] + two * released[1]

    def most_rows(self, released: Sequence[int], confidence: float) -> float:
        """The number of rows is at most this with this probability."""
        noise = quantile(self.noise, self._counting, confidence) + sum(map(abs, self._counting)) / 2
        return self.rows(released) + noise

    @cached_property
    def _counting(self) -> tuple[float, float]:
        """The weights that make of both totals the number of rows, whatever the mean: 1 at both ends."""
        one, two = self.slopes(np.array([0.0, 1.0]))
        least = np.linalg.solve(np.stack((one, two), axis=1), np.ones(2))
        return float(least[0]), float(least[1])

    def told(self, released: Sequence[int]) -> float:
        """The share that the totals tell: where their weighted sum vanishes."""
        at_0, at_1 = (self._sum(released, share) for share in (0.0, 1.0))
        return min(max(at_0 / (at_0 - at_1), 0.0), 1.0) if at_0 != at_1 else 0.5

    def _sum(self, released: Sequence[int], share: float) -> float:
        one, two = self.weights(share)
        return one * released[0] + two * released[1]

    def line(self, share: float, rows: float) -> Combined:
        """How far the mean falls from the truth, about a share and for so many rows."""
        return Combined.of(self.noise, self.scaled(share, rows))

    def sd(self, share: float, rows: float) -> float:
        """The standard deviation of that."""
        return deviation(self.noise, self.scaled(share, rows))

    def scaled(self, share: float, rows: float) -> tuple[float, float]:
        """What each noise adds to the mean, to first order."""
        weights = self.weights(share)
        slope = (self._per_share(share) * max(rows, 1.0)) / self.width if self.width else 1.0
        return weights[0] / slope, weights[1] / slope

    def _per_share(self, share: float) -> float:
        """How fast the weighted sum of the slopes grows away from a share."""
        one, two = (part for part in self.slopes(np.array([0.0, 1.0])))
        weights = self.weights(share)
        return abs(float(weights[0] * (one[1] - one[0]) + weights[1] * (two[1] - two[0])))

    def error_bound(self, confidence: float, rows: float) -> float:
        """How far the mean that is told may be off, with this probability, where at least so many rows have a value.

        At the share q the weighted sum is slope * rows * (p - q) plus noise, and the mean that is told lies beyond q
        where that sum has changed its sign. So it lies farther than h from the truth p only where the noise at p + h,
        or at p - h, goes beyond slope * rows * h on one side; the tails of both sides together are those of one sum.
        Where less than one row is told a stand-in is told, whatever the truth: that has a small part of the chance.
        """
        miss = 1 - confidence
        for part in STAND_IN:
            if self._fewest_rows(rows, part * miss) >= 1:
                return self._per_rows(1 - (1 - part) * miss, rows)
        return self.width

    def interval_bound(self, confidence: float, rows: float) -> float:
        """Bound the distance from an answer to either end of its interval; it holds but once in a million draws.

        At least `rows` rows must have a value. The interval ends where the weighted sum reaches its limit. That sum
        vanishes at the answer and falls by the noisy number of rows.
        """
        fewest = self._fewest_rows(rows, ONCE)
        return self._per_rows(confidence, fewest) if fewest >= 1 else self.width

    def _per_rows(self, confidence: float, rows: float) -> float:
        """How far the weighted sum of the noises goes, at the worst share, as a distance of means.

        The worst share is an end: there one of two alike noises has all the weight, or both have the most.
        """
        if not self.width:
            return 0.0
        farthest = max(self._limit(share, confidence) for share in (0.0, 1.0))
        return min(farthest / (self._per_share(0.5) * rows) * self.width, self.width)

    def _fewest_rows(self, rows: float, chance: float) -> float:
        """The noisy number of rows is smaller with at most this chance."""
        return rows - quantile(self.noise, self._counting, 1 - 2 * chance) - sum(map(abs, self._counting)) / 2

    @cached_property
    def _limits(self) -> dict[float, Array]:
        return {}

    def limits(self, confidence: float) -> Array:
        """How far the weighted sum of the noises goes with this probability, at each of a few shares.

        Half a unit is added for each weight: the tails are those of noises spread over their cells.
        """
        if confidence not in self._limits:
            self._limits[confidence] = np.array([self._limit(float(share), confidence) for share in SHARES])
        return self._limits[confidence]

    def _limit(self, share: float, confidence: float) -> float:
        weights = self.weights(share)
        return quantile(self.noise, weights, confidence) + sum(map(abs, weights)) / 2

    def interval(self, released: Sequence[int], confidence: float) -> tuple[float, float]:
        """All means at which what was released is not surprising: at least this probability, however many rows.

        Where less than one row was told that set may be narrow by chance and says nothing, so all means are told.
        Where what was released is surprising at every mean, the noise went far beyond a bound of the column: then the
        interval is that of totals which tell this bound exactly. It holds no more rarely, and is no wider than others.
        """
        if self.rows(released) < 1:
            return self.lower, self.upper
        limits, told = self.limits(confidence), self.told(released)
        one, two = self.slopes(GRID)
        sums = two * released[0] - one * released[1]
        beyond = 0.0
        if not (np.abs(sums) <= np.interp(GRID, SHARES, limits)).any():
            at = self._sum(released, told)
            beyond = at if abs(at) > float(np.interp(told, SHARES, limits)) else 0.0

        def held(share: float) -> bool:
            return abs(self._sum(released, share) - beyond) <= float(np.interp(share, SHARES, limits))

        inside = GRID[np.abs(sums - beyond) <= np.interp(GRID, SHARES, limits)].tolist()
        inside += [told] if held(told) else []
        first, last = min(inside), max(inside)
        low = _edge(held, first, float(GRID[first > GRID].max(initial=0.0)))
        high = _edge(held, last, float(GRID[last < GRID].min(initial=1.0)))
        return self.lower + low * self.width, self.lower + high * self.width

    def posterior(self, belief: Belief, released: Sequence[int], most: float) -> Posterior:
        """What is known of the mean after the totals, the number of rows, at most `most`, summed out."""
        share, rows = self.told(released), self.rows(released)
        sd = self.sd(share, rows)
        cells = belief.cells([(self.lower + share * self.width, max(sd, self.width * 1e-9))])
        counts, spaced = _counts(rows, deviation(self.noise, self._counting), most)
        place = (
            np.clip((cells.values - self.lower) / self.width, 0, 1) if self.width else np.full(len(cells.values), 0.5)
        )
        one, two = self.slopes(place)
        logs = log_joint(
            self.noise,
            (released[0] - counts[:, None] * one[None, :], released[1] - counts[:, None] * two[None, :]),
        )
        return cells.posterior(_log_sum(logs + np.log(spaced)[:, None]))


def _edge(held: Callable[[float], bool], inside: float, outside: float) -> float:
    """Where a set of shares ends, between one inside and one outside; outside itself where that is inside too."""
    if held(outside):
        return outside
    for _ in range(60):
        middle = (inside + outside) / 2
        if middle in (inside, outside):
            break  # there is no number between them
        inside, outside = (middle, outside) if held(middle) else (inside, middle)
    return outside


def _counts(rows: float, sd: float, most: float) -> tuple[Array, Array]:
    """Numbers of rows that may be, whole, from 1 on, and how many each stands for."""
    low, high = max(rows - FARTHEST * sd, 1.0), min(max(rows + FARTHEST * sd, 2.0), max(most, 2.0))
    away = max(sd, 1.0) * np.sinh(np.linspace(0, math.asinh(FARTHEST), ROWS))
    places = np.concatenate(([low, high], rows + away, rows - away))
    counts = np.unique(np.round(np.clip(places, low, high)))
    return counts, np.maximum(np.gradient(counts), 1.0) if len(counts) > 1 else np.ones(1)


def _log_sum(logs: Array) -> Array:
    """ln of the sum of exponentials over the first axis."""
    highest = logs.max(axis=0)
    below = logs - highest[None]
    np.exp(below, out=below)  # in place: they are large
    total: Array = highest + np.log(below.sum(axis=0))
    return total


@dataclass(frozen=True, eq=False)
class Squares:
    """Rows, the sum of d and that of 2 d^2 - W^2, d from -W to W, that tell a variance; or a known number of rows."""

    noise: Vector
    width: float
    unit: float
    rows: float | None
    root: bool

    def spread(self, value: Array) -> Array:
        """The variance of d that a value of the answer stands for."""
        square = value**2 if self.root else value
        return square * 4 / self.unit**2

    def error_bound(self, confidence: float, rows: float) -> float:
        """How far the variance that is told may be off, with this probability, for at least so many rows with a value.

        With rows n, noises z0, z1 and z2 of the three totals, n' = n + z0, m and s the mean of d and of d^2,

            n' (told - true) = z0 (W^2/2 + 2 m^2 - s) - 2 m z1 + z2 / 2 - (z1 - m z0)^2 / n'

        before the factor n' / (n' - 1). So it lies beyond h only where the first three, with z0 weighed by h more, go
        beyond n h on one side, or within the square of that. All of it is largest where |m| = W.
        """
        most = self._largest
        part, known = (1 - confidence) / 100, self.rows is not None
        main = 1 - 97 * part
        if known:
            count, fewest, square = cast(float, self.rows), cast(float, self.rows), self._farthest((1.0, 0.0), 1 - part)
        else:
            count, square = rows, self._farthest((self.width, 1.0, 0.0), 1 - part)
            fewest = rows - self._farthest((1.0, 0.0, 0.0), 1 - 2 * part)
        if fewest < 2:
            return self._told(most)
        curved, off = square**2 / fewest, 0.0
        for _ in range(50):
            weights = (2 * self.width, 0.5) if known else (1.5 * self.width**2 + off, 2 * self.width, 0.5)
            needed = (self._farthest(weights, main) + curved) / count
            if needed <= off:
                break
            off = needed * 1.0001
            if off >= most:
                return self._told(most)
        else:
            return self._told(most)
        few = 0.0 if known else (count - fewest) / ((fewest - 1) * (count - 1)) * self.width**2
        return self._told(min(off * fewest / (fewest - 1) + few, most))

    def _farthest(self, weights: tuple[float, ...], confidence: float) -> float:
        """How far a weighted sum of the noises goes with this probability, the noises spread over their cells."""
        return quantile(self.noise, weights, confidence) + sum(map(abs, weights)) / 2

    @property
    def _largest(self) -> float:
        """The largest variance of d that is ever told."""
        return 2 * self.width**2

    def _told(self, spread: float) -> float:
        """How far apart two answers are whose variances of d are so far apart, at most."""
        off = spread / 4 * self.unit**2
        # Two roots are no farther apart than the root of how far apart their squares are.
        return math.sqrt(off) if self.root else off

    def interval_bound(self, reach: Sequence[float], rows: float) -> float:
        """Bound the distance from an answer to either end of its interval; it holds but once in a million draws.

        At least `rows` rows must have a value; `reach` is how far the interval lets each noise go. The farther end is
        the lower one, before it is cut at 0: 1/n and m^2 are convex. It is farthest where the fewest rows are told, the
        mean is at a bound and the squares are largest, all with their noise.
        """
        width, (one, two) = self.width, reach[-2:]
        noises = ((1.0, 0.0), (0.0, 1.0)) if self.rows is not None else ((0.0, 1.0, 0.0), (0.0, 0.0, 1.0))
        first, second = (self._farthest(weights, 1 - ONCE / 3) for weights in noises)
        if self.rows is not None:
            count = told = fewest = self.rows
        else:
            count, told = rows, rows - self._farthest((1.0, 0.0, 0.0), 1 - ONCE / 3)
            fewest = told - reach[0]
        if fewest < 2:
            return self._told(self._largest)
        sums, squares = count * width + first, count * width**2 + second
        means = ((sums + one) / fewest) ** 2 - (sums / told) ** 2
        halves = ((squares + two) / fewest - squares / told) / 2
        off = (means + halves) * fewest / (fewest - 1) + self._largest / (fewest - 1)
        return self._told(min(off, self._largest))

    def posterior(self, belief: Belief, released: Sequence[int], raw: float, most: float) -> Posterior:
        """What is known of the variance, rows and mean summed out: any mean is alike beforehand."""
        sds = deviations(self.noise)
        known = self.rows is not None
        first, second = (float(x) for x in (released if known else released[1:]))
        told = float(self.rows) if self.rows is not None else max(float(released[0]), 1.0)
        cells = belief.cells([(raw, self._sd(raw, told))], 160)
        counts, spaced = (np.array([told]), np.ones(1)) if known else _few(_counts(float(released[0]), sds[0], most))
        variance = self.spread(cells.values)[None, None, :] * ((counts - 1) / counts)[:, None, None]
        means = self._middles(first, told, sds[0 if known else 1])
        middles, rows = means[None, :, None], counts[:, None, None]
        squares = variance + middles**2
        possible = squares <= self.width**2 * (1 + 1e-9)
        parts = [first - rows * middles, second - rows * (2 * squares - self.width**2)]
        if not known:
            parts.insert(0, released[0] - rows)
        weights = np.log(spaced)[:, None, None] + np.log(np.gradient(means))[None, :, None]
        logs = log_joint(self.noise, parts)
        logs += weights  # in place: they are large
        logs[~possible] = -np.inf
        flat = logs.reshape(-1, logs.shape[-1])
        finite = np.isfinite(flat.max(axis=0))
        return cells.posterior(np.where(finite, _log_sum(np.maximum(flat, -1e300, out=flat)), -1e300))

    def _sd(self, raw: float, rows: float) -> float:
        """About how far a raw answer falls from the truth."""
        sds = deviations(self.noise)
        size = sds[-1] / (2 * max(rows, 1.0)) * self.unit**2 / 4
        return size / max(2 * raw, math.sqrt(size)) if self.root else size

    def _middles(self, first: float, rows: float, sd: float) -> Array:
        """Means of d that may be: near the one told and, thinner, everywhere."""
        told, size = min(max(first / rows, -self.width), self.width), min(sd / rows, self.width) or self.width
        away = size * np.sinh(np.linspace(0, math.asinh(2 * self.width / size), MIDDLES))
        return np.unique(np.clip(np.concatenate((told + away, told - away)), -self.width, self.width))


def _few(counts: tuple[Array, Array]) -> tuple[Array, Array]:
    """A third of the numbers, each for three."""
    return counts[0][::3], counts[1][::3] * 3
