"""`discreet init`: a draft of a schema."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from discreet.cli.options import Json

Data = Annotated[
    str,
    typer.Argument(
        metavar="DATA",
        help="A .csv or .parquet file, postgresql://host/db#schema.table or spark:table.",
        show_default=False,
    ),
]
Output = Annotated[
    str | None, typer.Option(metavar="FILE", help="Where to write the draft; without it, it is printed.")
]

DECIDE_NOTE = (
    "Replace every DECIDE in it by what can be true, not by what is in the data: bounds and categories taken from the "
    "data are a leak."
)


def run_init(data: Data, output: Output = None, json: Json = False) -> None:
    """Draft a schema from the names and kinds of a table's columns.

    Every DECIDE in the draft is for the custodian to decide: bounds and categories taken from the data are a leak.
    """
    from discreet.cli import show
    from discreet.custodian.drafting import build_draft_text, write_draft

    text = build_draft_text(data) if output is None else write_draft(data, Path(output))
    if json:
        show.print_json({"schema": text, "output": output})
    elif output is None:
        print(text, end="")
    else:
        show.print_screen(f"A draft of a schema is in {output}.", DECIDE_NOTE, f"Then run: discreet check {output}")
