"""Registering a data set: the custodian's step, the only one that may fail on a row."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from shutil import rmtree
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from discreet.custodian.identity import IntegrityCheckedSource, TrackedFiles, fingerprint_files
from discreet.custodian.place import (
    FIRST_SNAPSHOT,
    DatasetDir,
    DatasetManifest,
    Snapshot,
    check_snapshot_name,
    hash_layout,
)
from discreet.errors import InvalidInput, Unavailable
from discreet.planner.impossible import read_structural_zeros
from discreet.planner.published import check_published
from discreet.schema import Schema, SourceAddress

if TYPE_CHECKING:
    from discreet.sources.plan import Source
    from discreet.sources.registration import RegistrationReport

Progress = Callable[[str], None]
COMPARISON_PREFIX = ".again-"
"""How folders begin in which a table in memory is read once more, to be compared."""


def ignore_stage(stage: str) -> None:
    """Show nothing."""


def _check_declarations(schema: Schema) -> None:
    """What a schema says in SQL can be read."""
    check_published(schema)
    read_structural_zeros(schema)


def register_snapshot(
    schema: Schema,
    raw: object = None,
    name: str | None = None,
    disjoint: bool = False,
    progress: Progress = ignore_stage,
) -> Snapshot:
    """Turn the source into a new snapshot, which becomes the current one."""
    _check_declarations(schema)
    dataset_dir = DatasetDir(schema)
    with dataset_dir.lock():
        return _register_locked(
            schema,
            dataset_dir,
            dataset_dir.read_manifest() or DatasetManifest.new(schema),
            raw,
            name,
            disjoint,
            progress,
        )


def ensure_snapshot(schema: Schema, raw: object = None, progress: Progress = ignore_stage) -> Snapshot:
    """The current snapshot; registered now if there is none. Who finds one waits for no registration under way."""
    _check_declarations(schema)
    dataset_dir = DatasetDir(schema)
    manifest = dataset_dir.read_manifest()
    if manifest is None or not manifest.snapshots:
        with dataset_dir.lock():
            manifest = dataset_dir.read_manifest() or DatasetManifest.new(schema)
            if not manifest.snapshots:
                return _register_locked(schema, dataset_dir, manifest, raw, FIRST_SNAPSHOT, False, progress)
    manifest.require_promise(schema)
    snapshot = manifest.snapshots[-1]
    if (
        raw is not None
        and not isinstance(raw, str | Path)
        and not _is_same_table(schema, dataset_dir, manifest, raw, progress)
    ):
        raise InvalidInput(
            f"{schema.name} is registered already, of another table; leave source out, "
            "or make a new snapshot with Custodian.check(schema, source=...)"
        )
    return snapshot


def _is_same_table(
    schema: Schema, dataset_dir: DatasetDir, manifest: DatasetManifest, raw: object, progress: Progress
) -> bool:
    """Whether a table in memory is the one of the current snapshot, as when a notebook's cell is run again."""
    from discreet.sources.registration import register_duckdb

    snapshot = manifest.snapshots[-1]
    require_layout(schema, snapshot)
    with dataset_dir.lock():
        for leftover in dataset_dir.folder.glob(f"{COMPARISON_PREFIX}*"):
            rmtree(leftover)  # of a process that was killed
        with TemporaryDirectory(prefix=COMPARISON_PREFIX, dir=dataset_dir.folder) as folder:
            report = register_duckdb(schema, raw, Path(folder) / "again.duckdb", manifest.key, progress)
    return _report_to_dict(report) == snapshot.report


def _register_locked(
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
    timestamp = datetime.now(UTC).isoformat(timespec="seconds")
    fingerprints = (None, None) if engine == "postgres" else fingerprint_files(dataset_dir.folder / target)
    snapshot = Snapshot(
        new_name, engine, target, hash_layout(schema), timestamp, disjoint, _report_to_dict(report), *fingerprints
    )
    dataset_dir.write_manifest(manifest.with_snapshot(snapshot))
    return snapshot


def _report_to_dict(report: RegistrationReport) -> dict[str, object]:
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
        from discreet.sources.registration import register_postgres

        target = f"{schema.name}_{manifest.identity[:8]}_{name}"
        report = register_postgres(schema, address.location, address.table, target, manifest.key, progress)
        return "postgres", target, report
    if address.engine == "spark":
        from discreet.sources.registration import register_spark

        target = f"snapshot-{name}.parquet"
        report = register_spark(schema, get_spark_session(), address.table, folder / target, manifest.key, progress)
        return "spark", target, report
    return _register_in_duckdb(schema, schema.folder / address.location, folder, name, manifest.key, progress)


def _register_in_duckdb(
    schema: Schema, raw: object, folder: Path, name: str, key: str, progress: Progress
) -> tuple[str, str, RegistrationReport]:
    from discreet.sources.registration import register_duckdb

    target = f"snapshot-{name}.duckdb"
    (folder / target).unlink(missing_ok=True)  # of a registration that was cut short; the manifest names all others
    return "duckdb", target, register_duckdb(schema, raw, folder / target, key, progress)


def require_layout(schema: Schema, snapshot: Snapshot) -> None:
    """Refuse a snapshot that was made of another schema."""
    if snapshot.layout != hash_layout(schema):
        raise InvalidInput(
            f"the columns, unit or partition of {schema.name} changed since snapshot {snapshot.name!r} was made; "
            "register a new one with: discreet check --refresh"
        )


def open_source(schema: Schema, snapshot: Snapshot, raw: object = None) -> Source:
    """Where answers are read from: what was registered, and nothing else."""
    require_layout(schema, snapshot)
    if snapshot.engine == "postgres":
        from discreet.sources.postgres import PostgresSource

        return PostgresSource(schema, SourceAddress.of(str(raw or schema.source)).location, snapshot.target)
    path = DatasetDir(schema).folder / snapshot.target
    files = TrackedFiles.open_registered(schema, snapshot, path)
    source = _open_spark_source(schema, path) if snapshot.engine == "spark" else _open_duckdb_source(schema, path)
    try:
        files.require_unchanged()  # the engine may have opened another one than was looked at
    except Unavailable:
        source.close()
        raise
    return IntegrityCheckedSource(source, files)


def _open_spark_source(schema: Schema, path: Path) -> Source:
    from discreet.sources.spark import SparkSource

    return SparkSource(schema, get_spark_session(), path)


def _open_duckdb_source(schema: Schema, path: Path) -> Source:
    from discreet.sources.duckdb import DuckDBSource

    return DuckDBSource(schema, path)


def get_spark_session() -> Any:
    """The Spark session there is, or a quiet local one."""
    from discreet.sources.silence import silence_spark

    try:
        from pyspark.sql import SparkSession
    except ImportError:
        raise Unavailable("Spark is not installed; install discreet with its spark extra") from None
    session = SparkSession.builder.appName("discreet").getOrCreate()
    silence_spark(session)
    return session
