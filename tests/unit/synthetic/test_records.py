"""Private records: the curve, its chains, exact privacy of what is drawn, and files that are what they say."""

from __future__ import annotations

import json
import math
import random
from collections import Counter
from collections.abc import Sequence
from fractions import Fraction
from functools import cache
from itertools import product
from pathlib import Path

import numpy as np
import pytest

from discreet.errors import InvalidInput
from discreet.mechanisms.box_staircase import BoxStaircase
from discreet.mechanisms.discrete_gaussian import DiscreteGaussian
from discreet.mechanisms.discrete_laplace import DiscreteLaplace
from discreet.mechanisms.entropy import SYSTEM
from discreet.mechanisms.exponential_mechanism import Exponential
from discreet.priors.taxonomy import Taxonomy
from discreet.query.scan import RankRuns
from discreet.schema import Column
from discreet.synthetic.column_methods import build_name_distribution
from discreet.synthetic.columns import PrivacyBudget
from discreet.synthetic.hilbert import (
    bound_chain,
    bound_joint_chain,
    bound_squared_chain,
    compute_chain_lengths,
    compute_curve_cells,
    compute_curve_places,
    compute_squared_chain_lengths,
)
from discreet.synthetic.records import CurveAxis, RecordsPlan
from discreet.synthetic.records_plan import plan_records
from discreet.verification import all_neighbors, all_tables, assert_fits, worst_ratio

GOLDEN = {entry["id"]: entry for entry in json.loads((Path(__file__).parents[2] / "golden.json").read_text())}
ONE = Fraction(1)
PURE, CONCENTRATED = PrivacyBudget(ONE), PrivacyBudget(rho=Fraction(1, 8))
Records = Sequence[tuple[int, ...]]


def build_number_column(name: str, size: int) -> Column:
    return Column(name, "integer", 0, size - 1, missing=0)


def build_nominal_column(name: str, count: int, taxonomy: Taxonomy | None = None) -> Column:
    listed = tuple(chr(97 + place) for place in range(count))
    return Column(name, "nominal", 0, count - 1, categories=listed, missing=0, taxonomy=taxonomy)


def build_records_plan(
    columns: Sequence[Column], bits: int, rows: int, k: int, loss: PrivacyBudget = PURE, box: bool = False
) -> RecordsPlan:
    """A plan with equal shares."""
    axes = tuple(CurveAxis.of(column, bits) for column in columns)
    named = sum(axis.is_nominal for axis in axes)
    parts = named + (named < len(axes))
    shares = (Fraction(int(named < len(axes)), parts), *[Fraction(1, parts)] * named)
    return RecordsPlan(axes, bits, rows, k, loss, shares, box)


def count_distinct(records: Records) -> tuple[np.ndarray, np.ndarray]:
    """Distinct cells and their counts, in no order that means anything."""
    cell_counts = Counter(records)
    return np.array(list(cell_counts), dtype=np.int64), np.array(list(cell_counts.values()), dtype=np.int64)


def compute_moves(plan: RecordsPlan, one: Records, other: Records) -> np.ndarray:
    """By how much each sum differs."""
    return np.abs(plan.compute_totals(*count_distinct(one))[0] - plan.compute_totals(*count_distinct(other))[0])


# The curve


@pytest.mark.parametrize("dimensions", [1, 2, 3, 4, 5])
def test_the_curve_goes_from_cell_to_neighbour_and_is_nested(dimensions: int) -> None:
    """Every cell once, one step in one coordinate at a time, and a coarser cell holds a run of the finer curve."""
    for bits in range(1, 15 // dimensions + 1):
        places = np.arange(2 ** (bits * dimensions))
        cells = compute_curve_cells(places, dimensions, bits)
        assert (compute_curve_places(cells, bits) == places).all()
        assert (np.abs(np.diff(cells, axis=0)).sum(axis=1) == 1).all()
        for coarse in range(1, bits):
            larger = compute_curve_places(cells >> (bits - coarse), coarse)
            assert (larger == places >> (dimensions * (bits - coarse))).all()


def test_the_curve_ends_where_padding_is_put() -> None:
    """The last cell is a corner of the cube, so that every column has a value there."""
    for dimensions in range(1, 7):
        last = compute_curve_cells(np.array([2 ** (2 * dimensions) - 1]), dimensions, 2)[0]
        assert set(last.tolist()) <= {0, 3}


def test_a_curve_has_places_that_fit_a_word() -> None:
    """62 bits at most, one at least."""
    for bits, dimensions in ((0, 2), (32, 2)):
        with pytest.raises(InvalidInput, match="at most 62 bits"):
            compute_curve_places(np.zeros((1, dimensions), dtype=np.int64), bits)


# Chains


@pytest.mark.parametrize("steps", [8, 36])
def test_golden_chains(steps: int) -> None:
    """The derived figures: one attribute, and both together, in widths of 16 cells."""
    bounds = [bound_chain(2, 4, steps, 0) / 16, bound_joint_chain(2, 4, steps, (0, 1)) / 16]
    assert bounds == GOLDEN[f"hilbert.p4.m{steps}"]["expected"]


def count_chain_slowly(cells: np.ndarray, steps: int, axes: Sequence[int], power: int) -> int:
    """Every chain, by what it has come to at each cell."""
    best = [0] * len(cells)
    for _ in range(steps):
        best = [
            max(
                best[before] + sum(abs(int(cells[here, a]) - int(cells[before, a])) ** power for a in axes)
                for before in range(here + 1)
            )
            for here in range(len(cells))
        ]
    return max(best)


@pytest.mark.parametrize(("dimensions", "bits"), [(1, 4), (2, 1), (2, 2), (2, 3), (3, 1), (3, 2), (5, 1)])
def test_chains_are_the_longest(dimensions: int, bits: int) -> None:
    """One attribute, all of them and squares agree with a search of all pairs of cells."""
    cells = compute_curve_cells(np.arange(2 ** (bits * dimensions)), dimensions, bits)
    everything = range(dimensions)
    for steps in (1, 2, 3, 5):
        for axis in everything:
            assert bound_chain(dimensions, bits, steps, axis) == count_chain_slowly(cells, steps, [axis], 1)
        assert bound_joint_chain(dimensions, bits, steps, everything) == count_chain_slowly(cells, steps, everything, 1)
        assert bound_squared_chain(dimensions, bits, steps, everything) == count_chain_slowly(
            cells, steps, everything, 2
        )


def test_chains_of_any_weights_in_any_order() -> None:
    """Weights count, and the order of the cells is the one given."""
    cells = np.array([[0, 3], [2, 0], [1, 1], [3, 3]])
    assert compute_chain_lengths(cells, 4, (1, 0)) == (3, 3, 5, 5)
    assert compute_chain_lengths(cells, 1, (2, 5)) == (19,)
    assert compute_squared_chain_lengths(cells, 2, (1, 1)) == (13, 23)
    assert compute_chain_lengths(cells * 2**40, 4, (1, 0)) == tuple(2**40 * length for length in (3, 3, 5, 5))


@pytest.mark.parametrize(("dimensions", "bits", "steps"), [(2, 7, 5), (2, 7, 40), (3, 5, 9), (4, 4, 6)])
def test_bounds_beyond_the_exact_ones(dimensions: int, bits: int, steps: int) -> None:
    """Of cubes with too many cells the bound is at least the exact length, and not much more."""
    cells = compute_curve_cells(np.arange(2 ** (bits * dimensions)), dimensions, bits)
    alone = compute_chain_lengths(cells, steps, [1] + [0] * (dimensions - 1))[-1]
    assert alone <= bound_chain(dimensions, bits, steps, 0) <= 1.25 * alone
    joint = compute_chain_lengths(cells, steps, [1] * dimensions)[-1]
    assert joint <= bound_joint_chain(dimensions, bits, steps, range(dimensions)) <= 1.25 * joint


@pytest.mark.parametrize(("dimensions", "bits"), [(2, 8), (4, 4), (6, 3), (8, 2), (12, 2)])
@pytest.mark.parametrize("trials", [60, pytest.param(300, marks=pytest.mark.soak)])
def test_squares_beyond_the_exact_ones(dimensions: int, bits: int, trials: int) -> None:
    """Chains of long steps, searched, keep within the bounds of large cubes."""
    draw, everything = np.random.default_rng(dimensions), range(dimensions)
    for steps in (1, 4, 16):
        squares, straight = (
            bound_squared_chain(dimensions, bits, steps, everything),
            bound_joint_chain(dimensions, bits, steps, everything),
        )
        assert squares <= (2**bits - 1) * straight <= (2**bits - 1) ** 2 * steps * dimensions
        for _ in range(trials):
            places = np.sort(draw.integers(0, 2 ** (bits * dimensions), steps + 1))
            move = np.abs(np.diff(compute_curve_cells(places, dimensions, bits), axis=0))
            assert (move**2).sum() <= squares
            assert move.sum() <= straight


def test_squares_of_one_step_beyond_the_exact_ones() -> None:
    """From one end to the other of a line of 2,048 cells: the bound from 1,024 of them is the square itself."""
    assert bound_squared_chain(1, 11, 1, (0,)) == 2047**2


def test_too_many_dimensions() -> None:
    """Thirteen halves make more cells than chains are worked out for."""
    with pytest.raises(InvalidInput, match="at most 12 attributes"):
        bound_chain(13, 1, 3, 0)


# Privacy


@pytest.mark.parametrize(
    ("columns", "bits", "rows", "k"),
    [
        ([build_number_column("x", 4), build_number_column("y", 4)], 2, 3, 1),
        ([build_number_column("x", 2), build_number_column("y", 2)], 1, 6, 2),
        ([build_number_column("x", 3), build_number_column("y", 4)], 2, 4, 2),
        ([build_number_column("x", 2), build_number_column("y", 2), build_number_column("z", 2)], 1, 4, 1),
        ([build_number_column("x", 9)], 3, 5, 2),
    ],
)
def test_every_pair_of_neighbours_keeps_to_the_calibration(
    columns: Sequence[Column], bits: int, rows: int, k: int
) -> None:
    """Exhaustively: the L1 move times the noise's rate is at most epsilon, squares at most what rho was made for."""
    pure, concentrated = (
        build_records_plan(columns, bits, rows, k),
        build_records_plan(columns, bits, rows, k, CONCENTRATED),
    )
    assert isinstance(pure.noise, DiscreteLaplace)
    assert isinstance(concentrated.noise, DiscreteGaussian)
    domain = list(product(*(range(axis.grid.cell_count) for axis in pure.axes)))
    sums = {table: pure.compute_totals(*count_distinct(table))[0] for table in all_tables(domain, rows)}
    pairs = {
        (min(table, other), max(table, other))
        for table in sums
        for other in (tuple(sorted(each)) for each in all_neighbors(table, domain, "replace-one"))
    }
    one, two = (np.array([sums[pair[side]].ravel() for pair in pairs]) for side in (0, 1))
    moves = np.abs(one - two)
    worst, squared = int(moves.sum(axis=1).max()), int((moves**2).sum(axis=1).max())
    assert pure.noise.rate * worst <= pure.budget.epsilon
    assert Fraction(squared) / (2 * concentrated.noise.square) <= concentrated.budget.rho
    assert worst >= 0.8 * bound_joint_chain(len(columns), bits, pure.block_count, range(len(columns)))


@pytest.mark.parametrize("taxonomy", [None, Taxonomy.of({"a": "u", "b": "u", "c": "r", "u": "r"})])
def test_names_of_every_pair_of_neighbours(taxonomy: Taxonomy | None) -> None:
    """Exhaustively, exact laws: over all blocks the choices of two neighbours lose at most their share, in product."""
    plan = build_records_plan([build_number_column("x", 2), build_nominal_column("s", 3, taxonomy)], 2, 4, 2)
    domain = list(product(range(2), range(3)))
    (selection,) = plan.selections.values()
    assert selection.epsilon == Fraction(1, 2)

    @cache
    def compute_ratio(one: tuple[int, ...], other: tuple[int, ...]) -> Fraction:
        ratio = worst_ratio(*(build_name_distribution(selection, np.array(row)) for row in (one, other)))
        assert ratio is not None
        return ratio

    tables = list(all_tables(domain, 4))
    scores = {
        table: [tuple(row) for row in plan.compute_totals(*count_distinct(table))[1][1].tolist()] for table in tables
    }
    pairs = {
        tuple(zip(scores[table], scores[tuple(sorted(other))], strict=True))
        for table in tables
        for other in all_neighbors(table, domain, "replace-one")
    }
    most = selection.ratio**-selection.spread
    assert float(most) <= math.exp(0.5)
    assert all(math.prod(compute_ratio(*rows) for rows in pair) <= most for pair in pairs)
    assert any(math.prod(compute_ratio(*rows) for rows in pair) > 1 for pair in pairs)


def compute_score_ranges(plan: RecordsPlan, axis: int, one: Records, other: Records) -> int:
    """By how much scores of two names move apart in each block, added up."""
    return compute_move_spread(
        plan.compute_totals(*count_distinct(one))[1][axis] - plan.compute_totals(*count_distinct(other))[1][axis]
    )


def compute_move_spread(moves: np.ndarray) -> int:
    return int((moves.max(axis=1) - moves.min(axis=1)).sum())


@pytest.mark.parametrize("trials", [250, pytest.param(1000, marks=pytest.mark.soak)])
def test_names_keep_to_the_chain(trials: int) -> None:
    """Random replacements: scores move apart by no more than the chain says, which is less than any order's."""
    draw = random.Random(4)
    plan = build_records_plan(
        [build_number_column("x", 16), build_nominal_column("s", 2), build_nominal_column("t", 4)], 4, 60, 2
    )
    assert plan.bound_name_scores(1) < plan.block_count * plan.axes[1].compute_max_change()
    for _ in range(trials):
        table = [(draw.choice((0, 15)), draw.randrange(2), draw.randrange(4)) for _ in range(60)]
        other = [(draw.choice((0, 15)), draw.randrange(2), draw.randrange(4)), *table[1:]]
        moves = [plan.compute_totals(*count_distinct(each))[1] for each in (table, other)]
        assert compute_move_spread(moves[0][1] - moves[1][1]) <= plan.bound_name_scores(1)
        assert compute_move_spread(moves[0][2] - moves[1][2]) <= plan.bound_name_scores(2)


def test_no_noise_of_names_is_wasted() -> None:
    """Blocks that exchange one name for the other in turn reach the whole of the bound."""
    plan = build_records_plan([build_number_column("x", 2), build_nominal_column("s", 3)], 2, 4, 2)
    domain = list(product(range(2), range(3)))
    tables = list(all_tables(domain, 4))
    scores = {table: plan.compute_totals(*count_distinct(table))[1][1] for table in tables}
    pairs = [(one, tuple(sorted(two))) for one in tables for two in all_neighbors(one, domain, "replace-one")]
    reached = max(compute_move_spread(scores[one] - scores[two]) for one, two in pairs)
    assert reached == plan.bound_name_scores(1)


def test_the_law_of_names_is_the_exponential_mechanism() -> None:
    """The same probabilities, exactly, also where two names have one score."""
    (selection,) = build_records_plan(
        [build_number_column("x", 2), build_nominal_column("s", 4)], 2, 4, 2
    ).selections.values()
    scores = np.array([-30, -2, -2, 0])
    assert build_name_distribution(selection, scores).law() == Exponential(selection).distribution(scores).law()


def test_names_are_drawn_by_their_law() -> None:
    """Two jaws: the share of the nearer name is that of the rate claimed, not of one a tenth less or more."""
    plan = build_records_plan([build_nominal_column("s", 2)], 1, 2000, 1)
    (selection,) = plan.selections.values()
    table = np.array([[0], [1]]), np.array([2000, 0])
    draws = np.concatenate([plan.measure(*table, SYSTEM)[:, 0] for _ in range(3)])
    apart = int(plan.axes[0].distances[0][1])

    def build_name_law(factor: float):
        odds = math.exp(-factor * selection.rate * apart)
        return lambda name: (odds if name else 1.0) / (1 + odds) if name in {0, 1} else 0.0

    assert_fits(draws, build_name_law(1), build_name_law(0.5), build_name_law(1.5))


def test_names_under_zcdp() -> None:
    """The squares of what blocks lose, over 8, add up to at most the share: h^2 most bound / 8."""
    plan = build_records_plan([build_number_column("x", 4), build_nominal_column("s", 3)], 3, 60, 5, CONCENTRATED)
    (selection,) = plan.selections.values()
    rate = selection.epsilon / selection.spread
    assert rate**2 * plan.axes[1].compute_max_change() * plan.bound_name_scores(1) / 8 <= CONCENTRATED.rho / 2
    assert rate**2 * plan.axes[1].compute_max_change() * plan.bound_name_scores(
        1
    ) / 8 >= CONCENTRATED.rho / 2 * Fraction(999, 1000)


@pytest.mark.parametrize(("dimensions", "bits"), [(2, 4), (3, 6), (6, 2)])
@pytest.mark.parametrize("trials", [400, pytest.param(4000, marks=pytest.mark.soak)])
def test_random_replacements(dimensions: int, bits: int, trials: int) -> None:
    """Many to far corners: no sum of moves exceeds its bound, in one column, in all, or in squares."""
    draw = random.Random(dimensions)
    columns = [build_number_column(f"x{place}", 2**bits) for place in range(dimensions)]
    rows, k = 24, 2
    plan = build_records_plan(columns, bits, rows, k)
    facts, everything = (dimensions, bits, plan.block_count), range(dimensions)
    alone = [bound_chain(*facts, axis) for axis in everything]
    joint, squared = bound_joint_chain(*facts, everything), bound_squared_chain(*facts, everything)
    ends = (0, 2**bits - 1)
    for trial in range(trials):
        if trial % 20 == 0:
            side = ends if trial % 3 else range(2**bits)
            table = [tuple(draw.choice(side) for _ in everything) for _ in range(rows)]
            before = plan.compute_totals(*count_distinct(table))[0]
        other = list(table)
        other[draw.randrange(rows)] = tuple(
            draw.choice(ends) if draw.random() < 0.5 else draw.randrange(2**bits) for _ in everything
        )
        move = np.abs(plan.compute_totals(*count_distinct(other))[0] - before)
        assert (move.sum(axis=0) <= alone).all()
        assert move.sum() <= joint
        assert (move**2).sum() <= squared
        assert (move < 2**bits).all()


def build_longest_chain(dimensions: int, bits: int, steps: int) -> list[int]:
    """The places of a chain of that many steps that is as long as any."""
    cells = compute_curve_cells(np.arange(2 ** (bits * dimensions)), dimensions, bits)
    apart = np.triu(np.abs(cells[:, None] - cells[None]).sum(axis=2))
    best, back = np.zeros(len(cells), dtype=np.int64), []
    for _ in range(steps):
        grown = best[:, None] + np.where(np.triu(np.ones_like(apart)) > 0, apart, -(10**9))
        back.append(grown.argmax(axis=0))
        best = grown.max(axis=0)
    chain = [int(best.argmax())]
    for before in reversed(back):
        chain.append(int(before[chain[-1]]))
    return chain[::-1]


@pytest.mark.parametrize(("dimensions", "bits", "blocks"), [(2, 4, 8), (2, 4, 36), (3, 3, 12), (5, 2, 6)])
def test_no_noise_is_wasted(dimensions: int, bits: int, blocks: int) -> None:
    """A pair of neighbours moves the sums by the whole of the bound: blocks of alike records along a longest chain."""
    cells = compute_curve_cells(np.array(build_longest_chain(dimensions, bits, blocks)), dimensions, bits)
    rows = [tuple(cell) for cell in cells.tolist()]
    plan = build_records_plan(
        [build_number_column(f"x{place}", 2**bits) for place in range(dimensions)], bits, 4 * blocks, 4
    )
    table = [row for row in rows[:-1] for _ in range(4)]
    other = [*table[1:], rows[-1]]
    assert compute_moves(plan, table, other).sum() == bound_joint_chain(dimensions, bits, blocks, range(dimensions))


def test_a_move_may_fill_the_box() -> None:
    """Each block's sums move by at most a width, which the box staircase is made for, and by all of it."""
    columns = [build_number_column("x", 4), build_number_column("y", 4)]
    plan = build_records_plan(columns, 2, 6, 2, box=True)
    assert isinstance(plan.noise, BoxStaircase)
    assert plan.noise.epsilon * plan.block_count == plan.budget.epsilon
    assert plan.noise.widths == (3, 3)
    assert compute_moves(plan, [(0, 0)] * 6, [(0, 0)] * 5 + [(3, 3)]).max() == 3


def test_centroids_per_record_are_not_private() -> None:
    """The boundary record: unchanged itself, its centroid moves by .98 of the width where .01 is claimed for k = 100.

    Sums in the order of blocks, noise made for all of them together, move by no more than the chain.
    """
    table = [(0,)] * 100 + [(99,)] * 100
    other = [(100,), *table[1:]]
    row = 100  # the first record at .99, the same in both tables

    def compute_centroid(records: Records) -> float:
        ranks = np.argsort(np.argsort([value for (value,) in records], kind="stable"), kind="stable")
        label = RankRuns.low_end(200, 100).compute_labels(ranks)
        return float(
            np.mean([value for (value,), row_label in zip(records, label, strict=True) if row_label == label[row]])
        )

    assert abs(compute_centroid(table) - compute_centroid(other)) > 98 > 100 / 100
    plan = build_records_plan([build_number_column("x", 101)], 7, 200, 100)
    assert compute_moves(plan, table, other).sum() <= plan.noise.sensitivity == 127


# Draws


def draw_even_cells(plan: RecordsPlan, rows: int, seed: int = 5) -> tuple[np.ndarray, np.ndarray]:
    draw = np.random.default_rng(seed)
    cells = np.stack([draw.integers(0, axis.grid.cell_count, rows) for axis in plan.axes], axis=1)
    return np.unique(cells, axis=0, return_counts=True)


def test_sums_have_the_noise_they_claim() -> None:
    """Two jaws: a rate a tenth smaller or larger fits worse."""
    plan = build_records_plan([build_number_column("x", 4), build_number_column("y", 4)], 2, 2000, 1)
    cells, counts = draw_even_cells(plan, 2000)
    exact = plan.compute_totals(cells, counts)[0]
    draws = np.concatenate([(plan.measure(cells, counts, SYSTEM) - exact).ravel() for _ in range(30)])
    joint = bound_joint_chain(2, 2, 2000, (0, 1))

    def build_name_law(sensitivity: float):
        return DiscreteLaplace(ONE, Fraction(sensitivity)).probability

    assert_fits(draws, build_name_law(joint), build_name_law(joint * 0.9), build_name_law(joint * 1.1))


def test_the_order_of_the_cells_given_does_not_matter() -> None:
    """Cells come from an engine in any order; a cell given in two parts is one."""
    plan = build_records_plan([build_number_column("x", 8), build_nominal_column("s", 3)], 3, 50, 7)
    cells, counts = draw_even_cells(plan, 50)
    shuffled = np.random.default_rng(1).permutation(len(cells))
    sums, scores = plan.compute_totals(cells, counts)
    shuffled_sums, likewise = plan.compute_totals(cells[shuffled], counts[shuffled])
    assert (sums == shuffled_sums).all()
    assert (scores[1] == likewise[1]).all()


def test_more_names_than_places_still_have_one_order() -> None:
    """Names that share a place on the axis are told apart by their list, whatever order they come in."""
    plan = build_records_plan([build_nominal_column("s", 5), build_number_column("x", 2)], 1, 12, 3)
    assert plan.bound_name_scores(0) == plan.block_count * plan.axes[0].compute_max_change()
    cells = np.array([[name, x] for name in range(5) for x in range(2)])
    counts = np.arange(1, 11)
    for seed in range(5):
        shuffled = np.random.default_rng(seed).permutation(10)
        assert (
            plan.compute_totals(cells, counts)[1][0] == plan.compute_totals(cells[shuffled], counts[shuffled])[1][0]
        ).all()


@pytest.mark.parametrize("rows", [0, 1, 17, 39, 41, 400])
def test_tables_with_more_or_fewer_rows(rows: int) -> None:
    """The size of what leaves is that declared, and one record moves it by no more than the bound."""
    columns = [build_number_column("x", 8), build_number_column("y", 8)]
    plan, draw = build_records_plan(columns, 3, 40, 6), random.Random(rows)
    table = [(draw.randrange(8), draw.randrange(8)) for _ in range(rows)]
    cells, counts = count_distinct(table) if table else (np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64))
    outputs = plan.measure(cells, counts, SYSTEM)
    assert outputs.shape == (6, 2)
    assert {len(column) for column in plan.estimate_records(outputs).values()} == {40}
    for _ in range(50 if table else 0):
        other = [(draw.randrange(8), draw.randrange(8)), *table[1:]]
        assert compute_moves(plan, table, other).sum() <= bound_joint_chain(2, 3, 6, (0, 1))


def test_a_table_without_rows_lies_at_the_end_of_the_curve() -> None:
    """What is missing is padded with the last cell, which is public."""
    plan = build_records_plan([build_number_column("x", 8), build_number_column("y", 8)], 3, 10, 5)
    sums = plan.compute_totals(np.empty((0, 2), dtype=np.int64), np.empty(0, dtype=np.int64))[0]
    assert sums.tolist() == [[35, 0], [35, 0]]


# Files


@pytest.mark.parametrize("far", [-(2**62), 0, 2**62])
def test_codes_are_in_the_domain_whatever_was_drawn(far: int) -> None:
    """Noise of any size becomes a code between the bounds."""
    columns = [Column("x", "integer", -5, 1000, missing=0), build_number_column("y", 3), build_nominal_column("s", 4)]
    plan = build_records_plan(columns, 4, 21, 5)
    far_sums = np.full((plan.block_count, 3), far)
    far_sums[:, 2] = 3
    released = plan.estimate_records(far_sums)
    assert list(released) == ["x", "y", "s"]
    for column in columns:
        assert len(released[column.name]) == 21
        assert column.lower <= released[column.name].min() <= released[column.name].max() <= column.upper


def test_without_noise_centroids_come_back() -> None:
    """Records of a block are replaced by their mean, in the order of blocks and each as often as its block is large."""
    plan = build_records_plan([build_number_column("x", 16), build_nominal_column("s", 3)], 4, 7, 3)
    table = [(0, 0), (1, 0), (2, 0), (15, 2), (15, 2), (14, 2), (13, 2)]
    sums, scores = plan.compute_totals(*count_distinct(table))
    outputs = np.column_stack((sums[:, 0], scores[1].argmax(axis=1)))
    released = plan.estimate_records(outputs)
    assert released["x"].tolist() == [1] * 3 + [14] * 4
    assert released["s"].tolist() == [0] * 3 + [2] * 4


def test_wide_cells_give_codes_between_their_middles() -> None:
    """A mean of half a cell is a code at that place, not the middle of a cell."""
    plan = build_records_plan([Column("x", "integer", 100, 1099, missing=100)], 2, 2, 2)
    assert [int(plan.estimate_records(np.array([[total]]))["x"][0]) for total in range(7)] == [
        225,
        350,
        475,
        600,
        725,
        850,
        975,
    ]


def test_impossible_combinations_never_appear() -> None:
    """The nearest possible centroid stands in, or where none is possible a record that is known to be."""
    plan = build_records_plan([build_number_column("x", 8), build_number_column("y", 8)], 3, 9, 3)

    def is_below(codes: np.ndarray) -> np.ndarray:
        return codes[:, 0] < codes[:, 1]

    outputs = np.array([[0, 21], [21, 20], [9, 15]])
    released = plan.estimate_records(outputs, is_below, np.array([1, 2]))
    assert [released["x"].tolist(), released["y"].tolist()] == [[0] * 3 + [3] * 6, [7] * 3 + [5] * 6]
    lone = plan.estimate_records(np.array([[21, 0]] * 3), is_below, np.array([1, 2]))
    assert [set(lone["x"]), set(lone["y"])] == [{1}, {2}]


# The planner


def measure_errors(plan: RecordsPlan, codes: np.ndarray) -> list[float]:
    """How far each column's distribution is off, W1 in widths or total variation, as the mean of three files."""
    cells, counts = np.unique(codes // np.array([key.width for key in plan.keys]), axis=0, return_counts=True)
    errors = np.zeros(len(plan.axes))
    for _ in range(3):
        released = plan.estimate_records(plan.measure(cells, counts, SYSTEM))
        for place, axis in enumerate(plan.axes):
            released_column, column_codes = released[axis.grid.column], codes[:, place]
            sizes = (
                [np.bincount(each, minlength=axis.grid.cell_count) for each in (released_column, column_codes)]
                if axis.is_nominal
                else []
            )
            off = (
                np.abs(sizes[0] - sizes[1]).sum() / 2
                if sizes
                else np.abs(np.sort(released_column) - np.sort(column_codes)).sum()
            )
            errors[place] += off / len(codes) / (1 if axis.is_nominal else axis.grid.upper)
    return (errors / 3).tolist()


@cache
def plan_shared(columns: tuple[Column, ...], rows: int, loss: PrivacyBudget) -> RecordsPlan:
    """The plan of several tests, made once."""
    return plan_records(columns, rows, loss)


MIXED = [
    *(build_number_column(f"x{place}", 300) for place in range(4)),
    *(build_nominal_column(f"n{place}", size) for place, size in enumerate((2, 8, 40, 2, 41))),
    build_number_column("z", 7),
    build_number_column("w", 4000),
]


@pytest.mark.parametrize(
    ("columns", "rows", "loss"),
    [
        ([build_number_column("x", 1001), build_number_column("y", 500)], 30_000, PURE),
        ([build_number_column(f"x{place}", 1001) for place in range(4)], 1080, PrivacyBudget(Fraction(10))),
        ([build_number_column(f"x{place}", 300) for place in range(3)], 30_000, PrivacyBudget(rho=Fraction(1, 40))),
        ([build_number_column("x", 1001), build_number_column("y", 1001), build_nominal_column("s", 12)], 30_000, PURE),
        ([build_number_column(f"x{place}", 64) for place in range(7)], 30_000, PURE),
        (MIXED, 50_000, PURE),
    ],
)
def test_the_stated_error_is_near_what_is_seen(columns: Sequence[Column], rows: int, loss: PrivacyBudget) -> None:
    """Of even rows the mean within a factor 2, of skewed ones perhaps less; no column over 4 times what was said."""
    plan = plan_shared(tuple(columns), rows, loss)
    assert sum(plan.shares) == 1
    draw = np.random.default_rng(3)
    sizes = np.array([column.size for column in columns])
    shape = rows, len(columns)
    for places, least in ((draw.random(shape), 0.5), (draw.exponential(0.15, shape), 0.3)):
        mean_errors = measure_errors(plan, np.minimum(places * sizes, sizes - 1).astype(np.int64))
        assert least * plan.error < np.mean(mean_errors) < 2 * plan.error
        assert all(
            seen_error < 4 * stated_error for seen_error, stated_error in zip(mean_errors, plan.errors, strict=True)
        )


def test_columns_that_are_alike_are_told_alike() -> None:
    """Wherever they stand, and no column of names is better than so few blocks can make it."""
    plan = plan_shared(tuple(MIXED), 50_000, PURE)
    numbers, coins = plan.errors[:4], [plan.errors[4], plan.errors[7]]
    assert max(numbers) < 1.5 * min(numbers)
    assert max(coins) < 3 * min(coins)
    assert min(coins) > 0.01
    assert plan.block_count < 40
    assert min(plan.errors[6], plan.errors[8]) > (1 - plan.block_count / 40) / 2


def test_the_noise_is_that_which_is_better() -> None:
    """Few blocks of many columns move like boxes; along the plane's curve sums are better; rho is Gaussian."""
    many, few = (
        tuple(build_number_column(f"x{place}", 64) for place in range(7)),
        (build_number_column("x", 64), build_number_column("y", 64)),
    )
    assert plan_shared(many, 30_000, PURE).uses_box_staircase
    assert not plan_shared(few, 30_000, PURE).uses_box_staircase
    assert isinstance(plan_shared(few, 30_000, CONCENTRATED).noise, DiscreteGaussian)
    assert "Gaussian" in plan_shared(few, 30_000, CONCENTRATED).name


def test_the_box_is_chosen_where_it_has_less_noise() -> None:
    """The rule of thumb agrees with the laws themselves, here where they are far apart."""
    columns = [build_number_column(f"x{place}", 8) for place in range(5)]
    for blocks, better in ((2, True), (128, False)):
        boxed, single = (
            build_records_plan(columns, 3, 2 * blocks, 2, box=True),
            build_records_plan(columns, 3, 2 * blocks, 2),
        )
        assert isinstance(boxed.noise, BoxStaircase)
        assert isinstance(single.noise, DiscreteLaplace)
        assert (boxed.noise.expected_error()[0] < single.noise.expected_error()) is better
        assert plan_records(columns, 2 * blocks, PURE, k=2).uses_box_staircase is better


@pytest.mark.parametrize("loss", [PURE, CONCENTRATED])
@pytest.mark.parametrize(
    "columns",
    [
        [build_nominal_column("s", 2), build_nominal_column("t", 5)],
        [build_nominal_column("s", 1), build_number_column("x", 9)],
        [build_number_column("x", 1), build_number_column("y", 9)],
        [Column("b", "boolean", 0, 1, categories=("false", "true"), missing=0), build_number_column("x", 1)],
        [Column("d", "date", 10_000, 20_000, missing=10_000), Column("n", "number", -5, 5, Fraction(1, 2), missing=0)],
        [Column("o", "ordinal", 0, 2, categories=("low", "mid", "high"), missing=0), build_nominal_column("s", 200)],
    ],
)
def test_columns_of_every_kind(columns: Sequence[Column], loss: PrivacyBudget) -> None:
    """Names alone, one value only, truth values, dates, steps, places: planned, drawn and in their domains."""
    plan = plan_records(columns, 300, loss)
    released = plan.estimate_records(plan.measure(*draw_even_cells(plan, 300), SYSTEM))
    assert sum(plan.shares) == 1
    for column in columns:
        assert column.lower <= released[column.name].min() <= released[column.name].max() <= column.upper
        assert len(released[column.name]) == 300


def test_names_lie_beside_their_siblings() -> None:
    """The order of names on the curve is the taxonomy's depth-first one, spread over the whole side."""
    taxonomy = Taxonomy.of({"a": "u", "b": "v", "c": "u", "d": "v", "u": "r", "v": "r"})
    axis = CurveAxis.of(build_nominal_column("s", 4, taxonomy), 4)
    assert axis.compute_places(4).tolist() == [0, 10, 5, 15]
    assert axis.distances[0][2] < axis.distances[0][1] == axis.distances[0][3]
    assert axis.compute_max_change() == axis.distances[0][1] * 2
    assert axis.compute_slope(4) == max(Fraction(2 * axis.distances[0][2], 5), Fraction(2 * axis.distances[0][1], 5))


def test_k_may_be_given() -> None:
    """Then it is that, and the rest is chosen."""
    plan = plan_records([build_number_column("x", 64), build_number_column("y", 64)], 1000, PURE, k=30)
    assert (plan.k, plan.block_count, int(plan.compute_sizes().sum())) == (30, 33, 1000)


def test_more_epsilon_never_means_more_error() -> None:
    """And more rows neither."""
    columns = [build_number_column("x", 512), build_number_column("y", 512), build_nominal_column("s", 3)]
    errors = [
        plan_records(columns, 5000, PrivacyBudget(Fraction(epsilon))).error for epsilon in ("0.01", "0.1", "1", "10")
    ]
    assert errors == sorted(errors, reverse=True)
    errors = [plan_records(columns, rows, PURE).error for rows in (50, 500, 5000, 50_000)]
    assert errors == sorted(errors, reverse=True)


@pytest.mark.parametrize(
    ("columns", "k", "message"),
    [
        ([Column("x", "nominal", private_keys=True, missing=0)], None, "not public"),
        ([build_nominal_column("s", 300)], None, "at most 256"),
        ([build_number_column(f"x{place}", 4) for place in range(13)], None, "1 to 12 columns, got 13"),
        ([], None, "1 to 12 columns"),
        ([build_number_column("x", 4)], 101, "between 1 and the 100 rows"),
    ],
)
def test_what_cannot_be_planned_is_refused(columns: Sequence[Column], k: int | None, message: str) -> None:
    """One sentence that says what to do."""
    with pytest.raises(InvalidInput, match=message):
        plan_records(columns, 100, PURE, k)


def test_plans_are_checked_at_birth() -> None:
    """Shares that are too many, too large or missing, and a box where there is no pure loss, make no plan."""
    axis, name = CurveAxis.of(build_number_column("x", 4), 2), CurveAxis.of(build_nominal_column("s", 2), 2)
    for axes, shares in (((axis,), (ONE, ONE)), ((axis,), (2 * ONE,)), ((axis, name), (ONE, 0 * ONE)), ((), (ONE,))):
        with pytest.raises(InvalidInput, match="share"):
            RecordsPlan(axes, 2, 10, 2, PURE, shares)
    with pytest.raises(InvalidInput, match="box staircase"):
        RecordsPlan((axis,), 2, 10, 2, CONCENTRATED, (ONE,), uses_box_staircase=True)
    with pytest.raises(InvalidInput, match="between 1 and"):
        RecordsPlan((axis,), 2, 10, 11, PURE, (ONE,))


def test_a_missing_value_counts_as_the_middle() -> None:
    """Of a number's domain, or the name that is least far from all others: public, and the same for every table."""
    assert CurveAxis.of(Column("x", "integer", 0, 8), 4).middle == 4
    apart = Taxonomy.of({"a": "r", "b": "u", "c": "u", "d": "u", "u": "r"})
    assert CurveAxis.of(build_nominal_column("s", 4, apart), 2).middle == 1
