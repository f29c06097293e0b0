"""The codes of a private file: exact counts from the source, noise once, and all else from what is noisy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from discreet.custodian.counting import column_counts, occupied_cells, pair_tables
from discreet.kernel.entropy import Entropy
from discreet.microdata.permuting import permuted_inside
from discreet.microdata.private.bins import Binned
from discreet.microdata.private.columns import ColumnPlan
from discreet.microdata.private.grid import Counts, Grid
from discreet.microdata.private.linked import Linked, LinkedPlan, draw_linked
from discreet.microdata.private.linked_rows import rows_of
from discreet.microdata.private.records import RecordsPlan
from discreet.planner.impossible import Impossible
from discreet.planner.private_release import PrivatePlan
from discreet.query.released import MISSING
from discreet.schema import Column

if TYPE_CHECKING:
    from discreet.sources.plan import Source

Codes = dict[str, NDArray[np.int64]]


@dataclass(frozen=True, slots=True)
class Excluded:
    """What no row may be, and the codes of one that can be, whatever is drawn."""

    never: Impossible
    spare: Mapping[str, int]

    @staticmethod
    def of(never: Impossible, columns: Sequence[Column], missing: bool) -> Excluded:
        """Refused where no row can be; whether a value may be missing depends on the method."""
        grids = [replace(each, missing=each.missing and missing) for each in map(Grid.of, columns)]
        return Excluded(never, never.spare({grid.column: _codes(grid) for grid in grids}))


def made(plan: PrivatePlan, source: Source, excluded: Excluded, entropy: Entropy) -> Codes:
    """The codes of every row, in an order that tells nothing."""
    if isinstance(plan.made, RecordsPlan):
        return _records(plan.made, source, excluded, entropy)
    if plan.method == "private-linked":
        linked, columns = plan.made
        return _linked(linked, columns, source, excluded, entropy)
    return {name: _shuffled(codes, entropy) for name, codes in _columns(plan.made, source, entropy).items()}


def _columns(plans: Sequence[ColumnPlan], source: Source, entropy: Entropy) -> Codes:
    counts = _private_counts(plans, source, entropy)
    return {plan.grid.column: np.repeat(_codes(plan.grid), counts[plan.grid.column]) for plan in plans}


def _private_counts(plans: Sequence[ColumnPlan], source: Source, entropy: Entropy) -> dict[str, Counts]:
    """How many rows each cell of each column is said to have."""
    return {plan.grid.column: plan.estimate(plan.draw(column_counts(source, plan.grid), entropy)) for plan in plans}


def _codes(grid: Grid) -> NDArray[np.int64]:
    """The code that stands for each cell, MISSING for the one of missing values."""
    return np.append(grid.codes(), [MISSING] * grid.missing).astype(np.int64)


def _records(plan: RecordsPlan, source: Source, excluded: Excluded, entropy: Entropy) -> Codes:
    drawn = plan.draw(*occupied_cells(source, plan.keys, [axis.middle for axis in plan.axes]), entropy)
    if not excluded.never.predicates:
        return plan.estimate(drawn)
    names = [axis.grid.column for axis in plan.axes]
    spare = np.array([excluded.spare[name] for name in names], dtype=np.int64)
    return plan.estimate(drawn, lambda codes: ~excluded.never.rows(dict(zip(names, codes.T, strict=True))), spare)


def _linked(
    plan: LinkedPlan, columns: Sequence[ColumnPlan], source: Source, excluded: Excluded, entropy: Entropy
) -> Codes:
    counts = _private_counts(columns, source, entropy)
    linked = draw_linked(plan, counts, lambda pairs: pair_tables(source, pairs), entropy)
    rows = rows_of(linked, entropy, **(_excluded(plan, linked, excluded) if excluded.never.predicates else {}))
    order = permuted_inside(np.zeros(plan.rows, dtype=np.int64), entropy)
    return {name: codes[order] for name, codes in rows.items()}


def _excluded(plan: LinkedPlan, linked: Linked, excluded: Excluded) -> dict[str, Any]:
    """What must not be among the rows: cells of tables of two columns, whole rows; and one that may."""
    masks = {(one.name, other.name): mask for one, other, mask in _masks(linked, excluded.never)}
    spare = [int((_codes(grid) == excluded.spare[grid.column]).argmax()) for grid in plan.grids]
    return {"impossible": masks, "possible": lambda codes: ~excluded.never.rows(codes), "spare": np.array(spare)}


def _masks(linked: Linked, never: Impossible) -> list[tuple[Binned, Binned, NDArray[np.bool_]]]:
    found = []
    for one, other in combinations(linked.columns, 2):
        mask = never.table((one.name, one.members()), (other.name, other.members()))
        if mask.any():
            found.append((one, other, mask))
    return found


def _shuffled(codes: NDArray[np.int64], entropy: Entropy) -> NDArray[np.int64]:
    return codes[permuted_inside(np.zeros(len(codes), dtype=np.int64), entropy)]
