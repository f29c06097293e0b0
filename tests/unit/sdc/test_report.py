"""The custodian's page: that it is whole, needs nothing else, does no harm, and says what was measured."""

from __future__ import annotations

import builtins
import json
import re
import stat
from dataclasses import replace
from fractions import Fraction
from html import escape
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from discreet.errors import InvalidInput, Unavailable, Unsupported
from discreet.sdc.comparison import Comparison, compare_release
from discreet.sdc.report import (
    CUSTODIAN_NOTICE,
    MAX_PICTURES,
    NOT_PROMISED,
    build_report_json,
    check_report_file,
    write_report,
)
from discreet.sdc.report_charts import (
    BIN_COUNT,
    MAX_CATEGORIES,
    build_column_chart,
    build_correlation_charts,
    build_sweep_charts,
)
from discreet.sdc.sweep import SweepPoint, SweepResult
from discreet.sdc.table import Table, read_table
from support.external_services import Chromium

HOSTILE = "<script>alert(1)</script>\"'&"
FACTS = {
    "title": "people by ir-swap",
    "method": "ir-swap",
    "k": 10,
    "t": None,
    "rows": 1080,
    "columns": ["age", HOSTILE],
    "guarantee": "A value is its own with a chance of at most 1/10.",
    "assumptions": ["Intruders know the quasi-identifiers <only>."],
    "warnings": ["Some values are alike."],
}


class ReportPage(HTMLParser):
    """The elements of a page, and the text of some of them."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text += data

    def find_all(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.tags if name == tag]


def build_tables(rows: int = 60, further_rows: int = 0) -> tuple[Table, Table]:
    """People before, and after neighbours by age were given their mean."""
    draw = np.random.default_rng(5)
    columns: dict[str, Any] = {
        "age": draw.integers(18, 90, rows),
        "born": np.datetime64("1950-01-01") + draw.integers(0, 9000, rows),
        HOSTILE: draw.choice(["a", "<b>", HOSTILE], rows),
        "income": draw.exponential(20_000, rows),
    }
    columns |= {f"extra {index}": draw.normal(size=rows) for index in range(further_rows)}
    after, order = dict(columns), np.argsort(columns["age"])
    after["age"] = columns["age"].astype(float)
    for start in range(0, rows, 10):
        after["age"][order[start : start + 10]] = columns["age"][order[start : start + 10]].mean()
    return read_table(columns), read_table(after)


def compare_tables(original: Table, released: Table) -> Comparison:
    return compare_release(original, released, ("age", "born", HOSTILE), ("income",), k=10)


def build_sweep() -> SweepResult:
    points = tuple(
        SweepPoint(method, k, k / 1000, 1 / k, 0.1, 5.0, None) for method in ("mdav", "ir-swap") for k in (3, 10, 30)
    )
    return SweepResult(points, points[2], 0.05, (f"t-closeness: {HOSTILE} (k = 3)",))


def write_page(
    folder: Path, *, facts: dict[str, Any] = FACTS, further_rows: int = 0, sweep: SweepResult | None = None
) -> tuple[str, ReportPage]:
    original, released = build_tables(further_rows=further_rows)
    path = folder / "report.html"
    write_report(path, facts, compare_tables(original, released), original, released, sweep)
    text = path.read_text(encoding="utf-8")
    return text, ReportPage(text)


def test_the_page_needs_nothing_else(tmp_path: Path) -> None:
    """No script, no address but the names of SVG, nothing that is fetched, and the browser is told to fetch nothing."""
    text, read = write_page(tmp_path, sweep=build_sweep())
    assert not read.find_all("script")
    assert not read.find_all("link")
    assert not read.find_all("img")
    assert not read.find_all("iframe")
    addresses = set(re.findall(r"https?://[^\"'\s<]+", text))
    assert addresses <= {"http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink"}
    assert not re.search(r"\b(?:src|href|action|on\w+)\s*=|@import|url\(", text)
    assert "default-src 'none'" in text


def test_no_name_or_word_can_do_harm(tmp_path: Path) -> None:
    """Whatever columns, categories and facts are called, they are text."""
    text, read = write_page(
        tmp_path, facts={**FACTS, HOSTILE: HOSTILE, "title": HOSTILE, "warnings": [HOSTILE]}, sweep=build_sweep()
    )
    assert "<script" not in text
    assert "<b>" not in text
    assert "<only>" not in text
    assert read.text.count(HOSTILE) >= 6


def test_verdicts_and_promise_stand_before_the_first_picture(tmp_path: Path) -> None:
    """Under the notice that the page is not to be released."""
    text, read = write_page(tmp_path)
    comparison = compare_tables(*build_tables())
    order = [
        read.text.index(words) for words in (CUSTODIAN_NOTICE, comparison.risk, comparison.utility, FACTS["guarantee"])
    ]
    assert order == sorted(order)
    assert text.index("1/10") < text.index("<svg")
    last = read.text.index("What is not promised")
    assert all(read.text.index(words) > last for words in (*FACTS["assumptions"], *NOT_PROMISED))


def test_every_picture_is_told_to_those_who_do_not_see_it(tmp_path: Path) -> None:
    """Four columns, three heat maps, three curves; each with its sentence, none with an id that another could have."""
    text, read = write_page(tmp_path, sweep=build_sweep())
    pictures = read.find_all("svg")
    assert len(pictures) == 4 + 3 + 3 == len(read.find_all("figure"))
    labels = [picture["aria-label"] or "" for picture in pictures]
    assert all(picture["role"] == "img" for picture in pictures)
    assert all(len(label) > 20 for label in labels)
    assert len(set(labels)) == len(labels)
    assert not re.search(r"\sid=", text)


def test_many_columns_are_pictured_by_their_change(tmp_path: Path) -> None:
    """Twelve at most, the changed one among them; the others are named and stand in the tables."""
    _, read = write_page(tmp_path, further_rows=14)
    labels = [picture["aria-label"] or "" for picture in read.find_all("svg")]
    histogram_labels = [label for label in labels if "before and after" in label]
    assert len(histogram_labels) == MAX_PICTURES
    assert any("of age " in label for label in histogram_labels)
    assert "Not pictured, but in the tables: extra" in read.text


def test_columns_that_changed_their_kind_or_are_gone_are_told(tmp_path: Path) -> None:
    """Neither is passed over in silence."""
    original, released = build_tables()
    ages = read_table({"age": np.array(["[10, 50)"] * 30 + ["[50, 90)"] * 30)})["age"]
    released = released.drop(["born"]).put(ages)
    comparison = compare_release(original, released, ("age",), ("income",))
    write_report(tmp_path / "report.html", FACTS, comparison, original, released)
    text = ReportPage((tmp_path / "report.html").read_text(encoding="utf-8")).text
    assert "Now values of another kind, and not compared: age." in text
    assert "Not in the released table: born." in text


def test_columns_with_one_value_left_are_told_as_gone(tmp_path: Path) -> None:
    """Under the pictures, and what could then not be compared is a dash, not 0."""
    original = build_tables()[0].select(["age", HOSTILE])
    released = original.put(read_table({"age": np.full(60, "*")})["age"])
    comparison = compare_release(original, released, ("age",), (HOSTILE,))
    write_report(tmp_path / "report.html", FACTS, comparison, original, released)
    text = ReportPage((tmp_path / "report.html").read_text(encoding="utf-8")).text
    assert "Gone, with one value in every row: age." in text
    assert "not compared" not in text
    assert "columns with values that can be compared1 of 2" in text
    for figure in ("information loss IL1s", "sum of squared errors", "mean change of correlations"):
        assert f"{figure}–" in text


def test_dates_are_told_as_dates(tmp_path: Path) -> None:
    """Also their means and quantiles."""
    _, read = write_page(tmp_path)
    mean = np.datetime64(round(compare_tables(*build_tables()).means["born"][0]), "D")
    assert str(mean) in read.text


def test_the_tables_hold_the_figures(tmp_path: Path) -> None:
    """Every column has a row, and every table a caption."""
    _, read = write_page(tmp_path, sweep=build_sweep())
    comparison = compare_tables(*build_tables())
    assert len(read.find_all("caption")) == len(read.find_all("table")) >= 6
    assert f"{comparison.means['age'][0]:.4g}" in read.text
    figures = (comparison.disclosure, comparison.disclosure_by_chance, comparison.disclosure_excess)
    assert "income" + "".join(f"{100 * each['income']:.3g} %" for each in figures) in read.text
    assert "Left out: t-closeness" in read.text


def test_json_tells_what_the_page_tells() -> None:
    """With exact numbers by their text, and no NaN."""
    facts = {**FACTS, "t": Fraction(3, 2), "sizes": {"age": 10}}
    document = json.loads(
        json.dumps(build_report_json(facts, compare_tables(*build_tables()), build_sweep()), allow_nan=False)
    )
    assert document["notice"] == CUSTODIAN_NOTICE
    assert document["facts"]["t"] == "1.5"
    assert document["facts"]["sizes"] == {"age": 10}
    assert document["verdict"]["risk"]
    assert document["verdict"]["utility"]
    assert document["measures"]["rows"] == 60
    assert document["sweep"]["recommended"]["k"] == 30
    assert document["not_promised"][0] == FACTS["assumptions"][0]
    assert build_report_json(FACTS, compare_tables(*build_tables()))["sweep"] is None


def test_nothing_is_written_where_it_cannot_be(tmp_path: Path) -> None:
    """A folder that is not there, another kind of name, a folder in the file's place: one sentence, and no trace."""
    for path, message in ((tmp_path / "no" / "r.html", "does not exist"), (tmp_path / "r.pdf", "ends in .html")):
        with pytest.raises(InvalidInput, match=message):
            check_report_file(path)
    taken = tmp_path / "taken.html"
    taken.mkdir()
    original, released = build_tables()
    with pytest.raises(Unavailable, match="cannot be written there"):
        write_report(taken, FACTS, compare_tables(original, released), original, released)
    assert list(tmp_path.iterdir()) == [taken]
    assert not list(taken.iterdir())


def test_a_report_is_for_its_owner(tmp_path: Path) -> None:
    """Figures of the original records are not for every user of the machine."""
    write_page(tmp_path)
    assert stat.S_IMODE((tmp_path / "report.html").stat().st_mode) == 0o600


def test_without_the_packages_for_pictures_a_report_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With what to install, and nothing is written."""
    real = builtins.__import__

    def fail_to_import(name: str, *rest: Any) -> Any:
        if name == "vl_convert":
            raise ImportError
        return real(name, *rest)

    original, released = build_tables()
    comparison = compare_tables(original, released)
    monkeypatch.setattr(builtins, "__import__", fail_to_import)
    with pytest.raises(Unsupported, match="pip install"):
        write_report(tmp_path / "r.html", FACTS, comparison, original, released)
    assert not list(tmp_path.iterdir())


def test_numbers_and_the_intervals_they_became_are_not_pictured_together() -> None:
    """Nor is a column without values."""
    before, after = read_table({"age": np.array([1, 2])}), read_table({"age": np.array(["[1, 3)", "[1, 3)"])})
    assert build_column_chart(before["age"], after["age"]) is None
    none = read_table({"age": np.array([np.nan, np.nan])})
    assert build_column_chart(before["age"], none["age"]) is None


def test_shares_of_categories_add_up() -> None:
    """Missing values are one more category, and those without room are counted together."""
    values = np.array([f"c{index}" for index in range(30) for _ in range(index + 1)] + [None] * 40, dtype=object)
    chart = build_column_chart(*(read_table({"c": values})["c"] for _ in range(2)))
    assert chart is not None
    rows = chart.spec["data"]["values"]
    shares = {row["name"]: row["share"] for row in rows if row["file"] == "after"}
    assert len(shares) == MAX_CATEGORIES
    assert sum(shares.values()) == pytest.approx(1)
    assert shares["(missing)"] == 40 / len(values)
    assert "22 others" in shares


def test_outlines_hold_all_rows_but_far_tails() -> None:
    """The shares of the bins add up to 1 before and after; what lies beyond the ends is told."""
    draw = np.random.default_rng(1)
    values = draw.normal(size=1000)
    chart = build_column_chart(*(read_table({"x": values})["x"] for _ in range(2)))
    assert chart is not None
    for file in ("before", "after"):
        rows = [row["share"] for row in chart.spec["layer"][1]["data"]["values"] if row["file"] == file]
        assert sum(rows) == pytest.approx(1)
    values[:2] = 1e9
    chart = build_column_chart(*(read_table({"x": values})["x"] for _ in range(2)))
    assert chart is not None
    assert "1 % of the values before lie beyond" in chart.sentence


@pytest.mark.parametrize("values", [[0, 0], [1e17, 1e17], [1e17, 1e17 + 16], [-3, 4], [0.1, 0.1]])
def test_any_numbers_can_be_drawn(values: list[float]) -> None:
    """Constant, huge or a handful, each row is counted once."""
    chart = build_column_chart(*(read_table({"x": np.array(values)})["x"] for _ in range(2)))
    assert chart is not None
    assert sum(row["share"] for row in chart.spec["layer"][1]["data"]["values"]) == pytest.approx(2)
    assert "<svg" in chart.to_svg()


@pytest.mark.parametrize("kind", [np.int64, np.float64, "datetime64[D]"])
@pytest.mark.parametrize(("low", "high"), [(17, 90), (0, 39), (0, 40), (-7, 20_000), (5, 6)])
def test_whole_numbers_make_no_combs(kind: Any, low: int, high: int) -> None:
    """One row of each whole number looks even: every bin but the last has as many of them."""
    values = np.arange(low, high + 1).astype(kind)
    chart = build_column_chart(*(read_table({"x": values})["x"] for _ in range(2)))
    assert chart is not None
    rows = [row for row in chart.spec["layer"][1]["data"]["values"] if row["file"] == "before"]
    shares = [row["share"] for row in rows][1:-1]
    assert len(shares) <= BIN_COUNT
    assert len(set(shares[:-1])) == 1
    assert 0 < shares[-1] <= shares[0]
    assert sum(shares) == pytest.approx(1)
    assert rows[0]["x"] == low - 0.5


@pytest.mark.parametrize("days", [2, 15, 1800, 40_000])
def test_labels_of_dates_have_room(days: int) -> None:
    """At most three, each a whole day, and more than a quarter of the picture apart where there are three."""
    born = read_table({"born": np.datetime64("1950-01-01") + np.arange(days)})["born"]
    chart = build_column_chart(born, born)
    assert chart is not None
    across = chart.spec["layer"][1]["encoding"]["x"]
    marks, (low, high) = across["axis"]["values"], across["scale"]["domain"]
    assert all(mark == round(mark) and low < mark < high for mark in marks)
    assert 2 <= len(marks) <= 3
    assert days == 2 or min(np.diff(marks)) > (high - low) / 4


def test_a_heat_map_tells_hundredths() -> None:
    """And there is none for one column, or for values that are not numbers."""
    before, after = np.array([[1, 0.5], [0.5, 1]]), np.array([[1, 0.44], [0.44, 1]])
    charts = build_correlation_charts(("a", "b"), before, after)
    labels = [[row["told"] for row in chart.spec["layer"][1]["data"]["values"]] for chart in charts]
    assert labels == [["100", "50", "50", "100"], ["100", "44", "44", "100"], ["0", "-6", "-6", "0"]]
    assert build_correlation_charts(("a",), before[:1, :1], after[:1, :1]) == ()


def test_the_recommended_point_is_ringed() -> None:
    """In every curve, also where there is one k alone."""
    full_sweep = build_sweep()
    for sweep in (full_sweep, replace(full_sweep, points=(full_sweep.recommended,))):
        for chart in build_sweep_charts(sweep):
            assert chart.spec["layer"][-1]["data"]["values"][0]["k"] == 30
            assert "mdav at k = 30, ringed, is recommended" in chart.sentence
            assert "<svg" in chart.to_svg()
    strict = build_sweep_charts(replace(full_sweep, limit=0.01))
    assert all("mdav at k = 30, ringed, is nearest to safe and useful" in chart.sentence for chart in strict)


def test_the_page_fits_a_telephone(tmp_path: Path, chromium: Chromium) -> None:
    """A browser 400 pixels wide finds nothing that sticks out of the page."""
    text, _ = write_page(tmp_path, sweep=build_sweep())
    measure = "document.title = document.querySelector('iframe').contentDocument.documentElement.scrollWidth"
    framed = tmp_path / "framed.html"
    framed.write_text(
        f'<iframe width="400" height="800" srcdoc="{escape(text)}" onload="{measure}"></iframe>', encoding="utf-8"
    )
    title = re.search(r"<title>(\d+)</title>", chromium.dom(framed.as_uri()))
    assert title is not None
    assert int(title[1]) <= 400
