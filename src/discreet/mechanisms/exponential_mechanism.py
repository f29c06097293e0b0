"""The exponential mechanism over a finite range, with a prior as base measure, drawn exactly.

Scores of the candidates are whole steps below the best: permute-and-flip and quantiles choose by them too. Proof:
exponential_mechanism.md.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from discreet.errors import InvalidInput
from discreet.mechanisms.distribution import Distribution, PowerFactors
from discreet.mechanisms.entropy import Entropy
from discreet.numeric import as_int, as_number_between, as_positive, as_rational, exp_above, read_clamped_binary
from discreet.priors.prior import Prior, copy_prior
from discreet.privacy.guarantee import Guarantee
from discreet.untrusted import CheckedValue, copy_items, set_fields

Integers = NDArray[np.int64]
Scores = Mapping[Hashable, object] | Sequence[object] | NDArray[np.generic]
RATIO_BITS = 48
"""The weight kept per step of score is a multiple of 2^-RATIO_BITS."""
STEPS_PER_SPREAD = 1024
"""Without a step, scores are floored to so many steps per spread if they have more: one part in so many is lost."""
MIN_LEVELS = 4096
MAX_LEVELS = 2**40
CLIPPED_LOG_SHARE = 30 * math.log(2)
"""Scores are clipped so far below the best that a clipped candidate is drawn at most once in 2^30."""
MAX_READABLE_SCORE = Fraction(10) ** 300


@dataclass(frozen=True, slots=True)
class Selection(CheckedValue):
    """Public facts of a choice: floored to whole steps, no two candidates' scores move apart by over `spread` steps.

    Then weights ratio^(steps below the best) cost epsilon (exponential_mechanism.md).
    """

    epsilon: Fraction
    step: Fraction
    spread: int
    whole_scores: bool = False

    def __post_init__(self) -> None:
        if {type(self.epsilon), type(self.step)} != {Fraction}:
            raise InvalidInput("make it with Selection.of(epsilon, sensitivity)")
        set_fields(self, epsilon=as_positive(self.epsilon, "epsilon"), step=as_positive(self.step, "step"))
        spread = as_int(self.spread, "the spread, in steps")
        set_fields(self, spread=spread, whole_scores=bool(self.whole_scores))

    @staticmethod
    def of(epsilon: object, sensitivity: object, bounded_range: object = None, step: object = None) -> Selection:
        """One unit moves every score by at most the sensitivity, and all of them by changes within the bounded range.

        Without a step, and where both are whole numbers, so are the scores; else they are floored to the step, or to a
        thousandth of what they can move. All of this is decided here, from public facts; never from the scores.
        """
        exact_epsilon, width = as_positive(epsilon, "epsilon"), as_positive(sensitivity, "sensitivity")
        score_range = 2 * width if bounded_range is None else as_positive(bounded_range, "the bounded range")
        if step is not None:
            grid = as_positive(step, "step")
        elif width.denominator == score_range.denominator == 1:
            grid = Fraction(max(1, min(2 * width, score_range) // STEPS_PER_SPREAD))
        else:
            grid = 2 * width / STEPS_PER_SPREAD
        symmetric_spread, is_exact = 2 * math.ceil(width / grid), step is None and grid == 1
        if bounded_range is None:
            return Selection(exact_epsilon, grid, symmetric_spread, is_exact)
        # A change x moves a floored score by floor(x) or ceil(x) steps: symmetric bounds are kept, others widen by 1.
        spread = min(symmetric_spread, math.ceil(score_range / grid) + (not is_exact))
        return Selection(exact_epsilon, grid, spread, is_exact)

    @property
    def ratio(self) -> Fraction:
        """The weight kept per step: the least multiple of 2^-48 of at least exp(-epsilon / spread)."""
        return exp_above(-self.epsilon / self.spread, RATIO_BITS)

    @property
    def rate(self) -> float:
        """-ln ratio, to the last digits also where the ratio is near 1."""
        return -math.log1p(-float(1 - self.ratio))

    def compute_max_levels(self, least_share: float) -> int:
        """Where scores are clipped, from public facts: the ratio and the least prior share of a candidate."""
        needed = (CLIPPED_LOG_SHARE - math.log(least_share)) / self.rate if self.ratio < 1 else 0
        return min(max(MIN_LEVELS, math.ceil(needed)), MAX_LEVELS)

    def compute_score_bound(self, confidence: object, least_share: float) -> float:
        """With this confidence the chosen score is less than this below the best one; one step of it is the floor's."""
        miss = 1 - float(as_number_between(confidence, 0, 1, "confidence"))
        if self.ratio == 1:
            return math.inf
        return float(self.step) * (math.log(1 / (miss * least_share)) / self.rate + (self.step != 1))

    def compute_levels(self, scores: Sequence[object] | NDArray[np.generic], least_share: float) -> Integers:
        """How many steps each score lies below the best, clipped; what is not a number is as low as can be."""
        max_levels = self.compute_max_levels(least_share)
        has_small_step = self.step.denominator == 1 and self.step.numerator < 2**62
        if isinstance(scores, np.ndarray) and scores.dtype == np.int64 and has_small_step:
            units = scores if self.step == 1 else scores // self.step.numerator
            # Differences of 64-bit numbers fit 64 bits without a sign.
            below = np.array(units.max()).astype(np.uint64) - units.astype(np.uint64)
            return np.minimum(below, max_levels).astype(np.int64)
        if self.whole_scores and not all(isinstance(score, int | np.integer) for score in scores):
            raise InvalidInput("scores that are not whole numbers need a public step; give step=, such as 0.001")
        top, bottom = self.step.numerator, self.step.denominator
        exact = [read_clamped_binary(score, -MAX_READABLE_SCORE, MAX_READABLE_SCORE) for score in scores]
        # Floored without the quotient itself, which takes longest to reduce.
        score_steps = [
            None if score is None else score.numerator * bottom // (score.denominator * top) for score in exact
        ]
        best = max((score for score in score_steps if score is not None), default=0)
        levels = [max_levels if score is None else min(best - score, max_levels) for score in score_steps]
        return np.array(levels, dtype=np.int64)


def align_scores(scores: Scores, prior: Prior | None) -> tuple[Prior, Sequence[object] | NDArray[np.generic]]:
    """The candidates with their base measure, and the scores in the same order: that of the prior's support."""
    prior = None if prior is None else copy_prior(prior)
    raw_scores: object = scores
    is_listed = isinstance(raw_scores, Mapping | np.ndarray | Sequence) and not isinstance(raw_scores, str)
    if not is_listed or len(scores) == 0:
        raise InvalidInput("scores must be a list, an array or a mapping from candidates to scores, of at least one")
    if not isinstance(scores, Mapping):
        if prior is not None and len(prior.mass) != len(scores):
            counts = f"the prior has {len(prior.mass)} values and there are {len(scores)} scores"
            raise InvalidInput(f"{counts}; they must match")
        return prior or Prior.uniform(0, len(scores) - 1), _narrow_scores(scores)
    base = prior or Prior.weights(dict.fromkeys(scores, 1))
    items = copy_items(scores, "scores")
    # A float stands for its decimal text, as in a prior.
    score_of: dict[Hashable, object] = {
        as_rational(value, "a candidate") if isinstance(value, float) else value: score for value, score in items
    }
    if any(value not in score_of for value in base.support):
        raise InvalidInput("every value of the prior needs a score")
    return base, [score_of[value] for value in base.support]


def _narrow_scores(scores: Sequence[object] | NDArray[np.generic]) -> Sequence[object] | NDArray[np.generic]:
    """Whole numbers as 64-bit words where their type fits one."""
    if not isinstance(scores, np.ndarray):
        return scores
    if scores.ndim != 1:
        raise InvalidInput("scores must be one column")
    fits_word = scores.dtype.kind in "ib" or (scores.dtype.kind == "u" and scores.dtype.itemsize < 8)
    return scores.astype(np.int64) if fits_word else scores.tolist()


def find_least_share(prior: Prior) -> float:
    """The smallest probability of a candidate under the base measure."""
    return int(prior.mass.min()) / prior.total


@dataclass(frozen=True, slots=True)
class Exponential(CheckedValue):
    """Exponential mechanism: choose a candidate with probability proportional to the prior times exp(epsilon score /
    spread).

    One choice is epsilon-DP, under the neighbor relation for which the sensitivity of the scores is stated. Make it
    with `Exponential.of(epsilon, sensitivity)`.

    Args:
        selection: The public facts of the choice: epsilon, grid and spread of the scores.
        prior: The candidates and their prior weights; without it all candidates weigh the same.

    Raises:
        InvalidInput: The selection was not made by `of`, or the prior is not valid.

    Example:
        >>> from discreet.mechanisms import Exponential
        >>> mechanism = Exponential.of(epsilon=1, sensitivity=1)
        >>> mechanism.cost().epsilon
        Fraction(1, 1)
        >>> mechanism.answer({"red": 40, "green": 10}) in {"red", "green"}
        True
    """

    selection: Selection
    prior: Prior | None = None

    def __post_init__(self) -> None:
        """Copy the prior: its values are those that a choice is made from."""
        if type(self.selection) is not Selection:
            raise InvalidInput("make it with Exponential.of(epsilon, sensitivity)")
        set_fields(self, prior=None if self.prior is None else copy_prior(self.prior))

    @staticmethod
    def of(
        epsilon: object,
        sensitivity: object,
        prior: Prior | None = None,
        bounded_range: object = None,
        step: object = None,
    ) -> Exponential:
        """For whole scores, or scores floored to a public step."""
        return Exponential(Selection.of(epsilon, sensitivity, bounded_range, step), prior)

    def cost(self, neighbors: str = "add-remove") -> Guarantee:
        """What one choice costs."""
        return Guarantee.dp(self.selection.epsilon, neighbors=neighbors)

    def score_bound(self, confidence: object, count: int) -> float:
        """With this confidence the choice among `count` candidates is less than this below the best score."""
        share = 1 / count if self.prior is None else find_least_share(self.prior)
        return self.selection.compute_score_bound(confidence, share)

    def distribution(self, scores: Scores) -> Distribution:
        """The exact law given the scores. It never leaves: a draw does."""
        base, candidate_scores = align_scores(scores, self.prior)
        levels = self.selection.compute_levels(candidate_scores, find_least_share(base))
        blocks, block_levels = PowerFactors.assign_blocks(levels)
        return Distribution(base, blocks, PowerFactors(self.selection.ratio, block_levels))

    def answer(self, scores: Scores, entropy: Entropy | None = None) -> Hashable:
        """One candidate."""
        return self.distribution(scores).sample(entropy)


def exponential(
    scores: Scores,
    sensitivity: object,
    epsilon: object,
    prior: Prior | None = None,
    bounded_range: object = None,
    step: object = None,
) -> Distribution:
    """Compute the output distribution of the exponential mechanism: prior times exp(epsilon score / (2 sensitivity)).

    Draw once and release the draw: that is epsilon-DP. The distribution itself is secret. Where sensitivity and range
    are whole numbers and no step is given, scores are whole numbers too; others are floored to `step`, or to a
    thousandth of what they can change.

    Args:
        scores: The score of each candidate: a list or an array in the order of the prior's support, or a mapping.
        sensitivity: The most that one privacy unit changes a score.
        epsilon: Privacy budget of one choice, above 0.
        prior: The candidates and their prior weights; without it all candidates weigh the same.
        bounded_range: The largest minus the smallest change of a score over the candidates, between neighbors. If it is
            below 2 sensitivity, it replaces that: the cost is the same and the choice is sharper.
        step: The public grid of the scores.

    Returns:
        The exact distribution over the candidates.

    Raises:
        InvalidInput: A number is not above 0, or the scores do not fit the prior.

    Example:
        >>> from discreet.mechanisms import exponential
        >>> distribution = exponential({"red": 4, "green": 2}, sensitivity=1, epsilon=1)
        >>> red, green = distribution.law()["red"], distribution.law()["green"]
        >>> round(float(red / green), 3)  # e^(epsilon (4 - 2) / 2)
        2.718
    """
    return Exponential(Selection.of(epsilon, sensitivity, bounded_range, step), prior).distribution(scores)
