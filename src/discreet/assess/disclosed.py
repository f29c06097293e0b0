"""What the values of a group tell of its people, whoever has which: duplicates hit, and one value alone is certain."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from discreet.assess.coding import encode_values
from discreet.formatting import format_percent
from discreet.microdata.table import Attribute, Integers


@dataclass(frozen=True, slots=True)
class GroupDisclosure:
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


def measure_group_disclosure(groups: Integers, values: Attribute) -> GroupDisclosure:
    """What groups tell of a column, its values being among those of the row's group."""
    places, m = encode_values(values)
    keys, count = np.unique(groups * m + places, return_counts=True)
    sizes = np.bincount(groups)[keys // m]
    return GroupDisclosure(len(places), float((count**2 / sizes).sum()) / len(places), int(count[count == sizes].sum()))


def summarize_disclosures(columns: Mapping[str, GroupDisclosure]) -> tuple[dict[str, object], list[str]]:
    """The figures of every column and of the worst, and a sentence for each."""
    if not columns:
        return {}, []
    measured: dict[str, object] = {
        "hits": max(disclosure.hits for disclosure in columns.values()),
        "certain": max(disclosure.certain for disclosure in columns.values()),
        "disclosed": {name: disclosure.to_json() for name, disclosure in columns.items()},
    }
    return measured, [_format_group_disclosure(name, disclosure) for name, disclosure in columns.items()]


def _format_group_disclosure(name: str, disclosure: GroupDisclosure) -> str:
    certain = (
        f"of {disclosure.rows} rows {disclosure.alone} are in groups with one value: for them the value is certain"
    )
    return (
        f"{name[:40]!r}: one of the group's values, drawn at random, is equal to their own for "
        f"{format_percent(disclosure.hits)} of the people; "
        f"{certain if disclosure.alone else ('no group has one value only')}."
    )
