"""The polygon staircase, noise for two numbers whose changes are tied, drawn exactly. Proof: polygon_staircase.md."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from discreet.errors import InvalidInput, Unsupported
from discreet.exact import between, positive, rational, shown, whole
from discreet.guarantee import Guarantee, relation
from discreet.kernel.box_staircase import (
    Boxes,
    Units,
    best_core,
    binomial_series,
    exact_values,
    rows_in_answer_units,
)
from discreet.kernel.entropy import Entropy, source
from discreet.kernel.noise import Draws, least, whole_units
from discreet.kernel.staircase import fall_of, falling, rate_of

Point = tuple[int, int]
Rows = NDArray[np.int64]

FARTHEST = 2**18
"""Vertices farther out than this would not fit 64-bit products; take a coarser step."""

THOUSAND = 1000
"""The core is a multiple of 1/THOUSAND of the polygon."""

NEGLIGIBLE = 2.0**-40
"""Intervals and expected errors leave out the levels that hold less than this share of the probability."""

MOST_ROWS = 2**26
"""They sum rows of points, and refuse when there are more than this many."""


@dataclass(frozen=True)
class Polygon:
    """A convex polygon, symmetric about 0, with whole vertices in order around it."""

    vertices: tuple[Point, ...]

    def __post_init__(self) -> None:
        whole_set = set(self.vertices)
        if any(max(abs(x), abs(y)) > FARTHEST for x, y in self.vertices):
            raise InvalidInput(f"the polygon reaches beyond {FARTHEST} steps; take a coarser step")
        if any((-x, -y) not in whole_set for x, y in self.vertices):
            raise InvalidInput("the polygon must be symmetric about 0: with (x, y) it needs (-x, -y)")
        if len(whole_set) < max(4, len(self.vertices)) or not self._convex():
            raise InvalidInput("the vertices must go once around a convex polygon with 0 inside, none listed twice")

    def _convex(self) -> bool:
        return all(b > 0 and ax * x + ay * y <= b for ax, ay, b in self.edges for x, y in self.vertices)

    @cached_property
    def edges(self) -> tuple[tuple[int, int, int], ...]:
        """(ax, ay, b) with the polygon where ax x + ay y <= b for every edge; b is above 0."""
        ring = self.vertices
        turned = sum(x * v - y * u for (x, y), (u, v) in zip(ring, ring[1:] + ring[:1], strict=True)) < 0
        corners = ring[::-1] if turned else ring
        pairs = zip(corners, corners[1:] + corners[:1], strict=True)
        return tuple((v - y, x - u, x * v - y * u) for (x, y), (u, v) in pairs)

    @property
    def reach(self) -> Point:
        """The half widths of its bounding box."""
        return max(x for x, _ in self.vertices), max(y for _, y in self.vertices)

    def swapped(self) -> Polygon:
        """The same with x and y exchanged."""
        return Polygon(tuple((y, x) for x, y in self.vertices))

    def gauge(self, point: Sequence[int]) -> Fraction:
        """By how much the polygon must be stretched to reach the point."""
        return max(Fraction(ax * int(point[0]) + ay * int(point[1]), b) for ax, ay, b in self.edges)

    def rows(self, stretch: Fraction) -> tuple[Rows, Rows, Rows]:
        """The lines y = 0, 1, ... of whole points in the stretched polygon: y, least x, greatest x.

        The stretch is a multiple of 1/THOUSAND; a line without whole points has least x = greatest x + 1.
        """
        y = np.arange(math.floor(stretch * self.reach[1]) + 1, dtype=np.int64)
        return y, -self._right(stretch, -y), self._right(stretch, y)

    def _right(self, stretch: Fraction, y: Rows) -> Rows:
        top, below = stretch.numerator, stretch.denominator
        ends = [(b * top - below * ay * y) // (below * ax) for ax, ay, b in self.edges if ax > 0]
        right: Rows = np.minimum.reduce(ends)
        return right


def around(differences: Sequence[Sequence[object]]) -> tuple[Point, ...]:
    """The vertices of the least symmetric convex polygon that holds the differences, given in grid units."""
    points = [(whole(x, "a difference", -FARTHEST), whole(y, "a difference", -FARTHEST)) for x, y in differences]
    ordered = sorted({*points, *((-x, -y) for x, y in points)})
    return tuple(_chain(ordered)[:-1] + _chain(ordered[::-1])[:-1])


def _chain(points: Sequence[Point]) -> list[Point]:
    """One side of the convex hull (Andrew's monotone chain)."""
    chain: list[Point] = []
    for point in points:
        while len(chain) > 1 and _turn(chain[-2], chain[-1], point) <= 0:
            chain.pop()
        chain.append(point)
    return chain


def _turn(a: Point, b: Point, c: Point) -> int:
    return (b[0] - a[0]) * (c[1] - a[1]) - (b[1] - a[1]) * (c[0] - a[0])


@dataclass(frozen=True, init=False)
class PolygonStaircase:
    """Noise for a pair of answers whose difference lies in a polygon P: probability(x) as fall^level(x).

    level(x) = max(0, ceil(gauge(x) - core)), gauge the stretch of P that reaches x. epsilon-DP for any differences
    inside P. Vertices are in grid units, whole, in order around; the core is a multiple of 1/1000, None for the one
    of least variance.
    """

    epsilon: Fraction
    polygon: Polygon
    core: Fraction
    steps: tuple[Fraction, Fraction]
    fall: Fraction

    def __init__(
        self,
        epsilon: object,
        vertices: Sequence[Sequence[object]],
        core: object | None = None,
        step: object = 1,
    ) -> None:
        loss = positive(epsilon, "epsilon")
        fall = fall_of(loss)
        pair = list(step) if isinstance(step, Sequence) and not isinstance(step, str) else [step, step]
        if len(pair) != 2 or any(len(vertex) != 2 for vertex in vertices):
            raise InvalidInput("a polygon lies in the plane: give two numbers per vertex, and one step or two")
        ring = tuple((_place(x), _place(y)) for x, y in vertices)
        share = Fraction(max(1, round(best_core(fall, 2) * THOUSAND)), THOUSAND) if core is None else _share(core)
        values = (loss, Polygon(ring), share, (positive(pair[0], "step"), positive(pair[1], "step")), fall)
        for name, value in zip(self.__dataclass_fields__, values, strict=True):
            object.__setattr__(self, name, value)

    @property
    def density_at_zero(self) -> float:
        """The probability of the origin over the size of a grid cell: the height of the core."""
        return float(self.probability((0, 0)) / math.prod(self.steps))

    def probability(self, units: Sequence[int]) -> Fraction:
        """P(N = x), x given in grid units, exactly."""
        return self.fall ** self.level(units) / ((1 - self.fall) * self._sums[0])

    def level(self, units: Sequence[int]) -> int:
        """How many times the polygon must be added to the core to reach the point."""
        return max(0, math.ceil(self.polygon.gauge(units) - self.core))

    @property
    def _sums(self) -> tuple[Fraction, Fraction, Fraction]:
        return _sums(self.polygon, self.core, self.fall)

    def variance(self) -> tuple[float, float]:
        """The variance of each component."""
        one, two = self.exact_variance()
        return float(one), float(two)

    def exact_variance(self) -> tuple[Fraction, Fraction]:
        """The variances as rationals."""
        points, x, y = self._sums
        return x / points * self.steps[0] ** 2, y / points * self.steps[1] ** 2

    def expected_error(self) -> tuple[float, float]:
        """The mean of each component's absolute value."""
        one, two = (2 * float(np.dot(law, np.arange(len(law)))) for law in self._marginals)
        return one * float(self.steps[0]), two * float(self.steps[1])

    def tail_units(self, component: int, units: int) -> float:
        """P(|N_a| > units * step_a), less the negligible levels."""
        return 2 * float(self._marginals[component][units + 1 :].sum()) if units >= 0 else 1.0

    def interval(self, confidence: object) -> tuple[tuple[float, float], tuple[float, float]]:
        """For each component by itself the shortest symmetric interval of at least that probability."""
        miss = 1 - float(between(confidence, 0, 1, "confidence"))
        (one, two) = (
            int(np.argmax(2 * (np.cumsum(law[::-1])[::-1] - law) <= miss)) * float(step)
            for law, step in zip(self._marginals, self.steps, strict=True)
        )
        return (-one, one), (-two, two)

    def useful(self, alpha: object, answers: int = 1) -> float:
        """The beta of (alpha, beta)-usefulness: the chance that some component of some answer is off by over alpha."""
        distance = positive(alpha, "alpha")
        limits = math.floor(distance / self.steps[0]), math.floor(distance / self.steps[1])
        miss = sum(weight * self._outside(stretch, limits) for stretch, weight in self._levels())
        return -math.expm1(whole(answers, "answers") * math.log1p(-miss)) if miss < 1 else 1.0

    def _outside(self, stretch: Fraction, limits: tuple[int, int]) -> int:
        """The points of the stretched polygon with |x| or |y| above its limit."""
        y, left, right = self.polygon.rows(stretch)
        held = np.minimum(right, limits[0]) - np.maximum(left, -limits[0]) + 1
        beyond = np.maximum(right - left + 1, 0) - np.where(y <= limits[1], np.maximum(held, 0), 0)
        return int(2 * beyond.sum() - beyond[0])

    def _levels(self) -> Iterator[tuple[Fraction, float]]:
        """The stretched polygons that count, each with the weight of one of its points."""
        rate, total = rate_of(self.fall), float(self._sums[0])
        for index in range(_counted(self.polygon, self.core, self.fall)):
            yield self.core + index, math.exp(-rate * index) / total

    @property
    def _marginals(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        return (
            _marginal(self.polygon.swapped(), self.core, self.fall),
            _marginal(self.polygon, self.core, self.fall),
        )

    def epsilon_at(self, units: Sequence[int]) -> Fraction:
        """The pure loss of a shift by that many grid units in each component."""
        return math.ceil(self.polygon.gauge(units)) * self.epsilon

    def cost(self, neighbours: str = "add-remove") -> Guarantee:
        """The cost of one answer, both components together."""
        return Guarantee.dp(self.epsilon, neighbours=relation(neighbours))

    def answer_units(self, units: Sequence[int], entropy: Entropy | None = None) -> tuple[int, int]:
        """Two answers plus one draw, in grid units: rounding here could take a difference out of the polygon."""
        one, two = (whole_units(value) for value in units)
        x, y = self.draw_units(1, source(entropy))[0]
        return one + int(x), two + int(y)

    def draw_units(self, size: int, entropy: Entropy) -> Units:
        """`size` independent draws in grid units: points of the bounding boxes, kept where the polygon holds them.

        How many are not kept is independent of those that are.
        """
        boxes = _boxes(self.polygon, self.core, self.fall)
        rows: Units = np.zeros((0, 2), dtype=np.int64)
        while (missing := size - len(rows)) > 0:
            index, points = boxes.draw(1 if size == 1 else 2 * missing + 16, entropy)
            kept: Units = points[self._holds(index, points)]
            rows = kept[:size] if len(rows) == 0 else np.concatenate([rows, kept[:missing]])
        return rows

    def _holds(self, index: Units, points: Units) -> NDArray[np.bool_]:
        """Whether each point lies in its stretched polygon; in Python's integers where 64 bits may not do."""
        room = 2 * max(self.polygon.reach).bit_length() + len(falling(self.fall).digits) + 24
        if room > 62:
            index, points = index.astype(np.object_), points.astype(np.object_)
        stretch = self.core.numerator + index * self.core.denominator
        x, y = points[:, 0] * self.core.denominator, points[:, 1] * self.core.denominator
        held = [ax * x + ay * y <= b * stretch for ax, ay, b in self.polygon.edges]
        kept: NDArray[np.bool_] = np.logical_and.reduce(held).astype(np.bool_)
        return kept

    def draw(self, entropy: Entropy | None = None) -> tuple[int | Fraction, ...]:
        """One draw, exact multiples of the steps."""
        return exact_values(self.draw_units(1, source(entropy))[0], self.steps)

    def draw_many(self, size: object, entropy: Entropy | None = None) -> Draws:
        """`size` independent draws, one row each: integers where the steps are whole, else the nearest floats."""
        return rows_in_answer_units(
            self.draw_units(whole(size, "how many draws", least=0), source(entropy)), self.steps
        )


def _place(number: object) -> int:
    value = rational(number, "a vertex, in grid units,")
    if value.denominator != 1 or abs(value) > 10**9:
        raise InvalidInput(f"vertices are whole numbers of grid steps, at most 10^9, got {shown(value)}")
    return int(value)


def _share(core: object) -> Fraction:
    share = positive(core, "the core")
    if share > 1 or (share * THOUSAND).denominator != 1:
        raise InvalidInput(f"the core must be a multiple of 0.001 of the polygon and at most 1, got {shown(share)}")
    return share


def _boxes(polygon: Polygon, core: Fraction, fall: Fraction) -> Boxes:
    """The boxes around the stretched polygons: floor((core + i) reach) = floor(core reach) + i reach."""
    reach = polygon.reach
    return Boxes((math.floor(core * reach[0]), math.floor(core * reach[1])), reach, fall)


@lru_cache(maxsize=64)
def _sums(polygon: Polygon, core: Fraction, fall: Fraction) -> tuple[Fraction, Fraction, Fraction]:
    """Sums over i of fall^i times the points of polygon core + i, their x^2 and their y^2, exactly.

    Each is a polynomial in i of degree at most 4 (Ehrhart), so five values and their differences give it.
    """
    table = [_moments(polygon, core + index) for index in range(5)]
    points, x, y = (_newton_series([row[place] for row in table], fall) for place in range(3))
    return points, x, y


def _newton_series(values: Sequence[int], fall: Fraction) -> Fraction:
    """Sum over i of f(i) fall^i for the polynomial through f(0), f(1), ...: its differences at 0 against C(i, j)."""
    total, row = Fraction(0), list(values)
    for j in range(len(values)):
        total += row[0] * binomial_series(j, fall)
        row = [after - before for before, after in pairwise(row)]
    return total


def _moments(polygon: Polygon, stretch: Fraction) -> tuple[int, int, int]:
    """The number of points in the stretched polygon, the sum of their x^2 and of their y^2."""
    y, left, right = polygon.rows(stretch)
    count = np.maximum(right - left + 1, 0)
    squares = np.where(count > 0, _squares(right) - _squares(left - 1), 0)
    points, x, y2 = (2 * sum(part.tolist()) - int(part[0]) for part in (count, squares, count * y**2))
    return points, x, y2


def _squares(last: Rows) -> Rows:
    """1 + 4 + ... + last^2, also continued below 0 so that differences are sums."""
    return last * (last + 1) * (2 * last + 1) // 6


@lru_cache(maxsize=64)
def _counted(polygon: Polygon, core: Fraction, fall: Fraction) -> int:
    """How many levels to sum: the boxes around the rest hold less than NEGLIGIBLE of the probability."""
    boxes = _boxes(polygon, core, fall)
    held = float(_sums(polygon, core, fall)[0] / boxes.total)
    count = least(lambda index: index > 0 and boxes.beyond(index) <= NEGLIGIBLE * held)
    if count**2 * max(polygon.reach) > 2 * MOST_ROWS:
        raise Unsupported("so many points are not summed row by row; take a coarser step or a larger epsilon")
    return count


@lru_cache(maxsize=64)
def _marginal(polygon: Polygon, core: Fraction, fall: Fraction) -> NDArray[np.float64]:
    """P(y = 0), P(y = 1), ... of the law on a polygon."""
    count, rate = _counted(polygon, core, fall), rate_of(fall)
    law = np.zeros(math.floor((core + count - 1) * polygon.reach[1]) + 1)
    for index in range(count):
        y, left, right = polygon.rows(core + index)
        law[y] += math.exp(-rate * index) * np.maximum(right - left + 1, 0)
    law /= float(_sums(polygon, core, fall)[0])
    law.setflags(write=False)
    return law
