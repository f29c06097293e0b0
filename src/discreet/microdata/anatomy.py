"""Anatomy: two tables, one of quasi-identifiers and one of confidential values, that share only a group."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Unpack

import numpy as np

from discreet.errors import InvalidInput
from discreet.guarantee import Guarantee
from discreet.kernel.entropy import Entropy
from discreet.microdata.checks import Reading, check_informative, check_k, check_roles
from discreet.microdata.distances import Scale
from discreet.microdata.diversity import floors_of
from discreet.microdata.partition import Groups, confidential_groups, near_groups, sizes_told, way
from discreet.microdata.permuting import permuted_inside
from discreet.microdata.protected import Protected
from discreet.microdata.reading import read_table
from discreet.microdata.table import Attribute, Table

ASSUMPTIONS = (
    "each value of a group is a member's with probability 1/(size of the group), for one who holds its members alike; "
    "who knows the values of all others in a group knows the last",
    "quasi-identifiers are as they were, so that rows can be linked; a value is disclosed up to those of its group",
)


def anatomy(
    table: object,
    k: int,
    quasi: object,
    confidential: object,
    *,
    partition: str = "confidential",
    method: str = "mdav",
    scale: Scale = "domain",
    diversity: object = None,
    weights: object = None,
    strata: object = None,
    entropy: Entropy | None = None,
    **reading: Unpack[Reading],
) -> Protected:
    """Two tables: the quasi-identifiers with a `group`; and each `group`'s confidential values with their `count`.

    Groups of at least k rows are near by the confidential values (Algorithm 7.1; several by microaggregation as one),
    or by the quasi-identifiers. They are numbered at random, so that a number says nothing about where a group lies.
    """
    original = read_table(table, **reading)
    known, secret = check_roles(original, quasi, confidential, informed=False)
    least = check_k(k, original.rows)
    for name in (*known, *secret):
        check_name(name)
        check_informative(original[name])
    if partition not in {"confidential", "quasi"}:
        raise InvalidInput(f"partition is 'confidential' or 'quasi', got {str(partition)[:40]!r}")
    how, floors = way(original, method, scale, weights, strata, entropy), floors_of(diversity, secret)
    if partition == "confidential":
        groups = confidential_groups(original, least, secret, how, floors)
    else:
        groups = near_groups(original, least, known, how, floors)
    return anatomised(original, known, secret, least, groups, entropy)


def anatomised(
    original: Table, quasi: Sequence[str], confidential: Sequence[str], k: int, groups: Groups, entropy: Entropy | None
) -> Protected:
    """The two tables of groups that are there already, each of at least k rows."""
    numbers = renumbered(groups, entropy)
    first = original.select(quasi).put(_whole("group", numbers))
    promise = replace(Guarantee.k_anonymity(k, probabilistic=True), assumptions=ASSUMPTIONS)
    return Protected(
        first,
        promise,
        {"records": numbers},
        np.arange(original.rows),
        counted(original.select(confidential), numbers),
        sizes_told({"records": numbers}),
    )


def renumbered(groups: Groups, entropy: Entropy | None) -> Groups:
    """The same groups under numbers drawn at random."""
    numbers = permuted_inside(np.zeros(int(groups.max()) + 1, dtype=np.int64), entropy)
    return numbers[groups]


def counted(values: Table, groups: Groups) -> Table:
    """One row for each group and each of its values, with how many of the group have it, in order."""
    places = [np.unique(each.values, return_inverse=True)[1] for each in values.attributes.values()]
    order = np.lexsort((*reversed(places), groups))
    differ = np.any([np.diff(each[order]) != 0 for each in (groups, *places)], axis=0)
    first = np.flatnonzero(np.concatenate([[True], differ]))
    counts = np.diff(np.append(first, len(order)))
    seen = values.take(order[first]).attributes
    return Table({"group": _whole("group", groups[order[first]]), **seen, "count": _whole("count", counts)})


def _whole(name: str, numbers: Groups) -> Attribute:
    values = numbers.astype(np.float64)
    return Attribute(name, "numeric", values, lower=float(values.min()), upper=float(values.max()), look="integer")


def check_name(name: str) -> None:
    """Refuse the names of the columns that Anatomy adds."""
    if name in {"group", "count"}:
        raise InvalidInput(f"Anatomy writes a column {name!r} of its own; rename that of the table")
