"""The made-up registry: the same bytes everywhere, a schema that loads, and patients one could believe in."""

from __future__ import annotations

import csv
import hashlib
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from statistics import fmean, median

import pytest

from discreet.sample import write_registry
from discreet.schema import Schema, load_schema

SHA256 = "7ac542297a4ccf917636c87d6e183e93e18ba38048ce0990be4ecf9d0543eefc"
FILES = ("registry.csv", "registry.yaml", "occupation.json", "diagnosis.json", "chapters.csv")
COLUMNS = [
    "person_id",
    "age",
    "sex",
    "education",
    "occupation",
    "income",
    "hospital",
    "diagnosis",
    "smoker",
    "bmi",
    "stay",
    "admitted",
]
Row = dict[str, str]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_registry(tmp_path_factory.mktemp("registry")).parent


@pytest.fixture(scope="module")
def schema(folder: Path) -> Schema:
    return load_schema(folder / "registry.yaml")


@pytest.fixture(scope="module")
def rows(folder: Path) -> list[Row]:
    with (folder / "registry.csv").open(newline="") as stream:
        return list(csv.DictReader(stream))


def share(rows: Iterable[Row], column: str, *values: str) -> float:
    found = Counter(row[column] in values for row in rows)
    return found[True] / found.total()


def numbers(rows: Iterable[Row], column: str) -> list[float]:
    """Those that can be read, and only adults' plausible ones of ages."""
    read = [float(row[column]) for row in rows if row[column].replace(".", "", 1).isdigit()]
    return [value for value in read if column != "age" or 17 <= value <= 90]


def test_every_writing_gives_the_same_bytes(folder: Path, tmp_path: Path) -> None:
    """By another process too, and the same as on the machine where this was written."""
    subprocess.run([sys.executable, "-m", "discreet.sample", tmp_path], check=True, capture_output=True)
    for name in FILES:
        assert (tmp_path / name).read_bytes() == (folder / name).read_bytes()
    assert hashlib.sha256((folder / "registry.csv").read_bytes()).hexdigest() == SHA256
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(FILES)


def test_its_schema_loads(schema: Schema, rows: list[Row]) -> None:
    assert (schema.neighbors, schema.units, schema.unit, schema.rows) == ("replace-one", 50_000, "person_id", 1)
    assert (schema.models, schema.individual_queries, schema.partition) == (("dp",), False, "hospital")
    assert (schema.budget.epsilon, schema.analyst_budget.epsilon) == (3, 1)
    derived = ["chapters.chapter", "chapters.chronic"]
    assert ["person_id", *schema.columns] == [*COLUMNS, *derived]
    assert list(rows[0]) == COLUMNS
    assert len({row["person_id"] for row in rows}) == len(rows) == 50_000


def test_a_smaller_one_says_so(tmp_path: Path) -> None:
    schema = load_schema(write_registry(tmp_path / "new" / "folder", patients=30))
    assert schema.units == 30
    assert len((schema.folder / "registry.csv").read_text().splitlines()) == 31


def test_its_taxonomies_have_levels(schema: Schema) -> None:
    for name in ("occupation", "diagnosis"):
        taxonomy = schema.columns[name].taxonomy
        assert taxonomy is not None
        assert 25 <= len(taxonomy.leaves) <= 60
        assert {len(taxonomy.get_ancestors(leaf)) for leaf in taxonomy.leaves} == {4}
    assert len(schema.columns["diagnosis"].find_codes("cancer")) == 6
    assert None not in schema.columns["chapters.chapter"].derived.codes


def test_most_values_are_in_their_domain_and_a_few_are_not(schema: Schema, rows: list[Row]) -> None:
    """As in real files: some missing, a few wrong."""
    for name in ("sex", "education", "occupation", "hospital", "diagnosis"):
        known = share(rows, name, *schema.columns[name].categories)
        assert 0.95 < known < 1 or name == "hospital"
    assert 0.001 < 1 - len(numbers(rows, "age")) / len(rows) < 0.01
    assert 0.002 < share(rows, "sex", "?") < 0.01
    assert 0.02 < share(rows, "income", "", "n/a") < 0.06
    assert share(rows, "bmi", "0.0") > 0
    assert all(share(rows, name, "") > 0 for name in ("education", "smoker", "bmi", "stay", "admitted"))


def test_ages_are_skewed_to_the_old(rows: list[Row]) -> None:
    ages = numbers(rows, "age")
    assert (min(ages), max(ages)) == (17, 90)
    assert median(ages) > fmean((17, 90))


def test_the_old_had_less_schooling(rows: list[Row]) -> None:
    old = [row for row in rows if row["age"] in {"75", "80"}]
    young = [row for row in rows if row["age"] in {"30", "35"}]
    assert share(old, "education", "none", "primary") > 3 * share(young, "education", "none", "primary")


def test_work_follows_schooling_and_income_follows_work(rows: list[Row]) -> None:
    taught = [row for row in rows if row["education"] in {"master", "doctorate"} and row["age"] < "60"]
    untaught = [row for row in rows if row["education"] == "primary" and row["age"] < "60"]
    assert share(taught, "occupation", "cleaner", "builder") == 0 < share(untaught, "occupation", "cleaner", "builder")
    assert median(numbers(taught, "income")) > 1.5 * median(numbers(untaught, "income"))
    idle = [row for row in rows if row["occupation"] == "unemployed"]
    assert max(numbers(idle, "income")) == 0
    incomes = numbers(rows, "income")
    assert fmean(incomes) > 1.1 * median(incomes) > 10_000
    assert share([row for row in rows if row["age"] == "80"], "occupation", "retired") > 0.9


def test_illness_follows_age_and_sex(rows: list[Row]) -> None:
    births = [row for row in rows if row["diagnosis"] in {"delivery", "caesarean section", "miscarriage"}]
    assert {row["sex"] for row in births} <= {"F", "?"}
    assert max(numbers(births, "age")) < 40
    assert share([row for row in rows if row["diagnosis"] == "prostate cancer"], "sex", "F") == 0
    assert median(numbers([row for row in rows if row["diagnosis"] == "heart failure"], "age")) > 65
    broken = [row for row in rows if row["diagnosis"] == "hip fracture"]
    assert fmean(numbers(broken, "stay")) > 2 * fmean(numbers(births, "stay"))


def test_habits_follow_illness(rows: list[Row]) -> None:
    assert 0.1 < share(rows, "smoker", "true") < 0.35
    assert share([row for row in rows if row["diagnosis"] == "lung cancer"], "smoker", "true") > 0.5
    assert 24 < fmean(numbers(rows, "bmi")) < 29
    sweet = [row for row in rows if row["diagnosis"] == "type 2 diabetes"]
    assert fmean(numbers(sweet, "bmi")) > fmean(numbers(rows, "bmi")) + 2


def test_hospitals_differ_in_size(rows: list[Row]) -> None:
    counts = Counter(row["hospital"] for row in rows)
    assert len(counts) == 8
    assert max(counts.values()) > 3 * min(counts.values())
