"""An alarm that wakes coroutines at the moment they wait for, and not at one that depends on when they began to.

An event loop's own timers are counted in whole milliseconds from when the loop last had something to do. A reply held
back by one would leave later the further its work ended into a millisecond, and so tell how long the work took.
"""

from __future__ import annotations

import asyncio
import heapq
import time
from collections.abc import Callable
from contextlib import suppress
from itertools import count
from threading import Condition, Thread

ScheduledWake = tuple[float, int, Callable[[], object]]


class Timer:
    """One thread that sleeps until the next moment somebody waits for; it ends when nobody does."""

    def __init__(self) -> None:
        self._queue: list[ScheduledWake] = []
        self._sequence = count()
        self._changed = Condition()
        self._is_running = False

    def time(self) -> float:
        """The clock that moments are told on, in seconds."""
        return time.monotonic()

    async def until(self, moment: float) -> None:
        """Wait for a moment."""
        loop = asyncio.get_running_loop()
        future = loop.create_future()
        self._add(moment, lambda: loop.call_soon_threadsafe(_wake, future))
        await future

    def _add(self, moment: float, wake: Callable[[], object]) -> None:
        with self._changed:
            heapq.heappush(self._queue, (moment, next(self._sequence), wake))
            self._changed.notify()
            if not self._is_running:
                Thread(target=self._run, name="alarm", daemon=True).start()
                self._is_running = True

    def _run(self) -> None:
        with self._changed:
            while self._queue:
                remaining = self._queue[0][0] - self.time()
                if remaining > 0:
                    self._changed.wait(remaining)
                else:
                    _, _, wake = heapq.heappop(self._queue)
                    with suppress(RuntimeError):  # the loop was closed, and nobody waits any more
                        wake()
            self._is_running = False


def _wake(future: asyncio.Future[None]) -> None:
    if not future.done():  # whoever waited may have been cancelled
        future.set_result(None)
