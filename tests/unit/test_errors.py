"""Errors: their codes, and the place in the SQL that they mark."""

from __future__ import annotations

import json
import traceback
from typing import get_args
from unicodedata import east_asian_width

import pytest
from hypothesis import given
from hypothesis import strategies as st

from discreet import errors
from discreet.errors import ERROR_CODES, MAX_WIDTH, DiscreetError, ErrorCode, InvalidInput, SqlPosition

CODES = (
    "invalid-input syntax unsupported-sql unknown-name unknown-column unknown-table unknown-function unknown-category "
    "wrong-type budget-exceeded unsupported unavailable claim-failed internal"
)


def mark(text: str, place: str) -> list[str]:
    start = text.index(place)
    return SqlPosition.locate(text, start, start + len(place)).mark().split("\n")


def test_codes_never_change() -> None:
    """Programs compare them: a code may be added, and none renamed or removed."""
    assert " ".join(ERROR_CODES) == CODES
    assert set(get_args(ErrorCode)) == set(ERROR_CODES)
    kinds = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, DiscreetError)]
    assert {kind.code for kind in kinds} <= set(ERROR_CODES)


def test_a_code_and_a_position_belong_to_one_error() -> None:
    error = InvalidInput("unknown column", code="unknown-column")
    error.set_position(SqlPosition.locate("SELECT agee", 7, 11))
    assert (error.code, InvalidInput.code, InvalidInput("other").position) == ("unknown-column", "invalid-input", None)
    assert str(error) == "unknown column"
    assert "SELECT agee\n       ^^^^" in "".join(traceback.format_exception(error))


@pytest.mark.parametrize(
    ("text", "place", "line", "carets"),
    [
        ("SELECT agee FROM r", "agee", "SELECT agee FROM r", "       ^^^^"),
        ("agee", "agee", "agee", "^^^^"),
        ("SELECT\n\tagee\nFROM r", "agee", " agee", " ^^^^"),
        ("SELECT a\r\nFROM r", "FROM", "FROM r", "^^^^"),
        ("SELECT a,\n b FROM r", "a,\n b", "SELECT a,", "       ^^"),
        ("city = '漢字' AND agee", "agee", "city = '漢字' AND agee", "                  ^^^^"),
        ("city = '漢字'", "漢字", "city = '漢字'", "        ^^^^"),
        ("city = 'e\u0301' AND agee", "agee", "city = 'e\u0301' AND agee", "               ^^^^"),
        ("a\x1b[31m\u202e\x00 agee", "agee", "a [31m   agee", "         ^^^^"),
    ],
)
def test_carets_stand_below_the_place(text: str, place: str, line: str, carets: str) -> None:
    """Tabs and what does not print are one space, a wide character two, an accent none."""
    assert mark(text, place) == [line, carets]


def test_a_place_has_a_line_and_a_column() -> None:
    position = SqlPosition.locate("SELECT a\nFROM r\nWHERE agee", 22, 26)
    assert position == SqlPosition(3, 7, 4, "WHERE agee", 7)


@pytest.mark.parametrize("start", [-5, 0, 3, 99])
def test_a_place_outside_the_text_is_marked_at_its_edge(start: int) -> None:
    line, carets = SqlPosition.locate("abc", start, start).mark().split("\n")
    assert (line, carets) == ("abc", " " * min(max(start, 0), 3) + "^")


@pytest.mark.parametrize("start", [0, 30, 74, 5000, 19_990])
def test_of_a_long_line_the_part_around_the_place_is_shown(start: int) -> None:
    text = "x" * start + "agee" + "y" * (20_000 - start)
    line, carets = mark(text, "agee")
    assert line[carets.index("^") :][: carets.count("^")] == "agee"
    assert len(line) <= MAX_WIDTH + 3 < 80
    assert line.startswith("...") == (not line.startswith(text[:5]))
    assert len(json.dumps(SqlPosition.locate(text, start, start + 4).to_json())) < 400


ANY_TEXT = st.text(st.characters() | st.sampled_from("\n\t\r '\"漢e\u0301\u202e\x1b"), max_size=200)


@given(ANY_TEXT, st.integers(0, 200), st.integers(0, 200), st.integers(1, 100))
def test_any_text_is_marked_within_the_width(text: str, start: int, length: int, times: int) -> None:
    """Nothing that does not print is shown, and what was sent as JSON is read again."""
    position = SqlPosition.locate(text * times, start, start + length)
    line, carets = position.mark().split("\n")
    assert (line + carets).isprintable()
    assert len(carets) <= MAX_WIDTH + 4
    assert carets.strip(" ") == "^" * carets.count("^") != ""
    assert sum(1 + (east_asian_width(char) in "WF") for char in line if east_asian_width(char) != "A") <= 2 * 200
    assert SqlPosition.from_json(json.loads(json.dumps(position.to_json()))) == position


@pytest.mark.parametrize(
    "changed",
    [
        {"line": 0},
        {"line": True},
        {"column": "3"},
        {"length": 0},
        {"length": 999},
        {"length": 10**12},
        {"text_column": 99},
        {"text": 5},
        {"text": "x" * 20_000},
        {"text": None},
    ],
)
def test_another_document_is_no_position(changed: dict[str, object]) -> None:
    """A service that is not ours may send anything."""
    document = SqlPosition.locate("SELECT agee", 7, 11).to_json()
    assert SqlPosition.from_json(document) is not None
    assert SqlPosition.from_json(document | changed) is None
    assert SqlPosition.from_json([document]) is None


def test_what_a_service_sends_is_made_printable() -> None:
    document = SqlPosition.locate("SELECT agee", 7, 11).to_json() | {"text": "SELECT\x1bagee"}
    position = SqlPosition.from_json(document)
    assert position is not None
    assert position.mark() == "SELECT agee\n       ^^^^"
