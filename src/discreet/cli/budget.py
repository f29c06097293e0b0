"""`discreet budget`: what is spent and left."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from discreet.cli.options import Json, LedgerPlace, OneAnalyst, SchemaFile

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from rich.console import RenderableType

    from discreet.ledger import Balance

Tight = Annotated[bool, typer.Option("--tight", help="Add a tighter total for approx-dp, for display alone.")]


def budget(
    schema: SchemaFile, analyst: OneAnalyst = None, ledger: LedgerPlace = None, tight: Tight = False, json: Json = False
) -> None:
    """Show what is spent and left in every model."""
    from discreet.cli import show
    from discreet.custodian import looking
    from discreet.custodian.document import balance_to_json
    from discreet.schema import load_schema

    declared = load_schema(schema)
    balances = looking.budget(declared, ledger, analyst)
    owners = dict.fromkeys(balance.analyst for balance in balances) if tight else {}
    tighter = {owner: looking.tighter_epsilon(declared, ledger, owner) for owner in owners}
    if json:
        told = [balance_to_json(balance) for balance in balances]
        show.document([one | _tighter(balance, tighter) for one, balance in zip(told, balances, strict=True)])
    else:
        show.screen(*_screen(balances, tighter))


def _tighter(balance: Balance, tighter: Mapping[str | None, float]) -> dict[str, float]:
    known = balance.model == "approx-dp" and balance.analyst in tighter
    return {"tighter_epsilon": tighter[balance.analyst]} if known else {}


def _screen(balances: Sequence[Balance], tighter: Mapping[str | None, float]) -> Iterator[RenderableType]:
    from discreet.cli.show import bar, owner, table, text, warning
    from discreet.formatting import VALUE_DIGITS, format_cost, format_left, format_upper

    numbers = ("spent", "cap", "left")
    made = table("whose", "model", *numbers, "", right=numbers)
    for balance in balances:
        whose, cap = text(owner(balance.analyst)), balance.cap.epsilon
        spent = "no epsilon" if balance.epsilon is None else format_cost(balance.epsilon)
        made.add_row(
            whose, balance.model, spent, format_cost(cap), format_left(balance.left), bar(cap - balance.left, cap)
        )
    yield made
    for analyst, epsilon in tighter.items():
        total = format_upper(epsilon, VALUE_DIGITS)
        yield f"A tighter total in approx-dp, for display alone: {total} for {owner(analyst)}"
    for balance in balances:
        yield text(f"{owner(balance.analyst)}, {balance.model}: {balance.promise}.")
    yield from map(warning, dict.fromkeys(flag for balance in balances for flag in balance.flags))
