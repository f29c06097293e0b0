"""Registration in PostgreSQL: from a table to one of ours beside it, in one transaction, so all of it or nothing."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from sqlglot import exp

from discreet.errors import InvalidInput, Unavailable
from discreet.schema.schema import Schema
from discreet.sources.registration.bounding import counts, snapshot, summary
from discreet.sources.registration.refusals import needed, refuse_columns, refuse_found, refuse_kinds, refuse_schema
from discreet.sources.registration.report import Found, Progress, Report, found, report, silent
from discreet.sources.registration.sql import lookups, staged
from discreet.sources.registration.words import POSTGRES, Origin, SourceKind

if TYPE_CHECKING:
    from psycopg import Connection, Cursor
    from psycopg.rows import TupleRow

HOME = "discreet"
"""The schema of our tables."""
PREFIX = "discreet_"
"""Before the names of our temporary tables, which hide the custodian's tables of the same name."""
KINDS: dict[str, SourceKind] = {
    "bool": "boolean",
    "date": "date",
    "timestamp": "timestamp",
    "timestamptz": "instant",
    "numeric": "decimal",
    "uuid": "text",
    **dict.fromkeys(("int2", "int4", "int8"), "integer"),
    **dict.fromkeys(("float4", "float8"), "float"),
}
BY_CATEGORY: dict[str, SourceKind] = {"S": "text", "E": "text"}
"""All kinds of text, and enumerations."""


def register_postgres(
    schema: Schema, dsn: str, table: str, target: str, key: str, progress: Progress = silent
) -> Report:
    """Write the snapshot of a table, "name" or "schema.name", to the new table `target` in the schema discreet."""
    import psycopg

    refuse_schema(schema, key)
    if not re.fullmatch("[A-Za-z_][A-Za-z0-9_.-]{0,62}", target):
        raise InvalidInput(
            f"a snapshot's table is named with at most 63 letters, digits, _ . or -, got {target[:40]!r}"
        )
    try:
        # Statements are sent as UTF-8, whatever encoding the address or the environment names.
        with psycopg.connect(dsn, client_encoding="UTF8") as connection:
            return _register(connection, schema, table, target, key, progress)
    except psycopg.errors.InsufficientPrivilege:
        raise Unavailable(
            f"the database refuses; its user needs to read the table and to create the schema {HOME} and tables in it"
        ) from None
    except psycopg.Error:
        raise Unavailable(
            "the database did not do it; check its address, and its room on disk, and try again"
        ) from None


def _register(
    connection: Connection[TupleRow], schema: Schema, table: str, target: str, key: str, progress: Progress
) -> Report:
    from psycopg import IsolationLevel

    connection.isolation_level = IsolationLevel.REPEATABLE_READ
    _prepare(connection, target)
    progress("reading")
    raw = _named(table)
    origins = _origins(connection, schema, raw)
    refuse_kinds(schema, origins)
    progress("normalising")
    before = _stage(connection, schema, origins, raw)
    refuse_found(schema, before)
    progress("bounding")
    made = exp.table_(target, db=HOME, quoted=True)
    _run(connection, snapshot(schema, key, exp.table_(f"{PREFIX}staged"), POSTGRES).ctas(made))
    progress("writing")
    connection.execute(f"ANALYZE {made.sql('postgres')}".encode())
    return report(before, _one_row(connection, summary(schema, key, made, POSTGRES)))


def _prepare(connection: Connection[TupleRow], target: str) -> None:
    connection.execute("SET LOCAL standard_conforming_strings = on")
    connection.execute("SET LOCAL client_min_messages = error")
    encoding = connection.execute("SHOW server_encoding").fetchone()
    if encoding != ("UTF8",):
        raise InvalidInput("the database must be encoded in UTF8; copy the table to one that is")
    if connection.execute("SELECT 1 FROM pg_namespace WHERE nspname = %s", [HOME]).fetchone() is None:
        connection.execute(f"CREATE SCHEMA {HOME}")
    there = "SELECT 1 FROM pg_class JOIN pg_namespace n ON n.oid = relnamespace WHERE nspname = %s AND relname = %s"
    if connection.execute(there, [HOME, target]).fetchone() is not None:
        raise InvalidInput(f"the table {HOME}.{target} exists already; a snapshot is never overwritten, name another")


def _named(table: str) -> exp.Table:
    home, dot, name = table.rpartition(".")
    return exp.table_(name, db=home if dot else None, quoted=True)


def _origins(connection: Connection[TupleRow], schema: Schema, raw: exp.Table) -> dict[str, Origin]:
    from psycopg import errors

    try:
        nothing = _run(connection, exp.select("*").from_(raw).limit(0))
    except (errors.UndefinedTable, errors.InvalidSchemaName):
        raise InvalidInput(f"there is no table {raw.name[:40]!r} in the database; name it as schema.table") from None
    columns = nothing.description or []
    refuse_columns(schema, [column.name for column in columns])
    types = "SELECT oid, typname, typcategory FROM pg_type WHERE oid = ANY(%s)"
    codes = [column.type_code for column in columns]
    kinds = {
        oid: KINDS.get(name, BY_CATEGORY.get(group, "other")) for oid, name, group in connection.execute(types, [codes])
    }
    of = {column.name: kinds[column.type_code] for column in columns}
    return {name: Origin(name, of[name]) for name in needed(schema)}


def _stage(connection: Connection[TupleRow], schema: Schema, origins: dict[str, Origin], raw: exp.Table) -> Found:
    for lookup in lookups(schema):
        name, kind = f"{PREFIX}{lookup.name}", 'text COLLATE "C"' if lookup.of_texts else "bigint"
        connection.execute(f"CREATE TEMP TABLE {name} (label {kind}, code bigint) ON COMMIT DROP".encode())
        with connection.cursor().copy(f"COPY {name} FROM STDIN".encode()) as copy:
            for pair in lookup.pairs:
                copy.write_row(pair)
        connection.execute(f"ANALYZE {name}".encode())
    query = staged(schema, origins, raw, POSTGRES, PREFIX).sql("postgres")
    connection.execute(f"CREATE TEMP TABLE {PREFIX}staged ON COMMIT DROP AS {query}".encode())
    return found(schema, _one_row(connection, counts(schema, exp.table_(f"{PREFIX}staged"))))


def _run(connection: Connection[TupleRow], query: exp.Expr) -> Cursor[TupleRow]:
    return connection.execute(query.sql("postgres").encode())


def _one_row(connection: Connection[TupleRow], query: exp.Select) -> Sequence[int]:
    return _run(connection, query).fetchall()[0]
