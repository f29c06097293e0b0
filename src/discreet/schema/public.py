"""What analysts may see of a schema."""

from __future__ import annotations

from datetime import date
from fractions import Fraction

from discreet.schema.column import Column, Value
from discreet.schema.schema import Budget, PublishedStatistic, Schema
from discreet.taxonomy import Taxonomy


def schema_to_public_json(schema: Schema) -> dict[str, object]:
    """All that is public, ready for JSON, fractions as exact text; not where rows are, nor why a model is allowed."""
    return {
        "name": schema.name,
        "neighbours": schema.neighbours,
        "units": schema.units,
        "unit": None if schema.unit is None else {"column": schema.unit, "rows": schema.rows},
        "budget": _describe_budget(schema.budget),
        "analyst_budget": _describe_budget(schema.analyst_budget),
        "models": list(schema.models),
        "individual_queries": schema.individual_queries,
        "partition": schema.partition,
        "published": [_describe_published(statistic) for statistic in schema.published],
        "impossible": list(schema.impossible),
        "lookups": dict(schema.lookups),
        "columns": {name: _describe_column(column) for name, column in schema.columns.items()},
    }


def _describe_published(statistic: PublishedStatistic) -> dict[str, str]:
    description = {"statistic": statistic.statistic, "value": statistic.value}
    return description if statistic.question is None else description | {"question": statistic.question}


def _describe_budget(budget: Budget) -> dict[str, str]:
    return {name: str(value) for name, value in budget.list_amounts().items()}


def _describe_column(column: Column) -> dict[str, object]:
    description: dict[str, object] = {"kind": column.kind, "role": column.role}
    if column.private_keys:
        description |= {"keys": "private"}
    elif column.categories:
        description |= {"categories": [_to_json_value(column.decode(code)) for code in range(column.size)]}
    else:
        description |= {
            "lower": _to_json_value(column.decode(column.lower)),
            "upper": _to_json_value(column.decode(column.upper)),
        }
    description |= {"step": _to_json_value(column.decode(1))} if column.is_numeric else {}
    description |= {"taxonomy": _list_parents(column.taxonomy)} if column.taxonomy else {}
    description |= {"missing_values": list(column.missing_values)} if column.missing_values else {}
    description |= {"missing": _to_json_value(column.decode(column.missing))} if column.missing is not None else {}
    description |= {"counts": column.counts} if column.counts else {}
    return description | ({"derived_from": column.derived.key} if column.derived else {})


def _to_json_value(value: Value) -> int | bool | str:
    return str(value) if isinstance(value, Fraction | date) else value


def _list_parents(taxonomy: Taxonomy) -> dict[str, list[str]]:
    """The parents of each concept: its ancestors that are not ancestors of another."""
    proper_ancestors = {concept: ancestors - {concept} for concept, ancestors in taxonomy.ancestors.items()}
    return {
        concept: sorted(above.difference(*(proper_ancestors[ancestor] for ancestor in above)))
        for concept, above in proper_ancestors.items()
    }
