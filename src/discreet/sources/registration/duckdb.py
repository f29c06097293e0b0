"""Registration with DuckDB: from a CSV or Parquet file, or a table in memory, to a DuckDB file."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from sqlglot import exp

from discreet.errors import InvalidInput, Unavailable
from discreet.schema.schema import Schema
from discreet.sources.registration.bounding import select_bounded_rows, select_snapshot_summary, select_status_counts
from discreet.sources.registration.opening import open_raw_table
from discreet.sources.registration.refusals import refuse_existing, refuse_kinds, refuse_schema, refuse_unusable_rows
from discreet.sources.registration.report import (
    Progress,
    RegistrationReport,
    SourceCounts,
    build_registration_report,
    ignore_registration_stage,
    parse_source_counts,
)
from discreet.sources.registration.sql import build_lookup_tables, build_staging_query
from discreet.sources.registration.words import DUCKDB_SYNTAX, ColumnOrigin, build_call

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

MEMORY_LIMIT = "2GB"
"""What DuckDB may use before it goes to disk."""
MAX_VALUES_PER_PART = 20_000_000
"""How many values DuckDB ranks at a time: it keeps those in memory, in under a gigabyte."""


def register_duckdb(
    schema: Schema,
    raw: object,
    target: Path,
    key: str,
    progress: Progress = ignore_registration_stage,
    max_values: int = MAX_VALUES_PER_PART,
) -> RegistrationReport:
    """Write the snapshot of a CSV or Parquet file, or of a pandas, Polars or Arrow table, to a new DuckDB file."""
    import duckdb

    refuse_schema(schema, key)
    refuse_existing(target)
    try:
        with (
            tempfile.TemporaryDirectory(prefix=".discreet-", dir=target.parent) as folder_name,
            _open_engine(Path(folder_name)) as engine,
        ):
            progress("reading")
            origins = open_raw_table(engine, schema, raw)
            refuse_kinds(schema, origins)
            progress("normalising")
            source_counts = _stage_rows(engine, schema, origins)
            refuse_unusable_rows(schema, source_counts)
            progress("bounding")
            values = source_counts.rows * (len(schema.columns) + 1)
            snapshot_file = _write_snapshot(engine, schema, key, Path(folder_name), part_count=1 + values // max_values)
            progress("writing")
            snapshot_summary = _finish_snapshot(engine, schema, key)
            snapshot_file.chmod(0o600)
            os.rename(snapshot_file, target)
            return build_registration_report(source_counts, snapshot_summary)
    except (duckdb.Error, OSError):
        raise Unavailable("the snapshot was not made; check that disk and memory have room, and try again") from None


@contextmanager
def _open_engine(folder: Path) -> Iterator[DuckDBPyConnection]:
    """A DuckDB of our own, which keeps what does not fit memory in a folder that will be deleted."""
    import duckdb

    with duckdb.connect(str(folder / "work.duckdb")) as engine:
        engine.execute("SET temp_directory = ?", [str(folder / "spill")])
        engine.execute("SET memory_limit = ?", [MEMORY_LIMIT])
        engine.execute("SET preserve_insertion_order = false")
        engine.execute("SET autoinstall_known_extensions = false")
        engine.execute("SET TimeZone = 'UTC'")
        yield engine


def _stage_rows(engine: DuckDBPyConnection, schema: Schema, origins: dict[str, ColumnOrigin]) -> SourceCounts:
    import duckdb

    for lookup in build_lookup_tables(schema):
        kind = "VARCHAR" if lookup.has_text_labels else "BIGINT"
        columns = f"unnest(?::{kind}[]) AS label, unnest(?::BIGINT[]) AS code"
        pairs = [[label for label, _ in lookup.pairs], [code for _, code in lookup.pairs]]
        engine.execute(f"CREATE TABLE {lookup.name} AS SELECT {columns}", pairs)
    try:
        staging_query = build_staging_query(schema, origins, exp.table_("raw"), DUCKDB_SYNTAX).ctas(
            "staged", copy=False
        )
        engine.execute(staging_query.sql("duckdb", copy=False))
    except (duckdb.DataError, duckdb.InvalidInputException, duckdb.InternalException):
        # Not by our casts: the file is damaged, a text is not UTF-8, or pandas mixes kinds of values in a column.
        raise InvalidInput(
            "the source cannot be read to its end; check that the file is whole and its text is UTF-8, "
            "and convert columns of mixed types to text"
        ) from None
    return parse_source_counts(schema, _fetch_row(engine, select_status_counts(schema, exp.table_("staged"))))


def _write_snapshot(engine: DuckDBPyConnection, schema: Schema, key: str, folder: Path, part_count: int) -> Path:
    """The file of the snapshot; units are gone through in parts, since DuckDB ranks in memory."""
    file = folder / "snapshot.duckdb"
    engine.execute(f"ATTACH {exp.convert(str(file)).sql('duckdb')} AS made")
    for part in range(1 if schema.unit is None else part_count):
        unit_condition = (build_call("HASH", exp.column("u")) % part_count).eq(part)
        rows_sql = select_bounded_rows(schema, key, exp.table_("staged"), DUCKDB_SYNTAX, unit_condition).sql(
            "duckdb", copy=False
        )
        engine.execute(f"INSERT INTO made.snapshot {rows_sql}" if part else f"CREATE TABLE made.snapshot AS {rows_sql}")
    return file


def _finish_snapshot(engine: DuckDBPyConnection, schema: Schema, key: str) -> Sequence[int]:
    """The totals of the snapshot, once its file is whole and let go of."""
    snapshot_summary = _fetch_row(
        engine, select_snapshot_summary(schema, key, exp.table_("snapshot", db="made"), DUCKDB_SYNTAX)
    )
    engine.execute("CHECKPOINT made")
    engine.execute("DETACH made")
    return snapshot_summary


def _fetch_row(engine: DuckDBPyConnection, query: exp.Select) -> Sequence[int]:
    return engine.execute(query.sql("duckdb", copy=False)).fetchall()[0]
