"""Previews and plans: from public facts alone, for nothing; by epsilon, accuracy or noise; priors change no cost."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any, cast

import pytest
from test_custodian import register_people, write_people

from discreet import BudgetExceeded, Custodian, InvalidInput, Prior, Schema, Unsupported, load_schema
from discreet.custodian import preview_question, validate_question
from discreet.custodian.preview import explain_mechanism
from discreet.measurements.refined_total import RefinedTotal
from discreet.numeric import exp_above
from discreet.planner.options import PlanRequest, QueryOptions, build_query_options
from discreet.planner.planner import plan
from discreet.query import parse_sql
from discreet.sample import write_registry
from discreet.sources.protocol import Source
from discreet.verification import worst_ratio
from support.small_tables import farthest, schema

COUNT = "SELECT COUNT(*) FROM people WHERE sex = 'F'"
MEAN = "SELECT AVG(age) FROM people WHERE sex = 'F'"


class SealedSource:
    """A source that raises on any access."""

    def __getattr__(self, name: str) -> object:
        raise AssertionError(f"a preview asked the source for {name}")


@pytest.fixture
def previewed_custodian(tmp_path: Path) -> Iterator[Custodian]:
    shutil.copytree(register_people(), tmp_path, dirs_exist_ok=True)
    with Custodian.open(tmp_path / "people.yaml") as custodian:
        yield custodian


@pytest.fixture
def declared_schema(tmp_path: Path) -> Schema:
    return load_schema(write_people(tmp_path))


@pytest.mark.parametrize(
    ("question", "prior"),
    [
        (COUNT, "normal(200, 10)"),
        (MEAN, "normal(50, 5)"),
        ("SELECT VAR(age) FROM people", "normal(800, 50)"),
        ("SELECT MEDIAN(age) FROM people", "normal(50, 5)"),
        ("SELECT MAX(age) FROM people", "normal(90, 5)"),
        ("SELECT MODE(sex) FROM people", '{"F": 1, "M": 2}'),
        ("SELECT sex, SUM(age) FROM people GROUP BY sex", "normal(9000, 500)"),
    ],
)
def test_a_preview_opens_no_data_and_charges_nothing(previewed_custodian: Custodian, question: str, prior: str) -> None:
    source, previewed_custodian._source = previewed_custodian._source, cast(Source, SealedSource())
    preview = previewed_custodian.preview(question, 0.5, prior=prior)
    assert preview.candidates
    assert sum(candidate.chosen for candidate in preview.candidates) == 1
    assert preview.cost.epsilon == Fraction(1, 2)
    assert preview.times == 4
    assert [balance.epsilon for balance in preview.balances if balance.model == "dp"] == [0, 0]
    assert [entry.kind for entry in previewed_custodian.history()] == ["register"]
    previewed_custodian._source = source


def test_the_preview_names_what_the_answer_then_does(previewed_custodian: Custodian) -> None:
    preview = previewed_custodian.preview(MEAN, 0.5, prior="normal(50, 5)")
    answer = previewed_custodian.answer(MEAN, 0.5, prior="normal(50, 5)")
    assert (answer.mechanism, answer.guarantee) == (preview.mechanism, preview.guarantee)
    chosen = next(candidate for candidate in preview.candidates if candidate.chosen)
    assert (chosen.mechanism, chosen.expected_error) == (preview.mechanism, preview.expected_error)
    assert preview.expected_error == min(candidate.expected_error or 9e9 for candidate in preview.candidates)
    assert previewed_custodian.preview(MEAN, 0.5).times == 3


def test_the_reason_names_a_rival_that_is_told_apart() -> None:
    """As a sentence; one whose error has the same four digits is no reason, and is left out."""
    declared_schema = schema("add-remove", 1, 0)
    query_plan = plan(declared_schema, parse_sql("SELECT COUNT(*) FROM t", declared_schema), 1)
    mine, other = replace(query_plan.candidates[0], expected_error=1022.21, chosen=True), query_plan.candidates[0]

    def explain_rival(error: float) -> str:
        rival = replace(other, mechanism="rival", expected_error=error, chosen=False)
        return explain_mechanism(replace(query_plan, candidates=(mine, rival)))

    assert explain_rival(2044.4) == "its expected error is about 1,022, that of the rival is about 2,044"
    assert explain_rival(1022.4) == "the one that fits what was asked"


def test_a_prior_changes_what_an_answer_means_and_not_what_it_costs(previewed_custodian: Custodian) -> None:
    """The same draw serves every prior: the second question finds the stored answer."""
    first = previewed_custodian.answer(COUNT, 0.5, prior="normal(202, 5)")
    second = previewed_custodian.answer(COUNT, 0.5, prior="normal(198, 5)")
    plain = previewed_custodian.answer(COUNT, 0.5)
    assert second.stored
    assert plain.stored
    assert first.value == second.value == plain.value
    assert plain.posterior is None
    assert first.posterior is not None
    assert second.posterior is not None
    assert first.posterior.mean() > second.posterior.mean()
    assert "You believed" in first.meaning


def test_a_wrong_prior_is_told_and_does_not_ruin_the_answer(previewed_custodian: Custodian) -> None:
    answer = previewed_custodian.answer(COUNT, 1, prior="normal(1000, 2)")
    assert answer.warning is not None
    assert "1 % tails" in answer.warning
    assert answer.posterior is not None
    assert abs(answer.posterior.mean() - float(answer.value)) < 20  # type: ignore[arg-type]
    assert previewed_custodian.answer(COUNT, 1, prior="normal(200, 50)").warning is None


HOSTILE = [
    "point(7)",
    "0.5 point(1) + 0.5 point(390)",
    "normal(200, 1e-200)",
    "uniform(0, 1000)",
    "uniform(0, 1048575) step 1",
    Prior.weights({3: 1}),
    Prior.uniform(0, 2**20 - 1),
]


@pytest.mark.parametrize("prior", HOSTILE)
@pytest.mark.parametrize("question", [COUNT, MEAN.replace("AVG", "SUM")])
def test_hostile_priors_change_no_epsilon(declared_schema: Schema, question: str, prior: str | Prior) -> None:
    """The charge, its label and the mechanism's promise are those of the question without a prior."""
    without_prior, with_prior = (
        preview_question(declared_schema, question, build_query_options(0.5)),
        preview_question(declared_schema, question, build_query_options(0.5, prior=prior)),
    )
    assert with_prior.cost == without_prior.cost
    assert with_prior.guarantee == without_prior.guarantee


@pytest.mark.parametrize(
    "prior",
    ["point(-5)", "normal(200, 5) on [900, 800]", "normal(,)", "banana", "", "normal(1, 0)", '{"F": 1}', "x" * 10**5],
)
def test_priors_are_refused_from_themselves_alone(declared_schema: Schema, prior: str) -> None:
    """Without a source in reach, in one sentence."""
    with pytest.raises(InvalidInput) as refusal:
        preview_question(declared_schema, COUNT, build_query_options(0.5, prior=prior))
    assert "\n" not in str(refusal.value)


def test_planning_is_quick(declared_schema: Schema) -> None:
    """At most 50 ms for priors up to 10,000 points is measured in the benchmark; here ten times that."""
    prior = Prior.normal(5000, 700, 0, 9999)
    for question in (COUNT, MEAN.replace("AVG", "SUM"), "SELECT VAR(age) FROM people"):
        best = min(_time_preview(declared_schema, question, prior) for _ in range(5))
        assert best < 0.5


def _time_preview(declared_schema: Schema, question: str, prior: Prior) -> float:
    start = time.perf_counter()
    preview_question(declared_schema, question, build_query_options(0.5, prior=prior))
    return time.perf_counter() - start


@pytest.mark.parametrize("accuracy", ["±50 at 95%", "+-50 at 0.95", "within 50", "50"])
def test_an_accuracy_gives_the_smallest_epsilon(declared_schema: Schema, accuracy: str) -> None:
    """0.05932: an interval of 50 whole steps; a ten-thousandth less and it is 51."""
    preview = preview_question(declared_schema, COUNT, build_query_options(accuracy=accuracy))
    assert preview.cost.epsilon == Fraction("0.05932")
    assert "within 50 with" in preview.accuracy
    assert (
        "within 51 with"
        in preview_question(declared_schema, COUNT, build_query_options(epsilon=Fraction("0.0592"))).accuracy
    )


@pytest.mark.parametrize(
    ("aggregate", "near"),
    [("COUNT(*)", 7), ("SUM(score)", 40), ("AVG(score)", "0.3"), ("VAR(score)", "0.9"), ("STDDEV(score)", "0.3")],
)
@pytest.mark.parametrize("relation", ["add-remove", "replace-one"])
@pytest.mark.parametrize("tail", ["WHERE age > 0", "GROUP BY sex", ""])
def test_every_total_can_be_asked_by_its_accuracy(aggregate: str, near: object, relation: str, tail: str) -> None:
    """The mechanism taken is as near as asked, and with a hundredth less of epsilon none would be."""
    declared_schema = schema(relation, 1, units=400)
    query = parse_sql(f"SELECT {aggregate} FROM t {tail}", declared_schema)
    query_plan = plan(declared_schema, query, accuracy=f"{near} at 95%", rows=300)
    assert query_plan.is_free == ((aggregate, relation, tail) == ("COUNT(*)", "replace-one", ""))
    if query_plan.is_free:
        return
    assert farthest(query_plan, 0.95) <= float(str(near)) * 1.0001
    less = plan(declared_schema, query, query_plan.epsilon * Fraction(99, 100), rows=300)
    assert farthest(less, 0.95) > float(str(near)) * 0.97


@pytest.mark.parametrize(
    ("aggregate", "nears"),
    [
        ("COUNT(*)", range(20, 400, 21)),
        pytest.param("COUNT(*)", range(20, 400, 7), marks=pytest.mark.soak),
        ("SUM(score)", (3.8, 20, 50)),
        ("AVG(age)", (0.7,)),
    ],
)
def test_an_accuracy_has_the_same_epsilon_whatever_is_left(aggregate: str, nears: Sequence[float]) -> None:
    """Else the same question would be another one once it is paid, and a retry too; too little is refused."""
    declared_schema = schema("add-remove", 1, units=400)
    query = parse_sql(f"SELECT {aggregate} FROM t WHERE sex = 'F'", declared_schema)
    for near in nears:
        options = {"accuracy": f"±{near} at 95%", "rows": 3000}
        first = plan(declared_schema, query, **options)  # type: ignore[arg-type]
        for left in (1, Fraction(10_001, 10_000), Fraction(17, 3)):
            assert plan(declared_schema, query, **options, max_epsilon=first.epsilon * left).epsilon == first.epsilon  # type: ignore[arg-type]
        with pytest.raises(BudgetExceeded):
            plan(declared_schema, query, **options, max_epsilon=first.epsilon * Fraction(99_999, 100_000))  # type: ignore[arg-type]


def test_asked_by_accuracy_again_it_is_the_stored_answer(tmp_path: Path) -> None:
    """Though less is left by then."""
    smokers = "SELECT COUNT(*) FROM registry WHERE smoker"
    with Custodian.open(write_registry(tmp_path, patients=1000)) as custodian:
        for near in range(76, 60, -2):
            answers = [custodian.answer(smokers, accuracy=f"±{near}") for _ in range(3)]
            assert len({answer.entry for answer in answers}) == 1
            assert custodian.preview(smokers, accuracy=f"±{near}").cost.epsilon == 0
        assert sum(entry.kind == "charge" for entry in custodian.history()) == 8


def test_an_accuracy_beyond_the_budget_tells_the_reachable_one(previewed_custodian: Custodian) -> None:
    with pytest.raises(
        BudgetExceeded, match=r"±1 at 99% cannot be reached with the epsilon of 2 that is left; ±2 at 99% is"
    ):
        previewed_custodian.answer(COUNT, accuracy="±1 at 99%")
    previewed_custodian.answer(COUNT, accuracy="±4 at 99%")
    with pytest.raises(BudgetExceeded, match="that is left; ±"):
        previewed_custodian.preview("SELECT COUNT(*) FROM people WHERE sex = 'M'", accuracy="±3 at 99%")
    assert len(previewed_custodian.history()) == 2


def test_noise_of_a_named_size(previewed_custodian: Custodian) -> None:
    preview = previewed_custodian.preview(COUNT, noise_scale=20)
    assert preview.cost.epsilon == Fraction(1, 20)
    assert previewed_custodian.answer(COUNT, noise_scale=20).guarantee.epsilon == Fraction(1, 20)
    assert previewed_custodian.preview("SELECT SUM(age) FROM people", noise_scale=99).cost.epsilon == 1


def test_many_counts_of_gaussian_noise_fit_a_budget_with_a_delta(tmp_path: Path) -> None:
    """At least 100 counts of sd 20 within (3, 1e-6), each labelled by its rho."""
    head = "name: people\nsource: people.csv\nneighbours: add-remove\nbudget: {epsilon: 3, delta: 1e-6}\n"
    head += "analyst_budget: {epsilon: 3, delta: 1e-6}\nmodels: [approx-dp]\n"
    with Custodian.open(write_people(tmp_path, head)) as custodian:
        preview = custodian.preview(COUNT, noise_scale=20, model="approx-dp")
        assert preview.guarantee.model == "zcdp"
        assert preview.guarantee.rho == Fraction(1, 800)
        assert preview.times >= 100
        answered = 0
        for age in range(preview.times + 1):
            question = f"SELECT COUNT(*) FROM people WHERE age > {age % 99} OR sex = '{'FM'[age // 99]}'"
            try:
                answer = custodian.answer(question, noise_scale=20, model="approx-dp")
            except BudgetExceeded:
                break
            answered += 1
            assert answer.mechanism == "discrete Gaussian"
        assert answered == preview.times


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({}, "one way"),
        ({"epsilon": 1, "accuracy": "5"}, "one way"),
        ({"accuracy": "near enough"}, "is written like"),
        ({"accuracy": "±50 at 20%"}, "is written like"),
        ({"noise_scale": -1}, "noise scale"),
        ({"epsilon": 1, "rows": 0}, "rows expected"),
        ({"epsilon": 1, "distance": "continuous"}, "give the prior too"),
        ({"epsilon": 1, "interval": True}, "leave it out"),
        ({"noise_scale": 5, "interval": True}, "leave it out"),
        ({"noise_scale": 10**30}, "epsilon must be"),
    ],
)
def test_what_cannot_be_asked(declared_schema: Schema, options: dict[str, object], words: str) -> None:
    with pytest.raises(InvalidInput, match=words):
        preview_question(declared_schema, COUNT, build_query_options(**options))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("question", "options", "words"),
    [
        (COUNT, {"constraints": ["each <= -5"]}, "must be a whole number of at least 0"),
        (COUNT, {"constraints": ["total <= 5", "total >= 9"]}, "no numbers|cannot|fit"),
        (COUNT, {"ranges": ["20..30"]}, "ranges are asked of the answer to SELECT HISTOGRAM"),
        ("SELECT HISTOGRAM(age, 10) FROM people", {"ranges": [(30, 20)]}, "from its low end up to its high end"),
        ("SELECT MEDIAN(age) FROM people", {"population": True}, "."),
        (COUNT, {"population_size": 10}, "."),
        ("SELECT COUNT(*) FROM elsewhere", {}, "elsewhere"),
    ],
)
def test_every_refusal_is_made_before_the_charge(
    previewed_custodian: Custodian, question: str, options: dict[str, Any], words: str
) -> None:
    """By whichever call, and from the schema alone, for commands that must not even register what they refuse."""
    query_options = build_query_options(1, **options)
    for refuse in (
        lambda: validate_question(previewed_custodian.schema, question, query_options),
        lambda: previewed_custodian.validate(question, query_options),
        lambda: previewed_custodian.preview(question, 1, **options),
        lambda: previewed_custodian.answer(question, 1, **options),
    ):
        with pytest.raises((InvalidInput, Unsupported), match=words):
            refuse()
    assert [entry.kind for entry in previewed_custodian.history()] == ["register"]


def test_a_picture_is_refused_where_there_is_none(declared_schema: Schema) -> None:
    groups = "SELECT sex, COUNT(*) FROM people GROUP BY sex"
    assert validate_question(declared_schema, groups, build_query_options(1)).query.keys
    with pytest.raises(InvalidInput, match="a picture shows a HISTOGRAM"):
        validate_question(declared_schema, groups, build_query_options(1), plot=True)


def test_options_of_another_class_are_refused(previewed_custodian: Custodian) -> None:
    """What the planner adds to them is not for analysts to say."""
    for options in (PlanRequest(epsilon=Fraction(1)), {"epsilon": 1}, None):
        with pytest.raises(InvalidInput, match="the options of a question are QueryOptions"):
            previewed_custodian.validate(COUNT, cast(QueryOptions, options))


def test_what_has_no_accuracy_in_values(declared_schema: Schema) -> None:
    with pytest.raises(Unsupported, match="ask for this with an epsilon"):
        preview_question(declared_schema, "SELECT MEDIAN(age) FROM people", build_query_options(accuracy="±5"))
    with pytest.raises(InvalidInput, match="ask with an epsilon"):
        preview_question(declared_schema, "SELECT MEDIAN(age) FROM people", build_query_options(noise_scale=5))


def test_a_distance_asks_for_refinement(previewed_custodian: Custodian) -> None:
    """Protocol 2's own distance, for totals as for the rest; the draw is one of the prior's values."""
    preview = previewed_custodian.preview(COUNT, 0.5, prior="normal(200, 10)", distance="continuous")
    assert preview.mechanism == "refinement of your prior"
    answer = previewed_custodian.answer(COUNT, 0.5, prior=Prior.weights({190: 1, 210: 1}), distance="nominal")
    assert answer.value in (190, 210)
    assert answer.shaped
    assert answer.posterior is not None
    assert answer.headline == pytest.approx(answer.posterior.mean())
    with pytest.raises(Unsupported, match="one by one"):
        previewed_custodian.preview(
            "SELECT sex, COUNT(*) FROM people GROUP BY sex", 0.5, prior="normal(200, 10)", distance="nominal"
        )


@pytest.mark.parametrize("options", [{"accuracy": "±60 at 95%"}, {"noise_scale": 30}, {"epsilon": 0.1}])
def test_a_stored_answer_serves_however_it_is_asked_for(
    previewed_custodian: Custodian, options: dict[str, object]
) -> None:
    """Free to who paid for it; another analyst pays for it as it is by consent; the previews say so."""
    first = previewed_custodian.answer(COUNT, 1)
    preview = previewed_custodian.preview(COUNT, prior="normal(200, 9)", **options)  # type: ignore[arg-type]
    assert (preview.stored, preview.cost.epsilon) == (1, 0)
    second = previewed_custodian.answer(COUNT, prior="normal(200, 9)", **options)  # type: ignore[arg-type]
    assert second.stored
    assert (second.value, second.guarantee) == (first.value, first.guarantee)
    assert second.posterior is not None
    other = previewed_custodian.preview(COUNT, analyst="bob", reuse="any", **options)  # type: ignore[arg-type]
    assert (other.stored, other.reuse, other.cost.epsilon) == (None, "shared", 1)
    assert previewed_custodian.answer(COUNT, analyst="bob", reuse="any", **options).cost.epsilon == 1  # type: ignore[arg-type]
    least = previewed_custodian.preview(COUNT, analyst="cat", **options)  # type: ignore[arg-type]
    assert (least.stored, least.reuse) == (None, "degraded")
    assert previewed_custodian.answer(COUNT, analyst="cat", **options).cost == least.cost != other.cost  # type: ignore[arg-type]


def test_an_accuracy_that_is_stored_needs_no_budget(previewed_custodian: Custodian) -> None:
    first = previewed_custodian.answer(COUNT, 1.99)
    assert previewed_custodian.answer(COUNT, accuracy="±3 at 95%").value == first.value
    with pytest.raises(BudgetExceeded, match=r"0\.01 that is left; ±"):
        previewed_custodian.answer("SELECT COUNT(*) FROM people WHERE sex = 'M'", accuracy="±3 at 95%")
    previewed_custodian.answer("SELECT COUNT(*) FROM people WHERE sex = 'M'", 0.01)
    with pytest.raises(BudgetExceeded, match="±3 at 95% cannot be reached: nothing is left of the budget"):
        previewed_custodian.answer("SELECT COUNT(*) FROM people WHERE age > 3", accuracy="±3 at 95%")


def test_an_accuracy_that_no_epsilon_reaches_is_refused_with_what_is_left(previewed_custodian: Custodian) -> None:
    """A search for a stored answer must not replace what is left by the largest epsilon there is."""
    previewed_custodian.answer(COUNT, 1.99)
    options: dict[str, Any] = {"accuracy": "±0.001 at 95%", "rows": 1}
    says = (
        r"^no epsilon reaches ±0\.001 at 95% from 1 row; ±.* at 95% is what the epsilon of 0\.01 that is left can rea"
    )
    for ask in (previewed_custodian.preview, previewed_custodian.answer):
        with pytest.raises(BudgetExceeded, match=says):
            ask("SELECT AVG(age) FROM people WHERE sex = 'M'", **options)


def test_a_stored_mean_is_read_by_the_mechanism_that_drew_it(previewed_custodian: Custodian) -> None:
    """Another prior, more rows expected, a smaller epsilon: the plan would be weighed anew, the draw is not."""
    first = previewed_custodian.answer(MEAN, 1, rows=200)
    second = previewed_custodian.answer(MEAN, 0.5, prior="normal(50, 2)", rows=300)
    assert second.stored
    assert (second.mechanism, second.guarantee, second.value) == (first.mechanism, first.guarantee, first.value)


def test_an_interval_of_a_median(previewed_custodian: Custodian) -> None:
    answer = previewed_custodian.answer("SELECT MEDIAN(age) FROM people", 2, interval=True)
    low, high = answer.interval()  # type: ignore[misc]
    assert low <= float(answer.value) <= high  # type: ignore[arg-type]
    assert answer.interval(0.99) is None
    assert answer.cost.epsilon == 2


@pytest.mark.parametrize("relation", ["add-remove", "replace-one"])
@pytest.mark.parametrize("text", ["SUM(score) FROM t", "MAX(score) FROM t", "AVG(score) FROM t WHERE age > 0"])
def test_a_refinement_the_planner_makes_keeps_epsilon_exactly(relation: str, text: str) -> None:
    """With the factor chosen for what was stated: every two truths' laws are within e^epsilon, as fractions."""
    declared_schema = schema(relation, 1, units=4)
    prior = Prior.weights({0: 1, 1: 5, 2: 3, 3: 1})
    query_plan = plan(
        declared_schema, parse_sql(f"SELECT {text}", declared_schema), 1, prior=prior, distance="continuous"
    )
    measurement = query_plan.measurements[0]
    refinement = (
        measurement.refinement
        if isinstance(measurement, RefinedTotal)
        else measurement.mechanism.position_refinement.refinement  # type: ignore[union-attr]
    )
    laws = [refinement.distribution(truth) for truth in refinement.prior.support]
    worst = max(worst_ratio(first, second) or 10**9 for first in laws for second in laws)
    assert 2 < worst <= exp_above(Fraction(1))


@pytest.mark.parametrize(
    ("question", "prior", "message"),
    [
        (COUNT, None, "of the raw answer"),
        (COUNT, "normal(200, 10)", "of what you will know: your prior and the answer together"),
        ("SELECT MODE(sex) FROM people", '{"F": 1, "M": 2}', ""),
        ("SELECT HISTOGRAM(age, 32) FROM people", None, "of a range, on average over all ranges"),
    ],
)
def test_a_preview_says_what_its_error_is_of(
    declared_schema: Schema, question: str, prior: str | None, message: str
) -> None:
    """Nothing where no error is known beforehand."""
    preview = preview_question(declared_schema, question, build_query_options(1, prior=prior))
    assert preview.error_of == message
    assert bool(preview.expected_error) == bool(message)
