"""Markdown that the generated pages are made of."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def format_table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table, or nothing where there are no rows; a cell is one line, and a bar in it does not end it."""
    lines = [_format_line(row) for row in rows]
    return "\n".join([_format_line(head), "|---" * len(head) + "|", *lines]) + "\n" if lines else ""


def _format_line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(' '.join(cell.replace('|', chr(92) + '|').split()) for cell in cells)} |"


def format_code(text: object) -> str:
    """A piece of code in a sentence."""
    return f"`{text}`"


def format_block(text: str, language: str) -> str:
    """A fenced block."""
    return f"```{language}\n{text.rstrip()}\n```\n"


def join_parts(*parts: str) -> str:
    """Parts with an empty line between them; empty ones are left out."""
    return "\n\n".join(part.strip("\n") for part in parts if part.strip()) + "\n"


def get_first_paragraph(text: str) -> str:
    """The first paragraph of a docstring, on one line."""
    return " ".join(text.strip().split("\n\n")[0].split())
