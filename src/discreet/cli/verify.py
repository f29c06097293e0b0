"""`discreet verify`: whether a released file is what it says."""

from __future__ import annotations

from typing import Annotated

import typer

from discreet.cli.options import Json
from discreet.errors import Unsupported

ReleasedTable = Annotated[
    str, typer.Argument(metavar="OUT", help="A released table, .csv or .parquet.", show_default=False)
]
OriginalSchema = Annotated[
    str | None,
    typer.Option(metavar="SCHEMA", help="The schema of the data set it was made of; for the custodian alone."),
]
ClaimedQuasi = Annotated[
    list[str] | None, typer.Option(metavar="COLUMN", help="A quasi-identifier, without a manifest.")
]
ClaimedConfidential = Annotated[
    list[str] | None, typer.Option(metavar="COLUMN", help="A confidential column, without a manifest.")
]
ClaimedK = Annotated[int | None, typer.Option("-k", metavar="K", help="The k-anonymity to check, without a manifest.")]
ClaimedT = Annotated[str | None, typer.Option("-t", metavar="T", help="The t-closeness to check, without a manifest.")]


def run_verify(
    out: ReleasedTable,
    original: OriginalSchema = None,
    quasi: ClaimedQuasi = None,
    confidential: ClaimedConfidential = None,
    k: ClaimedK = None,
    t: ClaimedT = None,
    json: Json = False,
) -> None:
    """Measure a released file and check its claim; exit code 6 where it does not hold, 4 where nothing shows it.

    The claim and the columns come from the manifest beside the file, or from the options.
    """
    from discreet.cli import show
    from discreet.custodian.verifying import verify_release

    with show.show_stages() as progress:
        result = verify_release(out, original, tuple(quasi or ()), tuple(confidential or ()), k, t, progress)
    if json:
        show.print_json(result.to_json())
        if result.unshown is not None:
            raise typer.Exit(Unsupported.exit_code)
        return
    show.print_screen(show.build_text(result.words, "bold"), show.build_fields_table(result.measured_texts))
    if result.unshown is not None:
        raise Unsupported(result.unshown)
