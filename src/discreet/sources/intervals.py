"""Looking up the interval that a number is in, as a join of equal numbers, which every engine does fast.

The numbers are cut into as many equal cells as there are intervals, and each interval is listed under every cell that
it touches: for n numbers an engine compares at most 2n pairs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlglot import exp

from discreet.sources.layout import Dialect
from discreet.sources.registration.sql import Named, columns, over
from discreet.sources.registration.words import Expression
from discreet.sources.statement import divided


@dataclass(frozen=True, slots=True)
class Interval:
    """The whole numbers from `low` to before `high`, and what is to be known of them."""

    low: int
    high: int
    facts: tuple[int, ...]


def looked_up(
    query: exp.Select, value: Expression, intervals: Sequence[Interval], facts: Sequence[str], dialect: Dialect
) -> exp.Select:
    """What a query gives, and `low` and the named facts of the one interval that a value is in; NULL where none is."""
    width = max(1, -(-max(each.high for each in intervals) // len(intervals)))
    table = exp.values(
        [
            (cell, each.low, each.high, *each.facts)
            for each in intervals
            for cell in range(each.low // width, -(-each.high // width))
        ],
        alias="intervals",
        columns=["cell", "low", "high", *facts],
    )
    inside = exp.and_(
        exp.column("cell").eq(divided(value, width, dialect)), exp.column("low") <= value, value < exp.column("high")
    )
    named: Named = columns([*query.named_selects, "low", *facts])
    return over(query, named).join(table, on=inside, join_type="left", copy=False)
