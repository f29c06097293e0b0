"""What a benchmark saw, as plain values that are kept as JSON in build/benchmarks, from where the page is written.

Only the standard library: whoever starts contestants imports it, and they begin with their parent's memory.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "build" / "benchmarks"
LESS, MORE, NEITHER = "less is better", "more is better", ""
Cell = float | str | None
"""A figure; why there is none, in a word; or nothing at all."""


@dataclass(frozen=True)
class Row:
    """One question to all columns; `better` says who wins it."""

    name: str
    cells: tuple[Cell, ...]
    better: str = LESS
    level: float = 0
    """Where this row's figures are by chance: its own margin, in place of the table's."""


@dataclass(frozen=True)
class Table:
    """Contestants side by side: `ours` is the column of discreet, and those in `apart` do not compete."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[Row, ...]
    ours: str = ""
    apart: tuple[str, ...] = ()
    unit: str = ""
    level: float = 1.05
    """Who is nearer than so many times is neither better nor worse."""


@dataclass(frozen=True)
class BenchmarkResult:
    """All that one benchmark has to tell: tables, figures with their bars, and what else a page needs."""

    tables: Sequence[Table] = ()
    lines: Sequence[Mapping[str, Any]] = ()
    notes: Sequence[str] = ()
    facts: Mapping[str, Any] = field(default_factory=dict)


def write_result(result: BenchmarkResult, name: str = "") -> None:
    """Keep it under the name of the program that runs."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    text = json.dumps(asdict(result), indent=1, default=list)
    (FOLDER / f"{name or get_program_name()}.json").write_text(text + "\n", encoding="utf-8")


def get_program_name() -> str:
    """The benchmark that was started, as in `python -m benchmarks.query`: query."""
    spec = sys.modules["__main__"].__spec__
    words = spec.name.split(".") if spec else ["", Path(sys.argv[0]).stem]
    return words[1]
