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

from discreet.custodian.place import Place
from discreet.errors import Unavailable

Labels = Mapping[str, NDArray[np.int64]]


@dataclass(frozen=True, slots=True)
class Kept:
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
        told: dict[str, object] = {"number": self.number, "name": self.name, "snapshot": self.snapshot}
        return told | {"method": self.method, "k": self.k, "sha256": self.sha256, "manifest": self.manifest}

    @staticmethod
    def from_json(told: Mapping[str, Any]) -> Kept:
        """The same, read back; ValueError where it is none."""
        if set(told) != {"number", "name", "snapshot", "method", "k", "sha256", "manifest"}:
            raise ValueError
        return Kept(
            number=told["number"],
            name=told["name"],
            snapshot=told["snapshot"],
            method=told["method"],
            k=told["k"],
            sha256=told["sha256"],
            manifest=told["manifest"],
        )


@dataclass(frozen=True, slots=True, eq=False)
class Alignment:
    """Row i of the released table is row `rows[i]` of the snapshot sorted by all its codes; `groups` are by i."""

    rows: NDArray[np.int64]
    groups: Labels


def kept_releases(place: Place) -> list[Kept]:
    """All releases so far, the first one first."""
    files = sorted((place.folder / "releases").glob("*.json"))
    try:
        return sorted(
            (Kept.from_json(json.loads(file.read_text(encoding="utf-8"))) for file in files), key=lambda one: one.number
        )
    except (OSError, ValueError, TypeError):
        raise Unavailable(
            f"the record of a release in {place.folder} cannot be read; restore it from a backup"
        ) from None


def next_number(place: Place) -> int:
    """A number that no release, and no trace of one, has."""
    found = (file.stem for file in (place.folder / "releases").glob("*.*"))
    return 1 + max((int(stem) for stem in found if stem.isdecimal()), default=0)


def take_number(place: Place, number: int) -> None:
    """A trace of a private file, which no row of belongs to anybody: its number is not given again."""
    folder = place.folder / "releases"
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        os.close(os.open(folder / f"{number}.private", os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
    except OSError:
        raise Unavailable(f"the folder {place.folder} cannot be written; check its owner and the disk") from None


def keep_release(place: Place, kept: Kept, alignment: Alignment) -> None:
    """Write it down, durably; the description last, so that what it describes is there."""
    folder = place.folder / "releases"
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        _write(folder / f"{kept.number}.npz", alignment)
        handle = os.open(folder / f"{kept.number}.json", os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            json.dump(kept.to_json(), file)
            file.flush()
            os.fsync(file.fileno())
    except OSError:
        raise Unavailable(f"the folder {place.folder} cannot be written; check its owner and the disk") from None


def _write(path: Path, alignment: Alignment) -> None:
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(handle, "wb") as file:
        labels = {f"group {name}": values for name, values in alignment.groups.items()}
        np.savez_compressed(file, allow_pickle=False, rows=alignment.rows, **labels)
        file.flush()
        os.fsync(file.fileno())


def alignment_of(place: Place, kept: Kept) -> Alignment:
    """Which row of a release is which of the snapshot."""
    try:
        with np.load(place.folder / "releases" / f"{kept.number}.npz") as found:
            groups = {name.removeprefix("group "): found[name] for name in found.files if name != "rows"}
            return Alignment(found["rows"], groups)
    except (OSError, ValueError, KeyError):
        raise Unavailable(f"the record of release {kept.number} cannot be read; restore it from a backup") from None


def labels_for(then: Alignment, rows: NDArray[np.int64]) -> Labels:
    """The groups of an earlier release for other rows of its snapshot; rows that it left out stand alone."""
    found = {}
    for name, labels in then.groups.items():
        most = int(max(then.rows.max(initial=0), rows.max(initial=0))) + 1
        at = labels.max(initial=0) + 1 + np.arange(most)
        at[then.rows] = labels
        found[name] = at[rows]
    return found
