"""Rows of a snapshot as a table of attributes: numbers by their step, dates by days, categories by their places."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.microdata.table import ABSENT, Attribute, Kind, Table, ValueType
from discreet.query.released import MISSING_CODE, ReleaseBatch
from discreet.schema import Column, Schema

Codes = Mapping[str, NDArray[Any]]


def build_code_table(schema: Schema, codes: Codes) -> Table:
    """The columns of these codes, each as its attribute."""
    return Table({name: build_attribute(schema.columns[name], values) for name, values in codes.items()})


def build_attribute(column: Column, codes: NDArray[Any]) -> Attribute:
    """One column; the values of one with private keys are those that are there."""
    if column.private_keys:
        return _build_text_attribute(column, codes)
    absent = codes == MISSING_CODE
    if column.categories:
        places = np.where(absent, ABSENT, codes).astype(np.int64)
        kind: Kind = "ordinal" if column.kind == "ordinal" else "nominal"
        look: ValueType = "truth" if column.kind == "boolean" else "text"
        upper = float(len(column.categories) - 1)
        return Attribute(column.name, kind, places, column.categories, column.taxonomy, 0.0, upper, look)
    lower, upper = (float(column.step * end) for end in (column.lower, column.upper))
    values = np.where(absent, np.nan, codes.astype(np.float64))
    numbers = values * column.step.numerator / column.step.denominator
    number_look: ValueType = (
        "date" if column.kind == "date" else "integer" if column.step.denominator == 1 else "number"
    )
    return Attribute(column.name, "numeric", numbers, lower=lower, upper=upper, value_type=number_look)


def _build_text_attribute(column: Column, texts: NDArray[Any]) -> Attribute:
    listed = texts.tolist()
    distinct_texts = tuple(sorted({text for text in listed if text is not None}))
    places = {text: place for place, text in enumerate(distinct_texts)}
    values = np.array([ABSENT if text is None else places[text] for text in listed], dtype=np.int64)
    return Attribute(
        column.name, "nominal", values, distinct_texts, None, 0.0, float(max(len(distinct_texts) - 1, 0)), "text"
    )


def sort_rows_by_codes(codes: Codes) -> NDArray[np.int64]:
    """The rows sorted by all their codes: an order that only rows alike in everything can differ in."""
    keys: list[NDArray[Any]] = []
    for values in codes.values():
        if values.dtype == object:  # texts, or none
            absent = np.array([text is None for text in values], dtype=bool)
            keys += [absent, np.where(absent, "", values).astype(str)]
        else:
            keys.append(values)
    return np.lexsort(keys[::-1])


def rank_rows_by_codes(codes: Codes) -> NDArray[np.int64]:
    """The place of every row in that order."""
    order = sort_rows_by_codes(codes)
    places = np.empty_like(order)
    places[order] = np.arange(len(order))
    return places


def concatenate_originals(batches: Iterable[ReleaseBatch]) -> dict[str, NDArray[Any]]:
    """Every row as it is in the snapshot; none at all where there are no rows."""
    parts = [batch.original for batch in batches]
    return {name: np.concatenate([part[name] for part in parts]) for name in (parts[0] if parts else ())}
