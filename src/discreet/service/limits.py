"""How many requests a token may send: one count for all workers of a machine, in a file that they share.

Each token has a slot with the time at which its burst is used up (GCRA); a request moves it on by 1/rate. Slots are
found by a hash, so that two tokens may share one, rarely; nobody can choose to.
"""

from __future__ import annotations

import fcntl
import hashlib
import mmap
import os
import struct
import time
from pathlib import Path
from threading import Lock

from discreet.errors import Unavailable

SLOTS = 2**16
SIZE = 8


class Rates:
    """The slots of one machine's tokens."""

    def __init__(self, path: Path, rate: float, burst: int) -> None:
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
        at = int.from_bytes(hashlib.sha256(who.encode("utf-8", "surrogatepass")).digest()[:8], "big") % SLOTS * SIZE
        now = time.monotonic()
        with self._lock:
            fcntl.lockf(self._file, fcntl.LOCK_EX, SIZE, at)
            try:
                (used,) = struct.unpack_from("d", self._slots, at)
                # The machine may have started anew since: its clock did too.
                free = max(used if used - now <= 2 * self._room else 0.0, now)
                if free + self._step - now > self._room + self._step * 1e-9:
                    return float(free + self._step - now - self._room)
                struct.pack_into("d", self._slots, at, free + self._step)
                return 0.0
            finally:
                fcntl.lockf(self._file, fcntl.LOCK_UN, SIZE, at)

    def close(self) -> None:
        """Let go of the file."""
        self._slots.close()
        os.close(self._file)


def _fill(file: int) -> None:
    """Have all slots on the disk: the first use of one that is not would end the process where the disk is full."""
    size = os.fstat(file).st_size
    missing = max(0, SLOTS * SIZE - size)
    if os.pwrite(file, bytes(missing), size) < missing:
        raise OSError
