"""The demo's page: HTML of one file in which no text can do harm, and nothing is fetched from elsewhere."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from html import escape
from itertools import count
from pathlib import Path

STYLE = Path(__file__).with_name("page.css")
POLICY = "default-src 'none'; style-src 'unsafe-inline'"
_figures = count()


def format_page(title: str, lead: str, parts: Iterable[str], foot: str) -> str:
    """The whole page; its parts are HTML already."""
    head = (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(title)}</title>\n<style>\n{STYLE.read_text(encoding='utf-8')}</style>\n</head>\n"
    )
    top = f'<header><h1>{escape(title)}</h1><p class="lead">{escape(lead)}</p></header>'
    body = "\n".join(parts)
    return f"{head}<body>\n{top}\n<main>\n{body}\n</main>\n<footer>{escape(foot)}</footer>\n</body>\n</html>\n"


class Html(str):
    """Text that is HTML already."""

    __slots__ = ()


def format_question(title: str, sql: str, hint: str) -> Html:
    """A question as a cell of a table: what it is, how it is written, what was known."""
    hint_html = f'<span class="soft">{escape(hint)}</span>' if hint else ""
    return Html(f"<b>{escape(title)}</b><br><code>{escape(sql)}</code><br>{hint_html}")


def format_section(title: str, *parts: str) -> str:
    """A card with a title."""
    return f"<section><h2>{escape(title)}</h2>{''.join(parts)}</section>"


def format_part(title: str, words: str) -> str:
    """Where something new begins."""
    return f'<h2 class="part">{escape(title)}</h2>{format_paragraph(words)}'


def format_paragraph(words: str, kind: str = "") -> str:
    """A paragraph of plain text."""
    return f"<p{_format_class(kind)}>{escape(words)}</p>"


def format_heading(words: str) -> str:
    """A small one within a card."""
    return f"<h3>{escape(words)}</h3>"


def format_code(text: str) -> str:
    """What one types, such as SQL or commands."""
    return f"<pre>{escape(text)}</pre>"


def format_quote(words: str, kind: str = "") -> str:
    """The product's own words."""
    return f"<blockquote{_format_class(kind)}>{escape(words)}</blockquote>"


def format_figure(svg: str, label: str, kind: str = "") -> str:
    """A picture, whose names inside are made its own: several pictures share a page."""
    prefix = f"f{next(_figures)}-"
    prefixed_svg = re.sub(r'\bid="([^"]+)"', rf'id="{prefix}\1"', svg)
    prefixed_svg = re.sub(r"url\(#([^)]+)\)", rf"url(#{prefix}\1)", prefixed_svg)
    return f'<figure{_format_class(kind)} role="img" aria-label="{escape(label)}">{prefixed_svg}</figure>'


def format_facts(pairs: dict[str, str]) -> str:
    """A few figures side by side, each above what it is."""
    items = "".join(f"<li><b>{escape(number)}</b>{escape(words)}</li>" for words, number in pairs.items())
    return f'<ul class="facts">{items}</ul>'


def format_table(heads: Sequence[str], rows: Iterable[Sequence[str]], numbers: Sequence[str] = ()) -> str:
    """A table; the columns in `numbers` stand to the right, and below the others where there is little room."""
    kinds = ["number" if name in numbers else "" for name in heads]
    head = "".join(
        f'<th scope="col"{_format_class(kind)}>{escape(name)}</th>' for name, kind in zip(heads, kinds, strict=True)
    )
    body = "".join(f"<tr>{_format_cells(row, kinds, heads)}</tr>" for row in rows)
    kind = ' class="stacked"' if numbers else ""
    return f'<div class="wide"><table{kind}><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'


def format_links(pairs: dict[str, str]) -> str:
    """Files to open, by what they are."""
    anchors = "".join(f'<a href="{escape(path)}">{escape(name)}</a>' for name, path in pairs.items())
    return f"<nav>{anchors}</nav>"


def format_side_by_side(*parts: str) -> str:
    """Where there is room; one below the other where there is not."""
    cells = "".join(f"<div>{one}</div>" for one in parts)
    return f'<div class="two">{cells}</div>'


def format_list(sentences: Iterable[str]) -> str:
    """One below the other."""
    items = "".join(f"<li>{escape(one)}</li>" for one in sentences)
    return f"<ul>{items}</ul>"


def _format_cells(row: Sequence[str], kinds: Sequence[str], heads: Sequence[str]) -> str:
    cells = zip(row, kinds, heads, strict=True)
    return "".join(
        f'<td{_format_class(kind)} data-name="{escape(head)}">{_format_text(cell)}</td>' for cell, kind, head in cells
    )


def _format_text(cell: str) -> str:
    return cell if isinstance(cell, Html) else escape(cell)


def _format_class(kind: str) -> str:
    return f' class="{kind}"' if kind else ""
