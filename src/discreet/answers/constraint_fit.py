"""Counts fitted to constraints: stated rules, whole numbers, parts that add up.

What an analyst states is a public number that she brings: she could have made the counts fit it herself, so it leaves
the guarantee as it is. A fact taken from the rows would not, and is refused.

Several counts are fitted by solving for the parts that they are made of, not for the counts. So what follows from the
parts holds exactly, whatever the solver's last digits: that counts include one another, exclude one another, or make up
a third.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from discreet.errors import InvalidInput, Unsupported
from discreet.estimation.constraint_set import (
    CONSTRAINT_SYNTAX,
    Constraint,
    Equalities,
    StatedConstraint,
    at_least,
    at_most,
    decreasing,
    fixed,
    increasing,
    total,
)
from discreet.estimation.least_squares import Sparse
from discreet.estimation.linear_refinement import Refined, reconcile
from discreet.estimation.quadratic_program import solve_with_clarabel
from discreet.estimation.raking import round_to_total
from discreet.numeric import as_int, parse_rational
from discreet.planner.domain_partition import LARGE_GRID_CELLS, serialize_large_steps
from discreet.planner.plan import Plan
from discreet.planner.structural_constraints import (
    CountLimits,
    CountParts,
    StructuralConstraints,
    find_structural_constraints,
)

CountArray = NDArray[np.float64]
BoolArray = NDArray[np.bool_]
CellIndices = NDArray[np.intp]
SNAP_TOLERANCE = 1e-6
"""A number so near to a whole one is that one."""
END_TOLERANCE = 1e-6
MAX_COUNT = 1e12
MAX_JOINTLY_ROUNDED = 2**13
"""The parts of so many counts are rounded to what is best for these; those of more each for itself."""
TIE_BREAK_WEIGHT = 1e-4
"""What the choice between parts of the same counts weighs, against a step of one in one count."""
MIN_CELLS_KEEPING_TOTAL = 10
"""From so many cells on, counts that may not be below 0 are nearer the truth if their total stays as it was drawn."""
KEPT_TOTAL_REASON = "together the counts keep the total they were drawn with, as far as that fits"
CONSTRAINT_PATTERN = re.compile(r"(total|each)\s*(<=|>=|=)\s*(\S+)")
FACT_REFUSED = (
    "a fact taken from the data set tells about its rows, so it is not used in an answer; use the library's reconcile "
    "with accept_facts=True, which says what it costs"
)
STATED_PREFIX = "you stated, and it is taken to be true of every data set: "


@dataclass(frozen=True, eq=False, slots=True)
class CountRules:
    """What some counts must fit: the structure, and constraints of the analyst on the cells of the one count."""

    structure: StructuralConstraints
    constraints: tuple[Constraint, ...] = ()
    reasons: tuple[str, ...] = ()


def build_count_rules(plan: Plan, constraints: Sequence[StatedConstraint] = ()) -> CountRules:
    """Build what the counts of a plan must fit; refused, from public facts alone, where that is not of one count."""
    count_structure = find_structural_constraints(plan.schema, plan.query, len(plan.list_cells()))
    rules = CountRules(count_structure, (), count_structure.words)
    for constraint in constraints:
        rules = _add_stated(rules, plan, constraint)
    return rules


def require_countable(counts: int, constraints: Sequence[StatedConstraint]) -> None:
    """Refuse constraints that are not on one count with noise, in cells that are public."""
    if constraints and counts != 1:
        raise InvalidInput(
            "a constraint is of one COUNT with noise, alone or in the groups of GROUP BY; not of several counts, of a "
            "HISTOGRAM or of a ROLLUP, and not where the schema makes the count public"
        )


def _add_stated(rules: CountRules, plan: Plan, constraint: StatedConstraint) -> CountRules:
    if isinstance(constraint, Constraint):
        return _add_constraint(rules, constraint)
    text = " ".join(constraint.split()).lower()
    if text.startswith("fact"):
        raise InvalidInput(FACT_REFUSED)
    new_rules = replace(rules, reasons=(*rules.reasons, STATED_PREFIX + text))
    if text in {"rising", "falling"}:
        return replace(new_rules, constraints=(*rules.constraints, _build_monotone_constraint(plan, text)))
    match = CONSTRAINT_PATTERN.fullmatch(text)
    if match is None:
        raise InvalidInput(f"{constraint[:40]!r} is not a constraint; {CONSTRAINT_SYNTAX}")
    scope, comparison, number = match.groups()
    subject = f"the number of {constraint[:40]!r}"
    value = as_int(parse_rational(number, subject), subject, minimum=0)
    if scope == "each":
        return _add_cell_bound(new_rules, comparison, value)
    return replace(new_rules, structure=_bound_total(rules.structure, comparison, value))


def _add_constraint(rules: CountRules, constraint: Constraint) -> CountRules:
    if not constraint.structural:
        raise InvalidInput(FACT_REFUSED)
    terms = constraint.bind(np.zeros(rules.structure.possible.shape[1]))
    if isinstance(terms, Equalities) and terms.floating:
        raise InvalidInput("a constraint of an answer names its total, such as total(1000); the noisy one may not fit")
    reasons = (*rules.reasons, STATED_PREFIX + constraint.name)
    return replace(rules, constraints=(*rules.constraints, constraint), reasons=reasons)


def _build_monotone_constraint(plan: Plan, direction: str) -> Constraint:
    """An order along the one key, missing values apart."""
    places = [index for index, cell in enumerate(plan.list_cells()) if None not in cell]
    if len(plan.query.keys) != 1:
        raise InvalidInput(
            f"{direction} is along one group key, and this question has {len(plan.query.keys)}; leave it out"
        )
    return increasing(of=places) if direction == "rising" else decreasing(of=places)


def _add_cell_bound(rules: CountRules, comparison: str, value: int) -> CountRules:
    if comparison == ">=":
        return replace(rules, constraints=(*rules.constraints, at_least(value)))
    if comparison == "=":
        raise InvalidInput("that each count is one number leaves nothing to ask; write each <= or each >=")
    (ends,) = rules.structure.limits
    each = value if ends.max_cell is None else min(value, ends.max_cell)
    return replace(rules, structure=replace(rules.structure, limits=(replace(ends, max_cell=each),)))


def _bound_total(structure: StructuralConstraints, comparison: str, value: int) -> StructuralConstraints:
    """The structure with a bound on what the cells of the one count add up to."""
    (ends,) = structure.limits
    least = max(ends.min_total, value) if comparison in {"=", ">="} else ends.min_total
    most = ends.max_total
    if comparison in {"=", "<="}:
        most = value if most is None else min(most, value)
    if most is not None and least > most:
        raise InvalidInput(
            f"the counts cannot add up to at least {least:,} and to at most {most:,}; leave out what is not true"
        )
    return replace(structure, limits=(CountLimits(least, most, ends.max_cell),))


def fit_integer_counts(
    parts: CountParts, noisy: CountArray, variance: CountArray, *, min_cells_keeping_total: int
) -> CountArray:
    """Fit whole counts, by count and cell, near the noisy ones, squares weighed by 1/variance.

    From `min_cells_keeping_total` cells on each count keeps its total, once the totals fit: else what is lifted to 0
    would lift it.
    """
    if np.abs(noisy).max() > MAX_COUNT:
        raise Unsupported("whole numbers are kept up to 10^12, beyond which floats blur them")
    with serialize_large_steps(parts.labels.size > LARGE_GRID_CELLS):
        partition = CountPartition(parts.labels, noisy.shape[1], parts.limits)
        totals = _fit_totals(partition, noisy, variance) if partition.cells >= min_cells_keeping_total else None
        nearest_parts = _fit_parts(partition, noisy, variance, totals)
        if partition.possible.sum() <= MAX_JOINTLY_ROUNDED:
            nearest_parts = _round_counts(partition, nearest_parts, totals)
        return partition.compute_counts(_round_parts(partition, nearest_parts))


@dataclass(frozen=True, eq=False)
class CountPartition:
    """How counts, in so many cells, are made of parts: their labels, and the ends of their sum."""

    labels: NDArray[np.int64]
    cells: int
    ends: CountLimits

    @cached_property
    def kinds(self) -> tuple[BoolArray, CellIndices]:
        """The different sets of counts that parts are in, a column for each; and which of them each part is in."""
        sets, set_index = np.unique(self.labels > 0, axis=1, return_inverse=True)
        return sets, set_index.ravel()

    @cached_property
    def possible(self) -> BoolArray:
        """By count and cell, whether it has a part."""
        return np.stack([np.isin(np.arange(1, self.cells + 1), count_labels) for count_labels in self.labels])

    @cached_property
    def matrix(self) -> Sparse:
        """A row for each possible count and cell, a column for each part; 1 where it is in it."""
        count, part = np.nonzero(self.labels)
        row_index = np.cumsum(self.possible).reshape(self.possible.shape) - 1
        rows = row_index[count, self.labels[count, part] - 1]
        return _build_incidence_matrix(rows, part, (int(self.possible.sum()), self.labels.shape[1]))

    @cached_property
    def total_matrix(self) -> Sparse:
        """A row for each count, a column for each part; 1 where it is in it in some cell."""
        count, part = np.nonzero(self.labels)
        return _build_incidence_matrix(count, part, (len(self.labels), self.labels.shape[1]))

    def compute_counts(self, values: CountArray) -> CountArray:
        """The counts, by count and cell."""
        counts = np.zeros(self.possible.shape)
        counts[self.possible] = self.matrix @ values
        return counts

    def clip_to_ends(self, values: CountArray) -> CountArray:
        """The same parts, with what a solver left below 0 or beyond an end taken away."""
        values = np.maximum(values, 0.0)
        part_sum, ends = float(values.sum()), self.ends
        target_sum = max(ends.min_total, part_sum if ends.max_total is None else min(part_sum, ends.max_total))
        return values * (target_sum / part_sum) if part_sum else np.full(len(values), target_sum / len(values))


def _build_incidence_matrix(rows: CellIndices, columns: CellIndices, shape: tuple[int, int]) -> Sparse:
    from scipy import sparse

    matrix: Sparse = sparse.csr_array((np.ones(len(rows)), (rows, columns)), shape=shape)
    return matrix


def _fit_totals(partition: CountPartition, noisy: CountArray, variance: CountArray) -> CountArray:
    """The totals of the counts over all cells, nearest to those that were drawn, as one cell has them."""
    total_partition = CountPartition(partition.kinds[0].astype(np.int64), 1, partition.ends)
    noisy_totals = np.where(partition.possible, noisy, 0.0).sum(axis=1, keepdims=True)
    total_variances = np.where(partition.possible, variance, 0.0).sum(axis=1, keepdims=True)
    parts = _fit_parts(total_partition, noisy_totals, total_variances, None)
    return np.asarray(total_partition.compute_counts(parts)[:, 0])


def _fit_parts(
    partition: CountPartition, noisy: CountArray, variance: CountArray, totals: CountArray | None
) -> CountArray:
    """Parts whose counts are nearest, and have these totals. Nothing else pulls a part: it is not weighed itself."""
    from scipy import sparse

    targets, variances = noisy[partition.possible], variance[partition.possible]
    equal, right = sparse.hstack([sparse.diags_array(-np.sqrt(variances / variances.max())), partition.matrix]), targets
    if totals is not None:
        total_rows = sparse.hstack([sparse.csr_array((len(totals), len(targets))), partition.total_matrix])
        equal, right = sparse.vstack([equal, total_rows]), np.concatenate([targets, totals])
    adding = sparse.csr_array(np.repeat([0.0, 1.0], partition.matrix.shape)[None, :])
    ends, beyond, level = partition.ends, [], np.zeros(partition.matrix.shape[1])
    if ends.max_total is not None and ends.min_total == ends.max_total:
        equal, right = sparse.vstack([equal, adding]), np.append(right, ends.max_total)
    elif ends.max_total is not None:
        beyond, level = [adding, -adding], np.concatenate([level, [ends.max_total, -ends.min_total]])
    zeros, identity = sparse.csr_array(partition.matrix.shape[::-1]), sparse.eye_array(partition.matrix.shape[1])
    below = sparse.vstack([sparse.hstack([zeros, -identity]), *beyond])
    return partition.clip_to_ends(_solve_least_squares(equal, right, below, level, len(targets)))


def _solve_least_squares(
    equal: Sparse, right: CountArray, below: Sparse, level: CountArray, weighted_count: int
) -> CountArray:
    """Of all x with equal x = right and below x <= level one whose first, which are weighed, are shortest: the rest."""
    from scipy import sparse

    unit = max(1.0, float(np.abs(right).max()))
    squares = np.zeros(equal.shape[1])
    squares[:weighted_count] = 1
    limits = np.concatenate([right, level]) / unit
    solution = solve_with_clarabel(squares, sparse.vstack([equal, below]), limits, len(right))
    values = np.array(solution.x)[weighted_count:] * unit
    if not np.isfinite(values).all():
        raise Unsupported("the solver found no parts that make these counts; ask for fewer counts at once")
    return values


def _round_counts(partition: CountPartition, values: CountArray, totals: CountArray | None) -> CountArray:
    """Parts that make whole counts, the nearest in squares to those of these, with the totals rounded.

    At whole numbers squares are on a convex line of pieces, so a linear program finds them: up to 1 above the whole
    number below, or more, or less. Where counts are nested or apart its corners are whole, elsewhere nearly so.
    """
    from scipy import sparse
    from scipy.optimize import linprog

    targets = _snap_to_integers(partition.matrix @ values)
    floors, identity = np.floor(targets), sparse.eye_array(len(targets))
    remainders = targets - floors
    sum_rows, sum_limits = _build_sum_bounds(partition, totals)
    # Parts that are in many counts are preferred, which leaves few of them, one inside the other.
    preferences = -TIE_BREAK_WEIGHT * (partition.labels > 0).mean(axis=0) ** 2
    upper_limits = np.repeat([np.inf, 1.0, np.inf], [len(values), len(targets), 2 * len(targets)])
    solution = linprog(
        np.concatenate([preferences, 1 - 2 * remainders, 3 - 2 * remainders, 1 + 2 * remainders]),
        A_eq=sparse.hstack([partition.matrix, -identity, -identity, identity]),
        b_eq=floors,
        A_ub=sparse.hstack([sum_rows, sparse.csr_array((len(sum_limits), 3 * len(targets)))]),
        b_ub=sum_limits,
        bounds=np.column_stack([np.zeros(len(upper_limits)), upper_limits]),
        method="highs-ds",
    )
    return partition.clip_to_ends(solution.x[: len(values)]) if solution.status == 0 else values


def _build_sum_bounds(partition: CountPartition, totals: CountArray | None) -> tuple[Sparse, CountArray]:
    """Rows that are at most so much: the sum of all parts within its ends, each total beside a whole number."""
    from scipy import sparse

    rows, ends = sparse.csr_array(np.ones((1, partition.labels.shape[1]))), partition.ends
    low = np.array([float(ends.min_total)])
    high = np.array([MAX_COUNT if ends.max_total is None else float(ends.max_total)])
    if totals is not None:
        snapped_totals = _snap_to_integers(totals)
        rows = sparse.vstack([rows, partition.total_matrix])
        low = np.append(low, np.floor(snapped_totals))
        high = np.append(high, np.ceil(snapped_totals))
    return sparse.vstack([rows, -rows]), np.concatenate([high, -low])


def _round_parts(partition: CountPartition, values: CountArray) -> CountArray:
    """Whole parts near these: first their sum, within its ends, then that of each kind, then each part."""
    snapped_parts, (_, kind), ends = _snap_to_integers(values), partition.kinds, partition.ends
    sums: CountArray = np.bincount(kind, snapped_parts).astype(np.float64)
    target_sum = max(ends.min_total, round(float(sums.sum())))
    kind_sums = round_to_total(sums, target_sum if ends.max_total is None else min(target_sum, ends.max_total))
    integer_parts = np.zeros(len(snapped_parts))
    alike = np.split(np.argsort(kind, kind="stable"), np.cumsum(np.bincount(kind))[:-1])
    for places, kind_sum in zip(alike, kind_sums, strict=True):
        integer_parts[places] = round_to_total(snapped_parts[places], int(kind_sum))
    return integer_parts


def _snap_to_integers(values: CountArray) -> CountArray:
    return np.where(np.abs(values - np.round(values)) <= SNAP_TOLERANCE, np.round(values), values)


@dataclass(frozen=True, eq=False)
class CountFit:
    """Noisy counts with their variances, by count and cell, and the rules that they are made to fit."""

    rules: CountRules
    noisy: CountArray
    variance: CountArray

    @property
    def values(self) -> CountArray:
        """The numbers that fit; refused where there are none."""
        return self._solution[0]

    @property
    def parts(self) -> list[tuple[CellIndices, Refined]]:
        """What was solved alone: its places, flat, and the numbers before any total was put to an end of its range."""
        return self._solution[1]

    @cached_property
    def _solution(self) -> tuple[CountArray, list[tuple[CellIndices, Refined]]]:
        if self.noisy.size == 1 and not self.rules.constraints:
            return self._fit_single_count(), []
        parts = self.rules.structure.parts
        if parts is not None:
            min_cells = MIN_CELLS_KEEPING_TOTAL
            return fit_integer_counts(parts, self.noisy, self.variance, min_cells_keeping_total=min_cells), []
        if self.rules.structure.ordered_pairs:
            return self._fit_ordered_counts()
        values, separate_fits = np.zeros(self.noisy.shape), []
        for count, noisy_row in enumerate(self.noisy):
            cells = self._find_cells(count)
            if len(cells):
                free_fit, bounded_fit = self._fit_one_count(count, noisy_row)
                values[count][cells] = bounded_fit.values
                separate_fits.append((cells + count * self.noisy.shape[1], free_fit))
        return values, separate_fits

    def _fit_single_count(self) -> CountArray:
        """A single count, which is nearest where it is, or at an end; no solver is loaded for that."""
        ends = self.rules.structure.limits[0]
        upper_limits = [limit for limit in (ends.max_total, ends.max_cell) if limit is not None]
        nearest = min([max(round(float(self.noisy[0, 0])), ends.min_total), *upper_limits])
        return np.where(self.rules.structure.possible, float(nearest), 0.0)

    def is_tied(self, count: int) -> bool:
        """Whether its cells are tied by an equation, so that each bears on the others."""
        ends = self.rules.structure.limits[count]
        return ends.min_total == ends.max_total or bool(self.rules.constraints)

    def keeps_total(self, count: int) -> bool:
        """Whether its cells keep their total: else each that is lifted to 0 would lift the total too."""
        structure = self.rules.structure
        if structure.limits[count].min_total == structure.limits[count].max_total:
            return False
        if structure.parts is not None:
            return bool(self.noisy.shape[1] >= MIN_CELLS_KEEPING_TOTAL)
        if count in structure.rising_counts or structure.ordered_pairs or self.rules.constraints:
            return False
        return len(self._find_cells(count)) >= MIN_CELLS_KEEPING_TOTAL

    def _clip_total(self, count: int, noisy_total: int, cells: int) -> int:
        """The total that was drawn, as far as it is possible."""
        ends = self.rules.structure.limits[count]
        upper_limits = [ends.max_total, None if ends.max_cell is None else ends.max_cell * cells]
        return min([max(noisy_total, ends.min_total), *(limit for limit in upper_limits if limit is not None)])

    def _find_cells(self, count: int) -> CellIndices:
        """The cells that are solved for: those that cannot have a row are left out, unless the analyst names cells."""
        return np.flatnonzero(self.rules.structure.possible[count] | bool(self.rules.constraints))

    def _fit_one_count(self, count: int, noisy: CountArray, below: CountArray | None = None) -> tuple[Refined, Refined]:
        """One count in whole numbers, where `below` is given in each cell at most that."""
        cells = self._find_cells(count)
        positions = np.full(self.noisy.shape[1], -1, dtype=np.intp)
        positions[cells] = np.arange(len(cells))
        rules = [at_least(0), *self._iterate_count_constraints(count, positions), *self._list_stated_constraints()]
        if below is not None:
            rules.append(at_most(below[cells]))
        if self.keeps_total(count):
            rules.append(total(self._clip_total(count, round(float(noisy[cells].sum())), len(cells))))
        problem = noisy[cells], self.variance[count][cells], rules, {count: positions[cells]}
        try:
            return self._fit_within_ends(*problem, whole=True)
        except Unsupported:
            return self._fit_within_ends(*problem, whole=False)

    def _fit_ordered_counts(self) -> tuple[CountArray, list[tuple[CellIndices, Refined]]]:
        """Counts that are ordered in every cell: all at once, then in whole numbers one by one, the larger first."""
        places = np.flatnonzero(self.rules.structure.possible)
        positions = np.full(self.noisy.shape, -1, dtype=np.intp)
        positions.flat[places] = np.arange(len(places))
        count_positions = {count: row[row >= 0] for count, row in enumerate(positions)}
        rules = [at_least(0)]
        for count, row in enumerate(positions):
            rules.extend(self._iterate_count_constraints(count, row))
        for count, larger_count in self.rules.structure.ordered_pairs:
            both = np.column_stack((positions[count], positions[larger_count]))
            rules.extend(increasing(of=pair) for pair in both[(both >= 0).all(axis=1)])
        free_fit, bounded_fit = self._fit_within_ends(
            self.noisy.flat[places], self.variance.flat[places], rules, count_positions, whole=False
        )
        near, values = np.zeros(positions.shape), np.zeros(positions.shape)
        near.flat[places] = bounded_fit.values
        for count in self._sort_larger_first():
            cells = self._find_cells(count)
            larger = [values[j] for i, j in self.rules.structure.ordered_pairs if i == count]
            if len(cells):
                below = np.minimum.reduce(larger) if larger else None
                values[count][cells] = self._fit_one_count(count, near[count], below)[1].values
        return values, [(places, free_fit)]

    def _sort_larger_first(self) -> list[int]:
        pairs = self.rules.structure.ordered_pairs

        def compute_depth(count: int) -> int:
            return max((1 + compute_depth(j) for i, j in pairs if i == count), default=0)

        return sorted(range(len(self.noisy)), key=compute_depth)

    def _iterate_count_constraints(self, count: int, positions: CellIndices) -> Iterator[Constraint]:
        """The rules of one count, whose cells are at these places; -1 where a cell is left out."""
        structure, used_positions = self.rules.structure, positions[positions >= 0]
        ends = structure.limits[count]
        if len(used_positions) and ends.max_total == ends.min_total:
            yield total(ends.min_total, of=used_positions)
        max_cell = math.inf if ends.max_total is None else ends.max_total  # the most of all is the most of each, too
        if len(used_positions) and ends.max_cell is not None and ends.max_cell < max_cell:
            yield at_most(ends.max_cell, of=used_positions)
        if count in structure.rising_counts:
            yield increasing(of=positions[list(structure.rising_cells)])

    def _list_stated_constraints(self) -> list[Constraint]:
        """What the analyst states of the cells of the one count, all of which are there then."""
        if not self.rules.constraints:
            return []
        empty = np.flatnonzero(~self.rules.structure.possible[0])
        return [*self.rules.constraints, *([fixed(0, of=empty)] if len(empty) else [])]

    def _fit_within_ends(
        self,
        noisy: CountArray,
        variance: CountArray,
        rules: list[Constraint],
        count_positions: Mapping[int, CellIndices],
        *,
        whole: bool,
    ) -> tuple[Refined, Refined]:
        """The nearest numbers, first with the cells of each count free to add up to anything, then within their ends.

        Beyond an end, by convexity, the nearest numbers that fit add up to that end; one count at a time, the farthest
        first, since what is forced on one may bring another back.
        """
        free_fit = fit = reconcile(noisy, rules, variance, whole=whole)
        for _ in count_positions:
            excesses = self._find_excesses(fit.values, count_positions)
            if not excesses:
                break
            _, end, places = max(excesses, key=lambda excess: excess[0])
            rules = [*rules, total(end, of=places)]
            fit = reconcile(noisy, rules, variance, whole=whole)
        return free_fit, fit

    def _find_excesses(
        self, values: CountArray, count_positions: Mapping[int, CellIndices]
    ) -> list[tuple[float, float, CellIndices]]:
        """How far each count adds up to more or less than it may, the end it is beyond, and its places."""
        excesses = []
        for count, places in count_positions.items():
            ends, count_sum = self.rules.structure.limits[count], float(values[places].sum())
            end = max(ends.min_total, count_sum if ends.max_total is None else min(count_sum, ends.max_total))
            if len(places) and ends.min_total != ends.max_total and abs(end - count_sum) > END_TOLERANCE:
                excesses.append((abs(end - count_sum), end, places))
        return excesses
