"""Estimates for the population that the units are a random sample of.

A target, the population's number, is in the interval where neither P(sample + noise >= shown) nor P(sample + noise <=
shown) is less than half the miss, by the sample's law at that target and the noise's own law. So the interval misses at
most as often as is stated. Without noise it is Clopper and Pearson's (1934) of a share, and Garwood's (1936) of a
Poisson count.

Post-processing: it sees the plan and what was released, never a row. What is not public but enters, the number of rows
under a mean and the variance beside it, enters by the safe end of an interval that has a tenth of the miss.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import cast

import numpy as np
from numpy.typing import NDArray

from discreet.answers.answer import NO_POPULATION, PopulationEstimate
from discreet.answers.decode import Decoder
from discreet.errors import InvalidInput, Unsupported
from discreet.estimation.noise_distributions import AnswerNoise
from discreet.measurements.base import Reading
from discreet.numeric import as_int
from discreet.planner.plan import NoisyResult, Plan
from discreet.schema import Column

Array = NDArray[np.float64]
SamplingDistribution = Callable[[float], tuple[Array, Array]]
"""For a target: what a sample may show, and with which chances."""
UpperTail = Callable[[Array], Array]
"""The chance that a symmetric noise is at least so far up."""
CellOutputs = Sequence[tuple[int, ...]]
MAX_TABLE_PLACES = 1000
MAX_DEVIATIONS = 8.0
"""Standard deviations; what lies farther out is left out, but for ten more units."""
MAX_NOISE_DEVIATIONS = 60.0
"""The same of a noise, whose tails are heavier."""
END_TOLERANCE = 1e-4
"""An end is found to this part of its distance from the noisy value."""
EQUALITY_TOLERANCE = 1e-9
POPULATION_FUNCTIONS = frozenset({"count", "count_distinct", "avg"})
VARIANCE_FUNCTIONS = frozenset({"var", "stddev"})
SIDE_MISS_SHARE = 0.1
"""The part of the miss that each number has which only helps."""
MIN_NORMAL_UNITS = 30
"""Of fewer units a mean is not taken as normal, whatever its variance."""
RANDOM_SAMPLE_NOTE = "the units are taken as a simple random sample"
STATED_VARIANCE_NOTE = "the most that was told, and what a sample may hide of it"
LARGEST_VARIANCE_NOTE = "the largest that mean and bounds allow"
PRIVATE_KEYS_REFUSED = (
    "rows that are chosen by their noisy numbers among private keys have no interval for the population; leave out "
    "HAVING, and LIMIT after ORDER BY"
)


def compute_noiseless_tail(distances: Array) -> Array:
    """The upper tail of no noise at all."""
    return (distances <= EQUALITY_TOLERANCE).astype(np.float64)


def tabulate_upper_tail(noise: AnswerNoise) -> UpperTail:
    """Tabulate the tail of a noise: whole units by themselves near 0, farther out by the chord above it."""
    unit = noise.unit or noise.sd / MAX_TABLE_PLACES
    steps = noise.sd / unit * np.sinh(np.linspace(0, math.asinh(MAX_NOISE_DEVIATIONS), MAX_TABLE_PLACES))
    places: Array = np.unique(np.concatenate((np.arange(MAX_TABLE_PLACES, dtype=np.float64), np.round(steps)))) + 1.0
    beyond = noise.compute_upper_tail(places * unit)

    def compute_tail(distances: Array) -> Array:
        units = np.round(distances / unit)
        tail = np.interp(np.where(units > 0, units, 1 - units), places, beyond, right=0.0)
        return np.where(units > 0, tail, 1 - tail)

    return compute_tail


def build_binomial(units: int) -> SamplingDistribution:
    """Build the law of the share of a sample of so many units, the target being that of an endless population.

    Of all laws between two bounds with one mean, that on the bounds alone spreads a mean most, in convex order
    (Hoeffding 1963); so this law also serves for a mean of which nothing else is known, as a share of their way.
    """

    def distribution(share: float) -> tuple[Array, Array]:
        from scipy.special import xlog1py, xlogy

        k = _list_places(units * share, math.sqrt(units * share * (1 - share)), units)
        return k / units, _normalize_logs(_compute_log_choose(units, k) + xlogy(k, share) + xlog1py(units - k, -share))

    return distribution


def build_hypergeometric(units: int, size: int) -> SamplingDistribution:
    """Build the same for a population of finite size, from which no unit is drawn twice."""

    def distribution(share: float) -> tuple[Array, Array]:
        successes = round(size * share)
        exact_share = successes / size
        spread = math.sqrt(units * exact_share * (1 - exact_share) * (size - units) / max(size - 1, 1))
        k = _list_places(units * exact_share, spread, units)
        k = k[(k <= successes) & (units - k <= size - successes)]
        logs = _compute_log_choose(successes, k) + _compute_log_choose(size - successes, units - k)
        return k / units, _normalize_logs(logs)

    return distribution


def compute_poisson(expected: float) -> tuple[Array, Array]:
    """Compute the law of a count in a sample of unknown size, the target being the count to be expected."""
    from scipy.special import gammaln, xlogy

    k = _list_places(expected, math.sqrt(expected), None)
    return k, _normalize_logs(xlogy(k, expected) - gammaln(k + 1))


def build_normal(deviation: Callable[[float], float]) -> SamplingDistribution:
    """Build the law of a mean of many, with its standard deviation at each target."""
    z = np.linspace(-MAX_DEVIATIONS, MAX_DEVIATIONS, MAX_TABLE_PLACES + 1)
    chances = _normalize_logs(-(z**2) / 2)
    return lambda target: (target + deviation(target) * z, chances)


@dataclass(frozen=True, eq=False, slots=True)
class NoisySample:
    """A noisy number of a sample, and the laws of sample and noise about the population's number.

    The noisy value is taken as the nearest that is possible between the ends, which only widens the interval;
    `first_step` is about how far off it may be, to begin the search with.
    """

    noisy_value: float
    distribution: SamplingDistribution
    upper_tail: UpperTail
    ends: tuple[float, float]
    first_step: float

    @property
    def value(self) -> float:
        """The noisy value, or the nearest that is possible."""
        return min(max(self.noisy_value, self.ends[0]), self.ends[1])

    def interval(self, confidence: float) -> tuple[float, float]:
        """Compute where the population's number lies with at least this probability."""
        half, center = (1 - confidence) / 2, self.value

        def is_plausible(target: float, sign: int) -> bool:
            places, chances = self.distribution(target)
            return float(chances @ self.upper_tail(sign * (center - places))) > half

        low = _find_end(lambda target: is_plausible(target, 1), center, self.ends[0], self.first_step)
        return low, _find_end(lambda target: is_plausible(target, -1), center, self.ends[1], self.first_step)

    def compute_sampling_half_width(self, confidence: float) -> float:
        """Half the interval, were there no noise."""
        low, high = replace(self, upper_tail=compute_noiseless_tail).interval(confidence)
        return (high - low) / 2


def _find_end(is_plausible: Callable[[float], bool], center: float, end: float, first_step: float) -> float:
    """How far from the noisy value a target is plausible, towards one end: by doubled steps, then by halves."""
    towards, inside, step = math.copysign(1.0, end - center), center, first_step
    while True:
        outside = center + towards * step
        if (outside - end) * towards >= 0:
            outside = end
        if not is_plausible(outside):
            break
        if outside == end:
            return end
        inside, step = outside, 2 * step
    while abs(outside - inside) > max(END_TOLERANCE * abs(outside - center), EQUALITY_TOLERANCE * first_step):
        middle = (inside + outside) / 2
        inside, outside = (middle, outside) if is_plausible(middle) else (inside, middle)
    return outside


def _list_places(mean: float, spread: float, maximum: int | None) -> Array:
    """Whole numbers about a mean: all that may be, or evenly some of them where they are very many."""
    half_width = MAX_DEVIATIONS * spread + 10
    low, high = max(math.floor(mean - half_width), 0), math.ceil(mean + half_width)
    high = high if maximum is None else min(high, maximum)
    return np.arange(low, high + 1, -(-(high + 1 - low) // MAX_TABLE_PLACES), dtype=np.float64)


def _compute_log_choose(size: int, k: Array) -> Array:
    """ln of the number of ways to choose k of so many, but for a constant."""
    from scipy.special import gammaln

    logs: Array = -gammaln(k + 1) - gammaln(size - k + 1)
    return logs


def _normalize_logs(logs: Array) -> Array:
    weights = np.exp(logs - logs.max())
    chances: Array = weights / weights.sum()
    return chances


def _find_population_numbers(plan: Plan) -> dict[str, int]:
    """The numbers that speak for a population, by name, and the measurement each is of."""
    outputs = plan.query.presentation.outputs
    indices = {output.label: output.aggregate for output in outputs if output.aggregate is not None}
    return {
        label: index
        for label, index in indices.items()
        if plan.query.aggregates[index].function in POPULATION_FUNCTIONS
        and (plan.readings[index].is_public or plan.readings[index].answer_noise is not None)
    }


def check_population_size(plan: Plan, size: object) -> int | None:
    """Check that a plan's answer speaks for a population; return the size of that, if it was given and can be used."""
    schema, numbers, aggregates = plan.schema, _find_population_numbers(plan), plan.query.aggregates
    if not numbers:
        raise InvalidInput(NO_POPULATION)
    row_numbers = [name for name, index in numbers.items() if aggregates[index].function != "count_distinct"]
    if schema.rows > 1 and row_numbers:
        raise Unsupported(
            f"units are drawn from a population, and one may have {schema.rows} rows here, so {row_numbers[0][:40]} "
            f"has no interval for it; ask for COUNT(DISTINCT {schema.unit}) alone"
        )
    if plan.coverage.is_selective and plan.coverage.rows is None:
        raise Unsupported(PRIVATE_KEYS_REFUSED)
    if size is None:
        return None
    if schema.units is None:
        raise InvalidInput(
            f"the size of a population is of use where the number of units is public; that of {schema.name} is not, "
            "so leave it out"
        )
    population = as_int(size, "the size of the population")
    if population < schema.units:
        raise InvalidInput(
            f"the population has at least the {schema.units:,} units of {schema.name}; got {population:,}"
        )
    return population


def estimate_population(
    decoder: Decoder, noisy_result: NoisyResult, order: Sequence[int], confidence: float, size: object
) -> tuple[Mapping[str, PopulationEstimate], ...]:
    """Estimate the numbers of each row of the reply for the population."""
    population_size = check_population_size(decoder.plan, size)
    population_numbers = _find_population_numbers(decoder.plan)
    coverage = decoder.plan.coverage
    interval_confidence = coverage.adjust_confidence(confidence)
    if interval_confidence is None:
        raise Unsupported(PRIVATE_KEYS_REFUSED)
    sample = SampleEstimator(decoder, interval_confidence, population_size)
    joint_statement = coverage.format_sentence(confidence)

    def estimate_number(name: str, index: int, numbers: CellOutputs) -> PopulationEstimate:
        estimate = sample.estimate_number(name, index, numbers)
        addition = f"; {joint_statement[:1].lower()}{joint_statement[1:-1]}" if joint_statement else ""
        return replace(estimate, confidence=confidence, words=estimate.words + addition)

    return tuple(
        {name: estimate_number(name, index, noisy_result.numbers[row]) for name, index in population_numbers.items()}
        for row in order
    )


@dataclass(frozen=True, eq=False, slots=True)
class SampleEstimator:
    """The units of one reply as a random sample; `size` is that of the population, where it is given."""

    decoder: Decoder
    confidence: float
    size: int | None
    _noise_tails: dict[int, UpperTail] = field(default_factory=dict)
    _estimates: dict[tuple[int, CellOutputs], PopulationEstimate] = field(default_factory=dict)

    def estimate_number(self, name: str, index: int, numbers: CellOutputs) -> PopulationEstimate:
        """Estimate one number of one row; the same noisy outputs give the same estimate."""
        if (index, numbers) not in self._estimates:
            self._estimates[index, numbers] = self._estimate_number(name, index, numbers)
        return self._estimates[index, numbers]

    def _estimate_number(self, name: str, index: int, numbers: CellOutputs) -> PopulationEstimate:
        if self._readings[index].is_public:
            return self._estimate_all_units(name)
        value = float(cast(Fraction, self.decoder.decode_values(index, numbers[index])[0]))
        if self.decoder.plan.query.aggregates[index].function == "avg":
            return self._estimate_mean(name, index, value, numbers)
        estimate = self._estimate_count(name, index, value, numbers)
        if self._readings[index].is_clear_of_threshold(numbers[index], self.confidence):
            return estimate
        return replace(estimate, interval=(0.0, estimate.interval[1]))

    def _estimate_all_units(self, name: str) -> PopulationEstimate:
        """A count of every unit: neither noise nor the draw of the sample moves it."""
        count = float(self.size or self.decoder.plan.schema.units or 0)
        words = f"every unit counts, so that it is the size of the {'sample' if self.size is None else 'population'}"
        return PopulationEstimate(name, count, (count, count), self.confidence, 0.0, 0.0, words)

    def _estimate_count(self, name: str, index: int, value: float, numbers: CellOutputs) -> PopulationEstimate:
        units = self.decoder.plan.schema.units
        noise = self._get_noise_tail(index)
        half_width = self._compute_noise_half_width(index, numbers[index])
        if units is None:
            sampled_value = NoisySample(value, compute_poisson, noise, (0.0, math.inf), math.sqrt(max(value, 0.0) + 1))
            words = f"the count to be expected in such a sample; {RANDOM_SAMPLE_NOTE}, their number not being public"
            return self._build_population(name, sampled_value, self.confidence, (0.0, 1.0), half_width, words)
        sampled_value = _build_share(value / units, _choose_share_distribution(units, self.size), noise, units, units)
        words = f"the count to be expected in such a sample of {units:,}; {RANDOM_SAMPLE_NOTE}"
        if self.size is not None:
            words = f"the count in the population of {self.size:,}; {RANDOM_SAMPLE_NOTE} of {units:,}"
        max_count = float(self.size or units)
        return self._build_population(
            name, sampled_value, self.confidence, (0.0, max_count), half_width * max_count / units, words
        )

    def _get_noise_tail(self, index: int) -> UpperTail:
        if index not in self._noise_tails:
            self._noise_tails[index] = tabulate_upper_tail(cast(AnswerNoise, self._readings[index].answer_noise))
        return self._noise_tails[index]

    def _estimate_mean(self, name: str, index: int, value: float, numbers: CellOutputs) -> PopulationEstimate:
        column = self.decoder.plan.schema.column(self.decoder.plan.query.aggregates[index].column or "")
        low, width = float(column.lower * column.step), float((column.upper - column.lower) * column.step)
        units, noise, is_public = self._find_mean_units(index, value, numbers[index])
        if units < 1 or not width:
            words = self._describe_mean(column, is_public, uses_variance=False)
            return PopulationEstimate(name, value, (low, low + width), self.confidence, width / 2, width / 2, words)
        share, size = (value - low) / width, self.size if is_public else None
        variance = self._add_hidden_variance(self._bound_variance(index, numbers) / width**2, units)
        uses_variance = units >= MIN_NORMAL_UNITS and variance < share * (1 - share)
        distribution = _choose_share_distribution(units, size)
        if uses_variance:
            unsampled = 1.0 if size is None else 1 - units / size
            # The variance is no more than it can be about a target.
            distribution = build_normal(lambda mean: math.sqrt(min(variance, mean * (1 - mean)) * unsampled / units))
        miss = (1 - self.confidence) * (1 - SIDE_MISS_SHARE * ((not is_public) + 2 * math.isfinite(variance)))
        sampled_value = _build_share(share, distribution, noise, width, units)
        half_width = self._compute_noise_half_width(index, numbers[index])
        words = self._describe_mean(column, is_public, uses_variance)
        return self._build_population(name, sampled_value, 1 - miss, (low, width), half_width, words)

    def _find_mean_units(self, index: int, value: float, outputs: tuple[int, ...]) -> tuple[int, UpperTail, bool]:
        """Of how many units a mean is, its noise, and whether their number is public.

        The totals show a mean times the noisy number of rows m, not the exact one n (Fieller 1954): the sample's error
        enters n / m times, so it is as that of m^2 / n units.
        """
        ratio, max_units = self._readings[index].ratio, self.decoder.plan.schema.units
        if ratio is None:
            return max_units or 0, self._get_noise_tail(index), True
        rows = max(ratio.estimate_rows(outputs), 0.0)
        max_rows = max(ratio.bound_rows(outputs, self._side_confidence), 1.0)
        units = math.floor(min(rows, rows**2 / min(max_rows, max_units or math.inf)))
        line = ratio.build_mean_noise(ratio.compute_share(value), rows)
        half = sum(map(abs, ratio.compute_error_weights(ratio.compute_share(value), rows))) / 2
        # The tails of a weighted sum are those of noises spread over their cells, half a unit farther than they are.
        return units, lambda distance: line.compute_upper_tail(distance - half), False

    def _bound_variance(self, index: int, numbers: CellOutputs) -> float:
        """The most that the variance under a mean may be, where it was asked for beside it."""
        aggregates = self.decoder.plan.query.aggregates
        for place, aggregate in enumerate(aggregates):
            if aggregate.function in VARIANCE_FUNCTIONS and aggregate.column == aggregates[index].column:
                interval = self.decoder.compute_interval(place, numbers[place], self._side_confidence)
                max_deviation = math.inf if interval is None else float(cast(float, interval[1]))
                return max_deviation if aggregate.function == "var" else max_deviation**2
        return math.inf

    def _add_hidden_variance(self, variance: float, units: int) -> float:
        """With what a sample may hide of the population's variance, between 0 and 1 (Maurer and Pontil 2009)."""
        if units < MIN_NORMAL_UNITS or math.isinf(variance):
            return math.inf
        allowance = math.sqrt(2 * math.log(1 / (1 - self._side_confidence)) / (units - 1))
        return (math.sqrt(variance) + allowance) ** 2

    def _describe_mean(self, column: Column, is_public: bool, uses_variance: bool) -> str:
        quantity = "proportion" if column.kind == "boolean" else "mean"
        size_text = f" of {self.size:,}" if self.size is not None and is_public else ""
        statements = [f"the {quantity} in the population{size_text}", RANDOM_SAMPLE_NOTE]
        if self.size is not None and not is_public:
            statements.append("the size does not enter, since the number of rows behind it is not public")
        if column.kind != "boolean":
            note = STATED_VARIANCE_NOTE if uses_variance else LARGEST_VARIANCE_NOTE
            statements.append(f"their variance is taken as {note}")
        return "; ".join(statements)

    def _build_population(
        self, name: str, sample: NoisySample, confidence: float, scale: tuple[float, float], noise: float, words: str
    ) -> PopulationEstimate:
        """In units of the answer: `scale` has where it starts and how wide it is, `noise` its half width."""
        low, width = scale
        value, *interval = (low + width * share for share in (sample.value, *sample.interval(confidence)))
        sampling = width * sample.compute_sampling_half_width(self.confidence)
        return PopulationEstimate(name, value, (interval[0], interval[1]), self.confidence, noise, sampling, words)

    def _compute_noise_half_width(self, index: int, outputs: tuple[int, ...]) -> float:
        """How far the noise alone goes: half the interval of the exact number."""
        low, high = cast("tuple[float, float]", self.decoder.compute_interval(index, outputs, self.confidence))
        return (high - low) / 2

    @property
    def _side_confidence(self) -> float:
        return 1 - (1 - self.confidence) * SIDE_MISS_SHARE

    @property
    def _readings(self) -> tuple[Reading, ...]:
        return self.decoder.plan.readings


def _build_share(
    value: float, distribution: SamplingDistribution, noise: UpperTail, unit: float, units: int
) -> NoisySample:
    """A number between 0 and 1, whose noise is in other units."""
    return NoisySample(value, distribution, lambda distance: noise(distance * unit), (0.0, 1.0), units**-0.5)


def _choose_share_distribution(units: int, size: int | None) -> SamplingDistribution:
    """The share of a sample, or a mean of which no variance is known."""
    return build_binomial(units) if size is None else build_hypergeometric(units, size)
