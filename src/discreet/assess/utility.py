"""How far a release is from its original: values, moments, quantiles, correlations, distributions."""

from __future__ import annotations

import math

import numpy as np

from discreet.assess.beside import Beside
from discreet.assess.comparison import Pair
from discreet.microdata.distances import FLAT, spaces
from discreet.microdata.table import Attribute, Floats, Table

LEVELS = (0.05, 0.25, 0.5, 0.75, 0.95)
"""The quantiles that are compared."""

STILL = 1e-12
"""A standardised column with less variance than this, in the rows that count, does not vary there."""


def squared_errors(both: Beside) -> dict[str, float]:
    """The sum of squared distances between original and released values of each column (thesis 6.4.2).

    Numbers are in their own units, ordered categories in places, nominal ones by the semantic distance (6.6); a missing
    value is as far from a present one as `microdata/distances.py` says.
    """
    return {name: _squared_error(before, after) for name, before, after in both.pairs()}


def _squared_error(before: Attribute, after: Attribute) -> float:
    from discreet.assess.ties import squared

    if before.kind == "nominal" and before.taxonomy is None:  # of any number of categories
        moved = before.values != after.values
        lost = moved & (before.missing | after.missing)
        return float(lost.sum() + FLAT**2 * (moved & ~lost).sum())
    one, two = spaces([Table({before.name: before}), Table({after.name: after})], None)
    return math.fsum(squared(one, two))


def il1s(both: Beside) -> float | None:
    """IL1s of Yancey, Winkler and Creecy: the mean of |x - x'| / (sqrt(2) S) over the cells of numeric columns.

    S is the column's standard deviation in the original. A cell with a value in one file only counts as S off. Columns
    without any S and cells without any value are left out; None where nothing is left.
    """
    total, cells = 0.0, 0
    for name in both.numeric:
        before, after = both.before[name].values, both.after[name].values
        if (deviation := spread(before)) > 0:
            change = np.where(np.isnan(before) == np.isnan(after), np.abs(after - before), deviation)
            total += math.fsum(present(change)) / (math.sqrt(2) * deviation)
            cells += len(present(change))
    return total / cells if cells else None


def present(values: Floats) -> Floats:
    """The values that are not missing."""
    return values[~np.isnan(values)]


def mean(values: Floats) -> float:
    """The mean of the values there are; NaN of none."""
    there = present(values)
    return math.fsum(there) / len(there) if len(there) else math.nan


def variance(values: Floats) -> float:
    """The sample variance of the values there are; NaN of fewer than two."""
    there = present(values)
    if len(there) < 2:
        return math.nan
    if there.min() == there.max():  # whatever its mean is rounded to
        return 0.0
    return math.fsum((there - mean(there)) ** 2) / (len(there) - 1)


def spread(values: Floats) -> float:
    """The standard deviation; 0 where there is none to speak of."""
    square = variance(values)
    return math.sqrt(square) if square > 0 else 0.0


def means(both: Beside) -> dict[str, Pair]:
    """Of each numeric column, before and after."""
    return {name: (mean(both.before[name].values), mean(both.after[name].values)) for name in both.numeric}


def variances(both: Beside) -> dict[str, Pair]:
    """Of each numeric column, before and after."""
    return {name: (variance(both.before[name].values), variance(both.after[name].values)) for name in both.numeric}


def quantiles(both: Beside) -> dict[str, tuple[tuple[float, float, float], ...]]:
    """Of each numeric column: the level, before, after."""
    found = {}
    for name in both.numeric:
        before, after = _levels(both.before[name].values), _levels(both.after[name].values)
        found[name] = tuple(zip(LEVELS, before, after, strict=True))
    return found


def _levels(values: Floats) -> list[float]:
    there = present(values)
    return [float(level) for level in np.quantile(there, LEVELS)] if len(there) else [math.nan] * len(LEVELS)


def correlations(table: Table, names: tuple[str, ...]) -> Floats:
    """Pearson's, over the rows where both columns have a value; 0 with a column that does not vary there."""
    if not names:
        return np.zeros((0, 0))
    there = np.column_stack([~table[name].missing for name in names]).astype(np.float64)
    values = np.column_stack([standard(table[name].values) for name in names])
    many = np.maximum(there.T @ there, 1)
    sums = values.T @ there
    products = values.T @ values - sums * sums.T / many
    squares = (values**2).T @ there - sums**2 / many
    lengths = np.sqrt(np.maximum(squares, 0) * np.maximum(squares.T, 0))
    found = np.divide(products, lengths, out=np.zeros_like(lengths), where=lengths > STILL * many)
    np.fill_diagonal(found, 1.0)
    return np.asarray(np.clip(found, -1, 1))


def standard(values: Floats) -> Floats:
    """The values with mean 0 and deviation 1, missing values as 0."""
    deviation = spread(values) or 1.0
    return np.where(np.isnan(values), 0.0, (values - mean(values)) / deviation)


def correlation_change(before: Floats, after: Floats) -> Pair:
    """The mean and the deviation of |after - before| over the pairs of columns; 0 of no pair."""
    change = np.abs(after - before)[np.triu_indices(len(before), 1)]
    return (float(change.mean()), float(change.std())) if len(change) else (0.0, 0.0)


def marginals(both: Beside) -> dict[str, float]:
    """How far the distribution of each column moved, from 0 to 1; "missing" is one more value, after the greatest.

    Numbers and ordered categories: the greatest difference of the distribution functions. Nominal: half the sum of the
    differences.
    """
    return {name: _moved(before, after) for name, before, after in both.pairs()}


def _moved(before: Attribute, after: Attribute) -> float:
    one, two = ranked(before), ranked(after)
    points, places = np.unique(np.concatenate([one, two]), return_inverse=True)
    here = np.bincount(places[: len(one)], minlength=len(points)) / len(one)
    there = np.bincount(places[len(one) :], minlength=len(points)) / len(two)
    if before.kind == "nominal":
        return float(np.abs(here - there).sum() / 2)
    return float(np.abs(np.cumsum(here) - np.cumsum(there)).max())


def ranked(attribute: Attribute) -> Floats:
    """The values as numbers; missing ones after the greatest."""
    return np.where(attribute.missing, np.inf, attribute.values.astype(np.float64))
