"""diffprivlib: arrays filtered by numpy, then its tools, each the fastest it has. Its noise is in floating point."""

from __future__ import annotations

from diffprivlib import tools

from benchmarks.query.arrays import Arrays
from benchmarks.query.contestant import Answers, serve
from benchmarks.query.questions import EPSILON, GREATEST_AGE, GREATEST_INCOME, LEAST_AGE, REGIONS

INCOMES = {"epsilon": EPSILON, "bounds": (0, GREATEST_INCOME)}
AGES = {"epsilon": EPSILON, "bounds": (LEAST_AGE, GREATEST_AGE)}
BINS = {"epsilon": EPSILON, "bins": len(REGIONS), "range": (-0.5, len(REGIONS) - 0.5)}


def answers(data: Arrays) -> Answers:
    age, income, region = data.age, data.income, data.region
    return {
        "count": lambda at: [tools.count_nonzero(income > at, epsilon=EPSILON)],
        "sum": lambda at: [tools.sum(income[age > at], **INCOMES)],
        "mean": lambda at: [tools.mean(income[age > at], **INCOMES)],
        "median": lambda at: [tools.median(age[age > at], **AGES)],
        "count by region": lambda at: tools.histogram(region[income > at], **BINS)[0],
        "mean by region": lambda at: [tools.mean(part, **INCOMES) for part in data.by_region(income, age > at)],
    }


if __name__ == "__main__":
    serve(answers(Arrays.read()))
