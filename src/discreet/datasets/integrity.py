"""Open what was registered: snapshots whose files are checked before and after they are read, now or once needed.

A PostgreSQL table has no files here; its database answers for it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, TypeVar

import numpy as np
from numpy.typing import NDArray

from discreet.datasets.dataset_dir import FIRST_SNAPSHOT, DatasetDir, DatasetManifest, Snapshot, hash_layout
from discreet.errors import InvalidInput, Unavailable
from discreet.planner.public_facts import check_published, read_structural_zeros
from discreet.query.scan import Amounts, Cell, HistogramScan, ReleaseBatch, ReleasePlan, TotalsScan
from discreet.schema import Schema, SourceAddress
from discreet.sources.protocol import Source

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Result = TypeVar("Result")
Progress = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class FileStat:
    """What the file system says of one file, without reading it."""

    name: str
    device: int
    inode: int
    size: int
    changed: int


def stat_files(path: Path) -> tuple[FileStat, ...]:
    """List every file of a snapshot, which is a file or a folder; none where it is gone."""
    try:
        stats = [(str(file.relative_to(path)), file.stat()) for file in _list_files(path)]
    except OSError:  # gone, or going
        return ()
    return tuple(FileStat(name, stat.st_dev, stat.st_ino, stat.st_size, stat.st_mtime_ns) for name, stat in stats)


def _list_files(path: Path) -> list[Path]:
    """Spark reads no file of a folder whose name begins with . or _, so that those are none of the snapshot's."""
    if not path.is_dir():
        return [path]
    return sorted(file for file in path.rglob("*") if file.is_file() and not file.name.startswith((".", "_")))


def compute_stamp(files: tuple[FileStat, ...]) -> str:
    """Digest names, sizes and times, which stay when a file is moved, or copied with its time."""
    return _hash_lines(f"{file.name} {file.size} {file.changed}" for file in files)


def fingerprint_files(path: Path) -> tuple[str, str]:
    """Return the digest of the bytes of a snapshot's files, and their stamp."""
    return hash_contents(path), compute_stamp(stat_files(path))


def hash_contents(path: Path) -> str:
    """Compute the SHA-256 of a file; of a folder, that of its files' as sha256sum lists them."""
    if path.is_dir():
        return _hash_lines(f"{_hash_file(file)}  {file.relative_to(path)}" for file in _list_files(path))
    return _hash_file(path)


def _hash_file(file: Path) -> str:
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _hash_lines(lines: Iterator[str]) -> str:
    return hashlib.sha256("".join(f"{line}\n" for line in lines).encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class TrackedFiles:
    """The files of an open snapshot, as they were when they were found to be the registered ones."""

    description: str
    path: Path
    stats: tuple[FileStat, ...]

    @staticmethod
    def open_registered(schema: Schema, snapshot: Snapshot, path: Path) -> TrackedFiles:
        """Return the files, or refuse them; they are read only where their stamp is not the stored one."""
        description = f"the snapshot {snapshot.name!r} of {schema.name}"
        files = TrackedFiles(description, path, stat_files(path))
        if not files.stats:
            raise Unavailable(f"{description} is gone; register a new one")
        if snapshot.sha256 is not None and compute_stamp(files.stats) != snapshot.stamp:
            files.require_contents(snapshot.sha256)
            files.require_unchanged()
            _update_stamp(schema, snapshot, compute_stamp(files.stats))
        return files

    def require_contents(self, sha256: str) -> None:
        """Refuse files of other bytes."""
        try:
            is_same = hash_contents(self.path) == sha256
        except OSError:
            raise Unavailable(f"{self.description} cannot be read; check its files and the disk") from None
        if not is_same:
            raise Unavailable(
                f"{self.description} is not the file that was registered; put that back, or register a new one: "
                "discreet check --refresh"
            )

    @property
    def is_unchanged(self) -> bool:
        """Whether they are still those that were opened, by their names, sizes and times."""
        return stat_files(self.path) == self.stats

    def require_unchanged(self) -> None:
        """Refuse files that were changed, replaced or taken away since."""
        if not self.is_unchanged:
            raise Unavailable(
                f"{self.description} was changed or taken away since it was opened; open the data set again"
            )


def _update_stamp(schema: Schema, snapshot: Snapshot, new: str) -> None:
    """Store how files of the same bytes look now, if possible, so that they are not read on every opening."""
    dataset_dir = DatasetDir(schema)
    with suppress(Unavailable), dataset_dir.lock():
        manifest = dataset_dir.read_manifest()
        if manifest is not None:
            snapshots = [replace(old, stamp=new) if old.name == snapshot.name else old for old in manifest.snapshots]
            dataset_dir.write_manifest(replace(manifest, snapshots=tuple(snapshots)))


@dataclass(frozen=True, slots=True)
class IntegrityCheckedSource:
    """A source that returns nothing read while its files were changed, even in place under an engine."""

    source: Source
    files: TrackedFiles

    def totals(self, plan: TotalsScan) -> Mapping[Cell, Amounts]:
        return self._check_unchanged(self.source.totals(plan))

    def histogram(self, plan: HistogramScan) -> Mapping[Cell, NDArray[np.int64]]:
        return self._check_unchanged(self.source.histogram(plan))

    def individual(self, column: str, unit: str) -> int | None:
        return self._check_unchanged(self.source.individual(column, unit))

    def count(self) -> int:
        return self._check_unchanged(self.source.count())

    def records(self) -> Iterator[ReleaseBatch]:
        yield from self.source.records()
        self.files.require_unchanged()

    def release_rows(self, plan: ReleasePlan, key: str) -> Iterator[ReleaseBatch]:
        yield from self.source.release_rows(plan, key)
        self.files.require_unchanged()

    def close(self) -> None:
        self.source.close()

    def _check_unchanged(self, result: Result) -> Result:
        self.files.require_unchanged()
        return result


def is_current(schema: Schema, snapshot: Snapshot) -> bool:
    """Whether a snapshot is the last one registered."""
    manifest = DatasetDir(schema).read_manifest()
    last = None if manifest is None or not manifest.snapshots else manifest.snapshots[-1]
    return last is not None and (last.name, last.target, last.made) == (snapshot.name, snapshot.target, snapshot.made)


def require_current(schema: Schema, snapshot: Snapshot, source: Source | None) -> None:
    """Refuse to answer from changed files or an older snapshot; of rows that are not open yet, by its name alone."""
    if isinstance(source, IntegrityCheckedSource):
        source.files.require_unchanged()
    if not is_current(schema, snapshot):
        raise Unavailable(f"{schema.name} has another snapshot by now; open the data set again")


@dataclass(slots=True)
class LazySource:
    """The source that `opener` opens, once; threads may share it."""

    opener: Callable[[], Source]
    _source: Source | None = None
    _lock: Lock = field(default_factory=Lock)

    def totals(self, plan: TotalsScan) -> Mapping[Cell, Amounts]:
        return self.ensure_open().totals(plan)

    def histogram(self, plan: HistogramScan) -> Mapping[Cell, NDArray[np.int64]]:
        return self.ensure_open().histogram(plan)

    def individual(self, column: str, unit: str) -> int | None:
        return self.ensure_open().individual(column, unit)

    def count(self) -> int:
        return self.ensure_open().count()

    def records(self) -> Iterator[ReleaseBatch]:
        return self.ensure_open().records()

    def release_rows(self, plan: ReleasePlan, key: str) -> Iterator[ReleaseBatch]:
        return self.ensure_open().release_rows(plan, key)

    def close(self) -> None:
        if self._source is not None:
            self._source.close()

    @property
    def source(self) -> Source | None:
        """The open source, if there is one."""
        return self._source

    def ensure_open(self) -> Source:
        """Return the source, opened now if it was not."""
        with self._lock:
            if self._source is None:
                self._source = self.opener()
            return self._source


def ignore_stage(stage: str) -> None:
    """Show nothing."""


def check_declarations(schema: Schema) -> None:
    """Refuse a schema whose statements in SQL cannot be read."""
    check_published(schema)
    read_structural_zeros(schema)


def find_current_snapshot(schema: Schema) -> Snapshot | None:
    """Return the snapshot that answers come from; None if there is none yet."""
    manifest = DatasetDir(schema).read_manifest()
    if manifest is None or not manifest.snapshots:
        return None
    require_layout(schema, manifest.snapshots[-1])
    return manifest.snapshots[-1]


def ensure_snapshot(
    schema: Schema,
    raw: object = None,
    progress: Progress = ignore_stage,
    before_registering: Callable[[Schema], object] | None = None,
) -> Snapshot:
    """Return the current snapshot, registered now if there is none; one that exists waits for no other registration.

    `before_registering` may refuse by an error: then nothing is registered.
    """
    check_declarations(schema)
    dataset_dir = DatasetDir(schema)
    manifest = dataset_dir.read_manifest()
    if manifest is None or not manifest.snapshots:
        if before_registering is not None:
            before_registering(schema)
        with dataset_dir.lock():
            manifest = dataset_dir.read_manifest() or DatasetManifest.new(schema)
            if not manifest.snapshots:
                from discreet.datasets.registration import register_locked

                return register_locked(schema, dataset_dir, manifest, raw, FIRST_SNAPSHOT, False, progress)
    manifest.require_promise(schema)
    if raw is not None and not isinstance(raw, str | Path):
        _require_same_table(schema, dataset_dir, manifest, raw, progress)
    return manifest.snapshots[-1]


def _require_same_table(
    schema: Schema, dataset_dir: DatasetDir, manifest: DatasetManifest, raw: object, progress: Progress
) -> None:
    from discreet.datasets.registration import is_same_table

    if not is_same_table(schema, dataset_dir, manifest, raw, progress):
        raise InvalidInput(
            f"{schema.name} is registered already, of another table; leave source out, "
            "or make a new snapshot with Custodian.check(schema, source=...)"
        )


def require_layout(schema: Schema, snapshot: Snapshot) -> None:
    """Refuse a snapshot that was made with another schema."""
    if snapshot.layout != hash_layout(schema):
        raise InvalidInput(
            f"the columns, unit or partition of {schema.name} changed since snapshot {snapshot.name!r} was made; "
            "register a new one with: discreet check --refresh"
        )


def open_source(schema: Schema, snapshot: Snapshot, raw: object = None) -> Source:
    """Open what was registered, and nothing else."""
    require_layout(schema, snapshot)
    if snapshot.engine == "postgres":
        from discreet.sources.postgres import PostgresSource

        return PostgresSource(schema, SourceAddress.of(str(raw or schema.source)).location, snapshot.target)
    path = DatasetDir(schema).folder / snapshot.target
    files = TrackedFiles.open_registered(schema, snapshot, path)
    source: Source
    if snapshot.engine == "spark":
        from discreet.sources.spark import SparkSource

        source = SparkSource(schema, get_spark_session(), path)
    else:
        from discreet.sources.duckdb import DuckDBSource

        source = DuckDBSource(schema, path)
    try:
        files.require_unchanged()  # the engine may have opened another one than was looked at
    except Unavailable:
        source.close()
        raise
    return IntegrityCheckedSource(source, files)


def get_spark_session() -> SparkSession:
    """Return the Spark session there is, or a quiet local one."""
    from discreet.sources.ingest.spark import silence_spark

    try:
        from pyspark.sql import SparkSession
    except ImportError:
        raise Unavailable("Spark is not installed; install discreet with its spark extra") from None
    session = SparkSession.builder.appName("discreet").getOrCreate()
    silence_spark(session)
    return session
