"""Replay: a question asked on two neighbouring tables, and what every mechanism was handed on either.

The rows go the way they go in earnest, `custodian/draw.py` on a source in memory, up to where noise would be drawn.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import lru_cache
from typing import Any

from discreet.custodian.draw import exact, units
from discreet.custodian.question import Question, read
from discreet.exact import positive
from discreet.guarantee import Guarantee
from discreet.planner.choose import counted_plan, plan
from discreet.planner.noisy import Noisy
from discreet.planner.plan import Plan
from discreet.planner.sharing import implied_epsilon
from discreet.planner.tally import Tally, counts_of
from discreet.query import to_sql
from discreet.query.totals import Cell
from discreet.schema import Schema
from discreet.sources.memory import MemorySource
from discreet.spend import Part
from discreet.testing.generated import UNIT, Row
from discreet.testing.moved import moved, threshold_moved
from discreet.testing.neighbouring import differing, require_snapshot
from discreet.testing.recorded import NOT_ALLOWED, ZERO, Lost, Recorded, Replay, share

Rows = Sequence[Mapping[str, Any]]
OVER_THRESHOLD = "discrete Laplace over a threshold"


def replay(schema: Schema, question: Question, rows: Rows, other_rows: Rows, *given: Any, **more: Any) -> Replay:
    """Ask on both tables, with the epsilon, delta, prior and so on that `Custodian.answer` takes.

    Rows are as a snapshot keeps them: codes by column, and the unit under "#unit"; see `snapshot`.
    """
    require_snapshot(schema, rows, other_rows)
    return replay_plan(plan(schema, read(question, schema), *given, **more), rows, other_rows)


def replay_plan(planned: Plan, rows: Rows, other_rows: Rows) -> Replay:
    """The same, of a plan that was made already."""
    differs = differing(planned.schema, rows, other_rows)
    recorded = (*_keys(planned, rows, other_rows), *_measured(planned, rows, other_rows))
    totals = promised(planned, sum((one.lost for one in recorded), Lost()))
    region = planned.region()
    if region is not None and not _touches(region, planned.schema, differs):
        totals["rows of others"] = NOT_ALLOWED if any(one.moved for one in recorded) else ZERO
    return Replay(_asked(planned), planned.guarantee, recorded, totals)


@lru_cache(maxsize=1)
def _asked(planned: Plan) -> str:
    """The question in words, once for all pairs that a plan is replayed on."""
    return to_sql(planned.query, planned.schema)


def replay_session(
    schema: Schema, questions: Iterable[tuple[Question, object]], rows: Rows, other_rows: Rows, epsilon: object
) -> Replay:
    """Counting questions, each with its noise scale, in one session: all answers together lose at most epsilon."""
    require_snapshot(schema, rows, other_rows)
    return replay_admitted(*admitted(schema, questions, epsilon), rows, other_rows)


def admitted(
    schema: Schema, questions: Iterable[tuple[Question, object]], epsilon: object
) -> tuple[Tally, tuple[Plan, ...]]:
    """The plans of a session's questions, and what they come to; refused where they do not fit."""
    tally, plans = Tally(schema, positive(epsilon, "epsilon")), []
    for question, scale in questions:
        size = positive(scale, "the noise scale")
        plans.append(counted_plan(schema, read(question, schema), size, tally.epsilon))
        tally = tally.plus(counts_of(plans[-1], size))
    return tally, tuple(plans)


def replay_admitted(tally: Tally, plans: Sequence[Plan], rows: Rows, other_rows: Rows) -> Replay:
    """The same, of questions that were admitted already."""
    schema = tally.schema
    differing(schema, rows, other_rows)
    # What each question may move by itself is not what a session promises.
    recorded = tuple(replace(one, shares={}) for own in plans for one in _measured(own, rows, other_rows))
    lost = sum((one.lost for one in recorded), Lost())
    totals = {"tally": share(lost.epsilon, tally.spent), "epsilon": share(lost.epsilon, tally.epsilon)}
    label = Guarantee.dp(tally.epsilon, schema.neighbours, schema.unit_name)
    return Replay(f"a session of {len(recorded)} counts", label, recorded, totals)


def promised(planned: Plan, lost: Lost) -> dict[str, Fraction]:
    """What a loss is of what the ledger is charged, and of what the label says."""
    cost, label = planned.cost, planned.guarantee
    if label.model == "individual-dp":
        return {"epsilon of individual DP": share(lost.epsilon, label.epsilon or ZERO)}
    charged = {
        "epsilon charged": (lost.epsilon, cost.epsilon),
        "zCDP of it": (lost.rho, cost.rho),
        "zCDP charged": (lost.other, cost.other),
        "delta charged": (lost.delta, cost.delta),
    }
    totals = {name: share(*pair) for name, pair in charged.items() if any(pair)}
    if label.model == "zcdp":
        return totals | {"rho of the label": share(lost.other + lost.rho, label.rho or ZERO)}
    implied = implied_epsilon(lost.other, label.delta) if lost.other and label.delta else ZERO
    return totals | {"epsilon of the label": share(lost.epsilon + implied, label.epsilon or ZERO)}


def _measured(planned: Plan, rows: Rows, other_rows: Rows) -> list[Recorded]:
    """Every measurement with its inputs; those that are drawn once for all are recorded once."""
    one, two = (_exact(planned, table) for table in (rows, other_rows))
    found, drawn = [], set()
    for at, measurement in enumerate(planned.measurements):
        group = measurement.together if isinstance(measurement, Noisy) else 0
        if group not in drawn:
            own = moved(measurement, planned.schema, one[at], two[at])
            names = _labels(planned, at if not group else None)
            found.append(Recorded(names, measurement.name, one[at], two[at], own.shares, own.lost, own.note))
        drawn |= {group} - {0}
    return found


def _exact(planned: Plan, rows: Rows) -> list[dict[Cell, Any]]:
    """The inputs of every cell there can be; with private keys, of every key there is."""
    source = MemorySource(planned.schema, rows)
    cells = planned.cells() if planned.threshold is None else [(key,) for key in units(planned, source)]
    found = exact(planned, source, cells, planned.query.where)
    return [dict(zip(found.cells, inputs, strict=True)) for inputs in found.inputs]


def _keys(planned: Plan, rows: Rows, other_rows: Rows) -> list[Recorded]:
    if planned.threshold is None:
        return []
    one, two = (units(planned, MemorySource(planned.schema, table)) for table in (rows, other_rows))
    own = threshold_moved(planned.threshold, planned.schema, one, two)
    return [Recorded(planned.query.keys[0].column, OVER_THRESHOLD, one, two, own.shares, own.lost)]


def _labels(planned: Plan, at: int | None) -> str:
    """What an aggregate is called in the reply; all that share a draw, without a place."""
    query = planned.query
    if query.unit is not None:
        return query.column or ""
    together = [place for place, one in enumerate(planned.measurements) if isinstance(one, Noisy) and one.together]
    places = together if at is None else [at]
    return ", ".join(output.label for output in query.presentation.outputs if output.aggregate in places)


def _touches(region: Part, schema: Schema, differs: Iterable[Row]) -> bool:
    """Whether what differs has a row in the one part of the data that a question is about."""
    if region.kind == "individual":
        return any(row[UNIT] == region.name for row in differs)
    column = schema.column(schema.partition or "")
    codes = (row[column.name] for row in differs)
    return any(isinstance(code, int) and str(column.value(code)) == region.name for code in codes)
