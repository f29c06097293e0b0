"""Nested counts are refined as dense least squares would, and what is measured of a histogram is well chosen."""

from __future__ import annotations

import itertools
import math
import random
import time
from fractions import Fraction

import numpy as np
import pytest
from benchmarks.ranges import find_best_strategy
from hypothesis import given
from hypothesis import strategies as some
from numpy.typing import NDArray

from discreet.errors import InvalidInput
from discreet.estimation.hierarchical_counts import (
    BlockHierarchy,
    HistogramStrategy,
    compute_rollup_weights,
    compute_share_loss,
    find_best_shares,
    list_histogram_strategies,
)
from discreet.measurements.hierarchical import BlockCounts, Level, compute_half_width
from discreet.mechanisms.discrete_laplace import DiscreteLaplace

Array = NDArray[np.float64]
CASES = list(itertools.product(("laplace", "gaussian"), (False, True)))


@some.composite
def st_hierarchies(draw: some.DrawFn) -> BlockHierarchy:
    """Partitions cut at random, levels measured or not, the coarsest perhaps known."""
    count = draw(some.integers(1, 12))
    levels, cuts = [np.arange(count)], set(range(1, count))
    for _ in range(draw(some.integers(0, 3))):
        cuts = {cut for cut in sorted(cuts) if draw(some.booleans())}
        levels.insert(0, np.array([0, *sorted(cuts)]))
    coarsest_variances = some.floats(0.1, 10)
    variances = [draw(some.one_of(coarsest_variances, some.just(math.inf))) for _ in levels[:-1]] + [
        draw(coarsest_variances)
    ]
    if len(levels) > 1 and draw(some.booleans()):
        variances[0] = 0.0
    return BlockHierarchy(tuple(levels), tuple(variances))


def list_members(nest: BlockHierarchy) -> list[Array]:
    """Which leaves are in each node, level by level."""
    ends = [np.append(starts[1:], nest.count) for starts in nest.starts]
    leaf = np.arange(nest.count)
    return [
        ((leaf >= first[:, None]) & (leaf < last[:, None])).astype(float)
        for first, last in zip(nest.starts, ends, strict=True)
    ]


def build_dense_system(nest: BlockHierarchy) -> tuple[Array, Array]:
    """The matrix from measurements to leaves of least squares with equality constraints, and its covariance."""
    rows, variances = [], []
    for one, variance in zip(list_members(nest), nest.variances, strict=True):
        rows.append(one)
        variances += [variance] * len(one)
    design, noise = np.concatenate(rows), np.array(variances)
    exact = noise == 0
    weight = np.where(exact, 0, 1 / np.where(exact, 1, noise))
    normal = design.T @ (weight[:, None] * design)
    exact_rows = design[exact]
    system = np.block([[normal, exact_rows.T], [exact_rows, np.zeros((len(exact_rows), len(exact_rows)))]])
    right = np.concatenate([design.T * weight, np.eye(len(noise))[exact]])
    solve = np.linalg.solve(system, right)[: nest.count]
    finite = np.where(np.isinf(noise), 0, noise)
    return solve, solve @ (finite[:, None] * solve.T)


def average_over_ranges(covariance: Array) -> float:
    count = len(covariance)
    ranges = [(first, last + 1) for first in range(count) for last in range(first, count)]
    return float(np.mean([covariance[a:b, a:b].sum() for a, b in ranges]))


@given(st_hierarchies(), some.integers(0, 2**32))
def test_the_estimate_is_dense_least_squares(nest: BlockHierarchy, seed: int) -> None:
    draw = random.Random(seed)
    measured = [np.array([draw.uniform(-9, 9) for _ in level]) for level in nest.starts]
    leaves = build_dense_system(nest)[0] @ np.concatenate(measured)
    for estimated, node in zip(nest.estimate(measured), list_members(nest), strict=True):
        assert estimated == pytest.approx(node @ leaves, abs=1e-9)


@given(st_hierarchies())
def test_variances_are_those_of_the_dense_covariance(nest: BlockHierarchy) -> None:
    covariance = build_dense_system(nest)[1]
    for estimated, node in zip(nest.compute_node_variances(), list_members(nest), strict=True):
        assert estimated == pytest.approx(np.diag(node @ covariance @ node.T), abs=1e-9)
    for first in range(nest.count):
        for last in range(first, nest.count):
            part = covariance[first : last + 1, first : last + 1]
            assert nest.compute_range_variance(first, last) == pytest.approx(part.sum(), abs=1e-9)
    assert nest.compute_mean_range_variance() == pytest.approx(average_over_ranges(covariance), abs=1e-9)


@given(st_hierarchies(), some.lists(some.floats(0.1, 10), min_size=4, max_size=4))
def test_variances_under_another_noise_are_those_of_the_same_weights(nest: BlockHierarchy, others: list[float]) -> None:
    noise = [other if 0 < variance < math.inf else 0.0 for other, variance in zip(others, nest.variances, strict=False)]
    each = np.concatenate([np.full(len(level), weights) for level, weights in zip(nest.starts, noise, strict=True)])
    solve = build_dense_system(nest)[0]
    covariance = solve @ (each[:, None] * solve.T)
    for estimated, node in zip(nest.propagate_node_variances(noise), list_members(nest), strict=True):
        assert estimated == pytest.approx(np.diag(node @ covariance @ node.T), abs=1e-9)
    for first, last in itertools.combinations_with_replacement(range(nest.count), 2):
        part = covariance[first : last + 1, first : last + 1]
        squares = [(weights**2).sum() for weights in nest.compute_range_weights(first, last)]
        assert np.dot(squares, noise) == pytest.approx(part.sum(), abs=1e-9)


def compute_tail(weights: Array, rates: Array, off: float) -> float:
    """P(|sum of the weights times discrete Laplace noises| > off), by enumeration; two halves of the noises are met."""
    halves = []
    for part in (slice(None, None, 2), slice(1, None, 2)):
        sums, law = np.zeros(1), np.ones(1)
        for weight, rate in zip(weights[part], rates[part], strict=True):
            noise = np.arange(-math.ceil(40 / rate), math.ceil(40 / rate) + 1)
            sums = (sums[:, None] + weight * noise).ravel()
            law = (law[:, None] * np.tanh(rate / 2) * np.exp(-rate * np.abs(noise))).ravel()
        order = np.argsort(sums)
        halves.append((sums[order], law[order]))
    (some_sums, some_law), (sums, law) = halves
    above = np.append(np.cumsum(law[::-1])[::-1], 0.0)
    return 2 * float(some_law @ above[np.searchsorted(sums, off + 1e-9 - some_sums, side="right")])


@pytest.mark.parametrize("rate", [*map(Fraction, ("0.2", "0.5", "1", "2", "3", "4.4", "6", "9", "14"))], ids=str)
@pytest.mark.parametrize("coarse", [*map(Fraction, ("0.3", "1", "3"))], ids=str)
def test_intervals_hold_far_into_the_tail(rate: Fraction, coarse: Fraction) -> None:
    """One of a thousand rows, chosen by its number, may miss with 5e-5; by the variance alone it was 58 times that.

    The nodes and a range of three cells with their total, by enumeration of all noises.
    """
    levels = tuple(
        Level(np.array(starts), share, DiscreteLaplace(rate * share, 1))
        for starts, share in (([0], coarse), ([0, 1, 2], Fraction(1)))
    )
    nested = BlockCounts(levels)
    nest = nested.build_nest()
    weights = np.column_stack([nest.estimate([unit[:1], unit[1:]])[-1] for unit in np.eye(4)])
    rates = np.array([float(rate * coarse), *[float(rate)] * 3])
    total, cells = nest.propagate_node_variances(nested.bounding_variances)
    for miss in (0.2, 0.05, 1e-2, 1e-3, 1e-4, 1e-6, 1e-8, 1e-10):
        distances = [compute_half_width(float(total[0]), 1 - miss), compute_half_width(float(cells[0]), 1 - miss)]
        distances += [nested.range_half_width(first, last, 1 - miss) for first, last in ((0, 2), (0, 0), (0, 1))]
        sums = [weights.sum(axis=0), weights[0], weights.sum(axis=0), weights[0], weights[:2].sum(axis=0)]
        for range_sum, distance in zip(sums, distances, strict=True):
            assert compute_tail(range_sum, rates, distance) <= miss * 1.001


@pytest.mark.parametrize(("rate", "most"), [("1", 28), ("3", 7.5), ("5", 2.5), ("8", 1.2)])
def test_a_range_of_many_cells_is_as_narrow_as_its_noise(rate: str, most: float) -> None:
    """A hundred cells, each with its noise: by the variance of continuous noise it would be 6.5 at a rate of 5."""
    nested = BlockCounts((Level(np.arange(100), Fraction(1), DiscreteLaplace(Fraction(rate), 1)),))
    assert nested.range_half_width(0, 99, 0.95) < most


@given(st_hierarchies(), some.integers(0, 2**32))
def test_without_noise_the_truth_comes_back(nest: BlockHierarchy, seed: int) -> None:
    """So the estimate, which is linear, is unbiased."""
    draw = random.Random(seed)
    truth = np.array([draw.randrange(100) for _ in range(nest.count)], dtype=float)
    sums = [node @ truth for node in list_members(nest)]
    for estimated, exact in zip(nest.estimate(sums), sums, strict=True):
        assert estimated == pytest.approx(exact, abs=1e-9)


@given(st_hierarchies())
def test_no_node_is_known_worse_than_by_its_own_measurement(nest: BlockHierarchy) -> None:
    for estimated, variance in zip(nest.compute_node_variances(), nest.variances, strict=True):
        assert (estimated <= variance + 1e-9).all()


def test_a_level_that_is_not_measured_is_not_read() -> None:
    nest = BlockHierarchy.regular(4, (4, 2, 1), (0.0, math.inf, 1.0))
    measured = [np.array([8.0]), np.array([]), np.array([1.0, 2, 3, 4])]
    assert [level.tolist() for level in nest.estimate(measured)] == [[8], [2, 6], [0.5, 1.5, 2.5, 3.5]]


@pytest.mark.parametrize(
    ("starts", "variances", "says"),
    [
        ((), (), "at least one level"),
        (([0, 1],), (1.0, 1.0), "one variance for each"),
        (([1, 2],), (1.0,), "start at leaf 0"),
        (([0, 0, 1],), (1.0,), "after the one before"),
        (([0, 2], [0, 1]), (1.0, 1.0), "cut where the one before is"),
        (([0, 2], [0, 1, 3]), (1.0, 1.0), "into single leaves"),
        (([0], [0, 1]), (-1.0, 1.0), "at least 0"),
        (([0], [0, 1]), (math.nan, 1.0), "at least 0"),
        (([0], [0], [0, 1]), (1.0, 0.0, 1.0), "the coarsest"),
        (([0], [0, 1]), (1.0, math.inf), "the leaves of a nest are measured"),
        (([0, 1],), (0.0,), "the leaves of a nest are measured"),
    ],
)
def test_what_is_no_nest_is_refused(starts: tuple[list[int], ...], variances: tuple[float, ...], says: str) -> None:
    with pytest.raises(InvalidInput, match=says):
        BlockHierarchy(tuple(np.array(level) for level in starts), variances)


@pytest.mark.parametrize("measured", [[[1.0]], [[1.0], [1.0]], [[1.0], [1.0, math.nan]]])
def test_measurements_that_do_not_fit_are_refused(measured: list[list[float]]) -> None:
    with pytest.raises(InvalidInput):
        BlockHierarchy.regular(2, (2, 1), (1.0, 1.0)).estimate([np.array(level) for level in measured])


@pytest.mark.parametrize(("first", "last"), [(-1, 0), (1, 0), (0, 2)])
def test_a_range_outside_the_leaves_is_refused(first: int, last: int) -> None:
    with pytest.raises(InvalidInput, match="within the leaves 0 to 1"):
        BlockHierarchy.regular(2, (1,), (1.0,)).compute_range_variance(first, last)


def build_hierarchy(strategy: HistogramStrategy, known_total: bool) -> BlockHierarchy:
    sizes, variances = strategy.sizes, tuple(weight**-2 for weight in strategy.weights)
    if known_total:
        sizes, variances = (strategy.count, *sizes), (0.0, *variances)
    return BlockHierarchy.regular(strategy.count, sizes, variances)


def compare_wavelet(strategy: HistogramStrategy, known_total: bool) -> tuple[Array, Array]:
    """What a wavelet measures, one row each, and the share of noise each has."""
    count, leaf = strategy.count, np.arange(strategy.count)
    rows, weights = [np.ones(count)], [math.inf if known_total else strategy.weights[0]]
    for size, weight in list(zip(strategy.sizes, strategy.weights, strict=True))[not known_total :]:
        for start in range(0, count - size // 2, size):
            left = (leaf >= start) & (leaf < start + size // 2)
            right = (leaf >= start + size // 2) & (leaf < start + size)
            rows.append(left.astype(float) - right)
            weights.append(weight)
    return np.array(rows), np.array(weights)


@pytest.mark.parametrize(("law", "known_total"), CASES)
@pytest.mark.parametrize("count", [1, 2, 3, 7, 16, 27, 40])
def test_the_error_is_the_mean_over_all_ranges(count: int, law: str, known_total: bool) -> None:
    """As dense least squares have it, shorter blocks at the end included."""
    for strategy in list_histogram_strategies(count, law, known_total):
        if strategy.kind == "wavelet":
            rows, weights = compare_wavelet(strategy, known_total)
            inverse = np.linalg.inv(rows)
            covariance = inverse @ (weights[:, None] ** -2 * inverse.T)
        else:
            covariance = build_dense_system(build_hierarchy(strategy, known_total))[1]
        assert strategy.error == pytest.approx(average_over_ranges(covariance), rel=1e-9)


@pytest.mark.parametrize(("law", "known_total"), CASES)
@pytest.mark.parametrize("count", [1, 2, 3, 16, 100, 1000, 65536])
def test_weights_spend_what_there_is(count: int, law: str, known_total: bool) -> None:
    """Laplace ones exactly so; each block size divides the one before."""
    for strategy in list_histogram_strategies(count, law, known_total):
        exact = [Fraction(weight) for weight in strategy.weights]
        assert all(weight > 0 for weight in exact)
        assert all(coarse % fine == 0 for coarse, fine in itertools.pairwise(strategy.sizes))
        if law == "laplace":
            assert sum(exact) == 1
        elif strategy.kind != "wavelet":
            assert sum(weight**2 for weight in exact) == pytest.approx(1)
        if strategy.kind != "wavelet":
            assert strategy.sizes[-1] == 1


@pytest.mark.parametrize(("law", "known_total"), CASES)
@pytest.mark.parametrize("count", [2, 3, 8, 13])
def test_one_who_is_added_or_moves_costs_what_the_weights_say(count: int, law: str, known_total: bool) -> None:
    """Added: 1 in the norm of the law. Moved, where the total is known: 2 for Laplace, the root of 2 for Gaussian.

    Three cells have no two that part at the top and at every finer halving, so their wavelet costs less.
    """
    for strategy in list_histogram_strategies(count, law, known_total):
        if strategy.kind == "wavelet":
            rows, weights = compare_wavelet(strategy, known_total)
            rows = np.where(np.isinf(weights)[:, None], 0, rows * np.where(np.isinf(weights), 1, weights)[:, None])
        else:
            nest = BlockHierarchy.regular(count, strategy.sizes, [1.0] * len(strategy.sizes))
            pairs = zip(list_members(nest), strategy.weights, strict=True)
            rows = np.concatenate([level * weight for level, weight in pairs])
        changes = rows if not known_total else np.array([a - b for a in rows.T for b in rows.T]).T
        most = float((np.abs(changes).sum(0) if law == "laplace" else (changes**2).sum(0)).max()) / (1 + known_total)
        assert most == pytest.approx(1) or (strategy.kind == "wavelet" and count == 3 and most < 1)


def test_the_strategies_of_two_sizes_are_as_worked_out() -> None:
    """In units of the variance of noise; the best with blocks that are powers of two have 77.3 and 306.8."""
    errors_by_kind = {strategy.kind: strategy.error for strategy in list_histogram_strategies(1024, "laplace", False)}
    assert errors_by_kind == pytest.approx({"flat": 342, "tree": 76.469, "wavelet": 196.007}, rel=1e-4)
    errors_by_kind = {strategy.kind: strategy.error for strategy in list_histogram_strategies(65536, "laplace", False)}
    assert errors_by_kind == pytest.approx({"flat": 21846, "tree": 305.668, "wavelet": 755.896}, rel=1e-4)
    assert [find_best_strategy(count, "laplace", False).kind for count in (1, 16, 32, 64)] == ["flat"] * 3 + ["tree"]


@pytest.mark.parametrize(("law", "known_total"), CASES)
def test_a_wavelet_is_never_better(law: str, known_total: bool) -> None:
    """Than the best of the others, but for two cells of a known total."""
    for count in (*range(3, 50), 64, 100, 189, 1000, 1024):
        *others, wavelet = list_histogram_strategies(count, law, known_total)
        assert min(strategy.error for strategy in others) <= (1 + 1e-9) * wavelet.error


@pytest.mark.parametrize("count", [2, 16, 1024])
def test_with_gaussian_noise_a_wavelet_is_a_tree_of_halves(count: int) -> None:
    """Of a power of two, where the total is measured too: the same error."""
    _, tree, wavelet = list_histogram_strategies(count, "gaussian", False)
    assert tree.error == pytest.approx(wavelet.error, rel=1e-9)


def test_choosing_is_quick() -> None:
    """Some tens of milliseconds on a quiet machine; the rest is for a busy one."""
    list_histogram_strategies.cache_clear()
    start = time.perf_counter()
    list_histogram_strategies(65536, "laplace", False)
    assert time.perf_counter() - start < 2


@pytest.mark.parametrize(("count", "law"), [(0, "laplace"), (8, "cauchy")])
def test_no_cells_and_other_noise_are_refused(count: int, law: str) -> None:
    with pytest.raises(InvalidInput, match="at least one cell"):
        list_histogram_strategies(count, law, False)


def test_names_say_what_is_measured() -> None:
    assert find_best_strategy(16, "laplace", False).name == "every cell"
    assert find_best_strategy(1024, "laplace", False).name == "every cell, blocks of 11, 121"
    assert find_best_strategy(1024, "gaussian", False).name == "every cell, blocks of 2, 4, ..., 512, the total"
    assert list_histogram_strategies(8, "gaussian", True)[-1].name == "halves of blocks of up to 8 cells compared"


def draw_levels(draw: random.Random) -> tuple[list[float], list[float]]:
    """Random traces and sizes of nested levels."""
    many = draw.randint(2, 6)
    sizes = sorted((2.0 ** draw.uniform(0, 12) for _ in range(many)), reverse=True)
    traces = sorted(2.0 ** draw.uniform(0, 20) for _ in range(many))
    return [draw.choice([0.0, traces[0] / 2]), *traces], sizes


def scale_shares(shares: list[float], law: str) -> list[float]:
    whole = sum(shares) if law == "laplace" else math.hypot(*shares)
    return [share / whole for share in shares]


@pytest.mark.parametrize("law", ["laplace", "gaussian"])
def test_no_near_shares_of_the_same_levels_are_better(law: str) -> None:
    """At 100 random problems, 100 small changes each; and equal shares of all levels are not."""
    draw = random.Random(7)
    for _ in range(100):
        traces, sizes = draw_levels(draw)
        shares = find_best_shares(traces, sizes, law)
        least = compute_share_loss(traces, sizes, shares) * (1 - 1e-5)
        assert least <= compute_share_loss(traces, sizes, scale_shares([1.0] * len(sizes), law))
        for _ in range(100):
            near = scale_shares([share * draw.uniform(0.9, 1.1) for share in shares], law)
            assert least <= compute_share_loss(traces, sizes, near)


def test_no_shares_at_all_are_better_with_gaussian_noise() -> None:
    """At 100 random problems, 100 random shares each, levels that got none included."""
    draw = random.Random(8)
    for _ in range(100):
        traces, sizes = draw_levels(draw)
        least = compute_share_loss(traces, sizes, find_best_shares(traces, sizes, "gaussian")) * (1 - 1e-5)
        for _ in range(100):
            assert least <= compute_share_loss(
                traces, sizes, scale_shares([draw.random() ** 3 for _ in sizes], "gaussian")
            )


@pytest.mark.parametrize(("law", "known_total"), CASES)
@pytest.mark.parametrize("blocks", [(5,), (1, 50), (10, 50), (1, 8, 64), (3, 3, 9), (1, 2, 10, 100, 1000)])
def test_a_rollup_is_no_worse_than_as_asked_or_by_its_finest(
    blocks: tuple[int, ...], law: str, known_total: bool
) -> None:
    """By the mean square error of all its groups; its weights spend what there is, some on the finest level."""

    def compute_mean_variance(weights: tuple[float, ...]) -> float:
        sizes, variances = (
            [blocks[-1] // many for many in blocks],
            [weight**-2 if weight else math.inf for weight in weights],
        )
        top = ([blocks[-1]], [0.0]) if known_total else ([], [])
        nest = BlockHierarchy.regular(blocks[-1], top[0] + sizes, top[1] + variances)
        return float(np.concatenate(nest.compute_node_variances()[-len(blocks) :]).mean())

    rollup_weights, power = compute_rollup_weights(blocks, law, known_total), 1 if law == "laplace" else 2
    assert sum(weight**power for weight in rollup_weights) == pytest.approx(1)
    assert rollup_weights[-1] > 0
    if known_total and blocks[0] == 1:
        assert rollup_weights[0] == 0
    even, finest = (len(blocks) ** (-1 / power),) * len(blocks), (*[0.0] * (len(blocks) - 1), 1.0)
    assert compute_mean_variance(rollup_weights) <= min(compute_mean_variance(even), compute_mean_variance(finest)) * (
        1 + 1e-6
    )


def test_a_rollup_measures_what_pays() -> None:
    """Of few large groups and many small ones both; with Laplace noise a level that hardly differs is left out."""
    assert compute_rollup_weights((1, 1000), "laplace", False)[0] > 0.05
    assert compute_rollup_weights((4, 5), "laplace", False) == (0, 1)
    assert compute_rollup_weights((3, 3, 9), "gaussian", False)[0] == 0


def test_a_rollup_of_many_levels_is_quick_and_good() -> None:
    weights = compute_rollup_weights([2**level for level in range(16)], "laplace", False)
    assert sum(weights) == 1
    assert weights[-1] > 0


@pytest.mark.parametrize("blocks", [(), (0, 3), (5, 4)])
def test_groups_that_do_not_nest_are_refused(blocks: tuple[int, ...]) -> None:
    with pytest.raises(InvalidInput, match="nested groups"):
        compute_rollup_weights(blocks, "laplace", False)
