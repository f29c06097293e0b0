"""Pictures of a release beside its original: columns before and after, correlations, risk against loss."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

import numpy as np

from discreet.assess.sweep import Sweep
from discreet.errors import Unsupported
from discreet.formatting import format_decimals, format_percent
from discreet.microdata.table import Attribute
from discreet.pictures import BLUE, CONFIG, GREY, INK, MISSING, ORANGE
from discreet.posterior import Array

Layer = dict[str, Any]

WIDTH, HEIGHT = 260, 170  # a picture fits a telephone without being made smaller
BINS, CATEGORIES, MAPPED = 40, 10, 16
TAIL = 0.005
HALVES = 2**51  # further out floats are too far apart
FILES = ("before", "after")
# Told apart by dash and shape as well as by colour, for eyes and printers without it.
COLOURS, DASHES, SHAPES = (
    [BLUE, ORANGE, GREY, INK],
    [[1, 0], [6, 4], [2, 2], [8, 3, 2, 3]],
    ["circle", "square", "triangle-up", "diamond"],
)
APART: Layer = {"labelOverlap": "greedy", "labelSeparation": 6, "labelFlush": False}
LEGEND: Layer = {"orient": "top", "offset": 2, "columnPadding": 14, "symbolStrokeWidth": 2, "symbolSize": 140}
DOTS = LEGEND | {"symbolStrokeWidth": 0, "symbolSize": 60, "columns": 3}


@dataclass(frozen=True, slots=True)
class Chart:
    """One picture: its title, what it shows in a sentence, and how it is drawn, in Vega-Lite."""

    title: str
    sentence: str
    spec: Mapping[str, Any]

    def svg(self) -> str:
        """The picture as it stands in a page; its sentence is read to those who do not see it."""
        try:
            import vl_convert
        except ImportError:
            raise Unsupported(MISSING) from None
        title = {"text": clean(self.title, 44), "anchor": "start", "frame": "group", "fontSize": 14, "limit": 330}
        told = {"title": title, "config": CONFIG | {"aria": False}, "padding": 6, "width": WIDTH, "height": HEIGHT}
        drawn: str = vl_convert.vegalite_to_svg({**told, **self.spec})
        return drawn.replace("<svg ", f'<svg role="img" aria-label="{escape(clean(self.sentence, 600))}" ', 1)


def clean(text: str, most: int) -> str:
    """Text on one line, without what a page cannot hold, cut to a length."""
    plain = " ".join("".join(sign if sign.isprintable() else " " for sign in text).split())
    return plain if len(plain) <= most else plain[: most - 1] + "…"


def column_chart(before: Attribute, after: Attribute) -> Chart | None:
    """One column before and after; None where they are not values of one kind, as numbers and intervals are not."""
    if (before.kind == "numeric") != (after.kind == "numeric"):
        return None
    if before.kind != "numeric":
        return _shares(before, after)
    present = [each.values[~each.missing] for each in (before, after)]
    return _outlines(before, *present) if all(map(len, present)) else None


def _outlines(column: Attribute, before: Array, after: Array) -> Chart:
    """The histograms of both over the same bins."""
    edges = _edges(column, np.concatenate([before, after]))
    rows = [
        {"x": x, "share": share, "file": file}
        for file, values in zip(FILES, (before, after), strict=True)
        for x, share in _steps(edges, np.histogram(values, edges)[0] / len(values))
    ]
    axis: Layer = {"tickCount": 4, "format": "~s"}
    if column.look == "date":
        days = (edges[0] + np.array([1, 3, 5]) / 6 * (edges[-1] - edges[0])).round()  # whatever the font, with room
        axis = {"values": sorted(set(days.tolist())), "labelExpr": "utcFormat(datum.value * 86400000, '%Y-%m-%d')"}
    beyond = float(np.mean((before < edges[0]) | (before > edges[-1])))
    note = f"{format_percent(beyond, 3)} of the values before lie beyond" if beyond else None
    across = _field("x", "quantitative", title=note, axis=axis, scale={"domain": [edges[0], edges[-1]], "nice": False})
    places = {"x": across, "y": _percent("share")}
    stepped = {"interpolate": "step-after", "strokeWidth": 1.8}
    looks = {"color": _look("file", FILES, [GREY, BLUE]), "strokeDash": _look("file", FILES, DASHES)}
    area = _layer(rows[: len(edges) + 1], stepped | {"type": "area", "color": GREY, "opacity": 0.25}, **places)
    sentence = (
        f"The distribution of {column.name} before and after, as shares of the rows{f'; {note}' if note else ''}."
    )
    return Chart(column.name, sentence, {"layer": [area, _layer(rows, stepped | {"type": "line"}, **places, **looks)]})


def _edges(column: Attribute, values: Array) -> Array:
    """The edges of the common bins, without the outermost half per cents where these would be most of the line."""
    low, high = float(values.min()), float(values.max())
    inner = np.quantile(values, [TAIL, 1 - TAIL])
    if high - low > 3 * (inner[1] - inner[0]) > 0:
        low, high = inner.tolist()
    if high == low:
        around = max(abs(low) / 100, 0.5)
        return np.array([low - around, low + around])
    return _whole_edges(math.floor(low), math.ceil(high)) if _whole(column) else np.linspace(low, high, BINS + 1)


def _whole(column: Attribute) -> bool:
    """Whether all values, as those of dates, are whole, and halves between them are numbers too."""
    values = column.values[~column.missing]
    return bool(np.all(values == np.floor(values)) and np.all(np.abs(values) < HALVES))


def _whole_edges(low: int, high: int) -> Array:
    """Bins that all have as many whole numbers, so that one with more of them does not look like one with more rows."""
    width = math.ceil((high - low + 1) / BINS)
    return low - 0.5 + width * np.arange(math.ceil((high - low + 1) / width) + 1, dtype=np.float64)


def _steps(edges: Array, heights: Array) -> list[tuple[float, float]]:
    """The outline from the axis up, along, and down again."""
    return [(float(edges[0]), 0.0), *zip(edges.tolist(), [*heights.tolist(), 0.0], strict=True)]


def _shares(before: Attribute, after: Attribute) -> Chart:
    """A bar for each category of both."""
    shares = {file: _share_of(each) for file, each in zip(FILES, (before, after), strict=True)}
    shown = _shown(before, shares)
    rows = [
        {"name": label, "file": file, "share": sum(share[name] for name in names)}
        for file, share in shares.items()
        for label, names in shown.items()
    ]
    axis = {"labelLimit": 110, "ticks": False, "domain": False}
    places = {
        "y": _field("name", "nominal", sort=list(shown), axis=axis, scale={"paddingInner": 0.3}),
        "yOffset": _field("file", "nominal", sort=FILES),
        "x": _percent("share"),
        "color": _look("file", FILES, ["#c3c8d0", BLUE]),
    }
    sentence = f"The share of each category of {before.name} before and after."
    spec = _layer(rows, {"type": "bar"}, **places) | {"width": WIDTH - 80, "height": max(26 * len(shown), 60)}
    return Chart(before.name, sentence, spec)


def _share_of(column: Attribute) -> Counter[str]:
    """The share of each value, by what it is called."""
    counts = np.bincount(column.values + 1, minlength=len(column.categories) + 1) / max(len(column.values), 1)
    names = ("(missing)", *column.categories)
    return Counter({name: share for name, share in zip(names, counts.tolist(), strict=True) if share})


def _shown(column: Attribute, shares: Mapping[str, Counter[str]]) -> dict[str, list[str]]:
    """The labels with room, by size or in the column's own order, and all others together."""
    most = Counter[str]()
    for share in shares.values():
        most |= share
    names = sorted(most, key=lambda name: (-most[name], name))
    room = len(names) if len(names) <= CATEGORIES else CATEGORIES - 1
    places = {name: place for place, name in enumerate(column.categories)}
    first = names[:room] if column.kind == "nominal" else sorted(names[:room], key=lambda name: places.get(name, 1e9))
    shown: dict[str, list[str]] = {}
    for at, name in enumerate(first, 1):
        label = clean(name, 30)
        shown[label if label not in shown else f"{label} ({at})"] = [name]
    return shown | ({f"{len(names) - room:,} others": names[room:]} if room < len(names) else {})


def correlation_charts(names: Sequence[str], before: Array, after: Array) -> tuple[Chart, ...]:
    """Heat maps of the correlations before, after, and of the change; none for a single column."""
    if len(names) < 2:
        return ()
    few = slice(MAPPED)
    before, after = np.asarray(before)[few, few], np.asarray(after)[few, few]
    change = after - before
    end = max(float(np.nanmax(np.abs(change), initial=0.0)), 0.1)
    told = (("Correlations before", before, 1.0), ("Correlations after", after, 1.0), ("Their change", change, end))
    return tuple(_heat_map(title, names[few], values, end) for title, values, end in told)


def _heat_map(title: str, names: Sequence[str], values: Array, end: float) -> Chart:
    """A square for each pair of columns, its value in hundredths; columns are named at the left, numbered on top."""
    labels = [f"{clean(name, 14)} {at}" for at, name in enumerate(names, 1)]
    rows = [
        {"down": labels[i], "across": str(j + 1), "value": value, "told": format_decimals(100 * value, 0)}
        for (i, j), value in np.ndenumerate(values)
        if math.isfinite(value)
    ]
    places = {
        "y": _field("down", "nominal", sort=labels, axis={"ticks": False, "labelLimit": 110, "labelFontSize": 10}),
        "x": _field("across", "nominal", sort=None, axis={"orient": "top", "labelAngle": 0, "labelFontSize": 10}),
    }
    scale = {"domain": [-end, 0, end], "range": [ORANGE, "white", BLUE], "interpolate": "rgb"}
    squares = {"color": _field("value", "quantitative", scale=scale, legend=None)}
    dark = {"condition": {"test": f"abs(datum.value) > {0.6 * end}", "value": "white"}, "value": INK}
    text = {"type": "text", "fontSize": 9 if len(names) > 10 else 11}
    layers = [
        _layer(rows, {"type": "rect"}, **places, **squares),
        _layer(rows, text, **places, text={"field": "told"}, color=dark),
    ]
    side = min(max(20 * len(names), 120), WIDTH)
    sentence = f"{title}, in hundredths, of {', '.join(names)}."
    return Chart(title, sentence, {"layer": layers, "width": side, "height": side})


def sweep_charts(swept: Sweep) -> tuple[Chart, ...]:
    """Loss against risk, and each of them over k; the recommended point, or the nearest, is ringed."""
    ks = sorted({point.k for point in swept.points})
    ends = _field("k", "quantitative", title="k", axis=APART | {"values": ks})
    size = ends | {"scale": {"type": "log", "domain": [ks[0], max(ks[-1], ks[0] + 1)], "nice": False}}
    risk, loss = (
        _percent("risk") | {"title": "risk above chance"},
        _field("loss", "quantitative", title="loss (over 1: grave)"),
    )
    best = f"{swept.recommended.method} at k = {swept.recommended.k}, ringed, is {_chosen(swept)}"
    told = (("Loss against risk", risk, loss), ("Risk over k", size, risk), ("Loss over k", size, loss))
    return tuple(
        Chart(title, f"{title} for every method; {best}.", {"layer": _curves(swept, x, y)}) for title, x, y in told
    )


def _chosen(swept: Sweep) -> str:
    return "recommended" if swept.useful else "nearest to safe and useful"


def _curves(swept: Sweep, x: Layer, y: Layer) -> list[Layer]:
    """A line for each method, its points joined in the order of k."""
    rows = [point.to_json() for point in swept.points]
    methods = list(dict.fromkeys(point.method for point in swept.points))
    places = {"x": x, "y": y, "color": _look("method", methods, COLOURS, DOTS)}
    dashes = {"order": _field("k", "quantitative"), "strokeDash": _look("method", methods, DASHES, legend=None)}
    dots = {"type": "point", "filled": True, "size": 36, "opacity": 1}
    ring = {"type": "point", "size": 260, "color": INK, "strokeWidth": 2, "shape": "circle", "opacity": 1}
    return [
        _layer(rows, {"type": "line"}, **places, **dashes),
        _layer(rows, dots, **places, shape=_look("method", methods, SHAPES, DOTS)),
        _layer([swept.recommended.to_json()], ring, x=x, y=y),
    ]


def _layer(rows: Sequence[Mapping[str, Any]], mark: Layer, **encoding: Layer) -> Layer:
    return {"data": {"values": rows}, "mark": mark, "encoding": encoding}


def _field(name: str, kind: str, **more: object) -> Layer:
    return {"field": name, "type": kind, "title": None, **more}


def _percent(name: str) -> Layer:
    axis = APART | {"tickCount": 4, "labelExpr": "format(100 * datum.value, '.3~r') + ' %'"}
    return _field(name, "quantitative", axis=axis)


def _look(name: str, values: Sequence[str], looks: Sequence[object], legend: Layer | None = LEGEND) -> Layer:
    """One look of each of these values, all in one legend on top."""
    scale = {"domain": list(values), "range": list(looks[: len(values)])}
    return _field(name, "nominal", scale=scale, legend=legend)
