"""Random schemas, dirty tables of texts, and plans over them: all that custodians and planners might come up with."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, timedelta
from fractions import Fraction
from pathlib import Path
from random import Random

from discreet.numeric import EPOCH
from discreet.query.predicates import FALSE, TRUE, AllOf, AnyOf, InRanges, InTexts, Predicate
from discreet.query.scan import BinKey, HistogramScan, ScanMeasure, TextKey, TotalsScan
from discreet.schema import Budget, Column, DerivedCodes, Schema
from discreet.schema.schema import MAX_CODE

Row = dict[str, str | None]
Plan = TotalsScan | HistogramScan

TEXTS = (
    "Oslo",
    "oslo",
    "O'Brien",
    'say "x"',
    "back\\slash\\n",
    "100%s",
    "$1 :t1 ?",
    "東京",
    "naïve",
    "e\u0301",
    "7",
    "-1",
)
DIRT = (
    "",
    "  ",
    "?",
    "n/a",
    "NaN",
    "inf",
    "-Infinity",
    "1e99",
    "--5",
    "12abc",
    "0x10",
    "1,5",
    "\t",
    "NULL",
    "é",
    "1e400",
)
MISSING = ("?", "n/a", "-1")


@dataclass(frozen=True, slots=True)
class Table:
    """A schema, and the raw rows a custodian might register under it."""

    schema: Schema
    rows: list[Row]


def generate_table(random: Random, rows: int) -> Table:
    """A random schema with so many dirty rows; some unit has too many, some row names none."""
    schema = _generate_schema(random)
    names = [str(random.randrange(-5, rows // 2 + 1)) for _ in range(rows)]
    raw = [{name: _generate_raw(random, column) for name, column in schema.columns.items()} for _ in range(rows)]
    if schema.unit is not None:
        for row, name in zip(raw, names, strict=True):
            row[schema.unit] = random.choice([name, f" {name} ", name, name, *DIRT[:2], None])
        raw[0][schema.unit] = "1"
    return Table(schema, raw)


def generate_plan(random: Random, schema: Schema) -> Plan:
    """A random plan: totals of any measures, or a histogram; with any keys, under any predicate."""
    keys = tuple(_generate_key(random, schema) for _ in range(random.choice([0, 0, 1, 1, 2, 3])))
    where = _generate_predicate(random, schema, depth=random.choice([0, 1, 1, 2, 3]))
    if random.random() < 0.25:
        column = random.choice(_list_coded_columns(schema))
        bins = _generate_bins(random, column)
        whole_width = max((column.upper - bins.lower) // bins.width + 1, 1)
        return HistogramScan(bins, random.choice([1, 7, whole_width, whole_width]), keys, where)
    return TotalsScan(tuple(_generate_measure(random, schema) for _ in range(random.randrange(5))), keys, where)


def _generate_schema(random: Random) -> Schema:
    columns = {column.name: column for column in _generate_columns(random)}
    unit, rows = random.choice([(None, 1), ("person", 1), ("person", 3)])
    budget = Budget(Fraction(1))
    return Schema("people", "people.csv", Path(), "add-remove", columns, budget, budget, unit=unit, rows=rows)


def _generate_columns(random: Random) -> list[Column]:
    low = random.choice([0, 1, -40, -(2**31), -MAX_CODE])
    high = random.choice([low, low + 1, low + 120, max(low, 2**31 - 1), MAX_CODE])
    day = random.randrange(-30_000, 30_000)
    missing = random.choice([None, None, low])
    whole = Column("whole", "integer", low, high, missing=missing, missing_values=MISSING)
    small = Column("small", "integer", -3, 12, missing=random.choice([None, 0]))
    leaves = tuple(random.sample(TEXTS, random.randrange(1, len(TEXTS))))
    optional = [
        whole,
        Column("part", "number", -7, random.choice([-7, 100, 4000]), Fraction(1, random.choice([4, 10, 3]))),
        Column("truth", "boolean", 0, 1, categories=("false", "true")),
        Column("day", "date", day, day + random.choice([0, 30, 20_000])),
        Column("grade", "ordinal", 0, 2, categories=("low", "mid", "high"), missing=random.choice([None, 1])),
        Column("leaf", "nominal", 0, len(leaves) - 1, categories=leaves, missing_values=MISSING),
        Column("city", "nominal", private_keys=True, missing_values=("n/a",)),
    ]
    looked_up = Column(
        "looked",
        "integer",
        -9,
        9,
        derived=DerivedCodes("small", tuple(_generate_code_or_none(random) for _ in range(16))),
    )
    return [*random.sample(optional, random.randrange(1, len(optional) + 1)), small, looked_up]


def _generate_code_or_none(random: Random) -> int | None:
    return random.choice([None, random.randrange(-9, 10)])


def _generate_raw(random: Random, column: Column) -> str | None:
    """A raw text, mostly of the column's kind, often near its bounds, sometimes anything."""
    if random.random() < 0.1:
        return random.choice([None, *DIRT])
    text = _generate_clean(random, column)
    return f" {text}\t" if random.random() < 0.05 else text


def _generate_clean(random: Random, column: Column) -> str:
    code = _generate_code(random, column)
    match column.kind:
        case "integer" | "number":
            near = float(code * column.step)
            return random.choice([str(near), repr(near + 0.5), str(int(near)), f"{near:e}", f"+{abs(near)}"])
        case "boolean":
            return random.choice(["true", "T", "YES", "1", "false", "f", "No", "0", "2"])
        case "date":
            day = EPOCH + timedelta(days=code)
            return random.choice([str(day), f"{day}T12:30", f"{day} x", f"{day}!", str(date(2023, 2, 28))[:8] + "30"])
    return random.choice(column.categories or TEXTS)


def _generate_code(random: Random, column: Column) -> int:
    """A code of a column, or one just beyond its bounds."""
    inside = random.randint(column.lower, column.upper)
    ends = column.lower - 1, column.lower, column.upper, column.upper + 1, column.upper // 2
    return random.choice([inside, inside, *ends])


def _list_coded_columns(schema: Schema) -> list[Column]:
    return [column for column in schema.columns.values() if not column.private_keys]


def _generate_measure(random: Random, schema: Schema) -> ScanMeasure:
    column = random.choice(_list_coded_columns(schema))
    shift = random.choice([0, column.lower, column.lower, column.upper, random.randint(-100, 100)])
    anything = random.choice(list(schema.columns))
    where = _generate_predicate(random, schema, random.choice([0, 1, 2])) if random.random() < 0.4 else TRUE
    counts = [
        ScanMeasure("rows", where=where),
        ScanMeasure("units", where=where),
        ScanMeasure("present", anything, where=where),
    ]
    sums = [ScanMeasure("sum", column.name, shift, where), ScanMeasure("squares", column.name, shift, where)]
    return random.choice([*counts, *sums])


def _generate_key(random: Random, schema: Schema) -> BinKey | TextKey:
    column = random.choice(list(schema.columns.values()))
    return TextKey(column.name) if column.private_keys else _generate_bins(random, column)


def _generate_bins(random: Random, column: Column) -> BinKey:
    """Bins from the column's lower end, or from anywhere; never more than a few thousand of them."""
    widths = [1, 2, 7, column.size // 2 + 1, column.size]
    lower = random.choice([column.lower, column.lower, 0, column.lower - 3, column.upper])
    return BinKey(column.name, lower, max(random.choice(widths), column.size // 2000))


def _generate_predicate(random: Random, schema: Schema, depth: int) -> Predicate:
    if depth:
        parts = tuple(_generate_predicate(random, schema, depth - 1) for _ in range(random.choice([0, 1, 2, 2, 3])))
        return random.choice([AllOf(parts), AnyOf(parts)])
    column = random.choice(list(schema.columns.values()))
    null = random.random() < 0.3
    if random.random() < 0.1:
        return random.choice([TRUE, FALSE])
    if column.private_keys:
        texts = tuple(random.sample((*TEXTS, "", "Bergen", "\0", "\ud800"), random.choice([0, 1, 2, 5])))
        return InTexts(column.name, texts, random.random() < 0.4, null)
    return InRanges(column.name, _generate_ranges(random, column), null)


def _generate_ranges(random: Random, column: Column) -> tuple[tuple[int, int], ...]:
    """Rising ranges, none touching the next: single codes, wide ones, some beyond the bounds."""
    ends = sorted({_generate_code(random, column) for _ in range(2 * random.choice([0, 1, 1, 2, 3, 9]))})
    widths = random.choice([(0,), (0, 1), (0, 5, 70), (column.size,)])
    ranges: list[tuple[int, int]] = []
    for low in ends:
        if not ranges or ranges[-1][1] + 1 < low:
            ranges.append((low, low + random.choice(widths)))
    return tuple(ranges)
