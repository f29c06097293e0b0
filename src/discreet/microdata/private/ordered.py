"""A column of names as the best name of each fixed block of its ranks, in a public order. Proof: columns.md."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from discreet.errors import InvalidInput, Unsupported
from discreet.kernel.distribution import Distribution, Powers
from discreet.kernel.entropy import Entropy
from discreet.kernel.scores import Selection
from discreet.microdata.distances import differences
from discreet.microdata.private.columns import block_edges
from discreet.microdata.private.grid import Counts, Grid
from discreet.microdata.private.loss import Loss
from discreet.prior import Prior
from discreet.schema import Column

FINENESS = 1024
"""Distances are whole numbers of one over this, so that scores are whole and no floor is to be accounted for."""
MOST_NAMES = 1024
"""Distances between all pairs are held, and every name of every block is scored."""


@dataclass(frozen=True, slots=True, eq=False)
class Names:
    """The cells of a column in a public order, and the whole distance of each from each, by place in that order.

    Where the name at one place gives way to that at the next, no score moves by more than a step; `length` is the sum
    of all steps. Where any name gives way to any other, no score moves by more than the `diameter`.
    """

    order: NDArray[np.int64]
    distances: NDArray[np.int64]
    length: int
    diameter: int

    @staticmethod
    def of(order: NDArray[np.int64], distances: NDArray[np.int64]) -> Names:
        """From symmetric distances of at least 0, with 0 from each name to itself; they need not be a metric."""
        steps = np.abs(np.diff(distances, axis=0)).max(axis=1)
        return Names(order, distances, int(steps.sum()), int(distances.max()))


@lru_cache(maxsize=64)
def names(column: Column) -> Names:
    """Depth first in the taxonomy, siblings by name, missing values last; without a taxonomy as they are listed."""
    if not column.categories or len(column.categories) > MOST_NAMES:
        raise Unsupported(f"blocks of names are formed of columns of at most {MOST_NAMES:,} categories")
    order = np.array(depth_first(column), dtype=np.int64)
    listed = [column.categories[place] for place in order]
    apart = np.rint(FINENESS * differences(column.taxonomy, listed, listed)).astype(np.int64)
    if not column.nullable:
        return Names.of(order, apart)
    wider = np.full((len(order) + 1, len(order) + 1), FINENESS, dtype=np.int64)
    wider[:-1, :-1] = apart
    wider[-1, -1] = 0
    return Names.of(np.append(order, len(order)), wider)


def depth_first(column: Column) -> list[int]:
    """The places of the categories, near concepts side by side and siblings by name; without a taxonomy as listed."""
    places, taxonomy = list(range(len(column.categories))), column.taxonomy
    if taxonomy is None:
        return places
    above = {concept: len(ups) for concept, ups in taxonomy.ancestors.items()}
    paths = [sorted((above[up], up) for up in taxonomy.of_concept(each)) for each in column.categories]
    return sorted(places, key=paths.__getitem__)


@dataclass(frozen=True, slots=True, eq=False)
class OrderedBlocks:
    """Blocks of k ranks from the low end of the order, each told as one name by the exponential mechanism."""

    grid: Grid
    rows: int
    k: int
    loss: Loss
    names: Names

    def __post_init__(self) -> None:
        if self.grid.width != 1 or len(self.names.order) != self.grid.all_cells or self.grid.all_cells < 2:
            raise InvalidInput("blocks of names are of a column whose cells are its names, of which there are several")
        if not 1 <= self.k <= self.rows:
            raise InvalidInput(f"a block of names has 1 to {self.rows} rows, as many as there are; choose such a k")

    @property
    def name(self) -> str:
        return f"a name for rank blocks of {self.k:,}"

    @property
    def edges(self) -> NDArray[np.int64]:
        """The first rank of every block, and the end of the last."""
        return block_edges(self.rows, self.k)

    @property
    def moved(self) -> int:
        """How far all blocks' scores move together, each by that of its scores that moves most."""
        return min(self.names.length, (len(self.edges) - 1) * self.names.diameter)

    @property
    def selection(self) -> Selection:
        """Whole scores; over all blocks they move apart by at most twice what they move."""
        return Selection(self.loss.choice(), Fraction(1), 2 * self.moved, whole_scores=True)

    @property
    def error(self) -> float:
        """A bound on the mean distance to expect, in diameters: within blocks, and that of the choice."""
        blocks, widest = len(self.edges) - 1, self.rows - self.k * (self.rows // self.k - 1)
        inside = min(widest * self.names.length / (2 * self.rows), self.names.diameter)
        choice = blocks * 2 * self.moved * math.log(self.grid.all_cells) / float(self.loss.choice()) / self.rows
        return min(1.0, (inside + choice) / self.names.diameter)

    def scores(self, counts: Counts) -> NDArray[np.int64]:
        """For every block, and every place in the order, less the sum of its distances to the block's. Secret."""
        upto = np.append(0, np.cumsum(np.asarray(counts, dtype=np.int64)[self.names.order]))
        upto[-1] = max(int(upto[-1]), self.rows)  # the last name stands for rows that are not there
        reached = np.minimum(np.maximum(upto[None, :], self.edges[:-1, None]), self.edges[1:, None])
        lost: NDArray[np.int64] = -np.diff(reached, axis=1) @ self.names.distances
        return lost

    def law(self, scores: NDArray[np.int64]) -> Distribution:
        """The exact law of one block's name, by its place in the order. It never leaves: a draw does."""
        even = Prior.uniform(0, len(scores) - 1)
        levels, own = np.unique(self.selection.levels(scores, 1 / len(scores)), return_inverse=True)
        return Distribution(even, own, Powers(self.selection.ratio, levels.tolist()))

    def draw(self, counts: Counts, entropy: Entropy) -> NDArray[np.int64]:
        drawn = [self.law(scores).draw_position(entropy) for scores in self.scores(counts)]
        return np.array(drawn, dtype=np.int64)

    def estimate(self, drawn: NDArray[np.int64]) -> Counts:
        counts = np.zeros(self.grid.all_cells, dtype=np.int64)
        np.add.at(counts, self.names.order[drawn], np.diff(self.edges))
        return counts
