"""The demo does what its screen and its page say, is found again by a second run, and never breaks its own folder."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
from pathlib import Path

import pytest
from demo import page, questions, registry
from demo.__main__ import main

from discreet import Custodian
from support import fork_server

ROOT = Path(__file__).parents[2]
PATIENTS = 1500
PICTURES = 12
COMMAND = re.compile(r"^  \S*/discreet .*$", re.MULTILINE)


def run(folder: Path) -> str:
    words = ["-m", "demo", "--folder", str(folder), "--patients", str(PATIENTS)]
    environment = {**os.environ, "COLUMNS": "80", "NO_COLOR": "1"}
    done = fork_server.run_forked(words, ROOT, environment)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def history(folder: Path) -> list[object]:
    with Custodian.open(folder / "work" / "registry.yaml") as custodian:
        return [(entry.entry, entry.analyst, entry.query, entry.epsilon) for entry in custodian.history()]


def test_the_demo_shows_what_it_says_and_a_second_run_pays_nothing(tmp_path: Path) -> None:
    """Questions with prices, two refusals, two files, an audit that finds what is broken; then the same for nothing."""
    first, spent = run(tmp_path), history(tmp_path)
    assert all(one.sql in first for one in questions.QUESTIONS)
    screen = " ".join(first.split())
    for words in (
        "epsilon 0.5 was asked; for this question the data set's budget has 2.33 left and the analyst's 0.33",
        "person_id names the units, so it cannot be asked about",
        "10-anonymity holds: the smallest class of equal quasi-identifiers has 1",
        "Differential privacy with epsilon 1 when one unit (person_id) is replaced by any other.",
        "Ours: No violation above",
        "Half the noise: Violated: epsilon is at least 1.9",
        "Floating point: Violated",
    ):
        assert words in screen
    assert max(len(line.rstrip()) for line in COMMAND.sub("", first).splitlines()) <= 80

    again = run(tmp_path)
    assert "Found again" in again
    assert "Found again" not in first
    assert again.count("(before: ") == len(questions.QUESTIONS) - 2  # two are read from the draw before them
    assert history(tmp_path) == spent
    check_page(tmp_path)
    command_words = shlex.split(next(line for line in COMMAND.findall(again) if " ask " in line))
    assert subprocess.run(command_words, cwd=ROOT, capture_output=True, check=False).returncode == 0


def check_page(folder: Path) -> None:
    """It has its pictures, fetches nothing, and every link leads to a file that is there."""
    text = (folder / "index.html").read_text(encoding="utf-8")
    assert text.count("<svg") == PICTURES
    assert not re.search(r"(src|href)=.?(https?:)?//|<script|@import|url\((?!#)", text)
    links = re.findall(r'href="([^"]+)"', text)
    assert {Path(link).suffix for link in links} == {".csv", ".yaml", ".json", ".html"}
    assert [link for link in links if not (folder / link).is_file()] == []
    names = re.findall(r'\bid="([^"]+)"', text)
    assert len(names) == len(set(names))
    assert "the DP total no longer describes all disclosure" in text


def test_what_the_demo_calls_the_truth_is_true(tmp_path: Path) -> None:
    """At an epsilon that leaves no noise to speak of, the product says the same."""
    work = registry.prepare(tmp_path / "work", PATIENTS, fresh=False)
    registry.write_registry_files(work)
    text = (
        work.schema.read_text().replace("epsilon: 3,", "epsilon: 1000000,").replace("epsilon: 1,", "epsilon: 1000000,")
    )
    work.schema.write_text(text)
    rows = registry.read_registry(work)
    count, _, mean, _, median, groups, _ = questions.QUESTIONS
    with Custodian.open(work.schema) as custodian:
        answers = [custodian.answer(one.sql, 10_000) for one in (count, mean, median, groups)]
    assert answers[0].value == count.exact(rows) > 0
    assert answers[1].value == pytest.approx(mean.exact(rows), rel=1e-3)
    assert answers[2].value == median.exact(rows)
    exact = groups.exact(rows)
    assert [row["COUNT(*)"] for row in answers[3].rows] == [exact[row["hospital"] or ""] for row in answers[3].rows]


def test_a_folder_that_no_finished_run_of_this_code_left_is_made_anew(tmp_path: Path) -> None:
    """A run that was cut short, another version, another size, lost files: emptied, with the reason told."""
    folder = tmp_path / "work"
    assert registry.prepare(folder, 500, fresh=False).why == registry.NEW
    (folder / "half.csv").write_text("half")
    (folder / "registry.discreet").mkdir()
    assert registry.prepare(folder, 500, fresh=False).why == "an earlier run did not finish"
    assert [path.name for path in folder.iterdir()] == [registry.MARK]
    mark = folder / registry.MARK
    finished = json.loads(mark.read_text()) | {"complete": True, "files": []}
    for change, why in (
        ({}, None),
        ({"made_by": "another"}, "it was made by another version"),
        ({"patients": 7}, "another number of patients was asked for"),
        ({"files": ["gone.csv"]}, "files of it are gone"),
    ):
        mark.write_text(json.dumps(finished | change))
        assert registry.prepare(folder, 500, fresh=False).why == why
    mark.write_text("{")
    assert registry.prepare(folder, 500, fresh=False).why == "an earlier run did not finish"
    mark.write_text(json.dumps(finished))
    assert registry.prepare(folder, 500, fresh=True).why == "as you asked"


def test_a_folder_of_somebody_else_is_left_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Files without the demo's mark are never removed, and one sentence says so."""
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "thesis.txt").write_text("years")
    assert main(["--folder", str(tmp_path), "--patients", "500", "--fresh"]) == 1
    assert "holds files, and nothing says that the demo made them; delete it" in " ".join(
        capsys.readouterr().out.split()
    )
    assert (tmp_path / "work" / "thesis.txt").read_text() == "years"


def test_no_text_of_the_page_is_read_as_html() -> None:
    """Whatever a message says."""
    harm = "<script>alert(1)</script>\" onload='x"
    page_text = (
        page.format_paragraph(harm)
        + page.format_table(["a"], [[harm]])
        + page.format_links({harm: harm})
        + page.format_facts({harm: harm})
    )
    page_text += (
        page.format_quote(harm)
        + page.format_question(harm, harm, harm)
        + page.format_figure("", harm)
        + page.format_section(harm)
    )
    assert "<script" not in page_text
    assert "onload='" not in page_text
