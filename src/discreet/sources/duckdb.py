"""A snapshot in a DuckDB file, opened for reading only, by as many processes as like."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
from numpy.typing import NDArray
from sqlglot import exp

from discreet.errors import Unavailable
from discreet.query.released import Batch, ReleasePlan
from discreet.query.totals import Amounts, Cell, Histogram, Totals
from discreet.schema import Schema
from discreet.sources import cells
from discreet.sources.batches import SIZE, Shape
from discreet.sources.compile import Compiler
from discreet.sources.statement import Statement

TABLE = "snapshot"
GROUP_BITS = 20
"""Groups that at most 2^20 combinations of codes can make are counted in an array, without hashing: histograms twice as
fast as by DuckDB's own choice of 2^12."""


class DuckDBSource:
    """The table `snapshot` of a file. Threads may share it: each question has a cursor of its own."""

    def __init__(self, schema: Schema, path: Path) -> None:
        self._schema = schema
        self._compiler = Compiler(schema, "duckdb", exp.table_(TABLE, quoted=True))
        with _silent():
            self._connection = duckdb.connect(path, read_only=True)
            self._connection.execute(f"SET GLOBAL perfect_ht_threshold = {GROUP_BITS}")
        self._rows(self._compiler.columns())

    def totals(self, plan: Totals) -> Mapping[Cell, Amounts]:
        """The totals of every cell that has rows; without keys, of the one cell (), rows or not."""
        return cells.totals(plan, self._schema, self._rows(self._compiler.totals(plan)))

    def histogram(self, plan: Histogram) -> Mapping[Cell, NDArray[np.int64]]:
        """The counts of every cell that has rows; without keys, of the one cell (), rows or not."""
        return cells.histograms(plan, self._schema, self._columns(self._compiler.histogram(plan)))

    def individual(self, column: str, unit: str) -> int | None:
        """The code of one unit's value; None where the unit is absent or has none."""
        return cells.only(self._rows(self._compiler.individual(column, unit)))

    def count(self) -> int:
        """How many rows there are."""
        return int(self._rows(self._compiler.count())[0][0])

    def records(self) -> Iterator[Batch]:
        """All rows, by the unit's bytes and then by all codes in the order of the schema, missing ones last."""
        return self._batches(Shape.records(self._schema), self._compiler.records())

    def released(self, plan: ReleasePlan, key: str) -> Iterator[Batch]:
        """All rows, what the plan makes of them, and their groups, in an order that tells nothing."""
        return self._batches(Shape.released(plan, self._schema), self._compiler.released(plan, key))

    def close(self) -> None:
        """Let go of the file."""
        self._connection.close()

    def _rows(self, statement: Statement) -> list[Any]:
        with _silent(), self._connection.cursor() as cursor:
            return cursor.execute(statement.sql, statement.texts).fetchall()

    def _columns(self, statement: Statement) -> list[NDArray[Any]]:
        """Counts and bins fit 64 bits; sums may not, and would come as floats this way."""
        with _silent(), self._connection.cursor() as cursor:
            return [_filled(column) for column in cursor.execute(statement.sql, statement.texts).fetchnumpy().values()]

    def _batches(self, shape: Shape, statement: Statement) -> Iterator[Batch]:
        """By way of a table: DuckDB makes arrays of a whole reply only."""
        with _silent(), self._connection.cursor() as cursor:
            cursor.execute(f"CREATE TEMP TABLE reply AS {statement.sql}", statement.texts)
            [[rows]] = cursor.execute("SELECT count(*) FROM reply").fetchall()
            for first in range(0, rows, SIZE):
                some = cursor.execute("FROM reply WHERE rowid >= ? AND rowid < ?", [first, first + SIZE])
                yield shape.batch([_filled(column) for column in some.fetchnumpy().values()])


def _filled(column: NDArray[Any]) -> NDArray[Any]:
    """A column without a mask: None, or the stand-in for a number, where a value is missing."""
    if column.dtype == object:
        return np.array(column.tolist(), dtype=object)
    return np.ma.filled(column.astype(np.int64), cells.MISSING)


@contextmanager
def _silent() -> Iterator[None]:
    """Keep what DuckDB says of a failure from the caller."""
    try:
        yield
    except duckdb.Error:
        raise Unavailable("the source did not answer; ask its custodian to check the snapshot's file") from None
