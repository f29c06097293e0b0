"""How close groups are to the whole in what they hold of each bucket, exactly (closeness.md)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import accumulate

import numpy as np

from discreet.errors import InvalidInput
from discreet.exact import as_rational
from discreet.microdata.table import Integers


@dataclass(frozen=True, slots=True)
class DistributionDistance:
    """How far two distributions over the same buckets are from each other."""

    ratio: Fraction
    """Definition 15: the greatest ratio of a bucket's probabilities, either way."""
    emd: Fraction
    """The earth mover's distance with the buckets in a row, as a share of the way from the first to the last."""
    variation: Fraction
    """The earth mover's distance with all buckets equally far apart: total variation."""


@dataclass(frozen=True, slots=True)
class GroupsApart:
    """How far groups are from the whole at worst, the greatest ratio between two of them, and their sizes."""

    worst: DistributionDistance
    between: Fraction
    groups: int
    smallest: int
    largest: int


def compute_distribution_distance(first_counts: Sequence[int], second_counts: Sequence[int]) -> DistributionDistance:
    """The distances of two distributions, given by counts of at least 1 in at least two buckets."""
    pairs = [
        (Fraction(a, sum(first_counts)), Fraction(b, sum(second_counts)))
        for a, b in zip(first_counts, second_counts, strict=True)
    ]
    flows = list(accumulate(a - b for a, b in pairs))
    return DistributionDistance(
        max(max(a / b, b / a) for a, b in pairs),
        sum(map(abs, flows), Fraction(0)) / (len(pairs) - 1),
        sum((abs(a - b) for a, b in pairs), Fraction(0)) / 2,
    )


def groups_apart(groups: Integers, bucket: Integers) -> GroupsApart:
    """The distances of groups that hold some of every bucket each. Groups that hold the same are measured once."""
    count, buckets = int(groups.max()) + 1, int(bucket.max()) + 1
    counts = np.bincount(groups * buckets + bucket, minlength=count * buckets).reshape(count, buckets)
    totals, kinds = counts.sum(axis=0).tolist(), np.unique(counts, axis=0).tolist()
    distances = [compute_distribution_distance(kind, totals) for kind in kinds]
    shares = list(zip(*([Fraction(members, sum(kind)) for members in kind] for kind in kinds), strict=True))
    return GroupsApart(
        DistributionDistance(
            *(max(getattr(members, name) for members in distances) for name in ("ratio", "emd", "variation"))
        ),
        max(max(members) / min(members) for members in shares),
        count,
        min(map(sum, kinds)),
        max(map(sum, kinds)),
    )


def compute_theoretical_masses(t: object) -> tuple[tuple[Fraction, ...], ...]:
    """Table 7.6: the mass of every bucket in the whole, then in a group where the first, the second, ... stands out.

    There are floor(t) + 1 buckets; where t is not whole, the one that stands out has less than t times its mass.
    """
    close = as_rational(t, "t")
    if close < 1:
        raise InvalidInput("t must be at least 1, where every group is as the whole table")
    buckets = int(close) + 1
    even = Fraction(1, buckets)
    peak = 1 - (buckets - 1) * even / close
    groups = (
        tuple(peak if bucket == peak_bucket else even / close for bucket in range(buckets))
        for peak_bucket in range(buckets)
    )
    return (even,) * buckets, *groups
