"""What a custodian keeps of each release, in the data set's own folder: how it was made, and which row is whose.

None of it is for anybody else: with it every released row is its person's again.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.custodian.place import DatasetDir
from discreet.errors import Unavailable

Labels = Mapping[str, NDArray[np.int64]]


@dataclass(frozen=True, slots=True)
class ReleaseRecord:
    """One release: its number, the snapshot it was made of, and the hashes of its table and of its manifest."""

    number: int
    name: str
    snapshot: str
    method: str
    k: int
    sha256: str
    manifest: str

    def to_json(self) -> dict[str, object]:
        """As it is kept."""
        document: dict[str, object] = {"number": self.number, "name": self.name, "snapshot": self.snapshot}
        return document | {"method": self.method, "k": self.k, "sha256": self.sha256, "manifest": self.manifest}

    @staticmethod
    def from_json(document: Mapping[str, Any]) -> ReleaseRecord:
        """The same, read back; ValueError where it is none."""
        if set(document) != {"number", "name", "snapshot", "method", "k", "sha256", "manifest"}:
            raise ValueError
        return ReleaseRecord(
            number=document["number"],
            name=document["name"],
            snapshot=document["snapshot"],
            method=document["method"],
            k=document["k"],
            sha256=document["sha256"],
            manifest=document["manifest"],
        )


@dataclass(frozen=True, slots=True, eq=False)
class Alignment:
    """Row i of the released table is row `rows[i]` of the snapshot sorted by all its codes; `groups` are by i."""

    rows: NDArray[np.int64]
    groups: Labels


def read_release_records(dataset_dir: DatasetDir) -> list[ReleaseRecord]:
    """All releases so far, the first one first."""
    files = sorted((dataset_dir.folder / "releases").glob("*.json"))
    try:
        return sorted(
            (ReleaseRecord.from_json(json.loads(file.read_text(encoding="utf-8"))) for file in files),
            key=lambda record: record.number,
        )
    except (OSError, ValueError, TypeError):
        raise Unavailable(
            f"the record of a release in {dataset_dir.folder} cannot be read; restore it from a backup"
        ) from None


def find_next_release_number(dataset_dir: DatasetDir) -> int:
    """A number that no release, and no trace of one, has."""
    stems = (file.stem for file in (dataset_dir.folder / "releases").glob("*.*"))
    return 1 + max((int(stem) for stem in stems if stem.isdecimal()), default=0)


def reserve_release_number(dataset_dir: DatasetDir, number: int) -> None:
    """A trace of a private file, which no row of belongs to anybody: its number is not given again."""
    folder = dataset_dir.folder / "releases"
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        os.close(os.open(folder / f"{number}.private", os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
    except OSError:
        raise Unavailable(f"the folder {dataset_dir.folder} cannot be written; check its owner and the disk") from None


def store_release(dataset_dir: DatasetDir, record: ReleaseRecord, alignment: Alignment) -> None:
    """Write it down, durably; the description last, so that what it describes is there."""
    folder = dataset_dir.folder / "releases"
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        _write_alignment(folder / f"{record.number}.npz", alignment)
        handle = os.open(folder / f"{record.number}.json", os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            json.dump(record.to_json(), file)
            file.flush()
            os.fsync(file.fileno())
    except OSError:
        raise Unavailable(f"the folder {dataset_dir.folder} cannot be written; check its owner and the disk") from None


def _write_alignment(path: Path, alignment: Alignment) -> None:
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(handle, "wb") as file:
        labels = {f"group {name}": values for name, values in alignment.groups.items()}
        np.savez_compressed(file, allow_pickle=False, rows=alignment.rows, **labels)
        file.flush()
        os.fsync(file.fileno())


def read_alignment(dataset_dir: DatasetDir, record: ReleaseRecord) -> Alignment:
    """Which row of a release is which of the snapshot."""
    try:
        with np.load(dataset_dir.folder / "releases" / f"{record.number}.npz") as archive:
            groups = {name.removeprefix("group "): archive[name] for name in archive.files if name != "rows"}
            return Alignment(archive["rows"], groups)
    except (OSError, ValueError, KeyError):
        raise Unavailable(f"the record of release {record.number} cannot be read; restore it from a backup") from None


def map_labels_to_rows(alignment: Alignment, rows: NDArray[np.int64]) -> Labels:
    """The groups of an earlier release for other rows of its snapshot; rows that it left out stand alone."""
    row_labels = {}
    for name, labels in alignment.groups.items():
        row_count = int(max(alignment.rows.max(initial=0), rows.max(initial=0))) + 1
        all_labels = labels.max(initial=0) + 1 + np.arange(row_count)
        all_labels[alignment.rows] = labels
        row_labels[name] = all_labels[rows]
    return row_labels
