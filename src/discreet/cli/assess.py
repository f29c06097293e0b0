"""`discreet assess`: what a released file is worth and what it gives away."""

from __future__ import annotations

from typing import Annotated

import typer

from discreet.cli.options import Json

Original = Annotated[
    str,
    typer.Argument(metavar="ORIGINAL", help="The schema of the data set, or its rows in a file.", show_default=False),
]
Released = Annotated[
    str, typer.Argument(metavar="RELEASED", help="A released table, .csv or .parquet.", show_default=False)
]
Aligned = Annotated[bool, typer.Option("--aligned", help="Row i of the one file was made of row i of the other.")]
Quasi = Annotated[list[str] | None, typer.Option(metavar="COLUMN", help="A quasi-identifier, without a manifest.")]
Confidential = Annotated[
    list[str] | None, typer.Option(metavar="COLUMN", help="A confidential column, without a manifest.")
]
AssessmentReport = Annotated[str | None, typer.Option(metavar="FILE", help="Write a report too: .html or .json.")]
OverwriteReport = Annotated[bool, typer.Option("--force", help="Overwrite the report if it is there.")]


def run_assess(
    original: Original,
    released: Released,
    aligned: Aligned = False,
    quasi: Quasi = None,
    confidential: Confidential = None,
    report: AssessmentReport = None,
    force: OverwriteReport = False,
    json: Json = False,
) -> None:
    """Measure utility and risk of a released file beside its original; for the custodian alone."""
    from discreet.cli import show
    from discreet.custodian.assessing import assess_release

    with show.show_stages() as progress:
        roles = tuple(quasi or ()), tuple(confidential or ())
        assessment = assess_release(original, released, aligned, *roles, report, force, progress)
    if json:
        show.print_json(assessment.to_json())
    else:
        show.print_screen(
            show.build_fields_table(dict(assessment.summary)),
            show.build_text("For you alone: these are figures of the original records."),
        )
