"""Partition a table into groups of near rows, and join groups until they reach a floor on diversity."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import pairwise
from typing import ClassVar, cast

import numpy as np
from numpy.typing import NDArray

from discreet.errors import InvalidInput
from discreet.mechanisms.entropy import Entropy
from discreet.numeric import as_int, as_positive, as_rational
from discreet.sdc.methods.record_distance import RecordSpace, Scale, build_spaces, compute_centroids, order_depth_first
from discreet.sdc.table import (
    Attribute,
    Floats,
    Table,
    read_row_strata,
    read_row_weights,
)
from discreet.untrusted import CheckedValue

Rows = NDArray[np.int64]
GroupTest = Callable[[Rows], bool]
"""Whether these rows, as a group, reach a floor."""


@dataclass(frozen=True, slots=True)
class Distinct(CheckedValue):
    """Diversity of a group: at least this many different values; a missing value is one of them.

    Args:
        values: The number of values, at least 2.

    Raises:
        InvalidInput: It is not a whole number of at least 2.

    Example:
        >>> from discreet import mdav_swap
        >>> from discreet.sdc import Distinct
        >>> table = {"age": [23, 25, 31, 34], "job": ["cook", "cook", "nurse", "nurse"]}
        >>> protected = mdav_swap(table, 2, ["age"], ["job"], diversity=Distinct(2))
        >>> len(set(protected.groups["records"].tolist()))  # one group: the near pairs have one job each
        1
    """

    stored_name: ClassVar[str] = "distinct"
    values: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "values", as_int(self.values, "the number of distinct values", 2))

    def to_text(self) -> str:
        """The text in manifests and requests."""
        return f"{self.stored_name} {self.values}"

    def build_test(self, attribute: Attribute) -> GroupTest:
        """The test of a group's values in this column."""
        places, _ = _encode_distinct(attribute)
        return lambda rows: len(np.unique(places[rows])) >= self.values


@dataclass(frozen=True, slots=True)
class Spread(CheckedValue):
    """Diversity of a group: at least this distance from the least to the greatest value.

    Args:
        width: The distance, above 0: in units of a number, in places of an ordinal value.

    Raises:
        InvalidInput: The width is not a number above 0.

    Example:
        >>> from discreet.sdc import Spread
        >>> Spread(1000).to_text()
        'spread 1000'
    """

    stored_name: ClassVar[str] = "spread"
    width: Fraction

    def __post_init__(self) -> None:
        object.__setattr__(self, "width", as_positive(self.width, "the width of a spread"))

    def to_text(self) -> str:
        """The text in manifests and requests."""
        return f"{self.stored_name} {self.width}"

    def build_test(self, attribute: Attribute) -> GroupTest:
        """The test of a group's values in this column."""
        if attribute.kind == "nominal":
            raise InvalidInput(f"the values of {attribute.name[:40]!r} have no order to be spread in; use Distinct")
        values, missing = attribute.values, attribute.missing

        def has_width(rows: Rows) -> bool:
            present = values[rows[~missing[rows]]]
            return len(present) > 0 and as_rational(present.max()) - as_rational(present.min()) >= self.width

        return has_width


@dataclass(frozen=True, slots=True)
class Closeness(CheckedValue):
    """Diversity of a group: its values are distributed as in the whole table, up to t.

    The distance lies between 0 and 1: half the sum of the differences for nominal values; for numbers and ordinal
    values the earth mover's distance over the values in order, with neighbors 1/(values - 1) apart and missing after
    the greatest.

    Args:
        t: The largest distance that is allowed, above 0.

    Raises:
        InvalidInput: t is not a number above 0.

    Example:
        >>> from discreet.sdc import Closeness
        >>> Closeness(0.2).to_text()
        'closeness 1/5'
    """

    stored_name: ClassVar[str] = "closeness"
    t: Fraction

    def __post_init__(self) -> None:
        object.__setattr__(self, "t", as_positive(self.t, "the closeness t"))

    def to_text(self) -> str:
        """The text in manifests and requests."""
        return f"{self.stored_name} {self.t}"

    def build_test(self, attribute: Attribute) -> GroupTest:
        """The test of a group's values in this column."""
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
    """The tests that every group must pass."""
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


def join_runs(groups: Rows, order: Rows, strata: Rows, tests: Sequence[GroupTest]) -> Rows:
    """The groups, which are runs of the rows in this order, joined with those next to them in their stratum.

    From the low end, a run takes as many groups as it needs; what is left at the high end joins the run before it.
    """
    parts = np.split(order, np.flatnonzero(np.diff(strata[order])) + 1)
    return _label_rows([run for part in parts for run in _split_runs(part, groups, tests)], len(groups))


def _split_runs(order: Rows, groups: Rows, tests: Sequence[GroupTest]) -> list[Rows]:
    ends = np.append(np.flatnonzero(np.diff(groups[order])) + 1, len(order))
    cuts, first = [0], 0
    while first < len(ends):
        remaining_ends = ends[first:]
        joined_count = _find_fewest(order, np.broadcast_to(cuts[-1], len(remaining_ends)), remaining_ends, tests)
        if joined_count is None:
            break
        first += joined_count
        cuts.append(int(ends[first - 1]))
    if cuts[-1] < len(order):
        starts = np.array(cuts[-2::-1], dtype=np.int64)
        joined = _find_fewest(order, starts, np.broadcast_to(len(order), len(starts)), tests)
        if joined is None:
            raise _build_refusal()
        cuts[-joined:] = [len(order)]
    return [order[start:stop] for start, stop in pairwise(cuts)]


def _find_fewest(order: Rows, starts: Rows, ends: Rows, tests: Sequence[GroupTest]) -> int | None:
    """The i for which the i-th of these ever larger runs passes; None where not even the last does.

    Found by doubling and then halving: the first that passes, where no larger run fails what a smaller one passes.
    """
    short, enough = 0, min(1, len(ends))
    while enough and not _passes_tests(order[starts[enough - 1] : ends[enough - 1]], tests):
        short, enough = enough, min(2 * enough, len(ends))
        if short == enough:
            return None
    while enough - short > 1:
        middle = (short + enough) // 2
        passes = _passes_tests(order[starts[middle - 1] : ends[middle - 1]], tests)
        short, enough = (short, middle) if passes else (middle, enough)
    return enough or None


def join_nearest(groups: Rows, centers: RecordSpace, strata: Rows, tests: Sequence[GroupTest]) -> Rows:
    """The groups; one that does not pass is joined with the nearest of its stratum until it does.

    The lowest label comes first, ties go to it too, and a union is where the larger of the two was.
    """
    members = np.split(np.argsort(groups, kind="stable"), np.cumsum(np.bincount(groups))[:-1])
    group_strata = np.array([strata[rows[0]] for rows in members])
    is_short = [not _passes_tests(rows, tests) for rows in members]
    is_open = np.ones(len(members), dtype=bool)
    waiting = [label for label, falls_short in enumerate(is_short) if falls_short]
    while waiting:
        label = heapq.heappop(waiting)
        if not is_open[label] or not is_short[label]:
            continue
        other = _find_nearest_group(label, centers, is_open & (group_strata == group_strata[label]))
        larger, smaller = sorted((label, other), key=lambda candidate: (-len(members[candidate]), candidate))
        members[larger] = np.concatenate([members[larger], members[smaller]])
        is_open[smaller] = False
        is_short[larger] = not _passes_tests(members[larger], tests)
        heapq.heappush(waiting, larger)
    return _label_rows([members[label] for label in np.flatnonzero(is_open)], len(groups))


def _find_nearest_group(label: int, centers: RecordSpace, open_groups: NDArray[np.bool_]) -> int:
    others = open_groups.copy()
    others[label] = False
    if not others.any():
        raise _build_refusal()
    distances = np.square(centers.points - centers.points[label]).sum(axis=1)
    for place, squares in enumerate(centers.squares):
        distances += squares[centers.codes[label, place], centers.codes[:, place]]
    return int(np.argmin(np.where(others, distances, np.inf)))


def _label_rows(members: Sequence[Rows], rows: int) -> Rows:
    labels = np.empty(rows, dtype=np.int64)
    for label, group_rows in enumerate(members):
        labels[group_rows] = label
    return labels


def _passes_tests(rows: Rows, tests: Sequence[GroupTest]) -> bool:
    return all(test(rows) for test in tests)


def _build_refusal() -> InvalidInput:
    return InvalidInput("not even all rows together, or all of a stratum, reach the diversity asked for; ask for less")


Groups = NDArray[np.int64]
NO_FLOORS: Floors = {}


@dataclass(frozen=True, slots=True, eq=False)
class GroupingOptions:
    """How groups are made: the method, the scale of differences, weights, and strata that no group crosses."""

    method: str
    scale: Scale
    weights: Floats | None
    strata: Groups | None
    entropy: Entropy | None


def read_grouping_options(
    table: Table,
    method: str = "mdav",
    scale: Scale = "domain",
    weights: object = None,
    strata: object = None,
    entropy: Entropy | None = None,
) -> GroupingOptions:
    """The options, with weights and strata for each row or by the name of a column."""
    return GroupingOptions(method, scale, read_row_weights(table, weights), read_row_strata(table, strata), entropy)


def group_by_nearness(
    table: Table, k: int, columns: Sequence[str], options: GroupingOptions, floors: Floors = NO_FLOORS
) -> Groups:
    """Groups of rows that are near by these columns; one that falls short of a floor joins the nearest group."""
    from discreet.sdc.methods.microaggregate import microaggregate

    selection = table.select(columns)
    groups = microaggregate(
        selection,
        k,
        options.method,
        options.scale,
        weights=options.weights,
        strata=options.strata,
        entropy=options.entropy,
    )
    if not floors:
        return groups
    first = np.unique(groups, return_index=True)[1]
    attributes = selection.attributes.items()
    centroids = {name: compute_centroids(column, groups, options.weights).take(first) for name, column in attributes}
    centers = build_spaces([selection, Table(centroids)], options.scale)[1]
    return join_nearest(groups, centers, _get_strata(table, options), build_floor_tests(table, floors))


def group_by_rank(table: Table, k: int, column: str, options: GroupingOptions, floors: Floors = NO_FLOORS) -> Groups:
    """Algorithm 7.1: runs of k of the rows in the order of one column, from both ends; equal values by their row.

    A run that falls short of a floor joins the next one.
    """
    from discreet.sdc.methods.microaggregate import microaggregate

    ranks = convert_to_ranks(table[column])
    groups = microaggregate(Table({column: ranks}), k, "ranking", strata=options.strata)
    if not floors:
        return groups
    strata = _get_strata(table, options)
    return join_runs(groups, np.lexsort((ranks.values, strata)), strata, build_floor_tests(table, floors))


def group_by_confidential(
    table: Table, k: int, confidential: Sequence[str], options: GroupingOptions, floors: Floors = NO_FLOORS
) -> Groups:
    """Groups of rows with near confidential values: one column by Algorithm 7.1, several as one by microaggregation."""
    if len(confidential) == 1:
        return group_by_rank(table, k, confidential[0], options, floors)
    return group_by_nearness(table, k, confidential, options, floors)


def convert_to_ranks(attribute: Attribute) -> Attribute:
    """The attribute in numbers that rank its values, missing ones last.

    Nominal values go in the taxonomy's depth-first order, an inner concept before those under it and siblings by
    name; without a taxonomy in that of the list of categories.
    """
    if attribute.kind == "numeric":
        return attribute
    ranks = np.append(np.arange(len(attribute.categories), dtype=np.float64), np.nan)  # the place -1 is the last
    taxonomy = attribute.taxonomy
    if attribute.kind == "nominal" and taxonomy is not None:
        ranks[order_depth_first(taxonomy, attribute.categories)] = np.arange(len(attribute.categories))
    return replace(attribute, kind="numeric", values=ranks[attribute.values], categories=(), taxonomy=None)


def summarize_group_sizes(groups: Mapping[str, Groups]) -> dict[str, object]:
    """How many groups there are and how large they are, of each partition."""
    sizes = {name: np.bincount(labels) for name, labels in groups.items()}
    return {
        name: {"groups": len(group_sizes), "smallest": int(group_sizes.min()), "largest": int(group_sizes.max())}
        for name, group_sizes in sizes.items()
    }


def _get_strata(table: Table, options: GroupingOptions) -> Groups:
    return np.zeros(table.rows, dtype=np.int64) if options.strata is None else options.strata
