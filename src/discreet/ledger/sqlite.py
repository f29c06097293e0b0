"""A ledger in one SQLite file, with a fair queue of writers across processes.

Waiting inside SQLite is a lottery that leaves some clients out for seconds. Here each draws a ticket from a counter in
a file, holds a lock on the byte of that number, and writes once no lower number is held. The locks belong to an open
file (OFD locks), so that threads are told apart, and the kernel drops them when a process dies. This is for fairness
alone: that only one writes at a time is seen to by SQLite's own lock.

SQLite must not be carried through a fork, so the connection is closed before one and opened again after it.

A file that is moved stays open, and whoever has it open would go on writing to it while others open the file that took
its place. So the file at the path is compared with the open one, by device and inode, when a transaction begins and
again once it is committed. So are the files that SQLite keeps beside it: two write-ahead logs are two ledgers.
"""

from __future__ import annotations

import fcntl
import os
import sqlite3
import struct
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from weakref import WeakSet

from sqlalchemy import Connection, NullPool, QueuePool, create_engine

from discreet.errors import Unavailable
from discreet.ledger.storage import (
    FILE_MISSING,
    FILE_REPLACED,
    LEDGER_DAMAGED,
    LEDGER_LOCKED,
    WAL_REPLACED,
    translate_database_errors,
)

FLOCK_FORMAT = "hhqqi"
"""struct flock: type, whence, start, length, process (0 for OFD locks)."""
COUNTER_BYTES = 8
FIRST_TICKET_BYTE = 2**32
"""The byte of ticket 0, away from the counter's own."""
MAX_TICKETS = 2**48
PAUSE, MAX_PAUSE = 0.0003, 0.02
IMMUTABLE_MODE = "ro&immutable=1"
"""Without locks, and with nothing made beside the file."""
WAL_SUFFIXES = ("-wal", "-shm")
"""What SQLite keeps beside a file; both stay as long as anybody has the file open."""
MAX_OPENINGS = 3
"""How often a file that changes while it is opened is opened again: some file systems copy it on the first opening."""
NO_FILE = "no file"
"""The identity of a file that is not there."""
Inode = tuple[int, int]
"""Device and inode, which no other file has as long as this one is open."""

_descriptors: set[int] = set()
_databases: WeakSet[SQLite] = WeakSet()


@contextmanager
def wait_by_ticket(path: Path, deadline: float) -> Iterator[None]:
    """Wait for one's turn, until the deadline on the monotonic clock, and hold it."""
    with _open_lock_file(path) as descriptor:
        try:
            ticket = _take_ticket(descriptor, deadline)
            while (first := _find_first_ticket(descriptor, ticket)) is not None:
                _pause(min(PAUSE * (ticket - first), MAX_PAUSE), deadline)  # the farther from the front, the longer
            yield
        finally:
            _call_ofd(descriptor, fcntl.F_OFD_SETLK, fcntl.F_UNLCK, 0, 0)


@contextmanager
def wait_by_flock(path: Path, deadline: float) -> Iterator[None]:
    """Wait for one's turn without an order, by one lock on the whole file."""
    with _open_lock_file(path) as descriptor:
        while not _try_flock(descriptor):
            _pause(PAUSE, deadline)
        try:
            yield
        finally:
            fcntl.flock(descriptor, fcntl.LOCK_UN)


wait_for_turn = wait_by_ticket if hasattr(fcntl, "F_OFD_SETLK") else wait_by_flock  # macOS has no OFD locks


@contextmanager
def _open_lock_file(path: Path) -> Iterator[int]:
    """A descriptor of one's own. Locks are let go before it closes: a fork may have a copy that stays open."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    _descriptors.add(descriptor)
    try:
        yield descriptor
    finally:
        _descriptors.discard(descriptor)
        os.close(descriptor)


def _take_ticket(descriptor: int, deadline: float) -> int:
    while not _try_lock(descriptor, 0, COUNTER_BYTES):
        _pause(PAUSE, deadline)
    ticket = int.from_bytes(os.pread(descriptor, COUNTER_BYTES, 0)) % MAX_TICKETS
    while not _try_lock(descriptor, FIRST_TICKET_BYTE + ticket, 1):  # held only if someone has cut the file short
        ticket += 1
    os.pwrite(descriptor, (ticket + 1).to_bytes(COUNTER_BYTES), 0)
    _call_ofd(descriptor, fcntl.F_OFD_SETLK, fcntl.F_UNLCK, 0, COUNTER_BYTES)
    return ticket


def _find_first_ticket(descriptor: int, ticket: int) -> int | None:
    """A number below the ticket that is held by someone, on Linux the one that came first."""
    if not ticket:
        return None
    kind, start = _call_ofd(descriptor, fcntl.F_OFD_GETLK, fcntl.F_WRLCK, FIRST_TICKET_BYTE, ticket)
    return None if kind == fcntl.F_UNLCK else start - FIRST_TICKET_BYTE


def _try_flock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _try_lock(descriptor: int, start: int, length: int) -> bool:
    try:
        _call_ofd(descriptor, fcntl.F_OFD_SETLK, fcntl.F_WRLCK, start, length)
    except (BlockingIOError, PermissionError):
        return False
    return True


def _call_ofd(descriptor: int, command: int, kind: int, start: int, length: int) -> tuple[int, int]:
    """One call on a range of bytes; the kind and start of the lock it answers with."""
    request = struct.pack(FLOCK_FORMAT, kind, os.SEEK_SET, start, length, 0)
    reply = struct.unpack(FLOCK_FORMAT, fcntl.fcntl(descriptor, command, request))
    return reply[0], reply[2]


def _pause(seconds: float, deadline: float) -> None:
    if time.monotonic() > deadline:
        raise Unavailable(LEDGER_LOCKED)
    time.sleep(seconds)


def _close_descriptors() -> None:
    """A child does not hold the turns of its parent."""
    for descriptor in _descriptors:
        os.close(descriptor)
    _descriptors.clear()


os.register_at_fork(after_in_child=_close_descriptors)


class SingleConnection:
    """One connection, for one thread at a time; SQLite must not be carried through a fork, so it is closed before."""

    def __init__(self, path: Path, connect: Callable[[], sqlite3.Connection]) -> None:
        self.engine = create_engine("sqlite://", creator=self._open, poolclass=QueuePool, pool_size=1, max_overflow=0)
        self._path, self._connect = path, connect
        self._files: tuple[Inode | None, ...] = ()
        self._first_file: Inode | None = None
        self._lock = threading.Lock()
        self._has_lock = False

    @property
    def file(self) -> Inode | None:
        """The file that was opened first; no other is opened afterwards."""
        return self._first_file

    def expect_file(self, file: Inode | None) -> None:
        """Open no other file than this one."""
        self._first_file = file

    def _open(self) -> sqlite3.Connection:
        """Open the file at the path, and note which it is; refuse another one than was opened before."""
        for _ in range(MAX_OPENINGS):
            before = find_inode(self._path)
            if self._first_file not in (None, before):
                raise Unavailable(FILE_MISSING if before is None else FILE_REPLACED)
            connection = self._connect()
            files = _find_inodes(self._path)
            if files[0] is not None and files[0] == before:
                self._files, self._first_file = files, files[0]
                return connection
            connection.close()
        raise Unavailable(FILE_REPLACED)

    def require_same(self) -> None:
        """Refuse once the path leads to other files than those that are open."""
        inodes = _find_inodes(self._path)
        if inodes[0] is None:
            raise Unavailable(FILE_MISSING)
        if inodes[0] != self._files[0]:
            raise Unavailable(FILE_REPLACED)
        if any(opened_inode not in (None, inode) for opened_inode, inode in zip(self._files, inodes, strict=True)):
            raise Unavailable(WAL_REPLACED)

    @contextmanager
    def transaction(self, begin: str, deadline: float, wait: float | None = None) -> Iterator[Connection]:
        """A transaction, once the other threads have had theirs; SQLite waits for others no longer than `wait`."""
        if not self._lock.acquire(timeout=max(0.0, deadline - time.monotonic())):
            raise Unavailable(LEDGER_LOCKED)
        try:
            with self.engine.connect() as connection:
                if wait is not None:
                    connection.exec_driver_sql(f"PRAGMA busy_timeout = {round(wait * 1000)}")
                connection.exec_driver_sql(begin)
                self.require_same()
                yield connection
                self.require_same()
        finally:
            self._lock.release()

    def before_fork(self, timeout: float) -> None:
        """Let the transaction of another thread end, then close."""
        self._has_lock = self._lock.acquire(timeout=timeout)
        self.engine.dispose()

    def after_fork(self) -> None:
        """Go on, in the parent and in the child."""
        if self._has_lock:
            self._lock.release()


class SQLite:
    """A file of ours, readable by its owner alone; in write-ahead mode, every commit on the disk before it returns.

    Without `lasting` a commit may be lost with the power, though never with the process.
    """

    def __init__(self, path: Path, timeout: float, lasting: bool = True, make: bool = True) -> None:
        with translate_database_errors():
            self.path = path.resolve()
            self._queue_path = self.path.with_name(self.path.name + ".queue")
            self._timeout, self._lasting = timeout, lasting
            # Who reads waits for nobody's disk.
            self._writer, self._reader = (SingleConnection(self.path, self._connect) for _ in range(2))
            if make:
                _create_file(self.path)
            if not _is_sqlite(self.path, timeout):  # before anything is put beside a file that is another's
                raise Unavailable(LEDGER_DAMAGED)
            deadline = time.monotonic() + timeout
            with wait_for_turn(self._queue_path, deadline):  # two may not switch to write-ahead mode at once
                self._writer.engine.connect().close()
            self._reader.expect_file(self._writer.file)
        _databases.add(self)

    @contextmanager
    def begin_write(self, wait: float | None = None) -> Iterator[Connection]:
        """One's turn in the queue, then SQLite's own lock; each is waited for no longer than `wait`."""
        longest = self._timeout if wait is None else wait
        deadline = time.monotonic() + longest
        with (
            translate_database_errors(),
            wait_for_turn(self._queue_path, deadline),
            self._writer.transaction("BEGIN IMMEDIATE", deadline, longest) as connection,
        ):
            yield connection
            connection.commit()

    @contextmanager
    def begin_read(self) -> Iterator[Connection]:
        """Readers wait for nobody but the other readers of their process."""
        deadline = time.monotonic() + self._timeout
        with translate_database_errors(), self._reader.transaction("BEGIN", deadline) as connection:
            yield connection

    def get_identity(self) -> str:
        """Device and inode of the file that is open."""
        return format_file_identity(self._writer.file)

    def close(self) -> None:
        """Close the connections."""
        self._reader.engine.dispose()
        self._writer.engine.dispose()

    def checkpoint(self) -> None:
        """Have all in the one file, which can then be read where nothing can be written, as on a disc."""
        self._reader.engine.dispose()
        with translate_database_errors(), self._writer.engine.connect() as connection:
            connection.exec_driver_sql("PRAGMA journal_mode = DELETE")

    def _connect(self) -> sqlite3.Connection:
        connection = _connect_file(self.path, "rw", self._timeout)
        try:
            _set_up(connection, self._lasting)
        except sqlite3.Error:
            connection.close()
            raise
        return connection

    def before_fork(self) -> None:
        """Let the transactions of other threads end, then close."""
        self._writer.before_fork(self._timeout)
        self._reader.before_fork(self._timeout)

    def after_fork(self) -> None:
        """Go on, in the parent and in the child."""
        self._reader.after_fork()
        self._writer.after_fork()


@contextmanager
def open_immutable(path: Path, timeout: float) -> Iterator[Connection]:
    """Read a file that nobody has open, whatever it is; nothing changes, in it or beside it."""
    connect = partial(_connect_file, path.resolve(), IMMUTABLE_MODE, timeout)
    engine = create_engine("sqlite://", creator=connect, poolclass=NullPool)
    with translate_database_errors(), engine.connect() as connection:
        connection.exec_driver_sql("BEGIN")
        yield connection


def _connect_file(path: Path, mode: str, timeout: float) -> sqlite3.Connection:
    address = f"{path.as_uri()}?mode={mode}"
    connection = sqlite3.connect(address, timeout, isolation_level=None, check_same_thread=False, uri=True)
    # Damaged text must reach `verify`, which says where it is.
    connection.text_factory = partial(str, encoding="utf-8", errors="surrogateescape")
    return connection


def _is_sqlite(path: Path, timeout: float) -> bool:
    """Whether a file begins as SQLite's do, or is empty; whatever else is wrong shows when it is opened.

    SQLite looks, since to close a descriptor of our own would drop the locks it holds on the file.
    """
    try:
        with closing(_connect_file(path, IMMUTABLE_MODE, timeout)) as connection:
            connection.execute("PRAGMA schema_version")
    except sqlite3.Error as error:
        return error.sqlite_errorcode != sqlite3.SQLITE_NOTADB
    return True


def _set_up(connection: sqlite3.Connection, lasting: bool) -> None:
    connection.execute(f"PRAGMA synchronous = {'FULL' if lasting else 'NORMAL'}")
    connection.execute("PRAGMA fullfsync = ON")  # macOS keeps what fsync gave it in the drive's own memory
    if connection.execute("PRAGMA journal_mode = WAL").fetchone() != ("wal",):
        raise sqlite3.OperationalError("no write-ahead log on this file system")
    connection.execute("SELECT 1 FROM sqlite_master LIMIT 1").fetchone()  # opens the log, which is then there to stay


def find_inode(path: Path | str) -> Inode | None:
    """Device and inode of the file at a path; None where there is none."""
    try:
        status = os.stat(path)
    except FileNotFoundError:
        return None
    return status.st_dev, status.st_ino


def format_file_identity(file: Inode | None) -> str:
    """The identity of a file as text."""
    return NO_FILE if file is None else f"file {file[0]}:{file[1]}"


def _find_inodes(path: Path) -> tuple[Inode | None, ...]:
    return (find_inode(path), *(find_inode(f"{path}{suffix}") for suffix in WAL_SUFFIXES))


def _create_file(path: Path) -> None:
    """Make an empty file that only its owner may read, and its name in the folder durable; keep one that is there."""
    try:
        # Never opened here once it exists: to close any descriptor of it would drop the locks SQLite holds on it.
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
    except FileExistsError:
        return
    sync_to_disk(path.parent)


def sync_to_disk(path: Path) -> None:
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
