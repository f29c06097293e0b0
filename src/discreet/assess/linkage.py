"""Record linkage by distance: how often the nearest record is the right one (thesis 6.4.2)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.microdata.distances import RecordSpace
from discreet.microdata.table import Floats, Integers, Table


@dataclass(frozen=True, slots=True, eq=False)
class DistinctRows:
    """Rows of which some are alike: one of each kind, which kind every row is of, and how many rows are."""

    first: Integers
    kind: Integers
    counts: Integers


def find_distinct_rows(columns: Iterable[NDArray[Any]]) -> DistinctRows:
    """The distinct rows of some columns; missing values are alike."""
    kind: Integers = np.zeros(1, dtype=np.int64)
    for column in columns:
        code = np.unique(column, return_inverse=True)[1]
        kind = np.unique(kind * (int(code.max()) + 1) + code, return_inverse=True)[1]
    _, first, counts = np.unique(kind, return_index=True, return_counts=True)
    return DistinctRows(first, kind, counts)


def find_distinct_table_rows(table: Table) -> DistinctRows:
    """The distinct rows of a table."""
    return find_distinct_rows(attribute.values for attribute in table.attributes.values())


def find_distinct_records(space: RecordSpace) -> DistinctRows:
    """The distinct records of a space."""
    return find_distinct_rows([*space.points.T, *space.codes.T])


def measure_distance_linkage(before: RecordSpace, after: RecordSpace, weights: Floats | None = None) -> float:
    """The share of records, in percent, whose released record leads back to them: RL of the thesis.

    Row i of one was made of row i of the other. G is the set of original records at the least distance from a
    released one, and the right record is picked with chance 1/|G| where it is in G. Ties are exact; records of the
    same kind are looked up once.
    """
    from discreet.assess.ties import compute_squared_distances, find_nearest_ties

    original_kinds, released_kinds = find_distinct_records(before), find_distinct_records(after)
    ties = find_nearest_ties(after.take(released_kinds.first), before.take(original_kinds.first), weights)
    sizes = np.add.reduceat(original_kinds.counts[ties.targets], ties.starts[:-1])
    is_right = compute_squared_distances(after, before, weights) == ties.squares[released_kinds.kind]
    return 100 * float(np.mean(is_right / sizes[released_kinds.kind]))


def measure_class_linkage(after: DistinctRows) -> float:
    """The same where values were generalised: the originals that a released record can be of are those of its class."""
    return 100 * len(after.first) / len(after.kind)
