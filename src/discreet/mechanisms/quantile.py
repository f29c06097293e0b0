"""One quantile, or several in order, chosen by rank on a public grid. Proof: quantile.md.

The rows enter as counts per grid point. Accuracy is stated in ranks, from public facts: how far that is in values
depends on the rows and cannot be stated.

A bracket is two grid points with a quantile between them, at a stated confidence. Proof: quantile_bracket.md.
It is itself drawn, each end aimed as many ranks outside as its choice may be off.

Extremes are the largest or smallest values by rank. Proof: extreme_value.md. No private answer can be near the very
largest value, which is one person's, whatever the table: where the bounds lie far beyond all rows, an extreme may be a
value that no row reaches.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from itertools import pairwise
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from discreet.errors import InvalidInput, Unsupported
from discreet.mechanisms.distribution import Distribution
from discreet.mechanisms.entropy import Entropy, get_entropy
from discreet.mechanisms.exponential_mechanism import MAX_LEVELS, Exponential, Integers, Selection, find_least_share
from discreet.mechanisms.order_statistic import ColumnValues, as_float_column
from discreet.mechanisms.permute_and_flip import PermuteAndFlip, choose_position
from discreet.mechanisms.sensitivity import rank_score_sensitivity
from discreet.numeric import as_int, as_number_between, as_positive, as_rational, format_exact
from discreet.priors.prior import Grid, Prior, copy_prior
from discreet.privacy.guarantee import Guarantee, NeighborRelation, parse_neighbor_relation

MAX_ORDER_DENOMINATOR = 10**6
SPLIT_DENOMINATOR = 10**4
MAX_ROWS = 2**40
MIN_ORDER_GAP = Fraction(2, 5)
"""A share of the rows: two orders so far apart are answered better by parting the rows between them first."""
Orders = tuple[Fraction, ...]
SLOTS = 8
"""Among several quantiles a point's rows may go left and right in eighths, so that ties do no harm."""


@dataclass(frozen=True, eq=False)
class QuantileGrid:
    """The public grid, and the prior on it; positions are those of the whole grid."""

    grid: Grid
    count: int
    prior: Prior | None

    @staticmethod
    def of(lower: object, upper: object, step: object, prior: Prior | None) -> QuantileGrid:
        """A grid of at most a million points, and a prior on it if there is one."""
        prior = None if prior is None else copy_prior(prior)
        whole_grid = Prior.uniform(lower, upper, step)
        grid, count = whole_grid.grid or Grid(Fraction(0), Fraction(1)), len(whole_grid.mass)
        return QuantileGrid(grid, count, None if prior is None else _place_prior_on_grid(prior, grid, count))

    def count_values(self, values: ColumnValues) -> Integers:
        """How many values fall on each point: floored to the grid, clamped; what is no number is left out. Secret."""
        numbers = as_float_column(values)
        ends = float(self.grid.origin), float(self.grid.origin + self.grid.step * self.count)
        inside = np.clip(numbers[~np.isnan(numbers)], *ends)
        places = np.floor((inside - ends[0]) / float(self.grid.step) + 1e-9)
        return np.bincount(np.clip(places, 0, self.count - 1).astype(np.int64), minlength=self.count)

    def check_counts(self, counts: NDArray[np.integer]) -> Integers:
        """Counts of rows, one per point of the grid, clamped; only their type and shape are checked."""
        return _clamp_counts(counts, self.count, "; make them from rows with candidates.count_values()")

    def value(self, position: int) -> int | Fraction:
        """The value at a position."""
        return self.grid.value(position)

    @property
    def mass(self) -> Integers:
        """The base measure on the whole grid; 0 where the prior excludes a point."""
        if self.prior is None:
            return np.ones(self.count, dtype=np.int64)
        mass = np.zeros(self.count, dtype=np.int64)
        mass[self.prior.index] = self.prior.mass
        return mass


def _clamp_counts(counts: NDArray[np.integer], size: int, advice: str = "") -> Integers:
    array = np.asarray(counts)
    if array.dtype.kind not in "iu" or array.shape != (size,):
        raise InvalidInput(f"counts are {size} whole numbers, one per grid point{advice}")
    max_rows = array.dtype.type(min(MAX_ROWS, np.iinfo(array.dtype).max))
    return np.asarray(np.maximum(np.minimum(array, max_rows).astype(np.int64), 0))


def _place_prior_on_grid(prior: Prior, grid: Grid, count: int) -> Prior:
    """The prior with the whole grid's positions as its indices."""
    if prior.grid is None:
        raise InvalidInput("a quantile is a number; its prior must be over numbers")
    first = (prior.grid.origin - grid.origin) / grid.step
    stride = prior.grid.step / grid.step if len(prior.mass) > 1 else Fraction(1)
    if first.denominator != 1 or stride.denominator != 1:
        raise InvalidInput("the prior's values must lie on the grid of the quantile; give both the same step")
    places = int(first) + int(stride) * prior.index
    inside = (places >= 0) & (places < count)
    if not inside.any():
        raise InvalidInput("the prior lies outside the bounds; no value is left to choose from")
    return Prior(prior.mass[inside], places[inside], grid, None)


@dataclass(frozen=True, eq=False)
class Quantile:
    """One quantile by rank on a public grid: by permute-and-flip, or with a prior by the exponential mechanism.

    One answer is epsilon-DP under `neighbors`. Make it with `Quantile.of`.

    Args:
        q: The order, between 0 and 1; 1/2 is the median.
        candidates: The public grid of possible answers, with the prior on it.
        epsilon: Privacy budget of one answer.
        neighbors: The neighbor relation, "add-remove" or "replace-one".
        rows_per_unit: The most rows of one privacy unit.

    Example:
        >>> from discreet.mechanisms import Quantile
        >>> median = Quantile.of(q=0.5, lower=0, upper=100, epsilon=1)
        >>> median.cost().epsilon
        Fraction(1, 1)
        >>> 0 <= median.answer([31, 35, 40, 41, 58]) <= 100
        True
    """

    q: Fraction
    candidates: QuantileGrid
    epsilon: Fraction
    neighbors: NeighborRelation
    rows_per_unit: int

    @staticmethod
    def of(
        q: object,
        lower: object,
        upper: object,
        epsilon: object,
        step: object = 1,
        neighbors: str = "add-remove",
        prior: Prior | None = None,
        rows_per_unit: object = 1,
    ) -> Quantile:
        """Check the public facts."""
        rows, exact_epsilon = as_int(rows_per_unit, "rows per unit"), as_rational(epsilon, "epsilon")
        Selection.of(exact_epsilon, 1)
        order, candidates = parse_order(q), QuantileGrid.of(lower, upper, step, prior)
        return Quantile(order, candidates, exact_epsilon, parse_neighbor_relation(neighbors), rows)

    @property
    def selection(self) -> Selection:
        """Scores are whole: the rank times the denominator of q."""
        return Selection.of(self.epsilon, rank_score_sensitivity(self.q, self.neighbors, self.rows_per_unit))

    def cost(self) -> Guarantee:
        """What one quantile costs."""
        return Guarantee.dp(self.epsilon, neighbors=self.neighbors)

    def rank_bound(self, confidence: float) -> float:
        """With this confidence the rank is off by less than this many rows, or than the best the prior allows by it."""
        prior = self.candidates.prior
        share = find_least_share(prior) if prior else 1 / self.candidates.count
        return self.selection.compute_score_bound(confidence, share) / self.q.denominator

    def distribution(self, counts: NDArray[np.integer]) -> Distribution:
        """The exact law with a prior, or with an even one."""
        base = self.candidates.prior or Prior.uniform(0, self.candidates.count - 1)
        positioned_prior = Prior(base.mass, base.index, self.candidates.grid, None)
        scores = compute_rank_scores(self.candidates.check_counts(counts), self.q)
        return Exponential(self.selection, positioned_prior).distribution(scores[base.index])

    def answer(self, values: ColumnValues, entropy: Entropy | None = None) -> int | Fraction:
        """One value of the grid, near the quantile of these rows; rows are read as by `QuantileGrid.count_values`."""
        return self.answer_counts(self.candidates.count_values(values), entropy)

    def answer_counts(self, counts: NDArray[np.integer], entropy: Entropy | None = None) -> int | Fraction:
        """The same, from the number of rows at each point of the grid."""
        if self.candidates.prior is not None:
            distribution = self.distribution(counts)
            position = distribution.sample_position(get_entropy(entropy))
            return self.candidates.value(int(distribution.prior.index[position]))
        scores = compute_rank_scores(self.candidates.check_counts(counts), self.q)
        return self.candidates.value(choose_position(PermuteAndFlip(self.selection), scores, entropy))


def compute_rank_scores(counts: Integers, q: Fraction) -> Integers:
    """Minus b times how many ranks each point is from being a q-quantile, q = a/b; above 0, how safely it is one.

    With lo rows below a point, eq at it and n in all, it is one where lo <= q n <= lo + eq: so the score is the lesser
    of b (lo + eq) - a n and a n - b lo.
    """
    ahead = q.denominator * np.cumsum(counts)
    ahead -= q.numerator * int(counts.sum())
    return np.asarray(np.minimum(q.denominator * counts - ahead, ahead))


def parse_order(q: object) -> Fraction:
    """The order of a quantile: between 0 and 1, to six digits."""
    value = as_number_between(q, 0, 1, "the quantile's order")
    if value.denominator > MAX_ORDER_DENOMINATOR:
        raise InvalidInput("the quantile's order has at most six digits after the point")
    return value


@dataclass(frozen=True, eq=False)
class Quantiles:
    """Several quantiles on a public grid, never out of order.

    The rows are split at the middle quantile, then each side by itself. Every row is on one side of each split, so the
    splits at one depth are about disjoint rows and cost as much as one of them (twice that under replace-one); epsilon
    is shared evenly among the depths (after Kaplan and others, 2022). All answers together are epsilon-DP under
    `neighbors`. Make it with `Quantiles.of`.

    Args:
        orders: The orders, rising, between 0 and 1.
        candidates: The public grid of possible answers, with the prior on it.
        epsilon: Privacy budget of all answers together.
        neighbors: The neighbor relation, "add-remove" or "replace-one".
        rows_per_unit: The most rows of one privacy unit.

    Example:
        >>> from discreet.mechanisms import Quantiles
        >>> quartiles = Quantiles.of([0.25, 0.5, 0.75], lower=0, upper=100, epsilon=1)
        >>> answer = quartiles.answer([31, 35, 40, 41, 58])
        >>> answer == sorted(answer)
        True
    """

    orders: tuple[Fraction, ...]
    candidates: QuantileGrid
    epsilon: Fraction
    neighbors: NeighborRelation
    rows_per_unit: int

    @staticmethod
    def of(
        orders: Sequence[object],
        lower: object,
        upper: object,
        epsilon: object,
        step: object = 1,
        neighbors: str = "add-remove",
        prior: Prior | None = None,
        rows_per_unit: object = 1,
    ) -> Quantiles:
        """Check the public facts."""
        if not isinstance(orders, Sequence):
            raise InvalidInput("several quantiles need a list of orders, such as (0.25, 0.5, 0.75)")
        exact_orders = tuple(parse_order(q) for q in orders)
        if not exact_orders or any(first >= second for first, second in pairwise(exact_orders)):
            example = "such as (0.25, 0.5, 0.75)"
            raise InvalidInput(f"several quantiles need their orders in rising order, each once, {example}")
        rows, exact_epsilon = as_int(rows_per_unit, "rows per unit"), as_rational(epsilon, "epsilon")
        Selection.of(exact_epsilon, 1)
        candidates = QuantileGrid.of(lower, upper, step, prior)
        return Quantiles(exact_orders, candidates, exact_epsilon, parse_neighbor_relation(neighbors), rows)

    @property
    def depth(self) -> int:
        """How many questions a row can be part of."""
        return len(self.orders).bit_length()

    @cached_property
    def split_epsilon(self) -> Fraction:
        """The epsilon of one question: of two neighbours with a row replaced, two at one depth may differ."""
        return self.epsilon / self.depth / (1 if self.neighbors == "add-remove" else 2)

    def cost(self) -> Guarantee:
        """What all of them together cost."""
        return Guarantee.dp(self.epsilon, neighbors=self.neighbors)

    def answer(self, values: ColumnValues, entropy: Entropy | None = None) -> list[int | Fraction]:
        """One value for each order, rising, near the quantiles of these rows."""
        return self.answer_counts(self.candidates.count_values(values), entropy)

    def answer_counts(self, counts: NDArray[np.integer], entropy: Entropy | None = None) -> list[int | Fraction]:
        """The same, from the number of rows at each point of the grid."""
        rows, span = self.candidates.check_counts(counts), (0, self.candidates.count - 1)
        positions = self._split_rows(rows, span, self.orders, (Fraction(0), Fraction(1)), get_entropy(entropy))
        return [self.candidates.value(positions[q]) for q in self.orders]

    def _split_rows(
        self, counts: Integers, span: tuple[int, int], orders: Orders, ends: tuple[Fraction, Fraction], entropy: Entropy
    ) -> dict[Fraction, int]:
        """Choose the quantile to part the rows at, among the points of the span, and go on with both sides."""
        if not orders:
            return {}
        middle, lower, upper = self.choose_split_order(orders, ends)
        split = self.split_distribution(counts, span, coarsen_order((middle - ends[0]) / (ends[1] - ends[0])))
        position, slot = split.sample(entropy)
        left, right = split_counts(counts, position, slot)
        lower_positions = self._split_rows(left, (span[0], position), lower, (ends[0], middle), entropy)
        upper_positions = self._split_rows(right, (position, span[1]), upper, (middle, ends[1]), entropy)
        return {middle: position, **lower_positions, **upper_positions}

    def choose_split_order(self, orders: Orders, ends: tuple[Fraction, Fraction]) -> tuple[Fraction, Orders, Orders]:
        """The order to part the rows at, and the orders below and above it.

        It is the middle one, or where there are two far apart halfway between them, which is not released; a prior is
        of what is released, so with a prior it is always one of the orders.
        """
        half = len(orders) // 2
        if len(orders) % 2 == 0 and self.candidates.prior is None:
            low, high = orders[half - 1 : half + 1]
            if high - low >= MIN_ORDER_GAP * (ends[1] - ends[0]):
                return (low + high) / 2, orders[:half], orders[half:]
        return orders[half], orders[:half], orders[half + 1 :]

    def split_distribution(self, counts: Integers, span: tuple[int, int], q: Fraction) -> SplitDistribution:
        """The choice of where to part these rows, so that a share q of them is on the left."""
        places = np.arange(span[0], span[1] + 1)
        mass = self.candidates.mass[places]
        places = places[mass > 0] if (mass > 0).any() else places
        left = (np.cumsum(counts) - counts)[places][:, None] + counts[places][:, None] * np.arange(SLOTS + 1) // SLOTS
        score = -np.abs(q.denominator * left - q.numerator * int(counts.sum()))
        selection = _build_split_selection(self.split_epsilon, q, self.rows_per_unit)
        is_even = self.candidates.prior is None
        base = np.ones(len(places), dtype=np.int64) if is_even else lighten_mass(self.candidates.mass[places])
        return SplitDistribution(places, score.ravel(), selection, None if is_even else np.repeat(base, SLOTS + 1))


@dataclass(frozen=True, eq=False)
class SplitDistribution:
    """The choice of a point and of the eighths of its rows that go left."""

    places: NDArray[np.int64]
    scores: Integers
    selection: Selection
    base: Integers | None

    def sample(self, entropy: Entropy) -> tuple[int, int]:
        """A point and a number of eighths."""
        if self.base is None:
            choice = PermuteAndFlip(self.selection)
            index = choice.sample_position(choice.selection.compute_levels(self.scores, 1 / len(self.scores)), entropy)
        else:
            index = self.build_exponential().sample_position(entropy)
        return self.get_cell(index)

    def build_exponential(self) -> Distribution:
        """The law with a prior."""
        mass = np.ones(len(self.scores), dtype=np.int64) if self.base is None else self.base
        prior = Prior(mass, np.arange(len(mass)), Grid(Fraction(0), Fraction(1)), None)
        return Exponential(self.selection, prior).distribution(self.scores)

    def get_cell(self, index: int) -> tuple[int, int]:
        """Point and eighths of a position in the list of scores."""
        return int(self.places[index // (SLOTS + 1)]), index % (SLOTS + 1)


@lru_cache(maxsize=1024, typed=True)
def _build_split_selection(share: Fraction, q: Fraction, rows_per_unit: int) -> Selection:
    """Rows of one unit may fall to several questions, and each row's change is floored by itself."""
    one_row = Selection.of(share, rank_score_sensitivity(q, "add-remove"))
    return Selection(share, one_row.step, one_row.spread * rows_per_unit)


@lru_cache(maxsize=1024)
def coarsen_order(q: Fraction) -> Fraction:
    """An order to four digits: the share of rows that a split aims at, which no promise depends on."""
    smallest = Fraction(1, SPLIT_DENOMINATOR)
    return min(max(q.limit_denominator(SPLIT_DENOMINATOR), smallest), 1 - smallest)


def lighten_mass(mass: Integers) -> Integers:
    """The base measure in numbers small enough to be repeated for every slot; only huge ones are rounded."""
    spare = max(0, int(mass.sum()).bit_length() - 58)
    return np.asarray(np.maximum(mass >> spare, np.minimum(mass, 1)))


def split_counts(counts: Integers, position: int, slot: int) -> tuple[Integers, Integers]:
    """The rows left and right of a split; one more row anywhere is one more row on exactly one side."""
    left = counts.copy()
    left[position + 1 :] = 0
    left[position] = counts[position] * slot // SLOTS
    return left, counts - left


MAX_CONFIDENCE = Fraction(999_999, 10**6)
MAX_RANK_OFFSET = 2**60
OUTSIDE_RANK = 2**62
"""The one-sided ends of the grid have every rank beyond them: farther than any target."""
BracketEnd = Literal["low", "high"]


@dataclass(frozen=True, slots=True)
class Bracket:
    """Two grid points between which a quantile lies with the stated confidence.

    Each end is drawn by permute-and-flip with half of epsilon, aimed `rank_offset / b` ranks outside the q-quantile, q
    = a/b. Both ends together are epsilon-DP under `neighbors`. Make it with `Bracket.of`.

    Args:
        q: The order, between 0 and 1.
        count: The number of grid points.
        rank_offset: How far outside the quantile to aim, in ranks times b.
        epsilon: Privacy budget of both ends together.
        neighbors: The neighbor relation, "add-remove" or "replace-one".
        rows_per_unit: The most rows of one privacy unit.
        confidence: The probability that the quantile lies between the ends, at least.

    Example:
        >>> import numpy as np
        >>> from discreet.mechanisms import Bracket
        >>> bracket = Bracket.of(q=0.5, count=101, epsilon=1)
        >>> counts = np.zeros(101, dtype=np.int64)
        >>> counts[[31, 35, 40, 41, 58]] = 200  # 1000 rows in all
        >>> low, high = bracket.answer_counts(counts)
        >>> low <= high
        True
    """

    q: Fraction
    count: int
    rank_offset: int
    epsilon: Fraction
    neighbors: NeighborRelation
    rows_per_unit: int
    confidence: Fraction

    @staticmethod
    def of(
        q: object,
        count: object,
        epsilon: object,
        neighbors: str = "add-remove",
        rows_per_unit: object = 1,
        confidence: object = Fraction(95, 100),
    ) -> Bracket:
        """How far outside to aim follows from public facts: each end may miss with half of what confidence leaves."""
        order, points = parse_order(q), as_int(count, "how many grid points")
        exact_epsilon, rows = as_positive(epsilon, "epsilon"), as_int(rows_per_unit, "rows per unit")
        exact_confidence = as_number_between(confidence, 0, 1, "confidence")
        if exact_confidence > MAX_CONFIDENCE:
            limit, requested = format_exact(MAX_CONFIDENCE), format_exact(exact_confidence)
            raise InvalidInput(f"the confidence of an interval is at most {limit}, got {requested}")
        selection = Selection.of(exact_epsilon / 2, rank_score_sensitivity(order, neighbors, rows))
        bound = selection.compute_score_bound((1 + exact_confidence) / 2, 1 / points)
        if bound > min(MAX_RANK_OFFSET, float(selection.step) * MAX_LEVELS):
            raise Unsupported("epsilon is too small for an interval in values; ask with a larger one, or without")
        offset, relation = math.floor(bound) + 1, parse_neighbor_relation(neighbors)
        return Bracket(order, points, offset, exact_epsilon, relation, rows, exact_confidence)

    @property
    def mechanism(self) -> PermuteAndFlip:
        """One end's: scores are whole numbers, ranks times the denominator of q."""
        sensitivity = rank_score_sensitivity(self.q, self.neighbors, self.rows_per_unit)
        return PermuteAndFlip(Selection.of(self.epsilon / 2, sensitivity))

    def cost(self) -> Guarantee:
        """What both ends cost together."""
        return Guarantee.dp(self.epsilon, neighbors=self.neighbors)

    def rank_bound(self) -> float:
        """With the stated confidence each end is less than this many ranks from the quantile."""
        return 2 * self.rank_offset / self.q.denominator

    def scores(self, counts: NDArray[np.integer], end: BracketEnd) -> Integers:
        """Minus b times how many ranks each point is from the one aimed at; 0 at one point at least."""
        point_counts = _clamp_counts(counts, self.count)
        aim = self.q.numerator * int(point_counts.sum()) + (-self.rank_offset if end == "low" else self.rank_offset)
        scaled_through = self.q.denominator * np.cumsum(point_counts)
        scaled_before = scaled_through - self.q.denominator * point_counts
        scaled_before[0], scaled_through[-1] = -OUTSIDE_RANK, OUTSIDE_RANK
        return np.asarray(np.minimum(np.minimum(scaled_through - aim, aim - scaled_before), 0))

    def answer_counts(self, counts: NDArray[np.integer], entropy: Entropy | None = None) -> tuple[int, int]:
        """Two positions on the grid, in order, from the number of rows at each point."""
        low, high = (choose_position(self.mechanism, self.scores(counts, end), entropy) for end in ("low", "high"))
        return min(low, high), max(low, high)


@dataclass(frozen=True, slots=True)
class Extreme:
    """The grid point that about `rank` rows reach from the top or from the bottom, by permute-and-flip.

    One answer is epsilon-DP under either neighbor relation. Make it with `Extreme.of`.

    Args:
        count: The number of grid points.
        rank: The rank that is aimed at, counted from that end.
        epsilon: Privacy budget of one answer.
        rows_per_unit: The most rows of one privacy unit.
        end: "top" for a large value, "bottom" for a small one.

    Example:
        >>> from discreet.mechanisms import Extreme
        >>> largest = Extreme.of(place=1, count=101, epsilon=1)
        >>> largest.cost().epsilon
        Fraction(1, 1)
        >>> 10 < largest.rank_bound(confidence=0.95) < 20  # the rank may be off by fewer than 20 rows
        True
    """

    count: int
    rank: int
    epsilon: Fraction
    rows_per_unit: int
    end: Literal["top", "bottom"]

    @staticmethod
    def of(place: object, count: object, epsilon: object, rows_per_unit: object = 1, end: str = "top") -> Extreme:
        """The place-th value from an end."""
        if end not in ("top", "bottom"):
            raise InvalidInput(f"the end is top or bottom, got {end!r}")
        exact_epsilon, rows = as_positive(epsilon, "epsilon"), as_int(rows_per_unit, "rows per unit")
        points = as_int(count, "how many grid points")
        if Selection.of(exact_epsilon, rows).compute_score_bound(0.95, 1 / points) > MAX_ROWS:
            raise Unsupported("epsilon is too small for a largest or smallest value; ask with a larger one")
        side: Literal["top", "bottom"] = "top" if end == "top" else "bottom"
        return Extreme(points, as_int(place, "the place"), exact_epsilon, rows, side)

    @property
    def mechanism(self) -> PermuteAndFlip:
        """Scores are whole numbers of rows, and a unit moves each by at most its rows."""
        return PermuteAndFlip(Selection.of(self.epsilon, self.rows_per_unit))

    def cost(self, neighbors: str = "add-remove") -> Guarantee:
        """What one answer costs, under either relation."""
        return Guarantee.dp(self.epsilon, neighbors=neighbors)

    def rank_bound(self, confidence: float) -> float:
        """With this confidence the value's rank is off the one aimed at by less than this many rows."""
        return self.mechanism.score_bound(confidence, self.count)

    def scores(self, counts: NDArray[np.integer]) -> Integers:
        """Minus the number of ranks by which beyond < rank <= beyond + eq fails; above 0, by how many it holds.

        `beyond` rows lie beyond a point, `eq` at it.
        """
        point_counts = _clamp_counts(counts, self.count)
        cumulative_counts = np.cumsum(point_counts[::-1])[::-1] if self.end == "top" else np.cumsum(point_counts)
        return np.asarray(np.minimum(cumulative_counts - self.rank, self.rank - 1 - (cumulative_counts - point_counts)))

    def answer_counts(self, counts: NDArray[np.integer], entropy: Entropy | None = None) -> int:
        """A position on the grid, from the number of rows at each point."""
        return choose_position(self.mechanism, self.scores(counts), entropy)
