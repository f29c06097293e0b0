"""Text that is not Unicode: no engine lets it into a snapshot, so that different keys and units are different texts.

An engine that keeps raw bytes tells apart texts that Python cannot. Counted for each of the engine's texts and added up
in Python, one unit would count several times at one key.
"""

from __future__ import annotations

import math
import traceback
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from fractions import Fraction
from itertools import chain, product
from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_registration import KEY, ON_POSTGRES, ON_SPARK, in_memory, schema_of

from discreet.custodian.measure import count_key_units
from discreet.errors import InvalidInput
from discreet.planner.plan import Plan
from discreet.planner.planner import plan
from discreet.query import parse_sql
from discreet.query.predicates import InTexts
from discreet.query.scan import ScanMeasure, TextKey, TotalsScan
from discreet.schema import Budget, Column, Schema
from discreet.sources.ingest import (
    ColumnReport,
    RegistrationReport,
    register_duckdb,
    register_memory,
    register_postgres,
    register_spark,
)
from discreet.sources.memory import MemorySource
from discreet.sources.postgres import PostgresSource
from discreet.sources.spark import SparkSource
from discreet.sources.sql import decode_totals

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CITY = Column("city", "nominal", private_keys=True)
LEVEL = Column("level", "nominal", 0, 1, categories=("Köln", "\ufffd"))
AGE = Column("age", "integer", 0, 120, missing=7)
ROWS = 10
BUDGET = Budget(Fraction(10), Fraction(1, 1000))
VISITS = replace(
    schema_of(CITY, unit="person", rows=ROWS), models=("dp", "approx-dp"), budget=BUDGET, analyst_budget=BUDGET
)
ENDS = (0x00, 0x41, 0x7F, 0x80, 0x8F, 0x9F, 0xA0, 0xBF, 0xC1, 0xC3, 0xE0, 0xE2, 0xED, 0xF0, 0xF4, 0xFF)
"""A byte of every role in UTF-8: of each length of a character, at both ends of what may follow, and of none."""


def sequences(longest: int) -> list[bytes]:
    return [bytes(each) for length in range(1, longest + 1) for each in product(ENDS, repeat=length)]


def is_utf_8(text: bytes) -> bool:
    return text == text.decode("utf-8", "replace").encode()


def strings(texts: Sequence[bytes]) -> pa.Array:
    """An Arrow column of strings, whatever their bytes: Arrow does not look."""
    ends = [0, *(len(b"".join(texts[: place + 1])) for place in range(len(texts)))]
    offsets = b"".join(end.to_bytes(4, "little") for end in ends)
    return pa.StringArray.from_buffers(len(texts), pa.py_buffer(offsets), pa.py_buffer(b"".join(texts)))


def in_spark(
    session: SparkSession, schema: Schema, columns: Mapping[str, Sequence[bytes]], folder: Path
) -> RegistrationReport:
    """Register bytes, cast to strings by Spark."""
    pq.write_table(
        pa.table({name: pa.array(texts, pa.binary()) for name, texts in columns.items()}), f"{folder}.parquet"
    )
    raw = session.read.parquet(f"{folder}.parquet")
    return register_spark(
        schema, session, raw.selectExpr(*(f"CAST({n} AS STRING) AS {n}" for n in columns)), folder, KEY
    )


def attack(people: Mapping[str, Sequence[bytes]]) -> dict[str, list[bytes]]:
    """The rows of people, each with a row in some cities."""
    pairs = [(name.encode(), city) for name, cities in people.items() for city in cities]
    return {"person": [name for name, _ in pairs], "city": [city for _, city in pairs]}


OTHERS: Mapping[str, Sequence[bytes]] = {f"p{i}": [b"Oslo"] for i in range(30)}
WITHOUT = {"Oslo": 30}
ATTACKER: Mapping[str, Sequence[bytes]] = {"eve": [bytes([0xF6 + i]) for i in range(ROWS)]}
"""Ten texts that no character begins with: of each, Python makes the one sign for what cannot be read."""


def plan_question(epsilon: int) -> Plan:
    query = parse_sql("SELECT city, COUNT(DISTINCT person) FROM t GROUP BY city", VISITS)
    return plan(VISITS, query, epsilon, delta=1e-6)


def delta_of(query_plan: Plan, one: Mapping[str, int], two: Mapping[str, int]) -> float:
    """The delta of two tables that have the same counts at all common keys, from the law of what is shown alone.

    A key that one table has alone, shown, proves which table it was. With N of discrete Laplace noise,
    P(N >= m) = e^(-rate m) / (1 + e^-rate) for m >= 1.
    """
    assert query_plan.threshold is not None
    rate, least = float(query_plan.threshold.noise.rate), query_plan.threshold.min_count
    assert all(one[key] == two[key] for key in one.keys() & two.keys())

    def hidden(count: int) -> float:
        assert count < least
        return 1 - math.exp(-rate * (least - count)) / (1 + math.exp(-rate))

    return max(
        1 - math.prod(hidden(mine[key]) for key in mine.keys() - other) for mine, other in ((one, two), (two, one))
    )


@ON_SPARK
def test_one_unit_with_texts_that_python_takes_for_one_counts_once(spark: SparkSession, tmp_path: Path) -> None:
    """The attack: added up, eve's ten texts were one key of ten units, shown with 667 times delta."""
    query_plan = plan_question(10)
    report = in_spark(spark, VISITS, attack({**OTHERS, **ATTACKER}), tmp_path / "t")
    with closing(SparkSource(VISITS, spark, tmp_path / "t")) as source:
        units_by_key = count_key_units(query_plan, source)
    assert delta_of(query_plan, WITHOUT, units_by_key) <= 1e-6
    assert units_by_key == WITHOUT
    assert report.columns["city"] == ColumnReport(0, ROWS, 0)
    assert report.units == 31
    added = Counter(str(text, errors="replace") for text in ATTACKER["eve"])
    assert 666e-6 < delta_of(query_plan, WITHOUT, {**WITHOUT, **added}) < 667e-6


@ON_SPARK
def test_a_snapshot_of_before_that_holds_such_texts_is_read_safely(spark: SparkSession, tmp_path: Path) -> None:
    """Its rows are what they are; their keys cannot be read, on any way out of it."""
    rows = attack({**OTHERS, **ATTACKER, "adam": [b"Oslo", b"\xf8"]})
    table = pa.table({"c0": pa.array(rows["city"], pa.binary()), "u": pa.array(rows["person"], pa.binary())})
    pq.write_table(table, tmp_path / "raw.parquet")
    texts = spark.read.parquet(str(tmp_path / "raw.parquet")).selectExpr("CAST(c0 AS STRING) c0", "CAST(u AS STRING) u")
    texts.write.parquet(str(tmp_path / "old"))
    query_plan = plan_question(10)
    with closing(SparkSource(VISITS, spark, tmp_path / "old")) as source:
        assert count_key_units(query_plan, source) == {"Oslo": 31}
        measures = (ScanMeasure("rows"), ScanMeasure("units"), ScanMeasure("present", "city"))
        assert source.totals(TotalsScan(measures, (TextKey("city"),))) == {
            ("Oslo",): (31, 31, 31),
            (None,): (ROWS + 1, 2, 0),
        }
        assert source.totals(TotalsScan(measures[:1], (), InTexts("city", ("\ufffd",)))) == {(): (0,)}
        assert source.totals(TotalsScan(measures[:1], (), InTexts("city", ("x",), outside=True))) == {(): (31,)}
        [batch] = source.records()
        assert Counter(batch.original["city"].tolist()) == {"Oslo": 31, None: ROWS + 1}


@ON_SPARK
def test_spark_reads_such_texts_as_memory_does(spark: SparkSession, tmp_path: Path) -> None:
    """Bytes to Spark, and to memory the halves of surrogate pairs that Python keeps them as: the same rows and counts.

    In a unit's place they name none. Two units become one, or one two, on no engine.
    """
    schema = schema_of(CITY, LEVEL, AGE, replace(AGE, name="plain"), unit="person", rows=2)
    texts = [
        *sequences(3),
        "Köln".encode(),
        "\ufffd".encode(),
        b"12",
        b"12\xff",
        b" \xff ",
        b"x" * 199 + "é".encode(),
        b"",
    ]
    names = [b"p%d" % (place // 3) if place % 5 else text for place, text in enumerate(texts)]
    columns = {"person": names, "city": texts, "level": texts, "age": texts, "plain": [b"12"] * len(texts)}
    report = in_spark(spark, schema, columns, tmp_path / "t")
    rows = zip(
        *([text.decode("utf-8", "surrogateescape") for text in query_plan] for query_plan in columns.values()),
        strict=True,
    )
    expected = in_memory(schema, [dict(zip(columns, row, strict=True)) for row in rows])
    assert report == expected[1]
    row_counts = Counter(tuple(row.values()) for row in pq.read_table(tmp_path / "t").to_pylist())
    assert row_counts == expected[0]
    assert report.columns["city"].unreadable == sum(not is_utf_8(text) for text in texts)
    assert report.columns["age"].unreadable > report.columns["city"].unreadable
    nameless = [text for place, text in enumerate(texts) if place % 5 == 0 and (not is_utf_8(text) or not text.strip())]
    assert report.without_unit == len(nameless)
    spelt = {row[0] for row in row_counts} | {row[-1] for row in row_counts}
    assert all(text is None or text == text.encode().decode() for text in spelt)


def test_halves_of_surrogate_pairs_name_nothing_in_memory() -> None:
    """Python's texts may hold them; they count as unreadable, whatever the column, and name no unit."""
    schema = schema_of(CITY, LEVEL, AGE, unit="person", rows=2)
    bad = {"city": "M\udcfcller", "level": "K\udcf6ln", "age": "12\ud800"}
    good = {"city": "a\0", "level": "Köln", "age": "12"}
    people = [{"person": "ann", **bad}, {"person": "bob\udcff", **good}, {"person": "bob\udcfe", **good}]
    kept_rows, report = register_memory(schema, [*people, {"person": "cyd", **good}], KEY)
    assert kept_rows == [
        {"city": None, "level": None, "age": 7, "#unit": "ann"},
        {"city": "a\0", "level": 0, "age": 12, "#unit": "cyd"},
    ]
    assert (report.without_unit, report.units) == (2, 2)
    assert set(report.columns.values()) == {ColumnReport(0, 1, 0)}


@pytest.mark.parametrize("column", ["person", "city", "level", "age"])
@pytest.mark.parametrize("form", ["csv", "parquet", "arrow", "large", "categories", "pandas"])
def test_what_must_be_utf_8_by_its_own_rules_is_refused_where_it_is_not(
    form: str, column: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """CSV, Parquet and Arrow promise it, and pandas has no other: such a table is damaged. No byte is told."""
    schema = schema_of(CITY, LEVEL, AGE, unit="person", rows=2)
    texts = {"person": [b"ann", b"bob"], "city": [b"Oslo"] * 2, "level": ["Köln".encode()] * 2, "age": [b"1", b"2"]}
    texts[column] = [b"TOKEN\xff\xfe", b"TOKEN\xfctoo"]
    table = pa.table({name: strings(column_texts) for name, column_texts in texts.items()})
    raw: object = table
    match form:
        case "csv":
            raw = tmp_path / "raw.csv"
            lines = [",".join(texts).encode(), *map(b",".join, zip(*texts.values(), strict=True))]
            raw.write_bytes(b"\n".join(lines))
        case "parquet":
            raw = tmp_path / "raw.parquet"
            pq.write_table(table, raw)
        case "large":
            raw = pa.table(
                {name: column_texts.cast(pa.large_string()) for name, column_texts in zip(texts, table, strict=True)}
            )
        case "categories":
            places = pa.array([0, 1], pa.int32())
            raw = pa.table(
                {n: pa.DictionaryArray.from_arrays(places, strings(column_texts)) for n, column_texts in texts.items()}
            )
        case "pandas":
            decoded = {
                name: [text.decode("utf-8", "surrogateescape") for text in column_texts]
                for name, column_texts in texts.items()
            }
            raw = pd.DataFrame({name: pd.Series(column_texts, dtype=object) for name, column_texts in decoded.items()})
    with pytest.raises(InvalidInput, match="UTF-8") as refused:
        register_duckdb(schema, raw, tmp_path / "t.duckdb", KEY)
    assert "TOKEN" not in "".join(traceback.format_exception(refused.value))
    assert "TOKEN" not in "".join(capfd.readouterr())
    assert not (tmp_path / "t.duckdb").exists()


@ON_POSTGRES
def test_collations_and_padding_of_postgres_neither_merge_nor_split(postgres: str) -> None:
    """Texts that the source's own collation takes for equal stay apart; so they do where the client says Latin-1."""
    import psycopg

    schema = schema_of(replace(CITY, missing_values=("föhlt",)), LEVEL, unit="person", rows=3)
    rows = [
        {"person": person, "city": city, "level": "Köln"}
        for person, city in [("ann", "Ulm"), ("ANN", "ulm"), ("Ann", "ULM"), ("ann ", "Ulm  "), ("ann", "föhlt")]
    ]
    with psycopg.connect(postgres, client_encoding="UTF8") as connection:
        connection.execute(
            "CREATE COLLATION careless (provider = icu, locale = 'und-u-ks-level1', deterministic = false)"
        )
        connection.execute(
            "CREATE TABLE careless (person text COLLATE careless, city char(9) COLLATE careless, level text)"
        )
        connection.cursor().executemany("INSERT INTO careless VALUES (%(person)s, %(city)s, %(level)s)", rows)
    report = register_postgres(schema, f"{postgres} client_encoding=LATIN1", "careless", "careless", KEY)
    with psycopg.connect(postgres, client_encoding="UTF8") as connection:
        row_counts = Counter(connection.execute("SELECT * FROM discreet.careless").fetchall())
    assert (row_counts, report) == in_memory(schema, rows)
    kept_rows, _ = register_memory(schema, rows, KEY)
    by_city = TotalsScan((ScanMeasure("rows"), ScanMeasure("units")), (TextKey("city"),))
    expected = MemorySource(schema, kept_rows).totals(by_city)
    with closing(PostgresSource(schema, postgres, "careless")) as source:
        assert source.totals(by_city) == expected
    assert len(expected) == 4


@ON_POSTGRES
def test_postgres_itself_refuses_such_bytes(postgres: str) -> None:
    """In the one encoding that a registration takes, so none can be in the table."""
    import psycopg

    with psycopg.connect(postgres) as connection:
        for text in ("E'\\xff'", "convert_from('\\xfc', 'UTF8')", "chr(55296)", "chr(0)"):
            with pytest.raises(psycopg.Error):
                connection.execute(f"SELECT {text}".encode())
            connection.rollback()


ENGINE_TEXTS = (b"\xff", b"\xfe", b"\xf8", "\ufffd".encode(), b"a\xff", b"a\xfe", b"a", b"b")
PEOPLE = st.lists(st.lists(st.sampled_from(ENGINE_TEXTS), max_size=3), max_size=5)


def count_texts(people: Sequence[Sequence[bytes]]) -> dict[str, tuple[int, int]]:
    """Rows and units of each of Python's texts, where the engine counts for each of its own."""
    rows = Counter(chain.from_iterable(people))
    named = Counter(chain.from_iterable(map(set, people)))
    reply = [(text.decode("utf-8", "replace"), rows[text], named[text]) for text in rows]
    totals = decode_totals(TotalsScan((ScanMeasure("rows"), ScanMeasure("units")), (TextKey("city"),)), VISITS, reply)
    return {str(key): (rows, units) for (key,), (rows, units) in totals.items()}


@given(PEOPLE, st.lists(st.sampled_from(ENGINE_TEXTS), min_size=1, max_size=3))
def test_one_unit_moves_a_merged_count_by_at_most_one(people: list[list[bytes]], unit_texts: list[bytes]) -> None:
    """Were engine texts to merge all the same: at a key of its own it counts once, and at no more keys than rows."""
    before, after = count_texts(people), count_texts([*people, unit_texts])
    moved = {key: after[key][1] - before.get(key, (0, 0))[1] for key in after}
    assert set(moved.values()) <= {0, 1}
    assert sum(moved.values()) <= len(unit_texts)
    assert {after[key][1] for key in after.keys() - before.keys()} <= {1}
    assert sum(rows for rows, _ in after.values()) == sum(map(len, people)) + len(unit_texts)
    merged = [{text.decode("utf-8", "replace") for text in unit_texts} for unit_texts in people]
    for key, (_, number) in before.items():
        assert number <= sum(key in each for each in merged)
