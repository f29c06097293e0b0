"""What every noise says of itself, and the mechanism that adds one to an exact answer.

A `Noise` is a law on a public grid, symmetric about 0. `AddNoise` joins it to a sensitivity and a neighbour
relation, and so has a cost. Nothing a noise says depends on the data.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from discreet.errors import InvalidInput
from discreet.exact import between, positive, rational
from discreet.guarantee import Guarantee, Neighbours
from discreet.kernel.entropy import Entropy, source

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
        miss = self.tail(positive(alpha, "alpha"))
        return -math.expm1(answers * math.log1p(-miss)) if miss < 1 else 1.0


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
    def epsilon_at(self, units: int) -> Fraction | None:
        """The pure loss of a shift by up to `units` grid units; None where it is unbounded."""

    def tail(self, distance: float | Fraction) -> float:
        return self.tail_units(math.floor(rational(distance, "the distance") / self.step))

    def interval(self, confidence: float) -> tuple[float, float]:
        miss = 1 - float(between(confidence, 0, 1, "confidence"))
        units = least(lambda width: self.tail_units(width) <= miss)
        width = float(units * self.step)
        return 0.0 - width, width

    def draw(self, entropy: Entropy | None = None) -> int | Fraction:
        """One draw, an exact multiple of the step: an integer where the step is whole."""
        units = self.draw_unit(source(entropy))
        if self.step == 1:
            return units
        return units * self.step.numerator if self.step.denominator == 1 else units * self.step

    def draw_many(self, size: int, entropy: Entropy | None = None) -> Draws:
        """`size` independent draws: integers where the step is whole, else the floats nearest the exact multiples."""
        units = self.draw_units(size, source(entropy))
        if self.step == 1:
            return units
        if self.step.denominator == 1:
            return units * int(self.step)
        return units.astype(np.float64) * float(self.step.numerator) / float(self.step.denominator)


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

    Enough also for an answer floored to the grid: floor(a) - floor(b) <= ceil(a - b) in units of the step.
    """
    width, grid = positive(sensitivity, "sensitivity"), positive(step, "step")
    return width, grid, math.ceil(width / grid)


@dataclass(frozen=True, slots=True)
class AddNoise:
    """Adds noise to an answer on the grid whose sensitivity is given; the cost follows from the two."""

    noise: Noise
    sensitivity: Fraction
    neighbours: Neighbours

    def cost(self) -> Guarantee:
        """The pure cost of one answer."""
        units = grid_units(self.sensitivity, self.noise.step)[2]
        epsilon = self.noise.epsilon_at(units)
        if epsilon is None:
            raise InvalidInput(f"{type(self.noise).__name__} has no pure cost; ask the noise for its own guarantee")
        return Guarantee.dp(epsilon, neighbours=self.neighbours)

    def answer(self, exact: int, entropy: Entropy | None = None) -> int:
        """The exact answer, in grid units, plus one draw in grid units."""
        return exact + self.noise.draw_unit(source(entropy))
