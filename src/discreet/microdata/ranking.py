"""Individual ranking: groups of one column are runs of its ranks."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.microdata.table import ABSENT, Attribute, Floats, Integers
from discreet.query.released import RankRuns

MIN_COMPILED_SORT = 500_000
"""From this many values on, the compiled sort pays."""


def group_from_both_ends(attribute: Attribute, k: int) -> Integers:
    """Algorithm 7.1: k from both ends in turn; the run between has k to 2k - 1. Groups are numbered by rank."""
    return _label_runs(attribute, RankRuns.both_ends(len(attribute.values), k))


def group_from_low_end(attribute: Attribute, k: int) -> Integers:
    """Fixed blocks of k ranks from the low end; the last has k to 2k - 1."""
    return _label_runs(attribute, RankRuns.low_end(len(attribute.values), k))


def _label_runs(attribute: Attribute, runs: RankRuns) -> Integers:
    labels = np.empty(len(attribute.values), dtype=np.int64)
    labels[rank_rows(attribute)] = runs.compute_labels(np.arange(len(attribute.values)))
    return labels


def rank_rows(attribute: Attribute) -> NDArray[Any]:
    """The rows from the least value to the greatest, missing ones last, ties by index; categories go by place."""
    values = attribute.values
    if attribute.kind != "numeric":
        values = np.where(values == ABSENT, np.nan, values)
    if len(values) < MIN_COMPILED_SORT:
        return np.argsort(values, kind="stable")
    from discreet.microdata.radix import radix_sort_rows

    return radix_sort_rows(_build_sort_keys(values))


def _build_sort_keys(values: Floats) -> NDArray[np.uint64]:
    """Whole numbers in the same order: the bits of a float, turned round where it is negative."""
    bits = (values + 0.0).view(np.int64)  # a negative zero becomes a zero
    keys = np.where(bits < 0, ~bits, bits | np.int64(-(2**63))).view(np.uint64)
    keys[np.isnan(values)] = np.uint64(2**64 - 1)
    return keys
