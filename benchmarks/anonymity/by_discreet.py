"""discreet: `... FOLDER generalise` or `... FOLDER mdav_id`; measures of tables: `... FOLDER measure NAME ...`."""

from __future__ import annotations

import csv
import json
import sys
import time
from pathlib import Path

import numpy as np

from benchmarks.anonymity.task import (
    MAPS,
    QUASI,
    ROW,
    SECRET,
    SUPPRESSED,
    WIDTHS,
    K,
    locate_release,
    locate_table,
    time_call,
)
from discreet import generalize, measure_anonymity
from discreet.sdc import mdav_id


def read_columns(file: Path) -> dict[str, object]:
    """Columns by name; whole numbers where all are."""
    with file.open(encoding="utf-8", newline="") as file_handle:
        head, *rows = csv.reader(file_handle)
    return {name: _parse_column(values) for name, values in zip(head, zip(*rows, strict=True), strict=True)}


def _parse_column(values: tuple[str, ...]) -> object:
    is_whole = all(value.lstrip("-").isdecimal() for value in values)
    return np.array([int(value) for value in values]) if is_whole else list(values)


def release_people(which: str, people: dict[str, object]) -> object:
    if which == "mdav_id":
        return mdav_id(people, K, list(QUASI))
    steps: dict[str, object] = {"age": list(WIDTHS)} | {name: list(maps) for name, maps in MAPS.items()}
    return generalize(people, K, list(QUASI), steps, loss="ncp", suppress=SUPPRESSED, confidential=[SECRET], keep=[ROW])


def measure_releases(names: list[str]) -> dict[str, object]:
    measures = {}
    for name in names:
        rows = read_columns(locate_release(name))
        start = time.perf_counter()
        anonymity = measure_anonymity(rows, list(QUASI), [SECRET])
        seconds = time.perf_counter() - start
        measures[name] = {"k": anonymity.k, "l": anonymity.l, "t": float(anonymity.t_emd or 0), "seconds": seconds}
    return measures


def write_release(safe: object, file: Path) -> None:
    names = [*QUASI, SECRET, ROW]
    with file.open("w", encoding="utf-8", newline="") as file_handle:
        writer = csv.writer(file_handle)
        writer.writerow(names)
        writer.writerows(zip(*(list(safe[name]) for name in names), strict=True))


if __name__ == "__main__":
    if sys.argv[2] == "measure":
        print(json.dumps(measure_releases(sys.argv[3:])))
    else:
        people_columns = read_columns(locate_table())
        release_people(
            sys.argv[2], {name: column[:100] for name, column in people_columns.items()}
        )  # compiled, as it is after the first
        write_release(time_call(lambda: release_people(sys.argv[2], people_columns)), locate_release(sys.argv[2]))
