"""Insensitive microaggregation (thesis, Definition 12): does one record move every cluster by at most one record?

Clusters are compared as collections of records, wherever these stand in the table and whatever labels the method gave.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from discreet.errors import InvalidInput

Record = Hashable
Cluster = Counter[Record]
Method = Callable[[Sequence[Record], int], Iterable[int]]
"""The label of every record's cluster, from the records and k."""


@dataclass(frozen=True, slots=True)
class Counterexample:
    """A record of a table, by its place, and another in its stead, for which no bijection of clusters will do."""

    row: int
    record: Record
    clusters: tuple[Cluster, ...]
    others: tuple[Cluster, ...]


def collect_clusters(records: Sequence[Record], labels: Iterable[int]) -> tuple[Cluster, ...]:
    """The records of each cluster, by label."""
    members: defaultdict[int, Cluster] = defaultdict(Counter)
    for record, label in zip(records, labels, strict=True):
        members[int(label)][record] += 1
    return tuple(members[label] for label in sorted(members))


def find_bijection(ones: Sequence[Cluster], others: Sequence[Cluster]) -> dict[int, int] | None:
    """Which cluster corresponds to which, by place, so that no pair differs in more than a record; None if none can."""
    if len(ones) != len(others):
        return None
    if not ones:
        return {}
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import maximum_bipartite_matching

    pairs = [
        (index, other_index) for index, near in enumerate(_find_meeting_clusters(ones, others)) for other_index in near
    ]
    close = [
        (index, other_index)
        for index, other_index in pairs
        if count_differing_records(ones[index], others[other_index]) <= 1
    ]
    rows, columns = (np.array([pair[side] for pair in close], dtype=np.int64) for side in (0, 1))
    graph = csr_array((np.ones(len(close)), (rows, columns)), shape=(len(ones), len(others)))
    matched = maximum_bipartite_matching(graph, perm_type="column").tolist()
    return None if -1 in matched else dict(enumerate(matched))


def count_differing_records(first: Cluster, second: Cluster) -> int:
    """How many records must be replaced, taken away or added to make the one cluster the other."""
    return max((first - second).total(), (second - first).total())


def counterexample(
    method: Method, records: Sequence[Record], k: int, replacements: Iterable[Record]
) -> Counterexample | None:
    """The first record of the table and the first replacement after which clusters do not correspond; None if none."""
    all_replacements, table = tuple(replacements), list(records)
    if not table or not all_replacements:
        raise InvalidInput("a search needs at least one record and one that may replace it")
    before = collect_clusters(table, method(table, k))
    for row, original_record in enumerate(table):
        for record in (replacement for replacement in all_replacements if replacement != original_record):
            changed = [*table[:row], record, *table[row + 1 :]]
            after = collect_clusters(changed, method(changed, k))
            if find_bijection(before, after) is None:
                return Counterexample(row, record, before, after)
    return None


def _find_meeting_clusters(ones: Sequence[Cluster], others: Sequence[Cluster]) -> list[set[int]]:
    """For every cluster those it may correspond to: they share a record, or both have at most one."""
    clusters_of_record: defaultdict[Record, set[int]] = defaultdict(set)
    for place, other_cluster in enumerate(others):
        for record in other_cluster:
            clusters_of_record[record].add(place)
    small = {place for place, other_cluster in enumerate(others) if other_cluster.total() <= 1}
    return [
        set().union(*(clusters_of_record[record] for record in cluster), small if cluster.total() <= 1 else set())
        for cluster in ones
    ]
