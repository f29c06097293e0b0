"""Private records: blocks of rows along a Hilbert curve, their noisy centroids repeated. Proof: records.md.

A plan follows from public facts alone. A draw takes the exact counts of cells and returns noisy whole numbers; what is
made of these needs no rows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from discreet.errors import InvalidInput
from discreet.kernel.box_staircase import BoxStaircase
from discreet.kernel.distribution import Distribution, Powers
from discreet.kernel.entropy import Entropy
from discreet.kernel.noise import Noise
from discreet.kernel.scores import Selection
from discreet.microdata.private.axes import Axis
from discreet.microdata.private.chains import chain_bound, joint_bound, squared_bound
from discreet.microdata.private.grid import Counts
from discreet.microdata.private.hilbert import curve_cells, curve_places
from discreet.microdata.private.loss import Loss
from discreet.prior import Prior
from discreet.query.released import Runs
from discreet.query.totals import Bins

FARTHEST = 2**62

Whole = NDArray[np.int64]
Possible = Callable[[Whole], NDArray[np.bool_]]
"""Of rows of codes, one column for each of the plan's, which can be."""


@dataclass(frozen=True)
class RecordsPlan:
    """Blocks of k of `rows` records in the order of the curve, the last of k to 2k - 1; all sums and names noisy.

    `shares` are those of the loss: for the sums of all ordered columns together, then for each column of names in turn.
    `box` says that noise is a box staircase for each block rather than independent numbers. `errors` are how far
    the distribution of each column is expected to be off: W1 in widths of its domain, of names the total variation.
    """

    axes: tuple[Axis, ...]
    bits: int
    rows: int
    k: int
    loss: Loss
    shares: tuple[Fraction, ...]
    box: bool = False
    errors: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        """There is a share for what there is, and together they are all of the loss or less."""
        if not 1 <= self.k <= self.rows:
            raise InvalidInput(f"k must be between 1 and the {self.rows} rows, got {self.k}")
        if len(self.shares) != 1 + len(self.axes) - len(self.numbers):
            raise InvalidInput("there is one share for all ordered columns and one for each column of names")
        needed = self.shares if self.numbers else self.shares[1:]
        if not self.axes or any(share <= 0 for share in needed) or min(self.shares) < 0 or sum(self.shares) > 1:
            raise InvalidInput("shares are above 0 where they are needed, and add up to at most 1")
        if self.box and not (self.loss.pure and self.numbers):
            raise InvalidInput("a box staircase is for ordered columns under a pure loss")

    @property
    def name(self) -> str:
        """It in words."""
        law = "box staircase" if self.box else "Laplace" if self.loss.pure else "Gaussian"
        noise = f", {law} noise" if self.numbers else ""
        names = ", names by the exponential mechanism" if len(self.numbers) < len(self.axes) else ""
        return f"blocks of {self.k:,} along a Hilbert curve of {2**self.bits:,} cells per side{noise}{names}"

    @property
    def error(self) -> float:
        """The mean of what is expected of the columns."""
        return sum(self.errors) / len(self.errors)

    @property
    def keys(self) -> tuple[Bins, ...]:
        """What to ask the source for: the joint cells, one key for each column."""
        return tuple(Bins(axis.grid.column, axis.grid.lower, axis.grid.width) for axis in self.axes)

    @property
    def numbers(self) -> tuple[int, ...]:
        """The ordered columns, by their place."""
        return tuple(place for place, axis in enumerate(self.axes) if not axis.named)

    @property
    def blocks(self) -> int:
        """How many blocks there are."""
        return Runs.low_end(self.rows, self.k).low + 1

    def sizes(self) -> Whole:
        """How many records each block has."""
        runs = Runs.low_end(self.rows, self.k)
        return np.array([runs.k] * runs.low + [runs.rows - runs.low * runs.k], dtype=np.int64)

    @cached_property
    def noise(self) -> Noise | BoxStaircase:
        """Of the sums of ordered columns, in places of the curve's axes."""
        part, reach = self.loss.part(self.shares[0]), 2**self.bits - 1
        facts = len(self.axes), self.bits, self.blocks
        if self.box:
            return BoxStaircase(part.epsilon / self.blocks, [reach] * len(self.numbers))
        return part.noise(joint_bound(*facts, self.numbers), 0 if part.pure else squared_bound(*facts, self.numbers))

    @cached_property
    def selections(self) -> dict[int, Selection]:
        """How the names of each column of names are chosen, the same way in every block."""
        named = [place for place in range(len(self.axes)) if place not in self.numbers]
        return {
            place: self._selection(place, self.loss.part(share))
            for place, share in zip(named, self.shares[1:], strict=True)
        }

    def _selection(self, place: int, part: Loss) -> Selection:
        """Weights e^(-h distance) with h times the chain bound at most the loss."""
        most, bound = max(self.axes[place].most(), 1), max(self.names_bound(place), 1)
        epsilon = part.epsilon if part.pure else part.part(Fraction(bound, most)).choice()
        return Selection(epsilon, Fraction(1), bound, True)

    def names_bound(self, place: int) -> int:
        """The most by which the scores of two names move apart, added up over all blocks."""
        axis = self.axes[place]
        slope, plain = axis.slope(self.bits), self.blocks * axis.most()
        if slope is None:
            return plain
        return min(plain, int(slope * chain_bound(len(self.axes), self.bits, self.blocks, place)))

    def check_drawn(self) -> None:
        """Refused where its noise is too wide to be drawn; to be asked before anything is charged."""
        if self.numbers:
            _ = self.noise
        _ = self.selections

    def draw(self, cells: Whole, counts: Counts, entropy: Entropy) -> Whole:
        """From distinct cells, a row each, and how many records each has: noisy sums, and chosen names, of each block.

        Where the counts add up to more than `rows` the first ones of the curve are taken, where to less the rest are at
        its end.
        """
        sums, scores = self.totals(cells, counts)
        drawn = np.zeros((self.blocks, len(self.axes)), dtype=np.int64)
        drawn[:, list(self.numbers)] = self._noisy(sums, entropy)
        for axis, selection in self.selections.items():
            drawn[:, axis] = [names_law(selection, row).draw_position(entropy) for row in scores[axis]]
        return drawn

    def totals(self, cells: Whole, counts: Counts) -> tuple[Whole, dict[int, Whole]]:
        """The exact sums of places of each block and ordered column, and the scores of all names. They never leave."""
        places, held, blocks, counted = self._split(cells, counts)
        sums = np.zeros((self.blocks, len(self.numbers)), dtype=np.int64)
        for column, axis in enumerate(self.numbers):
            np.add.at(sums[:, column], blocks, counted * places[:, axis])
        scores = {}
        for axis in self.selections:
            apart = np.array(self.axes[axis].apart, dtype=np.int64)
            names = np.zeros((self.blocks, len(apart)), dtype=np.int64)
            np.add.at(names, (blocks, held[:, axis]), counted)
            scores[axis] = -(names @ apart)
        return sums, scores

    def _split(self, cells: Whole, counts: Counts) -> tuple[Whole, Whole, Whole, Whole]:
        """Runs of alike records in one block: their places on the axes, cells, block, and how many there are."""
        last = np.array([axis.grid.cells - 1 for axis in self.axes], dtype=np.int64)
        held = np.clip(cells.reshape(-1, len(self.axes)), 0, last)
        places = self._places(held)
        crowded = [held[:, a] for a, axis in enumerate(self.axes) if axis.grid.cells > 2**self.bits]
        order = np.lexsort((*crowded, curve_places(places, self.bits)))
        end = curve_cells(np.array([2 ** (self.bits * len(self.axes)) - 1]), len(self.axes), self.bits)
        places, held = np.vstack((places[order], end)), np.vstack((held[order], self._cells(end)))
        until = np.minimum(np.cumsum(np.append(np.maximum(counts, 0)[order], self.rows)), self.rows)
        bounds = np.cumsum(self.sizes())
        edges = np.union1d(until[until > 0], bounds)
        first = np.append(0, edges[:-1])
        rows = np.searchsorted(until, first, side="right")
        return places[rows], held[rows], np.searchsorted(bounds, first, side="right"), edges - first

    def _places(self, cells: Whole) -> Whole:
        return np.stack([axis.places(self.bits)[cells[:, a]] for a, axis in enumerate(self.axes)], axis=1)

    def _cells(self, places: Whole) -> Whole:
        """The cells nearest to places of the axes."""
        found = [
            np.abs(axis.places(self.bits)[:, None] - places[:, a]).argmin(axis=0) for a, axis in enumerate(self.axes)
        ]
        return np.stack(found, axis=1)

    def _noisy(self, sums: Whole, entropy: Entropy) -> Whole:
        if not self.numbers:
            return sums
        size = len(sums) if self.box else sums.size
        noise = self.noise.draw_units(size, entropy).reshape(sums.shape)
        noisy: Whole = np.clip(sums + noise, -FARTHEST, FARTHEST).astype(np.int64)
        return noisy

    def estimate(self, drawn: Whole, possible: Possible | None = None, spare: Whole | None = None) -> dict[str, Whole]:
        """The codes of all records, centroids in the order of the blocks and each repeated.

        None is impossible: `spare` has the codes of a record that can be, for where no centroid can.
        """
        centroids = np.stack([self._codes(a, drawn[:, a]) for a in range(len(self.axes))], axis=1)
        if possible is not None and spare is not None:
            centroids = self._made_possible(centroids, possible, spare)
        rows = np.repeat(centroids, self.sizes(), axis=0)
        return {axis.grid.column: rows[:, a] for a, axis in enumerate(self.axes)}

    def _codes(self, axis: int, drawn: Whole) -> Whole:
        """The codes nearest to the noisy means of the places, which are those of the middles of cells; or of names."""
        grid = self.axes[axis].grid
        if self.axes[axis].named:
            return grid.lower + drawn
        reach = 2**self.bits - 1
        means = np.clip(drawn / self.sizes() / reach, 0, 1) * (grid.cells - 1)
        codes: Whole = np.floor(grid.lower + (means + 0.5) * grid.width).astype(np.int64)
        return np.minimum(codes, grid.upper)

    def _made_possible(self, centroids: Whole, possible: Possible, spare: Whole) -> Whole:
        """Impossible ones replaced by the nearest that are possible, by the sum of distances in widths."""
        fine = possible(centroids)
        pool = centroids[fine] if fine.any() else spare.reshape(1, -1)
        mended = centroids.copy()
        for row in np.flatnonzero(~fine):
            mended[row] = pool[self._far(pool, centroids[row]).argmin()]
        return mended

    def _far(self, pool: Whole, one: Whole) -> NDArray[np.float64]:
        far = np.zeros(len(pool))
        for a, axis in enumerate(self.axes):
            if axis.named:
                far += np.array(axis.apart)[one[a] - axis.grid.lower, pool[:, a] - axis.grid.lower] / max(
                    axis.most(), 1
                )
            else:
                far += np.abs(pool[:, a] - one[a]) / (axis.grid.upper - axis.grid.lower + 1)
        return far


def names_law(selection: Selection, scores: Whole) -> Distribution:
    """The exponential mechanism's law of names, by the levels that occur: scores of large blocks are far apart."""
    count = len(scores)
    levels, blocks = np.unique(selection.levels(scores, 1 / count), return_inverse=True)
    return Distribution(Prior.uniform(0, count - 1), blocks, Powers(selection.ratio, levels.tolist()))
