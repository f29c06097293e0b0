"""What `discreet audit` says: which pair it was, what is wrong with what was given, and what a picture shows."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from discreet.errors import InvalidInput
from discreet.schema import load_schema
from discreet.verification.audit import Audit, audit_mechanism, audit_worst
from discreet.verification.audit.audit import build_audit_picture
from discreet.verification.audit.targets import MAX_NUMBERS, AuditedQuestion
from discreet.verification.replays.neighbors import Row
from support.command_line import discreet, done, write_registry

AUDITED_FILE = """import sys

def raises(D, n):
    if D:
        raise ValueError("boom\\x1b[1m\\nmore")
    return [0] * n

def says_much(D, n):
    raise ValueError("x" * 1000)

def deeper(D, n):
    return list(map(int, "x"))

def leaves(D, n):
    sys.exit("gone")

def lazily(D, n):
    yield 1 / 0

def few(D, n):
    return [D] * (n - 1)

def apart(D, n):
    return [D] * n
"""
FILES = {
    "theirs.py": AUDITED_FILE,
    "imports.py": "import nothere.at_all\n",
    "itself.py": "import itself\n",
    "unnamed.py": "raise ModuleNotFoundError('who')\n",
    "spelled.py": "x = 1\ndef f(:\n",
    "leaving.py": "\nraise SystemExit(3)\n",
    "failing.py": "\n\nint('x')\n",
}


@pytest.fixture
def screened_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    write_registry(tmp_path)
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [place for place in sys.path if place])
    return tmp_path


# --- bad input

PAIR = ("--epsilon", "1", "--pair", "0", "1", "--draws", "1000")
DRAWS_RANGE = "draws must be a whole number from 1,000 to 100,000,000; got "
GROUPS = "SELECT COUNT(*) FROM registry GROUP BY age, hospital"
COUNT = "SELECT COUNT(*) FROM registry WHERE age >= 40"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["laplace", "--epsilon", "1", "--draws", "100000000000"], f"{DRAWS_RANGE}100000000000"),
        (["laplace", "--epsilon", "1", "--draws", "100000001"], f"{DRAWS_RANGE}100000001"),
        (["laplace", "--epsilon", "1", "--draws", "0"], f"{DRAWS_RANGE}0"),
        (["imports.py:f", *PAIR], "'imports.py' could not be loaded: it imports 'nothere', which is not installed"),
        (["imports:f", *PAIR], "'imports' could not be loaded: it imports 'nothere', which is not installed"),
        (["itself.py:f", *PAIR], "'itself.py' could not be loaded: it imports 'itself', which is not installed"),
        (
            ["unnamed.py:f", *PAIR],
            "could not be loaded: it failed at line 1 with ModuleNotFoundError: who",
        ),
        (["nothere.at_all:f", *PAIR], "there is no 'nothere.at_all' to load"),
        (["..theirs:f", *PAIR], "there is no '..theirs' to load"),
        (["spelled.py:f", *PAIR], "'spelled.py' could not be loaded: SyntaxError at line 2: "),
        (["leaving.py:f", *PAIR], "'leaving.py' could not be loaded: it failed at line 2 with SystemExit: 3"),
        (["failing.py:f", *PAIR], "'failing.py' could not be loaded: it failed at line 3 with ValueError: invalid"),
        (["theirs.py:raises", *PAIR], "'theirs.py:raises' failed at line 5 with ValueError: boom [1m; it is called as"),
        (["theirs:raises", *PAIR], "'theirs:raises' failed at line 5 with ValueError: boom [1m; it is called as"),
        (["theirs.py:says_much", *PAIR], f"line 9 with ValueError: {'x' * 200}; it is"),
        (["theirs.py:deeper", *PAIR], "failed at line 12 with ValueError: invalid literal"),
        (["theirs.py:leaves", *PAIR], "failed at line 15 with SystemExit: gone; it is called as mechanism(D, n)"),
        (["theirs.py:lazily", *PAIR], "failed at line 18 with ZeroDivisionError: division by zero; it is"),
        (["theirs.py:few", *PAIR], "asked for 1,000, it returned 999"),
        (["theirs.py", *PAIR], "'theirs.py' is a file; say which function of it, as theirs.py:function"),
        (["theirs.py:few", "--epsilon", "1", "--pair", "[1]", "[ 1]"], "D and D2 are the same; give two neighbours"),
        (["laplace", "SELECT 1", "--epsilon", "1"], "laplace is a mechanism and takes no QUERY; leave it out, or"),
        (["laplace", "--epsilon", "1", "--confidence", "99.9"], "got 99.9; write 99.9 % as 0.999"),
        (["registry.yaml", COUNT, "--epsilon", "1", "--neighbours", "0"], "should be greater than or equal to 1;"),
        (["registry.yaml", COUNT, "--epsilon", "1", "--neighbours", "1001"], "should be less than or equal to 1000;"),
        (["registry.yaml", GROUPS, "--epsilon", "1"], f"at most {MAX_NUMBERS} numbers; ask for fewer groups"),
    ],
)
def test_what_is_wrong_is_told(screened_folder: Path, words: list[str], message: str) -> None:
    refusal = discreet("audit", *words)
    assert (refusal.code, refusal.out) == (2, ""), refusal
    assert message in refusal.err
    assert refusal.err.count("\n") == 1
    assert screened_folder.is_dir()


def test_draws_have_bounds_in_python_too() -> None:
    for draws in (10**11, 999, 1000.5):
        with pytest.raises(InvalidInput, match="from 1,000 to 100,000,000; got "):
            audit_mechanism(lambda _, n: [0] * n, 0, 1, 1, draws=draws)


def test_too_little_memory_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def run_out_of_memory(*_: object, **__: object) -> None:
        raise MemoryError

    monkeypatch.setattr("discreet.verification.audit.targets.audit_mechanism", run_out_of_memory)
    refusal = discreet("audit", "geometric", "--epsilon", "1")
    assert (refusal.code, refusal.out) == (5, "")
    assert "1,000,000 draws do not fit in the memory of this machine; ask for fewer" in refusal.err


@pytest.mark.parametrize(
    ("pairs", "message"),
    [
        ([([1],)], "pair 1 has 1"),
        ([(0, 1), (0, 1, 2)], "pair 2 has 3"),
        ([0, 1], "pair 1 is int"),
        (5, "a list of .*; got int"),
        ("ab", "a list of .*; got str"),
        ([], "at least one pair"),
    ],
)
def test_pairs_are_checked(pairs: Any, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        audit_worst(lambda data, n: [data] * n, pairs, 1, draws=1000)


def test_an_answer_that_is_public_is_not_audited(screened_folder: Path) -> None:
    refusal = discreet("audit", screened_folder / "registry.yaml", "SELECT COUNT(*) FROM registry", "--epsilon", "1")
    assert (refusal.code, refusal.out) == (4, "")
    assert "nothing is drawn: this answer is public by the schema; there is nothing to audit" in refusal.err


# --- what is told


@pytest.mark.parametrize(
    ("name", "input_of_d", "input_of_d2"),
    [
        ("geometric", "0", "1"),
        ("exponential", "[1, 0, 0, 0, 0, 0, 0, 0, 0, 0]", "[0, 1, 1, 1, 1, 1, 1, 1, 1, 1]"),
        ("extreme", "[]", "[20]"),
        ("polygon-staircase", "[0, 0]", "[2, 1]"),
    ],
)
def test_the_inputs_of_a_mechanism_are_told(name: str, input_of_d: str, input_of_d2: str) -> None:
    document = done("audit", name, "--epsilon", "1", "--draws", "1000", "--json").document
    assert (document["planned"], document["pair"]) == (None, {"D": input_of_d, "D2": input_of_d2})


def test_both_inputs_are_drawn_from() -> None:
    document = done("audit", "extreme", "--epsilon", "3", "--draws", "2000", "--json").document
    assert 0.3 < document["lower_bound"] < 3


def test_the_pair_of_a_callable_is_told(screened_folder: Path) -> None:
    caught = discreet("audit", "theirs.py:apart", *PAIR)
    assert caught.code == 6
    rows = dict(line.split(maxsplit=1) for line in caught.out.splitlines())
    assert (rows["D"].strip(), rows["D2"].strip()) == ("0", "1")
    assert screened_folder.is_dir()


def test_the_tables_of_a_question_are_told(screened_folder: Path) -> None:
    document = done(
        "audit",
        screened_folder / "registry.yaml",
        COUNT,
        "--epsilon",
        "1",
        "--draws",
        "4000",
        "--neighbours",
        "8",
        "--json",
    ).document
    assert document["planned"].startswith("discrete Laplace; Differential privacy with epsilon 1 ")
    counted = []
    for side in ("D", "D2"):
        match = re.match(r"24 rows, 1 of them not in the other: age (\d+|missing)", document["pair"][side])
        assert match
        counted.append(match[1] != "missing" and int(match[1]) >= 40)
    assert sorted(counted) == [False, True]


def test_the_pair_that_is_told_is_the_one_that_was_audited() -> None:
    """Of three pairs, the one that is told apart."""
    from fractions import Fraction

    from discreet.verification.audit.targets import Target

    words = (("a", "b"), ("c", "d"), ("e", "f"))
    target = Target("it", lambda data, n: [data] * n, ((0, 0), (0, 1), (1, 1)), Fraction(1), pair_descriptions=words)
    audit, described = target.audit(1000, Fraction(99, 100), lambda _: None)
    assert (audit.violated, described) == (True, ("c", "d"))


def test_tables_of_other_sizes_are_told(tmp_path: Path) -> None:
    from discreet.verification.audit.targets import describe_tables

    schema_path = write_registry(tmp_path)
    schema_path.write_text(schema_path.read_text().replace("replace-one", "add-remove").replace("units: 2000\n", ""))
    plan = AuditedQuestion.of(load_schema(schema_path), COUNT, 1, pairs=4).plan
    row: Row = {}
    row |= dict.fromkeys(plan.schema.columns, 0) | {"age": 41}
    other = row | {"age": 42}
    assert describe_tables(plan, ([], [row])) == (
        "0 rows",
        "1 row, 1 of them not in the other: age 41, sex F, education none",
    )
    assert describe_tables(plan, ([row, other], [other, other])) == (
        "2 rows, 1 of them not in the other: age 41",
        "2 rows, 1 of them not in the other: age 42",
    )
    assert describe_tables(plan, ([row, row], []))[0].startswith("2 rows, 2 of them not in the other, such as age 41,")


def test_the_table_says_what_the_sentence_says(screened_folder: Path) -> None:
    """And where no violation was found there is no bound to read as one."""
    caught = discreet("audit", "theirs.py:apart", *PAIR)
    bound = caught.err.split("is at least ")[1].split(" ")[0]
    assert f"epsilon at least  {bound}" in " ".join(caught.out.splitlines())
    assert "epsilon at least" not in done("audit", "geometric", "--epsilon", "1", "--draws", "2000").out
    assert screened_folder.is_dir()


def test_help_tells_how_many_draws_there_are() -> None:
    assert "1,000,000 unless told" in " ".join(done("audit", "--help").out.replace("│", " ").split())


# --- the picture


def _audit_shift(columns: Any, epsilon: float = 1) -> Audit:
    """Of what is drawn, moved by one with D2."""
    generator = np.random.default_rng(3)
    return audit_mechanism(lambda data, n: data + columns(generator, n), 0, 1, epsilon, draws=4000)


@pytest.mark.parametrize("kind", [np.int64, np.float64])
def test_whole_numbers_are_shaded_from_half_below(kind: type) -> None:
    """As their bins are, whether they come as whole numbers or as floats."""
    audit = _audit_shift(lambda generator, n: generator.geometric(0.4, size=n).astype(kind))
    shade, lines = build_audit_picture(audit)["layer"]
    spans = [(each["from"], each["to"]) for each in shade["data"]["values"]]
    bins = {row["x"] for row in lines["data"]["values"]}
    assert spans
    assert all(end in bins and end % 1 == 0.5 for span in spans for end in span)


@pytest.mark.parametrize("kind", [np.int64, np.float64])
def test_one_whole_number_is_shaded_with_all_of_its_bin(kind: type) -> None:
    generator = np.random.default_rng(5)

    def sample_mostly_three(data: int, n: int) -> np.ndarray[Any, Any]:
        """Three with D, else anything."""
        return np.where(data + generator.random(n) < 0.8, 3, generator.integers(0, 7, n)).astype(kind)

    audit = audit_mechanism(sample_mostly_three, 0, 1, 1, draws=4000)
    assert audit.violated
    assert build_audit_picture(audit)["layer"][0]["data"]["values"] == [{"from": 2.5, "to": 3.5}]


def test_a_caption_says_what_is_shaded() -> None:
    over = _audit_shift(lambda generator, n: generator.geometric(0.9, size=n))
    assert build_audit_picture(over)["description"] == f"{over.sentence()} Shaded is that event."
    right = _audit_shift(lambda generator, n: generator.geometric(0.4, size=n), epsilon=50)
    sentence = f"{right.sentence()} Shaded is the event: {right.event.words}."
    assert build_audit_picture(right)["description"] == sentence
    names = audit_mechanism(lambda data, n: [data] * n, "a", "b", 1, draws=1000)
    assert build_audit_picture(names)["description"] == names.sentence()


def test_no_axis_ends_in_a_comma() -> None:
    from dataclasses import replace

    from discreet.verification.audit.combined_features import learn_likelihood_ratio

    audit = _audit_shift(lambda generator, n: generator.normal(size=n), epsilon=50)
    rows = np.arange(40).reshape(20, 2)
    name = learn_likelihood_ratio(rows, rows + 1).name
    evidence = audit.evidence
    feature = replace(evidence.candidate.feature, name=name, axis=lambda keys: keys.astype(np.float64))
    spec = build_audit_picture(
        replace(audit, evidence=replace(evidence, candidate=replace(evidence.candidate, feature=feature)))
    )
    titles = [layer["encoding"]["x"]["title"] for layer in spec["layer"]]
    assert titles == [name.rstrip(", ")] * 2
    assert not any(title.endswith(",") for title in titles)


def test_a_place_that_takes_no_picture_is_found_out_first(screened_folder: Path) -> None:
    """Before anything is drawn: the callable is not even called."""
    (screened_folder / "taken.svg").mkdir()
    refusal = discreet("audit", "theirs.py:raises", *PAIR, "--picture", "taken.svg")
    assert (refusal.code, refusal.out) == (5, "")
    assert "the picture 'taken.svg' cannot be written there; choose another place" in refusal.err
    assert sorted(path.name for path in screened_folder.glob(".discreet*")) == []


def test_a_result_is_told_even_if_its_picture_fails(screened_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("discreet.charts.check_writable", lambda *_: None)
    (screened_folder / "taken.svg").mkdir()
    outcome = discreet("audit", "geometric", "--epsilon", "1", "--draws", "1000", "--picture", "taken.svg")
    assert outcome.code == 5
    assert "No violation " in outcome.out
