"""The memory of a process of the service: given back to the system after a large question.

The C library keeps freed memory for the next request, in as many pools as threads wanted one. With few pools and large
blocks apart from them, what is freed can be given back; a thread does so while the process works, and once after.
Elsewhere than on Linux with glibc nothing is done here.
"""

from __future__ import annotations

import ctypes
import os
import threading
import time
from pathlib import Path

EVERY = 5.0
"""Seconds between two times that memory is given back."""
WORKED = 0.05
"""Seconds of processor time since the last time; an idle process has nothing to give back."""
POOLS = 2
APART = 2**20
"""Bytes from which a block is mapped by itself, and so given back when it is freed."""
M_MMAP_THRESHOLD, M_ARENA_MAX = -3, -8
"""The names that glibc's malloc.h gives these settings."""
STATM = Path("/proc/self/statm")


def keep_small() -> None:
    """Set up this process so that it gives memory back, and let a thread do it from now on."""
    library = _library()
    if library is None:
        return
    library.mallopt(M_ARENA_MAX, POOLS)
    library.mallopt(M_MMAP_THRESHOLD, APART)
    threading.Thread(target=_keep_giving_back, args=(library,), daemon=True).start()


def size() -> int:
    """The memory of this process, in bytes."""
    return int(STATM.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def _keep_giving_back(library: ctypes.CDLL) -> None:
    worked = 0.0
    while True:
        time.sleep(EVERY)
        if time.process_time() > worked + WORKED:
            library.malloc_trim(0)
            worked = time.process_time()


def _library() -> ctypes.CDLL | None:
    """The C library, where it is one that can be told so."""
    library = ctypes.CDLL(None)
    known = all(hasattr(library, name) for name in ("mallopt", "malloc_trim"))
    return library if known and STATM.exists() else None
