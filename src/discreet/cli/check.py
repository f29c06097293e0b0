"""`discreet check`: the custodian's step, which turns a source into a snapshot."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from discreet.cli.options import Json, SchemaFile
from discreet.errors import InvalidInput

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from rich.console import RenderableType
    from rich.table import Table

    from discreet.custodian.place import Snapshot
    from discreet.schema import Schema

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
    from discreet.cli import show
    from discreet.custodian import Custodian
    from discreet.custodian.document import snapshot_to_json
    from discreet.custodian.drafting import make_address_absolute
    from discreet.custodian.looking import find_current_snapshot
    from discreet.schema import load_schema

    declared = load_schema(schema)
    snapshot = None if refresh else find_current_snapshot(declared)
    if snapshot is None:
        with show.show_stages() as progress:
            raw_source = None if source is None else make_address_absolute(source)
            snapshot = Custodian.check(schema, raw_source, name, disjoint, progress)
        message = f"Snapshot {snapshot.name} of {declared.name} is registered."
    elif source is not None or name is not None or disjoint:
        raise InvalidInput(f"{declared.name} is registered already; add --refresh to make a new snapshot of it")
    else:
        when = f"as snapshot {snapshot.name} of {snapshot.made}; --refresh reads its source again"
        message = f"{declared.name} is registered already, {when}."
    if json:
        show.print_json(snapshot_to_json(snapshot, declared))
    else:
        show.print_screen(message, PRIVATE_NOTE, *_render_snapshot(snapshot, declared))


def _render_snapshot(snapshot: Snapshot, schema: Schema) -> Iterator[RenderableType]:
    from discreet.cli.show import build_fields_table, build_warning

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
    yield _build_column_table(report["columns"])


def _build_column_table(column_counts: Mapping[str, Mapping[str, int]]) -> Table:
    from discreet.cli.show import build_table, build_text

    column_table = build_table("column", *COUNT_COLUMNS, right=COUNT_COLUMNS)
    for name, counts in column_counts.items():
        column_table.add_row(build_text(name), *(f"{counts[count]:,}" for count in COUNT_COLUMNS))
    return column_table
