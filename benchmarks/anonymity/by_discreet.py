"""discreet: `... FOLDER generalise` or `... FOLDER mdav_id`; measures of tables: `... FOLDER measure NAME ...`."""

from __future__ import annotations

import csv
import json
import sys
import time
from pathlib import Path

import numpy as np

from benchmarks.anonymity.task import MAPS, QUASI, ROW, SECRET, SUPPRESSED, WIDTHS, K, released, table, timed
from discreet import generalize, measure_anonymity
from discreet.sdc import mdav_id


def read(file: Path) -> dict[str, object]:
    """Columns by name; whole numbers where all are."""
    with file.open(encoding="utf-8", newline="") as opened:
        head, *rows = csv.reader(opened)
    return {name: _column(values) for name, values in zip(head, zip(*rows, strict=True), strict=True)}


def _column(values: tuple[str, ...]) -> object:
    whole = all(value.lstrip("-").isdecimal() for value in values)
    return np.array([int(value) for value in values]) if whole else list(values)


def made(which: str, people: dict[str, object]) -> object:
    if which == "mdav_id":
        return mdav_id(people, K, list(QUASI))
    steps: dict[str, object] = {"age": list(WIDTHS)} | {name: list(maps) for name, maps in MAPS.items()}
    return generalize(people, K, list(QUASI), steps, loss="ncp", suppress=SUPPRESSED, confidential=[SECRET], keep=[ROW])


def measured(names: list[str]) -> dict[str, object]:
    found = {}
    for name in names:
        rows = read(released(name))
        start = time.perf_counter()
        seen = measure_anonymity(rows, list(QUASI), [SECRET])
        took = time.perf_counter() - start
        found[name] = {"k": seen.k, "l": seen.l, "t": float(seen.t_emd or 0), "seconds": took}
    return found


def write(safe: object, file: Path) -> None:
    names = [*QUASI, SECRET, ROW]
    with file.open("w", encoding="utf-8", newline="") as opened:
        writer = csv.writer(opened)
        writer.writerow(names)
        writer.writerows(zip(*(list(safe[name]) for name in names), strict=True))


if __name__ == "__main__":
    if sys.argv[2] == "measure":
        print(json.dumps(measured(sys.argv[3:])))
    else:
        given = read(table())
        made(sys.argv[2], {name: column[:100] for name, column in given.items()})  # compiled, as it is after the first
        write(timed(lambda: made(sys.argv[2], given)), released(sys.argv[2]))
