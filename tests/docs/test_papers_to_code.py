"""The page that leads from the papers to the code names every section, and nothing that is not there."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest
from documentation import papers
from papers.tables import list_tables

ROOT = Path(__file__).parents[2]
DOCUMENTS = papers.read_documents()
EVERY = [section for _, sections in DOCUMENTS.values() for section in sections]
WITHOUT_CODE = re.compile(r"no code\.$|^No code\.$|^See its parts\.$|once more|\]\(explanation/")


@cache
def list_defined_names(path: Path) -> frozenset[str]:
    """The names that a module defines; nothing is imported."""
    body = ast.parse(path.read_text(encoding="utf-8")).body
    return frozenset(node.name for node in body if isinstance(node, ast.FunctionDef | ast.ClassDef))


def test_the_page_is_made_of_the_data() -> None:
    """`python documentation/papers.py` writes it."""
    assert papers.PAGE.read_text(encoding="utf-8") == papers.format_page()


@pytest.mark.parametrize("document", papers.SECTIONS)
def test_every_section_is_there_once_and_in_its_order(document: str) -> None:
    places = [section.at for section in DOCUMENTS[document][1]]
    outline = [at for part in papers.SECTIONS[document].split() for at in papers.expand_numbers(part)]
    assert places == outline


@pytest.mark.parametrize("document", papers.STATEMENTS)
def test_every_statement_stands_in_one_section(document: str) -> None:
    """Definitions, theorems, algorithms, tables and figures: none is left out and none is there twice."""
    statements = [statement for section in DOCUMENTS[document][1] for statement in section.statements]
    stated = papers.STATEMENTS[document].items()
    assert sorted(statements) == sorted(
        f"{kind} {at}" for kind, numbers in stated for at in papers.expand_numbers(numbers)
    )


def test_files_and_names_exist() -> None:
    """Modules, and the names in them."""
    named = [(ROOT / papers.get_repository_path(file), names) for section in EVERY for file, names in section.names]
    assert len(named) > 100
    assert [path for path, _ in named if not path.is_file()] == []
    assert [(path.name, name) for path, names in named for name in names if name not in list_defined_names(path)] == []


def test_tests_exist() -> None:
    """Files under tests, and the functions in them."""
    named = [test.partition("::") for section in EVERY for test in section.tests]
    lost = [
        f"{file}::{name}" for file, _, name in named if name and name not in list_defined_names(ROOT / "tests" / file)
    ]
    assert [file for file, _, _ in named if not (ROOT / "tests" / file).is_file()] == []
    assert lost == []


def test_a_section_has_code_and_tests_or_says_why_not() -> None:
    silent = [(section.at, section.here) for section in EVERY if not section.code]
    assert [(place, reason) for place, reason in silent if not WITHOUT_CODE.search(reason)] == []
    assert [section.at for section in EVERY if bool(section.code) != bool(section.tests)] == []


def test_every_correction_has_its_section() -> None:
    """All numbers of the page of errata are led to, and no others."""
    text = (ROOT / "docs" / "errata.md").read_text(encoding="utf-8")
    numbers = {
        *re.findall(r"^\| (\d\.\d+) \|", text, re.MULTILINE),
        *re.findall(r"^\*\*(\d\.\d)\.", text, re.MULTILINE),
    }
    numbers |= set(papers.list_errata_anchors()) - {number.split(".")[0] for number in numbers}
    assert {number for section in EVERY for number in section.errata} == numbers


def test_every_reproduced_figure_has_its_section() -> None:
    """The names of `python -m papers`, each once."""
    figures = [name for section in EVERY for name in section.reproduced]
    assert sorted(figures) == sorted(table.name for table in list_tables())


def test_numbers_are_counted_up() -> None:
    assert list(papers.expand_numbers("1-3 2.9-2.11 A")) == ["1", "2", "3", "2.9", "2.10", "2.11", "A"]
