"""From a recipe to a file: checked against what is public, made, checked again on its own, entered, then put there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

import discreet
from discreet.custodian.engines import made_by_engine
from discreet.custodian.files import manifest_from, read_manifest, read_released
from discreet.custodian.place import Place, Snapshot
from discreet.custodian.protecting import Made, made_in_memory
from discreet.custodian.recipe import Recipe
from discreet.custodian.registering import Progress
from discreet.custodian.releases import (
    Alignment,
    Kept,
    alignment_of,
    keep_release,
    kept_releases,
    labels_for,
    next_number,
)
from discreet.custodian.spool import Spool
from discreet.custodian.writing import (
    RELEASE,
    Targets,
    digest,
    move,
    staging,
    write_for_custodian,
    write_json,
    write_table,
)
from discreet.errors import InvalidInput
from discreet.formatting import format_percent
from discreet.kernel.entropy import SYSTEM
from discreet.microdata.table import Attribute
from discreet.release import Release
from discreet.schema import Schema

if TYPE_CHECKING:
    from discreet.assess.comparison import Comparison
    from discreet.assess.evidence import Checked
    from discreet.ledger import Ledger
    from discreet.sources.plan import Source

NOTABLE = 0.01
"""A share of rows from which on it is warned of."""
ASSESSED = 2_000_000
"""Up to so many rows utility and risk are measured even where no report is asked for."""


@dataclass(frozen=True, slots=True)
class Holding:
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
    def marked(self) -> dict[str, object]:
        """The same, in the manifest."""
        return {} if self.note is None else {"note": self.note}


def publish(holding: Holding, recipe: Recipe, targets: Targets, progress: Progress) -> Release:
    """Make one release; whatever fails before the end leaves no file.

    It is entered before its files are put in place: after a crash between the two it is told of and not there.
    """
    place = Place(holding.schema)
    key = SYSTEM.take(32)
    with staging(targets) as staged:
        progress("reading")
        spool = Spool(place.folder)
        made = _made(holding, recipe, key, spool, progress)
        with place.locked():
            earlier, number = kept_releases(place), next_number(place)
            name = f"{holding.schema.name}-{number}"
            progress("writing")
            manifest = _written(holding, name, recipe, made, targets, staged)
            progress("checking the claim")
            checked = _checked(recipe, made, manifest, targets, staged, spool)
            comparison = _assessed(holding, recipe, made, earlier, targets, progress)
            seen = (*_disclosed(checked), *_kept_unique(recipe, made), *_elsewhere(holding, place, earlier))
            warnings = (*holding.notes, *seen)
            if targets.report is not None and comparison is not None:
                _write_report(staged[targets.report], name, recipe, made, comparison, warnings)
            kept = Kept(
                number,
                name,
                holding.snapshot.name,
                recipe.method,
                recipe.k,
                digest(staged[targets.table]),
                digest(staged[targets.manifest]),
            )
            targets.require_free(made.second is not None)  # others may have been quicker
            entry = _entered(holding, place, kept, made, staged[targets.manifest])
            move(staged, targets.force, _gone(targets, made))
    return Release(
        name,
        recipe.method,
        made.guarantee,
        made.released.rows,
        (targets.table,) if made.second is None else (targets.table, targets.second),
        manifest,
        targets.manifest,
        entry,
        checked.to_json(),
        targets.report,
        None if comparison is None else comparison.risk,
        None if comparison is None else comparison.utility,
        warnings,
    )


def _made(holding: Holding, recipe: Recipe, key: bytes, spool: Spool, progress: Progress) -> Made:
    """The release, made where the rows are if an engine can; a row is a unit, since `roles_of` saw to that."""
    by_engine = made_by_engine(recipe, holding.schema, holding.source, key, spool, progress)
    made = by_engine or made_in_memory(recipe, holding.schema, holding.source, key, progress)
    return replace(made, guarantee=replace(made.guarantee, unit=holding.schema.unit_name))


def _written(
    holding: Holding, name: str, recipe: Recipe, made: Made, targets: Targets, staged: Mapping[Path, Path]
) -> dict[str, object]:
    """The tables and what is told of them, not yet in their places."""
    write_table(staged[targets.table], made.released)
    if made.second is not None:
        write_table(staged[targets.second], made.second)
    manifest = _manifest(holding, name, recipe, made, targets, staged)
    write_json(staged[targets.manifest], manifest)
    return manifest


def _checked(
    recipe: Recipe, made: Made, manifest: object, targets: Targets, staged: Mapping[Path, Path], spool: Spool
) -> Checked:
    """The claim, checked on the files as anybody will read them; it hides something, or it does not leave."""
    from discreet.assess.claims import check_claim

    told = manifest_from(manifest)
    second = None if made.second is None else read_released(staged[targets.second], told.second_columns)
    checked = check_claim(
        made.guarantee,
        read_released(staged[targets.table], told.columns, spool=spool),
        recipe.quasi,
        recipe.confidential,
        original=made.original,
        groups=made.groups,
        second=second,
        kept=recipe.keep,
    )
    if _certain(checked) == 1:
        raise InvalidInput(
            f"{recipe.method} with k {recipe.k} would hide nothing: in every group all have the same value of a "
            "confidential column; ask for a larger k, for --diversity 'distinct 2', or for another method"
        )
    return checked


def _certain(checked: Checked) -> float:
    """The share of rows that are in groups with one value only, in the worst confidential column."""
    found = checked.measured.get("certain", 0.0)
    return float(found) if isinstance(found, int | float) else 0.0


def _disclosed(checked: Checked) -> tuple[str, ...]:
    share = _certain(checked)
    if share < NOTABLE:
        return ()
    return (
        f"{format_percent(share)} of the rows are in groups with one value of a confidential column: it is disclosed.",
    )


def _kept_unique(recipe: Recipe, made: Made) -> tuple[str, ...]:
    """Who knows the columns that are kept as they are may find people by them."""
    if not recipe.keep:
        return ()
    from discreet.assess.coding import classes_of

    alone = np.count_nonzero(np.bincount(classes_of(made.released, recipe.keep)) == 1)
    share = alone / made.released.rows
    if share < NOTABLE:
        return ()
    names = ", ".join(recipe.keep)
    return (f"{format_percent(share, 2)} of the rows are the only ones with their {names}: who knows that finds them.",)


def _elsewhere(holding: Holding, place: Place, earlier: Sequence[Kept]) -> tuple[str, ...]:
    """Earlier releases that could not be laid over this one, unless they are of other people."""
    manifest = place.read()
    snapshots = [] if manifest is None else list(manifest.snapshots)
    apart = next((at for at in range(len(snapshots) - 1, -1, -1) if snapshots[at].disjoint), 0)
    same = {one.name for one in snapshots[apart:]} - {holding.snapshot.name}
    names = [one.name for one in earlier if one.snapshot in same]
    if not names:
        return ()
    return (f"{', '.join(names)}: made of other snapshots of this data set, and not laid over this one.",)


def _gone(targets: Targets, made: Made) -> tuple[Path, ...]:
    """The other table of an Anatomy that is overwritten by a release without one."""
    try:
        before = read_manifest(targets.table)
    except InvalidInput:
        return ()
    stale = before is not None and before.second == targets.second.name and made.second is None
    return (targets.second,) if stale else ()


def _manifest(
    holding: Holding, name: str, recipe: Recipe, made: Made, targets: Targets, staged: Mapping[Path, Path]
) -> dict[str, object]:
    paths = [targets.table] if made.second is None else [targets.table, targets.second]
    told: dict[str, object] = {"format": RELEASE, "release": name, "dataset": holding.schema.name} | holding.marked
    told |= {"made_by": f"discreet {discreet.__version__}", "guarantee": made.guarantee.to_json()}
    told |= {"recipe": recipe.to_json(), "measured": dict(made.facts)}
    told["columns"] = [column_told(each) for each in made.released.attributes.values()]
    told["second_columns"] = (
        [] if made.second is None else [column_told(each) for each in made.second.attributes.values()]
    )
    return told | {"files": files_told([staged[path] for path in paths])}


def files_told(files: Sequence[Path]) -> list[dict[str, str]]:
    """What a manifest says of the files, which have their names already."""
    return [{"name": file.name, "sha256": digest(file)} for file in files]


def column_told(attribute: Attribute) -> dict[str, object]:
    """What a manifest says of a column."""
    told: dict[str, object] = {"name": attribute.name, "kind": attribute.kind, "holds": attribute.holds}
    return told | ({"categories": list(attribute.categories)} if attribute.kind == "ordinal" else {})


def _assessed(
    holding: Holding, recipe: Recipe, made: Made, earlier: Sequence[Kept], targets: Targets, progress: Progress
) -> Comparison | None:
    if targets.report is None and made.released.rows > ASSESSED:
        return None
    from discreet.assess.compare import compare_release

    progress("assessing")
    place, same = Place(holding.schema), [one for one in earlier if one.snapshot == holding.snapshot.name]
    before = [(one.name, labels_for(alignment_of(place, one), made.rows)) for one in same]
    return compare_release(
        made.original,
        made.released,
        recipe.quasi,
        recipe.confidential,
        groups=made.groups,
        earlier=before,
        k=recipe.k,
        second=made.second,
    )


def _write_report(
    path: Path, name: str, recipe: Recipe, made: Made, comparison: Comparison, warnings: Sequence[str]
) -> None:
    from discreet.assess.report import report_json, write_report

    facts: dict[str, object] = {"title": name, "method": recipe.method, "k": recipe.k}
    facts |= {} if recipe.t is None else {"t": str(recipe.t)}
    facts |= {"guarantee": made.guarantee.words(), "assumptions": list(made.guarantee.assumptions)}
    facts |= {"warnings": list(warnings)} if warnings else {}
    if path.suffix.lower() == ".json":
        write_for_custodian(path, report_json(facts, comparison))
    else:
        write_report(path, facts, comparison, made.original, made.released)


def _entered(holding: Holding, place: Place, kept: Kept, made: Made, manifest: Path) -> int:
    """Kept in the data set's folder and entered in the ledger: before anybody can see the file."""
    keep_release(place, kept, Alignment(made.rows, made.groups))
    what = f"released {kept.name} by {kept.method}: {made.guarantee.words()}"
    told = manifest.read_text(encoding="utf-8")
    return holding.ledger.release(holding.schema.name, holding.snapshot.name, what, told)
