"""A draft of a schema from the names and kinds of a table's columns. No value of a row enters it."""

from __future__ import annotations

import csv
import glob
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path

from discreet.errors import InvalidInput, Unavailable
from discreet.schema import SourceAddress
from discreet.schema.column import Kind
from discreet.schema.document import WHITESPACE
from discreet.schema.expect import SQL_NAME

ColumnKinds = Mapping[str, Kind]
"""The kind of each column."""

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


def draft_schema(data: str) -> str:
    """The YAML text of a draft, for a .csv or .parquet file, postgresql://host/db#schema.table or spark:table."""
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
    return DRAFT_TEMPLATE.format(name=name, source=source, columns="\n".join(_format_column_lines(kinds)))


def _format_column_lines(kinds: ColumnKinds) -> Iterator[str]:
    for name, kind in kinds.items():
        if SQL_NAME.fullmatch(name):
            yield f"  {name}: {{kind: {kind}{UNDECIDED_FIELDS[kind]}}}"
        else:
            yield f"  # {json.dumps(name)} is left out: call it by letters, digits and _ in the source to use it"


def _read_csv_kinds(path: str) -> ColumnKinds:
    """The first line names the columns. DuckDB's guess at that is not asked for: it may take a row for the names."""
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
    nonempty_texts = [text.strip(WHITESPACE) for text in texts if text.strip(WHITESPACE)]
    for kind, pattern in VALUE_PATTERNS:
        match_count = sum(
            len(text) <= MAX_VALUE_LENGTH and bool(re.fullmatch(pattern, text)) for text in nonempty_texts
        )
        if nonempty_texts and 10 * match_count >= 9 * len(nonempty_texts):
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
    """The types of no rows."""
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
