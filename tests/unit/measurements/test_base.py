"""What every kind of measurement keeps of the interface, asked of a question for each of them."""

from __future__ import annotations

import json
import math
from fractions import Fraction
from typing import Any

import pytest

from discreet import InvalidInput
from discreet.custodian.measure import measure_plan
from discreet.errors import Unsupported
from discreet.measurements.base import UNPRICED, AggregateRequest, Measurement, SelfReading
from discreet.measurements.contribution_bounds import ContributionBounds
from discreet.mechanisms.entropy import SYSTEM
from discreet.planner import candidates
from discreet.planner.plan import Plan
from discreet.planner.planner import plan
from discreet.privacy.cost import PrivacyCost
from discreet.query import parse_sql
from discreet.query.predicates import TRUE
from discreet.query.query import AGGREGATE_FUNCTIONS, Aggregate
from discreet.schema import Schema
from discreet.sources.memory import MemorySource
from discreet.verification import assert_private
from support.small_tables import rows_of, schema

TENTH = Fraction(1, 10)
ROW = {"age": 1, "score": 3, "debt": -2, "sex": 0, "grade": 1, "smoker": 1, "day": 11, "city": "Oslo"}
QUESTIONS: dict[str, tuple[str, dict[str, Any]]] = {
    "constant": ("SELECT COUNT(*) FROM t", {}),
    "count": ("SELECT COUNT(*) FROM t WHERE smoker", {}),
    "sum in groups": ("SELECT sex, SUM(age) FROM t GROUP BY sex", {}),
    "mean": ("SELECT AVG(age) FROM t WHERE sex = 'F'", {}),
    "variance": ("SELECT VAR(age) FROM t WHERE sex = 'F'", {}),
    "mean of ranks": ("SELECT TRIMMED_MEAN(score, 0.1) FROM t", {"epsilon": 20}),
    "gaussian": ("SELECT COUNT(*), SUM(age), AVG(age) FROM t WHERE smoker", {"delta": TENTH**9, "model": "approx-dp"}),
    "joint counts": ("SELECT COUNT(*) FILTER (WHERE sex = 'F'), COUNT(*) FILTER (WHERE age > 0) FROM t", {}),
    "hierarchy": ("SELECT sex, grade, COUNT(*) FROM t GROUP BY ROLLUP (sex, grade)", {}),
    "refined total": ("SELECT SUM(age) FROM t", {"prior": "normal(3, 1)", "distance": "continuous"}),
    "choice": ("SELECT MEDIAN(age) FROM t", {}),
    "choice with a prior": ("SELECT MEDIAN(age) FROM t", {"prior": "uniform(-3, 4)"}),
    "interval": ("SELECT MEDIAN(age) FROM t", {"interval": True}),
    "several choices": ("SELECT QUANTILE(age, 0.25), QUANTILE(age, 0.75), MODE(grade) FROM t", {}),
    "refined extreme": ("SELECT MAX(age) FROM t", {"prior": "uniform(0, 4)", "distance": "continuous"}),
    "one person": ("SELECT age FROM t FOR UNIT 'p0'", {}),
    "order statistic": ("SELECT MEDIAN(score) FROM t", {"model": "individual-dp"}),
    "randomized response": ("SELECT COUNT(*) FROM t WHERE smoker", {"mechanism": "randomized response"}),
    "private keys": ("SELECT city, COUNT(*), SUM(age) FROM t GROUP BY city", {"delta": TENTH**3, "model": "approx-dp"}),
}


def declare(model: str = "approx-dp") -> Schema:
    """A schema that allows one model besides dp, and questions about one person."""
    reason = "a test" if model == "individual-dp" else ""
    return schema("replace-one", 1, units=6, models=("dp", model), individual_dp_reason=reason, individual_queries=True)


def plan_named(name: str, **changes: Any) -> Plan:
    question, options = QUESTIONS[name]
    declared_schema = declare(options.get("model", "approx-dp"))
    arguments = {"epsilon": 1, **options, **changes}
    return plan(declared_schema, parse_sql(question, declared_schema), **arguments)


def list_kinds(kind: type) -> set[type]:
    return {kind, *(inner for one in kind.__subclasses__() for inner in list_kinds(one))}


def test_every_kind_is_asked() -> None:
    """So that a new kind is tried by all tests here, or fails this one."""
    asked = {type(measurement).__name__ for name in QUESTIONS for measurement in plan_named(name).measurements}
    ours = {kind.__name__ for kind in list_kinds(Measurement) if kind.__module__.startswith("discreet.")}
    assert ours - {Measurement.__name__, SelfReading.__name__} == asked


@pytest.mark.parametrize("name", QUESTIONS)
def test_every_aggregate_is_answered_once(name: str) -> None:
    planned = plan_named(name)
    places = [place for measurement in planned.measurements for place in measurement.aggregates]
    assert sorted(places) == list(range(len(planned.query.aggregates) or 1)) == list(range(len(planned.readings)))
    assert [measurement.aggregates[0] for measurement in planned.measurements] == sorted(
        measurement.aggregates[0] for measurement in planned.measurements
    )


@pytest.mark.parametrize("name", QUESTIONS)
def test_costs_add_up_to_what_is_charged(name: str) -> None:
    """Each is above 0 but where nothing is read, or the threshold has paid; nothing is left without a price."""
    planned = plan_named(name)
    costs = [measurement.privacy_cost for measurement in planned.measurements]
    if planned.threshold is not None:
        costs.append(planned.threshold.privacy_cost)
    assert sum(costs, PrivacyCost()) == planned.cost
    for measurement in planned.measurements:
        is_paid = measurement.privacy_cost.epsilon > 0 or measurement.privacy_cost.gaussian_rho > 0
        assert is_paid or measurement.is_public or planned.threshold is not None
        assert measurement.privacy_cost != UNPRICED


@pytest.mark.parametrize("name", QUESTIONS)
def test_the_name_in_the_store_begins_with_the_mechanism_and_is_the_same_each_time(name: str) -> None:
    """It is a list that JSON keeps."""
    keys = []
    for planned in (plan_named(name), plan_named(name)):
        for measurement in planned.measurements:
            key = measurement.cache_key()
            assert key[0] == measurement.name
            assert json.loads(json.dumps(key))[0] == measurement.name
        keys.append(planned.build_question_key())
    assert keys[0] == keys[1]


@pytest.mark.parametrize("name", QUESTIONS)
def test_outputs_are_read_whatever_they_are(name: str) -> None:
    """Of a table and of an empty one: values, intervals and posteriors are there, and what is told beforehand too."""
    planned = plan_named(name)
    people = {f"p{number}": [dict(ROW)] for number in range(6)}
    for rows in (rows_of(people), []):  # type: ignore[arg-type]
        released = measure_plan(planned, MemorySource(planned.schema, rows))
        for numbers in released.numbers:
            assert len(numbers) == len(planned.readings)
            for reading, outputs in zip(planned.readings, numbers, strict=True):
                assert all(type(number) is int for number in outputs)
                assert reading.describe_accuracy(0.9, "with 90 %")
                assert reading.describe_selected_accuracy()
                if planned.hierarchy is None:
                    assert len(reading.values(outputs)) >= 1
                    interval = reading.interval(outputs, 0.9)
                    assert interval is None or interval[0] <= interval[1]  # type: ignore[operator]
                    reading.posterior(outputs)
                    reading.is_surprising(outputs, 0.01)
                reading.get_stated_distribution()
                reading.expected_error()


@pytest.mark.parametrize("name", QUESTIONS)
def test_a_prior_is_used_or_the_plan_says_why_not(name: str) -> None:
    """In a sentence; a question that takes no prior refuses it."""
    try:
        planned = plan_named(name, prior="uniform(0, 2)")
    except (InvalidInput, Unsupported):
        return
    assert planned.prior_description.endswith(".")
    reading = planned.readings[0]
    assert (reading.prior_use is None) is bool(reading.prior_unused_reason)
    assert reading.prior_unused_reason == reading.prior_unused_reason.rstrip(".")
    assert reading.prior_unused_reason[:1] == reading.prior_unused_reason[:1].lower()


@pytest.mark.parametrize("name", QUESTIONS)
def test_an_error_that_is_known_beforehand_can_be_asked_for(name: str) -> None:
    """The bound that an accuracy finds its epsilon by is no less than the error, and finite where that is.

    With private keys no accuracy can be asked for.
    """
    planned = plan_named(name)
    for reading in planned.readings:
        half_width, bound = reading.half_width(0.9), reading.bound_error(0.9)
        assert bound >= half_width
        assert math.isfinite(bound) is math.isfinite(half_width) or planned.threshold is not None


@pytest.mark.parametrize("name", QUESTIONS)
def test_neighbours_lose_no_more_than_the_cost(name: str) -> None:
    question, options = QUESTIONS[name]
    assert assert_private(
        declare(options.get("model", "approx-dp")), question, **{"epsilon": 1, **options}, count=12
    ).ok


@pytest.mark.parametrize("name", QUESTIONS)
def test_degraded_outputs_have_the_shape_of_drawn_ones(name: str) -> None:
    planned, stored = plan_named(name), plan_named(name, epsilon=30)
    for measurement, larger in zip(planned.measurements, stored.measurements, strict=False):
        if measurement.is_degradable and measurement.name == larger.name and planned.threshold is None:
            cells = measure_plan(stored, MemorySource(stored.schema, [])).numbers
            outputs = [cell[measurement.aggregates[0]] for cell in cells]
            degraded = measurement.degrade(outputs, Fraction(30), SYSTEM)
            assert [len(numbers) for numbers in degraded] == [len(numbers) for numbers in outputs]


@pytest.mark.parametrize("function", AGGREGATE_FUNCTIONS)
def test_every_function_has_a_factory(function: Any) -> None:
    """And what it proposes is of this aggregate alone."""
    orders = {"quantile": (Fraction(1, 2),), "trimmed_mean": (TENTH,)}.get(function, ())
    column = None if function in {"count", "count_distinct"} else "score"
    bounds = ContributionBounds(declare(), TRUE)
    request = AggregateRequest(aggregate=Aggregate(function, column, orders), bounds=bounds, epsilon=Fraction(1))
    proposals = candidates.propose_measurements(request)
    assert proposals
    assert all(measurement.aggregates == (0,) for measurement in proposals)


def test_a_kind_that_is_asked_for_by_name_is_proposed_with_any_name() -> None:
    """Not without one; and where it does not fit, only its own name is refused."""
    requested = {
        mechanism: AggregateRequest(
            aggregate=Aggregate("count"),
            bounds=ContributionBounds(declare(), TRUE),
            epsilon=Fraction(1),
            mechanism=mechanism,
        )
        for mechanism in ("", "roulette", "staircase")
    }
    fitting = {name: request.should_propose_by_name("roulette", True, "never") for name, request in requested.items()}
    assert fitting == {"": False, "roulette": True, "staircase": True}
    assert not requested[""].should_propose_by_name("roulette", False, "it needs a wheel")
    assert not requested["staircase"].should_propose_by_name("roulette", False, "it needs a wheel")
    with pytest.raises(Unsupported, match="it needs a wheel"):
        requested["roulette"].should_propose_by_name("roulette", False, "it needs a wheel")


@pytest.mark.parametrize(
    ("text", "mechanism"),
    [
        ("SELECT COUNT(*) FROM t WHERE smoker", "discrete Laplace"),
        ("SELECT SUM(age) FROM t WHERE smoker", "staircase"),
        ("SELECT SUM(age) FROM t WHERE smoker", "discrete Laplace"),
        ("SELECT MEDIAN(age) FROM t", "permute-and-flip on ranks"),
        ("SELECT COUNT(*) FILTER (WHERE sex = 'F'), COUNT(*) FILTER (WHERE age > 0) FROM t", "discrete Laplace"),
        (
            "SELECT COUNT(*) FILTER (WHERE sex = 'F'), COUNT(*) FILTER (WHERE age > 0) FROM t",
            "discrete Laplace (atoms)",
        ),
        ("SELECT COUNT(*) FROM t", "public by the schema"),
    ],
)
def test_a_mechanism_is_chosen_by_its_name(text: str, mechanism: str) -> None:
    """Where it would be chosen anyway the stored answer is the same one."""
    declared_schema = declare()
    query = parse_sql(text, declared_schema)
    named, best = plan(declared_schema, query, 1, mechanism=mechanism), plan(declared_schema, query, 1)
    assert named.mechanism == mechanism
    assert (named.build_question_key() == best.build_question_key()) is (best.mechanism == mechanism)
    accurate = "COUNT" in text and "FILTER" not in text
    if accurate:
        assert plan(declared_schema, query, accuracy="±50 at 95%", mechanism=mechanism).mechanism == mechanism


@pytest.mark.parametrize(
    ("text", "options", "offered"),
    [
        ("SELECT SUM(age) FROM t WHERE smoker", {"epsilon": 1}, "staircase, discrete Laplace"),
        ("SELECT MEDIAN(age) FROM t", {"epsilon": 1}, "permute-and-flip on ranks"),
        ("SELECT COUNT(*) FROM t", {"epsilon": 1}, "public by the schema"),
        ("SELECT age FROM t FOR UNIT 'p0'", {"epsilon": 1}, "refinement of an even prior"),
        ("SELECT COUNT(*) FROM t WHERE smoker", {"noise_scale": 3}, "discrete Laplace"),
        ("SELECT sex, grade, COUNT(*) FROM t GROUP BY ROLLUP (sex, grade)", {"epsilon": 1}, "levels"),
    ],
)
def test_a_name_that_does_not_fit_is_refused_with_those_that_do(
    text: str, options: dict[str, Any], offered: str
) -> None:
    declared_schema = declare()
    query = parse_sql(text, declared_schema)
    with pytest.raises(
        InvalidInput, match="mechanism 'roulette' is not on offer for this question; choose "
    ) as refusal:
        plan(declared_schema, query, **options, mechanism="roulette")
    assert offered in str(refusal.value)
    assert "\n" not in str(refusal.value)


def test_a_name_that_does_not_fit_all_aggregates_is_not_offered_again() -> None:
    """Each of them is on offer for one aggregate, and none that is refused is offered."""
    declared_schema = declare()
    text = "SELECT COUNT(*), SUM(age) FROM t WHERE smoker"
    for mechanism in ("staircase", "permute-and-flip on ranks"):
        with pytest.raises(InvalidInput, match=f"mechanism '{mechanism}' is not on offer for all") as refusal:
            plan(declared_schema, parse_sql(text, declared_schema), 1, mechanism=mechanism)
        assert refusal.value.code == "unknown-name"
        assert mechanism not in str(refusal.value).partition(";")[2]
        assert "ask for its aggregates one by one" in str(refusal.value)
    single = parse_sql("SELECT SUM(age) FROM t WHERE smoker", declared_schema)
    with pytest.raises(InvalidInput, match=r"did you mean 'staircase'\?$"):
        plan(declared_schema, single, 1, mechanism="stiarcase")


def test_a_mechanism_is_text() -> None:
    declared_schema = declare()
    with pytest.raises((InvalidInput, Unsupported)):
        plan(declared_schema, parse_sql("SELECT SUM(age) FROM t", declared_schema), 1, mechanism=7)  # type: ignore[arg-type]
