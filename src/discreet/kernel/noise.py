"""What every noise says of itself, and the mechanism that adds one to an exact answer.

A `Noise` is a law on a public grid, symmetric about 0. `AddNoise` joins it to a sensitivity and a neighbour
relation, and so has a cost. Nothing a noise says depends on the data.
"""

from __future__ import annotations

import math
import operator
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import cast

import numpy as np
from numpy.typing import NDArray

from discreet.errors import InvalidInput, Unsupported
from discreet.exact import between, measured, positive, rational, whole
from discreet.guarantee import Guarantee, Neighbours, relation
from discreet.kernel.entropy import Entropy, source
from discreet.plain import is_exactly

READABLE = Fraction(10) ** 300
MOST_UNITS = 2**200
Draws = NDArray[np.int64] | NDArray[np.float64] | NDArray[np.object_]


class Law(ABC):
    """A symmetric law about 0, continuous or on a grid, whose tail is known."""

    @abstractmethod
    def tail(self, distance: float | Fraction) -> float:
        """P(|N| > distance)."""

    @abstractmethod
    def variance(self) -> float:
        """The variance, in squared units of the answer."""

    @abstractmethod
    def expected_error(self) -> float:
        """The mean of |N|."""

    @abstractmethod
    def interval(self, confidence: float) -> tuple[float, float]:
        """The shortest symmetric interval that holds the noise with at least that probability."""

    def useful(self, alpha: object, answers: int = 1) -> float:
        """The beta of (alpha, beta)-usefulness: the chance that some of `answers` answers is off by more than alpha."""
        miss, count = self.tail(positive(alpha, "alpha")), whole(answers, "answers")
        return -math.expm1(count * math.log1p(-miss)) if miss < 1 else 1.0


class Noise(Law):
    """A law on the grid of multiples of `step`, drawn exactly."""

    step: Fraction

    @abstractmethod
    def tail_units(self, units: int) -> float:
        """P(|N| > units * step)."""

    @abstractmethod
    def draw_units(self, size: int, entropy: Entropy) -> NDArray[np.int64] | NDArray[np.object_]:
        """`size` independent draws in grid units."""

    def draw_unit(self, entropy: Entropy) -> int:
        """One draw in grid units."""
        return int(self.draw_units(1, entropy)[0])

    @abstractmethod
    def guarantee(self, units: int, neighbours: Neighbours) -> Guarantee:
        """What one answer costs that a change of one unit moves by at most `units` grid units."""

    def tail(self, distance: float | Fraction) -> float:
        return self.tail_units(math.floor(rational(distance, "the distance") / self.step))

    def interval(self, confidence: float) -> tuple[float, float]:
        width = float(_width(self, float(between(confidence, 0, 1, "confidence"))) * self.step)
        return 0.0 - width, width

    def draw(self, entropy: Entropy | None = None) -> int | Fraction:
        """One draw, an exact multiple of the step: an integer where the step is whole."""
        return in_answer_units(self.draw_unit(source(entropy)), self.step)

    def draw_many(self, size: object, entropy: Entropy | None = None) -> Draws:
        """`size` independent draws: integers where the step is whole, else the floats nearest the exact multiples.

        To add noise to answers on a fractional grid use `AddNoise`, which adds before it rounds: the last bits of a
        float that was added to a float tell what it was added to.
        """
        return many_in_answer_units(self.draw_units(whole(size, "how many draws", least=0), source(entropy)), self.step)


@dataclass(frozen=True, slots=True)
class Independent:
    """A noise for each of several numbers, drawn apart from the others."""

    noises: tuple[Noise, ...]

    def draw_units(self, size: int, entropy: Entropy) -> NDArray[np.int64] | NDArray[np.object_]:
        """`size` independent draws in grid units, one row each."""
        columns = [noise.draw_units(size, entropy) for noise in self.noises]
        return cast("NDArray[np.int64] | NDArray[np.object_]", np.stack(columns, axis=1))


def in_answer_units(units: int, step: Fraction) -> int | Fraction:
    """Grid units as an exact number: an integer where the step is whole."""
    if step == 1:
        return units
    return units * step.numerator if step.denominator == 1 else units * step


def many_in_answer_units(units: NDArray[np.int64] | NDArray[np.object_], step: Fraction) -> Draws:
    """Grid units as numbers: integers where the step is whole, Python's own where 64 bits are too few; else floats."""
    if step == 1:
        return units
    if step.denominator != 1:
        return units.astype(np.float64) * float(step.numerator) / float(step.denominator)
    largest = max((abs(int(unit)) for unit in (units.min(), units.max())), default=0) if len(units) else 0
    scaled: NDArray[np.int64] | NDArray[np.object_] = units
    if largest * step.numerator >= 2**62:
        scaled = units.astype(np.object_)
    return scaled * step.numerator


@lru_cache(maxsize=4096)
def _width(noise: Noise, confidence: float) -> int:
    """Half of a noise's interval in grid units; the same law is asked for again and again."""
    return least(lambda width: noise.tail_units(width) <= 1 - confidence)


def least(true_from: Callable[[int], bool]) -> int:
    """The least whole number from which a monotone condition holds."""
    high = 1
    while not true_from(high):
        high *= 2
    low = -1 if high == 1 else high // 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if true_from(middle) else (middle, high)
    return high


def grid_units(sensitivity: object, step: object) -> tuple[Fraction, Fraction, int]:
    """Sensitivity, step and the sensitivity in grid units, rounded up.

    Enough also for an answer rounded to the grid: round(a) - round(b) <= ceil(a - b) in units of the step.
    """
    width, grid = positive(sensitivity, "sensitivity"), positive(step, "step")
    units = math.ceil(width / grid)
    if units > MOST_UNITS:
        raise Unsupported("the step is too fine for this sensitivity: over 2^200 steps; use a coarser one")
    return width, grid, units


@dataclass(frozen=True, slots=True, init=False)
class AddNoise:
    """Adds noise to answers of a given sensitivity; the cost follows from the two.

    An answer is rounded to the noise's grid first, exactly, then noise on the grid is added: what leaves is a multiple
    of the step whatever the answer was.
    """

    noise: Noise
    sensitivity: Fraction
    neighbours: Neighbours

    def __init__(self, noise: Noise, sensitivity: object, neighbours: str = "add-remove") -> None:
        if not is_exactly(noise, *known_noises()):
            raise InvalidInput(
                f"{type(noise).__name__} is no noise for one number; use DiscreteLaplace, DiscreteGaussian or Staircase"
            )
        object.__setattr__(self, "noise", noise)
        object.__setattr__(self, "sensitivity", positive(sensitivity, "sensitivity"))
        object.__setattr__(self, "neighbours", relation(neighbours))

    def cost(self) -> Guarantee:
        """What one answer costs."""
        return self.noise.guarantee(grid_units(self.sensitivity, self.noise.step)[2], self.neighbours)

    def answer(self, exact: object, entropy: Entropy | None = None) -> int | Fraction:
        """The answer rounded to the grid plus one draw, in units of the answer. What is not a number counts as 0."""
        return in_answer_units(self.answer_units(on_grid(exact, self.noise.step), entropy), self.noise.step)

    def answer_units(self, units: int, entropy: Entropy | None = None) -> int:
        """The same in grid units, for an answer that is already on the grid."""
        return whole_units(units) + self.noise.draw_unit(source(entropy))

    def answer_many(self, exact: Iterable[object], entropy: Entropy | None = None) -> Draws:
        """Many answers with independent noise; as floats, where the step is a fraction, only after the addition."""
        units = [on_grid(answer, self.noise.step) for answer in exact]
        noise = self.noise.draw_units(len(units), source(entropy))
        sums = [unit + int(shift) for unit, shift in zip(units, noise, strict=True)]
        if all(abs(total) < 2**62 for total in sums):  # of what leaves, so that the type tells nothing else
            return many_in_answer_units(np.array(sums, dtype=np.int64), self.noise.step)
        return many_in_answer_units(np.array(sums, dtype=np.object_), self.noise.step)


def known_noises() -> tuple[type[Noise], ...]:
    """The classes whose noise may be added to an exact answer: a caller's own would be told it."""
    from discreet.kernel.discrete_gaussian import DiscreteGaussian
    from discreet.kernel.discrete_laplace import DiscreteLaplace
    from discreet.kernel.staircase import Staircase

    return DiscreteLaplace, DiscreteGaussian, Staircase


def on_grid(exact: object, step: Fraction) -> int:
    """The grid point nearest a secret number, exactly; 0 for what is not a number. It never raises.

    Rounding is monotone and commutes with whole steps: numbers within a of each other round to points within ceil(a).
    """
    number = measured(exact, -READABLE, READABLE)
    if number is None:
        return 0
    above, below = number.numerator * step.denominator, number.denominator * step.numerator
    return (2 * above + below) // (2 * below)  # number / step + 1/2, not reduced: that takes longest


def whole_units(units: object) -> int:
    """A number of grid units, whole by its type."""
    try:
        return operator.index(units)  # type: ignore[arg-type]
    except TypeError:
        raise InvalidInput("grid units are whole numbers; for an answer in its own units use answer(...)") from None
