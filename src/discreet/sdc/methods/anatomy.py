"""Anatomy: two tables, one of quasi-identifiers and one of confidential values, that share only a group."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Unpack

import numpy as np

from discreet.errors import InvalidInput
from discreet.mechanisms.entropy import Entropy
from discreet.privacy.guarantee import Guarantee
from discreet.sdc.methods.partition import (
    Groups,
    group_by_confidential,
    group_by_nearness,
    parse_floors,
    read_grouping_options,
    summarize_group_sizes,
)
from discreet.sdc.methods.record_distance import Scale
from discreet.sdc.table import (
    Attribute,
    ProtectedTable,
    Table,
    TableReadOptions,
    check_informative,
    check_k,
    check_roles,
    permute_within_groups,
    read_table,
)

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
    **reading: Unpack[TableReadOptions],
) -> ProtectedTable:
    """Split a table into two that are linked by group only: quasi-identifiers, and confidential values with their
    counts.

    The result is probabilistically k-anonymous. Groups are numbered at random, so that a number discloses nothing about
    where a group lies.

    Args:
        table: The original table.
        k: The minimum size of a group.
        quasi: The quasi-identifiers.
        confidential: The confidential columns.
        partition: Groups are similar by the "confidential" values (Algorithm 7.1) or by the "quasi"-identifiers.
        method: The algorithm that forms the groups, as in `microaggregate`.
        scale: What columns are divided by before distances are taken, as in `microaggregate`.
        diversity: A `Distinct`, `Spread` or `Closeness` that the confidential values of each group must have; or one
            for each confidential column.
        weights: The weight of each row in centroids, as an array or the name of a column.
        strata: Labels that no group may mix, as an array or the name of a column.
        entropy: The source of random bytes; the system's generator by default.
        **reading: How columns are read: `kinds`, `categories`, `taxonomies` and `domains`, each a mapping by column.

    Returns:
        The first table, with a column `group`, and in `second` the other one; with the guarantee.

    Raises:
        InvalidInput: A column, k or another option is not valid.

    Example:
        >>> from discreet.sdc import anatomy
        >>> table = {"age": [23, 25, 31, 34, 58, 61], "income": [20, 22, 30, 31, 45, 50]}
        >>> protected = anatomy(table, k=3, quasi=["age"], confidential=["income"])
        >>> list(protected), list(protected.second)
        (['age', 'group'], ['group', 'income', 'count'])
    """
    original = read_table(table, **reading)
    quasi_names, confidential_names = check_roles(original, quasi, confidential, informed=False)
    min_size = check_k(k, original.rows)
    for name in (*quasi_names, *confidential_names):
        check_anatomy_name(name)
        check_informative(original[name])
    if partition not in ("confidential", "quasi"):
        raise InvalidInput(f"partition is 'confidential' or 'quasi', got {str(partition)[:40]!r}")
    options = read_grouping_options(original, method, scale, weights, strata, entropy)
    floors = parse_floors(diversity, confidential_names)
    if partition == "confidential":
        groups = group_by_confidential(original, min_size, confidential_names, options, floors)
    else:
        groups = group_by_nearness(original, min_size, quasi_names, options, floors)
    return anatomize_groups(original, quasi_names, confidential_names, min_size, groups, entropy)


def anatomize_groups(
    original: Table, quasi: Sequence[str], confidential: Sequence[str], k: int, groups: Groups, entropy: Entropy | None
) -> ProtectedTable:
    """The two tables of groups that are there already, each of at least k rows."""
    numbers = renumber_groups(groups, entropy)
    first = original.select(quasi).put(_build_integer_attribute("group", numbers))
    guarantee = replace(Guarantee.k_anonymity(k, probabilistic=True), assumptions=ASSUMPTIONS)
    groups_by_name, source_rows = {"records": numbers}, np.arange(original.rows)
    second, facts = count_group_values(original.select(confidential), numbers), summarize_group_sizes(groups_by_name)
    return ProtectedTable(first, guarantee, groups_by_name, source_rows, second, facts)


def renumber_groups(groups: Groups, entropy: Entropy | None) -> Groups:
    """The same groups under random numbers."""
    numbers = permute_within_groups(np.zeros(int(groups.max()) + 1, dtype=np.int64), entropy)
    return numbers[groups]


def count_group_values(values: Table, groups: Groups) -> Table:
    """One row for each group and each of its values, with how many of the group have it, in order."""
    places = [np.unique(codes.values, return_inverse=True)[1] for codes in values.attributes.values()]
    order = np.lexsort((*reversed(places), groups))
    differ = np.any([np.diff(codes[order]) != 0 for codes in (groups, *places)], axis=0)
    first = np.flatnonzero(np.concatenate([[True], differ]))
    counts = np.diff(np.append(first, len(order)))
    group = _build_integer_attribute("group", groups[order[first]])
    value_columns = values.take(order[first]).attributes
    return Table({"group": group, **value_columns, "count": _build_integer_attribute("count", counts)})


def _build_integer_attribute(name: str, numbers: Groups) -> Attribute:
    values = numbers.astype(np.float64)
    lower, upper = float(values.min()), float(values.max())
    return Attribute(name, "numeric", values, lower=lower, upper=upper, value_type="integer")


def check_anatomy_name(name: str) -> None:
    """Refuse the names of the columns that Anatomy adds."""
    if name in {"group", "count"}:
        raise InvalidInput(f"Anatomy writes a column {name!r} of its own; rename that of the table")
