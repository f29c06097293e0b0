"""Every table and figure of the five documents, computed anew beside the printed figure, with a verdict.

from papers import reproduced
"""

from __future__ import annotations

from collections.abc import Mapping

__all__ = ["reproduced"]


def reproduced(table: str | None = None, data: str | None = None) -> list[Mapping[str, object]]:
    """Compute the rows that `python -m papers --json` prints: of one table, a chapter, a document, or of all."""
    from papers.tables import choose_tables, open_data, reproduce

    found = reproduce(choose_tables(table), open_data(data), lambda _: None)
    return [row for each in found for row in each.to_json()]
