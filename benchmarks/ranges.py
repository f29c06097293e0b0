"""Error of ranges of a histogram: `make bench`. Ours, measured flat, and opendp's tree, all in one run at one epsilon.

The figure is the mean square error over all ranges and over all runs, one row added or removed. Of a sparse histogram,
it is that of its cells, as measured and refined by what must be true: none is below 0.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Callable
from fractions import Fraction
from functools import partial

import numpy as np
import opendp.prelude as opendp
from numpy.typing import NDArray

from benchmarks.measure import Line, best_time, report
from discreet import DiscreteLaplace
from discreet.estimation.constraint_set import at_least, same_total
from discreet.estimation.hierarchical_counts import (
    BlockHierarchy,
    HistogramStrategy,
    NoiseKind,
    list_histogram_strategies,
)
from discreet.estimation.linear_refinement import reconcile

Array = NDArray[np.float64]
Counts = NDArray[np.int64]
Estimator = Callable[[], Array]
EPSILON = Fraction(1, 10)
RUNS = 200
SEED = 11
SIZES = {1024: (4, 10 * RUNS), 65536: (40, RUNS)}
"""Cells: how many times the error of ours that of the flat histogram is at least, and runs enough to tell."""
EMPTY = 0.95
SPARSE = 1024


def build_smooth_histogram(count: int) -> Counts:
    """A hill of rows, 100 to a cell at its top."""
    draw, places = random.Random(SEED), np.linspace(-3, 3, count)
    return np.array([round(height + draw.random()) for height in 100 * np.exp(-(places**2) / 2)], dtype=np.int64)


def build_sparse_histogram(count: int) -> Counts:
    """All but a twentieth of the cells empty, the others of up to 1,000 rows."""
    draw = random.Random(SEED)
    return np.array([0 if draw.random() < EMPTY else draw.randint(1, 1000) for _ in range(count)], dtype=np.int64)


def compute_range_error(error: Array) -> float:
    """The mean of the squares of the sums over all ranges, by prefixes: a range is the difference of two."""
    prefixes, count = np.concatenate(([0.0], np.cumsum(error))), len(error)
    return float((count + 1) * (prefixes**2).sum() - prefixes.sum() ** 2) / (count * (count + 1) / 2)


def find_best_strategy(count: int, noise_kind: NoiseKind, known_total: bool) -> HistogramStrategy:
    """Find the tree where its error is less than that of measuring every cell, else that; never a wavelet."""
    flat, *others = list_histogram_strategies(count, noise_kind, known_total)
    return min([flat, *(other for other in others if other.kind == "tree")], key=lambda strategy: strategy.error)


def measure_flat(histogram: Counts) -> Estimator:
    noise = DiscreteLaplace(EPSILON, 1)
    return lambda: np.asarray(histogram + noise.sample_many(len(histogram)), dtype=np.float64)


def measure_hierarchy(histogram: Counts) -> Estimator:
    """Levels and weights of the best strategy, and the best consistent counts."""
    count = len(histogram)
    strategy = find_best_strategy(count, "laplace", False)
    noises = [DiscreteLaplace(EPSILON * Fraction(weight), 1) for weight in strategy.weights]
    nest = BlockHierarchy.regular(count, strategy.sizes, [noise.variance() for noise in noises])
    sums = [np.add.reduceat(histogram, starts) for starts in nest.starts]

    def draw() -> Array:
        pairs = zip(sums, noises, strict=True)
        measured = [
            np.asarray(level_sums + noise.sample_many(len(level_sums)), dtype=np.float64) for level_sums, noise in pairs
        ]
        return nest.estimate(measured)[-1]

    return draw


def measure_opendp_tree(histogram: Counts) -> Estimator:
    """Its tree with the branching it chooses itself, made consistent by its own postprocessor."""
    opendp.enable_features("contrib")
    count, counts = len(histogram), histogram.tolist()
    branching = opendp.t.choose_branching_factor(count)
    space = opendp.vector_domain(opendp.atom_domain(T=int)), opendp.l1_distance(T=int)
    tree = space >> opendp.t.then_b_ary_tree(leaf_count=count, branching_factor=branching)
    measurement = tree >> opendp.m.then_laplace(scale=tree.map(1) / float(EPSILON))
    consistent = opendp.t.make_consistent_b_ary_tree(branching_factor=branching)
    if not float(EPSILON) * 0.999 <= measurement.map(1) <= float(EPSILON) * 1.001:
        raise SystemExit("opendp's tree does not cost the epsilon that ours costs")
    return lambda: np.array(consistent(measurement(counts)))


def compute_mean_error(way: Estimator, truth: Counts, runs: int, of: Callable[[Array], float]) -> float:
    """The mean over so many runs."""
    return float(np.mean([of(way() - truth) for _ in range(runs)]))


def compare_ranges(count: int, least: float, runs: int) -> list[Line]:
    """Ours against the flat histogram and against opendp's tree."""
    truth = build_smooth_histogram(count)
    error = {
        way: compute_mean_error(way(truth), truth, runs, compute_range_error)
        for way in (measure_hierarchy, measure_flat, measure_opendp_tree)
    }
    our_error, strategy = error[measure_hierarchy], find_best_strategy(count, "laplace", False)
    expected = strategy.error * DiscreteLaplace(EPSILON, 1).variance()
    words = f"{our_error:,.0f}, expected {expected:,.0f}: {strategy.name}"
    return [
        Line(f"{count:,} cells: flat over ours", error[measure_flat] / our_error, "times", least, True, words),
        Line(f"{count:,} cells: opendp's tree over ours", error[measure_opendp_tree] / our_error, "times", 1, True),
    ]


def compare_not_negative(count: int = SPARSE, runs: int = RUNS) -> Line:
    """What it gains that no cell is below 0, the total staying as measured."""
    truth = build_sparse_histogram(count)
    draw, raw, refined = measure_flat(truth), 0.0, 0.0
    for _ in range(runs):
        noisy = draw()
        raw += float(((noisy - truth) ** 2).mean())
        refined += float(((reconcile(noisy, [at_least(0), same_total()]).values - truth) ** 2).mean())
    empty = f"{(truth == 0).mean():.0%} of {count:,} cells empty"
    return Line("a sparse histogram's cells: raw over not negative", raw / refined, "times", 2, True, empty)


def time_choice() -> Line:
    """How long the choice takes, made anew."""
    most = max(SIZES)

    def choose() -> None:
        list_histogram_strategies.cache_clear()
        list_histogram_strategies(most, "laplace", False)

    return Line(f"choosing a strategy for {most:,} cells", best_time(choose, 20) * 1e3, "ms", 100, False)


def main() -> int:
    """Print every line; fail where a bar is missed."""
    sizes = [partial(compare_ranges, count, *bar) for count, bar in SIZES.items()]
    return report(*sizes, lambda: [compare_not_negative()], lambda: [time_choice()])


if __name__ == "__main__":
    sys.exit(main())
