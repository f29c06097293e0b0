"""What DuckDB, PostgreSQL and Spark say differently, as SQL expressions and statements.

The columns of a snapshot are c0, c1, ... in the order of the schema, and u, the name of the unit, where the schema has
units.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import Literal

from sqlglot import exp

from discreet.schema import Column, Schema

SourceKind = Literal["text", "integer", "decimal", "float", "boolean", "date", "timestamp", "instant", "other"]
"""What a column of the source holds; a timestamp is as written, an instant has its place in UTC."""

Dialect = Literal["duckdb", "postgres", "spark"]
Expression = exp.Expr
MICROSECONDS_PER_DAY = 86_400_000_000
MAX_INLINE_CONSTANTS = 16
"""DuckDB may compare a value with a list's members one by one; in a longer list, made a table, it looks values up."""
MAX_CALL_ARGUMENTS = 50
"""The most arguments of one call; PostgreSQL takes at most 100."""


@dataclass(frozen=True, slots=True)
class ColumnOrigin:
    """A column of the source, under the name the engine knows it by."""

    column: str
    kind: SourceKind


@dataclass(frozen=True, slots=True)
class EngineSyntax:
    """One engine's way to say what the others say otherwise."""

    to_literal: Callable[[str], Expression]
    """A constant."""
    as_text: Callable[[Expression], Expression]
    """Compared byte by byte."""
    trim: Callable[[Expression], Expression]
    """Without outer spaces, tabs and line ends."""
    matches: Callable[[Expression, str], Expression]
    """Whether the whole text matches a pattern without backslashes and line ends."""
    double_converters: Mapping[SourceKind, Callable[[Expression], Expression]]
    day_converters: Mapping[SourceKind, Callable[[Expression], Expression]]
    parse_hash_prefix: Callable[[Expression], Expression]
    """The first 60 bits of a hexadecimal text, wide enough that a sum of them does not overflow."""
    is_unicode: Callable[[Expression], Expression] | None = None
    """Whether a text is Unicode; None where the engine holds no other."""
    has_unbounded_decimals: bool = False
    """Whether a decimal may be NaN, infinite or of any length."""
    flattens_subqueries: bool = False
    """Whether a nested query is merged into the one around it, its expressions repeated wherever they are used."""


def build_call(name: str, *arguments: Expression | str | int) -> exp.Anonymous:
    """A function by its name, as it stands."""
    return exp.Anonymous(this=name, expressions=[exp.convert(argument) for argument in arguments])


def build_nested_call(name: str, parts: Sequence[Expression], *leading: str) -> exp.Anonymous:
    """A function of many texts, which `leading` ones come before, as calls within calls where one takes too many."""
    while len(parts) > MAX_CALL_ARGUMENTS:
        starts = range(0, len(parts), MAX_CALL_ARGUMENTS)
        parts = [build_call(name, *leading, *parts[start : start + MAX_CALL_ARGUMENTS]) for start in starts]
    return build_call(name, *leading, *parts)


def build_cast(value: Expression, kind: str) -> Expression:
    """Cast a value where that cannot fail. `exp.cast` would parse the kind each time."""
    return exp.Cast(this=value.copy(), to=_get_data_type(kind).copy())


def build_try_cast(value: Expression, kind: str) -> Expression:
    """Cast to NULL where a cast would fail; PostgreSQL has only the plain one, so guard the value by a CASE."""
    return exp.TryCast(this=value, to=_get_data_type(kind).copy(), safe=True)


@cache
def _get_data_type(name: str) -> exp.DataType:
    return exp.DataType.build(name)


def build_double(number: float) -> Expression:
    """A constant, by the shortest text that reads back as the same double."""
    return build_cast(exp.Literal.string(repr(number)), "double")


def build_case(*cases: tuple[Expression, Expression], otherwise: Expression | None = None) -> exp.Case:
    """The value of the first condition that holds. `exp.case().when` would copy all that came before each time."""
    ifs = [exp.If(this=condition.copy(), true=value.copy()) for condition, value in cases]
    return exp.Case(ifs=ifs, default=None if otherwise is None else otherwise.copy())


def _build_whitespace() -> Expression:
    return build_call("CONCAT", " ", build_call("CHR", 9), build_call("CHR", 10), build_call("CHR", 13))


def _cast_to_double(value: Expression) -> Expression:
    return build_cast(value, "double")


def _convert_boolean(value: Expression) -> Expression:
    return build_case((value, build_double(1.0)), (exp.not_(value), build_double(0.0)))


def _build_epoch() -> Expression:
    return build_cast(exp.Literal.string("1970-01-01"), "date")


def _build_duckdb_days(value: Expression) -> Expression:
    """DuckDB says NULL where the date is infinite."""
    return build_call("DATE_DIFF", "day", _build_epoch(), build_try_cast(value, "date"))


DUCKDB_SYNTAX = EngineSyntax(
    to_literal=exp.Literal.string,
    as_text=lambda value: build_cast(value, "text"),
    trim=lambda value: build_call("TRIM", value, _build_whitespace()),
    matches=lambda value, pattern: build_call("REGEXP_FULL_MATCH", value, pattern),
    double_converters={
        "integer": _cast_to_double,
        "float": _cast_to_double,
        # Its own cast of a decimal beyond 64 bits may round twice.
        "decimal": lambda value: build_try_cast(build_cast(value, "text"), "double"),
        "boolean": _convert_boolean,
    },
    day_converters={
        "date": _build_duckdb_days,
        "timestamp": _build_duckdb_days,
        "instant": lambda value: _build_duckdb_days(build_try_cast(value, "timestamp")),
    },
    parse_hash_prefix=lambda text: build_cast(build_call("CONCAT", "0x", build_call("LEFT", text, 15)), "bigint"),
)


def _build_postgres_days(value: Expression, zone: str = "") -> Expression:
    local = exp.paren(exp.AtTimeZone(this=value, zone=exp.Literal.string(zone))) if zone else value
    return build_case((build_call("ISFINITE", value), build_cast(local, "date") - _build_epoch()))


def _convert_postgres_decimal(value: Expression) -> Expression:
    """PostgreSQL raises on a decimal that is too large or too small for a double."""
    max_decimal, min_decimal = (build_cast(exp.Literal.string(text), "decimal") for text in ("1e300", "1e-200"))
    return build_case(
        (value > max_decimal, build_double(float("inf"))),
        (value < exp.Neg(this=max_decimal), build_double(float("-inf"))),
        (build_call("ABS", value) < min_decimal, build_double(0.0)),
        otherwise=_cast_to_double(value),
    )


POSTGRES_SYNTAX = EngineSyntax(
    to_literal=exp.Literal.string,
    as_text=lambda value: exp.Collate(
        this=exp.paren(build_cast(value, "text")), expression=exp.column("C", quoted=True)
    ),
    trim=lambda value: build_call("BTRIM", value, _build_whitespace()),
    matches=lambda value, pattern: exp.RegexpLike(this=value, expression=exp.Literal.string(f"^({pattern})$")),
    double_converters={
        "integer": _cast_to_double,
        "float": _cast_to_double,
        "decimal": _convert_postgres_decimal,
        "boolean": _convert_boolean,
    },
    day_converters={
        "date": _build_postgres_days,
        "timestamp": _build_postgres_days,
        "instant": partial(_build_postgres_days, zone="UTC"),
    },
    parse_hash_prefix=lambda text: build_cast(
        build_cast(build_call("CONCAT", "x0", build_call("LEFT", text, 15)), "bit(64)"), "bigint"
    ),
    has_unbounded_decimals=True,
    flattens_subqueries=True,
)


def _build_spark_instant(value: Expression) -> Expression:
    """Whatever the session's time zone; rounded down, where Spark rounds towards 0, without a step beyond 64 bits."""
    micros = build_call("UNIX_MICROS", value)
    day_correction = build_case((micros % MICROSECONDS_PER_DAY < 0, exp.convert(1)), otherwise=exp.convert(0))
    return exp.IntDiv(this=micros, expression=exp.convert(MICROSECONDS_PER_DAY)) - day_correction


SPARK_SYNTAX = EngineSyntax(
    # Whether a backslash escapes in a literal is a setting of the session; bytes are always bytes.
    to_literal=lambda text: build_cast(exp.HexString(this=text.encode().hex()), "text"),
    as_text=lambda value: build_cast(value, "text"),
    trim=lambda value: build_call("BTRIM", value, _build_whitespace()),
    # Java's $ also matches before a final line end.
    matches=lambda value, pattern: exp.RegexpLike(this=value, expression=exp.Literal.string(f"(?s)^({pattern})(?!.)")),
    double_converters={
        "integer": _cast_to_double,
        "float": _cast_to_double,
        "decimal": _cast_to_double,
        "boolean": _convert_boolean,
    },
    day_converters={
        "date": lambda value: build_call("UNIX_DATE", value),
        "timestamp": lambda value: build_call("UNIX_DATE", build_cast(value, "date")),
        "instant": _build_spark_instant,
    },
    parse_hash_prefix=lambda text: build_cast(
        build_call("CONV", build_call("LEFT", text, 15), 16, 10), "decimal(38, 0)"
    ),
    is_unicode=lambda value: build_call("IS_VALID_UTF8", value),
)


@dataclass(frozen=True, slots=True)
class SnapshotLayout:
    """The columns of one schema's snapshot in one dialect."""

    schema: Schema
    dialect: Dialect

    def get_schema_column(self, name: str) -> Column:
        """Return the public description of a column."""
        return self.schema.column(name)

    def get_column_index(self, name: str) -> int:
        """Which column of the schema it is, from 0."""
        return list(self.schema.columns).index(name)

    def get_column(self, name: str) -> exp.Column:
        """A column by the name it has in the schema."""
        return _quote_column(f"c{self.get_column_index(name)}")

    def get_text_column(self, name: str) -> exp.Expression:
        """A column of texts, compared by their bytes."""
        return self._compare_by_bytes(self.get_column(name))

    def get_unit_column(self) -> exp.Expression:
        """The names of the units, compared by their bytes."""
        return self._compare_by_bytes(_quote_column("u"))

    def list_columns(self) -> list[exp.Expression]:
        """Every column there must be."""
        return [*map(self.get_column, self.schema.columns), *([_quote_column("u")] if self.schema.unit else [])]

    def build_in(self, value: exp.Expression, constants: Sequence[exp.Expression]) -> exp.Expression:
        """Whether a value is one of these; unknown where it is missing."""
        if len(constants) == 1:
            return exp.EQ(this=value.copy(), expression=constants[0])
        if self.dialect != "duckdb" or len(constants) <= MAX_INLINE_CONSTANTS:
            return exp.In(this=value.copy(), expressions=constants)
        list_query = exp.select(exp.Explode(this=exp.Array(expressions=constants)))
        return exp.In(this=value.copy(), query=list_query.subquery(copy=False))

    def build_not_in(self, value: exp.Expression, constants: Sequence[exp.Expression]) -> exp.Expression:
        """Whether a value is none of these; unknown where it is missing."""
        if len(constants) == 1:
            return exp.NEQ(this=value.copy(), expression=constants[0])
        return exp.Not(this=self.build_in(value, constants))

    def build_parameter(self, number: int) -> exp.Expression:
        """Where a text goes, counted from 1."""
        if self.dialect == "spark":
            return exp.Placeholder(this=f"t{number}")
        return exp.Parameter(this=exp.Literal.number(number))

    def can_hold_text(self, text: str) -> bool:
        """Whether a text can be in a column: one that is not Unicode cannot, nor in PostgreSQL one with a NUL."""
        try:
            text.encode()
        except UnicodeEncodeError:
            return False
        return self.dialect != "postgres" or "\0" not in text

    def _compare_by_bytes(self, column: exp.Column) -> exp.Expression:
        if self.dialect != "postgres":
            return column
        return exp.Collate(this=column, expression=exp.to_identifier("C", quoted=True))


def _quote_column(name: str) -> exp.Column:
    return exp.column(exp.to_identifier(name, quoted=True))


@dataclass(frozen=True, slots=True)
class SqlStatement:
    """SQL of one dialect, and the texts that are its parameters, in order."""

    sql: str
    texts: tuple[str, ...]


def render_statement(select: exp.Select, layout: SnapshotLayout) -> SqlStatement:
    """The text of a query, in which parameters have taken the place of texts."""
    texts = [literal for literal in select.find_all(exp.Literal) if literal.is_string]
    for number, text in enumerate(texts, start=1):
        text.replace(layout.build_parameter(number))
    return SqlStatement(select.sql(layout.dialect, copy=False), tuple(text.name for text in texts))


def build_integer_division(difference: exp.Expr, width: int, dialect: Dialect) -> exp.Expression:
    """Whole division of what is never negative, so that rounding down and towards 0 are the same."""
    parts = {"this": exp.paren(difference), "expression": exp.Literal.number(width)}
    return exp.Div(**parts, typed=True) if dialect == "postgres" else exp.IntDiv(**parts)
