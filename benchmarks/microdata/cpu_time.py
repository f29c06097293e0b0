"""Time on the processor, which other programs do not lengthen."""

from __future__ import annotations

import time
from collections.abc import Callable


def measure_processor_time(work: Callable[[], object], rounds: int) -> float:
    """The least of several, in seconds."""
    times = []
    for _ in range(rounds):
        start = time.process_time()
        work()
        times.append(time.process_time() - start)
    return min(times)
