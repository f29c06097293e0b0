"""What one unit can change in a question, how many rows to expect, and what an interval covers.

HAVING, and LIMIT after ORDER BY, may choose rows by their noisy numbers. A row that is chosen so is more often far off
than the others, so that nothing said of each number by itself holds of the rows shown. What holds of all numbers at
once does, whichever are shown. With m numbers each interval has a confidence of 1 - (1 - c) / m; by the union bound all
of them hold with a probability of at least c, however their noises depend on each other.
"""

from __future__ import annotations

import math
from collections.abc import Container
from dataclasses import dataclass
from typing import Literal

from discreet.formatting import format_confidence
from discreet.query.predicates import TRUE, AllOf, AnyOf, InRanges, InTexts, Predicate
from discreet.query.query import Aggregate, Query
from discreet.schema import Column, Schema

MIN_MISS_PROBABILITY = 1e-10
"""A smaller probability to miss is lost in rounding where the law of a sum of noises is computed."""
NOT_STATED = (
    "no probability is stated, since rows are chosen by their noisy numbers among keys whose number is not public"
)


@dataclass(frozen=True, slots=True)
class Coverage:
    """Whether rows are chosen by their noisy numbers, and among how many rows of how many such numbers."""

    is_selective: bool = False
    rows: int | None = 1
    """None where their number is not public."""
    numbers_per_row: int = 1

    def adjust_confidence(self, confidence: float) -> float | None:
        """The confidence of each interval, for what is stated to hold with this one; None where there is none."""
        if not self.is_selective or self.rows == self.numbers_per_row == 1:
            return confidence
        miss = 0.0 if self.rows is None else (1 - confidence) / (self.rows * self.numbers_per_row)
        return 1 - miss if miss >= MIN_MISS_PROBABILITY else None

    def format_probability(self, confidence: float) -> str:
        """The probability with which what is stated of each number holds, after a statement such as "within 3"."""
        probability = format_confidence(confidence)
        if not self.is_selective:
            return probability
        if self.rows is None:
            return ""
        if self.rows == 1:
            scope = "" if self.numbers_per_row == 1 else " for all numbers at once,"
            return f"{probability}{scope} over all draws, also those that do not show the row"
        return f"{probability} for all {self.rows:,} groups at once, also those not shown"

    def format_sentence(self, confidence: float) -> str:
        """The same of intervals that are shown, in a sentence; empty where each holds by itself."""
        probability = format_confidence(confidence)
        if not self.is_selective or self.rows is None:
            return ""
        if self.rows == 1:
            claim = "the interval holds" if self.numbers_per_row == 1 else "all intervals hold at once"
            return f"Over all draws, also those that do not show the row, {claim} {probability}."
        claim = f"the intervals of all {self.rows:,} groups hold, also of those not shown"
        return f"{probability[:1].upper()}{probability[1:]}, {claim}."


PLAIN_COVERAGE = Coverage()
"""No row is chosen by a noisy number."""


def find_coverage(query: Query, rows: int | None, noisy: Container[int]) -> Coverage:
    """From the layout alone: `noisy` are the aggregates that are not public, `rows` the public number of rows."""
    layout = query.presentation
    numbers = {
        place: (output.aggregate or 0, output.order)
        for place, output in enumerate(layout.outputs)
        if output.key is None and (output.aggregate or 0) in noisy
    }
    has_noisy_having = any(condition.output in numbers for condition in layout.having)
    is_limited = layout.limit is not None and (rows is None or layout.limit < rows)
    is_selective = has_noisy_having or (is_limited and any(place in numbers for place, _ in layout.order))
    return Coverage(True, rows, len({*numbers.values()})) if is_selective else PLAIN_COVERAGE


@dataclass(frozen=True, slots=True)
class ContributionBounds:
    """The schema, the filter and, where cells are shown side by side, how many there are or may be."""

    schema: Schema
    where: Predicate
    cells: int | None = None
    coverage: Coverage = PLAIN_COVERAGE
    """What a requested probability covers."""

    @property
    def is_grouped(self) -> bool:
        """Whether cells are shown side by side."""
        return self.cells is not None

    @property
    def rows_per_unit(self) -> int:
        """The most rows of one unit."""
        return self.schema.rows

    @property
    def is_replace_one(self) -> bool:
        """Whether a neighbour replaces a unit, rather than adding or removing one."""
        return self.schema.neighbors == "replace-one"

    @property
    def l0_bound(self) -> int:
        """In how many cells of disjoint ones a unit's rows can differ: r, or 2r where a replaced row may move."""
        return self.rows_per_unit * self.replace_factor

    @property
    def replace_factor(self) -> int:
        """2 where rows can leave one shown cell and enter another, else 1."""
        return 2 if self.is_replace_one and self.is_grouped else 1

    def get_public_rows(self, column: Column | None = None) -> int | None:
        """The public number of rows that count: units are replaced, each is one row, none is left out."""
        is_complete = column is None or not column.is_nullable
        has_every_row = self.is_replace_one and self.rows_per_unit == 1 and self.where == TRUE and not self.is_grouped
        return self.schema.units if has_every_row and is_complete else None

    def get_units_of_one_row(self) -> int | None:
        """The public number of units, each with one row that is selected or not: units are replaced, in one cell."""
        return self.schema.units if self.is_replace_one and self.rows_per_unit == 1 and not self.is_grouped else None

    def get_public_selected_units(self) -> int | None:
        """The public number of units that are selected: units are replaced, and no filter leaves one out."""
        return self.schema.units if self.is_replace_one and self.where == TRUE and not self.is_grouped else None


DEFAULT_ROWS = 1000
"""What mechanisms are compared at where nothing at all is known."""
MAX_NAMED_COLUMNS = 3


@dataclass(frozen=True, slots=True)
class ExpectedRows:
    """About how many rows each cell of a question has: `stated` by the analyst, `public`, a `guess`, or `unknown`."""

    number: int
    source: Literal["stated", "public", "guess", "unknown"]
    assumption: str = ""
    """What a guess assumes."""


ONE_ROW = ExpectedRows(1, "unknown")
"""Where the number of rows makes no difference."""


def estimate_rows(bounds: ContributionBounds, stated_rows: int | None) -> ExpectedRows:
    """About how many rows are selected. It serves to compare mechanisms; only a number that is stated is relied on."""
    if stated_rows is not None:
        return ExpectedRows(stated_rows, "stated")
    public_rows = bounds.get_public_rows()
    if public_rows is not None:
        return ExpectedRows(public_rows, "public")
    units, share = bounds.schema.units, estimate_even_share(bounds.where, bounds)
    if units is None or share is None:
        return ExpectedRows(DEFAULT_ROWS if units is None else max(1, units // 2), "unknown")
    return ExpectedRows(max(1, int(units * share / (bounds.cells or 1))), "guess", _format_assumption(bounds))


def estimate_even_share(where: Predicate, bounds: ContributionBounds) -> float | None:
    """The share of rows that satisfy a condition if all values are equally frequent and columns are unrelated.

    None where a column has no public values.
    """
    match where:
        case InRanges(column, ranges):
            return sum(high - low + 1 for low, high in ranges) / bounds.schema.column(column).size
        case InTexts():
            return None
        case AllOf(parts) | AnyOf(parts):
            shares = [estimate_even_share(part, bounds) for part in parts]
            known_shares = [share for share in shares if share is not None]
            if len(known_shares) < len(shares):
                return None
            if isinstance(where, AllOf):
                return math.prod(known_shares)
            return 1 - math.prod(1 - share for share in known_shares)


def _format_assumption(bounds: ContributionBounds) -> str:
    names = list(dict.fromkeys(_list_columns(bounds.where)))
    column_words = " and ".join(names) if len(names) <= MAX_NAMED_COLUMNS else "every column in the condition"
    parts = [f"all values of {column_words} are equally frequent"] if names else []
    parts += ["all groups are equally large"] if bounds.is_grouped else []
    return " and ".join(parts)


def _list_columns(where: Predicate) -> list[str]:
    if isinstance(where, AllOf | AnyOf):
        return [name for part in where.parts for name in _list_columns(part)]
    return [where.column]


def find_public_count(aggregate: Aggregate, bounds: ContributionBounds) -> int | None:
    """Find a count that the schema itself states: of all rows or units, so without a filter."""
    if aggregate.where != TRUE:
        return None
    if aggregate.function == "count":
        return bounds.get_public_rows(None if aggregate.column is None else bounds.schema.column(aggregate.column))
    return bounds.get_public_selected_units() if aggregate.function == "count_distinct" else None
