"""`discreet audit`: mechanisms by name, somebody else's callables, and questions whose data are never opened."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from discreet.custodian.measure import read_exact_inputs
from discreet.measurements.additive import AdditiveNoise
from discreet.mechanisms.entropy import Entropy
from discreet.schema import load_schema
from discreet.sources.memory import MemorySource
from discreet.verification.audit import audit_worst
from discreet.verification.audit.known_mechanisms import MECHANISM_BUILDERS
from discreet.verification.audit.targets import (
    HIDDEN_VALUE,
    AuditedQuestion,
    _build_rows,
    _collect_inputs,
    split_into_parts,
)
from support.command_line import digest_files, run_discreet, run_successfully, write_registry
from support.small_tables import schema as made_schema

COUNT = "SELECT COUNT(*) FROM registry WHERE age >= 40"
Totals = list[tuple[int, ...]]
GROUPS = 3
"""F, M, and missing."""
AUDITED_FILE = """
import numpy

generator = numpy.random.default_rng(1)

def laplace(D, n):
    return D + generator.laplace(size=n)

def on_a_grid(D, n):
    return numpy.round(1024 * laplace(D, n)) / 1024

def fails(D, n):
    raise KeyError("a key")

def in_steps_of_two(D, n):
    return D + 2 * numpy.round(1e6 * laplace(0, n)).astype(int)

number = 3
"""


@pytest.fixture
def registry_path(tmp_path: Path) -> Path:
    """A schema whose data are not there."""
    path = write_registry(tmp_path)
    path.with_name("registry.csv").unlink()
    return path


ROOMS_SCHEMA = """
name: t
source: t.csv
neighbours: add-remove
unit: {column: person, rows: 1}
budget: {epsilon: 10}
analyst_budget: {epsilon: 10}
individual_queries: yes
columns:
  person: {role: identifier}
  age: {kind: integer, lower: 0, upper: 99, missing: 0}
  ill: {kind: boolean}
  town: {kind: nominal, categories: [Oslo, Rome, Hammerfest, Tromso]}
  room: {kind: integer, lower: 0, upper: 1999}
"""


@pytest.fixture
def rooms_path(tmp_path: Path) -> Path:
    """Questions to it may be about very few of its rows, or about one person."""
    path = tmp_path / "rooms.yaml"
    path.write_text(ROOMS_SCHEMA)
    return path


@pytest.fixture
def audited_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "theirs_to_audit.py").write_text(AUDITED_FILE)
    monkeypatch.chdir(tmp_path)
    return tmp_path


# --- by name


@pytest.mark.parametrize(
    "name", ["laplace", "geometric", "gaussian", "staircase", "box-staircase", "polygon-staircase"]
)
def test_noise_that_is_right_is_not_accused(name: str) -> None:
    document = run_successfully("audit", name, "--epsilon", "1", "--draws", "20000", "--json").document
    assert (document["audited"], document["violated"], document["draws"]) == (name, False, 20000)
    assert document["sentence"].startswith("No violation ")
    if name != "gaussian":
        assert document["lower_bound"] > 0.5  # about 0.9, and seldom as little as 0.7
    assert (document["delta"] != "0") == (name == "gaussian")


MECHANISM_NAMES = ["exponential", "permute-and-flip", "refinement", "quantile", "quantiles", "extreme", "bracket"]


@pytest.mark.parametrize("name", [*MECHANISM_NAMES, "smooth-median"])
def test_what_is_drawn_one_by_one_is_not_accused(name: str) -> None:
    document = run_successfully("audit", name, "--epsilon", "2", "--draws", "1000", "--json").document
    assert document["violated"] is False


@pytest.mark.parametrize("name", ["individual-median", "truncated-range-count"])
def test_what_is_not_dp_is_caught(name: str) -> None:
    caught = run_discreet("audit", name, "--epsilon", "1", "--draws", "1000")
    assert caught.code == 6
    assert caught.err.startswith("discreet: Violated: epsilon is at least ")
    assert "epsilon at least" in caught.out
    outcome = run_discreet("audit", name, "--epsilon", "1", "--draws", "1000", "--json")
    assert (outcome.code, outcome.err, outcome.document["violated"]) == (6, "", True)


def test_every_name_is_tried_here() -> None:
    assert len(MECHANISM_BUILDERS) == 6 + len(MECHANISM_NAMES) + 1 + 2


# --- somebody else's


@pytest.mark.parametrize("place", ["theirs_to_audit", "theirs_to_audit.py"])
def test_a_callable_of_another_library_is_audited(audited_folder: Path, place: str) -> None:
    options = ("--epsilon", "1", "--pair", "0", "1", "--draws", "20000")
    caught = run_discreet("audit", f"{place}:laplace", *options)
    assert caught.code == 6
    assert "the answer is not a multiple of 2^-53" in caught.err
    assert "No violation above 0." in run_successfully("audit", f"{place}:on_a_grid", *options).out
    assert audited_folder.is_dir()


def test_the_event_of_a_callable_in_steps_is_told_in_words(audited_folder: Path) -> None:
    caught = run_discreet(
        "audit", "theirs_to_audit.py:in_steps_of_two", "--epsilon", "1", "--pair", "0", "1", "--draws", "2000"
    )
    assert caught.code == 6
    assert re.search(r"with D and 0 with D2: the answer is even|with D2 and 0 with D: the answer is odd", caught.err)
    assert audited_folder.is_dir()


def test_the_draws_of_a_callable_come_from_one_call(audited_folder: Path) -> None:
    """A generator that is seeded in the function would repeat itself; our own are called in parts, for the bar."""
    counts: list[int] = []
    stages: list[str] = []

    def count_calls(_: object, n: int) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
        counts.append(n)
        return np.zeros(n)

    assert len(split_into_parts(count_calls, stages.append)(0, 1010)) == 1010  # type: ignore[arg-type]
    assert sum(counts) == 1010
    assert len(counts) == len(stages) == 20
    source = "calls = []\ndef once(D, n):\n    calls.append(n)\n    assert len(calls) <= 2\n    return [0] * n\n"
    (audited_folder / "theirs_called_once.py").write_text(source)
    outcome = run_discreet(
        "audit", "theirs_called_once.py:once", "--epsilon", "1", "--pair", "0", "1", "--draws", "5000"
    )
    assert outcome.code == 0


def test_a_file_may_have_dataclasses(audited_folder: Path) -> None:
    """Which look up the module that they are in."""
    text = "from __future__ import annotations\nfrom dataclasses import dataclass\nimport random\n\n\n"
    text += "@dataclass\nclass Coin:\n    heads: bool\n\n\n"
    text += "def tossed(data, n):\n    return [Coin(random.random() < 0.5).heads for _ in range(n)]\n"
    (audited_folder / "numpy.py").write_text(text)  # and a file named like a library stays beside it
    outcome = run_discreet("audit", "numpy.py:tossed", "--epsilon", "1", "--pair", "0", "1", "--draws", "2000")
    assert outcome.code == 0, outcome.err


def test_a_pair_of_one_is_refused() -> None:
    """What comes after it is an option, and no neighbour."""
    outcome = run_discreet("audit", "theirs.py:f", "--pair", "[0]", "--epsilon", "1")
    assert outcome.code == 2
    assert outcome.err.startswith(
        "discreet: --pair takes two neighbours, such as --pair '[0]' '[0, 1]'; after [0] comes --eps"
    )


# --- a question


def test_a_question_is_audited_without_its_data(registry_path: Path) -> None:
    """Nothing is opened, made or charged: the data are not there, and the folder is as it was."""
    before, names = digest_files(registry_path.parent), sorted(registry_path.parent.rglob("*"))
    document = run_successfully("audit", registry_path, COUNT, "--epsilon", "1", "--draws", "20000", "--json").document
    assert document["violated"] is False
    assert document["lower_bound"] > 0.8
    assert (digest_files(registry_path.parent), sorted(registry_path.parent.rglob("*"))) == (before, names)


def test_a_mechanism_is_audited_by_its_name(registry_path: Path) -> None:
    """The one that was asked for, and not the one of least error, which has other outputs."""
    words = ("audit", registry_path, COUNT, "--epsilon", "1", "--draws", "20000", "--json")
    named = run_successfully(*words, "--mechanism", "randomized response").document
    assert named["planned"].startswith("randomized response; Differential privacy with epsilon 1")
    assert named["violated"] is False
    assert named["lower_bound"] > 0.05
    assert run_successfully(*words).document["planned"].startswith("discrete Laplace; ")
    refusal = run_discreet("audit", registry_path, COUNT, "--epsilon", "1", "--mechanism", "roulette")
    assert (refusal.code, refusal.out) == (2, "")
    assert "mechanism 'roulette' is not on offer for this question; choose discrete Laplace" in refusal.err


def test_a_halved_scale_is_caught(registry_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A fault in the path that draws an answer is a fault in what is audited."""

    def halve_noise(measurement: AdditiveNoise, inputs: Totals, entropy: Entropy) -> Totals:
        noise = measurement.noise.sample_units(len(inputs), entropy) // 2
        return [tuple(x + int(n) for x, n in zip(*row, strict=True)) for row in zip(inputs, noise, strict=True)]

    monkeypatch.setattr(AdditiveNoise, "measure", halve_noise)
    caught = run_discreet("audit", registry_path, COUNT, "--epsilon", "1", "--draws", "20000", "--neighbours", "12")
    assert caught.code == 6


def test_one_draw_for_all_groups_is_caught(registry_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With noise so wide that no single count tells anything: the difference of two counts is exact."""

    def reuse_draws(measurement: AdditiveNoise, inputs: Totals, entropy: Entropy) -> Totals:
        noise = np.repeat(measurement.noise.sample_units(len(inputs) // GROUPS, entropy), GROUPS, axis=0)
        return [tuple(x + int(n) for x, n in zip(*row, strict=True)) for row in zip(inputs, noise, strict=True)]

    monkeypatch.setattr(AdditiveNoise, "measure", reuse_draws)
    words = ("audit", registry_path, "SELECT COUNT(*) FROM registry GROUP BY sex", "--epsilon", "0.0001")
    caught = run_discreet(*words, "--draws", "4000", "--neighbours", "12")
    assert caught.code == 6
    assert re.search(
        r"number 1 minus number 2 of the answer is|certain numbers of the answer|different numbers", caught.err
    )


def test_a_picture_is_drawn(registry_path: Path, tmp_path: Path) -> None:
    picture = tmp_path / "audit.svg"
    run_successfully(
        "audit", registry_path, COUNT, "--epsilon", "1", "--draws", "2000", "--neighbours", "8", "--picture", picture
    )
    assert "No violation above" in picture.read_text()


@pytest.mark.parametrize("relation", ["add-remove", "replace-one"])
@pytest.mark.parametrize(
    ("question", "options"),
    [
        ("SELECT SUM(age), COUNT(*) FROM t GROUP BY sex", {}),
        ("SELECT AVG(score) FROM t", {}),
        ("SELECT VAR(score) FROM t", {}),
        ("SELECT MEDIAN(score) FROM t", {}),
        ("SELECT COUNT(*) FROM t GROUP BY ROLLUP(sex, grade)", {}),
        ("SELECT COUNT(*) FROM t GROUP BY sex", {"delta": 1e-6}),
        ("SELECT city, COUNT(*), SUM(age) FROM t GROUP BY city", {"delta": 1e-3}),
    ],
)
def test_every_form_of_question_is_drawn_as_it_is_answered(
    relation: str, question: str, options: dict[str, float]
) -> None:
    """A row for each answer, with as many numbers on every table; none is accused."""
    audited_question = AuditedQuestion.of(made_schema(relation, 1, units=6), question, 1, pairs=8, **options)  # type: ignore[arg-type]
    mechanism = audited_question.build_mechanism()
    outputs = [np.asarray(mechanism(rows, 20)) for pair in audited_question.pairs for rows in pair]
    assert {each.shape for each in outputs} == {(20, outputs[0].shape[1])}
    claim = audited_question.plan.guarantee
    audit = audit_worst(mechanism, audited_question.pairs[:2], claim.epsilon, claim.delta or 0, draws=1000)
    assert not audit.violated


def test_numbers_are_those_of_an_answer() -> None:
    """About the exact totals: the mean of many draws is near them."""
    audited_question = AuditedQuestion.of(
        made_schema("add-remove", 1, units=6), "SELECT COUNT(*) FROM t GROUP BY sex", 5, pairs=30
    )
    rows = max((rows for pair in audited_question.pairs for rows in pair), key=len)
    plan = audited_question.plan
    exact = read_exact_inputs(plan, MemorySource(plan.schema, rows), plan.list_cells(), plan.query.where).inputs[0]
    outputs = np.asarray(audited_question.build_mechanism()(rows, 4000))
    assert outputs.mean(axis=0) == pytest.approx(np.array(exact)[:, 0], abs=0.1)
    assert any(np.array(exact)[:, 0] > 0)


def test_keys_that_are_not_shown_have_a_number_too() -> None:
    audited_question = AuditedQuestion.of(
        made_schema("add-remove", 1, units=6), "SELECT city, COUNT(*) FROM t GROUP BY city", 1, delta=1e-3
    )
    outputs = np.asarray(audited_question.build_mechanism()(audited_question.pairs[0][0], 50))
    assert outputs.shape == (50, len(audited_question.build_mechanism().keys))
    assert (outputs == HIDDEN_VALUE).any()


def test_pairs_that_give_the_same_inputs_are_left_out() -> None:
    """Their answers have one law; of an answer that is public there is one pair all the same."""
    declared_schema = made_schema("replace-one", 1, units=6)
    audited_question = AuditedQuestion.of(declared_schema, "SELECT COUNT(*) FROM t WHERE age > 0", 1)
    assert 0 < len(audited_question.pairs) < 32
    assert len({repr(_collect_inputs(audited_question.plan, pair)) for pair in audited_question.pairs}) == len(
        audited_question.pairs
    )
    assert all(_collect_inputs(audited_question.plan, pair) for pair in audited_question.pairs)
    public = AuditedQuestion.of(declared_schema, "SELECT COUNT(DISTINCT pid) FROM t", 1)
    assert len(public.pairs) == 1


RARE_COUNT = "SELECT COUNT(*) FROM t WHERE room = 777 AND age = 37 AND ill AND town = 'Rome'"


@pytest.mark.parametrize(
    "question", ["SELECT COUNT(*) FROM t WHERE room = 777 AND age = 37", "SELECT ill FROM t FOR UNIT 'p37'", RARE_COUNT]
)
def test_what_a_question_names_is_in_the_tables_that_are_made_up(rooms_path: Path, question: str) -> None:
    """Else its answer would not be moved, and nothing would be audited."""
    document = run_successfully("audit", rooms_path, question, "--epsilon", "1", "--draws", "4000", "--json").document
    assert 0.5 < document["lower_bound"] < 1


def test_an_answer_that_nothing_moves_is_not_audited(rooms_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("discreet.verification.audit.targets.MAX_PAIRS", 2)
    refusal = run_discreet("audit", rooms_path, RARE_COUNT, "--epsilon", "1", "--neighbours", "2")
    assert (refusal.code, refusal.out) == (4, "")
    assert "no pair of made-up neighbours moves this answer; nothing was audited" in refusal.err
    monkeypatch.undo()
    assert AuditedQuestion.of(load_schema(rooms_path), RARE_COUNT, 1, pairs=2).pairs


def test_numbers_beyond_64_bits_are_kept() -> None:
    assert _build_rows([1, 2**80, 3, 4], 2) == [[1, 2**80], [3, 4]]


# --- bad input


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["laplace"], "which epsilon is claimed"),
        (["laplace", "--epsilon", "x"], "epsilon"),
        (["nothing", "--epsilon", "1"], "no mechanism 'nothing'"),
        (["laplace", "--epsilon", "1", "--delta", "0.1"], "leave out delta"),
        (["laplace", "--epsilon", "1", "--draws", "999"], "from 1,000 to 100,000,000; got 999"),
        (["laplace", "--epsilon", "1", "--confidence", "2"], "between 0 and 1"),
        (["laplace", "--epsilon", "1", "--confidence", "0.99999999999999999"], "at most 1 - 10^-12"),
        (["laplace", "--epsilon", "1", "--pair", "0", "1"], "belongs to a callable"),
        (["laplace", "--epsilon", "1", "--model", "dp"], "belongs to a schema"),
        (["laplace", "--epsilon", "1", "--mechanism", "staircase"], "belongs to a schema"),
        (["laplace", "--epsilon", "1", "--neighbours", "3"], "belongs to a schema"),
        (["laplace", "--epsilon", "1", "--picture", "x.gif"], "ends in .svg"),
        (["registry.yaml", "--epsilon", "1"], "with a question"),
        (["registry.yaml", "SELECT", "--epsilon", "1"], ""),
        (["registry.yaml", COUNT, "--epsilon", "1", "--pair", "0", "1"], "made up"),
        (["absent.yaml", COUNT, "--epsilon", "1"], ""),
        (["theirs_to_audit:laplace", "--epsilon", "1"], "two neighbours"),
        (["theirs_to_audit:laplace", "--epsilon", "1", "--pair", "0", "{"], "as JSON"),
        (["theirs_to_audit:number", "--epsilon", "1", "--pair", "0", "1"], "no function"),
        (["theirs_to_audit:absent", "--epsilon", "1", "--pair", "0", "1"], "no function"),
        (["absent_module:f", "--epsilon", "1", "--pair", "0", "1"], "to load"),
        (["absent.py:f", "--epsilon", "1", "--pair", "0", "1"], "to load"),
        ([":f", "--epsilon", "1", "--pair", "0", "1"], "to load"),
        (
            ["theirs_to_audit:fails", "--epsilon", "1", "--pair", "0", "1"],
            "failed at line 13 with KeyError: 'a key'",
        ),
    ],
)
def test_bad_input_is_told_in_one_sentence(
    audited_folder: Path, registry_path: Path, words: list[str], message: str
) -> None:
    refusal = run_discreet("audit", *words)
    assert (refusal.code, refusal.out) == (2, "")
    assert refusal.err.startswith("discreet: ")
    assert refusal.err.count("\n") == 1
    assert message in refusal.err
    assert registry_path.parent == audited_folder
