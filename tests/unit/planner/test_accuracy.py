"""How near an answer should be: as it is written, and the smallest epsilon that gives it."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from discreet import BudgetExceeded, InvalidInput, Unsupported
from discreet.custodian import preview_question
from discreet.planner.options import MAX_CONFIDENCE, MIN_CONFIDENCE, Accuracy, build_query_options
from discreet.planner.plan import Plan
from discreet.planner.planner import plan
from discreet.query import parse_sql
from discreet.schema import Budget, Schema
from support.small_tables import farthest, schema

COUNT = "SELECT COUNT(*) FROM t WHERE age > 0"
REPLACE, ADD = schema("replace-one", 1, 10_000), schema("add-remove", 1, 10_000)
SEVERAL = schema("add-remove", 3, 10_000)


def plan_by_accuracy(question: str, declared_schema: Schema, **options: object) -> Plan:
    return plan(declared_schema, parse_sql(question, declared_schema), max_epsilon=Fraction(20), **options)  # type: ignore[arg-type]


def compute_miss_rate(epsilon: Fraction, distance: int) -> float:
    """How likely discrete Laplace noise goes farther than a distance, from its geometric tails."""
    ratio = math.exp(-float(epsilon))
    return 2 * ratio ** (distance + 1) / (1 + ratio)


@pytest.mark.parametrize(
    "text",
    ["±50 at 95%", "±50", "50", "± 50 at 95 %", "+/-50 at 0.95", "+-50 with 95%", "within 50 at 95.0%", "5e1", "5_0"],
)
def test_several_ways_to_write_the_same(text: str) -> None:
    """Without a probability 95 % is meant."""
    assert Accuracy.parse(text) == Accuracy(Fraction(50), Fraction(95, 100))


@given(
    st.decimals("0.001", "1e9", places=3).map(Fraction),
    st.decimals(str(float(MIN_CONFIDENCE)), str(float(MAX_CONFIDENCE)), places=6).map(Fraction),
)
def test_what_is_written_is_read_back(distance: Fraction, confidence: Fraction) -> None:
    """To the last digit: an accuracy in a log is the one that was asked."""
    accuracy = Accuracy(distance, confidence)
    assert Accuracy.parse(str(accuracy)) == accuracy
    assert Accuracy.parse(accuracy) == accuracy


@pytest.mark.parametrize(
    "text",
    ["", "near", "±", "±0", "-5", "±nan", "±inf", "±5 at 49%", "±5 at 100%", "±5 at 95% or so", "±5 at x", 50, None],
)
def test_what_is_no_accuracy(text: object) -> None:
    with pytest.raises(InvalidInput):
        Accuracy.parse(text)


@pytest.mark.parametrize("declared_schema", [REPLACE, ADD], ids=["replace-one", "add-remove"])
@pytest.mark.parametrize(("distance", "confidence"), [(50, "95%"), (3, "99%"), (1000, "50%"), (20, "99.9999%")])
def test_a_count_costs_the_smallest_epsilon(declared_schema: Schema, distance: int, confidence: str) -> None:
    """To four digits: the next smaller number would miss more often than was asked."""
    epsilon = plan_by_accuracy(COUNT, declared_schema, accuracy=f"±{distance} at {confidence}").epsilon
    allowed = 1 - float(Fraction(confidence.rstrip("%")) / 100)
    unit = Fraction(10) ** (math.floor(math.log10(epsilon)) - 3)
    assert (epsilon / unit).denominator == 1
    assert compute_miss_rate(epsilon, distance) <= allowed * (1 + 1e-9)
    assert compute_miss_rate(epsilon - unit, distance) > allowed


def test_fifty_people_with_95_percent() -> None:
    assert plan_by_accuracy(COUNT, REPLACE, accuracy="±50 at 95%").epsilon == Fraction("0.05932")


@pytest.mark.parametrize(
    ("declared_schema", "aggregate", "accuracy"),
    [
        (REPLACE, "SUM(score)", "±100 at 95%"),
        (ADD, "SUM(age)", "±40 at 99%"),
        (SEVERAL, "SUM(age)", "±40 at 99%"),
        (SEVERAL, "COUNT(*)", "±40"),
        (REPLACE, "AVG(score)", "±0.2"),
        (ADD, "VAR(age)", "±1 at 90%"),
    ],
)
def test_other_totals_cost_the_smallest_epsilon(declared_schema: Schema, aggregate: str, accuracy: str) -> None:
    """As near as asked, and not so with a hundredth less."""
    question, target = f"SELECT {aggregate} FROM t WHERE age > 0", Accuracy.parse(accuracy)
    query_plan = plan_by_accuracy(question, declared_schema, accuracy=accuracy, rows=4000)
    assert farthest(query_plan, float(target.confidence)) <= target.distance
    less = plan_by_accuracy(question, declared_schema, epsilon=query_plan.epsilon * Fraction(99, 100), rows=4000)
    assert farthest(less, float(target.confidence)) > target.distance * Fraction(99, 100)


def test_what_is_known_does_not_make_an_accuracy_cheaper() -> None:
    """The interval must hold whatever the prior is worth."""
    plain = plan_by_accuracy(COUNT, REPLACE, accuracy="±50")
    assert plan_by_accuracy(COUNT, REPLACE, accuracy="±50", prior="normal(5000, 1)").epsilon == plain.epsilon


def test_nearer_or_surer_costs_more() -> None:
    def compute_cost(accuracy: str) -> Fraction:
        return plan_by_accuracy(COUNT, REPLACE, accuracy=accuracy).epsilon

    assert (
        compute_cost("±50 at 90%")
        < compute_cost("±50 at 95%")
        < compute_cost("±40 at 95%")
        < compute_cost("±40 at 99%")
    )


def test_what_is_public_is_exact_and_free() -> None:
    preview = preview_question(REPLACE, "SELECT COUNT(*) FROM t", build_query_options(accuracy="±1"))
    assert (preview.mechanism, preview.cost.epsilon) == ("public by the schema", 0)


def test_the_reachable_accuracy_is_told() -> None:
    """And it is reached when asked for."""
    little = Budget(Fraction(1, 10), Fraction(1, 100))
    poor = replace(REPLACE, budget=little, analyst_budget=little)
    with pytest.raises(BudgetExceeded, match=r"the epsilon of 0\.1 that is left; ±30 at 95% is what that can reach"):
        preview_question(poor, COUNT, build_query_options(accuracy="±5"))
    assert (preview_question(poor, COUNT, build_query_options(accuracy="±30")).cost.epsilon or 0) <= Fraction(1, 10)


@pytest.mark.parametrize("confidence", [50, 99])
@pytest.mark.parametrize("left", ["0.0037", "0.0091", "0.1"])
@pytest.mark.parametrize("aggregate", ["COUNT(*)", "SUM(age)", "AVG(score)"])
@pytest.mark.parametrize("declared_schema", [REPLACE, ADD], ids=["replace-one", "add-remove"])
def test_the_accuracy_that_a_refusal_advises_is_not_refused(
    declared_schema: Schema, aggregate: str, left: str, confidence: int
) -> None:
    """As it is printed; and hardly less than what is left is needed for it."""
    query, most = parse_sql(f"SELECT {aggregate} FROM t WHERE age > 0", declared_schema), Fraction(left)
    options: dict[str, Any] = {"rows": 100_000, "max_epsilon": most}
    with pytest.raises(BudgetExceeded, match=f"the epsilon of {left} that is left; ±.* is what that can") as refusal:
        plan(declared_schema, query, accuracy=f"±0.0001 at {confidence}%", **options)
    advised = str(refusal.value).rpartition("; ")[2].removesuffix(" is what that can reach")
    reached = plan(declared_schema, query, accuracy=advised, **options)
    assert most * Fraction(9, 10) < reached.epsilon <= most


@pytest.mark.parametrize("left", [Fraction(0), Fraction(1, 10**12)])
def test_below_the_least_epsilon_nothing_is_left(left: Fraction) -> None:
    """An epsilon that cannot be asked for reaches no accuracy."""
    with pytest.raises(BudgetExceeded) as refusal:
        plan(ADD, parse_sql(COUNT, ADD), accuracy="±10 at 95%", max_epsilon=left)
    assert str(refusal.value) == (
        "±10 at 95% cannot be reached: nothing is left of the budget, and only stored answers can be returned"
    )


def test_without_a_budget_nothing_is_said_to_be_left() -> None:
    with pytest.raises(BudgetExceeded, match=r"^no epsilon reaches ±.* from 30 rows; ±.* is what epsilon 10,000 can"):
        plan(ADD, parse_sql("SELECT VAR(score) FROM t WHERE age > 0", ADD), accuracy="±1e-9", rows=30)


@pytest.mark.parametrize("aggregate", ["MEDIAN(age)", "MAX(age)", "MODE(sex)"])
def test_only_of_what_has_a_public_law(aggregate: str) -> None:
    with pytest.raises(Unsupported, match="ask for this with an epsilon"):
        preview_question(REPLACE, f"SELECT {aggregate} FROM t", build_query_options(accuracy="±5"))


def test_any_budget_will_do() -> None:
    """An epsilon so large that there is no noise left to speak of is no trouble while searching for a small one."""
    assert REPLACE.budget.epsilon == 10**6
    preview = preview_question(
        REPLACE, "SELECT AVG(score) FROM t WHERE age > 0", build_query_options(accuracy="±0.2", rows=5000)
    )
    assert 0 < (preview.cost.epsilon or 0) < 1


@pytest.mark.parametrize("declared_schema", [REPLACE, ADD, SEVERAL], ids=["replace-one", "add-remove", "several rows"])
@pytest.mark.parametrize("aggregate", ["AVG(score)", "VAR(score)", "STDDEV(score)"])
def test_the_accuracy_of_a_mean_needs_the_number_of_rows(declared_schema: Schema, aggregate: str) -> None:
    """With a condition nobody knows how many rows there are: a guess would promise what may not be kept."""
    question = f"SELECT {aggregate} FROM t WHERE age > 0"
    with pytest.raises(
        InvalidInput,
        match=r"depends on how many of the selected rows have a value.*give rows, the fewest .* COUNT\(score\) with",
    ):
        preview_question(declared_schema, question, build_query_options(accuracy="±0.5"))
    assert preview_question(declared_schema, question, build_query_options(accuracy="±0.5", rows=2000)).cost.epsilon
