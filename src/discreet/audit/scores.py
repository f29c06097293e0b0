"""Numbers of rows, learned from draws of their own: what no single number of a row tells, their sum may."""

from __future__ import annotations

from typing import cast

import numpy as np
from numpy.typing import NDArray

from discreet.audit.draws import Columns, Keys, OutputSample
from discreet.audit.features import Feature, Numbers, build_score_feature
from discreet.formatting import format_number

BINS = 24
MAX_LEARNING_ROWS = 250_000
"""Rows of each data set that a score learns from at most."""
MAX_JOINT_COLUMNS, JOINT_CELLS = 3, 1728
TRIMMED_TAIL = 0.001
RIDGE_SHARE, MAX_MAGNITUDE = 1e-9, 1e100
NARROW_SHARE = 1e-3
"""A combination of numbers is narrow if its variance is below this share of the widest one's."""

Matrix = NDArray[np.float64]


def learn_features(sample: OutputSample, sample2: OutputSample) -> list[Feature]:
    """Features of rows of several numbers; none of single numbers or labels."""
    if sample.columns is None or sample.columns.shape[1] < 2:
        return []
    rows = sample.columns[:MAX_LEARNING_ROWS], sample2.columns[:MAX_LEARNING_ROWS]  # type: ignore[index]
    return [
        learn_likelihood_ratio(*rows),
        *learn_directions(*rows),
        learn_center_distance(*rows),
        learn_joint_cell(*rows),
    ]


def learn_likelihood_ratio(table: Columns, table2: Columns) -> Feature:
    """The sum of the log-likelihood ratios of the single numbers, each from its histogram."""
    edges = [_compute_bin_edges(table[:, index], table2[:, index], BINS) for index in range(table.shape[1])]
    ratios = [_compute_log_ratios(edges[index], table[:, index], table2[:, index]) for index in range(table.shape[1])]

    def compute_score(rows: Columns) -> Numbers:
        total = np.zeros(len(rows))
        for index, (column_edges, ratio) in enumerate(zip(edges, ratios, strict=True)):
            total += ratio[np.searchsorted(column_edges, rows[:, index], side="right")]
        return total

    return build_score_feature(compute_score, "the log-likelihood ratio of the answer's numbers, summed,")


def learn_directions(table: Columns, table2: Columns) -> list[Feature]:
    """The sums of the numbers with the weights that tell the data sets apart best (Fisher's discriminant).

    The first is among all sums, the second among those that vary far less than a number does: noise cancels in them.
    """
    scale, a, b = _standardize_rows(table, table2)
    spread, gap = np.atleast_2d(np.cov(a.T) + np.cov(b.T)), a.mean(axis=0) - b.mean(axis=0)
    sizes, directions = np.linalg.eigh(spread)
    narrow = directions[:, sizes < NARROW_SHARE * sizes[-1]]
    weight_vectors = [_solve_discriminant(spread, gap)]
    if narrow.shape[1]:
        within = np.atleast_2d(np.cov((a @ narrow).T) + np.cov((b @ narrow).T))
        weight_vectors.append(narrow @ _solve_discriminant(within, narrow.T @ gap))
    return [_build_weighted_feature(weights / scale) for weights in weight_vectors if weights.any()]


def _solve_discriminant(spread: Matrix, gap: Numbers) -> Numbers:
    size = float(np.trace(spread))
    ridge = (RIDGE_SHARE * size if size > 0 else 1.0) * np.eye(len(gap))
    return cast("Numbers", np.linalg.solve(spread + ridge, gap))


def _standardize_rows(table: Columns, table2: Columns) -> tuple[Numbers, Matrix, Matrix]:
    """Both with a scale for each column of its own, and without the rows that are far out in one of them."""
    a, b = _convert_to_finite(table), _convert_to_finite(table2)
    both = np.concatenate([a, b])
    low, middle, high = np.quantile(both, [TRIMMED_TAIL, 0.5, 1 - TRIMMED_TAIL], axis=0, method="nearest")
    scale = np.where(high > low, high - low, 1.0)
    inner = [rows[((rows >= low) & (rows <= high)).all(axis=1)] for rows in (a, b)]
    trimmed_rows = [
        inner_rows if len(inner_rows) > len(rows) // 2 else np.clip(rows, low, high)
        for inner_rows, rows in zip(inner, (a, b), strict=True)
    ]
    return scale, (trimmed_rows[0] - middle) / scale, (trimmed_rows[1] - middle) / scale


def _build_weighted_feature(weights: Numbers) -> Feature:
    """A sum with these weights, the largest of which is made 1."""
    weights = weights / max(float(np.abs(weights).max()), 1e-300)
    terms = " ".join(
        f"{'+' if weight >= 0 else ''}{format_number(float(weight), 3)} x{index + 1}"
        for index, weight in enumerate(weights[:4])
    )
    suffix = " ..." if len(weights) > 4 else ""
    return build_score_feature(lambda rows: _convert_to_finite(rows) @ weights, f"{terms}{suffix} of the answer")


def learn_center_distance(table: Columns, table2: Columns) -> Feature:
    """How far from the middle: the noise of one data set may be wider."""
    both = _convert_to_finite(np.concatenate([table, table2]))
    center = np.median(both, axis=0)
    median = np.median(np.abs(both - center), axis=0)
    width = np.where(median > 0, median, 1.0)

    def compute_score(rows: Columns) -> Numbers:
        distances: Numbers = (np.abs(_convert_to_finite(rows) - center) / width).sum(axis=1)
        return distances

    return build_score_feature(compute_score, "the distance of the answer from the middle of all, in medians,")


def learn_joint_cell(table: Columns, table2: Columns) -> Feature:
    """The cell of a grid over the numbers that tell most by themselves, at most three."""
    width = table.shape[1]
    distances = [_compute_total_variation(table[:, index], table2[:, index]) for index in range(width)]
    chosen = sorted(sorted(range(width), key=lambda index: -distances[index])[:MAX_JOINT_COLUMNS])
    bins = round(JOINT_CELLS ** (1 / len(chosen)))
    edges = [_compute_bin_edges(table[:, index], table2[:, index], bins) for index in chosen]

    def keys(sample: OutputSample) -> Keys:
        rows, cells = cast("Columns", sample.columns), np.zeros(len(sample), dtype=np.int64)
        for index, column_edges in zip(chosen, edges, strict=True):
            cells = cells * (len(column_edges) + 1) + np.searchsorted(column_edges, rows[:, index], side="right")
        return cells

    name = f"numbers {', '.join(str(index + 1) for index in chosen)} of the answer"
    return Feature(name, keys, lambda _: f"{name} are in certain cells of a grid")


def _compute_total_variation(column: Columns, column2: Columns) -> float:
    """The total variation between two histograms of one number."""
    edges = _compute_bin_edges(column, column2, BINS)
    shares = [
        np.bincount(np.searchsorted(edges, values, side="right"), minlength=len(edges) + 1)
        for values in (column, column2)
    ]
    return float(np.abs(shares[0] / len(column) - shares[1] / len(column2)).sum())


def _compute_bin_edges(column: Columns, column2: Columns, bins: int) -> Columns:
    """The edges of bins with about as many draws each, both data sets together."""
    both = np.sort(np.concatenate([column, column2]))
    return cast("Columns", np.unique(both[np.arange(1, bins) * len(both) // bins]))


def _compute_log_ratios(edges: Columns, column: Columns, column2: Columns) -> Numbers:
    counts = [
        np.bincount(np.searchsorted(edges, values, side="right"), minlength=len(edges) + 1)
        for values in (column, column2)
    ]
    ratio: Numbers = np.log((counts[0] + 1) / (counts[1] + 1))
    return ratio


def _convert_to_finite(rows: Columns) -> Matrix:
    """Numbers only: what is not a number counts as 0, what is huge as 10^100, whose square is a number."""
    return cast("Matrix", np.clip(np.nan_to_num(rows.astype(np.float64), nan=0.0), -MAX_MAGNITUDE, MAX_MAGNITUDE))
