"""Replay: on neighbours the inputs of every mechanism differ by at most what is declared, for every form of question.

The declared bounds are also reached, so that a scale too small by a factor would be caught here.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction
from functools import cache

import pytest

from discreet.custodian import measure
from discreet.custodian.measure import count_key_units
from discreet.measurements.additive import AdditiveNoise
from discreet.measurements.base import AggregateRequest
from discreet.measurements.contribution_bounds import ContributionBounds
from discreet.measurements.unit_query import OrderStatistic, UnitQuery
from discreet.planner.candidates import propose_measurements
from discreet.planner.plan import Plan
from discreet.planner.planner import plan
from discreet.query import parse_sql
from discreet.schema import Schema
from discreet.sources.memory import MemorySource
from discreet.verification import MechanismReplay, assert_private, assert_private_session, neighbor_rows, replay_plan
from discreet.verification.replays.assertions import register_pair
from discreet.verification.replays.neighbors import Pair
from support.small_tables import random_unit, rows_of, schema

AGGREGATES = [
    "COUNT(*)",
    "COUNT(age)",
    "COUNT(DISTINCT pid)",
    "SUM(age)",
    "SUM(score)",
    "SUM(debt)",
    "AVG(age)",
    "AVG(score)",
    "VAR(score)",
    "STDDEV(age)",
    "MEDIAN(score)",
    "QUANTILE(age, 0.1, 0.5, 0.9)",
    "MIN(age)",
    "MAX(score)",
    "SECOND_MAX(day)",
    "MODE(grade)",
    "COUNT(*), SUM(score), AVG(age)",
    "COUNT(*) FILTER (WHERE sex = 'F')",
    "COUNT(DISTINCT pid) FILTER (WHERE smoker)",
    "COUNT(*) FILTER (WHERE smoker), COUNT(age), SUM(age)",
]
TAILS = ["", "WHERE age > 0", "WHERE sex = 'F' OR NOT smoker", "GROUP BY sex", "GROUP BY BIN(age, 3), grade"]
TAILS += ["WHERE city <> 'Oslo' GROUP BY smoker", "GROUP BY city"]
RELATIONS = [("add-remove", 1), ("add-remove", 3), ("replace-one", 1), ("replace-one", 2)]


def plan_aggregate(declared_schema: Schema, aggregate: str, tail: str) -> Plan:
    private = tail.endswith("BY city")
    query = parse_sql(f"SELECT {aggregate} FROM t {tail}", declared_schema)
    return plan(declared_schema, query, 1, delta=1e-6 if private else None)  # type: ignore[arg-type]


@cache
def draw_pairs(relation: str, rows: int, count: int, units: int = 5) -> list[Pair]:
    """Neighbours as they are, and every third as registration reads them from a source that holds more than fits."""
    declared_schema = schema(relation, rows, units=units)
    pairs = neighbor_rows(declared_schema, count)
    return [register_pair(declared_schema, pair) if index % 3 == 0 else pair for index, pair in enumerate(pairs)]


def replay_only_mechanism(query_plan: Plan, pair: Pair) -> MechanismReplay:
    """What the one mechanism of a plan was handed."""
    [recorded] = replay_plan(query_plan, *pair).mechanisms
    return recorded


@cache
def plan_every_aggregate(relation: str, rows: int, tail: str) -> list[Plan]:
    """One for each aggregate, of tables of five units."""
    declared_schema = schema(relation, rows, units=5)
    return [plan_aggregate(declared_schema, aggregate, tail) for aggregate in AGGREGATES]


def list_noise_alternatives(query_plan: Plan) -> list[Plan]:
    """The same plan with every other noise that could be chosen for its one total."""
    aggregate = query_plan.query.aggregates[0]
    facts = ContributionBounds(
        query_plan.schema,
        query_plan.query.where,
        len(query_plan.list_cells()) if query_plan.query.keys and not query_plan.threshold else None,
    )
    if (
        query_plan.threshold
        or not isinstance(query_plan.measurements[0], AdditiveNoise)
        or len(query_plan.measurements) > 1
    ):
        return []
    measurements = propose_measurements(AggregateRequest(aggregate=aggregate, bounds=facts, epsilon=Fraction(1)))
    return [replace(query_plan, measurements=(alternative,)) for alternative in measurements]


@pytest.mark.parametrize(("relation", "rows"), RELATIONS)
@pytest.mark.parametrize("tail", TAILS[:-1])
@pytest.mark.parametrize("count", [33, pytest.param(48, marks=pytest.mark.soak)])
def test_every_noise_that_could_be_chosen_loses_at_most_epsilon(
    relation: str, rows: int, tail: str, count: int
) -> None:
    """Staircases are calibrated by boxes and polygons; each gives its own account of what a shift costs."""
    every = [
        alternative
        for query_plan in plan_every_aggregate(relation, rows, tail)
        for alternative in list_noise_alternatives(query_plan)
    ]
    assert {"discrete Laplace", "staircase"} <= {alternative.mechanism for alternative in every}
    worst: dict[str, Fraction] = {}
    for pair in draw_pairs(relation, rows, count)[18:]:
        for query_plan in every:
            lost = replay_only_mechanism(query_plan, pair).observed_loss.epsilon
            worst[query_plan.mechanism] = max(worst.get(query_plan.mechanism, lost), lost)
    assert max(worst.values()) <= 1, (worst, tail)
    assert min(worst.values()) > Fraction(1, 2), (worst, tail)


@pytest.mark.parametrize(("relation", "rows"), RELATIONS)
@pytest.mark.parametrize("tail", TAILS)
def test_one_unit_moves_the_inputs_by_no_more_than_declared(relation: str, rows: int, tail: str) -> None:
    """And what all mechanisms lose together is at most what is charged, and what the label says."""
    for pair in draw_pairs(relation, rows, 36):
        for query_plan in plan_every_aggregate(relation, rows, tail):
            replay_result = replay_plan(query_plan, *pair)
            assert replay_result.ok, replay_result.table()
            assert query_plan.is_free or replay_result.totals.keys() >= {"epsilon charged", "epsilon of the label"}


PURE = {"epsilon": 1}
BELIEF = {"prior": "normal(1, 1)"}
CITY, GAUSSIAN = {"epsilon": 1, "delta": 1e-6}, {"epsilon": 1, "delta": 0.009}
OTHER_WAYS: list[tuple[str, dict[str, object], str]] = [
    ("HISTOGRAM(age, 8) FROM t", PURE, "every cell"),
    ("HISTOGRAM(day, 2) FROM t WHERE smoker", PURE, "discrete Laplace, "),
    ("grade, sex, COUNT(*) FROM t GROUP BY ROLLUP (grade, sex)", PURE, "levels weighted"),
    ("sex, day, COUNT(*) FROM t GROUP BY ROLLUP (sex, day)", GAUSSIAN, "levels weighted"),
    (
        "COUNT(*), COUNT(age), SUM(age), SUM(score), SUM(debt), AVG(score) FROM t WHERE age > 0",
        GAUSSIAN,
        "discrete Gaussian",
    ),
    ("COUNT(*) FROM t WHERE smoker", {"noise_scale": 3}, "discrete Laplace"),
    ("SUM(score) FROM t", {"noise_scale": 3, "model": "approx-dp"}, "discrete Gaussian"),
    ("COUNT(*) FROM t WHERE age > 0", {"accuracy": "5"}, ""),
    ("SUM(score) FROM t WHERE smoker", PURE | BELIEF | {"distance": "continuous"}, "refinement of your prior"),
    ("MEDIAN(score) FROM t", PURE | BELIEF, "exponential mechanism on ranks"),
    ("QUANTILE(age, 0.1, 0.5, 0.9) FROM t GROUP BY sex", PURE | BELIEF, "exponential mechanism on ranks"),
    ("MEDIAN(age) FROM t GROUP BY sex", PURE | {"interval": True}, "two bracketing quantiles"),
    ("MEDIAN(score) FROM t", PURE | BELIEF | {"interval": True}, "two bracketing quantiles"),
    ("MAX(age) FROM t GROUP BY sex", BELIEF | {"epsilon": 5}, "refinement of your prior"),
    ("MODE(grade) FROM t", PURE | {"prior": {"low": 1, "middle": 2, "high": 1}}, "exponential mechanism on counts"),
    ("MODE(sex) FROM t GROUP BY smoker", PURE | {"distance": "nominal"}, "nominal distance"),
    ("MEDIAN(score) FROM t", PURE | {"distance": "continuous"}, "continuous distance"),
    (
        "COUNT(*) FILTER (WHERE age > 0), COUNT(*) FILTER (WHERE age > 1 OR sex = 'F'), COUNT(*) FROM t GROUP BY grade",
        PURE,
        "(atoms)",
    ),
    ("city, COUNT(*) FROM t GROUP BY city", CITY, "over a threshold"),
    ("city, AVG(age), MEDIAN(score) FROM t WHERE smoker GROUP BY city", CITY, "permute-and-flip on ranks"),
]


@pytest.mark.parametrize(("relation", "rows"), [("add-remove", 3), ("replace-one", 1)])
@pytest.mark.parametrize(("question", "options", "by"), OTHER_WAYS)
def test_every_other_way_to_answer(
    relation: str, rows: int, question: str, options: dict[str, object], by: str
) -> None:
    """With priors, intervals, sizes of noise, nested counts; some neighbours use up all that is declared."""
    worst = assert_private(schema(relation, rows, units=8), f"SELECT {question}", count=44, **options)
    assert by in "; ".join(mechanism.mechanism for mechanism in worst.mechanisms)
    assert worst.largest_share == 1


@pytest.mark.parametrize("question", ["TRIMMED_MEAN(score, 0.2)", "MEDIAN(score)", "QUANTILE(debt, 0.3)"])
def test_a_mean_of_ranks(question: str) -> None:
    """Of a public number of rows: the sum of the ranks moves by no more than the domain."""
    declared_schema = schema("replace-one", 1, units=8)
    worst = assert_private(declared_schema, f"SELECT {question} FROM t", 5)
    assert worst.largest_share == 1
    assert ("mean of ranks" in worst.mechanisms[0].mechanism) == question.startswith("TRIMMED")


QUESTIONS = [
    ("SELECT COUNT(*) FROM t WHERE age > 0", 6),
    ("SELECT COUNT(*) FROM t WHERE age > 2 AND smoker", 8),
    ("SELECT sex, COUNT(*) FROM t GROUP BY sex", 12),
    ("SELECT COUNT(score) FROM t WHERE grade = 'high'", 5),
]


@pytest.mark.parametrize(("relation", "rows"), RELATIONS)
def test_a_session_loses_what_its_tally_says(relation: str, rows: int) -> None:
    """The joint sensitivity of counts that overlap; some neighbours reach it."""
    scaled = [(question, scale * rows) for question, scale in QUESTIONS]
    assert assert_private_session(schema(relation, rows, units=6), scaled, 1, count=150).largest_share == 1


@pytest.mark.parametrize("rows", [1, 2])
@pytest.mark.parametrize("farthest", [6, 11, 17])
def test_totals_in_grains_stay_in_their_hexagon(monkeypatch: pytest.MonkeyPatch, rows: int, farthest: int) -> None:
    """A wide column's sum is told in whole grains, rounded down: one unit moves it by one level all the same."""
    monkeypatch.setattr("discreet.measurements.total_sensitivity.MAX_VERTEX", farthest)
    declared_schema = schema("replace-one", rows, units=4)
    alternatives = list_noise_alternatives(plan_aggregate(declared_schema, "AVG(age)", "WHERE sex = 'F'"))
    query_plan = next(alternative for alternative in alternatives if alternative.mechanism == "polygon staircase")
    measurement = query_plan.measurements[0]
    assert isinstance(measurement, AdditiveNoise)
    assert measurement.linear_query.components[0].grain > 1
    assert (
        max(
            replay_only_mechanism(query_plan, pair).observed_loss.epsilon
            for pair in neighbor_rows(declared_schema, 200)
        )
        == 1
    )


@pytest.mark.parametrize("there", [1, 4, 9, 12])
def test_a_variance_of_pairs_holds_whatever_number_was_declared(there: int) -> None:
    """Eight units are declared; a table of more would move the sum over pairs by more than the scale, so it gives 0."""
    query_plan = plan_aggregate(schema("replace-one", 1, units=8), "VAR(score)", "")
    for pair in neighbor_rows(schema("replace-one", 1, units=there), 100):
        assert replay_only_mechanism(query_plan, pair).observed_loss.epsilon == 0
    reached = [
        replay_only_mechanism(query_plan, pair).observed_loss.epsilon for pair in neighbor_rows(query_plan.schema, 20)
    ]
    assert max(reached) == 1


TIGHT = ("COUNT(age)", "SUM(age)", "SUM(score)", "AVG(age)", "AVG(score)", "VAR(score)")


@cache
def compute_shares(relation: str, rows: int, tail: str, aggregate: str, pair_index: int) -> Mapping[str, Fraction]:
    """What one pair of tables of two units uses of what is declared of one total."""
    query_plan = plan_tight(relation, rows, tail, aggregate)
    return replay_only_mechanism(query_plan, draw_pairs(relation, rows, 250, units=2)[pair_index]).shares


@cache
def plan_tight(relation: str, rows: int, tail: str, aggregate: str) -> Plan:
    return plan_aggregate(schema(relation, rows, units=2), aggregate, tail)


@pytest.mark.parametrize(("relation", "rows"), RELATIONS)
@pytest.mark.parametrize("tail", ["", "WHERE sex = 'F'", "GROUP BY smoker"])
@pytest.mark.parametrize("of", ["changes", "squares"])
def test_every_scale_is_reached(relation: str, rows: int, tail: str, of: str) -> None:
    """For every total some neighbours use up all that is declared: no smaller scale would do.

    But for the variance under replace-one, whose two worst cases cannot meet; over half of it is used.
    """
    for aggregate in TIGHT:
        least = Fraction(3, 5) if "VAR" in aggregate and relation == "replace-one" else Fraction(1)
        shares = (compute_shares(relation, rows, tail, aggregate, index)[of] for index in range(250))
        assert any(share >= least for share in shares), aggregate


@pytest.mark.parametrize(("relation", "rows"), RELATIONS)
def test_keys_that_are_not_public(relation: str, rows: int) -> None:
    """On common keys units differ by at most the reach; at most r keys are in one table only, and there once."""
    declared_schema = schema(relation, rows, units=6)
    query_plan = plan_aggregate(declared_schema, "COUNT(*)", "GROUP BY city")
    reach = rows * (2 if relation == "replace-one" else 1)
    most = Fraction(0)
    for pair in draw_pairs(relation, rows, 100, units=6):
        one, two = (count_key_units(query_plan, MemorySource(declared_schema, rows)) for rows in pair)
        assert sum(abs(one.get(key, 0) - two.get(key, 0)) for key in {**one, **two}) <= reach
        for mine, theirs in ((one, two), (two, one)):
            alone = [mine[key] for key in mine if key not in theirs]
            assert len(alone) <= rows
            assert set(alone) <= {1}
        replay_result = replay_plan(query_plan, *pair)
        assert replay_result.ok, replay_result.table()
        most = max(most, replay_result.totals.get("delta charged", Fraction(0)))
    # The threshold is whole, so that the chance of a key of its own is a little less than delta.
    assert Fraction(1, 4) < most <= 1


@pytest.mark.parametrize("relation", ["add-remove", "replace-one"])
def test_one_person_is_asked_about_alone(relation: str) -> None:
    """The input is that person's value and nobody else's; one who is absent gives no input at all."""
    chance = random.Random(3)
    declared_schema = schema(relation, 1, units=4, individual_queries=True)
    query_plan = plan(declared_schema, parse_sql("SELECT score FROM t FOR UNIT 'p1'", declared_schema), 1)
    assert isinstance(query_plan.measurements[0], UnitQuery)
    for _ in range(50):
        people = {f"p{number}": random_unit(chance, 1) for number in range(4)}
        without = {name: rows for name, rows in people.items() if name != "p3"}
        other = without if relation == "add-remove" else without | {"p3": random_unit(chance, 1)}
        recorded = replay_only_mechanism(query_plan, (rows_of(people), rows_of(other)))
        assert recorded.first_inputs == recorded.second_inputs == {(): people["p1"][0]["score"]}
        absent = dict(people)
        del absent["p1"]
        source = MemorySource(declared_schema, rows_of(absent))
        assert measure.read_exact_inputs(
            query_plan, source, query_plan.list_cells(), query_plan.query.where
        ).inputs == [[None]]
    assert assert_private(declared_schema, "SELECT score FROM t FOR UNIT 'p1'", 1).largest_share == 1


def test_individual_dp_sees_as_many_rows_as_declared() -> None:
    """The declared number of rows enters the mechanism, whatever is there; its label says that it is weaker."""
    chance = random.Random(4)
    declared_schema = schema("replace-one", 1, units=5, models=("dp", "individual-dp"), individual_dp_reason="a test")
    query_plan = plan(
        declared_schema, parse_sql("SELECT MEDIAN(score) FROM t", declared_schema), 1, model="individual-dp"
    )
    assert isinstance(query_plan.measurements[0], OrderStatistic)
    for there in (0, 3, 5, 9):
        people = {f"p{number}": random_unit(chance, 1) for number in range(there)}
        noisy_result = measure.measure_plan(query_plan, MemorySource(declared_schema, rows_of(people)))
        assert 0 <= noisy_result.numbers[0][0][0] <= 6
    worst = assert_private(declared_schema, "SELECT MEDIAN(score) FROM t", 1, model="individual-dp")
    assert worst.totals == {"epsilon of individual DP": 1}
    assert "individual DP: weaker" in worst.table()


@pytest.mark.parametrize(("relation", "rows"), RELATIONS)
@pytest.mark.parametrize("tail", TAILS)
def test_every_form_is_answered_from_an_empty_table(relation: str, rows: int, tail: str) -> None:
    """Nothing there is no error: every cell of the schema is answered, and no key that is not public is shown."""
    for query_plan in plan_every_aggregate(relation, rows, tail):
        noisy_result = measure.measure_plan(query_plan, MemorySource(query_plan.schema, []))
        assert len(noisy_result.cells) == (0 if query_plan.threshold else len(query_plan.list_cells()))
