"""The discrete Gaussian law, drawn exactly and calibrated on its own exact sum. Proof: discrete_gaussian.md."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from discreet.errors import InvalidInput, Unsupported
from discreet.exact import between, positive, shown, whole
from discreet.formatting import format_upper
from discreet.guarantee import Guarantee, Neighbours
from discreet.kernel.discrete_laplace import DiscreteLaplace
from discreet.kernel.entropy import Entropy
from discreet.kernel.gaussian import MOST_EPSILON, Gaussian
from discreet.kernel.gaussian_sum import LEAST_DELTA, delta_above, lattice_tail
from discreet.kernel.noise import Noise, grid_units
from discreet.kernel.sampling import break_tie, exponential_chance
from discreet.plain import plain_exact

FINENESS = 2**20
"""Sigma is a multiple of the sensitivity over this."""
WIDEST = 2.0**40
"""Beyond this sigma, in grid units, floats no longer hold a draw exactly."""
DOUBT = 2.0**-32
"""A coin whose uniform number is this near its threshold is decided with exact arithmetic."""


@dataclass(frozen=True)
class DiscreteGaussian(Noise):
    """Exact Gaussian noise on a public grid, calibrated on its own exact sum.

    P(N = k step) proportional to exp(-k^2 / (2 s^2)), s^2 = `square` in squared grid units, rational.

    rho-zCDP with rho = units^2 / (2 s^2); (epsilon, delta)-DP where it was calibrated so.
    """

    square: Fraction
    units: int
    step: Fraction
    epsilon: Fraction | None = None
    delta: Fraction | None = None

    def __post_init__(self) -> None:
        """A claim of (epsilon, delta) is only carried by a noise that keeps it."""
        object.__setattr__(self, "square", positive(self.square, "sigma squared"))
        object.__setattr__(self, "units", whole(self.units, "the sensitivity in grid units"))
        object.__setattr__(self, "step", positive(self.step, "step"))
        for name in ("epsilon", "delta"):
            if getattr(self, name) is not None:
                object.__setattr__(self, name, plain_exact(getattr(self, name), name))
        if (self.epsilon is None) != (self.delta is None):
            raise InvalidInput("a claim has both an epsilon and a delta")
        if self.epsilon is not None and self.delta is not None:
            real = delta_above(self.square, self.units, self.epsilon)
            if real > self.delta:
                raise InvalidInput(f"this sigma keeps a delta of {format_upper(real, 3)}, not {shown(self.delta)}")

    @staticmethod
    def calibrated(epsilon: object, delta: object, sensitivity: object = 1, step: object = 1) -> DiscreteGaussian:
        """The least sigma, up to one part in a million, whose exact delta for one answer is at most the one asked."""
        asked, small = positive(epsilon, "epsilon"), between(delta, 0, 1, "delta")
        loss = min(asked, Fraction(MOST_EPSILON))
        _, grid, units = grid_units(sensitivity, step)
        if small < LEAST_DELTA:
            raise Unsupported(f"delta must be at least {format_upper(LEAST_DELTA)} to be certified, got {shown(small)}")
        _fits(Fraction(_first_guess(loss, small) * units, FINENESS) ** 2)
        places = _first_guess(loss, small)
        while delta_above(Fraction(places * units, FINENESS) ** 2, units, loss) > small:
            places += max(1, places >> 12)
        places = _walk_down(places, units, loss, small)
        return DiscreteGaussian(_fits(Fraction(places * units, FINENESS) ** 2), units, grid, loss, small)

    @staticmethod
    def concentrated(rho: object, sensitivity: object = 1, step: object = 1) -> DiscreteGaussian:
        """The noise whose zCDP cost at this l2 sensitivity is rho exactly."""
        _, grid, units = grid_units(sensitivity, step)
        return DiscreteGaussian(_fits(units**2 / (2 * positive(rho, "rho"))), units, grid)

    @property
    def rho(self) -> Fraction:
        """The exact zCDP cost of one answer."""
        return Fraction(self.units**2) / (2 * self.square)

    @property
    def sigma(self) -> float:
        """The law's parameter in units of the answer: its standard deviation but for very fine noise."""
        return math.sqrt(self.square) * float(self.step)

    def cost(self, neighbours: str = "add-remove") -> Guarantee:
        """zCDP, or (epsilon, delta) where the noise was calibrated for it."""
        if self.epsilon is None or self.delta is None:
            return Guarantee.zcdp(self.rho, neighbours=neighbours)
        return Guarantee.approx_dp(self.epsilon, self.delta, neighbours=neighbours)

    def guarantee(self, units: int, neighbours: Neighbours) -> Guarantee:
        if units == self.units:
            return self.cost(neighbours)
        return Guarantee.zcdp(Fraction(units**2) / (2 * self.square), neighbours=neighbours)

    def probability(self, units: int) -> float:
        """P(N = units * step)."""
        return math.exp(-units * units / (2 * float(self.square))) / self._mass

    @cached_property
    def _mass(self) -> float:
        return 2 * lattice_tail(float(self.square), 1) + 1

    def tail_units(self, units: int) -> float:
        return 2 * lattice_tail(float(self.square), units + 1) / self._mass if units >= 0 else 1.0

    def variance(self) -> float:
        return float(self.step) ** 2 * self._moment(2)

    def expected_error(self) -> float:
        return float(self.step) * self._moment(1)

    def _moment(self, power: int) -> float:
        """The mean of |k|^power: summed where the grid is coarse, the continuous value where no float can tell."""
        width = math.sqrt(self.square)
        if width > 1000:
            return width**2 if power == 2 else width * math.sqrt(2 / math.pi) * (1 - 1 / (12 * width**2))
        points = np.arange(1, math.ceil(40 * width) + 3, dtype=float)
        return float(2 * (points**power * np.exp(-(points**2) / (2 * width**2))).sum() / self._mass)

    def draw_units(self, size: int, entropy: Entropy) -> NDArray[np.int64]:
        """Canonne, Kamath, Steinke: a discrete Laplace draw, kept with the chance that makes it Gaussian.

        Candidates are tried in batches, so the time depends on how many were needed, never on the one returned.
        """
        scale, proposal = self._proposal
        kept = np.empty(0, dtype=np.int64)
        while len(kept) < size:
            batch = proposal.draw_units(max(8, 2 * (size - len(kept))), entropy)
            candidates: NDArray[np.int64] = batch.astype(np.int64)
            kept = np.concatenate((kept, candidates[self._keep(candidates, scale, entropy)]))
        return kept[:size]

    @cached_property
    def _proposal(self) -> tuple[int, DiscreteLaplace]:
        """Near its own scale."""
        scale = math.isqrt(math.floor(self.square)) + 1
        return scale, DiscreteLaplace(Fraction(1, scale), 1)

    def _keep(self, candidates: NDArray[np.int64], scale: int, entropy: Entropy) -> NDArray[np.bool_]:
        """One exact coin of chance exp(-(|y| - s^2/scale)^2 / (2 s^2)) each: floats decide all but the close ones."""
        words = np.frombuffer(entropy.take(8 * len(candidates)), dtype="<u8")
        away = np.abs(candidates) - float(self.square / scale)
        chances = np.exp(-(away**2) / (2 * float(self.square)))
        gap = words * 2.0**-64 - chances
        kept: NDArray[np.bool_] = gap < 0
        for position in np.flatnonzero(np.abs(gap) < DOUBT):
            distance = abs(int(candidates[position])) - self.square / scale
            chance = exponential_chance(distance**2 / (2 * self.square))
            kept[position] = break_tie(chance, int(words[position]), 64, entropy)
        return kept


def _first_guess(epsilon: Fraction, delta: Fraction) -> int:
    return max(1, math.floor(Gaussian.calibrated(epsilon, delta).sigma * FINENESS))


def _walk_down(places: int, units: int, epsilon: Fraction, delta: Fraction) -> int:
    """Ever smaller steps down while the exact delta still fits."""
    stride = max(1, places >> 6)
    while stride:
        lower = places - stride
        fits = lower > 0 and delta_above(Fraction(lower * units, FINENESS) ** 2, units, epsilon) <= delta
        places, stride = (lower, stride) if fits else (places, stride // 2)
    return places


def _fits(square: Fraction) -> Fraction:
    if square > WIDEST**2:
        raise Unsupported(
            f"a sigma of {shown(Fraction(math.isqrt(int(square))))} grid steps is too wide; use a coarser step"
        )
    return square
