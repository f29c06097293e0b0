"""Tables of records as the methods see them: how they are read, checked and protected.

A numeric attribute holds floats, NaN where a value is missing; an ordinal or nominal one holds places in its list of
categories, -1 where a value is missing. What a missing value means to a distance and to a centroid is written once, in
`sdc/methods/record_distance.py`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypedDict, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from discreet.errors import InvalidInput
from discreet.mechanisms.entropy import Entropy, get_entropy
from discreet.numeric import as_int
from discreet.priors.taxonomy import Taxonomy
from discreet.privacy.guarantee import Guarantee
from discreet.suggestions import build_unknown_name_error

if TYPE_CHECKING:
    from pyarrow import ChunkedArray

Kind = Literal["numeric", "ordinal", "nominal"]
ValueType = Literal["integer", "number", "date", "truth", "text"]
Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Column = NDArray[np.generic]
"""A column as people write it: numbers, days, truth values, or objects."""


@runtime_checkable
class FetchableTable(Protocol):
    """What DuckDB returns: a relation, or a connection with the rows of its last statement."""

    def fetchnumpy(self) -> dict[str, NDArray[np.generic]]:
        """Fetch all columns."""


@runtime_checkable
class DuckDBRelation(FetchableTable, Protocol):
    """A relation of DuckDB, whose columns can be selected before they are fetched."""

    @property
    def columns(self) -> list[str]:
        """The names of its columns."""

    @property
    def types(self) -> Sequence[object]:
        """Their types, which are named as text."""

    def project(self, expressions: str, /) -> DuckDBRelation:
        """Select expressions."""


ABSENT = -1
"""The place of a missing value."""


@dataclass(frozen=True, slots=True, eq=False)
class Attribute:
    """One column. `lower` and `upper` bound its domain: the declared one, or where none is, that of the values."""

    name: str
    kind: Kind
    values: NDArray[Any]
    categories: tuple[str, ...] = ()
    taxonomy: Taxonomy | None = None
    lower: float = 0.0
    upper: float = 0.0
    value_type: ValueType = "number"

    @property
    def missing(self) -> NDArray[np.bool_]:
        """Where there is no value."""
        absent: NDArray[np.bool_] = self.values == ABSENT
        return np.isnan(self.values) if self.kind == "numeric" else absent

    @property
    def is_constant(self) -> bool:
        """Whether no two rows differ."""
        present = self.values[~self.missing]
        return len(present) in {0, len(self.values)} and (len(present) == 0 or bool(np.all(present == present[0])))

    @property
    def output_type(self) -> ValueType:
        """The type of what is written: whole numbers only where all are whole."""
        is_whole = self.value_type != "integer" or bool((self.values % 1 == 0)[~self.missing].all())
        return self.value_type if is_whole else "number"

    def take(self, rows: Integers | slice) -> Attribute:
        """The same attribute of these rows, in this order."""
        return replace(self, values=self.values[rows])

    def to_array(self) -> Column:
        """The values as people write them: None, NaN or NaT where one is missing."""
        absent = self.missing
        if self.kind != "numeric":
            labels: list[object] = [*self.categories, None]  # the place -1 is the last
            if self.value_type == "truth":
                labels = [*(label == "true" for label in self.categories), None]
            decoded: Column = np.array(labels, dtype=object)[self.values]
            return decoded.astype(bool) if self.value_type == "truth" and not absent.any() else decoded
        if self.value_type == "date":
            days = np.where(absent, 0, self.values).round().astype("datetime64[D]")
            return np.where(absent, np.datetime64("NaT"), days)
        is_whole = self.value_type == "integer" and not absent.any() and np.all(self.values == np.floor(self.values))
        return self.values.astype(np.int64) if is_whole else self.values


@dataclass(frozen=True, slots=True, eq=False)
class Table:
    """Attributes of the same rows, by name."""

    attributes: Mapping[str, Attribute]

    def __post_init__(self) -> None:
        if len({len(attribute.values) for attribute in self.attributes.values()}) != 1:
            raise InvalidInput("a table has at least one column, and all its columns have as many rows")

    @property
    def rows(self) -> int:
        """The number of rows."""
        return len(next(iter(self.attributes.values())).values)

    def __getitem__(self, name: str) -> Attribute:
        if name not in self.attributes:
            raise build_unknown_name_error("column", str(name), self.attributes, "unknown-column")
        return self.attributes[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.attributes)

    def select(self, names: Sequence[str]) -> Table:
        """These columns alone, in this order."""
        return Table({name: self[name] for name in names})

    def drop(self, names: Sequence[str]) -> Table:
        """All columns but these."""
        return Table({name: attribute for name, attribute in self.attributes.items() if name not in names})

    def put(self, *attributes: Attribute) -> Table:
        """The same table with these columns in the place of those of their names."""
        return Table({**self.attributes, **{attribute.name: attribute for attribute in attributes}})

    def take(self, rows: Integers | slice) -> Table:
        """These rows alone, in this order."""
        return Table({name: attribute.take(rows) for name, attribute in self.attributes.items()})

    def split_batches(self, size: int) -> Iterator[Table]:
        """The rows in their order, `size` at a time; nothing is copied."""
        for first in range(0, self.rows, size):
            yield self.take(slice(first, first + size))

    def to_arrays(self) -> dict[str, Column]:
        """Every column as people write it."""
        return {name: attribute.to_array() for name, attribute in self.attributes.items()}


NO_FACTS: Mapping[str, object] = MappingProxyType({})


@dataclass(frozen=True, slots=True, eq=False)
class ProtectedTable(Mapping[str, Column]):
    """A protected table; as a mapping, its columns as numpy arrays.

    Row i was made of row `source_rows[i]` of the original, so that the two can be compared: whoever releases it must
    put the rows in an order that reveals nothing, as `Custodian.publish` does. `groups` says which rows hide one
    another, for all columns ("records") or for one confidential column; it is released only where the method says so.
    """

    table: Table
    guarantee: Guarantee
    groups: Mapping[str, NDArray[np.int64]]
    source_rows: NDArray[np.int64]
    second: Table | None = None
    """The other table of Anatomy: one row for each group and value, with how many of the group have it."""
    facts: Mapping[str, object] = field(default_factory=lambda: NO_FACTS)
    """Measures that may be released, as JSON holds them."""

    def __getitem__(self, name: str) -> Column:
        return self.table[name].to_array()

    def __iter__(self) -> Iterator[str]:
        return iter(self.table)

    def __len__(self) -> int:
        return len(self.table.attributes)


def permute_within_groups(groups: NDArray[np.int64], entropy: Entropy | None) -> NDArray[np.int64]:
    """p, where the value of row p[i] goes to row i: exactly uniform over the permutations that keep every group.

    Every row takes 64 random bits and the rows of a group go by them. The rows' bits are independent and alike, so
    given that no two in a group are equal all orders are equally likely; where two are equal all are taken again.
    """
    generator = get_entropy(entropy)
    members = np.argsort(groups, kind="stable")
    while True:
        bits = np.frombuffer(generator.take(8 * len(groups)), dtype="<u8")
        order = np.lexsort((bits, groups))
        equal = (bits[order[1:]] == bits[order[:-1]]) & (groups[order[1:]] == groups[order[:-1]])
        if not equal.any():
            permutation = np.empty(len(groups), dtype=np.int64)
            permutation[members] = order
            return permutation


KINDS: tuple[Kind, ...] = ("numeric", "ordinal", "nominal")
MAX_EXACT_INTEGER = 2**53
"""Not every greater whole number is a float."""
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
    """Read a table; numbers and dates are numeric, all else nominal, unless `kinds` says otherwise.

    `categories` lists the values of an ordinal column in order, `taxonomies` those of a nominal one with their
    meaning; without them the values are a flat list. `domains` bounds numeric columns; without, their values do.
    """
    protected_or_table = table if isinstance(table, Table) else getattr(table, "table", None)
    if isinstance(protected_or_table, Table):
        return protected_or_table
    options = (kinds or {}, categories or {}, taxonomies or {}, domains or {})
    if not all(isinstance(option, Mapping) for option in options):
        raise InvalidInput("kinds, categories, taxonomies and domains must be dictionaries by the names of columns")
    columns = _read_columns(table)
    for name in {name for option in options for name in option} - set(columns):
        raise build_unknown_name_error("column", str(name), columns, "unknown-column")
    return Table({name: _build_attribute(name, values, *options) for name, values in columns.items()})


def _read_columns(table: object) -> dict[str, Column]:
    if isinstance(table, Mapping):
        columns = {str(name): _read_one_dimensional(str(name), values) for name, values in table.items()}
    elif isinstance(table, FetchableTable):
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


def _cast_wide_columns(relation: FetchableTable) -> FetchableTable:
    """A DuckDB relation whose values come as they are: those that would be rounded to a float as text."""
    if not isinstance(relation, DuckDBRelation):
        return relation
    kinds = dict(zip(relation.columns, map(str, relation.types), strict=True))
    wide = {name for name, kind in kinds.items() if _is_wide(kind)}
    quoted = {name: '"' + name.replace('"', '""') + '"' for name in kinds}
    expressions = [f"{quoted[name]}::VARCHAR AS {quoted[name]}" if name in wide else quoted[name] for name in kinds]
    return relation.project(", ".join(expressions)) if wide else relation


def _is_wide(kind: str) -> bool:
    """Whether numpy does not hold a type of DuckDB exactly; timestamps are looked at value by value."""
    if kind.startswith("DECIMAL("):
        return int(kind[8:].split(",", maxsplit=1)[0]) > MAX_DECIMAL_DIGITS
    return kind in WIDE_DUCKDB_TYPES


def _read_arrow_column(column: ChunkedArray) -> Column:
    """Whole numbers beside missing ones would come as floats."""
    if column.null_count and str(column.type).startswith(("int", "uint")):
        return np.array(column.to_pylist(), dtype=object)
    return np.asarray(column.to_numpy())


def _read_one_dimensional(name: str, values: object) -> Column:
    array = values if isinstance(values, np.ma.MaskedArray) else np.asarray(values)
    if array.ndim != 1:
        raise InvalidInput(f"the column {name[:40]!r} must have one value for each row")
    return _fill_masked(array)


def _fill_masked(array: Column) -> Column:
    """The array without its mask: masked values are NaN, NaT or None."""
    if not isinstance(array, np.ma.MaskedArray):
        return array
    mask = np.ma.getmaskarray(array)
    data: Column = np.asarray(array.data)
    if not mask.any():
        return data
    if data.dtype.kind == "f" or (data.dtype.kind in "iu" and not _has_inexact_integers(data[~mask])):
        return np.where(mask, np.nan, data.astype(np.float64))
    if data.dtype.kind == "M":
        return np.where(mask, np.datetime64("NaT"), data)
    objects = data.astype(object)
    objects[mask] = None
    return objects


def _build_attribute(
    name: str,
    values: Column,
    kinds: Mapping[str, str],
    categories: Mapping[str, Sequence[str]],
    taxonomies: Mapping[str, Taxonomy],
    domains: Mapping[str, tuple[float, float]],
) -> Attribute:
    values = _convert_inexact_to_text(_convert_objects_to_numbers(values))
    natural = "numeric" if values.dtype.kind in "iufM" else "nominal"
    stated = kinds.get(name, "ordinal" if name in categories else "nominal" if name in taxonomies else natural)
    kind = next((known_kind for known_kind in KINDS if known_kind == stated), None)
    if kind is None:
        raise InvalidInput(f"a column is numeric, ordinal or nominal; {name[:40]!r} is said to be {str(stated)[:40]!r}")
    if kind != "numeric":
        return _build_categorical(name, kind, values, categories.get(name), taxonomies.get(name))
    if natural != "numeric":
        raise InvalidInput(f"the column {name[:40]!r} is declared numeric and holds text; convert it, or declare it")
    return _build_numeric(name, values, domains.get(name))


def _convert_inexact_to_text(values: Column) -> Column:
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


def _has_inexact_integers(integers: Column) -> bool:
    return len(integers) > 0 and max(abs(int(integers.min())), abs(int(integers.max()))) > MAX_EXACT_INTEGER


def _convert_objects_to_numbers(values: Column) -> Column:
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


def _build_numeric(name: str, values: Column, domain: tuple[float, float] | None) -> Attribute:
    kind = values.dtype.kind
    value_type: ValueType = "date" if kind == "M" else "integer" if kind in "iu" else "number"
    if value_type == "date":
        absent = np.isnat(values)
        numbers = np.where(absent, np.nan, values.astype("datetime64[D]").astype(np.int64).astype(np.float64))
    else:
        numbers = values.astype(np.float64)
    if np.isinf(numbers).any():
        raise InvalidInput(f"the column {name[:40]!r} holds infinite numbers; clip them or leave them out")
    lower, upper = domain or find_range(numbers)
    return Attribute(name, "numeric", numbers, lower=float(lower), upper=float(upper), value_type=value_type)


def find_range(values: Floats) -> tuple[float, float]:
    """The least and the greatest value, without missing ones; 0 and 0 of none."""
    present = values[~np.isnan(values)]
    return (float(present.min()), float(present.max())) if len(present) else (0.0, 0.0)


def _build_categorical(
    name: str, kind: Kind, values: Column, order: Sequence[str] | None, taxonomy: Taxonomy | None
) -> Attribute:
    texts = [
        None if _is_missing(value) else str(value).lower() if isinstance(value, bool) else str(value)
        for value in values.tolist()
    ]
    labels = sorted({text for text in texts if text is not None})
    places = {text: place for place, text in enumerate(labels)}
    codes = np.array([ABSENT if text is None else places[text] for text in texts], dtype=np.int64)
    value_type: ValueType = "truth" if values.dtype.kind == "b" else "text"
    return build_coded_attribute(name, kind, labels, codes, order, taxonomy, value_type)


def build_coded_attribute(
    name: str,
    kind: Kind,
    labels: Sequence[str],
    codes: Integers,
    order: Sequence[str] | None = None,
    taxonomy: Taxonomy | None = None,
    value_type: ValueType = "text",
) -> Attribute:
    """A column of texts that are given as places among `labels`, -1 where one is missing."""
    categories = tuple(order if order is not None else taxonomy.leaves if taxonomy is not None else labels)
    if taxonomy is not None:  # inner concepts may be values too
        concepts = [text for text in labels if text not in set(categories) and text in taxonomy.ancestors]
        categories = (*categories, *concepts)
    places = {text: place for place, text in enumerate(categories)}
    if not set(labels) <= set(places):
        raise InvalidInput(f"the column {name[:40]!r} holds values that are not among its categories; list them all")
    new_codes = np.array([*(places[text] for text in labels), ABSENT], dtype=np.int64)  # the place -1 is the last
    upper = float(max(len(categories) - 1, 0))
    return Attribute(name, kind, new_codes[codes], categories, taxonomy, 0.0, upper, value_type)


def _is_missing(value: object) -> bool:
    return value is None or (isinstance(value, float) and math.isnan(value))


ROW_VALUE_TYPES = {"weights": "positive number", "strata": "label"}


class TableReadOptions(TypedDict, total=False):
    """The options of `read_table` about the columns of a table."""

    kinds: Mapping[str, str] | None
    categories: Mapping[str, Sequence[str]] | None
    taxonomies: Mapping[str, Taxonomy] | None
    domains: Mapping[str, tuple[float, float]] | None


def check_k(k: object, rows: int) -> int:
    """The least size of a group, as a whole number from 2 to the number of rows."""
    min_size = as_int(k, "k", 2)
    if min_size > rows:
        raise InvalidInput(f"k is {min_size} but there are only {rows} rows; ask for a k from 2 to the number of rows")
    return min_size


def check_roles(
    table: Table, quasi: object, confidential: object, informed: bool
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The names of the quasi-identifiers and of the confidential columns; only an informed intruder knows both."""
    quasi_names = () if informed and _list_names(quasi) == () else check_columns(table, quasi, "quasi")
    confidential_names = check_columns(table, confidential, "confidential")
    overlap = [name for name in quasi_names if name in confidential_names]
    if overlap and not informed:
        raise InvalidInput(
            f"the column {overlap[0][:40]!r} is both quasi-identifier and confidential; give it one role, "
            "or swap for informed intruders with intruder='informed'"
        )
    return quasi_names, confidential_names


def check_columns(table: Table, names: object, role: str) -> tuple[str, ...]:
    """Columns of the table, at least one, each once."""
    listed = _list_names(names)
    distinct = dict.fromkeys(name for name in listed if isinstance(name, str))
    if not listed or len(distinct) < len(listed):
        raise InvalidInput(f"{role} must list at least one column of the table by its name, each once")
    return tuple(table.select(list(distinct)))


def _list_names(names: object) -> tuple[object, ...]:
    return (names,) if isinstance(names, str) else tuple(names) if isinstance(names, Iterable) else ()


def check_informative(attribute: Attribute) -> None:
    """Refuse a column that tells no rows apart; groups by it would mean nothing."""
    if attribute.missing.all():
        raise InvalidInput(
            f"the column {attribute.name[:40]!r} has no values, all are missing; leave it out, or take its role away"
        )
    if attribute.is_constant:
        raise InvalidInput(
            f"the column {attribute.name[:40]!r} has the same value in every row; leave it out, or take its role away"
        )


def read_row_weights(table: Table, weights: object) -> Floats | None:
    """The weight of every row: as given, or of the column that is named."""
    return None if weights is None else np.asarray(_read_row_values(table, weights, "weights").values, dtype=np.float64)


def read_row_strata(table: Table, strata: object) -> NDArray[np.int64] | None:
    """The stratum of every row, 0, 1, ...: as given, or of the column that is named; missing is a stratum too."""
    if strata is None:
        return None
    return np.unique(_read_row_values(table, strata, "strata").values, return_inverse=True)[1]


def _read_row_values(table: Table, column_or_values: object, role: str) -> Attribute:
    values = table[column_or_values] if isinstance(column_or_values, str) else column_or_values
    attribute = values if isinstance(values, Attribute) else read_table({role: values})[role]
    if len(attribute.values) != table.rows or (role == "weights" and attribute.kind != "numeric"):
        raise InvalidInput(
            f"{role} must be the name of a column, or one {ROW_VALUE_TYPES[role]} for each row of the table"
        )
    return attribute
