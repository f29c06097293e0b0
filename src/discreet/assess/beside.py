"""A table and its release, column beside column: the same kinds, the same lists of categories, the same domains."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np

from discreet.errors import InvalidInput
from discreet.microdata.protected import ProtectedTable
from discreet.microdata.reading import read_table
from discreet.microdata.table import ABSENT, Attribute, Integers, Table


@dataclass(frozen=True, slots=True, eq=False)
class MatchedTables:
    """Two tables, the columns that both have, and those of them whose values can be compared."""

    before: Table
    after: Table
    common: tuple[str, ...]
    comparable: tuple[str, ...]

    @property
    def numeric(self) -> tuple[str, ...]:
        """The numeric columns of both."""
        return tuple(name for name in self.comparable if self.before[name].kind == "numeric")

    def iterate_pairs(self) -> Iterable[tuple[str, Attribute, Attribute]]:
        """Every column that can be compared: its name, before, after."""
        return ((name, self.before[name], self.after[name]) for name in self.comparable)


def match_tables(original: object, released: object, aligned: bool) -> MatchedTables:
    """The two as tables; what a protected table left out of the original's rows is left out here too."""
    before = read_table(original)
    after = _read_as_original(before, released.table if isinstance(released, ProtectedTable) else read_table(released))
    if isinstance(released, ProtectedTable) and aligned and len(released.source_rows) < before.rows:
        before = before.take(released.source_rows)
    if not before.rows or not after.rows:
        raise InvalidInput("there is nothing to compare in a table without rows; give both tables at least one row")
    if aligned and before.rows != after.rows:
        raise InvalidInput(
            f"the original has {before.rows} rows and the release {after.rows}; "
            "give the rows side by side, or say aligned=False"
        )
    common = tuple(name for name in before if name in after.attributes)
    if not common:
        raise InvalidInput("the two tables have no column in common; compare a release with its own original")
    attempts = [match_attributes(before[name], after[name]) for name in common]
    matched_pairs = [pair for pair in attempts if pair is not None]
    originals, counterparts = (
        [attribute for attribute, _ in matched_pairs],
        [counterpart for _, counterpart in matched_pairs],
    )
    return MatchedTables(
        before.put(*originals), after.put(*counterparts), common, tuple(attribute.name for attribute in originals)
    )


def _read_as_original(before: Table, after: Table) -> Table:
    """The release with columns that the original reads as categories read so too, though they look like numbers."""
    kinds = {name: before[name].kind for name in after if name in before.attributes}
    kinds = {name: kind for name, kind in kinds.items() if kind != "numeric" and after[name].kind == "numeric"}
    if not kinds:
        return after
    categorical = read_table(after.select(tuple(kinds)).to_arrays(), kinds=kinds)
    return after.put(*categorical.attributes.values())


def match_attributes(before: Attribute, after: Attribute) -> tuple[Attribute, Attribute] | None:
    """The two with one domain or one list of categories; None where no distance is known between their values.

    None is known from numbers to intervals, nor from categories to labels that are neither among them nor concepts of
    their taxonomy.
    """
    if (before.kind == "numeric") != (after.kind == "numeric"):
        return None
    if before.kind == "numeric":
        return before, replace(after, lower=before.lower, upper=before.upper)
    taxonomy = before.taxonomy if before.kind == "nominal" else None
    released_labels = {after.categories[place] for place in np.unique(after.values) if place != ABSENT}
    extra = tuple(sorted(released_labels - set(before.categories)))
    if extra and (taxonomy is None or not set(extra) <= set(taxonomy.ancestors)):
        return None
    places = {name: place for place, name in enumerate((*before.categories, *extra))}
    new_places: Integers = np.array([*(places.get(name, ABSENT) for name in after.categories), ABSENT], dtype=np.int64)
    matched_before = replace(before, categories=tuple(places))
    return matched_before, replace(matched_before, values=new_places[after.values])
