"""The mean of the values of ranks a to b, from how many rows each candidate has.

Proofs, and what is refused: trimmed_mean.md.

The number of rows is public and a neighbour replaces one of them: then the sum moves by no more than one value can.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from discreet.errors import InvalidInput, Unsupported
from discreet.estimation.noisy_totals import Linear
from discreet.formatting import format_number, format_upper
from discreet.measurements.candidate_grid import MAX_CANDIDATES, CandidateGrid
from discreet.measurements.contribution_bounds import ContributionBounds
from discreet.mechanisms.discrete_laplace import DiscreteLaplace
from discreet.mechanisms.entropy import Entropy
from discreet.mechanisms.exponential_mechanism import Selection
from discreet.mechanisms.noise import AddNoise
from discreet.numeric import format_exact
from discreet.query.predicates import TRUE
from discreet.query.query import Aggregate
from discreet.schema import Column
from discreet.schema.schema import Value

MEAN_OF_RANKS = "mean of ranks"
MAX_RANKED_ROWS = 2**40
"""So that a sum of positions fits 64 bits."""
MAX_STRAY_ERRORS = 3
"""A mean stands for one rank only where its ranks are within so many standard errors of a choice by rank."""
BETTER_RATIO = 0.97
GUESS_ERROR = 1 / math.sqrt(12)
"""The root mean square error of the middle of the domain, in its widths, where the truth may be anywhere in it."""
SURE_ERROR = 0.01
"""An error of a choice by rank, in steps of the column, below which it is nearly surely the value itself."""
RANK_COUNT_FACTOR = 1.03
"""From one number of ranks that is tried to the next: between two of them the error hardly changes."""


@dataclass(frozen=True, slots=True)
class Ranks:
    """Ranks first to last of a column's values, from the lowest; what is summed are positions of candidates."""

    candidates: CandidateGrid
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
    def sensitivity(self) -> int:
        """How far one row that is replaced can move the sum."""
        return max(self.candidates.count - 1, 1)

    def sum_positions(self, counts: NDArray[np.int64]) -> int:
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


def build_trimmed_ranks(aggregate: Aggregate, column: Column, bounds: ContributionBounds) -> Ranks:
    """All ranks but the lowest and the highest share of them, rounded down."""
    rows = bounds.get_public_rows(column)
    if rows is None:
        raise Unsupported(_explain_secret_rows(column, bounds))
    if rows > MAX_RANKED_ROWS:
        raise Unsupported(f"TRIMMED_MEAN is offered for at most {MAX_RANKED_ROWS:,} rows; ask for AVG instead")
    (share,) = aggregate.orders
    trimmed_count = math.floor(share * rows)
    return Ranks(CandidateGrid.of(column, MAX_CANDIDATES), trimmed_count + 1, rows - trimmed_count)


def _explain_secret_rows(column: Column, bounds: ContributionBounds) -> str:
    """Why it is not public how many values there are to rank, and what to do: the first reason there is."""
    instead = "or ask for AVG or MEDIAN"
    if not bounds.is_replace_one:
        secret = f"and with {bounds.schema.neighbors} neighbours that is secret"
        return f"TRIMMED_MEAN needs a public number of rows, {secret}; declare replace-one and units, {instead}"
    if bounds.rows_per_unit > 1:
        rows = bounds.rows_per_unit
        return f"TRIMMED_MEAN is of one row per unit, and here a unit may have {rows}; ask for AVG or MEDIAN"
    if bounds.where != TRUE:
        return f"TRIMMED_MEAN is of all rows, since how many a filter leaves is secret; leave out WHERE, {instead}"
    if bounds.is_grouped:
        return f"TRIMMED_MEAN is of all rows, since how many a group has is secret; leave out GROUP BY, {instead}"
    advice = f"say in the schema what a missing value stands for (missing: {format_exact(column.lower * column.step)})"
    return f"{column.name} may be missing, and ranks are of a public number of rows with a value; {advice}, {instead}"


def check_better_than_guess(ranks: Ranks, error: float) -> None:
    """A mean that is farther off than a guess is not sold."""
    column = ranks.candidates.column
    if error > GUESS_ERROR * float(column.size * column.step):
        problem = f"the {ranks.name} of {column.name} would have an expected error of about {format_number(error)}"
        advice = "take a smaller share or a larger epsilon, or ask for MEDIAN, which may be better"
        raise InvalidInput(f"{problem}, more than a guess within the bounds; {advice}")


@dataclass(frozen=True, slots=True)
class RankMean:
    """The value of one rank, the target, estimated by the mean of the ranks round it."""

    ranks: Ranks
    target_rank: int
    rows: int
    noise: DiscreteLaplace

    @staticmethod
    def of(ranks: Ranks, target_rank: int, rows: int, epsilon: Fraction) -> RankMean:
        """With the noise that makes the whole sum epsilon-DP."""
        return RankMean(ranks, target_rank, rows, DiscreteLaplace(epsilon, ranks.sensitivity))

    @property
    def name(self) -> str:
        """What people call it."""
        return f"{self.ranks.name} by discrete Laplace"

    def answer_counts(self, counts: NDArray[np.int64], entropy: Entropy | None = None) -> int:
        """The noisy sum of the positions."""
        mechanism = AddNoise(self.noise, self.ranks.sensitivity, "replace-one")
        return mechanism.answer_units(self.ranks.sum_positions(counts), entropy)

    def value(self, output: int) -> Value:
        """The mean that the sum stands for; of dates the nearest day."""
        mean, column = self.ranks.estimate.value((output,)), self.ranks.candidates.column
        return column.decode(math.floor(mean + Fraction(1, 2))) if column.kind == "date" else mean

    def half_width(self, confidence: float) -> float:
        """How far the answer is from the mean of the ranks with this probability."""
        estimate = self.ranks.estimate
        return self.noise.interval(confidence)[1] * float(estimate.slope) + float(estimate.rounding_error)

    def expected_error(self) -> float:
        """The root mean square error for the rank wanted, if the rows are spread evenly over the domain."""
        estimate, column = self.ranks.estimate, self.ranks.candidates.column
        noise = math.sqrt(self.noise.variance()) * float(estimate.slope)
        spread = compute_spread_error(self.ranks.first, self.ranks.last, self.target_rank, self.rows)
        rounding = float(estimate.rounding_error) / math.sqrt(3)
        return math.hypot(noise, spread * float(column.size * column.step), rounding)

    def describe_accuracy(self, likely: str, confidence: float) -> str:
        """What may be said of its accuracy without looking."""
        days = " days" if self.ranks.candidates.column.kind == "date" else ""
        statement = f"within {format_upper(self.half_width(confidence))}{days} of the {self.ranks.name} {likely}"
        return f"{statement}; how far that mean is from the value of rank {self.target_rank} depends on the rows"

    def is_better(self, selection: Selection, scores_per_row: int) -> bool:
        """Whether it is clearly nearer than a choice by rank, and from ranks that such a choice might well have hit."""
        column, rank_error = self.ranks.candidates.column, self.bound_rank_error(selection, scores_per_row)
        strays = rank_error / float(column.size * column.step) * self.rows
        farthest = max(self.target_rank - self.ranks.first, self.ranks.last - self.target_rank)
        return self.expected_error() < BETTER_RATIO * rank_error and farthest <= MAX_STRAY_ERRORS * strays

    def bound_rank_error(self, selection: Selection, scores_per_row: int) -> float:
        """At most the expected error of a choice by rank, on the same even rows."""
        return compute_rank_error(self.ranks.candidates, self.target_rank, self.rows, selection, scores_per_row)

    def explain_rejection(self, selection: Selection, scores_per_row: int) -> str:
        """Why a choice by rank was taken instead: both errors, on the same even rows."""
        mean_error, rank_error = self.expected_error(), self.bound_rank_error(selection, scores_per_row)
        is_sure = rank_error < SURE_ERROR * float(self.ranks.candidates.column.step)
        error_words = "nearly 0" if is_sure else f"at most {format_upper(rank_error)}"
        both = f"if the rows are spread evenly its expected error is {error_words}, and that of the {self.name}"
        if mean_error < BETTER_RATIO * rank_error:
            objection = f"but its ranks reach too far from rank {self.target_rank} to stand for it on other rows"
            return f"{both} is about {format_number(mean_error)}, {objection}"
        return f"{both} is not clearly less: about {format_number(mean_error)}"


def select_rank_mean(
    aggregate: Aggregate, candidates: CandidateGrid, rows: int, epsilon: Fraction, mechanism: str
) -> RankMean:
    """The mean with the least expected error; or the one of a stored answer, whose name has its ranks."""
    target_rank = find_target_rank(aggregate, rows)
    if mechanism.startswith(MEAN_OF_RANKS):
        first, _, last = mechanism.removeprefix(MEAN_OF_RANKS).split()[0].partition("..")
        return RankMean.of(Ranks(candidates, int(first), int(last)), target_rank, rows, epsilon)
    counts = [1]  # each a little more than the one before; the last is of all ranks
    while counts[-1] < rows:
        counts.append(min(max(counts[-1] + 1, int(counts[-1] * RANK_COUNT_FACTOR)), rows))
    windows = (compute_rank_window(count, target_rank, rows) for count in counts)
    means = (RankMean.of(Ranks(candidates, *ends), target_rank, rows, epsilon) for ends in windows)
    return min(means, key=lambda mean: mean.expected_error())


def find_target_rank(aggregate: Aggregate, rows: int) -> int:
    """The rank of the least of the values that are a quantile; of an extreme the first or the last."""
    if aggregate.function == "quantile":
        return max(1, math.ceil(aggregate.orders[0] * rows))
    if aggregate.function == "second_max":
        return max(1, rows - 1)
    return 1 if aggregate.function == "min" else rows


def compute_rank_window(count: int, target_rank: int, rows: int) -> tuple[int, int]:
    """The first and last of so many ranks round the one wanted, as near to it as the ends allow."""
    first = min(max(target_rank - (count - 1) // 2, 1), rows - count + 1)
    return first, first + count - 1


def compute_spread_error(first: int, last: int, target_rank: int, rows: int) -> float:
    """How far the mean of ranks is from one of them, as a share of the domain, for rows spread evenly at random.

    Exact: the gaps between neighbouring ranks are exchangeable, and E[(sum c_j gap_j)^2] is known (trimmed_mean.md).
    """
    count, above, below = last - first + 1, last - target_rank, target_rank - first
    squares = sum(side * (side + 1) * (2 * side + 1) for side in (above, below)) / 6
    total = (above * (above + 1) - below * (below + 1)) / 2
    return math.sqrt((squares + total**2) / (rows + 1) / (rows + 2)) / count


def compute_rank_error(
    candidates: CandidateGrid, target_rank: int, rows: int, selection: Selection, scores_per_row: int
) -> float:
    """At most the root mean square error of a choice by rank, if the rows are spread evenly over the domain."""
    # That of the exponential mechanism, which permute-and-flip is never worse than.
    rows_each = rows / candidates.count
    offsets = np.abs(np.arange(candidates.count) - int((target_rank - 0.5) / rows_each))
    weights = np.exp(-selection.rate * scores_per_row / float(selection.step) * rows_each * offsets)
    error = math.sqrt(float(weights @ offsets**2) / float(weights.sum()))
    return error * candidates.width * float(candidates.column.step)
