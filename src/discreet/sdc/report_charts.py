"""Pictures of a release beside its original: columns before and after, correlations, risk against loss."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape

import numpy as np

from discreet.charts import BLUE, CONFIG, GRAY, INK, MISSING_PACKAGES, ORANGE, Layer, build_layer, clean_text
from discreet.errors import Unsupported
from discreet.formatting import format_decimals, format_percent
from discreet.priors.posterior import Array
from discreet.sdc.sweep import SweepResult
from discreet.sdc.table import Attribute

WIDTH, HEIGHT = 260, 170  # a picture fits a telephone without being made smaller
BIN_COUNT, MAX_CATEGORIES, MAX_MAPPED_COLUMNS = 40, 10, 16
TAIL_SHARE = 0.005
MAX_HALF_INTEGER = 2**51  # further out floats are too far apart
FILES = ("before", "after")
# Told apart by dash and shape as well as by colour, for eyes and printers without it.
COLORS = [BLUE, ORANGE, GRAY, INK]
DASHES = [[1, 0], [6, 4], [2, 2], [8, 3, 2, 3]]
SHAPES = ["circle", "square", "triangle-up", "diamond"]
LABEL_SPACING: Layer = {"labelOverlap": "greedy", "labelSeparation": 6, "labelFlush": False}
LEGEND: Layer = {"orient": "top", "offset": 2, "columnPadding": 14, "symbolStrokeWidth": 2, "symbolSize": 140}
DOT_LEGEND = LEGEND | {"symbolStrokeWidth": 0, "symbolSize": 60, "columns": 3}


@dataclass(frozen=True, slots=True)
class Chart:
    """One picture: its title, what it shows in a sentence, and how it is drawn, in Vega-Lite."""

    title: str
    sentence: str
    spec: Mapping[str, object]

    def to_svg(self) -> str:
        """The picture as it stands in a page; its sentence is read to those who do not see it."""
        try:
            import vl_convert
        except ImportError:
            raise Unsupported(MISSING_PACKAGES) from None
        title = {"text": clean_text(self.title, 44), "anchor": "start", "frame": "group", "fontSize": 14, "limit": 330}
        defaults = {"title": title, "config": CONFIG | {"aria": False}, "padding": 6, "width": WIDTH, "height": HEIGHT}
        image: str = vl_convert.vegalite_to_svg({**defaults, **self.spec})
        return image.replace("<svg ", f'<svg role="img" aria-label="{escape(clean_text(self.sentence, 600))}" ', 1)


def build_column_chart(before: Attribute, after: Attribute) -> Chart | None:
    """One column before and after; None where they are not values of one kind, as numbers and intervals are not."""
    if (before.kind == "numeric") != (after.kind == "numeric"):
        return None
    if before.kind != "numeric":
        return _build_share_chart(before, after)
    present = [column.values[~column.missing] for column in (before, after)]
    return _build_histogram_chart(before, *present) if all(map(len, present)) else None


def _build_histogram_chart(column: Attribute, before: Array, after: Array) -> Chart:
    edges = _compute_bin_edges(column, np.concatenate([before, after]))
    rows = []
    for file, values in zip(FILES, (before, after), strict=True):
        heights = np.histogram(values, edges)[0] / len(values)
        # The outline goes from the axis up, along, and down again.
        outline = [(float(edges[0]), 0.0), *zip(edges.tolist(), [*heights.tolist(), 0.0], strict=True)]
        rows += [{"x": x, "share": share, "file": file} for x, share in outline]
    axis: Layer = {"tickCount": 4, "format": "~s"}
    if column.value_type == "date":
        days = (edges[0] + np.array([1, 3, 5]) / 6 * (edges[-1] - edges[0])).round()  # whatever the font, with room
        axis = {"values": sorted(set(days.tolist())), "labelExpr": "utcFormat(datum.value * 86400000, '%Y-%m-%d')"}
    outside_share = float(np.mean((before < edges[0]) | (before > edges[-1])))
    note = f"{format_percent(outside_share, 3)} of the values before lie beyond" if outside_share else None
    domain: Layer = {"domain": [edges[0], edges[-1]], "nice": False}
    across = _build_field("x", "quantitative", title=note, axis=axis, scale=domain)
    places = {"x": across, "y": _build_percent_field("share")}
    step_style = {"interpolate": "step-after", "strokeWidth": 1.8}
    looks = {
        "color": _build_scale_field("file", FILES, [GRAY, BLUE]),
        "strokeDash": _build_scale_field("file", FILES, DASHES),
    }
    area = build_layer(rows[: len(edges) + 1], step_style | {"type": "area", "color": GRAY, "opacity": 0.25}, **places)
    shares = f"as shares of the rows{f'; {note}' if note else ''}"
    layers = [area, build_layer(rows, step_style | {"type": "line"}, **places, **looks)]
    return Chart(column.name, f"The distribution of {column.name} before and after, {shares}.", {"layer": layers})


def _compute_bin_edges(column: Attribute, values: Array) -> Array:
    """The edges of the common bins, without the outermost half per cents where these would be most of the line."""
    low, high = float(values.min()), float(values.max())
    inner = np.quantile(values, [TAIL_SHARE, 1 - TAIL_SHARE])
    if high - low > 3 * (inner[1] - inner[0]) > 0:
        low, high = inner.tolist()
    if high == low:
        margin = max(abs(low) / 100, 0.5)
        return np.array([low - margin, low + margin])
    present = column.values[~column.missing]
    if np.any(present != np.floor(present)) or np.any(np.abs(present) >= MAX_HALF_INTEGER):
        return np.linspace(low, high, BIN_COUNT + 1)
    # All bins have as many whole numbers, so that one with more of them does not look like one with more rows.
    low, high = math.floor(low), math.ceil(high)
    width = math.ceil((high - low + 1) / BIN_COUNT)
    return low - 0.5 + width * np.arange(math.ceil((high - low + 1) / width) + 1, dtype=np.float64)


def _build_share_chart(before: Attribute, after: Attribute) -> Chart:
    shares = {file: _compute_shares(column) for file, column in zip(FILES, (before, after), strict=True)}
    labels = _choose_labels(before, shares)
    rows = [
        {"name": label, "file": file, "share": sum(share[name] for name in names)}
        for file, share in shares.items()
        for label, names in labels.items()
    ]
    axis = {"labelLimit": 110, "ticks": False, "domain": False}
    places = {
        "y": _build_field("name", "nominal", sort=list(labels), axis=axis, scale={"paddingInner": 0.3}),
        "yOffset": _build_field("file", "nominal", sort=FILES),
        "x": _build_percent_field("share"),
        "color": _build_scale_field("file", FILES, ["#c3c8d0", BLUE]),
    }
    sentence = f"The share of each category of {before.name} before and after."
    spec = build_layer(rows, {"type": "bar"}, **places) | {"width": WIDTH - 80, "height": max(26 * len(labels), 60)}
    return Chart(before.name, sentence, spec)


def _compute_shares(column: Attribute) -> Counter[str]:
    """The share of each value, by what it is called."""
    counts = np.bincount(column.values + 1, minlength=len(column.categories) + 1) / max(len(column.values), 1)
    names = ("(missing)", *column.categories)
    return Counter({name: share for name, share in zip(names, counts.tolist(), strict=True) if share})


def _choose_labels(column: Attribute, shares: Mapping[str, Counter[str]]) -> dict[str, list[str]]:
    """The labels with room, by size or in the column's own order, and all others together."""
    greatest_shares = Counter[str]()
    for share in shares.values():
        greatest_shares |= share
    names = sorted(greatest_shares, key=lambda name: (-greatest_shares[name], name))
    room = len(names) if len(names) <= MAX_CATEGORIES else MAX_CATEGORIES - 1
    places = {name: place for place, name in enumerate(column.categories)}
    first = names[:room] if column.kind == "nominal" else sorted(names[:room], key=lambda name: places.get(name, 1e9))
    names_of_label: dict[str, list[str]] = {}
    for number, name in enumerate(first, 1):
        label = clean_text(name, 30)
        names_of_label[label if label not in names_of_label else f"{label} ({number})"] = [name]
    return names_of_label | ({f"{len(names) - room:,} others": names[room:]} if room < len(names) else {})


def build_correlation_charts(names: Sequence[str], before: Array, after: Array) -> tuple[Chart, ...]:
    """Heat maps of the correlations before, after, and of the change; none for a single column."""
    if len(names) < 2:
        return ()
    first_columns = slice(MAX_MAPPED_COLUMNS)
    before, after = np.asarray(before)[first_columns, first_columns], np.asarray(after)[first_columns, first_columns]
    change = after - before
    end = max(float(np.nanmax(np.abs(change), initial=0.0)), 0.1)
    panels = (("Correlations before", before, 1.0), ("Correlations after", after, 1.0), ("Their change", change, end))
    return tuple(_build_heat_map(title, names[first_columns], values, end) for title, values, end in panels)


def _build_heat_map(title: str, names: Sequence[str], values: Array, end: float) -> Chart:
    """A square for each pair of columns, its value in hundredths; columns are named at the left, numbered on top."""
    labels = [f"{clean_text(name, 14)} {number}" for number, name in enumerate(names, 1)]
    rows = [
        {"down": labels[i], "across": str(j + 1), "value": value, "told": format_decimals(100 * value, 0)}
        for (i, j), value in np.ndenumerate(values)
        if math.isfinite(value)
    ]
    label_axis = {"ticks": False, "labelLimit": 110, "labelFontSize": 10}
    places = {
        "y": _build_field("down", "nominal", sort=labels, axis=label_axis),
        "x": _build_field("across", "nominal", sort=None, axis={"orient": "top", "labelAngle": 0, "labelFontSize": 10}),
    }
    scale = {"domain": [-end, 0, end], "range": [ORANGE, "white", BLUE], "interpolate": "rgb"}
    squares = {"color": _build_field("value", "quantitative", scale=scale, legend=None)}
    dark = {"condition": {"test": f"abs(datum.value) > {0.6 * end}", "value": "white"}, "value": INK}
    text = {"type": "text", "fontSize": 9 if len(names) > 10 else 11}
    layers = [
        build_layer(rows, {"type": "rect"}, **places, **squares),
        build_layer(rows, text, **places, text={"field": "told"}, color=dark),
    ]
    side = min(max(20 * len(names), 120), WIDTH)
    sentence = f"{title}, in hundredths, of {', '.join(names)}."
    return Chart(title, sentence, {"layer": layers, "width": side, "height": side})


def build_sweep_charts(result: SweepResult) -> tuple[Chart, ...]:
    """Loss against risk, and each of them over k; the recommended point, or the nearest, is ringed."""
    ks = sorted({point.k for point in result.points})
    ends = _build_field("k", "quantitative", title="k", axis=LABEL_SPACING | {"values": ks})
    size = ends | {"scale": {"type": "log", "domain": [ks[0], max(ks[-1], ks[0] + 1)], "nice": False}}
    risk = _build_percent_field("risk") | {"title": "risk above chance"}
    loss = _build_field("loss", "quantitative", title="loss (over 1: grave)")
    choice = "recommended" if result.useful else "nearest to safe and useful"
    best = f"{result.recommended.method} at k = {result.recommended.k}, ringed, is {choice}"
    panels = (("Loss against risk", risk, loss), ("Risk over k", size, risk), ("Loss over k", size, loss))
    return tuple(
        Chart(title, f"{title} for every method; {best}.", {"layer": _build_curves(result, x, y)})
        for title, x, y in panels
    )


def _build_curves(result: SweepResult, x: Layer, y: Layer) -> list[Layer]:
    """A line for each method, its points joined in the order of k."""
    rows = [point.to_json() for point in result.points]
    methods = list(dict.fromkeys(point.method for point in result.points))
    places = {"x": x, "y": y, "color": _build_scale_field("method", methods, COLORS, DOT_LEGEND)}
    dashes = {
        "order": _build_field("k", "quantitative"),
        "strokeDash": _build_scale_field("method", methods, DASHES, legend=None),
    }
    dots = {"type": "point", "filled": True, "size": 36, "opacity": 1}
    ring = {"type": "point", "size": 260, "color": INK, "strokeWidth": 2, "shape": "circle", "opacity": 1}
    return [
        build_layer(rows, {"type": "line"}, **places, **dashes),
        build_layer(rows, dots, **places, shape=_build_scale_field("method", methods, SHAPES, DOT_LEGEND)),
        build_layer([result.recommended.to_json()], ring, x=x, y=y),
    ]


def _build_field(name: str, kind: str, **options: object) -> Layer:
    return {"field": name, "type": kind, "title": None, **options}


def _build_percent_field(name: str) -> Layer:
    axis = LABEL_SPACING | {"tickCount": 4, "labelExpr": "format(100 * datum.value, '.3~r') + ' %'"}
    return _build_field(name, "quantitative", axis=axis)


def _build_scale_field(
    name: str, values: Sequence[str], looks: Sequence[object], legend: Layer | None = LEGEND
) -> Layer:
    """One look of each of these values, all in one legend on top."""
    scale = {"domain": list(values), "range": list(looks[: len(values)])}
    return _build_field(name, "nominal", scale=scale, legend=legend)
