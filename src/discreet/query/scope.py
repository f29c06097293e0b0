"""Which columns a name in a question can mean: those of the table, and those of the lookups joined to it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from discreet.errors import InvalidInput
from discreet.query.asked import Join, Name, Question
from discreet.query.predicate import TRUE, Codes, Predicate
from discreet.query.sets import ranges_of
from discreet.schema import Column, Schema

Index = Callable[[Column], Mapping[str, Codes]]


@dataclass(frozen=True, slots=True)
class Scope:
    """The tables of a question, each under what it is called there, with what its columns' names begin with."""

    schema: Schema
    tables: Mapping[str, str]
    indexes: dict[tuple[str, Index], Mapping[str, Codes]] = field(default_factory=dict)
    """Made when first asked for, so that a long list of categories does not search the schema each time."""
    where: Predicate = TRUE
    """The rows the question is about, which a FILTER chooses from."""

    @staticmethod
    def of(question: Question, schema: Schema) -> Scope:
        """The tables there are, or a refusal."""
        if question.table.casefold() != schema.name.casefold():
            raise InvalidInput(f"there is no table {question.table[:40]!r}; ask FROM {schema.name}")
        tables = {(question.alias or schema.name).casefold(): ""}
        for join in question.joins:
            called, lookup = (join.alias or join.lookup).casefold(), lookup_named(join.lookup, schema)
            if called in tables or f"{lookup}." in tables.values():
                raise InvalidInput(f"a question joins each lookup once, under a name of its own; {lookup} is not")
            tables[called] = f"{lookup}."
        scope = Scope(schema, tables)
        for join in question.joins:
            scope._check_key(join)
        return scope

    def column(self, name: Name) -> Column:
        """The one askable column that a name means."""
        found = self._matches(name)
        if len(found) > 1:
            said = " or ".join(column.name for column in found)
            raise InvalidInput(f"{str(name)[:40]!r} could be {said}; write the table's name before it")
        if not found:
            raise InvalidInput(self._unknown(name))
        if found[0].role == "identifier":
            raise InvalidInput(f"{found[0].name} identifies people, so it cannot be asked about")
        return found[0]

    def has(self, name: Name) -> bool:
        """Whether a name means a column at all."""
        return bool(self._matches(name))

    def is_unit(self, name: Name) -> bool:
        """Whether a name means the column that names the units."""
        own = not name.table or self.tables.get(name.table.casefold()) == ""
        return own and name.name.casefold() == (self.schema.unit or "").casefold() != ""

    def codes(self, column: Column, category: str) -> Codes:
        """The codes of a category, or of all leaves under a concept of the taxonomy."""
        found = self._index(column, _codes_by_category).get(category)
        if found is None:
            found = self._index(column, _codes_by_concept).get(category)
        return ranges_of(column.codes_of(category)) if found is None else found

    def _index(self, column: Column, index: Index) -> Mapping[str, Codes]:
        if (column.name, index) not in self.indexes:
            self.indexes[column.name, index] = index(column)
        return self.indexes[column.name, index]

    def _matches(self, name: Name) -> list[Column]:
        """An exact name first, then one in other letters' case."""
        prefixes = [p for table, p in self.tables.items() if name.table.casefold() in ("", table)]
        columns = self.schema.columns
        exact = [columns[prefix + name.name] for prefix in prefixes if prefix + name.name in columns]
        wanted = {(prefix + name.name).casefold() for prefix in prefixes}
        return exact or [column for column in columns.values() if column.name.casefold() in wanted]

    def _unknown(self, name: Name) -> str:
        if name.table and name.table.casefold() not in self.tables:
            return f"there is no table {name.table[:40]!r} here; {self._joinable()}"
        if self.is_unit(name):
            unit = self.schema.unit
            return f"{unit} names the units, so it cannot be asked about; COUNT(DISTINCT {unit}) counts them"
        there = ", ".join(column for column in self.schema.columns if self._in_scope(column))
        return f"there is no column {str(name)[:40]!r}; there are {there}"

    def _joinable(self) -> str:
        further = [lookup for lookup in self.schema.lookups if f"{lookup}." not in self.tables.values()]
        joined = f", and {', '.join(further)} can be joined" if further else ""
        return f"this question has {', '.join(repr(table[:40]) for table in self.tables)}{joined}"

    def _in_scope(self, column: str) -> bool:
        prefix, dot, _ = column.rpartition(".")
        return f"{prefix}{dot}" in self.tables.values()

    def _check_key(self, join: Join) -> None:
        """A lookup is joined by its key and nothing else: any other join could repeat rows."""
        lookup = lookup_named(join.lookup, self.schema)
        key = self.schema.lookups[lookup]
        own = [name for name in join.on if self._is_key(name, key)]
        entries = [name for name in join.on if name not in own]
        called = ("", (join.alias or join.lookup).casefold())
        fit = all(name.table.casefold() in called and not self.has(name) for name in entries)
        if join.on and not (fit and len(own) == 1):
            raise InvalidInput(f"{lookup} is joined by its key; write JOIN {lookup} ON {key} = {lookup}.key")

    def _is_key(self, name: Name, key: str) -> bool:
        return [column.name for column in self._matches(name)] == [key]


def lookup_named(name: str, schema: Schema) -> str:
    """A lookup of the schema by its name, in any case."""
    for lookup in schema.lookups:
        if lookup.casefold() == name.casefold():
            return lookup
    there = f"there are {', '.join(schema.lookups)}" if schema.lookups else "this table has none"
    raise InvalidInput(f"only lookups of the schema can be joined, not {name[:40]!r}; {there}")


def _codes_by_category(column: Column) -> Mapping[str, Codes]:
    return {category: ((code, code),) for code, category in enumerate(column.categories)}


def _codes_by_concept(column: Column) -> Mapping[str, Codes]:
    under: dict[str, list[int]] = {}
    above = {} if column.taxonomy is None else column.taxonomy.ancestors
    for code, category in enumerate(column.categories):
        for concept in above.get(category, frozenset()) - {category}:
            under.setdefault(concept, []).append(code)
    return {concept: ranges_of(codes) for concept, codes in under.items()}
