"""A snapshot in a folder of Parquet files, read by Apache Spark."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sqlglot import exp

from discreet.errors import Unavailable
from discreet.query.released import Batch
from discreet.schema import Schema
from discreet.sources.batches import SIZE, Shape
from discreet.sources.by_sql import SQLSource
from discreet.sources.compile import Compiler
from discreet.sources.silence import silence
from discreet.sources.statement import Statement

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

VIEWS = count()


class SparkSource(SQLSource):
    """A folder of Parquet files, as a view of a session. Spark is silenced: its logs may quote rows."""

    def __init__(self, schema: Schema, session: SparkSession, path: Path) -> None:
        self._session = session
        self._view = f"discreet_snapshot_{next(VIEWS)}"
        super().__init__(schema, Compiler(schema, "spark", exp.table_(self._view, quoted=True)))
        with _silent():
            silence(session)
            _readable(schema, session.read.parquet(_address(path))).createTempView(self._view)
        self._rows(self._compiler.columns())

    def close(self) -> None:
        """Let go of the view; the session is not ours."""
        with _silent():
            self._session.catalog.dropTempView(self._view)

    def _rows(self, statement: Statement) -> list[Any]:
        with _silent():
            return list(self._frame(statement).collect())

    def _batches(self, shape: Shape, statement: Statement) -> Iterator[Batch]:
        """A part of the reply is held at a time, as Spark has cut it."""
        with _silent():
            rows = self._frame(statement).toLocalIterator()
            yield from shape.batches(iter(lambda: list(islice(rows, SIZE)), []))

    def _frame(self, statement: Statement) -> DataFrame:
        named = {f"t{place}": text for place, text in enumerate(statement.texts, start=1)}
        return self._session.sql(statement.sql, args=named)


def _readable(schema: Schema, snapshot: DataFrame) -> DataFrame:
    """The snapshot, in which texts that are not Unicode are missing.

    Registration leaves none, but it did before: Python takes several of them for one text, and would then add up the
    units of each.
    """
    from pyspark.sql.functions import expr

    keys = [f"c{place}" for place, column in enumerate(schema.columns.values()) if column.private_keys]
    return snapshot.withColumns({name: expr(f"CASE WHEN is_valid_utf8({name}) THEN {name} END") for name in keys})


def _address(folder: Path) -> str:
    """A folder's address, in which signs that Spark takes for patterns stand for themselves."""
    return "file:" + re.sub(r"[\\{}\[\]*?]", r"\\\g<0>", str(folder.absolute()))


@contextmanager
def _silent() -> Iterator[None]:
    """Keep what Spark says of a failure from the caller."""
    try:
        yield
    except Exception:  # the boundary to Spark, which fails in its own ways, its bridge's and its socket's
        raise Unavailable("the source did not answer; ask its custodian to check Spark and the snapshot") from None
