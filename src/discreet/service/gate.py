"""What every request passes before a handler sees it: its size, who sends it, how often; and what is written of it."""

from __future__ import annotations

import asyncio
import hmac
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from http.cookies import CookieError, SimpleCookie
from typing import Any

from anyio import CapacityLimiter, to_thread
from anyio.lowlevel import RunVar
from starlette.requests import Request
from starlette.responses import Response

from discreet.service import logs
from discreet.service.padding import App, Message, Receive, Scope, Send
from discreet.service.problems import Problem, problem_of
from discreet.service.state import Service
from discreet.service.store import tokens
from discreet.service.store.tokens import Token

COOKIE = "discreet_session"
OPEN = ("/health", "/openapi.json", "/console/assets/", "/console/explain/", "/console/sign-in", "/problems/")
READING = ("GET", "HEAD", "OPTIONS")
METHODS = (*READING, "POST", "PUT", "DELETE", "PATCH")
LONGEST_TOKEN = 200
ASSETS = "/console/assets/"
LONGEST_HEAD = 65_536
"""In bytes, of a request's first line and headers."""
PATIENCE = 60.0
"""Seconds for a body to come."""
REHEARSED = "/v1/rehearsal/", "/console/rehearsal/"
REHEARSALS = 4
"""Requests in rehearsal that one token may have at work at once: they cost nothing, but the time of others."""
LOOKS = 8
"""Threads that look up tokens and health, which no other work can fill."""
_looking: RunVar[CapacityLimiter] = RunVar("discreet_looking")


@dataclass(frozen=True, slots=True)
class Principal:
    """Who sends a request: an account's name and a role, by a token; `cookie` where a browser is signed in."""

    token: Token
    cookie: str | None = None

    @property
    def name(self) -> str:
        """The account that pays."""
        return self.token.analyst

    @property
    def is_custodian(self) -> bool:
        """Whether custodian's routes are open."""
        return self.token.role == "custodian"


def is_open(path: str) -> bool:
    """Whether anyone may see it: nothing there is about a data set."""
    return path in {"/", "/console", "/console/"} or any(path.startswith(start) for start in OPEN)


def looking() -> CapacityLimiter:
    """The threads of this event loop for what must not wait for answers."""
    try:
        return _looking.get()
    except LookupError:
        made = CapacityLimiter(LOOKS)
        _looking.set(made)
        return made


class Gate:
    """Reads the body, finds out who it is, counts, and turns whatever goes wrong into one of the catalogue."""

    def __init__(self, app: App, service: Service) -> None:
        self._app, self._service = app, service
        self._at_work: Counter[str] = Counter()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let a request through, or refuse it."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        state: dict[str, Any] = scope.setdefault("state", {})
        begun = False

        async def watched(message: Message) -> None:
            nonlocal begun
            if message["type"] == "http.response.start":
                begun, state["status"] = True, message["status"]
            await send(message)

        try:
            _check_head(scope)
            body = await _body(scope, receive, self._service.config.limits.body)
            state["principal"] = await self._admitted(scope, body)
            with self._together(state["principal"], scope["path"].startswith(REHEARSED)):
                await self._app(scope, _replayed(body, receive), watched)
        except Exception as error:  # the outermost boundary: what is not ours is told without its text
            problem = problem_of(error)
            if problem.name == "internal":
                state["failed"] = logs.where(error)
            if not begun:
                state.pop("unpadded", None)
                await _refusal(problem, scope, self._app)(scope, receive, watched)

    async def _admitted(self, scope: Scope, body: bytes) -> Principal | None:
        """Who sends it; a request that needs somebody and has nobody is refused."""
        headers, path, method = _headers(scope), scope["path"], scope["method"]
        if path == "/health":  # is not counted, so it must cost nothing
            return None
        address = (scope.get("client") or ("",))[0]
        if path.startswith(ASSETS):  # a page brings several, and each would be one attempt to sign in less
            self._count(f"assets {address}")
            return None
        found = await to_thread.run_sync(_principal, self._service, headers, limiter=looking())
        self._count(f"token {found.token.id}" if found is not None else f"address {address}")
        if found is None and not is_open(path):
            raise Problem("unauthenticated")
        if "\0" in path or b"%00" in scope["query_string"]:  # not every store can be asked about one
            raise Problem("invalid-input", "an address holds no NUL characters; leave them out")
        if path.startswith("/v1") and method not in READING:
            _check_body(headers, body, found)
        return found

    def _count(self, who: str) -> None:
        """Count a request; refused where there were too many."""
        pause = self._service.rates.wait(who)
        if pause:
            detail = "more requests than the custodian allows; wait, then send it again"
            raise Problem("rate-limited", detail, {"Retry-After": str(int(pause) + 1)})

    @contextmanager
    def _together(self, found: Principal | None, rehearsal: bool) -> Iterator[None]:
        """While a request is at work; one token has only so many, fewer in rehearsal, and leaves threads to others."""
        if found is None:
            yield
            return
        limits = {found.token.id: self._service.config.limits.together}
        limits |= {f"{found.token.id} in rehearsal": REHEARSALS} if rehearsal else {}
        for who, most in limits.items():
            if self._at_work[who] >= most:
                detail = f"{most} such requests of this token are at work already; wait for one of them"
                raise Problem("rate-limited", detail, {"Retry-After": "1"})
        self._at_work.update(limits.keys())
        try:
            yield
        finally:
            self._at_work.subtract(limits.keys())
            for who in limits:
                if not self._at_work[who]:
                    del self._at_work[who]


def _refusal(problem: Problem, scope: Scope, app: App) -> Response:
    """A refusal of the gate: for people, a page."""
    if not scope["path"].startswith("/console"):
        return problem.response()
    from discreet.service.console.refusing import refused

    return refused(Request({**scope, "app": app}), problem)


def _check_body(headers: Mapping[str, str], body: bytes, found: Principal | None) -> None:
    if found is not None and found.cookie is not None:
        check_form(found, headers.get("x-discreet-form", ""))
    kind = headers.get("content-type", "").partition(";")[0].strip().lower()
    if body and kind != "application/json":
        raise Problem("unsupported-media-type")


def check_form(principal: Principal, sent: str) -> None:
    """What a signed-in browser changes must come from a page of ours."""
    if principal.cookie is None:
        return
    if not hmac.compare_digest(sent.encode("utf-8", "replace"), tokens.form_token(principal.cookie).encode()):
        raise Problem("forbidden", "this form is not one of ours, or is too old; load the page again")


def _principal(service: Service, headers: Mapping[str, str]) -> Principal | None:
    given = headers.get("authorization")
    if given is not None:
        scheme, _, told = given.partition(" ")
        if scheme.lower() != "bearer" or len(told) > LONGEST_TOKEN:
            return None
        found = tokens.token_of(service.store, told.strip())
        return None if found is None else Principal(found)
    cookie = _cookie(headers.get("cookie", ""))
    found = None if cookie is None else tokens.token_in_session(service.store, cookie)
    return None if found is None else Principal(found, cookie)


def _cookie(header: str) -> str | None:
    try:
        found = SimpleCookie(header).get(COOKIE)
    except CookieError:
        return None
    return None if found is None or not 0 < len(found.value) <= LONGEST_TOKEN else found.value


def _check_head(scope: Scope) -> None:
    """Refuse a first line and headers that are too long together, as they are written over HTTP/1.1."""
    target = scope.get("raw_path") or scope["path"].encode("utf-8", "surrogatepass")
    query = b"?" + scope["query_string"] if scope["query_string"] else b""
    first = len(scope["method"]) + len(target.partition(b"?")[0]) + len(query) + len("  HTTP/1.1\r\n")
    lines = sum(len(name) + len(value) + len(": \r\n") for name, value in scope["headers"])
    if first + lines + len("\r\n") > LONGEST_HEAD:
        detail = f"the first line and the headers of a request have at most {LONGEST_HEAD} bytes together; send fewer"
        raise Problem("too-large", detail)


def _headers(scope: Scope) -> dict[str, str]:
    return {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]}


async def _body(scope: Scope, receive: Receive, most: int) -> bytes:
    """The whole body, as long as it is no larger than allowed, and comes in time."""
    try:
        async with asyncio.timeout(PATIENCE):
            return await _whole(scope, receive, most)
    except TimeoutError:
        raise Problem("invalid-input", "the rest of the request did not come; send it again") from None


async def _whole(scope: Scope, receive: Receive, most: int) -> bytes:
    said = _headers(scope).get("content-length", "0")
    parts, size = [], int(said) if said.isdecimal() and len(said) < 20 else 0
    while size <= most:
        message = await receive()
        if message["type"] != "http.request":
            raise Problem("invalid-input", "the request ended before its body did; send it again")
        parts.append(message.get("body", b""))
        if sum(map(len, parts)) > most:
            break
        if not message.get("more_body"):
            return b"".join(parts)
    raise Problem("too-large", f"a request has at most {most} bytes; ask for less at once")


def _replayed(body: bytes, receive: Receive) -> Receive:
    sent = False

    async def again() -> Message:
        nonlocal sent
        if sent:
            return await receive()
        sent = True
        return {"type": "http.request", "body": body, "more_body": False}

    return again


def record(service: Service, scope: Scope) -> None:
    """Count and write down a reply, by its route's template and its padded time, once it has left and not before."""
    state = scope.get("state", {})
    method = scope["method"] if scope["method"] in METHODS else "OTHER"  # anyone can make up others without end
    if "failed" in state:
        logs.write("internal", where=state["failed"], method=method)
    route = scope.get("route")
    template = getattr(route, "path", None) or "other"
    status, seconds = state.get("status", 0), state.get("padded")
    service.counts.add("requests", f"{method} {template} {status}")
    if seconds is not None:
        service.counts.add("seconds", f"{method} {template}", seconds)
    if state.get("doublings"):
        service.counts.add("overruns", state.get("dataset") or "")
    if state.get("late"):
        service.counts.add("late", state.get("dataset") or "")
    who: Principal | None = state.get("principal")
    facts = {"method": method, "route": template, "status": status, "seconds": seconds}
    logs.write("request", **facts, dataset=state.get("dataset"), analyst=None if who is None else who.name)
