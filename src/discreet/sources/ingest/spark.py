"""Registration with Spark: from a table or DataFrame to a folder of Parquet files.

The folder is on a disk that all of Spark's machines share under one name; so are the files made on the way.
"""

from __future__ import annotations

import json
import logging
import os
import re
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from sqlglot import exp

from discreet.errors import DiscreetError, InvalidInput, Unavailable
from discreet.schema import Schema
from discreet.sources.ingest import clamp_and_bound, registration_report
from discreet.sources.ingest.registration_report import Progress, RegistrationReport, SourceCounts
from discreet.sources.sql_dialects import SPARK_SYNTAX, ColumnOrigin, SourceKind

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


FAILURE_LOGGERS = ("SQLQueryContextLogger", "DataFrameQueryContextLogger")
"""To these, PySpark writes what Spark says of a failed statement, and they write to standard error by themselves."""


def silence_spark(session: SparkSession) -> None:
    """Let neither Spark nor PySpark nor py4j, which writes down every word between Python and Spark, log anything."""
    from pyspark.logger import PySparkLogger

    session.sparkContext.setLogLevel("OFF")
    for logger in (logging.getLogger("py4j"), *map(PySparkLogger.getLogger, FAILURE_LOGGERS)):
        logger.setLevel(logging.CRITICAL + 1)


KIND_BY_TYPE: dict[str, SourceKind] = {
    "boolean": "boolean",
    "date": "date",
    "timestamp_ntz": "timestamp",
    "timestamp": "instant",
    "string": "text",
    "char": "text",
    "varchar": "text",
    "decimal": "decimal",
    **dict.fromkeys(("tinyint", "smallint", "int", "bigint"), "integer"),
    **dict.fromkeys(("float", "double"), "float"),
}


def register_spark(
    schema: Schema,
    session: SparkSession,
    raw: str | DataFrame,
    target: Path,
    key: str,
    progress: Progress = registration_report.ignore_registration_stage,
) -> RegistrationReport:
    """Write the snapshot of a table, by its name or as a DataFrame, to a new folder. Spark's loggers are silenced."""
    registration_report.refuse_schema(schema, key)
    registration_report.refuse_existing(target)
    try:
        silence_spark(session)
        with _open_workspace(session, target.absolute().parent) as workspace:
            progress("reading")
            origins = _open_raw_view(workspace, schema, raw)
            registration_report.refuse_kinds(schema, origins)
            progress("normalising")
            source_counts = _stage_rows(workspace, schema, origins)
            registration_report.refuse_unusable_rows(schema, source_counts)
            progress("bounding")
            staged, snapshot = workspace.get_table("staged"), workspace.get_table("snapshot")
            bounded_rows = clamp_and_bound.select_bounded_rows(schema, key, staged, SPARK_SYNTAX)
            snapshot_folder = _write_table(workspace, "snapshot", bounded_rows)
            progress("writing")
            summary_query = clamp_and_bound.select_snapshot_summary(schema, key, snapshot, SPARK_SYNTAX)
            snapshot_summary = _fetch_row(workspace, summary_query)
            snapshot_folder.chmod(0o700)
            os.rename(snapshot_folder, target)
            return registration_report.build_registration_report(source_counts, snapshot_summary)
    except DiscreetError:
        raise
    except Exception:  # the boundary to Spark, which fails in its own ways, its bridge's and its socket's
        raise Unavailable("Spark did not do it; check that it can read the table and has room on disk") from None


@dataclass(frozen=True, slots=True)
class SparkWorkspace:
    """Where one registration works: a session, a folder that will be deleted, and a name before those of its views."""

    session: SparkSession
    folder: Path
    prefix: str
    views: list[str] = field(default_factory=list)

    def get_table(self, name: str) -> exp.Table:
        """One of its views."""
        return exp.table_(self.prefix + name)

    def create_view(self, name: str, frame: DataFrame) -> None:
        """Make a view."""
        frame.createTempView(self.prefix + name)
        self.views.append(self.prefix + name)

    def run_query(self, query: exp.Select) -> DataFrame:
        """Run a query."""
        return self.session.sql(query.sql("spark"))


@contextmanager
def _open_workspace(session: SparkSession, parent_folder: Path) -> Iterator[SparkWorkspace]:
    with tempfile.TemporaryDirectory(prefix=".discreet_", dir=parent_folder) as name:
        workspace = SparkWorkspace(session, Path(name), f"{Path(name).name[1:]}_")
        try:
            yield workspace
        finally:
            for view in workspace.views:
                session.catalog.dropTempView(view)


def _open_raw_view(workspace: SparkWorkspace, schema: Schema, raw: str | DataFrame) -> dict[str, ColumnOrigin]:
    """Make the view `raw`, its columns named by their places; say which holds each needed column, and of which kind."""
    from pyspark.errors import AnalysisException, ParseException

    try:
        frame = workspace.session.table(raw) if isinstance(raw, str) else raw
        columns = [(field.name, field.dataType.simpleString()) for field in frame.schema.fields]
    except (AnalysisException, ParseException):
        name = repr(raw[:40]) if isinstance(raw, str) else "of these rows"
        raise InvalidInput(f"there is no table {name} that Spark can read; name it as catalog.schema.table") from None
    registration_report.refuse_columns(schema, [name for name, _ in columns])
    workspace.create_view("raw", frame.toDF(*(f"r{i}" for i in range(len(columns)))))
    # The kind follows from the first word of a type such as decimal(10,2) or string collate unicode.
    words = ((name, re.split("[^a-z_]", type_name, maxsplit=1)[0]) for name, type_name in columns)
    origins = {name: ColumnOrigin(f"r{i}", KIND_BY_TYPE.get(word, "other")) for i, (name, word) in enumerate(words)}
    return {name: origins[name] for name in registration_report.list_required_columns(schema)}


def _stage_rows(workspace: SparkWorkspace, schema: Schema, origins: dict[str, ColumnOrigin]) -> SourceCounts:
    for lookup in clamp_and_bound.build_lookup_tables(schema):
        lines = (json.dumps({"label": label, "code": code}) + "\n" for label, code in lookup.pairs)
        file = workspace.folder / f"{lookup.name}.json"
        file.write_text("".join(lines), encoding="ascii")
        column_types = f"label {'string' if lookup.has_text_labels else 'bigint'}, code bigint"
        workspace.create_view(lookup.name, workspace.session.read.schema(column_types).json(file.as_uri()))
    raw, staged = workspace.get_table("raw"), workspace.get_table("staged")
    query = clamp_and_bound.build_staging_query(schema, origins, raw, SPARK_SYNTAX, workspace.prefix)
    _write_table(workspace, "staged", query)
    counts = _fetch_row(workspace, clamp_and_bound.select_status_counts(schema, staged))
    return registration_report.parse_source_counts(schema, counts)


def _write_table(workspace: SparkWorkspace, name: str, query: exp.Select) -> Path:
    """Write what a query gives to Parquet files, and make a view of them, so that nothing is worked out twice."""
    folder = workspace.folder / name
    workspace.run_query(query).write.parquet(folder.as_uri())
    workspace.create_view(name, workspace.session.read.parquet(folder.as_uri()))
    return folder


def _fetch_row(workspace: SparkWorkspace, query: exp.Select) -> Sequence[int]:
    return tuple(workspace.run_query(query).collect()[0])
