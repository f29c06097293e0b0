"""What everybody is asked, and what all may know of the table. Only the standard library: peers import it too."""

from __future__ import annotations

from dataclasses import dataclass

TABLE = "people"
ROWS = 2_000
EPSILONS = (1.0, 0.1)
LEAST_AGE, GREATEST_AGE = 17, 90
GREATEST_INCOME, STEP = 500_000, 10
REGIONS = tuple(f"region {letter}" for letter in "ABCDEFGHIJ")
RICH, OLD = 30_000, 40
"""The constants of the filters: income over the one, age over the other."""
QUARTILES = (0.25, 0.75)
ADD, REPLACE = "add-remove", "replace-one"
NEIGHBOURS = (ADD, REPLACE)


@dataclass(frozen=True)
class Job:
    """One question, under one neighbour relation."""

    name: str
    neighbors: str
    what: str
    rest: str = ""

    @property
    def sql(self) -> str:
        return f"SELECT {self.what} FROM {TABLE}{self.rest}"


_RICH, _OLD, _BY = f" WHERE income > {RICH}", f" WHERE age > {OLD}", " GROUP BY region"
JOBS = (
    Job("count", ADD, "COUNT(*)", _RICH),
    Job("sum", ADD, "SUM(income)", _OLD),
    Job("mean", ADD, "AVG(income)", _OLD),
    Job("count by region", ADD, "region, COUNT(*)", _RICH + _BY),
    Job("mean by region", ADD, "region, AVG(income)", _OLD + _BY),
    Job("median of age", ADD, "MEDIAN(age)", _RICH),
    Job("median of income", ADD, "MEDIAN(income)", _OLD),
    Job("quartiles of income", ADD, "QUANTILE(income, 0.25, 0.75)", _OLD),
    Job("variance", ADD, "VAR(income)", _OLD),
    Job("least age", ADD, "MIN(age)", _RICH),
    Job("greatest age", ADD, "MAX(age)", _RICH),
    Job("least income", ADD, "MIN(income)", _OLD),
    Job("greatest income", ADD, "MAX(income)", _OLD),
    Job("count, n public", REPLACE, "COUNT(*)", _RICH),
    Job("sum, n public", REPLACE, "SUM(income)", _OLD),
    Job("mean, n public", REPLACE, "AVG(income)", _OLD),
    Job("median of income, n public", REPLACE, "MEDIAN(income)", _OLD),
    Job("mean of all", REPLACE, "AVG(income)"),
    Job("median of all incomes", REPLACE, "MEDIAN(income)"),
    Job("variance of all", REPLACE, "VAR(income)"),
)
