"""The numbers nearest to noisy counts that fit all rules: whole ones where that can be."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from discreet.custodian.parts import nearest_whole
from discreet.custodian.stating import Rules
from discreet.errors import Unsupported
from discreet.inference.constraints import Constraint, at_least, at_most, fixed, increasing, total
from discreet.inference.reconcile import reconcile
from discreet.inference.refined import Refined

Array = NDArray[np.float64]
Places = NDArray[np.intp]
NEAR = 1e-6
KEEPING = 10
"""From so many cells on, counts that may not be below 0 are nearer the truth if their total stays as it was drawn."""
KEPT = "together the counts keep the total they were drawn with, as far as that fits"


@dataclass(frozen=True, eq=False)
class Fit:
    """Noisy counts with their variances, by count and cell, and the rules that they are made to fit."""

    rules: Rules
    noisy: Array
    variance: Array

    @property
    def values(self) -> Array:
        """The numbers that fit; refused where there are none."""
        return self._solved[0]

    @property
    def parts(self) -> list[tuple[Places, Refined]]:
        """What was solved alone: its places, flat, and the numbers before any total was put to an end of its range."""
        return self._solved[1]

    @cached_property
    def _solved(self) -> tuple[Array, list[tuple[Places, Refined]]]:
        if self.noisy.size == 1 and not self.rules.own:
            return self._one(), []
        if self.rules.structure.parts is not None:
            return nearest_whole(self.rules.structure.parts, self.noisy, self.variance, keeping=KEEPING), []
        if self.rules.structure.pairs:
            return self._together()
        values, parts = np.zeros(self.noisy.shape), []
        for count, own in enumerate(self.noisy):
            cells = self._cells(count)
            if len(cells):
                first, fit = self._alone(count, own)
                values[count][cells] = fit.values
                parts.append((cells + count * self.noisy.shape[1], first))
        return values, parts

    def _one(self) -> Array:
        """A single count, which is nearest where it is, or at an end; no solver is loaded for that."""
        ends = self.rules.structure.ends[0]
        tops = [most for most in (ends.most, ends.each) if most is not None]
        nearest = min([max(round(float(self.noisy[0, 0])), ends.least), *tops])
        return np.where(self.rules.structure.possible, float(nearest), 0.0)

    def tied(self, count: int) -> bool:
        """Whether its cells are tied by an equation, so that each tells something of the others."""
        ends = self.rules.structure.ends[count]
        return ends.least == ends.most or bool(self.rules.own)

    def keeps(self, count: int) -> bool:
        """Whether its cells keep their total: else each that is lifted to 0 would lift the total too."""
        made = self.rules.structure
        if made.parts is not None:
            return made.ends[count].least != made.ends[count].most and self.noisy.shape[1] >= KEEPING
        free = made.ends[count].least != made.ends[count].most and count not in made.chained
        return free and not made.pairs and not self.rules.own and len(self._cells(count)) >= KEEPING

    def _kept(self, count: int, drawn: int, cells: int) -> int:
        """The total that was drawn, as far as it is possible."""
        ends = self.rules.structure.ends[count]
        tops = [ends.most, None if ends.each is None else ends.each * cells]
        return min([max(drawn, ends.least), *(top for top in tops if top is not None)])

    def _cells(self, count: int) -> Places:
        """The cells that are solved for: those that cannot have a row are left out, unless the analyst names cells."""
        return np.flatnonzero(self.rules.structure.possible[count] | bool(self.rules.own))

    def _alone(self, count: int, noisy: Array, below: Array | None = None) -> tuple[Refined, Refined]:
        """One count in whole numbers, in each cell at most what is `below` which it must stay."""
        cells = self._cells(count)
        at = np.full(self.noisy.shape[1], -1, dtype=np.intp)
        at[cells] = np.arange(len(cells))
        rules = [at_least(0), *self._of_count(count, at), *self._stated()]
        if below is not None:
            rules.append(at_most(below[cells]))
        if self.keeps(count):
            rules.append(total(self._kept(count, round(float(noisy[cells].sum())), len(cells))))
        try:
            return self._settled(noisy[cells], self.variance[count][cells], rules, {count: at[cells]}, whole=True)
        except Unsupported:
            return self._settled(noisy[cells], self.variance[count][cells], rules, {count: at[cells]}, whole=False)

    def _together(self) -> tuple[Array, list[tuple[Places, Refined]]]:
        """Counts that are ordered in every cell: all at once, then in whole numbers one by one, the larger first."""
        places = np.flatnonzero(self.rules.structure.possible)
        at = np.full(self.noisy.shape, -1, dtype=np.intp)
        at.flat[places] = np.arange(len(places))
        own = {count: row[row >= 0] for count, row in enumerate(at)}
        rules = [at_least(0), *(rule for count, row in enumerate(at) for rule in self._of_count(count, row))]
        rules.extend(self._in_every_cell(at))
        first, fit = self._settled(self.noisy.flat[places], self.variance.flat[places], rules, own, whole=False)
        near, values = np.zeros(at.shape), np.zeros(at.shape)
        near.flat[places] = fit.values
        for count in self._larger_first():
            cells = self._cells(count)
            larger = [values[j] for i, j in self.rules.structure.pairs if i == count]
            if len(cells):
                below = np.minimum.reduce(larger) if larger else None
                values[count][cells] = self._alone(count, near[count], below)[1].values
        return values, [(places, first)]

    def _larger_first(self) -> list[int]:
        pairs = self.rules.structure.pairs

        def depth(count: int) -> int:
            return max((1 + depth(j) for i, j in pairs if i == count), default=0)

        return sorted(range(len(self.noisy)), key=depth)

    def _of_count(self, count: int, at: Places) -> Iterator[Constraint]:
        """The rules of one count, whose cells are at these places; -1 where a cell is left out."""
        made, own = self.rules.structure, at[at >= 0]
        ends = made.ends[count]
        if len(own) and ends.most == ends.least:
            yield total(ends.least, of=own)
        # The most of all cells is the most of each, too.
        if len(own) and ends.each is not None and (ends.most is None or ends.each < ends.most):
            yield at_most(ends.each, of=own)
        if count in made.chained:
            yield increasing(of=at[list(made.chain)])

    def _in_every_cell(self, at: Places) -> Iterator[Constraint]:
        for smaller, larger in self.rules.structure.pairs:
            both = np.column_stack((at[smaller], at[larger]))
            yield from (increasing(of=pair) for pair in both[(both >= 0).all(axis=1)])

    def _stated(self) -> list[Constraint]:
        """What the analyst states of the cells of the one count, all of which are there then."""
        if not self.rules.own:
            return []
        empty = np.flatnonzero(~self.rules.structure.possible[0])
        return [*self.rules.own, *([fixed(0, of=empty)] if len(empty) else [])]

    def _settled(
        self, noisy: Array, variance: Array, rules: list[Constraint], own: Mapping[int, Places], *, whole: bool
    ) -> tuple[Refined, Refined]:
        """The nearest numbers, first with the cells of each count free to add up to anything, then within their ends.

        Beyond an end, by convexity, the nearest numbers that fit add up to that end; one count at a time, the farthest
        first, since what is forced on one may bring another back.
        """
        first = fit = reconcile(noisy, rules, variance, whole=whole)
        for _ in own:
            forced = max(self._forced(fit.values, own), key=lambda one: one[0], default=None)
            if forced is None:
                break
            rules = [*rules, forced[1]]
            fit = reconcile(noisy, rules, variance, whole=whole)
        return first, fit

    def _forced(self, values: Array, own: Mapping[int, Places]) -> Iterator[tuple[float, Constraint]]:
        """How far each count adds up to more or less than it may, and the total at the end it is beyond."""
        for count, places in own.items():
            ends, found = self.rules.structure.ends[count], float(values[places].sum())
            end = max(ends.least, found if ends.most is None else min(found, ends.most))
            if len(places) and ends.least != ends.most and abs(end - found) > NEAR:
                yield abs(end - found), total(end, of=places)
