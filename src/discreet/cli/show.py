"""How things look on a terminal: plain text and tables by Rich, without colours in a pipe; or one JSON document."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from fractions import Fraction

from rich.console import Console, RenderableType
from rich.progress import BarColumn, Progress, ProgressColumn, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from discreet.cli.options import escape_unprintable
from discreet.formatting import format_budget_left, format_cost
from discreet.ledger import Balance

PIPE_WIDTH = 240
BAR_WIDTH = 24
BAR_COLOR = "blue"


def print_json(payload: object) -> None:
    """Print one JSON document and nothing else."""
    print(json.dumps(payload, indent=2))


def print_screen(*parts: RenderableType) -> None:
    """Print one part below another; no text is read as markup."""
    console = Console(highlight=False, markup=False, emoji=False)
    if not console.is_terminal:
        console.width = PIPE_WIDTH  # nobody reads a cut number
    for part in parts:
        console.print(build_text(part) if isinstance(part, str) else part)


def build_text(content: str, style: str = "") -> Text:
    """A text that cannot move the cursor, whoever wrote it."""
    return Text(escape_unprintable(content), style=style)


def build_warning(message: str) -> Text:
    """What must not be overlooked."""
    return build_text(f"Warning: {message}", "bold yellow")


def build_fields_table(pairs: Mapping[str, str]) -> Table:
    """Names, and beside them what they are."""
    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="dim", no_wrap=True)
    grid.add_column()
    for name, value in pairs.items():
        grid.add_row(build_text(name), build_text(value))
    return grid


def build_table(*names: str, right: Sequence[str] = ()) -> Table:
    """A table without rows; the columns named in `right` hold numbers."""
    new_table = Table(box=None, padding=(0, 3, 0, 0), header_style="dim")
    for name in names:
        new_table.add_column(build_text(name), justify="right" if name in right else "left")
    return new_table


def build_bar(part: float | Fraction, total: float | Fraction) -> ProgressBar:
    """How much of a whole above 0 a part is."""
    share = min(max(float(part / total), 0), 1)
    return ProgressBar(total=1, completed=share, width=BAR_WIDTH, complete_style=BAR_COLOR, finished_style=BAR_COLOR)


def format_owner(analyst: str | None) -> str:
    """Whose account it is."""
    return "the data set" if analyst is None else analyst


def format_balances_left(balances: Sequence[Balance]) -> str:
    """What is left to whom, in a line."""
    several = len({balance.model for balance in balances}) > 1
    parts = []
    for balance in balances:
        model = f" in {balance.model}" if several else ""
        parts.append(
            f"{format_budget_left(balance.left)} of {format_cost(balance.cap.epsilon)} for "
            f"{format_owner(balance.analyst)}{model}"
        )
    return ", ".join(parts)


@contextmanager
def show_stages() -> Iterator[Callable[[str], None]]:
    """Name on stderr the stage at work; the line is gone once all is done."""
    with _build_progress(
        SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn()
    ) as progress:
        task = progress.add_task("starting", total=None)

        def show(stage: str) -> None:
            """A stage that counts, as "trying: 3 of 12", has a bar that fills."""
            counter = re.search(r"(\d+) of (\d+)$", stage)
            done, total = (int(counter[1]), int(counter[2])) if counter else (0, None)
            progress.update(task, description=stage, completed=done, total=total)

        yield show


@contextmanager
def show_count(what: str) -> Iterator[Callable[[int, int], None]]:
    """Show on stderr how many are done of how many."""
    with _build_progress(TextColumn(what), BarColumn(), TimeElapsedColumn()) as progress:
        task = progress.add_task(what, total=None)
        yield lambda done, total: progress.update(task, completed=done, total=total)


def _build_progress(*columns: ProgressColumn) -> Progress:
    console = Console(stderr=True)
    return Progress(*columns, transient=True, console=console, disable=not console.is_terminal)
