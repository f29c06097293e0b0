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
Runs = Callable[[float], list[list[float]]]
"""From epsilon to many runs at once, of a peer that is slow to answer but answers for many groups in one go."""
COPIES = 200


def serve(makers: Mapping[str, Make]) -> None:
    """Run every job that this peer can do; a job it fails in is told with its failure."""
    serve_copies({name: lambda epsilon, make=make: collect_runs(make(epsilon)) for name, make in makers.items()})


def serve_copies(answer_functions: Mapping[str, Runs], epsilons: Sequence[float] = EPSILONS) -> None:
    """The same of a peer that makes its runs itself."""
    results: dict[str, object] = {}
    for job in JOBS:
        if job.name in answer_functions:
            results[job.name] = {str(epsilon): _answer_job(answer_functions[job.name], epsilon) for epsilon in epsilons}
    json.dump(results, sys.stdout)


def _answer_job(answer_copies: Runs, epsilon: float) -> list[list[float]] | str:
    try:
        return answer_copies(epsilon)
    except Exception as failure:
        return f"{type(failure).__name__}: {failure}"[:200]


def collect_runs(draw: Draw, seconds: float = SECONDS, most: int = MOST_RUNS) -> list[list[float]]:
    """As many runs as time allows, up to the most that are needed."""
    answers: list[list[float]] = []
    end = time.process_time() + seconds
    while len(answers) < most and time.process_time() < end:
        answers.append([float(number) for number in draw()])
    return answers
