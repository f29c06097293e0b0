"""`discreet verify`: whether a released file is what it says."""

from __future__ import annotations

from typing import Annotated

import typer

from discreet.cli.options import Json
from discreet.errors import Unsupported

Released = Annotated[str, typer.Argument(metavar="OUT", help="A released table, .csv or .parquet.", show_default=False)]
Original = Annotated[
    str | None,
    typer.Option(metavar="SCHEMA", help="The schema of the data set it was made of; for the custodian alone."),
]
Quasi = Annotated[list[str] | None, typer.Option(metavar="COLUMN", help="A quasi-identifier, without a manifest.")]
Confidential = Annotated[
    list[str] | None, typer.Option(metavar="COLUMN", help="A confidential column, without a manifest.")
]
K = Annotated[int | None, typer.Option("-k", metavar="K", help="The k-anonymity to check, without a manifest.")]
T = Annotated[str | None, typer.Option("-t", metavar="T", help="The t-closeness to check, without a manifest.")]


def verify(
    out: Released,
    original: Original = None,
    quasi: Quasi = None,
    confidential: Confidential = None,
    k: K = None,
    t: T = None,
    json: Json = False,
) -> None:
    """Measure a released file and check its claim; exit code 6 where it does not hold, 4 where nothing shows it.

    The claim and the columns come from the manifest beside the file, or from the options.
    """
    from discreet.cli import show
    from discreet.custodian.verifying import verify_release

    with show.stages() as progress:
        found = verify_release(out, original, tuple(quasi or ()), tuple(confidential or ()), k, t, progress)
    if json:
        show.document(found.to_json())
        if found.unshown is not None:
            raise typer.Exit(Unsupported.exit_code)
        return
    show.screen(show.text(found.words, "bold"), show.facts(found.told))
    if found.unshown is not None:
        raise Unsupported(found.unshown)
