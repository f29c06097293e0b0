"""How far neighbours move what each mechanism is handed, and what that loses by the mechanism's own account."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.errors import Internal
from discreet.exact import exp_above, exp_below
from discreet.kernel.box_staircase import BoxStaircase
from discreet.kernel.bracket import End
from discreet.kernel.discrete_gaussian import DiscreteGaussian
from discreet.kernel.extreme import Extreme
from discreet.kernel.individual import local_noise
from discreet.kernel.noise import Independent, Noise
from discreet.kernel.order_statistic import place
from discreet.kernel.polygon_staircase import PolygonStaircase
from discreet.kernel.quantile import Quantile, Quantiles, SplitLaw, rank_scores
from discreet.kernel.scores import Selection
from discreet.planner.chosen import Chosen, Mode, RefinedStatistic
from discreet.planner.individual import AboutOne, OrderStatistic
from discreet.planner.nested import Nested
from discreet.planner.noisy import Noisy
from discreet.planner.plan import Counted, Known, Measurement
from discreet.planner.ranks import RankMean
from discreet.planner.refined import RefinedTotal
from discreet.planner.threshold import BITS, Threshold
from discreet.schema import Schema
from discreet.testing.recorded import ZERO, Inputs, Lost, same, share
from discreet.testing.splits import followed

WEAKER = "individual DP: weaker, not for groups, its noise follows the data; the distance is of this table alone"
ANY_TRUTH = "it holds for any two truths"
BY_LEVEL = "each level has noise of its own"
A_FEW_WAYS = "over a few of the ways in which the rows may be parted"
ENDS: tuple[End, End] = ("low", "high")
Whole = NDArray[np.int64]
Pairs = list[tuple[Any, Any]]
"""The inputs of one mechanism on both tables, for each cell in which they differ."""


@dataclass(frozen=True, slots=True)
class Moved:
    """The shares of what is declared, by name; and what the move loses."""

    shares: Mapping[str, Fraction]
    lost: Lost
    note: str = ""


def aligned(one: Inputs, two: Inputs, empty: object) -> Pairs:
    """Cell by cell, where they differ; keys that are not public may be in one table only."""
    pairs = [(one.get(cell, empty), two.get(cell, empty)) for cell in {**one, **two}]
    return [pair for pair in pairs if not same(*pair)]


def moved(measurement: Measurement, schema: Schema, one: Inputs, two: Inputs) -> Moved:
    """For whatever a plan measures."""
    match measurement:
        case Noisy():
            return _noisy(measurement, aligned(one, two, (0,) * len(measurement.form.components)))
        case Nested():
            return _nested(measurement, list(one.values()), list(two.values()))
        case RefinedTotal():
            nothing = (0,) * len(measurement.form.components)
            values = [[measurement.form.estimate.value(own) for own in pair] for pair in aligned(one, two, nothing)]
            return _refined(values, measurement.refinement.cost().epsilon)
        case Chosen():
            return _chosen(measurement, schema, aligned(one, two, np.zeros(measurement.candidates.count, np.int64)))
        case AboutOne():
            truths = [[measurement.truth(code) for code in pair] for pair in aligned(one, two, None)]
            return _refined(truths, measurement.refined.refinement.cost().epsilon)
        case OrderStatistic():
            return _individual(measurement, aligned(one, two, np.zeros(measurement.candidates.count, np.int64)))
        case Known() | Counted():  # read nothing more: public, or told by the threshold already
            return Moved({}, Lost())
    raise Internal(f"{type(measurement).__name__} is not replayed")


def noise_lost(noise: Noise, moves: Iterable[int]) -> Lost:
    """What independent draws of a noise lose where their totals are moved so far."""
    sizes = [abs(int(move)) for move in moves if move]
    if isinstance(noise, DiscreteGaussian):
        return Lost(other=sum((size**2 / (2 * noise.square) for size in sizes), ZERO))
    return sum((Lost.pure(noise.guarantee(size, "add-remove").epsilon or ZERO) for size in sizes), Lost())


def vector_lost(noise: Independent | BoxStaircase | PolygonStaircase, moves: Sequence[Sequence[int]]) -> Lost:
    """The same for noise of several numbers at once, one draw for each cell."""
    if not isinstance(noise, Independent):
        return sum((Lost.pure(noise.epsilon_at(cell)) for cell in moves), Lost())
    columns = zip(noise.noises, zip(*moves, strict=True), strict=True) if moves else ()
    return sum((noise_lost(own, column) for own, column in columns), Lost())


def selection_lost(selection: Selection, one: Whole, two: Whole) -> Lost:
    """What a choice loses whose scores go from these to those: in proportion to how far two of them move apart."""
    step = selection.step.numerator  # whole scores have whole steps
    change = two // step - one // step
    return Lost.pure(selection.epsilon * Fraction(int(change.max() - change.min()), selection.spread))


def threshold_moved(threshold: Threshold, schema: Schema, one: Mapping[str, int], two: Mapping[str, int]) -> Moved:
    """Keys that are not public: how many units differ, how many keys are in one table only, and at most one unit each.

    A key of its own is shown with the chance that its noise passes the threshold; the greater of both sides counts.
    """
    reach = schema.rows * (2 if schema.neighbours == "replace-one" else 1)
    common = [one[key] - two[key] for key in one if key in two]
    alone = [[mine[key] for key in mine if key not in other] for mine, other in ((one, two), (two, one))]
    apart = sum(map(abs, common)) + sum(map(sum, alone))
    shares = {
        "units": share(apart, reach),
        "keys of one table": share(max(map(len, alone)), schema.rows),
        "units of such a key": Fraction(max(map(max, filter(None, alone)), default=0)),
    }
    delta = max(sum((_shown(threshold, count) for count in counts), ZERO) for counts in alone)
    return Moved(shares, noise_lost(threshold.noise, common) + Lost(delta=delta))


def _shown(threshold: Threshold, count: int) -> Fraction:
    """At most the chance that a key of so many units is shown."""
    rate, needed = threshold.noise.rate, threshold.least - count
    if needed < 1:
        return Fraction(1)
    return exp_above(-rate * needed, BITS) / (1 + exp_below(-rate, BITS))


def _noisy(measurement: Noisy, pairs: Pairs) -> Moved:
    """Over all cells and components |change| / scale adds up to at most 1, and change^2 / square too."""
    moves = [[x - y for x, y in zip(*pair, strict=True)] for pair in pairs]
    parts = measurement.form.components
    columns = zip(*moves, strict=True) if moves else [()] * len(parts)
    both = [(column, part) for column, part in zip(columns, parts, strict=True) if any(column)]
    shares = {
        "changes": sum((Fraction(sum(map(abs, column))) / part.scale for column, part in both), ZERO),
        "squares": sum((Fraction(sum(move**2 for move in column)) / part.square for column, part in both), ZERO),
    }
    return Moved(shares, vector_lost(measurement.noise, moves))


def _nested(measurement: Nested, one: Sequence[Sequence[int]], two: Sequence[Sequence[int]]) -> Moved:
    """What one unit moves is declared of each level; the losses of all levels add up."""
    levels: list[list[int]] = [[] for _ in measurement.measured_levels]
    starting: dict[int, list[int]] = {}
    for number, level in enumerate(measurement.measured_levels):
        for start in level.starts.tolist():
            starting.setdefault(start, []).append(number)
    for cell, numbers in starting.items():
        for number, x, y in zip(numbers, one[cell], two[cell], strict=True):
            levels[number].append(x - y)
    laws = [level.noise for level in measurement.measured_levels if level.noise is not None]
    lost = sum((noise_lost(law, moves) for law, moves in zip(laws, levels, strict=True)), Lost())
    return Moved({}, lost, BY_LEVEL)


def _refined(truths: Iterable[Sequence[object]], epsilon: Fraction | None) -> Moved:
    """A refinement holds for any two truths, near or far: each cell whose truth differs loses all of its epsilon."""
    differ = sum(one != two for one, two in truths)
    return Moved({}, sum((Lost.pure(epsilon or ZERO) for _ in range(differ)), Lost()), ANY_TRUTH)


def _individual(measurement: OrderStatistic, pairs: Pairs) -> Moved:
    """How far the statistic is on a neighbour, against the noise that the one table gets, either of them being it."""
    if not pairs:
        return Moved({}, Lost(), WEAKER)
    vector = measurement.mechanism.vector
    tables = [vector.grid.units(measurement.entering(counts)) for counts in pairs[0]]
    exact = [int(np.sort(own)[place(vector.whats[0], len(own)) - 1]) for own in tables]
    lost = [noise_lost(local_noise(vector, own), [exact[0] - exact[1]]) for own in tables]
    return Moved({}, max(lost, key=lambda one: one.epsilon), WEAKER)


def _chosen(measurement: Chosen, schema: Schema, pairs: Pairs) -> Moved:
    """As many rows move as one unit has, or twice that where it is replaced; scores follow from these counts."""
    reach = schema.rows * (2 if schema.neighbours == "replace-one" else 1)
    apart = sum(int(np.abs(one - two).sum()) for one, two in pairs)
    lost = sum((_choice_lost(measurement, one, two) for one, two in pairs), Lost())
    # The losses of the exponential mechanism span epsilon only, hence a quarter of the rho (planner/chosen.md).
    exponential = measurement.uses_prior and isinstance(measurement.choice, Quantile | Quantiles | Mode)
    quarter = exponential and measurement.around is None
    note = A_FEW_WAYS if isinstance(measurement.choice, Quantiles) else ""
    return Moved({"rows": share(apart, reach)}, Lost(lost.epsilon, lost.rho / 4) if quarter else lost, note)


def _choice_lost(measurement: Chosen, one: Whole, two: Whole) -> Lost:
    """Of one cell: the choice itself, and the two ends drawn about it."""
    around, lost = measurement.around, _point_lost(measurement, one, two)
    if around is None:
        return lost
    low, high = ([around.scores(own, end) for own in (one, two)] for end in ENDS)
    return sum((selection_lost(around.choice.selection, *pair) for pair in (low, high)), lost)


def _point_lost(measurement: Chosen, one: Whole, two: Whole) -> Lost:
    choice = measurement.choice
    match choice:
        case Quantile():
            base = slice(None) if choice.candidates.prior is None else choice.candidates.prior.index
            return selection_lost(choice.selection, *(rank_scores(own, choice.q)[base] for own in (one, two)))
        case Extreme():
            return selection_lost(choice.choice.selection, choice.scores(one), choice.scores(two))
        case Mode():
            base = slice(None) if choice.prior is None else choice.prior.index
            return selection_lost(choice.selection, one[base], two[base])
        case RefinedStatistic():
            cost = choice.refined.refinement.cost().epsilon
            return _refined([(choice.truth(one), choice.truth(two))], cost).lost
        case RankMean():
            return noise_lost(choice.noise, [choice.ranks.total(one) - choice.ranks.total(two)])
        case Quantiles():
            return _quantiles_lost(choice, one, two)
    raise Internal(f"a choice by {type(choice).__name__} is not replayed")


def _quantiles_lost(choice: Quantiles, one: Whole, two: Whole) -> Lost:
    """The losses of all choices add up, where they come out alike; the worst of a few ways in which they do."""
    return max((_followed_lost(laws) for laws in followed(choice, one, two)), key=lambda lost: lost.epsilon)


def _followed_lost(laws: Iterable[tuple[SplitLaw, SplitLaw]]) -> Lost:
    return sum((selection_lost(mine.selection, mine.scores, theirs.scores) for mine, theirs in laws), Lost())
