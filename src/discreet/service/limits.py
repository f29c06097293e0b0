"""How many requests a token may send, and how long its previews may compute: one count for all workers of a machine.

Each token has a slot, in a file that workers share, with the time at which its burst is used up (GCRA); a request moves
it on by 1/rate. Slots are found by a hash, so that two tokens may share one, rarely; nobody can choose to.
"""

from __future__ import annotations

import fcntl
import hashlib
import math
import mmap
import os
import struct
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Lock

from discreet.errors import Unavailable
from discreet.formatting import format_number
from discreet.service.problems import Problem

SLOTS = 2**16
SIZE = 8
MINUTE = 60.0


class Rates:
    """The slots of one machine's tokens: so many of something a second, and so many at once."""

    def __init__(self, path: Path, rate: float, burst: float) -> None:
        self._step, self._room = 1 / rate, burst / rate
        self._lock = Lock()
        try:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            _fill(self._file)
            self._slots = mmap.mmap(self._file, SLOTS * SIZE)
        except OSError:
            raise Unavailable(f"the folder {path.parent} cannot be written; check its owner and the disk") from None

    def wait(self, who: str) -> float:
        """0 where a request may pass, which is then counted; else after how many seconds one may."""
        now = time.monotonic()
        with self._slot(who) as at:
            free = self._free(at, now)
            if free + self._step - now > self._room + self._step * 1e-9:
                return float(free + self._step - now - self._room)
            struct.pack_into("d", self._slots, at, free + self._step)
            return 0.0

    def left(self, who: str) -> float:
        """How much may be used now; below 0 where more was used than there may be."""
        now = time.monotonic()
        with self._slot(who) as at:
            return float(self._room - (self._free(at, now) - now)) / self._step

    def use(self, who: str, amount: float) -> None:
        """Count what was used, which is known only afterwards; more than was left is owed, up to as much again."""
        now = time.monotonic()
        with self._slot(who) as at:
            used = min(self._free(at, now) + amount * self._step, now + 2 * self._room)
            struct.pack_into("d", self._slots, at, used)

    @contextmanager
    def _slot(self, who: str) -> Iterator[int]:
        """The place of a slot, which no other thread or process changes meanwhile."""
        at = int.from_bytes(hashlib.sha256(who.encode("utf-8", "surrogatepass")).digest()[:8], "big") % SLOTS * SIZE
        with self._lock:
            fcntl.lockf(self._file, fcntl.LOCK_EX, SIZE, at)
            try:
                yield at
            finally:
                fcntl.lockf(self._file, fcntl.LOCK_UN, SIZE, at)

    def _free(self, at: int, now: float) -> float:
        """The time from which on nothing is used; the machine may have started anew since, and its clock with it."""
        (used,) = struct.unpack_from("d", self._slots, at)
        return float(max(used if used - now <= 2 * self._room else 0.0, now))

    def close(self) -> None:
        """Let go of the file."""
        self._slots.close()
        os.close(self._file)


class Computing:
    """How long previews of one token may compute: so many seconds of processor time in a minute."""

    def __init__(self, path: Path, seconds: float) -> None:
        self._seconds = seconds
        self._rates = Rates(path, seconds / MINUTE, seconds)

    @contextmanager
    def metered(self, token: str) -> Iterator[None]:
        """Count the processor time of what is done by this thread; refused where none is left."""
        left = self._rates.left(token)
        if left <= 0:
            wait = math.ceil(-left * MINUTE / self._seconds) + 1
            raise Problem(
                "rate-limited",
                f"the previews of this token have used the {format_number(self._seconds)} seconds of computing that "
                f"the custodian allows in a minute; wait {wait} seconds, or preview simpler questions",
                {"Retry-After": str(wait)},
            )
        start = time.thread_time()
        try:
            yield
        finally:
            self._rates.use(token, time.thread_time() - start)

    def close(self) -> None:
        """Let go of the file."""
        self._rates.close()


def _fill(file: int) -> None:
    """Have all slots on the disk: the first use of one that is not would end the process where the disk is full."""
    size = os.fstat(file).st_size
    missing = max(0, SLOTS * SIZE - size)
    if os.pwrite(file, bytes(missing), size) < missing:
        raise OSError
