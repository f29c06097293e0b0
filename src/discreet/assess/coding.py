"""Values of tables as places in a list of distinct values, so that equal means equal across files read apart.

A missing value is one more value, after the greatest.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.errors import InvalidInput
from discreet.microdata.table import ABSENT, Attribute, Places, Table

GROUP, COUNT = "group", "count"
"""The columns that Anatomy's tables share, and that its second table counts rows in."""


def names_of(names: object, what: str) -> tuple[str, ...]:
    """A list of at least one column name, each once; one name alone is a list of one."""
    listed = (names,) if isinstance(names, str) else tuple(names) if isinstance(names, Sequence) else ()
    if not listed or len(set(listed)) < len(listed) or not all(isinstance(name, str) for name in listed):
        raise InvalidInput(f"the {what} are a list of column names, at least one and each once, such as ['age']")
    return listed


def labels_of(groups: object, rows: int) -> Places:
    """Labels as numbers 0 to g - 1, one for each row."""
    labels = np.asarray(groups)
    if labels.ndim != 1 or len(labels) != rows or labels.dtype.kind not in "iu":
        raise InvalidInput(f"groups are whole numbers, one label for each of the {rows} rows")
    return np.unique(labels, return_inverse=True)[1]


def places_of(attribute: Attribute) -> tuple[Places, int]:
    """Every row's value as its place among the column's distinct values, and how many there are; missing is last."""
    values = attribute.values
    if attribute.kind != "numeric":
        values = np.where(values == ABSENT, len(attribute.categories), values)
    distinct, places = np.unique(values, return_inverse=True)
    return places, len(distinct)


def alike(one: Attribute, two: Attribute) -> tuple[Places, Places, int]:
    """The values of two columns, read apart, as places in one list: equal where the values are."""
    if one.kind == "numeric" and two.kind == "numeric":
        values: NDArray[Any] = np.concatenate([one.values, two.values])
    elif one.kind != "numeric" and two.kind != "numeric":
        known = {label: place for place, label in enumerate(dict.fromkeys((*one.categories, *two.categories)))}
        values = np.concatenate([_coded(one, known), _coded(two, known)])
    else:  # a number is equal to no text
        (first, m), (second, more) = places_of(one), places_of(two)
        return first, second + m, m + more
    distinct, places = np.unique(values, return_inverse=True)
    return places[: len(one.values)], places[len(one.values) :], len(distinct)


def same_values(one: Attribute, two: Attribute) -> bool:
    """Whether two columns of as many rows, read apart, hold the same values row by row."""
    if one.kind == "numeric" and two.kind == "numeric":
        return np.array_equal(one.values, two.values, equal_nan=True)
    ours, theirs, _ = alike(one, two)
    return np.array_equal(ours, theirs)


def _coded(attribute: Attribute, known: Mapping[str, int]) -> Places:
    places = np.array([*(known[label] for label in attribute.categories), len(known)], dtype=np.int64)
    coded: Places = places[attribute.values]  # the place -1 of a missing value is the last
    return coded


def crossed(first: Places, second: Places, m: int) -> tuple[Places, int]:
    """Pairs of places as places, renumbered so that their number never outgrows the rows."""
    distinct, places = np.unique(first * m + second, return_inverse=True)
    return places, len(distinct)


def classes_of(table: Table, names: Sequence[str]) -> Places:
    """The class of every row: rows with equal values of all these columns have the same."""
    classes = np.zeros(table.rows, dtype=np.int64)
    for name in names:
        classes = crossed(classes, *places_of(table[name]))[0]
    return classes


def counted_out(second: Table) -> Table:
    """Anatomy's second table with as many rows of each kind as its column `count` says."""
    counts = second[COUNT].values
    if second[COUNT].kind != "numeric" or not np.all(counts >= 1) or np.any(counts != np.floor(counts)):
        raise InvalidInput(f"the column {COUNT!r} must hold counts, whole numbers of at least 1")
    return second.take(np.repeat(np.arange(second.rows), counts.astype(np.int64)))
