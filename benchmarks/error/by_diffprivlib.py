"""diffprivlib: the number of rows it is handed counts as public, one row's values do not.

With a filter that number is not public, so its own mean and variance are asked of the whole table alone; a filtered
mean is its sum over its count, half of epsilon each. Its counts and sums hold if a row is added or removed too: by
region they are compared under that relation, where regions are disjoint.
"""

from __future__ import annotations

import sys

import numpy as np
from diffprivlib import tools

from benchmarks.error.contestant import Make, serve
from benchmarks.error.jobs import GREATEST_AGE, GREATEST_INCOME, LEAST_AGE, QUARTILES, REGIONS
from benchmarks.error.table import Numbers, People

INCOMES, AGES = (0, GREATEST_INCOME), (LEAST_AGE, GREATEST_AGE)


def measure_mean(values: Numbers, epsilon: float) -> float:
    """Its sum over its count, within the bounds; the sum and the count of these values are not public."""
    total = tools.sum(values, epsilon=epsilon / 2, bounds=INCOMES)
    count = tools.count_nonzero(np.ones(len(values), dtype=bool), epsilon=epsilon / 2)
    return min(max(total / max(count, 1), 0), GREATEST_INCOME)


def build_jobs(people: People) -> dict[str, Make]:
    incomes, ages, every = people.income[people.is_old], people.age[people.is_rich], people.income
    regions = people.region[people.is_rich]
    bins = {"bins": len(REGIONS), "range": (-0.5, len(REGIONS) - 0.5)}
    parts = people.by_region(people.income, people.is_old)
    filtered = {
        "count": lambda e: lambda: [tools.count_nonzero(people.is_rich, epsilon=e)],
        "sum": lambda e: lambda: [tools.sum(incomes, epsilon=e, bounds=INCOMES)],
        "mean": lambda e: lambda: [measure_mean(incomes, e)],
        "median of income": lambda e: lambda: [tools.median(incomes, epsilon=e, bounds=INCOMES)],
    }
    return {f"{name}, n public": make for name, make in filtered.items()} | {
        "count by region": lambda e: lambda: tools.histogram(regions, epsilon=e, **bins)[0],
        "mean by region": lambda e: lambda: [measure_mean(part, e) for part in parts],
        "median of age": lambda e: lambda: [tools.median(ages, epsilon=e, bounds=AGES)],
        "median of income": filtered["median of income"],
        "quartiles of income": lambda e: lambda: tools.quantile(incomes, QUARTILES, epsilon=e, bounds=INCOMES),
        "least age": lambda e: lambda: [tools.quantile(ages, 0, epsilon=e, bounds=AGES)],
        "greatest age": lambda e: lambda: [tools.quantile(ages, 1, epsilon=e, bounds=AGES)],
        "least income": lambda e: lambda: [tools.quantile(incomes, 0, epsilon=e, bounds=INCOMES)],
        "greatest income": lambda e: lambda: [tools.quantile(incomes, 1, epsilon=e, bounds=INCOMES)],
        "mean of all": lambda e: lambda: [tools.mean(every, epsilon=e, bounds=INCOMES)],
        "median of all incomes": lambda e: lambda: [tools.median(every, epsilon=e, bounds=INCOMES)],
        "variance of all": lambda e: lambda: [tools.var(every, epsilon=e, bounds=INCOMES)],
    }


if __name__ == "__main__":
    serve(build_jobs(People.read(sys.argv[1])))
