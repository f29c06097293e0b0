"""What several releases of the same rows leave of a group when they are laid over one another."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from discreet.errors import InvalidInput
from discreet.microdata.table import Integers

RECORDS = "records"
"""The name of groups that hold for all columns."""

Groups = Mapping[str, Integers]
"""Labels of the rows, for all columns or for one."""


def read_group_labels(groups: object, rows: int) -> Groups:
    """Groups given as labels for all columns, or as labels by column; whole numbers, one for each row."""
    if groups is None:
        return {}
    groups_by_name = groups if isinstance(groups, Mapping) else {RECORDS: groups}
    labels_by_name = {str(name): np.asarray(labels) for name, labels in groups_by_name.items()}
    if not all(labels.shape == (rows,) and labels.dtype.kind in "iu" for labels in labels_by_name.values()):
        raise InvalidInput(f"groups are whole numbers, one label for each of the {rows} rows that are compared")
    return {name: np.unique(labels, return_inverse=True)[1] for name, labels in labels_by_name.items()}


def measure_intersection(current: Groups, earlier: Groups, k: int) -> tuple[int, float]:
    """The least number of rows that a row still hides among, and the share of rows that hide among fewer than k.

    A person's value is in the group of the one release and in that of the other, so among the rows of both. Groups of
    one column are laid over those of the same column, or of all columns.
    """
    shared_counts = [
        _count_shared_rows(labels, earlier_labels) for labels, earlier_labels in _pair_groups(current, earlier)
    ]
    if not shared_counts:
        raise InvalidInput("an earlier release must have groups of a column that this one has groups of, or of all")
    fewest = np.minimum.reduce(shared_counts)
    return int(fewest.min()), float(np.mean(fewest < k))


def _pair_groups(current: Groups, earlier_groups: Groups) -> Iterator[tuple[Integers, Integers]]:
    for name, labels in current.items():
        for other, earlier in earlier_groups.items():
            if name == other or RECORDS in {name, other}:
                yield labels, earlier


def _count_shared_rows(first: Integers, second: Integers) -> Integers:
    """For each row how many rows share both its labels."""
    pairs = first * (int(second.max()) + 1) + second
    _, pair_of_row, counts = np.unique(pairs, return_inverse=True, return_counts=True)
    return np.asarray(counts[pair_of_row])


def measure_intersections(
    current: Groups, earlier: object, rows: int, k: int | None
) -> tuple[tuple[str, int, float], ...]:
    """One line for each earlier release, given by name: its name, the least left, the share under k.

    Without a k it is the size of the smallest group now.
    """
    releases = _list_releases(earlier)
    if not releases:
        return ()
    if not current:
        raise InvalidInput("to lay earlier releases over this one, give the groups of this one: groups=...")
    floor = k if k is not None else min(int(np.bincount(labels).min()) for labels in current.values())
    return tuple(
        (name, *measure_intersection(current, read_group_labels(groups, rows), floor)) for name, groups in releases
    )


def _list_releases(earlier: object) -> list[tuple[str, object]]:
    releases = list(earlier.items()) if isinstance(earlier, Mapping) else earlier
    if not isinstance(releases, Sequence) or not all(
        isinstance(release, tuple) and len(release) == 2 for release in releases
    ):
        raise InvalidInput("earlier releases are given by name with their groups, such as {'2024': groups}")
    return [(str(name), groups) for name, groups in releases]
