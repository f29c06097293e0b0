"""Record linkage by distance: how often the nearest record is the right one (thesis 6.4.2), with exact ties.

A squared distance is summed in one fixed order: numbers first, each gap squared and then weighed, then categories. A
box's bound is summed in the same order from terms that are none greater, and rounding keeps that order, so no nearest
record is ever passed over. A category's distance from a box is the least to a category between the box's ends.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numba import njit

from discreet.sdc.methods.record_distance import RecordSpace
from discreet.sdc.table import Column, Floats, Integers, Table

MAX_LEAF_RECORDS = 12
"""Boxes of at most this many records are not divided."""


@dataclass(frozen=True, slots=True, eq=False)
class NearestTies:
    """For each query: the least squared distance, and the targets at it, from `starts[i]` to before `starts[i + 1]`."""

    squares: Floats
    starts: Integers
    targets: Integers


def find_nearest_ties(queries: RecordSpace, targets: RecordSpace, weights: Floats | None = None) -> NearestTies:
    """The targets nearest to each query. Both are rows of one space; rows that are alike are better given once.

    `weights` are those of the coordinates, 1 where not given.
    """
    numbers = queries.points.shape[1]
    target_columns = _stack_columns(targets)
    order, low, high = _build_boxes(target_columns, numbers)
    coordinate_weights = np.ones(numbers) if weights is None else weights
    tables = np.concatenate([np.zeros(0), *(table.ravel() for table in queries.squares)])
    table_starts = np.cumsum([0, *(table.size for table in queries.squares)], dtype=np.int64)
    table_widths = np.array([table.shape[1] for table in queries.squares], dtype=np.int64)
    tree = BoxTree(target_columns[order], low, high, coordinate_weights, numbers, tables, table_starts, table_widths)
    squares, starts, places = _search_all(_stack_columns(queries), tree)
    return NearestTies(squares, starts, order[places])


def compute_squared_distances(first: RecordSpace, second: RecordSpace, weights: Floats | None = None) -> Floats:
    """The squared distance of row i of one from row i of the other, summed as `find_nearest_ties` sums it."""
    total = np.zeros(first.rows)
    for column in range(first.points.shape[1]):
        gap = first.points[:, column] - second.points[:, column]
        total += gap * gap if weights is None else weights[column] * (gap * gap)
    for column, table in enumerate(first.squares):
        total += table[first.codes[:, column], second.codes[:, column]]
    return total


def _stack_columns(space: RecordSpace) -> Floats:
    """Numbers, then codes."""
    return np.ascontiguousarray(np.hstack([space.points, space.codes.astype(np.float64)]))


class BoxTree(NamedTuple):
    """Records in the order of the tree, the ends of its boxes, and the tables of categories' squared distances.

    The tables stand one after the other, each from its place in `table_starts` on, with rows of `table_widths`.
    """

    records: Floats
    low: Floats
    high: Floats
    weights: Floats
    numbers: int
    tables: Floats
    table_starts: Integers
    table_widths: Integers


@njit(cache=True)
def _build_boxes(records: Floats, numbers: int) -> tuple[Integers, Floats, Floats]:
    """The order of the records, and the ends of every box: boxes 2i + 1 and 2i + 2 halve box i."""
    rows, columns = records.shape
    depth = 0
    while (rows >> depth) > MAX_LEAF_RECORDS:
        depth += 1
    order = np.arange(rows)
    low, high = np.empty((2 ** (depth + 1) - 1, columns)), np.empty((2 ** (depth + 1) - 1, columns))
    for level in range(depth + 1):
        for place in range(2**level):
            box = 2**level - 1 + place
            box_rows = order[(rows * place) >> level : (rows * (place + 1)) >> level]
            for column in range(columns):
                values = records[box_rows, column]
                low[box, column], high[box, column] = values.min(), values.max()
            if level < depth:
                column = _choose_split_column(low[box], high[box], numbers)
                box_rows[:] = box_rows[np.argsort(records[box_rows, column])]
    return order, low, high


@njit(cache=True)
def _choose_split_column(low: Floats, high: Floats, numbers: int) -> int:
    """The column to divide by: categories before numbers, since they are farther apart."""
    for column in range(numbers, len(low)):
        if high[column] > low[column]:
            return column
    return int(np.argmax(high[:numbers] - low[:numbers])) if numbers else 0


@njit(cache=True)
def _search_all(queries: Floats, tree: BoxTree) -> tuple[Floats, Integers, Integers]:
    """For each query the least squared distance, and the places of all that are at it."""
    squares, starts = np.empty(len(queries)), np.zeros(len(queries) + 1, np.int64)
    tied, tied_places = np.empty(len(tree.records), np.int64), np.empty(len(queries), np.int64)
    waiting, bounds = np.empty(64, np.int64), np.empty(64)
    for query in range(len(queries)):
        squares[query], tie_count = _search_one(queries[query], tree, tied, waiting, bounds)
        start, stop = starts[query], starts[query] + tie_count
        if stop > len(tied_places):
            tied_places = np.concatenate((tied_places, np.empty(stop + len(tied_places), np.int64)))
        tied_places[start:stop] = tied[:tie_count]
        starts[query + 1] = stop
    return squares, starts, tied_places[: starts[-1]]


# A stack, not a recursion: numba crashes on a recursive function that it has from its cache (numba issue 6061).
@njit(cache=True)
def _search_one(query: Floats, tree: BoxTree, tied: Integers, waiting: Integers, bounds: Floats) -> tuple[float, int]:
    """The least squared distance, and how many are at it: their places are in `tied`."""
    leaves, best, tie_count = len(tree.low) // 2, np.inf, 0
    waiting[0], bounds[0], last = 0, 0.0, 0
    while last >= 0:
        box = waiting[last]
        if bounds[last] > best:
            last -= 1
        elif box >= leaves:
            best, tie_count = _scan_leaf(query, tree, box - leaves, leaves + 1, best, tie_count, tied)
            last -= 1
        else:
            left, right = _bound_box(query, tree, 2 * box + 1), _bound_box(query, tree, 2 * box + 2)
            nearer = 1 if left <= right else 2
            waiting[last], bounds[last] = 2 * box + 3 - nearer, max(left, right)
            waiting[last + 1], bounds[last + 1] = 2 * box + nearer, min(left, right)
            last += 1
    return best, tie_count


@njit(cache=True)
def _scan_leaf(
    query: Floats, tree: BoxTree, leaf: int, leaves: int, best: float, tie_count: int, tied: Integers
) -> tuple[float, int]:
    rows = len(tree.records)
    for place in range(rows * leaf // leaves, rows * (leaf + 1) // leaves):
        square = 0.0
        for column in range(tree.numbers):
            gap = query[column] - tree.records[place, column]
            square += tree.weights[column] * (gap * gap)
        for column in range(tree.numbers, len(query)):
            table = column - tree.numbers
            row = tree.table_starts[table] + int(query[column]) * tree.table_widths[table]
            square += tree.tables[row + int(tree.records[place, column])]
        if square < best:
            best, tie_count = square, 0
        if square == best:
            tied[tie_count] = place
            tie_count += 1
    return best, tie_count


@njit(cache=True)
def _bound_box(query: Floats, tree: BoxTree, box: int) -> float:
    """A lower bound on the squared distance of anything in the box."""
    total = 0.0
    for column in range(tree.numbers):
        gap = max(tree.low[box, column] - query[column], query[column] - tree.high[box, column], 0.0)
        total += tree.weights[column] * (gap * gap)
    for column in range(tree.numbers, len(query)):
        low, high = tree.low[box, column], tree.high[box, column]
        least = 0.0
        if not low <= query[column] <= high:  # the least to a category between the ends, both among them
            table, least = column - tree.numbers, np.inf
            row = tree.table_starts[table] + int(query[column]) * tree.table_widths[table]
            for code in range(int(low), int(high) + 1):
                least = min(least, tree.tables[row + code])
        total += least
    return total


@dataclass(frozen=True, slots=True, eq=False)
class DistinctRows:
    """Rows of which some are alike: one of each kind, which kind every row is of, and how many rows are."""

    first: Integers
    kind: Integers
    counts: Integers


def find_distinct_rows(columns: Iterable[Column]) -> DistinctRows:
    """The distinct rows of some columns; missing values are alike."""
    kind: Integers = np.zeros(1, dtype=np.int64)
    for column in columns:
        code = np.unique(column, return_inverse=True)[1]
        kind = np.unique(kind * (int(code.max()) + 1) + code, return_inverse=True)[1]
    _, first, counts = np.unique(kind, return_index=True, return_counts=True)
    return DistinctRows(first, kind, counts)


def find_distinct_table_rows(table: Table) -> DistinctRows:
    """The distinct rows of a table."""
    return find_distinct_rows(attribute.values for attribute in table.attributes.values())


def find_distinct_records(space: RecordSpace) -> DistinctRows:
    """The distinct records of a space."""
    return find_distinct_rows([*space.points.T, *space.codes.T])


def measure_distance_linkage(before: RecordSpace, after: RecordSpace, weights: Floats | None = None) -> float:
    """The share of records, in percent, whose released record leads back to them: RL of the thesis.

    Row i of one was made of row i of the other. G is the set of original records at the least distance from a
    released one, and the right record is picked with chance 1/|G| where it is in G. Ties are exact; records of the
    same kind are looked up once.
    """
    original_kinds, released_kinds = find_distinct_records(before), find_distinct_records(after)
    ties = find_nearest_ties(after.take(released_kinds.first), before.take(original_kinds.first), weights)
    sizes = np.add.reduceat(original_kinds.counts[ties.targets], ties.starts[:-1])
    is_right = compute_squared_distances(after, before, weights) == ties.squares[released_kinds.kind]
    return 100 * float(np.mean(is_right / sizes[released_kinds.kind]))


def measure_class_linkage(after: DistinctRows) -> float:
    """The share, in percent, where values were generalised: a released record can be of any original of its class."""
    return 100 * len(after.first) / len(after.kind)
