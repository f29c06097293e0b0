"""The reply to a HISTOGRAM or a ROLLUP: counts of nested blocks, refined so that they add up. Post-processing alone."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import date
from fractions import Fraction
from functools import cached_property, partial
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from discreet.answers.answer import (
    ALL_KEYS,
    NO_RANGES,
    AnswerDetails,
    IntervalRows,
    PosteriorRows,
    RangeCount,
    ReconciledRows,
    Rows,
)
from discreet.answers.decode import format_group_key, label_rows, select_answer_rows, to_answer_value
from discreet.answers.reconciled_counts import CountSums, reconcile_or_keep_raw
from discreet.charts import HistogramChart, build_picture_spec
from discreet.errors import InvalidInput
from discreet.estimation.constraint_set import Constraint, at_least, fixed, nested, total
from discreet.estimation.hierarchical_counts import BlockHierarchy
from discreet.estimation.linear_refinement import reconcile
from discreet.formatting import widen_interval
from discreet.measurements.hierarchical import BlockCounts, Level, compute_half_width
from discreet.planner.plan import NoisyResult, Plan
from discreet.planner.structural_constraints import find_structural_constraints
from discreet.query.query import Query
from discreet.query.scan import Cell
from discreet.schema import Schema
from discreet.schema.schema import Value

MAX_BARS = 100
DECIMALS = 2
"""Decimals of counts and of their intervals: the noise is far coarser."""
Array = NDArray[np.float64]
Node = tuple[int, int]
"""A level and a place in it."""


@dataclass(frozen=True, eq=False)
class HierarchicalCounts:
    """What was released of nested blocks, and estimates of each of them."""

    plan: Plan
    hierarchy: BlockCounts
    noisy_result: NoisyResult
    _half_widths: dict[float, float] = field(default_factory=dict)

    @cached_property
    def counts(self) -> tuple[Array, ...]:
        """The best linear unbiased count of every block, level by level."""
        return self.hierarchy.estimate([numbers[0] for numbers in self.noisy_result.numbers])

    @cached_property
    def nest(self) -> BlockHierarchy:
        """The blocks, and how far their counts vary."""
        return self.hierarchy.build_nest()

    @cached_property
    def variances(self) -> tuple[Array, ...]:
        """Of every count, level by level."""
        return self.nest.compute_node_variances()[-len(self.hierarchy.levels) :]

    @cached_property
    def interval_variances(self) -> tuple[Array, ...]:
        """The variances that intervals are made from, level by level."""
        return self.nest.propagate_node_variances(self.hierarchy.bounding_variances)[-len(self.hierarchy.levels) :]

    @cached_property
    def shown_nodes(self) -> list[Node]:
        """The blocks that are rows of the reply: each cell of a histogram; of a ROLLUP each total before its parts."""
        last_level = len(self.hierarchy.levels) - 1
        if self.plan.query.nesting == "ranges":
            return [(last_level, place) for place in range(len(self.noisy_result.cells))]
        levels = enumerate(self.hierarchy.levels)
        nodes = [(int(start), level, place) for level, row in levels for place, start in enumerate(row.starts)]
        return [(level, place) for _, level, place in sorted(nodes)]

    def list_numbers(self) -> list[str]:
        """List the names that the count of a block has in the reply."""
        return [output.label for output in self.plan.query.presentation.outputs if output.key is None]

    def get_cell(self, node: Node) -> Cell:
        """Return the keys of a block, ALL_KEYS where it is a total over them."""
        level, place = node
        level_blocks = self.hierarchy.levels[level]
        first = self.noisy_result.cells[int(level_blocks.starts[place])]
        if self.plan.query.nesting == "ranges":
            return first
        return (*first[: level_blocks.keys], *(ALL_KEYS for _ in first[level_blocks.keys :]))

    def get_count(self, node: Node) -> Fraction:
        """Return the count of a block to the hundredth: the noise is far coarser."""
        level, place = node
        return Fraction(round(float(self.counts[level][place]) * 100), 100)

    def compute_interval(self, node: Node, confidence: float) -> tuple[float, float]:
        """Compute where the exact count lies with about this probability."""
        level, place = node
        count = float(self.counts[level][place])
        if level == len(self.hierarchy.levels) - 1 and len(self.hierarchy.measured_levels) == 1:
            return _build_interval(count, self._cell_half_width(confidence))
        return _build_interval(count, compute_half_width(float(self.interval_variances[level][place]), confidence))

    def _cell_half_width(self, confidence: float) -> float:
        """Half of an interval of a cell, where only cells were measured: they are all alike."""
        if confidence not in self._half_widths:
            self._half_widths[confidence] = self.hierarchy.range_half_width(0, 0, confidence, self.nest)
        return self._half_widths[confidence]

    def count_range(self, low: object, high: object, confidence: float) -> RangeCount:
        """Count the rows from one value to another, in whole bins."""
        first, last = _find_bins(self.plan.schema, self.plan.query, low, high)
        key = self.plan.query.keys[0]
        column = self.plan.schema.column(key.column)
        count = round(float(self.counts[-1][first : last + 1].sum()), DECIMALS)
        codes = column.lower + first * key.width, min(column.lower + (last + 1) * key.width - 1, column.upper)
        first_value, last_value = (to_answer_value(column.decode(code)) for code in codes)
        interval = self._compute_range_interval(first, last, confidence)
        asked = _format_range_end(low), _format_range_end(high)
        return RangeCount(asked, first_value, last_value, count, interval, confidence)

    @cached_property
    def integer_counts(self) -> tuple[NDArray[np.int64], ...]:
        """Whole numbers, none below 0, that add up: the nearest to what was released, rounded from the top down."""
        measured_counts = self.hierarchy.split_levels([numbers[0] for numbers in self.noisy_result.numbers])
        pairs = zip(self.hierarchy.levels, measured_counts, strict=True)
        levels = [(level, counts) for level, counts in pairs if counts is not None]
        offsets = np.cumsum([0, *(len(counts) for _, counts in levels)])
        noisy = np.concatenate([counts for _, counts in levels])
        variance = np.repeat([level.variance for level, _ in levels], np.diff(offsets))
        starts = [level.starts for level, _ in levels]
        cells = np.arange(int(offsets[-2]), int(offsets[-1]))
        rules = [*_build_nesting_constraints(starts, offsets), at_least(0, cells)]
        if self.structural_zeros.any():
            rules.append(fixed(0, cells[self.structural_zeros]))
        if self.hierarchy.public_total is not None:
            rules.append(total(self.hierarchy.public_total, range(len(starts[0]))))
        fitted_counts = reconcile(noisy, rules, variance, whole=True).values[offsets[-2] :].round().astype(np.int64)
        return tuple(np.add.reduceat(fitted_counts, level.starts) for level in self.hierarchy.levels)

    @cached_property
    def sums(self) -> CountSums:
        """What all cells add up to, raw and whole."""
        raw_total, reconciled_total = float(self.counts[-1].sum()), float(self.integer_counts[-1].sum())
        units, known_total = self.plan.schema.units, self.hierarchy.public_total
        max_total = known_total if known_total is not None or units is None else units * self.plan.schema.rows
        spread = float(self.variances[-1].max()), self.nest.compute_range_variance(0, len(self.counts[-1]) - 1)
        return CountSums(raw_total, reconciled_total, *spread, known_total or 0, max_total)

    @cached_property
    def structural_zeros(self) -> NDArray[np.bool_]:
        """The cells that cannot have a row; a ROLLUP has left them out already."""
        cell_count = len(self.noisy_result.cells)
        if self.hierarchy.cells is not None:
            return np.zeros(cell_count, dtype=np.bool_)
        return np.asarray(~find_structural_constraints(self.plan.schema, self.plan.query, cell_count).possible[0])

    def build_histogram_chart(self, title: str) -> HistogramChart:
        """Build a picture: neighbouring bins together where there are too many to be seen."""
        key = self.plan.query.keys[0]
        column = self.plan.schema.column(key.column)
        bins = -(-column.size // key.width)
        bins_per_bar = -(-bins // MAX_BARS)
        ends = [(first, min(first + bins_per_bar, bins)) for first in range(0, bins, bins_per_bar)]
        use_raw = self.sums.is_worse  # a bar is a sum of bins
        bin_counts = self.counts[-1] if use_raw else self.integer_counts[-1]
        counts = [float(bin_counts[low:high].sum()) for low, high in ends]
        intervals = [self._compute_range_interval(low, high - 1, 0.95) for low, high in ends]
        step = 1.0 if column.kind == "date" else float(column.step)
        edges = [column.lower + low * key.width for low, _ in ends] + [column.upper + 1]
        missing_note = " Rows without a value are not shown." if column.is_nullable else ""
        counts_text = "raw counts, which may be below 0" if use_raw else "reconciled counts"
        if not use_raw:
            intervals = [_clip_interval(interval, count) for interval, count in zip(intervals, counts, strict=True)]
        caption = (
            f"Bars are the {counts_text}, each with the 95 % interval that holds the exact one.{missing_note} "
            f"{self.plan.guarantee.words()}"
        )
        positions, is_date = tuple(edge * step for edge in edges), column.kind == "date"
        return HistogramChart(title, column.name, positions, tuple(counts), tuple(intervals), caption, is_date)

    def _compute_range_interval(self, first: int, last: int, confidence: float) -> tuple[float, float]:
        count = float(self.counts[-1][first : last + 1].sum())
        return _build_interval(count, self.hierarchy.range_half_width(first, last, confidence, self.nest))

    @property
    def reasons(self) -> tuple[str, ...]:
        """What the whole counts were made to fit."""
        sentences = ["no count is below 0", "counts are whole, and parts add up to their totals"]
        zeros = self.structural_zeros
        if zeros.any():
            sentences.append(f"{int(zeros.sum()):,} of the {len(zeros):,} cells cannot have a row, so they are 0")
        if self.hierarchy.public_total is not None:
            sentences.append(f"all counts add up to the public number of units, {self.hierarchy.public_total:,}")
        return tuple(sentences)


@dataclass(frozen=True, eq=False)
class ReleasedBlocks(AnswerDetails):
    """What was released of nested blocks, and which of them are rows of the reply."""

    blocks: HierarchicalCounts
    order: tuple[int, ...]
    rows: Rows
    question: str

    def compute_intervals(self, confidence: float) -> IntervalRows:
        """Compute where the exact count of every row lies with about this probability."""
        return BlockIntervals(self.blocks, self.order).compute_intervals(confidence)

    def compute_posteriors(self) -> PosteriorRows:
        """There is none: a block has no noise of its own."""
        numbers = self.blocks.list_numbers()
        return tuple(dict.fromkeys(numbers) for _ in self.order)

    def reconcile(self) -> ReconciledRows | None:
        """Make the counts whole, none below 0, so that parts add up."""
        return self._reconciled

    @cached_property
    def _reconciled(self) -> ReconciledRows | None:
        source = BlockIntervals(self.blocks, self.order)
        return reconcile_or_keep_raw(self.rows, source, partial(_reconcile_counts, self.blocks, self.order))

    def describe_meaning(self) -> str:
        """No sentence is made for it."""
        return ""

    @property
    def has_picture(self) -> bool:
        """Whether it is a histogram."""
        return self.blocks.plan.query.nesting == "ranges"

    def build_picture_spec(self) -> dict[str, object]:
        """Build the picture of a histogram."""
        return build_picture_spec(self.blocks.build_histogram_chart(self.question))

    def count_range(self, low: object, high: object, confidence: float) -> RangeCount:
        """Count the rows of a histogram from one value to another."""
        return (
            self.blocks.count_range(low, high, confidence)
            if self.has_picture
            else super().count_range(low, high, confidence)
        )


def release_blocks(plan: Plan, hierarchy: BlockCounts, noisy_result: NoisyResult, question: str) -> ReleasedBlocks:
    """Lay nested counts out in rows."""
    blocks, presentation = HierarchicalCounts(plan, hierarchy, noisy_result), plan.query.presentation
    rows = [_build_row(blocks, node, blocks.get_count(node)) for node in blocks.shown_nodes]
    order = tuple(select_answer_rows(rows, presentation))
    return ReleasedBlocks(blocks, order, label_rows(rows, order, presentation), question)


def build_histogram_counts(plan: Plan, noisy_result: NoisyResult) -> HierarchicalCounts | None:
    """Return the counts of a histogram whose cells were measured one by one: for a prior, say."""
    noises = plan.measurements[0].independent_noises
    if plan.query.nesting != "ranges" or not noises:
        return None
    cells = Level(np.arange(len(noisy_result.cells)), Fraction(1), noises[0])
    return HierarchicalCounts(plan, BlockCounts((cells,)), noisy_result)


def check_ranges(schema: Schema, query: Query, ranges: Sequence[tuple[object, object]]) -> None:
    """Refuse ranges that the answer could not count, before anything is paid for it."""
    if ranges and query.nesting != "ranges":
        raise InvalidInput(NO_RANGES)
    for ends in ranges:
        _find_bins(schema, query, *ends)


def _build_row(blocks: HierarchicalCounts, node: Node, count: Value) -> list[Value | None]:
    plan, cell = blocks.plan, blocks.get_cell(node)
    values: list[Value | None] = []
    for output in plan.query.presentation.outputs:
        if output.key is None:
            values.append(count)
        else:
            key = plan.query.keys[output.key]
            values.append(format_group_key(plan.schema.column(key.column), key.width, cell[output.key]))
    return values


@dataclass(frozen=True, eq=False, slots=True)
class BlockIntervals:
    """The intervals of the blocks that are rows of a reply; with `counts` cut to what is possible of whole ones."""

    blocks: HierarchicalCounts
    order: tuple[int, ...]
    counts: tuple[int, ...] | None = None

    def compute_intervals(self, confidence: float) -> IntervalRows:
        """Compute where the exact count of every row lies with about this probability."""
        names = self.blocks.list_numbers()
        interval_confidence = self.blocks.plan.coverage.adjust_confidence(confidence)
        if interval_confidence is None:
            return tuple(dict.fromkeys(names) for _ in self.order)
        return tuple(dict.fromkeys(names, self._compute_interval(index, interval_confidence)) for index in self.order)

    def _compute_interval(self, index: int, confidence: float) -> tuple[float, float]:
        interval = self.blocks.compute_interval(self.blocks.shown_nodes[index], confidence)
        return interval if self.counts is None else _clip_interval(interval, self.counts[index])


def _reconcile_counts(blocks: HierarchicalCounts, order: tuple[int, ...]) -> ReconciledRows:
    counts = tuple(int(blocks.integer_counts[level][place]) for level, place in blocks.shown_nodes)
    rows = [_build_row(blocks, node, count) for node, count in zip(blocks.shown_nodes, counts, strict=True)]
    answer_rows = label_rows(rows, order, blocks.plan.query.presentation)
    return ReconciledRows(answer_rows, blocks.reasons, BlockIntervals(blocks, order, counts), blocks.sums.advice)


def _clip_interval(interval: tuple[float, float], count: float) -> tuple[float, float]:
    """The part from 0 up, widened to hold the count."""
    low, high = interval
    return min(max(low, 0.0), float(count)), max(high, float(count))


def _build_nesting_constraints(starts: Sequence[NDArray[np.intp]], offsets: NDArray[np.intp]) -> list[Constraint]:
    """Every block is the sum of those of the next level that it holds."""
    children = {}
    for level, (coarse, fine) in enumerate(pairwise(starts)):
        ends = np.append(np.searchsorted(fine, coarse), len(fine)) + offsets[level + 1]
        for place, (low, high) in enumerate(pairwise(ends.tolist())):
            children[int(offsets[level]) + place] = range(low, high)
    return [nested(children)] if children else []


def _build_interval(count: float, half_width: float) -> tuple[float, float]:
    return widen_interval(count - half_width, count + half_width, DECIMALS)


def _find_bins(schema: Schema, query: Query, low: object, high: object) -> tuple[int, int]:
    """The first and the last bin of a range; what lies beyond a bound counts as the bound."""
    (key,) = query.keys
    column = schema.column(key.column)
    ends = [column.find_position(_format_range_end(value)) for value in (low, high)]
    if ends[0] > ends[1]:
        raise InvalidInput("a range goes from its low end up to its high end; these are the other way round")
    if ends[0] > column.upper or ends[1] < column.lower:
        least, most = (_format_range_end(to_answer_value(column.decode(end))) for end in (column.lower, column.upper))
        raise InvalidInput(f"the values of {column.name} go from {least} to {most}; this range lies beyond them")
    codes = [min(max(math.floor(end), column.lower), column.upper) for end in ends]
    return (codes[0] - column.lower) // key.width, (codes[1] - column.lower) // key.width


def _format_range_end(value: object) -> str:
    return value.isoformat() if isinstance(value, date) else str(value)
