"""The numbers nearest to noisy counts that fit all rules: whole ones where that can be."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from discreet.custodian.parts import fit_integer_counts
from discreet.custodian.stating import CountRules
from discreet.errors import Unsupported
from discreet.inference.constraints import Constraint, at_least, at_most, fixed, increasing, total
from discreet.inference.reconcile import reconcile
from discreet.inference.refined import Refined

CountArray = NDArray[np.float64]
CellIndices = NDArray[np.intp]
END_TOLERANCE = 1e-6
MIN_CELLS_KEEPING_TOTAL = 10
"""From so many cells on, counts that may not be below 0 are nearer the truth if their total stays as it was drawn."""
KEPT_TOTAL_REASON = "together the counts keep the total they were drawn with, as far as that fits"


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
        if self.rules.structure.parts is not None:
            return fit_integer_counts(
                self.rules.structure.parts, self.noisy, self.variance, min_cells_keeping_total=MIN_CELLS_KEEPING_TOTAL
            ), []
        if self.rules.structure.ordered_pairs:
            return self._fit_ordered_counts()
        values, parts = np.zeros(self.noisy.shape), []
        for count, noisy_row in enumerate(self.noisy):
            cells = self._find_cells(count)
            if len(cells):
                free_fit, bounded_fit = self._fit_one_count(count, noisy_row)
                values[count][cells] = bounded_fit.values
                parts.append((cells + count * self.noisy.shape[1], free_fit))
        return values, parts

    def _fit_single_count(self) -> CountArray:
        """A single count, which is nearest where it is, or at an end; no solver is loaded for that."""
        ends = self.rules.structure.limits[0]
        upper_limits = [limit for limit in (ends.max_total, ends.max_cell) if limit is not None]
        nearest = min([max(round(float(self.noisy[0, 0])), ends.min_total), *upper_limits])
        return np.where(self.rules.structure.possible, float(nearest), 0.0)

    def is_tied(self, count: int) -> bool:
        """Whether its cells are tied by an equation, so that each tells something of the others."""
        ends = self.rules.structure.limits[count]
        return ends.min_total == ends.max_total or bool(self.rules.constraints)

    def keeps_total(self, count: int) -> bool:
        """Whether its cells keep their total: else each that is lifted to 0 would lift the total too."""
        structure = self.rules.structure
        if structure.parts is not None:
            return (
                structure.limits[count].min_total != structure.limits[count].max_total
                and self.noisy.shape[1] >= MIN_CELLS_KEEPING_TOTAL
            )
        free = (
            structure.limits[count].min_total != structure.limits[count].max_total
            and count not in structure.rising_counts
        )
        return (
            free
            and not structure.ordered_pairs
            and not self.rules.constraints
            and len(self._find_cells(count)) >= MIN_CELLS_KEEPING_TOTAL
        )

    def _clip_total(self, count: int, noisy_total: int, cells: int) -> int:
        """The total that was drawn, as far as it is possible."""
        ends = self.rules.structure.limits[count]
        upper_limits = [ends.max_total, None if ends.max_cell is None else ends.max_cell * cells]
        return min([max(noisy_total, ends.min_total), *(limit for limit in upper_limits if limit is not None)])

    def _find_cells(self, count: int) -> CellIndices:
        """The cells that are solved for: those that cannot have a row are left out, unless the analyst names cells."""
        return np.flatnonzero(self.rules.structure.possible[count] | bool(self.rules.constraints))

    def _fit_one_count(self, count: int, noisy: CountArray, below: CountArray | None = None) -> tuple[Refined, Refined]:
        """One count in whole numbers, in each cell at most what is `below` which it must stay."""
        cells = self._find_cells(count)
        positions = np.full(self.noisy.shape[1], -1, dtype=np.intp)
        positions[cells] = np.arange(len(cells))
        rules = [at_least(0), *self._iterate_count_constraints(count, positions), *self._list_stated_constraints()]
        if below is not None:
            rules.append(at_most(below[cells]))
        if self.keeps_total(count):
            rules.append(total(self._clip_total(count, round(float(noisy[cells].sum())), len(cells))))
        try:
            return self._fit_within_ends(
                noisy[cells], self.variance[count][cells], rules, {count: positions[cells]}, whole=True
            )
        except Unsupported:
            return self._fit_within_ends(
                noisy[cells], self.variance[count][cells], rules, {count: positions[cells]}, whole=False
            )

    def _fit_ordered_counts(self) -> tuple[CountArray, list[tuple[CellIndices, Refined]]]:
        """Counts that are ordered in every cell: all at once, then in whole numbers one by one, the larger first."""
        places = np.flatnonzero(self.rules.structure.possible)
        positions = np.full(self.noisy.shape, -1, dtype=np.intp)
        positions.flat[places] = np.arange(len(places))
        count_positions = {count: row[row >= 0] for count, row in enumerate(positions)}
        rules = [
            at_least(0),
            *(rule for count, row in enumerate(positions) for rule in self._iterate_count_constraints(count, row)),
        ]
        rules.extend(self._iterate_cell_constraints(positions))
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
        # The most of all cells is the most of each, too.
        if (
            len(used_positions)
            and ends.max_cell is not None
            and (ends.max_total is None or ends.max_cell < ends.max_total)
        ):
            yield at_most(ends.max_cell, of=used_positions)
        if count in structure.rising_counts:
            yield increasing(of=positions[list(structure.rising_cells)])

    def _iterate_cell_constraints(self, positions: CellIndices) -> Iterator[Constraint]:
        for smaller, larger in self.rules.structure.ordered_pairs:
            both = np.column_stack((positions[smaller], positions[larger]))
            yield from (increasing(of=pair) for pair in both[(both >= 0).all(axis=1)])

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
            forced_total = max(
                self._find_forced_totals(fit.values, count_positions), key=lambda candidate: candidate[0], default=None
            )
            if forced_total is None:
                break
            rules = [*rules, forced_total[1]]
            fit = reconcile(noisy, rules, variance, whole=whole)
        return free_fit, fit

    def _find_forced_totals(
        self, values: CountArray, count_positions: Mapping[int, CellIndices]
    ) -> Iterator[tuple[float, Constraint]]:
        """How far each count adds up to more or less than it may, and the total at the end it is beyond."""
        for count, places in count_positions.items():
            ends, count_sum = self.rules.structure.limits[count], float(values[places].sum())
            end = max(ends.min_total, count_sum if ends.max_total is None else min(count_sum, ends.max_total))
            if len(places) and ends.min_total != ends.max_total and abs(end - count_sum) > END_TOLERANCE:
                yield abs(end - count_sum), total(end, of=places)
