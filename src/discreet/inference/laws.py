"""The laws of noises as arrays: what a noise makes likely, in floats. They describe; nothing private hangs on them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from functools import lru_cache, reduce
from itertools import product

import numpy as np
from numpy.typing import NDArray

from discreet.kernel.box_staircase import Boxes, BoxStaircase
from discreet.kernel.discrete_gaussian import DiscreteGaussian
from discreet.kernel.discrete_laplace import DiscreteLaplace
from discreet.kernel.noise import Independent, Noise
from discreet.kernel.polygon_staircase import Polygon, PolygonStaircase
from discreet.kernel.staircase import Staircase, rate_of

Array = NDArray[np.float64]
Vector = Independent | BoxStaircase | PolygonStaircase
FARTHEST = 45.0
"""What is e^-45 times as likely as the likeliest is left out."""
FARTHER = 8
"""How often a distance that is not enough is made 64 times as far."""
WIDER = 0.25
"""Added to the variance where a normal number stands for a discrete Gaussian: with half a step its tail is above."""
NEGLIGIBLE = 1e-3
"""A part so much smaller than another adds nothing that shows to their sum."""
SUMMED_LINES = 32
"""A polygon with at most so many lines of whole points above 0 is summed line by line."""


def log_chance(noise: Noise, units: Array) -> Array:
    """ln P(N = units) but for a constant; between whole units the law is carried on."""
    away = np.abs(units)
    match noise:
        case DiscreteLaplace():
            return -float(noise.rate) * away
        case DiscreteGaussian():
            return -(away**2) / (2 * float(noise.square))
        case Staircase():
            part, rate = float(noise.part), rate_of(noise.fall)
            near, far = (
                np.exp(-rate * _level(away, points, noise.units)) for points in (noise.points, noise.points + 1)
            )
            return np.log(np.maximum((1 - part) * near + part * far, 1e-300))
    raise TypeError(f"no law is known of {type(noise).__name__}")


def _level(away: Array, points: int, units: int) -> Array:
    """The level of a staircase at a distance: cells of whole points reach half a unit beyond them."""
    return np.where(away < points - 0.5, 0.0, 1 + np.floor((away - points + 0.5) / units))


def upper(noise: Noise, units: Array) -> Array:
    """P(N >= units), units whole."""
    k = np.abs(np.where(units > 0, units, 1 - units))
    beyond = _beyond(noise, k)
    return np.where(units > 0, beyond, 1 - beyond)


def _beyond(noise: Noise, k: Array) -> Array:
    """P(N >= k), k above 0."""
    if isinstance(noise, DiscreteLaplace):
        rate = float(noise.rate)
        return np.exp(-rate * k) / (1 + math.exp(-rate))
    distinct, places = np.unique(k, return_inverse=True)
    return np.array([noise.tail_units(int(one) - 1) / 2 for one in distinct])[places]


def log_joint(noise: Vector, units: Sequence[Array]) -> Array:
    """ln P of several noises at once, but for a constant. The arrays are large: no more than two are held at a time."""
    match noise:
        case Independent():
            return reduce(np.add, (log_chance(one, at) for one, at in zip(noise.noises, units, strict=True)))
        case BoxStaircase():
            sides = zip(units, noise.boxes.reaches, noise.boxes.widths, strict=True)
            levels = (np.ceil((np.abs(x) - reach - 0.5) / width) for x, reach, width in sides)
            highest: Array = reduce(np.maximum, levels)
            return -rate_of(noise.boxes.fall) * np.maximum(highest, 0.0)
        case PolygonStaircase():
            sloped = ((ax * units[0] + ay * units[1]) / b for ax, ay, b in noise.polygon.edges)
            gauge: Array = reduce(np.maximum, sloped)
            return -rate_of(noise.fall) * np.maximum(np.ceil(gauge - float(noise.core)), 0.0)


def deviations(noise: Vector) -> tuple[float, ...]:
    """The standard deviation of each component."""
    if isinstance(noise, Independent):
        return tuple(math.sqrt(one.variance()) for one in noise.noises)
    return tuple(map(math.sqrt, noise.variance()))


def deviation(noise: Vector, weights: Sequence[float]) -> float:
    """The standard deviation of a weighted sum of the components; none goes with another."""
    return math.hypot(*(weight * own for weight, own in zip(weights, deviations(noise), strict=True)))


def tail(noise: Vector, weights: Sequence[float], distance: Array) -> Array:
    """P(|weighted sum of the components| > distance), each grid point spread over its cell."""
    if isinstance(noise, Independent):
        return _independent_tail(noise.noises, np.abs(weights), distance)
    if isinstance(noise, BoxStaircase):
        return _box_tail(noise, np.abs(weights), distance)
    return _polygon_tail(noise, (float(weights[0]), float(weights[1])), distance)


def _independent_tail(noises: Sequence[Noise], weights: Array, distance: Array) -> Array:
    if all(isinstance(one, DiscreteGaussian) for one in noises):
        squares = [float(one.square) + WIDER for one in noises if isinstance(one, DiscreteGaussian)]
        total = math.hypot(*(weight * math.sqrt(square) for weight, square in zip(weights, squares, strict=True)))
        return np.array([math.erfc(x / total / math.sqrt(2)) for x in distance])
    scales = [
        weight / float(one.rate)
        for one, weight in zip(noises, weights, strict=True)
        if isinstance(one, DiscreteLaplace)
    ]
    return laplace_tail(scales, distance)


def laplace_tail(scales: Sequence[float], distance: Array) -> Array:
    """P(|sum of independent Laplace numbers| > distance), by partial fractions of their common transform."""
    kept = _apart([scale for scale in scales if scale > NEGLIGIBLE * max(scales)])
    total = np.zeros(len(distance))
    for at, scale in enumerate(kept):
        share = math.prod(scale**2 / (scale**2 - other**2) for k, other in enumerate(kept) if k != at)
        total += share * np.exp(-distance / scale)
    return np.clip(total, 0.0, 1.0)


def _apart(scales: Sequence[float]) -> list[float]:
    """Scales that differ by a thousandth at least: the formula divides by their differences."""
    found: list[float] = []
    for scale in sorted(scales):
        found.append(max(scale, found[-1] * 1.001) if found else scale)
    return found


def _box_tail(noise: BoxStaircase, weights: Array, distance: Array) -> Array:
    """A box by its weight, then a sum of uniform numbers, one for each side."""
    total = np.zeros(len(distance))
    halves = np.array(noise.boxes.reaches) + 0.5
    for index, chance in _levels(noise.boxes):
        sides = weights * (halves + index * np.array(noise.boxes.widths))
        total += chance * uniform_tail(sides, distance)
    return total


@lru_cache(maxsize=64)
def _levels(boxes: Boxes) -> tuple[tuple[float, float], ...]:
    """Boxes and their chances; where they are very many, some stand for their neighbours."""
    rate = rate_of(boxes.fall)
    last = math.ceil((FARTHEST + 12) / rate)
    index = np.unique(np.round(np.linspace(0, last, min(last + 1, 200))))
    size = np.prod(
        [2 * (reach + index * width) + 1 for reach, width in zip(boxes.reaches, boxes.widths, strict=True)], axis=0
    )
    chance = (
        np.exp(-rate * index + np.log(size)) * np.gradient(index)
        if last >= 200
        else np.exp(-rate * index + np.log(size))
    )
    return tuple(zip(index.tolist(), (chance / chance.sum()).tolist(), strict=True))


def uniform_tail(sides: Array, distance: Array) -> Array:
    """P(|sum of independent uniform numbers on [-side, side]| > distance): volumes of a cut box, by its corners."""
    kept = sides[sides > NEGLIGIBLE * sides.max()]
    if not len(kept):
        return np.ones(len(distance))  # nothing is known of what has no size, or no end
    volume, nearest = np.zeros(len(distance)), float(distance.min(initial=math.inf))
    for signs, side in _corners(len(kept)):
        corner = float(np.dot(signs, kept))
        if not corner <= nearest:  # such a one cuts nothing off
            volume += side * np.maximum(corner - distance, 0.0) ** len(kept)
    whole = math.factorial(len(kept)) * math.prod((2 * kept).tolist())
    share: Array = np.clip(2 * volume / whole, 0.0, 1.0)
    return share


@lru_cache(maxsize=16)
def _corners(dimensions: int) -> tuple[tuple[Array, int], ...]:
    """The corners of a cube by their signs, and the product of these."""
    return tuple((np.array(signs, dtype=float), math.prod(signs)) for signs in product((1, -1), repeat=dimensions))


def _polygon_tail(noise: PolygonStaircase, weights: tuple[float, float], distance: Array) -> Array:
    """A stretched polygon by its number of points, then how many of these lie beyond two parallel lines.

    A small polygon has few lines of whole points, which its area says little about: they are summed. Of large ones
    areas are near enough.
    """
    polygon, rate = noise.polygon, rate_of(noise.fall)
    last = min(math.ceil((FARTHEST + 12) / rate), 2000)
    stretches = float(noise.core) + np.arange(last, dtype=np.float64)
    small = int(np.searchsorted(stretches * polygon.reach[1], SUMMED_LINES))
    beyond, points = _beyond_lines(_lines(polygon, noise.core, small), rate, weights, distance)
    if small < last:
        reach, shares = _cuts(noise, weights)
        sizes = np.exp(-rate * np.arange(small, last)) * _points(polygon, stretches[small:])
        cut = np.interp(distance / stretches[small:, None], reach, shares, right=0.0)
        beyond, points = beyond + sizes @ cut, points + float(sizes.sum())
    return np.clip(beyond / points, 0.0, 1.0)


@lru_cache(maxsize=256)
def _lines(polygon: Polygon, core: Fraction, levels: int) -> tuple[Array, ...]:
    """The lines of whole points at y = 0, 1, ... of the smallest polygons: level, y, least x and greatest x of each."""
    found = [np.empty((4, 0))]
    for level in range(levels):
        y, lowest, highest = polygon.rows(core + level)
        found.append(np.stack((np.full(len(y), level), y, lowest, highest)).astype(np.float64))
    return tuple(np.concatenate(found, axis=1))


def _beyond_lines(
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
    held = np.minimum(highest + 0.5, middle + near) - np.maximum(lowest - 0.5, middle - near)
    return points - np.maximum(held, 0.0) @ chance, points


def _points(polygon: Polygon, stretches: Array) -> Array:
    """About how many whole points a stretched polygon has: exactly where the stretch is whole (Ehrhart)."""
    ring = polygon.vertices
    sides = list(zip(ring, ring[1:] + ring[:1], strict=True))
    area = abs(sum(x * v - y * u for (x, y), (u, v) in sides)) / 2
    around = sum(math.gcd(u - x, v - y) for (x, y), (u, v) in sides)
    return area * stretches**2 + around / 2 * stretches + 1


@lru_cache(maxsize=256)
def _cuts(noise: PolygonStaircase, weights: tuple[float, float]) -> tuple[Array, Array]:
    """The share of the polygon where |weights . point| is above each of many distances."""
    corners = [weights[0] * x + weights[1] * y for x, y in noise.polygon.vertices]
    farthest = max(map(abs, corners)) or 1.0
    height, y = noise.polygon.reach[1], np.linspace(-1, 1, 401) * noise.polygon.reach[1]
    ends = [(b - ay * y) / ax for ax, ay, b in noise.polygon.edges if ax > 0]
    right = np.minimum.reduce(ends)
    left = -right[::-1]
    reach = np.linspace(0, farthest, 201)
    slope = abs(weights[0]) or NEGLIGIBLE * abs(weights[1]) * height / max(noise.polygon.reach[0], 1)
    sign = 1.0 if weights[0] >= 0 else -1.0
    shift = sign * weights[1] * y / slope
    held = [
        np.maximum(np.minimum(right, at / slope - shift) - np.maximum(left, -at / slope - shift), 0).sum()
        for at in reach
    ]
    return reach, np.clip(1 - np.array(held) / float((right - left).sum()), 0.0, 1.0)


@lru_cache(maxsize=1024)
def quantile(noise: Vector, weights: tuple[float, ...], confidence: float) -> float:
    """A distance that the weighted sum of the components stays within with this probability: hardly above the least.

    Between two distances a tail may fall at any place, so it is not interpolated: the farther one holds.
    """
    miss, at = 1 - confidence, deviation(noise, weights) * np.geomspace(1e-2, 64, 120)
    for _ in range(FARTHER):  # of noise hardly one step wide, that step is many standard deviations
        if tail(noise, weights, at[-1:])[0] <= miss:
            break
        at = at[-1] * np.geomspace(1, 64, 120)
    place = _first_within(tail(noise, weights, at), miss)
    if place == 0:
        return float(at[0])
    between = np.linspace(at[place - 1], at[place], 400)
    return float(between[_first_within(tail(noise, weights, between), miss)])


def _first_within(tails: Array, miss: float) -> int:
    """The place of the first tail that is no heavier than the chance to miss, or the last place."""
    within = tails <= miss
    return int(np.argmax(within)) if within.any() else len(tails) - 1
