"""The mutation check itself: every fault is where it says, its tests are there, and the check can fail."""

from __future__ import annotations

import ast
import os
import re
from dataclasses import replace
from pathlib import Path

import pytest
from tests.mutants.__main__ import main, summary
from tests.mutants.copied_package import ELSEWHERE
from tests.mutants.fault import ROOT, SOURCE, Fault
from tests.mutants.faults import FAULTS
from tests.mutants.page import PAGE, table
from tests.mutants.run_faults import PASSED, Copy, Outcome, check, file_of

NAMED = {fault.name: fault for fault in FAULTS}
LEAST = 25
GUARDED = {
    "mechanisms",
    "privacy",
    "sources",
    "measurements",
    "planner",
    "ledger",
    "synthetic",
    "sdc",
    "estimation",
    "custodian",
}
GUARDED |= {"answers", "query", "service", "verification"}
# What must be among them, whatever else is.
CLASSIC = {
    "bound-from-data",
    "laplace-halved-scale",
    "noise-added-in-floats",
    "numbers-not-clipped",
    "one-draw-for-all-cells",
    "prior-taken-from-data",
    "rank-blocks-off-by-one",
    "refund-on-failure",
    "skipped-charge",
    "sums-in-floats",
    "wrong-neighbours-in-groups",
}


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_a_fault_changes_one_place_of_its_file(fault: Fault) -> None:
    """What it changes stands there once, and what comes of it is still Python."""
    text = (SOURCE / fault.path).read_text()
    broken = fault.apply_to(text)
    assert ast.dump(ast.parse(broken)) != ast.dump(ast.parse(text))


@pytest.fixture(scope="session")
def running(request: pytest.FixtureRequest) -> dict[str, set[str]]:
    """The tests of this run by their file; none unless it runs whole files."""
    if request.config.option.keyword or any("::" in asked for asked in request.config.args):
        return {}
    tests_by_file: dict[str, set[str]] = {}
    for item in request.session.items:
        test = re.sub(r"^tests/|@[^@\]]*$", "", item.nodeid)  # pytest-xdist adds the group
        tests_by_file.setdefault(file_of(test), set()).add(test)
    return tests_by_file


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_the_tests_of_a_fault_are_there(fault: Fault, running: dict[str, set[str]]) -> None:
    """With the very numbers in brackets, where their file is run too."""
    assert fault.killers
    for test in fault.killers:
        text = (ROOT / "tests" / file_of(test)).read_text()
        for name in re.findall(r"::(\w+)", test):
            assert f"def {name}(" in text
        assert file_of(test) not in running or not test.endswith("]") or test in running[file_of(test)]


def test_there_are_faults_of_every_part() -> None:
    assert len(FAULTS) == len(NAMED) >= LEAST
    assert {fault.package for fault in FAULTS} >= GUARDED
    assert NAMED.keys() >= CLASSIC


def test_the_page_lists_every_fault() -> None:
    """As `python -m tests.mutants --docs` writes it."""
    assert PAGE.read_text().endswith("\n" + table())


def test_what_stands_there_twice_is_no_fault() -> None:
    fault = replace(FAULTS[0], old="here")
    assert fault.apply_to("here it is") == f"{fault.new} it is"
    for text in ("here, and here", "nowhere at all".replace("here", "")):
        with pytest.raises(ValueError, match="not once"):
            fault.apply_to(text)


def test_the_check_kills_and_can_fail(tmp_path: Path) -> None:
    """Two real faults are killed; a comment is not; one whose tests cannot be run, or fail without it, is broken."""
    real = [NAMED["conversion-rounded-down"], NAMED["weaker-is-called-differential-privacy"]]
    quick = real[0]
    harmless = replace(quick, name="harmless", new=f"{quick.old}  # nothing")
    missing = replace(quick, name="missing", killers=("test_numeric.py::test_that_is_not_there",))
    (tmp_path / "test_failing.py").write_text("def test_fails() -> None:\n    assert False\n")
    failing = replace(quick, name="failing", killers=(os.path.relpath(tmp_path / "test_failing.py", ROOT / "tests"),))
    lines: list[str] = []
    faults = [*real, harmless, missing, failing]
    outcomes = check(faults, lines.append, workers=1)  # one copy of the package, compiled once
    assert [one.verdict for one in outcomes] == ["killed", "killed", "survived", "broken", "broken"]
    assert outcomes[0].by == quick.killers[0]
    assert len(lines) == len(faults) + 2
    assert "2 of 5 faults killed" in summary(outcomes)


def test_a_fault_is_taken_out_again(tmp_path: Path) -> None:
    """The copy is whole again, with the times of its files; the package itself is never written to."""
    fault = NAMED["amounts-rounded-down"]
    file = tmp_path / "src" / fault.path
    file.parent.mkdir(parents=True)
    file.write_text((SOURCE / fault.path).read_text())
    before = file.read_text(), file.stat().st_mtime_ns
    with Copy(tmp_path).broken_by(fault):
        assert file.read_text() == fault.apply_to(before[0])
        assert file.stat().st_mtime_ns != before[1]
    assert (file.read_text(), file.stat().st_mtime_ns) == before


def test_a_run_on_another_package_does_not_count(tmp_path: Path) -> None:
    """Where the copy is not what is imported, nothing can be said of a fault in it."""
    run = Copy(tmp_path).run(["test_accuracy.py"])
    assert run.code == ELSEWHERE != PASSED


def test_the_command_says_how_it_went(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """It exits with 1 where a fault survives, with 0 where all are killed, and knows no other names."""
    for verdict, code in (("killed", 0), ("survived", 1), ("broken", 1), ("not tried", 0)):
        outcomes = [Outcome(NAMED["no-cap"], verdict)]  # type: ignore[arg-type]
        monkeypatch.setattr("tests.mutants.__main__.check", lambda *_, outcomes=outcomes: outcomes)
        assert main(["no-cap"]) == code
        assert ("no-cap" in capsys.readouterr().out) == (verdict != "killed")
    with pytest.raises(SystemExit):
        main(["no-such-fault"])
