"""The two tables, as whole codes with public domains: numbers stand for themselves, names by their places."""

from __future__ import annotations

import csv
import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

Codes = NDArray[np.int64]
FOLDER = Path(os.environ.get("DISCREET_DATA", Path(__file__).parents[3] / "shared" / "data"))
CENSUS = ("FICA", "FEDTAX", "INTVAL", "POTHVAL")
NUMBERS = {
    "age": (17, 90),
    "fnlwgt": (0, 1_500_000),
    "education_num": (1, 16),
    "capital_gain": (0, 99_999),
    "capital_loss": (0, 5_000),
    "hours_per_week": (1, 99),
}
"""Adult's numbers and what is publicly possible."""
EIGHT = ("age", "workclass", "education", "marital_status", "occupation", "sex", "hours_per_week", "salary_class")
HEAPED = ("age", "capital_gain", "capital_loss", "sex", "hours_per_week", "salary_class")
"""Among them two columns that are 0 for nearly everybody."""
BINS = 16
TESTED = 5
"""One row of so many is held out where a model is learnt."""


@dataclass(frozen=True)
class Field:
    """One column and its public domain; names have labels."""

    name: str
    lower: int
    upper: int
    labels: tuple[str, ...] = ()

    @property
    def width(self) -> int:
        return self.upper - self.lower

    @property
    def bins(self) -> int:
        """Of equal width for numbers, one for each name."""
        return len(self.labels) or min(BINS, self.width + 1)

    def to_bins(self, codes: Codes) -> Codes:
        binned: Codes = (codes - self.lower) * self.bins // (self.width + 1)
        return binned

    def spread(self, binned: Codes, draw: np.random.Generator) -> Codes:
        """Codes of bins, each anywhere within its own."""
        edges = self.lower + -(-np.arange(self.bins + 1) * (self.width + 1) // self.bins)
        return draw.integers(edges[binned], edges[binned + 1])

    def format_schema_line(self) -> str:
        """Its line of a schema; nothing is missing, so that it does not matter what that would stand for."""
        if self.labels:
            listed = ", ".join(map(repr, self.labels))
            return f"  {self.name}: {{kind: nominal, categories: [{listed}], missing: {self.labels[0]!r}}}"
        return f"  {self.name}: {{kind: integer, lower: {self.lower}, upper: {self.upper}, missing: {self.lower}}}"


@dataclass(frozen=True, eq=False)
class Table:
    """A row of `codes` for each field; a model is to tell whether `target` is over `above`."""

    name: str
    fields: tuple[Field, ...]
    codes: Codes
    target: str
    above: int

    @property
    def rows(self) -> int:
        return self.codes.shape[1]

    @property
    def numbers(self) -> list[int]:
        return [place for place, field in enumerate(self.fields) if not field.labels]

    def to_bins(self, codes: Codes) -> Codes:
        """The bins of a release's codes."""
        return np.stack([field.to_bins(column) for field, column in zip(self.fields, codes, strict=True)])

    def split_for_learning(self) -> tuple[Table, Table]:
        """What is learnt from, and what is tested on."""
        is_test = np.random.Generator(np.random.PCG64(5)).permutation(self.rows) < self.rows // TESTED
        return replace(self, codes=self.codes[:, ~is_test]), replace(self, codes=self.codes[:, is_test])

    def select(self, name: str, columns: Sequence[str], target: str, above: int) -> Table:
        """Some of its columns, and what a model is to tell of them."""
        places = [place for place, field in enumerate(self.fields) if field.name in columns]
        return Table(name, tuple(self.fields[place] for place in places), self.codes[places], target, above)

    def write(self, folder: Path) -> Path:
        """The table and its schema in a folder of its own."""
        folder.mkdir(parents=True)
        columns = {field.name: _label_codes(field, codes) for field, codes in zip(self.fields, self.codes, strict=True)}
        pq.write_table(pa.table(columns), folder / "table.parquet")
        lines = ["name: table", "source: table.parquet", "neighbours: replace-one", f"units: {self.rows}"]
        lines += ["models: [dp, approx-dp]", "budget: {epsilon: 1000000, delta: 0.5}", "columns:"]
        lines += [field.format_schema_line() for field in self.fields]
        (folder / "schema.yaml").write_text("\n".join(lines) + "\n", encoding="utf-8")
        return folder / "schema.yaml"

    def read(self, file: Path) -> Codes:
        """The codes of a release of it."""
        released = pq.read_table(file)
        return np.stack([_parse_codes(field, released[field.name].to_numpy()) for field in self.fields])


def read_census() -> Table:
    """The four attributes of chapter 6, each up to one and a half of its greatest."""
    columns = _read_columns("census.csv")
    codes = [np.array([round(float(value)) for value in columns[name]]) for name in CENSUS]
    fields = [Field(name, 0, round(1.5 * column.max())) for name, column in zip(CENSUS, codes, strict=True)]
    return Table("census", tuple(fields), np.stack(codes), CENSUS[0], int(np.median(codes[0])))


def read_adult() -> Table:
    """All fifteen columns; a name's categories are those that occur."""
    fields, codes = [], []
    for name, values in _read_columns("adult.csv").items():
        labels = () if name in NUMBERS else tuple(sorted(set(values)))
        fields.append(Field(name, *NUMBERS.get(name, (0, len(labels) - 1)), labels))
        codes.append(np.array([int(v) for v in values]) if not labels else _parse_codes(fields[-1], np.array(values)))
    return Table("adult", tuple(fields), np.stack(codes), "salary_class", 0)


def _read_columns(name: str) -> dict[str, tuple[str, ...]]:
    with (FOLDER / name).open(encoding="utf-8", newline="") as file:
        head, *records = csv.reader(file)
    names = (name.replace("-", "_") for name in head)
    return dict(zip(names, zip(*records, strict=True), strict=True))


def _label_codes(field: Field, codes: Codes) -> NDArray[np.generic]:
    return np.array(field.labels)[codes] if field.labels else codes


def _parse_codes(field: Field, values: NDArray[np.generic]) -> Codes:
    if not field.labels:
        return values.astype(np.int64)
    places = {label: place for place, label in enumerate(field.labels)}
    return np.array([places[str(value)] for value in values], dtype=np.int64)
