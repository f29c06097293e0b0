"""Order statistics with noise that follows the data smoothly: pure differential privacy. Proof: smooth.md."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from discreet.errors import InvalidInput
from discreet.exact import as_positive, exp_above, exp_below, format_exact
from discreet.guarantee import Guarantee
from discreet.kernel.column import BoundedGrid, ColumnValues
from discreet.kernel.entropy import Entropy, get_entropy, sample_bits
from discreet.kernel.order_statistic import OrderStatisticName, compute_log_smooth_sensitivity, find_rank
from discreet.kernel.sampling import WORD_BITS, build_rational_chance, flip_coin, sample_below, sample_weighted_index
from discreet.plain import copy_value

MIN_SCALE = 2
"""No noise is narrower than this many grid units; there a dilation costs hardly more than on the real line."""

KAPPA = Fraction(1, 10_000)
"""At least 4 pi / sinh(4 pi) = 0.0000876..., what the grid adds to the cost of a dilation at scales of 2 or more."""

FLOAT_ERROR = Fraction(1, 2**32)
"""More than fifty times the proven error of the float that is the logarithm of the smooth sensitivity."""

SCALE_ROUNDING = Fraction(1, 2**60)
"""More than the relative error of a scale rounded up to a multiple of 2^-64."""

SCALE_FINENESS = 64
"""The scales on offer are a factor of at most e^(1/64) apart."""


@dataclass(frozen=True, init=False)
class SmoothOrderStatistic:
    """The median, max, min, second max or a quantile, plus noise at its smooth sensitivity, on the grid of `step`.

    P(N = k steps) is proportional to 1 / (1 + (k/t)^2), the scale t from the data. epsilon-DP under replace-one; the
    number of values is public. The smooth sensitivity and t stay inside; so does any error bar made of them.
    """

    what: OrderStatisticName
    epsilon: Fraction
    grid: BoundedGrid

    def __init__(
        self, what: OrderStatisticName, lower: object, upper: object, epsilon: object, step: object = 1
    ) -> None:
        what = copy_value(what, "the order statistic")
        find_rank(what, 1)
        exact_epsilon = as_positive(epsilon, "epsilon")
        if not Fraction(1, 10**6) <= exact_epsilon <= 1000:
            raise InvalidInput(f"epsilon must be between 0.000001 and 1000 here, got {format_exact(exact_epsilon)}")
        for name, value in (("what", what), ("epsilon", exact_epsilon), ("grid", BoundedGrid.of(lower, upper, step))):
            object.__setattr__(self, name, value)

    def cost(self) -> Guarantee:
        """Pure DP at epsilon, one value replaced."""
        return Guarantee.dp(self.epsilon, neighbours="replace-one")

    def error_bound(self) -> Fraction:
        """The most the answer can be off by, from public facts: the bounds' distance. Anything finer would disclose."""
        return self.grid.upper - self.grid.lower

    def answer(self, values: ColumnValues, entropy: Entropy | None = None) -> int | Fraction:
        """One draw around the exact order statistic, clamped to the bounds."""
        center, scale = compute_center_and_scale(self, values)
        return self.grid.value(center + sample_noise_units(scale, get_entropy(entropy)))


def compute_center_and_scale(mechanism: SmoothOrderStatistic, values: ColumnValues) -> tuple[int, Fraction]:
    """The exact answer and the scale of its noise, in grid units. Secret, both; for the mechanism and its tests."""
    grid, epsilon = mechanism.grid, mechanism.epsilon
    units: NDArray[np.int64] = np.sort(grid.to_units(values))
    rank = find_rank(mechanism.what, len(units))
    padded = np.concatenate(([grid.low], units, [grid.high]))
    smooth = compute_log_smooth_sensitivity(padded, rank, compute_smoothness(epsilon))
    return int(units[rank - 1]), compute_noise_scale(smooth, epsilon)


def compute_dilation(epsilon: Fraction) -> Fraction:
    """b: the scales of neighbours have a ratio of at most e^b."""
    return epsilon * Fraction(7, 10)


@lru_cache(maxsize=256)
def compute_slide(epsilon: Fraction) -> Fraction:
    """alpha: the answers of neighbours are at most alpha times the narrower scale apart. Rounded down.

    The loss is a hyperbolic distance, at most arcosh(cosh v + alpha^2 e^-v / 2) + kappa v for scales e^v apart. It is
    convex inside, so v = 0 and v = b decide: alpha^2 <= 2 (cosh e - 1), 2 e^b (cosh e - cosh b), e = epsilon - kappa b.
    """
    b = compute_dilation(epsilon)
    remaining_epsilon = epsilon - KAPPA * b
    cosh = (exp_below(remaining_epsilon, 160) + exp_below(-remaining_epsilon, 160)) / 2
    cosh_b = (exp_above(b, 160) + exp_above(-b, 160)) / 2
    square = min(2 * (cosh - 1), 2 * exp_below(b, 160) * (cosh - cosh_b))
    return Fraction(math.isqrt(math.floor(square * 2**160)), 2**80)


def compute_smoothness(epsilon: Fraction) -> float:
    """beta, at which the smooth sensitivity is taken: b less two float errors and the rounding of a scale."""
    return math.nextafter(float(compute_dilation(epsilon) - SCALE_ROUNDING - 2 * FLOAT_ERROR), 0)


def compute_noise_scale(log_sensitivity: float, epsilon: Fraction) -> Fraction:
    """t: at least S / alpha and 2, on a ladder of rungs e^(lambda j), given ln S to within the float error. Secret."""
    max_dilation = compute_dilation(epsilon) - SCALE_ROUNDING
    rung = max_dilation / (SCALE_FINENESS * math.ceil(max_dilation))
    log_scale = max(math.log(MIN_SCALE), log_sensitivity - math.log(compute_slide(epsilon)))
    return exp_above(rung * math.ceil((Fraction(log_scale) + FLOAT_ERROR) / rung), 64)


def compute_noise_probability(units: int, scale: Fraction | float) -> float:
    """P(N = units) = t tanh(pi t) / (pi (t^2 + units^2))."""
    t = float(scale)
    return t * math.tanh(math.pi * t) / (math.pi * (t * t + float(units) ** 2))


def sample_noise_units(scale: Fraction, entropy: Entropy) -> int:
    """An exact draw with P(k) proportional to 1 / (1 + (k/t)^2), t a rational scale above 0.

    Proposal: weight 1 on |k| < edge, t^2 / (|k| (|k|-1)) beyond, which is nowhere below the law's weight. Centre, tail
    and coin are drawn in every attempt, and attempts are alike, so their number says nothing about the outcome.
    """
    edge = max(2, math.ceil(scale))
    top, bottom = scale.numerator**2, scale.denominator**2
    weights = [(2 * edge - 1) * (edge - 1) * bottom, top, top]
    while True:
        center = sample_below(2 * edge - 1, entropy) - (edge - 1)
        tail = _sample_tail(edge, entropy)
        part = sample_weighted_index(weights, entropy)
        units = (center, tail, -tail)[part]
        accepted_weight = tail * (tail - 1) * bottom if part else top
        if flip_coin(build_rational_chance(Fraction(accepted_weight, top + units * units * bottom)), entropy):
            return units


def _sample_tail(edge: int, entropy: Entropy) -> int:
    """K = 1 + floor((edge-1) / U), so P(K >= k) = (edge-1) / (k-1); U gets more digits until the floor is certain."""
    size = WORD_BITS + 2 * edge.bit_length()
    word = sample_bits(size, entropy)
    while not word or ((edge - 1) << size) // word != ((edge - 1) << size) // (word + 1):
        word, size = word << WORD_BITS | sample_bits(WORD_BITS, entropy), size + WORD_BITS
    return 1 + ((edge - 1) << size) // (word + 1)
