"""What time tells of one person: replies about two data sets that differ in that person, compared by Welch's t.

As a program of its own, `python -m benchmarks.service.timing PORT TOKEN CONNECTIONS MANY` is the clients: each asks
about either data set at random, one question at a time. Prints how long the replies took as JSON.
"""

from __future__ import annotations

import json
import math
import random
import socket
import statistics
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from benchmarks.measure import Line
from benchmarks.service.serving import Served
from benchmarks.service.two import ABSENT, PRESENT, ROOT, served, write_two

CONNECTIONS = 10
DEADLINE = 0.25
BAR = 4.5
PLANTED = 0.005
FEW = 2000
WARM = 20
REQUEST = """\
POST /v1/datasets/{name}/answers HTTP/1.1\r
Host: localhost\r
Authorization: Bearer {token}\r
Content-Type: application/json\r
Content-Length: {length}\r
\r
{body}"""
QUESTION = "SELECT town, COUNT(*) FROM {name} WHERE age = 99 GROUP BY town"
"""Of those that were tried, the one whose work differs most: blocks of rows are read, and a key is found, or not."""


@dataclass(frozen=True)
class Compared:
    """Seconds of replies with the person in and out."""

    present: list[float]
    absent: list[float]

    @property
    def t(self) -> float:
        """Welch's t, without its sign."""
        one, two = self.present, self.absent
        error = math.sqrt(statistics.variance(one) / len(one) + statistics.variance(two) / len(two))
        return abs(statistics.fmean(one) - statistics.fmean(two)) / error

    def fastest(self) -> Compared:
        """Without the slowest fifth of all, as attackers would: what disturbs a machine hides small differences."""
        limit = statistics.quantiles(self.present + self.absent, n=5)[-1]
        return Compared(*([one for one in side if one <= limit] for side in (self.present, self.absent)))

    def __str__(self) -> str:
        return f"|t| {self.t:5.2f}; with the person {_told(self.present)}; without {_told(self.absent)}"


def _told(seconds: list[float]) -> str:
    mean, deviation = 1000 * statistics.fmean(seconds), 1000 * statistics.stdev(seconds)
    return f"{len(seconds):,} replies, mean {mean:.3f} ms, sd {deviation:.3f} ms"


def request(name: str, token: str) -> bytes:
    """One question about a data set, drawn anew every time."""
    asked = {"question": QUESTION.format(name=name), "epsilon": "0.001", "delta": "1e-9", "fresh": True}
    body = json.dumps(asked)
    return REQUEST.format(name=name, token=token, length=len(body), body=body).encode()


def exchange(line: socket.socket, sent: bytes) -> float:
    """Send a request and read its reply; the seconds until its first byte was here."""
    start = time.perf_counter()
    line.sendall(sent)
    reply = _more(line)
    seconds = time.perf_counter() - start
    while b"\r\n\r\n" not in reply:
        reply += _more(line)
    head, _, body = reply.partition(b"\r\n\r\n")
    if not head.startswith(b"HTTP/1.1 201 "):
        raise RuntimeError(reply[:500].decode())
    length = int(head.lower().partition(b"content-length:")[2].split(b"\r\n")[0])
    while len(body) < length:
        body += _more(line)
    return seconds


def _more(line: socket.socket) -> bytes:
    read = line.recv(65_536)
    if not read:
        raise RuntimeError("the service hung up")
    return read


def client(port: int, requests: dict[str, bytes], names: list[str], seen: dict[str, list[float]]) -> None:
    """Ask what is next, over one connection."""
    with socket.create_connection(("127.0.0.1", port)) as line:
        line.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for name in names:
            seen[name].append(exchange(line, requests[name]))


def clients(port: int, token: str, connections: int, many: int) -> dict[str, list[float]]:
    """As many questions about each of the two, in an order that nobody chose."""
    names = [PRESENT, ABSENT] * many
    random.shuffle(names)
    requests = {name: request(name, token) for name in (PRESENT, ABSENT)}
    client(port, requests, names[:WARM], {PRESENT: [], ABSENT: []})
    seen: dict[str, list[float]] = {PRESENT: [], ABSENT: []}
    with ThreadPoolExecutor(connections) as pool:
        shares = [names[at::connections] for at in range(connections)]
        for done in [pool.submit(client, port, requests, share, seen) for share in shares]:
            done.result()
    return seen


def compared(service: Served, connections: int, many: int) -> Compared:
    """What clients of another process saw."""
    words = [str(service.port), service.token, str(connections), str(many)]
    command = [sys.executable, "-m", "benchmarks.service.timing", *words]
    seen = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, cwd=ROOT).stdout)
    return Compared(seen[PRESENT], seen[ABSENT])


def lines(folder: Path, many: int) -> list[Line]:
    """Without padding what is planted is seen; with it, neither that nor what the rows themselves do."""
    write_two(folder)
    found = []
    for planted in (None, PLANTED):
        what = "one person" if planted is None else f"one person and {1000 * planted:g} ms planted"
        with served(folder, None, planted) as service:
            bare = _shown(f"{what}, not padded", compared(service, 1, FEW))
        with served(folder, DEADLINE, planted) as service:
            hidden = _shown(f"{what}, padded", compared(service, CONNECTIONS, many))
        if planted is not None:
            found.append(Line(f"|t| of {what}, not padded", bare.fastest().t, "", BAR, True))
        found.append(Line(f"|t| of {what}, padded", hidden.t, "", BAR, False))
        found.append(Line("|t| of the same without the slowest fifth", hidden.fastest().t, "", BAR, False))
    return found


def _shown(what: str, seen: Compared) -> Compared:
    print(f"{what}: {seen}\n  without the slowest fifth: {seen.fastest()}", flush=True)
    return seen


if __name__ == "__main__":
    port, token, connections, many = sys.argv[1:]
    print(json.dumps(clients(int(port), token, int(connections), int(many))))
