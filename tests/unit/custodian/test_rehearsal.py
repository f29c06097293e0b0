"""A rehearsal: every call, on a table made up from the schema alone; nothing real is opened or charged."""

from __future__ import annotations

import json
import pickle
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import duckdb
import pytest

from discreet import Answer, Custodian, InvalidInput, Unavailable, load_schema
from discreet.custodian.rehearsal import MAX_ROWS_PER_UNIT, REHEARSAL_NOTE, generate_fake_columns
from discreet.planner.public_facts import read_structural_zeros
from discreet.query import parse_sql
from discreet.sample import write_registry

FROM_REGISTRY = "FROM registry"
QUESTIONS: list[tuple[str, dict[str, Any]]] = [
    (f"SELECT COUNT(*) {FROM_REGISTRY} WHERE smoker AND age < 30", {"prior": "normal(1300, 100)"}),
    (f"SELECT COUNT(income) {FROM_REGISTRY}", {}),
    (f"SELECT COUNT(DISTINCT person_id) {FROM_REGISTRY} WHERE diagnosis = 'cancer'", {}),
    (f"SELECT SUM(stay), COUNT(*) FILTER (WHERE age < 40), COUNT(*) FILTER (WHERE age < 65) {FROM_REGISTRY}", {}),
    (f"SELECT AVG(income) {FROM_REGISTRY} WHERE sex = 'F'", {"prior": "normal(30000, 4000)"}),
    (f"SELECT AVG(smoker) {FROM_REGISTRY}", {}),
    (f"SELECT VAR(bmi) {FROM_REGISTRY}", {}),
    (f"SELECT STDDEV(bmi) {FROM_REGISTRY} WHERE sex = 'F'", {}),
    (f"SELECT MEDIAN(age) {FROM_REGISTRY} WHERE sex = 'F'", {"prior": "normal(55, 6)"}),
    (f"SELECT MEDIAN(age) {FROM_REGISTRY}", {"interval": True}),
    (f"SELECT QUANTILE(income, 0.1, 0.5, 0.9) {FROM_REGISTRY}", {}),
    (f"SELECT MEDIAN(admitted) {FROM_REGISTRY}", {"prior": "normal(2020-06-01, 90)"}),
    (f"SELECT MIN(age) {FROM_REGISTRY}", {}),
    (f"SELECT MAX(income) {FROM_REGISTRY}", {"prior": "normal(400000, 9000)"}),
    (f"SELECT SECOND_MAX(stay) {FROM_REGISTRY}", {}),
    (f"SELECT MODE(diagnosis) {FROM_REGISTRY}", {}),
    (f"SELECT MODE(sex) {FROM_REGISTRY}", {"prior": '{"F": 3, "M": 1}'}),
    (f"SELECT HISTOGRAM(income, 1024) {FROM_REGISTRY}", {}),
    (f"SELECT HISTOGRAM(age, 8) {FROM_REGISTRY}", {"prior": "normal(6000, 500)"}),
    (f"SELECT hospital, COUNT(*) {FROM_REGISTRY} GROUP BY hospital ORDER BY 2 DESC LIMIT 3", {}),
    (f"SELECT BIN(age, 10), AVG(income) {FROM_REGISTRY} GROUP BY BIN(age, 10)", {}),
    (f"SELECT hospital, sex, COUNT(*) {FROM_REGISTRY} GROUP BY ROLLUP (hospital, sex)", {}),
    (
        f"SELECT chapters.chapter, COUNT(*) {FROM_REGISTRY} JOIN chapters USING (diagnosis) GROUP BY chapters.chapter",
        {},
    ),
    (f"SELECT COUNT(*) {FROM_REGISTRY} WHERE education IS NULL OR admitted BETWEEN '2016-01-01' AND '2016-12-31'", {}),
    (f"SELECT COUNT(*) {FROM_REGISTRY} WHERE hospital = 'Alder'", {}),
]

EVERY_KIND_SCHEMA = """
name: visits
source: SOURCE
NEIGHBOURS
unit: {column: person, rows: ROWS}
budget: {epsilon: 1, delta: 1e-6}
models: [dp, approx-dp]
partition: ward
impossible: ["ward = 'a, \\"b\\"' AND old", "level IS NULL AND cost < -5"]
columns:
  person: {role: identifier}
  age: {kind: integer, lower: -5, upper: 99, step: 1, missing: 0}
  cost: {kind: number, lower: -10, upper: 10.5, step: 1/2}
  third: {kind: number, lower: 0, upper: 100, step: 1/3}
  tiny: {kind: number, lower: 1e-9, upper: 3e-9, step: 1e-9}
  one: {kind: integer, lower: 7, upper: 7}
  old: {kind: boolean, missing: false}
  seen: {kind: date, lower: 0001-01-01, upper: 9999-12-31}
  level: {kind: ordinal, categories: [low, " mid", high]}
  ward: {kind: nominal, categories: ['a, "b"', "it's", é]}
  town: {kind: nominal, keys: private, missing_values: [town 1]}
"""


def write_every_kind(folder: Path, source: str = "nowhere.csv", rows: int = 1, neighbors: str = "add-remove") -> Path:
    relation_lines = "neighbours: add-remove" if neighbors == "add-remove" else "neighbours: replace-one\nunits: 777777"
    text = EVERY_KIND_SCHEMA.replace("SOURCE", source).replace("NEIGHBOURS", relation_lines).replace("ROWS", str(rows))
    (folder / "visits.yaml").write_text(text)
    return folder / "visits.yaml"


@pytest.fixture(scope="module")
def rehearsal(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The sample registry's rehearsal; its rows are taken away before, so that none can be read."""
    schema = write_registry(tmp_path_factory.mktemp("registry"), patients=50)
    schema.write_text(schema.read_text().replace("units: 50\n", "units: 50000\n"))
    (schema.parent / "registry.csv").unlink()
    with Custodian.rehearse(schema) as custodian:
        yield custodian
    assert not (schema.parent / "registry.discreet").exists()
    assert not custodian.schema.folder.exists()


@pytest.mark.parametrize(("question", "options"), QUESTIONS)
def test_every_kind_of_question_runs(rehearsal: Custodian, question: str, options: dict[str, Any]) -> None:
    """As the README shows them; the answer says that it is a rehearsal, and so does the preview."""
    assert rehearsal.preview(question, epsilon=1, **options).warnings[0] == REHEARSAL_NOTE
    answer = rehearsal.answer(question, epsilon=1, **options)
    assert answer.warning is not None
    assert answer.warning.startswith(REHEARSAL_NOTE)
    document = json.loads(json.dumps(answer.to_json()))
    assert document["rows"]
    assert answer.to_arrow().num_rows == len(answer.rows)
    copied = Answer.from_json(document, answer.prior)
    assert copied == answer == pickle.loads(pickle.dumps(answer))
    assert json.loads(json.dumps(copied.to_json())) == document
    assert copied.to_arrow() == answer.to_arrow()
    spec = answer.picture_spec()
    assert (spec is None) != answer.has_picture
    assert "nan" not in json.dumps(spec).lower()
    assert json.loads(json.dumps(spec)) is not None or spec is None


def test_the_other_calls_run_too(rehearsal: Custodian) -> None:
    near = rehearsal.answer(f"SELECT COUNT(*) {FROM_REGISTRY} WHERE stay > 30", accuracy="±50 at 95%", analyst="bob")
    assert near.cost.epsilon is not None
    with rehearsal.session(noise_scale=20, epsilon=0.1, analyst="bob") as session:
        counted = session.answer(f"SELECT COUNT(*) {FROM_REGISTRY} WHERE age BETWEEN 20 AND 29")
        assert counted.warning == REHEARSAL_NOTE
    histogram = rehearsal.answer(f"SELECT HISTOGRAM(income, 64) {FROM_REGISTRY}", epsilon=1)
    assert histogram.range(20_000, 30_000).value is not None
    assert rehearsal.answer(f"SELECT AVG(smoker) {FROM_REGISTRY}", epsilon=1).population()
    assert rehearsal.history("bob")
    assert rehearsal.budget("bob")
    assert rehearsal.estimate_error(epsilon=1, columns=["age", "stay", "smoker"])
    assert not rehearsal.is_stale()


@pytest.mark.parametrize(
    ("method", "options"),
    [("private-columns", {"epsilon": 1}), ("private-linked", {"epsilon": 1}), ("ir-swap", {"k": 5})],
)
def test_a_file_says_that_it_is_a_rehearsal(
    rehearsal: Custodian, tmp_path: Path, method: str, options: dict[str, Any]
) -> None:
    columns = {"columns": ["age", "stay"]} if method.startswith("private") else {}
    release = rehearsal.publish(method, tmp_path / "file.csv", **options, **columns)
    assert release.warnings[0] == REHEARSAL_NOTE
    assert not any("mend the schema" in warning for warning in release.warnings)
    assert json.loads(release.manifest_file.read_text())["note"] == REHEARSAL_NOTE


def test_numbers_are_those_of_as_many_people_as_are_declared(rehearsal: Custodian) -> None:
    """Even over what is public; a mean of the declared number of rows too."""
    count = rehearsal.answer(f"SELECT COUNT(*) {FROM_REGISTRY} WHERE sex = 'F'", epsilon=100).value
    assert count == pytest.approx(50_000 * 0.98 / 2, rel=0.05)
    income = rehearsal.answer(f"SELECT AVG(income) {FROM_REGISTRY} WHERE sex = 'F'", epsilon=100).value
    assert income == pytest.approx(250_000, rel=0.05)
    variance = rehearsal.answer("SELECT VAR(age) FROM registry WHERE age IS NOT NULL", epsilon=100).value
    assert variance == pytest.approx(74**2 / 12, rel=0.1)


def test_what_would_be_refused_is_refused(rehearsal: Custodian) -> None:
    """By the same public facts: the number of people, say, or what is allowed."""
    with pytest.raises(InvalidInput, match="the prior lies outside what"):
        rehearsal.answer(f"SELECT COUNT(*) {FROM_REGISTRY} WHERE sex = 'F'", epsilon=1, prior="normal(900000, 5)")
    with pytest.raises(InvalidInput, match="approx-dp is not allowed"):
        rehearsal.answer(f"SELECT COUNT(*) {FROM_REGISTRY} WHERE sex = 'F'", epsilon=1, delta=1e-9)
    with pytest.raises(InvalidInput, match="not allowed"):
        rehearsal.answer(f"SELECT age {FROM_REGISTRY} FOR UNIT '7'", epsilon=1)


def test_a_prior_for_the_real_number_of_people_fits(rehearsal: Custodian) -> None:
    """Although fewer rows are made up than are declared."""
    answer = rehearsal.answer(f"SELECT COUNT(*) {FROM_REGISTRY} WHERE sex = 'M'", epsilon=1, prior="normal(24500, 300)")
    assert answer.posterior is not None
    assert answer.posterior.mean() == pytest.approx(24_500, abs=900)


def test_the_budget_does_not_end(rehearsal: Custodian) -> None:
    for _ in range(3):
        rehearsal.answer(f"SELECT COUNT(*) {FROM_REGISTRY} WHERE sex = 'F'", epsilon=1000, fresh=True, analyst="eve")
    assert rehearsal.preview(f"SELECT COUNT(*) {FROM_REGISTRY} WHERE age < 50", epsilon=1).times == 10**6


def test_the_real_ledger_and_the_real_rows_stay_untouched(tmp_path: Path) -> None:
    """With the data set open beside it, and in a folder of its own."""
    schema = write_registry(tmp_path, patients=200)
    with Custodian.open(schema) as real, Custodian.rehearse(schema, tmp_path / "rehearsal") as rehearsal:
        real.answer(f"SELECT COUNT(*) {FROM_REGISTRY} WHERE sex = 'F'", epsilon=1)
        before = (
            real.history(),
            real.budget("analyst"),
            _read_bytes(tmp_path / "registry.discreet" / "snapshot-1.duckdb"),
        )
        for question, options in QUESTIONS[:5]:
            rehearsal.answer(question, epsilon=1, **options | {"prior": None})
        rehearsal.session(noise_scale=20, epsilon=1)
        rehearsal.publish("private-columns", tmp_path / "file.csv", epsilon=1, columns=["age", "stay"])
        after = (
            real.history(),
            real.budget("analyst"),
            _read_bytes(tmp_path / "registry.discreet" / "snapshot-1.duckdb"),
        )
        assert before == after


def _read_bytes(file: Path) -> bytes:
    return file.read_bytes()


def test_no_source_is_ever_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither by Python nor by an engine: every file that is opened is the schema's, or in the rehearsal's folder."""
    schema = write_registry(tmp_path / "real", patients=200)
    Custodian.check(schema)
    opened: list[str] = []
    watching = True

    def watch_opening(event: str, arguments: tuple[Any, ...]) -> None:
        if watching and event == "open" and isinstance(arguments[0], str | Path):
            opened.append(str(arguments[0]))

    sys.addaudithook(watch_opening)
    connect = duckdb.connect
    monkeypatch.setattr(
        duckdb, "connect", lambda *place, **options: opened.extend(map(str, place)) or connect(*place, **options)
    )
    with Custodian.rehearse(schema, tmp_path / "rehearsal") as rehearsal:
        rehearsal.answer(f"SELECT COUNT(*) {FROM_REGISTRY} WHERE sex = 'F'", epsilon=1)
    watching = False
    real = [Path(name) for name in opened if name.startswith(str(tmp_path / "real"))]
    assert {path.name for path in real} == {"registry.yaml", "occupation.json", "diagnosis.json", "chapters.csv"}
    assert any(name.startswith(str(tmp_path / "rehearsal")) for name in opened)


@pytest.mark.parametrize(
    ("source", "neighbors", "rows"),
    [
        ("nowhere.csv", "add-remove", 1),
        ("nowhere.parquet", "replace-one", 9),
        ("postgresql://user@127.0.0.1:1/none#visits", "replace-one", 1),
        ("spark:none.visits", "add-remove", 2),
    ],
)
def test_every_kind_of_column_and_every_engine(tmp_path: Path, source: str, neighbors: str, rows: int) -> None:
    """Whatever the source, of which none is there; awkward names, steps and bounds."""
    schema = write_every_kind(tmp_path, source, rows, neighbors)
    with Custodian.rehearse(schema) as custodian:
        for text in (
            "SELECT AVG(age), AVG(cost), SUM(third), AVG(tiny), AVG(one), MODE(old) FROM visits",
            "SELECT MEDIAN(seen) FROM visits",
            "SELECT level, COUNT(*) FROM visits GROUP BY level",
            "SELECT COUNT(*) FROM visits WHERE ward = 'a, \"b\"'",
            "SELECT COUNT(DISTINCT person) FROM visits WHERE age > 3",
        ):
            assert custodian.answer(text, epsilon=10).rows
        towns = custodian.answer("SELECT town, COUNT(*) FROM visits GROUP BY town", epsilon=10, delta=1e-7)
        assert {row["town"] for row in towns.rows} == {f"town {number}" for number in (2, 3, 4, 5)}  # 1 is missing
        noisy = custodian.answer("SELECT COUNT(*) FROM visits WHERE old", noise_scale=30, delta=1e-7, model="approx-dp")
        assert noisy.warning == REHEARSAL_NOTE
    assert [path.name for path in tmp_path.iterdir()] == ["visits.yaml"]


def test_values_are_read_as_they_were_made_up(tmp_path: Path) -> None:
    """None is unreadable or moved to a bound, and few are missing."""
    folder = tmp_path / "rehearsal"
    Custodian.rehearse(write_every_kind(tmp_path), folder).close()
    (manifest,) = folder.rglob("manifest.json")
    columns = json.loads(manifest.read_text())["snapshots"][0]["report"]["columns"]
    for name, fake_values in columns.items():
        assert (fake_values["unreadable"], fake_values["clipped"]) == (0, 0), name
        most = 300 if name == "town" else 50  # a fifth more, of the value that is declared missing
        stands_for_a_value = name in {"age", "old"}
        assert (fake_values["missing"] == 0) if stands_for_a_value else (0 < fake_values["missing"] < most), name


def test_one_person(tmp_path: Path) -> None:
    """Units are named 1, 2, 3, ...; nobody else is there, and is answered from the prior."""
    schema = write_every_kind(tmp_path)
    schema.write_text(schema.read_text() + "individual_queries: yes\n")
    with Custodian.rehearse(schema) as custodian:
        assert custodian._source.individual("age", "1000") is not None
        assert custodian._source.individual("age", "1001") is None
        for unit in ("1", "1001"):
            answer = custodian.answer(f"SELECT old FROM visits FOR UNIT '{unit}'", epsilon=1)
            assert answer.value in {True, False}


def test_ranks_of_a_public_number_of_rows_are_rehearsed(tmp_path: Path) -> None:
    schema = write_every_kind(tmp_path, neighbors="replace-one")
    text = schema.read_text().replace("[dp, approx-dp]", "[dp, individual-dp]\nindividual_dp_reason: a test")
    schema.write_text(text.replace("units: 777777", "units: 77777"))
    with Custodian.rehearse(schema) as custodian:
        trimmed = custodian.answer("SELECT TRIMMED_MEAN(age, 0.1) FROM visits", epsilon=1)
        assert trimmed.value == pytest.approx(47, abs=5)
        answer = custodian.answer("SELECT MEDIAN(age) FROM visits", epsilon=1, model="individual-dp")
        assert answer.guarantee.model == "individual-dp"
        assert isinstance(answer.value, int)
        assert 0 < answer.value < 99


@pytest.mark.parametrize("rows", [1, 2, 9])
def test_units_have_no_more_rows_than_declared(tmp_path: Path, rows: int) -> None:
    owners = Counter(generate_fake_columns(load_schema(write_every_kind(tmp_path, rows=rows)))["person"])
    assert set(owners) == {str(number) for number in range(1, 1001)}
    assert set(owners.values()) == set(range(1, min(rows, MAX_ROWS_PER_UNIT) + 1))


def test_no_made_up_row_is_impossible(tmp_path: Path) -> None:
    schema = load_schema(write_every_kind(tmp_path))
    assert len(read_structural_zeros(schema).predicates) == 2
    with Custodian.rehearse(tmp_path / "visits.yaml") as custodian:
        for condition in schema.impossible:
            answer = custodian.answer(f"SELECT COUNT(*) FROM visits WHERE {condition}", epsilon=9999)
            assert parse_sql(f"SELECT COUNT(*) FROM visits WHERE {condition}", schema)
            assert answer.value == 0


def test_a_schema_that_leaves_nothing_possible_is_made_up_all_the_same(tmp_path: Path) -> None:
    schema = write_every_kind(tmp_path)
    schema.write_text(schema.read_text().replace("level IS NULL AND cost < -5", "one = 7 OR one IS NULL"))
    with Custodian.rehearse(schema) as custodian:
        assert custodian.answer("SELECT COUNT(*) FROM visits WHERE age > 3", epsilon=1).warning == REHEARSAL_NOTE


def test_the_table_is_the_same_everywhere_and_follows_from_the_schema_alone(tmp_path: Path) -> None:
    """The rows of a real table change nothing of it; the budgets neither."""
    schema = write_registry(tmp_path, patients=300)
    fake_columns = generate_fake_columns(load_schema(schema))
    assert len(fake_columns["age"]) == 300  # the declared number of people is public
    (tmp_path / "registry.csv").write_text("nothing")
    schema.write_text(schema.read_text().replace("epsilon: 3,", "epsilon: 7,"))
    assert generate_fake_columns(load_schema(schema)) == fake_columns
    assert [fake_columns["person_id"][0], fake_columns["age"][:3], fake_columns["admitted"][0]] == [
        "1",
        ["27", "83", "43"],
        "2018-03-24",
    ]


REHEARSE_SCRIPT = """
import sys
from discreet import Custodian
with Custodian.rehearse(sys.argv[1], sys.argv[2]) as custodian:
    print(custodian.answer("SELECT COUNT(*) FROM registry WHERE sex = 'F'", epsilon=1).value)
"""


@pytest.mark.parametrize("processes", [2, pytest.param(3, marks=pytest.mark.soak)])
def test_several_processes_at_once_share_one(tmp_path: Path, processes: int) -> None:
    """Whoever is first makes the table. Who asks before another's answer is stored pays for one more, in one ledger."""
    schema = write_registry(tmp_path, patients=300)
    command = [sys.executable, "-c", REHEARSE_SCRIPT, str(schema), str(tmp_path / "rehearsal")]
    running = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(processes)]
    outputs = [process.communicate()[0] for process in running]
    assert [process.returncode for process in running] == [0] * processes
    assert len(list((tmp_path / "rehearsal").rglob("*.duckdb"))) == 1
    with Custodian.rehearse(schema, tmp_path / "rehearsal") as custodian:
        second = custodian.answer("SELECT COUNT(*) FROM registry WHERE sex = 'F'", epsilon=1)
        paid = sum(entry.kind == "charge" for entry in custodian.history())
    assert f"{second.value}\n" in outputs
    assert len(set(outputs)) <= paid <= processes


def test_a_schema_that_changed_gets_another_table(tmp_path: Path) -> None:
    """In the same folder, whatever changed: a bound, the number of people, whom a promise is made to."""
    schema = write_registry(tmp_path, patients=300)
    for old, new in (("upper: 90", "upper: 99"), ("units: 300", "units: 400"), ("rows: 1", "rows: 2")):
        schema.write_text(schema.read_text().replace(old, new))
        with Custodian.rehearse(schema, tmp_path / "rehearsal") as custodian:
            assert custodian.answer(f"SELECT MAX(age) {FROM_REGISTRY}", epsilon=1000).rows
    assert len(list((tmp_path / "rehearsal").iterdir())) == 3


def test_a_folder_that_cannot_be_made_is_told(tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("")
    with pytest.raises(Unavailable, match="for a rehearsal cannot be made; check its owner and the disk"):
        Custodian.rehearse(write_registry(tmp_path, patients=30), tmp_path / "taken")
