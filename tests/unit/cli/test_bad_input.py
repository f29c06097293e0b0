"""Whatever is wrong with a request is told in one sentence; nothing is charged, nothing is half-written."""

from __future__ import annotations

import csv
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from random import Random
from typing import get_args

import pytest
from fastapi.exceptions import RequestValidationError
from pydantic import ValidationError
from pydantic_core.core_schema import ErrorType

from discreet.errors import ERROR_CODES, SqlPosition
from discreet.service.api.models import Ask
from discreet.service.app import FAULT_MESSAGES, _describe_fault, _describe_invalid_request
from support.command_line import Outcome, digest_files, run_discreet, run_successfully, write_registry

FROM_REGISTRY = "SELECT COUNT(*) FROM registry"
COUNT = f"{FROM_REGISTRY} WHERE age >= 40"
DEEP, DEEPEST = (f"{FROM_REGISTRY} WHERE {'(' * depth}age > 30{')' * depth}" for depth in (1000, 10_000))
JOIN = f"{FROM_REGISTRY} JOIN patients ON registry.person_id = patients.person_id"
HOLD_LOCK = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1], isolation_level=None)
connection.execute("BEGIN IMMEDIATE")
print("held", flush=True)
sys.stdin.read()
"""
KNOWN_HEADS: dict[tuple[tuple[str, bytes], ...], object] = {}
TOKEN = f"x{Random(7).randrange(10**11, 10**12)}"


@pytest.fixture(scope="module")
def answered_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a data set that was asked once."""
    folder = tmp_path_factory.mktemp("answered")
    run_successfully("ask", write_registry(folder), COUNT, "--epsilon", "0.25")
    return folder


@pytest.fixture(scope="module")
def other_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same of somebody else, with a ledger of its own."""
    folder = tmp_path_factory.mktemp("others")
    run_successfully("ask", write_registry(folder), COUNT, "--epsilon", "0.25")
    return folder


@pytest.fixture
def answered_schema_path(answered_folder: Path, tmp_path: Path) -> Path:
    """The schema of a data set of one's own that was asked once."""
    return shutil.copytree(answered_folder, tmp_path / "own") / "registry.yaml"


@pytest.fixture
def new_schema_path(tmp_path: Path) -> Path:
    """The schema of a data set that is not registered."""
    (tmp_path / "new").mkdir()
    return write_registry(tmp_path / "new")


def assert_refused(folder: Path, words: tuple[object, ...], code: int, says: str) -> None:
    """One sentence with the exit code of its kind, the same in JSON; not a file is changed and nothing is charged.

    Below the sentence stands at most the line of SQL that it is about, with carets.
    """
    before, spent = digest_files(folder), compute_head(folder)
    text_outcome, document_outcome = run_discreet(*words), run_discreet(*words, "--json")
    assert (text_outcome.code, document_outcome.code) == (code, code), text_outcome.err
    error = document_outcome.document["error"]
    sentence, *marked = text_outcome.err.splitlines(keepends=True)
    assert is_one_sentence(sentence), text_outcome.err
    assert says in sentence
    assert text_outcome.out == ""
    assert error["message"] == sentence.removeprefix("discreet: ").removesuffix("\n")
    assert error["code"] in ERROR_CODES
    position = SqlPosition.from_json(error["position"])
    assert marked == ([] if position is None else [f"  {line}\n" for line in position.mark().split("\n")])
    assert (digest_files(folder), compute_head(folder)) == (before, spent)


def is_one_sentence(message: str) -> bool:
    return (
        message.startswith("discreet: ")
        and message.endswith("\n")
        and message.count("\n") == 1
        and not re.search(r"(?<!\.)\. ", message)
    )


def compute_head(folder: Path) -> object:
    """What stands for every entry of the data set's own ledger, if it can be read."""
    file = folder / "registry.discreet" / "ledger.db"
    ledger_files = tuple(
        sorted((path.name, path.read_bytes()) for path in file.parent.glob("ledger.db*") if path.is_file())
    )
    if ledger_files not in KNOWN_HEADS:  # a ledger of the same bytes has the same entries
        verified = run_discreet("ledger", "verify", file, "--json")
        KNOWN_HEADS[ledger_files] = {name: value for name, value in verified.document.items() if name != "at"}
    return KNOWN_HEADS[ledger_files]


def replace_text(file: Path, old: str, new: str) -> None:
    text = file.read_text()
    assert old in text
    file.write_text(text.replace(old, new))


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["verfy"], "No such command 'verfy'. Did you mean 'verify'? See --help"),
        (["it's {0}"], 'No such command "it\'s {0}"; see --help'),
        (["token"], "Missing command; see --help"),
        (["ask"], "Missing argument 'SCHEMA'; see --help"),
        (["token", "list"], "Missing option '--config'; see --help"),
        (
            ["ask", "a", "b", "--epsilo", "1"],
            "No such option: --epsilo (Possible options: --epsilon, --plot, --prior); see --help",
        ),
        (["ask", "-x"], "No such option: -x; see --help"),
        (["ask", "a", "b", "c", "d"], "Got unexpected extra argument(s) (c d); see --help"),
        (
            ["serve", "--port", "many"],
            "Invalid value for '--port': Input should be a valid integer, unable to parse string as an integer; "
            "see --help",
        ),
        (
            ["history", "a", "--limit", "0"],
            "Invalid value for '--limit': Input should be greater than or equal to 1; see --help",
        ),
        (["serve", "--port"], "Option '--port' requires an argument; see --help"),
        (["serve", "--json=3"], "Option '--json' does not take a value; see --help"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_arguments_that_do_not_fit_are_refused_in_one_sentence(words: list[str], says: str) -> None:
    outcome = run_discreet(*words)
    assert (outcome.code, outcome.out, outcome.err) == (2, "", f"discreet: {says}\n")


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ({}, "'question' {}: it is missing"),
        ({"question": COUNT, "colour": 1}, "'colour' {}: there is nothing of that name"),
        ({"question": COUNT, "rows": "many"}, "'rows' {}: it must be a whole number"),
        ({"question": COUNT, "rows": 0}, "'rows' {}: it must be at least 1"),
        ({"question": COUNT, "fresh": 3}, "'fresh' {}: it must be true or false"),
        ({"question": COUNT, "constraints": [3]}, "'constraints' at 0 {}: it must be text"),
        ({"question": COUNT, "constraints": ["a"] * 101}, "'constraints' {}: it may hold at most 100 of them"),
        ({"question": COUNT, "accuracy": "x" * 1001}, "'accuracy' {}: it may have at most 1000 signs"),
        ({"question": COUNT, "accuracy": ""}, "'accuracy' {}: it must have 1 or more signs"),
        ({"question": COUNT, "epsilon": []}, "'epsilon' {}: it is none of the kinds that are allowed there"),
        ([], "the body {}: it must be an object"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_body_that_does_not_fit_is_told_in_our_words(body: object, says: str) -> None:
    with pytest.raises(ValidationError) as raised:
        Ask.model_validate(body)
    errors = [{**error, "loc": ("body", *error["loc"])} for error in raised.value.errors()]
    assert _describe_invalid_request(RequestValidationError(errors)) == says.format(
        "does not fit what GET /openapi.json says"
    )


def test_every_fault_that_a_library_finds_is_told_in_our_words() -> None:
    """Each kind there is, and those to come."""
    context = dict.fromkeys(("gt", "ge", "lt", "le", "min_length", "max_length", "expected"), 7)
    kinds = [*get_args(ErrorType), "of tomorrow"]
    sentences = {kind: _describe_fault(kind, context | {"error": ValueError("it is not so")}) for kind in kinds}
    assert all(sentence.startswith(("it ", "there is nothing")) for sentence in sentences.values())
    assert FAULT_MESSAGES.keys() <= {*sentences, *(kind.partition("_")[0] for kind in sentences)}


@pytest.mark.parametrize(
    ("question", "says"),
    [
        ("SELECT COUNT(* FROM registry", ""),
        (DEEP, "32"),
        (DEEPEST, "20000 characters"),
        (f"{FROM_REGISTRY} WHERE ABS(age) > 30", ""),
        ("SELECT COUNT(*) FROM (SELECT * FROM registry)", "subquery"),
        (f"{FROM_REGISTRY} WHERE age > (SELECT AVG(age) FROM registry)", ""),
        (JOIN, "chapters"),
        (f"{FROM_REGISTRY}; DROP TABLE registry", "one"),
        (f"{FROM_REGISTRY} WHERE income > 1e400", "number"),
        (
            "SELECT AVG(salary) FROM registry",
            "use one of age, sex, education, occupation, income",
        ),
        ("SELECT AVG(person_id) FROM registry", ""),
        ('{"from": "registry", "select": [{"count": "*"}]}', ""),
        ("", ""),
        (f"{FROM_REGISTRY} WHERE sex = '\udce9'", "UTF-8"),
    ],
    ids=[
        "does not parse",
        "nests 1,000 deep",
        "nests 10,000 deep",
        "a function",
        "a subquery in FROM",
        "a subquery in WHERE",
        "a private join",
        "two statements",
        "infinity",
        "an unknown column",
        "an identifier",
        "JSON",
        "nothing",
        "not UTF-8",
    ],
)
@pytest.mark.parametrize("command", ["ask", "preview"])
def test_a_question_that_cannot_be_read(answered_schema_path: Path, command: str, question: str, says: str) -> None:
    assert_refused(answered_schema_path.parent, (command, answered_schema_path, question, "--epsilon", "0.1"), 2, says)


@pytest.mark.parametrize("epsilon", ["0", "-1", "-0", "nan", "inf", "1e400", "0.1.2", "much", "", "1e-999999999"])
def test_an_epsilon_that_is_no_number_above_0(answered_schema_path: Path, epsilon: str) -> None:
    assert_refused(
        answered_schema_path.parent, ("ask", answered_schema_path, COUNT, "--epsilon", epsilon), 2, "epsilon must be"
    )


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--model", "fancy"], "its models are dp"),
        (["--delta", "1e-9"], "leave out delta"),
        (["--delta", "2"], "delta must be"),
        (["--delta", "1e-9", "--model", "dp"], "delta belongs to approx-dp"),
        (["--prior", "banana("], "prior"),
        (["--prior", "banana"], "prior"),
        (["--analyst", ""], "analyst"),
        (["--key", "k" * 1000], "key"),
    ],
    ids=lambda words: " ".join(words)[:30] if isinstance(words, list) else "",
)
def test_options_that_do_not_fit(answered_schema_path: Path, options: list[str], says: str) -> None:
    question = "SELECT MEDIAN(age) FROM registry"
    assert_refused(
        answered_schema_path.parent, ("ask", answered_schema_path, question, "--epsilon", "0.1", *options), 2, says
    )


MEDIAN = "SELECT MEDIAN(age) FROM registry"
LARGEST = "SELECT MAX(age) FROM registry"
MEAN = "SELECT AVG(income) FROM registry WHERE sex = 'F'"
GRAMMAR = "a prior is written like '0.9 normal(38, 6) + 0.1 cauchy(38, 6) on [17, 90] step 1'"


@pytest.mark.parametrize(
    ("question", "prior", "says"),
    [
        (COUNT, "normal(-300, 1)", "what COUNT can be, 0 to 2000; give one of which at least a thousandth lies inside"),
        (
            COUNT,
            "uniform(2001, 5000)",
            "what COUNT can be, 0 to 2000; give one of which at least a thousandth lies inside",
        ),
        (MEAN, "normal(-1e6, 1)", "what AVG of income can be, 0 to 500000"),
        (MEDIAN, "normal(500, 1)", "the prior of age lies outside its bounds, 17 to 90"),
        (LARGEST, '{"5": 1, "400": 1}', "the prior of age lies outside its bounds, 17 to 90"),
        (COUNT, "nrmal(5", GRAMMAR),
        (COUNT, '{"5": 1', GRAMMAR),
        (COUNT, "", GRAMMAR),
        (MEDIAN, "38 or so", GRAMMAR),
        (MEAN, "normal(30000, 4000) on [0", GRAMMAR),
        ("SELECT MODE(sex) FROM registry", "normal(1, 2)", 'weights to its categories, such as {"F": 1, "M": 3}'),
        ("SELECT MODE(sex) FROM registry", '{"F": 1, "X": 2}', "unknown category 'X' in the prior of sex"),
        (MEDIAN, '{"F": 1, "M": 3}', "age is a number; its prior must be over numbers"),
        (COUNT, '{"F": 1, "M": 3}', "COUNT is a number; its prior must be over numbers"),
        ("SELECT MEDIAN(admitted) FROM registry", "normal(2018, 2)", "a date such as 2024-02-29, got '2018'"),
        ("SELECT MEDIAN(admitted) FROM registry", '{"5": 1}', "a date such as 2024-02-29, got '5'"),
        (MEDIAN, "normal(2018-05-05, 200)", "must be a plain number"),
        ("SELECT COUNT(*), AVG(age) FROM registry WHERE stay > 3", "normal(9, 1)", "a prior belongs to one aggregate"),
    ],
)
def test_a_prior_that_says_nothing_about_the_answer(
    answered_schema_path: Path, question: str, prior: str, says: str
) -> None:
    """Outside the bounds, unreadable (the grammar is shown), or of another kind than the column."""
    assert_refused(
        answered_schema_path.parent,
        ("ask", answered_schema_path, question, "--epsilon", "0.1", "--prior", prior),
        2,
        says,
    )


@pytest.mark.parametrize(
    "accuracy", ["very near", "", "±0", "±-5", "±50 at 30%", "±50 at 100%", "±50 of 95%", "5" * 101]
)
def test_an_accuracy_that_cannot_be_read(answered_schema_path: Path, accuracy: str) -> None:
    """The grammar is shown."""
    words = ("ask", answered_schema_path, COUNT, "--accuracy", accuracy)
    assert_refused(answered_schema_path.parent, words, 2, "an accuracy is written like '±50 at 95%'")


def test_an_accuracy_that_the_budget_cannot_reach(answered_schema_path: Path) -> None:
    """What is left is told, and what it can reach, which then is reached."""
    question = f"{FROM_REGISTRY} WHERE age >= 50"
    words = ("ask", answered_schema_path, question, "--accuracy")
    assert_refused(
        answered_schema_path.parent,
        (*words, "±1 at 99%"),
        3,
        "with the epsilon of 0.75 that is left; ±6 at 99% is what that can reach",
    )
    assert (
        run_successfully(*words, "±6 at 99%", "--json").document["accuracy"]
        == "within 6 with a probability of at least 99 %"
    )
    preview_words = ("preview", answered_schema_path, MEAN, "--accuracy", "±0.01")
    assert_refused(answered_schema_path.parent, (*preview_words, "--rows", "900"), 3, "that is left can reach")


def test_an_accuracy_of_a_mean_without_the_number_of_rows(answered_schema_path: Path) -> None:
    """Nobody can promise it: that is refused before anything is charged, with the way out."""
    says = "give rows, the fewest such rows you expect (the lower end of a noisy COUNT(income) with the same condition"
    for command in ("preview", "ask"):
        assert_refused(
            answered_schema_path.parent, (command, answered_schema_path, MEAN, "--accuracy", "±5000"), 2, says
        )


@pytest.mark.parametrize(
    ("question", "options", "code", "says"),
    [
        (MEDIAN, ["--accuracy", "±5 at 95%"], 4, "an accuracy can be asked of COUNT, SUM, AVG, VAR and STDDEV"),
        ("SELECT MODE(sex) FROM registry", ["--accuracy", "±5"], 4, "an accuracy can be asked of COUNT"),
        (COUNT, ["--epsilon", "0.1", "--accuracy", "±5"], 2, "in one way: by epsilon, by noise_scale or by accuracy"),
        (COUNT, ["--epsilon", "0.1", "--noise-scale", "5"], 2, "in one way"),
        (COUNT, ["--noise-scale", "5", "--accuracy", "±5"], 2, "in one way"),
        (COUNT, [], 2, "say how much noise there may be: --epsilon 0.1 or --accuracy '±50 at 95%'"),
        (MEDIAN, ["--noise-scale", "5"], 2, "a noise scale is of one count or sum"),
        (COUNT, ["--noise-scale", "0"], 2, "the noise scale must be above 0"),
        (COUNT, ["--noise-scale", "wide"], 2, "the noise scale must be a plain number"),
        (COUNT, ["--epsilon", "0.1", "--interval"], 2, "an interval is drawn for quantiles"),
        (COUNT, ["--epsilon", "0.1", "--distance", "continuous"], 2, "give the prior too"),
        (MEAN, ["--epsilon", "0.1", "--rows", "0"], 2, "rows expected must be a whole number of at least 1"),
        (MEAN, ["--epsilon", "0.1", "--rows", "many"], 2, "--rows must be a plain number"),
        (MEAN, ["--epsilon", "0.1", "--rows", "1.5"], 2, "--rows is a whole number"),
    ],
)
def test_how_to_answer_that_does_not_fit(
    answered_schema_path: Path, question: str, options: list[str], code: int, says: str
) -> None:
    assert_refused(answered_schema_path.parent, ("ask", answered_schema_path, question, *options), code, says)
    assert_refused(answered_schema_path.parent, ("preview", answered_schema_path, question, *options), code, says)


@pytest.mark.parametrize(
    ("question", "prior", "distance", "says"),
    [
        (COUNT, "normal(900, 90)", "as the crow flies", "distance"),
        (COUNT, "normal(900, 90)", "semantic", "distance"),
        (LARGEST, "normal(80, 9)", "as the crow flies", "the distance of age is 'continuous'"),
        ("SELECT MODE(sex) FROM registry", '{"F": 1, "M": 3}', "semantic", "since it has no taxonomy, got 'semantic'"),
        ("SELECT MODE(sex) FROM registry", '{"F": 1, "M": 3}', "ordinal", "the distance of sex is 'nominal'"),
    ],
)
def test_a_distance_that_does_not_fit(
    answered_schema_path: Path, question: str, prior: str, distance: str, says: str
) -> None:
    words = ("ask", answered_schema_path, question, "--epsilon", "0.1", "--prior", prior, "--distance", distance)
    assert_refused(answered_schema_path.parent, words, 2, says)


@pytest.mark.parametrize(
    ("question", "name", "says"),
    [
        (COUNT, "out.pdf", "a picture's name ends in .svg, .png or .html; 'out.pdf' does not"),
        (COUNT, "out", "a picture's name ends in .svg, .png or .html"),
        (COUNT, "none/out.svg", "the folder for the picture 'out.svg' does not exist; make it first"),
        ("SELECT hospital, COUNT(*) FROM registry GROUP BY hospital", "out.svg", "a picture shows a HISTOGRAM"),
        ("SELECT AVG(age), COUNT(*) FROM registry WHERE stay > 3", "out.svg", "a picture shows a HISTOGRAM"),
        (MEDIAN, "out.svg", "a picture shows a HISTOGRAM, or one number with a public law or a prior"),
    ],
    ids=["a suffix", "no suffix", "no folder", "groups", "two numbers", "no public law"],
)
def test_a_picture_that_cannot_be_drawn(answered_schema_path: Path, question: str, name: str, says: str) -> None:
    """Before anything is charged: who pays gets what she asked for."""
    words = (
        "ask",
        answered_schema_path,
        question,
        "--epsilon",
        "0.1",
        "--fresh",
        "--plot",
        answered_schema_path.parent / name,
    )
    assert_refused(answered_schema_path.parent, words, 2, says)


HOSTILE = {
    "a point mass": "point(40)",
    "two far atoms": '{"17": 1, "90": 1}',
    "no overlap": "normal(40, 1) on [2500, 2600]",
    "contradictory": "uniform(20, 30) on [50, 60]",
    "a million points": "uniform(17, 90) on [17, 90] step 0.00007",
    "too many points": "uniform(17, 90) on [17, 90] step 1e-9",
    "10,001 letters": "normal(40, 1)" + " " * 9988,
    "nearly no spread": "normal(40, 1e-300)",
    "no end of spread": "normal(40, 1e300)",
    "far beyond floats": '{"-1e999": 1, "1e999": 1}',
    "a mixture of extremes": "1e-300 point(20) + 1e300 cauchy(40, 1e-300)",
}


@pytest.mark.parametrize("prior", HOSTILE.values(), ids=HOSTILE)
def test_a_hostile_prior_changes_no_charge(answered_schema_path: Path, new_schema_path: Path, prior: str) -> None:
    """Each question costs what it costs without it, or is refused in the same words where there are no rows at all."""
    new_schema_path.with_name("registry.csv").unlink()
    paid = Fraction(1, 4)
    for question in (f"{FROM_REGISTRY} WHERE age >= 60", MEDIAN, LARGEST, MEAN):
        words = (question, "--epsilon", "0.1", "--prior", prior)
        answered_outcome, previewed_outcome = (
            run_discreet("ask", answered_schema_path, *words),
            run_discreet("preview", new_schema_path, *words),
        )
        assert (answered_outcome.code, answered_outcome.err) == (previewed_outcome.code, previewed_outcome.err)
        assert answered_outcome.code in {0, 2}
        assert answered_outcome.code == 0 or is_one_sentence(answered_outcome.err)
        paid += Fraction(1, 10) if answered_outcome.code == 0 else 0
        assert (
            Fraction(run_successfully("budget", answered_schema_path, "--json").document[0]["spent"]["epsilon"]) == paid
        )


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("lower: 17, ", "", "age of kind integer needs lower"),
        ("lower: 17, upper: 90", "lower: 90, upper: 17", "the bounds of age are reversed"),
        ("lower: 17", "lower: NaN", "lower bound of age must be"),
        ("upper: 90", "upper: .inf", "upper bound of age must be"),
        ("lower: 17", "lower: DECIDE", "lower of column age"),
        ("budget: {epsilon: 3", "budget: {epsilon: -3", "epsilon of budget must be above 0"),
        ("analyst_budget:", "analyst_buget:", "'analyst_buget'"),
        ("name: registry", "name: [", "not valid YAML"),
        ("taxonomy: occupation.json", "taxonomy: none.json", "none.json"),
    ],
    ids=["missing", "reversed", "NaN", "infinite", "undecided", "no budget", "misspelt", "no YAML", "no taxonomy"],
)
@pytest.mark.parametrize("command", ["check", "ask", "preview", "budget", "history"])
def test_a_schema_that_does_not_hold(answered_schema_path: Path, command: str, old: str, new: str, says: str) -> None:
    replace_text(answered_schema_path, old, new)
    options = (COUNT, "--epsilon", "0.1") if command in {"ask", "preview"} else ()
    assert_refused(answered_schema_path.parent, (command, answered_schema_path, *options), 2, says)


@pytest.mark.parametrize("way", ["nothing", "folder", "bytes"])
def test_a_schema_file_that_cannot_be_read(answered_schema_path: Path, way: str) -> None:
    answered_schema_path.unlink()
    if way == "folder":
        answered_schema_path.mkdir()
    elif way == "bytes":
        answered_schema_path.write_bytes(bytes(range(128, 256)))
    assert_refused(
        answered_schema_path.parent, ("ask", answered_schema_path, COUNT, "--epsilon", "0.1"), 2, "registry.yaml"
    )


def rewrite_rows(file: Path, change: Callable[[dict[str, str]], dict[str, str]]) -> None:
    """The CSV file with every row changed."""
    with file.open(newline="") as stream:
        rows = [change(row) for row in csv.DictReader(stream)]
    with file.open("w", newline="") as stream:
        writer = csv.DictWriter(stream, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)


def drop_age(row: dict[str, str]) -> dict[str, str]:
    return {name: value for name, value in row.items() if name != "age"}


def spell_age(row: dict[str, str]) -> dict[str, str]:
    return row | {"age": f"{TOKEN} years"}


@pytest.mark.parametrize(
    ("spoil", "says"),
    [
        (lambda file: rewrite_rows(file, drop_age), "no column age"),
        (lambda file: rewrite_rows(file, spell_age), "age holds no integer"),
        (lambda file: file.write_text(""), ""),
        (lambda file: file.write_text(file.read_text().splitlines()[0] + "\n"), "no rows"),
        (lambda file: file.write_text("\n".join(file.read_text().splitlines()[1:])), "none of the columns"),
        (lambda file: file.write_bytes(Random(3).randbytes(5000)), ""),
        (lambda file: file.unlink(), "registry.csv"),
    ],
    ids=["a column missing", "a wrong type", "empty", "only a header", "no header", "no table", "no file"],
)
@pytest.mark.parametrize("command", ["check", "ask"])
def test_data_that_cannot_be_registered(
    new_schema_path: Path, command: str, spoil: Callable[[Path], object], says: str
) -> None:
    spoil(new_schema_path.with_name("registry.csv"))
    options = (COUNT, "--epsilon", "0.1") if command == "ask" else ()
    assert_refused(new_schema_path.parent, (command, new_schema_path, *options), 2, says)


def test_a_ledger_that_stays_locked(answered_schema_path: Path) -> None:
    """Another process holds SQLite's own lock for longer than we wait."""
    before = compute_head(answered_schema_path.parent)
    command = [sys.executable, "-c", HOLD_LOCK, str(answered_schema_path.parent / "registry.discreet" / "ledger.db")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        locked = run_discreet(
            "ask", answered_schema_path, f"{FROM_REGISTRY} WHERE age > 50", "--epsilon", "0.1", "--wait", "0.2"
        )
        holder.communicate()
    assert (locked.code, locked.out) == (5, "")
    assert is_one_sentence(locked.err)
    assert "locked" in locked.err
    assert compute_head(answered_schema_path.parent) == before


@pytest.mark.parametrize("command", ["ask", "budget", "history", "verify"])
def test_a_ledger_that_is_damaged(answered_schema_path: Path, command: str) -> None:
    folder = answered_schema_path.parent / "registry.discreet"
    for file in folder.glob("ledger.db*"):
        file.unlink()
    (folder / "ledger.db").write_bytes(Random(5).randbytes(20_000))
    words = {
        "ask": ("ask", answered_schema_path, COUNT, "--epsilon", "0.1"),
        "verify": ("ledger", "verify", folder / "ledger.db"),
    }
    assert_refused(answered_schema_path.parent, words.get(command, (command, answered_schema_path)), 5, "ledger")
    assert (folder / "ledger.db").read_bytes() == Random(5).randbytes(20_000)


@pytest.mark.parametrize("command", ["ask", "budget", "history"])
def test_the_ledger_of_another_data_set(
    answered_schema_path: Path, other_folder: Path, tmp_path: Path, command: str
) -> None:
    other = shutil.copytree(other_folder, tmp_path / "other") / "registry.yaml"
    theirs = tmp_path / "other" / "registry.discreet" / "ledger.db"
    options = (COUNT, "--epsilon", "0.1") if command == "ask" else ()
    before = compute_head(other.parent)
    assert_refused(
        answered_schema_path.parent, (command, answered_schema_path, *options, "--ledger", theirs), 2, "another ledger"
    )
    assert compute_head(other.parent) == before


def test_the_ledger_of_another_data_set_on_first_use(new_schema_path: Path, answered_schema_path: Path) -> None:
    theirs = answered_schema_path.parent / "registry.discreet" / "ledger.db"
    run_successfully("check", new_schema_path)
    before = compute_head(answered_schema_path.parent)
    assert_refused(
        new_schema_path.parent,
        ("ask", new_schema_path, COUNT, "--epsilon", "0.1", "--ledger", theirs),
        2,
        "another data set",
    )
    assert compute_head(answered_schema_path.parent) == before


def test_a_budget_that_is_exhausted(answered_schema_path: Path) -> None:
    """What was asked, what is left, what would fit."""
    words = ("ask", answered_schema_path, f"{FROM_REGISTRY} WHERE age > 50", "--epsilon")
    assert_refused(answered_schema_path.parent, (*words, "0.8"), 3, "epsilon at most 0.75")
    run_successfully(*words, "0.75")
    assert_refused(
        answered_schema_path.parent,
        ("ask", answered_schema_path, f"{FROM_REGISTRY} WHERE age > 60", "--epsilon", "0.1"),
        3,
        "nothing new like it",
    )


def test_a_folder_that_cannot_be_written(new_schema_path: Path) -> None:
    """A file stands where the data set's own folder would be; so that root cannot write there either."""
    new_schema_path.with_name("registry.discreet").write_text("")
    assert_refused(new_schema_path.parent, ("check", new_schema_path), 5, "cannot be written")
    assert_refused(new_schema_path.parent, ("ask", new_schema_path, COUNT, "--epsilon", "0.1"), 5, "cannot be written")


def test_a_place_for_a_ledger_that_cannot_be_written(new_schema_path: Path) -> None:
    run_successfully("check", new_schema_path)
    assert_refused(
        new_schema_path.parent,
        ("ask", new_schema_path, COUNT, "--epsilon", "0.1", "--ledger", new_schema_path.parent / "none" / "l.db"),
        5,
        "ledger",
    )
    assert_refused(
        new_schema_path.parent,
        ("ask", new_schema_path, COUNT, "--epsilon", "0.1", "--ledger", new_schema_path.parent),
        5,
        "ledger",
    )
    assert_refused(
        new_schema_path.parent,
        ("ask", new_schema_path, COUNT, "--epsilon", "0.1", "--ledger", "oracle://host/db"),
        2,
        "ledger",
    )


def test_a_place_for_a_draft_that_cannot_be_written(new_schema_path: Path) -> None:
    draft = new_schema_path.parent / "none" / "draft.yaml"
    assert_refused(
        new_schema_path.parent,
        ("init", new_schema_path.with_name("registry.csv"), "--output", draft),
        5,
        "draft.yaml",
    )


def test_no_command_shows_a_cell(new_schema_path: Path) -> None:
    """A token in every cell of every second row, and in every person's name, is in no output, good or bad."""
    rows = iter(range(10**6))

    def plant_token(row: dict[str, str]) -> dict[str, str]:
        number = next(rows)
        marked = dict.fromkeys(row, TOKEN) if number % 2 else row
        return marked | {"person_id": f"{TOKEN}{number}"}

    rewrite_rows(new_schema_path.with_name("registry.csv"), plant_token)
    outcomes = [run_successfully(*words) for words in list_good_commands(new_schema_path)]
    outcomes += [run_discreet(*words) for words in list_bad_commands(new_schema_path)]
    replace_text(new_schema_path, "kind: integer, lower: 17", "kind: date, lower: 2001-01-01")
    outcomes += [
        run_discreet("check", new_schema_path, "--refresh"),
        run_discreet("ask", new_schema_path, COUNT, "--epsilon", "0.1"),
    ]
    rewrite_rows(new_schema_path.with_name("registry.csv"), lambda row: dict.fromkeys(row, TOKEN))
    outcomes += [
        run_discreet("check", new_schema_path, "--refresh"),
        run_discreet("init", new_schema_path.with_name("registry.csv")),
    ]
    assert has_token(Outcome(0, new_schema_path.with_name("registry.csv").read_text(), ""))
    assert [outcome for outcome in outcomes if has_token(outcome)] == []
    assert {outcome.code for outcome in outcomes} >= {0, 2, 3, 5}


def has_token(outcome: Outcome) -> bool:
    return TOKEN[1:] in "".join((outcome.out + outcome.err).split())


def list_good_commands(schema_path: Path) -> list[tuple[object, ...]]:
    commands: list[tuple[object, ...]] = [
        ("init", schema_path.with_name("registry.csv")),
        ("check", schema_path),
        ("check", schema_path, "--refresh"),
        ("ask", schema_path, COUNT, "--epsilon", "0.1"),
        (
            "ask",
            schema_path,
            "SELECT diagnosis, COUNT(*) FROM registry GROUP BY diagnosis",
            "--epsilon",
            "0.1",
        ),
        ("ask", schema_path, "SELECT MEDIAN(income) FROM registry", "--epsilon", "0.1"),
        ("ask", schema_path, "SELECT MODE(occupation) FROM registry", "--epsilon", "0.1"),
        ("preview", schema_path, COUNT, "--epsilon", "0.1"),
        ("budget", schema_path, "--analyst", "analyst"),
        ("history", schema_path),
        ("ledger", "verify", schema_path.parent / "registry.discreet" / "ledger.db"),
    ]
    return [*commands, *((*words, "--json") for words in commands if words[-1] != "--refresh")]


def list_bad_commands(schema_path: Path) -> list[tuple[object, ...]]:
    ask = ("ask", schema_path)
    return [
        ("check", schema_path, "--refresh", "--source", schema_path.with_name("chapters.csv")),
        ("check", schema_path, "--name", "1", "--refresh"),
        (*ask, "SELECT AVG(salary) FROM registry", "--epsilon", "0.1"),
        (*ask, f"{FROM_REGISTRY} WHERE hospital = 'nowhere'", "--epsilon", "0.1"),
        (*ask, f"{FROM_REGISTRY} WHERE age > 50", "--epsilon", "5"),
        (*ask, f"{FROM_REGISTRY} WHERE age > 50", "--epsilon", "1", "--ledger", schema_path),
    ]
