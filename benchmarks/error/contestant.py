"""A peer's side: answers every job again and again, and prints the numbers. Only the standard library."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Mapping, Sequence

from benchmarks.error.jobs import EPSILONS, JOBS

MOST_RUNS = 10_000
SECONDS = 1.5
"""Of processor time, for each job and epsilon; whoever is quick stops at the most runs."""
Draw = Callable[[], Sequence[float]]
Make = Callable[[float], Draw]
"""From epsilon to a draw, so that what can be made once is."""


def serve(made: Mapping[str, Make]) -> None:
    """Run every job that this peer can do; a job it fails in is told with its failure."""
    results: dict[str, object] = {}
    for job in JOBS:
        if job.name in made:
            results[job.name] = {str(epsilon): _told(made[job.name], epsilon) for epsilon in EPSILONS}
    json.dump(results, sys.stdout)


def _told(make: Make, epsilon: float) -> list[list[float]] | str:
    try:
        return runs(make(epsilon))
    except Exception as failure:
        return f"{type(failure).__name__}: {failure}"[:200]


def runs(draw: Draw, seconds: float = SECONDS, most: int = MOST_RUNS) -> list[list[float]]:
    """As many runs as time allows, up to the most that are needed."""
    found: list[list[float]] = []
    end = time.process_time() + seconds
    while len(found) < most and time.process_time() < end:
        found.append([float(number) for number in draw()])
    return found
