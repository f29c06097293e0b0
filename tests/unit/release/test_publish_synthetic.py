"""Private files from a schema and an epsilon: refused from what is public, charged, then written with what is true."""

from __future__ import annotations

import json
import re
import shutil
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pytest

from discreet import BudgetExceeded, ClaimFailed, Custodian, InvalidInput, Unavailable, Unsupported
from discreet.formatting import round_up
from discreet.release.assess import assess_release, verify_release
from discreet.sample import EDUCATION, write_registry
from discreet.service.jobs import run_next_job
from discreet.service.store.tokens import create_token
from support.command_line import digest_files, run_discreet, run_successfully
from support.inprocess_service import HOME, build_config, run_service

PATIENTS = 500
METHODS = ("private-columns", "private-records", "private-linked")
FEW = ("age", "bmi", "smoker")


@pytest.fixture(scope="module")
def synthetic_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a data set that is registered; approx-dp is allowed, and some rows are impossible."""
    return register_patients(tmp_path_factory.mktemp("registered"), PATIENTS)


def register_patients(folder: Path, patients: int) -> Path:
    schema_path = write_registry(folder, patients)
    text = schema_path.read_text().replace("models: [dp]", "models: [dp, approx-dp]")
    text = text.replace("epsilon: 3,", "epsilon: 30,").replace("epsilon: 1,", "epsilon: 30,")
    never = """impossible: ["age < 40 AND smoker = true", "age > 80 AND bmi < 30 AND sex = 'M'"]"""
    schema_path.write_text(re.sub("impossible: .*", never, text))
    with Custodian.open(schema_path):
        return folder


@pytest.fixture
def synthetic_schema_path(synthetic_folder: Path, tmp_path: Path) -> Path:
    """The schema of a data set of one's own."""
    return shutil.copytree(synthetic_folder, tmp_path / "own") / "registry.yaml"


@cache
def synthetic_engine() -> duckdb.DuckDBPyConnection:
    """One for all that is looked at: to make one takes longer than to look."""
    return duckdb.connect()


def read_columns_of(path: Path) -> dict[str, list[Any]]:
    cursor = synthetic_engine().execute(f"SELECT * FROM '{path}'")
    names = [str(each[0]) for each in cursor.description or []]
    return dict(zip(names, map(list, zip(*cursor.fetchall(), strict=True)), strict=True))


# --- what leaves


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_a_private_file_is_charged_and_says_what_it_is(
    synthetic_schema_path: Path, tmp_path: Path, method: str, suffix: str
) -> None:
    """As many rows as are public, the promise in the manifest, and exactly epsilon in the ledger."""
    out = tmp_path / f"out{suffix}"
    columns = None if suffix == ".csv" else FEW  # all columns once: to link them takes long
    with Custodian.open(synthetic_schema_path) as custodian:
        release = custodian.publish(method, out, epsilon=Fraction(1, 2), columns=columns)
        [entry, *_] = custodian.history()
        [balance, *_] = custodian.budget()
    assert release.guarantee.model == "dp"
    assert release.guarantee.epsilon == balance.epsilon == Fraction(1, 2)
    assert balance.flags == ()
    assert (entry.entry, entry.kind, entry.analyst) == (release.entry, "charge", "custodian")
    assert entry.query is not None
    assert method in entry.query
    manifest = json.loads(release.manifest_file.read_text())
    assert manifest == release.manifest
    assert manifest["guarantee"] == release.guarantee.to_json()
    assert manifest["guarantee"]["neighbours"] == "replace-one"
    assert set(manifest["expected_error"]) >= set(manifest["recipe"]["columns"])
    released_columns = read_columns_of(out)
    assert list(released_columns) == manifest["recipe"]["columns"]
    assert {len(values) for values in released_columns.values()} == {PATIENTS} == {release.rows}
    assert "person_id" not in released_columns


@pytest.mark.parametrize("method", METHODS)
def test_values_stay_in_their_domains(synthetic_schema_path: Path, tmp_path: Path, method: str) -> None:
    """Whatever the noise: numbers inside the declared bounds, names among the declared ones, also at a tiny epsilon."""
    out = tmp_path / "out.parquet"
    with Custodian.open(synthetic_schema_path) as custodian:
        custodian.publish(method, out, epsilon=Fraction(1, 10_000), columns=["age", "sex", "bmi", "education"])
    released_columns = read_columns_of(out)
    assert all(value is None or 17 <= value <= 90 for value in released_columns["age"])
    assert set(released_columns["sex"]) <= {"F", "M", None}
    assert all(value is None or 10 <= value <= 70 for value in released_columns["bmi"])
    assert set(released_columns["education"]) <= {*EDUCATION, None}


@pytest.mark.parametrize("method", ["private-records", "private-linked"])
def test_declared_impossible_combinations_never_leave(synthetic_schema_path: Path, tmp_path: Path, method: str) -> None:
    """Of two columns and of three, though the original has such rows: what is declared counts, not the rows."""
    out = tmp_path / "out.parquet"
    with Custodian.open(synthetic_schema_path) as custodian:
        custodian.publish(method, out, epsilon=2, columns=["age", "sex", "smoker", "bmi"])
    rows = "(age < 40 AND smoker) OR (age > 80 AND bmi < 30 AND sex = 'M')"
    [[left]] = synthetic_engine().execute(f"SELECT count(*) FROM '{out}' WHERE {rows}").fetchall()
    [[before]] = (
        synthetic_engine()
        .execute(f"SELECT count(*) FROM '{synthetic_schema_path.parent}/registry.csv' WHERE {rows}")
        .fetchall()
    )
    assert (left, before > 0) == (0, True)


def test_columns_are_not_linked_and_linked_records_are(tmp_path: Path) -> None:
    """Columns leave in orders of their own; linked records keep what columns have to do with each other."""
    schema_path = register_patients(tmp_path, 2000) / "registry.yaml"  # of fewer, orders drawn apart may look linked
    with Custodian.open(schema_path) as custodian:
        custodian.publish("private-columns", tmp_path / "apart.parquet", epsilon=10, columns=["age", "stay"])
        custodian.publish("private-linked", tmp_path / "linked.parquet", epsilon=10, columns=["age", "education"])
    raw = f"(SELECT age, stay FROM '{schema_path.parent}/registry.csv')"
    query = "SELECT corr(age, stay) FROM {}"
    [[apart]] = synthetic_engine().execute(query.format(f"'{tmp_path}/apart.parquet'")).fetchall()
    [[exact]] = synthetic_engine().execute(query.format(raw)).fetchall()
    assert abs(apart) < 0.1
    assert abs(exact) <= 1
    manifest = json.loads((tmp_path / "apart.parquet.manifest.json").read_text())
    assert "not linked" in manifest["rows_are"]


def test_columns_may_be_kept_apart_in_a_folder(synthetic_schema_path: Path, tmp_path: Path) -> None:
    """One file for each column, the manifest with them; the folder is there whole, or not at all."""
    with Custodian.open(synthetic_schema_path) as custodian:
        release = custodian.publish("private-columns", tmp_path / "apart", epsilon=1, columns=FEW, apart=True)
        assert sorted(file.name for file in (tmp_path / "apart").iterdir()) == sorted(
            ["manifest.json", *(f"{name}.parquet" for name in FEW)]
        )
        assert [list(read_columns_of(file)) for file in release.files] == [[name] for name in FEW]
        with pytest.raises(Unsupported, match="no file shows"):
            verify_release(tmp_path / "apart" / "bmi.parquet")
        assert assess_release(synthetic_schema_path, tmp_path / "apart" / "bmi.parquet").marginals.keys() == {"bmi"}
        with pytest.raises(InvalidInput, match="is there already"):
            custodian.publish("private-columns", tmp_path / "apart", epsilon=1, columns=FEW, apart=True)
        custodian.publish("private-columns", tmp_path / "apart", epsilon=1, columns=["age"], apart=True, force=True)
        assert sorted(file.name for file in (tmp_path / "apart").iterdir()) == ["age.parquet", "manifest.json"]
        (tmp_path / "mine").mkdir()
        with pytest.raises(InvalidInput, match="no release of ours"):
            custodian.publish("private-columns", tmp_path / "mine", epsilon=1, apart=True, force=True)
        with pytest.raises(InvalidInput, match="go to a folder"):
            custodian.publish("private-columns", tmp_path / "mine.csv", epsilon=1, apart=True)


def test_a_delta_buys_less_noise(synthetic_schema_path: Path, tmp_path: Path) -> None:
    """Gaussian noise where it is less, charged as zCDP in the accounts of approx-dp."""
    with Custodian.open(synthetic_schema_path) as custodian:
        options: dict[str, Any] = {
            "epsilon": 1,
            "delta": Fraction(1, 10**9),
            "columns": [*FEW, "sex", "education", "hospital"],
        }
        release = custodian.publish("private-linked", tmp_path / "out.csv", **options)
        [entry, *_] = custodian.history()
    assert release.guarantee.model == "approx-dp"
    assert release.guarantee.epsilon is not None
    assert release.guarantee.epsilon <= 1
    assert release.guarantee.delta == Fraction(1, 10**9)
    assert entry.model == "approx-dp"
    assert entry.spend is not None
    assert entry.spend.gaussian_rho > 0


def test_the_report_is_for_the_custodian(synthetic_schema_path: Path, tmp_path: Path) -> None:
    """It looks at the records, and says that it is itself not private."""
    report = tmp_path / "report.json"
    document = run_successfully(
        *(
            "publish",
            "private-columns",
            synthetic_schema_path,
            "--epsilon",
            1,
            "--column",
            "age",
            "--column",
            "bmi",
        ),
        *("--out", tmp_path / "out.csv", "--report", report, "--json"),
    ).document
    assert json.loads(report.read_text())["facts"]["this report"] == "for the custodian: itself not private"
    assert report.stat().st_mode & 0o077 == 0
    assert document["guarantee"]["model"] == "dp"
    assert "at most 2.72 times as likely" in document["risk"]


def test_what_a_file_shows_of_differential_privacy(synthetic_schema_path: Path, tmp_path: Path) -> None:
    """Nothing; but whether it is as it was written it shows, and it can be compared with the records."""
    out = tmp_path / "out.parquet"
    with Custodian.open(synthetic_schema_path) as custodian:
        custodian.publish("private-linked", out, epsilon=1, columns=FEW)
    with pytest.raises(Unsupported, match="no file shows"):
        verify_release(out)
    assessment = assess_release(synthetic_schema_path, out)
    assert assessment.sse is None
    assert "distribution" in assessment.utility
    assert "times as likely" in assessment.risk
    out.write_bytes(out.read_bytes() + b" ")
    with pytest.raises(ClaimFailed):
        assess_release(synthetic_schema_path, out)


# --- what is refused, and what is charged


REFUSED_WORDS: dict[str, tuple[list[object], int, str]] = {
    "no epsilon": (["private-linked"], 2, "needs an epsilon"),
    "epsilon 0": (["private-linked", "--epsilon", "0"], 2, "epsilon"),
    "k of linked records": (["private-linked", "--epsilon", "1", "-k", "5"], 2, "No such option: -k"),
    "k 1": (["private-columns", "--epsilon", "1", "-k", "1"], 2, "at least 2"),
    "k above n": (["private-columns", "--epsilon", "1", "-k", "9999"], 2, "at most the number of rows"),
    "no such k": (["private-columns", "--epsilon", "1", "-k", "many"], 2, "or auto"),
    "no such column": (
        ["private-columns", "--epsilon", "1", "--column", "height"],
        2,
        "unknown column 'height'",
    ),
    "derived": (
        ["private-columns", "--epsilon", "1", "--column", "chapters.chapter"],
        2,
        "follows from diagnosis",
    ),
    "a column twice": (["private-columns", "--epsilon", "1", *["--column", "age"] * 2], 2, "each once"),
    "one linked column": (["private-linked", "--epsilon", "1", "--column", "age"], 2, "two columns"),
    "a k of another method": (["private-linked", "--epsilon", "1", "-t", "2"], 2, "No such option: -t"),
    "apart linked": (["private-linked", "--epsilon", "1", "--apart"], 2, "No such option: --apart"),
    "more than there is": (["private-linked", "--epsilon", "31"], 3, "for this file"),
    "a delta that is not allowed": (["private-linked", "--epsilon", "1", "--delta", "2"], 2, "delta"),
    "a huge epsilon": (["private-linked", "--epsilon", "1e9"], 2, "at most 10,000"),
    "a pair of one": (
        ["private-linked", "--epsilon", "1", "--pair", "age,age"],
        2,
        "two different columns",
    ),
    "epsilon of a weaker method": (["mdav", "-k", "5", "--epsilon", "1"], 2, "No such option: --epsilon"),
}


@pytest.mark.parametrize("case", REFUSED_WORDS)
def test_bad_recipes_are_refused_in_one_sentence(synthetic_schema_path: Path, tmp_path: Path, case: str) -> None:
    """Nothing is charged, nothing written."""
    words, code, says = REFUSED_WORDS[case]
    before = digest_files(synthetic_schema_path.parent)
    outcome = run_discreet("publish", *words, synthetic_schema_path, "--out", tmp_path / "out.csv")
    assert outcome.code == code, outcome.err
    assert says in outcome.err
    assert len(outcome.err.splitlines()) == 1
    assert not list(tmp_path.glob("out*"))
    if code != BudgetExceeded.exit_code:
        assert digest_files(synthetic_schema_path.parent) == before


def write_dataset(folder: Path, **changed: str) -> Path:
    statements = {
        "name": "t",
        "source": "t.csv",
        "neighbours": "replace-one",
        "units": "40",
        "budget": "{epsilon: 5}",
        "columns": "{x: {kind: integer, lower: 0, upper: 9}, y: {kind: boolean}}",
    } | changed
    (folder / "t.csv").write_text("x,y,town\n" + "".join(f"{i % 10},{i % 2},t{i % 3}\n" for i in range(40)))
    (folder / "t.yaml").write_text("".join(f"{name}: {value}\n" for name, value in statements.items() if value))
    return folder / "t.yaml"


@pytest.mark.parametrize("method", ["private-records", "private-linked"])
def test_a_single_possible_row_is_all_there_is(tmp_path: Path, method: str) -> None:
    """However little is possible, nothing fails after the charge; where nothing is, it is refused before."""
    narrow = """["x <> 7", "x IS NULL", "y = true", "y IS NULL"]"""
    with Custodian.open(write_dataset(tmp_path, impossible=narrow)) as custodian:
        custodian.publish(method, tmp_path / "out.csv", epsilon=1)
    assert set(read_columns_of(tmp_path / "out.csv")["x"]) == {7}
    (tmp_path / "t.yaml").unlink()
    nothing = """["x >= 0", "x IS NULL"]"""
    with Custodian.open(write_dataset(tmp_path, impossible=nothing)) as custodian:
        with pytest.raises(InvalidInput, match="leaves no row that can be"):
            custodian.publish(method, tmp_path / "more.csv", epsilon=1)
        [balance, *_] = custodian.budget()
    assert balance.epsilon == 1


def test_a_delta_needs_a_schema_that_allows_it(tmp_path: Path) -> None:
    """Refused with what to do, also in a preview."""
    with Custodian.open(write_dataset(tmp_path)) as custodian:
        options: dict[str, Any] = {"delta": Fraction(1, 100), "epsilon": 1}
        with pytest.raises(InvalidInput, match="add approx-dp"):
            custodian.estimate_error("private-columns", **options)
        with pytest.raises(InvalidInput, match="add approx-dp"):
            custodian.publish("private-columns", tmp_path / "out.csv", **options)


def test_a_key_pays_for_one_private_file(tmp_path: Path) -> None:
    """A retry is refused with what the key was used for; a file that was refused has not used it."""
    with Custodian.open(write_dataset(tmp_path)) as custodian:
        with pytest.raises(BudgetExceeded):
            custodian.publish("private-columns", tmp_path / "out.csv", epsilon=50, key="k")
        custodian.publish("private-columns", tmp_path / "out.csv", epsilon=1, key="k")
        with pytest.raises(InvalidInput, match="key was used before, for entry 2, 'file t-1 by private-columns: x"):
            custodian.publish("private-columns", tmp_path / "more.csv", epsilon=1, key="k")
        assert custodian.budget()[0].epsilon == 1
        custodian.publish("private-columns", tmp_path / "more.csv", epsilon=1, key="another")
        assert custodian.budget()[0].epsilon == 2


def test_a_key_that_somebody_uses_at_the_same_moment_pays_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also from another machine, where neither the folder's lock nor a look at the ledger comes in between."""
    with Custodian.open(write_dataset(tmp_path)) as custodian:
        custodian.publish("private-columns", tmp_path / "out.csv", epsilon=1, key="k")
        monkeypatch.setattr("discreet.release.publish_synthetic.find_next_release_number", lambda _: 1)
        monkeypatch.setattr("discreet.ledger.Ledger.find_by_key", lambda *_: None)
        with pytest.raises(InvalidInput, match="key was used before, for entry 2, 'file t-1"):
            custodian.publish("private-columns", tmp_path / "more.csv", epsilon=1, key="k")
        assert custodian.budget()[0].epsilon == 1
    assert not list(tmp_path.glob("more*"))


def test_a_service_that_lost_its_store_does_not_charge_a_retry_again(tmp_path: Path) -> None:
    """The ledger knows the key; another custodian's is another."""
    body, config = {"method": "private-columns", "epsilon": "0.5", "columns": ["age"]}, build_config(tmp_path)
    for who, times, state in (("cus", 1, "done"), ("cus", 1, "failed"), ("dan", 2, "done")):
        Path(config.store).unlink(missing_ok=True)
        with run_service(config) as service:
            service.tokens["dan"] = create_token(service.app.service.store, "dan", "custodian", 30)[1]
            job = service.post(who, f"{HOME}/releases", body, Idempotency_Key="k").json()
            assert run_next_job(service.app.service, "runner")
            job_state = service.get(who, f"/v1/jobs/{job['id']}").json()
            assert job_state["state"] == state, job_state
            if state == "failed":
                assert "this key was used before, for entry 2, 'file registry-1 by" in job_state["problem"]["detail"]
            spent = service.get(who, f"{HOME}/budget").json()["budget"][0]["spent"]["epsilon"]
            assert Fraction(spent) == times * Fraction(1, 2)


def test_what_is_refused_leaves_the_schema_free(tmp_path: Path) -> None:
    """The advice of a refusal can be followed: nothing is registered before it."""
    schema_path = write_dataset(tmp_path, neighbours="add-remove", units="")
    refusal = run_discreet("publish", "private-columns", schema_path, "--epsilon", 1, "--out", tmp_path / "out.csv")
    assert refusal.code == Unsupported.exit_code
    run_successfully(
        "publish", "private-columns", write_dataset(tmp_path), "--epsilon", 1, "--out", tmp_path / "out.csv"
    )


def test_what_was_published_and_what_is_impossible_of_a_column_are_kept(tmp_path: Path) -> None:
    """Exactly, in private columns and in linked records; combinations of columns that are not linked are warned of."""
    published = """[{statistic: odd, value: 13, question: "SELECT COUNT(*) FROM t WHERE y = true"}]"""
    never = """["x < 4", "x IS NULL", "x = 7 AND y = false", "y IS NULL"]"""
    with Custodian.open(write_dataset(tmp_path, published=published, impossible=never)) as custodian:
        for method in ("private-columns", "private-linked"):
            out = tmp_path / f"{method}.csv"
            release = custodian.publish(method, out, epsilon=1)
            released_columns = read_columns_of(out)
            assert sum(released_columns["y"]) == 13
            assert min(released_columns["x"]) >= 4
            assert any("not linked" in warning for warning in release.warnings) == (method == "private-columns")
            assert "published exactly before" in release.guarantee.assumptions[0]


def test_linked_records_have_no_exact_counts(tmp_path: Path) -> None:
    """At a small epsilon the counts of single columns differ from file to file, and from the exact ones."""
    schema_path = write_dataset(tmp_path)
    counts = []
    with Custodian.open(schema_path) as custodian:
        for name in ("one.csv", "two.csv"):
            custodian.publish("private-linked", tmp_path / name, epsilon=Fraction(1, 5))
            released_columns = read_columns_of(tmp_path / name)
            counts.append([sorted(map(str, released_columns["x"])), sorted(map(str, released_columns["y"]))])
    assert counts[0] != counts[1]
    assert [sorted(str(i % 10) for i in range(40))] * 2 != [counts[0][0], counts[1][0]]


def test_heaped_values_keep_their_links(tmp_path: Path) -> None:
    """Zero for all who do not work: the heap is told by itself, and so is who is on it; and what is declared holds."""
    rows = 20_000
    generator = np.random.default_rng(3)
    works = generator.random(rows) < 0.6
    income = np.where(works, generator.integers(1, 200_000, rows), 0)
    lines = "".join(f"{int(w)},{i}\n" for w, i in zip(works, income, strict=True))
    (tmp_path / "t.csv").write_text("works,income\n" + lines)
    columns_text = "{works: {kind: boolean}, income: {kind: integer, lower: 0, upper: 199999}}"
    schema_path = write_dataset(
        tmp_path, units=str(rows), columns=columns_text, impossible="""["works = false AND income > 0"]"""
    )
    (tmp_path / "t.csv").write_text("works,income\n" + lines)
    with Custodian.open(schema_path) as custodian:
        custodian.publish("private-linked", tmp_path / "out.csv", epsilon=1)
    released_columns = read_columns_of(tmp_path / "out.csv")
    idle = [i for w, i in zip(released_columns["works"], released_columns["income"], strict=True) if w is False]
    assert abs(len(idle) / rows - 0.4) < 0.02
    assert {i for i in idle if i is not None} == {0}
    assert abs(released_columns["income"].count(0) / rows - 0.4) < 0.02


@pytest.mark.parametrize("method", METHODS)
def test_add_remove_is_refused_with_the_reason(tmp_path: Path, method: str) -> None:
    """The number of rows is a secret there, and a file tells it."""
    with (
        Custodian.open(write_dataset(tmp_path, neighbours="add-remove", units="")) as custodian,
        pytest.raises(Unsupported, match="tells how many rows"),
    ):
        custodian.publish(method, tmp_path / "out.csv", epsilon=1)


def test_a_column_without_a_public_domain_is_refused(tmp_path: Path) -> None:
    """The sentence says what to declare."""
    private = "{x: {kind: integer, lower: 0, upper: 9}, town: {kind: nominal, keys: private}}"
    with Custodian.open(write_dataset(tmp_path, columns=private)) as custodian:
        with pytest.raises(InvalidInput, match="no public domain"):
            custodian.publish("private-columns", tmp_path / "out.csv", epsilon=1)
        custodian.publish("private-columns", tmp_path / "out.csv", epsilon=1, columns=["x"])


def test_an_epsilon_too_small_is_warned_of_and_not_refused(tmp_path: Path) -> None:
    """With the error to expect, and what could be carried."""
    with Custodian.open(write_dataset(tmp_path)) as custodian:
        release = custodian.publish("private-columns", tmp_path / "out.csv", epsilon=Fraction(1, 100))
        assert custodian.publish("private-columns", tmp_path / "fine.csv", epsilon=4).warnings == ()
    assert "hardly more than their domains" in release.warnings[-1]


def test_more_columns_than_epsilon_carries_are_told(tmp_path: Path) -> None:
    """The warning says how many it could carry."""
    many = ", ".join(f"c{i}: {{kind: integer, lower: 0, upper: 9}}" for i in range(40))
    (tmp_path / "t.csv").write_text(",".join(f"c{i}" for i in range(40)) + "\n" + (",".join("3" * 40) + "\n") * 40)
    schema_path = write_dataset(tmp_path, columns=f"{{{many}}}")
    (tmp_path / "t.csv").write_text(",".join(f"c{i}" for i in range(40)) + "\n" + (",".join("3" * 40) + "\n") * 40)
    with Custodian.open(schema_path) as custodian:
        [warning] = custodian.publish("private-columns", tmp_path / "out.csv", epsilon=2).warnings
    assert "of the 40 columns could be carried" in warning


def test_what_fails_after_the_charge_stays_charged(
    synthetic_schema_path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No refund: the rows were counted. Nothing is half-written, and the sentence says so."""

    def fail_to_write(*_: object) -> None:
        raise Unavailable("the released table cannot be written; check that the disk has room")

    monkeypatch.setattr("discreet.release.publish_synthetic.write_released_table", fail_to_write)
    with Custodian.open(synthetic_schema_path) as custodian:
        with pytest.raises(Unavailable, match="what was charged stays charged"):
            custodian.publish("private-columns", tmp_path / "out.csv", epsilon=1)
        [balance, *_] = custodian.budget()
    assert balance.epsilon == 1
    assert not list(tmp_path.glob("out*"))


def test_an_unwritable_place_is_refused_before_the_charge(synthetic_schema_path: Path) -> None:
    """Nothing is charged where nothing could be written."""
    with Custodian.open(synthetic_schema_path) as custodian:
        with pytest.raises(Unavailable):
            custodian.publish("private-columns", "/proc/out.csv", epsilon=1)
        [balance, *_] = custodian.budget()
    assert balance.epsilon == 0


@pytest.mark.parametrize("rows", [3, 39, 41, 400])
@pytest.mark.parametrize("method", METHODS)
def test_a_table_with_other_rows_than_declared_still_gives_as_many(tmp_path: Path, method: str, rows: int) -> None:
    """The number of rows in the file is the public one, whatever the table has."""
    schema_path = write_dataset(tmp_path)
    (tmp_path / "t.csv").write_text("x,y\n" + "".join(f"{i % 10},{i % 2}\n" for i in range(rows)))
    with Custodian.open(schema_path) as custodian:
        release = custodian.publish(method, tmp_path / "out.csv", epsilon=1)
    assert release.rows == 40
    assert f"{rows} units were found and 40 are declared" in release.warnings[0]


def test_two_draws_differ_and_both_are_charged(synthetic_schema_path: Path, tmp_path: Path) -> None:
    """A file is drawn anew each time: nothing is stored that could be had again for free."""
    with Custodian.open(synthetic_schema_path) as custodian:
        for name in ("one.csv", "two.csv"):
            custodian.publish("private-columns", tmp_path / name, epsilon=1, columns=["stay"])
        [balance, *_] = custodian.budget()
    one, two = (sorted(read_columns_of(tmp_path / name)["stay"], key=str) for name in ("one.csv", "two.csv"))
    assert balance.epsilon == 2
    assert one != two


def test_the_error_is_told_beforehand_for_nothing(synthetic_schema_path: Path, tmp_path: Path) -> None:
    """The same figures that the manifest has afterwards; of every method where none is named, with one to choose."""
    words = [synthetic_schema_path, "--epsilon", 4, *[word for name in FEW for word in ("--column", name)]]
    document = run_successfully("publish", "preview", *words, "--json").document
    assert [plan["method"] for plan in document["plans"]] == list(METHODS)
    assert document["recommended"].startswith("Choose private-linked")
    for plan in document["plans"]:
        out = tmp_path / f"{plan['method']}.csv"
        release = run_successfully("publish", plan["method"], *words, "--out", out, "--json").document
        rounded = {name: float(round_up(error, 3)) for name, error in plan["expected_error"].items()}
        assert release["manifest"]["expected_error"] == rounded
    assert run_successfully("budget", synthetic_schema_path, "--json").document[0]["spent"]["epsilon"] == "12"
    output = run_successfully("publish", "preview", *words).out
    assert "Nothing was charged" in output
    assert "private-records" in output
    little = run_successfully("publish", "preview", *words[:1], "--epsilon", "0.0001", "--json").document
    assert little["recommended"].startswith("Choose private-columns")


def test_a_k_that_is_not_used_is_told(tmp_path: Path) -> None:
    """A column that may be missing has no ranks of all rows."""
    columns_text = "{x: {kind: integer, lower: 0, upper: 9, missing: 0}, y: {kind: integer, lower: 0, upper: 1}}"
    with Custodian.open(write_dataset(tmp_path, columns=columns_text)) as custodian:
        [plan] = custodian.estimate_error("private-columns", k=5, epsilon=2)
    assert plan.column_methods["x"] == "rank blocks of 5"
    assert any("k is not used for y" in warning for warning in plan.warnings)


@pytest.mark.parametrize("method", METHODS)
def test_nothing_of_the_layout_comes_from_the_rows(tmp_path: Path, method: str) -> None:
    """Tables with other maxima, spreads and numbers of values: the same cells, blocks, noise and stated errors."""
    manifests = []
    for name, values in (("low", [0] * 40), ("high", [*range(10)] * 4)):
        folder = tmp_path / name
        folder.mkdir()
        schema_path = write_dataset(folder)
        (folder / "t.csv").write_text("x,y\n" + "".join(f"{value},{value % 2}\n" for value in values))
        with Custodian.open(schema_path) as custodian:
            release = custodian.publish(method, folder / "out.csv", epsilon=1)
        parts = ("recipe", "guarantee", "made", "expected_error", "columns")
        manifests.append([release.manifest[part] for part in parts] + [release.warnings])
    assert manifests[0] == manifests[1]
