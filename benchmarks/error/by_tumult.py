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
from benchmarks.query.by_tumult import opened, spark

INCOMES, AGES = (0, GREATEST_INCOME), (LEAST_AGE, GREATEST_AGE)
RICH_ROWS, OLD_ROWS = f"income > {RICH}", f"age > {OLD}"


def frame(people: People, session: SparkSession) -> DataFrame:
    regions = [REGIONS[at] for at in people.region]
    one = pd.DataFrame({"age": people.age, "income": people.income, "region": regions})
    return session.createDataFrame(one).crossJoin(session.range(COPIES).withColumnRenamed("id", "copy")).cache()


class Copies:
    """The session, and what is asked of it: the copies' numbers, in the order of the regions."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._copies = KeySet.from_dict({"copy": list(range(COPIES))})
        self._regions = self._copies * KeySet.from_dict({"region": list(REGIONS)})

    def of(self, where: str) -> GroupedQueryBuilder:
        return QueryBuilder(TABLE).filter(where).groupby(self._copies)

    def by_region(self, where: str) -> GroupedQueryBuilder:
        return QueryBuilder(TABLE).filter(where).groupby(self._regions)

    def runs(self, query: object, epsilon: float) -> list[list[float]]:
        found: list[list[float]] = [[] for _ in range(COPIES)]
        for row in sorted(self._session.evaluate(query, PureDPBudget(epsilon)).collect()):
            found[row["copy"]].append(float(row[-1]))
        return found

    def quartiles(self, epsilon: float) -> list[list[float]]:
        each = [self.of(OLD_ROWS).quantile("income", order, *INCOMES) for order in QUARTILES]
        low, high = (self.runs(query, epsilon / len(QUARTILES)) for query in each)
        return [one + two for one, two in zip(low, high, strict=True)]


def jobs(copies: Copies) -> dict[str, Runs]:
    rich, old = copies.of(RICH_ROWS), copies.of(OLD_ROWS)
    queries = {
        "count": rich.count(),
        "sum": old.sum("income", *INCOMES),
        "mean": old.average("income", *INCOMES),
        "count by region": copies.by_region(RICH_ROWS).count(),
        "mean by region": copies.by_region(OLD_ROWS).average("income", *INCOMES),
        "median of age": rich.median("age", *AGES),
        "median of income": old.median("income", *INCOMES),
        "variance": old.variance("income", *INCOMES),
        "least age": rich.min("age", *AGES),
        "greatest age": rich.max("age", *AGES),
        "least income": old.min("income", *INCOMES),
        "greatest income": old.max("income", *INCOMES),
    }
    made: dict[str, Runs] = {name: lambda e, q=query: copies.runs(q, e) for name, query in queries.items()}
    return made | {"quartiles of income": copies.quartiles}


if __name__ == "__main__":
    session = spark(Path(sys.argv[1]).parent)
    serve_copies(jobs(Copies(opened(frame(People.read(sys.argv[1]), session)))), EPSILONS[:1])
