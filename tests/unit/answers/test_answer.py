"""An answer as it is printed and as a notebook shows it; and what it says of itself where no sentence was made."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from discreet import Answer, Custodian
from discreet.answers.answer import MAX_TEXT_ROWS, IntervalsAt95, ReplyDetails
from support.command_line import write_registry

GROUPS = "SELECT sex, COUNT(*) FROM registry GROUP BY sex"


@pytest.fixture(scope="module")
def registry_custodian(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Custodian]:
    with Custodian.open(write_registry(tmp_path_factory.mktemp("sheet"))) as opened:
        yield opened


def test_what_is_printed_has_the_numbers_the_meaning_and_the_promise(registry_custodian: Custodian) -> None:
    answer = registry_custodian.answer(GROUPS, epsilon=0.1)
    head, *rows, meaning, promise = str(answer).splitlines()
    assert head.split("  ")[0] == "sex"
    assert [line.split()[0] for line in rows] == ["F", "M", "missing"]
    assert all(f"{row['COUNT(*)']:,}" in line for row, line in zip(answer.rows, rows, strict=True))
    assert meaning == answer.meaning
    assert promise == answer.guarantee.words()


def test_every_answer_says_what_it_means(registry_custodian: Custodian) -> None:
    """Groups by their intervals; a median by its rank; what is public by that; nothing of no rows."""
    groups = registry_custodian.answer(GROUPS, epsilon=0.1)
    assert groups.meaning.startswith("Each exact value by itself lies in the interval beside it")
    median = registry_custodian.answer("SELECT MEDIAN(age) FROM registry", epsilon=0.1)
    assert median.interval() is None
    assert median.meaning == f"I{median.accuracy[1:]}."
    assert registry_custodian.answer("SELECT COUNT(*) FROM registry", epsilon=0.1).meaning.startswith(
        "Exact: the schema"
    )
    both = registry_custodian.answer("SELECT sex, COUNT(*), MEDIAN(age) FROM registry GROUP BY sex", epsilon=0.1)
    assert both.meaning == f"{both.accuracy}."
    assert replace(groups, rows=(), details=ReplyDetails(IntervalsAt95(()), (), None, "")).meaning == ""


def test_a_notebook_shows_the_same_and_no_markup_of_a_value(registry_custodian: Custodian) -> None:
    answer = registry_custodian.answer(GROUPS, epsilon=0.1)
    page = answer._repr_html_()
    assert page.count("<tr>") == 1 + len(answer.rows)
    assert f"<p>{answer.meaning}</p>" in page
    marked = replace(answer, rows=tuple(dict(row, sex="<b>&") for row in answer.rows), warning="<i>")
    assert "<b>" not in marked._repr_html_()
    assert "<td>&lt;b&gt;&amp;</td>" in marked._repr_html_()
    assert "<p>Warning: &lt;i&gt;</p>" in marked._repr_html_()


def test_a_long_answer_is_cut_and_says_so(registry_custodian: Custodian) -> None:
    answer: Answer = registry_custodian.answer("SELECT age, COUNT(*) FROM registry GROUP BY age", epsilon=0.1)
    hidden_rows = len(answer.rows) - MAX_TEXT_ROWS
    assert hidden_rows > 0
    assert f"... and {hidden_rows:,} more; rows has all" in str(answer).splitlines()
    assert answer._repr_html_().count("<tr>") == 1 + MAX_TEXT_ROWS
