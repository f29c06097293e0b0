"""The two atoms that differ most, by the weights of the counts on which they differ. Proof: joint.md."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from discreet.planner.atoms import Atoms, Codes, Labels

MOST_WORK = 2**28
"""Labels compared in the search for the farthest pair: about a quarter of a second."""
LABEL = 32
"""One label kept in memory counts as so many compared."""
BLOCK, OTHERS = 128, 4096
"""Atoms that are compared at once: their distances take some megabytes, however many atoms there are."""


@dataclass(frozen=True, eq=False, slots=True)
class _Far:
    """The atoms that may be of the farthest pair, by their distance from a pivot, farthest first."""

    labels: Labels
    away: Codes
    weights: list[int]
    held: NDArray[np.bool_]
    weighed: NDArray[np.float64]
    grouped: list[int]

    @staticmethod
    def of(atoms: Atoms, order: NDArray[np.intp], away: Codes, weights: Sequence[int]) -> _Far:
        """The atoms in this order; counts without groups, which hold or not, apart from those with."""
        labels = np.stack([atoms.labels(place)[order] for place in range(len(weights))], axis=1)
        grouped = np.flatnonzero(labels.max(axis=0) > 1)
        weighed = np.zeros(len(order))
        for place, weight in enumerate(weights):
            weighed += weight * (labels[:, place] > 0)
        held = labels > 0
        held[:, grouped] = False
        return _Far(labels, away[order], list(weights), held, weighed, grouped.tolist())

    def farthest(self, rows: slice, others: slice) -> tuple[float, int, int]:
        """The largest distance of one atom from another, and where both are, from the first of each."""
        best = (-1.0, 0, 0)
        for start in range(others.start, others.stop, OTHERS):
            apart = self._between(rows, slice(start, min(start + OTHERS, others.stop)))
            row, other = np.unravel_index(int(apart.argmax()), apart.shape)
            if apart[row, other] > best[0]:
                best = float(apart[row, other]), int(row), start - others.start + int(other)
        return best

    def _between(self, rows: slice, others: slice) -> NDArray[np.float64]:
        """The distances: what both weigh, less twice what they have in common. Whole, and exact: joint.md."""
        common = (self.held[rows] * np.array(self.weights, dtype=np.float64)) @ self.held[others].T.astype(np.float64)
        for place in self.grouped:
            one, two = self.labels[rows, place], self.labels[others, place]
            common += self.weights[place] * ((one[:, None] == two) & (one > 0)[:, None])
        return np.asarray(self.weighed[rows][:, None] + self.weighed[others] - 2 * common)


def diameter(atoms: Atoms, weights: Sequence[int], most_work: int = MOST_WORK) -> list[int]:
    """By how much each count differs between the two atoms that differ most; or a bound on their sum, see joint.md."""
    spreads = [_spread(atoms.labels(place)) for place in range(len(weights))]
    pivot = [_usual(atoms.labels(place)) for place in range(len(weights))]
    away = distances(atoms, pivot, weights)
    best = _guess(atoms, weights, int(away.argmax()))
    near = np.flatnonzero(away > _sum(weights, best) - away.max())
    if _sum(weights, best) == _sum(weights, spreads) or len(near) < 2:
        return best
    order = near[np.argsort(-away[near], kind="stable")]
    if LABEL * len(order) * len(weights) > most_work:
        return _bound(spreads, pivot, [atoms.row(int(atom)) for atom in order[:2]], weights)
    return _searched(_Far.of(atoms, order, away, weights), best, spreads, pivot, most_work)


def distances(atoms: Atoms, point: Sequence[int], weights: Sequence[int]) -> Codes:
    """How far every atom is from a row of labels."""
    total: Codes = np.zeros(len(atoms), dtype=np.int64)
    for place, (label, weight) in enumerate(zip(point, weights, strict=True)):
        total += weight * _apart(atoms.labels(place), label)
    return total


def _apart(labels: Labels, label: int) -> Codes:
    """0 for the same label, 1 where one of the two is 0, 2 for two different cells."""
    return np.asarray(np.where(labels == label, 0, (labels > 0) + (1 if label else 0)))


def _spread(labels: Labels) -> int:
    """The farthest that two labels are apart."""
    low, high = int(labels.min()), int(labels.max())
    if low == high:
        return 0
    return 1 if low == 0 and not ((labels > 0) & (labels < high)).any() else 2


def _usual(labels: Labels) -> int:
    """The label 1 of a plain count that holds on most atoms; else 0."""
    return int(labels.max() == 1 and 2 * int(labels.sum()) > len(labels))


def _sum(weights: Sequence[int], changes: Sequence[int]) -> int:
    return sum(weight * change for weight, change in zip(weights, changes, strict=True))


def _changes(one: Sequence[int], two: Sequence[int]) -> list[int]:
    return [0 if a == b else bool(a) + bool(b) for a, b in zip(one, two, strict=True)]


def _guess(atoms: Atoms, weights: Sequence[int], start: int) -> list[int]:
    """A pair that is far apart: from an atom to the farthest from it, and on while that helps."""
    best, size = [0] * len(weights), -1
    row = atoms.row(start)
    while True:
        other = atoms.row(int(distances(atoms, row, weights).argmax()))
        changes = _changes(row, other)
        if _sum(weights, changes) <= size:
            return best
        best, size, row = changes, _sum(weights, changes), other


def _bound(
    spreads: list[int], pivot: Sequence[int], pair: Sequence[Sequence[int]], weights: Sequence[int]
) -> list[int]:
    """The least of two bounds: every count at its farthest; or the two atoms farthest away, by way of the pivot."""
    one, two = (_changes(atom, pivot) for atom in pair)
    through = [a + b for a, b in zip(one, two, strict=True)]
    return min(spreads, through, key=lambda changes: _sum(weights, changes))


def _searched(far: _Far, best: list[int], spreads: list[int], pivot: list[int], most_work: int) -> list[int]:
    """Compare, farthest first, all pairs that can beat the best; by way of the pivot no other pair can."""
    weights = far.weights
    size, work, start, count = _sum(weights, best), 0, 0, len(far.away)
    while start + 1 < count and far.away[start] + far.away[start + 1] > size:
        end = int(np.searchsorted(-far.away, far.away[start] - size, side="left"))
        rows, others = slice(start, min(start + BLOCK, end)), slice(start, end)
        work += (rows.stop - start) * (end - start) * len(weights)
        if work > most_work:
            return _bound(spreads, pivot, far.labels[start : start + 2].tolist(), weights)
        apart, row, other = far.farthest(rows, others)
        if apart > size:
            best = _changes(far.labels[start + row].tolist(), far.labels[start + other].tolist())
            size = _sum(weights, best)
        start = rows.stop
    return best
