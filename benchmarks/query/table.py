"""The table all are asked about: a Parquet file, a DuckDB table made from it, and a schema. `... FOLDER ROWS`.

A process of its own, so that its memory is nobody's. It tells how long DuckDB took over its table: what registration
costs without privacy.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.query.questions import (
    EDUCATIONS,
    GREATEST_AGE,
    GREATEST_INCOME,
    LEAST_AGE,
    REGIONS,
    SEXES,
    TABLE,
)

SCHEMA = f"""\
name: {TABLE}
source: {TABLE}.parquet
neighbours: add-remove
budget: {{epsilon: 100000}}
columns:
  age: {{kind: integer, lower: {LEAST_AGE}, upper: {GREATEST_AGE}, missing: {LEAST_AGE}}}
  income: {{kind: number, lower: 0, upper: {GREATEST_INCOME}, step: 0.01, missing: 0}}
  sex: {{kind: nominal, categories: [{", ".join(SEXES)}], missing: {SEXES[0]}}}
  region: {{kind: nominal, categories: [{", ".join(REGIONS)}], missing: {REGIONS[0]}}}
  education: {{kind: ordinal, categories: [{", ".join(EDUCATIONS)}], missing: {EDUCATIONS[0]}}}
"""


AT_ONCE = 10_000_000
"""Rows that are made and held at a time."""


def generate_people(rows: int, seed: int = 1) -> pa.Table:
    """So many people, from one seed; incomes rise with age, so that leaving out a condition shows."""
    generator = np.random.Generator(np.random.PCG64(seed))
    age = np.clip(LEAST_AGE + generator.gamma(3.2, 9.5, rows), LEAST_AGE, GREATEST_AGE).astype(np.int32)
    income = np.minimum(np.round(generator.lognormal(9.8 + age / 100, 0.8), 2), GREATEST_INCOME)
    weights = np.arange(len(REGIONS), 0, -1)
    return pa.table(
        {
            "age": age,
            "income": income,
            "sex": pa.array(SEXES).take(pa.array(generator.integers(0, len(SEXES), rows))),
            "region": pa.array(REGIONS).take(pa.array(generator.choice(len(REGIONS), rows, p=weights / weights.sum()))),
            "education": pa.array(EDUCATIONS).take(pa.array(generator.integers(0, len(EDUCATIONS), rows))),
        }
    )


def write_people(rows: int, file: Path) -> None:
    """Part by part, each from a seed of its own."""
    parts = (generate_people(min(AT_ONCE, rows - start), 1 + start // AT_ONCE) for start in range(0, rows, AT_ONCE))
    first = next(parts)
    with pq.ParquetWriter(file, first.schema) as writer:
        writer.write_table(first)
        for part in parts:
            writer.write_table(part)


def main(folder: Path, rows: int) -> None:
    folder.mkdir(parents=True)
    write_people(rows, folder / f"{TABLE}.parquet")
    (folder / f"{TABLE}.yaml").write_text(SCHEMA)
    start = time.perf_counter()
    with duckdb.connect(str(folder / f"{TABLE}.duckdb")) as connection:
        connection.execute(f"CREATE TABLE {TABLE} AS FROM read_parquet('{folder / TABLE}.parquet')")
    print(json.dumps({"seconds": time.perf_counter() - start}))


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
