"""Order statistics with noise that follows the data smoothly: pure differential privacy. Proof: smooth.md."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from discreet.errors import InvalidInput
from discreet.exact import exp_above, exp_below, positive, shown
from discreet.guarantee import Guarantee
from discreet.kernel.column import BoundedGrid, Column
from discreet.kernel.entropy import Entropy, bits, source
from discreet.kernel.order_statistic import Statistic, log_smooth, place
from discreet.kernel.sampling import WORD, below, choose, coin, rational_chance
from discreet.plain import plain_value

LEAST_SCALE = 2
"""No noise is narrower than this many grid units; there a dilation costs hardly more than on the real line."""

KAPPA = Fraction(1, 10_000)
"""At least 4 pi / sinh(4 pi) = 0.0000876..., what the grid adds to the cost of a dilation at scales of 2 or more."""

FLOAT_ERROR = Fraction(1, 2**32)
"""More than fifty times the proven error of the float that is the logarithm of the smooth sensitivity."""

ROUNDING = Fraction(1, 2**60)
"""More than the relative error of a scale rounded up to a multiple of 2^-64."""

FINENESS = 64
"""The scales on offer are a factor of at most e^(1/64) apart."""


@dataclass(frozen=True, init=False)
class SmoothOrderStatistic:
    """The median, max, min, second max or a quantile, plus noise at its smooth sensitivity, on the grid of `step`.

    P(N = k steps) is proportional to 1 / (1 + (k/t)^2), the scale t from the data. epsilon-DP under replace-one; the
    number of values is public. The smooth sensitivity and t stay inside; so does any error bar made of them.
    """

    what: Statistic
    epsilon: Fraction
    grid: BoundedGrid

    def __init__(self, what: Statistic, lower: object, upper: object, epsilon: object, step: object = 1) -> None:
        what = plain_value(what, "the order statistic")
        place(what, 1)
        loss = positive(epsilon, "epsilon")
        if not Fraction(1, 10**6) <= loss <= 1000:
            raise InvalidInput(f"epsilon must be between 0.000001 and 1000 here, got {shown(loss)}")
        for name, value in (("what", what), ("epsilon", loss), ("grid", BoundedGrid.of(lower, upper, step))):
            object.__setattr__(self, name, value)

    def cost(self) -> Guarantee:
        """Pure DP at epsilon, one value replaced."""
        return Guarantee.dp(self.epsilon, neighbours="replace-one")

    def error_bound(self) -> Fraction:
        """The most the answer can be off by, from public facts: the bounds' distance. Anything finer would disclose."""
        return self.grid.upper - self.grid.lower

    def answer(self, values: Column, entropy: Entropy | None = None) -> int | Fraction:
        """One draw around the exact order statistic, clamped to the bounds."""
        centre, scale = centre_and_scale(self, values)
        return self.grid.value(centre + draw_units(scale, source(entropy)))


def centre_and_scale(mechanism: SmoothOrderStatistic, values: Column) -> tuple[int, Fraction]:
    """The exact answer and the scale of its noise, in grid units. Secret, both; for the mechanism and its tests."""
    grid, epsilon = mechanism.grid, mechanism.epsilon
    units: NDArray[np.int64] = np.sort(grid.units(values))
    middle = place(mechanism.what, len(units))
    padded = np.concatenate(([grid.low], units, [grid.high]))
    smooth = log_smooth(padded, middle, smoothness(epsilon))
    return int(units[middle - 1]), rational_scale(smooth, epsilon)


def dilation(epsilon: Fraction) -> Fraction:
    """b: the scales of neighbours have a ratio of at most e^b."""
    return epsilon * Fraction(7, 10)


@lru_cache(maxsize=256)
def slide(epsilon: Fraction) -> Fraction:
    """alpha: the answers of neighbours are at most alpha times the narrower scale apart. Rounded down.

    The loss is a hyperbolic distance, at most arcosh(cosh v + alpha^2 e^-v / 2) + kappa v for scales e^v apart. It is
    convex inside, so v = 0 and v = b decide: alpha^2 <= 2 (cosh e - 1), 2 e^b (cosh e - cosh b), e = epsilon - kappa b.
    """
    b = dilation(epsilon)
    room = epsilon - KAPPA * b
    cosh = (exp_below(room, 160) + exp_below(-room, 160)) / 2
    cosh_b = (exp_above(b, 160) + exp_above(-b, 160)) / 2
    square = min(2 * (cosh - 1), 2 * exp_below(b, 160) * (cosh - cosh_b))
    return Fraction(math.isqrt(math.floor(square * 2**160)), 2**80)


def smoothness(epsilon: Fraction) -> float:
    """beta, at which the smooth sensitivity is taken: b less two float errors and the rounding of a scale."""
    return math.nextafter(float(dilation(epsilon) - ROUNDING - 2 * FLOAT_ERROR), 0)


def rational_scale(log_sensitivity: float, epsilon: Fraction) -> Fraction:
    """t: at least S / alpha and 2, on a ladder of rungs e^(lambda j), given ln S to within the float error. Secret."""
    room = dilation(epsilon) - ROUNDING
    rung = room / (FINENESS * math.ceil(room))
    log_scale = max(math.log(LEAST_SCALE), log_sensitivity - math.log(slide(epsilon)))
    return exp_above(rung * math.ceil((Fraction(log_scale) + FLOAT_ERROR) / rung), 64)


def probability(units: int, scale: Fraction | float) -> float:
    """P(N = units) = t tanh(pi t) / (pi (t^2 + units^2))."""
    t = float(scale)
    return t * math.tanh(math.pi * t) / (math.pi * (t * t + float(units) ** 2))


def draw_units(scale: Fraction, entropy: Entropy) -> int:
    """An exact draw with P(k) proportional to 1 / (1 + (k/t)^2), t a rational scale above 0.

    Proposal: weight 1 on |k| < edge, t^2 / (|k| (|k|-1)) beyond, which is nowhere below the law's weight. Centre, tail
    and coin are drawn in every attempt, and attempts are alike, so their number says nothing about the outcome.
    """
    edge = max(2, math.ceil(scale))
    top, bottom = scale.numerator**2, scale.denominator**2
    weights = [(2 * edge - 1) * (edge - 1) * bottom, top, top]
    while True:
        centre = below(2 * edge - 1, entropy) - (edge - 1)
        tail = _tail(edge, entropy)
        part = choose(weights, entropy)
        units = (centre, tail, -tail)[part]
        kept = tail * (tail - 1) * bottom if part else top
        if coin(rational_chance(Fraction(kept, top + units * units * bottom)), entropy):
            return units


def _tail(edge: int, entropy: Entropy) -> int:
    """K = 1 + floor((edge-1) / U), so P(K >= k) = (edge-1) / (k-1); U gets more digits until the floor is certain."""
    size = WORD + 2 * edge.bit_length()
    word = bits(size, entropy)
    while not word or ((edge - 1) << size) // word != ((edge - 1) << size) // (word + 1):
        word, size = word << WORD | bits(WORD, entropy), size + WORD
    return 1 + ((edge - 1) << size) // (word + 1)
