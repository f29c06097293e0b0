"""The budget of a counting session (Protocol 1 of document 000): how far one unit moves many counts together.

That follows from the predicates of the counts alone: the two atoms that differ most, by the weights of the counts on
which they differ. Proof: session_budget.md.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from discreet.errors import BudgetExceeded, Unsupported
from discreet.formatting import format_budget_left, format_cost, format_upper, round_up
from discreet.planner.domain_partition import Atoms, Codes, CountQuery, DomainGrid, Labels, lay_out_atoms
from discreet.planner.options import MIN_QUERY_EPSILON
from discreet.planner.plan import Plan
from discreet.privacy.guarantee import NeighborRelation
from discreet.query.predicates import TRUE, AllOf, build_whole_domain
from discreet.query.query import Aggregate, Query
from discreet.schema import Schema

MAX_WORK = 2**28
"""Labels compared in the search for the farthest pair: about a quarter of a second."""
LABEL_COST = 32
"""One label in memory counts as so many compared."""
BLOCK_SIZE, OTHERS_SIZE = 128, 4096
"""Atoms that are compared at once: their distances take some megabytes, however many atoms there are."""
MAX_WEIGHT_SUM = 2**50
"""Whole weights add up to at most this, so that all sums of them are exact, in 64 bits and in floating point."""
MAX_SCALE_TRIES = 16
SCALE_DIGITS = 4


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
        distances, grouped = pivot_distances[order], grouped_counts.tolist()
        return _FarAtoms(labels, distances, list(weights), membership, total_weights, grouped)

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
        """The distances: what both weigh, less twice what they have in common. Whole, and exact: session_budget.md."""
        weighted = self.membership[rows] * np.array(self.weights, dtype=np.float64)
        common = weighted @ self.membership[others].T.astype(np.float64)
        for place in self.grouped_counts:
            row_labels, other_labels = self.labels[rows, place], self.labels[others, place]
            common += self.weights[place] * ((row_labels[:, None] == other_labels) & (row_labels > 0)[:, None])
        return np.asarray(self.total_weights[rows][:, None] + self.total_weights[others] - 2 * common)


def find_farthest_changes(atoms: Atoms, weights: Sequence[int], max_work: int = MAX_WORK) -> list[int]:
    """Find how much each count differs between the two atoms farthest apart, or a bound on the sum."""
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
    """Compute how far every atom is from a row of labels.

    A count adds 0 for the same label, 1 where one of the two is 0, 2 for two different cells.
    """
    total: Codes = np.zeros(len(atoms), dtype=np.int64)
    for place, (label, weight) in enumerate(zip(point, weights, strict=True)):
        labels = atoms.get_labels(place)
        total += weight * np.where(labels == label, 0, (labels > 0) + (1 if label else 0))
    return total


def _find_max_change(labels: Labels) -> int:
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


@dataclass(frozen=True, slots=True)
class WorstCase:
    """The largest sum of |change| / scale over some counts that one unit can make, and by how much each changes there.

    Where a bound stands in for the largest sum, the changes are those of the bound.
    """

    value: Fraction
    changes: tuple[int, ...]


def find_worst_case(schema: Schema, counts: Sequence[CountQuery], neighbors: NeighborRelation, rows: int) -> WorstCase:
    """Find the worst case of some counts.

    Exact where the predicates cut the table's domain into at most a million cells; else the sum over two halves.
    """
    if not counts:
        return WorstCase(Fraction(0), ())
    grid = DomainGrid(schema, counts)
    if grid.cells is not None:
        with lay_out_atoms(grid) as atoms:
            return _compute_exact_worst_case(atoms, [count.scale for count in counts], neighbors, rows)
    if len(counts) == 1:
        change = rows * (2 if neighbors == "replace-one" and counts[0].keys else 1)
        return WorstCase(change / counts[0].scale, (change,))
    half = len(counts) // 2
    first, second = (find_worst_case(schema, part, neighbors, rows) for part in (counts[:half], counts[half:]))
    return WorstCase(first.value + second.value, first.changes + second.changes)


def _compute_exact_worst_case(
    atoms: Atoms, scales: Sequence[Fraction], neighbors: NeighborRelation, rows: int
) -> WorstCase:
    weights, unit = _scale_to_integers([1 / scale for scale in scales])
    if neighbors == "add-remove":
        heaviest_labels = _find_heaviest_labels(atoms, weights)
        changes = [int(label > 0) for label in heaviest_labels]
    else:
        changes = find_farthest_changes(atoms.add_uncounted() if rows > 1 else atoms, weights)
    return WorstCase(rows * _weigh_changes(weights, changes) * unit, tuple(rows * change for change in changes))


def _find_heaviest_labels(atoms: Atoms, weights: Sequence[int]) -> list[int]:
    """The labels of the atom where the counts that hold weigh most."""
    total: NDArray[np.int64] = np.zeros(len(atoms), dtype=np.int64)
    for place, weight in enumerate(weights):
        total += weight * (atoms.get_labels(place) > 0)
    return atoms.get_row(int(total.argmax()))


def _scale_to_integers(weights: Sequence[Fraction]) -> tuple[list[int], Fraction]:
    """Whole numbers and a unit, equal to the weights; or above them, by 2^-49 of them all, where they are too long."""
    common = Fraction(1, math.lcm(*(weight.denominator for weight in weights)))
    unit = max(common, sum(weights, Fraction(0)) / (MAX_WEIGHT_SUM - len(weights)))
    return [math.ceil(weight / unit) for weight in weights], unit


@dataclass(frozen=True, eq=False, slots=True)
class SessionBudget:
    """The counts answered so far, and `spent`: their joint sensitivity in units of their scales, at most epsilon."""

    schema: Schema
    epsilon: Fraction
    counts: tuple[CountQuery, ...] = ()
    spent: Fraction = Fraction(0)

    @property
    def remaining(self) -> Fraction:
        """What no answer has used yet; a question can cost less than it would alone, and often nothing."""
        return self.epsilon - self.spent

    def add_counts(self, new_counts: Sequence[CountQuery]) -> SessionBudget:
        """Add the counts of one more question; refused, from predicates and scales alone, where they do not fit."""
        joint_epsilon = self._find_worst_case(new_counts).value
        if joint_epsilon <= self.epsilon:
            return replace(self, counts=(*self.counts, *new_counts), spent=joint_epsilon)
        raise BudgetExceeded(
            f"with this question the answers of the session come to epsilon {format_upper(joint_epsilon)} together, "
            f"and it has {format_budget_left(self.epsilon)}; {self._advise_scale(new_counts)}"
        )

    def find_min_scale(self, new_counts: Sequence[CountQuery]) -> Fraction | None:
        """Find the least noise scale at which a question fits, rounded up to four digits; None where none is found.

        In 1 / scale the joint sensitivity is a largest of straight lines, and the worst case has the slopes of one:
        Newton's method reaches the least scale in as many steps as there are lines, at most.
        """
        for _ in range(MAX_SCALE_TRIES):
            worst_case = self._find_worst_case(new_counts)
            if worst_case.value <= self.epsilon:
                return round_up(new_counts[0].scale, SCALE_DIGITS)
            new_changes = sum(worst_case.changes[len(self.counts) :])
            earlier = zip(worst_case.changes, self.counts, strict=False)
            room = self.epsilon - sum(change / count.scale for change, count in earlier)
            if room <= 0 or not new_changes:
                return None
            new_counts = [replace(count, scale=new_changes / room) for count in new_counts]
        return None

    def _find_worst_case(self, new_counts: Sequence[CountQuery]) -> WorstCase:
        return find_worst_case(self.schema, [*self.counts, *new_counts], self.schema.neighbors, self.schema.rows)

    def _advise_scale(self, new_counts: Sequence[CountQuery]) -> str:
        min_scale = self.find_min_scale(new_counts)
        if min_scale is None or min_scale * MIN_QUERY_EPSILON > 1:
            return "it fits at no noise scale, so ask about other rows or open another session"
        return f"ask it with a noise scale of at least {format_cost(min_scale)}"


def list_noisy_counts(plan: Plan, scale: Fraction) -> list[CountQuery]:
    """List the counts that a question asks for with noise; not those that the schema makes public."""
    return [
        build_count_query(plan.query.aggregates[index], plan.query, plan.schema, scale)
        for measurement in plan.measurements
        for index in measurement.aggregates
        if not measurement.is_public
    ]


def build_count_query(aggregate: Aggregate, query: Query, schema: Schema, scale: Fraction) -> CountQuery:
    """Build what a count counts: COUNT(x) the rows with a value; units are rows where each has one."""
    if aggregate.function == "count_distinct" and schema.rows > 1:
        raise Unsupported(
            f"a session counts rows, and {schema.name} may have several rows of one unit; ask for units outside it"
        )
    if aggregate.column is None:
        both = AllOf((query.where, aggregate.where))
        return CountQuery(query.where if aggregate.where == TRUE else both, scale, query.keys)
    present = replace(build_whole_domain(schema.column(aggregate.column)), null=False)
    return CountQuery(AllOf((query.where, present)), scale, query.keys)
