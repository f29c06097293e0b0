"""One number in a plain sentence, and as the laws that a picture shows."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, timedelta

from discreet.answer import Reply
from discreet.custodian.reader import Reader
from discreet.pictures import Drawing
from discreet.posterior import Posterior
from discreet.query.query import Aggregate
from discreet.schema.column import EPOCH

MOST_NAMES = 3


def sentence(reader: Reader, at: int, drawn: Sequence[int], raw: Reply) -> str:
    """What the answer means to someone who believed the prior; without one, where the exact number lies."""
    before, after = reader.before(at), reader.posterior(at, drawn)
    if before is not None and after is not None:
        if after.names is not None:
            return _named(before, after, raw)
        return _believed(before, after, reader, at, raw)
    span = reader.span(at, drawn, 0.95)
    if span is None or span[0] == span[1]:
        return ""
    return f"The exact number lies between {told(span[0])} and {told(span[1])} with a probability of at least 95 %."


def _believed(before: Posterior, after: Posterior, reader: Reader, at: int, raw: Reply) -> str:
    days = _is_date(reader, at)
    first, (low, high) = before.median(), before.interval(0.95)
    now, (least, most) = after.mean(), after.interval(0.95)
    say = _day if days else told
    drawn = "the draw, shaped by your prior, is" if reader.plan.uses_prior else "the private answer is"
    return (
        f"You believed it to be about {say(first)}, between {say(low)} and {say(high)} with a probability of 95 %; "
        f"{drawn} {told(raw)}; together that makes about {say(now)}, between {say(least)} and {say(most)}."
    )


def _named(before: Posterior, after: Posterior, raw: Reply) -> str:
    ranked = sorted(zip(after.names or (), before.mass, after.mass, strict=True), key=lambda one: -one[2])[:MOST_NAMES]
    moved = ", ".join(f"{name} from {share:.3g} to {now:.3g}" for name, share, now in ranked)
    return f"The draw, shaped by your prior, is {told(raw)}; for you the probability goes, of {moved}."


def drawing(reader: Reader, at: int, drawn: Sequence[int], raw: Reply, title: str, across: str, said: str) -> Drawing:
    """Prior, noise law and posterior of one number."""
    before, around, after = reader.before(at), reader.around(at, drawn), reader.posterior(at, drawn)
    names = None if before is None else before.names
    if names is not None:
        return Drawing(title, across, before, None, after, _name(raw, names), None, said)
    span = reader.span(at, drawn, 0.95)
    ends = None if span is None or isinstance(span[0], str | date) else span
    return Drawing(title, across, before, around, after, _place(raw), ends, said)


def _name(raw: Reply, names: Sequence[str]) -> str | None:
    spelled = str(raw) if str(raw) in names else str(raw).lower()
    return spelled if spelled in names else None


def _place(raw: Reply) -> float | None:
    """A number as one; a date by its days since 1970-01-01."""
    if isinstance(raw, date):
        return float((raw - EPOCH).days)
    return float(raw) if isinstance(raw, int | float) else None


def _is_date(reader: Reader, at: int) -> bool:
    query, schema = reader.plan.query, reader.plan.schema
    aggregates: tuple[Aggregate, ...] = query.aggregates
    name = query.column if query.unit is not None else aggregates[at].column
    return name is not None and schema.column(name).kind == "date"


def _day(number: float) -> str:
    return (EPOCH + timedelta(days=round(number))).isoformat()


def told(value: object) -> str:
    """A number as people read it."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return str(value)
    if isinstance(value, int) or abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:.4g}"
