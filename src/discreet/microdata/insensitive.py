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
from discreet.microdata.distances import Scale, Space, boundary_places, spaces
from discreet.microdata.mdav import distances_from, measured
from discreet.microdata.table import ABSENT, Attribute, Floats, Places, Table

MOST_COLUMNS = 8
"""A domain of more columns has too many corners: there is an order of all records for each."""


def insensitive(table: Table, k: int, scale: Scale = "domain") -> Places:
    """The group of each record, numbered as they are formed; all have k, the last k to 2k - 1."""
    if len(table.attributes) > MOST_COLUMNS:
        raise InvalidInput(
            f"insensitive microaggregation goes by the corners of the domain and takes at most {MOST_COLUMNS} columns, "
            f"this table has {len(table.attributes)}; leave some out"
        )
    alphabetical = np.lexsort([_last_if_missing(table[name]) for name in reversed(list(table))])
    space, corners = spaces([table.take(alphabetical), corner_records(table)], scale)
    groups = np.empty(table.rows, dtype=np.int64)
    groups[alphabetical] = _around(space, corners, k)
    return groups


def _around(space: Space, corners: Space, k: int) -> Places:
    """The groups of records in alphabetical order, by presorted distances to each corner."""
    made, places = measured(space), measured(corners).points
    orders: dict[int, NDArray[np.int32]] = {}
    heads = [0] * len(places)
    groups = np.full(space.rows, -1, dtype=np.int64)
    for label in range(space.rows // k - 1):
        corner = label % len(places)
        if corner not in orders:
            orders[corner] = _order(distances_from(places[corner], made))
        taken, heads[corner] = _first_free(orders[corner], heads[corner], groups, k)
        groups[taken] = label
    groups[groups < 0] = space.rows // k - 1
    return groups


def _order(distances: Floats) -> NDArray[np.int32]:
    """The records by distance, of those equally far in the order they have."""
    return np.argsort(distances, kind="stable").astype(np.int32)


def _first_free(order: NDArray[np.int32], head: int, groups: Places, k: int) -> tuple[NDArray[np.int32], int]:
    """The first k records of an order that have no group, and where the search ended."""
    found: list[NDArray[np.int32]] = []
    lacking = k
    while lacking:
        ahead = order[head : head + 4 * lacking]
        free = np.flatnonzero(groups[ahead] < 0)[:lacking]
        head += int(free[-1]) + 1 if len(free) == lacking else len(ahead)
        found.append(ahead[free])
        lacking -= len(free)
    return np.concatenate(found), head


def corner_records(table: Table) -> Table:
    """The corners of the domain in the order they are used: each time the unused one that is farthest, by how many
    attributes differ, from the last; of several, from the one before; and so on; then that with more lower bounds."""
    sides = corner_order(len(table.attributes))
    return Table({name: _ends(table[name], sides[:, column]) for column, name in enumerate(table)})


def corner_order(count: int) -> Places:
    """The corners as rows of 0 (the lower boundary) and 1, all 0 first."""
    unused = np.array(list(product((0, 1), repeat=count)), dtype=np.int64)
    chosen, unused = [unused[0]], unused[1:]
    while len(unused):
        best = np.arange(len(unused))
        for earlier in reversed(chosen):
            apart = (unused[best] != earlier).sum(axis=1)
            best = best[apart == apart.max()]
            if len(best) == 1:
                break
        chosen.append(unused[best[0]])
        unused = np.delete(unused, best[0], axis=0)
    return np.array(chosen)


def _ends(attribute: Attribute, sides: Places) -> Attribute:
    if attribute.kind == "nominal":
        return replace(attribute, values=np.array(boundary_places(attribute))[sides])
    ends = np.array([attribute.lower, attribute.upper])[sides]
    return replace(attribute, values=ends if attribute.kind == "numeric" else ends.astype(np.int64))


def _last_if_missing(attribute: Attribute) -> Places:
    """The values, missing ones after all others."""
    values: Places = attribute.values
    return values if attribute.kind == "numeric" else np.where(values == ABSENT, len(attribute.categories), values)
