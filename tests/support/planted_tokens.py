"""A table with something in every cell that can be told wherever it turns up, and what looks for it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import date, timedelta
from functools import cached_property
from pathlib import Path
from random import Random
from string import ascii_lowercase, digits

ROWS = 60
SEED = "a token in every cell"
WINDOW = 12
"""So many characters of a token are enough to tell it; a message may cut it."""
RUN = re.compile(f"[0-9a-z]{{{WINDOW},}}")
SCHEMA = """\
name: {name}
source: planted.csv
neighbours: replace-one
units: {rows}
unit: {{column: person, rows: 1}}
budget: {{epsilon: 1000, delta: 0.1}}
models: {models}
individual_dp_reason: to see whether it tells a cell
individual_queries: yes
partition: ward
columns:
  person: {{role: identifier}}
  code: {{kind: integer, lower: 0, upper: 9000000000000, missing: 0, role: quasi-identifier}}
  paid: {{kind: number, lower: 0, upper: 99999999, step: 0.0001, role: confidential}}
  day: {{kind: date, lower: 0001-01-01, upper: 9999-12-31, role: confidential}}
  stay: {{kind: integer, lower: 0, upper: 365, missing: 0, role: quasi-identifier}}
  ward: {{kind: nominal, categories: [north, south], role: quasi-identifier}}
  grade: {{kind: ordinal, categories: [low, middle, high], role: confidential}}
  cured: {{kind: boolean}}
  town: {{kind: nominal, keys: private}}
"""
HEADER = "person,code,paid,day,stay,ward,grade,cured,town,remark"


@dataclass(frozen=True)
class PlantedCells:
    """The cells: texts, numbers by their decimal digits, and dates."""

    texts: tuple[str, ...]
    numbers: tuple[str, ...]
    dates: tuple[str, ...]

    def find_cells(self, text: str) -> list[str]:
        """Every cell that a text shows: whole or cut, in capitals, with its digits in groups."""
        plain = text.lower()
        digits_joined = plain.replace(",", "").replace("_", "").replace("\u202f", "")
        parts = {part for run in RUN.findall(plain) for part in _list_windows(run)}
        fragments = sorted({self._fragments[part] for part in parts & self._fragments.keys()})
        return (
            fragments
            + [cell for cell in self.numbers if cell in digits_joined]
            + [cell for cell in self.dates if cell in plain]
        )

    @cached_property
    def _fragments(self) -> dict[str, str]:
        return {part: one for one in self.texts for part in _list_windows(one)}


def _list_windows(run: str) -> list[str]:
    return [run[i : i + WINDOW] for i in range(len(run) - WINDOW + 1)]


def plant_tables(folder: Path) -> PlantedCells:
    """Write the table and the schemas of two data sets of it: `planted`, and `weaker` with individual DP."""
    generator = Random(SEED)
    rows = [_generate_row(number, generator) for number in range(ROWS)]
    text = "\n".join([HEADER, *(",".join(row) for row in rows), ""])
    (folder / "planted.csv").write_text(text)
    for name, models in (("planted", "[dp, approx-dp]"), ("weaker", "[dp, individual-dp]")):
        schema = SCHEMA.format(name=name, rows=ROWS, models=models)
        lines_kept = [line for line in schema.splitlines() if name == "weaker" or "individual_dp_reason" not in line]
        (folder / f"{name}.yaml").write_text("\n".join([*lines_kept, ""]))
    cells = {cell for row in rows for cell in row} - PUBLIC
    numbers = {cell for cell in cells if cell.replace(".", "").isdigit()}
    dates = {cell for cell in cells if cell.count("-") == 2}
    return PlantedCells(tuple(sorted(cells - numbers - dates)), tuple(sorted(numbers)), tuple(sorted(dates)))


PUBLIC = {"north", "south", "low", "middle", "high", "true", "false", "Bath", *map(str, range(366))}
"""Values that the schema names, short numbers, and a town that so many share that it may be told."""


def _generate_row(number: int, generator: Random) -> list[str]:
    """A person's cells: in every second row those with a public list of values hold what is not on it."""
    is_named = number % 2 == 0

    def token() -> str:
        return "q" + "".join(generator.choice(ascii_lowercase + digits) for _ in range(25))

    code = str(generator.randrange(10**12, 9 * 10**12)) if number % 6 else token()
    paid = f"{generator.randrange(10**7, 10**8 - 1)}.{generator.randrange(1000, 10000)}" if number % 5 else token()
    day = (date(1, 1, 1) + timedelta(generator.randrange(700_000))).isoformat() if number % 4 == 0 else token()
    lists = [generator.choice(one) for one in (("north", "south"), ("low", "middle", "high"), ("true", "false"))]
    lists = lists if is_named else [token() for _ in lists]
    return [
        token(),
        code,
        paid,
        day,
        str(number) if is_named else token(),
        *lists,
        "Bath" if is_named else token(),
        token(),
    ]
