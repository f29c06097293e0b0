"""HISTOGRAM and ROLLUP in the query path: what they cost on neighbours, what they tell, and how often it is true."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from datetime import date
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from discreet import Answer, Custodian, InvalidInput, Unsupported
from discreet.answers.decode import parse_result, serialize_result
from discreet.answers.explain import build_answer
from discreet.answers.hierarchical_answer import HierarchicalCounts
from discreet.custodian import measure
from discreet.measurements.hierarchical import HierarchicalHistogram
from discreet.planner.plan import NoisyResult, Plan
from discreet.planner.planner import plan
from discreet.query import parse_sql
from discreet.schema import Schema
from discreet.sources.memory import MemorySource
from support.command_line import run_discreet, run_successfully
from support.small_tables import Units, neighbours_of, random_unit, rows_of, schema

QUESTIONS = [
    "SELECT HISTOGRAM(age, 8) FROM t",
    "SELECT HISTOGRAM(score, 13) FROM t WHERE sex = 'F'",
    "SELECT HISTOGRAM(day, 3) FROM t",
    "SELECT sex, COUNT(*) FROM t GROUP BY ROLLUP (sex)",
    "SELECT grade, sex, COUNT(*) FROM t GROUP BY ROLLUP (grade, sex)",
    "SELECT sex, BIN(age, 3) AS band, COUNT(score) FROM t WHERE smoker GROUP BY ROLLUP (sex, band)",
    "SELECT smoker, grade, day, COUNT(age) FROM t GROUP BY ROLLUP (smoker, grade, day)",
]
RELATIONS = [("add-remove", 1), ("add-remove", 3), ("replace-one", 1), ("replace-one", 2)]


def plan_hierarchy(declared_schema: Schema, text: str, delta: object = None) -> Plan:
    return plan(declared_schema, parse_sql(text, declared_schema), 1, delta=delta)


def get_measurement(query_plan: Plan) -> HierarchicalHistogram:
    (measurement,) = query_plan.measurements
    assert isinstance(measurement, HierarchicalHistogram)
    return measurement


def read_level_inputs(query_plan: Plan, declared_schema: Schema, people: Units) -> list[np.ndarray]:
    """The exact inputs of every level."""
    secret = measure.read_exact_inputs(
        query_plan, MemorySource(declared_schema, rows_of(people)), query_plan.list_cells(), query_plan.query.where
    )
    return [
        level for level in get_measurement(query_plan).hierarchy.split_levels(secret.inputs[0]) if level is not None
    ]  # type: ignore[arg-type]


def compute_level_loss(query_plan: Plan, first: list[np.ndarray], second: list[np.ndarray]) -> Fraction:
    """What the noise loses between two tables, by its own account; of Gaussian noise as a share of rho."""
    noises = [level.noise for level in get_measurement(query_plan).hierarchy.levels if level.noise is not None]
    total = Fraction(0)
    for noise, x, y in zip(noises, first, second, strict=True):
        moved = [int(abs(d)) for d in x - y if d]
        if query_plan.cost.gaussian_rho and not query_plan.cost.epsilon:
            variance = Fraction(noise.square)  # type: ignore[attr-defined]
            total += Fraction(sum(d * d for d in moved)) / (2 * variance) / query_plan.cost.gaussian_rho
        else:
            total += sum((noise.guarantee(d, "add-remove").epsilon or Fraction(0) for d in moved), Fraction(0))
    return total


@pytest.mark.parametrize("delta", [None, Fraction(1, 10**6)])
@pytest.mark.parametrize(("relation", "rows"), RELATIONS)
def test_neighbours_lose_at_most_epsilon(relation: str, rows: int, delta: Fraction | None) -> None:
    """Replayed on neighbours, all levels together; and the bound is reached, or nearly."""
    chance = random.Random(f"{relation} {rows}")
    declared_schema = schema(relation, rows, units=5)
    worst = {}
    for text in QUESTIONS:
        query_plan = plan_hierarchy(declared_schema, text, delta)
        for _ in range(60):
            people = {f"p{number}": random_unit(chance, rows) for number in range(5)}
            tables = people, neighbours_of(people, relation, rows, chance)
            loss = compute_level_loss(
                query_plan, *(read_level_inputs(query_plan, declared_schema, table) for table in tables)
            )
            worst[text] = max(worst.get(text, loss), loss)
    assert max(worst.values()) <= 1, worst
    assert max(worst.values()) > Fraction(99, 100), worst
    assert min(worst.values()) > Fraction(2, 5), worst


def test_shares_add_up_to_all_there_is() -> None:
    declared_schema = schema("add-remove", 1, units=5)
    for text in QUESTIONS:
        assert (
            sum(level.share for level in get_measurement(plan_hierarchy(declared_schema, text)).hierarchy.levels) == 1
        )


def test_what_is_asked_is_chosen_by_expected_error() -> None:
    """Few cells are measured alone; many as a tree; the wavelet is told beside them."""
    few = plan_hierarchy(schema("add-remove", 1, units=5), QUESTIONS[0])
    assert len(get_measurement(few).hierarchy.levels) == 1
    declared_schema = schema("add-remove", 1, units=5, columns=build_wide_column(1024))
    many = plan_hierarchy(declared_schema, "SELECT HISTOGRAM(wide, 1024) FROM t")
    assert len(get_measurement(many).hierarchy.levels) > 1
    names = [candidate.mechanism for candidate in many.candidates]
    assert len(names) == 3
    errors = {candidate.mechanism: candidate.expected_error for candidate in many.candidates}
    assert many.expected_error == min(error for error in errors.values() if error is not None)
    assert many.expected_error is not None
    assert max(error or 0 for error in errors.values()) > 2 * many.expected_error


def build_wide_column(size: int) -> dict[str, object]:
    from discreet.schema import Column

    return {"wide": Column("wide", "integer", lower=0, upper=size - 1, missing=0)}


def answer_counts(query_plan: Plan, counts: list[int]) -> Answer:
    """The answer to a plan of one key, for these exact counts."""
    measurement = get_measurement(query_plan)
    secret = measure.ExactInputs(query_plan.list_cells(), [measurement.hierarchy.count_blocks(counts)])
    released = measure.sample_noisy_outputs(query_plan, secret)
    return build_answer(query_plan, released, "", Fraction(1), 1, {})


@pytest.mark.parametrize("epsilon", [Fraction(1, 10), Fraction(1), Fraction(6)])
@pytest.mark.parametrize("bins", [16, 256])
def test_intervals_of_ranges_and_cells_hold(epsilon: Fraction, bins: int) -> None:
    """Of all ranges, of every cell, at 95 % and, so that its tail is tried too, at 99 %.

    Where one range is missed others are too, since they share their noise: shares are off by some 0.005. What is
    allowed is five deviations or more below what is so; an interval of 90 % would be twice as far off.
    """
    declared_schema, chance = (
        schema("add-remove", 1, units=5, columns=build_wide_column(bins)),
        random.Random(f"{epsilon} {bins}"),
    )
    query_plan = plan(declared_schema, parse_sql(f"SELECT HISTOGRAM(wide, {bins}) FROM t", declared_schema), epsilon)
    counts = [chance.randrange(200) for _ in range(bins)]
    hits = {0.95: 0, 0.99: 0}
    cells, runs, ranges = 0, *{16: (400, 5), 256: (150, 10)}[bins]
    for _ in range(runs):
        answer = answer_counts(query_plan, counts)
        spans = [next(iter(span.values())) for span in answer.intervals(0.95)]
        cells += sum(low <= count <= high for count, (low, high) in zip(counts, spans, strict=True))
        for _ in range(ranges):
            first, last = sorted((chance.randrange(bins), chance.randrange(bins)))
            truth = sum(counts[first : last + 1])
            for confidence in hits:
                low, high = answer.range(first, last, confidence).interval
                hits[confidence] += low <= truth <= high
    assert cells / (runs * bins) >= 0.935
    assert hits[0.95] / (runs * ranges) >= 0.925
    assert hits[0.99] / (runs * ranges) >= 0.975
    if epsilon == Fraction(1, 10):
        assert cells / (runs * bins) <= 0.975


def test_the_reconciled_counts_are_whole_and_add_up() -> None:
    """None is below 0, and of sparse cells they are far nearer the truth than the raw ones."""
    declared_schema = schema("add-remove", 1, units=5, columns=build_wide_column(256))
    query_plan = plan(
        declared_schema, parse_sql("SELECT HISTOGRAM(wide, 256) FROM t", declared_schema), Fraction(1, 10)
    )
    counts = [300 if index % 32 == 0 else 0 for index in range(256)]
    raw = refined = 0.0
    for _ in range(10):
        answer = answer_counts(query_plan, counts)
        assert answer.reconciled is not None
        whole = [row["COUNT(*)"] for row in answer.reconciled.rows]
        assert all(isinstance(count, int) and count >= 0 for count in whole)
        raw += sum((float(row["COUNT(*)"]) - count) ** 2 for row, count in zip(answer.rows, counts, strict=True))  # type: ignore[arg-type]
        refined += sum((int(count) - true) ** 2 for count, true in zip(whole, counts, strict=True))  # type: ignore[arg-type]
    assert refined < raw / 2


@pytest.fixture
def wards_custodian(tmp_path: Path) -> Iterator[Custodian]:
    """1,200 rows, 40 with no age, under replace-one with a public number of units."""
    chance = random.Random(5)
    lines = ["id,age,sex,ward,seen"]
    for number in range(1200):
        age = "" if number % 30 == 0 else str(chance.randrange(64))
        day = date(2024, 1, 1 + number % 28).isoformat()
        lines.append(f"p{number},{age},{'FM'[number % 2]},{'abc'[number % 3]},{day}")
    (tmp_path / "t.csv").write_text("\n".join(lines) + "\n")
    (tmp_path / "t.yaml").write_text(
        "name: t\nsource: t.csv\nneighbours: replace-one\nunits: 1200\nunit: {column: id, rows: 1}\n"
        "budget: {epsilon: 1000}\nanalyst_budget: {epsilon: 1000}\ncolumns:\n"
        "  age: {kind: integer, lower: 0, upper: 63}\n  sex: {kind: nominal, categories: [F, M]}\n"
        "  ward: {kind: nominal, categories: [a, b, c], missing: a}\n"
        "  seen: {kind: date, lower: 2024-01-01, upper: 2024-01-28, missing: 2024-01-01}\n"
    )
    with Custodian.open(tmp_path / "t.yaml") as custodian:
        yield custodian


ROLLUP = "SELECT ward, sex, COUNT(*) FROM t GROUP BY ROLLUP (ward, sex)"


def test_a_rollup_tells_every_total_before_its_parts(wards_custodian: Custodian) -> None:
    """Consistent: parts add up to their total, all of them to the public number of units, in both columns."""
    answer = wards_custodian.answer(ROLLUP, epsilon=1)
    keys = [(row["ward"], row["sex"]) for row in answer.rows]
    assert keys[:4] == [("(all)", "(all)"), ("a", "(all)"), ("a", "F"), ("a", "M")]
    assert answer.reconciled is not None
    for rows in (answer.rows, answer.reconciled.rows):
        counts = {(row["ward"], row["sex"]): float(row["COUNT(*)"]) for row in rows}  # type: ignore[arg-type]
        assert counts["(all)", "(all)"] == 1200
        for ward in "abc":
            parts = sum(count for (key, sex), count in counts.items() if key == ward and sex != "(all)")
            assert counts[ward, "(all)"] == pytest.approx(parts, abs=0.05)
    assert answer.intervals(0.95)[0]["COUNT(*)"] == (1200, 1200)
    assert "the public number of units, 1,200" in " ".join(answer.reconciled.because)


def test_the_stored_answer_says_the_same(wards_custodian: Custodian) -> None:
    """Rows, intervals, ranges and what is reconciled; it is found again and costs nothing."""
    for text in (ROLLUP, "SELECT HISTOGRAM(age, 64) FROM t"):
        one, two = (wards_custodian.answer(text, epsilon=1) for _ in range(2))
        assert two.stored
        assert one.to_json() | {"stored": 0, "cost": 0, "spent_so_far": 0} == two.to_json() | {
            "stored": 0,
            "cost": 0,
            "spent_so_far": 0,
        }
    assert one.range(3, 40) == two.range(3, 40)
    cheaper = wards_custodian.answer("SELECT HISTOGRAM(age, 64) FROM t", epsilon=Fraction(1, 3))
    assert cheaper.stored
    assert cheaper.rows == one.rows


def test_draws_survive_being_stored() -> None:
    declared_schema = schema("add-remove", 1, units=5, columns=build_wide_column(100))
    query_plan = plan(declared_schema, parse_sql("SELECT HISTOGRAM(wide, 100) FROM t", declared_schema), 1)
    measurement = get_measurement(query_plan)
    released = measure.sample_noisy_outputs(
        query_plan, measure.ExactInputs(query_plan.list_cells(), [measurement.hierarchy.count_blocks(list(range(100)))])
    )
    assert parse_result(serialize_result(query_plan, released))[2] == NoisyResult(released.cells, released.numbers)


def test_ranges_are_of_whole_bins_and_values_of_the_column(wards_custodian: Custodian) -> None:
    """The range told is the one counted; ends beyond the bounds are the bounds; dates are dates."""
    answer = wards_custodian.answer("SELECT HISTOGRAM(age, 16) FROM t", epsilon=100)
    range_answer = answer.range(5, 17.5)
    assert (range_answer.low, range_answer.high) == (4, 19)
    assert answer.range(-100, 10**6).value == pytest.approx(1160, abs=5)
    assert range_answer.interval[0] <= range_answer.value <= range_answer.interval[1]
    days = wards_custodian.answer("SELECT HISTOGRAM(seen, 28) FROM t", epsilon=100)
    assert days.range(date(2024, 1, 1), "2024-01-07").value == pytest.approx(303, abs=8)
    assert days.range("2024-01-03", "2024-01-03").low == date(2024, 1, 3)
    assert wards_custodian.answer(
        "SELECT HISTOGRAM(age, 16) FROM t", prior="normal(80, 20) on [0, 1200]", epsilon=50
    ).range(0, 63)


@pytest.mark.parametrize("ends", [(10, 5), ("x", 5), (None, 5), (math.nan, 5), ("2024-01-01", 5), (2, 1), (900, 800)])
def test_ranges_that_are_none_are_refused(wards_custodian: Custodian, ends: tuple[object, object]) -> None:
    answer = wards_custodian.answer("SELECT HISTOGRAM(age, 16) FROM t", epsilon=1)
    with pytest.raises(InvalidInput):
        answer.range(*ends)


@pytest.mark.parametrize("ends", [(70, 90), (-9, -1)])
def test_ranges_beyond_all_values_are_refused(wards_custodian: Custodian, ends: tuple[int, int]) -> None:
    with pytest.raises(InvalidInput, match="go from 0 to 63; this range lies beyond them"):
        wards_custodian.answer("SELECT HISTOGRAM(age, 16) FROM t", epsilon=1).range(*ends)


def test_bins_that_cannot_have_a_row_are_0(wards_custodian: Custodian) -> None:
    """Of a histogram with a condition on its own column; so is the cell of missing values."""
    answer = wards_custodian.answer(
        "SELECT HISTOGRAM(age, 8) FROM t WHERE age < 16", epsilon=Fraction(1, 100)
    ).reconciled
    assert answer is not None
    assert [row["COUNT(*)"] for row in answer.rows[2:]] == [0] * 7
    assert "7 of the 9 cells cannot have a row, so they are 0" in answer.because


def test_a_histogram_asked_in_several_ways_is_found_again(wards_custodian: Custodian) -> None:
    """By epsilon, accuracy, noise scale or with a prior, in any order: stored answers of one kind serve that kind."""
    text, kinds = "SELECT HISTOGRAM(age, 4) FROM t", [{"epsilon": 1}, {"accuracy": "±50 at 95%"}, {"noise_scale": 20}]
    kinds += [{"epsilon": 2, "prior": "normal(300, 50)"}, {"accuracy": "±80 at 95%"}, {"noise_scale": 30}]
    for first in kinds:
        for second in kinds:
            for options in (first, second):
                assert len(wards_custodian.answer(text, **options).rows) == 5  # type: ignore[arg-type]


def test_other_answers_have_no_ranges(wards_custodian: Custodian) -> None:
    for text in (ROLLUP, "SELECT COUNT(*) FROM t WHERE sex = 'F'"):
        with pytest.raises(InvalidInput, match="HISTOGRAM"):
            wards_custodian.answer(text, epsilon=1).range(1, 2)


REFUSED_OPTIONS: dict[str, dict[str, object]] = {
    "prior": {"epsilon": 1, "prior": "normal(5, 2)"},
    "accuracy": {"accuracy": "±50 at 95%"},
    "noise scale": {"noise_scale": 5},
    "distance": {"epsilon": 1, "prior": "normal(5, 2)", "distance": "continuous"},
}


@pytest.mark.parametrize("options", REFUSED_OPTIONS.values(), ids=REFUSED_OPTIONS)
def test_a_rollup_is_asked_by_epsilon_alone(wards_custodian: Custodian, options: dict[str, object]) -> None:
    before = wards_custodian.budget()
    with pytest.raises(Unsupported, match="asked with an epsilon"):
        wards_custodian.answer(ROLLUP, **options)  # type: ignore[arg-type]
    assert wards_custodian.budget() == before


def test_private_keys_cannot_be_rolled_up() -> None:
    declared_schema = schema("add-remove", 1, units=5)
    with pytest.raises(Unsupported, match="keys whose values are public"):
        plan_hierarchy(declared_schema, "SELECT city, COUNT(*) FROM t GROUP BY ROLLUP (city)", Fraction(1, 10**6))


def test_the_layout_is_applied_to_what_is_told(wards_custodian: Custodian) -> None:
    """HAVING, ORDER BY and LIMIT on refined counts, for the reconciled rows in the same order."""
    answer = wards_custodian.answer(ROLLUP + " HAVING COUNT(*) > 150 ORDER BY 3 DESC LIMIT 5", epsilon=100)
    assert len(answer.rows) == 5
    assert answer.rows[0]["ward"] == "(all)"
    assert answer.reconciled is not None
    assert [row["ward"] for row in answer.reconciled.rows] == [row["ward"] for row in answer.rows]


def test_a_histogram_is_drawn(wards_custodian: Custodian, tmp_path: Path) -> None:
    """A bar for each block of bins, at most a hundred, with its interval; dates as dates; also from stored draws."""
    for text, bars in (("SELECT HISTOGRAM(age, 64) FROM t", 64), ("SELECT HISTOGRAM(seen, 7) FROM t", 7)):
        assert wards_custodian.preview(text, epsilon=2).pictured
        picture = wards_custodian.answer(text, epsilon=2).plot(tmp_path / "h.svg").read_text()
        assert picture.count('aria-roledescription="rect mark"') == bars
        assert picture.count('aria-roledescription="rule mark"') == bars
        assert "Differential privacy with epsilon 2" in picture
    assert "2024-01" in picture
    with_prior = wards_custodian.answer("SELECT HISTOGRAM(age, 8) FROM t", epsilon=2, prior="normal(150, 50)")
    assert with_prior.plot(tmp_path / "p.html").exists()
    assert not wards_custodian.preview(ROLLUP, epsilon=2).pictured
    with pytest.raises(InvalidInput, match="HISTOGRAM"):
        wards_custodian.answer(ROLLUP, epsilon=2).plot(tmp_path / "r.svg")


def test_neighbouring_bins_are_drawn_together_where_they_are_many() -> None:
    declared_schema = schema("add-remove", 1, units=5, columns=build_wide_column(1024))
    query_plan = plan(declared_schema, parse_sql("SELECT HISTOGRAM(wide, 1024) FROM t", declared_schema), 1)
    counts = [index % 5 for index in range(1024)]
    released = measure.sample_noisy_outputs(
        query_plan,
        measure.ExactInputs(query_plan.list_cells(), [get_measurement(query_plan).hierarchy.count_blocks(counts)]),
    )
    bars = HierarchicalCounts(query_plan, get_measurement(query_plan).hierarchy, released).build_histogram_chart(
        "title"
    )
    assert len(bars.counts) == 94
    assert bars.edges[0] == 0
    assert bars.edges[-1] == 1024
    assert sum(bars.counts) == pytest.approx(sum(counts), abs=200)


def test_the_command_counts_ranges(wards_custodian: Custodian, tmp_path: Path) -> None:
    """Beside the histogram, on the screen and in JSON; a bad range is refused before anything is charged."""
    wards_custodian.close()
    words = ["ask", tmp_path / "t.yaml", "SELECT HISTOGRAM(age, 16) FROM t", "--epsilon", "2"]
    outcome = run_discreet(*words, "--range", "9..3")
    assert outcome.code == 2
    assert "the other way round" in outcome.err
    assert run_discreet(*words, "--range", "9").code == 2
    assert run_discreet("ask", tmp_path / "t.yaml", ROLLUP, "--epsilon", "2", "--range", "1..2").code == 2
    assert "registered" not in run_successfully("budget", tmp_path / "t.yaml").out
    document = run_successfully(*words, "--range", "0..31", "--range", "32..63", "--json").document
    assert [(counted_range["low"], counted_range["high"]) for counted_range in document["ranges"]] == [
        (0, 31),
        (32, 63),
    ]
    assert run_successfully(*words, "--range", "0..31").out.count("0 to 31:") == 1
