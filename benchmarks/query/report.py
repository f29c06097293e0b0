"""What the races say: a table of times and memory for each, and the bars discreet has to clear."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.measure import Line
from benchmarks.query.questions import QUESTIONS
from benchmarks.query.race import CONTESTANTS, TIMED, Race, Result

OURS, FLOOR, UNSAFE = "discreet", "DuckDB", "diffprivlib"
SAFE = ("opendp", "python-dp")


def table(race: Race) -> Iterator[str]:
    """A row for each question, a column for each contestant."""
    names = [name for name, _, _ in CONTESTANTS]
    yield f"\n{race.rows:,} rows: ms to an answer, median of {TIMED} (least)"
    yield f"{'':<17}" + "".join(f"{name:>19}" for name in names)
    for question in QUESTIONS:
        yield f"{question.name:<17}" + "".join(f"{_times(race.results[name, question.name]):>19}" for name in names)
    yield f"{'peak memory, MB':<17}" + "".join(f"{race.peaks[name]:>19,.0f}" for name in names)
    seconds, peak = race.registration["seconds"], race.registration["peak"]
    yield f"registered with discreet beforehand, in {seconds:.1f} s and at most {peak:,.0f} MB"
    yield from (
        f"{name}, {asked}: {result.failure}" for (name, asked), result in race.results.items() if result.failure
    )


def _times(result: Result) -> str:
    return "none" if result.failure else f"{result.milliseconds:,.1f} ({min(result.seconds) * 1e3:,.1f})"


def bars(race: Race) -> Iterator[Line]:
    """Near plain DuckDB, faster than peers whose noise is safe, hardly slower than the one whose noise is not."""
    for question in QUESTIONS:
        took = {name: race.results[name, question.name].milliseconds for name, _, _ in CONTESTANTS}
        limits = {f"1.3 {FLOOR} + 20 ms": 1.3 * took[FLOOR] + 20}
        limits |= {name: took[name] for name in SAFE}
        limits |= {f"{UNSAFE} + 20 ms": took[UNSAFE] + 20}
        for against, limit in limits.items():
            yield Line(f"{race.rows:,} rows, {question.name}", took[OURS], "ms", limit, False, against)
    limit = 1.5 * race.peaks[FLOOR] + 150
    yield Line(f"{race.rows:,} rows, peak memory", race.peaks[OURS], "MB", limit, False, f"1.5 {FLOOR} + 150 MB")


def growth(small: Race, large: Race) -> Iterator[Line]:
    """Cost is linear in rows: with a fifth of room, and what does not grow only helps."""
    for question in QUESTIONS:
        ratio = large.results[OURS, question.name].milliseconds / small.results[OURS, question.name].milliseconds
        name = f"{question.name}, {large.rows:,} rows over {small.rows:,}"
        yield Line(name, ratio, "times", 1.2 * large.rows / small.rows, False)
