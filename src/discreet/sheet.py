"""An answer on one sheet: its numbers, what they mean, what is promised; for a terminal and for a notebook."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import TYPE_CHECKING

from discreet.formatting import format_day, format_day_ends, format_estimate, format_interval, format_value

if TYPE_CHECKING:
    from discreet.answer import Answer, Interval

MAX_TEXT_ROWS = 50
INTERVAL_HEADING = "95 % interval"


def format_answer_text(answer: Answer) -> str:
    """For people who print it."""
    head, *rows = _build_cells(answer)
    widths = [max(len(line[index]) for line in (head, *rows)) for index in range(len(head))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)) for line in (head, *rows)]
    first_lines = [answer.missed_accuracy] if answer.missed_accuracy else []
    return "\n".join(line.rstrip() for line in (*first_lines, *lines, *_build_footer(answer)))


def format_answer_html(answer: Answer) -> str:
    """For notebooks; every value is escaped."""
    head, *rows = _build_cells(answer)
    titles = "".join(f"<th>{escape(cell)}</th>" for cell in head)
    body = "".join(f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>" for row in rows)
    footer = "".join(f"<p>{escape(line)}</p>" for line in _build_footer(answer))
    first_line = f"<p><strong>{escape(answer.missed_accuracy)}</strong></p>" if answer.missed_accuracy else ""
    return f"{first_line}<table><thead><tr>{titles}</tr></thead><tbody>{body}</tbody></table>{footer}"


def _build_cells(answer: Answer) -> list[list[str]]:
    """The names of the columns, then each row; numbers beside their intervals where there are any."""
    intervals = answer.intervals(0.95)
    interval_columns = {name for row in intervals for name, interval in row.items() if interval is not None}
    lines = [
        [part for name in answer.columns for part in ([name, INTERVAL_HEADING] if name in interval_columns else [name])]
    ]
    for row, row_intervals in list(zip(answer.rows, intervals, strict=True))[:MAX_TEXT_ROWS]:
        cells = (
            [
                format_value(row[name], row_intervals.get(name)),
                *([format_answer_interval(row_intervals[name])] if name in interval_columns else []),
            ]
            for name in answer.columns
        )
        lines.append([part for pair in cells for part in pair])
    return lines


def _build_footer(answer: Answer) -> list[str]:
    hidden_rows = len(answer.rows) - MAX_TEXT_ROWS
    hidden_note = [f"... and {hidden_rows:,} more; rows has all"] if hidden_rows > 0 else []
    warning_line = [f"Warning: {answer.warning}"] if answer.warning else []
    return [
        line
        for line in (*hidden_note, answer.meaning, answer.prior_use, *warning_line, answer.guarantee.words())
        if line
    ]


def format_answer_interval(interval: Interval) -> str:
    """An interval as people read it; nothing where there is none."""
    return "" if interval is None else format_interval(*interval)


def format_posterior(mean: float, median: float, interval: Sequence[float], dates: bool) -> str:
    """A posterior over numbers, or over dates as days since 1970-01-01, in a line."""
    if dates:
        mean_text, median_text, (low, high) = format_day(mean), format_day(median), format_day_ends(*interval)
    else:
        (mean_text, low, high), (median_text, _, _) = (
            format_estimate(mean, *interval),
            format_estimate(median, *interval),
        )
    return f"mean {mean_text}, median {median_text}, 95 % {low} to {high}"
