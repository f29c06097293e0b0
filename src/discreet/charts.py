"""Pictures of answers as Vega-Lite, drawn on this machine: priors, noise and posteriors, or the bars of a histogram."""

from __future__ import annotations

import json
import math
import os
import tempfile
import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from html import escape
from importlib.util import find_spec
from pathlib import Path

import numpy as np

from discreet import formatting
from discreet.errors import InvalidInput, Unavailable, Unsupported
from discreet.priors.posterior import Array, Posterior

GRAY, ORANGE, BLUE, INK = "#6b7280", "#d55e00", "#0a5fb4", "#111827"
WIDTH, HEIGHT = 640, 280
MARK_HEIGHT = 32  # the height of a label with its interval, above the curves
MAX_LEVEL_LABELS, MAX_CATEGORIES = 7, 16  # categories whose names stand level; categories that have room at all
NOISE_LABEL = "noise about the raw answer"
# Told apart by dash and fill as well as by colour, for eyes and printers without it.
STYLES: Mapping[str, Mapping[str, object]] = {
    "prior": {"line": GRAY, "dash": [1, 0], "stroke": 1.5, "fill": 0.2, "bar": "#c3c8d0"},
    NOISE_LABEL: {"line": ORANGE, "dash": [6, 4], "stroke": 1.8, "fill": 0, "bar": "#f2a36b"},
    "posterior": {"line": BLUE, "dash": [1, 0], "stroke": 2.4, "fill": 0.35, "bar": BLUE},
}
CONFIG = {
    "view": {"stroke": None},
    "axis": {"grid": False, "labelFontSize": 12, "titleFontSize": 12, "titleFontWeight": "normal"},
    "legend": {"labelFontSize": 12, "labelColor": INK},
}
NO_SPEC = "this is no picture of an answer; draw what picture_spec gives"
MISSING_PACKAGES = "pictures need packages that are not installed here; run pip install '.[pictures]'"

Layer = dict[str, object]

NumberRange = tuple[float, float]


@dataclass(frozen=True)
class HistogramChart:
    """Counts between neighbouring edges, which are numbers, or days since 1970-01-01 where `dates`."""

    title: str
    axis_title: str
    edges: tuple[float, ...]
    counts: tuple[float, ...]
    intervals: tuple[tuple[float, float], ...]
    sentence: str
    dates: bool = False
    names: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """A bar between every two edges, and an interval for every bar."""
        if not len(self.edges) - 1 == len(self.counts) == len(self.intervals) > 0:
            raise InvalidInput("a picture of a histogram has a count and an interval between every two edges")

    def build_layers(self) -> list[Layer]:
        """The bars, and a line from end to end of each interval, in Vega-Lite."""
        bars = zip(self.edges, self.edges[1:], self.counts, self.intervals, strict=False)
        rows = [
            {"from": low, "to": high, "middle": (low + high) / 2, "count": count, "low": least, "high": most}
            for low, high, count, (least, most) in bars
        ]
        x: Layer = {"type": "quantitative", "title": self.axis_title[:90]}
        x |= {"scale": {"domain": [self.edges[0], self.edges[-1]], "nice": False}, "axis": _build_axis(self.dates)}
        y: Layer = {"type": "quantitative", "title": "rows", "axis": {"tickCount": 5, "format": ",~r"}}
        bar = {"type": "rect", "color": BLUE, "opacity": 0.45, "stroke": BLUE, "strokeWidth": 0.5}
        ends = {"x": x | {"field": "from"}, "x2": {"field": "to"}, "y": y | {"field": "count"}, "y2": {"datum": 0}}
        rule = {"type": "rule", "color": INK, "strokeWidth": 1}
        interval = {"x": x | {"field": "middle"}, "y": y | {"field": "low"}, "y2": {"field": "high"}}
        return [build_layer(rows, bar, **ends), build_layer(rows, rule, **interval)]


@dataclass(frozen=True)
class DistributionChart:
    """Distributions over the same line or the same names, and the raw answer with its 95 % interval.

    `noise` is the distribution of the noise about the raw answer, over values of the answer.
    """

    title: str
    axis_title: str
    prior: Posterior | None
    noise: Posterior | None
    posterior: Posterior | None
    raw: float | str | None
    interval: NumberRange | None
    sentence: str
    dates: bool = False
    """Whether the numbers are days since 1970-01-01, to be told as dates."""

    def __post_init__(self) -> None:
        """At least one distribution, all of one kind, and a finite raw answer of that kind."""
        names = {distribution.names for distribution in self.distributions.values()}
        if len(names) != 1:
            raise InvalidInput("a picture shows at least one law, and all its laws are over numbers or the same names")
        allowed = next(iter(names))
        if isinstance(self.raw, str) and self.raw not in (allowed or ()):
            raise InvalidInput("the raw answer of this picture must be one of the names of its laws")
        numbers = [*(self.interval or ()), *(() if self.raw is None or isinstance(self.raw, str) else (self.raw,))]
        if numbers and allowed is not None:
            raise InvalidInput("the raw answer of this picture must be a name, without an interval, as its laws are")
        if not all(map(math.isfinite, numbers)) or (self.interval and self.interval[0] > self.interval[1]):
            raise InvalidInput("the raw answer of a picture and its interval must be finite, the lower end first")

    @property
    def distributions(self) -> dict[str, Posterior]:
        """The distributions there are, by their names in the legend."""
        pairs = zip(STYLES, (self.prior, self.noise, self.posterior), strict=True)
        return {name: distribution for name, distribution in pairs if distribution is not None}

    @property
    def names(self) -> tuple[str, ...]:
        """The categories; none for numbers."""
        return next(iter(self.distributions.values())).names or ()


def save_spec(spec: object, path: str | Path) -> Path:
    """Draw what `picture_spec` gave, here or on another machine, to an .svg, .png or .html file."""
    target = check_picture_path(path)
    if not isinstance(spec, dict) or not isinstance(spec.get("layer"), list):
        raise InvalidInput(NO_SPEC)
    try:
        content = RENDERERS[target.suffix.lower()](spec)
    except ImportError:
        raise Unsupported(MISSING_PACKAGES) from None
    except ValueError:  # vl_convert's, where the layers are no picture
        raise InvalidInput(NO_SPEC) from None
    write_atomically(target, content, "picture")
    return target


def check_picture_path(path: str | Path) -> Path:
    """Refuse a path where no picture could be drawn."""
    target = Path(path)
    if target.suffix.lower() not in RENDERERS:
        raise InvalidInput(f"a picture's name ends in .svg, .png or .html; {target.name[:40]!r} does not")
    if not target.parent.is_dir():
        raise InvalidInput(f"the folder for the picture {target.name[:40]!r} does not exist; make it first")
    if find_spec("vl_convert") is None:
        raise Unsupported(MISSING_PACKAGES)
    check_writable(target, "picture")
    return target


def check_writable(target: Path, what: str) -> None:
    """Refuse a place where `write_atomically` would fail, before anything is paid for what it is to write."""
    try:
        tempfile.TemporaryDirectory(prefix=".discreet-", dir=target.parent).cleanup()
    except OSError:
        raise _build_write_error(target, what) from None
    if target.is_dir():
        raise _build_write_error(target, what)


def _build_write_error(target: Path, what: str) -> Unavailable:
    return Unavailable(f"the {what} {target.name[:40]!r} cannot be written there; choose another place")


def write_atomically(target: Path, content: bytes, what: str) -> None:
    """Write a file whole or not at all."""
    try:
        with tempfile.TemporaryDirectory(prefix=".discreet-", dir=target.parent) as name:
            temporary_file = Path(name) / what
            temporary_file.write_bytes(content)
            os.replace(temporary_file, target)
    except OSError:
        raise _build_write_error(target, what) from None


def _render_svg(spec: Layer) -> bytes:
    import vl_convert

    svg: str = vl_convert.vegalite_to_svg(_add_caption(spec), allowed_base_urls=[])
    label = escape(clean_text(_get_spec_text(spec, "description"), 600))
    return svg.replace("<svg ", f'<svg role="img" aria-label="{label}" ', 1).encode()


def _render_png(spec: Layer) -> bytes:
    import vl_convert

    return bytes(vl_convert.vegalite_to_png(_add_caption(spec), scale=2, allowed_base_urls=[]))


@cache
def load_vega_script() -> str:
    """Vega, Vega-Lite and Vega-Embed as one script; built once in a process, which takes a second or two."""
    import vl_convert

    return str(vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;"))


def _render_html(spec: Layer) -> bytes:
    # vl_convert's own page would let a title that holds </script> end the script.
    spec_json = json.dumps(spec).replace("<", "\\u003c")
    title = escape(clean_text(_get_spec_text(spec, "title", "text"), 90))
    sentence = escape(clean_text(_get_spec_text(spec, "description"), 600))
    library = load_vega_script()
    return HTML_PAGE.format(title=title, sentence=sentence, ink=INK, library=library, spec=spec_json).encode()


def _get_spec_text(spec: Layer, *path: str) -> str:
    """A text of a spec, which may come from elsewhere."""
    value: object = spec
    for name in path:
        value = value.get(name) if isinstance(value, dict) else None
    return value if isinstance(value, str) else ""


RENDERERS: Mapping[str, Callable[[Layer], bytes]] = {".svg": _render_svg, ".png": _render_png, ".html": _render_html}
HTML_PAGE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'; \
script-src 'unsafe-inline' 'unsafe-eval'">
<meta name="viewport" content="width=device-width">
<title>{title}</title>
<style>body {{ font: 16px/1.5 sans-serif; color: {ink}; margin: 2rem }} figure {{ margin: 0; max-width: 44rem }}</style>
<script>{library}</script>
</head>
<body>
<figure>
<div id="picture" role="img" aria-label="{sentence}"></div>
<figcaption>{sentence}</figcaption>
</figure>
<script>vegaEmbed("#picture", {spec}, {{actions: false, renderer: "svg"}});</script>
</body>
</html>
"""


def build_picture_spec(chart: DistributionChart | HistogramChart) -> Layer:
    """The picture in Vega-Lite; the sentence that goes with it is its description."""
    title = {"text": clean_text(chart.title, 90), "anchor": "start", "frame": "group", "fontSize": 15, "limit": WIDTH}
    spec: Layer = {"title": title, "description": clean_text(chart.sentence, 600), "config": CONFIG, "padding": 14}
    labels = "level" if len(chart.names) <= MAX_LEVEL_LABELS else "slanted"
    spec |= {"width": WIDTH, "height": HEIGHT, "usermeta": {"labels": labels}}
    if isinstance(chart, HistogramChart):
        return spec | {"layer": chart.build_layers()}
    return spec | {"layer": _build_bar_layers(chart) if chart.names else _build_curve_layers(chart)}


def _add_caption(spec: Layer) -> Layer:
    """With the sentence under the axis, for a file that is the picture alone."""
    lines = textwrap.wrap(clean_text(_get_spec_text(spec, "description"), 600), 100)
    offset = 130 if _get_spec_text(spec, "usermeta", "labels") == "slanted" else 52
    place = {"x": 0, "y": HEIGHT + offset, "align": "left", "baseline": "top"}
    mark = {"type": "text", "text": lines, "fontSize": 12.5, "lineHeight": 18, "color": INK}
    layers = spec["layer"] if isinstance(spec["layer"], list) else []
    return spec | {"layer": [*layers, *([build_layer([{}], mark | place)] if lines else [])]}


def build_layer(rows: Sequence[Mapping[str, object]], mark: Mapping[str, object], **encoding: object) -> Layer:
    return {"data": {"values": rows}, "mark": mark, "encoding": encoding}


def _build_field(name: str, kind: str, **options: object) -> Layer:
    return {"field": name, "type": kind, **options}


def _build_axis(dates: bool) -> Layer:
    """The level axis, of numbers or of days since 1970-01-01."""
    axis: Layer = {"tickCount": 8, "titlePadding": 8}
    return axis | {"tickCount": 5, "labelExpr": "utcFormat(datum.value * 86400000, '%Y-%m-%d')"} if dates else axis


def _build_style_encoding(chart: DistributionChart, style_key: str) -> Layer:
    """One look of each distribution, such as its dash; all looks share the legend on top."""
    legend = {"orient": "top", "symbolSize": 250, "symbolStrokeWidth": 2, "labelLimit": 300, "offset": 6}
    names = list(chart.distributions)
    scale = {"domain": names, "range": [STYLES[name][style_key] for name in names]}
    return _build_field("law", "nominal", title=None, scale=scale, legend=legend | {"columnPadding": 24})


def _build_probability_axis(name: str, top: float, top_margin: int) -> Layer:
    scale = {"domain": [0, top], "range": [HEIGHT, top_margin], "nice": 5}
    axis = {"tickCount": 5, "labelExpr": "format(100 * datum.value, '.3~r') + ' %'"}
    return _build_field(name, "quantitative", title="probability", scale=scale, axis=axis)


def _build_curve_layers(chart: DistributionChart) -> list[Layer]:
    """The distributions along one line, and above them the raw answer and the posterior mean with their intervals."""
    visible_range, unit, marks = _find_visible_range(chart), _find_common_width(chart), _list_marks(chart)
    distributions = chart.distributions.items()
    lines = {name: _compute_line(distribution, visible_range, unit or 1.0) for name, distribution in distributions}
    top = max(float(heights.max()) for _, heights, _ in lines.values())
    axis, scale = _build_axis(chart.dates), {"domain": visible_range, "nice": False}
    if not chart.dates and max(map(abs, visible_range)) >= 1e12:
        axis["format"] = ".6~e"
    x = _build_field("x", "quantitative", title=clean_text(chart.axis_title, 90), scale=scale, axis=axis)
    y = _build_probability_axis("y", top, MARK_HEIGHT * len(marks) + 6)
    if unit is None:  # a density is in units of one over the axis, which nobody reads
        y |= {"title": "probability density", "axis": {"labels": False, "ticks": False}}
    color, dash = _build_style_encoding(chart, "line"), _build_style_encoding(chart, "dash")
    places = {"x": x, "y": y, "color": color, "strokeDash": dash}
    # Dashes go on top of plain lines, so that both are seen where they agree.
    order = sorted(lines, key=NOISE_LABEL.__eq__)
    trimmed_lines = {name: _trim_flat_ends(*lines[name], top / HEIGHT) for name in order}
    curves = [layer for name in order for layer in _build_curve(name, *trimmed_lines[name], places)]
    rules = [mark.build_rule(MARK_HEIGHT * row) for row, mark in reversed(list(enumerate(marks)))]
    bars = [layer for row, mark in enumerate(marks) for layer in mark.build_bar(MARK_HEIGHT * row, visible_range)]
    return curves + rules + bars


def _trim_flat_ends(points: Array, heights: Array, interpolation: str, min_height: float) -> tuple[Array, Array, str]:
    """A line without its ends along the axis, unless it never leaves it."""
    above = np.flatnonzero(heights > min_height)
    part = slice(max(above[0] - 1, 0), above[-1] + 2) if len(above) else slice(None)
    return points[part], heights[part], interpolation


def _build_curve(
    name: str, points: Array, heights: Array, interpolation: str, places: Mapping[str, object]
) -> list[Layer]:
    """One distribution as a line, filled where its look says so."""
    style = STYLES[name]
    rows = [{"x": x, "y": y, "law": name} for x, y in zip(points.tolist(), heights.tolist(), strict=True)]
    line = build_layer(rows, {"type": "line", "interpolate": interpolation, "strokeWidth": style["stroke"]}, **places)
    area = {"type": "area", "interpolate": interpolation, "color": style["line"], "opacity": style["fill"]}
    return [build_layer(rows, area, x=places["x"], y=places["y"]), line] if style["fill"] else [line]


@dataclass(frozen=True)
class _Mark:
    """One value with its interval, written above the curves and led down through them."""

    name: str
    value: float
    interval: NumberRange | None
    style: Mapping[str, object]
    dates: bool = False

    def build_rule(self, down: int) -> Layer:
        """The line down from the value."""
        rule = {"type": "rule", "color": self.style["line"], "strokeDash": self.style["dash"], "strokeWidth": 1.5}
        ends = {"y": {"value": down + 22}, "y2": {"value": HEIGHT}}
        return build_layer([{"x": self.value}], rule, x=_build_field("x", "quantitative"), **ends)

    def build_bar(self, down: int, visible_range: NumberRange) -> list[Layer]:
        """The interval as a bar, the value as a dot on it, and both in words above."""
        low, high = self.interval or (self.value, self.value)
        row, color = [{"x": self.value, "low": low, "high": high}], {"color": self.style["line"]}
        x, y = _build_field("x", "quantitative"), {"value": down + 22}
        label, alignment = self.format_label(visible_range), self.choose_alignment(visible_range)
        words = {"type": "text", "text": label, "align": alignment, "dy": -12, "fontSize": 12, "fontWeight": "bold"}
        # White about the words, where the line of the mark above passes behind them.
        halo = words | {"color": "white", "stroke": "white", "strokeWidth": 4, "strokeJoin": "round"}
        bar = color | {"type": "rule", "strokeWidth": 5, "opacity": 0.55}
        dot = color | {"type": "point", "filled": True, "size": 60, "opacity": 1}
        bar_layer = build_layer(row, bar, x=x | {"field": "low"}, x2={"field": "high"}, y=y)
        halo_layer, text_layer, dot_layer = (build_layer(row, mark, x=x, y=y) for mark in (halo, words | color, dot))
        return [halo_layer, text_layer, bar_layer, dot_layer]

    def choose_alignment(self, visible_range: NumberRange) -> str:
        """Away from the nearer end of the line."""
        share = (self.value - visible_range[0]) / (visible_range[1] - visible_range[0])
        return "left" if share < 0.3 else "right" if share > 0.7 else "center"

    def format_label(self, visible_range: NumberRange) -> str:
        """The value and its interval, rounded outwards; alone, to about a thousandth of what is shown."""
        if self.interval is None:
            digits = max(0, math.ceil(2.5 - math.log10(visible_range[1] - visible_range[0])))
            text = formatting.format_day(self.value) if self.dates else _format_value(self.value, digits)
            return f"{self.name} {text}"
        if self.dates:
            value, (low, high) = formatting.format_day(self.value), formatting.format_day_ends(*self.interval)
        else:
            value, low, high = map(_use_minus_sign, formatting.format_estimate(self.value, *self.interval))
        return f"{self.name} {value} (95 %: {low} to {high})"


def _list_marks(chart: DistributionChart) -> list[_Mark]:
    marks, (_, noise, posterior) = [], STYLES.values()
    if chart.raw is not None and not isinstance(chart.raw, str):
        marks.append(_Mark("raw answer", float(chart.raw), chart.interval, noise, chart.dates))
    if chart.posterior is not None:
        ends = chart.posterior.interval(0.95)
        marks.append(_Mark("posterior mean", chart.posterior.mean(), ends, posterior, chart.dates))
    return marks


def _find_visible_range(chart: DistributionChart) -> NumberRange:
    """The part of the line where something happens."""
    points = [point for mark in _list_marks(chart) for point in (mark.value, *(mark.interval or ()))]
    max_width = (max(points) - min(points)) * 30 if points else 0
    # A distribution far wider than the answer is flat about it; all of it would make the answer a needle.
    busy_ranges = [_find_busy_range(distribution) for distribution in chart.distributions.values()]
    shown_ranges = [ends for ends in busy_ranges if ends[1] - ends[0] <= max_width] or busy_ranges
    ends = [*points, *(end for pair in shown_ranges for end in pair)]
    low, high = min(ends), max(ends)
    return low - (high - low) / 50, high + (high - low) / 50


def _find_busy_range(distribution: Posterior) -> NumberRange:
    """Where a distribution has more than a hundredth of its peak, and its central nine tenths."""
    edges = _get_edges(distribution)
    density, sums = distribution.mass / np.diff(edges), np.cumsum(distribution.mass)
    cells = np.flatnonzero((density > density.max() / 100) | ((sums > 0.05) & (sums - distribution.mass < 0.95)))
    return float(edges[cells[0]]), float(edges[cells[-1] + 1])


def _find_common_width(chart: DistributionChart) -> float | None:
    """The width of all cells, where they are alike: a height is then the probability of a cell."""
    widths = np.concatenate([np.diff(_get_edges(distribution)) for distribution in chart.distributions.values()])
    return float(widths[0]) if np.allclose(widths, widths[0], rtol=1e-6, atol=0) else None


def _compute_line(distribution: Posterior, visible_range: NumberRange, unit: float) -> tuple[Array, Array, str]:
    """Points along a distribution, its heights per unit, and how to join them: in steps where each cell can be seen."""
    edges, pixel = _get_edges(distribution), (visible_range[1] - visible_range[0]) / WIDTH
    inside = (edges[(edges > visible_range[0]) & (edges < visible_range[1])] - visible_range[0]) / pixel
    grid = visible_range[0] + pixel * _snap_to_pixels(np.round(np.concatenate([[0.0], inside, [WIDTH]]), 6))
    below = np.interp(grid, edges, np.concatenate([[0.0], np.cumsum(distribution.mass)]))
    heights = np.diff(below) / np.diff(grid) * unit
    if np.diff(inside).min(initial=np.inf) >= 8:
        return grid, np.append(heights, heights[-1]), "step-after"
    points = np.concatenate([visible_range[:1], (grid[1:] + grid[:-1]) / 2, visible_range[1:]])
    return points, np.pad(heights, 1, mode="edge"), "linear"


def _snap_to_pixels(edges: Array) -> Array:
    """Edges in pixels, those of cells thinner than a pixel moved out to whole ones: a thin peak keeps its area."""
    thin = np.diff(edges) < 1
    is_thin_edge = np.append(thin, False) | np.append(False, thin)
    thin_edges = edges[is_thin_edge]
    return np.unique(np.concatenate([edges[~is_thin_edge], np.floor(thin_edges), np.ceil(thin_edges)]))


def _get_edges(distribution: Posterior) -> Array:
    if distribution.edges is None:
        raise InvalidInput("only a law over numbers can be drawn along a line")
    return distribution.edges


def _build_bar_layers(chart: DistributionChart) -> list[Layer]:
    """Each distribution's probability of every category, side by side, and the raw answer marked."""
    groups, has_few_names = _group_categories(chart), len(chart.names) <= MAX_LEVEL_LABELS
    shares = {
        (label, name): float(distribution.mass[cells].sum())
        for label, cells in groups.items()
        for name, distribution in chart.distributions.items()
    }
    rows = [
        {"name": label, "law": name, "p": p, "told": formatting.format_percent(p, 3)}
        for (label, name), p in shares.items()
    ]
    angle, limit = (0, WIDTH // MAX_LEVEL_LABELS) if has_few_names else (-40, 120)
    axis = {"labelAngle": angle, "labelLimit": limit, "labelPadding": 6, "ticks": False}
    x = _build_field("name", "nominal", title=clean_text(chart.axis_title, 90), sort=list(groups), axis=axis)
    x |= {"scale": {"paddingInner": 0.3, "paddingOuter": 0.2}}
    y = _build_probability_axis("p", max(shares.values()), 52)
    places = {"x": x, "xOffset": _build_field("law", "nominal", sort=list(chart.distributions)), "y": y}
    bars = build_layer(rows, {"type": "bar"}, **places, color=_build_style_encoding(chart, "bar"))
    words = {"type": "text", "dy": -7, "fontSize": 12, "color": INK}
    labels = build_layer(rows, words, **places, text={"field": "told"})
    return [bars, *([labels] if has_few_names else []), *_mark_raw_category(chart, groups)]


def _mark_raw_category(chart: DistributionChart, groups: Mapping[str, list[int]]) -> list[Layer]:
    """An arrow down to the category that was drawn, and what it is."""
    row = [{"name": label} for label, cells in groups.items() if [chart.names[index] for index in cells] == [chart.raw]]
    x = _build_field("name", "nominal", sort=list(groups))
    arrow = {"type": "point", "shape": "triangle-down", "filled": True, "color": ORANGE, "size": 110, "opacity": 1}
    words = {"type": "text", "text": "raw answer", "fontWeight": "bold", "fontSize": 12, "color": ORANGE}
    layers = [build_layer(row, arrow, x=x, y={"value": 26}), build_layer(row, words, x=x, y={"value": 10})]
    return layers if row else []


def _group_categories(chart: DistributionChart) -> dict[str, list[int]]:
    """The categories by their labels; beyond what has room, the raw answer, the likeliest, and all others together."""
    likely = np.max([distribution.mass for distribution in chart.distributions.values()], axis=0)
    order = sorted(range(len(likely)), key=lambda index: (chart.names[index] != chart.raw, -likely[index]))
    room = len(order) if len(order) <= MAX_CATEGORIES else MAX_CATEGORIES - 1
    groups: dict[str, list[int]] = {}
    for index in sorted(order[:room]):
        label = clean_text(chart.names[index], 60)
        groups[label if label not in groups else f"{label} ({index + 1})"] = [index]
    return groups | ({f"{len(order) - room:,} others": order[room:]} if room < len(order) else {})


def _format_value(value: float, digits: int) -> str:
    text = (
        formatting.format_decimals(value, digits)
        if abs(value) < formatting.MAX_PLAIN_NUMBER
        else formatting.format_number(value, formatting.VALUE_DIGITS)
    )
    return _use_minus_sign(text)


def _use_minus_sign(text: str) -> str:
    """A printed number with a minus sign as long as a digit."""
    return f"\N{MINUS SIGN}{text[1:]}" if text.startswith("-") else text


def clean_text(text: str, max_length: int) -> str:
    """Text on one line, without what a file of text cannot hold, cut to a length."""
    plain = " ".join("".join(character if character.isprintable() else " " for character in text).split())
    return plain if len(plain) <= max_length else plain[: max_length - 1] + "…"
