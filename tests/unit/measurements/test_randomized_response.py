"""Randomized response: exact by enumeration, drawn with two jaws; asked, previewed, stored, audited and replayed."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import pairwise, product
from typing import Any

import numpy as np
import pytest

from discreet import InvalidInput, Unsupported
from discreet.answers.explain import build_answer
from discreet.custodian.measure import measure_plan
from discreet.custodian.preview import preview_question
from discreet.measurements.randomized_response import (
    MAX_UNITS,
    RANDOMIZED_RESPONSE,
    RandomizedResponse,
    RandomizedResponseReading,
    compute_log_likelihood,
    compute_report_tail,
)
from discreet.mechanisms.entropy import SYSTEM
from discreet.planner.options import QueryOptions
from discreet.planner.plan import NoisyResult, Plan
from discreet.planner.planner import plan
from discreet.query import parse_sql
from discreet.schema import Schema
from discreet.sources.memory import MemorySource
from discreet.verification import ScriptedEntropy, assert_fits, assert_private
from discreet.verification.audit.targets import AuditedQuestion
from support.small_tables import rows_of, schema

SMOKERS = "SELECT COUNT(*) FROM t WHERE smoker"
EPSILONS = (Fraction(1, 10), Fraction(1), Fraction(3))


def plan_smokers(units: int = 6, epsilon: object = 1, question: str = SMOKERS, **options: Any) -> Plan:
    declared_schema = schema("replace-one", 1, units=units)
    return plan(
        declared_schema, parse_sql(question, declared_schema), epsilon, mechanism=RANDOMIZED_RESPONSE, **options
    )


def get_reading(planned: Plan) -> RandomizedResponseReading:
    reading = planned.readings[0]
    assert isinstance(reading, RandomizedResponseReading)
    return reading


def enumerate_reports(units: int, yeses: int, epsilon: float) -> list[float]:
    """The chance of each number of reported yeses, by all ways in which the units may report."""
    flip = 1 / (1 + math.exp(epsilon))
    chances = [0.0] * (units + 1)
    for flips in product((False, True), repeat=units):
        reported = sum((unit < yeses) != flipped for unit, flipped in enumerate(flips))
        chances[reported] += math.prod(flip if flipped else 1 - flip for flipped in flips)
    return chances


@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("units", [1, 4, 7])
def test_the_distribution_is_that_of_all_ways_to_report(units: int, epsilon: Fraction) -> None:
    """Likelihoods and tails, the unbiased estimate, and a loss that is reached: exactly epsilon, for one unit."""
    reading = get_reading(plan_smokers(units, epsilon))
    tables = [enumerate_reports(units, yeses, float(epsilon)) for yeses in range(units + 1)]
    for yeses, chances in enumerate(tables):
        for reported, chance in enumerate(chances):
            log = compute_log_likelihood(units, reading.flip_chance, yeses, reported)
            assert math.exp(log) == pytest.approx(chance, rel=1e-9)
            tail = compute_report_tail(units, reading.flip_chance, yeses, reported)
            assert tail == pytest.approx(sum(chances[reported:]), rel=1e-9)
        mean = sum(chance * float(reading.values((reported,))[0]) for reported, chance in enumerate(chances))
        square = sum(c * (float(reading.values((r,))[0]) - yeses) ** 2 for r, c in enumerate(chances))
        assert mean == pytest.approx(yeses, abs=1e-9)
        assert math.sqrt(square) == pytest.approx(reading.expected_error())
    pairs = pairwise(tables)
    worst = max(abs(math.log(p / q)) for one, other in pairs for p, q in zip(one, other, strict=True))
    assert worst <= float(epsilon) * (1 + 1e-9)
    assert worst == pytest.approx(float(epsilon)) if units == 1 else worst > 0


@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("units", [1, 5, 9])
@pytest.mark.parametrize("confidence", [0.5, 0.9, 0.95, 0.999])
def test_an_interval_holds_at_least_as_often_as_stated(units: int, epsilon: Fraction, confidence: float) -> None:
    """By enumeration, whatever the truth, and so does the accuracy that is stated before."""
    reading = get_reading(plan_smokers(units, epsilon))
    intervals = [reading.interval((reported,), confidence) for reported in range(units + 1)]
    half_width = reading.half_width(confidence)
    for yeses in range(units + 1):
        chances = enumerate_reports(units, yeses, float(epsilon))
        coverage = sum(c for c, (low, high) in zip(chances, intervals, strict=True) if low <= yeses <= high)
        errors = [abs(float(reading.values((reported,))[0]) - yeses) for reported in range(units + 1)]
        assert coverage >= confidence
        assert sum(c for c, error in zip(chances, errors, strict=True) if error <= half_width) >= confidence
    for reported, (low, high) in enumerate(intervals):
        value = float(reading.values((reported,))[0])
        assert low <= value <= high
        if -half_width <= value <= units + half_width:  # else no count is plausible, once in a miss at most
            assert max(high - value, value - low) <= reading.bound_error(confidence)


@pytest.mark.parametrize("yeses", [0, 2, 6])
def test_draws_have_two_jaws(yeses: int) -> None:
    """They fit epsilon 1, and neither 0.9 nor 1.1."""
    planned = plan_smokers(6, 1)
    draws = [reported for (reported,) in planned.measurements[0].measure([(yeses,)] * 100_000, SYSTEM)]
    claimed, smaller, larger = (enumerate_reports(6, yeses, epsilon) for epsilon in (1, 1.1, 0.9))
    assert_fits(draws, claimed.__getitem__, smaller.__getitem__, larger.__getitem__)


def test_as_many_coins_are_flipped_whatever_the_count() -> None:
    """16 bits for each unit: zeros flip every truth, ones none."""
    measurement = plan_smokers(6).measurements[0]
    for count in range(7):
        for byte, reported in ((b"\0", 6 - count), (b"\xff", count)):
            script = ScriptedEntropy(byte * 12)
            assert measurement.measure([(count,)], script) == [(reported,)]
            assert script.taken == 12


def test_it_is_planned_by_its_name_alone() -> None:
    """With its cost, one candidate, and the reason; otherwise it is neither chosen nor shown."""
    planned = plan_smokers(1000)
    (measurement,) = planned.measurements
    assert isinstance(measurement, RandomizedResponse)
    assert (planned.cost.epsilon, planned.cost.rho, planned.cost.delta) == (1, Fraction(1, 2), 0)
    assert planned.expected_error == pytest.approx(math.sqrt(1000) / (2 * math.sinh(0.5)))
    declared_schema = schema("replace-one", 1, units=1000)
    plain = plan(declared_schema, parse_sql(SMOKERS, declared_schema), 1)
    assert plain.mechanism == "discrete Laplace"
    assert RANDOMIZED_RESPONSE not in {candidate.mechanism for candidate in plain.candidates}
    assert plain.build_question_key() != planned.build_question_key()
    assert planned.build_question_key() == plan_smokers(1000, 3).build_question_key()
    assert not planned.is_degradable
    with pytest.raises(InvalidInput, match=f"choose discrete Laplace, {RANDOMIZED_RESPONSE}"):
        plan(declared_schema, parse_sql(SMOKERS, declared_schema), 1, mechanism="a coin")


def test_an_accuracy_finds_its_epsilon() -> None:
    planned = plan_smokers(1000, None, accuracy="±100 at 95%")
    assert planned.readings[0].half_width(0.95) <= 100
    smaller = plan_smokers(1000, planned.epsilon * Fraction(99, 100))
    assert smaller.readings[0].half_width(0.95) > 100


@pytest.mark.parametrize(
    ("declared_schema", "question"),
    [
        (schema("add-remove", 1, units=5), SMOKERS),
        (schema("replace-one", 3, units=5), SMOKERS),
        (schema("replace-one", 1, units=MAX_UNITS + 1), SMOKERS),
        (schema("replace-one", 1, units=5), "SELECT sex, COUNT(*) FROM t GROUP BY sex"),
    ],
)
def test_what_it_does_not_fit_is_refused_in_a_sentence(declared_schema: Schema, question: str) -> None:
    with pytest.raises(Unsupported, match="randomized response is for a count of rows without groups"):
        plan(declared_schema, parse_sql(question, declared_schema), 1, mechanism=RANDOMIZED_RESPONSE)


def test_other_aggregates_have_none() -> None:
    with pytest.raises(InvalidInput, match="not on offer for this question; choose "):
        plan_smokers(question="SELECT SUM(age) FROM t WHERE smoker")
    with pytest.raises(InvalidInput, match="choose public by the schema"):
        plan_smokers(question="SELECT COUNT(*) FROM t")


def test_a_preview_tells_its_accuracy() -> None:
    options = QueryOptions(epsilon=1, mechanism=RANDOMIZED_RESPONSE)
    previewed = preview_question(schema("replace-one", 1, units=1000), SMOKERS, options)
    assert previewed.mechanism == RANDOMIZED_RESPONSE
    assert previewed.accuracy.startswith("within ")
    assert previewed.reason == "it was asked for by name; noise that is added to the count has less error"
    assert previewed.cost.epsilon == 1


def test_an_answer_is_built_with_interval_posterior_and_meaning() -> None:
    """600 of 1,000 smoke; at epsilon 3 the prior's posterior is narrower than either alone."""
    planned = plan_smokers(1000, 3, prior="normal(620, 30)")
    row = {"age": 1, "score": 3, "debt": -2, "sex": 0, "grade": 1, "day": 11, "city": "Oslo"}
    people = {f"p{number}": [{**row, "smoker": int(number < 600)}] for number in range(1000)}
    released = measure_plan(planned, MemorySource(planned.schema, rows_of(people)))  # type: ignore[arg-type]
    answer = build_answer(planned, released, SMOKERS, Fraction(3), 1, {})
    (posterior,) = answer.posteriors()
    known = next(iter(posterior.values()))
    assert known is not None
    assert known.mean() == pytest.approx(600, abs=35)
    assert known.variance() < min(30.0, planned.readings[0].half_width(0.68)) ** 2
    assert "together that makes about" in answer.meaning


def test_a_posterior_is_bayes_rule() -> None:
    """Of six units, by enumeration, from the probabilities that the prior has as it is used."""
    planned = plan_smokers(6, 1, prior="uniform(0, 6)", tail=False)
    reading, used = get_reading(planned), planned.grid_prior
    assert used is not None
    known = reading.posterior((4,))
    cells = used.build_cells([(float(reading.values((4,))[0]), 2.0)])
    assert known is not None
    counts = np.clip(np.rint(cells.values), 0, 6).astype(int)
    weights = cells.used * np.array([enumerate_reports(6, int(count), 1)[4] for count in counts])
    assert known.mean() == pytest.approx(float(weights @ cells.values / weights.sum()), abs=0.1)


@pytest.mark.parametrize("epsilon", [Fraction(1, 10**9), Fraction(10**4)])
def test_extremes_of_epsilon_are_read(epsilon: Fraction) -> None:
    planned = plan_smokers(100_000, epsilon, prior="normal(50000, 10)")
    for reported in (0, 1, 49_990, 100_000):
        reading = get_reading(planned)
        low, high = reading.interval((reported,), 0.95)
        assert low <= float(reading.values((reported,))[0]) <= high
        known = reading.posterior((reported,))
        assert known is not None
        assert math.isfinite(known.mean())
        assert math.isfinite(reading.half_width(0.999999))


def test_neighbours_lose_epsilon_and_no_more() -> None:
    """One unit's change costs at most epsilon, and reaches it; equal truths lose nothing."""
    declared_schema = schema("replace-one", 1, units=6)
    worst = assert_private(declared_schema, SMOKERS, 1, mechanism=RANDOMIZED_RESPONSE, count=20)
    assert worst.observed_loss.epsilon == 1
    measurement = plan_smokers(6).measurements[0]
    same, moved = (measurement.compare_inputs({(): (3,)}, {(): (n,)}, declared_schema) for n in (3, 5))
    assert same.observed_loss.epsilon == same.shares["truths"] == 0
    assert moved.observed_loss.epsilon == moved.shares["truths"] == 2


def test_it_is_audited_as_it_is_answered() -> None:
    rows = [{"#unit": f"p{number}", "smoker": int(number < 3)} for number in range(6)]
    audited = AuditedQuestion.of(schema("replace-one", 1, units=6), SMOKERS, 1, mechanism=RANDOMIZED_RESPONSE)
    assert audited.is_batched
    assert audited.plan.schema.units == 6
    draws = np.asarray(audited.build_mechanism()(rows, 50_000)).ravel()  # type: ignore[arg-type]
    assert_fits(draws.tolist(), *(enumerate_reports(6, 3, epsilon).__getitem__ for epsilon in (1, 1.1, 0.9)))


def test_a_stored_result_is_read_again() -> None:
    """The same report gives the same answer."""
    planned = plan_smokers(6)
    answers = [build_answer(planned, NoisyResult(((),), (((4,),),)), SMOKERS, Fraction(0), 1, {}) for _ in range(2)]
    assert answers[0].value == answers[1].value == pytest.approx(3 + 1 / math.tanh(0.5))
