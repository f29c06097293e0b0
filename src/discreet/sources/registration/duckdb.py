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
from discreet.sources.registration.bounding import counts, snapshot, summary
from discreet.sources.registration.opening import open_raw
from discreet.sources.registration.refusals import refuse_existing, refuse_found, refuse_kinds, refuse_schema
from discreet.sources.registration.report import Found, Progress, Report, found, report, silent
from discreet.sources.registration.sql import lookups, staged
from discreet.sources.registration.words import DUCKDB, Origin, call

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

MEMORY = "2GB"
"""What DuckDB may use before it goes to disk."""
AT_ONCE = 20_000_000
"""How many values DuckDB ranks at a time: it keeps those in memory, in under a gigabyte."""


def register_duckdb(
    schema: Schema, raw: object, target: Path, key: str, progress: Progress = silent, at_once: int = AT_ONCE
) -> Report:
    """Write the snapshot of a CSV or Parquet file, or of a pandas, Polars or Arrow table, to a new DuckDB file."""
    import duckdb

    refuse_schema(schema, key)
    refuse_existing(target)
    try:
        with tempfile.TemporaryDirectory(prefix=".discreet-", dir=target.parent) as name, _engine(Path(name)) as engine:
            progress("reading")
            origins = open_raw(engine, schema, raw)
            refuse_kinds(schema, origins)
            progress("normalising")
            before = _stage(engine, schema, origins)
            refuse_found(schema, before)
            progress("bounding")
            values = before.rows * (len(schema.columns) + 1)
            made = _make(engine, schema, key, Path(name), parts=1 + values // at_once)
            progress("writing")
            after = _close(engine, schema, key)
            made.chmod(0o600)
            os.rename(made, target)
            return report(before, after)
    except (duckdb.Error, OSError):
        raise Unavailable("the snapshot was not made; check that disk and memory have room, and try again") from None


@contextmanager
def _engine(folder: Path) -> Iterator[DuckDBPyConnection]:
    """A DuckDB of our own, which keeps what does not fit memory in a folder that will be deleted."""
    import duckdb

    with duckdb.connect(str(folder / "work.duckdb")) as engine:
        engine.execute("SET temp_directory = ?", [str(folder / "spill")])
        engine.execute("SET memory_limit = ?", [MEMORY])
        engine.execute("SET preserve_insertion_order = false")
        engine.execute("SET autoinstall_known_extensions = false")
        engine.execute("SET TimeZone = 'UTC'")
        yield engine


def _stage(engine: DuckDBPyConnection, schema: Schema, origins: dict[str, Origin]) -> Found:
    import duckdb

    for lookup in lookups(schema):
        kind = "VARCHAR" if lookup.of_texts else "BIGINT"
        columns = f"unnest(?::{kind}[]) AS label, unnest(?::BIGINT[]) AS code"
        pairs = [[label for label, _ in lookup.pairs], [code for _, code in lookup.pairs]]
        engine.execute(f"CREATE TABLE {lookup.name} AS SELECT {columns}", pairs)
    try:
        whole = staged(schema, origins, exp.table_("raw"), DUCKDB).ctas("staged", copy=False)
        engine.execute(whole.sql("duckdb", copy=False))
    except (duckdb.DataError, duckdb.InvalidInputException, duckdb.InternalException):
        # Not by our casts: the file is damaged, a text is not UTF-8, or pandas mixes kinds of values in a column.
        raise InvalidInput(
            "the source cannot be read to its end; check that the file is whole and its text is UTF-8, "
            "and convert columns of mixed types to text"
        ) from None
    return found(schema, _one_row(engine, counts(schema, exp.table_("staged"))))


def _make(engine: DuckDBPyConnection, schema: Schema, key: str, folder: Path, parts: int) -> Path:
    """The file of the snapshot; units are gone through in parts, since DuckDB ranks in memory."""
    file = folder / "snapshot.duckdb"
    engine.execute(f"ATTACH {exp.convert(str(file)).sql('duckdb')} AS made")
    for part in range(1 if schema.unit is None else parts):
        among = (call("HASH", exp.column("u")) % parts).eq(part)
        kept = snapshot(schema, key, exp.table_("staged"), DUCKDB, among).sql("duckdb", copy=False)
        engine.execute(f"INSERT INTO made.snapshot {kept}" if part else f"CREATE TABLE made.snapshot AS {kept}")
    return file


def _close(engine: DuckDBPyConnection, schema: Schema, key: str) -> Sequence[int]:
    """The totals of the snapshot, once its file is whole and let go of."""
    after = _one_row(engine, summary(schema, key, exp.table_("snapshot", db="made"), DUCKDB))
    engine.execute("CHECKPOINT made")
    engine.execute("DETACH made")
    return after


def _one_row(engine: DuckDBPyConnection, query: exp.Select) -> Sequence[int]:
    return engine.execute(query.sql("duckdb", copy=False)).fetchall()[0]
