"""Make the table, let everybody release it, measure every release with one yardstick and with both measures."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow.compute as pc
import pyarrow.csv as pa_csv

from benchmarks.anonymity.task import QUASI, ROW, SECRET, SUPPRESSED, K, T
from benchmarks.anonymity.yardstick import Loss, loss, read
from benchmarks.measure import Line, report
from benchmarks.query.environments import interpreter
from benchmarks.query.table import people
from benchmarks.seen import ROOT, Row, Seen, Table

MAKERS = {
    "generalise": ("discreet", "by_discreet", ("generalise",)),
    "mdav_id": ("discreet", "by_discreet", ("mdav_id",)),
    "anjana k": ("anjana", "by_anjana", ("k",)),
    "anjana t": ("anjana", "by_anjana", ("t",)),
}
"""By the name of the release: whose environment, which module, and with what words."""
TITLES = {
    "generalise": "discreet, generalise",
    "mdav_id": "discreet, mdav_id",
    "anjana k": "anjana",
    "anjana t": "t-close",
}
CLOSE = 1e-9
Told = Mapping[str, Any]


def made(rows: int, folder: Path) -> None:
    """The people of the other comparisons, income as a decile, and a number for every row."""
    table = people(rows)
    rank = pc.rank(table["income"], sort_keys="ascending", tiebreaker="first")
    table = table.append_column(SECRET, pc.divide(pc.multiply(pc.subtract(rank, 1), 10), rows).cast("int64"))
    table = table.append_column(ROW, pc.subtract(pc.rank(table["income"], tiebreaker="first"), 1).cast("int64"))
    pa_csv.write_csv(table.select([*QUASI, SECRET, ROW]), folder / "people.csv")


def told(whose: str, module: str, *words: object) -> Any:
    python = sys.executable if whose == "discreet" else interpreter(whose)
    command = [python, "-m", f"benchmarks.anonymity.{module}", *map(str, words)]
    done = subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    return json.loads(done.stdout.strip().splitlines()[-1])


def tables(rows: int, took: Mapping[str, Told], lost: Mapping[str, Loss]) -> Iterator[Table]:
    """What each took and lost, one opponent at a time."""
    for own, columns in (("generalise", ("generalise", "anjana k")), ("mdav_id", ("mdav_id", "anjana k"))):
        heads = tuple(TITLES[name] for name in columns)
        figures = (
            Row("time on the processor, s", tuple(took[name]["processor"] for name in columns)),
            Row("most memory, MB", tuple(took[name]["peak"] for name in columns)),
            Row("rows left out", tuple(lost[name].suppressed for name in columns)),
            Row("information lost (spread in a class)", tuple(lost[name].spread for name in columns)),
            Row("SSE of ages over SST", tuple(lost[name].ages for name in columns)),
            Row("rows alike, for the average row", tuple(lost[name].discernibility for name in columns)),
        )
        title = f"{rows:,} rows to k = {K}, at most {SUPPRESSED:.0%} left out: {own} beside anjana"
        yield Table(title, heads, figures, heads[0])


def measures(ours: Mapping[str, Told], theirs: Mapping[str, Told]) -> Table:
    """k, l and t of every release by both, and what measuring took."""
    rows = []
    for name in ours:
        rows += [Row(f"{name}: {each}", (ours[name][each], theirs[name][each]), "") for each in ("k", "l", "t")]
        rows.append(Row(f"{name}: seconds to measure", (ours[name]["seconds"], theirs[name]["seconds"])))
    return Table("the same releases, measured by both", ("discreet", "pycanon"), tuple(rows), "discreet")


def bars(ours: Mapping[str, Told], theirs: Mapping[str, Told]) -> list[Line]:
    """Both agree; what is claimed is so."""
    apart = [abs(ours[name][each] - theirs[name][each]) for name in ours for each in ("k", "l", "t")]
    kept = min(each["k"] for each in ours.values())
    return [
        Line(
            "k, l and t: the greatest difference from pycanon", max(apart), "", CLOSE, False, f"{len(apart)} measures"
        ),
        Line("the least k of all releases", kept, "", K, True),
        Line("anjana's t-close table: t of the earth mover's distance", ours["anjana t"]["t"], "", T, False),
    ]


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.anonymity", description=__doc__)
    parser.add_argument("--rows", type=int, default=10_000)
    rows = parser.parse_args().rows
    with tempfile.TemporaryDirectory(prefix="discreet-") as name:
        folder = Path(name)
        made(rows, folder)
        took = {each: told(whose, module, folder, *words) for each, (whose, module, words) in MAKERS.items()}
        original = read(folder / "people.csv")
        lost = {each: loss(original, read(folder / f"{each}.csv")) for each in MAKERS}
        ours = told("discreet", "by_discreet", folder, "measure", *MAKERS)
        theirs = told("pycanon", "by_pycanon", folder, *MAKERS)
    seen = Seen([*tables(rows, took, lost), measures(ours, theirs)])
    return report(lambda: bars(ours, theirs), seen=seen)


if __name__ == "__main__":
    sys.exit(main())
