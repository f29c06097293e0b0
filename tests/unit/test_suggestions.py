"""Refusals of unknown names: what is suggested, and how many names are listed."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from discreet.errors import InvalidInput
from discreet.schema import load_schema
from discreet.suggestions import (
    build_choice_error,
    build_missing_file_error,
    build_unknown_name_error,
    count_slips,
    find_similar_names,
    list_names,
)

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


def test_a_missing_file_suggests_one_beside_it(tmp_path: Path) -> None:
    """By its name alone; where none is similar nothing of the folder is told."""
    for name in ("registry.yaml", "registry.csv", "register.yaml\n", "secret.txt"):
        (tmp_path / name).touch()
    sentences = {
        name: str(build_missing_file_error("it is not there", tmp_path / name, "check its name"))
        for name in ("registyr.yaml", "regsitry.csv", "other.yaml", "below/registry.yaml", "r" * 5000, "a\0b")
    }
    assert sentences == {
        "registyr.yaml": "it is not there; did you mean 'registry.yaml'?",
        "regsitry.csv": "it is not there; did you mean 'registry.csv'?",
    } | dict.fromkeys(("other.yaml", "below/registry.yaml", "r" * 5000, "a\0b"), "it is not there; check its name")
    with pytest.raises(InvalidInput, match=r"did you mean 'registry\.yaml'") as refusal:
        load_schema(tmp_path / "registri.yaml")
    assert refusal.value.code == "unknown-name"


@pytest.mark.parametrize("value", ["generalise", 7, None, ["mdav"]])
def test_a_choice_is_refused_with_the_words_there_are(value: object) -> None:
    error = build_choice_error("the method", value, ("mdav", "generalize"), " or a Method")
    given = value if isinstance(value, str) else repr(value)
    hint = "; did you mean 'generalize'?" if value == "generalise" else ""
    assert str(error) == f"the method must be one of mdav, generalize or a Method, got {given!r}{hint}"
    assert error.code == "unknown-name"
