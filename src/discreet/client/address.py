"""Where a service is, and whether a token may be sent there."""

from __future__ import annotations

import ipaddress
import ssl
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPSConnection
from pathlib import Path
from urllib.parse import urlsplit

from discreet.errors import InvalidInput

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
