"""The same releases wherever the rows are: on DuckDB, PostgreSQL and Spark, by one plan and by one key."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import pytest

from discreet import Custodian
from discreet.mechanisms.entropy import KeyedEntropy
from discreet.release.assess import verify_release

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SCHEMA = """
name: people
source: {source}
neighbours: replace-one
units: 157
unit: {{column: id, rows: 1}}
budget: {{epsilon: 10}}
columns:
  id: {{role: identifier}}
  age: {{kind: integer, lower: 18, upper: 90, role: quasi-identifier}}
  town: {{kind: nominal, categories: [Ash, Elm, Oak], role: quasi-identifier}}
  income: {{kind: number, lower: 0, upper: 900, step: 0.5, role: confidential}}
"""
METHODS: dict[str, dict[str, Any]] = {
    "ir-swap": {},
    "anatomy": {},
    "t-closeness": {"t": 1.5},
    "mdav": {},
    "mdav-swap": {},
}
PRIVATE = ("private-columns", "private-records", "private-linked")
EVERY = (*METHODS, *PRIVATE)
FEW = tuple(method for method in EVERY if method not in {"mdav-swap", "private-columns"})
"""Without those that ask an engine for nothing that another does not ask it for."""
KEY = bytes(range(32))


def people() -> list[tuple[str, int | None, str | None, float | None]]:
    """With ties, duplicates and missing values."""
    chance = Random(5)
    towns = ["Ash", "Elm", "Oak", None]
    return [
        (f"p{i:03}", chance.choice([None, 20, *range(18, 90)]), chance.choice(towns), _income(chance))
        for i in range(157)
    ]


def _income(chance: Random) -> float | None:
    return None if chance.random() < 0.05 else chance.choice([0.0, 100.0, chance.randrange(1800) / 2])


Released = dict[str, dict[str, str]]


def publish_everything(
    folder: Path, source: str, monkeypatch: pytest.MonkeyPatch, methods: Sequence[str] = EVERY
) -> Released:
    """By method the text of every file that a custodian with a known key publishes, verified beside the records."""
    schema = folder / "people.yaml"
    schema.write_text(SCHEMA.format(source=f'"{source}"'))

    class Known:
        def take(self, count: int) -> bytes:
            return (KEY * 2)[:count]

    files = {}
    with Custodian.open(schema) as custodian:
        monkeypatch.setattr("discreet.release.publish.SYSTEM", Known())
        for method in methods:
            monkeypatch.setattr("discreet.release.publish_synthetic.SYSTEM", KeyedEntropy(KEY, method))
            options: dict[str, Any] = {"epsilon": 2} if method in PRIVATE else {"k": 6} | METHODS[method]
            release = custodian.publish(method, folder / f"{method}.csv", **options)
            assert method in PRIVATE or verify_release(folder / f"{method}.csv", schema).claims[0].shown
            files[method] = {file.name: file.read_text() for file in release.files}
    return files


@pytest.fixture(scope="module")
def duckdb_releases(tmp_path_factory: pytest.TempPathFactory) -> Released:
    """What DuckDB gives."""
    folder = tmp_path_factory.mktemp("duckdb")
    lines = [",".join("" if value is None else str(value) for value in person) for person in people()]
    (folder / "people.csv").write_text("\n".join(["id,age,town,income", *lines]) + "\n")
    with pytest.MonkeyPatch.context() as changed:
        return publish_everything(folder, "people.csv", changed)


def test_releases_of_postgres(
    duckdb_releases: Released, postgres: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Row for row what DuckDB releases with the same key."""
    import psycopg

    with psycopg.connect(postgres) as connection, connection.cursor() as cursor:
        cursor.execute("DROP TABLE IF EXISTS published_people")
        cursor.execute("CREATE TABLE published_people (id text, age integer, town text, income double precision)")
        cursor.executemany("INSERT INTO published_people VALUES (%s, %s, %s, %s)", people())
    address = f"postgresql:///postgres?{postgres.replace(' ', '&')}" if "://" not in postgres else postgres
    assert publish_everything(tmp_path, f"{address}#public.published_people", monkeypatch) == duckdb_releases


@pytest.mark.parametrize("methods", [FEW, pytest.param(EVERY, marks=pytest.mark.soak)], ids=len)
def test_releases_of_spark(
    duckdb_releases: Released,
    spark: SparkSession,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    methods: Sequence[str],
) -> None:
    """Row for row what DuckDB releases with the same key."""
    kinds = "id string, age int, town string, income double"
    spark.createDataFrame(people(), kinds).createOrReplaceTempView("published_people")
    releases = publish_everything(tmp_path, "spark:published_people", monkeypatch, methods)
    assert releases == {method: duckdb_releases[method] for method in methods}
