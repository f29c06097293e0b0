"""Registration in PostgreSQL: from a table to one of ours beside it, in one transaction, so all of it or nothing."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from sqlglot import exp

from discreet.errors import InvalidInput, Unavailable
from discreet.schema.schema import Schema
from discreet.sources.ingest import clamp_and_bound, registration_report
from discreet.sources.ingest.registration_report import Progress, RegistrationReport, SourceCounts
from discreet.sources.sql_dialects import POSTGRES_SYNTAX, ColumnOrigin, SourceKind

if TYPE_CHECKING:
    from psycopg import Connection, Cursor
    from psycopg.rows import TupleRow

SCHEMA_NAME = "discreet"
"""The schema of our tables."""
TEMPORARY_PREFIX = "discreet_"
"""Before the names of our temporary tables, which hide the custodian's tables of the same name."""
STAGED_TABLE = exp.table_(f"{TEMPORARY_PREFIX}staged")
KIND_BY_TYPE: dict[str, SourceKind] = {
    "bool": "boolean",
    "date": "date",
    "timestamp": "timestamp",
    "timestamptz": "instant",
    "numeric": "decimal",
    "uuid": "text",
    **dict.fromkeys(("int2", "int4", "int8"), "integer"),
    **dict.fromkeys(("float4", "float8"), "float"),
}
KIND_BY_TYPE_CATEGORY: dict[str, SourceKind] = {"S": "text", "E": "text"}
"""All kinds of text, and enumerations."""


def register_postgres(
    schema: Schema,
    dsn: str,
    table: str,
    target: str,
    key: str,
    progress: Progress = registration_report.ignore_registration_stage,
) -> RegistrationReport:
    """Write the snapshot of a table, "name" or "schema.name", to the new table `target` in the schema discreet."""
    import psycopg

    registration_report.refuse_schema(schema, key)
    if not re.fullmatch("[A-Za-z_][A-Za-z0-9_.-]{0,62}", target):
        raise InvalidInput(
            f"a snapshot's table is named with at most 63 letters, digits, _ . or -, got {target[:40]!r}"
        )
    try:
        # Statements are sent as UTF-8, whatever encoding the address or the environment names.
        with psycopg.connect(dsn, client_encoding="UTF8") as connection:
            return _register_table(connection, schema, table, target, key, progress)
    except psycopg.errors.InsufficientPrivilege:
        raise Unavailable(
            "the database refuses; its user needs to read the table and to create the schema "
            f"{SCHEMA_NAME} and tables in it"
        ) from None
    except psycopg.Error:
        raise Unavailable(
            "the database did not do it; check its address, and its room on disk, and try again"
        ) from None


def _register_table(
    connection: Connection[TupleRow], schema: Schema, table: str, target: str, key: str, progress: Progress
) -> RegistrationReport:
    from psycopg import IsolationLevel

    connection.isolation_level = IsolationLevel.REPEATABLE_READ
    _prepare_transaction(connection, target)
    progress("reading")
    schema_name, dot, name = table.rpartition(".")
    raw_table = exp.table_(name, db=schema_name if dot else None, quoted=True)
    origins = _find_origins(connection, schema, raw_table)
    registration_report.refuse_kinds(schema, origins)
    progress("normalising")
    source_counts = _stage_rows(connection, schema, origins, raw_table)
    registration_report.refuse_unusable_rows(schema, source_counts)
    progress("bounding")
    snapshot_table = exp.table_(target, db=SCHEMA_NAME, quoted=True)
    bounded_rows = clamp_and_bound.select_bounded_rows(schema, key, STAGED_TABLE, POSTGRES_SYNTAX)
    _run_query(connection, bounded_rows.ctas(snapshot_table))
    progress("writing")
    connection.execute(f"ANALYZE {snapshot_table.sql('postgres')}".encode())
    summary_query = clamp_and_bound.select_snapshot_summary(schema, key, snapshot_table, POSTGRES_SYNTAX)
    return registration_report.build_registration_report(source_counts, _fetch_row(connection, summary_query))


def _prepare_transaction(connection: Connection[TupleRow], target: str) -> None:
    connection.execute("SET LOCAL standard_conforming_strings = on")
    connection.execute("SET LOCAL client_min_messages = error")
    encoding = connection.execute("SHOW server_encoding").fetchone()
    if encoding != ("UTF8",):
        raise InvalidInput("the database must be encoded in UTF8; copy the table to one that is")
    if connection.execute("SELECT 1 FROM pg_namespace WHERE nspname = %s", [SCHEMA_NAME]).fetchone() is None:
        connection.execute(f"CREATE SCHEMA {SCHEMA_NAME}")
    existing_table_query = (
        "SELECT 1 FROM pg_class JOIN pg_namespace n ON n.oid = relnamespace WHERE nspname = %s AND relname = %s"
    )
    if connection.execute(existing_table_query, [SCHEMA_NAME, target]).fetchone() is not None:
        raise InvalidInput(
            f"the table {SCHEMA_NAME}.{target} exists already; a snapshot is never overwritten, name another"
        )


def _find_origins(connection: Connection[TupleRow], schema: Schema, raw_table: exp.Table) -> dict[str, ColumnOrigin]:
    from psycopg import errors

    try:
        empty_result = _run_query(connection, exp.select("*").from_(raw_table).limit(0))
    except (errors.UndefinedTable, errors.InvalidSchemaName):
        raise InvalidInput(
            f"there is no table {raw_table.name[:40]!r} in the database; name it as schema.table"
        ) from None
    columns = empty_result.description or []
    registration_report.refuse_columns(schema, [column.name for column in columns])
    types_query = "SELECT oid, typname, typcategory FROM pg_type WHERE oid = ANY(%s)"
    codes = [column.type_code for column in columns]
    kinds = {
        oid: KIND_BY_TYPE.get(name, KIND_BY_TYPE_CATEGORY.get(group, "other"))
        for oid, name, group in connection.execute(types_query, [codes])
    }
    column_kinds = {column.name: kinds[column.type_code] for column in columns}
    return {name: ColumnOrigin(name, column_kinds[name]) for name in registration_report.list_required_columns(schema)}


def _stage_rows(
    connection: Connection[TupleRow], schema: Schema, origins: dict[str, ColumnOrigin], raw_table: exp.Table
) -> SourceCounts:
    for lookup in clamp_and_bound.build_lookup_tables(schema):
        name, kind = f"{TEMPORARY_PREFIX}{lookup.name}", 'text COLLATE "C"' if lookup.has_text_labels else "bigint"
        connection.execute(f"CREATE TEMP TABLE {name} (label {kind}, code bigint) ON COMMIT DROP".encode())
        with connection.cursor().copy(f"COPY {name} FROM STDIN".encode()) as copy:
            for pair in lookup.pairs:
                copy.write_row(pair)
        connection.execute(f"ANALYZE {name}".encode())
    query = clamp_and_bound.build_staging_query(schema, origins, raw_table, POSTGRES_SYNTAX, TEMPORARY_PREFIX)
    table = f"CREATE TEMP TABLE {STAGED_TABLE.name} ON COMMIT DROP"
    connection.execute(f"{table} AS {query.sql('postgres')}".encode())
    counts = _fetch_row(connection, clamp_and_bound.select_status_counts(schema, STAGED_TABLE))
    return registration_report.parse_source_counts(schema, counts)


def _run_query(connection: Connection[TupleRow], query: exp.Expr) -> Cursor[TupleRow]:
    return connection.execute(query.sql("postgres").encode())


def _fetch_row(connection: Connection[TupleRow], query: exp.Select) -> Sequence[int]:
    return _run_query(connection, query).fetchall()[0]
