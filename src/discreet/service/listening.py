"""Where a service listens: its socket, its address in words, its certificate."""

from __future__ import annotations

import errno
import socket
import ssl

from discreet.errors import DiscreetError, InvalidInput, Unavailable
from discreet.service.config import TLS, Config

BACKLOG = 1024


def bind_socket(config: Config) -> socket.socket:
    """A socket at the service's address, which nobody can connect to yet."""
    try:
        addresses = socket.getaddrinfo(config.address, config.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except (OSError, UnicodeError):
        raise InvalidInput(_format_wrong_address(config)) from None
    family, kind, protocol, _, address = addresses[0]
    server_socket = socket.socket(family, kind, protocol)
    try:
        server_socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        server_socket.bind(address)
    except OSError as error:
        server_socket.close()
        raise _explain_bind_error(config, error) from None
    return server_socket


def listen(server_socket: socket.socket, config: Config) -> None:
    """Let clients connect; who took the port since it was bound is found out only now."""
    try:
        server_socket.listen(BACKLOG)
    except OSError as error:
        raise _explain_bind_error(config, error) from None


def _explain_bind_error(config: Config, error: OSError) -> DiscreetError:
    if error.errno == errno.EADDRINUSE:
        return Unavailable(f"port {config.port} is taken; stop what listens there, or choose another with --port")
    if error.errno == errno.EACCES:
        return Unavailable(f"port {config.port} is not for this user; choose one above 1023, or allow it this one")
    return InvalidInput(_format_wrong_address(config))


def _format_wrong_address(config: Config) -> str:
    return f"{config.address[:40]!r} is no address of this machine; serve on 127.0.0.1, or on one of its own"


def format_service_url(config: Config, server_socket: socket.socket) -> str:
    """The address in words, with the port that was taken."""
    host = f"[{config.address}]" if ":" in config.address else config.address
    return f"{'http' if config.tls is None else 'https'}://{host}:{server_socket.getsockname()[1]}"


def check_tls(tls: TLS) -> None:
    """The certificate and its key can be read and belong together; a key under a password is refused, not asked for."""
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(tls.certificate, tls.key, password=_refuse_password)
    except (OSError, ValueError):
        raise InvalidInput(
            "the certificate and the key of tls cannot be read, or do not belong together; give two PEM files that "
            "this user may read, the key without a password"
        ) from None


def _refuse_password() -> str:
    raise ValueError("no password")
