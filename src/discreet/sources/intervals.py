"""Looking up the interval that a number is in, as a join of equal numbers, which every engine does fast.

The numbers are cut into as many equal cells as there are intervals, and each interval is listed under every cell that
it touches: for n numbers an engine compares at most 2n pairs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlglot import exp

from discreet.sources.layout import Dialect
from discreet.sources.registration.sql import NamedExpressions, build_columns, select_from_query
from discreet.sources.registration.words import Expression
from discreet.sources.statement import build_integer_division


@dataclass(frozen=True, slots=True)
class IntervalRow:
    """The whole numbers from `low` to before `high`, and what is to be known of them."""

    low: int
    high: int
    values: tuple[int, ...]


def join_intervals(
    query: exp.Select, value: Expression, intervals: Sequence[IntervalRow], value_names: Sequence[str], dialect: Dialect
) -> exp.Select:
    """What a query gives, and `low` and the named facts of the one interval that a value is in; NULL where none is."""
    width = max(1, -(-max(interval.high for interval in intervals) // len(intervals)))
    table = exp.values(
        [
            (cell, interval.low, interval.high, *interval.values)
            for interval in intervals
            for cell in range(interval.low // width, -(-interval.high // width))
        ],
        alias="intervals",
        columns=["cell", "low", "high", *value_names],
    )
    is_inside = exp.and_(
        exp.column("cell").eq(build_integer_division(value, width, dialect)),
        exp.column("low") <= value,
        value < exp.column("high"),
    )
    expressions: NamedExpressions = build_columns([*query.named_selects, "low", *value_names])
    return select_from_query(query, expressions).join(table, on=is_inside, join_type="left", copy=False)
