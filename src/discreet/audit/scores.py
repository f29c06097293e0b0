"""Numbers of rows, learned from draws of their own: what no single number of a row tells, their sum may."""

from __future__ import annotations

from typing import cast

import numpy as np
from numpy.typing import NDArray

from discreet.audit.draws import Columns, Draws, Keys
from discreet.audit.features import Feature, Numbers, score
from discreet.formatting import format_number

BINS = 24
TAUGHT = 250_000
"""Rows of each data set that a score learns from at most."""
MOST_JOINT, CELLS = 3, 1728
TAIL = 0.001
SMALL, HUGE = 1e-9, 1e100
NARROW = 1e-3
"""A combination of numbers is narrow if its variance is below this share of the widest one's."""

Matrix = NDArray[np.float64]


def learned(one: Draws, two: Draws) -> list[Feature]:
    """Features of rows of several numbers; none of single numbers or labels."""
    if one.columns is None or one.columns.shape[1] < 2:
        return []
    rows = one.columns[:TAUGHT], two.columns[:TAUGHT]  # type: ignore[index]
    return [number_by_number(*rows), *in_directions(*rows), from_the_centre(*rows), joint_cell(*rows)]


def number_by_number(one: Columns, two: Columns) -> Feature:
    """The sum of the log-likelihood ratios of the single numbers, each from its histogram."""
    edges = [_quantiles(one[:, at], two[:, at], BINS) for at in range(one.shape[1])]
    ratios = [_log_ratio(edges[at], one[:, at], two[:, at]) for at in range(one.shape[1])]

    def of(rows: Columns) -> Numbers:
        told = np.zeros(len(rows))
        for at, (own, ratio) in enumerate(zip(edges, ratios, strict=True)):
            told += ratio[np.searchsorted(own, rows[:, at], side="right")]
        return told

    return score(of, "the log-likelihood ratio of the answer's numbers, summed,")


def in_directions(one: Columns, two: Columns) -> list[Feature]:
    """The sums of the numbers with the weights that tell the data sets apart best (Fisher's discriminant).

    The first is among all sums, the second among those that vary far less than a number does: noise cancels in them.
    """
    scale, a, b = _without_tails(one, two)
    spread, gap = np.atleast_2d(np.cov(a.T) + np.cov(b.T)), a.mean(axis=0) - b.mean(axis=0)
    sizes, directions = np.linalg.eigh(spread)
    narrow = directions[:, sizes < NARROW * sizes[-1]]
    found = [_discriminant(spread, gap)]
    if narrow.shape[1]:
        within = np.atleast_2d(np.cov((a @ narrow).T) + np.cov((b @ narrow).T))
        found.append(narrow @ _discriminant(within, narrow.T @ gap))
    return [_weighted(weights / scale) for weights in found if weights.any()]


def _discriminant(spread: Matrix, gap: Numbers) -> Numbers:
    size = float(np.trace(spread))
    ridge = (SMALL * size if size > 0 else 1.0) * np.eye(len(gap))
    return cast("Numbers", np.linalg.solve(spread + ridge, gap))


def _without_tails(one: Columns, two: Columns) -> tuple[Numbers, Matrix, Matrix]:
    """Both with a scale for each column of its own, and without the rows that are far out in one of them."""
    a, b = _finite(one), _finite(two)
    both = np.concatenate([a, b])
    low, middle, high = np.quantile(both, [TAIL, 0.5, 1 - TAIL], axis=0, method="nearest")
    scale = np.where(high > low, high - low, 1.0)
    inner = [own[((own >= low) & (own <= high)).all(axis=1)] for own in (a, b)]
    kept = [
        few if len(few) > len(own) // 2 else np.clip(own, low, high) for few, own in zip(inner, (a, b), strict=True)
    ]
    return scale, (kept[0] - middle) / scale, (kept[1] - middle) / scale


def _weighted(weights: Numbers) -> Feature:
    """A sum with these weights, the largest of which is made 1."""
    weights = weights / max(float(np.abs(weights).max()), 1e-300)
    told = " ".join(
        f"{'+' if weight >= 0 else ''}{format_number(float(weight), 3)} x{at + 1}"
        for at, weight in enumerate(weights[:4])
    )
    more = " ..." if len(weights) > 4 else ""
    return score(lambda rows: _finite(rows) @ weights, f"{told}{more} of the answer")


def from_the_centre(one: Columns, two: Columns) -> Feature:
    """How far from the middle: the noise of one data set may be wider."""
    both = _finite(np.concatenate([one, two]))
    centre = np.median(both, axis=0)
    median = np.median(np.abs(both - centre), axis=0)
    width = np.where(median > 0, median, 1.0)

    def of(rows: Columns) -> Numbers:
        away: Numbers = (np.abs(_finite(rows) - centre) / width).sum(axis=1)
        return away

    return score(of, "the distance of the answer from the middle of all, in medians,")


def joint_cell(one: Columns, two: Columns) -> Feature:
    """The cell of a grid over the numbers that tell most by themselves, at most three."""
    width = one.shape[1]
    tells = [_told_apart(one[:, at], two[:, at]) for at in range(width)]
    chosen = sorted(sorted(range(width), key=lambda at: -tells[at])[:MOST_JOINT])
    bins = round(CELLS ** (1 / len(chosen)))
    edges = [_quantiles(one[:, at], two[:, at], bins) for at in chosen]

    def keys(draws: Draws) -> Keys:
        rows, found = cast("Columns", draws.columns), np.zeros(len(draws), dtype=np.int64)
        for at, own in zip(chosen, edges, strict=True):
            found = found * (len(own) + 1) + np.searchsorted(own, rows[:, at], side="right")
        return found

    name = f"numbers {', '.join(str(at + 1) for at in chosen)} of the answer"
    return Feature(name, keys, lambda _: f"{name} are in certain cells of a grid")


def _told_apart(one: Columns, two: Columns) -> float:
    """The total variation between two histograms of one number."""
    edges = _quantiles(one, two, BINS)
    shares = [np.bincount(np.searchsorted(edges, each, side="right"), minlength=len(edges) + 1) for each in (one, two)]
    return float(np.abs(shares[0] / len(one) - shares[1] / len(two)).sum())


def _quantiles(one: Columns, two: Columns, bins: int) -> Columns:
    """The edges of bins with about as many draws each, both data sets together."""
    both = np.sort(np.concatenate([one, two]))
    return cast("Columns", np.unique(both[np.arange(1, bins) * len(both) // bins]))


def _log_ratio(edges: Columns, one: Columns, two: Columns) -> Numbers:
    counts = [np.bincount(np.searchsorted(edges, each, side="right"), minlength=len(edges) + 1) for each in (one, two)]
    ratio: Numbers = np.log((counts[0] + 1) / (counts[1] + 1))
    return ratio


def _finite(rows: Columns) -> Matrix:
    """Numbers only: what is not a number counts as 0, what is huge as 10^100, whose square is a number."""
    return cast("Matrix", np.clip(np.nan_to_num(rows.astype(np.float64), nan=0.0), -HUGE, HUGE))
