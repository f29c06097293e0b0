"""A number that is public already, by the schema alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from discreet.measurements.base import ExactInput, NoisyOutputs, SelfReading
from discreet.measurements.observed_loss import InputChange, Inputs, ObservedLoss
from discreet.mechanisms.entropy import Entropy
from discreet.privacy.cost import PrivacyCost
from discreet.schema import Schema


@dataclass(frozen=True, slots=True)
class PublicConstant(SelfReading):
    """The declared number of units, or of rows: it costs nothing and reads nothing."""

    value: int
    name: str = "public by the schema"
    privacy_cost: PrivacyCost = field(default=PrivacyCost(), kw_only=True)

    @property
    def is_public(self) -> bool:
        return True

    @property
    def is_batched(self) -> bool:
        return True

    @property
    def is_degradable(self) -> bool:
        return True

    @property
    def prior_unused_reason(self) -> str:
        return "it is public already"

    def scan(self) -> None:
        return None

    def measure(self, inputs: Sequence[ExactInput], entropy: Entropy) -> list[NoisyOutputs]:  # noqa: ARG002
        return [(0,)] * len(inputs)

    def cache_key(self) -> list[object]:
        return [self.name]

    def compare_inputs(self, inputs: Inputs, other_inputs: Inputs, schema: Schema) -> InputChange:  # noqa: ARG002
        return InputChange({}, ObservedLoss())

    def values(self, outputs: NoisyOutputs) -> tuple[int]:  # noqa: ARG002
        return (self.value,)

    def interval(self, outputs: NoisyOutputs, confidence: float) -> tuple[float, float]:  # noqa: ARG002
        return float(self.value), float(self.value)

    def half_width(self, confidence: float, rows: float | None = None) -> float:  # noqa: ARG002
        return 0.0

    def bound_error(self, confidence: float) -> float:  # noqa: ARG002
        return 0.0

    def expected_error(self) -> float:
        return 0.0

    def describe_accuracy(self, confidence: float, likely: str = "") -> str:  # noqa: ARG002
        return "exact: the schema makes it public"

    def describe_selected_accuracy(self) -> str:
        return self.describe_accuracy(1.0)
