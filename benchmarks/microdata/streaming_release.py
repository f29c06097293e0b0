"""A release that an engine makes and that is written as it comes: the memory does not grow with its columns.

What is counted is what the process holds itself, DuckDB's memory apart, which has a limit of its own and goes to disk
beyond it: here 256 MB for each connection.
"""

from __future__ import annotations

import tempfile
import tracemalloc
from pathlib import Path

import duckdb

from benchmarks.measure import Line
from discreet import Custodian
from discreet.release import publish

ROWS, NARROW, WIDE = 1_000_000, 4, 16
LIMIT = "256MB"


def run() -> list[Line]:
    publish.MAX_ASSESSED_ROWS = 0  # without a report, as of more rows
    with tempfile.TemporaryDirectory() as folder:
        narrow, wide = (_measure_peak(Path(folder), columns) for columns in (NARROW, WIDE))
    name = f"ir-swap of {ROWS:,} rows, memory with {WIDE} columns over {NARROW}"
    return [Line(name, wide / narrow, "times", 1.3, False, f"{wide / 1e6:.0f} MB; the data have {8 * WIDE} MB")]


def _measure_peak(folder: Path, columns: int) -> float:
    schema = _write_table(folder, columns)
    connect = duckdb.connect

    def connect_limited(*args: object, **kwargs: object) -> duckdb.DuckDBPyConnection:
        connection = connect(*args, **kwargs)
        connection.execute(f"SET memory_limit = '{LIMIT}'")
        return connection

    duckdb.connect = connect_limited
    try:
        with Custodian.open(schema) as custodian:
            kept_columns = [f"n{j}" for j in range(3, columns)]
            tracemalloc.start()
            custodian.publish("ir-swap", folder / f"{columns}.parquet", k=50, keep=kept_columns)
            return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
        duckdb.connect = connect


def _write_table(folder: Path, columns: int) -> Path:
    """A made-up table and its schema: two quasi-identifiers, one confidential column, and more to keep."""
    values = ", ".join(f"(hash(i, {j}) % 1000)::INT AS n{j}" for j in range(columns))
    parquet_file = folder / f"wide{columns}.parquet"
    duckdb.sql(f"COPY (SELECT i AS person, {values} FROM range({ROWS}) t(i)) TO '{parquet_file}'")
    roles = ["quasi-identifier", "quasi-identifier", "confidential"]
    lines = [f"name: wide{columns}", f"source: {parquet_file.name}", "neighbours: replace-one", f"units: {ROWS}"]
    lines += ["unit: {column: person, rows: 1}", "budget: {epsilon: 1}", "columns:", "  person: {role: identifier}"]
    for j in range(columns):
        role = f", role: {roles[j]}" if j < len(roles) else ""
        lines.append(f"  n{j}: {{kind: integer, lower: 0, upper: 999{role}}}")
    schema = folder / f"wide{columns}.yaml"
    schema.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return schema
