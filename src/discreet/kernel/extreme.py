"""The largest or smallest values by rank, on a public grid. Proof: extreme.md.

The very largest value is one person's, so no private answer can be near it whatever the table: where the bounds lie far
beyond all rows it may be a value that no row reaches. How many ranks it may be off is told, from public facts.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from discreet.errors import InvalidInput, Unsupported
from discreet.exact import positive, whole
from discreet.guarantee import Guarantee
from discreet.kernel.entropy import Entropy, source
from discreet.kernel.permute_and_flip import PermuteAndFlip
from discreet.kernel.scores import Integers, Selection

MOST_RANK = 2**40


@dataclass(frozen=True, slots=True)
class Extreme:
    """The grid point that about `rank` rows reach from the top, or from the bottom, by permute-and-flip."""

    count: int
    rank: int
    epsilon: Fraction
    rows_per_unit: int
    end: Literal["top", "bottom"]

    @staticmethod
    def of(place: object, count: object, epsilon: object, rows_per_unit: object = 1, end: str = "top") -> Extreme:
        """The place-th value from an end."""
        if end not in ("top", "bottom"):
            raise InvalidInput(f"the end is top or bottom, got {end!r}")
        loss, rows = positive(epsilon, "epsilon"), whole(rows_per_unit, "rows per unit")
        points = whole(count, "how many grid points")
        if Selection.of(loss, rows).bound(0.95, 1 / points) > MOST_RANK:
            raise Unsupported("epsilon is too small for a largest or smallest value; ask with a larger one")
        side: Literal["top", "bottom"] = "top" if end == "top" else "bottom"
        return Extreme(points, whole(place, "the place"), loss, rows, side)

    @property
    def choice(self) -> PermuteAndFlip:
        """Scores are whole numbers of rows, and a unit moves each by at most its rows."""
        return PermuteAndFlip(Selection.of(self.epsilon, self.rows_per_unit))

    def cost(self, neighbours: str = "add-remove") -> Guarantee:
        """What one answer costs, under either relation."""
        return Guarantee.dp(self.epsilon, neighbours=neighbours)

    def rank_bound(self, confidence: float) -> float:
        """With this confidence the value's rank is off the one aimed at by less than this many rows."""
        return self.choice.score_bound(confidence, self.count)

    def scores(self, counts: NDArray[np.integer]) -> Integers:
        """Minus the number of ranks by which beyond < rank <= beyond + at fails; above 0, by how many it holds."""
        own = np.asarray(counts)
        if own.dtype.kind not in "iu" or own.shape != (self.count,):
            raise InvalidInput(f"counts are {self.count} whole numbers, one per grid point")
        at: Integers = np.clip(own.astype(np.int64), 0, MOST_RANK)
        reached = np.cumsum(at[::-1])[::-1] if self.end == "top" else np.cumsum(at)
        score: Integers = np.minimum(reached - self.rank, self.rank - 1 - (reached - at))
        return score

    def answer_counts(self, counts: NDArray[np.integer], entropy: Entropy | None = None) -> int:
        """A position on the grid, from the number of rows at each point."""
        return self.choice.draw_position(self.choice.levels(self.scores(counts)), source(entropy))
