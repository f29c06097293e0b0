"""The ways to make a release: discreet's methods as users call them, and two simple ones with exact noise."""

from __future__ import annotations

import math
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from fractions import Fraction
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import isotonic_regression

from benchmarks.private_microdata.tables import Codes, Field, Table
from benchmarks.ranges import find_best_strategy
from discreet import Custodian, DiscreteLaplace
from discreet.estimation.hierarchical_counts import BlockHierarchy

METHODS = ("private-columns", "private-records", "private-linked")
LINKED = "private-linked"
DELTA = Fraction(1, 10**9)
"""Of the release that takes one, and of MST."""
FINEST = 4096
"""Cells of a tree."""
RECORDS, TREES = "noise on every record", "a tree of every column"
ReleaseMethod = Callable[[Fraction], Codes]


@contextmanager
def open_release_methods(table: Table) -> Iterator[dict[str, ReleaseMethod]]:
    """Every way that is made here, by its name; discreet's from a table registered once."""
    generator = np.random.Generator(np.random.PCG64(3))
    with _open_custodian(table) as custodian:
        methods = {method: partial(publish_and_read, custodian, table, method) for method in METHODS}
        yield methods | {RECORDS: partial(noisy_records, table, generator), TREES: partial(trees, table, generator)}


@contextmanager
def _open_custodian(table: Table) -> Iterator[Custodian]:
    with tempfile.TemporaryDirectory(prefix="discreet-") as name:
        custodian = Custodian.open(table.write(Path(name) / "table"))
        with custodian:
            yield custodian


def publish_and_read(custodian: Custodian, table: Table, method: str, epsilon: Fraction) -> Codes:
    """What one of discreet's methods releases, read back from its file."""
    with tempfile.TemporaryDirectory(prefix="discreet-") as folder:
        out = Path(folder) / "release.parquet"
        custodian.publish(method, out, epsilon=epsilon, **({"delta": DELTA} if method == LINKED else {}))
        return table.read(out)


def noisy_records(table: Table, draw: np.random.Generator, epsilon: Fraction) -> Codes:
    """Every value of every record by itself, k = 1: numbers with noise and clipped, names by randomised response."""
    column_epsilon = epsilon / len(table.fields)
    pairs = zip(table.fields, table.codes, strict=True)
    return np.stack(
        [
            (_randomize_response if field.labels else _add_laplace)(field, codes, column_epsilon, draw)
            for field, codes in pairs
        ]
    )


def _add_laplace(field: Field, codes: Codes, epsilon: Fraction, _: np.random.Generator) -> Codes:
    noise = np.asarray(DiscreteLaplace(epsilon, field.width).sample_many(len(codes)), dtype=np.float64)
    return np.clip(codes + noise, field.lower, field.upper).astype(np.int64)


def _randomize_response(field: Field, codes: Codes, epsilon: Fraction, draw: np.random.Generator) -> Codes:
    others = len(field.labels) - 1
    is_kept = draw.random(len(codes)) < math.exp(epsilon) / (math.exp(epsilon) + others)
    changed = (codes + draw.integers(1, others + 1, len(codes))) % (others + 1)
    return np.where(is_kept, codes, changed)


def trees(table: Table, draw: np.random.Generator, epsilon: Fraction) -> Codes:
    """Every column from noisy counts of its own, and nothing of how columns go together."""
    column_epsilon = epsilon / len(table.fields)
    pairs = zip(table.fields, table.codes, strict=True)
    return np.stack([draw.permutation(_sample_tree(field, codes, column_epsilon)) for field, codes in pairs])


def _sample_tree(field: Field, codes: Codes, epsilon: Fraction) -> Codes:
    """As many values as there were, in order; a record that is replaced moves two counts of every level."""
    width = -(-(field.width + 1) // FINEST)
    cells = -(-(field.width + 1) // width)
    counts = np.bincount((codes - field.lower) // width, minlength=cells)
    strategy = find_best_strategy(cells, "laplace", True)
    noises = [DiscreteLaplace(epsilon * Fraction(weight), 2) for weight in strategy.weights]
    nest = BlockHierarchy.regular(cells, (cells, *strategy.sizes), [0.0, *(noise.variance() for noise in noises)])
    sums = [np.add.reduceat(counts, starts) for starts in nest.starts]
    noisy = [
        level_sums + noise.sample_many(len(level_sums)) for level_sums, noise in zip(sums[1:], noises, strict=True)
    ]
    estimate = nest.estimate([np.asarray(level, dtype=np.float64) for level in (sums[0], *noisy)])[-1]
    middles = np.minimum(field.lower + width * np.arange(cells) + (width - 1) // 2, field.upper)
    return np.repeat(middles, round_to_total(estimate, len(codes)))


def round_to_total(weights: NDArray[np.float64], total: int) -> Codes:
    """Whole counts, none below 0, that add up to the total: of the rising sums nearest to those of the weights."""
    cumulative = np.rint(np.clip(isotonic_regression(np.cumsum(weights)).x, 0, total)).astype(np.int64)
    cumulative[-1] = total
    return np.diff(cumulative, prepend=0)
