"""docs/past-one-machine.md: a plan for 10^10 rows and a million questions a day, from what was measured on one machine.

Every figure is computed here from benchmarks/results.json and the assumptions below; the words are in
past-one-machine.txt, and state both.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from benchmarks.page import format_cell
from benchmarks.results import ROOT

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
Facts = Mapping[str, Any]


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


def compute_marginal_cost(sizes: Sequence[float], figures: Sequence[float]) -> float:
    """What one row more costs between the last two sizes.

    Where that is lost in noise, all that the last size cost over its rows: too much rather than too little.
    """
    if len(sizes) > 1 and figures[-1] > figures[-2]:
        return (figures[-1] - figures[-2]) / (sizes[-1] - sizes[-2])
    return figures[-1] / sizes[-1]


def list_scans(spark: Facts) -> list[Scan]:
    """Two cores were busy, so a row costs one core twice the time."""
    sizes = spark["sizes"]
    return [
        Scan(
            name,
            compute_marginal_cost(sizes, spark["read"][name]),
            2 * compute_marginal_cost(sizes, seconds),
            spark["shuffled"][name][-1] / max(1, spark["shuffles"][name][-1]) / 2,
            spark["shuffles"][name][-1],
        )
        for name, seconds in spark["seconds"].items()
    ]


def write_page(results: Facts) -> bool:
    """The page, where everything it needs was measured."""
    if any(name not in results for name in NEEDED):
        return False
    PAGE.write_text(format_page(results), encoding="utf-8")
    return True


def format_page(results: Facts) -> str:
    """The page; the same results always give the same text."""
    values = {name: value for name, value in globals().items() if name.isupper()}
    values |= _describe_scans(results["spark"]["facts"], results["growth"]["facts"]) | _describe_ledger(
        results["ledger"], results["service"]
    )
    values |= {name: results["spark"]["machine"][name] for name in ("processor", "cores")}
    return TEMPLATE.read_text(encoding="utf-8").format_map(values | _describe_budget())


def _describe_scans(spark: Facts, growth: Facts) -> dict[str, object]:
    """What scanning takes, and what is made once."""
    kinds, sizes = list_scans(spark), spark["sizes"]
    worst = max(kinds, key=lambda each: each.core_seconds)
    on_spark, on_duckdb = (
        compute_marginal_cost(sizes, spark["snapshot bytes"]),
        compute_marginal_cost(growth["sizes"], growth["snapshot bytes"]),
    )
    count = compute_marginal_cost(growth["sizes"], growth["milliseconds"]["discreet"]["count"]) / 1e3
    return {
        "sizes": ", ".join(f"{rows:,}" for rows in sizes),
        "part": f"{PART // 2**20} MB",
        "scans": "\n".join(_format_scan(each) for each in kinds),
        "parquet_a_row": format_cell(on_spark),
        "parquet": format_bytes(on_spark * ROWS),
        "duckdb_a_row": format_cell(on_duckdb),
        "duckdb": format_bytes(on_duckdb * ROWS),
        "registration": format_cell(2 * compute_marginal_cost(sizes, spark["registration"]) * ROWS / 3600),
        "one_count": format_cell(count * ROWS),
        "worst": worst.name,
        "most": count_executors(worst.core_seconds),
        "start": format_cell(min(seconds[0] for seconds in spark["seconds"].values())),
    }


def _format_scan(scan: Scan) -> str:
    scanned = [
        format_cell(scan.bytes_a_row),
        format_bytes(scan.read),
        f"{scan.tasks:,}",
        str(scan.shuffles),
        format_bytes(scan.shuffled),
    ]
    busy = [
        format_cell(scan.core_seconds),
        f"{math.ceil(scan.core_seconds / WAIT):,}",
        f"{count_executors(scan.core_seconds):,}",
    ]
    return f"| {' | '.join([scan.name, *scanned, *busy])} |"


def count_executors(core_seconds: float) -> int:
    """For all questions of the busiest second, each by itself."""
    return math.ceil(core_seconds * QUESTIONS / DAY * PEAK / FILL / CORES)


def find_figure(run: Facts, words: str) -> float:
    """A figure by its words."""
    return float(next(line["figure"] for line in run["lines"] if words in line["name"]))


def _describe_ledger(ledger: Facts, service: Facts) -> dict[str, object]:
    """What charging, keeping and serving take."""
    charges, entry = find_figure(ledger, "durable charges a second"), find_figure(ledger, "bytes each")
    rate, answers, entries = QUESTIONS / DAY, find_figure(service, "answers a second, flat out"), 2 * QUESTIONS
    return {
        "rate": format_cell(rate),
        "busiest": format_cell(rate * PEAK),
        "charges": format_cell(charges),
        "shards": math.ceil(rate * PEAK / charges / FILL),
        "entries": entries,
        "bytes_a_day": format_bytes(entries * entry),
        "bytes_a_year": format_bytes(365 * entries * entry),
        "verifying": format_cell(entries / find_figure(ledger, "verified") / 60),
        "answers": format_cell(answers),
        "services": math.ceil(rate * PEAK / answers / FILL),
    }


def _describe_budget() -> dict[str, object]:
    """The noise of a million counts: by epsilon added up, and by rho, epsilon being rho + 2 sqrt(rho ln(1/delta))."""
    log = math.log(1 / DELTA)
    rho = (math.sqrt(log + EPSILON) - math.sqrt(log)) ** 2
    pure, squares = math.sqrt(2) * QUESTIONS / EPSILON, math.sqrt(QUESTIONS / (2 * rho))
    values = {"each": EPSILON / QUESTIONS, "pure": format_cell(pure), "pure_share": pure / ROWS}
    return values | {"squares": format_cell(squares), "squares_share": squares / ROWS}


def format_bytes(count: float) -> str:
    """Bytes in the unit that suits."""
    for unit in ("bytes", "kB", "MB", "GB"):
        if count < 1000:
            return f"{format_cell(count)} {unit}"
        count /= 1000
    return f"{format_cell(count)} TB"
