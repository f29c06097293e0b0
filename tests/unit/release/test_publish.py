"""From a schema and a recipe to files: what leaves, what it says, what is kept, and what is refused."""

from __future__ import annotations

import gc
import json
import os
import shutil
import stat
import subprocess
import sys
import time
import tracemalloc
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pytest

from discreet import ClaimFailed, Custodian, InvalidInput, Unavailable, Unsupported, measure_anonymity
from discreet.datasets.integrity import ignore_stage
from discreet.release.assess import align_original, assess_release, verify_release
from discreet.release.files import Spool, write_released_table
from discreet.release.manifest import ManifestColumn, read_released_table, read_table_file
from discreet.sample import write_registry
from discreet.sdc.table import read_table
from support.command_line import digest_files, run_discreet, run_successfully

PATIENTS = 500
QUASI = ["age", "sex", "education", "occupation"]
CONFIDENTIAL = ["income", "diagnosis", "smoker", "bmi"]
METHODS: dict[str, dict[str, Any]] = {
    "mdav": {},
    "generalise": {},
    "mdav-swap": {},
    "ir-swap": {},
    "t-closeness": {"t": 2},
    "anatomy": {},
}
MODELS = {"mdav": "k-anonymity", "generalise": "k-anonymity", "t-closeness": "t-closeness"}
LEVELS = {"age": [10, 30, 90]}


@pytest.fixture(scope="module")
def patients_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a data set that is registered."""
    folder = tmp_path_factory.mktemp("registered")
    with Custodian.open(write_registry(folder, PATIENTS)):
        return folder


@pytest.fixture
def patients_schema_path(patients_folder: Path, tmp_path: Path) -> Path:
    """The schema of a data set of one's own."""
    return shutil.copytree(patients_folder, tmp_path / "own") / "registry.yaml"


@pytest.fixture(scope="module")
def released_folder(patients_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the same data set and a release of it."""
    folder = tmp_path_factory.mktemp("released")
    schema_path = shutil.copytree(patients_folder, folder / "own") / "registry.yaml"
    run_successfully("publish", "mdav", schema_path, "-k", 10, "--out", folder / "out.csv")
    return folder


@pytest.fixture
def out(released_folder: Path, tmp_path: Path) -> Path:
    """A release of one's own; its data set is in `own` beside it."""
    return shutil.copytree(released_folder, tmp_path, dirs_exist_ok=True) / "out.csv"


@cache
def shared_engine() -> duckdb.DuckDBPyConnection:
    """One for all that is looked at: to make one takes longer than to look."""
    return duckdb.connect()


def read_rows(path: Path) -> list[tuple[Any, ...]]:
    return shared_engine().execute(f"SELECT * FROM '{path}'").fetchall()


def read_columns(path: Path) -> list[str]:
    return [str(row[0]) for row in shared_engine().execute(f"DESCRIBE SELECT * FROM '{path}'").fetchall()]


# --- what leaves


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_a_release_is_what_it_says(patients_schema_path: Path, tmp_path: Path, method: str, suffix: str) -> None:
    """Every method, both kinds of file: no identifier, no column without a role, and a claim that verifies."""
    out = tmp_path / f"out{suffix}"
    with Custodian.open(patients_schema_path) as custodian:
        release = custodian.publish(method, out, k=10, **METHODS[method])
    assert release.guarantee.model == MODELS.get(method, "probabilistic-k-anonymity")
    assert release.rows == len(read_rows(out)) <= PATIENTS
    assert set(read_columns(out)) <= {*QUASI, *CONFIDENTIAL, "group"}
    assert verify_release(out, patients_schema_path).claims[0].shown
    assert release.risk
    assert release.utility
    manifest = json.loads(release.manifest_file.read_text())
    assert manifest == release.manifest
    assert manifest["guarantee"] == release.guarantee.to_json()
    assert "not differential privacy" in " ".join(release.guarantee.assumptions) or "k" in manifest["guarantee"]


def test_k_anonymous_rows_share_their_quasi_identifiers(patients_schema_path: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.parquet"
    run_successfully("publish", "mdav", patients_schema_path, "-k", 7, "--out", out)
    with duckdb.connect() as engine:
        least = engine.execute(
            f"SELECT min(n) FROM (SELECT count(*) AS n FROM '{out}' GROUP BY {', '.join(QUASI)})"
        ).fetchall()[0][0]
        table = engine.sql(f"SELECT * FROM '{out}'")
        assert measure_anonymity(table, QUASI, CONFIDENTIAL).k == least >= 7


def test_swapping_leaves_each_column_as_it_was(patients_schema_path: Path, tmp_path: Path) -> None:
    """The values of a swapped column are those of the original, as a bag; the quasi-identifiers stay together."""
    outs = {method: tmp_path / f"{method}.csv" for method in ("ir-swap", "mdav-swap")}
    for method, out in outs.items():
        run_successfully("publish", method, patients_schema_path, "-k", 10, "--out", out)
    first, second = (read_rows(out) for out in outs.values())
    for place in range(len(QUASI) + len(CONFIDENTIAL)):
        assert sorted(str(row[place]) for row in first) == sorted(str(row[place]) for row in second)
    quasi = [sorted(map(str, (row[: len(QUASI)] for row in rows))) for rows in (first, second)]
    assert quasi[0] == quasi[1]


def test_the_order_of_rows_tells_nothing(patients_schema_path: Path, tmp_path: Path) -> None:
    """Rows leave in an order drawn anew for each release, not in that of the source or of the units."""
    outs = [tmp_path / "one.csv", tmp_path / "two.csv"]
    for out in outs:
        run_successfully("publish", "generalise", patients_schema_path, "-k", 2, "--out", out, "--suppress", "0.9")
    incomes = [[row[4] for row in read_rows(out)] for out in outs]
    assert incomes[0] != incomes[1]
    assert sorted(map(str, incomes[0])) == sorted(map(str, incomes[1]))


def test_a_column_is_kept_only_where_it_is_named(patients_schema_path: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.csv"
    run_successfully("publish", "anatomy", patients_schema_path, "-k", 10, "--out", out, "--keep", "hospital")
    assert read_columns(out) == [*QUASI, "group", "hospital"]
    assert read_columns(tmp_path / "out-values.csv") == ["group", *CONFIDENTIAL, "count"]


def test_groups_respect_strata(patients_schema_path: Path, tmp_path: Path) -> None:
    """Where groups stay inside a hospital, each hospital's ages keep their mean, row for row beside the records."""
    out = tmp_path / "out.csv"
    words = ("mdav", "-k", 5, "--strata", "hospital", "--keep", "hospital")
    run_successfully("publish", *words, patients_schema_path, "--out", out)
    before = align_original(patients_schema_path, out, ignore_stage).original
    after = read_table_file(out)
    assert before["hospital"].to_array().tolist() == after["hospital"].to_array().tolist()
    for hospital in np.unique(before["hospital"].values):
        here = before["hospital"].values == hospital
        ages = before["age"].values[here], after["age"].values[here]
        assert np.nanmean(ages[0]) == pytest.approx(np.nanmean(ages[1]), abs=0.5)


def test_a_k_of_its_own(patients_schema_path: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.csv"
    document = run_successfully(
        "publish", "ir-swap", patients_schema_path, "-k", 5, "--k-of", "income=50", "--out", out, "--json"
    ).document
    assert document["guarantee"]["k"] == 5
    assert document["manifest"]["measured"]["income"]["smallest"] == 50
    assert document["manifest"]["measured"]["bmi"]["smallest"] == 5


def test_levels_can_be_given(patients_schema_path: Path, tmp_path: Path) -> None:
    levels, out = tmp_path / "levels.json", tmp_path / "out.csv"
    levels.write_text(json.dumps(LEVELS))
    words = ("generalise", "-k", 10, "--hierarchies", levels, "--loss", "ncp", "--suppress", "0.05")
    document = run_successfully("publish", *words, patients_schema_path, "--out", out, "--json").document
    assert document["rows"] >= 0.95 * PATIENTS
    assert document["manifest"]["recipe"]["suppress"] == "1/20"


# --- what is told, and what is kept


def test_a_release_flags_every_total_for_good(patients_schema_path: Path, tmp_path: Path) -> None:
    """It is in the chain, which still verifies; no account is touched."""
    assert run_successfully("budget", patients_schema_path, "--json").document[0]["flags"] == []
    run_successfully("publish", "mdav", patients_schema_path, "-k", 10, "--out", tmp_path / "out.csv")
    account = run_successfully("budget", patients_schema_path, "--json").document[0]
    assert account["flags"] == ["the DP total no longer describes all disclosure"]
    assert account["spent"]["epsilon"] == "0"
    line = run_successfully("history", patients_schema_path, "--json").document[0]
    assert (line["kind"], line["epsilon"]) == ("release", None)
    assert "10-anonymity" in line["query"]
    run_successfully("check", patients_schema_path, "--refresh")
    run_successfully("ledger", "verify", patients_schema_path.parent / "registry.discreet" / "ledger.db")
    assert run_successfully("budget", patients_schema_path, "--json").document[0]["flags"] == account["flags"]


def test_the_report_and_the_record_are_for_the_custodian_alone(patients_schema_path: Path, tmp_path: Path) -> None:
    """Nobody else can read the files that tell whose row is whose."""
    run_successfully(
        "publish",
        "mdav",
        patients_schema_path,
        "-k",
        10,
        "--out",
        tmp_path / "o.csv",
        "--report",
        tmp_path / "r.html",
    )
    private_files = [*(patients_schema_path.parent / "registry.discreet" / "releases").iterdir(), tmp_path / "r.html"]
    assert len(private_files) == 3
    assert all(stat.S_IMODE(os.stat(path).st_mode) == 0o600 for path in private_files)
    page = (tmp_path / "r.html").read_text()
    assert "not to be released" in page
    assert page.count("<svg") >= 8
    assert "http://" not in page.replace("http://www.w3.org", "")


def test_a_report_in_json(patients_schema_path: Path, tmp_path: Path) -> None:
    report = tmp_path / "r.json"
    run_successfully("publish", "mdav", patients_schema_path, "-k", 10, "--out", tmp_path / "o.csv", "--report", report)
    document = json.loads(report.read_text())
    assert document["verdict"]["risk"]
    assert document["measures"]


def test_the_second_release_is_laid_over_the_first(patients_schema_path: Path, tmp_path: Path) -> None:
    """What two releases of the same records have in common is measured, by name."""
    with Custodian.open(patients_schema_path) as custodian:
        first = custodian.publish("mdav", tmp_path / "one.csv", k=10, report=tmp_path / "one.json")
        custodian.publish("ir-swap", tmp_path / "two.csv", k=10, report=tmp_path / "two.json")
    measures = [
        json.loads((tmp_path / name).read_text())["measures"]["intersection"] for name in ("one.json", "two.json")
    ]
    assert measures[0] == []
    assert {first.name} == {str(entry["release"] if isinstance(entry, dict) else entry[0]) for entry in measures[1]}


# --- verify and assess


def test_a_changed_file_is_found_out(out: Path) -> None:
    run_successfully("verify", out)
    header, *lines = out.read_text().splitlines()
    positions = [header.split(",").index(name) for name in QUASI]
    classes = [tuple(line.split(",")[place] for place in positions) for line in lines]
    dropped_line = next(
        number for number, equivalence_class in enumerate(classes) if classes.count(equivalence_class) == 10
    )
    out.write_text("\n".join([header, *lines[:dropped_line], *lines[dropped_line + 1 :]]) + "\n")
    outcome = run_discreet("verify", out)
    assert outcome.code == 6
    assert "manifest" in outcome.err
    out.with_name("out.csv.manifest.json").unlink()
    words = [word for name in QUASI for word in ("--quasi", name)]
    assert run_discreet("verify", out, *words, "-k", 10).code == 6
    assert run_discreet("verify", out, *words, "-k", 9).code == 0


def test_what_a_file_alone_cannot_show_is_said(patients_schema_path: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.csv"
    run_successfully("publish", "ir-swap", patients_schema_path, "-k", 10, "--out", out)
    outcome = run_discreet("verify", out)
    assert outcome.code == 4
    assert "--original" in outcome.err
    run_successfully("verify", out, "--original", patients_schema_path)


def test_another_data_sets_file_is_refused(out: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    new = write_registry(other, PATIENTS)
    run_successfully("check", new)
    with pytest.raises(InvalidInput, match="no release of registry"):
        verify_release(out, new)


def test_assess_beside_the_records_and_beside_a_file(out: Path, tmp_path: Path) -> None:
    """With the schema rows stand side by side; with a plain file only what needs no order is measured."""
    schema_path = out.parent / "own" / "registry.yaml"
    both = assess_release(schema_path, out)
    assert both.linkage is not None
    assert 0 < both.linkage <= 10
    assert both.sse is not None
    run_successfully("publish", "ir-swap", schema_path, "-k", 10, "--out", tmp_path / "swapped.csv")
    assessment = assess_release(tmp_path / "swapped.csv", out)
    assert assessment.linkage is None
    assert assessment.means["age"] == pytest.approx(both.means["age"])
    assert "risk" in run_successfully("assess", schema_path, out).out
    assert run_successfully("assess", schema_path, out, "--json").document["linkage"] == pytest.approx(both.linkage)


def test_a_sweep_recommends_and_releases_nothing(patients_schema_path: Path, tmp_path: Path) -> None:
    before = digest_files(patients_schema_path.parent)
    words = ("sweep", "--ks", "k=5,20", "--method", "mdav", "--report", tmp_path / "sweep.html")
    document = run_successfully("publish", *words, patients_schema_path, "--json").document
    assert [point["k"] for point in document["points"]] == [5, 20]
    assert document["recommended"] in document["points"]
    assert "<svg" in (tmp_path / "sweep.html").read_text()
    assert digest_files(patients_schema_path.parent) == before
    assert run_successfully("budget", patients_schema_path, "--json").document[0]["flags"] == []


# --- what is refused: one sentence, nothing written, nothing entered

REFUSED_WORDS = {
    "no method": ([], 2, "discreet publish private-linked SCHEMA"),
    "the method after the schema": (["old.yaml", "--method", "mdav"], 2, "discreet publish mdav SCHEMA"),
    "a sweep after the schema": (["old.yaml", "--sweep", "k=3..5"], 2, "discreet publish sweep SCHEMA"),
    "unknown method": (["magic", "-k", 5], 2, "unknown method 'magic'"),
    "no k": (["mdav"], 2, "needs k"),
    "k of 1": (["mdav", "-k", 1], 2, "at least 2"),
    "k above n": (["mdav", "-k", 5000], 2, f"only {PATIENTS} rows"),
    "t below 1": (["t-closeness", "-k", 5, "-t", "0.5"], 2, "at least 1"),
    "no t": (["t-closeness", "-k", 5], 2, "needs t"),
    "t of another method": (["mdav", "-k", 5, "-t", 2], 2, "No such option: -t"),
    "t that cannot be": (
        ["t-closeness", "-k", 5, "-t", 1, "--buckets", 3],
        2,
        "the smallest t that is feasible",
    ),
    "weights that are none": (["mdav", "-k", 5, "--weights", "income"], 2, "weights"),
    "a column that is not there": (["mdav", "-k", 5, "--keep", "nope"], 2, "unknown column"),
    "a kept quasi-identifier": (["mdav", "-k", 5, "--keep", "age"], 2, "not kept as it is"),
    "no such diversity": (["ir-swap", "-k", 5, "--diversity", "much"], 2, "distinct 3"),
    "a k of no column": (["ir-swap", "-k", 5, "--k-of", "income"], 2, "income=20"),
    "a k of a quasi-identifier": (["ir-swap", "-k", 5, "--k-of", "age=9"], 2, "is none"),
    "no such levels": (["generalise", "-k", 5, "--hierarchies", "/nowhere.json"], 2, "JSON"),
    "too much suppressed": (["generalise", "-k", 5, "--suppress", "1"], 2, "below 1"),
}


@pytest.mark.parametrize("case", REFUSED_WORDS)
def test_bad_recipes_are_refused(patients_schema_path: Path, tmp_path: Path, case: str) -> None:
    words, code, says = REFUSED_WORDS[case]
    before = digest_files(patients_schema_path.parent)
    outcome = run_discreet("publish", *words, patients_schema_path, "--out", tmp_path / "out.csv")
    assert outcome.code == code, outcome.err
    assert says in outcome.err
    assert len(outcome.err.splitlines()) == 1
    assert outcome.out == ""
    assert [path.name for path in tmp_path.iterdir()] == ["own"]
    assert digest_files(patients_schema_path.parent) == before
    assert run_successfully("budget", patients_schema_path, "--json").document[0]["flags"] == []


@pytest.mark.parametrize("name", ["out.csv", "out.csv.manifest.json", "r.html"])
def test_a_file_that_is_there_is_not_overwritten(patients_schema_path: Path, tmp_path: Path, name: str) -> None:
    """Not at all where it is no release or report of ours; and where it is, only by --force."""
    report = name if name.startswith("r.") else "r.json"
    words = ("mdav", "-k", 10, "--out", tmp_path / "out.csv", "--report", tmp_path / report)
    (tmp_path / name).write_text("mine")
    plain, forced = (
        run_discreet("publish", *words, patients_schema_path),
        run_discreet("publish", *words, patients_schema_path, "--force"),
    )
    assert (plain.code, forced.code) == (2, 2)
    assert "--force" in plain.err
    assert "of ours" in forced.err
    assert (tmp_path / name).read_text() == "mine"
    (tmp_path / name).unlink()
    run_successfully("publish", *words, patients_schema_path)
    before = (tmp_path / name).read_text()
    assert run_discreet("publish", *words, patients_schema_path).code == 2
    run_successfully("publish", *words, patients_schema_path, "--force")
    assert (tmp_path / name).read_text() != before


@pytest.mark.parametrize("name", ["registry.csv", "diagnosis.json"])
def test_force_never_overwrites_what_the_data_set_is_made_of(
    patients_schema_path: Path, tmp_path: Path, name: str
) -> None:
    dataset_file = patients_schema_path.parent / name
    place = (
        ("--out", dataset_file)
        if dataset_file.suffix == ".csv"
        else ("--out", tmp_path / "o.csv", "--report", dataset_file)
    )
    before = dataset_file.read_text()
    outcome = run_discreet("publish", "mdav", patients_schema_path, "-k", 10, *place, "--force")
    assert outcome.code == 2
    assert dataset_file.read_text() == before


@pytest.mark.parametrize("out", ["nowhere/out.csv", "out.txt", "out"])
def test_a_place_that_cannot_be_written_is_refused(patients_schema_path: Path, tmp_path: Path, out: str) -> None:
    outcome = run_discreet("publish", "mdav", patients_schema_path, "-k", 10, "--out", tmp_path / out)
    assert outcome.code == 2
    assert len(outcome.err.splitlines()) == 1
    assert [path.name for path in tmp_path.iterdir()] == ["own"]


def test_a_disk_that_fails_leaves_nothing(
    patients_schema_path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the last file cannot be moved to its place, those before it are taken back."""
    moved: list[str] = []

    def fail_to_link(source: Path, target: Path) -> None:
        if target == out:
            raise OSError
        moved.append(str(target))
        os.link(source, target)

    out = tmp_path / "out.csv"
    with Custodian.open(patients_schema_path) as custodian:
        monkeypatch.setattr("discreet.release.files._put_file", fail_to_link)
        with pytest.raises(Unavailable, match="cannot be put in its place"):
            custodian.publish("mdav", out, k=10)
    assert moved
    assert [path.name for path in tmp_path.iterdir()] == ["own"]


def rewrite_schema(schema_path: Path, old: str, new: str) -> Path:
    """The same data set anew with another schema."""
    text = schema_path.read_text()
    assert old in text
    schema_path.write_text(text.replace(old, new))
    shutil.rmtree(schema_path.parent / "registry.discreet")
    return schema_path


def test_a_table_without_roles_is_refused(patients_schema_path: Path, tmp_path: Path) -> None:
    rewrite_schema(patients_schema_path, "role: confidential", "role: other")
    outcome = run_discreet("publish", "ir-swap", patients_schema_path, "-k", 10, "--out", tmp_path / "out.csv")
    assert outcome.code == 2
    assert "role: confidential" in outcome.err


def test_units_of_several_rows_are_refused(patients_schema_path: Path, tmp_path: Path) -> None:
    """k rows could be those of one person."""
    rewrite_schema(patients_schema_path, "rows: 1}", "rows: 3}")
    with Custodian.open(patients_schema_path) as custodian, pytest.raises(Unsupported, match="one row for each unit"):
        custodian.publish("mdav", tmp_path / "out.csv", k=10)


@pytest.mark.parametrize(
    ("value", "says"), [("7", "the same value in every row"), ("", "all are missing"), ("old", "holds no number")]
)
def test_columns_that_say_nothing_are_refused(
    patients_schema_path: Path, tmp_path: Path, value: str, says: str
) -> None:
    """A constant column, one that is all missing, one that holds text where numbers are declared."""
    source = patients_schema_path.parent / "registry.csv"
    head, *lines = source.read_text().splitlines()
    place = head.split(",").index("bmi")
    changed = [
        ",".join(value + "0" * (value == "7") if index == place else cell for index, cell in enumerate(line.split(",")))
        for line in lines
    ]
    source.write_text("\n".join([head, *changed]) + "\n")
    shutil.rmtree(patients_schema_path.parent / "registry.discreet")
    outcome = run_discreet("publish", "ir-swap", patients_schema_path, "-k", 10, "--out", tmp_path / "out.csv")
    assert outcome.code == 2, outcome.err
    assert says in outcome.err
    assert not (tmp_path / "out.csv").exists()


def test_a_claim_that_does_not_hold_never_leaves(
    patients_schema_path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The verifier stands between a method and the file: groups that are too small stop the release."""

    def group_alone(*_: Any, **__: Any) -> Any:
        return np.arange(PATIENTS)

    monkeypatch.setattr("discreet.sdc.methods.swap.group_by_nearness", group_alone)
    with Custodian.open(patients_schema_path) as custodian, pytest.raises(ClaimFailed, match="10-anonymity"):
        custodian.publish("mdav", tmp_path / "out.csv", k=10)
    assert not (tmp_path / "out.csv").exists()


def test_an_epsilon_is_refused(patients_schema_path: Path, tmp_path: Path) -> None:
    with Custodian.open(patients_schema_path) as custodian, pytest.raises(InvalidInput, match="no epsilon"):
        custodian.publish("mdav", tmp_path / "out.csv", k=10, epsilon=Fraction(1))


# --- what a newcomer tried


def test_assess_refuses_names_that_are_not_there(out: Path) -> None:
    """A misspelt column must not quietly make the risk small."""
    schema_path = out.parent / "own" / "registry.yaml"
    for option in ("--quasi", "--confidential"):
        outcome = run_discreet("assess", schema_path, out, option, "Incom")
        assert outcome.code == 2
        assert "unknown column 'Incom'" in outcome.err


def test_assess_tells_of_earlier_releases(out: Path, tmp_path: Path) -> None:
    schema_path = out.parent / "own" / "registry.yaml"
    run_successfully("publish", "ir-swap", schema_path, "-k", 10, "--out", tmp_path / "ir-swap.csv")
    assert "registry-1" in run_successfully("assess", schema_path, tmp_path / "ir-swap.csv").out
    assert "registry-2" not in run_successfully("assess", schema_path, out).out


@pytest.mark.parametrize("words", [["--out", "x.csv"], ["-k", 4], ["--strata", "sex"], ["--keep", "hospital"]])
def test_a_sweep_has_no_other_options(patients_schema_path: Path, words: list[object]) -> None:
    outcome = run_discreet("publish", "sweep", patients_schema_path, "--ks", "k=5,9", *words)
    assert outcome.code == 2
    assert "No such option" in outcome.err


def test_a_sweep_says_what_it_left_out(patients_schema_path: Path) -> None:
    assert (
        "Not tried"
        in run_successfully("publish", "sweep", patients_schema_path, "--ks", "k=20,9999", "--method", "mdav").out
    )


def test_verify_checks_what_the_file_says_of_itself_too(out: Path) -> None:
    output = run_successfully("verify", out, "--quasi", "sex", "-k", 3).out
    assert "3-anonymity holds" in output
    assert "10-anonymity holds" in output
    assert run_discreet("verify", out, "-t", "0.5").code == 2


def test_a_manifest_tells_what_the_file_holds(patients_schema_path: Path, tmp_path: Path) -> None:
    """Means of whole numbers are no whole numbers."""
    document = run_successfully(
        "publish", "mdav", patients_schema_path, "-k", 10, "--out", tmp_path / "o.csv", "--json"
    ).document
    assert {column["name"]: column["holds"] for column in document["manifest"]["columns"]}["age"] == "number"


def test_a_kept_column_that_names_people_is_warned_of(patients_schema_path: Path, tmp_path: Path) -> None:
    words = ("mdav", "-k", 10, "--keep", "admitted", "--out", tmp_path / "o.csv", "--json")
    assert any(
        "admitted" in warning
        for warning in run_successfully("publish", *words, patients_schema_path).document["warnings"]
    )


def test_a_release_of_an_earlier_schema_says_so(out: Path) -> None:
    schema_path = out.parent / "own" / "registry.yaml"
    schema_path.write_text(schema_path.read_text().replace("upper: 90", "upper: 95"))
    run_successfully("check", schema_path, "--refresh")
    outcome = run_discreet("verify", out, "--original", schema_path)
    assert outcome.code == 2
    assert "earlier schema" in outcome.err


# --- what a sceptic tried


def test_what_follows_from_a_protected_column_is_not_kept(patients_schema_path: Path, tmp_path: Path) -> None:
    """A diagnosis moves and its chapter does not: kept, it would tell the diagnosis."""
    outcome = run_discreet(
        "publish",
        "mdav-swap",
        patients_schema_path,
        "-k",
        5,
        "--out",
        tmp_path / "o.csv",
        "--keep",
        "chapters.chapter",
    )
    assert outcome.code == 2
    assert "would undo that" in outcome.err


@pytest.mark.parametrize("method", ["mdav", "mdav-swap", "ir-swap", "anatomy"])
def test_groups_do_not_follow_a_confidential_column(patients_schema_path: Path, tmp_path: Path, method: str) -> None:
    words = (method, "-k", 5, "--strata", "diagnosis", "--out", tmp_path / "o.csv")
    outcome = run_discreet("publish", *words, patients_schema_path)
    assert outcome.code == 2
    assert "groups would give it away" in outcome.err


def write_small_dataset(folder: Path, rows: list[str], income: str) -> Path:
    """A table of few columns, one confidential."""
    folder.mkdir()
    (folder / "t.csv").write_text("\n".join(["id,age,group,income", *rows]) + "\n")
    (folder / "t.yaml").write_text(
        "name: t\nsource: t.csv\nneighbours: add-remove\nunit: {column: id, rows: 1}\nbudget: {epsilon: 1}\ncolumns:\n"
        "  id: {role: identifier}\n  age: {kind: integer, lower: 0, upper: 99, role: quasi-identifier}\n"
        f"  group: {{kind: nominal, categories: [x, y]}}\n  income: {income}\n"
    )
    return folder / "t.yaml"


NUMERALS = ["1.50", "2.0", "3e2", "007", ""]


@pytest.fixture(scope="module")
def numerals_folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Folders with registered data sets of such texts, by the kind of their column."""
    rows = [f"p{i},{20 + i % 40},x,{NUMERALS[i % 4]}" for i in range(80)]
    folders = {}
    for kind in ("nominal", "ordinal"):
        categories = f"{{kind: {kind}, categories: ['1.50', '2.0', 3e2, '007'], role: confidential}}"
        schema_path = write_small_dataset(tmp_path_factory.mktemp(kind) / "own", rows, categories)
        Custodian.open(schema_path).close()
        folders[kind] = schema_path.parent
    return folders


@pytest.mark.parametrize("kind", ["nominal", "ordinal"])
@pytest.mark.parametrize("method", ["mdav", "mdav-swap", "anatomy", "t-closeness", "generalise"])
def test_text_that_looks_like_numbers_stays_text(
    numerals_folders: dict[str, Path], tmp_path: Path, kind: str, method: str
) -> None:
    """What a CSV file holds is told by its manifest, not by how it looks."""
    schema_path, out = (
        shutil.copytree(numerals_folders[kind], tmp_path / "own") / "t.yaml",
        tmp_path / "out.csv",
    )
    words = [] if method != "t-closeness" else ["-t", 2]
    run_successfully("publish", method, schema_path, "-k", 7, "--out", out, *words)
    run_successfully("verify", out, "--original", schema_path)


def test_a_column_named_group(tmp_path: Path) -> None:
    """It is in nobody's way unless it is to leave beside Anatomy's own."""
    schema_path = write_small_dataset(
        tmp_path / "own",
        [f"p{i},{20 + i % 40},x,{i % 17}" for i in range(80)],
        "{kind: integer, lower: 0, upper: 99, role: confidential}",
    )
    run_successfully("publish", "anatomy", schema_path, "-k", 5, "--out", tmp_path / "one.csv")
    run_successfully("verify", tmp_path / "one.csv", "--original", schema_path)
    outcome = run_discreet(
        "publish",
        "anatomy",
        schema_path,
        "-k",
        5,
        "--out",
        tmp_path / "two.csv",
        "--keep",
        "group",
    )
    assert outcome.code == 2
    assert "'group' of its own" in outcome.err


def test_a_release_that_hides_nothing_is_refused(tmp_path: Path) -> None:
    """Where all of every group have the same value, 1/k says nothing."""
    rows = [f"p{i},{20 + i % 40},{'x' if i < 40 else 'y'},{i // 40}" for i in range(80)]
    schema_path = write_small_dataset(
        tmp_path / "own", rows, "{kind: integer, lower: 0, upper: 99, role: confidential}"
    )
    outcome = run_discreet("publish", "ir-swap", schema_path, "-k", 10, "--out", tmp_path / "o.csv")
    assert outcome.code == 2
    assert "would hide nothing" in outcome.err
    run_successfully(
        "publish",
        "ir-swap",
        schema_path,
        "-k",
        10,
        "--out",
        tmp_path / "o.csv",
        "--diversity",
        "distinct 2",
    )


def test_a_name_with_a_pattern_is_read_as_it_stands(patients_schema_path: Path, tmp_path: Path) -> None:
    """rel[1].csv is not rel1.csv."""
    run_successfully("publish", "mdav", patients_schema_path, "-k", 10, "--out", tmp_path / "rel[1].csv")
    (tmp_path / "rel1.csv").write_text("age\n1\n")
    run_successfully("verify", tmp_path / "rel[1].csv")


def test_a_copy_under_another_name_verifies(out: Path, tmp_path: Path) -> None:
    shutil.copy(out, tmp_path / "two.csv")
    shutil.copy(tmp_path / "out.csv.manifest.json", tmp_path / "two.csv.manifest.json")
    run_successfully("verify", tmp_path / "two.csv")


def change_manifest(path: Path, change: Any) -> None:
    manifest = json.loads(path.read_text())
    change(manifest)
    path.write_text(json.dumps(manifest))


def test_a_manifest_that_was_changed_is_found_out(out: Path) -> None:
    """By its custodian always; by others where it does not fit its file."""
    schema_path, manifest = out.parent / "own" / "registry.yaml", out.with_name("out.csv.manifest.json")
    change_manifest(manifest, lambda document: document["recipe"].update(quasi_identifiers=["sex"]))
    change_manifest(manifest, lambda document: document["guarantee"].update(k=20))
    assert "sex" in run_successfully("verify", out).out
    assert run_discreet("verify", out, "--original", schema_path).code == 6
    change_manifest(manifest, lambda document: document.update(files=[]))
    assert run_discreet("verify", out).code == 2
    change_manifest(manifest, lambda document: document.update(files=[{"name": "../out.csv", "sha256": ""}]))
    assert run_discreet("verify", out).code == 2


def test_force_leaves_nothing_of_the_release_before(patients_schema_path: Path, tmp_path: Path) -> None:
    """The other table of an Anatomy goes with it; a file of one's own with that name does not."""
    out, second = tmp_path / "o.csv", tmp_path / "o-values.csv"
    run_successfully("publish", "anatomy", patients_schema_path, "-k", 10, "--out", out)
    run_successfully("publish", "mdav", patients_schema_path, "-k", 10, "--out", out, "--force")
    assert not second.exists()
    second.write_text("mine")
    run_successfully("publish", "mdav", patients_schema_path, "-k", 10, "--out", out, "--force")
    assert second.read_text() == "mine"


def test_what_force_overwrites_comes_back_where_it_fails(
    out: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = digest_files(tmp_path)

    def fail_to_link(written: Path, target: Path) -> None:
        if target == out:
            raise KeyboardInterrupt
        os.link(written, target)

    monkeypatch.setattr("discreet.release.files._put_file", fail_to_link)
    with Custodian.open(tmp_path / "own" / "registry.yaml") as custodian, pytest.raises(KeyboardInterrupt):
        custodian.publish("anatomy", out, k=10, force=True)
    now = digest_files(tmp_path)
    assert {name: now[name] for name in before if not name.startswith("own")} == {
        name: text for name, text in before.items() if not name.startswith("own")
    }
    assert not (tmp_path / "out-values.csv").exists()


def test_a_file_that_comes_meanwhile_is_not_overwritten(
    patients_schema_path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two releases may come at once: the second finds the first."""
    out = tmp_path / "o.csv"
    real = os.link

    def link_slowly(written: Path, target: Path) -> None:
        if not out.exists():
            out.write_text("theirs")
        real(written, target)

    monkeypatch.setattr("discreet.release.files.os.link", link_slowly)
    with Custodian.open(patients_schema_path) as custodian, pytest.raises(InvalidInput, match="meanwhile"):
        custodian.publish("mdav", out, k=10)
    assert out.read_text() == "theirs"
    assert not (tmp_path / "o.csv.manifest.json").exists()


def test_a_report_in_json_is_for_the_custodian_alone_too(patients_schema_path: Path, tmp_path: Path) -> None:
    report = tmp_path / "r.json"
    run_successfully("publish", "mdav", patients_schema_path, "-k", 10, "--out", tmp_path / "o.csv", "--report", report)
    assert stat.S_IMODE(os.stat(report).st_mode) == 0o600


def test_releases_of_an_earlier_snapshot_are_named(out: Path, tmp_path: Path) -> None:
    """They cannot be laid over the new one, and that is said."""
    schema_path = out.parent / "own" / "registry.yaml"
    run_successfully("check", schema_path, "--refresh")
    document = run_successfully(
        "publish", "mdav", schema_path, "-k", 10, "--out", tmp_path / "two.csv", "--json"
    ).document
    assert any("registry-1" in warning for warning in document["warnings"])


def test_a_lost_record_is_not_written_over(out: Path, tmp_path: Path) -> None:
    schema_path = out.parent / "own" / "registry.yaml"
    records = schema_path.parent / "registry.discreet" / "releases"
    (records / "1.json").unlink()
    document = run_successfully(
        "publish", "mdav", schema_path, "-k", 10, "--out", tmp_path / "two.csv", "--json"
    ).document
    assert document["name"] == "registry-2"


# --- larger than memory

WIDE_ROWS = 32_000
"""Rows of a table of many columns."""
WIDE_CASES = ((2, 1000), (1, WIDE_ROWS), (16, WIDE_ROWS))
"""Columns and rows; the first, which is not measured, for what is imported on the way."""


def write_wide_dataset(folder: Path, columns: int, confidential: int = 1, rows: int = WIDE_ROWS) -> Path:
    """A data set of that many columns beside two quasi-identifiers and a confidential one, or more; its schema."""
    columns_sql = ", ".join(f"(hash(i, {j}) % 500)::INT AS n{j}" for j in range(3 + columns))
    with duckdb.connect() as engine:
        engine.execute(
            f"COPY (SELECT i AS person, {columns_sql} FROM range({rows}) t(i)) TO '{folder}/wide{columns}.parquet'"
        )
    roles = ["quasi-identifier", "quasi-identifier", *["confidential"] * confidential]
    lines = [f"name: wide{columns}", f"source: wide{columns}.parquet", "neighbours: replace-one", f"units: {rows}"]
    lines += ["unit: {column: person, rows: 1}", "budget: {epsilon: 1}", "columns:", "  person: {role: identifier}"]
    for j in range(3 + columns):
        role = f", role: {roles[j]}" if j < len(roles) else ""
        lines.append(f"  n{j}: {{kind: integer, lower: 0, upper: 499{role}}}")
    schema_path = folder / f"wide{columns}.yaml"
    schema_path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return schema_path


@pytest.fixture(scope="module")
def wide_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with such data sets, registered."""
    folder = tmp_path_factory.mktemp("wides")
    for columns, rows in WIDE_CASES:
        Custodian.open(write_wide_dataset(folder, columns, rows=rows)).close()
    return folder


@pytest.mark.parametrize("method", ["ir-swap", "anatomy", "t-closeness"])
def test_memory_does_not_grow_with_the_columns(
    wide_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, method: str
) -> None:
    """What an engine makes is written as it comes, and checked column by column; nothing is left of the way there.

    Other threads of this process, and garbage that is not collected yet, only ever add to a peak: so the least of
    three runs counts.
    """
    monkeypatch.setattr("discreet.sources.duckdb.BATCH_SIZE", 2000)
    monkeypatch.setattr("discreet.release.files.BATCH_ROWS", 2000)
    monkeypatch.setattr("discreet.release.publish.MAX_ASSESSED_ROWS", 0)
    shutil.copytree(wide_folder, tmp_path, dirs_exist_ok=True)
    _measure_peak(tmp_path, method, *WIDE_CASES[0], "first")
    allowed = 4 * WIDE_ROWS * 8  # of 15 columns more
    one, many = (_measure_peak(tmp_path, method, *case, "once") for case in WIDE_CASES[1:])
    for name in ("twice", "again"):
        if many - one < allowed:
            break
        many = min(many, _measure_peak(tmp_path, method, *WIDE_CASES[2], name))
    assert one > 0
    assert many - one < allowed


def _measure_peak(folder: Path, method: str, columns: int, rows: int, name: str) -> int:
    """The most memory that a release takes, in bytes; 0 of the first, which also compiles."""
    out, options = folder / f"{name}{columns}.parquet", {"t": 2} if method == "t-closeness" else {}
    with Custodian.open(folder / f"wide{columns}.yaml") as custodian:
        gc.collect()
        if rows == WIDE_ROWS:
            tracemalloc.start()
        custodian.publish(method, out, k=20, keep=[f"n{j}" for j in range(3, 3 + columns)], **options)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert [file.name for file in folder.rglob("*") if file.name.startswith(".")] == []
    assert len(read_columns(out)) >= 2 + columns
    return peak


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_a_table_comes_back_as_it_was_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, suffix: str) -> None:
    """In parts; missing values of every kind, texts that look like others, numbers whole in some parts only."""
    monkeypatch.setattr("discreet.release.files.BATCH_ROWS", 2)
    orders = {"grade": ["low", "high"]}
    columns: dict[str, Any] = {
        "whole": np.array([1, 2, 3, 4, 5]),
        "half": np.array([1.0, 2.0, 3.0, np.nan, 0.5]),
        "day": np.array(["2020-01-01", "NaT", "1969-12-31", "2020-01-01", "2000-02-29"], dtype="datetime64[D]"),
        "text": np.array(["b", None, "", "NULL", 'a "1", x'], dtype=object),
        "grade": np.array(["high", "low", None, "low", "high"], dtype=object),
        "truth": np.array([True, False, True, True, False]),
        "nothing": np.array([None] * 5, dtype=object),
    }
    kinds = {"grade": "ordinal", "nothing": "nominal"}
    table = read_table(columns, kinds, orders)
    file = tmp_path / f"table{suffix}"
    write_released_table(file, table)
    rows = [
        ManifestColumn(a.name, a.kind, a.output_type, tuple(orders.get(a.name, ()))) for a in table.attributes.values()
    ]
    for spool in (None, Spool(tmp_path)):
        released_table = read_released_table(file, rows, spool=spool)
        assert list(released_table) == list(table)
        for name, each in released_table.attributes.items():
            assert (each.kind, each.categories) == (table[name].kind, table[name].categories)
            np.testing.assert_array_equal(each.to_array(), table[name].to_array())


def test_a_full_disk_leaves_nothing(
    patients_schema_path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Columns cannot be put on disk while the claim is checked: one sentence, no file, no release."""

    def fail_to_link(**_: object) -> object:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("discreet.release.files.TemporaryFile", fail_to_link)
    with (
        Custodian.open(patients_schema_path) as custodian,
        pytest.raises(Unavailable, match="check its owner and the disk"),
    ):
        custodian.publish("t-closeness", tmp_path / "out.csv", k=10, t=2, keep=[])
    assert not list(tmp_path.glob("out*"))


def test_many_columns_are_swapped_a_few_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows keep their order from one statement to the next; every column is checked beside the original."""
    monkeypatch.setattr("discreet.release.protect.MAX_SWAPPED_COLUMNS", 2)
    schema_path = write_wide_dataset(tmp_path, 4, confidential=5, rows=5000)
    out = tmp_path / "out.parquet"
    with Custodian.open(schema_path) as custodian:
        custodian.publish("ir-swap", out, k=20)
    assert verify_release(out, schema_path).claims[0].shown
    with duckdb.connect() as engine:
        before, after = (
            engine.execute(f"SELECT n0, n1, count(*) FROM '{path}' GROUP BY ALL ORDER BY ALL").fetchall()
            for path in (tmp_path / "wide4.parquet", out)
        )
    assert before == after


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
@pytest.mark.parametrize(
    ("values", "kind", "holds"),
    [
        ([f"Person {i}" for i in range(20)], "numeric", "number"),
        ([f"{i}.5" for i in range(20)], "numeric", "date"),
        ([f"2020-01-01 00:00:{i:02}" for i in range(20)], "numeric", "date"),
        (["7", "x", *(str(i) for i in range(18))], "numeric", "integer"),
        ([str(2**53 + i) for i in range(20)], "numeric", "integer"),
    ],
)
def test_a_manifest_that_lies_of_a_column_hides_nothing(
    tmp_path: Path, suffix: str, values: list[str], kind: str, holds: str
) -> None:
    """Values that are lost, or become one, where they are read as what the manifest says they are: the claim fails."""
    file = tmp_path / f"out{suffix}"
    with duckdb.connect() as engine:
        engine.execute(f"COPY (SELECT unnest(?) AS age) TO '{file}'", [values])
    with pytest.raises(ClaimFailed, match="other values than its manifest"):
        read_released_table(file, [ManifestColumn("age", kind, holds)])  # type: ignore[arg-type]


def test_a_release_that_comes_too_late_is_not_entered(patients_schema_path: Path, tmp_path: Path) -> None:
    """Another file is put there while this one is made: refused, and nothing tells of a release."""
    out = tmp_path / "out.csv"
    with Custodian.open(patients_schema_path) as custodian:
        before = custodian.history()
        with pytest.raises(InvalidInput, match="is there already"):
            custodian.publish("mdav", out, k=10, progress=lambda stage: out.touch() if stage == "assessing" else None)
        assert custodian.history() == before
    assert not list((patients_schema_path.parent / "registry.discreet" / "releases").glob("*"))


WAITS_HALFWAY = """
import os, sys, time
link = os.link

def wait_after_the_manifest(*given):
    if os.path.exists(f"{sys.argv[-1]}.manifest.json"):
        time.sleep(600)
    link(*given)

os.link = wait_after_the_manifest
from discreet.cli.main import main
main()
"""
"""The command, which puts the first of its files in their place and then goes on no more."""


def test_a_stopped_command_leaves_nothing(tmp_path: Path) -> None:
    """SIGTERM in the midst of it takes away what is half made."""
    (tmp_path / "own").mkdir()
    schema_path, out = write_registry(tmp_path / "own", 200), tmp_path / "out.csv"
    command = [sys.executable, "-c", WAITS_HALFWAY, "publish", "mdav", str(schema_path), "-k", "5"]
    running = subprocess.Popen([*command, "--out", str(out)], stderr=subprocess.PIPE)
    while not list(tmp_path.glob("out*")) and running.poll() is None:
        time.sleep(0.05)
    assert list(tmp_path.glob(".discreet-*"))
    running.terminate()
    running.communicate()
    assert running.returncode == 128 + 15
    assert not list(tmp_path.glob(".discreet-*"))
    assert not list(tmp_path.glob("out*"))
