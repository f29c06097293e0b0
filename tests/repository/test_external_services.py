"""The services start and answer, and a service that is asked for is never silently skipped."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from support.external_services import Chromium, list_absent_modules, list_absent_programs, require

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_postgres_adds(postgres: str) -> None:
    import psycopg

    with psycopg.connect(postgres) as connection:
        assert connection.execute("SELECT sum(x) FROM generate_series(1, 4) AS t(x)").fetchone() == (10,)


def test_spark_counts(spark: SparkSession) -> None:
    assert spark.range(7).count() == 7


def test_spark_is_strict(spark: SparkSession) -> None:
    """With ANSI on, a text that is no number is an error, not a NULL."""
    from pyspark.errors import NumberFormatException

    with pytest.raises(NumberFormatException):
        spark.sql("SELECT CAST('x' AS INT)").collect()


def test_chromium_runs_scripts(chromium: Chromium, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    page.write_text("<p id=sum></p><script>document.getElementById('sum').textContent = 40 + 2</script>")
    assert '<p id="sum">42</p>' in chromium.dom(page.as_uri())


def test_chromium_takes_pictures(chromium: Chromium, tmp_path: Path) -> None:
    picture = tmp_path / "page.png"
    chromium.screenshot("data:text/html,<h1>hello</h1>", picture)
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_a_missing_service_skips(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DISCREET_REQUIRE", "other")
    with pytest.raises(pytest.skip.Exception, match="postgres is not available: initdb not found"):
        require("postgres", "initdb")


def test_a_missing_service_fails_where_it_is_required(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DISCREET_REQUIRE", "other,postgres")
    with pytest.raises(pytest.fail.Exception, match="postgres is not available: initdb not found"):
        require("postgres", "initdb")


def test_a_service_that_is_there_neither_skips_nor_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DISCREET_REQUIRE", "postgres")
    require("postgres")


def test_what_is_absent_is_named() -> None:
    assert list_absent_modules("sys", "no_such_module") == ["no_such_module"]
    assert list_absent_programs("sh", "no-such-program") == ["no-such-program"]
