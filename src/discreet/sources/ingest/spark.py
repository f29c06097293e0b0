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
from discreet.sources.ingest.clamp_and_bound import (
    build_lookup_tables,
    build_staging_query,
    select_bounded_rows,
    select_snapshot_summary,
    select_status_counts,
)
from discreet.sources.ingest.registration_report import (
    Progress,
    RegistrationReport,
    SourceCounts,
    build_registration_report,
    ignore_registration_stage,
    list_required_columns,
    parse_source_counts,
    refuse_columns,
    refuse_existing,
    refuse_kinds,
    refuse_schema,
    refuse_unusable_rows,
)
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
    progress: Progress = ignore_registration_stage,
) -> RegistrationReport:
    """Write the snapshot of a table, by its name or as a DataFrame, to a new folder. Spark's loggers are silenced."""
    refuse_schema(schema, key)
    refuse_existing(target)
    try:
        silence_spark(session)
        with _open_workspace(session, target.absolute().parent) as workspace:
            progress("reading")
            origins = _open_raw_view(workspace, schema, raw)
            refuse_kinds(schema, origins)
            progress("normalising")
            source_counts = _stage_rows(workspace, schema, origins)
            refuse_unusable_rows(schema, source_counts)
            progress("bounding")
            snapshot_folder = _write_table(
                workspace,
                "snapshot",
                workspace.run_query(select_bounded_rows(schema, key, workspace.get_table("staged"), SPARK_SYNTAX)),
            )
            progress("writing")
            snapshot_summary = _fetch_row(
                workspace, select_snapshot_summary(schema, key, workspace.get_table("snapshot"), SPARK_SYNTAX)
            )
            snapshot_folder.chmod(0o700)
            os.rename(snapshot_folder, target)
            return build_registration_report(source_counts, snapshot_summary)
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
        """What a query gives."""
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
    names = [name for name, _ in columns]
    refuse_columns(schema, names)
    workspace.create_view("raw", frame.toDF(*(f"r{i}" for i in range(len(names)))))
    return {
        name: ColumnOrigin(f"r{names.index(name)}", _get_source_kind(columns[names.index(name)][1]))
        for name in list_required_columns(schema)
    }


def _get_source_kind(type_name: str) -> SourceKind:
    """By the first word of a type such as decimal(10,2) or string collate unicode."""
    return KIND_BY_TYPE.get(re.split("[^a-z_]", type_name, maxsplit=1)[0], "other")


def _stage_rows(workspace: SparkWorkspace, schema: Schema, origins: dict[str, ColumnOrigin]) -> SourceCounts:
    for lookup in build_lookup_tables(schema):
        lines = (json.dumps({"label": label, "code": code}) + "\n" for label, code in lookup.pairs)
        file = workspace.folder / f"{lookup.name}.json"
        file.write_text("".join(lines), encoding="ascii")
        column_types = f"label {'string' if lookup.has_text_labels else 'bigint'}, code bigint"
        workspace.create_view(lookup.name, workspace.session.read.schema(column_types).json(file.as_uri()))
    _write_table(
        workspace,
        "staged",
        workspace.run_query(
            build_staging_query(schema, origins, workspace.get_table("raw"), SPARK_SYNTAX, workspace.prefix)
        ),
    )
    return parse_source_counts(
        schema, _fetch_row(workspace, select_status_counts(schema, workspace.get_table("staged")))
    )


def _write_table(workspace: SparkWorkspace, name: str, frame: DataFrame) -> Path:
    """Write Parquet files, and make a view of them, so that nothing is worked out twice."""
    folder = workspace.folder / name
    frame.write.parquet(folder.as_uri())
    workspace.create_view(name, workspace.session.read.parquet(folder.as_uri()))
    return folder


def _fetch_row(workspace: SparkWorkspace, query: exp.Select) -> Sequence[int]:
    return tuple(workspace.run_query(query).collect()[0])
