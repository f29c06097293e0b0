"""What is asked of one person, and individual DP: both need the custodian's word, and both are labelled."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from discreet.errors import InvalidInput, Unsupported
from discreet.formatting import format_number
from discreet.measurements.base import HistogramRequest, NoisyOutputs, SelfReading, UnitRequest
from discreet.measurements.candidate_grid import MAX_CANDIDATES, CandidateGrid, PositionRefinement
from discreet.measurements.contribution_bounds import ContributionBounds
from discreet.measurements.observed_loss import (
    InputChange,
    Inputs,
    ObservedLoss,
    compute_noise_loss,
    compute_refinement_change,
    pair_inputs,
)
from discreet.measurements.prior_on_grid import build_even_prior, place_in_narrower_bins, place_prior
from discreet.measurements.selection import (
    describe_prior_owner,
    format_refinement_name,
    resolve_distance,
    select_column_distance,
)
from discreet.mechanisms.entropy import Entropy
from discreet.mechanisms.individual_dp import IndividualOrderStatistic, build_local_noise
from discreet.mechanisms.order_statistic import OrderStatisticName, find_rank
from discreet.priors.distance import Distance
from discreet.priors.posterior import Posterior
from discreet.priors.prior import Prior, PriorUse
from discreet.privacy.cost import compute_pure_cost
from discreet.query.query import Aggregate
from discreet.schema import Column, Schema
from discreet.schema.schema import Value

INDIVIDUAL_DP_NOTE = (
    "individual DP: weaker, not for groups, its noise follows the data; the distance is of this table alone"
)
MAX_INDIVIDUAL_ROWS = 10**8
ORDER_STATISTICS: dict[str, OrderStatisticName] = {"min": "min", "max": "max", "second_max": "second max"}


@dataclass(frozen=True, eq=False, slots=True)
class UnitQuery(SelfReading):
    """One person's value: a draw from a prior, moved towards the truth; an absent person's is the prior."""

    candidates: CandidateGrid
    position_refinement: PositionRefinement
    is_even_prior: bool
    name: str
    prior_use: PriorUse | None = None
    """How the analyst's prior was used; None where she states none."""

    @property
    def uses_prior(self) -> bool:
        """Whether it is the analyst's prior that shapes the answer, and not an even one."""
        return not self.is_even_prior

    @property
    def distance_name(self) -> str:
        """The distance that shaped the answer, for its name in the store."""
        return self.position_refinement.distance_name

    def find_truth(self, code: int | None) -> int | None:
        """The position that the draw is moved towards; none where the person is absent. Secret."""
        return None if code is None else (code - self.candidates.column.lower) // self.candidates.width

    @property
    def is_plottable(self) -> bool:
        return True

    def scan(self) -> UnitRequest:
        return UnitRequest(self.candidates.column.name)

    def measure(self, inputs: Sequence[int | None], entropy: Entropy) -> list[NoisyOutputs]:
        """A position."""
        return [(self.position_refinement.sample(self.find_truth(code), entropy),) for code in inputs]

    def cache_key(self) -> list[object]:
        return [self.name, self.candidates.width, self.candidates.count, self.distance_name]

    def compare_inputs(self, inputs: Inputs, other_inputs: Inputs, schema: Schema) -> InputChange:  # noqa: ARG002
        truths = [[self.find_truth(code) for code in codes] for codes in pair_inputs(inputs, other_inputs, None)]
        return compute_refinement_change(truths, self.position_refinement.refinement.cost().epsilon)

    def values(self, outputs: Sequence[int]) -> tuple[Value, ...]:
        """What the position stands for."""
        return tuple(self.candidates.get_value(position) for position in outputs)

    def expected_error(self) -> float | None:
        """The root mean square error of the refined value, for someone whose prior is right, of a person present."""
        return self.position_refinement.expected_error()

    def get_stated_distribution(self) -> Posterior:
        """The prior in units of the answer."""
        return self.position_refinement.get_stated_distribution()

    def posterior(self, outputs: Sequence[int]) -> Posterior | None:
        """What is known after the draw, of a person present."""
        return self.position_refinement.posterior(outputs[0])

    def describe_accuracy(self, confidence: float, likely: str = "") -> str:  # noqa: ARG002 (nothing more can be said at any confidence)
        """What may be said of it without looking."""
        prior = f"{describe_prior_owner(self.is_even_prior)} prior"
        return f"a draw from {prior}, moved towards the truth; an absent person's is the prior itself"


def build_unit_query(
    schema: Schema,
    column: Column,
    epsilon: Fraction,
    prior: str | Prior | None,
    distance: Distance | str | None = None,
    tail: bool | None = None,
) -> UnitQuery:
    """Refinement of the prior given, or of an even one over the column's public domain."""
    if column.private_keys:
        raise Unsupported(f"{column.name} has no public domain, so no prior; it cannot be asked of one person")
    candidates = CandidateGrid.of(column, MAX_CANDIDATES)
    column_distance = select_column_distance(column) if distance is None else resolve_distance(column, distance)
    bins, name = (column, candidates.width, candidates.count), format_refinement_name(prior is None, distance)
    position_prior = build_even_prior(*bins) if prior is None else place_prior(*bins, prior, tail)
    prior_use = None if prior is None else position_prior.prior_use
    if prior is not None and not column.categories:
        # From the lowest possible code to the highest bins may be narrower. A truth beyond them has a position before
        # the first or after the last, as far away as it is.
        low, high = int(position_prior.lowest_codes[0]), int(position_prior.lowest_codes[-1])
        possible_column = replace(column, lower=low, upper=high + int(position_prior.code_counts[-1]) - 1, missing=None)
        narrow = CandidateGrid.of(possible_column, MAX_CANDIDATES)
        if narrow.width < candidates.width:
            candidates, bins = narrow, (possible_column, narrow.width, narrow.count)
            position_prior = place_in_narrower_bins(position_prior, *bins, prior, tail)
    refinement = PositionRefinement.of(
        candidates, position_prior, epsilon, "individual", schema.neighbors, column_distance
    )
    cost = compute_pure_cost(epsilon)
    return UnitQuery(refinement.candidates, refinement, prior is None, name, prior_use, privacy_cost=cost)


@dataclass(frozen=True, eq=False, slots=True)
class OrderStatistic(SelfReading):
    """An order statistic with noise at its local sensitivity: individual DP, weaker than DP."""

    candidates: CandidateGrid
    mechanism: IndividualOrderStatistic
    rows: int
    name: str = "discrete Laplace at the local sensitivity"

    def pad_positions(self, counts: NDArray[np.int64]) -> NDArray[np.int64]:
        """As many positions as rows are declared, the first standing in for what is not there. Secret."""
        present = np.repeat(np.arange(self.candidates.count), counts)[: self.rows]
        return np.concatenate((np.zeros(self.rows - len(present), dtype=np.int64), present))

    def scan(self) -> HistogramRequest:
        return HistogramRequest(self.candidates.bins, self.candidates.count)

    def measure(self, inputs: Sequence[NDArray[np.int64]], entropy: Entropy) -> list[NoisyOutputs]:
        """A position."""
        return [(int(self.mechanism.answer(self.pad_positions(counts), entropy)),) for counts in inputs]

    def cache_key(self) -> list[object]:
        return [self.name, self.candidates.width, self.candidates.count]

    def compare_inputs(self, inputs: Inputs, other_inputs: Inputs, schema: Schema) -> InputChange:  # noqa: ARG002
        """How far the statistic moves, against the noise that the first table gets, and that the second gets."""
        pairs = pair_inputs(inputs, other_inputs, np.zeros(self.candidates.count, np.int64))
        if not pairs:
            return InputChange({}, ObservedLoss(), INDIVIDUAL_DP_NOTE)
        vector = self.mechanism.vector
        tables = [vector.grid.to_units(self.pad_positions(counts)) for counts in pairs[0]]
        exact = [int(np.sort(values)[find_rank(vector.whats[0], len(values)) - 1]) for values in tables]
        losses = [compute_noise_loss(build_local_noise(vector, values), [exact[0] - exact[1]]) for values in tables]
        return InputChange({}, max(losses, key=lambda loss: loss.epsilon), INDIVIDUAL_DP_NOTE)

    def explain_choice(self) -> str:
        return "the one that individual-dp has for order statistics"

    def values(self, outputs: tuple[int, ...]) -> tuple[Value, ...]:
        """What the position stands for."""
        return tuple(self.candidates.get_value(position) for position in outputs)

    def describe_accuracy(self, confidence: float, likely: str = "") -> str:  # noqa: ARG002 (its noise follows the data and is never told)
        """What may be said of it without looking: the floor under its noise, which is public."""
        vector, unit = self.mechanism.vector, self.candidates.width * float(self.candidates.column.step)
        floor = format_number(float(vector.grid.width / vector.floor) * unit)
        return f"its noise follows the data and is not told; its scale is at least {floor}, whatever the data"


def build_order_statistic(
    aggregate: Aggregate, column: Column, bounds: ContributionBounds, epsilon: Fraction, max_values: int
) -> OrderStatistic:
    """For medians, other quantiles and extremes of a whole column, none missing, under replace-one."""
    statistic: OrderStatisticName | None = ORDER_STATISTICS.get(aggregate.function)
    if aggregate.function == "quantile" and len(aggregate.orders) == 1:
        statistic = "median" if aggregate.orders[0] == Fraction(1, 2) else ("quantile", aggregate.orders[0])
    if statistic is None:
        raise InvalidInput("individual-dp answers MEDIAN, QUANTILE with one order, MIN, MAX and SECOND_MAX")
    rows = bounds.get_public_rows(column)
    if rows is None:
        requirements = "replace-one, one row per unit, no filter, no groups, none missing"
        raise Unsupported(f"individual-dp needs a public number of values: {requirements}")
    if rows > MAX_INDIVIDUAL_ROWS:
        raise Unsupported(f"individual-dp is offered for at most {MAX_INDIVIDUAL_ROWS:,} rows")
    if column.size > max_values:
        limit = f"at most {max_values:,} values"
        raise Unsupported(f"individual-dp is offered for columns of {limit}; declare a coarser step")
    candidates = CandidateGrid.of(column, max_values)
    mechanism = IndividualOrderStatistic(statistic, 0, candidates.count - 1, epsilon)
    return OrderStatistic(candidates, mechanism, rows, privacy_cost=compute_pure_cost(epsilon))
