"""Every key that a schema may have, and those it must: for the reader, and for the reference."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class MappingKeys:
    """The keys of one mapping of the file, in the order in which they are told."""

    allowed: tuple[str, ...]
    required: tuple[str, ...] = ()


SCHEMA_KEYS = MappingKeys(
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
UNIT_KEYS = MappingKeys(("column", "rows"), ("column",))
BUDGET_KEYS = MappingKeys(("epsilon", "delta", "max_epsilon"), ("epsilon",))
PUBLISHED_KEYS = MappingKeys(("statistic", "value", "question"), ("statistic", "value"))
LOOKUP_KEYS = MappingKeys(("file", "key"), ("file", "key"))
TAXONOMY_KEYS = MappingKeys(("parents", "mapping", "attribute", "source", "n_concepts"), ("parents",))

COMMON_COLUMN_KEYS = ("kind", "role", "missing", "missing_values")
KIND_KEYS: Mapping[str, tuple[str, ...]] = {
    "integer": ("lower", "upper", "step", "counts"),
    "number": ("lower", "upper", "step", "counts"),
    "date": ("lower", "upper", "counts"),
    "boolean": (),
    "ordinal": ("categories", "counts"),
    "nominal": ("categories", "taxonomy", "keys"),
}
OPTIONAL_KIND_KEYS = {("integer", "step"), ("nominal", "categories"), ("nominal", "taxonomy"), ("nominal", "keys")}
OPTIONAL_KIND_KEYS |= {(kind, "counts") for kind, keys in KIND_KEYS.items() if "counts" in keys}
COLUMN_KEYS = MappingKeys(
    (*COMMON_COLUMN_KEYS, *dict.fromkeys(key for keys in KIND_KEYS.values() for key in keys)), ("kind",)
)


def list_kind_keys(kind: str) -> MappingKeys:
    """Those of a column of a kind."""
    required = tuple(key for key in KIND_KEYS[kind] if (kind, key) not in OPTIONAL_KIND_KEYS)
    return MappingKeys((*COMMON_COLUMN_KEYS, *KIND_KEYS[kind]), required)
