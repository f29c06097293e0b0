"""Requests and replies: each sent once or, where it was lost on the way, the same again, and never for a second price.

What is paid for carries a key, and a service that has seen the key answers from what it stored.
"""

from __future__ import annotations

import json
import ssl
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from http.client import HTTPException, HTTPResponse
from pathlib import Path
from socket import gaierror
from typing import Any

from discreet.client.address import Address
from discreet.client.problem import UNREADABLE, document_of, error_of
from discreet.errors import InvalidInput, Unavailable
from discreet.formatting import format_number

MOST = 64 * 1024 * 1024
"""Bytes of a reply that is read into memory."""
AT_ONCE = 256 * 1024
LONGEST_WAIT = 60.0
"""Seconds before a request is sent again, whatever the service asks for."""
AGAIN = frozenset({429, 502, 503, 504})
"""What may be otherwise a moment later."""
BROKEN = "broke off before its reply was whole; try again"


@dataclass(frozen=True, slots=True)
class Request:
    """One request; with a `key`, one that is paid for at most once."""

    method: str
    path: str
    body: bytes | None = None
    key: str | None = None

    @staticmethod
    def get(path: str) -> Request:
        """Look at something."""
        return Request("GET", path)

    @staticmethod
    def post(path: str, document: object, key: str | None = None) -> Request:
        """Ask for something, in a document."""
        return Request("POST", path, written(document), key)


@dataclass(frozen=True, slots=True)
class Received:
    """A whole reply."""

    status: int
    body: bytes
    retry_after: str | None = None


@dataclass(frozen=True, slots=True)
class Lost:
    """No whole reply came, and why; `again` where one may come the next time, `sent` where the request went out."""

    words: str
    again: bool = True
    sent: bool = True


class Unreached(Unavailable):
    """A request with a key never went out, so that nothing can have come of it."""


@dataclass(frozen=True, slots=True)
class Wire:
    """Speaks to one service, about one data set. `timeout` is how many seconds of silence mean that a reply is lost."""

    address: Address
    token: str = field(repr=False)
    timeout: float = 60
    retries: int = 5
    pause: float = 0.2
    sleep: Callable[[float], None] = field(default=time.sleep, repr=False)
    dataset: str = ""

    def ask(self, request: Request, into: Path | None = None) -> Any:
        """The document of a reply, or its error; with `into`, the body goes to that file."""
        received = self._sent(request, into)
        if received.status == 204 or (into is not None and received.status == 200):
            return None
        if not 200 <= received.status < 300:
            raise error_of(received.status, received.body, str(self.address), self.token, self.dataset)
        document = document_of(received.body)
        if document is None:
            raise Unavailable(f"{self.address} {UNREADABLE}")
        return document

    def _sent(self, request: Request, into: Path | None) -> Received:
        """The reply to a request, which is sent again while it is lost and a later one may not be."""
        outcome = self._once(request, into)
        sent = _was_sent(outcome)
        for attempt in range(self.retries):
            if not _may_change(outcome):
                break
            self.sleep(self._wait(outcome, attempt))
            outcome = self._once(request, into)
            sent = sent or _was_sent(outcome)
        if isinstance(outcome, Received):
            return outcome
        kind = Unavailable if sent or request.key is None else Unreached
        raise kind(f"{self.address} {outcome.words}")

    def _wait(self, outcome: Received | Lost, attempt: int) -> float:
        """Twice as long each time, or as long as the service asks for if that is longer."""
        asked = outcome.retry_after if isinstance(outcome, Received) else None
        seconds = int(asked) if asked is not None and asked.isdecimal() and len(asked) < 7 else 0
        return min(max(self.pause * 2.0 ** min(attempt, 20), seconds), LONGEST_WAIT)

    def _once(self, request: Request, into: Path | None) -> Received | Lost:
        connection = self.address.connect(self.timeout)
        try:
            connection.connect()
        except (OSError, HTTPException) as failure:
            connection.close()
            return replace(_lost(failure, self.timeout), sent=False)
        try:
            with suppress(
                BrokenPipeError, ConnectionResetError
            ):  # refused before all of it was read: the reply says why
                path = self.address.prefix + request.path
                connection.request(request.method, path, request.body, self._headers(request))
            response = connection.getresponse()
            body = _saved(response, into) if into is not None and response.status == 200 else _read(response)
            if isinstance(body, Lost):
                return body
            return Received(response.status, body, response.getheader("Retry-After"))
        except (OSError, HTTPException) as failure:
            return _lost(failure, self.timeout)
        finally:
            connection.close()

    def _headers(self, request: Request) -> Mapping[str, str]:
        told = {"Authorization": f"Bearer {self.token}", "Accept": "application/json", "Connection": "close"}
        told |= {} if request.body is None else {"Content-Type": "application/json"}
        return told if request.key is None else told | {"Idempotency-Key": request.key}


def written(document: object) -> bytes:
    """A document as it is sent."""
    try:
        return json.dumps(document, allow_nan=False, ensure_ascii=False).encode()
    except (TypeError, ValueError, RecursionError):
        raise InvalidInput("a question and what goes with it must be text, finite numbers or lists of them") from None


def _was_sent(outcome: Received | Lost) -> bool:
    return outcome.sent if isinstance(outcome, Lost) else True


def _may_change(outcome: Received | Lost) -> bool:
    return outcome.again if isinstance(outcome, Lost) else outcome.status in AGAIN


def _read(response: HTTPResponse) -> bytes | Lost:
    """The body, if it is whole and not beyond all measure."""
    parts, size = [], 0
    while part := response.read(AT_ONCE):
        parts.append(part)
        size += len(part)
        if size > MOST:
            return Lost(f"sent a reply of more than {MOST:,} bytes, which is not read; ask for less", again=False)
    return _broken(response) or b"".join(parts)


def _saved(response: HTTPResponse, into: Path) -> bytes | Lost:
    """The body in a file, from its beginning each time."""
    with _to_disk(into):
        file = into.open("wb")
    try:
        while part := response.read(AT_ONCE):
            with _to_disk(into):
                file.write(part)
    finally:
        with _to_disk(into):
            file.close()
    return _broken(response) or b""


@contextmanager
def _to_disk(path: Path) -> Iterator[None]:
    """What fails in here is this machine's disk, and not the service."""
    try:
        yield
    except OSError:
        name = f"{path.name[:60]!r} cannot be written; check the folder and that the disk has room"
        raise Unavailable(name) from None


def _broken(response: HTTPResponse) -> Lost | None:
    """Whether fewer bytes came than were announced."""
    return Lost(BROKEN) if response.length else None


def _lost(failure: OSError | HTTPException, timeout: float) -> Lost:
    """Why no reply came, without the words of whoever noticed it."""
    match failure:
        case ssl.SSLCertVerificationError():
            return Lost("shows a certificate that is not believed here; give its authority as ca", again=False)
        case ssl.SSLError() if not isinstance(failure, ssl.SSLEOFError):
            return Lost("does not speak TLS as it should; check the address", again=False)
        case TimeoutError():
            return Lost(
                f"has not answered within {format_number(timeout)} seconds; try later, or allow a longer timeout"
            )
        case ConnectionRefusedError():
            return Lost("cannot be reached: no service listens there; check the address, or try later")
        case gaierror():
            return Lost("cannot be reached: its name is not known; check the address")
    return Lost(BROKEN)
