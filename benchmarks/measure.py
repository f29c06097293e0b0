"""What benchmarks share: a figure with its bar, and the least of several times."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace

from benchmarks.results import BenchmarkResult, write_result


@dataclass(frozen=True)
class Line:
    """One figure and its bar."""

    name: str
    figure: float
    unit: str
    bar: float
    least: bool
    beside: str = ""

    @property
    def cleared(self) -> bool:
        return self.figure >= self.bar if self.least else self.figure <= self.bar

    def __str__(self) -> str:
        sign, mark = "≥" if self.least else "≤", "ok" if self.cleared else "MISSED"
        return f"{self.name:<58} {self.figure:>12,.4g} {self.unit:<8} {sign} {self.bar:<10,.6g} {mark:<7} {self.beside}"


def best_time(work: Callable[[], object], rounds: int = 5) -> float:
    """The least of several times: what the work takes when nobody disturbs it."""
    times = []
    for _ in range(rounds):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return min(times)


def report(*parts: Callable[[], Sequence[Line]], result: BenchmarkResult | None = None) -> int:
    """Print every line as it comes, and keep them with what else was seen; 1 where a bar is missed, else 0."""
    lines = []
    for part in parts:
        for line in part():
            print(line, flush=True)
            lines.append(line)
    missed = sum(not line.cleared for line in lines)
    print(f"\n{len(lines) - missed} of {len(lines)} bars cleared")
    write_result(
        replace(result or BenchmarkResult(), lines=[asdict(line) | {"cleared": bool(line.cleared)} for line in lines])
    )
    return int(missed > 0)
