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
from discreet.ledger.database import CLOSED, DAMAGED, GONE, LOCKED, MOVED, PARTED, REMADE, Database
from discreet.ledger.opening import database_at

NEWEST = "2"
VERSIONS = Path(__file__).parent / "versions"
VERSION_TABLE = "service_version"
CREATION_LOCK = 0x64697364  # any number that others of the same database do not use


SAYS = {
    LOCKED: "the service's store stays locked: someone is holding it; try again later",
    DAMAGED: "the service's store is damaged, or is not one; restore a copy, or start without it and make new tokens",
    CLOSED: "the service's store cannot be opened or written: look at its address, its rights and the room on its disk",
    GONE: "the file of the service's store is gone from its path; put it back, or restart the service",
    MOVED: "the service's store was moved or replaced while it was open; put it back, or restart the service",
    PARTED: "the -wal or -shm file of the service's store was removed while it was open; restart the service",
    REMADE: "the database of the service's store was replaced while it was open; put it back, or restart the service",
}
"""What is told of a ledger's database, told of the store's."""


@dataclass(frozen=True, slots=True)
class Own:
    """A database that is no ledger, and says so where it fails."""

    database: Database

    @contextmanager
    def writing(self, wait: float | None = None) -> Iterator[Connection]:
        """A transaction that sees and does all or nothing."""
        with _told(), self.database.writing(wait) as connection:
            yield connection

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """A transaction that sees one moment."""
        with _told(), self.database.reading() as connection:
            yield connection

    def identity(self) -> str:
        """Name the file or the database that is open."""
        with _told():
            return self.database.identity()

    def close(self) -> None:
        """Let go of connections."""
        self.database.close()


class Store:
    """Open one with `Store.open`; threads and processes may share what it opens."""

    def __init__(self, database: Database, passing: Database) -> None:
        self.database = database
        self.passing = passing
        """The same place, where a commit need not outlive a loss of power: for what can be asked for again."""

    @staticmethod
    def open(where: str | Path, timeout: float = 10) -> Store:
        """Open a store, or make it."""
        with _told():
            opened, passing = (Own(database_at(where, timeout, lasting)) for lasting in (True, False))
        try:
            _prepare(opened)
            return Store(opened, passing)
        except DiscreetError:
            passing.close()
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


@contextmanager
def _told() -> Iterator[None]:
    try:
        yield
    except Unavailable as error:
        raise Unavailable(SAYS.get(str(error), str(error))) from None


def _prepare(database: Database) -> None:
    """Make the tables, or bring those of an older discreet up to date."""
    with database.reading() as connection:
        found = upgrading.revision_of(connection, VERSION_TABLE)
    if found != NEWEST:
        with database.writing() as connection:
            if connection.dialect.name == "postgresql":
                connection.execute(text("SELECT pg_advisory_xact_lock(:number)"), {"number": CREATION_LOCK})
            upgrading.upgrade(connection, VERSIONS, VERSION_TABLE)
