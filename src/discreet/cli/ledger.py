"""`discreet ledger verify`: whether a ledger is what was written."""

from __future__ import annotations

from typing import Annotated

import typer

from discreet.cli.options import Json

Place = Annotated[
    str, typer.Argument(metavar="LEDGER", help="The ledger's file or database address.", show_default=False)
]


def verify(ledger: Place, json: Json = False) -> None:
    """Recompute the chain of entries and every account; exit code 6 if something is not as it was written."""
    from discreet.cli import show
    from discreet.custodian.binding import existing_ledger
    from discreet.custodian.document import verified_to_json

    with show.counting("verifying") as progress, existing_ledger(ledger) as opened:
        verified = opened.verify(progress=progress)
    if json:
        show.document(verified_to_json(verified))
    else:
        show.screen(
            show.text(f"The ledger holds: {verified.entries:,} entries, each as it was written.", "bold"),
            show.facts({"head": verified.head}),
            "Keep the head elsewhere: with it a ledger that was replaced as a whole is found out too.",
        )
