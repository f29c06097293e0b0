"""Publish a protected table: make it by a recipe, check its claim on the files, enter it in the ledger, move it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from discreet._version import __version__
from discreet.datasets.dataset_dir import DatasetDir, Snapshot
from discreet.datasets.integrity import Progress
from discreet.errors import InvalidInput
from discreet.formatting import format_percent
from discreet.mechanisms.entropy import SYSTEM
from discreet.release.files import (
    RELEASE_FORMAT,
    ReleaseTargets,
    Spool,
    hash_file,
    move_staged_files,
    stage_targets,
    write_comparison_report,
    write_json,
    write_released_table,
)
from discreet.release.manifest import (
    Alignment,
    Release,
    ReleaseRecord,
    find_next_release_number,
    parse_manifest,
    read_earlier_labels,
    read_manifest,
    read_release_records,
    read_released_table,
    store_release,
)
from discreet.release.methods import ProtectionMethod, ProtectionRecipe, TCloseness
from discreet.release.protect import ProtectedRelease, protect_in_engine, protect_in_memory
from discreet.schema import Schema
from discreet.sdc.table import Table

if TYPE_CHECKING:
    from discreet.ledger import Ledger
    from discreet.privacy.guarantee import Guarantee
    from discreet.sdc.comparison import Comparison
    from discreet.sdc.verify.evidence import CheckedClaim
    from discreet.sources.protocol import Source

MIN_NOTABLE_SHARE = 0.01
"""The smallest share of rows that a warning mentions."""
MAX_ASSESSED_ROWS = 2_000_000
"""The most rows whose utility and risk are measured without a report."""


@dataclass(frozen=True, slots=True)
class DatasetHandle:
    """The parts of a custodian that publishing needs."""

    schema: Schema
    snapshot: Snapshot
    source: Source
    ledger: Ledger
    note: str | None = None
    """A note on every release, such as that it is a rehearsal."""

    @property
    def notes(self) -> tuple[str, ...]:
        """The note as a warning of a release, if there is one."""
        return () if self.note is None else (self.note,)

    def start_manifest(self, name: str, guarantee: Guarantee) -> dict[str, object]:
        """Return the first fields of the manifest of a release."""
        document: dict[str, object] = {"format": RELEASE_FORMAT, "release": name, "dataset": self.schema.name}
        document |= {} if self.note is None else {"note": self.note}
        return document | {"made_by": f"discreet {__version__}", "guarantee": guarantee.to_json()}


def publish_protected(
    handle: DatasetHandle, recipe: ProtectionRecipe, targets: ReleaseTargets, progress: Progress
) -> Release:
    """Make one release; whatever fails before the end leaves no file.

    It is entered in the ledger before its files are moved: after a crash between the two there is an entry and no file.
    """
    dataset_dir, key = DatasetDir(handle.schema), SYSTEM.take(32)
    with stage_targets(targets) as staged:
        progress("reading")
        spool = Spool(dataset_dir.folder)
        protected = _protect_records(handle, recipe, key, spool, progress)
        with dataset_dir.lock():
            return _release_records(handle, recipe, protected, targets, staged, spool, progress)


def _release_records(
    handle: DatasetHandle,
    recipe: ProtectionRecipe,
    protected: ProtectedRelease,
    targets: ReleaseTargets,
    staged: Mapping[Path, Path],
    spool: Spool,
    progress: Progress,
) -> Release:
    """Write what was protected, check it, enter it and move its files, under the next number of the data set."""
    dataset_dir, method = DatasetDir(handle.schema), recipe.method
    earlier_records, number = read_release_records(dataset_dir), find_next_release_number(dataset_dir)
    name = f"{handle.schema.name}-{number}"
    progress("writing")
    manifest = _write_files(handle, name, recipe, protected, targets, staged)
    progress("checking the claim")
    checked_claim = _check_claim(recipe, protected, manifest, targets, staged, spool)
    comparison = _compare_with_original(handle, recipe, protected, earlier_records, targets, progress)
    disclosed = _warn_of_disclosure(checked_claim), _warn_of_unique_rows(recipe, protected)
    warnings = (*handle.notes, *chain(*disclosed), *_warn_of_other_snapshots(handle, dataset_dir, earlier_records))
    if targets.report is not None and comparison is not None:
        _write_report(staged[targets.report], name, recipe, protected, comparison, warnings)
    targets.require_free(protected.second is not None)  # others may have been quicker
    entry = _record_release(handle, number, method, protected, staged[targets.table], staged[targets.manifest])
    move_staged_files(staged, targets.force, _find_obsolete_files(targets, protected))
    return Release(
        name=name,
        method=method.stored_name,
        guarantee=protected.guarantee,
        rows=protected.released.rows,
        files=(targets.table,) if protected.second is None else (targets.table, targets.second),
        manifest=manifest,
        manifest_file=targets.manifest,
        entry=entry,
        measured=checked_claim.to_json(),
        report=targets.report,
        risk=None if comparison is None else comparison.risk,
        utility=None if comparison is None else comparison.utility,
        warnings=warnings,
    )


def _protect_records(
    handle: DatasetHandle, recipe: ProtectionRecipe, key: bytes, spool: Spool, progress: Progress
) -> ProtectedRelease:
    """The release, made where the rows are if an engine can; a row is a unit, as `get_column_roles` requires."""
    engine_release = protect_in_engine(recipe, handle.schema, handle.source, key, spool, progress)
    protected = engine_release or protect_in_memory(recipe, handle.schema, handle.source, key, progress)
    return replace(protected, guarantee=replace(protected.guarantee, unit=handle.schema.unit_name))


def _write_files(
    handle: DatasetHandle,
    name: str,
    recipe: ProtectionRecipe,
    protected: ProtectedRelease,
    targets: ReleaseTargets,
    staged: Mapping[Path, Path],
) -> dict[str, object]:
    """Write the tables and their manifest to the staged files; the manifest is returned."""
    files = [staged[targets.table]]
    write_released_table(files[0], protected.released)
    if protected.second is not None:
        files.append(staged[targets.second])
        write_released_table(files[1], protected.second)
    manifest = handle.start_manifest(name, protected.guarantee)
    manifest |= {"recipe": recipe.to_json(), "measured": dict(protected.facts)}
    manifest |= {"columns": describe_columns(protected.released), "second_columns": describe_columns(protected.second)}
    manifest["files"] = describe_files(files)
    write_json(staged[targets.manifest], manifest)
    return manifest


def _check_claim(
    recipe: ProtectionRecipe,
    protected: ProtectedRelease,
    manifest: object,
    targets: ReleaseTargets,
    staged: Mapping[Path, Path],
    spool: Spool,
) -> CheckedClaim:
    """Check the claim on the files as anybody will read them; a release that hides nothing is refused."""
    from discreet.sdc.verify.claims import check_claim

    parsed_manifest = parse_manifest(manifest)
    second = None
    if protected.second is not None:
        second = read_released_table(staged[targets.second], parsed_manifest.second_columns)
    checked_claim = check_claim(
        protected.guarantee,
        read_released_table(staged[targets.table], parsed_manifest.columns, spool=spool),
        recipe.quasi,
        recipe.confidential,
        original=protected.original,
        groups=protected.groups,
        second=second,
        kept=recipe.method.keep,
    )
    if _get_certain_share(checked_claim) == 1:
        raise InvalidInput(
            f"{recipe.method.stored_name} with k {recipe.method.k} would hide nothing: in every group all have the "
            "same value of a confidential column; ask for a larger k, for --diversity 'distinct 2', or another method"
        )
    return checked_claim


def _get_certain_share(checked_claim: CheckedClaim) -> float:
    """The share of rows that are in groups with one value only, in the worst confidential column."""
    share = checked_claim.measured.get("certain", 0.0)
    return float(share) if isinstance(share, int | float) else 0.0


def _warn_of_disclosure(checked_claim: CheckedClaim) -> tuple[str, ...]:
    share = _get_certain_share(checked_claim)
    if share < MIN_NOTABLE_SHARE:
        return ()
    return (
        f"{format_percent(share)} of the rows are in groups with one value of a confidential column: it is disclosed.",
    )


def _warn_of_unique_rows(recipe: ProtectionRecipe, protected: ProtectedRelease) -> tuple[str, ...]:
    """Columns that are kept as they are may single people out."""
    if not recipe.method.keep:
        return ()
    from discreet.sdc.verify.evidence import find_classes

    unique_rows = np.count_nonzero(np.bincount(find_classes(protected.released, recipe.method.keep)) == 1)
    share = unique_rows / protected.released.rows
    if share < MIN_NOTABLE_SHARE:
        return ()
    names = ", ".join(recipe.method.keep)
    return (f"{format_percent(share, 2)} of the rows are the only ones with their {names}: who knows that finds them.",)


def _warn_of_other_snapshots(
    handle: DatasetHandle, dataset_dir: DatasetDir, earlier_records: Sequence[ReleaseRecord]
) -> tuple[str, ...]:
    """Earlier releases that cannot be aligned with this one, unless they are of other people."""
    manifest = dataset_dir.read_manifest()
    snapshots = [] if manifest is None else list(manifest.snapshots)
    first_shared = next((index for index in range(len(snapshots) - 1, -1, -1) if snapshots[index].disjoint), 0)
    other_names = {item.name for item in snapshots[first_shared:]} - {handle.snapshot.name}
    names = [item.name for item in earlier_records if item.snapshot in other_names]
    if not names:
        return ()
    return (f"{', '.join(names)}: made of other snapshots of this data set, and not laid over this one.",)


def _find_obsolete_files(targets: ReleaseTargets, protected: ProtectedRelease) -> tuple[Path, ...]:
    """The second table of an Anatomy that is overwritten by a release without one."""
    try:
        previous_manifest = read_manifest(targets.table)
    except InvalidInput:
        return ()
    previous_file = None if previous_manifest is None else previous_manifest.second_file
    return (targets.second,) if previous_file == targets.second.name and protected.second is None else ()


def describe_files(files: Sequence[Path]) -> list[dict[str, str]]:
    """Return what a manifest says of the files, which have their final names already."""
    return [{"name": file.name, "sha256": hash_file(file)} for file in files]


def describe_columns(table: Table | None) -> list[dict[str, object]]:
    """Return what a manifest says of the columns of a table."""
    descriptions = []
    for attribute in () if table is None else table.attributes.values():
        description: dict[str, object] = {"name": attribute.name, "kind": attribute.kind}
        description["holds"] = attribute.output_type
        description |= {"categories": list(attribute.categories)} if attribute.kind == "ordinal" else {}
        descriptions.append(description)
    return descriptions


def _compare_with_original(
    handle: DatasetHandle,
    recipe: ProtectionRecipe,
    protected: ProtectedRelease,
    earlier_records: Sequence[ReleaseRecord],
    targets: ReleaseTargets,
    progress: Progress,
) -> Comparison | None:
    if targets.report is None and protected.released.rows > MAX_ASSESSED_ROWS:
        return None
    from discreet.sdc.comparison import compare_release

    progress("assessing")
    records = [record for record in earlier_records if record.snapshot == handle.snapshot.name]
    earlier = read_earlier_labels(DatasetDir(handle.schema), records, protected.rows)
    return compare_release(
        protected.original,
        protected.released,
        recipe.quasi,
        recipe.confidential,
        groups=protected.groups,
        earlier=earlier,
        k=recipe.method.k,
        second=protected.second,
    )


def _write_report(
    path: Path,
    name: str,
    recipe: ProtectionRecipe,
    protected: ProtectedRelease,
    comparison: Comparison,
    warnings: Sequence[str],
) -> None:
    method = recipe.method
    facts: dict[str, object] = {"title": name, "method": method.stored_name, "k": method.k}
    facts |= {"t": str(method.t)} if isinstance(method, TCloseness) else {}
    facts |= {"guarantee": protected.guarantee.words(), "assumptions": list(protected.guarantee.assumptions)}
    facts |= {"warnings": list(warnings)} if warnings else {}
    write_comparison_report(path, facts, comparison, protected.original, protected.released)


def _record_release(
    handle: DatasetHandle,
    number: int,
    method: ProtectionMethod,
    protected: ProtectedRelease,
    table: Path,
    manifest: Path,
) -> int:
    """Store the release in the data set's folder and enter it in the ledger, before anybody can see the file."""
    record = ReleaseRecord(
        number=number,
        name=f"{handle.schema.name}-{number}",
        snapshot=handle.snapshot.name,
        method=method.stored_name,
        k=method.k,
        sha256=hash_file(table),
        manifest=hash_file(manifest),
    )
    store_release(DatasetDir(handle.schema), record, Alignment(protected.rows, protected.groups))
    entry_text = f"released {record.name} by {record.method}: {protected.guarantee.words()}"
    manifest_text = manifest.read_text(encoding="utf-8")
    return handle.ledger.release(handle.schema.name, handle.snapshot.name, entry_text, manifest_text)
