"""A fair queue in front of SQLite: whoever came first writes first, across threads and processes.

Waiting inside SQLite is a lottery that leaves some clients out for seconds. Here each draws a ticket from a counter in
a file, holds a lock on the byte of that number, and writes once no lower number is held. The locks belong to an open
file (OFD locks), so that threads are told apart, and the kernel drops them when a process dies. This is for fairness
alone: that only one writes at a time is seen to by SQLite's own lock.
"""

from __future__ import annotations

import fcntl
import os
import struct
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from discreet.errors import Unavailable

FLOCK_FORMAT = "hhqqi"
"""struct flock: type, whence, start, length, process (0 for OFD locks)."""
COUNTER_BYTES = 8
FIRST_TICKET_BYTE = 2**32
"""The byte of ticket 0, away from the counter's own."""
MAX_TICKETS = 2**48
PAUSE, MAX_PAUSE = 0.0003, 0.02

_descriptors: set[int] = set()


@contextmanager
def wait_by_ticket(path: Path, deadline: float) -> Iterator[None]:
    """Wait for one's turn, until the deadline on the monotonic clock, and hold it."""
    with _open_lock_file(path) as descriptor:
        try:
            _await_ticket(descriptor, _take_ticket(descriptor, deadline), deadline)
            yield
        finally:
            _call_ofd(descriptor, fcntl.F_OFD_SETLK, fcntl.F_UNLCK, 0, 0)


@contextmanager
def wait_by_flock(path: Path, deadline: float) -> Iterator[None]:
    """The same without order, by one lock on the whole file."""
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
    """Draw the next number, and hold its byte."""
    while not _try_lock(descriptor, 0, COUNTER_BYTES):
        _pause(PAUSE, deadline)
    ticket = int.from_bytes(os.pread(descriptor, COUNTER_BYTES, 0)) % MAX_TICKETS
    while not _try_lock(descriptor, FIRST_TICKET_BYTE + ticket, 1):  # held only if someone has cut the file short
        ticket += 1
    os.pwrite(descriptor, (ticket + 1).to_bytes(COUNTER_BYTES), 0)
    _call_ofd(descriptor, fcntl.F_OFD_SETLK, fcntl.F_UNLCK, 0, COUNTER_BYTES)
    return ticket


def _await_ticket(descriptor: int, ticket: int, deadline: float) -> None:
    """Wait until no lower number is held; the farther from the front, the longer between two looks."""
    while (first := _find_first_ticket(descriptor, ticket)) is not None:
        _pause(min(PAUSE * (ticket - first), MAX_PAUSE), deadline)


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
        raise Unavailable("the ledger stays locked: someone is holding it; try again later")
    time.sleep(seconds)


def _close_descriptors() -> None:
    """A child does not hold the turns of its parent."""
    for descriptor in _descriptors:
        os.close(descriptor)
    _descriptors.clear()


os.register_at_fork(after_in_child=_close_descriptors)
