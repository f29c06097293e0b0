"""The options of a question: one list of them, read and copied in one place."""

from __future__ import annotations

import ast
from dataclasses import fields
from datetime import date
from fractions import Fraction
from pathlib import Path
from typing import get_type_hints

import pytest

from discreet.client.encode_requests import encode_question
from discreet.errors import InvalidInput
from discreet.planner import options
from discreet.planner.options import (
    NOISE_OPTIONS,
    OPTION_READERS,
    PlanRequest,
    QueryKeywords,
    QueryOptions,
    build_plan_request,
    build_query_options,
    read_query_options,
)
from discreet.service.api.models import Ask


def test_keywords_are_the_fields() -> None:
    """Epsilon alone stands apart: every call takes it by its position too."""
    names = [option.name for option in fields(QueryOptions)]
    assert names == list(OPTION_READERS)
    assert {"epsilon", *get_type_hints(QueryKeywords)} == set(names)


def test_the_wire_has_all_options_but_the_key() -> None:
    """The key is a header; whether an answer must be stored is for the service alone."""
    assert {*Ask.model_fields} - {"question", "stored_only"} == {*OPTION_READERS} - {"key"}


def test_three_modules_list_the_options() -> None:
    """The fields, the flags and the model of a request: whoever else needs the options asks the fields."""
    root = Path(options.__file__).parents[1]
    listing = {str(file.relative_to(root)) for file in root.rglob("*.py") if _count_listed_options(file) > 6}
    assert listing == {"planner/options.py", "cli/query_commands.py", "service/api/models.py"}


def _count_listed_options(file: Path) -> int:
    """Count the most options that one signature, class, call or literal of a module names."""
    nodes = list(ast.walk(ast.parse(file.read_text(encoding="utf-8"))))
    return max((len(_find_names(node) & {*OPTION_READERS}) for node in nodes), default=0)


def _find_names(node: ast.AST) -> set[str | None]:
    match node:
        case ast.arguments():
            return {argument.arg for argument in (*node.args, *node.kwonlyargs)}
        case ast.ClassDef():
            fields = (item.target for item in node.body if isinstance(item, ast.AnnAssign))
            return {target.id for target in fields if isinstance(target, ast.Name)}
        case ast.Call():
            return {keyword.arg for keyword in node.keywords}
        case ast.Dict(keys=items) | ast.Tuple(elts=items) | ast.List(elts=items) | ast.Set(elts=items):
            names = (getattr(item, "value", None) if isinstance(item, ast.Constant) else None for item in items)
            return {name for name in names if isinstance(name, str)}
    return set()


def test_what_the_planner_adds_cannot_be_said() -> None:
    added = {option.name for option in fields(PlanRequest)} - {*OPTION_READERS}
    assert added == {"rho", "max_epsilon", "target_accuracy", "stored_mechanisms"}
    for name in added:
        with pytest.raises(TypeError):
            read_query_options({"epsilon": 1, name: None})
    with pytest.raises(InvalidInput, match="a subclass of it"):
        build_plan_request(PlanRequest(epsilon=Fraction(1), max_epsilon=Fraction(9)))


def test_numbers_are_read_by_their_decimal_text() -> None:
    options = build_query_options(0.1, delta=1e-9, rows=10.0, population_size=500)
    assert (options.epsilon, options.delta) == (Fraction(1, 10), Fraction(1, 10**9))
    assert (options.rows, options.population_size, options.wants_population) == (10, 500, True)


def test_what_is_left_out_has_its_default() -> None:
    """None is left out too, so that callers need not pick out what was given."""
    assert read_query_options({"epsilon": 1, "constraints": None, "fresh": None}) == QueryOptions(epsilon=Fraction(1))


@pytest.mark.parametrize("options", [{}, {"epsilon": 1, "accuracy": "±5"}, dict.fromkeys(NOISE_OPTIONS, 1)])
def test_noise_is_said_in_one_way(options: dict[str, object]) -> None:
    with pytest.raises(InvalidInput, match=r"in one way|could not be read"):
        read_query_options(options)


@pytest.mark.parametrize(
    ("name", "value", "refusal"),
    [
        ("reuse", "all", 'reuse is "any"'),
        ("tail", 1, "tail is True, False or left out, got int"),
        ("constraints", "total = 5", "constraints are a list"),
        ("ranges", ["20-30"], "a range is written with two ends"),
        ("ranges", [(20, 30, 40)], "a range has a low and a high end"),
        ("ranges", [(20, object())], "an end of a range must be"),
        ("population_size", 2.5, "the size of the population must be a whole number"),
        ("key", 5, "key must be text, got int"),
        ("mechanism", 5, "a mechanism must be text, got int"),
    ],
)
def test_each_option_is_checked(name: str, value: object, refusal: str) -> None:
    with pytest.raises(InvalidInput, match=refusal):
        read_query_options({"epsilon": 1, name: value})


def test_ranges_are_kept_as_text() -> None:
    ends = [" 20 .. 30", (20, 30), (date(2024, 2, 29), "2024-03-01")]
    assert build_query_options(1, ranges=ends).ranges == ("20..30", "20..30", "2024-02-29..2024-03-01")


def test_options_are_sent_by_their_type() -> None:
    """All but the key, which is a header, and what was left out."""
    options = build_query_options(
        1, prior="normal(5, 1)", tail=False, rows=100, constraints=["rising"], ranges=[(1, 2)], key="k", interval=False
    )
    sent = {"epsilon": "1", "prior": "normal(5, 1)", "rows": 100, "tail": False}
    assert encode_question("q", options) == {"question": "q", **sent, "constraints": ["rising"], "ranges": ["1..2"]}
    assert encode_question("q", build_query_options(accuracy="±50"))["accuracy"] == "±50 at 95%"
