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
from discreet.kernel.bracket import BracketEnd
from discreet.kernel.discrete_gaussian import DiscreteGaussian
from discreet.kernel.extreme import Extreme
from discreet.kernel.individual import build_local_noise
from discreet.kernel.noise import IndependentNoises, Noise
from discreet.kernel.order_statistic import find_rank
from discreet.kernel.polygon_staircase import PolygonStaircase
from discreet.kernel.quantile import Quantile, Quantiles, SplitDistribution, compute_rank_scores
from discreet.kernel.scores import Selection
from discreet.planner.chosen import CandidateSelection, Mode, RefinedStatistic
from discreet.planner.individual import OrderStatistic, UnitQuery
from discreet.planner.nested import HierarchicalHistogram
from discreet.planner.noisy import AdditiveNoise
from discreet.planner.plan import Measurement, PublicConstant, ThresholdedCount
from discreet.planner.ranks import RankMean
from discreet.planner.refined import RefinedTotal
from discreet.planner.threshold import EXP_BITS, Threshold
from discreet.schema import Schema
from discreet.testing.recorded import ZERO, Inputs, ObservedLoss, compute_share, is_same_input
from discreet.testing.splits import follow_splits

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
    max_changes = schema.rows * (2 if schema.neighbours == "replace-one" else 1)
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
    max_changes = schema.rows * (2 if schema.neighbours == "replace-one" else 1)
    total_change = sum(int(np.abs(counts - other_counts).sum()) for counts, other_counts in pairs)
    loss = sum(
        (_compute_choice_loss(measurement, counts, other_counts) for counts, other_counts in pairs), ObservedLoss()
    )
    # The losses of the exponential mechanism span epsilon only, hence a quarter of the rho (planner/chosen.md).
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
