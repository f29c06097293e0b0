"""Requests and replies over HTTP: addresses, retries, errors.

What is paid for carries a key, and a service that has seen the key answers from what it stored.
"""

from __future__ import annotations

import ipaddress
import json
import ssl
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from pathlib import Path
from socket import gaierror
from typing import Any, NoReturn
from urllib.parse import urlsplit

from discreet.errors import BudgetExceeded, ClaimFailed, DiscreetError, Internal, InvalidInput, Unavailable, Unsupported
from discreet.formatting import format_number

ADDRESS_FORMAT = "an address is written like https://data.example.org or http://127.0.0.1:8000"

MAX_ADDRESS_LENGTH = 300


@dataclass(frozen=True, slots=True)
class ServiceAddress:
    """A service; made by `read_address`, which checks it. With `trust` it is spoken to under TLS."""

    host: str
    port: int | None
    prefix: str
    tls_context: ssl.SSLContext | None

    def connect(self, timeout: float) -> HTTPConnection:
        """A connection that is not open yet; neither a proxy of the environment nor a redirect is followed."""
        if self.tls_context is None:
            return HTTPConnection(self.host, self.port, timeout=timeout)
        return HTTPSConnection(self.host, self.port, timeout=timeout, context=self.tls_context)

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        port = "" if self.port is None else f":{self.port}"
        return f"{'http' if self.tls_context is None else 'https'}://{host}{port}{self.prefix}"


def parse_service_address(address: str, ca: str | Path | None = None, insecure: bool = False) -> ServiceAddress:
    """An address that a token may be sent to: under TLS, on this machine, or anywhere if told so."""
    address_text = str(address)
    if (
        not address_text.isascii()
        or not address_text.isprintable()
        or " " in address_text
        or len(address_text) > MAX_ADDRESS_LENGTH
    ):
        raise InvalidInput(ADDRESS_FORMAT)
    try:
        parts = urlsplit(address_text)
        host, port = parts.hostname, parts.port
    except ValueError:
        raise InvalidInput(ADDRESS_FORMAT) from None
    if parts.scheme not in {"http", "https"} or not host or "@" in parts.netloc or parts.query or parts.fragment:
        raise InvalidInput(f"{ADDRESS_FORMAT}, with no name, password or question in it")
    if parts.scheme == "https":
        return ServiceAddress(host, port, parts.path.rstrip("/"), _load_tls_context(ca))
    if ca is not None:
        raise InvalidInput("a certificate authority is for addresses that begin with https://; this one does not")
    if not (insecure or _is_loopback(host)):
        raise InvalidInput(
            f"over http:// the token would travel to {host[:40]!r} in the clear; use https://, or insecure=True where "
            "the way there is safe otherwise"
        )
    return ServiceAddress(host, port, parts.path.rstrip("/"), None)


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _load_tls_context(ca: str | Path | None) -> ssl.SSLContext:
    """The certificates that are believed: those of one file, or those that the machine believes."""
    try:
        return ssl.create_default_context(cafile=None if ca is None else str(ca))
    except OSError:
        raise InvalidInput(f"{str(ca)[-40:]!r} cannot be read as certificates; give a file in PEM") from None


ERROR_CLASSES: dict[str, type[DiscreetError]] = {
    kind.stored_name: kind for kind in (InvalidInput, BudgetExceeded, Unsupported, Unavailable, ClaimFailed, Internal)
}
MAX_MESSAGE_LENGTH = 2000
UNREADABLE = "did not answer as a discreet service does; check the address"
REDIRECT_REFUSED = (
    "answered with a redirect, which is not followed since the token would go along; give the address it leads to"
)
INVALID_TOKEN = "the token is not valid: ask the custodian for a new one"
DATASET_NOT_FOUND = (
    "there is no data set {!r} that this token may ask, or what was looked for in it is gone; client.datasets lists "
    "those that it may ask, and the custodian grants more"
)


def parse_reply_json(body: bytes) -> Any:
    """JSON as the service writes it; None where it is not."""
    try:
        return json.loads(body, parse_constant=_refuse_constant)
    except (ValueError, RecursionError):
        return None


def build_reply_error(status: int, body: bytes, address: str, token: str = "", dataset: str = "") -> DiscreetError:
    """The error of a reply that is none of those asked for, in the sentence of the service without the token.

    Who speaks HTTP is advised otherwise by the service than who speaks Python is here.
    """
    document = parse_reply_json(body)
    problem = document if isinstance(document, dict) else {}
    error_class = ERROR_CLASSES.get(str(problem.get("kind")), _get_error_class(status))
    detail = problem.get("detail") or problem.get("title")
    if not isinstance(detail, str):
        return _get_foreign_error_class(status)(f"{address} {_describe_status(status)}")
    if problem.get("type") == "/problems/unauthenticated":
        return error_class(INVALID_TOKEN)
    if problem.get("type") == "/problems/not-found" and dataset:
        return error_class(DATASET_NOT_FOUND.format(dataset[:40]))
    message = "".join(character if character.isprintable() else " " for character in detail[:MAX_MESSAGE_LENGTH])
    return error_class(message.replace(token, "...") if token else message)


def build_problem_error(problem: object) -> DiscreetError:
    """The error that a document tells of, as that of a job that failed."""
    details = problem if isinstance(problem, dict) else {}
    status = details.get("status")
    return build_reply_error(status if isinstance(status, int) else 500, json.dumps(details).encode(), "the service")


def _get_error_class(status: int) -> type[DiscreetError]:
    """Where the service names no kind: what the caller may mend, what may pass, and what is wrong with the service."""
    if status == 429 or status > 500:
        return Unavailable
    return Internal if status == 500 else InvalidInput if 300 <= status < 500 else Unavailable


def _get_foreign_error_class(status: int) -> type[DiscreetError]:
    """Of a reply that is none of ours: what the status means to somebody else says nothing about the request."""
    return Unavailable if 400 <= status < 500 else _get_error_class(status)


def _describe_status(status: int) -> str:
    if 300 <= status < 400:
        return REDIRECT_REFUSED
    if status == 429:
        return "was asked too often; wait, then ask again"
    if status > 500:
        return "is not available now; try later"
    return "had an internal error; nothing about the data is shown" if status == 500 else UNREADABLE


def _refuse_constant(text: str) -> NoReturn:
    raise ValueError(text)


MAX_REPLY_BYTES = 64 * 1024 * 1024
"""Bytes of a reply that is read into memory."""
CHUNK_BYTES = 256 * 1024
MAX_WAIT_SECONDS = 60.0
"""Seconds before a request is sent again, whatever the service asks for."""
RETRY_STATUSES = frozenset({429, 502, 503, 504})
"""What may be otherwise a moment later."""
INCOMPLETE_REPLY = "broke off before its reply was whole; try again"


@dataclass(frozen=True, slots=True)
class HttpRequest:
    """One request; with a `key`, one that is paid for at most once."""

    method: str
    path: str
    body: bytes | None = None
    key: str | None = None

    @staticmethod
    def get(path: str) -> HttpRequest:
        """Look at something."""
        return HttpRequest("GET", path)

    @staticmethod
    def post(path: str, document: object, key: str | None = None) -> HttpRequest:
        """Ask for something, in a document."""
        return HttpRequest("POST", path, encode_document(document), key)


@dataclass(frozen=True, slots=True)
class HttpReply:
    """A whole reply."""

    status: int
    body: bytes
    retry_after: str | None = None


@dataclass(frozen=True, slots=True)
class LostReply:
    """No whole reply came, and why; `again` where one may come the next time, `sent` where the request went out."""

    reason: str
    is_retryable: bool = True
    was_sent: bool = True


class RequestNotSent(Unavailable):
    """A request with a key never went out, so that nothing can have come of it."""


@dataclass(frozen=True, slots=True)
class Transport:
    """Speaks to one service, about one data set. `timeout` is how many seconds of silence mean that a reply is lost."""

    address: ServiceAddress
    token: str = field(repr=False)
    timeout: float = 60
    retries: int = 5
    pause: float = 0.2
    sleep: Callable[[float], None] = field(default=time.sleep, repr=False)
    dataset: str = ""

    def send(self, request: HttpRequest, target_file: Path | None = None) -> Any:
        """The document of a reply, or its error; with `into`, the body goes to that file."""
        reply = self._send_with_retries(request, target_file)
        if reply.status == 204 or (target_file is not None and reply.status == 200):
            return None
        if not 200 <= reply.status < 300:
            raise build_reply_error(reply.status, reply.body, str(self.address), self.token, self.dataset)
        document = parse_reply_json(reply.body)
        if document is None:
            raise Unavailable(f"{self.address} {UNREADABLE}")
        return document

    def _send_with_retries(self, request: HttpRequest, target_file: Path | None) -> HttpReply:
        """The reply to a request, which is sent again while it is lost and a later one may not be."""
        outcome = self._send_once(request, target_file)
        was_sent = _was_sent(outcome)
        for attempt in range(self.retries):
            if not _is_retryable(outcome):
                break
            self.sleep(self._compute_wait(outcome, attempt))
            outcome = self._send_once(request, target_file)
            was_sent = was_sent or _was_sent(outcome)
        if isinstance(outcome, HttpReply):
            return outcome
        error_class = Unavailable if was_sent or request.key is None else RequestNotSent
        raise error_class(f"{self.address} {outcome.reason}")

    def _compute_wait(self, outcome: HttpReply | LostReply, attempt: int) -> float:
        """Twice as long each time, or as long as the service asks for if that is longer."""
        retry_after = outcome.retry_after if isinstance(outcome, HttpReply) else None
        seconds = (
            int(retry_after) if retry_after is not None and retry_after.isdecimal() and len(retry_after) < 7 else 0
        )
        return min(max(self.pause * 2.0 ** min(attempt, 20), seconds), MAX_WAIT_SECONDS)

    def _send_once(self, request: HttpRequest, target_file: Path | None) -> HttpReply | LostReply:
        connection = self.address.connect(self.timeout)
        try:
            connection.connect()
        except (OSError, HTTPException) as failure:
            connection.close()
            return replace(_explain_failure(failure, self.timeout), was_sent=False)
        try:
            with suppress(
                BrokenPipeError, ConnectionResetError
            ):  # refused before all of it was read: the reply says why
                path = self.address.prefix + request.path
                connection.request(request.method, path, request.body, self._build_headers(request))
            response = connection.getresponse()
            body = (
                _save_body(response, target_file)
                if target_file is not None and response.status == 200
                else _read_body(response)
            )
            if isinstance(body, LostReply):
                return body
            return HttpReply(response.status, body, response.getheader("Retry-After"))
        except (OSError, HTTPException) as failure:
            return _explain_failure(failure, self.timeout)
        finally:
            connection.close()

    def _build_headers(self, request: HttpRequest) -> Mapping[str, str]:
        headers = {"Authorization": f"Bearer {self.token}", "Accept": "application/json", "Connection": "close"}
        headers |= {} if request.body is None else {"Content-Type": "application/json"}
        return headers if request.key is None else headers | {"Idempotency-Key": request.key}


def encode_document(document: object) -> bytes:
    """A document as it is sent."""
    try:
        return json.dumps(document, allow_nan=False, ensure_ascii=False).encode()
    except (TypeError, ValueError, RecursionError):
        raise InvalidInput("a question and what goes with it must be text, finite numbers or lists of them") from None


def _was_sent(outcome: HttpReply | LostReply) -> bool:
    return outcome.was_sent if isinstance(outcome, LostReply) else True


def _is_retryable(outcome: HttpReply | LostReply) -> bool:
    return outcome.is_retryable if isinstance(outcome, LostReply) else outcome.status in RETRY_STATUSES


def _read_body(response: HTTPResponse) -> bytes | LostReply:
    """The body, if it is whole and not beyond all measure."""
    parts, size = [], 0
    while part := response.read(CHUNK_BYTES):
        parts.append(part)
        size += len(part)
        if size > MAX_REPLY_BYTES:
            return LostReply(
                f"sent a reply of more than {MAX_REPLY_BYTES:,} bytes, which is not read; ask for less",
                is_retryable=False,
            )
    return _check_complete(response) or b"".join(parts)


def _save_body(response: HTTPResponse, target_file: Path) -> bytes | LostReply:
    """The body in a file, from its beginning each time."""
    with _catch_disk_errors(target_file):
        file = target_file.open("wb")
    try:
        while part := response.read(CHUNK_BYTES):
            with _catch_disk_errors(target_file):
                file.write(part)
    finally:
        with _catch_disk_errors(target_file):
            file.close()
    return _check_complete(response) or b""


@contextmanager
def _catch_disk_errors(path: Path) -> Iterator[None]:
    """What fails in here is this machine's disk, and not the service."""
    try:
        yield
    except OSError:
        message = f"{path.name[:60]!r} cannot be written; check the folder and that the disk has room"
        raise Unavailable(message) from None


def _check_complete(response: HTTPResponse) -> LostReply | None:
    """Whether fewer bytes came than were announced."""
    return LostReply(INCOMPLETE_REPLY) if response.length else None


def _explain_failure(failure: OSError | HTTPException, timeout: float) -> LostReply:
    """Why no reply came, without the words of whoever noticed it."""
    match failure:
        case ssl.SSLCertVerificationError():
            return LostReply(
                "shows a certificate that is not believed here; give its authority as ca", is_retryable=False
            )
        case ssl.SSLError() if not isinstance(failure, ssl.SSLEOFError):
            return LostReply("does not speak TLS as it should; check the address", is_retryable=False)
        case TimeoutError():
            return LostReply(
                f"has not answered within {format_number(timeout)} seconds; try later, or allow a longer timeout"
            )
        case ConnectionRefusedError():
            return LostReply("cannot be reached: no service listens there; check the address, or try later")
        case gaierror():
            return LostReply("cannot be reached: its name is not known; check the address")
    return LostReply(INCOMPLETE_REPLY)
