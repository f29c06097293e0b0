"""A histogram as a picture: a bar for each block of bins, with the interval that holds its exact count."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from discreet.errors import InvalidInput

BAR_COLOR, INTERVAL_COLOR = "#0a5fb4", "#111827"


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

    def build_layers(self) -> list[dict[str, Any]]:
        """The bars, and a line from end to end of each interval, in Vega-Lite."""
        ends = zip(self.edges, self.edges[1:], self.counts, self.intervals, strict=False)
        rows = [
            {"from": low, "to": high, "middle": (low + high) / 2, "count": count, "low": least, "high": most}
            for low, high, count, (least, most) in ends
        ]
        domain = [self.edges[0], self.edges[-1]]
        axis: dict[str, Any] = {"tickCount": 8, "titlePadding": 8}
        if self.dates:
            axis |= {"tickCount": 5, "labelExpr": "utcFormat(datum.value * 86400000, '%Y-%m-%d')"}
        x_axis = {
            "type": "quantitative",
            "title": self.axis_title[:90],
            "scale": {"domain": domain, "nice": False},
            "axis": axis,
        }
        y_axis = {"type": "quantitative", "title": "rows", "axis": {"tickCount": 5, "format": ",~r"}}
        data = {"values": rows}
        bar_layer = {
            "mark": {"type": "rect", "color": BAR_COLOR, "opacity": 0.45, "stroke": BAR_COLOR, "strokeWidth": 0.5},
            "encoding": {
                "x": x_axis | {"field": "from"},
                "x2": {"field": "to"},
                "y": y_axis | {"field": "count"},
                "y2": {"datum": 0},
            },
        }
        interval_layer = {
            "mark": {"type": "rule", "color": INTERVAL_COLOR, "strokeWidth": 1},
            "encoding": {"x": x_axis | {"field": "middle"}, "y": y_axis | {"field": "low"}, "y2": {"field": "high"}},
        }
        return [{"data": data} | bar_layer, {"data": data} | interval_layer]
