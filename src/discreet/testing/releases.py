"""Replay of a private file: what its mechanisms are handed on two neighbouring tables, before any noise.

The pairs of columns of linked records are told in bins of columns that are private already; so those columns are drawn
once, on the first table, and both tables are told in the same bins. That is what adaptive composition compares.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.custodian.counting import column_counts, occupied_cells, pair_tables
from discreet.custodian.private import expected
from discreet.custodian.private_recipe import private_recipe_of
from discreet.errors import Internal
from discreet.inference.linked import product
from discreet.kernel.box_staircase import BoxStaircase
from discreet.kernel.entropy import Entropy, KeyedEntropy
from discreet.kernel.noise import Independent, Noise
from discreet.kernel.scores import Selection
from discreet.microdata.private.bins import Binned
from discreet.microdata.private.blocks import RankBlocks
from discreet.microdata.private.categories import Categories
from discreet.microdata.private.columns import ColumnPlan
from discreet.microdata.private.cumulative import Cumulative
from discreet.microdata.private.grid import Counts
from discreet.microdata.private.linked import Linked, LinkedPlan, draw_linked, table_noises
from discreet.microdata.private.loss import Loss
from discreet.microdata.private.ordered import OrderedBlocks
from discreet.microdata.private.pairs import choice_of_pair, choices_left, distance
from discreet.microdata.private.records import RecordsPlan
from discreet.planner.private_release import PrivatePlan
from discreet.planner.sharing import implied_epsilon
from discreet.schema import Schema
from discreet.sources.memory import MemorySource
from discreet.testing.generated import KEY
from discreet.testing.moved import noise_lost, vector_lost
from discreet.testing.neighbouring import Rows, differing, require_snapshot
from discreet.testing.recorded import ZERO, Inputs, Lost, Recorded, Replay, share

Whole = NDArray[np.int64]
Sources = tuple[MemorySource, MemorySource]


def planned_release(schema: Schema, method: str, epsilon: object, **more: Any) -> PrivatePlan:
    """The plan of a private file, from what is public; `more` is what its recipe takes besides."""
    return expected(schema, [private_recipe_of(schema, method, epsilon, **more)])[0]


def replay_release(
    schema: Schema,
    method: str,
    rows: Rows,
    other_rows: Rows,
    epsilon: object = 1,
    entropy: Entropy | None = None,
    **more: Any,
) -> Replay:
    """Make private-columns, private-linked or private-records of both tables, up to where noise would be drawn."""
    require_snapshot(schema, rows, other_rows)
    return replay_release_plan(schema, planned_release(schema, method, epsilon, **more), rows, other_rows, entropy)


def replay_release_plan(
    schema: Schema, plan: PrivatePlan, rows: Rows, other_rows: Rows, entropy: Entropy | None = None
) -> Replay:
    """The same, of a plan that was made already."""
    differing(schema, rows, other_rows)
    both = MemorySource(schema, rows), MemorySource(schema, other_rows)
    recorded = _release(plan, both, KeyedEntropy(KEY, plan.method) if entropy is None else entropy)
    lost = sum((one.lost for one in recorded), Lost())
    return Replay(f"a release by {plan.method}", plan.guarantee, tuple(recorded), _totals(plan, lost))


def _release(plan: PrivatePlan, both: Sources, entropy: Entropy) -> list[Recorded]:
    if isinstance(plan.made, RecordsPlan):
        return _records(plan.made, both)
    if plan.method != "private-linked":
        return [_column(one, both) for one in plan.made]
    linked, columns = plan.made
    return [*(_column(one, both) for one in columns), *_linked(linked, columns, both, entropy)]


def _totals(plan: PrivatePlan, lost: Lost) -> dict[str, Fraction]:
    """Of what the ledger is charged, and of what the label says."""
    spend, label = plan.spend, plan.guarantee
    if plan.loss.pure:
        totals = {"epsilon charged": share(lost.epsilon, spend.epsilon), "zCDP of it": share(lost.rho, spend.rho)}
        return totals | {"epsilon of the label": share(lost.epsilon, label.epsilon or ZERO)}
    implied = implied_epsilon(lost.other, label.delta) if lost.other and label.delta else ZERO
    totals = {"zCDP charged": share(lost.other, spend.other)}
    return totals | {"epsilon of the label": share(implied, label.epsilon or ZERO)}


def _share_of(loss: Loss, lost: Lost) -> Fraction:
    """Of what a part may lose."""
    return share(lost.epsilon, loss.epsilon) if loss.pure else share(lost.other, loss.rho)


def _column(plan: ColumnPlan, both: Sources) -> Recorded:
    """One column: the exact totals of its blocks or cells, or the scores of its names."""
    one, two = (column_counts(each, plan.grid) for each in both)
    if isinstance(plan, OrderedBlocks):
        scores, others = plan.scores(one), plan.scores(two)
        lost = names_lost(plan.selection, scores, others, plan.loss.pure)
        return _recorded(plan, _by_place(scores), _by_place(others), lost)
    if isinstance(plan, Cumulative):
        return _noised(plan, plan.noises, plan.totals(one), plan.totals(two))
    if isinstance(plan, Categories | RankBlocks):
        return _noised(plan, [plan.noise], [plan.totals(one)], [plan.totals(two)])
    raise Internal(f"a column by {plan.name} is not replayed")


def _noised(plan: ColumnPlan, noises: Sequence[Noise], one: Sequence[Whole], two: Sequence[Whole]) -> Recorded:
    """Level by level."""
    moves = (noise_lost(noise, (x - y).tolist()) for noise, x, y in zip(noises, one, two, strict=True))
    return _recorded(plan, _by_place(one), _by_place(two), sum(moves, Lost()))


def _recorded(plan: ColumnPlan, one: Inputs, two: Inputs, lost: Lost) -> Recorded:
    return Recorded(plan.grid.column, plan.name, one, two, {"share of the column": _share_of(plan.loss, lost)}, lost)


def _by_place(arrays: Sequence[Whole] | Whole) -> Inputs:
    return dict(enumerate(arrays))


def names_lost(selection: Selection, one: Whole, two: Whole, pure: bool) -> Lost:
    """Of a choice in every block: each loses in proportion to how far two of its scores move apart.

    A choice whose log-ratios lie in an interval of length r is r^2 / 8 of zCDP.
    """
    change = two - one
    apart = (change.max(axis=1) - change.min(axis=1)).tolist()
    losses = [selection.epsilon * Fraction(int(each), selection.spread) for each in apart]
    eighths = sum((each**2 / 8 for each in losses), ZERO)
    return Lost(sum(losses, ZERO), eighths) if pure else Lost(other=eighths)


def _linked(plan: LinkedPlan, columns: Sequence[ColumnPlan], both: Sources, entropy: Entropy) -> list[Recorded]:
    """The choice of pairs by their scores, and the tables of those that were chosen."""
    counts = {one.grid.column: one.estimate(one.draw(column_counts(both[0], one.grid), entropy)) for one in columns}
    runs = {one.grid.column: one.edges[:-1] for one in columns if isinstance(one, Cumulative)}
    binned = plan.binned(counts, runs)
    pairs = list(combinations(range(len(binned)), 2))
    asked = [(binned[one], binned[other]) for one, other in pairs]
    exact = [dict(zip(pairs, pair_tables(each, asked), strict=True)) for each in both]
    drawn = draw_linked(plan, counts, lambda _: list(exact[0].values()), entropy, runs)
    return [*_choice(plan, binned, exact), *_tables(plan, drawn, exact)]


def _choice(plan: LinkedPlan, binned: Sequence[Binned], exact: Sequence[dict[Any, Counts]]) -> list[Recorded]:
    choices = choices_left(plan.given, len(binned))
    if plan.choosing is None or not choices:
        return []
    independent = {pair: product(binned[pair[0]].sizes, binned[pair[1]].sizes) for pair in exact[0]}
    one, two = ({pair: distance(table, independent[pair]) for pair, table in own.items()} for own in exact)
    selection = choice_of_pair(plan.choosing, choices).selection
    scores, others = (np.array([list(own.values())], dtype=np.int64) for own in (one, two))
    each = names_lost(selection, scores, others, plan.choosing.pure)
    lost = sum([each] * choices, Lost())
    moved = max(abs(one[pair] - two[pair]) for pair in one)
    shares = {"scores": Fraction(moved, 2), "share of the choice": _share_of(plan.choosing, lost)}
    return [Recorded("pairs", f"{choices} choices by the exponential mechanism", one, two, shares, lost)]


def _tables(plan: LinkedPlan, drawn: Linked, exact: Sequence[dict[Any, Counts]]) -> list[Recorded]:
    one, two = ({pair: own[pair] for pair in drawn.pairs} for own in exact)
    noises = table_noises([one[pair].size for pair in drawn.pairs], plan.measuring)
    moves = [(two[pair] - one[pair]).ravel().tolist() for pair in drawn.pairs]
    lost = sum((noise_lost(noise, own) for noise, own in zip(noises, moves, strict=True)), Lost())
    shares = {"share of the tables": _share_of(plan.measuring, lost)}
    return [Recorded("pairs", plan.name, one, two, shares, lost)]


def _records(plan: RecordsPlan, both: Sources) -> list[Recorded]:
    """The sums of all blocks, and of each column of names the scores."""
    middles = [axis.middle for axis in plan.axes]
    (sums, scores), (other, others) = (plan.totals(*occupied_cells(each, plan.keys, middles)) for each in both)
    found = []
    if plan.numbers:
        part, lost = plan.loss.part(plan.shares[0]), _sums_lost(plan.noise, other - sums)
        columns = ", ".join(plan.axes[place].grid.column for place in plan.numbers)
        shares = {"share of the sums": _share_of(part, lost)}
        found.append(Recorded(columns, plan.name, _by_place(sums), _by_place(other), shares, lost))
    for (place, selection), own in zip(plan.selections.items(), plan.shares[1:], strict=True):
        lost = names_lost(selection, scores[place], others[place], plan.loss.pure)
        shares = {"share of the names": _share_of(plan.loss.part(own), lost)}
        inputs = _by_place(scores[place]), _by_place(others[place])
        found.append(Recorded(plan.axes[place].grid.column, "exponential mechanism", *inputs, shares, lost))
    return found


def _sums_lost(noise: Noise | BoxStaircase, moves: Whole) -> Lost:
    """One draw for each block, or for each of its sums."""
    if isinstance(noise, BoxStaircase):
        return vector_lost(noise, moves.tolist())
    return vector_lost(Independent((noise,)), moves.reshape(-1, 1).tolist())
