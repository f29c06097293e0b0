"""What mechanisms received on two neighboring tables, and what that loses.

That is what adaptive composition compares. The mechanism parts the rows itself; only what it draws is decided here.
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
Inputs = Mapping[Any, Any]
"""By the cell, block or level they belong to."""


@dataclass(frozen=True, slots=True)
class ObservedLoss:
    """What a pair of tables loses: as a `Spend`, but of any size, so that what is far too much can be told."""

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


def compute_share(used: Fraction | int, allowed: Fraction | int) -> Fraction:
    """Of what is allowed."""
    if not used:
        return ZERO
    return Fraction(used) / allowed if allowed else DISALLOWED_SHARE


@dataclass(frozen=True, eq=False, slots=True)
class MechanismReplay:
    """One mechanism: what it was handed on either table, the shares of what is declared, by name, and what is lost."""

    label: str
    mechanism: str
    first_inputs: Inputs
    second_inputs: Inputs
    shares: Mapping[str, Fraction]
    observed_loss: ObservedLoss = ObservedLoss()
    note: str = ""

    @property
    def largest_share(self) -> Fraction:
        """The largest."""
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
        """One line."""
        details = ", ".join(
            [*(f"{name} {format_share(used)}" for name, used in self.shares.items()), *filter(None, [self.note])]
        )
        return ": ".join(filter(None, (self.label, self.mechanism, details)))

    def format_inputs(self) -> list[str]:
        """The first inputs that differ, one a line."""
        cells = self.changed_cells
        lines = [
            f"{cell}: {convert_input(self.first_inputs.get(cell))} and {convert_input(self.second_inputs.get(cell))}"
            for cell in cells[:MAX_INPUTS_SHOWN]
        ]
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
        """By all mechanisms together, on these two tables."""
        return sum((mechanism.observed_loss for mechanism in self.mechanisms), ObservedLoss())

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
        """What is more than declared, in words."""
        lines = [mechanism.format_line() for mechanism in self.mechanisms if mechanism.largest_share > 1]
        return (*lines, *(self._format_total(name) for name, used in self.totals.items() if used > 1))

    def _format_total(self, name: str) -> str:
        return f"together, {name}: {format_share(self.totals[name])} of what is promised"

    def table(self) -> str:
        """All of it, as people read it."""
        lines = [self.question, f"promised: {self.guarantee.words()}"]
        for mechanism in self.mechanisms:
            lines += [f"  {mechanism.format_line()}", *(f"    {line}" for line in mechanism.format_inputs())]
        lines += [f"  {self._format_total(name)}" for name in self.totals]
        verdict = "no more than declared" if self.ok else "MORE THAN DECLARED"
        return "\n".join([*lines, f"worst: {format_share(self.largest_share)}, {verdict} on these two tables"])


def is_same_input(value: object, other: object) -> bool:
    """Whether two inputs are alike, arrays cell by cell."""
    if isinstance(value, np.ndarray) and isinstance(other, np.ndarray):
        return bool(np.array_equal(value, other))
    return value is other or (type(value) is type(other) and value == other)


def convert_input(value: object) -> object:
    """An input as people read it."""
    return value.tolist() if isinstance(value, np.ndarray) else value


def format_share(used: Fraction) -> str:
    """A share, never shown as 100 % where it is more or less than all."""
    if used in (0, 1):
        return f"{int(used) * 100} %"
    if used >= DISALLOWED_SHARE:
        return "far too much"
    number = format_number(100 * used)
    about = "just " + ("above" if used > 1 else "below") + " " if number == "100" else ""
    return f"{about}{number} %" + (f" ({used})" if used.denominator <= MAX_DENOMINATOR else "")


CandidateCounts = NDArray[np.int64]
SplitCache = dict[tuple[bytes, tuple[int, int], Fraction], SplitDistribution]
"""By the rows that are parted, the points among which, and the share that goes left."""
SplitRule = Callable[[SplitDistribution, CandidateCounts], int]
"""Which candidate comes out, from the choice on the first table and the points where the tables differ."""


def _choose_first(_: SplitDistribution, __: CandidateCounts) -> int:
    """As many rows as can be go right."""
    return 0


def _choose_last(distribution: SplitDistribution, _: CandidateCounts) -> int:
    """As many rows as can be go left."""
    return len(distribution.scores) - 1


def _choose_likeliest(distribution: SplitDistribution, _: CandidateCounts) -> int:
    """The likeliest."""
    return int(distribution.scores.argmax())


def _choose_differing_point(distribution: SplitDistribution, differ: CandidateCounts) -> int:
    """In the middle of the rows at a point where the tables differ, or next to it."""
    index = np.searchsorted(distribution.places, differ[len(differ) // 2])
    return int(min(index, len(distribution.places) - 1)) * (SLOTS + 1) + SLOTS // 2


SPLIT_RULES: tuple[SplitRule, ...] = (_choose_first, _choose_last, _choose_likeliest, _choose_differing_point)


def follow_splits(
    choice: Quantiles, first_counts: CandidateCounts, second_counts: CandidateCounts
) -> Iterator[list[tuple[SplitDistribution, SplitDistribution]]]:
    """All choices on both tables, for each of a few ways in which they may come out.

    One rule decides the first choice and another all that follow; the last ones of all decide nothing more.
    """
    differ = np.flatnonzero(first_counts != second_counts)
    cache: SplitCache = {}
    for first, later in product(SPLIT_RULES, SPLIT_RULES if choice.depth > 2 else SPLIT_RULES[:1]):
        walk = _SplitWalk(differ, (first, later), [], [], cache)
        distributions = [_list_split_distributions(choice, counts, walk) for counts in (first_counts, second_counts)]
        yield list(zip(*distributions, strict=True))


@dataclass(frozen=True, eq=False, slots=True)
class _SplitWalk:
    """What came out on the first table comes out on the second too."""

    differ: CandidateCounts
    rules: tuple[SplitRule, SplitRule]
    outcomes: list[tuple[int, int]]
    distributions: list[SplitDistribution]
    cache: SplitCache
    """The choices between the same rows, which several ways come to."""

    def step(self, distribution: SplitDistribution) -> tuple[int, int]:
        """What comes out next."""
        index = len(self.distributions)
        self.distributions.append(distribution)
        if index == len(self.outcomes):
            self.outcomes.append(distribution.get_cell(self.rules[index > 0](distribution, self.differ)))
        return self.outcomes[index]


def _list_split_distributions(choice: Quantiles, counts: CandidateCounts, walk: _SplitWalk) -> list[SplitDistribution]:
    """The choices on one table, in the order in which they are made."""
    mechanism = _FollowedQuantiles(
        **{field.name: getattr(choice, field.name) for field in fields(Quantiles)}, walk=walk
    )
    mechanism.answer_counts(counts)
    distributions = walk.distributions[:]
    walk.distributions.clear()
    return distributions


@dataclass(frozen=True, eq=False)
class _FollowedQuantiles(Quantiles):
    """The mechanism itself, but that its draws are decided."""

    walk: _SplitWalk

    def split_distribution(self, counts: CandidateCounts, span: tuple[int, int], q: Fraction) -> SplitDistribution:
        cache_key = (counts.tobytes(), span, q)
        distribution = self.walk.cache.get(cache_key) or self.walk.cache.setdefault(
            cache_key, super().split_distribution(counts, span, q)
        )
        return _DecidedSplit(
            distribution.places, distribution.scores, distribution.selection, distribution.base, self.walk
        )


@dataclass(frozen=True, eq=False)
class _DecidedSplit(SplitDistribution):
    """One of its choices."""

    walk: _SplitWalk

    def sample(self, _: Entropy) -> tuple[int, int]:
        return self.walk.step(self)


INDIVIDUAL_DP_NOTE = (
    "individual DP: weaker, not for groups, its noise follows the data; the distance is of this table alone"
)
ANY_TRUTH_NOTE = "it holds for any two truths"
BY_LEVEL_NOTE = "each level has noise of its own"
FEW_SPLITS_NOTE = "over a few of the ways in which the rows may be parted"
INTERVAL_ENDS: tuple[BracketEnd, BracketEnd] = ("low", "high")
IntegerArray = NDArray[np.int64]
InputPairs = list[tuple[Any, Any]]
"""The inputs of one mechanism on both tables, for each cell in which they differ."""


@dataclass(frozen=True, slots=True)
class InputChange:
    """The shares of what is declared, by name; and what the move loses."""

    shares: Mapping[str, Fraction]
    observed_loss: ObservedLoss
    note: str = ""


def pair_inputs(inputs: Inputs, other_inputs: Inputs, empty: object) -> InputPairs:
    """Cell by cell, where they differ; keys that are not public may be in one table only."""
    pairs = [(inputs.get(cell, empty), other_inputs.get(cell, empty)) for cell in {**inputs, **other_inputs}]
    return [pair for pair in pairs if not is_same_input(*pair)]


def compute_input_change(measurement: Measurement, schema: Schema, inputs: Inputs, other_inputs: Inputs) -> InputChange:
    """For whatever a plan measures."""
    match measurement:
        case AdditiveNoise():
            return _compute_additive_change(
                measurement, pair_inputs(inputs, other_inputs, (0,) * len(measurement.linear_query.components))
            )
        case HierarchicalHistogram():
            return _compute_hierarchical_change(measurement, list(inputs.values()), list(other_inputs.values()))
        case RefinedTotal():
            zeros = (0,) * len(measurement.linear_query.components)
            values = [
                [measurement.linear_query.estimate.value(totals) for totals in pair]
                for pair in pair_inputs(inputs, other_inputs, zeros)
            ]
            return _compute_refinement_change(values, measurement.refinement.cost().epsilon)
        case CandidateSelection():
            return _compute_selection_change(
                measurement, schema, pair_inputs(inputs, other_inputs, np.zeros(measurement.candidates.count, np.int64))
            )
        case UnitQuery():
            truths = [
                [measurement.find_truth(code) for code in pair] for pair in pair_inputs(inputs, other_inputs, None)
            ]
            return _compute_refinement_change(truths, measurement.position_refinement.refinement.cost().epsilon)
        case OrderStatistic():
            return _compute_order_statistic_change(
                measurement, pair_inputs(inputs, other_inputs, np.zeros(measurement.candidates.count, np.int64))
            )
        case PublicConstant() | ThresholdedCount():  # read nothing more: public, or told by the threshold already
            return InputChange({}, ObservedLoss())
    raise Internal(f"{type(measurement).__name__} is not replayed")


def compute_noise_loss(noise: Noise, moves: Iterable[int]) -> ObservedLoss:
    """What independent draws of a noise lose where their totals are moved so far."""
    sizes = [abs(int(move)) for move in moves if move]
    if isinstance(noise, DiscreteGaussian):
        return ObservedLoss(gaussian_rho=sum((size**2 / (2 * noise.square) for size in sizes), ZERO))
    return sum(
        (ObservedLoss.pure(noise.guarantee(size, "add-remove").epsilon or ZERO) for size in sizes), ObservedLoss()
    )


def compute_vector_loss(
    noise: IndependentNoises | BoxStaircase | PolygonStaircase, moves: Sequence[Sequence[int]]
) -> ObservedLoss:
    """The same for noise of several numbers at once, one draw for each cell."""
    if not isinstance(noise, IndependentNoises):
        return sum((ObservedLoss.pure(noise.epsilon_at(cell)) for cell in moves), ObservedLoss())
    columns = zip(noise.noises, zip(*moves, strict=True), strict=True) if moves else ()
    return sum((compute_noise_loss(component_noise, column) for component_noise, column in columns), ObservedLoss())


def compute_selection_loss(selection: Selection, scores: IntegerArray, other_scores: IntegerArray) -> ObservedLoss:
    """What a choice loses whose scores go from these to those: in proportion to how far two of them move apart."""
    step = selection.step.numerator  # whole scores have whole steps
    change = other_scores // step - scores // step
    return ObservedLoss.pure(selection.epsilon * Fraction(int(change.max() - change.min()), selection.spread))


def compute_threshold_change(
    threshold: Threshold, schema: Schema, key_counts: Mapping[str, int], other_key_counts: Mapping[str, int]
) -> InputChange:
    """Keys that are not public: how many units differ, how many keys are in one table only, and at most one unit each.

    A key of its own is shown with the chance that its noise passes the threshold; the greater of both sides counts.
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
    """At most the chance that a key of so many units is shown."""
    rate, needed = threshold.noise.rate, threshold.min_count - count
    if needed < 1:
        return Fraction(1)
    return exp_above(-rate * needed, EXP_BITS) / (1 + exp_below(-rate, EXP_BITS))


def _compute_additive_change(measurement: AdditiveNoise, pairs: InputPairs) -> InputChange:
    """Over all cells and components |change| / scale adds up to at most 1, and change^2 / square too."""
    moves = [[x - y for x, y in zip(*pair, strict=True)] for pair in pairs]
    parts = measurement.linear_query.components
    columns = zip(*moves, strict=True) if moves else [()] * len(parts)
    moved_columns = [(column, part) for column, part in zip(columns, parts, strict=True) if any(column)]
    shares = {
        "changes": sum((Fraction(sum(map(abs, column))) / part.l1_sensitivity for column, part in moved_columns), ZERO),
        "squares": sum(
            (Fraction(sum(move**2 for move in column)) / part.l2_sensitivity_sq for column, part in moved_columns), ZERO
        ),
    }
    return InputChange(shares, compute_vector_loss(measurement.noise, moves))


def _compute_hierarchical_change(
    measurement: HierarchicalHistogram, inputs: Sequence[Sequence[int]], other_inputs: Sequence[Sequence[int]]
) -> InputChange:
    """What one unit moves is declared of each level; the losses of all levels add up."""
    levels: list[list[int]] = [[] for _ in measurement.measured_levels]
    starting: dict[int, list[int]] = {}
    for number, level in enumerate(measurement.measured_levels):
        for start in level.starts.tolist():
            starting.setdefault(start, []).append(number)
    for cell, numbers in starting.items():
        for number, x, y in zip(numbers, inputs[cell], other_inputs[cell], strict=True):
            levels[number].append(x - y)
    noises = [level.noise for level in measurement.measured_levels if level.noise is not None]
    loss = sum((compute_noise_loss(noise, moves) for noise, moves in zip(noises, levels, strict=True)), ObservedLoss())
    return InputChange({}, loss, BY_LEVEL_NOTE)


def _compute_refinement_change(truths: Iterable[Sequence[object]], epsilon: Fraction | None) -> InputChange:
    """A refinement holds for any two truths, near or far: each cell whose truth differs loses all of its epsilon."""
    differing_count = sum(truth != other_truth for truth, other_truth in truths)
    return InputChange(
        {}, sum((ObservedLoss.pure(epsilon or ZERO) for _ in range(differing_count)), ObservedLoss()), ANY_TRUTH_NOTE
    )


def _compute_order_statistic_change(measurement: OrderStatistic, pairs: InputPairs) -> InputChange:
    """How far the statistic is on a neighbour, against the noise that the one table gets, either of them being it."""
    if not pairs:
        return InputChange({}, ObservedLoss(), INDIVIDUAL_DP_NOTE)
    vector = measurement.mechanism.vector
    tables = [vector.grid.to_units(measurement.pad_positions(counts)) for counts in pairs[0]]
    exact = [int(np.sort(values)[find_rank(vector.whats[0], len(values)) - 1]) for values in tables]
    losses = [compute_noise_loss(build_local_noise(vector, values), [exact[0] - exact[1]]) for values in tables]
    return InputChange({}, max(losses, key=lambda loss: loss.epsilon), INDIVIDUAL_DP_NOTE)


def _compute_selection_change(measurement: CandidateSelection, schema: Schema, pairs: InputPairs) -> InputChange:
    """As many rows move as one unit has, or twice that where it is replaced; scores follow from these counts."""
    max_changes = schema.rows * (2 if schema.neighbors == "replace-one" else 1)
    total_change = sum(int(np.abs(counts - other_counts).sum()) for counts, other_counts in pairs)
    loss = sum(
        (_compute_choice_loss(measurement, counts, other_counts) for counts, other_counts in pairs), ObservedLoss()
    )
    # The losses of the exponential mechanism span epsilon only, hence a quarter of the rho (measurements/selection.md).
    exponential = measurement.uses_prior and isinstance(measurement.mechanism, Quantile | Quantiles | Mode)
    is_quartered = exponential and measurement.bracket_mechanism is None
    note = FEW_SPLITS_NOTE if isinstance(measurement.mechanism, Quantiles) else ""
    return InputChange(
        {"rows": compute_share(total_change, max_changes)},
        ObservedLoss(loss.epsilon, loss.rho / 4) if is_quartered else loss,
        note,
    )


def _compute_choice_loss(
    measurement: CandidateSelection, counts: IntegerArray, other_counts: IntegerArray
) -> ObservedLoss:
    """Of one cell: the choice itself, and the two ends drawn about it."""
    around, loss = measurement.bracket_mechanism, _compute_point_loss(measurement, counts, other_counts)
    if around is None:
        return loss
    low, high = ([around.scores(table_counts, end) for table_counts in (counts, other_counts)] for end in INTERVAL_ENDS)
    return sum((compute_selection_loss(around.mechanism.selection, *pair) for pair in (low, high)), loss)


def _compute_point_loss(
    measurement: CandidateSelection, counts: IntegerArray, other_counts: IntegerArray
) -> ObservedLoss:
    choice = measurement.mechanism
    match choice:
        case Quantile():
            base = slice(None) if choice.candidates.prior is None else choice.candidates.prior.index
            return compute_selection_loss(
                choice.selection,
                *(compute_rank_scores(table_counts, choice.q)[base] for table_counts in (counts, other_counts)),
            )
        case Extreme():
            return compute_selection_loss(
                choice.mechanism.selection, choice.scores(counts), choice.scores(other_counts)
            )
        case Mode():
            base = slice(None) if choice.prior is None else choice.prior.index
            return compute_selection_loss(choice.selection, counts[base], other_counts[base])
        case RefinedStatistic():
            cost = choice.position_refinement.refinement.cost().epsilon
            return _compute_refinement_change(
                [(choice.find_truth(counts), choice.find_truth(other_counts))], cost
            ).observed_loss
        case RankMean():
            return compute_noise_loss(
                choice.noise, [choice.ranks.sum_positions(counts) - choice.ranks.sum_positions(other_counts)]
            )
        case Quantiles():
            return _compute_quantiles_loss(choice, counts, other_counts)
    raise Internal(f"a choice by {type(choice).__name__} is not replayed")


def _compute_quantiles_loss(choice: Quantiles, counts: IntegerArray, other_counts: IntegerArray) -> ObservedLoss:
    """The losses of all choices add up, where they come out alike; the worst of a few ways in which they do."""
    return max(
        (_sum_split_losses(distributions) for distributions in follow_splits(choice, counts, other_counts)),
        key=lambda loss: loss.epsilon,
    )


def _sum_split_losses(distributions: Iterable[tuple[SplitDistribution, SplitDistribution]]) -> ObservedLoss:
    return sum(
        (compute_selection_loss(mine.selection, mine.scores, theirs.scores) for mine, theirs in distributions),
        ObservedLoss(),
    )
