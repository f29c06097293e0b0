"""From what was drawn to what the analyst reads: post-processing, so it costs nothing and sees no row."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import cache, partial
from typing import Any

from discreet.answers.answer import Answer, Interval
from discreet.answers.constraint_fit import StatedConstraint
from discreet.answers.decode import Decoder, format_group_key, label_rows, select_answer_rows
from discreet.answers.explain import (
    attach_picture,
    build_distribution_chart,
    describe_meaning,
    describe_missed_accuracy,
    state_accuracy,
    state_answer_accuracy,
)
from discreet.answers.hierarchical_answer import attach_ranges, build_hierarchical_answer
from discreet.answers.population_estimates import estimate_population, has_population_numbers
from discreet.answers.reconcile import reconcile_answer, reconcile_or_keep_raw
from discreet.charts import DistributionChart
from discreet.measurements.additive import AdditiveNoise
from discreet.measurements.hierarchical import HierarchicalHistogram
from discreet.planner.plan import NoisyResult, Plan
from discreet.priors.posterior import Posterior
from discreet.privacy.guarantee import Guarantee
from discreet.query.query import OutputColumn
from discreet.query.scan import Cell
from discreet.schema.column import Value

FREE = Fraction(0)
MAX_CHECKED_ROWS = 512
"""So many rows of a reply are compared with the prior, no more."""


def serialize_result(plan: Plan, noisy_result: NoisyResult) -> str:
    """What is stored: the draws, and the epsilon they were made with."""
    numbers = [[list(part) for part in cell] for cell in noisy_result.numbers]
    payload = {"epsilon": str(plan.epsilon), "cells": [list(cell) for cell in noisy_result.cells], "numbers": numbers}
    if plan.rho is not None:
        payload["rho"] = str(plan.rho)
    return json.dumps(payload, ensure_ascii=False)


def parse_result(text: str) -> tuple[Fraction, Fraction | None, NoisyResult]:
    """The same, read back: the epsilon, the rho where noise was asked for by its size, and the draws."""
    payload = json.loads(text)
    numbers = tuple(tuple(tuple(part) for part in cell) for cell in payload["numbers"])
    rho = Fraction(payload["rho"]) if "rho" in payload else None
    return Fraction(payload["epsilon"]), rho, NoisyResult(tuple(tuple(cell) for cell in payload["cells"]), numbers)


def build_answer(
    plan: Plan,
    noisy_result: NoisyResult,
    question: str,
    paid_epsilon: Fraction,
    entry: int | None,
    spent_epsilon: Mapping[str, Fraction | None],
    constraints: Sequence[StatedConstraint] = (),
) -> Answer:
    """The reply, laid out as it was asked; `stated` is what the analyst says must be true of its count."""
    outputs = plan.query.presentation.outputs
    base_answer = Answer(
        question=question,
        columns=tuple(output.label for output in outputs),
        numbers=tuple(output.label for output in outputs if output.key is None),
        rows=(),
        mechanism=plan.mechanism,
        accuracy=state_accuracy(plan, plan.confidence),
        guarantee=plan.guarantee,
        cost=_get_cost(plan, paid_epsilon),
        spent=spent_epsilon,
        stored=paid_epsilon == FREE and not plan.is_free,
        entry=entry,
        intervals=lambda _: (),
        posteriors=tuple,
        shaped=plan.uses_prior,
        prior=plan.prior is not None,
        prior_tail=None if plan.prior_use is None else plan.prior_use.tail,
        prior_use=plan.prior_description,
        joint_coverage=plan.coverage.format_sentence(0.95),
    )
    first_measurement = plan.measurements[0]
    if isinstance(first_measurement, HierarchicalHistogram):
        return build_hierarchical_answer(base_answer, plan, first_measurement, noisy_result)
    return _fill_rows(base_answer, plan, noisy_result, constraints)


def _fill_rows(
    answer: Answer, plan: Plan, noisy_result: NoisyResult, constraints: Sequence[StatedConstraint]
) -> Answer:
    """With a row for every cell."""
    presentation, decoder = plan.query.presentation, Decoder(plan)
    rows = [
        _build_row(decoder, cell, numbers)
        for cell, numbers in zip(noisy_result.cells, noisy_result.numbers, strict=True)
    ]
    order = select_answer_rows(rows, presentation)
    intervals = cache(partial(_map_rows, partial(_compute_intervals, decoder), noisy_result, tuple(order)))
    answer_rows = label_rows(rows, order, presentation)
    filled_answer = replace(
        answer,
        rows=answer_rows,
        intervals=intervals,
        posteriors=partial(_map_rows, partial(_compute_posteriors, decoder), noisy_result, tuple(order)),
        warning=_build_prior_warning(decoder, noisy_result, order),
        estimate_population=partial(estimate_population, decoder, noisy_result, tuple(order))
        if has_population_numbers(plan)
        else None,
    )
    if plan.target_accuracy is not None or _depends_on_rows(plan):
        shown_intervals = intervals(plan.confidence)
        single = len(noisy_result.cells) == 1
        accuracy = state_answer_accuracy(plan, answer_rows, shown_intervals, single)
        filled_answer = replace(
            filled_answer,
            accuracy=accuracy,
            missed_accuracy=describe_missed_accuracy(plan, answer_rows, shown_intervals, single),
        )
    reconcile_rows = partial(reconcile_answer, filled_answer, decoder, noisy_result, tuple(order), tuple(constraints))
    fitted_answer = replace(
        filled_answer, reconcile=cache(partial(reconcile_or_keep_raw, filled_answer, reconcile_rows))
    )
    return attach_ranges(_attach_meaning(fitted_answer, decoder, noisy_result, order), plan, noisy_result)


def _depends_on_rows(plan: Plan) -> bool:
    return any(
        isinstance(measurement, AdditiveNoise) and plan.build_estimator(measurement).depends_on_rows
        for measurement in plan.measurements
    )


def _attach_meaning(answer: Answer, decoder: Decoder, noisy_result: NoisyResult, order: Sequence[int]) -> Answer:
    """Of one number: what it says in a sentence, and as a picture."""
    outputs = [output for output in decoder.plan.query.presentation.outputs if output.key is None]
    if not answer.single or answer.rows[0][answer.numbers[0]] is None:
        return answer
    index = outputs[0].aggregate or 0
    noisy_outputs = noisy_result.numbers[order[0]][index]
    describe = cache(partial(describe_meaning, decoder, index, noisy_outputs, answer.value))

    def build_chart() -> DistributionChart:
        return build_distribution_chart(
            decoder, index, noisy_outputs, answer.value, answer.question, outputs[0].label, describe()
        )

    return replace(
        answer if not decoder.is_plottable(index) else attach_picture(answer, build_chart), describe_meaning=describe
    )


def _build_prior_warning(decoder: Decoder, noisy_result: NoisyResult, order: Sequence[int]) -> str | None:
    """Where a raw answer lies in the 1 % tails of what the prior predicts."""
    if decoder.plan.prior is None or len(order) > MAX_CHECKED_ROWS:
        return None
    cells = [noisy_result.numbers[index] for index in order]
    count = sum(any(decoder.is_surprising(place, outputs) for place, outputs in enumerate(cell)) for cell in cells)
    if not count:
        return None
    subject = "the raw answer lies" if len(cells) == 1 else f"{count} of {len(cells)} raw answers lie"
    return (
        f"{subject} in the 1 % tails of what your prior predicts; the prior may be wrong, so look at the raw answer too"
    )


def _get_cost(plan: Plan, paid_epsilon: Fraction) -> Guarantee:
    """The same promise where it was paid for; nothing where it was stored or public."""
    if paid_epsilon:
        return plan.guarantee
    return Guarantee.dp(0, plan.schema.neighbors, plan.schema.unit_name)


def _build_row(decoder: Decoder, cell: Cell, numbers: Sequence[tuple[int, ...]]) -> list[Value | None]:
    values = [decoder.decode_values(index, outputs) for index, outputs in enumerate(numbers)]
    plan = decoder.plan
    return [_get_output_value(plan, output, cell, values) for output in plan.query.presentation.outputs]


def _get_output_value(plan: Plan, output: OutputColumn, cell: Cell, values: Sequence[Sequence[Value]]) -> Value | None:
    if output.key is not None:
        key = plan.query.keys[output.key]
        return format_group_key(plan.schema.column(key.column), key.width, cell[output.key])
    return values[output.aggregate or 0][output.order]


def _map_rows(
    compute_row: Callable[..., Any], noisy_result: NoisyResult, order: tuple[int, ...], *arguments: float
) -> tuple[Any, ...]:
    """Something for each row of the reply, by the names of its numbers."""
    return tuple(compute_row(noisy_result.numbers[index], *arguments) for index in order)


def _compute_intervals(
    decoder: Decoder, numbers: Sequence[tuple[int, ...]], confidence: float
) -> Mapping[str, Interval]:
    return {
        label: decoder.compute_shown_interval(index, numbers[index], confidence)
        for label, index in _list_number_labels(decoder.plan)
    }


def _compute_posteriors(decoder: Decoder, numbers: Sequence[tuple[int, ...]]) -> Mapping[str, Posterior | None]:
    return {
        label: decoder.compute_posterior(index, numbers[index]) for label, index in _list_number_labels(decoder.plan)
    }


def _list_number_labels(plan: Plan) -> list[tuple[str, int]]:
    """The numbers of a reply by name, and the measurement each is of."""
    return [(output.label, output.aggregate or 0) for output in plan.query.presentation.outputs if output.key is None]


def build_public_answer(plan: Plan, question: str, spent_epsilon: Mapping[str, Fraction | None]) -> Answer:
    """The reply where the schema says it all."""
    empty_result = NoisyResult(((),), (tuple(() for _ in plan.measurements),))
    return replace(build_answer(plan, empty_result, question, FREE, None, spent_epsilon), stored=False)
