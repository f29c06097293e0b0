"""Clients in a process of their own: `python -m benchmarks.service.alternating PORT TOKEN CONNECTIONS MANY`.

Each asks about either data set at random, one question at a time. Prints how long the replies took as JSON.
"""

from __future__ import annotations

import json
import random
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from benchmarks.service.two import ABSENT, PRESENT
from benchmarks.service.wire import came, connected, question

WARM = 20
Seen = dict[str, list[float]]


def client(port: int, requests: dict[str, bytes], names: Sequence[str], seen: Seen) -> None:
    """Ask what is next, over one connection."""
    with connected(port) as line:
        for name in names:
            start = time.perf_counter()
            line.sendall(requests[name])
            seen[name].append(came(line) - start)


def clients(port: int, token: str, connections: int, many: int) -> Seen:
    """As many questions about each of the two, in an order that nobody chose."""
    names = [PRESENT, ABSENT] * many
    random.shuffle(names)
    requests = {name: question(name, token) for name in (PRESENT, ABSENT)}
    client(port, requests, names[:WARM], {PRESENT: [], ABSENT: []})
    seen: Seen = {PRESENT: [], ABSENT: []}
    with ThreadPoolExecutor(connections) as pool:
        shares = [names[at::connections] for at in range(connections)]
        for done in [pool.submit(client, port, requests, share, seen) for share in shares]:
            done.result()
    return seen


if __name__ == "__main__":
    told, token, connections, many = sys.argv[1:]
    print(json.dumps(clients(int(told), token, int(connections), int(many))))
