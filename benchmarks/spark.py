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
from benchmarks.query.race import run
from benchmarks.query.table import SCHEMA
from benchmarks.seen import ROOT, Row, Seen, Table
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
class Both:
    """One question on both engines: first and warm seconds, whether the numbers are equal, and what Spark did."""

    name: str
    spark: tuple[float, float]
    duckdb: tuple[float, float]
    equal: bool
    cost: Cost


@dataclass(frozen=True)
class Run:
    """One table: every question, and what registration took, in seconds and bytes."""

    rows: int
    asked: list[Both]
    registered: dict[str, float]
    bytes: dict[str, int]


@contextmanager
def session(folder: Path) -> Iterator[Any]:
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
    opened = SparkSession.builder.master("local[2]").config(map=settings).getOrCreate()
    opened.sparkContext.setLogLevel("OFF")
    try:
        yield opened
    finally:
        opened.stop()


def spent(opened: Any) -> Cost:
    """From the status store, which Spark fills with or without its web page."""
    store = opened.sparkContext._jsc.sc().statusStore()
    none = opened.sparkContext._gateway.jvm.java.util.ArrayList()
    quantiles = opened.sparkContext._gateway.new_array(opened.sparkContext._jvm.double, 0)
    stages = store.stageList(none, False, False, quantiles, none)
    every = [stages.apply(place) for place in range(stages.size())]
    written = [stage.shuffleWriteBytes() for stage in every]
    return Cost(sum(stage.inputBytes() for stage in every), sum(written), sum(each > 0 for each in written))


def settled(opened: Any) -> Cost:
    """The same once two looks agree: the store hears of a stage a moment after it ended."""
    before = spent(opened)
    for _ in range(20):
        time.sleep(0.1)
        now = spent(opened)
        if now == before:
            break
        before = now
    return before


def compared(rows: int, folder: Path, opened: Any) -> Run:
    """Make the table, register it with both, ask both."""
    run("table", folder, rows)
    opened.read.parquet(f"file:{folder / TABLE}.parquet").createOrReplaceTempView(VIEW)
    schemas = {"DuckDB": folder / f"{TABLE}.yaml", "Spark": folder / "spark" / f"{TABLE}.yaml"}
    schemas["Spark"].parent.mkdir()
    schemas["Spark"].write_text(SCHEMA.replace(f"source: {TABLE}.parquet", f"source: spark:{VIEW}"))
    took = {name: _timed(lambda s=schema: Custodian.open(s).close())[1] for name, schema in schemas.items()}
    held = {name: _size(schema.with_suffix(".discreet")) for name, schema in schemas.items()}
    with Custodian.open(schemas["DuckDB"]) as duckdb, Custodian.open(schemas["Spark"]) as spark:
        asked = [_asked(question.name, question.sql(question.first), duckdb, spark, opened) for question in QUESTIONS]
    return Run(rows, asked, took, held | {"Parquet": (folder / f"{TABLE}.parquet").stat().st_size})


def _asked(name: str, sql: str, duckdb: Custodian, spark: Custodian, opened: Any) -> Both:
    planned = plan(duckdb.schema, parse_sql(sql, duckdb.schema), EPSILON)
    before = settled(opened)
    by_spark, first = _timed(lambda: _exact(planned, spark))
    cost = settled(opened).since(before)
    by_duckdb, other = _timed(lambda: _exact(planned, duckdb))
    warm = [
        statistics.median(_timed(lambda c=c: _exact(planned, c))[1] for _ in range(ROUNDS)) for c in (spark, duckdb)
    ]
    return Both(name, (first, warm[0]), (other, warm[1]), same(by_spark, by_duckdb), cost)


def _exact(planned: Plan, custodian: Custodian) -> ExactInputs:
    return read_exact_inputs(planned, custodian._source, planned.list_cells(), planned.query.where)


def _timed(work: Callable[[], Any]) -> tuple[Any, float]:
    start = time.perf_counter()
    done = work()
    return done, time.perf_counter() - start


def _size(folder: Path) -> int:
    return sum(each.stat().st_size for each in folder.rglob("*") if each.is_file())


def same(one: ExactInputs, other: ExactInputs) -> bool:
    """Whether all exact numbers are equal, cell for cell."""
    pairs = zip(one.inputs, other.inputs, strict=True)
    return list(one.cells) == list(other.cells) and all(
        np.array_equal(np.asarray(a), np.asarray(b))
        for ours, theirs in pairs
        for a, b in zip(ours, theirs, strict=True)
    )


def tables(runs: list[Run]) -> Iterator[Table]:
    """Times side by side; then what Spark read and shuffled."""
    for each in runs:
        size = f"{each.rows:,} rows"
        heads = ("DuckDB, warm", "Spark, warm", "DuckDB, first", "Spark, first", "Spark over DuckDB, warm")
        rows = (Row(b.name, (*(1e3 * s for s in _four(b)), b.spark[1] / b.duckdb[1]), "") for b in each.asked)
        yield Table(f"{size}, the exact numbers of a plan (ms)", heads, tuple(rows))
        heads = ("bytes read", "bytes shuffled", "shuffles", "bytes read a row")
        read = (
            Row(b.name, (b.cost.read, b.cost.shuffled, b.cost.shuffles, b.cost.read / each.rows), "")
            for b in each.asked
        )
        yield Table(f"{size}, what Spark's stages did", heads, tuple(read))
        took = Row("registration, s", (each.registered["DuckDB"], each.registered["Spark"], None), "")
        held = Row("on disk, MB", tuple(each.bytes[name] / 1e6 for name in ("DuckDB", "Spark", "Parquet")), "")
        yield Table(f"{size}, registration", ("DuckDB", "Spark", "the Parquet file"), (took, held))


def _four(both: Both) -> tuple[float, ...]:
    return both.duckdb[1], both.spark[1], both.duckdb[0], both.spark[0]


def facts(runs: list[Run]) -> dict[str, Any]:
    """For the plans past one machine: seconds and bytes by size and question."""
    return {
        "sizes": [each.rows for each in runs],
        "seconds": {b.name: [run.asked[i].spark[1] for run in runs] for i, b in enumerate(runs[0].asked)},
        "read": {b.name: [run.asked[i].cost.read for run in runs] for i, b in enumerate(runs[0].asked)},
        "shuffled": {b.name: [run.asked[i].cost.shuffled for run in runs] for i, b in enumerate(runs[0].asked)},
        "shuffles": {b.name: [run.asked[i].cost.shuffles for run in runs] for i, b in enumerate(runs[0].asked)},
        "registration": [each.registered["Spark"] for each in runs],
        "snapshot bytes": [each.bytes["Spark"] for each in runs],
    }


def bars(runs: list[Run]) -> list[Line]:
    """Equal everywhere, and what is shuffled does not grow with the rows."""
    lines = [
        Line(
            f"{each.rows:,} rows, plans with equal numbers", sum(b.equal for b in each.asked), "", len(each.asked), True
        )
        for each in runs
    ]
    least = [max(each.asked[i].cost.shuffled for i in range(len(QUESTIONS))) for each in runs]
    growth = least[-1] / least[0] if len(least) > 1 and least[0] else math.nan
    if not math.isnan(growth):
        lines.append(Line("bytes shuffled, the longest table over the shortest", growth, "times", 20, False))
    return lines


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.spark", description=__doc__)
    parser.add_argument("--rows", type=int, nargs="+", default=[1_000_000, 10_000_000])
    sizes = sorted(parser.parse_args().rows)
    (ROOT / "build").mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=ROOT / "build", prefix="spark-") as name, session(Path(name)) as opened:
        runs = [compared(rows, Path(name) / str(rows), opened) for rows in sizes]
    return report(lambda: bars(runs), seen=Seen(list(tables(runs)), facts=facts(runs)))


if __name__ == "__main__":
    sys.exit(main())
