"""From what was drawn to what the analyst reads: post-processing, so it costs nothing and sees no row."""

from __future__ import annotations

import json
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import partial

from discreet.answer import Answer, Interval, Reply
from discreet.custodian.draw import Released
from discreet.exact import shown
from discreet.guarantee import Guarantee
from discreet.planner.estimates import Linear
from discreet.planner.noisy import Noisy
from discreet.planner.plan import Counted, Known, Measurement, Plan
from discreet.query.query import Having, Output, Presentation
from discreet.query.totals import Cell
from discreet.schema import Column
from discreet.schema.column import Value

COMPARE: Mapping[str, Callable[[Fraction, Fraction], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    "=": operator.eq,
    "<>": operator.ne,
    ">=": operator.ge,
    ">": operator.gt,
}
FREE = Fraction(0)


def to_text(plan: Plan, released: Released) -> str:
    """What is stored: the draws, and the epsilon they were made with."""
    numbers = [[list(part) for part in cell] for cell in released.numbers]
    told = {"epsilon": str(plan.epsilon), "cells": [list(cell) for cell in released.cells], "numbers": numbers}
    return json.dumps(told, ensure_ascii=False)


def from_text(text: str) -> tuple[Fraction, Released]:
    """The same, read back."""
    told = json.loads(text)
    numbers = tuple(tuple(tuple(part) for part in cell) for cell in told["numbers"])
    return Fraction(told["epsilon"]), Released(tuple(tuple(cell) for cell in told["cells"]), numbers)


def answer(
    plan: Plan,
    released: Released,
    question: str,
    paid: Fraction,
    entry: int | None,
    spent: Mapping[str, Fraction | None],
) -> Answer:
    """The reply, laid out as it was asked."""
    layout = plan.query.presentation
    rows = [_row(plan, cell, numbers) for cell, numbers in zip(released.cells, released.numbers, strict=True)]
    order = _arranged(rows, layout)
    labels = tuple(output.label for output in layout.outputs)
    return Answer(
        question=question,
        columns=labels,
        numbers=tuple(output.label for output in layout.outputs if output.key is None),
        rows=tuple(dict(zip(labels, map(_plain, rows[at]), strict=True)) for at in order),
        mechanism=plan.mechanism,
        accuracy=accuracy(plan, 0.95),
        guarantee=plan.guarantee,
        cost=_cost(plan, paid),
        spent=spent,
        stored=paid == FREE and not plan.free,
        entry=entry,
        intervals=partial(_intervals, plan, released, tuple(order)),
    )


def _cost(plan: Plan, paid: Fraction) -> Guarantee:
    """The same promise where it was paid for; nothing where it was stored or public."""
    if paid:
        return plan.guarantee
    return Guarantee.dp(0, plan.schema.neighbours, plan.schema.unit_name)


def _row(plan: Plan, cell: Cell, numbers: Sequence[Sequence[int]]) -> list[Value | None]:
    values = [_values(one, drawn) for one, drawn in zip(plan.measurements, numbers, strict=True)]
    return [_told(plan, output, cell, values) for output in plan.query.presentation.outputs]


def _told(plan: Plan, output: Output, cell: Cell, values: Sequence[Sequence[Value]]) -> Value | None:
    if output.key is not None:
        key = plan.query.keys[output.key]
        return key_value(plan.schema.column(key.column), key.width, cell[output.key])
    return values[output.aggregate or 0][output.order]


def _values(one: Measurement, drawn: Sequence[int]) -> Sequence[Value]:
    """The value, or for several quantiles the values, of one measurement."""
    if isinstance(one, Known):
        return (one.value,)
    if isinstance(one, Counted):
        return (drawn[0],)
    if isinstance(one, Noisy):
        return (one.value(drawn),)
    return one.values(tuple(drawn))


def key_value(column: Column, width: int, place: int | str | None) -> Value | None:
    """A group key as people read it: the value, or the first and last value of a bin."""
    if place is None or isinstance(place, str):
        return place
    first = column.lower + place * width
    if width == 1:
        return column.value(first)
    last = min(first + width - 1, column.upper)
    return f"{_text(column.value(first))} to {_text(column.value(last))}"


def _text(value: Value) -> str:
    return shown(value) if isinstance(value, Fraction) else str(value)


def _arranged(rows: Sequence[Sequence[Value | None]], layout: Presentation) -> list[int]:
    """The rows that HAVING keeps, in the order asked, up to the limit; on noisy numbers, hence free."""
    kept = [at for at, row in enumerate(rows) if all(_kept(row, having) for having in layout.having)]
    for place, falling in reversed(layout.order):
        kept.sort(key=lambda at, place=place: _sortable(rows[at][place]), reverse=falling)  # type: ignore[misc]
    return kept if layout.limit is None else kept[: layout.limit]


def _kept(row: Sequence[Value | None], having: Having) -> bool:
    value = row[having.output]
    return isinstance(value, int | Fraction) and COMPARE[having.comparison](Fraction(value), having.constant)


def _sortable(value: Value | None) -> tuple[bool, bool, Value]:
    """Missing keys last; numbers before texts."""
    return value is None, isinstance(value, str), "" if value is None else value


def _plain(value: Value | None) -> Reply:
    """Fractions as the nearest float: made of noisy whole numbers, so nothing hides in its last digits."""
    if isinstance(value, Fraction):
        return int(value) if value.denominator == 1 else float(value)
    return value


def _intervals(
    plan: Plan, released: Released, order: tuple[int, ...], confidence: float
) -> tuple[Mapping[str, Interval], ...]:
    return tuple(_spans(plan, released.numbers[at], confidence) for at in order)


def _spans(plan: Plan, numbers: Sequence[Sequence[int]], confidence: float) -> Mapping[str, Interval]:
    outputs = [output for output in plan.query.presentation.outputs if output.key is None]
    places = [output.aggregate or 0 for output in outputs]
    pairs = ((plan.measurements[at], numbers[at]) for at in places)
    spans = (_span(one, drawn, confidence) for one, drawn in pairs)
    return dict(zip((output.label for output in outputs), spans, strict=True))


def _span(one: Measurement, drawn: Sequence[int], confidence: float) -> Interval:
    if isinstance(one, Known):
        return float(one.value), float(one.value)
    if isinstance(one, Counted):
        reach = one.threshold.noise.interval(confidence)[1]
        least = drawn[0] - reach
        # A small key that is shown owes it to its noise: near the threshold only the upper end says anything.
        return (least if least > one.threshold.least else 1.0), drawn[0] + reach
    if isinstance(one, Noisy):
        low, high = one.span(drawn, confidence)
        return float(low), float(high)
    return None


def accuracy(plan: Plan, confidence: float) -> str:
    """What may be said of each number's error before it is drawn; by name where there are several."""
    said = [_accuracy(one, confidence) for one in plan.measurements]
    if len(said) == 1:
        return said[0]
    outputs = (output for output in plan.query.presentation.outputs if output.key is None)
    named = {output.aggregate or 0: output.label for output in outputs if output.order == 0}
    return "; ".join(f"{named[at]}: {words}" for at, words in enumerate(said) if at in named)


def _accuracy(one: Measurement, confidence: float) -> str:
    likely = f"with a probability of {confidence:.0%}"
    if isinstance(one, Known):
        return "exact: the schema makes it public"
    if isinstance(one, Counted):
        reach = one.threshold.noise.interval(confidence)[1]
        least = one.threshold.least
        return f"keys of fewer than about {least:,} units are not shown; others are within {reach:,.0f} {likely}"
    if isinstance(one, Noisy):
        estimate, reach = one.form.estimate, one.noises[0].interval(confidence)[1]
        if isinstance(estimate, Linear):
            return f"within {reach * float(estimate.slope):,.10g} {likely}"
        return "its interval is told with the answer"
    return one.words(confidence)


def public_answer(plan: Plan, question: str, spent: Mapping[str, Fraction | None]) -> Answer:
    """The reply where the schema says it all."""
    nothing = Released(((),), (tuple(() for _ in plan.measurements),))
    return replace(answer(plan, nothing, question, FREE, None, spent), stored=False)
