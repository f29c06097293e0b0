"""A count by randomized response: the truth of each unit is kept or flipped. Proof: randomized_response.md.

Other noise has less error at the same epsilon, so this is proposed only where a mechanism is asked for by name.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.estimation.noise_distributions import ScaledNoise, compute_surprise, estimate_posterior_error
from discreet.formatting import VALUE_DIGITS, format_upper
from discreet.measurements.base import AggregateRequest, Measurement, NoisyOutputs, Reading, ReadingContext, ScanRequest
from discreet.measurements.observed_loss import InputChange, Inputs, ObservedLoss, pair_inputs
from discreet.measurements.total_sensitivity import LinearQuery, build_linear_queries
from discreet.mechanisms.discrete_gaussian import DiscreteGaussian
from discreet.mechanisms.entropy import Entropy
from discreet.mechanisms.samplers import build_logistic_chance, flip_coins
from discreet.priors.posterior import Posterior
from discreet.priors.prior import PriorUse
from discreet.privacy.cost import compute_pure_cost
from discreet.schema import Schema

Array = NDArray[np.float64]
RANDOMIZED_RESPONSE = "randomized response"
MAX_UNITS = 10**6
REQUIREMENTS = (
    "randomized response is for a count of rows without groups, under replace-one with a public number of at most "
    f"{MAX_UNITS:,} units and one row per unit; leave out the mechanism"
)
MIN_FLIP_CHANCE = 1e-150
"""Takes the place of a smaller chance where something is computed in floats."""
WINDOW_EXPONENT = 22.0
"""Values of a binomial number are left out that are together at most 2 e^(-2 * 22) likely (Hoeffding 1963)."""
TAIL_SLACK = 1e-6
"""A tail that is by so little too small counts as large enough, for the rounding of floats: intervals only grow."""


@dataclass(frozen=True, eq=False, slots=True)
class RandomizedResponse(Measurement):
    """The number of units that report yes: each its truth with chance e^epsilon / (1 + e^epsilon), else the other.

    `linear_query` is the exact count of yeses among a public number of units.
    """

    linear_query: LinearQuery
    units: int
    epsilon: Fraction
    name: str = RANDOMIZED_RESPONSE

    @property
    def is_batched(self) -> bool:
        return True

    def scan(self) -> ScanRequest:
        return self.linear_query.scan()

    def compute_inputs(self, scanned: Sequence[Any]) -> list[tuple[int, ...]]:
        """The exact count of every cell. Secret."""
        return self.linear_query.compute_totals(scanned)

    def measure(self, inputs: Sequence[tuple[int, ...]], entropy: Entropy) -> list[NoisyOutputs]:
        """Flip every unit's truth or not, those that are yes first: as many coins and steps whatever the count."""
        coins = flip_coins(build_logistic_chance(self.epsilon), self.units * len(inputs), entropy)
        counts = np.array([[count] for (count,) in inputs], dtype=np.int64).reshape(-1, 1)
        reports = (np.arange(self.units) < counts) != coins.reshape(-1, self.units)
        return [(int(total),) for total in reports.sum(axis=1)]

    def cache_key(self) -> list[object]:
        return [self.name, self.units]

    def compare_inputs(self, inputs: Inputs, other_inputs: Inputs, schema: Schema) -> InputChange:  # noqa: ARG002
        """Each truth that differs loses epsilon; equal counts are reported alike, whoever they are of."""
        moves = [abs(count - other) for (count,), (other,) in pair_inputs(inputs, other_inputs, (0,))]
        loss = ObservedLoss.total([ObservedLoss.pure(self.epsilon)] * sum(moves))
        return InputChange({"truths": Fraction(sum(moves))}, loss)

    def read(self, context: ReadingContext) -> tuple[Reading, ...]:
        return (RandomizedResponseReading(self, context),)

    def explain_choice(self) -> str:
        return "it was asked for by name; noise that is added to the count has less error"


@dataclass(frozen=True, eq=False, slots=True)
class RandomizedResponseReading(Reading):
    """What the number of reported yeses says of the true one: post-processing, in floats."""

    measurement: RandomizedResponse
    context: ReadingContext

    @property
    def is_plottable(self) -> bool:
        return self.context.grid_prior is not None

    @property
    def prior_use(self) -> PriorUse | None:
        """The prior only weighs the answer afterwards."""
        return None if self.context.grid_prior is None else self.context.grid_prior.get_use(is_sampled=False)

    @property
    def units(self) -> int:
        return self.measurement.units

    @property
    def flip_chance(self) -> float:
        """1 / (1 + e^epsilon) as a float; the coins have it exactly."""
        odds = math.exp(-float(self.measurement.epsilon))
        return max(odds / (1 + odds), MIN_FLIP_CHANCE)

    @property
    def contrast(self) -> float:
        """How much likelier a yes is reported by a unit whose truth is yes: tanh(epsilon / 2)."""
        return math.tanh(float(self.measurement.epsilon) / 2)

    @property
    def _normal_noise(self) -> ScaledNoise:
        """Gaussian noise of the same variance, for what need not be exact."""
        variance = max(self.units * self.flip_chance * (1 - self.flip_chance), 2.0**-20)
        return ScaledNoise(DiscreteGaussian(Fraction(variance), 1, Fraction(1)), 1 / self.contrast)

    def values(self, outputs: NoisyOutputs) -> tuple[Fraction]:
        """The unbiased estimate (reported - units q) / (1 - 2 q), q being irrational: the nearest float, about."""
        half = Fraction(self.units, 2)
        return (half + Fraction(float(outputs[0] - half) / self.contrast),)

    def interval(self, outputs: NoisyOutputs, confidence: float) -> tuple[float, float]:
        """All counts for which neither so many reports nor so few are too unlikely: exact tails, for any truth."""
        low, high = _find_interval(self.units, self.flip_chance, outputs[0], (1 - confidence) / 2)
        value = float(self.values(outputs)[0])  # may lie outside what is possible
        return min(float(low), value), max(float(high), value)

    def half_width(self, confidence: float, rows: float | None = None) -> float:  # noqa: ARG002
        """How far off the estimate may be, whatever the truth: a Chernoff bound, which the interval keeps too."""
        q, miss = self.flip_chance, (1 - confidence) / 2
        low, high = 0.0, 1 - q
        for _ in range(60):
            middle = (low + high) / 2
            exceeds = self.units * _compute_divergence(q + middle, q) < -math.log(miss)
            low, high = (middle, high) if exceeds else (low, middle)
        return self.units * high / self.contrast * (1 + TAIL_SLACK)

    def bound_error(self, confidence: float) -> float:
        return self.half_width(confidence)

    def posterior(self, outputs: NoisyOutputs) -> Posterior | None:
        """Bayes' rule with the exact distribution of the reports: the sum of two binomial numbers."""
        if self.context.grid_prior is None:
            return None
        cells = self.context.grid_prior.build_cells([(float(self.values(outputs)[0]), self._normal_noise.sd)])
        counts = np.clip(np.rint(cells.values), 0, self.units).astype(np.int64)
        likelihoods = {
            count: compute_log_likelihood(self.units, self.flip_chance, count, outputs[0])
            for count in set(counts.tolist())
        }
        return cells.posterior(np.array([likelihoods[count] for count in counts.tolist()]))

    def get_stated_distribution(self) -> Posterior | None:
        grid_prior = self.context.grid_prior
        return None if grid_prior is None else grid_prior.build_cells().get_stated_distribution()

    def is_surprising(self, outputs: NoisyOutputs, tail: float) -> bool:
        if self.context.grid_prior is None:
            return False
        return compute_surprise(self.context.grid_prior, self._normal_noise, float(self.values(outputs)[0])) < tail

    def expected_error(self) -> float:
        """sqrt(units) / (2 sinh(epsilon / 2)); with a prior about that of Gaussian noise of this deviation."""
        q = self.flip_chance
        if self.context.grid_prior is None:
            return math.sqrt(self.units * q * (1 - q)) / self.contrast
        return estimate_posterior_error(self.context.grid_prior, self._normal_noise)

    def describe_accuracy(self, confidence: float, likely: str = "") -> str:
        return f"within {format_upper(self.half_width(confidence), VALUE_DIGITS)} {likely}"


def propose_randomized_response(request: AggregateRequest) -> tuple[RandomizedResponse, ...]:
    """Propose it for a count among a public number of units, where a mechanism is asked for by name."""
    units = request.bounds.get_units_of_one_row()
    fits = units is not None and units <= MAX_UNITS and request.distance is None
    if not request.should_propose_by_name(RANDOMIZED_RESPONSE, fits, REQUIREMENTS) or units is None:
        return ()
    (linear_query,) = build_linear_queries(request.aggregate, request.column, request.bounds)
    cost = compute_pure_cost(request.epsilon)
    return (RandomizedResponse(linear_query, units, request.epsilon, privacy_cost=cost),)


def _compute_divergence(p: float, q: float) -> float:
    """The Kullback-Leibler divergence of a coin of chance p from one of chance q, for q below p."""
    return p * math.log(p / q) + ((1 - p) * math.log((1 - p) / (1 - q)) if p < 1 else 0.0)


@lru_cache(maxsize=1024)
def _find_interval(units: int, q: float, reported: int, miss: float) -> tuple[int, int]:
    """The least and the greatest count at which the reports are not in a tail of the chance that may be missed."""
    allowed = miss * (1 - TAIL_SLACK) - 4 * math.exp(-2 * WINDOW_EXPONENT)

    def find_least(reports: int) -> int:
        """By halves: the more yeses there are, the likelier so many are reported."""
        low, high = -1, units
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if compute_report_tail(units, q, middle, reports) > allowed else (middle, high)
        return high

    return find_least(reported), units - find_least(units - reported)  # few that report yes are many that report no


def compute_report_tail(units: int, q: float, count: int, reported: int) -> float:
    """P(at least so many report yes), if `count` are yes; but for what the windows leave out."""
    true_reports, false_reports = _list_places(count, 1 - q), _list_places(units - count, q)
    true_chances = np.exp(_compute_log_binomial(count, 1 - q, true_reports))
    false_chances = np.exp(_compute_log_binomial(units - count, q, false_reports))
    tails = np.concatenate((np.cumsum(false_chances[::-1])[::-1], [0.0]))
    needed = np.clip(reported - true_reports - false_reports[0], 0, len(false_reports))
    return float(true_chances @ tails[needed])


def compute_log_likelihood(units: int, q: float, count: int, reported: int) -> float:
    """ln P(so many report yes), if `count` are yes: the sum over how many of these do, about where it is largest."""
    if reported in (0, units):
        unlikely = count if reported == 0 else units - count
        return unlikely * math.log(q) + (units - unlikely) * math.log1p(-q)
    # Both numbers tilted by x, so that their means add up to the reports: randomized_response.md.
    a, noes = 1 - q, units - count
    square, linear = a * q * (units - reported), count * a**2 + noes * q**2 - reported * (a**2 + q**2)
    root = math.sqrt(linear**2 + 4 * square * reported * a * q)
    x = (root - linear) / (2 * square) if linear < 0 else 2 * reported * a * q / (root + linear)
    first, second = a * x / (a * x + q), q * x / (q * x + a)
    variances = count * first * (1 - first), noes * second * (1 - second)
    radius = 12 * math.sqrt(min(variances)) + 20
    low = max(math.floor(count * first - radius), 0, reported - noes)
    high = min(math.ceil(count * first + radius), count, reported)
    true_reports = np.arange(low, high + 1)
    logs = _compute_log_binomial(count, a, true_reports) + _compute_log_binomial(noes, q, reported - true_reports)
    return float(np.logaddexp.reduce(logs))


def _list_places(size: int, chance: float) -> NDArray[np.int64]:
    """The values of a binomial number, but for some that are too unlikely to matter."""
    radius = math.sqrt(WINDOW_EXPONENT * size)
    return np.arange(max(math.floor(size * chance - radius), 0), min(math.ceil(size * chance + radius), size) + 1)


def _compute_log_binomial(size: int, chance: float, places: NDArray[np.int64]) -> Array:
    """ln P(a binomial number has these values)."""
    from scipy.special import gammaln, xlog1py, xlogy

    logs: Array = gammaln(size + 1) - gammaln(places + 1) - gammaln(size - places + 1)
    logs += xlogy(places, chance) + xlog1py(size - places, -chance)
    return logs
