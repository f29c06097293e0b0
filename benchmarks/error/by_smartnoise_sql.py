"""smartnoise-sql: one row is added or removed. It answers for many copies of the table at once, one group for each.

A group's noise is that of the question alone, and a second's work for one answer would give too few runs. Its epsilon
is for each noisy column, and a mean has two. It has no quantiles, and refuses noise as large as a variance's.
"""

from __future__ import annotations

import sys

import pandas as pd
from snsql import Privacy, from_df

from benchmarks.error.contestant import COPIES, Runs, serve_copies
from benchmarks.error.jobs import GREATEST_AGE, GREATEST_INCOME, LEAST_AGE, OLD, REGIONS, RICH, TABLE
from benchmarks.error.table import People

COLUMNS = {
    "copy": {"type": "int"},
    "age": {"type": "int", "lower": LEAST_AGE, "upper": GREATEST_AGE},
    "income": {"type": "float", "lower": 0.0, "upper": float(GREATEST_INCOME)},
    "region": {"type": "string"},
}
ROWS = {"row_privacy": True, "censor_dims": False, "clamp_counts": False}


def build_frame(people: People) -> pd.DataFrame:
    regions = [REGIONS[i] for i in people.region]
    copy_frame = pd.DataFrame({"age": people.age, "income": people.income, "region": regions})
    return pd.concat([copy_frame.assign(copy=copy) for copy in range(COPIES)], ignore_index=True)


class CopiesReader:
    """The copies in its SQLite; the epsilon of a question is divided among its noisy columns, as it counts them."""

    def __init__(self, rows: pd.DataFrame) -> None:
        metadata = {"": {TABLE: {TABLE: ROWS | {"rows": len(rows)} | COLUMNS}}}
        self._private = from_df(rows, privacy=Privacy(epsilon=1.0, delta=1e-9), metadata=metadata)

    def answer_copies(self, what: str, where: str, by: str, epsilon: float) -> list[list[float]]:
        """One run for each copy, its numbers in the order of the regions."""
        sql = f"SELECT {by}, {what} AS answer FROM {TABLE}.{TABLE} WHERE {where} GROUP BY {by}"
        self._private.privacy.epsilon = 1.0
        self._private.privacy.epsilon = epsilon / float(self._private.get_privacy_cost(sql)[0])
        answers: list[list[float]] = [[] for _ in range(COPIES)]
        for row in sorted(self._private.execute(sql)[1:]):
            answers[int(row[0])].append(float(row[-1]))
        return answers


def build_jobs(people: People) -> dict[str, Runs]:
    reader = CopiesReader(build_frame(people))
    rich, old = f"income > {RICH}", f"age > {OLD}"
    return {
        "count": lambda e: reader.answer_copies("COUNT(*)", rich, "copy", e),
        "sum": lambda e: reader.answer_copies("SUM(income)", old, "copy", e),
        "mean": lambda e: reader.answer_copies("AVG(income)", old, "copy", e),
        "count by region": lambda e: reader.answer_copies("COUNT(*)", rich, "copy, region", e),
        "mean by region": lambda e: reader.answer_copies("AVG(income)", old, "copy, region", e),
    }


if __name__ == "__main__":
    serve_copies(build_jobs(People.read(sys.argv[1])))
