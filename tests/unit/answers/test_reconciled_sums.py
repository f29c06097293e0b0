"""Which counts to add up: reconciled ones of a sparse histogram are worse for a sum, and the answer says so."""

from __future__ import annotations

import math
from fractions import Fraction
from html import unescape
from pathlib import Path

import numpy as np
import pytest
from test_console_pages import Browser

from discreet import Answer
from discreet.answers import explain
from discreet.answers.reconciled_counts import CountSums
from discreet.custodian.measure import read_exact_inputs, sample_noisy_outputs
from discreet.planner.planner import plan
from discreet.query import parse_sql
from discreet.sample import write_registry
from discreet.schema import Column, Schema
from discreet.sources.memory import UNIT_KEY, MemorySource
from support.command_line import run_successfully
from support.inprocess_service import HOME, build_config, run_service
from support.small_tables import schema

ADVICE = "Use the raw counts for sums and totals, and the reconciled ones for single cells."
PAY = Column("pay", "integer", lower=0, upper=479, missing=0)
WARD = Column("ward", "nominal", upper=5, categories=tuple("abcdef"), missing=0)
SEX = Column("sex", "nominal", upper=1, categories=("F", "M"), missing=0)
HISTOGRAM = "SELECT HISTOGRAM(pay, 96) FROM t WHERE sex = 'F'"
WARDS = "SELECT ward, COUNT(*) FROM t WHERE sex = 'F' GROUP BY ward"


def declare_pay() -> Schema:
    columns = {column.name: column for column in (PAY, WARD, SEX)}
    return schema("add-remove", 1, None, columns=columns)


def build_pay_source(declared_schema: Schema, sparse: bool, rows: int = 900) -> MemorySource:
    """All in one bin and one ward, or spread evenly."""
    places = [0] * rows if sparse else range(rows)
    people = [{"pay": place * 7 % 480, "ward": place % 6, "sex": 0} for place in places]
    return MemorySource(declared_schema, [{UNIT_KEY: f"p{place}"} | person for place, person in enumerate(people)])


def draw_answers(question: str, sparse: bool, epsilon: Fraction, count: int, rows: int = 900) -> list[Answer]:
    declared_schema = declare_pay()
    query_plan = plan(declared_schema, parse_sql(question, declared_schema), epsilon)
    cells = query_plan.list_cells()
    secret = read_exact_inputs(
        query_plan, build_pay_source(declared_schema, sparse, rows), cells, query_plan.query.where
    )
    noisy_outputs = (sample_noisy_outputs(query_plan, secret) for _ in range(count))
    return [explain.build_answer(query_plan, outputs, question, explain.FREE, None, {}) for outputs in noisy_outputs]


def sum_counts(answer: Answer) -> tuple[float, float]:
    """Raw and reconciled."""
    assert answer.reconciled is not None
    name = answer.numbers[0]
    raw_sum, reconciled_sum = (
        sum(float(str(row[name])) for row in rows) for rows in (answer.rows, answer.reconciled.rows)
    )
    return raw_sum, reconciled_sum


@pytest.mark.parametrize(("question", "epsilon"), [(HISTOGRAM, Fraction(1, 20)), (HISTOGRAM, Fraction(1, 5))])
def test_a_sparse_histogram_says_to_add_up_the_raw_counts(question: str, epsilon: Fraction) -> None:
    drawn_answers = draw_answers(question, sparse=True, epsilon=epsilon, count=12)
    raw_sums, reconciled_sums = np.array([sum_counts(answer) for answer in drawn_answers]).T
    assert np.abs(reconciled_sums - 900).mean() > 2 * np.abs(raw_sums - 900).mean()
    for answer in drawn_answers:
        assert answer.reconciled is not None
        assert answer.reconciled.advice.startswith(ADVICE)
        assert answer.reconciled.use_for_sums == "raw"
        document = answer.to_json()["reconciled"]
        assert isinstance(document, dict)
        assert (document["use_for_sums"], document["advice"]) == ("raw", answer.reconciled.advice)


@pytest.mark.parametrize("question", [HISTOGRAM, WARDS])
def test_a_dense_histogram_is_shown_as_before(question: str) -> None:
    for answer in draw_answers(question, sparse=False, epsilon=Fraction(1), count=10, rows=4800):
        assert answer.reconciled is not None
        assert (answer.reconciled.advice, answer.reconciled.use_for_sums) == ("", "reconciled")
        raw_sum, reconciled_sum = sum_counts(answer)
        assert abs(raw_sum - reconciled_sum) < 30  # rounding alone


def read_chart_bars(answer: Answer) -> tuple[list[float], str]:
    spec = answer.picture_spec()
    assert spec is not None
    return [row["count"] for row in spec["layer"][0]["data"]["values"]], str(spec)


def test_the_picture_shows_the_better_counts() -> None:
    """A bar is a sum of bins where there are many."""
    (sparse,) = draw_answers(HISTOGRAM, sparse=True, epsilon=Fraction(1, 20), count=1)
    counts, text = read_chart_bars(sparse)
    assert "Bars are the raw counts, which may be below 0" in text
    assert sum(counts) == pytest.approx(sum_counts(sparse)[0], abs=0.5)
    (dense,) = draw_answers(HISTOGRAM, sparse=False, epsilon=Fraction(1), count=1, rows=4800)
    counts, text = read_chart_bars(dense)
    assert "Bars are the reconciled counts" in text
    assert sum(counts) == pytest.approx(sum_counts(dense)[1], abs=1e-6)


def test_a_few_empty_groups_say_so_too() -> None:
    """Below ten cells the total is not kept: five of six wards are empty."""
    drawn_answers = draw_answers(WARDS, sparse=True, epsilon=Fraction(1, 10), count=60, rows=300)
    advised = [answer for answer in drawn_answers if answer.reconciled is not None and answer.reconciled.advice]
    assert advised
    for answer in advised:
        raw_sum, reconciled_sum = sum_counts(answer)
        assert reconciled_sum - raw_sum > 2 * math.sqrt(2) * 10  # two standard deviations of one cell


@pytest.mark.parametrize(("empty", "worse"), [(2, False), (3, False), (12, True), (30, True)])
def test_the_rule_is_where_the_square_errors_cross(empty: int, worse: bool) -> None:
    """Laplace noise on cells that are all empty: lifting to 0 makes their sum better where they are few."""
    noise = np.random.default_rng(5).laplace(size=(20_000, empty))
    raw_sums, reconciled_sums = noise.sum(axis=1), np.maximum(noise, 0).sum(axis=1)
    assert (float((reconciled_sums**2).mean()) > float((raw_sums**2).mean())) == worse
    verdicts = [
        CountSums(one, two, 2.0, 2.0 * empty, min_total=-(10**9)).is_worse
        for one, two in zip(raw_sums[:500], reconciled_sums[:500], strict=True)
    ]
    assert (np.mean(verdicts) > 0.5) == worse


def test_a_sum_that_is_moved_to_what_is_possible_is_not_worse() -> None:
    assert not CountSums(-500.0, 0.0, 10.0, 400.0).is_worse
    assert not CountSums(10_500.0, 10_000.0, 10.0, 400.0, 0, 10_000).is_worse
    assert not CountSums(9_700.0, 10_000.0, 10.0, 400.0, 10_000, 10_000).is_worse
    assert CountSums(9_415.0, 10_101.0, 20.0, 2_000.0).is_worse
    assert CountSums(9_415.0, 10_101.0, 20.0, 2_000.0).advice.endswith(
        "the reconciled counts add up to 10,101, the raw ones to 9,415, with a standard deviation of 44.72."
    )


# The same on every face.

SPARSE = "SELECT HISTOGRAM(income, 100) FROM registry WHERE smoker"


def test_the_command_line_says_which_to_use(tmp_path: Path) -> None:
    path = write_registry(tmp_path, patients=300)
    words = ("ask", path, SPARSE, "--epsilon", "0.05")
    output = " ".join(run_successfully(*words).out.split())
    reconciled = run_successfully(*words, "--json").document["reconciled"]
    assert reconciled["use_for_sums"] == "raw"
    assert f"which to use {reconciled['advice']}" in output
    dense = " ".join(
        run_successfully("ask", path, "SELECT sex, COUNT(*) FROM registry GROUP BY sex", "--epsilon", "0.5").out.split()
    )
    assert "which to use" not in dense


def test_service_and_console_say_which_to_use(tmp_path: Path) -> None:
    with run_service(build_config(tmp_path)) as service:
        reply_made = service.post("ann", f"{HOME}/answers", {"question": SPARSE, "epsilon": "0.05"})
        assert reply_made.status_code == 201, reply_made.text
        document = reply_made.json()
        assert document["reconciled"]["use_for_sums"] == "raw"
        page = unescape(Browser(service, "ann").get(f"/console/datasets/registry/answers/{document['id']}").text)
        assert document["reconciled"]["advice"] in page
