"""Answers as data frames: one row each, with typed columns, the same from a reply as from the answer itself."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from datetime import date
from decimal import Decimal
from fractions import Fraction
from typing import Any

import polars as pl
import pyarrow as pa
import pytest

from discreet import Answer, Custodian, Guarantee, InvalidInput, Unsupported
from discreet.numeric import as_plain_number
from support.command_line import write_registry

COUNT = "SELECT COUNT(*) AS n FROM registry WHERE smoker"
TEXT = pa.dictionary(pa.int32(), pa.string())
NUMBER, WHOLE, DAY, FLAG = pa.float64(), pa.int64(), pa.date32(), pa.bool_()
COUNTS = {"n": NUMBER, "n_low": NUMBER, "n_high": NUMBER}
FRAMES: list[tuple[str, dict[str, Any]]] = [
    (COUNT, {"n": WHOLE, "n_low": NUMBER, "n_high": NUMBER}),
    (
        "SELECT BIN(age, 40) AS a, smoker, AVG(bmi) AS n FROM registry GROUP BY BIN(age, 40), smoker",
        {"a_left": WHOLE, "a_right": WHOLE, "smoker": FLAG} | COUNTS,
    ),
    (
        "SELECT BIN(bmi, 20.5) AS b, AVG(age) AS n FROM registry GROUP BY BIN(bmi, 20.5)",
        {"b_left": NUMBER, "b_right": NUMBER} | COUNTS,
    ),
    (
        "SELECT HISTOGRAM(admitted, 4) FROM registry",
        {"BIN(admitted, 1005)_left": DAY, "BIN(admitted, 1005)_right": DAY}
        | {"COUNT(*)": NUMBER, "COUNT(*)_low": NUMBER, "COUNT(*)_high": NUMBER},
    ),
    (
        "SELECT hospital, sex, COUNT(*) AS n FROM registry GROUP BY ROLLUP (hospital, sex)",
        {"hospital": TEXT, "hospital_is_total": FLAG, "sex": TEXT, "sex_is_total": FLAG} | COUNTS,
    ),
    ("SELECT MAX(admitted) AS d FROM registry", {"d": DAY, "d_low": DAY, "d_high": DAY}),
    ("SELECT MODE(sex) AS m FROM registry", {"m": TEXT}),
]


@pytest.fixture(scope="module")
def custodian(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Custodian]:
    with Custodian.open(write_registry(tmp_path_factory.mktemp("frames"))) as opened:
        yield opened


def copy_over_wire(answer: Answer) -> Answer:
    return Answer.from_json(json.loads(json.dumps(answer.to_json())), answer.prior)


@pytest.mark.parametrize(("question", "types"), FRAMES, ids=[question for question, _ in FRAMES])
def test_columns_have_names_and_types(custodian: Custodian, question: str, types: dict[str, Any]) -> None:
    answer = custodian.answer(question, epsilon=0.05)
    table, reply = answer.to_arrow(), copy_over_wire(answer)
    assert dict(zip(table.column_names, table.schema.types, strict=True)) == types
    frame, polars_frame = answer.to_pandas(), answer.to_polars()
    assert list(frame.columns) == polars_frame.columns == table.column_names
    assert len(frame) == polars_frame.height == table.num_rows == len(answer.rows)
    assert polars_frame.to_dict(as_series=False) == table.to_pydict()
    assert table.equals(reply.to_arrow())
    assert frame.equals(reply.to_pandas())
    assert polars_frame.equals(reply.to_polars())


def test_bins_include_both_ends(custodian: Custodian) -> None:
    answer = custodian.answer(FRAMES[1][0], epsilon=0.05)
    frame = answer.to_pandas()
    ends = frame[["a_left", "a_right"]].dropna().drop_duplicates().to_numpy().tolist()
    assert [" to ".join(map(str, pair)) for pair in ends] == list(
        dict.fromkeys(row["a"] for row in answer.rows if row["a"] is not None)
    )
    assert str(frame["a_left"].dtype) == "Int64"
    assert str(frame["smoker"].dtype) == "boolean"


def test_totals_of_a_rollup_are_null_and_say_so(custodian: Custodian) -> None:
    answer = custodian.answer(FRAMES[4][0], epsilon=0.05)
    frame = answer.to_polars()
    assert frame["hospital_is_total"].to_list() == [row["hospital"] == "(all)" for row in answer.rows]
    assert frame.filter(pl.col("hospital_is_total"))["hospital"].to_list() == [None]
    missing = frame.filter(pl.col("sex").is_null() & ~pl.col("sex_is_total"))
    assert missing.height == sum(row["sex"] is None for row in answer.rows) > 0


def test_intervals_have_the_confidence_that_is_asked_for(custodian: Custodian) -> None:
    answer = custodian.answer(COUNT, epsilon=0.05)
    row = answer.to_arrow(confidence=0.5).to_pylist()[0]
    assert (row["n_low"], row["n_high"]) == answer.interval(0.5)
    with pytest.raises(InvalidInput, match="at 95 % and at no other"):
        copy_over_wire(answer).to_arrow(confidence=0.5)


def test_a_prior_adds_the_posterior_mean(custodian: Custodian) -> None:
    answer = custodian.answer(COUNT, epsilon=0.05, prior="normal(100, 20)")
    assert answer.posterior is not None
    assert answer.to_arrow().to_pylist()[0]["n_posterior_mean"] == answer.posterior.mean()
    assert copy_over_wire(answer).to_arrow() == answer.to_arrow()
    dated = custodian.answer(FRAMES[5][0], epsilon=0.05, prior="uniform(2020-01-01, 2024-01-01)")
    assert isinstance(dated.to_arrow().to_pylist()[0]["d_posterior_mean"], date)


def test_two_columns_of_one_name_are_refused(custodian: Custodian) -> None:
    answer = custodian.answer(
        "SELECT COUNT(*) AS n, COUNT(*) FILTER (WHERE smoker) AS n_low FROM registry", epsilon=0.05
    )
    with pytest.raises(InvalidInput, match=r"'n_low'; name the outputs with AS"):
        answer.to_pandas()


@pytest.mark.parametrize("library", ["pandas", "polars", "pyarrow"])
def test_a_library_that_is_missing_is_named(
    custodian: Custodian, monkeypatch: pytest.MonkeyPatch, library: str
) -> None:
    answer = custodian.answer(COUNT, epsilon=0.05)
    builders = {"pandas": answer.to_pandas, "polars": answer.to_polars, "pyarrow": answer.to_arrow}
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(Unsupported, match=f"needs {library}, which is not installed here"):
        builders[library]()


def test_a_dictionary_has_plain_values(custodian: Custodian) -> None:
    document = custodian.answer(FRAMES[5][0], epsilon=Fraction(1, 10)).to_dict()
    assert isinstance(document["value"], date)
    assert document["rows"] == [{"d": document["value"]}]
    assert document["guarantee"]["epsilon"] == Decimal("0.1")  # type: ignore[index]
    assert Guarantee.dp(Fraction(1, 3)).to_dict()["epsilon"] == 1 / 3


@pytest.mark.parametrize(
    ("value", "plain"),
    [(None, None), (Fraction(3), 3), (Fraction(-7, 40), Decimal("-0.175")), (Fraction(1, 3), 1 / 3)],
)
def test_an_exact_number_as_a_plain_one(value: Fraction | None, plain: object) -> None:
    assert as_plain_number(value) == plain
    assert type(as_plain_number(value)) is type(plain)


def build_reply_document() -> dict[str, Any]:
    guarantee = {"model": "dp", "epsilon": "1", "unit": "row", "neighbours": "add-remove", "assumptions": []}
    texts = dict.fromkeys(("question", "mechanism", "accuracy", "meaning", "missed_accuracy", "prior_use"), "text")
    rows = {"columns": ["n"], "numbers": ["n"], "dates": [], "rows": [{"n": 3}], "intervals_95": [{"n": [1, 5]}]}
    more = {"posteriors": None, "reconciled": None, "shaped_by_prior": False, "warning": None, "stored": False}
    return texts | rows | more | {"entry": 2, "spent_so_far": {"dp": "1/3"}, "guarantee": guarantee, "cost": guarantee}


@pytest.mark.parametrize(
    "change",
    [
        {"spent_so_far": {"dp": "1e5000"}},
        {"spent_so_far": {"dp": 1}},
        {"rows": [{}]},
        {"rows": []},
        {"rows": 5},
        {"intervals_95": []},
        {"intervals_95": [{"m": None}]},
        {"posteriors": [{}]},
        {"numbers": ["m"]},
        {"columns": [["n"]]},
        {"meaning": ["text"]},
        {"question": 3},
        {"warning": {"n": 1}},
        {"accuracy": None},
        {"prior_use": [1]},
    ],
)
def test_a_reply_that_is_no_answer_is_refused_as_it_is_read(change: dict[str, Any]) -> None:
    """Whoever sends it: it would be an error of another kind as the answer is shown, or take all time and memory."""
    assert str(Answer.from_json(build_reply_document()))
    with pytest.raises((LookupError, TypeError, ValueError)):
        Answer.from_json(build_reply_document() | change)
