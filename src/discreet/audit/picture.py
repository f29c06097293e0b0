"""A picture of an audit: what the mechanism answers with either data set, and the event that tells them apart."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from discreet.audit.bound import clopper_pearson
from discreet.audit.features import Numbers
from discreet.pictures import BLUE, CONFIG, GREY, HEIGHT, INK, ORANGE, WIDTH, check_path, save_spec

if TYPE_CHECKING:
    from discreet.audit.auditing import Audit, Seen

Layer = dict[str, Any]

BINS = 60
TAIL = 0.001
MOST_SHADED = 200
# Told apart by dash as well as by colour, for eyes and printers without it.
LOOKS = {"D": (BLUE, [1, 0]), "D2": (ORANGE, [6, 4])}
PERCENT = {"tickCount": 5, "labelExpr": "format(100 * datum.value, '.3~r') + ' %'"}


def save(audit: Audit, path: str | Path) -> Path:
    """Draw to an .svg, .png or .html file, whole or not at all."""
    check_path(path)
    return save_spec(picture_spec(audit), path)


def picture_spec(audit: Audit) -> dict[str, Any]:
    """The picture in Vega-Lite: two outlines along one line with the event shaded, or two bars where there is none."""
    layers = _layers(audit)
    title = {"text": "Answers with either data set, and the event", "anchor": "start", "frame": "group", "fontSize": 15}
    told = {"title": title, "description": _caption(audit, layers), "config": CONFIG, "padding": 14}
    told |= {"width": WIDTH, "height": HEIGHT, "usermeta": {"labels": "level"}}
    return told | {"layer": layers}


def _layers(audit: Audit) -> list[Layer]:
    axis = audit.seen.found.feature.axis
    sides = [] if axis is None else [axis(keys) for keys in audit.seen.keys]
    finite = [numbers[np.isfinite(numbers)] for numbers in sides]
    return _outlines(audit.seen, *finite) if finite and all(map(len, finite)) else _bars(audit)


def _caption(audit: Audit, layers: list[Layer]) -> str:
    """What was found, and what is shaded."""
    if layers[0]["mark"]["type"] != "rect" or not layers[0]["data"]["values"]:
        return audit.sentence()
    return f"{audit.sentence()} Shaded is {'that event' if audit.violated else f'the event: {audit.event.words}'}."


def _outlines(seen: Seen, one: Numbers, two: Numbers) -> list[Layer]:
    """The histograms of both over the same bins, in front of the event."""
    together = np.concatenate([one, two])
    edges = _edges(together)
    rows = [
        {"x": x, "share": share, "data": name}
        for name, numbers in zip(LOOKS, (one, two), strict=True)
        for x, share in _steps(edges, np.histogram(numbers, edges)[0] / len(numbers))
    ]
    span = [float(edges[0]), float(edges[-1])]
    across = {
        "type": "quantitative",
        "title": seen.found.feature.name[:90].rstrip(", "),
        "scale": {"domain": span, "nice": False},
    }
    up = {"field": "share", "type": "quantitative", "title": "probability", "axis": PERCENT}
    line = {"type": "line", "interpolate": "step-after", "strokeWidth": 2}
    places = {"x": across | {"field": "x"}, "y": up, "color": _look(0), "strokeDash": _look(1)}
    shade = [{"from": low, "to": high} for low, high in _shaded(seen, span, _whole(together))]
    ends = {"x": across | {"field": "from"}, "x2": {"field": "to"}}
    band = {"mark": {"type": "rect", "color": GREY, "opacity": 0.22}, "encoding": ends}
    return [{"data": {"values": shade}} | band, {"data": {"values": rows}, "mark": line, "encoding": places}]


def _edges(numbers: Numbers) -> Numbers:
    """The edges of the common bins, without the outermost thousandths; whole numbers have a bin each, or as many."""
    low, high = _ends(numbers)
    if _whole(numbers):
        width = max(-(-int(high - low + 1) // BINS), 1)
        return np.arange(low - 0.5, high + width + 0.5, width)
    around = 0.0 if high > low else max(abs(low) / 100, 0.5)
    return np.linspace(low - around, high + around, BINS + 1)


def _whole(numbers: Numbers) -> bool:
    """Whether they are whole numbers, and those that are shown small enough for half of one to count."""
    return bool((numbers == np.floor(numbers)).all()) and max(map(abs, _ends(numbers))) < 2**50


def _ends(numbers: Numbers) -> tuple[float, float]:
    """Without the outermost thousandths."""
    low, high = np.quantile(numbers, [TAIL, 1 - TAIL], method="nearest").tolist()
    return low, high


def _steps(edges: Numbers, heights: Numbers) -> list[tuple[float, float]]:
    """The outline from the axis up, along, and down again."""
    return [(float(edges[0]), 0.0), *zip(edges.tolist(), [*heights.tolist(), 0.0], strict=True)]


def _shaded(seen: Seen, span: list[float], whole: bool) -> list[tuple[float, float]]:
    """The event along the line; a whole number t goes from t - 1/2 to t + 1/2, as its bin does."""
    spans = seen.found.spans()
    limits = [(_limit(seen, low, span[0], whole), _limit(seen, high, span[1], whole)) for low, high in spans]
    inside = [(max(low, span[0]), min(high, span[1])) for low, high in limits]
    return [(low, high) for low, high in inside if low < high][:MOST_SHADED]


def _limit(seen: Seen, key: int | None, end: float, whole: bool) -> float:
    axis = seen.found.feature.axis
    if key is None or axis is None:
        return end
    at = float(axis(np.array([key]))[0])
    if not np.isfinite(at):
        return end
    return math.ceil(at) - 0.5 if whole else at


def _bars(audit: Audit) -> list[Layer]:
    """How often the event was seen with either data set, with the limits that the bound is made of."""
    event, miss = audit.event, float(1 - audit.confidence) / 2
    names = (event.likelier, "D2" if event.likelier == "D" else "D")
    rows = []
    for name, count in zip(names, (event.count, event.other_count), strict=True):
        low, high = clopper_pearson(count, event.draws, miss)
        rows.append({"data": name, "share": count / event.draws, "low": low, "high": high})
    along = {"field": "data", "type": "nominal", "title": None, "sort": list(LOOKS), "axis": {"labelAngle": 0}}
    up = {"type": "quantitative", "title": "probability of the event", "axis": PERCENT}
    bar = {"mark": {"type": "bar", "opacity": 0.6}, "encoding": {"x": along, "y": up | {"field": "share"}}}
    bar["encoding"] |= {"color": _look(0) | {"legend": None}}
    ends = {"x": along, "y": up | {"field": "low"}, "y2": {"field": "high"}}
    rule = {"mark": {"type": "rule", "color": INK, "strokeWidth": 2}, "encoding": ends}
    return [{"data": {"values": rows}} | bar, {"data": {"values": rows}} | rule]


def _look(at: int) -> Layer:
    """The colour or the dash of each data set, in one legend on top."""
    scale = {"domain": list(LOOKS), "range": [look[at] for look in LOOKS.values()]}
    legend = {"orient": "top", "symbolSize": 250, "symbolStrokeWidth": 2, "offset": 6}
    return {"field": "data", "type": "nominal", "title": None, "scale": scale, "legend": legend}
