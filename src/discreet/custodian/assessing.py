"""Utility and risk of a released file beside its original, whoever made it; for the custodian alone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from discreet.custodian.beside import beside, earlier_releases, snapshot_records
from discreet.custodian.files import read_file, read_manifest, read_released, require_untouched, table_file
from discreet.custodian.registering import Progress, silent
from discreet.custodian.releases import Labels
from discreet.custodian.writing import check_report, write_for_custodian
from discreet.errors import InvalidInput
from discreet.guarantee import DIFFERENTIAL, bound_in_words
from discreet.microdata.table import Table

if TYPE_CHECKING:
    from discreet.assess.comparison import Comparison

Names = tuple[str, ...]
Earlier = list[tuple[str, Labels]]
SCHEMAS = {".yaml", ".yml"}


def assess_release(
    original: str | Path,
    released: str | Path,
    aligned: bool = False,
    quasi: Names = (),
    confidential: Names = (),
    report: str | Path | None = None,
    force: bool = False,
    progress: Progress = silent,
) -> Comparison:
    """Compare a released file with the records it was made of: those of a schema, row for row, or those of a file.

    Rows of a file stand side by side only where `aligned` says so; without, what needs that is not measured.
    """
    from discreet.assess.compare import compare_release

    file = table_file(released)
    page = None if report is None else check_report(report, force)
    manifest = read_manifest(file)
    asked = (*quasi, *confidential)
    quasi = quasi or (manifest.quasi if manifest else ())
    confidential = confidential or (manifest.confidential if manifest else ())
    groups, k = None, None
    earlier: Earlier = []
    progress("reading")
    if Path(original).suffix.lower() in SCHEMAS and manifest is not None and manifest.guarantee.model in DIFFERENTIAL:
        require_untouched(file, manifest)
        before, after = snapshot_records(original), read_released(file, manifest.columns_of(file))
    elif Path(original).suffix.lower() in SCHEMAS:
        known = beside(original, file, progress)
        before, groups, k, aligned = known.original, known.groups, known.kept.k, True
        earlier = earlier_releases(known)
        taxonomies = {name: each.taxonomy for name, each in before.attributes.items() if each.taxonomy is not None}
        after = read_file(file) if manifest is None else read_released(file, manifest.columns, taxonomies)
    else:
        after = read_file(file) if manifest is None else read_released(file, manifest.columns)
        before = _original(table_file(original), {name: each.kind for name, each in after.attributes.items()})
    second = None
    if manifest is not None and manifest.second is not None:
        second = read_released(file.with_name(manifest.second), manifest.second_columns)
    common = [name for name in before if name in after.attributes]
    if asked:
        before.select(asked)  # refuses a name that is not there
    if not common:
        raise InvalidInput("the two files have no column in common; compare a release with its own original")
    if aligned and before.rows != after.rows:
        raise InvalidInput("aligned files have as many rows; these have not, so leave --aligned out")
    progress("assessing")
    secret = tuple(name for name in confidential if name in before.attributes)
    before = before.select(tuple(dict.fromkeys((*common, *secret))))
    found = compare_release(
        before,
        after,
        tuple(name for name in quasi if name in common),
        secret,
        groups=groups,
        aligned=aligned,
        k=k,
        second=second,
        earlier=earlier,
    )
    if manifest is not None and manifest.guarantee.model in DIFFERENTIAL:
        found = replace(found, bounded=bound_in_words(manifest.guarantee))
    if page is not None:
        _write(page, found, before, after, file.name)
    return found


def _original(file: Path, kinds: Mapping[str, str]) -> Table:
    try:
        return read_file(file, kinds)
    except InvalidInput as error:
        raise InvalidInput(
            f"{file.name[:60]!r} does not fit the release: {error}; or compare with the schema of the data set"
        ) from None


def _write(page: Path, found: Comparison, before: Table, after: Table, name: str) -> None:
    from discreet.assess.report import report_json, write_report

    facts: Mapping[str, object] = {"title": f"{name} beside its original"}
    if page.suffix.lower() == ".json":
        write_for_custodian(page, report_json(facts, found))
    else:
        write_report(page, facts, found, before, after)
