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
from benchmarks.service.serving import Served
from benchmarks.service.two import ABSENT, PRESENT, ROOT, served, write_two

CONNECTIONS = 10
DEADLINE = 0.25
BAR = 4.5
PLANTED = 0.005
FEW = 2000
WAITS = 0.1
"""The deadline of replies that only wait."""
BEFORE = (0.01, 0.014, 0.018)
"""When a question is sent before one of those is due: its rows are then read, or its answer is made, at that moment."""


@dataclass(frozen=True)
class Compared:
    """Seconds of replies with the person in and out."""

    present: list[float]
    absent: list[float]

    @property
    def t(self) -> float:
        """Welch's t, without its sign."""
        one, two = self.present, self.absent
        error = math.sqrt(statistics.variance(one) / len(one) + statistics.variance(two) / len(two))
        return abs(statistics.fmean(one) - statistics.fmean(two)) / error

    def fastest(self) -> Compared:
        """Without the slowest fifth of all, as attackers would: what disturbs a machine hides small differences."""
        limit = statistics.quantiles(self.present + self.absent, n=5)[-1]
        return Compared(*([one for one in side if one <= limit] for side in (self.present, self.absent)))

    def __str__(self) -> str:
        return f"|t| {self.t:5.2f}; with the person {_told(self.present)}; without {_told(self.absent)}"


def _told(seconds: list[float]) -> str:
    mean, deviation = 1000 * statistics.fmean(seconds), 1000 * statistics.stdev(seconds)
    return f"{len(seconds):,} replies, mean {mean:.3f} ms, sd {deviation:.3f} ms"


def seen_by(program: str, service: Served, *words: float) -> Compared:
    """What the clients of another process saw."""
    command = [
        sys.executable,
        "-m",
        f"benchmarks.service.{program}",
        str(service.port),
        service.token,
        *map(str, words),
    ]
    seen = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, cwd=ROOT).stdout)
    return Compared(seen[PRESENT], seen[ABSENT])


def lines(folder: Path, many: int) -> list[Line]:
    """Without padding what is planted is seen; with it, neither that nor what the rows themselves do."""
    write_two(folder)
    found = []
    for planted in (None, PLANTED):
        what = "one person" if planted is None else f"one person and {1000 * planted:g} ms planted"
        with served(folder, None, planted) as service:
            bare = _shown(f"{what}, not padded", seen_by("alternating", service, 1, FEW))
        with served(folder, DEADLINE, planted) as service:
            hidden = _shown(f"{what}, padded", seen_by("alternating", service, CONNECTIONS, many))
        if planted is not None:
            found.append(Line(f"|t| of {what}, not padded", bare.fastest().t, "", BAR, True))
        found.append(Line(f"|t| of {what}, padded", hidden.t, "", BAR, False))
        found.append(Line("|t| of the same without the slowest fifth", hidden.fastest().t, "", BAR, False))
    _beside(folder, max(10, many // 50))
    return found


def _beside(folder: Path, many: int) -> None:
    """What remains: how punctual a reply is that only waits, while the process reads rows with or without the plant.

    No bar: a tenth of a millisecond is seen by who has patience. Where answers were written down as soon as they were
    drawn it was three quarters of one, and |t| was 10 after 150 of each.
    """
    with served(folder, WAITS, PLANTED) as service:
        for before in BEFORE:
            what = f"a reply due {1000 * before:g} ms after the question was sent"
            _shown(what, seen_by("bystander", service, WAITS, before, many))


def _shown(what: str, seen: Compared) -> Compared:
    print(f"{what}: {seen}\n  without the slowest fifth: {seen.fastest()}", flush=True)
    return seen
