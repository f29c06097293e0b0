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


def curves(
    title: str, file: str, by_k: Mapping[int, Any], by_epsilon: Mapping[str, Any]
) -> Callable[[Sequence[Row]], list[Chart]]:
    """Pictures of rows that hold [SSE, RL] by k; what is printed in the two tables beside the figure is dots."""

    def pictures(rows: Sequence[Row]) -> list[Chart]:
        drawn = {row.cell.partition(":")[0]: row.obtained for row in rows if isinstance(row.obtained, dict)}
        noise = {line.replace("epsilon", "ε"): each for line, each in drawn.items() if line.startswith("epsilon")}
        alone = {line: each for line, each in drawn.items() if not line.startswith("epsilon")}
        return [
            _curve(f"{title}, {name} {kind}", f"on the {file} file {kind}", at, some, {"printed": dots[at]})
            for at, name in enumerate(MEASURES)
            for kind, some, dots in (
                ("without noise", alone, _without_noise(by_k)),
                ("with noise", noise, _with_noise(by_k, by_epsilon)),
            )
        ]

    return pictures


def _curve(title: str, told: str, at: int, drawn: Mapping[str, Any], dots: Mapping[str, Spots]) -> Chart:
    found = {
        line: [(float(k), log10(both[at])) for k, both in each.items() if both[at]] for line, each in drawn.items()
    }
    up = ("log10 SSE", "log10 of % linked")[at]
    sentence = f"{MEASURES[at]} over k {told}, as a power of ten; the thesis's noise is not private."
    return charts.lines(title, sentence, "k", up, found, dots, log="x")


def _without_noise(by_k: Mapping[int, Any]) -> tuple[Spots, Spots]:
    return (
        [(k, log10(float(sse))) for k, (sse, *_) in by_k.items()],
        [(k, log10(float(linkages))) for k, (_, linkages, *_) in by_k.items()],
    )


def _with_noise(by_k: Mapping[int, Any], by_epsilon: Mapping[str, Any]) -> tuple[Spots, Spots]:
    """With k = 1 as printed; with others what the printed factors make of the printed baseline."""
    sse = [(1.0, log10(float(own))) for own, *_ in by_epsilon.values()]
    linkages = [(1.0, log10(float(own))) for _, own, *_ in by_epsilon.values()]
    for k, (base, linked, *factors) in by_k.items():
        sse += [(k, log10(float(base) / float(sse_f) ** 2)) for sse_f, _, _ in factors]
        linkages += [(k, log10(float(linked) / float(rl_f))) for _, rl_f, _ in factors]
    return sse, linkages
