"""The options that commands share, and output on a terminal: tables, texts, progress."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from fractions import Fraction
from typing import TYPE_CHECKING, Annotated

import typer

from discreet.formatting import format_budget_left, format_cost

if TYPE_CHECKING:  # Rich and the ledger take long to load, and help needs neither
    from rich.console import RenderableType
    from rich.progress import Progress, ProgressColumn
    from rich.progress_bar import ProgressBar
    from rich.table import Table
    from rich.text import Text

    from discreet.ledger import Balance

PIPE_WIDTH = 240
BAR_WIDTH = 24
BAR_COLOR = "blue"

SchemaFile = Annotated[
    str, typer.Argument(metavar="SCHEMA", help="The schema file of the data set.", show_default=False)
]
Delta = Annotated[str | None, typer.Option(metavar="D", help="The delta of approx-dp, such as 1e-9.")]
Model = Annotated[str | None, typer.Option(metavar="M", help="dp, approx-dp or individual-dp.")]
LedgerOption = Annotated[
    str | None,
    typer.Option("--ledger", metavar="L", help="The ledger's file or database address, if not the data set's own."),
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]


def escape_unprintable(text: str) -> str:
    """Escape what does not print, so that a text cannot move the cursor, change colours or ring."""
    return "".join(
        character if character.isprintable() else character.encode("unicode_escape").decode() for character in text
    )


def print_json(payload: object) -> None:
    """Print one JSON document and nothing else."""
    print(json.dumps(payload, indent=2))


def print_screen(*parts: RenderableType) -> None:
    """Print one part below another; no text is read as markup."""
    from rich.console import Console

    console = Console(highlight=False, markup=False, emoji=False)
    if not console.is_terminal:
        console.width = PIPE_WIDTH  # nobody reads a cut number
    for part in parts:
        console.print(build_text(part) if isinstance(part, str) else part)


def build_text(content: str, style: str = "") -> Text:
    """Build a text that cannot move the cursor, whoever wrote it."""
    from rich.text import Text

    return Text(escape_unprintable(content), style=style)


def build_warning(message: str) -> Text:
    """Build a warning."""
    return build_text(f"Warning: {message}", "bold yellow")


def build_fields_table(pairs: Mapping[str, str]) -> Table:
    """Build a table of names with their values beside them."""
    from rich.table import Table

    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="dim", no_wrap=True)
    grid.add_column()
    for name, value in pairs.items():
        grid.add_row(build_text(name), build_text(value))
    return grid


def build_table(*names: str, right: Sequence[str] = ()) -> Table:
    """Build a table without rows; the columns named in `right` hold numbers."""
    from rich.table import Table

    new_table = Table(box=None, padding=(0, 3, 0, 0), header_style="dim")
    for name in names:
        new_table.add_column(build_text(name), justify="right" if name in right else "left")
    return new_table


def build_bar(part: float | Fraction, total: float | Fraction) -> ProgressBar:
    """Build a bar that shows how much of a total above 0 a part is."""
    from rich.progress_bar import ProgressBar

    share = min(max(float(part / total), 0), 1)
    return ProgressBar(total=1, completed=share, width=BAR_WIDTH, complete_style=BAR_COLOR, finished_style=BAR_COLOR)


def format_owner(analyst: str | None) -> str:
    """Name the owner of an account."""
    return "the data set" if analyst is None else analyst


def format_balances_left(balances: Sequence[Balance]) -> str:
    """Tell in one line what is left of each account."""
    has_several_models = len({balance.model for balance in balances}) > 1
    parts = []
    for balance in balances:
        amounts = f"{format_budget_left(balance.left)} of {format_cost(balance.cap.epsilon)}"
        model = f" in {balance.model}" if has_several_models else ""
        parts.append(f"{amounts} for {format_owner(balance.analyst)}{model}")
    return ", ".join(parts)


@contextmanager
def show_stages() -> Iterator[Callable[[str], None]]:
    """Show the present stage on stderr; the line is gone once all is done."""
    from rich.progress import BarColumn, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn()
    with _build_progress(*columns) as progress:
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
    from rich.progress import BarColumn, TextColumn, TimeElapsedColumn

    with _build_progress(TextColumn(what), BarColumn(), TimeElapsedColumn()) as progress:
        task = progress.add_task(what, total=None)
        yield lambda done, total: progress.update(task, completed=done, total=total)


def _build_progress(*columns: ProgressColumn) -> Progress:
    from rich.console import Console
    from rich.progress import Progress

    console = Console(stderr=True)
    return Progress(*columns, transient=True, console=console, disable=not console.is_terminal)
