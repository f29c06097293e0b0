"""From a private recipe to a file: planned from what is public, charged, counted, drawn, written, then put there."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING

import discreet
from discreet.custodian.making import Excluded, made
from discreet.custodian.place import Place
from discreet.custodian.private_recipe import PrivateRecipe
from discreet.custodian.protecting import records_of
from discreet.custodian.publishing import ASSESSED, Holding, column_told, files_told
from discreet.custodian.registering import Progress
from discreet.custodian.releases import next_number, take_number
from discreet.custodian.rows import table_of
from discreet.custodian.writing import RELEASE, Targets, move, staging, write_for_custodian, write_json, write_table
from discreet.errors import Unavailable
from discreet.guarantee import Guarantee
from discreet.kernel.entropy import SYSTEM
from discreet.ledger import Caps
from discreet.ledger.charge import Charge, Model, Receipt
from discreet.microdata.table import Table
from discreet.planner.impossible import impossible
from discreet.planner.private_release import PrivatePlan, private_plan
from discreet.release import Release
from discreet.schema import Schema

if TYPE_CHECKING:
    from discreet.assess.comparison import Comparison

CUSTODIAN = "custodian"
"""Who pays for a file: within the budget of the data set, and no analyst's."""
STANDS = "what was charged stays charged"
LINKED = {
    "private-columns": "The columns are not linked: values of one row need not be of one person, not even nearly.",
    "private-records": "A row is the centroid of a cluster of similar records, repeated for each of them.",
    "private-linked": "Rows are drawn from noisy tables of pairs of columns; no row is anybody's.",
}
UNTOLD = "what it adds to this file cannot be told"
NOT_PRIVATE = "for the custodian: itself not private"
MOST_TOLD = 20
"""The largest epsilon whose factor is told."""
LONGEST = 2000
"""Of what the history tells of a release."""


def expected(schema: Schema, recipes: Sequence[PrivateRecipe]) -> tuple[PrivatePlan, ...]:
    """What each recipe would make and how far off it would be: from what is public, for nothing."""
    plans = [private_plan(one.columns, one.rows, one.method, one.epsilon, one.delta, one.k) for one in recipes]
    return tuple(replace(plan, guarantee=_labelled(plan.guarantee, schema)) for plan in plans)


def publish_private(holding: Holding, recipe: PrivateRecipe, targets: Targets, progress: Progress) -> Release:
    """Make one private file. All that can be refused is refused before the charge, which is never given back."""
    schema, place = holding.schema, Place(holding.schema)
    progress("planning")
    [plan] = expected(schema, [recipe])
    missing = recipe.method != "private-records"
    excluded = Excluded.of(impossible(schema).among(recipe.names), recipe.columns, missing)
    with staging(targets) as staged:
        with place.locked():
            number = next_number(place)
            take_number(place, number)
        name = f"{schema.name}-{number}"
        receipt = _charged(holding, recipe, plan, name)
        try:
            progress("counting and drawing")
            released = table_of(schema, made(plan, holding.source, excluded, SYSTEM))
            progress("writing")
            manifest = _written(holding, name, recipe, plan, released, targets, staged)
            holding.ledger.store(schema.name, receipt.entry, json.dumps(manifest, ensure_ascii=False))
            move(staged, targets.force)
        except Unavailable as failure:
            raise Unavailable(f"{failure}; {STANDS}") from None
        comparison = _assessed(holding, recipe, plan, name, released, targets, staged, progress)
    return Release(
        name,
        recipe.method,
        plan.guarantee,
        released.rows,
        _files(recipe, targets),
        manifest,
        targets.manifest,
        receipt.entry,
        {"expected_error": dict(plan.errors)},
        targets.report,
        None if comparison is None else _risk(plan),
        None if comparison is None else comparison.utility,
        plan.warnings,
    )


def _labelled(guarantee: Guarantee, schema: Schema) -> Guarantee:
    """Whom it is promised to, and what stands outside it: exact statistics that were published before."""
    before = tuple(f"published exactly before: {one.statistic} = {one.value}; {UNTOLD}" for one in schema.published)
    return replace(guarantee, unit=schema.unit_name, assumptions=before)


def _charged(holding: Holding, recipe: PrivateRecipe, plan: PrivatePlan, name: str) -> Receipt:
    """Paid in the custodian's name: as much as the data set has left may be spent on a file."""
    schema = holding.schema
    caps = Caps(schema.budget, schema.budget, schema.models)
    told = recipe.to_json()
    question = json.dumps({"publish": told, "release": name}, sort_keys=True, ensure_ascii=False)
    listed = ", ".join(recipe.names)
    words = f"published {name} by {recipe.method}: {listed}"[:LONGEST]
    model: Model = "dp" if plan.loss.pure else "approx-dp"
    names = schema.name, holding.snapshot.name, CUSTODIAN
    charge = Charge(*names, question, words, model, plan.spend, recipe.epsilon, fresh=True)
    return holding.ledger.charge(charge, caps)


def _files(recipe: PrivateRecipe, targets: Targets) -> tuple[Path, ...]:
    return tuple(targets.table / f"{name}.parquet" for name in recipe.names) if recipe.apart else (targets.table,)


def _written(
    holding: Holding,
    name: str,
    recipe: PrivateRecipe,
    plan: PrivatePlan,
    released: Table,
    targets: Targets,
    staged: Mapping[Path, Path],
) -> dict[str, object]:
    """The files and what is told of them, not yet in their places."""
    table = staged[targets.table]
    if recipe.apart:
        table.mkdir()
        files = [table / f"{column}.parquet" for column in recipe.names]
        for column, file in zip(recipe.names, files, strict=True):
            write_table(file, released.select((column,)))
    else:
        files = [table]
        write_table(table, released)
    manifest = _manifest(holding, name, recipe, plan, released, files)
    write_json(table / "manifest.json" if recipe.apart else staged[targets.manifest], manifest)
    return manifest


def _manifest(
    holding: Holding, name: str, recipe: PrivateRecipe, plan: PrivatePlan, released: Table, files: list[Path]
) -> dict[str, object]:
    told: dict[str, object] = {"format": RELEASE, "release": name, "dataset": holding.schema.name}
    told |= {"made_by": f"discreet {discreet.__version__}", "guarantee": plan.guarantee.to_json()}
    told |= {"recipe": recipe.to_json(), "rows_are": LINKED[recipe.method], "made": dict(plan.ways)}
    told |= {"expected_error": {column: float(f"{error:.3g}") for column, error in plan.errors.items()}}
    told["columns"] = [column_told(each) for each in released.attributes.values()]
    told["second_columns"] = []
    return told | {"files": files_told(files)}


def _assessed(
    holding: Holding,
    recipe: PrivateRecipe,
    plan: PrivatePlan,
    name: str,
    released: Table,
    targets: Targets,
    staged: Mapping[Path, Path],
    progress: Progress,
) -> Comparison | None:
    """For the custodian alone: it looks at the records again, and what it says is not private."""
    if targets.report is None and released.rows > ASSESSED:
        return None
    from discreet.assess.compare import compare_release

    progress("assessing")
    original = records_of(holding.schema, holding.source).select(recipe.names)
    found = compare_release(original, released, aligned=False)
    if targets.report is not None:
        _write_report(staged[targets.report], name, plan, found, original, released)
        move({targets.report: staged[targets.report]}, targets.force)
    return found


def _risk(plan: PrivatePlan) -> str:
    epsilon, delta = plan.guarantee.epsilon or Fraction(0), plan.guarantee.delta
    times = f"{math.exp(epsilon):.3g}" if epsilon <= MOST_TOLD else f"e^{float(epsilon):.4g}"
    but = f", but for a chance of {float(delta):.3g}" if delta else ""
    return f"Any file is at most {times} times as likely with a person's record as with any other in its place{but}."


def _write_report(
    path: Path, name: str, plan: PrivatePlan, comparison: Comparison, original: Table, released: Table
) -> None:
    from discreet.assess.report import report_json, write_report

    facts: dict[str, object] = {"title": name, "method": plan.method, "guarantee": plan.guarantee.words()}
    facts |= {"risk": _risk(plan), "assumptions": list(plan.guarantee.assumptions)}
    facts |= {"this report": NOT_PRIVATE, "rows are": LINKED[plan.method]}
    facts |= {f"expected error of {column}": f"{error:.3g}" for column, error in plan.errors.items()}
    facts |= {"warnings": list(plan.warnings)} if plan.warnings else {}
    if path.suffix.lower() == ".json":
        write_for_custodian(path, report_json(facts, comparison))
    else:
        write_report(path, facts, comparison, original, released)
