"""`discreet init` and `discreet check`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from discreet.cli import terminal
from discreet.cli.terminal import Json, SchemaFile, build_fields_table, build_table, build_text, build_warning
from discreet.errors import InvalidInput

if TYPE_CHECKING:
    from rich.console import RenderableType

    from discreet.datasets.dataset_dir import Snapshot
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
    from discreet.datasets.registration import draft_schema, write_draft

    text = draft_schema(data) if output is None else write_draft(data, Path(output))
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
    from discreet.custodian.status import snapshot_to_json
    from discreet.datasets.integrity import find_current_snapshot
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
