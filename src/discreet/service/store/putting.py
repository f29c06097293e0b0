"""Rows of which one key has one, whoever comes at once: nobody is refused because another was first."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping
from typing import Any

from sqlalchemy import Connection, Table, text
from sqlalchemy.dialects import postgresql, sqlite


def insert_if_absent(connection: Connection, table: Table, values: Mapping[str, object]) -> None:
    """Insert a row, unless one with a key of it is there."""
    connection.execute(_build_insert(connection, table).values(values).on_conflict_do_nothing())


def upsert_row(
    connection: Connection, table: Table, values: Mapping[str, object], adding: Collection[str] = ()
) -> None:
    """Insert a row, or give the one with its primary key these values; those in `adding` are added to what it has."""
    statement = _build_insert(connection, table).values(values)
    key_columns = [column.name for column in table.primary_key]
    new_values = {name: statement.excluded[name] for name in values if name not in key_columns}
    updates = {name: table.c[name] + value if name in adding else value for name, value in new_values.items()}
    connection.execute(statement.on_conflict_do_update(index_elements=key_columns, set_=updates))


def acquire_advisory_lock(connection: Connection, name: str) -> None:
    """Wait until no other transaction works under this name, so that a number can be counted and then be added to.

    On SQLite there is only ever one that writes.
    """
    if connection.dialect.name == "postgresql":
        number = int.from_bytes(hashlib.sha256(name.encode("utf-8", "surrogatepass")).digest()[:8], "big", signed=True)
        connection.execute(text("SELECT pg_advisory_xact_lock(:number)"), {"number": number})


def _build_insert(connection: Connection, table: Table) -> Any:
    return (postgresql if connection.dialect.name == "postgresql" else sqlite).insert(table)
