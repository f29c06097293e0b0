"""What analysts may see of a schema."""

from __future__ import annotations

from datetime import date
from fractions import Fraction

from discreet.schema.column import Column, Value
from discreet.schema.schema import Budget, Published, Schema
from discreet.taxonomy import Taxonomy


def schema_to_public_json(schema: Schema) -> dict[str, object]:
    """All that is public, ready for JSON, fractions as exact text; not where rows are, nor why a model is allowed."""
    return {
        "name": schema.name,
        "neighbours": schema.neighbours,
        "units": schema.units,
        "unit": None if schema.unit is None else {"column": schema.unit, "rows": schema.rows},
        "budget": _budget(schema.budget),
        "analyst_budget": _budget(schema.analyst_budget),
        "models": list(schema.models),
        "individual_queries": schema.individual_queries,
        "partition": schema.partition,
        "published": [_published(one) for one in schema.published],
        "impossible": list(schema.impossible),
        "lookups": dict(schema.lookups),
        "columns": {name: _column(column) for name, column in schema.columns.items()},
    }


def _published(one: Published) -> dict[str, str]:
    told = {"statistic": one.statistic, "value": one.value}
    return told if one.question is None else told | {"question": one.question}


def _budget(budget: Budget) -> dict[str, str]:
    return {name: str(value) for name, value in budget.declared().items()}


def _column(column: Column) -> dict[str, object]:
    told: dict[str, object] = {"kind": column.kind, "role": column.role}
    if column.private_keys:
        told |= {"keys": "private"}
    elif column.categories:
        told |= {"categories": [_told(column.value(code)) for code in range(column.size)]}
    else:
        told |= {"lower": _told(column.value(column.lower)), "upper": _told(column.value(column.upper))}
    told |= {"step": _told(column.value(1))} if column.numeric else {}
    told |= {"taxonomy": _parents(column.taxonomy)} if column.taxonomy else {}
    told |= {"missing_values": list(column.missing_values)} if column.missing_values else {}
    told |= {"missing": _told(column.value(column.missing))} if column.missing is not None else {}
    told |= {"counts": column.counts} if column.counts else {}
    return told | ({"derived_from": column.derived.key} if column.derived else {})


def _told(value: Value) -> int | bool | str:
    return str(value) if isinstance(value, Fraction | date) else value


def _parents(taxonomy: Taxonomy) -> dict[str, list[str]]:
    """The parents of each concept: its ancestors that are not ancestors of another."""
    above = {concept: ancestors - {concept} for concept, ancestors in taxonomy.ancestors.items()}
    return {concept: sorted(ups.difference(*(above[up] for up in ups))) for concept, ups in above.items()}
