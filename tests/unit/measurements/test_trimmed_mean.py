"""The mean of ranks a..b: private at the width of the domain, as far off as it says, and refused where it is not."""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import cache
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from numpy.typing import NDArray

from discreet import Custodian, InvalidInput, Unsupported
from discreet.custodian import preview_question
from discreet.custodian.measure import ExactInputs, read_exact_inputs, sample_noisy_outputs
from discreet.formatting import format_number
from discreet.measurements.additive import AdditiveNoise
from discreet.measurements.candidate_grid import CandidateGrid
from discreet.measurements.selection import CandidateSelection
from discreet.measurements.trimmed_mean import (
    RankMean,
    Ranks,
    compute_rank_error,
    compute_rank_window,
    compute_spread_error,
    find_target_rank,
    select_rank_mean,
)
from discreet.mechanisms.discrete_laplace import DiscreteLaplace
from discreet.mechanisms.entropy import SYSTEM
from discreet.mechanisms.exponential_mechanism import Selection
from discreet.mechanisms.permute_and_flip import PermuteAndFlip
from discreet.mechanisms.quantile import compute_rank_scores
from discreet.mechanisms.staircase import Staircase
from discreet.planner.options import PlanRequest, build_query_options
from discreet.planner.plan import Plan
from discreet.planner.planner import plan, replan_query
from discreet.query import parse_sql, to_sql
from discreet.query.query import Aggregate, format_canonical_query
from discreet.schema import Column, Schema
from discreet.sources.duckdb import DuckDBSource
from discreet.sources.ingest import register_duckdb, register_memory
from discreet.sources.memory import MemorySource
from discreet.verification import all_neighbors, all_tables, assert_fits
from support.command_line import run_successfully
from support.small_tables import get_estimator, schema

ONE, HALF, TENTH = Fraction(1), Fraction(1, 2), Fraction(1, 10)
AGE = Column("age", "integer", lower=17, upper=90, missing=17)
FINE = Column("fine", "number", lower=-5, upper=199_994, step=HALF, missing=0)
DAY = Column("day", "date", lower=10, upper=400, missing=10)
GAP = Column("gap", "integer", lower=0, upper=9)
SEX = Column("sex", "nominal", upper=1, categories=("F", "M"), missing=0)
MEDIAN = Aggregate("quantile", "age", (HALF,))


def declare_ranked_columns(number: int, **changes: object) -> Schema:
    columns = {column.name: column for column in (AGE, FINE, DAY, GAP, SEX)}
    return replace(schema("replace-one", 1, number, columns=columns), **changes)  # type: ignore[arg-type]


def count_ages(table: Sequence[int], points: int) -> NDArray[np.int64]:
    return np.bincount(np.array(table, dtype=np.int64), minlength=points)


def build_ranks(points: int, first: int, last: int) -> Ranks:
    column = Column("x", "integer", lower=0, upper=points - 1, missing=0)
    return Ranks(CandidateGrid.of(column, points), first, last)


def plan_statistic(text: str, rows: int = 1000, epsilon: object = 1, **options: object) -> Plan:
    declared_schema = declare_ranked_columns(rows)
    return plan(declared_schema, parse_sql(f"SELECT {text} FROM t", declared_schema), epsilon, **options)


def build_rank_mean(text: str, rows: int, epsilon: object = 1) -> RankMean:
    """The mean of ranks that stands for one rank, chosen or not."""
    selection = plan_statistic(text, rows, epsilon).measurements[0]
    assert isinstance(selection, CandidateSelection)
    rank_means = [
        measurement.mechanism
        for measurement in (selection, selection.rival)
        if measurement is not None and isinstance(measurement.mechanism, RankMean)
    ]
    assert len(rank_means) == 1
    return rank_means[0]


# --- what one row can change


@pytest.mark.parametrize(("points", "rows"), [(2, 3), (3, 4), (4, 3), (5, 2)])
def test_every_neighbour_of_every_small_table_is_within_epsilon(points: int, rows: int) -> None:
    """Exactly: the log-ratio of the laws is rate times the distance of the sums, and its largest value is epsilon."""
    for first in range(1, rows + 1):
        for last in range(first, rows + 1):
            mechanism_ranks, worst = build_ranks(points, first, last), Fraction(0)
            noise = RankMean.of(mechanism_ranks, first, rows, ONE).noise
            for table in all_tables(range(points), rows):
                here = mechanism_ranks.sum_positions(count_ages(table, points))
                assert here == sum(sorted(table)[first - 1 : last])
                for other in all_neighbors(table, range(points), "replace-one"):
                    worst = max(
                        worst, noise.rate * abs(here - mechanism_ranks.sum_positions(count_ages(other, points)))
                    )
            assert worst == noise.epsilon == ONE


@pytest.mark.parametrize("present", [400, 250, 3, 700])
def test_random_replacements_stay_within_the_width(present: int) -> None:
    """2,500 each, ends of the domain often; also where the table has other rows than the 400 declared."""
    chance, points = random.Random(present), 300
    for _ in range(25):
        first = chance.randint(1, 400)
        mechanism_ranks = build_ranks(points, first, chance.randint(first, 400))
        table = [chance.choice((0, points - 1, chance.randrange(points))) for _ in range(present)]
        before = mechanism_ranks.sum_positions(count_ages(table, points))
        for _ in range(100):
            position, value = chance.randrange(present), chance.choice((0, points - 1, chance.randrange(points)))
            after = mechanism_ranks.sum_positions(
                count_ages([*table[:position], value, *table[position + 1 :]], points)
            )
            assert abs(after - before) <= abs(value - table[position]) <= mechanism_ranks.sensitivity


@pytest.mark.parametrize(("first", "last"), [(1, 1), (3, 9), (1, 20), (20, 20)])
def test_a_pair_of_tables_reaches_the_bound(first: int, last: int) -> None:
    """So that no noise is wasted: the row at the first rank goes from one end to the other."""
    mechanism_ranks, distance_above = build_ranks(50, first, last), 20 - first
    low = count_ages([0] * first + [49] * distance_above, 50)
    high = count_ages([0] * (first - 1) + [49] * (distance_above + 1), 50)
    assert mechanism_ranks.sum_positions(high) - mechanism_ranks.sum_positions(low) == mechanism_ranks.sensitivity == 49


def test_rows_that_are_not_there_are_at_the_end() -> None:
    """Nothing raises or shows, whatever the number of rows."""
    mechanism_ranks = build_ranks(10, 2, 4)
    assert mechanism_ranks.sum_positions(count_ages([], 10)) == 27
    assert mechanism_ranks.sum_positions(count_ages([5, 3], 10)) == 5 + 9 + 9
    assert mechanism_ranks.sum_positions(count_ages([1, 2, 3, 4, 5, 6], 10)) == 2 + 3 + 4
    alone = build_ranks(1, 1, 3)
    assert (alone.sum_positions(count_ages([0, 0, 0], 1)), alone.sensitivity) == (0, 1)


# --- why counts, modes and variances are not asked of microaggregated values


def compute_centroids(table: Sequence[int], k: int) -> list[Fraction]:
    ordered = sorted(table)
    blocks = [ordered[index : index + k] for index in range(0, len(ordered), k)]
    return [Fraction(sum(block), len(block)) for block in blocks for _ in block]


def compute_worst_centroid_move(f: Callable[[list[Fraction]], Fraction], k: int, rows: int, width: int) -> Fraction:
    """The farthest that one replaced record moves f of the centroids, over all tables of two values and their steps."""
    domain, worst = (0, 1, width), Fraction(0)
    for table in all_tables(domain, rows):
        here = f(compute_centroids(table, k))
        worst = max(
            worst,
            *(abs(here - f(compute_centroids(other, k))) for other in all_neighbors(table, domain, "replace-one")),
        )
    return worst


def count_above_half(values: list[Fraction]) -> Fraction:
    return Fraction(sum(value > Fraction(1, 2) for value in values))


def find_mode(values: list[Fraction]) -> Fraction:
    counts = Counter(values)
    return min(counts, key=lambda value: (-counts[value], value))


def sum_square_deviations(values: list[Fraction]) -> Fraction:
    mean = sum(values, Fraction(0)) / len(values)
    return sum(((value - mean) ** 2 for value in values), Fraction(0))


def test_a_count_of_microaggregated_values_moves_by_whole_blocks() -> None:
    """One record takes the mean of its block over the bound, and all its rows: k at least, where a row moves 1."""
    moves = [compute_worst_centroid_move(count_above_half, k, 12, 8) for k in (1, 2, 3, 4, 6)]
    assert moves[0] == 1
    assert all(move >= k for move, k in zip(moves, (1, 2, 3, 4, 6), strict=True))
    assert all(one < two for one, two in pairwise(moves))


def test_a_mode_of_microaggregated_values_moves_across_the_domain() -> None:
    """Whatever k: two equal means come apart, and the most frequent one is at the other end."""
    assert [compute_worst_centroid_move(find_mode, k, 12, 8) for k in (1, 2, 3)] == [8, 8, 8]


def test_a_variance_of_microaggregated_values_moves_no_less_than_that_of_the_rows() -> None:
    """Of few rows n VAR moves at least as far for every k; of many it grows as W^2 (2 - 1/k), instead of falling."""
    moves = [compute_worst_centroid_move(sum_square_deviations, k, 8, 8) for k in (1, 2, 4)]
    assert min(moves) == moves[0] == 56
    for k in (1, 2, 5, 10):
        table = [0] * (1000 - k) + [8] * k
        moved = sum_square_deviations(compute_centroids(table, k)) - sum_square_deviations(
            compute_centroids([0, *table[:-1]], k)
        )
        assert float(moved) == pytest.approx(64 * (2 - 1 / k), rel=0.02)


@pytest.mark.parametrize("text", ["MODE(age)", "VAR(age)", "COUNT(*) FILTER (WHERE age > 40)"])
def test_other_questions_are_never_answered_by_ranks(text: str) -> None:
    assert not any("ranks " in candidate.mechanism for candidate in plan_statistic(text, 20).candidates)


# --- how far off


def test_the_spread_of_even_rows_is_exact() -> None:
    """Against the moments of uniform order statistics: E[U_i U_j] = i (j + 1) / ((n + 1)(n + 2)) for i <= j."""
    for rows in (1, 2, 5, 8):
        for first in range(1, rows + 1):
            for last in range(first, rows + 1):
                for wanted in range(first, last + 1):
                    weights = {index: Fraction(1, last - first + 1) for index in range(first, last + 1)}
                    weights[wanted] -= 1
                    square = sum(
                        one * two * min(i, j) * (max(i, j) + 1)
                        for i, one in weights.items()
                        for j, two in weights.items()
                    ) / Fraction((rows + 1) * (rows + 2))
                    assert compute_spread_error(first, last, wanted, rows) ** 2 == pytest.approx(
                        float(square), abs=1e-15
                    )


@cache
def draw_even_codes(lower: int, upper: int, rows: int) -> NDArray[np.int64]:
    """20,000 tables of so many rows, each in order."""
    generator = np.random.Generator(np.random.PCG64(7))
    return np.sort(generator.integers(lower, upper + 1, (20_000, rows)), axis=1)


@pytest.mark.parametrize("text", ["MEDIAN(fine)", "QUANTILE(fine, 0.9)", "MIN(fine)", "MAX(fine)"])
def test_even_rows_are_as_far_off_as_expected(text: str) -> None:
    """Rows even at random, 20,000 times: within 4 % of what was told, for the rank that was asked for."""
    mechanism = build_rank_mean(text, 300)
    column = mechanism.ranks.candidates.column
    codes = draw_even_codes(column.lower, column.upper, 300)
    places = (codes - column.lower) // mechanism.ranks.candidates.width
    sums = places[:, mechanism.ranks.first - 1 : mechanism.ranks.last].sum(axis=1)
    noisy_sums = sums + np.array(mechanism.noise.sample_many(20_000))
    slope, offset = float(mechanism.ranks.estimate.slope), float(mechanism.ranks.estimate.offset)
    off = slope * noisy_sums + offset - codes[:, mechanism.target_rank - 1] * float(column.step)
    assert math.sqrt(float((off**2).mean())) == pytest.approx(mechanism.expected_error(), rel=0.04)


def test_a_trimmed_mean_is_as_far_off_as_expected() -> None:
    """By the noise it is drawn with, and the interval holds the exact number as often as it says."""
    query_plan = plan_statistic("TRIMMED_MEAN(age, 0.1)", 40)
    (measurement,) = query_plan.measurements
    assert isinstance(measurement, AdditiveNoise)
    noisy_results = sample_noisy_outputs(query_plan, ExactInputs([()] * 20_000, [[(1234,)] * 20_000]))
    truth = float(measurement.value((1234,)))
    slope, offset = float(measurement.linear_query.estimate.slope), float(measurement.linear_query.estimate.offset)  # type: ignore[attr-defined]
    values = slope * np.array([numbers[0][0] for numbers in noisy_results.numbers]) + offset
    assert math.sqrt(float(((values - truth) ** 2).mean())) == pytest.approx(query_plan.expected_error or 0, rel=0.03)
    reach = get_estimator(query_plan).half_width(0.95)
    assert 0.945 < float((np.abs(values - truth) <= reach).mean()) < 0.96


def test_what_is_drawn_for_one_rank_has_the_noise_it_should() -> None:
    """Both jaws, on what `release` of a measurement gives; the noise of 9/10 or 11/10 of the width does not fit."""
    mechanism = RankMean.of(build_ranks(12, 2, 5), 3, 8, ONE)
    counts = count_ages([0, 1, 4, 4, 7, 9, 11, 11], 12)
    draws = [mechanism.answer_counts(counts) - mechanism.ranks.sum_positions(counts) for _ in range(30_000)]
    laws = [DiscreteLaplace(Fraction(10, width), 11).probability for width in (10, 9, 11)]
    assert_fits(draws, *laws)


def test_what_is_drawn_for_a_trimmed_mean_has_the_noise_it_should() -> None:
    """Both jaws, through the custodian's own draw."""
    query_plan = plan_statistic("TRIMMED_MEAN(age, 0.25)", 16)
    noisy_results = sample_noisy_outputs(query_plan, ExactInputs([()] * 100_000, [[(50,)] * 100_000]))
    laws = [Staircase.least_variance(Fraction(10, width), 73).probability for width in (10, 9, 11)]
    assert query_plan.mechanism == "mean of ranks 5..12 by staircase"
    assert_fits([numbers[0][0] - 50 for numbers in noisy_results.numbers], *laws)


# --- what is chosen


def test_ranks_lie_round_the_one_wanted() -> None:
    assert [compute_rank_window(count, 5, 9) for count in (1, 2, 3, 8, 9)] == [(5, 5), (5, 6), (4, 6), (2, 9), (1, 9)]
    assert (compute_rank_window(4, 1, 9), compute_rank_window(4, 9, 9), compute_rank_window(4, 8, 9)) == (
        (1, 4),
        (6, 9),
        (6, 9),
    )
    assert [find_target_rank(Aggregate(name, "age"), 9) for name in ("min", "max")] == [1, 9]  # type: ignore[arg-type]
    orders = (Fraction(1, 10**6), HALF, Fraction(9, 10))
    assert [find_target_rank(Aggregate("quantile", "age", (q,)), 10) for q in orders] == [1, 5, 9]


@pytest.mark.parametrize(("rows", "epsilon"), [(50, ONE), (1000, ONE), (1000, TENTH), (10**6, Fraction(3))])
@pytest.mark.parametrize("function", ["quantile", "min", "max"])
def test_no_other_number_of_ranks_is_clearly_better(function: str, rows: int, epsilon: Fraction) -> None:
    """The number of ranks is the best of all within a thousandth; from rows, epsilon and width alone."""
    aggregate = Aggregate(function, "age", (HALF,) if function == "quantile" else ())  # type: ignore[arg-type]
    candidates = CandidateGrid.of(AGE, 100)
    mechanism = select_rank_mean(aggregate, candidates, rows, epsilon, "")
    tried = range(1, rows + 1) if rows <= 1000 else random.Random(3).sample(range(1, rows + 1), 2000)
    others = (Ranks(candidates, *compute_rank_window(count, mechanism.target_rank, rows)) for count in tried)
    least = min(RankMean.of(other, mechanism.target_rank, rows, epsilon).expected_error() for other in others)
    assert mechanism.expected_error() <= 1.001 * least


def test_a_choice_by_rank_is_judged_as_it_is_on_even_rows() -> None:
    """The bound is the error of the exponential mechanism, and permute-and-flip's own is at most that."""
    rule, column = Selection.of(1, 2), Column("x", "integer", lower=0, upper=19, missing=0)
    scores = compute_rank_scores(np.ones(20, dtype=np.int64), HALF)
    law = [float(share) for share in PermuteAndFlip(rule).probabilities(scores)]
    error = math.sqrt(sum(share * (index - 9.5) ** 2 for index, share in enumerate(law)))
    bound = compute_rank_error(CandidateGrid.of(column, 20), 10, 20, rule, 2)
    assert 0.8 * bound < error < 1.05 * bound


@pytest.mark.parametrize(
    ("rows", "epsilon", "taken"),
    [(12, 1, True), (120, 0.1, True), (1000, 0.1, False), (1000, 1, False), (5, 0.1, False)],
)
def test_a_median_of_few_rows_is_told_by_a_mean_of_ranks(rows: int, epsilon: object, taken: bool) -> None:
    """Where it is clearly nearer on even rows and its ranks are those a choice by rank might hit; always listed."""
    query_plan = plan_statistic("MEDIAN(fine)", rows, epsilon)
    listed = {candidate.mechanism.split(" of ranks ")[0]: candidate for candidate in query_plan.candidates}
    assert set(listed) == {"mean", "permute-and-flip on ranks"}
    assert listed["mean"].chosen is taken
    assert (listed["mean"].expected_error is None) is not taken
    assert listed["permute-and-flip on ranks"].expected_error is None
    assert query_plan.mechanism.startswith("mean of ranks 1..") is taken


SHAPES: dict[str, Callable[[np.random.Generator], NDArray[np.float64]]] = {
    "even": lambda chance: chance.random(12),
    "skewed": lambda chance: chance.lognormal(8.5, 0.6, 12) / 200_000,
    "exponential": lambda chance: chance.exponential(0.2, 12),
    "narrow": lambda chance: chance.normal(0.5, 0.01, 12),
    "at both ends": lambda chance: (chance.random(12) < 0.3) * 0.98 + chance.random(12) / 50,
}


@pytest.mark.parametrize("shape", SHAPES)
def test_where_it_is_chosen_it_is_nearer_whatever_the_rows(shape: str) -> None:
    """Of 12 rows at epsilon 1, chosen for even ones: on other rows too it is nearer to the median, over 400 draws."""
    (mean,) = plan_statistic("MEDIAN(fine)", 12).measurements
    assert isinstance(mean, CandidateSelection)
    assert mean.rival is not None
    chance, off = np.random.Generator(np.random.PCG64(1)), []
    for _ in range(400):
        codes = np.sort((np.clip(SHAPES[shape](chance), 0, 1) * (FINE.size - 1)).astype(np.int64))
        counts = count_ages(list(codes // mean.candidates.width), mean.candidates.count)
        estimates = [
            float(measurement.values(measurement.measure([counts], SYSTEM)[0])[0]) for measurement in (mean, mean.rival)
        ]  # type: ignore[arg-type]
        off.append([value - float((codes[5] + FINE.lower) * FINE.step) for value in estimates])
    by_mean, by_rank = np.sqrt((np.array(off) ** 2).mean(axis=0))
    assert by_mean < 0.95 * by_rank


@pytest.mark.parametrize("text", ["MIN(age)", "MAX(age)", "QUANTILE(age, 0.25)", "MAX(day)"])
def test_extremes_and_quantiles_have_it_beside_them(text: str) -> None:
    named = [candidate.mechanism for candidate in plan_statistic(text).candidates if not candidate.chosen]
    assert len(named) == 1
    assert named[0].startswith("mean of ranks ")


@pytest.mark.parametrize(
    ("text", "options"),
    [
        ("MEDIAN(age)", {"prior": "normal(50, 5)"}),
        ("MEDIAN(age)", {"interval": True}),
        ("MEDIAN(age)", {"distance": "continuous"}),
        ("MAX(age)", {"prior": "normal(80, 2)"}),
        ("MEDIAN(gap)", {}),
        ("SECOND_MAX(age)", {}),
        ("QUANTILE(age, 0.25, 0.75)", {}),
        ("MEDIAN(age) FROM t WHERE sex = 'F' --", {}),
        ("MEDIAN(age), sex FROM t GROUP BY sex --", {}),
    ],
)
def test_it_does_not_stand_for_what_it_cannot(text: str, options: dict[str, object]) -> None:
    """A prior, an interval or a distance ask for other ways; elsewhere the number of values is not public."""
    declared_schema = declare_ranked_columns(12)
    query = parse_sql(f"SELECT {text}" if text.endswith("--") else f"SELECT {text} FROM t", declared_schema)
    assert not any(
        "mean of ranks" in candidate.mechanism for candidate in plan(declared_schema, query, 1, **options).candidates
    )


def test_a_mean_that_stands_for_a_rank_says_so_and_has_no_interval() -> None:
    """What is known is how far it is from the mean of the ranks, not from the rank."""
    (measurement,) = plan_statistic("MEDIAN(fine)", 12).measurements
    assert isinstance(measurement, CandidateSelection)
    assert isinstance(measurement.mechanism, RankMean)
    assert measurement.describe_accuracy(0.95).endswith(
        "how far that mean is from the value of rank 6 depends on the rows"
    )
    assert " of the mean of ranks 1..12 with a probability of at least 95 %" in measurement.describe_accuracy(0.95)
    assert (
        measurement.bracket_values((5,)),
        measurement.posterior((5,)),
        measurement.get_stated_distribution(),
        measurement.uses_prior,
    ) == (
        None,
        None,
        None,
        False,
    )
    assert measurement.values((12 * 100,)) == (
        Fraction(-5 + 100 * measurement.candidates.width, 2) + Fraction(measurement.candidates.width - 1, 4),
    )
    assert measurement.values((-(10**9),)) == (Fraction(-5, 2),)


def test_a_mean_of_dates_is_a_day() -> None:
    mechanism = RankMean.of(Ranks(CandidateGrid.of(DAY, 1000), 2, 3), 2, 5, ONE)
    assert mechanism.value(2 * 4 + 1) == DAY.decode(10 + 5)
    assert mechanism.describe_accuracy("surely", 0.95).split(" of the ")[0].endswith(" days")


def test_a_stored_answer_is_read_by_the_ranks_it_was_drawn_with() -> None:
    """Also at an epsilon whose own best ranks would be others, or that would choose by rank."""
    query_plan = plan_statistic("MEDIAN(fine)", 12)
    for epsilon in (TENTH, Fraction(2), Fraction(50)):
        replanned = replan_query(query_plan, PlanRequest(epsilon=epsilon))
        assert replanned.mechanism == query_plan.mechanism == "mean of ranks 1..12 by discrete Laplace"
        assert replanned.build_question_key() == query_plan.build_question_key()
    ranked = plan_statistic("MEDIAN(fine)", 12, 50)
    assert replan_query(ranked, PlanRequest(epsilon=1)).mechanism == ranked.mechanism == "permute-and-flip on ranks"


# --- TRIMMED_MEAN


@pytest.mark.parametrize(
    ("rows", "share", "name"), [(1000, "0.1", "101..900"), (7, "0.1", "1..7"), (7, "0.3", "3..5"), (2, "0.49", "1..2")]
)
def test_a_trimmed_mean_leaves_out_whole_rows(rows: int, share: str, name: str) -> None:
    assert plan_statistic(f"TRIMMED_MEAN(age, {share})", rows, 5).mechanism.startswith(f"mean of ranks {name} by ")


def test_a_trimmed_mean_is_a_total_like_others() -> None:
    """It takes a prior, an accuracy, a delta and a noise scale, and has an interval."""
    with_prior = plan_statistic("TRIMMED_MEAN(age, 0.1)", 100, prior="normal(50, 0.5)")
    assert (with_prior.expected_error or 9) < 0.5
    (measurement,) = with_prior.measurements
    assert isinstance(measurement, AdditiveNoise)
    assert with_prior.grid_prior is not None
    assert get_estimator(with_prior).posterior(with_prior.grid_prior, (30 * 80,)).mean() < 50
    near = plan_statistic("TRIMMED_MEAN(age, 0.1)", 100, None, accuracy="±1 at 95%")
    assert get_estimator(near).half_width(0.95) <= 1  # type: ignore[arg-type]
    several = ", ".join(f"TRIMMED_MEAN(age, 0.{index})" for index in range(10, 40))
    names = [measurement.name for measurement in plan_statistic(several, 1000, delta=TENTH**3).measurements]
    assert len(names) == 30
    assert all(name.endswith(" by discrete Gaussian") for name in names)
    scaled = plan_statistic("TRIMMED_MEAN(age, 0.1)", 100, None, noise_scale=HALF)
    assert scaled.epsilon == Fraction(73, 80) / HALF


def test_a_trimmed_mean_of_wide_bins_tells_how_wide() -> None:
    """200,000 codes in bins of 4, half of them each: the interval reaches two more codes to either side."""
    query_plan = plan_statistic("TRIMMED_MEAN(fine, 0.1)", 10**9)
    (measurement,) = query_plan.measurements
    assert isinstance(measurement, AdditiveNoise)
    assert measurement.linear_query.ranks is not None
    assert measurement.linear_query.ranks.candidates.width == 4
    low, high = get_estimator(query_plan).interval((8 * 10**12,), 0.95)
    assert high - low == pytest.approx(2, abs=1e-3)
    assert query_plan.expected_error == pytest.approx(1 / math.sqrt(3), abs=1e-3)


@pytest.mark.parametrize(
    ("text", "changes", "message"),
    [
        (
            "TRIMMED_MEAN(gap, 0.1) FROM t",
            {},
            r"^gap may be missing, .*stands for \(missing: 0\), or ask for AVG or MEDIAN$",
        ),
        (
            "TRIMMED_MEAN(age, 0.1) FROM t WHERE sex = 'F'",
            {},
            "a filter leaves is secret; leave out WHERE, or ask for AVG",
        ),
        (
            "sex, TRIMMED_MEAN(age, 0.1) FROM t GROUP BY sex",
            {},
            "a group has is secret; leave out GROUP BY, or ask for",
        ),
        (
            "TRIMMED_MEAN(age, 0.1) FROM t",
            {"neighbors": "add-remove", "units": None},
            "with add-remove neighbours that is secret; declare replace-one and units",
        ),
        ("TRIMMED_MEAN(age, 0.1) FROM t", {"rows": 3}, "one row per unit, and here a unit may have 3; ask for AVG"),
    ],
)
def test_a_trimmed_mean_without_a_public_number_of_values_is_refused(
    text: str, changes: dict[str, object], message: str
) -> None:
    """For the one reason there is, with what to do about it."""
    declared_schema = declare_ranked_columns(20, **changes)
    with pytest.raises(Unsupported, match=message):
        plan(declared_schema, parse_sql(f"SELECT {text}", declared_schema), 1)


@pytest.mark.parametrize("options", [{}, {"delta": TENTH**3}])
def test_a_trimmed_mean_that_is_worse_than_a_guess_is_refused(options: dict[str, object]) -> None:
    """Two of 50,000 ranks; not with a prior, of which its own preview tells, nor where epsilon makes up for it."""
    with pytest.raises(InvalidInput, match=r"the mean of ranks 25000\.\.25001 of age would have .* or ask for MEDIAN"):
        plan_statistic("TRIMMED_MEAN(age, 0.499999)", 50_000, TENTH, **options)
    assert (plan_statistic("TRIMMED_MEAN(age, 0.499999)", 50_000, 50, **options).expected_error or 99) < 21
    assert (plan_statistic("TRIMMED_MEAN(age, 0.499)", 50_000, TENTH, **options).expected_error or 99) < 21
    assert (
        plan_statistic("TRIMMED_MEAN(age, 0.499999)", 50_000, TENTH, prior="normal(50, 0.5)", **options).grid_prior
        is not None
    )


def test_a_stored_trimmed_mean_is_told_at_any_epsilon() -> None:
    query_plan = plan_statistic("TRIMMED_MEAN(age, 0.1)", 20)
    assert replan_query(query_plan, PlanRequest(epsilon=TENTH**3)).mechanism == query_plan.mechanism


def test_more_rows_than_can_be_summed_are_refused_before_anything_is_paid() -> None:
    """A median is then chosen by rank; up to there sums of positions are exact."""
    with pytest.raises(Unsupported, match="at most"):
        plan_statistic("TRIMMED_MEAN(age, 0.1)", 2**40 + 1)
    assert [candidate.mechanism for candidate in plan_statistic("MEDIAN(age)", 2**40 + 1).candidates] == [
        "permute-and-flip on ranks"
    ]
    most = build_ranks(2**16, 1, 2**40)
    assert most.sum_positions(np.zeros(2**16, dtype=np.int64)) == 2**40 * (2**16 - 1)


def test_a_trimmed_mean_can_be_refined_by_a_distance() -> None:
    """From the exact mean of the ranks, within the prior."""
    query_plan = plan_statistic("TRIMMED_MEAN(age, 0.1)", 10, prior="uniform(20, 30)", distance="continuous")
    codes = [17, 20, 20, 21, 22, 23, 24, 25, 26, 90]
    source = MemorySource(query_plan.schema, [{"age": code, "sex": 0} for code in codes])
    secret = read_exact_inputs(query_plan, source, [()], query_plan.query.where)
    assert secret.inputs == [[(sum(codes[1:9]) - 8 * 17,)]]
    (numbers,) = sample_noisy_outputs(query_plan, secret).numbers
    assert 20 <= query_plan.readings[0].values(numbers[0])[0] <= 30  # type: ignore[union-attr, call-arg]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("TRIMMED_MEAN(age)", "the share left out at either end"),
        ("TRIMMED_MEAN(age, 0.1, 0.2)", "the share left out at either end"),
        ("TRIMMED_MEAN(age, 0)", "above 0 and below 0.5"),
        ("TRIMMED_MEAN(age, 0.5)", "above 0 and below 0.5"),
        ("TRIMMED_MEAN(age, -0.1)", "above 0 and below 0.5"),
        ("TRIMMED_MEAN(age, 0.0000001)", "at most six digits"),
        ("TRIMMED_MEAN(sex, 0.1)", "takes a column of numbers"),
        ("TRIMMED_MEAN(day, 0.1)", "takes a column of numbers"),
        ("TRIMMED_MEAN(*, 0.1)", "only COUNT takes"),
        ("TRIM_MEAN(age, 0.1)", "write TRIMMED_MEAN"),
        ("TRIMMED_MEAN(age, 0.1) FILTER (WHERE age > 20)", "FILTER stands after counts"),
    ],
)
def test_a_trimmed_mean_that_is_not_one_is_refused(text: str, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        parse_sql(f"SELECT {text} FROM t", declare_ranked_columns(20))


def test_a_trimmed_mean_reads_back_from_its_text() -> None:
    """As history tells it; two shares are two numbers, in one order."""
    declared_schema = declare_ranked_columns(20)
    text = "SELECT TRIMMED_MEAN(age, 0.25), TRIMMED_MEAN(age, 0.1) AS low, AVG(age) FROM t"
    query = parse_sql(text, declared_schema)
    assert parse_sql(to_sql(query, declared_schema), declared_schema) == query
    assert to_sql(query, declared_schema) == text
    shares = [aggregate.orders for aggregate in query.aggregates if aggregate.function == "trimmed_mean"]
    assert shares == [(TENTH,), (Fraction(1, 4),)]
    turned = parse_sql("SELECT AVG(age), TRIMMED_MEAN(age, 0.1), TRIMMED_MEAN(age, 0.250) FROM t", declared_schema)
    assert format_canonical_query(turned) == format_canonical_query(query)
    query_plan = plan(declared_schema, query, 3)
    assert [measurement.name.split(" by ")[0] for measurement in query_plan.measurements][1:] == [
        "mean of ranks 3..18",
        "mean of ranks 6..15",
    ]


def test_duckdb_reads_what_the_plain_loop_reads(tmp_path: Path) -> None:
    """The exact sums of ranks, on both, for as many rows as declared, for fewer and for more."""
    chance, key = random.Random(4), "a secret of the custodian's"
    for present in (60, 40, 90):
        rows = [
            {"pid": f"p{index}", "age": str(chance.randint(17, 90)), "fine": str(chance.randint(-5, 199_994) / 2)}
            | {"day": "1970-02-01", "gap": "1", "sex": "F"}
            for index in range(present)
        ]
        declared_schema = declare_ranked_columns(60)
        texts = pa.table({name: pa.array([row[name] for row in rows], pa.string()) for name in rows[0]})
        path = tmp_path / f"{present}.duckdb"
        register_duckdb(declared_schema, texts, path, key)
        sources = (
            DuckDBSource(declared_schema, path),
            MemorySource(declared_schema, register_memory(declared_schema, rows, key)[0]),
        )
        query = parse_sql(
            "SELECT TRIMMED_MEAN(age, 0.1), TRIMMED_MEAN(fine, 0.2), MEDIAN(fine) FROM t", declared_schema
        )
        query_plan = plan(declared_schema, query, 1)
        inputs_by_source = [read_exact_inputs(query_plan, source, [()], query.where).inputs for source in sources]
        assert [np.asarray(inputs[0]).tolist() for inputs in inputs_by_source[0]] == [
            np.asarray(inputs[0]).tolist() for inputs in inputs_by_source[1]
        ]
        ages = sorted(int(row["age"]) - 17 for row in rows) + [73] * 60
        assert inputs_by_source[0][[aggregate.orders for aggregate in query.aggregates].index((TENTH,))][0] == (
            sum(ages[6:54]),
        )


# --- as it is asked


def write_ages(folder: Path, rows: int) -> Path:
    chance = random.Random(rows)
    (folder / "people.csv").write_text("age\n" + "".join(f"{chance.randrange(100)}\n" for _ in range(rows)))
    (folder / "people.yaml").write_text(
        "name: people\nsource: people.csv\nneighbours: replace-one\n"
        f"units: {rows}\nbudget: {{epsilon: 1000}}\nanalyst_budget: {{epsilon: 1000}}\nmodels: [dp]\n"
        "columns:\n  age: {kind: integer, lower: 0, upper: 99, missing: 0}\n"
    )
    return folder / "people.yaml"


def test_the_custodian_answers_near_the_truth(tmp_path: Path) -> None:
    """A trimmed mean, with its interval, stored and found again; a median of few rows by a mean of ranks."""
    path = write_ages(tmp_path, 40)
    ages = sorted(map(int, (tmp_path / "people.csv").read_text().split()[1:]))
    with Custodian.open(path) as custodian:
        answer = custodian.answer("SELECT TRIMMED_MEAN(age, 0.25) FROM people", epsilon=100)
        assert answer.value == pytest.approx(sum(ages[10:30]) / 20, abs=2)
        assert "of the mean of ranks 11..30 with a probability of at least 95 %" in answer.accuracy
        low, high = answer.intervals(0.95)[0]["TRIMMED_MEAN(age, 0.25)"]  # type: ignore[misc]
        assert low <= answer.value <= high
        second = custodian.answer("SELECT TRIMMED_MEAN(age, 0.250) FROM people", epsilon=100)
        assert (second.value, second.stored) == (answer.value, True)
        median = custodian.answer("SELECT MEDIAN(age) FROM people", epsilon=0.3)
        assert median.mechanism.startswith("mean of ranks ")
        assert 0 <= float(median.value) <= 99  # type: ignore[arg-type]
        assert median.intervals(0.95)[0]["MEDIAN(age)"] is None


def test_preview_and_ask_show_the_ranks(tmp_path: Path) -> None:
    """On the command line, before and after it is paid for."""
    path = write_ages(tmp_path, 200)
    run_successfully("check", path)
    output = " ".join(run_successfully("preview", path, "SELECT MEDIAN(age) FROM people", "--epsilon", "1").out.split())
    assert "mean of ranks" in output
    assert "if the rows are spread evenly" in output
    asked_for = " ".join(
        run_successfully("ask", path, "SELECT TRIMMED_MEAN(age, 0.1) FROM people", "--epsilon", "1").out.split()
    )
    assert "mean of ranks 21..180" in asked_for
    document = run_successfully(
        "ask", path, "SELECT TRIMMED_MEAN(age, 0.1) FROM people", "--epsilon", "1", "--json"
    ).document
    assert document["mechanism"] == "mean of ranks 21..180 by staircase"


def test_a_preview_gives_its_reasons() -> None:
    """Why a choice by rank, or why a mean of ranks; neither quotes an error that is not known."""
    many = preview_question(declare_ranked_columns(1000), "SELECT MEDIAN(age) FROM t", build_query_options(epsilon=1))
    assert many.expected_error is None
    mean = build_rank_mean("MEDIAN(age)", 1000)
    evenly = "if the rows are spread evenly its expected error is at most "
    assert many.reason.startswith(evenly)
    assert many.reason.endswith(
        f", and that of the {mean.name} is not clearly less: about {format_number(mean.expected_error())}"
    )
    assert [candidate.expected_error for candidate in many.candidates] == [None, None]
    sure = preview_question(
        declare_ranked_columns(50_000), "SELECT MEDIAN(age) FROM t", build_query_options(epsilon=TENTH)
    )
    assert sure.reason.startswith("if the rows are spread evenly its expected error is nearly 0, and that of the mean ")
    far = preview_question(declare_ranked_columns(50), "SELECT MEDIAN(fine) FROM t", build_query_options(epsilon=1))
    assert far.reason.startswith(evenly)
    assert far.reason.endswith(", but its ranks reach too far from rank 25 to stand for it on other rows")
    few = preview_question(declare_ranked_columns(12), "SELECT MEDIAN(fine) FROM t", build_query_options(epsilon=1))
    assert few.expected_error is not None
    assert few.reason == "of so few rows it is nearer than the permute-and-flip on ranks, if they are spread evenly"
