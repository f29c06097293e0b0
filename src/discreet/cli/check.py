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

COUNTS = ("missing", "unreadable", "clipped")
PRIVATE = "For the custodian alone: what follows comes from the rows and is not private."
UNITS = (
    "{found:,} units were found and {declared:,} are declared. Under replace-one the declared number is public and "
    "taken as true: mend the schema or the data."
)

UNREAD = (
    "over a tenth of {names} could not be read and counts as missing: numbers are read as 1234.5, dates as 2024-02-29, "
    "categories as they are listed, all text as UTF-8."
)


def check(
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
    from discreet.custodian.drafting import from_anywhere
    from discreet.custodian.looking import current_snapshot
    from discreet.schema import load_schema

    declared = load_schema(schema)
    snapshot = None if refresh else current_snapshot(declared)
    if snapshot is None:
        with show.stages() as progress:
            raw = None if source is None else from_anywhere(source)
            snapshot = Custodian.check(schema, raw, name, disjoint, progress)
        said = f"Snapshot {snapshot.name} of {declared.name} is registered."
    elif source is not None or name is not None or disjoint:
        raise InvalidInput(f"{declared.name} is registered already; add --refresh to make a new snapshot of it")
    else:
        when = f"as snapshot {snapshot.name} of {snapshot.made}; --refresh reads its source again"
        said = f"{declared.name} is registered already, {when}."
    if json:
        show.document(snapshot_to_json(snapshot, declared))
    else:
        show.screen(said, PRIVATE, *_screen(snapshot, declared))


def _screen(snapshot: Snapshot, schema: Schema) -> Iterator[RenderableType]:
    from discreet.cli.show import facts, warning

    seen = cast("Mapping[str, Any]", snapshot.report)
    declared = "" if schema.units is None else f" ({schema.units:,} declared)"
    pairs = {"rows read": f"{seen['rows_read']:,}", "rows kept": f"{seen['rows_kept']:,}"}
    if schema.unit is not None:
        pairs["rows without a unit"] = f"{seen['without_unit']:,}"
    yield facts(pairs | {"units found": f"{seen['units']:,}{declared}"})
    if schema.units not in (None, seen["units"]):
        yield warning(UNITS.format(found=seen["units"], declared=schema.units))
    unread = [name for name, counts in seen["columns"].items() if 10 * counts["unreadable"] > seen["rows_read"]]
    if unread:
        yield warning(UNREAD.format(names=", ".join(unread)))
    yield ""
    yield _columns(seen["columns"])


def _columns(seen: Mapping[str, Mapping[str, int]]) -> Table:
    from discreet.cli.show import table, text

    made = table("column", *COUNTS, right=COUNTS)
    for name, counts in seen.items():
        made.add_row(text(name), *(f"{counts[count]:,}" for count in COUNTS))
    return made
