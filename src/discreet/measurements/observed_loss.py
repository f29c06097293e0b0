"""The privacy that mechanisms lose on two neighboring tables, from their exact inputs on both.

Adaptive composition compares the mechanisms of one table with those of the other for the same outputs. So where a later
input depends on an earlier output, as in the splits of `Quantiles`, the outputs are chosen here and both tables follow.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.mechanisms.box_staircase import BoxStaircase
from discreet.mechanisms.discrete_gaussian import DiscreteGaussian
from discreet.mechanisms.entropy import Entropy
from discreet.mechanisms.exponential_mechanism import Selection
from discreet.mechanisms.noise import IndependentNoises, Noise
from discreet.mechanisms.polygon_staircase import PolygonStaircase
from discreet.mechanisms.quantile import SLOTS, Quantiles, SplitDistribution
from discreet.schema import Schema

ZERO = Fraction(0)
DISALLOWED_SHARE = Fraction(10**6)
"""Stands for the share of something where nothing at all is allowed."""
ANY_TRUTH_NOTE = "it holds for any two truths"
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


def is_same_input(value: object, other: object) -> bool:
    """Whether two inputs are equal, arrays cell by cell."""
    if isinstance(value, np.ndarray) and isinstance(other, np.ndarray):
        return bool(np.array_equal(value, other))
    return value is other or (type(value) is type(other) and value == other)


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
    """The shares of what is declared, by name, and the loss of one mechanism.

    A share says which part of a declared bound the two tables use: `{"rows": 1}` where they differ in as many rows as a
    unit has. A replay prints its name, and fails above 1. There is none where the loss alone is declared.
    """

    shares: Mapping[str, Fraction]
    observed_loss: ObservedLoss
    note: str = ""


def pair_inputs(inputs: Inputs, other_inputs: Inputs, empty: object) -> InputPairs:
    """Pair the inputs of the cells in which they differ.

    A private key may be a cell of one table only; `empty` is what `compute_inputs` makes of a cell without rows.
    """
    pairs = [(inputs.get(cell, empty), other_inputs.get(cell, empty)) for cell in {**inputs, **other_inputs}]
    return [pair for pair in pairs if not is_same_input(*pair)]


def count_max_changes(schema: Schema) -> int:
    """Count the rows in which two neighboring tables may differ: those of one unit, or of two where it is replaced."""
    return schema.rows * (2 if schema.neighbors == "replace-one" else 1)


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


def compute_refinement_change(truths: Iterable[Sequence[object]], epsilon: Fraction | None) -> InputChange:
    """Return the loss of a refinement, which holds for any two truths: a cell whose truth differs loses all epsilon."""
    losses = (ObservedLoss.pure(epsilon or ZERO) for truth, other_truth in truths if truth != other_truth)
    return InputChange({}, ObservedLoss.total(losses), ANY_TRUTH_NOTE)
