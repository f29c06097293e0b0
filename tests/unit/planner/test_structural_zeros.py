"""Combinations that a schema declares impossible: read from SQL, and true of the very cells and rows they name."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from discreet import InvalidInput
from discreet.planner.public_facts import StructuralZeros, read_structural_zeros
from discreet.query.predicates import AllOf, AnyOf, InRanges, Predicate, is_satisfied
from discreet.query.scan import MISSING_CODE
from discreet.schema import Schema, schema_from_text, schema_to_public_json

TEXT = """\
name: people
source: people.csv
neighbours: replace-one
units: 10
budget: {{epsilon: 1}}
impossible: {conditions}
columns:
  age: {{kind: integer, lower: 0, upper: 99}}
  married: {{kind: boolean}}
  job: {{kind: nominal, categories: [none, nurse, judge]}}
  town: {{kind: nominal, keys: private}}
"""


def build_schema(*conditions: str) -> Schema:
    listed = "[" + ", ".join(f'"{condition}"' for condition in conditions) + "]"
    return schema_from_text(TEXT.format(conditions=listed), Path())


def test_declared_combinations_are_read_and_public() -> None:
    """They are conditions of SQL, and part of what analysts may see."""
    declared_schema = build_schema("age < 15 AND married = true", "age < 30 AND job = 'judge'")
    zeros = read_structural_zeros(declared_schema)
    codes = {"age": np.array([14, 14, 15, 29]), "married": np.array([1, 0, 1, 0]), "job": np.array([0, 0, 0, 2])}
    assert zeros.find_impossible_rows(codes).tolist() == [True, False, False, True]
    assert zeros.restrict_to(("age", "married")).find_impossible_rows(codes).tolist() == [True, False, False, False]
    assert schema_to_public_json(declared_schema)["impossible"] == list(declared_schema.impossible)
    assert read_structural_zeros(build_schema()).find_impossible_rows(codes).tolist() == [False] * 4


@pytest.mark.parametrize("condition", ["age <", "height > 2", "town = 'Ash'", "age > 3 GROUP BY job", "COUNT(*) > 1"])
def test_what_cannot_be_read_is_refused(condition: str) -> None:
    """In one sentence that says which it is."""
    with pytest.raises(InvalidInput, match="declared impossible"):
        read_structural_zeros(build_schema(condition))


def st_predicates() -> st.SearchStrategy[Predicate]:
    ranges = st.sampled_from([((0, 1),), ((2, 4),), ((0, 0), (3, 4)), ()])
    leaves = st.builds(InRanges, st.sampled_from(["a", "b"]), ranges, st.booleans())
    return st.recursive(
        leaves, lambda parts: st.builds(AllOf, _st_tuples(parts)) | st.builds(AnyOf, _st_tuples(parts)), max_leaves=5
    )


def _st_tuples(parts: st.SearchStrategy[Predicate]) -> st.SearchStrategy[tuple[Predicate, ...]]:
    return st.lists(parts, min_size=1, max_size=3).map(tuple)


@given(st.lists(st_predicates(), max_size=2))
def test_rows_and_tables_agree_with_the_plain_meaning(conditions: list[Predicate]) -> None:
    """A cell of a table is empty where no pair of codes in it is possible, by the plain meaning of the conditions."""
    never = StructuralZeros(tuple(conditions))
    codes = [*range(5), MISSING_CODE]
    pairs = list(product(codes, codes))
    plain = {
        (a, b): any(
            is_satisfied(condition, {"a": None if a == MISSING_CODE else a, "b": None if b == MISSING_CODE else b})
            for condition in conditions
        )
        for a, b in pairs
    }
    columns = {"a": np.array([a for a, _ in pairs]), "b": np.array([b for _, b in pairs])}
    assert never.find_impossible_rows(columns).tolist() == [plain[pair] for pair in pairs]
    bins = [np.array([0, 1]), np.array([2]), np.array([3, 4]), np.array([MISSING_CODE])]
    table = never.find_empty_cells(("a", bins), ("b", bins))
    for i, j in product(range(4), range(4)):
        assert table[i, j] == all(plain[int(a), int(b)] for a, b in product(bins[i], bins[j]))


def test_a_row_that_can_be_is_found_or_refused() -> None:
    """Exactly: where some combination of values is left one is named, and where none is the schema is wrong."""
    domains = {"age": np.arange(100), "married": np.arange(2), "job": np.arange(3)}
    zeros = read_structural_zeros(build_schema("age <> 57", "married = false", "job <> 'judge'")).find_possible_row(
        domains
    )
    assert zeros == {"age": 57, "married": 1, "job": 2}
    with pytest.raises(InvalidInput, match="leaves no row that can be"):
        read_structural_zeros(build_schema("age < 50", "age >= 50")).find_possible_row(domains)
