"""The demo's pictures: Vega-Lite charts drawn to SVG on this machine, nothing fetched.

Their colours are those of the product's own pictures; the page's style gives each another one on a dark screen.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import vl_convert

GREY, BLUE, ORANGE, INK = "#6b7280", "#0a5fb4", "#d55e00", "#111827"
WIDTH, HEIGHT = 440, 200
Spec = dict[str, Any]
Row = Mapping[str, Any]
FONT = "system-ui, sans-serif"
CONFIG = {
    "font": FONT,
    "view": {"stroke": None},
    "axis": {"grid": False, "labelFontSize": 13, "titleFontSize": 13, "titleFontWeight": "normal", "labelColor": INK}
    | {"titleColor": INK, "domainColor": GREY, "tickColor": GREY},
    "legend": {
        "labelFontSize": 13,
        "labelColor": INK,
        "orient": "top",
        "title": None,
        "labelLimit": 500,
        "columnPadding": 28,
    },
}
PADDING = {"left": 16, "right": 12, "top": 4, "bottom": 4}
"""Room at the sides: the reader's font may be wider than the one that was measured."""
DECADES = "max(datum.value, 17) + '–' + (datum.value < 80 ? datum.value + 9 : 90)"
"""How ten years of age are called by the first of them, from 17 to 90."""
DASHED = {"type": "rule", "strokeDash": [5, 4], "color": INK}


def draw_svg(spec: Spec) -> str:
    """A chart as an SVG, transparent."""
    whole = {"width": WIDTH, "height": HEIGHT, "config": CONFIG, "background": None, "padding": PADDING} | spec
    return str(vl_convert.vegalite_to_svg(json.dumps(whole)))


def draw_answer(spec: Spec) -> str:
    """The picture that an answer gives of itself, in the page's look."""
    answer_config = spec["config"]
    config = {
        name: answer_config.get(name, {}) | part if isinstance(part, dict) else part for name, part in CONFIG.items()
    }
    answer_spec = {name: value for name, value in spec.items() if name not in {"title", "width"}}
    return draw_svg(answer_spec | {"config": config})


def draw_laws(by_name: Mapping[str, Mapping[float, float]], across: str, truth: float) -> str:
    """Several laws over one axis, and where the truth is."""
    rows = [{"x": x, "p": p, "law": name} for name, law in by_name.items() for x, p in law.items()]
    line = _layer(rows, {"type": "line", "interpolate": "step", "strokeWidth": 2})
    line["encoding"] = {
        "x": _number("x", across, zero=False, nice=False),
        "y": _number("p", "probability"),
        "color": _colour("law", list(by_name), (GREY, BLUE, ORANGE), columns=1),
        "strokeDash": _dash("law", list(by_name), ([2, 2], [1, 0], [1, 0])),
    }
    return draw_svg({"layer": [line, _layer([{"x": truth}], DASHED, x=_number("x", across))]})


def draw_shares(by_name: Mapping[str, float], across: str) -> str:
    """A few shares as bars, each with its figure."""
    rows = [{"name": name, "share": share, "told": f"{share:.1%}"} for name, share in by_name.items()]
    y = {"field": "name", "type": "nominal", "sort": None, "title": None, "axis": {"labelLimit": 200}}
    x = _number("share", across, zero=True) | {"axis": {"format": "%", "tickCount": 5}}
    bars = _layer(rows, {"type": "bar", "color": BLUE, "height": 22}, x=x, y=y)
    text_mark = {"type": "text", "align": "left", "dx": 6, "fontSize": 13, "color": INK}
    figures = _layer(rows, text_mark, x=x, y=y, text={"field": "told"})
    return draw_svg({"layer": [bars, figures], "height": 40 * len(rows), "width": WIDTH - 130})


def draw_draws(by_name: Mapping[str, Mapping[int, int]], across: str) -> str:
    """How often each number came, side by side."""
    rows = [{"x": x, "n": n, "way": name} for name, counts in by_name.items() for x, n in counts.items()]
    bars = _layer(rows, {"type": "bar"})
    bars["encoding"] = {
        "x": {"field": "x", "type": "ordinal", "title": across, "axis": {"labelAngle": 0}},
        "xOffset": {"field": "way", "type": "nominal", "sort": list(by_name)},
        "y": _number("n", "draws"),
        "color": _colour("way", list(by_name), (BLUE, "#c3c8d0")),
    }
    return draw_svg(bars)


def draw_comparison(by_name: Mapping[str, Mapping[int, float]], across: str) -> str:
    """Two laws over whole numbers, side by side."""
    rows = [{"x": x, "p": p, "law": name} for name, law in by_name.items() for x, p in law.items()]
    bars = _layer(rows, {"type": "bar"})
    bars["encoding"] = {
        "x": {"field": "x", "type": "ordinal", "title": across, "axis": {"labelAngle": 0}},
        "xOffset": {"field": "law", "type": "nominal", "sort": list(by_name)},
        "y": _number("p", "probability"),
        "color": _colour("law", list(by_name), (BLUE, ORANGE)),
    }
    return draw_svg(bars)


def draw_intervals(rows: Sequence[Row], across: str) -> str:
    """Answers with their 95 % intervals, and the truth as a tick."""
    y = {"field": "group", "type": "nominal", "sort": None, "title": None}
    x = _number("low", across, zero=False)
    bar = _layer(
        rows, {"type": "rule", "strokeWidth": 9, "color": BLUE, "opacity": 0.35}, y=y, x=x, x2={"field": "high"}
    )
    dot = _layer(rows, {"type": "point", "filled": True, "size": 70, "color": BLUE, "opacity": 1}, y=y)
    dot["encoding"]["x"] = _number("answer", across)
    tick = _layer(rows, {"type": "tick", "color": ORANGE, "thickness": 3, "size": 20}, y=y)
    tick["encoding"]["x"] = _number("truth", across)
    return draw_svg({"layer": [bar, dot, tick], "width": WIDTH - 60})


def draw_account(rows: Sequence[Row], limit: float) -> str:
    """What is left after every question, and the one that asks for more than that."""
    names = [row["name"] for row in rows]
    x = {"field": "name", "type": "nominal", "sort": names, "title": None, "axis": {"labelAngle": 0}}
    y = _number("left", "epsilon left", domain=[0, limit], nice=False)
    left = [row for row in rows if not row["refused"]]
    bars = _layer(left, {"type": "bar", "color": BLUE, "width": {"band": 0.7}}, x=x, y=y)
    spent_mark = {"type": "bar", "color": BLUE, "opacity": 0.25, "width": {"band": 0.7}}
    spent_layer = _layer(left, spent_mark, x=x, y=y, y2={"field": "before"})
    refused_mark = {"type": "bar", "filled": False, "stroke": ORANGE, "strokeWidth": 2, "strokeDash": [5, 4]}
    over = _layer([row for row in rows if row["refused"]], refused_mark | {"width": {"band": 0.7}}, x=x, y=y)
    words = {"type": "text", "dy": -8, "fontSize": 13, "color": INK}
    figures_layer = _layer(list(rows), words, x=x, y=_number("top", "epsilon left"), text={"field": "told"})
    return draw_svg({"layer": [bars, spent_layer, over, figures_layer]})


def draw_lines(by_name: Mapping[str, Mapping[int, float]], across: str, up: str) -> str:
    """Several lines with points, of shares."""
    rows = [{"x": x, "y": y, "who": name} for name, line in by_name.items() for x, y in line.items()]
    names = list(by_name)
    encoding = {
        "x": {
            "field": "x",
            "type": "ordinal",
            "title": across,
            "axis": {
                "labelAngle": 0,
                "labelExpr": DECADES,
            },
        },
        "y": _number("y", up, zero=True) | {"axis": {"format": "%"}},
        "color": _colour("who", names, (INK, BLUE, ORANGE)),
        "strokeDash": _dash("who", names, ([2, 3], [1, 0], [1, 0])),
    }
    mark = {"type": "line", "point": {"size": 45}, "strokeWidth": 2}
    return draw_svg({"layer": [_layer(rows, mark, **encoding)]})


def draw_heat(rows: Sequence[Row], limit: float) -> str:
    """A square of losses between every two truths, dark where the whole epsilon is spent."""
    ages = [17, 31, 41, 51, 61, 71, 81]
    colour = {"field": "loss", "type": "quantitative", "scale": {"domain": [0, limit], "scheme": "blues"}}
    squares = _layer(rows, {"type": "rect"})
    squares["encoding"] = {
        "x": {"field": "one", "type": "ordinal", "title": "one truth", "axis": {"labelAngle": 0, "values": ages}},
        "y": {"field": "two", "type": "ordinal", "title": "the other", "sort": "descending", "axis": {"values": ages}},
        "color": colour | {"legend": {"orient": "right", "title": "loss", "titleColor": INK}},
    }
    return draw_svg(squares | {"width": 300, "height": 300})


def crossing(rows: Sequence[Row], crosses: float) -> str:
    """Errors as shares of what was unknown, over range by sensitivity, and where the two lines cross."""
    names = ["refinement", "noise"]
    scale = {"type": "log", "base": 2, "nice": False}
    x = {"field": "x", "type": "quantitative", "title": "range over what one person can change", "scale": scale}
    y = _number("share", "uncertainty left", domain=[0, 1.02], nice=False) | {"axis": {"format": "%"}}
    line = _layer(rows, {"type": "line", "strokeWidth": 2.2}, x=x, y=y, color=_colour("way", names, (BLUE, ORANGE)))
    mark = _layer([{"x": crosses}], DASHED, x={"field": "x", "type": "quantitative"})
    return draw_svg({"layer": [line, mark]})


def _layer(rows: Iterable[Row], mark: Spec, **encoding: Spec) -> Spec:
    return {"data": {"values": list(rows)}, "mark": mark, "encoding": encoding}


def _number(name: str, title: str, **scale: object) -> Spec:
    return {"field": name, "type": "quantitative", "title": title} | ({"scale": scale} if scale else {})


def _colour(name: str, order: Sequence[str], colours: Sequence[str], **legend: object) -> Spec:
    scale = {"domain": list(order), "range": list(colours[: len(order)])}
    return {"field": name, "type": "nominal", "sort": list(order), "scale": scale, "legend": legend}


def _dash(name: str, order: Sequence[str], dashes: Sequence[Sequence[int]]) -> Spec:
    return {"field": name, "type": "nominal", "scale": {"domain": list(order), "range": list(dashes)}, "legend": {}}
