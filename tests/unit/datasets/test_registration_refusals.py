"""What registration refuses, in which words; that it leaves nothing behind, and tells nothing of the rows."""

from __future__ import annotations

import logging
import traceback
from collections.abc import Callable
from datetime import date
from decimal import Decimal
from fractions import Fraction
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

import duckdb
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from discreet.errors import DiscreetError, InvalidInput, Unavailable
from discreet.schema import Budget, Column, Schema
from discreet.sources.ingest import register_duckdb, register_memory, register_postgres, register_spark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

AGE = Column("age", "integer", 0, 120)
SEX = Column("sex", "nominal", 0, 1, categories=("F", "M"))
TOKEN = "tk8f3q"
TABLE_NUMBERS = count()
ON_POSTGRES = pytest.mark.xdist_group("postgres")
ON_SPARK = pytest.mark.xdist_group("spark")

Registrar = Callable[[Schema, pa.Table], object]


def declare_columns(*columns: Column, unit: str | None = None) -> Schema:
    named, budget = {column.name: column for column in columns}, Budget(Fraction(1))
    return Schema("t", "t.csv", Path(), "add-remove", named, budget, budget, unit=unit)


PEOPLE = declare_columns(AGE, SEX, unit="person")


@pytest.fixture
def snapshot_folder(tmp_path: Path) -> Path:
    """A folder of its own, which a failed registration must leave empty."""
    folder = tmp_path / "made"
    folder.mkdir()
    return folder


@pytest.fixture(
    params=["memory", "duckdb", pytest.param("postgres", marks=ON_POSTGRES), pytest.param("spark", marks=ON_SPARK)]
)
def register_table(request: pytest.FixtureRequest, tmp_path: Path, snapshot_folder: Path) -> Registrar:
    """Register an Arrow table on one engine."""
    if request.param == "memory":
        return lambda schema, table: register_memory(schema, table.to_pylist(), "key")
    if request.param == "duckdb":
        return lambda schema, table: register_duckdb(schema, table, snapshot_folder / "t.duckdb", "key")
    if request.param == "postgres":
        dsn = request.getfixturevalue("postgres")
        return lambda schema, table: register_on_postgres(schema, table, dsn)
    session = request.getfixturevalue("spark")

    def register_on_spark(schema: Schema, table: pa.Table) -> object:
        pq.write_table(table, tmp_path / "raw.parquet")
        return register_spark(
            schema, session, session.read.parquet(str(tmp_path / "raw.parquet")), snapshot_folder / "t", "key"
        )

    return register_on_spark


def register_on_postgres(schema: Schema, table: pa.Table, dsn: str) -> object:
    import psycopg

    kinds = {
        "string": "text",
        "int64": "bigint",
        "double": "double precision",
        "bool": "boolean",
        "date32[day]": "date",
    }
    columns = ", ".join(f'"{field.name}" {kinds[str(field.type)]}' for field in table.schema)
    name = f"refused_{next(TABLE_NUMBERS)}"
    with psycopg.connect(dsn) as connection:
        connection.execute(f"CREATE TABLE {name} ({columns})".encode())
        with connection.cursor().copy(f"COPY {name} FROM STDIN".encode()) as copy:
            for row in table.to_pylist():
                copy.write_row(tuple(row.values()))
    return register_postgres(schema, dsn, name, name, "key")


GOOD_TABLE = {"person": ["a", "b"], "age": ["1", "2"], "sex": ["F", "M"]}


@pytest.mark.parametrize(
    ("columns", "sentence"),
    [
        ({"person": ["a"], "age": ["1"], "gender": ["F"]}, "the source has no column sex; it has person, age, gender"),
        ({"Person": ["a"], "AGE": ["1"]}, "the source has none of the columns person, age, sex; check that it names"),
        (
            {"person": [1.5, 2.0], "age": ["1", "2"], "sex": ["F", "M"]},
            "the unit column person must hold text or whole",
        ),
        ({"person": [True], "age": ["1"], "sex": ["F"]}, "the unit column person must hold text or whole numbers"),
        (GOOD_TABLE | {"age": ["x", ""]}, "column age holds no integer; check its kind"),
        (GOOD_TABLE | {"age": [date(2020, 1, 1), None]}, "column age holds no integer; check its kind"),
        (
            GOOD_TABLE | {"sex": ["f", "m"]},
            "column sex holds no value that is one of its categories; check their spelling",
        ),
        (GOOD_TABLE | {"person": ["", " "]}, "no row names its unit; check that person is the right column"),
        (
            {name: pa.array([], pa.string()) for name in GOOD_TABLE},
            "the source has no rows; there is nothing to register",
        ),
    ],
)
def test_a_source_that_does_not_fit_is_refused_alike(
    register_table: Registrar, snapshot_folder: Path, columns: dict[str, list[object]], sentence: str
) -> None:
    """The same sentence on every engine, and nothing is left behind."""
    with pytest.raises(InvalidInput) as refusal:
        register_table(PEOPLE, pa.table(columns))
    assert str(refusal.value).startswith(sentence)
    assert list(snapshot_folder.iterdir()) == []


def test_a_column_without_any_value_is_not_refused(register_table: Registrar) -> None:
    """Nothing says that it is of another kind."""
    assert register_table(PEOPLE, pa.table(GOOD_TABLE | {"age": ["", None]}))


@pytest.mark.parametrize(
    ("column", "key", "sentence"),
    [
        (AGE, "", "the key of a registration must not be empty"),
        (AGE, "a\0", "the key has a character that no table can hold"),
        (Column("c", "nominal", 0, 0, categories=("\ud800",)), "k", "a category or missing value of c has a character"),
        (
            Column("c", "nominal", 0, 1, categories=("a", "a")),
            "k",
            "the categories of c must be different from each other",
        ),
        (Column("x", "number", 0, 1, Fraction(10**101)), "k", "the step of x must be between 10^-100 and 10^100"),
        (Column("x", "number", 0, 1, Fraction(1, 10**101)), "k", "the step of x must be between 10^-100 and 10^100"),
    ],
)
def test_a_schema_no_engine_could_hold_is_refused(column: Column, key: str, sentence: str) -> None:
    with pytest.raises(InvalidInput, match=f"^{sentence.replace('^', chr(92) + '^')}"):
        register_memory(declare_columns(column), [{column.name: 1}], key)


def test_a_schema_without_columns_is_refused() -> None:
    with pytest.raises(InvalidInput, match="the schema has no column that can be asked about; declare one"):
        register_memory(declare_columns(unit="person"), [{"person": 1}], "key")


# Files.


def write_csv(folder: Path, data: bytes, name: str = "people.csv") -> Path:
    path = folder / name
    path.write_bytes(data)
    return path


def read_registered(schema: Schema, raw: object, target: Path) -> list[tuple[object, ...]]:
    register_duckdb(schema, raw, target, "key")
    with duckdb.connect(str(target), read_only=True) as connection:
        return sorted(connection.execute("SELECT * FROM snapshot").fetchall())


@pytest.mark.parametrize(
    "data",
    [
        b"person,age,sex\na,1,F\nb,2,M\n",
        b"\xef\xbb\xbfperson,age,sex\r\na,1,F\r\nb,2,M\r\n",
        b"sex;extra;age;person\nF;x,y;1;a\n\nM;;2;b",
        b'"person"\t"age"\t"sex"\n"a"\t"1"\t"F"\nb\t2\tM\n',
        b' person | age|sex \na|"\n1"| F\nb|2|M\n',
        b"person,age,sex\ra,1,F\rb,2,M\r",
    ],
    ids=["plain", "windows", "semicolons", "tabs", "bars", "old mac"],
)
def test_files_as_people_write_them_are_read(tmp_path: Path, snapshot_folder: Path, data: bytes) -> None:
    rows = read_registered(PEOPLE, write_csv(tmp_path, data), snapshot_folder / "t.duckdb")
    assert rows == [(1, 0, "a"), (2, 1, "b")]


def test_lines_within_a_quoted_field_are_no_rows(tmp_path: Path, snapshot_folder: Path) -> None:
    """However the file is split among threads: one person's text cannot make rows of others."""
    field = b"x\n" + b"b,2,M,9\n" * 16_000
    rows = b"".join(b'a%d,1,F,"%s"\n' % (i, field) for i in range(160))
    path = write_csv(tmp_path, b"person,age,sex,note\n" + rows)
    assert len(read_registered(PEOPLE, path, snapshot_folder / "t.duckdb")) == 160


AMBIGUOUS = "the CSV file can be read in more than one way; write it with one kind of line end"
NO_TABLES = {
    "short line": (b"a,1,F\nb,2\n", "line 3 of the CSV file has not the 3 fields of the first line; mend the file"),
    "long line": (b"a,1,F,9\n", "line 2 of the CSV file has not the 3 fields of the first line"),
    "open quote": (b'a,1,F\nb,"2,M\n', "line 3 of the CSV file has a quote out of place, or a field of over 131072"),
    "after a quote": (b'a,1,F\nb,"2"x,M\n', "line 3 of the CSV file has a quote out of place, or a field of over"),
    "long field": (b"a,1," + b"F" * 140_000 + b"\n", "line 2 of the CSV file has a quote out of place, or a field of"),
    "mixed line ends": (b"a,1,F\r\nb,2,M\n", AMBIGUOUS),
    "space before a quote": (b'a,1, "F\nb,2,M"\n', AMBIGUOUS),
    "latin-1": (b"a,1,\xff\n", "the file must be CSV in UTF-8, its first line the names of the columns"),
    "latin-1 further on": (b"a,1,F\n" * 9000 + b"b,2,\xff\n", "line 8190 of the CSV file or one soon after it is not"),
    "no rows": (b"", "the source has no rows"),
}


@pytest.mark.parametrize(("data", "sentence"), NO_TABLES.values(), ids=NO_TABLES)
def test_a_file_that_is_no_table_is_refused_without_quoting_it(
    tmp_path: Path, snapshot_folder: Path, data: bytes, sentence: str
) -> None:
    """A line is told by its number alone."""
    with pytest.raises(InvalidInput) as refusal:
        register_duckdb(PEOPLE, write_csv(tmp_path, b"person,age,sex\n" + data), snapshot_folder / "t.duckdb", "key")
    assert str(refusal.value).startswith(sentence)
    assert list(snapshot_folder.iterdir()) == []


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        (b"person,age,sex,age\na,1,F,2\n", "the source has more than one column age"),
        (b"person,age,sex\r\r\na,1,F\r\r\n", AMBIGUOUS),
        (b"", "the source has none of the columns person, age, sex"),
        (b"\xff\xfe\0p", "the file must be CSV in UTF-8, its first line the names of the columns"),
    ],
    ids=["twice", "line ends", "empty", "utf-16"],
)
def test_a_file_without_a_good_first_line_is_refused(
    tmp_path: Path, snapshot_folder: Path, data: bytes, sentence: str
) -> None:
    with pytest.raises(InvalidInput, match=sentence):
        register_duckdb(PEOPLE, write_csv(tmp_path, data), snapshot_folder / "t.duckdb", "key")


def test_files_that_are_not_there_or_not_what_they_say(tmp_path: Path, snapshot_folder: Path) -> None:
    target = snapshot_folder / "t.duckdb"
    pq.write_table(pa.table(GOOD_TABLE), tmp_path / "cut.parquet")
    write_csv(tmp_path, (tmp_path / "cut.parquet").read_bytes()[:-9], "cut.parquet")
    for raw, sentence in [
        (tmp_path / "absent.csv", "there is no file .*absent.csv; check the source"),
        (tmp_path, "there is no file"),
        (write_csv(tmp_path, b"x", "people.xlsx"), "a file of rows is named .csv or .parquet, got '.xlsx'"),
        (tmp_path / "cut.parquet", "the file cannot be read as Parquet; check it"),
        (object(), "the source must be a file, or a table of pandas, Polars or Arrow"),
        (None, "the source must be a file, or a table of pandas, Polars or Arrow"),
    ]:
        with pytest.raises(InvalidInput, match=sentence):
            register_duckdb(PEOPLE, raw, target, "key")
    assert list(snapshot_folder.iterdir()) == []


def test_a_damaged_file_is_refused(tmp_path: Path, snapshot_folder: Path) -> None:
    """Its foot tells the columns, but the pages in between are no longer pages."""
    path = tmp_path / "people.parquet"
    pq.write_table(pa.table({"person": [f"p{i}" for i in range(5000)], "age": ["1"] * 5000, "sex": ["F"] * 5000}), path)
    data = bytearray(path.read_bytes())
    data[4:20_000] = b"\xff" * 19_996
    path.write_bytes(bytes(data))
    with pytest.raises(DiscreetError) as refusal:
        register_duckdb(PEOPLE, path, snapshot_folder / "t.duckdb", "key")
    assert refusal.value.exit_code in {2, 5}
    assert list(snapshot_folder.iterdir()) == []


@pytest.mark.parametrize("ages", [[1, "2"], [1, 2.5], [True, 2], [b"1", b"2"], [Decimal("1e30"), Decimal("1e-30")]])
def test_objects_of_several_types_are_refused(snapshot_folder: Path, ages: list[object]) -> None:
    """DuckDB would find one type for all of a column's objects, so one person could change how all are read."""
    frame = pd.DataFrame(GOOD_TABLE | {"age": pd.Series(ages, dtype=object)})
    with pytest.raises(InvalidInput, match="the column age of the table holds objects of several types"):
        register_duckdb(PEOPLE, frame, snapshot_folder / "t.duckdb", "key")
    with pytest.raises(InvalidInput, match="the column age of the table holds objects of several types"):
        register_duckdb(PEOPLE, frame.assign(age=pd.Categorical([1, 2])), snapshot_folder / "t.duckdb", "key")


def test_texts_that_are_not_utf_8_are_refused_without_quoting_them(tmp_path: Path, snapshot_folder: Path) -> None:
    """Parquet may hold such, and the engine's own sentence would show the bytes."""
    text = TOKEN.encode() + b"\xff"
    offsets = pa.py_buffer((0).to_bytes(4, "little") + len(text).to_bytes(4, "little"))
    texts = pa.StringArray.from_buffers(1, offsets, pa.py_buffer(text))
    pq.write_table(pa.table(dict.fromkeys(GOOD_TABLE, texts)), tmp_path / "people.parquet")
    with pytest.raises(InvalidInput, match="the source cannot be read to its end") as refusal:
        register_duckdb(PEOPLE, tmp_path / "people.parquet", snapshot_folder / "t.duckdb", "key")
    assert TOKEN not in "".join(traceback.format_exception(refusal.value))
    assert list(snapshot_folder.iterdir()) == []


def test_a_snapshot_is_never_overwritten(snapshot_folder: Path, tmp_path: Path) -> None:
    target = snapshot_folder / "t.duckdb"
    target.write_text("precious")
    with pytest.raises(InvalidInput, match="exists already; a snapshot is never overwritten"):
        register_duckdb(PEOPLE, pa.table(GOOD_TABLE), target, "key")
    assert target.read_text() == "precious"
    with pytest.raises(InvalidInput, match="does not exist; make it first"):
        register_duckdb(PEOPLE, pa.table(GOOD_TABLE), tmp_path / "absent" / "t.duckdb", "key")


def test_only_the_owner_may_read_a_snapshot(snapshot_folder: Path) -> None:
    target = snapshot_folder / "t.duckdb"
    register_duckdb(PEOPLE, pa.table(GOOD_TABLE), target, "key")
    assert target.stat().st_mode & 0o777 == 0o600
    assert list(snapshot_folder.iterdir()) == [target]


def test_progress_names_the_stages(snapshot_folder: Path) -> None:
    stages: list[str] = []
    register_duckdb(PEOPLE, pa.table(GOOD_TABLE), snapshot_folder / "t.duckdb", "key", stages.append)
    register_memory(PEOPLE, pa.table(GOOD_TABLE).to_pylist(), "key", stages.append)
    assert stages == ["reading", "normalising", "bounding", "writing"] * 2


@ON_POSTGRES
def test_postgres_refuses_plainly(postgres: str) -> None:
    import psycopg

    with psycopg.connect(postgres) as connection:
        connection.execute("CREATE TABLE plain (person text, age text, sex text)")
        connection.execute("INSERT INTO plain VALUES ('a', '1', 'F')")
        connection.execute("CREATE ROLE nobody LOGIN")
    with pytest.raises(InvalidInput, match="column age holds no date"):
        register_postgres(declare_columns(Column("age", "date", 0, 9)), postgres, "plain", "plain", "key")
    register_postgres(PEOPLE, postgres, "plain", "plain", "key")
    with pytest.raises(InvalidInput, match=r"the table discreet\.plain exists already"):
        register_postgres(PEOPLE, postgres, "plain", "plain", "key")
    for table in ("absent", "absent.plain", 'plain"; DROP TABLE plain; --'):
        with pytest.raises(InvalidInput, match="there is no table"):
            register_postgres(PEOPLE, postgres, table, "other", "key")
    with pytest.raises(InvalidInput, match="a snapshot's table is named with at most 63 letters, digits"):
        register_postgres(PEOPLE, postgres, "plain", 'x"; DROP TABLE plain; --', "key")
    with pytest.raises(Unavailable, match="its user needs to read the table"):
        register_postgres(PEOPLE, postgres.replace("user=postgres", "user=nobody"), "plain", "other", "key")
    with psycopg.connect(postgres, autocommit=True) as connection:
        connection.execute("CREATE DATABASE ascii ENCODING 'SQL_ASCII' TEMPLATE template0")
    with pytest.raises(InvalidInput, match="the database must be encoded in UTF8"):
        register_postgres(PEOPLE, postgres.replace("dbname=postgres", "dbname=ascii"), "plain", "other", "key")
    for dsn in ("host=/nowhere", "postgresql://127.0.0.1:1/x", "nonsense"):
        with pytest.raises(Unavailable, match="the database did not do it; check its address"):
            register_postgres(PEOPLE, dsn, "plain", "other", "key")


@ON_SPARK
def test_spark_refuses_plainly(spark: SparkSession, snapshot_folder: Path) -> None:
    for table in ("absent", "no table; at all", ""):
        with pytest.raises(InvalidInput, match="there is no table"):
            register_spark(PEOPLE, spark, table, snapshot_folder / "t", "key")
    rows = f"SELECT CAST(raise_error('{TOKEN}') AS STRING) AS person, '1' AS age, 'F' AS sex"
    spark.sql(rows).createOrReplaceTempView("failing")
    views = spark.catalog.listTables()
    with pytest.raises(Unavailable, match="Spark did not do it") as refusal:
        register_spark(PEOPLE, spark, "failing", snapshot_folder / "t", "key")
    assert TOKEN not in "".join(traceback.format_exception(refusal.value))
    assert list(snapshot_folder.iterdir()) == []
    assert spark.catalog.listTables() == views
    spark.catalog.dropTempView("failing")


# Tokens: a text that stands in every cell, and that nobody may hear of.


def list_planted_sources() -> list[tuple[str, object]]:
    """Sources that fail at every place where they can, each with the token in every cell."""
    rows = f"{TOKEN},{TOKEN},{TOKEN}\n"
    frame = pd.DataFrame({"person": [TOKEN], "age": [TOKEN], "sex": [TOKEN]})
    mixed = pd.DataFrame({name: pd.Series([*range(3000), TOKEN], dtype=object) for name in frame.columns})
    return [
        ("no header.csv", rows * 3),
        ("no integer.csv", "person,age,sex\n" + rows * 3),
        ("short line.csv", "person,age,sex\n" + rows + f"{TOKEN}\n"),
        ("long line.csv", "person,age,sex\n" + rows + f"{TOKEN},{rows}"),
        ("open quote.csv", "person,age,sex\n" + rows + f'"{TOKEN}'),
        ("text after quote.csv", "person,age,sex\n" + rows + f'"{TOKEN}"x,{TOKEN},{TOKEN}\n'),
        ("no column.csv", "person,age\n" + f"{TOKEN},{TOKEN}\n"),
        ("frame", frame),
        ("mixed frame", mixed),
        ("unit of floats", frame.assign(person=1.5)),
    ]


@pytest.mark.parametrize(("name", "raw"), list_planted_sources(), ids=[name for name, _ in list_planted_sources()])
def test_a_refusal_tells_nothing_of_the_rows(
    tmp_path: Path,
    snapshot_folder: Path,
    capfd: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
    name: str,
    raw: object,
) -> None:
    """Not in its words, not in its traceback, not in a log, not in what is printed or left behind."""
    caplog.set_level(logging.DEBUG)
    source = write_csv(tmp_path, raw.encode(), name) if isinstance(raw, str) else raw
    with pytest.raises(InvalidInput) as refusal:
        register_duckdb(PEOPLE, source, snapshot_folder / "t.duckdb", "key", print)
    trace = "".join(traceback.format_exception(refusal.value))
    assert TOKEN not in trace + caplog.text + "".join(capfd.readouterr())
    assert list(snapshot_folder.iterdir()) == []


@pytest.mark.parametrize("kind", ["text", "typed"])
def test_no_engine_tells_of_the_rows(
    register_table: Registrar, capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture, kind: str
) -> None:
    caplog.set_level(logging.DEBUG)
    number = 918_273_645
    columns = {"person": [TOKEN] * 3, "age": [TOKEN] * 3, "sex": [TOKEN] * 3}
    table = pa.table(columns if kind == "text" else columns | {"sex": [number] * 3, "age": [1, 2, number]})
    with pytest.raises(InvalidInput) as refusal:
        register_table(PEOPLE, table)
    trace = "".join(traceback.format_exception(refusal.value)) + caplog.text + "".join(capfd.readouterr())
    assert TOKEN not in trace
    assert str(number) not in trace
