"""The generalisation of a table to k-anonymity that loses least: an exact search of all levels of all columns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from discreet.errors import Internal
from discreet.microdata.hierarchies import Ladder
from discreet.microdata.table import Places

Levels = tuple[int, ...]

FINE = 2**30
"""Widths of labels are counted in units of 1/FINE, so that sums are exact."""


@dataclass(frozen=True, slots=True, eq=False)
class Classes:
    """Distinct records at some levels: their codes, how many rows are alike, and which classes stay in the release."""

    codes: Places
    counts: Places
    kept: NDArray[np.bool_]

    @property
    def lost(self) -> int:
        """How many rows are left out."""
        return int(self.counts[~self.kept].sum())


@dataclass(frozen=True, slots=True, eq=False)
class Task:
    """Ladders for all columns, the least size of a class, and how many rows may be left out."""

    ladders: tuple[Ladder, ...]
    rows: int
    k: int
    limit: int

    @property
    def tops(self) -> Levels:
        return tuple(len(ladder.rungs) for ladder in self.ladders)


class Loss(Protocol):
    """What a release loses. With all classes kept it is no more, and it does not fall as levels rise."""

    def __call__(self, task: Task, levels: Levels, classes: Classes) -> Fraction: ...


def precision(task: Task, levels: Levels, classes: Classes) -> Fraction:
    """The mean height of the cells on their ladders, as a share of the whole height; 1 for a cell that is left out."""
    heights = sum((Fraction(level, top) for level, top in zip(levels, task.tops, strict=True) if top), Fraction(0))
    return (heights * (task.rows - classes.lost) / len(levels) + classes.lost) / task.rows


def discernibility(task: Task, levels: Levels, classes: Classes) -> Fraction:  # noqa: ARG001 - every loss is called alike
    """How many rows each row is not told from, summed: all of them for one that is left out."""
    return Fraction(int((classes.counts[classes.kept] ** 2).sum()) + classes.lost * task.rows)


def class_size(task: Task, levels: Levels, classes: Classes) -> Fraction:  # noqa: ARG001 - every loss is called alike
    """Rows, with those left out, for each class that is kept, in units of k."""
    return Fraction(task.rows, task.k * max(int(classes.kept.sum()), 1))


def ncp(task: Task, levels: Levels, classes: Classes) -> Fraction:
    """Normalised certainty penalty: the mean share of its domain that a cell covers; 1 for a cell that is left out."""
    kept = classes.counts[classes.kept]
    covered = 0
    for column, (ladder, level) in enumerate(zip(task.ladders, levels, strict=True)):
        if level:
            widths = np.array([round(width * FINE) for width in ladder.rungs[level - 1].widths])
            covered += int((widths[classes.codes[classes.kept, column]] * kept).sum())
    return Fraction(covered + FINE * classes.lost * len(levels), FINE * task.rows * len(levels))


LOSSES: Mapping[str, Loss] = {
    "precision": precision,
    "discernibility": discernibility,
    "class-size": class_size,
    "ncp": ncp,
}


@dataclass(slots=True)
class Search:
    """A walk through the lattice, one column after the other, that turns back where nothing better can follow.

    With some columns' levels set, classes by these columns alone are those with all others at their tops: where they
    fall short, so do all below, as classes only grow with levels. And with all others at the bottom and no row left
    out the loss is the least that can follow.
    """

    task: Task
    loss: Loss
    best: tuple[Fraction, int, Levels] | None = None

    def walk(self, levels: Levels, codes: Places, counts: Places) -> None:
        column = len(levels)
        if column == codes.shape[1]:
            self._arrive(levels, codes, counts)
            return
        for level in range(self.task.tops[column] + 1):
            if level:
                up = self.task.ladders[column].rungs[level - 1].up
                codes = codes.copy()
                codes[:, column] = up[codes[:, column]]
                codes, counts = merged(codes, counts)
            if self._hopeless((*levels, level), codes, counts):
                break
            if self._enough(codes[:, : column + 1], counts):
                self.walk((*levels, level), codes, counts)

    def _enough(self, codes: Places, counts: Places) -> bool:
        """Whether few enough rows are in small classes."""
        sizes = merged(codes, counts)[1]
        return int(sizes[sizes < self.task.k].sum()) <= self.task.limit

    def _hopeless(self, levels: Levels, codes: Places, counts: Places) -> bool:
        if self.best is None:
            return False
        all_levels = levels + (0,) * (codes.shape[1] - len(levels))
        whole = Classes(codes, counts, np.ones(len(counts), dtype=np.bool_))
        return self.loss(self.task, all_levels, whole) > self.best[0]

    def _arrive(self, levels: Levels, codes: Places, counts: Places) -> None:
        found = (self.loss(self.task, levels, Classes(codes, counts, counts >= self.task.k)), sum(levels), levels)
        self.best = found if self.best is None else min(self.best, found)


def least_loss(task: Task, loss: Loss) -> tuple[Fraction, Levels]:
    """The least loss, and the levels that have it: ties to the lowest levels together and then in order.

    With k rows or more there is always one, as all rows are alike at the top.
    """
    codes, counts = merged(
        np.column_stack([ladder.codes for ladder in task.ladders]), np.ones(task.rows, dtype=np.int64)
    )
    search = Search(task, loss)
    search.walk((), codes, counts)
    if search.best is None:
        raise Internal("no levels were found where the highest would do")
    return search.best[0], search.best[2]


def class_labels(task: Task, levels: Levels) -> Places:
    """The class of every row at these levels."""
    columns = [ladder.codes_at(level) for ladder, level in zip(task.ladders, levels, strict=True)]
    labels: Places = np.unique(row_keys(np.column_stack(columns)), return_inverse=True)[1]
    return labels


def merged(codes: Places, counts: Places) -> tuple[Places, Places]:
    """Equal rows of codes once, with their counts added."""
    key = row_keys(codes)
    first, inverse = np.unique(key, return_index=True, return_inverse=True)[1:]
    return codes[first], np.bincount(inverse, counts).astype(np.int64)


def row_keys(codes: Places) -> Places:
    """A number for each row of codes, equal where rows are."""
    key, span = codes[:, 0], int(codes[:, 0].max(initial=0)) + 1
    for column in codes.T[1:]:
        wide = int(column.max(initial=0)) + 1
        if span * wide >= 2**62:
            key = np.unique(key, return_inverse=True)[1]
            span = len(codes)
        key, span = key * wide + column, span * wide
    return key
