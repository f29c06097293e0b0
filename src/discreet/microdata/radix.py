"""Compiled: the order of whole numbers, digit by digit from the last."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.microdata.tree import compile_entry_point

RADIX_BITS = 11


@compile_entry_point
def radix_sort_rows(keys: Any) -> NDArray[np.int32]:
    """The rows by rising key, equal keys by index. The keys are overwritten."""
    rows, digits = len(keys), -(-64 // RADIX_BITS)
    mask = np.uint64(2**RADIX_BITS - 1)
    counts = np.zeros((digits, 2**RADIX_BITS), np.int64)
    for key in keys:
        for digit in range(digits):
            counts[digit, (key >> np.uint64(RADIX_BITS * digit)) & mask] += 1
    order = np.arange(rows).astype(np.int32)
    other_keys, other_order = np.empty_like(keys), np.empty_like(order)
    for digit in range(digits):
        if counts[digit].max() == rows:
            continue
        places = np.cumsum(counts[digit]) - counts[digit]
        for i in range(rows):
            key = keys[i]
            bucket = (key >> np.uint64(RADIX_BITS * digit)) & mask
            place = places[bucket]
            other_keys[place], other_order[place] = key, order[i]
            places[bucket] = place + 1
        keys, other_keys, order, other_order = other_keys, keys, other_order, order
    return order
