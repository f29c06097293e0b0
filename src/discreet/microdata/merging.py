"""Groups joined until every one passes its tests; none gets smaller."""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from discreet.errors import InvalidInput
from discreet.microdata.distances import Space
from discreet.microdata.diversity import Rows, Test


def join_runs(groups: Rows, order: Rows, strata: Rows, tests: Sequence[Test]) -> Rows:
    """The groups, which are runs of the rows in this order, joined with those next to them in their stratum.

    From the low end, a run takes as many groups as it needs; what is left at the high end joins the run before it.
    """
    parts = np.split(order, np.flatnonzero(np.diff(strata[order])) + 1)
    return _labels([run for part in parts for run in _runs(part, groups, tests)], len(groups))


def _runs(order: Rows, groups: Rows, tests: Sequence[Test]) -> list[Rows]:
    ends = np.append(np.flatnonzero(np.diff(groups[order])) + 1, len(order))
    cuts, first = [0], 0
    while first < len(ends):
        left = ends[first:]
        taken = _fewest(order, np.broadcast_to(cuts[-1], len(left)), left, tests)
        if taken is None:
            break
        first += taken
        cuts.append(int(ends[first - 1]))
    if cuts[-1] < len(order):
        starts = np.array(cuts[-2::-1], dtype=np.int64)
        joined = _fewest(order, starts, np.broadcast_to(len(order), len(starts)), tests)
        if joined is None:
            raise _none_passes()
        cuts[-joined:] = [len(order)]
    return [order[start:stop] for start, stop in pairwise(cuts)]


def _fewest(order: Rows, starts: Rows, ends: Rows, tests: Sequence[Test]) -> int | None:
    """The i for which the i-th of these ever larger runs passes; None where not even the last does.

    Found by doubling and then halving: the first that passes, where no larger run fails what a smaller one passes.
    """
    short, enough = 0, min(1, len(ends))
    while enough and not _pass(order[starts[enough - 1] : ends[enough - 1]], tests):
        short, enough = enough, min(2 * enough, len(ends))
        if short == enough:
            return None
    while enough - short > 1:
        middle = (short + enough) // 2
        passes = _pass(order[starts[middle - 1] : ends[middle - 1]], tests)
        short, enough = (short, middle) if passes else (middle, enough)
    return enough or None


def join_nearest(groups: Rows, centres: Space, strata: Rows, tests: Sequence[Test]) -> Rows:
    """The groups; one that does not pass is joined with the nearest of its stratum until it does.

    The lowest label comes first, ties go to it too, and a union is where the larger of the two was.
    """
    members = np.split(np.argsort(groups, kind="stable"), np.cumsum(np.bincount(groups))[:-1])
    home = np.array([strata[rows[0]] for rows in members])
    short = [not _pass(rows, tests) for rows in members]
    standing = np.ones(len(members), dtype=bool)
    waiting = [label for label, lacks in enumerate(short) if lacks]
    while waiting:
        label = heapq.heappop(waiting)
        if not standing[label] or not short[label]:
            continue
        other = _nearest(label, centres, standing & (home == home[label]))
        kept, gone = sorted((label, other), key=lambda each: (-len(members[each]), each))
        members[kept] = np.concatenate([members[kept], members[gone]])
        standing[gone] = False
        short[kept] = not _pass(members[kept], tests)
        heapq.heappush(waiting, kept)
    return _labels([members[label] for label in np.flatnonzero(standing)], len(groups))


def _nearest(label: int, centres: Space, open_groups: NDArray[np.bool_]) -> int:
    others = open_groups.copy()
    others[label] = False
    if not others.any():
        raise _none_passes()
    apart = np.square(centres.points - centres.points[label]).sum(axis=1)
    for place, squares in enumerate(centres.squares):
        apart += squares[centres.codes[label, place], centres.codes[:, place]]
    return int(np.argmin(np.where(others, apart, np.inf)))


def _labels(members: Sequence[Rows], rows: int) -> Rows:
    labels = np.empty(rows, dtype=np.int64)
    for label, mine in enumerate(members):
        labels[mine] = label
    return labels


def _pass(rows: Rows, tests: Sequence[Test]) -> bool:
    return all(test(rows) for test in tests)


def _none_passes() -> InvalidInput:
    return InvalidInput("not even all rows together, or all of a stratum, reach the diversity asked for; ask for less")
