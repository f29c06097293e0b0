"""A snapshot in a folder of Parquet files, read by Apache Spark."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import count, islice
from pathlib import Path
from typing import TYPE_CHECKING

from sqlglot import exp

from discreet.errors import Unavailable
from discreet.query.scan import ReleaseBatch
from discreet.schema import Schema
from discreet.sources.ingest.spark import silence_spark
from discreet.sources.protocol import BATCH_SIZE, BatchShape, EngineValue
from discreet.sources.sql import PlanCompiler, SQLSource
from discreet.sources.sql_dialects import SqlStatement

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


VIEW_NUMBERS = count()


class SparkSource(SQLSource):
    """A folder of Parquet files, as a view of a session. Spark is silenced: its logs may quote rows."""

    def __init__(self, schema: Schema, session: SparkSession, path: Path) -> None:
        self._session = session
        self._view = f"discreet_snapshot_{next(VIEW_NUMBERS)}"
        super().__init__(schema, PlanCompiler(schema, "spark", exp.table_(self._view, quoted=True)))
        with _hide_engine_errors():
            silence_spark(session)
            _blank_invalid_texts(schema, session.read.parquet(_build_folder_uri(path))).createTempView(self._view)
        self._fetch_rows(self._compiler.compile_column_check())

    def close(self) -> None:
        """Let go of the view; the session is not ours."""
        with _hide_engine_errors():
            self._session.catalog.dropTempView(self._view)

    def _fetch_rows(self, statement: SqlStatement) -> Sequence[Sequence[EngineValue]]:
        with _hide_engine_errors():
            return self._run_statement(statement).collect()

    def _fetch_batches(self, shape: BatchShape, statement: SqlStatement) -> Iterator[ReleaseBatch]:
        """A part of the reply is held at a time, as Spark has cut it."""
        with _hide_engine_errors():
            rows = self._run_statement(statement).toLocalIterator()
            yield from shape.build_batches(iter(lambda: list(islice(rows, BATCH_SIZE)), []))

    def _run_statement(self, statement: SqlStatement) -> DataFrame:
        parameters = {f"t{number}": text for number, text in enumerate(statement.texts, start=1)}
        return self._session.sql(statement.sql, args=parameters)


def _blank_invalid_texts(schema: Schema, snapshot: DataFrame) -> DataFrame:
    """The snapshot, in which texts that are not Unicode are missing.

    Registration leaves none, but it did before: Python takes several of them for one text, and would then add up the
    units of each.
    """
    from pyspark.sql.functions import expr

    keys = [f"c{index}" for index, column in enumerate(schema.columns.values()) if column.private_keys]
    return snapshot.withColumns({name: expr(f"CASE WHEN is_valid_utf8({name}) THEN {name} END") for name in keys})


def _build_folder_uri(folder: Path) -> str:
    """A folder's address, in which signs that Spark takes for patterns stand for themselves."""
    return "file:" + re.sub(r"[\\{}\[\]*?]", r"\\\g<0>", str(folder.absolute()))


@contextmanager
def _hide_engine_errors() -> Iterator[None]:
    """Keep what Spark says of a failure from the caller."""
    try:
        yield
    except Exception:  # the boundary to Spark, which fails in its own ways, its bridge's and its socket's
        raise Unavailable("the source did not answer; ask its custodian to check Spark and the snapshot") from None
