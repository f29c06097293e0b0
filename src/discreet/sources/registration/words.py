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
ONE_DAY = 86_400_000_000
"""In microseconds."""


@dataclass(frozen=True, slots=True)
class Origin:
    """A column of the source, under the name the engine knows it by."""

    column: str
    kind: SourceKind


@dataclass(frozen=True, slots=True)
class Words:
    """One engine's way to say what the others say otherwise."""

    text: Callable[[str], Expression]
    """A constant."""
    as_text: Callable[[Expression], Expression]
    """Compared byte by byte."""
    trimmed: Callable[[Expression], Expression]
    """Without outer spaces, tabs and line ends."""
    matches: Callable[[Expression, str], Expression]
    """Whether the whole text matches a pattern without backslashes and line ends."""
    doubles: Mapping[SourceKind, Callable[[Expression], Expression]]
    days: Mapping[SourceKind, Callable[[Expression], Expression]]
    piece: Callable[[Expression], Expression]
    """The first 60 bits of a hexadecimal text, wide enough that a sum of them does not overflow."""
    is_unicode: Callable[[Expression], Expression] | None = None
    """Whether a text is Unicode; None where the engine holds no other."""
    unbounded_decimals: bool = False
    """Whether a decimal may be NaN, infinite or of any length."""
    flattens: bool = False
    """Whether a nested query is merged into the one around it, its expressions repeated wherever they are used."""


def call(name: str, *arguments: Expression | str | int) -> exp.Anonymous:
    """A function by its name, as it stands."""
    return exp.Anonymous(this=name, expressions=[exp.convert(argument) for argument in arguments])


def cast(value: Expression, kind: str) -> Expression:
    """Where it cannot fail. `exp.cast` would parse the kind each time."""
    return exp.Cast(this=value.copy(), to=_kind(kind).copy())


def try_cast(value: Expression, kind: str) -> Expression:
    """NULL where it would fail; PostgreSQL knows only the plain cast, so the value must be guarded by a CASE."""
    return exp.TryCast(this=value, to=_kind(kind).copy(), safe=True)


@cache
def _kind(name: str) -> exp.DataType:
    return exp.DataType.build(name)


def double(number: float) -> Expression:
    """A constant, by the shortest text that reads back as the same double."""
    return cast(exp.Literal.string(repr(number)), "double")


def when(*cases: tuple[Expression, Expression], otherwise: Expression | None = None) -> exp.Case:
    """The value of the first condition that holds. `exp.case().when` would copy all that came before each time."""
    ifs = [exp.If(this=condition.copy(), true=value.copy()) for condition, value in cases]
    return exp.Case(ifs=ifs, default=None if otherwise is None else otherwise.copy())


def _spaces() -> Expression:
    return call("CONCAT", " ", call("CHR", 9), call("CHR", 10), call("CHR", 13))


def _bytewise(value: Expression) -> Expression:
    return exp.Collate(this=exp.paren(cast(value, "text")), expression=exp.column("C", quoted=True))


def _as_double(value: Expression) -> Expression:
    return cast(value, "double")


def _truth(value: Expression) -> Expression:
    return when((value, double(1.0)), (exp.not_(value), double(0.0)))


def _epoch() -> Expression:
    return cast(exp.Literal.string("1970-01-01"), "date")


def _duckdb_days(value: Expression) -> Expression:
    """DuckDB says NULL where the date is infinite."""
    return call("DATE_DIFF", "day", _epoch(), try_cast(value, "date"))


DUCKDB = Words(
    text=exp.Literal.string,
    as_text=lambda value: cast(value, "text"),
    trimmed=lambda value: call("TRIM", value, _spaces()),
    matches=lambda value, pattern: call("REGEXP_FULL_MATCH", value, pattern),
    doubles={
        "integer": _as_double,
        "float": _as_double,
        # Its own cast of a decimal beyond 64 bits may round twice.
        "decimal": lambda value: try_cast(cast(value, "text"), "double"),
        "boolean": _truth,
    },
    days={
        "date": _duckdb_days,
        "timestamp": _duckdb_days,
        "instant": lambda value: _duckdb_days(try_cast(value, "timestamp")),
    },
    piece=lambda mark: cast(call("CONCAT", "0x", call("LEFT", mark, 15)), "bigint"),
)


def _postgres_days(value: Expression) -> Expression:
    return when((call("ISFINITE", value), cast(value, "date") - _epoch()))


def _postgres_instant(value: Expression) -> Expression:
    utc = exp.AtTimeZone(this=value, zone=exp.Literal.string("UTC"))
    return when((call("ISFINITE", value), cast(exp.paren(utc), "date") - _epoch()))


def _postgres_decimal(value: Expression) -> Expression:
    """PostgreSQL raises on a decimal that is too large or too small for a double."""
    far, near = cast(exp.Literal.string("1e300"), "decimal"), cast(exp.Literal.string("1e-200"), "decimal")
    return when(
        (value > far, double(float("inf"))),
        (value < exp.Neg(this=far), double(float("-inf"))),
        (call("ABS", value) < near, double(0.0)),
        otherwise=_as_double(value),
    )


POSTGRES = Words(
    text=exp.Literal.string,
    as_text=_bytewise,
    trimmed=lambda value: call("BTRIM", value, _spaces()),
    matches=lambda value, pattern: exp.RegexpLike(this=value, expression=exp.Literal.string(f"^({pattern})$")),
    doubles={"integer": _as_double, "float": _as_double, "decimal": _postgres_decimal, "boolean": _truth},
    days={"date": _postgres_days, "timestamp": _postgres_days, "instant": _postgres_instant},
    piece=lambda mark: cast(cast(call("CONCAT", "x0", call("LEFT", mark, 15)), "bit(64)"), "bigint"),
    unbounded_decimals=True,
    flattens=True,
)


def _spark_instant(value: Expression) -> Expression:
    """Whatever the session's time zone; rounded down, where Spark rounds towards 0, without a step beyond 64 bits."""
    micros = call("UNIX_MICROS", value)
    before = when((micros % ONE_DAY < 0, exp.convert(1)), otherwise=exp.convert(0))
    return exp.IntDiv(this=micros, expression=exp.convert(ONE_DAY)) - before


SPARK = Words(
    # Whether a backslash escapes in a literal is a setting of the session; bytes are always bytes.
    text=lambda text: cast(exp.HexString(this=text.encode().hex()), "text"),
    as_text=lambda value: cast(value, "text"),
    trimmed=lambda value: call("BTRIM", value, _spaces()),
    # Java's $ also matches before a final line end.
    matches=lambda value, pattern: exp.RegexpLike(this=value, expression=exp.Literal.string(f"(?s)^({pattern})(?!.)")),
    doubles={"integer": _as_double, "float": _as_double, "decimal": _as_double, "boolean": _truth},
    days={
        "date": lambda value: call("UNIX_DATE", value),
        "timestamp": lambda value: call("UNIX_DATE", cast(value, "date")),
        "instant": _spark_instant,
    },
    piece=lambda mark: cast(call("CONV", call("LEFT", mark, 15), 16, 10), "decimal(38, 0)"),
    is_unicode=lambda value: call("IS_VALID_UTF8", value),
)
