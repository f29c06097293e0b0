"""The mean of the values of ranks a to b, from how many rows each candidate has. Proofs, and what is refused: ranks.md.

The number of rows is public and a neighbour replaces one of them: then the sum moves by no more than one value can.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from discreet.errors import InvalidInput, Unsupported
from discreet.exact import shown
from discreet.formatting import format_number, format_upper
from discreet.kernel.discrete_laplace import DiscreteLaplace
from discreet.kernel.noise import AddNoise
from discreet.kernel.scores import Selection
from discreet.planner.estimates import Linear
from discreet.planner.facts import Facts
from discreet.planner.positions import MOST_CANDIDATES, Candidates
from discreet.query.predicate import TRUE
from discreet.query.query import Aggregate
from discreet.schema import Column
from discreet.schema.column import Value

MEAN_OF_RANKS = "mean of ranks"
MOST_ROWS = 2**40
"""So that a sum of positions fits 64 bits."""
STRAYS = 3
"""A mean stands for one rank only where its ranks are within so many standard errors of a choice by rank."""
BETTER = 0.97
GUESS = 1 / math.sqrt(12)
"""The root mean square error of the middle of the domain, in its widths, where the truth may be anywhere in it."""
SURE = 0.01
"""An error of a choice by rank, in steps of the column, below which it is nearly surely the value itself."""
FINER = 1.03
"""Of the numbers of ranks that are tried, each to the one before: between two of them the error hardly changes."""


@dataclass(frozen=True, slots=True)
class Ranks:
    """Ranks first to last of a column's values, from the lowest; what is summed are positions of candidates."""

    candidates: Candidates
    first: int
    last: int

    @property
    def count(self) -> int:
        """How many ranks there are."""
        return self.last - self.first + 1

    @property
    def name(self) -> str:
        """What is measured."""
        return f"{MEAN_OF_RANKS} {self.first}..{self.last}"

    @property
    def width(self) -> int:
        """How far one row that is replaced can move the sum."""
        return max(self.candidates.count - 1, 1)

    def total(self, counts: NDArray[np.int64]) -> int:
        """The sum of the positions; rows that are not there count as the last position. Secret.

        Each rank adds one for every position below its own: of the ranks, those beyond the rows up to there.
        """
        up_to = np.clip(np.cumsum(counts)[:-1], self.first - 1, self.last)
        return int((self.last - up_to).sum())

    @property
    def estimate(self) -> Linear:
        """From the sum to the mean of the values in the middle of the bins, within the column's bounds."""
        column, width = self.candidates.column, self.candidates.width
        offset = (column.lower + Fraction(width - 1, 2)) * column.step
        blur = Fraction(width, 2) * column.step if width > 1 else Fraction(0)
        ends = column.lower * column.step, column.upper * column.step
        return Linear(width * column.step / self.count, offset, ends, blur)


def trimmed(aggregate: Aggregate, column: Column, facts: Facts) -> Ranks:
    """All ranks but the lowest and the highest share of them, rounded down."""
    rows = facts.known_rows(column)
    if rows is None:
        raise Unsupported(_secret(column, facts))
    if rows > MOST_ROWS:
        raise Unsupported(f"TRIMMED_MEAN is offered for at most {MOST_ROWS:,} rows; ask for AVG instead")
    (share,) = aggregate.orders
    cut = math.floor(share * rows)
    return Ranks(Candidates.of(column, MOST_CANDIDATES), cut + 1, rows - cut)


def _secret(column: Column, facts: Facts) -> str:
    """Why it is not public how many values there are to rank, and what to do: the first reason there is."""
    instead = "or ask for AVG or MEDIAN"
    if not facts.replaces:
        secret = f"and with {facts.schema.neighbours} neighbours that is secret"
        return f"TRIMMED_MEAN needs a public number of rows, {secret}; declare replace-one and units, {instead}"
    if facts.rows > 1:
        return f"TRIMMED_MEAN is of one row per unit, and here a unit may have {facts.rows}; ask for AVG or MEDIAN"
    if facts.where != TRUE:
        return f"TRIMMED_MEAN is of all rows, since how many a filter leaves is secret; leave out WHERE, {instead}"
    if facts.grouped:
        return f"TRIMMED_MEAN is of all rows, since how many a group has is secret; leave out GROUP BY, {instead}"
    stands = f"say in the schema what a missing value stands for (missing: {shown(column.lower * column.step)})"
    return f"{column.name} may be missing, and ranks are of a public number of rows with a value; {stands}, {instead}"


def refuse_guess(ranks: Ranks, error: float) -> None:
    """A mean that is farther off than a guess is not sold."""
    column = ranks.candidates.column
    if error > GUESS * float(column.size * column.step):
        raise InvalidInput(
            f"the {ranks.name} of {column.name} would have an expected error of about {format_number(error)}, more "
            "than a guess within the bounds; take a smaller share or a larger epsilon, or ask for MEDIAN, which may be "
            "better"
        )


@dataclass(frozen=True, slots=True)
class RankMean:
    """The value of one rank, the one wanted, told by the mean of the ranks round it."""

    ranks: Ranks
    wanted: int
    rows: int
    noise: DiscreteLaplace

    @staticmethod
    def of(ranks: Ranks, wanted: int, rows: int, epsilon: Fraction) -> RankMean:
        """With the noise that makes the whole sum epsilon-DP."""
        return RankMean(ranks, wanted, rows, DiscreteLaplace(epsilon, ranks.width))

    @property
    def name(self) -> str:
        """What people call it."""
        return f"{self.ranks.name} by discrete Laplace"

    def answer_counts(self, counts: NDArray[np.int64]) -> int:
        """The noisy sum of the positions."""
        return AddNoise(self.noise, self.ranks.width, "replace-one").answer_units(self.ranks.total(counts))

    def value(self, released: int) -> Value:
        """The mean that the sum stands for; of dates the nearest day."""
        mean, column = self.ranks.estimate.value((released,)), self.ranks.candidates.column
        return column.value(math.floor(mean + Fraction(1, 2))) if column.kind == "date" else mean

    def reach(self, confidence: float) -> float:
        """How far the answer is from the mean of the ranks with this probability."""
        estimate = self.ranks.estimate
        return self.noise.interval(confidence)[1] * float(estimate.slope) + float(estimate.blur)

    def expected_error(self) -> float:
        """The root mean square error for the rank wanted, if the rows are spread evenly over the domain."""
        estimate, column = self.ranks.estimate, self.ranks.candidates.column
        noise = math.sqrt(self.noise.variance()) * float(estimate.slope)
        spread = spread_apart(self.ranks.first, self.ranks.last, self.wanted, self.rows)
        return math.hypot(noise, spread * float(column.size * column.step), float(estimate.blur) / math.sqrt(3))

    def words(self, likely: str, confidence: float) -> str:
        """What may be said of its accuracy without looking."""
        days = " days" if self.ranks.candidates.column.kind == "date" else ""
        return (
            f"within {format_upper(self.reach(confidence))}{days} of the {self.ranks.name} {likely}; how far that mean "
            f"is from the value of rank {self.wanted} depends on the rows"
        )

    def better(self, selection: Selection, scores_per_row: int) -> bool:
        """Whether it is clearly nearer than a choice by rank, and from ranks that such a choice might well have hit."""
        candidates, other = self.ranks.candidates, self.error_by_rank(selection, scores_per_row)
        strays = other / float(candidates.column.size * candidates.column.step) * self.rows
        farthest = max(self.wanted - self.ranks.first, self.ranks.last - self.wanted)
        return self.expected_error() < BETTER * other and farthest <= STRAYS * strays

    def error_by_rank(self, selection: Selection, scores_per_row: int) -> float:
        """At most the expected error of a choice by rank, on the same even rows."""
        return rank_error(self.ranks.candidates, self.wanted, self.rows, selection, scores_per_row)

    def why_not(self, selection: Selection, scores_per_row: int) -> str:
        """Why a choice by rank was taken instead: both errors, on the same even rows."""
        own, other = self.expected_error(), self.error_by_rank(selection, scores_per_row)
        sure = other < SURE * float(self.ranks.candidates.column.step)
        told = "nearly 0" if sure else f"at most {format_upper(other)}"
        both = f"if the rows are spread evenly its expected error is {told}, and that of the {self.name}"
        if own < BETTER * other:
            far = f"but its ranks reach too far from rank {self.wanted} to stand for it on other rows"
            return f"{both} is about {format_number(own)}, {far}"
        return f"{both} is not clearly less: about {format_number(own)}"


def mean_round(aggregate: Aggregate, candidates: Candidates, rows: int, epsilon: Fraction, like: str) -> RankMean:
    """The mean with the least expected error; or the one by which a stored answer was drawn."""
    wanted = rank_wanted(aggregate, rows)
    if like.startswith(MEAN_OF_RANKS):
        first, _, last = like.removeprefix(MEAN_OF_RANKS).split()[0].partition("..")
        return RankMean.of(Ranks(candidates, int(first), int(last)), wanted, rows, epsilon)
    windows = (window(count, wanted, rows) for count in _counts(rows))
    found = (RankMean.of(Ranks(candidates, *ends), wanted, rows, epsilon) for ends in windows)
    return min(found, key=lambda one: one.expected_error())


def rank_wanted(aggregate: Aggregate, rows: int) -> int:
    """The rank of the least of the values that are a quantile; of an extreme the first or the last."""
    if aggregate.function == "quantile":
        return max(1, math.ceil(aggregate.orders[0] * rows))
    if aggregate.function == "second_max":
        return max(1, rows - 1)
    return 1 if aggregate.function == "min" else rows


def window(count: int, wanted: int, rows: int) -> tuple[int, int]:
    """The first and last of so many ranks round the one wanted, as near to it as the ends allow."""
    first = min(max(wanted - (count - 1) // 2, 1), rows - count + 1)
    return first, first + count - 1


def _counts(rows: int) -> list[int]:
    """Numbers of ranks, each a little more than the one before; the last is of all."""
    found = [1]
    while found[-1] < rows:
        found.append(min(max(found[-1] + 1, int(found[-1] * FINER)), rows))
    return found


def spread_apart(first: int, last: int, wanted: int, rows: int) -> float:
    """How far the mean of ranks is from one of them, as a share of the domain, for rows spread evenly at random.

    Exact: the gaps between neighbouring ranks are exchangeable, and E[(sum c_j gap_j)^2] is known (ranks.md).
    """
    count, above, below = last - first + 1, last - wanted, wanted - first
    squares = sum(side * (side + 1) * (2 * side + 1) for side in (above, below)) / 6
    total = (above * (above + 1) - below * (below + 1)) / 2
    return math.sqrt((squares + total**2) / (rows + 1) / (rows + 2)) / count


def rank_error(candidates: Candidates, wanted: int, rows: int, selection: Selection, scores_per_row: int) -> float:
    """At most the root mean square error of a choice by rank, if the rows are spread evenly over the domain.

    That of the exponential mechanism, which permute-and-flip is never worse than.
    """
    rows_each = rows / candidates.count
    off = np.abs(np.arange(candidates.count) - int((wanted - 0.5) / rows_each))
    weights = np.exp(-selection.loss * scores_per_row / float(selection.step) * rows_each * off)
    error = math.sqrt(float(weights @ off**2) / float(weights.sum()))
    return error * candidates.width * float(candidates.column.step)
