"""Quantiles, extremes and modes: a choice among public candidates, by counts. Proofs: chosen.md."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal, cast

import numpy as np
from numpy.typing import NDArray

from discreet.distance import Distance
from discreet.errors import InvalidInput, Unsupported
from discreet.exact import shown
from discreet.kernel.exponential import Exponential
from discreet.kernel.extreme import Extreme
from discreet.kernel.permute_and_flip import PermuteAndFlip
from discreet.kernel.quantile import Quantile, Quantiles
from discreet.kernel.refinement import Refinement
from discreet.kernel.scores import Selection
from discreet.planner.facts import Facts
from discreet.prior import Grid, Prior
from discreet.query.query import Aggregate
from discreet.query.totals import Bins
from discreet.schema import Column
from discreet.schema.column import Value

MOST_CANDIDATES = 2**16
"""Enough that a candidate's width is not what limits the answer, few enough to count in one scan."""
MOST_COUNTS = 2**22
FEWEST = 256
"""Over many cells the candidates are fewer, so that all counts together stay within memory."""
PLACES: dict[str, tuple[int, Literal["top", "bottom"]]] = {"max": (1, "top"), "second_max": (2, "top")}
PLACES |= {"min": (1, "bottom")}
Counts = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Candidates:
    """Equal bins of a column's codes from its lowest; each stands for the code in its middle."""

    column: Column
    width: int
    count: int

    @staticmethod
    def of(column: Column, most: int = MOST_CANDIDATES) -> Candidates:
        """Every code, or as many equal bins as are allowed."""
        width = -(-column.size // most)
        return Candidates(column, width, -(-column.size // width))

    @property
    def bins(self) -> Bins:
        """How a source counts them."""
        return Bins(self.column.name, self.column.lower, self.width)

    def value(self, position: int) -> Value:
        """What a position stands for."""
        middle = self.column.lower + position * self.width + (self.width - 1) // 2
        return self.column.value(min(middle, self.column.upper))

    @property
    def told_width(self) -> str:
        """The width of a bin as people read it."""
        return f"{self.width} days" if self.column.kind == "date" else shown(self.width * self.column.step)

    def prior(self, prior: str | Prior) -> Prior:
        """The analyst's prior as one over positions; numbers and dates by place, the rest by category."""
        if self.column.categories:
            return self._named(prior)
        if self.column.kind == "date":
            raise Unsupported("a prior over dates is not offered yet; ask without one")
        low, step = self.column.lower * self.column.step, self.width * self.column.step
        high = low + (self.count - 1) * step
        given = Prior.parse(prior, low, high, step) if isinstance(prior, str) else prior
        if given.grid is None:
            raise InvalidInput(f"{self.column.name} is a number; its prior must be over numbers")
        return _placed(given, low, step, self.count)

    def _named(self, prior: str | Prior) -> Prior:
        known = {str(self.column.value(code)): code for code in range(self.column.size)}
        if isinstance(prior, str) or prior.grid is not None:
            raise InvalidInput(f"the prior of {self.column.name} gives weights to its categories, with Prior.weights")
        if any(str(value) not in known for value in prior.support):
            raise InvalidInput(f"the prior of {self.column.name} names a value that it does not have")
        order = np.argsort([known[str(value)] for value in prior.support])
        places = np.array(sorted(known[str(value)] for value in prior.support), dtype=np.int64)
        return Prior(prior.mass[order], places, Grid(Fraction(0), Fraction(1)), None)


def _placed(prior: Prior, low: Fraction, step: Fraction, count: int) -> Prior:
    """The weights of values moved to the positions they fall on; what falls outside is left out."""
    if prior.grid is None:
        raise InvalidInput("the prior must be over numbers")
    origin, stride = (prior.grid.origin - low) / step, prior.grid.step / step
    common = math.lcm(origin.denominator, stride.denominator)
    first, each = int(origin * common), int(stride * common)
    if max(abs(first), each * (int(prior.index[-1]) + 1), common) >= 2**62:
        raise InvalidInput("the prior's grid is too fine for the column's; give it the column's step")
    places = (first + each * prior.index) // common
    inside = (places >= 0) & (places < count)
    if not inside.any():
        raise InvalidInput("the prior lies outside the column's bounds; no value is left to choose from")
    own, where = np.unique(places[inside], return_inverse=True)
    mass = np.zeros(len(own), dtype=np.int64)
    np.add.at(mass, where, prior.mass[inside])
    return Prior(mass, own, Grid(Fraction(0), Fraction(1)), None)


@dataclass(frozen=True, slots=True)
class Mode:
    """The most frequent candidate: permute-and-flip on counts, or the exponential mechanism with a prior."""

    selection: Selection
    count: int
    prior: Prior | None

    def answer_counts(self, counts: Counts) -> int:
        """The position of one candidate."""
        if self.prior is None:
            return _position(PermuteAndFlip(self.selection).answer(counts))
        return _position(Exponential(self.selection, self.prior).answer(counts[self.prior.index]))

    def score_bound(self, confidence: float) -> float:
        """How many rows fewer than the most frequent one the chosen value may have."""
        share = 1 / self.count if self.prior is None else int(self.prior.mass.min()) / self.prior.total
        return self.selection.bound(confidence, share)


@dataclass(frozen=True, eq=False, slots=True)
class Refined:
    """An extreme refined from the analyst's prior: independent of sensitivity."""

    refinement: Refinement
    place: int
    end: Literal["top", "bottom"]

    def truth(self, counts: Counts) -> int | None:
        """The position of the extreme itself; None where there are too few rows. Secret."""
        reached = np.cumsum(counts[::-1])[::-1] if self.end == "top" else np.cumsum(counts)
        there = np.flatnonzero(reached >= self.place)
        if not len(there):
            return None
        return int(there[-1] if self.end == "top" else there[0])

    def answer_counts(self, counts: Counts) -> int:
        """The position of one draw."""
        return _position(self.refinement.answer(self.truth(counts)))


Choice = Quantile | Quantiles | Extreme | Mode | Refined


@dataclass(frozen=True, eq=False, slots=True)
class Chosen:
    """A choice among candidates, from how many rows each has."""

    candidates: Candidates
    choice: Choice
    name: str

    @property
    def uses_prior(self) -> bool:
        """Whether the mechanism itself used the prior, so that the answer is shaped by it."""
        match self.choice:
            case Quantile() | Quantiles():
                return self.choice.candidates.prior is not None
            case Mode():
                return self.choice.prior is not None
            case Refined():
                return True
        return False

    def release(self, counts: Counts) -> tuple[int, ...]:
        """Positions, one for each order that was asked."""
        drawn = self.choice.answer_counts(counts)
        return tuple(int(one) for one in drawn) if isinstance(drawn, list) else (int(drawn),)

    def values(self, released: Sequence[int]) -> tuple[Value, ...]:
        """What the positions stand for."""
        return tuple(self.candidates.value(position) for position in released)

    def words(self, confidence: float) -> str:
        """What may be said of its accuracy without looking."""
        likely = f"with a probability of {confidence:.0%}"
        what = "it" if self.candidates.width == 1 else f"a value of its bin, {self.candidates.told_width} wide,"
        match self.choice:
            case Quantile():
                off = self.choice.rank_bound(confidence)
                if self.uses_prior:
                    return (
                        f"{what} has a rank less than {off:,.0f} rows farther off than your prior's best value {likely}"
                    )
                return f"{what} has a rank that is off by less than {off:,.0f} rows {likely}"
            case Extreme():
                aimed, off = self.choice.rank, self.choice.rank_bound(confidence)
                return f"about {aimed:,} rows reach {what.rstrip(',')}: off by less than {off:,.0f} rows {likely}"
            case Mode():
                off = self.choice.score_bound(confidence)
                if self.uses_prior:
                    return f"it has fewer rows than your prior's most frequent value by less than {off:,.0f} {likely}"
                return f"it has fewer rows than the most frequent value by less than {off:,.0f} {likely}"
            case Refined():
                return "a draw shaped by your prior"
        return "how far it is off in values depends on the rows and is not told"


def chosen(aggregate: Aggregate, column: Column, facts: Facts, epsilon: Fraction, prior: str | Prior | None) -> Chosen:
    """The plain choice of mechanism for a quantile, an extreme or a mode."""
    candidates = Candidates.of(column, max(FEWEST, min(MOST_CANDIDATES, MOST_COUNTS // (facts.cells or 1))))
    own = None if prior is None else candidates.prior(prior)
    # Side by side, every row that comes to a cell or goes from one pays its own share (chosen.md).
    share, rows = (epsilon / facts.reach, 1) if facts.grouped else (epsilon, facts.rows)
    neighbours = "add-remove" if facts.grouped else facts.schema.neighbours
    match aggregate.function:
        case "quantile":
            return _quantile(aggregate, candidates, share, neighbours, rows, own)
        case "mode":
            return _mode(candidates, share, neighbours, rows, own)
        case "max" | "second_max" | "min":
            if own is None:
                return Chosen(candidates, _extreme(aggregate, candidates, share, rows), "extreme by rank")
            return _refined(aggregate, candidates, share, neighbours, own)
    raise InvalidInput(f"{aggregate.function} is not a choice among values")


def _position(drawn: object) -> int:
    """What was drawn, as the position it is."""
    return int(cast(int, drawn))


def _quantile(
    aggregate: Aggregate, candidates: Candidates, epsilon: Fraction, neighbours: str, rows: int, prior: Prior | None
) -> Chosen:
    name = "permute-and-flip on ranks" if prior is None else "exponential mechanism on ranks"
    ends = (0, candidates.count - 1, epsilon, 1, neighbours, prior, rows)
    if len(aggregate.orders) == 1:
        return Chosen(candidates, Quantile.of(aggregate.orders[0], *ends), name)
    return Chosen(candidates, Quantiles.of(aggregate.orders, *ends), name)


def _extreme(aggregate: Aggregate, candidates: Candidates, epsilon: Fraction, rows: int) -> Extreme:
    place, end = PLACES[aggregate.function]
    return Extreme.of(place, candidates.count, epsilon, rows, end)


def _refined(aggregate: Aggregate, candidates: Candidates, epsilon: Fraction, neighbours: str, prior: Prior) -> Chosen:
    place, end = PLACES[aggregate.function]
    refinement = Refinement.of(prior, epsilon, "statistic", neighbours, Distance.continuous())
    return Chosen(candidates, Refined(refinement, place, end), "refinement of your prior")


def _mode(candidates: Candidates, epsilon: Fraction, neighbours: str, rows: int, prior: Prior | None) -> Chosen:
    if candidates.width > 1:
        raise Unsupported(f"MODE is of at most {MOST_CANDIDATES:,} values; ask for a histogram with BIN instead")
    # Rows that come only raise counts, so no two counts move apart by more than r.
    apart = rows if neighbours == "add-remove" else 2 * rows
    selection = Selection.of(epsilon, rows, apart)
    name = "permute-and-flip on counts" if prior is None else "exponential mechanism on counts"
    return Chosen(candidates, Mode(selection, candidates.count, prior), name)
