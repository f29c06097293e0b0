"""How many rows a question is expected to select, from public facts alone: stated, public, or a guess that says so."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from discreet.planner.facts import Facts
from discreet.query.predicate import All, OneOf, Predicate, Some, Within

USUAL_ROWS = 1000
"""What mechanisms are compared at where nothing at all is known."""
MAX_NAMED = 3


@dataclass(frozen=True, slots=True)
class ExpectedRows:
    """About how many rows each cell of a question has: `stated` by the analyst, `public`, a `guess`, or `unknown`.

    `assumption` says what a guess assumes.
    """

    number: int
    source: Literal["stated", "public", "guess", "unknown"]
    assumption: str = ""


ONE_ROW = ExpectedRows(1, "unknown")
"""Where the number of rows makes no difference."""


def expect_rows(facts: Facts, stated: int | None) -> ExpectedRows:
    """About how many rows are selected. It serves to compare mechanisms; only a number that is stated is relied on."""
    if stated is not None:
        return ExpectedRows(stated, "stated")
    known = facts.known_rows()
    if known is not None:
        return ExpectedRows(known, "public")
    units, share = facts.schema.units, even_share(facts.where, facts)
    if units is None or share is None:
        return ExpectedRows(USUAL_ROWS if units is None else max(1, units // 2), "unknown")
    return ExpectedRows(max(1, int(units * share / (facts.cells or 1))), "guess", _assumption(facts))


def even_share(where: Predicate, facts: Facts) -> float | None:
    """The share of rows that satisfy a condition if all values are equally frequent and columns are unrelated.

    None where a column has no public values.
    """
    match where:
        case Within(column, ranges):
            return sum(high - low + 1 for low, high in ranges) / facts.schema.column(column).size
        case OneOf():
            return None
        case All(parts) | Some(parts):
            shares = [even_share(part, facts) for part in parts]
            known = [share for share in shares if share is not None]
            if len(known) < len(shares):
                return None
            return math.prod(known) if isinstance(where, All) else 1 - math.prod(1 - share for share in known)


def _assumption(facts: Facts) -> str:
    """What a guess assumes, in words."""
    names = list(dict.fromkeys(_columns(facts.where)))
    named = " and ".join(names) if len(names) <= MAX_NAMED else "every column in the condition"
    parts = [f"all values of {named} are equally frequent"] if names else []
    parts += ["all groups are equally large"] if facts.grouped else []
    return " and ".join(parts)


def _columns(where: Predicate) -> list[str]:
    if isinstance(where, All | Some):
        return [name for part in where.parts for name in _columns(part)]
    return [where.column]
