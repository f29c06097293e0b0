"""The contract of sources: one body of tests, and every engine gives the same whole numbers."""

from __future__ import annotations

import io
import logging
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING

import duckdb
import numpy as np
import pytest
from sqlglot import exp

from discreet.errors import Unavailable, Unsupported
from discreet.query.predicates import FALSE, TRUE, AllOf, AnyOf, InRanges, InTexts, Predicate
from discreet.query.scan import BinKey, Cell, HistogramScan, ScanMeasure, TextKey, TotalsScan
from discreet.schema import Budget, Column, Schema
from discreet.sources.duckdb import DuckDBSource
from discreet.sources.ingest.spark import FAILURE_LOGGERS, silence_spark
from discreet.sources.memory import MemorySource
from discreet.sources.postgres import PostgresSource
from discreet.sources.protocol import Source
from discreet.sources.spark import SparkSource
from discreet.sources.sql import PlanCompiler, decode_totals

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Row = Mapping[str, int | str | None]
Stored = Callable[..., Callable[[Schema], Source]]
Opened = Callable[..., Source]

FAR = 2**44
WEIRD = (
    "O'Brien",
    'say "x"',
    "back\\slash\\n",
    "100%s %(t1)s",
    "$1 :t1 ?",
    "naïve 東京 \U0001f600",
    "{x} `y`",
    "-- x;",
)
COLUMNS = (
    Column("age", "integer", 0, 120),
    Column("degrees", "integer", -50, 60),
    Column("far", "integer", -FAR, FAR),
    Column("edge", "integer", -(2**31), 2**31 - 1),
    Column("city", "nominal", private_keys=True),
)


def schema(unit: str | None = "person", rows: int = 3) -> Schema:
    budget = Budget(Fraction(1))
    columns = {column.name: column for column in COLUMNS}
    return Schema("people", "people.csv", Path(), "add-remove", columns, budget, budget, unit=unit, rows=rows)


PUBLIC = schema()


def row(unit: str, *values: int | str | None) -> Row:
    return {"#unit": unit, **dict(zip([column.name for column in COLUMNS], values, strict=True))}


PEOPLE = (
    row("ann", 30, -5, FAR, -(2**31), "Oslo"),
    row("ann", 31, None, -FAR, 2**31 - 1, "oslo"),
    row("bob", None, 60, FAR, 0, None),
    row("bob", 0, -50, None, None, WEIRD[0]),
    row("cyd", 120, 0, 1, 7, "Oslo"),
)


def sql_type(column: Column) -> str:
    if column.private_keys:
        return "TEXT"
    return "INTEGER" if column.lower >= -(2**31) and column.upper < 2**31 else "BIGINT"


def layout(schema: Schema) -> dict[str, str]:
    """The columns of a snapshot and their types, alike on every engine."""
    codes = {f"c{place}": sql_type(column) for place, column in enumerate(schema.columns.values())}
    return codes | ({"u": "TEXT"} if schema.unit else {})


def declare_schema(schema: Schema) -> str:
    return ", ".join(f"{name} {kind}" for name, kind in layout(schema).items())


def columns(schema: Schema, rows: Sequence[Row]) -> list[list[int | str | None]]:
    names = [*schema.columns, *(["#unit"] if schema.unit else [])]
    return [[row[name] for row in rows] for name in names]


def write_duckdb(schema: Schema, rows: Sequence[Row], copies: int, path: Path) -> None:
    with duckdb.connect(path) as connection:
        connection.execute(f"CREATE TABLE snapshot ({declare_schema(schema)})")
        lists = ", ".join(f"unnest(?::{kind}[])" for kind in layout(schema).values())
        connection.execute(f"INSERT INTO snapshot SELECT {lists}", columns(schema, rows))
        connection.execute(f"INSERT INTO snapshot SELECT snapshot.* FROM snapshot, generate_series(2, {copies})")


def write_parquet(schema: Schema, rows: Sequence[Row], copies: int, folder: Path) -> None:
    folder.mkdir()
    write_duckdb(schema, rows, copies, folder.with_suffix(".duckdb"))
    with duckdb.connect(folder.with_suffix(".duckdb")) as connection:
        connection.execute(f"COPY snapshot TO '{folder}/part.parquet'")


def write_postgres(schema: Schema, rows: Sequence[Row], copies: int, dsn: str, table: str) -> None:
    import psycopg

    with psycopg.connect(dsn) as connection, connection.cursor() as cursor:
        cursor.execute("CREATE SCHEMA IF NOT EXISTS discreet")
        cursor.execute(f'DROP TABLE IF EXISTS discreet."{table}"'.encode())
        cursor.execute(f'CREATE TABLE discreet."{table}" ({declare_schema(schema)})'.encode())
        with cursor.copy(f'COPY discreet."{table}" FROM STDIN'.encode()) as copy:
            for values in zip(*columns(schema, rows), strict=True):
                copy.write_row(values)
        again = f'INSERT INTO discreet."{table}" SELECT old.* FROM discreet."{table}" old, generate_series(2, {copies})'
        cursor.execute(again.encode())


ENGINES = [
    "memory",
    "duckdb",
    pytest.param("postgres", marks=pytest.mark.xdist_group("postgres")),
    pytest.param("spark", marks=pytest.mark.xdist_group("spark")),
]


@pytest.fixture(params=ENGINES)
def store_rows(request: pytest.FixtureRequest, tmp_path: Path) -> Stored:
    """Keep a snapshot on the engine under test; return how it is opened."""
    folder = tmp_path / "a [folder]* 100%"
    folder.mkdir()

    def store(schema: Schema, rows: Sequence[Row], copies: int = 1) -> Callable[[Schema], Source]:
        match request.param:
            case "memory":
                return lambda schema: MemorySource(schema, [*rows] * copies)
            case "duckdb":
                write_duckdb(schema, rows, copies, folder / "snapshot.duckdb")
                return lambda schema: DuckDBSource(schema, folder / "snapshot.duckdb")
            case "postgres":
                dsn, table = request.getfixturevalue("postgres"), "sources %s"
                write_postgres(schema, rows, copies, dsn, table)
                return lambda schema: PostgresSource(schema, dsn, table)
            case _:
                session = request.getfixturevalue("spark")
                write_parquet(schema, rows, copies, folder / "snapshot")
                return lambda schema: SparkSource(schema, session, folder / "snapshot")

    return store


@pytest.fixture
def opened(store_rows: Stored) -> Iterator[Opened]:
    """A source of these rows on the engine under test."""
    with ExitStack() as sources:

        def open_source(rows: Sequence[Row] = PEOPLE, schema: Schema = PUBLIC, copies: int = 1) -> Source:
            return sources.enter_context(closing(store_rows(schema, rows, copies)(schema)))

        yield open_source


def rows_where(source: Source, where: Predicate) -> int:
    return source.totals(TotalsScan((ScanMeasure("rows"),), where=where))[()][0]


def test_every_measure_is_a_whole_number_of_python(opened: Opened) -> None:
    """Sums shift by the measure's own lower end, leave out what is missing, and never become floats."""
    measures = (
        ScanMeasure("rows"),
        ScanMeasure("units"),
        ScanMeasure("present", "age"),
        ScanMeasure("sum", "age"),
        ScanMeasure("sum", "degrees", -50),
        ScanMeasure("squares", "degrees", -50),
        ScanMeasure("squares", "degrees"),
        ScanMeasure("sum", "degrees", 7),
        ScanMeasure("present", "city"),
    )
    (amounts,) = opened().totals(TotalsScan(measures)).values()
    shifted = [45, 110, 0, 50]
    squares = (sum(code**2 for code in shifted), 25 + 3600 + 2500)
    assert amounts == (5, 3, 4, 181, sum(shifted), *squares, 5 - 4 * 7, 4)
    assert {type(amount) for amount in amounts} == {int}


@pytest.mark.parametrize("sign", [1, -1])
def test_sums_of_far_codes_do_not_overflow(opened: Opened, sign: int) -> None:
    """Codes almost 2^44 from 0 sum beyond 2^63, and their squares beyond 2^100, to the unit, which no float holds."""
    copies, code = 2**19 + 1, sign * (FAR - 1)
    (amounts,) = opened([row("ann", 1, 1, code, 1, None)], copies=copies).totals(TotalsScan(FAR_MEASURES)).values()
    ends = [code - lower for lower in (0, -FAR, FAR)]
    assert amounts == (*(copies * end for end in ends), *(copies * end**2 for end in ends))
    assert copies * (FAR - 1) > 2**63
    assert copies * (FAR - 1) ** 2 > 2**100
    assert float(copies * code) != copies * code


FAR_MEASURES = tuple(ScanMeasure(what, "far", lower) for what in ("sum", "squares") for lower in (0, -FAR, FAR))


def test_sums_at_the_end_of_32_bits_are_exact(opened: Opened) -> None:
    """A product or a difference of 32-bit codes needs more than 32 bits."""
    plan = TotalsScan(
        (ScanMeasure("sum", "edge", -(2**31)), ScanMeasure("squares", "edge")), (BinKey("edge", -(2**31), 3),)
    )
    least, most = -(2**31), 2**31 - 1
    totals = opened([row("ann", 1, 1, 1, code, None) for code in (least, most, 0)]).totals(plan)
    assert totals == {((code - least) // 3,): (code - least, code**2) for code in (least, most, 0)}


@pytest.mark.parametrize("unit", [None, "person"])
def test_units_are_rows_where_a_unit_has_one_row(opened: Opened, unit: str | None) -> None:
    """A unit that keeps at most one row is counted by its rows, named or not."""
    source = opened(schema=schema(unit, rows=1))
    assert source.totals(TotalsScan((ScanMeasure("units"), ScanMeasure("rows")))) == {(): (5, 5)}


def test_an_empty_snapshot_has_one_cell_of_zeros(opened: Opened) -> None:
    """Without keys the one cell is there, rows or not; with keys no cell is."""
    source = opened([])
    measures = (
        ScanMeasure("rows"),
        ScanMeasure("units"),
        ScanMeasure("sum", "far", -FAR),
        ScanMeasure("squares", "age"),
    )
    assert source.totals(TotalsScan(measures)) == {(): (0, 0, 0, 0)}
    assert source.totals(TotalsScan(measures, (BinKey("age", 0),))) == {}
    assert_histograms(source.histogram(HistogramScan(BinKey("age", 0, 40), 4)), {(): [0, 0, 0, 0]})
    assert_histograms(source.histogram(HistogramScan(BinKey("age", 0, 40), 4, (TextKey("city"),))), {})


def test_where_no_row_is_left_the_cell_is_zero(opened: Opened) -> None:
    """A predicate that holds of nothing leaves the same zeros as an empty snapshot."""
    measures = (ScanMeasure("rows"), ScanMeasure("sum", "degrees", -50))
    assert opened().totals(TotalsScan(measures, where=FALSE)) == {(): (0, 0)}


def test_keys_are_bins_counted_from_their_lower_end(opened: Opened) -> None:
    """Bins of any width and origin round down, also below 0; a missing value is a key of its own."""
    source, rows = opened(), (ScanMeasure("rows"),)
    assert source.totals(TotalsScan(rows, (BinKey("degrees", -50),))) == tally((45,), (None,), (110,), (0,), (50,))
    assert source.totals(TotalsScan(rows, (BinKey("degrees", -50, 7),))) == tally((6,), (None,), (15,), (0,), (7,))
    assert source.totals(TotalsScan(rows, (BinKey("degrees", 0, 7),))) == tally((-1,), (None,), (8,), (-8,), (0,))
    assert source.totals(TotalsScan(rows, (BinKey("far", -FAR, 2**40),))) == tally((32,), (0,), (32,), (None,), (16,))


def test_keys_of_texts_differ_by_any_byte(opened: Opened) -> None:
    """Texts are keys as they are: case counts, a missing one is None, and every sign comes back unchanged."""
    odd = [row("ann", 1, 1, 1, 1, text) for text in (*WEIRD, *WEIRD, " Oslo", "Oslo", "oslo", "Oslo ", "", None)]
    expected = {(text,): (2,) for text in WEIRD} | {
        (text,): (1,) for text in (" Oslo", "Oslo", "oslo", "Oslo ", "", None)
    }
    assert opened(odd).totals(TotalsScan((ScanMeasure("rows"),), (TextKey("city"),))) == expected


def test_several_keys_make_cells(opened: Opened) -> None:
    """Keys of both kinds together, the same column twice, and totals of each cell."""
    keys = (TextKey("city"), BinKey("age", 0, 60), BinKey("age", 0, 120))
    plan = TotalsScan((ScanMeasure("units"), ScanMeasure("sum", "age")), keys, InRanges("degrees", ((-50, 60),)))
    assert opened().totals(plan) == {
        ("Oslo", 0, 0): (1, 30),
        ("Oslo", 2, 1): (1, 120),
        (None, None, None): (1, 0),
        (WEIRD[0], 0, 0): (1, 0),
    }


CASES: list[tuple[Predicate, int]] = [
    (TRUE, 5),
    (FALSE, 0),
    (InRanges("age", ()), 0),
    (InRanges("age", (), null=True), 1),
    (InRanges("age", ((0, 120),)), 4),
    (InRanges("age", ((0, 120),), null=True), 5),
    (InRanges("age", ((-100, 10**6),)), 4),
    (InRanges("age", ((31, 120),)), 2),
    (InRanges("age", ((0, 30),)), 2),
    (InRanges("age", ((1, 119),)), 2),
    (InRanges("age", ((30, 30),)), 1),
    (InRanges("age", ((30, 30), (120, 120), (7, 7)), null=True), 3),
    (InRanges("age", ((0, 3), (31, 31), (100, 130))), 3),
    (InRanges("age", ((500, 600),)), 0),
    (InRanges("degrees", ((-50, -5),)), 2),
    (InRanges("degrees", ((-5, 0),), null=True), 3),
    (InRanges("far", ((-FAR, -FAR),)), 1),
    (InRanges("far", ((-FAR + 1, FAR - 1),)), 1),
    (InRanges("edge", ((-(2**31), -(2**31)), (0, 2**31 - 2))), 3),
    (InTexts("city", ("Oslo",)), 2),
    (InTexts("city", ("Oslo", "oslo", "Oslo")), 3),
    (InTexts("city", ("Oslo",), null=True), 3),
    (InTexts("city", ("Oslo",), outside=True), 2),
    (InTexts("city", ("Oslo",), outside=True, null=True), 3),
    (InTexts("city", ()), 0),
    (InTexts("city", (), outside=True), 4),
    (InTexts("city", (), outside=True, null=True), 5),
    (InTexts("city", WEIRD), 1),
    (InTexts("city", WEIRD, outside=True), 3),
    (InTexts("city", ("Oslo\0", "\ud800", "\0")), 0),
    (InTexts("city", ("Oslo\0", "\ud800", "\0"), outside=True), 4),
    (AllOf((InRanges("age", ((30, 120),)), InTexts("city", ("Oslo",)))), 2),
    (AnyOf((InRanges("age", ((30, 30),)), InTexts("city", (WEIRD[0],)), InRanges("far", (), null=True))), 2),
    (
        AllOf((AnyOf((InRanges("age", (), null=True), InRanges("age", ((0, 0),)))), InRanges("degrees", ((-50, 60),)))),
        2,
    ),
    (AnyOf((AllOf((InRanges("age", ((0, 31),)), InRanges("degrees", (), null=True))), FALSE)), 1),
    (AllOf((TRUE, AnyOf((TRUE, FALSE)))), 5),
]


def test_predicates_hold_of_the_rows_they_name(opened: Opened, request: pytest.FixtureRequest) -> None:
    """Every form of condition, at and beyond the bounds; a missing value satisfies only what says so."""
    source = opened()
    together = TotalsScan(tuple(ScanMeasure("rows", where=where) for where, _ in CASES))
    assert source.totals(together) == {(): tuple(expected for _, expected in CASES)}
    assert_alone(source, CASES[::4] if request.node.callspec.params["store_rows"] == "spark" else CASES)


@pytest.mark.soak
def test_every_predicate_holds_alone_on_every_engine(opened: Opened) -> None:
    assert_alone(opened(), CASES)


def assert_alone(source: Source, cases: list[tuple[Predicate, int]]) -> None:
    """As the condition of a question of its own, which to Spark is a job of its own."""
    assert [rows_where(source, where) for where, _ in cases] == [expected for _, expected in cases]


def test_texts_are_values_and_never_sql(opened: Opened) -> None:
    """Quotes, backslashes, percent signs, markers of parameters and letters of any script match themselves alone."""
    source = opened([row("ann", 1, 1, 1, 1, text) for text in WEIRD])
    plain = [TotalsScan((ScanMeasure("rows"),), (TextKey("city"),), InTexts("city", (text,))) for text in WEIRD]
    assert [source.totals(plan) for plan in plain] == [{(text,): (1,)} for text in WEIRD]


def test_thousands_of_ranges(opened: Opened, request: pytest.FixtureRequest) -> None:
    """Thousands of codes, of texts, of narrow ranges, of narrow gaps and of wide ranges with wide gaps are answered."""
    few = {"memory": 1000, "spark": 600}
    assert_ranges(opened, few.get(request.node.callspec.params["store_rows"], 4000))


@pytest.mark.soak
def test_thousands_of_ranges_on_every_engine(opened: Opened) -> None:
    assert_ranges(opened, 4000)


def assert_ranges(opened: Opened, places: int) -> None:
    """Every other one of so many rows is found, by conditions of half as many parts."""
    step = 100
    source = opened([row("ann", None, 0, step * place, None, f"c{place}") for place in range(places)])
    codes = range(0, places * step, 2 * step)
    conditions = {
        "codes": InRanges("far", tuple((code, code) for code in codes)),
        "narrow": InRanges("far", tuple((code - 1, code + 1) for code in codes)),
        "gaps": InRanges("far", ((-FAR, -2), *((code + 2, code + 2 * step - 2) for code in codes)), null=True),
        "wide": InRanges("far", tuple((code - 50, code + 49) for code in codes)),
        "texts": InTexts("city", tuple(f"c{place}" for place in range(0, places, 2))),
        "other texts": InTexts("city", tuple(f"c{place}" for place in range(0, places, 2)), outside=True),
    }
    row_counts = {name: rows_where(source, where) for name, where in conditions.items()}
    assert row_counts == dict.fromkeys(conditions, places // 2)


def test_histograms_count_the_values_in_each_bin(opened: Opened) -> None:
    """Of all rows, in cells, with a predicate; rows without a value are left out, cells of such rows are not."""
    source, bins = opened(), BinKey("degrees", -50, 40)
    assert_histograms(source.histogram(HistogramScan(bins, 3)), {(): [1, 2, 1]})
    assert_histograms(source.histogram(HistogramScan(bins, 3, where=InRanges("age", (), null=True))), {(): [0, 0, 1]})
    by_city = {("Oslo",): [0, 2, 0], ("oslo",): [0, 0, 0], (None,): [0, 0, 1], (WEIRD[0],): [1, 0, 0]}
    assert_histograms(source.histogram(HistogramScan(bins, 3, (TextKey("city"),))), by_city)
    by_age = {(0,): [1, 1, 0], (1,): [0, 1, 0], (None,): [0, 0, 1]}
    assert_histograms(source.histogram(HistogramScan(bins, 3, (BinKey("age", 0, 120),))), by_age)


def test_histograms_leave_out_what_lies_beyond_their_bins(opened: Opened) -> None:
    """A histogram of a part of the domain counts that part."""
    source = opened()
    assert_histograms(source.histogram(HistogramScan(BinKey("degrees", -5), 6)), {(): [1, 0, 0, 0, 0, 1]})
    assert_histograms(source.histogram(HistogramScan(BinKey("degrees", -60, 50), 2)), {(): [1, 2]})


def test_a_histogram_of_many_bins(opened: Opened) -> None:
    """A histogram as long as a planner may ask for, over the widest domain."""
    count = 2**16
    counts = opened().histogram(HistogramScan(BinKey("far", -FAR, 2 * FAR // count + 1), count))[()]
    assert (len(counts), counts.dtype, int(counts.sum())) == (count, np.int64, 4)
    assert counts[[0, count // 2 - 1, count // 2, count - 1]].tolist() == [1, 1, 0, 2]


def test_one_unit_is_found_by_its_name(opened: Opened) -> None:
    """The code of the one row; None where the unit is absent, its value missing, or its name no text there can be."""
    odd = [row(name, place, None, FAR, 0, None) for place, name in enumerate(("7", *WEIRD))]
    source = opened(odd, schema(rows=1))
    assert [source.individual("age", name) for name in ("7", *WEIRD)] == list(range(len(WEIRD) + 1))
    assert source.individual("far", "7") == FAR
    assert source.individual("degrees", "7") is None
    assert [source.individual("age", name) for name in ("07", "7 ", "", "7\0", "\ud800", "x' OR 1=1")] == [None] * 6


@pytest.mark.parametrize("public", [schema(), schema(None, 1)])
def test_one_unit_is_not_asked_for_where_it_may_have_several_rows(opened: Opened, public: Schema) -> None:
    """A value of a unit is one value only where the schema says so."""
    with pytest.raises(Unsupported, match="one row"):
        opened(schema=public).individual("age", "ann")


@pytest.mark.parametrize("store_rows", ENGINES[1:], indirect=True)
def test_a_snapshot_of_another_schema_is_not_opened(store_rows: Stored) -> None:
    """A snapshot that lacks a column is refused when it is opened, not when the first question is paid for."""
    opening = store_rows(schema(None, 1), PEOPLE)
    opening(schema(None, 1)).close()
    assert_silent(lambda: opening(PUBLIC))


def test_what_cannot_be_reached_is_unavailable(tmp_path: Path) -> None:
    """No file, no file of DuckDB's, a file let go of: one sentence, without the engine's, which may quote rows."""
    assert_silent(lambda: DuckDBSource(PUBLIC, tmp_path / "absent.duckdb"))
    (tmp_path / "text.duckdb").write_text("name,age\nann,30\n" * 1000)
    assert_silent(lambda: DuckDBSource(PUBLIC, tmp_path / "text.duckdb"))
    write_duckdb(PUBLIC, PEOPLE, 1, tmp_path / "good.duckdb")
    source = DuckDBSource(PUBLIC, tmp_path / "good.duckdb")
    source.close()
    assert_silent(lambda: source.totals(TotalsScan((ScanMeasure("rows"),))))


def test_a_database_that_cannot_be_reached_is_unavailable(tmp_path: Path) -> None:
    """Neither a server that is not there nor an address that is none is told in the driver's words."""
    pytest.importorskip("psycopg")
    for dsn in (f"host={tmp_path} user=secret", "postgresql://secret@[::1]:1/x?connect_timeout=1", "no address"):
        assert_silent(lambda dsn=dsn: PostgresSource(PUBLIC, dsn, "absent"))


def test_a_folder_that_is_not_there_is_unavailable(spark: SparkSession, tmp_path: Path) -> None:
    """Nor is what Spark says told; and no pattern in a folder's name makes it read another's rows."""
    write_parquet(PUBLIC, PEOPLE, 1, tmp_path / "other")
    assert_silent(lambda: SparkSource(PUBLIC, spark, tmp_path / "absent"))
    assert_silent(lambda: SparkSource(PUBLIC, spark, tmp_path / "oth*"))


def test_nothing_is_logged_on_the_way_to_spark(spark: SparkSession) -> None:
    """The bridge to Spark, and PySpark, would write down what Spark says of a row, for whoever logs everything."""
    from pyspark.logger import PySparkLogger

    bridge, *others = logging.getLogger("py4j"), *map(PySparkLogger.getLogger, FAILURE_LOGGERS)
    handler = logging.StreamHandler(io.StringIO())
    with ExitStack() as loud:
        for logger in (bridge, *others):
            logger.addHandler(handler)
            loud.callback(logger.removeHandler, handler)
        bridge.setLevel(logging.DEBUG)
        assert "of a row" in read_log(spark, handler)
        silence_spark(spark)
        others[0].setLevel(logging.WARNING)  # as PySpark has it
        assert "of a row" in read_log(spark, handler)
        silence_spark(spark)
        assert read_log(spark, handler) == ""


def read_log(session: SparkSession, handler: logging.StreamHandler[io.StringIO]) -> str:
    """What a row that is no number leaves in the log."""
    handler.setStream(io.StringIO())
    with pytest.raises(Exception, match="of a row"):
        session.sql("SELECT CAST('of a row' AS INT)").collect()
    return handler.stream.getvalue()


def test_threads_share_a_source(opened: Opened) -> None:
    """Questions asked at once do not get each other's answers."""
    source = opened()
    ages = [0, 30, 31, 120, 7, 8, 9, 10]
    with ThreadPoolExecutor(8) as pool:
        row_counts = list(pool.map(lambda age: rows_where(source, InRanges("age", ((age, age),))), ages))
    assert row_counts == [1, 1, 1, 1, 0, 0, 0, 0]


def test_processes_share_a_file(tmp_path: Path) -> None:
    """A snapshot in DuckDB is opened for reading only, so that another process may read it too."""
    path = tmp_path / "shared.duckdb"
    write_duckdb(PUBLIC, PEOPLE, 1, path)
    with closing(DuckDBSource(PUBLIC, path)) as source:
        code = "import duckdb, sys; print(*duckdb.connect(sys.argv[1], read_only=True).sql('FROM snapshot').fetchall())"
        other = subprocess.run([sys.executable, "-c", code, str(path)], check=True, capture_output=True, text=True)
        assert other.stdout.count("(") == rows_where(source, TRUE) == 5


def test_sql_holds_no_text_and_is_made_once() -> None:
    """Texts of a question are parameters on every dialect; the same plan is compiled once."""
    plan = TotalsScan((ScanMeasure("rows"),), (TextKey("city"),), InTexts("city", WEIRD, outside=True))
    for dialect in ("duckdb", "postgres", "spark"):
        compiler = PlanCompiler(PUBLIC, dialect, exp.table_("snapshot"))
        statement = compiler.compile_totals(plan)
        assert "'" not in statement.sql
        assert sorted(statement.texts) == sorted(WEIRD)
        assert compiler.compile_totals(replace(plan)) is statement


@pytest.mark.parametrize(
    ("farthest", "sums", "squares"),
    [
        (2**12 - 1, 'SUM("c0")', 'SUM("c0" * "c0")'),
        (2**25 - 1, 'SUM("c0")', 'SUM(CAST(CAST("c0" AS BIGINT) * CAST("c0" AS BIGINT) AS BIGINT))'),
        (2**31 - 1, 'SUM(CAST("c0" AS BIGINT))', 'SUM(CAST(CAST("c0" AS BIGINT) * CAST("c0" AS BIGINT) AS BIGINT))'),
        (2**44, 'SUM(CAST("c0" AS BIGINT))', 'SUM(CAST("c0" AS DECIMAL) * CAST("c0" AS DECIMAL))'),
    ],
)
def test_sums_that_no_test_can_overflow_are_wide_enough(farthest: int, sums: str, squares: str) -> None:
    """PostgreSQL sums 32 bits in 64: enough for 2^38 rows of at most 2^25, and no more."""
    public = replace(PUBLIC, columns={"far": Column("far", "integer", -farthest, farthest)})
    plan = TotalsScan((ScanMeasure("sum", "far"), ScanMeasure("squares", "far")))
    sql = PlanCompiler(public, "postgres", exp.table_("snapshot")).compile_totals(plan).sql
    assert sql == f"SELECT {sums}, {squares} FROM snapshot"


def assert_silent(failing: Callable[[], object]) -> None:
    """What fails says one sentence of ours, and nothing of the engine's."""
    ours = r"^the source did not answer; ask its custodian to check [A-Za-z' ]+$"
    with pytest.raises(Unavailable, match=ours) as handler:
        failing()
    assert handler.value.__suppress_context__


def tally(*keys: Cell) -> dict[Cell, tuple[int]]:
    return {key: (keys.count(key),) for key in keys}


def assert_histograms(histograms: Mapping[Cell, np.ndarray], expected: Mapping[Cell, list[int]]) -> None:
    assert {cell: counts.tolist() for cell, counts in histograms.items()} == expected
    assert {counts.dtype for counts in histograms.values()} <= {np.dtype(np.int64)}


def test_rows_of_texts_that_python_cannot_tell_apart_are_added_and_units_are_not() -> None:
    """None should come. Overwriting would let one unit undo all those of the other; adding would count it twice."""
    plan = TotalsScan((ScanMeasure("rows"), ScanMeasure("units")), (TextKey("city"),))
    assert decode_totals(plan, PUBLIC, [("\ufffd", 1000, 900), ("x", 3, 3), ("\ufffd", 1, 1)]) == {
        ("\ufffd",): (1001, 900),
        ("x",): (3, 3),
    }
