"""A ledger in one SQLite file: one connection in each process, a fair queue among all of them.

SQLite must not be carried through a fork, so the connection is closed before one and opened again after it.
"""

from __future__ import annotations

import os
import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from weakref import WeakSet

from sqlalchemy import Connection, NullPool, QueuePool, create_engine

from discreet.errors import Unavailable
from discreet.ledger.database import LOCKED, plainly
from discreet.ledger.queue import turn

_databases: WeakSet[SQLite] = WeakSet()


class SQLite:
    """A file of ours, readable by its owner alone; in write-ahead mode, every commit on the disk before it returns."""

    def __init__(self, path: Path, timeout: float) -> None:
        with plainly():
            self.path = path.resolve()
            self._queue = self.path.with_name(self.path.name + ".queue")
            self._timeout = timeout
            self._one = threading.Lock()
            self._held = False
            self._engine = create_engine(
                "sqlite://", creator=self._connect, poolclass=QueuePool, pool_size=1, max_overflow=0
            )
            _create(self.path)
            with turn(self._queue, time.monotonic() + timeout):  # two may not switch to write-ahead mode at once
                self._engine.connect().close()
        _databases.add(self)

    @contextmanager
    def writing(self) -> Iterator[Connection]:
        """One's turn in the queue, then SQLite's own lock."""
        deadline = time.monotonic() + self._timeout
        with plainly(), turn(self._queue, deadline), self._transaction("BEGIN IMMEDIATE", deadline) as connection:
            yield connection
            connection.commit()

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """Readers wait for nobody but the other threads of their process."""
        with plainly(), self._transaction("BEGIN", time.monotonic() + self._timeout) as connection:
            yield connection

    def close(self) -> None:
        """Close the connection."""
        self._engine.dispose()

    def settle(self) -> None:
        """Have all in the one file, which can then be read where nothing can be written, as on a disc."""
        with plainly(), self._engine.connect() as connection:
            connection.exec_driver_sql("PRAGMA journal_mode = DELETE")

    @contextmanager
    def _transaction(self, begin: str, deadline: float) -> Iterator[Connection]:
        if not self._one.acquire(timeout=max(0.0, deadline - time.monotonic())):
            raise Unavailable(LOCKED)
        try:
            with self._engine.connect() as connection:
                connection.exec_driver_sql(begin)
                yield connection
        finally:
            self._one.release()

    def _connect(self) -> sqlite3.Connection:
        connection = _connected(self.path, "rw", self._timeout)
        try:
            _set_up(connection)
        except sqlite3.Error:
            connection.close()
            raise
        return connection

    def before_fork(self) -> None:
        """Let the transaction of another thread end, then close."""
        self._held = self._one.acquire(timeout=self._timeout)
        self._engine.dispose()

    def after_fork(self) -> None:
        """Go on, in the parent and in the child."""
        if self._held:
            self._one.release()


@contextmanager
def looking(path: Path, timeout: float) -> Iterator[Connection]:
    """A transaction that sees one moment of a file that may be anything, and changes nothing of it."""
    engine = create_engine("sqlite://", creator=lambda: _connected(path.resolve(), "ro", timeout), poolclass=NullPool)
    with plainly(), engine.connect() as connection:
        connection.exec_driver_sql("BEGIN")
        yield connection


def _connected(path: Path, mode: str, timeout: float) -> sqlite3.Connection:
    address = f"{path.as_uri()}?mode={mode}"
    connection = sqlite3.connect(address, timeout, isolation_level=None, check_same_thread=False, uri=True)
    # Damaged text must reach `verify`, which says where it is.
    connection.text_factory = partial(str, encoding="utf-8", errors="surrogateescape")
    return connection


def _set_up(connection: sqlite3.Connection) -> None:
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute("PRAGMA fullfsync = ON")  # macOS keeps what fsync gave it in the drive's own memory
    if connection.execute("PRAGMA journal_mode = WAL").fetchone() != ("wal",):
        raise sqlite3.OperationalError("no write-ahead log on this file system")


def _create(path: Path) -> None:
    """Make an empty file that only its owner may read, and its name in the folder durable; keep one that is there."""
    try:
        # Never opened here once it exists: to close any descriptor of it would drop the locks SQLite holds on it.
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
    except FileExistsError:
        return
    sync(path.parent)


def sync(path: Path) -> None:
    """Have a closed file, or the names in a folder, on the disk."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _before_fork() -> None:
    for database in list(_databases):
        database.before_fork()


def _after_fork() -> None:
    for database in list(_databases):
        database.after_fork()


os.register_at_fork(before=_before_fork, after_in_parent=_after_fork, after_in_child=_after_fork)
