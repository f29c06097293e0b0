"""What noisy totals say of the number that was asked for: its value, its range, intervals and posteriors.

Post-processing: nothing here sees a row. Totals are whole numbers in codes; point estimates are in the column's own
units.

In intervals and posteriors of a mean, or a variance, the private count has no say. A mean is stated by its share p of
the way from the column's lower to its upper bound. Two totals are proportional to the number of rows: total_i = rows *
slope_i(p). So for the weights w(p) with w . slope(p) = 0 the weighted sum of what was released is pure noise at the
true p, however many rows there are (Fieller 1954); and a posterior sums over the rows.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from discreet.estimation.grid_prior import GridPrior
from discreet.estimation.noise_distributions import (
    LOG_CUTOFF,
    SummedNoise,
    VectorNoise,
    compute_deviations,
    compute_joint_log_probability,
    compute_sum_deviation,
    compute_sum_quantile,
)
from discreet.priors.posterior import Posterior

Array = NDArray[np.float64]
ValueRange = tuple[Fraction, Fraction]
SHARE_GRID = np.linspace(0.0, 1.0, 17)
FINE_SHARE_GRID = np.linspace(0.0, 1.0, 65)
ROW_COUNT_POINTS, MEAN_POINTS = 120, 40
STAND_IN_PARTS = (0.01, 0.5)
"""The part of the chance to miss that is left to stand-ins for a mean; the second where the first is too little."""
EXCESS_PROBABILITY = 1e-6
"""The chance at most that an interval is wider than its bound."""


class Estimate(Protocol):
    """What the totals mean."""

    def value(self, totals: Sequence[int]) -> Fraction:
        """The number asked for, from totals as they are."""

    def value_range(self, ranges: Sequence[ValueRange]) -> ValueRange:
        """The least and greatest it can be, when each true total lies in its range."""


@dataclass(frozen=True, slots=True)
class Linear:
    """slope * total + offset: counts, sums, and means over a public number of rows; kept between the ends.

    `rounding_error` is how far it may be off without any noise, where the values were rounded to bins.
    """

    slope: Fraction = Fraction(1)
    offset: Fraction = Fraction(0)
    ends: ValueRange | None = None
    rounding_error: Fraction = Fraction(0)

    def value(self, totals: Sequence[int]) -> Fraction:
        return self._clamp(self.slope * totals[0] + self.offset)

    def value_range(self, ranges: Sequence[ValueRange]) -> ValueRange:
        low, high = (self.slope * end + self.offset for end in ranges[0])
        return self._clamp(low - self.rounding_error), self._clamp(high + self.rounding_error)

    def _clamp(self, value: Fraction) -> Fraction:
        return value if self.ends is None else min(max(value, self.ends[0]), self.ends[1])


@dataclass(frozen=True, slots=True)
class WeightedSum:
    """A sum of the totals, each times its weight: one of several counts that are measured together."""

    weights: tuple[Fraction, ...]

    def value(self, totals: Sequence[int]) -> Fraction:
        return sum((weight * total for weight, total in zip(self.weights, totals, strict=True)), Fraction(0))

    def value_range(self, ranges: Sequence[ValueRange]) -> ValueRange:
        ends = [sorted(weight * end for end in part) for weight, part in zip(self.weights, ranges, strict=True)]
        return sum((low for low, _ in ends), Fraction(0)), sum((high for _, high in ends), Fraction(0))


@dataclass(frozen=True, slots=True)
class MeanOfPair:
    """The mean from the sums of x - L and of U - x, whose own sum is (U - L) times the number of rows."""

    lower: int
    upper: int
    step: Fraction

    def value(self, totals: Sequence[int]) -> Fraction:
        above, below = (max(total, 0) for total in totals)
        if above + below < max(self.upper - self.lower, 1):  # fewer than one row: nothing is known
            return self._scale_share(Fraction(1, 2))
        return self._scale_share(Fraction(above, above + below))

    def value_range(self, ranges: Sequence[ValueRange]) -> ValueRange:
        (least_above, most_above), (least_below, most_below) = (_clamp_below(part, 0) for part in ranges)
        low = least_above / (least_above + most_below) if least_above else Fraction(0)
        high = most_above / (most_above + least_below) if most_above else Fraction(0)
        return self._scale_share(low), self._scale_share(high if most_above or least_below else Fraction(1))

    def _scale_share(self, share: Fraction) -> Fraction:
        return (self.lower + share * (self.upper - self.lower)) * self.step


@dataclass(frozen=True, slots=True)
class MeanFromCenter:
    """The mean from the sum of 2x - (L + U), in whole grains and rounded down, and the number of rows."""

    lower: int
    upper: int
    step: Fraction
    grain: int = 1

    def value(self, totals: Sequence[int]) -> Fraction:
        center = totals[0] * self.grain + Fraction(self.grain - 1, 2)
        return self._scale_mean(center / totals[1] if totals[1] >= 1 else Fraction(0))

    def value_range(self, ranges: Sequence[ValueRange]) -> ValueRange:
        (low, high), (fewest, most) = ranges[0], _clamp_below(ranges[1], 1)
        low, high = low * self.grain, high * self.grain + self.grain - 1
        return self._scale_mean(min(low / fewest, low / most)), self._scale_mean(max(high / fewest, high / most))

    def _scale_mean(self, twice: Fraction) -> Fraction:
        value = (self.lower + self.upper + twice) / 2
        return min(max(value, Fraction(self.lower)), Fraction(self.upper)) * self.step


@dataclass(frozen=True, slots=True)
class Variance:
    """The sample variance from the number of rows and the sums of d = 2x - (L + U) and of 2 d^2 - W^2; or its root.

    `rows` is the public number of rows where there is one; then the totals are the two sums alone.
    """

    width: int
    step: Fraction
    rows: int | None = None
    root: bool = False

    def value(self, totals: Sequence[int]) -> Fraction:
        rows, first, second = (self.rows, *totals) if self.rows is not None else totals
        if rows < 2:
            return self._clamp_variance(Fraction(0))
        spread = Fraction(second, 2 * rows) + Fraction(self.width**2, 2) - Fraction(first, rows) ** 2
        return self._clamp_variance(spread * Fraction(rows, rows - 1))

    def value_range(self, ranges: Sequence[ValueRange]) -> ValueRange:
        known_rows = (Fraction(self.rows), Fraction(self.rows)) if self.rows is not None else None
        rows, first, second = (known_rows, *ranges) if known_rows else ranges
        fewest, most = _clamp_below(rows, 2)
        half, (least, greatest) = Fraction(self.width**2, 2), second
        lowest, highest = (0 if first[0] <= 0 <= first[1] else min(map(abs, first))), max(map(abs, first))
        low = min(least / (2 * fewest), least / (2 * most)) + half - (highest / fewest) ** 2
        high = max(greatest / (2 * fewest), greatest / (2 * most)) + half - (lowest / most) ** 2
        return self._clamp_variance(low), self._clamp_variance(high * Fraction(fewest, fewest - 1))

    def _clamp_variance(self, spread: Fraction) -> Fraction:
        """A quarter of the variance of d, within what is possible, in the column's units."""
        value = min(max(spread, Fraction(0)), Fraction(2 * self.width**2)) / 4 * self.step**2
        return Fraction(math.sqrt(value)) if self.root else value


def _clamp_below(part: ValueRange, least: int) -> ValueRange:
    return max(part[0], Fraction(least)), max(part[1], Fraction(least))


@dataclass(frozen=True, eq=False)
class NoisyRatio:
    """Two noisy totals of a mean: slopes(p) are what one row adds to each at the mean p, on average."""

    noise: VectorNoise
    lower: float
    upper: float
    slopes: Callable[[Array], tuple[Array, Array]]

    @property
    def width(self) -> float:
        """From the lower to the upper bound, in units of the answer."""
        return self.upper - self.lower

    def compute_share(self, value: float) -> float:
        """Compute how far along from the lower bound a value is."""
        return min(max((value - self.lower) / self.width, 0.0), 1.0) if self.width else 0.5

    def compute_weights(self, share: float) -> tuple[float, float]:
        """Compute the weights that take the rows out."""
        first_slope, second_slope = (float(part[0]) for part in self.slopes(np.array([share])))
        return second_slope, -first_slope

    def estimate_rows(self, released: Sequence[int]) -> float:
        """Estimate the number of rows."""
        first_weight, second_weight = self._row_weights
        return first_weight * released[0] + second_weight * released[1]

    def bound_rows(self, released: Sequence[int], confidence: float) -> float:
        """Compute what the number of rows does not exceed with this probability."""
        noise = compute_sum_quantile(self.noise, self._row_weights, confidence) + sum(map(abs, self._row_weights)) / 2
        return self.estimate_rows(released) + noise

    @cached_property
    def _row_weights(self) -> tuple[float, float]:
        """The weights that make of both totals the number of rows, whatever the mean: 1 at both ends."""
        first_slopes, second_slopes = self.slopes(np.array([0.0, 1.0]))
        weights = np.linalg.solve(np.stack((first_slopes, second_slopes), axis=1), np.ones(2))
        return float(weights[0]), float(weights[1])

    def estimate_share(self, released: Sequence[int]) -> float:
        """Estimate the share: where the weighted sum of the totals vanishes."""
        at_0, at_1 = (self._compute_weighted_sum(released, share) for share in (0.0, 1.0))
        return min(max(at_0 / (at_0 - at_1), 0.0), 1.0) if at_0 != at_1 else 0.5

    def _compute_weighted_sum(self, released: Sequence[int], share: float) -> float:
        first_weight, second_weight = self.compute_weights(share)
        return first_weight * released[0] + second_weight * released[1]

    def build_mean_noise(self, share: float, rows: float) -> SummedNoise:
        """Build how far the mean falls from the truth, about a share and for so many rows."""
        return SummedNoise.of(self.noise, self.compute_error_weights(share, rows))

    def compute_sd(self, share: float, rows: float) -> float:
        """Compute the standard deviation of that."""
        return compute_sum_deviation(self.noise, self.compute_error_weights(share, rows))

    def compute_error_weights(self, share: float, rows: float) -> tuple[float, float]:
        """Compute what each noise adds to the mean, to first order."""
        weights = self.compute_weights(share)
        slope = (self._compute_slope(share) * max(rows, 1.0)) / self.width if self.width else 1.0
        return weights[0] / slope, weights[1] / slope

    def _compute_slope(self, share: float) -> float:
        """How fast the weighted sum of the slopes grows away from a share."""
        first_slopes, second_slopes = self.slopes(np.array([0.0, 1.0]))
        weights = self.compute_weights(share)
        first_change, second_change = first_slopes[1] - first_slopes[0], second_slopes[1] - second_slopes[0]
        return abs(float(weights[0] * first_change + weights[1] * second_change))

    def bound_error(self, confidence: float, rows: float) -> float:
        """Bound how far the estimated mean may be off, with this probability, where at least so many rows have a value.

        At the share q the weighted sum is slope * rows * (p - q) plus noise, and the estimate lies beyond q where that
        sum has changed its sign. So it lies farther than h from the truth p only where the noise at p + h, or at p - h,
        goes beyond slope * rows * h on one side; the tails of both sides together are those of one sum. Where the noisy
        number of rows is below one a stand-in is returned, whatever the truth: that has a small part of the chance.
        """
        miss = 1 - confidence
        for part in STAND_IN_PARTS:
            if self._bound_noisy_rows(rows, part * miss) >= 1:
                return self._bound_mean_distance(1 - (1 - part) * miss, rows)
        return self.width

    def bound_interval(self, confidence: float, rows: float) -> float:
        """Bound the distance from an answer to either end of its interval; it holds but once in a million draws.

        At least `rows` rows must have a value. The interval ends where the weighted sum reaches its limit. That sum
        vanishes at the answer and falls by the noisy number of rows.
        """
        fewest = self._bound_noisy_rows(rows, EXCESS_PROBABILITY)
        return self._bound_mean_distance(confidence, fewest) if fewest >= 1 else self.width

    def _bound_mean_distance(self, confidence: float, rows: float) -> float:
        """How far the weighted sum of the noises goes, at the worst share, as a distance of means.

        The worst share is an end: there one of two alike noises has all the weight, or both have the most.
        """
        if not self.width:
            return 0.0
        farthest = max(self._compute_limit(share, confidence) for share in (0.0, 1.0))
        return min(farthest / (self._compute_slope(0.5) * rows) * self.width, self.width)

    def _bound_noisy_rows(self, rows: float, chance: float) -> float:
        """The noisy number of rows is smaller with at most this chance."""
        noise = compute_sum_quantile(self.noise, self._row_weights, 1 - 2 * chance)
        return rows - noise - sum(map(abs, self._row_weights)) / 2

    @cached_property
    def _limit_cache(self) -> dict[float, Array]:
        return {}

    def get_limits(self, confidence: float) -> Array:
        """Return how far the weighted sum of the noises goes with this probability, at each of a few shares.

        Half a unit is added for each weight: the tails are those of noises spread over their cells.
        """
        if confidence not in self._limit_cache:
            limits = [self._compute_limit(float(share), confidence) for share in SHARE_GRID]
            self._limit_cache[confidence] = np.array(limits)
        return self._limit_cache[confidence]

    def _compute_limit(self, share: float, confidence: float) -> float:
        weights = self.compute_weights(share)
        return compute_sum_quantile(self.noise, weights, confidence) + sum(map(abs, weights)) / 2

    def interval(self, released: Sequence[int], confidence: float) -> tuple[float, float]:
        """Compute all means at which what was released is not surprising: at least this probability, however many rows.

        Where the noisy number of rows is below one that set may be narrow by chance and says nothing: then it is all
        means. Where what was released is surprising at every mean, the noise went far beyond a bound of the column:
        then the interval is that of totals at this bound exactly. It holds no more rarely, and is no wider than others.
        """
        if self.estimate_rows(released) < 1:
            return self.lower, self.upper
        limits, estimate = self.get_limits(confidence), self.estimate_share(released)
        first_slopes, second_slopes = self.slopes(FINE_SHARE_GRID)
        sums = second_slopes * released[0] - first_slopes * released[1]
        fine_limits = np.interp(FINE_SHARE_GRID, SHARE_GRID, limits)
        beyond = 0.0
        if not (np.abs(sums) <= fine_limits).any():
            offset = self._compute_weighted_sum(released, estimate)
            beyond = offset if abs(offset) > float(np.interp(estimate, SHARE_GRID, limits)) else 0.0

        def is_inside(share: float) -> bool:
            limit = float(np.interp(share, SHARE_GRID, limits))
            return abs(self._compute_weighted_sum(released, share) - beyond) <= limit

        inside = FINE_SHARE_GRID[np.abs(sums - beyond) <= fine_limits].tolist()
        inside += [estimate] if is_inside(estimate) else []
        first, last = min(inside), max(inside)
        low = _find_edge(is_inside, first, float(FINE_SHARE_GRID[first > FINE_SHARE_GRID].max(initial=0.0)))
        high = _find_edge(is_inside, last, float(FINE_SHARE_GRID[last < FINE_SHARE_GRID].min(initial=1.0)))
        return self.lower + low * self.width, self.lower + high * self.width

    def posterior(self, prior: GridPrior, released: Sequence[int], max_rows: float) -> Posterior:
        """Compute what is known of the mean after the totals, the number of rows, at most `max_rows`, summed out."""
        share, rows = self.estimate_share(released), self.estimate_rows(released)
        sd = self.compute_sd(share, rows)
        cells = prior.build_cells([(self.lower + share * self.width, max(sd, self.width * 1e-9))])
        counts, spacing = _list_row_counts(rows, compute_sum_deviation(self.noise, self._row_weights), max_rows)
        shares = np.full(len(cells.values), 0.5)
        if self.width:
            shares = np.clip((cells.values - self.lower) / self.width, 0, 1)
        totals = zip(released, self.slopes(shares), strict=False)
        parts = [total - counts[:, None] * slopes[None, :] for total, slopes in totals]
        logs = compute_joint_log_probability(self.noise, parts)
        return cells.posterior(_log_sum_exp(logs + np.log(spacing)[:, None]))


def _find_edge(is_inside: Callable[[float], bool], inside: float, outside: float) -> float:
    """Where a set of shares ends, between one inside and one outside; outside itself where that is inside too."""
    if is_inside(outside):
        return outside
    for _ in range(60):
        middle = (inside + outside) / 2
        if middle in (inside, outside):
            break  # there is no number between them
        inside, outside = (middle, outside) if is_inside(middle) else (inside, middle)
    return outside


def _list_row_counts(rows: float, sd: float, max_rows: float) -> tuple[Array, Array]:
    """Numbers of rows that may be, whole, from 1 on, and how many each stands for."""
    low, high = max(rows - LOG_CUTOFF * sd, 1.0), min(max(rows + LOG_CUTOFF * sd, 2.0), max(max_rows, 2.0))
    offsets = max(sd, 1.0) * np.sinh(np.linspace(0, math.asinh(LOG_CUTOFF), ROW_COUNT_POINTS))
    places = np.concatenate(([low, high], rows + offsets, rows - offsets))
    counts = np.unique(np.round(np.clip(places, low, high)))
    return counts, np.maximum(np.gradient(counts), 1.0) if len(counts) > 1 else np.ones(1)


def _log_sum_exp(logs: Array) -> Array:
    """ln of the sum of exponentials over the first axis."""
    highest = logs.max(axis=0)
    below = logs - highest[None]
    np.exp(below, out=below)  # in place: they are large
    return np.asarray(highest + np.log(below.sum(axis=0)))


@dataclass(frozen=True, eq=False)
class NoisyVariance:
    """The noisy number of rows, unless it is known, and sums of d and of 2 d^2 - W^2, d from -W to W, of a variance."""

    noise: VectorNoise
    width: float
    unit: float
    rows: float | None
    is_standard_deviation: bool

    def compute_variance(self, value: Array) -> Array:
        """Compute the variance of d that a value of the answer stands for."""
        square = value**2 if self.is_standard_deviation else value
        return square * 4 / self.unit**2

    def bound_error(self, confidence: float, rows: float) -> float:
        """Bound how far the estimated variance may be off, with this probability, where so many rows have a value.

        With rows n, noises z0, z1 and z2 of the three totals, n' = n + z0, m and s the mean of d and of d^2,

            n' (estimate - true) = z0 (W^2/2 + 2 m^2 - s) - 2 m z1 + z2 / 2 - (z1 - m z0)^2 / n'

        before the factor n' / (n' - 1). So it lies beyond h only where the first three, with z0 weighed by h more, go
        beyond n h on one side, or within the square of that. All of it is largest where |m| = W.
        """
        largest = self._max_variance
        part, has_known_rows = (1 - confidence) / 100, self.rows is not None
        main = 1 - 97 * part
        if self.rows is not None:
            count = fewest = self.rows
            square = self._bound_noise_sum((1.0, 0.0), 1 - part)
        else:
            count, square = rows, self._bound_noise_sum((self.width, 1.0, 0.0), 1 - part)
            fewest = rows - self._bound_noise_sum((1.0, 0.0, 0.0), 1 - 2 * part)
        if fewest < 2:
            return self._scale_to_answer(largest)
        curved, error = square**2 / fewest, 0.0
        for _ in range(50):
            weights = (2 * self.width, 0.5) if has_known_rows else (1.5 * self.width**2 + error, 2 * self.width, 0.5)
            needed = (self._bound_noise_sum(weights, main) + curved) / count
            if needed <= error:
                break
            error = needed * 1.0001
            if error >= largest:
                return self._scale_to_answer(largest)
        else:
            return self._scale_to_answer(largest)
        row_term = 0.0 if has_known_rows else (count - fewest) / ((fewest - 1) * (count - 1)) * self.width**2
        return self._scale_to_answer(min(error * fewest / (fewest - 1) + row_term, largest))

    def _bound_noise_sum(self, weights: tuple[float, ...], confidence: float) -> float:
        """How far a weighted sum of the noises goes with this probability, the noises spread over their cells."""
        return compute_sum_quantile(self.noise, weights, confidence) + sum(map(abs, weights)) / 2

    @property
    def _max_variance(self) -> float:
        """The largest variance of d that is ever returned."""
        return 2 * self.width**2

    def _scale_to_answer(self, variance: float) -> float:
        """How far apart two answers are whose variances of d are so far apart, at most."""
        error = variance / 4 * self.unit**2
        # Two roots are no farther apart than the root of how far apart their squares are.
        return math.sqrt(error) if self.is_standard_deviation else error

    def bound_interval(self, half_widths: Sequence[float], rows: float) -> float:
        """Bound the distance from an answer to either end of its interval; it holds but once in a million draws.

        At least `rows` rows must have a value; `half_widths` are how far the interval lets each noise go. The farther
        end is the lower one, before it is cut at 0: 1/n and m^2 are convex. It is farthest where the noisy rows are
        fewest, the mean is at a bound and the squares are largest, all with their noise.
        """
        width, (first_half_width, second_half_width) = self.width, half_widths[-2:]
        noises = ((1.0, 0.0), (0.0, 1.0)) if self.rows is not None else ((0.0, 1.0, 0.0), (0.0, 0.0, 1.0))
        first, second = (self._bound_noise_sum(weights, 1 - EXCESS_PROBABILITY / 3) for weights in noises)
        if self.rows is not None:
            count = noisy_rows = fewest = self.rows
        else:
            count, noisy_rows = rows, rows - self._bound_noise_sum((1.0, 0.0, 0.0), 1 - EXCESS_PROBABILITY / 3)
            fewest = noisy_rows - half_widths[0]
        if fewest < 2:
            return self._scale_to_answer(self._max_variance)
        sums, squares = count * width + first, count * width**2 + second
        means = ((sums + first_half_width) / fewest) ** 2 - (sums / noisy_rows) ** 2
        halves = ((squares + second_half_width) / fewest - squares / noisy_rows) / 2
        error = (means + halves) * fewest / (fewest - 1) + self._max_variance / (fewest - 1)
        return self._scale_to_answer(min(error, self._max_variance))

    def posterior(self, prior: GridPrior, released: Sequence[int], raw: float, max_rows: float) -> Posterior:
        """Compute what is known of the variance, rows and mean summed out: any mean is alike beforehand."""
        sds = compute_deviations(self.noise)
        has_known_rows = self.rows is not None
        first, second = (float(x) for x in (released if has_known_rows else released[1:]))
        noisy_rows = float(self.rows) if self.rows is not None else max(float(released[0]), 1.0)
        cells = prior.build_cells([(raw, self._estimate_sd(raw, noisy_rows))], 160)
        counts, spacing = np.array([noisy_rows]), np.ones(1)
        if not has_known_rows:
            counts, spacing = _list_row_counts(float(released[0]), sds[0], max_rows)
            counts, spacing = counts[::3], spacing[::3] * 3  # a third of the numbers, each for three
        variance = self.compute_variance(cells.values)[None, None, :] * ((counts - 1) / counts)[:, None, None]
        means = self._list_means(first, noisy_rows, sds[0 if has_known_rows else 1])
        middles, rows = means[None, :, None], counts[:, None, None]
        squares = variance + middles**2
        possible = squares <= self.width**2 * (1 + 1e-9)
        parts = [first - rows * middles, second - rows * (2 * squares - self.width**2)]
        if not has_known_rows:
            parts.insert(0, released[0] - rows)
        weights = np.log(spacing)[:, None, None] + np.log(np.gradient(means))[None, :, None]
        logs = compute_joint_log_probability(self.noise, parts)
        logs += weights  # in place: they are large
        logs[~possible] = -np.inf
        flat = logs.reshape(-1, logs.shape[-1])
        finite = np.isfinite(flat.max(axis=0))
        return cells.posterior(np.where(finite, _log_sum_exp(np.maximum(flat, -1e300, out=flat)), -1e300))

    def _estimate_sd(self, raw: float, rows: float) -> float:
        sds = compute_deviations(self.noise)
        size = sds[-1] / (2 * max(rows, 1.0)) * self.unit**2 / 4
        return size / max(2 * raw, math.sqrt(size)) if self.is_standard_deviation else size

    def _list_means(self, first: float, rows: float, sd: float) -> Array:
        """Means of d that may be: near the noisy one and, thinner, everywhere."""
        center, size = min(max(first / rows, -self.width), self.width), min(sd / rows, self.width) or self.width
        offsets = size * np.sinh(np.linspace(0, math.asinh(2 * self.width / size), MEAN_POINTS))
        return np.unique(np.clip(np.concatenate((center + offsets, center - offsets)), -self.width, self.width))
