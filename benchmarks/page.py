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
from benchmarks.seen import LESS, ROOT

PAGE = ROOT / "docs" / "benchmarks.md"
WON, EVEN, LOST, ALONE = "wins", "level", "loses", ""
Told = Mapping[str, Any]


def rounded(results: Told) -> str:
    """The results as text, with no more digits than anybody reads."""
    return json.dumps(_short(results), indent=1, ensure_ascii=False)


def _short(value: Any) -> Any:
    if isinstance(value, float):
        return float(f"{value:.4g}") if math.isfinite(value) else "infinite"
    if isinstance(value, dict):
        return {key: _short(each) for key, each in value.items()}
    return [_short(each) for each in value] if isinstance(value, list) else value


def write(results: Told) -> None:
    """The page and its pictures."""
    from benchmarks import charts

    charts.write(results)
    PAGE.write_text(text(results), encoding="utf-8")


def text(results: Told) -> str:
    """The page; the same results always give the same text."""
    return "\n".join([*_opening(results), *_score(results), *_losses(results), *_sections(results)]) + "\n"


def _opening(results: Told) -> Iterator[str]:
    yield "# Comparisons"
    yield ""
    yield "discreet beside other libraries, on the same data in the same run. This page is written by"
    yield "`python -m benchmarks` from what was seen; no figure is typed by hand. Where discreet loses is told first."
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
    yield "(`benchmarks/peers`). Times are medians; a first answer of its kind is told beside a warm one. A load above"
    yield "the number of cores, told with each run, means that the machine was busy with other work: then times on the"
    yield "clock are too long for everybody, and ratios and times on the processor say more."
    yield ""


def _score(results: Told) -> Iterator[str]:
    yield "## Won, level and lost"
    yield ""
    yield "| comparison | won | level | lost | bars cleared | bars missed |"
    yield "|---|---:|---:|---:|---:|---:|"
    for program, run in _runs(results):
        found = [verdict(table, row)[0] for table in run["tables"] for row in table["rows"]]
        missed = sum(not line["cleared"] for line in run["lines"])
        counts = [found.count(each) for each in (WON, EVEN, LOST)] + [len(run["lines"]) - missed, missed]
        yield f"| [{program.title}](#{program.name}) | {' | '.join(map(str, counts))} |"
    yield ""
    yield 'A bar is a figure that the project sets itself, such as "within 1.3 times DuckDB and 20 ms".'
    yield ""


def _losses(results: Told) -> Iterator[str]:
    yield "## Where discreet loses"
    yield ""
    for program, run in _runs(results):
        for table in run["tables"]:
            found = [(row["name"], verdict(table, row)) for row in table["rows"]]
            lost = [f"{name} ({told.removeprefix('loses to ')})" for name, (mark, told) in found if mark == LOST]
            if lost:
                yield f"- [{program.title}](#{program.name}), {table['title']}: {'; '.join(lost)}."
        for line in run["lines"]:
            if not line["cleared"]:
                yield f"- [{program.title}](#{program.name}), a bar missed: {_bar(line)}."
    yield ""


def _sections(results: Told) -> Iterator[str]:
    from benchmarks.charts import CHARTS

    for program, run in _runs(results):
        yield f"## {program.title} {{#{program.name}}}"
        yield ""
        yield program.words
        yield ""
        yield f"Repeat it with `{run['command']}`; it took {shown(run['seconds'])} s on {run['when']}, {_load(run)}."
        yield ""
        for name, title in CHARTS.get(program.name, {}).items():
            yield f"![{title}](images/benchmarks/{name}.svg)"
            yield ""
        for table in run["tables"]:
            yield from _table(table)
        yield from _lines(run["lines"])
        if run["notes"]:
            yield "No figure, and why:"
            yield ""
            yield from (f"- {_plain(note)}" for note in run["notes"])
            yield ""


def _runs(results: Told) -> Iterator[tuple[Program, Told]]:
    return ((program, results[program.name]) for program in PROGRAMS if program.name in results)


def _load(run: Told) -> str:
    busy = run["load"] > int(run["machine"]["cores"])
    return f"at a load of {run['load']:.1f} when it began" + (" (a busy machine)" if busy else "")


def _table(table: Told) -> Iterator[str]:
    judged = bool(table["ours"]) and any(verdict(table, row)[0] for row in table["rows"])
    unit = f", {table['unit']}" if table["unit"] else ""
    yield f"**{table['title']}{unit}**"
    yield ""
    yield f"| | {' | '.join(table['columns'])} |" + (" discreet |" if judged else "")
    yield "|---|" + "---:|" * len(table["columns"]) + ("---|" if judged else "")
    for row in table["rows"]:
        mark, told = verdict(table, row)
        cells = " | ".join(shown(cell) for cell in row["cells"])
        told = f"**{told}**" if mark == LOST else told
        yield f"| {row['name']} | {cells} |" + (f" {told} |" if judged else "")
    yield ""


def verdict(table: Told, row: Told) -> tuple[str, str]:
    """Whether discreet wins, and against whom by how many times; nothing where nobody competes."""
    cells = dict(zip(table["columns"], row["cells"], strict=True))
    others = {name: cell for name, cell in cells.items() if name != table["ours"] and name not in table["apart"]}
    able = {name: cell for name, cell in others.items() if isinstance(cell, int | float)}
    own = cells.get(table["ours"])
    if not row["better"] or not able or not isinstance(own, int | float):
        return ALONE, ""
    less = row["better"] == LESS
    best = (min if less else max)(able, key=lambda name: able[name])
    level = row.get("level") or table["level"]
    mark, told = _compared(own, able[best], best, less, level)
    behind = sum(_compared(own, other, "", less, level)[0] == WON for other in able.values())
    return mark, told + (f"; ahead of {behind} of {len(able)}" if mark == LOST and len(able) > 1 else "")


def _compared(own: float, other: float, best: str, less: bool, level: float) -> tuple[str, str]:
    if own == other:
        return EVEN, f"level with {best}"
    low, high = sorted((own, other))
    times = high / low if low > 0 else float("inf")
    told = f"{times:.3g} times" if times < 1e6 else "by all of it"
    if times < level:
        return EVEN, f"level with {best}"
    won = (own < other) == less
    return (WON, f"wins, {best} {told}") if won else (LOST, f"loses to {best}, {told}")


def _lines(lines: Sequence[Told]) -> Iterator[str]:
    if not lines:
        return
    yield "| bar | figure | | | beside |"
    yield "|---|---:|---|---|---|"
    for line in lines:
        mark = "cleared" if line["cleared"] else "**missed**"
        sign = "≥" if line["least"] else "≤"
        figure = f"{shown(line['figure'])} {line['unit']}".strip()
        yield f"| {_plain(line['name'])} | {figure} | {sign} {shown(line['bar'])} | {mark} | {_plain(line['beside'])} |"
    yield ""


def _bar(line: Told) -> str:
    sign = "at least" if line["least"] else "at most"
    beside = f" ({line['beside']})" if line["beside"] else ""
    return (
        f"{_plain(line['name'])}: {shown(line['figure'])} {line['unit']}, {sign} {shown(line['bar'])}{_plain(beside)}"
    )


def shown(cell: object) -> str:
    """A figure with three digits, or what stands in its place."""
    if cell is None:
        return ""
    if not isinstance(cell, int | float):
        return str(cell)
    return f"{cell:,.0f}" if abs(cell) >= 1000 or float(cell).is_integer() else f"{cell:,.3g}"


def _plain(words: str) -> str:
    """Without signs that Markdown would take for its own."""
    return " ".join(words.split()).replace("|", "/").replace("<", "&lt;").replace("*", "\\*").replace("_", "\\_")
