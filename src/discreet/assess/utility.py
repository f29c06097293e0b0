"""How far a release is from its original: values, moments, quantiles, correlations, distributions."""

from __future__ import annotations

import math

import numpy as np

from discreet.assess.beside import MatchedTables
from discreet.assess.comparison import BeforeAfter
from discreet.microdata.distances import FLAT_DISTANCE, build_spaces
from discreet.microdata.table import Attribute, Floats, Table

QUANTILE_LEVELS = (0.05, 0.25, 0.5, 0.75, 0.95)
"""The quantiles that are compared."""

MIN_VARIANCE = 1e-12
"""A standardised column with less variance than this, in the rows that count, does not vary there."""


def compute_squared_errors(tables: MatchedTables) -> dict[str, float]:
    """The sum of squared distances between original and released values of each column (thesis 6.4.2).

    Numbers are in their own units, ordered categories in places, nominal ones by the semantic distance (6.6); a missing
    value is as far from a present one as `microdata/distances.py` says.
    """
    return {name: _compute_squared_error(before, after) for name, before, after in tables.iterate_pairs()}


def _compute_squared_error(before: Attribute, after: Attribute) -> float:
    from discreet.assess.ties import compute_squared_distances

    if before.kind == "nominal" and before.taxonomy is None:  # of any number of categories
        is_changed = before.values != after.values
        is_one_missing = is_changed & (before.missing | after.missing)
        return float(is_one_missing.sum() + FLAT_DISTANCE**2 * (is_changed & ~is_one_missing).sum())
    space_before, space_after = build_spaces([Table({before.name: before}), Table({after.name: after})], None)
    return math.fsum(compute_squared_distances(space_before, space_after))


def compute_il1s(tables: MatchedTables) -> float | None:
    """IL1s of Yancey, Winkler and Creecy: the mean of |x - x'| / (sqrt(2) S) over the cells of numeric columns.

    S is the column's standard deviation in the original. A cell with a value in one file only counts as S off. Columns
    without any S and cells without any value are left out; None where nothing is left.
    """
    total, cells = 0.0, 0
    for name in tables.numeric:
        before, after = tables.before[name].values, tables.after[name].values
        if (deviation := compute_deviation(before)) > 0:
            change = np.where(np.isnan(before) == np.isnan(after), np.abs(after - before), deviation)
            total += math.fsum(drop_missing(change)) / (math.sqrt(2) * deviation)
            cells += len(drop_missing(change))
    return total / cells if cells else None


def drop_missing(values: Floats) -> Floats:
    """The values that are not missing."""
    return values[~np.isnan(values)]


def compute_mean(values: Floats) -> float:
    """The mean of the values there are; NaN of none."""
    present_values = drop_missing(values)
    return math.fsum(present_values) / len(present_values) if len(present_values) else math.nan


def compute_variance(values: Floats) -> float:
    """The sample variance of the values there are; NaN of fewer than two."""
    present_values = drop_missing(values)
    if len(present_values) < 2:
        return math.nan
    if present_values.min() == present_values.max():  # whatever its mean is rounded to
        return 0.0
    return math.fsum((present_values - compute_mean(present_values)) ** 2) / (len(present_values) - 1)


def compute_deviation(values: Floats) -> float:
    """The standard deviation; 0 where there is none to speak of."""
    square = compute_variance(values)
    return math.sqrt(square) if square > 0 else 0.0


def compute_means(tables: MatchedTables) -> dict[str, BeforeAfter]:
    """Of each numeric column, before and after."""
    return {
        name: (compute_mean(tables.before[name].values), compute_mean(tables.after[name].values))
        for name in tables.numeric
    }


def compute_variances(tables: MatchedTables) -> dict[str, BeforeAfter]:
    """Of each numeric column, before and after."""
    return {
        name: (compute_variance(tables.before[name].values), compute_variance(tables.after[name].values))
        for name in tables.numeric
    }


def compute_quantiles(tables: MatchedTables) -> dict[str, tuple[tuple[float, float, float], ...]]:
    """Of each numeric column: the level, before, after."""
    levels_of_column = {}
    for name in tables.numeric:
        before, after = _compute_levels(tables.before[name].values), _compute_levels(tables.after[name].values)
        levels_of_column[name] = tuple(zip(QUANTILE_LEVELS, before, after, strict=True))
    return levels_of_column


def _compute_levels(values: Floats) -> list[float]:
    present_values = drop_missing(values)
    return (
        [float(level) for level in np.quantile(present_values, QUANTILE_LEVELS)]
        if len(present_values)
        else [math.nan] * len(QUANTILE_LEVELS)
    )


def compute_correlations(table: Table, names: tuple[str, ...]) -> Floats:
    """Pearson's, over the rows where both columns have a value; 0 with a column that does not vary there."""
    if not names:
        return np.zeros((0, 0))
    is_present = np.column_stack([~table[name].missing for name in names]).astype(np.float64)
    values = np.column_stack([standardize(table[name].values) for name in names])
    pair_counts = np.maximum(is_present.T @ is_present, 1)
    sums = values.T @ is_present
    products = values.T @ values - sums * sums.T / pair_counts
    squares = (values**2).T @ is_present - sums**2 / pair_counts
    lengths = np.sqrt(np.maximum(squares, 0) * np.maximum(squares.T, 0))
    coefficients = np.divide(products, lengths, out=np.zeros_like(lengths), where=lengths > MIN_VARIANCE * pair_counts)
    np.fill_diagonal(coefficients, 1.0)
    return np.asarray(np.clip(coefficients, -1, 1))


def standardize(values: Floats) -> Floats:
    """The values with mean 0 and deviation 1, missing values as 0."""
    deviation = compute_deviation(values) or 1.0
    return np.where(np.isnan(values), 0.0, (values - compute_mean(values)) / deviation)


def compute_correlation_change(before: Floats, after: Floats) -> BeforeAfter:
    """The mean and the deviation of |after - before| over the pairs of columns; 0 of no pair."""
    change = np.abs(after - before)[np.triu_indices(len(before), 1)]
    return (float(change.mean()), float(change.std())) if len(change) else (0.0, 0.0)


def measure_marginal_changes(tables: MatchedTables) -> dict[str, float]:
    """How far the distribution of each column moved, from 0 to 1; "missing" is one more value, after the greatest.

    Numbers and ordered categories: the greatest difference of the distribution functions. Nominal: half the sum of the
    differences.
    """
    return {name: _measure_distribution_change(before, after) for name, before, after in tables.iterate_pairs()}


def _measure_distribution_change(before: Attribute, after: Attribute) -> float:
    values_before, values_after = fill_missing_last(before), fill_missing_last(after)
    points, places = np.unique(np.concatenate([values_before, values_after]), return_inverse=True)
    shares_before = np.bincount(places[: len(values_before)], minlength=len(points)) / len(values_before)
    shares_after = np.bincount(places[len(values_before) :], minlength=len(points)) / len(values_after)
    if before.kind == "nominal":
        return float(np.abs(shares_before - shares_after).sum() / 2)
    return float(np.abs(np.cumsum(shares_before) - np.cumsum(shares_after)).max())


def fill_missing_last(attribute: Attribute) -> Floats:
    """The values as numbers; missing ones after the greatest."""
    return np.where(attribute.missing, np.inf, attribute.values.astype(np.float64))
