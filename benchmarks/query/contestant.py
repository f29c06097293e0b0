"""A contestant's side: answers what it reads, says how long that took and how much memory it had at most.

Only the standard library: peers import it too.
"""

from __future__ import annotations

import json
import resource
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from benchmarks.query.questions import TABLE

Answers = Mapping[str, Callable[[int], Sequence[float]]]
"""For each question's name, from its constant to the numbers of the answer."""


def file(suffix: str) -> Path:
    """A file of the table: its folder is the contestant's one argument."""
    return Path(sys.argv[1]) / f"{TABLE}.{suffix}"


def serve(answers: Answers) -> None:
    """Answer every line of standard input; a failure is a result like any other, so it is told and not raised."""
    tell({"ready": True})
    for line in sys.stdin:
        name, constant = json.loads(line)
        start = time.perf_counter()
        try:
            numbers = answers[name](constant)
        except Exception as failure:
            tell({"failure": f"{type(failure).__name__}: {failure}"[:200]})
            continue
        took = time.perf_counter() - start
        tell({"seconds": took, "numbers": [float(number) for number in numbers], "peak": peak_megabytes()})


def tell(message: Mapping[str, object]) -> None:
    print(json.dumps(message), flush=True)


def peak_megabytes() -> float:
    """The most memory this process ever had resident; Linux counts in kilobytes.

    A process starts from its parent's figure, so who starts contestants imports nothing heavy.
    """
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
