"""A table from what people hold: a DuckDB relation, an Arrow table, or a mapping of numpy arrays."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from datetime import date
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.errors import InvalidInput
from discreet.microdata.table import ABSENT, Attribute, Kind, Look, Places, Table
from discreet.taxonomy import Taxonomy

KINDS = ("numeric", "ordinal", "nominal")
EXACT = 2**53
"""Beyond it not every whole number is a float."""
DIGITS = 15
"""Decimals of no more digits are floats apart."""
WIDE = frozenset({"HUGEINT", "UHUGEINT", "TIME", "TIME WITH TIME ZONE", "INTERVAL", "UUID"})


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
    given = (kinds or {}, categories or {}, taxonomies or {}, domains or {})
    columns = _columns(table)
    for name in {name for known in given for name in known} - set(columns):
        raise InvalidInput(f"there is no column {str(name)[:40]!r}; there are {', '.join(columns)}")
    return Table({name: _attribute(name, values, *given) for name, values in columns.items()})


def _columns(table: object) -> dict[str, NDArray[Any]]:
    if isinstance(table, Mapping):
        found = {str(name): _one_dimension(str(name), values) for name, values in table.items()}
    elif hasattr(table, "fetchnumpy"):
        found = {name: _plain(values) for name, values in _exactly(table).fetchnumpy().items()}
    elif hasattr(table, "column_names") and hasattr(table, "column"):
        found = {name: _of_arrow(table.column(name)) for name in table.column_names}
    elif hasattr(table, "columns") and hasattr(table, "iloc" if hasattr(table, "iloc") else "get_column"):
        found = {str(name): _one_dimension(str(name), table[name]) for name in table.columns}  # type: ignore[index]
    else:
        raise InvalidInput(
            f"a table is a DuckDB relation, an Arrow, pandas or Polars table, or a mapping of numpy arrays, "
            f"got {type(table).__name__}"
        )
    if not found:
        raise InvalidInput("the table has no columns; give it at least one")
    return found


def _exactly(relation: Any) -> Any:
    """A DuckDB relation whose values come as they are: those that would be rounded to a float as text."""
    kinds = dict(zip(relation.columns, map(str, relation.types), strict=True)) if hasattr(relation, "types") else {}
    wide = {name for name, kind in kinds.items() if _is_wide(kind)}
    quoted = {name: '"' + name.replace('"', '""') + '"' for name in kinds}
    chosen = (f"{own}::VARCHAR AS {own}" if name in wide else own for name, own in quoted.items())
    return relation.project(", ".join(chosen)) if wide else relation


def _is_wide(kind: str) -> bool:
    """Whether numpy does not hold a type of DuckDB exactly; timestamps are looked at value by value."""
    if kind.startswith("DECIMAL("):
        return int(kind[8:].split(",", maxsplit=1)[0]) > DIGITS
    return kind in WIDE


def _of_arrow(column: Any) -> NDArray[Any]:
    """Whole numbers beside missing ones would come as floats."""
    if column.null_count and str(column.type).startswith(("int", "uint")):
        return np.array(column.to_pylist(), dtype=object)
    return np.asarray(column.to_numpy())


def _one_dimension(name: str, values: object) -> NDArray[Any]:
    array = values if isinstance(values, np.ma.MaskedArray) else np.asarray(values)
    if array.ndim != 1:
        raise InvalidInput(f"the column {name[:40]!r} must have one value for each row")
    return _plain(array)


def _plain(array: NDArray[Any]) -> NDArray[Any]:
    """Without a mask: what is masked is NaN, NaT or None."""
    if not isinstance(array, np.ma.MaskedArray):
        return array
    hidden = np.ma.getmaskarray(array)
    data: NDArray[Any] = np.asarray(array.data)
    if not hidden.any():
        return data
    if data.dtype.kind == "f" or (data.dtype.kind in "iu" and not _large(data[~hidden])):
        return np.where(hidden, np.nan, data.astype(np.float64))
    if data.dtype.kind == "M":
        return np.where(hidden, np.datetime64("NaT"), data)
    listed: NDArray[Any] = data.astype(object)
    listed[hidden] = None
    return listed


def _attribute(
    name: str,
    values: NDArray[Any],
    kinds: Mapping[str, str],
    categories: Mapping[str, Sequence[str]],
    taxonomies: Mapping[str, Taxonomy],
    domains: Mapping[str, tuple[float, float]],
) -> Attribute:
    values = _as_text_where_inexact(_numbers_where_all_are(values))
    natural = "numeric" if values.dtype.kind in "iufM" else "nominal"
    kind = kinds.get(name, "ordinal" if name in categories else "nominal" if name in taxonomies else natural)
    if kind not in KINDS:
        raise InvalidInput(f"a column is numeric, ordinal or nominal; {name[:40]!r} is said to be {str(kind)[:40]!r}")
    if kind == "numeric":
        if natural != "numeric":
            raise InvalidInput(
                f"the column {name[:40]!r} is declared numeric and holds text; convert it, or declare it"
            )
        return _numeric(name, values, domains.get(name))
    return _listed(name, kind, values, categories.get(name), taxonomies.get(name))  # type: ignore[arg-type]


def _as_text_where_inexact(values: NDArray[Any]) -> NDArray[Any]:
    """Whole numbers beyond 2^53 and times of day are no numbers here: rounded, different ones would be the same."""
    if values.dtype.kind in "iu" and _large(values):
        return values.astype(str).astype(object)
    if values.dtype.kind == "M":
        days = values.astype("datetime64[D]")
        if not np.all((days == values) | np.isnat(values)):
            texts = values.astype(str).astype(object)
            texts[np.isnat(values)] = None
            return texts
    return values


def _large(whole: NDArray[Any]) -> bool:
    return len(whole) > 0 and max(abs(int(whole.min())), abs(int(whole.max()))) > EXACT


def _numbers_where_all_are(values: NDArray[Any]) -> NDArray[Any]:
    """A column of Python objects as numbers, where they are numbers or None."""
    if values.dtype.kind != "O":
        return values
    present = [value for value in values.tolist() if not _absent(value)]
    if present and all(isinstance(value, date) for value in present):
        return np.array([None if _absent(value) else value for value in values.tolist()], dtype="datetime64[us]")
    if not all(isinstance(value, int | float) and not isinstance(value, bool) for value in present):
        return values
    if any(isinstance(value, int) and abs(value) > EXACT for value in present):
        return values
    return np.array([np.nan if value is None else value for value in values.tolist()], dtype=np.float64)


def _numeric(name: str, values: NDArray[Any], domain: tuple[float, float] | None) -> Attribute:
    look = "date" if values.dtype.kind == "M" else "integer" if values.dtype.kind in "iu" else "number"
    if look == "date":
        absent = np.isnat(values)
        numbers = np.where(absent, np.nan, values.astype("datetime64[D]").astype(np.int64).astype(np.float64))
    else:
        numbers = values.astype(np.float64)
    if np.isinf(numbers).any():
        raise InvalidInput(f"the column {name[:40]!r} holds infinite numbers; clip them or leave them out")
    present = numbers[~np.isnan(numbers)]
    seen = (float(present.min()), float(present.max())) if len(present) else (0.0, 0.0)
    lower, upper = domain or seen
    return Attribute(name, "numeric", numbers, lower=float(lower), upper=float(upper), look=look)  # type: ignore[arg-type]


def _listed(
    name: str, kind: Kind, values: NDArray[Any], order: Sequence[str] | None, taxonomy: Taxonomy | None
) -> Attribute:
    texts = [None if _absent(value) else _text(value) for value in values.tolist()]
    seen = sorted({text for text in texts if text is not None})
    places = {text: place for place, text in enumerate(seen)}
    codes = np.array([ABSENT if text is None else places[text] for text in texts], dtype=np.int64)
    truth = set(seen) <= {"false", "true"} and values.dtype.kind == "b"
    return read_coded(name, kind, seen, codes, order, taxonomy, "truth" if truth else "text")


def read_coded(
    name: str,
    kind: Kind,
    seen: Sequence[str],
    codes: Places,
    order: Sequence[str] | None = None,
    taxonomy: Taxonomy | None = None,
    look: Look = "text",
) -> Attribute:
    """A column of texts that are given as places among those `seen`, -1 where one is missing."""
    known = tuple(order) if order is not None else tuple(taxonomy.leaves) if taxonomy is not None else tuple(seen)
    if taxonomy is not None:  # inner concepts may be values too
        known = (*known, *(text for text in seen if text not in set(known) and text in taxonomy.ancestors))
    places = {text: place for place, text in enumerate(known)}
    if not set(seen) <= set(places):
        raise InvalidInput(f"the column {name[:40]!r} holds values that are not among its categories; list them all")
    meant = np.array([*(places[text] for text in seen), ABSENT], dtype=np.int64)  # the place -1 is the last
    return Attribute(name, kind, meant[codes], known, taxonomy, 0.0, float(max(len(known) - 1, 0)), look)


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _absent(value: object) -> bool:
    return value is None or (isinstance(value, float) and math.isnan(value))
