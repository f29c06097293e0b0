"""The demo's folder: a made-up registry and all that was made of it, found again by later runs.

A mark in the folder says by which code it was made, and whether that run came to its end. Where anything is not as a
finished run of this very code leaves it, the folder is emptied and made anew: only a folder with a mark ever is.
"""

from __future__ import annotations

import csv
import hashlib
import json
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import discreet
from discreet import sample

MARK = "demo.json"
NEW = "it was not there"
HERE = Path(__file__).parent
PUBLIC = ("registry.yaml", "occupation.json", "diagnosis.json", "chapters.csv")
Row = dict[str, str]


class Stopped(Exception):
    """Why the demo cannot go on, in a sentence for the person at the screen."""


@dataclass(frozen=True)
class Work:
    """The folder, and what its mark told."""

    folder: Path
    patients: int
    releases: dict[str, Any]
    """What earlier runs published, by method."""
    why: str | None
    """Why it was made anew; None where all was found."""

    @property
    def schema(self) -> Path:
        """What is public of the registry."""
        return self.folder / "registry.yaml"

    @property
    def is_complete(self) -> bool:
        """Whether a finished run made all of it."""
        return self.why is None

    def finish(self, releases: dict[str, Any]) -> None:
        """Say that all is there; from now on it is found again."""
        _write_mark(self.folder, self.patients, releases, complete=True)


def prepare(folder: Path, patients: int, fresh: bool) -> Work:
    """Find the registry that an earlier run made, or empty its folder for a new one."""
    mark = _read_mark(folder)
    why = "as you asked" if fresh and mark is not None else _explain_new_start(folder, mark, patients)
    if why is None and mark is not None:
        return Work(folder, patients, mark["releases"], None)
    _empty_folder(folder)
    _write_mark(folder, patients, {}, complete=False)
    return Work(folder, patients, {}, why)


def write_registry_files(work: Work) -> None:
    """The sample registry, in which the custodian allows questions about one person."""
    schema = sample.write_registry(work.folder, work.patients)
    text = schema.read_text(encoding="utf-8")
    schema.write_text(text.replace("individual_queries: no", "individual_queries: yes"), encoding="utf-8")


def read_registry(work: Work) -> list[Row]:
    """All rows, for the truth beside the answers: the demo is the custodian too."""
    return [clamp_to_schema(row) for row in read_rows(work.folder / "registry.csv")]


def read_rows(file: Path) -> Iterator[Row]:
    """The rows of a CSV file."""
    with file.open(encoding="utf-8", newline="") as opened:
        yield from csv.DictReader(opened)


def clamp_to_schema(row: Row) -> Row:
    """As registration reads it: what is no number is missing, and what is beyond the bounds is moved to them."""
    age = row["age"]
    bounded = str(min(max(int(age), 17), 90)) if age.lstrip("-").isdigit() else ""
    return row | {"age": bounded, "income": "" if row["income"] == "n/a" else row["income"]}


def _read_mark(folder: Path) -> dict[str, Any] | None:
    """What the mark says; None where there is no mark."""
    try:
        mark = json.loads((folder / MARK).read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except ValueError:
        return {}
    return mark if isinstance(mark, dict) else {}


def _explain_new_start(folder: Path, mark: dict[str, Any] | None, patients: int) -> str | None:
    """What is not as a finished run of this code leaves it."""
    if mark is None:
        return NEW
    if not mark.get("complete"):
        return "an earlier run did not finish"
    if mark.get("made_by") != _compute_code_hash():
        return "it was made by another version"
    if mark.get("patients") != patients:
        return "another number of patients was asked for"
    return None if all((folder / name).exists() for name in mark["files"]) else "files of it are gone"


def _compute_code_hash() -> str:
    """A digest of the code that decides what is in the folder."""
    files = [Path(sample.__file__), *(HERE / name for name in ("registry.py", "questions.py", "files.py"))]
    code = hashlib.sha256(discreet.__version__.encode())
    for file in files:
        code.update(file.read_bytes())
    return code.hexdigest()


def _empty_folder(folder: Path) -> None:
    """All but the mark, which goes last of all: a folder that was half emptied can still be told for ours."""
    if folder.exists() and any(folder.iterdir()) and not (folder / MARK).exists():
        raise Stopped(
            f"{folder} holds files, and nothing says that the demo made them; delete it and run the demo again"
        )
    folder.mkdir(parents=True, exist_ok=True)
    for one in folder.iterdir():
        if one.is_dir() and not one.is_symlink():
            shutil.rmtree(one)
        elif one.name != MARK:
            one.unlink()


def _write_mark(folder: Path, patients: int, releases: dict[str, Any], complete: bool) -> None:
    """Written beside, then put in its place: whole or not at all."""
    files = ["registry.csv", *PUBLIC, "registry.discreet/ledger.db"]
    files += [name for one in releases.values() for name in (one["file"], one["manifest"], one["report"])]
    mark = {
        "complete": complete,
        "made_by": _compute_code_hash(),
        "patients": patients,
        "files": files,
        "releases": releases,
    }
    waiting = folder / f"{MARK}.new"
    waiting.touch(mode=0o600)  # it tells what reports say, which are the custodian's
    waiting.write_text(json.dumps(mark, indent=1), encoding="utf-8")
    waiting.replace(folder / MARK)
