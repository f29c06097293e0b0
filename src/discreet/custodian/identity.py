"""Whether a snapshot's files are those that were registered: by a digest on opening, then by what the system tells.

A PostgreSQL table has no files here; its database answers for it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from discreet.custodian.place import Place, Snapshot
from discreet.errors import Unavailable
from discreet.query.released import Batch, ReleasePlan
from discreet.query.totals import Amounts, Cell, Histogram, Totals
from discreet.schema import Schema
from discreet.sources.plan import Source

Found = TypeVar("Found")


@dataclass(frozen=True, slots=True)
class Seen:
    """One file as the system tells of it, by a glance."""

    name: str
    device: int
    inode: int
    size: int
    changed: int


def seen(path: Path) -> tuple[Seen, ...]:
    """Every file of a snapshot, which is a file or a folder; none where it is gone."""
    try:
        return tuple(_glance(file, path) for file in _files(path))
    except OSError:  # gone, or going
        return ()


def _files(path: Path) -> list[Path]:
    """Spark reads no file of a folder whose name begins with . or _, so that those are none of the snapshot's."""
    if not path.is_dir():
        return [path]
    return sorted(file for file in path.rglob("*") if file.is_file() and not file.name.startswith((".", "_")))


def _glance(file: Path, path: Path) -> Seen:
    told = file.stat()
    return Seen(str(file.relative_to(path)), told.st_dev, told.st_ino, told.st_size, told.st_mtime_ns)


def stamp(files: tuple[Seen, ...]) -> str:
    """A digest of names, sizes and times: what stays when a file is moved, or copied with its time."""
    return _digest(f"{one.name} {one.size} {one.changed}" for one in files)


def marks(path: Path) -> tuple[str, str]:
    """What is kept of a snapshot's files when it is registered: the digest of their bytes, and their stamp."""
    return contents(path), stamp(seen(path))


def contents(path: Path) -> str:
    """The SHA-256 of a file; of a folder, that of its files' as sha256sum lists them."""
    if path.is_dir():
        return _digest(f"{_sha256(file)}  {file.relative_to(path)}" for file in _files(path))
    return _sha256(path)


def _sha256(file: Path) -> str:
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _digest(lines: Iterator[str]) -> str:
    return hashlib.sha256("".join(f"{line}\n" for line in lines).encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class Files:
    """The files of an open snapshot, as they were when they were found to be those that were registered."""

    words: str
    path: Path
    seen: tuple[Seen, ...]

    @staticmethod
    def registered(schema: Schema, snapshot: Snapshot, path: Path) -> Files:
        """The files, or a refusal; they are read only where their stamp is not the one that is kept."""
        words = f"the snapshot {snapshot.name!r} of {schema.name}"
        found = Files(words, path, seen(path))
        if not found.seen:
            raise Unavailable(f"{words} is gone; register a new one")
        if snapshot.sha256 is not None and stamp(found.seen) != snapshot.stamp:
            found.require_contents(snapshot.sha256)
            found.require_same()
            _keep_stamp(schema, snapshot, stamp(found.seen))
        return found

    def require_contents(self, sha256: str) -> None:
        """Refuse files of other bytes."""
        try:
            same = contents(self.path) == sha256
        except OSError:
            raise Unavailable(f"{self.words} cannot be read; check its files and the disk") from None
        if not same:
            raise Unavailable(
                f"{self.words} is not the file that was registered; put that back, or register a new one: "
                "discreet check --refresh"
            )

    @property
    def same(self) -> bool:
        """Whether they are still those that were opened, as far as a glance tells."""
        return seen(self.path) == self.seen

    def require_same(self) -> None:
        """Refuse files that were changed, replaced or taken away since."""
        if not self.same:
            raise Unavailable(f"{self.words} was changed or taken away since it was opened; open the data set again")


def _keep_stamp(schema: Schema, snapshot: Snapshot, new: str) -> None:
    """Write down how files of the same bytes look now, if that can be, so that they are not read on every opening."""
    place = Place(schema)
    with suppress(Unavailable), place.locked():
        manifest = place.read()
        if manifest is not None:
            kept = (replace(one, stamp=new) if one.name == snapshot.name else one for one in manifest.snapshots)
            place.write(replace(manifest, snapshots=tuple(kept)))


@dataclass(frozen=True, slots=True)
class Watched:
    """A source of which nothing is told that was read while its files were changed: even in place, under an engine."""

    source: Source
    files: Files

    def totals(self, plan: Totals) -> Mapping[Cell, Amounts]:
        return self._sound(self.source.totals(plan))

    def histogram(self, plan: Histogram) -> Mapping[Cell, NDArray[np.int64]]:
        return self._sound(self.source.histogram(plan))

    def individual(self, column: str, unit: str) -> int | None:
        return self._sound(self.source.individual(column, unit))

    def count(self) -> int:
        return self._sound(self.source.count())

    def records(self) -> Iterator[Batch]:
        yield from self.source.records()
        self.files.require_same()

    def released(self, plan: ReleasePlan, key: str) -> Iterator[Batch]:
        yield from self.source.released(plan, key)
        self.files.require_same()

    def close(self) -> None:
        self.source.close()

    def _sound(self, found: Found) -> Found:
        self.files.require_same()
        return found


def is_current(schema: Schema, snapshot: Snapshot) -> bool:
    """Whether a snapshot is the last that was registered."""
    manifest = Place(schema).read()
    last = None if manifest is None or not manifest.snapshots else manifest.snapshots[-1]
    return last is not None and (last.name, last.target, last.made) == (snapshot.name, snapshot.target, snapshot.made)


def require_current(schema: Schema, snapshot: Snapshot, source: Source | None) -> None:
    """Refuse to answer from what is not, or no longer, the data set; of rows that are not open yet, by its name."""
    if isinstance(source, Watched):
        source.files.require_same()
    if not is_current(schema, snapshot):
        raise Unavailable(f"{schema.name} has another snapshot by now; open the data set again")
