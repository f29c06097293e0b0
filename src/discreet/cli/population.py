"""How an answer's estimates for the population look: a line for one number, a table for more; both parts named."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from rich.console import RenderableType

from discreet.answer import Answer, PopulationEstimate
from discreet.cli.show import build_table, build_text
from discreet.formatting import format_interval, format_percent_at_least, format_upper, format_value

POPULATION_COLUMNS = ("for the population", "95 % interval", "noise", "sampling")


def render_population(answer: Answer, rows: Sequence[Mapping[str, PopulationEstimate]]) -> Iterator[RenderableType]:
    """What is known of the population, and what that takes for granted."""
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
    """A line for each number of each row, by its keys."""
    keys = [name for name in answer.columns if name not in answer.numbers]
    several = len(rows[0]) > 1
    population_table = build_table(
        *keys, *(["number"] if several else []), *POPULATION_COLUMNS, right=POPULATION_COLUMNS
    )
    for row, estimates in zip(answer.rows, rows, strict=False):
        for name, estimate in estimates.items():
            cells = [format_value(row[key]) for key in keys] + ([name] if several else [])
            population_table.add_row(*(build_text(cell) for cell in (*cells, *_format_estimate(estimate))))
    return population_table


def _format_estimate(estimate: PopulationEstimate) -> tuple[str, str, str, str]:
    noise, sampling = (f"±{format_upper(half_width)}" for half_width in (estimate.noise, estimate.sampling))
    return format_value(estimate.value, estimate.interval), format_interval(*estimate.interval), noise, sampling
