"""The rows and columns of a table that a release method uses, from its schema alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from discreet.errors import InvalidInput, Unsupported

if TYPE_CHECKING:
    from discreet.schema import Column, Schema


def get_public_row_count(schema: Schema) -> int:
    """Return the number of rows that all neighbors have, or refuse a table where it is not public."""
    if schema.neighbors != "replace-one" or schema.units is None:
        raise Unsupported(
            f"a private file tells how many rows there are, and under add-remove {schema.name} keeps that number "
            "secret, which no fixed layout does; declare neighbours: replace-one and units, if the number is public"
        )
    if schema.rows > 1:
        raise Unsupported(
            f"a private file is proven for one row of each unit, and {schema.name} keeps up to {schema.rows}; "
            "publish a table with one row for each unit"
        )
    return schema.units


def choose_columns(schema: Schema, names: Sequence[str]) -> tuple[Column, ...]:
    """Return the named columns, by default all but those that follow from others; refuse what has no public domain."""
    all_columns = [column for column in schema.columns.values() if column.derived is None]
    chosen_columns = [schema.column(name) for name in names] or all_columns
    for column in chosen_columns:
        if column.private_keys:
            raise InvalidInput(
                f"{column.name} has no public domain, so noise cannot cover what may be in it; list its categories in "
                "the schema, or name the columns to release without it"
            )
        if column.size < 2 and not column.is_nullable:
            raise InvalidInput(f"{column.name} has one possible value, so there is nothing to release; leave it out")
    return tuple(chosen_columns)


def get_column_roles(schema: Schema) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the quasi-identifiers and the confidential columns; a file hides rows, so a row must be a unit."""
    if schema.rows > 1:
        raise Unsupported(
            f"a file hides each row among k rows, and {schema.name} keeps up to {schema.rows} rows of one unit, which "
            "could be all of them; publish a table with one row for each unit"
        )
    quasi = tuple(name for name, column in schema.columns.items() if column.role == "quasi-identifier")
    confidential = tuple(name for name, column in schema.columns.items() if column.role == "confidential")
    return quasi, confidential
