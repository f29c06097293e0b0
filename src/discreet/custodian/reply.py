"""From what was drawn to what the analyst reads: post-processing, so it costs nothing and sees no row."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import cache, partial
from typing import Any

from discreet.answer import Answer, Interval
from discreet.custodian.accuracy import accuracy_of_answer, missed_accuracy, state_accuracy
from discreet.custodian.draw import Released
from discreet.custodian.layout import arranged, key_value, rows_told
from discreet.custodian.nested import nested_answer, ranged
from discreet.custodian.population import generalised, generalises
from discreet.custodian.reader import Reader
from discreet.custodian.reconciling import or_as_drawn, reconciled
from discreet.custodian.stating import Stated
from discreet.custodian.telling import drawing, sentence, with_picture
from discreet.guarantee import Guarantee
from discreet.pictures import Drawing
from discreet.planner.nested import Nested
from discreet.planner.noisy import Noisy
from discreet.planner.plan import Plan
from discreet.posterior import Posterior
from discreet.query.query import Output
from discreet.query.totals import Cell
from discreet.schema.column import Value

FREE = Fraction(0)
MOST_WEIGHED = 512
"""So many rows of a reply are compared with the prior, no more."""


def to_text(plan: Plan, released: Released) -> str:
    """What is stored: the draws, and the epsilon they were made with."""
    numbers = [[list(part) for part in cell] for cell in released.numbers]
    told = {"epsilon": str(plan.epsilon), "cells": [list(cell) for cell in released.cells], "numbers": numbers}
    if plan.rho is not None:
        told["rho"] = str(plan.rho)
    return json.dumps(told, ensure_ascii=False)


def from_text(text: str) -> tuple[Fraction, Fraction | None, Released]:
    """The same, read back: the epsilon, the rho where noise was asked for by its size, and the draws."""
    told = json.loads(text)
    numbers = tuple(tuple(tuple(part) for part in cell) for cell in told["numbers"])
    rho = Fraction(told["rho"]) if "rho" in told else None
    return Fraction(told["epsilon"]), rho, Released(tuple(tuple(cell) for cell in told["cells"]), numbers)


def answer(
    plan: Plan,
    released: Released,
    question: str,
    paid: Fraction,
    entry: int | None,
    spent: Mapping[str, Fraction | None],
    stated: Sequence[Stated] = (),
) -> Answer:
    """The reply, laid out as it was asked; `stated` is what the analyst says must be true of its count."""
    outputs = plan.query.presentation.outputs
    made = Answer(
        question=question,
        columns=tuple(output.label for output in outputs),
        numbers=tuple(output.label for output in outputs if output.key is None),
        rows=(),
        mechanism=plan.mechanism,
        accuracy=state_accuracy(plan, plan.confidence),
        guarantee=plan.guarantee,
        cost=_cost(plan, paid),
        spent=spent,
        stored=paid == FREE and not plan.free,
        entry=entry,
        intervals=lambda _: (),
        posteriors=tuple,
        shaped=plan.uses_prior,
        prior=plan.prior is not None,
        prior_tail=None if plan.prior_use is None else plan.prior_use.tail,
        prior_use=plan.prior_words,
        at_once=plan.coverage.sentence(0.95),
    )
    first = plan.measurements[0]
    if isinstance(first, Nested):
        return nested_answer(made, plan, first, released)
    return _told_by(made, plan, released, stated)


def _told_by(made: Answer, plan: Plan, released: Released, stated: Sequence[Stated]) -> Answer:
    """With a row for every cell."""
    layout, reader = plan.query.presentation, Reader(plan)
    rows = [_row(reader, cell, numbers) for cell, numbers in zip(released.cells, released.numbers, strict=True)]
    order = arranged(rows, layout)
    intervals = cache(partial(_each, partial(_spans, reader), released, tuple(order)))
    shown = rows_told(rows, order, layout)
    told = replace(
        made,
        rows=shown,
        intervals=intervals,
        posteriors=partial(_each, partial(_posteriors, reader), released, tuple(order)),
        warning=_warning(reader, released, order),
        generalise=partial(generalised, reader, released, tuple(order)) if generalises(plan) else None,
    )
    if plan.requested is not None or _depends_on_rows(plan):
        spans = intervals(plan.confidence)
        single = len(released.cells) == 1
        accuracy = accuracy_of_answer(plan, shown, spans, single)
        told = replace(told, accuracy=accuracy, missed_accuracy=missed_accuracy(plan, shown, spans, single))
    fitting = partial(reconciled, told, reader, released, tuple(order), tuple(stated))
    fitted = replace(told, reconcile=cache(partial(or_as_drawn, told, fitting)))
    return ranged(_with_meaning(fitted, reader, released, order), plan, released)


def _depends_on_rows(plan: Plan) -> bool:
    return any(isinstance(one, Noisy) and plan.meaning(one).depends_on_rows for one in plan.measurements)


def _with_meaning(made: Answer, reader: Reader, released: Released, order: Sequence[int]) -> Answer:
    """Of one number: what it says in a sentence, and as a picture."""
    outputs = [output for output in reader.plan.query.presentation.outputs if output.key is None]
    if not made.single or made.rows[0][made.numbers[0]] is None:
        return made
    at = outputs[0].aggregate or 0
    drawn = released.numbers[order[0]][at]
    say = cache(partial(sentence, reader, at, drawn, made.value))

    def draw() -> Drawing:
        return drawing(reader, at, drawn, made.value, made.question, outputs[0].label, say())

    return replace(made if not reader.pictured(at) else with_picture(made, draw), say=say)


def _warning(reader: Reader, released: Released, order: Sequence[int]) -> str | None:
    """Where a raw answer lies in the 1 % tails of what the prior predicts."""
    if reader.plan.prior is None or len(order) > MOST_WEIGHED:
        return None
    cells = [released.numbers[at] for at in order]
    count = sum(any(reader.surprising(place, drawn) for place, drawn in enumerate(cell)) for cell in cells)
    if not count:
        return None
    what = "the raw answer lies" if len(cells) == 1 else f"{count} of {len(cells)} raw answers lie"
    return f"{what} in the 1 % tails of what your prior predicts; the prior may be wrong, so look at the raw answer too"


def _cost(plan: Plan, paid: Fraction) -> Guarantee:
    """The same promise where it was paid for; nothing where it was stored or public."""
    if paid:
        return plan.guarantee
    return Guarantee.dp(0, plan.schema.neighbours, plan.schema.unit_name)


def _row(reader: Reader, cell: Cell, numbers: Sequence[tuple[int, ...]]) -> list[Value | None]:
    values = [reader.values(at, drawn) for at, drawn in enumerate(numbers)]
    plan = reader.plan
    return [_told(plan, output, cell, values) for output in plan.query.presentation.outputs]


def _told(plan: Plan, output: Output, cell: Cell, values: Sequence[Sequence[Value]]) -> Value | None:
    if output.key is not None:
        key = plan.query.keys[output.key]
        return key_value(plan.schema.column(key.column), key.width, cell[output.key])
    return values[output.aggregate or 0][output.order]


def _each(of_cell: Callable[..., Any], released: Released, order: tuple[int, ...], *more: float) -> tuple[Any, ...]:
    """Something for each row of the reply, by the names of its numbers."""
    return tuple(of_cell(released.numbers[at], *more) for at in order)


def _spans(reader: Reader, numbers: Sequence[tuple[int, ...]], confidence: float) -> Mapping[str, Interval]:
    return {label: reader.shown_span(at, numbers[at], confidence) for label, at in _labelled(reader.plan)}


def _posteriors(reader: Reader, numbers: Sequence[tuple[int, ...]]) -> Mapping[str, Posterior | None]:
    return {label: reader.posterior(at, numbers[at]) for label, at in _labelled(reader.plan)}


def _labelled(plan: Plan) -> list[tuple[str, int]]:
    """The numbers of a reply by name, and the measurement each is of."""
    return [(output.label, output.aggregate or 0) for output in plan.query.presentation.outputs if output.key is None]


def public_answer(plan: Plan, question: str, spent: Mapping[str, Fraction | None]) -> Answer:
    """The reply where the schema says it all."""
    nothing = Released(((),), (tuple(() for _ in plan.measurements),))
    return replace(answer(plan, nothing, question, FREE, None, spent), stored=False)
