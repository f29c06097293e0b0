"""What the stated probability of an interval covers: one number by itself, or all numbers of all rows at once.

HAVING, and LIMIT after ORDER BY, may choose rows by their noisy numbers. A row that is chosen so is more often far off
than the others, so that nothing said of each number by itself holds of the rows shown. What holds of all numbers at
once does, whichever are shown. With m numbers each interval has a confidence of 1 - (1 - c) / m; by the union bound all
of them hold with a probability of at least c, however their noises depend on each other.
"""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass

from discreet.formatting import format_confidence
from discreet.query.query import Query

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
        return (
            f"{probability[:1].upper()}{probability[1:]}, the intervals of all {self.rows:,} groups "
            "hold, also of those not shown."
        )


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
