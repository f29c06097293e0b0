"""Pictures of what was seen, as SVG: growth on two logarithmic axes, and errors beside discreet's."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from benchmarks.results import ROOT

FOLDER = ROOT / "docs" / "images" / "benchmarks"
CHARTS = {
    "growth": {
        "growth": "Milliseconds to an answer against the rows, both on logarithmic scales, a panel for each question",
        "memory": "The most memory against the rows, both on logarithmic scales, a line for each contestant",
    },
    "error": {"error": "The error of each contestant over discreet's, a line for each question"},
}
"""By benchmark, its pictures, and what they show in words."""
ROOM = {"left": 25, "top": 5, "right": 40, "bottom": 5}
"""Round a picture: other fonts make labels and legends longer."""
Facts = Mapping[str, Any]
Point = dict[str, Any]


def write_charts(results: Facts, folder: Path = FOLDER) -> None:
    """Draw what there are results of."""
    import altair as alt

    folder.mkdir(parents=True, exist_ok=True)
    painters: dict[str, Callable[[Any, Facts], Any]] = {
        "growth": plot_growth,
        "memory": plot_memory,
        "error": plot_error,
    }
    for program, pictures in CHARTS.items():
        if program in results:
            for name in pictures:
                chart = painters[name](alt, results[program]).configure(padding=ROOM)
                chart.save(str(folder / f"{name}.svg"))


def plot_growth(alt: Any, run: Facts) -> Any:
    """Times, a panel for each question."""
    facts = run["facts"]
    points = [
        {"rows": rows, "milliseconds": milliseconds, "contestant": name, "question": question}
        for name, by_question in facts["milliseconds"].items()
        for question, times in by_question.items()
        for rows, milliseconds in zip(facts["sizes"], times, strict=True)
        if milliseconds is not None
    ]
    lines = _plot_lines(alt, points, "milliseconds").properties(width=270, height=200)
    return lines.facet(facet=alt.Facet("question:N", title=None, sort=_list_unique(points, "question")), columns=2)


def plot_memory(alt: Any, run: Facts) -> Any:
    """The most memory."""
    facts = run["facts"]
    points = [
        {"rows": rows, "megabytes": megabytes, "contestant": name}
        for name, each in facts["megabytes"].items()
        for rows, megabytes in zip(facts["sizes"], each, strict=True)
        if megabytes
    ]
    return _plot_lines(alt, points, "megabytes").properties(width=420, height=220)


def _plot_lines(alt: Any, points: list[Point], figure: str) -> Any:
    logarithmic = alt.Scale(type="log")
    return (
        alt.Chart(alt.Data(values=points))
        .mark_line(point=True)
        .encode(
            x=alt.X("rows:Q", scale=logarithmic, axis=alt.Axis(format="~s", tickCount=4)),
            y=alt.Y(f"{figure}:Q", scale=logarithmic),
            color=alt.Color("contestant:N", sort=_list_unique(points, "contestant"), title=None),
        )
    )


def plot_error(alt: Any, run: Facts) -> Any:
    """Errors over discreet's: right of 1 discreet errs less."""
    points = list(_list_ratios(run["tables"]))
    base = alt.Chart(alt.Data(values=points)).mark_point(filled=True, size=60)
    dots = base.encode(
        x=alt.X("ratio:Q", scale=alt.Scale(type="log"), title="error over discreet's (right of 1: discreet errs less)"),
        y=alt.Y("question:N", sort=_list_unique(points, "question"), title=None, axis=alt.Axis(labelLimit=300)),
        color=alt.Color("contestant:N", title=None),
    )
    rule = alt.Chart(alt.Data(values=[{"ratio": 1}])).mark_rule(strokeDash=[4, 3]).encode(x="ratio:Q")
    return (dots + rule).properties(width=460, height=380)


def _list_ratios(tables: list[Facts]) -> Iterator[Point]:
    for table in tables[:1]:
        for row in table["rows"]:
            cells = dict(zip(table["columns"], row["cells"], strict=True))
            ours = cells[table["ours"]]
            for name, cell in cells.items():
                if name != table["ours"] and isinstance(cell, float | int) and ours:
                    yield {"question": row["name"], "contestant": name, "ratio": cell / ours}


def _list_unique(points: list[Point], key: str) -> list[str]:
    return list(dict.fromkeys(point[key] for point in points))
