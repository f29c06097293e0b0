"""Numbers of the demo as people read them."""

from __future__ import annotations

from collections.abc import Mapping

from demo.questions import AnsweredQuestion
from discreet.formatting import format_ends, format_number, format_value
from discreet.numeric import format_exact


def format_figure(value: object) -> str:
    """A number without digits that mean nothing."""
    if isinstance(value, float):
        return format_number(value)
    return format_value(value)


def format_answer(answered: AnsweredQuestion) -> str:
    """The answer: one number, what it means to someone who knew something, or how many numbers there are."""
    answer = answered.answer
    if not answer.single:
        return f"{len(answer.rows)} groups"
    posterior = answer.posterior
    return (
        format_figure(answer.value)
        if posterior is None or not posterior.numeric
        else f"about {posterior.median():,.0f}"
    )


def format_interval(answered: AnsweredQuestion) -> str:
    """Where the exact number lies in 95 of 100 cases; to someone who knew something, where there is a prior."""
    answer = answered.answer
    if not answer.single:
        return f"each {answer.accuracy.split(' with ')[0]}"
    posterior = answer.posterior
    span = answer.interval() if posterior is None else posterior.interval(0.95)
    if not isinstance(span, tuple) or isinstance(span[0], Mapping):
        return ""
    return " to ".join(format_ends(*span))


def format_price(answered: AnsweredQuestion) -> str:
    """What it cost when it was first asked."""
    return format_exact(answered.price) if answered.price else "nothing"


def format_truth(answered: AnsweredQuestion) -> str:
    """The truth: one number; of groups it is in the picture."""
    return format_figure(answered.exact) if answered.answer.single else "in the picture"
