"""A histogram as a picture: a bar for each block of bins, with the interval that holds its exact count."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from discreet.errors import InvalidInput

BLUE, INK = "#0a5fb4", "#111827"


@dataclass(frozen=True)
class Bars:
    """Counts between neighbouring edges, which are numbers, or days since 1970-01-01 where `dates`."""

    title: str
    across: str
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

    def layers(self) -> list[dict[str, Any]]:
        """The bars, and a line from end to end of each interval, in Vega-Lite."""
        ends = zip(self.edges, self.edges[1:], self.counts, self.intervals, strict=False)
        rows = [
            {"from": low, "to": high, "middle": (low + high) / 2, "count": count, "low": least, "high": most}
            for low, high, count, (least, most) in ends
        ]
        span = [self.edges[0], self.edges[-1]]
        axis: dict[str, Any] = {"tickCount": 8, "titlePadding": 8}
        if self.dates:
            axis |= {"tickCount": 5, "labelExpr": "utcFormat(datum.value * 86400000, '%Y-%m-%d')"}
        across = {
            "type": "quantitative",
            "title": self.across[:90],
            "scale": {"domain": span, "nice": False},
            "axis": axis,
        }
        up = {"type": "quantitative", "title": "rows", "axis": {"tickCount": 5, "format": ",~r"}}
        data = {"values": rows}
        bars = {
            "mark": {"type": "rect", "color": BLUE, "opacity": 0.45, "stroke": BLUE, "strokeWidth": 0.5},
            "encoding": {
                "x": across | {"field": "from"},
                "x2": {"field": "to"},
                "y": up | {"field": "count"},
                "y2": {"datum": 0},
            },
        }
        spans = {
            "mark": {"type": "rule", "color": INK, "strokeWidth": 1},
            "encoding": {"x": across | {"field": "middle"}, "y": up | {"field": "low"}, "y2": {"field": "high"}},
        }
        return [{"data": data} | bars, {"data": data} | spans]
