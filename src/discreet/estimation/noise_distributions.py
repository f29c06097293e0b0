"""Distributions of noise as arrays: likelihoods, tails, quantiles, posteriors of one number, weighted sums.

Everything is in units of the answer: a noise drawn in grid units enters with the size of a unit.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache, reduce
from itertools import product

import numpy as np
from numpy.typing import NDArray

from discreet.estimation.grid_prior import COARSE_RESOLUTION, GridPrior
from discreet.mechanisms.box_staircase import BoxStaircase, NestedBoxes
from discreet.mechanisms.discrete_gaussian import DiscreteGaussian
from discreet.mechanisms.discrete_laplace import DiscreteLaplace
from discreet.mechanisms.noise import IndependentNoises, Noise
from discreet.mechanisms.polygon_staircase import Polygon, PolygonStaircase
from discreet.mechanisms.staircase import Staircase, compute_rate
from discreet.priors.posterior import Posterior

Array = NDArray[np.float64]
VectorNoise = IndependentNoises | BoxStaircase | PolygonStaircase
LOG_CUTOFF = 45.0
"""What is e^-45 times as likely as the likeliest is left out."""
MAX_EXTENSIONS = 8
"""How often a distance that is not enough is made 64 times as far."""
EXTRA_VARIANCE = 0.25
"""Added to the variance where a normal number stands for a discrete Gaussian: with half a step its tail is above."""
NEGLIGIBLE_RATIO = 1e-3
"""A part so much smaller than another adds nothing that shows to their sum."""
MAX_SUMMED_LINES = 32
"""A polygon with at most so many lines of whole points above 0 is summed line by line."""
PLACES_PER_DEVIATION = 6
MIN_PROBABILITY = 1e-250
MAX_PLACES = 500
"""So many places of an answer are weighed to estimate its error; where it takes more the prior hardly helps."""
MAX_EDGES = 2**15
"""Narrow cells are cut over eight deviations of a prior, or, where that takes more of them, at those places alone."""
NoiseParts = tuple[tuple[float, float, int], ...]
"""Rates and weights of noises, and how often each."""
TABLE_PLACES = 2**15
MAX_DEVIATIONS, MAX_STEPS = 54.0, 8.0
"""The law of a sum is tabulated to so many of its deviations, and of its longest steps, from 0."""
MAX_RATE = 300.0
"""A noise of a larger rate is never anything but 0."""
BLUR_PLACES, BLUR_DEVIATIONS = 1.5, 4.0
"""The law of a sum is blurred by a normal number of so many places, which stays within so many of its deviations."""


def compute_log_probability(noise: Noise, units: Array) -> Array:
    """Compute ln P(N = units) but for a constant; between whole units the law is carried on."""
    distances = np.abs(units)
    match noise:
        case DiscreteLaplace():
            return -float(noise.rate) * distances
        case DiscreteGaussian():
            return -(distances**2) / (2 * float(noise.square))
        case Staircase():
            part, rate = float(noise.part), compute_rate(noise.fall)
            near, far = (
                np.exp(-rate * _compute_staircase_level(distances, points, noise.units))
                for points in (noise.points, noise.points + 1)
            )
            return np.log(np.maximum((1 - part) * near + part * far, 1e-300))
    raise TypeError(f"no law is known of {type(noise).__name__}")


def _compute_staircase_level(distances: Array, points: int, units: int) -> Array:
    """The level of a staircase at a distance: cells of whole points reach half a unit beyond them."""
    return np.where(distances < points - 0.5, 0.0, 1 + np.floor((distances - points + 0.5) / units))


def compute_upper_tail(noise: Noise, units: Array) -> Array:
    """Compute P(N >= units), units whole."""
    positive = np.abs(np.where(units > 0, units, 1 - units))
    if isinstance(noise, DiscreteLaplace):
        rate = float(noise.rate)
        tail = np.exp(-rate * positive) / (1 + math.exp(-rate))
    else:
        distinct, places = np.unique(positive, return_inverse=True)
        tail = np.array([noise.tail_units(int(count) - 1) / 2 for count in distinct])[places]
    return np.where(units > 0, tail, 1 - tail)


def compute_joint_log_probability(noise: VectorNoise, units: Sequence[Array]) -> Array:
    """Compute ln P of several noises at once, but for a constant; of the large arrays two are held at a time."""
    match noise:
        case IndependentNoises():
            return reduce(np.add, map(compute_log_probability, noise.noises, units))
        case BoxStaircase():
            sides = zip(units, noise.boxes.half_widths, noise.boxes.widths, strict=True)
            levels = (np.ceil((np.abs(x) - half_width - 0.5) / width) for x, half_width, width in sides)
            highest: Array = reduce(np.maximum, levels)
            return -compute_rate(noise.boxes.fall) * np.maximum(highest, 0.0)
        case PolygonStaircase():
            sloped = ((ax * units[0] + ay * units[1]) / b for ax, ay, b in noise.polygon.edges)
            gauge: Array = reduce(np.maximum, sloped)
            return -compute_rate(noise.fall) * np.maximum(np.ceil(gauge - float(noise.core)), 0.0)


def compute_deviations(noise: VectorNoise) -> tuple[float, ...]:
    """Compute the standard deviation of each component."""
    if isinstance(noise, IndependentNoises):
        return tuple(math.sqrt(component.variance()) for component in noise.noises)
    return tuple(map(math.sqrt, noise.variance()))


def compute_sum_deviation(noise: VectorNoise, weights: Sequence[float]) -> float:
    """Compute the standard deviation of a weighted sum of the components, which are uncorrelated."""
    return math.hypot(*(weight * sd for weight, sd in zip(weights, compute_deviations(noise), strict=True)))


def compute_sum_tail(noise: VectorNoise, weights: Sequence[float], distance: Array) -> Array:
    """Compute P(|weighted sum of the components| > distance), each grid point spread over its cell."""
    if isinstance(noise, IndependentNoises):
        return _compute_independent_tail(noise.noises, np.abs(weights), distance)
    if isinstance(noise, BoxStaircase):
        return _compute_box_tail(noise, np.abs(weights), distance)
    return _compute_polygon_tail(noise, (float(weights[0]), float(weights[1])), distance)


def _compute_independent_tail(noises: Sequence[Noise], weights: Array, distance: Array) -> Array:
    pairs = [*zip(noises, weights, strict=True)]
    if all(isinstance(noise, DiscreteGaussian) for noise in noises):
        squares = [(noise.square, weight) for noise, weight in pairs if isinstance(noise, DiscreteGaussian)]
        total = math.hypot(*(weight * math.sqrt(float(square) + EXTRA_VARIANCE) for square, weight in squares))
        return np.array([math.erfc(x / total / math.sqrt(2)) for x in distance])
    scales = [weight / float(noise.rate) for noise, weight in pairs if isinstance(noise, DiscreteLaplace)]
    return compute_laplace_tail(scales, distance)


def compute_laplace_tail(scales: Sequence[float], distance: Array) -> Array:
    """Compute P(|sum of independent Laplace numbers| > distance), by partial fractions of their common transform."""
    large_scales = _separate_scales([scale for scale in scales if scale > NEGLIGIBLE_RATIO * max(scales)])
    total = np.zeros(len(distance))
    for index, scale in enumerate(large_scales):
        share = math.prod(scale**2 / (scale**2 - other**2) for k, other in enumerate(large_scales) if k != index)
        total += share * np.exp(-distance / scale)
    return np.clip(total, 0.0, 1.0)


def _separate_scales(scales: Sequence[float]) -> list[float]:
    """Scales that differ by a thousandth at least: the formula divides by their differences."""
    distinct_scales: list[float] = []
    for scale in sorted(scales):
        distinct_scales.append(max(scale, distinct_scales[-1] * 1.001) if distinct_scales else scale)
    return distinct_scales


def _compute_box_tail(noise: BoxStaircase, weights: Array, distance: Array) -> Array:
    """A box by its weight, then a sum of uniform numbers, one for each side."""
    total = np.zeros(len(distance))
    halves = np.array(noise.boxes.half_widths) + 0.5
    for index, chance in _weigh_boxes(noise.boxes):
        sides = weights * (halves + index * np.array(noise.boxes.widths))
        total += chance * compute_uniform_tail(sides, distance)
    return total


@lru_cache(maxsize=64)
def _weigh_boxes(boxes: NestedBoxes) -> tuple[tuple[float, float], ...]:
    """Boxes and their chances; where they are very many, some stand for their neighbours."""
    rate = compute_rate(boxes.fall)
    last = math.ceil((LOG_CUTOFF + 12) / rate)
    index = np.unique(np.round(np.linspace(0, last, min(last + 1, 200))))
    sides = zip(boxes.half_widths, boxes.widths, strict=True)
    size = np.prod([2 * (half_width + index * width) + 1 for half_width, width in sides], axis=0)
    chance = np.exp(-rate * index + np.log(size))
    if last >= 200:
        chance = chance * np.gradient(index)
    return tuple(zip(index.tolist(), (chance / chance.sum()).tolist(), strict=True))


def compute_uniform_tail(sides: Array, distance: Array) -> Array:
    """Compute P(|sum of independent uniform numbers on [-side, side]| > distance), by the corners of a cut box."""
    large_sides = sides[sides > NEGLIGIBLE_RATIO * sides.max()]
    if not len(large_sides):
        return np.ones(len(distance))  # nothing is known of what has no size, or no end
    volume, nearest = np.zeros(len(distance)), float(distance.min(initial=math.inf))
    for signs, side in _list_corners(len(large_sides)):
        corner = float(np.dot(signs, large_sides))
        if not corner <= nearest:  # such a one cuts nothing off
            volume += side * np.maximum(corner - distance, 0.0) ** len(large_sides)
    full_volume = math.factorial(len(large_sides)) * math.prod((2 * large_sides).tolist())
    return np.asarray(np.clip(2 * volume / full_volume, 0.0, 1.0))


@lru_cache(maxsize=16)
def _list_corners(dimensions: int) -> tuple[tuple[Array, int], ...]:
    """The corners of a cube by their signs, and the product of these."""
    return tuple((np.array(signs, dtype=float), math.prod(signs)) for signs in product((1, -1), repeat=dimensions))


def _compute_polygon_tail(noise: PolygonStaircase, weights: tuple[float, float], distance: Array) -> Array:
    """A stretched polygon by its number of points, then how many of these lie beyond two parallel lines.

    A small polygon has few lines of whole points, which its area says little about: they are summed. Of large ones
    areas are near enough.
    """
    polygon, rate = noise.polygon, compute_rate(noise.fall)
    last = min(math.ceil((LOG_CUTOFF + 12) / rate), 2000)
    stretches = float(noise.core) + np.arange(last, dtype=np.float64)
    small = int(np.searchsorted(stretches * polygon.half_widths[1], MAX_SUMMED_LINES))
    beyond, points = _sum_beyond_lines(_list_point_lines(polygon, noise.core, small), rate, weights, distance)
    if small < last:
        cut_distances, shares = _tabulate_cuts(noise, weights)
        sizes = np.exp(-rate * np.arange(small, last)) * _count_points(polygon, stretches[small:])
        cut = np.interp(distance / stretches[small:, None], cut_distances, shares, right=0.0)
        beyond, points = beyond + sizes @ cut, points + float(sizes.sum())
    return np.clip(beyond / points, 0.0, 1.0)


@lru_cache(maxsize=256)
def _list_point_lines(polygon: Polygon, core: Fraction, levels: int) -> tuple[Array, ...]:
    """The lines of whole points at y = 0, 1, ... of the smallest polygons: level, y, least x and greatest x of each."""
    line_parts = [np.empty((4, 0))]
    for level in range(levels):
        y, lowest, highest = polygon.compute_rows(core + level)
        line_parts.append(np.stack((np.full(len(y), level), y, lowest, highest)).astype(np.float64))
    return tuple(np.concatenate(line_parts, axis=1))


def _sum_beyond_lines(
    lines: tuple[Array, ...], rate: float, weights: tuple[float, float], distance: Array
) -> tuple[Array, float]:
    """The points with |weights . point| above each distance, and all points, by their chance but for a constant.

    Points are spread along their lines. A line at -y is the mirror image of that at y, and is counted with it.
    """
    level, y, lowest, highest = lines
    chance = np.exp(-rate * level) * np.where(y > 0, 2.0, 1.0)
    size = np.maximum(highest - lowest + 1, 0.0) * chance
    points, far = float(size.sum()), distance[:, None]
    if not weights[0]:
        return (np.abs(weights[1] * y) > far) @ size, points
    middle, near = -weights[1] * y / weights[0], far / abs(weights[0])
    inside = np.minimum(highest + 0.5, middle + near) - np.maximum(lowest - 0.5, middle - near)
    return points - np.maximum(inside, 0.0) @ chance, points


def _count_points(polygon: Polygon, stretches: Array) -> Array:
    """About how many whole points a stretched polygon has: exactly where the stretch is whole (Ehrhart)."""
    ring = polygon.vertices
    sides = list(zip(ring, ring[1:] + ring[:1], strict=True))
    area = abs(sum(x * v - y * u for (x, y), (u, v) in sides)) / 2
    boundary_points = sum(math.gcd(u - x, v - y) for (x, y), (u, v) in sides)
    return area * stretches**2 + boundary_points / 2 * stretches + 1


@lru_cache(maxsize=256)
def _tabulate_cuts(noise: PolygonStaircase, weights: tuple[float, float]) -> tuple[Array, Array]:
    """The share of the polygon where |weights . point| is above each of many distances."""
    corners = [weights[0] * x + weights[1] * y for x, y in noise.polygon.vertices]
    farthest = max(map(abs, corners)) or 1.0
    height, y = noise.polygon.half_widths[1], np.linspace(-1, 1, 401) * noise.polygon.half_widths[1]
    ends = [(b - ay * y) / ax for ax, ay, b in noise.polygon.edges if ax > 0]
    right = np.minimum.reduce(ends)
    left = -right[::-1]
    distances = np.linspace(0, farthest, 201)
    slope = abs(weights[0]) or NEGLIGIBLE_RATIO * abs(weights[1]) * height / max(noise.polygon.half_widths[0], 1)
    sign = 1.0 if weights[0] >= 0 else -1.0
    shift = sign * weights[1] * y / slope
    areas_inside = [
        np.maximum(np.minimum(right, distance / slope - shift) - np.maximum(left, -distance / slope - shift), 0).sum()
        for distance in distances
    ]
    return distances, np.clip(1 - np.array(areas_inside) / float((right - left).sum()), 0.0, 1.0)


@lru_cache(maxsize=1024)
def compute_sum_quantile(noise: VectorNoise, weights: tuple[float, ...], confidence: float) -> float:
    """Compute a distance that the weighted sum stays within with this probability: hardly above the least.

    Between two distances a tail may fall at any place, so it is not interpolated: the farther one holds.
    """
    miss, distances = 1 - confidence, compute_sum_deviation(noise, weights) * np.geomspace(1e-2, 64, 120)
    for _ in range(MAX_EXTENSIONS):  # of noise hardly one step wide, that step is many standard deviations
        if compute_sum_tail(noise, weights, distances[-1:])[0] <= miss:
            break
        distances = distances[-1] * np.geomspace(1, 64, 120)
    place = _find_first_within(compute_sum_tail(noise, weights, distances), miss)
    if place == 0:
        return float(distances[0])
    between = np.linspace(distances[place - 1], distances[place], 400)
    return float(between[_find_first_within(compute_sum_tail(noise, weights, between), miss)])


def _find_first_within(tails: Array, miss: float) -> int:
    """The place of the first tail that is no heavier than the chance to miss, or the last place."""
    within = tails <= miss
    return int(np.argmax(within)) if within.any() else len(tails) - 1


@dataclass(frozen=True, slots=True)
class ScaledNoise:
    """How far an answer falls from the truth: a noise of whole grid units, `unit` apart in units of the answer."""

    noise: Noise
    unit: float

    @property
    def sd(self) -> float:
        """Its standard deviation."""
        return math.sqrt(self.noise.variance()) / float(self.noise.step) * self.unit

    def compute_log_probability(self, distances: Array) -> Array:
        """How likely a distance is, but for a constant."""
        return compute_log_probability(self.noise, distances / self.unit)

    def compute_upper_tail(self, distances: Array) -> Array:
        """The chance of at least this distance, upwards."""
        return compute_upper_tail(self.noise, np.round(distances / self.unit))


@dataclass(frozen=True, slots=True)
class SummedNoise:
    """The same for a weighted sum of several noises, tabulated."""

    sd: float
    distances: Array
    tail_probabilities: Array

    @staticmethod
    def of(noise: VectorNoise, weights: tuple[float, ...]) -> SummedNoise:
        """From its tail."""
        sd = compute_sum_deviation(noise, weights)
        distances = sd * np.sinh(np.linspace(0, math.asinh(LOG_CUTOFF), 160)) / 1.5
        return SummedNoise(sd, distances, compute_sum_tail(noise, weights, distances))

    @property
    def unit(self) -> float:
        """It is smooth: places as near as one likes."""
        return 0.0

    def compute_log_probability(self, offsets: Array) -> Array:
        density = np.maximum(-np.diff(self.tail_probabilities), 1e-300) / np.diff(self.distances)
        middle = (self.distances[1:] + self.distances[:-1]) / 2
        logs = np.interp(np.abs(offsets), middle, np.log(density))
        return np.where(np.abs(offsets) > middle[-1], -600 - np.abs(offsets) / self.sd, logs)

    def compute_upper_tail(self, offsets: Array) -> Array:
        half = np.interp(np.abs(offsets), self.distances, self.tail_probabilities, right=0.0) / 2
        return np.where(offsets >= 0, half, 1 - half)


@dataclass(frozen=True, slots=True)
class RoundedNoise:
    """The same for a noise and a rounding by at most `blur`, taken to be even, in units of the answer."""

    noise: ScaledNoise
    blur: float

    @property
    def sd(self) -> float:
        """Of both together."""
        return math.hypot(self.noise.sd, self.blur / math.sqrt(3))

    @property
    def unit(self) -> float:
        """Of the noise."""
        return self.noise.unit

    def compute_log_probability(self, distances: Array) -> Array:
        far = np.abs(distances)
        tail = self.noise.compute_upper_tail
        probability = tail(far - self.blur) - tail(far + self.blur + self.unit)
        logs = np.log(np.maximum(probability, MIN_PROBABILITY))
        return np.where(probability > MIN_PROBABILITY, logs, -600 - far / self.sd)

    def compute_upper_tail(self, distances: Array) -> Array:
        tail = self.noise.compute_upper_tail
        return (tail(distances - self.blur) + tail(distances + self.blur)) / 2


AnswerNoise = ScaledNoise | SummedNoise | RoundedNoise


def update_grid_prior(prior: GridPrior, noise: AnswerNoise, raw: float) -> Posterior:
    """Compute what someone who held the prior knows after the raw answer."""
    cells = prior.build_cells([(raw, noise.sd)])
    return cells.posterior(noise.compute_log_probability(raw - cells.values))


def build_flat_posterior(noise: AnswerNoise, raw: float, unit: float) -> Posterior:
    """Build the noise distribution about the raw answer: what it says by itself, all values being alike."""
    offsets = max(noise.sd, unit) * np.sinh(np.linspace(0, math.asinh(20), 200))
    step = max(unit, noise.sd * 1e-6)
    edges = np.unique(np.round(np.concatenate((-offsets, offsets)) / step)) * step
    places = np.concatenate((edges - step / 2, [edges[-1] + step / 2]))
    values = (places[1:] + places[:-1]) / 2
    weight = np.exp(noise.compute_log_probability(values)) * np.diff(places)
    return Posterior(weight / weight.sum(), raw + places)


def compute_surprise(prior: GridPrior, noise: AnswerNoise, raw: float) -> float:
    """Compute the chance, if the stated prior is right, of a raw answer at least as far out on its side."""
    cells = prior.build_cells([(raw, noise.sd)])
    above = float(cells.stated @ noise.compute_upper_tail(raw - cells.values))
    below = float(cells.stated @ noise.compute_upper_tail(cells.values - raw))
    return min(above, below)


def estimate_posterior_error(prior: GridPrior | None, noise: AnswerNoise) -> float:
    """Estimate the root mean square error of the posterior mean for someone whose stated prior is right.

    Without a prior it is that of the raw answer.
    """
    if prior is None or not noise.sd:
        return noise.sd
    places = _list_answer_places(prior, noise)
    if places is None:
        return noise.sd
    mean, sd = prior.moments
    gap = max(min(noise.sd, max(sd, noise.sd / 40)) / 5, prior.step)
    first, last = mean - 8 * sd, mean + 8 * sd + gap
    if (last - first) / gap > MAX_EDGES:
        # Of a tail that is rare and far out, most lies beyond all places: what is there is weighed in wider cells.
        first += max(math.floor((places[0] - first) / gap), 0) * gap
        last = min(last, places[-1] + 2 * gap)
    cells = prior.build_cells([], COARSE_RESOLUTION, np.arange(first, last, gap))
    chance = np.exp(noise.compute_log_probability(places[None, :] - cells.values[:, None]))
    evidence = cells.used @ chance
    moment = (cells.used * cells.values) @ chance
    guess = np.divide(moment, evidence, out=np.full(len(places), mean), where=evidence > 0)
    rows = chance.sum(axis=1)
    square = ((guess[None, :] - cells.values[:, None]) ** 2 * chance).sum(axis=1)
    is_covered = rows > 0.5 * rows.max()
    weight = np.where(is_covered, cells.stated, 0.0)
    error = np.divide(square, rows, out=np.zeros(len(rows)), where=is_covered)
    return math.sqrt(float(weight @ error) / float(weight.sum()))


def _list_answer_places(prior: GridPrior, noise: AnswerNoise) -> Array | None:
    """Where an answer may fall if the prior is right, near enough to show the noise; None where that is too many."""
    stated = prior.build_cells().get_stated_distribution()
    low, high = stated.quantile(2e-4) - 12 * noise.sd, stated.quantile(1 - 2e-4) + 12 * noise.sd
    gap = noise.sd / PLACES_PER_DEVIATION
    if noise.unit:
        gap = max(round(gap / noise.unit), 1) * noise.unit
    count = math.ceil((high - low) / gap)
    if count > MAX_PLACES:
        return None
    origin = round(low / noise.unit) * noise.unit if noise.unit else low
    return origin + gap * np.arange(count + 1, dtype=np.float64)


def tabulate_laplace_sum(noise: IndependentNoises, weights: tuple[float, ...]) -> SummedNoise:
    """Tabulate the noise of the sum, for inference on a line."""
    gap, beyond = _tabulate_distribution(_group_parts(noise, weights))
    pairs = zip(noise.noises, weights, strict=True)
    sd = math.sqrt(sum(weight**2 * component.variance() for component, weight in pairs))
    distances = sd * np.sinh(np.linspace(0, math.asinh(LOG_CUTOFF), 160)) / 1.5
    return SummedNoise(sd, distances, np.interp(distances / gap, np.arange(TABLE_PLACES), beyond))


def compute_sum_half_width(noise: IndependentNoises, weights: tuple[float, ...], confidence: float) -> float:
    """Compute a distance, to four digits and hardly above the least, that the sum stays within this often."""
    return compute_parts_half_width(_group_parts(noise, weights), confidence)


def compute_parts_half_width(parts: NoiseParts, confidence: float) -> float:
    """Compute the same of as many noises as there are of each rate and weight."""
    gap, beyond = _tabulate_distribution(parts)
    outside = np.flatnonzero(beyond > 1 - confidence)  # near 0 the blurred law swings by 2e-7, and may dip
    place = int(outside[-1]) + 1 if len(outside) else 0
    half_width = (place + BLUR_PLACES * BLUR_DEVIATIONS) * gap
    digit = 10.0 ** (math.floor(math.log10(half_width)) - 3)
    return math.ceil(half_width / digit) * digit


def _group_parts(noise: IndependentNoises, weights: tuple[float, ...]) -> NoiseParts:
    rates = [float(part.rate) if isinstance(part, DiscreteLaplace) else math.nan for part in noise.noises]
    pairs = Counter((rate, abs(weight)) for rate, weight in zip(rates, weights, strict=True) if weight)
    return tuple((rate, weight, count) for (rate, weight), count in sorted(pairs.items()))


@lru_cache(maxsize=64)
def _tabulate_distribution(parts: NoiseParts) -> tuple[float, Array]:
    """The gap between places, and P(|blurred sum| > place) at each.

    E exp(i t w N) = 1 / (1 + (sin(t w / 2) / sinh(rate / 2))^2): exact, whatever rate and weight.
    """
    halves = [math.sinh(min(rate / 2, MAX_RATE)) for rate, _, _ in parts]
    parts_and_halves = zip(parts, halves, strict=True)
    sd = math.sqrt(sum(count * weight**2 / (2 * half**2) for (_, weight, count), half in parts_and_halves))
    gap = (MAX_DEVIATIONS * sd + MAX_STEPS * max(weight for _, weight, _ in parts)) / TABLE_PLACES
    places = np.arange(TABLE_PLACES + 1) * math.pi / TABLE_PLACES
    transform = np.exp(-((BLUR_PLACES * places) ** 2) / 2)
    for (_, weight, count), half in zip(parts, halves, strict=True):
        transform *= np.exp(-count * np.log1p((np.sin(places * weight / gap / 2) / half) ** 2))
    mass = np.fft.irfft(transform)[:TABLE_PLACES]
    return gap, np.append(2 * np.cumsum(mass[:0:-1])[::-1], 0.0)
