"""A client in a process of its own: `python -m benchmarks.service.bystander_client PORT TOKEN DEADLINE BEFORE MANY`.

It asks for a budget, and so many seconds before that reply is due, a question about either data set at random: two
replies of one process share its threads, and one that only waits may tell when the other's work ends. Prints how long
the budgets took as JSON.
"""

from __future__ import annotations

import json
import random
import sys
import time

from benchmarks.service.http_connection import build_budget_request, build_question_request, connect, read_reply
from benchmarks.service.neighboring_datasets import ABSENT, PRESENT


def measure_bystander(port: int, token: str, deadline: float, before: float, many: int) -> dict[str, list[float]]:
    """As many questions about each of the two, in an order that nobody chose."""
    names = [PRESENT, ABSENT] * many
    random.shuffle(names)
    requests, waiting_request = (
        {name: build_question_request(name, token) for name in (PRESENT, ABSENT)},
        build_budget_request(ABSENT, token),
    )
    seconds_by_name: dict[str, list[float]] = {PRESENT: [], ABSENT: []}
    with connect(port) as waiting, connect(port) as asking:
        for name in names:
            start = time.perf_counter()
            waiting.sendall(waiting_request)
            time.sleep(max(0.0, start + deadline - before - time.perf_counter()))
            asking.sendall(requests[name])
            seconds_by_name[name].append(read_reply(waiting) - start)
            read_reply(asking)
    return seconds_by_name


if __name__ == "__main__":
    port, token, deadline, before, many = sys.argv[1:]
    print(json.dumps(measure_bystander(int(port), token, float(deadline), float(before), int(many))))
