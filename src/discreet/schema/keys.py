"""Every key that a schema may have, and those it must: for the reader, and for the reference."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Keys:
    """The keys of one mapping of the file, in the order in which they are told."""

    allowed: tuple[str, ...]
    needed: tuple[str, ...] = ()


SCHEMA = Keys(
    (
        "name",
        "source",
        "neighbours",
        "units",
        "unit",
        "budget",
        "analyst_budget",
        "models",
        "individual_dp_reason",
        "individual_queries",
        "partition",
        "published",
        "impossible",
        "lookups",
        "columns",
    ),
    ("name", "source", "neighbours", "budget", "columns"),
)
UNIT = Keys(("column", "rows"), ("column",))
BUDGET = Keys(("epsilon", "delta", "max_epsilon"), ("epsilon",))
PUBLISHED = Keys(("statistic", "value", "question"), ("statistic", "value"))
LOOKUP = Keys(("file", "key"), ("file", "key"))
TAXONOMY = Keys(("parents", "mapping", "attribute", "source", "n_concepts"), ("parents",))

OF_ALL = ("kind", "role", "missing", "missing_values")
OF_KIND: Mapping[str, tuple[str, ...]] = {
    "integer": ("lower", "upper", "step", "counts"),
    "number": ("lower", "upper", "step", "counts"),
    "date": ("lower", "upper", "counts"),
    "boolean": (),
    "ordinal": ("categories", "counts"),
    "nominal": ("categories", "taxonomy", "keys"),
}
OPTIONAL = {("integer", "step"), ("nominal", "categories"), ("nominal", "taxonomy"), ("nominal", "keys")}
OPTIONAL |= {(kind, "counts") for kind, keys in OF_KIND.items() if "counts" in keys}
COLUMN = Keys((*OF_ALL, *dict.fromkeys(key for keys in OF_KIND.values() for key in keys)), ("kind",))


def of_kind(kind: str) -> Keys:
    """Those of a column of a kind."""
    needed = tuple(key for key in OF_KIND[kind] if (kind, key) not in OPTIONAL)
    return Keys((*OF_ALL, *OF_KIND[kind]), needed)
