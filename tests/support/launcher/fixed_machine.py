"""A machine on which nothing is left to chance: its generator is a stream that follows from a name, its clock stands.

Only the standard library is replaced, and nothing of the package, so that this works whatever the package's modules are
called. `os.urandom` is the one way from Python to the system's generator, and `random` keeps a name of its own for it,
by which `secrets`, `random.SystemRandom` and numpy without a seed draw. `uuid` has a stream of its own: Numba names the
files by it that it compiles into, and whether it has to compile must change nothing else. The clock that tells the time
of day stands still; the one that measures how long something takes goes on.
"""

from __future__ import annotations

import ctypes
import datetime
import gc
import hashlib
import os
import random
import sys
import time
import uuid
from typing import Any

MOMENT = 1_767_322_800.0
"""What the clock shows, in seconds since 1970: the second of January 2026, 03:00 in UTC."""


class Stream:
    """Bytes that follow from a name alone, on every machine and in every version of Python."""

    def __init__(self) -> None:
        self._key, self._taken = b"", 0

    def begin(self, name: str) -> None:
        """Start anew, with what follows from this name."""
        self._key, self._taken = hashlib.sha256(name.encode()).digest(), 0

    def take(self, count: int) -> bytes:
        """Return the next bytes."""
        self._taken += 1
        return hashlib.shake_256(self._key + self._taken.to_bytes(8, "big")).digest(count)


STREAM, NAMES = Stream(), Stream()


def install() -> None:
    """Replace the generator and the clock of this process, for good."""
    os.urandom = STREAM.take
    random._urandom = STREAM.take  # type: ignore[attr-defined]
    uuid.uuid4 = _draw_name
    time.time = _read_clock
    time.time_ns = lambda: int(MOMENT) * 10**9
    methods = gc.get_referents(datetime.datetime.__dict__)[0]  # the class stays the one that C extensions know
    methods["now"] = classmethod(_tell_moment)
    ctypes.pythonapi.PyType_Modified(ctypes.py_object(datetime.datetime))
    begin("the beginning")


def begin(name: str) -> None:
    """Draw what follows from this name from now on."""
    STREAM.begin(name)
    NAMES.begin(f"{name}, names in {os.getpid()}")
    random.seed(name)
    if numpy := sys.modules.get("numpy"):
        numpy.random.seed(int.from_bytes(hashlib.sha256(name.encode()).digest()[:4], "big"))


def _draw_name() -> uuid.UUID:
    """Return a name that no other process draws."""
    return uuid.UUID(bytes=NAMES.take(16), version=4)


def _read_clock() -> float:
    """Return the moment at which the clock stands."""
    return MOMENT


def _tell_moment(kind: Any, tz: datetime.tzinfo | None = None) -> Any:
    """Return the moment at which the clock stands, as `datetime.now` does."""
    return kind.fromtimestamp(MOMENT, tz)
