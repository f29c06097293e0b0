"""The store itself: one SQLite file or one PostgreSQL database, shared by all workers."""

from __future__ import annotations

from pathlib import Path
from types import TracebackType
from typing import Self

from sqlalchemy import Connection, insert, inspect, select, text

from discreet.errors import DiscreetError, InvalidInput
from discreet.ledger.database import Database
from discreet.ledger.opening import database_at
from discreet.service.store.tables import METADATA, about

VERSION = 1
CREATION_LOCK = 0x64697364  # any number that others of the same database do not use


class Store:
    """Open one with `Store.open`; threads and processes may share what it opens."""

    def __init__(self, database: Database, passing: Database) -> None:
        self.database = database
        self.passing = passing
        """The same place, where a commit need not outlive a loss of power: for what can be asked for again."""

    @staticmethod
    def open(where: str | Path, timeout: float = 10) -> Store:
        """Open a store, or make it."""
        opened = database_at(where, timeout)
        try:
            _prepare(opened)
            return Store(opened, database_at(where, timeout, lasting=False))
        except DiscreetError:
            opened.close()
            raise

    def close(self) -> None:
        """Let go of connections."""
        self.passing.close()
        self.database.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()


def _prepare(database: Database) -> None:
    with database.reading() as connection:
        found = _version(connection)
    if found is not None:
        return
    with database.writing() as connection:
        if connection.dialect.name == "postgresql":
            connection.execute(text("SELECT pg_advisory_xact_lock(:number)"), {"number": CREATION_LOCK})
        if _version(connection) is None:
            METADATA.create_all(connection)
            connection.execute(insert(about), {"one": 1, "version": VERSION})


def _version(connection: Connection) -> int | None:
    if not inspect(connection).has_table(about.name):
        return None
    version = int(connection.execute(select(about.c.version)).scalar_one())
    if version != VERSION:
        raise InvalidInput(
            f"the store has format {version}, this discreet needs {VERSION}; run: discreet serve --upgrade, or update "
            "discreet"
        )
    return version
