"""A snapshot in a PostgreSQL table of the schema `discreet`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

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

if TYPE_CHECKING:
    from psycopg import Connection
    from psycopg.rows import TupleRow


class PostgresSource:
    """One table of the schema `discreet`.

    Each question has a connection of its own: one that was left open may have died since, and a question that fails is
    paid for all the same.
    """

    def __init__(self, schema: Schema, dsn: str, table: str) -> None:
        self._schema = schema
        self._dsn = dsn
        self._compiler = Compiler(schema, "postgres", exp.table_(table, db="discreet", quoted=True))
        self._rows(self._compiler.columns())

    def totals(self, plan: Totals) -> Mapping[Cell, Amounts]:
        """The totals of every cell that has rows; without keys, of the one cell (), rows or not."""
        return cells.totals(plan, self._schema, self._rows(self._compiler.totals(plan)))

    def histogram(self, plan: Histogram) -> Mapping[Cell, NDArray[np.int64]]:
        """The counts of every cell that has rows; without keys, of the one cell (), rows or not."""
        return cells.histograms(plan, self._schema, cells.columns(plan, self._rows(self._compiler.histogram(plan))))

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
        """There is nothing to let go of."""

    def _rows(self, statement: Statement) -> list[Any]:
        with _connected(self._dsn) as connection:
            return connection.execute(statement.sql.encode(), statement.texts).fetchall()

    def _batches(self, shape: Shape, statement: Statement) -> Iterator[Batch]:
        """The reply stays in the database, from where it comes part by part."""
        from psycopg import RawServerCursor

        with (
            _connected(self._dsn) as connection,
            connection.transaction(),
            RawServerCursor(connection, "reply") as reply,
        ):
            connection.execute("SET LOCAL cursor_tuple_fraction = 1")  # it will be read to its end
            reply.execute(statement.sql.encode(), statement.texts)
            yield from shape.batches(iter(lambda: reply.fetchmany(SIZE), []))


@contextmanager
def _connected(dsn: str) -> Iterator[Connection[TupleRow]]:
    """A connection; what the driver or the database says of a failure is kept from the caller."""
    try:
        import psycopg
    except ImportError:
        raise Unavailable("PostgreSQL is reached through psycopg; install discreet[postgres]") from None
    try:
        raw = psycopg.RawCursor  # of PostgreSQL's own parameters, $1, ..., so that no % means anything
        with psycopg.connect(dsn, autocommit=True, client_encoding="UTF8", cursor_factory=raw) as connection:
            yield connection
    except psycopg.Error:
        raise Unavailable(
            "the source did not answer; ask its custodian to check the snapshot's table and how it is reached"
        ) from None
