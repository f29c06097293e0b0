"""A column from its declaration."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import cast, get_args

from discreet import exact
from discreet.errors import InvalidInput
from discreet.schema import expect
from discreet.schema.column import Column, Kind, Role, Trend, days, domain
from discreet.schema.document import Node
from discreet.schema.keys import COLUMN, OF_KIND, Keys, of_kind
from discreet.schema.read_taxonomy import read_taxonomy

Pairs = Mapping[str, Node]

MOST_CATEGORIES = 100_000
LARGEST_TERM = 2**53
"""Beyond it not every whole number is a double, and engines would not agree on what a step is."""


def read_column(name: str, node: Node, folder: Path) -> Column | None:
    """A column as declared; None where it is an identifier, which needs no domain and is never asked about."""
    pairs = expect.closed(node, f"column {name}", Keys(COLUMN.allowed))
    role = cast(Role, expect.one_of(pairs.get("role", "other"), f"the role of {name}", get_args(Role)))
    if role == "identifier":
        return None
    expect.closed(node, f"column {name}", COLUMN)
    kind = cast(Kind, expect.one_of(pairs["kind"], f"the kind of {name}", get_args(Kind)))
    expect.closed(node, f"column {name} of kind {kind}", of_kind(kind))
    absent = expect.texts(pairs.get("missing_values", []), f"missing_values of {name}")
    column = _with_domain(Column(name, kind, role=role, missing_values=absent), pairs, folder)
    column = replace(column, counts=_counts(name, pairs["counts"])) if "counts" in pairs else column
    return replace(column, missing=_missing(column, pairs["missing"])) if "missing" in pairs else column


def _with_domain(column: Column, pairs: Pairs, folder: Path) -> Column:
    match column.kind:
        case "integer" | "number":
            return _with_numbers(column, pairs)
        case "date":
            return _with_dates(column, pairs)
        case "boolean":
            return with_categories(column, ("false", "true"))
        case "ordinal":
            return _with_list(column, pairs["categories"])
        case "nominal":
            return _with_values(column, pairs, folder)


def _with_numbers(column: Column, pairs: Pairs) -> Column:
    what = f"the step of {column.name}"
    step = exact.positive(expect.number(pairs.get("step", "1"), what), what)
    if column.kind == "integer":
        exact.whole(step, what)
    if max(step.numerator, step.denominator) > LARGEST_TERM:
        raise InvalidInput(f"{what} must be a ratio of whole numbers of at most 2^53, such as 0.01")
    below = expect.number(pairs["lower"], f"the lower bound of {column.name}")
    above = expect.number(pairs["upper"], f"the upper bound of {column.name}")
    lower, upper = domain(below, above, step, column.name)
    return replace(column, lower=lower, upper=upper, step=step)


def _with_dates(column: Column, pairs: Pairs) -> Column:
    first = expect.text(pairs["lower"], f"the lower bound of {column.name}")
    last = expect.text(pairs["upper"], f"the upper bound of {column.name}")
    lower, upper = days(first, f"the lower bound of {column.name}"), days(last, f"the upper bound of {column.name}")
    if lower > upper:
        raise InvalidInput(f"the bounds of {column.name} are reversed: lower {first}, upper {last}")
    return replace(column, lower=lower, upper=upper)


def _with_values(column: Column, pairs: Pairs, folder: Path) -> Column:
    """The values of a nominal column: a public list, the leaves of a taxonomy, or private."""
    given = [key for key in OF_KIND["nominal"] if key in pairs]
    if len(given) != 1:
        raise InvalidInput(
            f"column {column.name} needs exactly one of categories, taxonomy and keys: private, for its values"
        )
    if given == ["keys"]:
        expect.one_of(pairs["keys"], f"keys of {column.name}", ("private",))
        return replace(column, private_keys=True)
    if given == ["categories"]:
        return _with_list(column, pairs["categories"])
    taxonomy = read_taxonomy(pairs["taxonomy"], f"the taxonomy of {column.name}", folder)
    return replace(with_categories(column, taxonomy.leaves), taxonomy=taxonomy)


def _with_list(column: Column, node: Node) -> Column:
    return with_categories(column, expect.texts(node, f"the categories of {column.name}"))


def with_categories(column: Column, categories: tuple[str, ...]) -> Column:
    """The column with these values, coded in this order."""
    name = column.name
    if not 1 <= len(categories) <= MOST_CATEGORIES:
        raise InvalidInput(f"{name} must have 1 to {MOST_CATEGORIES} categories, got {len(categories)}")
    if len(set(categories)) < len(categories):
        again = Counter(categories).most_common(1)[0][0]
        raise InvalidInput(f"the categories of {name} have {again[:40]!r} twice; list each once")
    both = sorted(set(categories) & set(column.missing_values))
    if both:
        raise InvalidInput(f"{both[0][:40]!r} is a category of {name} and also among its missing_values; choose one")
    return replace(column, categories=categories, upper=len(categories) - 1)


def _counts(name: str, node: Node) -> Trend:
    return cast(Trend, expect.one_of(node, f"counts of {name}", get_args(Trend)))


def _missing(column: Column, node: Node) -> int:
    """The code that a missing value stands for."""
    what = f"missing of {column.name}"
    text = expect.text(node, what)
    if column.private_keys:
        raise InvalidInput(f"{what} cannot be declared, since its keys are private; leave it out")
    place = column.place(text)
    if place.denominator != 1 or not column.lower <= place <= column.upper:
        raise InvalidInput(f"{what} must be one of its values, within its bounds and on its step, got {text[:40]!r}")
    return int(place)
