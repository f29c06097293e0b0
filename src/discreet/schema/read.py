"""A schema from its YAML file. Every scalar is read as what is declared; a key that is not known is refused."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import TypeVar

from discreet.errors import InvalidInput
from discreet.exact import positive, shown
from discreet.guarantee import relation
from discreet.schema import expect, keys
from discreet.schema.address import Address
from discreet.schema.column import Column
from discreet.schema.document import LONGEST, Node, check_decided, read_document
from discreet.schema.read_column import read_column
from discreet.schema.read_lookup import read_lookup
from discreet.schema.schema import Budget, Published, Schema

Read = TypeVar("Read")
TABLES = (".csv", ".parquet")


def load_schema(path: str | Path) -> Schema:
    """The schema in a file; the other files it names are beside it."""
    file = Path(path).absolute()
    if file.suffix.lower() in TABLES:
        raise InvalidInput(f"{file.name[:40]!r} is a table, not its schema; name that, or draft one by discreet init")
    return schema_from_text(expect.contents(file, "the schema", LONGEST), file.parent)


def schema_from_text(text: str, folder: Path) -> Schema:
    """The schema in a text; the files it names are in `folder`."""
    document = read_document(text)
    check_decided(document)
    pairs = expect.closed(document, "the schema", keys.SCHEMA)
    name = expect.name(pairs["name"], "name")
    unit, rows = _given(pairs, "unit", _unit) or (None, 1)
    columns = _columns(pairs["columns"], unit, folder)
    lookups = _add_lookups(pairs.get("lookups", {}), name, columns, folder)
    budget = _budget(pairs["budget"], "budget")
    return Schema(
        name=name,
        source=_source(pairs["source"]),
        folder=folder,
        neighbours=relation(expect.one_of(pairs["neighbours"], "neighbours", ("add-remove", "replace-one"))),
        columns=MappingProxyType(columns),
        budget=budget,
        analyst_budget=_given(pairs, "analyst_budget", _budget) or budget,
        units=_given(pairs, "units", expect.whole),
        unit=unit,
        rows=rows,
        models=expect.texts(pairs.get("models", ["dp"]), "models"),
        individual_dp_reason=_given(pairs, "individual_dp_reason", expect.text) or "",
        individual_queries=_given(pairs, "individual_queries", expect.truth) or False,
        partition=_given(pairs, "partition", expect.text),
        lookups=MappingProxyType(lookups),
        published=tuple(_published(entry) for entry in expect.entries(pairs.get("published", []), "published")),
        impossible=expect.texts(pairs.get("impossible", []), "impossible"),
    )


def _given(pairs: Mapping[str, Node], key: str, read: Callable[[Node, str], Read]) -> Read | None:
    """What may be left out."""
    return read(pairs[key], key) if key in pairs else None


def _source(node: Node) -> str:
    text = expect.text(node, "source")
    Address.of(text)
    return text


def _unit(node: Node, what: str) -> tuple[str, int]:
    pairs = expect.closed(node, what, keys.UNIT)
    return expect.name(pairs["column"], "the column of unit"), _given(pairs, "rows", expect.whole) or 1


def _budget(node: Node, what: str) -> Budget:
    pairs = expect.closed(node, what, keys.BUDGET)
    epsilon = positive(expect.number(pairs["epsilon"], f"the epsilon of {what}"), f"the epsilon of {what}")
    delta = expect.number(pairs.get("delta", "0"), f"the delta of {what}")
    if not 0 <= delta < 1:
        raise InvalidInput(f"the delta of {what} must be at least 0 and below 1, got {shown(delta)}")
    highest = _given(pairs, "max_epsilon", lambda given, key: expect.number(given, f"the {key} of {what}"))
    if highest is not None and highest < epsilon:
        raise InvalidInput(
            f"the max_epsilon of {what} must be at least its epsilon, which is {shown(epsilon)}, got {shown(highest)}"
        )
    return Budget(epsilon, delta, highest)


def _published(node: Node) -> Published:
    pairs = expect.closed(node, "an entry of published", keys.PUBLISHED)
    given = (key for key in keys.PUBLISHED.allowed if key in pairs)
    return Published(*(expect.text(pairs[key], f"the {key} of an entry of published") for key in given))


def _columns(node: Node, unit: str | None, folder: Path) -> dict[str, Column]:
    """The columns that may be asked about, in the order of the file."""
    declared = expect.mapping(node, "columns", "{age: {kind: integer, lower: 0, upper: 120}}")
    names = [expect.name(name, "a column's name") for name in declared]
    _check_apart([*names, *([unit] if unit and unit not in names else [])])
    columns = {name: column for name in names if (column := read_column(name, declared[name], folder))}
    if not columns:
        raise InvalidInput("columns must declare at least one column that is not an identifier")
    return columns


def _add_lookups(node: Node, table: str, columns: dict[str, Column], folder: Path) -> dict[str, str]:
    """The key column of each lookup, by its name; its columns are added to the others."""
    declared = expect.mapping(node, "lookups", "{icd: {file: icd.csv, key: diagnosis}}")
    names = [expect.name(name, "a lookup's name") for name in declared]
    _check_apart([table, *names])
    own, key_of = dict(columns), {}
    for name in names:
        key_of[name], derived = read_lookup(name, declared[name], own, folder)
        columns.update((column.name, column) for column in derived)
    return key_of


def _check_apart(names: Sequence[str]) -> None:
    """SQL does not tell names apart by case."""
    seen: dict[str, str] = {}
    for name in names:
        if name.lower() in seen:
            raise InvalidInput(f"the names {seen[name.lower()]} and {name} are the same to SQL; rename one")
        seen[name.lower()] = name
