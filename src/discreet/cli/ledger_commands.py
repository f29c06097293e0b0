"""`discreet ledger`: verify, backup, restore and upgrade."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from discreet.cli import terminal
from discreet.cli.terminal import Json, build_fields_table, build_text, build_warning
from discreet.errors import InvalidInput
from discreet.formatting import format_cost
from discreet.numeric import parse_rational

if TYPE_CHECKING:
    from discreet.ledger import HeadEntry, LedgerVerification
    from discreet.ledger.backup import NewDataSet

LedgerAddress = Annotated[
    str, typer.Argument(metavar="LEDGER", help="The ledger's file or database address.", show_default=False)
]
NewLedgerAddress = Annotated[
    str,
    typer.Argument(metavar="LEDGER", help="A new file, or the address of a database without one.", show_default=False),
]
BackupFile = Annotated[str, typer.Argument(metavar="FILE", help="The back-up.", show_default=False)]
KeptHeads = Annotated[
    list[str] | None,
    typer.Option(
        "--contains",
        metavar="HEAD",
        help="A head that was kept: tell which entry it was kept at, or exit with 6. Can be repeated.",
        show_default=False,
    ),
]
ReplaceBackup = Annotated[bool, typer.Option("--force", help="Replace an earlier back-up of the same ledger.")]
ForgottenEpsilon = Annotated[
    str,
    typer.Option(
        "--forgotten",
        metavar="E",
        help="The most epsilon that may have been spent on a data set since the back-up; 0 if nothing was asked since.",
        show_default=False,
    ),
]
ForgottenDelta = Annotated[
    str, typer.Option("--forgotten-delta", metavar="D", help="The same for delta, where approx-dp is allowed.")
]
NewDatasetSchemas = Annotated[
    list[str] | None,
    typer.Option(
        "--dataset",
        metavar="SCHEMA",
        help="Schema of a data set that was registered after the back-up: it is charged --forgotten too. Can be "
        "repeated.",
        show_default=False,
    ),
]

KEEP_HEADS_NOTE = (
    "Keep the head of each data set elsewhere: discreet ledger verify --contains HEAD then finds out a ledger that was "
    "replaced as a whole. The head of the whole ledger stands for all of them now; it is another after the next entry."
)
LOST_SPEND_WARNING = (
    "what was charged after this back-up is not in it, and its answers are with the analysts. Look for the last heads "
    "you kept by discreet ledger verify --contains: where one is not found, more was spent than the back-up knows of."
)


def run_ledger_verify(ledger: LedgerAddress, contains: KeptHeads = None, json: Json = False) -> None:
    """Recompute the chain of entries and every account; exit code 6 if something is not as it was written."""
    from discreet.ledger import Ledger
    from discreet.ledger.chain import parse_hash

    hashes = [parse_hash(head) for head in contains or ()]
    with terminal.show_count("verifying") as progress, Ledger.existing(ledger) as open_ledger:
        verified = open_ledger.verify(progress=progress)
        entries_by_head = {
            head: None if head == verified.head else open_ledger.find_head_entry(head) for head in hashes
        }
    if json:
        located_heads = [_head_to_json(head, entry) for head, entry in entries_by_head.items()]
        _print_verification(verified, {"contains": located_heads} if located_heads else {})
    else:
        lines = []
        for head, entry in entries_by_head.items():
            where = "the head of the whole ledger" if entry is None else f"entry {entry.entry:,} of {entry.dataset}"
            lines.append(f"{head} is {where}.")
        _show_verification("ledger", verified, lines)


def run_ledger_backup(
    ledger: LedgerAddress, file: BackupFile, force: ReplaceBackup = False, json: Json = False
) -> None:
    """Copy a ledger into one file while others go on charging. The copy is recomputed before it gets its name."""
    from discreet.ledger import Ledger

    with terminal.show_stages() as progress:
        verified = Ledger.backup(ledger, file, force=force, progress=progress)
    if json:
        _print_verification(verified)
    else:
        _show_verification("back-up", verified)


def run_ledger_restore(
    file: BackupFile,
    ledger: NewLedgerAddress,
    forgotten: ForgottenEpsilon,
    forgotten_delta: ForgottenDelta = "0",
    dataset: NewDatasetSchemas = None,
    json: Json = False,
) -> None:
    """Copy a back-up to where there is no ledger, with what was spent since the back-up as far as you can tell.

    The ledger keeps its id, so that its data sets go on with it. Where heads of later entries were recorded, they
    accept it only with a --forgotten above 0.
    """
    from discreet.custodian.status import restored_to_json
    from discreet.ledger import Ledger

    epsilon = parse_rational(forgotten, "--forgotten")
    delta = parse_rational(forgotten_delta, "--forgotten-delta")
    new_datasets = [_read_new_dataset(schema_file) for schema_file in dataset or ()]
    if new_datasets and not epsilon:
        raise InvalidInput("--dataset charges a data set what was forgotten, so --forgotten must be above 0")
    with terminal.show_stages() as progress:
        restored = Ledger.restore(
            file, ledger, forgotten=epsilon, forgotten_delta=delta, progress=progress, new=new_datasets
        )
    if json:
        terminal.print_json(restored_to_json(restored))
        return
    heads = _format_heads(restored.backup, " in the back-up")
    notes: tuple[str, ...] = ()
    if restored.ledger != restored.backup:
        heads |= _format_heads(restored.ledger, " now")
        notes = ("Charges without an answer in the back-up are void: a retry under their key is refused.",)
    if epsilon:
        spent = f" and delta {format_cost(delta)} were" if delta else " was"
        accounts = "on every data set and by every analyst"
        notes = (f"Epsilon {format_cost(epsilon)}{spent} entered as spent since, {accounts}.", *notes)
    headline = f"The ledger is restored: {restored.backup.entries:,} entries, each as it was written."
    warning = build_warning(LOST_SPEND_WARNING)
    terminal.print_screen(build_text(headline, "bold"), build_fields_table(heads), *notes, warning)


def run_ledger_upgrade(ledger: LedgerAddress, json: Json = False) -> None:
    """Give a ledger that an older discreet made the format of this one; entries and head stay as they are."""
    from discreet.ledger import Ledger
    from discreet.ledger.storage import FORMAT_VERSION

    with terminal.show_stages() as progress:
        progress("upgrading")
        before = Ledger.upgrade(ledger)
    if json:
        terminal.print_json({"before": before, "format": FORMAT_VERSION})
    elif before == FORMAT_VERSION:
        terminal.print_screen(f"The ledger has format {FORMAT_VERSION} already; nothing was changed.")
    else:
        terminal.print_screen(f"The ledger has format {FORMAT_VERSION} now; it had {before}.")


def _read_new_dataset(schema: str) -> NewDataSet:
    from discreet.datasets.dataset_dir import DatasetDir
    from discreet.ledger.backup import NewDataSet
    from discreet.schema import load_schema

    declared = load_schema(schema)
    manifest = DatasetDir(declared).read_manifest()
    if manifest is None or not manifest.snapshots:
        raise InvalidInput(f"{declared.name} was never registered, so nothing was spent on it; leave it out")
    snapshots = tuple((snapshot.name, snapshot.disjoint) for snapshot in manifest.snapshots)
    return NewDataSet(declared.name, manifest.identity, snapshots)


def _print_verification(verified: LedgerVerification, extra_fields: Mapping[str, object] | None = None) -> None:
    """One line of JSON with the time, as a log of heads takes it."""
    from datetime import UTC, datetime
    from json import dumps

    from discreet.custodian.status import ledger_to_json

    timestamp = datetime.now(UTC).isoformat(timespec="seconds")
    print(dumps({"at": timestamp} | ledger_to_json(verified) | dict(extra_fields or {})))


def _show_verification(what: str, verified: LedgerVerification, lines: Sequence[str] = ()) -> None:
    headline = f"The {what} holds: {verified.entries:,} entries, each as it was written."
    heads = build_fields_table(_format_heads(verified))
    terminal.print_screen(build_text(headline, "bold"), heads, *lines, KEEP_HEADS_NOTE)


def _format_heads(verified: LedgerVerification, when: str = "") -> dict[str, str]:
    fields = {f"head of {name}{when}": head for name, head in verified.heads.items()}
    return fields | {f"head of the whole ledger{when}": verified.head}


def _head_to_json(head: str, entry: HeadEntry | None) -> dict[str, object]:
    """The head of the whole ledger has no data set and no entry."""
    dataset, number = (None, None) if entry is None else (entry.dataset, entry.entry)
    return {"head": head, "dataset": dataset, "entry": number}


LEDGER_COMMANDS: Mapping[str, Callable[..., None]] = {
    "verify": run_ledger_verify,
    "backup": run_ledger_backup,
    "restore": run_ledger_restore,
    "upgrade": run_ledger_upgrade,
}
