"""Keys on an irregular public grid: engines agree with the plain loop, whatever the cuts and the rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from fractions import Fraction
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet
import pytest

from discreet.errors import InvalidInput
from discreet.query.scan import MAX_CUTS, BinKey, CutKey, ScanMeasure, TotalsScan
from discreet.schema import Budget, Column, Schema
from discreet.sources.duckdb import DuckDBSource
from discreet.sources.ingest import register_duckdb, register_memory, register_postgres, register_spark
from discreet.sources.memory import MemorySource
from discreet.sources.postgres import PostgresSource
from discreet.sources.protocol import Source
from discreet.sources.spark import SparkSource
from support import dirty_tables

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

KEY = "a secret of the custodian's"
ROWS = (ScanMeasure("rows"),)


def wide() -> Schema:
    budget = Budget(Fraction(1))
    wide, small = Column("wide", "integer", -(2**40), 2**40), Column("small", "integer", -3, 12)
    return Schema("t", "t.csv", Path(), "add-remove", {"wide": wide, "small": small}, budget, budget)


def tables(count: int) -> Iterator[dirty_tables.Table]:
    """Codes on, next to and between the cuts, some missing."""
    random = Random(3)
    for _ in range(count):
        rows: list[dirty_tables.Row] = [
            {"wide": random.choice([str(5 * random.randrange(-700, 700) + random.randrange(-1, 2)), "?"]), "small": "4"}
            for _ in range(400)
        ]
        ends = [str(-(2**40)), str(2**40)]
        yield dirty_tables.Table(wide(), rows + [{"wide": end, "small": None} for end in ends])


def plans() -> list[TotalsScan]:
    """Cuts at the ends, none, one, some, and as many as there may be, beyond the ends, alone and with other keys."""
    random = Random(4)
    some = [(-(2**40), 2**40), (), (0,), (-(2**40),), (-(2**44), 2**44)]
    lists = [
        *some,
        tuple(range(-635, 640, 5)),
        *(tuple(sorted(random.sample(range(-3500, 3500), 9))) for _ in range(4)),
    ]
    alone = [TotalsScan(ROWS, (CutKey("wide", cuts),)) for cuts in lists]
    return [*alone, TotalsScan(ROWS, (BinKey("small", -3, 4), CutKey("wide", lists[-1]), CutKey("small", (0, 4))))]


def agree(register: Callable[[dirty_tables.Table], Source], count: int, every: int = 1) -> None:
    for table in tables(count):
        rows, _ = register_memory(table.schema, table.rows, KEY)
        reference = MemorySource(table.schema, rows)
        with closing(register(table)) as source:
            for plan in plans()[::every]:
                assert source.totals(plan) == reference.totals(plan)


def as_arrow(table: dirty_tables.Table) -> pa.Table:
    return pa.table({name: pa.array([row[name] for row in table.rows], pa.string()) for name in table.rows[0]})


def test_the_key_is_how_many_cuts_are_at_or_below_the_code() -> None:
    """A code at a cut is above it; a missing one has no key."""
    rows = [{"wide": code} for code in (-7, -1, 0, 4, 5, 6, None)]
    totals = MemorySource(wide(), rows).totals(TotalsScan(ROWS, (CutKey("wide", (-1, 5)),)))
    assert totals == {(0,): (1,), (1,): (3,), (2,): (2,), (None,): (1,)}


@pytest.mark.parametrize("cuts", [(1, 1), (2, 1), tuple(range(MAX_CUTS + 1))])
def test_cuts_that_do_not_rise_or_are_too_many_are_refused(cuts: tuple[int, ...]) -> None:
    """What an engine would answer wrongly or slowly cannot be asked."""
    with pytest.raises(InvalidInput):
        CutKey("wide", cuts)


def test_duckdb_agrees_with_the_plain_loop(tmp_path: Path) -> None:
    """DuckDB tells the same keys."""

    def register(table: dirty_tables.Table) -> Source:
        path = tmp_path / "snapshot.duckdb"
        path.unlink(missing_ok=True)
        register_duckdb(table.schema, as_arrow(table), path, KEY)
        return DuckDBSource(table.schema, path)

    agree(register, 3)


def test_postgres_agrees_with_the_plain_loop(postgres: str) -> None:
    """PostgreSQL tells the same keys."""
    import psycopg

    def register(table: dirty_tables.Table) -> Source:
        with psycopg.connect(postgres) as connection, connection.cursor() as cursor:
            cursor.execute("DROP TABLE IF EXISTS cuts")
            cursor.execute("DROP TABLE IF EXISTS discreet.cuts")
            cursor.execute("CREATE TABLE cuts (wide text, small text)")
            with cursor.copy("COPY cuts FROM STDIN") as copy:
                for row in table.rows:
                    copy.write_row([row["wide"], row["small"]])
        register_postgres(table.schema, postgres, "cuts", "cuts", KEY)
        return PostgresSource(table.schema, postgres, "cuts")

    agree(register, 3)


@pytest.mark.parametrize(("count", "every"), [(1, 5), pytest.param(3, 1, marks=pytest.mark.soak)])
def test_spark_agrees_with_the_plain_loop(count: int, every: int, spark: SparkSession, tmp_path: Path) -> None:
    """Spark tells the same keys."""

    def register(table: dirty_tables.Table) -> Source:
        folder = tmp_path / str(len(list(tmp_path.iterdir())))
        folder.mkdir()
        pyarrow.parquet.write_table(as_arrow(table), folder / "raw.parquet")
        raw = spark.read.parquet(str(folder / "raw.parquet"))
        register_spark(table.schema, spark, raw, folder / "snapshot", KEY)
        return SparkSource(table.schema, spark, folder / "snapshot")

    agree(register, count, every)
