"""Groups of at least k records that are near each other."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.errors import InvalidInput
from discreet.formatting import format_number
from discreet.kernel.entropy import Entropy
from discreet.microdata.checks import check_k, read_row_strata, read_row_weights
from discreet.microdata.distances import MAX_COORDINATE, Scale, build_spaces
from discreet.microdata.insensitive import microaggregate_insensitive
from discreet.microdata.mdav import mdav
from discreet.microdata.permuting import permute_within_groups
from discreet.microdata.ranking import group_from_both_ends, group_from_low_end
from discreet.microdata.reading import read_table
from discreet.microdata.table import Attribute, Floats, Integers, Table
from discreet.microdata.vmdav import v_mdav
from discreet.query.released import RankRuns
from discreet.taxonomy import Taxonomy

GROUPING_METHODS = ("mdav", "v-mdav", "ranking", "blocks", "insensitive", "random")

Domain = tuple[float, float]
RowSelection = Any
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
    """The group of each row, an integer label from 0 on; no group has fewer than k rows.

    `X` is an array of numbers, one row for each record, or a table. Methods: "mdav"; "v-mdav", groups of variable size;
    "ranking", one column by rank, from both ends in turn; "blocks", one column by rank from the low end; "insensitive",
    around the corners of the domain; "random". `scale` divides the columns: None not at all, "domain" by the width of
    the domain (formula 6.7), "deviation" by the standard deviation, or by the numbers given.

    `weights` (positive) count in averages; k counts rows whatever their weight. Groups never cross `strata`, each of
    which needs k rows. Both are arrays, or name a column of the table. `entropy` is for "random" alone.
    """
    table = _read_records(X, domains, taxonomies)
    min_size = check_k(k, table.rows)
    weight, stratum = _check_positive(read_row_weights(table, weights)), read_row_strata(table, strata)
    table = _drop_columns(table, [name for name in (weights, strata) if isinstance(name, str)])
    grouping = _choose_grouping(method, table, min_size, scale, weight, entropy)
    return grouping(slice(None)) if stratum is None else _group_by_stratum(grouping, stratum, min_size)


def _choose_grouping(
    method: str, table: Table, k: int, scale: Scale, weights: Floats | None, entropy: Entropy | None
) -> Callable[[RowSelection], Integers]:
    """The groups of some of the rows, by the method."""
    if method in {"mdav", "v-mdav"}:
        form = mdav if method == "mdav" else v_mdav
        space = build_spaces([table], scale)[0]
        return lambda rows: form(space.take(rows), k, None if weights is None else weights[rows])
    if method in {"ranking", "blocks"}:
        rank_column, column = (
            group_from_both_ends if method == "ranking" else group_from_low_end,
            _get_single_column(table, method),
        )
        return lambda rows: rank_column(column.take(rows), k)
    if method == "insensitive":
        return lambda rows: microaggregate_insensitive(table.take(rows), k, scale)
    if method == "random":
        return lambda rows: _group_randomly(np.zeros(table.rows, dtype=np.int64)[rows], k, entropy)
    raise InvalidInput(f"a method is one of {', '.join(GROUPING_METHODS)}; got {str(method)[:40]!r}")


def _get_single_column(table: Table, method: str) -> Attribute:
    if len(table.attributes) != 1:
        raise InvalidInput(
            f"{method!r} ranks one column, this table has {len(table.attributes)}; give it one at a time"
        )
    return next(iter(table.attributes.values()))


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


def _check_positive(weights: Floats | None) -> Floats | None:
    if weights is not None and not bool(np.all((weights > 0) & (weights <= MAX_COORDINATE))):
        raise InvalidInput(
            f"weights must be positive numbers up to {format_number(MAX_COORDINATE)}; leave out rows of weight 0"
        )
    return weights


def _drop_columns(table: Table, names: Sequence[str]) -> Table:
    if set(names) >= set(table):
        raise InvalidInput("a table of nothing but weights and strata has no column to form groups by; add one")
    return table.drop(names)


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
        ends = [_find_range(columns[:, j]) for j in range(count)]
    elif isinstance(domains, Sequence) and len(domains) == count:
        ends = list(domains)
    else:
        raise InvalidInput(f"domains must be one (lower, upper) for each of the {count} columns")
    return Table({str(j): _set_domain(Attribute(str(j), "numeric", columns[:, j]), ends[j]) for j in range(count)})


def _read_array(numbers: object) -> Floats:
    """The numbers as rows and columns, NaN where one is masked."""
    wrong = InvalidInput("X must be a table, or an array of numbers with a row for each record")
    try:
        unmasked = (
            np.ma.filled(numbers.astype(np.float64), np.nan) if isinstance(numbers, np.ma.MaskedArray) else numbers
        )
        array = np.asarray(unmasked, dtype=np.float64)
    except (TypeError, ValueError):
        raise wrong from None
    columns: Floats = array[:, None] if array.ndim == 1 else array
    if columns.ndim != 2 or columns.size == 0:
        raise wrong
    if np.isinf(columns).any():
        raise InvalidInput("X holds infinite numbers; clip them or leave them out")
    return columns


def _find_range(column: Floats) -> Domain:
    """The least and the greatest of the values that are not missing."""
    present = column[~np.isnan(column)]
    return (float(present.min()), float(present.max())) if len(present) else (0.0, 0.0)


def _set_domain(attribute: Attribute, ends: Domain) -> Attribute:
    """The attribute with this domain."""
    try:
        lower, upper = (float(end) for end in ends)
    except (TypeError, ValueError):
        lower, upper = np.nan, np.nan
    if not -np.inf < lower <= upper < np.inf:
        raise InvalidInput(f"the domain of the column {attribute.name[:40]!r} is two numbers, the lower one first")
    return replace(attribute, lower=lower, upper=upper)
