"""From a recipe to a file: checked against what is public, made, checked again on its own, entered, then put there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

import discreet
from discreet.custodian.engines import made_by_engine
from discreet.custodian.place import Place, Snapshot
from discreet.custodian.protecting import Made, made_in_memory
from discreet.custodian.recipe import Recipe
from discreet.custodian.registering import Progress
from discreet.custodian.releases import Alignment, Kept, alignment_of, keep_release, kept_releases
from discreet.custodian.writing import Targets, digest, move, staging, write_json, write_table
from discreet.kernel.entropy import SYSTEM
from discreet.release import Release
from discreet.schema import Schema

if TYPE_CHECKING:
    from discreet.assess.comparison import Comparison
    from discreet.assess.evidence import Checked
    from discreet.ledger import Ledger
    from discreet.sources.plan import Source

FORMAT = "discreet release 1"
NOT_FOR_RELEASE = "For the custodian alone: it tells of the original records."
ASSESSED = 2_000_000
"""Up to so many rows utility and risk are measured even where no report is asked for."""


@dataclass(frozen=True, slots=True)
class Holding:
    """What publishing needs of a custodian."""

    schema: Schema
    snapshot: Snapshot
    source: Source
    ledger: Ledger


def publish(holding: Holding, recipe: Recipe, targets: Targets, progress: Progress) -> Release:
    """Make one release; whatever fails before the end leaves no file, and no record but that it was tried."""
    place = Place(holding.schema)
    key = SYSTEM.take(32)
    with staging(targets) as staged:
        progress("reading")
        made = _made(holding, recipe, key, progress)
        progress("checking the claim")
        checked = _checked(recipe, made)
        with place.locked():
            earlier = kept_releases(place)
            name = f"{holding.schema.name}-{len(earlier) + 1}"
            progress("writing")
            write_table(staged[targets.table], [made.released])
            if made.second is not None:
                write_table(staged[targets.second], [made.second])
            manifest = _manifest(holding.schema, name, recipe, made, targets, staged)
            write_json(staged[targets.manifest], manifest)
            comparison = _assessed(holding, recipe, made, earlier, targets, progress)
            if targets.report is not None and comparison is not None:
                _write_report(staged[targets.report], name, recipe, made, comparison)
            entry = _entered(
                holding, place, name, recipe, made, digest(staged[targets.table]), staged[targets.manifest]
            )
            move(staged)
    files = (targets.table,) if made.second is None else (targets.table, targets.second)
    return Release(
        name,
        recipe.method,
        made.guarantee,
        made.released.rows,
        files,
        manifest,
        targets.manifest,
        entry,
        checked.to_json(),
        targets.report,
        None if comparison is None else comparison.risk,
        None if comparison is None else comparison.utility,
    )


def _made(holding: Holding, recipe: Recipe, key: bytes, progress: Progress) -> Made:
    by_engine = made_by_engine(recipe, holding.schema, holding.source, key, progress)
    return by_engine or made_in_memory(recipe, holding.schema, holding.source, key, progress)


def _checked(recipe: Recipe, made: Made) -> Checked:
    from discreet.assess.claims import check_claim

    return check_claim(
        made.guarantee,
        made.released,
        recipe.quasi,
        recipe.confidential,
        original=made.original,
        groups=made.groups,
        second=made.second,
    )


def _manifest(
    schema: Schema, name: str, recipe: Recipe, made: Made, targets: Targets, staged: Mapping[Path, Path]
) -> dict[str, object]:
    paths = [targets.table] if made.second is None else [targets.table, targets.second]
    told: dict[str, object] = {"format": FORMAT, "release": name, "dataset": schema.name}
    told |= {"made_by": f"discreet {discreet.__version__}", "guarantee": made.guarantee.to_json()}
    told |= {"recipe": recipe.to_json(), "measured": dict(made.facts)}
    told["columns"] = [_column(each) for each in made.released.attributes.values()]
    return told | {"files": [{"name": path.name, "sha256": digest(staged[path])} for path in paths]}


def _column(attribute: Any) -> dict[str, object]:
    told: dict[str, object] = {"name": attribute.name, "kind": attribute.kind, "holds": attribute.look}
    return told | ({"categories": list(attribute.categories)} if attribute.kind == "ordinal" else {})


def _assessed(
    holding: Holding, recipe: Recipe, made: Made, earlier: Sequence[Kept], targets: Targets, progress: Progress
) -> Comparison | None:
    if targets.report is None and made.released.rows > ASSESSED:
        return None
    from discreet.assess.compare import compare_release

    progress("assessing")
    before = [(one.name, _labels(holding, one, made)) for one in earlier if one.snapshot == holding.snapshot.name]
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


def _labels(holding: Holding, kept: Kept, made: Made) -> dict[str, NDArray[np.int64]]:
    """The groups of an earlier release of the same snapshot, for the rows of this one; rows it left out stand alone."""
    then = alignment_of(Place(holding.schema), kept)
    found = {}
    for name, labels in then.groups.items():
        at = labels.max() + 1 + np.arange(made.snapshot_rows)
        at[then.rows] = labels
        found[name] = at[made.rows]
    return found


def _write_report(path: Path, name: str, recipe: Recipe, made: Made, comparison: Comparison) -> None:
    from discreet.assess.report import report_json, write_report

    facts: dict[str, object] = {"title": name, "method": recipe.method, "k": recipe.k}
    facts |= {} if recipe.t is None else {"t": str(recipe.t)}
    facts |= {"guarantee": made.guarantee.words(), "assumptions": list(made.guarantee.assumptions)}
    if path.suffix.lower() == ".json":
        write_json(path, report_json(facts, comparison))
    else:
        write_report(path, facts, comparison, made.original, made.released)


def _entered(holding: Holding, place: Place, name: str, recipe: Recipe, made: Made, sha256: str, manifest: Path) -> int:
    """Kept in the data set's folder and entered in the ledger: before anybody can see the file."""
    number = int(name.rpartition("-")[2])
    kept = Kept(number, name, holding.snapshot.name, recipe.method, recipe.k, sha256)
    keep_release(place, kept, Alignment(made.rows, made.groups))
    what = f"released {name} by {recipe.method}: {made.guarantee.words()}"
    return holding.ledger.release(
        holding.schema.name, holding.snapshot.name, what, manifest.read_text(encoding="utf-8")
    )
