"""Drafts: names and kinds of columns; what must be decided is left open, and no value of a row enters."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import yaml

from discreet import InvalidInput, Unavailable
from discreet.datasets.registration import draft_schema
from discreet.schema import schema_from_text

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PEOPLE_CSV = """\
id,age,income,born,smoker,town
p1,31,1200.50,1990-01-31,true,Zug
p2,?,3e3,1950-12-01T10:00,No,Ulm
p3,-7,.5,,f,
"""
UNDECIDED_RANGE = {"lower": "DECIDE", "upper": "DECIDE"}
INTEGER, DATE = {"kind": "integer", **UNDECIDED_RANGE}, {"kind": "date", **UNDECIDED_RANGE}
UNDECIDED_NUMBER = {"kind": "number", **UNDECIDED_RANGE, "step": "DECIDE"}
BOOLEAN, NOMINAL = {"kind": "boolean"}, {"kind": "nominal", "categories": "DECIDE"}


def draft_columns(data: object) -> dict[str, dict[str, str]]:
    """The columns of a draft, read as YAML."""
    return yaml.load(draft_schema(str(data)), yaml.BaseLoader)["columns"]


@pytest.fixture
def people_file(tmp_path: Path) -> Path:
    path = tmp_path / "people 2.csv"
    path.write_text(PEOPLE_CSV + "p4,50,7,1980-05-05,yes,Bonn\n" * 9)
    return path


def test_a_csv_file_gives_kinds_by_how_most_values_are_written(people_file: Path) -> None:
    """One stray value in ten does not change a kind."""
    kinds = {
        "id": NOMINAL,
        "age": INTEGER,
        "income": UNDECIDED_NUMBER,
        "born": DATE,
        "smoker": BOOLEAN,
        "town": NOMINAL,
    }
    assert draft_columns(people_file) == kinds


def test_a_draft_is_yaml_that_must_be_decided(people_file: Path) -> None:
    draft = draft_schema(str(people_file))
    head = yaml.load(draft, yaml.BaseLoader)
    assert (head["name"], head["source"]) == ("people_2", str(people_file))
    assert [head[key] for key in ("neighbours", "unit", "budget")] == ["DECIDE", "DECIDE", {"epsilon": "DECIDE"}]
    assert "decide from what can be true, not from what is there" in draft
    with pytest.raises(InvalidInput, match=r"has still to decide, in place of DECIDE: neighbours, unit, .*column age"):
        schema_from_text(draft, Path("/"))


def test_a_decided_draft_is_a_schema(people_file: Path) -> None:
    draft = draft_schema(str(people_file)).replace("neighbours: DECIDE", "neighbours: add-remove")
    draft = draft.replace("unit: DECIDE", "unit: {column: id}").replace("epsilon: DECIDE", "epsilon: 1")
    draft = draft.replace("id: {kind: nominal, categories: DECIDE}", "id: {role: identifier}")
    draft = draft.replace("date, lower: DECIDE, upper: DECIDE", "date, lower: 1900-01-01, upper: 2030-01-01")
    draft = draft.replace("step: DECIDE", "step: 0.01").replace("categories: DECIDE", "keys: private")
    draft = draft.replace("lower: DECIDE", "lower: 0").replace("upper: DECIDE", "upper: 120")
    schema = schema_from_text(draft, people_file.parent)
    assert list(schema.columns) == ["age", "income", "born", "smoker", "town"]


def test_no_value_enters_a_draft(tmp_path: Path) -> None:
    """Two tables with other values of the same kinds give the same draft, byte for byte."""
    path, drafts = tmp_path / "t.csv", []
    for row in ("a1,17,2.5,Zug", "zz,93,0.125,Ulm"):
        path.write_text(f"id,age,dose,town\n{row}\n")
        drafts.append(draft_schema(str(path)))
    assert drafts[0] == drafts[1]


def test_a_name_that_sql_cannot_use_is_left_out_and_said(tmp_path: Path) -> None:
    """Whatever a column is called, the draft stays YAML."""
    path = tmp_path / "t.csv"
    path.write_text('"a-b","x\ny: {kind: boolean}","{}",NO,ok\n1,2,3,4,5\n')
    assert draft_columns(path) == {"NO": INTEGER, "ok": INTEGER}
    assert '  # "a-b" is left out: call it by letters, digits and _ in the source to use it' in draft_schema(str(path))


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        (["0", "1"], INTEGER),
        (["1", "2.5"], UNDECIDED_NUMBER),
        (["9" * 16], UNDECIDED_NUMBER),
        (["9" * 41], NOMINAL),
        (["Y", "n"], BOOLEAN),
        (["2020-01-01", "2020-1-1"], NOMINAL),
        (["1"] * 8 + ["x"], NOMINAL),
        (["1"] * 9 + ["x", "", " "], INTEGER),
        (["nan", "inf"], NOMINAL),
        ([""], NOMINAL),
        ([], NOMINAL),
    ],
)
def test_kinds_of_text(tmp_path: Path, values: list[str], kind: dict[str, str]) -> None:
    path = tmp_path / "t.csv"
    path.write_text("\n".join(["x,y", *(f"{value},b" for value in values), ""]))
    assert draft_columns(path) == {"x": kind, "y": NOMINAL}


@pytest.mark.parametrize("separator", [",", ";", "\t", "|"])
def test_the_first_line_names_the_columns_whatever_separates_them(tmp_path: Path, separator: str) -> None:
    """Also behind a byte order mark, and in quotes."""
    path = tmp_path / "t.csv"
    path.write_bytes(f'\ufeff"a"{separator} b \r\n1{separator}"x,;|"\r\n\r\n'.encode())
    assert draft_columns(path) == {"a": INTEGER, "b": NOMINAL}


def test_parquet_gives_kinds_by_types(tmp_path: Path) -> None:
    import duckdb

    path = tmp_path / "2024.parquet"
    typed = "1::TINYINT a, 1::UBIGINT b, 1::DECIMAL(9, 0) c, 1::DECIMAL(9, 2) d, 1::DOUBLE e, 1::FLOAT f, true g"
    further_columns = "DATE '2020-01-01' h, now() i, 'x' j, [1] k, '1' l"
    duckdb.sql(f"SELECT {typed}, {further_columns}").write_parquet(str(path))
    kinds = [
        INTEGER,
        INTEGER,
        INTEGER,
        UNDECIDED_NUMBER,
        UNDECIDED_NUMBER,
        UNDECIDED_NUMBER,
        BOOLEAN,
        DATE,
        DATE,
        NOMINAL,
        NOMINAL,
        NOMINAL,
    ]
    assert draft_columns(path) == dict(zip("abcdefghijkl", kinds, strict=True))
    assert "name: table_2024" in draft_schema(str(path))


def test_postgres_gives_kinds_by_types(postgres: str) -> None:
    import psycopg

    typed = "a smallint, b bigint, c numeric, d float8, e boolean, f date, g timestamptz, h text, i uuid, j mood"
    with psycopg.connect(postgres, autocommit=True) as connection:
        connection.execute("CREATE SCHEMA draft")
        connection.execute("CREATE TYPE mood AS ENUM ('low', 'high')")
        connection.execute(f"CREATE TABLE draft.people ({typed})")
    host = dict(part.split("=") for part in postgres.split())["host"]
    address = f"postgresql://postgres@/postgres?host={host}"
    kinds = [INTEGER, INTEGER, UNDECIDED_NUMBER, UNDECIDED_NUMBER, BOOLEAN, DATE, DATE, NOMINAL, NOMINAL, NOMINAL]
    assert draft_columns(f"{address}#draft.people") == dict(zip("abcdefghij", kinds, strict=True))
    assert "name: people" in draft_schema(f"{address}#draft.people")
    with pytest.raises(Unavailable, match=r"^the PostgreSQL table cannot be read; check the address, the table and"):
        draft_schema(f"{address}#draft.nobody")
    with pytest.raises(Unavailable, match=r"^the PostgreSQL table cannot be read"):
        draft_schema("postgresql://postgres:secret@/postgres?host=/nowhere#people")


def test_spark_gives_kinds_by_types(spark: SparkSession) -> None:
    typed = "1Y a, 1L b, 1.5BD c, 1D d, true e, DATE'2020-01-01' f, TIMESTAMP'2020-01-01 00:00:00' g, 'x' h, array(1) i"
    spark.sql(f"SELECT {typed}").createOrReplaceTempView("people")
    kinds = [INTEGER, INTEGER, UNDECIDED_NUMBER, UNDECIDED_NUMBER, BOOLEAN, DATE, DATE, NOMINAL, NOMINAL]
    assert draft_columns("spark:people") == dict(zip("abcdefghi", kinds, strict=True))
    with pytest.raises(Unavailable, match=r"^the Spark table cannot be read; check its name and that Spark runs here$"):
        draft_schema("spark:nobody")


@pytest.mark.parametrize(
    ("module", "data", "sentence"),
    [
        ("psycopg", "postgresql://h/db#t", "PostgreSQL is reached through psycopg; run pip install '.[postgres]'"),
        ("pyspark.errors", "spark:t", "Spark is reached through pyspark; run pip install '.[spark]'"),
    ],
)
def test_an_engine_that_is_not_installed_is_named(
    monkeypatch: pytest.MonkeyPatch, module: str, data: str, sentence: str
) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(Unavailable) as caught:
        draft_schema(data)
    assert str(caught.value) == sentence


def test_what_is_no_table_is_refused_without_quoting_it(tmp_path: Path) -> None:
    """A file that is absent, empty, or something else; nothing that stands in it is repeated."""
    unreadable = "cannot be read as a table; check its path and what it holds"
    encoded = "is not text in UTF-8; save it as UTF-8"
    (tmp_path / "t.parquet").write_text("token-7f3a")
    (tmp_path / "t.csv").write_text("a,b\n1,2\n1,2,token-7f3a\n")
    (tmp_path / "empty.csv").write_text("")
    (tmp_path / "quote.csv").write_text('a,b\n1,"token-7f3a" 2\n')
    (tmp_path / "latin.csv").write_bytes(b"a,b\n\xe9,2\n")
    for name in ("absent.csv", "absent.parquet", "empty.csv", "t.parquet", "t.csv", "quote.csv", "latin.csv"):
        with pytest.raises(InvalidInput) as caught:
            draft_schema(str(tmp_path / name))
        assert str(caught.value) == f"the file {name!r} {encoded if name == 'latin.csv' else unreadable}"
        assert caught.value.__suppress_context__ or caught.value.__context__ is None
    with pytest.raises(InvalidInput, match=r"has a character that cannot be printed"):
        draft_schema("a\x85b.csv")
