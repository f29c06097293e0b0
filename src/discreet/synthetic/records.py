"""DP records: blocks of rows along a Hilbert curve, their noisy centroids repeated. Proof: records.md.

A plan follows from public facts alone. It measures noisy whole numbers from the exact counts of cells; the records made
of these need no rows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import NDArray

from discreet.errors import InvalidInput
from discreet.mechanisms.box_staircase import BoxStaircase
from discreet.mechanisms.entropy import Entropy
from discreet.mechanisms.exponential_mechanism import Selection
from discreet.mechanisms.noise import Noise
from discreet.query.scan import BinKey, RankRuns
from discreet.schema import Column
from discreet.sdc.methods.record_distance import compute_semantic_distances, order_depth_first
from discreet.synthetic.column_methods import build_name_distribution
from discreet.synthetic.columns import ColumnGrid, Counts, PrivacyBudget
from discreet.synthetic.hilbert import (
    bound_chain,
    bound_joint_chain,
    bound_squared_chain,
    compute_curve_cells,
    compute_curve_places,
)
from discreet.untrusted import CheckedValue

MAX_NAMES = 256
"""A nominal column with more categories is refused: every pair of them is compared with every third."""
DISTANCE_UNITS = 100
"""Distances between names are whole numbers of such parts, so that scores are whole."""

Matrix = tuple[tuple[int, ...], ...]


@dataclass(frozen=True, slots=True)
class CurveAxis:
    """The cells of a column, spread evenly over the places 0 to 2^bits - 1; names by `name_ranks`, `distances` apart.

    Ordered columns lie in their own order and have neither. Names lie in the depth-first order of their taxonomy.
    """

    grid: ColumnGrid
    name_ranks: tuple[int, ...] = ()
    distances: Matrix = ()

    @staticmethod
    def of(column: Column, bits: int) -> CurveAxis:
        """The axis of a column in at most 2^bits cells; every name has its own."""
        if column.private_keys:
            raise InvalidInput(f"the values of {column.name} are not public, so they have no place on a curve")
        grid = ColumnGrid.of(column, 2**bits)
        if grid.is_ordered:
            return CurveAxis(grid)
        if column.size > MAX_NAMES:
            raise InvalidInput(
                f"{column.name} has {column.size} categories, private records take at most {MAX_NAMES}; "
                "generalise it first"
            )
        order = order_depth_first(column.taxonomy, column.categories)
        name_ranks = tuple(sorted(range(column.size), key=order.__getitem__))
        # Formula 6.6 in whole parts of its unit; nothing rests on these being a metric (records.md).
        distances = compute_semantic_distances(column.taxonomy, column.categories, column.categories)
        matrix = np.rint(DISTANCE_UNITS * distances).astype(np.int64)
        return CurveAxis(ColumnGrid.of(column, MAX_NAMES), name_ranks, tuple(map(tuple, matrix.tolist())))

    @property
    def is_nominal(self) -> bool:
        """Whether the values are names, which have no sum."""
        return bool(self.distances)

    @property
    def middle(self) -> int:
        """The cell that a missing value counts as: the middle one, or the name that is least far from all others."""
        if self.is_nominal:
            return int(np.array(self.distances).sum(axis=0).argmin())
        return (self.grid.cell_count - 1) // 2

    def compute_places(self, bits: int) -> NDArray[np.int64]:
        """Where each cell lies on the side of the cube: in order, the first at 0 and the last at the far end."""
        ranks = np.array(self.name_ranks or range(self.grid.cell_count), dtype=np.int64)
        return np.asarray(ranks * (2**bits - 1) // max(self.grid.cell_count - 1, 1))

    def compute_max_change(self) -> int:
        """The most by which the scores of two names can move apart where one record gives way to another."""
        return max(max(row) for row in _compute_score_ranges(self.distances))

    def compute_slope(self, bits: int) -> Fraction | None:
        """That change for each place between the two records, at most; None where two names have one place."""
        places, moves = self.compute_places(bits), np.array(_compute_score_ranges(self.distances))
        first, second = np.nonzero(moves)
        gaps = np.abs(places[first] - places[second])
        if (gaps == 0).any():
            return None
        pairs = zip(moves[first, second].tolist(), gaps.tolist(), strict=True)
        return max((Fraction(move, gap) for move, gap in set(pairs)), default=Fraction(0))


@lru_cache(maxsize=64)
def _compute_score_ranges(distances: Matrix) -> Sequence[Sequence[int]]:
    """For every two names, by how much the scores of any two candidates move apart where the one replaces the other."""
    matrix = np.array(distances, dtype=np.int64)
    moves = [matrix - matrix[:, [name]] for name in range(len(matrix))]  # candidates in rows, the new name in columns
    return tuple(tuple((move.max(axis=0) - move.min(axis=0)).tolist()) for move in moves)


MAX_NOISY_SUM = 2**62

IntegerArray = NDArray[np.int64]
RecordsPossible = Callable[[IntegerArray], NDArray[np.bool_]]
"""Which rows of codes are possible, one column for each of the plan's."""


@dataclass(frozen=True)
class RecordsPlan(CheckedValue):
    """Plan of synthetic records: blocks of k of `rows` records in the order of a space-filling curve; sums and names
    noisy.

    The last block has k to 2k - 1 records. It costs its budget under replace-one, with one row per unit.

    Args:
        axes: The columns as axes of the curve.
        bits: The curve's places along an axis are 0 to 2^bits - 1.
        rows: The public number of rows.
        k: The number of records in a block.
        budget: The privacy budget of the file.
        shares: The shares of the budget: for the sums of all ordered columns together, then for each column of names.
        uses_box_staircase: Whether noise is a box staircase for each block rather than independent numbers.
        errors: The expected errors of the columns' distributions: W1 in widths of the domain, for names the total
            variation.

    Raises:
        InvalidInput: k is not between 1 and the rows, or the shares do not fit the columns.

    Example:
        >>> from fractions import Fraction
        >>> from discreet.synthetic import ColumnGrid, PrivacyBudget, RecordsPlan
        >>> from discreet.synthetic.records import CurveAxis
        >>> grid = ColumnGrid("stay", lower=0, upper=30, width=1, cell_count=31, has_missing=False, is_ordered=True)
        >>> plan = RecordsPlan((CurveAxis(grid),), 5, rows=1000, k=300, budget=PrivacyBudget(1), shares=(Fraction(1),))
        >>> plan.compute_sizes().tolist()
        [300, 300, 400]
    """

    axes: tuple[CurveAxis, ...]
    bits: int
    rows: int
    k: int
    budget: PrivacyBudget
    shares: tuple[Fraction, ...]
    uses_box_staircase: bool = False
    errors: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        if not 1 <= self.k <= self.rows:
            raise InvalidInput(f"k must be between 1 and the {self.rows} rows, got {self.k}")
        if len(self.shares) != 1 + len(self.axes) - len(self.ordered_axes):
            raise InvalidInput("there is one share for all ordered columns and one for each column of names")
        needed = self.shares if self.ordered_axes else self.shares[1:]
        if not self.axes or any(share <= 0 for share in needed) or min(self.shares) < 0 or sum(self.shares) > 1:
            raise InvalidInput("shares are above 0 where they are needed, and add up to at most 1")
        if self.uses_box_staircase and not (self.budget.is_pure and self.ordered_axes):
            raise InvalidInput("a box staircase is for ordered columns under a pure loss")

    @property
    def name(self) -> str:
        """The method in plain words."""
        noise_name = "box staircase" if self.uses_box_staircase else "Laplace" if self.budget.is_pure else "Gaussian"
        noise = f", {noise_name} noise" if self.ordered_axes else ""
        names = ", names by the exponential mechanism" if len(self.ordered_axes) < len(self.axes) else ""
        return f"blocks of {self.k:,} along a Hilbert curve of {2**self.bits:,} cells per side{noise}{names}"

    @property
    def error(self) -> float:
        """The mean of the columns' expected errors."""
        return sum(self.errors) / len(self.errors)

    @property
    def keys(self) -> tuple[BinKey, ...]:
        """The keys of the query to the source, one for each column: the joint cells."""
        return tuple(BinKey(axis.grid.column, axis.grid.lower, axis.grid.width) for axis in self.axes)

    @property
    def ordered_axes(self) -> tuple[int, ...]:
        """The ordered columns, by their place."""
        return tuple(place for place, axis in enumerate(self.axes) if not axis.is_nominal)

    @property
    def block_count(self) -> int:
        """The number of blocks."""
        return RankRuns.low_end(self.rows, self.k).low + 1

    def compute_sizes(self) -> IntegerArray:
        """How many records each block has."""
        runs = RankRuns.low_end(self.rows, self.k)
        return np.array([runs.k] * runs.low + [runs.rows - runs.low * runs.k], dtype=np.int64)

    @cached_property
    def noise(self) -> Noise | BoxStaircase:
        """The noise of the sums of ordered columns, in places of the curve's axes."""
        sums_budget, side_length = self.budget.take_share(self.shares[0]), 2**self.bits - 1
        facts = len(self.axes), self.bits, self.block_count
        if self.uses_box_staircase:
            return BoxStaircase(sums_budget.epsilon / self.block_count, [side_length] * len(self.ordered_axes))
        return sums_budget.build_noise(
            bound_joint_chain(*facts, self.ordered_axes),
            0 if sums_budget.is_pure else bound_squared_chain(*facts, self.ordered_axes),
        )

    @cached_property
    def selections(self) -> dict[int, Selection]:
        """How the names of each column of names are chosen, the same way in every block."""
        nominal_axes = [place for place in range(len(self.axes)) if place not in self.ordered_axes]
        return {
            place: self._build_selection(place, self.budget.take_share(share))
            for place, share in zip(nominal_axes, self.shares[1:], strict=True)
        }

    def _build_selection(self, place: int, budget: PrivacyBudget) -> Selection:
        """Weights e^(-h distance) with h times the chain bound at most the budget."""
        max_change, bound = max(self.axes[place].compute_max_change(), 1), max(self.bound_name_scores(place), 1)
        share = budget if budget.is_pure else budget.take_share(Fraction(bound, max_change))
        epsilon = share.compute_choice_epsilon()
        return Selection(epsilon, Fraction(1), bound, True)

    def bound_name_scores(self, place: int) -> int:
        """The most by which the scores of two names move apart, added up over all blocks."""
        axis = self.axes[place]
        slope, simple_bound = axis.compute_slope(self.bits), self.block_count * axis.compute_max_change()
        if slope is None:
            return simple_bound
        return min(simple_bound, int(slope * bound_chain(len(self.axes), self.bits, self.block_count, place)))

    def check_noise(self) -> None:
        """Refuse noise that is too wide to be sampled; to be called before anything is charged."""
        if self.ordered_axes:
            _ = self.noise
        _ = self.selections

    def measure(self, cells: IntegerArray, counts: Counts, entropy: Entropy) -> IntegerArray:
        """From distinct cells, a row each, and how many records each has: noisy sums, and chosen names, of each block.

        Where the counts add up to more than `rows` the first ones of the curve are taken, where to less the rest are at
        its end.
        """
        sums, scores = self.compute_totals(cells, counts)
        outputs = np.zeros((self.block_count, len(self.axes)), dtype=np.int64)
        if self.ordered_axes:
            outputs[:, list(self.ordered_axes)] = self._add_noise(sums, entropy)
        for axis, selection in self.selections.items():
            outputs[:, axis] = [
                build_name_distribution(selection, row).sample_position(entropy) for row in scores[axis]
            ]
        return outputs

    def _add_noise(self, sums: IntegerArray, entropy: Entropy) -> IntegerArray:
        size = len(sums) if self.uses_box_staircase else sums.size
        noise = self.noise.sample_units(size, entropy).reshape(sums.shape)
        noisy_sums: IntegerArray = np.clip(sums + noise, -MAX_NOISY_SUM, MAX_NOISY_SUM).astype(np.int64)
        return noisy_sums

    def compute_totals(self, cells: IntegerArray, counts: Counts) -> tuple[IntegerArray, dict[int, IntegerArray]]:
        """The exact sums of places of each block and ordered column, and the scores of all names. Secret."""
        places, run_cells, blocks, run_counts = self._split_runs(cells, counts)
        sums = np.zeros((self.block_count, len(self.ordered_axes)), dtype=np.int64)
        for column, axis in enumerate(self.ordered_axes):
            np.add.at(sums[:, column], blocks, run_counts * places[:, axis])
        scores = {}
        for axis in self.selections:
            distances = np.array(self.axes[axis].distances, dtype=np.int64)
            names = np.zeros((self.block_count, len(distances)), dtype=np.int64)
            np.add.at(names, (blocks, run_cells[:, axis]), run_counts)
            scores[axis] = -(names @ distances)
        return sums, scores

    def _split_runs(
        self, cells: IntegerArray, counts: Counts
    ) -> tuple[IntegerArray, IntegerArray, IntegerArray, IntegerArray]:
        """Runs of alike records in one block: their places on the axes, cells, block, and how many there are."""
        last = np.array([axis.grid.cell_count - 1 for axis in self.axes], dtype=np.int64)
        axis_cells = np.clip(cells.reshape(-1, len(self.axes)), 0, last)
        places = np.stack(
            [axis.compute_places(self.bits)[axis_cells[:, a]] for a, axis in enumerate(self.axes)], axis=1
        )
        crowded = [axis_cells[:, a] for a, axis in enumerate(self.axes) if axis.grid.cell_count > 2**self.bits]
        order = np.lexsort((*crowded, compute_curve_places(places, self.bits)))
        end = compute_curve_cells(np.array([2 ** (self.bits * len(self.axes)) - 1]), len(self.axes), self.bits)
        end_cells = [np.abs(axis.compute_places(self.bits) - end[0, a]).argmin() for a, axis in enumerate(self.axes)]
        places, axis_cells = np.vstack((places[order], end)), np.vstack((axis_cells[order], end_cells))
        ends = np.minimum(np.cumsum(np.append(np.maximum(counts, 0)[order], self.rows)), self.rows)
        bounds = np.cumsum(self.compute_sizes())
        edges = np.union1d(ends[ends > 0], bounds)
        first = np.append(0, edges[:-1])
        rows = np.searchsorted(ends, first, side="right")
        return places[rows], axis_cells[rows], np.searchsorted(bounds, first, side="right"), edges - first

    def estimate_records(
        self, outputs: IntegerArray, find_possible: RecordsPossible | None = None, fallback: IntegerArray | None = None
    ) -> dict[str, IntegerArray]:
        """The codes of all records, centroids in the order of the blocks and each repeated.

        None is impossible: `fallback` has the codes of a record that can be, for where no centroid can.
        """
        centroids = np.stack([self._decode_outputs(a, outputs[:, a]) for a in range(len(self.axes))], axis=1)
        if find_possible is not None and fallback is not None:
            centroids = self._replace_impossible(centroids, find_possible, fallback)
        rows = np.repeat(centroids, self.compute_sizes(), axis=0)
        return {axis.grid.column: rows[:, a] for a, axis in enumerate(self.axes)}

    def _decode_outputs(self, axis: int, outputs: IntegerArray) -> IntegerArray:
        """The codes nearest to the noisy means of the places, which are those of the middles of cells; or of names."""
        grid = self.axes[axis].grid
        if self.axes[axis].is_nominal:
            return grid.lower + outputs
        side_length = 2**self.bits - 1
        means = np.clip(outputs / self.compute_sizes() / side_length, 0, 1) * (grid.cell_count - 1)
        codes: IntegerArray = np.floor(grid.lower + (means + 0.5) * grid.width).astype(np.int64)
        return np.minimum(codes, grid.upper)

    def _replace_impossible(
        self, centroids: IntegerArray, find_possible: RecordsPossible, fallback: IntegerArray
    ) -> IntegerArray:
        """Impossible ones replaced by the nearest that are possible, by the sum of distances in widths."""
        is_possible = find_possible(centroids)
        pool = centroids[is_possible] if is_possible.any() else fallback.reshape(1, -1)
        repaired = centroids.copy()
        for row in np.flatnonzero(~is_possible):
            distances = np.zeros(len(pool))
            for a, axis in enumerate(self.axes):
                if axis.is_nominal:
                    name, names = centroids[row, a] - axis.grid.lower, pool[:, a] - axis.grid.lower
                    distances += np.array(axis.distances)[name, names] / max(axis.compute_max_change(), 1)
                else:
                    distances += np.abs(pool[:, a] - centroids[row, a]) / (axis.grid.upper - axis.grid.lower + 1)
            repaired[row] = pool[distances.argmin()]
        return repaired
