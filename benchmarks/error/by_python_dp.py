"""python-dp, Google's algorithms: one row is added or removed. Quartiles are two percentiles with half of epsilon each.

Its quantile tree, the other way to several quantiles, errs more at epsilon 1 and about as much at 0.1.
"""

from __future__ import annotations

import sys
from functools import partial

from pydp.algorithms.laplacian import (
    BoundedMean,
    BoundedSum,
    BoundedVariance,
    Count,
    Max,
    Median,
    Min,
    Percentile,
)

from benchmarks.error.contestant import Make, serve
from benchmarks.error.jobs import GREATEST_AGE, GREATEST_INCOME, LEAST_AGE, QUARTILES
from benchmarks.error.table import People

INCOMES = {"lower_bound": 0, "upper_bound": GREATEST_INCOME, "dtype": "float"}
AGES = {"lower_bound": LEAST_AGE, "upper_bound": GREATEST_AGE, "dtype": "int"}


def build_jobs(people: People) -> dict[str, Make]:
    incomes, ages = people.income[people.is_old].tolist(), people.age[people.is_rich].tolist()
    counted_parts = [part.tolist() for part in people.by_region(people.age, people.is_rich)]
    parts = [part.tolist() for part in people.by_region(people.income, people.is_old)]
    count, mean = partial(Count, dtype="int"), partial(BoundedMean, **INCOMES)

    def answer_one(algorithm: partial, values: list[float]) -> Make:
        return lambda e: lambda: [algorithm(epsilon=e).quick_result(values)]

    def answer_each(algorithm: partial, groups: list[list[float]]) -> Make:
        return lambda e: lambda: [algorithm(epsilon=e).quick_result(values) for values in groups]

    def answer_quartiles(e: float) -> list[float]:
        return [Percentile(epsilon=e / 2, percentile=q, **INCOMES).quick_result(incomes) for q in QUARTILES]

    return {
        "count": answer_one(count, ages),
        "sum": answer_one(partial(BoundedSum, **INCOMES), incomes),
        "mean": answer_one(mean, incomes),
        "count by region": answer_each(count, counted_parts),
        "mean by region": answer_each(mean, parts),
        "median of age": answer_one(partial(Median, **AGES), ages),
        "median of income": answer_one(partial(Median, **INCOMES), incomes),
        "quartiles of income": lambda e: lambda: answer_quartiles(e),
        "variance": answer_one(partial(BoundedVariance, **INCOMES), incomes),
        "least age": answer_one(partial(Min, **AGES), ages),
        "greatest age": answer_one(partial(Max, **AGES), ages),
        "least income": answer_one(partial(Min, **INCOMES), incomes),
        "greatest income": answer_one(partial(Max, **INCOMES), incomes),
    }


if __name__ == "__main__":
    serve(build_jobs(People.read(sys.argv[1])))
