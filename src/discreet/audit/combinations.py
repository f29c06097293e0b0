"""Sums and differences of two numbers of an answer, and which columns and pairs of columns are looked at.

One draw used for two counts hides both and cancels in their difference. An answer of w numbers has w (w - 1) such
sums and differences: where these are many, a part of the shape draws says which of them differ most.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from functools import partial
from itertools import combinations as pairs_of
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from discreet.audit.draws import Columns, Keys, OutputSample, compute_ordered_keys
from discreet.audit.features import Feature, Numbers, OutputNumber, build_column_number, build_value_feature
from discreet.audit.lattices import MAX_SCREENED_MODULUS, build_lattice_features, compare_residues

MAX_COLUMNS = 12
"""So many columns are looked at one by one."""
MAX_COMBINED = 8
"""So many sums and differences are looked at with all draws."""
MAX_CORRELATED = 16
SCREENING_DRAWS = 8192
"""Draws of each data set that say which columns, sums and differences are looked at."""
CLIPPED_TAIL = 0.001


def select_telling_columns(sample: OutputSample, sample2: OutputSample) -> list[int]:
    """The places of the columns to look at one by one: all, or where these are many those that differ most."""
    if sample.columns is None:
        return []
    width = sample.columns.shape[1]
    if width <= MAX_COLUMNS:
        return list(range(width))
    differences = [_measure_difference(build_column_number(sample, index), sample, sample2) for index in range(width)]
    return sorted(sorted(range(width), key=lambda index: -differences[index])[:MAX_COLUMNS])


def build_derived_features(columns: list[int], sample: OutputSample, sample2: OutputSample) -> list[Feature]:
    """Remainders of the columns; sums and differences of two of them, their total, and the remainders of these."""
    if sample.columns is None:
        return []
    features = [
        feature
        for index in columns
        for feature in build_lattice_features(build_column_number(sample, index), sample, sample2)
    ]
    for number in build_combined_numbers(sample, sample2, columns):
        features += [build_value_feature(number), *build_lattice_features(number, sample, sample2)]
    return features


def build_combined_numbers(sample: OutputSample, sample2: OutputSample, columns: list[int]) -> list[OutputNumber]:
    """The sums and differences of two columns that differ most between the data sets, and the total of all columns."""
    width = cast("Columns", sample.columns).shape[1]
    pairs = dict.fromkeys(
        [*pairs_of(columns, 2), *(_find_correlated_pairs(sample, sample2) if width > MAX_COLUMNS else ())]
    )
    numbers = [number for first, second in pairs for number in _build_sum_and_difference(sample, first, second)]
    if width > 2:
        numbers.append(_build_total(sample))
    if len(numbers) > MAX_COMBINED:
        differences = [_measure_difference(number, sample, sample2) for number in numbers]
        places = sorted(range(len(numbers)), key=lambda index: -differences[index])[:MAX_COMBINED]
        numbers = [numbers[index] for index in sorted(places)]
    return numbers


def _build_sum_and_difference(sample: OutputSample, first: int, second: int) -> Iterator[OutputNumber]:
    a, b = build_column_number(sample, first), build_column_number(sample, second)
    suffix = "of the answer"
    names = [sample.titles[index].removesuffix(suffix).rstrip() for index in (first, second)]
    for word, combine in (("minus", operator.sub), ("plus", operator.add)):
        yield OutputNumber(
            f"{names[0]} {word} {names[1]} {suffix}", partial(_combine_numbers, combine, a, b), a.is_floating
        )


def _combine_numbers(
    operation: Callable[[Any, Any], Any], a: OutputNumber, b: OutputNumber, sample: OutputSample
) -> Columns:
    """That of two infinite numbers may be NaN, which is an answer like others."""
    with np.errstate(invalid="ignore", over="ignore"):
        return cast("Columns", operation(a.compute(sample), b.compute(sample)))


def _build_total(sample: OutputSample) -> OutputNumber:
    floating = cast("Columns", sample.columns).dtype.kind == "f"
    return OutputNumber("the sum of all numbers of the answer", _sum_all_numbers, floating)


def _sum_all_numbers(sample: OutputSample) -> Columns:
    with np.errstate(invalid="ignore", over="ignore"):
        return cast("Columns", cast("Columns", sample.columns).sum(axis=1))


def _measure_difference(number: OutputNumber, sample: OutputSample, sample2: OutputSample) -> float:
    """By how many standard deviations a bin or a residue differs between the data sets, in a part of the draws."""
    parts = [outputs.take_every(0, max(len(outputs) // SCREENING_DRAWS, 1)) for outputs in (sample, sample2)]
    first, second = (number.compute(part) for part in parts)
    in_bins = _find_widest_gap(*(np.sort(compute_ordered_keys(values)) for values in (first, second)))
    if number.is_floating:
        return in_bins
    return max([in_bins, *compare_residues(first, second, MAX_SCREENED_MODULUS).values()])


def _find_widest_gap(keys: Keys, keys2: Keys) -> float:
    """The largest difference between counts: of half-lines, and of values that occur in either."""
    both = np.concatenate([keys, keys2])
    below = [np.searchsorted(sample_keys, both, side="left") for sample_keys in (keys, keys2)]
    upto = [np.searchsorted(sample_keys, both, side="right") for sample_keys in (keys, keys2)]
    equal = [high - low for low, high in zip(below, upto, strict=True)]
    return max(
        _compute_gap(*below),
        _compute_gap(*equal),
        _compute_gap(*(len(sample_keys) - low for sample_keys, low in zip((keys, keys2), below, strict=True))),
    )


def _compute_gap(counts: Keys, counts2: Keys) -> float:
    gaps: NDArray[np.float64] = np.abs(counts - counts2) / np.sqrt(counts + counts2 + 1)
    return float(gaps.max())


def _find_correlated_pairs(sample: OutputSample, sample2: OutputSample) -> list[tuple[int, int]]:
    """The pairs of columns with the highest correlation: a draw that is used twice has one of 1."""
    parts = [outputs.take_every(0, max(len(outputs) // SCREENING_DRAWS, 1)).columns for outputs in (sample, sample2)]
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        rows = [_clip_tails(cast("Columns", part)) for part in parts]
        correlations = np.abs(np.nan_to_num(sum(np.corrcoef(values.T) for values in rows)))
    upper = np.triu(correlations, k=1)
    order = np.argsort(-upper, axis=None, kind="stable")[:MAX_CORRELATED]
    return [(int(first), int(second)) for first, second in zip(*np.unravel_index(order, upper.shape), strict=True)]


def _clip_tails(rows: Columns) -> Numbers:
    low, high = np.quantile(rows, [CLIPPED_TAIL, 1 - CLIPPED_TAIL], axis=0, method="nearest")
    return np.clip(rows, low, high).astype(np.float64)
