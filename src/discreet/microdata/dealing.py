"""How the rows of buckets are dealt to groups that are t-close to the whole, like cards (closeness.md)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from itertools import pairwise

import numpy as np

from discreet.errors import Internal
from discreet.microdata.feasible import BucketSizes, build_closed_bounds
from discreet.microdata.table import Integers
from discreet.query.released import DealRule


@dataclass(frozen=True, slots=True)
class GroupKind:
    """Groups that are alike: `groups` of `size` rows each, labelled from `label` on, in which `bucket` stands out."""

    bucket: int
    size: int
    groups: int
    label: int


@lru_cache(maxsize=64)
def plan_deals(sizes: BucketSizes, t: Fraction, per_bucket: int) -> tuple[DealRule, ...]:
    """Deals of buckets of these sizes to `per_bucket` groups for each bucket, all t-close to the whole.

    Each lets its own bucket stand out as much as t allows. It must be `feasible`.
    """
    kinds = _list_group_kinds(sum(sizes), len(sizes), per_bucket)
    totals = _solve_totals(sizes, kinds, t)
    first, before = np.cumsum(totals, axis=0) - totals, np.cumsum(totals, axis=1) - totals
    return tuple(
        DealRule(
            bucket,
            int(first[place, bucket]),
            int(first[place, bucket] + totals[place, bucket]),
            kind.label,
            kind.groups,
            int(before[place, bucket]) % kind.groups,
        )
        for bucket in range(len(sizes))
        for place, kind in enumerate(kinds)
    )


def assign_rows(deals: Sequence[DealRule], bucket: Integers, order: Integers) -> Integers:
    """The group of every row: as `query.released.dealt` has it, in one pass over the rows.

    `order` lists the rows bucket by bucket, those of a bucket in the order in which they are dealt.
    """
    starts = np.searchsorted(bucket[order], np.arange(max(assignment.bucket for assignment in deals) + 1))
    group = np.empty(len(bucket), dtype=np.int64)
    for assignment in deals:
        assigned_rows = order[
            starts[assignment.bucket] + assignment.first : starts[assignment.bucket] + assignment.last
        ]
        group[assigned_rows] = assignment.label + (assignment.turn + np.arange(len(assigned_rows))) % assignment.groups
    return group


def compute_group_sizes(rows: int, groups: int) -> list[int]:
    """k_i = ceil(i rows / groups) - ceil((i - 1) rows / groups), for i = 1, 2, ..."""
    ends = [-(-i * rows // groups) for i in range(groups + 1)]
    return [end - start for start, end in pairwise(ends)]


def _list_group_kinds(rows: int, buckets: int, per_bucket: int) -> list[GroupKind]:
    """The groups by the bucket that stands out and by size; of those of one bucket the larger come first."""
    size = rows // (buckets * per_bucket)
    kinds, label = [], 0
    for bucket, share in enumerate(compute_group_sizes(rows, buckets)):  # the sizes k_i of its groups add up to this
        larger = share - per_bucket * size
        for group_size, groups in ((size + 1, larger), (size, per_bucket - larger)):
            if groups:
                kinds.append(GroupKind(bucket, group_size, groups, label))
                label += groups
    return kinds


def _solve_totals(sizes: BucketSizes, kinds: Sequence[GroupKind], t: Fraction) -> Integers:
    """What all groups of a kind take of each bucket: the most of the buckets that stand out, by linear programming.

    The constraints are those of a transport problem, so that every vertex is integral; that it is one, and that all
    constraints hold, is checked in whole numbers.
    """
    from scipy.optimize import linprog
    from scipy.sparse import identity, kron, vstack

    rows, bounds = sum(sizes), build_closed_bounds(t)
    cell_bounds = [[bounds(kind.size * size, rows) for size in sizes] for kind in kinds]
    low = np.array([[kind.groups * low for low, _ in row] for kind, row in zip(kinds, cell_bounds, strict=True)])
    high = np.array(
        [[kind.groups * min(high, kind.size) for _, high in row] for kind, row in zip(kinds, cell_bounds, strict=True)]
    )
    across, down = np.ones((1, len(sizes))), np.ones((1, len(kinds)))
    sums = vstack([kron(identity(len(kinds)), across), kron(down, identity(len(sizes)))]).tocsr().astype(np.int64)
    spare = np.array([*(kind.groups * kind.size for kind in kinds), *sizes]) - sums @ low.ravel()
    gain = np.zeros(low.shape)
    gain[np.arange(len(kinds)), [kind.bucket for kind in kinds]] = 1
    room = np.column_stack([np.zeros(low.size), (high - low).ravel()])
    solution = linprog(-gain.ravel(), A_eq=sums, b_eq=spare, bounds=room, method="highs-ds")
    extra = np.rint(solution.x if solution.success else room[:, 1] + 1).astype(np.int64)
    if (extra < 0).any() or (extra > room[:, 1]).any() or (sums @ extra != spare).any():
        raise Internal("no way was found to deal buckets to groups where there is one")
    totals: Integers = low + extra.reshape(low.shape)
    return totals
