"""Counts, means and proportions of a noisy sample, told for the population it was drawn from."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

from discreet import Custodian, InvalidInput, Unsupported
from discreet.answers.decode import Decoder
from discreet.answers.population_estimates import (
    NoisySample,
    SampleEstimator,
    SamplingDistribution,
    build_binomial,
    build_hypergeometric,
    compute_noiseless_tail,
    compute_poisson,
    estimate_population,
)
from discreet.measurements.additive import AdditiveNoise
from discreet.planner.plan import NoisyResult, Plan
from discreet.planner.planner import plan
from discreet.query import parse_sql
from discreet.schema import Column, Schema
from support.command_line import run_discreet
from support.fixed_streams import Stream
from support.small_tables import schema

COLUMNS = (
    Column("smoker", "boolean", lower=0, upper=1, categories=("false", "true"), missing=0),
    Column("days", "integer", lower=0, upper=100, missing=0),
)
Samples = Sequence[Sequence[int]]


def declare_smokers(units: int | None, rows: int = 1) -> Schema:
    """A table with a truth value and a number; the number of units is public where it is given."""
    relation = "add-remove" if units is None else "replace-one"
    plain_schema = schema(relation, rows, units or 0)
    return replace(plain_schema, columns={column.name: column for column in COLUMNS})


def plan_estimate(question: str, units: int | None, epsilon: object) -> Plan:
    declared_schema = declare_smokers(units)
    return plan(declared_schema, parse_sql(question, declared_schema), epsilon)


def sample_results(query_plan: Plan, samples: Samples, seed: int) -> list[NoisyResult]:
    """What the noise makes of each sample of codes; a count is of the true ones."""
    entropy, parts = Stream(seed), []
    for measurement in query_plan.measurements:
        assert isinstance(measurement, AdditiveNoise)
        noises = measurement.noise.sample_units(len(samples), entropy)
        inputs = measurement.compute_inputs(
            [
                tuple(_sum_measure(measure.what, sample) for measure in measurement.linear_query.measures)
                for sample in samples
            ]
        )
        parts.append(
            [tuple(int(x + n) for x, n in zip(*pair, strict=True)) for pair in zip(inputs, noises, strict=True)]
        )
    return [NoisyResult(((),), (tuple(row),)) for row in zip(*parts, strict=True)]


def _sum_measure(what: str, sample: Sequence[int]) -> int:
    if what == "squares":
        return sum(x * x for x in sample)
    return {"rows": sum, "present": len, "sum": sum}[what](sample)


def measure_coverage(
    question: str,
    truth: float,
    samples: Samples,
    epsilon: object,
    units: int | None,
    size: int | None = None,
    seed: int = 1,
) -> float:
    """How often the 95 % interval of the first number holds the truth."""
    query_plan = plan_estimate(question, units, epsilon)
    sample, first = SampleEstimator(Decoder(query_plan), 0.95, size), query_plan.query.presentation.outputs[0]

    @cache
    def estimate_interval(numbers: tuple[tuple[int, ...], ...]) -> tuple[float, float]:
        return sample.estimate_number(first.label, first.aggregate or 0, numbers).interval

    spans = [estimate_interval(result.numbers[0]) for result in sample_results(query_plan, samples, seed)]
    return sum(low <= truth <= high for low, high in spans) / len(spans)


def draw_truth_values(n: int, p: float, runs: int, seed: int) -> list[list[int]]:
    """Samples of truth values from an endless population."""
    chance = random.Random(seed)
    return [[int(chance.random() < p) for _ in range(n)] for _ in range(runs)]


def draw_without_replacement(population: Sequence[int], n: int, runs: int, seed: int) -> list[list[int]]:
    """Samples without replacement."""
    chance = random.Random(seed)
    return [chance.sample(population, n) for _ in range(runs)]


def draw_skewed_days(count: int, seed: int) -> list[int]:
    """Days in hospital, most of them few."""
    chance = random.Random(seed)
    return [min(int(chance.expovariate(1 / 8)), 100) for _ in range(count)]


RUNS = 2000
RUN_COUNTS = pytest.mark.parametrize("runs", [1000, pytest.param(RUNS, marks=pytest.mark.soak)])
MIN_COVERAGE = 0.938
"""Of sets of 2,000 draws at exactly 95 % seven in a thousand fall below it, of 1,000 four in a hundred; the draws are
seeded. Of 1,000 at 91.5 % four in a thousand do not."""
COUNT = "SELECT COUNT(*) FROM t WHERE smoker"
PROPORTION = "SELECT AVG(smoker) FROM t"
CASES = [(50, 0.02, 0.1), (50, 0.3, 1), (400, 0.02, 1), (400, 0.3, 0.1)]


@pytest.mark.parametrize(("n", "p", "epsilon"), CASES)
@RUN_COUNTS
def test_intervals_of_counts_hold_the_expected_count(n: int, p: float, epsilon: float, runs: int) -> None:
    """With a public number of units, of an endless and a finite population; and without, where counts are Poisson."""
    endless = draw_truth_values(n, p, runs, 1)
    finite = draw_without_replacement([1] * round(2 * n * p) + [0] * (2 * n - round(2 * n * p)), n, runs, 2)
    assert measure_coverage(COUNT, n * p, endless, epsilon, n) >= MIN_COVERAGE
    assert measure_coverage(COUNT, round(2 * n * p), finite, epsilon, n, 2 * n) >= MIN_COVERAGE
    assert measure_coverage(COUNT, n * p, endless, epsilon, None) >= MIN_COVERAGE


@pytest.mark.parametrize(("n", "p", "epsilon"), CASES)
@RUN_COUNTS
def test_intervals_of_proportions_hold_the_proportion(n: int, p: float, epsilon: float, runs: int) -> None:
    endless = draw_truth_values(n, p, runs, 3)
    finite = draw_without_replacement([1] * round(2 * n * p) + [0] * (2 * n - round(2 * n * p)), n, runs, 4)
    assert measure_coverage(PROPORTION, p, endless, epsilon, n) >= MIN_COVERAGE
    assert measure_coverage(PROPORTION, p, finite, epsilon, n, 2 * n) >= MIN_COVERAGE
    assert measure_coverage(PROPORTION, p, endless, epsilon, None) >= MIN_COVERAGE


MEANS = [("SELECT AVG(days) FROM t", 60, 2), ("SELECT AVG(days), VAR(days) FROM t", 400, 4)]


def assert_means_hold(question: str, n: int, epsilon: float, runs: int, least: float) -> None:
    """Of a skewed number between bounds; public and private numbers of rows, and a finite population."""
    population = draw_skewed_days(2 * n, 5)
    mean = sum(population) / len(population)
    chance = random.Random(6)
    endless = [[chance.choice(population) for _ in range(n)] for _ in range(runs)]
    assert measure_coverage(question, mean, endless, epsilon, n) >= least
    assert measure_coverage(question, mean, endless, epsilon, None) >= least
    assert (
        measure_coverage(question, mean, draw_without_replacement(population, n, runs, 7), epsilon, n, 2 * n) >= least
    )


@pytest.mark.parametrize(("question", "n", "epsilon"), MEANS)
def test_intervals_of_means_hold_the_mean(question: str, n: int, epsilon: float) -> None:
    assert_means_hold(question, n, epsilon, 150, 0.91)


@pytest.mark.soak
@pytest.mark.parametrize(("question", "n", "epsilon"), MEANS)
def test_intervals_of_means_hold_the_mean_in_many_draws(question: str, n: int, epsilon: float) -> None:
    assert_means_hold(question, n, epsilon, RUNS, MIN_COVERAGE)


def test_both_parts_are_needed() -> None:
    """The trap itself: noise alone, or sampling alone, does not hold the expected count."""
    query_plan = plan_estimate(COUNT, 400, 0.05)
    sample, hits = SampleEstimator(Decoder(query_plan), 0.95, None), [0, 0]
    for result in sample_results(query_plan, draw_truth_values(400, 0.3, 400, 8), 9):
        estimate = sample.estimate_number("COUNT(*)", 0, result.numbers[0])
        for index, reach in enumerate((estimate.noise, estimate.sampling)):
            hits[index] += abs(estimate.value - 120) <= reach
    assert hits[0] / 400 < 0.94
    assert hits[1] / 400 < 0.6


def test_without_noise_the_intervals_are_those_of_the_books() -> None:
    """Clopper and Pearson's of a share, Garwood's of a count, and of a finite one by trying every part of it."""
    from scipy import stats

    for n, k in ((10, 0), (50, 3), (1000, 400), (10**6, 20)):
        low, high = compute_interval(k / n, build_binomial(n), 1.0)
        assert low == pytest.approx(stats.beta.ppf(0.025, k, n - k + 1) if k else 0, rel=1e-3, abs=1e-12)
        assert high == pytest.approx(stats.beta.ppf(0.975, k + 1, n - k), rel=1e-3)
    for k in (0, 1, 5, 100):
        low, high = compute_interval(k, compute_poisson, float("inf"))
        assert low == pytest.approx(stats.chi2.ppf(0.025, 2 * k) / 2 if k else 0, rel=3e-3, abs=1e-12)
        assert high == pytest.approx(stats.chi2.ppf(0.975, 2 * k + 2) / 2, rel=1e-3)
    for n, size, k in ((10, 20, 3), (100, 1000, 0), (100, 100, 30)):
        covered_counts = [
            part
            for part in range(size + 1)
            if min(stats.hypergeom.sf(k - 1, size, part, n), stats.hypergeom.cdf(k, size, part, n)) > 0.025
        ]
        low, high = (size * end for end in compute_interval(k / n, build_hypergeometric(n, size), 1.0))
        assert (low, high) == pytest.approx((max(covered_counts[0] - 0.5, 0), covered_counts[-1] + 0.5), abs=0.01)


def compute_interval(value: float, distribution: SamplingDistribution, largest_error: float) -> tuple[float, float]:
    return NoisySample(value, distribution, compute_noiseless_tail, (0.0, largest_error), 0.1).interval(0.95)


def test_a_whole_population_is_moved_by_noise_alone() -> None:
    query_plan = plan_estimate(COUNT, 400, 1)
    estimate = estimate_population(Decoder(query_plan), NoisyResult(((),), (((120,),),)), (0,), 0.95, 400)[0][
        "COUNT(*)"
    ]
    assert estimate.noise == 3
    assert estimate.sampling < 0.6
    assert estimate.interval == pytest.approx((116.5, 123.5), abs=0.01)


SMOKERS_SCHEMA = """
name: people
source: people.csv
{who}
budget: {{epsilon: 50, delta: 1e-5}}
analyst_budget: {{epsilon: 50, delta: 1e-5}}
models: [dp, approx-dp]
columns:
  age: {{kind: integer, lower: 0, upper: 99, missing: 0}}
  smoker: {{kind: boolean}}
  town: {{kind: nominal, keys: private}}
"""
PUBLIC_UNITS = "neighbours: replace-one\nunits: 400"


def write_smokers(folder: Path, who: str = PUBLIC_UNITS) -> Path:
    rows = (
        f"p{n // 2},{n % 100},{'true' if n % 4 == 0 else 'false'},{'Oslo' if n % 2 else 'Rome'}" for n in range(400)
    )
    (folder / "people.csv").write_text("\n".join(("id,age,smoker,town", *rows)) + "\n")
    (folder / "people.yaml").write_text(SMOKERS_SCHEMA.format(who=who))
    return folder / "people.yaml"


@pytest.fixture
def smokers_custodian(tmp_path: Path) -> Iterator[Custodian]:
    with Custodian.open(write_smokers(tmp_path)) as custodian:
        yield custodian


def test_a_mean_of_truth_values_is_their_proportion(smokers_custodian: Custodian) -> None:
    """With HAVING, a prior between 0 and 1, and bounds of 0 and 1."""
    answer = smokers_custodian.answer("SELECT AVG(smoker) FROM people", epsilon=10)
    assert answer.value == pytest.approx(0.25, abs=0.05)
    filtered_answer = smokers_custodian.answer("SELECT AVG(smoker) FROM people HAVING AVG(smoker) > 0.9", epsilon=1)
    assert filtered_answer.rows == ()
    posterior = smokers_custodian.answer(
        "SELECT AVG(smoker) FROM people", epsilon=1, prior="normal(0.3, 0.1) on [0, 1]"
    ).posterior
    assert posterior is not None
    assert 0.1 < posterior.mean() < 0.4
    with pytest.raises(InvalidInput, match="SUM takes a column of numbers, and smoker is boolean"):
        smokers_custodian.answer("SELECT SUM(smoker) FROM people", epsilon=1)


def test_an_answer_speaks_for_the_population(smokers_custodian: Custodian) -> None:
    """Both parts are named, medians are left out, a count of all is exact, and nothing is paid."""
    question = "SELECT COUNT(*), COUNT(smoker) AS told, AVG(age), MEDIAN(age) FROM people"
    answer = smokers_custodian.answer(question, epsilon=4)
    before = smokers_custodian.budget()
    (row,) = answer.population()
    assert list(row) == ["COUNT(*)", "told", "AVG(age)"]
    assert (row["COUNT(*)"].interval, row["COUNT(*)"].noise) == ((400, 400), 0)
    assert answer.population(size=1000)[0]["COUNT(*)"].value == 1000
    mean = row["AVG(age)"]
    assert mean.interval[0] < mean.value < mean.interval[1]
    half, step = (mean.interval[1] - mean.interval[0]) / 2, 100 / 400
    # Without noise a share moves in steps, which an interval allows for; noise smooths them.
    assert max(mean.noise, mean.sampling - step) < half < mean.noise + mean.sampling + 1
    assert mean.words == (
        "the mean in the population; the units are taken as a simple random sample; "
        "their variance is taken as the largest that mean and bounds allow"
    )
    narrow, wide = answer.population(0.5)[0]["AVG(age)"], answer.population(0.999)[0]["AVG(age)"]
    assert wide.interval[0] < narrow.interval[0] < narrow.interval[1] < wide.interval[1]
    assert smokers_custodian.budget() == before


def test_a_variance_beside_a_mean_narrows_it() -> None:
    """By what it tells, less what a sample may hide."""
    ages = [40 + index % 21 for index in range(5000)]
    widths = []
    for question in ("SELECT AVG(days), VAR(days) FROM t", "SELECT AVG(days) FROM t"):
        query_plan = plan_estimate(question, len(ages), 20)
        (row,) = estimate_population(Decoder(query_plan), sample_results(query_plan, [ages], 3)[0], (0,), 0.95, None)
        widths.append(row["AVG(days)"])
    assert widths[0].sampling < widths[1].sampling / 2
    assert widths[0].words.endswith(
        "their variance is taken as the most that was told, and what a sample may hide of it"
    )


def test_a_few_large_values_do_not_fool_a_variance() -> None:
    """Most samples have none of the values that make the mean, and then a variance near 0: the interval still holds."""
    chance, units = random.Random(8), 100
    samples = [[60 if chance.random() < 0.01 else 10 for _ in range(units)] for _ in range(150)]
    assert measure_coverage("SELECT AVG(days), VAR(days) FROM t", 10.5, samples, 20, units, seed=9) > 0.93


def test_keys_that_are_private_and_groups_speak_for_the_population_too(smokers_custodian: Custodian) -> None:
    population = smokers_custodian.answer(
        "SELECT town, COUNT(*) FROM people GROUP BY town", epsilon=2, delta=1e-6
    ).population()
    assert all(row["COUNT(*)"].interval[0] < 200 < row["COUNT(*)"].interval[1] for row in population)
    groups = smokers_custodian.answer("SELECT smoker, COUNT(*), AVG(age) FROM people GROUP BY smoker", epsilon=2)
    assert [list(row) for row in groups.population()] == [["COUNT(*)", "AVG(age)"]] * 3


@pytest.mark.parametrize(
    ("question", "options", "message"),
    [
        ("SELECT MEDIAN(age) FROM people", {}, "is of COUNT, of AVG and of proportions"),
        ("SELECT COUNT(*) FROM people WHERE smoker", {"size": 399}, "at least the 400 units of people; got 399"),
        ("SELECT COUNT(*) FROM people WHERE smoker", {"size": 1e3 + 0.5}, "size of the population must be a whole"),
        ("SELECT COUNT(*) FROM people WHERE smoker", {"size": "many"}, "size of the population must be a number"),
        ("SELECT COUNT(*) FROM people WHERE smoker", {"confidence": 1}, "confidence must be between 0 and 1"),
    ],
)
def test_what_makes_no_sense_is_refused(
    smokers_custodian: Custodian, question: str, options: dict[str, object], message: str
) -> None:
    answer = smokers_custodian.answer(question, epsilon=1)
    with pytest.raises(InvalidInput, match=message):
        answer.population(**options)  # type: ignore[arg-type]


def test_rows_of_one_unit_are_no_sample(tmp_path: Path) -> None:
    """Units are drawn, so only they are told for a population where each may have several rows."""
    who = "neighbours: add-remove\nunit: {column: id, rows: 2}"
    with Custodian.open(write_smokers(tmp_path, who)) as custodian:
        with pytest.raises(Unsupported, match=r"AVG\(age\) has no interval for it; ask for COUNT\(DISTINCT id\) alone"):
            custodian.answer("SELECT AVG(age) FROM people", epsilon=1).population()
        units = custodian.answer("SELECT COUNT(DISTINCT id) FROM people", epsilon=1)
        (row,) = units.population()
        assert row["COUNT(DISTINCT id)"].sampling == pytest.approx(28, abs=3)
        with pytest.raises(InvalidInput, match="of use where the number of units is public"):
            units.population(size=1000)


def test_the_command_shows_both_parts(tmp_path: Path) -> None:
    """One line for one number, a table for groups, JSON only on request; refusals come before any charge."""
    schema_path = str(write_smokers(tmp_path))
    words = ["ask", schema_path, "SELECT AVG(smoker) FROM people", "--epsilon", "1"]
    output = run_discreet(*words, "--population").out
    assert "for the population: 0." in output
    assert "sampling ±0.0" in output
    assert "population" not in json.loads(run_discreet(*words, "--json").out)
    estimate = json.loads(run_discreet(*words, "--json", "--population").out)["population"][0]["AVG(smoker)"]
    assert set(estimate) == {"value", "interval", "confidence", "noise", "sampling", "words"}
    groups = "SELECT smoker, COUNT(*) FROM people GROUP BY smoker"
    table = run_discreet("ask", schema_path, groups, "--epsilon", "1", "--population-size", "5000").out
    assert "the count in the population of 5,000" in table
    refusal = run_discreet("ask", schema_path, "SELECT MEDIAN(age) FROM people", "--epsilon", "1", "--population")
    assert refusal.code == 2
    assert "not of a HISTOGRAM or ROLLUP" in refusal.err
    assert run_discreet("ask", schema_path, groups, "--epsilon", "1", "--population-size", "12").code == 2
    assert "MEDIAN" not in run_discreet("history", schema_path).out
