"""An intruder who knows the quasi-identifiers of everyone: whom he finds, and what he reads there."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import numpy as np

from discreet.assess.beside import Beside, fitted
from discreet.assess.disclosure import (
    Candidates,
    Disclosed,
    anybody,
    by_distance,
    by_label,
    disclosed,
    knows,
    unique_share,
)
from discreet.assess.intersection import RECORDS, Groups
from discreet.assess.linkage import alike_rows, distinct, linked, linked_by_class
from discreet.microdata.distances import Scale, Space, weighed_spaces
from discreet.microdata.table import Attribute, Floats, Places, Table

Names = tuple[str, ...]
Known = tuple[tuple[int, float], ...]


@dataclass(frozen=True, slots=True, eq=False)
class Intruder:
    """What he has: the release, the quasi-identifiers, and the groups where they are released or can be found out.

    Where a quasi-identifier was generalised, so that its values are not those of the original, he knows which rows with
    the same released quasi-identifiers a person is among; where the rows are not side by side nobody can tell which
    these are, and he goes by the quasi-identifiers that were not.
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

    def disclosures(self, columns: Names) -> dict[str, Disclosed]:
        """What he comes near, for each column of which it can be measured."""
        candidates = cache(self._candidates)
        told = {name: self._told(name, candidates) for name in columns}
        return {
            name: disclosed(self.both.before[name], *found, self.tolerance, self._moved(name))
            for name, found in told.items()
            if found is not None
        }

    def knows(self, columns: Names) -> dict[str, Known]:
        """For each column with groups of values: what he learns who knows others of a group."""
        found = {name: self._grouped(name) for name in columns}
        return {name: knows(*pair) for name, pair in found.items() if pair is not None}

    def _told(
        self, column: str, candidates: Callable[[Names], Candidates | None]
    ) -> tuple[Attribute, Candidates] | None:
        """The values that are released of a column, and which may be a person's; None where nobody can tell."""
        if column in self.both.alike:
            who = candidates(tuple(name for name in self.quasi if name != column))
            return None if who is None else (self.both.after[column], who)
        return None if column in self.both.after.attributes else self._listed(column)

    def _candidates(self, quasi: Names) -> Candidates | None:
        names = self._shown(quasi)
        if not names:
            return anybody(self.both.before.rows, self.both.after.rows)
        if self.aligned and self._generalised(names):
            kind = alike_rows(self.both.after.select(names)).kind
            return by_label(kind, kind)
        near = tuple(name for name in names if name in self.both.alike)
        return by_distance(*self._spaces(near)) if near else None

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

    def _moved(self, column: str) -> bool:
        """Whether it is known that values of a column are not on their own rows."""
        before, after = self.both.before[column].values, self.both.after.attributes.get(column)
        return self.aligned and after is not None and not np.array_equal(before, after.values, equal_nan=True)

    def _labels(self, column: str) -> Places | None:
        return self.groups.get(column, self.groups.get(RECORDS))

    def _shown(self, names: Names) -> Names:
        return tuple(name for name in names if name in self.both.after.attributes)

    def _generalised(self, names: Names) -> bool:
        return not set(names) <= set(self.both.alike)

    def _spaces(self, names: Names) -> tuple[Space, Space, Floats]:
        tables = [self.both.before.select(names), self.both.after.select(names)]
        (one, two), weights = weighed_spaces(tables, self._scale(names))
        return one, two, weights

    def _scale(self, names: Names) -> Scale:
        """Numbers to divide by, one for each quasi-identifier, of these alone."""
        if self.scale is None or isinstance(self.scale, str) or len(self.scale) != len(self.quasi):
            return self.scale
        return [by for name, by in zip(self.quasi, self.scale, strict=True) if name in names]


def _unique(table: Table, names: Names) -> float:
    return unique_share(alike_rows(table.select(names))) if names else 0.0
