"""Replay questions and releases on two neighboring tables, up to where noise would be added.

Exact inputs are read by `custodian/measure.py`, as for a real answer, from a source in memory.

Linked records count pairs of columns in bins that follow from noisy columns. So those columns are sampled once, on the
first table, and both tables are counted in the same bins: that is what adaptive composition compares.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import lru_cache
from itertools import combinations
from typing import Any, Unpack

import numpy as np

from discreet.custodian.measure import count_key_units, read_exact_inputs
from discreet.errors import Internal, InvalidInput
from discreet.estimation.raking import compute_independent_table
from discreet.measurements.base import ExactInput
from discreet.measurements.observed_loss import (
    DISALLOWED_SHARE,
    ZERO,
    Inputs,
    IntegerArray,
    ObservedLoss,
    compute_noise_loss,
    compute_share,
    compute_vector_loss,
)
from discreet.measurements.threshold import THRESHOLD_MECHANISM, compute_threshold_change
from discreet.mechanisms.box_staircase import BoxStaircase
from discreet.mechanisms.entropy import Entropy, KeyedEntropy
from discreet.mechanisms.exponential_mechanism import Selection
from discreet.mechanisms.noise import Noise
from discreet.numeric import as_positive
from discreet.planner.candidates import compute_implied_epsilon
from discreet.planner.options import QueryKeywords
from discreet.planner.plan import Plan
from discreet.planner.planner import plan, plan_session_counts
from discreet.planner.session_budget import SessionBudget, list_noisy_counts
from discreet.privacy.cost import SubAccount
from discreet.privacy.guarantee import Guarantee
from discreet.query import Question, parse_question, to_sql
from discreet.query.scan import Cell
from discreet.release.methods import SyntheticMethod, build_synthetic_recipes
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
from discreet.untrusted import copy_list, has_type, require_exact_class
from discreet.verification.replays.neighbors import (
    ENTROPY_KEY,
    UNIT_FIELD,
    Row,
    TableRows,
    find_differing_rows,
    require_snapshot,
    require_tables,
)
from discreet.verification.replays.replay_result import MechanismReplay, Replay

SnapshotRows = Sequence[Mapping[str, Any]]
SourcePair = tuple[MemorySource, MemorySource]
PairTables = Mapping[tuple[int, int], Counts]
"""The exact table of each pair of columns. Secret."""


def replay(
    schema: Schema,
    question: Question,
    rows: SnapshotRows,
    other_rows: SnapshotRows,
    /,
    epsilon: object = None,
    **options: Unpack[QueryKeywords],
) -> Replay:
    """Replay a question on two neighboring tables and compare what its mechanisms are given with what is declared.

    Args:
        schema: The schema of the tables.
        question: The question, as SQL text.
        rows: The rows of one snapshot: codes by column, and the unit under "#unit"; see `snapshot`.
        other_rows: The rows of its neighbor.
        epsilon: Privacy budget of the answer; `accuracy` or `noise_scale` may be given instead.
        **options: The other fields of `QueryOptions`.

    Returns:
        The replay; `ok` says whether nothing changed by more than declared.

    Raises:
        InvalidInput: An argument is not valid.

    Example:
        >>> from pathlib import Path
        >>> from discreet import load_schema
        >>> from discreet.sample import write_registry
        >>> from discreet.verification import limit_units, neighbor_rows, replay
        >>> schema = limit_units(load_schema(write_registry(Path("."), patients=100)))
        >>> [(rows, other_rows)] = neighbor_rows(schema, count=1)
        >>> replay(schema, "SELECT SUM(stay) FROM registry", rows, other_rows, epsilon=1).ok
        True
    """
    require_snapshot(schema, rows, other_rows)
    return replay_plan(plan(schema, parse_question(question, schema), epsilon, **options), rows, other_rows)


def replay_plan(planned: Plan, rows: SnapshotRows, other_rows: SnapshotRows) -> Replay:
    """Replay a plan on two neighboring tables, as `replay` does.

    Args:
        planned: The plan, as `Custodian.validate` returns it.
        rows: The rows of one snapshot.
        other_rows: The rows of its neighbor.

    Returns:
        The replay.

    Raises:
        InvalidInput: The plan or the rows are not valid.

    Example:
        >>> from pathlib import Path
        >>> from discreet import load_schema
        >>> from discreet.sample import write_registry
        >>> from discreet.planner.planner import plan
        >>> from discreet.query import parse_question
        >>> from discreet.verification import limit_units, neighbor_rows, replay_plan
        >>> schema = limit_units(load_schema(write_registry(Path("."), patients=100)))
        >>> [(rows, other_rows)] = neighbor_rows(schema, count=1)
        >>> planned = plan(schema, parse_question("SELECT COUNT(*) FROM registry WHERE smoker", schema), 1)
        >>> replay_plan(planned, rows, other_rows).ok
        True
    """
    require_exact_class(planned, Plan, "the plan must be a Plan")
    require_tables(rows, other_rows)
    differing_rows = find_differing_rows(planned.schema, rows, other_rows)
    mechanisms = (*_replay_keys(planned, rows, other_rows), *_replay_measurements(planned, rows, other_rows))
    totals = compute_promised_shares(planned, _sum_losses(mechanisms))
    region = planned.get_sub_account()
    if region is not None and not _touches_region(region, planned.schema, differing_rows):
        is_changed = any(mechanism.changed_cells for mechanism in mechanisms)
        totals["rows of others"] = DISALLOWED_SHARE if is_changed else ZERO
    return Replay(_format_question(planned), planned.guarantee, mechanisms, totals)


def _sum_losses(mechanisms: Iterable[MechanismReplay]) -> ObservedLoss:
    return ObservedLoss.total(mechanism.observed_loss for mechanism in mechanisms)


@lru_cache(maxsize=1)
def _format_question(planned: Plan) -> str:
    """The question in SQL, formatted once for all pairs that a plan is replayed on."""
    return to_sql(planned.query, planned.schema)


def replay_session(
    schema: Schema,
    questions: Iterable[tuple[Question, object]],
    rows: SnapshotRows,
    other_rows: SnapshotRows,
    epsilon: object,
) -> Replay:
    """Replay one session of counting questions on two neighboring tables.

    Args:
        schema: The schema of the tables.
        questions: The questions, each with its noise scale.
        rows: The rows of one snapshot.
        other_rows: The rows of its neighbor.
        epsilon: Privacy budget of the session.

    Returns:
        The replay.

    Raises:
        InvalidInput: An argument is not valid.

    Example:
        >>> from pathlib import Path
        >>> from discreet import load_schema
        >>> from discreet.sample import write_registry
        >>> from discreet.verification import limit_units, neighbor_rows, replay_session
        >>> schema = limit_units(load_schema(write_registry(Path("."), patients=100)))
        >>> [(rows, other_rows)] = neighbor_rows(schema, count=1)
        >>> questions = [("SELECT COUNT(*) FROM registry WHERE smoker", 10)]
        >>> replay_session(schema, questions, rows, other_rows, epsilon=1).ok
        True
    """
    require_snapshot(schema, rows, other_rows)
    return replay_session_plans(*plan_session(schema, questions, epsilon), rows, other_rows)


def list_session_questions(questions: Iterable[tuple[Question, object]]) -> list[tuple[Question, object]]:
    """List the questions of a session with their noise scales, or refuse what is no list of such pairs."""
    pairs = copy_list(questions, "the questions of a session")
    if not all(has_type(pair, (tuple, list)) and len(pair) == 2 for pair in pairs):
        raise InvalidInput("the questions of a session must be pairs, such as ('SELECT COUNT(*) FROM registry', 10)")
    return pairs


def plan_session(
    schema: Schema, questions: Iterable[tuple[Question, object]], epsilon: object
) -> tuple[SessionBudget, tuple[Plan, ...]]:
    """Plan the questions of a session and add up their budget; refused if they do not fit."""
    tally, plans = SessionBudget(schema, as_positive(epsilon, "epsilon")), []
    for question, noise_scale in list_session_questions(questions):
        scale = as_positive(noise_scale, "the noise scale")
        plans.append(plan_session_counts(schema, parse_question(question, schema), scale, tally.epsilon))
        tally = tally.add_counts(list_noisy_counts(plans[-1], scale))
    return tally, tuple(plans)


def replay_session_plans(
    tally: SessionBudget, plans: Sequence[Plan], rows: SnapshotRows, other_rows: SnapshotRows
) -> Replay:
    """Replay the plans of a session, as `replay_session` does."""
    schema = tally.schema
    find_differing_rows(schema, rows, other_rows)
    replays = [mechanism for planned in plans for mechanism in _replay_measurements(planned, rows, other_rows)]
    # A session promises nothing of how far a single question moves.
    mechanisms = tuple(replace(mechanism, shares={}) for mechanism in replays)
    loss = _sum_losses(mechanisms)
    totals = {"tally": compute_share(loss.epsilon, tally.spent), "epsilon": compute_share(loss.epsilon, tally.epsilon)}
    guarantee = Guarantee.dp(tally.epsilon, schema.neighbors, schema.unit_name)
    return Replay(f"a session of {len(mechanisms)} counts", guarantee, mechanisms, totals)


def compute_promised_shares(planned: Plan, loss: ObservedLoss) -> dict[str, Fraction]:
    """Return the shares of the charge and of the guarantee that a loss uses."""
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
    epsilon = loss.epsilon + _imply_epsilon(loss, guarantee)
    return totals | {"epsilon of the label": compute_share(epsilon, guarantee.epsilon or ZERO)}


def _imply_epsilon(loss: ObservedLoss, guarantee: Guarantee) -> Fraction:
    """The epsilon that Gaussian noise loses at the delta of the guarantee."""
    if not loss.gaussian_rho or not guarantee.delta:
        return ZERO
    return compute_implied_epsilon(loss.gaussian_rho, guarantee.delta)


def _replay_measurements(planned: Plan, rows: SnapshotRows, other_rows: SnapshotRows) -> list[MechanismReplay]:
    """Every measurement with its inputs on both tables."""
    inputs, other_inputs = (_compute_exact_inputs(planned, table) for table in (rows, other_rows))
    mechanisms = []
    for measurement, pair in zip(planned.measurements, zip(inputs, other_inputs, strict=True), strict=True):
        change = measurement.compare_inputs(*pair, planned.schema)
        names = _format_labels(planned, measurement.aggregates), measurement.name
        mechanisms.append(MechanismReplay(*names, *pair, change.shares, change.observed_loss, change.note))
    return mechanisms


def _compute_exact_inputs(planned: Plan, rows: SnapshotRows) -> list[dict[Cell, ExactInput]]:
    """The inputs of every cell; of every private key that the table has."""
    source = MemorySource(planned.schema, rows)
    cells = planned.list_cells() if planned.threshold is None else [(key,) for key in count_key_units(planned, source)]
    totals = read_exact_inputs(planned, source, cells, planned.query.where)
    return [dict(zip(totals.cells, inputs, strict=True)) for inputs in totals.inputs]


def _replay_keys(planned: Plan, rows: SnapshotRows, other_rows: SnapshotRows) -> list[MechanismReplay]:
    if planned.threshold is None:
        return []
    first, second = (count_key_units(planned, MemorySource(planned.schema, table)) for table in (rows, other_rows))
    change = compute_threshold_change(planned.threshold, planned.schema, first, second)
    column = planned.query.keys[0].column
    return [MechanismReplay(column, THRESHOLD_MECHANISM, first, second, change.shares, change.observed_loss)]


def _format_labels(planned: Plan, aggregates: tuple[int, ...]) -> str:
    """The labels of some aggregates in the reply."""
    query = planned.query
    if query.unit is not None:
        return query.column or ""
    return ", ".join(output.label for output in query.presentation.outputs if output.aggregate in aggregates)


def _touches_region(region: SubAccount, schema: Schema, differing_rows: Iterable[Row]) -> bool:
    """Whether a differing row is in the one part of the data that a question is about."""
    if region.kind == "individual":
        return any(row[UNIT_FIELD] == region.name for row in differing_rows)
    column = schema.column(schema.partition or "")
    codes = (row[column.name] for row in differing_rows)
    return any(isinstance(code, int) and str(column.decode(code)) == region.name for code in codes)


def plan_replayed_release(
    schema: Schema, method: SyntheticMethod | str, options: Mapping[str, object]
) -> SyntheticPlan:
    """Plan a synthetic file from public facts; of a method that is named epsilon is 1 unless it is given."""
    all_options = {"epsilon": 1} | dict(options) if isinstance(method, str) else options
    return plan_synthetic_files(schema, build_synthetic_recipes(schema, method, all_options))[0]


def replay_release(
    schema: Schema,
    method: SyntheticMethod | str,
    rows: TableRows,
    other_rows: TableRows,
    entropy: Entropy | None = None,
    **options: object,
) -> Replay:
    """Replay a differentially private file on two neighboring tables, up to where noise would be added.

    Args:
        schema: The schema of the tables.
        method: A method of `discreet.synthetic`, or its name: private-columns, private-linked or private-records.
        rows: The rows of one snapshot.
        other_rows: The rows of its neighbor.
        entropy: The source of random bytes for choices that the method draws.
        **options: The options of the method, where its name is given.

    Returns:
        The replay.

    Raises:
        InvalidInput: An argument is not valid.

    Example:
        >>> from pathlib import Path
        >>> from discreet import load_schema
        >>> from discreet.sample import write_registry
        >>> from discreet.synthetic import PrivateColumns
        >>> from discreet.verification import limit_units, neighbor_rows, replay_release
        >>> schema = limit_units(load_schema(write_registry(Path("."), patients=100)))
        >>> [(rows, other_rows)] = neighbor_rows(schema, count=1)
        >>> replay_release(schema, PrivateColumns(epsilon=1, columns=["age"]), rows, other_rows).ok
        True
    """
    require_snapshot(schema, rows, other_rows)
    plan = plan_replayed_release(schema, method, options)
    return replay_release_plan(schema, plan, rows, other_rows, entropy)


def replay_release_plan(
    schema: Schema, plan: SyntheticPlan, rows: TableRows, other_rows: TableRows, entropy: Entropy | None = None
) -> Replay:
    """Replay the plan of a release, as `replay_release` does."""
    find_differing_rows(schema, rows, other_rows)
    sources = MemorySource(schema, rows), MemorySource(schema, other_rows)
    entropy = KeyedEntropy(ENTROPY_KEY, plan.method) if entropy is None else entropy
    mechanisms = tuple(_replay_release(plan, sources, entropy))
    totals = _compute_total_shares(plan, _sum_losses(mechanisms))
    return Replay(f"a release by {plan.method}", plan.guarantee, mechanisms, totals)


def _replay_release(plan: SyntheticPlan, sources: SourcePair, entropy: Entropy) -> list[MechanismReplay]:
    if isinstance(plan.method_plan, RecordsPlan):
        return _replay_records(plan.method_plan, sources)
    if plan.method != "private-linked":
        return [_replay_column(column_plan, sources) for column_plan in plan.method_plan]
    marginal_plan, columns = plan.method_plan
    column_replays = [_replay_column(column_plan, sources) for column_plan in columns]
    return column_replays + _replay_marginals(marginal_plan, columns, sources, entropy)


def _compute_total_shares(plan: SyntheticPlan, loss: ObservedLoss) -> dict[str, Fraction]:
    """The shares of the charge and of the guarantee that a loss uses."""
    cost, epsilon = plan.privacy_cost, _imply_epsilon(loss, plan.guarantee)
    totals = {"zCDP charged": compute_share(loss.gaussian_rho, cost.gaussian_rho)}
    if plan.budget.is_pure:
        epsilon = loss.epsilon
        totals = {"epsilon charged": compute_share(epsilon, cost.epsilon)}
        totals["zCDP of it"] = compute_share(loss.rho, cost.rho)
    return totals | {"epsilon of the label": compute_share(epsilon, plan.guarantee.epsilon or ZERO)}


def _compute_loss_share(budget: PrivacyBudget, observed_loss: ObservedLoss) -> Fraction:
    if budget.is_pure:
        return compute_share(observed_loss.epsilon, budget.epsilon)
    return compute_share(observed_loss.gaussian_rho, budget.rho)


def _replay_column(plan: ColumnPlan, sources: SourcePair) -> MechanismReplay:
    """One column: the exact totals of its blocks or cells, or the scores of its names."""
    counts, other_counts = (count_column_cells(source, plan.grid) for source in sources)
    if isinstance(plan, NameBlocks):
        scores, other_scores = plan.compute_scores(counts), plan.compute_scores(other_counts)
        loss = compute_names_loss(plan.selection, scores, other_scores, plan.budget.is_pure)
        return _build_column_replay(plan, scores, other_scores, loss)
    if isinstance(plan, CumulativeCounts):
        return _replay_noisy_column(plan, plan.noises, plan.compute_totals(counts), plan.compute_totals(other_counts))
    if isinstance(plan, CategoryCounts | RankBlocks):
        totals, other_totals = [plan.compute_totals(counts)], [plan.compute_totals(other_counts)]
        return _replay_noisy_column(plan, [plan.noise], totals, other_totals)
    raise Internal(f"a column by {plan.name} is not replayed")


def _replay_noisy_column(
    plan: ColumnPlan, noises: Sequence[Noise], totals: Sequence[IntegerArray], other_totals: Sequence[IntegerArray]
) -> MechanismReplay:
    """One noise for each level of totals."""
    moves = ((total - other).tolist() for total, other in zip(totals, other_totals, strict=True))
    loss = ObservedLoss.total(compute_noise_loss(*level) for level in zip(noises, moves, strict=True))
    return _build_column_replay(plan, totals, other_totals, loss)


def _build_column_replay(
    plan: ColumnPlan, first: Iterable[IntegerArray], second: Iterable[IntegerArray], loss: ObservedLoss
) -> MechanismReplay:
    inputs, share = (dict(enumerate(first)), dict(enumerate(second))), _compute_loss_share(plan.budget, loss)
    return MechanismReplay(plan.grid.column, plan.name, *inputs, {"share of the column": share}, loss)


def compute_names_loss(
    selection: Selection, scores: IntegerArray, other_scores: IntegerArray, pure: bool
) -> ObservedLoss:
    """Return the loss of a choice in every block: each in proportion to how far two of its scores move apart.

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
    """The choice of pairs by their scores, and the tables of the chosen pairs."""
    counts = {}
    for column in columns:
        outputs = column.measure(count_column_cells(sources[0], column.grid), entropy)
        counts[column.grid.column] = column.estimate_counts(outputs)
    runs = {column.grid.column: column.edges[:-1] for column in columns if isinstance(column, CumulativeCounts)}
    binned = plan.bin_columns(counts, runs)
    pairs = list(combinations(range(len(binned)), 2))
    binned_pairs = [(binned[first], binned[second]) for first, second in pairs]
    exact = [dict(zip(pairs, count_pair_tables(source, binned_pairs), strict=True)) for source in sources]
    marginals = measure_marginals(plan, counts, lambda _: list(exact[0].values()), entropy, runs)
    return [*_replay_pair_selection(plan, binned, exact), *_replay_pair_tables(plan, marginals, exact)]


def _replay_pair_selection(
    plan: MarginalsPlan, binned: Sequence[BinnedColumn], exact: Sequence[PairTables]
) -> list[MechanismReplay]:
    choices = count_choices_left(plan.required_pairs, len(binned))
    if plan.choosing_budget is None or not choices:
        return []
    independent = {pair: compute_independent_table(binned[pair[0]].sizes, binned[pair[1]].sizes) for pair in exact[0]}
    distances, other_distances = (
        {pair: compute_pair_score(table, independent[pair]) for pair, table in tables.items()} for tables in exact
    )
    selection = build_pair_selection(plan.choosing_budget, choices).selection
    scores, other_scores = (np.array([list(by_pair.values())]) for by_pair in (distances, other_distances))
    single_loss = compute_names_loss(selection, scores, other_scores, plan.choosing_budget.is_pure)
    loss = ObservedLoss.total([single_loss] * choices)
    largest_change = max(abs(distances[pair] - other_distances[pair]) for pair in distances)
    shares = {"scores": Fraction(largest_change, 2)}
    shares["share of the choice"] = _compute_loss_share(plan.choosing_budget, loss)
    mechanism = f"{choices} choices by the exponential mechanism"
    return [MechanismReplay("pairs", mechanism, distances, other_distances, shares, loss)]


def _replay_pair_tables(
    plan: MarginalsPlan, marginals: NoisyMarginals, exact: Sequence[PairTables]
) -> list[MechanismReplay]:
    tables, other_tables = ({pair: values[pair] for pair in marginals.pairs} for values in exact)
    noises = build_table_noises([tables[pair].size for pair in marginals.pairs], plan.measuring_budget)
    moves = [(other_tables[pair] - tables[pair]).ravel().tolist() for pair in marginals.pairs]
    loss = ObservedLoss.total(compute_noise_loss(*table) for table in zip(noises, moves, strict=True))
    shares = {"share of the tables": _compute_loss_share(plan.measuring_budget, loss)}
    return [MechanismReplay("pairs", plan.name, tables, other_tables, shares, loss)]


def _replay_records(plan: RecordsPlan, sources: SourcePair) -> list[MechanismReplay]:
    """The sums of all blocks, and the scores of each column of names."""
    middles = [axis.middle for axis in plan.axes]
    (sums, scores), (other_sums, other_scores) = (
        plan.compute_totals(*count_occupied_cells(source, plan.keys, middles)) for source in sources
    )
    mechanisms = []
    if plan.ordered_axes:
        budget, moves = plan.budget.take_share(plan.shares[0]), other_sums - sums
        if isinstance(plan.noise, BoxStaircase):  # one sample for each block, else one for each of its sums
            loss = compute_vector_loss(plan.noise, moves.tolist())
        else:
            loss = compute_noise_loss(plan.noise, moves.ravel().tolist())
        columns = ", ".join(plan.axes[axis].grid.column for axis in plan.ordered_axes)
        shares = {"share of the sums": _compute_loss_share(budget, loss)}
        inputs: tuple[Inputs, Inputs] = dict(enumerate(sums)), dict(enumerate(other_sums))
        mechanisms.append(MechanismReplay(columns, plan.name, *inputs, shares, loss))
    for (axis, selection), column_share in zip(plan.selections.items(), plan.shares[1:], strict=True):
        loss = compute_names_loss(selection, scores[axis], other_scores[axis], plan.budget.is_pure)
        shares = {"share of the names": _compute_loss_share(plan.budget.take_share(column_share), loss)}
        inputs = dict(enumerate(scores[axis])), dict(enumerate(other_scores[axis]))
        mechanisms.append(MechanismReplay(plan.axes[axis].grid.column, "exponential mechanism", *inputs, shares, loss))
    return mechanisms
