"""A picture of an audit: what the mechanism answers with either data set, and the event that tells them apart."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from discreet.audit.bound import compute_clopper_pearson
from discreet.audit.features import Numbers
from discreet.pictures import BLUE, CONFIG, GRAY, HEIGHT, INK, ORANGE, WIDTH, check_picture_path, save_spec

if TYPE_CHECKING:
    from discreet.audit.auditing import Audit, AuditEvidence

Layer = dict[str, Any]

BINS = 60
TAIL = 0.001
MAX_SHADED = 200
# Told apart by dash as well as by colour, for eyes and printers without it.
DATA_SET_STYLES = {"D": (BLUE, [1, 0]), "D2": (ORANGE, [6, 4])}
PERCENT_AXIS = {"tickCount": 5, "labelExpr": "format(100 * datum.value, '.3~r') + ' %'"}


def save_audit_picture(audit: Audit, path: str | Path) -> Path:
    """Draw to an .svg, .png or .html file, whole or not at all."""
    check_picture_path(path)
    return save_spec(build_audit_picture(audit), path)


def build_audit_picture(audit: Audit) -> dict[str, Any]:
    """The picture in Vega-Lite: two outlines along one line with the event shaded, or two bars where there is none."""
    layers = _build_layers(audit)
    title = {"text": "Answers with either data set, and the event", "anchor": "start", "frame": "group", "fontSize": 15}
    spec = {"title": title, "description": _format_caption(audit, layers), "config": CONFIG, "padding": 14}
    spec |= {"width": WIDTH, "height": HEIGHT, "usermeta": {"labels": "level"}}
    return spec | {"layer": layers}


def _build_layers(audit: Audit) -> list[Layer]:
    axis = audit.evidence.candidate.feature.axis
    sides = [] if axis is None else [axis(keys) for keys in audit.evidence.keys]
    finite = [numbers[np.isfinite(numbers)] for numbers in sides]
    return _build_outlines(audit.evidence, *finite) if finite and all(map(len, finite)) else _build_bars(audit)


def _format_caption(audit: Audit, layers: list[Layer]) -> str:
    """What was found, and what is shaded."""
    if layers[0]["mark"]["type"] != "rect" or not layers[0]["data"]["values"]:
        return audit.sentence()
    return f"{audit.sentence()} Shaded is {'that event' if audit.violated else f'the event: {audit.event.words}'}."


def _build_outlines(evidence: AuditEvidence, first: Numbers, second: Numbers) -> list[Layer]:
    """The histograms of both over the same bins, in front of the event."""
    all_numbers = np.concatenate([first, second])
    edges = _build_bin_edges(all_numbers)
    rows = [
        {"x": x, "share": share, "data": name}
        for name, numbers in zip(DATA_SET_STYLES, (first, second), strict=True)
        for x, share in _build_steps(edges, np.histogram(numbers, edges)[0] / len(numbers))
    ]
    span = [float(edges[0]), float(edges[-1])]
    x_axis = {
        "type": "quantitative",
        "title": evidence.candidate.feature.name[:90].rstrip(", "),
        "scale": {"domain": span, "nice": False},
    }
    y_axis = {"field": "share", "type": "quantitative", "title": "probability", "axis": PERCENT_AXIS}
    line = {"type": "line", "interpolate": "step-after", "strokeWidth": 2}
    places = {"x": x_axis | {"field": "x"}, "y": y_axis, "color": _build_style(0), "strokeDash": _build_style(1)}
    shade = [
        {"from": low, "to": high} for low, high in _list_shaded_ranges(evidence, span, _are_plotted_whole(all_numbers))
    ]
    ends = {"x": x_axis | {"field": "from"}, "x2": {"field": "to"}}
    band = {"mark": {"type": "rect", "color": GRAY, "opacity": 0.22}, "encoding": ends}
    return [{"data": {"values": shade}} | band, {"data": {"values": rows}, "mark": line, "encoding": places}]


def _build_bin_edges(numbers: Numbers) -> Numbers:
    """The edges of the common bins, without the outermost thousandths; whole numbers have a bin each, or as many."""
    low, high = _find_plot_ends(numbers)
    if _are_plotted_whole(numbers):
        width = max(-(-int(high - low + 1) // BINS), 1)
        return np.arange(low - 0.5, high + width + 0.5, width)
    margin = 0.0 if high > low else max(abs(low) / 100, 0.5)
    return np.linspace(low - margin, high + margin, BINS + 1)


def _are_plotted_whole(numbers: Numbers) -> bool:
    """Whether they are whole numbers, and those that are shown small enough for half of one to count."""
    return bool((numbers == np.floor(numbers)).all()) and max(map(abs, _find_plot_ends(numbers))) < 2**50


def _find_plot_ends(numbers: Numbers) -> tuple[float, float]:
    """Without the outermost thousandths."""
    low, high = np.quantile(numbers, [TAIL, 1 - TAIL], method="nearest").tolist()
    return low, high


def _build_steps(edges: Numbers, heights: Numbers) -> list[tuple[float, float]]:
    """The outline from the axis up, along, and down again."""
    return [(float(edges[0]), 0.0), *zip(edges.tolist(), [*heights.tolist(), 0.0], strict=True)]


def _list_shaded_ranges(evidence: AuditEvidence, span: list[float], is_whole: bool) -> list[tuple[float, float]]:
    """The event along the line; a whole number t goes from t - 1/2 to t + 1/2, as its bin does."""
    spans = evidence.candidate.list_spans()
    limits = [
        (_find_limit(evidence, low, span[0], is_whole), _find_limit(evidence, high, span[1], is_whole))
        for low, high in spans
    ]
    inside = [(max(low, span[0]), min(high, span[1])) for low, high in limits]
    return [(low, high) for low, high in inside if low < high][:MAX_SHADED]


def _find_limit(evidence: AuditEvidence, key: int | None, end: float, is_whole: bool) -> float:
    axis = evidence.candidate.feature.axis
    if key is None or axis is None:
        return end
    position = float(axis(np.array([key]))[0])
    if not np.isfinite(position):
        return end
    return math.ceil(position) - 0.5 if is_whole else position


def _build_bars(audit: Audit) -> list[Layer]:
    """How often the event was seen with either data set, with the limits that the bound is made of."""
    event, miss = audit.event, float(1 - audit.confidence) / 2
    names = (event.likelier, "D2" if event.likelier == "D" else "D")
    rows = []
    for name, count in zip(names, (event.count, event.other_count), strict=True):
        low, high = compute_clopper_pearson(count, event.draws, miss)
        rows.append({"data": name, "share": count / event.draws, "low": low, "high": high})
    x_axis = {
        "field": "data",
        "type": "nominal",
        "title": None,
        "sort": list(DATA_SET_STYLES),
        "axis": {"labelAngle": 0},
    }
    y_axis = {"type": "quantitative", "title": "probability of the event", "axis": PERCENT_AXIS}
    bar = {"mark": {"type": "bar", "opacity": 0.6}, "encoding": {"x": x_axis, "y": y_axis | {"field": "share"}}}
    bar["encoding"] |= {"color": _build_style(0) | {"legend": None}}
    ends = {"x": x_axis, "y": y_axis | {"field": "low"}, "y2": {"field": "high"}}
    rule = {"mark": {"type": "rule", "color": INK, "strokeWidth": 2}, "encoding": ends}
    return [{"data": {"values": rows}} | bar, {"data": {"values": rows}} | rule]


def _build_style(index: int) -> Layer:
    """The colour or the dash of each data set, in one legend on top."""
    scale = {"domain": list(DATA_SET_STYLES), "range": [style[index] for style in DATA_SET_STYLES.values()]}
    legend = {"orient": "top", "symbolSize": 250, "symbolStrokeWidth": 2, "offset": 6}
    return {"field": "data", "type": "nominal", "title": None, "scale": scale, "legend": legend}
