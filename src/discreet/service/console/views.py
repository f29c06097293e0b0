"""Documents of the API as pages show them: what a template needs, worked out here so that it only has to say it."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from typing import Any

from discreet.formatting import format_percent, format_value
from discreet.service.console.telling import amount, exact, remaining, rough, span
from discreet.sheet import posterior_words

Document = Mapping[str, Any]
MOST_ROWS = 500
"""On a page; JSON and CSV have all."""
WIDTH = 100.0
"""Of a bar in its own units."""
ROW = 56
"""Of compared answers, in the units of their picture."""
MOST_TIMES = 1_000_000
"""The most questions that a preview counts."""
UNPAID = "What is left does not pay for this: ask for more noise, or for something else."
PUBLIC = "This number is public: nothing is spent."
WHOLE = "counts are whole, and parts add up to their totals"
"""What nested counts are reconciled to, among other things."""


def meters(balances: Sequence[Document]) -> list[dict[str, Any]]:
    """What is spent and left of each account, with how much of its bar is filled."""
    several = len({one["model"] for one in balances}) > 1
    return [_meter(one, several) for one in balances]


def _meter(balance: Document, several: bool) -> dict[str, Any]:
    cap, left = Fraction(balance["cap"]["epsilon"]), Fraction(balance["left"])
    spent = balance["spent"]["epsilon"]
    used = cap - left if spent is None else Fraction(spent)
    return {
        "owner": "All analysts" if balance["analyst"] is None else balance["analyst"],
        "model": balance["model"] if several else None,
        "spent": exact(str(used)),
        "left": remaining(balance["left"]),
        "cap": exact(balance["cap"]["epsilon"]),
        "share": 100.0 if not cap else min(100.0, float(100 * used / cap)),
        "flags": balance["flags"],
        "promise": balance["promise"],
    }


def answer(document: Document) -> dict[str, Any]:
    """One number with all that belongs to it, or a table."""
    single = "value" in document
    return {"single": _single(document) if single else None, "table": None if single else _table(document)}


def _single(document: Document) -> dict[str, Any]:
    name = document["columns"][-1]
    law = document["posteriors"][0][name] if document["posteriors"] else None
    fitted = document["reconciled"]["rows"][0][name] if document["reconciled"] else None
    shaped, around = document["shaped_by_prior"], document["intervals_95"][0].get(name)
    return {
        "name": name,
        "headline": format_value(document["headline"], around),
        "raw": format_value(document["value"], around)
        if shaped and document["headline"] != document["value"]
        else None,
        "shaped": shaped,
        "interval": span(around),
        "posterior": _posterior(document["value"], law),
        "likely": _likely(law),
        "reconciled": format_value(fitted)
        if fitted is not None and law is None and fitted != document["value"]
        else None,
    }


def _posterior(raw: object, law: Document | None) -> str:
    """A posterior over numbers in words; where the answer is a date, in dates."""
    if law is None or "mean" not in law:
        return ""
    return posterior_words(law["mean"], law["median"], law["interval_95"], isinstance(raw, str))


def _likely(law: Document | None) -> list[tuple[str, str]]:
    """The likeliest values of a posterior over names."""
    shares = {} if law is None else law.get("probabilities", {})
    first = sorted(shares.items(), key=lambda one: -one[1])[:8]
    return [(name, format_percent(share, 3)) for name, share in first]


def _table(document: Document) -> dict[str, Any]:
    """The rows, each number beside its interval and what it was reconciled to; a bar where there is one number."""
    numbers = [name for name in document["columns"] if any(name in row for row in document["intervals_95"])]
    fitted = document["reconciled"]
    heads: list[dict[str, Any]] = []
    for name in document["columns"]:
        heads.append({"text": name, "number": name in numbers, "topic": None})
        if name in numbers:
            heads.append({"text": "95 % interval", "number": True, "topic": "interval"})
            heads += [{"text": "reconciled", "number": True, "topic": "reconciled"}] if fitted else []
    posterior = _means(document, numbers)
    heads += [{"text": "posterior mean", "number": True, "topic": "posterior"}] if posterior else []
    many = len(document["rows"])
    rows = [_cells(document, at, numbers) + posterior[at : at + 1] for at in range(min(many, MOST_ROWS))]
    told: dict[str, Any] = {"heads": heads, "rows": rows, "more": many - MOST_ROWS}
    return told | {"bars": _bars(document, numbers), "broken": _is_broken(document, numbers)}


def _is_broken(document: Document, numbers: Sequence[str]) -> bool:
    """Whether counts that were fitted together are told in fractions."""
    fitted = document["reconciled"]
    told = (row[name] for row in document["rows"] for name in numbers)
    return bool(fitted) and WHOLE in fitted["because"] and any(isinstance(one, float) and one % 1 for one in told)


def _cells(document: Document, at: int, numbers: Sequence[str]) -> list[str]:
    row, spans, fitted = document["rows"][at], document["intervals_95"][at], document["reconciled"]
    cells = []
    for name in document["columns"]:
        cells.append(format_value(row[name], spans.get(name)))
        if name in numbers:
            cells.append(span(spans.get(name)))
            cells += [format_value(fitted["rows"][at][name])] if fitted else []
    return cells


def _means(document: Document, numbers: Sequence[str]) -> list[str]:
    laws = [row.get(numbers[0]) for row in document["posteriors"] or ()] if len(numbers) == 1 else []
    return [format_value((law or {}).get("mean", "")) for law in laws] if any(laws) else []


def _bars(document: Document, numbers: Sequence[str]) -> list[dict[str, float]]:
    """For each row where its bar begins and how long it is, and the ends of its interval."""
    if len(numbers) != 1:
        return []
    name = numbers[0]
    told = [row[name] for row in document["rows"][:MOST_ROWS]]
    spans = [row.get(name) for row in document["intervals_95"][:MOST_ROWS]]
    if not all(_is_number(one) for one in told):
        return []
    ends = [end for one in spans if one is not None for end in one]
    low, high = min(0.0, *told, *ends), max(0.0, *told, *ends)
    return [_bar(one, ends or [one, one], low, high) for one, ends in zip(told, spans, strict=True)]


def _bar(number: float, ends: Sequence[float], low: float, high: float) -> dict[str, float]:
    place = along(low, high)
    first, last = sorted((place(0.0), place(number)))
    return {"x": first, "width": last - first, "from": place(ends[0]), "to": place(ends[1]), "below": float(number < 0)}


def along(low: float, high: float, start: float = 0.0, width: float = WIDTH) -> Callable[[float], float]:
    """Where numbers from low to high are along the width of a picture."""
    scale = width / (high - low) if high > low else 0.0
    return lambda number: round(start + (number - low) * scale, 3)


def compared(documents: Sequence[Document]) -> list[dict[str, Any]]:
    """Intervals of several single numbers above one axis; none where they are not numbers."""
    if not documents or not all(_is_number(one.get("value")) for one in documents):
        return []
    place = _placed(documents)
    return [_compared(one, at, place) for at, one in enumerate(documents)]


def _compared(document: Document, at: int, place: Callable[[float], float]) -> dict[str, Any]:
    ends, law = _span(document), _known(document)
    return {
        "y": 34 + ROW * at,
        "label": f"{at + 1}: {format_value(document['value'], (ends[0], ends[1]))} ({span(ends)})",
        "raw": place(document["value"]),
        "from": place(ends[0]),
        "to": place(ends[1]),
        "known": None if law is None else [place(end) for end in law["interval_95"]],
        "mean": None if law is None else place(law["mean"]),
    }


def axis(documents: Sequence[Document]) -> list[dict[str, Any]]:
    """The numbers along the axis of compared answers, and where each stands."""
    place = _placed(documents)
    return [{"x": place(one), "label": format_value(one)} for one in _ticks(documents)]


def _placed(documents: Sequence[Document]) -> Callable[[float], float]:
    ticks = _ticks(documents)
    return along(ticks[0], ticks[-1], 50.0, 540.0)


def _ticks(documents: Sequence[Document]) -> list[float]:
    """Round numbers, about five, from below all that is drawn to above it."""
    laws = [law["interval_95"] for law in map(_known, documents) if law is not None]
    numbers = [float(end) for pair in [*map(_span, documents), *laws] for end in pair]
    low, high = min(numbers), max(numbers)
    wanted = (high - low) / 4 or max(1.0, abs(high) / 4)
    size = 10.0 ** math.floor(math.log10(wanted))
    step = size * next(many for many in (1, 2, 5, 10) if many * size >= wanted)
    first, last = math.floor(low / step), math.ceil(high / step)
    return [float(f"{step * at:.12g}") for at in range(first, max(last, first + 1) + 1)]


def _span(document: Document) -> list[Any]:
    """The interval of a single number; where none is told, the number itself."""
    ends: list[Any] | None = document["intervals_95"][0].get(document["columns"][-1])
    return ends or [document["value"]] * 2


def _known(document: Document) -> Document | None:
    """The posterior over numbers of a single number."""
    law = (document["posteriors"] or [{}])[0].get(document["columns"][-1])
    return law if law and "interval_95" in law else None


OTHERS = {
    "shared": "Another analyst's answer is stored, and is told; the data set pays nothing more.",
    "degraded": "Another analyst's answer is stored, and is told with noise added; the data set pays nothing more.",
}
"""What a preview says of another analyst's stored answer."""


def preview(made: Document, fresh: bool, rehearsal: bool) -> dict[str, Any]:
    """What a preview says of the cost and of the error, in words; standing.js says the same."""
    cost, stored = made["cost"], made["stored_epsilon"]
    other = "" if fresh else OTHERS.get(made["reuse"], "")
    free = not any(Fraction(cost.get(name) or 0) for name in ("epsilon", "delta", "rho"))
    public, told = free and stored is None, stored is not None and not fresh
    unpaid = not (rehearsal or public or told) and made["times"] == 0
    words = amount(made["guarantee"] if fresh and not public else cost)
    many = (
        "any number: it is public" if public else "free: it is stored" if told and free else format_value(made["times"])
    )
    return {
        "cost": "free" if told and free else words,
        "stored": f"An answer of epsilon {exact(stored)} is stored, and is told." if told else other,
        "error": _error(made),
        "of": made["error_of"],
        "times": f"{many} or more" if many == format_value(MOST_TIMES) else many,
        "unpaid": unpaid,
        "note": UNPAID if unpaid else PUBLIC if public else "",
    }


def _error(made: Document) -> str:
    if sum(one["chosen"] for one in made["candidates"]) > 1:
        return "one for each number"
    error = made["expected_error"]
    return "depends on the rows" if error is None else f"about {rough(error)}" if error else "none"


def _is_number(told: object) -> bool:
    return isinstance(told, int | float) and not isinstance(told, bool)


def branches(taxonomy: Mapping[str, Sequence[str]]) -> list[dict[str, Any]]:
    """A taxonomy as a tree, from its tops down."""
    below: dict[str, list[str]] = {}
    for name, parents in taxonomy.items():
        for parent in parents:
            below.setdefault(parent, []).append(name)

    def branch(name: str) -> dict[str, Any]:
        return {"name": name, "below": [branch(one) for one in below.get(name, [])]}

    return [branch(name) for name, parents in taxonomy.items() if not parents]
