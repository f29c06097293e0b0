"""The exponential mechanism over a finite range, with a prior as base measure, drawn exactly.

Proof: exponential_mechanism.md.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass

from discreet.errors import InvalidInput
from discreet.mechanisms.distribution import Distribution, PowerFactors
from discreet.mechanisms.entropy import Entropy
from discreet.mechanisms.selection_scores import Scores, Selection, align_scores, find_least_share
from discreet.priors.prior import Prior, copy_prior
from discreet.privacy.guarantee import Guarantee
from discreet.untrusted import CheckedValue, set_fields


@dataclass(frozen=True, slots=True)
class Exponential(CheckedValue):
    """A choice among candidates by their scores: proportional to the prior times exp(epsilon score / spread)."""

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
    """The exponential mechanism's law: prior times exp(epsilon score / (2 sensitivity)), or / bounded_range if less.

    Scores are a list or an array, in the order of the prior's support, or a mapping from candidates to scores.
    `bounded_range` is the largest minus the smallest change of score over candidates between neighbours: the cost is
    epsilon all the same, and the choice sharper. Where sensitivity and range are whole numbers and no step is given, so
    are the scores; others are floored to `step`, or to a thousandth of what they can move. Draw once and release the
    draw; the law itself never leaves.
    """
    return Exponential(Selection.of(epsilon, sensitivity, bounded_range, step), prior).distribution(scores)
