"""Utility and risk of a released file beside its original, whoever made it; for the custodian alone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from discreet.custodian.beside import beside, earlier_releases, snapshot_records
from discreet.custodian.files import (
    Manifest,
    read_file,
    read_manifest,
    read_released,
    read_second,
    require_untouched,
    table_file,
)
from discreet.custodian.registering import Progress, silent
from discreet.custodian.releases import Labels
from discreet.custodian.writing import check_report, write_for_custodian
from discreet.errors import InvalidInput
from discreet.guarantee import DIFFERENTIAL, bound_in_words
from discreet.microdata.table import Table
from discreet.taxonomy import Taxonomy

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
    progress("reading")
    sides = _sides(original, file, manifest, aligned, progress)
    before, after = sides.before, sides.after
    common = [name for name in before if name in after.attributes]
    if quasi or confidential:
        before.select((*quasi, *confidential))  # refuses a name that is not there
    if not common:
        raise InvalidInput("the two files have no column in common; compare a release with its own original")
    if sides.aligned and before.rows != after.rows:
        raise InvalidInput("aligned files have as many rows; these have not, so leave --aligned out")
    progress("assessing")
    known = quasi or (manifest.quasi if manifest else ())
    secret = confidential or (manifest.confidential if manifest else ())
    secret = tuple(name for name in secret if name in before.attributes)
    before = before.select(tuple(dict.fromkeys((*common, *secret))))
    more: dict[str, Any] = {"groups": sides.groups, "aligned": sides.aligned, "k": sides.k, "earlier": sides.earlier}
    more["second"] = read_second(file, manifest)
    found = compare_release(before, after, tuple(name for name in known if name in common), secret, **more)
    if manifest is not None and manifest.guarantee.model in DIFFERENTIAL:
        found = replace(found, bounded=bound_in_words(manifest.guarantee))
    if page is not None:
        _write(page, found, before, after, file.name)
    return found


@dataclass(frozen=True, slots=True, eq=False)
class _Sides:
    """The records and what was released of them, and what a custodian knows besides."""

    before: Table
    after: Table
    aligned: bool
    groups: Labels | None = None
    k: int | None = None
    earlier: Earlier = field(default_factory=list)


def _sides(original: str | Path, file: Path, manifest: Manifest | None, aligned: bool, progress: Progress) -> _Sides:
    """Beside a schema's records row for row, but for private files, which no row of belongs to anybody; or a file's."""
    if Path(original).suffix.lower() not in SCHEMAS:
        after = _released(file, manifest)
        kinds = {name: each.kind for name, each in after.attributes.items()}
        return _Sides(_original(table_file(original), kinds), after, aligned)
    if manifest is not None and manifest.guarantee.model in DIFFERENTIAL:
        require_untouched(file, manifest)
        return _Sides(snapshot_records(original), _released(file, manifest), aligned=False)
    known = beside(original, file, progress)
    before = known.original
    taxonomies = {name: each.taxonomy for name, each in before.attributes.items() if each.taxonomy is not None}
    after = _released(file, manifest, taxonomies)
    return _Sides(before, after, True, known.groups, known.kept.k, earlier_releases(known))


def _released(file: Path, manifest: Manifest | None, taxonomies: Mapping[str, Taxonomy] | None = None) -> Table:
    return read_file(file) if manifest is None else read_released(file, manifest.columns_of(file), taxonomies)


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
