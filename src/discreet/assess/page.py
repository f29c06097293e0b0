"""A page of one file: sentences, tables and pictures as HTML in which no text can do harm, and nothing is fetched."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from html import escape

from discreet.assess.charts import Chart, clean_text
from discreet.formatting import format_number, format_percent
from discreet.pictures import BLUE, INK, ORANGE


def build_html_page(title: str, parts: Iterable[str]) -> str:
    """The whole page; its parts are HTML already."""
    body = "\n".join(part for part in parts if part)
    return PAGE_TEMPLATE.format(title=escape_text(title), body=body, ink=INK, blue=BLUE, orange=ORANGE)


def escape_text(text: object) -> str:
    """Text that is text and nothing else."""
    return escape(clean_text(str(text), 2000))


def format_report_value(value: object) -> str:
    """A value as people write it."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {format_report_value(entry)}" for name, entry in value.items())
    if isinstance(value, list | tuple):
        return ", ".join(map(format_report_value, value))
    if isinstance(value, int | float | Fraction):
        return format_number(value)
    return str(value)


def format_report_share(share: float) -> str:
    """A share of 1 in percent."""
    return format_percent(share, 3)


def format_gallery(charts: Iterable[Chart]) -> str:
    """Pictures side by side where there is room."""
    return f'<div class="gallery">{"".join(f"<figure>{chart.to_svg()}</figure>" for chart in charts)}</div>'


def format_html_list(sentences: Iterable[str]) -> str:
    """One below the other."""
    return f"<ul>{''.join(f'<li>{escape_text(sentence)}</li>' for sentence in sentences)}</ul>"


def format_html_table(caption: str, heads: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """A table that scrolls by itself where it is too wide; nothing where it has no rows."""
    head = "".join(f'<th scope="col">{escape_text(name)}</th>' for name in heads)
    body = "".join(
        f'<tr><th scope="row">{escape_text(format_report_value(first))}</th>{_format_cells(rest)}</tr>'
        for first, *rest in rows
    )
    table_html = (
        f"<table><caption>{escape_text(caption)}</caption><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
    )
    return (
        f'<div class="wide" role="region" aria-label="{escape_text(caption)}" tabindex="0">{table_html}</div>'
        if rows
        else ""
    )


def _format_cells(values: Iterable[object]) -> str:
    return "".join(f"<td>{escape_text(format_report_value(value))}</td>" for value in values)


PAGE_TEMPLATE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="robots" content="noindex">
<title>{title}</title>
<style>
:root {{ color-scheme: light }}
body {{ font: 16px/1.5 system-ui, sans-serif; color: {ink}; margin: 0 auto; padding: 1rem; max-width: 68rem }}
h1 {{ font-size: 1.6rem; line-height: 1.2; overflow-wrap: anywhere }}
h2 {{ font-size: 1.2rem; margin: 2rem 0 .5rem }}
.keep {{ border: 2px solid {ink}; padding: .5rem .75rem; font-weight: 600 }}
.verdict {{ border-left: 4px solid {blue}; padding-left: 1rem }}
.warning {{ border-left: 4px solid {orange}; padding-left: .6rem }}
dl {{ display: flex; flex-wrap: wrap; gap: .5rem 2rem }}
dt {{ font-size: .85rem; color: #4b5563 }}
dd {{ margin: 0; overflow-wrap: anywhere }}
.gallery {{ display: flex; flex-wrap: wrap; gap: 1rem }}
figure {{ margin: 0; break-inside: avoid }}
svg {{ max-width: 100%; height: auto; overflow: visible }}
.wide {{
  overflow-x: auto; margin: 1rem 0;
  background: /* a shadow at each side where there is more to see */
    linear-gradient(to right, white 40%, transparent) left / 3rem 100% local,
    linear-gradient(to left, white 40%, transparent) right / 3rem 100% local,
    linear-gradient(to right, #9ca3af, transparent) left / 1rem 98% scroll,
    linear-gradient(to left, #9ca3af, transparent) right / 1rem 98% scroll;
  background-repeat: no-repeat;
}}
table {{ border-collapse: collapse; font-size: .9rem; font-variant-numeric: tabular-nums }}
caption {{ text-align: left; font-weight: 600 }}
th, td {{ padding: .2rem .7rem .2rem 0; text-align: right; border-bottom: 1px solid #d1d5db; font-weight: normal }}
td {{ white-space: nowrap }}
th:first-child {{ text-align: left }}
thead th {{ vertical-align: bottom; color: #4b5563 }}
@media print {{
  body {{ font-size: 11px; padding: 0 }}
  .wide {{ overflow: visible; background: none }}
  td {{ white-space: normal }}
  h2 {{ break-after: avoid }}
  tr {{ break-inside: avoid }}
}}
</style>
</head>
<body>
{body}
</body>
</html>
"""
