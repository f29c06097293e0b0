"""Rows that HAVING, or LIMIT after ORDER BY, chooses by their noisy numbers: every probability that is printed of them
holds, measured over many draws of groups that are all alike."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from statistics import fmean
from typing import Any

import pytest
from scipy.stats import binom

from discreet import Answer, Custodian, Unsupported
from discreet.answers.answer import ALL_KEYS, Interval, PopulationEstimate
from discreet.answers.explain import build_answer
from discreet.cli.screens import render_answer
from discreet.custodian.measure import measure_plan, read_exact_inputs, sample_noisy_outputs
from discreet.measurements.contribution_bounds import NOT_STATED
from discreet.measurements.threshold import ThresholdedCount
from discreet.mechanisms.discrete_laplace import DiscreteLaplace
from discreet.planner.planner import plan
from discreet.query import parse_question

DRAWS = 200
SCHEMA = """
name: t
source: t.csv
neighbours: add-remove
unit: {column: id, rows: 1}
budget: {epsilon: 1000000, delta: 0.1}
models: [dp, approx-dp]
columns:
  id: {role: identifier}
  sex: {kind: nominal, categories: [F, M]}
  g: {kind: integer, lower: 0, upper: 99}
  x: {kind: integer, lower: 0, upper: 100}
  town: {kind: nominal, keys: private}
"""
ROWS: list[dict[str, Any]] = [
    {"sex": "FM"[index % 2], "g": index % 100, "x": 50, "town": f"town {index % 40}"} for index in range(2000)
]
AT_ONCE = "ith a probability of at least 95 %, the intervals of all {} groups hold, also of those not shown"
ONE_ROW = "ver all draws, also those that do not show the row, "
ALONE = "lies in the interval beside it"


@dataclass(frozen=True)
class RankedQuestion:
    """A question whose rows are chosen by their noisy numbers, and how many groups it has."""

    sql: str
    groups: int
    number: str = "COUNT"


QUESTIONS = {
    "largest count": RankedQuestion("SELECT g, COUNT(*) AS n FROM t GROUP BY g ORDER BY n DESC LIMIT 1", 101),
    "smallest count": RankedQuestion("SELECT g, COUNT(*) AS n FROM t GROUP BY g ORDER BY n LIMIT 1", 101),
    "counts kept": RankedQuestion("SELECT g, COUNT(*) AS n FROM t GROUP BY g HAVING n > 24", 101),
    "largest mean": RankedQuestion(
        "SELECT g, AVG(x) AS n FROM t WHERE g < 9 GROUP BY g ORDER BY n DESC LIMIT 1", 101, "AVG"
    ),
    "largest sum": RankedQuestion("SELECT g, SUM(x) AS n FROM t GROUP BY g ORDER BY n DESC LIMIT 1", 101, "SUM"),
    "sums kept": RankedQuestion("SELECT g, SUM(x) AS n FROM t GROUP BY g HAVING n > 1400", 101, "SUM"),
    "largest of a rollup": RankedQuestion(
        "SELECT sex, g, COUNT(*) AS n FROM t GROUP BY ROLLUP (sex, g) HAVING n < 500 ORDER BY n DESC LIMIT 1",
        307,
    ),
    "smallest of a rollup": RankedQuestion(
        "SELECT sex, g, COUNT(*) AS n FROM t GROUP BY ROLLUP (sex, g) ORDER BY n LIMIT 1", 307
    ),
    "largest bin": RankedQuestion("SELECT HISTOGRAM(g, 50) FROM t ORDER BY 2 DESC LIMIT 1", 51),
    "one count": RankedQuestion("SELECT COUNT(*) AS n FROM t WHERE sex = 'F' HAVING n > 1001", 1),
    "one mean": RankedQuestion("SELECT AVG(x) AS n FROM t WHERE sex = 'F' HAVING n > 50.1", 1, "AVG"),
}


@pytest.fixture(scope="module")
def rows_custodian(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Custodian]:
    folder = tmp_path_factory.mktemp("chosen")
    lines = [f"p{index},{row['sex']},{row['g']},{row['x']},{row['town']}" for index, row in enumerate(ROWS)]
    (folder / "t.csv").write_text("\n".join(["id,sex,g,x,town", *lines]))
    (folder / "t.yaml").write_text(SCHEMA)
    with Custodian.open(folder / "t.yaml") as opened:
        yield opened


def _draw_answers(custodian: Custodian, sql: str, count: int = DRAWS) -> Iterator[Answer]:
    query_plan = plan(custodian.schema, parse_question(sql, custodian.schema), epsilon=1)
    cells = query_plan.list_cells()
    secret = read_exact_inputs(query_plan, custodian._source, cells, query_plan.query.where)
    for _ in range(count):
        yield build_answer(query_plan, sample_noisy_outputs(query_plan, secret), sql, Fraction(1), 1, {})


def _compute_truth(ranked_question: RankedQuestion, row: Mapping[str, object]) -> float:
    """The exact number of a row, by arithmetic of its own."""
    rows = ROWS
    if "WHERE g < 9" in ranked_question.sql:
        rows = [exact_row for exact_row in rows if exact_row["g"] < 9]
    if "WHERE sex" in ranked_question.sql:
        rows = [exact_row for exact_row in rows if exact_row["sex"] == "F"]
    for name, key in row.items():
        if name in ("sex", "g") and key != ALL_KEYS:
            rows = [exact_row for exact_row in rows if exact_row[name] == key]
        elif name.startswith("BIN") and key is not None:
            low, high = map(int, str(key).split(" to "))
            rows = [exact_row for exact_row in rows if low <= exact_row["g"] <= high]
        elif key is None:
            rows = []
    values = [float(exact_row["x"]) for exact_row in rows]
    if ranked_question.number == "COUNT":
        return float(len(values))
    return sum(values) if ranked_question.number == "SUM" else fmean(values or [50.0])


def _is_inside(span: Interval, truth: float) -> bool:
    assert span is not None
    return span[0] - 1e-9 <= truth <= span[1] + 1e-9  # type: ignore[operator]


def _is_likely(outcomes: list[bool]) -> bool:
    """Whether a statement that is said to hold with 95 % may be true: it was missed no more often than by chance."""
    return float(binom.sf(outcomes.count(False) - 1, len(outcomes), 0.05)) > 1e-6


@pytest.mark.parametrize("name", QUESTIONS)
def test_what_is_printed_of_rows_chosen_by_their_numbers_holds(rows_custodian: Custodian, name: str) -> None:
    """Intervals, the accuracy and reconciled intervals, of all rows that are shown, in 95 of 100 draws."""
    ranked_question = QUESTIONS[name]
    spans, fitted, near = [], [], []
    for answer in _draw_answers(rows_custodian, ranked_question.sql):
        truths = [_compute_truth(ranked_question, row) for row in answer.rows]
        pairs = list(zip(answer.intervals(0.95), truths, strict=True))
        spans.append(all(_is_inside(row[answer.numbers[0]], truth) for row, truth in pairs))
        if answer.reconciled is not None:
            paired_intervals = zip(answer.reconciled.intervals(0.95), truths, strict=True)
            fitted.append(all(_is_inside(row[answer.numbers[0]], truth) for row, truth in paired_intervals))
        if match := re.search(r"within ([0-9.,]+) with a probability of at least 95 %", answer.accuracy):
            within, numbers = float(match.group(1).replace(",", "")), [row[answer.numbers[0]] for row in answer.rows]
            pairs_near = zip(numbers, truths, strict=True)
            near.append(all(abs(float(n) - t) <= within + 1e-9 for n, t in pairs_near))  # type: ignore[arg-type]
    assert all(map(_is_likely, (outcomes for outcomes in (spans, fitted, near) if outcomes))), (spans, fitted, near)
    assert len(spans) == DRAWS
    assert near or ranked_question.number == "AVG"


@pytest.mark.parametrize("name", QUESTIONS)
def test_every_place_says_that_the_intervals_hold_at_once(rows_custodian: Custodian, name: str) -> None:
    """Sentence, sheet, notebook, JSON, terminal and preview."""
    ranked_question = QUESTIONS[name]
    chosen_answer = next(answer for answer in _draw_answers(rows_custodian, ranked_question.sql, 100) if answer.rows)
    sentence = ONE_ROW if ranked_question.groups == 1 else AT_ONCE.format(ranked_question.groups)
    document = chosen_answer.to_json()
    places = [chosen_answer.meaning, str(chosen_answer), chosen_answer._repr_html_(), str(document["meaning"])]
    places += ["\n".join(str(part) for part in render_answer(chosen_answer, ()) if isinstance(part, str))]
    assert all(sentence in place for place in places), places
    assert not any(ALONE in place for place in places)
    assert document["intervals_95"] == [
        {n: list(s) for n, s in row.items() if s} for row in chosen_answer.intervals(0.95)
    ]
    for accuracy in (chosen_answer.accuracy, rows_custodian.preview(ranked_question.sql, epsilon=1).accuracy):
        phrase = "over all draws" if ranked_question.groups == 1 else f"all {ranked_question.groups} groups"
        assert phrase in accuracy
        assert "shown" in accuracy or "show the row" in accuracy


def test_with_a_prior_both_are_said(rows_custodian: Custodian) -> None:
    """A posterior is not changed by the choice of rows; of the interval beside it the probability is stated."""
    question = "SELECT g, COUNT(*) AS n FROM t GROUP BY g"
    plain = rows_custodian.answer(question, epsilon=1, prior="normal(20, 5)")
    chosen = rows_custodian.answer(f"{question} ORDER BY n DESC LIMIT 1", epsilon=1, prior="normal(20, 5)")
    assert chosen.meaning.startswith("You believed it to be")
    assert chosen.meaning.endswith(AT_ONCE.format(101) + ".")
    laws = {row["g"]: law["n"] for row, law in zip(plain.rows, plain.posteriors(), strict=True)}[chosen.rows[0]["g"]]
    assert laws is not None
    assert chosen.posterior is not None
    assert chosen.posterior.interval(0.95) == laws.interval(0.95)


def test_what_chooses_no_row_by_its_number_has_intervals_of_its_own(rows_custodian: Custodian) -> None:
    """All rows in some order, rows by their keys, and a limit that leaves none out."""
    groups = "SELECT sex, COUNT(*) AS n FROM t GROUP BY sex"
    plain = rows_custodian.answer(groups, epsilon=1)
    for layout in ("ORDER BY n", "ORDER BY sex LIMIT 3", "LIMIT 3", "ORDER BY n LIMIT 3"):
        answer = rows_custodian.answer(f"{groups} {layout}", epsilon=1)
        assert answer.accuracy == plain.accuracy
        assert answer.meaning == plain.meaning
        assert ALONE in answer.meaning
    chosen = rows_custodian.answer(f"{groups} ORDER BY n DESC LIMIT 2", epsilon=1)
    spans = {row["sex"]: span["n"] for row, span in zip(plain.rows, plain.intervals(0.95), strict=True)}
    for row, span in zip(chosen.rows, chosen.intervals(0.95), strict=True):
        (low, high), (least, most) = spans[row["sex"]], span["n"]  # type: ignore[misc]
        assert least < low  # type: ignore[operator]
        assert high < most  # type: ignore[operator]


def test_several_numbers_of_a_row_hold_at_once(rows_custodian: Custodian) -> None:
    """As many intervals as there are groups times numbers; a number that is told twice counts once."""
    schema = rows_custodian.schema
    sql = "SELECT g, COUNT(*) AS n, SUM(x) AS s, COUNT(*) AS again FROM t GROUP BY g ORDER BY n LIMIT 1"
    coverage = plan(schema, parse_question(sql, schema), epsilon=1).coverage
    assert (coverage.rows, coverage.numbers_per_row) == (101, 2)
    assert coverage.adjust_confidence(0.95) == pytest.approx(1 - 0.05 / 202)
    assert coverage.adjust_confidence(1 - 1e-14) is None


def test_a_requested_accuracy_is_that_of_all_groups_at_once(rows_custodian: Custodian) -> None:
    groups = "SELECT g, COUNT(*) AS n FROM t GROUP BY g"
    plain = rows_custodian.preview(groups, accuracy="±8")
    chosen = rows_custodian.answer(f"{groups} ORDER BY n DESC LIMIT 1", accuracy="±8")
    assert chosen.guarantee.epsilon > 2 * plain.guarantee.epsilon  # type: ignore[operator]
    low, high = chosen.interval()  # type: ignore[misc]
    assert (high - low) / 2 <= 8  # type: ignore[operator]
    assert not chosen.missed_accuracy


def test_estimates_for_the_population_hold_at_once(rows_custodian: Custodian) -> None:
    groups = "SELECT sex, COUNT(*) AS n FROM t GROUP BY sex"
    plain = {
        row["sex"]: estimates["n"] for row, estimates in _pair_population(rows_custodian.answer(groups, epsilon=1))
    }
    for row, estimates in _pair_population(rows_custodian.answer(f"{groups} ORDER BY n DESC LIMIT 2", epsilon=1)):
        assert estimates["n"].interval[0] < plain[row["sex"]].interval[0]
        assert estimates["n"].interval[1] > plain[row["sex"]].interval[1]
        assert estimates["n"].confidence == 0.95
        assert AT_ONCE.format(3) in estimates["n"].words


def _pair_population(answer: Answer) -> Iterator[tuple[Mapping[str, object], Mapping[str, PopulationEstimate]]]:
    return zip(answer.rows, answer.population(), strict=True)


def test_the_two_values_round_a_quantile_are_not_shown_of_a_chosen_row(rows_custodian: Custodian) -> None:
    """They are drawn for 95 % of each group by itself."""
    groups = "SELECT sex, MEDIAN(x) AS m FROM t GROUP BY sex"
    assert rows_custodian.answer(groups, epsilon=1, interval=True).intervals(0.95)[0]["m"] is not None
    chosen = rows_custodian.answer(f"{groups} ORDER BY m LIMIT 1", epsilon=1, interval=True)
    assert chosen.interval() is None
    assert "between the two values" not in chosen.accuracy
    assert "for all 3 groups at once" in chosen.accuracy


def test_of_rows_chosen_among_private_keys_no_probability_is_stated(rows_custodian: Custodian) -> None:
    """The number of keys is not public, so that none can be stated of all of them."""
    for number in ("COUNT(*)", "AVG(x)"):
        question = f"SELECT town, {number} AS n FROM t GROUP BY town ORDER BY n DESC LIMIT 1"
        answer = rows_custodian.answer(question, epsilon=1, delta=1e-6)
        assert answer.rows
        assert answer.interval() is None
        for text in (answer.accuracy, str(answer), rows_custodian.preview(question, epsilon=1, delta=1e-6).accuracy):
            assert NOT_STATED in text or NOT_STATED.capitalize() in text
            assert "95 %" not in text
        with pytest.raises(Unsupported, match="leave out HAVING"):
            answer.population()


@pytest.mark.parametrize("confidence", [0.5, 0.9, 0.95, 0.999])
def test_the_interval_of_a_private_key_holds_given_that_it_is_shown(
    rows_custodian: Custodian, confidence: float
) -> None:
    """Exactly, of keys of any number of units: by the law of the noise, given that it passes the threshold."""
    sql = "SELECT town, COUNT(*) AS n FROM t GROUP BY town"
    query_plan = plan(rows_custodian.schema, parse_question(sql, rows_custodian.schema), epsilon=1, delta=1e-6)
    (counted,) = query_plan.measurements
    assert isinstance(counted, ThresholdedCount)
    noise, least = counted.threshold.noise, counted.threshold.min_count
    assert isinstance(noise, DiscreteLaplace)
    noisy_outputs = measure_plan(query_plan, rows_custodian._source)
    answer = build_answer(query_plan, noisy_outputs, sql, Fraction(1), 1, {})
    spans = {
        numbers[0][0]: row["n"]
        for numbers, row in zip(noisy_outputs.numbers, answer.intervals(confidence), strict=True)
    }
    reach = noise.interval(confidence)[1]
    for row_key, span in spans.items():
        assert span == (row_key - reach if row_key - reach > least else 1.0, row_key + reach)
    for units in range(1, 3 * least):
        covered_chance = missed = 0.0
        for row_key in range(least, units + 200):
            chance = noise.probability(row_key - units)
            covered_chance += chance
            low = row_key - reach if row_key - reach > least else 1.0
            missed += 0.0 if low <= units <= row_key + reach else chance
        assert missed <= (1 - confidence) * covered_chance * (1 + 1e-9)
