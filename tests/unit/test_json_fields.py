"""Values as JSON: what is written is read again, and names are those that are listed."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as some

from discreet.json_fields import JsonSerializable, to_json_value
from discreet.numeric import as_plain_number


@dataclass(frozen=True, slots=True)
class Part(JsonSerializable):
    amount: Fraction
    names: tuple[str, ...] = ()

    _json_fields = "price=amount names?"


@dataclass(frozen=True, slots=True)
class Whole(JsonSerializable):
    count: int
    label: str
    is_new: bool
    parts: tuple[Part, ...]
    ends: tuple[Fraction, Fraction]
    shares: Mapping[str, Fraction]
    secret: str = field(default="kept here", repr=False)
    best: Part | None = None
    share: float | None = None
    place: Path | None = None

    _json_fields = "label count new=is_new parts ends inner.shares=shares best share size words place"
    _refuses_unknown_names = True

    @property
    def size(self) -> int:
        return len(self.parts)

    def words(self) -> str:
        return f"{self.label} of {self.size}"


WHOLE = Whole(3, "three", True, (Part(Fraction(1, 3), ("a",)), Part(Fraction(2))), (Fraction(0), Fraction(1, 7)), {})
DOCUMENT: dict[str, Any] = {
    "label": "three",
    "count": 3,
    "new": True,
    "parts": [{"price": "1/3", "names": ["a"]}, {"price": "2"}],
    "ends": ["0", "1/7"],
    "inner": {"shares": {}},
    "best": None,
    "share": None,
    "size": 2,
    "words": "three of 2",
    "place": None,
}
numbers = some.fractions()
parts = some.builds(Part, numbers, some.lists(some.text(), max_size=3).map(tuple))
wholes = some.builds(
    Whole,
    some.integers(),
    some.text(),
    some.booleans(),
    some.lists(parts, max_size=3).map(tuple),
    some.tuples(numbers, numbers),
    some.dictionaries(some.text(), numbers, max_size=3),
    best=parts | some.none(),
    share=some.floats(allow_nan=False) | some.none(),
)


def test_a_document_has_the_names_that_are_listed_in_their_order() -> None:
    assert WHOLE.to_json() == DOCUMENT
    assert list(WHOLE.to_json()) == list(DOCUMENT)


@given(wholes)
def test_what_is_written_is_read_again(whole: Whole) -> None:
    assert Whole.from_json(json.loads(json.dumps(whole.to_json()))) == whole


def test_numbers_are_exact_or_plain() -> None:
    value = {"a": (Fraction(1, 3), Part(Fraction(1, 2)))}
    assert to_json_value(value) == {"a": ["1/3", {"price": "1/2"}]}
    assert to_json_value(value, as_plain_number) == {"a": [1 / 3, {"price": as_plain_number(Fraction(1, 2))}]}


WRONG: list[dict[str, Any]] = [
    *(
        {name: value for name, value in DOCUMENT.items() if name != left_out}
        for left_out in ("label", "parts", "inner")
    ),
    DOCUMENT | {"of a later version": 1},
    DOCUMENT | {"count": "3"},
    DOCUMENT | {"count": True},
    DOCUMENT | {"label": 3},
    DOCUMENT | {"new": 1},
    DOCUMENT | {"parts": 3},
    DOCUMENT | {"parts": [{"price": "a lot"}]},
    DOCUMENT | {"ends": ["0"]},
    DOCUMENT | {"inner": []},
    DOCUMENT | {"inner": {"shares": ["a"]}},
]


@pytest.mark.parametrize("document", WRONG)
def test_what_is_no_document_of_it_is_refused(document: dict[str, Any]) -> None:
    with pytest.raises((LookupError, TypeError, ValueError, AttributeError)):
        Whole.from_json(document)


def test_a_list_is_no_document() -> None:
    with pytest.raises((LookupError, TypeError, ValueError)):
        Whole.from_json([])  # type: ignore[arg-type]


def test_a_name_that_is_missing_is_the_default() -> None:
    assert Part.from_json({"price": "2", "of a later version": 1}) == Part(Fraction(2))
    assert Whole.from_json({name: value for name, value in DOCUMENT.items() if name != "best"}) == WHOLE
