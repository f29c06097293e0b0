"""Which two data sets were audited, in a few words."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

from discreet.exact import shown
from discreet.planner.plan import Plan
from discreet.testing.generated import Pair, Row, Rows
from discreet.testing.private import near

LONGEST = 100
MOST_NAMED = 3
"""So many of the columns in which two rows differ are told, those first that the question is about."""

Words = tuple[str, str]


def inputs_in_words(pair: tuple[Any, Any]) -> Words:
    """Two inputs as JSON, cut where they are long."""
    one, two = (_cut(json.dumps(data)) for data in pair)
    return one, two


def tables_in_words(planned: Plan, pair: Pair) -> Words:
    """How many rows either table has, and what is in it alone."""
    rows = [Counter(tuple(row.items()) for row in table) for table in pair]
    own = [[dict(row) for row in (one - two).elements()] for one, two in (rows, rows[::-1])]
    names = _differing(planned, own)
    one, two = (_table(planned, table, alone, names) for table, alone in zip(pair, own, strict=True))
    return one, two


def _differing(planned: Plan, own: Sequence[Rows]) -> list[str]:
    """The columns in which the rows differ, those that the question is about first."""
    query = planned.query
    asked = {key.column for key in query.keys} | {one.column for one in query.aggregates} | set(near(query))
    differ = [name for name in planned.schema.columns if len({row.get(name) for rows in own for row in rows}) > 1]
    alone = [] if all(own) else list(planned.schema.columns)
    return sorted(alone or differ, key=lambda name: name not in asked)[:MOST_NAMED]


def _table(planned: Plan, table: Rows, alone: Rows, names: Sequence[str]) -> str:
    size = f"{len(table)} row{'' if len(table) == 1 else 's'}"
    if not alone:
        return size
    first = ", ".join(f"{name} {_value(planned, alone[0], name)}" for name in names)
    such = ": " if len(alone) == 1 else ", such as "
    return _cut(f"{size}, {len(alone)} of them not in the other" + (f"{such}{first}" if first else ""))


def _value(planned: Plan, row: Row, name: str) -> str:
    code = row.get(name)
    if code is None:
        return "missing"
    value = planned.schema.columns[name].value(code) if isinstance(code, int) else code
    return shown(value) if isinstance(value, Fraction) else str(value)


def _cut(text: str) -> str:
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"
