"""Quantiles, extremes and modes: a choice among public candidates, by counts. Proofs: chosen.md."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Literal, cast

import numpy as np
from numpy.typing import NDArray

from discreet.distance import Continuous, Distance, Nominal, Ordinal, Semantic
from discreet.errors import InvalidInput, Unsupported
from discreet.formatting import format_likely, format_whole_upper
from discreet.inference.belief import PriorUse
from discreet.kernel.bracket import Bracket
from discreet.kernel.exponential import Exponential
from discreet.kernel.extreme import Extreme
from discreet.kernel.permute_and_flip import PermuteAndFlip
from discreet.kernel.quantile import Quantile, Quantiles
from discreet.kernel.scores import Selection
from discreet.plain import is_exactly
from discreet.planner.facts import Facts
from discreet.planner.given import Placed, even, on_positions
from discreet.planner.positions import MOST_CANDIDATES, Candidates, Refined
from discreet.planner.ranks import MOST_ROWS, RankMean, mean_round, rank_error
from discreet.posterior import Posterior
from discreet.prior import Prior
from discreet.query.query import Aggregate
from discreet.schema import Column
from discreet.schema.column import Value

MOST_COUNTS = 2**22
FEWEST = 256
"""Over many cells the candidates are fewer, so that all counts together stay within memory."""
WORTHWHILE = 0.95
NO_HELP = "a draw from it would hardly tell more than it does, and a choice by rank uses all rows"
PLACES: dict[str, tuple[int, Literal["top", "bottom"]]] = {"max": (1, "top"), "second_max": (2, "top")}
PLACES |= {"min": (1, "bottom")}
Counts = NDArray[np.int64]


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
class RefinedStatistic:
    """A quantile, an extreme or a mode refined from a prior: independent of sensitivity."""

    aggregate: Aggregate
    refined: Refined
    even: bool

    def truth(self, counts: Counts) -> int | None:
        """The position of the statistic itself; None where there are too few rows. Secret."""
        if self.aggregate.function == "mode":
            return int(counts.argmax()) if counts.any() else None
        if self.aggregate.function == "quantile":
            q = self.aggregate.orders[0]
            place, end = max(1, -(-q.numerator * int(counts.sum()) // q.denominator)), "bottom"
        else:
            place, end = PLACES[self.aggregate.function]
        reached = np.cumsum(counts[::-1])[::-1] if end == "top" else np.cumsum(counts)
        there = np.flatnonzero(reached >= place)
        if not len(there):
            return None
        return int(there[-1] if end == "top" else there[0])

    def answer_counts(self, counts: Counts) -> int:
        """The position of one draw."""
        return self.refined.draw(self.truth(counts))


Choice = Quantile | Quantiles | Extreme | Mode | RefinedStatistic | RankMean


@dataclass(frozen=True, eq=False, slots=True)
class Chosen:
    """A choice among candidates, from how many rows each has; with `around`, an interval drawn about it."""

    candidates: Candidates
    choice: Choice
    name: str
    around: Bracket | None = None
    stated: Prior | None = None
    rival: Chosen | None = None
    """What was weighed beside it: for an extreme with a prior, and where a mean of ranks could stand for one rank."""
    use: PriorUse | None = None
    """How the analyst's prior was used; None where there is none, or the mechanism does not use it."""
    unused: str = ""
    """Why the analyst's prior was not used, where there is one that was not."""

    @property
    def uses_prior(self) -> bool:
        """Whether the mechanism itself used the analyst's prior, so that the answer is shaped by it."""
        if isinstance(self.choice, RefinedStatistic):
            return not self.choice.even
        return self._base is not None

    @property
    def distance_name(self) -> str | None:
        """The distance that shaped the answer, for its name in the store."""
        return self.choice.refined.distance_name if isinstance(self.choice, RefinedStatistic) else None

    @property
    def _base(self) -> Prior | None:
        """The prior over positions that a choice by score has as its base measure."""
        match self.choice:
            case Quantile() | Quantiles():
                return self.choice.candidates.prior
            case Mode():
                return self.choice.prior
        return None

    def release(self, counts: Counts) -> tuple[int, ...]:
        """Positions, one for each order that was asked; then the two ends of the interval, if there is one.

        Of a mean of ranks the noisy sum of their positions.
        """
        drawn = self.choice.answer_counts(counts)
        ends = () if self.around is None else self.around.answer_counts(counts)
        return (*(int(one) for one in (drawn if isinstance(drawn, list) else [drawn])), *ends)

    def values(self, released: Sequence[int]) -> tuple[Value, ...]:
        """What the positions of the orders, or the sum, stand for."""
        if isinstance(self.choice, RankMean):
            return (self.choice.value(released[0]),)
        asked = released if self.around is None else released[:1]
        return tuple(self.candidates.value(position) for position in asked)

    def bracket(self, released: Sequence[int]) -> tuple[Value, Value] | None:
        """The values that the quantile lies between, from end to end of their bins; never without the point itself."""
        if self.around is None:
            return None
        codes = [code for position in released for code in self.candidates.ends(position)]
        return self.candidates.column.value(min(codes)), self.candidates.column.value(max(codes))

    def expected_error(self) -> float | None:
        """The root mean square error of the refined value, the prior being right; None where it depends on the rows.

        Of a mean of ranks, for rows that are spread evenly.
        """
        if isinstance(self.choice, RankMean):
            return self.choice.expected_error()
        return self.choice.refined.expected_error() if isinstance(self.choice, RefinedStatistic) else None

    def error_on_even_rows(self, wanted: int, rows: int) -> float | None:
        """The expected error for the value of one rank, if so many rows are spread evenly; None where it is no rank."""
        if isinstance(self.choice, RankMean):
            return self.choice.expected_error()
        if not isinstance(self.choice, Quantile | Extreme):
            return None
        within = (self.candidates.width - 1) * float(self.candidates.column.step) / math.sqrt(12)
        return math.hypot(rank_error(self.candidates, wanted, rows, *_rule(self.choice)), within)

    def why_by_rank(self) -> str:
        """Why not the mean of ranks that was weighed beside a choice by rank; nothing where none was."""
        mean = None if self.rival is None else self.rival.choice
        if not isinstance(mean, RankMean) or not isinstance(self.choice, Quantile | Extreme):
            return ""
        return mean.why_not(*_rule(self.choice))

    def before(self) -> Posterior | None:
        """The prior in units of the answer, where there is one."""
        if isinstance(self.choice, RefinedStatistic):
            return self.choice.refined.before()
        own = self.stated or self._base
        return None if own is None else self.candidates.law(own.index, own.mass / own.total)

    def surprising(self, released: Sequence[int], tail: float) -> bool:
        """Whether a value chosen by score lies in the tails, so small on either side, of what was stated."""
        own = self.stated
        if own is None or isinstance(self.choice, RefinedStatistic) or self.candidates.column.categories:
            return False
        share = own.mass / own.total
        below, above = (float(share[side].sum()) for side in (own.index <= released[0], own.index >= released[0]))
        return min(below, above) < tail

    def posterior(self, released: Sequence[int]) -> Posterior | None:
        """What is known after a refinement's draw; None for the other choices, whose laws depend on all rows."""
        return self.choice.refined.posterior(released[0]) if isinstance(self.choice, RefinedStatistic) else None

    def words(self, confidence: float, likely: str = "") -> str:
        """What may be said of its accuracy without looking, and with which probability."""
        said = self._words(confidence, likely or format_likely(confidence))
        if self.around is None:
            return said
        if confidence > self.around.confidence:
            return f"{said}; the two values are not shown, since they are drawn for one group by itself"
        return f"{said}; it lies between the two values {likely or format_likely(self.around.confidence)}"

    def _words(self, confidence: float, likely: str) -> str:
        what = "it" if self.candidates.width == 1 else f"a value of its bin, {self.candidates.told_width} wide,"
        match self.choice:
            case Quantile():
                off = self.choice.rank_bound(confidence)
                if self.uses_prior:
                    return (
                        f"fewer than {format_whole_upper(off)} rows lie between {what} and the exact value {likely}; "
                        "where your prior holds that value impossible, the rows up to the nearest possible one come on "
                        "top"
                    )
                return f"{what} has a rank that is off by less than {format_whole_upper(off)} rows {likely}"
            case Extreme():
                off = self.choice.rank_bound(confidence)
                return (
                    f"{what} has a rank that is off by less than {format_whole_upper(off)} rows {likely}; "
                    "it may lie beyond all rows where the bounds do"
                )
            case Mode():
                off = self.choice.score_bound(confidence)
                if self.uses_prior:
                    most = "the most frequent value that your prior holds possible"
                    return f"it has fewer rows than {most} by less than {format_whole_upper(off)} {likely}"
                return f"it has fewer rows than the most frequent value by less than {format_whole_upper(off)} {likely}"
            case RefinedStatistic(even=even):
                return f"a draw shaped by {whose(even)} prior"
            case RankMean():
                return self.choice.words(likely, confidence)
        return "how far it is off in values depends on the rows and is not told"


def chosen(
    aggregate: Aggregate,
    column: Column,
    facts: Facts,
    epsilon: Fraction,
    prior: str | Prior | None,
    distance: Distance | str | None = None,
    interval: bool = False,
    like: str = "",
    tail: bool | None = None,
) -> Chosen:
    """The choice of mechanism for a quantile, an extreme or a mode; with a distance, refinement by it.

    `like` is the mechanism that a stored answer was drawn by.
    """
    if interval and (aggregate.function != "quantile" or len(aggregate.orders) != 1 or distance is not None):
        raise InvalidInput("interval=True is for MEDIAN or QUANTILE with one order and no distance; leave it out here")
    candidates = Candidates.of(column, max(FEWEST, min(MOST_CANDIDATES, MOST_COUNTS // (facts.cells or 1))))
    placed = None if prior is None else on_positions(column, candidates.width, candidates.count, prior, tail)
    # Side by side, every row that comes to a cell or goes from one pays its own share (chosen.md).
    share, rows = (epsilon / facts.reach, 1) if facts.grouped else (epsilon, facts.rows)
    neighbours = "add-remove" if facts.grouped else facts.schema.neighbours
    if aggregate.function == "mode" and candidates.width > 1:
        raise Unsupported(f"MODE is of at most {MOST_CANDIDATES:,} values; ask for a histogram with BIN instead")
    if distance is not None:
        return _refined(aggregate, candidates, share, neighbours, placed, distance)
    if placed is not None and aggregate.function in PLACES:
        refined = _refined(aggregate, candidates, share, neighbours, placed, None)
        ranked = _by_rank(aggregate, candidates, share, rows)
        if _excludes(candidates, placed) or _says_something(refined):
            return replace(refined, rival=ranked)
        return replace(ranked, rival=refined, unused=NO_HELP)
    match aggregate.function:
        case "quantile" if interval:
            point = _quantile(aggregate, candidates, share / 2, neighbours, rows, placed)
            around = Bracket.of(aggregate.orders[0], candidates.count, share / 2, neighbours, rows)
            return replace(point, name=f"{point.name}, and two bracketing quantiles", around=around)
        case "quantile":
            ranked = _quantile(aggregate, candidates, share, neighbours, rows, placed)
            return ranked if prior is not None else _or_mean(aggregate, ranked, facts, epsilon, like)
        case "mode":
            return _mode(candidates, share, neighbours, rows, placed)
        case "max" | "second_max" | "min":
            return _or_mean(aggregate, _by_rank(aggregate, candidates, share, rows), facts, epsilon, like)
    raise InvalidInput(f"{aggregate.function} is not a choice among values")


def resolve_distance(column: Column, distance: Distance | str) -> Distance:
    """The distance that was named or brought, where it can measure the column's values."""
    own = _named(column, distance) if isinstance(distance, str) else distance
    # Only our own: another's would be handed the truth.
    known = is_exactly(own, *((Nominal, Ordinal, Semantic) if column.categories else (Continuous, Nominal)))
    if own is None or not known:
        got = f"{distance[:40]!r}" if isinstance(distance, str) else type(distance).__name__
        raise InvalidInput(f"the distance of {column.name} is {_offered(column)}, got {got}")
    if not all(map(own.knows, column.categories)):
        raise InvalidInput(f"the distance does not know every category of {column.name}; give it all of them")
    return own


def default_distance(column: Column) -> Distance:
    """How near values are if nobody says otherwise: by number or place, by taxonomy, or equal or not."""
    if not column.categories:
        return Continuous()
    if column.ordered:
        return Distance.ordinal(column.categories)
    return Nominal() if column.taxonomy is None else Distance.semantic(column.taxonomy)


def whose(even: bool) -> str:
    """Whether a prior is the analyst's."""
    return "an even" if even else "your"


def refinement_name(even: bool, distance: Distance | str | None) -> str:
    """A refinement as people call it; with the distance, if one was brought."""
    if distance is None:
        return f"refinement of {whose(even)} prior"
    by = distance if isinstance(distance, str) else distance.stored_name
    return f"refinement of {whose(even)} prior, {by} distance"


def _named(column: Column, name: str) -> Distance | None:
    """A distance by its name, where the column has what it takes."""
    match name:
        case "continuous":
            return Continuous()
        case "nominal":
            return Nominal()
        case "ordinal" if column.categories and column.ordered:
            return Distance.ordinal(column.categories)
        case "semantic" if column.taxonomy is not None:
            return Distance.semantic(column.taxonomy)
    return None


def _offered(column: Column) -> str:
    if not column.categories:
        return "'continuous' or 'nominal'"
    if column.ordered:
        return "'ordinal' or 'nominal'"
    return "'nominal', since it has no taxonomy" if column.taxonomy is None else "'semantic' or 'nominal'"


def _position(drawn: object) -> int:
    """What was drawn, as the position it is."""
    return int(cast(int, drawn))


def _quantile(
    aggregate: Aggregate, candidates: Candidates, epsilon: Fraction, neighbours: str, rows: int, placed: Placed | None
) -> Chosen:
    name = "permute-and-flip on ranks" if placed is None else "exponential mechanism on ranks"
    ends = (0, candidates.count - 1, epsilon, 1, neighbours, None if placed is None else placed.used, rows)
    if len(aggregate.orders) == 1:
        return _by(placed, Chosen(candidates, Quantile.of(aggregate.orders[0], *ends), name))
    return _by(placed, Chosen(candidates, Quantiles.of(aggregate.orders, *ends), name))


def _by(placed: Placed | None, choice: Chosen) -> Chosen:
    """A choice with the prior that is its base measure, if there is one."""
    if placed is None:
        return choice
    return replace(choice, candidates=choice.candidates.under(placed), stated=placed.stated, use=placed.use)


def _excludes(candidates: Candidates, placed: Placed) -> bool:
    """Whether a prior holds a value impossible that a choice by rank could return."""
    return len(placed.used) < candidates.count or candidates.under(placed) is not candidates


def _says_something(refined: Chosen) -> bool:
    """Whether a refinement would leave clearly less open than its prior; by rank an extreme uses all rows instead."""
    before, error = refined.before(), refined.expected_error()
    if before is None or error is None or not before.numeric:
        return True
    return error**2 < WORTHWHILE**2 * before.variance()


def _by_rank(aggregate: Aggregate, candidates: Candidates, epsilon: Fraction, rows: int) -> Chosen:
    return Chosen(candidates, _extreme(aggregate, candidates, epsilon, rows), "extreme by rank")


def _or_mean(aggregate: Aggregate, ranked: Chosen, facts: Facts, epsilon: Fraction, like: str) -> Chosen:
    """A choice by rank with the mean of the ranks round it as its rival; where that mean is nearer, the other way."""
    candidates, known = ranked.candidates, facts.known_rows(ranked.candidates.column)
    if known is None or known > MOST_ROWS or aggregate.function == "second_max":
        return ranked
    if not isinstance(ranked.choice, Quantile | Extreme):
        return ranked
    mean = mean_round(aggregate, candidates, known, epsilon, like)
    rival = Chosen(candidates, mean, mean.name)
    taken = like == mean.name if like else mean.better(*_rule(ranked.choice))
    return replace(rival, rival=ranked) if taken else replace(ranked, rival=rival)


def _rule(choice: Quantile | Extreme) -> tuple[Selection, int]:
    """By what a choice by rank is drawn, and how far one row is in its scores."""
    if isinstance(choice, Extreme):
        return choice.choice.selection, 1
    return choice.selection, choice.q.denominator


def _extreme(aggregate: Aggregate, candidates: Candidates, epsilon: Fraction, rows: int) -> Extreme:
    place, end = PLACES[aggregate.function]
    return Extreme.of(place, candidates.count, epsilon, rows, end)


def _refined(
    aggregate: Aggregate,
    candidates: Candidates,
    epsilon: Fraction,
    neighbours: str,
    placed: Placed | None,
    distance: Distance | str | None,
) -> Chosen:
    if len(aggregate.orders) > 1:
        raise InvalidInput("a distance is for one quantile at a time; ask for each order in a question of its own")
    column = candidates.column
    base = placed or even(column, candidates.width, candidates.count)
    own = default_distance(column) if distance is None else resolve_distance(column, distance)
    refined = Refined.of(candidates, base, epsilon, "statistic", neighbours, own)
    statistic = RefinedStatistic(aggregate, refined, placed is None)
    name = refinement_name(placed is None, distance)
    return Chosen(refined.candidates, statistic, name, use=None if placed is None else placed.use)


def _mode(candidates: Candidates, epsilon: Fraction, neighbours: str, rows: int, placed: Placed | None) -> Chosen:
    # Rows that come only raise counts, so no two counts move apart by more than r.
    apart = rows if neighbours == "add-remove" else 2 * rows
    selection = Selection.of(epsilon, rows, apart)
    name = "permute-and-flip on counts" if placed is None else "exponential mechanism on counts"
    prior = None if placed is None else placed.used
    return _by(placed, Chosen(candidates, Mode(selection, candidates.count, prior), name))
