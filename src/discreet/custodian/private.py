"""From a private recipe to a file: planned from what is public, charged, counted, drawn, written, then put there."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import discreet
from discreet.custodian.making import Known, made
from discreet.custodian.place import Place
from discreet.custodian.private_recipe import PrivateRecipe
from discreet.custodian.protecting import records_of
from discreet.custodian.publishing import Holding, column_told, files_told
from discreet.custodian.registering import Progress
from discreet.custodian.releases import next_number, take_number
from discreet.custodian.rows import table_of
from discreet.custodian.writing import (
    MANIFEST,
    RELEASE,
    Targets,
    move,
    staging,
    write_for_custodian,
    write_json,
    write_table,
)
from discreet.errors import InvalidInput, Unavailable, Unsupported
from discreet.formatting import format_number, round_up
from discreet.guarantee import Guarantee, bound_in_words
from discreet.kernel.entropy import SYSTEM
from discreet.ledger import Caps
from discreet.ledger.charge import Charge, Model, Receipt
from discreet.ledger.refusal import FILE
from discreet.microdata.table import Table
from discreet.planner.impossible import Impossible, columns_of, impossible
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
    "private-linked": "Rows are drawn from noisy tables of pairs of columns; no row is copied from anybody's.",
}
ERRORS = (
    "mean distances between the released and the exact distribution of a column, stated before any row was counted: "
    "of numbers and dates in widths of the domain (W1), of names the share of rows that would have to change, of pairs "
    "the sum of differences of a table of two columns, in bins of the file's own, over the rows"
)
UNTOLD = "what it adds to this file cannot be told"
NOT_PRIVATE = "for the custodian: itself not private"
LONGEST = 2000
"""Of what the history tells of a release."""
LONGEST_SHOWN = 80
"""Of the same in a refusal."""


def expected(schema: Schema, recipes: Sequence[PrivateRecipe]) -> tuple[PrivatePlan, ...]:
    """What each recipe would make and how far off it would be: from what is public, for nothing."""
    never = impossible(schema)
    plans = [
        private_plan(
            *(one.columns, one.rows, one.method, one.epsilon, one.delta, one.k), never.among(one.names), one.pairs
        )
        for one in recipes
    ]
    return tuple(replace(plan, guarantee=_labelled(plan.guarantee, schema)) for plan in plans)


def publish_private(
    holding: Holding, recipe: PrivateRecipe, targets: Targets, progress: Progress, key: str | None = None
) -> Release:
    """Make one private file. All that can be refused is refused before the charge, which is never given back.

    A `key` pays once: where it has paid, there was a file or a failure, and neither can be made again.
    """
    schema, place = holding.schema, Place(holding.schema)
    progress("planning")
    [plan] = expected(schema, [recipe])
    known = Known.of(schema, recipe.columns, recipe.method != "private-records")
    with staging(targets) as staged:
        with place.locked():
            targets.require_free(two=False)
            number = next_number(place)
            name = f"{schema.name}-{number}"
            receipt = _charged(holding, recipe, plan, name, key)
            with _paid():
                take_number(place, number)
        with _paid():
            progress("counting and drawing")
            released = table_of(schema, made(plan, holding.source, known, SYSTEM))
            progress("writing")
            manifest = _written(holding, name, recipe, plan, released, targets, staged)
            holding.ledger.store(schema.name, receipt.entry, json.dumps(manifest, ensure_ascii=False))
            move(staged, targets.force)
        report, utility, unmade = _assessed(holding, plan, name, released, targets, staged, progress)
    return Release(
        name,
        recipe.method,
        plan.guarantee,
        released.rows,
        _files(recipe, targets),
        manifest,
        targets.manifest,
        receipt.entry,
        {},
        report,
        bound_in_words(plan.guarantee),
        utility,
        (*holding.notes, *_miscounted(holding), *plan.warnings, *_not_kept(recipe, known.never), *unmade),
    )


@contextmanager
def _paid() -> Iterator[None]:
    """What fails from here on is paid for."""
    try:
        yield
    except (InvalidInput, Unavailable) as failure:
        raise type(failure)(f"{failure}; {STANDS}") from None


def _miscounted(holding: Holding) -> tuple[str, ...]:
    """For the custodian's eyes: the file has the declared number of rows, whatever there are."""
    found, declared = holding.snapshot.report.get("units"), holding.schema.units
    if found in (None, declared):
        return ()
    return (f"{found:,} units were found and {declared:,} are declared, as many as the file has: mend the schema.",)


def _not_kept(recipe: PrivateRecipe, never: Impossible) -> tuple[str, ...]:
    """Columns that are not linked keep what is declared of one column, and nothing of several."""
    several = [one for one in never.predicates if len(columns_of(one)) > 1]
    if recipe.method != "private-columns" or not several:
        return ()
    return ("What is declared impossible of several columns together may appear: these columns are not linked.",)


def _labelled(guarantee: Guarantee, schema: Schema) -> Guarantee:
    """Whom it is promised to, and what stands outside it: exact statistics that were published before."""
    before = tuple(f"published exactly before: {one.statistic} = {one.value}; {UNTOLD}" for one in schema.published)
    return replace(guarantee, unit=schema.unit_name, assumptions=before)


def _charged(holding: Holding, recipe: PrivateRecipe, plan: PrivatePlan, name: str, key: str | None) -> Receipt:
    """Paid in the custodian's name: as much as the data set has left may be spent on a file."""
    schema = holding.schema
    caps = Caps(schema.budget, schema.budget, schema.models)
    told = recipe.to_json()
    question = json.dumps({"publish": told, "release": name}, sort_keys=True, ensure_ascii=False)
    listed = ", ".join(recipe.names)
    words = f"{FILE}{name} by {recipe.method}: {listed}"[:LONGEST]
    model: Model = "dp" if plan.loss.pure else "approx-dp"
    names = schema.name, holding.snapshot.name, CUSTODIAN
    charge = Charge(*names, question, words, model, plan.spend, recipe.epsilon, key=key, fresh=True)
    used = None if key is None else holding.ledger.keyed(schema.name, CUSTODIAN, key)
    if used is not None:
        raise _used(used.entry, str(used.query))
    receipt = holding.ledger.charge(charge, caps)
    if not receipt.charged:  # by somebody else with the key, since we looked
        raise _used(receipt.entry, words)
    return receipt


def _used(entry: int, words: str) -> InvalidInput:
    return InvalidInput(
        f"this key was used before, for entry {entry}, {words[:LONGEST_SHOWN]!r}; {STANDS}, and a new key pays for a "
        "new file"
    )


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
    write_json(table / MANIFEST if recipe.apart else staged[targets.manifest], manifest)
    return manifest


def _short(error: float) -> float:
    """An expected error in three digits, rounded up."""
    return float(round_up(error, 3)) if math.isfinite(error) else error


def _manifest(
    holding: Holding, name: str, recipe: PrivateRecipe, plan: PrivatePlan, released: Table, files: list[Path]
) -> dict[str, object]:
    told: dict[str, object] = {"format": RELEASE, "release": name, "dataset": holding.schema.name} | holding.marked
    told |= {"made_by": f"discreet {discreet.__version__}", "guarantee": plan.guarantee.to_json()}
    told |= {"recipe": recipe.to_json(), "rows_are": LINKED[recipe.method], "made": dict(plan.ways)}
    told |= {"expected_error": {column: _short(error) for column, error in plan.errors.items()}}
    told["expected_error_is"] = ERRORS
    told["columns"] = [column_told(each) for each in released.attributes.values()]
    told["second_columns"] = []
    return told | {"files": files_told(files)}


def _assessed(
    holding: Holding,
    plan: PrivatePlan,
    name: str,
    released: Table,
    targets: Targets,
    staged: Mapping[Path, Path],
    progress: Progress,
) -> tuple[Path | None, str | None, tuple[str, ...]]:
    """A report where one is asked for: it looks at the records again, and what it says is not private.

    The file is in its place and paid for by now, so that nothing here fails it.
    """
    if targets.report is None:
        return None, None, ()
    from discreet.assess.compare import compare_release

    progress("assessing")
    try:
        original = records_of(holding.schema, holding.source).select(tuple(released))
        found = replace(compare_release(original, released, aligned=False), bounded=bound_in_words(plan.guarantee))
        _write_report(staged[targets.report], name, plan, found, original, released)
        move({targets.report: staged[targets.report]}, targets.force)
    except (InvalidInput, Unavailable, Unsupported) as failure:
        return None, None, (f"The file is released, and its report could not be made: {failure}.",)
    return targets.report, f"{found.utility} (For you alone: this sentence is itself not private.)", ()


def _write_report(
    path: Path, name: str, plan: PrivatePlan, comparison: Comparison, original: Table, released: Table
) -> None:
    from discreet.assess.report import report_json, write_report

    facts: dict[str, object] = {"title": name, "method": plan.method, "guarantee": plan.guarantee.words()}
    facts |= {"assumptions": list(plan.guarantee.assumptions)}
    facts |= {"this report": NOT_PRIVATE, "rows are": LINKED[plan.method]}
    facts |= {
        "expected errors": ", ".join(f"{column} {format_number(error, 2)}" for column, error in plan.errors.items())
    }
    facts |= {"expected errors are": ERRORS}
    facts |= {"warnings": list(plan.warnings)} if plan.warnings else {}
    if path.suffix.lower() == ".json":
        write_for_custodian(path, report_json(facts, comparison))
    else:
        write_report(path, facts, comparison, original, released)
