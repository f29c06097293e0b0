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

from discreet.inference.line import AnswerNoise

Array = NDArray[np.float64]
SamplingDistribution = Callable[[float], tuple[Array, Array]]
"""For a target: what a sample may tell, and with which chances."""
UpperTail = Callable[[Array], Array]
"""The chance that a symmetric noise is at least so far up."""
MAX_TABLE_PLACES = 1000
MAX_DEVIATIONS = 8.0
"""Standard deviations; what lies farther out is left out, but for ten more units."""
MAX_NOISE_DEVIATIONS = 60.0
"""The same of a noise, whose tails are heavier."""
END_TOLERANCE = 1e-4
"""An end is found to this part of its distance from what was told."""
EQUALITY_TOLERANCE = 1e-9


def compute_noiseless_tail(distances: Array) -> Array:
    """No noise at all."""
    return (distances <= EQUALITY_TOLERANCE).astype(np.float64)


def tabulate_upper_tail(noise: AnswerNoise) -> UpperTail:
    """The tail of a noise, read from a table: whole units by themselves near 0, farther out by the chord above it."""
    unit = noise.unit or noise.sd / MAX_TABLE_PLACES
    steps = noise.sd / unit * np.sinh(np.linspace(0, math.asinh(MAX_NOISE_DEVIATIONS), MAX_TABLE_PLACES))
    places: Array = np.unique(np.concatenate((np.arange(MAX_TABLE_PLACES, dtype=np.float64), np.round(steps)))) + 1.0
    beyond = noise.compute_upper_tail(places * unit)

    def above(distances: Array) -> Array:
        units = np.round(distances / unit)
        tail = np.interp(np.where(units > 0, units, 1 - units), places, beyond, right=0.0)
        return np.where(units > 0, tail, 1 - tail)

    return above


def build_binomial(units: int) -> SamplingDistribution:
    """The share of a sample of so many units, the target being that of an endless population.

    Of all laws between two bounds with one mean, that on the bounds alone spreads a mean most, in convex order
    (Hoeffding 1963); so this law also serves for a mean of which nothing else is known, told on the way between them.
    """

    def distribution(share: float) -> tuple[Array, Array]:
        from scipy.special import xlog1py, xlogy

        k = _list_places(units * share, math.sqrt(units * share * (1 - share)), units)
        return k / units, _normalize_logs(_compute_log_choose(units, k) + xlogy(k, share) + xlog1py(units - k, -share))

    return distribution


def build_hypergeometric(units: int, size: int) -> SamplingDistribution:
    """The same for a population of finite size, from which no unit is drawn twice."""

    def distribution(share: float) -> tuple[Array, Array]:
        successes = round(size * share)
        exact_share = successes / size
        spread = math.sqrt(units * exact_share * (1 - exact_share) * (size - units) / max(size - 1, 1))
        k = _list_places(units * exact_share, spread, units)
        k = k[(k <= successes) & (units - k <= size - successes)]
        return k / units, _normalize_logs(
            _compute_log_choose(successes, k) + _compute_log_choose(size - successes, units - k)
        )

    return distribution


def compute_poisson(expected: float) -> tuple[Array, Array]:
    """A count in a sample of unknown size, the target being the count to be expected."""
    from scipy.special import gammaln, xlogy

    k = _list_places(expected, math.sqrt(expected), None)
    return k, _normalize_logs(xlogy(k, expected) - gammaln(k + 1))


def build_normal(deviation: Callable[[float], float]) -> SamplingDistribution:
    """A mean of many, with its standard deviation at each target."""
    z = np.linspace(-MAX_DEVIATIONS, MAX_DEVIATIONS, MAX_TABLE_PLACES + 1)
    chances = _normalize_logs(-(z**2) / 2)
    return lambda target: (target + deviation(target) * z, chances)


@dataclass(frozen=True, eq=False, slots=True)
class NoisySample:
    """A noisy number of a sample: what was told, and the laws of sample and noise about the population's number.

    `told` is taken as the nearest that is possible between the ends, which only widens the interval; `first` is about
    how far off it may be, to begin the search with.
    """

    noisy_value: float
    distribution: SamplingDistribution
    upper_tail: UpperTail
    ends: tuple[float, float]
    first_step: float

    @property
    def value(self) -> float:
        """The number told, or the nearest that is possible."""
        return min(max(self.noisy_value, self.ends[0]), self.ends[1])

    def interval(self, confidence: float) -> tuple[float, float]:
        """Where the population's number lies with at least this probability."""
        half, center = (1 - confidence) / 2, self.value

        def not_below(target: float) -> bool:
            places, chances = self.distribution(target)
            return float(chances @ self.upper_tail(center - places)) > half

        def not_above(target: float) -> bool:
            places, chances = self.distribution(target)
            return float(chances @ self.upper_tail(places - center)) > half

        return _find_end(not_below, center, self.ends[0], self.first_step), _find_end(
            not_above, center, self.ends[1], self.first_step
        )

    def compute_sampling_half_width(self, confidence: float) -> float:
        """Half the interval, were there no noise."""
        low, high = replace(self, upper_tail=compute_noiseless_tail).interval(confidence)
        return (high - low) / 2


def _find_end(is_plausible: Callable[[float], bool], center: float, end: float, first_step: float) -> float:
    """How far from what was told a target is kept, towards one end: by doubled steps, then by halves."""
    towards, inside, step = math.copysign(1.0, end - center), center, first_step
    while True:
        outside = center + towards * step
        if (outside - end) * towards >= 0:
            outside = end
        if not is_plausible(outside):
            break
        if outside == end:
            return end
        inside, step = outside, 2 * step
    while abs(outside - inside) > max(END_TOLERANCE * abs(outside - center), EQUALITY_TOLERANCE * first_step):
        middle = (inside + outside) / 2
        inside, outside = (middle, outside) if is_plausible(middle) else (inside, middle)
    return outside


def _list_places(mean: float, spread: float, maximum: int | None) -> Array:
    """Whole numbers about a mean: all that may be, or evenly some of them where they are very many."""
    half_width = MAX_DEVIATIONS * spread + 10
    low, high = max(math.floor(mean - half_width), 0), math.ceil(mean + half_width)
    high = high if maximum is None else min(high, maximum)
    return np.arange(low, high + 1, -(-(high + 1 - low) // MAX_TABLE_PLACES), dtype=np.float64)


def _compute_log_choose(size: int, k: Array) -> Array:
    """ln of the number of ways to choose k of so many, but for a constant."""
    from scipy.special import gammaln

    logs: Array = -gammaln(k + 1) - gammaln(size - k + 1)
    return logs


def _normalize_logs(logs: Array) -> Array:
    weights = np.exp(logs - logs.max())
    chances: Array = weights / weights.sum()
    return chances
