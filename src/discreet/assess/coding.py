"""Values of tables as places in a list of distinct values, so that equal means equal across files read apart.

A missing value is one more value, after the greatest.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.errors import InvalidInput
from discreet.microdata.table import ABSENT, Attribute, Integers, Table

GROUP, COUNT = "group", "count"
"""The columns that Anatomy's tables share, and that its second table counts rows in."""


def check_column_names(names: object, what: str) -> tuple[str, ...]:
    """A list of at least one column name, each once; one name alone is a list of one."""
    given_names = (names,) if isinstance(names, str) else tuple(names) if isinstance(names, Sequence) else ()
    if (
        not given_names
        or len(set(given_names)) < len(given_names)
        or not all(isinstance(name, str) for name in given_names)
    ):
        raise InvalidInput(f"the {what} are a list of column names, at least one and each once, such as ['age']")
    return given_names


def encode_labels(groups: object, rows: int) -> Integers:
    """Labels as numbers 0 to g - 1, one for each row."""
    labels = np.asarray(groups)
    if labels.ndim != 1 or len(labels) != rows or labels.dtype.kind not in "iu":
        raise InvalidInput(f"groups are whole numbers, one label for each of the {rows} rows")
    return np.unique(labels, return_inverse=True)[1]


def encode_values(attribute: Attribute) -> tuple[Integers, int]:
    """Every row's value as its place among the column's distinct values, and how many there are; missing is last."""
    values = attribute.values
    if attribute.kind != "numeric":
        values = np.where(values == ABSENT, len(attribute.categories), values)
    distinct, places = np.unique(values, return_inverse=True)
    return places, len(distinct)


def encode_together(left: Attribute, right: Attribute) -> tuple[Integers, Integers, int]:
    """The values of two columns, read apart, as places in one list: equal where the values are."""
    if left.kind == "numeric" and right.kind == "numeric":
        values: NDArray[Any] = np.concatenate([left.values, right.values])
    elif left.kind != "numeric" and right.kind != "numeric":
        place_of_label = {
            label: place for place, label in enumerate(dict.fromkeys((*left.categories, *right.categories)))
        }
        values = np.concatenate([_encode_categories(left, place_of_label), _encode_categories(right, place_of_label)])
    else:  # a number is equal to no text
        (first, m), (second, second_count) = encode_values(left), encode_values(right)
        return first, second + m, m + second_count
    distinct, places = np.unique(values, return_inverse=True)
    return places[: len(left.values)], places[len(left.values) :], len(distinct)


def has_same_values(left: Attribute, right: Attribute) -> bool:
    """Whether two columns of as many rows, read apart, hold the same values row by row."""
    if left.kind == "numeric" and right.kind == "numeric":
        return np.array_equal(left.values, right.values, equal_nan=True)
    left_places, right_places, _ = encode_together(left, right)
    return np.array_equal(left_places, right_places)


def _encode_categories(attribute: Attribute, place_of_label: Mapping[str, int]) -> Integers:
    places = np.array([*(place_of_label[label] for label in attribute.categories), len(place_of_label)], dtype=np.int64)
    row_places: Integers = places[attribute.values]  # the place -1 of a missing value is the last
    return row_places


def cross_codes(first: Integers, second: Integers, m: int) -> tuple[Integers, int]:
    """Pairs of places as places, renumbered so that their number never outgrows the rows."""
    distinct, places = np.unique(first * m + second, return_inverse=True)
    return places, len(distinct)


def find_classes(table: Table, names: Sequence[str]) -> Integers:
    """The class of every row: rows with equal values of all these columns have the same."""
    classes = np.zeros(table.rows, dtype=np.int64)
    for name in names:
        classes = cross_codes(classes, *encode_values(table[name]))[0]
    return classes


def expand_counts(second: Table) -> Table:
    """Anatomy's second table with as many rows of each kind as its column `count` says."""
    counts = second[COUNT].values
    if second[COUNT].kind != "numeric" or not np.all(counts >= 1) or np.any(counts != np.floor(counts)):
        raise InvalidInput(f"the column {COUNT!r} must hold counts, whole numbers of at least 1")
    return second.take(np.repeat(np.arange(second.rows), counts.astype(np.int64)))
