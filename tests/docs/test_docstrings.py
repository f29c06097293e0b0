"""Every public name says what it takes, returns and refuses, and shows an example; every example runs."""

from __future__ import annotations

import ast
import doctest
import importlib
import inspect
import re
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

import pytest
from documentation import reference_python

NAMESPACES = ("", "mechanisms", "constraints", "sdc", "synthetic", "verification")
REFUSING = re.compile(r"(as|check|copy|parse|require)_\w+")
"""Functions that raise where an argument cannot be used."""


def collect_public_objects() -> dict[str, object]:
    """Every class and function of a public `__all__`, by its name as it is imported first."""
    found: dict[str, object] = {}
    for namespace in NAMESPACES:
        module = importlib.import_module(f"discreet.{namespace}".rstrip("."))
        for name in module.__all__:
            one = getattr(module, name)
            if (inspect.isclass(one) or inspect.isfunction(one)) and one not in found.values():
                found[f"{namespace}.{name}".lstrip(".")] = one
    return found


PUBLIC = collect_public_objects()


def read_sections(docstring: str) -> dict[str, str]:
    """The text of each section of a docstring; the summary is the section without a title."""
    parts = re.split(r"^(Args|Attributes|Returns|Yields|Raises|Example):\n", docstring, flags=re.MULTILINE)
    return {"": parts[0]} | dict(zip(parts[1::2], parts[2::2], strict=True))


def list_items(section: str) -> list[str]:
    """The names that a section explains, one at the beginning of each of its lines that is not indented further."""
    lines = textwrap.dedent(section).splitlines()
    return [line.partition(":")[0] for line in lines if line and not line.startswith(" ")]


def _is_made_elsewhere(kind: type) -> bool:
    """Whether callers never make one: exceptions and protocols."""
    return issubclass(kind, Exception) or getattr(kind, "_is_protocol", False)


def list_parameters(one: type | object) -> list[str]:
    """The names of the arguments, with their stars; none of exceptions and protocols."""
    if inspect.isclass(one) and _is_made_elsewhere(one):
        return []
    stars = {inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.VAR_KEYWORD: "**"}
    parameters = inspect.signature(one).parameters.values()  # type: ignore[arg-type]
    return [stars.get(parameter.kind, "") + parameter.name for parameter in parameters]


def may_raise(one: object) -> bool:
    """Whether the function, or what makes an object of the class, raises or reads its arguments by what raises."""
    for function in _list_bodies(one):
        for node in ast.walk(ast.parse(textwrap.dedent(inspect.getsource(function)))):
            called = node.func if isinstance(node, ast.Call) else None
            if isinstance(node, ast.Raise) or (isinstance(called, ast.Name) and REFUSING.fullmatch(called.id)):
                return True
    return False


def _list_bodies(one: object) -> Iterator[object]:
    if inspect.isfunction(one):
        yield one
    elif inspect.isclass(one) and not _is_made_elsewhere(one):
        for name in ("__init__", "__post_init__"):
            method = getattr(one, name, None)
            if inspect.isfunction(method) and "<string>" not in method.__code__.co_filename:
                yield method


def find_docstring_faults(one: object) -> list[str]:
    """What a docstring lacks, or has too much."""
    sections, faults = read_sections(reference_python.read_docstring(one)), []
    summary = sections[""].split("\n\n")[0].strip()
    if not summary.endswith("."):
        faults.append("no first sentence")
    if list_items(sections.get("Args", "")) != list_parameters(one):
        faults.append(f"Args explains {list_items(sections.get('Args', ''))}, not {list_parameters(one)}")
    if inspect.isfunction(one) and inspect.signature(one).return_annotation != "None":
        faults += [] if {"Returns", "Yields"} & sections.keys() else ["no Returns"]
    if may_raise(one) and not list_items(sections.get("Raises", "")):
        faults.append("no Raises")
    if ">>> " not in sections.get("Example", ""):
        faults.append("no Example")
    return faults


def run_examples(name: str, docstring: str) -> str:
    """Run the examples of a docstring; what failed, as text."""
    test = doctest.DocTestParser().get_doctest(docstring, {}, name, None, None)
    report: list[str] = []
    doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE).run(test, out=report.append)
    return "".join(report)


@pytest.mark.parametrize("name", PUBLIC)
def test_every_public_name_is_documented_in_full(name: str) -> None:
    assert find_docstring_faults(PUBLIC[name]) == []


@pytest.mark.parametrize("name", PUBLIC)
def test_every_example_of_a_public_name_runs(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert run_examples(name, reference_python.read_docstring(PUBLIC[name])) == ""


class Measured(Protocol):
    """A protocol has no arguments."""


def documented(size: int, **options: object) -> int:  # noqa: ARG001 (it stands for any)
    """Double a size.

    Args:
        size: What is doubled.
        **options: Ignored.

    Returns:
        Twice the size.

    Raises:
        ValueError: The size is negative.

    Example:
        >>> 1 + 1
        2
    """
    if size < 0:
        raise ValueError(size)
    return 2 * size


def without_sections(size: int) -> int:
    """Double a size."""
    require_size(size)
    return 2 * size


def require_size(size: int) -> None:
    """Require a size."""


def test_a_name_without_its_sections_is_caught() -> None:
    assert find_docstring_faults(documented) == []
    assert find_docstring_faults(without_sections) == [
        "Args explains [], not ['size']",
        "no Returns",
        "no Raises",
        "no Example",
    ]
    assert find_docstring_faults(Measured) == ["no Example"]


def test_an_example_that_is_wrong_is_caught() -> None:
    assert run_examples("right", "Example:\n    >>> 1 + 1\n    2\n") == ""
    assert "Expected:" in run_examples("wrong", "Example:\n    >>> 1 + 1\n    3\n")


def test_the_page_shows_sections_as_lists_and_examples_as_code() -> None:
    assert reference_python.format_docstring(documented).splitlines()[2:] == [
        "**Arguments**",
        "",
        "- `size`: What is doubled.",
        "- `**options`: Ignored.",
        "",
        "**Returns**",
        "",
        "- Twice the size.",
        "",
        "**Raises**",
        "",
        "- `ValueError`: The size is negative.",
        "",
        "**Example**",
        "",
        "```pycon",
        ">>> 1 + 1",
        "2",
        "```",
    ]
