"""Requests about a data set of a service: jobs, and releases whose files are downloaded and checked."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import quote

from discreet.client.transport import (
    UNREADABLE,
    HttpRequest,
    RequestNotSent,
    Transport,
    build_problem_error,
    parse_reply_json,
)
from discreet.errors import ClaimFailed, DiscreetError, InvalidInput, Unavailable
from discreet.privacy.cost import require_storable_text
from discreet.privacy.guarantee import Guarantee
from discreet.release.files import (
    COPY_OPTIONS,
    MANIFEST_NAME,
    RELEASE_FORMAT,
    ReleaseTargets,
    get_manifest_path,
    hash_file,
    move_staged_files,
    stage_targets,
)
from discreet.release.manifest import Release

if TYPE_CHECKING:
    from discreet.sdc.sweep import SweepResult


Progress = Callable[[str], None]
JsonObject = Mapping[str, Any]
Value = TypeVar("Value")
BACKOFF_FACTOR = 1.5
MAX_POLL_SECONDS = 15.0
"""Seconds between two polls of a job, unless the deadline is longer."""
FILE_MISMATCH = "a file that came is not the one that was released; bring the release again"
SWEEP_REPORT = "sweep.html"
"""The name that the service gives the report of a sweep."""


def decode_reply(decoder: Callable[[Any], Value], document: object) -> Value:
    """Decode a document; one that is not of the expected form is refused as an unreadable reply."""
    try:
        return decoder(document)
    except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError):
        raise Unavailable(f"the service {UNREADABLE}") from None


def ignore_job_stage(stage: str) -> None:
    """Ignore the stages of a job."""


def quote_path_part(name: object) -> str:
    """Quote a name as one part of a path."""
    return quote(str(name), safe="")


def get_job_path(job: JsonObject) -> str:
    """Build the path of a job."""
    return f"/v1/jobs/{quote_path_part(job.get('id'))}"


def wait_for_job(transport: Transport, job: JsonObject, deadline: float, progress: Progress) -> JsonObject:
    """Poll a job, ever more slowly, until it is done; raise the error of one that failed."""
    pause = deadline
    while job.get("state") in {"waiting", "running"}:
        progress(str(job.get("stage") or job["state"]))
        transport.sleep(pause)
        pause = max(deadline, min(pause * BACKOFF_FACTOR, MAX_POLL_SECONDS))
        job = decode_reply(dict, transport.send(HttpRequest.get(get_job_path(job))))
    if job.get("state") != "done":
        raise build_problem_error(job.get("problem"))
    return job


@dataclass(frozen=True, slots=True)
class RemoteDataset:
    """The path of a data set, and the transport that its requests take."""

    transport: Transport
    path: str

    @staticmethod
    def for_name(transport: Transport, name: str, rehearsal: bool) -> RemoteDataset:
        """Find the path of a data set, or of its rehearsal."""
        parent_path = "/v1/rehearsal/datasets" if rehearsal else "/v1/datasets"
        return RemoteDataset(transport, f"{parent_path}/{quote_path_part(require_storable_text(name, 'dataset'))}")

    def fetch(self, subpath: str = "") -> JsonObject:
        """Get a document about the data set."""
        return decode_reply(dict, self.transport.send(HttpRequest.get(self.path + subpath)))

    def submit(
        self, subpath: str, body: JsonObject, key: str | None = None, progress: Progress = ignore_job_stage
    ) -> JsonObject:
        """Post a request; return the document of the reply, of long work the job once it is done."""
        document = decode_reply(dict, self.transport.send(HttpRequest.post(self.path + subpath, body, key)))
        if "state" not in document:
            return document
        deadline = decode_reply(lambda dataset: float(dataset["deadline"]), self.fetch())
        return wait_for_job(self.transport, document, deadline, progress)

    def submit_question(self, body: JsonObject, key: str) -> JsonObject:
        """Ask a question; return the document of its answer, also where the data set runs questions as jobs."""
        document = self.submit("/answers", body, key)
        return self.fetch(f"/answers/{quote_path_part(document.get('answer'))}") if "state" in document else document

    def delete(self, subpath: str) -> None:
        """Delete something that the service holds."""
        self.transport.send(HttpRequest("DELETE", self.path + subpath))


@contextmanager
def attach_retry_key(key: str) -> Iterator[None]:
    """Name, in the error of a lost request, the key that makes a repetition free; not if it was never sent."""
    try:
        yield
    except RequestNotSent as failure:
        raise Unavailable(str(failure)) from None
    except Unavailable as failure:
        advice = f"whether it was charged is not known, but the same call with key={key!r} is not charged twice"
        raise Unavailable(f"{failure}; {advice}") from None


def resolve_targets(out: str | Path, report: str | Path | None, force: bool, apart: bool = False) -> ReleaseTargets:
    """Check where a release goes on this machine before it is made; with `apart` it goes to a folder."""
    table = _check_output_path(
        out, ("",) if apart else tuple(COPY_OPTIONS), "a folder of columns" if apart else "the released table"
    )
    report_path = _check_report_path(report)
    targets = ReleaseTargets(
        table, table, table / MANIFEST_NAME if apart else get_manifest_path(table), report_path, force, apart
    )
    _require_free(targets)
    return targets


def request_release(
    dataset: RemoteDataset, recipe: JsonObject, targets: ReleaseTargets, key: str, progress: Progress
) -> Release:
    """Have a release made, and download it."""
    output_options: dict[str, object] = {"report": targets.report is not None}
    if not targets.apart:
        output_options["format"] = targets.table.suffix.lower()[1:]
    with attach_retry_key(key):
        job = dataset.submit("/releases", {**recipe, **output_options}, key, progress)
    try:
        progress("bringing the files")
        return _download_release(dataset.transport, job, targets)
    except DiscreetError as failure:
        note = f"the release is made and entered, and its files are those of job {str(job.get('id'))[:40]}"
        raise type(failure)(f"{failure}; {note} at the service") from None


def request_sweep(
    dataset: RemoteDataset, recipe: JsonObject, report: str | Path | None, force: bool, key: str, progress: Progress
) -> SweepResult:
    """Have methods compared; with `report`, download the report."""
    report_path = _check_report_path(report)
    targets = None if report_path is None else ReleaseTargets(report_path, report_path, report_path, report_path, force)
    if targets is not None:
        _require_free(targets)
    from discreet.sdc.sweep import SweepResult

    job = dataset.submit("/sweeps", recipe, key, progress)
    sweep = decode_reply(SweepResult.from_json, job.get("sweep"))
    if targets is not None:
        with stage_targets(targets) as staged_paths:
            staged_paths[targets.table].touch(0o600)
            _download_file(dataset.transport, job, SWEEP_REPORT, staged_paths[targets.table])
            move_staged_files(staged_paths, force)
    return sweep


def _download_release(transport: Transport, job: JsonObject, targets: ReleaseTargets) -> Release:
    """Download every file, check all against the manifest, then move them to their places."""
    release, names = decode_reply(lambda document: _decode_release(document, targets), job.get("release"))
    final_targets = replace(
        targets, second=targets.table if targets.apart else release.files[-1], report=release.report
    )
    _require_free(final_targets)
    final_paths = [*release.files, release.manifest_file, *([] if release.report is None else [release.report])]
    with stage_targets(final_targets) as staged_paths:
        if final_targets.apart:
            staged_paths[final_targets.table].mkdir()
        if release.report is not None:  # figures of the original records are not for every user of the machine
            staged_paths[release.report].touch(0o600)
        downloaded_paths = [
            staged_paths.get(path) or staged_paths[final_targets.table] / path.name for path in final_paths
        ]
        for name, path in zip(names, downloaded_paths, strict=True):
            _download_file(transport, job, name, path)
        tables, (manifest_file, *_) = downloaded_paths[: len(release.files)], downloaded_paths[len(release.files) :]
        hashes = decode_reply(lambda document: [entry["sha256"] for entry in document["files"]], release.manifest)
        if parse_reply_json(manifest_file.read_bytes()) != release.manifest or list(map(hash_file, tables)) != hashes:
            raise ClaimFailed(FILE_MISMATCH)
        move_staged_files(staged_paths, final_targets.force)
    return release


def _decode_release(document: JsonObject, targets: ReleaseTargets) -> tuple[Release, list[str]]:
    """The release with its places on this machine, and the names that its files have at the service."""
    names = (*document["files"], document["manifest_file"], document["report"])
    release = Release(
        name=document["name"],
        method=document["method"],
        guarantee=Guarantee.from_json(document["guarantee"]),
        rows=document["rows"],
        files=_resolve_table_paths(document["files"], targets),
        manifest=dict(document["manifest"]),
        manifest_file=targets.manifest,
        entry=document["entry"],
        measured=dict(document["measured"]),
        report=None if document["report"] is None else targets.report,
        risk=document["risk"],
        utility=document["utility"],
        warnings=tuple(document["warnings"]),
    )
    return release, [str(name) for name in names if name is not None]


def _resolve_table_paths(names: Sequence[str], targets: ReleaseTargets) -> tuple[Path, ...]:
    """A second table, and columns in a folder, keep the names that their manifest has."""
    if targets.apart:
        return tuple(targets.table / _require_plain_name(name.rpartition("/")[2]) for name in names)
    _, *second = names
    return targets.table, *(targets.table.with_name(_require_plain_name(name)) for name in second)


def _require_plain_name(name: str) -> str:
    """Refuse a name that leads to another folder."""
    if Path(name).name != name or not Path(name).suffix:
        raise ValueError
    return name


def _download_file(transport: Transport, job: JsonObject, name: str, target_file: Path) -> None:
    transport.send(HttpRequest.get(f"{get_job_path(job)}/files/{quote_path_part(name)}"), target_file)


def _require_free(targets: ReleaseTargets) -> None:
    """Refuse a file that is in the way; with force only what was downloaded before is overwritten."""
    manifest_text = _read_text(targets.manifest)
    for path in dict.fromkeys(targets.paths):
        if path.is_dir() and not (targets.apart and path == targets.table):
            raise InvalidInput(f"{path.name[:60]!r} is a folder; name a file")
        if path.exists() and not targets.force:
            raise InvalidInput(f"{path.name[:60]!r} is there already; name another, or overwrite it with force=True")
        if path.exists() and not _is_own_output(
            path, targets, manifest_text if RELEASE_FORMAT in manifest_text else ""
        ):
            raise InvalidInput(f"{path.name[:60]!r} is there and is no release or report of ours; name another file")


def _is_own_output(path: Path, targets: ReleaseTargets, manifest: str) -> bool:
    """Whether it is a report of ours, a manifest, its folder, or a table whose hash the manifest has."""
    if path == targets.report:
        from discreet.sdc.report import CUSTODIAN_NOTICE

        return CUSTODIAN_NOTICE in _read_text(path)
    return bool(manifest) and (path == targets.manifest or path.is_dir() or hash_file(path) in manifest)


def _read_text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def _check_report_path(report: str | Path | None) -> Path | None:
    return None if report is None else _check_output_path(report, (".html",), "a report from a service")


def _check_output_path(target: object, suffixes: tuple[str, ...], description: str) -> Path:
    path = Path(str(target)).absolute()
    if path.suffix.lower() not in suffixes:
        allowed_suffixes = " or ".join(suffixes) or "without a suffix"
        raise InvalidInput(f"{description} is named {allowed_suffixes}, got {path.name[:40]!r}")
    if not path.parent.is_dir():
        raise InvalidInput(f"the folder for {path.name[:40]!r} does not exist; make it first")
    return path
