"""Clients in a process of their own: `python -m benchmarks.service.load_clients PORT TOKEN CLIENTS RATE SECONDS FIRST`.

With a rate, questions are sent when they are due, ready or not, and timed from then; with rate 0, each client asks
again as soon as it is answered. Prints what was seen as JSON.
"""

from __future__ import annotations

import http.client
import json
import sys
import threading
import time
from dataclasses import dataclass, field

from benchmarks.service.table import generate_questions

EPSILON = "0.001"


@dataclass
class LoadResult:
    """What clients saw: seconds of every reply, and what was not an answer."""

    seconds: list[float] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)


def run_client(
    port: int, token: str, first: int, step: int, due: float, every: float, end: float, result: LoadResult
) -> None:
    """Ask one question after another over one connection."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    for question in generate_questions(first, step):
        due = max(due, time.monotonic()) if not every else due
        if due >= end:
            break
        time.sleep(max(0.0, due - time.monotonic()))
        body = json.dumps({"question": question, "epsilon": EPSILON})
        connection.request("POST", "/v1/datasets/people/answers", body, headers)
        reply = connection.getresponse()
        body_bytes = reply.read()
        result.seconds.append(time.monotonic() - due)
        if reply.status != 201:
            result.wrong.append(f"{reply.status} {body_bytes[:200]!r}")
        due += every
    connection.close()


def run_load(port: int, token: str, clients: int, rate: float, seconds: float, first: int) -> LoadResult:
    """All clients at once, for some seconds."""
    result, start = LoadResult(), time.monotonic() + 0.2
    every = clients / rate if rate else 0.0
    threads = [
        threading.Thread(
            target=run_client,
            args=(port, token, first + i, clients, start + (i / rate if rate else 0), every, start + seconds, result),
        )
        for i in range(clients)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return result


def main() -> None:
    port, token, clients, rate, seconds, first = sys.argv[1:]
    result = run_load(int(port), token, int(clients), float(rate), float(seconds), int(first))
    print(json.dumps({"seconds": result.seconds, "wrong": result.wrong}))


if __name__ == "__main__":
    main()
