"""What two files show of a permutation: which values stayed in their groups, and how many came back to their rows."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from discreet.microdata.table import Attribute, Floats, Integers

MIN_DOUBT = 1e-9
"""A permutation is called not uniform where a uniform one would come to as many hits with less than this chance."""
SUSPICIOUS_DEVIATIONS = 6.0
"""Beyond so many standard deviations above the mean, hits are pointed out."""


@dataclass(frozen=True, slots=True)
class Hits:
    """Rows that carry a value equal to their own, duplicates counted, beside what uniform permutations give."""

    rows: int
    observed: int
    expected: float
    deviation: float

    @property
    def excess_bound(self) -> float:
        """A bound on the chance of so many hits or more under uniform permutations, independent from group to group.

        Chatterjee (Stein's method for concentration inequalities, 2007, Proposition 1.1): for chances a_ij in [0, 1]
        and X the sum of a_(i, pi(i)), P(X >= EX + s) <= exp(-s^2 / (4 EX + 2 s)). It comes of the bound
        EX z^2 / (1 - z) on the logarithm of E exp(z (X - EX)), which adds over independent groups; and it grows
        with EX, so that an upper bound will do for it.
        """
        excess = self.observed - self.expected
        return math.exp(-(excess**2) / (4 * self.expected + 2 * excess)) if excess > 0 else 1.0

    @property
    def lack_bound(self) -> float:
        """A bound on the chance of so few hits or fewer, where `expected` is the mean and no mere bound on it.

        The lower tail of the same theorem (1.5 there): P(X <= EX - s) <= exp(-s^2 / (4 EX)), which comes of the bound
        EX z^2 on the logarithm for z < 0.
        """
        shortfall = self.expected - self.observed
        return math.exp(-(shortfall**2) / (4 * self.expected)) if shortfall > 0 else 1.0

    @property
    def deviations_above(self) -> float:
        """How many standard deviations above the mean."""
        excess = self.observed - self.expected
        return excess / self.deviation if self.deviation > 0 else 0.0

    def to_json(self) -> dict[str, object]:
        """Machine-readable."""
        return {
            "rows": self.rows,
            "own_value": self.observed,
            "share": self.observed / self.rows if self.rows else 0.0,
            "expected": self.expected,
            "deviation": self.deviation,
            "deviations_above": self.deviations_above,
            "chance_at_most": self.excess_bound,
        }


@dataclass(frozen=True, slots=True, eq=False)
class ValueCells:
    """Groups x values, where some row of the group has the value for its own."""

    owner: Integers
    """The group of each."""
    owned: Floats
    """How many rows of the group have the value for their own."""
    carried: Floats
    """And how many carry it."""
    places: Integers
    """The cell of each row's own value."""


def build_value_cells(before: Integers, after: Integers, m: int, groups: Integers) -> ValueCells:
    """What the rows of each group have for their own and carry, as places among m values."""
    keys, places, owned = np.unique(groups * m + before, return_inverse=True, return_counts=True)
    indices = np.minimum(np.searchsorted(keys, groups * m + after), len(keys) - 1)
    carried = np.bincount(indices[keys[indices] == groups * m + after], minlength=len(keys))
    return ValueCells(keys // m, owned.astype(np.float64), carried.astype(np.float64), places)


def count_hits_in_groups(before: Integers, after: Integers, m: int, groups: Integers) -> Hits:
    """The hits, and their mean and standard deviation under a uniform permutation inside each group.

    In a group of n rows a_v of which have v for their own and b_v carry it, by Hoeffding's formulas with P the sum of
    a_v b_v the mean is P/n, and the variance (P - sum of a_v b_v (a_v + b_v) / n + P^2/n^2) / (n - 1).
    """
    cells = build_value_cells(before, after, m, groups)
    sizes, products = np.bincount(groups).astype(np.float64), cells.owned * cells.carried
    means = np.bincount(cells.owner, products) / sizes
    mixed = np.bincount(cells.owner, products * (cells.owned + cells.carried)) / sizes
    variance = (means * sizes - mixed + means**2) / np.maximum(sizes - 1, 1)
    observed = int(np.count_nonzero(before == after))
    return Hits(len(before), observed, float(means.sum()), math.sqrt(max(0.0, float(variance.sum()))))


def count_unique_hits(before: Integers, after: Integers, k: int) -> Hits:
    """The hits among rows whose value nobody else has, and their greatest mean where every group has k rows or more.

    Only these are the person's own beyond doubt where the groups are not known. Each comes back with probability 1/n in
    a group of n; the deviation is that of as many independent rows, as which they are nearly.
    """
    is_unique = np.bincount(before)[before] == 1
    rows = int(np.count_nonzero(is_unique))
    observed = int(np.count_nonzero((before == after) & is_unique))
    return Hits(rows, observed, rows / k, math.sqrt(rows * (k - 1)) / k)


def count_disturbed_groups(before: Integers, after: Integers, m: int, groups: Integers) -> int:
    """How many groups do not hold after what they held before, value for value."""
    keys_before, keys_after = np.sort(groups * m + before), np.sort(groups * m + after)
    return len(np.unique(keys_before[keys_before != keys_after] // m))


def measure_group_width(attribute: Attribute, groups: Integers) -> float | None:
    """What a row's group tells of its value: the mean width of the groups over the column's standard deviation.

    None for names, and where the column has no spread.
    """
    present = ~attribute.missing
    values, labels = attribute.values[present].astype(float), groups[present]
    spread = float(values.std()) if len(values) else 0.0
    if attribute.kind == "nominal" or spread == 0:
        return None
    order = np.argsort(labels, kind="stable")
    values, labels = values[order], labels[order]
    starts = np.flatnonzero(np.diff(labels, prepend=-1))
    widths = np.maximum.reduceat(values, starts) - np.minimum.reduceat(values, starts)
    return float(np.average(widths, weights=np.diff(starts, append=len(labels)))) / spread
