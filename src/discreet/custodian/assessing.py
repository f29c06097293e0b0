"""Utility and risk of a released file beside its original, whoever made it; for the custodian alone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from discreet.custodian.beside import align_original, find_earlier_releases, read_snapshot_records
from discreet.custodian.files import (
    ReleaseManifest,
    check_table_file,
    read_manifest,
    read_released_table,
    read_second_table,
    read_table_file,
    require_matching_files,
)
from discreet.custodian.registering import Progress, ignore_stage
from discreet.custodian.releases import Labels
from discreet.custodian.writing import check_report_target, write_private_json
from discreet.errors import InvalidInput
from discreet.guarantee import DP_MODELS, format_privacy_bound
from discreet.microdata.table import Table
from discreet.taxonomy import Taxonomy

if TYPE_CHECKING:
    from discreet.assess.comparison import Comparison

ColumnNames = tuple[str, ...]
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
    """Compare a released file with the records it was made of: those of a schema, row for row, or those of a file.

    Rows of a file stand side by side only where `aligned` says so; without, what needs that is not measured.
    """
    from discreet.assess.compare import compare_release

    file = check_table_file(released)
    report_path = None if report is None else check_report_target(report, force)
    manifest = read_manifest(file)
    progress("reading")
    tables = _read_tables(original, file, manifest, aligned, progress)
    original_table, released_table = tables.original, tables.released
    common_columns = [name for name in original_table if name in released_table.attributes]
    if quasi or confidential:
        original_table.select((*quasi, *confidential))  # refuses a name that is not there
    if not common_columns:
        raise InvalidInput("the two files have no column in common; compare a release with its own original")
    if tables.aligned and original_table.rows != released_table.rows:
        raise InvalidInput("aligned files have as many rows; these have not, so leave --aligned out")
    progress("assessing")
    quasi_columns = quasi or (manifest.quasi if manifest else ())
    confidential_columns = confidential or (manifest.confidential if manifest else ())
    confidential_columns = tuple(name for name in confidential_columns if name in original_table.attributes)
    original_table = original_table.select(tuple(dict.fromkeys((*common_columns, *confidential_columns))))
    options: dict[str, Any] = {
        "groups": tables.groups,
        "aligned": tables.aligned,
        "k": tables.k,
        "earlier": tables.earlier,
    }
    options["second"] = read_second_table(file, manifest)
    comparison = compare_release(
        original_table,
        released_table,
        tuple(name for name in quasi_columns if name in common_columns),
        confidential_columns,
        **options,
    )
    if manifest is not None and manifest.guarantee.model in DP_MODELS:
        comparison = replace(comparison, bounded=format_privacy_bound(manifest.guarantee))
    if report_path is not None:
        _write_comparison(report_path, comparison, original_table, released_table, file.name)
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


def _read_tables(
    original: str | Path, file: Path, manifest: ReleaseManifest | None, aligned: bool, progress: Progress
) -> _ComparedTables:
    """Beside a schema's records row for row, but for private files, which no row of belongs to anybody; or a file's."""
    if Path(original).suffix.lower() not in SCHEMA_SUFFIXES:
        released_table = _read_released(file, manifest)
        kinds = {name: attribute.kind for name, attribute in released_table.attributes.items()}
        return _ComparedTables(_read_original(check_table_file(original), kinds), released_table, aligned)
    if manifest is not None and manifest.guarantee.model in DP_MODELS:
        require_matching_files(file, manifest)
        return _ComparedTables(read_snapshot_records(original), _read_released(file, manifest), aligned=False)
    aligned_original = align_original(original, file, progress)
    original_table = aligned_original.original
    taxonomies = {
        name: attribute.taxonomy
        for name, attribute in original_table.attributes.items()
        if attribute.taxonomy is not None
    }
    released_table = _read_released(file, manifest, taxonomies)
    return _ComparedTables(
        original_table,
        released_table,
        True,
        aligned_original.groups,
        aligned_original.record.k,
        find_earlier_releases(aligned_original),
    )


def _read_released(
    file: Path, manifest: ReleaseManifest | None, taxonomies: Mapping[str, Taxonomy] | None = None
) -> Table:
    return (
        read_table_file(file)
        if manifest is None
        else read_released_table(file, manifest.get_file_columns(file), taxonomies)
    )


def _read_original(file: Path, kinds: Mapping[str, str]) -> Table:
    try:
        return read_table_file(file, kinds)
    except InvalidInput as error:
        raise InvalidInput(
            f"{file.name[:60]!r} does not fit the release: {error}; or compare with the schema of the data set"
        ) from None


def _write_comparison(path: Path, comparison: Comparison, original: Table, released: Table, name: str) -> None:
    from discreet.assess.report import build_report_json, write_report

    facts: Mapping[str, object] = {"title": f"{name} beside its original"}
    if path.suffix.lower() == ".json":
        write_private_json(path, build_report_json(facts, comparison))
    else:
        write_report(path, facts, comparison, original, released)
