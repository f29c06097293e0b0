"""Replies leave at a deadline, however long they took to make.

A reply that is not ready then leaves at twice the deadline, or four times, and so on; each such overrun is counted for
the custodian. So the time of a reply tells how often the deadline had to be doubled; and, where the machine is very
busy and sends replies late, a little of that.

The timers of an event loop are no use for this: they are counted in whole milliseconds from when the loop last had
something to do, so that a reply would leave later the further its work ended into a millisecond.
"""

from __future__ import annotations

import asyncio
import heapq
import time
from collections.abc import Awaitable, Callable, MutableMapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from threading import Condition, Thread
from typing import Any

from discreet.service.store.tokens import Principal

ScheduledWake = tuple[float, int, Callable[[], object]]
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


class Timer:
    """One thread that sleeps until the next moment somebody waits for; it ends when nobody does."""

    def __init__(self) -> None:
        self._queue: list[ScheduledWake] = []
        self._sequence = count()
        self._changed = Condition()
        self._is_running = False

    def time(self) -> float:
        """Read the clock of all moments, in seconds."""
        return time.monotonic()

    async def until(self, moment: float) -> None:
        """Wait for a moment."""
        loop = asyncio.get_running_loop()
        future = loop.create_future()

        def set_done() -> None:
            if not future.done():  # whoever waited may have been cancelled
                future.set_result(None)

        with self._changed:
            wake: Callable[[], object] = partial(loop.call_soon_threadsafe, set_done)
            heapq.heappush(self._queue, (moment, next(self._sequence), wake))
            self._changed.notify()
            if not self._is_running:
                Thread(target=self._run, name="alarm", daemon=True).start()
                self._is_running = True
        await future

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


def count_doublings(elapsed: float, deadline: float) -> int:
    """Count how often a deadline must be doubled until it is not before the elapsed time."""
    count = 0
    while elapsed > deadline * 2**count and count < MAX_DOUBLINGS:
        count += 1
    return count


def compute_padded_time(elapsed: float, deadline: float) -> float:
    """Compute when a reply leaves that is ready after the elapsed time."""
    return deadline * float(2 ** count_doublings(elapsed, deadline))


@dataclass(frozen=True, slots=True)
class ReleaseBarrier:
    """Holds back what was drawn until three quarters of the deadline, or of its first doubling that can be met.

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


@dataclass(slots=True)
class RequestState:
    """All that middleware and handlers tell each other of one request and its reply."""

    principal: Principal | None = None
    dataset: str | None = None
    deadline: float | None = None
    """That of the data set; None leaves the service's own."""
    unpadded: bool = False
    """Whether the reply need not wait."""
    build_barrier: Callable[[float], ReleaseBarrier] | None = None
    """Builds the barrier of a deadline, on the clock of this request; None without padding."""
    status: int = 0
    padded: float | None = None
    """The seconds after which the reply left."""
    doublings: int = 0
    late: bool = False
    failed: str | None = None
    """Where the code failed, for the log."""


def get_request_state(scope: Scope) -> RequestState:
    """Get the state of a request, which its first reader makes."""
    state: RequestState = scope.setdefault("state", {}).setdefault("request", RequestState())
    return state


@dataclass(slots=True)
class BufferedSend:
    """Holds a reply back; a long one that is for the custodian alone goes through as it comes."""

    send: Send
    state: RequestState
    messages: list[Message] = field(default_factory=list)

    async def take(self, message: Message) -> None:
        """Hold back a part of the reply."""
        if self.state.unpadded:
            await self.flush()
            await self.send(message)
        else:
            self.messages.append(message)

    async def flush(self) -> None:
        """Send what was held back."""
        messages, self.messages = self.messages, []
        for message in messages:
            await self.send(message)


@dataclass(slots=True)
class TimedReceive:
    """Receives a request; its clock starts with the last part, since sending may take the client any time."""

    receive: Receive
    now: Callable[[], float]
    start: float
    is_complete: bool = False

    async def take(self) -> Message:
        """Receive the next part of the request."""
        message = await self.receive()
        if not self.is_complete:
            self.start, self.is_complete = self.now(), not message.get("more_body")
        return message


class DeadlineMiddleware:
    """Holds every reply back until its deadline. Handlers may set `deadline` and `unpadded` of its state."""

    def __init__(self, app: App, deadline: float, is_exempt: Callable[[str], bool]) -> None:
        self._app, self._deadline, self._is_exempt = app, deadline, is_exempt
        self._timer = Timer()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Run the application, then wait."""
        if scope["type"] != "http" or self._is_exempt(scope["path"]):
            await self._app(scope, receive, send)
            return
        state = get_request_state(scope)
        timed_receive = TimedReceive(receive, self._timer.time, self._timer.time())
        buffered_send = BufferedSend(send, state)
        state.build_barrier = lambda deadline: ReleaseBarrier(self._timer.time, timed_receive.start, deadline)
        await self._app(scope, timed_receive.take, buffered_send.take)
        if not state.unpadded:
            elapsed = self._timer.time() - timed_receive.start
            deadline = self._deadline if state.deadline is None else state.deadline
            state.doublings = count_doublings(elapsed, deadline)
            state.padded = compute_padded_time(elapsed, deadline)
            await self._timer.until(timed_receive.start + state.padded)
            state.late = self._timer.time() - timed_receive.start - state.padded > LATE_FRACTION * deadline
        await buffered_send.flush()
