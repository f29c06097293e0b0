"""Counts of one column's cells, made to keep counts that are known: noisy in, better out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.inference.whole import adding_up

Counts = NDArray[np.int64]
Mask = NDArray[np.bool_]
ROUNDS = 100
LEAST = 1e-6
"""No kind of cells that can have rows is lost for having none."""


def keeping(counts: Counts, inside: Sequence[Mask], known: Sequence[int], never: Mask) -> Counts:
    """Counts with so many rows inside each set of cells, and none where `never` says so; they add up as before.

    Cells that the sets do not tell apart are scaled alike, again and again until all are kept: at once where no sets
    overlap, and to about a row where they do.
    """
    total = int(counts.sum())
    sets = np.array(inside, dtype=np.bool_).reshape(len(inside), len(counts))
    kinds, kind = np.unique(sets, axis=1, return_inverse=True)
    kind = kind.reshape(-1)
    able = np.bincount(kind, ~never, minlength=kinds.shape[1]) > 0
    sums = np.where(able, np.maximum(np.bincount(kind, np.where(never, 0, counts)), LEAST), 0.0)
    for _ in range(ROUNDS):
        for part, rows in zip(kinds, known, strict=True):
            _scale(sums, part, rows)
            _scale(sums, ~part, total - rows)
    whole = _spread(sums, able, total)
    kept = np.zeros_like(counts)
    for place in np.flatnonzero(able):
        kept += _spread(counts, (kind == place) & ~never, int(whole[place]))
    return kept


def _scale(sums: NDArray[np.float64], part: Mask, rows: int) -> None:
    if rows >= 0 and sums[part].any():
        sums[part] *= rows / sums[part].sum()


def _spread(counts: NDArray[Any], where: Mask, total: int) -> Counts:
    """Whole counts in these cells alone that add up to the total, in proportion to the given; evenly if all are 0."""
    fair = np.where(where, counts, 0).astype(np.float64)
    fair = fair if fair.any() else where.astype(np.float64)
    return adding_up(fair * (total / fair.sum()), total).astype(np.int64)
