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


def answer_count(values: NDArray[np.generic]) -> float:
    return Count(epsilon=EPSILON, dtype="int").quick_result(values.tolist())


def answer_mean(values: NDArray[np.generic]) -> float:
    return BoundedMean(**INCOMES).quick_result(values.tolist())


def build_answers(data: Arrays) -> Answers:
    age, income = data.age, data.income
    return {
        "count": lambda constant: [
            answer_count(age[income > constant])
        ],  # of any column: whole numbers go over the fastest
        "sum": lambda constant: [BoundedSum(**INCOMES).quick_result(income[age > constant].tolist())],
        "mean": lambda constant: [answer_mean(income[age > constant])],
        "median": lambda constant: [Median(**AGES).quick_result(age[age > constant].tolist())],
        "count by region": lambda constant: [answer_count(part) for part in data.by_region(age, income > constant)],
        "mean by region": lambda constant: [answer_mean(part) for part in data.by_region(income, age > constant)],
    }


if __name__ == "__main__":
    serve(build_answers(Arrays.read()))
