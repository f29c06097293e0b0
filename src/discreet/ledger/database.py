"""Where a ledger is kept: transactions that one client at a time may write in, whatever the engine."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from typing import Protocol

from sqlalchemy import Connection
from sqlalchemy.exc import DBAPIError, SQLAlchemyError

from discreet.errors import Unavailable

LEDGER_LOCKED = "the ledger stays locked: someone is holding it; try again later"
LEDGER_DAMAGED = "the ledger is damaged, or is not a ledger; restore a copy"
LEDGER_UNREACHABLE = (
    "the ledger cannot be opened or written: look at its address, its folder, its rights and the room on its disk"
)
RESTORE_COMMAND = "discreet ledger restore FILE LEDGER --forgotten E"
FILE_MISSING = (
    "the ledger's file is gone from its path; put it back with its -wal file, or stop the service and restore a "
    f"back-up: {RESTORE_COMMAND}"
)
FILE_REPLACED = (
    "the file at the ledger's path is not the one that was opened: it was moved or replaced; put that one back, or "
    f"stop the service and restore a back-up: {RESTORE_COMMAND}"
)
WAL_REPLACED = (
    "the -wal or -shm file beside the ledger was removed or replaced while it was open; stop all that has the ledger "
    "open, so that its newest entries are written to it, then start again"
)
DATABASE_REPLACED = (
    "the database at the ledger's address is not the one that was opened: it was replaced or made anew; put that one "
    f"back, or stop the service and restore a back-up: {RESTORE_COMMAND}"
)

MESSAGES_BY_CODE: Mapping[object, str] = {
    sqlite3.SQLITE_BUSY: LEDGER_LOCKED,
    sqlite3.SQLITE_LOCKED: LEDGER_LOCKED,
    sqlite3.SQLITE_CORRUPT: LEDGER_DAMAGED,
    sqlite3.SQLITE_NOTADB: LEDGER_DAMAGED,
    sqlite3.SQLITE_ERROR: LEDGER_DAMAGED,  # no such table or column
    "55P03": LEDGER_LOCKED,
    "42P01": LEDGER_DAMAGED,  # no such table
    "42703": LEDGER_DAMAGED,  # no such column
}
"""What an engine's code means: SQLite's numbers, PostgreSQL's texts."""


class Database(Protocol):
    """One engine. Its transactions are durable once they end, and leave no trace where they raise."""

    def begin_write(self, wait: float | None = None) -> AbstractContextManager[Connection]:
        """A transaction that sees and does all or nothing; on SQLite the only one that writes.

        It waits for others no longer than `wait` seconds, by default as long as the database was opened with.
        """

    def begin_read(self) -> AbstractContextManager[Connection]:
        """A transaction that sees one moment."""

    def get_identity(self) -> str:
        """Name the file or the database that is open; one that is put in its place has another name."""

    def close(self) -> None:
        """Let go of connections."""


@contextmanager
def translate_database_errors() -> Iterator[None]:
    """The boundary to the engines: whatever they raise becomes one sentence without their words."""
    try:
        yield
    except (SQLAlchemyError, OSError) as error:
        cause = error.orig if isinstance(error, DBAPIError) else error
        sqlite_code = getattr(cause, "sqlite_errorcode", None)
        code = getattr(cause, "sqlstate", None) if sqlite_code is None else sqlite_code & 0xFF
        raise Unavailable(MESSAGES_BY_CODE.get(code, LEDGER_UNREACHABLE)) from None
