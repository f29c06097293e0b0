"""What a source is asked for: exact whole-number totals of the snapshot. A small closed plan; nothing else can be said.

Every total is a plain sum over rows, so that what one unit can change is known from the plan alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

from discreet.errors import InvalidInput
from discreet.query.predicate import TRUE, Predicate

MAX_CUTS = 255

Cell = tuple[int | str | None, ...]
Amounts = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class BinKey:
    """A key of whole numbers: (code - lower) // width; None where the value is missing."""

    column: str
    lower: int
    width: int = 1


@dataclass(frozen=True, slots=True)
class CutKey:
    """A key of whole numbers from 0 on: how many of the cuts are at or below the code; None where it is missing."""

    column: str
    cuts: tuple[int, ...]

    def __post_init__(self) -> None:
        """The cuts rise, and are so few that an engine tells them apart quickly."""
        if any(low >= high for low, high in pairwise(self.cuts)) or len(self.cuts) > MAX_CUTS:
            raise InvalidInput(f"the cuts of {self.column[:40]!r} are at most {MAX_CUTS} whole numbers that rise")


@dataclass(frozen=True, slots=True)
class TextKey:
    """A key of texts, of a column with private keys; None where the value is missing."""

    column: str


ScanKey = BinKey | CutKey | TextKey


@dataclass(frozen=True, slots=True)
class ScanMeasure:
    """One total of each cell.

    rows: the number of rows; units: the number of different units; present: the rows with a value of the column;
    sum: of (code - lower) over those; squares: of (code - lower)^2 over those. Only rows that satisfy `where`.
    """

    what: Literal["rows", "units", "present", "sum", "squares"]
    column: str = ""
    lower: int = 0
    where: Predicate = TRUE


@dataclass(frozen=True, slots=True)
class TotalsScan:
    """The totals of each cell; cells without a row are left out."""

    measures: tuple[ScanMeasure, ...]
    keys: tuple[ScanKey, ...] = ()
    where: Predicate = TRUE


@dataclass(frozen=True, slots=True)
class HistogramScan:
    """For each cell, how many rows have a value in each of `count` bins; rows without a value are left out."""

    bins: BinKey
    count: int
    keys: tuple[ScanKey, ...] = ()
    where: Predicate = TRUE
