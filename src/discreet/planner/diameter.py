"""The two atoms that differ most, by the weights of the counts on which they differ. Proof: joint.md."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from discreet.planner.atoms import Atoms, Codes, Labels

MAX_WORK = 2**28
"""Labels compared in the search for the farthest pair: about a quarter of a second."""
LABEL_COST = 32
"""One label kept in memory counts as so many compared."""
BLOCK_SIZE, OTHERS_SIZE = 128, 4096
"""Atoms that are compared at once: their distances take some megabytes, however many atoms there are."""


@dataclass(frozen=True, eq=False, slots=True)
class _FarAtoms:
    """The atoms that may be of the farthest pair, by their distance from a pivot, farthest first."""

    labels: Labels
    pivot_distances: Codes
    weights: list[int]
    membership: NDArray[np.bool_]
    total_weights: NDArray[np.float64]
    grouped_counts: list[int]

    @staticmethod
    def of(atoms: Atoms, order: NDArray[np.intp], pivot_distances: Codes, weights: Sequence[int]) -> _FarAtoms:
        """The atoms in this order; counts without groups, which hold or not, apart from those with."""
        labels = np.stack([atoms.get_labels(place)[order] for place in range(len(weights))], axis=1)
        grouped_counts = np.flatnonzero(labels.max(axis=0) > 1)
        total_weights = np.zeros(len(order))
        for place, weight in enumerate(weights):
            total_weights += weight * (labels[:, place] > 0)
        membership = labels > 0
        membership[:, grouped_counts] = False
        return _FarAtoms(
            labels, pivot_distances[order], list(weights), membership, total_weights, grouped_counts.tolist()
        )

    def find_farthest(self, rows: slice, others: slice) -> tuple[float, int, int]:
        """The largest distance of one atom from another, and where both are, from the first of each."""
        best = (-1.0, 0, 0)
        for start in range(others.start, others.stop, OTHERS_SIZE):
            pair_distances = self._compute_distances(rows, slice(start, min(start + OTHERS_SIZE, others.stop)))
            row, other = np.unravel_index(int(pair_distances.argmax()), pair_distances.shape)
            if pair_distances[row, other] > best[0]:
                best = float(pair_distances[row, other]), int(row), start - others.start + int(other)
        return best

    def _compute_distances(self, rows: slice, others: slice) -> NDArray[np.float64]:
        """The distances: what both weigh, less twice what they have in common. Whole, and exact: joint.md."""
        common = (self.membership[rows] * np.array(self.weights, dtype=np.float64)) @ self.membership[others].T.astype(
            np.float64
        )
        for place in self.grouped_counts:
            row_labels, other_labels = self.labels[rows, place], self.labels[others, place]
            common += self.weights[place] * ((row_labels[:, None] == other_labels) & (row_labels > 0)[:, None])
        return np.asarray(self.total_weights[rows][:, None] + self.total_weights[others] - 2 * common)


def find_farthest_changes(atoms: Atoms, weights: Sequence[int], max_work: int = MAX_WORK) -> list[int]:
    """By how much each count differs between the two atoms that differ most; or a bound on their sum, see joint.md."""
    spreads = [_find_max_change(atoms.get_labels(place)) for place in range(len(weights))]
    pivot = [_find_usual_label(atoms.get_labels(place)) for place in range(len(weights))]
    pivot_distances = compute_atom_distances(atoms, pivot, weights)
    best = _guess_farthest(atoms, weights, int(pivot_distances.argmax()))
    contenders = np.flatnonzero(pivot_distances > _weigh_changes(weights, best) - pivot_distances.max())
    if _weigh_changes(weights, best) == _weigh_changes(weights, spreads) or len(contenders) < 2:
        return best
    order = contenders[np.argsort(-pivot_distances[contenders], kind="stable")]
    if LABEL_COST * len(order) * len(weights) > max_work:
        return _bound_changes(spreads, pivot, [atoms.get_row(int(atom)) for atom in order[:2]], weights)
    return _search_pairs(_FarAtoms.of(atoms, order, pivot_distances, weights), best, spreads, pivot, max_work)


def compute_atom_distances(atoms: Atoms, point: Sequence[int], weights: Sequence[int]) -> Codes:
    """How far every atom is from a row of labels."""
    total: Codes = np.zeros(len(atoms), dtype=np.int64)
    for place, (label, weight) in enumerate(zip(point, weights, strict=True)):
        total += weight * _compute_label_changes(atoms.get_labels(place), label)
    return total


def _compute_label_changes(labels: Labels, label: int) -> Codes:
    """0 for the same label, 1 where one of the two is 0, 2 for two different cells."""
    return np.asarray(np.where(labels == label, 0, (labels > 0) + (1 if label else 0)))


def _find_max_change(labels: Labels) -> int:
    """The farthest that two labels are apart."""
    low, high = int(labels.min()), int(labels.max())
    if low == high:
        return 0
    return 1 if low == 0 and not ((labels > 0) & (labels < high)).any() else 2


def _find_usual_label(labels: Labels) -> int:
    """The label 1 of a plain count that holds on most atoms; else 0."""
    return int(labels.max() == 1 and 2 * int(labels.sum()) > len(labels))


def _weigh_changes(weights: Sequence[int], changes: Sequence[int]) -> int:
    return sum(weight * change for weight, change in zip(weights, changes, strict=True))


def _compare_rows(row: Sequence[int], other: Sequence[int]) -> list[int]:
    return [0 if a == b else bool(a) + bool(b) for a, b in zip(row, other, strict=True)]


def _guess_farthest(atoms: Atoms, weights: Sequence[int], start: int) -> list[int]:
    """A pair that is far apart: from an atom to the farthest from it, and on while that helps."""
    best, size = [0] * len(weights), -1
    row = atoms.get_row(start)
    while True:
        other = atoms.get_row(int(compute_atom_distances(atoms, row, weights).argmax()))
        changes = _compare_rows(row, other)
        if _weigh_changes(weights, changes) <= size:
            return best
        best, size, row = changes, _weigh_changes(weights, changes), other


def _bound_changes(
    spreads: list[int], pivot: Sequence[int], pair: Sequence[Sequence[int]], weights: Sequence[int]
) -> list[int]:
    """The least of two bounds: every count at its farthest; or the two atoms farthest away, by way of the pivot."""
    first, second = (_compare_rows(atom, pivot) for atom in pair)
    via_pivot = [a + b for a, b in zip(first, second, strict=True)]
    return min(spreads, via_pivot, key=lambda changes: _weigh_changes(weights, changes))


def _search_pairs(
    far_atoms: _FarAtoms, best: list[int], spreads: list[int], pivot: list[int], max_work: int
) -> list[int]:
    """Compare, farthest first, all pairs that can beat the best; by way of the pivot no other pair can."""
    weights = far_atoms.weights
    size, work, start, count = _weigh_changes(weights, best), 0, 0, len(far_atoms.pivot_distances)
    while start + 1 < count and far_atoms.pivot_distances[start] + far_atoms.pivot_distances[start + 1] > size:
        end = int(np.searchsorted(-far_atoms.pivot_distances, far_atoms.pivot_distances[start] - size, side="left"))
        rows, others = slice(start, min(start + BLOCK_SIZE, end)), slice(start, end)
        work += (rows.stop - start) * (end - start) * len(weights)
        if work > max_work:
            return _bound_changes(spreads, pivot, far_atoms.labels[start : start + 2].tolist(), weights)
        distance, row, other = far_atoms.find_farthest(rows, others)
        if distance > size:
            best = _compare_rows(far_atoms.labels[start + row].tolist(), far_atoms.labels[start + other].tolist())
            size = _weigh_changes(weights, best)
        start = rows.stop
    return best
