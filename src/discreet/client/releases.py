"""Releases that a service makes: asked for as a job, then brought here, all their files or none."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from discreet.client.dataset import DataSet, paid_once, quoted
from discreet.client.jobs import Progress, job_path
from discreet.client.problem import document_of
from discreet.client.reading import Told, guarantee_from, read, sweep_from
from discreet.client.wire import Request, Wire
from discreet.custodian.writing import KINDS, MANIFEST, RELEASE, Targets, digest, manifest_of, move, staging
from discreet.errors import ClaimFailed, DiscreetError, InvalidInput
from discreet.release import Release

if TYPE_CHECKING:
    from discreet.assess.sweep import Sweep

CHANGED = "a file that came is not the one that was released; bring the release again"
SWEPT = "sweep.html"
"""What the service calls the report of a sweep."""


def place(out: str | Path, report: str | Path | None, force: bool, apart: bool = False) -> Targets:
    """Where a release goes here, refused before anything is made where it could not; `apart` goes to a folder."""
    table = _path(out, ("",) if apart else tuple(KINDS), "a folder of columns" if apart else "the released table")
    page = None if report is None else _path(report, (".html",), "a report from a service")
    targets = Targets(table, table, table / MANIFEST if apart else manifest_of(table), page, force, apart)
    _require_free(targets)
    return targets


def published(dataset: DataSet, said: Told, targets: Targets, key: str, progress: Progress) -> Release:
    """Have a release made, and bring it here."""
    asked: dict[str, object] = {"report": targets.report is not None}
    asked |= {} if targets.apart else {"format": targets.table.suffix.lower()[1:]}
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
        _require_free(targets)
    job = dataset.ask("/sweeps", said, key, progress)
    found = read(sweep_from, job.get("sweep"))
    if targets is not None:
        with staging(targets) as staged:
            staged[targets.table].touch(0o600)
            _download(dataset.wire, job, SWEPT, staged[targets.table])
            move(staged, force)
    return found


def _brought(wire: Wire, job: Told, targets: Targets) -> Release:
    """Every file checked against the manifest, then all put in place."""
    told = job.get("release")
    made, names = read(lambda document: (_release(document, targets), _names(document)), told)
    here = replace(targets, second=targets.table if targets.apart else made.files[-1], report=made.report)
    _require_free(here)
    places = [*made.files, made.manifest_file, *([] if made.report is None else [made.report])]
    with staging(here) as staged:
        if here.apart:
            staged[here.table].mkdir()
        if made.report is not None:  # figures of the original records are not for every user of the machine
            staged[made.report].touch(0o600)
        written = [staged.get(path) or staged[here.table] / path.name for path in places]
        for name, path in zip(names, written, strict=True):
            _download(wire, job, name, path)
        _check(written[: len(made.files)], written[len(made.files)], made.manifest)
        move(staged, here.force)
    return made


def _names(told: Told) -> list[str]:
    """What the service calls the tables, the manifest and the report."""
    return [str(name) for name in (*told["files"], told["manifest_file"], told["report"]) if name is not None]


def _release(told: Told, targets: Targets) -> Release:
    """The release with its places here."""
    return Release(
        name=told["name"],
        method=told["method"],
        guarantee=guarantee_from(told["guarantee"]),
        rows=told["rows"],
        files=_tables(told["files"], targets),
        manifest=dict(told["manifest"]),
        manifest_file=targets.manifest,
        entry=told["entry"],
        measured=dict(told["measured"]),
        report=None if told["report"] is None else targets.report,
        risk=told["risk"],
        utility=told["utility"],
        warnings=tuple(told["warnings"]),
    )


def _tables(names: Sequence[str], targets: Targets) -> tuple[Path, ...]:
    """The tables' places here; a second one, and columns in a folder, keep the names that their manifest has."""
    if targets.apart:
        return tuple(targets.table / _name(name.rpartition("/")[2]) for name in names)
    _, *second = names
    return targets.table, *(targets.table.with_name(_name(name)) for name in second)


def _name(name: str) -> str:
    """A plain name: nothing that leads to another folder."""
    if Path(name).name != name or not Path(name).suffix:
        raise ValueError
    return name


def _check(tables: list[Path], manifest_file: Path, manifest: Mapping[str, Any]) -> None:
    """What came is what the manifest was written for, and the manifest is the one that was told of."""
    hashes = read(lambda told: [one["sha256"] for one in told["files"]], manifest)
    if document_of(manifest_file.read_bytes()) != manifest or [digest(table) for table in tables] != hashes:
        raise ClaimFailed(CHANGED)


def _download(wire: Wire, job: Told, name: str, into: Path) -> None:
    wire.ask(Request.get(f"{job_path(job)}/files/{quoted(name)}"), into)


def _require_free(targets: Targets) -> None:
    """Refused where something is in the way; with force only what was brought here before is overwritten."""
    told = _text(targets.manifest)
    for path in dict.fromkeys(targets.all):
        if path.is_dir() and not (targets.apart and path == targets.table):
            raise InvalidInput(f"{path.name[:60]!r} is a folder; name a file")
        if path.exists() and not targets.force:
            raise InvalidInput(f"{path.name[:60]!r} is there already; name another, or overwrite it with force=True")
        if path.exists() and not _ours(path, targets, told if RELEASE in told else ""):
            raise InvalidInput(f"{path.name[:60]!r} is there and is no release or report of ours; name another file")


def _ours(path: Path, targets: Targets, manifest: str) -> bool:
    """Whether it is a report of ours, a manifest, its folder, or a table that it was written for, by its hash."""
    if path == targets.report:
        from discreet.assess.report import KEEP

        return KEEP in _text(path)
    return bool(manifest) and (path == targets.manifest or path.is_dir() or digest(path) in manifest)


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def _path(given: object, suffixes: tuple[str, ...], what: str) -> Path:
    path = Path(str(given)).absolute()
    if path.suffix.lower() not in suffixes:
        how = " or ".join(suffixes) or "without a suffix"
        raise InvalidInput(f"{what} is named {how}, got {path.name[:40]!r}")
    if not path.parent.is_dir():
        raise InvalidInput(f"the folder for {path.name[:40]!r} does not exist; make it first")
    return path
