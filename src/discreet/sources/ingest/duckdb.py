"""Registration with DuckDB: from a CSV or Parquet file, or a table in memory, to a DuckDB file.

A CSV file is UTF-8 text; its first line names the columns; the comma, semicolon, tab or bar that this line uses
separates fields, and " quotes them. A line with more or fewer fields, or a quote that is not closed, refuses the whole
file. Empty lines are skipped, but refused where there is one column.
"""

from __future__ import annotations

import csv
import glob
import os
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from sqlglot import exp

from discreet.errors import InvalidInput, Unavailable
from discreet.schema.schema import Schema
from discreet.sources.ingest import clamp_and_bound, registration_report
from discreet.sources.ingest.registration_report import Progress, RegistrationReport, SourceCounts
from discreet.sources.ingest.values import WHITESPACE
from discreet.sources.sql_dialects import DUCKDB_SYNTAX, ColumnOrigin, SourceKind, build_call
from discreet.suggestions import build_missing_file_error

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection


MEMORY_LIMIT = "2GB"
"""What DuckDB may use before it goes to disk."""
MAX_VALUES_PER_PART = 20_000_000
"""How many values DuckDB ranks at a time: it keeps those in memory, in under a gigabyte."""
STAGED_TABLE = exp.table_("staged")
SEPARATORS = ",;\t|"
KIND_BY_TYPE: dict[str, SourceKind] = {
    "BOOLEAN": "boolean",
    "DATE": "date",
    "TIMESTAMP WITH TIME ZONE": "instant",
    **dict.fromkeys(("FLOAT", "DOUBLE"), "float"),
    **dict.fromkeys(("TINYINT", "SMALLINT", "INTEGER", "BIGINT"), "integer"),
    **dict.fromkeys(("UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT"), "integer"),
    # Wider whole numbers go by their decimal text: cast to doubles they might round twice.
    **dict.fromkeys(("VARCHAR", "UUID", "HUGEINT", "UHUGEINT"), "text"),
    **dict.fromkeys(("TIMESTAMP", "TIMESTAMP_S", "TIMESTAMP_MS", "TIMESTAMP_NS"), "timestamp"),
}
KINDS_BY_OBJECT_TYPE: dict[str, tuple[SourceKind, ...]] = {
    "string": ("text",),
    "category of string": ("text",),
    "integer": ("integer", "text"),
    "boolean": ("boolean",),
    "date": ("date",),
    "empty": ("text", "integer", "other"),
}
"""What DuckDB may take a column of objects for, by what pandas says of it; all else is refused."""


def open_raw_table(engine: DuckDBPyConnection, schema: Schema, raw: object) -> dict[str, ColumnOrigin]:
    """Make `raw`, a table or a view; say under which name and of which kind it holds each column that is needed."""
    if not isinstance(raw, str | Path):
        return _open_memory_table(engine, schema, raw)
    path = Path(raw)
    if not path.is_file():
        raise build_missing_file_error(f"there is no file {str(path)[-80:]}", path, "check the source")
    if path.suffix.lower() == ".csv":
        return _open_csv(engine, schema, path)
    if path.suffix.lower() == ".parquet":
        return _open_parquet(engine, schema, path)
    raise InvalidInput(f"a file of rows is named .csv or .parquet, got {path.suffix[:40]!r}")


def _open_memory_table(engine: DuckDBPyConnection, schema: Schema, table: object) -> dict[str, ColumnOrigin]:
    import duckdb

    objects = _infer_object_types(schema, table)
    engine.execute("SET pandas_analyze_sample = 2000000000")
    try:
        engine.register("raw", table)
    except (duckdb.Error, TypeError, ValueError):
        raise InvalidInput("the source must be a file, or a table of pandas, Polars or Arrow") from None
    origins = _describe_columns(engine, schema)
    for name, kind in objects.items():
        if origins[name].kind not in KINDS_BY_OBJECT_TYPE.get(kind, ()):
            raise InvalidInput(
                f"the column {name} of the table holds objects of several types; convert it to text, or to one"
            )
    return origins


def _infer_object_types(schema: Schema, table: object) -> dict[str, str]:
    """What pandas says of its columns of objects.

    DuckDB gives such a column one type for all its values (and decimals one scale). Where that is not exact for each,
    one value could change how the others are read, and one unit the rows of all.
    """
    pandas = sys.modules.get("pandas")
    if pandas is None or not isinstance(table, pandas.DataFrame):
        return {}
    registration_report.refuse_columns(schema, [str(name) for name in table.columns])
    kinds = {}
    for name in registration_report.list_required_columns(schema):
        values = table[name]
        if isinstance(values.dtype, pandas.CategoricalDtype):
            kinds[name] = f"category of {pandas.api.types.infer_dtype(values.cat.categories)}"
        elif values.dtype == object:
            kinds[name] = pandas.api.types.infer_dtype(values, skipna=True)
    return kinds


def _open_parquet(engine: DuckDBPyConnection, schema: Schema, path: Path) -> dict[str, ColumnOrigin]:
    import duckdb

    file = build_call("READ_PARQUET", glob.escape(str(path)))
    try:
        engine.execute(f"CREATE VIEW raw AS {exp.select('*').from_(file).sql('duckdb')}")
    except duckdb.Error:
        raise InvalidInput("the file cannot be read as Parquet; check it") from None
    return _describe_columns(engine, schema)


def _describe_columns(engine: DuckDBPyConnection, schema: Schema) -> dict[str, ColumnOrigin]:
    kinds = {name: _get_source_kind(str(kind)) for name, kind, *_ in engine.execute("DESCRIBE raw").fetchall()}
    registration_report.refuse_columns(schema, list(kinds))
    return {name: ColumnOrigin(name, kinds[name]) for name in registration_report.list_required_columns(schema)}


def _get_source_kind(name: str) -> SourceKind:
    if name.startswith("DECIMAL"):
        return "decimal"
    return "text" if name.startswith("ENUM") else KIND_BY_TYPE.get(name, "other")


def _open_csv(engine: DuckDBPyConnection, schema: Schema, path: Path) -> dict[str, ColumnOrigin]:
    """Load the needed columns as text before anything is asked of them: a cast moved into the reader would raise."""
    required_columns = registration_report.list_required_columns(schema)
    headers = [(separator, _read_first_line(path, separator)) for separator in SEPARATORS]
    # The separator that finds most of the required columns in the first line.
    separator, names = max(headers, key=lambda header: (len(set(required_columns) & set(header[1])), len(header[1])))
    registration_report.refuse_columns(schema, names)
    origins = {name: ColumnOrigin(f"r{names.index(name)}", "text") for name in required_columns}
    rows = _count_valid_rows(path, separator, len(names))
    loaded = _load_csv(engine, path, separator, len(names), [origin.column for origin in origins.values()])
    if rows != loaded:
        raise InvalidInput(
            "the CSV file can be read in more than one way; write it with one kind of line end, and quotes around "
            "whole fields only"
        )
    return origins


def _read_first_line(path: Path, separator: str) -> list[str]:
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            return [name.strip(WHITESPACE) for name in next(csv.reader(file, delimiter=separator, strict=True), [])]
    except csv.Error:
        return []
    except PermissionError:
        raise Unavailable("the file may not be read; check its owner and rights") from None
    except (OSError, UnicodeDecodeError):
        raise InvalidInput("the file must be CSV in UTF-8, its first line the names of the columns; check it") from None


def _count_valid_rows(path: Path, separator: str, fields: int) -> int:
    """How many rows there are; every one has its fields, every quote is closed, and all is UTF-8."""
    rows = 0
    with path.open(encoding="utf-8-sig", newline="") as file:
        reader = csv.reader(file, delimiter=separator, strict=True)
        try:
            next(reader)
            for row in reader:
                if len(row) != fields and (row or fields == 1):
                    break
                rows += bool(row)
            else:
                return rows
            problem = f"has not the {fields} fields of the first line"
        except csv.Error:
            problem = f"has a quote out of place, or a field of over {csv.field_size_limit()} characters"
        except UnicodeDecodeError:
            problem = "or one soon after it is not UTF-8"
        raise InvalidInput(f"line {reader.line_num} of the CSV file {problem}; mend the file") from None


def _load_csv(
    engine: DuckDBPyConnection, path: Path, separator: str, fields: int, column_names: list[str]
) -> int | None:
    """Make the table `raw`; say how many rows it has, or None where DuckDB refuses.

    DuckDB must not read in parallel, or lines within a long quoted field become rows; and then it leaves out a last row
    whose quote is not closed. So one person's text could make or unmake rows of others, were they not counted here too.
    """
    import duckdb

    columns = "{" + ", ".join(f"'r{i}': 'VARCHAR'" for i in range(fields)) + "}"
    csv_options = "delim = ?, quote = '\"', escape = '\"', header = true, auto_detect = false, strict_mode = true"
    rows_sql = f"FROM read_csv(?, columns = {columns}, {csv_options}, parallel = false)"
    try:
        select_sql = f"SELECT {', '.join(column_names)} {rows_sql}"
        engine.execute(f"CREATE TABLE raw AS {select_sql}", [glob.escape(str(path)), separator])
    except duckdb.InvalidInputException:
        return None
    return int(engine.execute("SELECT count(*) FROM raw").fetchall()[0][0])


def register_duckdb(
    schema: Schema,
    raw: object,
    target: Path,
    key: str,
    progress: Progress = registration_report.ignore_registration_stage,
    max_values: int = MAX_VALUES_PER_PART,
) -> RegistrationReport:
    """Write the snapshot of a CSV or Parquet file, or of a pandas, Polars or Arrow table, to a new DuckDB file."""
    import duckdb

    registration_report.refuse_schema(schema, key)
    registration_report.refuse_existing(target)
    try:
        with (
            tempfile.TemporaryDirectory(prefix=".discreet-", dir=target.parent) as folder_name,
            _open_engine(Path(folder_name)) as engine,
        ):
            progress("reading")
            origins = open_raw_table(engine, schema, raw)
            registration_report.refuse_kinds(schema, origins)
            progress("normalising")
            source_counts = _stage_rows(engine, schema, origins)
            registration_report.refuse_unusable_rows(schema, source_counts)
            progress("bounding")
            values = source_counts.rows * (len(schema.columns) + 1)
            snapshot_file = _write_snapshot(engine, schema, key, Path(folder_name), part_count=1 + values // max_values)
            progress("writing")
            snapshot_summary = _finish_snapshot(engine, schema, key)
            snapshot_file.chmod(0o600)
            os.rename(snapshot_file, target)
            return registration_report.build_registration_report(source_counts, snapshot_summary)
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

    for lookup in clamp_and_bound.build_lookup_tables(schema):
        kind = "VARCHAR" if lookup.has_text_labels else "BIGINT"
        columns = f"unnest(?::{kind}[]) AS label, unnest(?::BIGINT[]) AS code"
        pairs = [[label for label, _ in lookup.pairs], [code for _, code in lookup.pairs]]
        engine.execute(f"CREATE TABLE {lookup.name} AS SELECT {columns}", pairs)
    try:
        query = clamp_and_bound.build_staging_query(schema, origins, exp.table_("raw"), DUCKDB_SYNTAX)
        engine.execute(query.ctas("staged", copy=False).sql("duckdb", copy=False))
    except (duckdb.DataError, duckdb.InvalidInputException, duckdb.InternalException):
        # Not by our casts: the file is damaged, a text is not UTF-8, or pandas mixes kinds of values in a column.
        raise InvalidInput(
            "the source cannot be read to its end; check that the file is whole and its text is UTF-8, "
            "and convert columns of mixed types to text"
        ) from None
    counts = _fetch_row(engine, clamp_and_bound.select_status_counts(schema, STAGED_TABLE))
    return registration_report.parse_source_counts(schema, counts)


def _write_snapshot(engine: DuckDBPyConnection, schema: Schema, key: str, folder: Path, part_count: int) -> Path:
    """The file of the snapshot; units are gone through in parts, since DuckDB ranks in memory."""
    file = folder / "snapshot.duckdb"
    engine.execute(f"ATTACH {exp.convert(str(file)).sql('duckdb')} AS made")
    for part in range(1 if schema.unit is None else part_count):
        unit_condition = (build_call("HASH", exp.column("u")) % part_count).eq(part)
        rows = clamp_and_bound.select_bounded_rows(schema, key, STAGED_TABLE, DUCKDB_SYNTAX, unit_condition)
        rows_sql = rows.sql("duckdb", copy=False)
        engine.execute(f"INSERT INTO made.snapshot {rows_sql}" if part else f"CREATE TABLE made.snapshot AS {rows_sql}")
    return file


def _finish_snapshot(engine: DuckDBPyConnection, schema: Schema, key: str) -> Sequence[int]:
    """The totals of the snapshot, once its file is whole and let go of."""
    snapshot_table = exp.table_("snapshot", db="made")
    query = clamp_and_bound.select_snapshot_summary(schema, key, snapshot_table, DUCKDB_SYNTAX)
    snapshot_summary = _fetch_row(engine, query)
    engine.execute("CHECKPOINT made")
    engine.execute("DETACH made")
    return snapshot_summary


def _fetch_row(engine: DuckDBPyConnection, query: exp.Select) -> Sequence[int]:
    return engine.execute(query.sql("duckdb", copy=False)).fetchall()[0]
