"""What the races say: a table of times and memory for each, and the bars discreet has to clear."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence

from benchmarks.measure import Line
from benchmarks.query.questions import QUESTIONS
from benchmarks.query.race import CONTESTANTS, FLOOR, OURS, TIMED, Race, Result
from benchmarks.results import BenchmarkResult, Cell, Row, Table

UNSAFE = "diffprivlib"
SAFE = ("opendp", "python-dp", "smartnoise-sql", "tumult")


def format_table(race: Race) -> Iterator[str]:
    """A row for each question, a column for each contestant."""
    names = race.names
    yield f"\n{race.rows:,} rows: ms to an answer, median of {TIMED} (least)"
    yield f"{'':<17}" + "".join(f"{name:>19}" for name in names)
    for question in QUESTIONS:
        yield f"{question.name:<17}" + "".join(
            f"{_format_times(race.results[name, question.name]):>19}" for name in names
        )
    yield f"{'peak memory, MB':<17}" + "".join(f"{race.peaks[name]:>19,.0f}" for name in names)
    seconds, peak = race.registration["seconds"], race.registration["peak"]
    yield f"registered with discreet beforehand, in {seconds:.1f} s and at most {peak:,.0f} MB"
    yield from (
        f"{name}, {asked}: {result.failure}" for (name, asked), result in race.results.items() if result.failure
    )


def _format_times(result: Result) -> str:
    return "none" if result.failure else f"{result.milliseconds:,.1f} ({min(result.seconds) * 1e3:,.1f})"


def list_bars(race: Race) -> Iterator[Line]:
    """Near plain DuckDB, faster than peers whose noise is safe, hardly slower than the one whose noise is not."""
    for question in QUESTIONS:
        milliseconds = {name: race.results[name, question.name].milliseconds for name, _, _ in CONTESTANTS}
        limits = {f"1.3 {FLOOR} + 20 ms": 1.3 * milliseconds[FLOOR] + 20}
        limits |= {name: milliseconds[name] for name in SAFE if milliseconds[name] < math.inf}
        limits |= {f"{UNSAFE} + 20 ms": milliseconds[UNSAFE] + 20}
        for against, limit in limits.items():
            yield Line(f"{race.rows:,} rows, {question.name}", milliseconds[OURS], "ms", limit, False, against)
    limit = 1.5 * race.peaks[FLOOR] + 150
    yield Line(f"{race.rows:,} rows, peak memory", race.peaks[OURS], "MB", limit, False, f"1.5 {FLOOR} + 150 MB")


def list_growth_bars(small: Race, large: Race) -> Iterator[Line]:
    """Cost is linear in rows: with a fifth of room, and what does not grow only helps."""
    for question in QUESTIONS:
        ratio = large.results[OURS, question.name].milliseconds / small.results[OURS, question.name].milliseconds
        name = f"{question.name}, {large.rows:,} rows over {small.rows:,}"
        yield Line(name, ratio, "times", 1.2 * large.rows / small.rows, False)


def build_result(races: Sequence[Race]) -> BenchmarkResult:
    """The same as tables of plain values, warm, cold and on the processor."""
    failures = {
        f"{name}, {question}: {result.failure}" for race in races for (name, question), result in _list_failures(race)
    }
    return BenchmarkResult(tables=[table for race in races for table in build_tables(race)], notes=sorted(failures))


def build_tables(race: Race) -> Iterator[Table]:
    """Warm times, first times, processor times, and what each needs before and besides."""
    size = f"{race.rows:,} rows"
    yield _build_time_table(race, f"{size}, an answer, warm (the median)", lambda result: result.milliseconds)
    yield _build_time_table(race, f"{size}, the first answer of its kind", lambda result: result.first * 1e3)
    yield _build_time_table(race, f"{size}, an answer, time on the processors", lambda result: result.processor * 1e3)
    rows = (
        Row("start until the first question, s", tuple(race.loading[name] for name in race.names)),
        Row("most memory, MB", tuple(race.peaks[name] for name in race.names)),
    )
    yield Table(f"{size}, before and besides", tuple(race.names), rows, OURS, (FLOOR,))


def _build_time_table(race: Race, title: str, figure: Callable[[Result], float]) -> Table:
    def cell(result: Result) -> Cell:
        return "none" if result.failure else figure(result)

    questions = dict.fromkeys(question for _, question in race.results)
    rows = (Row(each, tuple(cell(race.results[name, each]) for name in race.names)) for each in questions)
    return Table(title, tuple(race.names), tuple(rows), OURS, (FLOOR,), "ms")


def _list_failures(race: Race) -> Iterator[tuple[tuple[str, str], Result]]:
    return ((key, result) for key, result in race.results.items() if result.failure)
