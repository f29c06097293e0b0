"""Requests and replies over one connection, with as little in between as possible."""

from __future__ import annotations

import json
import socket
import time

HEAD = "{start} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\n{more}\r\n{body}"
QUESTION = "SELECT town, COUNT(*) FROM {name} WHERE age = 99 GROUP BY town"
"""Of those that were tried, the one whose work differs most: blocks of rows are read, and a key is found, or not."""


def build_question_request(name: str, token: str) -> bytes:
    """A question about a data set, drawn anew every time."""
    payload = {"question": QUESTION.format(name=name), "epsilon": "0.01", "delta": "1e-9", "fresh": True}
    body = json.dumps(payload)
    headers = f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n"
    return HEAD.format(start=f"POST /v1/datasets/{name}/answers", token=token, more=headers, body=body).encode()


def build_budget_request(name: str, token: str) -> bytes:
    """A request that reads no row."""
    return HEAD.format(start=f"GET /v1/datasets/{name}/budget", token=token, more="", body="").encode()


def connect(port: int) -> socket.socket:
    """A connection that sends at once."""
    line = socket.create_connection(("127.0.0.1", port))
    line.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return line


def read_reply(line: socket.socket) -> float:
    """Read a reply that is no refusal; when its first byte was here."""
    reply = _receive(line)
    when = time.perf_counter()
    while b"\r\n\r\n" not in reply:
        reply += _receive(line)
    head, _, body = reply.partition(b"\r\n\r\n")
    if not head.startswith(b"HTTP/1.1 20"):
        raise RuntimeError(reply[:500].decode())
    length = int(head.lower().partition(b"content-length:")[2].split(b"\r\n")[0])
    while len(body) < length:
        body += _receive(line)
    return when


def _receive(line: socket.socket) -> bytes:
    received = line.recv(65_536)
    if not received:
        raise RuntimeError("the service hung up")
    return received
