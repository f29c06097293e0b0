"""Where a ledger is kept: transactions that one client at a time may write in, whatever the engine."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from typing import Protocol

from sqlalchemy import Connection
from sqlalchemy.exc import DBAPIError, SQLAlchemyError

from discreet.errors import Unavailable

LOCKED = "the ledger stays locked: someone is holding it; try again later"
DAMAGED = "the ledger is damaged, or is not a ledger; restore a copy"
CLOSED = "the ledger cannot be opened or written: look at its address, its folder, its rights and the room on its disk"
WAY_OUT = "discreet ledger restore FILE LEDGER --forgotten E"
GONE = (
    "the ledger's file is gone from its path; put it back with its -wal file, or stop the service and restore a "
    f"back-up: {WAY_OUT}"
)
MOVED = (
    "the file at the ledger's path is not the one that was opened: it was moved or replaced; put that one back, or "
    f"stop the service and restore a back-up: {WAY_OUT}"
)
PARTED = (
    "the -wal or -shm file beside the ledger was removed or replaced while it was open; stop all that has the ledger "
    "open, so that its newest entries are written to it, then start again"
)
REMADE = (
    "the database at the ledger's address is not the one that was opened: it was replaced or made anew; put that one "
    f"back, or stop the service and restore a back-up: {WAY_OUT}"
)

SAYS: Mapping[object, str] = {
    sqlite3.SQLITE_BUSY: LOCKED,
    sqlite3.SQLITE_LOCKED: LOCKED,
    sqlite3.SQLITE_CORRUPT: DAMAGED,
    sqlite3.SQLITE_NOTADB: DAMAGED,
    sqlite3.SQLITE_ERROR: DAMAGED,  # no such table or column
    "55P03": LOCKED,
    "42P01": DAMAGED,  # no such table
    "42703": DAMAGED,  # no such column
}
"""What an engine's code means: SQLite's numbers, PostgreSQL's texts."""


class Database(Protocol):
    """One engine. Its transactions are durable once they end, and leave no trace where they raise."""

    def writing(self, wait: float | None = None) -> AbstractContextManager[Connection]:
        """A transaction that sees and does all or nothing; on SQLite the only one that writes.

        It waits for others no longer than `wait` seconds, by default as long as the database was opened with.
        """

    def reading(self) -> AbstractContextManager[Connection]:
        """A transaction that sees one moment."""

    def identity(self) -> str:
        """Name the file or the database that is open; one that is put in its place has another name."""

    def close(self) -> None:
        """Let go of connections."""


@contextmanager
def plainly() -> Iterator[None]:
    """The boundary to the engines: whatever they raise becomes one sentence without their words."""
    try:
        yield
    except (SQLAlchemyError, OSError) as error:
        raise _unavailable(error) from None


def _unavailable(error: Exception) -> Unavailable:
    cause = error.orig if isinstance(error, DBAPIError) else error
    code = getattr(cause, "sqlite_errorcode", None)
    return Unavailable(SAYS.get(getattr(cause, "sqlstate", None) if code is None else code & 0xFF, CLOSED))
