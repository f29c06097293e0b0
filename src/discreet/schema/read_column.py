"""A column from its declaration."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import cast, get_args

from discreet import exact
from discreet.errors import InvalidInput
from discreet.exact import parse_days
from discreet.schema import expect
from discreet.schema.column import Column, Kind, Role, Trend, encode_bounds
from discreet.schema.document import Node
from discreet.schema.keys import COLUMN_KEYS, KIND_KEYS, MappingKeys, list_kind_keys
from discreet.schema.read_taxonomy import read_taxonomy

Pairs = Mapping[str, Node]

MAX_CATEGORIES = 100_000
MAX_TERM = 2**53
"""Beyond it not every whole number is a double, and engines would not agree on what a step is."""


def read_column(name: str, node: Node, folder: Path) -> Column | None:
    """A column as declared; None where it is an identifier, which needs no domain and is never asked about."""
    pairs = expect.expect_closed_mapping(node, f"column {name}", MappingKeys(COLUMN_KEYS.allowed))
    role = cast(Role, expect.expect_one_of(pairs.get("role", "other"), f"the role of {name}", get_args(Role)))
    if role == "identifier":
        return None
    expect.expect_closed_mapping(node, f"column {name}", COLUMN_KEYS)
    kind = cast(Kind, expect.expect_one_of(pairs["kind"], f"the kind of {name}", get_args(Kind)))
    expect.expect_closed_mapping(node, f"column {name} of kind {kind}", list_kind_keys(kind))
    absent = expect.expect_texts(pairs.get("missing_values", []), f"missing_values of {name}")
    column = _set_domain(Column(name, kind, role=role, missing_values=absent), pairs, folder)
    column = replace(column, counts=_parse_trend(name, pairs["counts"])) if "counts" in pairs else column
    return replace(column, missing=_parse_missing_code(column, pairs["missing"])) if "missing" in pairs else column


def _set_domain(column: Column, pairs: Pairs, folder: Path) -> Column:
    match column.kind:
        case "integer" | "number":
            return _set_number_bounds(column, pairs)
        case "date":
            return _set_date_bounds(column, pairs)
        case "boolean":
            return set_categories(column, ("false", "true"))
        case "ordinal":
            return _set_listed_categories(column, pairs["categories"])
        case "nominal":
            return _set_nominal_values(column, pairs, folder)


def _set_number_bounds(column: Column, pairs: Pairs) -> Column:
    subject = f"the step of {column.name}"
    step = exact.as_positive(expect.expect_number(pairs.get("step", "1"), subject), subject)
    if column.kind == "integer":
        exact.as_int(step, subject)
    if max(step.numerator, step.denominator) > MAX_TERM:
        raise InvalidInput(f"{subject} must be a ratio of whole numbers of at most 2^53, such as 0.01")
    lower_bound = expect.expect_number(pairs["lower"], f"the lower bound of {column.name}")
    upper_bound = expect.expect_number(pairs["upper"], f"the upper bound of {column.name}")
    lower, upper = encode_bounds(lower_bound, upper_bound, step, column.name)
    return replace(column, lower=lower, upper=upper, step=step)


def _set_date_bounds(column: Column, pairs: Pairs) -> Column:
    first = expect.expect_text(pairs["lower"], f"the lower bound of {column.name}")
    last = expect.expect_text(pairs["upper"], f"the upper bound of {column.name}")
    lower, upper = (
        parse_days(first, f"the lower bound of {column.name}"),
        parse_days(last, f"the upper bound of {column.name}"),
    )
    if lower > upper:
        raise InvalidInput(f"the bounds of {column.name} are reversed: lower {first}, upper {last}")
    return replace(column, lower=lower, upper=upper)


def _set_nominal_values(column: Column, pairs: Pairs, folder: Path) -> Column:
    """The values of a nominal column: a public list, the leaves of a taxonomy, or private."""
    value_keys = [key for key in KIND_KEYS["nominal"] if key in pairs]
    if len(value_keys) != 1:
        raise InvalidInput(
            f"column {column.name} needs exactly one of categories, taxonomy and keys: private, for its values"
        )
    if value_keys == ["keys"]:
        expect.expect_one_of(pairs["keys"], f"keys of {column.name}", ("private",))
        return replace(column, private_keys=True)
    if value_keys == ["categories"]:
        return _set_listed_categories(column, pairs["categories"])
    taxonomy = read_taxonomy(pairs["taxonomy"], f"the taxonomy of {column.name}", folder)
    return replace(set_categories(column, taxonomy.leaves), taxonomy=taxonomy)


def _set_listed_categories(column: Column, node: Node) -> Column:
    return set_categories(column, expect.expect_texts(node, f"the categories of {column.name}"))


def set_categories(column: Column, categories: tuple[str, ...]) -> Column:
    """The column with these values, coded in this order."""
    name = column.name
    if not 1 <= len(categories) <= MAX_CATEGORIES:
        raise InvalidInput(f"{name} must have 1 to {MAX_CATEGORIES} categories, got {len(categories)}")
    if len(set(categories)) < len(categories):
        duplicate = Counter(categories).most_common(1)[0][0]
        raise InvalidInput(f"the categories of {name} have {duplicate[:40]!r} twice; list each once")
    overlap = sorted(set(categories) & set(column.missing_values))
    if overlap:
        raise InvalidInput(f"{overlap[0][:40]!r} is a category of {name} and also among its missing_values; choose one")
    return replace(column, categories=categories, upper=len(categories) - 1)


def _parse_trend(name: str, node: Node) -> Trend:
    return cast(Trend, expect.expect_one_of(node, f"counts of {name}", get_args(Trend)))


def _parse_missing_code(column: Column, node: Node) -> int:
    """The code that a missing value stands for."""
    subject = f"missing of {column.name}"
    text = expect.expect_text(node, subject)
    if column.private_keys:
        raise InvalidInput(f"{subject} cannot be declared, since its keys are private; leave it out")
    place = column.find_position(text)
    if place.denominator != 1 or not column.lower <= place <= column.upper:
        raise InvalidInput(f"{subject} must be one of its values, within its bounds and on its step, got {text[:40]!r}")
    return int(place)
