"""How many rows a question is expected to select, from public facts alone: stated, public, or a guess that says so."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from discreet.planner.facts import ContributionBounds
from discreet.query.predicate import AllOf, AnyOf, InRanges, InTexts, Predicate

DEFAULT_ROWS = 1000
"""What mechanisms are compared at where nothing at all is known."""
MAX_NAMED_COLUMNS = 3


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


def estimate_rows(bounds: ContributionBounds, stated_rows: int | None) -> ExpectedRows:
    """About how many rows are selected. It serves to compare mechanisms; only a number that is stated is relied on."""
    if stated_rows is not None:
        return ExpectedRows(stated_rows, "stated")
    public_rows = bounds.get_public_rows()
    if public_rows is not None:
        return ExpectedRows(public_rows, "public")
    units, share = bounds.schema.units, estimate_even_share(bounds.where, bounds)
    if units is None or share is None:
        return ExpectedRows(DEFAULT_ROWS if units is None else max(1, units // 2), "unknown")
    return ExpectedRows(max(1, int(units * share / (bounds.cells or 1))), "guess", _format_assumption(bounds))


def estimate_even_share(where: Predicate, bounds: ContributionBounds) -> float | None:
    """The share of rows that satisfy a condition if all values are equally frequent and columns are unrelated.

    None where a column has no public values.
    """
    match where:
        case InRanges(column, ranges):
            return sum(high - low + 1 for low, high in ranges) / bounds.schema.column(column).size
        case InTexts():
            return None
        case AllOf(parts) | AnyOf(parts):
            shares = [estimate_even_share(part, bounds) for part in parts]
            known_shares = [share for share in shares if share is not None]
            if len(known_shares) < len(shares):
                return None
            return (
                math.prod(known_shares)
                if isinstance(where, AllOf)
                else 1 - math.prod(1 - share for share in known_shares)
            )


def _format_assumption(bounds: ContributionBounds) -> str:
    """What a guess assumes, in words."""
    names = list(dict.fromkeys(_list_columns(bounds.where)))
    column_words = " and ".join(names) if len(names) <= MAX_NAMED_COLUMNS else "every column in the condition"
    parts = [f"all values of {column_words} are equally frequent"] if names else []
    parts += ["all groups are equally large"] if bounds.is_grouped else []
    return " and ".join(parts)


def _list_columns(where: Predicate) -> list[str]:
    if isinstance(where, AllOf | AnyOf):
        return [name for part in where.parts for name in _list_columns(part)]
    return [where.column]
