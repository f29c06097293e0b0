"""Every attack of the page is there, succeeds against something weak and fails here; and the page has every attack."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
PAGE = ROOT / "docs" / "attacks.md"
ROWS = range(1, 22)
BOTH = ("test_it_succeeds_against_the_weak_stand_in", "test_it_fails_against_discreet")
NAMED = re.compile(r"`(tests/[\w/]+\.py)(?:::(\w+))?`")


def table(page: str) -> list[list[str]]:
    """The cells of every line of the table of attacks."""
    lines = [line for line in page.splitlines() if re.match(r"\| \d+ \|", line)]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


@cache
def functions(file: Path) -> dict[str, set[str]]:
    """The functions of a module, and the names that each of them uses."""
    tree = ast.parse(file.read_text())
    return {
        node.name: {inner.id for inner in ast.walk(node) if isinstance(inner, ast.Name)}
        for node in tree.body
        if isinstance(node, ast.FunctionDef)
    }


def problems(page: str) -> list[str]:
    """What is wrong with the page."""
    faults, rows, attacks = [], set(), set()
    for number, *cells in table(page):
        rows.add(int(number))
        if len(cells) != 5 or not all(cells):
            faults.append(f"row {number} has an empty cell")
            continue
        named = NAMED.findall(cells[-1])
        attack_files = [ROOT / name for name, test in named if name.startswith("tests/attacks/") and not test]
        faults += (
            [f"row {number} has {len(attack_files)} attacks"]
            if len(attack_files) != 1
            else unsound(int(number), attack_files[0])
        )
        faults += [f"no test {name}::{test}" for name, test in named if test and not exists(ROOT / name, test)]
        attacks |= set(attack_files)
    faults += [f"no row {number}" for number in sorted(set(ROWS) ^ rows)]
    here = {file for file in HERE.glob("test_*.py") if file != Path(__file__)}
    return faults + [f"{file.name} is on one side only" for file in sorted(here ^ attacks)]


def exists(file: Path, test: str) -> bool:
    return file.is_file() and test in functions(file)


def unsound(number: int, file: Path) -> list[str]:
    """What an attack lacks: its row, or either of its tests with one and the same attack."""
    if not file.is_file():
        return [f"no file {file.name}"]
    tests = functions(file)
    docstring = ast.get_docstring(ast.parse(file.read_text())) or ""
    wrong = [] if docstring.startswith(f"Row {number}: ") else [f"{file.name} is not of row {number}"]
    return wrong + [f"{file.name} has no {name}" for name in BOTH if "attack" not in tests.get(name, set())]


def test_the_page_and_the_attacks_are_the_same() -> None:
    assert problems(PAGE.read_text()) == []


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("| 21 |", "| 22 |"),
        ("tests/attacks/test_sums.py", "tests/attacks/test_precision.py"),
        ("tests/attacks/test_sums.py", "tests/attacks/test_nothing.py"),
        ("::test_two_hundred_requests_with_room_for_ten", "::test_nothing"),
        ("tests/unit/ledger/test_ledger_race.py", "tests/test_nothing.py"),
    ],
)
def test_a_page_that_is_wrong_is_caught(old: str, new: str) -> None:
    page = PAGE.read_text()
    assert old in page
    assert problems(page.replace(old, new)) != []


def test_a_row_without_a_reason_is_caught() -> None:
    line = next(line for line in PAGE.read_text().splitlines() if line.startswith("| 9 |"))
    cells = line.split("|")
    assert problems(PAGE.read_text().replace(line, "|".join([*cells[:4], " ", *cells[5:]]))) != []
