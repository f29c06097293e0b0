"""Distances between values, for refinement and for groups: what "near the truth" means.

A distance is public and only orders outcomes; privacy never depends on it (refinement.md). `keys` gives whole numbers
in the same order, so that ties are exact.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from fractions import Fraction

from discreet.errors import InvalidInput
from discreet.exact import positive, rational
from discreet.taxonomy import Taxonomy

FINE = 2**40
"""Distances that are irrational are compared after rounding up to 1/FINE; ceilings keep the triangle inequality."""


class Distance(ABC):
    """A way to say how far apart two values are."""

    @abstractmethod
    def between(self, one: Hashable, two: Hashable) -> float:
        """The distance."""

    @abstractmethod
    def key(self, one: Hashable, two: Hashable) -> int | Fraction:
        """The distance as an exact number, equal only where the distances are."""

    @abstractmethod
    def knows(self, value: Hashable) -> bool:
        """Whether the value can be measured."""

    def keys(self, truth: Hashable, values: Sequence[Hashable]) -> list[int | Fraction]:
        """The distance of every value from the truth, exact."""
        return [self.key(truth, value) for value in values]

    @staticmethod
    def continuous() -> Distance:
        """|x - y|."""
        return Continuous()

    @staticmethod
    def nominal() -> Distance:
        """0 for equal values, 1 for others."""
        return Nominal()

    @staticmethod
    def ordinal(categories: Sequence[Hashable]) -> Distance:
        """How many places apart, in the given order."""
        places = {category: place for place, category in enumerate(categories)}
        if len(places) < len(categories) or not places:
            raise InvalidInput("an ordinal distance needs its categories in order, each once")
        return Ordinal(tuple(categories))

    @staticmethod
    def semantic(taxonomy: Taxonomy) -> Distance:
        """Formula 6.6 of the thesis: log2(1 + share of ancestors not in common)."""
        return Semantic(taxonomy)

    @staticmethod
    def product(parts: Sequence[Distance], weights: Sequence[object] | None = None) -> Distance:
        """sqrt(sum of weight times squared distance) over components; formula 6.7 has weights 1 / width^2."""
        chosen = [1] * len(parts) if weights is None else list(weights)
        if not parts or len(chosen) != len(parts):
            raise InvalidInput(f"a product distance needs one weight for each of its {len(parts)} components")
        return Product(tuple(parts), tuple(positive(weight, "a weight") for weight in chosen))


@dataclass(frozen=True, slots=True)
class Continuous(Distance):
    """|x - y|."""

    def between(self, one: Hashable, two: Hashable) -> float:
        return float(self.key(one, two))

    def key(self, one: Hashable, two: Hashable) -> Fraction:
        return abs(rational(one, "a value") - rational(two, "a value"))

    def knows(self, value: Hashable) -> bool:
        return isinstance(value, (int, float, Fraction)) and math.isfinite(value)


@dataclass(frozen=True, slots=True)
class Nominal(Distance):
    """0 or 1."""

    def between(self, one: Hashable, two: Hashable) -> float:
        return float(one != two)

    def key(self, one: Hashable, two: Hashable) -> int:
        return int(one != two)

    def knows(self, value: Hashable) -> bool:  # noqa: ARG002 (any two values are equal or not)
        return True


@dataclass(frozen=True, slots=True)
class Ordinal(Distance):
    """Places apart."""

    categories: tuple[Hashable, ...]

    def between(self, one: Hashable, two: Hashable) -> float:
        return float(self.key(one, two))

    def key(self, one: Hashable, two: Hashable) -> int:
        return abs(self.categories.index(one) - self.categories.index(two))

    def knows(self, value: Hashable) -> bool:
        return value in self.categories


@dataclass(frozen=True, slots=True)
class Semantic(Distance):
    """Formula 6.6, a metric. Ordered by its rational argument, so ties are exact."""

    taxonomy: Taxonomy

    def between(self, one: Hashable, two: Hashable) -> float:
        return math.log2(1 + self.key(one, two))

    def key(self, one: Hashable, two: Hashable) -> Fraction:
        return self.taxonomy.apart(str(one), str(two))

    def knows(self, value: Hashable) -> bool:
        return value in self.taxonomy.ancestors


@dataclass(frozen=True, slots=True)
class Product(Distance):
    """Root of the weighted sum of squares over components; values are tuples."""

    parts: tuple[Distance, ...]
    weights: tuple[Fraction, ...]

    def between(self, one: Hashable, two: Hashable) -> float:
        return math.sqrt(float(self.key(one, two)) / FINE)

    def key(self, one: Hashable, two: Hashable) -> int:
        """The weighted sum of squares in units of 1/FINE, each term rounded up."""
        return int(self.keys(one, [two])[0])

    def keys(self, truth: Hashable, values: Sequence[Hashable]) -> list[int | Fraction]:
        """As `key`, but every component is measured once per distinct value."""
        own = _components(truth, self.parts)
        columns = list(zip(*(_components(value, self.parts) for value in values), strict=True))
        total: list[int | Fraction] = [0] * len(values)
        for part, weight, mine, column in zip(self.parts, self.weights, own, columns, strict=True):
            squares = {v: math.ceil(weight * FINE * Fraction(part.between(mine, v)) ** 2) for v in set(column)}
            total = [sofar + squares[v] for sofar, v in zip(total, column, strict=True)]
        return total

    def knows(self, value: Hashable) -> bool:
        sized = isinstance(value, tuple) and len(value) == len(self.parts)
        return sized and all(part.knows(v) for part, v in zip(self.parts, _components(value, self.parts), strict=True))


def _components(value: Hashable, parts: Sequence[Distance]) -> tuple[Hashable, ...]:
    if not isinstance(value, tuple) or len(value) != len(parts):
        raise InvalidInput(f"a product distance of {len(parts)} components measures tuples of that length")
    return value


def named_distance(name: object) -> Distance:
    """A distance given as such or by its name."""
    if isinstance(name, Distance):
        return name
    if name == "continuous":
        return Continuous()
    if name == "nominal":
        return Nominal()
    raise InvalidInput(
        f"unknown distance {name!r}; use 'continuous', 'nominal' or one of Distance.ordinal, .semantic and .product"
    )


def marginality(distance: Distance, values: Sequence[Hashable], candidate: Hashable) -> float:
    """Formula 6.1: the sum of the candidate's distances to the values."""
    return math.fsum(distance.between(candidate, value) for value in values)


def boundary(distance: Distance, values: Sequence[Hashable]) -> tuple[Hashable, Hashable]:
    """Formulas 6.2 and 6.3: the most marginal value, and the one farthest from it. Not always the diameter's ends."""
    first = max(values, key=lambda value: marginality(distance, values, value))
    return first, max(values, key=lambda value: distance.between(first, value))


def diameter(distance: Distance, values: Sequence[Hashable]) -> float:
    """The greatest distance between two of the values."""
    return max(distance.between(one, two) for one in values for two in values)
