"""`discreet init`, `check` and `ledger`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from discreet.cli import terminal
from discreet.cli.terminal import Json, SchemaFile, build_fields_table, build_table, build_text, build_warning
from discreet.errors import InvalidInput
from discreet.formatting import format_cost
from discreet.numeric import parse_rational

if TYPE_CHECKING:
    from rich.console import RenderableType

    from discreet.datasets.dataset_dir import Snapshot
    from discreet.ledger import HeadEntry, LedgerVerification
    from discreet.ledger.backup import NewDataSet
    from discreet.schema import Schema


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
    from discreet.datasets.registration import build_draft_text, write_draft

    text = build_draft_text(data) if output is None else write_draft(data, Path(output))
    if json:
        terminal.print_json({"schema": text, "output": output})
    elif output is None:
        print(text, end="")
    else:
        terminal.print_screen(f"A draft of a schema is in {output}.", DECIDE_NOTE, f"Then run: discreet check {output}")


Source = Annotated[str | None, typer.Option(metavar="S", help="Another source than the schema's.")]
Refresh = Annotated[bool, typer.Option("--refresh", help="Make a new snapshot although there is one.")]
Name = Annotated[str | None, typer.Option(metavar="NAME", help="What to call the new snapshot.")]
Disjoint = Annotated[
    bool,
    typer.Option("--disjoint", help="No unit is in the new snapshot and in any before it, so that spend starts anew."),
]

COUNT_COLUMNS = ("missing", "unreadable", "clipped")
PRIVATE_NOTE = "For the custodian alone: what follows comes from the rows and is not private."
UNITS_MISMATCH = (
    "{found:,} units were found and {declared:,} are declared. Under replace-one the declared number is public and "
    "taken as true: mend the schema or the data."
)

UNREADABLE_NOTE = (
    "over a tenth of {names} could not be read and counts as missing: numbers are read as 1234.5, dates as 2024-02-29, "
    "categories as they are listed, all text as UTF-8."
)


def run_check(
    schema: SchemaFile,
    source: Source = None,
    refresh: Refresh = False,
    name: Name = None,
    disjoint: Disjoint = False,
    json: Json = False,
) -> None:
    """Register a data set, or show how it was registered.

    For the custodian alone: what is shown comes from the rows.
    """
    from discreet.custodian import Custodian
    from discreet.custodian.status import find_current_snapshot, snapshot_to_json
    from discreet.datasets.registration import make_address_absolute
    from discreet.schema import load_schema

    declared = load_schema(schema)
    snapshot = None if refresh else find_current_snapshot(declared)
    if snapshot is None:
        with terminal.show_stages() as progress:
            raw_source = None if source is None else make_address_absolute(source)
            snapshot = Custodian.check(schema, raw_source, name, disjoint, progress)
        message = f"Snapshot {snapshot.name} of {declared.name} is registered."
    elif source is not None or name is not None or disjoint:
        raise InvalidInput(f"{declared.name} is registered already; add --refresh to make a new snapshot of it")
    else:
        when = f"as snapshot {snapshot.name} of {snapshot.made}; --refresh reads its source again"
        message = f"{declared.name} is registered already, {when}."
    if json:
        terminal.print_json(snapshot_to_json(snapshot, declared))
    else:
        terminal.print_screen(message, PRIVATE_NOTE, *_render_snapshot(snapshot, declared))


def _render_snapshot(snapshot: Snapshot, schema: Schema) -> Iterator[RenderableType]:
    report = cast("Mapping[str, Any]", snapshot.report)
    declared = "" if schema.units is None else f" ({schema.units:,} declared)"
    pairs = {"rows read": f"{report['rows_read']:,}", "rows kept": f"{report['rows_kept']:,}"}
    if schema.unit is not None:
        pairs["rows without a unit"] = f"{report['without_unit']:,}"
    yield build_fields_table(pairs | {"units found": f"{report['units']:,}{declared}"})
    if schema.units not in (None, report["units"]):
        yield build_warning(UNITS_MISMATCH.format(found=report["units"], declared=schema.units))
    unreadable_columns = [
        name for name, counts in report["columns"].items() if 10 * counts["unreadable"] > report["rows_read"]
    ]
    if unreadable_columns:
        yield build_warning(UNREADABLE_NOTE.format(names=", ".join(unreadable_columns)))
    yield ""
    column_table = build_table("column", *COUNT_COLUMNS, right=COUNT_COLUMNS)
    for name, counts in report["columns"].items():
        column_table.add_row(build_text(name), *(f"{counts[count]:,}" for count in COUNT_COLUMNS))
    yield column_table


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
