"""`discreet budget`: what is spent and left."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from discreet.cli.options import Json, LedgerOption, OneAnalyst, SchemaFile

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from rich.console import RenderableType

    from discreet.ledger import Balance

Tight = Annotated[bool, typer.Option("--tight", help="Add a tighter total for approx-dp, for display alone.")]


def run_budget(
    schema: SchemaFile,
    analyst: OneAnalyst = None,
    ledger: LedgerOption = None,
    tight: Tight = False,
    json: Json = False,
) -> None:
    """Show what is spent and left in every model."""
    from discreet.cli import show
    from discreet.custodian import looking
    from discreet.custodian.document import balance_to_json
    from discreet.schema import load_schema

    declared = load_schema(schema)
    balances = looking.get_balances(declared, ledger, analyst)
    owners = dict.fromkeys(balance.analyst for balance in balances) if tight else {}
    tighter = {owner: looking.compute_tighter_epsilon(declared, ledger, owner) for owner in owners}
    if json:
        documents = [balance_to_json(balance) for balance in balances]
        show.print_json(
            [
                document | _build_tighter_field(balance, tighter)
                for document, balance in zip(documents, balances, strict=True)
            ]
        )
    else:
        show.print_screen(*_render_balances(balances, tighter))


def _build_tighter_field(balance: Balance, tighter: Mapping[str | None, float]) -> dict[str, float]:
    known = balance.model == "approx-dp" and balance.analyst in tighter
    return {"tighter_epsilon": tighter[balance.analyst]} if known else {}


def _render_balances(balances: Sequence[Balance], tighter: Mapping[str | None, float]) -> Iterator[RenderableType]:
    from discreet.cli.show import build_bar, build_table, build_text, build_warning, format_owner
    from discreet.formatting import VALUE_DIGITS, format_budget_left, format_cost, format_upper

    numbers = ("spent", "cap", "left")
    balance_table = build_table("whose", "model", *numbers, "", right=numbers)
    for balance in balances:
        whose, cap = build_text(format_owner(balance.analyst)), balance.cap.epsilon
        spent = "no epsilon" if balance.epsilon is None else format_cost(balance.epsilon)
        balance_table.add_row(
            whose,
            balance.model,
            spent,
            format_cost(cap),
            format_budget_left(balance.left),
            build_bar(cap - balance.left, cap),
        )
    yield balance_table
    for analyst, epsilon in tighter.items():
        total = format_upper(epsilon, VALUE_DIGITS)
        yield f"A tighter total in approx-dp, for display alone: {total} for {format_owner(analyst)}"
    for balance in balances:
        yield build_text(f"{format_owner(balance.analyst)}, {balance.model}: {balance.promise}.")
    yield from map(build_warning, dict.fromkeys(flag for balance in balances for flag in balance.flags))
