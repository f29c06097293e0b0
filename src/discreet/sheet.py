"""An answer on one sheet: its numbers, what they mean, what is promised; for a terminal and for a notebook."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import TYPE_CHECKING

from discreet.formatting import format_day, format_day_ends, format_estimate, format_interval, format_value

if TYPE_CHECKING:
    from discreet.answer import Answer, Interval

MOST_ROWS = 50
SPAN = "95 % interval"


def as_text(answer: Answer) -> str:
    """For people who print it."""
    head, *rows = _cells(answer)
    widths = [max(len(line[at]) for line in (head, *rows)) for at in range(len(head))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)) for line in (head, *rows)]
    first = [answer.missed_accuracy] if answer.missed_accuracy else []
    return "\n".join(line.rstrip() for line in (*first, *lines, *_below(answer)))


def as_html(answer: Answer) -> str:
    """For notebooks; every value is escaped."""
    head, *rows = _cells(answer)
    titles = "".join(f"<th>{escape(cell)}</th>" for cell in head)
    body = "".join(f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>" for row in rows)
    below = "".join(f"<p>{escape(line)}</p>" for line in _below(answer))
    first = f"<p><strong>{escape(answer.missed_accuracy)}</strong></p>" if answer.missed_accuracy else ""
    return f"{first}<table><thead><tr>{titles}</tr></thead><tbody>{body}</tbody></table>{below}"


def _cells(answer: Answer) -> list[list[str]]:
    """The names of the columns, then each row; numbers beside their intervals where there are any."""
    spans = answer.intervals(0.95)
    told = {name for row in spans for name, span in row.items() if span is not None}
    lines = [[part for name in answer.columns for part in ([name, SPAN] if name in told else [name])]]
    for row, around in list(zip(answer.rows, spans, strict=True))[:MOST_ROWS]:
        cells = (
            [format_value(row[name], around.get(name)), *([span_told(around[name])] if name in told else [])]
            for name in answer.columns
        )
        lines.append([part for pair in cells for part in pair])
    return lines


def _below(answer: Answer) -> list[str]:
    more = len(answer.rows) - MOST_ROWS
    rest = [f"... and {more:,} more; rows has all"] if more > 0 else []
    warned = [f"Warning: {answer.warning}"] if answer.warning else []
    return [line for line in (*rest, answer.meaning, answer.prior_use, *warned, answer.guarantee.words()) if line]


def span_told(span: Interval) -> str:
    """An interval as people read it; nothing where there is none."""
    return "" if span is None else format_interval(*span)


def posterior_words(mean: float, median: float, span: Sequence[float], dates: bool) -> str:
    """A posterior over numbers, or over dates as days since 1970-01-01, in a line."""
    if dates:
        middle, half, (low, high) = format_day(mean), format_day(median), format_day_ends(*span)
    else:
        (middle, low, high), (half, _, _) = format_estimate(mean, *span), format_estimate(median, *span)
    return f"mean {middle}, median {half}, 95 % {low} to {high}"
