"""The noises of the thesis's chapter 4, on grids as fine as its printed digits need."""

from __future__ import annotations

from fractions import Fraction
from functools import cache

from discreet.mechanisms.box_staircase import BoxStaircase
from discreet.mechanisms.continuous_noise import Laplace
from discreet.mechanisms.staircase import Staircase

FINE = 1000
"""So many steps of the grid make the sensitivity, where a curve is drawn."""


@cache
def build_least_variance(epsilon: float) -> Staircase:
    """The noise of least variance for a sensitivity of 1, on a grid as fine as the printed digits need."""
    return Staircase.least_variance(epsilon, 1, Fraction(1, 10**7))


@cache
def build_least_interval(epsilon: float) -> Staircase:
    """The noise of the shortest interval that holds 95 %."""
    return Staircase.least_interval(epsilon, 1, 0.95, Fraction(1, 10**6))


@cache
def build_example_5() -> BoxStaircase:
    """S_f = [-1, 1] x [-10, 10] and S_0 a tenth of it, on a grid where a tenth and a half step are whole."""
    return BoxStaircase(1, (1, 10), core=(0.1, 1), step=(Fraction(1, 100_005), Fraction(10, 100_005)))


def build_stepwise(core: object) -> Staircase:
    """Noise for epsilon 1 and a sensitivity of 1 whose core ends there."""
    return Staircase(1, 1, core, Fraction(1, FINE))


def compute_laplace_density(noise: Laplace, place: float) -> float:
    """The density of Laplace's law, from its tail."""
    return noise.tail(abs(place)) / (2 * noise.scale)
