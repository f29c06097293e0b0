"""`python -m papers`: the tables and figures of the documents, computed anew beside what is printed."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from rich.table import Table

from discreet.cli import terminal
from discreet.errors import ClaimFailed, DiscreetError
from discreet.sdc.report import format_report_value
from papers.page import COUNTED, check_page, count_verdicts, write_page
from papers.tables import ReproducedTable, choose_tables, open_data, reproduce


def main(words: Sequence[str]) -> int:
    """Compute what was named and print it; the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m papers",
        description="Compute the tables and figures of the five documents anew, each beside the printed one, with a "
        "verdict.",
    )
    parser.add_argument(
        "table",
        metavar="TABLE",
        nargs="?",
        help="one table, such as 000-table-5; a chapter, 001-3; a document, 002; all of them by default",
    )
    parser.add_argument("--html", metavar="FILE", help="write a page with pictures too")
    parser.add_argument("--data", metavar="DIR", help="where census.csv, adult.csv and eia.csv are; else DISCREET_DATA")
    parser.add_argument("--force", action="store_true", help="overwrite the page if it is there")
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    options = parser.parse_args(words)
    try:
        return _print_tables(options)
    except DiscreetError as error:
        print(f"papers: {error}", file=sys.stderr)
        return error.exit_code


def _print_tables(options: argparse.Namespace) -> int:
    page = None if options.html is None else check_page(options.html, options.force)
    wanted, folder = choose_tables(options.table), open_data(options.data)
    with terminal.show_stages() as progress:
        results = reproduce(wanted, folder, progress)
        if page is not None:
            progress("drawing")
            write_page(page, results)
    if options.json:
        terminal.print_json([row for result in results for row in result.to_json()])
    else:
        terminal.print_screen(
            *_format_rows(results) if options.table else [_format_summary(results)], *_format_totals(results)
        )
    differs = any(row.verdict == "differs" for result in results for row in result.rows)
    return ClaimFailed.exit_code if differs else 0


def _format_summary(results: Sequence[ReproducedTable]) -> Table:
    """A line for each table: how many figures have which verdict."""
    names = ("equal", "not printed", "sampling", "corrected", "not reproducible", "differs")
    summary = terminal.build_table("table", "what it is", *names, right=names)
    for result in results:
        counts = count_verdicts(result.rows)
        numbers = [str(counts.get(verdict) or "") for verdict in COUNTED]
        summary.add_row(result.table.name, terminal.build_text(result.table.title), *numbers)
    return summary


def _format_rows(results: Sequence[ReproducedTable]) -> list[Table | str]:
    """Every figure of each table."""
    parts: list[Table | str] = []
    for result in results:
        figures = terminal.build_table(
            "figure", "printed", "obtained", "verdict", "note", right=("printed", "obtained")
        )
        for row in result.rows:
            cells = (
                row.cell,
                format_report_value(row.published),
                format_report_value(row.obtained),
                row.verdict,
                row.note,
            )
            figures.add_row(*map(terminal.build_text, cells))
        parts += [f"{result.table.name}: {result.table.title}. {result.table.about}", figures, ""]
    return parts


def _format_totals(results: Sequence[ReproducedTable]) -> list[str]:
    """The verdicts in one line, and what could not be looked at for want of data."""
    rows = [row for result in results if not result.missing for row in result.rows]
    total = ", ".join(f"{count} {verdict}" for verdict, count in count_verdicts(rows).items())
    missing = [f"{result.table.name}: {result.rows[0].note}." for result in results if result.missing]
    return [f"{len(rows):,} figures: {total}.", *missing]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
