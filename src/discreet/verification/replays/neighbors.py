"""Tables and their neighbors: generated from a schema, enumerated from a small domain, or drawn by Hypothesis.

Generated rows are those of a snapshot: integer codes by column, None for a missing value, and the unit's name under
"#unit". Extreme pairs come first: empty tables, one unit alone, all values at one bound or missing. Then come random
pairs, in which a bound is as likely as all values between, since the largest changes are at the bounds.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from fractions import Fraction
from itertools import combinations_with_replacement, islice, product
from typing import TYPE_CHECKING, Any, TypeVar

from discreet.errors import InvalidInput
from discreet.mechanisms.entropy import Entropy, KeyedEntropy, get_entropy
from discreet.mechanisms.samplers import sample_below
from discreet.numeric import as_int
from discreet.privacy.guarantee import parse_neighbor_relation
from discreet.schema import Column, Schema
from discreet.sources.ingest.memory import register_memory
from discreet.untrusted import copy_list, copy_text, require_exact_class

if TYPE_CHECKING:
    from hypothesis.strategies import SearchStrategy


Value = int | str | None
Row = dict[str, Value]
Rows = list[Row]
Pair = tuple[Rows, Rows]
NearbyValues = Mapping[str, Sequence[Value]]
"""Values of some columns that are worth trying, such as the ends of the ranges that a question is about."""
TableRows = Sequence[Mapping[str, Any]]
RowItems = tuple[tuple[str, Value], ...]
PlainValue = str | int | float | Fraction | date | None
PlainRow = dict[str, PlainValue]
PlainRowsCache = dict[str, list[PlainRow]]
"""Plain values of units, by their rows."""
Item = TypeVar("Item")
Record = TypeVar("Record", bound=Hashable)

UNIT_FIELD = "#unit"
TARGET_UNIT, REPLACEMENT_UNIT = "the one", "another"
"""The unit that is added, removed or replaced by default; and the one that may take its place."""
MAX_UNITS = 24
"""The most units of a table, whatever number is declared."""
MAX_UNDECLARED_UNITS = 5
"""The most units besides the one that differs, if their number is not public."""
PRIVATE_KEY_COUNT = 50
"""How many different private keys are generated."""
ENTROPY_KEY = b"discreet testing"
"""The same pairs on every machine: nothing generated here is secret."""
SNAPSHOT_KEY = "discreet testing"
SNAPSHOT_ADVICE = "make rows of plain values with snapshot(...)"
OVERSHOOT_STEPS = (1, 10**6, 10**30)
"""How far beyond a bound a number may be, in steps."""
MAX_EXTRA_ROWS = 2
"""How many rows a unit may have beyond those that are kept."""


def neighbor_rows(schema: Schema, count: int, entropy: Entropy | None = None) -> list[Pair]:
    """Generate pairs of neighboring tables of a schema, the extremes first.

    Args:
        schema: The schema of the tables.
        count: The number of pairs.
        entropy: What pairs are generated from; by default they are the same every time.

    Returns:
        The pairs, each for `replay`.

    Raises:
        InvalidInput: It is not a schema, or the count is not a whole number of at least 0.

    Example:
        >>> from pathlib import Path
        >>> from discreet import load_schema
        >>> from discreet.sample import write_registry
        >>> from discreet.verification import limit_units, neighbor_rows
        >>> schema = limit_units(load_schema(write_registry(Path("."), patients=100)))
        >>> [(rows, other_rows)] = neighbor_rows(schema, count=1)
        >>> len(rows) == len(other_rows)  # under replace-one
        True
    """
    require_schema(schema)
    return list(islice(generate_pairs(schema, {}, entropy), as_int(count, "how many pairs", minimum=0)))


def generated_pairs(schema: Schema) -> SearchStrategy[Pair]:
    """Build a Hypothesis strategy for pairs of neighboring tables of a schema; it shrinks to the extremes.

    Args:
        schema: The schema of the tables.

    Returns:
        The strategy; each example is a pair of tables for `replay`.

    Raises:
        InvalidInput: It is not a schema.

    Example:
        >>> from pathlib import Path
        >>> from discreet import load_schema
        >>> from discreet.sample import write_registry
        >>> from hypothesis import given, settings
        >>> from discreet.verification import generated_pairs, limit_units, replay
        >>> schema = limit_units(load_schema(write_registry(Path("."), patients=100)))
        >>> @settings(max_examples=2, database=None)
        ... @given(generated_pairs(schema))
        ... def test_count(pair):
        ...     assert replay(schema, "SELECT COUNT(*) FROM registry WHERE smoker", *pair, epsilon=1).ok
        >>> test_count()
    """
    from hypothesis import strategies as st

    require_schema(schema)

    def build_pair(place: int, seed: bytes) -> Pair:
        generator = PairGenerator(schema, {}, KeyedEntropy(seed, "generated pairs"))
        extremes = list(generator.generate_extremes())
        return extremes[place] if place < len(extremes) else generator.sample_pair()

    return st.builds(build_pair, st.integers(0, 64), st.binary(min_size=8, max_size=8))


def limit_units(schema: Schema) -> Schema:
    """Limit the public number of units of a schema, if it has one, to as few as a generated table has.

    Args:
        schema: The schema.

    Returns:
        The schema, with at most 24 units.

    Raises:
        InvalidInput: It is not a schema.

    Example:
        >>> from pathlib import Path
        >>> from discreet import load_schema
        >>> from discreet.sample import write_registry
        >>> from discreet.verification import limit_units
        >>> limit_units(load_schema(write_registry(Path("."), patients=100))).units
        24
    """
    require_schema(schema)
    return schema if schema.units is None else replace(schema, units=min(schema.units, MAX_UNITS))


def generate_pairs(
    schema: Schema, nearby_values: NearbyValues, entropy: Entropy | None = None, target_unit: str = TARGET_UNIT
) -> Iterator[Pair]:
    """Yield pairs without end, with values that are worth trying and a name for the unit that differs."""
    source = KeyedEntropy(ENTROPY_KEY, schema.name) if entropy is None else get_entropy(entropy)
    generator = PairGenerator(schema, nearby_values, source, target_unit)
    yield from generator.generate_extremes()
    while True:
        yield generator.sample_pair()


@dataclass(frozen=True, slots=True)
class PairGenerator:
    """Generates rows, units, tables and their neighbors."""

    schema: Schema
    nearby_values: NearbyValues
    entropy: Entropy
    target_unit: str = TARGET_UNIT
    _tested_values: dict[str, list[Value]] = field(default_factory=dict)

    def generate_extremes(self) -> Iterator[Pair]:
        """Yield pairs with all units at an end, or missing, or absent, and the differing one at an end, or missing."""
        ends = [self._build_unit(end) for end in ("lower", "upper", "missing")]
        least, most = self._other_unit_counts
        for size, end in dict.fromkeys([(least, "lower"), *product([most], ("lower", "upper", "missing"))]):
            others = {f"unit {number}": self._build_unit(end) for number in range(size)}
            if self.schema.neighbors == "replace-one":
                yield from (
                    self._build_pair(others, unit_rows, other_rows)
                    for unit_rows, other_rows in product(ends, ends)
                    if unit_rows != other_rows
                )
            else:
                yield from (self._build_pair(others, [], unit_rows) for unit_rows in ends)
                yield from (self._build_pair(others, unit_rows, []) for unit_rows in ends)

    def sample_pair(self) -> Pair:
        """Sample a table of any size, and a neighbor."""
        least, most = self._other_unit_counts
        size = least + sample_below(most - least + 1, self.entropy)
        others = {f"unit {number}": self._sample_unit() for number in range(size)}
        unit_rows = self._sample_unit()
        other_rows = self._modify_unit(unit_rows) if sample_below(2, self.entropy) else self._sample_unit()
        if self.schema.neighbors == "add-remove":
            unit_rows, other_rows = (unit_rows, []) if sample_below(2, self.entropy) else ([], other_rows)
        replacement = REPLACEMENT_UNIT if sample_below(2, self.entropy) else self.target_unit
        return self._build_pair(others, unit_rows, other_rows, replacement)

    @property
    def _other_unit_counts(self) -> tuple[int, int]:
        """The fewest and the most units besides the one that differs."""
        return (0, MAX_UNDECLARED_UNITS) if self.schema.units is None else (min(self.schema.units, MAX_UNITS) - 1,) * 2

    def _build_pair(
        self, others: Mapping[str, Rows], unit_rows: Rows, other_rows: Rows, replacement: str | None = None
    ) -> Pair:
        """The differing unit stands anywhere among the others, since the order of rows may not matter."""
        rows = [row for name, rows in others.items() for row in self._name_unit(rows, name)]
        position = sample_below(len(rows) + 1, self.entropy)
        target_rows = self._name_unit(unit_rows, self.target_unit)
        replacement_rows = self._name_unit(other_rows, replacement or self.target_unit)
        before, after = rows[:position], rows[position:]
        return [*before, *target_rows, *after], [*before, *replacement_rows, *after]

    def _name_unit(self, rows: Rows, name: str) -> Rows:
        return [dict(row) if self.schema.unit is None else row | {UNIT_FIELD: name} for row in rows]

    def _build_unit(self, end: str) -> Rows:
        """As many rows as a unit may have, all with the same values."""
        row = {name: _get_end_value(column, end) for name, column in self._free_columns.items()}
        return [self._add_derived_columns(row) for _ in range(self.schema.rows)]

    @property
    def _free_columns(self) -> dict[str, Column]:
        """The columns that do not follow from others."""
        return {name: column for name, column in self.schema.columns.items() if column.derived is None}

    def _sample_unit(self) -> Rows:
        """Often as many rows as allowed, and often equal ones."""
        max_rows = self.schema.rows
        count = max_rows if sample_below(5, self.entropy) < 3 else 1 + sample_below(max_rows, self.entropy)
        first = self.sample_row()
        return [dict(first) if sample_below(2, self.entropy) else self.sample_row() for _ in range(count)]

    def _modify_unit(self, rows: Rows) -> Rows:
        """The same rows but for one column, which has one value in all of them."""
        name = self._pick(list(self._free_columns))
        value = self._sample_value(self.schema.columns[name])
        return [self._add_derived_columns(row | {name: value}) for row in rows]

    def sample_row(self) -> Row:
        """Sample a row whose values are at the ends, or worth trying, or anywhere."""
        return self._add_derived_columns(
            {name: self._sample_value(column) for name, column in self._free_columns.items()}
        )

    def _sample_value(self, column: Column) -> Value:
        if column.is_nullable and sample_below(7, self.entropy) == 0:
            return None
        if column.private_keys:
            random_key = f"key {sample_below(PRIVATE_KEY_COUNT, self.entropy)}"
            return self._pick(["key 0", "key 1", random_key, *self.nearby_values.get(column.name, ())])
        if column.name not in self._tested_values:
            inside = [code for code in self.nearby_values.get(column.name, ()) if code is not None]
            self._tested_values[column.name] = [column.lower, column.upper, *inside]
        anywhere = column.lower + sample_below(column.size, self.entropy)
        return self._pick([*self._tested_values[column.name], anywhere])

    def _pick(self, values: Sequence[Item]) -> Item:
        return values[sample_below(len(values), self.entropy)]

    def _add_derived_columns(self, values: Mapping[str, Value]) -> Row:
        """The row with its derived columns, in the order of the schema."""
        columns = self.schema.columns
        return {
            name: values[name] if column.derived is None else _derive_value(column, columns, values)
            for name, column in columns.items()
        }


def _get_end_value(column: Column, end: str) -> Value:
    """The value of a column at an end; if it cannot be missing, what stands for a missing value."""
    if end == "missing":
        return column.missing
    if column.private_keys:
        return "key 0" if end == "lower" else "key 1"
    return column.lower if end == "lower" else column.upper


def _derive_value(column: Column, columns: Mapping[str, Column], values: Mapping[str, Value]) -> Value:
    if column.derived is None:
        return None
    code = values[column.derived.key]
    derived_code = column.derived.codes[code - columns[column.derived.key].lower] if isinstance(code, int) else None
    return column.missing if derived_code is None else derived_code


def snapshot(schema: Schema, rows: TableRows, key: str = SNAPSHOT_KEY) -> list[Row]:
    """Register rows of plain values as a source does: values are clipped and coded, and the rows of a unit are bounded.

    Which rows are kept of a unit that has too many depends on the key and on that unit's rows alone.

    Args:
        schema: The schema of the table.
        rows: The rows, as mappings from columns to values.
        key: The key that chooses rows of a unit.

    Returns:
        The rows of the snapshot, for `replay`: codes by column, and the unit under "#unit".

    Raises:
        InvalidInput: It is not a schema, or the rows do not fit it.

    Example:
        >>> from pathlib import Path
        >>> from discreet import load_schema
        >>> from discreet.sample import write_registry
        >>> from discreet.verification import snapshot
        >>> schema = load_schema(write_registry(Path("."), patients=100))
        >>> patient = dict.fromkeys(schema.columns) | {"person_id": "7", "age": 120}
        >>> [row] = snapshot(schema, [patient])
        >>> row["#unit"], row["age"]  # clipped to the public bound
        ('7', 90)
    """
    require_schema(schema)
    require_tables(rows)
    return register_memory(schema, rows, copy_text(key, "the key of a snapshot"))[0]


def require_schema(schema: object) -> None:
    """Refuse what is not a schema."""
    require_exact_class(schema, Schema, "the schema must be a Schema, as load_schema('registry.yaml') returns it")


def require_tables(*tables: object) -> None:
    """Refuse what is not a list of rows."""
    for rows in tables:
        if not isinstance(rows, Sequence) or not all(isinstance(row, Mapping) for row in rows):
            raise InvalidInput("the rows of a table must be a list of dictionaries, such as [{'age': 40}]")


def require_snapshot(schema: Schema, *tables: TableRows) -> None:
    """Refuse rows that no snapshot has: plain values that were not registered, or too many of a unit."""
    require_schema(schema)
    require_tables(*tables)
    needed = {*schema.columns, *([] if schema.unit is None else [UNIT_FIELD])}
    for rows in tables:
        for row in rows:
            if not needed <= set(row):
                raise InvalidInput(f"a row needs {', '.join(sorted(needed - set(row)))[:80]}; {SNAPSHOT_ADVICE}")
            if not all(_is_valid_code(column, row[name]) for name, column in schema.columns.items()):
                raise InvalidInput(
                    f"a row of a snapshot has codes, each within the bounds of its column; {SNAPSHOT_ADVICE}"
                )
        if any(unit_rows.total() > schema.rows for unit_rows in _group_by_unit(schema, rows).values()):
            raise InvalidInput(f"a unit has at most {schema.rows} rows here; {SNAPSHOT_ADVICE}")


def find_differing_rows(schema: Schema, rows: TableRows, other_rows: TableRows) -> list[Row]:
    """Return the rows of the one unit in which two tables differ, or of the two if one replaced the other."""
    units, other_units = (_group_by_unit(schema, table) for table in _trim_common_rows(schema, rows, other_rows))
    differing_names = [name for name in {**units, **other_units} if units.get(name) != other_units.get(name)]
    unshared_counts = [
        sum(name in mine and name not in other for name in differing_names)
        for mine, other in ((units, other_units), (other_units, units))
    ]
    change = (len(differing_names), *sorted(unshared_counts))
    allowed_changes = {(1, 0, 1)} if schema.neighbors == "add-remove" else {(1, 0, 0), (2, 1, 1)}
    if differing_names and change not in allowed_changes:
        raise InvalidInput(f"the two tables are no neighbours: {schema.neighbors} means that one unit differs")
    return [dict(row) for table in (units, other_units) for name in differing_names for row in table.get(name, ())]


def _trim_common_rows(schema: Schema, rows: TableRows, other_rows: TableRows) -> tuple[TableRows, TableRows]:
    """The tables without the rows that both begin or end with, but for rows of units that are also in between."""
    shorter_length = min(len(rows), len(other_rows))
    start = next((index for index in range(shorter_length) if rows[index] != other_rows[index]), shorter_length)
    length = shorter_length - start
    end = next((index for index in range(length) if rows[-1 - index] != other_rows[-1 - index]), length)
    between = [table[start : len(table) - end] for table in (rows, other_rows)]
    if schema.unit is None:
        return between[0], between[1]
    names = {row[UNIT_FIELD] for table in between for row in table}
    return [row for row in rows if row[UNIT_FIELD] in names], [row for row in other_rows if row[UNIT_FIELD] in names]


def _group_by_unit(schema: Schema, rows: TableRows) -> dict[object, Counter[RowItems]]:
    """The rows of every unit; without a unit column every row is a unit of its own, equal rows too."""
    units: dict[object, Counter[RowItems]] = defaultdict(Counter)
    copies: Counter[object] = Counter()
    for row in rows:
        row_items = tuple(sorted(row.items()))
        copies[row_items] += 1
        units[(row_items, copies[row_items]) if schema.unit is None else row[UNIT_FIELD]][row_items] += 1
    return units


def _is_valid_code(column: Column, code: object) -> bool:
    if code is None:
        return column.is_nullable
    if column.private_keys:
        return isinstance(code, str)
    return isinstance(code, int) and column.lower <= code <= column.upper


def build_source_rows(schema: Schema, rows: Iterable[Row], cache: PlainRowsCache | None = None) -> list[PlainRow]:
    """Turn rows of a snapshot into plain values; those of a unit follow from its rows alone.

    So neighbors stay neighbors. Values at a bound may lie beyond it, and a unit with as many rows as allowed may have
    more. The `cache` keeps the plain rows of units for the neighbor.
    """
    plain_rows: PlainRowsCache = {} if cache is None else cache
    units: dict[object, list[Row]] = {}
    for index, row in enumerate(rows):
        units.setdefault(index if schema.unit is None else row[UNIT_FIELD], []).append(row)
    keys = {name: repr(unit_rows) for name, unit_rows in units.items()}
    for name, key in keys.items():
        if key not in plain_rows:
            plain_rows[key] = _sample_plain_rows(schema, units[name], KeyedEntropy(key.encode(), "as found"))
    return [row for key in keys.values() for row in plain_rows[key]]


def _sample_plain_rows(schema: Schema, rows: list[Row], entropy: Entropy) -> list[PlainRow]:
    is_full = len(rows) == schema.rows and schema.unit is not None
    extra_count = sample_below(MAX_EXTRA_ROWS + 1, entropy) if is_full else 0
    generator = PairGenerator(schema, {}, entropy)
    all_rows = [*rows, *(generator.sample_row() | {UNIT_FIELD: rows[0][UNIT_FIELD]} for _ in range(extra_count))]
    plain_rows = []
    for row in all_rows:
        plain_row: PlainRow = {} if schema.unit is None else {schema.unit: row[UNIT_FIELD]}
        for name, column in schema.columns.items():
            if column.derived is None:
                plain_row[name] = _sample_plain_value(column, row[name], entropy)
        plain_rows.append(plain_row)
    return plain_rows


def _sample_plain_value(column: Column, code: Value, entropy: Entropy) -> PlainValue:
    """A plain value that is registered as this code; columns with private keys have texts, which are their values."""
    if code is None or isinstance(code, str):
        return code
    if column.categories:
        return column.categories[code]
    end = -1 if code == column.lower else 1 if code == column.upper else 0
    overshoot = end * OVERSHOOT_STEPS[sample_below(len(OVERSHOOT_STEPS), entropy)] if sample_below(2, entropy) else 0
    if column.kind == "date":
        return column.decode(code) if not overshoot else date.min if end < 0 else date.max
    numerator = (code + overshoot) * column.step.numerator
    try:
        return numerator / column.step.denominator
    except OverflowError:
        return math.inf if numerator > 0 else -math.inf


def all_tables(domain: Sequence[Record], size: int) -> Iterator[tuple[Record, ...]]:
    """Yield every table of `size` records, regardless of their order.

    Args:
        domain: Every possible record.
        size: The number of records.

    Yields:
        Each table as a tuple of records.

    Raises:
        InvalidInput: The domain is not a list, or the size is not a whole number of at least 0.

    Example:
        >>> from discreet.verification import all_tables
        >>> list(all_tables(["a", "b"], size=2))
        [('a', 'a'), ('a', 'b'), ('b', 'b')]
    """
    return combinations_with_replacement(copy_list(domain, "the domain"), as_int(size, "the size", minimum=0))


def all_neighbors(
    table: Sequence[Record], domain: Sequence[Record], neighbors: str = "add-remove"
) -> Iterator[tuple[Record, ...]]:
    """Yield every neighbor of a small table.

    Args:
        table: The table, a list of records.
        domain: Every possible record.
        neighbors: The neighbor relation, "add-remove" or "replace-one".

    Yields:
        Each neighbor as a tuple of records.

    Raises:
        InvalidInput: The relation is unknown, or an argument is not a list.

    Example:
        >>> from discreet.verification import all_neighbors
        >>> list(all_neighbors(["a"], domain=["a", "b"]))
        [(), ('a', 'a'), ('a', 'b')]
    """
    rows, records = tuple(copy_list(table, "the table")), copy_list(domain, "the domain")
    shorter = [rows[:index] + rows[index + 1 :] for index in range(len(rows))]
    if parse_neighbor_relation(neighbors) == "add-remove":
        yield from shorter
        yield from ((*rows, record) for record in records)
    else:
        yield from ((*shorter_rows, record) for shorter_rows in shorter for record in records)


def neighbor_tables(
    records: SearchStrategy[Record], neighbors: str = "add-remove", max_size: int = 20
) -> SearchStrategy[tuple[list[Record], list[Record]]]:
    """Build a Hypothesis strategy for pairs of neighboring lists of records.

    Args:
        records: A strategy for one record.
        neighbors: The neighbor relation, "add-remove" or "replace-one".
        max_size: The most records that both lists share.

    Returns:
        The strategy; each example is a pair of lists.

    Raises:
        InvalidInput: `records` is not a strategy, or the relation is unknown.

    Example:
        >>> from hypothesis import given, settings, strategies as st
        >>> from discreet.verification import neighbor_tables
        >>> @settings(max_examples=2, database=None)
        ... @given(neighbor_tables(st.integers(0, 9)))
        ... def test_count_changes_by_one(pair):
        ...     assert abs(len(pair[0]) - len(pair[1])) == 1
        >>> test_count_changes_by_one()
    """
    from hypothesis import strategies as st

    if not isinstance(records, st.SearchStrategy):
        raise InvalidInput(
            f"records must be a Hypothesis strategy such as st.integers(0, 9), got {type(records).__name__}"
        )
    is_replace_one = parse_neighbor_relation(neighbors) == "replace-one"

    def build_pair(rows: list[Record], place: int, old: Record, new: Record) -> tuple[list[Record], list[Record]]:
        position = place % (len(rows) + 1)
        with_old, with_new = [*rows[:position], old, *rows[position:]], [*rows[:position], new, *rows[position:]]
        if is_replace_one:
            return with_old, with_new
        return (with_old, rows) if place % 2 else (rows, with_old)

    return st.builds(build_pair, st.lists(records, max_size=max_size), st.integers(0, 10**6), records, records)
