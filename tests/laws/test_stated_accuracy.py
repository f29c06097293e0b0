"""The accuracy that is stated before a question and with its answer, against what is measured: random questions of
every aggregate with random conditions, each drawn many times."""

from __future__ import annotations

import csv
import math
import random
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import binom

from discreet import Answer, Custodian, InvalidInput
from discreet.answers.explain import build_answer
from discreet.custodian import preview_question
from discreet.custodian.measure import ExactInputs, read_exact_inputs, sample_noisy_outputs
from discreet.custodian.preview import Preview, build_preview
from discreet.errors import BudgetExceeded
from discreet.measurements.additive import AdditiveNoise
from discreet.measurements.selection import CandidateSelection
from discreet.planner.options import build_query_options
from discreet.planner.plan import Plan
from discreet.planner.planner import plan
from discreet.query import parse_question, to_sql
from discreet.query.scan import MISSING_CODE
from discreet.sample import write_registry
from discreet.schema import Column
from support import small_tables
from support.published_data import find_shared_data
from support.small_tables import get_estimator

Codes = dict[str, NDArray[np.int64]]
Mask = NDArray[np.bool_]
DRAWS = 50
LEVEL = 1e-5
"""The chance at most that the whole family of tests fails where all that is stated is true."""
NUMBER = r"([0-9][0-9,]*(?:\.[0-9]+)?)"
WITHIN = re.compile(rf"within (?:about )?{NUMBER}")
RANKS = re.compile(rf"off by less than {NUMBER} rows")
FEWER = re.compile(rf"fewer rows than the most frequent value by less than {NUMBER}")

ADULT = """
name: adult
source: adult.csv
neighbours: add-remove
unit: {column: id, rows: 1}
budget: {epsilon: 100000, delta: 0.1}
models: [dp, approx-dp]
columns:
  id: {role: identifier}
  age: {kind: integer, lower: 17, upper: 90}
  hours: {kind: integer, lower: 0, upper: 99}
  gain: {kind: number, lower: 0, upper: 100000, step: 1}
  sex: {kind: nominal, categories: [Female, Male]}
  salary: {kind: boolean}
  race: {kind: nominal, categories: [Amer-Indian-Eskimo, Asian-Pac-Islander, Black, Other, White]}
"""
FUNCTIONS = (
    "COUNT(*)",
    "COUNT({number})",
    "COUNT(DISTINCT {unit})",
    "SUM({number})",
    "AVG({number})",
    "AVG({truth})",
    "VAR({number})",
    "STDDEV({number})",
    "MEDIAN({number})",
    "QUANTILE({number}, {order})",
    "MIN({number})",
    "MAX({number})",
    "MODE({name})",
    "HISTOGRAM({number}, {bins})",
)


@dataclass(frozen=True)
class Data:
    """A registered table, and its codes as they were registered."""

    custodian: Custodian
    codes: Codes
    unit: str
    numbers: tuple[str, ...]
    names: tuple[str, ...]
    truth: str

    def column(self, name: str) -> Column:
        return self.custodian.schema.column(name)


@dataclass(frozen=True)
class Question:
    """A random question, and the rows that it selects."""

    sql: str
    function: str
    column: str | None
    mask: Mask
    order: Fraction = Fraction(1, 2)


@dataclass
class Tally:
    """How often a statement held, of how many draws."""

    what: str
    level: float
    misses: int = 0
    draws: int = 0

    def count(self, is_hit: bool) -> None:
        self.misses += not is_hit
        self.draws += 1

    @property
    def chance(self) -> float:
        """The chance of so many misses or more, where the statement is true."""
        return float(binom.sf(self.misses - 1, self.draws, 1 - self.level))


def _codes(custodian: Custodian) -> Codes:
    batches = list(custodian._source.records())
    names = [name for name, column in custodian.schema.columns.items() if not column.private_keys]
    return {name: np.concatenate([np.asarray(batch.original[name]) for batch in batches]) for name in names}


@pytest.fixture(scope="module")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Data]:
    schema = write_registry(tmp_path_factory.mktemp("registry"), 20_000)
    schema.write_text(
        schema.read_text().replace("epsilon: 3,", "epsilon: 3000,").replace("epsilon: 1,", "epsilon: 1000,")
    )
    with Custodian.open(schema) as custodian:
        yield Data(
            custodian, _codes(custodian), "person_id", ("age", "bmi", "stay", "income"), ("sex", "hospital"), "smoker"
        )


@pytest.fixture(scope="module")
def adult(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Data]:
    folder = tmp_path_factory.mktemp("adult")
    with find_shared_data("adult.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    with (folder / "adult.csv").open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["id", "age", "hours", "gain", "sex", "salary", "race"])
        for number, row in enumerate(rows):
            salary = "true" if row["salary-class"] == ">50K" else "false"
            values = [row[name] for name in ("age", "hours-per-week", "capital-gain", "sex")]
            writer.writerow([number, *values, salary, row["race"]])
    (folder / "adult.yaml").write_text(ADULT)
    with Custodian.open(folder / "adult.yaml") as custodian:
        yield Data(custodian, _codes(custodian), "id", ("age", "hours", "gain"), ("sex", "race"), "salary")


def _condition(data: Data, rng: random.Random) -> tuple[str, Mask]:
    """One to three conditions, joined by AND."""
    mask: Mask = np.ones(len(data.codes[data.names[0]]), dtype=np.bool_)
    parts = []
    for name in rng.sample([*data.names, *data.numbers], rng.randint(1, 3)):
        column, codes = data.column(name), data.codes[name]
        if column.categories:
            at = rng.randrange(len(column.categories))
            parts.append(f"{name} = '{column.categories[at]}'")
            mask &= codes == at + column.lower
        else:
            present = codes[codes != MISSING_CODE]
            low, high = sorted(int(code) for code in rng.sample(list(present[:2000]), 2))
            parts.append(
                "{} BETWEEN {:.12g} AND {:.12g}".format(name, *(float(code * column.step) for code in (low, high)))
            )
            mask &= (codes >= low) & (codes <= high) & (codes != MISSING_CODE)
    return " AND ".join(parts), mask


def _random_question(data: Data, function: str, rng: random.Random) -> Question:
    where, mask = _condition(data, rng)
    order = Fraction(rng.choice(["0.1", "0.25", "0.75", "0.9"]))
    number, name = rng.choice(data.numbers), rng.choice(data.names)
    filled = function.format(
        number=number, unit=data.unit, truth=data.truth, order=float(order), name=name, bins=rng.randint(2, 40)
    )
    table = data.custodian.schema.name
    column = {"{number": number, "{truth}": data.truth, "{name}": name}
    of = next((aggregates for part, aggregates in column.items() if part in function), None)
    own_order = order if function.startswith("QUANTILE") else Fraction(1, 2)
    return Question(f"SELECT {filled} FROM {table} WHERE {where}", function.partition("(")[0], of, mask, own_order)


def _values(data: Data, question: Question) -> NDArray[np.int64]:
    """The codes that count."""
    assert question.column is not None
    codes = data.codes[question.column][question.mask]
    return codes[codes != MISSING_CODE]


def _true_number(data: Data, question: Question) -> float | None:
    """The exact number, by arithmetic of its own; None where there is none."""
    if question.column is None:
        return float(question.mask.sum())
    codes, column = _values(data, question), data.column(question.column)
    if question.function == "COUNT":
        return float(len(codes))
    step = float(column.step)
    if question.function == "SUM":
        return float(int(codes.sum()) * column.step)
    if len(codes) < (1 if question.function == "AVG" else 2):
        return None
    match question.function:
        case "AVG":
            return float(codes.mean()) * step
        case "VAR":
            return float(codes.var(ddof=1)) * step**2
        case _:
            return float(codes.std(ddof=1)) * step


def _number(match: re.Match[str]) -> float:
    return float(match.group(1).replace(",", ""))


def _is_within_stated(data: Data, question: Question, planned: Plan, answer: Answer, stated: float) -> bool:
    """Whether one answer is as near as was stated."""
    value = answer.rows[0][answer.numbers[0]]
    one = planned.measurements[0]
    if not isinstance(one, CandidateSelection):
        true = _true_number(data, question)
        return true is None or abs(float(value) - true) <= stated + 1e-9  # type: ignore[arg-type]
    codes, column = _values(data, question), data.column(question.column or "")
    code = (
        next(at for at in range(column.size) if column.decode(column.lower + at) == value) + column.lower
        if column.categories
        else round(Fraction(str(value)) / column.step)
    )
    if question.function == "MODE":
        counts = np.bincount(codes - column.lower, minlength=column.size)
        return int(counts.max()) - int(counts[code - column.lower]) < stated
    first = (code - column.lower) // one.candidates.width * one.candidates.width + column.lower
    below, above = int((codes < first).sum()), int((codes > first + one.candidates.width - 1).sum())
    if question.function in {"MIN", "MAX"}:
        return (below if question.function == "MIN" else above) < max(stated, 1)
    order = float(question.order)
    return max(0.0, below - order * len(codes), above - (1 - order) * len(codes)) < max(stated, 1e-9)


def _read_stated(data: Data, question: Question, preview: Preview) -> float | None:
    """What a preview states, read from its printed sentence, for as many rows as there are; None where nothing."""
    for pattern in (RANKS, FEWER):
        if match := pattern.search(preview.accuracy):
            return _number(match)
    if not preview.accuracy_by_rows:
        match = WITHIN.search(preview.accuracy)
        return None if match is None else _number(match)
    rows = len(_values(data, question))
    numbers = [one.within for one in preview.accuracy_by_rows if one.rows <= rows]
    return min(numbers, default=None)


def _try(data: Data, function: str, rng: random.Random, draws: int) -> list[Tally]:
    """One random question, drawn many times: its preview, the one for a stated number of rows, and its answers."""
    question = _random_question(data, function, rng)
    epsilon = round(10 ** rng.uniform(-1.5, 0.5), 4)
    schema = data.custodian.schema
    delta_option = {"delta": 1e-6} if "approx-dp" in schema.models and rng.random() < 0.3 else {}
    query = parse_question(question.sql, schema)
    planned = plan(schema, query, epsilon=epsilon, **delta_option)
    preview = build_preview(planned, to_sql(query, schema))
    cells = planned.list_cells()
    secret = read_exact_inputs(planned, data.custodian._source, cells, query.where)
    before, after, near = (
        Tally(f"{question.sql}: {preview.accuracy}", planned.confidence),
        Tally(f"interval of {question.sql}", 0.95),
        Tally(f"accuracy of the answer of {question.sql}", 0.95),
    )
    stated = _read_stated(data, question, preview)
    expected = Tally(f"{question.sql} with rows", planned.confidence)
    within = None
    if preview.accuracy_by_rows and (count := len(_values(data, question))):
        match = WITHIN.match(
            build_preview(plan(schema, query, epsilon=epsilon, rows=count, **delta_option), "").accuracy
        )
        assert match is not None
        within = _number(match)
    for _ in range(draws):
        answer = build_answer(planned, sample_noisy_outputs(planned, secret), question.sql, Fraction(1), 1, {})
        if function.startswith("HISTOGRAM"):
            _count_bins(data, question, planned, answer, stated, (before, after))
            continue
        if stated is not None:
            before.count(_is_within_stated(data, question, planned, answer, stated))
        if within is not None:
            expected.count(_is_within_stated(data, question, planned, answer, within))
        true, span = (
            (
                None
                if question.function in {"MEDIAN", "QUANTILE", "MIN", "MAX", "MODE"}
                else _true_number(data, question)
            ),
            answer.interval(),
        )
        if true is not None and span is not None:
            after.count(span[0] - 1e-9 <= true <= span[1] + 1e-9)  # type: ignore[index, operator]
            if preview.accuracy_by_rows:
                match = WITHIN.match(answer.accuracy)
                assert match is not None, answer.accuracy
                near.count(_is_within_stated(data, question, planned, answer, _number(match)))
    return [one for one in (before, expected, after, near) if one.draws]


def _count_bins(
    data: Data, question: Question, planned: Plan, answer: Answer, stated: float | None, tallies: tuple[Tally, Tally]
) -> None:
    """One bin of a histogram, the same in every draw."""
    codes, (key,) = _values(data, question), planned.query.keys
    column = data.column(question.column or "")
    at = len(answer.rows) // 3
    true = int(((codes - column.lower) // key.width == at).sum())
    value, span = answer.rows[at][answer.numbers[0]], answer.intervals(0.95)[at][answer.numbers[0]]
    assert isinstance(value, int | float)
    if stated is not None:
        tallies[0].count(abs(value - true) <= stated + 1e-9)
    if span is not None:
        tallies[1].count(span[0] - 1e-9 <= true <= span[1] + 1e-9)  # type: ignore[operator]


def _judge(tallies: list[Tally]) -> None:
    """No statement about a question is missed significantly more often than it says."""
    worst = min(tallies, key=lambda one: one.chance)
    assert worst.chance >= LEVEL / (2 * len(tallies)), (worst, worst.chance)


def _judge_together(by_function: dict[str, list[Tally]]) -> None:
    """Nor are all statements about an aggregate together."""
    for name, tallies in by_function.items():
        draws, misses = sum(one.draws for one in tallies), sum(one.misses for one in tallies)
        chance = float(binom.sf(misses - 1, draws, 1 - 0.95))
        assert chance >= LEVEL / (2 * len(by_function)), (name, misses, draws)


def _measure(data: Data, seed: int, questions: int, draws: int) -> None:
    rng = random.Random(seed)
    tallies_by_function: dict[str, list[Tally]] = {}
    for function in FUNCTIONS:
        tallies = [tally for _ in range(questions) for tally in _try(data, function, rng, draws)]
        assert tallies, function
        tallies_by_function[function] = tallies
        misses, count = sum(one.misses for one in tallies), sum(one.draws for one in tallies)
        least = min(one.chance for one in tallies)
        print(f"{function}: {misses:,} misses of {count:,} draws, least chance {least:.2g}", flush=True)
    _judge([one for tallies in tallies_by_function.values() for one in tallies])
    _judge_together(tallies_by_function)


@pytest.mark.parametrize("name", ["registry", "adult"])
def test_stated_accuracy_is_kept(name: str, request: pytest.FixtureRequest) -> None:
    """A small part of the soak below."""
    _measure(request.getfixturevalue(name), 1, 2, 10)


@pytest.mark.soak
@pytest.mark.parametrize("name", ["registry", "adult"])
def test_stated_accuracy_is_kept_by_200_questions_of_every_aggregate(name: str, request: pytest.FixtureRequest) -> None:
    """Every statement of every one: of its preview, of its preview for the rows there are, and of its answers."""
    _measure(request.getfixturevalue(name), 2, 200, DRAWS)


def _ask_by_accuracy(data: Data, rng: random.Random) -> str:
    """A random filtered question by its accuracy: `kept` or `refused`; any other outcome fails."""
    function = rng.choice(
        ["COUNT(*)", "SUM({number})", "AVG({number})", "AVG({truth})", "VAR({number})", "STDDEV({number})"]
    )
    question = _random_question(data, function, rng)
    column = None if question.column is None else data.column(question.column)
    size = len(question.mask) if column is None else len(_values(data, question))
    wide = 100.0 if column is None else float((column.upper - column.lower) * column.step)
    scale = {"COUNT": 1.0, "SUM": wide, "AVG": wide / 50, "VAR": wide**2 / 50, "STDDEV": wide / 10}[question.function]
    distance = float(f"{scale * 10 ** rng.uniform(-0.5, 1):.3g}")
    rows = None if rng.random() < 0.2 or not size else size
    accuracy = f"±{distance:f} at {rng.choice(['90', '95', '99'])}%"
    try:
        answer = data.custodian.answer(question.sql, accuracy=accuracy, rows=rows, fresh=True)
    except (InvalidInput, BudgetExceeded):
        return "refused"
    confidence = float(accuracy.rpartition(" ")[2].rstrip("%")) / 100
    low, high = answer.interval(confidence)  # type: ignore[misc]
    assert (high - low) / 2 <= distance * (1 + 1e-9), (question.sql, accuracy, rows)  # type: ignore[operator]
    assert not answer.missed_accuracy
    return "kept"


@pytest.mark.parametrize("name", ["registry", "adult"])
def test_a_requested_accuracy_is_kept_or_refused(name: str, request: pytest.FixtureRequest) -> None:
    rng, data = random.Random(5), request.getfixturevalue(name)
    outcomes = [_ask_by_accuracy(data, rng) for _ in range(12)]
    assert outcomes.count("kept") >= 5


@pytest.mark.soak
@pytest.mark.parametrize("name", ["registry", "adult"])
def test_200_requested_accuracies_are_kept_or_refused(name: str, request: pytest.FixtureRequest) -> None:
    rng, data = random.Random(6), request.getfixturevalue(name)
    outcomes = [_ask_by_accuracy(data, rng) for _ in range(300)]
    print(f"{name}: {outcomes.count('kept')} kept, {outcomes.count('refused')} refused")
    assert outcomes.count("kept") >= 200


def test_an_answer_that_misses_its_accuracy_says_so_first(registry: Data) -> None:
    """Where fewer rows are selected than the analyst expected."""
    question = "SELECT AVG(age) FROM registry WHERE hospital = 'Rowan' AND stay > 200"
    answer = registry.custodian.answer(question, accuracy="±0.5", rows=20_000)
    low, high = answer.interval()  # type: ignore[misc]
    assert (high - low) / 2 > 0.5  # type: ignore[operator]
    assert answer.missed_accuracy.startswith("This answer is less accurate than the ±0.5 you requested")
    assert str(answer).startswith(answer.missed_accuracy)
    assert answer.to_json()["missed_accuracy"] == answer.missed_accuracy
    assert "rows" not in answer.accuracy


def test_of_several_means_the_accuracy_of_one_is_not_stated(registry: Data) -> None:
    """Each has its own interval; where rows are chosen by their means, all hold at once (test_rows_chosen)."""
    groups = "SELECT hospital, AVG(age) FROM registry GROUP BY hospital"
    for layout in ("", "LIMIT 1", "ORDER BY 1 LIMIT 1"):
        answer = registry.custodian.answer(f"{groups} {layout}", epsilon=1)
        assert answer.accuracy.startswith("each group has its own interval")
    for layout in ("ORDER BY AVG(age) DESC LIMIT 1", "HAVING AVG(age) > 1000"):
        answer = registry.custodian.answer(f"{groups} {layout}", epsilon=1)
        assert re.fullmatch(
            r"with a .* 95 %, the intervals of all \d+ groups hold, also of those not shown", answer.accuracy
        )


def test_a_preview_of_a_filtered_mean_says_how_it_depends_on_the_rows(registry: Data) -> None:
    question = "SELECT AVG(age) FROM registry WHERE hospital = 'Rowan' AND sex = 'F'"
    preview = registry.custodian.preview(question, epsilon=0.1)
    assert [one.rows for one in preview.accuracy_by_rows] == [100, 1_000, 10_000]
    nears = [one.within for one in preview.accuracy_by_rows]
    assert nears == sorted(nears, reverse=True)
    assert "only a guess: about 1,250 rows if all values of hospital and sex are equally frequent" in preview.accuracy
    assert "which is only a guess" in preview.error_of
    stated = registry.custodian.preview(question, epsilon=0.1, rows=600)
    assert stated.accuracy.endswith("if at least 600 selected rows have a value")
    assert math.isclose(nears[1] / nears[2], 10, rel_tol=0.02)


@pytest.mark.parametrize(("rows", "share"), [(40, 0.0), (40, 0.5), (400, 1.0)])
@pytest.mark.parametrize("neighbors", ["add-remove", "replace-one"])
def test_the_bound_of_a_mean_holds_and_is_near(neighbors: str, rows: int, share: float) -> None:
    """Of many draws about as many lie beyond it as it says, at the worst share; never significantly more."""
    declared = small_tables.schema(neighbors, 1, 1000)
    planned = plan(declared, parse_question("SELECT AVG(score) FROM t WHERE age > 0", declared), epsilon=1)
    (noisy,) = planned.measurements
    assert isinstance(noisy, AdditiveNoise)
    wide = declared.column("score").upper
    bound = get_estimator(planned).half_width(0.95, rows)
    totals, draws = noisy.compute_inputs([(rows, round(rows * share * wide))])[0], 4000
    outputs = sample_noisy_outputs(planned, ExactInputs([()] * draws, [[totals] * draws]))
    values = [float(noisy.value(numbers)) for (numbers,) in outputs.numbers]
    misses = sum(abs(one - share * wide / 2) > bound for one in values)
    assert binom.sf(misses - 1, draws, 0.05) > 1e-6
    if share != 0.5:
        assert misses > draws * 0.008  # at an end half of the errors are cut off by the bounds


@pytest.mark.parametrize(("rows", "share"), [(60, 0.0), (60, 0.5), (4000, 1.0)])
@pytest.mark.parametrize("aggregate", ["AVG(score)", "VAR(score)", "STDDEV(score)"])
@pytest.mark.parametrize("neighbors", ["add-remove", "replace-one"])
def test_no_interval_is_wider_than_its_bound(neighbors: str, aggregate: str, rows: int, share: float) -> None:
    """Neither end lies farther from the answer; once in a million draws it may."""
    declared = small_tables.schema(neighbors, 1, 5000)
    epsilon = 2 if rows > 60 else 0.5  # of few rows their noisy number varies much
    planned = plan(
        declared, parse_question(f"SELECT {aggregate} FROM t WHERE age > 0", declared), epsilon=epsilon, rows=rows
    )
    (noisy,) = planned.measurements
    assert isinstance(noisy, AdditiveNoise)
    meaning, high = get_estimator(planned), round(rows * share)
    bound, wide, draws = meaning.interval_bound(0.95), declared.column("score").upper, 300
    totals = noisy.compute_inputs([(rows, high * wide, high * wide**2)[: len(noisy.linear_query.measures)]])[0]
    outputs = sample_noisy_outputs(planned, ExactInputs([()] * draws, [[totals] * draws]))
    misses = 0
    for (numbers,) in outputs.numbers:
        low, top = meaning.interval(numbers, 0.95)
        values = float(noisy.value(numbers))
        misses += max(top - values, values - low) > bound * (1 + 1e-9)
    assert binom.sf(misses - 1, draws, 1e-6) > 1e-8
    assert bound < 1.5 or rows == 60


@pytest.mark.parametrize(("share", "end"), [(0, 0.0), (1, 3.0)])
def test_noise_far_beyond_a_bound_of_the_column_makes_no_interval_of_all_means(share: int, end: float) -> None:
    """What was released is surprising at every mean there can be: the interval is one at the bound, not everything."""
    declared = small_tables.schema("add-remove", 1, 5000)
    planned = plan(declared, parse_question("SELECT AVG(score) FROM t WHERE age > 0", declared), epsilon=1, rows=1000)
    (noisy,) = planned.measurements
    assert isinstance(noisy, AdditiveNoise)
    meaning, wide = get_estimator(planned), declared.column("score").upper
    above, below = noisy.compute_inputs([(1000, 1000 * share * wide)])[0]
    assert noisy.linear_query.components[0].weights == (0, 1)  # sums of x - L and of U - x
    far = 40 * wide * (1 if share else -1)
    low, high = meaning.interval((above + far, below - far), 0.95)
    assert float(noisy.value((above + far, below - far))) == end == (high if share else low)
    assert 0 < high - low <= meaning.interval_bound(0.95)


@pytest.mark.parametrize(
    ("missing", "grouped", "words"),
    [
        (None, False, "if at least 600 selected rows have a value"),
        (None, True, "if at least 600 rows of a group have a value"),
        (0, False, "if at least 600 rows are selected"),
        (0, True, "if a group has at least 600 rows"),
    ],
)
def test_rows_without_a_value_do_not_count(missing: int | None, grouped: bool, words: str) -> None:
    """A mean is of the rows with a value, and its accuracy is stated for as many."""
    declared = small_tables.schema("add-remove", 1, 5000)
    score = replace(declared.column("score"), missing=missing)
    declared = replace(declared, columns={**declared.columns, "score": score})
    question = "SELECT sex, AVG(score) FROM t GROUP BY sex" if grouped else "SELECT AVG(score) FROM t WHERE age > 0"
    assert preview_question(declared, question, build_query_options(epsilon=1, rows=600)).accuracy.endswith(words)
