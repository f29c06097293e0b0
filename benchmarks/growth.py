"""How time and memory grow with the rows: `python -m benchmarks.growth [--sizes 10000 ...] [--large]`.

The questions and contestants of benchmarks.query, one table after another, each ten times as long as the last. Whoever
takes too long over one table is not asked about the next. With --large, DuckDB and discreet go on to 100 million rows.
"""

from __future__ import annotations

import argparse
import math
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.measure import Line, report
from benchmarks.query.questions import BY_NAME
from benchmarks.query.race import ANSWERING, CONTESTANTS, FLOOR, LOADING, OURS, Race, run_race
from benchmarks.query.report import build_result
from benchmarks.results import ROOT, BenchmarkResult, Row, Table

SIZES = (10_000, 100_000, 1_000_000, 10_000_000)
LARGE = 100_000_000
GROWTH_QUESTIONS = tuple(BY_NAME[name] for name in ("count", "mean", "median", "count by region"))
LINEAR = 1.15
"""The exponent that counts as linear: a tenth of the time more for each ten times the rows."""


def run_races(sizes: Sequence[int], folder: Path) -> Iterator[Race]:
    """One race after another; a table is gone before the next is made."""
    left_out: dict[str, str] = {}
    races: list[Race] = []
    for rows in sizes:
        with tempfile.TemporaryDirectory(dir=folder) as home:
            races.append(run_race(rows, Path(home) / "table", GROWTH_QUESTIONS, left_out))
        yield races[-1]
        left_out |= {name: why for name in races[-1].names if (why := explain_too_slow(races, name))}
        if rows * 10 >= LARGE:
            left_out |= {name: "not asked" for name, _, _ in CONTESTANTS if name not in (FLOOR, OURS)}


def explain_too_slow(races: Sequence[Race], name: str) -> str:
    """Why a contestant is not asked about a table ten times as long; nothing where it is."""
    last, before = races[-1], races[max(0, len(races) - 2)]
    if extrapolate(last.loading[name], before.loading[name]) > LOADING:
        return f"not asked: {last.rows:,} rows took {last.loading[name]:.0f} s to load"
    slowest, earlier = (max(_list_times(each, name), default=math.inf) / 1e3 for each in (last, before))
    if slowest == math.inf or extrapolate(slowest, earlier) > ANSWERING:
        return f"not asked: {last.rows:,} rows took {slowest:.0f} s to answer"
    return ""


def extrapolate(now: float, before: float) -> float:
    """What ten times the rows may take: as much again as there is, and ten times what the last step added."""
    return now + 10 * max(0.0, now - before)


def _list_times(race: Race, name: str) -> list[float]:
    results = [race.results[name, question.name] for question in GROWTH_QUESTIONS]
    return [each.milliseconds for each in results if not each.failure]


def collect_curves(races: Sequence[Race]) -> dict[str, Any]:
    """Figures by contestant, and then by question, one for each size; None where there is none."""
    names = races[0].names
    return {
        "sizes": [race.rows for race in races],
        "milliseconds": {
            name: {
                each.name: [_keep_finite(race.results[name, each.name].milliseconds) for race in races]
                for each in GROWTH_QUESTIONS
            }
            for name in names
        },
        "megabytes": {name: [race.peaks.get(name) for race in races] for name in names},
        "registration": {
            OURS: [race.registration["seconds"] for race in races],
            FLOOR: [race.registration["floor"] for race in races],
        },
        "registration megabytes": [race.registration["peak"] for race in races],
        "snapshot bytes": [race.registration["bytes"] for race in races],
        "parquet bytes": [race.registration["read"] for race in races],
    }


def _keep_finite(number: float) -> float | None:
    return number if math.isfinite(number) else None


def fit_exponent(sizes: Sequence[int], times: Sequence[float | None]) -> float | None:
    """Of the power of the rows that fits best, all sizes alike; None of fewer than two."""
    pairs = [(math.log(rows), math.log(took)) for rows, took in zip(sizes, times, strict=True) if took]
    if len(pairs) < 2:
        return None
    x = sum(each for each, _ in pairs) / len(pairs)
    y = sum(each for _, each in pairs) / len(pairs)
    return sum((a - x) * (b - y) for a, b in pairs) / sum((a - x) ** 2 for a, _ in pairs)


def fit_last_step(sizes: Sequence[int], times: Sequence[float | None]) -> float | None:
    """The exponent from the last size but one to the last, where what does not grow weighs least."""
    return fit_exponent(sizes[-2:], times[-2:])


def build_tables(facts: Mapping[str, Any]) -> Iterator[Table]:
    """A table for each question, a row for each size; then memory, exponents, and what registration takes."""
    sizes, times = facts["sizes"], facts["milliseconds"]
    names = tuple(times)
    for each in GROWTH_QUESTIONS:
        rows = (Row(f"{n:,} rows", tuple(times[name][each.name][i] for name in names)) for i, n in enumerate(sizes))
        yield Table(f"{each.name}, an answer, warm", names, tuple(rows), OURS, (FLOOR,), "ms")
    memory_rows = (
        Row(f"{n:,} rows", tuple(facts["megabytes"][name][i] for name in names)) for i, n in enumerate(sizes)
    )
    yield Table("most memory", names, tuple(memory_rows), OURS, (FLOOR,), "MB")
    for title, fit in (("all sizes", fit_exponent), ("the last two sizes", fit_last_step)):
        exponent_rows = (
            Row(each.name, tuple(fit(sizes, times[name][each.name]) for name in names), "") for each in GROWTH_QUESTIONS
        )
        yield Table(f"exponent of the rows, {title} (1 is linear)", names, tuple(exponent_rows))
    yield build_registration_table(facts)


def build_registration_table(facts: Mapping[str, Any]) -> Table:
    """What has to be done once, beside DuckDB reading the same file into a table of its own."""
    rows = (
        Row("discreet, s", tuple(facts["registration"][OURS]), ""),
        Row("DuckDB's own table, s", tuple(facts["registration"][FLOOR]), ""),
        Row("discreet, most memory, MB", tuple(facts["registration megabytes"]), ""),
        Row("the Parquet file, MB", tuple(each / 1e6 for each in facts["parquet bytes"]), ""),
        Row("the snapshot, MB", tuple(each / 1e6 for each in facts["snapshot bytes"]), ""),
    )
    return Table("registration", tuple(f"{rows:,} rows" for rows in facts["sizes"]), rows)


def list_bars(facts: Mapping[str, Any]) -> list[Line]:
    """Nothing of discreet's grows faster than the rows."""
    sizes, ours = facts["sizes"], facts["milliseconds"][OURS] | {"registration": facts["registration"][OURS]}
    exponents = {name: fit_last_step(sizes, times) for name, times in ours.items()}
    return [Line(f"{name}: exponent of the rows", each, "", LINEAR, False) for name, each in exponents.items() if each]


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.growth", description=__doc__)
    parser.add_argument("--sizes", type=int, nargs="+", default=list(SIZES))
    parser.add_argument("--large", action="store_true", help="DuckDB and discreet on 100 million rows too")
    options = parser.parse_args()
    (ROOT / "build").mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=ROOT / "build", prefix="growth-") as folder:
        races = list(run_races([*sorted(options.sizes), *([LARGE] if options.large else [])], Path(folder)))
    facts = collect_curves(races)
    return report(
        lambda: list_bars(facts),
        result=BenchmarkResult(list(build_tables(facts)), (), build_result(races).notes, facts),
    )


if __name__ == "__main__":
    sys.exit(main())
