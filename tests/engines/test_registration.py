"""From dirty rows to a snapshot: every engine makes the same one, and says the same of it."""

from __future__ import annotations

import csv
import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, date, datetime
from decimal import Decimal
from fractions import Fraction
from functools import cache
from itertools import count
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING
from uuid import UUID

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from discreet.query.scan import ScanMeasure, TextKey, TotalsScan
from discreet.schema import Budget, Column, DerivedCodes, Schema
from discreet.sources.ingest import (
    ColumnReport,
    RegistrationReport,
    register_duckdb,
    register_memory,
    register_postgres,
    register_spark,
)
from discreet.sources.ingest.values import parse_with_status
from discreet.sources.spark import SparkSource
from support import dirty_tables

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

KEY = "it's 100% \\ {secret}"
NAMES = count()
ON_POSTGRES = pytest.mark.xdist_group("postgres")
ON_SPARK = pytest.mark.xdist_group("spark")

Rows = Sequence[Mapping[str, object]]
Outcome = tuple[Counter[tuple[object, ...]], RegistrationReport]
Engine = Callable[[Schema, pa.Table], Outcome]


def schema_of(*columns: Column, unit: str | None = None, rows: int = 1) -> Schema:
    named, budget = {column.name: column for column in columns}, Budget(Fraction(1))
    return Schema("t", "t.csv", Path(), "add-remove", named, budget, budget, unit=unit, rows=rows)


KINDS = (
    Column("age", "integer", 0, 120, missing_values=("-1", "?", "it's", "back\\slash", "%s {x} $1")),
    Column("price", "number", -500, 10_000, Fraction(1, 100)),
    Column("thirds", "number", -9, 9, Fraction(1, 3), missing=4),
    Column("tens", "integer", -20, 20, Fraction(10)),
    Column("far", "integer", -(2**44), 2**44),
    Column("fine", "number", -(2**44), 2**44, Fraction(1, 10**90)),
    Column("coarse", "number", -(2**31), 2**31, Fraction(10**90)),
    Column("day", "date", -3000, 20_000, missing_values=("0001-01-01",)),
    Column("ever", "date", -719_162, 2_932_896),
    Column("truth", "boolean", 0, 1, categories=("false", "true")),
    Column("level", "ordinal", 0, 3, categories=("1", "low", "höch", "true"), missing_values=("0",)),
    Column("city", "nominal", private_keys=True, missing_values=("?",)),
)


def hard_texts() -> list[str | None]:
    """Texts at the edges of every rule, and dates and numbers that are easy to get wrong."""
    random = Random(5)
    texts: list[str | None] = [
        None,
        "",
        " ",
        "\t\r\n",
        "?",
        "it's",
        "back\\slash",
        "%s {x} $1",
        "a|b",
        "a\nb",
        '"',
        "\\N",
    ]
    texts += [
        "low",
        "Low",
        " low ",
        "höch",
        "ho\u0308ch",
        "\u00a0low",
        "x" * 300,
        "🤦🏼‍♂️" * 60,
        "12\u2028",
        "12\u0085",
        "١٢",
    ]
    texts += ["true", "T", "YES", "y", "1", "01", "0", "no", "F", "2", "TRUE ", "ſ", "oui", "NaN", "inf", "-Infinity"]
    texts += [
        "+5",
        "-5",
        "5.",
        ".5",
        ".",
        "+",
        "-.5e-3",
        "1e5",
        "1E+05",
        "1e99",
        "-1e-99",
        "1e100",
        "1e400",
        "0x1A",
        "1_0",
    ]
    texts += ["1" * 40, "1" * 41, "0." + "0" * 37 + "1", "9007199254740993", "9007199254740992.5", "1e22", "1e23", "1d"]
    texts += [
        "0.285",
        "1.005",
        "2.675",
        "0.5",
        "1.5",
        "2.5",
        "-0.5",
        "-1.5",
        "0.3333333333333333",
        "0.5e-90",
        "1.5e-90",
    ]
    texts += ["1970-01-01T25:61", "1970-01-01 ", "1970-01-01  x", "1970-01-01x", "1970-1-1", "19700101", "-970-01-01"]
    texts += ["1970-01-01 " + "x" * 29, "1970-01-01 " + "x" * 30, "01970-01-01", "1970-01-0١", "1970/01/01"]
    texts += [f"{random.uniform(-200, 200):.{random.randrange(20)}f}" for _ in range(300)]
    texts += [f"{random.uniform(-9, 9)}e{random.randrange(-99, 99)}" for _ in range(100)]
    years = (0, 1, 4, 100, 400, 1900, 1969, 1970, 2000, 2023, 2024, 9999)
    texts += [
        f"{year:04}-{month:02}-{day:02}" for year in years for month in range(14) for day in (0, 1, 28, 29, 30, 31, 32)
    ]
    return texts


FLOATS = [
    math.nan,
    math.inf,
    -math.inf,
    0.0,
    -0.0,
    1.0,
    -1.0,
    0.5,
    1.5,
    2.5,
    -0.5,
    120.0,
    0.285,
    1e16,
    2.0**53,
    2.0**54,
]
WHOLE = [0, 1, -1, 7, 5, 15, -15, 25, 119, 120, 121, 100, 127, -128]
MOMENTS = [
    datetime(1, 1, 1),
    datetime(1970, 1, 1, 23, 59, 59, 999_999),
    datetime(1969, 12, 31, 23),
    datetime(9999, 12, 31, 23, 59),
]
TYPED: dict[pa.DataType, list[object]] = {
    pa.string(): ["1", "true", "low", "1970-01-02", "?", "-1", None],
    pa.int8(): [*WHOLE, None],
    pa.int32(): [*WHOLE, 2**31 - 1, -(2**31), None],
    pa.int64(): [*WHOLE, 2**53 + 1, 2**63 - 1, -(2**63), None],
    pa.uint64(): [1, 0, 2**64 - 1, 2**63 + 1025, None],
    pa.float32(): [*FLOATS, 1e-45, 3.4e38, None],
    pa.float64(): [*FLOATS, 5e-324, -5e-324, 1e-200, 9e-201, 1e308, -1e308, 0.5e-90, 2.5e90, 1e300, None],
    pa.bool_(): [True, False, None],
    pa.date32(): [date(1, 1, 1), date(1582, 10, 10), date(1970, 1, 2), date(2024, 2, 29), date(9999, 12, 31), None],
    pa.timestamp("us"): [*MOMENTS, None],
    pa.timestamp("us", "UTC"): [*(moment.replace(tzinfo=UTC) for moment in MOMENTS), None],
    pa.decimal128(10, 2): [
        Decimal("1.00"),
        Decimal("-1.00"),
        Decimal("0.29"),
        Decimal("119.995"[:6]),
        Decimal("0.50"),
        None,
    ],
    pa.decimal128(38, 0): [Decimal(1), Decimal(10**38 - 1), Decimal(1 - 10**38), Decimal(2**53 + 1), None],
    pa.decimal128(38, 20): [
        Decimal("0.5"),
        Decimal("0.28499999999999999999"),
        Decimal("99.99499999999999999999"),
        Decimal(1),
        None,
    ],
}
POSTGRES_TYPES = {
    "string": "text",
    "int8": "smallint",
    "int32": "integer",
    "int64": "bigint",
    "uint64": "numeric(20, 0)",
    "float": "real",
    "double": "double precision",
    "bool": "boolean",
    "date32[day]": "date",
    "timestamp[us]": "timestamp",
    "timestamp[us, tz=UTC]": "timestamptz",
    "decimal128(10, 2)": "numeric(10, 2)",
    "decimal128(38, 0)": "numeric",
    "decimal128(38, 20)": "numeric(38, 20)",
}


# Each engine's way from an Arrow table to what it makes of it.


def in_memory(schema: Schema, rows: Rows) -> Outcome:
    kept_rows, report = register_memory(schema, rows, KEY)
    names = [*schema.columns, *(["#unit"] if schema.unit else [])]
    return Counter(tuple(row[name] for name in names) for row in kept_rows), report


def in_duckdb(schema: Schema, raw: object, folder: Path) -> Outcome:
    target = folder / f"{next(NAMES)}.duckdb"
    report = register_duckdb(schema, raw, target, KEY)
    with duckdb.connect(str(target), read_only=True) as connection:
        return Counter(connection.execute("SELECT * FROM snapshot").fetchall()), report


def in_csv(schema: Schema, table: pa.Table, folder: Path) -> Outcome:
    path = folder / f"{next(NAMES)} [1].csv"
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(table.column_names)
        writer.writerows(row.values() for row in table.to_pylist())
    return in_duckdb(schema, path, folder)


def in_parquet(schema: Schema, table: pa.Table, folder: Path) -> Outcome:
    path = folder / f"{next(NAMES)}*.parquet"
    pq.write_table(table, path)
    return in_duckdb(schema, path, folder)


def in_postgres(schema: Schema, table: pa.Table, dsn: str) -> Outcome:
    import psycopg

    name = f"Raw {next(NAMES)}"
    with psycopg.connect(dsn) as connection:
        columns = ", ".join(f'"{field.name}" {POSTGRES_TYPES[str(field.type)]}' for field in table.schema)
        connection.execute(f'CREATE TABLE "{name}" ({columns})'.encode())
        with connection.cursor().copy(f'COPY "{name}" FROM STDIN'.encode()) as copy:
            for row in table.to_pylist():
                copy.write_row(tuple(row.values()))
    target = f"Snap-{next(NAMES)}.2026"
    report = register_postgres(schema, dsn, f"public.{name}", target, KEY)
    with psycopg.connect(dsn) as connection:
        return Counter(connection.execute(f'SELECT * FROM discreet."{target}"'.encode()).fetchall()), report


def in_spark(schema: Schema, table: pa.Table, session: SparkSession, folder: Path) -> Outcome:
    raw, target = folder / f"{next(NAMES)}.parquet", folder / f"{next(NAMES)}"
    pq.write_table(table, raw)
    report = register_spark(schema, session, session.read.parquet(str(raw)), target, KEY)
    return Counter(tuple(row.values()) for row in pq.read_table(target).to_pylist()), report


ENGINES = [
    "arrow",
    "csv",
    "parquet",
    pytest.param("postgres", marks=ON_POSTGRES),
    pytest.param("spark", marks=ON_SPARK),
]
TYPED_ENGINES = [engine for engine in ENGINES if engine != "csv"]


@pytest.fixture
def engine(request: pytest.FixtureRequest, tmp_path: Path) -> Engine:
    match request.param:
        case "arrow":
            return lambda schema, table: in_duckdb(schema, table, tmp_path)
        case "csv":
            return lambda schema, table: in_csv(schema, table, tmp_path)
        case "parquet":
            return lambda schema, table: in_parquet(schema, table, tmp_path)
        case "postgres":
            dsn = request.getfixturevalue("postgres")
            return lambda schema, table: in_postgres(schema, table, dsn)
        case _:
            session = request.getfixturevalue("spark")
            return lambda schema, table: in_spark(schema, table, session, tmp_path)


@pytest.mark.parametrize("engine", ENGINES, indirect=True)
def test_hard_texts_are_read_alike(engine: Engine) -> None:
    """Every text under every kind of column: the same codes, the same counts, the same fingerprint."""
    texts = hard_texts()
    table = pa.table({column.name: pa.array(texts, pa.string()) for column in KINDS})
    schema = schema_of(*KINDS)
    assert engine(schema, table) == in_memory(schema, table.to_pylist())


@cache
def typed_case() -> tuple[Schema, pa.Table]:
    """Every type of source under every kind of column that reads anything of it, in one wide table."""
    longest = max(map(len, TYPED.values()))
    columns, data = [], {}
    for place, (kind, values) in enumerate(TYPED.items()):
        array = pa.array(values + [None] * (longest - len(values)), kind)
        for column in KINDS:
            if any(parse_with_status(column, value).status in {"read", "clipped"} for value in array.to_pylist()):
                name = f"{column.name}{place}"
                columns.append(replace(column, name=name))
                data[name] = array
    return schema_of(*columns), pa.table(data)


@pytest.mark.parametrize("engine", TYPED_ENGINES, indirect=True)
def test_typed_values_are_read_alike(engine: Engine) -> None:
    """Whatever the type of the source's column; and a table of a hundred columns is no trouble."""
    schema, table = typed_case()
    assert len(schema.columns) > 100
    assert engine(schema, table) == typed_reference()


@cache
def typed_reference() -> Outcome:
    """What the plain loop reads of it, the same for every engine."""
    schema, table = typed_case()
    return in_memory(schema, table.to_pylist())


@pytest.mark.parametrize("engine", ENGINES, indirect=True)
def test_units_keep_the_same_rows(engine: Engine, request: pytest.FixtureRequest) -> None:
    """Random schemas and dirty tables: the same few rows of each unit, whichever engine chooses them."""
    for seed in range(2 if "spark" in request.node.name else 6):
        assert_alike(engine, seed, rows=120)


def assert_alike(engine: Engine, seed: int, rows: int) -> None:
    schema, table, expected = dirty_case(seed, rows)
    assert engine(schema, table) == expected, seed


@cache
def dirty_case(seed: int, rows: int) -> tuple[Schema, pa.Table, Outcome]:
    """A random table, and what the plain loop reads of it: the same for every engine."""
    dirty_table = dirty_tables.generate_table(Random(seed), rows)
    table = pa.table(
        {name: pa.array([row[name] for row in dirty_table.rows], pa.string()) for name in dirty_table.rows[0]}
    )
    return dirty_table.schema, table, in_memory(dirty_table.schema, dirty_table.rows)


def test_units_gone_through_in_parts_keep_the_same_rows(tmp_path: Path) -> None:
    """As they are where a table does not fit memory."""
    dirty_table = next(
        dirty_table
        for dirty_table in (dirty_tables.generate_table(Random(seed), 300) for seed in count())
        if dirty_table.schema.unit
    )
    table = pa.table(
        {name: pa.array([row[name] for row in dirty_table.rows], pa.string()) for name in dirty_table.rows[0]}
    )
    report = register_duckdb(dirty_table.schema, table, tmp_path / "parts.duckdb", KEY, max_values=500)
    assert report == in_memory(dirty_table.schema, dirty_table.rows)[1]


def test_a_difference_would_be_seen() -> None:
    """One value of one row, or one more row, changes what the engines are compared by."""
    schema = schema_of(KINDS[0])
    rows, report = in_memory(schema, [{"age": 1}, {"age": 2}])
    assert rows != in_memory(schema, [{"age": 1}, {"age": 3}])[0]
    assert report != in_memory(schema, [{"age": 1}, {"age": 2}, {"age": 2}])[1]
    assert report != in_memory(schema, [{"age": 1}, {"age": 3}])[1]


@ON_POSTGRES
def test_what_only_postgres_can_hold_is_read(postgres: str) -> None:
    """Decimals that are no number, infinite or beyond every double; infinite dates and dates before the year 1."""
    import psycopg

    numbers = ("NaN", "Infinity", "-Infinity", "1e400", "-1e400", "1e-400", "5.0")
    days = ("infinity", "-infinity", "4713-01-01 BC", "250000-12-31", "1970-01-02", None, "9999-12-31")
    with psycopg.connect(postgres) as connection:
        connection.execute("CREATE TYPE temper AS ENUM ('low', 'high')")
        connection.execute("CREATE DOMAIN years AS integer CHECK (value >= 0)")
        columns = "x numeric, y numeric, d date, t timestamp, z timestamptz, m temper, a years, w char(9), i uuid"
        connection.execute(f"CREATE TABLE special ({columns})".encode())
        for number, day in zip(numbers, days, strict=True):
            values = [number, number, day, day, day, "low", 7, "low", UUID(int=7)]
            connection.execute(f"INSERT INTO special VALUES ({', '.join(['%s'] * 9)})".encode(), values)
    schema = schema_of(
        Column("x", "number", -100, 100, Fraction(1, 10)),
        Column("y", "nominal", private_keys=True),
        *(Column(name, "date", -3000, 20_000) for name in "dtz"),
        *(Column(name, "nominal", 0, 1, categories=("high", "low")) for name in "mw"),
        Column("a", "integer", 0, 120),
        unit="i",
        rows=10,
    )
    report = register_postgres(schema, postgres, "special", "special", KEY)
    with psycopg.connect(postgres) as connection:
        row_counts = Counter(connection.execute("SELECT * FROM discreet.special").fetchall())
    dates = [object()] * 4 + [date(1970, 1, 2), None, date(9999, 12, 31)]
    same = {"m": "low", "w": "low", "a": 7, "i": UUID(int=7)}
    rows = [
        {"x": Decimal(number), "y": Decimal(number), **dict.fromkeys("dtz", day), **same}
        for number, day in zip(numbers, dates, strict=True)
    ]
    assert (row_counts, report) == in_memory(schema, rows)


def test_what_only_duckdb_can_hold_is_read(tmp_path: Path) -> None:
    """Infinite dates, dates before the year 1, whole numbers of 128 bits, and texts with a NUL in them."""
    path, days = tmp_path / "special.parquet", ["infinity", "-infinity", "0044-03-15 (BC)", "1970-01-02"]
    rows = ", ".join(f"('{day}', 'a' || chr(0) || '{day}')" for day in days)
    columns = "d::DATE AS d, d::TIMESTAMP AS t, d::TIMESTAMPTZ AS z, c"
    duckdb.execute(f"COPY (SELECT {columns} FROM (VALUES {rows}) AS v(d, c)) TO '{path}'")
    city = Column("c", "nominal", private_keys=True)
    row_counts, _ = in_duckdb(schema_of(*(Column(name, "date", 0, 9) for name in "dtz"), city), path, tmp_path)
    assert row_counts == Counter((*((1 if day == days[3] else None,) * 3), f"a\0{day}") for day in days)


def test_whole_numbers_beyond_64_bits_are_rounded_once(tmp_path: Path) -> None:
    """DuckDB's own cast of this one to a double is the next smaller double, a step below."""
    whole = 17050448734091853591735158188322277676
    step = Fraction(2 * int(float(whole)), 3)
    schema = schema_of(*(Column(name, "number", 0, 9, step) for name in ("decimal", "object")))
    decimals = pa.array([Decimal(whole), None], pa.decimal128(38, 0))
    row_counts, _ = in_duckdb(schema_of(schema.columns["decimal"]), pa.table({"decimal": decimals}), tmp_path)
    assert row_counts == Counter([(2,), (None,)])
    frame = pd.DataFrame({"object": np.array([whole, 5, None], dtype=object)})
    row_counts, _ = in_duckdb(schema_of(schema.columns["object"]), frame, tmp_path)
    assert row_counts == Counter([(2,), (0,), (None,)])


def test_frames_are_read_as_their_values(tmp_path: Path) -> None:
    """Also where pandas has turned whole numbers into floats, texts into categories, and nothing into NaN."""
    frame = pd.DataFrame(
        {
            "age": [1, None, 300, -1],
            "price": [0.285, math.nan, None, 1e9],
            "day": pd.to_datetime(["1970-01-02 23:30", None, "2100-01-01", "1970-01-03"], format="mixed"),
            "ever": pd.to_datetime(["1970-01-02 23:30-05:00", None, "1970-01-03 00:30+01:00", None], utc=True),
            "truth": [True, None, False, True],
            "level": pd.Categorical(["low", "high", None, "1"]),
            "city": ["Ulm", None, " Bonn ", ""],
            "tens": pd.array([10, None, 14, 15], dtype="Int64"),
            "thirds": np.array([2**70, None, -2, 1], dtype=object),
        }
    )
    schema = schema_of(*(column for column in KINDS if column.name in frame.columns))
    assert in_duckdb(schema, frame, tmp_path) == in_memory(schema, frame.to_dict("records"))
    table = pa.table({column.name: pa.array([None, "1", "low", "1970-01-01", "?"]) for column in KINDS})
    schema = schema_of(*KINDS)
    assert in_duckdb(schema, pl.from_arrow(table), tmp_path) == in_memory(schema, table.to_pylist())


@ON_SPARK
def test_what_only_spark_can_hold_is_read(spark: SparkSession, tmp_path: Path) -> None:
    """Moments at the end of 64 bits, texts that are not UTF-8, collations that take a for A, whatever the time zone."""
    least = "timestamp_micros(-9223372036854775808L)"
    rows = f"""SELECT {least} AS t, CAST(X'FF61' AS STRING) AS c, 'LOW' COLLATE UTF8_LCASE AS l
        UNION ALL SELECT TIMESTAMP '1970-01-02 23:00:00Z', 'a' || CHR(0), 'low' COLLATE UTF8_LCASE"""
    key = Column("c", "nominal", private_keys=True)
    columns = Column("t", "date", 0, 9), key, replace(KINDS[10], name="l"), replace(key, name="k")
    schema = schema_of(*columns, unit="u")
    zone = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", "Pacific/Auckland")
    try:
        raw = spark.sql(rows).selectExpr("*", "l AS u", "l AS k")
        report = register_spark(schema, spark, raw, tmp_path / "t", KEY)
    finally:
        spark.conf.set("spark.sql.session.timeZone", str(zone))
    spark_rows = spark.read.parquet(str(tmp_path / "t")).selectExpr("c0", "hex(c1)", "c2", "c3", "u").collect()
    assert sorted(map(tuple, spark_rows), key=str) == [(1, "6100", 1, "low", "low"), (None, None, None, "LOW", "LOW")]
    assert report.columns["c"] == ColumnReport(0, 1, 0)
    assert report.units == 2
    source = SparkSource(schema, spark, tmp_path / "t")
    assert source.totals(TotalsScan((ScanMeasure("units"),), (TextKey("k"),))) == {("low",): (1,), ("LOW",): (1,)}
    source.close()


@ON_POSTGRES
def test_a_hundred_thousand_categories_and_a_lookup_of_as_many(tmp_path: Path, postgres: str) -> None:
    """They are joined, not compared one by one."""
    categories = tuple(f"Ort {place} 'ü\\" for place in range(100_000))
    town = Column("town", "nominal", 0, 99_999, categories=categories)
    area = Column(
        "area", "integer", 0, 9, missing=9, derived=DerivedCodes("town", tuple(c % 8 or None for c in range(100_000)))
    )
    schema = schema_of(town, area)
    table = pa.table({"town": [*categories[::500], "Ort 5", None]})
    expected = in_memory(schema, table.to_pylist())
    assert in_duckdb(schema, table, tmp_path) == expected
    assert in_postgres(schema, table, postgres) == expected


# Bounding: what the sensitivity of every answer rests on.

VISITS = schema_of(Column("cost", "integer", 0, 9), Column("city", "nominal", private_keys=True), unit="person", rows=2)
VISIT = st.fixed_dictionaries({"cost": st.integers(-2, 12) | st.none(), "city": st.sampled_from(["Ulm", "Bonn", None])})
BY_PERSON = st.dictionaries(st.sampled_from(["ann", "bob", "cyd", "dan"]), st.lists(VISIT, max_size=5), max_size=4)


def visits(people: Mapping[str, Rows]) -> Rows:
    return [{**row, "person": name} for name, person_rows in people.items() for row in person_rows] + [
        {"cost": 1, "city": "x", "person": ""}
    ]


def register_and_count(people: Mapping[str, Rows], key: str = KEY) -> dict[str, Counter[tuple[object, ...]]]:
    of: dict[str, Counter[tuple[object, ...]]] = {}
    rows, _ = register_memory(VISITS, [*visits(people), {"cost": 1, "city": "x", "person": "always"}], key)
    for row in rows:
        of.setdefault(str(row["#unit"]), Counter())[row["cost"], row["city"]] += 1
    return of


@given(BY_PERSON, st.sampled_from(["ann", "bob", "cyd", "dan"]), st.lists(VISIT, max_size=5))
def test_one_person_changes_only_their_own_rows(people: dict[str, Rows], name: str, person_rows: Rows) -> None:
    """Neighbouring sources give neighbouring snapshots: nobody else's rows come, go or change."""
    before, after = register_and_count(people), register_and_count(people | {name: person_rows})
    assert {k: v for k, v in before.items() if k != name} == {k: v for k, v in after.items() if k != name}


@given(BY_PERSON, st.randoms(use_true_random=False))
def test_a_person_keeps_as_many_rows_as_allowed_in_any_order(people: dict[str, Rows], random: Random) -> None:
    """Which ones depends on the rows and the key, not on their order in the source."""
    shuffled = {
        name: random.sample(person_rows, len(person_rows))
        for name, person_rows in random.sample(list(people.items()), len(people))
    }
    rows_by_person = register_and_count(people)
    assert rows_by_person == register_and_count(shuffled)
    assert {name: person_rows.total() for name, person_rows in rows_by_person.items() if name != "always"} == {
        name: min(2, len(person_rows)) for name, person_rows in people.items() if person_rows
    }


def test_the_key_decides_which_rows_are_kept() -> None:
    """So a person cannot know which of their rows will count."""
    people = {"ann": [{"cost": cost, "city": "Ulm"} for cost in range(9)]}
    assert len({frozenset(register_and_count(people, f"key {i}")["ann"]) for i in range(40)}) > 10


def test_the_report_counts() -> None:
    rows = [
        {"cost": 10, "city": "Ulm", "person": "ann"},
        {"cost": "x", "city": None, "person": "ann"},
        {"cost": 3, "city": b"x", "person": "ann"},
        {"cost": None, "city": " ", "person": " bob "},
        {"cost": -1, "city": 7, "person": None},
    ]
    _, report = register_memory(VISITS, rows, KEY)
    assert (report.rows_read, report.rows_kept, report.without_unit, report.units) == (5, 3, 1, 2)
    assert dict(report.columns) == {"cost": ColumnReport(1, 1, 2), "city": ColumnReport(2, 1, 0)}


def test_the_fingerprint_is_of_the_rows_and_the_key() -> None:
    """The same rows in another order have the same; one other value, or another key, does not."""
    rows = visits({"ann": [{"cost": 1, "city": "Ulm"}], "bob": [{"cost": 2, "city": "Bonn"}]})
    fingerprint = register_memory(VISITS, rows, KEY)[1].fingerprint
    assert register_memory(VISITS, rows[::-1], KEY)[1].fingerprint == fingerprint
    assert register_memory(VISITS, [rows[0] | {"cost": 2}, *rows[1:]], KEY)[1].fingerprint != fingerprint
    assert register_memory(VISITS, rows, "another")[1].fingerprint != fingerprint


@pytest.mark.soak
@pytest.mark.parametrize("engine", ENGINES, indirect=True)
def test_many_dirty_tables_are_registered_alike(engine: Engine, request: pytest.FixtureRequest) -> None:
    for seed in range(20 if "spark" in request.node.name else 300):
        assert_alike(engine, seed, rows=400)
