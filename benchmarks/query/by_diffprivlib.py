"""diffprivlib: arrays filtered by numpy, then its tools, each the fastest it has. Its noise is in floating point."""

from __future__ import annotations

from diffprivlib import tools

from benchmarks.query.arrays import Arrays
from benchmarks.query.contestant import Answers, serve
from benchmarks.query.questions import EPSILON, GREATEST_AGE, GREATEST_INCOME, LEAST_AGE, REGIONS

INCOMES = {"epsilon": EPSILON, "bounds": (0, GREATEST_INCOME)}
AGES = {"epsilon": EPSILON, "bounds": (LEAST_AGE, GREATEST_AGE)}
BINS = {"epsilon": EPSILON, "bins": len(REGIONS), "range": (-0.5, len(REGIONS) - 0.5)}


def build_answers(data: Arrays) -> Answers:
    age, income, region = data.age, data.income, data.region
    return {
        "count": lambda constant: [tools.count_nonzero(income > constant, epsilon=EPSILON)],
        "sum": lambda constant: [tools.sum(income[age > constant], **INCOMES)],
        "mean": lambda constant: [tools.mean(income[age > constant], **INCOMES)],
        "median": lambda constant: [tools.median(age[age > constant], **AGES)],
        "count by region": lambda constant: tools.histogram(region[income > constant], **BINS)[0],
        "mean by region": lambda constant: [
            tools.mean(part, **INCOMES) for part in data.by_region(income, age > constant)
        ],
    }


if __name__ == "__main__":
    serve(build_answers(Arrays.read()))
