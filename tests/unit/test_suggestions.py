"""Refusals of unknown names: what is suggested, and how many names are listed."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from discreet.suggestions import build_unknown_name_error, count_slips, find_similar_names, list_names

COLUMNS = ("age", "income", "smoker", "diagnosis", "education")
WORDS = st.text("abc", max_size=7)


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("agee", ["age"]),  # a letter too many
        ("incme", ["income"]),  # one too few
        ("smuker", ["smoker"]),  # a wrong one
        ("daignosis", ["diagnosis"]),  # two exchanged
        ("DIAGNOSSI", ["diagnosis"]),
        ("educattoin", ["education"]),
        ("ag", ["age"]),
        ("Income", ["income"]),
        ("inc", []),  # three letters are no slip
        ("aeg", ["age"]),
        ("agxx", []),  # of a short name, two are none
        ("weight", []),
        ("a", []),
        ("", []),
        ("x" * 41, []),
    ],
)
def test_one_or_two_slips_are_recognized(typed: str, meant: list[str]) -> None:
    assert find_similar_names(typed, COLUMNS) == meant


def test_the_nearest_names_are_suggested_and_at_most_three() -> None:
    codes = [f"A{number:02}" for number in range(20)]
    assert find_similar_names("A0X", codes) == ["A00", "A01", "A02"]
    assert find_similar_names("column", ["columns", "collumms", "kolumn"]) == ["columns", "kolumn"]


def count_slips_by_definition(word: str, other: str) -> int:
    """The optimal string alignment distance, cell by cell."""
    slips = {}
    for i in range(len(word) + 1):
        for j in range(len(other) + 1):
            if not i or not j:
                slips[i, j] = i + j
                continue
            replaced = slips[i - 1, j - 1] + (word[i - 1] != other[j - 1])
            slips[i, j] = min(slips[i - 1, j] + 1, slips[i, j - 1] + 1, replaced)
            if i > 1 and j > 1 and word[i - 1] == other[j - 2] and word[i - 2] == other[j - 1]:
                slips[i, j] = min(slips[i, j], slips[i - 2, j - 2] + 1)
    return slips[len(word), len(other)]


@given(WORDS, WORDS, st.integers(1, 3))
def test_slips_are_counted_up_to_a_limit(word: str, other: str, most: int) -> None:
    assert count_slips(word, other, most) == min(count_slips_by_definition(word, other), most + 1)


def test_ten_names_are_listed_and_how_many_more_there_are() -> None:
    names = [f"n{number}" for number in range(12)]
    assert list_names(names[:10]) == "n0, n1, n2, n3, n4, n5, n6, n7, n8, n9"
    assert list_names(names[:11]) == "n0, n1, n2, n3, n4, n5, n6, n7, n8, n9 and 1 more"
    assert list_names(f"n{number}" for number in range(2011)).endswith("n9 and 2,001 more")
    assert len(list_names(["x" * 5000] * 3)) < 130


@pytest.mark.parametrize(
    ("typed", "known", "sentence"),
    [
        ("ages", ("age", "sex"), "unknown column 'ages' of the table; did you mean 'age'?"),
        ("weight", ("age", "sex"), "unknown column 'weight' of the table; use one of age, sex"),
        ("weight", ("age",), "unknown column 'weight' of the table; use age"),
        ("weight", (), "unknown column 'weight' of the table"),
        ("\x1b[31m", ("age",), "unknown column '\\x1b[31m' of the table; use age"),
    ],
)
def test_a_refusal_suggests_or_lists(typed: str, known: tuple[str, ...], sentence: str) -> None:
    error = build_unknown_name_error("column", typed, known, "unknown-column", place="of the table")
    assert (str(error), error.code) == (sentence, "unknown-column")


def test_advice_ends_the_sentence() -> None:
    suggested = build_unknown_name_error("file", "date.csv", ["data.csv"], advice="or make it with discreet init")
    listed = build_unknown_name_error("file", "x.csv", ["data.csv"], advice="or make it with discreet init")
    assert str(suggested) == "unknown file 'date.csv'; did you mean 'data.csv'; or make it with discreet init"
    assert str(listed) == "unknown file 'x.csv'; use data.csv; or make it with discreet init"


def test_long_lists_are_searched_quickly() -> None:
    names = [f"a_long_name_of_a_category_{number:07}" for number in range(100_000)]
    start = time.process_time()
    assert find_similar_names("b_long_name_of_a_category_00x00xx", names) == []
    assert time.process_time() - start < 5
