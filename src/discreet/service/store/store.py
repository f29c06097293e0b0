"""The store itself: one SQLite file or one PostgreSQL database, shared by all workers."""

from __future__ import annotations

from pathlib import Path
from types import TracebackType
from typing import Self

from sqlalchemy import text

from discreet.errors import DiscreetError
from discreet.ledger import upgrading
from discreet.ledger.database import Database
from discreet.ledger.opening import database_at

NEWEST = "1"
VERSIONS = Path(__file__).parent / "versions"
VERSION_TABLE = "service_version"
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
    """Make the tables, or bring those of an older discreet up to date."""
    with database.reading() as connection:
        found = upgrading.revision_of(connection, VERSION_TABLE)
    if found != NEWEST:
        with database.writing() as connection:
            if connection.dialect.name == "postgresql":
                connection.execute(text("SELECT pg_advisory_xact_lock(:number)"), {"number": CREATION_LOCK})
            upgrading.upgrade(connection, VERSIONS, VERSION_TABLE)
