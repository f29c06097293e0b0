"""What a source is asked for: exact whole-number totals of the snapshot. A small closed plan; nothing else can be said.

Every total is a plain sum over rows, so that what one unit can change is known from the plan alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from discreet.query.predicate import TRUE, Predicate

Cell = tuple[int | str | None, ...]
Amounts = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Bins:
    """A key of whole numbers: (code - lower) // width; None where the value is missing."""

    column: str
    lower: int
    width: int = 1


@dataclass(frozen=True, slots=True)
class Texts:
    """A key of texts, of a column with private keys; None where the value is missing."""

    column: str


@dataclass(frozen=True, slots=True)
class Measure:
    """One total of each cell.

    rows: the number of rows; units: the number of different units; present: the rows with a value of the column;
    sum: of (code - lower) over those; squares: of (code - lower)^2 over those. Only rows that satisfy `where`.
    """

    what: Literal["rows", "units", "present", "sum", "squares"]
    column: str = ""
    lower: int = 0
    where: Predicate = TRUE


@dataclass(frozen=True, slots=True)
class Totals:
    """The totals of each cell; cells without a row are left out."""

    measures: tuple[Measure, ...]
    keys: tuple[Bins | Texts, ...] = ()
    where: Predicate = TRUE


@dataclass(frozen=True, slots=True)
class Histogram:
    """For each cell, how many rows have a value in each of `count` bins; rows without a value are left out."""

    bins: Bins
    count: int
    keys: tuple[Bins | Texts, ...] = ()
    where: Predicate = TRUE
