"""One picture of an answer: what was believed, the noise, what is known now. Drawn on this machine, nothing fetched."""

from __future__ import annotations

import json
import math
import os
import tempfile
import textwrap
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from html import escape
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from discreet.bars import Bars
from discreet.errors import InvalidInput, Unavailable, Unsupported
from discreet.formatting import (
    LARGEST,
    VALUE_DIGITS,
    format_day,
    format_day_ends,
    format_decimals,
    format_estimate,
    format_number,
    format_percent,
)
from discreet.posterior import Array, Posterior

GREY, ORANGE, BLUE, INK = "#6b7280", "#d55e00", "#0a5fb4", "#111827"
WIDTH, HEIGHT = 640, 280
ROW = 32  # the height of a label with its interval, above the curves
FEW, MOST = 7, 16  # categories whose names stand level; categories that have room at all
DASHED = "noise about the raw answer"
# Told apart by dash and fill as well as by colour, for eyes and printers without it.
LOOKS: Mapping[str, Mapping[str, Any]] = {
    "prior": {"line": GREY, "dash": [1, 0], "stroke": 1.5, "fill": 0.2, "bar": "#c3c8d0"},
    DASHED: {"line": ORANGE, "dash": [6, 4], "stroke": 1.8, "fill": 0, "bar": "#f2a36b"},
    "posterior": {"line": BLUE, "dash": [1, 0], "stroke": 2.4, "fill": 0.35, "bar": BLUE},
}
CONFIG = {
    "view": {"stroke": None},
    "axis": {"grid": False, "labelFontSize": 12, "titleFontSize": 12, "titleFontWeight": "normal"},
    "legend": {"labelFontSize": 12, "labelColor": INK},
}

NO_SPEC = "this is no picture of an answer; draw what picture_spec gives"
MISSING = "pictures need packages that are not installed here; run pip install '.[pictures]'"

Layer = dict[str, Any]
Spec = dict[str, Any]
Span = tuple[float, float]


@dataclass(frozen=True)
class Drawing:
    """What a picture shows: laws over the same line or the same names, and the raw answer with its 95 % interval.

    `noise` is the noise law about the raw answer, as a law over values of the answer.
    """

    title: str
    across: str
    prior: Posterior | None
    noise: Posterior | None
    posterior: Posterior | None
    raw: float | str | None
    interval: Span | None
    sentence: str
    dates: bool = False
    """Whether the numbers are days since 1970-01-01, to be told as dates."""

    def __post_init__(self) -> None:
        """At least one law, all of one kind, and a finite raw answer of that kind."""
        names = {law.names for law in self.laws.values()}
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
    def laws(self) -> dict[str, Posterior]:
        """The laws there are, by what the legend calls them."""
        given = zip(LOOKS, (self.prior, self.noise, self.posterior), strict=True)
        return {name: law for name, law in given if law is not None}

    @property
    def names(self) -> tuple[str, ...]:
        """The categories; none for numbers."""
        return next(iter(self.laws.values())).names or ()


def save_picture(drawing: Drawing | Bars, path: str | Path) -> Path:
    """Draw to an .svg, .png or .html file, whole or not at all."""
    check_path(path)
    return save_spec(picture_spec(drawing), path)


def save_spec(spec: object, path: str | Path) -> Path:
    """Draw what `picture_spec` gave, here or on another machine, to an .svg, .png or .html file."""
    target = check_path(path)
    if not isinstance(spec, dict) or not isinstance(spec.get("layer"), list):
        raise InvalidInput(NO_SPEC)
    try:
        content = PAINTERS[target.suffix.lower()](spec)
    except ImportError:
        raise Unsupported(MISSING) from None
    except ValueError:  # vl_convert's, where the layers are no picture
        raise InvalidInput(NO_SPEC) from None
    write_whole(target, content, "picture")
    return target


def check_path(path: str | Path) -> Path:
    """Where a picture goes, refused at once where none could be drawn there."""
    target = Path(path)
    if target.suffix.lower() not in PAINTERS:
        raise InvalidInput(f"a picture's name ends in .svg, .png or .html; {target.name[:40]!r} does not")
    if not target.parent.is_dir():
        raise InvalidInput(f"the folder for the picture {target.name[:40]!r} does not exist; make it first")
    if find_spec("vl_convert") is None:
        raise Unsupported(MISSING)
    check_writable(target, "picture")
    return target


def check_writable(target: Path, what: str) -> None:
    """Refuse a place where `write_whole` would fail, before anything is paid for what it is to write."""
    try:
        tempfile.TemporaryDirectory(prefix=".discreet-", dir=target.parent).cleanup()
    except OSError:
        raise _unwritable(target, what) from None
    if target.is_dir():
        raise _unwritable(target, what)


def _unwritable(target: Path, what: str) -> Unavailable:
    return Unavailable(f"the {what} {target.name[:40]!r} cannot be written there; choose another place")


def write_whole(target: Path, content: bytes, what: str) -> None:
    """A file that is there whole or not at all."""
    try:
        with tempfile.TemporaryDirectory(prefix=".discreet-", dir=target.parent) as name:
            made = Path(name) / what
            made.write_bytes(content)
            os.replace(made, target)
    except OSError:
        raise _unwritable(target, what) from None


def _svg(spec: Spec) -> bytes:
    import vl_convert

    drawn: str = vl_convert.vegalite_to_svg(_captioned(spec), allowed_base_urls=[])
    label = escape(_clean(_told(spec, "description"), 600))
    return drawn.replace("<svg ", f'<svg role="img" aria-label="{label}" ', 1).encode()


def _png(spec: Spec) -> bytes:
    import vl_convert

    return bytes(vl_convert.vegalite_to_png(_captioned(spec), scale=2, allowed_base_urls=[]))


@cache
def library() -> str:
    """Vega, Vega-Lite and Vega-Embed as one script; built once in a process, which takes a second or two."""
    import vl_convert

    return str(vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;"))


def _html(spec: Spec) -> bytes:
    # vl_convert's own page would let a title that holds </script> end the script.
    drawn = json.dumps(spec).replace("<", "\\u003c")
    title, sentence = escape(_clean(_told(spec, "title", "text"), 90)), escape(_clean(_told(spec, "description"), 600))
    return PAGE.format(title=title, sentence=sentence, ink=INK, library=library(), spec=drawn).encode()


def _told(spec: Spec, *path: str) -> str:
    """A text of a spec, which may come from elsewhere."""
    found: object = spec
    for name in path:
        found = found.get(name) if isinstance(found, dict) else None
    return found if isinstance(found, str) else ""


PAINTERS: Mapping[str, Callable[[Spec], bytes]] = {".svg": _svg, ".png": _png, ".html": _html}
PAGE = """<!DOCTYPE html>
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


def picture_spec(drawing: Drawing | Bars) -> Spec:
    """The picture in Vega-Lite; the sentence that goes with it is its description."""
    title = {"text": _clean(drawing.title, 90), "anchor": "start", "frame": "group", "fontSize": 15, "limit": WIDTH}
    told = {"title": title, "description": _clean(drawing.sentence, 600), "config": CONFIG, "padding": 14}
    told |= {
        "width": WIDTH,
        "height": HEIGHT,
        "usermeta": {"labels": "level" if len(drawing.names) <= FEW else "slanted"},
    }
    return told | {"layer": _layers(drawing)}


def _layers(drawing: Drawing | Bars) -> list[Layer]:
    if isinstance(drawing, Bars):
        return drawing.layers()
    return _bars(drawing) if drawing.names else _curves(drawing)


def _captioned(spec: Spec) -> Spec:
    """With the sentence under the axis, for a file that is the picture alone."""
    lines = textwrap.wrap(_clean(_told(spec, "description"), 600), 100)
    below = 130 if _told(spec, "usermeta", "labels") == "slanted" else 52
    place = {"x": 0, "y": HEIGHT + below, "align": "left", "baseline": "top"}
    mark = {"type": "text", "text": lines, "fontSize": 12.5, "lineHeight": 18, "color": INK}
    return spec | {"layer": [*spec["layer"], *([_layer([{}], mark | place)] if lines else [])]}


def _layer(rows: list[dict[str, Any]], mark: dict[str, Any], **encoding: dict[str, Any]) -> Layer:
    return {"data": {"values": rows}, "mark": mark, "encoding": encoding}


def _field(name: str, kind: str, **more: object) -> dict[str, Any]:
    return {"field": name, "type": kind, **more}


def _told_apart(drawing: Drawing, look: str) -> dict[str, Any]:
    """One look of each law, such as its dash; all looks share the legend on top."""
    legend = {"orient": "top", "symbolSize": 250, "symbolStrokeWidth": 2, "labelLimit": 300, "offset": 6}
    scale = {"domain": list(drawing.laws), "range": [LOOKS[law][look] for law in drawing.laws]}
    return _field("law", "nominal", title=None, scale=scale, legend=legend | {"columnPadding": 24})


def _probability(name: str, top: float, above: int) -> dict[str, Any]:
    """The upright axis, with room above it."""
    scale = {"domain": [0, top], "range": [HEIGHT, above], "nice": 5}
    axis = {"tickCount": 5, "labelExpr": "format(100 * datum.value, '.3~r') + ' %'"}
    return _field(name, "quantitative", title="probability", scale=scale, axis=axis)


def _curves(drawing: Drawing) -> list[Layer]:
    """The laws along one line, and above them the raw answer and the posterior mean with their intervals."""
    span, unit, marks = _span(drawing), _common_width(drawing), _marks(drawing)
    lines = {name: _line(law, span, unit or 1.0) for name, law in drawing.laws.items()}
    top = max(float(heights.max()) for _, heights, _ in lines.values())
    axis: dict[str, Any] = {"tickCount": 8, "titlePadding": 8}
    if drawing.dates:
        axis |= {"tickCount": 5, "labelExpr": "utcFormat(datum.value * 86400000, '%Y-%m-%d')"}
    elif max(map(abs, span)) >= 1e12:
        axis["format"] = ".6~e"
    x = _field("x", "quantitative", title=_clean(drawing.across, 90), scale={"domain": span, "nice": False}, axis=axis)
    y = _probability("y", top, ROW * len(marks) + 6)
    if unit is None:  # a density is in units of one over the axis, which nobody reads
        y |= {"title": "probability density", "axis": {"labels": False, "ticks": False}}
    places = {"x": x, "y": y, "color": _told_apart(drawing, "line"), "strokeDash": _told_apart(drawing, "dash")}
    # Dashes go on top of plain lines, so that both are seen where they agree.
    order = sorted(lines, key=DASHED.__eq__)
    laws = [layer for name in order for layer in _curve(name, *_lifted(*lines[name], top / HEIGHT), places)]
    rules = [mark.rule(ROW * row) for row, mark in reversed(list(enumerate(marks)))]
    return laws + rules + [layer for row, mark in enumerate(marks) for layer in mark.bar(ROW * row, span)]


def _lifted(points: Array, heights: Array, joined: str, least: float) -> tuple[Array, Array, str]:
    """A line without its ends along the axis, unless it never leaves it."""
    above = np.flatnonzero(heights > least)
    part = slice(max(above[0] - 1, 0), above[-1] + 2) if len(above) else slice(None)
    return points[part], heights[part], joined


def _curve(name: str, points: Array, heights: Array, joined: str, places: dict[str, Any]) -> list[Layer]:
    """One law as a line, filled where its look says so."""
    look = LOOKS[name]
    rows = [{"x": x, "y": y, "law": name} for x, y in zip(points.tolist(), heights.tolist(), strict=True)]
    line = _layer(rows, {"type": "line", "interpolate": joined, "strokeWidth": look["stroke"]}, **places)
    area = {"type": "area", "interpolate": joined, "color": look["line"], "opacity": look["fill"]}
    return [_layer(rows, area, x=places["x"], y=places["y"]), line] if look["fill"] else [line]


@dataclass(frozen=True)
class _Mark:
    """One value with its interval, written above the curves and led down through them."""

    name: str
    at: float
    interval: Span | None
    look: Mapping[str, Any]
    dates: bool = False

    def rule(self, down: int) -> Layer:
        """The line down from the value."""
        rule = {"type": "rule", "color": self.look["line"], "strokeDash": self.look["dash"], "strokeWidth": 1.5}
        return _layer(
            [{"x": self.at}], rule, x=_field("x", "quantitative"), y={"value": down + 22}, y2={"value": HEIGHT}
        )

    def bar(self, down: int, span: Span) -> list[Layer]:
        """The interval as a bar, the value as a dot on it, and both in words above."""
        low, high = self.interval or (self.at, self.at)
        row, colour = [{"x": self.at, "low": low, "high": high}], {"color": self.look["line"]}
        x, y = _field("x", "quantitative"), {"value": down + 22}
        words = {"type": "text", "text": self.words(span), "align": self.align(span), "dy": -12, "fontSize": 12}
        words |= {"fontWeight": "bold"}
        # White about the words, where the line of the mark above passes behind them.
        halo = words | {"color": "white", "stroke": "white", "strokeWidth": 4, "strokeJoin": "round"}
        bar = colour | {"type": "rule", "strokeWidth": 5, "opacity": 0.55}
        dot = colour | {"type": "point", "filled": True, "size": 60, "opacity": 1}
        ends = _layer(row, bar, x=x | {"field": "low"}, x2={"field": "high"}, y=y)
        return [_layer(row, halo, x=x, y=y), _layer(row, words | colour, x=x, y=y), ends, _layer(row, dot, x=x, y=y)]

    def align(self, span: Span) -> str:
        """Away from the nearer end of the line."""
        share = (self.at - span[0]) / (span[1] - span[0])
        return "left" if share < 0.3 else "right" if share > 0.7 else "center"

    def words(self, span: Span) -> str:
        """The value and its interval, rounded outwards; alone, to about a thousandth of what is shown."""
        if self.interval is None:
            digits = max(0, math.ceil(2.5 - math.log10(span[1] - span[0])))
            return f"{self.name} {format_day(self.at) if self.dates else _number(self.at, digits)}"
        if self.dates:
            at, (low, high) = format_day(self.at), format_day_ends(*self.interval)
        else:
            at, low, high = map(_minus, format_estimate(self.at, *self.interval))
        return f"{self.name} {at} (95 %: {low} to {high})"


def _marks(drawing: Drawing) -> list[_Mark]:
    marks, (_, noise, posterior) = [], LOOKS.values()
    if drawing.raw is not None and not isinstance(drawing.raw, str):
        marks.append(_Mark("raw answer", float(drawing.raw), drawing.interval, noise, drawing.dates))
    if drawing.posterior is not None:
        ends = drawing.posterior.interval(0.95)
        marks.append(_Mark("posterior mean", drawing.posterior.mean(), ends, posterior, drawing.dates))
    return marks


def _span(drawing: Drawing) -> Span:
    """The part of the line where something happens."""
    points = [at for mark in _marks(drawing) for at in (mark.at, *(mark.interval or ()))]
    wide = (max(points) - min(points)) * 30 if points else 0
    # A law far wider than the answer is flat about it; all of it would make the answer a needle.
    spans = [_busy(law) for law in drawing.laws.values()]
    busy = [ends for ends in spans if ends[1] - ends[0] <= wide] or spans
    ends = [*points, *(end for pair in busy for end in pair)]
    low, high = min(ends), max(ends)
    return low - (high - low) / 50, high + (high - low) / 50


def _busy(law: Posterior) -> Span:
    """Where a law has more than a hundredth of its peak, and its central nine tenths."""
    edges = _edges(law)
    density, sums = law.mass / np.diff(edges), np.cumsum(law.mass)
    cells = np.flatnonzero((density > density.max() / 100) | ((sums > 0.05) & (sums - law.mass < 0.95)))
    return float(edges[cells[0]]), float(edges[cells[-1] + 1])


def _common_width(drawing: Drawing) -> float | None:
    """The width of every cell of every law, where they are alike: a height is then the probability of a cell."""
    widths = np.concatenate([np.diff(_edges(law)) for law in drawing.laws.values()])
    return float(widths[0]) if np.allclose(widths, widths[0], rtol=1e-6, atol=0) else None


def _line(law: Posterior, span: Span, unit: float) -> tuple[Array, Array, str]:
    """Points along a law, its heights there per unit, and how to join them: in steps where each cell can be seen."""
    edges, pixel = _edges(law), (span[1] - span[0]) / WIDTH
    inside = (edges[(edges > span[0]) & (edges < span[1])] - span[0]) / pixel
    grid = span[0] + pixel * _visible(np.round(np.concatenate([[0.0], inside, [WIDTH]]), 6))
    below = np.interp(grid, edges, np.concatenate([[0.0], np.cumsum(law.mass)]))
    heights = np.diff(below) / np.diff(grid) * unit
    if np.diff(inside).min(initial=np.inf) >= 8:
        return grid, np.append(heights, heights[-1]), "step-after"
    return np.concatenate([span[:1], (grid[1:] + grid[:-1]) / 2, span[1:]]), np.pad(heights, 1, mode="edge"), "linear"


def _visible(edges: Array) -> Array:
    """Edges in pixels, those of cells thinner than a pixel moved out to whole ones: a thin peak keeps its area."""
    thin = np.diff(edges) < 1
    beside = np.append(thin, False) | np.append(False, thin)
    return np.unique(np.concatenate([edges[~beside], np.floor(edges[beside]), np.ceil(edges[beside])]))


def _edges(law: Posterior) -> Array:
    if law.edges is None:
        raise InvalidInput("only a law over numbers can be drawn along a line")
    return law.edges


def _bars(drawing: Drawing) -> list[Layer]:
    """Each law's probability of every category, side by side, and the raw answer marked."""
    shown, few = _shown(drawing), len(drawing.names) <= FEW
    rows = [
        {"name": label, "law": law, "p": p, "told": _percent(p)}
        for label, cells in shown.items()
        for law, p in ((law, float(of.mass[cells].sum())) for law, of in drawing.laws.items())
    ]
    axis = {"labelAngle": 0 if few else -40, "labelLimit": WIDTH // FEW if few else 120, "labelPadding": 6}
    x = _field("name", "nominal", title=_clean(drawing.across, 90), sort=list(shown), axis=axis | {"ticks": False})
    x |= {"scale": {"paddingInner": 0.3, "paddingOuter": 0.2}}
    y = _probability(
        "p", max(float(of.mass[cells].sum()) for of in drawing.laws.values() for cells in shown.values()), 52
    )
    places = {"x": x, "xOffset": _field("law", "nominal", sort=list(drawing.laws)), "y": y}
    bars = _layer(rows, {"type": "bar"}, **places, color=_told_apart(drawing, "bar"))
    shares = _layer(rows, {"type": "text", "dy": -7, "fontSize": 12, "color": INK}, **places, text={"field": "told"})
    return [bars, *([shares] if few else []), *_raw_name(drawing, shown)]


def _raw_name(drawing: Drawing, shown: Mapping[str, list[int]]) -> list[Layer]:
    """An arrow down to the category that was drawn, and what it is."""
    row = [{"name": label} for label, cells in shown.items() if [drawing.names[at] for at in cells] == [drawing.raw]]
    x = _field("name", "nominal", sort=list(shown))
    arrow = {"type": "point", "shape": "triangle-down", "filled": True, "color": ORANGE, "size": 110, "opacity": 1}
    words = {"type": "text", "text": "raw answer", "fontWeight": "bold", "fontSize": 12, "color": ORANGE}
    return [_layer(row, arrow, x=x, y={"value": 26}), _layer(row, words, x=x, y={"value": 10})] if row else []


def _shown(drawing: Drawing) -> dict[str, list[int]]:
    """The categories by their labels; beyond what has room, the raw answer, the likeliest, and all others together."""
    likely = np.max([law.mass for law in drawing.laws.values()], axis=0)
    order = sorted(range(len(likely)), key=lambda at: (drawing.names[at] != drawing.raw, -likely[at]))
    room = len(order) if len(order) <= MOST else MOST - 1
    shown: dict[str, list[int]] = {}
    for at in sorted(order[:room]):
        label = _clean(drawing.names[at], 60)
        shown[label if label not in shown else f"{label} ({at + 1})"] = [at]
    return shown | ({f"{len(order) - room:,} others": order[room:]} if room < len(order) else {})


def _percent(share: float) -> str:
    return format_percent(share, 3)


def _number(value: float, digits: int) -> str:
    """A number as people write it: 1,234.5."""
    text = format_decimals(value, digits) if abs(value) < LARGEST else format_number(value, VALUE_DIGITS)
    return _minus(text)


def _minus(text: str) -> str:
    """A printed number with a minus sign as long as a digit."""
    return f"\N{MINUS SIGN}{text[1:]}" if text.startswith("-") else text


def _clean(text: str, most: int) -> str:
    """Text on one line, without what a file of text cannot hold, cut to a length."""
    plain = " ".join("".join(sign if sign.isprintable() else " " for sign in text).split())
    return plain if len(plain) <= most else plain[: most - 1] + "…"
