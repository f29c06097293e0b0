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
from discreet.schema.column import Column, DerivedCodes, encode_bounds
from discreet.schema.document import Node, trim_text
from discreet.schema.keys import LOOKUP_KEYS
from discreet.schema.read_column import set_categories

MAX_KEYS = 100_000
INTEGER_TEXT = re.compile(r"-?(0|[1-9][0-9]{0,14})")
"""A text with leading zeros is a name, not a number."""
Row = list[str]


def read_lookup(name: str, node: Node, columns: Mapping[str, Column], folder: Path) -> tuple[str, list[Column]]:
    """The key column's name, and a derived column for each further column of the table.

    The first column of the CSV file is matched with the key's values, at most one row to a value; rows of other values
    are left out. A value without a row, and an empty cell, are missing.
    """
    subject = f"lookup {name}"
    pairs = expect.expect_closed_mapping(node, subject, LOOKUP_KEYS)
    key = _find_key_column(expect.expect_text(pairs["key"], f"the key of {subject}"), columns, subject)
    header, rows = _parse_table(expect.read_referenced_file(pairs["file"], f"the file of {subject}", folder), subject)
    matched_rows = _match_rows(rows, key, subject)
    return key.name, [
        _build_derived_column(f"{name}.{label}", place, matched_rows, key)
        for place, label in enumerate(header)
        if place
    ]


def _find_key_column(name: str, columns: Mapping[str, Column], subject: str) -> Column:
    key = columns.get(name)
    if key is None or not (key.categories or key.kind == "integer") or key.size > MAX_KEYS:
        requirement = f"a column with categories, or an integer or boolean one, of at most {MAX_KEYS} values"
        raise InvalidInput(f"the key of {subject} must be {requirement}, got {name[:40]!r}")
    return key


def _parse_table(text: str, subject: str) -> tuple[Row, list[Row]]:
    """The header and the rows, which are all as long."""
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    try:
        lines = [[trim_text(cell, f"line {reader.line_num} of {subject}") for cell in line] for line in reader if line]
    except csv.Error:
        raise InvalidInput(f"line {reader.line_num} of {subject} is not CSV; quote cells that hold a comma") from None
    header, rows = (lines[0], lines[1:]) if lines else ([], [])
    if len(header) < 2 or not rows:
        raise InvalidInput(f"{subject} must have a header, a key column, a further column and rows")
    labels = [expect.expect_name(label, f"a column's name in {subject}").lower() for label in header[1:]]
    if len(set(labels)) < len(labels):
        raise InvalidInput(f"{subject} has two columns of the same name, in any case; rename one")
    if any(len(row) != len(header) for row in rows):
        raise InvalidInput(f"{subject} has rows that are longer or shorter than its header; make them alike")
    return header, rows


def _match_rows(rows: list[Row], key: Column, subject: str) -> dict[int, Row]:
    """The row of each code."""
    find_code = _build_coder(key)
    matched_rows: dict[int, Row] = {}
    used_keys: set[str] = set()
    for row in rows:
        code = find_code(row[0])
        if row[0] in used_keys or code in matched_rows:
            raise InvalidInput(f"{subject} has the key {row[0][:40]!r} twice; it would multiply rows, so keep one")
        used_keys.add(row[0])
        if code is not None:
            matched_rows[code] = row
    if not matched_rows:
        raise InvalidInput(f"{subject} has no key that is a value of {key.name}; check its first column")
    return matched_rows


def _build_coder(key: Column) -> Callable[[str], int | None]:
    """How a text of the key becomes a code; None for what is not in the key's domain."""
    if key.categories:
        codes = {category: code for code, category in enumerate(key.categories)}
        return (lambda text: codes.get(text.lower())) if key.kind == "boolean" else codes.get

    def find_code(text: str) -> int | None:
        place = Fraction(int(text)) / key.step if INTEGER_TEXT.fullmatch(text) else None
        inside = place is not None and place.denominator == 1 and key.lower <= place <= key.upper
        return int(place) if inside else None  # type: ignore[arg-type]

    return find_code


def _build_derived_column(name: str, place: int, matched_rows: Mapping[int, Row], key: Column) -> Column:
    """One further column: whole numbers where every value is one, else categories as they first appear."""
    cells = {code: row[place] for code, row in matched_rows.items() if row[place]}
    values = dict.fromkeys(cells.values())
    if not values:
        raise InvalidInput(f"{name} has no value for any value of {key.name}; fill it or remove it")
    if all(INTEGER_TEXT.fullmatch(value) for value in values):
        numbers = [Fraction(value) for value in values]
        lower, upper = encode_bounds(min(numbers), max(numbers), Fraction(1), name)
        codes = {value: int(value) for value in values}
        column = Column(name, "integer", lower, upper)
    else:
        codes = {value: code for code, value in enumerate(values)}
        column = set_categories(Column(name, "nominal"), tuple(values))
    derived = tuple(codes[cells[code]] if code in cells else None for code in range(key.lower, key.upper + 1))
    return replace(column, derived=DerivedCodes(key.name, derived))
