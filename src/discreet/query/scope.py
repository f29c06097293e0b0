"""Which columns a name in a question can mean: those of the table, and those of the lookups joined to it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from discreet.errors import InvalidInput
from discreet.query.asked import Join, ParsedQuestion, QualifiedName
from discreet.query.predicate import TRUE, Codes, Predicate
from discreet.query.sets import build_ranges
from discreet.schema import Column, Schema

CodeIndex = Callable[[Column], Mapping[str, Codes]]


@dataclass(frozen=True, slots=True)
class Scope:
    """The tables of a question, each under what it is called there, with what its columns' names begin with."""

    schema: Schema
    tables: Mapping[str, str]
    indexes: dict[tuple[str, CodeIndex], Mapping[str, Codes]] = field(default_factory=dict)
    """Made when first asked for, so that a long list of categories does not search the schema each time."""
    where: Predicate = TRUE
    """The rows the question is about, which a FILTER chooses from."""

    @staticmethod
    def of(question: ParsedQuestion, schema: Schema) -> Scope:
        """The tables there are, or a refusal."""
        if question.table.casefold() != schema.name.casefold():
            raise InvalidInput(f"there is no table {question.table[:40]!r}; ask FROM {schema.name}")
        tables = {(question.alias or schema.name).casefold(): ""}
        for join in question.joins:
            table_name, lookup = (join.alias or join.lookup).casefold(), find_lookup(join.lookup, schema)
            if table_name in tables or f"{lookup}." in tables.values():
                raise InvalidInput(f"a question joins each lookup once, under a name of its own; {lookup} is not")
            tables[table_name] = f"{lookup}."
        scope = Scope(schema, tables)
        for join in question.joins:
            scope._check_key(join)
        return scope

    def find_column(self, name: QualifiedName) -> Column:
        """The one askable column that a name means."""
        matches = self._find_matches(name)
        if len(matches) > 1:
            candidate_names = " or ".join(column.name for column in matches)
            raise InvalidInput(f"{str(name)[:40]!r} could be {candidate_names}; write the table's name before it")
        if not matches:
            raise InvalidInput(self._explain_unknown_name(name))
        if matches[0].role == "identifier":
            raise InvalidInput(f"{matches[0].name} identifies people, so it cannot be asked about")
        return matches[0]

    def has_column(self, name: QualifiedName) -> bool:
        """Whether a name means a column at all."""
        return bool(self._find_matches(name))

    def is_unit_column(self, name: QualifiedName) -> bool:
        """Whether a name means the column that names the units."""
        is_own_table = not name.table or self.tables.get(name.table.casefold()) == ""
        return is_own_table and name.name.casefold() == (self.schema.unit or "").casefold() != ""

    def find_codes(self, column: Column, category: str) -> Codes:
        """The codes of a category, or of all leaves under a concept of the taxonomy."""
        ranges = self._get_index(column, _index_categories).get(category)
        if ranges is None:
            ranges = self._get_index(column, _index_concepts).get(category)
        return build_ranges(column.find_codes(category)) if ranges is None else ranges

    def _get_index(self, column: Column, index: CodeIndex) -> Mapping[str, Codes]:
        if (column.name, index) not in self.indexes:
            self.indexes[column.name, index] = index(column)
        return self.indexes[column.name, index]

    def _find_matches(self, name: QualifiedName) -> list[Column]:
        """An exact name first, then one in other letters' case."""
        prefixes = [table_prefix for table, table_prefix in self.tables.items() if name.table.casefold() in ("", table)]
        columns = self.schema.columns
        exact = [columns[prefix + name.name] for prefix in prefixes if prefix + name.name in columns]
        folded_names = {(prefix + name.name).casefold() for prefix in prefixes}
        return exact or [column for column in columns.values() if column.name.casefold() in folded_names]

    def _explain_unknown_name(self, name: QualifiedName) -> str:
        if name.table and name.table.casefold() not in self.tables:
            return f"there is no table {name.table[:40]!r} here; {self._describe_tables()}"
        if self.is_unit_column(name):
            unit = self.schema.unit
            return f"{unit} names the units, so it cannot be asked about; COUNT(DISTINCT {unit}) counts them"
        column_names = ", ".join(column for column in self.schema.columns if self._is_in_scope(column))
        return f"there is no column {str(name)[:40]!r}; there are {column_names}"

    def _describe_tables(self) -> str:
        joinable_lookups = [lookup for lookup in self.schema.lookups if f"{lookup}." not in self.tables.values()]
        join_hint = f", and {', '.join(joinable_lookups)} can be joined" if joinable_lookups else ""
        return f"this question has {', '.join(repr(table[:40]) for table in self.tables)}{join_hint}"

    def _is_in_scope(self, column: str) -> bool:
        prefix, dot, _ = column.rpartition(".")
        return f"{prefix}{dot}" in self.tables.values()

    def _check_key(self, join: Join) -> None:
        """A lookup is joined by its key and nothing else: any other join could repeat rows."""
        lookup = find_lookup(join.lookup, self.schema)
        key = self.schema.lookups[lookup]
        key_names = [name for name in join.on if self._is_key(name, key)]
        entries = [name for name in join.on if name not in key_names]
        table_names = ("", (join.alias or join.lookup).casefold())
        are_entry_names = all(name.table.casefold() in table_names and not self.has_column(name) for name in entries)
        if join.on and not (are_entry_names and len(key_names) == 1):
            raise InvalidInput(f"{lookup} is joined by its key; write JOIN {lookup} ON {key} = {lookup}.key")

    def _is_key(self, name: QualifiedName, key: str) -> bool:
        return [column.name for column in self._find_matches(name)] == [key]


def find_lookup(name: str, schema: Schema) -> str:
    """A lookup of the schema by its name, in any case."""
    for lookup in schema.lookups:
        if lookup.casefold() == name.casefold():
            return lookup
    known_lookups = f"there are {', '.join(schema.lookups)}" if schema.lookups else "this table has none"
    raise InvalidInput(f"only lookups of the schema can be joined, not {name[:40]!r}; {known_lookups}")


def _index_categories(column: Column) -> Mapping[str, Codes]:
    return {category: ((code, code),) for code, category in enumerate(column.categories)}


def _index_concepts(column: Column) -> Mapping[str, Codes]:
    codes_by_concept: dict[str, list[int]] = {}
    ancestors = {} if column.taxonomy is None else column.taxonomy.ancestors
    for code, category in enumerate(column.categories):
        for concept in ancestors.get(category, frozenset()) - {category}:
            codes_by_concept.setdefault(concept, []).append(code)
    return {concept: build_ranges(codes) for concept, codes in codes_by_concept.items()}
