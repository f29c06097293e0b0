"""How an answer's estimates for the population look: a line for one number, a table for more; both parts named."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from rich.console import RenderableType

from discreet.answer import Answer, Population
from discreet.cli.show import table, text
from discreet.formatting import format_interval, format_percent_at_least, format_upper, format_value

NUMBERS = ("for the population", "95 % interval", "noise", "sampling")


def population_lines(answer: Answer, rows: Sequence[Mapping[str, Population]]) -> Iterator[RenderableType]:
    """What is known of the population, and what that takes for granted."""
    if not rows:
        return
    if answer.single:
        one = rows[0][answer.numbers[0]]
        number, span, noise, sampling = _numbers(one)
        sure = format_percent_at_least(one.confidence)
        yield f"for the population: {number}, {sure} {span} (noise {noise}, sampling {sampling})"
    else:
        yield ""
        yield _table(answer, rows)
    said = {name: one.words for row in rows for name, one in row.items()}
    if len(set(said.values())) == 1:
        said = {"": next(iter(said.values()))}
    yield from (f"{name}: {words}" if name else words for name, words in said.items())


def _table(answer: Answer, rows: Sequence[Mapping[str, Population]]) -> RenderableType:
    """A line for each number of each row, by its keys."""
    keys = [name for name in answer.columns if name not in answer.numbers]
    several = len(rows[0]) > 1
    made = table(*keys, *(["number"] if several else []), *NUMBERS, right=NUMBERS)
    for row, estimates in zip(answer.rows, rows, strict=False):
        for name, one in estimates.items():
            cells = [format_value(row[key]) for key in keys] + ([name] if several else [])
            made.add_row(*(text(cell) for cell in (*cells, *_numbers(one))))
    return made


def _numbers(one: Population) -> tuple[str, str, str, str]:
    noise, sampling = (f"±{format_upper(reach)}" for reach in (one.noise, one.sampling))
    return format_value(one.value, one.interval), format_interval(*one.interval), noise, sampling
