"""A table from what people hold: a DuckDB relation, an Arrow table, or a mapping of numpy arrays."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from datetime import date
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.errors import InvalidInput
from discreet.microdata.table import ABSENT, Attribute, Integers, Kind, Table, ValueType
from discreet.taxonomy import Taxonomy

KINDS = ("numeric", "ordinal", "nominal")
MAX_EXACT_INTEGER = 2**53
"""Beyond it not every whole number is a float."""
MAX_DECIMAL_DIGITS = 15
"""Decimals of no more digits are floats apart."""
WIDE_DUCKDB_TYPES = frozenset({"HUGEINT", "UHUGEINT", "TIME", "TIME WITH TIME ZONE", "INTERVAL", "UUID"})


def read_table(
    table: object,
    kinds: Mapping[str, str] | None = None,
    categories: Mapping[str, Sequence[str]] | None = None,
    taxonomies: Mapping[str, Taxonomy] | None = None,
    domains: Mapping[str, tuple[float, float]] | None = None,
) -> Table:
    """The table; numbers and dates are numeric, all else nominal, unless `kinds` says otherwise.

    `categories` lists the values of an ordinal column in order, `taxonomies` those of a nominal one with their
    meaning; without them the values are a flat list. `domains` bounds numeric columns; without, their values do.
    """
    known = table if isinstance(table, Table) else getattr(table, "table", None)  # of a Protected
    if isinstance(known, Table):
        return known
    options = (kinds or {}, categories or {}, taxonomies or {}, domains or {})
    columns = _read_columns(table)
    for name in {name for known in options for name in known} - set(columns):
        raise InvalidInput(f"there is no column {str(name)[:40]!r}; there are {', '.join(columns)}")
    return Table({name: _build_attribute(name, values, *options) for name, values in columns.items()})


def _read_columns(table: object) -> dict[str, NDArray[Any]]:
    if isinstance(table, Mapping):
        columns = {str(name): _read_one_dimensional(str(name), values) for name, values in table.items()}
    elif hasattr(table, "fetchnumpy"):
        columns = {name: _fill_masked(values) for name, values in _cast_wide_columns(table).fetchnumpy().items()}
    elif hasattr(table, "column_names") and hasattr(table, "column"):
        columns = {name: _read_arrow_column(table.column(name)) for name in table.column_names}
    elif hasattr(table, "columns") and hasattr(table, "iloc" if hasattr(table, "iloc") else "get_column"):
        columns = {str(name): _read_one_dimensional(str(name), table[name]) for name in table.columns}  # type: ignore[index]
    else:
        raise InvalidInput(
            f"a table is a DuckDB relation, an Arrow, pandas or Polars table, or a mapping of numpy arrays, "
            f"got {type(table).__name__}"
        )
    if not columns:
        raise InvalidInput("the table has no columns; give it at least one")
    return columns


def _cast_wide_columns(relation: Any) -> Any:
    """A DuckDB relation whose values come as they are: those that would be rounded to a float as text."""
    kinds = dict(zip(relation.columns, map(str, relation.types), strict=True)) if hasattr(relation, "types") else {}
    wide = {name for name, kind in kinds.items() if _is_wide(kind)}
    quoted = {name: '"' + name.replace('"', '""') + '"' for name in kinds}
    expressions = (
        f"{identifier}::VARCHAR AS {identifier}" if name in wide else identifier for name, identifier in quoted.items()
    )
    return relation.project(", ".join(expressions)) if wide else relation


def _is_wide(kind: str) -> bool:
    """Whether numpy does not hold a type of DuckDB exactly; timestamps are looked at value by value."""
    if kind.startswith("DECIMAL("):
        return int(kind[8:].split(",", maxsplit=1)[0]) > MAX_DECIMAL_DIGITS
    return kind in WIDE_DUCKDB_TYPES


def _read_arrow_column(column: Any) -> NDArray[Any]:
    """Whole numbers beside missing ones would come as floats."""
    if column.null_count and str(column.type).startswith(("int", "uint")):
        return np.array(column.to_pylist(), dtype=object)
    return np.asarray(column.to_numpy())


def _read_one_dimensional(name: str, values: object) -> NDArray[Any]:
    array = values if isinstance(values, np.ma.MaskedArray) else np.asarray(values)
    if array.ndim != 1:
        raise InvalidInput(f"the column {name[:40]!r} must have one value for each row")
    return _fill_masked(array)


def _fill_masked(array: NDArray[Any]) -> NDArray[Any]:
    """Without a mask: what is masked is NaN, NaT or None."""
    if not isinstance(array, np.ma.MaskedArray):
        return array
    mask = np.ma.getmaskarray(array)
    data: NDArray[Any] = np.asarray(array.data)
    if not mask.any():
        return data
    if data.dtype.kind == "f" or (data.dtype.kind in "iu" and not _has_inexact_integers(data[~mask])):
        return np.where(mask, np.nan, data.astype(np.float64))
    if data.dtype.kind == "M":
        return np.where(mask, np.datetime64("NaT"), data)
    objects: NDArray[Any] = data.astype(object)
    objects[mask] = None
    return objects


def _build_attribute(
    name: str,
    values: NDArray[Any],
    kinds: Mapping[str, str],
    categories: Mapping[str, Sequence[str]],
    taxonomies: Mapping[str, Taxonomy],
    domains: Mapping[str, tuple[float, float]],
) -> Attribute:
    values = _convert_inexact_to_text(_convert_objects_to_numbers(values))
    natural = "numeric" if values.dtype.kind in "iufM" else "nominal"
    kind = kinds.get(name, "ordinal" if name in categories else "nominal" if name in taxonomies else natural)
    if kind not in KINDS:
        raise InvalidInput(f"a column is numeric, ordinal or nominal; {name[:40]!r} is said to be {str(kind)[:40]!r}")
    if kind == "numeric":
        if natural != "numeric":
            raise InvalidInput(
                f"the column {name[:40]!r} is declared numeric and holds text; convert it, or declare it"
            )
        return _build_numeric(name, values, domains.get(name))
    return _build_categorical(name, kind, values, categories.get(name), taxonomies.get(name))  # type: ignore[arg-type]


def _convert_inexact_to_text(values: NDArray[Any]) -> NDArray[Any]:
    """Whole numbers beyond 2^53 and times of day are no numbers here: rounded, different ones would be the same."""
    if values.dtype.kind in "iu" and _has_inexact_integers(values):
        return values.astype(str).astype(object)
    if values.dtype.kind == "M":
        days = values.astype("datetime64[D]")
        if not np.all((days == values) | np.isnat(values)):
            texts = values.astype(str).astype(object)
            texts[np.isnat(values)] = None
            return texts
    return values


def _has_inexact_integers(integers: NDArray[Any]) -> bool:
    return len(integers) > 0 and max(abs(int(integers.min())), abs(int(integers.max()))) > MAX_EXACT_INTEGER


def _convert_objects_to_numbers(values: NDArray[Any]) -> NDArray[Any]:
    """A column of Python objects as numbers, where they are numbers or None."""
    if values.dtype.kind != "O":
        return values
    present = [value for value in values.tolist() if not _is_missing(value)]
    if present and all(isinstance(value, date) for value in present):
        return np.array([None if _is_missing(value) else value for value in values.tolist()], dtype="datetime64[us]")
    if not all(isinstance(value, int | float) and not isinstance(value, bool) for value in present):
        return values
    if any(isinstance(value, int) and abs(value) > MAX_EXACT_INTEGER for value in present):
        return values
    return np.array([np.nan if value is None else value for value in values.tolist()], dtype=np.float64)


def _build_numeric(name: str, values: NDArray[Any], domain: tuple[float, float] | None) -> Attribute:
    value_type = "date" if values.dtype.kind == "M" else "integer" if values.dtype.kind in "iu" else "number"
    if value_type == "date":
        absent = np.isnat(values)
        numbers = np.where(absent, np.nan, values.astype("datetime64[D]").astype(np.int64).astype(np.float64))
    else:
        numbers = values.astype(np.float64)
    if np.isinf(numbers).any():
        raise InvalidInput(f"the column {name[:40]!r} holds infinite numbers; clip them or leave them out")
    present = numbers[~np.isnan(numbers)]
    observed_range = (float(present.min()), float(present.max())) if len(present) else (0.0, 0.0)
    lower, upper = domain or observed_range
    return Attribute(name, "numeric", numbers, lower=float(lower), upper=float(upper), value_type=value_type)  # type: ignore[arg-type]


def _build_categorical(
    name: str, kind: Kind, values: NDArray[Any], order: Sequence[str] | None, taxonomy: Taxonomy | None
) -> Attribute:
    texts = [None if _is_missing(value) else _format_label(value) for value in values.tolist()]
    labels = sorted({text for text in texts if text is not None})
    places = {text: place for place, text in enumerate(labels)}
    codes = np.array([ABSENT if text is None else places[text] for text in texts], dtype=np.int64)
    is_boolean = set(labels) <= {"false", "true"} and values.dtype.kind == "b"
    return build_coded_attribute(name, kind, labels, codes, order, taxonomy, "truth" if is_boolean else "text")


def build_coded_attribute(
    name: str,
    kind: Kind,
    labels: Sequence[str],
    codes: Integers,
    order: Sequence[str] | None = None,
    taxonomy: Taxonomy | None = None,
    value_type: ValueType = "text",
) -> Attribute:
    """A column of texts that are given as places among those `seen`, -1 where one is missing."""
    categories = (
        tuple(order) if order is not None else tuple(taxonomy.leaves) if taxonomy is not None else tuple(labels)
    )
    if taxonomy is not None:  # inner concepts may be values too
        categories = (
            *categories,
            *(text for text in labels if text not in set(categories) and text in taxonomy.ancestors),
        )
    places = {text: place for place, text in enumerate(categories)}
    if not set(labels) <= set(places):
        raise InvalidInput(f"the column {name[:40]!r} holds values that are not among its categories; list them all")
    new_codes = np.array([*(places[text] for text in labels), ABSENT], dtype=np.int64)  # the place -1 is the last
    return Attribute(
        name, kind, new_codes[codes], categories, taxonomy, 0.0, float(max(len(categories) - 1, 0)), value_type
    )


def _format_label(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _is_missing(value: object) -> bool:
    return value is None or (isinstance(value, float) and math.isnan(value))
