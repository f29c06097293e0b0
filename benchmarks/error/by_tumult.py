"""Tumult Analytics: one row is added or removed. It answers for many copies of the table at once, one group for each.

A group's noise is that of the question alone, and seconds for one answer would give too few runs; one epsilon is all
there is time for. Quartiles are two quantiles with half of epsilon each.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pandas as pd
from pyspark.sql import DataFrame, SparkSession
from tmlt.analytics import KeySet, PureDPBudget, QueryBuilder, Session
from tmlt.analytics.query_builder import GroupedQueryBuilder

from benchmarks.error.contestant import COPIES, Runs, serve_copies
from benchmarks.error.jobs import (
    EPSILONS,
    GREATEST_AGE,
    GREATEST_INCOME,
    LEAST_AGE,
    OLD,
    QUARTILES,
    REGIONS,
    RICH,
    TABLE,
)
from benchmarks.error.table import People
from benchmarks.query.by_tumult import open_session, open_spark_session

INCOMES, AGES = (0, GREATEST_INCOME), (LEAST_AGE, GREATEST_AGE)
RICH_ROWS, OLD_ROWS = f"income > {RICH}", f"age > {OLD}"


def build_frame(people: People, session: SparkSession) -> DataFrame:
    regions = [REGIONS[i] for i in people.region]
    copy_frame = pd.DataFrame({"age": people.age, "income": people.income, "region": regions})
    return session.createDataFrame(copy_frame).crossJoin(session.range(COPIES).withColumnRenamed("id", "copy")).cache()


class CopiesSession:
    """The session, and what is asked of it: the copies' numbers, in the order of the regions."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._copies = KeySet.from_dict({"copy": list(range(COPIES))})
        self._regions = self._copies * KeySet.from_dict({"region": list(REGIONS)})

    def group_by_copy(self, where: str) -> GroupedQueryBuilder:
        return QueryBuilder(TABLE).filter(where).groupby(self._copies)

    def group_by_region(self, where: str) -> GroupedQueryBuilder:
        return QueryBuilder(TABLE).filter(where).groupby(self._regions)

    def answer_copies(self, query: object, epsilon: float) -> list[list[float]]:
        answers: list[list[float]] = [[] for _ in range(COPIES)]
        for row in sorted(self._session.evaluate(query, PureDPBudget(epsilon)).collect()):
            answers[row["copy"]].append(float(row[-1]))
        return answers

    def answer_quartiles(self, epsilon: float) -> list[list[float]]:
        each = [self.group_by_copy(OLD_ROWS).quantile("income", order, *INCOMES) for order in QUARTILES]
        low, high = (self.answer_copies(query, epsilon / len(QUARTILES)) for query in each)
        return [one + two for one, two in zip(low, high, strict=True)]


def build_jobs(copies: CopiesSession) -> dict[str, Runs]:
    rich, old = copies.group_by_copy(RICH_ROWS), copies.group_by_copy(OLD_ROWS)
    queries = {
        "count": rich.count(),
        "sum": old.sum("income", *INCOMES),
        "mean": old.average("income", *INCOMES),
        "count by region": copies.group_by_region(RICH_ROWS).count(),
        "mean by region": copies.group_by_region(OLD_ROWS).average("income", *INCOMES),
        "median of age": rich.median("age", *AGES),
        "median of income": old.median("income", *INCOMES),
        "variance": old.variance("income", *INCOMES),
        "least age": rich.min("age", *AGES),
        "greatest age": rich.max("age", *AGES),
        "least income": old.min("income", *INCOMES),
        "greatest income": old.max("income", *INCOMES),
    }
    answer_functions: dict[str, Runs] = {
        name: lambda e, q=query: copies.answer_copies(q, e) for name, query in queries.items()
    }
    return answer_functions | {"quartiles of income": copies.answer_quartiles}


if __name__ == "__main__":
    session = open_spark_session(Path(sys.argv[1]).parent)
    serve_copies(build_jobs(CopiesSession(open_session(build_frame(People.read(sys.argv[1]), session)))), EPSILONS[:1])
