"""Scores of a finite set of candidates, as whole levels below the best: what selection mechanisms work on."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from discreet.errors import InvalidInput
from discreet.exact import exp_above, positive, rational
from discreet.prior import Prior

Integers = NDArray[np.int64]
Scores = Mapping[Hashable, object] | Sequence[object] | Integers
LEAST_LEVELS = 4096
CLIPPED_SHARE = 30 * math.log(2)
"""Scores are clipped so far below the best that a clipped candidate is drawn at most once in 2^30."""


@dataclass(frozen=True, slots=True)
class Selection:
    """Public facts of a selection: epsilon buys a factor of at most 1/ratio for each step of score.

    A change of one unit moves every score by at most `sensitivity`, and no two candidates' changes differ by more than
    `spread` (the bounded range), at most twice the sensitivity. Then weights ratio^(best - score) cost epsilon.
    """

    epsilon: Fraction
    sensitivity: Fraction
    spread: Fraction
    step: Fraction

    def __post_init__(self) -> None:
        for name in ("epsilon", "sensitivity", "spread", "step"):
            positive(getattr(self, name), name)

    @staticmethod
    def of(epsilon: object, sensitivity: object, bounded_range: object = None, step: object = None) -> Selection:
        """Check the public facts."""
        loss, width = positive(epsilon, "epsilon"), positive(sensitivity, "sensitivity")
        spread = 2 * width if bounded_range is None else min(2 * width, positive(bounded_range, "the bounded range"))
        grid = Fraction(1) if step is None else positive(step, "step")
        # Floored scores keep a sensitivity that is a whole number of steps.
        return Selection(loss, width, math.ceil(spread / grid) * grid, grid)

    @property
    def ratio(self) -> Fraction:
        """The weight kept per step of score: the least multiple of 2^-64 of at least exp(-epsilon step / spread)."""
        return exp_above(-self.epsilon * self.step / self.spread, 64)

    def most_levels(self, least_share: float) -> int:
        """Where scores are clipped, from public facts: the ratio and the least prior share of a candidate."""
        loss = -math.log(self.ratio) if self.ratio < 1 else 1.0
        return max(LEAST_LEVELS, math.ceil((CLIPPED_SHARE - math.log(least_share)) / loss))

    def bound(self, confidence: float, least_share: float) -> float:
        """With this confidence the chosen score is less than this below the best candidate's."""
        miss = 1 - confidence
        if not 0 < miss < 1:
            raise InvalidInput(f"confidence must be between 0 and 1, both excluded, got {confidence}")
        if self.ratio == 1:
            return math.inf
        return float(self.step) * math.log(1 / (miss * least_share)) / -math.log(self.ratio)

    def levels(self, scores: Integers | Sequence[object], least_share: float) -> Integers:
        """How many steps each score lies below the best, clipped."""
        units = scores if isinstance(scores, np.ndarray) else self._units(scores)
        levels: Integers = np.minimum(units.max() - units, self.most_levels(least_share))
        return levels

    def _units(self, scores: Sequence[object]) -> Integers:
        exact = [rational(score, "a score") for score in scores]
        if self.step == 1 and any(not isinstance(score, (int, np.integer)) for score in scores):
            raise InvalidInput("scores that are not whole numbers need a public step; give step=, such as 0.001")
        floored = [math.floor(score / self.step) for score in exact]
        best = max(floored)
        return np.array([max(score - best, -(2**62)) for score in floored], dtype=np.int64)


def candidates(scores: Scores, prior: Prior | None) -> tuple[Prior, Sequence[object] | Integers]:
    """The candidates with their base measure, and the scores in the same order."""
    if isinstance(scores, np.ndarray):
        _fits(scores, prior)
        return prior or Prior.uniform(0, len(scores) - 1), scores.astype(np.int64)
    if len(scores) == 0:
        raise InvalidInput("a choice needs at least one candidate with a score")
    if not isinstance(scores, Mapping):
        _fits(scores, prior)
        return prior or Prior.uniform(0, len(scores) - 1), scores
    base = prior or Prior.weights(dict.fromkeys(scores, 1))
    if any(value not in scores for value in base.support):
        raise InvalidInput("every value of the prior needs a score")
    return base, [scores[value] for value in base.support]


def _fits(scores: Sequence[object] | Integers, prior: Prior | None) -> None:
    if len(scores) == 0:
        raise InvalidInput("a choice needs at least one candidate with a score")
    if prior is not None and len(prior.mass) != len(scores):
        raise InvalidInput(
            f"the prior has {len(prior.mass)} values and there are {len(scores)} scores; they must match"
        )


def least_share(prior: Prior) -> float:
    """The smallest probability of a candidate under the base measure."""
    return int(prior.mass.min()) / prior.total
