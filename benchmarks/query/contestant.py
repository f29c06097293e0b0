"""A contestant's side: answers what it reads, says how long that took, also on the processor, and its most memory.

Only the standard library: peers import it too. A peer on Spark does its work in processes it started; they count.
"""

from __future__ import annotations

import json
import os
import re
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
        started, own, start = started_seconds(), time.process_time(), time.perf_counter()
        try:
            numbers = answers[name](constant)
        except Exception as failure:
            tell({"failure": f"{type(failure).__name__}: {failure}"[:200]})
            continue
        took, own = time.perf_counter() - start, time.process_time() - own
        told = {"seconds": took, "processor": own + started_seconds() - started, "peak": peak_megabytes()}
        tell(told | {"numbers": [float(number) for number in numbers]})


def tell(message: Mapping[str, object]) -> None:
    print(json.dumps(message), flush=True)


def peak_megabytes() -> float:
    """The most memory this process ever had resident, and those it started; Linux counts in kilobytes.

    A process starts from its parent's figure, so who starts contestants imports nothing heavy.
    """
    started = sum(_status(each, "VmHWM") for each in family()[1:])
    return (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss + started) / 1024


def started_seconds() -> float:
    """What the processes that this one started have had of all processors."""
    ticks = sum(int(field) for each in family()[1:] for field in _stat(each)[11:15])
    return ticks / os.sysconf("SC_CLK_TCK")


def family() -> list[int]:
    """This process, and those that it or they started."""
    told = {pid: _stat(pid) for pid in map(int, filter(str.isdecimal, os.listdir("/proc")))}
    parents = {pid: int(fields[1]) for pid, fields in told.items() if fields}
    found = [os.getpid()]
    for each in found:
        found += [pid for pid, parent in parents.items() if parent == each]
    return found


def _stat(pid: int) -> list[str]:
    """What the system says of a process after its name; nothing of one that has gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return []


def _status(pid: int, which: str) -> int:
    try:
        found = re.search(rf"{which}:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
    except OSError:
        return 0
    return int(found[1]) if found else 0
