"""Microaggregation into groups of at least k: all methods, and the insensitive one (thesis 6.2 and 6.3.3).

A group of the insensitive method is the k records nearest to a corner of the domain. The corners and their order follow
from the domain alone, so that groups of two tables that differ in one record differ in at most one record each
(Proposition 7). Of records equally far the first in alphabetical order is nearer: by the first column, then the second,
and so on, missing values last, and by index where all are alike.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import product

import numpy as np
from numpy.typing import NDArray

from discreet.errors import InvalidInput
from discreet.formatting import format_number
from discreet.mechanisms.entropy import Entropy
from discreet.priors.taxonomy import Taxonomy
from discreet.query.scan import RankRuns
from discreet.sdc.methods.mdav import (
    compute_distances_from,
    group_from_both_ends,
    group_from_low_end,
    mdav,
    pack_space,
    v_mdav,
)
from discreet.sdc.methods.record_distance import (
    MAX_COORDINATE,
    RecordSpace,
    Scale,
    build_spaces,
    find_boundary_categories,
)
from discreet.sdc.table import (
    ABSENT,
    Attribute,
    Floats,
    Integers,
    Table,
    check_k,
    find_range,
    permute_within_groups,
    read_row_strata,
    read_row_weights,
    read_table,
)
from discreet.suggestions import build_choice_error
from discreet.untrusted import has_type

MAX_COLUMNS = 8
"""A domain of more columns has too many corners: there is an order of all records for each."""


def microaggregate_insensitive(table: Table, k: int, scale: Scale = "domain") -> Integers:
    """The group of each record, numbered as they are formed; all have k, the last k to 2k - 1."""
    if len(table.attributes) > MAX_COLUMNS:
        raise InvalidInput(
            f"insensitive microaggregation goes by the corners of the domain and takes at most {MAX_COLUMNS} columns, "
            f"this table has {len(table.attributes)}; leave some out"
        )
    sort_values = []
    for column in list(table.attributes.values())[::-1]:
        values: Integers = column.values
        is_absent = values == ABSENT  # a missing category comes after all others, as NaN does
        sort_values.append(values if column.kind == "numeric" else np.where(is_absent, len(column.categories), values))
    alphabetical = np.lexsort(sort_values)
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
            distances = compute_distances_from(places[corner], packed_space)
            orders[corner] = np.argsort(distances, kind="stable").astype(np.int32)
        nearest_rows, heads[corner] = _take_first_free(orders[corner], heads[corner], groups, k)
        groups[nearest_rows] = label
    groups[groups < 0] = space.rows // k - 1
    return groups


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
    corners = {}
    for column, (name, attribute) in enumerate(table.attributes.items()):
        if attribute.kind == "nominal":
            ends = np.array(find_boundary_categories(attribute))
        else:
            ends = np.array([attribute.lower, attribute.upper])
        values = ends[sides[:, column]]
        corners[name] = replace(attribute, values=values.astype(np.int64) if attribute.kind == "ordinal" else values)
    return Table(corners)


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


GROUPING_METHODS = ("mdav", "v-mdav", "ranking", "blocks", "insensitive", "random")

Domain = tuple[float, float]
RowSelection = Integers | slice
"""Places of rows, or `slice(None)` for all of them, which copies nothing."""


def microaggregate(
    X: object,  # noqa: N803 (the records, as the literature names them)
    k: int,
    method: str = "mdav",
    scale: Scale = None,
    *,
    weights: object = None,
    strata: object = None,
    domains: Mapping[str, Domain] | Sequence[Domain] | None = None,
    taxonomies: Mapping[str, Taxonomy] | None = None,
    entropy: Entropy | None = None,
) -> NDArray[np.int64]:
    """Form groups of at least k similar records and return the group of each row.

    Args:
        X: An array of numbers with a row for each record, or a table.
        k: The minimum number of rows in a group, whatever their weights.
        method: "mdav"; "v-mdav", groups of variable size; "ranking", one column by rank, from both ends in turn;
            "blocks", one column by rank from the low end; "insensitive", around the corners of the domain; "random".
        scale: What columns are divided by: None, "domain" for the width of the domain (formula 6.7), "deviation" for
            the standard deviation, or numbers.
        weights: Positive weights of the rows in averages, as an array or the name of a column.
        strata: Labels that no group may mix, each with at least k rows, as an array or the name of a column.
        domains: The bounds of each column, by name or in order.
        taxonomies: The taxonomies of nominal columns.
        entropy: The source of random bytes, for "random" alone.

    Returns:
        The label of each row's group, a whole number from 0 on.

    Raises:
        InvalidInput: The records, k or another option are not valid.

    Example:
        >>> from discreet import microaggregate
        >>> microaggregate([[1], [2], [3], [10], [11], [12]], k=3).tolist()
        [0, 0, 0, 1, 1, 1]
    """
    table = _read_records(X, domains, taxonomies)
    min_size = check_k(k, table.rows)
    weight = read_row_weights(table, weights)
    if weight is not None and not bool(np.all((weight > 0) & (weight <= MAX_COORDINATE))):
        raise InvalidInput(
            f"weights must be positive numbers up to {format_number(MAX_COORDINATE)}; leave out rows of weight 0"
        )
    stratum = read_row_strata(table, strata)
    row_columns = [name for name in (weights, strata) if isinstance(name, str)]
    if set(row_columns) >= set(table):
        raise InvalidInput("a table of nothing but weights and strata has no column to form groups by; add one")
    table = table.drop(row_columns)
    grouping = _choose_grouping(method, table, min_size, scale, weight, entropy)
    return grouping(slice(None)) if stratum is None else _group_by_stratum(grouping, stratum, min_size)


def _choose_grouping(
    method: str, table: Table, k: int, scale: Scale, weights: Floats | None, entropy: Entropy | None
) -> Callable[[RowSelection], Integers]:
    """A function that groups some of the rows, by the method."""
    if not has_type(method, str) or method not in GROUPING_METHODS:
        raise build_choice_error("the method", method, GROUPING_METHODS)
    if method in {"mdav", "v-mdav"}:
        form = mdav if method == "mdav" else v_mdav
        space = build_spaces([table], scale)[0]
        return lambda rows: form(space.take(rows), k, None if weights is None else weights[rows])
    if method in {"ranking", "blocks"}:
        if len(table.attributes) != 1:
            raise InvalidInput(
                f"{method!r} ranks one column, this table has {len(table.attributes)}; give it one at a time"
            )
        column = next(iter(table.attributes.values()))
        group_ranks = group_from_both_ends if method == "ranking" else group_from_low_end
        return lambda rows: group_ranks(column.take(rows), k)
    if method == "insensitive":
        return lambda rows: microaggregate_insensitive(table.take(rows), k, scale)
    labels = np.zeros(table.rows, dtype=np.int64)
    return lambda rows: _group_randomly(labels[rows], k, entropy)


def _group_randomly(labels: Integers, k: int, entropy: Entropy | None) -> Integers:
    """A uniform partition: runs of k in a uniform order."""
    return RankRuns.low_end(len(labels), k).compute_labels(permute_within_groups(labels, entropy))


def _group_by_stratum(grouping: Callable[[RowSelection], Integers], stratum: Integers, k: int) -> Integers:
    """Every stratum on its own; labels go on from one to the next."""
    small = int((np.bincount(stratum) < k).sum())
    if small:
        raise InvalidInput(
            f"{small} of the {int(stratum.max()) + 1} strata have fewer than k = {k} rows; "
            "join them with others, or ask for a smaller k"
        )
    groups, group_count = np.empty(len(stratum), dtype=np.int64), 0
    order = np.argsort(stratum, kind="stable")
    for rows in np.split(order, np.flatnonzero(np.diff(stratum[order])) + 1):
        labels = grouping(rows)
        groups[rows] = labels + group_count
        group_count += int(labels.max()) + 1
    return groups


def _read_records(
    records: object, domains: Mapping[str, Domain] | Sequence[Domain] | None, taxonomies: Mapping[str, Taxonomy] | None
) -> Table:
    """The table; an array's columns are named by their number."""
    if isinstance(records, Table | Mapping) or hasattr(records, "fetchnumpy") or hasattr(records, "column_names"):
        if domains is not None and not isinstance(domains, Mapping):
            raise InvalidInput("the domains of a table are given by the names of its columns, as {'age': (0, 120)}")
        if isinstance(records, Table):
            if taxonomies is not None:
                raise InvalidInput("a Table has its taxonomies already; give them when you read it")
            return records.put(*(_set_domain(records[name], ends) for name, ends in (domains or {}).items()))
        return read_table(records, taxonomies=taxonomies, domains=domains)
    if taxonomies is not None:
        raise InvalidInput("an array of numbers has no taxonomies; give a table with named columns")
    return _build_numbered_table(records, domains)


def _build_numbered_table(numbers: object, domains: object) -> Table:
    columns = _read_array(numbers)
    count = columns.shape[1]
    if domains is None:
        ends = [find_range(column) for column in columns.T]
    elif isinstance(domains, Sequence) and len(domains) == count:
        ends = list(domains)
    else:
        raise InvalidInput(f"domains must be one (lower, upper) for each of the {count} columns")
    return Table({str(j): _set_domain(Attribute(str(j), "numeric", columns[:, j]), ends[j]) for j in range(count)})


def _read_array(numbers: object) -> Floats:
    """The numbers as rows and columns, NaN where one is masked."""
    wrong = InvalidInput("X must be a table, or an array of numbers with a row for each record")
    try:
        if isinstance(numbers, np.ma.MaskedArray):
            numbers = np.ma.filled(numbers.astype(np.float64), np.nan)
        array = np.asarray(numbers, dtype=np.float64)
    except (TypeError, ValueError):
        raise wrong from None
    columns: Floats = array[:, None] if array.ndim == 1 else array
    if columns.ndim != 2 or columns.size == 0:
        raise wrong
    if np.isinf(columns).any():
        raise InvalidInput("X holds infinite numbers; clip them or leave them out")
    return columns


def _set_domain(attribute: Attribute, ends: Domain) -> Attribute:
    try:
        lower, upper = (float(end) for end in ends)
    except (TypeError, ValueError):
        lower, upper = np.nan, np.nan
    if not -np.inf < lower <= upper < np.inf:
        raise InvalidInput(f"the domain of the column {attribute.name[:40]!r} is two numbers, the lower one first")
    return replace(attribute, lower=lower, upper=upper)
