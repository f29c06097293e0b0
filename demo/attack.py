"""The attack of document 002's appendix at work: a refined count, of one table and of its neighbour.

Without one person a table has 10 records of a first category and 10 k of a second. The person belongs to the first (c =
k) or to the second (c = -1), and who knows c refines the first count to (X1 + X2 + c) / (k + 1).
"""

from __future__ import annotations

import math
import sys
from pathlib import Path

import altair as alt
import numpy as np
import vl_convert

from discreet import rho

BLUE, ORANGE, GREEN = "#2563eb", "#ea580c", "#15803d"
WIDTH, HEIGHT = 620, 240

EPSILON = 1.0
SCALE = 2 / EPSILON
TIMES = (1, 2, 5, 10)
COLOURS = ("#64707d", GREEN, BLUE, ORANGE)
DRAWN_TIMES, DRAWS, FEWEST = 5, 200_000, 200
EDGES = np.linspace(10.5, 14.5, 17)
PICTURE = Path(__file__).parents[1] / "docs" / "attack.svg"


def compute_bound(times: int) -> float:
    """What the corrected formula says."""
    share = 1 / (times + 1)
    return rho([[share, share]], [[share]], SCALE, [times + 1], [1, -1])


def compute_log_ratio(x: float, times: int) -> float:
    """Of the densities of the refined count at x, if the person is of the first category and if of the second."""
    first, second = ((times + 1) * x - (11 + 10 * times) - constant for constant in (times, -1))
    return _compute_log_density(first) - _compute_log_density(second)


def _compute_log_density(y: float) -> float:
    """Of the sum of two Laplace numbers, but for a constant."""
    return math.log(SCALE + abs(y)) - abs(y) / SCALE


def draw_ratios(seed: int = 2) -> list[dict[str, float]]:
    """The same by drawing: the log ratio of how often the refined count fell into each bin."""
    generator = np.random.default_rng(seed)
    counts = []
    for constant in (DRAWN_TIMES, -1):
        noisy = 11 + 10 * DRAWN_TIMES + generator.laplace(scale=SCALE, size=(2, DRAWS)).sum(axis=0)
        counts.append(np.histogram((noisy + constant) / (DRAWN_TIMES + 1), EDGES)[0])
    full = np.minimum(*counts) >= FEWEST
    middles = (EDGES[:-1] + EDGES[1:]) / 2
    ratios = np.log(counts[0][full] / counts[1][full])
    return [{"x": float(x), "ratio": float(ratio)} for x, ratio in zip(middles[full], ratios, strict=True)]


def list_labels() -> list[str]:
    """What stands at the end of each line."""
    return [f"k = {times}: up to {compute_bound(times):g} ε" for times in TIMES]


def draw_picture() -> str:
    """The log ratios over the refined count, by the densities and by drawing."""
    points = np.linspace(10.5, 20, 96)
    names = list_labels()
    rows = [
        {"x": x, "ratio": compute_log_ratio(x, k), "k": name}
        for k, name in zip(TIMES, names, strict=True)
        for x in points
    ]
    x = alt.X(
        "x:Q",
        title="refined count; exact: 11, or 10",
        scale=alt.Scale(domain=[10.5, 22.6], nice=False),
        axis=alt.Axis(values=list(range(11, 21))),
    )
    y = alt.Y("ratio:Q", title="log of the ratio of densities, ε = 1", scale=alt.Scale(domain=[0, 6], nice=False))
    colour = alt.Color("k:N", scale=alt.Scale(domain=names, range=list(COLOURS)), legend=None)
    lines = alt.Chart(alt.Data(values=rows)).mark_line(strokeWidth=2.2).encode(x=x, y=y, color=colour)
    last = [row for row in rows if row["x"] == points[-1]]
    words = (
        alt.Chart(alt.Data(values=last)).mark_text(align="left", dx=6, dy=5).encode(x=x, y=y, color=colour, text="k:N")
    )
    dots = alt.Chart(alt.Data(values=draw_ratios())).mark_point(filled=True, size=45, color=BLUE).encode(x=x, y=y)
    level = alt.Chart(alt.Data(values=[{"ratio": EPSILON}])).mark_rule(strokeDash=[4, 4], color="#111").encode(y=y)
    notes = [
        {"x": 13, "ratio": 0.4, "text": "dashed: ε, the most that the noisy counts tell"},
        {"x": 12.6, "ratio": 2.3, "text": f"dots: {DRAWS:,} draws from each of the two tables, k = {DRAWN_TIMES}"},
    ]
    notes_layer = (
        alt.Chart(alt.Data(values=notes)).mark_text(align="left", color="#111").encode(x=x, y=y, text="text:N")
    )
    chart = (level + lines + dots + words + notes_layer).properties(width=WIDTH, height=HEIGHT * 1.3)
    return str(vl_convert.vegalite_to_svg(chart.configure_view(stroke=None).configure_axis(grid=False).to_json()))


if __name__ == "__main__":
    Path(sys.argv[1] if len(sys.argv) > 1 else PICTURE).write_text(draw_picture())
