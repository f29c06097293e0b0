"""How the rows of a reply are laid out: after the noise, on what may leave, hence free."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction

from discreet.answer import AnswerValue
from discreet.exact import format_exact
from discreet.query.query import HavingCondition, Presentation
from discreet.schema import Column
from discreet.schema.column import Value

COMPARISONS: Mapping[str, Callable[[Fraction, Fraction], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    "=": operator.eq,
    "<>": operator.ne,
    ">=": operator.ge,
    ">": operator.gt,
}


def label_rows(
    rows: Sequence[Sequence[Value | None]], order: Sequence[int], presentation: Presentation
) -> tuple[Mapping[str, AnswerValue], ...]:
    """Rows in this order, by the names of their columns."""
    labels = [output.label for output in presentation.outputs]
    return tuple(dict(zip(labels, map(to_answer_value, rows[index]), strict=True)) for index in order)


def format_group_key(column: Column, width: int, place: int | str | None) -> Value | None:
    """A group key as people read it: the value, or the first and last value of a bin."""
    if place is None or isinstance(place, str):
        return place
    first = column.lower + place * width
    if width == 1:
        return column.decode(first)
    last = min(first + width - 1, column.upper)
    return f"{_format_bound(column.decode(first))} to {_format_bound(column.decode(last))}"


def _format_bound(value: Value) -> str:
    return format_exact(value) if isinstance(value, Fraction) else str(value)


def select_answer_rows(rows: Sequence[Sequence[Value | None]], presentation: Presentation) -> list[int]:
    """The rows that HAVING keeps, in the order asked, up to the limit; on noisy numbers, hence free."""
    indices = [
        index for index, row in enumerate(rows) if all(_passes_having(row, having) for having in presentation.having)
    ]
    for place, descending in reversed(presentation.order):
        indices.sort(key=lambda index, place=place: _make_sort_key(rows[index][place]), reverse=descending)  # type: ignore[misc]
    return indices if presentation.limit is None else indices[: presentation.limit]


def _passes_having(row: Sequence[Value | None], having: HavingCondition) -> bool:
    value = row[having.output]
    return isinstance(value, int | Fraction) and COMPARISONS[having.comparison](Fraction(value), having.constant)


def _make_sort_key(value: Value | None) -> tuple[bool, bool, Value]:
    """Missing keys last; numbers before texts."""
    return value is None, isinstance(value, str), "" if value is None else value


def to_answer_value(value: Value | None) -> AnswerValue:
    """Fractions as the nearest float: made of noisy whole numbers, so nothing hides in its last digits."""
    if isinstance(value, Fraction):
        return int(value) if value.denominator == 1 else float(value)
    return value
