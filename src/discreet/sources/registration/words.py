"""What DuckDB, PostgreSQL and Spark say differently, as SQL expressions. No user's text is ever pasted into SQL."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Literal

from sqlglot import exp

SourceKind = Literal["text", "integer", "decimal", "float", "boolean", "date", "timestamp", "instant", "other"]
"""What a column of the source holds; a timestamp is as written, an instant has its place in UTC."""

Expression = exp.Expr
MICROSECONDS_PER_DAY = 86_400_000_000
"""In microseconds."""


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


def build_cast(value: Expression, kind: str) -> Expression:
    """Where it cannot fail. `exp.cast` would parse the kind each time."""
    return exp.Cast(this=value.copy(), to=_get_data_type(kind).copy())


def build_try_cast(value: Expression, kind: str) -> Expression:
    """NULL where it would fail; PostgreSQL knows only the plain cast, so the value must be guarded by a CASE."""
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


def _collate_bytewise(value: Expression) -> Expression:
    return exp.Collate(this=exp.paren(build_cast(value, "text")), expression=exp.column("C", quoted=True))


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
    parse_hash_prefix=lambda mark: build_cast(build_call("CONCAT", "0x", build_call("LEFT", mark, 15)), "bigint"),
)


def _build_postgres_days(value: Expression) -> Expression:
    return build_case((build_call("ISFINITE", value), build_cast(value, "date") - _build_epoch()))


def _build_postgres_instant(value: Expression) -> Expression:
    utc = exp.AtTimeZone(this=value, zone=exp.Literal.string("UTC"))
    return build_case((build_call("ISFINITE", value), build_cast(exp.paren(utc), "date") - _build_epoch()))


def _convert_postgres_decimal(value: Expression) -> Expression:
    """PostgreSQL raises on a decimal that is too large or too small for a double."""
    max_decimal, min_decimal = (
        build_cast(exp.Literal.string("1e300"), "decimal"),
        build_cast(exp.Literal.string("1e-200"), "decimal"),
    )
    return build_case(
        (value > max_decimal, build_double(float("inf"))),
        (value < exp.Neg(this=max_decimal), build_double(float("-inf"))),
        (build_call("ABS", value) < min_decimal, build_double(0.0)),
        otherwise=_cast_to_double(value),
    )


POSTGRES_SYNTAX = EngineSyntax(
    to_literal=exp.Literal.string,
    as_text=_collate_bytewise,
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
        "instant": _build_postgres_instant,
    },
    parse_hash_prefix=lambda mark: build_cast(
        build_cast(build_call("CONCAT", "x0", build_call("LEFT", mark, 15)), "bit(64)"), "bigint"
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
    parse_hash_prefix=lambda mark: build_cast(
        build_call("CONV", build_call("LEFT", mark, 15), 16, 10), "decimal(38, 0)"
    ),
    is_unicode=lambda value: build_call("IS_VALID_UTF8", value),
)
