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

Due = tuple[float, int, Callable[[], object]]


class Alarm:
    """One thread that sleeps until the next moment somebody waits for; it ends when nobody does."""

    def __init__(self) -> None:
        self._due: list[Due] = []
        self._numbers = count()
        self._changed = Condition()
        self._runs = False

    def time(self) -> float:
        """The clock that moments are told on, in seconds."""
        return time.monotonic()

    async def until(self, moment: float) -> None:
        """Wait for a moment."""
        loop = asyncio.get_running_loop()
        woken = loop.create_future()
        self._add(moment, lambda: loop.call_soon_threadsafe(_wake, woken))
        await woken

    def _add(self, moment: float, wake: Callable[[], object]) -> None:
        with self._changed:
            heapq.heappush(self._due, (moment, next(self._numbers), wake))
            self._changed.notify()
            if not self._runs:
                Thread(target=self._run, name="alarm", daemon=True).start()
                self._runs = True

    def _run(self) -> None:
        with self._changed:
            while self._due:
                left = self._due[0][0] - self.time()
                if left > 0:
                    self._changed.wait(left)
                else:
                    _, _, wake = heapq.heappop(self._due)
                    with suppress(RuntimeError):  # the loop was closed, and nobody waits any more
                        wake()
            self._runs = False


def _wake(woken: asyncio.Future[None]) -> None:
    if not woken.done():  # whoever waited may have been cancelled
        woken.set_result(None)
