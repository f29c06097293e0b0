"""Numbers of the demo as people read them."""

from __future__ import annotations

from collections.abc import Mapping

from demo.questions import Told
from discreet.formatting import format_ends, format_number, format_value
from discreet.numeric import format_exact


def number(told: object) -> str:
    """A number without digits that mean nothing."""
    if isinstance(told, float):
        return format_number(told)
    return format_value(told)


def answer_of(told: Told) -> str:
    """The answer: one number, what it means to someone who knew something, or how many numbers there are."""
    answer = told.answer
    if not answer.single:
        return f"{len(answer.rows)} groups"
    known = answer.posterior
    return number(answer.value) if known is None or not known.numeric else f"about {known.median():,.0f}"


def between_of(told: Told) -> str:
    """Where the exact number lies in 95 of 100 cases; to someone who knew something, where there is a prior."""
    answer = told.answer
    if not answer.single:
        return f"each {answer.accuracy.split(' with ')[0]}"
    known = answer.posterior
    span = answer.interval() if known is None else known.interval(0.95)
    if not isinstance(span, tuple) or isinstance(span[0], Mapping):
        return ""
    return " to ".join(format_ends(*span))


def price_of(told: Told) -> str:
    """What it cost when it was first asked."""
    return format_exact(told.price) if told.price else "nothing"


def exact_of(told: Told) -> str:
    """The truth: one number; of groups it is in the picture."""
    return number(told.exact) if told.answer.single else "in the picture"
