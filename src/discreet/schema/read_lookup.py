"""A public table beside the schema, worked into columns: each of its values is known from the key column's code."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

from discreet.errors import InvalidInput
from discreet.schema import expect
from discreet.schema.column import Column, Derived, domain
from discreet.schema.document import Node, trimmed
from discreet.schema.keys import LOOKUP
from discreet.schema.read_column import with_categories

MOST_KEYS = 100_000
INTEGER = re.compile(r"-?(0|[1-9][0-9]{0,14})")
"""A text with leading zeros is a name, not a number."""
Row = list[str]


def read_lookup(name: str, node: Node, columns: Mapping[str, Column], folder: Path) -> tuple[str, list[Column]]:
    """The key column's name, and a derived column for each further column of the table.

    The first column of the CSV file is matched with the key's values, at most one row to a value; rows of other values
    are left out. A value without a row, and an empty cell, are missing.
    """
    what = f"lookup {name}"
    pairs = expect.closed(node, what, LOOKUP)
    key = _key(expect.text(pairs["key"], f"the key of {what}"), columns, what)
    header, rows = _table(expect.file(pairs["file"], f"the file of {what}", folder), what)
    found = _matched(rows, key, what)
    return key.name, [_derived(f"{name}.{label}", place, found, key) for place, label in enumerate(header) if place]


def _key(name: str, columns: Mapping[str, Column], what: str) -> Column:
    key = columns.get(name)
    if key is None or not (key.categories or key.kind == "integer") or key.size > MOST_KEYS:
        fitting = f"a column with categories, or an integer or boolean one, of at most {MOST_KEYS} values"
        raise InvalidInput(f"the key of {what} must be {fitting}, got {name[:40]!r}")
    return key


def _table(text: str, what: str) -> tuple[Row, list[Row]]:
    """The header and the rows, which are all as long."""
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    try:
        lines = [[trimmed(cell, f"line {reader.line_num} of {what}") for cell in line] for line in reader if line]
    except csv.Error:
        raise InvalidInput(f"line {reader.line_num} of {what} is not CSV; quote cells that hold a comma") from None
    header, rows = (lines[0], lines[1:]) if lines else ([], [])
    if len(header) < 2 or not rows:
        raise InvalidInput(f"{what} must have a header, a key column, a further column and rows")
    labels = [expect.name(label, f"a column's name in {what}").lower() for label in header[1:]]
    if len(set(labels)) < len(labels):
        raise InvalidInput(f"{what} has two columns of the same name, in any case; rename one")
    if any(len(row) != len(header) for row in rows):
        raise InvalidInput(f"{what} has rows that are longer or shorter than its header; make them alike")
    return header, rows


def _matched(rows: list[Row], key: Column, what: str) -> dict[int, Row]:
    """The row of each code."""
    code_of = _coder(key)
    found: dict[int, Row] = {}
    seen: set[str] = set()
    for row in rows:
        code = code_of(row[0])
        if row[0] in seen or code in found:
            raise InvalidInput(f"{what} has the key {row[0][:40]!r} twice; it would multiply rows, so keep one")
        seen.add(row[0])
        if code is not None:
            found[code] = row
    if not found:
        raise InvalidInput(f"{what} has no key that is a value of {key.name}; check its first column")
    return found


def _coder(key: Column) -> Callable[[str], int | None]:
    """How a text of the key becomes a code; None for what is not in the key's domain."""
    if key.categories:
        codes = {category: code for code, category in enumerate(key.categories)}
        return (lambda text: codes.get(text.lower())) if key.kind == "boolean" else codes.get

    def code_of(text: str) -> int | None:
        place = Fraction(int(text)) / key.step if INTEGER.fullmatch(text) else None
        inside = place is not None and place.denominator == 1 and key.lower <= place <= key.upper
        return int(place) if inside else None  # type: ignore[arg-type]

    return code_of


def _derived(name: str, place: int, found: Mapping[int, Row], key: Column) -> Column:
    """One further column: whole numbers where every value is one, else categories as they first appear."""
    cells = {code: row[place] for code, row in found.items() if row[place]}
    values = dict.fromkeys(cells.values())
    if not values:
        raise InvalidInput(f"{name} has no value for any value of {key.name}; fill it or remove it")
    if all(INTEGER.fullmatch(value) for value in values):
        numbers = [Fraction(value) for value in values]
        lower, upper = domain(min(numbers), max(numbers), Fraction(1), name)
        codes = {value: int(value) for value in values}
        column = Column(name, "integer", lower, upper)
    else:
        codes = {value: code for code, value in enumerate(values)}
        column = with_categories(Column(name, "nominal"), tuple(values))
    derived = tuple(codes[cells[code]] if code in cells else None for code in range(key.lower, key.upper + 1))
    return replace(column, derived=Derived(key.name, derived))
