"""Render answers, previews and population estimates for a terminal."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import date
from fractions import Fraction
from pathlib import Path

from rich.console import RenderableType
from rich.table import Table

from discreet.answers.answer import (
    INTERVAL_HEADING,
    Answer,
    PopulationEstimate,
    RangeCount,
    format_answer_interval,
    format_posterior,
)
from discreet.cli.terminal import (
    build_bar,
    build_fields_table,
    build_table,
    build_text,
    build_warning,
    format_balances_left,
)
from discreet.custodian import Preview
from discreet.formatting import (
    format_cost,
    format_interval,
    format_number,
    format_percent_at_least,
    format_upper,
    format_value,
)
from discreet.ledger import Balance
from discreet.ledger.budget_check import MAX_AFFORDABLE
from discreet.privacy.guarantee import Guarantee
from discreet.schema.schema import Interval

POPULATION_COLUMNS = ("for the population", "95 % interval", "noise", "sampling")
MAX_ROWS_SHOWN = 200
"""Rows on a screen; JSON has all."""
POSTERIOR_HEADING = "posterior mean"
RECONCILED_HEADING = "reconciled"
MAX_RECONCILED_COLUMNS = 2
"""With more numbers to a row a table has no room for the reconciled ones too; JSON has them."""
ERROR_HEADING = "expected error (root mean square)"
REUSE_NOTES = {
    "shared": ": another analyst's answer is stored, and is told; the data set pays nothing more",
    "degraded": ": another analyst's answer is stored, and is told with noise added; the data set pays nothing more",
}
"""What a preview says of another analyst's stored answer."""
ROWS_HEADING, WITHIN_HEADING = "rows with a value, at least", "within"


def render_population(answer: Answer, rows: Sequence[Mapping[str, PopulationEstimate]]) -> Iterator[RenderableType]:
    """Render estimates for the population, and the assumptions behind them."""
    if not rows:
        return
    if answer.single:
        estimate = rows[0][answer.numbers[0]]
        number, interval_text, noise, sampling = _format_estimate(estimate)
        confidence_text = format_percent_at_least(estimate.confidence)
        yield f"for the population: {number}, {confidence_text} {interval_text} (noise {noise}, sampling {sampling})"
    else:
        yield ""
        yield _build_population_table(answer, rows)
    words_by_name = {name: estimate.words for row in rows for name, estimate in row.items()}
    if len(set(words_by_name.values())) == 1:
        words_by_name = {"": next(iter(words_by_name.values()))}
    yield from (f"{name}: {words}" if name else words for name, words in words_by_name.items())


def _build_population_table(answer: Answer, rows: Sequence[Mapping[str, PopulationEstimate]]) -> RenderableType:
    keys = [name for name in answer.columns if name not in answer.numbers]
    number_heading = ["number"] if len(rows[0]) > 1 else []
    population_table = build_table(*keys, *number_heading, *POPULATION_COLUMNS, right=POPULATION_COLUMNS)
    for row, estimates in zip(answer.rows, rows, strict=False):
        for name, estimate in estimates.items():
            cells = [format_value(row[key]) for key in keys] + ([name] if number_heading else [])
            population_table.add_row(*map(build_text, (*cells, *_format_estimate(estimate))))
    return population_table


def _format_estimate(estimate: PopulationEstimate) -> tuple[str, str, str, str]:
    noise, sampling = (f"±{format_upper(half_width)}" for half_width in (estimate.noise, estimate.sampling))
    return format_value(estimate.value, estimate.interval), format_interval(*estimate.interval), noise, sampling


def render_answer(
    answer: Answer,
    balances: Sequence[Balance],
    picture: Path | None = None,
    ranges: Sequence[RangeCount] = (),
    population: Sequence[Mapping[str, PopulationEstimate]] = (),
) -> Iterator[RenderableType]:
    """Render one number or a table, and below it all that belongs to it."""
    intervals = answer.intervals(0.95)
    if answer.missed_accuracy:
        yield build_warning(answer.missed_accuracy)
    if answer.single:
        yield from _render_single_number(answer, intervals[0])
    else:
        yield _build_answer_table(answer, intervals)
        if answer.joint_coverage and answer.has_intervals:
            yield answer.joint_coverage
    if len(answer.rows) > MAX_ROWS_SHOWN:
        yield f"... and {len(answer.rows) - MAX_ROWS_SHOWN:,} more rows; --json has all"
    yield from (_format_range_estimate(estimate) for estimate in ranges)
    yield from render_population(answer, population[:MAX_ROWS_SHOWN])
    if answer.warning:
        yield build_warning(answer.warning)
    pairs = {"question": answer.question, **_describe_guarantee(answer.guarantee)}
    pairs["mechanism"] = answer.mechanism
    has_all_intervals = all(interval is not None for row in intervals for interval in row.values())
    if not has_all_intervals and answer.accuracy[1:] not in answer.meaning:
        pairs["accuracy"] = answer.accuracy
    yield ""
    if answer.reconciled is not None and _format_reconciled_values(answer):
        where = "" if len(answer.numbers) <= MAX_RECONCILED_COLUMNS else "with --json; "
        pairs[RECONCILED_HEADING] = where + "; ".join(answer.reconciled.because)
        pairs |= {"which to use": answer.reconciled.advice} if answer.reconciled.advice else {}
    pairs |= {"cost": _describe_cost(answer), "left": format_balances_left(balances)}
    yield build_fields_table(pairs | ({} if picture is None else {"picture": str(picture)}))


def _render_single_number(answer: Answer, intervals: Mapping[str, Interval]) -> Iterator[RenderableType]:
    posterior, single_interval = answer.posterior, next(iter(intervals.values()), None)
    yield build_text(format_value(answer.headline, single_interval), "bold")
    if answer.shaped:
        raw = "" if answer.headline == answer.value else f"raw: {format_value(answer.value, single_interval)}, "
        yield f"{raw}a draw shaped by your prior"
    for interval in intervals.values():
        if interval is not None:
            yield f"{INTERVAL_HEADING}: {format_answer_interval(interval)}"
    yield from (f"{RECONCILED_HEADING}: {numbers[0]}" for numbers in _format_reconciled_values(answer).values())
    if posterior is not None and posterior.numeric:
        numbers = posterior.mean(), posterior.median(), posterior.interval(0.95)
        yield f"posterior: {format_posterior(*numbers, isinstance(answer.value, date))}"
    yield from filter(None, (answer.meaning, answer.prior_use))


def _format_range_estimate(estimate: RangeCount) -> str:
    """With the bins that were counted, where they are not the requested range."""
    ends = f"{format_value(estimate.low)} to {format_value(estimate.high)}"
    requested_range = "{} to {}".format(*estimate.asked)
    is_exact_range = (str(estimate.low), str(estimate.high)) == estimate.asked
    where = ends if is_exact_range else f"{requested_range}, in whole bins {ends}"
    interval_text = f"{format_percent_at_least(estimate.confidence)} {format_answer_interval(estimate.interval)}"
    return f"{where}: {format_value(estimate.value, estimate.interval)}, {interval_text}"


def render_preview(preview: Preview) -> Iterator[RenderableType]:
    """Render what a question would cost, how it would be answered, and how good the answer would be."""
    yield build_text(preview.question, "bold")
    yield ""
    pairs = {**_describe_guarantee(preview.guarantee), "mechanism": preview.mechanism, "accuracy": preview.accuracy}
    if preview.reason:
        pairs["why"] = preview.reason
    stored = REUSE_NOTES.get(preview.reuse, "")
    if preview.stored is not None:
        stored = f": an answer of epsilon {format_cost(preview.stored)} is stored, and is told"
    if preview.prior_error is not None:
        pairs["prior alone"] = f"an expected error of about {format_number(preview.prior_error)}, without asking"
    if preview.prior_use:
        pairs["prior"] = preview.prior_use
    if preview.compared_with_dp is not None:
        pairs["plain dp"] = f"{preview.compared_with_dp.mechanism}: {preview.compared_with_dp.accuracy}"
        pairs["which model"] = preview.compared_with_dp.words
    times = f"{preview.times:,}" if preview.times < MAX_AFFORDABLE else f"{MAX_AFFORDABLE:,} or more"
    plural = "" if preview.times == 1 else "s"
    pairs |= {"cost": _format_amount(preview.cost) + stored, "left": format_balances_left(preview.balances)}
    pairs["more such"] = f"the budget holds {times} such question{plural}"
    yield build_fields_table(pairs)
    if preview.accuracy_by_rows:
        yield ""
        yield _build_rows_table(preview)
    yield ""
    yield _build_candidates_table(preview)
    yield from (build_warning(message) for message in preview.warnings)
    yield ""
    yield "Nothing was charged and no row was read."


def _build_rows_table(preview: Preview) -> Table:
    rows_table = build_table("number", ROWS_HEADING, WITHIN_HEADING, right=(ROWS_HEADING, WITHIN_HEADING))
    for accuracy in preview.accuracy_by_rows:
        rows_table.add_row(*map(build_text, (accuracy.name, f"{accuracy.rows:,}", format_upper(accuracy.within))))
    return rows_table


def _build_candidates_table(preview: Preview) -> Table:
    candidates_table = build_table("", "aggregate", "mechanism", "cost", ERROR_HEADING, right=(ERROR_HEADING,))
    for candidate in preview.candidates:
        error = "depends on the rows" if candidate.expected_error is None else format_number(candidate.expected_error)
        names = ("chosen" if candidate.chosen else "", candidate.aggregate, candidate.mechanism)
        candidates_table.add_row(*map(build_text, (*names, _format_amount(candidate.cost), error)))
    return candidates_table


def _describe_guarantee(guarantee: Guarantee) -> dict[str, str]:
    assumptions = "; ".join(guarantee.assumptions)
    return {"guarantee": guarantee.words()} | ({"beside it": assumptions} if assumptions else {})


def _describe_cost(answer: Answer) -> str:
    if answer.entry is None:
        return "nothing: the schema makes it public"
    if answer.stored:
        return f"nothing: it was answered before, as entry {answer.entry}"
    return f"{_format_amount(answer.cost)}, as entry {answer.entry}"


def _format_amount(cost: Guarantee) -> str:
    if cost.rho:
        return f"rho {format_cost(cost.rho)} of zero-concentrated DP"
    delta = f" and delta {format_cost(cost.delta)}" if cost.delta else ""
    return f"epsilon {format_cost(cost.epsilon or Fraction(0))}{delta}"


def _build_answer_table(answer: Answer, intervals: Sequence[Mapping[str, Interval]]) -> Table:
    """Each number beside its interval; a bar where there is one count or other whole number to a row."""
    interval_names = {name for row in intervals for name, interval in row.items() if interval is not None}
    reconciled_values = _format_reconciled_values(answer) if len(answer.numbers) <= MAX_RECONCILED_COLUMNS else {}
    names = []
    for name in answer.columns:
        names += [name, *([INTERVAL_HEADING] if name in interval_names else [])]
        names += [RECONCILED_HEADING] if name in reconciled_values else []
    lengths, means = _compute_bar_lengths(answer), _format_posterior_means(answer)
    longest = max(lengths, default=0)
    right = (*answer.numbers, RECONCILED_HEADING, POSTERIOR_HEADING)
    answer_table = build_table(*names, *([POSTERIOR_HEADING] if means else []), *([""] if longest else []), right=right)
    for index, (row, row_intervals) in enumerate(list(zip(answer.rows, intervals, strict=True))[:MAX_ROWS_SHOWN]):
        cells: list[RenderableType] = []
        for name in answer.columns:
            cells.append(build_text(format_value(row[name], row_intervals.get(name))))
            if name in interval_names:
                cells.append(format_answer_interval(row_intervals[name]))
            if name in reconciled_values:
                cells.append(reconciled_values[name][index])
        if means:
            cells.append(means[index])
        if longest:
            cells.append(build_bar(lengths[index], longest))
        answer_table.add_row(*cells)
    return answer_table


def _format_reconciled_values(answer: Answer) -> dict[str, list[str]]:
    """The reconciled numbers of the names that have any but raw ones."""
    reconciliation = answer.reconciled
    if reconciliation is None or (answer.single and answer.prior):  # one number with a prior is told by its posterior
        return {}
    pairs = list(zip(answer.rows, reconciliation.rows, strict=True))
    changed = [name for name in answer.numbers if any(raw[name] != fitted[name] for raw, fitted in pairs)]
    return {name: [format_value(fitted[name]) for _, fitted in pairs] for name in changed}


def _format_posterior_means(answer: Answer) -> list[str]:
    """The posterior mean of each row shown, where there was a prior for its one number."""
    if len(answer.numbers) != 1 or not answer.prior or len(answer.rows) > MAX_ROWS_SHOWN:
        return []
    posteriors = [row[answer.numbers[0]] for row in answer.posteriors()]
    return [
        format_value(posterior.mean()) if posterior is not None and posterior.numeric else ""
        for posterior in posteriors
    ]


def _compute_bar_lengths(answer: Answer) -> list[int]:
    """The length of the bar of each row; none where bars would say nothing."""
    if len(answer.numbers) != 1 or len(answer.rows) < 2:
        return []
    numbers = [row[answer.numbers[0]] for row in answer.rows]
    number_types = int | float if answer.reconciled is not None else int
    lengths = [round(number) for number in numbers if isinstance(number, number_types)]
    return lengths if len(lengths) == len(numbers) else []  # a row without a bar would be read as 0
