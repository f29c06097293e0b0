"""`discreet ledger`: whether a ledger is what was written; its back-up, its restoring, its upgrade."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from discreet.cli.options import Json

if TYPE_CHECKING:
    from discreet.ledger import Found, Verified
    from discreet.ledger.forgetting import NewDataSet

Place = Annotated[
    str, typer.Argument(metavar="LEDGER", help="The ledger's file or database address.", show_default=False)
]
NewPlace = Annotated[
    str,
    typer.Argument(metavar="LEDGER", help="A new file, or the address of a database without one.", show_default=False),
]
File = Annotated[str, typer.Argument(metavar="FILE", help="The back-up.", show_default=False)]
Kept = Annotated[
    list[str] | None,
    typer.Option(
        "--contains",
        metavar="HEAD",
        help="A head that was kept: tell which entry it was kept at, or exit with 6. Can be repeated.",
        show_default=False,
    ),
]
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
New = Annotated[
    list[str] | None,
    typer.Option(
        "--dataset",
        metavar="SCHEMA",
        help="Schema of a data set that was registered after the back-up: it is charged --forgotten too. Can be "
        "repeated.",
        show_default=False,
    ),
]

KEEP = (
    "Keep the head of each data set elsewhere: discreet ledger verify --contains HEAD then finds out a ledger that was "
    "replaced as a whole. The head of the whole ledger stands for all of them now; it is another after the next entry."
)
LOST = (
    "what was charged after this back-up is not in it, and its answers are with the analysts. Look for the last heads "
    "you kept by discreet ledger verify --contains: where one is not found, more was spent than the back-up knows of."
)


def verify(ledger: Place, contains: Kept = None, json: Json = False) -> None:
    """Recompute the chain of entries and every account; exit code 6 if something is not as it was written."""
    from discreet.cli import show
    from discreet.ledger import Ledger
    from discreet.ledger.chain import hash_of

    kept = [hash_of(head) for head in contains or ()]
    with show.counting("verifying") as progress, Ledger.existing(ledger) as opened:
        verified = opened.verify(progress=progress)
        found = {head: None if head == verified.head else opened.find(head) for head in kept}
    if json:
        _log(verified, {"contains": [_found_to_json(head, at) for head, at in found.items()]} if found else {})
    else:
        _show("ledger", verified, [_in_words(head, at) for head, at in found.items()])


def backup(ledger: Place, file: File, force: Force = False, json: Json = False) -> None:
    """Copy a ledger into one file while others go on charging. The copy is recomputed before it gets its name."""
    from discreet.cli import show
    from discreet.ledger import Ledger

    with show.stages() as progress:
        verified = Ledger.backup(ledger, file, force=force, progress=progress)
    if json:
        _log(verified)
    else:
        _show("back-up", verified)


def restore(
    file: File,
    ledger: NewPlace,
    forgotten: Epsilon,
    forgotten_delta: Delta = "0",
    dataset: New = None,
    json: Json = False,
) -> None:
    """Copy a back-up to where there is no ledger, with what was spent since the back-up as far as you can tell.

    The ledger keeps its id, so that its data sets go on with it. Where heads of later entries were recorded, they
    accept it only with a --forgotten above 0.
    """
    from discreet.cli import show
    from discreet.custodian.document import restored_to_json
    from discreet.errors import InvalidInput
    from discreet.exact import rational_text
    from discreet.formatting import format_cost
    from discreet.ledger import Ledger

    epsilon = rational_text(forgotten, "--forgotten")
    delta = rational_text(forgotten_delta, "--forgotten-delta")
    new = [_new_data_set(one) for one in dataset or ()]
    if new and not epsilon:
        raise InvalidInput("--dataset charges a data set what was forgotten, so --forgotten must be above 0")
    with show.stages() as progress:
        restored = Ledger.restore(file, ledger, forgotten=epsilon, forgotten_delta=delta, progress=progress, new=new)
    if json:
        show.document(restored_to_json(restored))
        return
    heads = _heads(restored.backup, " in the back-up")
    entered: tuple[str, ...] = ()
    if restored.ledger != restored.backup:
        heads |= _heads(restored.ledger, " now")
        entered = ("Charges without an answer in the back-up are void: a retry under their key is refused.",)
    if epsilon:
        spent = (
            f"Epsilon {format_cost(epsilon)} was"
            if not delta
            else f"Epsilon {format_cost(epsilon)} and delta {format_cost(delta)} were"
        )
        entered = (f"{spent} entered as spent since, on every data set and by every analyst.", *entered)
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


def _new_data_set(schema: str) -> NewDataSet:
    """A data set as its own folder knows it."""
    from discreet.custodian.place import Place
    from discreet.errors import InvalidInput
    from discreet.ledger.forgetting import NewDataSet
    from discreet.schema import load_schema

    declared = load_schema(schema)
    manifest = Place(declared).read()
    if manifest is None or not manifest.snapshots:
        raise InvalidInput(f"{declared.name} was never registered, so nothing was spent on it; leave it out")
    snapshots = tuple((one.name, one.disjoint) for one in manifest.snapshots)
    return NewDataSet(declared.name, manifest.identity, snapshots)


def _log(verified: Verified, more: Mapping[str, object] | None = None) -> None:
    """One line of JSON with the time, as a log of heads takes it."""
    from datetime import UTC, datetime
    from json import dumps

    from discreet.custodian.document import ledger_to_json

    at = datetime.now(UTC).isoformat(timespec="seconds")
    print(dumps({"at": at} | ledger_to_json(verified) | dict(more or {})))


def _show(what: str, verified: Verified, found: Sequence[str] = ()) -> None:
    from discreet.cli import show

    show.screen(
        show.text(f"The {what} holds: {verified.entries:,} entries, each as it was written.", "bold"),
        show.facts(_heads(verified)),
        *found,
        KEEP,
    )


def _heads(verified: Verified, when: str = "") -> dict[str, str]:
    """The head of each data set and of all together, which is which."""
    told = {f"head of {name}{when}": head for name, head in verified.heads.items()}
    return told | {f"head of the whole ledger{when}": verified.head}


def _in_words(head: str, at: Found | None) -> str:
    where = "the head of the whole ledger" if at is None else f"entry {at.entry:,} of {at.dataset}"
    return f"{head} is {where}."


def _found_to_json(head: str, at: Found | None) -> dict[str, object]:
    """Without a data set it is the head of the whole ledger."""
    place = (None, None) if at is None else (at.dataset, at.entry)
    return dict(zip(("head", "dataset", "entry"), (head, *place), strict=True))


COMMANDS: Mapping[str, Callable[..., None]] = {
    "verify": verify,
    "backup": backup,
    "restore": restore,
    "upgrade": upgrade,
}
