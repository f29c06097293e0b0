"""`discreet history`: what was asked."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from discreet.cli.options import Json, LedgerPlace, OneAnalyst, SchemaFile

if TYPE_CHECKING:
    from rich.table import Table

    from discreet.ledger import Entry

Limit = Annotated[int, typer.Option(min=1, metavar="N", help="How many entries at most, the latest first.")]


def history(
    schema: SchemaFile, analyst: OneAnalyst = None, limit: Limit = 20, ledger: LedgerPlace = None, json: Json = False
) -> None:
    """Show what was asked, the latest first."""
    from discreet.cli import show
    from discreet.custodian import looking
    from discreet.custodian.document import entry_to_json
    from discreet.schema import load_schema

    entries = looking.history(load_schema(schema), ledger, analyst, limit)
    if json:
        show.document([entry_to_json(entry) for entry in entries])
    elif entries:
        show.screen(_table(entries))
    else:
        show.screen("Nothing was asked yet.")


def _table(entries: list[Entry]) -> Table:
    from discreet.cli.show import table, text

    made = table("entry", "at (UTC)", "who", "what", "cost", right=("entry",))
    for entry in entries:
        at = entry.at.removesuffix("+00:00").replace("T", " ")
        who, what, cost = text(entry.analyst or "the custodian"), text(_what(entry)), text(_cost(entry))
        made.add_row(str(entry.entry), at, who, what, cost)
    return made


def _what(entry: Entry) -> str:
    return f"snapshot {entry.snapshot} registered" if entry.query is None else entry.query


def _cost(entry: Entry) -> str:
    from discreet.formatting import format_cost

    if entry.epsilon is None:
        return "outside the account" if entry.kind == "release" else ""
    model = "" if entry.model == "dp" else f" {entry.model}"
    part = "" if entry.part is None else f" in {entry.part.kind} {entry.part.name}"
    if entry.kind != "reuse":
        degraded = ", a stored answer with noise added" if entry.kind == "degrade" else ""
        return f"{format_cost(entry.epsilon)}{model}{part}{degraded}"
    paid = entry.spend.epsilon if entry.spend is not None and entry.model == "dp" else entry.epsilon
    asked = "" if paid == entry.epsilon else f" ({format_cost(entry.epsilon)} was asked)"
    return f"{format_cost(paid)}{model}{part}, reused{asked}"
