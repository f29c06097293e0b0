"""One number in a plain sentence, and as the laws that a picture shows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import date

import numpy as np

from discreet.answer import Answer, AnswerValue
from discreet.bars import HistogramChart
from discreet.custodian.reader import Decoder
from discreet.exact import EPOCH
from discreet.formatting import format_day, format_day_ends, format_ends, format_estimate, format_percent, format_value
from discreet.pictures import DistributionChart, build_picture_spec, save_picture
from discreet.posterior import Posterior
from discreet.query.query import Aggregate

MAX_NAMES = 3


def describe_meaning(decoder: Decoder, index: int, outputs: tuple[int, ...], raw: AnswerValue) -> str:
    """What the answer means to someone who believed the prior; without one, where the exact number lies."""
    prior, posterior = decoder.get_prior(index), decoder.compute_posterior(index, outputs)
    if prior is not None and posterior is not None:
        if decoder.plan.prior is None:
            return _describe_without_prior(posterior, is_date(decoder, index))
        if posterior.names is not None:
            return _describe_category_update(prior, posterior, raw)
        return _describe_update(prior, posterior, decoder, index, raw)
    interval = decoder.compute_shown_interval(index, outputs, 0.95)
    if interval is None or interval[0] == interval[1]:
        return ""
    low, high = format_ends(*interval)
    statement, joint_statement = (
        f"The exact value lies between {low} and {high}",
        decoder.plan.coverage.format_sentence(0.95),
    )
    if joint_statement:
        return f"{statement}: {joint_statement[:1].lower()}{joint_statement[1:]}"
    return f"{statement} with a probability of at least 95 %."


def _describe_update(prior: Posterior, posterior: Posterior, decoder: Decoder, index: int, raw: AnswerValue) -> str:
    dates = is_date(decoder, index)
    subject = "the draw, shaped by your prior, is" if decoder.plan.uses_prior else "the private answer is"
    prior_text = (
        f"You believed it to be {_format_distribution(prior, _compute_median, dates)} with a probability of 95 %"
    )
    answer_text = format_estimate(raw, *posterior.interval(0.95))[0] if isinstance(raw, float) else format_value(raw)
    return (
        f"{prior_text}; {subject} {answer_text}; together that makes "
        f"{_format_distribution(posterior, Posterior.mean, dates)}."
    )


def _describe_category_update(prior: Posterior, posterior: Posterior, raw: AnswerValue) -> str:
    ranked = sorted(zip(posterior.names or (), prior.mass, posterior.mass, strict=True), key=lambda entry: -entry[2])[
        :MAX_NAMES
    ]
    changes = ", ".join(
        f"from {format_percent(share)} to {format_percent(new_share)} for {name}" for name, share, new_share in ranked
    )
    return f"The draw, shaped by your prior, is {format_value(raw)}; for you the probability goes {changes}."


def _describe_without_prior(posterior: Posterior, dates: bool) -> str:
    """For someone who said nothing about it."""
    if posterior.names is None:
        posterior_text = f"{_format_distribution(posterior, Posterior.mean, dates)} with a probability of 95 %"
    else:
        ranked = sorted(posterior.probabilities().items(), key=lambda entry: -entry[1])[:MAX_NAMES]
        posterior_text = ", ".join(f"{name} with a probability of {format_percent(share)}" for name, share in ranked)
    return f"If every value was as likely as any other before, it is now {posterior_text}."


def describe_prior_distribution(prior: Posterior, decoder: Decoder, index: int) -> str:
    """What someone believes who states a prior."""
    if prior.names is None:
        return (
            "You believe it to be "
            f"{_format_distribution(prior, _compute_median, is_date(decoder, index))} with a probability of 95 %."
        )
    ranked = sorted(prior.probabilities().items(), key=lambda entry: -entry[1])[:MAX_NAMES]
    return f"You believe it to be {', '.join(f'{name} with {format_percent(share)}' for name, share in ranked)}."


def _compute_median(distribution: Posterior) -> float:
    """As likely below as above, also inside a cell: who typed 25,000 is not told of 24,996."""
    if distribution.edges is None or distribution.points is not None:
        return distribution.median()
    return float(np.interp(0.5, np.concatenate(([0.0], np.cumsum(distribution.mass))), distribution.edges))


def _format_distribution(distribution: Posterior, compute_center: Callable[[Posterior], float], dates: bool) -> str:
    """One number for all of it, and where it nearly always is.

    Of what is known now it is the mean, as in every picture; of what was typed its middle, which is what was typed.
    """
    center, interval = compute_center(distribution), distribution.interval(0.95)
    texts = (format_day(center), *format_day_ends(*interval)) if dates else format_estimate(center, *interval)
    return "about {}, between {} and {}".format(*texts)


def build_distribution_chart(
    decoder: Decoder, index: int, outputs: tuple[int, ...], raw: AnswerValue, title: str, axis_title: str, sentence: str
) -> DistributionChart:
    """Prior, noise law and posterior of one number."""
    prior, noise, posterior = (
        decoder.get_prior(index),
        decoder.get_noise_distribution(index, outputs),
        decoder.compute_posterior(index, outputs),
    )
    names = None if prior is None else prior.names
    if names is not None:
        return DistributionChart(title, axis_title, prior, None, posterior, _match_category(raw, names), None, sentence)
    interval, dates = decoder.compute_shown_interval(index, outputs, 0.95), is_date(decoder, index)
    ends = None if interval is None else (_to_number(interval[0]), _to_number(interval[1]))
    numeric_interval = None if ends is None or ends[0] is None or ends[1] is None else (ends[0], ends[1])
    return DistributionChart(
        title, axis_title, prior, noise, posterior, _to_number(raw), numeric_interval, sentence, dates
    )


def attach_picture(answer: Answer, build_chart: Callable[[], DistributionChart | HistogramChart]) -> Answer:
    """An answer that can be drawn, into a file or as data."""
    return replace(
        answer, picture=lambda path: save_picture(build_chart(), path), spec=lambda: build_picture_spec(build_chart())
    )


def _match_category(raw: AnswerValue, names: Sequence[str]) -> str | None:
    spelled = str(raw) if str(raw) in names else str(raw).lower()
    return spelled if spelled in names else None


def _to_number(raw: AnswerValue) -> float | None:
    """A number as one; a date by its days since 1970-01-01."""
    if isinstance(raw, date):
        return float((raw - EPOCH).days)
    return float(raw) if isinstance(raw, int | float) else None


def is_date(decoder: Decoder, index: int) -> bool:
    """Whether the numbers of an answer are days since 1970-01-01."""
    query, schema = decoder.plan.query, decoder.plan.schema
    aggregates: tuple[Aggregate, ...] = query.aggregates
    name = query.column if query.unit is not None else aggregates[index].column
    return name is not None and schema.column(name).kind == "date"
