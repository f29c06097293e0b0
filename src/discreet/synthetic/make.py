"""Make the codes of a DP synthetic file: exact counts, noise once, and post-processing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from discreet.estimation.raking import rake_counts
from discreet.mechanisms.entropy import Entropy
from discreet.planner.public_facts import PublicMarginal, StructuralZeros, list_public_marginals, read_structural_zeros
from discreet.query.scan import BinKey, HistogramScan, ScanMeasure, TotalsScan
from discreet.schema import Column, Schema
from discreet.sdc.table import permute_within_groups
from discreet.synthetic.column_methods import CumulativeCounts
from discreet.synthetic.columns import ColumnGrid, ColumnPlan, Counts
from discreet.synthetic.file_plan import SyntheticPlan
from discreet.synthetic.marginals import (
    BinnedColumn,
    MarginalsPlan,
    NoisyMarginals,
    build_joint_table,
    measure_marginals,
    plan_joint_table,
)
from discreet.synthetic.records import RecordsPlan
from discreet.synthetic.sample_rows import RowRules, sample_marginal_rows

if TYPE_CHECKING:
    from discreet.sources.protocol import Source


def count_column_cells(source: Source, grid: ColumnGrid) -> Counts:
    """How many rows are in each cell of one column; those without a value last, where there may be some."""
    plan = HistogramScan(BinKey(grid.column, grid.lower, grid.width), grid.cell_count)
    present_counts = np.asarray(source.histogram(plan)[()], dtype=np.int64)
    return np.append(present_counts, source.count() - present_counts.sum()) if grid.has_missing else present_counts


def count_pair_tables(source: Source, pairs: Sequence[tuple[BinnedColumn, BinnedColumn]]) -> list[Counts]:
    """How many rows are in each cell of each table of two columns."""
    return [build_joint_table(first, second, source.totals(plan_joint_table(first, second))) for first, second in pairs]


def count_occupied_cells(source: Source, keys: Sequence[BinKey], middles: Sequence[int]) -> tuple[Counts, Counts]:
    """The cells of several columns together that have rows, one a row, and how many rows each has.

    A missing value counts as the middle of its column.
    """
    cell_totals = source.totals(TotalsScan((ScanMeasure("rows"),), tuple(keys)))
    cell_codes = [
        [middle if code is None else int(code) for code, middle in zip(cell, middles, strict=True)]
        for cell in cell_totals
    ]
    cells = np.array(cell_codes, dtype=np.int64)
    counts = np.array([rows for (rows,) in cell_totals.values()], dtype=np.int64)
    return cells.reshape(len(counts), len(keys)), counts


Codes = dict[str, NDArray[np.int64]]


@dataclass(frozen=True, slots=True)
class PublicRowFacts:
    """The structural zeros, the codes of a row that is always possible, and counts that are public already."""

    structural_zeros: StructuralZeros
    spare_codes: Mapping[str, int]
    public_marginals: tuple[PublicMarginal, ...] = ()

    @staticmethod
    def from_schema(schema: Schema, columns: Sequence[Column], missing: bool) -> PublicRowFacts:
        """Read from a schema, refusing one under which no row can be; `missing` says whether a value may be missing."""
        grids = [ColumnGrid.of(column) for column in columns]
        grids = [replace(grid, has_missing=grid.has_missing and missing) for grid in grids]
        structural_zeros = read_structural_zeros(schema).restrict_to([column.name for column in columns])
        return PublicRowFacts(
            structural_zeros,
            structural_zeros.find_possible_row({grid.column: grid.compute_all_codes() for grid in grids}),
            list_public_marginals(schema),
        )


def synthesize_codes(plan: SyntheticPlan, source: Source, public_facts: PublicRowFacts, entropy: Entropy) -> Codes:
    """The codes of every row, in an order that reveals nothing."""
    if isinstance(plan.method_plan, RecordsPlan):
        return _synthesize_records(plan.method_plan, source, public_facts, entropy)
    if plan.method == "private-linked":
        marginals_plan, columns = plan.method_plan
        return _synthesize_from_marginals(marginals_plan, columns, source, public_facts, entropy)
    counts = _sample_column_counts(plan.method_plan, source, public_facts, entropy)
    codes = {}
    for column_plan in plan.method_plan:
        column = column_plan.grid.column
        column_codes = np.repeat(column_plan.grid.compute_all_codes(), counts[column])
        codes[column] = column_codes[permute_within_groups(np.zeros(len(column_codes), dtype=np.int64), entropy)]
    return codes


def _sample_column_counts(
    plans: Sequence[ColumnPlan], source: Source, public_facts: PublicRowFacts, entropy: Entropy
) -> dict[str, Counts]:
    """Noisy counts of the cells of each column, under the public facts."""
    counts = {}
    for plan in plans:
        noisy_outputs = plan.measure(count_column_cells(source, plan.grid), entropy)
        counts[plan.grid.column] = _apply_public_facts(plan.estimate_counts(noisy_outputs), plan.grid, public_facts)
    return counts


def _apply_public_facts(counts: Counts, grid: ColumnGrid, public_facts: PublicRowFacts) -> Counts:
    """The counts without impossible cells, and with published totals."""
    codes = {grid.column: grid.compute_all_codes()}
    impossible_cells = public_facts.structural_zeros.restrict_to((grid.column,)).find_impossible_rows(codes)
    column_marginals = [marginal for marginal in public_facts.public_marginals if marginal.column == grid.column]
    if not column_marginals and not impossible_cells.any():
        return counts
    memberships = [StructuralZeros((marginal.where,)).find_impossible_rows(codes) for marginal in column_marginals]
    return rake_counts(counts, memberships, [marginal.rows for marginal in column_marginals], impossible_cells)


def _synthesize_records(plan: RecordsPlan, source: Source, public_facts: PublicRowFacts, entropy: Entropy) -> Codes:
    noisy_outputs = plan.measure(*count_occupied_cells(source, plan.keys, [axis.middle for axis in plan.axes]), entropy)
    if not public_facts.structural_zeros.predicates:
        return plan.estimate_records(noisy_outputs)
    names = [axis.grid.column for axis in plan.axes]
    spare_codes = np.array([public_facts.spare_codes[name] for name in names], dtype=np.int64)
    return plan.estimate_records(
        noisy_outputs,
        lambda codes: ~public_facts.structural_zeros.find_impossible_rows(dict(zip(names, codes.T, strict=True))),
        spare_codes,
    )


def _synthesize_from_marginals(
    plan: MarginalsPlan, columns: Sequence[ColumnPlan], source: Source, public_facts: PublicRowFacts, entropy: Entropy
) -> Codes:
    counts = _sample_column_counts(columns, source, public_facts, entropy)
    runs = {column.grid.column: column.edges[:-1] for column in columns if isinstance(column, CumulativeCounts)}
    marginals = measure_marginals(plan, counts, lambda pairs: count_pair_tables(source, pairs), entropy, runs)
    rules = _build_row_rules(marginals, public_facts) if public_facts.structural_zeros.predicates else None
    rows = sample_marginal_rows(marginals, entropy, rules)
    order = permute_within_groups(np.zeros(plan.rows, dtype=np.int64), entropy)
    return {name: codes[order] for name, codes in rows.items()}


def _build_row_rules(marginals: NoisyMarginals, public_facts: PublicRowFacts) -> RowRules:
    masks, column_members = {}, [(column.name, column.list_bin_codes()) for column in marginals.columns]
    for first, second in combinations(column_members, 2):
        mask = public_facts.structural_zeros.find_empty_cells(first, second)
        if mask.any():
            masks[first[0], second[0]] = mask
    spare_codes = public_facts.spare_codes
    spare_indices = [int((column.codes == spare_codes[column.name]).argmax()) for column in marginals.columns]
    return RowRules(
        masks,
        lambda codes: ~public_facts.structural_zeros.find_impossible_rows(codes),
        np.array(spare_indices, dtype=np.int64),
        tuple(marginal.column for marginal in public_facts.public_marginals),
    )
