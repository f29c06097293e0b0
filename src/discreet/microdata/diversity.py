"""Floors on how much the confidential values of a group must differ, so that the group does not give them away."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar, cast

import numpy as np
from numpy.typing import NDArray

from discreet.errors import InvalidInput
from discreet.exact import as_int, as_positive, as_rational
from discreet.microdata.table import Attribute, Table

Rows = NDArray[np.int64]
GroupTest = Callable[[Rows], bool]
"""Whether these rows, as a group, reach a floor."""


@dataclass(frozen=True, slots=True)
class Distinct:
    """At least so many different values; missing is one of them."""

    stored_name: ClassVar[str] = "distinct"
    values: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "values", as_int(self.values, "the number of distinct values", 2))

    def to_text(self) -> str:
        """As it is written in a manifest, and sent."""
        return f"{self.stored_name} {self.values}"

    def build_test(self, attribute: Attribute) -> GroupTest:
        """The floor for this column."""
        places, _ = _encode_distinct(attribute)
        return lambda rows: len(np.unique(places[rows])) >= self.values


@dataclass(frozen=True, slots=True)
class Spread:
    """From the least to the greatest value at least so far: in the units of a number, in places of an ordinal value."""

    stored_name: ClassVar[str] = "spread"
    width: Fraction

    def __post_init__(self) -> None:
        object.__setattr__(self, "width", as_positive(self.width, "the width of a spread"))

    def to_text(self) -> str:
        """As it is written in a manifest, and sent."""
        return f"{self.stored_name} {self.width}"

    def build_test(self, attribute: Attribute) -> GroupTest:
        """The floor for this column."""
        if attribute.kind == "nominal":
            raise InvalidInput(f"the values of {attribute.name[:40]!r} have no order to be spread in; use Distinct")
        values, missing = attribute.values, attribute.missing

        def has_width(rows: Rows) -> bool:
            present = values[rows[~missing[rows]]]
            return len(present) > 0 and as_rational(present.max()) - as_rational(present.min()) >= self.width

        return has_width


@dataclass(frozen=True, slots=True)
class Closeness:
    """Values distributed as in the whole table, up to t.

    Between 0 and 1: half the sum of the differences for nominal values; for numbers and ordinal values the earth
    mover's distance over the values in order, with neighbours 1/(values - 1) apart and missing after the greatest.
    """

    stored_name: ClassVar[str] = "closeness"
    t: Fraction

    def __post_init__(self) -> None:
        object.__setattr__(self, "t", as_positive(self.t, "the closeness t"))

    def to_text(self) -> str:
        """As it is written in a manifest, and sent."""
        return f"{self.stored_name} {self.t}"

    def build_test(self, attribute: Attribute) -> GroupTest:
        """The floor for this column."""
        places, counts = _encode_distinct(attribute)
        if attribute.kind == "nominal":
            return lambda rows: _compute_variation(places[rows], counts) <= self.t
        cumulative_counts = np.cumsum(counts)
        sums = np.concatenate([[0], np.cumsum(cumulative_counts)])
        return lambda rows: _compute_earth_movers_distance(np.sort(places[rows]), cumulative_counts, sums) <= self.t


Diversity = Distinct | Spread | Closeness
Floors = Mapping[str, Diversity]


def parse_floors(diversity: object, confidential: Sequence[str]) -> Floors:
    """The floor of each confidential column that has one: the same for all, or as the mapping says."""
    floors_by_name = diversity if isinstance(diversity, Mapping) else dict.fromkeys(confidential, diversity)
    floors = {name: floor for name, floor in floors_by_name.items() if floor is not None}
    if not set(floors) <= set(confidential) or not all(isinstance(floor, Diversity) for floor in floors.values()):
        raise InvalidInput(
            "diversity must be Distinct(l), Spread(width) or Closeness(t), or one of them for each confidential column"
        )
    return cast(Floors, floors)


def build_floor_tests(table: Table, floors: Floors) -> list[GroupTest]:
    """What every group must pass."""
    return [floor.build_test(table[name]) for name, floor in floors.items()]


def _encode_distinct(attribute: Attribute) -> tuple[Rows, Rows]:
    """The place of each row's value among the distinct ones, missing last, and how many rows have each of them."""
    values = np.where(attribute.missing, np.nan, attribute.values.astype(np.float64))
    _, places, counts = np.unique(values, return_inverse=True, return_counts=True)
    return places, counts


def _compute_variation(places: Rows, counts: Rows) -> Fraction:
    total, size = int(counts.sum()), len(places)
    present_places, group_counts = np.unique(places, return_counts=True)
    excess = total * group_counts - size * counts[present_places]
    return Fraction(int(excess[excess > 0].sum()), total * size)


def _compute_earth_movers_distance(places: Rows, cumulative_counts: Rows, sums: Rows) -> Fraction:
    """The earth mover's distance of a group from the table.

    It is the sum over values j of |A_j - F_j| / (m - 1), A and F the distribution functions of group and table. A is
    constant between two values of the group, and F rises, so that each such stretch splits at one point into two sums.
    """
    total, size, last = int(cumulative_counts[-1]), len(places), len(cumulative_counts) - 1
    if last == 0:
        return Fraction(0)
    start, stop = np.concatenate([[0], places]), np.concatenate([places, [last]])
    level = total * np.arange(size + 1)  # total * size * A on each stretch
    split = np.clip(np.searchsorted(cumulative_counts, -(-level // size)), start, stop)
    dtype = np.int64 if total * size * last < 2**60 else object
    over = level.astype(dtype) * (2 * split - start - stop)
    under = (sums[stop] + sums[start] - 2 * sums[split]).astype(dtype) * size
    return Fraction(int((over + under).sum()), total * size * last)
