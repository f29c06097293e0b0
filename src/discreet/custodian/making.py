"""The codes of a private file: exact counts from the source, noise once, and all else from what is noisy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from discreet.custodian.counting import column_counts, occupied_cells, pair_tables
from discreet.inference.margins import keeping
from discreet.kernel.entropy import Entropy
from discreet.microdata.permuting import permuted_inside
from discreet.microdata.private.columns import ColumnPlan
from discreet.microdata.private.cumulative import Cumulative
from discreet.microdata.private.grid import Counts, Grid
from discreet.microdata.private.linked import Linked, LinkedPlan, draw_linked
from discreet.microdata.private.linked_rows import Rules, rows_of
from discreet.microdata.private.records import RecordsPlan
from discreet.planner.impossible import Impossible, impossible
from discreet.planner.margins import Margin, margins
from discreet.planner.private_release import PrivatePlan
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
        return Known(never, never.spare({grid.column: grid.all_codes() for grid in grids}), margins(schema))


def made(plan: PrivatePlan, source: Source, known: Known, entropy: Entropy) -> Codes:
    """The codes of every row, in an order that tells nothing."""
    if isinstance(plan.made, RecordsPlan):
        return _records(plan.made, source, known, entropy)
    if plan.method == "private-linked":
        linked, columns = plan.made
        return _linked(linked, columns, source, known, entropy)
    counts = _private_counts(plan.made, source, known, entropy)
    codes = {one.grid.column: np.repeat(one.grid.all_codes(), counts[one.grid.column]) for one in plan.made}
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
    codes = {grid.column: grid.all_codes()}
    never = known.never.among((grid.column,)).rows(codes)
    own = [one for one in known.margins if one.column == grid.column]
    if not own and not never.any():
        return counts
    inside = [Impossible((one.where,)).rows(codes) for one in own]
    return keeping(counts, inside, [one.rows for one in own], never)


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
    rows = rows_of(linked, entropy, _rules(linked, known) if known.never.predicates else None)
    order = permuted_inside(np.zeros(plan.rows, dtype=np.int64), entropy)
    return {name: codes[order] for name, codes in rows.items()}


def _rules(linked: Linked, known: Known) -> Rules:
    masks, told = {}, [(column.name, column.members()) for column in linked.columns]
    for one, other in combinations(told, 2):
        mask = known.never.table(one, other)
        if mask.any():
            masks[one[0], other[0]] = mask
    spare = [int((column.codes == known.spare[column.name]).argmax()) for column in linked.columns]
    fixed = tuple(margin.column for margin in known.margins)
    return Rules(masks, lambda codes: ~known.never.rows(codes), np.array(spare, dtype=np.int64), fixed)


def _shuffled(codes: NDArray[np.int64], entropy: Entropy) -> NDArray[np.int64]:
    return codes[permuted_inside(np.zeros(len(codes), dtype=np.int64), entropy)]
