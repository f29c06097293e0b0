"""Check that a service answers: `python -m discreet.service.health service.yaml`, for containers and monitors."""

from __future__ import annotations

import ssl
import sys
from http.client import HTTPConnection, HTTPException, HTTPSConnection

from discreet.client.transport import format_url
from discreet.errors import DiscreetError
from discreet.service.config import Config, read_config

HEALTH_TIMEOUT = 5.0
"""Seconds that one check may take."""
LOOPBACK_HOSTS = {"0.0.0.0": "127.0.0.1", "::": "::1"}


def is_healthy(host: str, port: int, tls: bool) -> bool:
    """Whether the service at an address reports that all its checks pass."""
    loopback = LOOPBACK_HOSTS.get(host, host)
    connection = HTTPConnection(loopback, port, timeout=HEALTH_TIMEOUT)
    if tls:  # our own certificate names a host that this machine need not know; nothing secret is sent
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        connection = HTTPSConnection(loopback, port, timeout=HEALTH_TIMEOUT, context=context)
    try:
        connection.request("GET", "/health")
        return connection.getresponse().status == 200
    except (OSError, HTTPException):
        return False
    finally:
        connection.close()


def format_health_url(config: Config) -> str:
    """Build the URL of the health check, as seen from this machine."""
    host = LOOPBACK_HOSTS.get(config.address, config.address)
    return f"{format_url(config.tls is not None, host, config.port)}/health"


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
