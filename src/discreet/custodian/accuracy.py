"""How far off an answer may be: stated before it is drawn from public facts, and after it from the answer itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from discreet.accuracy import Accuracy
from discreet.answer import Interval, Reply
from discreet.exact import shown
from discreet.formatting import VALUE_DIGITS, format_upper
from discreet.planner.coverage import NOT_STATED
from discreet.planner.noisy import Noisy
from discreet.planner.plan import Counted, Known, Measurement, Plan

EXAMPLE_ROWS = (100, 1_000, 10_000)
"""The numbers of rows for which the accuracy of a mean is stated, where the number of selected rows is not public."""
ROUNDING = 1e-9


@dataclass(frozen=True, slots=True)
class AccuracyForRows:
    """How far off a mean or variance may be where at least so many selected rows have a value."""

    name: str
    rows: int
    within: float


def accuracy_by_rows(plan: Plan, confidence: float) -> tuple[AccuracyForRows, ...]:
    """The accuracy of each number that depends on the private number of rows, for some numbers of rows."""
    named, each = _names(plan), plan.coverage.each(confidence)
    return tuple(
        AccuracyForRows(named[at], rows, plan.meaning(one).reach(each, rows))
        for at, one in enumerate(plan.measurements)
        if each is not None and at in named and isinstance(one, Noisy) and plan.meaning(one).depends_on_rows
        for rows in _example_rows(plan)
    )


def state_accuracy(plan: Plan, confidence: float) -> str:
    """What may be said of each number's error before it is drawn; by name where there are several."""
    return _join(plan, [_state(plan, one, confidence) for one in plan.measurements])


def accuracy_of_answer(
    plan: Plan, rows: Sequence[Mapping[str, Reply]], intervals: Sequence[Mapping[str, Interval]], single: bool
) -> str:
    """State the accuracy of an answer: where the number of rows matters, only what the answer itself supports.

    `single` says that there was one cell: one of several groups has the interval beside it. It is computed from the
    noisy answer and its interval alone, and from nothing else that was read.
    """
    named, coverage = _names(plan), plan.coverage
    likely = coverage.likely(plan.confidence)
    said = []
    for at, one in enumerate(plan.measurements):
        depends = isinstance(one, Noisy) and plan.meaning(one).depends_on_rows
        if at not in named or not depends or coverage.each(plan.confidence) is None:
            said.append(_state(plan, one, plan.confidence))
            continue
        off = _distance(rows[0][named[at]], intervals[0][named[at]]) if single and rows else None
        if off is None:
            at_once = coverage.sentence(plan.confidence).rstrip(".")
            own = f"each group has its own interval, which holds {likely}"
            said.append(f"{at_once[:1].lower()}{at_once[1:]}" if at_once else own)
        else:
            said.append(f"within {format_upper(off)} {likely}")
    return _join(plan, said)


def missed_accuracy(
    plan: Plan, rows: Sequence[Mapping[str, Reply]], intervals: Sequence[Mapping[str, Interval]], single: bool
) -> str:
    """State that an answer is less accurate than was requested; empty where it is as accurate.

    Like the accuracy of an answer, it follows from the noisy answer alone.
    """
    if plan.requested is None or not any(isinstance(one, Noisy) for one in plan.measurements):
        return ""
    pairs = zip(rows, intervals, strict=True)
    distances = [_distance(row[name], span) for row, spans in pairs for name, span in spans.items()]
    known = [off for off in distances if off is not None]
    missed = [off for off in known if off > _allowed(plan.requested)]
    if not missed:
        return ""
    what = "This answer is" if len(known) == 1 else f"{len(missed):,} of {len(known):,} numbers are"
    off = format_upper(max(missed))
    off = (
        f"it is within {off} {plan.coverage.likely(plan.confidence)}"
        if single
        else f"the widest interval goes {off} from its number"
    )
    expected = f"; fewer rows than the {plan.expected_rows.number:,} you expected seem to have a value"
    why = expected if plan.expected_rows.source == "stated" else ""
    return f"{what} less accurate than the ±{shown(plan.requested.distance)} you requested: {off}{why}."


def _state(plan: Plan, one: Measurement, confidence: float) -> str:
    each, likely = plan.coverage.each(confidence), plan.coverage.likely(confidence)
    if isinstance(one, Known):
        return "exact: the schema makes it public"
    if isinstance(one, Counted):
        return _state_counted(one, each, likely)
    if each is None:
        return NOT_STATED
    if not isinstance(one, Noisy):
        return one.words(each, likely)
    meaning = plan.meaning(one)
    if meaning.depends_on_rows:
        return _state_for_rows(plan, one, each, likely)
    of = "" if one.form.ranks is None else f" of the {one.form.ranks.name}"
    return f"within {format_upper(meaning.reach(each), VALUE_DIGITS)}{of} {likely}"


def _state_counted(one: Counted, confidence: float | None, likely: str) -> str:
    """How far off the count of a key is that is shown: a small one is shown only where its noise is large."""
    said = f"keys of fewer than about {one.threshold.least:,} units are rarely shown, and then with too high a count"
    if confidence is None:
        return f"{said}; {NOT_STATED}"
    reach = format_upper(one.threshold.noise.interval(confidence)[1])
    return f"{said}; others are within {reach} {likely}"


def _state_for_rows(plan: Plan, one: Noisy, confidence: float, likely: str) -> str:
    """How it depends on the number of rows: for the number that was stated, or else for a few of them."""
    meaning, expected = plan.meaning(one), plan.expected_rows
    selected, likely = _selected(plan, one), f"{likely}," if plan.coverage.chosen else likely
    if expected.source == "stated":
        within = format_upper(meaning.reach(confidence, expected.number))
        return f"within {within} {likely} if {selected.format(f'{expected.number:,}')}"
    numbers = [(rows, format_upper(meaning.reach(confidence, rows))) for rows in _example_rows(plan)]
    (first, within), rest = numbers[0], numbers[1:]
    more = "".join(f", {off} if at least {rows:,}" for rows, off in rest)
    said = f"within {within} {likely} if {selected.format(f'{first:,}')}{more}"
    if expected.source != "guess":
        return said
    guess = format_upper(meaning.reach(confidence, expected.number))
    if_so = f" if {expected.assumption}" if expected.assumption else ""
    return f"{said} (only a guess: about {expected.number:,} rows{if_so}, hence within {guess})"


def _selected(plan: Plan, one: Noisy) -> str:
    """A condition on the number of rows; rows without a value do not count."""
    columns = (plan.schema.column(measure.column) for measure in one.form.measures if measure.column)
    if any(column.nullable for column in columns):
        return (
            "at least {} rows of a group have a value" if plan.query.keys else "at least {} selected rows have a value"
        )
    return "a group has at least {} rows" if plan.query.keys else "at least {} rows are selected"


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


def _distance(value: Reply, span: Interval) -> float | None:
    """From a value to the farther end of its interval."""
    ends = _ends(span)
    return None if ends is None or not isinstance(value, int | float) else max(ends[1] - value, value - ends[0])


def _ends(span: Interval) -> tuple[float, float] | None:
    if span is None or not isinstance(span[0], int | float) or not isinstance(span[1], int | float):
        return None
    return float(span[0]), float(span[1])


def _allowed(requested: Accuracy) -> float:
    return float(requested.distance) * (1 + ROUNDING)
