"""A stored discrete Laplace answer, degraded: exactly the law of a smaller epsilon, at no more than was offered."""

from __future__ import annotations

import random
from collections.abc import Callable
from fractions import Fraction
from itertools import combinations, product
from pathlib import Path

import mpmath
import numpy as np
import pytest
from test_custodian import people_custodian

from discreet import BudgetExceeded, Custodian, DiscreteLaplace, InvalidInput
from discreet.custodian.measure import ExactInputs, degrade_result, sample_noisy_outputs
from discreet.ledger import Ledger
from discreet.measurements.hierarchical import HierarchicalHistogram
from discreet.mechanisms.discrete_laplace import LaplaceDegradation, build_keep_chance
from discreet.mechanisms.entropy import SYSTEM
from discreet.planner.options import PlanRequest
from discreet.planner.plan import Plan
from discreet.planner.planner import plan, replan_query
from discreet.query import parse_sql
from discreet.verification import assert_fits
from support.ledger_stores import DATASET, build_caps, build_charge, list_spent
from support.small_tables import schema

__all__ = ["people_custodian"]  # a fixture

RATES = [
    Fraction(1, 10**9),
    Fraction(1, 1000),
    Fraction(1, 7),
    Fraction(1),
    Fraction(5, 2),
    Fraction(40),
    Fraction(900),
]


# The law


@pytest.mark.parametrize(("one", "two"), list(combinations([Fraction(n, 12) for n in range(1, 12)], 2)))
def test_the_sum_of_both_noises_is_the_wanted_law_exactly(one: Fraction, two: Fraction) -> None:
    """As characteristic functions, multiplied out: polynomials in z and 1/z with exact coefficients.

    A law with P(k) in proportion to a^|k| has (1 - a)^2 / (1 + a^2 - a (z + 1/z)).
    """
    keep = one / two * ((1 - two) / (1 - one)) ** 2
    assert 0 < keep < 1
    # (1 - a2)^2 / q(a2) = (1 - a1)^2 / q(a1) * (keep + (1 - keep) (1 - a2)^2 / q(a2)), times q(a1) q(a2)
    wanted = [(1 - two) ** 2 * part for part in _denominator(one)]
    added = [keep * part for part in _denominator(two)]
    added[0] += (1 - keep) * (1 - two) ** 2
    assert wanted == [(1 - one) ** 2 * part for part in added]


def _denominator(ratio: Fraction) -> list[Fraction]:
    """The coefficients of 1 and of z + 1/z."""
    return [1 + ratio**2, -ratio]


@pytest.mark.parametrize(("present", "wanted"), [(a, b) for a, b in product(RATES, repeat=2) if a > b])
def test_the_chance_to_keep_is_the_ratio_of_the_variances(present: Fraction, wanted: Fraction) -> None:
    """To every digit that a coin compares."""
    with mpmath.workdps(900):
        halves = [mpmath.sinh(mpmath.mpf(rate.numerator) / rate.denominator / 2) for rate in (wanted, present)]
        exact = (halves[0] / halves[1]) ** 2
        for count in (16, 64, 128):
            assert build_keep_chance(present, wanted).digits(count) == int(mpmath.floor(exact * mpmath.mpf(2) ** count))


@pytest.mark.parametrize(("present", "wanted"), [(1, 0.5), (2, 0.1), (0.3, 0.29), (30, 0.7)])
def test_degraded_draws_fit_with_two_jaws(present: object, wanted: object) -> None:
    """Noise of the larger epsilon and what is added have the law of the smaller; a tenth less or more do not."""
    one, two = DiscreteLaplace(present, 1), DiscreteLaplace(wanted, 1)
    draws = one.sample_units(100_000, SYSTEM) + LaplaceDegradation(one, two).sample_units(100_000, SYSTEM)
    scaled = [DiscreteLaplace(two.rate / times, 1) for times in (1, Fraction(9, 10), Fraction(11, 10))]
    assert_fits(draws.tolist(), *(_law(one) for one in scaled))


def test_noise_that_is_always_added_is_caught() -> None:
    """The trap bites: without the coin the noise is too wide."""
    one, two = DiscreteLaplace(1, 1), DiscreteLaplace(0.5, 1)
    draws = one.sample_units(100_000, SYSTEM) + two.sample_units(100_000, SYSTEM)
    scaled = [DiscreteLaplace(two.rate / times, 1) for times in (1, Fraction(9, 10), Fraction(11, 10))]
    with pytest.raises(AssertionError):
        assert_fits(draws.tolist(), *(_law(one) for one in scaled))


def _law(noise: DiscreteLaplace) -> Callable[[int], float]:
    return lambda units: noise.probability(int(units))


def test_noise_is_never_removed_and_stays_on_its_grid() -> None:
    one, two = DiscreteLaplace(1, 1), DiscreteLaplace(2, 1)
    with pytest.raises(InvalidInput, match="added and not removed"):
        LaplaceDegradation(one, two)
    with pytest.raises(InvalidInput, match="on its own grid"):
        LaplaceDegradation(two, DiscreteLaplace(1, 1, step=Fraction(1, 2)))
    assert not LaplaceDegradation(one, one).sample_units(50, SYSTEM).any()


def test_very_wide_noise_is_added_exactly() -> None:
    """Beyond 64 bits the numbers are Python's own."""
    one, two = DiscreteLaplace(1, 2**70), DiscreteLaplace(1, 2**75)
    samples = LaplaceDegradation(one, two).sample_units(20, SYSTEM)
    assert all(type(number) is int for number in samples.tolist())
    assert max(map(abs, samples.tolist())) > 2**64


# Plans


QUESTIONS = (
    "SELECT COUNT(*) FROM t WHERE age > 0",
    "SELECT AVG(score) FROM t WHERE age > 0",
    "SELECT sex, COUNT(*) FROM t GROUP BY sex",
    "SELECT COUNT(*), COUNT(score) FROM t WHERE age > 0",
    "SELECT COUNT(*) FILTER (WHERE age > 1), COUNT(*) FILTER (WHERE age > 2), COUNT(*) FILTER (WHERE age > 3) FROM t",
    "SELECT HISTOGRAM(score, 8) FROM t",
    "SELECT sex, grade, COUNT(*) FROM t GROUP BY ROLLUP (sex, grade)",
)


def _plans(question: str, neighbors: str) -> tuple[Plan, Plan] | None:
    """The same question at two epsilons, the larger one first, if a stored answer of it can be degraded."""
    declared = schema(neighbors, 1, 500)
    wanted = plan(declared, parse_sql(question, declared), epsilon=Fraction(1, 50))
    if not wanted.is_degradable:
        return None
    present = replan_query(wanted, PlanRequest(epsilon=Fraction(1, 2)))
    assert present.build_question_key() == wanted.build_question_key()
    return present, wanted


@pytest.mark.parametrize("neighbors", ["add-remove", "replace-one"])
def test_rates_are_in_proportion_to_epsilon(neighbors: str) -> None:
    """So that a degraded answer is as a direct one: every noise has 1/25 of its rate at 1/25 of the epsilon."""
    pair_count = 0
    for question in QUESTIONS:
        pair = _plans(question, neighbors)
        if pair is None:
            continue
        pair_count += 1
        for before, after in zip(pair[0].measurements, pair[1].measurements, strict=True):
            rates = [[noise.rate for noise in one.independent_noises] for one in (before, after)]
            assert rates[0] == [rate * 25 for rate in rates[1]]
    assert pair_count >= 6


@pytest.mark.parametrize("question", QUESTIONS)
def test_a_degraded_plan_has_the_noise_of_the_smaller_epsilon(question: str) -> None:
    """All numbers of an answer together, each by its own noise; exact totals of 0."""
    pair = _plans(question, "add-remove")
    if pair is None:
        pytest.fail(f"{question} is answered without discrete Laplace noise")
    present, wanted = pair
    cells, times = len(present.list_cells()), 400
    draws: list[list[list[int]]] = []
    for _ in range(times):
        inputs = [_nothing(one, cells) for one in present.measurements]
        degraded = degrade_result(
            sample_noisy_outputs(present, ExactInputs(present.list_cells(), inputs)),
            present.epsilon,
            wanted,
        )
        draws.append(
            [[number for cell in degraded.numbers for number in cell[at]] for at in range(len(wanted.readings))]
        )
    for one in wanted.measurements:
        at = one.aggregates[0]
        squares = np.array([draw_numbers[at] for draw_numbers in draws], dtype=float) ** 2
        expected = _variances(one, cells)
        assert np.mean(squares / expected) == pytest.approx(1, abs=0.35)
    if len(wanted.readings) > len(wanted.measurements):  # drawn once for all
        assert all(draw_numbers[0] == draw_numbers[1] for draw_numbers in draws)


def _nothing(one: object, cells: int) -> list[tuple[int, ...]]:
    if isinstance(one, HierarchicalHistogram):
        return one.hierarchy.count_blocks([0] * cells)
    return [(0,) * len(one.linear_query.components)] * cells  # type: ignore[attr-defined]


def _variances(one: object, cells: int) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """Of every number of a measurement, in the order of the cells."""
    if isinstance(one, HierarchicalHistogram):
        levels = [np.full(len(level.starts), level.variance) for level in one.hierarchy.measured_levels]
        return np.array([variance for cell in one.hierarchy.group_by_cell(levels, cells) for variance in cell])  # type: ignore[arg-type]
    return np.array([noise.variance() for noise in one.noise.noises] * cells)  # type: ignore[attr-defined]


# Histories


def _live(chance: random.Random, folder: Path) -> int:
    """One random history of two analysts: nobody pays more than was offered, unless by consent."""
    limits, degraded = build_caps(4, analyst=3), 0
    with Ledger.open(folder / "ledger.db") as ledger:
        ledger.register(DATASET, "0f", "s1", disjoint=False)
        for _ in range(12):
            number, analyst = chance.randrange(3), chance.choice(["ann", "bob"])
            epsilon = chance.choice(["0.01", "0.05", "0.2", "0.5", "1"])
            charge = build_charge(
                number,
                epsilon,
                analyst=analyst,
                fresh=chance.random() < 0.1,
                any_price=chance.random() < 0.1,
                degradable=number != 2,
            )
            before = [list_spent(ledger, limits, owner)["dp"] for owner in (None, analyst)]
            offer = ledger.find_offer(charge)
            try:
                receipt = ledger.charge(charge, limits)
            except BudgetExceeded:
                assert [list_spent(ledger, limits, owner)["dp"] for owner in (None, analyst)] == before
                continue
            paid = [
                list_spent(ledger, limits, owner)["dp"] - was  # type: ignore[operator]
                for owner, was in zip((None, analyst), before, strict=True)
            ]
            assert charge.any_price or paid[1] <= charge.epsilon
            assert paid[0] in (0, paid[1])
            assert offer is None or offer.price.epsilon == paid[1]
            assert receipt.answer_to_degrade is None or (paid[0] == 0 and receipt.paid == charge.spend)
            degraded += receipt.answer_to_degrade is not None
            if receipt.answer is None:
                ledger.store(DATASET, receipt.entry, "{}")
        ledger.verify()
    return degraded


def _histories(count: int, folder: Path) -> None:
    chance, degraded = random.Random(count), 0
    for number in range(count):
        history_folder = folder / str(number)
        history_folder.mkdir()
        degraded += _live(chance, history_folder)
    print(f"{count} histories: {degraded} answers degraded")
    assert degraded > count / 4


def test_nobody_is_charged_more_than_was_offered(tmp_path: Path) -> None:
    _histories(10, tmp_path)


@pytest.mark.soak
def test_nobody_is_charged_more_than_was_offered_in_1000_histories(tmp_path: Path) -> None:
    _histories(1000, tmp_path)


def test_a_degraded_answer_says_what_a_direct_one_says(people_custodian: Custodian) -> None:
    """Guarantee, accuracy, interval and cost are those of the epsilon that was offered."""
    question = "SELECT COUNT(*) FROM people WHERE sex = 'F' AND age < 40"
    people_custodian.answer(question, epsilon=Fraction(1, 10), analyst="ann")
    name = people_custodian.answer(question, epsilon=Fraction(1, 100), analyst="bob")
    direct = people_custodian.answer(question, epsilon=Fraction(1, 100), analyst="cat", fresh=True)
    for field in ("guarantee", "accuracy", "cost", "mechanism"):
        assert getattr(name, field) == getattr(direct, field)
    widths = [one.interval()[1] - one.interval()[0] for one in (name, direct)]  # type: ignore[index, operator]
    assert widths[0] == widths[1]


WIDE = """
name: t
source: t.csv
neighbours: add-remove
unit: {column: id, rows: 100}
budget: {epsilon: 5, delta: 1e-5}
models: [dp, approx-dp]
columns:
  id: {role: identifier}
  sex: {kind: nominal, categories: [F, M]}
"""


def test_an_answer_is_degraded_whatever_noise_a_delta_would_allow(tmp_path: Path) -> None:
    """At the larger epsilon the same question with a delta has Gaussian noise; the stored answer has not."""
    names = [f"s{number}" for number in range(8)]
    rows = [f"p{number},{'FM'[number % 2]}{',7' * len(names)}" for number in range(20)]
    (tmp_path / "t.csv").write_text("\n".join([f"id,sex,{','.join(names)}", *rows]) + "\n")
    columns = "".join(f"  {name}: {{kind: number, lower: 0, upper: 1000000, step: 0.01}}\n" for name in names)
    (tmp_path / "t.yaml").write_text(WIDE + columns)
    question = f"SELECT sex, {', '.join(f'SUM({name})' for name in names)}, COUNT(*) FROM t GROUP BY sex"
    with Custodian.open(tmp_path / "t.yaml") as custodian:
        assert "Laplace" in custodian.answer(question, epsilon=Fraction(15, 100), analyst="ann").mechanism
        offer = {"epsilon": Fraction(2, 100), "delta": Fraction(1, 10**6)}
        assert custodian.preview(question, analyst="bob", **offer).reuse == "degraded"
        assert "Laplace" in custodian.answer(question, analyst="bob", **offer).mechanism
        taken = custodian.answer(question, analyst="cat", reuse="any", **offer)
        assert taken.cost.epsilon == Fraction(15, 100)
