"""Sums of exp(-k^2 / (2 s^2)) over whole numbers, bounded from both sides: the exact delta of discrete Gaussian noise.

Up to s = 2^12 the sums are fixed-point integers rounded outwards, so the bound is proven digit by digit. Beyond, they
are Euler-Maclaurin sums with their remainder added, in floats with a margin of 2^-30 where their error is below 2^-44.
Why this gives delta, and the remainder: discrete_gaussian.md.
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache
from itertools import pairwise

from discreet.exact import exp_below, exp_bounds

MAX_EXACT_SQUARE = 2**24
"""The largest s^2 that is summed term by term."""
PRECISION = 256
NEGLIGIBLE_TERM = 2**32
"""In units of 2^-PRECISION: where a sum stops and the rest is bounded."""
MIN_DELTA = Fraction(1, 10**50)
"""A smaller delta drowns in the rounding of the sums."""
FLOAT_MARGIN = 2.0**-30


def bound_delta(square: Fraction, shift: int, epsilon: Fraction) -> Fraction:
    """An upper bound on delta for a shift of at most `shift`: max over c of P(X <= c) - e^epsilon P(X <= c - shift).

    The best c is the last one where the likelihood ratio is above e^epsilon: c < shift/2 - epsilon s^2 / shift.
    """
    last = math.ceil(Fraction(shift, 2) - epsilon * square / shift) - 1
    if square <= MAX_EXACT_SQUARE:
        return _bound_delta_exactly(square, shift, epsilon, last)
    return _bound_delta_smoothly(float(square), shift, float(epsilon), last)


def _bound_delta_exactly(square: Fraction, shift: int, epsilon: Fraction, last: int) -> Fraction:
    above = _bound_lower_sum(square, last)[1]
    below = _bound_lower_sum(square, last - shift)[0]
    total_mass = 2 * _bound_lower_sum(square, -1)[0] + (1 << PRECISION)
    return max(Fraction(0), (above - exp_below(epsilon, 96) * below) / total_mass)


def _bound_lower_sum(square: Fraction, last: int) -> tuple[int, int]:
    """Bounds on 2^PRECISION times the sum over k <= last; for last >= 0 by symmetry from the other side."""
    if last >= 0:
        low, high = _bound_upper_sum(square, 1)
        beyond_low, beyond_high = _bound_upper_sum(square, last + 1)
        scaled_one = 1 << PRECISION
        return 2 * low + scaled_one - beyond_high, 2 * high + scaled_one - beyond_low
    return _bound_upper_sum(square, -last)


def _bound_upper_sum(square: Fraction, first: int) -> tuple[int, int]:
    """Bounds on 2^PRECISION times the sum over k >= first >= 1.

    Each term is the last times a ratio, each ratio the last times exp(-1/s^2), all rounded outwards. The sum stops
    where a term is negligible; what is left is below a geometric series with the last ratio, since ratios fall.
    """
    low, high = _bound_exp_minus(Fraction(first * first) / (2 * square))
    ratio_low, ratio_high = _bound_exp_minus(Fraction(2 * first + 1) / (2 * square))
    factor_low, factor_high = _bound_exp_minus(1 / square)
    total_low = total_high = 0
    while high > NEGLIGIBLE_TERM:
        total_low, total_high = total_low + low, total_high + high
        low, high = low * ratio_low >> PRECISION, (high * ratio_high >> PRECISION) + 1
        ratio_low, ratio_high = ratio_low * factor_low >> PRECISION, (ratio_high * factor_high >> PRECISION) + 1
    remainder = (high << PRECISION) // max(1, (1 << PRECISION) - ratio_high) + 1
    return total_low, total_high + remainder


def _bound_exp_minus(x: Fraction) -> tuple[int, int]:
    return exp_bounds(-x, PRECISION)


def _bound_delta_smoothly(square: float, shift: int, epsilon: float, last: int) -> Fraction:
    width = math.sqrt(square)
    above, error_above = _sum_euler_maclaurin(width, last)
    below, error_below = _sum_euler_maclaurin(width, last - shift)
    total_mass = width * math.sqrt(2 * math.pi)
    excess = above - math.exp(epsilon) * below + error_above + math.exp(epsilon) * error_below
    return Fraction(max(0.0, (excess + FLOAT_MARGIN * above) / total_mass))


def _sum_euler_maclaurin(width: float, last: int) -> tuple[float, float]:
    """The sum over k <= last as integral + f/2 + f'/12, and a bound on its error: 0.0081 times the variation of f''."""
    z = last / width
    bell = math.exp(-z * z / 2)
    integral = width * math.sqrt(math.pi / 2) * math.erfc(-z / math.sqrt(2))
    value = integral + bell / 2 - z * bell / width / 12
    return value, 0.0081 * _compute_variation(z) / width**2


def _compute_variation(z: float) -> float:
    """The total variation of (x^2 - 1) e^(-x^2/2) over x <= z: it peaks at -sqrt(3), 0 and sqrt(3)."""

    def compute_curvature(x: float) -> float:
        return (x * x - 1) * math.exp(-x * x / 2)

    peaks = [-math.inf, *(turn for turn in (-math.sqrt(3), 0.0, math.sqrt(3)) if turn < z), z]
    heights = [0.0, *(compute_curvature(x) for x in peaks[1:])]
    return math.fsum(abs(height - next_height) for height, next_height in pairwise(heights))


@lru_cache(maxsize=1024)  # plans ask for the same few again and again
def compute_lattice_tail(square: float, first: int) -> float:
    """The sum over k >= first >= 1 as a float, for statements of accuracy."""
    width = math.sqrt(square)
    if width > 100:
        return _sum_euler_maclaurin(width, -first)[0]
    return math.fsum(math.exp(-k * k / (2 * square)) for k in range(first, first + math.ceil(40 * width) + 2))
