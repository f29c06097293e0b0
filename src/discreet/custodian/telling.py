"""One number in a plain sentence, and as the laws that a picture shows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import date

import numpy as np

from discreet.answer import Answer, Reply
from discreet.bars import Bars
from discreet.custodian.reader import Reader
from discreet.formatting import format_day, format_day_ends, format_ends, format_estimate, format_percent, format_value
from discreet.pictures import Drawing, picture_spec, save_picture
from discreet.posterior import Posterior
from discreet.query.query import Aggregate
from discreet.schema.column import EPOCH

MOST_NAMES = 3


def sentence(reader: Reader, at: int, drawn: tuple[int, ...], raw: Reply) -> str:
    """What the answer means to someone who believed the prior; without one, where the exact number lies."""
    before, after = reader.before(at), reader.posterior(at, drawn)
    if before is not None and after is not None:
        if reader.plan.prior is None:
            return _even(after, is_date(reader, at))
        if after.names is not None:
            return _named(before, after, raw)
        return _believed(before, after, reader, at, raw)
    span = reader.shown_span(at, drawn, 0.95)
    if span is None or span[0] == span[1]:
        return ""
    low, high = format_ends(*span)
    between, at_once = f"The exact value lies between {low} and {high}", reader.plan.coverage.sentence(0.95)
    if at_once:
        return f"{between}: {at_once[:1].lower()}{at_once[1:]}"
    return f"{between} with a probability of at least 95 %."


def _believed(before: Posterior, after: Posterior, reader: Reader, at: int, raw: Reply) -> str:
    dates = is_date(reader, at)
    drawn = "the draw, shaped by your prior, is" if reader.plan.uses_prior else "the private answer is"
    stated = f"You believed it to be {_span(before, _middle, dates)} with a probability of 95 %"
    answer = format_estimate(raw, *after.interval(0.95))[0] if isinstance(raw, float) else format_value(raw)
    return f"{stated}; {drawn} {answer}; together that makes {_span(after, Posterior.mean, dates)}."


def _named(before: Posterior, after: Posterior, raw: Reply) -> str:
    ranked = sorted(zip(after.names or (), before.mass, after.mass, strict=True), key=lambda one: -one[2])[:MOST_NAMES]
    moved = ", ".join(
        f"from {format_percent(share)} to {format_percent(now)} for {name}" for name, share, now in ranked
    )
    return f"The draw, shaped by your prior, is {format_value(raw)}; for you the probability goes {moved}."


def _even(after: Posterior, dates: bool) -> str:
    """For someone who said nothing about it."""
    if after.names is None:
        now = f"{_span(after, Posterior.mean, dates)} with a probability of 95 %"
    else:
        ranked = sorted(after.probabilities().items(), key=lambda one: -one[1])[:MOST_NAMES]
        now = ", ".join(f"{name} with a probability of {format_percent(share)}" for name, share in ranked)
    return f"If every value was as likely as any other before, it is now {now}."


def believed(before: Posterior, reader: Reader, at: int) -> str:
    """What someone believes who states a prior."""
    if before.names is None:
        return f"You believe it to be {_span(before, _middle, is_date(reader, at))} with a probability of 95 %."
    ranked = sorted(before.probabilities().items(), key=lambda one: -one[1])[:MOST_NAMES]
    return f"You believe it to be {', '.join(f'{name} with {format_percent(share)}' for name, share in ranked)}."


def _middle(law: Posterior) -> float:
    """As likely below as above, also inside a cell: who typed 25,000 is not told of 24,996."""
    if law.edges is None or law.points is not None:
        return law.median()
    return float(np.interp(0.5, np.concatenate(([0.0], np.cumsum(law.mass))), law.edges))


def _span(law: Posterior, about: Callable[[Posterior], float], dates: bool) -> str:
    """One number for all of it, and where it nearly always is.

    Of what is known now it is the mean, as in every picture; of what was typed its middle, which is what was typed.
    """
    middle, span = about(law), law.interval(0.95)
    told = (format_day(middle), *format_day_ends(*span)) if dates else format_estimate(middle, *span)
    return "about {}, between {} and {}".format(*told)


def drawing(reader: Reader, at: int, drawn: tuple[int, ...], raw: Reply, title: str, across: str, said: str) -> Drawing:
    """Prior, noise law and posterior of one number."""
    before, around, after = reader.before(at), reader.around(at, drawn), reader.posterior(at, drawn)
    names = None if before is None else before.names
    if names is not None:
        return Drawing(title, across, before, None, after, _name(raw, names), None, said)
    span, days = reader.shown_span(at, drawn, 0.95), is_date(reader, at)
    ends = None if span is None else (_place(span[0]), _place(span[1]))
    between = None if ends is None or ends[0] is None or ends[1] is None else (ends[0], ends[1])
    return Drawing(title, across, before, around, after, _place(raw), between, said, days)


def with_picture(made: Answer, draw: Callable[[], Drawing | Bars]) -> Answer:
    """An answer that can be drawn, into a file or as data."""
    return replace(made, picture=lambda path: save_picture(draw(), path), spec=lambda: picture_spec(draw()))


def _name(raw: Reply, names: Sequence[str]) -> str | None:
    spelled = str(raw) if str(raw) in names else str(raw).lower()
    return spelled if spelled in names else None


def _place(raw: Reply) -> float | None:
    """A number as one; a date by its days since 1970-01-01."""
    if isinstance(raw, date):
        return float((raw - EPOCH).days)
    return float(raw) if isinstance(raw, int | float) else None


def is_date(reader: Reader, at: int) -> bool:
    """Whether the numbers of an answer are days since 1970-01-01."""
    query, schema = reader.plan.query, reader.plan.schema
    aggregates: tuple[Aggregate, ...] = query.aggregates
    name = query.column if query.unit is not None else aggregates[at].column
    return name is not None and schema.column(name).kind == "date"
