"""Counts of one column's cells, made to keep counts that are known: noisy in, better out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.inference.whole import round_to_total

CellCounts = NDArray[np.int64]
CellMask = NDArray[np.bool_]
RAKING_ROUNDS = 100
MIN_KIND_COUNT = 1e-6
"""No kind of cells that can have rows is lost for having none."""


def rake_counts(
    counts: CellCounts, cell_sets: Sequence[CellMask], known_counts: Sequence[int], structural_zeros: CellMask
) -> CellCounts:
    """Counts with so many rows inside each set of cells, and none where `never` says so; they add up as before.

    Cells that the sets do not tell apart are scaled alike, again and again until all are kept: at once where no sets
    overlap, and to about a row where they do.
    """
    total = int(counts.sum())
    sets = np.array(cell_sets, dtype=np.bool_).reshape(len(cell_sets), len(counts))
    kinds, kind = np.unique(sets, axis=1, return_inverse=True)
    kind = kind.reshape(-1)
    is_possible = np.bincount(kind, ~structural_zeros, minlength=kinds.shape[1]) > 0
    sums = np.where(
        is_possible, np.maximum(np.bincount(kind, np.where(structural_zeros, 0, counts)), MIN_KIND_COUNT), 0.0
    )
    for _ in range(RAKING_ROUNDS):
        for part, rows in zip(kinds, known_counts, strict=True):
            _scale_sums(sums, part, rows)
            _scale_sums(sums, ~part, total - rows)
    kind_counts = _apportion(sums, is_possible, total)
    raked_counts = np.zeros_like(counts)
    for place in np.flatnonzero(is_possible):
        raked_counts += _apportion(counts, (kind == place) & ~structural_zeros, int(kind_counts[place]))
    return raked_counts


def _scale_sums(sums: NDArray[np.float64], part: CellMask, rows: int) -> None:
    if rows >= 0 and sums[part].any():
        sums[part] *= rows / sums[part].sum()


def _apportion(counts: NDArray[Any], where: CellMask, total: int) -> CellCounts:
    """Whole counts in these cells alone that add up to the total, in proportion to the given; evenly if all are 0."""
    shares = np.where(where, counts, 0).astype(np.float64)
    shares = shares if shares.any() else where.astype(np.float64)
    return round_to_total(shares * (total / shares.sum()), total).astype(np.int64)
