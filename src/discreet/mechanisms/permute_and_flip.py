"""Permute-and-flip, drawn exactly: the default choice without a prior. Proof: permute_and_flip.md."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from fractions import Fraction
from math import lcm, prod

import numpy as np

from discreet.errors import InvalidInput, Unsupported
from discreet.mechanisms.entropy import Entropy, get_entropy
from discreet.mechanisms.exponential_mechanism import Integers, Scores, Selection, align_scores
from discreet.mechanisms.samplers import flip_power_coins, sample_below
from discreet.privacy.guarantee import Guarantee
from discreet.untrusted import CheckedValue

MAX_EXACT_CANDIDATES = 200


@dataclass(frozen=True, slots=True)
class PermuteAndFlip(CheckedValue):
    """Permute-and-flip: choose a candidate with a high score, without a prior.

    Every candidate flips a coin of probability exp(epsilon (score - best) / spread); one of the heads is chosen
    uniformly. It has the same output distribution as going through the candidates in random order until the first head,
    and is never worse than the exponential mechanism with a uniform prior at the same cost (McKenna and Sheldon 2020).
    One choice is epsilon-DP, under the neighbor relation for which the sensitivity is stated. Make it with
    `PermuteAndFlip.of(epsilon, sensitivity)`.

    Args:
        selection: The public facts of the choice: epsilon, grid and spread of the scores.

    Raises:
        InvalidInput: The selection was not made by `of`.

    Example:
        >>> from discreet.mechanisms import PermuteAndFlip
        >>> mechanism = PermuteAndFlip.of(epsilon=1, sensitivity=1)
        >>> mechanism.cost().epsilon
        Fraction(1, 1)
        >>> mechanism.answer({"red": 40, "green": 10}) in {"red", "green"}
        True
    """

    selection: Selection

    @staticmethod
    def of(epsilon: object, sensitivity: object, bounded_range: object = None, step: object = None) -> PermuteAndFlip:
        """For whole scores, or scores floored to a public step; `bounded_range` as for the exponential mechanism."""
        return PermuteAndFlip(Selection.of(epsilon, sensitivity, bounded_range, step))

    def __post_init__(self) -> None:
        if type(self.selection) is not Selection:
            raise InvalidInput("make it with PermuteAndFlip.of(epsilon, sensitivity)")

    def cost(self, neighbors: str = "add-remove") -> Guarantee:
        """What one choice costs."""
        return Guarantee.dp(self.selection.epsilon, neighbors=neighbors)

    def score_bound(self, confidence: object, count: int) -> float:
        """With this confidence the choice among `count` candidates is less than this below the best score."""
        return self.selection.compute_score_bound(confidence, 1 / count)

    def compute_levels(self, scores: Scores) -> Integers:
        """The candidates' levels below the best."""
        candidate_scores = align_scores(scores, None)[1]
        return self.selection.compute_levels(candidate_scores, 1 / len(candidate_scores))

    def answer(self, scores: Scores, entropy: Entropy | None = None) -> Hashable:
        """One candidate."""
        base, candidate_scores = align_scores(scores, None)
        levels = self.selection.compute_levels(candidate_scores, 1 / len(candidate_scores))
        return base.support[self.sample_position(levels, get_entropy(entropy))]

    def sample_position(self, levels: Integers, entropy: Entropy) -> int:
        """The position of one candidate. The best one always shows heads, so there is always a choice."""
        heads = np.flatnonzero(flip_power_coins(self.selection.ratio, levels, entropy))
        return int(heads[sample_below(len(heads), entropy)])

    def probabilities(self, scores: Scores) -> list[Fraction]:
        """The exact law of a small choice: p_c times the mean of 1/(1 + number of other heads)."""
        levels = self.compute_levels(scores)
        if len(levels) > MAX_EXACT_CANDIDATES:
            limit = MAX_EXACT_CANDIDATES
            raise Unsupported(f"the exact law of permute-and-flip is computed for at most {limit} candidates")
        chances = [self.selection.ratio ** int(level) for level in levels]
        return [p * _compute_mean_share(chances[:index] + chances[index + 1 :]) for index, p in enumerate(chances)]


def choose_position(mechanism: PermuteAndFlip, scores: Scores, entropy: Entropy | None = None) -> int:
    """The position of one candidate."""
    return mechanism.sample_position(mechanism.compute_levels(scores), get_entropy(entropy))


def _compute_mean_share(chances: list[Fraction]) -> Fraction:
    """E[1 / (1 + number of heads)], from the law of the number of heads; whole numbers over a common denominator."""
    counts = [1]
    for chance in chances:
        heads, tails = chance.numerator, chance.denominator - chance.numerator
        pairs = zip([*counts, 0], [0, *counts], strict=True)
        counts = [tails * same_heads + heads * fewer_heads for same_heads, fewer_heads in pairs]
    common = lcm(*range(1, len(counts) + 1))
    shares = sum(count * (common // (heads + 1)) for heads, count in enumerate(counts))
    return Fraction(shares, common * prod(chance.denominator for chance in chances))
