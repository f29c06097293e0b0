"""Whether a service answers: `python -m discreet.service.health service.yaml`, for a container or a watcher."""

from __future__ import annotations

import ssl
import sys
from http.client import HTTPConnection, HTTPException, HTTPSConnection

from discreet.errors import DiscreetError
from discreet.service.config import Config, read_config

HEALTH_TIMEOUT = 5.0
"""Seconds for one look."""
LOOPBACK_HOSTS = {"0.0.0.0": "127.0.0.1", "::": "::1"}


def is_healthy(host: str, port: int, tls: bool) -> bool:
    """Whether the service says there that all is well."""
    loopback = LOOPBACK_HOSTS.get(host, host)
    connection = (
        HTTPSConnection(loopback, port, timeout=HEALTH_TIMEOUT, context=_build_unverified_context())
        if tls
        else _build_connection(loopback, port)
    )
    try:
        connection.request("GET", "/health")
        return connection.getresponse().status == 200
    except (OSError, HTTPException):
        return False
    finally:
        connection.close()


def format_health_url(config: Config) -> str:
    """Where the service is looked for, from this machine."""
    host = LOOPBACK_HOSTS.get(config.address, config.address)
    return f"{'http' if config.tls is None else 'https'}://{f'[{host}]' if ':' in host else host}:{config.port}/health"


def _build_connection(host: str, port: int) -> HTTPConnection:
    return HTTPConnection(host, port, timeout=HEALTH_TIMEOUT)


def _build_unverified_context() -> ssl.SSLContext:
    """The certificate is our own, made out to a name that this machine need not know; nothing secret is sent."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: python -m discreet.service.health service.yaml")
    try:
        service_config = read_config(sys.argv[1])
    except DiscreetError as mistake:
        sys.exit(str(mistake))
    if not is_healthy(service_config.address, service_config.port, service_config.tls is not None):
        sys.exit(
            f"{format_health_url(service_config)} does not say that all is well; look whether the "
            "service runs, and at its logs"
        )
