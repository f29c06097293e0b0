"""Group keys that are not public: shown when their noisy number of units passes a threshold. Proof: threshold.md."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction

from discreet.estimation.noise_distributions import AnswerNoise, ScaledNoise
from discreet.formatting import format_upper
from discreet.measurements.base import KeyUnitsRequest, NoisyOutputs, SelfReading
from discreet.measurements.contribution_bounds import NOT_STATED, ContributionBounds
from discreet.measurements.observed_loss import (
    ZERO,
    InputChange,
    Inputs,
    ObservedLoss,
    compute_noise_loss,
    compute_share,
    count_max_changes,
)
from discreet.mechanisms.discrete_laplace import DiscreteLaplace
from discreet.mechanisms.entropy import Entropy
from discreet.numeric import exp_above, exp_below
from discreet.privacy.cost import PrivacyCost, compute_pure_cost
from discreet.query.scan import ScanMeasure
from discreet.schema import Schema

EXP_BITS = 400
"""The precision to which exponentials are bounded."""
UNIT_MEASURES = (ScanMeasure("units"),)
THRESHOLD_MECHANISM = "discrete Laplace over a threshold"


@dataclass(frozen=True, slots=True)
class Threshold:
    """Discrete Laplace noise on the number of units of each key, and the least noisy number that is shown."""

    noise: DiscreteLaplace
    min_count: int
    delta: Fraction

    @staticmethod
    def of(bounds: ContributionBounds, epsilon: Fraction, delta: Fraction) -> Threshold:
        """A unit is in at most r keys, 2r when it is replaced; a key of its own is shown with a chance of delta / r."""
        noise = DiscreteLaplace(epsilon, bounds.l0_bound)
        return Threshold(noise, 1 + find_rare_count(noise.rate, delta / bounds.rows_per_unit), delta)

    @property
    def privacy_cost(self) -> PrivacyCost:
        """What the choice of the keys costs, with the noisy number of units of each."""
        return replace(compute_pure_cost(self.noise.epsilon), delta=self.delta)

    def select(self, counts: Mapping[str, int], entropy: Entropy) -> dict[str, int]:
        """The keys whose noisy number of units passes the threshold, and that number."""
        shifts = self.noise.sample_units(len(counts), entropy)
        noisy_counts = [number + int(shift) for number, shift in zip(counts.values(), shifts, strict=True)]
        return {key: count for key, count in zip(counts, noisy_counts, strict=True) if count >= self.min_count}


@dataclass(frozen=True, slots=True)
class ThresholdedCount(SelfReading):
    """The noisy number of units that chose a key, which is itself the answer; its cost is that of the threshold."""

    threshold: Threshold
    name: str = THRESHOLD_MECHANISM
    privacy_cost: PrivacyCost = field(default=PrivacyCost(), kw_only=True)

    @property
    def answer_noise(self) -> AnswerNoise:
        return ScaledNoise(self.threshold.noise, 1.0)

    def scan(self) -> KeyUnitsRequest:
        return KeyUnitsRequest()

    def measure(self, inputs: Sequence[int], entropy: Entropy) -> list[NoisyOutputs]:  # noqa: ARG002
        return [(count,) for count in inputs]

    def cache_key(self) -> list[object]:
        return [self.name]

    def compare_inputs(self, inputs: Inputs, other_inputs: Inputs, schema: Schema) -> InputChange:  # noqa: ARG002
        """Nothing: it reads no more than the threshold, whose loss is computed with the keys."""
        return InputChange({}, ObservedLoss())

    def values(self, outputs: NoisyOutputs) -> tuple[int]:
        return (outputs[0],)

    def half_width(self, confidence: float, rows: float | None = None) -> float:  # noqa: ARG002
        return self.threshold.noise.interval(confidence)[1]

    def interval(self, outputs: NoisyOutputs, confidence: float) -> tuple[float, float]:
        half_width = self.threshold.noise.interval(confidence)[1]
        # A small key that is shown owes it to its noise: near the threshold only the upper end says anything.
        lower_end = outputs[0] - half_width if self.is_clear_of_threshold(outputs, confidence) else 1.0
        return lower_end, outputs[0] + half_width

    def is_clear_of_threshold(self, outputs: NoisyOutputs, confidence: float) -> bool:
        return outputs[0] - self.threshold.noise.interval(confidence)[1] > self.threshold.min_count

    def describe_accuracy(self, confidence: float, likely: str = "") -> str:
        """The accuracy of the count of a key that is shown: a small one is shown only where its noise is large."""
        half_width = format_upper(self.threshold.noise.interval(confidence)[1])
        return f"{self._describe_small_keys()}; others are within {half_width} {likely}"

    def describe_selected_accuracy(self) -> str:
        return f"{self._describe_small_keys()}; {NOT_STATED}"

    def _describe_small_keys(self) -> str:
        least = f"keys of fewer than about {self.threshold.min_count:,} units"
        return f"{least} are rarely shown, and then with too high a count"


def find_rare_count(rate: Fraction, chance: Fraction) -> int:
    """The least m >= 1 for which P(N >= m) = e^(-rate m) / (1 + e^-rate) is certified to be at most the chance."""
    log_chance = math.log(chance.numerator) - math.log(chance.denominator)
    least = max(1, math.ceil((-log_chance - math.log1p(math.exp(-rate))) / float(rate)) - 2)
    while exp_above(-rate * least, EXP_BITS) > chance * (1 + exp_below(-rate, EXP_BITS)):
        least += 1
    return least


def compute_threshold_change(
    threshold: Threshold, schema: Schema, key_counts: Mapping[str, int], other_key_counts: Mapping[str, int]
) -> InputChange:
    """Return the shares and the loss of private keys: units that differ, keys of one table only, units of such a key.

    A key of one table only costs the probability that it is shown; of both tables the larger delta counts.
    """
    common = [key_counts[key] - other_key_counts[key] for key in key_counts if key in other_key_counts]
    unshared_counts = [
        [mine[key] for key in mine if key not in other]
        for mine, other in ((key_counts, other_key_counts), (other_key_counts, key_counts))
    ]
    total_change = sum(map(abs, common)) + sum(map(sum, unshared_counts))
    shares = {
        "units": compute_share(total_change, count_max_changes(schema)),
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
