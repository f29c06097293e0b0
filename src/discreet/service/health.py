"""Whether a service answers: `python -m discreet.service.health service.yaml`, for a container or a watcher."""

from __future__ import annotations

import ssl
import sys
from http.client import HTTPConnection, HTTPException, HTTPSConnection

from discreet.errors import DiscreetError
from discreet.service.config import Config, read_config

PATIENCE = 5.0
"""Seconds for one look."""
ANYWHERE = {"0.0.0.0": "127.0.0.1", "::": "::1"}


def answers(host: str, port: int, tls: bool) -> bool:
    """Whether the service says there that all is well."""
    near = ANYWHERE.get(host, host)
    made = HTTPSConnection(near, port, timeout=PATIENCE, context=_unchecked()) if tls else _plain(near, port)
    try:
        made.request("GET", "/health")
        return made.getresponse().status == 200
    except (OSError, HTTPException):
        return False
    finally:
        made.close()


def place(told: Config) -> str:
    """Where the service is looked for, from this machine."""
    host = ANYWHERE.get(told.address, told.address)
    return f"{'http' if told.tls is None else 'https'}://{f'[{host}]' if ':' in host else host}:{told.port}/health"


def _plain(host: str, port: int) -> HTTPConnection:
    return HTTPConnection(host, port, timeout=PATIENCE)


def _unchecked() -> ssl.SSLContext:
    """The certificate is our own, made out to a name that this machine need not know; nothing secret is sent."""
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    made.check_hostname = False
    made.verify_mode = ssl.CERT_NONE
    return made


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: python -m discreet.service.health service.yaml")
    try:
        told = read_config(sys.argv[1])
    except DiscreetError as mistake:
        sys.exit(str(mistake))
    if not answers(told.address, told.port, told.tls is not None):
        sys.exit(f"{place(told)} does not say that all is well; look whether the service runs, and at its logs")
