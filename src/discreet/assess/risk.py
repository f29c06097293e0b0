"""An intruder who knows the quasi-identifiers of everyone: whom he finds, and what he reads there."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import numpy as np

from discreet.assess.beside import Beside, fitted
from discreet.assess.disclosure import (
    Candidates,
    by_distance,
    by_label,
    disclosed,
    disclosed_by_chance,
    knows,
    unique_share,
)
from discreet.assess.intersection import RECORDS, Groups
from discreet.assess.linkage import alike_rows, distinct, linked, linked_by_class
from discreet.microdata.distances import Scale, Space, spaces
from discreet.microdata.table import Attribute, Places, Table

Names = tuple[str, ...]
Known = tuple[tuple[int, float], ...]


@dataclass(frozen=True, slots=True, eq=False)
class Intruder:
    """What he has: the release, the quasi-identifiers, and the groups where they are released or can be found out.

    Where a quasi-identifier was generalised, so that its values are not those of the original, he knows which rows with
    the same released quasi-identifiers a person is among.
    """

    both: Beside
    quasi: Names
    groups: Groups
    aligned: bool
    scale: Scale
    tolerance: float
    second: Table | None = None
    """Anatomy's other table: the values of each group, with how many of it have them."""

    def linkage(self) -> float | None:
        """The share of records, in percent, that are led back to; None where nobody can tell which is right."""
        names = self._shown(self.quasi)
        if not self.aligned:
            return None
        if not names:
            return 100 / self.both.before.rows
        if self._generalised(names):
            return linked_by_class(alike_rows(self.both.after.select(names)))
        return linked(*self._spaces(names))

    def unique(self) -> tuple[float, float]:
        """The share of rows whose quasi-identifiers nobody else has, before and after."""
        return _unique(self.both.before, self.quasi), _unique(self.both.after, self._shown(self.quasi))

    def disclosures(self, columns: Names) -> tuple[dict[str, float], dict[str, float]]:
        """For each column of which values are released: how likely he comes near one, and how likely by chance."""
        candidates = cache(self._candidates)
        told = {name: self._told(name, candidates) for name in columns}
        chances, by_chance = {}, {}
        for name, found in told.items():
            if found is not None:
                truth, (values, who) = self.both.before[name], found
                by_chance[name] = disclosed_by_chance(truth, values, self.tolerance)
                chances[name] = by_chance[name] if who is None else disclosed(truth, values, who, self.tolerance)
        return chances, by_chance

    def knows(self, columns: Names) -> dict[str, Known]:
        """For each column with groups of values: what he learns who knows others of a group."""
        found = {name: self._grouped(name) for name in columns}
        return {name: knows(*pair) for name, pair in found.items() if pair is not None}

    def _told(
        self, column: str, candidates: Callable[[Names], Candidates | None]
    ) -> tuple[Attribute, Candidates | None] | None:
        """The values that are released of a column, and which may be a person's; None where any may be."""
        if column in self.both.alike:
            return self.both.after[column], candidates(tuple(name for name in self.quasi if name != column))
        return None if column in self.both.after.attributes else self._listed(column)

    def _candidates(self, quasi: Names) -> Candidates | None:
        names = self._shown(quasi)
        if not names:
            return None
        if self._generalised(names):
            kind = alike_rows(self.both.after.select(names)).kind
            return by_label(kind, kind) if self.aligned else None
        return by_distance(*self._spaces(names))

    def _listed(self, column: str) -> tuple[Attribute, Candidates] | None:
        """The values of a column that no row shows but each group's list does, and which may be a person's."""
        labels = self._labels(column)
        if labels is None or not self.aligned:
            return None
        if self.second is None or column not in self.second.attributes:
            return self.both.before[column], by_label(labels, labels)
        told = fitted(self.both.before[column], self.second[column])
        person = np.unique(self.both.after["group"].values, return_inverse=True)[1]
        block = np.unique(self.second["group"].values, return_inverse=True)[1]
        rows = np.repeat(np.arange(self.second.rows), self.second["count"].values.astype(np.int64))
        return None if told is None else (told[1].take(rows), by_label(person, block[rows]))

    def _grouped(self, column: str) -> tuple[Places, Places] | None:
        """A column's values, numbered, and their groups; None where each group has one made-up value."""
        labels = self._labels(column)
        if column not in self.both.after.attributes:
            listed = self._listed(column)
            return None if listed is None else (distinct([listed[0].values]).kind, listed[1].block)
        if labels is None:
            return None
        kind = distinct([self.both.after[column].values]).kind
        alone = len(distinct([labels, kind]).first) == len(distinct([labels]).first)
        return None if alone and not self._kept(column) else (kind, labels)

    def _kept(self, column: str) -> bool:
        """Whether all the column's values are still there, in whatever order."""
        before, after = self.both.before[column].values, self.both.after[column].values
        return column in self.both.alike and np.array_equal(np.sort(before), np.sort(after), equal_nan=True)

    def _labels(self, column: str) -> Places | None:
        return self.groups.get(column, self.groups.get(RECORDS))

    def _shown(self, names: Names) -> Names:
        return tuple(name for name in names if name in self.both.after.attributes)

    def _generalised(self, names: Names) -> bool:
        return not set(names) <= set(self.both.alike)

    def _spaces(self, names: Names) -> tuple[Space, Space]:
        one, two = spaces([self.both.before.select(names), self.both.after.select(names)], self._scale(names))
        return one, two

    def _scale(self, names: Names) -> Scale:
        """Numbers to divide by, one for each quasi-identifier, of these alone."""
        if self.scale is None or isinstance(self.scale, str) or len(self.scale) != len(self.quasi):
            return self.scale
        return [by for name, by in zip(self.quasi, self.scale, strict=True) if name in names]


def _unique(table: Table, names: Names) -> float:
    return unique_share(alike_rows(table.select(names))) if names else 0.0
