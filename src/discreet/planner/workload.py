"""Several counts of one question measured together: as asked, or by the atoms of their filters. Proof: workload.md.

The strategy is chosen from the questions alone. Everything is in whole numbers and fractions, but for the search for
good weights.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from discreet.errors import Internal
from discreet.estimation.noisy_totals import WeightedSum
from discreet.measurements.additive import NOISE_NAMES, AdditiveNoise, build_laplace
from discreet.measurements.contribution_bounds import ContributionBounds
from discreet.measurements.total_sensitivity import Component, LinearQuery
from discreet.mechanisms.discrete_laplace import DiscreteLaplace
from discreet.planner.candidates import STRATEGY_PREFIX
from discreet.planner.domain_partition import CountQuery, DomainGrid, lay_out_atoms
from discreet.planner.plan import Candidate
from discreet.privacy.cost import PrivacyCost
from discreet.privacy.guarantee import Guarantee
from discreet.query.predicates import AllOf, AnyOf, Predicate, build_whole_domain, complement_condition, simplify_within
from discreet.query.query import Aggregate
from discreet.query.scan import ScanMeasure
from discreet.schema import Schema

Matrix = tuple[tuple[Fraction, ...], ...]
IntMatrix = NDArray[np.int64]
Row = Sequence[int | Fraction]
MAX_WORKLOAD_CELLS = 2**16
MAX_ATOMS = 64
"""With more atoms, or more cells of the grid they are found on, the counts are measured as asked."""
MAX_SOLVED_COUNTS = 16
"""For so many counts equations are solved exactly."""
MAX_WEIGHT_DENOMINATOR = 16
"""Weights are ratios of whole numbers, the smaller at most this."""
WEIGHT_RATIOS = tuple(2.0 ** (half / 2) for half in range(-8, 9))
JOINTLY, ATOMS, ATOMS_AND_TOTAL, ASKED_AND_ATOMS = "as asked, jointly", "atoms", "atoms and total", "as asked and atoms"
AS_ASKED = "as asked"
STRATEGIES = (AS_ASKED, JOINTLY, ATOMS, ATOMS_AND_TOTAL, ASKED_AND_ATOMS)
MAX_NUMBERS = 2**17
"""Of all cells, totals and counts of a strategy."""
MIN_GAIN_RATIO = 0.999
"""A strategy that is hardly better than a simpler one is not chosen."""


def build_identity(size: int) -> Matrix:
    """Build a matrix with ones on the diagonal."""
    return tuple(tuple(Fraction(row == column) for column in range(size)) for row in range(size))


def multiply_matrices(left: Sequence[Row], right: Sequence[Row]) -> Matrix:
    """Multiply two matrices."""
    columns = list(zip(*right, strict=True))
    return tuple(
        tuple(Fraction(sum(a * b for a, b in zip(row, column, strict=True) if a and b)) for column in columns)
        for row in left
    )


def invert_matrix(matrix: Sequence[Row]) -> Matrix:
    """Invert a matrix that has an inverse."""
    size = len(matrix)
    rows = [[*map(Fraction, row), *unit] for row, unit in zip(matrix, build_identity(size), strict=True)]
    for column in range(size):
        pivot = next((row for row in range(column, size) if rows[row][column]), None)
        if pivot is None:
            raise Internal("a matrix without an inverse was to be inverted")
        rows[column], rows[pivot] = rows[pivot], rows[column]
        rows[column] = [value / rows[column][column] for value in rows[column]]
        for other in range(size):
            if other != column and rows[other][column]:
                rows[other] = _subtract_multiple(rows[other], rows[other][column], rows[column])
    return tuple(tuple(row[size:]) for row in rows)


def select_independent_rows(rows: Sequence[Row]) -> Matrix:
    """Select the first rows of which none follows from those before; all others follow from them."""
    basis: list[tuple[Fraction, ...]] = []
    reduced: list[tuple[int, list[Fraction]]] = []
    for row in rows:
        remainder = list(map(Fraction, row))
        for pivot, reduced_row in reduced:
            remainder = _subtract_multiple(remainder, remainder[pivot], reduced_row)
        first = next((place for place, value in enumerate(remainder) if value), None)
        if first is not None:
            basis.append(tuple(map(Fraction, row)))
            reduced.append((first, [value / remainder[first] for value in remainder]))
    return tuple(basis)


def _subtract_multiple(row: list[Fraction], factor: Fraction, other: list[Fraction]) -> list[Fraction]:
    return [value - factor * subtrahend if subtrahend else value for value, subtrahend in zip(row, other, strict=True)]


@dataclass(frozen=True, eq=False, slots=True)
class Workload:
    """Which counts hold on which atoms, one row for each count, and whether a row of the table may be in no count."""

    matrix: IntMatrix
    has_uncounted: bool

    @staticmethod
    def of(bounds: ContributionBounds, filters: Sequence[Predicate]) -> Workload | None:
        """Build it from the filters of the counts; None where there are too many atoms, or a count can hold no row."""
        counts = [CountQuery(AllOf((bounds.where, condition)), Fraction(1)) for condition in filters]
        grid = DomainGrid(bounds.schema, counts)
        if grid.cells is None or grid.cells > MAX_WORKLOAD_CELLS:
            return None
        with lay_out_atoms(grid) as atoms:
            if len(atoms) > MAX_ATOMS + 1:
                return None
            matrix = np.stack([atoms.get_labels(place).astype(np.int64) for place in range(len(filters))])
        is_counted = matrix.any(axis=0)
        if is_counted.sum() > MAX_ATOMS or not matrix.any(axis=1).all():
            return None
        return Workload(matrix[:, is_counted], bool((~is_counted).any()))

    def compute_row_changes(self, rows: IntMatrix, bounds: ContributionBounds) -> IntMatrix:
        """How far the totals of atoms in `rows` are moved: by a row of the table, or by one that takes its place."""
        if not bounds.is_replace_one or bounds.is_grouped:
            return rows
        nowhere = np.zeros((len(rows), int(self.has_uncounted or bounds.rows_per_unit > 1)), dtype=np.int64)
        columns = np.hstack((rows, nowhere))
        first, second = np.triu_indices(columns.shape[1], 1)
        return np.asarray(np.abs(columns[:, first] - columns[:, second]))


@dataclass(frozen=True, eq=False, slots=True)
class WorkloadStrategy:
    """Totals of atoms, or of the counts themselves, with weights; and each count as a combination of the noisy totals.

    The noise of a total has the scale rows * l1_sensitivity / weight. One row of the table, or a pair where one takes
    another's place, moves the totals, each times its weight, by at most `l1_sensitivity` in all, and their squares by
    at most `l2_sensitivity_sq`.
    """

    name: str
    totals: tuple[tuple[int, ...], ...]
    weights: tuple[int, ...]
    estimates: Matrix
    l1_sensitivity: int
    l2_sensitivity_sq: int
    measures_atoms: bool

    def compute_scales(self, bounds: ContributionBounds) -> tuple[Fraction, ...]:
        """Compute the noise scales: over all cells and totals |change| / scale adds up to at most 1."""
        return tuple(Fraction(bounds.rows_per_unit * self.l1_sensitivity, weight) for weight in self.weights)

    def compute_rho(self, epsilon: Fraction) -> Fraction:
        """Compute the zCDP of all of it at this epsilon: at most epsilon^2 / 2."""
        return epsilon**2 / 2 * Fraction(self.l2_sensitivity_sq, self.l1_sensitivity**2)


def list_workload_strategies(workload: Workload, bounds: ContributionBounds) -> list[WorkloadStrategy]:
    """List all that are weighed besides the counts one by one; of two alike the simpler first."""
    counts, atoms = workload.matrix.shape
    candidates = [_build_as_asked(workload, bounds), _build_atom_strategy(workload, bounds)]
    total = np.ones((1, atoms), dtype=np.int64)
    if workload.compute_row_changes(total, bounds).any():
        sizes = workload.matrix.sum(axis=1)

        def compute_total_variance(ratio: float) -> float:
            """The mean variance of the counts from atoms of variance 1 and their total of variance 1 / ratio^2."""
            return float((sizes - sizes**2 * ratio**2 / (1 + atoms * ratio**2)).mean())

        weights = _find_best_weights(workload, bounds, total, compute_total_variance)
        candidates.append(_build_atoms_and_total(workload, bounds, *weights))
    if counts <= MAX_SOLVED_COUNTS:
        common = (workload.matrix @ workload.matrix.T).astype(np.float64)

        def compute_asked_variance(ratio: float) -> float:
            """The same from atoms of variance 1 and the counts of variance 1 / ratio^2, by the atoms they share."""
            return float(np.trace(np.linalg.solve(ratio**2 * common + np.eye(counts), common)) / counts)

        weights = _find_best_weights(workload, bounds, workload.matrix, compute_asked_variance)
        candidates.append(_build_asked_and_atoms(workload, bounds, *weights))
    return candidates


def _build_as_asked(workload: Workload, bounds: ContributionBounds) -> WorkloadStrategy:
    """The counts, each with the same noise; where some follow from others, fitted to that."""
    counts = len(workload.matrix)
    estimates = build_identity(counts)
    basis = select_independent_rows(_convert_rows(workload.matrix.T)) if counts <= MAX_SOLVED_COUNTS else ()
    if basis and len(basis) < counts:
        transposed_basis = tuple(zip(*basis, strict=True))
        estimates = multiply_matrices(
            multiply_matrices(transposed_basis, invert_matrix(multiply_matrices(basis, transposed_basis))), basis
        )
    totals = _convert_rows(np.eye(counts, dtype=np.int64))
    return _build_strategy(JOINTLY, workload, bounds, totals, (1,) * counts, estimates, measures_atoms=False)


def _build_atom_strategy(workload: Workload, bounds: ContributionBounds) -> WorkloadStrategy:
    """Every atom; a count is the sum of its own."""
    atoms = workload.matrix.shape[1]
    estimates = tuple(tuple(map(Fraction, row)) for row in _convert_rows(workload.matrix))
    totals = _convert_rows(np.eye(atoms, dtype=np.int64))
    return _build_strategy(ATOMS, workload, bounds, totals, (1,) * atoms, estimates)


def _build_atoms_and_total(
    workload: Workload, bounds: ContributionBounds, atom_weight: int, total_weight: int
) -> WorkloadStrategy:
    """Every atom with one weight and their sum with another, by least squares."""
    atoms = workload.matrix.shape[1]
    shrinkage = Fraction(total_weight**2, atom_weight**2 + atoms * total_weight**2)
    estimates = tuple(
        (*(Fraction(member) - shrinkage * sum(row) for member in row), shrinkage * sum(row))
        for row in _convert_rows(workload.matrix)
    )
    totals = (*_convert_rows(np.eye(atoms, dtype=np.int64)), (1,) * atoms)
    weights = (atom_weight,) * atoms + (total_weight,)
    return _build_strategy(ATOMS_AND_TOTAL, workload, bounds, totals, weights, estimates)


def _build_asked_and_atoms(
    workload: Workload, bounds: ContributionBounds, atom_weight: int, count_weight: int
) -> WorkloadStrategy:
    """Every atom with one weight and every count with another, by least squares."""
    counts, atoms = workload.matrix.shape
    matrix = _convert_rows(workload.matrix)
    common = multiply_matrices(matrix, tuple(zip(*matrix, strict=True)))
    mixed = [
        [count_weight**2 * value + atom_weight**2 * (i == j) for j, value in enumerate(row)]
        for i, row in enumerate(common)
    ]
    inverse = tuple(tuple(atom_weight**2 * value for value in row) for row in invert_matrix(mixed))
    count_parts = [tuple((i == j) - value for j, value in enumerate(row)) for i, row in enumerate(inverse)]
    atom_parts = multiply_matrices(inverse, matrix)
    estimates = tuple(of_atoms + of_counts for of_atoms, of_counts in zip(atom_parts, count_parts, strict=True))
    totals = (*_convert_rows(np.eye(atoms, dtype=np.int64)), *matrix)
    weights = (atom_weight,) * atoms + (count_weight,) * counts
    return _build_strategy(ASKED_AND_ATOMS, workload, bounds, totals, weights, estimates)


def _build_strategy(
    name: str,
    workload: Workload,
    bounds: ContributionBounds,
    totals: tuple[tuple[int, ...], ...],
    weights: tuple[int, ...],
    estimates: Matrix,
    measures_atoms: bool = True,
) -> WorkloadStrategy:
    """A strategy with what a row moves its totals by: those of atoms as they are, the counts by their atoms."""
    rows = np.array(totals, dtype=np.int64) if measures_atoms else workload.matrix
    changes = workload.compute_row_changes(rows, bounds) * np.array(weights, dtype=np.int64)[:, None]
    l1_sensitivity = max(bounds.replace_factor * int(changes.sum(axis=0).max(initial=0)), 1)
    l2_sensitivity_sq = max(bounds.replace_factor * int((changes**2).sum(axis=0).max(initial=0)), 1)
    return WorkloadStrategy(name, totals, weights, estimates, l1_sensitivity, l2_sensitivity_sq, measures_atoms)


def _find_best_weights(
    workload: Workload, bounds: ContributionBounds, extra_totals: IntMatrix, mean_variance: Callable[[float], float]
) -> tuple[int, int]:
    """Whole weights of the atoms and of the totals beside them, near the ratio of the least mean variance."""
    atom_changes = workload.compute_row_changes(np.eye(workload.matrix.shape[1], dtype=np.int64), bounds).sum(axis=0)
    extra_changes = workload.compute_row_changes(extra_totals, bounds).sum(axis=0)

    def compute_error(ratio: float) -> float:
        return float((atom_changes + ratio * extra_changes).max(initial=1)) ** 2 * mean_variance(ratio)

    best = min(range(len(WEIGHT_RATIOS)), key=lambda index: compute_error(WEIGHT_RATIOS[index]))
    low, high = WEIGHT_RATIOS[max(best - 1, 0)], WEIGHT_RATIOS[min(best + 1, len(WEIGHT_RATIOS) - 1)]
    for _ in range(16):
        lower, upper = low * (high / low) ** (1 / 3), low * (high / low) ** (2 / 3)
        low, high = (low, upper) if compute_error(lower) <= compute_error(upper) else (lower, high)
    best_fraction = Fraction(math.sqrt(low * high)).limit_denominator(MAX_WEIGHT_DENOMINATOR)
    return best_fraction.denominator, best_fraction.numerator


def _convert_rows(matrix: IntMatrix) -> tuple[tuple[int, ...], ...]:
    return tuple(map(tuple, matrix.tolist()))


@dataclass(frozen=True, eq=False, slots=True)
class JointCounts:
    """Two or more counts that are not public, their places, what they are called, and the epsilon for all of them."""

    bounds: ContributionBounds
    aggregates: tuple[Aggregate, ...]
    places: tuple[int, ...]
    labels: tuple[str, ...]
    epsilon: Fraction

    @property
    def filters(self) -> list[Predicate]:
        """The rows of each count, of those the question is about."""
        schema = self.bounds.schema
        return [
            aggregate.where
            if aggregate.column is None  # COUNT(x) is of the rows with a value
            else replace(build_whole_domain(schema.column(aggregate.column)), null=False)
            for aggregate in self.aggregates
        ]


def format_candidate_mechanism(name: str) -> str:
    """Return the name that a mechanism goes by, from what is listed among the candidates: there a strategy alone."""
    if name == AS_ASKED:
        return NOISE_NAMES[DiscreteLaplace]
    return f"{STRATEGY_PREFIX}{name})" if name in STRATEGIES else name


def plan_joint_counts(
    counts: JointCounts, separate_errors: Sequence[float], mechanism: str
) -> tuple[AdditiveNoise | None, tuple[Candidate, ...]]:
    """Measure all by the best strategy, or by the one of this name; None where they are better one by one.

    Also what was weighed.
    """
    errors = {AS_ASKED: [*separate_errors]}
    workload = Workload.of(counts.bounds, counts.filters)
    by_name = {} if workload is None else {option.name: option for option in _select_strategies(counts, workload)}
    errors |= {name: _compute_errors(option, counts.bounds, counts.epsilon) for name, option in by_name.items()}
    name = mechanism.removeprefix(STRATEGY_PREFIX).removesuffix(")") if mechanism else _select_least_error(errors)
    strategy = by_name.get(name)
    if strategy is None or workload is None:
        return None, _list_candidates(counts, errors, AS_ASKED)
    return _build_measurement(strategy, counts, workload), _list_candidates(counts, errors, name)


def _list_candidates(
    counts: JointCounts, errors: Mapping[str, Sequence[float]], chosen_name: str
) -> tuple[Candidate, ...]:
    """What was weighed for each count: as asked at its own share, by a strategy at that of all."""
    schema = counts.bounds.schema
    epsilons = counts.epsilon / len(counts.labels), counts.epsilon
    separate_cost, joint_cost = (Guarantee.dp(cost, schema.neighbors, schema.unit_name) for cost in epsilons)
    return tuple(
        Candidate(label, name, separate_cost if name == AS_ASKED else joint_cost, error[index], name == chosen_name)
        for index, label in enumerate(counts.labels)
        for name, error in errors.items()
    )


def compute_mean_errors(candidates: Sequence[Candidate]) -> dict[str, float]:
    """Compute the root mean square error over the counts, by strategy; nothing where no strategy was weighed."""
    by_strategy: dict[str, list[float]] = {}
    for candidate in candidates:
        if candidate.mechanism in STRATEGIES:
            by_strategy.setdefault(candidate.mechanism, []).append(candidate.expected_error or 0.0)
    return {name: math.sqrt(sum(error**2 for error in errors) / len(errors)) for name, errors in by_strategy.items()}


def _select_strategies(counts: JointCounts, workload: Workload) -> list[WorkloadStrategy]:
    """The strategies there are for these counts; none where there would be too many numbers."""
    cells = counts.bounds.cells or 1
    possible = list_workload_strategies(workload, counts.bounds)
    return [strategy for strategy in possible if cells * len(strategy.totals) * len(counts.aggregates) <= MAX_NUMBERS]


def _select_least_error(errors: Mapping[str, Sequence[float]]) -> str:
    """The least mean variance; of two nearly alike the first."""
    squares = {name: sum(error**2 for error in strategy_errors) for name, strategy_errors in errors.items()}
    best = AS_ASKED
    for name, square in squares.items():
        best = name if square < MIN_GAIN_RATIO * squares[best] else best
    return best


def _compute_errors(strategy: WorkloadStrategy, bounds: ContributionBounds, epsilon: Fraction) -> list[float]:
    scales = strategy.compute_scales(bounds)
    scale_variances = {scale: DiscreteLaplace(epsilon / scale, 1).variance() for scale in set(scales)}
    variances = [scale_variances[scale] for scale in scales]
    pairs = (zip(row, variances, strict=True) for row in strategy.estimates)
    return [math.sqrt(sum(float(weight) ** 2 * variance for weight, variance in terms if weight)) for terms in pairs]


def _build_measurement(strategy: WorkloadStrategy, counts: JointCounts, workload: Workload) -> AdditiveNoise:
    """One draw for all counts."""
    bounds = counts.bounds
    scales = zip(strategy.totals, strategy.compute_scales(bounds), strict=True)
    components = tuple(Component(total, scale, scale**2) for total, scale in scales)
    measures, estimates = _build_measures(strategy, counts, workload), tuple(map(WeightedSum, strategy.estimates))
    linear_query = LinearQuery(measures, components, estimates[0], (1,) * len(components), bounds.l0_bound)
    return replace(
        build_laplace(linear_query, counts.epsilon),
        strategy=strategy.name,
        estimates=estimates,
        privacy_cost=PrivacyCost(counts.epsilon, strategy.compute_rho(counts.epsilon)),
        aggregates=counts.places,
    )


def _build_measures(strategy: WorkloadStrategy, counts: JointCounts, workload: Workload) -> tuple[ScanMeasure, ...]:
    """The rows of each count, or of each atom: those of its counts that are of no other."""
    bounds, filters = counts.bounds, counts.filters
    if strategy.measures_atoms:
        sides = [(_negate_predicate(condition, bounds.schema), condition) for condition in filters]
        atoms = workload.matrix.T.tolist()
        filters = [AllOf(tuple(side[member] for side, member in zip(sides, atom, strict=True))) for atom in atoms]
    return tuple(
        ScanMeasure("rows", where=simplify_within(condition, bounds.where, bounds.schema)) for condition in filters
    )


def _negate_predicate(predicate: Predicate, schema: Schema) -> Predicate:
    """A predicate that holds of just the other rows."""
    if isinstance(predicate, AllOf | AnyOf):
        kind = AnyOf if isinstance(predicate, AllOf) else AllOf
        return kind(tuple(_negate_predicate(part, schema) for part in predicate.parts))
    return complement_condition(predicate, schema.column(predicate.column))
