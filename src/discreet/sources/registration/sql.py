"""The rule of `reading.py` as a query for every engine.

The source becomes a staged table: the code `c0`, `c1`, ... and the status `s0`, `s1`, ... of each column, and the unit
`u`. A chain of nested queries does it, each using what the one inside has worked out:

    labelled   l: the value's name   p: whether there is a value   v: typed numbers as doubles, typed dates as days
    parsed     v: numbers in text    p: less what is listed as missing   y, m, d: the parts of a date in text
    found      t: double, days, code or private key; NULL where the value is not of its kind
    placed     c: the code on the grid, clipped, or what stands for a missing one   s: 0 where read, else MISSING, ...
    derived    c and s of the columns of public lookups

No cast can fail: each is of what a CASE has let through, and gives NULL where the engine has a word for that.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

from sqlglot import exp

from discreet.schema.column import Column
from discreet.schema.schema import Schema
from discreet.sources import reading
from discreet.sources.registration.words import Expression, Origin, Words, call, cast, double, try_cast, when

MISSING, UNREADABLE, CLIPPED = 1, 2, 3
FIRST_DAY, LAST_DAY = -719_162, 2_932_896
"""0001-01-01 and 9999-12-31, in days since 1970-01-01."""
BEFORE_MONTH = (0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334)

Named = dict[str, Expression]
Way = Literal["number", "number in text", "date", "date in text", "truth", "category", "key", "never"]


@dataclass(frozen=True, slots=True)
class Lookup:
    """A small table to join with, of a label and a code: for categories, or (label a code) for a derived column."""

    name: str
    pairs: tuple[tuple[str | int, int], ...]
    of_texts: bool


def lookups(schema: Schema) -> tuple[Lookup, ...]:
    """The tables that the staged query joins."""
    tables = []
    for i, column in enumerate(schema.columns.values()):
        if column.derived is not None:
            codes = enumerate(column.derived.codes, schema.columns[column.derived.key].lower)
            tables.append(Lookup(f"k{i}", tuple((key, code) for key, code in codes if code is not None), False))
        elif _listed(column):
            tables.append(Lookup(f"k{i}", tuple((text, code) for code, text in enumerate(column.categories)), True))
    return tuple(tables)


def staged(schema: Schema, origins: Mapping[str, Origin], raw: exp.Table, words: Words, prefix: str = "") -> exp.Select:
    """All rows of the source, each value with its status; `prefix` comes before the lookups' names."""
    unit = columns(["u"] if schema.unit is not None else [])
    labelled: Named = {} if schema.unit is None else {"u": _label(origins[schema.unit], words)}
    parsed, found, placed = dict(unit), dict(unit), dict(unit)
    for i, column in enumerate(schema.columns.values()):
        if column.derived is None:
            way = _way(column, origins[column.name])
            labelled |= _labelled(i, way, origins[column.name], words)
            parsed |= _parsed(i, way, column, origins[column.name], words)
            found |= _found(i, way)
            placed |= _placed(i, column)
    query = _fenced(select(labelled).from_(raw, copy=False), words)
    query = _fenced(over(query, parsed), words)
    joins = [(f"k{i}", f"l{i}") for i, column in enumerate(schema.columns.values()) if _listed(column)]
    query = _fenced(_joined(over(query, found), joins, prefix), words)
    query = _fenced(over(query, placed), words)
    return _derived(query, schema, prefix)


def _listed(column: Column) -> bool:
    return bool(column.categories) and column.kind != "boolean" and column.derived is None


def _way(column: Column, origin: Origin) -> Way:
    """How a column is read from what the source holds."""
    if column.private_keys:
        return "key"
    if column.numeric:
        known: dict[str, Way] = dict.fromkeys(("integer", "decimal", "float", "boolean"), "number")
        return (known | {"text": "number in text"}).get(origin.kind, "never")
    if column.kind == "date":
        known = dict.fromkeys(("date", "timestamp", "instant"), "date")
        return (known | {"text": "date in text"}).get(origin.kind, "never")
    return "truth" if column.kind == "boolean" else "category"


def _labelled(i: int, way: Way, origin: Origin, words: Words) -> Named:
    """A text is there where its name is; that is left to the next query, which has the name.

    Where an engine holds texts that are not Unicode, these are there without a name.
    """
    value = exp.column(origin.column, quoted=True)
    if origin.kind == "text":
        label = _label(origin, words)
        if words.is_unicode is None:
            return {f"l{i}": label}
        nameless = call("COALESCE", exp.not_(words.is_unicode(words.as_text(value))), exp.false())
        return {f"l{i}": label, f"p{i}": exp.or_(_is_there(label), nameless)}
    there = _is_there(value)
    if origin.kind == "float":
        there = exp.and_(there, value.neq(double(math.nan)))
    elif origin.kind == "decimal" and words.unbounded_decimals:
        there = exp.and_(there, value.neq(cast(exp.convert("NaN"), "decimal")))
    typed = words.doubles if way == "number" else words.days if way == "date" else {}
    known = {f"v{i}": typed[origin.kind](value)} if typed else {}
    return {f"l{i}": _label(origin, words), f"p{i}": there} | known


def _label(origin: Origin, words: Words) -> Expression:
    """The name of a value; NULL where there is none."""
    value = exp.column(origin.column, quoted=True)
    whole: exp.Condition = value.eq(call("FLOOR", value))
    match origin.kind:
        case "text":
            text = words.as_text(value)
            label = call("NULLIF", words.trimmed(text), "")
            return label if words.is_unicode is None else when((words.is_unicode(text), label))
        case "integer":
            return words.as_text(value)
        case "decimal":
            if words.unbounded_decimals:
                whole = exp.and_(whole, call("ABS", value) < cast(exp.convert(str(reading.LARGEST_WHOLE)), "decimal"))
            return when((whole, words.as_text(call("FLOOR", value))))
        case "float":
            small = call("ABS", value) <= reading.LARGEST_FLOAT
            return when((exp.and_(small, whole), words.as_text(try_cast(value, "bigint"))))
        case "boolean":
            return when((value, exp.convert("true")), (exp.not_(value), exp.convert("false")))
        case _:
            return cast(exp.null(), "text")


def _parsed(i: int, way: Way, column: Column, origin: Origin, words: Words) -> Named:
    label = exp.column(f"l{i}")
    there = _is_there(label) if origin.kind == "text" and words.is_unicode is None else exp.column(f"p{i}")
    if column.missing_values:
        listed = label.isin(*map(words.text, column.missing_values))
        there = exp.and_(there, exp.not_(call("COALESCE", listed, exp.false())))
    named: Named = {f"l{i}": label, f"p{i}": there}
    if way == "number in text":
        readable = exp.and_(_short(label), words.matches(label, reading.NUMBER))
        return named | {f"v{i}": when((readable, try_cast(label, "double")))}
    if way == "date in text":
        return named | _date_parts(i, label, words)
    return named | ({f"v{i}": exp.column(f"v{i}")} if way in {"number", "date"} else {})


def _short(label: Expression) -> Expression:
    return call("LENGTH", label) <= reading.LONGEST


def _date_parts(i: int, label: Expression, words: Words) -> Named:
    rest = call("SUBSTR", label, 11, 1).isin("", "T", " ")
    readable = exp.and_(_short(label), words.matches(call("SUBSTR", label, 1, 10), reading.DATE), rest)
    places = {f"y{i}": (1, 4), f"m{i}": (6, 2), f"d{i}": (9, 2)}
    return {name: when((readable, try_cast(call("SUBSTR", label, *place), "double"))) for name, place in places.items()}


def _found(i: int, way: Way) -> Named:
    value, label = exp.column(f"v{i}"), exp.column(f"l{i}")
    match way:
        case "number" | "number in text":
            found: Expression = value
        case "date":
            found = when((value.between(FIRST_DAY, LAST_DAY), value))
        case "date in text":
            found = _days(exp.column(f"y{i}"), exp.column(f"m{i}"), exp.column(f"d{i}"))
        case "truth":
            found = when(*((call("LOWER", label).isin(*_truths(code)), exp.convert(code)) for code in (0, 1)))
        case "category":
            found = exp.column("code", table=f"k{i}")
        case "key":
            found = call("LEFT", label, reading.LONGEST_KEY)
        case "never":
            found = cast(exp.null(), "double")
    return {f"p{i}": exp.column(f"p{i}"), f"t{i}": found}


def _truths(code: int) -> list[str]:
    return [text for text, each in reading.TRUTHS.items() if each == code]


def _days(year: Expression, month: Expression, day: Expression) -> Expression:
    """Days since 1970-01-01 of a real calendar date; in doubles, which are exact for these numbers."""
    leap = exp.paren(_leap_years(year) - _leap_years(exp.paren(year - 1)))
    months = [(month.eq(number), exp.convert(days)) for number, days in enumerate(BEFORE_MONTH, 1)]
    length = when((month.eq(2), leap + 28), (month.isin(4, 6, 9, 11), exp.convert(30)), otherwise=exp.convert(31))
    real = exp.and_(year >= 1, month.between(1, 12), day >= 1, day <= length)
    before = exp.paren(year - 1) * 365 + _leap_years(exp.paren(year - 1))
    after = when((month > 2, leap), otherwise=exp.convert(0))
    return when((real, try_cast(before + when(*months) + after + day - 1 + FIRST_DAY, "bigint")))


def _leap_years(year: Expression) -> Expression:
    """How many there are up to a year."""
    return exp.paren(call("FLOOR", year / 4) - call("FLOOR", year / 100) + call("FLOOR", year / 400))


def _placed(i: int, column: Column) -> Named:
    found, there = exp.column(f"t{i}"), exp.column(f"p{i}")
    least, greatest = _bounds(column)
    cases: list[tuple[Expression, Expression]] = [
        (exp.not_(there), exp.convert(MISSING)),
        (found.is_(exp.null()), exp.convert(UNREADABLE)),
    ]
    if column.numeric or column.kind == "date":
        cases.append((exp.or_(found < least, found > greatest), exp.convert(CLIPPED)))
    code: Expression = when((there, _code(column, found)))
    if column.missing is not None:
        code = call("COALESCE", code, column.missing)
    return {f"c{i}": cast(code, column_type(column)), f"s{i}": when(*cases, otherwise=exp.convert(0))}


def _bounds(column: Column) -> tuple[Expression, Expression]:
    if column.numeric:
        least, greatest = reading.bounds_of(column)
        return double(least), double(greatest)
    return exp.convert(column.lower), exp.convert(column.upper)


def _code(column: Column, found: Expression) -> Expression:
    """The code of what was found; NULL of NULL. Compared with the bounds before it is cast, and clipped after."""
    if not column.numeric and column.kind != "date":
        return found
    least, greatest = _bounds(column)
    ends = [(found <= least, exp.convert(column.lower)), (found >= greatest, exp.convert(column.upper))]
    if column.kind == "date":
        return when(*ends, otherwise=found)
    times, over = reading.grid_of(column.step)
    scaled = call("FLOOR", found * double(times) / double(over) + double(0.5))
    inside = [(scaled < column.lower, exp.convert(column.lower)), (scaled > column.upper, exp.convert(column.upper))]
    return when(
        *ends,
        (call("ABS", found) < double(reading.NEGLIGIBLE), exp.convert(0)),
        *inside,
        otherwise=try_cast(scaled, "bigint"),
    )


def column_type(column: Column) -> str:
    """The type of a column of the snapshot."""
    if column.private_keys:
        return "text"
    return "int" if column.lower >= -(2**31) and column.upper < 2**31 else "bigint"


def _derived(query: exp.Select, schema: Schema, prefix: str) -> exp.Select:
    """The staged query with the derived columns, all in the order of the schema."""
    named: Named = {}
    joins = []
    places = {name: f"c{i}" for i, name in enumerate(schema.columns)}
    for i, column in enumerate(schema.columns.values()):
        named |= columns([f"c{i}", f"s{i}"])
        if column.derived is not None:
            joins.append((f"k{i}", places[column.derived.key]))
            code: Expression = exp.column("code", table=f"k{i}")
            named[f"s{i}"] = when((code.is_(exp.null()), exp.convert(MISSING)), otherwise=exp.convert(0))
            code = code if column.missing is None else call("COALESCE", code, column.missing)
            named[f"c{i}"] = cast(code, column_type(column))
    unit = columns(["u"] if schema.unit is not None else [])
    return _joined(over(query, named | unit), joins, prefix)


def _joined(query: exp.Select, joins: Iterable[tuple[str, str]], prefix: str) -> exp.Select:
    """With lookups beside the rows; a label is there once, so a row stays one row."""
    for lookup, column in joins:
        same = exp.column("label", table=lookup).eq(exp.column(column, table="q"))
        table = exp.alias_(exp.table_(prefix + lookup), lookup, table=True)
        query = query.join(table, on=same, join_type="left", copy=False)
    return query


def _is_there(value: Expression) -> exp.Condition:
    return exp.not_(value.is_(exp.null()))


def columns(names: Iterable[str]) -> Named:
    """Columns of a query, under their own names."""
    return {name: exp.column(name) for name in names}


def select(named: Named) -> exp.Select:
    """The beginning of a query that gives these."""
    return exp.select(*(exp.alias_(value, name, copy=False) for name, value in named.items()), copy=False)


def over(query: exp.Select, named: Named) -> exp.Select:
    """These, of what a nested query gives."""
    return select(named).from_(query.subquery("q", copy=False), copy=False)


def _fenced(query: exp.Select, words: Words) -> exp.Select:
    """An offset keeps PostgreSQL from merging a nested query into the one around it."""
    return query.offset(0, copy=False) if words.flattens else query
