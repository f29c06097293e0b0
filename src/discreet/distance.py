"""Distances between values, for refinement and for groups: what "near the truth" means.

A distance is public and only orders outcomes; privacy never depends on it (refinement.md). `keys` gives whole numbers
in the same order, so that ties are exact. A distance measures the truth itself, so it is one of the classes here and is
made of plain values: `plain_distance` copies one that comes from a caller, and refuses a subclass.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from types import MappingProxyType
from typing import ClassVar

from discreet.errors import InvalidInput
from discreet.exact import LARGEST_EXPONENT, hashable, positive, reading
from discreet.plain import is_a, plain_list, plain_text, plain_value, require_own
from discreet.taxonomy import Taxonomy, plain_taxonomy

FINE = 2**40
"""Distances that are irrational are compared after rounding up to 1/FINE; ceilings keep the triangle inequality."""

FARTHEST = Fraction(10**LARGEST_EXPONENT)
"""A number beyond this counts as this."""


class Distance(ABC):
    """A way to say how far apart two values are."""

    stored_name: ClassVar[str]
    """What it is called in the names of stored answers: never changed, whatever the class is called."""

    @abstractmethod
    def between(self, one: Hashable, two: Hashable) -> float:
        """The distance."""

    @abstractmethod
    def key(self, one: Hashable, two: Hashable) -> int | Fraction:
        """The distance as an exact number, equal only where the distances are."""

    @abstractmethod
    def knows(self, value: Hashable) -> bool:
        """Whether the value can be measured. It never raises, whatever comes: the value may be secret."""

    def squared(self, one: Hashable, two: Hashable) -> Fraction:
        """The square of the distance, as exactly as it is known."""
        return Fraction(self.between(one, two)) ** 2

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
        return Ordinal(tuple(plain_list(categories, "the categories of an ordinal distance")))

    @staticmethod
    def semantic(taxonomy: Taxonomy) -> Distance:
        """Formula 6.6 of the thesis: log2(1 + share of ancestors not in common)."""
        return Semantic(taxonomy)

    @staticmethod
    def product(parts: Sequence[Distance], weights: Sequence[object] | None = None) -> Distance:
        """sqrt(sum of weight times squared distance) over components; formula 6.7 has weights 1 / width^2."""
        listed = plain_list(parts, "the components of a product distance")
        chosen = [Fraction(1)] * len(listed) if weights is None else plain_list(weights, "the weights of a product")
        return Product(tuple(listed), tuple(chosen))


class _Rational(Distance):
    """A distance that is a rational, its own key."""

    def between(self, one: Hashable, two: Hashable) -> float:
        return float(self.key(one, two))

    def squared(self, one: Hashable, two: Hashable) -> Fraction:
        return Fraction(self.key(one, two)) ** 2


@dataclass(frozen=True, slots=True)
class Continuous(_Rational):
    """|x - y|."""

    stored_name = "continuous"

    def key(self, one: Hashable, two: Hashable) -> Fraction:
        return abs(_number(one) - _number(two))

    def knows(self, value: Hashable) -> bool:
        return hashable(value) and reading(value, -FARTHEST, FARTHEST) is not None


@dataclass(frozen=True, slots=True)
class Nominal(_Rational):
    """0 or 1."""

    stored_name = "nominal"

    def key(self, one: Hashable, two: Hashable) -> int:
        """1 also where two values refuse to be compared, as a number too large for a float with a float may."""
        try:
            return int(bool(one != two))
        except (TypeError, ValueError, ArithmeticError):
            return 1

    def knows(self, value: Hashable) -> bool:
        return hashable(value)


@dataclass(frozen=True, slots=True)
class Ordinal(_Rational):
    """Places apart."""

    stored_name = "ordinal"
    categories: tuple[Hashable, ...]
    places: Mapping[Hashable, int] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Copy the categories as plain values; each stands once."""
        listed = tuple(plain_value(category, "a category") for category in plain_list(self.categories, "categories"))
        places = {category: place for place, category in enumerate(listed)}
        if not listed or len(places) < len(listed):
            raise InvalidInput("an ordinal distance needs its categories in order, each once")
        object.__setattr__(self, "categories", listed)
        object.__setattr__(self, "places", MappingProxyType(places))

    def key(self, one: Hashable, two: Hashable) -> int:
        if not (self.knows(one) and self.knows(two)):
            raise InvalidInput(f"an ordinal distance measures its own {len(self.categories)} categories only")
        return abs(self.places[one] - self.places[two])

    def knows(self, value: Hashable) -> bool:
        return hashable(value) and value in self.places


@dataclass(frozen=True, slots=True)
class Semantic(Distance):
    """Formula 6.6, a metric. Ordered by its rational argument, so ties are exact."""

    stored_name = "semantic"
    taxonomy: Taxonomy

    def __post_init__(self) -> None:
        """Copy the taxonomy: it is asked about the truth."""
        object.__setattr__(self, "taxonomy", plain_taxonomy(self.taxonomy))

    def between(self, one: Hashable, two: Hashable) -> float:
        return math.log2(1 + self.key(one, two))

    def key(self, one: Hashable, two: Hashable) -> Fraction:
        return self.taxonomy.apart(str(one), str(two))

    def knows(self, value: Hashable) -> bool:
        return hashable(value) and value in self.taxonomy.ancestors


@dataclass(frozen=True, slots=True)
class Product(Distance):
    """Root of the weighted sum of squares over components; values are tuples."""

    stored_name = "product"
    parts: tuple[Distance, ...]
    weights: tuple[Fraction, ...]

    def __post_init__(self) -> None:
        """Copy the components; each has one weight above 0."""
        parts = tuple(map(plain_distance, plain_list(self.parts, "the components of a product distance")))
        weights = tuple(positive(weight, "a weight") for weight in plain_list(self.weights, "the weights"))
        if not parts:
            raise InvalidInput("a product distance is made of a list of distances, such as [Distance.nominal(), ...]")
        if len(weights) != len(parts):
            raise InvalidInput(f"a product distance needs one weight for each of its {len(parts)} components")
        object.__setattr__(self, "parts", parts)
        object.__setattr__(self, "weights", weights)

    def between(self, one: Hashable, two: Hashable) -> float:
        """The root; infinite where no float is as large."""
        return _root(self.squared(one, two))

    def squared(self, one: Hashable, two: Hashable) -> Fraction:
        return Fraction(self.key(one, two), FINE)

    def key(self, one: Hashable, two: Hashable) -> int:
        """The weighted sum of squares in units of 1/FINE, each term rounded up."""
        return int(self.keys(one, [two])[0])

    def keys(self, truth: Hashable, values: Sequence[Hashable]) -> list[int | Fraction]:
        """As `key`, but every component is measured once per distinct value."""
        own = _components(truth, self.parts)
        columns = list(zip(*(_components(value, self.parts) for value in values), strict=True))
        total: list[int | Fraction] = [0] * len(values)
        for part, weight, mine, column in zip(self.parts, self.weights, own, columns, strict=True):
            squares = {v: math.ceil(weight * FINE * part.squared(mine, v)) for v in set(column)}
            total = [sofar + squares[v] for sofar, v in zip(total, column, strict=True)]
        return total

    def knows(self, value: Hashable) -> bool:
        if not isinstance(value, tuple) or len(value) != len(self.parts):
            return False
        return all(part.knows(component) for part, component in zip(self.parts, value, strict=True))


KINDS: tuple[type[Distance], ...] = (Continuous, Nominal, Ordinal, Semantic, Product)
"""All there are: any other class would be told the truth."""


def _components(value: Hashable, parts: Sequence[Distance]) -> tuple[Hashable, ...]:
    if not isinstance(value, tuple) or len(value) != len(parts):
        raise InvalidInput(f"a product distance of {len(parts)} components measures tuples of that length")
    return value


def plain_distance(distance: object) -> Distance:
    """A new distance made of plain values; refuses what is not exactly one of ours, since it is told the truth."""
    own = require_own(
        distance, KINDS, "a distance is Distance.continuous(), .nominal(), .ordinal, .semantic or .product"
    )
    match own:
        case Ordinal(categories=categories):
            return Ordinal(categories)
        case Semantic(taxonomy=taxonomy):
            return Semantic(taxonomy)
        case Product(parts=parts, weights=weights):
            return Product(parts, weights)
    return Continuous() if type(own) is Continuous else Nominal()


def _number(value: object) -> Fraction:
    number = reading(value, -FARTHEST, FARTHEST)
    if number is None:
        raise InvalidInput("the continuous distance measures numbers only")
    return number


def _root(square: Fraction) -> float:
    """The square root; of a number too large for a float by way of whole numbers."""
    try:
        return math.sqrt(square) if square < 2**1000 else float(math.isqrt(math.floor(square)))
    except OverflowError:
        return math.inf


def named_distance(name: object) -> Distance:
    """A distance given as such or by its name."""
    if is_a(name, Distance):
        return plain_distance(name)
    if is_a(name, str) and (said := plain_text(name, "a distance")) in ("continuous", "nominal"):
        return Continuous() if said == "continuous" else Nominal()
    if is_a(name, Taxonomy):
        raise InvalidInput("a taxonomy is not itself a distance; use Distance.semantic(taxonomy)")
    raise InvalidInput(
        f"unknown distance {repr(name)[:40]}; use 'continuous', 'nominal', Distance.ordinal, .semantic or .product"
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
