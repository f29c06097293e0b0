"""What every method asks of its input before it looks for groups: a k, roles of columns, columns that say something."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypedDict

import numpy as np
from numpy.typing import NDArray

from discreet.errors import InvalidInput
from discreet.exact import as_int
from discreet.microdata.reading import read_table
from discreet.microdata.table import Attribute, Floats, Table
from discreet.taxonomy import Taxonomy

ROW_VALUE_TYPES = {"weights": "positive number", "strata": "label"}


class TableReadOptions(TypedDict, total=False):
    """What `read_table` is told about the columns of a table."""

    kinds: Mapping[str, str] | None
    categories: Mapping[str, Sequence[str]] | None
    taxonomies: Mapping[str, Taxonomy] | None
    domains: Mapping[str, tuple[float, float]] | None


def check_k(k: object, rows: int) -> int:
    """The least size of a group, as a whole number from 2 to the number of rows."""
    min_size = as_int(k, "k", 2)
    if min_size > rows:
        raise InvalidInput(f"k is {min_size} but there are only {rows} rows; ask for a k from 2 to the number of rows")
    return min_size


def check_roles(
    table: Table, quasi: object, confidential: object, informed: bool
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The names of the quasi-identifiers and of the confidential columns; only an informed intruder knows both."""
    quasi_names = () if informed and _list_names(quasi) == () else check_columns(table, quasi, "quasi")
    confidential_names = check_columns(table, confidential, "confidential")
    overlap = [name for name in quasi_names if name in confidential_names]
    if overlap and not informed:
        raise InvalidInput(
            f"the column {overlap[0][:40]!r} is both quasi-identifier and confidential; give it one role, "
            "or swap for informed intruders with intruder='informed'"
        )
    return quasi_names, confidential_names


def check_columns(table: Table, names: object, role: str) -> tuple[str, ...]:
    """Columns of the table, at least one, each once."""
    listed = _list_names(names)
    if not listed or not all(isinstance(name, str) for name in listed) or len(set(listed)) < len(listed):
        raise InvalidInput(f"{role} must list at least one column of the table by its name, each once")
    return tuple(table.select(listed))


def _list_names(names: object) -> tuple[Any, ...]:
    return (names,) if isinstance(names, str) else tuple(names) if isinstance(names, Iterable) else ()


def check_informative(attribute: Attribute) -> None:
    """Nothing, where the column tells some rows from others; groups by a column that does not would mean nothing."""
    if attribute.missing.all():
        raise InvalidInput(
            f"the column {attribute.name[:40]!r} has no values, all are missing; leave it out, or take its role away"
        )
    if attribute.is_constant:
        raise InvalidInput(
            f"the column {attribute.name[:40]!r} has the same value in every row; leave it out, or take its role away"
        )


def read_row_weights(table: Table, weights: object) -> Floats | None:
    """The weight of every row: as given, or of the column that is named."""
    return None if weights is None else np.asarray(_read_row_values(table, weights, "weights").values, dtype=np.float64)


def read_row_strata(table: Table, strata: object) -> NDArray[np.int64] | None:
    """The stratum of every row, 0, 1, ...: as given, or of the column that is named; missing is a stratum too."""
    if strata is None:
        return None
    labels: NDArray[np.int64] = np.unique(_read_row_values(table, strata, "strata").values, return_inverse=True)[1]
    return labels


def _read_row_values(table: Table, column_or_values: object, role: str) -> Attribute:
    attribute = (
        table[column_or_values] if isinstance(column_or_values, str) else read_table({role: column_or_values})[role]
    )
    if len(attribute.values) != table.rows or (role == "weights" and attribute.kind != "numeric"):
        raise InvalidInput(
            f"{role} must be the name of a column, or one {ROW_VALUE_TYPES[role]} for each row of the table"
        )
    return attribute
