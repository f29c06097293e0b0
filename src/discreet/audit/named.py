"""Our own mechanisms by name, each with two inputs that neighbours can give it, the worst for most of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.audit.auditing import Mechanism
from discreet.errors import InvalidInput
from discreet.kernel.box_staircase import BoxStaircase
from discreet.kernel.bracket import Bracket
from discreet.kernel.discrete_gaussian import DiscreteGaussian
from discreet.kernel.discrete_laplace import DiscreteLaplace
from discreet.kernel.entropy import SYSTEM
from discreet.kernel.exponential import Exponential
from discreet.kernel.extreme import Extreme
from discreet.kernel.individual import IndividualOrderStatistic, TruncatedRangeCount
from discreet.kernel.noise import Noise
from discreet.kernel.permute_and_flip import PermuteAndFlip
from discreet.kernel.polygon_staircase import PolygonStaircase
from discreet.kernel.quantile import Quantile, Quantiles
from discreet.kernel.refinement import Refinement
from discreet.kernel.smooth import SmoothOrderStatistic
from discreet.kernel.staircase import Staircase
from discreet.prior import Prior

MANY, FEW = 1_000_000, 10_000
"""Draws unless told otherwise: of what is drawn at once, and of what is drawn one by one."""
DELTA = Fraction(1, 10**6)
FINE = Fraction(1, 1000)
HEXAGON = ((2, 1), (1, 2), (-1, 1), (-2, -1), (-1, -2), (1, -1))
ENDS = 20
CANDIDATES = 10


@dataclass(frozen=True, slots=True)
class Named:
    """A mechanism with the inputs of two neighbours, the delta that it promises, and how many draws are cheap."""

    mechanism: Mechanism
    pair: tuple[Any, Any]
    draws: int = FEW
    delta: Fraction = Fraction(0)
    make: Callable[[Any], object] | None = None
    """What the draws are made from, computed once for each input."""

    @property
    def made(self) -> tuple[Any, Any]:
        """What the mechanism is called with."""
        return self.pair if self.make is None else (self.make(self.pair[0]), self.make(self.pair[1]))


def named(name: str, epsilon: Fraction, delta: Fraction | None) -> Named:
    """The mechanism of this name at this epsilon; a delta belongs to the Gaussian alone."""
    if name not in MAKERS:
        raise InvalidInput(f"there is no mechanism {name[:40]!r}; give one of {', '.join(MAKERS)}, or module:function")
    if name == "gaussian":
        return _gaussian(epsilon, DELTA if delta is None else delta)
    if delta is not None:
        raise InvalidInput(f"{name} promises pure differential privacy; leave out delta")
    return MAKERS[name](epsilon)


def adding(noise: Noise | BoxStaircase | PolygonStaircase) -> Mechanism:
    """Adds noise to numbers in grid units."""
    return lambda units, n: noise.draw_units(n, SYSTEM) + np.asarray(units)


def one_by_one(answer: Callable[[Any], object]) -> Mechanism:
    """Answers n times."""
    return lambda data, n: [answer(data) for _ in range(n)]


def _laplace(epsilon: Fraction) -> Named:
    return Named(adding(DiscreteLaplace(epsilon, 1, FINE)), (0, 1000), MANY)


def _geometric(epsilon: Fraction) -> Named:
    return Named(adding(DiscreteLaplace(epsilon, 1)), (0, 1), MANY)


def _gaussian(epsilon: Fraction, delta: Fraction = DELTA) -> Named:
    return Named(adding(DiscreteGaussian.calibrated(epsilon, delta, 10)), (0, 10), MANY, delta)


def _staircase(epsilon: Fraction) -> Named:
    return Named(adding(Staircase.least_variance(epsilon, 1, FINE)), (0, 1000), MANY)


def _box_staircase(epsilon: Fraction) -> Named:
    return Named(adding(BoxStaircase(epsilon, (10, 20))), ((0, 0), (10, 20)), MANY)


def _polygon_staircase(epsilon: Fraction) -> Named:
    return Named(adding(PolygonStaircase(epsilon, HEXAGON)), ((0, 0), HEXAGON[0]), MANY)


def _exponential(epsilon: Fraction) -> Named:
    choice = Exponential.of(epsilon, 1)
    return Named(one_by_one(lambda law: law.draw()), _scores(), make=choice.law)


def _permute_and_flip(epsilon: Fraction) -> Named:
    choice = PermuteAndFlip.of(epsilon, 1)
    answer = one_by_one(lambda levels: choice.draw_position(levels, SYSTEM))
    return Named(answer, _scores(), make=choice.levels)


def _refinement(epsilon: Fraction) -> Named:
    refined = Refinement.of(Prior.uniform(0, CANDIDATES - 1), epsilon)
    return Named(one_by_one(lambda law: law.draw()), (0, CANDIDATES - 1), make=refined.law)


def _quantile(epsilon: Fraction) -> Named:
    median = Quantile.of(0.5, 0, ENDS, epsilon)
    return Named(one_by_one(median.answer_counts), _half_and_half(), make=_counts)


def _quantiles(epsilon: Fraction) -> Named:
    several = Quantiles.of((0.25, 0.75), 0, ENDS, epsilon)  # with a split that is not told
    answer = one_by_one(lambda counts: tuple(several.answer_counts(counts)))
    return Named(answer, _half_and_half(), make=_counts)


def _extreme(epsilon: Fraction) -> Named:
    largest = Extreme.of(1, ENDS + 1, epsilon)
    return Named(one_by_one(largest.answer_counts), ([], [ENDS]), make=_counts)


def _bracket(epsilon: Fraction) -> Named:
    around = Bracket.of(0.5, ENDS + 1, epsilon)
    return Named(one_by_one(around.answer_counts), _half_and_half(), make=_counts)


def _smooth_median(epsilon: Fraction) -> Named:
    median = SmoothOrderStatistic("median", 0, 1000, epsilon)
    return Named(one_by_one(median.answer), _in_the_middle())


def _individual_median(epsilon: Fraction) -> Named:
    median = IndividualOrderStatistic("median", 0, 1000, epsilon)
    return Named(one_by_one(median.answer), _in_the_middle())


def _truncated_range_count(epsilon: Fraction) -> Named:
    return Named(one_by_one(TruncatedRangeCount(epsilon).answer), (5, 6))


def _scores() -> tuple[list[int], list[int]]:
    """One candidate a step above all others, and a step below them."""
    others = CANDIDATES - 1
    return [1, *[0] * others], [0, *[1] * others]


def _half_and_half() -> tuple[list[int], list[int]]:
    """Half of the rows at either end, and a row more."""
    return [0] * 3 + [ENDS] * 3, [0] * 3 + [ENDS] * 4


def _in_the_middle() -> tuple[list[int], list[int]]:
    """A median that no single row moves, and one that a single row moves far."""
    return [0] * 3 + [500] * 3 + [1000] * 3, [0] * 3 + [500] * 2 + [1000] * 4


def _counts(values: Sequence[int]) -> NDArray[np.int64]:
    return np.bincount(np.array(values, dtype=np.int64), minlength=ENDS + 1)


MAKERS: Mapping[str, Callable[[Fraction], Named]] = {
    "laplace": _laplace,
    "geometric": _geometric,
    "gaussian": _gaussian,
    "staircase": _staircase,
    "box-staircase": _box_staircase,
    "polygon-staircase": _polygon_staircase,
    "exponential": _exponential,
    "permute-and-flip": _permute_and_flip,
    "refinement": _refinement,
    "quantile": _quantile,
    "quantiles": _quantiles,
    "extreme": _extreme,
    "bracket": _bracket,
    "smooth-median": _smooth_median,
    "individual-median": _individual_median,
    "truncated-range-count": _truncated_range_count,
}
