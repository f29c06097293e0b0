"""Groups joined until every one passes its tests; none gets smaller."""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from discreet.errors import InvalidInput
from discreet.microdata.distances import RecordSpace
from discreet.microdata.diversity import GroupTest, Rows


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
