"""Our own mechanisms by name, each with two inputs from neighbors, for most of them the worst ones."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.errors import InvalidInput
from discreet.mechanisms.box_staircase import BoxStaircase
from discreet.mechanisms.discrete_gaussian import DiscreteGaussian
from discreet.mechanisms.discrete_laplace import DiscreteLaplace
from discreet.mechanisms.entropy import SYSTEM
from discreet.mechanisms.exponential_mechanism import Exponential
from discreet.mechanisms.individual_dp import IndividualOrderStatistic, TruncatedRangeCount
from discreet.mechanisms.noise import Noise
from discreet.mechanisms.order_statistic import SmoothOrderStatistic
from discreet.mechanisms.permute_and_flip import PermuteAndFlip
from discreet.mechanisms.polygon_staircase import PolygonStaircase
from discreet.mechanisms.quantile import Bracket, Extreme, Quantile, Quantiles
from discreet.mechanisms.refinement import Refinement
from discreet.mechanisms.staircase import Staircase
from discreet.priors.prior import Prior
from discreet.suggestions import build_unknown_name_error
from discreet.verification.audit.audit import Mechanism

BATCH_DRAWS, SINGLE_DRAWS = 1_000_000, 10_000
"""Default draws: of mechanisms that sample all at once, and of those that sample one by one."""
DEFAULT_DELTA = Fraction(1, 10**6)
FINE_STEP = Fraction(1, 1000)
HEXAGON = ((2, 1), (1, 2), (-1, 1), (-2, -1), (-1, -2), (1, -1))
MAX_VALUE = 20
CANDIDATES = 10


@dataclass(frozen=True, slots=True)
class KnownMechanism:
    """A mechanism with the inputs of two neighbors, the delta that it promises, and how many draws are cheap."""

    mechanism: Mechanism
    pair: tuple[object, object]
    draws: int = SINGLE_DRAWS
    delta: Fraction = Fraction(0)
    prepare: Callable[[Any], object] | None = None
    """Computes once, for each input, what the draws are made from."""

    @property
    def inputs(self) -> tuple[object, object]:
        """The pair of inputs that the mechanism is called with."""
        return self.pair if self.prepare is None else (self.prepare(self.pair[0]), self.prepare(self.pair[1]))


def get_known_mechanism(name: str, epsilon: Fraction, delta: Fraction | None) -> KnownMechanism:
    """Return the mechanism of this name at this epsilon; only the Gaussian takes a delta."""
    if name not in MECHANISM_BUILDERS:
        raise build_unknown_name_error("mechanism", name, MECHANISM_BUILDERS, advice="or give module:function")
    if name == "gaussian":
        return _build_gaussian(epsilon, DEFAULT_DELTA if delta is None else delta)
    if delta is not None:
        raise InvalidInput(f"{name} promises pure differential privacy; leave out delta")
    return MECHANISM_BUILDERS[name](epsilon)


def repeat_answer(answer: Callable[..., object]) -> Mechanism:
    """Return the mechanism that answers n times, one by one."""
    return lambda data, n: [answer(data) for _ in range(n)]


_SAMPLE = repeat_answer(lambda distribution: distribution.sample())
"""Samples from what the inputs were prepared to: a distribution."""


def _add_noise(
    noise: Noise | BoxStaircase | PolygonStaircase, units: object, units2: object, delta: Fraction = Fraction(0)
) -> KnownMechanism:
    """Noise on numbers in grid units."""
    return KnownMechanism(
        lambda data, n: noise.sample_units(n, SYSTEM) + np.asarray(data), (units, units2), BATCH_DRAWS, delta
    )


def _build_gaussian(epsilon: Fraction, delta: Fraction = DEFAULT_DELTA) -> KnownMechanism:
    return _add_noise(DiscreteGaussian.calibrated(epsilon, delta, 10), 0, 10, delta)


def _build_exponential(epsilon: Fraction) -> KnownMechanism:
    choice = Exponential.of(epsilon, 1)
    return KnownMechanism(_SAMPLE, _get_score_pair(), prepare=choice.distribution)


def _build_permute_and_flip(epsilon: Fraction) -> KnownMechanism:
    choice = PermuteAndFlip.of(epsilon, 1)
    answer = repeat_answer(lambda levels: choice.sample_position(levels, SYSTEM))
    return KnownMechanism(answer, _get_score_pair(), prepare=choice.compute_levels)


def _build_refinement(epsilon: Fraction) -> KnownMechanism:
    refinement = Refinement.of(Prior.uniform(0, CANDIDATES - 1), epsilon)
    return KnownMechanism(_SAMPLE, (0, CANDIDATES - 1), prepare=refinement.distribution)


def _build_counts_mechanism(
    answer_counts: Callable[[NDArray[np.int64]], object], pair: tuple[list[int], list[int]] | None = None
) -> KnownMechanism:
    """On a column's counts by value; by default with half of the rows at either end, and a row more."""
    two_ends = [0] * 3 + [MAX_VALUE] * 3, [0] * 3 + [MAX_VALUE] * 4
    return KnownMechanism(repeat_answer(answer_counts), pair or two_ends, prepare=_count_values)


def _build_quantiles(epsilon: Fraction) -> KnownMechanism:
    quantiles = Quantiles.of((0.25, 0.75), 0, MAX_VALUE, epsilon)  # with a split that is not released
    return _build_counts_mechanism(lambda counts: tuple(quantiles.answer_counts(counts)))


def _build_extreme(epsilon: Fraction) -> KnownMechanism:
    return _build_counts_mechanism(Extreme.of(1, MAX_VALUE + 1, epsilon).answer_counts, ([], [MAX_VALUE]))


def _build_median(statistic: SmoothOrderStatistic | IndividualOrderStatistic) -> KnownMechanism:
    """With a median that no single row moves, and one that a single row moves far."""
    pair = [0] * 3 + [500] * 3 + [1000] * 3, [0] * 3 + [500] * 2 + [1000] * 4
    return KnownMechanism(repeat_answer(statistic.answer), pair)


def _get_score_pair() -> tuple[list[int], list[int]]:
    """One candidate a step above all others, and a step below them."""
    others = CANDIDATES - 1
    return [1, *[0] * others], [0, *[1] * others]


def _count_values(values: Sequence[int]) -> NDArray[np.int64]:
    return np.bincount(np.array(values, dtype=np.int64), minlength=MAX_VALUE + 1)


MECHANISM_BUILDERS: Mapping[str, Callable[[Fraction], KnownMechanism]] = {
    "laplace": lambda epsilon: _add_noise(DiscreteLaplace(epsilon, 1, FINE_STEP), 0, 1000),
    "geometric": lambda epsilon: _add_noise(DiscreteLaplace(epsilon, 1), 0, 1),
    "gaussian": _build_gaussian,
    "staircase": lambda epsilon: _add_noise(Staircase.least_variance(epsilon, 1, FINE_STEP), 0, 1000),
    "box-staircase": lambda epsilon: _add_noise(BoxStaircase(epsilon, (10, 20)), (0, 0), (10, 20)),
    "polygon-staircase": lambda epsilon: _add_noise(PolygonStaircase(epsilon, HEXAGON), (0, 0), HEXAGON[0]),
    "exponential": _build_exponential,
    "permute-and-flip": _build_permute_and_flip,
    "refinement": _build_refinement,
    "quantile": lambda epsilon: _build_counts_mechanism(Quantile.of(0.5, 0, MAX_VALUE, epsilon).answer_counts),
    "quantiles": _build_quantiles,
    "extreme": _build_extreme,
    "bracket": lambda epsilon: _build_counts_mechanism(Bracket.of(0.5, MAX_VALUE + 1, epsilon).answer_counts),
    "smooth-median": lambda epsilon: _build_median(SmoothOrderStatistic("median", 0, 1000, epsilon)),
    "individual-median": lambda epsilon: _build_median(IndividualOrderStatistic("median", 0, 1000, epsilon)),
    "truncated-range-count": lambda epsilon: KnownMechanism(repeat_answer(TruncatedRangeCount(epsilon).answer), (5, 6)),
}
