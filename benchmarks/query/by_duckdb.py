"""Plain DuckDB, no privacy: a persistent table of its own, the floor under everybody who reads the rows."""

from __future__ import annotations

import duckdb

from benchmarks.query.contestant import file, serve
from benchmarks.query.questions import QUESTIONS, Question


def exact(connection: duckdb.DuckDBPyConnection, question: Question, constant: int) -> list[float]:
    return [row[-1] for row in connection.execute(question.sql(constant)).fetchall()]


if __name__ == "__main__":
    with duckdb.connect(str(file("duckdb")), read_only=True) as opened:
        serve({question.name: lambda at, q=question: exact(opened, q, at) for question in QUESTIONS})
