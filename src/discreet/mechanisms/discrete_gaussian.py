"""Discrete Gaussian noise, drawn exactly and calibrated on its own exact delta. Proof: discrete_gaussian.md.

The delta comes from sums of exp(-k^2 / (2 s^2)) over whole numbers, bounded from both sides. Up to s = 2^12 they are
fixed-point integers rounded outwards, so the bound is proven digit by digit. Beyond, they are Euler-Maclaurin sums
with their remainder added, in floats with a margin of 2^-30 where their error is below 2^-44.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from discreet.errors import InvalidInput, Unsupported
from discreet.formatting import format_upper
from discreet.mechanisms.continuous_noise import MAX_EPSILON, Gaussian
from discreet.mechanisms.discrete_laplace import DiscreteLaplace
from discreet.mechanisms.entropy import Entropy
from discreet.mechanisms.noise import Noise, compute_grid_units
from discreet.mechanisms.samplers import WORD_BITS, break_tie, build_exponential_chance
from discreet.numeric import as_int, as_number_between, as_positive, exp_below, exp_bounds, format_exact
from discreet.privacy.guarantee import Guarantee, NeighborRelation
from discreet.untrusted import copy_exact_number, set_fields

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
    low, high = exp_bounds(-first * first / (2 * square), PRECISION)
    ratio_low, ratio_high = exp_bounds(-(2 * first + 1) / (2 * square), PRECISION)
    factor_low, factor_high = exp_bounds(-1 / square, PRECISION)
    total_low = total_high = 0
    while high > NEGLIGIBLE_TERM:
        total_low, total_high = total_low + low, total_high + high
        low, high = low * ratio_low >> PRECISION, (high * ratio_high >> PRECISION) + 1
        ratio_low, ratio_high = ratio_low * factor_low >> PRECISION, (ratio_high * factor_high >> PRECISION) + 1
    remainder = (high << PRECISION) // max(1, (1 << PRECISION) - ratio_high) + 1
    return total_low, total_high + remainder


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


SIGMA_FINENESS = 2**20
"""Sigma is a multiple of the sensitivity over this."""
MAX_SIGMA = 2.0**40
"""Beyond this sigma, in grid units, floats no longer hold a draw exactly."""
TIE_MARGIN = 2.0**-32
"""A coin whose uniform number is this near its threshold is decided with exact arithmetic."""


@dataclass(frozen=True)
class DiscreteGaussian(Noise):
    """Exact Gaussian noise on a public grid: P(N = k step) proportional to exp(-k^2 / (2 s^2)), s^2 = `square`.

    One answer is rho-zCDP with rho = units^2 / (2 s^2), or (epsilon, delta)-DP if it was calibrated for that, by its
    own exact sum. The sensitivity is stated for the neighbor relation in use. Make it with
    `DiscreteGaussian.calibrated` or `DiscreteGaussian.concentrated`.

    Args:
        square: s^2, in squared grid steps.
        units: The l2 sensitivity in grid steps.
        step: The distance of two points of the grid, in units of the answer.
        epsilon: The epsilon of a claim of (epsilon, delta)-DP.
        delta: The delta of that claim.

    Raises:
        InvalidInput: A number is not valid, or this noise does not keep the claim.

    Example:
        >>> from discreet import DiscreteGaussian
        >>> noise = DiscreteGaussian.concentrated(rho=0.005, sensitivity=1)
        >>> noise.square, noise.rho
        (Fraction(100, 1), Fraction(1, 200))
        >>> DiscreteGaussian.calibrated(epsilon=1, delta=1e-6, sensitivity=1).cost().model
        'approx-dp'
    """

    square: Fraction
    units: int
    step: Fraction
    epsilon: Fraction | None = None
    delta: Fraction | None = None

    def __post_init__(self) -> None:
        """A claim of (epsilon, delta) is only carried by a noise that keeps it."""
        square, units = as_positive(self.square, "sigma squared"), as_int(self.units, "the sensitivity in grid units")
        set_fields(self, square=square, units=units, step=as_positive(self.step, "step"))
        if (self.epsilon is None) != (self.delta is None):
            raise InvalidInput("a claim has both an epsilon and a delta")
        if self.epsilon is not None and self.delta is not None:
            set_fields(self, epsilon=copy_exact_number(self.epsilon, "epsilon"))
            set_fields(self, delta=copy_exact_number(self.delta, "delta"))
            exact_delta = bound_delta(self.square, self.units, self.epsilon)
            if exact_delta > self.delta:
                raise InvalidInput(
                    f"this sigma keeps a delta of {format_upper(exact_delta, 3)}, not {format_exact(self.delta)}"
                )

    @staticmethod
    def calibrated(epsilon: object, delta: object, sensitivity: object = 1, step: object = 1) -> DiscreteGaussian:
        """The least sigma, up to one part in a million, whose exact delta for one answer is at most the one asked."""
        requested_epsilon, exact_delta = as_positive(epsilon, "epsilon"), as_number_between(delta, 0, 1, "delta")
        exact_epsilon = min(requested_epsilon, Fraction(MAX_EPSILON))
        _, grid, units = compute_grid_units(sensitivity, step)
        if exact_delta < MIN_DELTA:
            least = format_upper(MIN_DELTA)
            raise Unsupported(f"delta must be at least {least} to be certified, got {format_exact(exact_delta)}")
        sigma_steps = max(1, math.floor(Gaussian.calibrated(exact_epsilon, exact_delta).sigma * SIGMA_FINENESS))
        _check_sigma(_square_sigma(sigma_steps, units))
        while bound_delta(_square_sigma(sigma_steps, units), units, exact_epsilon) > exact_delta:
            sigma_steps += max(1, sigma_steps >> 12)
        sigma_steps = _lower_sigma_steps(sigma_steps, units, exact_epsilon, exact_delta)
        square = _check_sigma(_square_sigma(sigma_steps, units))
        return DiscreteGaussian(square, units, grid, exact_epsilon, exact_delta)

    @staticmethod
    def concentrated(rho: object, sensitivity: object = 1, step: object = 1) -> DiscreteGaussian:
        """The noise whose zCDP cost at this l2 sensitivity is rho exactly."""
        _, grid, units = compute_grid_units(sensitivity, step)
        return DiscreteGaussian(_check_sigma(units**2 / (2 * as_positive(rho, "rho"))), units, grid)

    @property
    def rho(self) -> Fraction:
        """The exact zCDP cost of one answer."""
        return Fraction(self.units**2) / (2 * self.square)

    @property
    def sigma(self) -> float:
        """The law's parameter in units of the answer: its standard deviation but for very fine noise."""
        return math.sqrt(self.square) * float(self.step)

    def cost(self, neighbors: str = "add-remove") -> Guarantee:
        """zCDP, or (epsilon, delta) where the noise was calibrated for it."""
        if self.epsilon is None or self.delta is None:
            return Guarantee.zcdp(self.rho, neighbors=neighbors)
        return Guarantee.approx_dp(self.epsilon, self.delta, neighbors=neighbors)

    def guarantee(self, units: int, neighbors: NeighborRelation) -> Guarantee:
        """State the cost of one answer that a change of one unit moves by at most `units` grid units."""
        if units == self.units:
            return self.cost(neighbors)
        return Guarantee.zcdp(Fraction(units**2) / (2 * self.square), neighbors=neighbors)

    def probability(self, units: int) -> float:
        """P(N = units * step)."""
        return math.exp(-units * units / (2 * float(self.square))) / self._total_mass

    @cached_property
    def _total_mass(self) -> float:
        return 2 * compute_lattice_tail(float(self.square), 1) + 1

    def tail_units(self, units: int) -> float:
        """Compute P(|N| > units * step)."""
        return 2 * compute_lattice_tail(float(self.square), units + 1) / self._total_mass if units >= 0 else 1.0

    def variance(self) -> float:
        """Compute the variance, in squared units of the answer."""
        return float(self.step) ** 2 * self._compute_moment(2)

    def expected_error(self) -> float:
        """Compute the mean of |N|, in units of the answer."""
        return float(self.step) * self._compute_moment(1)

    def _compute_moment(self, power: int) -> float:
        """The mean of |k|^power: summed where the grid is coarse, the continuous value where no float can tell."""
        width = math.sqrt(self.square)
        if width > 1000:
            return width**2 if power == 2 else width * math.sqrt(2 / math.pi) * (1 - 1 / (12 * width**2))
        points = np.arange(1, math.ceil(40 * width) + 3, dtype=float)
        return float(2 * (points**power * np.exp(-(points**2) / (2 * width**2))).sum() / self._total_mass)

    def sample_units(self, size: int, entropy: Entropy) -> NDArray[np.int64]:
        """Canonne, Kamath, Steinke: a discrete Laplace draw, kept with the chance that makes it Gaussian.

        Candidates are tried in batches, so the time depends on how many were needed, never on the one returned.
        """
        scale, proposal = self._proposal
        samples = np.empty(0, dtype=np.int64)
        while len(samples) < size:
            batch = proposal.sample_units(max(8, 2 * (size - len(samples))), entropy)
            candidates: NDArray[np.int64] = batch.astype(np.int64)
            samples = np.concatenate((samples, candidates[self._accept_candidates(candidates, scale, entropy)]))
        return samples[:size]

    @cached_property
    def _proposal(self) -> tuple[int, DiscreteLaplace]:
        """The discrete Laplace noise near the Gaussian's own scale, and that scale."""
        scale = math.isqrt(math.floor(self.square)) + 1
        return scale, DiscreteLaplace(Fraction(1, scale), 1)

    def _accept_candidates(self, candidates: NDArray[np.int64], scale: int, entropy: Entropy) -> NDArray[np.bool_]:
        """One exact coin of chance exp(-(|y| - s^2/scale)^2 / (2 s^2)) each: floats decide all but the close ones."""
        words = np.frombuffer(entropy.take(8 * len(candidates)), dtype="<u8")
        distances = np.abs(candidates) - float(self.square / scale)
        chances = np.exp(-(distances**2) / (2 * float(self.square)))
        gap = words * 2.0**-64 - chances
        is_accepted: NDArray[np.bool_] = gap < 0
        for position in np.flatnonzero(np.abs(gap) < TIE_MARGIN):
            distance = abs(int(candidates[position])) - self.square / scale
            chance = build_exponential_chance(distance**2 / (2 * self.square))
            is_accepted[position] = break_tie(chance, int(words[position]), WORD_BITS, entropy)
        return is_accepted


def _square_sigma(sigma_steps: int, units: int) -> Fraction:
    """Sigma squared in grid units; sigma is counted in fine steps of the sensitivity."""
    return Fraction(sigma_steps * units, SIGMA_FINENESS) ** 2


def _lower_sigma_steps(sigma_steps: int, units: int, epsilon: Fraction, delta: Fraction) -> int:
    """Ever smaller steps down while the exact delta still fits."""
    stride = max(1, sigma_steps >> 6)
    while stride:
        lower = sigma_steps - stride
        fits = lower > 0 and bound_delta(_square_sigma(lower, units), units, epsilon) <= delta
        sigma_steps, stride = (lower, stride) if fits else (sigma_steps, stride // 2)
    return sigma_steps


def _check_sigma(square: Fraction) -> Fraction:
    if square > MAX_SIGMA**2:
        sigma = format_exact(Fraction(math.isqrt(int(square))))
        raise Unsupported(f"a sigma of {sigma} grid steps is too wide; use a coarser step")
    return square
