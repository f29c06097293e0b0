"""Fields of JSON documents are read as the type that they must have."""

from __future__ import annotations

from fractions import Fraction

import pytest

from discreet import json_fields as jf

DOCUMENT = {
    "text": "a",
    "count": 3,
    "share": 0.5,
    "flag": True,
    "exact": "1/3",
    "null": None,
    "texts": ["a", "b"],
    "numbers": [1, 2.5],
    "inner": {"text": "b"},
    "inners": [{"text": "c"}],
}


def test_fields_are_read_as_their_type() -> None:
    assert (jf.read_field(DOCUMENT, "text", str), jf.read_field(DOCUMENT, "count", int)) == ("a", 3)
    assert jf.read_field(DOCUMENT, "flag", bool) is True
    assert (jf.read_number(DOCUMENT, "count"), jf.read_number(DOCUMENT, "share")) == (3, 0.5)
    assert jf.read_fraction(DOCUMENT, "exact") == Fraction(1, 3)
    assert jf.read_choice(DOCUMENT, "text", ("b", "a")) == "a"
    assert jf.read_list(DOCUMENT, "texts", str) == ("a", "b")
    assert jf.read_numbers(DOCUMENT, "numbers") == (1, 2.5)
    assert jf.read_inner_document(DOCUMENT, "inner") == {"text": "b"}
    assert jf.read_documents(DOCUMENT, "inners") == ({"text": "c"},)


@pytest.mark.parametrize("name", ["null", "missing"])
def test_what_may_be_left_out_is_none(name: str) -> None:
    assert jf.read_optional(DOCUMENT, name, str) is None
    assert jf.read_optional_number(DOCUMENT, name) is None
    assert jf.read_optional_fraction(DOCUMENT, name) is None
    assert jf.read_optional_document(DOCUMENT, name) is None
    assert jf.read_optional_list(DOCUMENT, "missing", str) == ()


def test_a_missing_field_is_a_key_error() -> None:
    for read in (jf.read_number, jf.read_fraction, jf.read_inner_document, jf.read_documents, jf.read_numbers):
        with pytest.raises(KeyError):
            read(DOCUMENT, "missing")


def test_another_type_is_refused() -> None:
    """A truth value is no number, though Python has it as one."""
    for name, kind in (("count", str), ("flag", int), ("text", int), ("count", bool)):
        with pytest.raises(TypeError, match="was expected"):
            jf.read_field(DOCUMENT, name, kind)
    for read in (jf.read_number, jf.read_optional_number, jf.read_documents, jf.read_numbers, jf.read_inner_document):
        with pytest.raises(TypeError):
            read(DOCUMENT, "flag")
    with pytest.raises(TypeError):
        jf.read_list(DOCUMENT, "numbers", str)
    with pytest.raises(TypeError):
        jf.read_documents(DOCUMENT, "texts")
    with pytest.raises(ValueError, match="not known"):
        jf.read_choice(DOCUMENT, "text", ("b", "c"))
