"""What everybody is to do, and how a contestant tells what it took. Only the standard library: peers import it too."""

from __future__ import annotations

import json
import resource
import sys
import time
from collections.abc import Callable
from pathlib import Path

K, T, SUPPRESSED = 10, 0.2, 0.02
"""At least so many alike, at most so far from the whole, and at most such a share left out."""
QUASI = ("age", "sex", "region", "education")
SECRET, ROW = "band", "row"
"""The confidential column, a decile of income, and a number by which rows are found again in a release."""
WIDTHS = (5, 10, 20, 40)
ANYTHING = "*"
MAPS = {
    "sex": (),
    "region": ({f"region {letter}": f"region {pair}" for pair in ("AB", "CD", "EF", "GH", "IJ") for letter in pair},),
    "education": (
        {
            "none": "little",
            "primary": "little",
            "secondary": "secondary",
            "first degree": "much",
            "higher degree": "much",
        },
    ),
}
"""By column, from a level to the next; above the last all is one."""


def locate_table() -> Path:
    """The CSV file: its folder is the contestant's first argument."""
    return Path(sys.argv[1]) / "people.csv"


def locate_release(name: str) -> Path:
    """Where a contestant leaves its table."""
    return Path(sys.argv[1]) / f"{name}.csv"


def time_call(work: Callable[[], object]) -> object:
    """Do it, tell what it took, and hand on what came of it."""
    start, processor_seconds = time.perf_counter(), time.process_time()
    result = work()
    seconds, processor_seconds = time.perf_counter() - start, time.process_time() - processor_seconds
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps({"seconds": seconds, "processor": processor_seconds, "peak": peak}), flush=True)
    return result
