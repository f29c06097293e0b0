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
from discreet.microdata import ranking
from discreet.microdata.checks import check_k, row_strata, row_weights
from discreet.microdata.distances import FARTHEST, Scale, spaces
from discreet.microdata.insensitive import insensitive
from discreet.microdata.mdav import mdav
from discreet.microdata.permuting import permuted_inside
from discreet.microdata.reading import read_table
from discreet.microdata.table import Attribute, Floats, Places, Table
from discreet.microdata.vmdav import v_mdav
from discreet.query.released import Runs
from discreet.taxonomy import Taxonomy

METHODS = ("mdav", "v-mdav", "ranking", "blocks", "insensitive", "random")

Domain = tuple[float, float]
Rows = Any
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
    table = _read(X, domains, taxonomies)
    least = check_k(k, table.rows)
    weight, stratum = _positive(row_weights(table, weights)), row_strata(table, strata)
    table = _without(table, [name for name in (weights, strata) if isinstance(name, str)])
    grouping = _grouping(method, table, least, scale, weight, entropy)
    return grouping(slice(None)) if stratum is None else _by_stratum(grouping, stratum, least)


def _grouping(
    method: str, table: Table, k: int, scale: Scale, weights: Floats | None, entropy: Entropy | None
) -> Callable[[Rows], Places]:
    """The groups of some of the rows, by the method."""
    if method in {"mdav", "v-mdav"}:
        form = mdav if method == "mdav" else v_mdav
        space = spaces([table], scale)[0]
        return lambda rows: form(space.take(rows), k, None if weights is None else weights[rows])
    if method in {"ranking", "blocks"}:
        ranked, column = ranking.both_ends if method == "ranking" else ranking.low_end, _one_column(table, method)
        return lambda rows: ranked(column.take(rows), k)
    if method == "insensitive":
        return lambda rows: insensitive(table.take(rows), k, scale)
    if method == "random":
        return lambda rows: _random(np.zeros(table.rows, dtype=np.int64)[rows], k, entropy)
    raise InvalidInput(f"a method is one of {', '.join(METHODS)}; got {str(method)[:40]!r}")


def _one_column(table: Table, method: str) -> Attribute:
    if len(table.attributes) != 1:
        raise InvalidInput(
            f"{method!r} ranks one column, this table has {len(table.attributes)}; give it one at a time"
        )
    return next(iter(table.attributes.values()))


def _random(together: Places, k: int, entropy: Entropy | None) -> Places:
    """A uniform partition: runs of k in a uniform order."""
    return Runs.low_end(len(together), k).label(permuted_inside(together, entropy))


def _by_stratum(grouping: Callable[[Rows], Places], stratum: Places, k: int) -> Places:
    """Every stratum on its own; labels go on from one to the next."""
    small = int((np.bincount(stratum) < k).sum())
    if small:
        raise InvalidInput(
            f"{small} of the {int(stratum.max()) + 1} strata have fewer than k = {k} rows; "
            "join them with others, or ask for a smaller k"
        )
    groups, formed = np.empty(len(stratum), dtype=np.int64), 0
    order = np.argsort(stratum, kind="stable")
    for rows in np.split(order, np.flatnonzero(np.diff(stratum[order])) + 1):
        found = grouping(rows)
        groups[rows] = found + formed
        formed += int(found.max()) + 1
    return groups


def _positive(weights: Floats | None) -> Floats | None:
    if weights is not None and not bool(np.all((weights > 0) & (weights <= FARTHEST))):
        raise InvalidInput(
            f"weights must be positive numbers up to {format_number(FARTHEST)}; leave out rows of weight 0"
        )
    return weights


def _without(table: Table, names: Sequence[str]) -> Table:
    if set(names) >= set(table):
        raise InvalidInput("a table of nothing but weights and strata has no column to form groups by; add one")
    return table.without(names)


def _read(
    given: object, domains: Mapping[str, Domain] | Sequence[Domain] | None, taxonomies: Mapping[str, Taxonomy] | None
) -> Table:
    """The table; an array's columns are named by their number."""
    if isinstance(given, Table | Mapping) or hasattr(given, "fetchnumpy") or hasattr(given, "column_names"):
        if domains is not None and not isinstance(domains, Mapping):
            raise InvalidInput("the domains of a table are given by the names of its columns, as {'age': (0, 120)}")
        if isinstance(given, Table):
            if taxonomies is not None:
                raise InvalidInput("a Table has its taxonomies already; give them when you read it")
            return given.put(*(_bounded(given[name], ends) for name, ends in (domains or {}).items()))
        return read_table(given, taxonomies=taxonomies, domains=domains)
    if taxonomies is not None:
        raise InvalidInput("an array of numbers has no taxonomies; give a table with named columns")
    return _numbered(given, domains)


def _numbered(given: object, domains: object) -> Table:
    columns = _array(given)
    count = columns.shape[1]
    if domains is None:
        ends = [_ends(columns[:, j]) for j in range(count)]
    elif isinstance(domains, Sequence) and len(domains) == count:
        ends = list(domains)
    else:
        raise InvalidInput(f"domains must be one (lower, upper) for each of the {count} columns")
    return Table({str(j): _bounded(Attribute(str(j), "numeric", columns[:, j]), ends[j]) for j in range(count)})


def _array(given: object) -> Floats:
    """The numbers as rows and columns, NaN where one is masked."""
    wrong = InvalidInput("X must be a table, or an array of numbers with a row for each record")
    try:
        bare = np.ma.filled(given.astype(np.float64), np.nan) if isinstance(given, np.ma.MaskedArray) else given
        array = np.asarray(bare, dtype=np.float64)
    except (TypeError, ValueError):
        raise wrong from None
    columns: Floats = array[:, None] if array.ndim == 1 else array
    if columns.ndim != 2 or columns.size == 0:
        raise wrong
    if np.isinf(columns).any():
        raise InvalidInput("X holds infinite numbers; clip them or leave them out")
    return columns


def _ends(column: Floats) -> Domain:
    """The least and the greatest of the values that are not missing."""
    present = column[~np.isnan(column)]
    return (float(present.min()), float(present.max())) if len(present) else (0.0, 0.0)


def _bounded(attribute: Attribute, ends: Domain) -> Attribute:
    """The attribute with this domain."""
    try:
        lower, upper = (float(end) for end in ends)
    except (TypeError, ValueError):
        lower, upper = np.nan, np.nan
    if not -np.inf < lower <= upper < np.inf:
        raise InvalidInput(f"the domain of the column {attribute.name[:40]!r} is two numbers, the lower one first")
    return replace(attribute, lower=lower, upper=upper)
