"""Read a schema from its YAML file, and the taxonomies (JSON) and lookup tables (CSV) that it names.

A taxonomy is {"parents": {"nurse": "health worker", "health worker": ["worker"], "worker": []}, "mapping": {...}}.
`parents` gives each concept its parent or a list of parents, none for the root. `mapping`, where there is one, lists
values as the data write them, each with the concept it means, as text or as the "synset" of an object; such a value
becomes a leaf under its concept. `attribute`, `source` and `n_concepts` are remarks.
"""

from __future__ import annotations

import csv
import io
import json
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from types import MappingProxyType
from typing import TypeVar, cast, get_args

from discreet.errors import InvalidInput
from discreet.numeric import as_int, as_positive, format_exact, parse_days
from discreet.priors.taxonomy import Taxonomy
from discreet.privacy.guarantee import parse_neighbor_relation
from discreet.schema import yaml
from discreet.schema.schema import (
    Budget,
    Column,
    DerivedCodes,
    Kind,
    PublishedStatistic,
    Role,
    Schema,
    SourceAddress,
    Trend,
    encode_bounds,
)

MAX_CATEGORIES = 100_000
MAX_KEYS = 100_000
MAX_TERM = 2**53
"""Beyond it not every whole number is a double, and engines would not agree on what a step is."""
INTEGER_TEXT = re.compile(r"-?(0|[1-9][0-9]{0,14})")
"""A text with leading zeros is a name, not a number."""
TABLE_SUFFIXES = (".csv", ".parquet")
TRENDS = get_args(Trend)
Pairs = Mapping[str, yaml.Node]
Row = list[str]
Read = TypeVar("Read")


def read_taxonomy(node: yaml.Node, subject: str, folder: Path) -> Taxonomy:
    """Read a taxonomy from the file that is named, beside the schema."""
    document = _parse_json(yaml.read_referenced_file(node, subject, folder), subject)
    pairs = yaml.expect_closed_mapping(document, subject, yaml.TAXONOMY_KEYS)
    tree = yaml.expect_mapping(pairs["parents"], f"parents in {subject}", '{"child": "parent"}')
    parents = {}
    for child, names in tree.items():
        place = f"the parents of {child[:40]!r} in {subject}"
        listed_names = names if isinstance(names, list) else [names]
        parents[child] = tuple(yaml.trim_text(yaml.expect_text(name, place), place) for name in listed_names)
    values = yaml.expect_mapping(pairs.get("mapping", {}), f"mapping in {subject}", '{"value": "concept"}')
    for value, meaning in values.items():
        place = f"the concept of {value[:40]!r} in {subject}"
        concept_node = meaning.get("synset", "") if isinstance(meaning, dict) else meaning
        concept = yaml.trim_text(yaml.expect_text(concept_node, place), place)
        if value != concept and value in parents:
            raise InvalidInput(
                f"{value[:40]!r} in {subject} is a concept and also mapped to another; rename one of them"
            )
        parents.setdefault(value, (concept,))
    try:
        return Taxonomy.of(parents)
    except InvalidInput as error:
        raise InvalidInput(f"{subject} is refused: {error}") from None


def _parse_json(text: str, subject: str) -> yaml.Node:
    """JSON with every scalar as text and every key once."""

    def build_mapping(pairs: list[tuple[str, yaml.Node]]) -> dict[str, yaml.Node]:
        keys = [yaml.trim_text(key, subject) for key, _ in pairs]
        if len(set(keys)) < len(keys) or "" in keys:
            raise InvalidInput(f"{subject} has a key that is empty or given twice; give every key once")
        return dict(zip(keys, (value for _, value in pairs), strict=True))

    try:
        document: yaml.Node = json.loads(
            text, object_pairs_hook=build_mapping, parse_int=str, parse_float=str, parse_constant=str
        )
    except (json.JSONDecodeError, RecursionError):
        raise InvalidInput(f'{subject} is not valid JSON; write {{"parents": {{"child": "parent"}}}}') from None
    return document


def read_column(name: str, node: yaml.Node, folder: Path) -> Column | None:
    """Read a column; None where it is an identifier, which needs no domain and is never asked about."""
    pairs = yaml.expect_closed_mapping(node, f"column {name}", yaml.MappingKeys(yaml.COLUMN_KEYS.allowed))
    role = cast(Role, yaml.expect_one_of(pairs.get("role", "other"), f"the role of {name}", get_args(Role)))
    if role == "identifier":
        return None
    yaml.expect_closed_mapping(node, f"column {name}", yaml.COLUMN_KEYS)
    kind = cast(Kind, yaml.expect_one_of(pairs["kind"], f"the kind of {name}", get_args(Kind)))
    yaml.expect_closed_mapping(node, f"column {name} of kind {kind}", yaml.KIND_KEYS[kind])
    absent = yaml.expect_texts(pairs.get("missing_values", []), f"missing_values of {name}")
    column = _set_domain(Column(name, kind, role=role, missing_values=absent), pairs, folder)
    if "counts" in pairs:
        column = replace(column, counts=cast(Trend, yaml.expect_one_of(pairs["counts"], f"counts of {name}", TRENDS)))
    return replace(column, missing=_parse_missing_code(column, pairs["missing"])) if "missing" in pairs else column


def _set_domain(column: Column, pairs: Pairs, folder: Path) -> Column:
    match column.kind:
        case "integer" | "number":
            return _set_number_bounds(column, pairs)
        case "date":
            return _set_date_bounds(column, pairs)
        case "boolean":
            return set_categories(column, ("false", "true"))
        case "ordinal":
            return _set_listed_categories(column, pairs["categories"])
        case "nominal":
            return _set_nominal_values(column, pairs, folder)


def _set_number_bounds(column: Column, pairs: Pairs) -> Column:
    subject = f"the step of {column.name}"
    step = as_positive(yaml.expect_number(pairs.get("step", "1"), subject), subject)
    if column.kind == "integer":
        as_int(step, subject)
    if max(step.numerator, step.denominator) > MAX_TERM:
        raise InvalidInput(f"{subject} must be a ratio of whole numbers of at most 2^53, such as 0.01")
    lower_bound = yaml.expect_number(pairs["lower"], f"the lower bound of {column.name}")
    upper_bound = yaml.expect_number(pairs["upper"], f"the upper bound of {column.name}")
    lower, upper = encode_bounds(lower_bound, upper_bound, step, column.name)
    return replace(column, lower=lower, upper=upper, step=step)


def _set_date_bounds(column: Column, pairs: Pairs) -> Column:
    subjects = f"the lower bound of {column.name}", f"the upper bound of {column.name}"
    first, last = yaml.expect_text(pairs["lower"], subjects[0]), yaml.expect_text(pairs["upper"], subjects[1])
    lower, upper = parse_days(first, subjects[0]), parse_days(last, subjects[1])
    if lower > upper:
        raise InvalidInput(f"the bounds of {column.name} are reversed: lower {first}, upper {last}")
    return replace(column, lower=lower, upper=upper)


def _set_nominal_values(column: Column, pairs: Pairs, folder: Path) -> Column:
    """The values of a nominal column: a public list, the leaves of a taxonomy, or private."""
    value_keys = [key for key in yaml.NOMINAL_KEYS if key in pairs]
    if len(value_keys) != 1:
        raise InvalidInput(
            f"column {column.name} needs exactly one of categories, taxonomy and keys: private, for its values"
        )
    if value_keys == ["keys"]:
        yaml.expect_one_of(pairs["keys"], f"keys of {column.name}", ("private",))
        return replace(column, private_keys=True)
    if value_keys == ["categories"]:
        return _set_listed_categories(column, pairs["categories"])
    taxonomy = read_taxonomy(pairs["taxonomy"], f"the taxonomy of {column.name}", folder)
    return replace(set_categories(column, taxonomy.leaves), taxonomy=taxonomy)


def _set_listed_categories(column: Column, node: yaml.Node) -> Column:
    return set_categories(column, yaml.expect_texts(node, f"the categories of {column.name}"))


def set_categories(column: Column, categories: tuple[str, ...]) -> Column:
    """Give a column these values, coded in this order."""
    name = column.name
    if not 1 <= len(categories) <= MAX_CATEGORIES:
        raise InvalidInput(f"{name} must have 1 to {MAX_CATEGORIES} categories, got {len(categories)}")
    if len(set(categories)) < len(categories):
        duplicate = Counter(categories).most_common(1)[0][0]
        raise InvalidInput(f"the categories of {name} have {duplicate[:40]!r} twice; list each once")
    overlap = sorted(set(categories) & set(column.missing_values))
    if overlap:
        raise InvalidInput(f"{overlap[0][:40]!r} is a category of {name} and also among its missing_values; choose one")
    return replace(column, categories=categories, upper=len(categories) - 1)


def _parse_missing_code(column: Column, node: yaml.Node) -> int:
    subject = f"missing of {column.name}"
    text = yaml.expect_text(node, subject)
    if column.private_keys:
        raise InvalidInput(f"{subject} cannot be declared, since its keys are private; leave it out")
    code = column.find_code(column.find_position(text))
    if code is None:
        raise InvalidInput(f"{subject} must be one of its values, within its bounds and on its step, got {text[:40]!r}")
    return code


def read_lookup(name: str, node: yaml.Node, columns: Mapping[str, Column], folder: Path) -> tuple[str, list[Column]]:
    """The key column's name, and a derived column for each further column of the table.

    The first column of the CSV file is matched with the key's values, at most one row to a value; rows of other values
    are left out. A value without a row, and an empty cell, are missing.
    """
    subject = f"lookup {name}"
    pairs = yaml.expect_closed_mapping(node, subject, yaml.LOOKUP_KEYS)
    key_name = yaml.expect_text(pairs["key"], f"the key of {subject}")
    key = columns.get(key_name)
    if key is None or not (key.categories or key.kind == "integer") or key.size > MAX_KEYS:
        requirement = f"a column with categories, or an integer or boolean one, of at most {MAX_KEYS} values"
        raise InvalidInput(f"the key of {subject} must be {requirement}, got {key_name[:40]!r}")
    header, rows = _parse_table(yaml.read_referenced_file(pairs["file"], f"the file of {subject}", folder), subject)
    matched_rows = _match_rows(rows, key, subject)
    labels = enumerate(header[1:], 1)
    return key.name, [_build_derived_column(f"{name}.{label}", place, matched_rows, key) for place, label in labels]


def _parse_table(text: str, subject: str) -> tuple[Row, list[Row]]:
    """The header and the rows, which are all as long."""
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    try:
        lines = [
            [yaml.trim_text(cell, f"line {reader.line_num} of {subject}") for cell in line] for line in reader if line
        ]
    except csv.Error:
        raise InvalidInput(f"line {reader.line_num} of {subject} is not CSV; quote cells that hold a comma") from None
    header, rows = (lines[0], lines[1:]) if lines else ([], [])
    if len(header) < 2 or not rows:
        raise InvalidInput(f"{subject} must have a header, a key column, a further column and rows")
    labels = [yaml.expect_name(label, f"a column's name in {subject}").lower() for label in header[1:]]
    if len(set(labels)) < len(labels):
        raise InvalidInput(f"{subject} has two columns of the same name, in any case; rename one")
    if any(len(row) != len(header) for row in rows):
        raise InvalidInput(f"{subject} has rows that are longer or shorter than its header; make them alike")
    return header, rows


def _match_rows(rows: list[Row], key: Column, subject: str) -> dict[int, Row]:
    find_code = _build_coder(key)
    matched_rows: dict[int, Row] = {}
    used_keys: set[str] = set()
    for row in rows:
        code = find_code(row[0])
        if row[0] in used_keys or code in matched_rows:
            raise InvalidInput(f"{subject} has the key {row[0][:40]!r} twice; it would multiply rows, so keep one")
        used_keys.add(row[0])
        if code is not None:
            matched_rows[code] = row
    if not matched_rows:
        raise InvalidInput(f"{subject} has no key that is a value of {key.name}; check its first column")
    return matched_rows


def _build_coder(key: Column) -> Callable[[str], int | None]:
    """How a text of the key becomes a code; None for what is not in the key's domain."""
    if key.categories:
        codes = {category: code for code, category in enumerate(key.categories)}
        return (lambda text: codes.get(text.lower())) if key.kind == "boolean" else codes.get

    return lambda text: key.find_code(Fraction(int(text)) / key.step) if INTEGER_TEXT.fullmatch(text) else None


def _build_derived_column(name: str, place: int, matched_rows: Mapping[int, Row], key: Column) -> Column:
    """One further column: whole numbers where every value is one, else categories as they first appear."""
    cells = {code: row[place] for code, row in matched_rows.items() if row[place]}
    values = dict.fromkeys(cells.values())
    if not values:
        raise InvalidInput(f"{name} has no value for any value of {key.name}; fill it or remove it")
    if all(INTEGER_TEXT.fullmatch(value) for value in values):
        numbers = [Fraction(value) for value in values]
        lower, upper = encode_bounds(min(numbers), max(numbers), Fraction(1), name)
        codes = {value: int(value) for value in values}
        column = Column(name, "integer", lower, upper)
    else:
        codes = {value: code for code, value in enumerate(values)}
        column = set_categories(Column(name, "nominal"), tuple(values))
    derived = tuple(codes[cells[code]] if code in cells else None for code in range(key.lower, key.upper + 1))
    return replace(column, derived=DerivedCodes(key.name, derived))


def locate_schema(path: object) -> Path:
    """Find the file of a schema by its path, or refuse what is not a path."""
    if not isinstance(path, str | Path):
        raise InvalidInput(f"a schema must be the path of its file, such as 'registry.yaml', got {type(path).__name__}")
    return Path(path).absolute()


def load_schema(path: str | Path) -> Schema:
    """Load a schema from its YAML file; the other files that it names are read beside it.

    Args:
        path: The path of the file.

    Returns:
        The schema. No row was read.

    Raises:
        InvalidInput: The file is not a valid schema; the message names the line.

    Example:
        >>> from pathlib import Path
        >>> from discreet import load_schema
        >>> from discreet.sample import write_registry
        >>> schema = load_schema(write_registry(Path("."), patients=100))
        >>> schema.name, len(schema.columns)
        ('registry', 13)
    """
    file = locate_schema(path)
    if file.suffix.lower() in TABLE_SUFFIXES:
        raise InvalidInput(f"{file.name[:40]!r} is a table, not its schema; name that, or draft one by discreet init")
    return schema_from_text(yaml.read_text_file(file, "the schema", yaml.MAX_CHARACTERS), file.parent)


def schema_from_text(text: str, folder: Path) -> Schema:
    """Read the schema in a text; the files it names are in `folder`."""
    document = yaml.read_document(text)
    yaml.check_decided(document)
    pairs = yaml.expect_closed_mapping(document, "the schema", yaml.SCHEMA_KEYS)
    name = yaml.expect_name(pairs["name"], "name")
    unit, rows = _read_optional(pairs, "unit", _parse_unit) or (None, 1)
    columns = _read_columns(pairs["columns"], unit, folder)
    lookups = _add_lookups(pairs.get("lookups", {}), name, columns, folder)
    budget = _parse_budget(pairs["budget"], "budget")
    source = yaml.expect_text(pairs["source"], "source")
    SourceAddress.of(source)  # refuses what is no address
    neighbors = yaml.expect_one_of(pairs["neighbours"], "neighbours", ("add-remove", "replace-one"))
    return Schema(
        name=name,
        source=source,
        folder=folder,
        neighbors=parse_neighbor_relation(neighbors),
        columns=MappingProxyType(columns),
        budget=budget,
        analyst_budget=_read_optional(pairs, "analyst_budget", _parse_budget) or budget,
        units=_read_optional(pairs, "units", yaml.expect_positive_integer),
        unit=unit,
        rows=rows,
        models=yaml.expect_texts(pairs.get("models", ["dp"]), "models"),
        individual_dp_reason=_read_optional(pairs, "individual_dp_reason", yaml.expect_text) or "",
        individual_queries=_read_optional(pairs, "individual_queries", yaml.expect_boolean) or False,
        partition=_read_optional(pairs, "partition", yaml.expect_text),
        lookups=MappingProxyType(lookups),
        published=tuple(_parse_published(entry) for entry in yaml.expect_list(pairs.get("published", []), "published")),
        impossible=yaml.expect_texts(pairs.get("impossible", []), "impossible"),
    )


def _read_optional(pairs: Mapping[str, yaml.Node], key: str, read: Callable[[yaml.Node, str], Read]) -> Read | None:
    return read(pairs[key], key) if key in pairs else None


def _parse_unit(node: yaml.Node, subject: str) -> tuple[str, int]:
    pairs = yaml.expect_closed_mapping(node, subject, yaml.UNIT_KEYS)
    rows = _read_optional(pairs, "rows", yaml.expect_positive_integer) or 1
    return yaml.expect_name(pairs["column"], "the column of unit"), rows


def _parse_budget(node: yaml.Node, subject: str) -> Budget:
    pairs = yaml.expect_closed_mapping(node, subject, yaml.BUDGET_KEYS)
    name = f"the epsilon of {subject}"
    epsilon = as_positive(yaml.expect_number(pairs["epsilon"], name), name)
    delta = yaml.expect_number(pairs.get("delta", "0"), f"the delta of {subject}")
    if not 0 <= delta < 1:
        raise InvalidInput(f"the delta of {subject} must be at least 0 and below 1, got {format_exact(delta)}")
    ceiling = pairs.get("max_epsilon")
    highest = None if ceiling is None else yaml.expect_number(ceiling, f"the max_epsilon of {subject}")
    if highest is not None and highest < epsilon:
        raise InvalidInput(
            f"the max_epsilon of {subject} must be at least its epsilon, which is "
            f"{format_exact(epsilon)}, got {format_exact(highest)}"
        )
    return Budget(epsilon, delta, highest)


def _parse_published(node: yaml.Node) -> PublishedStatistic:
    pairs = yaml.expect_closed_mapping(node, "an entry of published", yaml.PUBLISHED_KEYS)
    keys = (key for key in yaml.PUBLISHED_KEYS.allowed if key in pairs)
    return PublishedStatistic(*(yaml.expect_text(pairs[key], f"the {key} of an entry of published") for key in keys))


def _read_columns(node: yaml.Node, unit: str | None, folder: Path) -> dict[str, Column]:
    """The columns that may be asked about, in the order of the file."""
    declared = yaml.expect_mapping(node, "columns", "{age: {kind: integer, lower: 0, upper: 120}}")
    names = [yaml.expect_name(name, "a column's name") for name in declared]
    _check_distinct_names([*names, *([unit] if unit and unit not in names else [])])
    columns = {name: column for name in names if (column := read_column(name, declared[name], folder))}
    if not columns:
        raise InvalidInput("columns must declare at least one column that is not an identifier")
    return columns


def _add_lookups(node: yaml.Node, table: str, columns: dict[str, Column], folder: Path) -> dict[str, str]:
    """The key column of each lookup, by its name; its columns are added to the others."""
    declared = yaml.expect_mapping(node, "lookups", "{icd: {file: icd.csv, key: diagnosis}}")
    names = [yaml.expect_name(name, "a lookup's name") for name in declared]
    _check_distinct_names([table, *names])
    own_columns, keys = dict(columns), {}
    for name in names:
        keys[name], derived_columns = read_lookup(name, declared[name], own_columns, folder)
        columns.update((column.name, column) for column in derived_columns)
    return keys


def _check_distinct_names(names: Sequence[str]) -> None:
    """SQL does not tell names apart by case."""
    seen: dict[str, str] = {}
    for name in names:
        if name.lower() in seen:
            raise InvalidInput(f"the names {seen[name.lower()]} and {name} are the same to SQL; rename one")
        seen[name.lower()] = name
