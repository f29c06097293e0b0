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
from discreet.service.problems import HttpProblem

SLOT_COUNT = 2**16
SLOT_SIZE = 8
MINUTE = 60.0


class RateLimiter:
    """Limits the rate and the burst of what each token uses on one machine."""

    def __init__(self, path: Path, rate: float, burst: float) -> None:
        self._step, self._burst_seconds = 1 / rate, burst / rate
        self._lock = Lock()
        try:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            # All slots are on the disk: the first use of one that is not would end the process where the disk is full.
            size = os.fstat(self._file).st_size
            missing = max(0, SLOT_COUNT * SLOT_SIZE - size)
            if os.pwrite(self._file, bytes(missing), size) < missing:
                raise OSError
            self._slots = mmap.mmap(self._file, SLOT_COUNT * SLOT_SIZE)
        except OSError:
            raise Unavailable(f"the folder {path.parent} cannot be written; check its owner and the disk") from None

    def count_request(self, key: str) -> float:
        """Count a request and return 0 if it may pass; else return after how many seconds one may."""
        now = time.monotonic()
        with self._lock_slot(key) as offset:
            free = self._read_free_time(offset, now)
            if free + self._step - now > self._burst_seconds + self._step * 1e-9:
                return float(free + self._step - now - self._burst_seconds)
            struct.pack_into("d", self._slots, offset, free + self._step)
            return 0.0

    def get_remaining(self, key: str) -> float:
        """Get how much may be used now; below 0 where more was used than is allowed."""
        now = time.monotonic()
        with self._lock_slot(key) as offset:
            return float(self._burst_seconds - (self._read_free_time(offset, now) - now)) / self._step

    def consume(self, key: str, amount: float) -> None:
        """Count what was used; more than was left is owed, up to as much again."""
        now = time.monotonic()
        with self._lock_slot(key) as offset:
            used = min(self._read_free_time(offset, now) + amount * self._step, now + 2 * self._burst_seconds)
            struct.pack_into("d", self._slots, offset, used)

    @contextmanager
    def _lock_slot(self, key: str) -> Iterator[int]:
        """Lock the slot of a key against other threads and processes; yield its offset."""
        digest = hashlib.sha256(key.encode("utf-8", "surrogatepass")).digest()
        offset = int.from_bytes(digest[:8], "big") % SLOT_COUNT * SLOT_SIZE
        with self._lock:
            fcntl.lockf(self._file, fcntl.LOCK_EX, SLOT_SIZE, offset)
            try:
                yield offset
            finally:
                fcntl.lockf(self._file, fcntl.LOCK_UN, SLOT_SIZE, offset)

    def _read_free_time(self, offset: int, now: float) -> float:
        """When the slot is free again; the machine, and its clock, may have been restarted since."""
        (used,) = struct.unpack_from("d", self._slots, offset)
        return float(max(used if used - now <= 2 * self._burst_seconds else 0.0, now))

    def close(self) -> None:
        """Close the file."""
        self._slots.close()
        os.close(self._file)


class ComputeQuota:
    """Limits the processor time that previews of one token may take in a minute."""

    def __init__(self, path: Path, seconds: float) -> None:
        self._seconds = seconds
        self._rate_limiter = RateLimiter(path, seconds / MINUTE, seconds)

    @contextmanager
    def meter(self, token: str) -> Iterator[None]:
        """Count the processor time that this thread uses; refused where none is left."""
        remaining = self._rate_limiter.get_remaining(token)
        if remaining <= 0:
            wait = math.ceil(-remaining * MINUTE / self._seconds) + 1
            raise HttpProblem(
                "rate-limited",
                f"the previews of this token have used the {format_number(self._seconds)} seconds of computing that "
                f"the custodian allows in a minute; wait {wait} seconds, or preview simpler questions",
                {"Retry-After": str(wait)},
            )
        start = time.thread_time()
        try:
            yield
        finally:
            self._rate_limiter.consume(token, time.thread_time() - start)

    def close(self) -> None:
        """Close the file."""
        self._rate_limiter.close()
