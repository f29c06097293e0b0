"""Private columns: exact loss over all neighbours, the errata's counterexamples, counts that add up, error as told."""

from __future__ import annotations

import csv
import math
from fractions import Fraction
from functools import cache
from itertools import pairwise, product
from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from discreet.errors import InvalidInput, Unsupported
from discreet.estimation.hierarchical_counts import list_histogram_strategies
from discreet.mechanisms.discrete_laplace import DiscreteLaplace
from discreet.mechanisms.entropy import SYSTEM, KeyedEntropy
from discreet.mechanisms.exponential_mechanism import Exponential, Selection
from discreet.numeric import exp_below
from discreet.priors.taxonomy import Taxonomy
from discreet.schema import Column
from discreet.synthetic.column_methods import (
    DISTANCE_UNITS,
    CategoryCounts,
    CumulativeCounts,
    NameBlocks,
    NameOrder,
    RankBlocks,
    choose_block_size,
    find_best_tree,
    fit_cumulative_counts,
    fit_ranked_counts,
    order_names,
    project_counts,
)
from discreet.synthetic.columns import ColumnGrid, PrivacyBudget, add_noise_to_totals
from discreet.synthetic.file_plan import list_column_plans, select_column_plan, split_budget
from discreet.verification import all_neighbors, all_tables, assert_fits, worst_ratio
from support.published_data import find_shared_data

ONE = PrivacyBudget(epsilon=Fraction(1))
RHO = PrivacyBudget(rho=Fraction(1, 8))
SPORT = Taxonomy.of(
    {"run": "land", "ride": "land", "swim": "water", "dive": "water", "row": "water", "land": "any", "water": "any"}
)


def build_integer_column(cells, missing=False, name="x"):
    """A column of whole numbers 0 to cells - 1."""
    return Column(name, "integer", 0, cells - 1, missing=None if missing else 0)


def build_name_column(categories, taxonomy=None, missing=False):
    places = tuple(categories)
    return Column(
        "x", "nominal", 0, len(places) - 1, categories=places, taxonomy=taxonomy, missing=None if missing else 0
    )


def count_cells(values, cells):
    return np.bincount(np.asarray(values, dtype=np.int64), minlength=cells)


def build_entropy(purpose):
    return KeyedEntropy(b"a key that tests share, not a secret", purpose)


def list_levels(plan, counts):
    """What is noised, level by level."""
    return plan.compute_totals(counts) if isinstance(plan, CumulativeCounts) else [plan.compute_totals(counts)]


def list_level_noises(plan):
    """By which noise, level by level."""
    return plan.noises if isinstance(plan, CumulativeCounts) else [plan.noise]


def compute_exact_loss(plan, one, two):
    """The greatest log-ratio of the two joint laws of what is drawn, or what they cost in zCDP; exact."""
    return compute_loss_between(list_level_noises(plan), list_levels(plan, one), list_levels(plan, two))


def compute_loss_between(noises, one, two):
    """The same of two tables whose levels are known."""
    cost = Fraction(0)
    for noise, first, second in zip(noises, one, two, strict=True):
        difference = first - second
        pure = isinstance(noise, DiscreteLaplace)
        cost += (
            noise.rate * int(np.abs(difference).sum()) if pure else int(difference @ difference) / (2 * noise.square)
        )
    return cost


def list_small_plans(loss):
    """Every kind of noised plan on a few cells, with the number of rows of all tables that are tried."""
    rows, line, holed = 5, ColumnGrid.of(build_integer_column(4)), ColumnGrid.of(build_integer_column(3, missing=True))
    return [
        *(RankBlocks(line, rows, k, loss) for k in (1, 2, 3, 5)),
        *(CumulativeCounts(line, rows, measured, loss) for measured in (2, 3, 4)),
        *(CumulativeCounts(holed, rows, measured, loss) for measured in (1, 2, 3)),
        CategoryCounts(ColumnGrid.of(build_name_column("abcd")), rows, loss),
        CategoryCounts(ColumnGrid.of(build_name_column("abc", missing=True)), rows, loss),
        CategoryCounts(ColumnGrid.of(build_integer_column(2)), rows, loss),
    ]


@pytest.mark.parametrize("loss", [ONE, RHO])
@pytest.mark.parametrize("which", range(13))
@pytest.mark.parametrize("size", [5, 3, 6])
def test_no_pair_of_neighbours_loses_more_and_some_pair_loses_all(loss, which, size):
    """Exhaustive and exact, also where the table has fewer or more rows than are published."""
    plan = list_small_plans(loss)[which]
    cells, allowed, noises = range(plan.grid.all_cell_count), loss.epsilon or loss.rho, list_level_noises(plan)
    levels = {table: list_levels(plan, count_cells(table, len(cells))) for table in all_tables(cells, size)}
    pairs = {(one, tuple(sorted(two))) for one in levels for two in all_neighbors(one, cells, "replace-one")}
    worst = max(compute_loss_between(noises, levels[one], levels[two]) for one, two in pairs)
    assert worst <= allowed
    assert worst == allowed or size < plan.rows


@pytest.mark.parametrize("loss", [ONE, RHO])
@pytest.mark.parametrize("missing", [False, True])
def test_the_levels_of_a_tree_lose_together_what_was_asked(loss, missing):
    """Every move from a cell to another, exactly; one across the coarsest cut loses all of it."""
    plan = CumulativeCounts(ColumnGrid.of(build_integer_column(100, missing)), 1, 100, loss)
    assert len(plan.noises) > 1
    ones = np.eye(plan.grid.all_cell_count, dtype=np.int64)
    losses = [compute_exact_loss(plan, ones[0], other) for other in ones[1:]] + [
        compute_exact_loss(plan, ones[50], o) for o in ones
    ]
    assert max(losses) == (loss.epsilon or loss.rho)
    assert losses[-1] == max(losses) > losses[0] > 0


def test_the_full_law_of_what_is_drawn_obeys_epsilon():
    """For two rows of three cells in two blocks: over every outcome of a window, and for what is made of it."""
    plan = RankBlocks(ColumnGrid.of(build_integer_column(3)), 2, 1, PrivacyBudget(epsilon=Fraction(4)))
    window = range(-10, 13)
    laws = {}
    for table in all_tables(range(3), 2):
        first, second = plan.compute_totals(count_cells(table, 3))
        laws[table] = distributions = {}
        for one, two in product(window, window):
            chance = plan.noise.probability(one - int(first)) * plan.noise.probability(two - int(second))
            counts = tuple(plan.estimate_counts(np.array([one, two])).tolist())
            distributions[counts] = distributions.get(counts, 0.0) + chance
    pairs = [(laws[t], laws[tuple(sorted(o))]) for t in laws for o in all_neighbors(t, range(3), "replace-one")]
    worst = max(one[counts] / two[counts] for one, two in pairs for counts in one)
    assert 3 < math.log(worst) <= 4 + 1e-6


@pytest.mark.parametrize("missing", [False, True])
@pytest.mark.parametrize("replaced", [2500, pytest.param(10_000, marks=pytest.mark.soak)])
def test_thousands_of_replacements_move_sums_by_no_more_than_the_calibration(missing, replaced):
    """And the least value that becomes the greatest moves them by all of it."""
    random, cells, rows = Random(3), 120, 203
    grid = ColumnGrid.of(build_integer_column(cells, missing))
    plans = [CumulativeCounts(grid, rows, cells, ONE), CumulativeCounts(grid, rows, 7, ONE)]
    plans += [] if missing else [RankBlocks(grid, rows, k, ONE) for k in (1, 10, 60)]
    values = [min(cells - 1, int(random.expovariate(0.1))) for _ in range(rows)]
    values[0] = 0
    noises = [list_level_noises(plan) for plan in plans]
    before = [list_levels(plan, count_cells(values, grid.all_cell_count)) for plan in plans]
    for _ in range(replaced // len(plans)):
        values[random.randrange(rows)] = random.randrange(grid.all_cell_count)
        after = [list_levels(plan, count_cells(values, grid.all_cell_count)) for plan in plans]
        assert all(compute_loss_between(*each) <= 1 for each in zip(noises, before, after, strict=True))
        before = after
    low = np.append(count_cells([0] * rows, grid.cell_count), [0] * missing)
    moved_counts = low.copy()
    moved_counts[[0, cells - 1]] += [-1, 1]
    assert all(compute_exact_loss(plan, low, moved_counts) == 1 for plan in plans)


def test_the_drawn_noise_is_that_of_the_calibration():
    """Half the noise, or noise a tenth off, would be caught."""
    entropy = build_entropy("noise")
    blocks = RankBlocks(ColumnGrid.of(build_integer_column(6)), 40_000, 1, ONE)
    tree = CumulativeCounts(ColumnGrid.of(build_integer_column(4096)), 1000, 4096, PrivacyBudget(epsilon=Fraction(4)))
    every = CategoryCounts(ColumnGrid.of(build_integer_column(30_000, name="n")), 1000, ONE)
    for plan, scale in ((blocks, Fraction(5)), (every, Fraction(2))):
        counts = count_cells([], plan.grid.all_cell_count)
        claimed, smaller, larger = (DiscreteLaplace(by, scale) for by in (1, Fraction(11, 10), Fraction(9, 10)))
        leaf_samples = plan.measure(counts, entropy) - plan.compute_totals(counts)
        assert_fits(leaf_samples.tolist(), claimed.probability, smaller.probability, larger.probability)
    counts = count_cells([], 4096)
    leaf_samples, share = tree.measure(counts, entropy)[-4096:], tree.shares[-1]
    jaws = [DiscreteLaplace(4 * share * by, 2).probability for by in (1, Fraction(5, 4), Fraction(4, 5))]
    assert_fits(leaf_samples.tolist(), *jaws)


def test_a_sum_of_any_size_is_drawn():
    """Noise wider than a machine word is cut to one after it was added, and nothing raises."""
    noise = DiscreteLaplace(Fraction(1, 10**30), 1)
    samples = add_noise_to_totals(np.zeros(5, dtype=np.int64), noise, SYSTEM)
    assert samples.dtype == np.int64
    assert set(np.abs(samples).tolist()) <= {2**63 - 1, -(2**63)}


# --- names ---


def compute_block_scores(plan, table):
    """Of every block; blocks are chosen apart, so the worst ratio of all is the product of theirs."""
    return [tuple(row_scores) for row_scores in plan.compute_scores(count_cells(table, 4)).tolist()]


def compute_joint_ratio(one, two):
    """Blocks are chosen apart, so the worst ratio of all is the product of theirs."""
    return math.prod(worst_ratio(p, q) for p, q in zip(one, two, strict=True))


def build_tiny_names(distances):
    return NameOrder.of(np.arange(len(distances)), np.array(distances, dtype=np.int64))


LINE = build_tiny_names([[0, 1, 2, 3], [1, 0, 1, 2], [2, 1, 0, 1], [3, 2, 1, 0]])
FLAT_NAMES = build_tiny_names([[0, 1, 1, 2], [1, 0, 1, 2], [1, 1, 0, 2], [2, 2, 2, 0]])


def build_name_blocks(rows, k, loss, of):
    return NameBlocks(ColumnGrid.of(build_name_column("abcd")), rows, k, loss, of)


@pytest.mark.parametrize("of", [LINE, FLAT_NAMES])
@pytest.mark.parametrize(("rows", "k"), [(5, 1), (5, 2), (6, 2), (4, 4)])
@pytest.mark.parametrize("size", [4, 6])
def test_choices_of_all_blocks_together_obey_epsilon_exactly(of, rows, k, size):
    """The exact joint law of every table of four names against every neighbour, in rationals."""
    plan = build_name_blocks(rows, k, ONE, of)
    scores = {table: compute_block_scores(plan, table) for table in all_tables(range(4), size)}
    pairs = {(t, tuple(sorted(o))) for t in scores for o in all_neighbors(t, range(4), "replace-one")}

    @cache
    def compute_ratio(one, two):
        return worst_ratio(*(plan.build_distribution(np.array(block_scores)).law() for block_scores in (one, two)))

    worst = max(math.prod(map(compute_ratio, scores[one], scores[two])) for one, two in pairs)
    assert 1 < worst <= exp_below(Fraction(1))


def test_the_thesis_calibration_of_choices_loses_more_than_epsilon():
    """Errata 3.2 (c): epsilon for each cluster by itself loses over 1.25 times epsilon; the path length keeps it."""
    alike = build_tiny_names(1 - np.eye(4))
    for rows, k in ((3, 1), (6, 2)):
        plan = build_name_blocks(rows, k, ONE, alike)
        thesis = Exponential(Selection(Fraction(1), Fraction(1), 2 * alike.diameter, whole_scores=True))
        tables = list(all_tables(range(4), rows))
        pairs = {(t, tuple(sorted(o))) for t in tables for o in all_neighbors(t, range(4), "replace-one")}
        scores = {table: plan.compute_scores(count_cells(table, 4)) for table in tables}
        unsound = {
            table: [thesis.distribution(table_scores).law() for table_scores in scores[table]] for table in tables
        }
        sound = {
            table: [plan.build_distribution(table_scores).law() for table_scores in scores[table]] for table in tables
        }
        assert math.log(max(compute_joint_ratio(unsound[one], unsound[two]) for one, two in pairs)) > 1.25
        assert max(compute_joint_ratio(sound[one], sound[two]) for one, two in pairs) <= exp_below(Fraction(1))


@pytest.mark.parametrize("missing", [False, True])
@pytest.mark.parametrize("replaced", [2500, pytest.param(10_000, marks=pytest.mark.soak)])
def test_thousands_of_replacements_move_scores_by_no_more_than_the_path(missing, replaced):
    """And a record that goes from one end of the order to the other, a block for each name, moves them by all of it."""
    random, column = Random(4), build_name_column(SPORT.leaves, SPORT, missing)
    grid, of, each = ColumnGrid.of(column), order_names(column), 10
    cells = grid.all_cell_count
    plan = NameBlocks(grid, each * cells, each, ONE, of)
    single = NameBlocks(grid, each * cells, each * cells, ONE, of)
    assert single.score_change == of.diameter < plan.score_change == of.length

    def measure_move(under, one, two):
        return sum_score_moves(under.compute_scores(one), under.compute_scores(two))

    values = [random.randrange(cells) for _ in range(plan.rows)]
    counts = count_cells(values, cells)
    before = plan.compute_scores(counts), single.compute_scores(counts)
    for _ in range(replaced):
        place, new = random.randrange(plan.rows), random.randrange(cells)
        counts += _count_replacement(cells, values[place], new)
        values[place] = new
        after = plan.compute_scores(counts), single.compute_scores(counts)
        assert sum_score_moves(before[0], after[0]) <= plan.score_change
        assert sum_score_moves(before[1], after[1]) <= single.score_change
        before = after
    even = np.full(cells, each)
    ends = even.copy()
    ends[of.order[[0, -1]]] += [-1, 1]
    assert measure_move(plan, even, ends) == plan.score_change
    assert (
        max(
            measure_move(single, even, even + _count_replacement(cells, a, b))
            for a in range(cells)
            for b in range(cells)
        )
        == single.score_change
    )


def sum_score_moves(one, two):
    """By how much the scores of each block differ at most, added up."""
    return int(np.abs(one - two).max(axis=1).sum())


def _count_replacement(cells, left, entered):
    return count_cells([entered], cells) - count_cells([left], cells)


def test_names_stand_beside_those_they_are_near():
    """Depth first: what is on land together, what is in water together, and missing values at the greatest distance."""
    column = build_name_column(SPORT.leaves, SPORT, missing=True)
    of = order_names(column)
    listed = [column.categories[place] for place in of.order[:-1]]
    assert listed == ["ride", "run", "dive", "row", "swim"]
    assert of.order[-1] == 5
    assert (of.distances[-1] == [DISTANCE_UNITS] * 5 + [0]).all()
    assert of.length < order_names(build_name_column(sorted(SPORT.leaves), SPORT, missing=True)).length + 1
    near, far = of.distances[0, 1], of.distances[0, 2]
    assert 0 < near < far < DISTANCE_UNITS


# --- the errata's counterexamples ---


def test_an_unchanged_record_moves_where_means_are_told_by_record():
    """Errata 3.1: k = 100, 0 and .99 a hundred times each, a 0 becomes 1: an unchanged record moves by .98."""
    before, after = [0] * 100 + [99] * 100, [100] + [0] * 99 + [99] * 100
    plan = RankBlocks(ColumnGrid.of(build_integer_column(101)), 200, 100, ONE)

    def release_means(values):
        means = plan.compute_totals(count_cells(values, 101)) / 100
        rank = np.argsort(np.argsort(values, kind="stable"), kind="stable")
        return means[rank // 100] / 100

    unchanged = np.abs(release_means(after) - release_means(before))[1:]
    assert unchanged.max() == pytest.approx(0.98, abs=0.001)
    assert (
        np.abs(plan.compute_totals(count_cells(after, 101)) - plan.compute_totals(count_cells(before, 101))).sum()
        == 100
    )


def test_epsilon_for_each_block_would_lose_it_as_often_as_there_are_blocks():
    """ "Parallel composition" is false: noise for a width over the blocks' number loses that many times epsilon."""
    plan = RankBlocks(ColumnGrid.of(build_integer_column(101)), 36, 6, ONE)
    parallel = DiscreteLaplace(1, Fraction(100, 6))
    low = count_cells(np.repeat(np.arange(6) * 20, 6), 101)
    high = low + _count_replacement(101, 0, 100)
    shift = int(np.abs(plan.compute_totals(low) - plan.compute_totals(high)).sum())
    assert parallel.rate * shift > 5
    assert compute_exact_loss(plan, low, high) == 1


def test_bounds_from_the_data_have_no_epsilon_and_bounds_from_the_schema_do_not_move():
    """Errata 6.4.1: 1.5 times the greatest value changes the scale itself; the log-ratio grows without end."""
    from_data = [DiscreteLaplace(1, 3 * most // 2) for most in (100, 1000)]
    narrow, wide = (noise.rate for noise in from_data)
    assert (narrow - wide) * 10_000 > 50
    plan = select_column_plan(build_integer_column(1500), 1000, ONE)
    assert plan is select_column_plan(build_integer_column(1500), 1000, ONE)
    assert {len(plan.measure(count_cells(values, 1500), SYSTEM)) for values in ([99] * 1000, [0] * 999 + [1499])} == {
        len(plan.measure(count_cells([], 1500), SYSTEM))
    }


def test_the_golden_sensitivities_are_attained():
    """ir.sum_sensitivity: all sums together by the width; ir.sensitivity: all means together by a k-th of it."""
    plan = RankBlocks(ColumnGrid.of(build_integer_column(4)), 7, 3, ONE)
    sizes, sums, means = np.diff(plan.edges), [], []
    for table in all_tables(range(4), 7):
        totals = plan.compute_totals(count_cells(table, 4))
        for other in all_neighbors(table, range(4), "replace-one"):
            shifts = np.abs(plan.compute_totals(count_cells(other, 4)) - totals)
            sums.append(Fraction(int(shifts.sum()), 3))
            means.append(sum(Fraction(int(m), int(s)) for m, s in zip(shifts, sizes, strict=True)) / 3)
    assert max(sums) == 1
    assert max(means) == Fraction(1, 3)


# --- estimates ---


WORDS = st.integers(-(2**63), 2**63 - 1) | st.sampled_from([-(2**63), 2**63 - 1, 0, 1, -1]) | st.integers(-50, 50)


@cache
def list_varied_plans():
    large = ColumnGrid.of(build_integer_column(1000)), ColumnGrid.of(build_integer_column(100, missing=True))
    plans = [*list_small_plans(ONE), CumulativeCounts(large[0], 37, 100, ONE), CumulativeCounts(large[1], 37, 100, RHO)]
    return [*plans, RankBlocks(large[0], 37, 4, ONE)]


@pytest.mark.parametrize("which", range(16))
@pytest.mark.parametrize("examples", [12, pytest.param(40, marks=pytest.mark.soak)])
def test_estimates_add_up_whatever_was_drawn(which, examples):
    """At least 0, one for each cell, as many as there are rows: also for the most extreme noise."""
    plan = list_varied_plans()[which]
    length = len(plan.measure(np.zeros(plan.grid.all_cell_count, dtype=np.int64), SYSTEM))

    @given(st.lists(WORDS, min_size=length, max_size=length))
    @settings(max_examples=examples, deadline=None)
    def assert_adds_up(outputs):
        counts = plan.estimate_counts(np.array(outputs, dtype=np.int64))
        assert counts.dtype == np.int64
        assert len(counts) == plan.grid.all_cell_count
        assert counts.min() >= 0
        assert counts.sum() == plan.rows

    assert_adds_up()


@given(st.lists(st.integers(-20, 20), min_size=1, max_size=4), st.integers(0, 12))
@settings(deadline=None)
def test_projected_counts_are_the_nearest(noisy_counts, rows):
    """No whole counts that add up are nearer in squares: against all of them."""
    counts = np.array(noisy_counts)
    projected = project_counts(counts, rows)
    others = [c for c in product(range(rows + 1), repeat=len(counts)) if sum(c) == rows]
    assert ((projected - counts) ** 2).sum() == min(((np.array(c) - counts) ** 2).sum() for c in others)


def test_without_noise_counts_come_back():
    """Where a loss is as good as unlimited every measured cell is told exactly, and a block by its mean."""
    loss, random = PrivacyBudget(epsilon=Fraction(10**6)), Random(5)
    for column in (
        build_integer_column(40),
        build_integer_column(40, missing=True),
        build_name_column("abcdef"),
        build_integer_column(2),
        build_integer_column(1),
    ):
        grid, rows = ColumnGrid.of(column), 300
        counts = count_cells([random.randrange(grid.all_cell_count) for _ in range(rows)], grid.all_cell_count)
        plan = select_column_plan(column, rows, loss)
        assert not isinstance(plan, RankBlocks)
        assert (plan.estimate_counts(plan.measure(counts, SYSTEM)) == counts).all()
    means = fit_ranked_counts(np.array([5, 9, 40]), np.array([2, 3, 4]), 12)
    assert means.tolist() == [0, 0, 1, 4, 0, 0, 0, 0, 0, 0, 4, 0]


def test_a_run_is_spread_evenly_and_missing_values_stay_apart():
    """Ten rows over five cells, three missing."""
    counts = fit_cumulative_counts(np.array([10.2, 4.0, 2.9]), np.array([0, 5, 7]), 17)
    assert counts.tolist() == [2, 2, 2, 2, 2, 2, 2, 3]


@pytest.mark.parametrize("size", [0, 60, 140])
def test_a_table_with_other_rows_than_declared_is_drawn_all_the_same(size):
    """The first ranks count, and the last cell stands for rows that are not there."""
    values = [Random(size).randrange(20) for _ in range(size)]
    blocks = RankBlocks(ColumnGrid.of(build_integer_column(20)), 100, 9, ONE)
    ranked = (sorted(values) + [19] * 100)[:100]
    sums = [sum(ranked[low:high]) for low, high in pairwise(blocks.edges.tolist())]
    assert blocks.compute_totals(count_cells(values, 20)).tolist() == sums
    column = build_name_column(SPORT.leaves, SPORT, missing=True)
    of = order_names(column)
    chosen = NameBlocks(ColumnGrid.of(column), 100, 9, ONE, of)
    places = np.argsort(of.order)[[value % 6 for value in values]] if values else []
    padded = (sorted(places) + [5] * 100)[:100]
    costs = [-of.distances[padded[low:high]].sum(axis=0) for low, high in pairwise(chosen.edges.tolist())]
    assert (chosen.compute_scores(count_cells([value % 6 for value in values], 6)) == costs).all()
    for plan in (*list_column_plans(build_integer_column(20), 100, ONE), *list_column_plans(column, 100, ONE)):
        counts = count_cells([value % plan.grid.all_cell_count for value in values], plan.grid.all_cell_count)
        assert plan.estimate_counts(plan.measure(counts, SYSTEM)).sum() == 100


# --- error as told ---


def compute_distance(grid, one, two):
    """W1 in widths of the domain."""
    return float(np.abs(np.cumsum(one - two)[: grid.cell_count - 1]).sum()) / int(one.sum()) / (grid.cell_count - 1)


def draw_nasty_tables(rows, cells):
    """Two ends, one end, the middle, a heavy tail, comb, and one outlier."""
    random = Random(7)
    tail = [min(cells - 1, int(random.paretovariate(0.7))) for _ in range(rows)]
    comb = [cells // 9 * random.randrange(9) + cells // 18 for _ in range(rows)]
    halves = [0] * (rows // 2) + [cells - 1] * (rows - rows // 2)
    return [halves, [cells - 1] * rows, [cells // 2] * rows, tail, comb, [0] * (rows - 1) + [cells - 1]]


@pytest.mark.parametrize("loss", [ONE, RHO])
@pytest.mark.parametrize(("rows", "k"), [(1000, None), (1000, 1), (1000, 500), (90, 40)])
def test_the_mean_distance_is_within_the_bound_of_rank_blocks(loss, rows, k):
    """On average over runs, whatever the data; k / 2n and noise / k where k divides n."""
    entropy = build_entropy("the_mean_distance_is_within_the_bound_of_rank_blocks")
    k = choose_block_size(rows, loss) if k is None else k
    plan = RankBlocks(ColumnGrid.of(build_integer_column(500)), rows, k, loss)
    for values in draw_nasty_tables(rows, 500):
        counts = count_cells(values, 500)
        runs = [
            compute_distance(plan.grid, counts, plan.estimate_counts(plan.measure(counts, entropy))) for _ in range(12)
        ]
        assert sum(runs) / len(runs) <= plan.error_bound
    assert plan.error <= plan.error_bound
    if rows % k == 0 and loss.is_pure:
        assert plan.error_bound == pytest.approx(min(1, k / (2 * rows) + 1 / k), rel=1e-2)


@pytest.mark.parametrize("loss", [ONE, RHO])
@pytest.mark.parametrize(("rows", "cells"), [(300, 500), (3000, 500), (3000, 40)])
@pytest.mark.parametrize("times", [20, pytest.param(60, marks=pytest.mark.soak)])
def test_the_mean_distance_is_within_what_a_cumulative_count_tells(loss, rows, cells, times):
    """On average over runs, at most the bound whatever the data; where data are even, near what is expected."""
    entropy = build_entropy("the_mean_distance_is_within_what_a_cumulative_count_tells")
    plan = next(
        plan
        for plan in list_column_plans(build_integer_column(cells), rows, loss)
        if isinstance(plan, CumulativeCounts)
    )
    even = [row * cells // rows for row in range(rows)]
    for values in (*draw_nasty_tables(rows, cells), even):
        counts = count_cells(values, cells)
        runs = [
            compute_distance(plan.grid, counts, plan.estimate_counts(plan.measure(counts, entropy)))
            for _ in range(times)
        ]
        assert sum(runs) / len(runs) <= 1.2 * plan.error_bound
    assert 0.5 * plan.error < sum(runs) / len(runs) < 1.2 * plan.error


def draw_shapes(rows, cells):
    """Even, skewed, two humps, one value, a bell."""
    draw = np.random.default_rng(rows)
    humps = np.where(np.arange(rows) % 2, draw.normal(0.15, 0.05, rows), draw.normal(0.8, 0.05, rows))
    placed = [draw.random(rows), draw.exponential(0.08, rows), humps, np.full(rows, 0.3), draw.normal(0.45, 0.12, rows)]
    return [count_cells(np.clip(positions * cells, 0, cells - 1), cells) for positions in placed]


def measure_error(plan, tables, runs=25):
    """The mean W1 over tables and runs."""
    entropy = build_entropy("seen")
    errors = [
        compute_distance(plan.grid, table, plan.estimate_counts(plan.measure(table, entropy)))
        for table in tables
        for _ in range(runs)
    ]
    return sum(errors) / len(errors)


@pytest.mark.parametrize("loss", [PrivacyBudget(epsilon=Fraction(1, 10)), PrivacyBudget(rho=Fraction(1, 800))])
@pytest.mark.parametrize(("rows", "k"), [(20, None), (50, None), (200, None), (1000, None), (200, 10), (1000, 10)])
def test_what_is_expected_is_near_what_is_seen(loss, rows, k):
    """Over files of five shapes, of few rows and more, and of a k that is far too small."""
    for plan in list_column_plans(build_integer_column(200), rows, loss, k):
        assert plan.error / 1.7 < measure_error(plan, draw_shapes(rows, 200)) < 1.3 * plan.error


@pytest.mark.parametrize(("rows", "epsilon"), [(20, "0.2"), (50, "0.1"), (200, "0.01"), (50, "1"), (500, "0.1")])
@pytest.mark.parametrize("times", [40, pytest.param(80, marks=pytest.mark.soak)])
def test_the_better_way_is_chosen(rows, epsilon, times):
    """Rank blocks where rows times epsilon are few, cumulative counts where they are many, by what is seen."""
    loss = PrivacyBudget(epsilon=Fraction(epsilon))
    best = select_column_plan(build_integer_column(200), rows, loss)
    assert isinstance(best, RankBlocks if rows * loss.epsilon < 10 else CumulativeCounts)
    others = [plan for plan in list_column_plans(build_integer_column(200), rows, loss) if type(plan) is not type(best)]
    assert others
    tables = draw_shapes(rows, 200)
    best_error = measure_error(best, tables, times)
    assert all(best_error < 1.03 * measure_error(plan, tables, times) for plan in others)


def test_a_plan_says_whether_it_has_blocks_of_k():
    """None where values may be missing, and where counts of names are better."""
    assert select_column_plan(build_integer_column(1000), 1080, ONE, 50).k == 50
    assert select_column_plan(build_integer_column(1000, missing=True), 1080, ONE, 50).k is None
    assert select_column_plan(build_name_column("abc"), 1080, ONE, 50).k is None
    assert select_column_plan(build_integer_column(2), 1080, ONE, 50).k is None


def test_the_variation_of_categories_is_as_told():
    """Within a third of the expected one, where counts are large: not less than noise can be, not more."""
    entropy = build_entropy("the_variation_of_categories_is_as_told")
    plan = CategoryCounts(ColumnGrid.of(build_name_column("abcdefgh")), 8000, ONE)
    counts = np.full(8, 1000)
    runs = [np.abs(plan.estimate_counts(plan.measure(counts, entropy)) - counts).sum() / 16_000 for _ in range(300)]
    assert plan.error / 1.5 < sum(runs) / len(runs) < plan.error * 1.2


def test_the_error_of_blocks_of_names_is_a_bound():
    """The mean distance of records to the name told for their block, in diameters."""
    entropy = build_entropy("the_error_of_blocks_of_names_is_a_bound")
    column = build_name_column(SPORT.leaves, SPORT)
    of, random = order_names(column), Random(8)
    plan = NameBlocks(ColumnGrid.of(column), 5000, 500, PrivacyBudget(epsilon=Fraction(20)), of)
    counts = count_cells([random.choice([0, 0, 0, 1, 2, 4]) for _ in range(5000)], 5)
    upto = np.repeat(np.arange(5), counts[of.order])
    errors = []
    for _ in range(20):
        estimates = np.repeat(plan.measure(counts, entropy), np.diff(plan.edges))
        errors.append(of.distances[upto, estimates].mean() / of.diameter)
    assert sum(errors) / 20 <= plan.error < 1
    even = NameBlocks(plan.grid, 5000, 500, PrivacyBudget(epsilon=Fraction(1, 10**6)), of)
    picks = np.concatenate([even.measure(counts, entropy) for _ in range(300)])
    assert np.bincount(picks, minlength=5).min() > 450  # of 600


# --- the planner ---


def test_the_least_public_error_is_chosen():
    """Whatever the size; a given k is kept where ranks can be blocks."""
    for rows, cells in product((1, 30, 1080, 10**6), (2, 3, 100, 10**6, 2**44)):
        plans = list_column_plans(build_integer_column(cells), rows, ONE)
        assert select_column_plan(build_integer_column(cells), rows, ONE).error == min(plan.error for plan in plans)
        assert all(0 <= plan.error <= 1 for plan in plans)
    given_k = select_column_plan(build_integer_column(1000), 1080, ONE, 50)
    assert isinstance(given_k, RankBlocks)
    assert given_k.k == 50
    assert given_k.name == "rank blocks of 50"
    assert isinstance(select_column_plan(build_integer_column(1000, missing=True), 1080, ONE, 50), CumulativeCounts)
    assert isinstance(select_column_plan(build_integer_column(1), 1080, ONE), CategoryCounts)


def test_k_is_the_root_of_twice_the_rows_over_epsilon():
    """93 of the 1,080 rows of the census at a quarter; at least 1, at most all rows."""
    assert choose_block_size(1080, PrivacyBudget(epsilon=Fraction(1, 4))) == 93
    assert choose_block_size(10, PrivacyBudget(epsilon=Fraction(1, 1000))) == 10
    assert choose_block_size(3, PrivacyBudget(epsilon=Fraction(100))) == 1
    for rows, loss in product((64, 1024, 2**15), (ONE, RHO)):
        powers = [
            RankBlocks(ColumnGrid.of(build_integer_column(50)), rows, 2**power, loss).error_bound
            for power in range(rows.bit_length())
        ]
        best = 2 ** powers.index(min(powers))
        assert best / 1.5 < choose_block_size(rows, loss) < best * 1.5


def test_runs_are_chosen_where_error_is_least():
    """No other number of runs is expected to be better by a tenth, few rows or many."""
    for rows, loss in product((200, 5000, 10**6), (ONE, RHO)):
        best = select_column_plan(build_integer_column(10**6), rows, loss)
        others = [
            CumulativeCounts(best.grid, rows, runs, loss).error for runs in (2, 5, 10, 30, 100, 300, 1000, 3000, 10_000)
        ]
        assert best.error < 1.02 * min(others)


def test_levels_are_better_for_cumulative_counts_than_cells_alone():
    """And the deviation told is that of cumulative counts: against all of them, for a tree small enough."""
    tree = find_best_tree(256, False, "laplace")
    assert len(tree.strategy.sizes) > 1
    nest = tree.build_hierarchy([1 / weight**2 for weight in tree.strategy.weights])
    exact = [math.sqrt(nest.compute_range_variance(0, last)) for last in range(255)]
    assert tree.deviation == pytest.approx(sum(exact) / 255, rel=0.02)
    flat = list_histogram_strategies(256, "laplace", True)[0]
    assert tree.deviation < 0.8 * math.sqrt(flat.error)


def test_shares_add_up_and_are_better_than_even_ones():
    """Exactly 1, each a fraction in millionths; the sum of errors is at most that of an even split."""
    columns = [
        build_integer_column(10**6, name="wide"),
        build_integer_column(2, name="bit"),
        build_integer_column(12, name="month"),
        build_name_column("abc", missing=True),
    ]
    for loss, k in product((ONE, RHO, PrivacyBudget(epsilon=Fraction(1, 1000))), (None, 20)):
        split_plans = split_budget(columns, 5000, loss, k)
        shares = [share for _, share in split_plans]
        assert sum(shares) == 1
        assert all(share > 0 and (share * 10**6).denominator == 1 for share in shares)
        assert [plan.grid.column for plan, _ in split_plans] == [column.name for column in columns]
        assert all(plan.budget == loss.take_share(share) for plan, share in split_plans)
        even = sum(select_column_plan(column, 5000, loss.take_share(Fraction(1, 4)), k).error for column in columns)
        assert sum(plan.error for plan, _ in split_plans) <= even
    plain = split_budget(columns, 5000, ONE)
    assert plain[0][1] > 2 * plain[1][1]
    alike = [share for _, share in split_budget([build_integer_column(1000, name=str(n)) for n in range(4)], 5000, ONE)]
    assert max(alike) - min(alike) < Fraction(1, 1000)


def test_what_cannot_be_planned_is_refused_with_a_reason():
    """From public facts, before a row is read."""
    with pytest.raises(InvalidInput, match="no public list"):
        list_column_plans(Column("x", "nominal", private_keys=True), 10, ONE)
    for k in (0, 11):
        with pytest.raises(InvalidInput, match="1 to 10"):
            list_column_plans(build_integer_column(5), 10, ONE, k)
    with pytest.raises(InvalidInput, match="at least one column"):
        split_budget([], 10, ONE)
    with pytest.raises(Unsupported, match="larger epsilon"):
        list_column_plans(build_integer_column(5), 10, PrivacyBudget(rho=Fraction(1, 2**60)))
    with pytest.raises(Unsupported, match="larger epsilon"):
        list_column_plans(build_integer_column(5), 10, PrivacyBudget(epsilon=Fraction(1, 10**200)))
    with pytest.raises(Unsupported, match="at most"):
        order_names(build_name_column([f"c{n}" for n in range(5000)]))
    for wrong in (
        lambda: RankBlocks(ColumnGrid.of(build_integer_column(5, missing=True)), 10, 2, ONE),
        lambda: RankBlocks(ColumnGrid.of(build_integer_column(5)), 10, 11, ONE),
        lambda: CumulativeCounts(ColumnGrid.of(build_integer_column(5)), 10, 6, ONE),
        lambda: CumulativeCounts(ColumnGrid.of(build_name_column("abc")), 10, 2, ONE),
        lambda: NameBlocks(ColumnGrid.of(build_name_column("abc")), 10, 2, ONE, LINE),
    ):
        with pytest.raises(InvalidInput):
            wrong()


@pytest.mark.parametrize("loss", [PrivacyBudget(epsilon=Fraction(1, 10**60)), PrivacyBudget(rho=Fraction(1, 2**50))])
def test_a_loss_too_small_for_anything_useful_is_planned_and_drawn(loss):
    """The error told is that nothing is known; nothing is refused, and counts add up."""
    for column in (
        build_integer_column(2**20),
        build_integer_column(50, missing=True),
        build_name_column("abc"),
        build_name_column(SPORT.leaves, SPORT, missing=True),
    ):
        for plan in list_column_plans(column, 1000, loss):
            assert plan.error > 0.2
            assert not isinstance(plan, CumulativeCounts) or plan.run_count == 2
            assert (
                plan.estimate_counts(plan.measure(count_cells([0] * 1000, plan.grid.all_cell_count), SYSTEM)).sum()
                == 1000
            )


def test_a_million_rows_of_a_million_cells():
    """Planned, drawn and made whole; how fast is the benchmark's business."""
    counts = np.random.default_rng(1).multinomial(10**6, np.full(2**20 - 3, 1 / (2**20 - 3)))
    plan = select_column_plan(build_integer_column(2**20 - 3), 10**6, PrivacyBudget(epsilon=Fraction(1, 6)))
    assert plan.estimate_counts(plan.measure(counts, SYSTEM)).sum() == 10**6


@cache
def read_numbers(file):
    with find_shared_data(file).open() as lines:
        return list(csv.DictReader(lines))


@pytest.mark.parametrize(
    ("file", "named", "goal"),
    [
        ("census.csv", "FICA FEDTAX INTVAL POTHVAL", 15),
        ("adult.csv", "age fnlwgt education-num capital-gain capital-loss hours-per-week", 100),
    ],
)
@pytest.mark.parametrize("times", [8, pytest.param(20, marks=pytest.mark.soak)])
def test_columns_are_many_times_nearer_than_noise_on_every_record(file, named, goal, times):
    """Mean W1 at epsilon 1 over all columns, beside Laplace noise of width / (epsilon / columns), clipped."""
    rows, random, each = read_numbers(file), np.random.default_rng(2), named.split()
    values = [np.array([int(row[name]) for row in rows]) for name in each]
    columns = [
        build_integer_column(round(1.5 * int(column_values.max())) + 1, name=name)
        for name, column_values in zip(each, values, strict=True)
    ]
    ours, plain = 0.0, 0.0
    for (plan, _), column_values in zip(split_budget(columns, len(rows), ONE), values, strict=True):
        counts, width = count_cells(column_values // plan.grid.width, plan.grid.cell_count), plan.grid.upper
        estimates = [plan.estimate_counts(plan.measure(counts, build_entropy(f"{file}{run}"))) for run in range(times)]
        ours += sum(compute_distance(plan.grid, counts, estimate) for estimate in estimates) / len(estimates)
        noised = np.clip(column_values + random.laplace(0, width * len(each), len(column_values)), 0, width)
        plain += float(np.abs(np.sort(noised) - np.sort(column_values)).mean()) / width
    assert plain > goal * ours
