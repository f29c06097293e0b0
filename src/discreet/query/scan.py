"""What a source is asked for: exact totals, histograms, and releases made inside the database.

Every total is a plain sum over rows, so that what one unit can change is known from the plan alone.

Rows are ranked by a column's codes, missing values last, ties by the unit and then by all other codes; what is left
are rows alike in everything. Groups and buckets are runs of ranks. Inside a group, and inside a bucket, rows are in the
order of SHA-256 over the release's key, a word that says what the order is for, the row, and which of the rows like
it this is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from discreet.errors import InvalidInput
from discreet.query.predicates import TRUE, Predicate

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


MISSING_CODE = -(2**62)
"""Stands for a missing code in an array."""


@dataclass(frozen=True, slots=True)
class RankRuns:
    """Ranks 0 to rows - 1 in runs of k: `low` of them from the low end, `high` from the high end, and one between.

    Labels count the runs by rank. Algorithm 7.1 of the thesis takes from both ends in turn: its groups are such runs.
    """

    rows: int
    k: int
    low: int
    high: int

    @staticmethod
    def both_ends(rows: int, k: int) -> RankRuns:
        """Algorithm 7.1: k from both ends while 3k or more are left, then k of the low end while 2k are; the rest."""
        rounds = max(0, (rows - k) // (2 * k))
        left = rows - 2 * k * rounds
        return RankRuns(rows, k, rounds + (1 if left >= 2 * k else 0), rounds)

    @staticmethod
    def low_end(rows: int, k: int) -> RankRuns:
        """Runs of k from the low end; the last has k to 2k - 1."""
        return RankRuns(rows, k, max(0, rows // k - 1), 0)

    def compute_labels(self, rank: NDArray[np.int64]) -> NDArray[np.int64]:
        """The run of each rank."""
        top = self.rows - self.high * self.k
        above = self.low + 1 + (rank - top) // self.k
        label: NDArray[np.int64] = np.where(rank < self.low * self.k, rank // self.k, self.low)
        return np.where(rank >= top, above, label)


@dataclass(frozen=True, slots=True)
class SwapPlan:
    """IR-SWAP: every column on its own, its values permuted inside its runs."""

    runs: tuple[tuple[str, RankRuns], ...]


@dataclass(frozen=True, slots=True)
class AnatomyPlan:
    """Groups by one column (Algorithm 7.1), which every row is labelled with."""

    column: str
    runs: RankRuns


@dataclass(frozen=True, slots=True)
class DealRule:
    """The rows of `bucket` at places `first` to before `last` go in turn to `groups` groups from `label` on.

    The first of them goes to the group `turn` after the one labelled `label`.
    """

    bucket: int
    first: int
    last: int
    label: int
    groups: int
    turn: int


def assign_groups(deals: Sequence[DealRule], bucket: NDArray[np.int64], place: NDArray[np.int64]) -> NDArray[np.int64]:
    """The group of every row, by its bucket and its place in it."""
    group = np.full(len(bucket), -1, dtype=np.int64)
    for deal in deals:
        is_dealt = (bucket == deal.bucket) & (place >= deal.first) & (place < deal.last)
        group[is_dealt] = deal.label + (deal.turn + place[is_dealt] - deal.first) % deal.groups
    return group


@dataclass(frozen=True, slots=True)
class TClosenessPlan:
    """t-closeness: buckets between cuts in the ranks of one column, dealt to groups, permuted there if `hidden`."""

    column: str
    cuts: tuple[int, ...]
    """The ranks at which buckets 1, 2, ... start."""
    deals: tuple[DealRule, ...]
    hidden: bool


ReleasePlan = SwapPlan | AnatomyPlan | TClosenessPlan


@dataclass(frozen=True, slots=True, eq=False)
class ReleaseBatch:
    """Some rows: every column's codes, those that were changed (codes, or buckets), and the labels of groups.

    Codes are whole numbers, `MISSING_CODE` where there is none; of columns with private keys texts, or None.
    """

    original: Mapping[str, NDArray[np.generic]]
    changed: Mapping[str, NDArray[np.generic]]
    groups: Mapping[str, NDArray[np.int64]]
