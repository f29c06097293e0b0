"""The privacy that mechanisms lose on two neighboring tables, from their exact inputs on both.

Adaptive composition compares the mechanisms of one table with those of the other for the same outputs. So where a later
input depends on an earlier output, as in the splits of `Quantiles`, the outputs are chosen here and both tables follow.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.errors import Internal
from discreet.formatting import format_number
from discreet.measurements.additive import AdditiveNoise
from discreet.measurements.hierarchical import HierarchicalHistogram
from discreet.measurements.refined_total import RefinedTotal
from discreet.measurements.selection import CandidateSelection, Mode, RefinedStatistic
from discreet.measurements.threshold import EXP_BITS, Threshold
from discreet.measurements.trimmed_mean import RankMean
from discreet.measurements.unit_query import OrderStatistic, UnitQuery
from discreet.mechanisms.box_staircase import BoxStaircase
from discreet.mechanisms.discrete_gaussian import DiscreteGaussian
from discreet.mechanisms.entropy import Entropy
from discreet.mechanisms.individual_dp import build_local_noise
from discreet.mechanisms.noise import IndependentNoises, Noise
from discreet.mechanisms.order_statistic import find_rank
from discreet.mechanisms.polygon_staircase import PolygonStaircase
from discreet.mechanisms.quantile import (
    SLOTS,
    BracketEnd,
    Extreme,
    Quantile,
    Quantiles,
    SplitDistribution,
    compute_rank_scores,
)
from discreet.mechanisms.selection_scores import Selection
from discreet.numeric import exp_above, exp_below
from discreet.planner.plan import Measurement, PublicConstant, ThresholdedCount
from discreet.privacy.guarantee import Guarantee
from discreet.schema import Schema

ZERO = Fraction(0)
DISALLOWED_SHARE = Fraction(10**6)
"""Stands for the share of something where nothing at all is allowed."""
MAX_DENOMINATOR = 10**4
"""The largest denominator that is shown."""
MAX_INPUTS_SHOWN = 4
"""How many inputs that differ are shown of one mechanism."""
INDIVIDUAL_DP_NOTE = (
    "individual DP: weaker, not for groups, its noise follows the data; the distance is of this table alone"
)
ANY_TRUTH_NOTE = "it holds for any two truths"
BY_LEVEL_NOTE = "each level has noise of its own"
FEW_SPLITS_NOTE = "over a few of the ways in which the rows may be parted"
INTERVAL_ENDS: tuple[BracketEnd, BracketEnd] = ("low", "high")
Inputs = Mapping[Any, Any]
"""By the cell, block or level they belong to."""
InputPairs = list[tuple[Any, Any]]
"""The inputs of one mechanism on both tables, for each cell in which they differ."""
IntegerArray = NDArray[np.int64]
SplitCache = dict[tuple[bytes, tuple[int, int], Fraction], SplitDistribution]
"""By the rows to split, the points among which, and the share that goes left."""
SplitRule = Callable[[SplitDistribution, IntegerArray], int]
"""Which candidate comes out, from the choice on the first table and the points where the tables differ."""


@dataclass(frozen=True, slots=True)
class ObservedLoss:
    """The loss on a pair of tables: a `PrivacyCost` of any size, also far beyond what could be charged."""

    epsilon: Fraction = ZERO
    rho: Fraction = ZERO
    gaussian_rho: Fraction = ZERO
    delta: Fraction = ZERO

    def __add__(self, other: ObservedLoss) -> ObservedLoss:
        epsilon, rho = self.epsilon + other.epsilon, self.rho + other.rho
        return ObservedLoss(epsilon, rho, self.gaussian_rho + other.gaussian_rho, self.delta + other.delta)

    @staticmethod
    def pure(epsilon: Fraction) -> ObservedLoss:
        """A pure loss, which is epsilon^2 / 2 of zCDP."""
        return ObservedLoss(epsilon, epsilon**2 / 2)

    @staticmethod
    def total(losses: Iterable[ObservedLoss]) -> ObservedLoss:
        """The sum of losses."""
        return sum(losses, ObservedLoss())


def compute_share(used: Fraction | int, allowed: Fraction | int) -> Fraction:
    """Return the share of what is allowed that is used."""
    if not used:
        return ZERO
    return Fraction(used) / allowed if allowed else DISALLOWED_SHARE


@dataclass(frozen=True, eq=False, slots=True)
class MechanismReplay:
    """One mechanism: its inputs on both tables, the shares of what is declared, by name, and the loss."""

    label: str
    mechanism: str
    first_inputs: Inputs
    second_inputs: Inputs
    shares: Mapping[str, Fraction]
    observed_loss: ObservedLoss = ObservedLoss()
    note: str = ""

    @property
    def largest_share(self) -> Fraction:
        """The largest share of what is declared."""
        return max(self.shares.values(), default=ZERO)

    @property
    def changed_cells(self) -> list[Hashable]:
        """The cells whose inputs differ."""
        return [
            cell
            for cell in {**self.first_inputs, **self.second_inputs}
            if not is_same_input(self.first_inputs.get(cell), self.second_inputs.get(cell))
        ]

    def format_line(self) -> str:
        """Return label, mechanism, shares and note in one line."""
        shares = [f"{name} {format_share(used)}" for name, used in self.shares.items()]
        return ": ".join(filter(None, (self.label, self.mechanism, ", ".join(filter(None, [*shares, self.note])))))

    def format_inputs(self) -> list[str]:
        """Return the first inputs that differ, one a line."""
        cells, lines = self.changed_cells, []
        for cell in cells[:MAX_INPUTS_SHOWN]:
            pair = self.first_inputs.get(cell), self.second_inputs.get(cell)
            first, second = (value.tolist() if isinstance(value, np.ndarray) else value for value in pair)
            lines.append(f"{cell}: {first} and {second}")
        return lines + ([f"and {len(cells) - MAX_INPUTS_SHOWN} more"] if len(cells) > MAX_INPUTS_SHOWN else [])


@dataclass(frozen=True, eq=False, slots=True)
class Replay:
    """One question or release on two neighbouring tables.

    `totals` are the shares that all mechanisms together use of what is promised.
    """

    question: str
    guarantee: Guarantee
    mechanisms: tuple[MechanismReplay, ...]
    totals: Mapping[str, Fraction]

    @property
    def observed_loss(self) -> ObservedLoss:
        """The loss of all mechanisms together, on these two tables."""
        return ObservedLoss.total(mechanism.observed_loss for mechanism in self.mechanisms)

    @property
    def largest_share(self) -> Fraction:
        """The largest share of anything that is declared or promised: at most 1 where all is well."""
        return max((*(mechanism.largest_share for mechanism in self.mechanisms), *self.totals.values()), default=ZERO)

    @property
    def ok(self) -> bool:
        """Whether nothing moved by more than declared. It is one pair of tables: no proof of anything."""
        return self.largest_share <= 1

    @property
    def violations(self) -> tuple[str, ...]:
        """A line for each mechanism and total that uses more than is declared."""
        lines = [mechanism.format_line() for mechanism in self.mechanisms if mechanism.largest_share > 1]
        return (*lines, *(self._format_total(name) for name, used in self.totals.items() if used > 1))

    def _format_total(self, name: str) -> str:
        return f"together, {name}: {format_share(self.totals[name])} of what is promised"

    def table(self) -> str:
        """Return the replay as text."""
        lines = [self.question, f"promised: {self.guarantee.words()}"]
        for mechanism in self.mechanisms:
            lines += [f"  {mechanism.format_line()}", *(f"    {line}" for line in mechanism.format_inputs())]
        lines += [f"  {self._format_total(name)}" for name in self.totals]
        verdict = "no more than declared" if self.ok else "MORE THAN DECLARED"
        return "\n".join([*lines, f"worst: {format_share(self.largest_share)}, {verdict} on these two tables"])


def is_same_input(value: object, other: object) -> bool:
    """Whether two inputs are equal, arrays cell by cell."""
    if isinstance(value, np.ndarray) and isinstance(other, np.ndarray):
        return bool(np.array_equal(value, other))
    return value is other or (type(value) is type(other) and value == other)


def format_share(used: Fraction) -> str:
    """Format a share, never as 100 % where it is more or less than all."""
    if used in (0, 1):
        return f"{int(used) * 100} %"
    if used >= DISALLOWED_SHARE:
        return "far too much"
    number = format_number(100 * used)
    about = "just " + ("above" if used > 1 else "below") + " " if number == "100" else ""
    return f"{about}{number} %" + (f" ({used})" if used.denominator <= MAX_DENOMINATOR else "")


def _choose_differing_point(distribution: SplitDistribution, differ: IntegerArray) -> int:
    """In the middle of the rows at a point where the tables differ, or next to it."""
    index = np.searchsorted(distribution.places, differ[len(differ) // 2])
    return int(min(index, len(distribution.places) - 1)) * (SLOTS + 1) + SLOTS // 2


SPLIT_RULES: tuple[SplitRule, ...] = (
    lambda _, __: 0,
    lambda distribution, _: len(distribution.scores) - 1,
    lambda distribution, _: int(distribution.scores.argmax()),
    _choose_differing_point,
)
"""As many rows as possible go right, or left; the likeliest candidate; one at a point where the tables differ."""


def follow_splits(
    choice: Quantiles, first_counts: IntegerArray, second_counts: IntegerArray
) -> Iterator[list[tuple[SplitDistribution, SplitDistribution]]]:
    """Yield all choices on both tables, for each of a few ways in which they may come out.

    One rule decides the first choice and another all that follow; nothing depends on the outcomes of the last.
    """
    differ = np.flatnonzero(first_counts != second_counts)
    cache: SplitCache = {}
    for first, later in product(SPLIT_RULES, SPLIT_RULES if choice.depth > 2 else SPLIT_RULES[:1]):
        walk = _SplitWalk(differ, (first, later), [], [], cache)
        distributions = [_list_split_distributions(choice, counts, walk) for counts in (first_counts, second_counts)]
        yield list(zip(*distributions, strict=True))


@dataclass(frozen=True, eq=False, slots=True)
class _SplitWalk:
    """Chooses the outcomes on the first table, and repeats them on the second."""

    differ: IntegerArray
    rules: tuple[SplitRule, SplitRule]
    outcomes: list[tuple[int, int]]
    distributions: list[SplitDistribution]
    cache: SplitCache
    """The choices between the same rows, which several walks share."""

    def step(self, distribution: SplitDistribution) -> tuple[int, int]:
        index = len(self.distributions)
        self.distributions.append(distribution)
        if index == len(self.outcomes):
            self.outcomes.append(distribution.get_cell(self.rules[index > 0](distribution, self.differ)))
        return self.outcomes[index]


def _list_split_distributions(choice: Quantiles, counts: IntegerArray, walk: _SplitWalk) -> list[SplitDistribution]:
    """The choices on one table, in the order in which they are made."""
    parameters = {field.name: getattr(choice, field.name) for field in fields(Quantiles)}
    mechanism = _FollowedQuantiles(**parameters, walk=walk)
    mechanism.answer_counts(counts)
    distributions = walk.distributions[:]
    walk.distributions.clear()
    return distributions


@dataclass(frozen=True, eq=False)
class _FollowedQuantiles(Quantiles):
    """The mechanism itself, but its samples are decided by the walk."""

    walk: _SplitWalk

    def split_distribution(self, counts: IntegerArray, span: tuple[int, int], q: Fraction) -> SplitDistribution:
        cache, cache_key = self.walk.cache, (counts.tobytes(), span, q)
        if cache_key not in cache:
            cache[cache_key] = super().split_distribution(counts, span, q)
        split = cache[cache_key]
        return _DecidedSplit(split.places, split.scores, split.selection, split.base, self.walk)


@dataclass(frozen=True, eq=False)
class _DecidedSplit(SplitDistribution):
    """A choice whose outcome is decided by the walk."""

    walk: _SplitWalk

    def sample(self, _: Entropy) -> tuple[int, int]:
        return self.walk.step(self)


@dataclass(frozen=True, slots=True)
class InputChange:
    """The shares of what is declared, by name, and the loss of one mechanism."""

    shares: Mapping[str, Fraction]
    observed_loss: ObservedLoss
    note: str = ""


def pair_inputs(inputs: Inputs, other_inputs: Inputs, empty: object) -> InputPairs:
    """Pair the inputs of the cells in which they differ; private keys may be in one table only."""
    pairs = [(inputs.get(cell, empty), other_inputs.get(cell, empty)) for cell in {**inputs, **other_inputs}]
    return [pair for pair in pairs if not is_same_input(*pair)]


def compute_input_change(measurement: Measurement, schema: Schema, inputs: Inputs, other_inputs: Inputs) -> InputChange:
    """Return the shares and the loss of any measurement of a plan."""

    def pair(empty: object) -> InputPairs:
        return pair_inputs(inputs, other_inputs, empty)

    match measurement:
        case AdditiveNoise():
            return _compute_additive_change(measurement, pair((0,) * len(measurement.linear_query.components)))
        case HierarchicalHistogram():
            return _compute_hierarchical_change(measurement, list(inputs.values()), list(other_inputs.values()))
        case RefinedTotal():
            query, zeros = measurement.linear_query, (0,) * len(measurement.linear_query.components)
            values = [[query.estimate.value(totals) for totals in totals_pair] for totals_pair in pair(zeros)]
            return _compute_refinement_change(values, measurement.refinement.cost().epsilon)
        case CandidateSelection():
            no_rows = np.zeros(measurement.candidates.count, np.int64)
            return _compute_selection_change(measurement, schema, pair(no_rows))
        case UnitQuery():
            truths = [[measurement.find_truth(code) for code in codes] for codes in pair(None)]
            return _compute_refinement_change(truths, measurement.position_refinement.refinement.cost().epsilon)
        case OrderStatistic():
            return _compute_order_statistic_change(measurement, pair(np.zeros(measurement.candidates.count, np.int64)))
        case PublicConstant() | ThresholdedCount():  # read nothing more: public, or covered by the threshold
            return InputChange({}, ObservedLoss())
    raise Internal(f"{type(measurement).__name__} is not replayed")


def compute_noise_loss(noise: Noise, moves: Iterable[int]) -> ObservedLoss:
    """Return what independent samples of a noise lose whose totals move so far."""
    sizes = [abs(int(move)) for move in moves if move]
    if isinstance(noise, DiscreteGaussian):
        return ObservedLoss(gaussian_rho=sum((size**2 / (2 * noise.square) for size in sizes), ZERO))
    return ObservedLoss.total(ObservedLoss.pure(noise.guarantee(size, "add-remove").epsilon or ZERO) for size in sizes)


def compute_vector_loss(
    noise: IndependentNoises | BoxStaircase | PolygonStaircase, moves: Sequence[Sequence[int]]
) -> ObservedLoss:
    """Return the same for noise on several numbers at once, one sample for each cell."""
    if not isinstance(noise, IndependentNoises):
        return ObservedLoss.total(ObservedLoss.pure(noise.epsilon_at(cell)) for cell in moves)
    columns = zip(noise.noises, zip(*moves, strict=True), strict=True) if moves else ()
    return ObservedLoss.total(compute_noise_loss(component_noise, column) for component_noise, column in columns)


def compute_selection_loss(selection: Selection, scores: IntegerArray, other_scores: IntegerArray) -> ObservedLoss:
    """Return what a choice loses whose scores change: in proportion to how far two of them move apart."""
    step = selection.step.numerator  # whole scores have whole steps
    change = other_scores // step - scores // step
    return ObservedLoss.pure(selection.epsilon * Fraction(int(change.max() - change.min()), selection.spread))


def compute_threshold_change(
    threshold: Threshold, schema: Schema, key_counts: Mapping[str, int], other_key_counts: Mapping[str, int]
) -> InputChange:
    """Return the shares and the loss of private keys: units that differ, keys of one table only, units of such a key.

    A key of one table only costs the probability that it is shown; of both tables the larger delta counts.
    """
    max_changes = schema.rows * (2 if schema.neighbors == "replace-one" else 1)
    common = [key_counts[key] - other_key_counts[key] for key in key_counts if key in other_key_counts]
    unshared_counts = [
        [mine[key] for key in mine if key not in other]
        for mine, other in ((key_counts, other_key_counts), (other_key_counts, key_counts))
    ]
    total_change = sum(map(abs, common)) + sum(map(sum, unshared_counts))
    shares = {
        "units": compute_share(total_change, max_changes),
        "keys of one table": compute_share(max(map(len, unshared_counts)), schema.rows),
        "units of such a key": Fraction(max(map(max, filter(None, unshared_counts)), default=0)),
    }
    delta = max(sum((_bound_key_probability(threshold, count) for count in counts), ZERO) for counts in unshared_counts)
    return InputChange(shares, compute_noise_loss(threshold.noise, common) + ObservedLoss(delta=delta))


def _bound_key_probability(threshold: Threshold, count: int) -> Fraction:
    """An upper bound on the probability that a key of so many units is shown."""
    rate, needed = threshold.noise.rate, threshold.min_count - count
    if needed < 1:
        return Fraction(1)
    return exp_above(-rate * needed, EXP_BITS) / (1 + exp_below(-rate, EXP_BITS))


def _compute_additive_change(measurement: AdditiveNoise, pairs: InputPairs) -> InputChange:
    """Over all cells and components, |change| / l1_sensitivity and change^2 / l2_sensitivity_sq sum to at most 1."""
    moves = [[x - y for x, y in zip(*pair, strict=True)] for pair in pairs]
    parts = measurement.linear_query.components
    columns = zip(*moves, strict=True) if moves else [()] * len(parts)
    moved_columns = [(column, part) for column, part in zip(columns, parts, strict=True) if any(column)]
    changes = [Fraction(sum(map(abs, column))) / part.l1_sensitivity for column, part in moved_columns]
    squares = [Fraction(sum(move**2 for move in column)) / part.l2_sensitivity_sq for column, part in moved_columns]
    shares = {"changes": sum(changes, ZERO), "squares": sum(squares, ZERO)}
    return InputChange(shares, compute_vector_loss(measurement.noise, moves))


def _compute_hierarchical_change(
    measurement: HierarchicalHistogram, inputs: Sequence[Sequence[int]], other_inputs: Sequence[Sequence[int]]
) -> InputChange:
    """What one unit moves is declared of each level; the losses of all levels add up."""
    moves: list[list[int]] = [[] for _ in measurement.measured_levels]
    levels_of_cell: dict[int, list[int]] = {}
    for number, level in enumerate(measurement.measured_levels):
        for start in level.starts.tolist():
            levels_of_cell.setdefault(start, []).append(number)
    for cell, numbers in levels_of_cell.items():
        for number, count, other_count in zip(numbers, inputs[cell], other_inputs[cell], strict=True):
            moves[number].append(count - other_count)
    noises = [level.noise for level in measurement.measured_levels if level.noise is not None]
    return InputChange({}, ObservedLoss.total(map(compute_noise_loss, noises, moves)), BY_LEVEL_NOTE)


def _compute_refinement_change(truths: Iterable[Sequence[object]], epsilon: Fraction | None) -> InputChange:
    """A refinement holds for any two truths, near or far: each cell whose truth differs loses all of its epsilon."""
    losses = (ObservedLoss.pure(epsilon or ZERO) for truth, other_truth in truths if truth != other_truth)
    return InputChange({}, ObservedLoss.total(losses), ANY_TRUTH_NOTE)


def _compute_order_statistic_change(measurement: OrderStatistic, pairs: InputPairs) -> InputChange:
    """How far the statistic moves, against the noise that the first table gets, and that the second gets."""
    if not pairs:
        return InputChange({}, ObservedLoss(), INDIVIDUAL_DP_NOTE)
    vector = measurement.mechanism.vector
    tables = [vector.grid.to_units(measurement.pad_positions(counts)) for counts in pairs[0]]
    exact = [int(np.sort(values)[find_rank(vector.whats[0], len(values)) - 1]) for values in tables]
    losses = [compute_noise_loss(build_local_noise(vector, values), [exact[0] - exact[1]]) for values in tables]
    return InputChange({}, max(losses, key=lambda loss: loss.epsilon), INDIVIDUAL_DP_NOTE)


def _compute_selection_change(measurement: CandidateSelection, schema: Schema, pairs: InputPairs) -> InputChange:
    """The rows of one unit move, or of two where it is replaced; scores follow from these counts."""
    max_changes = schema.rows * (2 if schema.neighbors == "replace-one" else 1)
    total_change = sum(int(np.abs(counts - other_counts).sum()) for counts, other_counts in pairs)
    loss = ObservedLoss.total(_compute_choice_loss(measurement, *pair) for pair in pairs)
    # The losses of the exponential mechanism span epsilon only, hence a quarter of the rho (measurements/selection.md).
    exponential = measurement.uses_prior and isinstance(measurement.mechanism, Quantile | Quantiles | Mode)
    is_quartered = exponential and measurement.bracket_mechanism is None
    note = FEW_SPLITS_NOTE if isinstance(measurement.mechanism, Quantiles) else ""
    loss = ObservedLoss(loss.epsilon, loss.rho / 4) if is_quartered else loss
    return InputChange({"rows": compute_share(total_change, max_changes)}, loss, note)


def _compute_choice_loss(
    measurement: CandidateSelection, counts: IntegerArray, other_counts: IntegerArray
) -> ObservedLoss:
    """The loss in one cell: of the choice itself, and of the two ends sampled around it."""
    bracket, loss = measurement.bracket_mechanism, _compute_point_loss(measurement, counts, other_counts)
    if bracket is None:
        return loss
    for end in INTERVAL_ENDS:
        scores = bracket.scores(counts, end), bracket.scores(other_counts, end)
        loss += compute_selection_loss(bracket.mechanism.selection, *scores)
    return loss


def _compute_point_loss(
    measurement: CandidateSelection, counts: IntegerArray, other_counts: IntegerArray
) -> ObservedLoss:
    choice = measurement.mechanism
    match choice:
        case Quantile():
            base = slice(None) if choice.candidates.prior is None else choice.candidates.prior.index
            scores = [compute_rank_scores(table_counts, choice.q)[base] for table_counts in (counts, other_counts)]
            return compute_selection_loss(choice.selection, *scores)
        case Extreme():
            scores = [choice.scores(counts), choice.scores(other_counts)]
            return compute_selection_loss(choice.mechanism.selection, *scores)
        case Mode():
            base = slice(None) if choice.prior is None else choice.prior.index
            return compute_selection_loss(choice.selection, counts[base], other_counts[base])
        case RefinedStatistic():
            truths = choice.find_truth(counts), choice.find_truth(other_counts)
            epsilon = choice.position_refinement.refinement.cost().epsilon
            return _compute_refinement_change([truths], epsilon).observed_loss
        case RankMean():
            move = choice.ranks.sum_positions(counts) - choice.ranks.sum_positions(other_counts)
            return compute_noise_loss(choice.noise, [move])
        case Quantiles():  # the losses of all choices add up; the worst of a few ways in which they come out
            losses = [
                ObservedLoss.total(
                    compute_selection_loss(split.selection, split.scores, other_split.scores)
                    for split, other_split in splits
                )
                for splits in follow_splits(choice, counts, other_counts)
            ]
            return max(losses, key=lambda loss: loss.epsilon)
    raise Internal(f"a choice by {type(choice).__name__} is not replayed")
