"""Tumult Analytics as its tutorial has it: Spark on both cores, the frame held in memory, one row protected."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from tmlt.analytics import AddOneRow, KeySet, PureDPBudget, QueryBuilder, Session
from tmlt.analytics.query_builder import Query

from benchmarks.query.contestant import Answers, file, serve
from benchmarks.query.questions import EPSILON, GREATEST_AGE, GREATEST_INCOME, LEAST_AGE, REGIONS, TABLE

INCOMES, AGES = (0, GREATEST_INCOME), (LEAST_AGE, GREATEST_AGE)


def spark(folder: Path) -> SparkSession:
    """Two cores, and as many parts after a shuffle; what it writes goes to the table's folder."""
    os.environ["PYSPARK_PYTHON"] = sys.executable  # of the processes in which it draws noise
    builder = SparkSession.builder.master("local[2]").config("spark.driver.memory", "6g")
    builder = builder.config("spark.ui.enabled", "false").config("spark.ui.showConsoleProgress", "false")
    builder = builder.config("spark.sql.shuffle.partitions", "2")
    session = builder.config("spark.sql.warehouse.dir", str(folder / "warehouse")).getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    return session


def opened(frame: DataFrame) -> Session:
    """With a budget that no number of questions uses up."""
    return Session.from_dataframe(PureDPBudget(float("inf")), TABLE, frame, protected_change=AddOneRow())


def queries() -> Mapping[str, Callable[[int], Query]]:
    keys = KeySet.from_dict({"region": list(REGIONS)})

    def over(column: str, at: int) -> QueryBuilder:
        return QueryBuilder(TABLE).filter(f"{column} > {at}")

    return {
        "count": lambda at: over("income", at).count(),
        "sum": lambda at: over("age", at).sum("income", *INCOMES),
        "mean": lambda at: over("age", at).average("income", *INCOMES),
        "median": lambda at: over("age", at).median("age", *AGES),
        "count by region": lambda at: over("income", at).groupby(keys).count(),
        "mean by region": lambda at: over("age", at).groupby(keys).average("income", *INCOMES),
    }


def answers(session: Session) -> Answers:
    def numbers(query: Query) -> list[float]:
        return [row[-1] for row in session.evaluate(query, PureDPBudget(EPSILON)).collect()]

    return {name: lambda at, made=made: numbers(made(at)) for name, made in queries().items()}


if __name__ == "__main__":
    rows = spark(Path(sys.argv[1])).read.parquet(str(file("parquet"))).select("age", "income", "region").cache()
    rows.count()
    serve(answers(opened(rows)))
