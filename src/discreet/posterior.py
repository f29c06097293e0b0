"""What is known after an answer: a law over values, for someone who held a prior. Made from public facts alone.

Floats, because it describes and decides nothing: what carries privacy was drawn before.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from discreet.errors import InvalidInput
from discreet.exact import between
from discreet.formatting import format_estimate

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False, repr=False)
class Posterior:
    """What is known after an answer, of a number or of a name.

    Probabilities of cells between rising edges, for numbers; or of names, for categories.

    `points` are the values that the cells stand for, where these are not their middles.
    """

    mass: Array
    edges: Array | None = None
    names: tuple[str, ...] | None = None
    points: Array | None = None

    def __post_init__(self) -> None:
        """One probability for each cell or name; together 1."""
        if (self.edges is None) == (self.names is None):
            raise InvalidInput("a posterior is over numbers or over names")
        cells = len(self.names) if self.names is not None else len(self.edges) - 1 if self.edges is not None else 0
        if cells < 1 or self.mass.shape != (cells,) or not abs(float(self.mass.sum()) - 1) < 1e-9:
            raise InvalidInput("a posterior has one probability for each of its cells, and they add up to 1")

    @property
    def numeric(self) -> bool:
        """Whether it is over numbers."""
        return self.edges is not None

    @cached_property
    def centres(self) -> Array:
        """The value that every cell stands for."""
        edges = self._line()
        return (edges[1:] + edges[:-1]) / 2 if self.points is None else self.points

    def mean(self) -> float:
        """The mean: the estimate with the least expected square error."""
        return float(self.mass @ self.centres)

    def variance(self) -> float:
        """How uncertain it leaves one."""
        return float(self.mass @ (self.centres - self.mean()) ** 2)

    def median(self) -> float:
        """As likely below as above."""
        return self.quantile(0.5)

    def quantile(self, order: float) -> float:
        """The value below which a share of the probability lies; inside a cell of many values, as far along it."""
        sums = np.cumsum(self.mass)
        wanted = order * float(sums[-1]) * (1 - 1e-12)
        at = min(int(np.searchsorted(sums, wanted, side="left")), len(self.mass) - 1)
        edges, widths = self._line(), np.diff(self._line())
        if self.points is not None or self.mass[at] <= 0 or widths[at] < 1.5 * float(widths.min()):
            return float(self.centres[at])
        before = float(sums[at] - self.mass[at])
        return float(edges[at] + widths[at] * min(max((wanted - before) / float(self.mass[at]), 0.0), 1.0))

    def interval(self, confidence: float = 0.95) -> tuple[float, float]:
        """The central interval that holds it with at least that probability."""
        miss = (1 - float(between(confidence, 0, 1, "confidence"))) / 2
        return self.quantile(miss), self.quantile(1 - miss)

    def probability(self, name: str) -> float:
        """The probability of a category."""
        if self.names is None or name not in self.names:
            raise InvalidInput(f"this posterior has no category {str(name)[:40]!r}")
        return float(self.mass[self.names.index(name)])

    def probabilities(self) -> Mapping[str, float]:
        """Every category with its probability."""
        return dict(zip(self.names or (), map(float, self.mass), strict=True))

    def to_json(self) -> dict[str, object]:
        """What a program needs of it."""
        if self.names is not None:
            return {"probabilities": dict(self.probabilities())}
        low, high = self.interval(0.95)
        return {"mean": self.mean(), "median": self.median(), "interval_95": [low, high]}

    def _line(self) -> Array:
        if self.edges is None:
            raise InvalidInput("the mean, median and interval are of numbers; this posterior is over categories")
        return self.edges

    def __repr__(self) -> str:
        if self.names is not None:
            likely = self.names[int(np.argmax(self.mass))]
            return f"Posterior({len(self.names)} categories, {likely} the likeliest)"
        mean, low, high = format_estimate(self.mean(), *self.interval(0.95))
        return f"Posterior(mean {mean}, 95 % between {low} and {high})"
