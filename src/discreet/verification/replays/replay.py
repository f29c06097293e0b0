"""Replay questions and releases on two neighboring tables, before any noise.

The rows go the way they go in earnest, `custodian/measure.py` on a source in memory, up to where noise would be drawn.

The pairs of columns of linked records are told in bins of columns that are private already; so those columns are drawn
once, on the first table, and both tables are told in the same bins. That is what adaptive composition compares.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import lru_cache
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.custodian.measure import count_key_units, read_exact_inputs
from discreet.errors import Internal
from discreet.estimation.raking import compute_independent_table
from discreet.measurements.additive import AdditiveNoise
from discreet.mechanisms.box_staircase import BoxStaircase
from discreet.mechanisms.entropy import Entropy, KeyedEntropy
from discreet.mechanisms.noise import IndependentNoises, Noise
from discreet.mechanisms.selection_scores import Selection
from discreet.numeric import as_positive
from discreet.planner.candidates import compute_implied_epsilon
from discreet.planner.plan import Plan
from discreet.planner.planner import plan, plan_session_counts
from discreet.planner.session_budget import SessionBudget, list_noisy_counts
from discreet.privacy.cost import SubAccount
from discreet.privacy.guarantee import Guarantee
from discreet.query import to_sql
from discreet.query.scan import Cell
from discreet.query.validate import Question, parse_question
from discreet.release.methods import build_synthetic_recipe
from discreet.release.publish_synthetic import plan_synthetic_files
from discreet.schema import Schema
from discreet.sources.memory import MemorySource
from discreet.synthetic.column_methods import CategoryCounts, CumulativeCounts, NameBlocks, RankBlocks
from discreet.synthetic.columns import ColumnPlan, Counts, PrivacyBudget
from discreet.synthetic.file_plan import SyntheticPlan
from discreet.synthetic.make import count_column_cells, count_occupied_cells, count_pair_tables
from discreet.synthetic.marginals import (
    BinnedColumn,
    MarginalsPlan,
    NoisyMarginals,
    build_pair_selection,
    build_table_noises,
    compute_pair_score,
    count_choices_left,
    measure_marginals,
)
from discreet.synthetic.records import RecordsPlan
from discreet.verification.replays.neighbors import (
    ENTROPY_KEY,
    UNIT_FIELD,
    Row,
    TableRows,
    find_differing_rows,
    require_snapshot,
)
from discreet.verification.replays.observed_loss import (
    DISALLOWED_SHARE,
    ZERO,
    Inputs,
    MechanismReplay,
    ObservedLoss,
    Replay,
    compute_input_change,
    compute_noise_loss,
    compute_share,
    compute_threshold_change,
    compute_vector_loss,
)

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
    guarantee = Guarantee.dp(tally.epsilon, schema.neighbors, schema.unit_name)
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


IntegerArray = NDArray[np.int64]
SourcePair = tuple[MemorySource, MemorySource]


def plan_replayed_release(schema: Schema, method: str, epsilon: object, **options: Any) -> SyntheticPlan:
    """The plan of a private file, from what is public; `more` is what its recipe takes besides."""
    return plan_synthetic_files(schema, [build_synthetic_recipe(schema, method, epsilon, **options)])[0]


def replay_release(
    schema: Schema,
    method: str,
    rows: TableRows,
    other_rows: TableRows,
    epsilon: object = 1,
    entropy: Entropy | None = None,
    **options: Any,
) -> Replay:
    """Make private-columns, private-linked or private-records of both tables, up to where noise would be drawn."""
    require_snapshot(schema, rows, other_rows)
    return replay_release_plan(
        schema, plan_replayed_release(schema, method, epsilon, **options), rows, other_rows, entropy
    )


def replay_release_plan(
    schema: Schema, plan: SyntheticPlan, rows: TableRows, other_rows: TableRows, entropy: Entropy | None = None
) -> Replay:
    """The same, of a plan that was made already."""
    find_differing_rows(schema, rows, other_rows)
    sources = MemorySource(schema, rows), MemorySource(schema, other_rows)
    mechanisms = _replay_release(plan, sources, KeyedEntropy(ENTROPY_KEY, plan.method) if entropy is None else entropy)
    loss = sum((mechanism.observed_loss for mechanism in mechanisms), ObservedLoss())
    return Replay(f"a release by {plan.method}", plan.guarantee, tuple(mechanisms), _compute_total_shares(plan, loss))


def _replay_release(plan: SyntheticPlan, sources: SourcePair, entropy: Entropy) -> list[MechanismReplay]:
    if isinstance(plan.method_plan, RecordsPlan):
        return _replay_records(plan.method_plan, sources)
    if plan.method != "private-linked":
        return [_replay_column(column_plan, sources) for column_plan in plan.method_plan]
    marginal_plan, columns = plan.method_plan
    return [
        *(_replay_column(column_plan, sources) for column_plan in columns),
        *_replay_marginals(marginal_plan, columns, sources, entropy),
    ]


def _compute_total_shares(plan: SyntheticPlan, loss: ObservedLoss) -> dict[str, Fraction]:
    """Of what the ledger is charged, and of what the label says."""
    spend, guarantee = plan.privacy_cost, plan.guarantee
    if plan.budget.is_pure:
        totals = {
            "epsilon charged": compute_share(loss.epsilon, spend.epsilon),
            "zCDP of it": compute_share(loss.rho, spend.rho),
        }
        return totals | {"epsilon of the label": compute_share(loss.epsilon, guarantee.epsilon or ZERO)}
    implied = (
        compute_implied_epsilon(loss.gaussian_rho, guarantee.delta) if loss.gaussian_rho and guarantee.delta else ZERO
    )
    totals = {"zCDP charged": compute_share(loss.gaussian_rho, spend.gaussian_rho)}
    return totals | {"epsilon of the label": compute_share(implied, guarantee.epsilon or ZERO)}


def _compute_loss_share(budget: PrivacyBudget, observed_loss: ObservedLoss) -> Fraction:
    """Of what a part may lose."""
    return (
        compute_share(observed_loss.epsilon, budget.epsilon)
        if budget.is_pure
        else compute_share(observed_loss.gaussian_rho, budget.rho)
    )


def _replay_column(plan: ColumnPlan, sources: SourcePair) -> MechanismReplay:
    """One column: the exact totals of its blocks or cells, or the scores of its names."""
    counts, other_counts = (count_column_cells(source, plan.grid) for source in sources)
    if isinstance(plan, NameBlocks):
        scores, other_scores = plan.compute_scores(counts), plan.compute_scores(other_counts)
        loss = compute_names_loss(plan.selection, scores, other_scores, plan.budget.is_pure)
        return _build_column_replay(plan, _index_by_position(scores), _index_by_position(other_scores), loss)
    if isinstance(plan, CumulativeCounts):
        return _replay_noisy_column(plan, plan.noises, plan.compute_totals(counts), plan.compute_totals(other_counts))
    if isinstance(plan, CategoryCounts | RankBlocks):
        return _replay_noisy_column(
            plan, [plan.noise], [plan.compute_totals(counts)], [plan.compute_totals(other_counts)]
        )
    raise Internal(f"a column by {plan.name} is not replayed")


def _replay_noisy_column(
    plan: ColumnPlan, noises: Sequence[Noise], totals: Sequence[IntegerArray], other_totals: Sequence[IntegerArray]
) -> MechanismReplay:
    """Level by level."""
    losses = (
        compute_noise_loss(noise, (x - y).tolist()) for noise, x, y in zip(noises, totals, other_totals, strict=True)
    )
    return _build_column_replay(
        plan, _index_by_position(totals), _index_by_position(other_totals), sum(losses, ObservedLoss())
    )


def _build_column_replay(plan: ColumnPlan, inputs: Inputs, other_inputs: Inputs, loss: ObservedLoss) -> MechanismReplay:
    return MechanismReplay(
        plan.grid.column,
        plan.name,
        inputs,
        other_inputs,
        {"share of the column": _compute_loss_share(plan.budget, loss)},
        loss,
    )


def _index_by_position(arrays: Sequence[IntegerArray] | IntegerArray) -> Inputs:
    return dict(enumerate(arrays))


def compute_names_loss(
    selection: Selection, scores: IntegerArray, other_scores: IntegerArray, pure: bool
) -> ObservedLoss:
    """Of a choice in every block: each loses in proportion to how far two of its scores move apart.

    A choice whose log-ratios lie in an interval of length r is r^2 / 8 of zCDP.
    """
    change = other_scores - scores
    spreads = (change.max(axis=1) - change.min(axis=1)).tolist()
    losses = [selection.epsilon * Fraction(int(each), selection.spread) for each in spreads]
    eighths = sum((each**2 / 8 for each in losses), ZERO)
    return ObservedLoss(sum(losses, ZERO), eighths) if pure else ObservedLoss(gaussian_rho=eighths)


def _replay_marginals(
    plan: MarginalsPlan, columns: Sequence[ColumnPlan], sources: SourcePair, entropy: Entropy
) -> list[MechanismReplay]:
    """The choice of pairs by their scores, and the tables of those that were chosen."""
    counts = {
        column.grid.column: column.estimate_counts(column.measure(count_column_cells(sources[0], column.grid), entropy))
        for column in columns
    }
    runs = {column.grid.column: column.edges[:-1] for column in columns if isinstance(column, CumulativeCounts)}
    binned = plan.bin_columns(counts, runs)
    pairs = list(combinations(range(len(binned)), 2))
    binned_pairs = [(binned[column], binned[other_column]) for column, other_column in pairs]
    exact = [dict(zip(pairs, count_pair_tables(source, binned_pairs), strict=True)) for source in sources]
    marginals = measure_marginals(plan, counts, lambda _: list(exact[0].values()), entropy, runs)
    return [*_replay_pair_selection(plan, binned, exact), *_replay_pair_tables(plan, marginals, exact)]


def _replay_pair_selection(
    plan: MarginalsPlan, binned: Sequence[BinnedColumn], exact: Sequence[dict[Any, Counts]]
) -> list[MechanismReplay]:
    choices = count_choices_left(plan.required_pairs, len(binned))
    if plan.choosing_budget is None or not choices:
        return []
    independent = {pair: compute_independent_table(binned[pair[0]].sizes, binned[pair[1]].sizes) for pair in exact[0]}
    distances, other_distances = (
        {pair: compute_pair_score(table, independent[pair]) for pair, table in by_pair.items()} for by_pair in exact
    )
    selection = build_pair_selection(plan.choosing_budget, choices).selection
    scores, other_scores = (
        np.array([list(by_pair.values())], dtype=np.int64) for by_pair in (distances, other_distances)
    )
    single_loss = compute_names_loss(selection, scores, other_scores, plan.choosing_budget.is_pure)
    loss = sum([single_loss] * choices, ObservedLoss())
    largest_change = max(abs(distances[pair] - other_distances[pair]) for pair in distances)
    shares = {
        "scores": Fraction(largest_change, 2),
        "share of the choice": _compute_loss_share(plan.choosing_budget, loss),
    }
    return [
        MechanismReplay(
            "pairs", f"{choices} choices by the exponential mechanism", distances, other_distances, shares, loss
        )
    ]


def _replay_pair_tables(
    plan: MarginalsPlan, marginals: NoisyMarginals, exact: Sequence[dict[Any, Counts]]
) -> list[MechanismReplay]:
    tables, other_tables = ({pair: values[pair] for pair in marginals.pairs} for values in exact)
    noises = build_table_noises([tables[pair].size for pair in marginals.pairs], plan.measuring_budget)
    moves = [(other_tables[pair] - tables[pair]).ravel().tolist() for pair in marginals.pairs]
    loss = sum((compute_noise_loss(noise, values) for noise, values in zip(noises, moves, strict=True)), ObservedLoss())
    shares = {"share of the tables": _compute_loss_share(plan.measuring_budget, loss)}
    return [MechanismReplay("pairs", plan.name, tables, other_tables, shares, loss)]


def _replay_records(plan: RecordsPlan, sources: SourcePair) -> list[MechanismReplay]:
    """The sums of all blocks, and of each column of names the scores."""
    middles = [axis.middle for axis in plan.axes]
    (sums, scores), (other_sums, other_scores) = (
        plan.compute_totals(*count_occupied_cells(source, plan.keys, middles)) for source in sources
    )
    mechanisms = []
    if plan.ordered_axes:
        budget, loss = plan.budget.take_share(plan.shares[0]), _compute_sums_loss(plan.noise, other_sums - sums)
        columns = ", ".join(plan.axes[place].grid.column for place in plan.ordered_axes)
        shares = {"share of the sums": _compute_loss_share(budget, loss)}
        mechanisms.append(
            MechanismReplay(columns, plan.name, _index_by_position(sums), _index_by_position(other_sums), shares, loss)
        )
    for (place, selection), column_share in zip(plan.selections.items(), plan.shares[1:], strict=True):
        loss = compute_names_loss(selection, scores[place], other_scores[place], plan.budget.is_pure)
        shares = {"share of the names": _compute_loss_share(plan.budget.take_share(column_share), loss)}
        inputs = _index_by_position(scores[place]), _index_by_position(other_scores[place])
        mechanisms.append(MechanismReplay(plan.axes[place].grid.column, "exponential mechanism", *inputs, shares, loss))
    return mechanisms


def _compute_sums_loss(noise: Noise | BoxStaircase, moves: IntegerArray) -> ObservedLoss:
    """One draw for each block, or for each of its sums."""
    if isinstance(noise, BoxStaircase):
        return compute_vector_loss(noise, moves.tolist())
    return compute_vector_loss(IndependentNoises((noise,)), moves.reshape(-1, 1).tolist())
