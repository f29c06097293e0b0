"""The page of comparisons is what was seen, and marks who loses; the plan past one machine follows from it."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from benchmarks.__main__ import RESULTS
from benchmarks.programs import PROGRAMS
from benchmarks.results import LESS, MORE, ROOT

from benchmarks import capacity_plan, charts, page

SEEN: dict[str, Any] = json.loads(RESULTS.read_text(encoding="utf-8"))
NOT_PROGRAMS = {
    "__init__",
    "__main__",
    "charts",
    "machine",
    "measure",
    "page",
    "capacity_plan",
    "programs",
    "results",
    "peers",
}


def test_every_benchmark_is_a_program_and_on_the_page() -> None:
    there = {each.stem for each in (ROOT / "benchmarks").iterdir() if each.suffix == ".py" or each.is_dir()}
    names = {each.name for each in PROGRAMS}
    assert there - NOT_PROGRAMS - {"__pycache__"} == names
    assert set(SEEN) == names
    for each in PROGRAMS:
        assert f"{{#{each.name}}}" in page.PAGE.read_text(encoding="utf-8")


def test_the_pages_are_written_from_the_results() -> None:
    """Whoever types a figure by hand is found out."""
    assert page.PAGE.read_text(encoding="utf-8") == page.format_page(SEEN)
    assert capacity_plan.PAGE.read_text(encoding="utf-8") == capacity_plan.format_page(SEEN)


def test_every_picture_is_there_and_small() -> None:
    for pictures in charts.CHARTS.values():
        for name in pictures:
            picture = (charts.FOLDER / f"{name}.svg").read_text(encoding="utf-8")
            assert "discreet" in picture
            assert len(picture) < 200_000


def test_nothing_of_the_machine_but_what_it_is() -> None:
    """No path and no address of whoever measured."""
    assert not re.search(r"/(home|work|tmp|root)/|://", RESULTS.read_text(encoding="utf-8"))


def table(better: str, cells: list[object], apart: tuple[str, ...] = ()) -> dict[str, Any]:
    row = {"name": "a question", "cells": cells, "better": better}
    columns = ["discreet", "one", "two"]
    return {
        "title": "t",
        "unit": "ms",
        "columns": columns,
        "rows": [row],
        "ours": "discreet",
        "apart": apart,
        "level": 1.05,
    }


@pytest.mark.parametrize(
    ("better", "cells", "mark", "words"),
    [
        (LESS, [3.0, 1.0, 2.0], page.LOST, "loses to one, 3 times; ahead of 0 of 2"),
        (LESS, [3.0, 1.0, 9.0], page.LOST, "loses to one, 3 times; ahead of 1 of 2"),
        (LESS, [1.0, 3.0, "none"], page.WON, "wins, one 3 times"),
        (MORE, [1.0, 3.0, None], page.LOST, "loses to one, 3 times"),
        (MORE, [3.0, 2.0, 1.0], page.WON, "wins, one 1.5 times"),
        (LESS, [1.04, 1.0, 2.0], page.EVEN, "level with one"),
        (LESS, [0.0, 4.0, 9.0], page.WON, "wins, one by all of it"),
        (LESS, ["none", 1.0, 2.0], page.ALONE, ""),
        (LESS, [1.0, "none", None], page.ALONE, ""),
        ("", [3.0, 1.0, 2.0], page.ALONE, ""),
    ],
)
def test_who_wins(better: str, cells: list[object], mark: str, words: str) -> None:
    row_table = table(better, cells)
    assert page.judge_row(row_table, row_table["rows"][0]) == (mark, words)


def test_a_floor_does_not_compete() -> None:
    row_table = table(LESS, [2.0, 1.0, 3.0], apart=("one",))
    assert page.judge_row(row_table, row_table["rows"][0]) == (page.WON, "wins, two 1.5 times")


def test_losses_are_told_first_and_in_bold() -> None:
    """Both a row that is lost and a bar that is missed."""
    line = {"name": "a bar", "figure": 9.0, "unit": "s", "bar": 1.0, "least": False, "beside": "", "cleared": False}
    run = {"tables": [table(LESS, [3.0, 1.0, 2.0])], "lines": [line], "notes": [], "command": "c", "seconds": 1.0}
    run |= {"when": "2026-01-01", "load": 0.5, "machine": {"cores": "2"}, "versions": {}}
    text = page.format_page({"kernel": run})
    lost = text[text.index("## Where discreet loses") : text.index("{#kernel}")]
    assert "t: a question (one, 3 times; ahead of 0 of 2)." in lost
    assert "a bar: 9 s, at most 1" in lost
    assert "| a question | 3 | 1 | 2 | **loses to one, 3 times; ahead of 0 of 2** |" in text
    assert "**missed**" in text
    assert "| 0 | 0 | 1 | 0 | 1 |" in text


def test_what_one_row_more_costs_is_that_of_the_last_two_sizes() -> None:
    assert capacity_plan.compute_marginal_cost([10, 100, 200], [7.0, 50.0, 150.0]) == pytest.approx(1)
    assert capacity_plan.compute_marginal_cost([10], [5.0]) == pytest.approx(0.5)
    assert capacity_plan.compute_marginal_cost([10, 100], [9.0, 1.0]) == pytest.approx(0.01)


def test_a_scan_is_extrapolated_by_its_rows() -> None:
    """40 bytes and a microsecond of two cores a row: 400 GB, 20,000 core seconds, a task for each 128 MB."""
    facts = {"sizes": [1000, 2000], "read": {"q": [40_000, 80_000]}, "seconds": {"q": [1.0, 1.001]}}
    facts |= {"shuffled": {"q": [60, 60]}, "shuffles": {"q": [1, 1]}}
    (scan,) = capacity_plan.list_scans(facts)
    assert (capacity_plan.format_bytes(scan.read), scan.tasks) == ("400 GB", 2981)
    assert scan.core_seconds == pytest.approx(20_000)
    assert scan.shuffled == pytest.approx(30 * scan.tasks)
    assert capacity_plan.count_executors(scan.core_seconds) == 120_564
