"""HTTP: addresses, requests that are sent again under one key while replies are lost, and errors in replies."""

from __future__ import annotations

import ipaddress
import json
import re
import ssl
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from pathlib import Path
from socket import gaierror
from typing import Any, ClassVar, NoReturn
from urllib.parse import urlsplit

from discreet.errors import (
    ERROR_CODES,
    BudgetExceeded,
    ClaimFailed,
    DiscreetError,
    Internal,
    InvalidInput,
    SqlPosition,
    Unavailable,
    Unsupported,
)
from discreet.formatting import format_number

ADDRESS_FORMAT = "an address is written like https://data.example.org or http://127.0.0.1:8000"
MAX_ADDRESS_LENGTH = 300
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
MAX_REPLY_BYTES = 64 * 1024 * 1024
"""The largest reply that is read into memory."""
CHUNK_BYTES = 256 * 1024
MAX_WAIT_SECONDS = 60.0
"""The longest wait before a request is sent again, whatever the service asks for."""
RETRY_STATUSES = frozenset({429, 502, 503, 504})
INCOMPLETE_REPLY = "broke off before its reply was whole; try again"


@dataclass(frozen=True, slots=True)
class ServiceAddress:
    """The address of a service; made by `parse_service_address`, which checks it. Without `tls_context` it is http."""

    host: str
    port: int | None
    prefix: str
    tls_context: ssl.SSLContext | None

    def connect(self, timeout: float) -> HTTPConnection:
        """Make a connection that is not open yet; neither a proxy of the environment nor a redirect is followed."""
        if self.tls_context is None:
            return HTTPConnection(self.host, self.port, timeout=timeout)
        return HTTPSConnection(self.host, self.port, timeout=timeout, context=self.tls_context)

    def __str__(self) -> str:
        return format_url(self.tls_context is not None, self.host, self.port) + self.prefix


def format_url(tls: bool, host: str, port: int | None) -> str:
    """Write an address as a URL; an IPv6 address is put in brackets."""
    bracketed_host = f"[{host}]" if ":" in host else host
    return f"{'https' if tls else 'http'}://{bracketed_host}{'' if port is None else f':{port}'}"


def parse_service_address(address: str, ca: str | Path | None = None, insecure: bool = False) -> ServiceAddress:
    """Read an address that a token may be sent to: under TLS, on this machine, or anywhere with `insecure`."""
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
    if not (insecure or is_loopback(host)):
        raise InvalidInput(
            f"over http:// the token would travel to {host[:40]!r} in the clear; use https://, or insecure=True where "
            "the way there is safe otherwise"
        )
    return ServiceAddress(host, port, parts.path.rstrip("/"), None)


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach an address."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _load_tls_context(ca: str | Path | None) -> ssl.SSLContext:
    """Trust the certificates of one file, or those that the machine trusts."""
    try:
        return ssl.create_default_context(cafile=None if ca is None else str(ca))
    except OSError:
        raise InvalidInput(f"{str(ca)[-40:]!r} cannot be read as certificates; give a file in PEM") from None


def parse_reply_json(body: bytes) -> Any:
    """Parse JSON without NaN and infinities; None where the body is anything else."""
    try:
        return json.loads(body, parse_constant=_refuse_constant)
    except (ValueError, RecursionError):
        return None


def build_reply_error(status: int, body: bytes, address: str, token: str = "", dataset: str = "") -> DiscreetError:
    """Build the error of a refusal: in the service's words without the token, or in ours where HTTP differs."""
    document = parse_reply_json(body)
    problem = document if isinstance(document, dict) else {}
    error_class = ERROR_CLASSES.get(str(problem.get("kind")), _get_error_class(status))
    detail = problem.get("detail") or problem.get("title")
    if not isinstance(detail, str):  # not a reply of discreet: what its status means says nothing about the request
        foreign_class = Unavailable if 400 <= status < 500 else _get_error_class(status)
        return foreign_class(f"{address} {_describe_status(status)}")
    if problem.get("type") == "/problems/unauthenticated":
        return error_class(INVALID_TOKEN)
    if problem.get("type") == "/problems/not-found" and dataset:
        suggestion = re.search(r"; did you mean [^;?]*\?$", detail)
        hint = "" if suggestion is None else suggestion[0]
        return error_class(_replace_unprintable(f"{DATASET_NOT_FOUND.format(dataset[:40])}{hint}"), code="unknown-name")
    message = _replace_unprintable(detail[:MAX_MESSAGE_LENGTH])
    error = error_class(message.replace(token, "...") if token else message)
    error.code = next((code for code in ERROR_CODES if code == problem.get("code")), error_class.code)
    position = SqlPosition.from_json(problem.get("position"))
    if position is not None and not (token and token in position.text):
        error.set_position(position)
    return error


def _replace_unprintable(text: str) -> str:
    return "".join(character if character.isprintable() else " " for character in text)


def build_problem_error(problem: object) -> DiscreetError:
    """Build the error that a problem document describes, such as that of a job that failed."""
    details = problem if isinstance(problem, dict) else {}
    status = details.get("status")
    return build_reply_error(status if isinstance(status, int) else 500, json.dumps(details).encode(), "the service")


def _get_error_class(status: int) -> type[DiscreetError]:
    """The class of an error where the service names no kind."""
    if status == 429 or status > 500:
        return Unavailable
    return Internal if status == 500 else InvalidInput if 300 <= status < 500 else Unavailable


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


@dataclass(frozen=True, slots=True)
class HttpRequest:
    """One request; with a `key`, one that is charged at most once."""

    method: str
    path: str
    body: bytes | None = None
    key: str | None = None

    @staticmethod
    def get(path: str) -> HttpRequest:
        """Make a GET request."""
        return HttpRequest("GET", path)

    @staticmethod
    def post(path: str, document: object, key: str | None = None) -> HttpRequest:
        """Make a POST request with a JSON document."""
        try:
            body = json.dumps(document, allow_nan=False, ensure_ascii=False).encode()
        except (TypeError, ValueError, RecursionError):
            raise InvalidInput(
                "a question and what goes with it must be text, finite numbers or lists of them"
            ) from None
        return HttpRequest("POST", path, body, key)


@dataclass(frozen=True, slots=True)
class HttpReply:
    """A complete reply."""

    status: int
    body: bytes
    retry_after: str | None = None
    was_sent: ClassVar = True

    @property
    def is_retryable(self) -> bool:
        """Whether the service may reply otherwise a moment later."""
        return self.status in RETRY_STATUSES


@dataclass(frozen=True, slots=True)
class LostReply:
    """Why no complete reply came, whether a retry may help, and whether the request was sent."""

    reason: str
    is_retryable: bool = True
    was_sent: bool = True


class RequestNotSent(Unavailable):
    """A request with a key was never sent, so that nothing was charged."""


@dataclass(frozen=True, slots=True)
class Transport:
    """Sends requests about one data set to a service; after `timeout` seconds of silence a reply is lost."""

    address: ServiceAddress
    token: str = field(repr=False)
    timeout: float = 60
    retries: int = 5
    pause: float = 0.2
    sleep: Callable[[float], None] = field(default=time.sleep, repr=False)
    dataset: str = ""

    def send(self, request: HttpRequest, target_file: Path | None = None) -> Any:
        """Return the document of a reply, or raise its error; with `target_file`, the body goes to that file."""
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
        was_sent = False
        for attempt in range(self.retries + 1):
            outcome = self._send_once(request, target_file)
            was_sent = was_sent or outcome.was_sent
            if attempt == self.retries or not outcome.is_retryable:
                break
            self.sleep(self._compute_wait(outcome, attempt))
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


def _read_body(response: HTTPResponse) -> bytes | LostReply:
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
    """Write the body to a file, from its beginning each time."""
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
    """Report errors of this machine's disk, which are no failures of the service."""
    try:
        yield
    except OSError:
        message = f"{path.name[:60]!r} cannot be written; check the folder and that the disk has room"
        raise Unavailable(message) from None


def _check_complete(response: HTTPResponse) -> LostReply | None:
    """The loss of a reply of which fewer bytes came than were announced."""
    return LostReply(INCOMPLETE_REPLY) if response.length else None


def _explain_failure(failure: OSError | HTTPException, timeout: float) -> LostReply:
    """Why no reply came, without the words of the error."""
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
