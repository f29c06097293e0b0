"""The box staircase, noise for several numbers at once, drawn exactly. Proof: box_staircase.md."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache, partial
from typing import cast

import numpy as np
from numpy.typing import NDArray

from discreet.errors import InvalidInput
from discreet.exact import between, positive, shown, whole
from discreet.guarantee import Guarantee, relation
from discreet.kernel.entropy import Entropy, source
from discreet.kernel.noise import Draws, grid_units, least, many_in_answer_units, on_grid, whole_units
from discreet.kernel.sampling import WIDEST_WORD, Chance, coin, coins, rational_chance, spread, spread_one
from discreet.kernel.staircase import fall_of, falling, rate_of

Units = NDArray[np.int64] | NDArray[np.object_]
Factors = Sequence[tuple[Fraction | int, Fraction | int]]
HALF = Fraction(1, 2)


@dataclass(frozen=True)
class Boxes:
    """Boxes |x_a| <= reach_a + i width_a, i = 0, 1, ...: a box with weight fall^i times its points, then a point.

    So the law of the point is proportional to fall^i, i the first box that holds it.
    """

    reaches: tuple[int, ...]
    widths: tuple[int, ...]
    fall: Fraction

    def factors(self, start: int = 0) -> list[tuple[int, int]]:
        """The points of box start + i are the product of the a + b i."""
        pairs = zip(self.reaches, self.widths, strict=True)
        return [(2 * (reach + start * width) + 1, 2 * width) for reach, width in pairs]

    @cached_property
    def total(self) -> Fraction:
        """The sum of fall^i times the points of box i."""
        return series(self.factors(), self.fall)

    def beyond(self, index: int) -> float:
        """The chance of box `index` or a later one."""
        return math.exp(-rate_of(self.fall) * index) * float(series(self.factors(index), self.fall) / self.total)

    def outside(self, limits: Mapping[int, int]) -> float:
        """P(|x_a| > limit_a for some a), for the components named; limits at least 0.

        Box i sticks out in component a from i = start_a on; between two starts the points inside are a polynomial.
        """
        starts = {a: max(0, (k - self.reaches[a]) // self.widths[a] + 1) for a, k in limits.items()}
        marks = sorted(set(starts.values()))
        total = 0.0
        for index, mark in enumerate(marks):
            capped = {a: limits[a] for a, start in starts.items() if start <= mark}
            total += self._missing(mark, capped)
            total -= self._missing(marks[index + 1], capped) if index + 1 < len(marks) else 0.0
        return total

    def _missing(self, start: int, capped: Mapping[int, int]) -> float:
        """The share of points beyond the caps in the boxes from `start` on; the difference is taken exactly."""
        whole = self.factors(start)
        inner = [(2 * capped[a] + 1, 0) if a in capped else factor for a, factor in enumerate(whole)]
        share = (series(whole, self.fall) - series(inner, self.fall)) / self.total
        return math.exp(-rate_of(self.fall) * start) * float(share)

    def draw(self, size: int, entropy: Entropy) -> tuple[Units, Units]:
        """`size` independent boxes and a point of each: shapes (size,) and (size, components)."""
        digits = len(falling(self.fall).digits) + max(self.widths).bit_length() + len(self.widths)
        if digits > WIDEST_WORD:
            rows = [self._draw_one(entropy) for _ in range(size)]
            return np.array([row[0] for row in rows], dtype=np.object_), np.array(
                [row[1] for row in rows], dtype=np.object_
            )
        index = self._indices(size, entropy)
        columns = []
        for reach, width in zip(self.reaches, self.widths, strict=True):
            edge = reach + width * index
            columns.append(spread(2 * edge + 1, entropy) - edge)
        return index, np.stack(columns, axis=1)

    def _indices(self, size: int, entropy: Entropy) -> NDArray[np.int64]:
        """The boxes: j more than a sum of j + 1 geometrics, j by coins; all are drawn whatever j is."""
        open_, index = np.ones(size, dtype=np.bool_), np.zeros(size, dtype=np.int64)
        for position, chance in enumerate(_order_chances(self)):
            index += open_ * (falling(self.fall).draw_many(size, entropy) + (1 if position else 0))
            open_ &= ~coins(chance, size, entropy)
        return index

    def _draw_one(self, entropy: Entropy) -> tuple[int, list[int]]:
        """The same with Python's integers."""
        open_, index = True, 0
        for position, chance in enumerate(_order_chances(self)):
            index += open_ * (falling(self.fall).draw(entropy) + (1 if position else 0))
            open_ &= not coin(chance, entropy)
        edges = [reach + width * index for reach, width in zip(self.reaches, self.widths, strict=True)]
        return index, [spread_one(2 * edge + 1, entropy) - edge for edge in edges]


@lru_cache(maxsize=256)
def _order_chances(boxes: Boxes) -> tuple[Chance, ...]:
    """The chance that j is 0, that it is 1 where it is not 0, and so on; the last is sure."""
    return tuple(rational_chance(chance) for chance in order_odds(boxes))


def order_odds(boxes: Boxes) -> list[Fraction]:
    """P(J = j | J >= j), where the box drawn is J more than a sum of J + 1 geometrics."""
    weights = [c * binomial_series(j, boxes.fall) for j, c in enumerate(binomial_form(boxes.factors()))]
    return [weight / sum(weights[j:]) for j, weight in enumerate(weights)]


def binomial_form(factors: Factors) -> list[Fraction | int]:
    """The c with product of (a + b i) = sum of c_j C(i, j); none is negative where no a and no b is.

    i C(i, j) = j C(i, j) + (j+1) C(i, j+1).
    """
    form: list[Fraction | int] = [1]
    for a, b in factors:
        grown: list[Fraction | int] = [0] * (len(form) + 1)
        for j, c in enumerate(form):
            grown[j] += c * (a + b * j)
            grown[j + 1] += c * b * (j + 1)
        form = grown
    return form


def binomial_series(j: int, fall: Fraction) -> Fraction:
    """Sum over i of C(i, j) fall^i."""
    return fall**j / (1 - fall) ** (j + 1)


def series(factors: Factors, fall: Fraction) -> Fraction:
    """Sum over i = 0, 1, ... of fall^i times the product of the (a + b i), exactly."""
    return sum((c * binomial_series(j, fall) for j, c in enumerate(binomial_form(factors))), Fraction(0))


@lru_cache(maxsize=256)
def best_core(fall: Fraction, components: int) -> float:
    """The core, as a share of the widths, that makes the variances least on a fine grid.

    It minimises sum fall^i (c+i)^(d+2) / sum fall^i (c+i)^d, the same for all widths. The value at 0 is that at 1
    (the same boxes), so a scan finds the valley and golden section its floor. Floats: any core is private.
    """
    wide = partial(_wide, components=components, fall=float(fall), rest=float(1 - fall))
    valley = min(range(1, 33), key=lambda place: wide(place / 32))
    low, high = (valley - 1) / 32, min((valley + 1) / 32, 1.0)
    ratio = (math.sqrt(5) - 1) / 2
    for _ in range(40):
        left, right = high - ratio * (high - low), low + ratio * (high - low)
        low, high = (low, right) if wide(left) <= wide(right) else (left, high)
    return (low + high) / 2


def _wide(core: float, components: int, fall: float, rest: float) -> float:
    """The mean of (c+i)^2 over boxes, box i with weight fall^i (c+i)^d, times rest^2, rest = 1 - fall.

    `series` by floats, none of them negative: after d factors the terms are made to add up to 1, two more follow.
    """
    form = np.ones(1)
    places = np.arange(components + 2.0)
    for power in range(components + 2):
        form = form / form.sum() if power <= components else form
        grown = np.zeros(power + 2)
        grown[:-1] = form * (core + places[: power + 1]) * rest
        grown[1:] += form * (places[: power + 1] + 1) * fall
        form = grown
    return float(form.sum())


@dataclass(frozen=True, init=False)
class BoxStaircase:
    """Noise for answers whose components move by at most `widths`, all at once: P(x) as fall^level(x).

    Level 0 is the core |x_a| <= core_a; level i is what one more width in every component adds. epsilon-DP for any
    set of differences inside the box. Widths, core and step are in units of the answers; a core of None is the one
    whose variances over squared widths sum to the least; one that is given holds the points nearer 0 than its half
    widths, and `core` says where its cells end.
    """

    epsilon: Fraction
    widths: tuple[Fraction, ...]
    steps: tuple[Fraction, ...]
    boxes: Boxes

    def __init__(
        self, epsilon: object, widths: Sequence[object], core: Sequence[object] | None = None, step: object = 1
    ) -> None:
        loss = positive(epsilon, "epsilon")
        spans, steps, units = _grid(widths, step)
        fall = fall_of(loss)
        reaches = _best_reaches(units, fall) if core is None else _given_reaches(core, steps, units)
        for name, value in zip(
            self.__dataclass_fields__, (loss, spans, steps, Boxes(reaches, units, fall)), strict=True
        ):
            object.__setattr__(self, name, value)

    @property
    def core(self) -> tuple[Fraction, ...]:
        """The half widths of the core."""
        return tuple((reach + HALF) * step for reach, step in zip(self.boxes.reaches, self.steps, strict=True))

    @property
    def density_at_zero(self) -> float:
        """The probability of the origin over the size of a grid cell: the height of the core."""
        return float(self.probability([0] * len(self.steps)) / math.prod(self.steps))

    def probability(self, units: Sequence[int]) -> Fraction:
        """P(N = x), x given in grid units, exactly."""
        return self.boxes.fall ** self.level(units) / ((1 - self.boxes.fall) * self.boxes.total)

    def level(self, units: Sequence[int]) -> int:
        """The first box that holds the point."""
        places = zip(units, self.boxes.reaches, self.boxes.widths, strict=True)
        return max(max(0, -((reach - abs(x)) // width)) for x, reach, width in places)

    def variance(self) -> tuple[float, ...]:
        """The variance of each component."""
        return tuple(float(value) for value in self.exact_variance())

    def exact_variance(self) -> tuple[Fraction, ...]:
        """The variances as rationals: a uniform number in -m..m has variance m(m+1)/3."""
        return tuple(mean * step**2 / 3 for mean, step in zip(_squares(self.boxes), self.steps, strict=True))

    def expected_error(self) -> tuple[float, ...]:
        """The mean of each component's absolute value: m(m+1)/(2m+1) for a uniform number in -m..m."""
        factors = self.boxes.factors()
        return tuple(
            float(_box_mean(self.boxes, factors[:a] + factors[a + 1 :], a) * step) for a, step in enumerate(self.steps)
        )

    def tail_units(self, component: int, units: int) -> float:
        """P(|N_a| > units * step_a)."""
        return self.boxes.outside({component: units}) if units >= 0 else 1.0

    def interval(self, confidence: object) -> tuple[tuple[float, float], ...]:
        """For each component by itself the shortest symmetric interval of at least that probability."""
        miss = 1 - float(between(confidence, 0, 1, "confidence"))
        ends = [
            float(step * least(lambda width, a=a: self.tail_units(a, width) <= miss))  # type: ignore[misc]
            for a, step in enumerate(self.steps)
        ]
        return tuple((-end, end) for end in ends)

    def useful(self, alpha: object, answers: int = 1) -> float:
        """The beta of (alpha, beta)-usefulness: the chance that some component of some answer is off by over alpha."""
        distance, count = positive(alpha, "alpha"), whole(answers, "answers")
        miss = self.boxes.outside({a: math.floor(distance / step) for a, step in enumerate(self.steps)})
        return -math.expm1(count * math.log1p(-miss)) if miss < 1 else 1.0

    def region(self, confidence: object) -> tuple[float, float]:
        """(beta, size) of the least box core + beta widths of that probability, each point spread over its cell."""
        miss = 1 - float(between(confidence, 0, 1, "confidence"))
        index = least(lambda i: i >= 0 and self._outside_box(i) <= miss)
        points = math.prod(a for a, _ in self.boxes.factors(index))
        excess = (miss - self._outside_box(index)) * math.exp(rate_of(self.boxes.fall) * index)
        size = points - excess * float((1 - self.boxes.fall) * self.boxes.total)
        return self._beta(size, index), size * float(math.prod(self.steps))

    def _outside_box(self, index: int) -> float:
        return self.boxes.outside({a: (points - 1) // 2 for a, (points, _) in enumerate(self.boxes.factors(index))})

    def _beta(self, size: float, index: int) -> float:
        """The beta of a size between those of box index - 1 (or nothing) and box index, by bisection."""
        factors = self.boxes.factors()
        least_beta = -min(a / b for a, b in factors)
        return _solve(lambda beta: math.prod(a + b * beta for a, b in factors), size, max(index - 1, least_beta), index)

    def epsilon_at(self, units: Sequence[int]) -> Fraction:
        """The pure loss of a shift by that many grid units in each component."""
        return max(-(-abs(x) // width) for x, width in zip(units, self.boxes.widths, strict=True)) * self.epsilon

    def cost(self, neighbours: str = "add-remove") -> Guarantee:
        """The cost of one answer, all components together."""
        return Guarantee.dp(self.epsilon, neighbours=relation(neighbours))

    def answer(self, exact: Sequence[object], entropy: Entropy | None = None) -> tuple[int | Fraction, ...]:
        """The answers rounded to the grid plus one draw, in units of the answers."""
        return exact_values(self.answer_units(grid_points(exact, self.steps), entropy), self.steps)

    def answer_units(self, units: Sequence[int], entropy: Entropy | None = None) -> tuple[int, ...]:
        """The same in grid units, for answers that are already on the grid."""
        noise = self.draw_units(1, source(entropy))[0]
        return tuple(whole_units(value) + int(shift) for value, shift in zip(units, noise, strict=True))

    def draw_units(self, size: int, entropy: Entropy) -> Units:
        """`size` independent draws in grid units, one row each."""
        return self.boxes.draw(size, entropy)[1]

    def draw(self, entropy: Entropy | None = None) -> tuple[int | Fraction, ...]:
        """One draw, exact multiples of the steps."""
        return exact_values(self.draw_units(1, source(entropy))[0], self.steps)

    def draw_many(self, size: object, entropy: Entropy | None = None) -> Draws:
        """`size` independent draws, one row each: integers where the steps are whole, else the nearest floats."""
        return rows_in_answer_units(
            self.draw_units(whole(size, "how many draws", least=0), source(entropy)), self.steps
        )


def exact_values(units: Sequence[int] | Units, steps: Sequence[Fraction]) -> tuple[int | Fraction, ...]:
    """Grid units as exact values: whole numbers where the step is whole."""
    return tuple(
        int(x) * int(step) if step.denominator == 1 else int(x) * step for x, step in zip(units, steps, strict=True)
    )


def rows_in_answer_units(units: Units, steps: Sequence[Fraction]) -> Draws:
    """Rows of grid units as values, column by column."""
    columns = [many_in_answer_units(units[:, a], step) for a, step in enumerate(steps)]
    return cast(Draws, np.stack(columns, axis=1))


def grid_points(exact: Sequence[object], steps: Sequence[Fraction]) -> list[int]:
    """One secret answer per component, each rounded to its grid; how many there are is public."""
    answers = listed(exact, "the answers")
    if len(answers) != len(steps):
        raise InvalidInput(f"give {len(steps)} answers, one per component, got {len(answers)}")
    return [on_grid(answer, step) for answer, step in zip(answers, steps, strict=True)]


def listed(items: object, name: str) -> list[object]:
    """A list from a list, a tuple or a one-dimensional array."""
    if isinstance(items, np.ndarray) and items.ndim == 1:
        return list(items.tolist())
    if isinstance(items, Sequence) and not isinstance(items, str | bytes):
        return list(items)
    raise InvalidInput(f"{name} must be a list of numbers, one per component, got {type(items).__name__}")


def _grid(widths: Sequence[object], step: object) -> tuple[tuple[Fraction, ...], tuple[Fraction, ...], tuple[int, ...]]:
    """Widths, steps and widths in grid units, one each per component."""
    spans = listed(widths, "the widths")
    steps = listed(step, "the steps") if isinstance(step, Sequence | np.ndarray) else [step] * len(spans)
    if not spans or len(steps) != len(spans):
        raise InvalidInput(f"give at least one width, and one step or one per width; got {len(spans)} and {len(steps)}")
    rows = [grid_units(positive(width, "a width"), grid) for width, grid in zip(spans, steps, strict=True)]
    return tuple(row[0] for row in rows), tuple(row[1] for row in rows), tuple(row[2] for row in rows)


def _given_reaches(core: Sequence[object], steps: Sequence[Fraction], units: Sequence[int]) -> tuple[int, ...]:
    given = listed(core, "the core")
    if len(given) != len(units):
        raise InvalidInput(f"give the core one half width per component, {len(units)}, got {len(given)}")
    halves = [positive(half, "the core's half width") / step for half, step in zip(given, steps, strict=True)]
    for half, step, width in zip(halves, steps, units, strict=True):
        if half > width:
            raise InvalidInput(
                f"the core is at most as wide as the widths, {shown(width * step)}, got {shown(half * step)}"
            )
    return tuple(math.ceil(half) - 1 for half in halves)


@lru_cache(maxsize=1024)
def _squares(boxes: Boxes) -> tuple[Fraction, ...]:
    """The mean of m (m+1) of each component; the same law is asked for again and again."""
    return tuple(_box_mean(boxes, boxes.factors(), a) for a in range(len(boxes.widths)))


@lru_cache(maxsize=1024)
def _best_reaches(units: tuple[int, ...], fall: Fraction) -> tuple[int, ...]:
    """Of the cores near the best share of the widths, the one whose variances over squared widths sum to the least."""
    widest = max(units)
    middle = math.floor(best_core(fall, len(units)) * widest)
    candidates = sorted({min(max(middle + shift, 0), widest - 1) for shift in range(-3, 4)})
    cores = [tuple(width * (2 * reach + 1) // (2 * widest) for width in units) for reach in candidates]

    def cost(reaches: tuple[int, ...]) -> Fraction:
        means = _squares(Boxes(reaches, units, fall))
        return sum((mean / width**2 for mean, width in zip(means, units, strict=True)), Fraction(0))

    return min(cores, key=cost)


def _box_mean(boxes: Boxes, factors: Factors, component: int) -> Fraction:
    """Sum over boxes of fall^i times the factors times m (m+1), m the reach of a component, over the sum of points."""
    reach, width = boxes.reaches[component], boxes.widths[component]
    return series([*factors, (reach, width), (reach + 1, width)], boxes.fall) / boxes.total


def _solve(rising: Callable[[float], float], value: float, low: float, high: float) -> float:
    """Where a rising function takes a value, by bisection."""
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (low, middle) if rising(middle) >= value else (middle, high)
    return (low + high) / 2
