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

from discreet.cli.options import printable
from discreet.formatting import format_cost, format_left
from discreet.ledger import Balance

PIPE = 240
BAR = 24
BLUE = "blue"


def document(told: object) -> None:
    """Print one JSON document and nothing else."""
    print(json.dumps(told, indent=2))


def screen(*parts: RenderableType) -> None:
    """Print one part below another; no text is read as markup."""
    console = Console(highlight=False, markup=False, emoji=False)
    if not console.is_terminal:
        console.width = PIPE  # nobody reads a cut number
    for part in parts:
        console.print(text(part) if isinstance(part, str) else part)


def text(said: str, style: str = "") -> Text:
    """A text that cannot move the cursor, whoever wrote it."""
    return Text(printable(said), style=style)


def warning(said: str) -> Text:
    """What must not be overlooked."""
    return text(f"Warning: {said}", "bold yellow")


def facts(pairs: Mapping[str, str]) -> Table:
    """Names, and beside them what they are."""
    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="dim", no_wrap=True)
    grid.add_column()
    for name, told in pairs.items():
        grid.add_row(text(name), text(told))
    return grid


def table(*names: str, right: Sequence[str] = ()) -> Table:
    """A table without rows; the columns named in `right` hold numbers."""
    made = Table(box=None, padding=(0, 3, 0, 0), header_style="dim")
    for name in names:
        made.add_column(text(name), justify="right" if name in right else "left")
    return made


def bar(part: float | Fraction, whole: float | Fraction) -> ProgressBar:
    """How much of a whole above 0 a part is."""
    share = min(max(float(part / whole), 0), 1)
    return ProgressBar(total=1, completed=share, width=BAR, complete_style=BLUE, finished_style=BLUE)


def owner(analyst: str | None) -> str:
    """Whose account it is."""
    return "the data set" if analyst is None else analyst


def left(balances: Sequence[Balance]) -> str:
    """What is left to whom, in a line."""
    several = len({balance.model for balance in balances}) > 1
    parts = []
    for balance in balances:
        model = f" in {balance.model}" if several else ""
        parts.append(
            f"{format_left(balance.left)} of {format_cost(balance.cap.epsilon)} for {owner(balance.analyst)}{model}"
        )
    return ", ".join(parts)


@contextmanager
def stages() -> Iterator[Callable[[str], None]]:
    """Name on stderr the stage at work; the line is gone once all is done."""
    with _progress(SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn()) as shown_now:
        task = shown_now.add_task("starting", total=None)

        def show(stage: str) -> None:
            """A stage that counts, as "trying: 3 of 12", has a bar that fills."""
            counted = re.search(r"(\d+) of (\d+)$", stage)
            done, total = (int(counted[1]), int(counted[2])) if counted else (0, None)
            shown_now.update(task, description=stage, completed=done, total=total)

        yield show


@contextmanager
def counting(what: str) -> Iterator[Callable[[int, int], None]]:
    """Show on stderr how many are done of how many."""
    with _progress(TextColumn(what), BarColumn(), TimeElapsedColumn()) as shown_now:
        task = shown_now.add_task(what, total=None)
        yield lambda done, total: shown_now.update(task, completed=done, total=total)


def _progress(*columns: ProgressColumn) -> Progress:
    console = Console(stderr=True)
    return Progress(*columns, transient=True, console=console, disable=not console.is_terminal)
