"""Individual ranking of 10 million numbers, from the array to the group of each, beside DuckDB's own sort of them.

DuckDB's time is that of `CREATE TABLE ... AS SELECT v ... ORDER BY v` on one thread, from a table in memory to another.
"""

from __future__ import annotations

import duckdb
import numpy as np

from benchmarks.measure import Line
from benchmarks.microdata.cpu_time import measure_processor_time
from discreet.sdc.methods.microaggregate import microaggregate

ROWS = 10_000_000


def run() -> list[Line]:
    values = np.random.default_rng(1).normal(size=ROWS)
    microaggregate(values[:1_000_000], 10, "ranking")  # compiled
    ours = measure_processor_time(lambda: microaggregate(values, 10, "ranking"), 3)
    theirs = _time_duckdb_sort(values)
    return [
        Line(
            f"ranking of {ROWS:,} values, of DuckDB's sort",
            ours / theirs,
            "times",
            2,
            False,
            f"{ours:.2f} s, {theirs:.2f} s",
        )
    ]


def _time_duckdb_sort(values: np.ndarray) -> float:
    with duckdb.connect(config={"threads": 1}) as connection:
        connection.register("given", {"v": values})
        connection.execute("CREATE TABLE unsorted AS SELECT v FROM given")
        return measure_processor_time(
            lambda: connection.execute("CREATE OR REPLACE TABLE sorted AS SELECT v FROM unsorted ORDER BY v"), 3
        )
