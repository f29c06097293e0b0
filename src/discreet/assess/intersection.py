"""What several releases of the same rows leave of a group when they are laid over one another."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from discreet.errors import InvalidInput
from discreet.microdata.table import Places

RECORDS = "records"
"""The name of groups that hold for all columns."""

Groups = Mapping[str, Places]
"""Labels of the rows, for all columns or for one."""


def group_labels(groups: object, rows: int) -> Groups:
    """Groups given as labels for all columns, or as labels by column; whole numbers, one for each row."""
    if groups is None:
        return {}
    named = groups if isinstance(groups, Mapping) else {RECORDS: groups}
    found = {str(name): np.asarray(labels) for name, labels in named.items()}
    if not all(labels.shape == (rows,) and labels.dtype.kind in "iu" for labels in found.values()):
        raise InvalidInput(f"groups are whole numbers, one label for each of the {rows} rows that are compared")
    return {name: np.unique(labels, return_inverse=True)[1] for name, labels in found.items()}


def intersection(now: Groups, then: Groups, k: int) -> tuple[int, float]:
    """The least number of rows that a row still hides among, and the share of rows that hide among fewer than k.

    A person's value is in the group of the one release and in that of the other, so among the rows of both. Groups of
    one column are laid over those of the same column, or of all columns.
    """
    left = [_left(one, two) for one, two in _met(now, then)]
    if not left:
        raise InvalidInput("an earlier release must have groups of a column that this one has groups of, or of all")
    fewest = np.minimum.reduce(left)
    return int(fewest.min()), float(np.mean(fewest < k))


def _met(now: Groups, then: Groups) -> Iterator[tuple[Places, Places]]:
    for name, labels in now.items():
        for other, earlier in then.items():
            if name == other or RECORDS in {name, other}:
                yield labels, earlier


def _left(one: Places, two: Places) -> Places:
    """For each row how many rows share both its labels."""
    both = one * (int(two.max()) + 1) + two
    _, where, many = np.unique(both, return_inverse=True, return_counts=True)
    return np.asarray(many[where])


def intersections(now: Groups, earlier: object, rows: int, k: int | None) -> tuple[tuple[str, int, float], ...]:
    """One line for each earlier release, given by name: its name, the least left, the share under k.

    Without a k it is the size of the smallest group now.
    """
    given = _named(earlier)
    if not given:
        return ()
    if not now:
        raise InvalidInput("to lay earlier releases over this one, give the groups of this one: groups=...")
    floor = k if k is not None else min(int(np.bincount(labels).min()) for labels in now.values())
    return tuple((name, *intersection(now, group_labels(then, rows), floor)) for name, then in given)


def _named(earlier: object) -> list[tuple[str, object]]:
    given = list(earlier.items()) if isinstance(earlier, Mapping) else earlier
    if not isinstance(given, Sequence) or not all(isinstance(each, tuple) and len(each) == 2 for each in given):
        raise InvalidInput("earlier releases are given by name with their groups, such as {'2024': groups}")
    return [(str(name), then) for name, then in given]
