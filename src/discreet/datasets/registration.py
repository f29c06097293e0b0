"""Draft a schema, and register a data set: the custodian's steps, the only ones that may fail on a row."""

from __future__ import annotations

import csv
import glob
import json
import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from shutil import rmtree
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from discreet.datasets.dataset_dir import (
    DatasetDir,
    DatasetManifest,
    Snapshot,
    check_snapshot_name,
    hash_layout,
)
from discreet.datasets.integrity import (
    Progress,
    check_declarations,
    fingerprint_files,
    get_spark_session,
    ignore_stage,
    require_layout,
)
from discreet.errors import InvalidInput, Unavailable
from discreet.schema import Schema, SourceAddress
from discreet.schema.schema import Kind
from discreet.schema.yaml import SQL_NAME, WHITESPACE

if TYPE_CHECKING:
    from discreet.sources.ingest import RegistrationReport


ColumnKinds = Mapping[str, Kind]
DRAFT_TEMPLATE = """\
# A draft of a schema: the names of the columns, and their kinds as guessed from their types or, in a CSV file, from how
# values are written. Check the kinds.
#
# Analysts may read all of a schema but its source, so nothing in it may come from the rows. Bounds taken from the data
# are a leak: decide from what can be true, not from what is there. The greatest income in the data is somebody's
# income, and a list of the towns in the data says where somebody lives. What lies beyond a bound will count as the
# bound, what is not in a list as missing. Replace every DECIDE; as long as one is left, the schema is refused.

name: {name}
# A file is sought from the folder of this schema.
source: {source}
# add-remove: nobody learns whether a person is in the table. replace-one: the number of people is public; then add
# the line units: 50000.
neighbours: DECIDE
# Whom a row is about, and the most rows that are kept of one: {{column: person_id, rows: 1}}. Without this line every
# row is a person of its own.
unit: DECIDE
# The most that all answers together may tell about one person: an epsilon of 1 is strong, above 5 is weak.
budget: {{epsilon: DECIDE}}

# lower and upper: the least and the greatest value that can be true; step: the precision that matters, such as 0.01;
# categories: [every, value, that, can, be, true], or in its place taxonomy: file.json, or keys: private where there is
# no public list; kind: ordinal where categories have an order; {{role: identifier}} for what names a person, which is
# then never shown.
columns:
{columns}
"""
UNDECIDED_FIELDS: Mapping[Kind, str] = {
    "integer": ", lower: DECIDE, upper: DECIDE",
    "number": ", lower: DECIDE, upper: DECIDE, step: DECIDE",
    "date": ", lower: DECIDE, upper: DECIDE",
    "boolean": "",
    "nominal": ", categories: DECIDE",
}
TYPE_PATTERNS: tuple[tuple[Kind, str], ...] = (
    ("integer", r"u?(tiny|small|big|huge)?int(eger)?[248]?|(decimal|numeric)\([0-9]+, *0\)"),
    ("number", r"(decimal|numeric)(\(.*\))?|double|float[48]?|real"),
    ("boolean", r"bool(ean)?"),
    ("date", r"date|timestamp.*"),
)
"""The types of DuckDB, PostgreSQL and Spark in lower case; every other is nominal."""
VALUE_PATTERNS: tuple[tuple[Kind, str], ...] = (
    ("boolean", r"(?i:true|false|t|f|yes|no|y|n)"),
    ("integer", r"[+-]?[0-9]{1,15}"),
    ("number", r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]{1,2})?"),
    ("date", r"[0-9]{4}-[0-9]{2}-[0-9]{2}([T ].*)?"),
)
"""A CSV file has no types: the kind is that which nine in ten of a column's first values are written as."""
SEPARATORS = ",;\t|"
MAX_SAMPLED_LINES = 10_000
MAX_VALUE_LENGTH = 40
COMPARISON_PREFIX = ".again-"
"""How the folders begin in which a table in memory is read once more, to be compared."""


def draft_schema(data: str) -> str:
    """Draft a schema, as YAML, for a .csv or .parquet file, postgresql://host/db#schema.table or spark:table."""
    address = SourceAddress.of(data)
    if not data.isprintable():
        raise InvalidInput("the address of the table has a character that cannot be printed; rename the file")
    match address.engine:
        case "csv":
            kinds = _read_csv_kinds(address.location)
        case "parquet":
            kinds = _read_parquet_kinds(address.location)
        case "postgres":
            kinds = _read_postgres_kinds(address.location, address.table)
        case "spark":
            kinds = _read_spark_kinds(address.table)
        case "memory":
            raise InvalidInput("a draft is made from a file or a table of an engine; write yours to a .parquet file")
    stem = address.table.rpartition(".")[2] or re.sub("[^A-Za-z0-9_]", "_", Path(address.location).stem)
    name = stem if SQL_NAME.fullmatch(stem) else f"table_{stem}"[:63]
    source = json.dumps(data, ensure_ascii=False)
    columns = [
        f"  {column}: {{kind: {kind}{UNDECIDED_FIELDS[kind]}}}"
        if SQL_NAME.fullmatch(column)
        else f"  # {json.dumps(column)} is left out: call it by letters, digits and _ in the source to use it"
        for column, kind in kinds.items()
    ]
    return DRAFT_TEMPLATE.format(name=name, source=source, columns="\n".join(columns))


def _read_csv_kinds(path: str) -> ColumnKinds:
    """The first line names the columns. DuckDB is not asked whether it does: it may take a row for the names."""
    try:
        with Path(path).open(encoding="utf-8-sig", newline="") as stream:
            header_line = stream.readline()
            separator = max(SEPARATORS, key=header_line.count)
            stream.seek(0)
            names, *rows = islice(csv.reader(stream, delimiter=separator, strict=True), MAX_SAMPLED_LINES)
    except UnicodeDecodeError:
        raise InvalidInput(f"the file {Path(path).name[:40]!r} is not text in UTF-8; save it as UTF-8") from None
    except (OSError, ValueError, csv.Error):
        raise _build_unreadable_error(path) from None
    names = [name.strip(WHITESPACE) for name in names]
    rows = [row for row in rows if row]
    if any(len(row) != len(names) for row in rows):
        raise _build_unreadable_error(path)
    return {name: _guess_kind([row[index] for row in rows]) for index, name in enumerate(names)}


def _build_unreadable_error(path: str) -> InvalidInput:
    return InvalidInput(
        f"the file {Path(path).name[:40]!r} cannot be read as a table; check its path and what it holds"
    )


def _guess_kind(texts: Sequence[str]) -> Kind:
    values = [text.strip(WHITESPACE) for text in texts if text.strip(WHITESPACE)]
    for kind, pattern in VALUE_PATTERNS:
        matches = sum(len(value) <= MAX_VALUE_LENGTH and bool(re.fullmatch(pattern, value)) for value in values)
        if values and 10 * matches >= 9 * len(values):
            return kind
    return "nominal"


def _read_parquet_kinds(path: str) -> ColumnKinds:
    import duckdb

    try:
        with duckdb.connect() as connection:
            column_rows = connection.execute("DESCRIBE SELECT * FROM read_parquet(?)", [glob.escape(path)]).fetchall()
    except duckdb.Error:
        raise _build_unreadable_error(path) from None
    return {name: _map_type_to_kind(kind) for name, kind, *_ in column_rows}


def _map_type_to_kind(name: str) -> Kind:
    return next((kind for kind, pattern in TYPE_PATTERNS if re.fullmatch(pattern, name.lower())), "nominal")


def _read_postgres_kinds(server: str, table: str) -> ColumnKinds:
    try:
        import psycopg
        from psycopg import sql
    except ImportError:
        raise Unavailable("PostgreSQL is reached through psycopg; run pip install '.[postgres]'") from None
    empty_query = sql.SQL("SELECT * FROM {} LIMIT 0").format(sql.Identifier(*table.split(".")))
    try:
        with psycopg.connect(server) as connection:
            columns = connection.execute(empty_query).description or []
            types = {column.name: connection.adapters.types.get(column.type_code) for column in columns}
    except psycopg.Error:
        raise Unavailable("the PostgreSQL table cannot be read; check the address, the table and your rights") from None
    return {name: _map_type_to_kind(kind.name if kind else "") for name, kind in types.items()}


def _read_spark_kinds(table: str) -> ColumnKinds:
    try:
        from pyspark.errors import PySparkException
        from pyspark.sql import SparkSession
    except ImportError:
        raise Unavailable("Spark is reached through pyspark; run pip install '.[spark]'") from None
    try:
        fields = SparkSession.builder.getOrCreate().table(table).schema.fields
    except PySparkException:
        raise Unavailable("the Spark table cannot be read; check its name and that Spark runs here") from None
    return {field.name: _map_type_to_kind(field.dataType.simpleString()) for field in fields}


def write_draft(data: str, file: Path) -> str:
    """Write a draft to a new file, and return its text; a file that exists is never touched."""
    is_current_folder = file.absolute().parent == Path.cwd()
    text = draft_schema(data if is_current_folder else make_address_absolute(data))
    try:
        with file.open("x", encoding="utf-8") as stream:
            stream.write(text)
    except FileExistsError:
        raise InvalidInput(
            f"there is a file {file.name[:40]!r} already, and no draft overwrites it; name another"
        ) from None
    except (OSError, ValueError):
        raise Unavailable(
            f"{file.name[:40]!r} cannot be written; check that its folder is there and may be written"
        ) from None
    return text


def make_address_absolute(data: str) -> str:
    """Return an address that names the same table from every folder."""
    return str(Path(data).absolute()) if SourceAddress.of(data).engine in {"csv", "parquet"} else data


def register_snapshot(
    schema: Schema,
    raw: object = None,
    name: str | None = None,
    disjoint: bool = False,
    progress: Progress = ignore_stage,
) -> Snapshot:
    """Turn the source into a new snapshot, which becomes the current one."""
    check_declarations(schema)
    dataset_dir = DatasetDir(schema)
    with dataset_dir.lock():
        manifest = dataset_dir.read_manifest() or DatasetManifest.new(schema)
        return register_locked(schema, dataset_dir, manifest, raw, name, disjoint, progress)


def is_same_table(
    schema: Schema, dataset_dir: DatasetDir, manifest: DatasetManifest, raw: object, progress: Progress
) -> bool:
    """Whether a table in memory is the one of the current snapshot, as when a notebook's cell is run again."""
    from discreet.sources.ingest import register_duckdb

    snapshot = manifest.snapshots[-1]
    require_layout(schema, snapshot)
    with dataset_dir.lock():
        for leftover in dataset_dir.folder.glob(f"{COMPARISON_PREFIX}*"):
            rmtree(leftover)  # of a process that was killed
        with TemporaryDirectory(prefix=COMPARISON_PREFIX, dir=dataset_dir.folder) as folder:
            report = register_duckdb(schema, raw, Path(folder) / "again.duckdb", manifest.key, progress)
    return _report_to_dict(report) == snapshot.report


def register_locked(
    schema: Schema,
    dataset_dir: DatasetDir,
    manifest: DatasetManifest,
    raw: object,
    name: str | None,
    disjoint: bool,
    progress: Progress,
) -> Snapshot:
    manifest.require_promise(schema)
    new_name = check_snapshot_name(name or str(len(manifest.snapshots) + 1))
    if new_name in {snapshot.name for snapshot in manifest.snapshots}:
        raise InvalidInput(f"there is a snapshot {new_name!r} already; name the new one otherwise")
    engine, target, report = _read_source(schema, dataset_dir.folder, manifest, raw, new_name, progress)
    made_at = datetime.now(UTC).isoformat(timespec="seconds")
    fingerprints = (None, None) if engine == "postgres" else fingerprint_files(dataset_dir.folder / target)
    details = _report_to_dict(report)
    snapshot = Snapshot(new_name, engine, target, hash_layout(schema), made_at, disjoint, details, *fingerprints)
    dataset_dir.write_manifest(manifest.with_snapshot(snapshot))
    return snapshot


def _report_to_dict(report: RegistrationReport) -> dict[str, object]:
    columns = {
        name: {"missing": column.missing, "unreadable": column.unreadable, "clipped": column.clipped}
        for name, column in report.columns.items()
    }
    rows = {"rows_read": report.rows_read, "rows_kept": report.rows_kept, "without_unit": report.without_unit}
    return {**rows, "units": report.units, "fingerprint": report.fingerprint, "columns": columns}


def _read_source(
    schema: Schema, folder: Path, manifest: DatasetManifest, raw: object, name: str, progress: Progress
) -> tuple[str, str, RegistrationReport]:
    """Read the source once with its engine: files and tables in memory with DuckDB."""
    if raw is not None and not isinstance(raw, str | Path):
        return _register_in_duckdb(schema, raw, folder, name, manifest.key, progress)
    address = SourceAddress.of(str(raw or schema.source))
    if address.engine == "memory":
        raise InvalidInput(f"the source of {schema.name} is memory: hand the table over with source=, once")
    if address.engine == "postgres":
        from discreet.sources.ingest import register_postgres

        target = f"{schema.name}_{manifest.identity[:8]}_{name}"
        report = register_postgres(schema, address.location, address.table, target, manifest.key, progress)
        return "postgres", target, report
    if address.engine == "spark":
        from discreet.sources.ingest import register_spark

        target = f"snapshot-{name}.parquet"
        report = register_spark(schema, get_spark_session(), address.table, folder / target, manifest.key, progress)
        return "spark", target, report
    return _register_in_duckdb(schema, schema.folder / address.location, folder, name, manifest.key, progress)


def _register_in_duckdb(
    schema: Schema, raw: object, folder: Path, name: str, key: str, progress: Progress
) -> tuple[str, str, RegistrationReport]:
    from discreet.sources.ingest import register_duckdb

    target = f"snapshot-{name}.duckdb"
    (folder / target).unlink(missing_ok=True)  # of a registration that was cut short; the manifest names all others
    return "duckdb", target, register_duckdb(schema, raw, folder / target, key, progress)
