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
def registry_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_registry(tmp_path_factory.mktemp("registry")).parent


@pytest.fixture(scope="module")
def registry_schema(registry_folder: Path) -> Schema:
    return load_schema(registry_folder / "registry.yaml")


@pytest.fixture(scope="module")
def registry_rows(registry_folder: Path) -> list[Row]:
    with (registry_folder / "registry.csv").open(newline="") as stream:
        return list(csv.DictReader(stream))


def compute_share(rows: Iterable[Row], column: str, *values: str) -> float:
    counter = Counter(row[column] in values for row in rows)
    return counter[True] / counter.total()


def read_column_numbers(rows: Iterable[Row], column: str) -> list[float]:
    """Those that can be read, and only adults' plausible ones of ages."""
    read = [float(row[column]) for row in rows if row[column].replace(".", "", 1).isdigit()]
    return [value for value in read if column != "age" or 17 <= value <= 90]


def test_every_writing_gives_the_same_bytes(registry_folder: Path, tmp_path: Path) -> None:
    """By another process too, and the same as on the machine where this was written."""
    subprocess.run([sys.executable, "-m", "discreet.sample", tmp_path], check=True, capture_output=True)
    for name in FILES:
        assert (tmp_path / name).read_bytes() == (registry_folder / name).read_bytes()
    assert hashlib.sha256((registry_folder / "registry.csv").read_bytes()).hexdigest() == SHA256
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(FILES)


def test_its_schema_loads(registry_schema: Schema, registry_rows: list[Row]) -> None:
    assert (registry_schema.neighbors, registry_schema.units, registry_schema.unit, registry_schema.rows) == (
        "replace-one",
        50_000,
        "person_id",
        1,
    )
    assert (registry_schema.models, registry_schema.individual_queries, registry_schema.partition) == (
        ("dp",),
        False,
        "hospital",
    )
    assert (registry_schema.budget.epsilon, registry_schema.analyst_budget.epsilon) == (3, 1)
    derived = ["chapters.chapter", "chapters.chronic"]
    assert ["person_id", *registry_schema.columns] == [*COLUMNS, *derived]
    assert list(registry_rows[0]) == COLUMNS
    assert len({row["person_id"] for row in registry_rows}) == len(registry_rows) == 50_000


def test_a_smaller_one_says_so(tmp_path: Path) -> None:
    own_schema = load_schema(write_registry(tmp_path / "new" / "folder", patients=30))
    assert own_schema.units == 30
    assert len((own_schema.folder / "registry.csv").read_text().splitlines()) == 31


def test_its_taxonomies_have_levels(registry_schema: Schema) -> None:
    for name in ("occupation", "diagnosis"):
        taxonomy = registry_schema.columns[name].taxonomy
        assert taxonomy is not None
        assert 25 <= len(taxonomy.leaves) <= 60
        assert {len(taxonomy.get_ancestors(leaf)) for leaf in taxonomy.leaves} == {4}
    assert len(registry_schema.columns["diagnosis"].find_codes("cancer")) == 6
    assert None not in registry_schema.columns["chapters.chapter"].derived.codes


def test_most_values_are_in_their_domain_and_a_few_are_not(registry_schema: Schema, registry_rows: list[Row]) -> None:
    """As in real files: some missing, a few wrong."""
    for name in ("sex", "education", "occupation", "hospital", "diagnosis"):
        share_of_categories = compute_share(registry_rows, name, *registry_schema.columns[name].categories)
        assert 0.95 < share_of_categories < 1 or name == "hospital"
    assert 0.001 < 1 - len(read_column_numbers(registry_rows, "age")) / len(registry_rows) < 0.01
    assert 0.002 < compute_share(registry_rows, "sex", "?") < 0.01
    assert 0.02 < compute_share(registry_rows, "income", "", "n/a") < 0.06
    assert compute_share(registry_rows, "bmi", "0.0") > 0
    assert all(
        compute_share(registry_rows, name, "") > 0 for name in ("education", "smoker", "bmi", "stay", "admitted")
    )


def test_ages_are_skewed_to_the_old(registry_rows: list[Row]) -> None:
    ages = read_column_numbers(registry_rows, "age")
    assert (min(ages), max(ages)) == (17, 90)
    assert median(ages) > fmean((17, 90))


def test_the_old_had_less_schooling(registry_rows: list[Row]) -> None:
    old = [row for row in registry_rows if row["age"] in {"75", "80"}]
    young = [row for row in registry_rows if row["age"] in {"30", "35"}]
    assert compute_share(old, "education", "none", "primary") > 3 * compute_share(young, "education", "none", "primary")


def test_work_follows_schooling_and_income_follows_work(registry_rows: list[Row]) -> None:
    taught = [row for row in registry_rows if row["education"] in {"master", "doctorate"} and row["age"] < "60"]
    untaught = [row for row in registry_rows if row["education"] == "primary" and row["age"] < "60"]
    assert (
        compute_share(taught, "occupation", "cleaner", "builder")
        == 0
        < compute_share(untaught, "occupation", "cleaner", "builder")
    )
    assert median(read_column_numbers(taught, "income")) > 1.5 * median(read_column_numbers(untaught, "income"))
    idle = [row for row in registry_rows if row["occupation"] == "unemployed"]
    assert max(read_column_numbers(idle, "income")) == 0
    incomes = read_column_numbers(registry_rows, "income")
    assert fmean(incomes) > 1.1 * median(incomes) > 10_000
    assert compute_share([row for row in registry_rows if row["age"] == "80"], "occupation", "retired") > 0.9


def test_illness_follows_age_and_sex(registry_rows: list[Row]) -> None:
    births = [row for row in registry_rows if row["diagnosis"] in {"delivery", "caesarean section", "miscarriage"}]
    assert {row["sex"] for row in births} <= {"F", "?"}
    assert max(read_column_numbers(births, "age")) < 40
    assert compute_share([row for row in registry_rows if row["diagnosis"] == "prostate cancer"], "sex", "F") == 0
    assert (
        median(read_column_numbers([row for row in registry_rows if row["diagnosis"] == "heart failure"], "age")) > 65
    )
    broken = [row for row in registry_rows if row["diagnosis"] == "hip fracture"]
    assert fmean(read_column_numbers(broken, "stay")) > 2 * fmean(read_column_numbers(births, "stay"))


def test_habits_follow_illness(registry_rows: list[Row]) -> None:
    assert 0.1 < compute_share(registry_rows, "smoker", "true") < 0.35
    assert compute_share([row for row in registry_rows if row["diagnosis"] == "lung cancer"], "smoker", "true") > 0.5
    assert 24 < fmean(read_column_numbers(registry_rows, "bmi")) < 29
    sweet = [row for row in registry_rows if row["diagnosis"] == "type 2 diabetes"]
    assert fmean(read_column_numbers(sweet, "bmi")) > fmean(read_column_numbers(registry_rows, "bmi")) + 2


def test_hospitals_differ_in_size(registry_rows: list[Row]) -> None:
    counts = Counter(row["hospital"] for row in registry_rows)
    assert len(counts) == 8
    assert max(counts.values()) > 3 * min(counts.values())
