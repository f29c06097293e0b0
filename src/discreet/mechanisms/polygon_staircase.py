"""The polygon staircase, noise for two numbers whose changes are tied, drawn exactly. Proof: polygon_staircase.md."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from discreet.errors import InvalidInput, Unsupported
from discreet.mechanisms.box_staircase import NestedBoxes
from discreet.mechanisms.entropy import Entropy
from discreet.mechanisms.noise import find_least
from discreet.mechanisms.staircase import (
    Units,
    VectorStaircase,
    build_fall_geometric,
    compute_fall,
    compute_rate,
    find_best_core,
    sum_binomial_series,
)
from discreet.numeric import as_int, as_number_between, as_positive, as_rational, format_exact
from discreet.untrusted import CheckedValue, copy_list, set_fields

Point = tuple[int, int]
Rows = NDArray[np.int64]

MAX_VERTEX = 2**18
"""Vertices farther out than this would not fit 64-bit products; take a coarser step."""
CORE_PARTS = 1000
"""The core is a multiple of 1/CORE_PARTS of the polygon."""
NEGLIGIBLE_SHARE = 2.0**-40
"""Intervals and expected errors leave out the levels that hold less than this share of the probability."""
MAX_ROWS = 2**26
"""Intervals and expected errors sum rows of points, and refuse when there are more than this many."""


@dataclass(frozen=True)
class Polygon(CheckedValue):
    """A convex polygon, symmetric about 0, with whole vertices in order around it."""

    vertices: tuple[Point, ...]

    def __post_init__(self) -> None:
        vertex_set = set(self.vertices)
        if any(max(abs(x), abs(y)) > MAX_VERTEX for x, y in self.vertices):
            raise InvalidInput(f"the polygon reaches beyond {MAX_VERTEX} steps; take a coarser step")
        if any((-x, -y) not in vertex_set for x, y in self.vertices):
            raise InvalidInput("the polygon must be symmetric about 0: with (x, y) it needs (-x, -y)")
        is_convex = all(b > 0 and ax * x + ay * y <= b for ax, ay, b in self.edges for x, y in self.vertices)
        if len(vertex_set) < max(4, len(self.vertices)) or not is_convex:
            raise InvalidInput("the vertices must go once around a convex polygon with 0 inside, none listed twice")

    @cached_property
    def edges(self) -> tuple[tuple[int, int, int], ...]:
        """(ax, ay, b) with the polygon where ax x + ay y <= b for every edge; b is above 0."""
        ring = self.vertices
        is_clockwise = sum(x * v - y * u for (x, y), (u, v) in zip(ring, ring[1:] + ring[:1], strict=True)) < 0
        corners = ring[::-1] if is_clockwise else ring
        pairs = zip(corners, corners[1:] + corners[:1], strict=True)
        return tuple((v - y, x - u, x * v - y * u) for (x, y), (u, v) in pairs)

    @property
    def half_widths(self) -> Point:
        """The half widths of its bounding box."""
        return max(x for x, _ in self.vertices), max(y for _, y in self.vertices)

    def swap_axes(self) -> Polygon:
        """The same with x and y exchanged."""
        return Polygon(tuple((y, x) for x, y in self.vertices))

    def gauge(self, point: Sequence[int]) -> Fraction:
        """By how much the polygon must be stretched to reach the point."""
        return max(Fraction(ax * int(point[0]) + ay * int(point[1]), b) for ax, ay, b in self.edges)

    def compute_rows(self, stretch: Fraction) -> tuple[Rows, Rows, Rows]:
        """The lines y = 0, 1, ... of whole points in the stretched polygon: y, least x, greatest x.

        The stretch is a multiple of 1/CORE_PARTS; a line without whole points has least x = greatest x + 1.
        """
        y = np.arange(math.floor(stretch * self.half_widths[1]) + 1, dtype=np.int64)
        return y, -self._find_right_ends(stretch, -y), self._find_right_ends(stretch, y)

    def _find_right_ends(self, stretch: Fraction, y: Rows) -> Rows:
        top, below = stretch.numerator, stretch.denominator
        ends = [(b * top - below * ay * y) // (below * ax) for ax, ay, b in self.edges if ax > 0]
        right: Rows = np.minimum.reduce(ends)
        return right


@dataclass(frozen=True, init=False)
class PolygonStaircase(VectorStaircase):
    """Staircase noise for a pair of answers whose difference between neighbors lies in a polygon P.

    P(x) is proportional to fall^level(x), level(x) = max(0, ceil(gauge(x) - core)), gauge(x) the factor by which P must
    be stretched to reach x. One draw for the pair is epsilon-DP for any differences inside P.

    Args:
        epsilon: Privacy budget of the pair, above 0.
        vertices: The corners of P in grid steps: whole numbers, in order around it.
        core: The size of the core as a share of P, a multiple of 1/1000; by default the one of least variance.
        step: The distance of two points of the grid: one number, or one for each component.

    Raises:
        InvalidInput: The polygon is not convex and symmetric around 0, or another argument is not valid.

    Example:
        >>> from discreet.mechanisms import PolygonStaircase
        >>> noise = PolygonStaircase(epsilon=1, vertices=[(2, 0), (0, 2), (-2, 0), (0, -2)])
        >>> noise.epsilon_at([1, 1]), noise.epsilon_at([2, 2])
        (Fraction(1, 1), Fraction(2, 1))
    """

    epsilon: Fraction
    polygon: Polygon
    core: Fraction
    steps: tuple[Fraction, Fraction]
    fall: Fraction

    def __init__(
        self, epsilon: object, vertices: Sequence[Sequence[object]], core: object | None = None, step: object = 1
    ) -> None:
        exact_epsilon = as_positive(epsilon, "epsilon")
        fall = compute_fall(exact_epsilon)
        pair = list(step) if isinstance(step, Sequence) and not isinstance(step, str) else [step, step]
        vertices = [copy_list(vertex, "a vertex") for vertex in copy_list(vertices, "the vertices")]
        if len(pair) != 2 or any(len(vertex) != 2 for vertex in vertices):
            raise InvalidInput("a polygon lies in the plane: give two numbers per vertex, and one step or two")
        ring = tuple((_parse_vertex(x), _parse_vertex(y)) for x, y in vertices)
        if core is None:
            share = Fraction(max(1, round(find_best_core(fall, 2) * CORE_PARTS)), CORE_PARTS)
        else:
            share = as_positive(core, "the core")
            if share > 1 or (share * CORE_PARTS).denominator != 1:
                rule = "the core must be a multiple of 0.001 of the polygon and at most 1"
                raise InvalidInput(f"{rule}, got {format_exact(share)}")
        polygon, steps = Polygon(ring), (as_positive(pair[0], "step"), as_positive(pair[1], "step"))
        set_fields(self, epsilon=exact_epsilon, polygon=polygon, core=share, steps=steps, fall=fall)

    def __reduce__(self) -> tuple[type, tuple[object, ...]]:
        return type(self), (self.epsilon, self.polygon.vertices, self.core, self.steps)

    def probability(self, units: Sequence[int]) -> Fraction:
        """Compute the exact probability of one point of the grid."""
        return self.fall ** self.level(units) / ((1 - self.fall) * self._level_sums[0])

    def level(self, units: Sequence[int]) -> int:
        """How many times the polygon must be added to the core to reach the point."""
        return max(0, math.ceil(self.polygon.gauge(units) - self.core))

    @property
    def _level_sums(self) -> tuple[Fraction, Fraction, Fraction]:
        return _compute_level_sums(self.polygon, self.core, self.fall)

    def exact_variance(self) -> tuple[Fraction, Fraction]:
        """Compute the variance of each component in squared units of the answer, as rationals."""
        points, x, y = self._level_sums
        return x / points * self.steps[0] ** 2, y / points * self.steps[1] ** 2

    def expected_error(self) -> tuple[float, float]:
        """The mean of each component's absolute value."""
        x_error, y_error = (2 * float(np.dot(marginal, np.arange(len(marginal)))) for marginal in self._marginals)
        return x_error * float(self.steps[0]), y_error * float(self.steps[1])

    def tail_units(self, component: int, units: int) -> float:
        """P(|N_a| > units * step_a), less the negligible levels."""
        return 2 * float(self._marginals[component][units + 1 :].sum()) if units >= 0 else 1.0

    def interval(self, confidence: object) -> tuple[tuple[float, float], tuple[float, float]]:
        """For each component by itself the shortest symmetric interval of at least that probability."""
        miss = 1 - float(as_number_between(confidence, 0, 1, "confidence"))
        (x_half_width, y_half_width) = (
            int(np.argmax(2 * (np.cumsum(marginal[::-1])[::-1] - marginal) <= miss)) * float(step)
            for marginal, step in zip(self._marginals, self.steps, strict=True)
        )
        return (-x_half_width, x_half_width), (-y_half_width, y_half_width)

    def useful(self, alpha: object, answers: int = 1) -> float:
        """The beta of (alpha, beta)-usefulness: the chance that some component of some answer is off by over alpha."""
        distance = as_positive(alpha, "alpha")
        limits = math.floor(distance / self.steps[0]), math.floor(distance / self.steps[1])
        rate, total = compute_rate(self.fall), float(self._level_sums[0])
        miss = sum(
            math.exp(-rate * index) / total * self._count_outside(self.core + index, limits)
            for index in range(_count_levels(self.polygon, self.core, self.fall))
        )
        return -math.expm1(as_int(answers, "answers") * math.log1p(-miss)) if miss < 1 else 1.0

    def _count_outside(self, stretch: Fraction, limits: tuple[int, int]) -> int:
        """The points of the stretched polygon with |x| or |y| above its limit."""
        y, left, right = self.polygon.compute_rows(stretch)
        inside_counts = np.minimum(right, limits[0]) - np.maximum(left, -limits[0]) + 1
        beyond = np.maximum(right - left + 1, 0) - np.where(y <= limits[1], np.maximum(inside_counts, 0), 0)
        return int(2 * beyond.sum() - beyond[0])

    @property
    def _marginals(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        of_x = _compute_marginal(self.polygon.swap_axes(), self.core, self.fall)
        return of_x, _compute_marginal(self.polygon, self.core, self.fall)

    def epsilon_at(self, units: Sequence[int]) -> Fraction:
        """The pure loss of a shift by that many grid units in each component."""
        return math.ceil(self.polygon.gauge(units)) * self.epsilon

    def sample_units(self, size: int, entropy: Entropy) -> Units:
        """`size` independent draws in grid units: points of the bounding boxes, kept where the polygon holds them.

        How many are not kept is independent of those that are.
        """
        boxes = _build_boxes(self.polygon, self.core, self.fall)
        rows: Units = np.zeros((0, 2), dtype=np.int64)
        while (missing := size - len(rows)) > 0:
            index, points = boxes.sample(1 if size == 1 else 2 * missing + 16, entropy)
            accepted_points: Units = points[self._contains_points(index, points)]
            rows = accepted_points[:size] if len(rows) == 0 else np.concatenate([rows, accepted_points[:missing]])
        return rows

    def _contains_points(self, index: Units, points: Units) -> NDArray[np.bool_]:
        """Whether each point lies in its stretched polygon; in Python's integers where 64 bits may not do."""
        needed_bits = 2 * max(self.polygon.half_widths).bit_length() + len(build_fall_geometric(self.fall).digits) + 24
        if needed_bits > 62:
            index, points = index.astype(np.object_), points.astype(np.object_)
        stretch = self.core.numerator + index * self.core.denominator
        x, y = points[:, 0] * self.core.denominator, points[:, 1] * self.core.denominator
        edge_conditions = [ax * x + ay * y <= b * stretch for ax, ay, b in self.polygon.edges]
        return np.asarray(np.logical_and.reduce(edge_conditions), dtype=np.bool_)


def _parse_vertex(number: object) -> int:
    value = as_rational(number, "a vertex, in grid units,")
    if value.denominator != 1 or abs(value) > 10**9:
        raise InvalidInput(f"vertices are whole numbers of grid steps, at most 10^9, got {format_exact(value)}")
    return int(value)


def _build_boxes(polygon: Polygon, core: Fraction, fall: Fraction) -> NestedBoxes:
    """The boxes around the stretched polygons: floor((core + i) width) = floor(core width) + i width."""
    half_widths = polygon.half_widths
    return NestedBoxes((math.floor(core * half_widths[0]), math.floor(core * half_widths[1])), half_widths, fall)


@lru_cache(maxsize=64)
def _compute_level_sums(polygon: Polygon, core: Fraction, fall: Fraction) -> tuple[Fraction, Fraction, Fraction]:
    """Sums over i of fall^i times the points of polygon core + i, their x^2 and their y^2, exactly.

    Each is a polynomial in i of degree at most 4 (Ehrhart), so five values and their differences give it.
    """
    table = [_compute_moments(polygon, core + index) for index in range(5)]
    points, x, y = (_sum_newton_series([row[place] for row in table], fall) for place in range(3))
    return points, x, y


def _sum_newton_series(values: Sequence[int], fall: Fraction) -> Fraction:
    """Sum over i of f(i) fall^i for the polynomial through f(0), f(1), ...: its differences at 0 against C(i, j)."""
    total, row = Fraction(0), list(values)
    for j in range(len(values)):
        total += row[0] * sum_binomial_series(j, fall)
        row = [after - before for before, after in pairwise(row)]
    return total


def _compute_moments(polygon: Polygon, stretch: Fraction) -> tuple[int, int, int]:
    """The number of points in the stretched polygon, the sum of their x^2 and of their y^2."""
    y, left, right = polygon.compute_rows(stretch)
    count = np.maximum(right - left + 1, 0)
    squares = np.where(count > 0, _sum_squares(right) - _sum_squares(left - 1), 0)
    points, x, y2 = (2 * sum(part.tolist()) - int(part[0]) for part in (count, squares, count * y**2))
    return points, x, y2


def _sum_squares(last: Rows) -> Rows:
    """1 + 4 + ... + last^2, also continued below 0 so that differences are sums."""
    return last * (last + 1) * (2 * last + 1) // 6


@lru_cache(maxsize=64)
def _count_levels(polygon: Polygon, core: Fraction, fall: Fraction) -> int:
    """How many levels to sum: the boxes around the rest hold less than NEGLIGIBLE_SHARE of the probability."""
    boxes = _build_boxes(polygon, core, fall)
    polygon_share = float(_compute_level_sums(polygon, core, fall)[0] / boxes.total)
    count = find_least(lambda index: index > 0 and boxes.compute_tail(index) <= NEGLIGIBLE_SHARE * polygon_share)
    if count**2 * max(polygon.half_widths) > 2 * MAX_ROWS:
        raise Unsupported("so many points are not summed row by row; take a coarser step or a larger epsilon")
    return count


@lru_cache(maxsize=64)
def _compute_marginal(polygon: Polygon, core: Fraction, fall: Fraction) -> NDArray[np.float64]:
    """P(y = 0), P(y = 1), ... of the law on a polygon."""
    count, rate = _count_levels(polygon, core, fall), compute_rate(fall)
    marginal = np.zeros(math.floor((core + count - 1) * polygon.half_widths[1]) + 1)
    for index in range(count):
        y, left, right = polygon.compute_rows(core + index)
        marginal[y] += math.exp(-rate * index) * np.maximum(right - left + 1, 0)
    marginal /= float(_compute_level_sums(polygon, core, fall)[0])
    marginal.setflags(write=False)
    return marginal
