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
from discreet.microdata.private.cumulative import Cumulative
from discreet.microdata.private.grid import Counts, Grid
from discreet.microdata.private.linked import Linked, LinkedPlan, draw_linked
from discreet.microdata.private.linked_rows import rows_of
from discreet.microdata.private.records import RecordsPlan
from discreet.planner.impossible import Impossible, impossible
from discreet.planner.margins import Margin, keeping, margins
from discreet.planner.private_release import PrivatePlan
from discreet.query.released import MISSING
from discreet.schema import Column, Schema

if TYPE_CHECKING:
    from discreet.sources.plan import Source

Codes = dict[str, NDArray[np.int64]]


@dataclass(frozen=True, slots=True)
class Known:
    """What no row may be, the codes of one that can be whatever is drawn, and counts that are public already."""

    never: Impossible
    spare: Mapping[str, int]
    margins: tuple[Margin, ...] = ()

    @staticmethod
    def of(schema: Schema, columns: Sequence[Column], missing: bool) -> Known:
        """Refused where no row can be; whether a value may be missing depends on the method."""
        grids = [replace(each, missing=each.missing and missing) for each in map(Grid.of, columns)]
        never = impossible(schema).among([column.name for column in columns])
        return Known(never, never.spare({grid.column: _codes(grid) for grid in grids}), margins(schema))


def made(plan: PrivatePlan, source: Source, known: Known, entropy: Entropy) -> Codes:
    """The codes of every row, in an order that tells nothing."""
    if isinstance(plan.made, RecordsPlan):
        return _records(plan.made, source, known, entropy)
    if plan.method == "private-linked":
        linked, columns = plan.made
        return _linked(linked, columns, source, known, entropy)
    counts = _private_counts(plan.made, source, known, entropy)
    codes = {one.grid.column: np.repeat(_codes(one.grid), counts[one.grid.column]) for one in plan.made}
    return {name: _shuffled(own, entropy) for name, own in codes.items()}


def _private_counts(plans: Sequence[ColumnPlan], source: Source, known: Known, entropy: Entropy) -> dict[str, Counts]:
    """How many rows each cell of each column is said to have."""
    found = {}
    for plan in plans:
        drawn = plan.draw(column_counts(source, plan.grid), entropy)
        found[plan.grid.column] = _kept_counts(plan.estimate(drawn), plan.grid, known)
    return found


def _kept_counts(counts: Counts, grid: Grid, known: Known) -> Counts:
    """Without what is impossible by itself, and with what was published."""
    codes = _codes(grid)
    never = known.never.among((grid.column,)).rows({grid.column: codes})
    own = tuple(one for one in known.margins if one.column == grid.column)
    return keeping(counts, codes, own, never) if own or never.any() else counts


def _codes(grid: Grid) -> NDArray[np.int64]:
    """The code that stands for each cell, MISSING for the one of missing values."""
    return np.append(grid.codes(), [MISSING] * grid.missing).astype(np.int64)


def _records(plan: RecordsPlan, source: Source, known: Known, entropy: Entropy) -> Codes:
    drawn = plan.draw(*occupied_cells(source, plan.keys, [axis.middle for axis in plan.axes]), entropy)
    if not known.never.predicates:
        return plan.estimate(drawn)
    names = [axis.grid.column for axis in plan.axes]
    spare = np.array([known.spare[name] for name in names], dtype=np.int64)
    return plan.estimate(drawn, lambda codes: ~known.never.rows(dict(zip(names, codes.T, strict=True))), spare)


def _linked(plan: LinkedPlan, columns: Sequence[ColumnPlan], source: Source, known: Known, entropy: Entropy) -> Codes:
    counts = _private_counts(columns, source, known, entropy)
    runs = {one.grid.column: one.edges[:-1] for one in columns if isinstance(one, Cumulative)}
    linked = draw_linked(plan, counts, lambda pairs: pair_tables(source, pairs), entropy, runs)
    rows = rows_of(linked, entropy, **(_rules(plan, linked, known) if known.never.predicates else {}))
    order = permuted_inside(np.zeros(plan.rows, dtype=np.int64), entropy)
    return {name: codes[order] for name, codes in rows.items()}


def _rules(plan: LinkedPlan, linked: Linked, known: Known) -> dict[str, Any]:
    """What must not be among the rows: cells of tables of two columns, whole rows; and one that may."""
    masks = {(one.name, other.name): mask for one, other, mask in _masks(linked, known.never)}
    spare = [int((_codes(grid) == known.spare[grid.column]).argmax()) for grid in plan.grids]
    fixed = [one.column for one in known.margins]
    return {
        "impossible": masks,
        "possible": lambda codes: ~known.never.rows(codes),
        "spare": np.array(spare),
        "fixed": fixed,
    }


def _masks(linked: Linked, never: Impossible) -> list[tuple[Binned, Binned, NDArray[np.bool_]]]:
    found = []
    for one, other in combinations(linked.columns, 2):
        mask = never.table((one.name, one.members()), (other.name, other.members()))
        if mask.any():
            found.append((one, other, mask))
    return found


def _shuffled(codes: NDArray[np.int64], entropy: Entropy) -> NDArray[np.int64]:
    return codes[permuted_inside(np.zeros(len(codes), dtype=np.int64), entropy)]
