"""All that came out on one page: verdicts in numbers, then each table with its pictures. Nothing is fetched."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from importlib.util import find_spec
from pathlib import Path

from discreet.charts import MISSING_PACKAGES, write_atomically
from discreet.errors import InvalidInput, Unsupported
from discreet.sdc.report import build_html_page, escape_text, format_gallery, format_html_list, format_html_table
from papers.rows import VERDICTS, Row
from papers.tables import DOCUMENTS, ReproducedTable, Table

TITLE = "The documents, computed anew"
STYLE = """<style>
.figures td { white-space: normal; vertical-align: top }
.figures th { vertical-align: top }
.figures th[scope=row] { min-width: 13rem }
.figures :is(td, th):nth-child(n + 4) { text-align: left; padding-left: .7rem }
.figures td:nth-child(4) { white-space: nowrap }
.figures td:last-child { min-width: 16rem }
</style>"""
UNPRINTED = "not printed, reckoned twice"
COUNTED = ("equal", UNPRINTED, *VERDICTS[1:])
MEANING = (
    "equal: what comes out is what is printed, to its last digit or within the share that is told.",
    "equal, where nothing is printed: what follows from the document comes out by two ways of reckoning.",
    "equal within sampling error: both figures are means of random runs, and agree within the share that is told.",
    "corrected: the document is wrong; what is right stands beside it, and why.",
    "not reproducible: a single random run, a curve without figures, data that are not to be had, settings not told.",
    "differs: never; it would be a fault of the program.",
)


def check_page(path: str, force: bool) -> Path:
    """Where the page goes, refused at once where none could be written."""
    target = Path(path)
    if target.suffix.lower() != ".html":
        raise InvalidInput(f"the page's name ends in .html; {target.name[:40]!r} does not")
    if not target.parent.is_dir():
        raise InvalidInput(f"the folder for the page {target.name[:40]!r} does not exist; make it first")
    if target.exists() and not force:
        raise InvalidInput(f"{target.name[:40]!r} is there already; name another, or overwrite it with --force")
    if find_spec("vl_convert") is None or find_spec("altair") is None:
        raise Unsupported(MISSING_PACKAGES)
    return target


def write_page(target: Path, results: Sequence[ReproducedTable]) -> None:
    """Write the page, whole or not at all."""
    write_atomically(target, build_html_page(TITLE, _format_parts(results)).encode(), "page")


def count_verdicts(rows: Iterable[Row]) -> dict[str, int]:
    """How many rows have each verdict, what is not printed apart; "differs" only where there is one."""
    counts = Counter(UNPRINTED if row.verdict == "equal" and row.published is None else row.verdict for row in rows)
    return {name: counts[name] for name in COUNTED if counts[name] or name != "differs"}


def _format_parts(results: Sequence[ReproducedTable]) -> list[str]:
    parts = [STYLE, f"<h1>{TITLE}</h1>", format_html_list(MEANING), _format_summary(results), _format_contents(results)]
    for each in results:
        parts += [
            f'<h2 id="{escape_text(each.table.name)}">{_format_heading(each.table)}</h2>',
            f"<p>{escape_text(each.table.about)}</p>",
        ]
        parts += _format_body(each)
    return parts


def _format_contents(results: Sequence[ReproducedTable]) -> str:
    """A link to each table, a line for each document."""
    lines = []
    for document in dict.fromkeys(each.table.document for each in results):
        tables = [each.table for each in results if each.table.document == document]
        links = ", ".join(f'<a href="#{escape_text(table.name)}">{escape_text(table.title)}</a>' for table in tables)
        lines.append(f"<p>{escape_text(document)}: {links}</p>")
    return f"<nav>{''.join(lines)}</nav>"


def _format_heading(each: Table) -> str:
    return escape_text(f"{each.document} {each.title}")


def _format_summary(results: Sequence[ReproducedTable]) -> str:
    rows = []
    for document in dict.fromkeys(each.table.document for each in results):
        counts = count_verdicts(row for each in results if each.table.document == document for row in each.rows)
        rows.append([f"{document}: {DOCUMENTS[document]}", *(counts.get(name, 0) for name in COUNTED)])
    return format_html_table("How many figures of each document", ["document", *COUNTED], rows)


def _format_body(each: ReproducedTable) -> list[str]:
    pictures = each.table.pictures(each.rows) if each.table.pictures and not each.missing else []
    rows = [(row.cell, row.published, row.obtained, row.verdict, row.note) for row in each.rows]
    heads = ("figure", "printed", "obtained", "verdict", "note")
    figures = f'<div class="figures">{format_html_table(each.table.title, heads, rows)}</div>'
    return [format_gallery(pictures) if pictures else "", figures]
