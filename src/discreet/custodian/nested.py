"""The reply to a HISTOGRAM or a ROLLUP: counts of nested blocks, refined so that they add up. Post-processing alone."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from fractions import Fraction
from functools import cache, cached_property, partial
from itertools import pairwise
from typing import cast

import numpy as np
from numpy.typing import NDArray

from discreet.answer import ALL, NO_RANGES, Answer, InRange, Interval, Reconciled
from discreet.bars import Bars
from discreet.custodian.draw import Released
from discreet.custodian.layout import arranged, key_value, plain, rows_told
from discreet.custodian.question import Question, read
from discreet.custodian.reconciling import Sums, or_as_drawn
from discreet.custodian.telling import with_picture
from discreet.errors import InvalidInput
from discreet.formatting import widen
from discreet.inference.constraints import Constraint, at_least, fixed, nested, total
from discreet.inference.nested import Nest
from discreet.inference.reconcile import reconcile
from discreet.planner.nested import Level, Nested, reach
from discreet.planner.noisy import Noisy
from discreet.planner.plan import Plan
from discreet.planner.structure import structure
from discreet.query.query import Query
from discreet.query.totals import Cell
from discreet.schema import Schema
from discreet.schema.column import Value

MOST_BARS = 100
PLACES = 2
"""Decimals of counts and of their intervals: the noise is far coarser."""
Array = NDArray[np.float64]
Node = tuple[int, int]
"""A level and a place in it."""


@dataclass(frozen=True, eq=False)
class Blocks:
    """What was released of nested blocks, and what it says of each of them."""

    plan: Plan
    nested: Nested
    released: Released

    @cached_property
    def counts(self) -> tuple[Array, ...]:
        """The best linear unbiased count of every block, level by level."""
        return self.nested.estimate([numbers[0] for numbers in self.released.numbers])

    @cached_property
    def nest(self) -> Nest:
        """The blocks, and how far their counts vary."""
        return self.nested.nest()

    @cached_property
    def variances(self) -> tuple[Array, ...]:
        """Of every count, level by level."""
        return self.nest.node_variances()[-len(self.nested.levels) :]

    @cached_property
    def bounds(self) -> tuple[Array, ...]:
        """The variances that intervals are made from, level by level."""
        return self.nest.node_variances_of(self.nested.bounding)[-len(self.nested.levels) :]

    @cached_property
    def shown(self) -> list[Node]:
        """The blocks that are rows of the reply: each cell of a histogram; of a ROLLUP each total before its parts."""
        last = len(self.nested.levels) - 1
        if self.plan.query.nesting == "ranges":
            return [(last, place) for place in range(len(self.released.cells))]
        levels = enumerate(self.nested.levels)
        nodes = [(int(start), level, place) for level, own in levels for place, start in enumerate(own.starts)]
        return [(level, place) for _, level, place in sorted(nodes)]

    def cell(self, node: Node) -> Cell:
        """The keys of a block, `ALL` where it is a total over them."""
        level, place = node
        own = self.nested.levels[level]
        first = self.released.cells[int(own.starts[place])]
        if self.plan.query.nesting == "ranges":
            return first
        return (*first[: own.keys], *(ALL for _ in first[own.keys :]))

    def count(self, node: Node) -> Fraction:
        """To the hundredth: the noise is far coarser."""
        level, place = node
        return Fraction(round(float(self.counts[level][place]) * 100), 100)

    def interval(self, node: Node, confidence: float) -> tuple[float, float]:
        """Where the exact count lies with about this probability."""
        level, place = node
        count = float(self.counts[level][place])
        if level == len(self.nested.levels) - 1 and len(self.nested.measured_levels) == 1:
            return _around(count, self._cell_reach(confidence))
        return _around(count, reach(float(self.bounds[level][place]), confidence))

    def _cell_reach(self, confidence: float) -> float:
        """Half of an interval of a cell, where only cells were measured: they are all alike."""
        if confidence not in self._cell_reaches:
            self._cell_reaches[confidence] = self.nested.range_reach(0, 0, confidence, self.nest)
        return self._cell_reaches[confidence]

    @cached_property
    def _cell_reaches(self) -> dict[float, float]:
        return {}

    def in_range(self, low: object, high: object, confidence: float) -> InRange:
        """The rows from one value to another, in whole bins."""
        first, last = _bins(self.plan.schema, self.plan.query, low, high)
        key = self.plan.query.keys[0]
        column = self.plan.schema.column(key.column)
        count = float(self.counts[-1][first : last + 1].sum())
        ends = column.lower + first * key.width, min(column.lower + (last + 1) * key.width - 1, column.upper)
        shown_low, shown_high = (plain(column.value(end)) for end in ends)
        interval = self._range_interval(first, last, confidence)
        asked = _text(low), _text(high)
        return InRange(asked, shown_low, shown_high, round(count, PLACES), interval, confidence)

    @cached_property
    def whole_counts(self) -> tuple[NDArray[np.int64], ...]:
        """Whole numbers, none below 0, that add up: the nearest to what was released, rounded from the top down."""
        told = self.nested.measured([numbers[0] for numbers in self.released.numbers])
        levels = [(own, one) for own, one in zip(self.nested.levels, told, strict=True) if one is not None]
        firsts = np.cumsum([0, *(len(one) for _, one in levels)])
        noisy = np.concatenate([one for _, one in levels])
        variance = np.repeat([own.variance for own, _ in levels], np.diff(firsts))
        starts = [own.starts for own, _ in levels]
        cells = np.arange(int(firsts[-2]), int(firsts[-1]))
        rules = [*_nests(starts, firsts), at_least(0, cells)]
        if self.empty.any():
            rules.append(fixed(0, cells[self.empty]))
        if self.nested.known is not None:
            rules.append(total(self.nested.known, range(len(starts[0]))))
        fitted = reconcile(noisy, rules, variance, whole=True).values[firsts[-2] :].round().astype(np.int64)
        return tuple(np.add.reduceat(fitted, own.starts) for own in self.nested.levels)

    @cached_property
    def sums(self) -> Sums:
        """What all cells add up to, raw and whole."""
        raw, made = float(self.counts[-1].sum()), float(self.whole_counts[-1].sum())
        units, known = self.plan.schema.units, self.nested.known
        most = known if known is not None or units is None else units * self.plan.schema.rows
        whole = self.nest.range_variance(0, len(self.counts[-1]) - 1)
        return Sums(raw, made, float(self.variances[-1].max()), whole, known or 0, most)

    @cached_property
    def empty(self) -> NDArray[np.bool_]:
        """The cells that cannot have a row; a ROLLUP has left them out already."""
        many = len(self.released.cells)
        if self.nested.cells is not None:
            return np.zeros(many, dtype=np.bool_)
        return np.asarray(~structure(self.plan.schema, self.plan.query, many).possible[0])

    def bars(self, title: str) -> Bars:
        """A picture: neighbouring bins together where there are too many to be seen."""
        key = self.plan.query.keys[0]
        column = self.plan.schema.column(key.column)
        bins = -(-column.size // key.width)
        size = -(-bins // MOST_BARS)
        ends = [(first, min(first + size, bins)) for first in range(0, bins, size)]
        raw = self.sums.worse  # a bar is a sum of bins
        shown = self.counts[-1] if raw else self.whole_counts[-1]
        counts = [float(shown[low:high].sum()) for low, high in ends]
        spans = [self._range_interval(low, high - 1, 0.95) for low, high in ends]
        step = 1.0 if column.kind == "date" else float(column.step)
        edges = [column.lower + low * key.width for low, _ in ends] + [column.upper + 1]
        missing = " Rows without a value are not shown." if column.nullable else ""
        which = "raw counts, which may be below 0" if raw else "reconciled counts"
        said = f"Bars are the {which}, each with the 95 % interval that holds the exact one."
        told = spans if raw else [_possible(span, count) for span, count in zip(spans, counts, strict=True)]
        return Bars(
            title,
            column.name,
            tuple(edge * step for edge in edges),
            tuple(counts),
            tuple(told),
            f"{said}{missing} {self.plan.guarantee.words()}",
            column.kind == "date",
        )

    def _range_interval(self, first: int, last: int, confidence: float) -> tuple[float, float]:
        count = float(self.counts[-1][first : last + 1].sum())
        return _around(count, self.nested.range_reach(first, last, confidence, self.nest))

    @property
    def because(self) -> tuple[str, ...]:
        """What the whole counts were made to fit."""
        said = ["no count is below 0", "counts are whole, and parts add up to their totals"]
        if self.empty.any():
            said.append(f"{int(self.empty.sum()):,} of the {len(self.empty):,} cells cannot have a row, so they are 0")
        if self.nested.known is not None:
            said.append(f"all counts add up to the public number of units, {self.nested.known:,}")
        return tuple(said)


def nested_answer(made: Answer, plan: Plan, nested: Nested, released: Released) -> Answer:
    """A reply with the rows of nested counts."""
    blocks, layout = Blocks(plan, nested, released), plan.query.presentation
    rows = [_row(blocks, node, blocks.count(node)) for node in blocks.shown]
    order = tuple(arranged(rows, layout))
    told = replace(
        made,
        rows=rows_told(rows, order, layout),
        intervals=partial(_spans, blocks, order),
        posteriors=partial(_no_posteriors, len(order), made.numbers),
    )
    fitted = replace(told, reconcile=cache(partial(or_as_drawn, told, partial(_reconciled, blocks, order))))
    return _with_ranges(fitted, blocks) if plan.query.nesting == "ranges" else fitted


def ranged(made: Answer, plan: Plan, released: Released) -> Answer:
    """With ranges and a picture, where the cells of a histogram were measured one by one: for a prior, say."""
    one = plan.measurements[0]
    if plan.query.nesting != "ranges" or not isinstance(one, Noisy):
        return made
    every = Level(np.arange(len(released.cells)), Fraction(1), one.single)
    blocks = Blocks(plan, Nested(one.form, (every,), one.name), released)
    return _with_ranges(made, blocks)


def _with_ranges(made: Answer, blocks: Blocks) -> Answer:
    """Of a histogram: any range of it, and its picture."""
    return with_picture(replace(made, in_range=blocks.in_range), lambda: blocks.bars(made.question))


def check_ranges(schema: Schema, question: Question, asked: Sequence[tuple[object, object]]) -> None:
    """Refuse ranges that the answer could not tell, before anything is paid for it."""
    if not asked:
        return
    query = read(question, schema)
    if query.nesting != "ranges":
        raise InvalidInput(NO_RANGES)
    for ends in asked:
        _bins(schema, query, *ends)


def _row(blocks: Blocks, node: Node, count: Value) -> list[Value | None]:
    plan, cell = blocks.plan, blocks.cell(node)
    found: list[Value | None] = []
    for output in plan.query.presentation.outputs:
        if output.key is None:
            found.append(count)
            continue
        key, place = plan.query.keys[output.key], cell[output.key]
        found.append(key_value(plan.schema.column(key.column), key.width, place))
    return found


def _spans(blocks: Blocks, order: Sequence[int], confidence: float) -> tuple[Mapping[str, Interval], ...]:
    names = [output.label for output in blocks.plan.query.presentation.outputs if output.key is None]
    each = blocks.plan.coverage.each(confidence)
    if each is None:
        return tuple(dict.fromkeys(names) for _ in order)
    return tuple(dict.fromkeys(names, blocks.interval(blocks.shown[at], each)) for at in order)


def _reconciled(blocks: Blocks, order: Sequence[int]) -> Reconciled:
    counts = [int(blocks.whole_counts[level][place]) for level, place in blocks.shown]
    rows = [_row(blocks, node, count) for node, count in zip(blocks.shown, counts, strict=True)]

    def intervals(confidence: float) -> tuple[Mapping[str, Interval], ...]:
        found = _spans(blocks, order, confidence)
        return tuple(
            {name: None if span is None else _possible(_numbers(span), counts[at]) for name, span in row.items()}
            for at, row in zip(order, found, strict=True)
        )

    told = rows_told(rows, order, blocks.plan.query.presentation)
    return Reconciled(told, intervals, blocks.because, blocks.sums.advice)


def _numbers(span: Interval) -> tuple[float, float]:
    return cast("tuple[float, float]", span)


def _possible(span: tuple[float, float], count: float) -> tuple[float, float]:
    """The part from 0 up, and at least what is told."""
    low, high = span
    return min(max(low, 0.0), float(count)), max(high, float(count))


def _no_posteriors(rows: int, numbers: Sequence[str]) -> tuple[Mapping[str, None], ...]:
    return tuple(dict.fromkeys(numbers) for _ in range(rows))


def _nests(starts: Sequence[NDArray[np.intp]], firsts: NDArray[np.intp]) -> list[Constraint]:
    """Every block is the sum of those of the next level that it holds."""
    found = {}
    for level, (coarse, fine) in enumerate(pairwise(starts)):
        ends = np.append(np.searchsorted(fine, coarse), len(fine)) + firsts[level + 1]
        for place, (low, high) in enumerate(pairwise(ends.tolist())):
            found[int(firsts[level]) + place] = range(low, high)
    return [nested(found)] if found else []


def _around(count: float, off: float) -> tuple[float, float]:
    return widen(count - off, count + off, PLACES)


def _bins(schema: Schema, query: Query, low: object, high: object) -> tuple[int, int]:
    """The first and the last bin of a range; what lies beyond a bound counts as the bound."""
    (key,) = query.keys
    column = schema.column(key.column)
    ends = [column.place(_text(value)) for value in (low, high)]
    if ends[0] > ends[1]:
        raise InvalidInput("a range goes from its low end up to its high end; these are the other way round")
    if ends[0] > column.upper or ends[1] < column.lower:
        least, most = (_text(plain(column.value(end))) for end in (column.lower, column.upper))
        raise InvalidInput(f"the values of {column.name} go from {least} to {most}; this range lies beyond them")
    codes = [min(max(math.floor(end), column.lower), column.upper) for end in ends]
    return (codes[0] - column.lower) // key.width, (codes[1] - column.lower) // key.width


def _text(value: object) -> str:
    return value.isoformat() if isinstance(value, date) else str(value)
