"""From an address to an open database that holds a ledger."""

from __future__ import annotations

from pathlib import Path

from sqlalchemy import Connection, insert, inspect, select, text

from discreet.errors import InvalidInput
from discreet.kernel.entropy import SYSTEM
from discreet.ledger.database import Database
from discreet.ledger.postgres import Postgres
from discreet.ledger.sqlite import SQLite
from discreet.ledger.tables import METADATA, VERSION, about

POSTGRES = ("postgresql://", "postgres://", "postgresql+psycopg://")
CREATION_LOCK = 0x64697363  # any number that others of the same database do not use


def database_at(where: str | Path, timeout: float) -> Database:
    """The database that an address names: a file's path, sqlite:///path or postgresql://..."""
    address = str(where)
    if isinstance(where, str) and address.startswith(POSTGRES):
        return Postgres("postgresql://" + address.partition("://")[2], timeout)
    path = address.removeprefix("sqlite:///")
    if isinstance(where, str) and ("://" in path or path in {"", ":memory:"} or "\0" in path):
        raise InvalidInput("a ledger is kept in a file, such as ledger.db, or at an address postgresql://...")
    return SQLite(Path(path), timeout)


def ledger_in(database: Database) -> str:
    """The id of the ledger that a database holds; it is made where there is none."""
    with database.reading() as connection:
        found = _id(connection)
    if found is not None:
        return found
    with database.writing() as connection:
        if connection.dialect.name == "postgresql":
            connection.execute(text("SELECT pg_advisory_xact_lock(:number)"), {"number": CREATION_LOCK})
        return _id(connection) or _create(connection)


def _id(connection: Connection) -> str | None:
    if not inspect(connection).has_table(about.name):
        return None
    row = connection.execute(select(about)).one()
    if row.version > VERSION:
        raise InvalidInput(
            f"the ledger was made by a newer discreet (format {row.version}); update discreet to open it"
        )
    return str(row.id)


def _create(connection: Connection) -> str:
    METADATA.create_all(connection)
    made = SYSTEM.take(16).hex()
    connection.execute(insert(about), {"one": 1, "id": made, "version": VERSION})
    return made
