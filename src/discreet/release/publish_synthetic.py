"""Publish a synthetic file: plan it from public facts, charge it, count and sample, write it, move it to its place."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from discreet.datasets.dataset_dir import DatasetDir
from discreet.datasets.integrity import Progress
from discreet.errors import InvalidInput, Unavailable, Unsupported
from discreet.formatting import format_number, round_up
from discreet.ledger import Caps
from discreet.ledger.budget_check import FILE_QUERY_PREFIX
from discreet.ledger.charge import Charge, Model, Receipt
from discreet.mechanisms.entropy import SYSTEM
from discreet.planner.public_facts import StructuralZeros, list_predicate_columns, read_structural_zeros
from discreet.privacy.guarantee import Guarantee, format_privacy_bound
from discreet.release.files import (
    MANIFEST_NAME,
    ReleaseTargets,
    move_staged_files,
    stage_targets,
    write_comparison_report,
    write_json,
    write_released_table,
)
from discreet.release.manifest import Release, find_next_release_number, reserve_release_number
from discreet.release.methods import PrivateColumns, PrivateRecords, SyntheticRecipe
from discreet.release.protect import build_code_table, read_records
from discreet.release.publish import DatasetHandle, describe_columns, describe_files
from discreet.schema import Schema
from discreet.sdc.table import Table
from discreet.synthetic.file_plan import SyntheticPlan, plan_synthetic_file
from discreet.synthetic.make import PublicRowFacts, synthesize_codes

CUSTODIAN_PAYER = "custodian"
"""The payer of a file: it uses the budget of the data set, and no analyst's."""
NO_REFUND = "what was charged stays charged"
ROWS_ARE = {
    "private-columns": "The columns are not linked: values of one row need not be of one person, not even nearly.",
    "private-records": "A row is the centroid of a cluster of similar records, repeated for each of them.",
    "private-linked": "Rows are drawn from noisy tables of pairs of columns; no row is copied from anybody's.",
}
ERRORS_MEANING = (
    "mean distances between the released and the exact distribution of a column, stated before any row was counted: "
    "of numbers and dates in widths of the domain (W1), of names the share of rows that would have to change, of pairs "
    "the sum of differences of a table of two columns, in bins of the file's own, over the rows"
)
UNKNOWN_EFFECT = "what it adds to this file cannot be told"
NOT_PRIVATE_NOTE = "for the custodian: itself not private"
MAX_QUERY_LENGTH = 2000
"""The length of the description of a release in the history."""
MAX_SHOWN_LENGTH = 80
"""Its length in a refusal."""


def plan_synthetic_files(schema: Schema, recipes: Sequence[SyntheticRecipe]) -> tuple[SyntheticPlan, ...]:
    """Plan the file of each recipe and its expected error, from public facts and at no cost."""
    structural_zeros, plans = read_structural_zeros(schema), []
    for recipe in recipes:
        options = recipe.columns, recipe.rows, recipe.method.stored_name, recipe.epsilon, recipe.delta, recipe.k
        plan = plan_synthetic_file(*options, structural_zeros.restrict_to(recipe.names), recipe.pairs)
        plans.append(replace(plan, guarantee=_label_guarantee(plan.guarantee, schema)))
    return tuple(plans)


def publish_synthetic(
    handle: DatasetHandle, recipe: SyntheticRecipe, targets: ReleaseTargets, progress: Progress, key: str | None = None
) -> Release:
    """Make one synthetic file. All that can be refused is refused before the charge, which is never given back.

    A `key` pays once: if it has paid, there was a file or a failure, and neither can be made again.
    """
    schema = handle.schema
    progress("planning")
    [plan] = plan_synthetic_files(schema, [recipe])
    public_facts = PublicRowFacts.from_schema(schema, recipe.columns, not isinstance(recipe.method, PrivateRecords))
    with stage_targets(targets) as staged:
        name, receipt = _pay_for_number(handle, recipe, plan, targets, key)
        with _mark_failures_paid():
            progress("counting and drawing")
            released = build_code_table(schema, synthesize_codes(plan, handle.source, public_facts, SYSTEM))
            progress("writing")
            manifest = _write_files(handle, name, recipe, plan, released, targets, staged)
            handle.ledger.store(schema.name, receipt.entry, json.dumps(manifest, ensure_ascii=False))
            move_staged_files(staged, targets.force)
        report, utility, report_warnings = _assess_file(handle, plan, name, released, targets, staged, progress)
    unlinked_warnings = _warn_of_unlinked_columns(recipe, public_facts.structural_zeros)
    warnings = (*handle.notes, *_warn_of_unit_mismatch(handle), *plan.warnings, *unlinked_warnings, *report_warnings)
    return Release(
        name=name,
        method=recipe.method.stored_name,
        guarantee=plan.guarantee,
        rows=released.rows,
        files=_list_files(recipe, targets),
        manifest=manifest,
        manifest_file=targets.manifest,
        entry=receipt.entry,
        measured={},
        report=report,
        risk=format_privacy_bound(plan.guarantee),
        utility=utility,
        warnings=warnings,
    )


def _list_files(recipe: SyntheticRecipe, targets: ReleaseTargets) -> tuple[Path, ...]:
    if not recipe.is_apart:
        return (targets.table,)
    return tuple(targets.table / f"{column}.parquet" for column in recipe.names)


def _pay_for_number(
    handle: DatasetHandle, recipe: SyntheticRecipe, plan: SyntheticPlan, targets: ReleaseTargets, key: str | None
) -> tuple[str, Receipt]:
    """Charge the file under the next number of the data set, which nothing else has from then on."""
    dataset_dir = DatasetDir(handle.schema)
    with dataset_dir.lock():
        targets.require_free(has_second_table=False)
        number = find_next_release_number(dataset_dir)
        name = f"{handle.schema.name}-{number}"
        receipt = _charge_release(handle, recipe, plan, name, key)
        with _mark_failures_paid():
            reserve_release_number(dataset_dir, number)
    return name, receipt


@contextmanager
def _mark_failures_paid() -> Iterator[None]:
    """Failures in the block say that the charge stands."""
    try:
        yield
    except (InvalidInput, Unavailable) as failure:
        raise type(failure)(f"{failure}; {NO_REFUND}") from None


def _warn_of_unit_mismatch(handle: DatasetHandle) -> tuple[str, ...]:
    """For the custodian's eyes: the file has the declared number of rows, whatever there are."""
    counted_units, declared_units = handle.snapshot.report.get("units"), handle.schema.units
    if counted_units in (None, declared_units):
        return ()
    declared = f"{declared_units:,} are declared, as many as the file has: mend the schema."
    return (f"{counted_units:,} units were found and {declared}",)


def _warn_of_unlinked_columns(recipe: SyntheticRecipe, structural_zeros: StructuralZeros) -> tuple[str, ...]:
    """Columns that are not linked keep what is declared of one column, and nothing of several."""
    is_joint = any(len(list_predicate_columns(predicate)) > 1 for predicate in structural_zeros.predicates)
    if not isinstance(recipe.method, PrivateColumns) or not is_joint:
        return ()
    return ("What is declared impossible of several columns together may appear: these columns are not linked.",)


def _label_guarantee(guarantee: Guarantee, schema: Schema) -> Guarantee:
    """The guarantee with its unit, and with the exact statistics outside it that were published before."""
    assumptions = tuple(
        f"published exactly before: {statistic.statistic} = {statistic.value}; {UNKNOWN_EFFECT}"
        for statistic in schema.published
    )
    return replace(guarantee, unit=schema.unit_name, assumptions=assumptions)


def _charge_release(
    handle: DatasetHandle, recipe: SyntheticRecipe, plan: SyntheticPlan, name: str, key: str | None
) -> Receipt:
    """Pay in the custodian's name: as much as the data set has left may be spent on a file."""
    schema = handle.schema
    caps = Caps(schema.budget, schema.budget, schema.models)
    question = json.dumps({"publish": recipe.to_json(), "release": name}, sort_keys=True, ensure_ascii=False)
    query_text = f"{FILE_QUERY_PREFIX}{name} by {recipe.method.stored_name}: {', '.join(recipe.names)}"[
        :MAX_QUERY_LENGTH
    ]
    model: Model = "dp" if plan.budget.is_pure else "approx-dp"
    names = schema.name, handle.snapshot.name, CUSTODIAN_PAYER
    charge = Charge(*names, question, query_text, model, plan.privacy_cost, recipe.epsilon, key=key, fresh=True)
    earlier_entry = None if key is None else handle.ledger.find_by_key(schema.name, CUSTODIAN_PAYER, key)
    if earlier_entry is not None:
        raise _build_key_error(earlier_entry.entry, str(earlier_entry.query))
    receipt = handle.ledger.charge(charge, caps)
    if not receipt.charged:  # by somebody else with the key, since we looked
        raise _build_key_error(receipt.entry, query_text)
    return receipt


def _build_key_error(entry: int, query_text: str) -> InvalidInput:
    used = f"this key was used before, for entry {entry}, {query_text[:MAX_SHOWN_LENGTH]!r}"
    return InvalidInput(f"{used}; {NO_REFUND}, and a new key pays for a new file")


def _write_files(
    handle: DatasetHandle,
    name: str,
    recipe: SyntheticRecipe,
    plan: SyntheticPlan,
    released: Table,
    targets: ReleaseTargets,
    staged: Mapping[Path, Path],
) -> dict[str, object]:
    """Write the files and their manifest to the staged places; the manifest is returned."""
    table = staged[targets.table]
    if recipe.is_apart:
        table.mkdir()
        files = [table / f"{column}.parquet" for column in recipe.names]
        for column, file in zip(recipe.names, files, strict=True):
            write_released_table(file, released.select((column,)))
    else:
        files = [table]
        write_released_table(table, released)
    errors = {
        column: float(round_up(error, 3)) if math.isfinite(error) else error for column, error in plan.errors.items()
    }
    manifest = handle.start_manifest(name, plan.guarantee)
    manifest |= {
        "recipe": recipe.to_json(),
        "rows_are": ROWS_ARE[recipe.method.stored_name],
        "made": dict(plan.column_methods),
    }
    manifest |= {"expected_error": errors, "expected_error_is": ERRORS_MEANING}
    manifest |= {"columns": describe_columns(released), "second_columns": [], "files": describe_files(files)}
    write_json(table / MANIFEST_NAME if recipe.is_apart else staged[targets.manifest], manifest)
    return manifest


def _assess_file(
    handle: DatasetHandle,
    plan: SyntheticPlan,
    name: str,
    released: Table,
    targets: ReleaseTargets,
    staged: Mapping[Path, Path],
    progress: Progress,
) -> tuple[Path | None, str | None, tuple[str, ...]]:
    """Write the report, if one is asked for, from the records: it is itself not private.

    The file is in its place and paid for by now, so that no failure here is an error.
    """
    if targets.report is None:
        return None, None, ()
    from discreet.sdc.comparison import compare_release

    progress("assessing")
    try:
        original = read_records(handle.schema, handle.source).select(tuple(released))
        comparison = compare_release(original, released, aligned=False)
        comparison = replace(comparison, bounded=format_privacy_bound(plan.guarantee))
        errors = ", ".join(f"{column} {format_number(error, 2)}" for column, error in plan.errors.items())
        facts: dict[str, object] = {"title": name, "method": plan.method, "guarantee": plan.guarantee.words()}
        facts |= {"assumptions": list(plan.guarantee.assumptions), "this report": NOT_PRIVATE_NOTE}
        facts |= {"rows are": ROWS_ARE[plan.method], "expected errors": errors, "expected errors are": ERRORS_MEANING}
        facts |= {"warnings": list(plan.warnings)} if plan.warnings else {}
        write_comparison_report(staged[targets.report], facts, comparison, original, released)
        move_staged_files({targets.report: staged[targets.report]}, targets.force)
    except (InvalidInput, Unavailable, Unsupported) as failure:
        return None, None, (f"The file is released, and its report could not be made: {failure}.",)
    return targets.report, f"{comparison.utility} (For you alone: this sentence is itself not private.)", ()
