"""Replies leave at a deadline, however long they took to make.

An event loop's own timers are counted in whole milliseconds from when the loop last had something to do. A reply held
back by one would leave later the further its work ended into a millisecond, and so tell how long the work took.

A reply that is not ready then leaves at twice the deadline, or four times, and so on; each such overrun is counted for
the custodian. So the time of a reply tells how often the deadline had to be doubled; and, where the machine is very
busy and writes replies later than at their moments, a little of that.
"""

from __future__ import annotations

import asyncio
import heapq
import time
from collections.abc import Awaitable, Callable, MutableMapping
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import count
from threading import Condition, Thread
from typing import Any

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


Message = MutableMapping[str, Any]
Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

MAX_DOUBLINGS = 40
LATE_FRACTION = 0.05
"""Of a deadline: a reply that leaves later than that after its moment is counted, since the process was busy."""
BARRIER_FRACTION = 0.75
"""Of a deadline, for reading and drawing; the rest is for writing down and laying out."""


def count_doublings(elapsed: float, deadline: float) -> int:
    """How often a deadline is doubled until it is not before what has elapsed."""
    count = 0
    while elapsed > deadline * 2**count and count < MAX_DOUBLINGS:
        count += 1
    return count


def compute_padded_time(elapsed: float, deadline: float) -> float:
    """When a reply that took so long leaves."""
    return deadline * float(2 ** count_doublings(elapsed, deadline))


@dataclass(slots=True)
class BufferedSend:
    """A reply that is kept back; a long one that is for the custodian alone goes through as it comes."""

    send: Send
    state: dict[str, Any]
    messages: list[Message] = field(default_factory=list)

    async def take(self, message: Message) -> None:
        """Keep a part of the reply."""
        if self.state.get("unpadded"):
            await self.flush()
            await self.send(message)
        else:
            self.messages.append(message)

    async def flush(self) -> None:
        """Send what was kept."""
        messages, self.messages = self.messages, []
        for message in messages:
            await self.send(message)


@dataclass(slots=True)
class TimedReceive:
    """A request as it comes. Its clock starts with its last part: how long sending took is the client's business."""

    receive: Receive
    now: Callable[[], float]
    start: float
    is_complete: bool = False

    async def take(self) -> Message:
        """The next part of the request."""
        message = await self.receive()
        if not self.is_complete:
            self.start, self.is_complete = self.now(), not message.get("more_body")
        return message


@dataclass(frozen=True, slots=True)
class ReleaseBarrier:
    """When what a request has drawn may be seen: at three quarters of its deadline, or of the first doubling in reach.

    Answers are written down then, and not when they are ready: what others can see of them, such as that a question
    has a stored answer, would tell how long the rows were read.
    """

    now: Callable[[], float]
    start: float
    deadline: float

    def wait(self) -> None:
        """Sleep until then, in a thread."""
        barrier_deadline = BARRIER_FRACTION * self.deadline
        time.sleep(max(0.0, self.start + compute_padded_time(self.now() - self.start, barrier_deadline) - self.now()))


class DeadlineMiddleware:
    """Keeps every reply back until its deadline. Handlers may set `deadline` and `unpadded` in the scope's state."""

    def __init__(self, app: App, deadline: float, is_exempt: Callable[[str], bool]) -> None:
        self._app, self._deadline, self._is_exempt = app, deadline, is_exempt
        self._timer = Timer()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Run the application, then wait."""
        if scope["type"] != "http" or self._is_exempt(scope["path"]):
            await self._app(scope, receive, send)
            return
        state = scope.setdefault("state", {})
        timed_receive = TimedReceive(receive, self._timer.time, self._timer.time())
        buffered_send = BufferedSend(send, state)
        state["moment"] = lambda deadline: ReleaseBarrier(self._timer.time, timed_receive.start, deadline)
        await self._app(scope, timed_receive.take, buffered_send.take)
        if not state.get("unpadded"):
            elapsed, deadline = self._timer.time() - timed_receive.start, float(state.get("deadline", self._deadline))
            state["doublings"], state["padded"] = (
                count_doublings(elapsed, deadline),
                compute_padded_time(elapsed, deadline),
            )
            await self._timer.until(timed_receive.start + state["padded"])
            state["late"] = self._timer.time() - timed_receive.start - state["padded"] > LATE_FRACTION * deadline
        await buffered_send.flush()
