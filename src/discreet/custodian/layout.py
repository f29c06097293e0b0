"""How the rows of a reply are laid out: after the noise, on what may leave, hence free."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction

from discreet.answer import Reply
from discreet.exact import shown
from discreet.query.query import Having, Presentation
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


def rows_told(
    rows: Sequence[Sequence[Value | None]], order: Sequence[int], layout: Presentation
) -> tuple[Mapping[str, Reply], ...]:
    """Rows in this order, by the names of their columns."""
    labels = [output.label for output in layout.outputs]
    return tuple(dict(zip(labels, map(plain, rows[at]), strict=True)) for at in order)


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


def arranged(rows: Sequence[Sequence[Value | None]], layout: Presentation) -> list[int]:
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


def plain(value: Value | None) -> Reply:
    """Fractions as the nearest float: made of noisy whole numbers, so nothing hides in its last digits."""
    if isinstance(value, Fraction):
        return int(value) if value.denominator == 1 else float(value)
    return value
