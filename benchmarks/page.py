"""docs/benchmarks.md from what was seen: every figure comes from benchmarks/results.json, and who loses is marked.

A row of a table is won, level (within a twentieth, or what chance needs) or lost; DuckDB, which keeps nothing private,
does not compete.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from benchmarks.programs import PROGRAMS, Program
from benchmarks.results import LESS, ROOT

PAGE = ROOT / "docs" / "benchmarks.md"
WON, EVEN, LOST, ALONE = "wins", "level", "loses", ""
Facts = Mapping[str, Any]


def format_results(results: Facts) -> str:
    """The results as text, with no more digits than anybody reads."""
    return json.dumps(_round_figures(results), indent=1, ensure_ascii=False)


def _round_figures(value: Any) -> Any:
    if isinstance(value, float):
        return float(f"{value:.4g}") if math.isfinite(value) else "infinite"
    if isinstance(value, dict):
        return {key: _round_figures(each) for key, each in value.items()}
    return [_round_figures(each) for each in value] if isinstance(value, list) else value


def write_page(results: Facts) -> None:
    """The page and its pictures."""
    from benchmarks import charts

    charts.write_charts(results)
    PAGE.write_text(format_page(results), encoding="utf-8")


def format_page(results: Facts) -> str:
    """The page; the same results always give the same text."""
    return (
        "\n".join(
            [*_format_opening(results), *_format_score(results), *_format_losses(results), *_format_sections(results)]
        )
        + "\n"
    )


def _format_opening(results: Facts) -> Iterator[str]:
    yield "# Comparisons"
    yield ""
    yield "discreet beside other libraries, on the same data in the same run. This page is written by"
    yield "`python -m benchmarks` from what was seen; no figure is typed by hand. Where discreet loses comes first."
    yield ""
    yield "| measured with | |"
    yield "|---|---|"
    last = max(results.values(), key=lambda run: run["when"], default=None)
    if last:
        yield from (f"| {name} | {each} |" for name, each in last["machine"].items())
        yield f"| versions | {', '.join(f'{name} {each}' for name, each in last['versions'].items())} |"
        yield f"| last run | {last['when']} |"
    yield ""
    yield "Every library but discreet is installed in an environment of its own from a lock with hashes"
    yield "(`benchmarks/peers`). Times are medians; a first answer of its kind stands beside a warm one. A load above"
    yield "the number of cores, told with each run, means that the machine was busy with other work: then times on the"
    yield "clock are too long for everybody, and ratios and times on the processor say more."
    yield ""


def _format_score(results: Facts) -> Iterator[str]:
    yield "## Won, level and lost"
    yield ""
    yield "| comparison | won | level | lost | bars cleared | bars missed |"
    yield "|---|---:|---:|---:|---:|---:|"
    for program, run in _list_runs(results):
        verdicts = [judge_row(table, row)[0] for table in run["tables"] for row in table["rows"]]
        missed = sum(not line["cleared"] for line in run["lines"])
        counts = [verdicts.count(each) for each in (WON, EVEN, LOST)] + [len(run["lines"]) - missed, missed]
        yield f"| [{program.title}](#{program.name}) | {' | '.join(map(str, counts))} |"
    yield ""
    yield 'A bar is a figure that the project sets itself, such as "within 1.3 times DuckDB and 20 ms".'
    yield ""


def _format_losses(results: Facts) -> Iterator[str]:
    yield "## Where discreet loses"
    yield ""
    for program, run in _list_runs(results):
        for table in run["tables"]:
            verdicts = [(row["name"], judge_row(table, row)) for row in table["rows"]]
            lost = [f"{name} ({words.removeprefix('loses to ')})" for name, (mark, words) in verdicts if mark == LOST]
            if lost:
                yield f"- [{program.title}](#{program.name}), {table['title']}: {'; '.join(lost)}."
        for line in run["lines"]:
            if not line["cleared"]:
                yield f"- [{program.title}](#{program.name}), a bar missed: {_format_bar(line)}."
    yield ""


def _format_sections(results: Facts) -> Iterator[str]:
    from benchmarks.charts import CHARTS

    for program, run in _list_runs(results):
        yield f"## {program.title} {{#{program.name}}}"
        yield ""
        yield program.words
        yield ""
        took = f"it took {format_cell(run['seconds'])} s on {run['when']}, {_format_load(run)}"
        yield f"Repeat it with `{run['command']}`; {took}."
        yield ""
        for name, title in CHARTS.get(program.name, {}).items():
            yield f"![{title}](images/benchmarks/{name}.svg)"
            yield ""
        for table in run["tables"]:
            yield from _format_table(table)
        yield from _format_lines(run["lines"])
        if run["notes"]:
            yield "No figure, and why:"
            yield ""
            yield from (f"- {_escape(note)}" for note in run["notes"])
            yield ""


def _list_runs(results: Facts) -> Iterator[tuple[Program, Facts]]:
    return ((program, results[program.name]) for program in PROGRAMS if program.name in results)


def _format_load(run: Facts) -> str:
    busy = run["load"] > int(run["machine"]["cores"])
    return f"at a load of {run['load']:.1f} when it began" + (" (a busy machine)" if busy else "")


def _format_table(table: Facts) -> Iterator[str]:
    is_judged = bool(table["ours"]) and any(judge_row(table, row)[0] for row in table["rows"])
    unit = f", {table['unit']}" if table["unit"] else ""
    yield f"**{table['title']}{unit}**"
    yield ""
    yield f"| | {' | '.join(table['columns'])} |" + (" discreet |" if is_judged else "")
    yield "|---|" + "---:|" * len(table["columns"]) + ("---|" if is_judged else "")
    for row in table["rows"]:
        mark, words = judge_row(table, row)
        cells = " | ".join(format_cell(cell) for cell in row["cells"])
        words = f"**{words}**" if mark == LOST else words
        yield f"| {row['name']} | {cells} |" + (f" {words} |" if is_judged else "")
    yield ""


def judge_row(table: Facts, row: Facts) -> tuple[str, str]:
    """Whether discreet wins, and against whom by how many times; nothing where nobody competes."""
    cells = dict(zip(table["columns"], row["cells"], strict=True))
    others = {name: cell for name, cell in cells.items() if name != table["ours"] and name not in table["apart"]}
    competitors = {name: cell for name, cell in others.items() if isinstance(cell, int | float)}
    ours = cells.get(table["ours"])
    if not row["better"] or not competitors or not isinstance(ours, int | float):
        return ALONE, ""
    less = row["better"] == LESS
    best = (min if less else max)(competitors, key=lambda name: competitors[name])
    level = row.get("level") or table["level"]
    mark, words = _compare_figures(ours, competitors[best], best, less, level)
    behind = sum(_compare_figures(ours, other, "", less, level)[0] == WON for other in competitors.values())
    return mark, words + (f"; ahead of {behind} of {len(competitors)}" if mark == LOST and len(competitors) > 1 else "")


def _compare_figures(ours: float, other: float, best: str, less: bool, level: float) -> tuple[str, str]:
    if ours == other:
        return EVEN, f"level with {best}"
    low, high = sorted((ours, other))
    times = high / low if low > 0 else float("inf")
    ratio = f"{times:.3g} times" if times < 1e6 else "by all of it"
    if times < level:
        return EVEN, f"level with {best}"
    won = (ours < other) == less
    return (WON, f"wins, {best} {ratio}") if won else (LOST, f"loses to {best}, {ratio}")


def _format_lines(lines: Sequence[Facts]) -> Iterator[str]:
    if not lines:
        return
    yield "| bar | figure | | | beside |"
    yield "|---|---:|---|---|---|"
    for line in lines:
        mark = "cleared" if line["cleared"] else "**missed**"
        sign = "≥" if line["least"] else "≤"
        figure = f"{format_cell(line['figure'])} {line['unit']}".strip()
        bar = f"{sign} {format_cell(line['bar'])}"
        yield f"| {_escape(line['name'])} | {figure} | {bar} | {mark} | {_escape(line['beside'])} |"
    yield ""


def _format_bar(line: Facts) -> str:
    sign = "at least" if line["least"] else "at most"
    beside = f" ({line['beside']})" if line["beside"] else ""
    figure = f"{format_cell(line['figure'])} {line['unit']}, {sign} {format_cell(line['bar'])}"
    return f"{_escape(line['name'])}: {figure}{_escape(beside)}"


def format_cell(cell: object) -> str:
    """A figure with three digits, or what stands in its place."""
    if cell is None:
        return ""
    if not isinstance(cell, int | float):
        return str(cell)
    return f"{cell:,.0f}" if abs(cell) >= 1000 or float(cell).is_integer() else f"{cell:,.3g}"


def _escape(words: str) -> str:
    """Without signs that Markdown would take for its own."""
    return " ".join(words.split()).replace("|", "/").replace("<", "&lt;").replace("*", "\\*").replace("_", "\\_")
