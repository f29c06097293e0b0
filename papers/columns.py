"""Columns of the public files that the printed tables were made of."""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from discreet.errors import InvalidInput
from discreet.sdc.table import Floats
from papers.tables import Data

QUASI = ("AFNLWGT", "AGI", "EMCONTRB", "FEDTAX", "PTOTVAL", "STATETAX")
CONFIDENTIAL = ("TAXINC", "POTHVAL", "INTVAL", "PEARNVAL", "FICA", "WSALVAL", "ERNVAL")
"""The Census file: A1 to A6, and A7 to A13."""


def read_texts(data: Data, file: str, names: Sequence[str]) -> dict[str, list[str]]:
    """The columns of these names as they are written; the file is there, for the table said that it needs it."""
    path = data.path(file)
    assert path is not None
    rows = _read_rows(path)
    missing = [name for name in names if name not in rows[0]]
    if missing:
        raise InvalidInput(f"{file} has no column {missing[0]!r}; this table needs {', '.join(names)}")
    places = [rows[0].index(name) for name in names]
    if any(len(row) != len(rows[0]) for row in rows):
        raise InvalidInput(f"not all lines of {file} have as many values as its first line names")
    return {name: [row[place] for row in rows[1:]] for name, place in zip(names, places, strict=True)}


def read_numbers(data: Data, file: str, names: Sequence[str]) -> dict[str, Floats]:
    """The columns of these names, which hold numbers alone."""
    texts = read_texts(data, file, names)
    try:
        return {name: np.array(values, dtype=np.float64) for name, values in texts.items()}
    except ValueError:
        raise InvalidInput(f"the columns {', '.join(names)} of {file} must hold numbers alone") from None


def read_census(data: Data) -> Mapping[str, Floats]:
    """All of the Census file, A1 to A13."""
    return read_numbers(data, "census.csv", (*QUASI, *CONFIDENTIAL))


def _read_rows(path: Path) -> list[list[str]]:
    try:
        with path.open(newline="", encoding="utf-8") as lines:
            rows = [row for row in csv.reader(lines) if row]
    except (OSError, UnicodeDecodeError, csv.Error):
        raise InvalidInput(f"{path.name} cannot be read as a CSV file") from None
    if len(rows) < 2:
        raise InvalidInput(f"{path.name} must have a line of names and at least one of values")
    return rows
