"""Replay: a question asked on two neighbouring tables, and what every mechanism was handed on either.

The rows go the way they go in earnest, `custodian/draw.py` on a source in memory, up to where noise would be drawn.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import lru_cache
from typing import Any

from discreet.custodian.draw import count_key_units, read_exact_inputs
from discreet.custodian.question import Question, parse_question
from discreet.exact import as_positive
from discreet.guarantee import Guarantee
from discreet.planner.choose import plan, plan_session_counts
from discreet.planner.noisy import AdditiveNoise
from discreet.planner.plan import Plan
from discreet.planner.sharing import compute_implied_epsilon
from discreet.planner.tally import SessionBudget, list_noisy_counts
from discreet.query import to_sql
from discreet.query.totals import Cell
from discreet.schema import Schema
from discreet.sources.memory import MemorySource
from discreet.spend import SubAccount
from discreet.testing.generated import UNIT_FIELD, Row
from discreet.testing.moved import compute_input_change, compute_threshold_change
from discreet.testing.neighbouring import find_differing_rows, require_snapshot
from discreet.testing.recorded import DISALLOWED_SHARE, ZERO, MechanismReplay, ObservedLoss, Replay, compute_share

SnapshotRows = Sequence[Mapping[str, Any]]
THRESHOLD_MECHANISM = "discrete Laplace over a threshold"


def replay(
    schema: Schema, question: Question, rows: SnapshotRows, other_rows: SnapshotRows, *arguments: Any, **options: Any
) -> Replay:
    """Ask on both tables, with the epsilon, delta, prior and so on that `Custodian.answer` takes.

    Rows are as a snapshot keeps them: codes by column, and the unit under "#unit"; see `snapshot`.
    """
    require_snapshot(schema, rows, other_rows)
    return replay_plan(plan(schema, parse_question(question, schema), *arguments, **options), rows, other_rows)


def replay_plan(planned: Plan, rows: SnapshotRows, other_rows: SnapshotRows) -> Replay:
    """The same, of a plan that was made already."""
    differing_rows = find_differing_rows(planned.schema, rows, other_rows)
    mechanisms = (*_replay_keys(planned, rows, other_rows), *_replay_measurements(planned, rows, other_rows))
    totals = compute_promised_shares(
        planned, sum((mechanism.observed_loss for mechanism in mechanisms), ObservedLoss())
    )
    region = planned.get_sub_account()
    if region is not None and not _touches_region(region, planned.schema, differing_rows):
        totals["rows of others"] = (
            DISALLOWED_SHARE if any(mechanism.changed_cells for mechanism in mechanisms) else ZERO
        )
    return Replay(_format_question(planned), planned.guarantee, mechanisms, totals)


@lru_cache(maxsize=1)
def _format_question(planned: Plan) -> str:
    """The question in words, once for all pairs that a plan is replayed on."""
    return to_sql(planned.query, planned.schema)


def replay_session(
    schema: Schema,
    questions: Iterable[tuple[Question, object]],
    rows: SnapshotRows,
    other_rows: SnapshotRows,
    epsilon: object,
) -> Replay:
    """Counting questions, each with its noise scale, in one session: all answers together lose at most epsilon."""
    require_snapshot(schema, rows, other_rows)
    return replay_session_plans(*plan_session(schema, questions, epsilon), rows, other_rows)


def plan_session(
    schema: Schema, questions: Iterable[tuple[Question, object]], epsilon: object
) -> tuple[SessionBudget, tuple[Plan, ...]]:
    """The plans of a session's questions, and what they come to; refused where they do not fit."""
    tally, plans = SessionBudget(schema, as_positive(epsilon, "epsilon")), []
    for question, scale in questions:
        size = as_positive(scale, "the noise scale")
        plans.append(plan_session_counts(schema, parse_question(question, schema), size, tally.epsilon))
        tally = tally.add_counts(list_noisy_counts(plans[-1], size))
    return tally, tuple(plans)


def replay_session_plans(
    tally: SessionBudget, plans: Sequence[Plan], rows: SnapshotRows, other_rows: SnapshotRows
) -> Replay:
    """The same, of questions that were admitted already."""
    schema = tally.schema
    find_differing_rows(schema, rows, other_rows)
    # What each question may move by itself is not what a session promises.
    mechanisms = tuple(
        replace(mechanism, shares={})
        for session_plan in plans
        for mechanism in _replay_measurements(session_plan, rows, other_rows)
    )
    loss = sum((mechanism.observed_loss for mechanism in mechanisms), ObservedLoss())
    totals = {"tally": compute_share(loss.epsilon, tally.spent), "epsilon": compute_share(loss.epsilon, tally.epsilon)}
    guarantee = Guarantee.dp(tally.epsilon, schema.neighbours, schema.unit_name)
    return Replay(f"a session of {len(mechanisms)} counts", guarantee, mechanisms, totals)


def compute_promised_shares(planned: Plan, loss: ObservedLoss) -> dict[str, Fraction]:
    """What a loss is of what the ledger is charged, and of what the label says."""
    cost, guarantee = planned.cost, planned.guarantee
    if guarantee.model == "individual-dp":
        return {"epsilon of individual DP": compute_share(loss.epsilon, guarantee.epsilon or ZERO)}
    charges = {
        "epsilon charged": (loss.epsilon, cost.epsilon),
        "zCDP of it": (loss.rho, cost.rho),
        "zCDP charged": (loss.gaussian_rho, cost.gaussian_rho),
        "delta charged": (loss.delta, cost.delta),
    }
    totals = {name: compute_share(*pair) for name, pair in charges.items() if any(pair)}
    if guarantee.model == "zcdp":
        return totals | {"rho of the label": compute_share(loss.gaussian_rho + loss.rho, guarantee.rho or ZERO)}
    implied = (
        compute_implied_epsilon(loss.gaussian_rho, guarantee.delta) if loss.gaussian_rho and guarantee.delta else ZERO
    )
    return totals | {"epsilon of the label": compute_share(loss.epsilon + implied, guarantee.epsilon or ZERO)}


def _replay_measurements(planned: Plan, rows: SnapshotRows, other_rows: SnapshotRows) -> list[MechanismReplay]:
    """Every measurement with its inputs; those that are drawn once for all are recorded once."""
    inputs, other_inputs = (_compute_exact_inputs(planned, table) for table in (rows, other_rows))
    mechanisms, recorded_groups = [], set()
    for index, measurement in enumerate(planned.measurements):
        group = measurement.joint_group if isinstance(measurement, AdditiveNoise) else 0
        if group not in recorded_groups:
            change = compute_input_change(measurement, planned.schema, inputs[index], other_inputs[index])
            names = _format_labels(planned, index if not group else None)
            mechanisms.append(
                MechanismReplay(
                    names,
                    measurement.name,
                    inputs[index],
                    other_inputs[index],
                    change.shares,
                    change.observed_loss,
                    change.note,
                )
            )
        recorded_groups |= {group} - {0}
    return mechanisms


def _compute_exact_inputs(planned: Plan, rows: SnapshotRows) -> list[dict[Cell, Any]]:
    """The inputs of every cell there can be; with private keys, of every key there is."""
    source = MemorySource(planned.schema, rows)
    cells = planned.list_cells() if planned.threshold is None else [(key,) for key in count_key_units(planned, source)]
    totals = read_exact_inputs(planned, source, cells, planned.query.where)
    return [dict(zip(totals.cells, inputs, strict=True)) for inputs in totals.inputs]


def _replay_keys(planned: Plan, rows: SnapshotRows, other_rows: SnapshotRows) -> list[MechanismReplay]:
    if planned.threshold is None:
        return []
    counts, other_counts = (
        count_key_units(planned, MemorySource(planned.schema, table)) for table in (rows, other_rows)
    )
    change = compute_threshold_change(planned.threshold, planned.schema, counts, other_counts)
    return [
        MechanismReplay(
            planned.query.keys[0].column, THRESHOLD_MECHANISM, counts, other_counts, change.shares, change.observed_loss
        )
    ]


def _format_labels(planned: Plan, index: int | None) -> str:
    """What an aggregate is called in the reply; all that share a draw, without a place."""
    query = planned.query
    if query.unit is not None:
        return query.column or ""
    joint_places = [
        place
        for place, measurement in enumerate(planned.measurements)
        if isinstance(measurement, AdditiveNoise) and measurement.joint_group
    ]
    places = joint_places if index is None else [index]
    return ", ".join(output.label for output in query.presentation.outputs if output.aggregate in places)


def _touches_region(region: SubAccount, schema: Schema, differs: Iterable[Row]) -> bool:
    """Whether what differs has a row in the one part of the data that a question is about."""
    if region.kind == "individual":
        return any(row[UNIT_FIELD] == region.name for row in differs)
    column = schema.column(schema.partition or "")
    codes = (row[column.name] for row in differs)
    return any(isinstance(code, int) and str(column.decode(code)) == region.name for code in codes)
