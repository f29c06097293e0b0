"""Which two data sets were audited, in a few words."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

from discreet.exact import format_exact
from discreet.planner.plan import Plan
from discreet.testing.generated import Pair, Row, Rows
from discreet.testing.private import find_boundary_values

MAX_TEXT_LENGTH = 100
MAX_COLUMNS_NAMED = 3
"""So many of the columns in which two rows differ are told, those first that the question is about."""

TextPair = tuple[str, str]


def describe_inputs(pair: tuple[Any, Any]) -> TextPair:
    """Two inputs as JSON, cut where they are long."""
    first, second = (_truncate_text(json.dumps(data)) for data in pair)
    return first, second


def describe_tables(planned: Plan, pair: Pair) -> TextPair:
    """How many rows either table has, and what is in it alone."""
    rows = [Counter(tuple(row.items()) for row in table) for table in pair]
    extra_rows = [[dict(row) for row in (first - second).elements()] for first, second in (rows, rows[::-1])]
    names = _select_differing_columns(planned, extra_rows)
    first, second = (
        _describe_table(planned, table, alone, names) for table, alone in zip(pair, extra_rows, strict=True)
    )
    return first, second


def _select_differing_columns(planned: Plan, extra_rows: Sequence[Rows]) -> list[str]:
    """The columns in which the rows differ, those that the question is about first."""
    query = planned.query
    query_columns = (
        {key.column for key in query.keys}
        | {aggregate.column for aggregate in query.aggregates}
        | set(find_boundary_values(query))
    )
    differ = [
        name for name in planned.schema.columns if len({row.get(name) for rows in extra_rows for row in rows}) > 1
    ]
    all_columns = [] if all(extra_rows) else list(planned.schema.columns)
    return sorted(all_columns or differ, key=lambda name: name not in query_columns)[:MAX_COLUMNS_NAMED]


def _describe_table(planned: Plan, table: Rows, alone: Rows, names: Sequence[str]) -> str:
    size = f"{len(table)} row{'' if len(table) == 1 else 's'}"
    if not alone:
        return size
    first = ", ".join(f"{name} {_format_cell(planned, alone[0], name)}" for name in names)
    separator = ": " if len(alone) == 1 else ", such as "
    return _truncate_text(f"{size}, {len(alone)} of them not in the other" + (f"{separator}{first}" if first else ""))


def _format_cell(planned: Plan, row: Row, name: str) -> str:
    code = row.get(name)
    if code is None:
        return "missing"
    value = planned.schema.columns[name].decode(code) if isinstance(code, int) else code
    return format_exact(value) if isinstance(value, Fraction) else str(value)


def _truncate_text(text: str) -> str:
    return text if len(text) <= MAX_TEXT_LENGTH else f"{text[: MAX_TEXT_LENGTH - 1]}…"
