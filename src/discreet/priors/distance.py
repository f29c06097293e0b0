"""Distances between values, for refinement and for groups: what "near the truth" means.

A distance is public and only orders outcomes; privacy never depends on it (refinement.md). `keys` gives whole numbers
in the same order, so that ties are exact. A distance measures the truth itself, so it is one of the classes here and is
made of plain values: `copy_distance` copies one that comes from a caller, and refuses a subclass.
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
from discreet.numeric import MAX_EXPONENT, as_positive, is_hashable, read_clamped
from discreet.priors.taxonomy import Taxonomy, copy_taxonomy
from discreet.suggestions import build_unknown_name_error
from discreet.untrusted import CheckedValue, copy_list, copy_text, copy_value, has_type, require_exact_class, set_fields

KEY_RESOLUTION = 2**40
"""Irrational distances are compared after rounding up to 1/KEY_RESOLUTION; ceilings keep the triangle inequality."""
MAX_MAGNITUDE = Fraction(10**MAX_EXPONENT)
"""A number beyond this counts as this."""


class Distance(CheckedValue, ABC):
    """A distance between two values; make one with the static methods, such as `Distance.continuous`.

    Example:
        >>> from discreet import Distance
        >>> Distance.continuous().between(3, 5)
        2.0
        >>> Distance.ordinal(["none", "primary", "secondary"]).between("none", "secondary")
        2.0
    """

    stored_name: ClassVar[str]
    """What it is called in the names of stored answers: never changed, whatever the class is called."""

    @abstractmethod
    def between(self, first: Hashable, second: Hashable) -> float:
        """The distance."""

    @abstractmethod
    def key(self, first: Hashable, second: Hashable) -> int | Fraction:
        """The distance as an exact number, equal only where the distances are."""

    @abstractmethod
    def knows(self, value: Hashable) -> bool:
        """Whether the value can be measured. It never raises, whatever comes: the value may be secret."""

    def squared_distance(self, first: Hashable, second: Hashable) -> Fraction:
        """The square of the distance, as exactly as it is known."""
        return Fraction(self.between(first, second)) ** 2

    def keys(self, truth: Hashable, values: Sequence[Hashable]) -> list[int | Fraction]:
        """The distance of every value from the truth, exact."""
        return [self.key(truth, value) for value in values]

    @staticmethod
    def continuous() -> Distance:
        """|x - y|."""
        return ContinuousDistance()

    @staticmethod
    def nominal() -> Distance:
        """0 for equal values, 1 for others."""
        return NominalDistance()

    @staticmethod
    def ordinal(categories: Sequence[Hashable]) -> Distance:
        """How many places apart, in the given order."""
        return OrdinalDistance(tuple(copy_list(categories, "the categories of an ordinal distance")))

    @staticmethod
    def semantic(taxonomy: Taxonomy) -> Distance:
        """Formula 6.6 of the thesis: log2(1 + share of ancestors not in common)."""
        return SemanticDistance(taxonomy)

    @staticmethod
    def product(parts: Sequence[Distance], weights: Sequence[object] | None = None) -> Distance:
        """sqrt(sum of weight times squared distance) over components; formula 6.7 has weights 1 / width^2."""
        components = tuple(map(copy_distance, copy_list(parts, "the components of a product distance")))
        numbers = [1] * len(components) if weights is None else copy_list(weights, "the weights of a product")
        return ProductDistance(components, tuple(as_positive(number, "a weight") for number in numbers))


class _RationalDistance(Distance):
    """A distance that is a rational, its own key."""

    def between(self, first: Hashable, second: Hashable) -> float:
        return float(self.key(first, second))

    def squared_distance(self, first: Hashable, second: Hashable) -> Fraction:
        return Fraction(self.key(first, second)) ** 2


@dataclass(frozen=True, slots=True)
class ContinuousDistance(_RationalDistance):
    """|x - y|."""

    stored_name = "continuous"

    def key(self, first: Hashable, second: Hashable) -> Fraction:
        return abs(_require_number(first) - _require_number(second))

    def knows(self, value: Hashable) -> bool:
        return is_hashable(value) and read_clamped(value, -MAX_MAGNITUDE, MAX_MAGNITUDE) is not None


@dataclass(frozen=True, slots=True)
class NominalDistance(_RationalDistance):
    """0 or 1."""

    stored_name = "nominal"

    def key(self, first: Hashable, second: Hashable) -> int:
        """1 also where two values refuse to be compared, as a number too large for a float with a float may."""
        try:
            return int(bool(first != second))
        except (TypeError, ValueError, ArithmeticError):
            return 1

    def knows(self, value: Hashable) -> bool:
        return is_hashable(value)


@dataclass(frozen=True, slots=True)
class OrdinalDistance(_RationalDistance):
    """Places apart."""

    stored_name = "ordinal"
    categories: tuple[Hashable, ...]
    places: Mapping[Hashable, int] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        categories = tuple(copy_value(category, "a category") for category in copy_list(self.categories, "categories"))
        places = {category: place for place, category in enumerate(categories)}
        if not categories or len(places) < len(categories):
            raise InvalidInput("an ordinal distance needs its categories in order, each once")
        set_fields(self, categories=categories, places=MappingProxyType(places))

    def key(self, first: Hashable, second: Hashable) -> int:
        if not (self.knows(first) and self.knows(second)):
            raise InvalidInput(f"an ordinal distance measures its own {len(self.categories)} categories only")
        return abs(self.places[first] - self.places[second])

    def knows(self, value: Hashable) -> bool:
        return is_hashable(value) and value in self.places


@dataclass(frozen=True, slots=True)
class SemanticDistance(Distance):
    """Formula 6.6, a metric. Ordered by its rational argument, so ties are exact."""

    stored_name = "semantic"
    taxonomy: Taxonomy

    def __post_init__(self) -> None:
        """Copy the taxonomy: it is asked about the truth."""
        set_fields(self, taxonomy=copy_taxonomy(self.taxonomy))

    def between(self, first: Hashable, second: Hashable) -> float:
        return math.log2(1 + self.key(first, second))

    def key(self, first: Hashable, second: Hashable) -> Fraction:
        return self.taxonomy.compute_dissimilarity(str(first), str(second))

    def knows(self, value: Hashable) -> bool:
        return is_hashable(value) and value in self.taxonomy.ancestors


@dataclass(frozen=True, slots=True)
class ProductDistance(Distance):
    """Root of the weighted sum of squares over components; values are tuples."""

    stored_name = "product"
    parts: tuple[Distance, ...]
    weights: tuple[Fraction, ...]

    def __post_init__(self) -> None:
        parts = tuple(map(copy_distance, copy_list(self.parts, "the components of a product distance")))
        weights = tuple(as_positive(weight, "a weight") for weight in copy_list(self.weights, "the weights"))
        if not parts:
            raise InvalidInput("a product distance is made of a list of distances, such as [Distance.nominal(), ...]")
        if len(weights) != len(parts):
            raise InvalidInput(f"a product distance needs one weight for each of its {len(parts)} components")
        set_fields(self, parts=parts, weights=weights)

    def between(self, first: Hashable, second: Hashable) -> float:
        """The root, by way of whole numbers where the square is too large for a float; infinite where the root is."""
        square = self.squared_distance(first, second)
        try:
            return math.sqrt(square) if square < 2**1000 else float(math.isqrt(math.floor(square)))
        except OverflowError:
            return math.inf

    def squared_distance(self, first: Hashable, second: Hashable) -> Fraction:
        return Fraction(self.key(first, second), KEY_RESOLUTION)

    def key(self, first: Hashable, second: Hashable) -> int:
        """The weighted sum of squares in units of 1/KEY_RESOLUTION, each term rounded up."""
        return int(self.keys(first, [second])[0])

    def keys(self, truth: Hashable, values: Sequence[Hashable]) -> list[int | Fraction]:
        """As `key`, but every component is measured once per distinct value."""
        truth_components = self._require_components(truth)
        columns = zip(*map(self._require_components, values), strict=True)
        total: list[int | Fraction] = [0] * len(values)
        for part, weight, center, column in zip(self.parts, self.weights, truth_components, columns, strict=True):
            scale = weight * KEY_RESOLUTION
            squares = {v: math.ceil(scale * part.squared_distance(center, v)) for v in set(column)}
            total = [subtotal + squares[v] for subtotal, v in zip(total, column, strict=True)]
        return total

    def _require_components(self, value: Hashable) -> tuple[Hashable, ...]:
        if not isinstance(value, tuple) or len(value) != len(self.parts):
            raise InvalidInput(f"a product distance of {len(self.parts)} components measures tuples of that length")
        return value

    def knows(self, value: Hashable) -> bool:
        if not isinstance(value, tuple) or len(value) != len(self.parts):
            return False
        return all(part.knows(component) for part, component in zip(self.parts, value, strict=True))


DISTANCE_CLASSES: tuple[type[Distance], ...] = (
    ContinuousDistance,
    NominalDistance,
    OrdinalDistance,
    SemanticDistance,
    ProductDistance,
)
"""All there are: any other class would be told the truth."""


def copy_distance(distance: object) -> Distance:
    """A new distance made of plain values; refuses what is not exactly one of ours, since it is told the truth."""
    original = require_exact_class(
        distance, DISTANCE_CLASSES, "a distance is Distance.continuous(), .nominal(), .ordinal, .semantic or .product"
    )
    match original:
        case OrdinalDistance(categories=categories):
            return OrdinalDistance(categories)
        case SemanticDistance(taxonomy=taxonomy):
            return SemanticDistance(taxonomy)
        case ProductDistance(parts=parts, weights=weights):
            return ProductDistance(parts, weights)
    return ContinuousDistance() if type(original) is ContinuousDistance else NominalDistance()


def _require_number(value: object) -> Fraction:
    number = read_clamped(value, -MAX_MAGNITUDE, MAX_MAGNITUDE)
    if number is None:
        raise InvalidInput("the continuous distance measures numbers only")
    return number


def parse_distance(name: object) -> Distance:
    """A distance given as such or by its name."""
    if has_type(name, Distance):
        return copy_distance(name)
    if has_type(name, str) and (distance_name := copy_text(name, "a distance")) in ("continuous", "nominal"):
        return ContinuousDistance() if distance_name == "continuous" else NominalDistance()
    if has_type(name, Taxonomy):
        raise InvalidInput("a taxonomy is not itself a distance; use Distance.semantic(taxonomy)")
    distance_name = copy_text(name, "a distance") if has_type(name, str) else repr(name)
    advice = "or Distance.ordinal, .semantic or .product"
    raise build_unknown_name_error("distance", distance_name, ("continuous", "nominal"), advice=advice)


def _list_values(distance: object, values: object) -> list[Hashable]:
    if not isinstance(distance, Distance):
        raise InvalidInput(f"the distance must be one such as Distance.continuous(), got {type(distance).__name__}")
    listed_values = copy_list(values, "the values")
    if not listed_values:
        raise InvalidInput("there must be at least one value")
    return listed_values


def marginality(distance: Distance, values: Sequence[Hashable], candidate: Hashable) -> float:
    """Compute the marginality of a value: the sum of its distances to the values (formula 6.1).

    Args:
        distance: The distance between values.
        values: The values, at least one.
        candidate: The value whose marginality is computed.

    Returns:
        The sum of the distances.

    Raises:
        InvalidInput: There are no values, or the distance does not measure one of them.

    Example:
        >>> from discreet import Distance
        >>> from discreet.sdc import marginality
        >>> marginality(Distance.continuous(), [1, 2, 10], 10)
        17.0
    """
    values = _list_values(distance, values)
    return math.fsum(distance.between(candidate, value) for value in values)


def boundary(distance: Distance, values: Sequence[Hashable]) -> tuple[Hashable, Hashable]:
    """Find the most marginal value and the value farthest from it (formulas 6.2 and 6.3).

    They are not always the ends of the diameter.

    Args:
        distance: The distance between values.
        values: The values, at least one.

    Returns:
        The two values.

    Raises:
        InvalidInput: There are no values, or the distance does not measure one of them.

    Example:
        >>> from discreet import Distance
        >>> from discreet.sdc import boundary
        >>> boundary(Distance.continuous(), [1, 2, 10])
        (10, 1)
    """
    values = _list_values(distance, values)
    first = max(values, key=lambda value: marginality(distance, values, value))
    return first, max(values, key=lambda value: distance.between(first, value))


def diameter(distance: Distance, values: Sequence[Hashable]) -> float:
    """Compute the greatest distance between two of the values.

    Args:
        distance: The distance between values.
        values: The values, at least one.

    Returns:
        The diameter.

    Raises:
        InvalidInput: There are no values, or the distance does not measure one of them.

    Example:
        >>> from discreet import Distance
        >>> from discreet.sdc import diameter
        >>> diameter(Distance.continuous(), [1, 2, 10])
        9.0
    """
    values = _list_values(distance, values)
    return max(distance.between(first, second) for first in values for second in values)
