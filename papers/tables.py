"""The list of tables: what each is called, what it needs and how its rows come about."""

from __future__ import annotations

import difflib
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path

from discreet.errors import InvalidInput
from discreet.sdc.report_charts import Chart
from papers.rows import Row, build_not_reproducible

DOCUMENTS = {
    "000": "prior knowledge refinement",
    "001": "the thesis",
    "002": "linear refinement",
    "003": "the book",
    "004": "individual differential privacy",
}
MODULES = (
    "refinement",
    "chapter_3",
    "chapter_4",
    "chapter_6",
    "chapter_7",
    "linear_refinement",
    "book_chapter_2",
    "individual_privacy",
)
"""In the order in which the tables are shown; each has TABLES."""


@dataclass(frozen=True, slots=True)
class Data:
    """A folder of public files; without it what needs one is told as not there."""

    folder: Path | None

    def path(self, name: str) -> Path | None:
        """Where a file is, if it is there."""
        path = self.folder / name if self.folder else None
        return path if path and path.is_file() else None


@dataclass(frozen=True, slots=True)
class Table:
    """A table or a figure of a document: its name on the command line, its rows and its pictures.

    `rows` is called only where every file of `needs` is there; `pictures` gets those rows.
    """

    name: str
    title: str
    about: str
    rows: Callable[[Data], Iterator[Row]]
    pictures: Callable[[Sequence[Row]], list[Chart]] | None = None
    needs: tuple[str, ...] = ()

    @property
    def document(self) -> str:
        """The number of the document, which begins the name."""
        return self.name[:3]

    def missing(self, data: Data) -> tuple[str, ...]:
        """The files that it needs and that are not there."""
        return tuple(name for name in self.needs if data.path(name) is None)


@dataclass(frozen=True, slots=True)
class ReproducedTable:
    """A table with its rows; where its data are not there, one row that says so."""

    table: Table
    rows: tuple[Row, ...]
    missing: tuple[str, ...] = ()

    def to_json(self) -> list[Mapping[str, object]]:
        """A document for each row."""
        table_fields = {"document": self.table.document, "table": self.table.title}
        return [
            {"id": row.id, **table_fields, "cell": row.cell, "published": row.published}
            | {"obtained": row.obtained, "verdict": row.verdict, "note": row.note}
            for row in self.rows
        ]


def list_tables() -> tuple[Table, ...]:
    """All of them, in the order of the documents."""
    tables = [table for name in MODULES for table in import_module(f"papers.{name}").TABLES]
    return tuple(sorted(tables, key=lambda table: table.document))


def choose_tables(name: str | None) -> tuple[Table, ...]:
    """Those of that name, or whose name begins with it before a dash or a dot: 000 is a document, 001-3 a chapter."""
    every = list_tables()
    if name is None:
        return every
    matching = tuple(table for table in every if table.name == name or table.name.startswith((f"{name}-", f"{name}.")))
    if not matching:
        raise InvalidInput(_format_unknown_table(name, [table.name for table in every]))
    return matching


def open_data(folder: str | None) -> Data:
    """The folder that was named, else that of DISCREET_DATA, else none."""
    folder_name = folder if folder is not None else os.environ.get("DISCREET_DATA") or None
    if folder_name is not None and not Path(folder_name).is_dir():
        raise InvalidInput(f"the data folder {folder_name[:60]!r} is not there; name one that is, or leave it out")
    return Data(Path(folder_name) if folder_name is not None else None)


def reproduce(wanted: Sequence[Table], data: Data, progress: Callable[[str], None]) -> list[ReproducedTable]:
    """Each table in turn; refused at once where none has its data."""
    if all(table.missing(data) for table in wanted):
        needs = dict.fromkeys(name for table in wanted for name in table.missing(data))
        raise InvalidInput(
            f"{wanted[0].name} needs {' and '.join(needs)}; name the folder that has it with --data or in DISCREET_DATA"
        )
    results = []
    for number, table in enumerate(wanted, 1):
        progress(f"{table.document} {table.title}: {number} of {len(wanted)}")
        missing = table.missing(data)
        rows = (_build_left_out_row(table, missing),) if missing else tuple(table.rows(data))
        results.append(ReproducedTable(table, rows, missing))
    return results


def _build_left_out_row(table: Table, missing: Sequence[str]) -> Row:
    why = f"needs {' and '.join(missing)}; name the folder with --data or in DISCREET_DATA"
    return build_not_reproducible(f"{table.name}.left-out", "all of it", None, None, "data", why)


def _format_unknown_table(name: str, names: Sequence[str]) -> str:
    near = difflib.get_close_matches(name, names, 3, 0.5)
    hint = f"did you mean {' or '.join(near)}?" if near else f"allowed are a document, {', '.join(DOCUMENTS)}, or:"
    return f"no table is called {name[:40]!r}; {hint}" + ("" if near else f" {', '.join(names)}")
