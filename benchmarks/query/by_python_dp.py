"""python-dp, Google's algorithms: arrays filtered by numpy, then handed over as lists, the fastest form it takes."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from pydp.algorithms.laplacian import BoundedMean, BoundedSum, Count, Median

from benchmarks.query.arrays import Arrays
from benchmarks.query.contestant import Answers, serve
from benchmarks.query.questions import EPSILON, GREATEST_AGE, GREATEST_INCOME, LEAST_AGE

INCOMES = {"epsilon": EPSILON, "lower_bound": 0, "upper_bound": GREATEST_INCOME, "dtype": "float"}
AGES = {"epsilon": EPSILON, "lower_bound": LEAST_AGE, "upper_bound": GREATEST_AGE, "dtype": "int"}


def count(values: NDArray[np.generic]) -> float:
    return Count(epsilon=EPSILON, dtype="int").quick_result(values.tolist())


def mean(values: NDArray[np.generic]) -> float:
    return BoundedMean(**INCOMES).quick_result(values.tolist())


def answers(data: Arrays) -> Answers:
    age, income = data.age, data.income
    return {
        "count": lambda at: [count(age[income > at])],  # of any column: whole numbers go over the fastest
        "sum": lambda at: [BoundedSum(**INCOMES).quick_result(income[age > at].tolist())],
        "mean": lambda at: [mean(income[age > at])],
        "median": lambda at: [Median(**AGES).quick_result(age[age > at].tolist())],
        "count by region": lambda at: [count(part) for part in data.by_region(age, income > at)],
        "mean by region": lambda at: [mean(part) for part in data.by_region(income, age > at)],
    }


if __name__ == "__main__":
    serve(answers(Arrays.read()))
