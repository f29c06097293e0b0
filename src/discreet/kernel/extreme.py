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
from discreet.exact import as_int, as_positive
from discreet.guarantee import Guarantee
from discreet.kernel.entropy import Entropy, get_entropy
from discreet.kernel.permute_and_flip import PermuteAndFlip
from discreet.kernel.scores import Integers, Selection

MAX_RANK = 2**40


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
        exact_epsilon, rows = as_positive(epsilon, "epsilon"), as_int(rows_per_unit, "rows per unit")
        points = as_int(count, "how many grid points")
        if Selection.of(exact_epsilon, rows).compute_score_bound(0.95, 1 / points) > MAX_RANK:
            raise Unsupported("epsilon is too small for a largest or smallest value; ask with a larger one")
        side: Literal["top", "bottom"] = "top" if end == "top" else "bottom"
        return Extreme(points, as_int(place, "the place"), exact_epsilon, rows, side)

    @property
    def mechanism(self) -> PermuteAndFlip:
        """Scores are whole numbers of rows, and a unit moves each by at most its rows."""
        return PermuteAndFlip(Selection.of(self.epsilon, self.rows_per_unit))

    def cost(self, neighbours: str = "add-remove") -> Guarantee:
        """What one answer costs, under either relation."""
        return Guarantee.dp(self.epsilon, neighbours=neighbours)

    def rank_bound(self, confidence: float) -> float:
        """With this confidence the value's rank is off the one aimed at by less than this many rows."""
        return self.mechanism.score_bound(confidence, self.count)

    def scores(self, counts: NDArray[np.integer]) -> Integers:
        """Minus the number of ranks by which beyond < rank <= beyond + at fails; above 0, by how many it holds."""
        raw_counts = np.asarray(counts)
        if raw_counts.dtype.kind not in "iu" or raw_counts.shape != (self.count,):
            raise InvalidInput(f"counts are {self.count} whole numbers, one per grid point")
        point_counts: Integers = np.clip(raw_counts.astype(np.int64), 0, MAX_RANK)
        cumulative_counts = np.cumsum(point_counts[::-1])[::-1] if self.end == "top" else np.cumsum(point_counts)
        score: Integers = np.minimum(cumulative_counts - self.rank, self.rank - 1 - (cumulative_counts - point_counts))
        return score

    def answer_counts(self, counts: NDArray[np.integer], entropy: Entropy | None = None) -> int:
        """A position on the grid, from the number of rows at each point."""
        return self.mechanism.sample_position(self.mechanism.compute_levels(self.scores(counts)), get_entropy(entropy))
