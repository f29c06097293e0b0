"""The interface of every noise, and the mechanism that adds one to an exact answer.

A `Noise` is a law on a public grid, symmetric about 0. `AddNoise` joins it to a sensitivity and a neighbour
relation, and so has a cost. Nothing that a noise states of itself depends on the data.
"""

from __future__ import annotations

import math
import operator
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from discreet.errors import InvalidInput, Unsupported
from discreet.mechanisms.entropy import Entropy, get_entropy
from discreet.numeric import as_int, as_number_between, as_positive, as_rational, read_clamped_binary
from discreet.privacy.guarantee import Guarantee, NeighborRelation, parse_neighbor_relation
from discreet.untrusted import CheckedValue, has_exact_type, set_fields

MAX_READABLE = Fraction(10) ** 300
MAX_GRID_UNITS = 2**200
NoiseValues = NDArray[np.int64] | NDArray[np.float64] | NDArray[np.object_]


class SymmetricDistribution(CheckedValue, ABC):
    """A symmetric law about 0, continuous or on a grid, whose tail is known."""

    @abstractmethod
    def tail(self, distance: float | Fraction) -> float:
        """Compute P(|N| > distance)."""

    @abstractmethod
    def variance(self) -> float:
        """Compute the variance, in squared units of the answer."""

    @abstractmethod
    def expected_error(self) -> float:
        """Compute the mean of |N|."""

    @abstractmethod
    def interval(self, confidence: float) -> tuple[float, float]:
        """Compute the shortest symmetric interval that holds the noise with at least that probability."""

    def useful(self, alpha: object, answers: int = 1) -> float:
        """The beta of (alpha, beta)-usefulness: the chance that some of `answers` answers is off by more than alpha."""
        miss, count = self.tail(as_positive(alpha, "alpha")), as_int(answers, "answers")
        return -math.expm1(count * math.log1p(-miss)) if miss < 1 else 1.0


class Noise(SymmetricDistribution):
    """A law on the grid of multiples of `step`, drawn exactly."""

    step: Fraction

    @abstractmethod
    def tail_units(self, units: int) -> float:
        """Compute P(|N| > units * step)."""

    @abstractmethod
    def sample_units(self, size: int, entropy: Entropy) -> NDArray[np.int64] | NDArray[np.object_]:
        """Draw `size` independent values in grid units."""

    def sample_unit(self, entropy: Entropy) -> int:
        """Draw one value in grid units."""
        return int(self.sample_units(1, entropy)[0])

    @abstractmethod
    def guarantee(self, units: int, neighbors: NeighborRelation) -> Guarantee:
        """State what one answer costs that a change of one unit moves by at most `units` grid units."""

    def tail(self, distance: float | Fraction) -> float:
        """Compute P(|N| > distance), with the distance in units of the answer."""
        return self.tail_units(math.floor(as_rational(distance, "the distance") / self.step))

    def interval(self, confidence: float) -> tuple[float, float]:
        """Compute the shortest symmetric interval on the grid that holds the noise with at least that probability."""
        width = float(_find_half_width(self, float(as_number_between(confidence, 0, 1, "confidence"))) * self.step)
        return 0.0 - width, width

    def sample(self, entropy: Entropy | None = None) -> int | Fraction:
        """One draw, an exact multiple of the step: an integer where the step is whole."""
        return to_answer_units(self.sample_unit(get_entropy(entropy)), self.step)

    def sample_many(self, size: object, entropy: Entropy | None = None) -> NoiseValues:
        """`size` independent draws: integers where the step is whole, else the floats nearest the exact multiples.

        To add noise to answers on a fractional grid use `AddNoise`, which adds before it rounds: the last bits of a
        float that was added to a float tell what it was added to.
        """
        units = self.sample_units(as_int(size, "how many draws", minimum=0), get_entropy(entropy))
        return to_answer_units_array(units, self.step)


@dataclass(frozen=True, slots=True)
class IndependentNoises:
    """A noise for each of several numbers, drawn apart from the others."""

    noises: tuple[Noise, ...]

    def sample_units(self, size: int, entropy: Entropy) -> NDArray[np.int64] | NDArray[np.object_]:
        """`size` independent draws in grid units, one row each."""
        columns = [noise.sample_units(size, entropy) for noise in self.noises]
        return cast("NDArray[np.int64] | NDArray[np.object_]", np.stack(columns, axis=1))


def to_answer_units(units: int, step: Fraction) -> int | Fraction:
    """Grid units as an exact number: an integer where the step is whole."""
    if step == 1:
        return units
    return units * step.numerator if step.denominator == 1 else units * step


def to_answer_units_array(units: NDArray[np.int64] | NDArray[np.object_], step: Fraction) -> NoiseValues:
    """Grid units as numbers: integers where the step is whole, Python's own where 64 bits are too few; else floats."""
    if step == 1:
        return units
    if step.denominator != 1:
        return units.astype(np.float64) * float(step.numerator) / float(step.denominator)
    largest = max((abs(int(unit)) for unit in (units.min(), units.max())), default=0) if len(units) else 0
    return (units.astype(np.object_) if largest * step.numerator >= 2**62 else units) * step.numerator


@lru_cache(maxsize=4096)
def _find_half_width(noise: Noise, confidence: float) -> int:
    """Half of a noise's interval in grid units; the same law is asked for again and again."""
    return find_least(lambda width: noise.tail_units(width) <= 1 - confidence)


def find_least(condition: Callable[[int], bool]) -> int:
    """The least whole number from which a monotone condition holds."""
    high = 1
    while not condition(high):
        high *= 2
    low = -1 if high == 1 else high // 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if condition(middle) else (middle, high)
    return high


def compute_grid_units(sensitivity: object, step: object) -> tuple[Fraction, Fraction, int]:
    """Sensitivity, step and the sensitivity in grid units, rounded up.

    Enough also for an answer rounded to the grid: round(a) - round(b) <= ceil(a - b) in units of the step.
    """
    width, grid = as_positive(sensitivity, "sensitivity"), as_positive(step, "step")
    units = math.ceil(width / grid)
    if units > MAX_GRID_UNITS:
        raise Unsupported("the step is too fine for this sensitivity: over 2^200 steps; use a coarser one")
    return width, grid, units


@dataclass(frozen=True, slots=True, init=False)
class AddNoise(CheckedValue):
    """Additive-noise mechanism for answers of a given sensitivity; the cost follows from noise and sensitivity.

    An answer is rounded to the noise's grid first, exactly, then noise on the grid is added: the output is a multiple
    of the step whatever the answer was. `cost()` is the guarantee of one answer, under the given neighbor relation.

    Args:
        noise: A DiscreteLaplace, DiscreteGaussian or Staircase.
        sensitivity: The most that one privacy unit changes the answer.
        neighbors: The neighbor relation that the sensitivity holds for, "add-remove" or "replace-one".

    Raises:
        InvalidInput: The noise is of another class, the sensitivity is not above 0, or the relation is unknown.

    Example:
        >>> from discreet import AddNoise, DiscreteLaplace
        >>> mechanism = AddNoise(DiscreteLaplace(epsilon=0.5, sensitivity=100, step=10), sensitivity=100)
        >>> mechanism.cost().epsilon, mechanism.cost().neighbors
        (Fraction(1, 2), 'add-remove')
        >>> mechanism.answer(1234) % 10
        0
    """

    noise: Noise
    sensitivity: Fraction
    neighbors: NeighborRelation

    def __init__(self, noise: Noise, sensitivity: object, neighbors: str = "add-remove") -> None:
        if not has_exact_type(noise, *list_noise_classes()):
            raise InvalidInput(
                f"{type(noise).__name__} is no noise for one number; use DiscreteLaplace, DiscreteGaussian or Staircase"
            )
        exact_sensitivity, relation = as_positive(sensitivity, "sensitivity"), parse_neighbor_relation(neighbors)
        set_fields(self, noise=noise, sensitivity=exact_sensitivity, neighbors=relation)

    def cost(self) -> Guarantee:
        """What one answer costs."""
        return self.noise.guarantee(compute_grid_units(self.sensitivity, self.noise.step)[2], self.neighbors)

    def answer(self, exact: object, entropy: Entropy | None = None) -> int | Fraction:
        """The answer rounded to the grid plus one draw, in units of the answer. What is not a number counts as 0."""
        return to_answer_units(self.answer_units(round_to_grid(exact, self.noise.step), entropy), self.noise.step)

    def answer_units(self, units: int, entropy: Entropy | None = None) -> int:
        """The same in grid units, for an answer that is already on the grid."""
        return as_grid_units(units) + self.noise.sample_unit(get_entropy(entropy))

    def answer_many(self, exact: Iterable[object], entropy: Entropy | None = None) -> NoiseValues:
        """Many answers with independent noise; as floats, where the step is a fraction, only after the addition."""
        units = [round_to_grid(answer, self.noise.step) for answer in exact]
        noise = self.noise.sample_units(len(units), get_entropy(entropy))
        sums = [unit + int(shift) for unit, shift in zip(units, noise, strict=True)]
        fits_word = all(abs(total) < 2**62 for total in sums)  # of what leaves, so that the type tells nothing else
        array: NDArray[Any] = np.array(sums, dtype=np.int64 if fits_word else np.object_)
        return to_answer_units_array(array, self.noise.step)


def list_noise_classes() -> tuple[type[Noise], ...]:
    """The classes whose noise may be added to an exact answer: a caller's own would be told it."""
    from discreet.mechanisms.discrete_gaussian import DiscreteGaussian
    from discreet.mechanisms.discrete_laplace import DiscreteLaplace
    from discreet.mechanisms.staircase import Staircase

    return DiscreteLaplace, DiscreteGaussian, Staircase


def round_to_grid(exact: object, step: Fraction) -> int:
    """The grid point nearest a secret number, exactly; 0 for what is not a number. It never raises.

    Rounding is monotone and commutes with whole steps: numbers within a of each other round to points within ceil(a).
    """
    number = read_clamped_binary(exact, -MAX_READABLE, MAX_READABLE)
    if number is None:
        return 0
    # number / step + 1/2, not reduced: that takes longest
    top, bottom = number.numerator * step.denominator, number.denominator * step.numerator
    return (2 * top + bottom) // (2 * bottom)


def as_grid_units(units: object) -> int:
    """A number of grid units, whole by its type."""
    try:
        return operator.index(units)  # type: ignore[arg-type]
    except TypeError:
        raise InvalidInput("grid units are whole numbers; for an answer in its own units use answer(...)") from None
