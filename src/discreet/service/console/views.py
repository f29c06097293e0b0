"""Prepare documents of the API for templates: texts, table cells, and the positions of what is drawn."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from discreet.answers.answer import format_posterior
from discreet.errors import DiscreetError
from discreet.formatting import format_budget_left, format_cost, format_number, format_percent, format_value
from discreet.ledger.charge import Balance
from discreet.service.console.forms import DatasetUrls
from discreet.service.console.rendering import (
    Document,
    format_exact_cost,
    format_guarantee_cost,
    format_page_interval,
)
from discreet.service.problems import problem_from_error

MAX_ROWS = 500
"""Rows on a page; JSON and CSV have all."""
BAR_WIDTH = 100.0
CHART_ROW_HEIGHT = 56
MAX_TIMES = 1_000_000
"""The most questions that a preview counts."""
OTHER_STORED = {
    "shared": "Another analyst's answer is stored, and is told; the data set pays nothing more.",
    "degraded": "Another analyst's answer is stored, and is told with noise added; the data set pays nothing more.",
}
"""What a preview says of another analyst's stored answer."""
UNPAID_NOTE = "What is left does not pay for this: ask for more noise, or for something else."
PUBLIC_NOTE = "This number is public: nothing is spent."
WHOLE_COUNTS = "counts are whole, and parts add up to their totals"
"""The reason of a reconciliation after which counts are whole numbers."""


@dataclass(frozen=True, slots=True)
class Meter:
    """What is spent and left of one account; `share` is that of its epsilon in percent."""

    owner: str
    model: str | None
    spent: str
    left: str
    cap: str
    share: float
    flags: list[str]
    promise: str


def build_meters(balances: Sequence[Balance]) -> list[Meter]:
    """Build a meter for each account; it names the model where there are several."""
    has_several = len({balance.model for balance in balances}) > 1
    return [_build_meter(balance, has_several) for balance in balances]


def build_card(
    where: DatasetUrls, list_balances: Callable[[], Sequence[Balance]], **facts: object
) -> dict[str, object]:
    """Build the card of a data set in a list; one that cannot be opened says so."""
    card: dict[str, object] = {"where": where, "problem": None, "meters": []} | facts
    try:
        return card | {"meters": build_meters(list_balances())}
    except DiscreetError as refusal:
        return card | {"problem": problem_from_error(refusal).to_json()["detail"]}


def _build_meter(balance: Balance, has_several: bool) -> Meter:
    cap = balance.cap.epsilon
    used = cap - balance.left if balance.epsilon is None else balance.epsilon
    return Meter(
        owner="All analysts" if balance.analyst is None else balance.analyst,
        model=balance.model if has_several else None,
        spent=format_cost(used),
        left=format_budget_left(balance.left),
        cap=format_cost(cap),
        share=100.0 if not cap else min(100.0, float(100 * used / cap)),
        flags=list(balance.flags),
        promise=balance.promise,
    )


def build_answer_view(document: Document) -> dict[str, object]:
    """Build the view of one number with all that belongs to it, or of a table."""
    if "value" in document:
        return {"single": _build_single_view(document), "table": None}
    return {"single": None, "table": _build_table_view(document)}


def _build_single_view(document: Document) -> dict[str, object]:
    name, value = document["columns"][-1], document["value"]
    posterior: Document = (document["posteriors"][0][name] if document["posteriors"] else None) or {}
    reconciled_value = document["reconciled"]["rows"][0][name] if document["reconciled"] else None
    is_shaped, interval = document["shaped_by_prior"], document["intervals_95"][0].get(name)
    likeliest = sorted(posterior.get("probabilities", {}).items(), key=lambda pair: -pair[1])[:8]
    view: dict[str, object] = {
        "name": name,
        "headline": format_value(document["headline"], interval),
        "raw": format_value(value, interval) if is_shaped and document["headline"] != value else None,
        "shaped": is_shaped,
        "interval": format_page_interval(interval),
        "posterior": "",
        "likely": [(name, format_percent(share, 3)) for name, share in likeliest],
        "reconciled": None,
    }
    if "mean" in posterior:
        numbers = posterior["mean"], posterior["median"], posterior["interval_95"]
        view["posterior"] = format_posterior(*numbers, isinstance(value, str))
    if reconciled_value not in (None, value) and not posterior:
        view["reconciled"] = format_value(reconciled_value)
    return view


def _build_table_view(document: Document) -> dict[str, object]:
    """Each number stands beside its interval and its reconciled value; one number to a row has a bar."""
    numbers = [name for name in document["columns"] if any(name in row for row in document["intervals_95"])]
    reconciliation = document["reconciled"]
    heads: list[dict[str, object]] = []
    for name in document["columns"]:
        heads.append({"text": name, "number": name in numbers, "topic": None})
        if name in numbers:
            heads.append({"text": "95 % interval", "number": True, "topic": "interval"})
            heads += [{"text": "reconciled", "number": True, "topic": "reconciled"}] if reconciliation else []
    posterior_means = _format_posterior_means(document, numbers)
    heads += [{"text": "posterior mean", "number": True, "topic": "posterior"}] if posterior_means else []
    row_count = len(document["rows"])
    rows = [
        _format_cells(document, index, numbers) + posterior_means[index : index + 1]
        for index in range(min(row_count, MAX_ROWS))
    ]
    view: dict[str, object] = {"heads": heads, "rows": rows, "more": row_count - MAX_ROWS}
    return view | {"bars": _build_bars(document, numbers), "broken": _has_fractions(document, numbers)}


def _has_fractions(document: Document, numbers: Sequence[str]) -> bool:
    """Whether counts that are reconciled to whole numbers are themselves fractions."""
    reconciliation = document["reconciled"]
    if not reconciliation or WHOLE_COUNTS not in reconciliation["because"]:
        return False
    values = (row[name] for row in document["rows"] for name in numbers)
    return any(isinstance(value, float) and value % 1 for value in values)


def _format_cells(document: Document, index: int, numbers: Sequence[str]) -> list[str]:
    row, intervals, reconciliation = document["rows"][index], document["intervals_95"][index], document["reconciled"]
    cells = []
    for name in document["columns"]:
        cells.append(format_value(row[name], intervals.get(name)))
        if name in numbers:
            cells.append(format_page_interval(intervals.get(name)))
            cells += [format_value(reconciliation["rows"][index][name])] if reconciliation else []
    return cells


def _format_posterior_means(document: Document, numbers: Sequence[str]) -> list[str]:
    posteriors = [row.get(numbers[0]) for row in document["posteriors"] or ()] if len(numbers) == 1 else []
    return [format_value((posterior or {}).get("mean", "")) for posterior in posteriors] if any(posteriors) else []


def _build_bars(document: Document, numbers: Sequence[str]) -> list[dict[str, float]]:
    """The position and length of the bar of each row, and the ends of its interval."""
    if len(numbers) != 1:
        return []
    name = numbers[0]
    values = [row[name] for row in document["rows"][:MAX_ROWS]]
    intervals = [row.get(name) for row in document["intervals_95"][:MAX_ROWS]]
    if not all(map(_is_number, values)):
        return []
    numbers_drawn = [0.0, *values, *(end for interval in intervals if interval is not None for end in interval)]
    position = build_chart_scale(min(numbers_drawn), max(numbers_drawn))
    bars = []
    for value, interval in zip(values, intervals, strict=True):
        first, last = sorted((position(0.0), position(value)))
        start, end = interval or [value, value]
        ends = {"from": position(start), "to": position(end)}
        bars.append({"x": first, "width": last - first, "below": float(value < 0)} | ends)
    return bars


def build_chart_scale(
    low: float, high: float, start: float = 0.0, width: float = BAR_WIDTH
) -> Callable[[float], float]:
    """Scale numbers from low to high to positions along the width of a picture."""
    scale = width / (high - low) if high > low else 0.0
    return lambda number: round(start + (number - low) * scale, 3)


def build_comparison(documents: Sequence[Document]) -> list[dict[str, object]]:
    """Draw the intervals of several single numbers above one axis; nothing where they are not numbers."""
    if not documents or not all(_is_number(document.get("value")) for document in documents):
        return []
    position = _build_axis_scale(documents)
    rows = []
    for index, document in enumerate(documents):
        value, ends, posterior = document["value"], _get_interval(document), _find_numeric_posterior(document)
        label = f"{index + 1}: {format_value(value, (ends[0], ends[1]))} ({format_page_interval(ends)})"
        row: dict[str, object] = {"y": 34 + CHART_ROW_HEIGHT * index, "label": label, "raw": position(value)}
        row |= {"from": position(ends[0]), "to": position(ends[1])}
        row["known"] = None if posterior is None else [position(end) for end in posterior["interval_95"]]
        rows.append(row | {"mean": None if posterior is None else position(posterior["mean"])})
    return rows


def build_chart_axis(documents: Sequence[Document]) -> list[dict[str, object]]:
    """Choose the numbers along the axis of compared answers, and place them."""
    position = _build_axis_scale(documents)
    return [{"x": position(tick), "label": format_value(tick)} for tick in _choose_ticks(documents)]


def _build_axis_scale(documents: Sequence[Document]) -> Callable[[float], float]:
    ticks = _choose_ticks(documents)
    return build_chart_scale(ticks[0], ticks[-1], 50.0, 540.0)


def _choose_ticks(documents: Sequence[Document]) -> list[float]:
    """Round numbers, about five, from below all that is drawn to above it."""
    posteriors = filter(None, map(_find_numeric_posterior, documents))
    intervals = [*map(_get_interval, documents), *(posterior["interval_95"] for posterior in posteriors)]
    numbers = [float(end) for interval in intervals for end in interval]
    low, high = min(numbers), max(numbers)
    wanted = (high - low) / 4 or max(1.0, abs(high) / 4)
    size = 10.0 ** math.floor(math.log10(wanted))
    step = size * next(factor for factor in (1, 2, 5, 10) if factor * size >= wanted)
    first, last = math.floor(low / step), math.ceil(high / step)
    return [float(f"{step * multiple:.12g}") for multiple in range(first, max(last, first + 1) + 1)]


def _get_interval(document: Document) -> list[float]:
    """The interval of a single number, or else the number itself."""
    ends: list[float] | None = document["intervals_95"][0].get(document["columns"][-1])
    return ends or [document["value"]] * 2


def _find_numeric_posterior(document: Document) -> Document | None:
    posterior = (document["posteriors"] or [{}])[0].get(document["columns"][-1])
    return posterior if posterior and "interval_95" in posterior else None


def build_preview_view(document: Document, fresh: bool, rehearsal: bool) -> dict[str, object]:
    """Tell the cost and the error of a previewed question in words; preview_words.js says the same."""
    cost, stored_epsilon = document["cost"], document["stored_epsilon"]
    other = "" if fresh else OTHER_STORED.get(document["reuse"], "")
    is_free = not any(Fraction(cost.get(name) or 0) for name in ("epsilon", "delta", "rho"))
    is_public, is_stored = is_free and stored_epsilon is None, stored_epsilon is not None and not fresh
    is_unpaid = not (rehearsal or is_public or is_stored) and document["times"] == 0
    words = format_guarantee_cost(document["guarantee"] if fresh and not is_public else cost)
    times = format_value(document["times"]) + (" or more" if document["times"] == MAX_TIMES else "")
    if is_public:
        times = "any number: it is public"
    elif is_stored and is_free:
        words, times = "free", "free: it is stored"
    stored_note = f"An answer of epsilon {format_exact_cost(stored_epsilon)} is stored, and is told."
    error = document["expected_error"]
    error_text = "depends on the rows" if error is None else f"about {format_number(error)}" if error else "none"
    has_several = sum(candidate["chosen"] for candidate in document["candidates"]) > 1
    return {
        "cost": words,
        "stored": stored_note if is_stored else other,
        "error": "one for each number" if has_several else error_text,
        "of": document["error_of"],
        "times": times,
        "unpaid": is_unpaid,
        "note": UNPAID_NOTE if is_unpaid else PUBLIC_NOTE if is_public else "",
    }


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def build_taxonomy_tree(taxonomy: Mapping[str, Sequence[str]]) -> list[dict[str, object]]:
    """Arrange a taxonomy as a tree, from its tops down."""
    children: dict[str, list[str]] = {}
    for name, parents in taxonomy.items():
        for parent in parents:
            children.setdefault(parent, []).append(name)

    def branch(name: str) -> dict[str, object]:
        return {"name": name, "below": [branch(child) for child in children.get(name, [])]}

    return [branch(name) for name, parents in taxonomy.items() if not parents]
