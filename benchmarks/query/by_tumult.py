"""Tumult Analytics as its tutorial has it: Spark on both cores, the frame held in memory, one row protected."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from tmlt.analytics import AddOneRow, KeySet, PureDPBudget, QueryBuilder, Session
from tmlt.analytics.query_builder import Query

from benchmarks.query.contestant import Answers, locate_file, serve
from benchmarks.query.questions import EPSILON, GREATEST_AGE, GREATEST_INCOME, LEAST_AGE, REGIONS, TABLE

INCOMES, AGES = (0, GREATEST_INCOME), (LEAST_AGE, GREATEST_AGE)


def open_spark_session(folder: Path) -> SparkSession:
    """Two cores, and as many parts after a shuffle; what it writes goes to the table's folder."""
    os.environ["PYSPARK_PYTHON"] = sys.executable  # of the processes in which it draws noise
    builder = SparkSession.builder.master("local[2]").config("spark.driver.memory", "6g")
    builder = builder.config("spark.ui.enabled", "false").config("spark.ui.showConsoleProgress", "false")
    builder = builder.config("spark.sql.shuffle.partitions", "2")
    session = builder.config("spark.sql.warehouse.dir", str(folder / "warehouse")).getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    return session


def open_session(frame: DataFrame) -> Session:
    """With a budget that no number of questions uses up."""
    return Session.from_dataframe(PureDPBudget(float("inf")), TABLE, frame, protected_change=AddOneRow())


def build_queries() -> Mapping[str, Callable[[int], Query]]:
    keys = KeySet.from_dict({"region": list(REGIONS)})

    def filter_over(column: str, constant: int) -> QueryBuilder:
        return QueryBuilder(TABLE).filter(f"{column} > {constant}")

    return {
        "count": lambda constant: filter_over("income", constant).count(),
        "sum": lambda constant: filter_over("age", constant).sum("income", *INCOMES),
        "mean": lambda constant: filter_over("age", constant).average("income", *INCOMES),
        "median": lambda constant: filter_over("age", constant).median("age", *AGES),
        "count by region": lambda constant: filter_over("income", constant).groupby(keys).count(),
        "mean by region": lambda constant: filter_over("age", constant).groupby(keys).average("income", *INCOMES),
    }


def build_answers(session: Session) -> Answers:
    def numbers(query: Query) -> list[float]:
        return [row[-1] for row in session.evaluate(query, PureDPBudget(EPSILON)).collect()]

    return {
        name: lambda at, build_query=build_query: numbers(build_query(at))
        for name, build_query in build_queries().items()
    }


if __name__ == "__main__":
    rows = (
        open_spark_session(Path(sys.argv[1]))
        .read.parquet(str(locate_file("parquet")))
        .select("age", "income", "region")
        .cache()
    )
    rows.count()
    serve(build_answers(open_session(rows)))
