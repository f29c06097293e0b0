"""Counts, sums, means and variances: whole totals plus noise, and what noisy totals mean.

Proofs of the scales: additive.md. What noisy totals mean is post-processing, from public facts alone: how far off they
will be, intervals, and the posterior of someone who held a prior. The error of a mean of a private number of rows is
stated for about so many rows beforehand; afterwards the number of rows is summed out.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from discreet.estimation import noise_distributions
from discreet.estimation.grid_prior import GridPrior
from discreet.estimation.noise_distributions import (
    AnswerNoise,
    RoundedNoise,
    ScaledNoise,
    SummedNoise,
    compute_sum_deviation,
)
from discreet.estimation.noisy_totals import (
    Estimate,
    Linear,
    MeanFromCenter,
    MeanOfPair,
    NoisyRatio,
    NoisyVariance,
    Variance,
    WeightedSum,
)
from discreet.formatting import VALUE_DIGITS, format_upper
from discreet.measurements.base import AggregateRequest, Measurement, NoisyOutputs, Reading, ReadingContext, ScanRequest
from discreet.measurements.observed_loss import ZERO, InputChange, Inputs, compute_vector_loss, pair_inputs
from discreet.measurements.total_sensitivity import LinearQuery, build_linear_queries
from discreet.measurements.trimmed_mean import check_better_than_guess
from discreet.mechanisms.box_staircase import BoxStaircase
from discreet.mechanisms.discrete_gaussian import DiscreteGaussian
from discreet.mechanisms.discrete_laplace import DiscreteLaplace
from discreet.mechanisms.entropy import Entropy
from discreet.mechanisms.noise import IndependentNoises, Noise
from discreet.mechanisms.polygon_staircase import PolygonStaircase
from discreet.mechanisms.staircase import Staircase
from discreet.priors.posterior import Posterior
from discreet.priors.prior import PriorUse
from discreet.privacy.cost import PrivacyCost, compute_pure_cost
from discreet.schema import Schema

Array = NDArray[np.float64]
ERROR_SHARES = (0.05, 0.2, 0.35, 0.5, 0.65, 0.8, 0.95)
EXAMPLE_ROWS = (100, 1_000, 10_000)
"""The numbers of rows for which the accuracy of a mean is stated, where the number of selected rows is not public."""
TOTAL_FUNCTIONS = frozenset({"count", "count_distinct", "sum", "avg", "var", "stddev", "trimmed_mean"})
MIN_STAIRCASE_EPSILON = Fraction(1, 1000)
MIN_POLYGON_EPSILON = Fraction(1, 20)
"""With a smaller epsilon a staircase has so many steps that it is Laplace noise, or slow to describe."""
MAX_STEP = 2**100
VectorNoise = IndependentNoises | BoxStaircase | PolygonStaircase


@dataclass(frozen=True, slots=True)
class AdditiveNoise(Measurement):
    """A linear query with the noise of its components, together or one by one.

    Where several aggregates are counted together, by the `strategy` of that name, `estimates` has what the totals mean
    for each of them.
    """

    linear_query: LinearQuery
    noise: VectorNoise
    strategy: str = ""
    estimates: tuple[Estimate, ...] = ()

    @property
    def name(self) -> str:
        """What people call it."""
        ranks = self.linear_query.ranks
        if isinstance(self.noise, IndependentNoises):
            name = NOISE_NAMES[type(self.noise.noises[0])] + (f" ({self.strategy})" if self.strategy else "")
        else:
            name = "box staircase" if isinstance(self.noise, BoxStaircase) else "polygon staircase"
        return name if ranks is None else f"{ranks.name} by {name}"

    @property
    def single_noise(self) -> Noise | None:
        """The noise of the one total there is, if it is one."""
        if isinstance(self.noise, IndependentNoises) and len(self.linear_query.components) == 1:
            return self.noise.noises[0]
        return None

    @property
    def independent_noises(self) -> tuple[Noise, ...]:
        return self.noise.noises if isinstance(self.noise, IndependentNoises) else ()

    @property
    def is_batched(self) -> bool:
        return True

    def scan(self) -> ScanRequest:
        """The measures of the totals; or the candidates whose ranks are summed."""
        return self.linear_query.scan()

    def compute_inputs(self, scanned: Sequence[Any]) -> list[tuple[int, ...]]:
        """The exact totals of every cell. Secret."""
        return self.linear_query.compute_totals(scanned)

    def measure(self, inputs: Sequence[tuple[int, ...]], entropy: Entropy) -> list[NoisyOutputs]:
        noise = self.noise.sample_units(len(inputs), entropy) if inputs else ()
        return [tuple(x + int(n) for x, n in zip(*row, strict=True)) for row in zip(inputs, noise, strict=True)]

    def cache_key(self) -> list[object]:
        if self.strategy:
            return [self.name, *dict.fromkeys(str(part.l1_sensitivity) for part in self.linear_query.components)]
        return [self.name, *self.linear_query.list_parameters()]

    def compare_inputs(self, inputs: Inputs, other_inputs: Inputs, schema: Schema) -> InputChange:  # noqa: ARG002
        """Over all cells and totals, |change| / l1_sensitivity and change^2 / l2_sensitivity_sq sum to at most 1."""
        parts = self.linear_query.components
        pairs = pair_inputs(inputs, other_inputs, (0,) * len(parts))
        moves = [[x - y for x, y in zip(*pair, strict=True)] for pair in pairs]
        columns = zip(*moves, strict=True) if moves else [()] * len(parts)
        moved_columns = [(column, part) for column, part in zip(columns, parts, strict=True) if any(column)]
        changes = [Fraction(sum(map(abs, column))) / part.l1_sensitivity for column, part in moved_columns]
        squares = [Fraction(sum(move**2 for move in column)) / part.l2_sensitivity_sq for column, part in moved_columns]
        shares = {"changes": sum(changes, ZERO), "squares": sum(squares, ZERO)}
        return InputChange(shares, compute_vector_loss(self.noise, moves))

    def read(self, context: ReadingContext) -> tuple[Reading, ...]:
        estimates = self.estimates or (self.linear_query.estimate,)
        return tuple(AdditiveReading(self._build_estimator(estimate, context), context) for estimate in estimates)

    def _build_estimator(self, estimate: Estimate, context: ReadingContext) -> Estimator:
        single = replace(self, linear_query=replace(self.linear_query, estimate=estimate))
        return Estimator(single, float(context.expected_rows.number), context.max_rows)

    def check_usefulness(self, expected_error: float | None) -> None:
        """Refuse a mean of ranks that is farther off than a guess."""
        if self.linear_query.ranks is not None and expected_error is not None:
            check_better_than_guess(self.linear_query.ranks, expected_error)

    def value(self, outputs: Sequence[int]) -> Fraction:
        """The number asked for."""
        return self.linear_query.estimate.value(outputs)

    def interval_within(self, outputs: Sequence[int], half_widths: Sequence[Fraction]) -> tuple[Fraction, Fraction]:
        """An interval that holds the exact number where the noises go so far."""
        ranges = [(x - r, x + r) for x, r in zip(outputs, half_widths, strict=True)]
        low, high = self.linear_query.estimate.value_range(ranges)
        value = self.value(outputs)  # where nearly nothing was counted it is a stand-in, and may lie outside
        return min(low, value), max(high, value)

    def half_widths(self, confidence: float) -> list[Fraction]:
        """How far the noises go, all of them with this probability: the parts of a box together, others shared out."""
        if isinstance(self.noise, BoxStaircase):
            beyond, _ = self.noise.region(confidence)
            boxes = zip(self.noise.boxes.half_widths, self.noise.boxes.widths, strict=True)
            return [Fraction(math.ceil(offset + max(math.ceil(beyond), 0) * width)) for offset, width in boxes]
        each_confidence = 1 - (1 - confidence) / len(self.linear_query.components)
        if isinstance(self.noise, IndependentNoises):
            return [Fraction(noise.interval(each_confidence)[1]) for noise in self.noise.noises]
        return [Fraction(end) for _, end in self.noise.interval(each_confidence)]


NOISE_NAMES: dict[type[Noise], str] = {
    DiscreteLaplace: "discrete Laplace",
    DiscreteGaussian: "discrete Gaussian",
    Staircase: "staircase",
}


def build_laplace(linear_query: LinearQuery, epsilon: Fraction) -> AdditiveNoise:
    """Every component at scale l1_sensitivity / epsilon: together epsilon-DP, since the losses add up to epsilon."""
    scales = [Fraction(component.l1_sensitivity) for component in linear_query.components]
    noises = tuple(DiscreteLaplace(epsilon * s.denominator, s.numerator) for s in scales)
    return AdditiveNoise(linear_query, IndependentNoises(noises), privacy_cost=compute_pure_cost(epsilon))


def build_gaussian(linear_query: LinearQuery, rho: Fraction) -> AdditiveNoise:
    """Every component at variance l2_sensitivity_sq / (2 rho): together rho-zCDP."""
    squares = (component.l2_sensitivity_sq / (2 * rho) for component in linear_query.components)
    noises = tuple(DiscreteGaussian(square, 1, Fraction(1)) for square in squares)
    return AdditiveNoise(linear_query, IndependentNoises(noises), privacy_cost=PrivacyCost(gaussian_rho=rho))


_find_min_variance_staircase = lru_cache(maxsize=1024)(Staircase.least_variance)


def build_staircase(linear_query: LinearQuery, epsilon: Fraction) -> AdditiveNoise | None:
    """Each of at most `max_contributions` changes lies in the box, or the one in the polygon, and costs a level.

    Together epsilon. None where it is the discrete Laplace law itself, or where its steps are too many to describe.
    """
    share, box = epsilon / linear_query.max_contributions, linear_query.linf_box
    min_share = MIN_POLYGON_EPSILON if linear_query.corners else MIN_STAIRCASE_EPSILON
    if share < min_share or max(box) > MAX_STEP or box == (1,):
        return None
    if len(box) == 1:
        noise: VectorNoise = IndependentNoises((_find_min_variance_staircase(share, *box),))
    elif linear_query.corners:
        noise = PolygonStaircase(epsilon, linear_query.corners)
    else:
        noise = BoxStaircase(share, box)
    return AdditiveNoise(linear_query, noise, privacy_cost=compute_pure_cost(epsilon))


def propose_noises(request: AggregateRequest) -> tuple[AdditiveNoise, ...]:
    """Propose pure noise of every fitting distribution; nothing where a distance asks for a refinement."""
    if request.distance is not None:
        return ()
    linear_queries = build_linear_queries(request.aggregate, request.column, request.bounds)
    staircase_noise = build_staircase(linear_queries[-1], request.epsilon)
    laplace = build_laplace(linear_queries[0], request.epsilon)
    return (laplace,) if staircase_noise is None else (laplace, staircase_noise)


@dataclass(frozen=True, eq=False)
class Estimator:
    """A noisy measurement, about how many rows it is of, and at most how many there can be."""

    measurement: AdditiveNoise
    rows: float
    max_rows: float = math.inf

    @cached_property
    def ratio(self) -> NoisyRatio | None:
        """For a mean of a private number of rows."""
        estimate = self.measurement.linear_query.estimate
        if not isinstance(estimate, MeanOfPair | MeanFromCenter):
            return None
        low, high = (float(end * estimate.step) for end in (estimate.lower, estimate.upper))
        width = float(max(estimate.upper - estimate.lower, 1))

        def compute_slopes(share: Array) -> tuple[Array, Array]:
            if isinstance(estimate, MeanOfPair):
                return share * width, (1 - share) * width
            return (2 * share - 1) * (width / estimate.grain), np.ones(len(share))

        return NoisyRatio(self.measurement.noise, low, high, compute_slopes)

    @cached_property
    def squares(self) -> NoisyVariance | None:
        """For a variance."""
        estimate = self.measurement.linear_query.estimate
        if not isinstance(estimate, Variance):
            return None
        public_rows = None if estimate.rows is None else float(estimate.rows)
        width, step = float(max(estimate.width, 1)), float(estimate.step)
        return NoisyVariance(self.measurement.noise, width, step, public_rows, estimate.root)

    def expected_error(self, grid_prior: GridPrior | None) -> float:
        """The root mean square error of the refined value, or without a prior of the raw one."""
        if grid_prior is None and isinstance(self.measurement.linear_query.estimate, WeightedSum):
            return compute_sum_deviation(self.measurement.noise, self._weights)
        if self.ratio is not None:
            if grid_prior is not None:
                noise = self.ratio.build_mean_noise(self.ratio.compute_share(grid_prior.mean), self.rows)
                return noise_distributions.estimate_posterior_error(grid_prior, noise)
            errors = [self.ratio.compute_sd(share, self.rows) for share in ERROR_SHARES]
            return min(math.sqrt(sum(error**2 for error in errors) / len(errors)), self.ratio.width)
        line_noise = self.build_line_noise(grid_prior.mean if grid_prior else None)
        # Rounding to bins, whose values are taken to be even, adds its standard deviation.
        estimate = self.measurement.linear_query.estimate
        rounding = float(estimate.rounding_error) / math.sqrt(3) if isinstance(estimate, Linear) else 0.0
        return math.hypot(noise_distributions.estimate_posterior_error(grid_prior, line_noise), rounding)

    def build_line_noise(self, about: float | None = None, rows: float | None = None) -> AnswerNoise:
        """How far the answer falls from the truth; of a mean or variance, near a value and for so many rows."""
        estimate = self.measurement.linear_query.estimate
        if isinstance(estimate, Linear):
            return ScaledNoise(cast(Noise, self.measurement.single_noise), abs(float(estimate.slope)))
        if isinstance(estimate, WeightedSum):
            if self._single_noise is not None:
                return ScaledNoise(*self._single_noise)
            noises = cast(IndependentNoises, self.measurement.noise)
            return noise_distributions.tabulate_laplace_sum(noises, self._weights)
        if self.ratio is not None:
            share = 0.5 if about is None else self.ratio.compute_share(about)
            return self.ratio.build_mean_noise(share, self.rows if rows is None else rows)
        return SummedNoise.of(self.measurement.noise, self._variance_weights(about, rows))

    @property
    def _weights(self) -> tuple[float, ...]:
        return tuple(map(float, cast(WeightedSum, self.measurement.linear_query.estimate).weights))

    @property
    def _single_noise(self) -> tuple[Noise, float] | None:
        """The one noise in a weighted sum, and its weight, where it is one."""
        pairs = zip(cast(IndependentNoises, self.measurement.noise).noises, self._weights, strict=True)
        used = [(noise, abs(weight)) for noise, weight in pairs if weight]
        return used[0] if len(used) == 1 else None

    def _variance_weights(self, about: float | None, rows: float | None) -> tuple[float, ...]:
        """What each total adds to the answer, to first order, where the mean is near the middle."""
        squares = cast(NoisyVariance, self.squares)
        count = squares.rows or max(rows or self.rows, 2.0)
        spread = squares.width**2 / 3 if about is None else float(squares.compute_variance(np.array([about]))[0])
        scale = squares.unit**2 / 4 / count
        if squares.is_standard_deviation:
            scale /= max(2 * math.sqrt(spread) * squares.unit / 2, 1e-12)
        weights = (scale * (squares.width**2 / 2 - spread), 0.0, scale / 2)
        return weights[1:] if squares.rows is not None else weights

    @property
    def depends_on_rows(self) -> bool:
        """Whether how far off it may be depends on how many rows are selected, and that number is not public."""
        return self.ratio is not None or (self.squares is not None and self.squares.rows is None)

    def half_width(self, confidence: float, rows: float | None = None) -> float:
        """How far off the answer may be with this probability; of a mean, where at least so many rows have a value."""
        estimate = self.measurement.linear_query.estimate
        if isinstance(estimate, Linear):
            noise = cast(Noise, self.measurement.single_noise)
            return noise.interval(confidence)[1] * abs(float(estimate.slope)) + float(estimate.rounding_error)
        if isinstance(estimate, WeightedSum):
            if self._single_noise is not None:
                noise, weight = self._single_noise
                return noise.interval(confidence)[1] * weight
            noises = cast(IndependentNoises, self.measurement.noise)
            half_width = noise_distributions.compute_sum_half_width(noises, self._weights, confidence)
            is_integer = all(coefficient.denominator == 1 for coefficient in estimate.weights)
            return float(math.floor(half_width)) if is_integer else half_width
        error_model = self.ratio or cast(NoisyVariance, self.squares)
        return error_model.bound_error(confidence, self.rows if rows is None else rows)

    def interval_bound(self, confidence: float) -> float:
        """Bound the distance from the answer to either end of its interval; of a mean it holds but once in a million.

        Half the interval is no longer than that.
        """
        if self.ratio is not None:
            return self.ratio.bound_interval(confidence, self.rows)
        if self.squares is not None:
            return self.squares.bound_interval(list(map(float, self._get_half_widths(confidence))), self.rows)
        return self.half_width(confidence)

    def interval(self, outputs: Sequence[int], confidence: float) -> tuple[float, float]:
        """Where the exact number lies with at least this probability."""
        if self.ratio is not None:
            return self.ratio.interval(outputs, confidence)
        half_widths = self._get_half_widths(confidence)
        if isinstance(self.measurement.linear_query.estimate, WeightedSum):
            middle = float(self.measurement.value(outputs))
            return middle - float(half_widths[0]), middle + float(half_widths[0])
        low, high = self.measurement.interval_within(outputs, half_widths)
        return float(low), float(high)

    @cached_property
    def _half_widths(self) -> dict[float, list[Fraction]]:
        return {}

    def _get_half_widths(self, confidence: float) -> list[Fraction]:
        """How far the noises go, or of a weighted sum how far it goes: the same in every cell, so worked out once."""
        if confidence not in self._half_widths:
            if isinstance(self.measurement.linear_query.estimate, WeightedSum):
                self._half_widths[confidence] = [Fraction(self.half_width(confidence))]
            else:
                self._half_widths[confidence] = self.measurement.half_widths(confidence)
        return self._half_widths[confidence]

    def raw_value(self, outputs: Sequence[int], grid_prior: GridPrior | None) -> Fraction:
        """The number asked for; where nearly nothing was counted, the prior mean or the middle of the bounds."""
        if self.ratio is not None and grid_prior is not None and self._estimate_rows(outputs) < 1:
            return Fraction(grid_prior.mean)
        return self.measurement.value(outputs)

    def _estimate_rows(self, outputs: Sequence[int]) -> float:
        estimate = self.measurement.linear_query.estimate
        if isinstance(estimate, MeanOfPair):
            return sum(max(total, 0) for total in outputs) / max(estimate.upper - estimate.lower, 1)
        return float(outputs[1] if isinstance(estimate, MeanFromCenter) else outputs[0])

    def posterior(self, grid_prior: GridPrior, outputs: Sequence[int]) -> Posterior:
        """What is known after the answer."""
        if self.ratio is not None:
            return self.ratio.posterior(grid_prior, outputs, self.max_rows)
        if self.squares is not None:
            return self.squares.posterior(grid_prior, outputs, float(self.measurement.value(outputs)), self.max_rows)
        noise, estimate = self.build_line_noise(), self.measurement.linear_query.estimate
        if isinstance(estimate, Linear) and estimate.rounding_error and isinstance(noise, ScaledNoise):
            noise = RoundedNoise(noise, float(estimate.rounding_error))  # the middle of a bin stands for its values
        return noise_distributions.update_grid_prior(grid_prior, noise, self._compute_unclipped(outputs))

    def _compute_unclipped(self, outputs: Sequence[int]) -> float:
        """A total as it was drawn, also beyond what is possible: that tells something too."""
        estimate = self.measurement.linear_query.estimate
        if not isinstance(estimate, Linear):
            return float(self.measurement.value(outputs))
        return float(estimate.slope * outputs[0] + estimate.offset)

    def build_noise_posterior(self, outputs: Sequence[int]) -> Posterior:
        """The noise law about the raw answer."""
        raw, noise = self._get_raw_and_noise(outputs)
        return noise_distributions.build_flat_posterior(noise, raw, noise.unit)

    def compute_surprise(self, grid_prior: GridPrior, outputs: Sequence[int]) -> float:
        """The chance of an answer at least as far out, for someone whose prior is right."""
        raw, noise = self._get_raw_and_noise(outputs)
        return noise_distributions.compute_surprise(grid_prior, noise, raw)

    def _get_raw_and_noise(self, outputs: Sequence[int]) -> tuple[float, AnswerNoise]:
        """The raw answer, and how far it falls from the truth for the noisy number of rows."""
        if isinstance(self.measurement.linear_query.estimate, Linear | WeightedSum):
            return self._compute_unclipped(outputs), self.build_line_noise()
        raw = float(self.measurement.value(outputs))
        return raw, self.build_line_noise(raw, max(self._estimate_rows(outputs), 1.0))


@dataclass(frozen=True, eq=False, slots=True)
class AdditiveReading(Reading):
    """Noisy totals, read with a prior or without one."""

    estimator: Estimator
    context: ReadingContext

    @property
    def is_plottable(self) -> bool:
        return True

    @property
    def depends_on_rows(self) -> bool:
        return self.estimator.depends_on_rows

    @property
    def prior_use(self) -> PriorUse | None:
        """The prior only weighs the noise afterwards."""
        return None if self.context.grid_prior is None else self.context.grid_prior.get_use(is_sampled=False)

    @property
    def answer_noise(self) -> AnswerNoise:
        return self.estimator.build_line_noise()

    @property
    def has_plain_noise(self) -> bool:
        measurement = self.estimator.measurement
        is_linear = isinstance(measurement.linear_query.estimate, Linear)
        return is_linear and isinstance(measurement.single_noise, DiscreteLaplace | DiscreteGaussian)

    @property
    def ratio(self) -> NoisyRatio | None:
        return self.estimator.ratio

    def values(self, outputs: NoisyOutputs) -> tuple[Fraction]:
        return (self.estimator.raw_value(outputs, self.context.grid_prior),)

    def interval(self, outputs: NoisyOutputs, confidence: float) -> tuple[float, float]:
        return self.estimator.interval(outputs, confidence)

    def half_width(self, confidence: float, rows: float | None = None) -> float:
        """How far off the answer may be; of a mean, where at least so many rows have a value."""
        return self.estimator.half_width(confidence, rows)

    def bound_error(self, confidence: float) -> float:
        return max(self.estimator.half_width(confidence), self.estimator.interval_bound(confidence))

    def posterior(self, outputs: NoisyOutputs) -> Posterior | None:
        return None if self.context.grid_prior is None else self.estimator.posterior(self.context.grid_prior, outputs)

    def get_stated_distribution(self) -> Posterior | None:
        grid_prior = self.context.grid_prior
        return None if grid_prior is None else grid_prior.build_cells().get_stated_distribution()

    def build_noise_posterior(self, outputs: NoisyOutputs) -> Posterior:
        return self.estimator.build_noise_posterior(outputs)

    def is_surprising(self, outputs: NoisyOutputs, tail: float) -> bool:
        grid_prior = self.context.grid_prior
        return grid_prior is not None and self.estimator.compute_surprise(grid_prior, outputs) < tail

    def expected_error(self) -> float:
        return self.estimator.expected_error(self.context.grid_prior)

    def describe_accuracy(self, confidence: float, likely: str = "") -> str:
        if self.depends_on_rows:
            return self._describe_accuracy_by_rows(confidence, likely)
        ranks = self.estimator.measurement.linear_query.ranks
        rank_text = "" if ranks is None else f" of the {ranks.name}"
        return f"within {format_upper(self.estimator.half_width(confidence), VALUE_DIGITS)}{rank_text} {likely}"

    def _describe_accuracy_by_rows(self, confidence: float, likely: str) -> str:
        """The accuracy by the number of rows: for the number that was stated, or else for a few of them."""
        expected, condition = self.context.expected_rows, self._format_row_condition()
        likely = f"{likely}," if self.context.coverage.is_selective else likely
        if expected.source == "stated":
            within = format_upper(self.estimator.half_width(confidence, expected.number))
            return f"within {within} {likely} if {condition.format(f'{expected.number:,}')}"
        example_rows = list_example_rows(self.context.max_rows)
        numbers = [(rows, format_upper(self.estimator.half_width(confidence, rows))) for rows in example_rows]
        (first, within), other_numbers = numbers[0], numbers[1:]
        other_clauses = "".join(f", {max_error} if at least {rows:,}" for rows, max_error in other_numbers)
        statement = f"within {within} {likely} if {condition.format(f'{first:,}')}{other_clauses}"
        if expected.source != "guess":
            return statement
        guessed_error = format_upper(self.estimator.half_width(confidence, expected.number))
        assumption_clause = f" if {expected.assumption}" if expected.assumption else ""
        guess = f"about {expected.number:,} rows{assumption_clause}, hence within {guessed_error}"
        return f"{statement} (only a guess: {guess})"

    def _format_row_condition(self) -> str:
        """A condition on the number of rows; rows without a value do not count."""
        measures = self.estimator.measurement.linear_query.measures
        columns = (self.context.schema.column(measure.column) for measure in measures if measure.column)
        if any(column.is_nullable for column in columns):
            subject = "rows of a group" if self.context.has_groups else "selected rows"
            return f"at least {{}} {subject} have a value"
        return "a group has at least {} rows" if self.context.has_groups else "at least {} rows are selected"


def list_example_rows(max_rows: float) -> tuple[int, ...]:
    """List some numbers of rows that there can be."""
    return tuple(rows for rows in EXAMPLE_ROWS if rows <= max_rows) or (int(max_rows),)
