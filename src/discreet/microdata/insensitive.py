"""Insensitive microaggregation (thesis 6.2 and 6.3.3): each group is the k nearest to a corner of the domain.

The corners and their order follow from the domain alone, so that groups of two tables that differ in one record differ
in at most one record each (Proposition 7). Of records equally far the first in alphabetical order is nearer: by the
first column, then the second, and so on, missing values last, and by index where all are alike.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import numpy as np
from numpy.typing import NDArray

from discreet.errors import InvalidInput
from discreet.microdata.distances import RecordSpace, Scale, build_spaces, find_boundary_categories
from discreet.microdata.mdav import compute_distances_from, pack_space
from discreet.microdata.table import ABSENT, Attribute, Floats, Integers, Table

MAX_COLUMNS = 8
"""A domain of more columns has too many corners: there is an order of all records for each."""


def microaggregate_insensitive(table: Table, k: int, scale: Scale = "domain") -> Integers:
    """The group of each record, numbered as they are formed; all have k, the last k to 2k - 1."""
    if len(table.attributes) > MAX_COLUMNS:
        raise InvalidInput(
            f"insensitive microaggregation goes by the corners of the domain and takes at most {MAX_COLUMNS} columns, "
            f"this table has {len(table.attributes)}; leave some out"
        )
    alphabetical = np.lexsort([_build_sort_values(table[name]) for name in reversed(list(table))])
    space, corners = build_spaces([table.take(alphabetical), build_corner_records(table)], scale)
    groups = np.empty(table.rows, dtype=np.int64)
    groups[alphabetical] = _group_around_corners(space, corners, k)
    return groups


def _group_around_corners(space: RecordSpace, corners: RecordSpace, k: int) -> Integers:
    """The groups of records in alphabetical order, by presorted distances to each corner."""
    packed_space, places = pack_space(space), pack_space(corners).points
    orders: dict[int, NDArray[np.int32]] = {}
    heads = [0] * len(places)
    groups = np.full(space.rows, -1, dtype=np.int64)
    for label in range(space.rows // k - 1):
        corner = label % len(places)
        if corner not in orders:
            orders[corner] = _sort_by_distance(compute_distances_from(places[corner], packed_space))
        nearest_rows, heads[corner] = _take_first_free(orders[corner], heads[corner], groups, k)
        groups[nearest_rows] = label
    groups[groups < 0] = space.rows // k - 1
    return groups


def _sort_by_distance(distances: Floats) -> NDArray[np.int32]:
    """The records by distance, of those equally far in the order they have."""
    return np.argsort(distances, kind="stable").astype(np.int32)


def _take_first_free(order: NDArray[np.int32], head: int, groups: Integers, k: int) -> tuple[NDArray[np.int32], int]:
    """The first k records of an order that have no group, and where the search ended."""
    chunks: list[NDArray[np.int32]] = []
    missing_count = k
    while missing_count:
        ahead = order[head : head + 4 * missing_count]
        free = np.flatnonzero(groups[ahead] < 0)[:missing_count]
        head += int(free[-1]) + 1 if len(free) == missing_count else len(ahead)
        chunks.append(ahead[free])
        missing_count -= len(free)
    return np.concatenate(chunks), head


def build_corner_records(table: Table) -> Table:
    """The corners of the domain in the order they are used: each time the unused one that is farthest, by how many
    attributes differ, from the last; of several, from the one before; and so on; then that with more lower bounds."""
    sides = order_corners(len(table.attributes))
    return Table({name: _build_boundary_values(table[name], sides[:, column]) for column, name in enumerate(table)})


def order_corners(count: int) -> Integers:
    """The corners as rows of 0 (the lower boundary) and 1, all 0 first."""
    unused = np.array(list(product((0, 1), repeat=count)), dtype=np.int64)
    corners, unused = [unused[0]], unused[1:]
    while len(unused):
        best = np.arange(len(unused))
        for earlier in reversed(corners):
            differences = (unused[best] != earlier).sum(axis=1)
            best = best[differences == differences.max()]
            if len(best) == 1:
                break
        corners.append(unused[best[0]])
        unused = np.delete(unused, best[0], axis=0)
    return np.array(corners)


def _build_boundary_values(attribute: Attribute, sides: Integers) -> Attribute:
    if attribute.kind == "nominal":
        return replace(attribute, values=np.array(find_boundary_categories(attribute))[sides])
    ends = np.array([attribute.lower, attribute.upper])[sides]
    return replace(attribute, values=ends if attribute.kind == "numeric" else ends.astype(np.int64))


def _build_sort_values(attribute: Attribute) -> Integers:
    """The values, missing ones after all others."""
    values: Integers = attribute.values
    return values if attribute.kind == "numeric" else np.where(values == ABSENT, len(attribute.categories), values)
