"""A column of names as the best name of each fixed block of its ranks, in a public order. Proof: columns.md."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from discreet.errors import InvalidInput, Unsupported
from discreet.kernel.distribution import Distribution, PowerFactors
from discreet.kernel.entropy import Entropy
from discreet.kernel.scores import Selection
from discreet.microdata.distances import compute_semantic_distances
from discreet.microdata.private.columns import compute_block_edges
from discreet.microdata.private.grid import ColumnGrid, Counts
from discreet.microdata.private.loss import PrivacyBudget
from discreet.prior import Prior
from discreet.schema import Column

DISTANCE_UNITS = 1024
"""Distances are whole numbers of one over this, so that scores are whole and no floor is to be accounted for."""
MAX_NAMES = 1024
"""Distances between all pairs are held, and every name of every block is scored."""


@dataclass(frozen=True, slots=True, eq=False)
class NameOrder:
    """The cells of a column in a public order, and the whole distance of each from each, by place in that order.

    Where the name at one place gives way to that at the next, no score moves by more than a step; `length` is the sum
    of all steps. Where any name gives way to any other, no score moves by more than the `diameter`.
    """

    order: NDArray[np.int64]
    distances: NDArray[np.int64]
    length: int
    diameter: int

    @staticmethod
    def of(order: NDArray[np.int64], distances: NDArray[np.int64]) -> NameOrder:
        """From symmetric distances of at least 0, with 0 from each name to itself; they need not be a metric."""
        steps = np.abs(np.diff(distances, axis=0)).max(axis=1)
        return NameOrder(order, distances, int(steps.sum()), int(distances.max()))


@lru_cache(maxsize=64)
def order_names(column: Column) -> NameOrder:
    """Depth first in the taxonomy, siblings by name, missing values last; without a taxonomy as they are listed."""
    if not column.categories or len(column.categories) > MAX_NAMES:
        raise Unsupported(f"blocks of names are formed of columns of at most {MAX_NAMES:,} categories")
    order = np.array(order_depth_first(column), dtype=np.int64)
    ordered_names = [column.categories[place] for place in order]
    distances = np.rint(
        DISTANCE_UNITS * compute_semantic_distances(column.taxonomy, ordered_names, ordered_names)
    ).astype(np.int64)
    if not column.is_nullable:
        return NameOrder.of(order, distances)
    wider_distances = np.full((len(order) + 1, len(order) + 1), DISTANCE_UNITS, dtype=np.int64)
    wider_distances[:-1, :-1] = distances
    wider_distances[-1, -1] = 0
    return NameOrder.of(np.append(order, len(order)), wider_distances)


def order_depth_first(column: Column) -> list[int]:
    """The places of the categories, near concepts side by side and siblings by name; without a taxonomy as listed."""
    places, taxonomy = list(range(len(column.categories))), column.taxonomy
    if taxonomy is None:
        return places
    depths = {concept: len(ups) for concept, ups in taxonomy.ancestors.items()}
    paths = [
        sorted((depths[ancestor], ancestor) for ancestor in taxonomy.get_ancestors(category))
        for category in column.categories
    ]
    return sorted(places, key=paths.__getitem__)


@dataclass(frozen=True, slots=True, eq=False)
class NameBlocks:
    """Blocks of k ranks from the low end of the order, each told as one name by the exponential mechanism."""

    grid: ColumnGrid
    rows: int
    k: int
    budget: PrivacyBudget
    name_order: NameOrder

    def __post_init__(self) -> None:
        if (
            self.grid.width != 1
            or len(self.name_order.order) != self.grid.all_cell_count
            or self.grid.all_cell_count < 2
        ):
            raise InvalidInput("blocks of names are of a column whose cells are its names, of which there are several")
        if not 1 <= self.k <= self.rows:
            raise InvalidInput(f"a block of names has 1 to {self.rows} rows, as many as there are; choose such a k")

    @property
    def name(self) -> str:
        return f"a name for rank blocks of {self.k:,}"

    @property
    def edges(self) -> NDArray[np.int64]:
        """The first rank of every block, and the end of the last."""
        return compute_block_edges(self.rows, self.k)

    @property
    def score_change(self) -> int:
        """How far all blocks' scores move together, each by that of its scores that moves most."""
        return min(self.name_order.length, (len(self.edges) - 1) * self.name_order.diameter)

    @property
    def selection(self) -> Selection:
        """Whole scores; over all blocks they move apart by at most twice what they move."""
        return Selection(self.budget.compute_choice_epsilon(), Fraction(1), 2 * self.score_change, whole_scores=True)

    @property
    def error(self) -> float:
        """A bound on the mean distance to expect, in diameters: within blocks, and that of the choice."""
        blocks, widest = len(self.edges) - 1, self.rows - self.k * (self.rows // self.k - 1)
        within_block_error = min(widest * self.name_order.length / (2 * self.rows), self.name_order.diameter)
        choice_error = (
            blocks
            * 2
            * self.score_change
            * math.log(self.grid.all_cell_count)
            / float(self.budget.compute_choice_epsilon())
            / self.rows
        )
        return min(1.0, (within_block_error + choice_error) / self.name_order.diameter)

    def compute_scores(self, counts: Counts) -> NDArray[np.int64]:
        """For every block, and every place in the order, less the sum of its distances to the block's. Secret."""
        cumulative_counts = np.append(0, np.cumsum(np.asarray(counts, dtype=np.int64)[self.name_order.order]))
        cumulative_counts[-1] = max(
            int(cumulative_counts[-1]), self.rows
        )  # the last name stands for rows that are not there
        clipped_counts = np.minimum(np.maximum(cumulative_counts[None, :], self.edges[:-1, None]), self.edges[1:, None])
        negative_distances: NDArray[np.int64] = -np.diff(clipped_counts, axis=1) @ self.name_order.distances
        return negative_distances

    def build_distribution(self, scores: NDArray[np.int64]) -> Distribution:
        """The exact law of one block's name, by its place in the order. It never leaves: a draw does."""
        uniform_prior = Prior.uniform(0, len(scores) - 1)
        levels, blocks = np.unique(self.selection.compute_levels(scores, 1 / len(scores)), return_inverse=True)
        return Distribution(uniform_prior, blocks, PowerFactors(self.selection.ratio, levels.tolist()))

    def measure(self, counts: Counts, entropy: Entropy) -> NDArray[np.int64]:
        positions = [self.build_distribution(scores).sample_position(entropy) for scores in self.compute_scores(counts)]
        return np.array(positions, dtype=np.int64)

    def estimate_counts(self, outputs: NDArray[np.int64]) -> Counts:
        counts = np.zeros(self.grid.all_cell_count, dtype=np.int64)
        np.add.at(counts, self.name_order.order[outputs], np.diff(self.edges))
        return counts
