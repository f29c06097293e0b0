"""A service on 127.0.0.1 that does as it is told, step by step, and remembers what it was sent."""

from __future__ import annotations

import json
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from support.tls_certificates import Certificate


@dataclass(frozen=True)
class SeenRequest:
    """One request as it came."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def document(self) -> Any:
        """Its JSON."""
        return json.loads(self.body)

    @property
    def key(self) -> str | None:
        """The key that makes it the same request."""
        return self.headers.get("idempotency-key")


Step = Callable[[BaseHTTPRequestHandler], None]


@dataclass
class ScriptedService:
    """What each request is answered with, in turn; the last step for all that come after it."""

    steps: list[Step] = field(default_factory=list)
    seen: list[SeenRequest] = field(default_factory=list)
    address: str = ""
    over: threading.Event = field(default_factory=threading.Event)

    def then(self, *steps: Step) -> ScriptedService:
        """Do this next."""
        self.steps += steps
        return self

    def list_requests(self, path: str) -> list[SeenRequest]:
        """The requests whose path ends so."""
        return [one for one in self.seen if one.path.endswith(path)]


def build_reply(document: object, status: int = 200, **headers: str) -> Step:
    """A whole reply of JSON."""
    return build_raw_reply(json.dumps(document).encode(), status, **headers)


def build_raw_reply(body: bytes, status: int = 200, announced: int | None = None, **headers: str) -> Step:
    """A reply of these bytes, of which more may be announced than come."""

    def step(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(status)
        handler.send_header("Content-Length", str(len(body) if announced is None else announced))
        for name, value in headers.items():
            handler.send_header(name.replace("_", "-"), value)
        handler.end_headers()
        handler.wfile.write(body)

    return step


def build_problem(status: int, kind: str | None = None, detail: object = "one sentence", **headers: str) -> Step:
    """A refusal."""
    return build_reply({"title": "a title", "status": status, "detail": detail, "kind": kind}, status, **headers)


def drop(_: BaseHTTPRequestHandler) -> None:
    """The connection ends without a reply."""


def send_broken_chunk(handler: BaseHTTPRequestHandler) -> None:
    """A chunked reply that ends in the middle."""
    handler.send_response(200)
    handler.send_header("Transfer-Encoding", "chunked")
    handler.end_headers()
    handler.wfile.write(b'10\r\n{"question":')


def send_huge_reply(handler: BaseHTTPRequestHandler) -> None:
    """A reply of 80 MB, unless nobody reads it to the end."""
    handler.send_response(200)
    handler.end_headers()
    try:
        for _ in range(80):
            handler.wfile.write(b" " * 2**20)
    except OSError:
        return


@contextmanager
def run_scripted_service(certificate: Certificate | None = None) -> Iterator[ScriptedService]:
    """Run it in a thread; with a certificate, under TLS."""
    script = ScriptedService()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            headers = {name.lower(): value for name, value in self.headers.items()}
            script.seen.append(SeenRequest(self.command, self.path, headers, body))
            self.close_connection = True
            step = script.steps.pop(0) if len(script.steps) > 1 else script.steps[0]
            step(self)

        do_GET = do_POST = do_DELETE = do  # noqa: N815 (as http.server calls them)

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    with _Server(("127.0.0.1", 0), Handler) as server:
        if certificate is not None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(certificate.certificate, certificate.key)
            server.socket = context.wrap_socket(server.socket, server_side=True)
        script.address = f"{'http' if certificate is None else 'https'}://127.0.0.1:{server.server_port}"
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield script
        finally:
            script.over.set()
            server.shutdown()
            thread.join()


class _Server(ThreadingHTTPServer):
    daemon_threads = False
    block_on_close = True

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that went away is what some tests are about."""
