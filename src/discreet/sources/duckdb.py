"""A snapshot in a DuckDB file, opened for reading only, by as many processes as like."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import duckdb
import numpy as np
from sqlglot import exp

from discreet.errors import Unavailable
from discreet.query.scan import MISSING_CODE, HistogramScan, ReleaseBatch
from discreet.schema import Schema
from discreet.sources.protocol import BATCH_SIZE, BatchShape, EngineColumn, EngineValue
from discreet.sources.sql import PlanCompiler, SQLSource
from discreet.sources.sql_dialects import SqlStatement

SNAPSHOT_TABLE, ATTACHED_DATABASE = "snapshot", "held"
GROUP_BITS = 20
"""Groups that at most 2^20 combinations of codes can make are counted in an array, without hashing: histograms twice as
fast as by DuckDB's own choice of 2^12."""
RETAINED_MEMORY = "8MB"
"""The most memory that DuckDB keeps for later once a question is answered; by its own choice it is 128 MB."""


class DuckDBSource(SQLSource):
    """The table `snapshot` of a file. Threads may share it: each question has a cursor of its own."""

    def __init__(self, schema: Schema, path: Path) -> None:
        table = exp.table_(SNAPSHOT_TABLE, db=ATTACHED_DATABASE, quoted=True)
        super().__init__(schema, PlanCompiler(schema, "duckdb", table))
        absolute_path = path.absolute()
        with _hide_engine_errors():
            # An engine of its own: connected to by its path, a file that took the place of one that is still open
            # somewhere in this process would be read as that one.
            self._connection = duckdb.connect()
            self._connection.execute("SET GLOBAL temp_directory = ?", [f"{absolute_path}.tmp"])
            self._connection.execute(f"SET GLOBAL perfect_ht_threshold = {GROUP_BITS}")
            self._connection.execute(f"SET GLOBAL allocator_flush_threshold = '{RETAINED_MEMORY}'")
            path_literal = exp.convert(str(absolute_path)).sql("duckdb")
            self._connection.execute(f"ATTACH {path_literal} AS {ATTACHED_DATABASE} (READ_ONLY)")
        self._fetch_rows(self._compiler.compile_column_check())

    def close(self) -> None:
        """Let go of the file."""
        self._connection.close()

    def _fetch_rows(self, statement: SqlStatement) -> Sequence[Sequence[EngineValue]]:
        with _hide_engine_errors(), self._connection.cursor() as cursor:
            return cursor.execute(statement.sql, statement.texts).fetchall()

    def _fetch_counts(self, _: HistogramScan, statement: SqlStatement) -> Sequence[EngineColumn]:
        """Counts and bins fit 64 bits; sums may not, and would come as floats this way."""
        with _hide_engine_errors(), self._connection.cursor() as cursor:
            reply = cursor.execute(statement.sql, statement.texts).fetchnumpy()
            return [_fill_missing(column) for column in reply.values()]

    def _fetch_batches(self, shape: BatchShape, statement: SqlStatement) -> Iterator[ReleaseBatch]:
        """By way of a table: DuckDB makes arrays of a whole reply only."""
        with _hide_engine_errors(), self._connection.cursor() as cursor:
            cursor.execute(f"CREATE TEMP TABLE reply AS {statement.sql}", statement.texts)
            [[rows]] = cursor.execute("SELECT count(*) FROM reply").fetchall()
            for first in range(0, rows, BATCH_SIZE):
                batch_reply = cursor.execute("FROM reply WHERE rowid >= ? AND rowid < ?", [first, first + BATCH_SIZE])
                yield shape.build_batch([_fill_missing(column) for column in batch_reply.fetchnumpy().values()])


def _fill_missing(column: EngineColumn) -> EngineColumn:
    """A column without a mask: None, or the stand-in for a number, where a value is missing."""
    if column.dtype == object:
        return np.array(column.tolist(), dtype=object)
    return np.ma.filled(column.astype(np.int64), MISSING_CODE)


@contextmanager
def _hide_engine_errors() -> Iterator[None]:
    """Keep what DuckDB says of a failure from the caller."""
    try:
        yield
    except duckdb.Error:
        raise Unavailable("the source did not answer; ask its custodian to check the snapshot's file") from None
