"""Our own mechanisms by name, each with two inputs that neighbours can give it, the worst for most of them."""

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
from discreet.verification.audit.audit import Mechanism

BATCH_DRAWS, SINGLE_DRAWS = 1_000_000, 10_000
"""Draws unless told otherwise: of what is drawn at once, and of what is drawn one by one."""
DEFAULT_DELTA = Fraction(1, 10**6)
FINE_STEP = Fraction(1, 1000)
HEXAGON = ((2, 1), (1, 2), (-1, 1), (-2, -1), (-1, -2), (1, -1))
MAX_VALUE = 20
CANDIDATES = 10


@dataclass(frozen=True, slots=True)
class KnownMechanism:
    """A mechanism with the inputs of two neighbours, the delta that it promises, and how many draws are cheap."""

    mechanism: Mechanism
    pair: tuple[Any, Any]
    draws: int = SINGLE_DRAWS
    delta: Fraction = Fraction(0)
    prepare: Callable[[Any], object] | None = None
    """What the draws are made from, computed once for each input."""

    @property
    def inputs(self) -> tuple[Any, Any]:
        """What the mechanism is called with."""
        return self.pair if self.prepare is None else (self.prepare(self.pair[0]), self.prepare(self.pair[1]))


def get_known_mechanism(name: str, epsilon: Fraction, delta: Fraction | None) -> KnownMechanism:
    """The mechanism of this name at this epsilon; a delta belongs to the Gaussian alone."""
    if name not in MECHANISM_BUILDERS:
        raise InvalidInput(
            f"there is no mechanism {name[:40]!r}; give one of {', '.join(MECHANISM_BUILDERS)}, or module:function"
        )
    if name == "gaussian":
        return _build_gaussian(epsilon, DEFAULT_DELTA if delta is None else delta)
    if delta is not None:
        raise InvalidInput(f"{name} promises pure differential privacy; leave out delta")
    return MECHANISM_BUILDERS[name](epsilon)


def build_noise_adder(noise: Noise | BoxStaircase | PolygonStaircase) -> Mechanism:
    """Adds noise to numbers in grid units."""
    return lambda units, n: noise.sample_units(n, SYSTEM) + np.asarray(units)


def repeat_answer(answer: Callable[[Any], object]) -> Mechanism:
    """Answers n times."""
    return lambda data, n: [answer(data) for _ in range(n)]


def _build_laplace(epsilon: Fraction) -> KnownMechanism:
    return KnownMechanism(build_noise_adder(DiscreteLaplace(epsilon, 1, FINE_STEP)), (0, 1000), BATCH_DRAWS)


def _build_geometric(epsilon: Fraction) -> KnownMechanism:
    return KnownMechanism(build_noise_adder(DiscreteLaplace(epsilon, 1)), (0, 1), BATCH_DRAWS)


def _build_gaussian(epsilon: Fraction, delta: Fraction = DEFAULT_DELTA) -> KnownMechanism:
    return KnownMechanism(
        build_noise_adder(DiscreteGaussian.calibrated(epsilon, delta, 10)), (0, 10), BATCH_DRAWS, delta
    )


def _build_staircase(epsilon: Fraction) -> KnownMechanism:
    return KnownMechanism(build_noise_adder(Staircase.least_variance(epsilon, 1, FINE_STEP)), (0, 1000), BATCH_DRAWS)


def _build_box_staircase(epsilon: Fraction) -> KnownMechanism:
    return KnownMechanism(build_noise_adder(BoxStaircase(epsilon, (10, 20))), ((0, 0), (10, 20)), BATCH_DRAWS)


def _build_polygon_staircase(epsilon: Fraction) -> KnownMechanism:
    return KnownMechanism(build_noise_adder(PolygonStaircase(epsilon, HEXAGON)), ((0, 0), HEXAGON[0]), BATCH_DRAWS)


def _build_exponential(epsilon: Fraction) -> KnownMechanism:
    choice = Exponential.of(epsilon, 1)
    return KnownMechanism(
        repeat_answer(lambda distribution: distribution.sample()), _get_score_pair(), prepare=choice.distribution
    )


def _build_permute_and_flip(epsilon: Fraction) -> KnownMechanism:
    choice = PermuteAndFlip.of(epsilon, 1)
    answer = repeat_answer(lambda levels: choice.sample_position(levels, SYSTEM))
    return KnownMechanism(answer, _get_score_pair(), prepare=choice.compute_levels)


def _build_refinement(epsilon: Fraction) -> KnownMechanism:
    refined = Refinement.of(Prior.uniform(0, CANDIDATES - 1), epsilon)
    return KnownMechanism(
        repeat_answer(lambda distribution: distribution.sample()), (0, CANDIDATES - 1), prepare=refined.distribution
    )


def _build_quantile(epsilon: Fraction) -> KnownMechanism:
    median = Quantile.of(0.5, 0, MAX_VALUE, epsilon)
    return KnownMechanism(repeat_answer(median.answer_counts), _get_two_end_pair(), prepare=_count_values)


def _build_quantiles(epsilon: Fraction) -> KnownMechanism:
    several = Quantiles.of((0.25, 0.75), 0, MAX_VALUE, epsilon)  # with a split that is not told
    answer = repeat_answer(lambda counts: tuple(several.answer_counts(counts)))
    return KnownMechanism(answer, _get_two_end_pair(), prepare=_count_values)


def _build_extreme(epsilon: Fraction) -> KnownMechanism:
    largest = Extreme.of(1, MAX_VALUE + 1, epsilon)
    return KnownMechanism(repeat_answer(largest.answer_counts), ([], [MAX_VALUE]), prepare=_count_values)


def _build_bracket(epsilon: Fraction) -> KnownMechanism:
    bracket = Bracket.of(0.5, MAX_VALUE + 1, epsilon)
    return KnownMechanism(repeat_answer(bracket.answer_counts), _get_two_end_pair(), prepare=_count_values)


def _build_smooth_median(epsilon: Fraction) -> KnownMechanism:
    median = SmoothOrderStatistic("median", 0, 1000, epsilon)
    return KnownMechanism(repeat_answer(median.answer), _get_median_pair())


def _build_individual_median(epsilon: Fraction) -> KnownMechanism:
    median = IndividualOrderStatistic("median", 0, 1000, epsilon)
    return KnownMechanism(repeat_answer(median.answer), _get_median_pair())


def _build_truncated_range_count(epsilon: Fraction) -> KnownMechanism:
    return KnownMechanism(repeat_answer(TruncatedRangeCount(epsilon).answer), (5, 6))


def _get_score_pair() -> tuple[list[int], list[int]]:
    """One candidate a step above all others, and a step below them."""
    others = CANDIDATES - 1
    return [1, *[0] * others], [0, *[1] * others]


def _get_two_end_pair() -> tuple[list[int], list[int]]:
    """Half of the rows at either end, and a row more."""
    return [0] * 3 + [MAX_VALUE] * 3, [0] * 3 + [MAX_VALUE] * 4


def _get_median_pair() -> tuple[list[int], list[int]]:
    """A median that no single row moves, and one that a single row moves far."""
    return [0] * 3 + [500] * 3 + [1000] * 3, [0] * 3 + [500] * 2 + [1000] * 4


def _count_values(values: Sequence[int]) -> NDArray[np.int64]:
    return np.bincount(np.array(values, dtype=np.int64), minlength=MAX_VALUE + 1)


MECHANISM_BUILDERS: Mapping[str, Callable[[Fraction], KnownMechanism]] = {
    "laplace": _build_laplace,
    "geometric": _build_geometric,
    "gaussian": _build_gaussian,
    "staircase": _build_staircase,
    "box-staircase": _build_box_staircase,
    "polygon-staircase": _build_polygon_staircase,
    "exponential": _build_exponential,
    "permute-and-flip": _build_permute_and_flip,
    "refinement": _build_refinement,
    "quantile": _build_quantile,
    "quantiles": _build_quantiles,
    "extreme": _build_extreme,
    "bracket": _build_bracket,
    "smooth-median": _build_smooth_median,
    "individual-median": _build_individual_median,
    "truncated-range-count": _build_truncated_range_count,
}
