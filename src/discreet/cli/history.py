"""`discreet history`: what was asked."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from discreet.cli.options import Json, LedgerOption, OneAnalyst, SchemaFile

if TYPE_CHECKING:
    from rich.table import Table

    from discreet.ledger import Entry

Limit = Annotated[int, typer.Option(min=1, metavar="N", help="How many entries at most, the latest first.")]


def run_history(
    schema: SchemaFile, analyst: OneAnalyst = None, limit: Limit = 20, ledger: LedgerOption = None, json: Json = False
) -> None:
    """Show what was asked, the latest first."""
    from discreet.cli import show
    from discreet.custodian import looking
    from discreet.custodian.document import entry_to_json
    from discreet.schema import load_schema

    entries = looking.list_history(load_schema(schema), ledger, analyst, limit)
    if json:
        show.print_json([entry_to_json(entry) for entry in entries])
    elif entries:
        show.print_screen(_build_history_table(entries))
    else:
        show.print_screen("Nothing was asked yet.")


def _build_history_table(entries: list[Entry]) -> Table:
    from discreet.cli.show import build_table, build_text

    history_table = build_table("entry", "at (UTC)", "who", "what", "cost", right=("entry",))
    for entry in entries:
        timestamp = entry.at.removesuffix("+00:00").replace("T", " ")
        who, what, cost = (
            build_text(entry.analyst or "the custodian"),
            build_text(_describe_entry(entry)),
            build_text(_format_entry_cost(entry)),
        )
        history_table.add_row(str(entry.entry), timestamp, who, what, cost)
    return history_table


def _describe_entry(entry: Entry) -> str:
    return f"snapshot {entry.snapshot} registered" if entry.query is None else entry.query


def _format_entry_cost(entry: Entry) -> str:
    from discreet.formatting import format_cost

    if entry.epsilon is None:
        return "outside the account" if entry.kind == "release" else ""
    model = "" if entry.model == "dp" else f" {entry.model}"
    part = "" if entry.part is None else f" in {entry.part.kind} {entry.part.name}"
    if entry.kind != "reuse":
        degraded = ", a stored answer with noise added" if entry.kind == "degrade" else ""
        return f"{format_cost(entry.epsilon)}{model}{part}{degraded}"
    paid = entry.spend.epsilon if entry.spend is not None and entry.model == "dp" else entry.epsilon
    asked_note = "" if paid == entry.epsilon else f" ({format_cost(entry.epsilon)} was asked)"
    return f"{format_cost(paid)}{model}{part}, reused{asked_note}"
