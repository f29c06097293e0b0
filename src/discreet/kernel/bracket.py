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
from discreet.exact import between, positive, shown, whole
from discreet.guarantee import Guarantee, Neighbours, relation
from discreet.kernel.entropy import Entropy, source
from discreet.kernel.permute_and_flip import PermuteAndFlip
from discreet.kernel.quantile import MOST_ROWS, order
from discreet.kernel.scores import MOST_LEVELS, Integers, Selection
from discreet.kernel.sensitivity import rank_score_sensitivity

SUREST = Fraction(999_999, 10**6)
FARTHEST = 2**60
FAR = 2**62
"""The one-sided ends of the grid have every rank beyond them: farther than any target."""
End = Literal["low", "high"]


@dataclass(frozen=True, slots=True)
class Bracket:
    """Two values that a quantile lies between, on a public grid.

    Each end by permute-and-flip with half of epsilon, aimed `off / b` ranks outside the q-quantile, q = a/b.
    """

    q: Fraction
    count: int
    off: int
    epsilon: Fraction
    neighbours: Neighbours
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
        share, points, loss = order(q), whole(count, "how many grid points"), positive(epsilon, "epsilon")
        rows, sure = whole(rows_per_unit, "rows per unit"), between(confidence, 0, 1, "confidence")
        if sure > SUREST:
            raise InvalidInput(f"the confidence of an interval is at most {shown(SUREST)}, got {shown(sure)}")
        selection = Selection.of(loss / 2, rank_score_sensitivity(share, neighbours, rows))
        bound = selection.bound((1 + sure) / 2, 1 / points)
        if bound > min(FARTHEST, float(selection.step) * MOST_LEVELS):
            raise Unsupported("epsilon is too small for an interval in values; ask with a larger one, or without")
        return Bracket(share, points, math.floor(bound) + 1, loss, relation(neighbours), rows, sure)

    @property
    def choice(self) -> PermuteAndFlip:
        """One end's: scores are whole numbers, ranks times the denominator of q."""
        moved = rank_score_sensitivity(self.q, self.neighbours, self.rows_per_unit)
        return PermuteAndFlip(Selection.of(self.epsilon / 2, moved))

    def cost(self) -> Guarantee:
        """What both ends cost together."""
        return Guarantee.dp(self.epsilon, neighbours=self.neighbours)

    def rank_bound(self) -> float:
        """With the stated confidence each end is less than this many ranks from the quantile."""
        return 2 * self.off / self.q.denominator

    def scores(self, counts: NDArray[np.integer], end: End) -> Integers:
        """Minus b times how many ranks each point is from the one aimed at; 0 at one point at least."""
        own = np.asarray(counts)
        if own.dtype.kind not in "iu" or own.shape != (self.count,):
            raise InvalidInput(f"counts are {self.count} whole numbers, one per grid point")
        at: Integers = np.clip(own, 0, MOST_ROWS).astype(np.int64)
        aim = self.q.numerator * int(at.sum()) + (-self.off if end == "low" else self.off)
        upto = self.q.denominator * np.cumsum(at)
        below = upto - self.q.denominator * at
        below[0], upto[-1] = -FAR, FAR
        score: Integers = np.minimum(np.minimum(upto - aim, aim - below), 0)
        return score

    def answer_counts(self, counts: NDArray[np.integer], entropy: Entropy | None = None) -> tuple[int, int]:
        """Two positions on the grid, in order, from the number of rows at each point."""
        choice, coins = self.choice, source(entropy)
        low, high = (choice.draw_position(choice.levels(self.scores(counts, end)), coins) for end in ("low", "high"))
        return min(low, high), max(low, high)
