"""`discreet reproduce`: the tables and figures of the documents, computed anew beside what is printed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from discreet.cli.options import Json
from discreet.errors import ClaimFailed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.table import Table

    from discreet.reproduce.tables import Reproduced

Name = Annotated[
    str | None,
    typer.Argument(
        metavar="[TABLE]", help="One table, such as 000-table-5; a chapter, 001-3; a document, 002.", show_default=False
    ),
]
Html = Annotated[str | None, typer.Option("--html", metavar="FILE", help="Write a page with pictures too.")]
Folder = Annotated[
    str | None,
    typer.Option("--data", metavar="DIR", help="Where census.csv, adult.csv and eia.csv are; else DISCREET_DATA."),
]
Force = Annotated[bool, typer.Option("--force", help="Overwrite the page if it is there.")]


def reproduce(
    table: Name = None, html: Html = None, data: Folder = None, force: Force = False, json: Json = False
) -> None:
    """Compute the tables and figures of the five documents anew, each beside the printed one, with a verdict."""
    from discreet.cli import show
    from discreet.reproduce.page import check_page, write_page
    from discreet.reproduce.tables import chosen, data_in
    from discreet.reproduce.tables import reproduce as computed

    page = None if html is None else check_page(html, force)
    wanted, folder = chosen(table), data_in(data)
    with show.stages() as progress:
        found = computed(wanted, folder, progress)
        if page is not None:
            progress("drawing")
            write_page(page, found)
    if json:
        show.document([row for each in found for row in each.to_json()])
    else:
        show.screen(*_rows(found) if table else [_lines(found)], *_closing(found))
    if any(row.verdict == "differs" for each in found for row in each.rows):
        raise typer.Exit(ClaimFailed.exit_code)


def _lines(found: Sequence[Reproduced]) -> Table:
    """A line for each table: how many figures have which verdict."""
    from discreet.cli import show
    from discreet.reproduce.page import COUNTED, counted

    names = ("equal", "not printed", "sampling", "corrected", "not reproducible", "differs")
    made = show.table("table", "what it is", *names, right=names)
    for each in found:
        counts = counted(each.rows)
        numbers = [str(counts.get(verdict) or "") for verdict in COUNTED]
        made.add_row(each.table.name, show.text(each.table.title), *numbers)
    return made


def _rows(found: Sequence[Reproduced]) -> list[Table | str]:
    """Every figure of each table."""
    from discreet.assess.page import told
    from discreet.cli import show

    parts: list[Table | str] = []
    for each in found:
        made = show.table("figure", "printed", "obtained", "verdict", "note", right=("printed", "obtained"))
        for row in each.rows:
            cells = (row.cell, told(row.published), told(row.obtained), row.verdict, row.note)
            made.add_row(*map(show.text, cells))
        parts += [f"{each.table.name}: {each.table.title}. {each.table.about}", made, ""]
    return parts


def _closing(found: Sequence[Reproduced]) -> list[str]:
    """The verdicts in one line, and what could not be looked at for want of data."""
    from discreet.reproduce.page import counted

    rows = [row for each in found if not each.missing for row in each.rows]
    total = ", ".join(f"{count} {verdict}" for verdict, count in counted(rows).items())
    missing = [f"{each.table.name}: {each.rows[0].note}." for each in found if each.missing]
    return [f"{len(rows):,} figures: {total}.", *missing]
