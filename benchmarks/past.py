"""docs/past-one-machine.md: a plan for 10^10 rows and a million questions a day, from what was measured on one machine.

Every figure is computed here from benchmarks/results.json and the assumptions below; the words are in
past-one-machine.txt, and state both.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from benchmarks.page import shown
from benchmarks.seen import ROOT

PAGE, TEMPLATE = ROOT / "docs" / "past-one-machine.md", ROOT / "benchmarks" / "past-one-machine.txt"
NEEDED = ("growth", "spark", "ledger", "service")
ROWS, QUESTIONS, DAY = 10**10, 10**6, 86_400
PEAK = 5
"""The busiest second over the average one."""
PART = 128 * 2**20
"""Bytes of Parquet that one task reads, as Spark cuts files."""
CORES, FILL = 16, 0.6
"""Of an executor, and how much of its time one may plan with."""
WAIT = 30
"""Seconds that one question may take."""
EPSILON, DELTA = 1.0, 1e-9
Told = Mapping[str, Any]


@dataclass(frozen=True)
class Scan:
    """One kind of question on Spark, as measured between the last two sizes."""

    name: str
    bytes_a_row: float
    seconds_a_row: float
    """Of one core."""
    shuffled_a_task: float
    shuffles: int

    @property
    def read(self) -> float:
        return self.bytes_a_row * ROWS

    @property
    def core_seconds(self) -> float:
        return self.seconds_a_row * ROWS

    @property
    def tasks(self) -> int:
        return max(1, math.ceil(self.read / PART))

    @property
    def shuffled(self) -> float:
        return self.shuffled_a_task * self.tasks


def step(sizes: Sequence[float], figures: Sequence[float]) -> float:
    """What one row more costs between the last two sizes.

    Where that is lost in noise, all that the last size cost over its rows: too much rather than too little.
    """
    if len(sizes) > 1 and figures[-1] > figures[-2]:
        return (figures[-1] - figures[-2]) / (sizes[-1] - sizes[-2])
    return figures[-1] / sizes[-1]


def scans(spark: Told) -> list[Scan]:
    """Two cores were busy, so a row costs one core twice the time."""
    sizes = spark["sizes"]
    return [
        Scan(
            name,
            step(sizes, spark["read"][name]),
            2 * step(sizes, seconds),
            spark["shuffled"][name][-1] / max(1, spark["shuffles"][name][-1]) / 2,
            spark["shuffles"][name][-1],
        )
        for name, seconds in spark["seconds"].items()
    ]


def write(results: Told) -> bool:
    """The page, where everything it needs was measured."""
    if any(name not in results for name in NEEDED):
        return False
    PAGE.write_text(text(results), encoding="utf-8")
    return True


def text(results: Told) -> str:
    """The page; the same results always give the same text."""
    told = {name: value for name, value in globals().items() if name.isupper()}
    told |= _rows(results["spark"]["facts"], results["growth"]["facts"]) | _ledger(
        results["ledger"], results["service"]
    )
    told |= {name: results["spark"]["machine"][name] for name in ("processor", "cores")}
    return TEMPLATE.read_text(encoding="utf-8").format_map(told | _budget())


def _rows(spark: Told, growth: Told) -> dict[str, object]:
    """What scanning takes, and what is made once."""
    kinds, sizes = scans(spark), spark["sizes"]
    worst = max(kinds, key=lambda each: each.core_seconds)
    on_spark, on_duckdb = step(sizes, spark["snapshot bytes"]), step(growth["sizes"], growth["snapshot bytes"])
    count = step(growth["sizes"], growth["milliseconds"]["discreet"]["count"]) / 1e3
    return {
        "sizes": ", ".join(f"{rows:,}" for rows in sizes),
        "part": f"{PART // 2**20} MB",
        "scans": "\n".join(_row(each) for each in kinds),
        "parquet_a_row": shown(on_spark),
        "parquet": size(on_spark * ROWS),
        "duckdb_a_row": shown(on_duckdb),
        "duckdb": size(on_duckdb * ROWS),
        "registration": shown(2 * step(sizes, spark["registration"]) * ROWS / 3600),
        "one_count": shown(count * ROWS),
        "worst": worst.name,
        "most": executors(worst.core_seconds),
        "start": shown(min(seconds[0] for seconds in spark["seconds"].values())),
    }


def _row(each: Scan) -> str:
    scanned = [shown(each.bytes_a_row), size(each.read), f"{each.tasks:,}", str(each.shuffles), size(each.shuffled)]
    busy = [shown(each.core_seconds), f"{math.ceil(each.core_seconds / WAIT):,}", f"{executors(each.core_seconds):,}"]
    return f"| {' | '.join([each.name, *scanned, *busy])} |"


def executors(core_seconds: float) -> int:
    """For all questions of the busiest second, each by itself."""
    return math.ceil(core_seconds * QUESTIONS / DAY * PEAK / FILL / CORES)


def figure(run: Told, words: str) -> float:
    """A figure by its words."""
    return float(next(line["figure"] for line in run["lines"] if words in line["name"]))


def _ledger(ledger: Told, service: Told) -> dict[str, object]:
    """What charging, keeping and serving take."""
    charges, entry = figure(ledger, "durable charges a second"), figure(ledger, "bytes each")
    rate, answers, entries = QUESTIONS / DAY, figure(service, "answers a second, flat out"), 2 * QUESTIONS
    return {
        "rate": shown(rate),
        "busiest": shown(rate * PEAK),
        "charges": shown(charges),
        "shards": math.ceil(rate * PEAK / charges / FILL),
        "entries": entries,
        "bytes_a_day": size(entries * entry),
        "bytes_a_year": size(365 * entries * entry),
        "verifying": shown(entries / figure(ledger, "verified") / 60),
        "answers": shown(answers),
        "services": math.ceil(rate * PEAK / answers / FILL),
    }


def _budget() -> dict[str, object]:
    """The noise of a million counts: by epsilon added up, and by rho, epsilon being rho + 2 sqrt(rho ln(1/delta))."""
    log = math.log(1 / DELTA)
    rho = (math.sqrt(log + EPSILON) - math.sqrt(log)) ** 2
    pure, squares = math.sqrt(2) * QUESTIONS / EPSILON, math.sqrt(QUESTIONS / (2 * rho))
    told = {"each": EPSILON / QUESTIONS, "pure": shown(pure), "pure_share": pure / ROWS}
    return told | {"squares": shown(squares), "squares_share": squares / ROWS}


def size(count: float) -> str:
    """Bytes in the unit that suits."""
    for unit in ("bytes", "kB", "MB", "GB"):
        if count < 1000:
            return f"{shown(count)} {unit}"
        count /= 1000
    return f"{shown(count)} TB"
