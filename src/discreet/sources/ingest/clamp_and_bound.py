"""Raw values coded, clamped and bounded per unit, as queries for every engine.

The source becomes a staged table: the code `c0`, `c1`, ... and the status `s0`, `s1`, ... of each column, and the unit
`u`. A chain of nested queries does it, each using what the one inside has worked out:

    labelled   l: the value's name   p: whether there is a value   v: typed numbers as doubles, typed dates as days
    parsed     v: numbers in text    p: less what is listed as missing   y, m, d: the parts of a date in text
    found      t: double, days, code or private key; NULL where the value is not of its kind
    placed     c: the code on the grid, clipped, or what stands for a missing one   s: the status; 0 where it was read
    derived    c and s of the columns of public lookups

No cast can fail: each is of what a CASE has let through, and gives NULL where the engine has a word for that.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

from sqlglot import exp

from discreet.schema.schema import Column, Schema
from discreet.sources.ingest import values
from discreet.sources.sql_dialects import (
    ColumnOrigin,
    EngineSyntax,
    Expression,
    build_call,
    build_case,
    build_cast,
    build_double,
    build_nested_call,
    build_try_cast,
)

MISSING_STATUS, UNREADABLE_STATUS, CLIPPED_STATUS = 1, 2, 3
FIRST_DAY, LAST_DAY = -719_162, 2_932_896
"""0001-01-01 and 9999-12-31, in days since 1970-01-01."""
DAYS_BEFORE_MONTH = (0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334)

NamedExpressions = dict[str, Expression]
ParseRule = Literal["number", "number in text", "date", "date in text", "truth", "category", "key", "never"]


@dataclass(frozen=True, slots=True)
class LookupTable:
    """A small table to join with, of a label and a code: for categories, or (label a code) for a derived column."""

    name: str
    pairs: tuple[tuple[str | int, int], ...]
    has_text_labels: bool


def build_lookup_tables(schema: Schema) -> tuple[LookupTable, ...]:
    """Build the lookup tables that the staged query joins."""
    tables = []
    for i, column in enumerate(schema.columns.values()):
        if column.derived is not None:
            codes = enumerate(column.derived.codes, schema.columns[column.derived.key].lower)
            tables.append(LookupTable(f"k{i}", tuple((key, code) for key, code in codes if code is not None), False))
        elif _has_category_lookup(column):
            pairs = tuple((text, code) for code, text in enumerate(column.categories))
            tables.append(LookupTable(f"k{i}", pairs, True))
    return tuple(tables)


def build_staging_query(
    schema: Schema, origins: Mapping[str, ColumnOrigin], raw: exp.Table, syntax: EngineSyntax, prefix: str = ""
) -> exp.Select:
    """All rows of the source, each value with its status; `prefix` comes before the lookups' names."""
    unit = build_columns(["u"] if schema.unit is not None else [])
    label_columns: NamedExpressions = {} if schema.unit is None else {"u": _build_label(origins[schema.unit], syntax)}
    parsed_columns, typed_columns, code_columns = dict(unit), dict(unit), dict(unit)
    for i, column in enumerate(schema.columns.values()):
        if column.derived is None:
            rule = _choose_parse_rule(column, origins[column.name])
            label_columns |= _build_label_columns(i, rule, origins[column.name], syntax)
            parsed_columns |= _build_parsed_columns(i, rule, column, origins[column.name], syntax)
            typed_columns |= _build_typed_columns(i, rule)
            code_columns |= _build_code_columns(i, column)
    query = _prevent_flattening(select_expressions(label_columns).from_(raw, copy=False), syntax)
    query = _prevent_flattening(select_from_query(query, parsed_columns), syntax)
    joins = [(f"k{i}", f"l{i}") for i, column in enumerate(schema.columns.values()) if _has_category_lookup(column)]
    query = _prevent_flattening(_join_lookups(select_from_query(query, typed_columns), joins, prefix), syntax)
    query = _prevent_flattening(select_from_query(query, code_columns), syntax)
    return _add_derived_columns(query, schema, prefix)


def _has_category_lookup(column: Column) -> bool:
    return bool(column.categories) and column.kind != "boolean" and column.derived is None


def _choose_parse_rule(column: Column, origin: ColumnOrigin) -> ParseRule:
    if column.private_keys:
        return "key"
    if column.is_numeric:
        rules_by_kind: dict[str, ParseRule] = dict.fromkeys(("integer", "decimal", "float", "boolean"), "number")
        return (rules_by_kind | {"text": "number in text"}).get(origin.kind, "never")
    if column.kind == "date":
        rules_by_kind = dict.fromkeys(("date", "timestamp", "instant"), "date")
        return (rules_by_kind | {"text": "date in text"}).get(origin.kind, "never")
    return "truth" if column.kind == "boolean" else "category"


def _build_label_columns(i: int, rule: ParseRule, origin: ColumnOrigin, syntax: EngineSyntax) -> NamedExpressions:
    """A text is there where its name is; that is left to the next query, which has the name.

    Where an engine holds texts that are not Unicode, these are there without a name.
    """
    value = exp.column(origin.column, quoted=True)
    if origin.kind == "text":
        label = _build_label(origin, syntax)
        if syntax.is_unicode is None:
            return {f"l{i}": label}
        is_nameless = build_call("COALESCE", exp.not_(syntax.is_unicode(syntax.as_text(value))), exp.false())
        return {f"l{i}": label, f"p{i}": exp.or_(_is_not_null(label), is_nameless)}
    is_present = _is_not_null(value)
    if origin.kind == "float":
        is_present = exp.and_(is_present, value.neq(build_double(math.nan)))
    elif origin.kind == "decimal" and syntax.has_unbounded_decimals:
        is_present = exp.and_(is_present, value.neq(build_cast(exp.convert("NaN"), "decimal")))
    converters = syntax.double_converters if rule == "number" else syntax.day_converters if rule == "date" else {}
    value_column = {f"v{i}": converters[origin.kind](value)} if converters else {}
    return {f"l{i}": _build_label(origin, syntax), f"p{i}": is_present} | value_column


def _build_label(origin: ColumnOrigin, syntax: EngineSyntax) -> Expression:
    """The name of a value; NULL where there is none."""
    value = exp.column(origin.column, quoted=True)
    is_integer: exp.Condition = value.eq(build_call("FLOOR", value))
    match origin.kind:
        case "text":
            text = syntax.as_text(value)
            label = build_call("NULLIF", syntax.trim(text), "")
            return label if syntax.is_unicode is None else build_case((syntax.is_unicode(text), label))
        case "integer":
            return syntax.as_text(value)
        case "decimal":
            if syntax.has_unbounded_decimals:
                max_integer = build_cast(exp.convert(str(values.MAX_INTEGER)), "decimal")
                is_integer = exp.and_(is_integer, build_call("ABS", value) < max_integer)
            return build_case((is_integer, syntax.as_text(build_call("FLOOR", value))))
        case "float":
            is_exact = build_call("ABS", value) <= values.MAX_EXACT_FLOAT
            return build_case((exp.and_(is_exact, is_integer), syntax.as_text(build_try_cast(value, "bigint"))))
        case "boolean":
            return build_case((value, exp.convert("true")), (exp.not_(value), exp.convert("false")))
        case _:
            return build_cast(exp.null(), "text")


def _build_parsed_columns(
    i: int, rule: ParseRule, column: Column, origin: ColumnOrigin, syntax: EngineSyntax
) -> NamedExpressions:
    label = exp.column(f"l{i}")
    is_present = _is_not_null(label) if origin.kind == "text" and syntax.is_unicode is None else exp.column(f"p{i}")
    if column.missing_values:
        is_listed = label.isin(*map(syntax.to_literal, column.missing_values))
        is_present = exp.and_(is_present, exp.not_(build_call("COALESCE", is_listed, exp.false())))
    expressions: NamedExpressions = {f"l{i}": label, f"p{i}": is_present}
    if rule == "number in text":
        is_readable = exp.and_(_is_short(label), syntax.matches(label, values.NUMBER_PATTERN))
        return expressions | {f"v{i}": build_case((is_readable, build_try_cast(label, "double")))}
    if rule == "date in text":
        return expressions | _build_date_parts(i, label, syntax)
    return expressions | ({f"v{i}": exp.column(f"v{i}")} if rule in {"number", "date"} else {})


def _is_short(label: Expression) -> Expression:
    return build_call("LENGTH", label) <= values.MAX_TEXT_LENGTH


def _build_date_parts(i: int, label: Expression, syntax: EngineSyntax) -> NamedExpressions:
    has_valid_suffix = build_call("SUBSTR", label, 11, 1).isin("", "T", " ")
    is_date = syntax.matches(build_call("SUBSTR", label, 1, 10), values.DATE_PATTERN)
    is_readable = exp.and_(_is_short(label), is_date, has_valid_suffix)
    places = {f"y{i}": (1, 4), f"m{i}": (6, 2), f"d{i}": (9, 2)}
    parts = {name: build_try_cast(build_call("SUBSTR", label, *place), "double") for name, place in places.items()}
    return {name: build_case((is_readable, part)) for name, part in parts.items()}


def _build_typed_columns(i: int, rule: ParseRule) -> NamedExpressions:
    value, label = exp.column(f"v{i}"), exp.column(f"l{i}")
    match rule:
        case "number" | "number in text":
            typed_value: Expression = value
        case "date":
            typed_value = build_case((value.between(FIRST_DAY, LAST_DAY), value))
        case "date in text":
            typed_value = _build_day_number(exp.column(f"y{i}"), exp.column(f"m{i}"), exp.column(f"d{i}"))
        case "truth":
            texts = [[text for text, truth in values.BOOLEAN_TEXTS.items() if truth == code] for code in (0, 1)]
            lower_label = build_call("LOWER", label)
            typed_value = build_case(*((lower_label.isin(*texts[code]), exp.convert(code)) for code in (0, 1)))
        case "category":
            typed_value = exp.column("code", table=f"k{i}")
        case "key":
            typed_value = build_call("LEFT", label, values.MAX_KEY_LENGTH)
        case "never":
            typed_value = build_cast(exp.null(), "double")
    return {f"p{i}": exp.column(f"p{i}"), f"t{i}": typed_value}


def _build_day_number(year: Expression, month: Expression, day: Expression) -> Expression:
    """Days since 1970-01-01 of a real calendar date; in doubles, which are exact for these numbers."""
    leap_day = exp.paren(_count_leap_years(year) - _count_leap_years(exp.paren(year - 1)))
    months = [(month.eq(number), exp.convert(days)) for number, days in enumerate(DAYS_BEFORE_MONTH, 1)]
    month_cases = [(month.eq(2), leap_day + 28), (month.isin(4, 6, 9, 11), exp.convert(30))]
    month_length = build_case(*month_cases, otherwise=exp.convert(31))
    is_real_date = exp.and_(year >= 1, month.between(1, 12), day >= 1, day <= month_length)
    days_before_year = exp.paren(year - 1) * 365 + _count_leap_years(exp.paren(year - 1))
    extra_day = build_case((month > 2, leap_day), otherwise=exp.convert(0))
    day_number = days_before_year + build_case(*months) + extra_day + day - 1 + FIRST_DAY
    return build_case((is_real_date, build_try_cast(day_number, "bigint")))


def _count_leap_years(year: Expression) -> Expression:
    return exp.paren(build_call("FLOOR", year / 4) - build_call("FLOOR", year / 100) + build_call("FLOOR", year / 400))


def _build_code_columns(i: int, column: Column) -> NamedExpressions:
    typed_value, is_present = exp.column(f"t{i}"), exp.column(f"p{i}")
    lower_bound, upper_bound = _build_bounds(column)
    cases: list[tuple[Expression, Expression]] = [
        (exp.not_(is_present), exp.convert(MISSING_STATUS)),
        (typed_value.is_(exp.null()), exp.convert(UNREADABLE_STATUS)),
    ]
    if column.is_numeric or column.kind == "date":
        cases.append((exp.or_(typed_value < lower_bound, typed_value > upper_bound), exp.convert(CLIPPED_STATUS)))
    code: Expression = build_case((is_present, _build_code(column, typed_value)))
    if column.missing is not None:
        code = build_call("COALESCE", code, column.missing)
    return {f"c{i}": build_cast(code, get_snapshot_type(column)), f"s{i}": build_case(*cases, otherwise=exp.convert(0))}


def _build_bounds(column: Column) -> tuple[Expression, Expression]:
    if column.is_numeric:
        lower_bound, upper_bound = values.compute_double_bounds(column)
        return build_double(lower_bound), build_double(upper_bound)
    return exp.convert(column.lower), exp.convert(column.upper)


def _build_code(column: Column, typed_value: Expression) -> Expression:
    """The code of what was found; NULL of NULL. Compared with the bounds before it is cast, and clipped after."""
    if not column.is_numeric and column.kind != "date":
        return typed_value
    lower_bound, upper_bound = _build_bounds(column)
    end_cases = [
        (typed_value <= lower_bound, exp.convert(column.lower)),
        (typed_value >= upper_bound, exp.convert(column.upper)),
    ]
    if column.kind == "date":
        return build_case(*end_cases, otherwise=typed_value)
    multiplier, divisor = values.get_grid_factors(column.step)
    scaled = build_call("FLOOR", typed_value * build_double(multiplier) / build_double(divisor) + build_double(0.5))
    inner_cases = [
        (scaled < column.lower, exp.convert(column.lower)),
        (scaled > column.upper, exp.convert(column.upper)),
    ]
    return build_case(
        *end_cases,
        (build_call("ABS", typed_value) < build_double(values.MIN_MAGNITUDE), exp.convert(0)),
        *inner_cases,
        otherwise=build_try_cast(scaled, "bigint"),
    )


def get_snapshot_type(column: Column) -> str:
    """The type of a column of the snapshot."""
    if column.private_keys:
        return "text"
    return "int" if column.lower >= -(2**31) and column.upper < 2**31 else "bigint"


def _add_derived_columns(query: exp.Select, schema: Schema, prefix: str) -> exp.Select:
    """The staged query with the derived columns, all in the order of the schema."""
    expressions: NamedExpressions = {}
    joins = []
    places = {name: f"c{i}" for i, name in enumerate(schema.columns)}
    for i, column in enumerate(schema.columns.values()):
        expressions |= build_columns([f"c{i}", f"s{i}"])
        if column.derived is not None:
            joins.append((f"k{i}", places[column.derived.key]))
            code: Expression = exp.column("code", table=f"k{i}")
            missing_case = (code.is_(exp.null()), exp.convert(MISSING_STATUS))
            expressions[f"s{i}"] = build_case(missing_case, otherwise=exp.convert(0))
            code = code if column.missing is None else build_call("COALESCE", code, column.missing)
            expressions[f"c{i}"] = build_cast(code, get_snapshot_type(column))
    unit = build_columns(["u"] if schema.unit is not None else [])
    return _join_lookups(select_from_query(query, expressions | unit), joins, prefix)


def _join_lookups(query: exp.Select, joins: Iterable[tuple[str, str]], prefix: str) -> exp.Select:
    """With lookups beside the rows; a label is there once, so a row stays one row."""
    for lookup, column in joins:
        same_label = exp.column("label", table=lookup).eq(exp.column(column, table="q"))
        table = exp.alias_(exp.table_(prefix + lookup), lookup, table=True)
        query = query.join(table, on=same_label, join_type="left", copy=False)
    return query


def _is_not_null(value: Expression) -> exp.Condition:
    return exp.not_(value.is_(exp.null()))


def build_columns(names: Iterable[str]) -> NamedExpressions:
    """Columns of a query, under their own names."""
    return {name: exp.column(name) for name in names}


def select_expressions(expressions: NamedExpressions) -> exp.Select:
    """Begin a query that gives named expressions."""
    return exp.select(*(exp.alias_(value, name, copy=False) for name, value in expressions.items()), copy=False)


def select_from_query(query: exp.Select, expressions: NamedExpressions) -> exp.Select:
    """Select expressions from a nested query."""
    return select_expressions(expressions).from_(query.subquery("q", copy=False), copy=False)


def _prevent_flattening(query: exp.Select, syntax: EngineSyntax) -> exp.Select:
    """An offset keeps PostgreSQL from merging a nested query into the one around it."""
    return query.offset(0, copy=False) if syntax.flattens_subqueries else query


def select_status_counts(schema: Schema, table: exp.Table) -> exp.Select:
    """Count staged rows, those without a unit, and missing, unreadable and clipped values of each column."""
    row_count = exp.Count(this=exp.Star())
    without_unit = exp.convert(0) if schema.unit is None else row_count - exp.Count(this=exp.column("u"))
    statuses = [
        exp.Count(this=build_case((exp.column(f"s{i}").eq(status), exp.convert(1))))
        for i in range(len(schema.columns))
        for status in (MISSING_STATUS, UNREADABLE_STATUS, CLIPPED_STATUS)
    ]
    return exp.select(row_count, without_unit, *statuses).from_(table)


def select_bounded_rows(
    schema: Schema, key: str, table: exp.Table, syntax: EngineSyntax, unit_condition: Expression | None = None
) -> exp.Select:
    """The rows of the staged table that are kept: of each unit those of the least hashes, as many as it may have.

    `unit_condition` is a condition on units, to go through them a part at a time.
    """
    codes = [f"c{i}" for i in range(len(schema.columns))]
    if schema.unit is None:
        return select_expressions(build_columns(codes)).from_(table)
    order = exp.Order(expressions=[exp.Ordered(this=syntax.as_text(_build_row_hash(schema, key, syntax)))])
    row_number = exp.Window(this=exp.RowNumber(), partition_by=[exp.column("u")], order=order)
    numbered_rows = select_expressions(build_columns([*codes, "u"]) | {"place": row_number}).from_(table)
    numbered_rows = numbered_rows.where(exp.not_(exp.column("u").is_(exp.null())), unit_condition or exp.true())
    return select_from_query(numbered_rows, build_columns([*codes, "u"])).where(exp.column("place") <= schema.rows)


def select_snapshot_summary(schema: Schema, key: str, table: exp.Table, syntax: EngineSyntax) -> exp.Select:
    """Count the rows and units of the snapshot, and sum the first 60 bits of the rows' hashes."""
    row_count = exp.Count(this=exp.Star())
    names = exp.select("u").distinct().from_(table).subquery("names")  # a nested query goes to disk where it must
    units = row_count.copy() if schema.unit is None else exp.select(row_count.copy()).from_(names).subquery()
    hash_sum = exp.Sum(this=syntax.parse_hash_prefix(_build_row_hash(schema, key, syntax)))
    return exp.select(row_count, units, hash_sum).from_(table)


def _build_row_hash(schema: Schema, key: str, syntax: EngineSyntax) -> Expression:
    """The hash of the key, the unit and the row: see `memory.hash_row`."""
    parts = [syntax.to_literal(key)] + ([] if schema.unit is None else [build_call("MD5", exp.column("u"))])
    for i, column in enumerate(schema.columns.values()):
        code = exp.column(f"c{i}")
        text = build_call("MD5", code) if column.private_keys else build_cast(code, "text")
        parts.append(build_call("COALESCE", text, ""))
    separated_parts = [operand for part in parts for operand in (exp.convert("|"), part)][1:]
    return build_call("MD5", build_nested_call("CONCAT", separated_parts))
