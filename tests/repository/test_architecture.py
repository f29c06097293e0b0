"""The way of a question through the packages, as docs/architecture.md has it: walked, not read."""

from __future__ import annotations

import pickle
import re
import subprocess
import sys
from itertools import groupby
from pathlib import Path

import pytest

from support.command_line import ROOT, run_discreet, run_successfully, write_registry
from support.question_walk import LINE, PACKAGE, STAGES, Walk, record_walk

PAGE = ROOT / "docs" / "architecture.md"
MAX_MODULES = 60
"""So many modules are entered by one question with a prior, at most."""
PACKAGES = ["query", "planner", "custodian", "ledger", "sources", "measurements", "ledger", "answers"]
"""The packages that a question crosses; two stages in a row may be of one package."""
MODULE = re.compile(r"`([a-z_]+(?:\.[a-z_]+)*)`")


WALKING = """
import pickle, sys
from pathlib import Path
from support.question_walk import walk_question
walk = walk_question(Path(sys.argv[1]))
sys.stdout.buffer.write(pickle.dumps(walk))
"""


@pytest.fixture(scope="module")
def walk(tmp_path_factory: pytest.TempPathFactory) -> Walk:
    """In a process of its own: what an earlier test left in a cache is not entered again."""
    command = [sys.executable, "-c", WALKING, str(tmp_path_factory.mktemp("walk"))]
    output = subprocess.run(command, cwd=ROOT / "tests", capture_output=True, check=True).stdout
    recorded: Walk = pickle.loads(output)
    print(recorded)
    return recorded


def test_a_question_takes_each_stage_once_and_in_order(walk: Walk) -> None:
    """And every stage is entered from the one function that calls them all."""
    assert walk.stages == list(STAGES)
    assert walk.callers == [LINE] * len(STAGES)


def test_a_question_crosses_each_package_once_and_in_order(walk: Walk) -> None:
    """The ledger twice, for its two durable commits; what that means is said in `support.question_walk`."""
    assert [package for package, _ in groupby(STAGES[stage][0] for stage in walk.stages)] == PACKAGES
    assert walk.find_strays() == []


def test_a_question_enters_few_modules(walk: Walk) -> None:
    assert len(walk.entered) <= MAX_MODULES, str(walk)


def test_the_page_has_the_modules_that_are_entered(walk: Walk) -> None:
    """`python -m support.question_walk` in `tests` prints the rows of its table."""
    page = PAGE.read_text()
    assert "\n".join(walk.list_table()) in page, str(walk)
    assert f"{len(walk.entered)} modules" in page
    for stage, (_, module, name) in STAGES.items():
        assert f"`{module}`" in page, stage
        assert f"{module}.{name}" in page, stage


def test_every_module_of_the_page_exists() -> None:
    missing = [name for name in MODULE.findall(PAGE.read_text()) if "." in name and not find_module(name)]
    assert missing == []


def find_module(name: str) -> bool:
    return (PACKAGE / Path(*name.split("."))).with_suffix(".py").is_file()


def test_a_module_that_is_not_there_is_missed() -> None:
    assert find_module("planner.planner")
    assert not find_module("planner.planer")


def test_a_stored_answer_is_charged_and_explained_but_never_scanned(tmp_path: Path) -> None:
    """The same question again leaves out what was done: the rows stay closed to it."""
    schema = write_registry(tmp_path)
    ask = ("ask", schema, "SELECT COUNT(*) FROM registry WHERE smoker", "--epsilon", "0.1")
    run_successfully(*ask)
    with record_walk() as again:
        run_successfully(*ask)
    left_out = {"scan", "measure", "store"}
    assert again.stages == [stage for stage in STAGES if stage not in left_out]


def test_what_is_refused_goes_no_further_than_the_stage_that_refuses(tmp_path: Path) -> None:
    schema = write_registry(tmp_path)
    run_successfully("check", schema)
    refused = {
        "SELECT COUNT(*) FROM elsewhere": ["parse"],
        "SELECT COUNT(*) FROM registry WHERE age > 200": ["parse", "plan"],
        "SELECT AVG(age) FROM registry": ["parse", "plan", "validate"],
    }
    for question, stages in refused.items():
        with record_walk() as walk:
            outcome = run_discreet("ask", schema, question, "--epsilon", "0.1", "--constraint", "total = 10")
        assert (outcome.code, walk.stages) == (2, stages), outcome
