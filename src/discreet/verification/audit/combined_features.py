"""Features of several columns: sums, differences, learned scores.

If one draw of noise is used for two counts, it cancels in their difference. An answer of w numbers has w (w - 1) sums
and differences; if these are many, a part of the shape draws selects those that differ most.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from functools import partial
from itertools import combinations
from typing import cast

import numpy as np
from numpy.typing import NDArray

from discreet.formatting import format_number
from discreet.verification.audit.features import (
    MAX_SCREENED_MODULUS,
    Feature,
    Numbers,
    OutputNumber,
    build_column_number,
    build_lattice_features,
    build_score_feature,
    build_value_feature,
    compare_residues,
)
from discreet.verification.audit.output_values import Columns, Keys, OutputSample, compute_ordered_keys

MAX_COLUMNS = 12
"""The most columns with features of their own."""
MAX_COMBINED = 8
"""The most sums and differences with features of their own."""
MAX_CORRELATED = 16
SCREENING_DRAWS = 8192
"""Draws of each data set that select columns, sums and differences."""
CLIPPED_TAIL = 0.001
BINS = 24
MAX_LEARNING_ROWS = 250_000
"""The most rows of each data set that a score learns from."""
MAX_JOINT_COLUMNS, JOINT_CELLS = 3, 1728
TRIMMED_TAIL = 0.001
RIDGE_SHARE, MAX_MAGNITUDE = 1e-9, 1e100
NARROW_SHARE = 1e-3
"""A combination of numbers is narrow if its variance is below this share of the widest one's."""
Matrix = NDArray[np.float64]


def select_telling_columns(sample: OutputSample, sample2: OutputSample) -> list[int]:
    """Return the indices of the columns with features of their own: all, or of many those that differ most."""
    if sample.columns is None:
        return []
    width = sample.columns.shape[1]
    if width <= MAX_COLUMNS:
        return list(range(width))
    differences = [_measure_difference(build_column_number(sample, index), sample, sample2) for index in range(width)]
    return sorted(sorted(range(width), key=lambda index: -differences[index])[:MAX_COLUMNS])


def build_derived_features(columns: list[int], sample: OutputSample, sample2: OutputSample) -> list[Feature]:
    """Build remainders of the columns; sums and differences of two of them, the total, and remainders of these."""
    if sample.columns is None:
        return []
    features: list[Feature] = []
    for index in columns:
        features += build_lattice_features(build_column_number(sample, index), sample, sample2)
    for number in build_combined_numbers(sample, sample2, columns):
        features += [build_value_feature(number), *build_lattice_features(number, sample, sample2)]
    return features


def build_combined_numbers(sample: OutputSample, sample2: OutputSample, columns: list[int]) -> list[OutputNumber]:
    """Build the sums and differences of two columns that differ most, and the total of all columns."""
    table = cast("Columns", sample.columns)
    width, is_floating = table.shape[1], table.dtype.kind == "f"
    correlated_pairs = _find_correlated_pairs(sample, sample2) if width > MAX_COLUMNS else ()
    pairs = dict.fromkeys([*combinations(columns, 2), *correlated_pairs])
    numbers = [number for first, second in pairs for number in _build_sum_and_difference(sample, first, second)]
    if width > 2:
        numbers.append(OutputNumber("the sum of all numbers of the answer", _sum_all_numbers, is_floating))
    if len(numbers) > MAX_COMBINED:
        differences = [_measure_difference(number, sample, sample2) for number in numbers]
        places = sorted(range(len(numbers)), key=lambda index: -differences[index])[:MAX_COMBINED]
        numbers = [numbers[index] for index in sorted(places)]
    return numbers


def _build_sum_and_difference(sample: OutputSample, first: int, second: int) -> Iterator[OutputNumber]:
    pair = build_column_number(sample, first), build_column_number(sample, second)
    suffix = "of the answer"
    names = [number.name.removesuffix(suffix).rstrip() for number in pair]
    for word, combine in (("minus", operator.sub), ("plus", operator.add)):
        name = f"{names[0]} {word} {names[1]} {suffix}"
        yield OutputNumber(name, partial(_combine_numbers, combine, *pair), pair[0].is_floating)


def _combine_numbers(
    operation: Callable[[Columns, Columns], Columns], first: OutputNumber, second: OutputNumber, sample: OutputSample
) -> Columns:
    """The result for two infinite numbers may be NaN, which is an answer like others."""
    with np.errstate(invalid="ignore", over="ignore"):
        return operation(first.compute(sample), second.compute(sample))


def _sum_all_numbers(sample: OutputSample) -> Columns:
    with np.errstate(invalid="ignore", over="ignore"):
        return cast("Columns", cast("Columns", sample.columns).sum(axis=1))


def _measure_difference(number: OutputNumber, sample: OutputSample, sample2: OutputSample) -> float:
    """By how many standard deviations a bin or a residue differs between the data sets, in the screening draws."""
    first, second = (number.compute(_take_screening_draws(outputs)) for outputs in (sample, sample2))
    gap = _find_widest_gap(*(np.sort(compute_ordered_keys(values)) for values in (first, second)))
    return gap if number.is_floating else max([gap, *compare_residues(first, second, MAX_SCREENED_MODULUS).values()])


def _take_screening_draws(sample: OutputSample) -> OutputSample:
    return sample.take_every(0, max(len(sample) // SCREENING_DRAWS, 1))


def _find_widest_gap(keys: Keys, keys2: Keys) -> float:
    """The largest difference between counts: of half-lines, and of values that occur in either."""
    both = np.concatenate([keys, keys2])
    below, below2 = (np.searchsorted(sample_keys, both, side="left") for sample_keys in (keys, keys2))
    upto, upto2 = (np.searchsorted(sample_keys, both, side="right") for sample_keys in (keys, keys2))
    gaps = _compute_gap(below, below2), _compute_gap(upto - below, upto2 - below2)
    return max(*gaps, _compute_gap(len(keys) - below, len(keys2) - below2))


def _compute_gap(counts: Keys, counts2: Keys) -> float:
    gaps: NDArray[np.float64] = np.abs(counts - counts2) / np.sqrt(counts + counts2 + 1)
    return float(gaps.max())


def _find_correlated_pairs(sample: OutputSample, sample2: OutputSample) -> list[tuple[int, int]]:
    """The pairs of columns with the highest correlation: 1 if a draw is used twice."""
    parts = [_take_screening_draws(outputs).columns for outputs in (sample, sample2)]
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        correlations = np.abs(np.nan_to_num(sum(np.corrcoef(_clip_tails(cast("Columns", part)).T) for part in parts)))
    upper = np.triu(correlations, k=1)
    order = np.argsort(-upper, axis=None, kind="stable")[:MAX_CORRELATED]
    return [(int(first), int(second)) for first, second in zip(*np.unravel_index(order, upper.shape), strict=True)]


def _clip_tails(rows: Columns) -> Numbers:
    low, high = np.quantile(rows, [CLIPPED_TAIL, 1 - CLIPPED_TAIL], axis=0, method="nearest")
    return np.clip(rows, low, high).astype(np.float64)


def learn_features(sample: OutputSample, sample2: OutputSample) -> list[Feature]:
    """Learn features of rows of several numbers; none of single numbers or labels."""
    if sample.columns is None or sample.columns.shape[1] < 2:
        return []
    rows = sample.columns[:MAX_LEARNING_ROWS], sample2.columns[:MAX_LEARNING_ROWS]  # type: ignore[index]
    features = [learn_likelihood_ratio(*rows), *learn_directions(*rows)]
    return [*features, learn_center_distance(*rows), learn_joint_cell(*rows)]


def learn_likelihood_ratio(table: Columns, table2: Columns) -> Feature:
    """Learn the sum of the log-likelihood ratios of the single numbers, each from its histogram."""
    ratios = []
    for column, column2 in zip(table.T, table2.T, strict=True):
        edges = _compute_bin_edges(column, column2, BINS)
        counts, counts2 = (_count_bins(edges, values) for values in (column, column2))
        ratios.append((edges, np.log((counts + 1) / (counts2 + 1))))

    def compute_score(rows: Columns) -> Numbers:
        total = np.zeros(len(rows))
        for index, (edges, ratio) in enumerate(ratios):
            total += ratio[np.searchsorted(edges, rows[:, index], side="right")]
        return total

    return build_score_feature(compute_score, "the log-likelihood ratio of the answer's numbers, summed,")


def learn_directions(table: Columns, table2: Columns) -> list[Feature]:
    """Learn weighted sums of the numbers that distinguish the data sets best (Fisher's discriminant).

    The first is the best of all sums, the second of those that vary far less than a number: noise cancels in them.
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
    """Both tables with each column scaled, and without rows that are far out in one of them; the scales come first."""
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
    """A sum with these weights, normalized to a largest one of 1."""
    weights = weights / max(float(np.abs(weights).max()), 1e-300)
    texts = [f"{'+' if weight >= 0 else ''}{format_number(weight, 3)}" for weight in weights[:4].tolist()]
    terms = [f"{text} x{number}" for number, text in enumerate(texts, start=1)] + ["..."] * (len(weights) > 4)
    return build_score_feature(lambda rows: _convert_to_finite(rows) @ weights, f"{' '.join(terms)} of the answer")


def learn_center_distance(table: Columns, table2: Columns) -> Feature:
    """Learn the distance from the middle: the noise of one data set may be wider."""
    both = _convert_to_finite(np.concatenate([table, table2]))
    center = np.median(both, axis=0)
    median = np.median(np.abs(both - center), axis=0)
    width = np.where(median > 0, median, 1.0)

    def compute_score(rows: Columns) -> Numbers:
        distances: Numbers = (np.abs(_convert_to_finite(rows) - center) / width).sum(axis=1)
        return distances

    return build_score_feature(compute_score, "the distance of the answer from the middle of all, in medians,")


def learn_joint_cell(table: Columns, table2: Columns) -> Feature:
    """Learn a grid over the numbers that differ most by themselves, at most three."""
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
    """The total variation between two histograms of one number, times two."""
    edges = _compute_bin_edges(column, column2, BINS)
    counts, counts2 = (_count_bins(edges, values) for values in (column, column2))
    return float(np.abs(counts / len(column) - counts2 / len(column2)).sum())


def _count_bins(edges: Columns, values: Columns) -> Keys:
    return np.bincount(np.searchsorted(edges, values, side="right"), minlength=len(edges) + 1)


def _compute_bin_edges(column: Columns, column2: Columns, bins: int) -> Columns:
    """The edges of bins with about equally many draws, both data sets together."""
    both = np.sort(np.concatenate([column, column2]))
    return cast("Columns", np.unique(both[np.arange(1, bins) * len(both) // bins]))


def _convert_to_finite(rows: Columns) -> Matrix:
    """Finite numbers: NaN is 0, and huge numbers are 10^100, whose square is finite."""
    return cast("Matrix", np.clip(np.nan_to_num(rows.astype(np.float64), nan=0.0), -MAX_MAGNITUDE, MAX_MAGNITUDE))
