"""Registering a data set: the custodian's step, the only one that may fail on a row."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from shutil import rmtree
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from discreet.custodian.identity import Files, Watched, marks
from discreet.custodian.place import FIRST, Manifest, Place, Snapshot, layout, snapshot_name
from discreet.errors import InvalidInput, Unavailable
from discreet.planner.impossible import impossible
from discreet.planner.published import check_published
from discreet.schema import Schema
from discreet.schema.address import Address

if TYPE_CHECKING:
    from discreet.sources.plan import Source
    from discreet.sources.registration import Report

Progress = Callable[[str], None]
AGAIN = ".again-"
"""How folders begin in which a table in memory is read once more, to be compared."""


def silent(stage: str) -> None:
    """Show nothing."""


def _check(schema: Schema) -> None:
    """What a schema says in SQL can be read."""
    check_published(schema)
    impossible(schema)


def register(
    schema: Schema, raw: object = None, name: str | None = None, disjoint: bool = False, progress: Progress = silent
) -> Snapshot:
    """Turn the source into a new snapshot, which becomes the current one."""
    _check(schema)
    place = Place(schema)
    with place.locked():
        return _registered(schema, place, place.read() or Manifest.new(schema), raw, name, disjoint, progress)


def first_use(schema: Schema, raw: object = None, progress: Progress = silent) -> Snapshot:
    """The current snapshot; registered now if there is none. Who finds one waits for no registration under way."""
    _check(schema)
    place = Place(schema)
    manifest = place.read()
    if manifest is None or not manifest.snapshots:
        with place.locked():
            manifest = place.read() or Manifest.new(schema)
            if not manifest.snapshots:
                return _registered(schema, place, manifest, raw, FIRST, False, progress)
    manifest.require_promise(schema)
    snapshot = manifest.snapshots[-1]
    if raw is not None and not isinstance(raw, str | Path) and not _same(schema, place, manifest, raw, progress):
        raise InvalidInput(
            f"{schema.name} is registered already, of another table; leave source out, "
            "or make a new snapshot with Custodian.check(schema, source=...)"
        )
    return snapshot


def _same(schema: Schema, place: Place, manifest: Manifest, raw: object, progress: Progress) -> bool:
    """Whether a table in memory is the one of the current snapshot, as when a notebook's cell is run again."""
    from discreet.sources.registration import register_duckdb

    snapshot = manifest.snapshots[-1]
    require_layout(schema, snapshot)
    with place.locked():
        for left in place.folder.glob(f"{AGAIN}*"):
            rmtree(left)  # of a process that was killed
        with TemporaryDirectory(prefix=AGAIN, dir=place.folder) as folder:
            report = register_duckdb(schema, raw, Path(folder) / "again.duckdb", manifest.key, progress)
    return _told(report) == snapshot.report


def _registered(
    schema: Schema,
    place: Place,
    manifest: Manifest,
    raw: object,
    name: str | None,
    disjoint: bool,
    progress: Progress,
) -> Snapshot:
    manifest.require_promise(schema)
    own = snapshot_name(name or str(len(manifest.snapshots) + 1))
    if own in {snapshot.name for snapshot in manifest.snapshots}:
        raise InvalidInput(f"there is a snapshot {own!r} already; name the new one otherwise")
    engine, target, report = _read(schema, place.folder, manifest, raw, own, progress)
    made = datetime.now(UTC).isoformat(timespec="seconds")
    kept = (None, None) if engine == "postgres" else marks(place.folder / target)
    snapshot = Snapshot(own, engine, target, layout(schema), made, disjoint, _told(report), *kept)
    place.write(manifest.with_snapshot(snapshot))
    return snapshot


def _told(report: Report) -> dict[str, object]:
    """A report as it is kept."""
    return {
        "rows_read": report.rows_read,
        "rows_kept": report.rows_kept,
        "without_unit": report.without_unit,
        "units": report.units,
        "fingerprint": report.fingerprint,
        "columns": {
            name: {"missing": column.missing, "unreadable": column.unreadable, "clipped": column.clipped}
            for name, column in report.columns.items()
        },
    }


def _read(
    schema: Schema, folder: Path, manifest: Manifest, raw: object, name: str, progress: Progress
) -> tuple[str, str, Report]:
    """Read the source once with its engine: files and tables in memory with DuckDB."""
    if raw is not None and not isinstance(raw, str | Path):
        return _on_duckdb(schema, raw, folder, name, manifest.key, progress)
    address = Address.of(str(raw or schema.source))
    if address.engine == "memory":
        raise InvalidInput(f"the source of {schema.name} is memory: hand the table over with source=, once")
    if address.engine == "postgres":
        from discreet.sources.registration import register_postgres

        target = f"{schema.name}_{manifest.identity[:8]}_{name}"
        report = register_postgres(schema, address.place, address.table, target, manifest.key, progress)
        return "postgres", target, report
    if address.engine == "spark":
        from discreet.sources.registration import register_spark

        target = f"snapshot-{name}.parquet"
        report = register_spark(schema, spark_session(), address.table, folder / target, manifest.key, progress)
        return "spark", target, report
    return _on_duckdb(schema, schema.folder / address.place, folder, name, manifest.key, progress)


def _on_duckdb(
    schema: Schema, raw: object, folder: Path, name: str, key: str, progress: Progress
) -> tuple[str, str, Report]:
    from discreet.sources.registration import register_duckdb

    target = f"snapshot-{name}.duckdb"
    (folder / target).unlink(missing_ok=True)  # of a registration that was cut short; the manifest names all others
    return "duckdb", target, register_duckdb(schema, raw, folder / target, key, progress)


def require_layout(schema: Schema, snapshot: Snapshot) -> None:
    """Refuse a snapshot that was made of another schema."""
    if snapshot.layout != layout(schema):
        raise InvalidInput(
            f"the columns, unit or partition of {schema.name} changed since snapshot {snapshot.name!r} was made; "
            "register a new one with: discreet check --refresh"
        )


def open_source(schema: Schema, snapshot: Snapshot, raw: object = None) -> Source:
    """Where answers are read from: what was registered, and nothing else."""
    require_layout(schema, snapshot)
    if snapshot.engine == "postgres":
        from discreet.sources.postgres import PostgresSource

        return PostgresSource(schema, Address.of(str(raw or schema.source)).place, snapshot.target)
    path = Place(schema).folder / snapshot.target
    files = Files.registered(schema, snapshot, path)
    source = _on_spark(schema, path) if snapshot.engine == "spark" else _in_duckdb(schema, path)
    try:
        files.require_same()  # the engine may have opened another one than was looked at
    except Unavailable:
        source.close()
        raise
    return Watched(source, files)


def _on_spark(schema: Schema, path: Path) -> Source:
    from discreet.sources.spark import SparkSource

    return SparkSource(schema, spark_session(), path)


def _in_duckdb(schema: Schema, path: Path) -> Source:
    from discreet.sources.duckdb import DuckDBSource

    return DuckDBSource(schema, path)


def spark_session() -> Any:
    """The Spark session there is, or a quiet local one."""
    from discreet.sources.silence import silence

    try:
        from pyspark.sql import SparkSession
    except ImportError:
        raise Unavailable("Spark is not installed; install discreet with its spark extra") from None
    session = SparkSession.builder.appName("discreet").getOrCreate()
    silence(session)
    return session
