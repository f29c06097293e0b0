"""Every command, as people read it and as JSON."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
from datetime import datetime
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from discreet import Custodian
from discreet.formatting import format_number
from support.command_line import PATIENTS, digest_files, run_discreet, run_successfully, write_registry
from support.ledger_stores import create_postgres_schema

COUNT = "SELECT COUNT(*) FROM registry WHERE age >= 40"
GROUPS = "SELECT hospital, COUNT(*) FROM registry GROUP BY hospital"
HEAVY_MODULES = {"duckdb", "numpy", "pandas", "psycopg", "pyspark", "rich", "sqlalchemy", "sqlglot", "yaml"}
COMMANDS = (["init"], ["check"], ["ask"], ["preview"], ["budget"], ["history"], ["ledger"], ["ledger", "verify"])
COMMANDS += (["publish"], ["verify"], ["assess"], ["audit"])


@pytest.fixture(scope="module")
def registered_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a data set that is registered and was never asked."""
    folder = tmp_path_factory.mktemp("registered")
    run_successfully("check", write_registry(folder))
    return folder


@pytest.fixture
def schema_path(registered_folder: Path, tmp_path: Path) -> Path:
    """The schema of a data set of one's own, registered and never asked."""
    return shutil.copytree(registered_folder, tmp_path / "own") / "registry.yaml"


@pytest.fixture
def unregistered_path(tmp_path: Path) -> Path:
    """The schema of a data set that is not registered."""
    (tmp_path / "new").mkdir()
    return write_registry(tmp_path / "new")


def run_process(*words: object, **settings: str) -> subprocess.CompletedProcess[str]:
    """Run a command in a process of its own, with settings in its environment."""
    command = [sys.executable, "-m", "discreet", *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, check=False, env={**os.environ, **settings})


# --- help and version


@pytest.mark.parametrize("words", [[], *COMMANDS], ids=lambda words: " ".join(words) or "discreet")
def test_help_is_quick(words: list[str]) -> None:
    """No library that takes long to load is loaded to show help."""
    script = f"import sys; sys.argv = ['discreet', *{words!r}, '--help']\nfrom discreet.cli.main import main\n"
    script += "try:\n    main()\nfinally:\n    print(*sys.modules, file=sys.stderr)"
    completed = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert completed.stdout.startswith(f"Usage: discreet{''.join(' ' + word for word in words)}")
    assert "typer" in completed.stderr.split()
    assert HEAVY_MODULES & set(completed.stderr.split()) == set()


def test_without_a_command_help_is_shown() -> None:
    assert run_successfully().out == run_successfully("--help").out


def test_the_version_is_that_of_the_package() -> None:
    from discreet import __version__

    assert run_successfully("--version").out == f"discreet {__version__}\n"
    assert run_process("--version").stdout == f"discreet {__version__}\n"


@pytest.mark.parametrize(
    "words",
    [["nothing"], ["ask"], ["ask", "a", "b"], ["budget", "--limit"], ["history", "x", "--limit", "0"], ["ledger"]],
)
def test_words_that_are_not_understood_are_told_in_one_sentence(words: list[str]) -> None:
    outcome = run_discreet(*words)
    assert (outcome.code, outcome.out) == (2, "")
    assert re.fullmatch(r"discreet: [^\n]+; see --help\n", outcome.err)
    document_outcome = run_discreet(*words, "--json")
    assert document_outcome.document["error"]["exit"] == 2


# --- init


def test_init_drafts_what_the_custodian_must_decide(unregistered_path: Path, tmp_path: Path) -> None:
    """The draft is refused until all is decided, and it names the data wherever it is written."""
    data, draft = unregistered_path.with_name("registry.csv"), tmp_path / "draft.yaml"
    output = run_successfully("init", data, "--output", draft).out
    assert "Replace every DECIDE" in output
    assert "leak" in output
    assert str(data) in draft.read_text()
    refusal = run_discreet("check", draft)
    assert refusal.code == 2
    assert "still to decide" in refusal.err


def test_init_never_overwrites(unregistered_path: Path) -> None:
    before = digest_files(unregistered_path.parent)
    refusal = run_discreet("init", unregistered_path.with_name("registry.csv"), "--output", unregistered_path)
    assert refusal.code == 2
    assert "overwrite" in refusal.err
    assert digest_files(unregistered_path.parent) == before


def test_init_prints_the_draft(unregistered_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Beside the data, the draft names it as it was typed."""
    monkeypatch.chdir(unregistered_path.parent)
    text = run_successfully("init", "registry.csv").out
    assert 'source: "registry.csv"' in text
    assert run_successfully("init", "registry.csv", "--json").document == {"schema": text, "output": None}
    run_successfully("init", "registry.csv", "--output", "draft.yaml")
    assert Path("draft.yaml").read_text() == text


# --- check


def test_check_registers_once(unregistered_path: Path) -> None:
    """A second check shows the same report; a refresh makes a second snapshot."""
    first = run_successfully("check", unregistered_path).out
    assert "Snapshot 1 of registry is registered." in first
    assert re.search(r"rows read +2,000 *\n", first)
    assert re.search(r"units found +2,000 \(2,000 declared\) *\n", first)
    assert re.search(r"column +missing +unreadable +clipped", first)
    assert "Warning" not in first
    second = run_successfully("check", unregistered_path).out
    assert "registered already, as snapshot 1" in second
    assert first.splitlines()[1:] == second.splitlines()[1:]
    document = run_successfully("check", unregistered_path, "--refresh", "--name", "june", "--json").document
    assert document["snapshot"] == "june"
    assert document["report"]["rows_read"] == PATIENTS
    assert set(document["report"]["columns"]["age"]) == {"missing", "unreadable", "clipped"}


def test_another_source_is_sought_from_where_one_is(schema_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(schema_path.parent.parent)
    document = run_successfully(
        "check", "own/registry.yaml", "--refresh", "--source", "own/registry.csv", "--json"
    ).document
    assert document["snapshot"] == "2"


def test_a_wrong_number_of_units_is_pointed_out(unregistered_path: Path) -> None:
    text = unregistered_path.read_text()
    unregistered_path.write_text(text.replace(f"units: {PATIENTS}", "units: 2500"))
    output = run_successfully("check", unregistered_path).out
    assert "Warning: 2,000 units were found and 2,500 are declared." in " ".join(output.split())


@pytest.mark.parametrize("options", [["--name", "june"], ["--source", "other.csv"], ["--disjoint"]])
def test_what_is_meant_for_a_new_snapshot_needs_refresh(schema_path: Path, options: list[str]) -> None:
    refusal = run_discreet("check", schema_path, *options)
    assert refusal.code == 2
    assert "--refresh" in refusal.err


def test_a_refreshed_data_set_goes_on_answering(schema_path: Path) -> None:
    """What was spent carries over."""
    run_successfully("ask", schema_path, COUNT, "--epsilon", "0.5")
    run_successfully("check", schema_path, "--refresh")
    for _ in range(2):
        run_successfully("ask", schema_path, COUNT, "--epsilon", "0.25")
    spent = run_successfully("budget", schema_path, "--json").document[0]["spent"]["epsilon"]
    assert spent == "3/4"


# --- ask


def test_a_value_comes_with_its_interval_promise_and_cost(schema_path: Path) -> None:
    output = run_successfully("ask", schema_path, COUNT, "--epsilon", "0.5").out
    lines = output.splitlines()
    assert re.fullmatch(r"1,[0-9]{3}", lines[0])
    assert re.fullmatch(r"95 % interval: 1,[0-9]{3}(\.[0-9]+)? to 1,[0-9]{3}(\.[0-9]+)?", lines[1])
    flat = " ".join(output.split())
    assert "Differential privacy with epsilon 0.5 when one unit (person_id) is replaced by any other." in flat
    assert "cost epsilon 0.5, as entry" in flat
    assert "left 2.5 of 3 for the data set, 0.5 of 1 for analyst" in flat
    assert "\x1b" not in output


def test_groups_are_a_table_with_bars(schema_path: Path) -> None:
    output = run_successfully("ask", schema_path, GROUPS, "--epsilon", "1").out
    assert re.search(r"hospital +COUNT\(\*\) +95 % interval", output)
    assert re.search(r"Alder +[0-9]+ +[0-9,]+ to [0-9,]+( +[0-9,]+)? +━+", output)
    document = run_successfully("ask", schema_path, GROUPS, "--epsilon", "1", "--json").document
    assert document["stored"]
    assert document["columns"] == ["hospital", "COUNT(*)"]
    for row in document["rows"]:
        assert re.search(rf"{row['hospital'] or 'missing'} +{row['COUNT(*)']:,} ", output)


def test_the_same_question_again_is_free(schema_path: Path) -> None:
    """The stored answer, also for other words; --fresh pays for another draw."""
    first = run_successfully("ask", schema_path, COUNT, "--epsilon", "0.25", "--json").document
    document = run_successfully(
        "ask", schema_path, "SELECT COUNT(*) FROM registry WHERE NOT age < 40", "--epsilon", "0.25", "--json"
    ).document
    assert (first["stored"], document["stored"]) == (False, True)
    assert (first["rows"], first["entry"]) == (document["rows"], document["entry"])
    assert document["cost"]["epsilon"] == "0"
    assert "nothing: it was answered before" in run_successfully("ask", schema_path, COUNT, "--epsilon", "0.25").out
    assert not run_successfully("ask", schema_path, COUNT, "--epsilon", "0.25", "--fresh", "--json").document["stored"]
    assert run_successfully("budget", schema_path, "--json").document[0]["spent"]["epsilon"] == "1/2"


def test_epsilon_is_a_ceiling(schema_path: Path) -> None:
    """A stored answer of another analyst is degraded to the offer, or taken at its price with --reuse any."""
    run_successfully("ask", schema_path, COUNT, "--epsilon", "0.25", "--analyst", "ann")
    offer = ("--epsilon", "0.1", "--analyst", "bob")
    document = run_successfully("preview", schema_path, COUNT, *offer, "--json").document
    assert (document["reuse"], document["stored_epsilon"], document["cost"]["epsilon"]) == ("degraded", None, "1/10")
    output = " ".join(run_successfully("preview", schema_path, COUNT, *offer).out.split())
    assert "another analyst's answer is stored, and is told with noise added" in output
    assert run_successfully("ask", schema_path, COUNT, *offer, "--json").document["cost"]["epsilon"] == "1/10"
    assert "0.1, a stored answer with noise added" in run_successfully("history", schema_path, "--analyst", "bob").out
    other = ("--epsilon", "0.1", "--analyst", "cat", "--reuse", "any")
    document = run_successfully("preview", schema_path, COUNT, *other, "--json").document
    assert (document["reuse"], document["stored_epsilon"], document["cost"]["epsilon"]) == ("shared", None, "1/4")
    assert run_successfully("ask", schema_path, COUNT, *other, "--json").document["cost"]["epsilon"] == "1/4"
    assert run_successfully("budget", schema_path, "--json").document[0]["spent"]["epsilon"] == "1/4"
    refusal = run_discreet("ask", schema_path, COUNT, "--epsilon", "0.1", "--reuse", "all")
    assert refusal.code == 2
    assert 'reuse is "any"' in refusal.err


def test_a_key_makes_a_retry_safe(schema_path: Path) -> None:
    words = ("ask", schema_path, COUNT, "--epsilon", "0.25", "--fresh", "--key", "k1", "--json")
    assert run_successfully(*words).document["value"] == run_successfully(*words).document["value"]
    assert run_successfully("budget", schema_path, "--json").document[0]["spent"]["epsilon"] == "1/4"


def test_a_question_may_come_from_standard_input(schema_path: Path) -> None:
    first = run_successfully("ask", schema_path, COUNT, "--epsilon", "0.1", "--json").document
    document = run_successfully("ask", schema_path, "-", "--epsilon", "0.1", "--json", typed=COUNT.encode()).document
    assert (document["value"], document["stored"]) == (first["value"], True)


def test_what_the_schema_says_costs_nothing(schema_path: Path) -> None:
    output = run_successfully("ask", schema_path, "SELECT COUNT(*) FROM registry", "--epsilon", "0.1").out
    assert output.startswith("2,000\n")
    assert "nothing: the schema makes it public" in output


def test_two_numbers_stand_side_by_side(schema_path: Path) -> None:
    output = run_successfully(
        "ask", schema_path, "SELECT AVG(age) AS mean, COUNT(*) FROM registry WHERE stay > 3", "--epsilon", "1"
    ).out
    assert re.search(r"mean +95 % interval +COUNT\(\*\) +95 % interval", output)


def test_the_first_question_registers(unregistered_path: Path) -> None:
    assert re.match(r"1,[0-9]{3}\n", run_successfully("ask", unregistered_path, COUNT, "--epsilon", "0.5").out)


def test_a_refused_first_question_registers_nothing(unregistered_path: Path) -> None:
    before = digest_files(unregistered_path.parent)
    assert run_discreet("ask", unregistered_path, "SELECT nothing", "--epsilon", "1").code == 2
    assert digest_files(unregistered_path.parent) == before


# --- what is known already, and how near an answer should be


def test_what_is_known_comes_with_what_it_means(schema_path: Path) -> None:
    """Raw value, interval, posterior and a plain sentence; in JSON the same numbers."""
    words = ("ask", schema_path, COUNT, "--epsilon", "0.2", "--prior", "normal(1560, 30)")
    lines, document = run_successfully(*words).out.splitlines(), run_successfully(*words, "--json").document
    raw, posterior = document["value"], document["posteriors"][0]["COUNT(*)"]
    assert lines[0] == f"{raw:,}"
    assert re.fullmatch(r"95 % interval: 1,[0-9]{3} to 1,[0-9]{3}", lines[1])
    assert re.fullmatch(r"posterior: mean [0-9,.]+, median [0-9,.]+, 95 % [0-9,.]+ to [0-9,.]+", lines[2])
    assert lines[3].startswith(
        "You believed it to be about 1,560, between 1,501 and 1,619 with a probability of 95 %; "
    )
    assert f"the private answer is {raw:,}; together that makes about {posterior['mean']:,.0f}, between " in lines[3]
    assert lines[3] == document["meaning"]
    low, high = posterior["interval_95"]
    assert low < posterior["mean"] < high
    assert (document["headline"], document["shaped_by_prior"], document["warning"]) == (raw, False, None)


def test_a_prior_far_off_is_warned_of(schema_path: Path) -> None:
    """So far off that no noise hides it; what was drawn stays what is told first."""
    words = ("ask", schema_path, COUNT, "--epsilon", "0.5", "--prior", "normal(100, 5)")
    output, document = run_successfully(*words).out, run_successfully(*words, "--json").document
    assert "Warning: the raw answer lies in the 1 % tails of what your prior predicts" in output
    assert output.startswith(f"{document['value']:,}\n")
    assert document["warning"].startswith("the raw answer lies in the 1 % tails")
    low, high = document["posteriors"][0]["COUNT(*)"]["interval_95"]
    assert low - 20 < document["value"] < high + 20


PRIOR = '{"60": 1, "89": 1}'


def test_a_refinement_is_told_by_its_posterior_mean(schema_path: Path) -> None:
    """The draw is raw, and shaped by the prior: two ages that are far apart, so that the draw says much."""
    words = ("ask", schema_path, "SELECT MAX(age) FROM registry", "--epsilon", "0.75", "--prior", PRIOR)
    lines, document = run_successfully(*words).out.splitlines(), run_successfully(*words, "--json").document
    mean = document["posteriors"][0]["MAX(age)"]["mean"]
    assert (document["headline"], document["shaped_by_prior"]) == (mean, True)
    assert float(lines[0]) == pytest.approx(mean, abs=1e-3)
    assert lines[1] == f"raw: {document['value']}, a draw shaped by your prior"
    assert lines[2].startswith("posterior: mean ")
    assert f"the draw, shaped by your prior, is {document['value']}; together that makes about " in lines[3]


def test_a_median_with_a_prior_is_told_as_it_was_drawn(schema_path: Path) -> None:
    """Its law depends on all rows, so there is no posterior; that it was shaped is told."""
    words = ("ask", schema_path, "SELECT MEDIAN(age) FROM registry", "--epsilon", "0.5", "--prior", "normal(55, 10)")
    lines, document = run_successfully(*words).out.splitlines(), run_successfully(*words, "--json").document
    used = "A tenth of the prior's weight is given to a heavy tail."
    assert lines[:5] == [str(document["value"]), "a draw shaped by your prior", document["meaning"], used, ""]
    assert (document["prior_tail"], document["prior_use"]) == (True, used)
    assert document["meaning"].startswith("Fewer than ")
    assert document["posteriors"] == [{"MEDIAN(age)": None}]


def test_a_tail_can_be_asked_for_and_declined(schema_path: Path) -> None:
    preview_words = (
        "preview",
        schema_path,
        "SELECT MEDIAN(age) FROM registry",
        "--epsilon",
        "0.5",
        "--prior",
        "uniform(40, 60)",
    )
    stated = "The prior is used as stated: values outside 40 to 60 are impossible, also if the truth is one of them."
    for option, words in (((), stated), (("--no-tail",), stated), (("--tail",), "A tenth of the prior's weight")):
        assert run_successfully(*preview_words, *option, "--json").document["prior_use"].startswith(words)
    assert "prior is used as stated" in " ".join(run_successfully(*preview_words).out.split())


def test_a_distance_makes_a_count_a_refinement(schema_path: Path) -> None:
    options = ("--epsilon", "0.5", "--prior", "normal(1560, 60)", "--distance", "continuous")
    document = run_successfully("ask", schema_path, COUNT, *options, "--json").document
    assert document["shaped_by_prior"]
    assert document["mechanism"].startswith("refinement of your prior")
    assert document["headline"] == document["posteriors"][0]["COUNT(*)"]["mean"]


def test_a_date_is_told_as_one(schema_path: Path) -> None:
    """Also where it is the mean of a posterior."""
    schema_path.write_text(schema_path.read_text().replace("individual_queries: no", "individual_queries: yes"))
    words = ("SELECT admitted FROM registry FOR UNIT 'p17'", "--epsilon", "0.5", "--prior", "normal(2020-01-01, 300)")
    lines = run_successfully("ask", schema_path, *words).out.splitlines()
    day = "20[12][0-9]-[01][0-9]-[0-3][0-9]"
    assert re.fullmatch(day, lines[0])
    assert re.fullmatch(f"raw: {day}, a draw shaped by your prior", lines[1])
    assert re.fullmatch(f"posterior: mean {day}, median {day}, 95 % {day} to {day}", lines[2])
    assert lines[3].startswith("You believed it to be about 2020-01-01, between 2018-")


@pytest.mark.parametrize("suffix", ["svg", "png", "html"])
def test_a_picture_is_drawn(schema_path: Path, suffix: str) -> None:
    """And named; what is drawn of a stored answer costs nothing."""
    words = ("ask", schema_path, COUNT, "--epsilon", "0.5", "--prior", "normal(1560, 30)")
    value = run_successfully(*words, "--json").document["value"]
    out = schema_path.parent / f"out.{suffix}"
    output = run_successfully(*words, "--plot", out).out
    assert re.search(rf"picture +{re.escape(str(out))}", output)
    picture = out.read_bytes()
    assert {"svg": b"<svg", "png": b"\x89PNG", "html": b"<!DOCTYPE html>"}[suffix] in picture[:20]
    assert suffix == "png" or f"the private answer is {value:,}" in picture.decode()
    assert run_successfully("budget", schema_path, "--json").document[0]["spent"]["epsilon"] == "1/2"


def test_an_accuracy_costs_the_smallest_epsilon(schema_path: Path) -> None:
    """0.05932 for a count within 50 with 95 %; the answer's interval is as asked."""
    words = ("SELECT COUNT(*) FROM registry WHERE age >= 50", "--accuracy", "±50 at 95%")
    preview = run_successfully("preview", schema_path, *words, "--json").document
    document = run_successfully("ask", schema_path, *words, "--json").document
    assert preview["cost"]["epsilon"] == document["cost"]["epsilon"] == str(Fraction("0.05932"))
    assert document["accuracy"] == "within 50 with a probability of at least 95 %"
    low, high = document["intervals_95"][0]["COUNT(*)"]
    assert high - low <= 100
    assert run_successfully("budget", schema_path, "--json").document[0]["spent"]["epsilon"] == str(Fraction("0.05932"))


def test_a_noise_scale_stands_in_for_epsilon(schema_path: Path) -> None:
    document = run_successfully("ask", schema_path, COUNT, "--noise-scale", "20", "--json").document
    assert document["cost"]["epsilon"] == "1/20"
    assert document["accuracy"] == "within 60 with a probability of at least 95 %"


@pytest.mark.parametrize("options", [["--accuracy", "±50 at 95%"], ["--noise-scale", "20"]])
def test_a_stored_answer_is_told_however_it_is_asked_for_again(schema_path: Path, options: list[str]) -> None:
    """It is what it was, with the promise it was drawn with, and free."""
    first = run_successfully("ask", schema_path, COUNT, "--epsilon", "0.25", "--json").document
    document = run_successfully("ask", schema_path, COUNT, *options, "--json").document
    assert (document["stored"], document["cost"]["epsilon"]) == (True, "0")
    same = ("value", "entry", "guarantee", "intervals_95", "accuracy")
    assert [document[name] for name in same] == [first[name] for name in same]


def test_an_interval_about_a_median(schema_path: Path) -> None:
    """Two values that it lies between, for the same epsilon."""
    words = ("ask", schema_path, "SELECT MEDIAN(age) FROM registry", "--epsilon", "0.5", "--interval")
    output, document = run_successfully(*words).out, run_successfully(*words, "--json").document
    low, high = document["intervals_95"][0]["MEDIAN(age)"]
    assert low <= document["value"] <= high
    assert f"95 % interval: {low:g} to {high:g}\n" in output
    assert document["cost"]["epsilon"] == "0"
    assert document["guarantee"]["epsilon"] == "1/2"


# --- preview, budget, history


def test_a_preview_needs_no_data(unregistered_path: Path) -> None:
    """Nothing is made, and the file with the rows need not even be there."""
    unregistered_path.with_name("registry.csv").unlink()
    before = sorted(unregistered_path.parent.rglob("*"))
    output = " ".join(run_successfully("preview", unregistered_path, COUNT, "--epsilon", "0.5").out.split())
    assert "Differential privacy with epsilon 0.5" in output
    assert re.search(r"accuracy within [0-9]+ with a probability of at least 95 %", output)
    assert "cost epsilon 0.5 left 3 of 3 for the data set, 1 of 1 for analyst" in output
    document = run_successfully("preview", unregistered_path, COUNT, "--epsilon", "0.5", "--json").document
    assert document["guarantee"]["epsilon"] == "1/2"
    assert document["budget"][0]["left"] == "3"
    assert sorted(unregistered_path.parent.rglob("*")) == before


def test_a_preview_weighs_the_mechanisms(schema_path: Path) -> None:
    """All candidates with cost and expected error, why the chosen one, and how many more such questions fit."""
    words = ("preview", schema_path, "SELECT AVG(income) FROM registry WHERE sex = 'F'", "--epsilon", "0.3")
    document = run_successfully(*words, "--prior", "normal(30000, 4000)", "--json").document
    errors = {candidate["mechanism"]: candidate["expected_error"] for candidate in document["candidates"]}
    assert len(errors) >= 2
    assert [candidate["mechanism"] for candidate in document["candidates"] if candidate["chosen"]] == [
        document["mechanism"]
    ]
    assert document["expected_error"] == errors[document["mechanism"]] == min(errors.values())
    assert {candidate["cost"]["epsilon"] for candidate in document["candidates"]} == {"3/10"}
    assert document["times"] == 3
    output = run_successfully(*words, "--prior", "normal(30000, 4000)").out
    assert re.search(r"aggregate +mechanism +cost +expected error", output)
    assert re.search(
        rf"chosen +AVG\(income\) +{document['mechanism']} +epsilon 0.3 +{document['expected_error']:,.4g} ", output
    )
    assert f"its expected error is about {format_number(document['expected_error'])}, that of the " in output
    assert "the budget holds 3 such questions" in output
    assert "Nothing was charged and no row was read." in output


def test_what_is_known_lessens_the_expected_error(schema_path: Path) -> None:
    words = ("preview", schema_path, COUNT, "--epsilon", "0.01", "--json")
    plain = run_successfully(*words).document["expected_error"]
    assert run_successfully(*words, "--prior", "normal(1560, 50)").document["expected_error"] < plain / 2


def test_what_is_told_of_rows_depends_on_them(schema_path: Path) -> None:
    """No number stands where none can be told beforehand."""
    words = ("preview", schema_path, "SELECT MEDIAN(age) FROM registry", "--epsilon", "0.3")
    assert run_successfully(*words, "--json").document["expected_error"] is None
    assert re.search(
        r"chosen +MEDIAN\(age\) +permute-and-flip on ranks +epsilon 0.3 +depends on the rows",
        run_successfully(*words).out,
    )


def test_a_preview_charges_nothing(schema_path: Path) -> None:
    run_successfully("ask", schema_path, COUNT, "--epsilon", "0.5", "--analyst", "ann")
    document = run_successfully(
        "preview", schema_path, GROUPS, "--epsilon", "0.5", "--analyst", "ann", "--json"
    ).document
    assert [balance["left"] for balance in document["budget"]] == ["5/2", "1/2"]
    assert [balance["left"] for balance in run_successfully("budget", schema_path, "--json").document] == ["5/2"]


def test_another_analyst_pays_for_the_stored_answer_herself(schema_path: Path) -> None:
    """Her account is charged, the data set's is not."""
    first = run_successfully("ask", schema_path, COUNT, "--epsilon", "0.5", "--analyst", "ann", "--json").document
    second = run_successfully("ask", schema_path, COUNT, "--epsilon", "0.5", "--analyst", "bob", "--json").document
    assert second["value"] == first["value"]
    balances = run_successfully("budget", schema_path, "--analyst", "bob", "--json").document
    assert [(balance["analyst"], balance["left"]) for balance in balances] == [(None, "5/2"), ("bob", "1/2")]
    output = run_successfully("budget", schema_path, "--analyst", "bob").out
    assert re.search(r"the data set +dp +0\.5 +3 +2\.5 +━+", output)
    assert re.search(r"bob +dp +0\.5 +1 +0\.5 +━+", output)


COUNTED_COLUMNS = ("age", "sex", "education", "occupation", "income", "diagnosis", "smoker", "bmi", "stay", "admitted")
MANY_TOTALS = ", ".join(f"COUNT({name})" for name in COUNTED_COLUMNS)
MANY_TOTALS += ", SUM(age), SUM(stay), SUM(bmi), AVG(age), AVG(stay), AVG(bmi), VAR(age), VAR(stay)"
"""So many totals at once that Gaussian noise is the lesser."""


def test_a_weaker_model_shows_in_the_budget(schema_path: Path) -> None:
    """The flag stays beside the DP total; --tight adds a smaller total for display."""
    text = (
        schema_path.read_text().replace("models: [dp]", "models: [dp, approx-dp]").replace("epsilon: 1,", "epsilon: 3,")
    )
    schema_path.write_text(text)
    run_successfully("ask", schema_path, f"SELECT {MANY_TOTALS} FROM registry", "--epsilon", "0.2", "--delta", "1e-3")
    for age in range(41, 50):
        run_successfully("ask", schema_path, f"SELECT COUNT(*) FROM registry WHERE age >= {age}", "--epsilon", "0.2")
    plain = run_successfully("budget", schema_path, "--analyst", "analyst").out
    assert "Warning: the DP total no longer describes all disclosure" in plain
    assert len(re.findall("approx-dp +[0-9]", plain)) == 2
    assert "the data set, approx-dp: all answers of this account together satisfy approximate" in plain
    assert "tighter" not in plain
    documents = run_successfully("budget", schema_path, "--analyst", "analyst", "--tight", "--json").document
    assert ["tighter_epsilon" in document for document in documents] == [False, True, False, True]
    assert all(
        document["tighter_epsilon"] < float(Fraction(document["spent"]["epsilon"])) for document in documents[1::2]
    )
    assert "A tighter total in approx-dp, for display alone: " in run_successfully("budget", schema_path, "--tight").out


def test_a_tighter_total_is_of_approx_dp_alone(schema_path: Path) -> None:
    refusal = run_discreet("budget", schema_path, "--tight")
    assert refusal.code == 2
    assert "approx-dp" in refusal.err


def test_an_untouched_budget_is_whole(unregistered_path: Path) -> None:
    before = sorted(unregistered_path.parent.rglob("*"))
    assert re.search(r"the data set +dp +0 +3 +3", run_successfully("budget", unregistered_path).out)
    assert run_successfully("history", unregistered_path).out == "Nothing was asked yet.\n"
    assert run_successfully("history", unregistered_path, "--json").document == []
    assert sorted(unregistered_path.parent.rglob("*")) == before


def test_the_history_shows_the_latest_first(schema_path: Path) -> None:
    run_successfully("ask", schema_path, COUNT, "--epsilon", "0.25", "--analyst", "ann")
    run_successfully("ask", schema_path, GROUPS, "--epsilon", "0.5", "--analyst", "bob")
    entries = run_successfully("history", schema_path, "--json").document
    assert [entry["analyst"] for entry in entries] == ["bob", "ann", None]
    assert [entry["epsilon"] for entry in entries] == ["1/2", "1/4", None]
    assert [
        entry["analyst"] for entry in run_successfully("history", schema_path, "--limit", 1, "--json").document
    ] == ["bob"]
    assert [
        entry["analyst"] for entry in run_successfully("history", schema_path, "--analyst", "ann", "--json").document
    ] == ["ann"]
    output = run_successfully("history", schema_path).out
    assert re.search(r"bob +SELECT", output)
    assert "snapshot 1 registered" in output


def test_nothing_an_analyst_writes_reaches_the_terminal_raw(schema_path: Path) -> None:
    """A name that would clear the screen of whoever reads the history is shown by its codes."""
    run_successfully("ask", schema_path, COUNT, "--epsilon", "0.1", "--analyst", "\x1b[2Jann[bold]")
    output = run_successfully("history", schema_path).out
    assert "\x1b" not in output
    assert "[bold]" in "".join(output.split())


# --- ledger verify


def test_a_ledger_that_holds_is_verified(schema_path: Path) -> None:
    run_successfully("ask", schema_path, COUNT, "--epsilon", "0.25")
    ledger = schema_path.parent / "registry.discreet" / "ledger.db"
    document = run_successfully("ledger", "verify", ledger, "--json").document
    assert document["entries"] == 3  # the registration, the charge, the answer
    with Custodian.open(schema_path) as custodian:
        assert document["heads"] == {"registry": custodian.verify().head}
    output = run_successfully("ledger", "verify", ledger).out
    assert f"head of registry          {document['heads']['registry']}" in output
    assert f"head of the whole ledger  {document['head']}" in output
    by_address = run_successfully("ledger", "verify", f"sqlite:///{ledger}", "--json").document
    assert by_address | {"at": ""} == document | {"at": ""}


def test_a_log_of_heads_has_one_line_for_each_with_its_time(schema_path: Path, tmp_path: Path) -> None:
    run_successfully("ask", schema_path, COUNT, "--epsilon", "0.25")
    ledger = schema_path.parent / "registry.discreet" / "ledger.db"
    for words in (("verify", ledger), ("backup", ledger, tmp_path / "copy.db")):
        [line] = run_successfully("ledger", *words, "--json").out.splitlines()
        assert datetime.fromisoformat(json.loads(line)["at"]).tzinfo is not None


def test_a_head_that_was_kept_is_found_for_good(schema_path: Path) -> None:
    """At its entry and in its data set; the head of the whole ledger is found as long as it is that."""
    run_successfully("ask", schema_path, COUNT, "--epsilon", "0.25")
    ledger = schema_path.parent / "registry.discreet" / "ledger.db"
    verified = run_successfully("ledger", "verify", ledger, "--json").document
    dataset_head, ledger_head = verified["heads"]["registry"], verified["head"]
    words = ("ledger", "verify", ledger, "--contains", dataset_head.upper(), "--contains", ledger_head)
    assert run_successfully(*words, "--json").document["contains"] == [
        {"head": dataset_head, "dataset": "registry", "entry": 3},
        {"head": ledger_head, "dataset": None, "entry": None},
    ]
    assert (
        f"{dataset_head} is entry 3 of registry.\n{ledger_head} is the head of the whole ledger.\n"
        in run_successfully(*words).out
    )
    run_successfully("ask", schema_path, COUNT, "--epsilon", "0.5")
    assert f"{dataset_head} is entry 3 of registry." in run_successfully(*words[:5]).out
    assert run_discreet(*words).code == 6


def test_a_ledger_that_was_set_back_lacks_the_head_that_was_kept(schema_path: Path, tmp_path: Path) -> None:
    """Each of its entries is as it was written: nothing else tells."""
    ledger, older = schema_path.parent / "registry.discreet" / "ledger.db", tmp_path / "older.db"
    run_successfully("ask", schema_path, COUNT, "--epsilon", "0.25")
    run_successfully("ledger", "backup", ledger, older)
    run_successfully("ask", schema_path, COUNT, "--epsilon", "0.5")
    head = run_successfully("ledger", "verify", ledger, "--json").document["heads"]["registry"]
    run_successfully("ledger", "verify", older)
    lacks = run_discreet("ledger", "verify", older, "--contains", head, "--json")
    assert (lacks.code, lacks.document["error"]["kind"]) == (6, "ClaimFailed")
    assert f"no entry has the head {head[:40]!r}" in lacks.err
    wrong = run_discreet("ledger", "verify", older, "--contains", head[:63])
    assert (wrong.code, "a head is 64 digits and letters a to f" in wrong.err) == (2, True)


def test_what_is_taken_for_a_ledger_is_named_and_nothing_is_left_beside_it(schema_path: Path, tmp_path: Path) -> None:
    """A table, and an empty file, which is a ledger to be only where one may be made."""
    table, empty = schema_path.with_name("registry.csv"), tmp_path / "empty.db"
    empty.write_text("")
    before = {path: path.read_bytes() for path in schema_path.parent.iterdir() if path.is_file()}
    for words in (
        ("ledger", "verify", table),
        ("ledger", "backup", table, tmp_path / "copy.db"),
        ("ledger", "upgrade", table),
        ("ledger", "restore", table, tmp_path / "new.db", "--forgotten", "0"),
    ):
        refusal = run_discreet(*words)
        assert (refusal.code, "'registry.csv' is damaged, or is not a ledger" in refusal.err) == (5, True)
    for words in (("ledger", "verify", empty), ("ledger", "upgrade", empty)):
        refusal = run_discreet(*words)
        assert (refusal.code, "there is no ledger 'empty.db' there" in refusal.err) == (2, True)
    assert {path: path.read_bytes() for path in schema_path.parent.iterdir() if path.is_file()} == before


def test_a_ledger_that_was_changed_is_caught(schema_path: Path) -> None:
    """Exit code 6, for people and in JSON."""
    run_successfully("ask", schema_path, COUNT, "--epsilon", "0.25")
    ledger = schema_path.parent / "registry.discreet" / "ledger.db"
    with sqlite3.connect(ledger) as connection:
        connection.execute("UPDATE ledger_accounts SET dp = replace(dp, '25', '15')")
    connection.close()
    broken = run_discreet("ledger", "verify", ledger, "--json")
    assert broken.code == 6
    error = {"kind": "ClaimFailed", "code": "claim-failed", "exit": 6, "message": broken.err[len("discreet: ") : -1]}
    assert broken.document["error"] == error | {"position": None}


def test_a_ledger_may_be_in_postgresql(schema_path: Path, postgres: str) -> None:
    there = ("--ledger", create_postgres_schema(postgres))
    first = run_successfully("ask", schema_path, COUNT, "--epsilon", "0.25", *there, "--json").document
    document = run_successfully("ask", schema_path, COUNT, "--epsilon", "0.25", *there, "--json").document
    assert (document["value"], document["stored"]) == (first["value"], True)
    assert run_successfully("budget", schema_path, *there, "--json").document[0]["spent"]["epsilon"] == "1/4"
    assert len(run_successfully("history", schema_path, *there, "--json").document) == 2
    assert run_successfully("ledger", "verify", there[1], "--json").document["entries"] == 3
    assert not (schema_path.parent / "registry.discreet" / "ledger.db").exists()


def test_no_ledger_is_made_to_be_verified(tmp_path: Path) -> None:
    assert run_discreet("ledger", "verify", tmp_path / "none.db").code == 2
    assert list(tmp_path.iterdir()) == []


# --- the edges of a process


def test_what_is_not_expected_shows_nothing(schema_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No traceback, no text of an exception."""

    def fail(*_: object) -> None:
        raise RuntimeError("the income of p17 is 12345")

    monkeypatch.setattr("discreet.custodian.status.get_balances", fail)
    broken = run_discreet("budget", schema_path, "--json")
    assert broken.code == 1
    assert broken.err == "discreet: an internal error; nothing about the data is shown\n"
    assert broken.document["error"]["kind"] == "Internal"


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["budget", "registry.yaml"], ""),
        (["budget", "registry.yaml", "--json"], ""),
        (["--help"], ""),
        (["nothing", "--json"], "discreet: No such command 'nothing'; see --help\n"),
    ],
    ids=["screen", "JSON", "help", "failure"],
)
def test_a_pipe_that_is_closed_is_no_matter(schema_path: Path, words: list[str], says: str) -> None:
    read, write = os.pipe()
    os.close(read)
    command = [sys.executable, "-m", "discreet", *words]
    broken = subprocess.run(
        command, stdout=write, stderr=subprocess.PIPE, text=True, check=False, cwd=schema_path.parent
    )
    os.close(write)
    assert broken.stderr == says


def test_an_interrupt_is_quiet(schema_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("discreet.custodian.status.get_balances", interrupt)
    stopped = run_discreet("budget", schema_path)
    assert (stopped.code, stopped.out, stopped.err) == (130, "", "")


@pytest.mark.parametrize("command", ["ask", "publish"])
def test_an_interrupt_of_what_is_paid_for_says_that_it_may_have_been(
    command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from discreet.cli import main

    monkeypatch.setattr(main, "_build_command", partial(_stop_in_library, signal.SIGINT))
    stopped = run_discreet(command, "nowhere.yaml")
    assert (stopped.code, stopped.out) == (130, "")
    assert stopped.err == f"discreet: stopped before it was done; {main.PAID_NOTE}\n"


def test_a_picture_that_cannot_be_written_is_not_paid_for(schema_path: Path) -> None:
    """Nor is one whose name is a folder's; nobody can make a file in /proc."""
    (schema_path.parent / "taken.svg").mkdir()
    for place in ("/proc/taken.svg", schema_path.parent / "taken.svg"):
        refusal = run_discreet("ask", schema_path, COUNT, "--epsilon", "0.1", "--plot", place)
        assert (refusal.code, refusal.out) == (5, "")
        assert refusal.err == "discreet: the picture 'taken.svg' cannot be written there; choose another place\n"
    assert not [
        entry for entry in run_successfully("history", schema_path, "--json").document if entry["kind"] == "charge"
    ]


def test_means_by_group_have_no_bars(schema_path: Path) -> None:
    """A mean that happens to be whole would have one, and the others would look like none."""
    output = run_successfully(
        "ask", schema_path, "SELECT hospital, AVG(age) FROM registry GROUP BY hospital", "--epsilon", "1"
    ).out
    assert "Alder" in output
    assert "\u2501" not in output


@pytest.mark.parametrize(
    ("name", "command", "says"),
    [
        ("registry.csv", ("check", "--refresh"), "the file may not be read; check its owner and rights"),
        ("manifest.json", ("budget",), "the folder registry.discreet may not be read; check its owner and rights"),
    ],
)
def test_rights_that_are_missing_are_told_as_such(
    schema_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, command: tuple[str, ...], says: str
) -> None:
    """Nothing is to be mended in the file, let alone restored."""
    really = Path.open

    def fail_to_open(self: Path, *options: Any, **named: Any) -> Any:
        if self.name == name:
            raise PermissionError
        return really(self, *options, **named)

    monkeypatch.setattr(Path, "open", fail_to_open)
    refusal = run_discreet(command[0], schema_path, *command[1:])
    assert (refusal.code, refusal.out, refusal.err) == (5, "", f"discreet: {says}\n")


def _stop_in_library(number: int) -> None:
    """A signal comes in the midst of somebody else's code, which makes an error of what the handler raises."""
    from discreet.cli import main

    try:
        main.handle_signal(number, None)
    except (SystemExit, KeyboardInterrupt):
        raise ImportError("cannot import") from None


def test_what_a_library_makes_of_a_stop_is_still_a_stop(monkeypatch: pytest.MonkeyPatch) -> None:
    """An exit in the midst of an import may arrive as an ImportError; nothing is our fault then."""
    from discreet.cli import main

    for number, code in ((signal.SIGTERM, 143), (signal.SIGINT, 130)):
        monkeypatch.setattr(main, "_build_command", partial(_stop_in_library, number))
        outcome = run_discreet("budget", "nowhere.yaml")
        assert (outcome.code, outcome.out, outcome.err) == (code, "", "")


def test_a_narrow_encoding_is_no_matter(schema_path: Path) -> None:
    """Bars and names print on a terminal without Unicode too."""
    completed = run_process("ask", schema_path, GROUPS, "--epsilon", "1", PYTHONIOENCODING="ascii")
    assert (completed.returncode, completed.stderr) == (0, "")
    assert "Alder" in completed.stdout


def test_the_history_tells_what_was_paid_for_an_answer_that_was_there(schema_path: Path) -> None:
    """Who offers less and takes the stored answer at any price pays what that cost."""
    run_successfully("ask", schema_path, COUNT, "--epsilon", "0.2", "--analyst", "ann")
    run_successfully("ask", schema_path, COUNT, "--epsilon", "0.1", "--analyst", "bob", "--reuse", "any")
    assert "0.2, reused (0.1 was asked)" in run_successfully("history", schema_path).out
