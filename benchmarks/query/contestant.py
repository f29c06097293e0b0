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


def locate_file(suffix: str) -> Path:
    """A file of the table: its folder is the contestant's one argument."""
    return Path(sys.argv[1]) / f"{TABLE}.{suffix}"


def serve(answers: Answers) -> None:
    """Answer every line of standard input; a failure is a result like any other, so it is told and not raised."""
    send_message({"ready": True})
    for line in sys.stdin:
        name, constant = json.loads(line)
        child_seconds, processor_seconds, start = measure_child_seconds(), time.process_time(), time.perf_counter()
        try:
            numbers = answers[name](constant)
        except Exception as failure:
            send_message({"failure": f"{type(failure).__name__}: {failure}"[:200]})
            continue
        seconds, processor_seconds = time.perf_counter() - start, time.process_time() - processor_seconds
        reply = {
            "seconds": seconds,
            "processor": processor_seconds + measure_child_seconds() - child_seconds,
            "peak": measure_peak_megabytes(),
        }
        send_message(reply | {"numbers": [float(number) for number in numbers]})


def send_message(message: Mapping[str, object]) -> None:
    print(json.dumps(message), flush=True)


def measure_peak_megabytes() -> float:
    """The most memory this process ever had resident, and those it started; Linux counts in kilobytes.

    A process starts from its parent's figure, so who starts contestants imports nothing heavy.
    """
    child_kilobytes = sum(_read_status(each, "VmHWM") for each in list_processes()[1:])
    return (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss + child_kilobytes) / 1024


def measure_child_seconds() -> float:
    """What the processes that this one started have had of all processors."""
    ticks = sum(int(field) for each in list_processes()[1:] for field in _read_stat(each)[11:15])
    return ticks / os.sysconf("SC_CLK_TCK")


def list_processes() -> list[int]:
    """This process, and those that it or they started."""
    stats = {pid: _read_stat(pid) for pid in map(int, filter(str.isdecimal, os.listdir("/proc")))}
    parents = {pid: int(fields[1]) for pid, fields in stats.items() if fields}
    pids = [os.getpid()]
    for each in pids:
        pids += [pid for pid, parent in parents.items() if parent == each]
    return pids


def _read_stat(pid: int) -> list[str]:
    """What the system says of a process after its name; nothing of one that has gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return []


def _read_status(pid: int, which: str) -> int:
    try:
        match = re.search(rf"{which}:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
    except OSError:
        return 0
    return int(match[1]) if match else 0
