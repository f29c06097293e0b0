"""A prior made of shapes is laid on the answer's own values, however coarse the grid it was made on.

Points alone are possible only where weights state them. Coverage is tested against truths of the continuous law.
"""

from __future__ import annotations

import json
import math
import random
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from discreet import Custodian, InvalidInput, Prior
from discreet.answers.decode import Decoder
from discreet.custodian.measure import read_exact_inputs, sample_noisy_outputs
from discreet.estimation.grid_prior import PointGridPrior, ShapedGridPrior, parse_grid_prior
from discreet.measurements.refined_total import RefinedTotal
from discreet.measurements.selection import CandidateSelection
from discreet.planner.plan import Plan
from discreet.planner.planner import plan
from discreet.priors.syntax import parse_shapes
from discreet.query import parse_sql
from discreet.sample import write_registry
from discreet.schema import Column, Schema
from discreet.sources.memory import UNIT_KEY, MemorySource
from support.small_tables import schema

MAX_INCOME = 1_000_000
STEP = 100_000
INCOME = Column("income", "integer", lower=0, upper=MAX_INCOME, missing=0)
AGE = Column("age", "integer", lower=17, upper=90, missing=17)
HEIGHT = Column("height", "number", lower=600, upper=880, step=Fraction(1, 4), missing=600)
ROW_COUNT = 10


def declare_prior_columns(neighbors: str = "replace-one", rows: int = ROW_COUNT) -> Schema:
    columns = {column.name: column for column in (INCOME, AGE, HEIGHT)}
    return schema(neighbors, 1, rows, columns=columns, individual_queries=True)


def list_equal_rows(value: float) -> list[int]:
    """Rows of one mean and one median."""
    return [round(value)] * ROW_COUNT


def list_rows_apart(value: float) -> list[int]:
    """Rows of one standard deviation: half of them as far below the middle as the others are above."""
    away = round(value * math.sqrt((ROW_COUNT - 1) / ROW_COUNT))
    return [MAX_INCOME // 2 + sign * away for sign in (-1, 1) for _ in range(ROW_COUNT // 2)]


def compute_spread(rows: list[int]) -> float:
    return float(np.std(rows, ddof=1))


Rows = Callable[[float], list[int]]
Truth = Callable[[list[int]], float]
NORMAL = Prior.normal(400_000, 150_000, 0, MAX_INCOME, STEP)
EVEN = Prior.uniform(200_000, 800_000, STEP)
PEAKED = Prior.parse("triangular(100000, 200000, 800000)", 0, MAX_INCOME, STEP)
SMALL = Prior.uniform(100_000, 400_000, STEP)
SQUARES = Prior.uniform(10**10, 16 * 10**10, 10**10)


def draw_truth(prior: Prior, chance: random.Random) -> float:
    """A truth of the continuous law, between the ends of the prior."""
    (term,), ends = parse_shapes(prior.shape).terms, prior.ends
    numbers = tuple(map(float, term.numbers))
    while True:
        if term.name == "normal":
            value = chance.gauss(*numbers)
        else:
            value = chance.uniform(*numbers) if term.name == "uniform" else chance.triangular(*numbers[::2], numbers[1])
        if ends[0] <= value <= ends[1]:
            return value


@pytest.mark.parametrize(
    ("aggregate", "epsilon", "prior", "distance", "rows", "truth"),
    [
        ("AVG(income)", 8, NORMAL, None, list_equal_rows, np.mean),
        ("AVG(income)", 8, EVEN, None, list_equal_rows, np.mean),
        ("AVG(income)", 60, PEAKED, "continuous", list_equal_rows, np.mean),
        ("AVG(income)", 5, NORMAL, "continuous", list_equal_rows, np.mean),
        ("TRIMMED_MEAN(income, 0.1)", 60, NORMAL, None, list_equal_rows, np.mean),
        ("TRIMMED_MEAN(income, 0.1)", 60, EVEN, "continuous", list_equal_rows, np.mean),
        ("TRIMMED_MEAN(income, 0.1)", 8, NORMAL, None, list_equal_rows, np.mean),
        ("SUM(income)", 8, Prior.normal(4 * 10**6, 10**6, 0, 10 * MAX_INCOME, MAX_INCOME), None, list_equal_rows, sum),
        ("SUM(income)", 30, Prior.uniform(0, 8 * MAX_INCOME, MAX_INCOME), "continuous", list_equal_rows, sum),
        ("STDDEV(income)", 30, SMALL, None, list_rows_apart, compute_spread),
        ("STDDEV(income)", 30, SMALL, "continuous", list_rows_apart, compute_spread),
        (
            "VAR(income)",
            30,
            SQUARES,
            None,
            lambda value: list_rows_apart(math.sqrt(value)),
            lambda rows: compute_spread(rows) ** 2,
        ),
        (
            "VAR(income)",
            30,
            SQUARES,
            "nominal",
            lambda value: list_rows_apart(math.sqrt(value)),
            lambda rows: compute_spread(rows) ** 2,
        ),
        ("MEDIAN(income)", 30, NORMAL, "continuous", list_equal_rows, np.median),
        ("MEDIAN(income)", 5, EVEN, "continuous", list_equal_rows, np.median),
        ("MAX(income)", 30, PEAKED, "continuous", list_equal_rows, np.median),
    ],
)
@pytest.mark.parametrize("neighbors", ["replace-one", "add-remove"])
def test_a_posterior_interval_holds_truths_between_the_points_of_the_prior(
    neighbors: str, aggregate: str, epsilon: int, prior: Prior, distance: str | None, rows: Rows, truth: Truth
) -> None:
    """Truths from the continuous law; but for four standard deviations. On the points alone it held about never."""
    if "TRIMMED" in aggregate and neighbors == "add-remove":
        return  # a trimmed mean is of a public number of rows
    declared_schema, chance, count = declare_prior_columns(neighbors), random.Random(7), 60
    share = 10 if "SUM" in aggregate else 1
    query_plan = plan(
        declared_schema,
        parse_sql(f"SELECT {aggregate} FROM t", declared_schema),
        epsilon,
        prior=prior,
        distance=distance,
    )
    reader, hits = Decoder(query_plan), 0
    for _ in range(count):
        values = rows(draw_truth(prior, chance) / share)
        source = MemorySource(
            declared_schema, [{UNIT_KEY: f"p{index}", "income": value} for index, value in enumerate(values)]
        )
        cells = query_plan.list_cells()
        noisy_result = sample_noisy_outputs(
            query_plan, read_exact_inputs(query_plan, source, cells, query_plan.query.where)
        ).numbers[0][0]
        law = reader.compute_posterior(0, noisy_result)
        assert law is not None
        low, high = law.interval(0.95)
        hits += low - 1e-6 * abs(low) <= truth(values) <= high + 1e-6 * abs(high)
    assert hits / count >= 0.95 - 4 * math.sqrt(0.95 * 0.05 / count)


@pytest.mark.parametrize("neighbors", ["replace-one", "add-remove"])
def test_an_average_of_many_rows_is_no_whole_number(neighbors: str) -> None:
    """Noise of a third of a year on a prior of whole years: on the points alone two of three intervals held it."""
    declared_schema, chance, count, many, prior = (
        declare_prior_columns(neighbors, 300),
        random.Random(3),
        80,
        300,
        Prior.normal(38, 3, 17, 90),
    )
    query_plan = plan(declared_schema, parse_sql("SELECT AVG(age) FROM t", declared_schema), 1, prior=prior)
    reader, hits, widths = Decoder(query_plan), 0, []
    for _ in range(count):
        whole = round(chance.gauss(38, 3) * many)
        ages = [whole // many + (index < whole % many) for index in range(many)]
        source = MemorySource(declared_schema, [{UNIT_KEY: f"p{index}", "age": age} for index, age in enumerate(ages)])
        secret = read_exact_inputs(query_plan, source, query_plan.list_cells(), query_plan.query.where)
        law = reader.compute_posterior(0, sample_noisy_outputs(query_plan, secret).numbers[0][0])
        assert law is not None
        low, high = law.interval(0.95)
        hits += low <= whole / many <= high
        widths.append(high - low)
    assert hits / count >= 0.95 - 4 * math.sqrt(0.95 * 0.05 / count)
    assert 0.1 < float(np.median(widths)) < 3


def compute_hit_rate(refined_total: RefinedTotal, chances: dict[Fraction, float]) -> float:
    """How often the 95 % interval holds a truth of this law: over all draws there can be, exactly."""
    prior, share = refined_total.refinement.prior, 0.0
    intervals = [refined_total.posterior((int(place),)).interval(0.95) for place in prior.index]
    lows, highs = np.array(intervals).T
    for truth, chance in chances.items():
        law, number = refined_total.refinement.distribution(truth), float(truth)
        factors = np.array([float(value) for value in law.factors.values])[law.blocks]  # type: ignore[attr-defined]
        share += chance * float(prior.mass / prior.total * factors @ ((lows <= number) & (number <= highs)))
    return share


@pytest.mark.parametrize(
    ("prior", "ends"),
    [
        (Prior.normal(30, 3, 25, 35), (25, 35)),
        (Prior.normal(38, 3, 17, 90), (17, 90)),
        (Prior.uniform(25, 30), (25, 30)),
        (Prior.uniform(20, 30, 5), (20, 30)),
        (Prior.parse("triangular(20, 22, 30) on [20, 30] step 1"), (20, 30)),
    ],
)
@pytest.mark.parametrize("epsilon", [1, 5, 30])
def test_an_interval_of_a_refined_mean_holds_the_means_between_the_points_exactly(
    prior: Prior, ends: tuple[int, int], epsilon: int
) -> None:
    """Ten ages have means a tenth apart: every truth of the shape by every draw."""
    declared_schema = declare_prior_columns()
    query_plan = plan(
        declared_schema,
        parse_sql("SELECT AVG(age) FROM t", declared_schema),
        epsilon,
        prior=prior,
        distance="continuous",
    )
    measurement = query_plan.measurements[0]
    assert isinstance(measurement, RefinedTotal)
    means = [Fraction(tenth, 10) for tenth in range(10 * ends[0], 10 * ends[1] + 1)]
    edges = np.array([float(mean) for mean in (*means, means[-1] + Fraction(1, 10))]) - 0.05
    chances = parse_shapes(prior.shape).terms[0].compute_cell_masses(edges)
    assert compute_hit_rate(measurement, dict(zip(means, (chances / chances.sum()).tolist(), strict=True))) >= 0.95
    assert set(measurement.refinement.prior.support) == set(means)  # none beyond the ends, and none left out
    assert f"values outside {ends[0]} to {ends[1]} are impossible" in query_plan.prior_description


def test_a_prior_value_means_what_its_text_means(tmp_path: Path) -> None:
    """Through the public door: a posterior of the answer's own resolution, and not of whole numbers."""
    with Custodian.open(write_registry(tmp_path, patients=2000)) as custodian:
        question = "SELECT AVG(age) FROM registry"
        value = custodian.answer(question, epsilon=1, prior=Prior.normal(50, 30, 17, 90))
        text = custodian.answer(question, epsilon=1, prior="normal(50, 30) on [17, 90]")
        assert text.stored
        assert value.posterior is not None
        assert text.posterior is not None
        assert value.posterior.interval() == pytest.approx(text.posterior.interval())
        low, high = value.posterior.interval()
        assert 0.05 < high - low < 1
        assert "Only the values" not in value.prior_use


WEIGHTS = (Prior.weights({38: 1, 39: 1}), '{"38": 1, "39": 1}')


@pytest.mark.parametrize("prior", WEIGHTS)
@pytest.mark.parametrize("aggregate_and_prior", ["AVG(age)", "AVG(age)/known", "STDDEV(age)", "VAR(age)"])
def test_stated_points_stay_and_the_answer_says_what_they_leave_out(
    aggregate_and_prior: str, prior: str | Prior
) -> None:
    text, _, known = aggregate_and_prior.partition("/")
    declared_schema = declare_prior_columns("replace-one" if known else "add-remove")
    query_plan = plan(declared_schema, parse_sql(f"SELECT {text} FROM t", declared_schema), 1, prior=prior)
    assert isinstance(query_plan.grid_prior, PointGridPrior)
    assert query_plan.grid_prior.values.tolist() == [38, 39]
    what = text.replace("(", " of ").rstrip(")")
    assert (
        f"Only the values that it gives a weight to are possible, but {what} can lie between"
        in query_plan.prior_description
    )
    assert "state a shape such as normal(mean, sd)" in query_plan.prior_description


@pytest.mark.parametrize("aggregate", ["SUM(age)", "COUNT(*)", "MEDIAN(age)"])
def test_points_of_a_number_that_has_such_values_need_no_word(aggregate: str) -> None:
    declared_schema = declare_prior_columns("add-remove", 60)
    query_plan = plan(
        declared_schema,
        parse_sql(f"SELECT {aggregate} FROM t", declared_schema),
        1,
        prior=WEIGHTS[1],
        distance="continuous",
    )
    assert query_plan.prior_description
    assert "Only the values" not in query_plan.prior_description


def read_question_key(query_plan: Plan) -> dict[str, object]:
    question_key: dict[str, object] = json.loads(query_plan.build_question_key())
    return question_key


def test_an_answer_drawn_from_the_points_is_not_told_for_the_shape() -> None:
    """The law of a drawn answer is another now, so its name is; where the grid holds all values both stayed."""
    declared_schema = declare_prior_columns()
    for text in ("SELECT AVG(age) FROM t", "SELECT MEDIAN(height) FROM t", "SELECT height FROM t FOR UNIT 'p1'"):
        query = parse_sql(text, declared_schema)
        options = {} if "UNIT" in text else {"distance": "continuous"}
        low, high = (17, 90) if "AVG" in text else (160, 210)
        whole = Prior.uniform(low, high)
        points = Prior.weights(dict.fromkeys(range(low, high + 1), 1))
        rules = [
            read_question_key(plan(declared_schema, query, 1, prior=prior, tail=tail, **options)).get("prior_rule")
            for prior, tail in ((whole, None), (whole, True), (points, None), (points, True))
        ]
        assert rules == [8, 9, 2, None]
    query = parse_sql("SELECT MEDIAN(age) FROM t", declared_schema)
    assert (
        read_question_key(plan(declared_schema, query, 1, prior=Prior.uniform(20, 30), distance="continuous"))[
            "prior_rule"
        ]
        == 2
    )
    text = "normal(25, 3) on [20, 30] step 5"
    assert read_question_key(plan(declared_schema, query, 1, prior=text, distance="continuous"))["prior_rule"] == 9


def test_two_shapes_of_the_same_points_have_two_names() -> None:
    """Their weights on whole numbers are alike; their laws on tenths are not."""
    declared_schema = declare_prior_columns()
    query = parse_sql("SELECT AVG(age) FROM t", declared_schema)
    both = [Prior.parse(text) for text in ("uniform(30, 31) on [30, 31]", "triangular(30, 30.5, 31) on [30, 31]")]
    assert both[0] == both[1]
    names = [
        read_question_key(plan(declared_schema, query, 1, prior=prior, distance="continuous"))["prior"]
        for prior in both
    ]
    assert names[0] != names[1]


def test_a_shape_on_any_grid_is_laid_on_the_values_of_a_column() -> None:
    """Heights are quarters: whole numbers, and a grid that no quarter is on, are both no statement about quarters."""
    declared_schema = declare_prior_columns()
    query = parse_sql("SELECT MEDIAN(height) FROM t", declared_schema)
    for prior in (
        Prior.uniform(160, 170),
        Prior.uniform(160, 170, Fraction(2, 5)),
        Prior.uniform(Fraction("159.9"), Fraction("170.1"), Fraction(1, 5)),
        "uniform(160, 170) on [160, 170] step 1",
    ):
        measurement = plan(declared_schema, query, 1, prior=prior, distance="continuous").measurements[0]
        assert isinstance(measurement, CandidateSelection)
        before = measurement.get_stated_distribution()
        assert before is not None
        assert before.centers == pytest.approx(160 + np.arange(41) / 4)
        assert before.mass == pytest.approx(np.full(41, 1 / 41))


def test_shapes_that_lie_outside_their_own_ends_are_refused_with_the_fix() -> None:
    declared_schema = declare_prior_columns()
    prior = Prior.normal(1000, 3, 17, 90)
    for text in ("SELECT AVG(age) FROM t", "SELECT MEDIAN(height) FROM t"):
        with pytest.raises(InvalidInput, match=r"lies between its own ends, 17 and 90; widen the ends, or move"):
            plan(declared_schema, parse_sql(text, declared_schema), 1, prior=prior, distance="continuous")


def test_a_prior_without_a_scale_for_the_tail_stays_between_its_ends() -> None:
    belief = parse_grid_prior(
        Prior.normal(38, 3, 17, 90), Fraction(0), Fraction(100), Fraction(1, 1000), "AVG", dense=True
    )
    assert isinstance(belief, ShapedGridPrior)
    assert (belief.is_bounded, belief.get_use(is_sampled=True).tail, belief.get_use(is_sampled=False).tail) == (
        True,
        False,
        True,
    )
    cells = belief.build_cells()
    assert cells.edges[0] >= 17 - 0.001
    assert cells.edges[-1] <= 90 + 0.001
    assert belief.mean == pytest.approx(38, abs=0.01)
