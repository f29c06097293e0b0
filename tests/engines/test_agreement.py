"""Engines agree: random dirty tables, registered and asked random plans on each, give the same numbers to the unit."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import replace
from functools import cache
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest
from numpy.typing import NDArray

from discreet.errors import InvalidInput
from discreet.query.predicates import TRUE, AllOf, AnyOf, InRanges, InTexts, Predicate
from discreet.query.scan import BinKey, Cell, HistogramScan, ScanMeasure, TextKey, TotalsScan
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


def in_memory(table: dirty_tables.Table) -> MemorySource:
    rows, _ = register_memory(table.schema, table.rows, KEY)
    return MemorySource(table.schema, rows)


def as_arrow(table: dirty_tables.Table) -> pa.Table:
    columns = {name: [row[name] for row in table.rows] for name in table.rows[0]}
    return pa.table({name: pa.array(texts, pa.string()) for name, texts in columns.items()})


def answer_plan(source: Source, plan: dirty_tables.Plan) -> Mapping[Cell, object]:
    """All that a source says to a plan, in a form that can be compared."""
    if isinstance(plan, TotalsScan):
        return source.totals(plan)
    return {cell: counts.tolist() for cell, counts in source.histogram(plan).items()}


def disagreements(source: Source, reference: Source, plans: list[dirty_tables.Plan]) -> list[dirty_tables.Plan]:
    return [plan for plan in plans if answer_plan(source, plan) != answer_plan(reference, plan)]


def cases(queries: int, tables: int) -> Iterator[tuple[dirty_tables.Table, list[dirty_tables.Plan]]]:
    """Random tables, each with its share of so many random plans."""
    random = Random(20)
    table_count = 0
    while table_count < tables:
        table = dirty_tables.generate_table(random, random.choice([40, 100, 200]))
        if registrable(table):
            table_count += 1
            yield table, [dirty_tables.generate_plan(random, table.schema) for _ in range(queries // tables)]


def registrable(table: dirty_tables.Table) -> bool:
    """Not a table with a column of which nothing at all can be read: that is refused, by every engine."""
    try:
        register_memory(table.schema, table.rows, KEY)
    except InvalidInput:
        return False
    return True


def assert_agreement(register: Callable[[dirty_tables.Table], Source], queries: int, tables: int) -> None:
    for table, plans in cases(queries, tables):
        with closing(register(table)) as source:
            assert disagreements(source, in_memory(table), plans) == []


@pytest.mark.parametrize(("queries", "tables"), [(500, 20), pytest.param(10_000, 200, marks=pytest.mark.soak)])
def test_duckdb_agrees_with_the_plain_loop(queries: int, tables: int, tmp_path: Path) -> None:
    """Whatever the rows and the plan, DuckDB's numbers are those of the reference."""

    def register(table: dirty_tables.Table) -> Source:
        path = tmp_path / "snapshot.duckdb"
        path.unlink(missing_ok=True)
        register_duckdb(table.schema, as_arrow(table), path, KEY)
        return DuckDBSource(table.schema, path)

    assert_agreement(register, queries, tables)


@pytest.mark.parametrize(("queries", "tables"), [(150, 6), pytest.param(10_000, 200, marks=pytest.mark.soak)])
def test_postgres_agrees_with_the_plain_loop(queries: int, tables: int, postgres: str) -> None:
    """Whatever the rows and the plan, PostgreSQL's numbers are those of the reference."""
    import psycopg

    def register(table: dirty_tables.Table) -> Source:
        names = list(table.rows[0])
        with psycopg.connect(postgres) as connection, connection.cursor() as cursor:
            cursor.execute("DROP TABLE IF EXISTS agreement")
            cursor.execute("DROP TABLE IF EXISTS discreet.agreement")
            cursor.execute(f"CREATE TABLE agreement ({' text, '.join(names)} text)".encode())
            with cursor.copy("COPY agreement FROM STDIN") as copy:
                for row in table.rows:
                    copy.write_row([row[name] for name in names])
        register_postgres(table.schema, postgres, "agreement", "agreement", KEY)
        return PostgresSource(table.schema, postgres, "agreement")

    assert_agreement(register, queries, tables)


@pytest.mark.parametrize(("queries", "tables"), [(8, 1), pytest.param(100, 4, marks=pytest.mark.soak)])
def test_spark_agrees_with_the_plain_loop(queries: int, tables: int, spark: SparkSession, tmp_path: Path) -> None:
    """Whatever the rows and the plan, Spark's numbers are those of the reference."""

    def register(table: dirty_tables.Table) -> Source:
        folder = tmp_path / str(len(list(tmp_path.iterdir())))
        folder.mkdir()
        pyarrow.parquet.write_table(as_arrow(table), folder / "raw.parquet")
        raw = spark.read.parquet(str(folder / "raw.parquet"))
        register_spark(table.schema, spark, raw, folder / "snapshot", KEY)
        return SparkSource(table.schema, spark, folder / "snapshot")

    assert_agreement(register, queries, tables)


def rewrite_predicate(predicate: Predicate, atom: Callable[[InRanges | InTexts], Predicate]) -> Predicate:
    if isinstance(predicate, AllOf | AnyOf):
        return replace(predicate, parts=tuple(rewrite_predicate(part, atom) for part in predicate.parts))
    return atom(predicate)


def where(atom: Callable[[InRanges | InTexts], Predicate]) -> Callable[[dirty_tables.Plan], dirty_tables.Plan]:
    return lambda plan: replace(plan, where=rewrite_predicate(plan.where, atom))


def rewrite_measures(measure: Callable[[ScanMeasure], ScanMeasure]) -> Callable[[dirty_tables.Plan], dirty_tables.Plan]:
    return lambda plan: (
        plan if isinstance(plan, HistogramScan) else replace(plan, measures=tuple(map(measure, plan.measures)))
    )


def rewrite_keys(
    key: Callable[[BinKey | TextKey], BinKey | TextKey],
) -> Callable[[dirty_tables.Plan], dirty_tables.Plan]:
    return lambda plan: replace(plan, keys=tuple(map(key, plan.keys)))


def open_ended(atom: InRanges | InTexts) -> Predicate:
    if isinstance(atom, InTexts):
        return atom
    return replace(atom, ranges=tuple((low, high - 1) for low, high in atom.ranges if low < high))


WRONG: dict[str, Callable[[dirty_tables.Plan], dirty_tables.Plan]] = {
    "a missing value matches": where(lambda atom: replace(atom, null=True)),
    "a missing value never matches": where(lambda atom: replace(atom, null=False)),
    "a range leaves out its upper end": where(open_ended),
    "not in is in": where(lambda atom: replace(atom, outside=False) if isinstance(atom, InTexts) else atom),
    "units are rows": rewrite_measures(
        lambda measure: replace(measure, what="rows") if measure.what == "units" else measure
    ),
    "missing values are counted": rewrite_measures(
        lambda measure: replace(measure, what="rows") if measure.what == "present" else measure
    ),
    "a measure's own condition is passed over": rewrite_measures(lambda measure: replace(measure, where=TRUE)),
    "nothing is subtracted": rewrite_measures(lambda measure: replace(measure, lower=0)),
    "bins start at 0": rewrite_keys(lambda key: replace(key, lower=0) if isinstance(key, BinKey) else key),
    "histograms start at 0": lambda plan: (
        replace(plan, bins=replace(plan.bins, lower=0)) if isinstance(plan, HistogramScan) else plan
    ),
}


class WrongSource(MemorySource):
    """A source that answers another plan than it is asked."""

    def __init__(self, source: MemorySource, change: Callable[[dirty_tables.Plan], dirty_tables.Plan]) -> None:
        super().__init__(source._schema, source._rows)
        self.change = change

    def totals(self, plan: TotalsScan) -> Mapping[Cell, tuple[int, ...]]:
        changed = self.change(plan)
        return super().totals(changed) if isinstance(changed, TotalsScan) else {}

    def histogram(self, plan: HistogramScan) -> Mapping[Cell, NDArray[np.int64]]:
        changed = self.change(plan)
        return super().histogram(changed) if isinstance(changed, HistogramScan) else {}


@cache
def known() -> list[tuple[MemorySource, dirty_tables.Plan, Mapping[Cell, object]]]:
    """Plans, what they are asked of, and the right answers, for every mistake the same."""
    asked = [(in_memory(table), plans) for table, plans in cases(500, 20)]
    return [(source, plan, answer_plan(source, plan)) for source, plans in asked for plan in plans]


@pytest.mark.parametrize("mistake", WRONG)
def test_a_wrong_engine_is_caught(mistake: str) -> None:
    """The trap itself: each mistake an engine might make shows in some of the plans it is asked."""
    differences = [answer_plan(WrongSource(source, WRONG[mistake]), plan) != right for source, plan, right in known()]
    assert sum(differences) >= 5


def atoms(predicate: Predicate) -> list[InRanges | InTexts]:
    if isinstance(predicate, AllOf | AnyOf):
        return [atom for part in predicate.parts for atom in atoms(part)]
    return [predicate]


def test_plans_are_of_every_form() -> None:
    """The engines would not agree for want of anything to disagree on: every form occurs, and most plans find rows."""
    plans = [plan for _, plan, _ in known()]
    kinds = {type(part) for plan in plans for part in (plan, plan.where, *plan.keys, *atoms(plan.where))}
    assert kinds == {TotalsScan, HistogramScan, BinKey, TextKey, InRanges, InTexts, AllOf, AnyOf}
    measures = {measure.what for plan in plans if isinstance(plan, TotalsScan) for measure in plan.measures}
    assert measures == {"rows", "units", "present", "sum", "squares"}
    atom_kinds = {
        (type(atom), atom.null, getattr(atom, "outside", False)) for plan in plans for atom in atoms(plan.where)
    }
    assert len(atom_kinds) == 6
    assert sum(any(any(cell) for cell in right.values()) for _, _, right in known()) > 250
