"""The clock: replies leave at a deadline, whatever they are and however long they took to make.

A reply that is not ready then leaves at twice the deadline, or four times, and so on; each such overrun is counted for
the custodian. So the time of a reply tells at most how often the deadline had to be doubled.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, MutableMapping
from dataclasses import dataclass, field
from typing import Any

Message = MutableMapping[str, Any]
Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

MOST_DOUBLINGS = 40


def doublings(elapsed: float, deadline: float) -> int:
    """How often a deadline is doubled until it is not before what has elapsed."""
    count = 0
    while elapsed > deadline * 2**count and count < MOST_DOUBLINGS:
        count += 1
    return count


def padded(elapsed: float, deadline: float) -> float:
    """When a reply that took so long leaves."""
    return deadline * float(2 ** doublings(elapsed, deadline))


@dataclass(slots=True)
class Held:
    """A reply that is kept back; a long one that is for the custodian alone goes through as it comes."""

    send: Send
    state: dict[str, Any]
    messages: list[Message] = field(default_factory=list)

    async def take(self, message: Message) -> None:
        """Keep a part of the reply."""
        if self.state.get("unpadded"):
            await self.let_go()
            await self.send(message)
        else:
            self.messages.append(message)

    async def let_go(self) -> None:
        """Send what was kept."""
        kept, self.messages = self.messages, []
        for message in kept:
            await self.send(message)


class Clock:
    """Keeps every reply back until its deadline. Handlers may set `deadline` and `unpadded` in the scope's state."""

    def __init__(self, app: App, deadline: float, exempt: Callable[[str], bool]) -> None:
        self._app, self._deadline, self._exempt = app, deadline, exempt

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Run the application, then wait."""
        if scope["type"] != "http" or self._exempt(scope["path"]):
            await self._app(scope, receive, send)
            return
        state = scope.setdefault("state", {})
        loop = asyncio.get_running_loop()
        state["start"] = loop.time()  # set again once the body is here: how long it took is the client's business
        held = Held(send, state)
        await self._app(scope, receive, held.take)
        deadline = float(state.get("deadline", self._deadline))
        if not state.get("unpadded"):
            elapsed = loop.time() - state["start"]
            state["doublings"] = doublings(elapsed, deadline)
            state["padded"] = padded(elapsed, deadline)
            await asyncio.sleep(state["start"] + state["padded"] - loop.time())
        await held.let_go()
