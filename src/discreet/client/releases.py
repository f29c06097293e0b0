"""Releases that a service makes: asked for as a job, then brought here, all their files or none."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from discreet.client.dataset import DataSet, paid_once, quoted
from discreet.client.jobs import Progress, job_path
from discreet.client.reading import Told, guarantee_from, read, sweep_from
from discreet.client.wire import Request, Wire
from discreet.custodian.writing import KINDS, Targets, digest, manifest_of, move, staging
from discreet.errors import ClaimFailed, DiscreetError, InvalidInput, Unsupported
from discreet.release import Release

if TYPE_CHECKING:
    from discreet.assess.sweep import Sweep

APART = "columns that are kept apart are not brought over HTTP; publish them where the custodian is, or as one file"
CHANGED = "a file that came is not the one that was released; bring the release again"
SWEPT = "sweep.html"
"""What the service calls the report of a sweep."""


def place(out: str | Path, report: str | Path | None, force: bool) -> Targets:
    """Where a release goes here, refused before anything is made where it could not."""
    table = _path(out, tuple(KINDS), "the released table")
    page = None if report is None else _path(report, (".html",), "a report from a service")
    targets = Targets(table, table, manifest_of(table), page, force)
    targets.require_free(two=False)
    return targets


def published(dataset: DataSet, said: Told, targets: Targets, key: str, progress: Progress) -> Release:
    """Have a release made, and bring it here."""
    if said.get("apart"):
        raise Unsupported(APART)
    asked = {"format": targets.table.suffix.lower()[1:], "report": targets.report is not None}
    with paid_once(key):
        job = dataset.ask("/releases", {**said, **asked}, key, progress)
    try:
        progress("bringing the files")
        return _brought(dataset.wire, job, targets)
    except DiscreetError as failure:
        made = f"the release is made and entered, and its files are those of job {str(job.get('id'))[:40]}"
        raise type(failure)(f"{failure}; {made} at the service") from None


def swept(dataset: DataSet, said: Told, report: str | Path | None, force: bool, key: str, progress: Progress) -> Sweep:
    """Have methods compared; with a report, bring that here."""
    page = None if report is None else _path(report, (".html",), "a report from a service")
    targets = None if page is None else Targets(page, page, page, page, force)
    if targets is not None:
        targets.require_free(two=False)
    job = dataset.ask("/sweeps", said, key, progress)
    found = read(sweep_from, job.get("sweep"))
    if targets is not None:
        with staging(targets) as staged:
            _download(dataset.wire, job, SWEPT, staged[targets.table])
            move(staged, force)
    return found


def _brought(wire: Wire, job: Told, targets: Targets) -> Release:
    """Every file checked against the manifest, then all put in place."""
    told = job.get("release")
    made, names = read(lambda document: (_release(document, targets), _names(document)), told)
    here = replace(targets, second=made.files[-1], report=made.report)
    here.require_free(two=len(made.files) > 1)
    places = [*made.files, made.manifest_file, *([] if made.report is None else [made.report])]
    with staging(here) as staged:
        for name, path in zip(names, places, strict=True):
            _download(wire, job, name, staged[path])
        _check([staged[path] for path in made.files], staged[made.manifest_file], made.manifest)
        move(staged, here.force)
    return made


def _names(told: Told) -> list[str]:
    """What the service calls the tables, the manifest and the report."""
    return [str(name) for name in (*told["files"][:2], told["manifest_file"], told["report"]) if name is not None]


def _release(told: Told, targets: Targets) -> Release:
    """The release with its places here; a second table keeps the name by which its manifest knows it."""
    second = [targets.table.with_name(_name(name)) for name in told["files"][1:2]]
    return Release(
        name=told["name"],
        method=told["method"],
        guarantee=guarantee_from(told["guarantee"]),
        rows=told["rows"],
        files=(targets.table, *second),
        manifest=dict(told["manifest"]),
        manifest_file=targets.manifest,
        entry=told["entry"],
        measured=dict(told["measured"]),
        report=None if told["report"] is None else targets.report,
        risk=told["risk"],
        utility=told["utility"],
        warnings=tuple(told["warnings"]),
    )


def _name(name: str) -> str:
    """A plain name: nothing that leads to another folder."""
    if Path(name).name != name or not Path(name).suffix:
        raise ValueError
    return name


def _check(tables: list[Path], manifest_file: Path, manifest: Mapping[str, Any]) -> None:
    """What came is what the manifest was written for, and the manifest is the one that was told of."""
    written = None
    with suppress(OSError, ValueError):
        written = json.loads(manifest_file.read_text(encoding="utf-8"))
    hashes = read(lambda told: [one["sha256"] for one in told["files"]], manifest)
    if written != manifest or [digest(table) for table in tables] != hashes:
        raise ClaimFailed(CHANGED)


def _download(wire: Wire, job: Told, name: str, into: Path) -> None:
    wire.ask(Request.get(f"{job_path(job)}/files/{quoted(name)}"), into)


def _path(given: object, suffixes: tuple[str, ...], what: str) -> Path:
    path = Path(str(given)).absolute()
    if path.suffix.lower() not in suffixes:
        raise InvalidInput(f"{what} is named {' or '.join(suffixes)}, got {path.name[:40]!r}")
    if not path.parent.is_dir():
        raise InvalidInput(f"the folder for {path.name[:40]!r} does not exist; make it first")
    return path
