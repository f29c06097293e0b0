"""What a source is asked for: exact whole-number totals of the snapshot. A small closed plan; nothing else can be said.

Every total is a plain sum over rows, so that what one unit can change is known from the plan alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

from discreet.errors import InvalidInput
from discreet.query.predicate import TRUE, Predicate

MOST_CUTS = 255

Cell = tuple[int | str | None, ...]
Amounts = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Bins:
    """A key of whole numbers: (code - lower) // width; None where the value is missing."""

    column: str
    lower: int
    width: int = 1


@dataclass(frozen=True, slots=True)
class Cuts:
    """A key of whole numbers from 0 on: how many of the cuts are at or below the code; None where it is missing."""

    column: str
    cuts: tuple[int, ...]

    def __post_init__(self) -> None:
        """The cuts rise, and are so few that an engine tells them apart quickly."""
        if any(low >= high for low, high in pairwise(self.cuts)) or len(self.cuts) > MOST_CUTS:
            raise InvalidInput(f"the cuts of {self.column[:40]!r} are at most {MOST_CUTS} whole numbers that rise")


@dataclass(frozen=True, slots=True)
class Texts:
    """A key of texts, of a column with private keys; None where the value is missing."""

    column: str


Key = Bins | Cuts | Texts


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
    keys: tuple[Key, ...] = ()
    where: Predicate = TRUE


@dataclass(frozen=True, slots=True)
class Histogram:
    """For each cell, how many rows have a value in each of `count` bins; rows without a value are left out."""

    bins: Bins
    count: int
    keys: tuple[Key, ...] = ()
    where: Predicate = TRUE
