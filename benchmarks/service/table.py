"""A made-up table of people, its schema, and questions about it, no two alike."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from pathlib import Path

import duckdb

SCHEMA = """\
name: people
source: people.parquet
neighbours: add-remove
budget: {epsilon: 1000000}
columns:
  age: {kind: integer, lower: 0, upper: 99}
  income: {kind: integer, lower: 0, upper: 200000}
  region: {kind: nominal, categories: [north, east, south, west]}
  smoker: {kind: boolean}
"""
MAKE = """\
COPY (
    SELECT i, hash(i) % 100 AS age, hash(i + 1000000000) % 200001 AS income,
        ['north', 'east', 'south', 'west'][(hash(i + 2000000000) % 4 + 1)::BIGINT] AS region,
        hash(i + 3000000000) % 5 = 0 AS smoker
    FROM range({rows}) AS r(i)
) TO '{path}' (FORMAT parquet)
"""
QUESTION_TEMPLATES = (
    "SELECT COUNT(*) FROM people WHERE age >= {age} AND income < {income}",
    "SELECT SUM(income) FROM people WHERE age < {age} AND income < {income}",
    "SELECT AVG(age) FROM people WHERE income >= {income} AND age <= {age}",
)


def write_people(folder: Path, rows: int) -> Path:
    """The table and its schema in a folder; the schema's file."""
    duckdb.connect().execute(MAKE.format(rows=rows, path=folder / "people.parquet"))
    schema = folder / "people.yaml"
    schema.write_text(SCHEMA, encoding="utf-8")
    return schema


def generate_questions(first: int = 0, step: int = 1) -> Iterator[str]:
    """Counts, sums and means in turn, every one a question of its own."""
    for number in count(first, step):
        yield QUESTION_TEMPLATES[number % 3].format(age=20 + number // 3 % 60, income=1000 + number // 3 % 190_000)
