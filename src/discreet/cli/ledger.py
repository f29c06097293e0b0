"""`discreet ledger`: whether a ledger is what was written; its back-up, its restoring, its upgrade."""

from __future__ import annotations

from typing import Annotated

import typer

from discreet.cli.options import Json

Place = Annotated[
    str, typer.Argument(metavar="LEDGER", help="The ledger's file or database address.", show_default=False)
]
NewPlace = Annotated[
    str,
    typer.Argument(metavar="LEDGER", help="A new file, or the address of a database without one.", show_default=False),
]
File = Annotated[str, typer.Argument(metavar="FILE", help="The back-up.", show_default=False)]
Force = Annotated[bool, typer.Option("--force", help="Replace an earlier back-up of the same ledger.")]
Epsilon = Annotated[
    str,
    typer.Option(
        "--forgotten",
        metavar="E",
        help="The most epsilon that may have been spent on a data set since the back-up; 0 if nothing was asked since.",
        show_default=False,
    ),
]
Delta = Annotated[
    str, typer.Option("--forgotten-delta", metavar="D", help="The same for delta, where approx-dp is allowed.")
]

KEEP = "Keep the head elsewhere: with it a ledger that was replaced as a whole is found out too."
LOST = (
    "what was charged after this back-up is not in it, and its answers are with the analysts. Compare the head of the "
    "back-up with the last one you kept: if it is another, more was spent than the back-up knows of."
)


def verify(ledger: Place, json: Json = False) -> None:
    """Recompute the chain of entries and every account; exit code 6 if something is not as it was written."""
    from discreet.cli import show
    from discreet.custodian.document import verified_to_json
    from discreet.ledger import Ledger

    with show.counting("verifying") as progress, Ledger.existing(ledger) as opened:
        verified = opened.verify(progress=progress)
    if json:
        show.document(verified_to_json(verified))
    else:
        show.screen(
            show.text(f"The ledger holds: {verified.entries:,} entries, each as it was written.", "bold"),
            show.facts({"head": verified.head}),
            KEEP,
        )


def backup(ledger: Place, file: File, force: Force = False, json: Json = False) -> None:
    """Copy a ledger into one file while others go on charging. The copy is recomputed before it gets its name."""
    from discreet.cli import show
    from discreet.custodian.document import verified_to_json
    from discreet.ledger import Ledger

    with show.stages() as progress:
        verified = Ledger.backup(ledger, file, force=force, progress=progress)
    if json:
        show.document(verified_to_json(verified))
    else:
        show.screen(
            show.text(f"The back-up holds: {verified.entries:,} entries, each as it was written.", "bold"),
            show.facts({"head": verified.head}),
            KEEP,
        )


def restore(file: File, ledger: NewPlace, forgotten: Epsilon, forgotten_delta: Delta = "0", json: Json = False) -> None:
    """Copy a back-up to where there is no ledger, with what was spent since the back-up as far as you can tell.

    The ledger keeps its id, so that its data sets go on with it.
    """
    from discreet.cli import show
    from discreet.custodian.document import restored_to_json
    from discreet.exact import rational_text, shown
    from discreet.ledger import Ledger

    epsilon = rational_text(forgotten, "--forgotten")
    delta = rational_text(forgotten_delta, "--forgotten-delta")
    with show.stages() as progress:
        restored = Ledger.restore(file, ledger, forgotten=epsilon, forgotten_delta=delta, progress=progress)
    if json:
        show.document(restored_to_json(restored))
        return
    heads = {"head of the back-up": restored.backup.head}
    entered: tuple[str, ...] = ()
    if epsilon:
        heads["head of the ledger"] = restored.ledger.head
        entered = (f"Epsilon {shown(epsilon)} was entered as spent since, on every data set and by every analyst.",)
    show.screen(
        show.text(f"The ledger is restored: {restored.backup.entries:,} entries, each as it was written.", "bold"),
        show.facts(heads),
        *entered,
        show.warning(LOST),
    )


def upgrade(ledger: Place, json: Json = False) -> None:
    """Give a ledger that an older discreet made the format of this one; entries and head stay as they are."""
    from discreet.cli import show
    from discreet.ledger import Ledger
    from discreet.ledger.tables import VERSION

    with show.stages() as progress:
        progress("upgrading")
        before = Ledger.upgrade(ledger)
    if json:
        show.document({"before": before, "format": VERSION})
    elif before == VERSION:
        show.screen(f"The ledger has format {VERSION} already; nothing was changed.")
    else:
        show.screen(f"The ledger has format {VERSION} now; it had {before}.")


COMMANDS = (verify, backup, restore, upgrade)
