"""No module tells kinds of measurements apart: what differs between them is asked of the interface."""

from __future__ import annotations

import ast
import importlib
from collections.abc import Iterator
from pathlib import Path

import pytest

import discreet
from discreet.measurements.base import Measurement, Reading

PACKAGE = Path(discreet.__file__).parent


def list_kinds() -> set[str]:
    """Name every kind of measurement and of reading, and the two interfaces themselves."""
    for path in (PACKAGE / "measurements").glob("*.py"):
        importlib.import_module(f"discreet.measurements.{path.stem}")
    kinds, leaves = [Measurement, Reading], set[str]()
    while kinds:
        kind = kinds.pop()
        leaves.add(kind.__name__)
        kinds += kind.__subclasses__()
    return leaves


def list_told_apart(source: str, kinds: set[str]) -> list[str]:
    """List the lines that ask of what class something is, where that class is one of the kinds."""
    return [ast.unparse(node) for node in _find_questions(ast.parse(source)) if kinds & _list_names(node)]


def _find_questions(tree: ast.AST) -> Iterator[ast.AST]:
    asking = {"isinstance", "issubclass", "has_type", "has_exact_type"}
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and ast.unparse(node.func) in asking:
            yield node
        elif isinstance(node, ast.MatchClass):
            yield node.cls
        elif isinstance(node, ast.Compare) and "type(" in ast.unparse(node.left):
            yield node


def _list_names(node: ast.AST) -> set[str]:
    names = {part.id for part in ast.walk(node) if isinstance(part, ast.Name)}
    return names | {part.attr for part in ast.walk(node) if isinstance(part, ast.Attribute)}


def test_nobody_tells_kinds_of_measurements_apart() -> None:
    kinds = list_kinds()
    assert {"AdditiveNoise", "CandidateSelection", "HierarchicalHistogram", "PublicConstant", "UnitQuery"} <= kinds
    for path in PACKAGE.rglob("*.py"):
        assert list_told_apart(path.read_text(), kinds) == [], path


@pytest.mark.parametrize(
    "source",
    [
        "isinstance(x, AdditiveNoise)",
        "isinstance(x, int | additive.AdditiveNoise)",
        "isinstance(x, (int, AdditiveNoise))",
        "type(x) is AdditiveNoise",
        "match x:\n    case AdditiveNoise():\n        pass",
        "match x:\n    case int() | AdditiveNoise(noise=y):\n        pass",
    ],
)
def test_one_that_does_is_caught(source: str) -> None:
    assert list_told_apart(source, {"AdditiveNoise"}) != []
    assert list_told_apart(source, {"Selection"}) == []
