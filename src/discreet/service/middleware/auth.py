"""Check the size, the sender and the rate of a request before a handler sees it; log and count its reply."""

from __future__ import annotations

import asyncio
import hmac
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.cookies import CookieError, SimpleCookie

from anyio import CapacityLimiter, to_thread
from anyio.lowlevel import RunVar
from starlette.requests import Request
from starlette.responses import Response

from discreet.service import monitoring
from discreet.service.dataset_registry import Service
from discreet.service.middleware.deadline import App, Message, Receive, Scope, Send, get_request_state
from discreet.service.problems import HttpProblem, problem_from_error
from discreet.service.store import tokens
from discreet.service.store.tokens import Principal

COOKIE_NAME = "discreet_session"
PUBLIC_PREFIXES = (
    "/health",
    "/openapi.json",
    "/console/assets/",
    "/console/explain/",
    "/console/sign-in",
    "/problems/",
)
SAFE_METHODS = ("GET", "HEAD", "OPTIONS")
KNOWN_METHODS = (*SAFE_METHODS, "POST", "PUT", "DELETE", "PATCH")
MAX_TOKEN_LENGTH = 200
ASSETS_PREFIX = "/console/assets/"
MAX_HEAD_BYTES = 65_536
"""The largest first line and headers of a request together."""
BODY_TIMEOUT = 60.0
REHEARSAL_PREFIXES = "/v1/rehearsal/", "/console/rehearsal/"
MAX_REHEARSALS = 4
"""Concurrent requests of one token in rehearsal, which cost no budget but the time of others."""
LOOKUP_THREADS = 8
"""Threads for tokens and health checks, which no other work can fill."""
_lookup_limiter: RunVar[CapacityLimiter] = RunVar("discreet_looking")


def is_encrypted(scope: Scope, tls: bool) -> bool:
    """Whether a reply leaves over TLS: ours, or a proxy's, as its header says; a false header harms only its sender."""
    return tls or dict(scope.get("headers", ())).get(b"x-forwarded-proto", b"").lower() == b"https"


def is_public_path(path: str) -> bool:
    """Whether anyone may see a path: nothing there is about a data set."""
    return path in {"/", "/console", "/console/"} or path.startswith(PUBLIC_PREFIXES)


def get_lookup_limiter() -> CapacityLimiter:
    """Get the limiter of this event loop for lookups, which must not wait for answers."""
    try:
        return _lookup_limiter.get()
    except LookupError:
        limiter = CapacityLimiter(LOOKUP_THREADS)
        _lookup_limiter.set(limiter)
        return limiter


class AuthMiddleware:
    """Reads the body, authenticates, counts, and turns any error into one of the catalogue."""

    def __init__(self, app: App, service: Service) -> None:
        self._app, self._service = app, service
        self._active_requests: Counter[str] = Counter()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let a request through, or refuse it."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        state, has_begun = get_request_state(scope), False

        async def send_and_record(message: Message) -> None:
            nonlocal has_begun
            if message["type"] == "http.response.start":
                has_begun, state.status = True, message["status"]
            await send(message)

        try:
            _check_head(scope)
            body = await _read_body(scope, receive, self._service.config.limits.body)
            state.principal = await self._authenticate(scope, body)
            with self._limit_concurrency(state.principal, scope["path"].startswith(REHEARSAL_PREFIXES)):
                await self._app(scope, _replay_body(body, receive), send_and_record)
        except Exception as error:  # the outermost boundary: what is not ours is told without its text
            problem = problem_from_error(error)
            if problem.name == "internal":
                state.failed = monitoring.format_error_location(error)
            if not has_begun:
                state.unpadded = False
                await _build_refusal(problem, scope, self._app)(scope, receive, send_and_record)

    async def _authenticate(self, scope: Scope, body: bytes) -> Principal | None:
        """Find the sender; refuse a request without one that needs one."""
        headers, path, method = _decode_headers(scope), scope["path"], scope["method"]
        if path == "/health":  # is not counted, so it must cost nothing
            return None
        address = (scope.get("client") or ("",))[0]
        if path.startswith(ASSETS_PREFIX):  # a page brings several, and each would be one attempt to sign in less
            self._count_request(f"assets {address}")
            return None
        principal = await to_thread.run_sync(_find_principal, self._service, headers, limiter=get_lookup_limiter())
        self._count_request(f"token {principal.token.id}" if principal is not None else f"address {address}")
        if principal is None and not is_public_path(path):
            raise HttpProblem("unauthenticated")
        if "\0" in path or b"%00" in scope["query_string"]:  # not every store can be asked about one
            raise HttpProblem("invalid-input", "an address holds no NUL characters; leave them out")
        if path.startswith("/v1") and method not in SAFE_METHODS:
            _check_body(headers, body, principal)
        return principal

    def _count_request(self, caller: str) -> None:
        pause = self._service.rate_limiter.count_request(caller)
        if pause:
            detail = "more requests than the custodian allows; wait, then send it again"
            raise HttpProblem("rate-limited", detail, {"Retry-After": str(int(pause) + 1)})

    @contextmanager
    def _limit_concurrency(self, principal: Principal | None, rehearsal: bool) -> Iterator[None]:
        """Limit the requests of one token that are at work, so that threads are left to others; fewer in rehearsal."""
        if principal is None:
            yield
            return
        limits = {principal.token.id: self._service.config.limits.together}
        limits |= {f"{principal.token.id} in rehearsal": MAX_REHEARSALS} if rehearsal else {}
        for caller, max_active in limits.items():
            if self._active_requests[caller] >= max_active:
                detail = f"{max_active} such requests of this token are at work already; wait for one of them"
                raise HttpProblem("rate-limited", detail, {"Retry-After": "1"})
        self._active_requests.update(limits.keys())
        try:
            yield
        finally:
            self._active_requests.subtract(limits.keys())
            for caller in limits:
                if not self._active_requests[caller]:
                    del self._active_requests[caller]


def _build_refusal(problem: HttpProblem, scope: Scope, app: App) -> Response:
    if not scope["path"].startswith("/console"):
        return problem.to_response()
    from discreet.service.console.rendering import render_refusal

    return render_refusal(Request({**scope, "app": app}), problem)


def _check_body(headers: Mapping[str, str], body: bytes, principal: Principal | None) -> None:
    if principal is not None and principal.cookie is not None:
        check_form_token(principal, headers.get("x-discreet-form", ""))
    kind = headers.get("content-type", "").partition(";")[0].strip().lower()
    if body and kind != "application/json":
        raise HttpProblem("unsupported-media-type")


def check_form_token(principal: Principal, form_token: str) -> None:
    """Refuse a change by a signed-in browser that does not come from a page of ours."""
    if principal.cookie is None:
        return
    if not hmac.compare_digest(
        form_token.encode("utf-8", "replace"), tokens.derive_form_token(principal.cookie).encode()
    ):
        raise HttpProblem("forbidden", "this form is not one of ours, or is too old; load the page again")


def _find_principal(service: Service, headers: Mapping[str, str]) -> Principal | None:
    authorization = headers.get("authorization")
    if authorization is not None:
        scheme, _, token_secret = authorization.partition(" ")
        if scheme.lower() != "bearer" or len(token_secret) > MAX_TOKEN_LENGTH:
            return None
        token = tokens.find_token(service.store, token_secret.strip())
        return None if token is None else Principal(token)
    cookie = _read_cookie(headers.get("cookie", ""))
    token = None if cookie is None else tokens.find_session_token(service.store, cookie)
    return None if token is None else Principal(token, cookie)


def _read_cookie(header: str) -> str | None:
    try:
        cookie = SimpleCookie(header).get(COOKIE_NAME)
    except CookieError:
        return None
    return None if cookie is None or not 0 < len(cookie.value) <= MAX_TOKEN_LENGTH else cookie.value


def _check_head(scope: Scope) -> None:
    """Refuse a first line and headers that are too long together, as they are written over HTTP/1.1."""
    target = scope.get("raw_path") or scope["path"].encode("utf-8", "surrogatepass")
    query = b"?" + scope["query_string"] if scope["query_string"] else b""
    first = len(scope["method"]) + len(target.partition(b"?")[0]) + len(query) + len("  HTTP/1.1\r\n")
    lines = sum(len(name) + len(value) + len(": \r\n") for name, value in scope["headers"])
    if first + lines + len("\r\n") > MAX_HEAD_BYTES:
        detail = f"the first line and the headers of a request have at most {MAX_HEAD_BYTES} bytes together; send fewer"
        raise HttpProblem("too-large", detail)


def _decode_headers(scope: Scope) -> dict[str, str]:
    return {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]}


async def _read_body(scope: Scope, receive: Receive, max_bytes: int) -> bytes:
    content_length = _decode_headers(scope).get("content-length", "0")
    parts, size = [], int(content_length) if content_length.isdecimal() and len(content_length) < 20 else 0
    try:
        async with asyncio.timeout(BODY_TIMEOUT):
            while size <= max_bytes:
                message = await receive()
                if message["type"] != "http.request":
                    raise HttpProblem("invalid-input", "the request ended before its body did; send it again")
                parts.append(message.get("body", b""))
                if sum(map(len, parts)) > max_bytes:
                    break
                if not message.get("more_body"):
                    return b"".join(parts)
    except TimeoutError:
        raise HttpProblem("invalid-input", "the rest of the request did not come; send it again") from None
    raise HttpProblem("too-large", f"a request has at most {max_bytes} bytes; ask for less at once")


def _replay_body(body: bytes, receive: Receive) -> Receive:
    is_sent = False

    async def receive_again() -> Message:
        nonlocal is_sent
        if is_sent:
            return await receive()
        is_sent = True
        return {"type": "http.request", "body": body, "more_body": False}

    return receive_again


def record_reply(service: Service, scope: Scope) -> None:
    """Count and log a reply, by its route's template and its padded time, once it has left and not before."""
    state = get_request_state(scope)
    method = scope["method"] if scope["method"] in KNOWN_METHODS else "OTHER"  # anyone can make up others without end
    if state.failed is not None:
        monitoring.write_event("internal", where=state.failed, method=method)
    route = scope.get("route")
    template = getattr(route, "path", None) or "other"
    service.counters.add("requests", f"{method} {template} {state.status}")
    if state.padded is not None:
        service.counters.add("seconds", f"{method} {template}", state.padded)
    if state.doublings:
        service.counters.add("overruns", state.dataset or "")
    if state.late:
        service.counters.add("late", state.dataset or "")
    analyst = None if state.principal is None else state.principal.name
    monitoring.write_event(
        "request",
        method=method,
        route=template,
        status=state.status,
        seconds=state.padded,
        dataset=state.dataset,
        analyst=analyst,
    )
