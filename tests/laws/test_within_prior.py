"""A prior that an answer is drawn from is used as stated: what lies beyond its ends is never returned.

Every test that samples here holds for every draw there can be, so that it cannot fail by chance.
"""

from __future__ import annotations

import json
import math
import random
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from discreet import Custodian, InvalidInput, Prior
from discreet.answers.decode import Decoder
from discreet.custodian.measure import read_exact_inputs, sample_noisy_outputs
from discreet.custodian.preview import build_preview
from discreet.errors import Unsupported
from discreet.estimation.grid_prior import PointGridPrior, parse_grid_prior
from discreet.estimation.refinement_posterior import compute_run_posterior
from discreet.measurements.refined_total import RefinedTotal, build_refinement_prior
from discreet.measurements.selection import CandidateSelection, RefinedStatistic
from discreet.measurements.unit_query import UnitQuery
from discreet.mechanisms.refinement import Refinement
from discreet.numeric import EPOCH
from discreet.planner.plan import Plan
from discreet.planner.planner import plan
from discreet.priors.syntax import parse_shapes
from discreet.query import parse_sql
from discreet.sample import write_registry
from discreet.schema import Column, Schema
from discreet.schema.schema import Value
from discreet.sources.memory import UNIT_KEY, MemorySource
from support.small_tables import schema

COLUMNS = (
    Column("age", "integer", lower=17, upper=90, missing=17),
    Column("income", "integer", lower=0, upper=1_000_000, missing=0),
    Column("height", "number", lower=600, upper=880, step=Fraction(1, 4), missing=600),
    Column("born", "date", lower=0, upper=200_000, missing=0),
    Column("grade", "ordinal", upper=400, categories=tuple(f"g{at}" for at in range(401)), missing=0),
    Column("sex", "nominal", upper=1, categories=("F", "M"), missing=0),
)
BY_NAME = {column.name: column for column in COLUMNS}
Numbers = tuple[Fraction, Fraction]


def build_schema(number: int, neighbors: str = "replace-one") -> Schema:
    return schema(neighbors, 1, number, columns=BY_NAME, individual_queries=True)


def rows(chance: random.Random, number: int) -> list[dict[str, int | str | None]]:
    return [
        {UNIT_KEY: f"p{at}"} | {column.name: chance.randint(column.lower, column.upper) for column in COLUMNS}
        for at in range(number)
    ]


def draws(planned: Plan, source: MemorySource, count: int) -> list[Value]:
    """What so many replies to one question would tell, as they are read from what is released."""
    cells = planned.list_cells()
    secret, reader = read_exact_inputs(planned, source, cells, planned.query.where), Decoder(planned)
    return [
        value
        for _ in range(count)
        for numbers in sample_noisy_outputs(planned, secret).numbers
        for value in reader.decode_values(0, numbers[0])
    ]


def test_answers_about_one_person_stay_within_a_uniform_prior() -> None:
    """An absent person's too."""
    small_schema = build_schema(10)
    planned = plan(small_schema, parse_sql("SELECT age FROM t FOR UNIT 'p1'", small_schema), 1, prior="uniform(20, 30)")
    for age in (18, 25, 90, None):
        source = MemorySource(small_schema, [] if age is None else [{UNIT_KEY: "p1", "age": age}])
        assert all(20 <= value <= 30 for value in draws(planned, source, 150))  # type: ignore[operator]


def test_a_refined_trimmed_mean_stays_within_a_uniform_prior() -> None:
    small_schema = build_schema(10)
    query = parse_sql("SELECT TRIMMED_MEAN(age, 0.1) FROM t", small_schema)
    planned = plan(small_schema, query, 1, prior="uniform(20, 30)", distance="continuous")
    source = MemorySource(small_schema, [{"age": code} for code in (17, 20, 20, 21, 22, 23, 24, 25, 26, 90)])
    assert all(20 <= value <= 30 for value in draws(planned, source, 500))  # type: ignore[operator]


@dataclass(frozen=True, slots=True)
class Drawn:
    """A random prior with ends, and what it holds possible, decided here and not by the package."""

    stated_prior: str | Prior
    possible: Callable[[Fraction], bool]
    hull: Numbers


def within(parts: list[Numbers], hull: Numbers) -> Callable[[Fraction], bool]:
    return lambda value: hull[0] <= value <= hull[1] and any(low <= value <= high for low, high in parts)


def random_prior(chance: random.Random, low: Fraction, high: Fraction, step: Fraction, dates: bool) -> Drawn:
    """Somewhere between low and high, and beyond; its ends often lie between two values."""

    def place() -> Fraction:
        grain = chance.choice([step, step, step / 7, Fraction(1, 10)])
        if dates:
            grain = Fraction(1)
        wide = high - low
        return low + Fraction(round((wide * Fraction(chance.random() * 1.1 - 0.05)) / grain)) * grain

    def format_value(number: Fraction) -> str:
        return date.fromordinal(EPOCH.toordinal() + int(number)).isoformat() if dates else str(number)

    def shape() -> tuple[str, Numbers]:
        one, two, three = sorted(place() for _ in range(3))
        if chance.random() < 0.4:  # narrow ones
            two = three = one + step * chance.randrange(9)
        kind = chance.choice(["uniform", "uniform", "triangular", "point"])
        if kind == "point":
            return f"{chance.randint(1, 9)} point({format_value(two)})", (two, two)
        middle = f"{format_value(two)}, " if kind == "triangular" else ""
        return f"{chance.randint(1, 9)} {kind}({format_value(one)}, {middle}{format_value(three)})", (one, three)

    kind = chance.choice(["shapes", "shapes", "shapes", "cut", "bare", "weights", "object"])
    if kind == "weights" and not dates:
        numbers = sorted({low + step * chance.randrange(int((high - low) / step) + 1) for _ in range(4)})
        support = {Fraction(number) for number in numbers}
        text = json.dumps({str(float(number)): at + 1 for at, number in enumerate(numbers)})
        return Drawn(text, support.__contains__, (numbers[0], numbers[-1]))
    first, last = sorted((place(), place()))
    if kind == "object" and not dates:
        fine = step / chance.choice([1, 1, 3])
        start = low + fine * chance.randrange(int((high - low) / fine))
        end = start + fine * chance.randrange(1, 4000)
        query_plan = chance.choice(
            [Prior.uniform(start, end, fine), Prior.normal(start, (end - start) / 3, start, end, fine)]
        )
        return Drawn(query_plan, within([(start, end)], (start, end)), (start, end))
    if kind == "bare":
        return Drawn(
            f"uniform on [{format_value(first)}, {format_value(last)}]",
            within([(first, last)], (first, last)),
            (first, last),
        )
    if kind == "cut":
        spread = chance.choice(["normal", "laplace", "cauchy"])
        center, ends = format_value(place()), f"[{format_value(first)}, {format_value(last)}]"
        text = f"{spread}({center}, {float(high - low) / 5}) on {ends}"
        return Drawn(text, within([(first, last)], (first, last)), (first, last))
    shapes = [shape() for _ in range(chance.choice([1, 1, 2, 3]))]
    parts = [part for _, part in shapes]
    hull = min(part[0] for part in parts), max(part[1] for part in parts)
    text = " + ".join(one for one, _ in shapes)
    if chance.random() < 0.3:
        hull = max(hull[0], first), min(hull[1], last)
        text += f" on [{format_value(first)}, {format_value(last)}]"
    return Drawn(text, within(parts, hull), hull)


QUANTILES = "QUANTILE({}, 0.25, 0.5, 0.9)"


def number_of(value: object) -> Fraction:
    return Fraction(value.toordinal() - EPOCH.toordinal()) if isinstance(value, date) else Fraction(value)  # type: ignore[arg-type]


CHOICES = ("MEDIAN({})", "QUANTILE({}, 0.1)", "MIN({})", "MAX({})", "SECOND_MAX({})", "MODE({})", QUANTILES)
TOTALS = ("COUNT(*)", "SUM({})", "AVG({})", "VAR({})", "STDDEV({})", "TRIMMED_MEAN({}, 0.1)")


@dataclass(frozen=True, slots=True)
class Asked:
    """A random question: its column, its text, what goes with it, and what its answer can be."""

    schema: Schema
    column: Column
    text: str
    options: dict[str, object]
    range: tuple[Fraction, Fraction, Fraction]


def random_total(chance: random.Random, number: int) -> Asked:
    text, column = chance.choice(TOTALS), BY_NAME[chance.choice(["age", "height"])]
    low, high, step = column.lower * column.step, column.upper * column.step, column.step
    width = high - low
    ranges = {"COUNT(*)": (Fraction(0), Fraction(number), Fraction(1)), "SUM({})": (number * low, number * high, step)}
    ranges |= {"VAR({})": (Fraction(0), width**2 / 4, step), "STDDEV({})": (Fraction(0), width / 2, step)}
    relation = "replace-one" if text in TOTALS[-1:] else chance.choice(["add-remove", "replace-one"])
    options: dict[str, object] = {"distance": chance.choice(["continuous", "continuous", "nominal"])}
    asked = f"SELECT {text.format(column.name)} FROM t"
    return Asked(build_schema(number, relation), column, asked, options, ranges.get(text, (low, high, step)))


def random_choice(chance: random.Random, number: int) -> Asked:
    """About one person, or a choice among values."""
    text, column = chance.choice(["", *CHOICES]), BY_NAME[chance.choice(["age", "income", "height", "born", "grade"])]
    options: dict[str, object] = {}
    if chance.random() < 0.3 and text != QUANTILES:
        options["distance"] = "nominal" if column.categories else "continuous"
    elif text in CHOICES[:2] and chance.random() < 0.2:
        options["interval"] = True
    group = " GROUP BY sex" if chance.random() < 0.2 else ""
    asked = f"SELECT {text.format(column.name)} FROM t{group}" if text else f"SELECT {column.name} FROM t FOR UNIT 'p1'"
    small_schema = build_schema(number, chance.choice(["add-remove", "replace-one"]))
    return Asked(
        small_schema, column, asked, options, (column.lower * column.step, column.upper * column.step, column.step)
    )


def one_round(chance: random.Random, count: int) -> int:
    """A random question with a random prior with ends; how many numbers were drawn from the prior, all possible."""
    number = chance.choice([9, 60])
    asked = (random_total if chance.random() < 0.4 else random_choice)(chance, number)
    sampled_prior = random_prior(chance, *asked.range, asked.column.kind == "date")
    names = chance.sample(asked.column.categories, 3) if asked.column.categories else []
    prior = json.dumps({name: at + 1 for at, name in enumerate(names)}) if names else sampled_prior.stated_prior
    epsilon = chance.choice([Fraction(1, 10), 1, 8])
    try:
        planned = plan(asked.schema, parse_sql(asked.text, asked.schema), epsilon, prior=prior, **asked.options)
    except (InvalidInput, Unsupported):
        return 0  # no value of the column is possible, or there is no such question
    if not planned.uses_prior:
        return 0
    source = MemorySource(asked.schema, rows(chance, number))
    samples = draws(planned, source, count)
    if names:
        assert set(samples) <= set(names)
    else:
        assert all(sampled_prior.possible(number_of(value)) for value in samples), (asked.text, prior, asked.options)
        check_laws(planned, source, sampled_prior)
    return len(samples)


def check_laws(planned: Plan, source: MemorySource, sampled_prior: Drawn) -> None:
    """What is believed before and after stays between the ends too: its mean is the headline."""
    cells = planned.list_cells()
    secret, reader = read_exact_inputs(planned, source, cells, planned.query.where), Decoder(planned)
    released = sample_noisy_outputs(planned, secret).numbers[0][0]
    slack = 1e-9 * (1 + sum(abs(float(end)) for end in sampled_prior.hull))
    for law in (reader.plan.readings[0].get_stated_distribution(), reader.compute_posterior(0, released)):
        moments = () if law is None else (law.mean(), *law.interval(0.95))
        assert all(sampled_prior.hull[0] - slack <= end <= sampled_prior.hull[1] + slack for end in moments), (
            planned.query,
            sampled_prior.stated_prior,
        )


def soak(seed: int, wanted: int, count: int) -> int:
    chance, value_count = random.Random(seed), 0
    while value_count < wanted:
        value_count += one_round(chance, count)
    return value_count


def test_a_few_hundred_answers_from_random_priors_with_ends_are_possible() -> None:
    assert soak(1, 400, 8) >= 400


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(10))
def test_a_hundred_thousand_answers_from_random_priors_with_ends_are_possible(seed: int) -> None:
    assert soak(1000 + seed, 10_000, 25) >= 10_000


def test_every_answer_of_a_custodian_is_possible_and_says_why(tmp_path: Path) -> None:
    """Through the public door; in rehearsal, where nothing is charged."""
    path = write_registry(tmp_path, patients=60)
    path.write_text(path.read_text().replace("individual_queries: no", "individual_queries: yes"))
    with Custodian.rehearse(path) as custodian:
        for question, options in (
            ("SELECT age FROM registry FOR UNIT '1'", {}),
            ("SELECT AVG(age) FROM registry", {"distance": "continuous"}),
            ("SELECT MEDIAN(age) FROM registry", {}),
            ("SELECT MAX(age) FROM registry", {"distance": "nominal"}),
            ("SELECT MODE(age) FROM registry", {}),
        ):
            asked = custodian.preview(question, 1, prior="triangular(20, 22, 30)", **options)
            for _ in range(6):
                answer = custodian.answer(question, 1, prior="triangular(20, 22, 30)", fresh=True, **options)
                assert isinstance(answer.value, int | float)
                assert 20 <= answer.value <= 30
                assert isinstance(answer.headline, int | float)
                assert 20 <= answer.headline <= 30
                assert answer.prior_tail is False
                assert answer.prior_use == asked.prior_use == OUTSIDE
                assert OUTSIDE in str(answer)
                assert answer.to_json()["prior_use"] == OUTSIDE


OUTSIDE = "The prior is used as stated: values outside 20 to 30 are impossible, also if the truth is one of them."
TAILED = "A tenth of the prior's weight is given to a heavy tail."


def asked_of_one(prior: str | Prior, tail: bool | None = None, column: str = "age") -> Plan:
    small_schema = build_schema(10)
    return plan(
        small_schema, parse_sql(f"SELECT {column} FROM t FOR UNIT 'p1'", small_schema), 1, prior=prior, tail=tail
    )


@pytest.mark.parametrize(
    ("prior", "tail", "words"),
    [
        ("uniform(20, 30)", None, OUTSIDE),
        ("uniform(20, 30)", False, OUTSIDE),
        ("uniform(20, 30)", True, TAILED),
        ("normal(25, 3)", None, TAILED),
        ("normal(25, 3)", True, TAILED),
        ("normal(25, 3)", False, "The prior is used as stated."),
        ("normal(25, 3) on [20, 30]", None, f"{TAILED[:-1]}, between 20 and 30."),
        ("normal(25, 3) on [20, 30]", False, OUTSIDE),
        ("0.5 normal(25, 3) + 0.5 uniform(20, 30)", None, TAILED),
        ("cauchy(25, 3)", None, "The prior is used as stated."),
        ("cauchy(25, 3)", True, "The prior is used as stated."),
        ("cauchy(25, 3) on [20, 30]", None, OUTSIDE),
        ("triangular(20, 30, 30)", None, OUTSIDE),
        ('{"20": 1, "30": 2}', None, OUTSIDE),
        (Prior.normal(25, 3, 20, 30), None, OUTSIDE),
        (Prior.normal(25, 3, 20, 30), True, f"{TAILED[:-1]}, between 20 and 30."),
    ],
)
def test_where_a_tail_is_mixed_in(prior: str | Prior, tail: bool | None, words: str) -> None:
    use = asked_of_one(prior, tail).prior_use
    assert use is not None
    assert use.words == words
    assert use.tail == words.startswith("A tenth")


def test_names_and_dates_are_told_as_such() -> None:
    use = asked_of_one('{"g1": 1, "g2": 3}', column="grade").prior_use
    assert use is not None
    assert use.words.startswith("The prior is used as stated: values without a weight are impossible")
    use = asked_of_one("uniform(1980-01-01, 2024-02-29)", column="born").prior_use
    assert use is not None
    assert "values outside 1980-01-01 to 2024-02-29 are impossible" in use.words


def test_a_tail_needs_a_prior_and_is_true_or_false() -> None:
    small_schema = build_schema(10)
    query = parse_sql("SELECT COUNT(*) FROM t WHERE age > 20", small_schema)
    with pytest.raises(InvalidInput, match="give the prior too, or leave out tail"):
        plan(small_schema, query, 1, tail=True)
    with pytest.raises(InvalidInput, match="tail is True, False or left out, got int"):
        plan(small_schema, query, 1, prior="uniform(1, 5)", tail=1)


def test_noise_is_weighed_with_a_tail_unless_it_is_declined() -> None:
    """The answer is the same, and so is its name in the store; only what it means to the analyst differs."""
    small_schema = build_schema(100)
    query = parse_sql("SELECT COUNT(*) FROM t WHERE age > 20", small_schema)
    plans = {tail: plan(small_schema, query, 1, prior="uniform(20, 30)", tail=tail) for tail in (None, True, False)}
    assert len({query_plan.build_question_key() for query_plan in plans.values()}) == 1
    means = {}
    for tail, query_plan in plans.items():
        after = Decoder(query_plan).compute_posterior(0, (60,))
        assert after is not None
        means[tail] = after.mean()
    assert means[None] == means[True] > 40
    assert 29 < means[False] <= 30.5
    assert [None if query_plan.prior_use is None else query_plan.prior_use.tail for query_plan in plans.values()] == [
        True,
        True,
        False,
    ]
    errors = [query_plan.expected_error or 0.0 for query_plan in plans.values()]
    assert errors[0] == errors[1] > errors[2] > 0


def test_stored_answers_of_another_law_have_another_name() -> None:
    """Where the law is as it was before there was a choice, the name is too."""
    ended = [asked_of_one("uniform(20, 30)", tail).build_question_key() for tail in (None, False, True)]
    assert ended[0] == ended[1] != ended[2]
    assert json.loads(ended[0])["prior_rule"] == 2
    assert "prior_rule" not in json.loads(ended[2])
    spread = [asked_of_one("normal(25, 3)", tail).build_question_key() for tail in (None, True, False)]
    assert spread[0] == spread[1] != spread[2]
    assert "prior_rule" not in json.loads(spread[0])
    for prior, column in (("cauchy(25, 3)", "age"), ('{"g1": 1}', "grade")):
        assert "prior_rule" not in json.loads(asked_of_one(prior, None, column).build_question_key())
    assert json.loads(asked_of_one("normal(25, 3) on [20.5, 30.5] step 1").build_question_key())["prior_rule"] == 4
    assert json.loads(asked_of_one("cauchy(25, 3) on [20.5, 30.5] step 1").build_question_key())["prior_rule"] == 5


def total(prior: str | Prior, tail: bool | None = None, low: int = 0, high: int = 1000) -> Prior:
    return build_refinement_prior(
        parse_grid_prior(prior, Fraction(low), Fraction(high), Fraction(1), "COUNT", tail)
    ).prior


def test_a_total_is_drawn_from_the_values_between_the_ends() -> None:
    """All of them where they are few, each as likely as stated; none in a gap between two shapes."""
    assert total("uniform(20.5, 24.9)").support == (21, 22, 23, 24)
    assert set(total("uniform(20.5, 24.9)").mass.tolist()) == {2**56}
    assert total("0.5 uniform(20, 22) + 0.5 point(500)").support == (20, 21, 22, 500)
    assert total("uniform(1, 3) on [2, 900]").support == (2, 3)
    assert total(Prior.weights({7: 1, 9: 3})).mass.tolist() == [1, 3]
    assert total("triangular(10, 10, 12)").support == (10, 11, 12)
    assert total("uniform(20, 22)", tail=True).support == tuple(range(86))
    assert total("normal(20, 1) on [20.5, 30.5]").ends == (21, 30)
    with pytest.raises(InvalidInput, match="gives no probability to any value that the answer can have"):
        total("uniform(20.2, 20.8)")


def test_a_coarse_grid_has_only_values_between_the_ends() -> None:
    for prior in ("uniform(1, 999999)", "0.5 uniform(3, 500000) + 0.5 point(999983)", "triangular(7, 8, 900001)"):
        query_plan = total(prior, high=10**6)
        low, high = query_plan.ends
        assert 1000 < len(query_plan) <= 2048
        assert all(isinstance(value, int) for value in query_plan.support)
        assert 1 <= low < high <= 999999
        if "point" in prior:
            assert query_plan.support[-1] == 999983
            assert query_plan.support[-2] <= 500000


def test_a_single_possible_value_is_always_the_answer() -> None:
    small_schema = build_schema(60, "add-remove")
    for text, prior, value in (
        ("SELECT income FROM t FOR UNIT 'p1'", "point(123456)", 123456),
        ("SELECT MEDIAN(income) FROM t", Prior.weights({777777: 1}), 777777),
        ("SELECT MODE(age) FROM t", "uniform(40, 40)", 40),
    ):
        planned = plan(small_schema, parse_sql(text, small_schema), 1, prior=prior)
        assert set(draws(planned, MemorySource(small_schema, rows(random.Random(3), 60)), 5)) == {value}
        assert planned.expected_error in (None, 0.0)
    planned = plan(
        small_schema, parse_sql("SELECT AVG(age) FROM t", small_schema), 1, prior="point(40)", distance="continuous"
    )
    assert isinstance(planned.measurements[0], RefinedTotal)
    assert set(draws(planned, MemorySource(small_schema, rows(random.Random(3), 60)), 5)) == {40}


def test_a_truth_beyond_the_ends_is_answered_by_what_is_nearest() -> None:
    """The answer is wrong then, and within the prior."""
    planned = asked_of_one("uniform(20, 30)")
    source = MemorySource(build_schema(10), [{UNIT_KEY: "p1", "age": 90}])
    numbers = np.array([float(number_of(value)) for value in draws(planned, source, 400)])
    assert numbers.max() <= 30


def coverage(planned: Plan, small_schema: Schema, column: str, truths: list[int]) -> float:
    """How often the 95 % interval of a draw holds the truth it was drawn for."""
    hits = 0
    for truth in truths:
        source = MemorySource(small_schema, [{UNIT_KEY: "p1", column: truth}])
        cells, reader = planned.list_cells(), Decoder(planned)
        secret = read_exact_inputs(planned, source, cells, planned.query.where)
        law = reader.compute_posterior(0, sample_noisy_outputs(planned, secret).numbers[0][0])
        assert law is not None
        low, high = law.interval(0.95)
        hits += low <= truth <= high
    return hits / len(truths)


@pytest.mark.parametrize(
    ("text", "epsilon", "truths", "count"),
    [
        ("SELECT income FROM t FOR UNIT 'p1'", 5, range(20, 61), 400),
        ("SELECT income FROM t FOR UNIT 'p1'", 40, range(100, 800_001), 40),
        ("SELECT MAX(income) FROM t", 5, range(20, 61), 400),
        ("SELECT MAX(income) FROM t", 5, range(20, 31), 400),
    ],
)
def test_an_interval_of_wide_bins_holds_the_truth_as_often_as_it_says(
    text: str, epsilon: int, truths: range, count: int
) -> None:
    """Truths drawn from the prior; but for five standard deviations, and the entropy is seeded."""
    small_schema, chance = build_schema(1), random.Random(7)
    planned = plan(small_schema, parse_sql(text, small_schema), epsilon, prior=f"uniform({truths[0]}, {truths[-1]})")
    share = coverage(planned, small_schema, "income", [chance.choice(truths) for _ in range(count)])
    assert share >= 0.95 - 5 * (0.95 * 0.05 / count) ** 0.5


def test_a_bin_of_several_possible_values_is_no_single_value() -> None:
    """Its interval goes from the first possible value to the last, and it has a spread."""
    small_schema = build_schema(1)
    planned = plan(small_schema, parse_sql("SELECT MAX(income) FROM t", small_schema), 5, prior="uniform(20, 30)")
    before = planned.readings[0].get_stated_distribution()
    assert before is not None
    assert before.interval(0.95) == (20.0, 30.0)
    assert (before.mean(), before.median()) == (25.0, 25.0)
    assert before.variance() == pytest.approx((11**2 - 1) / 12)
    assert planned.prior_error == pytest.approx(planned.expected_error)
    wide = plan(
        small_schema,
        parse_sql("SELECT MAX(income) FROM t", small_schema),
        5,
        prior="0.5 uniform(20, 30) + 0.5 uniform(900, 901)",
    )
    before = wide.readings[0].get_stated_distribution()
    assert before is not None
    assert before.interval(0.95) == (20.0, 901.0)
    assert before.mean() == pytest.approx((25 + 900.5) / 2)


def test_a_narrow_prior_of_one_person_has_a_candidate_for_every_value() -> None:
    """However wide the column: epsilon is spent on telling the possible values apart."""
    small_schema = build_schema(10)
    planned = asked_of_one("uniform(20, 30)", column="income")
    measured = planned.measurements[0]
    assert isinstance(measured, UnitQuery)
    assert (measured.candidates.width, measured.candidates.count) == (1, 11)
    assert [measured.find_truth(code) for code in (0, 20, 30, 1_000_000)] == [-20, 0, 10, 999_980]
    for truth, end in ((0, 20), (1_000_000, 30)):
        sure = plan(small_schema, planned.query, 50, prior="uniform(20, 30)")
        assert set(draws(sure, MemorySource(small_schema, [{UNIT_KEY: "p1", "income": truth}]), 20)) == {end}
    assert planned.build_question_key() != asked_of_one("uniform(20, 31)", column="income").build_question_key()


@pytest.mark.parametrize("function", ["MAX", "MIN", "SECOND_MAX"])
def test_an_extreme_is_within_a_prior_with_ends_also_where_a_draw_hardly_tells_more(function: str) -> None:
    small_schema = build_schema(60)
    planned = plan(
        small_schema, parse_sql(f"SELECT {function}(income) FROM t", small_schema), 1, prior="uniform(100000, 100010)"
    )
    assert planned.uses_prior
    samples = draws(planned, MemorySource(small_schema, rows(random.Random(5), 60)), 20)
    assert all(100_000 <= number_of(value) <= 100_010 for value in samples)
    assert "values outside 100,000 to 100,010 are impossible" in planned.prior_description


@pytest.mark.parametrize("prior", ["normal(50, 4)", "uniform(17, 90)"])
def test_a_prior_that_is_not_used_is_said_to_be_not_used(prior: str) -> None:
    """It holds nothing impossible, and a draw at so small an epsilon would hardly tell more than it does."""
    small_schema = build_schema(60)
    planned = plan(small_schema, parse_sql("SELECT MAX(age) FROM t", small_schema), Fraction(1, 100), prior=prior)
    assert not planned.uses_prior
    assert planned.prior_use is None
    assert planned.prior_description.startswith("The prior is not used for this answer: a draw from it would hardly")
    assert build_preview(planned, "").prior_use == planned.prior_description
    assert not plan(small_schema, planned.query, Fraction(1, 100)).prior_description


def test_a_weight_of_a_value_that_the_column_cannot_have_goes_to_no_other() -> None:
    with pytest.raises(InvalidInput, match="none of its values possible"):
        asked_of_one('{"20.75": 1, "21.75": 2}')
    with pytest.raises(InvalidInput, match="none of its values possible"):
        asked_of_one(Prior.weights({Fraction("20.75"): 1, Fraction("21.75"): 2}))
    refined = asked_of_one('{"20.5": 1, "21": 2, "21.5": 4, "23": 6}').measurements[0]
    assert isinstance(refined, UnitQuery)
    assert refined.position_refinement.positions.tolist() == [21 - 17, 23 - 17]
    assert refined.position_refinement.stated_mass.tolist() == [0.25, 0.75]


def errors_and_hits(planned: Plan, small_schema: Schema, truths: list[int]) -> tuple[np.ndarray, float]:
    """How far the posterior mean of a draw is from its truth, and how often the 95 % interval holds that."""
    reader, away, hits = Decoder(planned), [], 0
    for truth in truths:
        cells = planned.list_cells()
        secret = read_exact_inputs(
            planned, MemorySource(small_schema, [{UNIT_KEY: "p1", "income": truth}]), cells, planned.query.where
        )
        law = reader.compute_posterior(0, sample_noisy_outputs(planned, secret).numbers[0][0])
        assert law is not None
        low, high = law.interval(0.95)
        away.append(law.mean() - truth)
        hits += low <= truth <= high
    return np.array(away), hits / len(truths)


MIXED = "0.98 uniform(2, 20) + 0.02 uniform(0, 50000)"


def from_mixed(chance: random.Random) -> int:
    return chance.randint(2, 20) if chance.random() < 0.98 else chance.randint(0, 50_000)


@pytest.mark.parametrize(
    ("asked", "epsilon", "prior", "distance", "truth"),
    [
        ("SUM", 1, MIXED, None, from_mixed),
        ("SUM", 10, "normal(500000, 5000)", None, lambda chance: round(chance.gauss(500_000, 5_000))),
        ("SUM", 10, "laplace(500000, 2000)", None, lambda c: 500_000 + round(c.expovariate(5e-4) * c.choice([-1, 1]))),
        ("SUM", 30, "triangular(0, 50000, 100000)", None, lambda chance: round(chance.triangular(0, 100_000, 50_000))),
        ("SUM", 30, "uniform(0, 4095)", None, lambda chance: chance.randint(0, 4095)),
        ("SUM", 20, "uniform(0, 100000)", "nominal", lambda chance: chance.randint(0, 100_000)),
        ("AVG", 20, "normal(500000, 5000)", "continuous", lambda chance: round(chance.gauss(500_000, 5_000))),
        ("AVG", 20, "uniform(0, 100000)", "continuous", lambda chance: chance.randint(0, 100_000)),
    ],
    ids=["mixture", "normal", "laplace", "triangular", "pairs", "by equality", "mean, normal", "mean, uniform"],
)
def test_an_interval_of_a_refined_total_holds_the_truth_as_often_as_it_says(
    asked: str, epsilon: int, prior: str, distance: str | None, truth: Callable[[random.Random], int]
) -> None:
    """A point that is drawn stands for many values. Truths from the prior; but for five standard deviations."""
    small_schema, chance, count = build_schema(1), random.Random(11), 120
    planned = plan(
        small_schema,
        parse_sql(f"SELECT {asked}(income) FROM t", small_schema),
        epsilon,
        prior=prior,
        distance=distance,
    )
    assert isinstance(planned.measurements[0], RefinedTotal)
    _, coverage_share = errors_and_hits(planned, small_schema, [truth(chance) for _ in range(count)])
    assert coverage_share >= 0.95 - 5 * (0.95 * 0.05 / count) ** 0.5


def test_the_stated_error_of_a_refined_total_is_the_real_one() -> None:
    """Nearly always the nearest point is drawn, and the error is that among what it stands for, even within a cell.

    The square of such an error has a standard deviation of 0.9 of its mean: 0.064 of it for the mean of 200.
    """
    small_schema, chance = build_schema(1), random.Random(13)
    query = parse_sql("SELECT SUM(income) FROM t", small_schema)
    planned = plan(small_schema, query, 30, prior="triangular(0, 50000, 100000)")
    truths = [round(chance.triangular(0, 100_000, 50_000)) for _ in range(200)]
    away, _ = errors_and_hits(planned, small_schema, truths)
    assert planned.expected_error is not None
    assert float((away**2).mean()) == pytest.approx(planned.expected_error**2, rel=5 * 0.064)
    before = planned.readings[0].get_stated_distribution()
    assert before is not None
    assert before.variance() == pytest.approx(100_000**2 / 24, rel=1e-3)


@pytest.mark.parametrize("distance", ["continuous", "nominal"])
@pytest.mark.parametrize("prior", ["uniform(0, 4095)", "normal(2000, 400)", "triangular(0, 5000, 16000)"])
def test_what_a_draw_says_of_values_between_the_points_is_their_own_law(distance: str, prior: str) -> None:
    """Of values beside the points, half way between two, and beyond the last: exact probabilities of one draw."""
    small_schema = build_schema(1)
    planned = plan(
        small_schema, parse_sql("SELECT SUM(income) FROM t", small_schema), 3, prior=prior, distance=distance
    )
    one = planned.measurements[0]
    assert isinstance(one, RefinedTotal)
    truths, grid_prior = one.refinement_prior.truths, one.refinement.prior
    assert len(truths.lows) > 1.5 * len(grid_prior)
    at = len(grid_prior) // 3
    after = compute_run_posterior(one.refinement, at, truths)
    middles = truths.lows + (truths.spans - 1) // 2
    some = np.unique(
        np.concatenate((np.arange(0, len(middles), 97), np.abs(middles - grid_prior.index[at]).argsort()[:9]))
    )
    ratios = after[some] / (
        truths.used[some] * [likelihood(one.refinement, int(middles[small_schema]), at) for small_schema in some]
    )
    assert ratios == pytest.approx(np.full(len(some), ratios[0]), rel=1e-9)


def likelihood(refinement: Refinement, place: int, at: int) -> float:
    """How likely a truth makes a draw, by the law that is drawn from; over the draw's mass in the prior."""
    assert refinement.prior.grid is not None
    law = refinement.distribution(refinement.prior.grid.value(place))
    return float(law.factors.values[law.blocks[at]])  # type: ignore[attr-defined] # few factors


def test_an_interval_of_a_mean_holds_values_between_the_steps() -> None:
    """A trimmed mean of eight ages is an eighth of a year, where ten rows make a step of a tenth."""
    small_schema = build_schema(10)
    query = parse_sql("SELECT TRIMMED_MEAN(age, 0.1) FROM t", small_schema)
    ages = (17, 20, 20, 20, 20, 20, 20, 20, 21, 90)
    for prior in ("uniform(20, 30)", "normal(22, 3)", "uniform(20, 20.125)"):
        planned = plan(small_schema, query, 40, prior=prior, distance="continuous")
        source, reader = MemorySource(small_schema, [{"age": age} for age in ages]), Decoder(planned)
        secret = read_exact_inputs(planned, source, planned.list_cells(), planned.query.where)
        law = reader.compute_posterior(0, sample_noisy_outputs(planned, secret).numbers[0][0])
        assert law is not None
        low, high = law.interval(0.95)
        assert low <= 20.125 <= high
        assert 0 <= high - low < 0.5
        assert prior[0] == "n" or low >= 20


def held_and_error(one: RefinedTotal, chances: dict[Fraction, float]) -> tuple[float, float]:
    """How often the 95 % interval holds a truth of this law, and the error of the posterior mean: over all draws."""
    prior, hit_share, square = one.refinement.prior, 0.0, 0.0
    posteriors = [one.posterior((int(place),)) for place in prior.index]
    means, (lows, highs) = (
        np.array([law.mean() for law in posteriors]),
        np.array([law.interval(0.95) for law in posteriors]).T,
    )
    for truth, chance in chances.items():
        law, number = one.refinement.distribution(truth), float(truth)
        factors = np.array([float(value) for value in law.factors.values])[law.blocks]  # type: ignore[attr-defined]
        posterior = prior.mass / prior.total * factors
        hit_share += chance * float(posterior @ ((lows <= number) & (number <= highs)))
        square += chance * float(posterior @ (means - number) ** 2)
    return hit_share, square**0.5


@pytest.mark.parametrize(
    ("asked", "number", "apart", "epsilon", "prior"),
    [
        ("AVG(load)", 20, Fraction(1, 4), 3, "normal(100, 1) on [90.1, 100]"),
        ("AVG(load)", 20, Fraction(1, 4), 10, "normal(100, 1) on [90.1, 100]"),
        ("AVG(load)", 20, Fraction(1, 4), 3, "laplace(100, 0.5) on [90.1, 100]"),
        ("AVG(load)", 20, Fraction(1, 4), 10, "normal(95, 1) on [90.1, 99.9]"),
        ("AVG(age)", 10, Fraction(1, 10), 10, "normal(30, 0.1) on [25.05, 30]"),
        ("AVG(age)", 10, Fraction(1, 10), 10, "uniform(25.05, 30)"),
        ("AVG(age)", 1, Fraction(1), 1, "uniform(20.3, 30)"),
        ("TRIMMED_MEAN(age, 0.1)", 10, Fraction(1, 8), 3, "normal(30, 0.1) on [25.05, 30]"),
    ],
)
def test_an_interval_of_a_refined_mean_holds_any_mean_between_the_ends_of_the_prior(
    asked: str, number: int, apart: Fraction, epsilon: int, prior: str
) -> None:
    """Also where the prior ends at no mean. Exact: every truth there is by every draw there can be."""
    load = Column("load", "number", lower=0, upper=40, step=Fraction(5), missing=0)
    small_schema = schema("replace-one", 1, number, columns=BY_NAME | {"load": load})
    planned = plan(
        small_schema, parse_sql(f"SELECT {asked} FROM t", small_schema), epsilon, prior=prior, distance="continuous"
    )
    one, shapes = planned.measurements[0], parse_shapes(prior)
    assert isinstance(one, RefinedTotal)
    low, high = shapes.hull or (Fraction(0), Fraction(0))
    means = [place * apart for place in range(math.ceil(low / apart), math.floor(high / apart) + 1)]
    edges = np.array([float(mean) for mean in (*means, means[-1] + apart)]) - float(apart) / 2
    chances = shapes.terms[0].compute_cell_masses(edges) if shapes.terms[0].is_spread else np.ones(len(means))
    hit_share, error = held_and_error(one, dict(zip(means, (chances / chances.sum()).tolist(), strict=True)))
    assert hit_share >= 0.95
    assert planned.expected_error == pytest.approx(error, rel=1e-3)
    assert set(one.refinement.prior.support) == set(means)


def test_a_mean_of_a_secret_number_of_rows_may_lie_beyond_the_last_step() -> None:
    """Of a prior as narrow as two of them."""
    small_schema = build_schema(10)
    query = parse_sql("SELECT AVG(age) FROM t WHERE income > 3", small_schema)
    planned = plan(small_schema, query, 1, prior="normal(30, 1e-10) on [29.9999999999, 30]", distance="continuous")
    one = planned.measurements[0]
    assert isinstance(one, RefinedTotal)
    assert len(one.refinement.prior) == 2
    assert one.get_stated_distribution().interval(0.95) == (29.9999999999, 30.0)


@pytest.mark.parametrize(
    ("asked", "prior", "rules"),
    [
        ("AVG(age)", "normal(25, 3) on [20.01, 30]", (7, 7, 6)),
        ("AVG(age)", "cauchy(25, 3) on [20.01, 30]", (6, 6, 6)),
        ("AVG(age)", "normal(25, 3) on [20, 30.01]", (None, None, 2)),
        ("AVG(age)", "normal(25, 3)", (None, None, 2)),
        ("AVG(age)", "uniform(20, 30)", (2, None, 2)),
        ("AVG(age)", "uniform(20.01, 30)", (6, None, 6)),
        ("AVG(age)", "uniform on [20, 30.01]", (6, 7, 6)),
        ("AVG(age)", '{"20.01": 1, "21": 2}', (2, None, 2)),
        ("TRIMMED_MEAN(age, 0.1)", "uniform(20, 30)", (6, 7, 6)),
        ("TRIMMED_MEAN(age, 0.01)", "uniform(20, 30)", (2, None, 2)),
        ("VAR(age)", "normal(25, 3) on [20.01, 30]", (None, None, 2)),
    ],
)
def test_a_mean_whose_law_was_another_once_has_another_name(
    asked: str, prior: str, rules: tuple[int | None, ...]
) -> None:
    """Without a word on a tail, with one, and with none; where the law stayed what it was, so did the name."""
    small_schema = build_schema(60)
    query = parse_sql(f"SELECT {asked} FROM t", small_schema)
    query_plan = [
        plan(small_schema, query, 1, prior=prior, distance="continuous", tail=tail) for tail in (None, True, False)
    ]
    assert tuple(json.loads(one.build_question_key()).get("prior_rule") for one in query_plan) == rules


def test_a_prior_between_two_means_is_refused() -> None:
    small_schema = build_schema(10)
    for prior in ("normal(20.35, 1) on [20.31, 20.39]", "uniform(20.31, 20.39)"):
        with pytest.raises(InvalidInput, match=r"no probability to any value that (AVG of age|the answer) can have"):
            plan(small_schema, parse_sql("SELECT AVG(age) FROM t", small_schema), 1, prior=prior, distance="continuous")


def law_used(planned: Plan) -> tuple[object, ...]:
    """All that an answer is drawn by."""
    one = planned.measurements[0]
    if isinstance(one, CandidateSelection):
        prior = (
            one.mechanism.position_refinement.refinement.prior
            if isinstance(one.mechanism, RefinedStatistic)
            else one._base_prior
        )
    else:
        assert isinstance(one, UnitQuery | RefinedTotal)
        prior = one.refinement.prior if isinstance(one, RefinedTotal) else one.position_refinement.refinement.prior
    assert prior is not None
    codes = "" if isinstance(one, RefinedTotal) else str(one.candidates.codes)
    return prior.grid, tuple(prior.index.tolist()), tuple(prior.mass.tolist()), codes


TEXTS = (
    "uniform(22, 30) on [20.25, 80.25] step 0.5",
    "uniform(20, 30) on [17.5, 89.5] step 1.5",
    "normal(25, 3) on [20.5, 30.5] step 1",
    "cauchy(25, 3) on [20.5, 30.5] step 1",
    "uniform(20, 30)",
    "triangular(20.5, 21, 30)",
    "normal(25, 3)",
    "normal(25, 3) on [20, 30]",
    "0.5 cauchy(25, 3) + 0.5 uniform(20, 30)",
    '{"20.5": 1, "21": 2, "23": 6}',
    '{"20": 1, "21": 2, "23": 6}',
)


@pytest.mark.parametrize("prior", TEXTS)
@pytest.mark.parametrize(
    ("text", "distance"),
    [
        ("SELECT age FROM t FOR UNIT 'p1'", None),
        ("SELECT income FROM t FOR UNIT 'p1'", None),
        ("SELECT MAX(age) FROM t", "continuous"),
        ("SELECT MEDIAN(age) FROM t", None),
        ("SELECT MODE(age) FROM t", None),
        ("SELECT SUM(age) FROM t", "continuous"),
        ("SELECT AVG(age) FROM t", "continuous"),
        ("SELECT COUNT(*) FROM t WHERE age > 30", "nominal"),
    ],
)
def test_another_law_has_another_name(text: str, distance: str | None, prior: str) -> None:
    """Else an answer drawn with a tail is told to who holds what lies in it impossible."""
    small_schema = build_schema(1 if "SUM" in text else 60)
    query = parse_sql(text, small_schema)
    query_plan = [
        plan(small_schema, query, 1, prior=prior, distance=distance, tail=tail) for tail in (None, True, False)
    ]
    laws, names = [law_used(one) for one in query_plan], [one.build_question_key() for one in query_plan]
    for one in range(3):
        for two in range(one):
            assert (laws[one] == laws[two]) == (names[one] == names[two])


@pytest.mark.parametrize("prior", TEXTS[:2])
def test_an_answer_with_a_tail_is_not_told_to_who_asks_without_one(tmp_path: Path, prior: str) -> None:
    """Through the public door: the second answer is another draw, and lies between the ends."""
    with Custodian.open(write_registry(tmp_path, patients=60)) as custodian:
        question = "SELECT MEDIAN(age) FROM registry WHERE age > 18"
        custodian.answer(question, epsilon=0.4, prior=prior, tail=True)
        answer = custodian.answer(question, epsilon=0.4, prior=prior)
        assert not answer.stored
        assert isinstance(answer.value, int | float)
        assert 20 <= answer.value <= 30
        assert custodian.answer(question, epsilon=0.4, prior=prior).stored


def test_a_weight_of_a_number_that_a_total_cannot_be_goes_to_no_other() -> None:
    small_schema = build_schema(10)
    query = parse_sql("SELECT COUNT(*) FROM t WHERE age > 30", small_schema)
    planned = plan(small_schema, query, 3, prior='{"2.5": 1, "3": 1, "3.25": 5, "4": 3}', distance="continuous")
    assert set(draws(planned, MemorySource(small_schema, rows(random.Random(1), 10)), 40)) <= {3, 4}
    assert "values outside 3 to 4 are impossible" in planned.prior_description
    assert json.loads(planned.build_question_key())["prior_rule"] == 3
    right = plan(small_schema, query, 3, prior='{"3": 1, "4": 3}', distance="continuous")
    assert json.loads(right.build_question_key())["prior_rule"] == 2
    assert total(Prior.weights({Fraction("7.5"): 1, 9: 3, 10: 4})).support == (9, 10)
    assert total(Prior.uniform(Fraction("7.5"), 10, Fraction(1, 2))).support == (8, 9, 10)
    tenths = Prior.uniform(Fraction("7.4"), 10, Fraction(1, 10))  # goes to the nearest values within its ends
    assert (total(tenths).support, total(tenths).mass.tolist()) == ((8, 9, 10), [11, 10, 6])
    far = parse_grid_prior(
        tenths, -Fraction(10**15), Fraction(10**15), Fraction(1), "SUM"
    )  # codes are counted from near it
    assert isinstance(far, PointGridPrior)
    assert far.prior.support == (8, 9, 10)
    huge = parse_grid_prior('{"1e15": 1, "2e15": 1}', -Fraction(10**16), Fraction(10**16), Fraction(1, 10**6), "SUM")
    assert (huge.ends, huge.has_moved_values) == (("1e15", "2e15"), False)
    assert total(Prior.uniform(Fraction("0.5"), Fraction("9.5"))).support == tuple(range(1, 10))  # a shape, no points
    halves = Prior.weights({Fraction(2 * at + 1, 2): 1 for at in range(10)})
    for prior in ('{"200.5": 1, "300.25": 1}', halves):
        for asked in ("SELECT SUM(age) FROM t", "SELECT COUNT(*) FROM t WHERE age > 30"):
            with pytest.raises(InvalidInput, match=r"no probability to any value that (COUNT|SUM)|lies outside"):
                plan(small_schema, parse_sql(asked, small_schema), 3, prior=prior, distance="continuous")
    averaged = parse_sql("SELECT AVG(age) FROM t", small_schema)
    between = plan(small_schema, averaged, 3, prior='{"20.25": 1, "30.55": 1}', distance="continuous")
    assert set(draws(between, MemorySource(small_schema, rows(random.Random(1), 10)), 40)) <= {
        Fraction("20.25"),
        Fraction("30.55"),
    }


def test_a_column_cut_to_a_prior_keeps_the_weights_that_went_into_it() -> None:
    """A point beside the lowest possible value goes to it; cutting the column there must not drop it."""
    weights = {Fraction(81, 4): 997} | {Fraction(quarter, 4): 1 for quarter in range(82, 122)}
    planned = asked_of_one(Prior.weights(weights), column="income")
    measured = planned.measurements[0]
    assert isinstance(measured, UnitQuery)
    assert (measured.candidates.width, measured.candidates.count) == (1, 10)
    assert measured.position_refinement.stated_mass[0] == pytest.approx(1001 / 1037)
    by_year = asked_of_one(Prior.weights(weights)).measurements[0]
    assert isinstance(by_year, UnitQuery)
    assert measured.position_refinement.stated_mass == pytest.approx(by_year.position_refinement.stated_mass)
    assert json.loads(planned.build_question_key())["prior_rule"] == 3
