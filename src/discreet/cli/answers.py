"""How an answer and a preview look: the numbers first, then what they promise, are good for and cost."""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping, Sequence
from datetime import date
from fractions import Fraction
from pathlib import Path

from rich.console import RenderableType
from rich.table import Table

from discreet.answer import Answer, InRange, Interval, Population
from discreet.cli.population import population_lines
from discreet.cli.show import bar, facts, left, table, text, warning
from discreet.custodian import Preview
from discreet.formatting import format_cost, format_number, format_percent_at_least, format_upper, format_value
from discreet.guarantee import Guarantee
from discreet.ledger import Balance
from discreet.ledger.refusal import MOST_TIMES
from discreet.sheet import SPAN, posterior_words, span_told

MOST_ROWS = 200
"""On a screen; JSON has all."""
POSTERIOR = "posterior mean"
RECONCILED = "reconciled"
MOST_BESIDE = 2
"""With more numbers to a row a table has no room for the reconciled ones too; JSON has them."""
ERROR = "expected error (root mean square)"
OTHERS = {
    "shared": ": another analyst's answer is stored, and is told; the data set pays nothing more",
    "degraded": ": another analyst's answer is stored, and is told with noise added; the data set pays nothing more",
}
"""What a preview says of another analyst's stored answer."""
ROWS, WITHIN = "rows with a value, at least", "within"


def answer_screen(
    answer: Answer,
    balances: Sequence[Balance],
    drawn: Path | None = None,
    ranges: Sequence[InRange] = (),
    population: Sequence[Mapping[str, Population]] = (),
) -> Iterator[RenderableType]:
    """One number large and plain, or a table; below it all that belongs to it."""
    spans = answer.intervals(0.95)
    if answer.missed_accuracy:
        yield warning(answer.missed_accuracy)
    if answer.single:
        yield from _one(answer, spans[0])
    else:
        yield _rows(answer, spans)
        if answer.at_once and answer.has_intervals:
            yield answer.at_once
    if len(answer.rows) > MOST_ROWS:
        yield f"... and {len(answer.rows) - MOST_ROWS:,} more rows; --json has all"
    yield from (_range(one) for one in ranges)
    yield from population_lines(answer, population[:MOST_ROWS])
    if answer.warning:
        yield warning(answer.warning)
    pairs = {"question": answer.question, **_promise(answer.guarantee)}
    pairs |= {"mechanism": answer.mechanism, **_accuracy(answer, spans)}
    yield ""
    if answer.reconciled is not None and _fitted(answer):
        where = "" if len(answer.numbers) <= MOST_BESIDE else "with --json; "
        pairs[RECONCILED] = where + "; ".join(answer.reconciled.because)
        pairs |= {"which to use": answer.reconciled.advice} if answer.reconciled.advice else {}
    pairs |= {"cost": _cost(answer), "left": left(balances)}
    yield facts(pairs | ({} if drawn is None else {"picture": str(drawn)}))


def _one(answer: Answer, spans: Mapping[str, Interval]) -> Iterator[RenderableType]:
    """The headline, what is raw of it, its intervals, and what it means."""
    known = answer.posterior
    yield text(format_value(answer.headline, _around(spans)), "bold")
    if answer.shaped:
        raw = "" if answer.headline == answer.value else f"raw: {format_value(answer.value, _around(spans))}, "
        yield f"{raw}a draw shaped by your prior"
    yield from (f"{SPAN}: {span_told(span)}" for span in spans.values() if span is not None)
    yield from (f"{RECONCILED}: {numbers[0]}" for numbers in _fitted(answer).values())
    if known is not None and known.numeric:
        words = posterior_words(known.mean(), known.median(), known.interval(0.95), isinstance(answer.value, date))
        yield f"posterior: {words}"
    if answer.meaning:
        yield answer.meaning
    if answer.prior_use:
        yield answer.prior_use


def _accuracy(answer: Answer, spans: Sequence[Mapping[str, Interval]]) -> dict[str, str]:
    """Nothing where the intervals or the meaning tell it already."""
    told = all(span is not None for row in spans for span in row.values()) or answer.accuracy[1:] in answer.meaning
    return {} if told else {"accuracy": answer.accuracy}


def _range(one: InRange) -> str:
    """With the bins that were counted, where they are not just what was asked for."""
    ends = f"{format_value(one.low)} to {format_value(one.high)}"
    asked = "{} to {}".format(*one.asked)
    same = (str(one.low), str(one.high)) == one.asked
    where = ends if same else f"{asked}, in whole bins {ends}"
    sure = format_percent_at_least(one.confidence)
    return f"{where}: {format_value(one.value, one.interval)}, {sure} {span_told(one.interval)}"


def _around(spans: Mapping[str, Interval]) -> Interval:
    """The interval of a single number."""
    return next(iter(spans.values()), None)


def preview_screen(preview: Preview) -> Iterator[RenderableType]:
    """What would be asked, how, and how good it would be."""
    yield text(preview.question, "bold")
    yield ""
    pairs = {**_promise(preview.guarantee), "mechanism": preview.mechanism, "accuracy": preview.accuracy}
    if preview.reason:
        pairs["why"] = preview.reason
    stored = OTHERS.get(preview.reuse, "")
    if preview.stored is not None:
        stored = f": an answer of epsilon {format_cost(preview.stored)} is stored, and is told"
    if preview.prior_error is not None:
        pairs["prior alone"] = f"an expected error of about {format_number(preview.prior_error)}, without asking"
    if preview.prior_use:
        pairs["prior"] = preview.prior_use
    if preview.compared_with_dp is not None:
        pairs["plain dp"] = f"{preview.compared_with_dp.mechanism}: {preview.compared_with_dp.accuracy}"
        pairs["which model"] = preview.compared_with_dp.words
    pairs |= {"cost": _amount(preview.cost) + stored, "left": left(preview.balances), "more such": _times(preview)}
    yield facts(pairs)
    if preview.accuracy_by_rows:
        yield ""
        yield _by_rows(preview)
    yield ""
    yield _candidates(preview)
    yield from (warning(said) for said in preview.warnings)
    yield ""
    yield "Nothing was charged and no row was read."


def _times(preview: Preview) -> str:
    count = f"{preview.times:,}" if preview.times < MOST_TIMES else f"{MOST_TIMES:,} or more"
    return f"the budget holds {count} such question{'' if preview.times == 1 else 's'}"


def _by_rows(preview: Preview) -> Table:
    """How the accuracy depends on the number of rows."""
    made = table("number", ROWS, WITHIN, right=(ROWS, WITHIN))
    for one in preview.accuracy_by_rows:
        made.add_row(*map(text, (one.name, f"{one.rows:,}", format_upper(one.within))))
    return made


def _candidates(preview: Preview) -> Table:
    """What could answer, with its cost and the error of what it leads to."""
    made = table("", "aggregate", "mechanism", "cost", ERROR, right=(ERROR,))
    for one in preview.candidates:
        error = "depends on the rows" if one.expected_error is None else format_number(one.expected_error)
        cells = ("chosen" if one.chosen else "", one.aggregate, one.mechanism, _amount(one.cost), error)
        made.add_row(*map(text, cells))
    return made


def _promise(guarantee: Guarantee) -> dict[str, str]:
    beside = "; ".join(guarantee.assumptions)
    return {"guarantee": guarantee.words()} | ({"beside it": beside} if beside else {})


def _cost(answer: Answer) -> str:
    if answer.entry is None:
        return "nothing: the schema makes it public"
    if answer.stored:
        return f"nothing: it was answered before, as entry {answer.entry}"
    return f"{_amount(answer.cost)}, as entry {answer.entry}"


def _amount(cost: Guarantee) -> str:
    if cost.rho:
        return f"rho {format_cost(cost.rho)} of zero-concentrated DP"
    delta = f" and delta {format_cost(cost.delta)}" if cost.delta else ""
    return f"epsilon {format_cost(cost.epsilon or Fraction(0))}{delta}"


def _rows(answer: Answer, spans: Sequence[Mapping[str, Interval]]) -> Table:
    """Each number beside its interval; a bar where there is one count or other whole number to a row."""
    told = {name for row in spans for name, span in row.items() if span is not None}
    fitted = _fitted(answer) if len(answer.numbers) <= MOST_BESIDE else {}
    names = [part for name in answer.columns for part in _headings(name, told, fitted)]
    lengths, means = _lengths(answer), _means(answer)
    most = max(lengths, default=0)
    right = (*answer.numbers, RECONCILED, POSTERIOR)
    made = table(*names, *([POSTERIOR] if means else []), *([""] if most else []), right=right)
    for at, (row, around) in enumerate(list(zip(answer.rows, spans, strict=True))[:MOST_ROWS]):
        cells: list[RenderableType] = []
        for name in answer.columns:
            cells.append(text(format_value(row[name], around.get(name))))
            if name in told:
                cells.append(span_told(around[name]))
            if name in fitted:
                cells.append(fitted[name][at])
        if means:
            cells.append(means[at])
        if most:
            cells.append(bar(lengths[at], most))
        made.add_row(*cells)
    return made


def _headings(name: str, told: Container[str], fitted: Container[str]) -> list[str]:
    return [name, *([SPAN] if name in told else []), *([RECONCILED] if name in fitted else [])]


def _fitted(answer: Answer) -> dict[str, list[str]]:
    """The reconciled numbers of the names that have any but raw ones."""
    made = answer.reconciled
    if made is None or (answer.single and answer.prior):  # one number with a prior is told by its posterior
        return {}
    pairs = list(zip(answer.rows, made.rows, strict=True))
    changed = [name for name in answer.numbers if any(raw[name] != fit[name] for raw, fit in pairs)]
    return {name: [format_value(fit[name]) for _, fit in pairs] for name in changed}


def _means(answer: Answer) -> list[str]:
    """The posterior mean of each row shown, where there was a prior for its one number."""
    if len(answer.numbers) != 1 or not answer.prior or len(answer.rows) > MOST_ROWS:
        return []
    laws = [row[answer.numbers[0]] for row in answer.posteriors()]
    return [format_value(law.mean()) if law is not None and law.numeric else "" for law in laws]


def _lengths(answer: Answer) -> list[int]:
    """How long the bar of each row is; none where bars would say nothing."""
    if len(answer.numbers) != 1 or len(answer.rows) < 2:
        return []
    numbers = [row[answer.numbers[0]] for row in answer.rows]
    amounts = int | float if answer.in_range is not None or answer.reconciled is not None else int
    told = [one for one in numbers if isinstance(one, amounts)]  # a row without a bar would be read as 0
    return [round(one) for one in told] if len(told) == len(numbers) else []
