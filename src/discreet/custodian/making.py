"""The codes of a private file: exact counts from the source, noise once, and all else from what is noisy."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from discreet.custodian.counting import column_counts, occupied_cells, pair_tables
from discreet.kernel.entropy import Entropy
from discreet.microdata.permuting import permuted_inside
from discreet.microdata.private.bins import Binned
from discreet.microdata.private.columns import ColumnPlan
from discreet.microdata.private.grid import Counts
from discreet.microdata.private.linked import Linked, LinkedPlan, draw_linked
from discreet.microdata.private.linked_rows import rows_of
from discreet.microdata.private.records import RecordsPlan
from discreet.planner.impossible import Impossible
from discreet.planner.private_release import PrivatePlan
from discreet.query.released import MISSING

if TYPE_CHECKING:
    from discreet.sources.plan import Source

Codes = dict[str, NDArray[np.int64]]


def made(plan: PrivatePlan, source: Source, never: Impossible, entropy: Entropy) -> Codes:
    """The codes of every row, in an order that tells nothing."""
    if isinstance(plan.made, RecordsPlan):
        return _records(plan.made, source, never, entropy)
    if plan.method == "private-linked":
        linked, columns = plan.made
        return _linked(linked, columns, source, never, entropy)
    return {name: _shuffled(codes, entropy) for name, codes in _columns(plan.made, source, entropy).items()}


def _columns(plans: Sequence[ColumnPlan], source: Source, entropy: Entropy) -> Codes:
    counts = _private_counts(plans, source, entropy)
    return {plan.grid.column: np.repeat(_codes(plan), counts[plan.grid.column]) for plan in plans}


def _private_counts(plans: Sequence[ColumnPlan], source: Source, entropy: Entropy) -> dict[str, Counts]:
    """How many rows each cell of each column is said to have."""
    return {plan.grid.column: plan.estimate(plan.draw(column_counts(source, plan.grid), entropy)) for plan in plans}


def _codes(plan: ColumnPlan) -> NDArray[np.int64]:
    return np.append(plan.grid.codes(), [MISSING] * plan.grid.missing).astype(np.int64)


def _records(plan: RecordsPlan, source: Source, never: Impossible, entropy: Entropy) -> Codes:
    drawn = plan.draw(*occupied_cells(source, plan.keys, [axis.middle for axis in plan.axes]), entropy)
    return plan.estimate(drawn, _possible_records(plan, never) if never.predicates else None)


def _possible_records(plan: RecordsPlan, never: Impossible) -> Callable[[NDArray[np.int64]], NDArray[np.bool_]]:
    """Which records can be, of codes with a column for each of the plan's."""
    names = [axis.grid.column for axis in plan.axes]
    return lambda codes: ~never.rows(dict(zip(names, codes.T, strict=True)))


def check_possible(plan: PrivatePlan, never: Impossible) -> None:
    """Something must be possible; to be asked before anything is charged."""
    if never.predicates and isinstance(plan.made, RecordsPlan):
        plan.made.check_possible(_possible_records(plan.made, never))


def _linked(
    plan: LinkedPlan, columns: Sequence[ColumnPlan], source: Source, never: Impossible, entropy: Entropy
) -> Codes:
    counts = _private_counts(columns, source, entropy)
    linked = draw_linked(plan, counts, lambda pairs: pair_tables(source, pairs), entropy)

    def possible(codes: Mapping[str, Counts]) -> NDArray[np.bool_]:
        return ~never.rows(codes)

    masks = {(one.name, other.name): mask for one, other, mask in _masks(linked, never)}
    rows = rows_of(linked, entropy, impossible=masks, possible=possible if never.predicates else None)
    order = permuted_inside(np.zeros(plan.rows, dtype=np.int64), entropy)
    return {name: codes[order] for name, codes in rows.items()}


def _masks(linked: Linked, never: Impossible) -> list[tuple[Binned, Binned, NDArray[np.bool_]]]:
    found = []
    for one, other in combinations(linked.columns, 2):
        mask = never.table((one.name, one.members()), (other.name, other.members()))
        if mask.any():
            found.append((one, other, mask))
    return found


def _shuffled(codes: NDArray[np.int64], entropy: Entropy) -> NDArray[np.int64]:
    return codes[permuted_inside(np.zeros(len(codes), dtype=np.int64), entropy)]
