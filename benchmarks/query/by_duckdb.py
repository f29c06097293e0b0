"""Plain DuckDB, no privacy: a persistent table of its own, the floor under everybody who reads the rows."""

from __future__ import annotations

import duckdb

from benchmarks.query.contestant import locate_file, serve
from benchmarks.query.questions import QUESTIONS, Question


def query_numbers(connection: duckdb.DuckDBPyConnection, question: Question, constant: int) -> list[float]:
    return [row[-1] for row in connection.execute(question.sql(constant)).fetchall()]


if __name__ == "__main__":
    with duckdb.connect(str(locate_file("duckdb")), read_only=True) as connection:
        serve({question.name: lambda at, q=question: query_numbers(connection, q, at) for question in QUESTIONS})
