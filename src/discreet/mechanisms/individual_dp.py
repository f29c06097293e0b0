"""Individual DP (document 004): noise at the local sensitivity. Weaker than DP and labelled so.

Proof: individual_dp.md.

It protects the table that is there against one change, not neighbouring tables against each other: its noise scale
says something about the data. A floor under the scale keeps a pure DP promise as well, at the epsilon E of the label.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from discreet.errors import InvalidInput
from discreet.mechanisms.discrete_laplace import DiscreteLaplace
from discreet.mechanisms.entropy import Entropy, get_entropy
from discreet.mechanisms.order_statistic import (
    BoundedGrid,
    ColumnValues,
    OrderStatisticName,
    find_rank,
    local_sensitivity,
)
from discreet.numeric import as_int, as_positive, ln_above
from discreet.privacy.guarantee import Guarantee
from discreet.untrusted import CheckedValue, copy_list, copy_value, set_fields


@dataclass(frozen=True, init=False)
class IndividualVector(CheckedValue):
    """Several order statistics of one column under individual DP, each plus discrete Laplace noise of one scale, then
    clamped.

    The scale in grid units is max(sum of local sensitivities / epsilon, d W / E), for d answers over W units; it is
    secret. Individual DP is weaker than differential privacy, it covers no groups beyond `group`, and its noise follows
    the data. The floor d W / E makes it also DP, at a larger epsilon. Both hold under replace-one; the number of values
    is public.

    Args:
        whats: The order statistics: "median", "max", "min", "second max" or ("quantile", q).
        lower: The public lower bound of the values.
        upper: The public upper bound of the values.
        epsilon: The epsilon of individual DP for all of them together, above 0.
        step: The distance of two points of the grid.
        group: How many replaced values the individual guarantee covers at once.
        pure_epsilon: E, which sets the floor under the noise; the DP guarantee is a little weaker, see `cost`.

    Raises:
        InvalidInput: A statistic is unknown, none is given, or a number is not valid.

    Example:
        >>> from discreet.mechanisms import IndividualVector
        >>> mechanism = IndividualVector(["min", "max"], lower=0, upper=100, epsilon=1)
        >>> len(mechanism.answer([31, 35, 40, 41, 58]))
        2
        >>> mechanism.cost().pure_epsilon >= 20  # what is also proven as differential privacy
        True
    """

    whats: tuple[OrderStatisticName, ...]
    epsilon: Fraction
    grid: BoundedGrid
    group: int
    floor: Fraction

    def __init__(
        self,
        whats: Sequence[OrderStatisticName],
        lower: object,
        upper: object,
        epsilon: object,
        step: object = 1,
        group: object = 1,
        pure_epsilon: object = 20,
    ) -> None:
        names = tuple(copy_value(what, "an order statistic") for what in copy_list(whats, "order statistics"))
        for name in names:
            find_rank(name, 1)
        if not names:
            raise InvalidInput("ask for at least one order statistic")
        set_fields(self, whats=names, epsilon=as_positive(epsilon, "epsilon"), grid=BoundedGrid.of(lower, upper, step))
        set_fields(self, group=as_int(group, "group"), floor=as_positive(pure_epsilon, "E"))

    def __reduce__(self) -> tuple[type, tuple[object, ...]]:
        grid = self.grid
        facts = (self.whats, grid.lower, grid.upper, self.epsilon, grid.step, self.group, self.floor)
        return type(self), facts

    def cost(self) -> Guarantee:
        """Individual DP at epsilon, and DP at what the floor under the noise really gives."""
        unit = "row" if self.group == 1 else f"group of {self.group} rows"
        return Guarantee.individual_dp(
            self.epsilon, pure_epsilon=self.compute_pure_epsilon(), neighbors="replace-one", unit=unit
        )

    def compute_pure_epsilon(self) -> Fraction:
        """The epsilon of the DP promise: max(E, d ln(E / epsilon) + epsilon), rounded up; E where epsilon >= E.

        Not E alone: two tables may differ in scale by E / epsilon, and a narrow law is that much higher at its peak.
        """
        if self.epsilon >= self.floor:
            return self.floor
        return max(self.floor, len(self.whats) * ln_above(self.floor / self.epsilon) + self.epsilon)

    def answer(self, values: ColumnValues, entropy: Entropy | None = None) -> tuple[int | Fraction, ...]:
        """One draw around each exact order statistic, clamped to the bounds."""
        units = self.grid.to_units(values)
        noise = build_local_noise(self, units).sample_units(len(self.whats), get_entropy(entropy))
        statistics = np.sort(units)[[find_rank(what, len(units)) - 1 for what in self.whats]]
        return tuple(self.grid.value(int(exact) + int(shift)) for exact, shift in zip(statistics, noise, strict=True))


def build_local_noise(mechanism: IndividualVector, units: NDArray[np.int64]) -> DiscreteLaplace:
    """The noise this table gets, in grid units: rate min(epsilon / LS, E / (d W)). Secret."""
    grid = mechanism.grid
    width = len(mechanism.whats) * grid.width
    total = sum(local_sensitivity(units, what, grid.low, grid.high, mechanism.group) for what in mechanism.whats)
    if total * mechanism.floor > mechanism.epsilon * width:
        return DiscreteLaplace(mechanism.epsilon, total)
    return DiscreteLaplace(mechanism.floor, width)


@dataclass(frozen=True, init=False)
class IndividualOrderStatistic(CheckedValue):
    """One order statistic under individual DP: an `IndividualVector` of length 1.

    Individual DP is weaker than differential privacy, it covers no groups beyond `group`, and its noise follows the
    data. A floor under the noise makes it also DP, at a larger epsilon; both hold under replace-one.

    Args:
        what: "median", "max", "min", "second max" or ("quantile", q).
        lower: The public lower bound of the values.
        upper: The public upper bound of the values.
        epsilon: The epsilon of individual DP, above 0.
        step: The distance of two points of the grid.
        group: How many replaced values the individual guarantee covers at once.
        pure_epsilon: E, which sets the floor under the noise; the DP guarantee is a little weaker, see `cost`.

    Raises:
        InvalidInput: The statistic is unknown, or a number is not valid.

    Example:
        >>> from discreet.mechanisms import IndividualOrderStatistic
        >>> median = IndividualOrderStatistic("median", lower=0, upper=100, epsilon=1)
        >>> median.cost().model, float(median.cost().epsilon)
        ('individual-dp', 1.0)
    """

    vector: IndividualVector

    def __init__(
        self,
        what: OrderStatisticName,
        lower: object,
        upper: object,
        epsilon: object,
        step: object = 1,
        group: object = 1,
        pure_epsilon: object = 20,
    ) -> None:
        set_fields(self, vector=IndividualVector([what], lower, upper, epsilon, step, group, pure_epsilon))

    def __reduce__(self) -> tuple[type, tuple[object, ...]]:
        return type(self), (self.vector.whats[0], *self.vector.__reduce__()[1][1:])

    def cost(self) -> Guarantee:
        """Individual DP at epsilon, and DP at max(E, ln(E / epsilon) + epsilon)."""
        return self.vector.cost()

    def answer(self, values: ColumnValues, entropy: Entropy | None = None) -> int | Fraction:
        """One draw around the exact order statistic, clamped to the bounds."""
        return self.vector.answer(values, entropy)[0]


@dataclass(frozen=True, init=False)
class TruncatedRangeCount(CheckedValue):
    """Document 004's range count: the count plus discrete Laplace noise cut to -1, 0 or 1. It DISCLOSES the count.

    The answer reveals the count to within 1, with certainty, whatever epsilon is; tables whose counts differ by more
    than 2 share no answer. It exists to reproduce Table 2 of the document and must not be released: its cost is
    "nominal".

    Args:
        epsilon: The epsilon of the document, above 0.

    Raises:
        InvalidInput: Epsilon is not a number above 0.

    Example:
        >>> from discreet.mechanisms import TruncatedRangeCount
        >>> TruncatedRangeCount(epsilon=1).cost().model
        'nominal'
    """

    noise: DiscreteLaplace

    def __init__(self, epsilon: object) -> None:
        set_fields(self, noise=DiscreteLaplace(epsilon, 1))

    def __reduce__(self) -> tuple[type, tuple[object, ...]]:
        return type(self), (self.noise.epsilon,)

    def cost(self) -> Guarantee:
        """No promise: the document's figure, so labelled."""
        return Guarantee.nominal(self.noise.epsilon, "the noise is cut to one count, which publishes the table's count")

    def expected_error(self) -> float:
        """P(N is not 0) = 2a / (1+a), a = e^-epsilon."""
        return 2 / (1 + math.exp(self.noise.rate)) if self.noise.rate < 700 else 0.0

    def answer(self, count: int, entropy: Entropy | None = None) -> int:
        """The count, one less or one more."""
        shift = int(self.noise.sample_units(1, get_entropy(entropy))[0])
        return count + min(max(shift, -1), 1)
