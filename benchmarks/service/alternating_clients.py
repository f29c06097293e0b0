"""Clients in a process of their own: `python -m benchmarks.service.alternating_clients PORT TOKEN CONNECTIONS MANY`.

Each asks about either data set at random, one question at a time. Prints how long the replies took as JSON.
"""

from __future__ import annotations

import json
import random
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from benchmarks.service.http_connection import build_question_request, connect, read_reply
from benchmarks.service.neighboring_datasets import ABSENT, PRESENT

WARM = 20
Seconds = dict[str, list[float]]


def ask_in_order(port: int, requests: dict[str, bytes], names: Sequence[str], seconds_by_name: Seconds) -> None:
    """Ask what is next, over one connection."""
    with connect(port) as connection:
        for name in names:
            start = time.perf_counter()
            connection.sendall(requests[name])
            seconds_by_name[name].append(read_reply(connection) - start)


def run_clients(port: int, token: str, connections: int, many: int) -> Seconds:
    """As many questions about each of the two, in an order that nobody chose."""
    names = [PRESENT, ABSENT] * many
    random.shuffle(names)
    requests = {name: build_question_request(name, token) for name in (PRESENT, ABSENT)}
    ask_in_order(port, requests, names[:WARM], {PRESENT: [], ABSENT: []})
    seconds_by_name: Seconds = {PRESENT: [], ABSENT: []}
    with ThreadPoolExecutor(connections) as pool:
        shares = [names[i::connections] for i in range(connections)]
        for future in [pool.submit(ask_in_order, port, requests, share, seconds_by_name) for share in shares]:
            future.result()
    return seconds_by_name


if __name__ == "__main__":
    port, token, connections, many = sys.argv[1:]
    print(json.dumps(run_clients(int(port), token, int(connections), int(many))))
