"""The staircase, the least noise for one number, drawn exactly; and what staircases for several numbers share.

Proof: staircase.md.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache, partial
from typing import cast

import numpy as np
from numpy.typing import NDArray

from discreet.errors import InvalidInput
from discreet.mechanisms.entropy import Entropy, get_entropy
from discreet.mechanisms.noise import (
    Noise,
    NoiseValues,
    as_grid_units,
    compute_grid_units,
    find_least,
    to_answer_units,
    to_answer_units_array,
)
from discreet.mechanisms.samplers import (
    MAX_WORD_DIGITS,
    Chance,
    Geometric,
    build_odds_chance,
    build_power_chance,
    build_rational_chance,
    count_geometric_digits,
    flip_coin,
    flip_coins,
    sample_uniform_array,
    sample_uniform_int,
)
from discreet.numeric import as_int, as_number_between, as_positive, exp_below, format_exact, ln_below
from discreet.privacy.guarantee import Guarantee, NeighborRelation, parse_neighbor_relation
from discreet.untrusted import CheckedValue, set_fields

Units = NDArray[np.int64] | NDArray[np.object_]

MAX_EPSILON = 100
"""Beyond it the steps stay as high as at 100: the second step is then met less than once in e^100 draws."""


@dataclass(frozen=True, init=False)
class Staircase(Noise):
    """The smallest epsilon-DP noise for one number, on a public grid: P(N = k step) proportional to fall^level(k).

    Level 0 is the core, |k| < points; level i >= 1 is as wide as the sensitivity, points + (i-1) units <= |k| < points
    + i units, units the sensitivity in grid steps. With a fractional core, it mixes (1-part) of the distribution with
    core `points` and part of the one with `points + 1`, both before scaling. core = (points - 1/2 + part) step, from
    step/2 to (units - 1/2) step. One answer is epsilon-DP for answers on the grid that differ by at most the
    sensitivity between neighbors; no private symmetric distribution is smaller.

    Args:
        epsilon: Privacy budget of one answer, above 0.
        sensitivity: The most that one privacy unit changes the answer.
        core: The half width of the core, in units of the answer; `Staircase.least_variance` chooses the best one.
        step: The distance of two points of the grid.

    Raises:
        InvalidInput: An argument is not a number above 0, or the core is out of range.
        Unsupported: The sensitivity is over 2^200 steps.

    Example:
        >>> from discreet import DiscreteLaplace, Staircase
        >>> noise = Staircase.least_variance(epsilon=3, sensitivity=10)
        >>> noise.cost().epsilon
        Fraction(3, 1)
        >>> noise.variance() < DiscreteLaplace(epsilon=3, sensitivity=10).variance()
        True
    """

    epsilon: Fraction
    sensitivity: Fraction
    step: Fraction
    core: Fraction
    units: int
    points: int
    part: Fraction
    fall: Fraction

    def __init__(self, epsilon: object, sensitivity: object, core: object, step: object = 1) -> None:
        width, grid, units = compute_grid_units(sensitivity, step)
        exact_epsilon, core_half_width = as_positive(epsilon, "epsilon"), as_positive(core, "the core's half width")
        core_points = core_half_width / grid + Fraction(1, 2)
        if not 1 <= core_points <= units:
            limits = f"{format_exact(grid / 2)} and {format_exact((units - Fraction(1, 2)) * grid)}"
            raise InvalidInput(f"the core's half width must be between {limits}, got {format_exact(core_half_width)}")
        set_fields(self, epsilon=exact_epsilon, sensitivity=width, step=grid, core=core_half_width, units=units)
        set_fields(self, points=math.floor(core_points), part=core_points % 1, fall=compute_fall(exact_epsilon))

    @classmethod
    def least_variance(cls, epsilon: object, sensitivity: object, step: object = 1) -> Staircase:
        """The private symmetric noise of least variance on this grid."""
        _, grid, units = compute_grid_units(sensitivity, step)
        fall = compute_fall(as_positive(epsilon, "epsilon"))

        def is_rising(points: int) -> bool:
            moment, next_moment = (_sum_second_moment(units, fall, core) for core in (points, points + 1))
            return (next_moment - moment) * _sum_mass(units, fall, points) >= 2 * moment

        return cls(epsilon, sensitivity, (_find_first_true(is_rising, units) - Fraction(1, 2)) * grid, step)

    @classmethod
    def least_interval(cls, epsilon: object, sensitivity: object, confidence: object, step: object = 1) -> Staircase:
        """The staircase of whole core with the least `confidence_length(confidence)`."""
        _, grid, units = compute_grid_units(sensitivity, step)
        fall = compute_fall(as_positive(epsilon, "epsilon"))
        miss = 1 - float(as_number_between(confidence, 0, 1, "confidence"))

        def is_rising(points: int) -> bool:
            return _compute_half_width(units, fall, points + 1, miss) >= _compute_half_width(units, fall, points, miss)

        return cls(epsilon, sensitivity, (_find_first_true(is_rising, units) - Fraction(1, 2)) * grid, step)

    @property
    def density_at_zero(self) -> float:
        """The probability of 0 over the step: the height of the core."""
        return float(self.probability(0) / self.step)

    def probability(self, units: int) -> Fraction:
        """P(N = units * step), exactly."""
        near, far = (self.fall ** self._compute_level(points, abs(units)) for points in (self.points, self.points + 1))
        return ((1 - self.part) * near + self.part * far) / self._total

    def _compute_level(self, points: int, distance: int) -> int:
        return 0 if distance < points else 1 + (distance - points) // self.units

    @cached_property
    def _total(self) -> Fraction:
        return self._mix_cores(_sum_mass)

    def _mix_cores(self, sum_over_core: Callable[[int, Fraction, int], Fraction]) -> Fraction:
        """A sum over the grid before scaling; it is linear in the two cores."""
        near, far = (sum_over_core(self.units, self.fall, points) for points in (self.points, self.points + 1))
        return (1 - self.part) * near + self.part * far

    def variance(self) -> float:
        """Compute the variance, in squared units of the answer."""
        return float(self.exact_variance())

    def exact_variance(self) -> Fraction:
        """The variance in squared units of the answer, as a rational."""
        return self._mix_cores(_sum_second_moment) / self._total * self.step**2

    def expected_error(self) -> float:
        """Compute the mean of |N|, in units of the answer."""
        return float(self._mix_cores(_sum_first_moment) / self._total * self.step)

    def tail_units(self, units: int) -> float:
        """Compute P(|N| > units * step)."""
        if units < 0:
            return 1.0
        part = float(self.part)
        near, far = (_sum_beyond(self.units, self.fall, points, units) for points in (self.points, self.points + 1))
        return ((1 - part) * near + part * far) / float(self._total)

    def confidence_length(self, confidence: object) -> float:
        """The length of the symmetric interval of that probability, every grid point spread evenly over its cell."""
        miss = 1 - float(as_number_between(confidence, 0, 1, "confidence"))
        end = find_least(lambda width: self.tail_units(width) <= miss)
        ring = (2 if end else 1) * self._compute_height(end)
        share = min(max((miss - self.tail_units(end)) / ring, 0.0), 1.0)
        half = end + 0.5 - share if end else (1 - share) / 2
        return 2 * half * float(self.step)

    def _compute_height(self, distance: int) -> float:
        """The probability of a grid point, as a float: quick also where the level is in the millions."""
        near, far = (self._compute_level(points, distance) for points in (self.points, self.points + 1))
        rate, part = compute_rate(self.fall), float(self.part)
        return ((1 - part) * math.exp(-rate * near) + part * math.exp(-rate * far)) / float(self._total)

    def guarantee(self, units: int, neighbors: NeighborRelation) -> Guarantee:
        """State the cost of one answer: epsilon for every step of the stairs that `units` grid units reach over."""
        return Guarantee.dp(-(-units // self.units) * self.epsilon, neighbors=neighbors)

    def cost(self, neighbors: str = "add-remove") -> Guarantee:
        """The cost of one answer of the sensitivity it was made for."""
        return Guarantee.dp(self.epsilon, neighbors=neighbors)

    def sample_units(self, size: int, entropy: Entropy) -> NDArray[np.int64] | NDArray[np.object_]:
        """Draw `size` independent values in grid units, all at once where their digits fit a word."""
        odds = _build_odds(self.units, self.fall, self.points, self.part)
        if len(odds.level.digits) + self.units.bit_length() > MAX_WORD_DIGITS:
            return np.array([self._sample_one(odds, entropy) for _ in range(size)], dtype=np.object_)
        is_wider = flip_coins(odds.wider, size, entropy)
        inside_wider, inside_narrower = (flip_coins(chance, size, entropy) for chance in reversed(odds.inside))
        is_inside = np.where(is_wider, inside_wider, inside_narrower)
        core_points = self.points + is_wider.astype(np.int64)
        offset = sample_uniform_array(np.where(is_inside, 2 * core_points - 1, 2 * self.units), entropy)
        far = core_points + odds.level.sample_many(size, entropy) * self.units + offset % self.units
        return np.where(is_inside, offset - core_points + 1, np.where(offset < self.units, far, -far))

    def _sample_one(self, odds: SamplerOdds, entropy: Entropy) -> int:
        """The same draw with Python's integers: every part is drawn every time, so time tells nothing."""
        is_wider = flip_coin(odds.wider, entropy)
        is_inside = flip_coin(odds.inside[is_wider], entropy)
        core_points = self.points + is_wider
        offset = sample_uniform_int(2 * core_points - 1 if is_inside else 2 * self.units, entropy)
        far = core_points + odds.level.sample(entropy) * self.units + offset % self.units
        return offset - core_points + 1 if is_inside else far if offset < self.units else -far


def compute_fall(epsilon: Fraction) -> Fraction:
    """The factor from one step to the next: 1/r, r the greatest multiple of 2^-40 certified at most e^epsilon."""
    rise = exp_below(min(epsilon, Fraction(MAX_EPSILON)))
    if rise <= 1:
        raise InvalidInput(
            f"epsilon {format_exact(epsilon)} is too small for a staircase on this machine's grid; use 1e-12 or more"
        )
    return 1 / rise


def compute_rate(fall: Fraction) -> float:
    """-ln fall, to the last digits also where fall is near 1."""
    return math.log1p(float(1 / fall - 1))


def _sum_mass(units: int, fall: Fraction, points: int) -> Fraction:
    """Sum over the grid of fall^level, for a whole core."""
    return 2 * points - 1 + 2 * units * fall / (1 - fall)


def _sum_first_moment(units: int, fall: Fraction, points: int) -> Fraction:
    """Sum of |k| fall^level."""
    start = units * points + units * (units - 1) // 2
    up = 1 / (1 - fall)
    return (points - 1) * points + 2 * fall * up * (start + units**2 * fall * up)


def _sum_second_moment(units: int, fall: Fraction, points: int) -> Fraction:
    """Sum of k^2 fall^level: squares in the core, then the sum over n of fall^(n+1) (points + j + n units)^2."""
    start = units * points + units * (units - 1) // 2
    square = _sum_squares(points + units - 1) - _sum_squares(points - 1)
    up = 1 / (1 - fall)
    levels = square + 2 * units * start * fall * up + units**3 * fall * (1 + fall) * up**2
    return 2 * _sum_squares(points - 1) + 2 * fall * up * levels


def _sum_squares(last: int) -> int:
    return last * (last + 1) * (2 * last + 1) // 6


def _sum_beyond(units: int, fall: Fraction, points: int, distance: int) -> float:
    """Sum of fall^level over |k| > distance, for distance >= 0."""
    mass_per_level = units / float(1 / fall - 1)
    if distance < points:
        return 2 * (points - 1 - distance + mass_per_level)
    level, place = divmod(distance - points, units)
    return 2 * math.exp(-compute_rate(fall) * (level + 1)) * (units - 1 - place + mass_per_level)


def _compute_half_width(units: int, fall: Fraction, points: int, miss: float) -> float:
    """Half the interval of probability 1 - miss: it ends in level i, the first with at most `miss` beyond it."""
    mass_per_level = units / float(1 / fall - 1)
    core, rate = points - 0.5, compute_rate(fall)
    level = max(0, math.ceil(math.log(mass_per_level / ((core + mass_per_level) * miss)) / rate))
    return core + level * units + mass_per_level - miss * (core + mass_per_level) * math.exp(rate * level)


def _find_first_true(holds: Callable[[int], bool], last: int) -> int:
    """The least of 1..last-1 from which a condition holds, or last."""
    low, high = 1, last
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(middle) else (middle + 1, high)
    return low


@dataclass(frozen=True, slots=True, eq=False)
class SamplerOdds:
    """What a draw needs: is the core the wider one; does the draw stay inside either core; how far beyond it goes."""

    wider: Chance
    inside: tuple[Chance, Chance]
    level: Geometric


@lru_cache(maxsize=256)
def _build_odds(units: int, fall: Fraction, points: int, part: Fraction) -> SamplerOdds:
    near, far = _sum_mass(units, fall, points), _sum_mass(units, fall, points + 1)
    wider = build_rational_chance(part * far / ((1 - part) * near + part * far))
    inside = build_rational_chance((2 * points - 1) / near), build_rational_chance((2 * points + 1) / far)
    return SamplerOdds(wider, inside, build_fall_geometric(fall))


@lru_cache(maxsize=256)
def build_fall_geometric(fall: Fraction) -> Geometric:
    """The geometric law (1 - fall) fall^k by its digits: digit i is 1 with probability v/(1+v), v = fall^(2^i)."""
    rate = ln_below(1 / fall, 80)
    count = count_geometric_digits(rate)
    digits = tuple(build_digit_chance(fall, index) for index in range(count))
    return Geometric(rate, digits, build_power_chance(fall, 2**count))


def build_digit_chance(fall: Fraction, index: int) -> Chance:
    """v/(1+v) with v = fall^(2^index).

    Bounds settle on binary digits unless the number ends. For index >= 1 it never does (a^2n + b^2n is no power
    of 2 for coprime a < b); for index 0 it may, so that one is exact.
    """
    if index == 0:
        return build_rational_chance(fall / (1 + fall))
    return build_odds_chance(build_power_chance(fall, 2**index))


class VectorStaircase(CheckedValue, ABC):
    """Noise for several numbers at once, on a grid for each, that falls by the same factor from level to level."""

    epsilon: Fraction
    steps: tuple[Fraction, ...]

    @abstractmethod
    def probability(self, units: Sequence[int]) -> Fraction:
        """Compute P(N = x), x in grid units, exactly."""

    @abstractmethod
    def exact_variance(self) -> tuple[Fraction, ...]:
        """Compute the variances as rationals."""

    @abstractmethod
    def sample_units(self, size: int, entropy: Entropy) -> Units:
        """Draw `size` independent values in grid units, one row each."""

    @property
    def density_at_zero(self) -> float:
        """The probability of the origin over the size of a grid cell: the height of the core."""
        return float(self.probability([0] * len(self.steps)) / math.prod(self.steps))

    def variance(self) -> tuple[float, ...]:
        """The variance of each component."""
        return tuple(map(float, self.exact_variance()))

    def cost(self, neighbors: str = "add-remove") -> Guarantee:
        """The cost of one answer, all components together."""
        return Guarantee.dp(self.epsilon, neighbors=parse_neighbor_relation(neighbors))

    def answer_units(self, units: Sequence[int], entropy: Entropy | None = None) -> tuple[int, ...]:
        """The answers plus one draw, in grid units; they are already on the grid."""
        noise = self.sample_units(1, get_entropy(entropy))[0]
        return tuple(as_grid_units(value) + int(shift) for value, shift in zip(units, noise, strict=True))

    def sample(self, entropy: Entropy | None = None) -> tuple[int | Fraction, ...]:
        """One draw, exact multiples of the steps."""
        return to_exact_values(self.sample_units(1, get_entropy(entropy))[0], self.steps)

    def sample_many(self, size: object, entropy: Entropy | None = None) -> NoiseValues:
        """`size` independent draws, one row each: integers where the steps are whole, else the nearest floats."""
        units = self.sample_units(as_int(size, "how many draws", minimum=0), get_entropy(entropy))
        columns = [to_answer_units_array(units[:, a], step) for a, step in enumerate(self.steps)]
        return cast(NoiseValues, np.stack(columns, axis=1))


@lru_cache(maxsize=256)
def find_best_core(fall: Fraction, components: int) -> float:
    """The core, as a share of the widths, that makes the variances least on a fine grid.

    It minimises sum fall^i (c+i)^(d+2) / sum fall^i (c+i)^d, the same for all widths. The value at 0 is that at 1
    (the same boxes), so a scan finds the valley and golden section its floor. Floats: any core is private.
    """
    mean_square = partial(_compute_mean_square, components=components, fall=float(fall), complement=float(1 - fall))
    valley = min(range(1, 33), key=lambda place: mean_square(place / 32))
    low, high = (valley - 1) / 32, min((valley + 1) / 32, 1.0)
    ratio = (math.sqrt(5) - 1) / 2
    for _ in range(40):
        left, right = high - ratio * (high - low), low + ratio * (high - low)
        low, high = (low, right) if mean_square(left) <= mean_square(right) else (left, high)
    return (low + high) / 2


def _compute_mean_square(core: float, components: int, fall: float, complement: float) -> float:
    """The mean of (c+i)^2 over boxes, box i with weight fall^i (c+i)^d, times complement^2, complement = 1 - fall.

    `sum_series` in floats, none of them negative: after d factors the terms are made to add up to 1, two more follow.
    """
    form = np.ones(1)
    places = np.arange(components + 2.0)
    for power in range(components + 2):
        form = form / form.sum() if power <= components else form
        next_form = np.zeros(power + 2)
        next_form[:-1] = form * (core + places[: power + 1]) * complement
        next_form[1:] += form * (places[: power + 1] + 1) * fall
        form = next_form
    return float(form.sum())


def sum_binomial_series(j: int, fall: Fraction) -> Fraction:
    """Sum over i of C(i, j) fall^i."""
    return fall**j / (1 - fall) ** (j + 1)


def to_exact_values(units: Sequence[int] | Units, steps: Sequence[Fraction]) -> tuple[int | Fraction, ...]:
    """Grid units as exact values: whole numbers where the step is whole."""
    return tuple(to_answer_units(int(x), step) for x, step in zip(units, steps, strict=True))
