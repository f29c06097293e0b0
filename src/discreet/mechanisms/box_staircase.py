"""The box staircase, noise for several numbers at once, drawn exactly. Proof: box_staircase.md."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import NDArray

from discreet.errors import InvalidInput
from discreet.mechanisms.entropy import Entropy
from discreet.mechanisms.noise import (
    compute_grid_units,
    find_least,
    round_to_grid,
)
from discreet.mechanisms.samplers import (
    MAX_WORD_DIGITS,
    Chance,
    build_rational_chance,
    flip_coin,
    flip_coins,
    sample_uniform_array,
    sample_uniform_int,
)
from discreet.mechanisms.staircase import (
    Units,
    VectorStaircase,
    build_fall_geometric,
    compute_fall,
    compute_rate,
    find_best_core,
    sum_binomial_series,
    to_exact_values,
)
from discreet.numeric import as_int, as_number_between, as_positive, format_exact
from discreet.untrusted import set_fields

LinearFactors = Sequence[tuple[Fraction | int, Fraction | int]]


@dataclass(frozen=True)
class NestedBoxes:
    """Boxes |x_a| <= half_width_a + i width_a: a box i = 0, 1, ... with weight fall^i times its points, then a point.

    So the law of the point is proportional to fall^i, i the first box that holds it.
    """

    half_widths: tuple[int, ...]
    widths: tuple[int, ...]
    fall: Fraction

    def compute_factors(self, start: int = 0) -> list[tuple[int, int]]:
        """The points of box start + i are the product of the a + b i."""
        pairs = zip(self.half_widths, self.widths, strict=True)
        return [(2 * (half_width + start * width) + 1, 2 * width) for half_width, width in pairs]

    @cached_property
    def total(self) -> Fraction:
        """The sum of fall^i times the points of box i."""
        return sum_series(self.compute_factors(), self.fall)

    def compute_tail(self, index: int) -> float:
        """The chance of box `index` or a later one."""
        share = float(sum_series(self.compute_factors(index), self.fall) / self.total)
        return math.exp(-compute_rate(self.fall) * index) * share

    def compute_outside(self, limits: Mapping[int, int]) -> float:
        """P(|x_a| > limit_a for some a), for the components named; limits at least 0.

        Box i sticks out in component a from i = start_a on; between two starts the points inside are a polynomial.
        """
        starts = {a: max(0, (k - self.half_widths[a]) // self.widths[a] + 1) for a, k in limits.items()}
        marks = sorted(set(starts.values()))
        total = 0.0
        for index, mark in enumerate(marks):
            caps = {a: limits[a] for a, start in starts.items() if start <= mark}
            total += self._compute_share_outside(mark, caps)
            total -= self._compute_share_outside(marks[index + 1], caps) if index + 1 < len(marks) else 0.0
        return total

    def _compute_share_outside(self, start: int, caps: Mapping[int, int]) -> float:
        """The share of points beyond the caps in the boxes from `start` on; the difference is taken exactly."""
        box_factors = self.compute_factors(start)
        inner_factors = [(2 * caps[a] + 1, 0) if a in caps else factor for a, factor in enumerate(box_factors)]
        share = (sum_series(box_factors, self.fall) - sum_series(inner_factors, self.fall)) / self.total
        return math.exp(-compute_rate(self.fall) * start) * float(share)

    def sample(self, size: int, entropy: Entropy) -> tuple[Units, Units]:
        """`size` independent boxes and a point of each: shapes (size,) and (size, components)."""
        digits = len(build_fall_geometric(self.fall).digits) + max(self.widths).bit_length() + len(self.widths)
        if digits > MAX_WORD_DIGITS:
            rows = [self._sample_one(entropy) for _ in range(size)]
            indices, points = [row[0] for row in rows], [row[1] for row in rows]
            return np.array(indices, dtype=np.object_), np.array(points, dtype=np.object_)
        index = self._sample_indices(size, entropy)
        columns = []
        for half_width, width in zip(self.half_widths, self.widths, strict=True):
            edge = half_width + width * index
            columns.append(sample_uniform_array(2 * edge + 1, entropy) - edge)
        return index, np.stack(columns, axis=1)

    def _sample_indices(self, size: int, entropy: Entropy) -> NDArray[np.int64]:
        """The boxes: j more than a sum of j + 1 geometrics, j by coins; all are drawn whatever j is."""
        is_open, index = np.ones(size, dtype=np.bool_), np.zeros(size, dtype=np.int64)
        for position, chance in enumerate(_build_order_chances(self)):
            index += is_open * (build_fall_geometric(self.fall).sample_many(size, entropy) + (1 if position else 0))
            is_open &= ~flip_coins(chance, size, entropy)
        return index

    def _sample_one(self, entropy: Entropy) -> tuple[int, list[int]]:
        """The same with Python's integers."""
        is_open, index = True, 0
        for position, chance in enumerate(_build_order_chances(self)):
            index += is_open * (build_fall_geometric(self.fall).sample(entropy) + (1 if position else 0))
            is_open &= not flip_coin(chance, entropy)
        edges = [half_width + width * index for half_width, width in zip(self.half_widths, self.widths, strict=True)]
        return index, [sample_uniform_int(2 * edge + 1, entropy) - edge for edge in edges]


@lru_cache(maxsize=256)
def _build_order_chances(boxes: NestedBoxes) -> tuple[Chance, ...]:
    """The chance that j is 0, that it is 1 where it is not 0, and so on; the last is sure."""
    return tuple(build_rational_chance(chance) for chance in compute_order_odds(boxes))


def compute_order_odds(boxes: NestedBoxes) -> list[Fraction]:
    """P(J = j | J >= j), where the box drawn is J more than a sum of J + 1 geometrics."""
    coefficients = expand_in_binomials(boxes.compute_factors())
    weights = [c * sum_binomial_series(j, boxes.fall) for j, c in enumerate(coefficients)]
    return [weight / sum(weights[j:]) for j, weight in enumerate(weights)]


def expand_in_binomials(factors: LinearFactors) -> list[Fraction | int]:
    """The c with product of (a + b i) = sum of c_j C(i, j); none is negative where no a and no b is.

    i C(i, j) = j C(i, j) + (j+1) C(i, j+1).
    """
    form: list[Fraction | int] = [1]
    for a, b in factors:
        next_form: list[Fraction | int] = [0] * (len(form) + 1)
        for j, c in enumerate(form):
            next_form[j] += c * (a + b * j)
            next_form[j + 1] += c * b * (j + 1)
        form = next_form
    return form


def sum_series(factors: LinearFactors, fall: Fraction) -> Fraction:
    """Sum over i = 0, 1, ... of fall^i times the product of the (a + b i), exactly."""
    return sum((c * sum_binomial_series(j, fall) for j, c in enumerate(expand_in_binomials(factors))), Fraction(0))


@dataclass(frozen=True, init=False)
class BoxStaircase(VectorStaircase):
    """Staircase noise for a vector of answers whose components change by at most `widths`, all at once.

    P(x) is proportional to fall^level(x). Level 0 is the core |x_a| <= core_a; level i is what one more width in every
    component adds. One draw for the whole vector is epsilon-DP for any set of differences inside the box. Widths, core
    and step are in units of the answers.

    Args:
        epsilon: Privacy budget of the whole vector, above 0.
        widths: The most that one privacy unit changes each component.
        core: The half widths of the core: it holds the points nearer 0 than these, and the attribute `core` says where
            its cells end. By default the core whose sum of variances over squared widths is least.
        step: The distance of two points of the grid: one number, or one for each component.

    Raises:
        InvalidInput: An argument is not a number above 0, or the lengths or the grid do not fit.

    Example:
        >>> from discreet.mechanisms import BoxStaircase
        >>> noise = BoxStaircase(epsilon=1, widths=[1, 10])
        >>> noise.epsilon_at([1, 10])  # a shift by both widths at once
        Fraction(1, 1)
        >>> len(noise.answer([100, 2000]))
        2
    """

    epsilon: Fraction
    widths: tuple[Fraction, ...]
    steps: tuple[Fraction, ...]
    boxes: NestedBoxes

    def __init__(
        self, epsilon: object, widths: Sequence[object], core: Sequence[object] | None = None, step: object = 1
    ) -> None:
        exact_epsilon = as_positive(epsilon, "epsilon")
        exact_widths, steps, units = _parse_grid(widths, step)
        fall = compute_fall(exact_epsilon)
        if core is None:
            half_widths = _find_best_half_widths(units, fall)
        else:
            half_widths = _parse_core_half_widths(core, steps, units)
        boxes = NestedBoxes(half_widths, units, fall)
        set_fields(self, epsilon=exact_epsilon, widths=exact_widths, steps=steps, boxes=boxes)

    @property
    def core(self) -> tuple[Fraction, ...]:
        """The half widths of the core."""
        pairs = zip(self.boxes.half_widths, self.steps, strict=True)
        return tuple((half_width + Fraction(1, 2)) * step for half_width, step in pairs)

    def __reduce__(self) -> tuple[type, tuple[object, ...]]:
        return type(self), (self.epsilon, self.widths, self.core, self.steps)

    def probability(self, units: Sequence[int]) -> Fraction:
        """Compute the exact probability of one point of the grid."""
        return self.boxes.fall ** self.level(units) / ((1 - self.boxes.fall) * self.boxes.total)

    def level(self, units: Sequence[int]) -> int:
        """The first box that holds the point."""
        places = zip(units, self.boxes.half_widths, self.boxes.widths, strict=True)
        return max(max(0, -((half_width - abs(x)) // width)) for x, half_width, width in places)

    def exact_variance(self) -> tuple[Fraction, ...]:
        """The variances as rationals: a uniform number in -m..m has variance m(m+1)/3."""
        means = _compute_mean_squares(self.boxes)
        return tuple(mean * step**2 / 3 for mean, step in zip(means, self.steps, strict=True))

    def expected_error(self) -> tuple[float, ...]:
        """The mean of each component's absolute value: m(m+1)/(2m+1) for a uniform number in -m..m."""
        factors = self.boxes.compute_factors()
        means = (_compute_box_mean(self.boxes, factors[:a] + factors[a + 1 :], a) for a in range(len(factors)))
        return tuple(float(mean * step) for mean, step in zip(means, self.steps, strict=True))

    def tail_units(self, component: int, units: int) -> float:
        """P(|N_a| > units * step_a)."""
        return self.boxes.compute_outside({component: units}) if units >= 0 else 1.0

    def interval(self, confidence: object) -> tuple[tuple[float, float], ...]:
        """For each component by itself the shortest symmetric interval of at least that probability."""
        miss = 1 - float(as_number_between(confidence, 0, 1, "confidence"))

        def find_end(component: int) -> float:
            return float(self.steps[component] * find_least(lambda end: self.tail_units(component, end) <= miss))

        return tuple((-end, end) for end in map(find_end, range(len(self.steps))))

    def useful(self, alpha: object, answers: int = 1) -> float:
        """The beta of (alpha, beta)-usefulness: the chance that some component of some answer is off by over alpha."""
        distance, count = as_positive(alpha, "alpha"), as_int(answers, "answers")
        miss = self.boxes.compute_outside({a: math.floor(distance / step) for a, step in enumerate(self.steps)})
        return -math.expm1(count * math.log1p(-miss)) if miss < 1 else 1.0

    def region(self, confidence: object) -> tuple[float, float]:
        """(beta, size) of the least box core + beta widths of that probability, each point spread over its cell."""
        miss = 1 - float(as_number_between(confidence, 0, 1, "confidence"))
        index = find_least(lambda i: i >= 0 and self._compute_outside_box(i) <= miss)
        points = math.prod(a for a, _ in self.boxes.compute_factors(index))
        excess = (miss - self._compute_outside_box(index)) * math.exp(compute_rate(self.boxes.fall) * index)
        size = points - excess * float((1 - self.boxes.fall) * self.boxes.total)
        # The beta of a size between those of box index - 1 (or nothing) and box index, by bisection.
        factors = self.boxes.compute_factors()
        low, high = max(index - 1, -min(a / b for a, b in factors)), float(index)
        for _ in range(100):
            middle = (low + high) / 2
            low, high = (low, middle) if math.prod(a + b * middle for a, b in factors) >= size else (middle, high)
        return (low + high) / 2, size * float(math.prod(self.steps))

    def _compute_outside_box(self, index: int) -> float:
        factors = self.boxes.compute_factors(index)
        return self.boxes.compute_outside({a: (points - 1) // 2 for a, (points, _) in enumerate(factors)})

    def epsilon_at(self, units: Sequence[int]) -> Fraction:
        """The pure loss of a shift by that many grid units in each component."""
        return max(-(-abs(x) // width) for x, width in zip(units, self.boxes.widths, strict=True)) * self.epsilon

    def answer(self, exact: Sequence[object], entropy: Entropy | None = None) -> tuple[int | Fraction, ...]:
        """The answers rounded to the grid plus one draw, in units of the answers."""
        return to_exact_values(self.answer_units(round_to_grid_points(exact, self.steps), entropy), self.steps)

    def sample_units(self, size: int, entropy: Entropy) -> Units:
        """Draw `size` independent points in grid units, one row each."""
        return self.boxes.sample(size, entropy)[1]


def round_to_grid_points(exact: Sequence[object], steps: Sequence[Fraction]) -> list[int]:
    """One secret answer per component, each rounded to its grid; how many there are is public."""
    answers = as_item_list(exact, "the answers")
    if len(answers) != len(steps):
        raise InvalidInput(f"give {len(steps)} answers, one per component, got {len(answers)}")
    return [round_to_grid(answer, step) for answer, step in zip(answers, steps, strict=True)]


def as_item_list(items: object, name: str) -> list[object]:
    """A list from a list, a tuple or a one-dimensional array."""
    if isinstance(items, np.ndarray) and items.ndim == 1:
        return list(items.tolist())
    if isinstance(items, Sequence) and not isinstance(items, str | bytes):
        return list(items)
    raise InvalidInput(f"{name} must be a list of numbers, one per component, got {type(items).__name__}")


def _parse_grid(
    widths: Sequence[object], step: object
) -> tuple[tuple[Fraction, ...], tuple[Fraction, ...], tuple[int, ...]]:
    """Widths, steps and widths in grid units, one each per component."""
    width_list = as_item_list(widths, "the widths")
    steps = as_item_list(step, "the steps") if isinstance(step, Sequence | np.ndarray) else [step] * len(width_list)
    if not width_list or len(steps) != len(width_list):
        counts = f"{len(width_list)} and {len(steps)}"
        raise InvalidInput(f"give at least one width, and one step or one per width; got {counts}")
    pairs = zip(width_list, steps, strict=True)
    rows = [compute_grid_units(as_positive(width, "a width"), grid) for width, grid in pairs]
    return tuple(row[0] for row in rows), tuple(row[1] for row in rows), tuple(row[2] for row in rows)


def _parse_core_half_widths(core: Sequence[object], steps: Sequence[Fraction], units: Sequence[int]) -> tuple[int, ...]:
    core_values = as_item_list(core, "the core")
    if len(core_values) != len(units):
        raise InvalidInput(f"give the core one half width per component, {len(units)}, got {len(core_values)}")
    exact_values = [as_positive(half_width, "the core's half width") for half_width in core_values]
    exact_half_widths = [half_width / step for half_width, step in zip(exact_values, steps, strict=True)]
    for half_width, step, width in zip(exact_half_widths, steps, units, strict=True):
        if half_width > width:
            limit, core_text = format_exact(width * step), format_exact(half_width * step)
            raise InvalidInput(f"the core is at most as wide as the widths, {limit}, got {core_text}")
    return tuple(math.ceil(half_width) - 1 for half_width in exact_half_widths)


@lru_cache(maxsize=1024)
def _compute_mean_squares(boxes: NestedBoxes) -> tuple[Fraction, ...]:
    """The mean of m (m+1) of each component; the same law is asked for again and again."""
    return tuple(_compute_box_mean(boxes, boxes.compute_factors(), a) for a in range(len(boxes.widths)))


@lru_cache(maxsize=1024)
def _find_best_half_widths(units: tuple[int, ...], fall: Fraction) -> tuple[int, ...]:
    """Of the cores near the best share of the widths, the one whose variances over squared widths sum to the least."""
    widest = max(units)
    middle = math.floor(find_best_core(fall, len(units)) * widest)
    candidates = sorted({min(max(middle + shift, 0), widest - 1) for shift in range(-3, 4)})
    cores = [tuple(width * (2 * half_width + 1) // (2 * widest) for width in units) for half_width in candidates]

    def compute_cost(half_widths: tuple[int, ...]) -> Fraction:
        means = _compute_mean_squares(NestedBoxes(half_widths, units, fall))
        return sum((mean / width**2 for mean, width in zip(means, units, strict=True)), Fraction(0))

    return min(cores, key=compute_cost)


def _compute_box_mean(boxes: NestedBoxes, factors: LinearFactors, component: int) -> Fraction:
    """Sum over boxes of fall^i times the factors times m (m+1), m a component's half width, over the sum of points."""
    half_width, width = boxes.half_widths[component], boxes.widths[component]
    return sum_series([*factors, (half_width, width), (half_width + 1, width)], boxes.fall) / boxes.total
