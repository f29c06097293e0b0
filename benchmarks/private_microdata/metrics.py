"""How far a release is from the original, in five ways."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import NDArray
from scipy.stats import wasserstein_distance

from benchmarks.private_microdata.tables import Codes, Table

Numbers = NDArray[np.float64]
RANGES = 500
SEED = 17
STEPS = 25
RIDGE = 1.0


@dataclass(frozen=True)
class Distance:
    """Of one release; all but the accuracy are 0 for the original."""

    w1: float
    correlation: float
    worst_range: float
    mean_range: float
    two_way: float


def measure_distance(table: Table, released: Codes) -> Distance:
    """From the table to a release of it."""
    ranges = compute_range_errors(table, released)
    return Distance(
        compute_w1(table, released),
        compute_correlation_change(table, released),
        float(ranges.max()),
        float(ranges.mean()),
        compute_two_way(table, released),
    )


def compute_w1(table: Table, released: Codes) -> float:
    """The mean over the numbers of the distance of Wasserstein, in widths of their domains."""
    pairs = [(table.codes[p], released[p], table.fields[p].width) for p in table.numbers]
    return float(np.mean([wasserstein_distance(original, other) / width for original, other, width in pairs]))


def compute_correlation_change(table: Table, released: Codes) -> float:
    """The mean over the pairs of numbers of |change of Pearson's correlation|; a constant has none with any."""
    original, other = (_compute_correlations(codes[table.numbers]) for codes in (table.codes, released))
    above = np.triu_indices(len(table.numbers), 1)
    return float(np.abs(original - other)[above].mean())


def _compute_correlations(codes: Codes) -> Numbers:
    centered = codes - codes.mean(axis=1, keepdims=True)
    lengths = np.linalg.norm(centered, axis=1, keepdims=True)
    scaled = np.divide(centered, lengths, out=np.zeros_like(centered), where=lengths > 0)
    return np.asarray(scaled @ scaled.T, dtype=np.float64)


def compute_range_errors(table: Table, released: Codes) -> Numbers:
    """Of random counts of rows within a range of each of two columns, as a share of the rows."""
    original, other = _compute_range_shares(table, table.codes), _compute_range_shares(table, released)
    return np.abs(original - other)


def _compute_range_shares(table: Table, codes: Codes) -> Numbers:
    return np.array(
        [(_is_within(codes[a], x) & _is_within(codes[b], y)).mean() for a, x, b, y in _sample_ranges(table)]
    )


def _sample_ranges(table: Table) -> Iterator[tuple[int, Codes, int, Codes]]:
    """The same for every release: two columns, and the ends of a range of each."""
    generator = np.random.Generator(np.random.PCG64(SEED))
    for _ in range(RANGES):
        one, other = generator.choice(len(table.fields), 2, replace=False)
        ends = [np.sort(generator.integers(table.fields[p].lower, table.fields[p].upper + 1, 2)) for p in (one, other)]
        yield one, ends[0], other, ends[1]


def _is_within(codes: Codes, ends: Codes) -> NDArray[np.bool_]:
    return (codes >= ends[0]) & (codes <= ends[1])


def compute_two_way(table: Table, released: Codes) -> float:
    """The mean over all tables of two columns of sum |difference of shares|: twice the total variation, 0 to 2."""
    original, other = table.to_bins(table.codes), table.to_bins(released)
    pairs = combinations(range(len(table.fields)), 2)
    return float(
        np.mean(
            [
                np.abs(_compute_shares(table, original, *pair) - _compute_shares(table, other, *pair)).sum()
                for pair in pairs
            ]
        )
    )


def _compute_shares(table: Table, binned: Codes, one: int, other: int) -> Numbers:
    last = table.fields[other].bins
    counts = np.bincount(binned[one] * last + binned[other], minlength=table.fields[one].bins * last)
    return np.asarray(counts / binned.shape[1], dtype=np.float64)


def measure_accuracy(table: Table, released: Codes, tested: Table) -> float:
    """The share of the tested rows that a logistic regression learnt from the release tells rightly."""
    weights = fit_logistic_regression(_build_features(table, released), _is_above(table, released))
    predicted = _build_features(tested, tested.codes) @ weights > 0
    return float((predicted == _is_above(tested, tested.codes)).mean())


def _is_above(table: Table, codes: Codes) -> NDArray[np.bool_]:
    target = [field.name for field in table.fields].index(table.target)
    return codes[target] > table.above


def _build_features(table: Table, codes: Codes) -> Numbers:
    """Numbers within their domain as the root of a share of it, since they are skewed; names one by one; and 1."""
    columns = [np.ones(codes.shape[1])]
    for field, column in zip(table.fields, codes, strict=True):
        if field.name == table.target:
            continue
        if field.labels:
            columns += [(column == place).astype(float) for place in range(len(field.labels))]
        else:
            columns.append(np.sqrt((column - field.lower) / field.width))
    return np.stack(columns, axis=1)


def fit_logistic_regression(features: Numbers, truth: NDArray[np.bool_]) -> Numbers:
    """The weights of a logistic regression with a slight ridge, by Newton's steps."""
    weights = np.zeros(features.shape[1])
    for _ in range(STEPS):
        probability = 1 / (1 + np.exp(-np.clip(features @ weights, -30, 30)))
        gradient = features.T @ (truth - probability) - RIDGE * weights
        hessian = (features.T * (probability * (1 - probability))) @ features + RIDGE * np.eye(len(weights))
        step = np.linalg.solve(hessian, gradient)
        weights += step
        if np.abs(step).max() < 1e-6:
            break
    return weights
