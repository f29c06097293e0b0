"""The public description of a table, and what analysts may see of it."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date
from fractions import Fraction
from pathlib import Path
from types import MappingProxyType, NoneType
from typing import Literal, get_args

from discreet.errors import InvalidInput
from discreet.json_fields import JsonSerializable, to_json_value
from discreet.numeric import date_from_days, format_exact, parse_days, parse_rational
from discreet.priors.taxonomy import Taxonomy
from discreet.privacy.guarantee import NeighborRelation
from discreet.suggestions import build_unknown_name_error, list_names
from discreet.untrusted import CheckedValue, copy_exact_number, copy_items, has_exact_type

Kind = Literal["integer", "number", "boolean", "date", "ordinal", "nominal"]
Role = Literal["identifier", "quasi-identifier", "confidential", "other"]
Trend = Literal["rising", "falling"]
Value = int | Fraction | bool | date | str
Interval = tuple[float, float] | tuple[str, str] | tuple[date, date] | None
"""Where a number lies, or a text or date; None where that is not known."""

MAX_CODE = 2**44
"""No code is farther from 0, so that sums of squares of 2^38 rows fit 126 bits on every engine."""
NUMERIC_KINDS = frozenset({"integer", "number"})
TRENDS = (*get_args(Trend), None)
KINDS_AND_ROLES = {*get_args(Kind), *get_args(Role)}
ORDERED_KINDS = NUMERIC_KINDS | {"date", "ordinal", "boolean"}


@dataclass(frozen=True, slots=True)
class DerivedCodes(CheckedValue):
    """A column of a public lookup table: for each code of the key column, from its lowest, the derived code or none."""

    key: str
    codes: tuple[int | None, ...]

    def __post_init__(self) -> None:
        """Require plain text and whole numbers."""
        if type(self.key) is not str or type(self.codes) is not tuple:
            raise InvalidInput("a derived column has the name of its key, and a tuple of codes")
        if not all(code is None or type(code) is int for code in self.codes):
            raise InvalidInput(f"the codes of a column derived from {self.key[:40]!r} are whole numbers or None")


@dataclass(frozen=True, slots=True)
class Column(CheckedValue):
    """One column. `lower` and `upper` are codes; a column with private keys has no codes but text."""

    name: str
    kind: Kind
    lower: int = 0
    upper: int = 0
    step: Fraction = Fraction(1)
    categories: tuple[str, ...] = ()
    taxonomy: Taxonomy | None = None
    role: Role = "other"
    missing: int | None = None
    missing_values: tuple[str, ...] = ()
    private_keys: bool = False
    derived: DerivedCodes | None = None
    counts: Trend | None = None
    """In every snapshot each value has no fewer (rising) or no more (falling) rows than the one before.

    It only makes answers fit, after the noise: where it is not true they are less accurate, and no less private.
    """

    def __post_init__(self) -> None:
        """The codes are in order and not too far from 0; categories are counted from 0; a missing value is a code."""
        self._check_types()
        if not (-MAX_CODE <= self.lower <= self.upper <= MAX_CODE and self.step > 0):
            raise InvalidInput(
                f"the codes of {self.name} go up by steps above 0, from lower to upper, within 2^44 of 0"
            )
        if self.categories and (self.lower, self.upper) != (0, len(self.categories) - 1):
            raise InvalidInput(f"the codes of {self.name} are the places of its categories, from 0")
        if self.missing is not None and not self.lower <= self.missing <= self.upper:
            raise InvalidInput(f"a missing value of {self.name} must stand for a value between its bounds")
        if self.counts is not None and not self.is_ordered:
            raise InvalidInput(f"the values of {self.name} have no order, so their counts cannot rise or fall with it")

    def _check_types(self) -> None:
        """What is declared is of exactly these types: noise is scaled by it, and rows are compared with it."""
        object.__setattr__(self, "step", copy_exact_number(self.step, "the step of a column"))
        names: tuple[object, ...] = (self.name, self.kind, self.role)
        has_names = all(type(name) is str for name in names) and {self.kind, self.role} <= KINDS_AND_ROLES
        has_codes = type(self.lower) is type(self.upper) is int and has_exact_type(self.missing, int, NoneType)
        lists = (self.categories, self.missing_values)
        has_texts = all(type(entries) is tuple and all(type(text) is str for text in entries) for entries in lists)
        flags: tuple[object, ...] = (self.private_keys, self.counts)
        if not (has_names and has_codes and has_texts and type(flags[0]) is bool and flags[1] in TRENDS):
            raise InvalidInput(f"the column {str(self.name)[:40]!r} must be declared with plain text and whole numbers")
        has_taxonomy = has_exact_type(self.taxonomy, Taxonomy, NoneType)
        if not (has_taxonomy and has_exact_type(self.derived, DerivedCodes, NoneType)):
            raise InvalidInput(
                f"the taxonomy of {self.name[:40]!r} must be a Taxonomy, and what it is derived from DerivedCodes"
            )

    @property
    def is_nullable(self) -> bool:
        """Whether a value may be missing; not where a missing value stands for a code."""
        return self.missing is None

    @property
    def is_numeric(self) -> bool:
        """Whether sums and means make sense."""
        return self.kind in NUMERIC_KINDS

    @property
    def is_ordered(self) -> bool:
        """Whether < and > make sense."""
        return self.kind in ORDERED_KINDS

    @property
    def size(self) -> int:
        """How many codes there are."""
        return self.upper - self.lower + 1

    def decode(self, code: int) -> Value:
        """Return the value that a code stands for."""
        if self.categories:
            return self.categories[code] if self.kind != "boolean" else bool(code)
        if self.kind == "date":
            return date_from_days(code)
        exact = code * self.step
        return int(exact) if self.step.denominator == 1 else exact

    def find_position(self, text: str) -> Fraction:
        """Where a constant of a question stands among the codes, exactly; between two codes for some numbers."""
        if self.kind == "date":
            return Fraction(parse_days(text, f"a value of {self.name}"))
        if self.kind == "boolean":
            return Fraction(self._find_category(text.lower()))
        if self.categories:
            return Fraction(self._find_category(text))
        return parse_rational(text, f"a value of {self.name}") / self.step

    def find_codes(self, text: str) -> tuple[int, ...]:
        """The codes that equal a constant: none, one, or all leaves under a concept of the taxonomy."""
        if self.taxonomy is not None and text not in self.categories and text in self.taxonomy.ancestors:
            ancestors = self.taxonomy.ancestors
            return tuple(code for code, leaf in enumerate(self.categories) if text in ancestors[leaf])
        code = self.find_code(self.find_position(text))
        return () if code is None else (code,)

    def find_code(self, position: Fraction) -> int | None:
        """The code at a position; None between two codes and beyond the bounds."""
        return int(position) if position.denominator == 1 and self.lower <= position <= self.upper else None

    def _find_category(self, text: str) -> int:
        if text not in self.categories:
            place = f"of column {self.name}"
            raise build_unknown_name_error("category", text, self.categories, "unknown-category", place=place)
        return self.categories.index(text)


def encode_bounds(lower: Fraction, upper: Fraction, step: Fraction, name: str) -> tuple[int, int]:
    """Encode two declared bounds: both multiples of the step, in order, not too far from 0."""
    low, high = lower / step, upper / step
    if low > high:
        raise InvalidInput(
            f"the bounds of {name} are reversed: lower {format_exact(lower)}, upper {format_exact(upper)}"
        )
    if low.denominator != 1 or high.denominator != 1:
        near = f"{format_exact(math.floor(low) * step)} and {format_exact(math.ceil(high) * step)}"
        raise InvalidInput(
            f"the bounds of {name} must be multiples of its step {format_exact(step)}; the nearest are {near}"
        )
    if max(abs(low), abs(high)) > MAX_CODE:
        raise InvalidInput(f"{name} has more than 2^44 steps between 0 and a bound; declare a coarser step")
    return int(low), int(high)


TABLE_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*){0,2}")


@dataclass(frozen=True, slots=True)
class SourceAddress:
    """`location` is the path of a file or the address of a server; `table` is named within its engine."""

    engine: Literal["csv", "parquet", "postgres", "spark", "memory"]
    location: str = ""
    table: str = ""

    @staticmethod
    def of(text: str) -> SourceAddress:
        """Read data.csv, data.parquet, postgresql://host/db#schema.table, spark:catalog.table or memory.

        A refusal does not repeat the address, which may hold a password.
        """
        server, _, table = text.rpartition("#")
        is_table = TABLE_NAME.fullmatch(table)
        if server.startswith("postgresql://") and is_table and table.count(".") < 2:
            return SourceAddress("postgres", server, table)
        if text.startswith("spark:") and TABLE_NAME.fullmatch(text[6:]):
            return SourceAddress("spark", table=text[6:])
        if text == "memory":
            return SourceAddress("memory")
        if "://" not in text and text.lower().endswith(".csv"):
            return SourceAddress("csv", text)
        if "://" not in text and text.lower().endswith(".parquet"):
            return SourceAddress("parquet", text)
        raise InvalidInput(
            "a source must be a .csv or .parquet file, postgresql://host/db#schema.table, spark:catalog.table, "
            "or memory where a table is handed to Custodian.open"
        )


MODELS = ("dp", "approx-dp", "individual-dp")


@dataclass(frozen=True, slots=True)
class Budget(CheckedValue, JsonSerializable):
    """The most that may be spent; `max_epsilon` is the highest epsilon that the budget may ever be raised to."""

    epsilon: Fraction
    delta: Fraction = Fraction(0)
    max_epsilon: Fraction | None = None

    _json_fields = "epsilon delta max_epsilon?"

    def __post_init__(self) -> None:
        """Copy exact numbers: none is below 0, delta is below 1, and the highest epsilon is not below the one now."""
        for name, amount in self.list_amounts().items():
            object.__setattr__(self, name, copy_exact_number(amount, f"the {name} of a budget"))
        if self.epsilon < 0 or not 0 <= self.delta < 1:
            raise InvalidInput("a budget has an epsilon of at least 0 and a delta of at least 0 and below 1")
        if self.max_epsilon is not None and self.max_epsilon < self.epsilon:
            raise InvalidInput("the max_epsilon of a budget must be at least its epsilon")

    @property
    def ceiling(self) -> Fraction:
        """The highest epsilon that was declared possible; the present one where nothing else was."""
        return self.epsilon if self.max_epsilon is None else self.max_epsilon

    def list_amounts(self) -> dict[str, Fraction]:
        """All numbers that were declared, by name."""
        amounts = {"epsilon": self.epsilon, "delta": self.delta}
        return amounts if self.max_epsilon is None else amounts | {"max_epsilon": self.max_epsilon}


@dataclass(frozen=True, slots=True)
class PublishedStatistic(CheckedValue, JsonSerializable):
    """An exact statistic that was published before, outside our promise; `question`, if it is a count, is its SQL."""

    statistic: str
    value: str
    question: str | None = None

    _json_fields = "statistic value question?"

    def __post_init__(self) -> None:
        """Require plain text."""
        if not type(self.statistic) is type(self.value) is str or not has_exact_type(self.question, str, NoneType):
            raise InvalidInput("a published statistic, its value and its question are plain text")


@dataclass(frozen=True, slots=True)
class Schema(CheckedValue):
    """The public description of one table; `load_schema` reads it from a YAML file.

    Args:
        name: The name of the table in questions.
        source: The path or the address of the rows.
        folder: The folder of the schema, from which relative paths start.
        neighbors: The neighbor relation of every guarantee, "add-remove" or "replace-one".
        columns: The columns by name.
        budget: The privacy budget of the data set.
        analyst_budget: The privacy budget of one analyst.
        units: The public number of privacy units, under replace-one only.
        unit: The column that names the privacy units; without it each row is one.
        rows: The most rows that are kept of one unit.
        models: The models of guarantees that answers may have.
        individual_dp_reason: The custodian's reason for allowing individual DP.
        individual_queries: Whether questions about one person are allowed.
        partition: The column whose values have accounts of their own.
        lookups: The key column of each public lookup table, by the table's name.
        published: Statistics that were published outside of discreet.
        impossible: Conditions in SQL that no row can satisfy, such as "age < 15 AND smoker = true".

    Raises:
        InvalidInput: A declaration has the wrong type, or two of them contradict each other.

    Example:
        >>> from pathlib import Path
        >>> from discreet import load_schema
        >>> from discreet.sample import write_registry
        >>> schema = load_schema(write_registry(Path("."), patients=100))
        >>> schema.neighbors, schema.units, schema.budget.epsilon
        ('replace-one', 100, Fraction(3, 1))
        >>> schema.column("smoker").kind
        'boolean'
    """

    name: str
    source: str
    folder: Path
    neighbors: NeighborRelation
    columns: Mapping[str, Column]
    budget: Budget
    analyst_budget: Budget
    units: int | None = None
    unit: str | None = None
    rows: int = 1
    models: tuple[str, ...] = ("dp",)
    individual_dp_reason: str = ""
    individual_queries: bool = False
    partition: str | None = None
    lookups: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    published: tuple[PublishedStatistic, ...] = ()
    impossible: tuple[str, ...] = ()
    """Conditions in SQL that no row can satisfy, such as "age < 15 AND smoker = true"; known before a row was seen."""

    def __post_init__(self) -> None:
        """What is declared is of exactly these types, and fits together."""
        self._check_types()
        if (self.units is None) == (self.neighbors == "replace-one"):
            raise InvalidInput(
                "units, the public number of units, must be given under replace-one and left out under add-remove"
            )
        self._check_unit()
        self._check_models()
        if self.partition is not None and not self.column(self.partition).categories:
            raise InvalidInput(f"partition must name a column with public categories; {self.partition} has none")

    def _check_types(self) -> None:
        """Noise is scaled by what is declared, so that none of it may be of a caller's own class, or change later."""
        columns = MappingProxyType(dict(copy_items(self.columns, "the columns of a schema")))
        object.__setattr__(self, "columns", columns)
        object.__setattr__(self, "lookups", MappingProxyType(dict(copy_items(self.lookups, "the lookups"))))
        if not all(type(column) is Column and column.name == name for name, column in columns.items()):
            raise InvalidInput("the columns of a schema are a mapping from the name of each Column to it")
        if not all(type(key) is str for pair in self.lookups.items() for key in pair):
            raise InvalidInput("the lookups of a schema are a mapping from names to the names of key columns")
        texts = (self.name, self.source, self.individual_dp_reason, self.neighbors)
        column_names = [name for name in (self.unit, self.partition) if name is not None]
        lists = (self.models, self.published, self.impossible)
        has_texts = all(type(text) is str for text in (*texts, *column_names))
        if not has_texts or not all(type(entries) is tuple for entries in lists):
            raise InvalidInput("the names of a schema are plain text, and its lists are tuples")
        if not all(type(text) is str for text in (*self.models, *self.impossible)):
            raise InvalidInput("the models of a schema, and what is impossible, are plain text")
        if not all(type(entry) is PublishedStatistic for entry in self.published):
            raise InvalidInput("what was published before is a tuple of PublishedStatistic")
        if not type(self.budget) is type(self.analyst_budget) is Budget or type(self.individual_queries) is not bool:
            raise InvalidInput("a schema has two Budgets, and individual_queries is True or False")
        if self.neighbors not in get_args(NeighborRelation):
            raise InvalidInput("neighbours must be add-remove or replace-one")
        if type(self.rows) is not int or not (self.units is None or (type(self.units) is int and self.units >= 0)):
            raise InvalidInput("rows and units are whole numbers")

    def _check_unit(self) -> None:
        if self.rows < 1 or (self.unit is None and self.rows > 1):
            raise InvalidInput(
                "rows, the most rows kept of one unit, must be at least 1, and needs a unit column above 1"
            )
        if self.unit in self.columns:
            raise InvalidInput(
                f"{self.unit} names the units, so it cannot be asked about; give it the role identifier or leave it out"
            )
        if self.individual_queries and (self.unit is None or self.rows > 1):
            raise InvalidInput("individual_queries needs a unit column with rows: 1, so that one row answers")

    def _check_models(self) -> None:
        if not self.models or len(set(self.models)) < len(self.models) or not set(self.models) <= set(MODELS):
            raise InvalidInput(f"models must list one or more of {', '.join(MODELS)}, each once")
        if "approx-dp" in self.models and not (self.budget.delta and self.analyst_budget.delta):
            raise InvalidInput("the model approx-dp needs a delta above 0 in budget and in analyst_budget")
        if "individual-dp" in self.models and not self.individual_dp_reason:
            raise InvalidInput("the model individual-dp is weaker; say why it is allowed in individual_dp_reason")
        if {"approx-dp", "individual-dp"} <= set(self.models):
            raise InvalidInput("the models approx-dp and individual-dp cannot stand together; choose one")

    @property
    def unit_name(self) -> str:
        """The name of the privacy unit in a guarantee."""
        return "row" if self.unit is None else f"unit ({self.unit})"

    def column(self, name: str) -> Column:
        """A column by name; the columns there are, where there is no such."""
        if name == self.unit and name not in self.columns:
            raise InvalidInput(f"{name} names the units, and never leaves; use one of {list_names(self.columns)}")
        if name not in self.columns:
            raise build_unknown_name_error("column", name, self.columns, "unknown-column")
        return self.columns[name]


def schema_to_public_json(schema: Schema) -> dict[str, object]:
    """Convert to JSON all that analysts may see: not where rows are, nor why a model is allowed; fractions are text."""
    return {
        "name": schema.name,
        "neighbours": schema.neighbors,
        "units": schema.units,
        "unit": None if schema.unit is None else {"column": schema.unit, "rows": schema.rows},
        "budget": schema.budget.to_json(),
        "analyst_budget": schema.analyst_budget.to_json(),
        "models": list(schema.models),
        "individual_queries": schema.individual_queries,
        "partition": schema.partition,
        "published": to_json_value(schema.published),
        "impossible": list(schema.impossible),
        "lookups": dict(schema.lookups),
        "columns": {name: _describe_column(column) for name, column in schema.columns.items()},
    }


def _describe_column(column: Column) -> dict[str, object]:
    description: dict[str, object] = {"kind": column.kind, "role": column.role}
    if column.private_keys:
        description |= {"keys": "private"}
    elif column.categories:
        description |= {"categories": [_to_json_value(column.decode(code)) for code in range(column.size)]}
    else:
        ends = {"lower": column.lower, "upper": column.upper}
        description |= {name: _to_json_value(column.decode(code)) for name, code in ends.items()}
    description |= {"step": _to_json_value(column.decode(1))} if column.is_numeric else {}
    description |= {"taxonomy": _list_parents(column.taxonomy)} if column.taxonomy else {}
    description |= {"missing_values": list(column.missing_values)} if column.missing_values else {}
    description |= {"missing": _to_json_value(column.decode(column.missing))} if column.missing is not None else {}
    description |= {"counts": column.counts} if column.counts else {}
    return description | ({"derived_from": column.derived.key} if column.derived else {})


def _to_json_value(value: Value) -> int | bool | str:
    return str(value) if isinstance(value, Fraction | date) else value


def _list_parents(taxonomy: Taxonomy) -> dict[str, list[str]]:
    """The parents of each concept: its ancestors that are not ancestors of another."""
    proper_ancestors = {concept: ancestors - {concept} for concept, ancestors in taxonomy.ancestors.items()}
    return {
        concept: sorted(above.difference(*(proper_ancestors[ancestor] for ancestor in above)))
        for concept, above in proper_ancestors.items()
    }
