"""Two grid points with a quantile between them, whatever the rows, at a stated confidence. Proof: bracket.md.

How far a private quantile is off in values depends on the rows and cannot be told. So the interval is itself drawn:
each end aims as many ranks outside as its choice may be off.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from discreet.errors import InvalidInput, Unsupported
from discreet.exact import as_int, as_number_between, as_positive, format_exact
from discreet.guarantee import Guarantee, NeighborRelation, parse_neighbor_relation
from discreet.kernel.entropy import Entropy, get_entropy
from discreet.kernel.permute_and_flip import PermuteAndFlip
from discreet.kernel.quantile import MAX_ROWS, parse_order
from discreet.kernel.scores import MAX_LEVELS, Integers, Selection
from discreet.kernel.sensitivity import rank_score_sensitivity

MAX_CONFIDENCE = Fraction(999_999, 10**6)
MAX_RANK_OFFSET = 2**60
OUTSIDE_RANK = 2**62
"""The one-sided ends of the grid have every rank beyond them: farther than any target."""
BracketEnd = Literal["low", "high"]


@dataclass(frozen=True, slots=True)
class Bracket:
    """Two values that a quantile lies between, on a public grid.

    Each end by permute-and-flip with half of epsilon, aimed `off / b` ranks outside the q-quantile, q = a/b.
    """

    q: Fraction
    count: int
    rank_offset: int
    epsilon: Fraction
    neighbours: NeighborRelation
    rows_per_unit: int
    confidence: Fraction

    @staticmethod
    def of(
        q: object,
        count: object,
        epsilon: object,
        neighbours: str = "add-remove",
        rows_per_unit: object = 1,
        confidence: object = Fraction(95, 100),
    ) -> Bracket:
        """How far outside to aim follows from public facts: each end may miss with half of what confidence leaves."""
        share, points, exact_epsilon = (
            parse_order(q),
            as_int(count, "how many grid points"),
            as_positive(epsilon, "epsilon"),
        )
        rows, exact_confidence = (
            as_int(rows_per_unit, "rows per unit"),
            as_number_between(confidence, 0, 1, "confidence"),
        )
        if exact_confidence > MAX_CONFIDENCE:
            raise InvalidInput(
                f"the confidence of an interval is at most {format_exact(MAX_CONFIDENCE)}, got "
                f"{format_exact(exact_confidence)}"
            )
        selection = Selection.of(exact_epsilon / 2, rank_score_sensitivity(share, neighbours, rows))
        bound = selection.compute_score_bound((1 + exact_confidence) / 2, 1 / points)
        if bound > min(MAX_RANK_OFFSET, float(selection.step) * MAX_LEVELS):
            raise Unsupported("epsilon is too small for an interval in values; ask with a larger one, or without")
        return Bracket(
            share,
            points,
            math.floor(bound) + 1,
            exact_epsilon,
            parse_neighbor_relation(neighbours),
            rows,
            exact_confidence,
        )

    @property
    def mechanism(self) -> PermuteAndFlip:
        """One end's: scores are whole numbers, ranks times the denominator of q."""
        sensitivity = rank_score_sensitivity(self.q, self.neighbours, self.rows_per_unit)
        return PermuteAndFlip(Selection.of(self.epsilon / 2, sensitivity))

    def cost(self) -> Guarantee:
        """What both ends cost together."""
        return Guarantee.dp(self.epsilon, neighbours=self.neighbours)

    def rank_bound(self) -> float:
        """With the stated confidence each end is less than this many ranks from the quantile."""
        return 2 * self.rank_offset / self.q.denominator

    def scores(self, counts: NDArray[np.integer], end: BracketEnd) -> Integers:
        """Minus b times how many ranks each point is from the one aimed at; 0 at one point at least."""
        raw_counts = np.asarray(counts)
        if raw_counts.dtype.kind not in "iu" or raw_counts.shape != (self.count,):
            raise InvalidInput(f"counts are {self.count} whole numbers, one per grid point")
        point_counts: Integers = np.clip(raw_counts, 0, MAX_ROWS).astype(np.int64)
        aim = self.q.numerator * int(point_counts.sum()) + (-self.rank_offset if end == "low" else self.rank_offset)
        scaled_through = self.q.denominator * np.cumsum(point_counts)
        scaled_before = scaled_through - self.q.denominator * point_counts
        scaled_before[0], scaled_through[-1] = -OUTSIDE_RANK, OUTSIDE_RANK
        score: Integers = np.minimum(np.minimum(scaled_through - aim, aim - scaled_before), 0)
        return score

    def answer_counts(self, counts: NDArray[np.integer], entropy: Entropy | None = None) -> tuple[int, int]:
        """Two positions on the grid, in order, from the number of rows at each point."""
        mechanism, entropy_source = self.mechanism, get_entropy(entropy)
        low, high = (
            mechanism.sample_position(mechanism.compute_levels(self.scores(counts, end)), entropy_source)
            for end in ("low", "high")
        )
        return min(low, high), max(low, high)
