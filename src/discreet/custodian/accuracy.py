"""How far off an answer may be: stated before it is drawn from public facts, and after it from the answer itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from discreet.accuracy import Accuracy
from discreet.answer import Interval, Reply
from discreet.exact import shown
from discreet.formatting import VALUE_DIGITS, format_percent_at_least, format_upper
from discreet.planner.noisy import Noisy
from discreet.planner.plan import Counted, Known, Measurement, Plan

EXAMPLE_ROWS = (100, 1_000, 10_000)
"""The numbers of rows for which the accuracy of a mean is stated, where the number of selected rows is not public."""
ROUNDING = 1e-9


@dataclass(frozen=True, slots=True)
class AccuracyForRows:
    """How far off a mean or variance may be where at least so many rows are selected."""

    name: str
    rows: int
    within: float


def accuracy_by_rows(plan: Plan, confidence: float) -> tuple[AccuracyForRows, ...]:
    """The accuracy of each number that depends on the private number of rows, for some numbers of rows."""
    named = _names(plan)
    return tuple(
        AccuracyForRows(named[at], rows, plan.meaning(one).reach(confidence, rows))
        for at, one in enumerate(plan.measurements)
        if at in named and isinstance(one, Noisy) and plan.meaning(one).depends_on_rows
        for rows in _example_rows(plan)
    )


def state_accuracy(plan: Plan, confidence: float) -> str:
    """What may be said of each number's error before it is drawn; by name where there are several."""
    return _join(plan, [_state(plan, one, confidence) for one in plan.measurements])


def accuracy_of_answer(
    plan: Plan, rows: Sequence[Mapping[str, Reply]], intervals: Sequence[Mapping[str, Interval]]
) -> str:
    """The same once it is drawn: where the number of rows matters, only what the answer itself supports."""
    named = _names(plan)
    said = []
    for at, one in enumerate(plan.measurements):
        if at not in named or not (isinstance(one, Noisy) and plan.meaning(one).depends_on_rows):
            said.append(_state(plan, one, plan.confidence))
        elif len(rows) == 1:
            off = _distance(rows[0][named[at]], intervals[0][named[at]])
            said.append(f"within {format_upper(off or 0.0)} {_likely(plan.confidence)}")
        else:
            said.append(f"each group has its own interval, which holds {_likely(plan.confidence)}")
    return _join(plan, said)


def missed_accuracy(
    plan: Plan, rows: Sequence[Mapping[str, Reply]], intervals: Sequence[Mapping[str, Interval]]
) -> str:
    """That an answer is less accurate than was requested; nothing where it is as accurate."""
    if plan.requested is None or not any(isinstance(one, Noisy) for one in plan.measurements):
        return ""
    halves = [_half(span) for row in intervals for span in row.values()]
    missed = [half for half in halves if half is not None and half > _allowed(plan.requested)]
    if not missed:
        return ""
    wide = f"half the {format_percent_at_least(plan.confidence)} interval is {format_upper(max(missed))}"
    what = "This answer is" if len(rows) == 1 else f"{len(missed)} of {len(halves)} groups are"
    expected = plan.expected_rows
    why = f": fewer than the {expected.number:,} rows you expected seem to be selected" if expected.number > 1 else ""
    return f"{what} less accurate than the ±{shown(plan.requested.distance)} you requested ({wide}){why}."


def _state(plan: Plan, one: Measurement, confidence: float) -> str:
    likely = _likely(confidence)
    if isinstance(one, Known):
        return "exact: the schema makes it public"
    if isinstance(one, Counted):
        reach = one.threshold.noise.interval(confidence)[1]
        least = one.threshold.least
        return (
            f"keys of fewer than about {least:,} units are not shown; others are within {format_upper(reach)} {likely}"
        )
    if not isinstance(one, Noisy):
        return one.words(confidence)
    meaning = plan.meaning(one)
    if meaning.depends_on_rows:
        return _state_for_rows(plan, one, confidence)
    of = "" if one.form.ranks is None else f" of the {one.form.ranks.name}"
    return f"within {format_upper(meaning.reach(confidence), VALUE_DIGITS)}{of} {likely}"


def _state_for_rows(plan: Plan, one: Noisy, confidence: float) -> str:
    """How it depends on the number of rows: for the number that was stated, or else for a few of them."""
    meaning, expected = plan.meaning(one), plan.expected_rows
    selected = "a group has at least {} rows" if plan.query.keys else "at least {} rows are selected"
    if expected.source == "stated":
        within = format_upper(meaning.reach(confidence, expected.number))
        return f"within {within} {_likely(confidence)} if {selected.format(f'{expected.number:,}')}"
    numbers = [(rows, format_upper(meaning.reach(confidence, rows))) for rows in _example_rows(plan)]
    (first, within), rest = numbers[0], numbers[1:]
    more = "".join(f", {off} if at least {rows:,}" for rows, off in rest)
    said = f"within {within} {_likely(confidence)} if {selected.format(f'{first:,}')}{more}"
    if expected.source != "guess":
        return said
    guess = format_upper(meaning.reach(confidence, expected.number))
    if_so = f" if {expected.assumption}" if expected.assumption else ""
    return f"{said} (only a guess: about {expected.number:,} rows{if_so}, hence within {guess})"


def _example_rows(plan: Plan) -> tuple[int, ...]:
    """Numbers of rows that there can be."""
    units = plan.schema.units
    most = EXAMPLE_ROWS[-1] if units is None else units * plan.schema.rows
    return tuple(rows for rows in EXAMPLE_ROWS if rows <= most) or (most,)


def _names(plan: Plan) -> dict[int, str]:
    """The label of each measurement in the reply."""
    outputs = (output for output in plan.query.presentation.outputs if output.key is None)
    return {output.aggregate or 0: output.label for output in outputs if output.order == 0}


def _join(plan: Plan, said: Sequence[str]) -> str:
    if len(said) == 1:
        return said[0]
    named = _names(plan)
    return "; ".join(f"{named[at]}: {words}" for at, words in enumerate(said) if at in named)


def _likely(confidence: float) -> str:
    return f"with a probability of at least {format_percent_at_least(confidence)}"


def _distance(value: Reply, span: Interval) -> float | None:
    """From a value to the farther end of its interval."""
    ends = _ends(span)
    return None if ends is None or not isinstance(value, int | float) else max(ends[1] - value, value - ends[0])


def _half(span: Interval) -> float | None:
    ends = _ends(span)
    return None if ends is None else (ends[1] - ends[0]) / 2


def _ends(span: Interval) -> tuple[float, float] | None:
    if span is None or not isinstance(span[0], int | float) or not isinstance(span[1], int | float):
        return None
    return float(span[0]), float(span[1])


def _allowed(requested: Accuracy) -> float:
    return float(requested.distance) * (1 + ROUNDING)
