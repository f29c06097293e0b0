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

TRIM_INTERVAL = 5.0
"""Seconds between two times that memory is given back."""
MIN_WORK_SECONDS = 0.05
"""Seconds of processor time since the last time; an idle process has nothing to give back."""
MALLOC_ARENAS = 2
MMAP_THRESHOLD = 2**20
"""Bytes from which a block is mapped by itself, and so given back when it is freed."""
M_MMAP_THRESHOLD, M_ARENA_MAX = -3, -8
"""The names that glibc's malloc.h gives these settings."""
STATM = Path("/proc/self/statm")


def enable_memory_trimming() -> None:
    """Set up this process so that it gives memory back, and let a thread do it from now on."""
    library = _load_libc()
    if library is None:
        return
    library.mallopt(M_ARENA_MAX, MALLOC_ARENAS)
    library.mallopt(M_MMAP_THRESHOLD, MMAP_THRESHOLD)
    threading.Thread(target=_trim_periodically, args=(library,), daemon=True).start()


def get_process_memory() -> int:
    """The memory of this process, in bytes."""
    return int(STATM.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def _trim_periodically(library: ctypes.CDLL) -> None:
    last_cpu_time = 0.0
    while True:
        time.sleep(TRIM_INTERVAL)
        if time.process_time() > last_cpu_time + MIN_WORK_SECONDS:
            library.malloc_trim(0)
            last_cpu_time = time.process_time()


def _load_libc() -> ctypes.CDLL | None:
    """The C library, where it is one that can be told so."""
    library = ctypes.CDLL(None)
    has_functions = all(hasattr(library, name) for name in ("mallopt", "malloc_trim"))
    return library if has_functions and STATM.exists() else None
