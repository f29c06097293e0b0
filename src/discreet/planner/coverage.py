"""What the stated probability of an interval covers: one number by itself, or all numbers of all rows at once.

HAVING, and LIMIT after ORDER BY, may choose rows by their noisy numbers. A row that is chosen so is more often far off
than the others, so that nothing said of each number by itself holds of the rows shown. What holds of all numbers at
once does, whichever are shown. With m numbers each interval has a confidence of 1 - (1 - c) / m; by the union bound all
of them hold with a probability of at least c, however their noises depend on each other.
"""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass

from discreet.formatting import format_likely
from discreet.query.query import Query

LEAST_MISS = 1e-10
"""A smaller probability to miss is lost in rounding where the law of a sum of noises is computed."""
NOT_STATED = (
    "no probability is stated, since rows are chosen by their noisy numbers among keys whose number is not public"
)


@dataclass(frozen=True, slots=True)
class Coverage:
    """Whether rows are chosen by their noisy numbers, and among how many rows of how many such numbers."""

    chosen: bool = False
    rows: int | None = 1
    """None where their number is not public."""
    numbers: int = 1

    def each(self, confidence: float) -> float | None:
        """The confidence of each interval, for what is stated to hold with this one; None where there is none."""
        if not self.chosen or self.rows == self.numbers == 1:
            return confidence
        miss = 0.0 if self.rows is None else (1 - confidence) / (self.rows * self.numbers)
        return 1 - miss if miss >= LEAST_MISS else None

    def likely(self, confidence: float) -> str:
        """The probability with which what is stated of each number holds, after a statement such as "within 3"."""
        said = format_likely(confidence)
        if not self.chosen:
            return said
        if self.rows is None:
            return ""
        if self.rows == 1:
            whole = "" if self.numbers == 1 else " for all numbers at once,"
            return f"{said}{whole} over all draws, also those that do not show the row"
        return f"{said} for all {self.rows:,} groups at once, also those not shown"

    def sentence(self, confidence: float) -> str:
        """The same of intervals that are shown, in a sentence; empty where each holds by itself."""
        said = format_likely(confidence)
        if not self.chosen or self.rows is None:
            return ""
        if self.rows == 1:
            what = "the interval holds" if self.numbers == 1 else "all intervals hold at once"
            return f"Over all draws, also those that do not show the row, {what} {said}."
        return f"{said[:1].upper()}{said[1:]}, the intervals of all {self.rows:,} groups hold, also of those not shown."


BY_ITSELF = Coverage()
"""No row is chosen by a noisy number."""


def coverage_of(query: Query, rows: int | None, noisy: Container[int]) -> Coverage:
    """From the layout alone: `noisy` are the aggregates that are not public, `rows` the public number of rows."""
    layout = query.presentation
    numbers = {
        place: (output.aggregate or 0, output.order)
        for place, output in enumerate(layout.outputs)
        if output.key is None and (output.aggregate or 0) in noisy
    }
    kept = any(one.output in numbers for one in layout.having)
    limited = layout.limit is not None and (rows is None or layout.limit < rows)
    chosen = kept or (limited and any(place in numbers for place, _ in layout.order))
    return Coverage(True, rows, len({*numbers.values()})) if chosen else BY_ITSELF
