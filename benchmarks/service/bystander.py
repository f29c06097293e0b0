"""A client in a process of its own: `python -m benchmarks.service.bystander PORT TOKEN DEADLINE BEFORE MANY`.

It asks for a budget, and so many seconds before that reply is due, a question about either data set at random: two
replies of one process share its threads, and one that only waits may tell when the other's work ends. Prints how long
the budgets took as JSON.
"""

from __future__ import annotations

import json
import random
import sys
import time

from benchmarks.service.two import ABSENT, PRESENT
from benchmarks.service.wire import budget, came, connected, question


def beside(port: int, token: str, deadline: float, before: float, many: int) -> dict[str, list[float]]:
    """As many questions about each of the two, in an order that nobody chose."""
    names = [PRESENT, ABSENT] * many
    random.shuffle(names)
    requests, waits = {name: question(name, token) for name in (PRESENT, ABSENT)}, budget(ABSENT, token)
    seen: dict[str, list[float]] = {PRESENT: [], ABSENT: []}
    with connected(port) as one, connected(port) as other:
        for name in names:
            start = time.perf_counter()
            one.sendall(waits)
            time.sleep(max(0.0, start + deadline - before - time.perf_counter()))
            other.sendall(requests[name])
            seen[name].append(came(one) - start)
            came(other)
    return seen


if __name__ == "__main__":
    port, token, deadline, before, many = sys.argv[1:]
    print(json.dumps(beside(int(port), token, float(deadline), float(before), int(many))))
