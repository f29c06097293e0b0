"""Individual ranking: groups of one column are runs of its ranks."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.microdata.table import ABSENT, Attribute, Floats, Places
from discreet.query.released import Runs

MANY = 500_000
"""From this many values on, the compiled sort pays."""


def both_ends(attribute: Attribute, k: int) -> Places:
    """Algorithm 7.1: k from both ends in turn; the run between has k to 2k - 1. Groups are numbered by rank."""
    return _runs(attribute, Runs.both_ends(len(attribute.values), k))


def low_end(attribute: Attribute, k: int) -> Places:
    """Fixed blocks of k ranks from the low end; the last has k to 2k - 1."""
    return _runs(attribute, Runs.low_end(len(attribute.values), k))


def _runs(attribute: Attribute, runs: Runs) -> Places:
    labels = np.empty(len(attribute.values), dtype=np.int64)
    labels[order(attribute)] = runs.label(np.arange(len(attribute.values)))
    return labels


def order(attribute: Attribute) -> NDArray[Any]:
    """The rows from the least value to the greatest, missing ones last, ties by index; categories go by place."""
    values = attribute.values
    if attribute.kind != "numeric":
        values = np.where(values == ABSENT, np.nan, values)
    if len(values) < MANY:
        return np.argsort(values, kind="stable")
    from discreet.microdata.radix import sorted_rows

    return sorted_rows(_keys(values))


def _keys(values: Floats) -> NDArray[np.uint64]:
    """Whole numbers in the same order: the bits of a float, turned round where it is negative."""
    bits = (values + 0.0).view(np.int64)  # a negative zero becomes a zero
    keys = np.where(bits < 0, ~bits, bits | np.int64(-(2**63))).view(np.uint64)
    keys[np.isnan(values)] = np.uint64(2**64 - 1)
    return keys
