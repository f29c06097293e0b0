"""The demo's pictures: Vega-Lite charts drawn to SVG on this machine, nothing fetched."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import altair as alt
import vl_convert

GREY, BLUE, ORANGE, GREEN = "#9aa5b1", "#2563eb", "#ea580c", "#15803d"
WIDTH, HEIGHT = 620, 240


def svg(chart: alt.Chart | alt.LayerChart | alt.HConcatChart) -> str:
    """The chart as an SVG."""
    return str(vl_convert.vegalite_to_svg(chart.configure_view(stroke=None).configure_axis(grid=False).to_json()))


def laws(laws_by_name: Mapping[str, Mapping[float, float]], colours: Sequence[str], across: str, truth: float) -> str:
    """Several laws over one axis, and where the truth is."""
    rows = [{"x": x, "p": p, "law": name} for name, law in laws_by_name.items() for x, p in law.items()]
    lines = (
        alt.Chart(alt.Data(values=rows))
        .mark_line(interpolate="step", strokeWidth=2)
        .encode(
            x=alt.X("x:Q", title=across, scale=alt.Scale(zero=False, nice=False)),
            y=alt.Y("p:Q", title="probability"),
            color=alt.Color(
                "law:N",
                sort=list(laws_by_name),
                scale=alt.Scale(domain=list(laws_by_name), range=list(colours)),
                legend=alt.Legend(title=None, orient="top", columns=1, labelLimit=600),
            ),
        )
        .properties(width=WIDTH, height=HEIGHT)
    )
    mark = alt.Chart(alt.Data(values=[{"x": truth}])).mark_rule(strokeDash=[4, 4], color="#111").encode(x="x:Q")
    return svg(lines + mark)


def histogram(draws_by_name: Mapping[str, Mapping[float, int]], colours: Sequence[str], across: str) -> str:
    """How often each answer came, side by side."""
    rows = [{"x": x, "n": n, "way": name} for name, counts in draws_by_name.items() for x, n in counts.items()]
    bars = (
        alt.Chart(alt.Data(values=rows))
        .mark_bar()
        .encode(
            x=alt.X("x:O", title=across, axis=alt.Axis(labelAngle=0)),
            xOffset=alt.XOffset("way:N", sort=list(draws_by_name)),
            y=alt.Y("n:Q", title="answers"),
            color=alt.Color(
                "way:N",
                sort=list(draws_by_name),
                scale=alt.Scale(domain=list(draws_by_name), range=list(colours)),
                legend=alt.Legend(title=None, orient="top", columns=1, labelLimit=600),
            ),
        )
        .properties(width=WIDTH, height=HEIGHT)
    )
    return svg(bars)


def intervals(rows: Sequence[Mapping[str, object]], across: str) -> str:
    """Answers with where the exact numbers lie, in 95 of 100 cases, and the exact numbers themselves as marks."""
    base = alt.Chart(alt.Data(values=list(rows))).encode(y=alt.Y("group:N", title=None, sort=None))
    bar = base.mark_rule(strokeWidth=8, color=BLUE, opacity=0.35).encode(
        x=alt.X("low:Q", title=across, scale=alt.Scale(zero=False)), x2="high:Q"
    )
    told = base.mark_point(filled=True, size=70, color=BLUE).encode(x="answer:Q")
    truth = base.mark_tick(color="#111", thickness=2, size=18).encode(x="truth:Q")
    return svg((bar + told + truth).properties(width=WIDTH, height=HEIGHT))


def heat(rows: Sequence[Mapping[str, float]], limit: float, across: str) -> str:
    """A square of losses between every two truths, dark where the whole epsilon is spent."""
    squares = (
        alt.Chart(alt.Data(values=list(rows)))
        .mark_rect()
        .encode(
            x=alt.X("one:O", title=across, axis=alt.Axis(labelAngle=0, values=[17, 30, 40, 50, 60, 70, 80, 90])),
            y=alt.Y("two:O", title="the other truth", sort="descending", axis=alt.Axis(values=[17, 40, 60, 90])),
            color=alt.Color("loss:Q", scale=alt.Scale(domain=[0, limit], scheme="blues"), title="loss"),
        )
        .properties(width=HEIGHT * 1.6, height=HEIGHT * 1.6)
    )
    return svg(squares)


def crossing(rows: Sequence[Mapping[str, object]], crosses: float) -> str:
    """Errors as shares of the prior's own over range by sensitivity, and where the first two lines cross."""
    ways, epsilons = (list(dict.fromkeys(str(row[name]) for row in rows)) for name in ("way", "epsilon"))
    legend = alt.Legend(title=None, orient="top", symbolSize=300, labelLimit=400, columnPadding=24)
    lines = (
        alt.Chart(alt.Data(values=list(rows)))
        .mark_line(strokeWidth=2.2)
        .encode(
            x=alt.X("x:Q", title="range over sensitivity", scale=alt.Scale(type="log", base=2, nice=False)),
            y=alt.Y("share:Q", title="error over the prior's own", scale=alt.Scale(domain=[0, 1.05], nice=False)),
            color=alt.Color(
                "way:N", sort=ways, scale=alt.Scale(domain=ways, range=[BLUE, ORANGE, GREY]), legend=legend
            ),
            strokeDash=alt.StrokeDash(
                "epsilon:N", sort=epsilons, scale=alt.Scale(domain=epsilons, range=[[1, 0], [6, 4]]), legend=legend
            ),
        )
        .properties(width=WIDTH, height=HEIGHT)
    )
    mark = alt.Chart(alt.Data(values=[{"x": crosses}])).mark_rule(strokeDash=[2, 3], color="#111").encode(x="x:Q")
    return svg(lines + mark)
