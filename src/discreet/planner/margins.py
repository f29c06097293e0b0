"""Exact counts of single columns that were published before: a file is made to keep them, as everybody knows them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.planner.impossible import Impossible, columns_of
from discreet.planner.published import published_count
from discreet.query.predicate import Predicate
from discreet.schema import Schema

Counts = NDArray[np.int64]
ROUNDS = 100
LEAST, CLOSE = 1e-6, 1e-6
"""No kind of cells that can have rows is lost for having none, and a number so near a whole one is that."""


@dataclass(frozen=True, slots=True)
class Margin:
    """So many rows satisfy a condition on one column."""

    column: str
    where: Predicate
    rows: int


def margins(schema: Schema) -> tuple[Margin, ...]:
    """The published counts of rows that are about one column."""
    counted = [published_count(one, schema) for one in schema.published]
    return tuple(
        Margin(columns_of(where)[0], where, rows)
        for where, rows in filter(None, counted)
        if len(columns_of(where)) == 1
    )


def keeping(counts: Counts, codes: Counts, own: tuple[Margin, ...], never: NDArray[np.bool_]) -> Counts:
    """Counts of a column's cells, scaled to its published ones and none where `never` says so; they add up as before.

    Cells that the published counts do not tell apart are scaled alike, again and again until all are kept: at once
    where none overlap, and to about a row where they do.
    """
    total = int(counts.sum())
    inside = np.array([Impossible((one.where,)).rows({one.column: codes}) for one in own], dtype=np.bool_)
    kinds, kind = np.unique(inside.reshape(len(own), len(codes)), axis=1, return_inverse=True)
    kind = kind.reshape(-1)
    open_kinds = np.bincount(kind, ~never, minlength=kinds.shape[1]) > 0
    sums = np.where(open_kinds, np.maximum(np.bincount(kind, np.where(never, 0, counts)), LEAST), 0.0)
    for _ in range(ROUNDS):
        for margin, part in zip(own, kinds, strict=True):
            for where, rows in ((part, margin.rows), (~part, total - margin.rows)):
                sums[where] *= rows / sums[where].sum() if sums[where].any() and rows >= 0 else 1.0
    whole = spread(sums, open_kinds, total)
    kept = np.zeros_like(counts)
    for place in np.flatnonzero(open_kinds):
        kept += spread(counts, (kind == place) & ~never, int(whole[place]))
    return kept


def spread(counts: NDArray[Any], where: NDArray[np.bool_], total: int) -> Counts:
    """Whole counts in these cells alone that add up to the total, in proportion to the given; evenly if all are 0."""
    fair = np.where(where, counts, 0).astype(np.float64)
    fair = fair if fair.any() else where.astype(np.float64)
    aims = fair * (total / fair.sum())
    whole: Counts = np.floor(aims + CLOSE).astype(np.int64)
    short = total - int(whole.sum())
    whole[np.argsort(whole - aims, kind="stable")[:short]] += 1
    return whole
