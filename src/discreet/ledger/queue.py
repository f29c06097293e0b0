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

FLOCK = "hhqqi"
"""struct flock: type, whence, start, length, process (0 for OFD locks)."""
COUNTER_BYTES = 8
FIRST = 2**32
"""The byte of ticket 0, away from the counter's own."""
TICKETS = 2**48
PAUSE, LONGEST_PAUSE = 0.0003, 0.02

_descriptors: set[int] = set()


@contextmanager
def ticket_turn(path: Path, deadline: float) -> Iterator[None]:
    """Wait for one's turn, until the deadline on the monotonic clock, and hold it."""
    with _opened(path) as descriptor:
        try:
            _await_ticket(descriptor, _ticket(descriptor, deadline), deadline)
            yield
        finally:
            _ofd(descriptor, fcntl.F_OFD_SETLK, fcntl.F_UNLCK, 0, 0)


@contextmanager
def flock_turn(path: Path, deadline: float) -> Iterator[None]:
    """The same without order, by one lock on the whole file."""
    with _opened(path) as descriptor:
        while not _flock(descriptor):
            _pause(PAUSE, deadline)
        try:
            yield
        finally:
            fcntl.flock(descriptor, fcntl.LOCK_UN)


turn = ticket_turn if hasattr(fcntl, "F_OFD_SETLK") else flock_turn  # macOS has no OFD locks


@contextmanager
def _opened(path: Path) -> Iterator[int]:
    """A descriptor of one's own. Locks are let go before it closes: a fork may have a copy that stays open."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    _descriptors.add(descriptor)
    try:
        yield descriptor
    finally:
        _descriptors.discard(descriptor)
        os.close(descriptor)


def _ticket(descriptor: int, deadline: float) -> int:
    """Draw the next number, and hold its byte."""
    while not _lock(descriptor, 0, COUNTER_BYTES):
        _pause(PAUSE, deadline)
    ticket = int.from_bytes(os.pread(descriptor, COUNTER_BYTES, 0)) % TICKETS
    while not _lock(descriptor, FIRST + ticket, 1):  # held only if someone has cut the file short
        ticket += 1
    os.pwrite(descriptor, (ticket + 1).to_bytes(COUNTER_BYTES), 0)
    _ofd(descriptor, fcntl.F_OFD_SETLK, fcntl.F_UNLCK, 0, COUNTER_BYTES)
    return ticket


def _await_ticket(descriptor: int, ticket: int, deadline: float) -> None:
    """Wait until no lower number is held; the farther from the front, the longer between two looks."""
    while (first := _first_held(descriptor, ticket)) is not None:
        _pause(min(PAUSE * (ticket - first), LONGEST_PAUSE), deadline)


def _first_held(descriptor: int, ticket: int) -> int | None:
    """A number below the ticket that is held by someone, on Linux the one that came first."""
    if not ticket:
        return None
    kind, start = _ofd(descriptor, fcntl.F_OFD_GETLK, fcntl.F_WRLCK, FIRST, ticket)
    return None if kind == fcntl.F_UNLCK else start - FIRST


def _flock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _lock(descriptor: int, start: int, length: int) -> bool:
    try:
        _ofd(descriptor, fcntl.F_OFD_SETLK, fcntl.F_WRLCK, start, length)
    except (BlockingIOError, PermissionError):
        return False
    return True


def _ofd(descriptor: int, command: int, kind: int, start: int, length: int) -> tuple[int, int]:
    """One call on a range of bytes; the kind and start of the lock it answers with."""
    asked = struct.pack(FLOCK, kind, os.SEEK_SET, start, length, 0)
    answered = struct.unpack(FLOCK, fcntl.fcntl(descriptor, command, asked))
    return answered[0], answered[2]


def _pause(seconds: float, deadline: float) -> None:
    if time.monotonic() > deadline:
        raise Unavailable("the ledger stays locked: someone is holding it; try again later")
    time.sleep(seconds)


def _let_go() -> None:
    """A child does not hold the turns of its parent."""
    for descriptor in _descriptors:
        os.close(descriptor)
    _descriptors.clear()


os.register_at_fork(after_in_child=_let_go)
