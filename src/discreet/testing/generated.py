"""Tables that fit a schema, and their neighbours, made from public facts alone: no file is ever opened.

Rows are as a snapshot keeps them: whole codes by column, None where a value is missing, and the unit's name under
"#unit". The extremes come first: empty tables, one unit alone, all values at one bound, none there at all. Then chance
takes over, and there too the bounds are as likely as all the rest, since it is there that most is moved.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice, product
from typing import TYPE_CHECKING, TypeVar

from discreet.exact import as_int
from discreet.kernel.entropy import Entropy, KeyedEntropy
from discreet.kernel.entropy import get_entropy as entropy_source
from discreet.kernel.sampling import sample_below
from discreet.schema import Column, Schema

if TYPE_CHECKING:
    from hypothesis.strategies import SearchStrategy

Value = int | str | None
Row = dict[str, Value]
Rows = list[Row]
Pair = tuple[Rows, Rows]
NearbyValues = Mapping[str, Sequence[Value]]
"""Values of some columns that are worth trying, such as the ends of the ranges that a question is about."""
Item = TypeVar("Item")

UNIT_FIELD = "#unit"
TARGET_UNIT, REPLACEMENT_UNIT = "the one", "another"
"""Who is added, removed or replaced, if nobody else is named; and who may take the place."""
MAX_UNITS = 24
"""How many units a table has at most, whatever number is declared."""
MAX_UNDECLARED_UNITS = 5
"""How many it has at most where their number is not public."""
PRIVATE_KEY_COUNT = 50
"""How many different private keys are made up."""
ENTROPY_KEY = b"discreet testing"
"""The same pairs on every machine: nothing that is generated here is secret."""


def neighbour_rows(schema: Schema, count: int, entropy: Entropy | None = None) -> list[Pair]:
    """So many pairs of neighbouring tables, the same every time unless entropy is given."""
    return list(islice(generate_pairs(schema, {}, entropy), as_int(count, "how many pairs", minimum=0)))


def generated_pairs(schema: Schema) -> SearchStrategy[Pair]:
    """A Hypothesis strategy for pairs of neighbouring tables of a schema; it shrinks to the extremes."""
    from hypothesis import strategies as st

    def build_pair(place: int, seed: bytes) -> Pair:
        generator = PairGenerator(schema, {}, KeyedEntropy(seed, "generated pairs"))
        extremes = list(generator.generate_extremes())
        return extremes[place] if place < len(extremes) else generator.sample_pair()

    return st.builds(build_pair, st.integers(0, 64), st.binary(min_size=8, max_size=8))


def limit_units(schema: Schema) -> Schema:
    """The same schema with as few units as a generated table has, where their number is public."""
    return schema if schema.units is None else replace(schema, units=min(schema.units, MAX_UNITS))


def generate_pairs(
    schema: Schema, nearby_values: NearbyValues, entropy: Entropy | None = None, target_unit: str = TARGET_UNIT
) -> Iterator[Pair]:
    """Pairs without end, with values that are worth trying and a name for the unit that differs."""
    generator = PairGenerator(
        schema,
        nearby_values,
        KeyedEntropy(ENTROPY_KEY, schema.name) if entropy is None else entropy_source(entropy),
        target_unit,
    )
    yield from generator.generate_extremes()
    while True:
        yield generator.sample_pair()


@dataclass(frozen=True, slots=True)
class PairGenerator:
    """Makes rows, units, tables and their neighbours."""

    schema: Schema
    nearby_values: NearbyValues
    entropy: Entropy
    target_unit: str = TARGET_UNIT
    _tested_values: dict[str, list[Value]] = field(default_factory=dict)

    def generate_extremes(self) -> Iterator[Pair]:
        """All others at an end, or missing, or absent; and the one at an end, or missing."""
        ends = [self._build_unit(end) for end in ("lower", "upper", "missing")]
        least, most = self._other_unit_counts
        for size, end in dict.fromkeys([(least, "lower"), *product([most], ("lower", "upper", "missing"))]):
            others = {f"unit {number}": self._build_unit(end) for number in range(size)}
            if self.schema.neighbours == "replace-one":
                yield from (
                    self._build_pair(others, unit_rows, other_rows)
                    for unit_rows, other_rows in product(ends, ends)
                    if unit_rows != other_rows
                )
            else:
                yield from (self._build_pair(others, [], unit_rows) for unit_rows in ends)
                yield from (self._build_pair(others, unit_rows, []) for unit_rows in ends)

    def sample_pair(self) -> Pair:
        """A table of any size there can be, and a neighbour."""
        least, most = self._other_unit_counts
        size = least + sample_below(most - least + 1, self.entropy)
        others = {f"unit {number}": self._sample_unit() for number in range(size)}
        unit_rows = self._sample_unit()
        other_rows = self._modify_unit(unit_rows) if sample_below(2, self.entropy) else self._sample_unit()
        if self.schema.neighbours == "add-remove":
            unit_rows, other_rows = (unit_rows, []) if sample_below(2, self.entropy) else ([], other_rows)
        return self._build_pair(
            others, unit_rows, other_rows, REPLACEMENT_UNIT if sample_below(2, self.entropy) else self.target_unit
        )

    @property
    def _other_unit_counts(self) -> tuple[int, int]:
        """The fewest and the most units besides the one."""
        return (0, MAX_UNDECLARED_UNITS) if self.schema.units is None else (min(self.schema.units, MAX_UNITS) - 1,) * 2

    def _build_pair(
        self, others: Mapping[str, Rows], unit_rows: Rows, other_rows: Rows, replaced: str | None = None
    ) -> Pair:
        """The one stands anywhere among the others, since no order of rows may matter."""
        rows = [self._name_unit(row, name) for name, rows in others.items() for row in rows]
        position = sample_below(len(rows) + 1, self.entropy)
        target_rows = [self._name_unit(row, self.target_unit) for row in unit_rows]
        replacement_rows = [self._name_unit(row, replaced or self.target_unit) for row in other_rows]
        return [*rows[:position], *target_rows, *rows[position:]], [
            *rows[:position],
            *replacement_rows,
            *rows[position:],
        ]

    def _name_unit(self, row: Row, name: str) -> Row:
        return dict(row) if self.schema.unit is None else row | {UNIT_FIELD: name}

    def _build_unit(self, end: str) -> Rows:
        """As many rows as a unit may have, all with the same values."""
        row = {
            name: _get_end_value(column, end) for name, column in self.schema.columns.items() if column.derived is None
        }
        return [self._add_derived_columns(row) for _ in range(self.schema.rows)]

    def _sample_unit(self) -> Rows:
        """Often as many rows as there can be, and often alike."""
        count = (
            self.schema.rows if sample_below(5, self.entropy) < 3 else 1 + sample_below(self.schema.rows, self.entropy)
        )
        first = self.sample_row()
        return [dict(first) if sample_below(2, self.entropy) else self.sample_row() for _ in range(count)]

    def _modify_unit(self, rows: Rows) -> Rows:
        """The same rows but for one column, which has one value in all of them."""
        name = self._pick([name for name, column in self.schema.columns.items() if column.derived is None])
        value = self._sample_value(self.schema.columns[name])
        return [self._add_derived_columns(row | {name: value}) for row in rows]

    def sample_row(self) -> Row:
        """A row whose values are at the ends, or near what is asked, or anywhere."""
        values = {
            name: self._sample_value(column) for name, column in self.schema.columns.items() if column.derived is None
        }
        return self._add_derived_columns(values)

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
        """With what follows from the public lookups, in the order of the schema."""
        columns = self.schema.columns
        return {
            name: values[name] if column.derived is None else _derive_value(column, columns, values)
            for name, column in columns.items()
        }


def _get_end_value(column: Column, end: str) -> Value:
    """The value of a column at an end; where it cannot be missing, what a missing value stands for."""
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
