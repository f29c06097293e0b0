"""Row 4: how long a reply takes tells whether somebody is in the table (Haeberlen et al. 2011)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from discreet.service.middleware import deadline
from discreet.service.middleware.deadline import App, DeadlineMiddleware, Message, Receive, Scope, Send

DEADLINE = 0.5
BASE, LONGER = (0.001, 0.02, 0.11, 0.3), 0.05
"""How long rows take without the target, and how much longer with it."""


class Script:
    """A clock that moves only when somebody works or waits."""

    now = 0.0

    def time(self) -> float:
        return self.now

    async def until(self, moment: float) -> None:
        self.now = max(self.now, moment)


def attack(seconds: Callable[[float], float]) -> int:
    """On how many questions the two tables are told apart by when the reply is there."""
    return sum(round(seconds(base), 9) != round(seconds(base + LONGER), 9) for base in BASE)


def seconds_of(wrap: Callable[[App], App], script: Script, work: float) -> float:
    """When the reply of an application that works so long is there."""

    async def app(_: Scope, receive: Receive, send: Send) -> None:
        await receive()
        script.now += work
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"{}"})

    async def receive() -> Message:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(_: Message) -> None:
        left.append(script.now)

    async def serve_request() -> None:
        await wrap(app)({"type": "http", "path": "/v1/datasets/t/answers"}, receive, send)

    begin, left = script.now, list[float]()
    asyncio.run(serve_request())
    return left[-1] - begin


def test_it_succeeds_against_the_weak_stand_in() -> None:
    """A service that replies when it is done."""
    script = Script()
    assert attack(lambda work: seconds_of(lambda app: app, script, work)) == len(BASE)


def test_it_fails_against_discreet(monkeypatch: pytest.MonkeyPatch) -> None:
    """Replies leave at the deadline, whatever they took."""
    script = Script()
    monkeypatch.setattr(deadline, "Timer", lambda: script)
    assert (
        attack(lambda work: seconds_of(lambda app: DeadlineMiddleware(app, DEADLINE, lambda _: False), script, work))
        == 0
    )
