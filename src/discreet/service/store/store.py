"""The store itself: one SQLite file or one PostgreSQL database, shared by all workers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from sqlalchemy import Connection, text

from discreet.errors import DiscreetError, Unavailable
from discreet.ledger import upgrading
from discreet.ledger.database import (
    DATABASE_REPLACED,
    FILE_MISSING,
    FILE_REPLACED,
    LEDGER_DAMAGED,
    LEDGER_LOCKED,
    LEDGER_UNREACHABLE,
    WAL_REPLACED,
    Database,
)
from discreet.ledger.opening import open_database

NEWEST_REVISION = "2"
MIGRATIONS_DIR = Path(__file__).parent / "versions"
VERSION_TABLE = "service_version"
CREATION_LOCK = 0x64697364  # any number that others of the same database do not use


STORE_MESSAGES = {
    LEDGER_LOCKED: "the service's store stays locked: someone is holding it; try again later",
    LEDGER_DAMAGED: "the service's store is damaged, or is not one; restore a copy, or start "
    "without it and make new tokens",
    LEDGER_UNREACHABLE: "the service's store cannot be opened or written: look at its address, its "
    "rights and the room on its disk",
    FILE_MISSING: "the file of the service's store is gone from its path; put it back, or restart the service",
    FILE_REPLACED: "the service's store was moved or replaced while it was open; put it back, or restart the service",
    WAL_REPLACED: "the -wal or -shm file of the service's store was removed while it was open; restart the service",
    DATABASE_REPLACED: "the database of the service's store was replaced while it was open; put it "
    "back, or restart the service",
}
"""What is told of a ledger's database, told of the store's."""


@dataclass(frozen=True, slots=True)
class StoreDatabase:
    """A database that is no ledger, and says so where it fails."""

    database: Database

    @contextmanager
    def begin_write(self, wait: float | None = None) -> Iterator[Connection]:
        """A transaction that sees and does all or nothing."""
        with _reword_errors(), self.database.begin_write(wait) as connection:
            yield connection

    @contextmanager
    def begin_read(self) -> Iterator[Connection]:
        """A transaction that sees one moment."""
        with _reword_errors(), self.database.begin_read() as connection:
            yield connection

    def get_identity(self) -> str:
        """Name the file or the database that is open."""
        with _reword_errors():
            return self.database.get_identity()

    def close(self) -> None:
        """Let go of connections."""
        self.database.close()


class Store:
    """Open one with `Store.open`; threads and processes may share what it opens."""

    def __init__(self, database: Database, non_durable: Database) -> None:
        self.database = database
        self.non_durable = non_durable
        """The same place, where a commit need not outlive a loss of power: for what can be asked for again."""

    @staticmethod
    def open(address: str | Path, timeout: float = 10) -> Store:
        """Open a store, or make it."""
        with _reword_errors():
            database, non_durable = (
                StoreDatabase(open_database(address, timeout, durable)) for durable in (True, False)
            )
        try:
            _prepare_tables(database)
            return Store(database, non_durable)
        except DiscreetError:
            non_durable.close()
            database.close()
            raise

    def close(self) -> None:
        """Let go of connections."""
        self.non_durable.close()
        self.database.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()


@contextmanager
def _reword_errors() -> Iterator[None]:
    try:
        yield
    except Unavailable as error:
        raise Unavailable(STORE_MESSAGES.get(str(error), str(error))) from None


def _prepare_tables(database: Database) -> None:
    """Make the tables, or bring those of an older discreet up to date."""
    with database.begin_read() as connection:
        revision = upgrading.find_revision(connection, VERSION_TABLE)
    if revision != NEWEST_REVISION:
        with database.begin_write() as connection:
            if connection.dialect.name == "postgresql":
                connection.execute(text("SELECT pg_advisory_xact_lock(:number)"), {"number": CREATION_LOCK})
            upgrading.run_migrations(connection, MIGRATIONS_DIR, VERSION_TABLE)
