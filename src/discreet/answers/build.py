"""From noisy outputs to what the analyst reads: post-processing, so it costs nothing and sees no row."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import cache, partial
from typing import Any

from discreet.answers.answer import Answer
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
from discreet.answers.reconciled_counts import reconcile_answer, reconcile_or_keep_raw
from discreet.charts import DistributionChart
from discreet.estimation.constraint_set import StatedConstraint
from discreet.planner.plan import NoisyResult, Plan
from discreet.privacy.guarantee import Guarantee
from discreet.query.scan import Cell
from discreet.schema.column import Value

FREE = Fraction(0)
MAX_CHECKED_ROWS = 512
"""So many rows of a reply are compared with the prior, at most."""


def serialize_result(plan: Plan, noisy_result: NoisyResult) -> str:
    """Serialize what is stored: the noisy outputs, and the epsilon they were drawn with."""
    numbers = [[list(part) for part in cell] for cell in noisy_result.numbers]
    payload = {"epsilon": str(plan.epsilon), "cells": [list(cell) for cell in noisy_result.cells], "numbers": numbers}
    if plan.rho is not None:
        payload["rho"] = str(plan.rho)
    return json.dumps(payload, ensure_ascii=False)


def parse_result(text: str) -> tuple[Fraction, Fraction | None, NoisyResult]:
    """Read it back: the epsilon, the rho where noise was asked for by its size, and the noisy outputs."""
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
    """Build the reply, laid out as it was asked; `constraints` are what the analyst states of its count."""
    outputs = plan.query.presentation.outputs
    base_answer = Answer(
        question=question,
        columns=tuple(output.label for output in outputs),
        numbers=tuple(output.label for output in outputs if output.key is None),
        rows=(),
        mechanism=plan.mechanism,
        accuracy=state_accuracy(plan, plan.confidence),
        guarantee=plan.guarantee,
        cost=plan.guarantee if paid_epsilon else Guarantee.dp(0, plan.schema.neighbors, plan.schema.unit_name),
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
    if plan.hierarchy is not None:
        return build_hierarchical_answer(base_answer, plan, plan.hierarchy, noisy_result)
    return _fill_rows(base_answer, plan, noisy_result, constraints)


def _fill_rows(
    answer: Answer, plan: Plan, noisy_result: NoisyResult, constraints: Sequence[StatedConstraint]
) -> Answer:
    presentation, decoder = plan.query.presentation, Decoder(plan)
    cells = zip(noisy_result.cells, noisy_result.numbers, strict=True)
    rows = [_build_row(decoder, cell, numbers) for cell, numbers in cells]
    order = tuple(select_answer_rows(rows, presentation))
    intervals = cache(partial(_map_numbers, decoder, noisy_result, order, decoder.compute_shown_interval))
    answer_rows = label_rows(rows, order, presentation)
    has_population = has_population_numbers(plan)
    answer = replace(
        answer,
        rows=answer_rows,
        intervals=intervals,
        posteriors=partial(_map_numbers, decoder, noisy_result, order, decoder.compute_posterior),
        warning=_build_prior_warning(decoder, noisy_result, order),
        estimate_population=partial(estimate_population, decoder, noisy_result, order) if has_population else None,
    )
    if plan.target_accuracy is not None or any(reading.depends_on_rows for reading in plan.readings):
        shown_intervals = intervals(plan.confidence)
        single = len(noisy_result.cells) == 1
        accuracy = state_answer_accuracy(plan, answer_rows, shown_intervals, single)
        missed_accuracy = describe_missed_accuracy(plan, answer_rows, shown_intervals, single)
        answer = replace(answer, accuracy=accuracy, missed_accuracy=missed_accuracy)
    reconcile_rows = partial(reconcile_answer, answer, decoder, noisy_result, order, tuple(constraints))
    answer = replace(answer, reconcile=cache(partial(reconcile_or_keep_raw, answer, reconcile_rows)))
    return attach_ranges(_attach_meaning(answer, decoder, noisy_result, order), plan, noisy_result)


def _attach_meaning(answer: Answer, decoder: Decoder, noisy_result: NoisyResult, order: Sequence[int]) -> Answer:
    """The answer, if it is one number, with what it says in a sentence, and as a picture."""
    if not answer.single or answer.rows[0][answer.numbers[0]] is None:
        return answer
    ((label, index),) = _list_number_labels(decoder.plan)
    noisy_outputs = noisy_result.numbers[order[0]][index]
    describe = cache(partial(describe_meaning, decoder, index, noisy_outputs, answer.value))

    def build_chart() -> DistributionChart:
        return build_distribution_chart(decoder, index, noisy_outputs, answer.value, answer.question, label, describe())

    described_answer = replace(answer, describe_meaning=describe)
    return (
        attach_picture(described_answer, build_chart) if decoder.plan.readings[index].is_plottable else described_answer
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


def _build_row(decoder: Decoder, cell: Cell, numbers: Sequence[tuple[int, ...]]) -> list[Value | None]:
    values = [decoder.decode_values(index, outputs) for index, outputs in enumerate(numbers)]
    row: list[Value | None] = []
    for output in decoder.plan.query.presentation.outputs:
        if output.key is None:
            row.append(values[output.aggregate or 0][output.order])
        else:
            key = decoder.plan.query.keys[output.key]
            column = decoder.plan.schema.column(key.column)
            row.append(format_group_key(column, key.width, cell[output.key]))
    return row


def _map_numbers(
    decoder: Decoder, noisy_result: NoisyResult, order: Sequence[int], compute: Callable[..., Any], *arguments: float
) -> tuple[Mapping[str, Any], ...]:
    """A value computed for each number of each row of the reply, by the names of the numbers."""
    labels = _list_number_labels(decoder.plan)
    rows = (noisy_result.numbers[row] for row in order)
    return tuple({label: compute(index, row[index], *arguments) for label, index in labels} for row in rows)


def _list_number_labels(plan: Plan) -> list[tuple[str, int]]:
    """The numbers of a reply by name, and the measurement each is of."""
    return [(output.label, output.aggregate or 0) for output in plan.query.presentation.outputs if output.key is None]


def build_public_answer(plan: Plan, question: str, spent_epsilon: Mapping[str, Fraction | None]) -> Answer:
    """Build the reply where the schema makes every number public."""
    empty_result = NoisyResult(((),), (tuple(() for _ in plan.readings),))
    return replace(build_answer(plan, empty_result, question, FREE, None, spent_epsilon), stored=False)
