"""Assess and verify releases for their custodian, and sweep the parameters of methods before one."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from discreet.datasets.dataset_dir import DatasetDir, Snapshot, hash_layout
from discreet.datasets.integrity import Progress, ensure_snapshot, ignore_stage, open_source
from discreet.errors import ClaimFailed, InvalidInput, Unsupported
from discreet.formatting import format_value
from discreet.numeric import as_int, format_exact, parse_rational
from discreet.priors.taxonomy import Taxonomy
from discreet.privacy.guarantee import DP_MODELS, Guarantee, format_privacy_bound
from discreet.release.files import check_report_target, get_manifest_path, hash_file, write_comparison_report
from discreet.release.manifest import (
    Labels,
    ReleaseManifest,
    ReleaseRecord,
    check_table_file,
    read_alignment,
    read_earlier_labels,
    read_manifest,
    read_release_records,
    read_released_table,
    read_second_table,
    read_table_file,
    require_matching_files,
)
from discreet.release.method_columns import get_column_roles
from discreet.release.protect import build_code_table, concatenate_originals, read_records, sort_rows_by_codes
from discreet.release.publish import DatasetHandle
from discreet.schema import Schema, load_schema
from discreet.sdc.table import Table

if TYPE_CHECKING:
    from discreet.sdc.comparison import Comparison
    from discreet.sdc.sweep import SweepResult, SweepTrial
    from discreet.sdc.verify.anonymity import Anonymity
    from discreet.sdc.verify.evidence import CheckedClaim


ColumnNames = tuple[str, ...]
Roles = tuple[ColumnNames, ColumnNames]
"""Quasi-identifiers and confidential columns."""
EarlierReleases = list[tuple[str, Labels]]
SCHEMA_SUFFIXES = {".yaml", ".yml"}


def assess_release(
    original: str | Path,
    released: str | Path,
    aligned: bool = False,
    quasi: ColumnNames = (),
    confidential: ColumnNames = (),
    report: str | Path | None = None,
    force: bool = False,
    progress: Progress = ignore_stage,
) -> Comparison:
    """Compare a released file with the records it was made of: those of a schema, or those of a file.

    Records of a schema are compared row by row; those of a file only if it is `aligned`.
    """
    file = check_table_file(released)
    report_path = None if report is None else check_report_target(report, force)
    manifest = read_manifest(file)
    progress("reading")
    tables = _read_tables(original, file, manifest, aligned, progress)
    tables.require_comparable(quasi, confidential)
    progress("assessing")
    roles = tables.choose_roles(manifest, quasi, confidential)
    tables = tables.keep_compared(roles[1])
    comparison = tables.compare(roles, read_second_table(file, manifest))
    if manifest is not None and manifest.guarantee.model in DP_MODELS:
        comparison = replace(comparison, bounded=format_privacy_bound(manifest.guarantee))
    if report_path is not None:
        facts = {"title": f"{file.name} beside its original"}
        write_comparison_report(report_path, facts, comparison, tables.original, tables.released)
    return comparison


@dataclass(frozen=True, slots=True, eq=False)
class _ComparedTables:
    """The records and what was released of them, and what a custodian knows besides."""

    original: Table
    released: Table
    aligned: bool
    groups: Labels | None = None
    k: int | None = None
    earlier: EarlierReleases = field(default_factory=list)

    def find_common_columns(self) -> ColumnNames:
        """Find the columns that both have."""
        return tuple(name for name in self.original if name in self.released.attributes)

    def require_comparable(self, quasi: ColumnNames, confidential: ColumnNames) -> None:
        """Refuse names that are not there, and tables that have nothing in common."""
        if quasi or confidential:
            self.original.select((*quasi, *confidential))
        if not self.find_common_columns():
            raise InvalidInput("the two files have no column in common; compare a release with its own original")
        if self.aligned and self.original.rows != self.released.rows:
            raise InvalidInput("aligned files have as many rows; these have not, so leave --aligned out")

    def choose_roles(self, manifest: ReleaseManifest | None, quasi: ColumnNames, confidential: ColumnNames) -> Roles:
        """Choose the roles as they are given, else those of the manifest, of columns that can be compared."""
        common_columns = self.find_common_columns()
        quasi_columns = quasi or (manifest.quasi if manifest else ())
        confidential_columns = confidential or (manifest.confidential if manifest else ())
        return (
            tuple(name for name in quasi_columns if name in common_columns),
            tuple(name for name in confidential_columns if name in self.original.attributes),
        )

    def keep_compared(self, confidential: ColumnNames) -> _ComparedTables:
        """Keep the columns that both have, and the confidential ones."""
        columns = dict.fromkeys((*self.find_common_columns(), *confidential))
        return replace(self, original=self.original.select(tuple(columns)))

    def compare(self, roles: Roles, second: Table | None) -> Comparison:
        """Measure utility and risk; `second` is Anatomy's other table."""
        from discreet.sdc.comparison import compare_release

        return compare_release(
            self.original,
            self.released,
            *roles,
            groups=self.groups,
            aligned=self.aligned,
            earlier=self.earlier,
            k=self.k,
            second=second,
        )


def _read_tables(
    original: str | Path, file: Path, manifest: ReleaseManifest | None, aligned: bool, progress: Progress
) -> _ComparedTables:
    """Records of a schema are aligned with the release, but not with a private file, no row of which is anybody's."""
    if Path(original).suffix.lower() not in SCHEMA_SUFFIXES:
        released_table = _read_released(file, manifest)
        kinds = {name: attribute.kind for name, attribute in released_table.attributes.items()}
        original_file = check_table_file(original)
        try:
            return _ComparedTables(read_table_file(original_file, kinds), released_table, aligned)
        except InvalidInput as error:
            name = original_file.name[:60]
            raise InvalidInput(
                f"{name!r} does not fit the release: {error}; or compare with the schema of the data set"
            ) from None
    if manifest is not None and manifest.guarantee.model in DP_MODELS:
        require_matching_files(file, manifest)
        return _ComparedTables(read_snapshot_records(original), _read_released(file, manifest), aligned=False)
    aligned_original = align_original(original, file, progress)
    original_table = aligned_original.original
    attributes = original_table.attributes.values()
    taxonomies = {attribute.name: attribute.taxonomy for attribute in attributes if attribute.taxonomy is not None}
    released_table = _read_released(file, manifest, taxonomies)
    groups, k = aligned_original.groups, aligned_original.record.k
    return _ComparedTables(original_table, released_table, True, groups, k, find_earlier_releases(aligned_original))


def _read_released(
    file: Path, manifest: ReleaseManifest | None, taxonomies: Mapping[str, Taxonomy] | None = None
) -> Table:
    if manifest is None:
        return read_table_file(file)
    return read_released_table(file, manifest.get_file_columns(file), taxonomies)


def run_sweep(
    handle: DatasetHandle,
    ks: str | Sequence[int],
    methods: str | Sequence[str],
    t: object,
    report: str | Path | None,
    force: bool,
    progress: Progress,
) -> SweepResult:
    """Try every method at every k; the report, if there is one, shows the recommended one."""
    from discreet.sdc.sweep import DEFAULT_METHODS, SweepTrial, check_ks, check_methods, parse_ks, sweep_parameters

    method_names = check_methods((methods,) if isinstance(methods, str) else tuple(methods) or DEFAULT_METHODS)
    k_values = parse_ks(ks) if isinstance(ks, str) else check_ks(ks)
    quasi, confidential = get_column_roles(handle.schema)
    if not quasi or not confidential:
        raise InvalidInput("a sweep needs columns with the roles quasi-identifier and confidential; add role: to some")
    report_path = None if report is None else check_report_target(report, force)
    progress("reading")
    table = read_records(handle.schema, handle.source).select((*quasi, *confidential))

    def show(done: int, total: int) -> None:
        progress(f"trying: {done} of {total}")

    sweep_result = sweep_parameters(table, quasi, confidential, k_values, method_names, t=t, progress=show)
    if report_path is not None:
        _write_sweep(report_path, sweep_result, SweepTrial(table, quasi, confidential, t, None))
    return sweep_result


def _write_sweep(path: Path, sweep_result: SweepResult, trial: SweepTrial) -> None:
    """Protect the table once more by the recommended method and k, and report on that."""
    best = sweep_result.recommended
    protected = trial.protect(best.method, best.k)
    comparison = trial.compare(protected, best.k)
    verdict = "recommended" if sweep_result.useful else "nearest to safe and useful"
    title = f"{best.method} with k = {best.k}, {verdict}; nothing was released"
    facts: dict[str, object] = {"title": title, "method": best.method}
    facts |= {"guarantee": protected.guarantee.words(), "assumptions": protected.guarantee.assumptions}
    original = trial.table.take(protected.source_rows)
    write_comparison_report(path, facts, comparison, original, protected.table, sweep_result)


@dataclass(frozen=True, slots=True, eq=False)
class VerifiedRelease:
    """The claims that hold and what was measured; a claim that does not hold is raised instead."""

    claims: tuple[CheckedClaim, ...]
    measured: Anonymity | None
    roles: Roles
    """The columns taken as known to an intruder, and as confidential."""
    unshown: str | None = None
    """Why a claim can be neither shown nor refuted from what is there, and what to add."""

    @property
    def words(self) -> str:
        """Say what was found, in a sentence or two."""
        text = " ".join(sentence for claim in self.claims for sentence in claim.words)
        reason = "No claim was made" if self.unshown is None else "The claim could not be checked"
        return text or f"{reason}; this was measured:"

    @property
    def measured_texts(self) -> dict[str, str]:
        """Return what was measured, as people read it, by name."""
        measured = self.measured
        named_columns = {"taken as known": ", ".join(self.roles[0]), "confidential": ", ".join(self.roles[1])}
        if measured is None:
            return named_columns
        values: dict[str, object] = {"k": measured.k, "classes": measured.classes}
        values |= {"l (distinct)": measured.l, "l (entropy)": measured.l_entropy}
        values |= {"recursive (c, 2)": measured.recursive}
        values |= {"t (ratio)": measured.t_ratio, "t (earth mover's)": measured.t_emd}
        return named_columns | {name: format_value(value) for name, value in values.items() if value is not None}

    def to_json(self) -> dict[str, object]:
        """Return the result as JSON."""
        measured = None if self.measured is None else self.measured.to_json()
        payload: dict[str, object] = {"claims": [claim.to_json() for claim in self.claims]}
        payload |= {"measured": measured, "words": self.words}
        payload |= {"quasi_identifiers": list(self.roles[0]), "confidential": list(self.roles[1])}
        return payload | {"unshown": self.unshown}


def verify_release(
    out: str | Path,
    original: str | Path | None = None,
    quasi: ColumnNames = (),
    confidential: ColumnNames = (),
    k: object = None,
    t: str | None = None,
    progress: Progress = ignore_stage,
) -> VerifiedRelease:
    """Measure a released table and check the claims of its manifest, and those made here; ClaimFailed if one fails."""
    file = check_table_file(out)
    manifest = read_manifest(file)
    progress("reading")
    if manifest is not None:
        require_matching_files(file, manifest)
        _refuse_private_file(manifest)
    aligned_original = None if original is None else align_original(original, file, progress)
    if aligned_original is not None and manifest is not None:
        _require_recorded_manifest(file, aligned_original.record)
    roles = _choose_roles(manifest, aligned_original, quasi, confidential)
    claims = _list_claims(manifest, k, t)
    released = read_table_file(file) if manifest is None else read_released_table(file, manifest.columns)
    second = read_second_table(file, manifest)
    progress("measuring")
    measured = _measure_release(released, second, roles)
    check = _build_check(released, second, roles, manifest, aligned_original)
    try:
        checked_claims = tuple(map(check, claims))
    except Unsupported as error:
        if aligned_original is not None:
            raise
        reason = f"{error}; the custodian can, with --original and the schema"
        return VerifiedRelease((), measured, roles, reason)
    if manifest is not None and manifest.guarantee in claims:
        _require_k(manifest, checked_claims)
    return VerifiedRelease(checked_claims, measured, roles)


def _build_check(
    released: Table,
    second: Table | None,
    roles: Roles,
    manifest: ReleaseManifest | None,
    aligned_original: AlignedOriginal | None,
) -> Callable[[Guarantee], CheckedClaim]:
    """What checks one claim on a release, with the original where it is there."""
    from discreet.sdc.verify.claims import check_claim

    return partial(
        check_claim,
        released=released,
        quasi=roles[0],
        confidential=roles[1],
        original=None if aligned_original is None else aligned_original.original,
        groups=None if aligned_original is None else aligned_original.groups,
        second=second,
        kept=() if manifest is None else manifest.unchanged,
    )


def _refuse_private_file(manifest: ReleaseManifest) -> None:
    """Refuse a claim that no file can show."""
    if manifest.guarantee.model in DP_MODELS:
        raise Unsupported(
            f"{manifest.release} is as it was written, and claims differential privacy: that lies in how it was "
            "made, which no file shows; its custodian's ledger has the charge, as discreet history tells"
        )


def _require_recorded_manifest(file: Path, record: ReleaseRecord) -> None:
    if hash_file(get_manifest_path(file)) != record.manifest:
        raise ClaimFailed("the manifest is not the one that was written with this release; get the release again")


def _choose_roles(
    manifest: ReleaseManifest | None,
    aligned_original: AlignedOriginal | None,
    quasi: ColumnNames,
    confidential: ColumnNames,
) -> Roles:
    """The roles as they are given, else those of the manifest or of the schema."""
    declared_roles: Roles = ((), ())
    if manifest is not None:
        declared_roles = manifest.quasi, manifest.confidential
    elif aligned_original is not None:
        declared_roles = get_column_roles(aligned_original.schema)
    roles = quasi or declared_roles[0], confidential or declared_roles[1]
    if not roles[0] and manifest is None:
        raise InvalidInput("there is no manifest beside the file; say which columns are known: --quasi age --quasi sex")
    return roles


def _require_k(manifest: ReleaseManifest, checked_claims: tuple[CheckedClaim, ...]) -> None:
    """The groups of t-closeness have at least the k that the release was made with."""
    for claim in checked_claims:
        anonymity = claim.measured.get("anonymity")
        k = anonymity.get("k") if isinstance(anonymity, dict) else None
        if isinstance(k, int) and k < manifest.k:
            raise ClaimFailed(f"the release was made with groups of at least {manifest.k}, and its smallest has {k}")


def _list_claims(manifest: ReleaseManifest | None, k: object, t: str | None) -> list[Guarantee]:
    """The claims to check: those that are given, and that of the manifest."""
    claims = [Guarantee.k_anonymity(as_int(k, "k", 2))] if k is not None else []
    if t is not None:
        t_value = parse_rational(t, "t")
        if t_value < 1:
            raise InvalidInput(f"t must be at least 1, got {format_exact(t_value)}; at 1 every group is like the whole")
        claims.append(Guarantee.t_closeness(t_value, "ratio"))
    return claims + ([] if manifest is None else [manifest.guarantee])


def _measure_release(released: Table, second: Table | None, roles: Roles) -> Anonymity | None:
    from discreet.sdc.verify.anonymity import measure_anatomy, measure_anonymity

    if second is not None:
        return measure_anatomy(released, second)
    present_roles = [tuple(name for name in names if name in released.attributes) for names in roles]
    return measure_anonymity(released, *present_roles) if present_roles[0] else None


@dataclass(frozen=True, slots=True, eq=False)
class AlignedOriginal:
    """Row i of the released file was made of row i of `original`; `groups` says who hides among whom."""

    schema: Schema
    original: Table
    groups: Labels
    record: ReleaseRecord
    rows: NDArray[np.int64]
    """Where each stands among all rows of the snapshot sorted by their codes."""


def align_original(schema_file: str | Path, released: Path, progress: Progress) -> AlignedOriginal:
    """Read the original rows of a release, in its order; refused if the data set has no record of the file."""
    schema = load_schema(schema_file)
    dataset_dir = DatasetDir(schema)
    sha256 = hash_file(released)
    records = [record for record in read_release_records(dataset_dir) if record.sha256 == sha256]
    if not records:
        raise InvalidInput(f"{released.name[:60]!r} is no release of {schema.name} as it was written; check both")
    record = records[-1]
    alignment = read_alignment(dataset_dir, record)
    progress("reading the records")
    snapshot = _find_snapshot(dataset_dir, record)
    if snapshot.layout != hash_layout(schema):
        raise InvalidInput(
            f"{record.name} was made under an earlier schema of {schema.name}; check it with that schema"
        )
    source = open_source(schema, snapshot)
    try:
        codes = concatenate_originals(source.records())
    finally:
        source.close()
    original = build_code_table(schema, codes).take(sort_rows_by_codes(codes)[alignment.rows])
    return AlignedOriginal(schema, original, alignment.groups, record, alignment.rows)


def read_snapshot_records(schema_file: str | Path) -> Table:
    """Read all records of the current snapshot, in no meaningful order."""
    schema = load_schema(schema_file)
    source = open_source(schema, ensure_snapshot(schema))
    try:
        return build_code_table(schema, concatenate_originals(source.records()))
    finally:
        source.close()


def _find_snapshot(dataset_dir: DatasetDir, record: ReleaseRecord) -> Snapshot:
    manifest = dataset_dir.read_manifest()
    for snapshot in () if manifest is None else manifest.snapshots:
        if snapshot.name == record.snapshot:
            return snapshot
    raise InvalidInput(f"the snapshot {record.snapshot!r} that {record.name} was made of is not there any more")


def find_earlier_releases(aligned_original: AlignedOriginal) -> list[tuple[str, Labels]]:
    """Return the groups of all earlier releases of the same snapshot, for the rows of this one."""
    dataset_dir, release = DatasetDir(aligned_original.schema), aligned_original.record
    earlier_records = [record for record in read_release_records(dataset_dir) if record.number < release.number]
    records = [record for record in earlier_records if record.snapshot == release.snapshot]
    return read_earlier_labels(dataset_dir, records, aligned_original.rows)
