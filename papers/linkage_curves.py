"""Figures 6.4 and 6.5 of the thesis: SSE and record linkages over k, on the Census and on the Adult file."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import log10
from typing import Any

from discreet.sdc.report_charts import Chart
from papers import charts
from papers.rows import Row

MEASURES = ("SSE", "RL")
Spots = list[tuple[float, float]]


def build_curve_drawer(
    title: str, file: str, by_k: Mapping[int, Any], by_epsilon: Mapping[str, Any]
) -> Callable[[Sequence[Row]], list[Chart]]:
    """Pictures of rows that hold [SSE, RL] by k; what is printed in the two tables beside the figure is dots."""

    def draw_pictures(rows: Sequence[Row]) -> list[Chart]:
        curves = {row.cell.partition(":")[0]: row.obtained for row in rows if isinstance(row.obtained, dict)}
        noise = {line.replace("epsilon", "ε"): each for line, each in curves.items() if line.startswith("epsilon")}
        alone = {line: each for line, each in curves.items() if not line.startswith("epsilon")}
        return [
            _draw_curve(f"{title}, {name} {kind}", f"on the {file} file {kind}", i, some, {"printed": dots[i]})
            for i, name in enumerate(MEASURES)
            for kind, some, dots in (
                ("without noise", alone, _list_points_without_noise(by_k)),
                ("with noise", noise, _list_points_with_noise(by_k, by_epsilon)),
            )
        ]

    return draw_pictures


def _draw_curve(title: str, context: str, i: int, curves: Mapping[str, Any], dots: Mapping[str, Spots]) -> Chart:
    points = {
        line: [(float(k), log10(both[i])) for k, both in each.items() if both[i]] for line, each in curves.items()
    }
    up = ("log10 SSE", "log10 of % linked")[i]
    sentence = f"{MEASURES[i]} over k {context}, as a power of ten; the thesis's noise is not private."
    return charts.draw_lines(title, sentence, "k", up, points, dots, log="x")


def _list_points_without_noise(by_k: Mapping[int, Any]) -> tuple[Spots, Spots]:
    return (
        [(k, log10(float(sse))) for k, (sse, *_) in by_k.items()],
        [(k, log10(float(linkages))) for k, (_, linkages, *_) in by_k.items()],
    )


def _list_points_with_noise(by_k: Mapping[int, Any], by_epsilon: Mapping[str, Any]) -> tuple[Spots, Spots]:
    """With k = 1 as printed; with others what the printed factors make of the printed baseline."""
    sse = [(1.0, log10(float(figure))) for figure, *_ in by_epsilon.values()]
    linkages = [(1.0, log10(float(figure))) for _, figure, *_ in by_epsilon.values()]
    for k, (base, base_linkages, *factors) in by_k.items():
        sse += [(k, log10(float(base) / float(sse_f) ** 2)) for sse_f, _, _ in factors]
        linkages += [(k, log10(float(base_linkages) / float(rl_f))) for _, rl_f, _ in factors]
    return sse, linkages
