"""Plans: which mechanism, at what cost, with which label; from public facts alone."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from discreet import Guarantee, InvalidInput, Prior, Unsupported
from discreet.measurements.additive import AdditiveNoise
from discreet.measurements.constant import PublicConstant
from discreet.measurements.threshold import find_rare_count
from discreet.measurements.unit_query import OrderStatistic
from discreet.mechanisms.discrete_gaussian import DiscreteGaussian
from discreet.mechanisms.discrete_laplace import DiscreteLaplace
from discreet.mechanisms.entropy import SYSTEM
from discreet.mechanisms.noise import IndependentNoises, Noise
from discreet.planner.candidates import find_rho
from discreet.planner.options import PlanRequest
from discreet.planner.plan import Plan
from discreet.planner.planner import plan, plan_query
from discreet.privacy.cost import PrivacyCost, SubAccount
from discreet.query import parse_sql
from discreet.schema import Column, Schema
from support.small_tables import schema

ADD, REPLACE = schema("add-remove", 1, 0), schema("replace-one", 1, units=50)
FOUR_ROWS = schema("add-remove", 4, 0)


def plan_text(text: str, declared_schema: Schema = ADD, epsilon: object = 1, **options: object) -> Plan:
    return plan(declared_schema, parse_sql(text, declared_schema), epsilon, **options)  # type: ignore[arg-type]


def get_noise(query_plan: Plan) -> Noise:
    measurement = query_plan.measurements[0]
    assert isinstance(measurement, AdditiveNoise)
    assert isinstance(measurement.noise, IndependentNoises)
    return measurement.noise.noises[0]


def get_scale(query_plan: Plan) -> Fraction:
    """The scale of the Laplace noise that the question could be answered with."""
    like = ("discrete Laplace",) * len(query_plan.measurements)
    noise = get_noise(
        plan_query(query_plan.schema, query_plan.query, PlanRequest(epsilon=query_plan.epsilon, stored_mechanisms=like))
    )
    assert isinstance(noise, DiscreteLaplace)
    return 1 / noise.rate


@pytest.mark.parametrize(
    ("text", "declared_schema", "expected"),
    [
        ("COUNT(*) FROM t", ADD, 1),
        ("COUNT(*) FROM t", FOUR_ROWS, 4),
        ("COUNT(*) FROM t WHERE age > 0", REPLACE, 1),
        ("COUNT(*) FROM t GROUP BY sex", ADD, 1),
        ("COUNT(*) FROM t GROUP BY sex", REPLACE, 2),
        ("COUNT(DISTINCT pid) FROM t", FOUR_ROWS, 1),
        ("COUNT(DISTINCT pid) FROM t GROUP BY sex", FOUR_ROWS, 4),
        ("SUM(age) FROM t", ADD, 4),
        ("SUM(age) FROM t", REPLACE, 7),
        ("SUM(debt) FROM t", ADD, 4),
        ("SUM(debt) FROM t", REPLACE, 3),
        ("SUM(debt) FROM t WHERE age > 0", REPLACE, 4),
        ("SUM(debt) FROM t GROUP BY sex", REPLACE, 8),
        ("SUM(score) FROM t", FOUR_ROWS, 24),
        ("AVG(score) FROM t", ADD, 6),
        ("AVG(score) FROM t", REPLACE, 6),
        ("AVG(score) FROM t WHERE age > 0", REPLACE, 12),
    ],
)
def test_sensitivities(text: str, declared_schema: Schema, expected: int) -> None:
    """COUNT r; SUM r max(|L|, |U|) or r (max(U, 0) - min(L, 0)), U - L where every row counts; groups r or 2r."""
    assert get_scale(plan_text(f"SELECT {text}", declared_schema)) == expected


@pytest.mark.parametrize("text", ["COUNT(*) FROM t", "COUNT(score) FROM t", "COUNT(DISTINCT pid) FROM t"])
def test_the_declared_number_of_units_costs_nothing(text: str) -> None:
    query_plan = plan_text(f"SELECT {text}", REPLACE)
    assert query_plan.is_free
    assert query_plan.measurements == (PublicConstant(50),)
    assert query_plan.cost == PrivacyCost()
    assert query_plan.guarantee.epsilon == 0


def test_a_count_of_what_may_be_missing_is_not_public() -> None:
    assert not plan_text("SELECT COUNT(age) FROM t", REPLACE).is_free


def test_epsilon_is_shared_among_the_aggregates_that_cost() -> None:
    query_plan = plan_text("SELECT COUNT(*), SUM(score), AVG(score) FROM t", REPLACE)
    assert [type(measurement) for measurement in query_plan.measurements].count(PublicConstant) == 1
    assert query_plan.cost == PrivacyCost(Fraction(1), Fraction(1, 4))
    assert get_scale(plan_text("SELECT COUNT(*), SUM(score) FROM t")) == 2


def test_a_prior_as_base_measure_is_counted_by_its_bounded_range() -> None:
    """eps^2/8 for the exponential mechanism, eps^2/2 for permute-and-flip."""
    text = "SELECT MEDIAN(age) FROM t"
    assert plan_text(text).cost == PrivacyCost(Fraction(1), Fraction(1, 2))
    query_plan = plan_text(text, prior="normal(1, 1)")
    assert query_plan.cost == PrivacyCost(Fraction(1), Fraction(1, 8))
    assert query_plan.uses_prior
    assert query_plan.mechanism == "exponential mechanism on ranks"


def test_a_prior_makes_an_extreme_a_refinement() -> None:
    assert plan_text("SELECT MAX(score) FROM t").mechanism == "extreme by rank"
    assert plan_text("SELECT MAX(score) FROM t", prior="uniform(1, 3)").mechanism == "refinement of your prior"


def test_a_prior_over_categories() -> None:
    prior = Prior.weights({"high": 3, "low": 1})
    assert plan_text("SELECT MODE(grade) FROM t", prior=prior).uses_prior
    with pytest.raises(InvalidInput, match="unknown category 'huge' in the prior of grade"):
        plan_text("SELECT MODE(grade) FROM t", prior=Prior.weights({"huge": 1}))
    with pytest.raises(InvalidInput, match="weights to its categories"):
        plan_text("SELECT MODE(grade) FROM t", prior="normal(1, 1)")


def test_a_prior_belongs_to_one_aggregate() -> None:
    with pytest.raises(InvalidInput, match="one aggregate"):
        plan_text("SELECT MEDIAN(age), MEDIAN(score) FROM t", prior="normal(1, 1)")


def test_a_prior_names_a_stored_answer_only_where_it_shaped_it() -> None:
    median = "SELECT MEDIAN(age) FROM t"
    count = "SELECT COUNT(*) FROM t"
    assert plan_text(count, prior="normal(9, 1)").build_question_key() == plan_text(count).build_question_key()
    shaped = plan_text(median, prior="normal(1, 1)").build_question_key()
    assert shaped != plan_text(median, prior="normal(2, 1)").build_question_key()
    assert "normal" not in shaped


def test_the_question_names_everything_but_epsilon() -> None:
    text = "SELECT SUM(score) FROM t WHERE age >= 0"
    assert plan_text(text, epsilon=1).build_question_key() == plan_text(text, epsilon=2).build_question_key()
    assert (
        plan_text(text).build_question_key()
        == plan_text("SELECT SUM(score) FROM t WHERE NOT age < 0").build_question_key()
    )
    others = [schema("add-remove", 2, 0), schema("replace-one", 1, 9), schema("replace-one", 1, 8)]
    assert len({plan_text(text, declared_schema).build_question_key() for declared_schema in (ADD, *others)}) == 4


def test_gaussian_noise_with_a_delta() -> None:
    """The rho charged implies the (epsilon, delta) on the label; groups use the l2 sensitivity."""
    small = Fraction(1, 10**6)
    text = "SELECT sex, COUNT(DISTINCT pid) FROM t GROUP BY sex"
    query_plan = plan_text(text, schema("replace-one", 40, 9), delta=small)
    noise = get_noise(query_plan)
    assert isinstance(noise, DiscreteGaussian)
    assert noise.square == 2 * 40 / (2 * query_plan.cost.gaussian_rho)
    assert plan_text(text, schema("replace-one", 1, 9), delta=small).mechanism == "discrete Laplace"  # it is less there
    assert query_plan.guarantee == Guarantee.approx_dp(1, small, "replace-one", "unit (pid)")
    assert Guarantee.zcdp(query_plan.cost.gaussian_rho).implies(Guarantee.approx_dp(1, small))
    assert not Guarantee.zcdp(query_plan.cost.gaussian_rho * Fraction(101, 100)).implies(Guarantee.approx_dp(1, small))


def test_a_label_holds_where_only_some_totals_are_gaussian() -> None:
    """What is too wide for Gaussian noise keeps its own share of epsilon; the rho is paid by the others' shares."""
    wide = Column("rev", "integer", lower=0, upper=2**43, missing=0)
    declared_schema = schema("add-remove", 1, 0)
    declared_schema = replace(declared_schema, columns={**declared_schema.columns, "rev": wide})
    many = ", ".join(f"{name}({column})" for name in ("COUNT", "SUM", "AVG", "VAR") for column in ("age", "day", "rev"))
    many = (
        many.replace("SUM(day), ", "").replace("AVG(day), ", "").replace("VAR(day), ", "") + ", COUNT(sex), COUNT(city)"
    )
    many += ", SUM(score), AVG(score), VAR(score), SUM(debt), AVG(debt), VAR(debt)"
    assert plan_text(f"SELECT {many} FROM t", declared_schema, delta=1e-3).mechanism.startswith("discrete Gaussian, ")
    for text in (many, "COUNT(*), SUM(rev)", "COUNT(*), VAR(rev), AVG(score)", "SUM(rev)", "COUNT(*), MEDIAN(age)"):
        for small in (1e-3, 1e-6, 1e-9):
            query_plan = plan_text(f"SELECT {text} FROM t", declared_schema, delta=small)
            implied = (
                Guarantee.zcdp(query_plan.cost.gaussian_rho).approximate(small).epsilon
                if query_plan.cost.gaussian_rho
                else 0
            )
            assert query_plan.cost.epsilon + (implied or 0) <= 1
            assert query_plan.guarantee.model == ("approx-dp" if query_plan.cost.gaussian_rho else "dp")


def test_an_epsilon_too_small_for_gaussian_noise_is_pure() -> None:
    query_plan = plan_text("SELECT COUNT(*) FROM t", epsilon=1e-9, delta=1e-30)
    assert query_plan.mechanism == "discrete Laplace"
    assert query_plan.guarantee.model == "dp"


def test_rho_within_is_nearly_the_largest() -> None:
    for epsilon, small in ((Fraction(1, 10), Fraction(1, 10**9)), (Fraction(3), Fraction(1, 10**5))):
        rho = find_rho(epsilon, small)
        assert Guarantee.zcdp(rho).implies(Guarantee.approx_dp(epsilon, small))
        assert not Guarantee.zcdp(rho * Fraction(1001, 1000)).implies(Guarantee.approx_dp(epsilon, small))


@pytest.mark.parametrize("rows", [1, 3])
def test_private_keys_need_a_delta_and_get_a_threshold(rows: int) -> None:
    declared_schema = schema("add-remove", rows, 0)
    text = "SELECT city, COUNT(DISTINCT pid) FROM t GROUP BY city"
    with pytest.raises(InvalidInput, match="not public"):
        plan_text(text, declared_schema)
    query_plan = plan_text(text, declared_schema, delta=1e-6)
    assert query_plan.threshold is not None
    assert query_plan.threshold.noise.rate == Fraction(1, rows)
    assert query_plan.cost == PrivacyCost(Fraction(1), Fraction(1, 2), Fraction(0), Fraction(1, 10**6))
    with_sum = plan_text(
        "SELECT city, COUNT(DISTINCT pid), SUM(score) FROM t GROUP BY city", declared_schema, delta=1e-6
    )
    assert with_sum.cost.epsilon == 1
    assert with_sum.threshold is not None
    assert with_sum.threshold.noise.rate == Fraction(1, 2 * rows)


@pytest.mark.parametrize("rate", [Fraction(1, 100), Fraction(1, 3), Fraction(2), Fraction(40)])
@pytest.mark.parametrize("chance", [Fraction(1, 10), Fraction(1, 10**9), Fraction(1, 10**30)])
def test_the_threshold_is_the_least_that_keeps_delta(rate: Fraction, chance: Fraction) -> None:
    def compute_log_tail(least: int) -> float:
        return -float(rate) * least - math.log1p(math.exp(-float(rate)))

    least = find_rare_count(rate, chance)
    wanted = math.log(chance.numerator) - math.log(chance.denominator)
    assert compute_log_tail(least) <= wanted + 1e-9
    assert least == 1 or compute_log_tail(least - 1) > wanted - 1e-9


@pytest.mark.parametrize(("relation", "rows"), [("add-remove", 1), ("add-remove", 3), ("replace-one", 2)])
def test_keys_that_one_unit_has_alone_are_shown_with_delta_together(relation: str, rows: int) -> None:
    """Its r rows may be r keys of one unit each: all their chances are at most delta, and one less would be more."""
    query_plan = plan_text(
        "SELECT city, COUNT(*) FROM t GROUP BY city", schema(relation, rows, 9), delta=Fraction(1, 1000)
    )
    assert query_plan.threshold is not None
    noise, least = query_plan.threshold.noise, query_plan.threshold.min_count

    def compute_shown_probability(threshold: int) -> float:
        return rows * (noise.tail_units(threshold - 2) / 2)  # P(1 + N >= threshold)

    assert compute_shown_probability(least) <= 1 / 1000 < compute_shown_probability(least - 1)


def test_regions_are_found_from_the_filter() -> None:
    declared_schema = schema("replace-one", 2, 9, partition="grade")
    assert plan_text(
        "SELECT SUM(age) FROM t WHERE grade = 'high' AND age > 0", declared_schema
    ).get_sub_account() == SubAccount("partition", "high", 4)
    assert plan_text("SELECT SUM(age) FROM t WHERE grade >= 'middle'", declared_schema).get_sub_account() is None
    assert (
        plan_text("SELECT SUM(age) FROM t WHERE grade = 'high' OR age > 0", declared_schema).get_sub_account() is None
    )
    with_units = schema("add-remove", 1, 0, individual_queries=True)
    assert plan_text("SELECT age FROM t FOR UNIT 'p1'", with_units).get_sub_account() == SubAccount(
        "individual", "p1", 1
    )


def test_a_restricted_question_has_the_sensitivity_of_the_whole_table() -> None:
    declared_schema = schema("replace-one", 1, 9, partition="grade")
    assert get_scale(plan_text("SELECT SUM(debt) FROM t WHERE grade = 'high'", declared_schema)) == 4


def test_models_are_allowed_by_the_schema() -> None:
    only = schema("add-remove", 1, 0, models=("dp",))
    with pytest.raises(InvalidInput, match="approx-dp is not allowed"):
        plan_text("SELECT COUNT(*) FROM t", only, delta=1e-6)
    with pytest.raises(InvalidInput, match="individual-dp is not allowed"):
        plan_text("SELECT MEDIAN(age) FROM t", only, model="individual-dp")
    with pytest.raises(InvalidInput, match="needs a delta"):
        plan_text("SELECT COUNT(*) FROM t", model="approx-dp")
    with pytest.raises(InvalidInput, match="belongs to approx-dp"):
        plan_text("SELECT COUNT(*) FROM t", model="dp", delta=1e-6)
    assert (
        plan_text("SELECT COUNT(*) FROM t", schema("add-remove", 1, 0, models=("approx-dp",))).guarantee.model == "dp"
    )


def test_individual_dp_is_labelled_and_limited() -> None:
    declared_schema = schema("replace-one", 1, 9, models=("dp", "individual-dp"), individual_dp_reason="a test")
    query_plan = plan_text("SELECT MEDIAN(score) FROM t", declared_schema, model="individual-dp")
    assert query_plan.guarantee.model == "individual-dp"
    assert "weaker" in query_plan.guarantee.words()
    with pytest.raises(Unsupported, match="public number"):
        plan_text("SELECT MEDIAN(age) FROM t", declared_schema, model="individual-dp")
    with pytest.raises(InvalidInput, match="MEDIAN"):
        plan_text("SELECT SUM(score) FROM t", declared_schema, model="individual-dp")


def test_individual_dp_is_clamped_to_the_public_bounds() -> None:
    """Rows from 2 to 4 of 0 to 6: with much noise answers lie at the ends of the domain, not at those of the rows."""
    declared_schema = schema("replace-one", 1, 5, models=("dp", "individual-dp"), individual_dp_reason="a test")
    query_plan = plan_text(
        "SELECT MEDIAN(score) FROM t", declared_schema, epsilon=Fraction(1, 100), model="individual-dp"
    )
    [measurement] = query_plan.measurements
    assert isinstance(measurement, OrderStatistic)
    counts = np.zeros(measurement.candidates.count, dtype=np.int64)
    counts[[2, 4]] = 3, 2
    assert {measurement.measure([counts], SYSTEM)[0] for _ in range(60)} >= {(0,), (len(counts) - 1,)}


@pytest.mark.parametrize("epsilon", [0, -1, "1", float("nan"), float("inf"), 1e-10, 1e5, None, True])
def test_an_epsilon_that_is_none_is_refused(epsilon: object) -> None:
    with pytest.raises(InvalidInput, match="epsilon"):
        plan_text("SELECT COUNT(*) FROM t", epsilon=epsilon)


def test_what_was_published_stands_on_every_label() -> None:
    from discreet.schema import PublishedStatistic

    declared_schema = schema("add-remove", 1, 0, published=(PublishedStatistic("SELECT COUNT(*) FROM t", "7"),))
    assert plan_text("SELECT SUM(age) FROM t", declared_schema).guarantee.assumptions == (
        "published exactly before: SELECT COUNT(*) FROM t = 7; what it adds to this answer cannot be told",
    )
