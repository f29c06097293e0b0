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

from discreet.exact import whole
from discreet.kernel.entropy import Entropy, KeyedEntropy
from discreet.kernel.entropy import source as entropy_source
from discreet.kernel.sampling import below
from discreet.schema import Column, Schema

if TYPE_CHECKING:
    from hypothesis.strategies import SearchStrategy

Value = int | str | None
Row = dict[str, Value]
Rows = list[Row]
Pair = tuple[Rows, Rows]
Near = Mapping[str, Sequence[Value]]
"""Values of some columns that are worth trying, such as the ends of the ranges that a question is about."""
Item = TypeVar("Item")

UNIT = "#unit"
ONE, ANOTHER = "the one", "another"
"""Who is added, removed or replaced, if nobody else is named; and who may take the place."""
MOST_UNITS = 24
"""How many units a table has at most, whatever number is declared."""
FEW = 5
"""How many it has at most where their number is not public."""
KEYS = 50
"""How many different private keys are made up."""
KEY = b"discreet testing"
"""The same pairs on every machine: nothing that is generated here is secret."""


def neighbour_rows(schema: Schema, count: int, entropy: Entropy | None = None) -> list[Pair]:
    """So many pairs of neighbouring tables, the same every time unless entropy is given."""
    return list(islice(pairs_near(schema, {}, entropy), whole(count, "how many pairs", least=0)))


def generated_pairs(schema: Schema) -> SearchStrategy[Pair]:
    """A Hypothesis strategy for pairs of neighbouring tables of a schema; it shrinks to the extremes."""
    from hypothesis import strategies as st

    def drawn(place: int, seed: bytes) -> Pair:
        made = Maker(schema, {}, KeyedEntropy(seed, "generated pairs"))
        extremes = list(made.extremes())
        return extremes[place] if place < len(extremes) else made.by_chance()

    return st.builds(drawn, st.integers(0, 64), st.binary(min_size=8, max_size=8))


def of_fewer_units(schema: Schema) -> Schema:
    """The same schema with as few units as a generated table has, where their number is public."""
    return schema if schema.units is None else replace(schema, units=min(schema.units, MOST_UNITS))


def pairs_near(schema: Schema, near: Near, entropy: Entropy | None = None, one: str = ONE) -> Iterator[Pair]:
    """Pairs without end, with values that are worth trying and a name for the unit that differs."""
    made = Maker(schema, near, KeyedEntropy(KEY, schema.name) if entropy is None else entropy_source(entropy), one)
    yield from made.extremes()
    while True:
        yield made.by_chance()


@dataclass(frozen=True, slots=True)
class Maker:
    """Makes rows, units, tables and their neighbours."""

    schema: Schema
    near: Near
    entropy: Entropy
    one: str = ONE
    _tried: dict[str, list[Value]] = field(default_factory=dict)

    def extremes(self) -> Iterator[Pair]:
        """All others at an end, or missing, or absent; and the one at an end, or missing."""
        ends = [self._unit(end) for end in ("lower", "upper", "missing")]
        least, most = self._others
        for size, end in dict.fromkeys([(least, "lower"), *product([most], ("lower", "upper", "missing"))]):
            others = {f"unit {number}": self._unit(end) for number in range(size)}
            if self.schema.neighbours == "replace-one":
                yield from (self._pair(others, own, other) for own, other in product(ends, ends) if own != other)
            else:
                yield from (self._pair(others, [], own) for own in ends)
                yield from (self._pair(others, own, []) for own in ends)

    def by_chance(self) -> Pair:
        """A table of any size there can be, and a neighbour."""
        least, most = self._others
        size = least + below(most - least + 1, self.entropy)
        others = {f"unit {number}": self._any_unit() for number in range(size)}
        own = self._any_unit()
        other = self._near_unit(own) if below(2, self.entropy) else self._any_unit()
        if self.schema.neighbours == "add-remove":
            own, other = (own, []) if below(2, self.entropy) else ([], other)
        return self._pair(others, own, other, ANOTHER if below(2, self.entropy) else self.one)

    @property
    def _others(self) -> tuple[int, int]:
        """The fewest and the most units besides the one."""
        return (0, FEW) if self.schema.units is None else (min(self.schema.units, MOST_UNITS) - 1,) * 2

    def _pair(self, others: Mapping[str, Rows], own: Rows, other: Rows, replaced: str | None = None) -> Pair:
        """The one stands anywhere among the others, since no order of rows may matter."""
        rows = [self._named(row, name) for name, rows in others.items() for row in rows]
        at = below(len(rows) + 1, self.entropy)
        one = [self._named(row, self.one) for row in own]
        two = [self._named(row, replaced or self.one) for row in other]
        return [*rows[:at], *one, *rows[at:]], [*rows[:at], *two, *rows[at:]]

    def _named(self, row: Row, name: str) -> Row:
        return dict(row) if self.schema.unit is None else row | {UNIT: name}

    def _unit(self, end: str) -> Rows:
        """As many rows as a unit may have, all with the same values."""
        row = {name: _end(column, end) for name, column in self.schema.columns.items() if column.derived is None}
        return [self._whole(row) for _ in range(self.schema.rows)]

    def _any_unit(self) -> Rows:
        """Often as many rows as there can be, and often alike."""
        count = self.schema.rows if below(5, self.entropy) < 3 else 1 + below(self.schema.rows, self.entropy)
        first = self.row()
        return [dict(first) if below(2, self.entropy) else self.row() for _ in range(count)]

    def _near_unit(self, rows: Rows) -> Rows:
        """The same rows but for one column, which has one value in all of them."""
        name = self._pick([name for name, column in self.schema.columns.items() if column.derived is None])
        value = self._value(self.schema.columns[name])
        return [self._whole(row | {name: value}) for row in rows]

    def row(self) -> Row:
        """A row whose values are at the ends, or near what is asked, or anywhere."""
        own = {name: self._value(column) for name, column in self.schema.columns.items() if column.derived is None}
        return self._whole(own)

    def _value(self, column: Column) -> Value:
        if column.nullable and below(7, self.entropy) == 0:
            return None
        if column.private_keys:
            made_up = f"key {below(KEYS, self.entropy)}"
            return self._pick(["key 0", "key 1", made_up, *self.near.get(column.name, ())])
        if column.name not in self._tried:
            inside = [code for code in self.near.get(column.name, ()) if code is not None]
            self._tried[column.name] = [column.lower, column.upper, *inside]
        anywhere = column.lower + below(column.size, self.entropy)
        return self._pick([*self._tried[column.name], anywhere])

    def _pick(self, values: Sequence[Item]) -> Item:
        return values[below(len(values), self.entropy)]

    def _whole(self, own: Mapping[str, Value]) -> Row:
        """With what follows from the public lookups, in the order of the schema."""
        columns = self.schema.columns
        return {
            name: own[name] if column.derived is None else _derived(column, columns, own)
            for name, column in columns.items()
        }


def _end(column: Column, end: str) -> Value:
    """The value of a column at an end; where it cannot be missing, what a missing value stands for."""
    if end == "missing":
        return column.missing
    if column.private_keys:
        return "key 0" if end == "lower" else "key 1"
    return column.lower if end == "lower" else column.upper


def _derived(column: Column, columns: Mapping[str, Column], own: Mapping[str, Value]) -> Value:
    if column.derived is None:
        return None
    code = own[column.derived.key]
    found = column.derived.codes[code - columns[column.derived.key].lower] if isinstance(code, int) else None
    return column.missing if found is None else found
