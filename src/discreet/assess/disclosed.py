"""What the values of a group tell of its people, whoever has which: duplicates hit, and one value alone is certain."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from discreet.assess.coding import places_of
from discreet.formatting import format_percent
from discreet.microdata.table import Attribute, Places


@dataclass(frozen=True, slots=True)
class Disclosed:
    """Of one confidential column."""

    rows: int
    hits: float
    """The share of rows that chance gives a value equal to their own."""
    alone: int
    """How many rows are in groups with one value only."""

    @property
    def certain(self) -> float:
        """Their share."""
        return self.alone / self.rows

    def to_json(self) -> dict[str, object]:
        """Machine-readable."""
        return {"hits": self.hits, "certain": self.certain, "certain_rows": self.alone}


def disclosed(groups: Places, values: Attribute) -> Disclosed:
    """What groups tell of a column, its values being among those of the row's group."""
    places, m = places_of(values)
    keys, count = np.unique(groups * m + places, return_counts=True)
    sizes = np.bincount(groups)[keys // m]
    return Disclosed(len(places), float((count**2 / sizes).sum()) / len(places), int(count[count == sizes].sum()))


def told_of(columns: Mapping[str, Disclosed]) -> tuple[dict[str, object], list[str]]:
    """The figures of every column and of the worst, and a sentence for each."""
    if not columns:
        return {}, []
    measured: dict[str, object] = {
        "hits": max(each.hits for each in columns.values()),
        "certain": max(each.certain for each in columns.values()),
        "disclosed": {name: each.to_json() for name, each in columns.items()},
    }
    return measured, [_words(name, each) for name, each in columns.items()]


def _words(name: str, found: Disclosed) -> str:
    certain = f"of {found.rows} rows {found.alone} are in groups with one value: for them the value is certain"
    return (
        f"{name[:40]!r}: one of the group's values, drawn at random, is equal to their own for "
        f"{format_percent(found.hits)} of the people; {certain if found.alone else 'no group has one value only'}."
    )
