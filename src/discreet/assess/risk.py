"""An intruder who knows the quasi-identifiers of everyone: whom he finds, and what he reads there."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import numpy as np

from discreet.assess.beside import MatchedTables, match_attributes
from discreet.assess.disclosure import (
    CandidateRows,
    DisclosureRisk,
    compute_unique_share,
    match_by_distance,
    match_by_label,
    match_everyone,
    measure_disclosure,
    measure_group_knowledge,
)
from discreet.assess.intersection import RECORDS, Groups
from discreet.assess.linkage import (
    find_distinct_rows,
    find_distinct_table_rows,
    measure_class_linkage,
    measure_distance_linkage,
)
from discreet.microdata.distances import RecordSpace, Scale, build_weighted_spaces
from discreet.microdata.table import Attribute, Floats, Integers, Table

Names = tuple[str, ...]
KnowledgeCurve = tuple[tuple[int, float], ...]


@dataclass(frozen=True, slots=True, eq=False)
class Intruder:
    """What he has: the release, the quasi-identifiers, and the groups where they are released or can be found out.

    Where a quasi-identifier was generalised, so that its values are not those of the original, he knows which rows with
    the same released quasi-identifiers a person is among; where the rows are not side by side nobody can tell which
    these are, and he goes by the quasi-identifiers that were not.
    """

    tables: MatchedTables
    quasi: Names
    groups: Groups
    aligned: bool
    scale: Scale
    tolerance: float
    second: Table | None = None
    """Anatomy's other table: the values of each group, with how many of it have them."""

    def measure_linkage(self) -> float | None:
        """The share of records, in percent, that are led back to; None where nobody can tell which is right."""
        names = self._select_released(self.quasi)
        if not self.aligned:
            return None
        if not names:
            return 100 / self.tables.before.rows
        if self._is_generalized(names):
            return measure_class_linkage(find_distinct_table_rows(self.tables.after.select(names)))
        return measure_distance_linkage(*self._build_spaces(names))

    def measure_unique_shares(self) -> tuple[float, float]:
        """The share of rows whose quasi-identifiers nobody else has, before and after."""
        return _compute_unique_share_of(self.tables.before, self.quasi), _compute_unique_share_of(
            self.tables.after, self._select_released(self.quasi)
        )

    def measure_disclosures(self, columns: Names) -> dict[str, DisclosureRisk]:
        """What he comes near, for each column of which it can be measured."""
        candidates = cache(self._find_candidates)
        released_values = {name: self._find_released_values(name, candidates) for name in columns}
        return {
            name: measure_disclosure(
                self.tables.before[name], *values_and_candidates, self.tolerance, self._is_permuted(name)
            )
            for name, values_and_candidates in released_values.items()
            if values_and_candidates is not None
        }

    def measure_knowledge(self, columns: Names) -> dict[str, KnowledgeCurve]:
        """For each column with groups of values: what he learns who knows others of a group."""
        grouped_values = {name: self._find_grouped_values(name) for name in columns}
        return {name: measure_group_knowledge(*pair) for name, pair in grouped_values.items() if pair is not None}

    def _find_released_values(
        self, column: str, candidates: Callable[[Names], CandidateRows | None]
    ) -> tuple[Attribute, CandidateRows] | None:
        """The values that are released of a column, and which may be a person's; None where nobody can tell."""
        if column in self.tables.comparable:
            matches = candidates(tuple(name for name in self.quasi if name != column))
            return None if matches is None else (self.tables.after[column], matches)
        return None if column in self.tables.after.attributes else self._find_listed_values(column)

    def _find_candidates(self, quasi: Names) -> CandidateRows | None:
        names = self._select_released(quasi)
        if not names:
            return match_everyone(self.tables.before.rows, self.tables.after.rows)
        if self.aligned and self._is_generalized(names):
            kind = find_distinct_table_rows(self.tables.after.select(names)).kind
            return match_by_label(kind, kind)
        comparable = tuple(name for name in names if name in self.tables.comparable)
        return match_by_distance(*self._build_spaces(comparable)) if comparable else None

    def _find_listed_values(self, column: str) -> tuple[Attribute, CandidateRows] | None:
        """The values of a column that no row shows but each group's list does, and which may be a person's."""
        labels = self._get_labels(column)
        if labels is None or not self.aligned:
            return None
        if self.second is None or column not in self.second.attributes:
            return self.tables.before[column], match_by_label(labels, labels)
        matched = match_attributes(self.tables.before[column], self.second[column])
        person = np.unique(self.tables.after["group"].values, return_inverse=True)[1]
        block = np.unique(self.second["group"].values, return_inverse=True)[1]
        rows = np.repeat(np.arange(self.second.rows), self.second["count"].values.astype(np.int64))
        return None if matched is None else (matched[1].take(rows), match_by_label(person, block[rows]))

    def _find_grouped_values(self, column: str) -> tuple[Integers, Integers] | None:
        """A column's values, numbered, and their groups; None where each group has one made-up value."""
        labels = self._get_labels(column)
        if column not in self.tables.after.attributes:
            listed_values = self._find_listed_values(column)
            return (
                None
                if listed_values is None
                else (find_distinct_rows([listed_values[0].values]).kind, listed_values[1].block)
            )
        if labels is None:
            return None
        kind = find_distinct_rows([self.tables.after[column].values]).kind
        has_single_values = len(find_distinct_rows([labels, kind]).first) == len(find_distinct_rows([labels]).first)
        return None if has_single_values and not self._has_same_values(column) else (kind, labels)

    def _has_same_values(self, column: str) -> bool:
        """Whether all the column's values are still there, in whatever order."""
        before, after = self.tables.before[column].values, self.tables.after[column].values
        return column in self.tables.comparable and np.array_equal(np.sort(before), np.sort(after), equal_nan=True)

    def _is_permuted(self, column: str) -> bool:
        """Whether it is known that values of a column are not on their own rows."""
        before, after = self.tables.before[column].values, self.tables.after.attributes.get(column)
        return self.aligned and after is not None and not np.array_equal(before, after.values, equal_nan=True)

    def _get_labels(self, column: str) -> Integers | None:
        return self.groups.get(column, self.groups.get(RECORDS))

    def _select_released(self, names: Names) -> Names:
        return tuple(name for name in names if name in self.tables.after.attributes)

    def _is_generalized(self, names: Names) -> bool:
        return not set(names) <= set(self.tables.comparable)

    def _build_spaces(self, names: Names) -> tuple[RecordSpace, RecordSpace, Floats]:
        tables = [self.tables.before.select(names), self.tables.after.select(names)]
        (space_before, space_after), weights = build_weighted_spaces(tables, self._select_scale(names))
        return space_before, space_after, weights

    def _select_scale(self, names: Names) -> Scale:
        """Numbers to divide by, one for each quasi-identifier, of these alone."""
        if self.scale is None or isinstance(self.scale, str) or len(self.scale) != len(self.quasi):
            return self.scale
        return [divisor for name, divisor in zip(self.quasi, self.scale, strict=True) if name in names]


def _compute_unique_share_of(table: Table, names: Names) -> float:
    return compute_unique_share(find_distinct_table_rows(table.select(names))) if names else 0.0
