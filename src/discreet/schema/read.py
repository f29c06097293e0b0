"""A schema from its YAML file. Every scalar is read as what is declared; a key that is not known is refused."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import TypeVar

from discreet.errors import InvalidInput
from discreet.exact import as_positive, format_exact
from discreet.guarantee import parse_neighbor_relation
from discreet.schema import expect, keys
from discreet.schema.address import SourceAddress
from discreet.schema.column import Column
from discreet.schema.document import MAX_CHARACTERS, Node, check_decided, read_document
from discreet.schema.read_column import read_column
from discreet.schema.read_lookup import read_lookup
from discreet.schema.schema import Budget, PublishedStatistic, Schema

Read = TypeVar("Read")
TABLE_SUFFIXES = (".csv", ".parquet")


def load_schema(path: str | Path) -> Schema:
    """The schema in a file; the other files it names are beside it."""
    file = Path(path).absolute()
    if file.suffix.lower() in TABLE_SUFFIXES:
        raise InvalidInput(f"{file.name[:40]!r} is a table, not its schema; name that, or draft one by discreet init")
    return schema_from_text(expect.read_text_file(file, "the schema", MAX_CHARACTERS), file.parent)


def schema_from_text(text: str, folder: Path) -> Schema:
    """The schema in a text; the files it names are in `folder`."""
    document = read_document(text)
    check_decided(document)
    pairs = expect.expect_closed_mapping(document, "the schema", keys.SCHEMA_KEYS)
    name = expect.expect_name(pairs["name"], "name")
    unit, rows = _read_optional(pairs, "unit", _parse_unit) or (None, 1)
    columns = _read_columns(pairs["columns"], unit, folder)
    lookups = _add_lookups(pairs.get("lookups", {}), name, columns, folder)
    budget = _parse_budget(pairs["budget"], "budget")
    return Schema(
        name=name,
        source=_parse_source(pairs["source"]),
        folder=folder,
        neighbours=parse_neighbor_relation(
            expect.expect_one_of(pairs["neighbours"], "neighbours", ("add-remove", "replace-one"))
        ),
        columns=MappingProxyType(columns),
        budget=budget,
        analyst_budget=_read_optional(pairs, "analyst_budget", _parse_budget) or budget,
        units=_read_optional(pairs, "units", expect.expect_positive_integer),
        unit=unit,
        rows=rows,
        models=expect.expect_texts(pairs.get("models", ["dp"]), "models"),
        individual_dp_reason=_read_optional(pairs, "individual_dp_reason", expect.expect_text) or "",
        individual_queries=_read_optional(pairs, "individual_queries", expect.expect_boolean) or False,
        partition=_read_optional(pairs, "partition", expect.expect_text),
        lookups=MappingProxyType(lookups),
        published=tuple(
            _parse_published(entry) for entry in expect.expect_list(pairs.get("published", []), "published")
        ),
        impossible=expect.expect_texts(pairs.get("impossible", []), "impossible"),
    )


def _read_optional(pairs: Mapping[str, Node], key: str, read: Callable[[Node, str], Read]) -> Read | None:
    """What may be left out."""
    return read(pairs[key], key) if key in pairs else None


def _parse_source(node: Node) -> str:
    text = expect.expect_text(node, "source")
    SourceAddress.of(text)
    return text


def _parse_unit(node: Node, subject: str) -> tuple[str, int]:
    pairs = expect.expect_closed_mapping(node, subject, keys.UNIT_KEYS)
    return expect.expect_name(pairs["column"], "the column of unit"), _read_optional(
        pairs, "rows", expect.expect_positive_integer
    ) or 1


def _parse_budget(node: Node, subject: str) -> Budget:
    pairs = expect.expect_closed_mapping(node, subject, keys.BUDGET_KEYS)
    epsilon = as_positive(
        expect.expect_number(pairs["epsilon"], f"the epsilon of {subject}"), f"the epsilon of {subject}"
    )
    delta = expect.expect_number(pairs.get("delta", "0"), f"the delta of {subject}")
    if not 0 <= delta < 1:
        raise InvalidInput(f"the delta of {subject} must be at least 0 and below 1, got {format_exact(delta)}")
    highest = _read_optional(
        pairs, "max_epsilon", lambda entry, key: expect.expect_number(entry, f"the {key} of {subject}")
    )
    if highest is not None and highest < epsilon:
        raise InvalidInput(
            f"the max_epsilon of {subject} must be at least its epsilon, which is "
            f"{format_exact(epsilon)}, got {format_exact(highest)}"
        )
    return Budget(epsilon, delta, highest)


def _parse_published(node: Node) -> PublishedStatistic:
    pairs = expect.expect_closed_mapping(node, "an entry of published", keys.PUBLISHED_KEYS)
    present_keys = (key for key in keys.PUBLISHED_KEYS.allowed if key in pairs)
    return PublishedStatistic(
        *(expect.expect_text(pairs[key], f"the {key} of an entry of published") for key in present_keys)
    )


def _read_columns(node: Node, unit: str | None, folder: Path) -> dict[str, Column]:
    """The columns that may be asked about, in the order of the file."""
    declared = expect.expect_mapping(node, "columns", "{age: {kind: integer, lower: 0, upper: 120}}")
    names = [expect.expect_name(name, "a column's name") for name in declared]
    _check_distinct_names([*names, *([unit] if unit and unit not in names else [])])
    columns = {name: column for name in names if (column := read_column(name, declared[name], folder))}
    if not columns:
        raise InvalidInput("columns must declare at least one column that is not an identifier")
    return columns


def _add_lookups(node: Node, table: str, columns: dict[str, Column], folder: Path) -> dict[str, str]:
    """The key column of each lookup, by its name; its columns are added to the others."""
    declared = expect.expect_mapping(node, "lookups", "{icd: {file: icd.csv, key: diagnosis}}")
    names = [expect.expect_name(name, "a lookup's name") for name in declared]
    _check_distinct_names([table, *names])
    own_columns, key_of = dict(columns), {}
    for name in names:
        key_of[name], derived = read_lookup(name, declared[name], own_columns, folder)
        columns.update((column.name, column) for column in derived)
    return key_of


def _check_distinct_names(names: Sequence[str]) -> None:
    """SQL does not tell names apart by case."""
    name_of_key: dict[str, str] = {}
    for name in names:
        if name.lower() in name_of_key:
            raise InvalidInput(f"the names {name_of_key[name.lower()]} and {name} are the same to SQL; rename one")
        name_of_key[name.lower()] = name
