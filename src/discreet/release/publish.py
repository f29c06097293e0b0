"""From a recipe to a file: checked against what is public, made, checked again on its own, entered, then put there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from discreet._version import __version__
from discreet.datasets.dataset_dir import DatasetDir, Snapshot
from discreet.datasets.registration import Progress
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
    write_json,
    write_private_json,
    write_released_table,
)
from discreet.release.manifest import (
    Alignment,
    Release,
    ReleaseRecord,
    find_next_release_number,
    map_labels_to_rows,
    parse_manifest,
    read_alignment,
    read_manifest,
    read_release_records,
    read_released_table,
    store_release,
)
from discreet.release.methods import ProtectionRecipe
from discreet.release.protect import ProtectedRelease, protect_in_engine, protect_in_memory
from discreet.schema import Schema
from discreet.sdc.table import Attribute

if TYPE_CHECKING:
    from discreet.ledger import Ledger
    from discreet.sdc.comparison import Comparison
    from discreet.sdc.verify.evidence import CheckedClaim
    from discreet.sources.protocol import Source

MIN_NOTABLE_SHARE = 0.01
"""A share of rows from which on it is warned of."""
MAX_ASSESSED_ROWS = 2_000_000
"""Up to so many rows utility and risk are measured even where no report is asked for."""


@dataclass(frozen=True, slots=True)
class DatasetHandle:
    """What publishing needs of a custodian."""

    schema: Schema
    snapshot: Snapshot
    source: Source
    ledger: Ledger
    note: str | None = None
    """What must be said of everything that is made of it."""

    @property
    def notes(self) -> tuple[str, ...]:
        """The same, among the warnings of a release."""
        return () if self.note is None else (self.note,)

    @property
    def note_fields(self) -> dict[str, object]:
        """The same, in the manifest."""
        return {} if self.note is None else {"note": self.note}


def publish_protected(
    handle: DatasetHandle, recipe: ProtectionRecipe, targets: ReleaseTargets, progress: Progress
) -> Release:
    """Make one release; whatever fails before the end leaves no file.

    It is entered before its files are put in place: after a crash between the two it is told of and not there.
    """
    dataset_dir = DatasetDir(handle.schema)
    key = SYSTEM.take(32)
    with stage_targets(targets) as staged:
        progress("reading")
        spool = Spool(dataset_dir.folder)
        protected = _protect_records(handle, recipe, key, spool, progress)
        with dataset_dir.lock():
            earlier_records, number = read_release_records(dataset_dir), find_next_release_number(dataset_dir)
            name = f"{handle.schema.name}-{number}"
            progress("writing")
            manifest = _write_files(handle, name, recipe, protected, targets, staged)
            progress("checking the claim")
            checked_claim = _check_claim(recipe, protected, manifest, targets, staged, spool)
            comparison = _compare_with_original(handle, recipe, protected, earlier_records, targets, progress)
            risk_warnings = (
                *_warn_of_disclosure(checked_claim),
                *_warn_of_unique_rows(recipe, protected),
                *_warn_of_other_snapshots(handle, dataset_dir, earlier_records),
            )
            warnings = (*handle.notes, *risk_warnings)
            if targets.report is not None and comparison is not None:
                _write_report(staged[targets.report], name, recipe, protected, comparison, warnings)
            record = ReleaseRecord(
                number,
                name,
                handle.snapshot.name,
                recipe.method,
                recipe.k,
                hash_file(staged[targets.table]),
                hash_file(staged[targets.manifest]),
            )
            targets.require_free(protected.second is not None)  # others may have been quicker
            entry = _record_release(handle, dataset_dir, record, protected, staged[targets.manifest])
            move_staged_files(staged, targets.force, _find_obsolete_files(targets, protected))
    return Release(
        name=name,
        method=recipe.method,
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
    """The release, made where the rows are if an engine can; a row is a unit, since `roles_of` saw to that."""
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
    """The tables and what is told of them, not yet in their places."""
    write_released_table(staged[targets.table], protected.released)
    if protected.second is not None:
        write_released_table(staged[targets.second], protected.second)
    manifest = _build_manifest(handle, name, recipe, protected, targets, staged)
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
    """The claim, checked on the files as anybody will read them; it hides something, or it does not leave."""
    from discreet.sdc.verify.claims import check_claim

    parsed_manifest = parse_manifest(manifest)
    second = (
        None
        if protected.second is None
        else read_released_table(staged[targets.second], parsed_manifest.second_columns)
    )
    checked_claim = check_claim(
        protected.guarantee,
        read_released_table(staged[targets.table], parsed_manifest.columns, spool=spool),
        recipe.quasi,
        recipe.confidential,
        original=protected.original,
        groups=protected.groups,
        second=second,
        kept=recipe.keep,
    )
    if _get_certain_share(checked_claim) == 1:
        raise InvalidInput(
            f"{recipe.method} with k {recipe.k} would hide nothing: in every group all have the same value of a "
            "confidential column; ask for a larger k, for --diversity 'distinct 2', or for another method"
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
    """Who knows the columns that are kept as they are may find people by them."""
    if not recipe.keep:
        return ()
    from discreet.sdc.verify.evidence import find_classes

    unique_rows = np.count_nonzero(np.bincount(find_classes(protected.released, recipe.keep)) == 1)
    share = unique_rows / protected.released.rows
    if share < MIN_NOTABLE_SHARE:
        return ()
    names = ", ".join(recipe.keep)
    return (f"{format_percent(share, 2)} of the rows are the only ones with their {names}: who knows that finds them.",)


def _warn_of_other_snapshots(
    handle: DatasetHandle, dataset_dir: DatasetDir, earlier_records: Sequence[ReleaseRecord]
) -> tuple[str, ...]:
    """Earlier releases that could not be laid over this one, unless they are of other people."""
    manifest = dataset_dir.read_manifest()
    snapshots = [] if manifest is None else list(manifest.snapshots)
    first_shared = next((index for index in range(len(snapshots) - 1, -1, -1) if snapshots[index].disjoint), 0)
    other_names = {item.name for item in snapshots[first_shared:]} - {handle.snapshot.name}
    names = [item.name for item in earlier_records if item.snapshot in other_names]
    if not names:
        return ()
    return (f"{', '.join(names)}: made of other snapshots of this data set, and not laid over this one.",)


def _find_obsolete_files(targets: ReleaseTargets, protected: ProtectedRelease) -> tuple[Path, ...]:
    """The other table of an Anatomy that is overwritten by a release without one."""
    try:
        previous_manifest = read_manifest(targets.table)
    except InvalidInput:
        return ()
    is_obsolete = (
        previous_manifest is not None
        and previous_manifest.second_file == targets.second.name
        and protected.second is None
    )
    return (targets.second,) if is_obsolete else ()


def _build_manifest(
    handle: DatasetHandle,
    name: str,
    recipe: ProtectionRecipe,
    protected: ProtectedRelease,
    targets: ReleaseTargets,
    staged: Mapping[Path, Path],
) -> dict[str, object]:
    paths = [targets.table] if protected.second is None else [targets.table, targets.second]
    document: dict[str, object] = {
        "format": RELEASE_FORMAT,
        "release": name,
        "dataset": handle.schema.name,
    } | handle.note_fields
    document |= {"made_by": f"discreet {__version__}", "guarantee": protected.guarantee.to_json()}
    document |= {"recipe": recipe.to_json(), "measured": dict(protected.facts)}
    document["columns"] = [describe_column(attribute) for attribute in protected.released.attributes.values()]
    document["second_columns"] = (
        []
        if protected.second is None
        else [describe_column(attribute) for attribute in protected.second.attributes.values()]
    )
    return document | {"files": describe_files([staged[path] for path in paths])}


def describe_files(files: Sequence[Path]) -> list[dict[str, str]]:
    """What a manifest says of the files, which have their names already."""
    return [{"name": file.name, "sha256": hash_file(file)} for file in files]


def describe_column(attribute: Attribute) -> dict[str, object]:
    """What a manifest says of a column."""
    description: dict[str, object] = {"name": attribute.name, "kind": attribute.kind, "holds": attribute.output_type}
    return description | ({"categories": list(attribute.categories)} if attribute.kind == "ordinal" else {})


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
    from discreet.sdc.compare import compare_release

    progress("assessing")
    dataset_dir, same_snapshot = (
        DatasetDir(handle.schema),
        [record for record in earlier_records if record.snapshot == handle.snapshot.name],
    )
    earlier_labels = [
        (record.name, map_labels_to_rows(read_alignment(dataset_dir, record), protected.rows))
        for record in same_snapshot
    ]
    return compare_release(
        protected.original,
        protected.released,
        recipe.quasi,
        recipe.confidential,
        groups=protected.groups,
        earlier=earlier_labels,
        k=recipe.k,
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
    from discreet.sdc.report import build_report_json, write_report

    facts: dict[str, object] = {"title": name, "method": recipe.method, "k": recipe.k}
    facts |= {} if recipe.t is None else {"t": str(recipe.t)}
    facts |= {"guarantee": protected.guarantee.words(), "assumptions": list(protected.guarantee.assumptions)}
    facts |= {"warnings": list(warnings)} if warnings else {}
    if path.suffix.lower() == ".json":
        write_private_json(path, build_report_json(facts, comparison))
    else:
        write_report(path, facts, comparison, protected.original, protected.released)


def _record_release(
    handle: DatasetHandle, dataset_dir: DatasetDir, record: ReleaseRecord, protected: ProtectedRelease, manifest: Path
) -> int:
    """Kept in the data set's folder and entered in the ledger: before anybody can see the file."""
    store_release(dataset_dir, record, Alignment(protected.rows, protected.groups))
    entry_text = f"released {record.name} by {record.method}: {protected.guarantee.words()}"
    manifest_text = manifest.read_text(encoding="utf-8")
    return handle.ledger.release(handle.schema.name, handle.snapshot.name, entry_text, manifest_text)
