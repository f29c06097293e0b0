"""What time tells of one person: replies about two data sets that differ in that person, compared by Welch's t."""

from __future__ import annotations

import json
import math
import statistics
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from benchmarks.measure import Line
from benchmarks.service.neighboring_datasets import ABSENT, PRESENT, ROOT, serve_datasets, write_datasets
from benchmarks.service.running_service import RunningService

CONNECTIONS = 10
DEADLINE = 0.25
BAR = 4.5
DELAY = 0.005
FEW = 2000
WAITS = 0.1
"""The deadline of replies that only wait."""
BEFORE = (0.01, 0.014, 0.018)
"""When a question is sent before one of those is due: its rows are then read, or its answer is made, at that moment."""


@dataclass(frozen=True)
class TimeComparison:
    """Seconds of replies with the person in and out."""

    present: list[float]
    absent: list[float]

    @property
    def t(self) -> float:
        """Welch's t, without its sign."""
        present, absent = self.present, self.absent
        error = math.sqrt(statistics.variance(present) / len(present) + statistics.variance(absent) / len(absent))
        return abs(statistics.fmean(present) - statistics.fmean(absent)) / error

    def without_slowest_fifth(self) -> TimeComparison:
        """Without the slowest fifth of all, as attackers would: what disturbs a machine hides small differences."""
        limit = statistics.quantiles(self.present + self.absent, n=5)[-1]
        return TimeComparison(*([one for one in side if one <= limit] for side in (self.present, self.absent)))

    def __str__(self) -> str:
        present, absent = _format_seconds(self.present), _format_seconds(self.absent)
        return f"|t| {self.t:5.2f}; with the person {present}; without {absent}"


def _format_seconds(seconds: list[float]) -> str:
    mean, deviation = 1000 * statistics.fmean(seconds), 1000 * statistics.stdev(seconds)
    return f"{len(seconds):,} replies, mean {mean:.3f} ms, sd {deviation:.3f} ms"


def run_clients(program: str, service: RunningService, *words: float) -> TimeComparison:
    """What the clients of another process saw."""
    command = [
        sys.executable,
        "-m",
        f"benchmarks.service.{program}",
        str(service.port),
        service.token,
        *map(str, words),
    ]
    seconds_by_name = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, cwd=ROOT).stdout)
    return TimeComparison(seconds_by_name[PRESENT], seconds_by_name[ABSENT])


def measure_lines(folder: Path, many: int) -> list[Line]:
    """Without padding what is planted is seen; with it, neither that nor what the rows themselves do."""
    write_datasets(folder)
    lines = []
    for delay in (None, DELAY):
        what = "one person" if delay is None else f"one person and {1000 * delay:g} ms planted"
        with serve_datasets(folder, None, delay) as service:
            bare = _print_comparison(f"{what}, not padded", run_clients("alternating_clients", service, 1, FEW))
        with serve_datasets(folder, DEADLINE, delay) as service:
            hidden = _print_comparison(
                f"{what}, padded", run_clients("alternating_clients", service, CONNECTIONS, many)
            )
        if delay is not None:
            lines.append(Line(f"|t| of {what}, not padded", bare.without_slowest_fifth().t, "", BAR, True))
        lines.append(Line(f"|t| of {what}, padded", hidden.t, "", BAR, False))
        lines.append(
            Line("|t| of the same without the slowest fifth", hidden.without_slowest_fifth().t, "", BAR, False)
        )
    _measure_bystander(folder, max(10, many // 50))
    return lines


def _measure_bystander(folder: Path, many: int) -> None:
    """What remains: how punctual a reply is that only waits, while the process reads rows with or without the plant.

    No bar: a tenth of a millisecond is seen by who has patience. Where answers were written down as soon as they were
    drawn it was three quarters of one, and |t| was 10 after 150 of each.
    """
    with serve_datasets(folder, WAITS, DELAY) as service:
        for before in BEFORE:
            what = f"a reply due {1000 * before:g} ms after the question was sent"
            _print_comparison(what, run_clients("bystander_client", service, WAITS, before, many))


def _print_comparison(what: str, comparison: TimeComparison) -> TimeComparison:
    print(f"{what}: {comparison}\n  without the slowest fifth: {comparison.without_slowest_fifth()}", flush=True)
    return comparison
