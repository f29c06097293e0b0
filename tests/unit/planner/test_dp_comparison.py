"""The preview of an individual-dp question: its error and that of plain DP, from public facts, and which to prefer."""

from __future__ import annotations

import math
from fractions import Fraction
from html import unescape
from pathlib import Path
from typing import cast

import numpy as np
import pytest
from test_console_pages import ASK, Browser

from discreet import Custodian, load_schema
from discreet.custodian import preview_question
from discreet.custodian.preview import Preview
from discreet.measurements.selection import CandidateSelection
from discreet.measurements.unit_query import OrderStatistic
from discreet.mechanisms.entropy import SYSTEM
from discreet.mechanisms.individual_dp import build_local_noise
from discreet.planner.dp_comparison import DpComparison, compare_with_dp
from discreet.planner.options import build_query_options
from discreet.planner.planner import plan
from discreet.query import parse_sql
from discreet.sample import write_registry
from discreet.schema import Column, Schema
from discreet.service.config import Config, DatasetConfig, Limits
from support.command_line import run_successfully
from support.inprocess_service import HOME, run_service
from support.small_tables import schema

INCOME = Column("income", "integer", lower=0, upper=30_000, missing=0)
BORN = Column("born", "date", lower=0, upper=20_000, missing=0)
SHIFTS, DRAWS = tuple((step + 0.5) / 16 - 0.5 for step in range(16)), 15
FUNCTIONS = ["MEDIAN({})", "QUANTILE({}, 0.25)", "MIN({})", "MAX({})", "SECOND_MAX({})"]


def declare_incomes(rows: int) -> Schema:
    columns = {column.name: column for column in (INCOME, BORN)}
    return schema(
        "replace-one", 1, rows, columns=columns, models=("dp", "individual-dp"), individual_dp_reason="a test"
    )


def compare_models(text: str, rows: int, epsilon: object) -> DpComparison:
    declared_schema = declare_incomes(rows)
    comparison = compare_with_dp(
        plan(declared_schema, parse_sql(f"SELECT {text} FROM t", declared_schema), epsilon, model="individual-dp")
    )
    assert comparison is not None
    return comparison


def test_a_median_hundreds_of_times_worse_is_said_to_be_so() -> None:
    comparison = compare_models("MEDIAN(income)", 10_000, 1)
    assert comparison.own_error == pytest.approx(math.sqrt(2) * 30_000 / 20, rel=1e-3)
    assert comparison.own_error > 250 * comparison.expected_error
    assert comparison.prefer == "dp"
    assert comparison.words.startswith("At epsilon 1, prefer plain differential privacy (model dp)")
    assert "2,121" in comparison.words
    assert "rows" in comparison.accuracy


@pytest.mark.parametrize("function", FUNCTIONS)
@pytest.mark.parametrize(("rows", "epsilon"), [(2_000, 1), (200, Fraction(1, 2)), (40, 2)])
def test_both_errors_are_those_of_the_mechanisms_on_even_rows(
    function: str, rows: int, epsilon: int | Fraction
) -> None:
    """A choice by rank has at most the error that is stated; the noise about that of its floor, but for clamping."""
    declared_schema, text = declare_incomes(rows), function.format("income")
    query = parse_sql(f"SELECT {text} FROM t", declared_schema)
    weaker, plain = (
        plan(declared_schema, query, epsilon, model=model).measurements[0] for model in ("individual-dp", "dp")
    )
    assert isinstance(weaker, OrderStatistic)
    assert isinstance(plain, CandidateSelection)
    comparison = compare_models(text, rows, epsilon)
    codes = np.floor((np.arange(rows) + 0.5) / rows * INCOME.size).astype(np.int64)
    rank = {"MIN": 1, "MAX": rows, "SECOND_MAX": rows - 1}.get(function.partition("(")[0])
    if rank is None:
        rank = math.ceil(rows * (0.25 if "0.25" in function else 0.5))
    truth, counts = int(codes[rank - 1]), np.bincount(codes, minlength=INCOME.size)
    bins = np.add.reduceat(counts, np.arange(0, INCOME.size, plain.candidates.width))
    away = [
        [float(cast(int, one.values(one.measure([table], SYSTEM)[0])[0])) - truth for _ in range(150)]
        for one, table in ((weaker, counts), (plain, bins))
    ]
    own_error, error = (math.sqrt(float(np.mean(np.square(errors)))) for errors in away)
    # The square of a Laplace draw has a standard deviation of sqrt 5 of its mean: 0.18 for 150 of them.
    assert 0.35 * comparison.own_error < own_error < 1.7 * comparison.own_error
    assert error < 1.7 * comparison.expected_error + 2 * INCOME.size / rows
    assert (comparison.prefer == "dp") == (comparison.expected_error <= comparison.own_error)


def list_even_rows(rows: int, upper: int) -> list[np.ndarray]:
    """Rows that are spread evenly over 0..upper, moved by parts of the distance of two rows, or of two values."""
    exact = (np.arange(rows) + 0.5) / rows * (upper + 1)
    moved = [exact + shift * max(1.0, (upper + 1) / rows) for shift in SHIFTS]
    return [np.clip(np.floor(positions), 0, upper).astype(np.int64) for positions in moved]


def compute_noise_mean_square(mechanism: OrderStatistic, codes: np.ndarray, truth: int) -> float:
    """Of individual DP on these rows, clamped to the bounds: from the law of its noise, exactly."""
    rate, upper = float(build_local_noise(mechanism.mechanism.vector, codes).rate), mechanism.candidates.count - 1
    noise = np.arange(-math.ceil(40 / rate), math.ceil(40 / rate) + 1)
    law = np.exp(-rate * np.abs(noise))
    return float(np.average(np.square(np.clip(truth + noise, 0, upper) - truth), weights=law))


@pytest.mark.parametrize("epsilon", [Fraction(1, 20), Fraction(1, 5), Fraction(1)], ids=str)
@pytest.mark.parametrize("upper", [30, 100, 1000])
@pytest.mark.parametrize("rows", [20, 60, 150, 400])
def test_the_model_preferred_has_about_the_smaller_error(rows: int, upper: int, epsilon: Fraction) -> None:
    """At most a fifth more than the other, on even whole numbers, of which several may be equal."""
    column = Column("x", "integer", lower=0, upper=upper, missing=0)
    declared_schema = schema(
        "replace-one", 1, rows, columns={"x": column}, models=("dp", "individual-dp"), individual_dp_reason="a test"
    )
    query = parse_sql("SELECT MEDIAN(x) FROM t", declared_schema)
    weaker, plain = (plan(declared_schema, query, epsilon, model=model) for model in ("individual-dp", "dp"))
    comparison, weaker_measurement, plain_measurement = (
        compare_with_dp(weaker),
        weaker.measurements[0],
        plain.measurements[0],
    )
    assert comparison is not None
    assert isinstance(weaker_measurement, OrderStatistic)
    assert isinstance(plain_measurement, CandidateSelection)
    noises, squares = [], []
    for codes in list_even_rows(rows, upper):
        truth, counts = int(codes[math.ceil(rows / 2) - 1]), np.bincount(codes, minlength=upper + 1)
        noises.append(compute_noise_mean_square(weaker_measurement, codes, truth))
        values = [
            float(cast(int, plain_measurement.values(plain_measurement.measure([counts], SYSTEM)[0])[0]))
            for _ in range(DRAWS)
        ]
        squares += [(value - truth) ** 2 for value in values]
    away = 4 * float(np.std(squares)) / math.sqrt(len(squares))  # four standard errors of a mean of draws
    least, most = (math.sqrt(max(float(np.mean(squares)) + side, 0.0)) for side in (-away, away))
    noise = math.sqrt(float(np.mean(noises)))
    assert comparison.own_error == pytest.approx(noise, rel=0.25)
    assert least <= 1.2 * noise if comparison.prefer == "dp" else noise <= 1.2 * most


def test_where_individual_dp_is_nearer_it_is_called_weaker() -> None:
    comparison = compare_models("MEDIAN(income)", 30, Fraction(1, 2))
    assert comparison.prefer == "individual-dp"
    assert "individual-dp is expected to be nearer" in comparison.words
    assert "weaker than differential privacy: prefer dp unless that is acceptable" in comparison.words


def test_days_are_called_so() -> None:
    assert "1,414 days by the floor" in compare_models("MEDIAN(born)", 10_000, 1).words


def test_no_other_model_is_compared() -> None:
    declared_schema = declare_incomes(100)
    assert compare_with_dp(plan(declared_schema, parse_sql("SELECT MEDIAN(income) FROM t", declared_schema), 1)) is None
    assert (
        preview_question(declared_schema, "SELECT MEDIAN(income) FROM t", build_query_options(1)).compared_with_dp
        is None
    )


def test_the_floor_is_stated_and_the_local_scale_is_not() -> None:
    """A preview is made from the schema alone, so nothing of the rows can be in it."""
    preview = preview_question(
        declare_incomes(10_000), "SELECT MEDIAN(income) FROM t", build_query_options(1, model="individual-dp")
    )
    assert (
        preview.accuracy == "its noise follows the data and is not told; its scale is at least 1,500, whatever the data"
    )
    assert preview.guarantee.model == "individual-dp"
    assert preview.expected_error is None
    assert "depends on the rows" not in preview.reason


# The same on every face.

QUESTION = "SELECT MEDIAN(bmi) FROM registry"


def allow_individual_dp(path: Path) -> Path:
    text = path.read_text().replace("models: [dp]", "models: [dp, individual-dp]\nindividual_dp_reason: a test")
    path.write_text(text.replace("upper: 70, step: 0.1", "upper: 70, step: 0.1, missing: 10"))
    return path


def format_comparison(preview: Preview) -> str:
    assert preview.compared_with_dp is not None
    assert preview.compared_with_dp.prefer == "dp"
    return preview.compared_with_dp.words


def test_library_and_commands_show_both(tmp_path: Path) -> None:
    path = allow_individual_dp(write_registry(tmp_path, patients=500))
    words = format_comparison(
        preview_question(load_schema(path), QUESTION, build_query_options(1, model="individual-dp"))
    )
    with Custodian.open(path) as custodian:
        assert format_comparison(custodian.preview(QUESTION, epsilon=1, model="individual-dp")) == words
    command = (path, QUESTION, "--epsilon", "1", "--model", "individual-dp")
    output = " ".join(run_successfully("preview", *command).out.split())
    assert f"which model {words}" in output
    assert "plain dp permute-and-flip on ranks: it has a rank that is off by less than" in output
    assert run_successfully("preview", *command, "--json").document["compared_with_dp"]["words"] == words


def test_service_client_and_console_show_both(tmp_path: Path) -> None:
    path = allow_individual_dp(write_registry(tmp_path, patients=500))
    Custodian.open(path).close()
    limits = Limits(rate=100_000, burst=100_000, together=100_000)
    places = {"folder": tmp_path / "service", "store": str(tmp_path / "service.db")}
    with run_service(Config((DatasetConfig(path, 0.05),), **places, padding=False, limits=limits)) as service:
        body = {"question": QUESTION, "epsilon": "1", "model": "individual-dp"}
        reply = service.post("ann", f"{HOME}/previews", body)
        assert reply.status_code == 200, reply.text
        comparison = reply.json()["compared_with_dp"]
        assert comparison["prefer"] == "dp"
        assert comparison["own_error"] > comparison["expected_error"]
        fields = {"question": QUESTION, "how": "epsilon", "size": "1", "model": "individual-dp"}
        page = unescape(Browser(service, "ann").send(f"{ASK}/preview", fields, ASK).text)
        assert comparison["words"] in page
        assert comparison["accuracy"] in page
        other = service.post("ann", f"{HOME}/previews", body | {"model": "dp"})
        assert other.json()["compared_with_dp"] is None
