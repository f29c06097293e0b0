"""From a noisy number of a random sample to the same number of its population: an interval that allows for both.

A target, the population's number, is kept where neither P(sample + noise >= told) nor P(sample + noise <= told) is
less than half the miss, by the sample's law at that target and the noise's own law. So the interval misses at most as
often as is said. Without noise it is Clopper and Pearson's (1934) of a share, and Garwood's (1936) of a Poisson count.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from discreet.inference.line import LineNoise

Array = NDArray[np.float64]
Law = Callable[[float], tuple[Array, Array]]
"""For a target: what a sample may tell, and with which chances."""
Above = Callable[[Array], Array]
"""The chance that a symmetric noise is at least so far up."""
PLACES = 1000
FARTHEST = 8.0
"""Standard deviations; what lies farther out is left out, but for ten more units."""
BEYOND = 60.0
"""The same of a noise, whose tails are heavier."""
FINE = 1e-4
"""An end is found to this part of its distance from what was told."""
EQUAL = 1e-9


def silent(away: Array) -> Array:
    """No noise at all."""
    return (away <= EQUAL).astype(np.float64)


def tabulated(noise: LineNoise) -> Above:
    """The tail of a noise, read from a table: whole units by themselves near 0, farther out by the chord above it."""
    unit = noise.unit or noise.sd / PLACES
    steps = noise.sd / unit * np.sinh(np.linspace(0, math.asinh(BEYOND), PLACES))
    places: Array = np.unique(np.concatenate((np.arange(PLACES, dtype=np.float64), np.round(steps)))) + 1.0
    beyond = noise.above(places * unit)

    def above(away: Array) -> Array:
        units = np.round(away / unit)
        tail = np.interp(np.where(units > 0, units, 1 - units), places, beyond, right=0.0)
        return np.where(units > 0, tail, 1 - tail)

    return above


def binomial(units: int) -> Law:
    """The share of a sample of so many units, the target being that of an endless population.

    Of all laws between two bounds with one mean, that on the bounds alone spreads a mean most, in convex order
    (Hoeffding 1963); so this law also serves for a mean of which nothing else is known, told on the way between them.
    """

    def law(share: float) -> tuple[Array, Array]:
        from scipy.special import xlog1py, xlogy

        k = _places(units * share, math.sqrt(units * share * (1 - share)), units)
        return k / units, _normed(_log_choose(units, k) + xlogy(k, share) + xlog1py(units - k, -share))

    return law


def hypergeometric(units: int, size: int) -> Law:
    """The same for a population of finite size, from which no unit is drawn twice."""

    def law(share: float) -> tuple[Array, Array]:
        held = round(size * share)
        own = held / size
        spread = math.sqrt(units * own * (1 - own) * (size - units) / max(size - 1, 1))
        k = _places(units * own, spread, units)
        k = k[(k <= held) & (units - k <= size - held)]
        return k / units, _normed(_log_choose(held, k) + _log_choose(size - held, units - k))

    return law


def poisson(expected: float) -> tuple[Array, Array]:
    """A count in a sample of unknown size, the target being the count to be expected."""
    from scipy.special import gammaln, xlogy

    k = _places(expected, math.sqrt(expected), None)
    return k, _normed(xlogy(k, expected) - gammaln(k + 1))


def normal(deviation: Callable[[float], float]) -> Law:
    """A mean of many, with its standard deviation at each target."""
    z = np.linspace(-FARTHEST, FARTHEST, PLACES + 1)
    chances = _normed(-(z**2) / 2)
    return lambda target: (target + deviation(target) * z, chances)


@dataclass(frozen=True, eq=False, slots=True)
class Sampled:
    """A noisy number of a sample: what was told, and the laws of sample and noise about the population's number.

    `told` is taken as the nearest that is possible between the ends, which only widens the interval; `first` is about
    how far off it may be, to begin the search with.
    """

    told: float
    law: Law
    above: Above
    ends: tuple[float, float]
    first: float

    @property
    def value(self) -> float:
        """The number told, or the nearest that is possible."""
        return min(max(self.told, self.ends[0]), self.ends[1])

    def interval(self, confidence: float) -> tuple[float, float]:
        """Where the population's number lies with at least this probability."""
        half, told = (1 - confidence) / 2, self.value

        def not_below(target: float) -> bool:
            places, chances = self.law(target)
            return float(chances @ self.above(told - places)) > half

        def not_above(target: float) -> bool:
            places, chances = self.law(target)
            return float(chances @ self.above(places - told)) > half

        return _end(not_below, told, self.ends[0], self.first), _end(not_above, told, self.ends[1], self.first)

    def by_sampling(self, confidence: float) -> float:
        """Half the interval, were there no noise."""
        low, high = replace(self, above=silent).interval(confidence)
        return (high - low) / 2


def _end(kept: Callable[[float], bool], told: float, end: float, first: float) -> float:
    """How far from what was told a target is kept, towards one end: by doubled steps, then by halves."""
    towards, inside, step = math.copysign(1.0, end - told), told, first
    while True:
        outside = told + towards * step
        if (outside - end) * towards >= 0:
            outside = end
        if not kept(outside):
            break
        if outside == end:
            return end
        inside, step = outside, 2 * step
    while abs(outside - inside) > max(FINE * abs(outside - told), EQUAL * first):
        middle = (inside + outside) / 2
        inside, outside = (middle, outside) if kept(middle) else (inside, middle)
    return outside


def _places(mean: float, spread: float, most: int | None) -> Array:
    """Whole numbers about a mean: all that may be, or evenly some of them where they are very many."""
    reach = FARTHEST * spread + 10
    low, high = max(math.floor(mean - reach), 0), math.ceil(mean + reach)
    high = high if most is None else min(high, most)
    return np.arange(low, high + 1, -(-(high + 1 - low) // PLACES), dtype=np.float64)


def _log_choose(of: int, k: Array) -> Array:
    """ln of the number of ways to choose k of so many, but for a constant."""
    from scipy.special import gammaln

    chosen: Array = -gammaln(k + 1) - gammaln(of - k + 1)
    return chosen


def _normed(logs: Array) -> Array:
    weights = np.exp(logs - logs.max())
    chances: Array = weights / weights.sum()
    return chances
