"""A snapshot in a PostgreSQL table of the schema `discreet`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from sqlglot import exp

from discreet.errors import Unavailable
from discreet.query.scan import ReleaseBatch
from discreet.schema import Schema
from discreet.sources.protocol import BATCH_SIZE, BatchShape, EngineValue
from discreet.sources.sql import PlanCompiler, SQLSource
from discreet.sources.sql_dialects import SqlStatement

if TYPE_CHECKING:
    from psycopg import Connection
    from psycopg.rows import TupleRow


class PostgresSource(SQLSource):
    """One table of the schema `discreet`.

    Each question has a connection of its own: one that was left open may have died since, and a question that fails is
    paid for all the same.
    """

    def __init__(self, schema: Schema, dsn: str, table: str) -> None:
        self._dsn = dsn
        super().__init__(schema, PlanCompiler(schema, "postgres", exp.table_(table, db="discreet", quoted=True)))
        self._fetch_rows(self._compiler.compile_column_check())

    def close(self) -> None:
        """There is nothing to let go of."""

    def _fetch_rows(self, statement: SqlStatement) -> Sequence[Sequence[EngineValue]]:
        with _connect(self._dsn) as connection:
            return connection.execute(statement.sql.encode(), statement.texts).fetchall()

    def _fetch_batches(self, shape: BatchShape, statement: SqlStatement) -> Iterator[ReleaseBatch]:
        """The reply stays in the database, from where it comes part by part."""
        from psycopg import RawServerCursor

        with (
            _connect(self._dsn) as connection,
            connection.transaction(),
            RawServerCursor(connection, "reply") as reply,
        ):
            connection.execute("SET LOCAL cursor_tuple_fraction = 1")  # it will be read to its end
            reply.execute(statement.sql.encode(), statement.texts)
            yield from shape.build_batches(iter(lambda: reply.fetchmany(BATCH_SIZE), []))


@contextmanager
def _connect(dsn: str) -> Iterator[Connection[TupleRow]]:
    """A connection; what the driver or the database says of a failure is kept from the caller."""
    try:
        import psycopg
    except ImportError:
        raise Unavailable("PostgreSQL is reached through psycopg; run pip install '.[postgres]'") from None
    try:
        raw_cursor = psycopg.RawCursor  # of PostgreSQL's own parameters, $1, ..., so that no % means anything
        with psycopg.connect(dsn, autocommit=True, client_encoding="UTF8", cursor_factory=raw_cursor) as connection:
            yield connection
    except psycopg.Error:
        raise Unavailable(
            "the source did not answer; ask its custodian to check the snapshot's table and how it is reached"
        ) from None
