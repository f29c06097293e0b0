"""The several counts of one question: chosen by expected error, private on every neighbour, drawn once, unbiased."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from fractions import Fraction
from functools import cache
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_custodian import write_people

from discreet import Custodian
from discreet.custodian import measure
from discreet.errors import InvalidInput
from discreet.estimation import noise_distributions
from discreet.estimation.noise_distributions import compute_laplace_tail
from discreet.estimation.noisy_totals import WeightedSum
from discreet.measurements.additive import AdditiveNoise, AdditiveReading
from discreet.measurements.contribution_bounds import ContributionBounds
from discreet.mechanisms.discrete_laplace import DiscreteLaplace
from discreet.mechanisms.noise import IndependentNoises
from discreet.planner.options import PlanRequest
from discreet.planner.plan import Plan
from discreet.planner.planner import plan, plan_query, plan_session_counts, replan_query
from discreet.planner.session_budget import SessionBudget, list_noisy_counts
from discreet.planner.workload import (
    AS_ASKED,
    ATOMS,
    JOINTLY,
    Workload,
    WorkloadStrategy,
    build_identity,
    invert_matrix,
    list_workload_strategies,
    multiply_matrices,
    select_independent_rows,
)
from discreet.planner.workload import ASKED_AND_ATOMS as BOTH
from discreet.planner.workload import ATOMS_AND_TOTAL as TOTAL
from discreet.query import parse_sql
from discreet.query.predicates import TRUE
from discreet.schema import Schema
from discreet.sources.memory import MemorySource
from support.small_tables import get_estimator, neighbours_of, random_unit, rows_of, schema

ONE = Fraction(1)
NAMES = (JOINTLY, ATOMS, TOTAL, BOTH)
RELATIONS = [("add-remove", 1), ("add-remove", 3), ("replace-one", 1), ("replace-one", 3)]
TAILS = [
    "",
    "WHERE grade <> 'low'",
    "WHERE grade <> 'low' OR sex = 'F'",
    "GROUP BY grade",
    "WHERE smoker GROUP BY grade",
]


def format_filters(*conditions: str) -> str:
    return ", ".join(f"COUNT(*) FILTER (WHERE {condition}) AS c{index}" for index, condition in enumerate(conditions))


WORKLOADS = {
    "disjoint": format_filters(*(f"age = {age}" for age in range(-3, 4))),
    "nested": format_filters(*(f"age >= {age}" for age in range(-2, 5))),
    "overlapping": format_filters("sex = 'F'", "smoker", "age > 0", "sex = 'F' AND smoker"),
    "with their total": "COUNT(*) AS n, " + format_filters("sex = 'F'", "sex = 'M'"),
    "of values": "COUNT(age), COUNT(day), COUNT(city)",
    "margins": format_filters("sex = 'F'", "sex = 'M'", *(f"age = {age}" for age in (-3, 0, 4)), "city = 'Oslo'"),
}


def plan_workload(declared_schema: Schema, select: str, tail: str = "", epsilon: object = 1) -> Plan:
    return plan(declared_schema, parse_sql(f"SELECT {select} FROM t {tail}", declared_schema), epsilon)


def force_strategy(query_plan: Plan, strategy: str) -> Plan:
    """The same question by another strategy, as a stored answer by it is read."""
    names = (
        f"discrete Laplace ({strategy})" if isinstance(measurement, AdditiveNoise) else measurement.name
        for measurement in query_plan.measurements
    )
    like = tuple(query_plan.spread_by_aggregate([*names]))
    return plan_query(
        query_plan.schema, query_plan.query, PlanRequest(epsilon=query_plan.epsilon, stored_mechanisms=like)
    )


@cache
def plan_every_strategy(relation: str, rows: int, tail: str, workload: str) -> tuple[Plan, dict[str, Plan]]:
    """A workload as it is planned, and by every strategy there is for it; planned once for all that look at it."""
    query_plan = plan_workload(schema(relation, rows, units=5), WORKLOADS[workload], tail)
    by_name = {
        name: query_plan if get_strategy(query_plan) == name else force_strategy(query_plan, name) for name in NAMES
    }
    return query_plan, {
        name: named_plan
        for name, named_plan in by_name.items()
        if any(part.strategy for part in list_additive(named_plan))
    }


def get_strategy(query_plan: Plan) -> str | None:
    """The strategy that the plan takes by itself."""
    return next((measurement.strategy for measurement in list_additive(query_plan) if measurement.strategy), None)


def list_additive(query_plan: Plan) -> list[AdditiveNoise]:
    """The noisy totals of each aggregate that has some, with what they mean for it."""
    readings = [reading for reading in query_plan.readings if isinstance(reading, AdditiveReading)]
    return [reading.estimator.measurement for reading in readings]


def list_scales(measurement: AdditiveNoise) -> list[int | Fraction]:
    return [component.l1_sensitivity for component in measurement.linear_query.components]


def read_people_inputs(query_plan: Plan, people: dict[str, list[dict[str, int | str | None]]]) -> measure.ExactInputs:
    return measure.read_exact_inputs(
        query_plan, MemorySource(query_plan.schema, rows_of(people)), query_plan.list_cells(), query_plan.query.where
    )


def compute_mean_variance(query_plan: Plan, mechanism: str) -> float:
    errors = [
        candidate.expected_error or 0.0 for candidate in query_plan.candidates if candidate.mechanism == mechanism
    ]
    return sum(error**2 for error in errors) / len(errors)


@pytest.mark.parametrize(("relation", "rows"), RELATIONS)
@pytest.mark.parametrize("tail", TAILS)
@pytest.mark.parametrize("tables", [10, pytest.param(400, marks=pytest.mark.soak)])
def test_one_unit_moves_a_strategy_by_no_more_than_declared(relation: str, rows: int, tail: str, tables: int) -> None:
    """Exactly, over all cells and totals, for every strategy; and what it costs is no more than epsilon and its rho."""
    chance = random.Random(f"{relation} {rows} {tail}")
    plans = [
        query_plan
        for workload in WORKLOADS
        for query_plan in plan_every_strategy(relation, rows, tail, workload)[1].values()
    ]
    assert len(plans) > 15
    for query_plan in plans:
        for measurement in list_additive(query_plan)[:1]:
            assert [float(law.rate) for law in measurement.noise.noises] == [  # type: ignore[union-attr]
                float(1 / Fraction(s)) for s in list_scales(measurement)
            ]
    worst = dict.fromkeys(NAMES, Fraction(0))
    for _ in range(tables):
        people = {f"p{number}": random_unit(chance, rows) for number in range(5)}
        other = neighbours_of(people, relation, rows, chance)
        for query_plan in plans:
            position, additive = next(
                (position, measurement)
                for position, measurement in enumerate(query_plan.measurements)
                if isinstance(measurement, AdditiveNoise)
            )
            pairs = zip(
                read_people_inputs(query_plan, people).inputs[position],
                read_people_inputs(query_plan, other).inputs[position],
                strict=True,
            )
            moved = [[abs(x - y) for x, y in zip(*pair, strict=True)] for pair in pairs]  # type: ignore[call-overload]
            both = (part for cell in moved for part in zip(cell, list_scales(additive), strict=True))
            shares = [Fraction(change) / scale for change, scale in both if change]
            assert sum(shares) <= 1, (query_plan.mechanism, tail)
            assert sum(share**2 for share in shares) / 2 <= query_plan.cost.rho, (query_plan.mechanism, tail)
            worst[additive.strategy] = max(worst[additive.strategy], sum(shares, Fraction(0)))
    assert min(worst.values()) > Fraction(1, 2), worst


@pytest.mark.parametrize(("relation", "rows"), RELATIONS)
@pytest.mark.parametrize("tail", ["", "GROUP BY smoker"])
def test_the_declared_bound_is_reached(relation: str, rows: int, tail: str) -> None:
    """For some neighbours all of it is used up: no smaller scale would do."""
    chance = random.Random(11)
    declared_schema = schema(relation, rows, units=2)
    query_plan = force_strategy(plan_workload(declared_schema, format_filters("sex = 'F'", "age > 0"), tail), ATOMS)
    most = Fraction(0)
    for _ in range(3000):
        people = {name: random_unit(chance, rows) for name in ("a", "b")}
        other = neighbours_of(people, relation, rows, chance)
        pairs = zip(
            read_people_inputs(query_plan, people).inputs[0],
            read_people_inputs(query_plan, other).inputs[0],
            strict=True,
        )
        moved = sum(abs(x - y) for pair in pairs for x, y in zip(*pair, strict=True))  # type: ignore[call-overload]
        most = max(most, moved / Fraction(list_additive(query_plan)[0].linear_query.components[0].l1_sensitivity))
        if most == 1:
            break
    assert most == 1


@pytest.mark.parametrize("relation", ["add-remove", "replace-one"])
@pytest.mark.parametrize("tail", TAILS)
def test_without_noise_every_strategy_gives_the_exact_counts(relation: str, tail: str) -> None:
    """Unbiased to the last digit, since the estimates are fractions; atoms are what the plain counts say they are."""
    chance = random.Random(tail)
    declared_schema = schema(relation, 3, units=5)
    people = {f"p{number}": random_unit(chance, 3) for number in range(5)}
    for workload, select in WORKLOADS.items():
        query_plan, by_name = plan_every_strategy(relation, 3, tail, workload)
        alone = [plan_workload(declared_schema, part, tail) for part in _split_select(select)]
        exact = [read_people_inputs(single_plan, people).inputs[0] for single_plan in alone]
        for together in by_name.values():
            exact_inputs = together.spread_by_aggregate(read_people_inputs(together, people).inputs)
            exact_values = [
                [measurement.value(cell) for cell in exact_inputs[output_index]]  # type: ignore[arg-type]
                for output_index, measurement in enumerate(list_additive(together))
            ]
            labels = [output.aggregate for output in query_plan.query.presentation.outputs]
            assert [exact_values[output_index or 0] for output_index in labels] == [
                [cell[0] for cell in column] for column in exact
            ]


def _split_select(select: str) -> list[str]:
    return select.split(", ")


@pytest.mark.parametrize(
    ("workload", "relation", "strategy", "better"),
    [
        ("disjoint", "add-remove", JOINTLY, 49),
        ("disjoint", "replace-one", TOTAL, 12),
        ("nested", "add-remove", ATOMS, 12),
        ("nested", "replace-one", TOTAL, 8),
        ("overlapping", "add-remove", ATOMS, 4.5),
        ("overlapping", "replace-one", TOTAL, 2.1),
        ("with their total", "add-remove", ATOMS, 5.4),
        ("of values", "add-remove", ATOMS, 2.2),
    ],
)
def test_the_best_strategy_is_chosen_and_better_than_as_asked(
    workload: str, relation: str, strategy: str, better: float
) -> None:
    """The mean variance falls by so much, as previewed; the name is told, and all candidates are by theirs."""
    query_plan = plan_workload(
        schema(relation, 1, units=50), WORKLOADS[workload], "WHERE grade <> 'low'", Fraction(1, 10)
    )
    assert query_plan.mechanism == f"discrete Laplace ({strategy})"
    assert {candidate.mechanism for candidate in query_plan.candidates} >= {AS_ASKED, JOINTLY, ATOMS}
    assert {candidate.mechanism for candidate in query_plan.candidates if candidate.chosen} == {strategy}
    assert compute_mean_variance(query_plan, AS_ASKED) > better * compute_mean_variance(query_plan, strategy)
    assert all(
        compute_mean_variance(query_plan, strategy) <= 1.001 * compute_mean_variance(query_plan, name)
        for name in (AS_ASKED, *NAMES)
    )


@pytest.mark.parametrize("workload", ["disjoint", "nested", "overlapping"])
def test_the_error_is_as_previewed_and_intervals_hold(workload: str) -> None:
    """Drawn 400 times: the mean squared error of each count within a fifth or so of what was promised, 95 % covered."""
    chance = random.Random(5)
    declared_schema = schema("add-remove", 1, units=5)
    query_plan = plan_workload(declared_schema, WORKLOADS[workload], epsilon=Fraction(1, 2))
    people = {f"p{number}": random_unit(chance, 1) for number in range(40)}
    secret = read_people_inputs(query_plan, people)
    inputs = query_plan.spread_by_aggregate(secret.inputs)
    exact = [measurement.value(inputs[index][0]) for index, measurement in enumerate(list_additive(query_plan))]  # type: ignore[arg-type]
    samples = [measure.sample_noisy_outputs(query_plan, secret).numbers[0] for _ in range(400)]
    promised = {
        candidate.aggregate: candidate.expected_error for candidate in query_plan.candidates if candidate.chosen
    }
    covered = errors = expected = 0.0
    for index, measurement in enumerate(list_additive(query_plan)):
        meaning = get_estimator(query_plan, index)
        reach = meaning.half_width(0.95)
        off = [float(measurement.value(numbers[index]) - exact[index]) for numbers in samples]
        errors += sum(error**2 for error in off) / len(off)
        expected += (promised[query_plan.query.presentation.outputs[index].label] or 0.0) ** 2
        covered += sum(abs(error) <= reach for error in off) / len(off) / len(list_additive(query_plan))
        low, high = meaning.interval(samples[0][index], 0.95)
        assert high - low == pytest.approx(2 * reach)
    assert errors == pytest.approx(expected, rel=0.25)
    assert 0.93 <= covered <= 0.975


def test_what_is_drawn_together_is_drawn_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same numbers serve every count: a second draw would be a second loss."""
    declared_schema = schema("add-remove", 1, units=5)
    query_plan = plan_workload(declared_schema, f"SUM(age), {WORKLOADS['nested']}", "GROUP BY sex")
    drawings: list[int] = []
    plain = IndependentNoises.sample_units

    def count_draws(self: IndependentNoises, size: int, entropy: object) -> object:
        drawings.append(len(self.noises))
        return plain(self, size, entropy)  # type: ignore[arg-type]

    monkeypatch.setattr(IndependentNoises, "sample_units", count_draws)
    released = measure.sample_noisy_outputs(
        query_plan, read_people_inputs(query_plan, {"p": random_unit(random.Random(1), 1)})
    )
    (group,) = (measurement.aggregates for measurement in query_plan.measurements if len(measurement.aggregates) > 1)
    assert len(group) == 7
    assert len(drawings) == 2
    assert all(len({cell[position] for position in group}) == 1 for cell in released.numbers)


def test_counts_get_the_shares_of_counts() -> None:
    """Of four aggregates with two counts the counts have half of epsilon; all together they cost epsilon, no more."""
    declared_schema = schema("add-remove", 1, units=5)
    query_plan = plan_workload(
        declared_schema, "SUM(age), AVG(score), " + format_filters("sex = 'F'", "smoker"), epsilon=2
    )
    counts = [measurement for measurement in list_additive(query_plan) if measurement.strategy]
    assert len(counts) == 2
    rates = [
        law.rate * Fraction(part.l1_sensitivity)
        for law, part in zip(counts[0].noise.noises, counts[0].linear_query.components, strict=False)
    ]
    assert set(rates) == {Fraction(1)}
    assert query_plan.cost.epsilon == query_plan.guarantee.epsilon == 2
    assert query_plan.cost.rho <= Fraction(1, 4) + Fraction(1, 2)


def test_public_counts_stay_public_and_one_count_alone_is_as_before() -> None:
    """A filter makes the number of rows private; without one it is what the schema says, and takes no share."""
    declared_schema = schema("replace-one", 1, units=50)
    query_plan = plan_workload(declared_schema, "COUNT(*), " + format_filters("sex = 'F'", "smoker"))
    assert query_plan.measurements[0].name == "public by the schema"
    single = plan_workload(declared_schema, "COUNT(*) FILTER (WHERE sex = 'F')")
    assert single.mechanism == "discrete Laplace"
    assert list_additive(single)[0].linear_query.components[0].l1_sensitivity == 1
    assert list_additive(single)[0].linear_query.measures[0].where != TRUE
    units = plan_workload(schema("replace-one", 3, units=50), "COUNT(DISTINCT pid) FILTER (WHERE smoker)")
    assert units.mechanism != "public by the schema"


def test_a_stored_answer_is_found_at_any_epsilon() -> None:
    """What names it does not depend on epsilon, and tells one strategy from another; so does the plan it is read by."""
    declared_schema = schema("replace-one", 1, units=50)
    for select in WORKLOADS.values():
        plans = [plan_workload(declared_schema, select, "WHERE grade <> 'low'", epsilon) for epsilon in (0.01, 0.3, 1)]
        assert len({query_plan.build_question_key() for query_plan in plans}) == 1
        replanned = replan_query(plans[0], PlanRequest(epsilon=Fraction(1)))
        assert replanned.build_question_key() == plans[0].build_question_key()
        assert [measurement.linear_query for measurement in list_additive(replanned)] == [
            measurement.linear_query for measurement in list_additive(plans[2])
        ]
        assert [measurement.noise for measurement in list_additive(replanned)] == [
            measurement.noise for measurement in list_additive(plans[2])
        ]
    assert len({force_strategy(plans[0], name).build_question_key() for name in (*NAMES, "none of these")}) == 5


def test_a_session_counts_what_a_filter_leaves() -> None:
    """Two disjoint filters together cost no more than one of them; a filter that was passed over would cost twice."""
    declared_schema = schema("add-remove", 1, units=5)
    query_plan = plan_session_counts(
        declared_schema,
        parse_sql(f"SELECT {format_filters('age > 0', 'age < 0')} FROM t", declared_schema),
        Fraction(2),
        ONE,
    )
    assert SessionBudget(declared_schema, ONE).add_counts(list_noisy_counts(query_plan, Fraction(2))).spent == Fraction(
        1, 2
    )


def test_keys_that_are_not_public_have_counts_together_too() -> None:
    """After the threshold, with what is left of epsilon; the count that chose the keys is no part of it."""
    declared_schema = schema("add-remove", 1, units=5)
    select = "COUNT(*), " + format_filters("sex = 'F'", "smoker", "age > 0")
    query_plan = plan(
        declared_schema, parse_sql(f"SELECT {select} FROM t GROUP BY city", declared_schema), 1, delta=1e-6
    )
    assert query_plan.measurements[0].name == "discrete Laplace over a threshold"
    assert all(measurement.strategy for measurement in list_additive(query_plan))
    assert query_plan.cost.epsilon <= 1


def test_under_delta_nothing_is_together() -> None:
    """Gaussian noise is shared as it was."""
    declared_schema = schema("add-remove", 1, units=5)
    query = parse_sql(f"SELECT {WORKLOADS['nested']} FROM t", declared_schema)
    query_plan = plan(declared_schema, query, 1, delta=1e-6)
    assert not any(measurement.strategy for measurement in list_additive(query_plan))


def test_too_many_atoms_are_asked_as_they_are() -> None:
    """Seven halves cut a table into 128 atoms, which is too many; 100 thresholds of a date likewise."""
    declared_schema = schema("add-remove", 1, units=5)
    halves = format_filters(
        "sex = 'F'", "smoker", "age > 0", "grade = 'low'", "day IS NULL", "city = 'Oslo'", "score > 1"
    )
    query_plan = plan_workload(declared_schema, halves)
    assert query_plan.mechanism == "discrete Laplace"
    assert {candidate.mechanism for candidate in query_plan.candidates} == {AS_ASKED}


@pytest.mark.parametrize("epsilon", [1e-9, 0.001, 30, 10_000])
def test_extremes_of_epsilon_are_planned_and_told(epsilon: object) -> None:
    """Weights, reaches and previews stay finite and in order."""
    declared_schema = schema("add-remove", 3, units=5)
    for select in WORKLOADS.values():
        query_plan = plan_workload(declared_schema, select, epsilon=epsilon)
        for reading in query_plan.readings:
            reaches = [reading.half_width(confidence) for confidence in (0.5, 0.95, 0.999)]
            assert reaches == sorted(reaches)
            assert math.isfinite(reaches[-1])


@pytest.mark.parametrize(
    ("select", "message"),
    [
        (format_filters("age > 99", "smoker"), "no row can satisfy"),
        (format_filters("age > 1 AND age < 1"), "no row can satisfy"),
    ],
)
def test_refusals(select: str, message: str) -> None:
    """One sentence, before anything is charged."""
    with pytest.raises(InvalidInput, match=message) as refusal:
        plan_workload(schema("add-remove", 1, units=5), select)
    assert "\n" not in str(refusal.value)


TWO_COUNTS = """SELECT COUNT(*) FILTER (WHERE age >= 40) AS a, COUNT(*) FILTER (WHERE age >= 60) AS b, COUNT(*) AS n
    FROM people WHERE sex = 'F'"""


def test_a_custodian_answers_together_stores_and_previews(tmp_path: Path) -> None:
    """One charge of epsilon; the same question again, or at less, is the stored answer; the preview says why."""
    with Custodian.open(write_people(tmp_path)) as people:
        preview = people.preview(TWO_COUNTS, 0.5)
        assert "atoms" in preview.mechanism
        assert preview.reason.startswith("the counts together have an expected error of ")
        answer = people.answer(TWO_COUNTS, 0.5)
        assert answer.guarantee.epsilon == Fraction(1, 2)
        assert set(answer.rows[0]) == {"a", "b", "n"}
        spans = answer.intervals(0.95)[0]
        assert all(
            low < value < high for value, (low, high) in zip(answer.rows[0].values(), spans.values(), strict=True)
        )
        assert people.answer(TWO_COUNTS, 0.5).rows == answer.rows
        second = people.answer(TWO_COUNTS.replace("age >= 60", "NOT age < 60"), 0.25)
        assert (second.rows, second.stored) == (answer.rows, True)
        assert second.intervals(0.95) == answer.intervals(0.95)
        before = people.preview(TWO_COUNTS, 0.5).balances
        with pytest.raises(InvalidInput, match="no row can satisfy"):
            people.answer("SELECT COUNT(*), COUNT(*) FILTER (WHERE age > 999) FROM people", 0.5)
        assert people.preview(TWO_COUNTS, 0.5).balances == before


def solve_by_pseudo_inverse(matrix: np.ndarray, totals: Sequence[Sequence[int]], weights: Sequence[int]) -> np.ndarray:
    """Weighted least squares in floating point, by the pseudo-inverse."""
    totals_array, scaled = np.array(totals, float), np.array(weights, float)[:, None] * np.array(totals, float)
    assert totals_array.shape[1] == matrix.shape[1]
    return np.asarray(matrix @ np.linalg.pinv(scaled) * np.array(weights, float))


@st.composite
def st_workloads(draw_: st.DrawFn) -> Workload:
    counts, atoms = draw_(st.integers(2, 5)), draw_(st.integers(1, 7))
    columns = st.lists(st.integers(0, 1), min_size=counts, max_size=counts).filter(any)
    atom_columns = draw_(st.lists(columns, min_size=atoms, max_size=atoms, unique_by=tuple))
    return Workload(np.array(atom_columns, dtype=np.int64).T, draw_(st.booleans()))


@given(st_workloads(), st.sampled_from(RELATIONS), st.booleans())
@settings(max_examples=60, deadline=None)
def test_every_strategy_is_least_squares_and_its_bounds_are_exact(
    work: Workload, relation: tuple[str, int], grouped: bool
) -> None:
    """L S = H exactly; L is the pseudo-inverse's; `most` and `square` are those of the worst pair, found one by one."""
    facts = ContributionBounds(schema(relation[0], relation[1], units=5), TRUE, 4 if grouped else None)
    for strategy in list_workload_strategies(work, facts):
        totals = np.array(strategy.totals) if strategy.measures_atoms else work.matrix
        assert multiply_matrices(strategy.estimates, totals.tolist()) == tuple(
            tuple(map(Fraction, row)) for row in work.matrix.tolist()
        )
        expected = solve_by_pseudo_inverse(work.matrix, totals.tolist(), strategy.weights)
        assert np.allclose(np.array(strategy.estimates, float), expected, atol=1e-9)
        most, square = compute_worst_pair(strategy, totals, work, facts)
        assert (strategy.l1_sensitivity, strategy.l2_sensitivity_sq) == (max(most, 1), max(square, 1))
        assert strategy.compute_rho(Fraction(1)) <= Fraction(1, 2)


def compute_worst_pair(
    strategy: WorkloadStrategy, totals: np.ndarray, work: Workload, facts: ContributionBounds
) -> tuple[int, int]:
    columns = [tuple(column) for column in totals.T.tolist()]
    weigh = [tuple(w * x for w, x in zip(strategy.weights, column, strict=True)) for column in columns]
    if not facts.is_replace_one:
        return max(map(sum, weigh)), max(sum(x * x for x in column) for column in weigh)
    if facts.is_grouped:  # two cells side by side
        return 2 * max(map(sum, weigh)), 2 * max(sum(x * x for x in column) for column in weigh)
    weigh += [(0,) * len(strategy.weights)] * (work.has_uncounted or facts.rows_per_unit > 1)
    changes = [[abs(x - y) for x, y in zip(*pair, strict=True)] for pair in combinations(weigh, 2)]
    return max(map(sum, changes), default=0), max((sum(x * x for x in change) for change in changes), default=0)


@given(st.lists(st.lists(st.integers(-3, 3), min_size=3, max_size=3), min_size=1, max_size=4))
def test_fractions_are_solved_exactly(rows: list[list[int]]) -> None:
    """The rows kept are as many as the rank, and a product with the inverse is the unit."""
    independent_rows = select_independent_rows(rows)
    assert len(independent_rows) == np.linalg.matrix_rank(np.array(rows))
    if independent_rows:
        gram = multiply_matrices(independent_rows, tuple(zip(*independent_rows, strict=True)))
        assert multiply_matrices(gram, invert_matrix(gram)) == build_identity(len(independent_rows))


def test_the_law_of_a_weighted_sum() -> None:
    """Against partial fractions where these are exact, and against enumeration where the noise is nearly none."""
    two = IndependentNoises((DiscreteLaplace(Fraction(1, 100), 1), DiscreteLaplace(Fraction(1, 300), 1)))
    half_width = noise_distributions.compute_sum_half_width(two, (1.0, 0.5), 0.95)
    assert compute_laplace_tail([100, 150], np.array([half_width]))[0] == pytest.approx(0.05, rel=0.03)
    many = IndependentNoises((DiscreteLaplace(3, 1),) * 20)
    law = np.array([1.0])
    each = np.array([DiscreteLaplace(3, 1).probability(k) for k in range(-12, 13)])
    for _ in range(20):
        law = np.convolve(law, each)
    middle = len(law) // 2
    for confidence in (0.5, 0.9, 0.99, 0.999):
        reach = noise_distributions.compute_sum_half_width(many, (1.0,) * 20, confidence)
        inside = law[middle - math.floor(reach) : middle + math.floor(reach) + 1].sum()
        assert inside >= confidence
        assert reach < 1.1 + next(k for k in range(99) if law[middle - k : middle + k + 1].sum() >= confidence)
    line = noise_distributions.tabulate_laplace_sum(many, (1.0,) * 20)
    assert line.sd == pytest.approx(math.sqrt(20 * DiscreteLaplace(3, 1).variance()))


def test_a_weighted_estimate_spans_its_ranges() -> None:
    """The least and greatest value over the ranges of the totals, whatever the signs."""
    weighted_sum = WeightedSum((Fraction(1, 2), Fraction(-1), Fraction(0)))
    assert weighted_sum.value((4, 1, 9)) == 1
    ranges = [(Fraction(0), Fraction(4)), (Fraction(1), Fraction(3)), (Fraction(0), Fraction(9))]
    assert weighted_sum.value_range(ranges) == (-3, 1)
