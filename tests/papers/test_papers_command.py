"""`python -m papers`: what it prints, the page it writes and what it refuses."""

from __future__ import annotations

import contextlib
import io
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from papers.__main__ import main
from papers.charts import draw_lines
from papers.rows import (
    Row,
    build_not_reproducible,
    compare_corrected,
    compare_derived,
    compare_equal,
    compare_near,
    compare_sampled,
    is_cut_to,
    is_equal_within,
)
from papers.tables import Data, Table

from discreet.errors import InvalidInput
from papers import reproduced, tables
from support.command_line import Outcome

ROOT = Path(__file__).parents[2]
KEYS = ["id", "document", "table", "cell", "published", "obtained", "verdict", "note"]


def small(_: Data) -> Iterator[Row]:
    yield compare_equal("a.1", "first", ".48", 0.4763)
    yield compare_corrected("a.2", "second", "<b>", 2, 2, "1.7", "it is two")


def wrong(_: Data) -> Iterator[Row]:
    yield compare_equal("b.1", "only", ".48", 0.51)


def draw_one_picture(_: object) -> list[object]:
    return [draw_lines("A <line>", "It rises.", "x", "y", {"one": [(0, 1), (1, 2)]}, {"printed": [(1, 2)]})]


def build_table(name: str, rows: object = small, **options: object) -> Table:
    return Table(name, name.partition("-")[2], "What it is.", rows, **options)  # type: ignore[arg-type]


def run(*words: object) -> Outcome:
    """Run `python -m papers` in this process."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = main([str(word) for word in words])
    return Outcome(code, out.getvalue(), err.getvalue())


def done(*words: object) -> Outcome:
    """Run it where it must succeed."""
    outcome = run(*words)
    assert (outcome.code, outcome.err) == (0, ""), outcome
    return outcome


@pytest.fixture
def three_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three small tables in place of the documents'."""
    every = (
        build_table("000-one", pictures=draw_one_picture),
        build_table("001-3.1"),
        build_table("001-3.2", needs=("census.csv",)),
    )
    monkeypatch.setattr(tables, "list_tables", lambda: every)


@pytest.fixture
def alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """No folder of data is known."""
    monkeypatch.delenv("DISCREET_DATA", raising=False)


# --- verdicts


@pytest.mark.parametrize(
    ("obtained", "printed", "same"),
    [
        (0.4763, ".476", True),
        (0.4766, ".476", False),
        (0.4765, ".476", True),
        (-0.0274, "-.027", True),
        (3.074e9, "3.07e9", True),
        (3.076e9, "3.07e9", False),
        (45, "45", True),
        (45.3, 45, False),
        (None, ".4", False),
        ("two", "two", True),
        ([1.04, 2], ["1.0", 2], True),
        ([1.04], ["1.0", 2], False),
        ({"a": 1.04}, {"a": "1.0"}, True),
        ({"a": 1.04}, {"b": "1.0"}, False),
        (True, 1, False),
        (float("inf"), "inf", True),
        (float("nan"), ".4", False),
    ],
)
def test_digits_say_what_is_equal(obtained: object, printed: object, same: bool) -> None:
    assert is_equal_within(obtained, printed, 0.0) is same


def test_what_is_not_as_expected_differs() -> None:
    """Every verdict but "not reproducible" must be earned."""
    assert compare_equal("i", "c", ".5", 0.56).verdict == "differs"
    assert compare_equal("i", "c", "1.00", 1.03, within=0.04).verdict == "equal"
    assert compare_sampled("i", "c", ".100", 0.117, 0.18).verdict == "equal within sampling error"
    assert compare_sampled("i", "c", ".100", 0.119, 0.18).verdict == "differs"
    assert compare_derived("i", "c", 2.0, 2.1).verdict == "differs"
    assert compare_derived("i", "c", 2.0, 2.0) == Row(
        "i", "c", None, 2.0, "equal", "nothing is printed; reckoned twice"
    )
    right = compare_corrected("i", "c", ".476", 0.0488, 0.0488, "1.7", "all four are wrong")
    assert (right.verdict, right.note) == ("corrected", "all four are wrong (erratum 1.7)")
    assert compare_corrected("i", "c", ".476", 0.05, 0.0488, "1.7", "why").verdict == "differs"
    assert compare_corrected("i", "c", ".476", 0.476, 0.476, "1.7", "nothing was wrong").verdict == "differs"
    assert compare_near("i", "c", ".100", 0.111, 0.12, "a step is not told").verdict == "not reproducible"
    assert compare_near("i", "c", ".100", 0.113, 0.12, "a step is not told").verdict == "differs"
    assert build_not_reproducible("i", "c", None, float("inf"), "drawing", "no figures").obtained == "infinite"


def test_digits_that_were_cut_off() -> None:
    assert is_cut_to(0.2757, ".27")
    assert is_cut_to(-0.667, "-.66")
    assert not is_cut_to(0.2757, ".28")
    assert is_cut_to(0.95004, ".95")


# --- the command


@pytest.mark.usefixtures("three_tables", "alone")
def test_without_a_table_a_line_for_each() -> None:
    output = done().out
    assert re.search(r"000-one +one +1 +1\b", output)
    totals = "2 equal, 0 not printed, reckoned twice, 0 equal within sampling error, 2 corrected, 0 not reproducible."
    assert f"4 figures: {totals}" in output
    assert "001-3.2: data: needs census.csv; name the folder with --data or in DISCREET_DATA." in output


@pytest.mark.usefixtures("three_tables", "alone")
def test_with_a_table_every_figure_of_it() -> None:
    output = done("000-one").out
    assert re.search(r"first +0.48 +0.4763 +equal", output)
    assert re.search(r"second +<b> +2 +corrected +it is two \(erratum 1.7\)", output)
    assert "001" not in output


@pytest.mark.usefixtures("three_tables", "alone")
def test_a_chapter_or_a_document_is_chosen_by_its_beginning() -> None:
    assert len(done("001", "--json").document) == 3
    assert len(done("001-3", "--json").document) == 3
    assert len(done("001-3.1", "--json").document) == 2


@pytest.mark.usefixtures("three_tables", "alone")
def test_what_has_no_data_is_a_row_that_says_so_and_refused_alone() -> None:
    left_out = done("--json").document[-1]
    assert (left_out["id"], left_out["verdict"]) == ("001-3.2.left-out", "not reproducible")
    assert left_out["note"].startswith("data: needs census.csv; name the folder with --data")
    refused = run("001-3.2")
    assert (refused.code, refused.out) == (2, "")
    assert "001-3.2 needs census.csv; name the folder that has it with --data" in refused.err


@pytest.mark.usefixtures("three_tables", "alone")
def test_json_is_a_list_of_rows_and_the_library_gives_the_same(tmp_path: Path) -> None:
    rows = done("--json").document
    assert [list(row) for row in rows] == [KEYS] * 5
    assert rows == reproduced()
    (tmp_path / "census.csv").touch()
    assert len(done("--json", "--data", tmp_path).document) == 6


@pytest.mark.usefixtures("three_tables")
def test_the_folder_of_data_may_stand_in_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "census.csv").touch()
    monkeypatch.setenv("DISCREET_DATA", str(tmp_path))
    assert len(reproduced()) == 6
    monkeypatch.setenv("DISCREET_DATA", "")
    assert len(reproduced()) == 5


@pytest.mark.usefixtures("three_tables", "alone")
def test_the_page_has_every_row_and_picture_and_no_harm_in_it(tmp_path: Path) -> None:
    page = tmp_path / "out.html"
    done("--html", page)
    text = page.read_text()
    assert text.count("<svg") == 1
    assert text.count("it is two (erratum 1.7)") == 2
    assert "&lt;b&gt;" in text
    assert "<b>" not in text
    assert "needs census.csv" in text
    assert (
        re.findall(r'href="#([^"]*)"', text)
        == re.findall(r'<h2 id="([^"]*)"', text)
        == ["000-one", "001-3.1", "001-3.2"]
    )
    assert not re.search(r"(src|href)=.?(https?:)?//", text)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out.html"]


def test_a_figure_that_differs_is_told_by_the_exit_code(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "list_tables", lambda: (build_table("000-one", wrong),))
    for words in ([], ["--json"]):
        outcome = run(*words)
        assert outcome.code == 6
        assert "differs" in outcome.out


@pytest.mark.usefixtures("three_tables", "alone")
@pytest.mark.parametrize(
    ("words", "totals"),
    [
        (["000-ome"], "no table is called '000-ome'; did you mean 000-one"),
        (["zebra"], "no table is called 'zebra'; allowed are a document, 000, 001, 002, 003, 004, or: 000-one"),
        (["--data", "nowhere"], "the data folder 'nowhere' is not there"),
        (["--html", "out.pdf"], "the page's name ends in .html; 'out.pdf' does not"),
        (["--html", "nowhere/out.html"], "the folder for the page 'out.html' does not exist"),
        (["--html", "there.html"], "'there.html' is there already; name another, or overwrite it with --force"),
    ],
)
def test_what_cannot_be_done_is_refused_before_anything_runs(
    words: list[str], totals: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("there.html").write_text("mine")
    monkeypatch.setattr("papers.__main__.reproduce", lambda *_: pytest.fail("it ran"))
    refused = run(*words)
    assert (refused.code, refused.out) == (2, "")
    assert totals in refused.err
    assert refused.err.count("\n") == 1
    assert Path("there.html").read_text() == "mine"


@pytest.mark.usefixtures("three_tables", "alone")
def test_a_page_is_overwritten_where_that_was_asked_for(tmp_path: Path) -> None:
    page = tmp_path / "there.html"
    page.write_text("mine")
    done("--html", page, "--force")
    assert page.read_text().startswith("<!DOCTYPE html>")


def test_every_table_has_a_name_of_its_own_that_begins_with_its_document() -> None:
    names = [table.name for table in tables.list_tables()]
    assert len(set(names)) == len(names)
    assert {name[:4] for name in names} == {f"{document}-" for document in tables.DOCUMENTS}
    with pytest.raises(InvalidInput, match="no table is called"):
        tables.choose_tables("00")


def test_importing_it_computes_nothing() -> None:
    output = "import papers, sys; print(*sys.modules)"
    loaded = subprocess.run(
        [sys.executable, "-c", output], capture_output=True, text=True, check=True, cwd=ROOT
    ).stdout.split()
    assert {"numpy", "altair", "scipy", "papers.tables"} & set(loaded) == set()
