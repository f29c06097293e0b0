"""The nearest whole counts that are made of the same parts: each count the sum of its own, none below 0.

The parts are solved for, not the counts. So what follows from them holds exactly, whatever the solver's last digits:
that counts include one another, exclude one another, or make up a third.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.errors import Unsupported
from discreet.inference.solver import solve
from discreet.inference.whole import adding_up
from discreet.planner.memory import LARGE_GRID, one_at_a_time
from discreet.planner.structure import Ends, Parts

Array = NDArray[np.float64]
Flags = NDArray[np.bool_]
Places = NDArray[np.intp]
SNAP = 1e-6
"""A number so near to a whole one is that one."""
MOST = 1e12
MOST_ROUNDED = 2**13
"""The parts of so many counts are rounded to what is best for these; those of more each for itself."""
SLIGHT = 1e-4
"""What the choice between parts of the same counts weighs, against a step of one in one count."""


def nearest_whole(parts: Parts, noisy: Array, variance: Array, *, keeping: int) -> Array:
    """Whole counts, by count and cell, near the noisy ones, squares weighed by 1/variance.

    From `keeping` cells on each count keeps its total, once the totals fit: else what is lifted to 0 would lift it.
    """
    if np.abs(noisy).max() > MOST:
        raise Unsupported("whole numbers are kept up to 10^12, beyond which floats blur them")
    with one_at_a_time(parts.labels.size > LARGE_GRID):
        return _nearest_whole(parts, noisy, variance, keeping)


def _nearest_whole(parts: Parts, noisy: Array, variance: Array, keeping: int) -> Array:
    made = Made(parts.labels, noisy.shape[1], parts.ends)
    totals = _totals(made, noisy, variance) if made.cells >= keeping else None
    near = _nearest(made, noisy, variance, totals)
    if made.possible.sum() <= MOST_ROUNDED:
        near = _rounded(made, near, totals)
    return made.sums(_whole(made, near))


@dataclass(frozen=True, eq=False)
class Made:
    """How counts, in so many cells, are made of parts: their labels, and the ends of their sum."""

    labels: NDArray[np.int64]
    cells: int
    ends: Ends

    @cached_property
    def kinds(self) -> tuple[Flags, Places]:
        """The different sets of counts that parts are in, a column for each; and which of them each part is in."""
        sets, own = np.unique(self.labels > 0, axis=1, return_inverse=True)
        return sets, own.ravel()

    @cached_property
    def possible(self) -> Flags:
        """By count and cell, whether it has a part."""
        return np.stack([np.isin(np.arange(1, self.cells + 1), own) for own in self.labels])

    @cached_property
    def matrix(self) -> Any:
        """A row for each possible count and cell, a column for each part; 1 where it is in it."""
        count, part = np.nonzero(self.labels)
        at = np.cumsum(self.possible).reshape(self.possible.shape) - 1
        return _ones(at[count, self.labels[count, part] - 1], part, (int(self.possible.sum()), self.labels.shape[1]))

    @cached_property
    def all_cells(self) -> Any:
        """A row for each count, a column for each part; 1 where it is in it in some cell."""
        count, part = np.nonzero(self.labels)
        return _ones(count, part, (len(self.labels), self.labels.shape[1]))

    def sums(self, values: Array) -> Array:
        """The counts, by count and cell."""
        found = np.zeros(self.possible.shape)
        found[self.possible] = self.matrix @ values
        return found

    def within(self, values: Array) -> Array:
        """The same parts, with what a solver left below 0 or beyond an end taken away."""
        values = np.maximum(values, 0.0)
        found, ends = float(values.sum()), self.ends
        aim = max(ends.least, found if ends.most is None else min(found, ends.most))
        return values * (aim / found) if found else np.full(len(values), aim / len(values))


def _ones(rows: Places, columns: Places, shape: tuple[int, int]) -> Any:
    from scipy import sparse

    return sparse.csr_array((np.ones(len(rows)), (rows, columns)), shape=shape)


def _totals(made: Made, noisy: Array, variance: Array) -> Array:
    """The totals of the counts over all cells, nearest to those that were drawn, as one cell has them."""
    whole = Made(made.kinds[0].astype(np.int64), 1, made.ends)
    drawn = np.where(made.possible, noisy, 0.0).sum(axis=1, keepdims=True)
    spread = np.where(made.possible, variance, 0.0).sum(axis=1, keepdims=True)
    return np.asarray(whole.sums(_nearest(whole, drawn, spread, None))[:, 0])


def _nearest(made: Made, noisy: Array, variance: Array, totals: Array | None) -> Array:
    """Parts whose counts are nearest, and have these totals. Nothing else pulls a part: it is not weighed itself."""
    from scipy import sparse

    aims, spread = noisy[made.possible], variance[made.possible]
    equal, right = sparse.hstack([sparse.diags_array(-np.sqrt(spread / spread.max())), made.matrix]), aims
    if totals is not None:
        kept = sparse.hstack([sparse.csr_array((len(totals), len(aims))), made.all_cells])
        equal, right = sparse.vstack([equal, kept]), np.concatenate([aims, totals])
    adding = sparse.csr_array(np.repeat([0.0, 1.0], made.matrix.shape)[None, :])
    ends, beyond, level = made.ends, [], np.zeros(made.matrix.shape[1])
    if ends.most is not None and ends.least == ends.most:
        equal, right = sparse.vstack([equal, adding]), np.append(right, ends.most)
    elif ends.most is not None:
        beyond, level = [adding, -adding], np.concatenate([level, [ends.most, -ends.least]])
    own = sparse.hstack([sparse.csr_array(made.matrix.shape[::-1]), -sparse.eye_array(made.matrix.shape[1])])
    return made.within(_solved(equal, right, sparse.vstack([own, *beyond]), level, len(aims)))


def _solved(equal: Any, right: Array, below: Any, level: Array, weighed: int) -> Array:
    """Of all x with equal x = right and below x <= level one whose first, which are weighed, are shortest: the rest."""
    from scipy import sparse

    unit = max(1.0, float(np.abs(right).max()))
    squares = np.zeros(equal.shape[1])
    squares[:weighed] = 1
    beyond = np.concatenate([right, level]) / unit
    values = np.array(solve(squares, sparse.vstack([equal, below]), beyond, len(right)).x)[weighed:] * unit
    if not np.isfinite(values).all():
        raise Unsupported("the solver found no parts that make these counts; ask for fewer counts at once")
    return values


def _rounded(made: Made, values: Array, totals: Array | None) -> Array:
    """Parts that make whole counts, the nearest in squares to those of these, with the totals rounded.

    At whole numbers squares are on a convex line of pieces, so a linear program finds them: up to 1 above the whole
    number below, or more, or less. Where counts are nested or apart its corners are whole, elsewhere nearly so.
    """
    from scipy import sparse
    from scipy.optimize import linprog

    aims = _snapped(made.matrix @ values)
    down, one = np.floor(aims), sparse.eye_array(len(aims))
    over = aims - down
    sums, most = _whole_sums(made, totals)
    # Parts that are in many counts are preferred, which leaves few of them, one inside the other.
    many = -SLIGHT * (made.labels > 0).mean(axis=0) ** 2
    tops = np.repeat([np.inf, 1.0, np.inf], [len(values), len(aims), 2 * len(aims)])
    found = linprog(
        np.concatenate([many, 1 - 2 * over, 3 - 2 * over, 1 + 2 * over]),
        A_eq=sparse.hstack([made.matrix, -one, -one, one]),
        b_eq=down,
        A_ub=sparse.hstack([sums, sparse.csr_array((len(most), 3 * len(aims)))]),
        b_ub=most,
        bounds=np.column_stack([np.zeros(len(tops)), tops]),
        method="highs-ds",
    )
    return made.within(found.x[: len(values)]) if found.status == 0 else values


def _whole_sums(made: Made, totals: Array | None) -> tuple[Any, Array]:
    """Rows that are at most so much: the sum of all parts within its ends, each total beside a whole number."""
    from scipy import sparse

    rows, ends = sparse.csr_array(np.ones((1, made.labels.shape[1]))), made.ends
    low, high = np.array([float(ends.least)]), np.array([MOST if ends.most is None else float(ends.most)])
    if totals is not None:
        near = _snapped(totals)
        rows, low, high = (
            sparse.vstack([rows, made.all_cells]),
            np.append(low, np.floor(near)),
            np.append(high, np.ceil(near)),
        )
    return sparse.vstack([rows, -rows]), np.concatenate([high, -low])


def _whole(made: Made, values: Array) -> Array:
    """Whole parts beside these: first their sum, within its ends, then that of each kind, then each part."""
    near, (_, kind), ends = _snapped(values), made.kinds, made.ends
    sums: Array = np.bincount(kind, near).astype(np.float64)
    aim = max(ends.least, round(float(sums.sum())))
    aims = adding_up(sums, aim if ends.most is None else min(aim, ends.most))
    whole = np.zeros(len(near))
    alike = np.split(np.argsort(kind, kind="stable"), np.cumsum(np.bincount(kind))[:-1])
    for places, own in zip(alike, aims, strict=True):
        whole[places] = adding_up(near[places], int(own))
    return whole


def _snapped(values: Array) -> Array:
    return np.where(np.abs(values - np.round(values)) <= SNAP, np.round(values), values)
