"""The same plans on Spark and on DuckDB: `python -m benchmarks.spark [--rows 1000000 10000000]`.

A table of Parquet is registered with each engine, Spark on two cores of this machine. Every question is planned once;
both engines compute its exact numbers, which must be equal to the last integer before any noise is drawn. Spark tells
how many bytes its stages read and how many they shuffled.
"""

from __future__ import annotations

import argparse
import math
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.measure import Line, report
from benchmarks.query.questions import EPSILON, QUESTIONS, TABLE
from benchmarks.query.race import run_module
from benchmarks.query.table import SCHEMA
from benchmarks.results import ROOT, BenchmarkResult, Row, Table
from discreet import Custodian
from discreet.custodian.measure import ExactInputs, read_exact_inputs
from discreet.planner.plan import Plan
from discreet.planner.planner import plan
from discreet.query import parse_sql

ROUNDS = 3
VIEW = "people_rows"


@dataclass(frozen=True)
class Cost:
    """What Spark's stages have read and shuffled so far, in bytes, and how many shuffles there were."""

    read: int
    shuffled: int
    shuffles: int

    def since(self, before: Cost) -> Cost:
        return Cost(self.read - before.read, self.shuffled - before.shuffled, self.shuffles - before.shuffles)


@dataclass(frozen=True)
class Comparison:
    """One question on both engines: first and warm seconds, whether the numbers are equal, and what Spark did."""

    name: str
    spark: tuple[float, float]
    duckdb: tuple[float, float]
    is_equal: bool
    cost: Cost


@dataclass(frozen=True)
class Run:
    """One table: every question, and what registration took, in seconds and bytes."""

    rows: int
    comparisons: list[Comparison]
    registration_seconds: dict[str, float]
    bytes: dict[str, int]


@contextmanager
def open_spark_session(folder: Path) -> Iterator[Any]:
    """Spark on two cores, as many parts after a shuffle, and quiet."""
    from pyspark.sql import SparkSession

    settings = {
        "spark.driver.memory": "6g",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.hadoop.parquet.hadoop.vectored.io.enabled": "false",  # whose bytes no stage counts
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
    }
    spark_session = SparkSession.builder.master("local[2]").config(map=settings).getOrCreate()
    spark_session.sparkContext.setLogLevel("OFF")
    try:
        yield spark_session
    finally:
        spark_session.stop()


def read_cost(spark_session: Any) -> Cost:
    """From the status store, which Spark fills with or without its web page."""
    store = spark_session.sparkContext._jsc.sc().statusStore()
    none = spark_session.sparkContext._gateway.jvm.java.util.ArrayList()
    quantiles = spark_session.sparkContext._gateway.new_array(spark_session.sparkContext._jvm.double, 0)
    stages = store.stageList(none, False, False, quantiles, none)
    every = [stages.apply(place) for place in range(stages.size())]
    shuffled_bytes = [stage.shuffleWriteBytes() for stage in every]
    return Cost(
        sum(stage.inputBytes() for stage in every), sum(shuffled_bytes), sum(each > 0 for each in shuffled_bytes)
    )


def read_settled_cost(spark_session: Any) -> Cost:
    """The same once two looks agree: the store hears of a stage a moment after it ended."""
    before = read_cost(spark_session)
    for _ in range(20):
        time.sleep(0.1)
        now = read_cost(spark_session)
        if now == before:
            break
        before = now
    return before


def compare_engines(rows: int, folder: Path, spark_session: Any) -> Run:
    """Make the table, register it with both, ask both."""
    run_module("table", folder, rows)
    spark_session.read.parquet(f"file:{folder / TABLE}.parquet").createOrReplaceTempView(VIEW)
    schemas = {"DuckDB": folder / f"{TABLE}.yaml", "Spark": folder / "spark" / f"{TABLE}.yaml"}
    schemas["Spark"].parent.mkdir()
    schemas["Spark"].write_text(SCHEMA.replace(f"source: {TABLE}.parquet", f"source: spark:{VIEW}"))
    seconds = {name: _time_call(lambda s=schema: Custodian.open(s).close())[1] for name, schema in schemas.items()}
    disk_bytes = {name: _measure_folder(schema.with_suffix(".discreet")) for name, schema in schemas.items()}
    with Custodian.open(schemas["DuckDB"]) as duckdb, Custodian.open(schemas["Spark"]) as spark:
        comparisons = [
            _compare_question(question.name, question.sql(question.first), duckdb, spark, spark_session)
            for question in QUESTIONS
        ]
    return Run(rows, comparisons, seconds, disk_bytes | {"Parquet": (folder / f"{TABLE}.parquet").stat().st_size})


def _compare_question(name: str, sql: str, duckdb: Custodian, spark: Custodian, spark_session: Any) -> Comparison:
    query_plan = plan(duckdb.schema, parse_sql(sql, duckdb.schema), EPSILON)
    before = read_settled_cost(spark_session)
    by_spark, first = _time_call(lambda: _read_exact(query_plan, spark))
    cost = read_settled_cost(spark_session).since(before)
    by_duckdb, other = _time_call(lambda: _read_exact(query_plan, duckdb))
    warm = [
        statistics.median(_time_call(lambda c=c: _read_exact(query_plan, c))[1] for _ in range(ROUNDS))
        for c in (spark, duckdb)
    ]
    return Comparison(name, (first, warm[0]), (other, warm[1]), is_same(by_spark, by_duckdb), cost)


def _read_exact(query_plan: Plan, custodian: Custodian) -> ExactInputs:
    return read_exact_inputs(query_plan, custodian._source, query_plan.list_cells(), query_plan.query.where)


def _time_call(work: Callable[[], Any]) -> tuple[Any, float]:
    start = time.perf_counter()
    result = work()
    return result, time.perf_counter() - start


def _measure_folder(folder: Path) -> int:
    return sum(each.stat().st_size for each in folder.rglob("*") if each.is_file())


def is_same(one: ExactInputs, other: ExactInputs) -> bool:
    """Whether all exact numbers are equal, cell for cell."""
    pairs = zip(one.inputs, other.inputs, strict=True)
    return list(one.cells) == list(other.cells) and all(
        np.array_equal(np.asarray(a), np.asarray(b))
        for ours, theirs in pairs
        for a, b in zip(ours, theirs, strict=True)
    )


def build_tables(runs: list[Run]) -> Iterator[Table]:
    """Times side by side; then what Spark read and shuffled."""
    for each in runs:
        size = f"{each.rows:,} rows"
        heads = ("DuckDB, warm", "Spark, warm", "DuckDB, first", "Spark, first", "Spark over DuckDB, warm")
        rows = (
            Row(b.name, (*(1e3 * s for s in _list_times(b)), b.spark[1] / b.duckdb[1]), "") for b in each.comparisons
        )
        yield Table(f"{size}, the exact numbers of a plan (ms)", heads, tuple(rows))
        heads = ("bytes read", "bytes shuffled", "shuffles", "bytes read a row")
        read = (
            Row(b.name, (b.cost.read, b.cost.shuffled, b.cost.shuffles, b.cost.read / each.rows), "")
            for b in each.comparisons
        )
        yield Table(f"{size}, what Spark's stages did", heads, tuple(read))
        registration = Row(
            "registration, s", (each.registration_seconds["DuckDB"], each.registration_seconds["Spark"], None), ""
        )
        disk = Row("on disk, MB", tuple(each.bytes[name] / 1e6 for name in ("DuckDB", "Spark", "Parquet")), "")
        yield Table(f"{size}, registration", ("DuckDB", "Spark", "the Parquet file"), (registration, disk))


def _list_times(both: Comparison) -> tuple[float, ...]:
    return both.duckdb[1], both.spark[1], both.duckdb[0], both.spark[0]


def collect_facts(runs: list[Run]) -> dict[str, Any]:
    """For the plans past one machine: seconds and bytes by size and question."""
    return {
        "sizes": [each.rows for each in runs],
        "seconds": {b.name: [run.comparisons[i].spark[1] for run in runs] for i, b in enumerate(runs[0].comparisons)},
        "read": {b.name: [run.comparisons[i].cost.read for run in runs] for i, b in enumerate(runs[0].comparisons)},
        "shuffled": {
            b.name: [run.comparisons[i].cost.shuffled for run in runs] for i, b in enumerate(runs[0].comparisons)
        },
        "shuffles": {
            b.name: [run.comparisons[i].cost.shuffles for run in runs] for i, b in enumerate(runs[0].comparisons)
        },
        "registration": [each.registration_seconds["Spark"] for each in runs],
        "snapshot bytes": [each.bytes["Spark"] for each in runs],
    }


def list_bars(runs: list[Run]) -> list[Line]:
    """Equal everywhere, and what is shuffled does not grow with the rows."""
    lines = [
        Line(
            f"{each.rows:,} rows, plans with equal numbers",
            sum(b.is_equal for b in each.comparisons),
            "",
            len(each.comparisons),
            True,
        )
        for each in runs
    ]
    least = [max(each.comparisons[i].cost.shuffled for i in range(len(QUESTIONS))) for each in runs]
    growth = least[-1] / least[0] if len(least) > 1 and least[0] else math.nan
    if not math.isnan(growth):
        lines.append(Line("bytes shuffled, the longest table over the shortest", growth, "times", 20, False))
    return lines


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.spark", description=__doc__)
    parser.add_argument("--rows", type=int, nargs="+", default=[1_000_000, 10_000_000])
    sizes = sorted(parser.parse_args().rows)
    (ROOT / "build").mkdir(exist_ok=True)
    with (
        tempfile.TemporaryDirectory(dir=ROOT / "build", prefix="spark-") as name,
        open_spark_session(Path(name)) as spark_session,
    ):
        runs = [compare_engines(rows, Path(name) / str(rows), spark_session) for rows in sizes]
    return report(lambda: list_bars(runs), result=BenchmarkResult(list(build_tables(runs)), facts=collect_facts(runs)))


if __name__ == "__main__":
    sys.exit(main())
